//! Checks that a device runs the output of a lowering, and lowers the component types that it lacks.

use coop_components::Lacks;
use coop_device::Profile;
use coop_ir::{InstRef, Module, binary};
use coop_passes::{Cause, Error, Lowered, Options, Refusal, Target, Warning};
use coop_validate::Finding;
use std::fmt;
use std::sync::Arc;

/// Returns the requirements of a module that a device does not support: a lowering removes matrices, not the types of
/// their components. `options` has the values of constants and the entry point.
pub fn lacking(
    module: &Module,
    options: &Options<'_>,
    device: &Arc<Profile>,
    subgroup_size: Option<u32>,
) -> Vec<Finding> {
    let mut rules = coop_validate::Options::default();
    rules.errors_only = true;
    rules.specialization.clone_from(&options.spec);
    let mut device = coop_validate::Device::new(Arc::clone(device));
    device.subgroup_size = subgroup_size;
    device.entry.clone_from(&options.entry);
    rules.device = Some(Arc::new(device));
    coop_validate::check_device(module, &rules).findings
}

/// A lowered module that was compared with a device.
pub struct Fit {
    /// The result of the lowering.
    pub lowered: Lowered,
    /// The requirements of the output that the device does not support ([`lacking`]).
    pub lacking: Vec<Finding>,
}

/// Returns the result of a lowering, if the device runs it, or lacks no more than for the module itself, or if it is scalar
/// code; otherwise scalar code if the target is automatic, or a refusal. Scalar code also is what an automatic target gives where
/// component types that the device `lacks` have no lowering beside matrices. What OpenCL takes is said by no rule, so kernels
/// are taken as they are, and a lowering that left passes out is not compared.
pub fn or_scalar(
    module: &Module,
    options: &Options<'_>,
    lowered: Lowered,
    device: &Arc<Profile>,
    lacks: Lacks,
) -> Result<Fit, Error> {
    let report = &lowered.report;
    let finished = report.changed && report.skipped_passes.is_empty();
    if !finished {
        return Ok(Fit { lowered, lacking: Vec::new() });
    }
    let now = lacking(&lowered.module, options, device, report.required_subgroup_size);
    if now.is_empty() || lowered.module.is_kernel() || report.target == Target::Scalar.to_string() {
        return Ok(Fit { lowered, lacking: now });
    }
    // What the module lacks by itself it lacks as scalar code too.
    let before = lacking(module, options, device, report.required_subgroup_size);
    let is_new = |f: &&Finding| before.iter().all(|b| (b.rule.id, &b.message) != (f.rule.id, &f.message));
    let stuck = || options.target == Target::Auto && !coop_components::keeps_matrices(&lowered.module, lacks);
    let because = now.iter().find(is_new).or_else(|| now.first().filter(|_| stuck()));
    let Some(because) = because else { return Ok(Fit { lowered, lacking: now }) };
    let refusal = Refusal {
        rule: "refused-device",
        at: None,
        reason: format!(
            "{} does not run what its matrices need: {} [{}]",
            device.name, because.message, because.rule.id
        ),
        remedy: "lower with --target scalar".to_owned(),
        cause: Cause::Other,
    };
    if options.target != Target::Auto {
        return Err(Error::Refused(Box::new(refusal)));
    }
    let mut scalar = coop_passes::lower(module, &Options { target: Target::Scalar, ..options.clone() })?;
    scalar.report.not_taken.clone_from(&report.not_taken);
    scalar.report.not_taken.push(format!("{}: {refusal}", report.target));
    let lacking = lacking(&scalar.module, options, device, scalar.report.required_subgroup_size);
    Ok(Fit { lowered: scalar, lacking })
}

/// Registers that scalar code lacks: Intel's drivers refuse what spills too much, and take minutes to find out.
pub struct Shortage {
    /// The subgroup size that the code requires.
    pub size: u32,
    /// The registers of 32 bits that an invocation has with that size.
    pub has: u64,
    /// Those that its arrays take.
    pub needs: u64,
}

impl Shortage {
    /// Returns what scalar code lacks that requires a subgroup size, on a device whose driver chooses the size by the registers where none is required.
    pub fn of(lowered: &Lowered, device: &Profile) -> Option<Shortage> {
        let report = &lowered.report;
        let (size, registers) = (report.required_subgroup_size?, device.registers_of_subgroup()?);
        let (has, needs) = (u64::from(registers / size.max(1)), coop_passes::registers_of_arrays(&lowered.module));
        let lacks = report.target == Target::Scalar.to_string() && needs > has;
        lacks.then_some(Shortage { size, has, needs })
    }

    /// Returns true if most of what the arrays hold is spilled.
    pub fn is_large(&self) -> bool {
        self.needs > self.has.saturating_mul(2)
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { size, has, needs } = self;
        write!(f, "an invocation has {has} registers with subgroups of {size}, and its arrays take {needs}")
    }
}

/// Lowers the component types that a device lacks: in the output of a lowering, or in a module without matrices, which a lowering
/// leaves as it is. `original` is the module that refusals name instructions of. Returns true if anything needs it. A refusal
/// is an error if it is `required`, else a note in the report.
pub fn components(
    original: &Module,
    options: &coop_components::Options,
    lowered: &mut Lowered,
    required: bool,
) -> Result<bool, Error> {
    let compared = lowered.report.skipped_passes.is_empty() && !lowered.module.is_kernel();
    if !compared || !coop_components::needs_any(&lowered.module, options.lacks) {
        return Ok(false);
    }
    let done = match coop_components::lower(&lowered.module, options) {
        Ok(done) if done.report.changed => done,
        Ok(_) => return Ok(false),
        Err(coop_components::Error::Refused(refusal)) if required => {
            return Err(of_original(*refusal, original, &lowered.module).into());
        }
        Err(coop_components::Error::Refused(refusal)) => {
            lowered.report.not_taken.push(format!("component types as software: {refusal}"));
            return Ok(false);
        }
        Err(coop_components::Error::Bug { pass, message }) => return Err(Error::Bug { pass, message }),
    };
    let report = &mut lowered.report;
    if !report.changed {
        report.changed = true;
        report.target = Target::Scalar.to_string();
        report.size.input = binary::word_count(original) * 4;
    }
    report.size.output = binary::word_count(&done.module) * 4;
    let declared: Vec<String> = done.module.capabilities().map(|c| c.to_string()).collect();
    report.added_capabilities.retain(|c| declared.contains(c));
    let had = original.capabilities().map(|c| c.to_string());
    report.removed_capabilities = had.filter(|c| !declared.contains(c)).collect();
    report.software = done.report.software.iter().map(ToString::to_string).collect();
    report.software.push(done.report.growth());
    if done.report.whole_words {
        report.warnings.push(Warning {
            id: "whole-words",
            message: "buffers are accessed by words".to_owned(),
            remedy: "the range of each of them that is bound must be a multiple of 4 bytes".to_owned(),
        });
    }
    lowered.module = done.module;
    Ok(true)
}

/// Returns a refusal of a lowering's output as one of the module that was lowered.
fn of_original(refusal: coop_components::Refusal, original: &Module, lowered: &Module) -> Refusal {
    let origin = refusal.at.and_then(|at| lowered.inst(at).origin);
    let same = |r: &InstRef| origin.is_some() && original.inst(*r).origin == origin;
    let at = original.all().find(same);
    Refusal { rule: refusal.rule, at, reason: refusal.reason, remedy: refusal.remedy, cause: Cause::Other }
}
