//! Runs generated modules in every way that they can be run, and compares the results: by the interpreter with several
//! placements of elements, on a device as they are, and lowered for every target, by the interpreter and on the device.
//!
//! Outputs are compared bit by bit (zeros of different signs are the same). Every failure is a [`Trouble`]; [`shrink`]
//! finds less entropy that still gives trouble of the same class, [`reduce`] fewer instructions. Features that a device
//! lacks and refusals of lowerings are counted with the reason.

mod can;
mod known;
mod score;
mod shrink;
mod tally;

use coop_components::Lacks;
use coop_device::Feature;
use coop_ir::spv::Capability;
use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

use crate::generator::{Dialect, Generated, GeneratorProfile, generate};
use coop_exec::facts::Facts;
use coop_exec::interp::{Config, Interpreted, MulAddMode, Placement};
use coop_exec::opencl::OpenClExecutor;
use coop_exec::random::Random;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Error, Executor, Outcome, RunOptions};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lanes, Options, Target, lower};

pub use score::{Score, Scores, UNBROKEN, device_rules, score, score_device};
pub use shrink::{keep, reduce, shrink};
pub use tally::{Counts, Row, Tally};

/// A failure of a generated module, or of a tool that runs it.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The class of the failure, which shrinking keeps.
    pub class: String,
    /// All of it.
    pub message: String,
    /// Modules that were made of it, by name.
    pub modules: Vec<(String, Module)>,
}

/// The environment of spirv-val.
const VULKAN: &str = "vulkan1.4";

/// The end of the class of a failure where the device did not answer in time.
const TIMEOUT: &str = "too slow";

/// The end of the class of a failure where the driver made no pipeline.
const UNCOMPILED: &str = "not compiled by the driver";

impl Trouble {
    fn new(class: impl Into<String>, message: impl Into<String>) -> Box<Trouble> {
        Box::new(Trouble { class: class.into(), message: message.into(), modules: Vec::new() })
    }

    /// Returns true if the device did not answer in time, and so can't be used any further.
    pub fn is_timeout(&self) -> bool {
        self.class.ends_with(TIMEOUT)
    }
}

/// The entropy of a seed: at most `most` bytes, few of them more often than many, as small modules are quick to run.
pub fn entropy(seed: u64, most: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let share = random.unit();
    let len = 24 + (most as f64 * share * share) as usize;
    (0..len.min(most)).map(|_| random.bits() as u8).collect()
}

/// The tools and options for running modules.
pub struct Differential<'a, 'v> {
    /// Runs originals where it can, and lowered modules.
    pub device: Option<&'a VulkanExecutor<'v>>,
    /// Runs the scalar code of kernels.
    pub opencl: Option<&'a OpenClExecutor<'v>>,
    /// True if the device runs lowered modules only.
    pub lowered_only: bool,
    /// True if the interpreter is asked.
    pub interpret: bool,
    /// With how many placements of elements it runs originals: 3 at most.
    pub placements: usize,
    /// The targets of the lowering.
    pub targets: Vec<Target>,
    /// The device whose tile shapes the lowering targets; by default the one that runs the modules, or lavapipe.
    pub tile_profile: Option<&'a coop_device::Profile>,
    /// Looks at every module as well: spirv-val.
    pub validator: Option<&'a Path>,
    /// The features of component types that lowered code does without.
    pub without: Option<Without>,
}

/// Features of component types that lowered code does without.
#[derive(Clone, Copy, Debug)]
pub enum Without {
    /// These.
    Given(Lacks),
    /// Any, others for each module: all of them for one in four. Where matrices stay, those of memory with narrow numbers.
    Some,
}

impl Without {
    fn lacks(self, salt: u64, target: Target) -> Lacks {
        let bits = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let chosen = |n: usize| bits & 3 == 0 || bits >> (n + 2) & 1 == 1;
        match self {
            Without::Given(lacks) => lacks,
            Without::Some => {
                let of_target = |f: &Feature| target == Target::Scalar || Lacks::MEMORY.contains(f);
                let features = Lacks::FEATURES.into_iter().enumerate();
                let features = features.filter(|(n, f)| chosen(*n) && of_target(f));
                features.filter_map(|(_, f)| Lacks::without(f)).fold(Lacks::default(), Lacks::and)
            }
        }
    }
}

/// Read once: that takes longer than many a pass.
static LAVAPIPE: LazyLock<Option<coop_device::Profile>> =
    LazyLock::new(|| coop_device::Profile::builtin("mesa-lavapipe"));

/// The profile whose tile shapes the lowering of kernels targets.
static INTEL: LazyLock<Option<coop_device::Profile>> =
    LazyLock::new(|| coop_device::Profile::builtin("intel-opencl-gpu"));

/// A module as it is, or lowered.
#[derive(Clone, Copy)]
struct Form {
    /// The target and lanes of the lowering.
    lowered: Option<(Target, Lanes)>,
    size: u32,
}

impl Form {
    fn name(&self) -> String {
        match self.lowered {
            None => "original".into(),
            Some((target, _)) => target.to_string(),
        }
    }

    fn label(&self) -> String {
        match self.lowered {
            Some((Target::Scalar, lanes)) => format!("scalar, {lanes:?} of {}", self.size),
            Some((target, _)) => format!("{target} of {}", self.size),
            None => format!("original of {}", self.size),
        }
    }
}

/// One module's runs.
struct Session<'a> {
    profile: GeneratorProfile,
    case: &'a Case,
    row: &'a mut Row,
    /// The first outcome, with whose it is.
    first: Option<(String, Outcome)>,
    modules: Vec<(String, Module)>,
}

impl Session<'_> {
    fn fail(&self, label: &str, class: &str, message: String) -> Box<Trouble> {
        let (class, message) = (format!("{label}: {class}"), format!("{label}: {message}"));
        Box::new(Trouble { class, message, modules: self.modules.clone() })
    }

    /// The case for subgroups of a size.
    fn case_for(&self, form: Form, native: bool) -> Result<Case, Error> {
        let mut case = self.case.clone();
        if form.size != self.profile.lanes() {
            case = case.with_variant(&format!("s{}", form.size))?;
        }
        // What runs ask of the pipeline; the interpreter takes the size from its configuration.
        let sized = native && !matches!(form.lowered, Some((Target::Scalar, Lanes::LocalIndex)));
        (case.subgroup_size, case.full_subgroups) = (sized.then_some(form.size), sized);
        Ok(case)
    }
}

impl Differential<'_, '_> {
    /// Runs a module in every way; `salt` chooses among ways where there are many.
    pub fn check(
        &self,
        profile: GeneratorProfile,
        made: &Generated,
        salt: u64,
        tally: &mut Tally,
    ) -> Result<(), Box<Trouble>> {
        for (k, n) in &made.made {
            *tally.made.entry((*k).to_owned()).or_default() += u64::from(*n);
        }
        let row = tally.row(profile);
        row.modules += 1;
        if let Err(problems) = coop_ir::verify::verify(&made.module) {
            return Err(Trouble::new("not well formed", problems[0].to_string()));
        }
        let case = Case::parse(&made.case, Path::new("")).map_err(|e| Trouble::new("bad case", e.to_string()))?;
        self.check_case(profile, &made.module, &case, salt, row)
    }

    /// Runs a module with a case in every way that the profile has.
    pub fn check_case(
        &self,
        profile: GeneratorProfile,
        module: &Module,
        case: &Case,
        salt: u64,
        row: &mut Row,
    ) -> Result<(), Box<Trouble>> {
        validate(module, case).map_err(|m| Trouble::new("coopcheck complains", m))?;
        self.external(module).map_err(|m| Trouble::new("spirv-val complains", m))?;
        let case = &self.with_whole_words(case);
        let mut session = Session { profile, case, row, first: None, modules: Vec::new() };
        // What a driver does not compile is no reason to leave the other ways out.
        let mut uncompiled = None;
        let mut go_on = |result: Result<(), Box<Trouble>>| match result {
            Err(trouble) if trouble.class.ends_with(UNCOMPILED) => {
                uncompiled.get_or_insert(trouble);
                Ok(())
            }
            other => other,
        };
        go_on(self.originals(&mut session, module, salt))?;
        for target in &self.targets {
            for form in self.forms(profile, *target, salt, one_subgroup(profile, module, case)) {
                go_on(self.lowered(&mut session, module, form, salt))?;
            }
        }
        uncompiled.map_or(Ok(()), Err)
    }

    /// Two placements and a permuted one, and the device.
    fn originals(&self, s: &mut Session<'_>, module: &Module, salt: u64) -> Result<(), Box<Trouble>> {
        let lanes = s.profile.lanes();
        if self.interpret {
            let sizes: Vec<u32> = [lanes].into_iter().chain(s.profile.variants().iter().copied()).collect();
            let other = sizes[(salt % sizes.len() as u64) as usize];
            let first = (salt / 4 % 3) as usize;
            let second = (first + 1 + (salt / 16 % 2) as usize) % 3;
            let placed = |i: usize| [Placement::BlockedRows, Placement::Interleaved, Placement::Replicated][i];
            let ways = [(placed(first), lanes), (placed(second), other), (Placement::Permuted, lanes)];
            // Where they are fewer, they are others for other modules.
            let from = if self.placements < 3 { salt / 32 % 3 } else { 0 };
            for (placement, size) in ways.into_iter().cycle().skip(from as usize).take(self.placements.min(3)) {
                let form = Form { lowered: None, size };
                self.interpreted(s, module, form, placement)?;
            }
        }
        match self.device.filter(|_| !self.lowered_only) {
            Some(device) => self.native(s, module, device, Form { lowered: None, size: lanes }),
            None => Ok(()),
        }
    }

    fn device_lanes(&self) -> u32 {
        self.device.map_or(8, |d| d.profile().limits.subgroup_size)
    }

    /// Returns a form of lowering for a target, which `salt` selects.
    fn forms(&self, profile: GeneratorProfile, target: Target, salt: u64, one_subgroup: bool) -> Vec<Form> {
        let lanes = profile.lanes();
        if profile.dialect == Dialect::Kernel && target == Target::Scalar {
            // pocl's subgroups are as wide as workgroups; rusticl has a size of its own, and Intel's compiler crashes on some.
            let fits = one_subgroup && self.opencl.is_none_or(|d| d.name().contains("Portable Computing Language"));
            let kind = if fits && salt.is_multiple_of(2) { Lanes::Subgroup } else { Lanes::LocalIndex };
            return vec![Form { lowered: Some((target, kind)), size: lanes }];
        }
        let sizes: Vec<u32> = [lanes].into_iter().chain(profile.variants().iter().copied()).collect();
        if target != Target::Scalar {
            // Of a device's own size, where the case has a variant for that.
            let size = if sizes.contains(&self.device_lanes()) { self.device_lanes() } else { lanes };
            return vec![Form { lowered: Some((target, Lanes::Subgroup)), size }];
        }
        let other = sizes[(salt / 64 % sizes.len() as u64) as usize];
        // What lanes hand around they wait for, which only those of real subgroups can.
        let way = if profile.dialect == Dialect::Qcom { 0 } else { salt % 3 };
        let (kind, size) = match way {
            // The device must have subgroups of that size.
            0 if sizes.contains(&self.device_lanes()) => (Lanes::Subgroup, self.device_lanes()),
            1 => (Lanes::LocalIndex, other),
            _ => (Lanes::LocalIndex, lanes),
        };
        vec![Form { lowered: Some((target, kind)), size }]
    }

    fn lowered(&self, s: &mut Session<'_>, module: &Module, form: Form, salt: u64) -> Result<(), Box<Trouble>> {
        let Some((target, lanes)) = form.lowered else { return Ok(()) };
        let label = form.label();
        let case = s.case_for(form, false).map_err(|e| s.fail(&label, "case", e.to_string()))?;
        let mut device = self.profile_for(s.profile.dialect, target);
        if let Some(device) = device.as_mut().filter(|_| self.device.is_none()) {
            // It lends its matrices only: the interpreter has subgroups of any size.
            let limits = &mut device.limits;
            (limits.subgroup_size, limits.min_subgroup_size, limits.max_subgroup_size) =
                (form.size, form.size, form.size);
        }
        let mut options = Options::new(target);
        options.spec = case.specialization().unwrap_or_default();
        options.subgroup_size = Some(form.size);
        options.lanes = lanes;
        options.verify_each = salt.is_multiple_of(4);
        options.profile = device.as_ref();
        let start = Instant::now();
        let lowered = lower(module, &options);
        s.row.spend("lowering", start.elapsed().as_secs_f64());
        let lowered = match lowered {
            Ok(lowered) => lowered.module,
            Err(coop_passes::Error::Refused(r)) => {
                *s.row.refused.entry(format!("{target}: {}", r.rule)).or_default() += 1;
                return Ok(());
            }
            Err(bug) => return Err(s.fail(&label, "not lowered", bug.to_string())),
        };
        *s.row.lowered.entry(target.to_string()).or_default() += 1;
        let lowered = self.without_components(s, lowered, target, salt)?;
        s.modules.push((label.clone(), lowered.clone()));
        if let Err(problems) = coop_ir::verify::verify(&lowered) {
            return Err(s.fail(&label, "not well formed", problems[0].to_string()));
        }
        validate(&lowered, &case).map_err(|m| s.fail(&label, "coopcheck complains", m))?;
        self.validated(&lowered).map_err(|m| s.fail(&label, "spirv-val complains", m))?;
        if self.interpret {
            let placement = Placement::ALL[(salt / 7 % Placement::ALL.len() as u64) as usize];
            // Lanes by local index are no subgroups of the device: that may have any.
            let subgroups = match lanes {
                Lanes::LocalIndex => [form.size, 4, 32, 8][(salt / 11 % 4) as usize],
                Lanes::Subgroup => form.size,
            };
            self.interpreted_in(s, &lowered, form, placement, subgroups)?;
        }
        if let Some(device) = self.device {
            return self.native(s, &lowered, device, form);
        }
        match self.opencl.filter(|_| s.profile.dialect == Dialect::Kernel && target == Target::Scalar) {
            Some(device) => self.on_opencl(s, &lowered, device, form),
            None => Ok(()),
        }
    }

    /// Returns the case with buffers of whole words, which lowered code without component types needs.
    fn with_whole_words(&self, case: &Case) -> Case {
        let mut case = case.clone();
        if self.without.is_some() {
            for buffer in &mut case.buffer {
                while !buffer.size().is_multiple_of(4) {
                    buffer.count += 1;
                }
            }
        }
        case
    }

    /// Lowers the component types of lowered code, if that is asked for. What is refused stays as it is.
    fn without_components(
        &self,
        s: &mut Session<'_>,
        lowered: Module,
        target: Target,
        salt: u64,
    ) -> Result<Module, Box<Trouble>> {
        let Some(without) = self.without else { return Ok(lowered) };
        let lacks = without.lacks(salt, target);
        match coop_components::lower(&lowered, &coop_components::Options::new(lacks)) {
            Ok(done) => {
                if done.report.changed {
                    let what = if target == Target::Scalar { "in software" } else { "with matrices, in software" };
                    *s.row.runs.entry(what.to_owned()).or_default() += 1;
                }
                Ok(done.module)
            }
            Err(coop_components::Error::Refused(r)) => {
                *s.row.refused.entry(format!("component types: {}", r.rule)).or_default() += 1;
                Ok(lowered)
            }
            Err(bug) => {
                let features: Vec<&str> = lacks.features().map(|f| f.name()).collect();
                Err(s.fail("without component types", "not lowered", format!("{}: {bug}", features.join(","))))
            }
        }
    }

    /// The device that a lowering is for: matrices are left only where it has them.
    fn profile_for(&self, dialect: Dialect, target: Target) -> Option<coop_device::Profile> {
        if target == Target::Scalar {
            return None;
        }
        let usual = if dialect == Dialect::Kernel { &INTEL } else { &LAVAPIPE };
        let own = || self.device.map(|d| d.profile().clone()).or_else(|| (*usual).clone());
        let profile = self.tile_profile.cloned().or_else(own)?;
        Some(if target == Target::Ext { profile.with_maintenance1() } else { profile })
    }

    fn interpreted(
        &self,
        s: &mut Session<'_>,
        module: &Module,
        form: Form,
        placement: Placement,
    ) -> Result<(), Box<Trouble>> {
        self.interpreted_in(s, module, form, placement, form.size)
    }

    /// Interprets on a device with another subgroup size.
    fn interpreted_in(
        &self,
        s: &mut Session<'_>,
        module: &Module,
        form: Form,
        placement: Placement,
        subgroup_size: u32,
    ) -> Result<(), Box<Trouble>> {
        let label = match subgroup_size == form.size {
            true => format!("{}, interpreted, {placement:?}", form.label()),
            false => format!("{}, interpreted in subgroups of {subgroup_size}, {placement:?}", form.label()),
        };
        let case = s.case_for(form, false).map_err(|e| s.fail(&label, "case", e.to_string()))?;
        let config = Config { subgroup_size, placement, mul_add: MulAddMode::Exact, ..Config::default() };
        let run = || Interpreted { config }.run_module(module, &case);
        let start = Instant::now();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        s.row.spend("interpreter", start.elapsed().as_secs_f64());
        let outcome = match result {
            Ok(Ok((buffers, report))) => Interpreted::outcome(buffers, &report),
            Ok(Err(e)) => return Err(s.fail(&label, "not run", e.to_string())),
            Err(_) => return Err(s.fail(&label, "panic", "the interpreter panicked".into())),
        };
        self.compare(s, &label, format!("{} interp", form.name()), outcome)
    }

    fn native(
        &self,
        s: &mut Session<'_>,
        module: &Module,
        device: &VulkanExecutor<'_>,
        form: Form,
    ) -> Result<(), Box<Trouble>> {
        let label = format!("{}, on the device", form.label());
        let name = format!("{} vulkan", form.name());
        let case = s.case_for(form, true).map_err(|e| s.fail(&label, "case", e.to_string()))?;
        let spec = case.specialization().unwrap_or_default();
        let spelled = match device.spelled(module, &case) {
            Ok(spelled) => spelled,
            Err(Error::Unsupported { missing, .. }) => {
                *s.row.skipped.entry(format!("{name}: {}", missing.join("; "))).or_default() += 1;
                return Ok(());
            }
            Err(e) => return Err(s.fail(&label, "not spelled", e.to_string())),
        };
        let module = &*spelled;
        if let Cow::Owned(module) = &spelled {
            validate(module, &case).map_err(|m| s.fail(&label, "coopcheck complains of its spelling", m))?;
        }
        let invocations = Facts::new(module, &spec)
            .entries
            .first()
            .and_then(|e| e.local_size.iter().map(|c| c.value()).product::<Option<u64>>());
        if let Some(why) = can::why_not(module, &spec, device.profile(), invocations.unwrap_or(0) as u32) {
            *s.row.skipped.entry(format!("{name}: {why}")).or_default() += 1;
            return Ok(());
        }
        let result = device.run(&binary::write_words(module), &case, &RunOptions::default());
        let spent = device.spent();
        for (what, time) in [
            ("devices", spent.devices),
            ("buffers", spent.buffers),
            ("pipelines", spent.pipelines),
            ("dispatches", spent.dispatches),
        ] {
            s.row.spend(what, time.as_secs_f64());
        }
        if let (Cow::Owned(_), Ok(_)) = (&spelled, &result) {
            *s.row.runs.entry(format!("{name}, respelled")).or_default() += 1;
        }
        match result {
            Ok(outcome) => self.compare(s, &label, name, outcome),
            Err(Error::Unsupported { missing, .. }) => {
                let why = missing.first().cloned().unwrap_or_default();
                *s.row.skipped.entry(format!("{name}: {why}")).or_default() += 1;
                Ok(())
            }
            Err(e @ Error::Vulkan { call: "vkCreateComputePipelines", .. }) => {
                Err(s.fail(&label, UNCOMPILED, e.to_string()))
            }
            Err(e @ Error::Timeout { .. }) => Err(s.fail(&label, TIMEOUT, e.to_string())),
            Err(e) => Err(s.fail(&label, "not run", e.to_string())),
        }
    }

    /// A kernel's scalar code.
    fn on_opencl(
        &self,
        s: &mut Session<'_>,
        module: &Module,
        device: &OpenClExecutor<'_>,
        form: Form,
    ) -> Result<(), Box<Trouble>> {
        let label = format!("{}, on the device", form.label());
        let name = format!("{} opencl", form.name());
        let case = s.case_for(form, false).map_err(|e| s.fail(&label, "case", e.to_string()))?;
        let constants = Constants::new(module, &Specialization::new());
        if let Some(why) = known::is_wrong(module, &constants, &device.name()) {
            *s.row.skipped.entry(format!("{name}: {why}")).or_default() += 1;
            return Ok(());
        }
        let start = Instant::now();
        let result = device.run(&binary::write_words(module), &case, &RunOptions::default());
        s.row.spend("opencl", start.elapsed().as_secs_f64());
        match result {
            Ok(outcome) => self.compare(s, &label, name, outcome),
            Err(Error::Unsupported { missing, .. }) => {
                let why = missing.first().cloned().unwrap_or_default();
                *s.row.skipped.entry(format!("{name}: {why}")).or_default() += 1;
                Ok(())
            }
            Err(e @ Error::OpenCl { call: "clBuildProgram", .. }) => Err(s.fail(&label, UNCOMPILED, e.to_string())),
            Err(e @ Error::Timeout { .. }) => Err(s.fail(&label, TIMEOUT, e.to_string())),
            Err(e) => Err(s.fail(&label, "not run", e.to_string())),
        }
    }

    fn compare(&self, s: &mut Session<'_>, label: &str, name: String, outcome: Outcome) -> Result<(), Box<Trouble>> {
        *s.row.runs.entry(name.clone()).or_default() += 1;
        let complaints: Vec<&str> = outcome.messages.iter().chain(&outcome.faults).map(String::as_str).collect();
        if !complaints.is_empty() {
            return Err(s.fail(label, "complaints", complaints.join("\n")));
        }
        let wrong = outcome.check(s.case).map_err(|e| s.fail(label, "case", e.to_string()))?;
        if !wrong.is_empty() {
            let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            return Err(s.fail(label, "not as expected", lines.join("\n")));
        }
        let Some((other, wanted)) = &s.first else {
            s.first = Some((label.to_owned(), outcome));
            return Ok(());
        };
        let found = outcome.compare(wanted, s.case).map_err(|e| s.fail(label, "case", e.to_string()))?;
        if found.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let message = format!("{label} differs from {other}:\n{}", lines.join("\n"));
        Err(Box::new(Trouble { class: format!("{name} differs"), message, modules: s.modules.clone() }))
    }

    /// Checks a module that is not lowered with spirv-val.
    fn external(&self, module: &Module) -> Result<(), String> {
        // It does not know SPV_INTEL_joint_matrix, and rejects OpSelect of matrices, which the text allows.
        let selects = known::selects_matrices(module, &Constants::new(module, &Specialization::new()));
        let joint = |r| module.inst(r).string(0).is_some_and(|(name, _)| name == "SPV_INTEL_joint_matrix");
        if selects || module.globals_with(Op::Extension).any(joint) { Ok(()) } else { self.validated(module) }
    }

    fn validated(&self, module: &Module) -> Result<(), String> {
        // The environments of OpenCL end at older versions.
        let kernel = !module.enables(Capability::Shader);
        let environment = if kernel { "spv1.6" } else { VULKAN };
        self.validator.map_or(Ok(()), |tool| spirv_val(tool, module, environment))
    }
}

/// Returns true if the workgroups of a kernel are single subgroups.
fn one_subgroup(profile: GeneratorProfile, module: &Module, case: &Case) -> bool {
    let facts = Facts::new(module, &case.specialization().unwrap_or_default());
    let said = facts.entries.first().and_then(|e| e.local_size.iter().map(|c| c.value()).product::<Option<u64>>());
    let given = case.local_size.map(|size| size.iter().map(|n| u64::from(*n)).product());
    given.or(said) == Some(u64::from(profile.lanes()))
}

/// Checks a module with spirv-val for an environment.
fn spirv_val(tool: &Path, module: &Module, environment: &str) -> Result<(), String> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let start = Command::new(tool)
        .args(["--target-env", environment, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = start.map_err(|e| format!("{}: {e}", tool.display()))?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(&binary::write(module)).map_err(|e| e.to_string())?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Returns the known reason why the driver of a device may have crashed at a module, if any.
pub fn may_end(module: &Module, spec: &Specialization, device: &str) -> Option<&'static str> {
    known::may_end(module, &Constants::new(module, spec), device)
}

/// Like [`may_end`], for a module lowered for a target.
pub fn may_end_lowered(
    profile: GeneratorProfile,
    module: &Module,
    spec: &Specialization,
    target: Target,
    device: &str,
) -> Option<&'static str> {
    let mut options = Options::new(target);
    options.spec = spec.clone();
    options.subgroup_size = Some(profile.lanes());
    options.profile = LAVAPIPE.as_ref().filter(|_| device.contains("llvmpipe"));
    may_end(&lower(module, &options).ok()?.module, &Specialization::new(), device)
}

fn validate(module: &Module, case: &Case) -> Result<(), String> {
    let mut options = coop_validate::Options::default();
    options.specialization = case.specialization().map_err(|e| e.to_string())?;
    let report = coop_validate::check(&coop_ir::captures::as_passed(module), &options);
    let lines: Vec<String> = report.blocking().map(|f| format!("[{}] {}", f.rule.id, f.message)).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

/// Returns the random number that selects among the ways to run the module of a seed.
pub fn salt(seed: u64) -> u64 {
    Random::new(seed ^ 0x5a17).bits() >> 8
}

/// Generates the module of a seed's entropy and checks it. Trouble is kept in `folder`, and shrunk with as many tries as
/// are given, if there is one.
pub fn try_seed(
    differential: &Differential<'_, '_>,
    (seed, bytes): (u64, &[u8]),
    profile: GeneratorProfile,
    folder: Option<(&Path, u32)>,
    tally: &mut Tally,
) -> Result<(), Box<Trouble>> {
    let salt = salt(seed);
    let made = generate(profile, bytes);
    let Err(trouble) = differential.check(profile, &made, salt, tally) else { return Ok(()) };
    *tally.row(profile).failed.entry(trouble.class.clone()).or_default() += 1;
    // A device that did not answer in time can't be asked again.
    let Some((folder, tries)) = folder.filter(|_| !trouble.is_timeout()) else { return Err(trouble) };
    let folder = folder.join(format!("{profile}-{seed}"));
    // Kept before it is shrunk: that may end badly.
    let kept = keep(&folder.join("whole"), profile, &made, bytes, &trouble);
    if tries == 0 {
        return Err(trouble);
    }
    let mut found = trouble.clone();
    let mut again = |made: &Generated, class: &str| match differential.check(profile, made, salt, &mut Tally::default())
    {
        Err(other) if other.class == class => {
            found = other;
            true
        }
        _ => false,
    };
    let small = shrink(bytes, tries, &mut |candidate| again(&generate(profile, candidate), &trouble.class));
    let mut least = generate(profile, &small);
    least.module = reduce(&least.module, tries, &mut |module| {
        again(&Generated { module: module.clone(), ..least.clone() }, &trouble.class)
    });
    let kept = kept.and_then(|()| keep(&folder, profile, &least, &small, &found));
    if let Err(error) = kept {
        found.message.push_str(&format!("\n(not kept: {}: {error})", folder.display()));
    }
    Err(found)
}
