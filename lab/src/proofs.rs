//! Proofs of many lowerings, and of lowerings with planted errors.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use coop_cli::args::TargetArg;
use coop_cli::cooprun::Failure;
use coop_cli::cooprun::verify::{LanesName, as_written, asked, lower};
use coop_cli::interp::InterpArgs;
use coop_cli::io;
use coop_device::Profile;
use coop_exec::case::Buffer;
use coop_exec::interp::{Arithmetic, Config, Decisions, Interpreted, Mismatch, Placement, Symbolic};
use coop_exec::proof::{Options, Proof, Prover, Verdict};
use coop_exec::{Bounds, Case, Error, Tolerance};
use coop_ir::Module;
use serde::Deserialize;

use crate::campaign::entropy;
use crate::generator::{Generated, GeneratorProfile, generate};
use crate::planted::{self, Kind, Planted};

/// A list of lowerings to prove.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct List {
    /// The proofs.
    #[serde(default)]
    pub proof: Vec<Entry>,
    /// Folders all of whose modules are proved.
    #[serde(default)]
    pub all_of: Vec<Folder>,
    /// The folder of the files that the list names.
    #[serde(skip)]
    folder: PathBuf,
}

/// A folder of modules, each with the case of its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Folder {
    /// The folder.
    pub folder: PathBuf,
    /// The built-in profile to lower for.
    pub profile: String,
    /// The targets.
    pub targets: Vec<String>,
    /// The buffers whose contents are those of the case.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// The lowerings that are not proved, by "NAME to TARGET", with a part of the reason.
    #[serde(default)]
    pub open: BTreeMap<String, String>,
}

/// A module with a case, and the targets to lower it for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Entry {
    /// The module.
    pub module: PathBuf,
    /// The case.
    pub case: PathBuf,
    /// A variant of the case.
    pub variant: Option<String>,
    /// The built-in profile to lower for.
    pub profile: String,
    /// The targets.
    pub targets: Vec<String>,
    /// The buffers whose contents are those of the case.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// A part of the reason why there is no proof.
    pub open: Option<String>,
}

/// A lowering with everything that a proof of it needs.
pub struct Subject {
    /// The name in tables.
    pub name: String,
    /// The target.
    pub target: TargetArg,
    /// The original.
    pub module: Module,
    /// Its case.
    pub case: Case,
    /// The lowered module.
    pub lowered: Module,
    /// The case with what the lowered module asks of its pipeline.
    pub asked: Case,
    /// The interpreter.
    pub interpreted: Interpreted,
    /// The buffers whose contents are those of the case.
    pub fixed: Vec<String>,
    /// A part of the reason why there is no proof.
    pub open: Option<String>,
}

impl List {
    /// Reads a list.
    pub fn load(path: &Path) -> Result<List, Failure> {
        let text = io::read_text(path)?;
        let mut list: List =
            toml::from_str(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        list.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(list)
    }

    /// Returns the modules of the list with their cases.
    pub fn tasks(&self) -> Result<Vec<Task>, Failure> {
        let mut tasks = self.proof.iter().map(|entry| self.task(entry)).collect::<Result<Vec<Task>, Failure>>()?;
        for folder in &self.all_of {
            for entry in self.entries(folder)? {
                tasks.push(self.task(&entry)?);
            }
        }
        Ok(tasks)
    }

    /// Returns the modules of a folder that have a case.
    fn entries(&self, of: &Folder) -> Result<Vec<Entry>, Failure> {
        let path = self.folder.join(&of.folder);
        let fail = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let files = std::fs::read_dir(&path).map_err(fail)?;
        let mut names = files.map(|file| Ok(file.map_err(fail)?.file_name())).collect::<Result<Vec<_>, Failure>>()?;
        names.sort();
        let mut out = Vec::new();
        for name in names.iter().map(Path::new).filter(|name| name.extension().is_some_and(|end| end == "toml")) {
            let ends = ["spv", "spvasm"].map(|end| of.folder.join(name).with_extension(end));
            let Some(module) = ends.into_iter().find(|module| self.folder.join(module).exists()) else { continue };
            for target in &of.targets {
                let open = of.open.get(&format!("{} to {target}", name.with_extension("").display()));
                out.push(Entry {
                    module: module.clone(),
                    case: of.folder.join(name),
                    variant: None,
                    profile: of.profile.clone(),
                    targets: vec![target.clone()],
                    fixed: of.fixed.clone(),
                    open: open.cloned(),
                });
            }
        }
        Ok(out)
    }

    /// Returns the module of an entry with its case.
    pub fn task(&self, entry: &Entry) -> Result<Task, Failure> {
        let mut case = Case::load(&self.folder.join(&entry.case))?;
        let mut name = entry.module.with_extension("").display().to_string();
        let own = entry.case.with_extension("");
        if own != entry.module.with_extension("") {
            let _ = write!(name, " with {}", own.file_name().unwrap_or_default().display());
        }
        if let Some(variant) = &entry.variant {
            case = case.with_variant(variant)?;
            let _ = write!(name, ", {variant}");
        }
        let Some(profile) = Profile::builtin(&entry.profile) else {
            return Err(Failure::Usage(format!("there is no profile '{}'", entry.profile)));
        };
        let named = entry.targets.iter().map(|name| <TargetArg as clap::ValueEnum>::from_str(name, false));
        Ok(Task {
            name,
            module: self.folder.join(&entry.module),
            profile,
            targets: named.collect::<Result<_, _>>().map_err(Failure::Usage)?,
            // A list of a folder names buffers that some of its cases have.
            fixed: entry.fixed.iter().filter(|name| case.buffer.iter().any(|b| b.name == **name)).cloned().collect(),
            case,
            open: entry.open.clone(),
        })
    }

    /// Returns the lowerings of an entry, each with what it is or why it is refused.
    pub fn subjects(&self, entry: &Entry) -> Result<Vec<Result<Subject, String>>, Failure> {
        let task = self.task(entry)?;
        task.targets.iter().map(|target| task.subject(*target, Setting::default())).collect()
    }
}

/// A module with a case, and the targets to lower it for.
#[derive(Clone, Debug)]
pub struct Task {
    /// The name in tables.
    pub name: String,
    /// The module.
    pub module: PathBuf,
    /// The case.
    pub case: Case,
    /// The device to lower for.
    pub profile: Profile,
    /// The targets.
    pub targets: Vec<TargetArg>,
    /// The buffers whose contents are those of the case.
    pub fixed: Vec<String>,
    /// A part of the reason why there is no proof.
    pub open: Option<String>,
}

/// A size of subgroups, and a placement of the elements of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// The size; `None`: that of the case, or of the device.
    pub size: Option<u32>,
    /// The placement.
    pub placement: Placement,
}

/// The sizes of subgroups that lowerings are proved for.
pub const SIZES: [u32; 4] = [8, 16, 32, 64];

impl Task {
    /// Returns the settings that a lowering is to be right in.
    pub fn settings(&self) -> Vec<Setting> {
        // A case that says the size is for that one.
        let sizes = if self.case.subgroup_size.is_some() { vec![None] } else { SIZES.map(Some).to_vec() };
        sizes.iter().flat_map(|size| Placement::ALL.map(|placement| Setting { size: *size, placement })).collect()
    }

    /// Returns the lowering for a target, or why it is refused.
    pub fn subject(&self, target: TargetArg, setting: Setting) -> Result<Result<Subject, String>, Failure> {
        let module = io::load(&self.module)?.module;
        let (case, mut profile) = (&self.case, self.profile.clone());
        let interp = InterpArgs { subgroup_size: setting.size, ..InterpArgs::default() };
        let (size, _) = interp.subgroup_size(case, Some(profile.limits.subgroup_size));
        if setting.size.is_some() {
            has_subgroups_of(&mut profile, size);
        }
        let profile = &profile;
        let config = Config { subgroup_size: size, placement: setting.placement, ..Config::default() };
        let interpreted = Interpreted { config };
        Ok(match lower(&module, case, target, LanesName::Subgroup, Some(profile), &interp) {
            Err(Failure::Lower(refusal)) => Err(refusal.to_string()),
            Err(other) => return Err(other),
            Ok(lowered) => Ok(Subject {
                name: self.name.clone(),
                target,
                lowered: as_written(&lowered.module)?,
                asked: asked(case, &lowered.report),
                module,
                case: case.clone(),
                interpreted,
                fixed: self.fixed.clone(),
                open: self.open.clone(),
            }),
        })
    }
}

/// Returns the generated module of a seed, with its case.
pub fn made(profile: GeneratorProfile, seed: u64) -> Generated {
    generate(profile, &entropy(seed, MOST_ENTROPY))
}

/// Returns the lowering of a generated module for a target, or why it is refused.
pub fn generated(profile: GeneratorProfile, seed: u64, target: TargetArg) -> Result<Result<Subject, String>, Failure> {
    let made = made(profile, seed);
    let case = Case::parse(&made.case, Path::new(""))?;
    let name = format!("{profile} {seed}");
    let lanes = profile.lanes();
    let interp = InterpArgs { subgroup_size: Some(lanes), ..InterpArgs::default() };
    let interpreted = Interpreted { config: Config { subgroup_size: lanes, ..Config::default() } };
    let tiles = (target != TargetArg::Scalar).then(|| lavapipe(lanes)).flatten();
    Ok(match lower(&made.module, &case, target, LanesName::Subgroup, tiles.as_ref(), &interp) {
        Err(Failure::Lower(coop_passes::Error::Refused(refusal))) => Err(refusal.rule.to_owned()),
        Err(other) => return Err(other),
        Ok(lowered) => Ok(Subject {
            name,
            target,
            lowered: as_written(&lowered.module)?,
            asked: asked(&case, &lowered.report),
            module: made.module,
            // Generated modules read sizes and indices from this buffer, so that no compiler knows them.
            fixed: case.buffer.iter().filter(|b| b.name == "T").map(|b| b.name.clone()).collect(),
            case,
            interpreted,
            open: None,
        }),
    })
}

/// Makes a device one with subgroups of a size: the interpreter has those of any.
fn has_subgroups_of(profile: &mut Profile, lanes: u32) {
    let limits = &mut profile.limits;
    (limits.subgroup_size, limits.min_subgroup_size, limits.max_subgroup_size) = (lanes, lanes, lanes);
}

/// Returns lavapipe's matrices in subgroups of a size.
fn lavapipe(lanes: u32) -> Option<Profile> {
    let mut profile = Profile::builtin("mesa-lavapipe")?;
    has_subgroups_of(&mut profile, lanes);
    Some(profile)
}

/// The most bytes of entropy of a generated module.
const MOST_ENTROPY: usize = 600;

/// Returns the name of a target on the command line.
pub fn word(target: TargetArg) -> String {
    clap::ValueEnum::to_possible_value(&target).map_or_else(String::new, |v| v.get_name().to_owned())
}

impl Subject {
    /// Proves the lowering.
    pub fn prove(&self, options: &Options) -> Result<Proof, Error> {
        let options = self.options(options);
        Prover::new(self.interpreted, &self.module, &self.case, &options)?.prove(&self.lowered, &self.asked)
    }

    fn options(&self, options: &Options) -> Options {
        let mut options = options.clone();
        options.fixed.extend(self.fixed.iter().cloned());
        options
    }

    /// Plants errors in the lowering, and returns what a proof and an ordinary run say of each.
    pub fn plant(&self, options: &Options, count: usize, seed: u64) -> Result<Vec<Trial>, Error> {
        let steps = self.interpreted.run_module(&self.lowered, &self.asked)?.1.steps;
        // A loop that no longer ends ends here.
        let config = Config { step_budget: 4 * steps + 10_000, ..self.interpreted.config };
        let interpreted = Interpreted { config };
        let options = Options { explain: false, ..self.options(options) };
        let mut prover = Prover::new(interpreted, &self.module, &self.case, &options)?;
        let data = Data::new(self, interpreted)?;
        let mut out = Vec::new();
        // Some of them are no modules any more, such as one with an index of a member that a structure does not have.
        let mut sites = planted::sites(&self.lowered);
        // Nothing rounds among the reals; each other error is one of the reals too.
        sites.retain(|site| Kind::OF_ROUNDING.contains(&site.kind) == (options.arithmetic == Arithmetic::Rounding));
        for planted in planted::sample(sites, usize::MAX, seed) {
            if out.len() == count {
                break;
            }
            let broken = planted::plant(&self.lowered, &planted);
            let found = match data.find(&broken, 0) {
                Err(Error::Unsupported { .. } | Error::Module(_)) => continue,
                found => found?,
            };
            let proof = prover.prove(&broken, &self.asked)?;
            let is_named = |(buffer, element): &(String, u64)| {
                let named = |m: &Mismatch| self.case.buffer[m.buffer].name == *buffer && m.element as u64 == *element;
                proof.mismatches.iter().any(named) || proof.mismatches.len() < proof.differing as usize
            };
            let place = found.as_ref().and_then(|found| found.place.as_ref());
            // A finding of undefined behavior has no element; of a group only its first is named.
            let sums = self.case.buffer.iter().any(|b| matches!(b.tolerance, Tolerance::Sums { .. }));
            let elsewhere = proof.differing > 0 && !sums && place.is_some_and(|place| !is_named(place));
            let (verdict, found) = (proof.verdict, found.map(|found| found.text));
            let contradicted = match verdict {
                Verdict::Proved => {
                    let found = (0..data.runs.len()).find_map(|k| data.find(&broken, k).transpose()).transpose()?;
                    found.map(|found| found.text)
                }
                _ => None,
            };
            out.push(Trial { planted, verdict, found, elsewhere, contradicted });
        }
        Ok(out)
    }
}

/// The seconds that runs take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// An ordinary run of the original and of the lowered module.
    pub ordinary: f64,
    /// A symbolic run of both.
    pub symbolic: f64,
}

impl Subject {
    /// Returns how long both modules run, ordinarily and for all contents of the data buffers: the least of so many times.
    pub fn times(&self, options: &Options, repeat: u32) -> Result<Times, Error> {
        let options = self.options(options);
        let is_data = |b: &Buffer| !b.fill.has_addresses() && !options.fixed.contains(&b.name);
        let symbolic = Symbolic {
            arithmetic: options.arithmetic,
            seed: options.seed,
            data: self.case.buffer.iter().map(is_data).collect(),
            modular: false,
            nearest: false,
            expressions: false,
            given: Decisions::default(),
        };
        let sides = [(&self.module, &self.case), (&self.lowered, &self.asked)];
        let least = |run: &dyn Fn() -> Result<(), Error>| -> Result<f64, Error> {
            let mut least = f64::INFINITY;
            for _ in 0..repeat.max(1) {
                let started = Instant::now();
                run()?;
                least = least.min(started.elapsed().as_secs_f64());
            }
            Ok(least)
        };
        let ordinary =
            least(&|| sides.iter().try_for_each(|(module, case)| self.interpreted.run_module(module, case).map(drop)))?;
        let symbolic = least(&|| {
            sides.iter().try_for_each(|(module, case)| self.interpreted.run_symbolic(module, case, &symbolic).map(drop))
        })?;
        Ok(Times { ordinary, symbolic })
    }
}

/// The results for a planted error.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The error.
    pub planted: Planted,
    /// The verdict of a proof.
    pub verdict: Verdict,
    /// The complaint of an ordinary run with the case's data.
    pub found: Option<String>,
    /// True if the element that the run finds first is none of those that the proof names.
    pub elsewhere: bool,
    /// The data for which the broken module is wrong although it was proved: a defect of the prover.
    pub contradicted: Option<String>,
}

/// The outcomes of the original with several data.
struct Data<'a> {
    subject: &'a Subject,
    interpreted: Interpreted,
    runs: Vec<(Case, Case, coop_exec::Outcome, Bounds)>,
}

/// The first difference that a run finds.
struct Wrong {
    text: String,
    /// The buffer and the first element that differs in it.
    place: Option<(String, u64)>,
}

/// The number of data that a proved module is run with.
const SEEDS: u64 = 3;

impl<'a> Data<'a> {
    fn new(subject: &'a Subject, interpreted: Interpreted) -> Result<Data<'a>, Error> {
        let mut runs = Vec::new();
        for seed in 0..=SEEDS {
            let [mut case, mut asked] = [subject.case.clone(), subject.asked.clone()];
            for case in [&mut case, &mut asked] {
                case.seed = case.seed.wrapping_add(seed);
            }
            let (memory, report) = subject.interpreted.run_module(&subject.module, &case)?;
            let bounds = Bounds::derive(&subject.module, &case, subject.interpreted.config);
            runs.push((case, asked, Interpreted::outcome(memory, &report), bounds));
        }
        Ok(Data { subject, interpreted, runs })
    }

    /// Returns what a run of a module with some data finds wrong. Runs but the first take another placement too.
    fn find(&self, module: &Module, k: usize) -> Result<Option<Wrong>, Error> {
        let (case, asked, wanted, bounds) = &self.runs[k];
        let placement = if k % 2 == 1 { Placement::Permuted } else { Placement::default() };
        let config = Config { placement, ..self.interpreted.config };
        let (memory, report) = Interpreted { config }.run_module(module, asked)?;
        if let Some(finding) = report.findings.iter().find(|f| f.kind.is_undefined_behaviour()) {
            return Ok(Some(Wrong { text: finding.to_string(), place: None }));
        }
        let differences = Interpreted::outcome(memory, &report).compare_within(wanted, case, bounds, 2)?;
        let name = &self.subject.name;
        Ok(differences.first().map(|difference| Wrong {
            text: format!("{name}, seed {}: {difference}", case.seed),
            place: difference.places.first().map(|place| (difference.buffer.clone(), place.index)),
        }))
    }
}

/// Counts of planted errors by kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    rows: BTreeMap<Kind, [u64; 5]>,
}

impl Tally {
    /// Counts a trial.
    pub fn add(&mut self, trial: &Trial) {
        let row = self.rows.entry(trial.planted.kind).or_default();
        row[0] += 1;
        row[match trial.verdict {
            Verdict::Refuted(_) => 1,
            Verdict::Proved => 2,
            Verdict::NotProvable(_) => 3,
        }] += 1;
        row[4] += u64::from(trial.found.is_some());
    }

    /// Returns the sums: planted, refuted, proved equivalent, open, and found by an ordinary run.
    pub fn total(&self) -> [u64; 5] {
        self.rows.values().fold([0; 5], |total, row| [0, 1, 2, 3, 4].map(|i| total[i] + row[i]))
    }

    /// Returns the table.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| error | planted | refuted | proved equivalent | neither | found by an ordinary run |\n|---|--:|--:|--:|--:|--:|\n",
        );
        let rows = self.rows.iter().map(|(kind, row)| (kind.name(), *row));
        for (name, [planted, refuted, proved, open, found]) in rows.chain([("all", self.total())]) {
            let _ = writeln!(text, "| {name} | {planted} | {refuted} | {proved} | {open} | {found} |");
        }
        text
    }
}
