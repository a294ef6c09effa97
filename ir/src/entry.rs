//! Entry points, their execution modes, and the call graph.

use crate::cfg::Graph;
use crate::constant::{Const, Constants};
use crate::decorate::Decorations;
use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Function, Id, IdSet, Inst, InstRef, Module, Operand};
use crate::spv::{BuiltIn, ExecutionMode, ExecutionModel};

/// One dimension of a workgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A literal of `LocalSize`.
    Literal(u32),
    /// A constant, which may be specializable.
    Constant(Id),
}

/// The origin of a workgroup size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeSource {
    /// `OpExecutionMode LocalSize`.
    LocalSize,
    /// `OpExecutionModeId LocalSizeId`.
    LocalSizeId,
    /// A constant decorated with `WorkgroupSize`, which overrides the modes.
    BuiltIn,
}

/// A workgroup size of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkgroupSize {
    /// x, y and z.
    pub extents: [Extent; 3],
    /// Its origin.
    pub source: SizeSource,
    /// The mode, or the instruction that makes the constant.
    pub at: InstRef,
}

impl WorkgroupSize {
    /// Returns the sizes as far as they are known.
    pub fn values(&self, constants: &Constants) -> [Const; 3] {
        self.extents.map(|e| match e {
            Extent::Literal(n) => Const::Fixed(u64::from(n)),
            Extent::Constant(id) => constants.get(id),
        })
    }
}

/// An `OpExecutionMode` or `OpExecutionModeId`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// The instruction; its operands from the third on are those of the mode.
    pub at: InstRef,
    /// The Execution Mode.
    pub mode: ExecutionMode,
}

/// An entry point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryPoint {
    /// The `OpEntryPoint`.
    pub at: InstRef,
    /// The Execution Model.
    pub model: ExecutionModel,
    /// The function, which need not exist.
    pub function: Id,
    /// The name.
    pub name: String,
    /// The variables of its interface.
    pub interface: Vec<Id>,
    /// The workgroup size, if it is specified.
    pub workgroup_size: Option<WorkgroupSize>,
    /// All its modes, in file order.
    pub modes: Vec<Mode>,
}

impl EntryPoint {
    /// Returns true if its invocations form workgroups.
    pub fn has_workgroups(&self) -> bool {
        matches!(
            self.model,
            ExecutionModel::GLCompute
                | ExecutionModel::Kernel
                | ExecutionModel::TaskNV
                | ExecutionModel::MeshNV
                | ExecutionModel::TaskEXT
                | ExecutionModel::MeshEXT
        )
    }

    /// Returns the first mode of this kind.
    pub fn mode(&self, mode: ExecutionMode) -> Option<Mode> {
        self.modes.iter().copied().find(|m| m.mode == mode)
    }

    /// Returns the workgroup size of an execution mode, which a built-in overrides.
    pub fn size_of_modes(&self, module: &Module) -> Option<WorkgroupSize> {
        self.modes.iter().find_map(|m| mode_size(module, *m))
    }
}

/// Returns the entry points of a module, in file order.
pub fn entry_points(module: &Module, decorations: &Decorations) -> Vec<EntryPoint> {
    let mut modes: FxHashMap<Id, Vec<Mode>> = FxHashMap::default();
    for &r in &module.globals {
        let inst = module.inst(r);
        if matches!(inst.op, Op::ExecutionMode | Op::ExecutionModeId)
            && let (Some(function), Some(mode)) = (inst.id(0), inst.enumerant(1))
        {
            modes.entry(function).or_default().push(Mode { at: r, mode });
        }
    }
    let built_in = built_in_size(module, decorations);
    module
        .globals_with(Op::EntryPoint)
        .filter_map(|at| {
            let inst = module.inst(at);
            let (name, rest) = inst.string(2)?;
            let function = inst.id(1)?;
            let modes = modes.get(&function).cloned().unwrap_or_default();
            let workgroup_size = built_in.or_else(|| modes.iter().find_map(|m| mode_size(module, *m)));
            let interface = inst.ids_from(rest).collect();
            Some(EntryPoint { at, model: inst.enumerant(0)?, function, name, interface, workgroup_size, modes })
        })
        .collect()
}

fn extents(inst: &Inst, from: usize) -> Option<[Extent; 3]> {
    let extent = |i| {
        inst.operands.get(from + i).map(|o| match *o {
            Operand::Id(id) => Extent::Constant(id),
            Operand::Word(n) => Extent::Literal(n),
        })
    };
    Some([extent(0)?, extent(1)?, extent(2)?])
}

fn built_in_size(module: &Module, decorations: &Decorations) -> Option<WorkgroupSize> {
    let sizes = decorations.with_built_in(BuiltIn::WorkgroupSize);
    sizes.into_iter().find_map(|id| {
        let at = module.def(id)?;
        let inst = module.inst(at);
        let composite = matches!(inst.op, Op::ConstantComposite | Op::SpecConstantComposite);
        Some(WorkgroupSize { extents: extents(inst, 0).filter(|_| composite)?, source: SizeSource::BuiltIn, at })
    })
}

fn mode_size(module: &Module, mode: Mode) -> Option<WorkgroupSize> {
    let source = match mode.mode {
        ExecutionMode::LocalSize => SizeSource::LocalSize,
        ExecutionMode::LocalSizeId => SizeSource::LocalSizeId,
        _ => return None,
    };
    Some(WorkgroupSize { extents: extents(module.inst(mode.at), 2)?, source, at: mode.at })
}

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CallKind {
    /// `OpFunctionCall`.
    Direct,
    /// An instruction calls the function implicitly: a decode, reduce or per-element function, an enqueued kernel, a
    /// function pointer.
    Callback,
    /// A word of an instruction beyond the grammar, which may be the function's id.
    Possible,
}

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The instruction that calls.
    pub at: InstRef,
    /// The function called, as an index into [`Module::functions`].
    pub callee: usize,
    /// The kind of the call.
    pub kind: CallKind,
}

/// The call graph. Functions are named by their index in [`Module::functions`].
#[derive(Clone, Debug)]
pub struct CallGraph {
    by_id: FxHashMap<Id, usize>,
    calls: Vec<Vec<Call>>,
    graph: Graph,
}

impl CallGraph {
    /// Collects the calls of all functions.
    pub fn new(module: &Module) -> CallGraph {
        let ids = module.functions.iter().enumerate().rev();
        let by_id: FxHashMap<_, _> = ids.filter_map(|(i, f)| Some((module.inst(f.def).result?, i))).collect();
        let mut named = IdSet::default();
        by_id.keys().for_each(|id| _ = named.insert(*id));
        let pointers = module.globals_with(Op::ConstantFunctionPointerINTEL);
        pointers.filter_map(|r| module.inst(r).result).for_each(|id| _ = named.insert(id));
        let calls: Vec<_> = module.functions.iter().map(|f| calls(module, f, &by_id, &named)).collect();
        let edges: Vec<_> = calls.iter().enumerate().flat_map(|(i, c)| c.iter().map(move |c| (i, c.callee))).collect();
        CallGraph { by_id, graph: Graph::new(calls.len(), &edges), calls }
    }

    /// Returns the index of the function with this id.
    pub fn function(&self, id: Id) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the calls in a function, in file order.
    pub fn calls(&self, function: usize) -> &[Call] {
        &self.calls[function]
    }

    /// Returns the functions that a function calls, each once.
    pub fn callees(&self, function: usize) -> &[usize] {
        self.graph.successors(function)
    }

    /// Returns the functions that call a function, ascending.
    pub fn callers(&self, function: usize) -> &[usize] {
        self.graph.predecessors(function)
    }

    /// Returns these functions and all that they call, directly or indirectly, ascending.
    pub fn reachable(&self, from: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut work: Vec<usize> = from.into_iter().collect();
        let mut found = vec![false; self.calls.len()];
        while let Some(f) = work.pop() {
            if !std::mem::replace(&mut found[f], true) {
                work.extend(self.callees(f));
            }
        }
        (0..found.len()).filter(|f| found[*f]).collect()
    }

    /// Returns the functions that call themselves, directly or through others, ascending. Possible calls don't count.
    pub fn recursive(&self) -> Vec<usize> {
        let certain = |c: &&Call| c.kind != CallKind::Possible;
        let calls = self.calls.iter().enumerate();
        let edges: Vec<_> = calls.flat_map(|(i, c)| c.iter().filter(certain).map(move |c| (i, c.callee))).collect();
        let graph = Graph::new(self.calls.len(), &edges);
        let component = graph.components();
        let mut size = vec![0; self.calls.len()];
        component.iter().for_each(|c| size[*c] += 1);
        (0..self.calls.len()).filter(|f| size[component[*f]] > 1 || graph.successors(*f).contains(f)).collect()
    }
}

/// Returns the calls in a function; `named` has the functions and the constants that point to them.
fn calls(module: &Module, function: &Function, by_id: &FxHashMap<Id, usize>, named: &IdSet) -> Vec<Call> {
    let mut found = Vec::new();
    for block in &function.blocks {
        for &at in &block.insts {
            let inst = module.inst(at);
            // Most name no function, by their opcodes or by their operands.
            if inst.opaque || !names_none(inst.op) && inst.ids().any(|id| named.contains(id)) {
                calls_of(module, at, inst, by_id, named, &mut found);
            }
        }
    }
    found
}

fn calls_of(
    module: &Module,
    at: InstRef,
    inst: &Inst,
    by_id: &FxHashMap<Id, usize>,
    named: &IdSet,
    found: &mut Vec<Call>,
) {
    // Debug information names functions without calling them.
    if matches!(inst.op, Op::ExtInst | Op::ExtInstWithForwardRefsKHR) || names_none(inst.op) && !inst.opaque {
        return;
    }
    for (i, o) in inst.operands.iter().enumerate() {
        let (id, kind) = match *o {
            Operand::Id(id) if !named.contains(id) => continue,
            Operand::Id(id) if inst.op == Op::FunctionCall && i == 0 => (id, CallKind::Direct),
            Operand::Id(id) => (behind_pointer(module, id), CallKind::Callback),
            Operand::Word(w) if inst.opaque => match Id::new(w) {
                Some(id) => (id, CallKind::Possible),
                None => continue,
            },
            Operand::Word(_) => continue,
        };
        if let Some(&callee) = by_id.get(&id) {
            found.push(Call { at, callee, kind });
        }
    }
}

/// Returns true if an instruction does not take a function or a pointer to one: it reads memory, computes with numbers
/// or branches.
fn names_none(op: Op) -> bool {
    op.takes_no_pointer() || matches!(op, Op::Load | Op::AccessChain | Op::InBoundsAccessChain)
}

/// Returns the function of a constant function pointer, or the id itself.
fn behind_pointer(module: &Module, id: Id) -> Id {
    let inst = module.def_inst(id).filter(|i| i.op == Op::ConstantFunctionPointerINTEL);
    inst.and_then(|i| i.id(0)).unwrap_or(id)
}
