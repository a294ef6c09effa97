//! Checks files, several at a time, and reports them in order.

use super::compile::{Compiler, Language};
use super::run::Dynamic;
use super::{Cli, Format, allow, sarif};
use crate::io::Loaded;
use crate::render::{Problem, Renderer};
use crate::{Status, io, json, render};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::source::SourceMap;
use coop_ir::spv::Capability;
use coop_validate::{Level, Options, Report, TargetEnv};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// The output for one file.
struct Outcome {
    status: Status,
    /// For standard output.
    text: String,
    /// For standard error.
    messages: String,
    /// For the SARIF document.
    sarif: sarif::Part,
    errors: usize,
    warnings: usize,
    notes: usize,
    /// The file, if its findings could be shown in the shader's source but for missing debug information.
    unlocated: Option<String>,
}

/// Checks the files of a command line.
pub(super) fn check(cli: &Cli, options: &Options, dynamic: Option<&Dynamic>) -> Status {
    let style = Style {
        format: cli.format,
        color: cli.style.color.on_stdout(),
        width: render::width(),
        verbose: cli.style.verbose,
        quiet: cli.style.quiet,
        single: cli.files.len() == 1,
    };
    let compiler = Compiler { program: cli.compiler.clone(), arguments: cli.compiler_arguments.clone() };
    let inputs = Inputs { options, dynamic, compiler };
    let mut total = Outcome::empty();
    let mut unlocated = Vec::new();
    let mut parts = Vec::new();
    let mut progress = Progress::new(cli.files.len(), cli.style.quiet == 0);
    in_order(
        &cli.files,
        |path| check_file(path, &inputs, &style),
        |outcome| {
            progress.clear();
            io::print(&outcome.text);
            if !outcome.messages.is_empty() {
                io::error(outcome.messages.trim_end());
            }
            total.status = total.status.max(outcome.status);
            total.errors += outcome.errors;
            total.warnings += outcome.warnings;
            total.notes += outcome.notes;
            parts.push(outcome.sarif);
            unlocated.extend(outcome.unlocated);
            progress.step();
        },
    );
    progress.clear();
    if cli.format == Format::Sarif {
        io::print(&sarif::document(parts, total.status.code()));
    }
    if let Some(note) = unlocated_note(&unlocated).filter(|_| cli.style.quiet == 0) {
        io::error(&note);
    }
    let found = total.errors + total.warnings + total.notes > 0;
    if cli.format == Format::Human && cli.style.quiet == 0 && (found || cli.style.verbose > 0) {
        io::error(&summary(&total, cli.files.len(), cli.style.verbose > 0));
    }
    total.status
}

/// The progress, shown on a terminal when there are many files.
struct Progress {
    shown: bool,
    done: usize,
    files: usize,
}

impl Progress {
    /// The smallest number of files for which the progress is shown.
    const MANY: usize = 100;

    fn new(files: usize, wanted: bool) -> Progress {
        let shown = wanted && files >= Progress::MANY && std::io::stderr().is_terminal();
        Progress { shown, done: 0, files }
    }

    fn step(&mut self) {
        self.done += 1;
        self.show(&format!("{} of {} files", self.done, self.files));
    }

    fn clear(&self) {
        if self.done > 0 {
            self.show("");
        }
    }

    fn show(&self, text: &str) {
        if self.shown {
            // Nobody is left to tell when this fails.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
        }
    }
}

/// Returns the line that says how findings come to be shown in the source of shaders.
fn unlocated_note(names: &[String]) -> Option<String> {
    let (first, more) = names.split_first()?;
    let have = if more.is_empty() { format!("{first} has") } else { format!("{first} and {} more have", more.len()) };
    Some(format!(
        "note: {have} no debug information; with `glslang -gVS` (`dxc -fspv-debug=vulkan-with-source`, `slangc -g2`) findings \
         are shown in the shader's source"
    ))
}

/// The options, the run and the compiler for all files of a command line.
struct Inputs<'a> {
    options: &'a Options,
    dynamic: Option<&'a Dynamic>,
    compiler: Compiler,
}

/// The style of the output.
struct Style {
    format: Format,
    color: bool,
    width: usize,
    verbose: u8,
    quiet: u8,
    single: bool,
}

impl Outcome {
    fn empty() -> Outcome {
        Outcome {
            status: Status::Success,
            text: String::new(),
            messages: String::new(),
            sarif: sarif::Part::default(),
            errors: 0,
            warnings: 0,
            notes: 0,
            unlocated: None,
        }
    }

    /// Returns the outcome for a file that holds no module.
    fn unreadable(name: &str, why: &str, messages: String, style: &Style) -> Outcome {
        let text = match style.format {
            Format::Json => format!("{}\n", json::unreadable(name, why)),
            Format::Human | Format::Short | Format::Github | Format::Sarif => String::new(),
        };
        let sarif = sarif::Part::unreadable(name, why);
        Outcome { sarif, status: Status::BadInput, text, messages, ..Outcome::empty() }
    }
}

/// Applies `work` to each item, on as many threads as are useful, and passes the results to `take` in order.
fn in_order<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync, mut take: impl FnMut(R)) {
    // To ask how many processors there are takes longer than a module without matrices.
    let threads = match items.len() {
        0 | 1 => 1,
        many => std::thread::available_parallelism().map_or(1, usize::from).min(many),
    };
    if threads <= 1 {
        items.iter().for_each(|i| take(work(i)));
        return;
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    // The receiver lives as long as this scope.
                    let _ = sender.send((i, work(item)));
                }
            });
        }
        drop(sender);
        let mut early = std::collections::BTreeMap::new();
        let mut wanted = 0;
        for (i, result) in receiver {
            early.insert(i, result);
            while let Some(result) = early.remove(&wanted) {
                take(result);
                wanted += 1;
            }
        }
    });
}

fn check_file(path: &Path, inputs: &Inputs<'_>, style: &Style) -> Outcome {
    let &Inputs { options, dynamic, .. } = inputs;
    let loaded = match load(path, inputs) {
        Ok(None) => return without_matrices(path, style),
        Ok(Some(mut loaded)) => {
            // Words are shown as disassembly, only text as it was written.
            if loaded.format == io::Format::Binary {
                loaded.bytes = Vec::new();
            }
            loaded
        }
        Err(e) => {
            let name = io::display_name(path);
            return Outcome::unreadable(&name, &e.message, format!("error: {e}\n"), style);
        }
    };
    let cfgs = match io::well_formed(&loaded) {
        Ok(cfgs) => cfgs,
        Err(errors) => {
            let messages = errors.iter().map(|e| format!("error: {e}\n")).collect();
            return Outcome::unreadable(&loaded.name, &errors[0].message, messages, style);
        }
    };
    let mut messages = String::new();
    if let Err(message) = check_specialization(&loaded, options, style, &mut messages) {
        return Outcome { status: Status::BadInput, messages: format!("error: {message}\n"), ..Outcome::empty() };
    }
    if let Some(name) = options.device.as_ref().and_then(|d| d.entry.as_ref())
        && !entry_names(&loaded).contains(name)
    {
        let messages = format!("error: {}: no entry point is called '{name}'\n", loaded.name);
        return Outcome { status: Status::BadInput, messages, ..Outcome::empty() };
    }
    let mut report = coop_validate::check_with(&loaded.module, &cfgs, options);
    // The source is read where it matters.
    if !report.findings.is_empty() || style.verbose > 0 {
        let ineffective = allow::apply(&loaded.module, &mut report);
        if style.quiet == 0 {
            messages.extend(ineffective.iter().map(|message| format!("note: {message}\n")));
        }
    }
    if style.verbose > 0 {
        messages.push_str(&facts(&loaded, &report, options));
    }
    let mut status = if report.is_ok() { Status::Success } else { Status::Findings };
    let mut ran = Vec::new();
    if let Some(dynamic) = dynamic {
        if report.is_ok() {
            match dynamic.findings(&loaded) {
                Ok(problems) => ran = problems,
                Err(why) => {
                    messages.push_str(&format!("error: {}: not run: {why}\n", loaded.name));
                    status = Status::BadInput;
                }
            }
        } else if style.quiet == 0 {
            messages.push_str(&format!("note: {}: not run, because it breaks rules\n", loaded.name));
        }
    }
    let count = |level| report.count(level) + ran.iter().filter(|p| p.level == level).count();
    let (errors, warnings, notes) = (count(Level::Error), count(Level::Warning), count(Level::Note));
    if ran.iter().any(|p| p.level == Level::Error) {
        status = status.max(Status::Findings);
    }
    leave_out(&mut report, &mut ran, style);
    let sarif = match style.format {
        Format::Sarif => {
            let found = report.findings.iter().map(|f| (Problem::from(f), f.deviation.map(|d| d.words)));
            sarif::Part::checked(&loaded, found.chain(ran.iter().map(|p| (p.clone(), None))))
        }
        _ => sarif::Part::default(),
    };
    let text = text(&loaded, &report, &ran, status, style);
    let shader = !loaded.module.has_capability(Capability::Kernel);
    let locatable = style.format == Format::Human && loaded.format == io::Format::Binary && shader && !text.is_empty();
    let unlocated = (locatable && SourceMap::new(&loaded.module).is_empty()).then(|| loaded.name.clone());
    if style.single {
        // The process ends now; to give back each piece of a large module would take a hundredth of its time.
        std::mem::forget((loaded, cfgs));
    }
    Outcome { status, text, messages, sarif, errors, warnings, notes, unlocated }
}

/// Removes the findings that are counted and not shown.
fn leave_out(report: &mut Report, ran: &mut Vec<Problem>, style: &Style) {
    let least = match style.quiet {
        0 if style.format == Format::Human && style.verbose == 0 => Level::Warning,
        0 => return,
        1 => Level::Error,
        _ => {
            report.findings.clear();
            ran.clear();
            Level::Error
        }
    };
    report.findings.retain(|f| f.level >= least);
    ran.retain(|p| p.level >= least);
    if style.quiet > 0 {
        report.omitted.clear();
    }
}

/// Grows the heap once for a module of this size, instead of piece by piece: with glibc, each piece is a system call,
/// which took a twentieth of the time for the largest modules. No memory is touched. Other allocators do nothing with
/// it.
fn make_room(bytes: usize) {
    /// The approximate number of bytes that are needed for each byte of a module.
    const FACTOR: usize = 20;
    let room = bytes.saturating_mul(FACTOR).min(16 << 20);
    if room < 1 << 20 {
        return;
    }
    // The first is a mapping of its own; that it is given back tells glibc that blocks of this size come and go, so
    // the second is cut from the heap and remains there.
    for _ in 0..2 {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(room)));
    }
}

/// Reads the module in a file. Returns nothing for a module without matrices, which need not be read unless an option
/// requires the module. Verbosity and format change nothing here, so that they change no exit status.
fn load(path: &Path, inputs: &Inputs<'_>) -> Result<Option<Loaded>, io::FileError> {
    let Inputs { options, dynamic, compiler } = inputs;
    let bytes = match Language::of(path) {
        Some(language) => compiler.compile(language, path)?,
        None => io::read_bytes(path)?,
    };
    let asked = dynamic.is_some() || options.device.is_some() || !options.specialization.is_empty() || options.barriers;
    if !asked && coop_validate::has_no_matrices(&bytes) {
        return Ok(None);
    }
    make_room(bytes.len());
    io::parse(io::display_name(path), bytes).map(Some)
}

/// Returns the output for a module without matrices.
fn without_matrices(path: &Path, style: &Style) -> Outcome {
    let name = io::display_name(path);
    let messages = if style.verbose > 0 { format!("{name}: no cooperative matrices\n") } else { String::new() };
    let text = match style.format {
        Format::Json => format!("{}\n", json::without_findings(&name)),
        Format::Human | Format::Short | Format::Github | Format::Sarif => String::new(),
    };
    Outcome { text, messages, ..Outcome::empty() }
}

fn entry_names(loaded: &Loaded) -> Vec<String> {
    let decorations = Decorations::new(&loaded.module);
    coop_ir::entry::entry_points(&loaded.module, &decorations).into_iter().map(|e| e.name).collect()
}

/// Returns the text for standard output: findings of rules, then those of a run.
fn text(loaded: &Loaded, report: &Report, ran: &[Problem], status: Status, style: &Style) -> String {
    let renderer = || Renderer::for_file(loaded, style.color, style.width).with_disassembly(style.verbose > 0);
    let problems =
        || -> Vec<Problem> { report.findings.iter().map(Problem::from).chain(ran.iter().cloned()).collect() };
    match style.format {
        Format::Human => {
            let mut text = if report.findings.is_empty() { String::new() } else { render::human(renderer(), report) };
            if !ran.is_empty() {
                let mut renderer = renderer();
                text.extend(ran.iter().map(|problem| renderer.draw(problem) + "\n"));
            }
            text
        }
        Format::Short => {
            render::short(&loaded.module, &loaded.name, &problems()) + &render::omitted(&loaded.name, report)
        }
        Format::Github => render::github(&loaded.module, &loaded.name, &problems()),
        // Written when all files are through.
        Format::Sarif => String::new(),
        Format::Json => {
            let mut object = json::report(&loaded.module, &loaded.name, report);
            json::append(&mut object, &loaded.module, ran);
            object["ok"] = (status == Status::Success).into();
            format!("{object}\n")
        }
    }
}

/// Checks the values of specialization constants. A value of the wrong type is wrong usage; one that no constant has is
/// worth a note.
fn check_specialization(
    loaded: &Loaded,
    options: &Options,
    style: &Style,
    messages: &mut String,
) -> Result<(), String> {
    if options.specialization.is_empty() {
        return Ok(());
    }
    let constants = Constants::new(&loaded.module, &options.specialization);
    if let Some((id, why)) = constants.problems().first() {
        return Err(format!("{}: --spec {id}: {why}", loaded.name));
    }
    if style.single && style.quiet == 0 {
        let decorations = Decorations::new(&loaded.module);
        for (id, _) in options.specialization.iter() {
            if decorations.with_spec_id(id).next().is_none() {
                messages.push_str(&format!("note: {} has no constant with SpecId {id}\n", loaded.name));
            }
        }
    }
    Ok(())
}

fn facts(loaded: &Loaded, report: &Report, options: &Options) -> String {
    let name = &loaded.name;
    if !coop_validate::concerns_matrices(&loaded.module) {
        let found =
            options.device.as_ref().map_or_else(String::new, |_| format!(", {} findings", report.findings.len()));
        return format!("{name}: no cooperative matrices{found}\n");
    }
    let env = options.env.unwrap_or_else(|| TargetEnv::of(&loaded.module));
    let open = match report.undecided {
        0 => String::new(),
        n => format!(", {n} conditions left open because a value is not known"),
    };
    let opaque = match loaded.module.all().filter(|r| loaded.module.inst(*r).opaque).count() {
        0 => String::new(),
        n => format!(", {n} instructions beyond the grammar"),
    };
    format!("{name}: environment {env}, {} findings{open}{opaque}\n", report.findings.len())
}

fn summary(total: &Outcome, files: usize, verbose: bool) -> String {
    let counts = [(total.errors, "error"), (total.warnings, "warning"), (total.notes, "note")];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }))
        .collect();
    let found = if parts.is_empty() { "no findings".to_owned() } else { parts.join(", ") };
    let s = if files == 1 { "" } else { "s" };
    let more = if total.notes > 0 && !verbose { "; -v shows notes" } else { "" };
    format!("{found} in {files} file{s}{more}")
}
