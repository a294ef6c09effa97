//! Problems drawn in the shader's source: the lines that they are about, and what decides them.

use super::{Problem, Shown, Text, in_source};
use coop_ir::Module;
use coop_ir::source::SourceMap;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan};

/// The most lines of text that one problem takes. What does not fit is left to the disassembly.
pub(super) const MOST_LINES: usize = 15;

/// How many lines of source are labelled at most, and how many stand around each: the first that fits is taken.
const LAYOUTS: [(usize, usize); 5] = [(4, 1), (3, 1), (2, 1), (2, 0), (1, 0)];

/// A line of the source and what to say about it.
struct Line {
    number: u32,
    texts: Vec<String>,
}

/// Draws problems in the source of the shader.
pub(super) struct SourceRenderer {
    theme: GraphicalTheme,
    width: usize,
}

impl SourceRenderer {
    pub(super) fn new(theme: GraphicalTheme, width: usize) -> SourceRenderer {
        SourceRenderer { theme, width }
    }

    /// The problem as at most [`MOST_LINES`] lines of text, with a long message more. None if the module does not hold the
    /// source of the guilty instruction.
    pub(super) fn draw(&self, module: &Module, shader: &SourceMap, problem: &Problem) -> Option<String> {
        let primary = shader.location(in_source(module, shader, problem.at)?)?;
        let file = shader.file(primary)?;
        let text = Text::new(file.name().to_owned(), file.text()?.into_owned());
        text.line_span(primary.line as usize)?;
        let mut lines = vec![Line { number: primary.line, texts: Vec::new() }];
        for (at, _, label) in &problem.labels {
            let place = in_source(module, shader, *at).and_then(|at| shader.location(at));
            let Some(place) = place.filter(|place| place.file == primary.file) else { continue };
            if text.line_span(place.line as usize).is_none() {
                continue;
            }
            match lines.iter_mut().find(|line| line.number == place.line) {
                Some(line) if line.texts.contains(label) => {}
                Some(line) => line.texts.push(label.clone()),
                None => lines.push(Line { number: place.line, texts: vec![label.clone()] }),
            }
        }
        let repeated = |label: &String| problem.labels.iter().filter(|(_, _, other)| other == label).count() > 1;
        for line in &mut lines {
            // What is said of several places adds nothing to what is said of this one.
            let first = line.texts.first().cloned();
            line.texts.retain(|label| Some(label) == first.as_ref() || !repeated(label));
        }
        // Labels follow a chain from the effect to its cause, and then name what is affected too.
        let cause = problem.labels.iter().rev().map(|(_, _, label)| label).find(|label| !repeated(label));
        let cause =
            cause.and_then(|cause| lines.iter().position(|line| line.texts.contains(cause)).map(|at| (at, cause)));
        let mut out = String::new();
        for (most, around) in LAYOUTS {
            let shown = most.min(lines.len());
            let labels = lines.iter().take(most).enumerate().filter_map(|(index, line)| {
                let span = text.line_span(line.number as usize)?;
                // The effect, and where it comes from; what is between is in the disassembly.
                let elsewhere = cause.filter(|(at, _)| *at >= shown && index + 1 == shown);
                let last = match elsewhere {
                    Some((at, cause)) => Some(format!("line {}: {cause}", lines[at].number)),
                    None => line.texts.get(1..).and_then(<[String]>::last).cloned(),
                };
                let here = || format!("{} here", module.inst(problem.at).op);
                let first = line.texts.first().cloned().unwrap_or_else(here);
                let label = last.map_or_else(|| first.clone(), |last| format!("{first}; {last}"));
                let new = if index == 0 { LabeledSpan::new_primary_with_span } else { LabeledSpan::new_with_span };
                Some(new(Some(label), span))
            });
            let shown = Shown { problem, labels: labels.collect(), text: &text, related: None };
            let handler = GraphicalReportHandler::new_themed(self.theme.clone())
                .with_width(self.width)
                .with_context_lines(around)
                .with_break_words(false)
                .without_syntax_highlighting();
            out.clear();
            handler
                .render_report(&mut out, &shown)
                .expect("writing to a string does not fail, and spans lie in the text");
            if out.lines().count() <= MOST_LINES {
                break;
            }
        }
        Some(out)
    }
}
