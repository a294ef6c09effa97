//! `cooprun prove`: lower, run symbolically, compare.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coop_exec::Case;
use coop_exec::interp::Arithmetic;
use coop_exec::proof::{self, Proof, Verdict};
use coop_ir::Module;

use super::verify::{self, LanesName};
use super::{CaseArgs, Failure, cover, json, print};
use crate::args::{OutputStyle, ProfileArgs, TargetArg};
use crate::interp::InterpArgs;
use crate::{Status, io, progress};

#[derive(Args, Debug)]
pub(super) struct Prove {
    /// The module
    module: PathBuf,
    /// The target of the lowering
    #[arg(long, value_enum, default_value_t)]
    target: TargetArg,
    /// The lanes of a matrix: invocations of a subgroup, or consecutive invocations of the workgroup
    #[arg(long, value_enum, default_value_t)]
    lanes: LanesName,
    /// The lowered module, instead of lowering: any module that should store the same
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "lanes", "profile"])]
    lowered: Option<PathBuf>,
    #[command(flatten)]
    case: CaseArgs,
    /// The profile to lower for: a built-in name, or a file
    #[arg(long, value_name = "NAME|FILE.json")]
    profile: Option<String>,
    /// The meaning of float arithmetic
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    mode: ModeName,
    /// A buffer whose contents are those of the case only, such as one with sizes or indices; can be given several times
    #[arg(long, value_name = "NAME")]
    fixed: Vec<String>,
    /// The seed of the values that stand for data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Look for more cases in which blocks are executed that this one leaves out: other specializations, push constants and
    /// dispatches. Prove the lowering with each, and say what keeps control from the blocks that are left
    #[arg(long, conflicts_with = "lowered")]
    cover: bool,
    /// The most cases that --cover tries
    #[arg(long, value_name = "N", default_value_t = 60, requires = "cover")]
    most_cases: usize,
    #[command(flatten)]
    interp: InterpArgs,
}

/// The values of `--mode`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ModeName {
    /// Real numbers: nothing rounds
    #[default]
    Reals,
    /// Real numbers, rounded where a conversion goes to fewer values
    Rounding,
    /// Each operation rounds in its own way
    Strict,
}

impl From<ModeName> for Arithmetic {
    fn from(name: ModeName) -> Arithmetic {
        match name {
            ModeName::Reals => Arithmetic::Reals,
            ModeName::Rounding => Arithmetic::Rounding,
            ModeName::Strict => Arithmetic::Strict,
        }
    }
}

impl Prove {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        progress::end_on_interrupt().map_err(Failure::Usage)?;
        let original = io::load(&self.module)?;
        let case = self.interp.apply(self.case.load()?);
        let options = self.case.options(0)?;
        let profile = ProfileArgs { profile: self.profile.clone(), ..ProfileArgs::default() }.named()?;
        let device = profile.as_ref().map(|profile| profile.limits.subgroup_size);
        let (size, _) = self.interp.subgroup_size(&case, device);
        let interpreters = self.interp.interpreters(size);
        let [interpreted] = interpreters.as_slice() else {
            return Err(Failure::Usage("--placement all: a proof is made with one placement".into()));
        };
        let interpreted = interpreted.within(options.timeout);
        let asking =
            proof::Options { arithmetic: self.mode.into(), seed: self.seed, fixed: self.fixed.clone(), explain: true };
        let module = &original.module;
        let of = |case: &Case| -> Result<(Module, Proof), Failure> {
            let (lowered, asked) = match &self.lowered {
                Some(path) => (io::load(path)?.module, case.clone()),
                None => {
                    let lowered = verify::lower(module, case, self.target, self.lanes, profile.as_ref(), &self.interp)?;
                    (verify::as_written(&lowered.module)?, verify::asked(case, &lowered.report))
                }
            };
            let proof = proof::prove(&interpreted, (module, case), (&lowered, &asked), &asking)?;
            Ok((lowered, proof))
        };
        let (lowered, proof) = of(&case)?;
        let covered = if self.cover && proof.is_proved() {
            // Another case may be none of the module's: it has a constant or a size that the module does not take.
            let again = |case: &Case| Ok(of(case).ok());
            Some(cover::cover(&interpreted, module, (&case, &lowered, &proof), self.most_cases, &again)?)
        } else {
            None
        };
        let refuted = covered.as_ref().and_then(cover::Covered::refuted);
        let status = status(refuted.unwrap_or(&proof));
        if self.case.json {
            let mut json = json::proof(&proof, &case);
            if let Some(covered) = &covered {
                json["cover"] = json::covered(covered, &case);
            }
            print(&json.to_string());
        } else if style.quiet == 0 || status != Status::Success {
            let more = covered.map(|covered| format!("\n{}", covered.text())).unwrap_or_default();
            print(&format!("{proof}{more}"));
        }
        Ok(status)
    }
}

/// Returns the exit status of a proof.
fn status(proof: &Proof) -> Status {
    match proof.verdict {
        Verdict::Proved => Status::Success,
        Verdict::Refuted(_) => Status::Findings,
        Verdict::NotProvable(_) => Status::Refused,
    }
}
