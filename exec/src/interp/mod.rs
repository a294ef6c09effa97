//! A reference interpreter: runs a compute shader as the specifications say, without a GPU.
//!
//! It shares nothing with the lowerings, so that it can judge them. Cooperative matrices are executed natively, in
//! every dialect. What is true of a run:
//!
//! - Workgroups run one after the other; the invocations of one in lock step by block, with reconvergence at merge
//!   blocks (see `order`; [`Reconvergence`] has another way). Subgroups are consecutive invocations.
//! - Every instruction rounds once, in the type's precision, to the nearest even. Where the texts leave a choice,
//!   [`Semantics`] and [`MulAddMode`] make it.
//! - Which invocation holds which element of a matrix is a parameter, [`Placement`]: a shader whose result changes
//!   with it is wrong.
//! - Undefined behaviour is reported ([`Finding`]) with how it came to it, and the run goes on with some value.
//!   Undefined values are followed through registers and memory; they are reported where they matter: when they
//!   decide a branch, are an address or a uniform operand, or are written to a buffer.
//! - What can't be run is an error that names the instruction, when it is reached; never a guess.

mod access;
mod adapter;
mod apart;
mod arith;
mod buffer_race;
mod callback;
mod code;
mod coop;
mod coverage;
mod extended;
mod function;
mod glsl;
mod group;
mod lane;
mod machine;
mod matrix;
mod muladd;
mod num;
mod place;
mod program;
mod pure;
mod race;
mod regs;
mod shade;
mod spread;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod ub;

pub use adapter::Interpreted;
pub use coverage::Coverage;
pub use place::Placement;
pub use spread::{Distance, Spread};
pub use ub::{Finding, FindingKind};

use coop_ir::spv::ExecutionModel;
use std::time::Duration;

use coop_ir::constant::Specialization;
use coop_ir::{InstRef, Module, Op};

use crate::error::Error;
use machine::{Machine, Stop};
use program::{Program, Translator};

/// What is done where implementations are known to differ from the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Semantics {
    /// As the specifications say.
    #[default]
    Spec,
    /// As was observed on an NVIDIA H100.
    Nvidia,
}

/// How the products of a multiplication of float matrices are added up; specifications leave that open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MulAddMode {
    /// The exact sum, rounded once.
    #[default]
    Exact,
    /// In f32, one product after the other, beginning with C.
    Sequential,
    /// The least value that any order and any rounding of the steps can give.
    Lowest,
    /// The greatest such value.
    Highest,
}

/// When invocations that parted are together again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reconvergence {
    /// As early as they can be.
    #[default]
    Early,
    /// At merge blocks and behind calls only, as SPIR-V promises, and those that are apart take turns in an order that
    /// follows from this number. Without merge instructions they stay apart to the end of the function.
    Promised(u64),
}

/// How to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Invocations in a subgroup.
    pub subgroup_size: u32,
    /// Where the elements of matrices are.
    pub placement: Placement,
    /// How products are added up.
    pub mul_add: MulAddMode,
    /// What counts where implementations differ from the text.
    pub semantics: Semantics,
    /// True if tensor loads call the vector form of a decode function where there is one.
    pub vector_decode: bool,
    /// True if the run finds out how far another implementation's results may be away.
    pub spread: bool,
    /// How many instructions a workgroup may execute.
    pub step_budget: u64,
    /// How long a run may take; without it, as long as it takes.
    pub time_limit: Option<Duration>,
    /// The size of a workgroup, where the module leaves it to the host.
    pub local_size: Option<[u32; 3]>,
    /// Bytes behind a kernel's arguments that point to workgroup memory, in order.
    pub local_memory: [u32; 4],
    /// When invocations that parted are together again.
    pub reconvergence: Reconvergence,
    /// True if the run records which invocations execute which instructions.
    pub coverage: bool,
    /// From which numbers are made that somebody else writes, again and again, where buffers are read by loads that are
    /// `Volatile`. `None`: nobody does.
    pub others: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            subgroup_size: 32,
            placement: Placement::default(),
            mul_add: MulAddMode::default(),
            semantics: Semantics::default(),
            vector_decode: false,
            spread: false,
            step_budget: 100_000_000,
            time_limit: None,
            local_size: None,
            local_memory: [0; 4],
            reconvergence: Reconvergence::default(),
            coverage: false,
            others: None,
        }
    }
}

/// A buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    /// What findings call it.
    pub name: String,
    /// Descriptor set and binding; without them the buffer is reached by its address only.
    pub slot: Option<(u32, u32)>,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// Push constants have an address too.
const PUSH_INDEX: usize = 0x4000;

/// The device address of the buffer at `index` in the list given to [`Interpreter::run`].
pub fn base_address(index: usize) -> u64 {
    // Far from each other, so that whatever runs out of one buffer is nowhere.
    ((index as u64).wrapping_add(1) << 40) + (1 << 39)
}

/// What a run found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// In the order in which they happened first.
    pub findings: Vec<Finding>,
    /// Executed instructions, each counted once for all invocations that execute it together.
    pub steps: u64,
    /// How far another implementation's results may be away, where [`Config::spread`] asked.
    pub spread: Option<Spread>,
    /// Who executed which instructions, where [`Config::coverage`] asked.
    pub coverage: Option<Coverage>,
}

impl Report {
    /// Returns true if the run had undefined behaviour.
    pub fn is_undefined(&self) -> bool {
        self.findings.iter().any(|f| f.kind.is_undefined_behaviour())
    }
}

/// A module prepared for running.
pub struct Interpreter<'m> {
    module: &'m Module,
    program: Program,
    config: Config,
}

/// The name of the device in messages and outcomes.
pub const DEVICE: &str = "interpreter";

impl<'m> Interpreter<'m> {
    /// Prepares an entry point (the only one, if no name is given).
    pub fn new(
        module: &'m Module,
        entry: Option<&str>,
        specialization: &'m Specialization,
        config: Config,
    ) -> Result<Interpreter<'m>, Error> {
        let entry = find_entry(module, entry)?;
        let translator = Translator::new(module, specialization, config);
        let program = translator.run(entry).map_err(unsupported)?;
        Ok(Interpreter { module, program, config })
    }

    /// Runs it. A kernel's arguments are taken from `push`, one after the other as their types are aligned. If that has no
    /// room for addresses, they are the buffers in order.
    pub fn run(&self, buffers: &mut [Memory], push: &[u8], workgroups: [u32; 3]) -> Result<Report, Error> {
        for b in &self.program.bindings {
            if !buffers.iter().any(|m| m.slot == Some((b.set, b.binding))) {
                let name = ub::name_of(self.module, b.id);
                return Err(Error::case(format!("set {}, binding {} ({name}) has no buffer", b.set, b.binding)));
            }
        }
        if buffers.len() >= PUSH_INDEX {
            return Err(Error::case(format!("{} buffers are too many", buffers.len())));
        }
        let mut machine = Machine::new(self.module, &self.program, self.config, buffers, push);
        match machine.dispatch(workgroups) {
            Ok(()) | Err(Stop::Budget) => {
                let spread = self.config.spread.then(|| machine.afar.spread(machine.buffers.len()));
                Ok(Report { findings: machine.findings.list, steps: machine.steps, spread, coverage: machine.coverage })
            }
            Err(Stop::Unsupported(why)) => Err(unsupported(why)),
            Err(Stop::Time) => {
                let seconds = self.config.time_limit.unwrap_or_default().as_secs_f64();
                let all = workgroups.into_iter().map(u128::from).product();
                Err(Error::Timeout { seconds, workgroups: Some((machine.ended, all)) })
            }
        }
    }

    /// What can't be run, if it is reached: instructions and why.
    pub fn unsupported(&self) -> Vec<(Option<InstRef>, String)> {
        let mut all = Vec::new();
        for f in &self.program.functions {
            all.extend(f.fail.iter().map(|why| (None, why.clone())));
            for (ins, at) in f.code.iter().zip(&f.at) {
                if let code::Ins::Fail(why) = ins {
                    all.push((Some(*at), why.to_string()));
                }
            }
        }
        all
    }

    /// Invocations in x, y and z.
    pub fn local_size(&self) -> [u32; 3] {
        self.program.local_size
    }
}

fn unsupported(why: String) -> Error {
    Error::Unsupported { device: DEVICE.into(), missing: vec![why] }
}

/// The compute entry point of a name.
fn find_entry(module: &Module, name: Option<&str>) -> Result<coop_ir::Id, Error> {
    let entries: Vec<(coop_ir::Id, String)> = module
        .globals_with(Op::EntryPoint)
        .map(|r| module.inst(r))
        // GLCompute and Kernel.
        .filter(|i| matches!(i.enumerant(0), Some(ExecutionModel::GLCompute | ExecutionModel::Kernel)))
        .filter_map(|i| Some((i.id(1)?, i.string(2)?.0)))
        .collect();
    match (name, entries.as_slice()) {
        (_, []) => Err(Error::module("there is no compute entry point")),
        (None, [one]) => Ok(one.0),
        (None, _) => Err(Error::case("the module has several entry points, say which")),
        (Some(name), _) => entries
            .iter()
            .find(|e| e.1 == name)
            .map(|e| e.0)
            .ok_or_else(|| Error::case(format!("the module has no compute entry point '{name}'"))),
    }
}
