//! Certificates: lowered words that are proved to store what their module stores, for all contents of the data buffers.
//!
//! The proof is that of `cooprun prove` (docs/proofs.md): for one specialization and dispatch, which a case names. It runs both
//! modules in the reference interpreter, so it belongs where an engine is built or tested, not where it makes pipelines.

use crate::{Device, Lowered, PipelineOptions, Prepared, Specialization, hash};
use coop_exec::Case;
use coop_exec::case::Number;
use coop_exec::interp::{Arithmetic, Blocks, Config, Interpreted};
use coop_exec::proof::{Options, Proof, Verdict, prove};
use coop_ir::binary;
use coop_ir::constant::Constants;
use coop_ir::types::{Scalar, Type};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// The meaning of float arithmetic in a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ProofMode {
    /// Real numbers: nothing rounds.
    #[default]
    Reals,
    /// Real numbers, rounded where a conversion goes to fewer values.
    Rounding,
    /// Each operation rounds in its own way.
    Strict,
}

impl ProofMode {
    fn arithmetic(self) -> Arithmetic {
        match self {
            ProofMode::Reals => Arithmetic::Reals,
            ProofMode::Rounding => Arithmetic::Rounding,
            ProofMode::Strict => Arithmetic::Strict,
        }
    }
}

/// The dispatch that a proof is about.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ProofOptions {
    /// A case file of `cooprun`, in TOML, without files of its own: buffers, push constants and workgroups. The specialization constants
    /// are the pipeline's, not those of the case.
    pub case: String,
    /// The meaning of float arithmetic.
    pub mode: ProofMode,
    /// The seed of the values that stand for data.
    pub seed: u64,
    /// The buffers whose contents are those of the case only, such as sizes and indices.
    pub fixed: Vec<String>,
    /// The longest that one run may take.
    pub most_time: Option<Duration>,
}

impl ProofOptions {
    /// Returns the options for a case.
    pub fn new(case: impl Into<String>) -> ProofOptions {
        ProofOptions { case: case.into(), mode: ProofMode::Reals, seed: 1, fixed: Vec::new(), most_time: None }
    }
}

/// The blocks of a module that a proof executed: it says nothing about the others.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Coverage {
    /// The number of blocks that were executed.
    pub executed: usize,
    /// The ids of the others.
    pub missed: Vec<u32>,
}

/// A proof that lowered words store what their module stores.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Certificate {
    /// The hash of the module: [`Prepared::hash`].
    pub module: [u8; 32],
    /// The hash of the lowered words.
    pub lowered: [u8; 32],
    /// The hash of the case.
    pub case: [u8; 32],
    /// The values of the specialization constants.
    pub specialization: Specialization,
    /// The workgroups of the dispatch.
    pub workgroups: [u32; 3],
    /// The size of the subgroups that the module ran in.
    pub subgroup_size: u32,
    /// The meaning of float arithmetic.
    pub mode: ProofMode,
    /// The seed of the values that stood for data.
    pub seed: u64,
    /// The buffers whose contents are arbitrary.
    pub data: Vec<String>,
    /// The number of elements that were stored.
    pub stored: u64,
    /// The number of values of data that decide a branch or an address: the proof is for data that make them what they were.
    pub decisions: usize,
    /// The binary logarithm of the probability that different expressions were taken for equal.
    pub log2_error: f64,
    /// The blocks of the module.
    pub module_blocks: Coverage,
    /// The blocks of the lowered words.
    pub lowered_blocks: Coverage,
    /// The certificate in words.
    pub text: String,
}

impl Certificate {
    /// Returns true if the certificate is about this module and these words.
    pub fn is_for(&self, module: &Prepared, lowered: &Lowered) -> bool {
        self.module == module.hash() && self.lowered == hash::hash_words(&lowered.words)
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The reason why there is no certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Uncertified {
    /// The words store something else: where, and if that is known how.
    Refuted(String),
    /// Neither proved nor refuted: why.
    NotProvable(String),
    /// The case or a module can't be run: why.
    Failed(String),
}

impl fmt::Display for Uncertified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uncertified::Refuted(why) => write!(f, "refuted: {why}"),
            Uncertified::NotProvable(why) => write!(f, "not provable: {why}"),
            Uncertified::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Uncertified {}

impl Prepared {
    /// Proves that what [`Prepared::for_pipeline`] gave for a pipeline on a device stores what the module stores, for all contents of
    /// the data buffers of a case.
    pub fn certify(
        &self,
        device: &Device,
        pipeline: &PipelineOptions,
        lowered: &Lowered,
        options: &ProofOptions,
    ) -> Result<Certificate, Uncertified> {
        let failed = |error: coop_exec::Error| Uncertified::Failed(error.to_string());
        let mut case = Case::parse(&options.case, Path::new("")).map_err(failed)?;
        case.spec.clear();
        for (id, _, bits) in pipeline.specialization.iter() {
            // What the module does not have says nothing.
            case.spec.extend(self.number(id, bits).map(|number| (id.to_string(), number)));
        }
        case.entry = pipeline.entry_point.clone().or(case.entry);
        case.require_subgroups(pipeline.required_subgroup_size).map_err(failed)?;
        let mut asked = case.clone();
        asked.subgroup_size = lowered.requirements.subgroup_size.or(case.subgroup_size);
        asked.full_subgroups |= lowered.requirements.full_subgroups;
        let size = case.subgroup_size.unwrap_or(device.profile().limits.subgroup_size);
        let config = Config { subgroup_size: size, time_limit: options.most_time, ..Config::default() };
        let words = binary::read_words(&lowered.words).map_err(|error| Uncertified::Failed(error.to_string()))?;
        let (arithmetic, fixed) = (options.mode.arithmetic(), options.fixed.clone());
        let asking = Options { arithmetic, seed: options.seed, fixed, explain: true };
        let proof = prove(&Interpreted { config }, (&self.module, &case), (&words, &asked), &asking).map_err(failed)?;
        match &proof.verdict {
            Verdict::Proved => Ok(self.certificate(pipeline, lowered, options, (&case, size, proof))),
            Verdict::Refuted(why) => Err(Uncertified::Refuted(why.clone())),
            Verdict::NotProvable(open) => Err(Uncertified::NotProvable(open.to_string())),
        }
    }

    /// Returns the bits of a specialization constant as a number of its type.
    fn number(&self, id: u32, bits: u64) -> Option<Number> {
        let constants = Constants::new(&self.module, &coop_ir::constant::Specialization::new());
        let all = self.module.globals.iter().map(|r| self.module.inst(*r)).filter(|inst| inst.op.is_spec_literal());
        let ty =
            all.filter(|inst| inst.result.and_then(|r| constants.spec_id(r)) == Some(id)).find_map(|inst| inst.ty)?;
        Some(match Type::of(&self.module, ty)? {
            Type::Bool => Number::Bool(bits != 0),
            Type::Scalar(Scalar::Int { .. }) => Number::Text(format!("{bits:#x}")),
            Type::Scalar(Scalar::Float { width: 32 }) => Number::Float(f32::from_bits(bits as u32).into()),
            Type::Scalar(Scalar::Float { width: 64 }) => Number::Float(f64::from_bits(bits)),
            // Narrow floats have no exact way into a case: a proof is refused rather than about another value.
            _ => Number::Text("a narrow float".into()),
        })
    }

    fn certificate(
        &self,
        pipeline: &PipelineOptions,
        lowered: &Lowered,
        options: &ProofOptions,
        (case, subgroup_size, proof): (&Case, u32, Proof),
    ) -> Certificate {
        let coverage = |blocks: &Blocks| Coverage {
            executed: blocks.executed,
            missed: blocks.missed.iter().map(|id| id.get()).collect(),
        };
        Certificate {
            module: self.hash(),
            lowered: hash::hash_words(&lowered.words),
            case: hash::hash(&[options.case.as_bytes()]),
            specialization: pipeline.specialization.clone(),
            workgroups: case.workgroups,
            subgroup_size,
            mode: options.mode,
            seed: options.seed,
            text: proof.to_string(),
            stored: proof.stored,
            decisions: proof.decisions,
            log2_error: proof.log2_error,
            module_blocks: coverage(&proof.blocks[0]),
            lowered_blocks: coverage(&proof.blocks[1]),
            data: proof.data,
        }
    }
}
