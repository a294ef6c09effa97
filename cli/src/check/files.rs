//! Checks files, several at a time, and reports them in order.

use super::baseline::{self, Baseline, Counts, Fingerprint};
use super::compile::{Compiler, Language};
use super::graph;
use super::group::{self, Groups, Owner, Piece};
use super::project::{Configuration, Project};
use super::run::Dynamic;
use super::{Cli, Format, allow, sarif};
use crate::io::Loaded;
use crate::json::Places;
use crate::progress::Progress;
use crate::render::{Problem, Renderer};
use crate::{Status, io, json, render};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::source::SourceMap;
use coop_ir::spv::Capability;
use coop_validate::{Device, Level, Options, Report, TargetEnv};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// The output for one file.
struct Outcome {
    status: Status,
    /// For standard output.
    pieces: Vec<Piece>,
    /// The file and its configuration.
    owner: Owner,
    /// The findings and how often they are there, if there is a baseline.
    found: Counts,
    /// The files that the module's source consists of, as it names them.
    sources: Vec<String>,
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

/// One check of one file.
pub(super) struct Job {
    path: PathBuf,
    pub(super) options: Options,
    /// The pipeline and the device; empty if there is only one.
    configuration: String,
}

/// The files of the command line or of the project, and how they are checked.
pub(super) struct Task<'a> {
    /// The command line.
    pub(super) cli: &'a Cli,
    /// The options for all files.
    pub(super) options: &'a Options,
    /// The run.
    pub(super) dynamic: Option<&'a Dynamic>,
    /// The project, if there is one.
    pub(super) project: Option<&'a Project>,
}

/// The result of a check.
pub(super) struct Checked {
    /// The exit status.
    pub(super) status: Status,
    /// The files that were read, and those that modules name as their source.
    pub(super) read: BTreeSet<PathBuf>,
}

impl Task<'_> {
    /// Returns the files.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        match self.project {
            Some(project) if self.cli.files.is_empty() => project.files(),
            _ => Ok(self.cli.files.clone()),
        }
    }

    /// Returns each check of each file.
    pub(super) fn jobs(&self, files: &[PathBuf]) -> Vec<Job> {
        // A device of the command line stands for those of the project.
        let devices = self.options.device.is_none();
        let configurations = |path: &PathBuf| match self.project {
            Some(project) => project.configurations(path, devices),
            None => vec![Configuration::default()],
        };
        files.iter().flat_map(|path| configurations(path).into_iter().map(|c| self.job(path, c))).collect()
    }

    fn job(&self, path: &Path, configuration: Configuration) -> Job {
        let mut options = self.options.clone();
        let mut specialization = configuration.specialization;
        for (id, value) in self.options.specialization.iter() {
            specialization.set(id, value);
        }
        options.specialization = specialization;
        options.subgroup_size = options.subgroup_size.or(configuration.subgroup_size);
        let entry = self.cli.entry.entry.clone().or(configuration.entry);
        let of_command_line = options.device.as_ref().map(|device| device.profile.clone());
        let subgroup_size = options.subgroup_size;
        let device = |profile| Arc::new(Device { profile, subgroup_size, entry });
        options.device = of_command_line.or(configuration.device).map(device);
        Job { path: path.to_owned(), options, configuration: configuration.name }
    }

    /// Returns the findings that are known.
    fn baseline(&self) -> Result<Option<Baseline>, String> {
        if self.cli.write_baseline.is_some() {
            return Ok(None);
        }
        let path = self.cli.baseline.as_ref().or_else(|| self.project?.baseline.as_ref());
        path.map(|path| Baseline::read(path)).transpose()
    }

    /// Returns the compiler for shaders in a language.
    pub(super) fn compiler(&self, language: Language) -> Compiler {
        let mut compiler = self.project.map(|project| project.compiler(language).clone()).unwrap_or_default();
        compiler.arguments.extend(self.cli.compiler_arguments.iter().cloned());
        compiler.program = self.cli.compiler.clone().or(compiler.program);
        compiler
    }
}

/// Draws the control flow of the only file.
pub(super) fn draw(task: &Task<'_>, to: &Path) -> Result<(), String> {
    let files = task.files()?;
    let [file] = files.as_slice() else {
        return Err(format!("--graph draws one file, not {}", files.len()));
    };
    if file.as_os_str() == "-" {
        return Err("--graph reads its file twice, and standard input can be read once".to_owned());
    }
    let bytes = match Language::of(file) {
        Some(language) => task.compiler(language).compile(language, file),
        None => io::read_bytes(file),
    };
    let loaded = bytes.and_then(|bytes| io::parse(io::display_name(file), bytes)).map_err(|e| e.to_string())?;
    let job = task.jobs(&files).into_iter().next();
    let options = job.as_ref().map_or(task.options, |job| &job.options);
    let entry = task.cli.entry.entry.as_deref().or_else(|| options.device.as_ref()?.entry.as_deref());
    let of_profile = || options.device.as_ref().map(|device| device.profile.limits.subgroup_size);
    let choice = graph::Choice {
        entry,
        specialization: &options.specialization,
        subgroup_size: options.subgroup_size.or_else(of_profile),
    };
    graph::write(to, &loaded, &choice).map_err(|e| e.to_string())
}

/// Checks the files of a command line, or of its project.
pub(super) fn check(task: &Task<'_>) -> Result<Checked, String> {
    let cli = task.cli;
    let files = task.files()?;
    let jobs = task.jobs(&files);
    let style = Style {
        format: cli.format,
        color: cli.style.color.on_stdout(),
        width: render::width(),
        verbose: cli.style.verbose,
        quiet: cli.style.quiet,
        single: jobs.len() == 1,
        watched: cli.watch,
    };
    let baseline = task.baseline()?;
    let known = baseline.as_ref();
    let written = cli.write_baseline.as_deref();
    let inputs = Inputs { dynamic: task.dynamic, task, project: task.project, known, written: written.is_some() };
    let mut total = Totals { files: files.len(), ..Totals::default() };
    let mut found = written.map(Baseline::new).or_else(|| known.map(Baseline::like)).unwrap_or_default();
    let grouped = !style.single && matches!(cli.format, Format::Human | Format::Short | Format::Github);
    let mut groups = Groups::default();
    let progress = progress(jobs.len(), cli.style.quiet == 0);
    let mut read: BTreeSet<PathBuf> = files.into_iter().collect();
    in_order(
        &jobs,
        |job| check_file(job, &inputs, &style),
        |mut outcome| {
            let pieces = std::mem::take(&mut outcome.pieces);
            if !grouped {
                pieces.iter().for_each(|piece| io::print(&piece.text));
            }
            if !outcome.messages.is_empty() {
                io::error(outcome.messages.trim_end());
            }
            if grouped {
                groups.add(pieces, &outcome.owner);
            }
            if known.is_some() || written.is_some() {
                found.add(Path::new(&outcome.owner.file), &outcome.found);
            }
            read.extend(outcome.sources.drain(..).map(PathBuf::from));
            total.add(outcome);
            progress.step();
        },
    );
    drop(progress);
    io::print(&groups.text(cli.format != Format::Human, cli.style.verbose > 0));
    if cli.format == Format::Sarif {
        io::print(&sarif::document(std::mem::take(&mut total.parts), total.status.code()));
    }
    if let Some(path) = written {
        found.write(path)?;
        let (count, name) = (found.len(), path.display());
        io::error(&format!("{count} findings are in {name}; baseline = \"{name}\" in coopcheck.toml leaves them out"));
        if total.status == Status::Findings {
            total.status = Status::Success;
        }
        return Ok(Checked { status: total.status, read });
    }
    notes(task, &total, known.map_or(0, |known| known.gone(&found)));
    Ok(Checked { status: total.status, read })
}

/// Says what is to be said about all files.
fn notes(task: &Task<'_>, total: &Totals, gone: usize) {
    let style = &task.cli.style;
    if style.quiet > 0 {
        return;
    }
    if let Some(note) = unlocated_note(&total.unlocated) {
        io::error(&note);
    }
    if gone > 0 {
        io::error(&format!(
            "note: {gone} findings of the baseline are gone; --write-baseline FILE writes it without them"
        ));
    }
    if let Some(project) = task.project.filter(|_| task.cli.files.is_empty()) {
        project.unused().for_each(|message| io::error(&format!("note: {message}")));
    }
    let found = total.errors + total.warnings + total.notes > 0;
    if task.cli.format == Format::Human && (found || style.verbose > 0) {
        io::error(&summary(total, style.verbose > 0));
    }
}

/// The sums over all files.
#[derive(Default)]
struct Totals {
    status: Status,
    files: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    unlocated: Vec<String>,
    parts: Vec<sarif::Part>,
}

impl Totals {
    fn add(&mut self, outcome: Outcome) {
        self.status = self.status.max(outcome.status);
        self.errors += outcome.errors;
        self.warnings += outcome.warnings;
        self.notes += outcome.notes;
        self.parts.push(outcome.sarif);
        self.unlocated.extend(outcome.unlocated);
    }
}

/// Returns the progress, shown on a terminal when there are many files.
fn progress(files: usize, wanted: bool) -> Progress {
    /// The smallest number of files for which the progress is shown.
    const MANY: usize = 20;
    Progress::new(files as u64, "{pos} of {len} files, {eta} left", wanted && files >= MANY)
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

/// The inputs that are the same for all files.
struct Inputs<'a> {
    dynamic: Option<&'a Dynamic>,
    task: &'a Task<'a>,
    project: Option<&'a Project>,
    known: Option<&'a Baseline>,
    /// True if a baseline is written.
    written: bool,
}

/// The style of the output.
struct Style {
    format: Format,
    color: bool,
    width: usize,
    verbose: u8,
    quiet: u8,
    single: bool,
    /// True if files are checked again when they change.
    watched: bool,
}

impl Outcome {
    fn empty() -> Outcome {
        Outcome {
            status: Status::Success,
            pieces: Vec::new(),
            owner: Owner { file: String::new(), configuration: String::new() },
            found: Counts::new(),
            sources: Vec::new(),
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
        let pieces = match style.format {
            Format::Json => vec![Piece { key: None, text: format!("{}\n", json::unreadable(name, why)) }],
            Format::Human | Format::Short | Format::Github | Format::Sarif => Vec::new(),
        };
        let sarif = sarif::Part::unreadable(name, why);
        Outcome { sarif, status: Status::BadInput, pieces, messages, ..Outcome::empty() }
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

fn check_file(job: &Job, inputs: &Inputs<'_>, style: &Style) -> Outcome {
    let owner = Owner { file: io::display_name(&job.path), configuration: job.configuration.clone() };
    Outcome { owner, ..check_job(job, inputs, style) }
}

fn check_job(job: &Job, inputs: &Inputs<'_>, style: &Style) -> Outcome {
    let (path, options, dynamic) = (job.path.as_path(), &job.options, inputs.dynamic);
    let loaded = match load(path, options, inputs) {
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
        let there: Vec<String> = entry_names(&loaded).iter().map(|name| format!("'{name}'")).collect();
        let there =
            if there.is_empty() { "there is none".to_owned() } else { format!("the module has {}", there.join(", ")) };
        let messages = format!("error: {}: no entry point is called '{name}'; {there}\n", loaded.name);
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
    if let Some(project) = inputs.project {
        report.retain(|finding| !project.allows(path, finding.rule.id));
    }
    let mut found = Counts::new();
    if inputs.known.is_some() || inputs.written {
        let mut known = inputs.known.map(|known| known.known(path)).unwrap_or_default();
        only_new(&loaded, &mut report, &mut known, &mut found);
    }
    let mut status = if report.is_ok() { Status::Success } else { Status::Findings };
    let mut ran = Vec::new();
    if let Some(dynamic) = dynamic {
        ran = run(dynamic, &loaded, &report, style, &mut messages).unwrap_or_else(|failed| {
            status = failed;
            Vec::new()
        });
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
    let pieces = pieces(&loaded, &report, &ran, status, style);
    let shader = !loaded.module.has_capability(Capability::Kernel);
    let locatable =
        style.format == Format::Human && loaded.format == io::Format::Binary && shader && !pieces.is_empty();
    let unlocated = (locatable && SourceMap::new(&loaded.module).is_empty()).then(|| loaded.name.clone());
    let names = |shader: SourceMap| shader.files().iter().map(|file| file.name().to_owned()).collect();
    let sources = if style.watched { names(SourceMap::new(&loaded.module)) } else { Vec::new() };
    if style.single && !style.watched {
        // The process ends now; to give back each piece of a large module would take a hundredth of its time.
        std::mem::forget((loaded, cfgs));
    }
    Outcome { status, pieces, messages, sarif, errors, warnings, notes, unlocated, found, sources, ..Outcome::empty() }
}

/// Runs a module that breaks no rule. The error is the status of one that can't be run.
fn run(
    dynamic: &Dynamic,
    loaded: &Loaded,
    report: &Report,
    style: &Style,
    messages: &mut String,
) -> Result<Vec<Problem>, Status> {
    if !report.is_ok() {
        if style.quiet == 0 {
            messages.push_str(&format!("note: {}: not run, because it breaks rules\n", loaded.name));
        }
        return Ok(Vec::new());
    }
    dynamic.findings(loaded).map_err(|why| {
        messages.push_str(&format!("error: {}: not run: {why}\n", loaded.name));
        Status::BadInput
    })
}

/// Leaves out the findings that are known, and counts all.
fn only_new(loaded: &Loaded, report: &mut Report, known: &mut Counts, found: &mut Counts) {
    let places = Places::new(&loaded.module);
    report.omitted.retain(|(rule, count)| {
        let fingerprint = Fingerprint::omitted(rule.id);
        *found.entry(fingerprint.clone()).or_default() += count;
        !baseline::take(known, &fingerprint, *count)
    });
    report.retain(|finding| {
        let fingerprint = Fingerprint::of(&places, &Problem::from(finding));
        *found.entry(fingerprint.clone()).or_default() += 1;
        !baseline::take(known, &fingerprint, 1)
    });
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
fn load(path: &Path, options: &Options, inputs: &Inputs<'_>) -> Result<Option<Loaded>, io::FileError> {
    let Inputs { dynamic, task, .. } = inputs;
    let bytes = match Language::of(path) {
        Some(language) => task.compiler(language).compile(language, path)?,
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
    let pieces = match style.format {
        Format::Json => vec![Piece { key: None, text: format!("{}\n", json::without_findings(&name)) }],
        Format::Human | Format::Short | Format::Github | Format::Sarif => Vec::new(),
    };
    Outcome { pieces, messages, ..Outcome::empty() }
}

fn entry_names(loaded: &Loaded) -> Vec<String> {
    let decorations = Decorations::new(&loaded.module);
    coop_ir::entry::entry_points(&loaded.module, &decorations).into_iter().map(|e| e.name).collect()
}

/// Returns the text for standard output: findings of rules, then those of a run.
fn pieces(loaded: &Loaded, report: &Report, ran: &[Problem], status: Status, style: &Style) -> Vec<Piece> {
    let renderer = || Renderer::for_file(loaded, style.color, style.width).with_disassembly(style.verbose > 0);
    let problems: Vec<Problem> = report.findings.iter().map(Problem::from).chain(ran.iter().cloned()).collect();
    let line = |text: String| Piece { key: Some(text.clone()), text };
    let rest = |text: String| (!text.is_empty()).then_some(Piece { key: None, text });
    let lines = |text: String| -> Vec<Piece> { text.split_inclusive('\n').map(|text| line(text.to_owned())).collect() };
    let mut pieces = match style.format {
        Format::Human => {
            let mut drawn = if report.findings.is_empty() { Vec::new() } else { render::each(renderer(), report) };
            if !ran.is_empty() {
                let mut renderer = renderer();
                drawn.extend(ran.iter().map(|problem| renderer.draw(problem) + "\n"));
            }
            let places = (!style.single && !drawn.is_empty()).then(|| Places::new(&loaded.module));
            let key = |problem| places.as_ref().map(|places| group::key(places, problem));
            drawn.into_iter().zip(&problems).map(|(text, problem)| Piece { key: key(problem), text }).collect()
        }
        Format::Short => lines(render::short(&loaded.module, &loaded.name, &problems)),
        Format::Github => lines(render::github(&loaded.module, &loaded.name, &problems)),
        // Written when all files are through.
        Format::Sarif => Vec::new(),
        Format::Json => {
            let mut object = json::report(&loaded.module, &loaded.name, report);
            json::append(&mut object, &loaded.module, ran);
            object["ok"] = (status == Status::Success).into();
            vec![Piece { key: None, text: format!("{object}\n") }]
        }
    };
    if matches!(style.format, Format::Human | Format::Short) {
        pieces.extend(rest(render::omitted(&loaded.name, report)));
    }
    pieces
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

fn summary(total: &Totals, verbose: bool) -> String {
    let files = total.files;
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
