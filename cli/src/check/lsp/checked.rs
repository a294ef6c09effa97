//! The check of a document: its module, and what is found in it.

use super::super::compile::{Compiled, Language};
use super::super::files::Task;
use super::super::project::Project;
use super::super::{Cli, allow, options};
use super::{compiler_messages, lines};
use crate::io::{self, FileError, Format, Loaded};
use crate::render::{Listing, Problem, in_source, sources};
use coop_ir::InstRef;
use coop_ir::source::SourceMap;
use coop_validate::{Level, Options, Part};
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Position, Range, Uri,
};
use std::path::{Path, PathBuf};

/// A document that was checked.
pub(super) struct Checked {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Its module, if it has one.
    pub(super) module: Option<Module>,
}

/// The module of a document.
pub(super) struct Module {
    pub(super) loaded: Loaded,
    pub(super) options: Options,
    pub(super) places: Places,
}

/// The places of a module's instructions in documents.
pub(super) struct Places {
    /// The document.
    uri: Uri,
    /// The name of the document in the module's debug information.
    name: PathBuf,
    shader: SourceMap,
    /// For assembly, the places in the text.
    listing: Option<Listing>,
}

impl Places {
    fn new(loaded: &Loaded, uri: &Uri, name: &Path, text: &str) -> Places {
        let written = (loaded.format == Format::Text).then(|| Listing::written(loaded.name.clone(), text)).flatten();
        let shader = if written.is_some() { SourceMap::default() } else { sources::of(&loaded.module) };
        Places { uri: uri.clone(), name: name.to_owned(), shader, listing: written }
    }

    /// Returns the place of an instruction, or of what stands for it, and true if it is in the document itself.
    pub(super) fn of(&self, loaded: &Loaded, text: &str, at: InstRef, part: Part) -> Option<(Location, bool)> {
        if let Some(listing) = &self.listing {
            return Some((Location::new(self.uri.clone(), lines::range(text, &listing.span(at, part)?)), true));
        }
        let place = self.shader.location(in_source(&loaded.module, &self.shader, at)?)?;
        let file = Path::new(self.shader.file(place)?.name());
        let number = place.line.checked_sub(1)?;
        if file == self.name {
            return Some((Location::new(self.uri.clone(), lines::whole_line(text, number)), true));
        }
        let range =
            self.shader.file(place)?.text().map_or_else(Range::default, |text| lines::whole_line(&text, number));
        Some((Location::new(lines::uri_of(file)?, range), false))
    }

    /// Returns the line of the document that an instruction belongs to by itself.
    pub(super) fn own_line(&self, text: &str, at: InstRef) -> Option<u32> {
        if let Some(listing) = &self.listing {
            return Some(lines::range(text, &listing.span(at, Part::Whole)?).start.line);
        }
        let place = self.shader.location(at)?;
        let is_own = Path::new(self.shader.file(place)?.name()) == self.name;
        place.line.checked_sub(1).filter(|_| is_own)
    }

    /// Returns true if the document is assembly.
    pub(super) fn is_assembly(&self) -> bool {
        self.listing.is_some()
    }
}

/// Checks the text of a document.
pub(super) fn check(cli: &Cli, path: &Path, uri: &Uri, text: &str) -> Checked {
    let project = path.parent().and_then(Project::find).map(|file| Project::read(&file)).transpose();
    let checked = project.and_then(|project| {
        let options = options(cli, project.as_ref())?;
        let task = Task { cli, options: &options, dynamic: None, project: project.as_ref() };
        Ok(check_with(&task, path, uri, text))
    });
    checked.unwrap_or_else(|why| failed(text, &why))
}

/// The result for a document that can't be checked.
fn failed(text: &str, why: &str) -> Checked {
    let range = lines::whole_line(text, 0);
    Checked { diagnostics: vec![diagnostic(range, Level::Error, why.to_owned())], module: None }
}

fn check_with(task: &Task<'_>, path: &Path, uri: &Uri, text: &str) -> Checked {
    let (bytes, name) = match Language::of(path) {
        None => (text.as_bytes().to_vec(), path.to_owned()),
        Some(language) => match task.compiler(language).compile_text(language, path, text) {
            Ok(Compiled { module, name }) => (module, name),
            Err((why, name)) => {
                let diagnostics = compiler_messages::diagnostics(&why, &name.to_string_lossy(), text);
                return Checked { diagnostics, module: None };
            }
        },
    };
    let loaded = match io::parse(io::display_name(path), bytes) {
        Ok(loaded) => loaded,
        Err(error) => return unreadable(&error, path, text),
    };
    let cfgs = match io::well_formed(&loaded) {
        Ok(cfgs) => cfgs,
        Err(errors) => {
            let why: Vec<String> = errors.into_iter().map(|error| error.message).collect();
            return failed(text, &why.join("\n"));
        }
    };
    let places = Places::new(&loaded, uri, &name, text);
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    let mut options = task.options.clone();
    for job in task.jobs(&[path.to_owned()]) {
        let mut report = coop_validate::check_with(&loaded.module, &cfgs, &job.options);
        let _ = allow::apply(&loaded.module, &mut report);
        if let Some(project) = task.project {
            report.retain(|finding| !project.allows(path, finding.rule.id));
        }
        for problem in report.findings.iter().map(Problem::from) {
            let found = of_problem(&places, &loaded, text, &problem);
            // What several pipelines have in common is said once.
            if !diagnostics.contains(&found) {
                diagnostics.push(found);
            }
        }
        options = job.options;
    }
    Checked { diagnostics, module: Some(Module { loaded, options, places }) }
}

/// The result for text that is no module: the place is at the end of the error's name.
fn unreadable(error: &FileError, path: &Path, text: &str) -> Checked {
    let place = error.name.strip_prefix(&*path.to_string_lossy()).and_then(|rest| rest.strip_prefix(':'));
    let line = place.and_then(|place| place.split(':').next()?.parse::<u32>().ok()).unwrap_or(1);
    let range = lines::whole_line(text, line.saturating_sub(1));
    Checked { diagnostics: vec![diagnostic(range, Level::Error, error.message.clone())], module: None }
}

fn diagnostic(range: Range, level: Level, message: String) -> Diagnostic {
    let severity = match level {
        Level::Error => DiagnosticSeverity::ERROR,
        Level::Warning => DiagnosticSeverity::WARNING,
        Level::Note | Level::Allow => DiagnosticSeverity::INFORMATION,
    };
    let source = Some("coopcheck".to_owned());
    Diagnostic { range, severity: Some(severity), source, message, ..Diagnostic::default() }
}

/// Returns the diagnostic of a finding: at the line that it is about, with the places that its labels name.
fn of_problem(places: &Places, loaded: &Loaded, text: &str, problem: &Problem) -> Diagnostic {
    let part = problem.labels.iter().find(|(at, ..)| *at == problem.at).map_or(Part::Whole, |(_, part, _)| *part);
    let mut message = problem.message.clone();
    let mut related: Vec<DiagnosticRelatedInformation> = Vec::new();
    let range = match places.of(loaded, text, problem.at, part) {
        Some((location, true)) => location.range,
        Some((location, false)) => {
            let message = "the instruction is here".to_owned();
            related.push(DiagnosticRelatedInformation { location, message });
            Range::new(Position::new(0, 0), Position::new(0, 0))
        }
        None => lines::whole_line(text, 0),
    };
    for (at, part, label) in problem.labels.iter().filter(|(at, ..)| *at != problem.at) {
        let Some((location, _)) = places.of(loaded, text, *at, *part) else { continue };
        let new = DiagnosticRelatedInformation { location, message: label.clone() };
        if !related.contains(&new) {
            related.push(new);
        }
    }
    if let Some(help) = &problem.help {
        message = format!("{message}\nhelp: {help}");
    }
    Diagnostic {
        code: Some(NumberOrString::String(problem.code.clone())),
        related_information: Some(related).filter(|related| !related.is_empty()),
        ..diagnostic(range, problem.level, message)
    }
}
