//! How findings look to people: with the disassembly as source text, or one line each.

use coop_ir::text::{self, PrintOptions, Printed};
use coop_ir::{InstRef, Module};
use coop_validate::{Finding, Level, Part, Report};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, Severity,
    SourceCode, SourceSpan, SpanContents,
};
use std::fmt;

/// What one finding says: a rule's, or a refusal of a lowering.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The id of the rule or refusal.
    pub code: String,
    /// How bad it is.
    pub level: Level,
    /// What is wrong.
    pub message: String,
    /// The guilty instruction.
    pub at: InstRef,
    /// Places and what to say about them.
    pub labels: Vec<(InstRef, Part, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl From<&Finding> for Problem {
    fn from(f: &Finding) -> Problem {
        Problem {
            code: f.rule.id.to_owned(),
            level: f.level,
            message: f.message.clone(),
            at: f.at,
            labels: f.labels.iter().map(|l| (l.at, l.part, l.text.clone())).collect(),
            help: f.help.clone(),
        }
    }
}

/// Draws problems of one module. The module is printed once, when the first problem is drawn.
pub struct Renderer<'a> {
    module: &'a Module,
    name: &'a str,
    handler: GraphicalReportHandler,
    source: Option<Disassembly>,
}

/// The width where there is no terminal, also in tests.
pub const WIDTH: usize = 100;

/// The width of the terminal, or [`WIDTH`] where standard output is none.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(w, _)| usize::from(w.0).max(40))
}

impl<'a> Renderer<'a> {
    /// For the module whose disassembly is called `name`.
    pub fn new(module: &'a Module, name: &'a str, color: bool, width: usize) -> Renderer<'a> {
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(width)
            .with_context_lines(1)
            .with_break_words(false)
            .without_syntax_highlighting();
        Renderer { module, name, handler, source: None }
    }

    /// The problem as several lines of text.
    pub fn draw(&mut self, problem: &Problem) -> String {
        let (module, name) = (self.module, self.name);
        let source = self.source.get_or_insert_with(|| Disassembly {
            name: name.to_owned(),
            printed: text::print(module, &PrintOptions::default()),
        });
        let labels = problem
            .labels
            .iter()
            .filter_map(|(at, part, text)| {
                let span = span(&source.printed, *at, *part)?;
                let label = Some(text.clone());
                Some(if *at == problem.at {
                    LabeledSpan::new_primary_with_span(label, span)
                } else {
                    LabeledSpan::new_with_span(label, span)
                })
            })
            .collect();
        let shown = Shown { problem, labels, source };
        let mut out = String::new();
        match self.handler.render_report(&mut out, &shown) {
            Ok(()) => out,
            Err(fmt::Error) => unreachable!("writing to a string does not fail, and spans lie in the text"),
        }
    }
}

/// The text of a part of an instruction. Where the part is not there, the whole instruction.
fn span(printed: &Printed, at: InstRef, part: Part) -> Option<std::ops::Range<usize>> {
    let part = match part {
        Part::Whole => None,
        Part::Type => printed.type_span(at),
        Part::Result => printed.result_span(at),
        Part::Operand(i) => printed.operand_span(at, i),
    };
    part.or_else(|| printed.span(at))
}

/// The text that findings point into.
#[derive(Debug)]
struct Disassembly {
    name: String,
    printed: Printed,
}

impl SourceCode for Disassembly {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let part = self.printed.text.as_str().read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            part.data(),
            *part.span(),
            part.line(),
            part.column(),
            part.line_count(),
        )))
    }
}

#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    labels: Vec<LabeledSpan>,
    source: &'a Disassembly,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(format!("{}[{}]", self.problem.level, self.problem.code)))
    }

    fn severity(&self) -> Option<Severity> {
        Some(match self.problem.level {
            Level::Error => Severity::Error,
            Level::Warning => Severity::Warning,
            Level::Note | Level::Allow => Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }
}

/// All findings of a report, drawn, and what was left out.
pub fn human(module: &Module, name: &str, report: &Report, color: bool, width: usize) -> String {
    let mut renderer = Renderer::new(module, name, color, width);
    let mut out = String::new();
    for finding in &report.findings {
        out.push_str(&renderer.draw(&Problem::from(finding)));
        out.push('\n');
    }
    out.push_str(&omitted(name, report));
    out
}

/// One line a finding: `file:instruction: level[rule]: message`.
pub fn short(name: &str, report: &Report) -> String {
    let mut out = String::new();
    for f in &report.findings {
        out.push_str(&format!("{name}:{}: {}[{}]: {}\n", f.at.index(), f.level, f.rule.id, f.message));
    }
    out.push_str(&omitted(name, report));
    out
}

fn omitted(name: &str, report: &Report) -> String {
    report.omitted.iter().map(|(rule, n)| format!("{name}: {n} more of {}\n", rule.id)).collect()
}
