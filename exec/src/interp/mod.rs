//! A reference interpreter: runs a compute shader by the specifications, without a GPU.
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
//! - Undefined behavior is reported ([`Finding`]) with how it came to it, and the run goes on with some value.
//!   Undefined values are followed through registers and memory; they are reported where they matter: when they
//!   decide a branch, are an address or a uniform operand, or are written to a buffer.
//! - What can't be run is an error that names the instruction, when it is reached; never a guess.
//!
//! A run has two steps. `program` and the files `translate_*` make a `Program` of a module: instructions on rows of the
//! register file (`code`). `machine` runs it, with an `impl Machine` for each kind of instruction: `memory`, `subgroup`,
//! `matrix`, `muladd`, `callback`. Instructions on registers alone are in `eval` (`eval_lane`, `glsl_std_450`); constants are
//! computed with them too. `error_bound` and `taint` say how far another implementation may be from each value; `symbolic`
//! what each value is for all contents of the data buffers.

mod buffer_race;
mod callback;
mod code;
mod control_slice;
mod coverage;
mod error_bound;
mod eval;
mod eval_lane;
mod executor;
mod findings;
mod glsl_std_450;
mod location;
mod loop_counts;
mod machine;
mod matrix;
mod memory;
mod memory_bounds;
mod muladd;
mod num;
mod placement;
mod program;
mod promised_reconvergence;
mod registers;
mod shared_race;
mod subgroup;
mod symbolic;
mod taint;
mod tensor;
#[cfg(test)]
mod tests;
mod translate_extended;
mod translate_function;
mod translate_matrix;
mod translate_values;
mod types;

pub(crate) use callback::FREE_ORDER;
pub use coverage::Coverage;
pub use error_bound::{ErrorBound, ErrorBounds};
pub use executor::Interpreted;
pub use findings::{Finding, FindingKind};
pub use loop_counts::{Contents, LoopCount, LoopCounts, Operations};
pub use placement::Placement;
pub use symbolic::{
    Agreement, Arithmetic, Blocks, Decisions, Elements, ExpressionDifference, Fingerprints, Mismatch, Symbolic,
};

use coop_ir::spv::ExecutionModel;
use std::time::Duration;

use coop_ir::constant::Specialization;
use coop_ir::{InstRef, Module, Op};

use crate::error::Error;
use loop_counts::BlockCounts;
use machine::{Machine, Stop};
use program::{Program, Translator};
use symbolic::Symbols;

/// The behavior where implementations are known to differ from the specifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Semantics {
    /// That of the specifications.
    #[default]
    Spec,
    /// That of an NVIDIA H100.
    Nvidia,
}

/// The summation of the products of float matrices, which specifications leave open.
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

/// The points at which diverged invocations reconverge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reconvergence {
    /// As early as they can be.
    #[default]
    Early,
    /// At merge blocks and after calls only, as SPIR-V guarantees. Diverged invocations take turns in a random order
    /// that this seed determines. Without merge instructions they stay apart to the end of the function.
    Promised(u64),
}

/// The options of the interpreter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Invocations in a subgroup.
    pub subgroup_size: u32,
    /// The placement of the elements of matrices.
    pub placement: Placement,
    /// The order and the rounding of sums of products.
    pub mul_add: MulAddMode,
    /// The behavior where implementations differ from the specifications.
    pub semantics: Semantics,
    /// True if tensor loads call the vector form of a decode function where there is one.
    pub vector_decode: bool,
    /// True to derive error bounds of the results.
    pub error_bounds: bool,
    /// The largest number of instructions that a workgroup may execute.
    pub step_budget: u64,
    /// The time limit of a run.
    pub time_limit: Option<Duration>,
    /// The workgroup size of modules that leave it to the host.
    pub local_size: Option<[u32; 3]>,
    /// The sizes in bytes of the workgroup memory that a kernel's pointer arguments point to, in order.
    pub local_memory: [u32; 4],
    /// The points at which diverged invocations reconverge.
    pub reconvergence: Reconvergence,
    /// True if the run records which invocations execute which instructions.
    pub coverage: bool,
    /// The seed of values that another agent keeps writing to the buffers that `Volatile` loads read. `None` if no
    /// other agent does.
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
            error_bounds: false,
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
    /// The name in findings.
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

/// The report of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The findings, in the order of their first occurrence.
    pub findings: Vec<Finding>,
    /// Executed instructions, each counted once for all invocations that execute it together.
    pub steps: u64,
    /// The error bounds of the results, where [`Config::error_bounds`] asked for them.
    pub error_bounds: Option<ErrorBounds>,
    /// The sets of invocations that executed each instruction, where [`Config::coverage`] asked for them.
    pub coverage: Option<Coverage>,
}

impl Report {
    /// Returns true if the run had undefined behavior.
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

    /// Runs the entry point. A kernel's arguments are taken from `push`, each aligned for its type. If `push` has no
    /// room for addresses, they are the buffers in order.
    pub fn run(&self, buffers: &mut [Memory], push: &[u8], workgroups: [u32; 3]) -> Result<Report, Error> {
        self.run_with(buffers, push, workgroups, None).map(|(report, _)| report)
    }

    /// Runs the entry point for all contents of its data buffers; `buffers` have the contents that decide branches and
    /// addresses where data does.
    pub fn run_symbolic(
        &self,
        mut buffers: Vec<Memory>,
        push: &[u8],
        workgroups: [u32; 3],
        options: &Symbolic,
    ) -> Result<(Report, Fingerprints), Error> {
        let symbols = Box::new(Symbols::new(options));
        let (report, symbols) = self.run_with(&mut buffers, push, workgroups, Some(symbols))?;
        let symbols = symbols.unwrap_or_else(|| Box::new(Symbols::new(options)));
        Ok((report, Fingerprints::new(symbols, buffers, self.module)))
    }

    fn run_with(
        &self,
        buffers: &mut [Memory],
        push: &[u8],
        workgroups: [u32; 3],
        symbols: Option<Box<Symbols>>,
    ) -> Result<(Report, Option<Box<Symbols>>), Error> {
        let mut machine = self.machine(buffers, push)?;
        machine.regs.symbols = symbols;
        self.dispatch(&mut machine, workgroups)?;
        let error_bounds = self.config.error_bounds.then(|| machine.memory_bounds.error_bounds(machine.buffers.len()));
        let mut symbols = machine.regs.symbols.take();
        if let Some(symbols) = &mut symbols {
            symbols.depends = machine.memory_bounds.depends.take().map(|(_, why)| why);
        }
        let report =
            Report { findings: machine.findings.list, steps: machine.steps, error_bounds, coverage: machine.coverage };
        Ok((report, symbols))
    }

    /// Runs the entry point and counts how often subgroups execute its blocks.
    fn block_counts(&self, buffers: &mut [Memory], push: &[u8], workgroups: [u32; 3]) -> Result<BlockCounts, Error> {
        let mut machine = self.machine(buffers, push)?;
        machine.blocks = Some(BlockCounts::default());
        if !self.dispatch(&mut machine, workgroups)? {
            return Err(unsupported(format!("its control flow takes more than {} steps", self.config.step_budget)));
        }
        if let Some(finding) = machine.findings.list.iter().find(|finding| finding.kind.is_undefined_behaviour()) {
            return Err(unsupported(format!("its control flow is undefined: {finding}")));
        }
        Ok(machine.blocks.unwrap_or_default())
    }

    fn machine<'a>(&'a self, buffers: &'a mut [Memory], push: &[u8]) -> Result<Machine<'a>, Error> {
        for b in &self.program.bindings {
            if !buffers.iter().any(|m| m.slot == Some((b.set, b.binding))) {
                let name = findings::name_of(self.module, b.id);
                return Err(Error::case(format!("set {}, binding {} ({name}) has no buffer", b.set, b.binding)));
            }
        }
        if buffers.len() >= PUSH_INDEX {
            return Err(Error::case(format!("{} buffers are too many", buffers.len())));
        }
        Ok(Machine::new(self.module, &self.program, self.config, buffers, push))
    }

    /// Runs every workgroup. Returns false if the budget ended the run.
    fn dispatch(&self, machine: &mut Machine<'_>, workgroups: [u32; 3]) -> Result<bool, Error> {
        match machine.dispatch(workgroups) {
            Ok(()) => Ok(true),
            Err(Stop::Budget) => Ok(false),
            Err(Stop::Unsupported(why)) => Err(unsupported(why)),
            Err(Stop::Time) => {
                let seconds = self.config.time_limit.unwrap_or_default().as_secs_f64();
                let all = workgroups.into_iter().map(u128::from).product();
                Err(Error::Timeout { seconds, workgroups: Some((machine.ended, all)) })
            }
        }
    }

    /// Returns the instructions that can't be run if they are reached, and why.
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

    /// Returns the workgroup size in x, y and z.
    pub fn local_size(&self) -> [u32; 3] {
        self.program.local_size
    }
}

fn unsupported(why: String) -> Error {
    Error::Unsupported { device: DEVICE.into(), missing: vec![why] }
}

/// Returns the compute entry point of a name.
fn find_entry(module: &Module, name: Option<&str>) -> Result<coop_ir::Id, Error> {
    let entries: Vec<(coop_ir::Id, String)> = module
        .globals_with(Op::EntryPoint)
        .map(|r| module.inst(r))
        // GLCompute and Kernel.
        .filter(|i| matches!(i.enumerant(0), Some(ExecutionModel::GLCompute | ExecutionModel::Kernel)))
        .filter_map(|i| Some((i.id(1)?, i.string(2)?.0)))
        .collect();
    let names = || entries.iter().map(|e| format!("'{}'", e.1)).collect::<Vec<_>>().join(", ");
    match (name, entries.as_slice()) {
        (_, []) => Err(Error::module("there is no compute entry point")),
        (None, [one]) => Ok(one.0),
        (None, _) => Err(Error::case(format!(
            "the module has several entry points, name one (--entry, or entry of the case): {}",
            names()
        ))),
        (Some(name), _) => entries
            .iter()
            .find(|e| e.1 == name)
            .map(|e| e.0)
            .ok_or_else(|| Error::case(format!("the module has no compute entry point '{name}', only {}", names()))),
    }
}
