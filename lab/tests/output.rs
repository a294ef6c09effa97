//! Properties of every lowering, for all modules of the repository, those of llama.cpp and generated ones:
//!
//! - The output depends on nothing but the input: it is the same on another seed of all hash maps.
//! - It is clean: `coopcheck` has no error and no warning of a rule that the input does not break.

#[path = "../../cli/tests/llama_modules/mod.rs"]
mod llama_modules;

use coop_device::Profile;
use coop_exec::Case;
use coop_ir::constant::Specialization;
use coop_ir::hash::with_seed;
use coop_ir::{Module, binary, text};
use coop_lab::campaign::entropy;
use coop_lab::generator::{self, Dialect, Limits, generate};
use coop_passes::{Error, Lanes, Lowered, Options, Target, Vulkan, lower};
use coop_validate::Level;
use llama_modules::{groups_of, in_parallel, members, modules, none, read, repository, stem};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A module and how it is run.
struct Subject {
    name: String,
    words: Vec<u32>,
    spec: Specialization,
    subgroup_size: u32,
}

/// A way to lower it.
#[derive(Clone, Copy)]
struct Way<'a> {
    target: Target,
    lanes: Lanes,
    profile: &'a Profile,
}

/// The number of lowered modules.
#[derive(Default)]
struct Count(AtomicUsize);

/// Returns the complaints about a lowered module.
fn wrong(subject: &Subject, way: Way<'_>, lowered: &Count) -> Vec<String> {
    let run = |seed: usize| with_seed(seed, || attempt(subject, way));
    let label = format!("{} to {}", subject.name, way.target);
    match (run(0), run(0x5eed_1234)) {
        (Ok((input, one)), Ok((_, other))) => {
            lowered.0.fetch_add(1, Ordering::Relaxed);
            let mut found = Vec::new();
            if binary::write_words(&one.module) != binary::write_words(&other.module) {
                found.push(format!(
                    "{label}: another output on another seed, {}",
                    difference(&one.module, &other.module)
                ));
            }
            if said(&one) != said(&other) {
                found.push(format!("{label}: another report on another seed"));
            }
            found.extend(unclean(subject, way, &input, &one).into_iter().map(|f| format!("{label}: {f}")));
            found
        }
        (Err(one), Err(other)) if one == other => Vec::new(),
        (Err(one), Err(other)) => vec![format!("{label}: {one}; on another seed {other}")],
        (Ok(_), Err(why)) | (Err(why), Ok(_)) => vec![format!("{label}: on one of two seeds {why}")],
    }
}

fn attempt(subject: &Subject, way: Way<'_>) -> Result<(Module, Lowered), String> {
    let module = binary::read_words(&subject.words).map_err(|e| e.to_string())?;
    let mut profile = way.profile.clone();
    let (limits, size) = (&mut profile.limits, subject.subgroup_size);
    // The device lends its matrices only.
    (limits.subgroup_size, limits.min_subgroup_size, limits.max_subgroup_size) = (size, size, size);
    let options = Options {
        spec: subject.spec.clone(),
        spec_defaults: true,
        profile: Some(&profile),
        subgroup_size: Some(size),
        lanes: way.lanes,
        ..Options::new(way.target)
    };
    match lower(&module, &options) {
        Ok(lowered) => Ok((module, lowered)),
        Err(Error::Refused(refusal)) => Err(refusal.to_string()),
        Err(bug) => panic!("{}: {bug}", subject.name),
    }
}

/// The report, without how long things took.
fn said(lowered: &Lowered) -> String {
    let mut report = lowered.report.clone();
    report.passes.iter_mut().for_each(|t| t.micros = 0);
    format!("{report:?}")
}

/// The first line in which two modules differ.
fn difference(one: &Module, other: &Module) -> String {
    let options = text::PrintOptions { friendly_names: false, ..text::PrintOptions::default() };
    let [one, other] = [one, other].map(|m| text::print(m, &options).text);
    let pair = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    pair.map_or_else(|| "which is longer".to_owned(), |(a, b)| format!("'{}' and '{}'", a.trim(), b.trim()))
}

/// Findings of rules that the input does not break.
fn unclean(subject: &Subject, way: Way<'_>, input: &Module, lowered: &Lowered) -> Vec<String> {
    let size =
        lowered.report.required_subgroup_size.or((way.lanes == Lanes::Subgroup).then_some(subject.subgroup_size));
    let findings = |module: &Module, spec: &Specialization| {
        let mut options = coop_validate::Options::default();
        options.specialization = spec.clone();
        options.subgroup_size = size;
        options.barriers = true;
        let mut found = coop_validate::check(&coop_ir::captures::as_passed(module), &options).findings;
        found.retain(|f| f.level >= Level::Warning);
        found
    };
    let mut before: BTreeSet<&str> = findings(input, &subject.spec).iter().map(|f| f.rule.id).collect();
    // Where matrices go through shared memory there are barriers, in the flow in which the matrices are.
    if before.contains("uniformity-flow") {
        before.insert("uniformity-barrier");
    }
    let after = findings(&lowered.module, &subject.spec);
    let new = after.iter().filter(|f| !before.contains(f.rule.id));
    new.map(|f| format!("{}[{}]: {}", f.level, f.rule.id, f.message)).collect()
}

/// The modules of a folder in testdata, with the constants of their cases.
fn folder(name: &str) -> Vec<Subject> {
    let entries = std::fs::read_dir(repository().join("testdata").join(name)).expect("a folder").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| subject(path)).collect()
}

fn subject(path: &Path) -> Option<Subject> {
    let module = match path.extension()?.to_str()? {
        "spv" => binary::read(&std::fs::read(path).expect("readable")).expect("a module"),
        "spvasm" => text::parse(&std::fs::read_to_string(path).expect("readable")).expect("a module"),
        _ => return None,
    };
    // The case of a variant of a module is that of the module.
    let mut name = stem(path);
    let case = loop {
        let case = path.with_file_name(format!("{name}.toml"));
        if case.exists() {
            break Some(Case::load(&case).expect("a case"));
        }
        match name.rsplit_once('.') {
            Some((shorter, _)) => name = shorter.to_owned(),
            None => break None,
        }
    };
    let spec = case.as_ref().map(|c| c.specialization().expect("values")).unwrap_or_default();
    let subgroup_size = case.and_then(|c| c.subgroup_size).unwrap_or(8);
    Some(Subject { name: path.display().to_string(), words: binary::write_words(&module), spec, subgroup_size })
}

fn builtin(name: &str) -> Profile {
    Profile::builtin(name).expect("a profile")
}

/// Every module in every way; at least `least` of them can be lowered.
fn check(subjects: &[Subject], ways: &[Way<'_>], least: usize) {
    let lowered = Count::default();
    let all: Vec<(&Subject, Way<'_>)> = subjects.iter().flat_map(|s| ways.iter().map(move |w| (s, *w))).collect();
    none(&in_parallel(&all, |(subject, way)| wrong(subject, *way, &lowered)));
    let lowered = lowered.0.into_inner();
    assert!(lowered >= least, "{lowered} of {} were lowered", all.len());
}

#[test]
fn modules_of_the_repository() {
    let [h100, lavapipe] = ["nvidia-h100", "mesa-lavapipe"].map(builtin);
    let maintenance = lavapipe.clone().with_maintenance1();
    let way = |target, profile| Way { target, lanes: Lanes::Subgroup, profile };
    let ways = [
        way(Target::Scalar, &h100),
        Way { lanes: Lanes::LocalIndex, ..way(Target::Scalar, &lavapipe) },
        way(Target::Khr, &lavapipe),
        way(Target::Khr, &h100),
        way(Target::Ext, &maintenance),
    ];
    let folders = ["kernels", "bench", "passes", "dialects", "hardware", "opencl", "drivers", "exec"];
    let subjects: Vec<Subject> = folders.into_iter().flat_map(folder).collect();
    check(&subjects, &ways, 600);
}

#[test]
fn kernels_as_shaders() {
    let intel = builtin("intel-arc");
    let lowered = Count::default();
    let mut subjects = folder("opencl");
    subjects.extend(folder("vulkan"));
    let found = in_parallel(&subjects, |subject| {
        let run = |seed| {
            with_seed(seed, || {
                let module = binary::read_words(&subject.words).expect("a module");
                let options = Options {
                    spec: subject.spec.clone(),
                    spec_defaults: true,
                    profile: Some(&intel),
                    vulkan: Some(Vulkan { local_arguments: (0..8).map(|n| (n, 4096)).collect() }),
                    lanes: Lanes::LocalIndex,
                    subgroup_size: Some(16),
                    local_size: Some([16, 1, 1]),
                    ..Options::new(Target::Scalar)
                };
                lower(&module, &options).map(|l| (binary::write_words(&l.module), said(&l))).map_err(|e| e.to_string())
            })
        };
        let (one, other) = (run(0), run(77));
        lowered.0.fetch_add(usize::from(one.is_ok()), Ordering::Relaxed);
        if one == other { Vec::new() } else { vec![format!("{}: another output on another seed", subject.name)] }
    });
    none(&found);
    assert!(lowered.0.into_inner() >= 10);
}

/// With the constants that the engine gives them: every module to khr or scalar in turn.
fn llama(ending: &str, spec: &str, least: usize) {
    let Some(modules) = modules() else { return };
    let groups = groups_of(spec);
    let modules: Vec<PathBuf> = modules.into_iter().filter(|p| stem(p).ends_with(ending)).collect();
    let h100 = builtin("nvidia-h100");
    let lowered = Count::default();
    let all: Vec<_> = members(&modules, &groups).into_iter().enumerate().collect();
    none(&in_parallel(&all, |(at, member)| {
        let entry = &member.group.entry[at % member.group.entry.len()];
        let subject = Subject {
            name: format!("{}, {}", stem(member.path), entry.label()),
            words: binary::write_words(&read(member.path)),
            spec: entry.specialization(),
            subgroup_size: entry.subgroup_size(),
        };
        let few = member.group.count <= 6;
        let targets = [Target::Khr, Target::Scalar].into_iter().enumerate().filter(|(n, _)| few || at % 2 == *n);
        let way = |target| Way { target, lanes: Lanes::Subgroup, profile: &h100 };
        targets.flat_map(|(_, target)| wrong(&subject, way(target), &lowered)).collect()
    }));
    let lowered = lowered.0.into_inner();
    assert!(lowered >= least, "{lowered} of {} were lowered", all.len());
}

#[test]
fn llamas_modules_of_cooperative_matrix_1() {
    llama("_cm1", "spec.toml", 200);
}

#[test]
fn llamas_modules_of_cooperative_matrix_2() {
    llama("_cm2", "spec_cm2.toml", 120);
}

#[test]
fn generated_modules() {
    let [lavapipe, h100] = ["mesa-lavapipe", "nvidia-h100"].map(builtin);
    let maintenance = lavapipe.clone().with_maintenance1();
    let lowered = Count::default();
    let dialects = Dialect::ALL.into_iter().chain([Dialect::Kernel]);
    let profiles: Vec<generator::GeneratorProfile> = dialects
        .flat_map(|dialect| {
            [Limits::Any, Limits::Tiles, Limits::Nvidia].map(|limits| generator::GeneratorProfile { dialect, limits })
        })
        .filter(|p| p.dialect.has(p.limits))
        .collect();
    let seeds: Vec<(generator::GeneratorProfile, u64)> =
        profiles.into_iter().flat_map(|profile| (0..24).map(move |seed| (profile, seed))).collect();
    none(&in_parallel(&seeds, |(profile, seed)| {
        let made = generate(*profile, &entropy(*seed, 500));
        let case = Case::parse(&made.case, Path::new("")).expect("a case");
        let subject = Subject {
            name: format!("{profile} {seed}"),
            words: binary::write_words(&made.module),
            spec: case.specialization().expect("values"),
            subgroup_size: profile.lanes(),
        };
        let way = |target, lanes, profile| Way { target, lanes, profile };
        let device = if profile.limits == Limits::Nvidia { &h100 } else { &lavapipe };
        let ways = [
            way(Target::Scalar, Lanes::Subgroup, &lavapipe),
            way(Target::Scalar, Lanes::LocalIndex, &lavapipe),
            way(Target::Khr, Lanes::Subgroup, device),
            way(Target::Ext, Lanes::Subgroup, &maintenance),
        ];
        ways.into_iter().flat_map(|way| wrong(&subject, way, &lowered)).collect()
    }));
    let lowered = lowered.0.into_inner();
    assert!(lowered >= 600, "{lowered} of {} were lowered", 4 * seeds.len());
}
