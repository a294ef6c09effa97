//! The outcome for a pipeline.

use crate::{Features, Specialization, Target};
use std::fmt;

/// The outcome for a pipeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Give the driver the module as it is: the device runs it, or it has nothing that is lowered here.
    Native,
    /// Give the driver these words in place of the module's: the device lacks what that needs, or drivers end at it.
    Lowered(Box<Lowered>),
    /// No equivalent words for the device are known.
    Refused(Box<Refused>),
}

/// A lowered module, and the requirements of its pipeline. Entry points, bindings, push constants and workgroup sizes
/// are those of the module.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Lowered {
    /// The words.
    pub words: Vec<u32>,
    /// The requirements of the pipeline.
    pub requirements: Requirements,
    /// The values of specialization constants that the words still have. To give all of the engine's own does no harm: a
    /// constant that was given its value for good is no constant of the words any more.
    pub specialization: Specialization,
    /// The target of the words: [`Target::Khr`] or [`Target::Scalar`].
    pub target: Target,
    /// The reasons why the module can't be used as it is, one a line.
    pub because: Vec<String>,
    /// The preferred targets that were not used, each with the reason.
    pub not_taken: Vec<String>,
    /// The assumptions, each with its remedy.
    pub warnings: Vec<String>,
    /// The deviations from bit-exact results, in words: precision, ordering.
    pub approximations: Vec<String>,
}

impl fmt::Debug for Lowered {
    /// Everything but the words, of which there are thousands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lowered")
            .field("words", &self.words.len())
            .field("requirements", &self.requirements)
            .field("specialization", &self.specialization)
            .field("target", &self.target)
            .field("because", &self.because)
            .field("not_taken", &self.not_taken)
            .field("warnings", &self.warnings)
            .field("approximations", &self.approximations)
            .finish()
    }
}

/// The requirements of a pipeline of lowered words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Requirements {
    /// The subgroup size to require, by `VkPipelineShaderStageRequiredSubgroupSizeCreateInfo`.
    pub subgroup_size: Option<u32>,
    /// True if the pipeline requires full subgroups, by `VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT`.
    pub full_subgroups: bool,
    /// True if the pipeline is best made without any requirement on subgroups, whatever the module's own pipeline requires: the words run with subgroups of
    /// any size, and the driver chooses one for which the registers suffice.
    pub any_subgroup_size: bool,
    /// Bytes of shared memory that the words have besides the module's own.
    pub shared_memory: u32,
    /// The capabilities that the words declare and the module does not.
    pub capabilities: Vec<String>,
    /// The features that the words need of a `VkDevice`. Where a capability asks for one of several, all that the device has.
    pub features: Features,
    /// The device extensions that the words need, where the device's version does not include them.
    pub extensions: Vec<String>,
}

/// The reason why there are no words for a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The rule: `refused-unknown-dimension`. Rules keep their names.
    pub rule: &'static str,
    /// The explanation: lower case, no final period.
    pub message: String,
    /// The remedy.
    pub remedy: String,
    /// The instruction of the module, by the offset of its first word.
    pub word: Option<u32>,
    /// The requirements that the device lacks, or the rules that the module breaks.
    pub findings: Vec<Finding>,
    /// The targets that were tried, each with the reason why it is not possible.
    pub not_taken: Vec<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]; {}", self.message, self.rule, self.remedy)?;
        if let Some(word) = self.word {
            write!(f, " (at word {word})")?;
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
    }
}

impl std::error::Error for Refused {}

/// A rule that a module breaks, or a requirement that a device lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The rule: docs/rules.md says what it is.
    pub rule: &'static str,
    /// The finding: lower case (letters of matrices excepted), no final period.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The instruction, by the offset of its first word.
    pub word: Option<u32>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.rule)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}
