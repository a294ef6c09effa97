//! Renders findings for people: in the shader's source, in the module's text, or one line each.

mod in_source;
mod listing;
pub(crate) mod sources;

use crate::check::compile::Language;
use crate::io::{Format, Loaded};
use coop_ir::source::SourceMap;
use coop_ir::{InstRef, Module};
use coop_validate::{Finding, Level, Part, Report};
use in_source::{MOST_LINES, SourceRenderer};
pub(crate) use listing::Listing;
use listing::Text;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, Severity, SourceCode};
use std::fmt;
use std::path::Path;

/// A finding of a rule, or a refusal of a lowering.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The id of the rule or refusal.
    pub code: String,
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The guilty instruction.
    pub at: InstRef,
    /// Places and what to say about them.
    pub labels: Vec<(InstRef, Part, String)>,
    /// The remedy.
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

/// The width where there is no terminal, also in tests.
pub const WIDTH: usize = 100;

/// The width of the terminal, or [`WIDTH`] where standard output is none.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(w, _)| usize::from(w.0).max(40))
}

/// Draws problems of one module. Its text is made when the first problem is drawn.
pub struct Renderer<'a> {
    module: &'a Module,
    name: &'a str,
    /// The text that the module was read from, if it was text.
    written: Option<&'a str>,
    handler: GraphicalReportHandler,
    source: SourceRenderer,
    /// True if the module's text is shown although the shader's source is known.
    disassembly: bool,
    /// The instructions that will be shown, if they are known: then only their lines are printed.
    shown: Option<Vec<InstRef>>,
    listing: Option<Listing>,
    shader: Option<SourceMap>,
}

impl<'a> Renderer<'a> {
    /// For a module, called `name`: problems are shown in the shader's source, or in our disassembly where that is unknown.
    pub fn new(module: &'a Module, name: &'a str, color: bool, width: usize) -> Renderer<'a> {
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let source = SourceRenderer::new(theme.clone(), width);
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(width)
            .with_context_lines(1)
            .with_break_words(false)
            .without_syntax_highlighting();
        let (shown, listing, shader) = (None, None, None);
        Renderer { module, name, written: None, handler, source, disassembly: false, shown, listing, shader }
    }

    /// Shows the module's text, also where the shader's source is known.
    #[must_use]
    pub fn with_disassembly(mut self, disassembly: bool) -> Renderer<'a> {
        self.disassembly = disassembly;
        self
    }

    /// For a module as it was read from a file: assembly text is shown as it was written.
    pub fn for_file(loaded: &'a Loaded, color: bool, width: usize) -> Renderer<'a> {
        let mut renderer = Renderer::new(&loaded.module, &loaded.name, color, width);
        if loaded.format == Format::Text {
            renderer.written = std::str::from_utf8(&loaded.bytes).ok();
        }
        renderer
    }

    /// Sets the instructions of all findings that will be rendered.
    #[must_use]
    fn about(mut self, shown: impl IntoIterator<Item = InstRef>) -> Renderer<'a> {
        self.shown = Some(shown.into_iter().collect());
        self
    }

    /// The problem as several lines of text.
    pub fn draw(&mut self, problem: &Problem) -> String {
        let (module, name, written) = (self.module, self.name, self.written);
        let shader = self.shader.get_or_insert_with(|| sources::of(module));
        if !self.disassembly
            && let Some(drawn) = self.source.draw(module, shader, problem)
        {
            return drawn;
        }
        let shown = self.shown.take();
        let listing = self.listing.get_or_insert_with(|| {
            // The lines are not those of the file with this name.
            let name =
                if Language::of(Path::new(name)).is_some() { format!("{name}, disassembled") } else { name.into() };
            let written = written.and_then(|text| Listing::written(name.clone(), text));
            written.unwrap_or_else(|| match shown {
                Some(shown) => Listing::excerpt(module, name, shown),
                None => Listing::disassembly(module, name),
            })
        });
        let label = |(at, part, text): &(InstRef, Part, String)| {
            let span = listing.span(*at, *part)?;
            let label = Some(text.clone());
            Some(if *at == problem.at {
                LabeledSpan::new_primary_with_span(label, span)
            } else {
                LabeledSpan::new_with_span(label, span)
            })
        };
        let labels = problem.labels.iter().filter_map(label).collect();
        let related = InShader::find(module, shader, problem.at);
        let mut shown = Shown { problem, labels, text: &listing.text, related };
        let drawn = render(&self.handler, &shown);
        // Where lines of a source are known, the disassembly is for those who ask for it.
        if self.disassembly || shader.is_empty() || drawn.trim_end().lines().count() <= MOST_LINES {
            return drawn;
        }
        let first = problem.labels.iter().find(|(at, ..)| *at == problem.at).or(problem.labels.first());
        shown.labels = first.and_then(label).into_iter().collect();
        render(&self.handler, &shown)
    }
}

/// Draws what is shown.
fn render(handler: &GraphicalReportHandler, shown: &Shown<'_>) -> String {
    let mut out = String::new();
    match handler.render_report(&mut out, shown) {
        Ok(()) => out,
        Err(fmt::Error) => unreachable!("writing to a string does not fail, and spans lie in the text"),
    }
}

#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    labels: Vec<LabeledSpan>,
    text: &'a Text,
    related: Option<InShader>,
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
        Some(self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        let related = self.related.as_ref()?;
        Some(Box::new(std::iter::once(related as &dyn Diagnostic)))
    }
}

/// The location in the shader that the module was compiled from.
#[derive(Debug)]
struct InShader {
    message: String,
    /// The file's text, and the line in it.
    text: Option<(Text, LabeledSpan)>,
}

/// The instruction that stands for `at` in the shader's source: itself, or the first that uses what it defines. Types and
/// constants have no line of their own.
pub(crate) fn in_source(module: &Module, shader: &SourceMap, at: InstRef) -> Option<InstRef> {
    if shader.is_empty() || shader.location(at).is_some() {
        return shader.location(at).map(|_| at);
    }
    let id = module.inst(at).result?;
    let uses = |r: &InstRef| {
        let inst = module.inst(*r);
        inst.ty == Some(id) || inst.ids().any(|o| o == id)
    };
    let mut body = module.functions.iter().flat_map(|f| f.insts());
    body.find(|r| shader.location(*r).is_some() && uses(r))
}

impl InShader {
    fn find(module: &Module, shader: &SourceMap, at: InstRef) -> Option<InShader> {
        let at = in_source(module, shader, at)?;
        let location = shader.location(at)?;
        let file = shader.file(location)?;
        let text = file.text().and_then(|text| {
            let text = Text::new(file.name().to_owned(), text.into_owned());
            // Columns are 0 as often as not, so the whole line is marked.
            let span = text.line_span(location.line as usize)?;
            let label = format!("{} here", module.inst(at).op);
            Some((text, LabeledSpan::new_primary_with_span(Some(label), span)))
        });
        let message = match text {
            Some(_) => "in the shader's source".to_owned(),
            None => format!("in the shader's source: {}", shader.display(location)),
        };
        Some(InShader { message, text })
    }
}

impl fmt::Display for InShader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InShader {}

impl Diagnostic for InShader {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Advice)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.text.as_ref().map(|(text, _)| text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (_, label) = self.text.as_ref()?;
        Some(Box::new(std::iter::once(label.clone())))
    }
}

/// All findings of a report, drawn, and what was left out.
pub fn human(renderer: Renderer, report: &Report) -> String {
    let name = renderer.name;
    each(renderer, report).concat() + &omitted(name, report)
}

/// Each finding of a report, drawn, with an empty line behind it.
pub fn each(renderer: Renderer, report: &Report) -> Vec<String> {
    let mut renderer = renderer.about(report.findings.iter().flat_map(|f| &f.labels).map(|l| l.at));
    report.findings.iter().map(|finding| renderer.draw(&Problem::from(finding)) + "\n").collect()
}

/// One line a problem: `file:line:column: level[rule]: message` in the shader's source. Where that is unknown, `file:instruction: ...` for a
/// module, and `file: ...` for one that was compiled from the file.
pub fn short(module: &Module, name: &str, problems: &[Problem]) -> String {
    let shader = sources::of(module);
    let line = |p: &Problem| {
        let place = SourcePlace::of(module, &shader, p.at).map(|p| format!("{}:{}:{}", p.file, p.line, p.column));
        let place = place.unwrap_or_else(|| match Language::of(Path::new(name)) {
            Some(_) => name.to_owned(),
            None => format!("{name}:{}", p.at.index()),
        });
        format!("{place}: {}[{}]: {}\n", p.level, p.code, p.message)
    };
    problems.iter().map(line).collect()
}

/// One workflow command of GitHub Actions a problem, which shows it beside the line of the shader's source.
pub fn github(module: &Module, name: &str, problems: &[Problem]) -> String {
    let shader = sources::of(module);
    let escaped = |text: &str, property: bool| {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '%' | '\r' | '\n' => out.push_str(&format!("%{:02X}", u32::from(c))),
                ':' | ',' if property => out.push_str(&format!("%{:02X}", u32::from(c))),
                _ => out.push(c),
            }
        }
        out
    };
    let command = |p: &Problem| {
        let level = match p.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note | Level::Allow => "notice",
        };
        let place = match SourcePlace::of(module, &shader, p.at) {
            Some(p) => format!("file={},line={},col={}", escaped(&p.file, true), p.line, p.column),
            None => format!("file={}", escaped(name, true)),
        };
        let text = p.help.as_ref().map_or_else(|| p.message.clone(), |help| format!("{}\n{help}", p.message));
        format!("::{level} {place},title={}::{}\n", escaped(&p.code, true), escaped(&text, false))
    };
    problems.iter().map(command).collect()
}

/// A place in the shader's source, as other programs read it.
struct SourcePlace {
    file: String,
    line: u32,
    column: u32,
}

impl SourcePlace {
    fn of(module: &Module, shader: &SourceMap, at: InstRef) -> Option<SourcePlace> {
        let place = shader.location(in_source(module, shader, at)?)?;
        let file = shader.file(place)?;
        // Columns are 0 as often as not; the first that is not white space stands for them.
        let first =
            || file.line(place.line).map_or(1, |l| 1 + l.chars().take_while(|c| c.is_whitespace()).count() as u32);
        let column = if place.column == 0 { first() } else { place.column };
        Some(SourcePlace { file: file.name().to_owned(), line: place.line, column })
    }
}

/// Returns the rules of which more was found than is kept, a line each.
pub fn omitted(name: &str, report: &Report) -> String {
    report.omitted.iter().map(|(rule, n)| format!("{name}: {n} more of {}\n", rule.id)).collect()
}
