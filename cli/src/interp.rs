//! The reference interpreter on a command line: its options, and its findings as problems to show.

use crate::args::parse_subgroup_size;
use crate::render::{Problem, Renderer};
use clap::{Args, ValueEnum};
use coop_exec::Case;
use coop_exec::interp::{Config, Finding, FindingKind, Interpreted, MulAddMode, Placement, Semantics};
use coop_validate::{Level, Part};

/// The options of the interpreter.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Interpreter")]
pub struct InterpArgs {
    /// The subgroup size that the pipeline requires, where the case does not say it; without both it is the device's, in the
    /// interpreter 32
    #[arg(long, value_name = "N", value_parser = parse_subgroup_size)]
    pub subgroup_size: Option<u32>,
    /// The placement of the elements of a matrix in invocations; all runs the module with each placement
    #[arg(long, value_name = "NAME", value_enum)]
    pub placement: Option<PlacementName>,
    /// The order and rounding of sums of products of float matrices
    #[arg(long, value_name = "NAME", value_enum)]
    pub mul_add: Option<MulAddName>,
    /// The behavior where devices differ from the specifications
    #[arg(long, value_name = "NAME", value_enum)]
    pub semantics: Option<SemanticsName>,
    /// The largest number of instructions that a workgroup may execute [default: 100000000]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
}

/// A placement of elements, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlacementName {
    /// Each invocation holds consecutive elements, row by row (the default)
    BlockedRows,
    /// Neighboring elements in neighboring invocations
    Interleaved,
    /// Every element in two invocations
    Replicated,
    /// In an order without any pattern
    Permuted,
    /// Blocks of 16x16 in pairs of neighbors, as NVIDIA's driver holds them
    Fragments,
    /// One after the other; results that differ are a difference
    All,
}

/// The values of `--mul-add`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MulAddName {
    /// The exact sum, rounded once (the default)
    Exact,
    /// In f32, one product after the other
    Sequential,
    /// The least value that any order and rounding can give
    Lowest,
    /// The greatest such value
    Highest,
}

/// The values of `--semantics`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SemanticsName {
    /// The specifications' (the default)
    Spec,
    /// As observed on an NVIDIA H100
    Nvidia,
}

impl From<MulAddName> for MulAddMode {
    fn from(name: MulAddName) -> MulAddMode {
        match name {
            MulAddName::Exact => MulAddMode::Exact,
            MulAddName::Sequential => MulAddMode::Sequential,
            MulAddName::Lowest => MulAddMode::Lowest,
            MulAddName::Highest => MulAddMode::Highest,
        }
    }
}

impl From<SemanticsName> for Semantics {
    fn from(name: SemanticsName) -> Semantics {
        match name {
            SemanticsName::Spec => Semantics::Spec,
            SemanticsName::Nvidia => Semantics::Nvidia,
        }
    }
}

/// The option's word for a placement.
pub fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::BlockedRows => "blocked-rows",
        Placement::Interleaved => "interleaved",
        Placement::Replicated => "replicated",
        Placement::Permuted => "permuted",
        Placement::Fragments => "fragments",
    }
}

impl InterpArgs {
    /// The options that only the interpreter honors, of those that were given.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--placement", self.placement.is_some()),
            ("--mul-add", self.mul_add.is_some()),
            ("--semantics", self.semantics.is_some()),
            ("--steps", self.steps.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }

    /// Returns true if products are added up exactly.
    pub fn is_exact(&self) -> bool {
        matches!(self.mul_add, None | Some(MulAddName::Exact))
    }

    /// True if it does as an H100 does.
    pub fn is_nvidia(&self) -> bool {
        self.semantics == Some(SemanticsName::Nvidia)
    }

    /// The case with the subgroup size of the options, unless it has one.
    pub fn apply(&self, mut case: Case) -> Case {
        case.subgroup_size = case.subgroup_size.or(self.subgroup_size);
        case
    }

    /// The subgroup size for a case and who says it; `device` is the size of a device that runs the same.
    pub fn subgroup_size(&self, case: &Case, device: Option<u32>) -> (u32, &'static str) {
        match (case.subgroup_size, self.subgroup_size, device) {
            (Some(size), ..) => (size, "the case's"),
            (None, Some(size), _) => (size, "--subgroup-size"),
            (None, None, Some(size)) => (size, "the device's"),
            (None, None, None) => (Config::default().subgroup_size, "the default"),
        }
    }

    /// The interpreters that are asked for: one, or one for each placement.
    pub fn interpreters(&self, subgroup_size: u32) -> Vec<Interpreted> {
        let placements = match self.placement {
            None | Some(PlacementName::BlockedRows) => vec![Placement::BlockedRows],
            Some(PlacementName::Interleaved) => vec![Placement::Interleaved],
            Some(PlacementName::Replicated) => vec![Placement::Replicated],
            Some(PlacementName::Permuted) => vec![Placement::Permuted],
            Some(PlacementName::Fragments) => vec![Placement::Fragments],
            Some(PlacementName::All) => Placement::ALL.to_vec(),
        };
        let mut config = Config {
            subgroup_size,
            mul_add: self.mul_add.map(MulAddMode::from).unwrap_or_default(),
            semantics: self.semantics.map(Semantics::from).unwrap_or_default(),
            ..Config::default()
        };
        config.step_budget = self.steps.unwrap_or(config.step_budget);
        placements.into_iter().map(|placement| Interpreted { config: Config { placement, ..config } }).collect()
    }
}

/// The rule id of a kind of finding.
fn code(kind: FindingKind) -> String {
    format!("run-{kind}")
}

impl From<&Finding> for Problem {
    fn from(finding: &Finding) -> Problem {
        let level = if finding.kind.is_undefined_behaviour() { Level::Error } else { Level::Warning };
        let here = match finding.count {
            1 => "here".to_owned(),
            n => format!("here, {n} times"),
        };
        let mut labels = vec![(finding.at, Part::Whole, here)];
        let mut message = finding.message.clone();
        for (at, note) in &finding.notes {
            match at {
                Some(at) => labels.push((*at, Part::Whole, note.clone())),
                None => message = format!("{message}; {note}"),
            }
        }
        Problem { code: code(finding.kind), level, message, at: finding.at, labels, help: None }
    }
}

/// Findings drawn one after the other.
pub fn draw(mut renderer: Renderer, findings: &[Finding]) -> String {
    findings.iter().map(|finding| renderer.draw(&Problem::from(finding)) + "\n").collect()
}
