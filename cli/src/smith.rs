//! Generated modules, each in every way that it can be run, with results compared: on a device natively, by the
//! interpreter, and lowered for subgroups of several sizes.
//!
//! Outputs are compared bit by bit (zeros of different signs are the same). Whatever is not as it should be is a
//! [`Trouble`]; [`shrink`] finds less entropy that still makes trouble of the same class.

use std::collections::BTreeMap;
use std::path::Path;

use coop_exec::interp::{Config, Interpreted, MulAddMode, Placement};
use coop_exec::random::Random;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Error, Executor, Outcome, RunOptions};
use coop_ir::smith::{Dialect, Generated, Limits, Profile, generate};
use coop_ir::{Module, binary, text};
use coop_passes::{Lanes, Options, Target, lower};

/// Refusals that are right: the generator does not know how the lowering arranges lanes.
const MAY_REFUSE: [&str; 1] = ["refused-store-narrow"];

/// What is wrong with a generated module, or with what runs it.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What it is like: shrinking keeps it.
    pub class: String,
    /// All of it.
    pub message: String,
    /// Modules that were made of it, by name.
    pub modules: Vec<(String, Module)>,
}

/// What classes of trouble end with when the device did not answer in time.
const TIMEOUT: &str = "too slow";

impl Trouble {
    /// Whether the device did not answer in time, and so can't be used any further.
    pub fn is_timeout(&self) -> bool {
        self.class.ends_with(TIMEOUT)
    }
}

/// How much was done.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Modules.
    pub modules: u64,
    /// Runs by the way of running: `native`, `interpreter` and so on.
    pub runs: BTreeMap<String, u64>,
    /// Refusals by rule.
    pub refused: BTreeMap<String, u64>,
    /// How often which constructs were made.
    pub made: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Tally) {
        self.modules += other.modules;
        for (k, n) in &other.runs {
            *self.runs.entry(k.clone()).or_default() += n;
        }
        for (k, n) in &other.refused {
            *self.refused.entry(k.clone()).or_default() += n;
        }
        for (k, n) in &other.made {
            *self.made.entry(k).or_default() += n;
        }
    }
}

/// The entropy of a seed: at most `most` bytes, few of them more often than many, as small modules are quick to run.
pub fn entropy(seed: u64, most: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let share = random.unit();
    let len = 24 + (most as f64 * share * share) as usize;
    (0..len.min(most)).map(|_| random.bits() as u8).collect()
}

/// The profile of a seed: one and the other in turn.
pub fn profile(seed: u64) -> Profile {
    if seed.is_multiple_of(2) { Profile::DEVICE8 } else { Profile::ANY }
}

/// Whoever runs modules.
pub struct Differential<'a> {
    /// Runs lowered modules, and originals of [`Profile::DEVICE8`]. Without it, the interpreter runs everything.
    pub device: Option<&'a VulkanExecutor<'a>>,
    /// Whether the interpreter is asked too.
    pub interpret: bool,
}

/// A way to run.
struct Way {
    label: String,
    /// Which case: the variant for this subgroup size.
    size: u32,
    /// Lowered to this; else as it is.
    lanes: Option<Lanes>,
    interpreted: Option<Placement>,
}

impl Differential<'_> {
    /// Runs a module in every way; `salt` chooses among ways where there are many.
    pub fn check(&self, profile: Profile, made: &Generated, salt: u64, tally: &mut Tally) -> Result<(), Box<Trouble>> {
        tally.modules += 1;
        for (k, n) in &made.made {
            *tally.made.entry(k).or_default() += u64::from(*n);
        }
        let trouble = |class: String, message: String| Box::new(Trouble { class, message, modules: Vec::new() });
        if let Err(problems) = coop_ir::verify::verify(&made.module) {
            return Err(trouble("not well formed".into(), problems[0].to_string()));
        }
        let case = Case::parse(&made.case, Path::new("")).map_err(|e| trouble("bad case".into(), e.to_string()))?;
        self.validate(&made.module, &case).map_err(|m| trouble("coopcheck complains".into(), m))?;
        self.check_case(profile, &made.module, &case, salt, tally)
    }

    /// Runs a module with a case in every way that the profile has.
    pub fn check_case(
        &self,
        profile: Profile,
        module: &Module,
        case: &Case,
        salt: u64,
        tally: &mut Tally,
    ) -> Result<(), Box<Trouble>> {
        let mut modules = Vec::new();
        let mut first: Option<(String, Outcome)> = None;
        for way in self.ways(profile, salt) {
            let label = way.label.clone();
            let fail = |class: &str, message: String, modules: &Vec<(String, Module)>| {
                let (class, message) = (format!("{label}: {class}"), format!("{label}: {message}"));
                Box::new(Trouble { class, message, modules: modules.clone() })
            };
            let case = self.case_for(case, profile, &way).map_err(|e| fail("case", e.to_string(), &modules))?;
            let lowered = match way.lanes {
                None => None,
                Some(lanes) => match lowered(module, &case, way.size, lanes) {
                    Ok(module) => Some(module),
                    Err(coop_passes::Error::Refused(r)) => {
                        *tally.refused.entry(r.rule.to_string()).or_default() += 1;
                        if MAY_REFUSE.contains(&r.rule) {
                            continue;
                        }
                        return Err(fail(r.rule, r.to_string(), &modules));
                    }
                    Err(bug) => return Err(fail("not lowered", bug.to_string(), &modules)),
                },
            };
            if let Some(lowered) = &lowered {
                modules.push((label.clone(), lowered.clone()));
            }
            let words = binary::write_words(lowered.as_ref().unwrap_or(module));
            let outcome = self.run(&words, &case, &way).map_err(|e| match e {
                Error::Timeout { .. } => fail(TIMEOUT, e.to_string(), &modules),
                _ => fail("not run", e.to_string(), &modules),
            })?;
            *tally.runs.entry(label.clone()).or_default() += 1;
            let complaints: Vec<&str> = outcome.messages.iter().chain(&outcome.faults).map(String::as_str).collect();
            if !complaints.is_empty() {
                return Err(fail("complaints", complaints.join("\n"), &modules));
            }
            match &first {
                None => first = Some((label, outcome)),
                Some((other, wanted)) => {
                    let found = outcome.compare(wanted, &case).map_err(|e| fail("case", e.to_string(), &modules))?;
                    if !found.is_empty() {
                        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
                        let class = format!("differs from {other}");
                        let message = format!("differs from {other}:\n{}", lines.join("\n"));
                        return Err(fail(&class, message, &modules));
                    }
                }
            }
        }
        Ok(())
    }

    fn validate(&self, module: &Module, case: &Case) -> Result<(), String> {
        let specialization = case.specialization().map_err(|e| e.to_string())?;
        let mut options = coop_validate::Options::default();
        options.specialization = specialization;
        let report = coop_validate::check(module, &options);
        let errors = report.findings.iter().filter(|f| f.level == coop_validate::Level::Error);
        let lines: Vec<String> = errors.map(|f| format!("[{}] {}", f.rule.id, f.message)).collect();
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    fn ways(&self, profile: Profile, salt: u64) -> Vec<Way> {
        let mut out = Vec::new();
        let sizes = [8, 4, 16, 32];
        let other = sizes[(salt % 4) as usize];
        let third = sizes[(salt / 4 % 4) as usize];
        let interpreter = |placement: Placement, size| Way {
            label: format!("interpreter of {size}, {placement:?}"),
            size,
            lanes: None,
            interpreted: Some(placement),
        };
        let scalar = |lanes: Lanes, size| Way {
            label: format!("scalar, {lanes:?} of {size}"),
            size,
            lanes: Some(lanes),
            interpreted: None,
        };
        if profile.limits != Limits::Any && self.device.is_some() {
            out.push(Way { label: "native".into(), size: 8, lanes: None, interpreted: None });
        }
        if self.interpret {
            let size = if profile.limits == Limits::Any { other } else { profile.lanes() };
            out.push(interpreter(Placement::ALL[(salt / 16 % 4) as usize], size));
            out.push(interpreter(Placement::Permuted, profile.lanes()));
        }
        if profile.dialect == Dialect::Nv2 {
            return out;
        }
        out.push(scalar(Lanes::Subgroup, 8));
        out.push(scalar(Lanes::LocalIndex, 8));
        if profile == Profile::ANY {
            out.push(scalar(Lanes::LocalIndex, other));
            if third != other && salt.is_multiple_of(3) {
                out.push(scalar(Lanes::LocalIndex, third));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        out.retain(|w| seen.insert(w.label.clone()));
        out
    }

    fn case_for(&self, case: &Case, profile: Profile, way: &Way) -> Result<Case, Error> {
        let mut case = case.clone();
        if way.size != profile.lanes() {
            case = case.with_variant(&format!("s{}", way.size))?;
        }
        // What the lowerings ask of the pipeline; the interpreter takes the size from its configuration.
        let native = way.lanes.is_none() && way.interpreted.is_none();
        let sized = native || way.lanes == Some(Lanes::Subgroup);
        (case.subgroup_size, case.full_subgroups) = (sized.then_some(way.size), sized);
        Ok(case)
    }

    fn run(&self, words: &[u32], case: &Case, way: &Way) -> Result<Outcome, Error> {
        match (self.device, way.interpreted) {
            (Some(device), None) => device.run(words, case, &RunOptions::default()),
            (_, placement) => {
                let config = Config {
                    subgroup_size: way.size,
                    placement: placement.unwrap_or_default(),
                    mul_add: MulAddMode::Exact,
                    ..Config::default()
                };
                Interpreted { config }.run(words, case, &RunOptions::default())
            }
        }
    }
}

fn lowered(module: &Module, case: &Case, size: u32, lanes: Lanes) -> Result<Module, coop_passes::Error> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().unwrap_or_default();
    options.subgroup_size = Some(size);
    options.lanes = lanes;
    options.verify_each = true;
    lower(module, &options).map(|l| l.module)
}

/// Less entropy that still makes trouble of the same class: what `troubles` answers with `true`. It is asked at most
/// `tries` times.
pub fn shrink(entropy: &[u8], mut tries: u32, troubles: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = entropy.to_vec();
    let mut attempt = |best: &mut Vec<u8>, candidate: Vec<u8>| {
        if tries == 0 || candidate == *best {
            return false;
        }
        tries -= 1;
        let better = troubles(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    // The end first: what is not there is zeros.
    let mut cut = best.len() / 2;
    while cut > 0 {
        let mut shorter = best.clone();
        shorter.truncate(best.len() - cut.min(best.len()));
        if !attempt(&mut best, shorter) {
            cut /= 2;
        }
    }
    let mut span = (best.len() / 2).max(1);
    loop {
        let mut changed = false;
        let mut at = 0;
        while at < best.len() {
            let end = (at + span).min(best.len());
            let mut without = best.clone();
            without.drain(at..end);
            if attempt(&mut best, without) {
                changed = true;
                continue;
            }
            let mut zeroed = best.clone();
            zeroed[at..end].fill(0);
            changed |= attempt(&mut best, zeroed);
            at = end;
        }
        match span {
            1 if !changed => break,
            1 => {}
            _ => span /= 2,
        }
    }
    while best.last() == Some(&0) {
        best.pop();
    }
    best
}

/// Removes instructions one by one as long as the trouble stays: a module to look at.
pub fn reduce(module: &Module, mut tries: u32, troubles: &mut dyn FnMut(&Module) -> bool) -> Module {
    let mut best = module.clone();
    loop {
        let mut changed = false;
        for f in (0..best.functions.len()).rev() {
            for b in (0..best.functions[f].blocks.len()).rev() {
                for i in (0..best.functions[f].blocks[b].insts.len().saturating_sub(1)).rev() {
                    let r = best.functions[f].blocks[b].insts[i];
                    if tries == 0 {
                        return best;
                    }
                    let used = best.inst(r).result.is_some_and(|id| {
                        best.all().any(|o| best.inst(o).ids().any(|x| x == id) && best.inst(o).result != Some(id))
                    });
                    let merge = best.inst(r).op.name().is_some_and(|n| n.ends_with("Merge"));
                    if used || merge {
                        continue;
                    }
                    let mut without = best.clone();
                    without.functions[f].blocks[b].insts.remove(i);
                    without.forget(r);
                    tries -= 1;
                    if coop_ir::verify::verify(&without).is_ok() && troubles(&without) {
                        best = without;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            return best;
        }
    }
}

/// Writes what is needed to see the trouble again.
pub fn keep(folder: &Path, made: &Generated, entropy: &[u8], trouble: &Trouble) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let print = |m: &Module| text::print(m, &text::PrintOptions::default()).text;
    std::fs::write(folder.join("entropy.bin"), entropy)?;
    std::fs::write(folder.join("module.spvasm"), print(&made.module))?;
    std::fs::write(folder.join("module.spv"), binary::write(&made.module))?;
    std::fs::write(folder.join("case.toml"), &made.case)?;
    std::fs::write(folder.join("trouble.txt"), format!("{}\n\n{}\n", trouble.class, trouble.message))?;
    for (label, module) in &trouble.modules {
        let name: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(folder.join(format!("{name}.spvasm")), print(module))?;
    }
    Ok(())
}

/// Generates the module of a seed's entropy and checks it. Trouble is shrunk and, with `folder`, kept there.
pub fn try_seed(
    differential: &Differential<'_>,
    (seed, bytes): (u64, &[u8]),
    profile: Profile,
    folder: Option<&Path>,
    tally: &mut Tally,
) -> Result<(), Box<Trouble>> {
    let made = generate(profile, bytes);
    let Err(trouble) = differential.check(profile, &made, seed / 2, tally) else { return Ok(()) };
    // A device that did not answer in time can't be asked again.
    let Some(folder) = folder.filter(|_| !trouble.is_timeout()) else { return Err(trouble) };
    let folder = folder.join(format!("{profile}-{seed}"));
    // Kept before it is shrunk: that may end badly.
    let kept = keep(&folder.join("whole"), &made, bytes, &trouble);
    let mut found = trouble.clone();
    let small = shrink(bytes, 400, &mut |candidate| {
        let made = generate(profile, candidate);
        match differential.check(profile, &made, seed / 2, &mut Tally::default()) {
            Err(other) if other.class == trouble.class => {
                found = other;
                true
            }
            _ => false,
        }
    });
    let mut least = generate(profile, &small);
    least.module = reduce(&least.module, 300, &mut |module| {
        let made = Generated { module: module.clone(), ..least.clone() };
        match differential.check(profile, &made, seed / 2, &mut Tally::default()) {
            Err(other) if other.class == trouble.class => {
                found = other;
                true
            }
            _ => false,
        }
    });
    let kept = kept.and_then(|()| keep(&folder, &least, &small, &found));
    if let Err(error) = kept {
        found.message.push_str(&format!("\n(not kept: {}: {error})", folder.display()));
    }
    Err(found)
}
