//! Computes the outcome for a module, a device and a pipeline.

use crate::fit::{self, Fit, Shortage};
use crate::{Device, Finding, Lanes, Lowered, Outcome, PipelineOptions, Prepared, Refused, Requirements, Target};
use coop_components::Lacks;
use coop_device::subgroup::{SpecializedFor, specialized_for};
use coop_device::{Feature, Profile, Requirement, capability_requirement, spirv_extension};
use coop_ir::{InstRef, Module, Op, binary, verify};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// The number of instructions of a module that takes longer to check than a thread takes to start.
const WORTH_A_THREAD: usize = 1000;

/// The stack of that thread, in bytes: deep control flow needs a deep one, as the caller's may be.
const STACK: usize = 64 << 20;

/// A query: a module, a device, a pipeline.
struct Query<'a> {
    module: &'a Module,
    device: &'a Device,
    options: &'a PipelineOptions,
    /// The options of the lowering, except for the target and the lanes.
    base: coop_passes::Options<'a>,
}

/// The warnings of the rules, and what became of the lowering; or the refusal of a module that breaks rules.
type Checked = Result<(Vec<String>, Result<Fit, coop_passes::Error>), Refused>;

/// Runs two functions at once: one on a thread of its own, if there can be one. A panic of either is one of the caller.
fn beside<A: Send, B>(other: impl Fn() -> A + Sync, own: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let running = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, &other);
        let own = own();
        let answer = match running {
            Ok(running) => running.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => other(),
        };
        (answer, own)
    })
}

pub(crate) fn outcome(prepared: &Prepared, device: &Device, options: &PipelineOptions) -> Outcome {
    let values = match prepared.values(&options.specialization) {
        Ok(values) => values,
        Err((id, why)) => {
            let message = format!("the value of specialization constant {id} does not fit: {why}");
            return refused("refused-spec-value", message, "give a value of the constant's type");
        }
    };
    if let Some(name) = options.entry_point.as_ref().filter(|name| !prepared.entries.contains(name)) {
        let names: Vec<String> = prepared.entries.iter().map(|entry| format!("'{entry}'")).collect();
        let message = format!("the module has no entry point '{name}'");
        return refused("refused-entry", message, &format!("name one that it has: {}", names.join(", ")));
    }
    let mut base = coop_passes::Options::new(coop_passes::Target::Auto);
    base.spec = values;
    base.spec_defaults = true;
    base.entry.clone_from(&options.entry_point);
    base.profile = Some(device.profile());
    base.subgroup_size = options.required_subgroup_size;
    base.undefined_as_zero = options.undefined_as_zero;
    base.assume_aligned = options.assume_aligned;
    base.assume_any_subgroup_size = options.assume_any_subgroup_size;
    base.well_formed = Some(&prepared.well_formed);
    base.most_instructions = options.limits.instructions;
    base.deadline = options.limits.time.and_then(|time| Instant::now().checked_add(time));
    let question = Query { module: &prepared.module, device, options, base };
    // If the answer is certain, its reasons are found while the module is lowered.
    let lacking = if question.surely_lacks() { None } else { Some(question.lacking()) };
    if (options.always_lower || lacking.as_ref().is_none_or(|lacking| !lacking.is_empty()))
        && let Some(outcome) = question.lowered(lacking)
    {
        return outcome;
    }
    let because = if coop_passes::has_length_in_constant(&prepared.module) {
        "a constant is the length of a matrix, at which drivers end"
    } else if coop_passes::has_wide_stride(&prepared.module, device.profile()) {
        "a matrix is loaded or stored with a stride of 64 bits, which the driver does not compile"
    } else {
        return Outcome::Native;
    };
    // The device has the matrices, and its driver does not make the pipeline: what is lowered has neither, if that can be.
    let mut options = options.clone();
    if options.target == Target::Auto {
        options.target = Target::Khr;
    }
    match (Query { options: &options, ..question }).lowered_for(&[]) {
        Outcome::Lowered(mut lowered) => {
            lowered.because.push(because.into());
            Outcome::Lowered(lowered)
        }
        _ => Outcome::Native,
    }
}

/// Returns the refusal for a bug of this library.
pub(crate) fn internal(message: String) -> Refused {
    let remedy = "this is a bug of the library: please report it with the module".to_owned();
    Refused { rule: "refused-internal", message, remedy, word: None, findings: Vec::new(), not_taken: Vec::new() }
}

fn refused(rule: &'static str, message: String, remedy: &str) -> Outcome {
    let remedy = remedy.to_owned();
    Outcome::Refused(Box::new(Refused {
        rule,
        message,
        remedy,
        word: None,
        findings: Vec::new(),
        not_taken: Vec::new(),
    }))
}

impl Query<'_> {
    /// Lowers the module; `lacking` is the reason why the device does not run it, if it was asked for already. None if there is no
    /// reason, and the options want one.
    fn lowered(&self, lacking: Option<Vec<Finding>>) -> Option<Outcome> {
        let Some(lacking) = lacking else {
            let (lacking, checked) = self.checked_and_fitted(|| self.lacking());
            let wanted = self.options.always_lower || !lacking.is_empty();
            return wanted.then(|| self.answer(checked, &lacking));
        };
        Some(self.lowered_for(&lacking))
    }

    /// Lowers the module, whose reason is `lacking`.
    fn lowered_for(&self, lacking: &[Finding]) -> Outcome {
        self.answer(self.checked_and_fitted(|| ()).1, lacking)
    }

    /// Returns the answer for a module whose rules were checked, and what became of its lowering.
    fn answer(&self, checked: Checked, lacking: &[Finding]) -> Outcome {
        let (tolerated, fit) = match checked {
            Ok(both) => both,
            Err(refused) => return Outcome::Refused(Box::new(refused)),
        };
        let Fit { lowered, lacking: still } = match fit {
            Ok(fit) => fit,
            Err(coop_passes::Error::Refused(refusal)) => return Outcome::Refused(Box::new(self.refusal(&refusal))),
            Err(bug @ coop_passes::Error::Bug { .. }) => return self.not_well_formed(bug.to_string()),
        };
        let report = &lowered.report;
        if !report.changed {
            // Nothing to lower, so what the device lacks the module needs by itself.
            return if lacking.is_empty() { Outcome::Native } else { self.not_enough(lacking.to_vec(), Vec::new()) };
        }
        let words = binary::write_words(&lowered.module);
        if let Err(problems) = verify::verify_words(&words) {
            return self.not_well_formed(problems.first().map_or_else(String::new, ToString::to_string));
        }
        if !still.is_empty() {
            let still = still.iter().map(|f| finding(&lowered.module, f)).collect();
            return self.not_enough(still, report.not_taken.clone());
        }
        let mut finished = self.finished(lowered, words, lacking);
        finished.warnings.extend(tolerated);
        Outcome::Lowered(Box::new(finished))
    }

    /// Answers a question about the module, checks its rules, if the options ask for that, and lowers it: the answer, and the refusal or
    /// warnings and what became of the lowering. All only read the module, so the first two are done on a thread beside the last, if
    /// rules are checked and the module is large.
    fn checked_and_fitted<T: Send>(&self, question: impl Fn() -> T + Sync) -> (T, Checked) {
        let check = || (question(), self.tolerated());
        // Whatever ends the lowering of a module that breaks rules, the rules are what is reported.
        let fit = || catch_unwind(AssertUnwindSafe(|| self.fitted()));
        let alone = !self.options.check_rules || self.module.arena_len() < WORTH_A_THREAD;
        let ((answer, tolerated), fit) = if alone {
            let checked = check();
            // Nobody asks for the lowering of a module that breaks rules.
            let fit = if checked.1.is_ok() { Some(fit()) } else { None };
            (checked, fit)
        } else {
            let (checked, fit) = beside(check, fit);
            (checked, Some(fit))
        };
        let checked = tolerated.map(|tolerated| {
            let fit = fit.unwrap_or_else(|| unreachable!("the rules hold, so it was lowered"));
            (tolerated, fit.unwrap_or_else(|panic| resume_unwind(panic)))
        });
        (answer, checked)
    }

    /// Returns the warnings of the rules that a module may break, or the refusal of one that breaks others.
    fn tolerated(&self) -> Result<Vec<String>, Refused> {
        #[cfg(feature = "rules")]
        if self.options.check_rules {
            return self.check_rules();
        }
        Ok(Vec::new())
    }

    /// Lowers the module, and the component types that the device lacks.
    fn fitted(&self) -> Result<Fit, coop_passes::Error> {
        self.lower().and_then(|fit| self.with_components(fit))
    }

    /// Lowers the component types that the device lacks as well. What refuses that is noted: the device does not run the output
    /// then, and the answer says what it lacks.
    fn with_components(&self, mut fit: Fit) -> Result<Fit, coop_passes::Error> {
        let options = coop_components::Options {
            lacks: Lacks::of(self.device.profile()),
            excess_precision: self.options.excess_precision,
            most_instructions: self.base.most_instructions,
            deadline: self.base.deadline,
        };
        if fit::components(self.module, &options, &mut fit.lowered, false)? {
            let size = fit.lowered.report.required_subgroup_size;
            fit.lacking = fit::lacking(&fit.lowered.module, &self.base, self.device.shared(), size);
        }
        Ok(fit)
    }

    /// Returns the lowering that the options ask for, or the first that is possible.
    fn lower(&self) -> Result<Fit, coop_passes::Error> {
        if let Some(emulated) = self.emulated() {
            return emulated;
        }
        let can_require = self.device.can_require_subgroups();
        let lanes = match self.options.lanes {
            Lanes::Auto | Lanes::Subgroup => coop_passes::Lanes::Subgroup,
            Lanes::LocalIndex => coop_passes::Lanes::LocalIndex,
        };
        let maintenance1 = self.device.profile().has_extension("VK_EXT_cooperative_matrix_maintenance1");
        let target = match self.options.target {
            Target::Auto => coop_passes::Target::Auto,
            Target::Khr if maintenance1 => coop_passes::Target::Ext,
            Target::Khr => coop_passes::Target::Khr,
            Target::Scalar => coop_passes::Target::Scalar,
        };
        let mut first = self.lower_to(target, lanes);
        if target == coop_passes::Target::Ext && first.is_err() {
            first = self.lower_to(coop_passes::Target::Khr, lanes).or(first);
        }
        let fits = |fit: &Fit| can_require || !fit.lowered.report.full_subgroups;
        if self.options.lanes != Lanes::Auto || self.options.target == Target::Khr {
            return first;
        }
        if first.as_ref().is_ok_and(fits) {
            return first.map(|fit| self.with_registers(fit));
        }
        let by_index = self.lower_to(coop_passes::Target::Scalar, coop_passes::Lanes::LocalIndex);
        match (first, by_index) {
            (first, Ok(mut fit)) => {
                fit.lowered.report.not_taken.extend(match first {
                    Ok(first) => {
                        vec![format!("{}: pipelines can't require full subgroups", first.lowered.report.target)]
                    }
                    Err(error) => vec![format!("lanes of subgroups: {error}")],
                });
                Ok(fit)
            }
            (first, Err(_)) => first,
        }
    }

    /// Returns other code in the place of scalar code that lacks registers, if there can be any: for lanes by local index, or else, where it lacks many, with
    /// the device's matrices.
    fn with_registers(&self, fit: Fit) -> Fit {
        let Some(shortage) = Shortage::of(&fit.lowered, self.device.profile()) else { return fit };
        let subgroup_size = fit.lowered.report.required_subgroup_size;
        let base = coop_passes::Options { subgroup_size, ..self.base.clone() };
        let by_index = self.lower_with(&base, coop_passes::Target::Scalar, coop_passes::Lanes::LocalIndex);
        let other = match by_index {
            Ok(by_index) => Some((by_index, format!("subgroups of the device: {shortage}"))),
            Err(error) if self.options.target == Target::Auto && shortage.is_large() => {
                let with_matrices = self.lower_with(&base, coop_passes::Target::Khr, coop_passes::Lanes::Subgroup).ok();
                let with_matrices = with_matrices.filter(|other| other.lacking.len() <= fit.lacking.len());
                with_matrices.map(|other| (other, format!("scalar: {shortage}; lanes by local index: {error}")))
            }
            Err(_) => None,
        };
        let Some((mut other, why)) = other else { return fit };
        let not_taken = &mut other.lowered.report.not_taken;
        if other.lowered.report.target == coop_passes::Target::Scalar.to_string() {
            not_taken.extend(fit.lowered.report.not_taken);
        }
        not_taken.push(why);
        other
    }

    /// The lowering of a module that is made for subgroups of a size that the device has not: by local index, so that it has
    /// them. None where the module is not known to be made for one, or runs with others too.
    fn emulated(&self) -> Option<Result<Fit, coop_passes::Error>> {
        if self.options.lanes != Lanes::Auto || self.options.target == Target::Khr {
            return None;
        }
        let has = self.device.profile().subgroup_sizes();
        let (size, has_parts, sign) = match self.base.subgroup_size {
            Some(size) => (size, false, "the pipeline requires it".to_owned()),
            None => {
                let found = self.made_for()?;
                (
                    found.size,
                    found.has_parts,
                    format!("SpecId {} is that, and the module {}", found.spec_id, found.sign),
                )
            }
        };
        if has.contains(&size) {
            return None;
        }
        let base = coop_passes::Options { subgroup_size: Some(size), ..self.base.clone() };
        let by_index = self.lower_with(&base, coop_passes::Target::Scalar, coop_passes::Lanes::LocalIndex);
        match by_index {
            Ok(mut fit) => {
                let why = format!("subgroups of the device: none has {size} invocations ({sign})");
                fit.lowered.report.not_taken.push(why);
                Some(Ok(fit))
            }
            // With smaller subgroups it writes behind its arrays.
            Err(error) if has_parts && has.iter().all(|other| *other < size) => Some(Err(error)),
            Err(_) => None,
        }
    }

    fn lower_to(&self, target: coop_passes::Target, lanes: coop_passes::Lanes) -> Result<Fit, coop_passes::Error> {
        self.lower_with(&self.base, target, lanes)
    }

    fn lower_with(
        &self,
        base: &coop_passes::Options<'_>,
        target: coop_passes::Target,
        lanes: coop_passes::Lanes,
    ) -> Result<Fit, coop_passes::Error> {
        let mut options = coop_passes::Options { target, lanes, ..base.clone() };
        let mut done = coop_passes::lower(self.module, &options);
        // Where nobody says a size, any that the device has will do.
        let open = base.subgroup_size.is_none() && target != coop_passes::Target::Auto;
        let misfit = |done: &Result<_, coop_passes::Error>| matches!(done, Err(coop_passes::Error::Refused(refusal)) if refusal.cause == coop_passes::Cause::SubgroupSize);
        if open && misfit(&done) {
            for size in self.device.profile().required_subgroup_sizes() {
                options.subgroup_size = Some(size);
                let other = coop_passes::lower(self.module, &options);
                if !misfit(&other) {
                    done = other;
                    break;
                }
            }
        }
        fit::or_scalar(self.module, &options, done?, self.device.shared(), Lacks::of(self.device.profile()))
    }

    /// Returns the refusal if a device lacks something that no lowering removes.
    fn not_enough(&self, findings: Vec<Finding>, not_taken: Vec<String>) -> Outcome {
        let what = findings.first().map_or_else(String::new, |f| f.message.clone());
        let name = match self.device.profile() {
            Profile { name, .. } if !name.is_empty() => name,
            Profile { device, .. } => device,
        };
        Outcome::Refused(Box::new(Refused {
            rule: "refused-device",
            message: format!("{name} does not run the module, lowered or not: {what}"),
            remedy: "enable what is missing, or use a variant of the module that does without".to_owned(),
            word: None,
            findings,
            not_taken,
        }))
    }

    fn refusal(&self, refusal: &coop_passes::Refusal) -> Refused {
        Refused {
            rule: refusal.rule,
            message: refusal.reason.clone(),
            remedy: refusal.remedy.clone(),
            word: refusal.at.and_then(|at| word(self.module, at)),
            findings: Vec::new(),
            not_taken: Vec::new(),
        }
    }

    fn finished(&self, lowered: coop_passes::Lowered, words: Vec<u32>, lacking: &[Finding]) -> Lowered {
        let coop_passes::Lowered { module, report } = lowered;
        let (features, extensions) = needs(&module, self.device.profile());
        let chosen = report.required_subgroup_size.is_none() && self.device.profile().registers_of_subgroup().is_some();
        let requirements = Requirements {
            subgroup_size: report.required_subgroup_size,
            full_subgroups: report.full_subgroups,
            any_subgroup_size: chosen && !coop_passes::depends_on_subgroups(&module),
            shared_memory: report.added_shared_memory,
            capabilities: report.added_capabilities,
            features,
            extensions,
        };
        let remaining: BTreeSet<u32> = report.remaining_spec_ids.iter().copied().collect();
        Lowered {
            words,
            requirements,
            specialization: self.options.specialization.only(|id| remaining.contains(&id)),
            target: if report.target == "scalar" { Target::Scalar } else { Target::Khr },
            because: lacking.iter().map(Finding::to_string).collect(),
            not_taken: report.not_taken,
            warnings: report.warnings.iter().map(ToString::to_string).collect(),
            approximations: report.approximations.into_iter().chain(report.software).collect(),
        }
    }

    /// Returns true if the module declares a capability that the device is known not to support.
    fn surely_lacks(&self) -> bool {
        let profile = self.device.profile();
        self.module.capabilities().any(|capability| match capability_requirement(capability) {
            Requirement::AnyOf(features) => !features.iter().any(|feature| profile.has(*feature)),
            _ => false,
        })
    }

    /// Returns the requirements of the module that the device does not support.
    fn lacking(&self) -> Vec<Finding> {
        let size = self.options.required_subgroup_size;
        let found = fit::lacking(self.module, &self.base, self.device.shared(), size);
        found.iter().map(|f| finding(self.module, f)).collect()
    }

    /// Returns the refusal if the output is not well formed: the module breaks rules, or this library has a bug.
    fn not_well_formed(&self, why: String) -> Outcome {
        #[cfg(feature = "rules")]
        let refused = self.check_rules().err().unwrap_or_else(|| internal(why));
        #[cfg(not(feature = "rules"))]
        let refused = Refused {
            rule: "refused-malformed",
            remedy: "see what coopcheck says of the module; if nothing, this is a bug of the library: please report it"
                .to_owned(),
            ..internal(why)
        };
        Outcome::Refused(Box::new(refused))
    }

    /// The subgroup size that the module is known to be made for, unless it is assumed to run with any.
    fn made_for(&self) -> Option<SpecializedFor> {
        if self.base.assume_any_subgroup_size {
            return None;
        }
        specialized_for(self.module, &self.base.spec, true)
    }

    /// The subgroup size that the module runs with as it is: what the pipeline requires, or what the module is known to be made for,
    /// or the device's.
    #[cfg(feature = "rules")]
    fn own_subgroup_size(&self) -> u32 {
        let required = self.options.required_subgroup_size;
        let size = required.or_else(|| self.made_for().map(|found| found.size));
        size.unwrap_or(self.device.profile().limits.subgroup_size)
    }

    /// Checks the module with its constants. Returns the refusal if it breaks rules, and else warnings of those that
    /// [`TOLERATED`] names.
    #[cfg(feature = "rules")]
    fn check_rules(&self) -> Result<Vec<String>, Refused> {
        let mut rules = coop_validate::Options::default();
        rules.specialization.clone_from(&self.base.spec);
        rules.subgroup_size = Some(self.own_subgroup_size());
        // As it will be lowered: what slang's lambdas capture is passed as it means it.
        let module = coop_ir::captures::as_passed(self.module);
        let report = coop_validate::check(&module, &rules);
        let (tolerated, findings): (Vec<Finding>, Vec<Finding>) =
            report.blocking().map(|f| finding(&module, f)).partition(|f| f.rule == TOLERATED);
        let Some(first) = findings.first() else { return Ok(tolerated.iter().map(ToString::to_string).collect()) };
        let (message, word) = (format!("the module breaks rules: {}", first.message), first.word);
        let remedy = "see what coopcheck says of the module".to_owned();
        Err(Refused { rule: "refused-rules", message, remedy, word, findings, not_taken: Vec::new() })
    }
}

/// The rule that a module may break: IREE's compiler declares the memory model GLSL450, and drivers take its modules. Lowered
/// code keeps the module's memory model and is synchronized by barriers in either.
#[cfg(feature = "rules")]
const TOLERATED: &str = "module-memory-model";

fn finding(module: &Module, f: &coop_validate::Finding) -> Finding {
    Finding { rule: f.rule.id, message: f.message.clone(), help: f.help.clone(), word: word(module, f.at) }
}

/// Returns the offset of an instruction's first word in the original module.
fn word(module: &Module, at: InstRef) -> Option<u32> {
    module.inst(at).origin.map(std::num::NonZero::get)
}

/// Returns the requirements of a module on a device: features, and extensions that its version does not include.
fn needs(module: &Module, profile: &Profile) -> (coop_device::Features, Vec<String>) {
    let mut features = coop_device::Features::NONE;
    let mut extensions = BTreeSet::new();
    for capability in module.capabilities() {
        match capability_requirement(capability) {
            Requirement::AnyOf(any) => any.iter().filter(|f| profile.has(**f)).for_each(|f| features.insert(*f)),
            Requirement::Extension(extension) if !extension.is_core_in(profile.api_version) => {
                extensions.insert(extension.name.to_owned());
            }
            _ => {}
        }
    }
    // Vulkan wants the lesser feature enabled with it.
    if features.has(Feature::VariablePointers) {
        features.insert(Feature::VariablePointersStorageBuffer);
    }
    let named = module.globals_with(Op::Extension).filter_map(|r| module.inst(r).string(0));
    for extension in named.filter_map(|(name, _)| spirv_extension(&name)) {
        if !extension.is_core_in(profile.api_version) {
            extensions.insert(extension.name.to_owned());
        }
    }
    (features, extensions.into_iter().collect())
}
