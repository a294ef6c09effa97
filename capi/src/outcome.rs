//! The outcome for a pipeline.

use crate::error::{CoopmatError, CoopmatStatus, Failure, answer, free};
use crate::module::CoopmatMapEntry;
use crate::pointers::{give, give_text, place, required};
use facade::{Lowered, Outcome, Target};
use std::ffi::{c_char, c_void};

/// The outcome for a pipeline. It never changes, so any number of threads may use it. To be freed by
/// `coopmat_outcome_free`.
pub struct CoopmatOutcome {
    outcome: Outcome,
    entries: Vec<CoopmatMapEntry>,
    data: Vec<u8>,
}

impl CoopmatOutcome {
    pub(crate) fn new(outcome: Outcome) -> CoopmatOutcome {
        let (entries, data) = match &outcome {
            Outcome::Lowered(lowered) => lowered.specialization.to_entries(),
            _ => (Vec::new(), Vec::new()),
        };
        let entry =
            |e: facade::MapEntry| CoopmatMapEntry { constant_id: e.constant_id, offset: e.offset, size: e.size };
        CoopmatOutcome { outcome, entries: entries.into_iter().map(entry).collect(), data }
    }

    fn lowered(&self) -> Result<&Lowered, Failure> {
        match &self.outcome {
            Outcome::Lowered(lowered) => Ok(lowered),
            Outcome::Native => Err(Failure::new(CoopmatStatus::WrongKind, "nothing was lowered: the module is native")),
            Outcome::Refused(_) => Err(Failure::new(CoopmatStatus::WrongKind, "nothing was lowered: it was refused")),
        }
    }
}

/// The kind of an outcome.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoopmatKind {
    /// Give the driver the module as it is.
    Native = 0,
    /// Give the driver the words of the outcome.
    Lowered = 1,
    /// There are no equivalent words: COOPMAT_TEXT_MESSAGE is the reason.
    Refused = 2,
}

/// The requirements of a pipeline of lowered words.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoopmatRequirements {
    /// The subgroup size to require (`VkPipelineShaderStageRequiredSubgroupSizeCreateInfo`); 0 if none, and the driver may choose.
    pub subgroup_size: u32,
    /// 1 if the pipeline must require full subgroups (`VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT`),
    /// else 0.
    pub full_subgroups: u32,
    /// Bytes of shared memory that the words have besides the module's own.
    pub shared_memory: u32,
    /// The target of the words: COOPMAT_TARGET_KHR or COOPMAT_TARGET_SCALAR.
    pub target: u32,
}

/// A text of an outcome: one of COOPMAT_TEXT_*. Texts that an outcome does not have are empty; several are one a line.
pub type CoopmatText = u32;
/// The reason for a refusal.
pub const COOPMAT_TEXT_MESSAGE: CoopmatText = 0;
/// The rule by which it was refused: "refused-unknown-dimension".
pub const COOPMAT_TEXT_RULE: CoopmatText = 1;
/// The remedy for a refusal.
pub const COOPMAT_TEXT_REMEDY: CoopmatText = 2;
/// The requirements that the device lacks, or the rules that the module breaks.
pub const COOPMAT_TEXT_FINDINGS: CoopmatText = 3;
/// The reasons why the module can't be used as it is.
pub const COOPMAT_TEXT_BECAUSE: CoopmatText = 4;
/// The assumptions.
pub const COOPMAT_TEXT_WARNINGS: CoopmatText = 5;
/// The preferred targets that were not used, each with the reason.
pub const COOPMAT_TEXT_NOT_TAKEN: CoopmatText = 6;
/// The deviations from bit-exact results.
pub const COOPMAT_TEXT_APPROXIMATIONS: CoopmatText = 7;
/// The device extensions that lowered words need.
pub const COOPMAT_TEXT_EXTENSIONS: CoopmatText = 8;
/// The features that lowered words need, by their names in Vulkan's structures.
pub const COOPMAT_TEXT_FEATURES: CoopmatText = 9;
/// The capabilities that lowered words declare and the module does not.
pub const COOPMAT_TEXT_CAPABILITIES: CoopmatText = 10;

/// Returns the kind of an outcome. COOPMAT_KIND_REFUSED for null.
///
/// # Safety
///
/// `outcome` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_kind(outcome: *const CoopmatOutcome) -> CoopmatKind {
    // SAFETY: as the caller promises.
    match unsafe { outcome.as_ref() }.map(|outcome| &outcome.outcome) {
        Some(Outcome::Native) => CoopmatKind::Native,
        Some(Outcome::Lowered(_)) => CoopmatKind::Lowered,
        Some(Outcome::Refused(_)) | None => CoopmatKind::Refused,
    }
}

/// Returns the words of a lowered module.
///
/// # Safety
///
/// `outcome` is null or alive; `buffer` is null or has room for `capacity` words; `count` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_words(
    outcome: *const CoopmatOutcome,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        unsafe { give(&required(outcome, "outcome")?.lowered()?.words, buffer, capacity, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns the requirements of the pipeline of lowered words.
///
/// # Safety
///
/// `outcome` is null or alive; `requirements` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_requirements(
    outcome: *const CoopmatOutcome,
    requirements: *mut CoopmatRequirements,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, outcome) = unsafe { (place(requirements, "requirements")?, required(outcome, "outcome")?) };
        let lowered = outcome.lowered()?;
        let target = match lowered.target {
            Target::Scalar => crate::module::COOPMAT_TARGET_SCALAR,
            Target::Khr | Target::Auto => crate::module::COOPMAT_TARGET_KHR,
        };
        let needs = &lowered.requirements;
        // SAFETY: `place` looked at it.
        unsafe {
            out.write(CoopmatRequirements {
                subgroup_size: needs.subgroup_size.unwrap_or(0),
                full_subgroups: needs.full_subgroups.into(),
                shared_memory: needs.shared_memory,
                target,
            });
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Gives the values of specialization constants that lowered words still have. To give the pipeline all of the module's does no
/// harm.
///
/// # Safety
///
/// `outcome` is null or alive; `entries` is null or has room for `entry_capacity` entries, `data` for `data_capacity` bytes; the
/// others are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_specialization(
    outcome: *const CoopmatOutcome,
    entries: *mut CoopmatMapEntry,
    entry_capacity: usize,
    entry_count: *mut usize,
    data: *mut c_void,
    data_capacity: usize,
    data_size: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let outcome = unsafe { required(outcome, "outcome") }?;
        outcome.lowered()?;
        // SAFETY: as the caller promises.
        unsafe {
            give(&outcome.entries, entries, entry_capacity, entry_count)?;
            give(&outcome.data, data.cast::<u8>(), data_capacity, data_size)
        }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns a text of an outcome; `count` includes the terminating zero.
///
/// # Safety
///
/// `outcome` is null or alive; `buffer` is null or has room for `capacity` bytes; `count` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_text(
    outcome: *const CoopmatOutcome,
    what: CoopmatText,
    buffer: *mut c_char,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let outcome = unsafe { required(outcome, "outcome") }?;
        let text = text_of(&outcome.outcome, what)
            .ok_or_else(|| Failure::argument(format!("what is {what}, none of COOPMAT_TEXT_...")))?;
        // SAFETY: as the caller promises.
        unsafe { give_text(&text, buffer, capacity, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

fn text_of(outcome: &Outcome, what: CoopmatText) -> Option<String> {
    let (lowered, refused) = match outcome {
        Outcome::Native => (None, None),
        Outcome::Lowered(lowered) => (Some(lowered), None),
        Outcome::Refused(refused) => (None, Some(refused)),
    };
    let lines = |lines: Option<&Vec<String>>| lines.map_or_else(String::new, |lines| lines.join("\n"));
    let needs = lowered.map(|l| &l.requirements);
    Some(match what {
        COOPMAT_TEXT_MESSAGE => refused.map_or_else(String::new, |r| r.message.clone()),
        COOPMAT_TEXT_RULE => refused.map_or_else(String::new, |r| r.rule.to_owned()),
        COOPMAT_TEXT_REMEDY => refused.map_or_else(String::new, |r| r.remedy.clone()),
        COOPMAT_TEXT_FINDINGS => {
            let findings = refused.map(|r| r.findings.iter().map(ToString::to_string).collect());
            lines(findings.as_ref())
        }
        COOPMAT_TEXT_BECAUSE => lines(lowered.map(|l| &l.because)),
        COOPMAT_TEXT_WARNINGS => lines(lowered.map(|l| &l.warnings)),
        COOPMAT_TEXT_NOT_TAKEN => lines(lowered.map(|l| &l.not_taken).or(refused.map(|r| &r.not_taken))),
        COOPMAT_TEXT_APPROXIMATIONS => lines(lowered.map(|l| &l.approximations)),
        COOPMAT_TEXT_EXTENSIONS => lines(needs.map(|n| &n.extensions)),
        COOPMAT_TEXT_FEATURES => {
            let names = needs.map(|n| n.features.iter().map(|f| f.to_string()).collect());
            lines(names.as_ref())
        }
        COOPMAT_TEXT_CAPABILITIES => lines(needs.map(|n| &n.capabilities)),
        _ => return None,
    })
}

/// Frees an outcome; null is nothing.
///
/// # Safety
///
/// `outcome` is null or alive, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_outcome_free(outcome: *mut CoopmatOutcome) {
    // SAFETY: as the caller promises.
    unsafe { free(outcome) }
}
