//! Is a module well formed as IR? To be asked after every pass, in tests and under `--verify-each`.
//!
//! This is not a SPIR-V validator: it knows nothing of capabilities, storage rules, Vulkan or what an operation asks of
//! its operands. It checks what every analysis and pass here takes for granted, and accepts every valid module:
//!
//!  1. Each id has one definition, which is listed and which [`Module::def`] gives; ids are below the bound; no
//!     instruction is listed twice.
//!  2. Every id that is used is defined. An id among the words of an instruction with an unknown opcode may be defined by
//!     it, for its function if it is in one; an instruction with a known opcode defines its result only, whatever surplus
//!     words it has.
//!  3. Globals are defined before they are used. Entry points, those of graphs too, execution modes, names and decorations may refer to
//!     what follows, types to a pointer type that `OpTypeForwardPointer` has named, and functions to one another.
//!  4. In a function, a definition dominates its uses; a use by `OpPhi` counts as one at the end of the block that the
//!     value comes from. Nothing but names and decorations uses an id of another function.
//!  5. A function is `OpFunction`, parameters, blocks, `OpFunctionEnd`; a block is a label, then instructions of which
//!     the last and only the last is a terminator.
//!  6. Each `OpPhi` comes before everything but phis; each `OpVariable` of a function is in the entry block, before
//!     everything but variables. Source positions and non-semantic instructions don't count.
//!  7. An `OpPhi` has one value for each predecessor of its block, and no other.
//!  8. Branches and merges name labels of their function, branches other ones than the entry block's; only they and
//!     `OpPhi` name labels. A merge
//!     instruction stands before the branch that it is about. A block comes before those that it dominates.
//!  9. Result type, result and operands are those that the grammar asks for: none is missing, and ids are ids and
//!     words are words, but in what is beyond the grammar, which is marked as opaque.
//! 10. An instruction has at most 65535 words.
//! 11. Globals are in the order of SPIR-V's sections, and what belongs into functions is in functions. Behind the functions are
//!     graphs (SPV_ARM_graph) only.
//! 12. Result types are types, and so are the elements and members of types; columns of matrices are vectors. Integers are
//!     signed or not.
//! 13. Function types, parameters, calls and returns agree.
//! 14. `OpTypeForwardPointer` names a pointer type; so types are recursive through pointers only, as 3 allows no other
//!     way.
//! 15. The function of an entry point is an `OpFunction`; its interface consists of global variables, since SPIR-V 1.4 each once.
//!     Execution modes name functions of entry points.
//! 16. The values of an `OpPhi`, what an `OpLoad` reads and an `OpStore` writes, what an `OpSelect` chooses between, what an
//!     `OpCopyObject` copies, the initializer of an `OpVariable`, whose type is a pointer, the parts of `OpCompositeExtract` and
//!     `OpCompositeInsert`, what is multiplied by a scalar, and the values of atomic operations have the type that they
//!     must. Operands are values where the grammar asks for such: not types, functions, strings, sets of instructions,
//!     calls that give nothing. Indices are integers. A conversion gives as many numbers as it takes, and so does what is
//!     computed by component.
//! 17. There is one `OpMemoryModel`.

mod blocks;
mod functions;
mod globals;
mod ids;
mod operands;
mod quick;
mod values;

use crate::binary;
use crate::cfg::{Cfg, Cfgs};
use crate::effects::ExtSet;
use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Id, IdMap, Inst, InstRef, Module};
use std::fmt;

/// A violation of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The instruction, if it is about one.
    pub inst: Option<InstRef>,
    /// Which of the numbered checks failed.
    pub check: u8,
    /// The message, which names the instruction and the ids.
    pub message: String,
}

impl Problem {
    /// Returns true if it is about the types of calls and returns, phis, loads, stores and selections.
    pub fn is_about_types(&self) -> bool {
        matches!(self.check, 13 | 16)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (check {})", self.message, self.check)
    }
}

/// Checks a module; returns all problems, in the order of the checks' passes over the module. What the reader has checked of one
/// that has not changed since is not checked again.
pub fn verify(module: &Module) -> Result<(), Vec<Problem>> {
    let changed = !module.is_as_read();
    if quick::fine(module).is_some() {
        let mut v = Verifier::unindexed(module);
        if changed {
            v.operands();
        }
        v.types();
        if v.problems.is_empty() {
            return Ok(());
        }
    }
    check(module, changed)
}

/// Reads words, and checks the module that they are, as [`verify`] does. It takes three fifths of the instructions that [`verify`] takes
/// for a module that passes have changed, and it checks what is handed out.
pub fn verify_words(words: &[u32]) -> Result<(), Vec<Problem>> {
    let unreadable = |error: binary::ReadError| vec![Problem { inst: None, check: 9, message: error.to_string() }];
    let module = &binary::read_words(words).map_err(unreadable)?;
    if quick::fine(module).is_some() {
        let mut v = Verifier::unindexed(module);
        v.types();
        if v.problems.is_empty() {
            return Ok(());
        }
    }
    check(module, false)
}

/// Like [`verify`], for a module that [`crate::binary::read`] returned and that has not changed since: the checks that
/// the reader has done are left out (9, 10, and ids beyond the bound), and so are those of the types of values, 13 and
/// 16. Returns the graphs that it made, if it made all of them.
pub fn verify_read(module: &Module) -> Result<Cfgs, Vec<Problem>> {
    if let Some(graphs) = quick::fine(module) {
        return Ok(Cfgs::of(module, graphs));
    }
    let Err(mut problems) = check(module, false) else { return Ok(Cfgs::default()) };
    problems.retain(|p| !matches!(p.check, 13 | 16));
    if problems.is_empty() { Ok(Cfgs::default()) } else { Err(problems) }
}

/// Checks the types of values in a module of which [`verify_read`] finds nothing: 13 and 16, which it leaves out.
pub fn verify_types(module: &Module) -> Vec<Problem> {
    let mut v = Verifier::unindexed(module);
    v.types();
    v.problems
}

fn check(module: &Module, all: bool) -> Result<(), Vec<Problem>> {
    let mut v = Verifier::new(module);
    if all {
        v.operands();
    }
    v.globals();
    let cfgs: Vec<Cfg> = module.functions.iter().map(|f| Cfg::new(module, f)).collect();
    for (function, cfg) in module.functions.iter().zip(&cfgs) {
        v.function(function);
        v.blocks(function, cfg);
        v.values(function);
    }
    v.operands_are_values();
    v.uses(&cfgs);
    v.memory_models();
    if v.problems.is_empty() { Ok(()) } else { Err(v.problems) }
}

/// No function, or no block. Not an `Option`, since there is a [`Position`] for every id.
const NOWHERE: u32 = u32::MAX;

/// The position of an instruction.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Running number in file order.
    at: u32,
    /// The function whose body it is in; [`NOWHERE`] for globals and `OpFunction` itself.
    function: u32,
    /// The block; [`NOWHERE`] for parameters.
    block: u32,
    what: DefKind,
}

/// The kind of a definition, as far as its uses depend on it: stored here, since the instruction itself is far away in
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DefKind {
    Function,
    Label,
    Other,
}

impl Position {
    fn new(op: Op, at: u32, function: Option<u32>, block: Option<u32>) -> Position {
        let what = match op {
            Op::Function => DefKind::Function,
            Op::Label => DefKind::Label,
            _ => DefKind::Other,
        };
        Position { at, function: function.unwrap_or(NOWHERE), block: block.unwrap_or(NOWHERE), what }
    }

    fn function(self) -> Option<u32> {
        Some(self.function).filter(|f| *f != NOWHERE)
    }

    fn block(self) -> Option<u32> {
        Some(self.block).filter(|b| *b != NOWHERE)
    }
}

struct Verifier<'a> {
    module: &'a Module,
    problems: Vec<Problem>,
    /// The first listed definition of each id, if the verifier is indexed.
    places: IdMap<Position>,
    /// The ids that instructions with unknown opcodes may define, each with the function that has the instruction; [`NOWHERE`] if
    /// none has, or several.
    maybe: FxHashMap<Id, u32>,
    /// The functions of entry points.
    entries: Vec<Id>,
}

impl<'a> Verifier<'a> {
    fn new(module: &'a Module) -> Verifier<'a> {
        let mut v = Verifier::unindexed(module);
        v.index();
        v
    }

    /// A verifier for checks 9, 10, 13 and 16, which need no positions.
    fn unindexed(module: &'a Module) -> Verifier<'a> {
        Verifier {
            module,
            problems: Vec::new(),
            places: module.id_map(),
            maybe: FxHashMap::default(),
            entries: Vec::new(),
        }
    }

    /// Checks 13 and 16.
    fn types(&mut self) {
        for function in &self.module.functions {
            self.signature(function);
            self.values(function);
        }
        self.operands_are_values();
    }

    fn problem(&mut self, check: u8, inst: InstRef, what: impl fmt::Display) {
        let message = format!("{}: {what}", DisplayInst(self.module.inst(inst)));
        self.problems.push(Problem { inst: Some(inst), check, message });
    }

    /// Returns the instruction that defines an id. Check 1 is about what the module's table of definitions has.
    fn def(&self, id: Id) -> Option<&'a Inst> {
        self.module.def_inst(id)
    }

    /// Returns true if an instruction is not executed, so that it may stand where order matters.
    fn is_aside(&self, inst: &Inst) -> bool {
        match inst.op {
            op if op.is_line() => true,
            Op::ExtInst | Op::ExtInstWithForwardRefsKHR => inst.opaque || ExtSet::of(self.module, inst) == ExtSet::Note,
            op => op.info().is_none(),
        }
    }
}

/// An instruction in a message.
struct DisplayInst<'a>(&'a Inst);

impl fmt::Display for DisplayInst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.result {
            Some(id) => write!(f, "{} {id}", self.0.op),
            None => write!(f, "{}", self.0.op),
        }
    }
}
