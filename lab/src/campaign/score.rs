//! Counts the broken rules that coopcheck finds, and the broken modules that spirv-val refuses.

use super::entropy;
use crate::generator::mutate::{Mutator, mutators};
use crate::generator::{Dialect, GeneratorProfile, Limits, generate_fixed};
use coop_device::{ApiVersion, ComponentType, Feature, MatrixProperties, Profile, Requirement, capability_requirement};
use coop_exec::random::Random;
use coop_ir::{Module, binary, text};
use coop_validate::{Level, Options, RULES};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rules of the catalogue that no generated module is made to break, and why. `testdata/validate` has modules for each.
pub const UNBROKEN: &[(&str, &str)] = &[
    ("arithmetic-scalar-opencl", "generated kernels multiply by no scalars"),
    ("device-alignment-unproven", NOT_BROKEN),
    ("device-block-size", "no module that lavapipe runs has block sizes"),
    ("device-buffer-range", "no generated buffer has a fixed size"),
    ("device-component-signedness", NOT_BROKEN),
    ("device-dimension", "other limits of the device are in the way first"),
    ("device-full-subgroups", NOT_BROKEN),
    ("device-local-size", "subgroups of 8 divide all generated workgroups"),
    ("device-not-judged", NOT_BROKEN),
    ("device-nv1-muladd", "lavapipe has no SPV_NV_cooperative_matrix"),
    ("device-nv1-type", "lavapipe has no SPV_NV_cooperative_matrix"),
    ("device-qcom-lanes", "lavapipe has no SPV_QCOM_cooperative_matrix_conversion"),
    ("device-scope-workgroup", "no module that lavapipe runs has matrices of the workgroup"),
    ("device-undecided", NOT_BROKEN),
    ("intel-checked-storage", "a warning about one compiler, which generated kernels get as they are"),
    ("intel-fill-pointer", "a habit of one compiler, which other rules would call wrong as well"),
    ("module-entry-point-called", "whatever calls the only entry point is itself called by it, which is recursion"),
    (
        "module-entry-point-interface",
        "generated modules are of SPIR-V 1.4 and newer, where interfaces list all variables",
    ),
    ("module-surplus-words", IN_TESTDATA),
    ("module-value-type", IN_TESTDATA),
    ("module-variable-pointer", IN_TESTDATA),
    ("portability-shared-order", "generated modules have such shared memory: lowered code gets another order"),
    ("uniformity-assumed", NOT_BROKEN),
];

const IN_TESTDATA: &str = "generated modules are not broken so; modules of testdata/validate/module are";
const NOT_BROKEN: &str = "a note about what is valid: it can't be broken";

/// The rules about devices that are broken by taking something from a device.
pub fn device_rules() -> impl Iterator<Item = &'static str> {
    LESS.iter().map(|l| l.0)
}

/// The result for the modules in which a rule was broken.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// The number of modules.
    pub broken: u64,
    /// In how many coopcheck reported that rule.
    pub found: u64,
    /// In how many of these it reported no other rule's error.
    pub alone: u64,
    /// The numbers of modules that spirv-val checked and that it refused.
    pub external: [u64; 2],
    /// The rules that were reported where the broken one was not.
    pub instead: BTreeMap<String, u64>,
    /// A module in which the rule was not found.
    pub missed: Option<Box<Module>>,
}

/// The findings for modules in which nothing was broken.
#[derive(Clone, Debug, Default)]
pub struct Valid {
    /// The number of modules.
    pub modules: u64,
    /// In how many of them coopcheck reported which rule at which level.
    pub reported: BTreeMap<(Level, &'static str), u64>,
    /// The numbers of modules that spirv-val checked and that it refused.
    pub external: [u64; 2],
}

/// The scores by rule.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// The scores by rule.
    pub rules: BTreeMap<&'static str, Score>,
    /// The findings in modules before anything was broken.
    pub valid: Valid,
}

impl Scores {
    /// Adds another's.
    pub fn add(&mut self, other: Scores) {
        self.valid.modules += other.valid.modules;
        (0..2).for_each(|i| self.valid.external[i] += other.valid.external[i]);
        other.valid.reported.into_iter().for_each(|(k, n)| *self.valid.reported.entry(k).or_default() += n);
        for (rule, s) in other.rules {
            let to = self.rules.entry(rule).or_default();
            to.broken += s.broken;
            to.found += s.found;
            to.alone += s.alone;
            (0..2).for_each(|i| to.external[i] += s.external[i]);
            s.instead.into_iter().for_each(|(k, n)| *to.instead.entry(k).or_default() += n);
            to.missed = to.missed.take().or(s.missed);
        }
    }

    /// Broken modules, and in how many of them the rule was found.
    pub fn total(&self) -> (u64, u64) {
        let sum = |f: fn(&Score) -> u64| self.rules.values().map(f).sum();
        (sum(|s| s.broken), sum(|s| s.found))
    }

    /// Returns the findings for valid modules, in a line.
    fn alarms(&self) -> String {
        let reported = self.valid.reported.iter().filter(|((level, _), _)| *level > Level::Note);
        let reported: Vec<String> = reported.map(|((level, rule), n)| format!("{level} {rule} {n}")).collect();
        let reported = if reported.is_empty() { "no error, no warning".into() } else { reported.join(", ") };
        let [asked, refused] = self.valid.external;
        format!("{} valid modules: {reported}; spirv-val refuses {refused} of {asked}", self.valid.modules)
    }

    /// Rules of the catalogue that nothing broke.
    pub fn unbroken(&self) -> Vec<&'static str> {
        RULES.iter().map(|r| r.id).filter(|id| self.rules.get(id).is_none_or(|s| s.broken == 0)).collect()
    }

    /// As the page `docs/mutants.md`; `how` is the command that gave the scores.
    pub fn page(&self, how: &str) -> String {
        let percent =
            |n: u64, of: u64| if of == 0 { "-".into() } else { format!("{:.1}", 100.0 * n as f64 / of as f64) };
        let row = |name: &str, s: &Score| {
            let spirv_val = percent(s.external[1], s.external[0]);
            format!("| {name} | {} | {} | {spirv_val} |\n", s.broken, percent(s.found, s.broken))
        };
        let mut total = Score::default();
        for s in self.rules.values() {
            total.broken += s.broken;
            total.found += s.found;
            (0..2).for_each(|i| total.external[i] += s.external[i]);
        }
        let mut out = format!(
            "# Broken rules in generated modules\n\n\
             Written by `{how}`: valid modules of every dialect are generated and one rule is broken in each. *Found*: of the\n\
             modules in which the rule of that name was broken, those of which coopcheck reports that rule. *spirv-val*: of\n\
             a sample of them, those that it refuses, for whatever reason; it is not asked about devices, nor about\n\
             kernels, whose instructions it can't read.\n\n\
             | rule | modules | found, % | spirv-val, % |\n|---|---|---|---|\n"
        );
        out += &row(&format!("all {}", self.rules.len()), &total);
        self.rules.iter().for_each(|(rule, s)| out += &row(rule, s));
        out += &format!("\n## Not broken at all\n\n{}.\n", self.alarms());
        out += "\n## Rules that are not broken\n\n| rule | why |\n|---|---|\n";
        UNBROKEN.iter().for_each(|(rule, why)| out += &format!("| {rule} | {why} |\n"));
        out
    }

    /// As a table.
    pub fn table(&self) -> String {
        let percent =
            |n: u64, of: u64| if of == 0 { "-".into() } else { format!("{:.1}", 100.0 * n as f64 / of as f64) };
        let mut out =
            format!("{:<34} {:>8} {:>8} {:>8} {:>10}\n", "rule", "broken", "found %", "alone %", "spirv-val %");
        let line = |out: &mut String, name: &str, s: &Score| {
            let [asked, refused] = s.external;
            out.push_str(&format!(
                "{name:<34} {:>8} {:>8} {:>8} {:>10}\n",
                s.broken,
                percent(s.found, s.broken),
                percent(s.alone, s.broken),
                percent(refused, asked)
            ));
            if s.found < s.broken {
                let instead: Vec<String> = s.instead.iter().map(|(k, n)| format!("{k} {n}")).collect();
                out.push_str(&format!("    instead: {}\n", instead.join(", ")));
            }
        };
        let mut total = Score::default();
        for (rule, s) in &self.rules {
            line(&mut out, rule, s);
            total.broken += s.broken;
            total.found += s.found;
            total.alone += s.alone;
            (0..2).for_each(|i| total.external[i] += s.external[i]);
        }
        total.instead.clear();
        out.push_str(&format!(
            "{:<34} {:>8} {:>8} {:>8} {:>10}\n",
            format!("{} rules", self.rules.len()),
            total.broken,
            percent(total.found, total.broken),
            percent(total.alone, total.broken),
            percent(total.external[1], total.external[0])
        ));
        out.push_str(&format!("{}\nnot broken: {}\n", self.alarms(), self.unbroken().join(" ")));
        out
    }

    /// Keeps a module for each rule that was missed.
    pub fn keep(&self, folder: &Path) -> std::io::Result<()> {
        for (rule, s) in &self.rules {
            if let Some(module) = &s.missed {
                std::fs::create_dir_all(folder)?;
                let text = text::print(module, &text::PrintOptions::default()).text;
                std::fs::write(folder.join(format!("{rule}.spvasm")), text)?;
            }
        }
        Ok(())
    }
}

/// Breaks the rules of a generated module, each once, and asks coopcheck (and spirv-val, which gets one in `each`).
pub fn score(dialect: Dialect, seed: u64, validator: Option<(&Path, u64)>, only: Option<&str>, scores: &mut Scores) {
    let bytes = entropy(seed, 400);
    let base = generate_fixed(GeneratorProfile::any(dialect), &bytes).module;
    let said = reported(&base);
    scores.valid.modules += 1;
    said.iter().for_each(|(rule, level)| *scores.valid.reported.entry((*level, *rule)).or_default() += 1);
    if let Some((tool, _)) = validator.filter(|_| dialect != Dialect::Intel) {
        scores.valid.external[0] += 1;
        scores.valid.external[1] += u64::from(super::spirv_val(tool, &base, super::VULKAN).is_err());
    }
    let known: BTreeSet<&str> = said.into_iter().map(|(rule, _)| rule).collect();
    let mut random = Random::new(seed ^ 0xb5ea);
    for mutator in mutators() {
        if known.contains(mutator.rule) || only.is_some_and(|o| o != mutator.rule) {
            continue;
        }
        let entropy: Vec<u8> = (0..24).map(|_| random.bits() as u8).collect();
        let Some(broken) = mutator.apply(&base, &entropy) else { continue };
        // As it is read from a file.
        let Ok(broken) = binary::read_words(&binary::write_words(&broken)) else { continue };
        let asks = random.bits();
        let validator = validator.filter(|(_, each)| asks.is_multiple_of((*each).max(1))).map(|v| v.0);
        judge(dialect, &mutator, &broken, &known, validator, scores.rules.entry(mutator.rule).or_default());
    }
}

/// Takes from a device what a module needs, once for each rule about devices, and asks coopcheck.
pub fn score_device(dialect: Dialect, seed: u64, only: Option<&str>, scores: &mut Scores) {
    let profile = GeneratorProfile { dialect, limits: Limits::Lavapipe };
    let base = generate_fixed(profile, &entropy(seed, 300)).module;
    let Some(device) = Profile::builtin("mesa-lavapipe") else { return };
    let ask = |device: Profile| {
        let mut options = Options::default();
        let on = coop_validate::Device { subgroup_size: Some(8), ..coop_validate::Device::new(device) };
        options.device = Some(std::sync::Arc::new(on));
        let report = coop_validate::check(&base, &options);
        report.findings.iter().map(|f| (f.rule.id, f.level)).collect::<BTreeSet<_>>()
    };
    let known: BTreeSet<&str> = ask(device.clone()).into_iter().map(|f| f.0).collect();
    let mut random = Random::new(seed ^ 0xdef1);
    for (rule, less) in LESS {
        let mut smaller = device.clone();
        if known.contains(rule) || only.is_some_and(|o| o != *rule) || !less(&mut smaller, &base, &mut random) {
            continue;
        }
        let found = ask(smaller);
        let score = scores.rules.entry(rule).or_default();
        score.broken += 1;
        if found.iter().any(|f| f.0 == *rule) {
            score.found += 1;
            let others = found.iter().any(|(r, level)| r != rule && *level == Level::Error && !known.contains(r));
            score.alone += u64::from(!others);
        } else {
            let new: Vec<&str> = found.iter().map(|f| f.0).filter(|r| !known.contains(r)).collect();
            *score.instead.entry(if new.is_empty() { "nothing".into() } else { new.join("+") }).or_default() += 1;
            score.missed.get_or_insert_with(|| Box::new(base.clone()));
        }
    }
}

/// Takes a feature from a device; returns true if the module needs it.
type Less = fn(&mut Profile, &Module, &mut Random) -> bool;

const LESS: &[(&str, Less)] = &[
    ("device-capability", |d, m, random| {
        let needed: Vec<Feature> = m
            .capabilities()
            .filter_map(|c| match capability_requirement(c) {
                Requirement::AnyOf(features) => Some(features.to_vec()),
                _ => None,
            })
            .flatten()
            .collect();
        let Some(one) = needed.get(random.bits() as usize % needed.len().max(1)) else { return false };
        // Those that bring it along go too.
        let also: Vec<Feature> = needed.iter().copied().filter(|f| f == one).collect();
        also.iter().for_each(|f| d.features.set(*f, false));
        true
    }),
    ("device-type", |d, _, _| {
        d.khr_properties.iter_mut().for_each(|p| (p.m, p.n, p.k) = (32, 32, 32));
        let all = d.flexible_properties.iter_mut().map(|p| &mut p.granularity);
        all.for_each(|p| (p.m, p.n, p.k) = (512, 512, 512));
        true
    }),
    ("device-muladd", |d, m, _| {
        let multiplies = m.all().any(|r| m.inst(r).op == coop_ir::Op::CooperativeMatrixMulAddKHR);
        // Every type is left, but nothing that goes together.
        let lists = d.khr_properties.clone();
        d.khr_properties.iter_mut().for_each(|p| p.b = ComponentType::E5m2);
        d.khr_properties.extend(lists.iter().map(|p| MatrixProperties { a: ComponentType::E5m2, ..*p }));
        d.flexible_properties.iter_mut().for_each(|p| p.granularity.b = ComponentType::E5m2);
        let flexible: Vec<_> = d.flexible_properties.clone();
        d.flexible_properties.extend(flexible.into_iter().zip(&lists).map(|(mut p, l)| {
            (p.granularity.a, p.granularity.b) = (ComponentType::E5m2, l.b);
            p
        }));
        multiplies
    }),
    ("device-extension", |d, _, _| {
        let before = d.extensions.len();
        d.extensions.retain(|e| e != "VK_KHR_cooperative_matrix");
        d.extensions.len() < before
    }),
    ("device-stage", |d, _, _| {
        d.limits.cooperative_matrix_supported_stages = 0;
        true
    }),
    ("device-workgroup-size", |d, _, _| {
        d.limits.max_compute_work_group_invocations = 4;
        d.limits.max_compute_work_group_size = [4, 4, 4];
        true
    }),
    ("device-spirv-version", |d, _, _| {
        d.api_version = ApiVersion::new(1, 1);
        true
    }),
    ("device-shared-memory", |d, m, _| {
        d.limits.max_compute_shared_memory_size = 16;
        m.globals_with(coop_ir::Op::Variable).any(|r| m.inst(r).word(0) == Some(4))
    }),
];

fn judge(
    dialect: Dialect,
    mutator: &Mutator,
    broken: &Module,
    known: &BTreeSet<&str>,
    validator: Option<&Path>,
    score: &mut Score,
) {
    let found = reported(broken);
    score.broken += 1;
    if found.iter().any(|(rule, _)| *rule == mutator.rule) {
        score.found += 1;
        let others = found.iter().any(|(r, level)| *r != mutator.rule && *level == Level::Error && !known.contains(r));
        score.alone += u64::from(!others);
    } else {
        let new: Vec<&str> = found.iter().map(|f| f.0).filter(|r| !known.contains(r)).collect();
        let what = if new.is_empty() { "nothing".to_owned() } else { new.join("+") };
        *score.instead.entry(what).or_default() += 1;
        score.missed.get_or_insert_with(|| Box::new(broken.clone()));
    }
    if let Some(tool) = validator.filter(|_| dialect != Dialect::Intel) {
        score.external[0] += 1;
        score.external[1] += u64::from(super::spirv_val(tool, broken, super::VULKAN).is_err());
    }
}

/// Every rule that coopcheck reports, with its level.
fn reported(module: &Module) -> Vec<(&'static str, Level)> {
    let mut options = Options::default();
    for rule in RULES.iter().filter(|r| r.level == Level::Allow) {
        // The name is one of the catalogue's.
        let _ = options.set_level(rule.id, Level::Note);
    }
    let report = coop_validate::check(module, &options);
    let mut out: Vec<(&'static str, Level)> = report.findings.iter().map(|f| (f.rule.id, f.level)).collect();
    out.sort_unstable();
    out.dedup();
    out
}
