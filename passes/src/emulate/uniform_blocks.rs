//! Finds the blocks that all invocations of a workgroup execute together.
//!
//! A block is one of these if it
//!
//! 1. runs as often as a block with something that all invocations of a workgroup must execute together (a barrier of the
//!    workgroup, an operation on a matrix of that scope): one dominates the other and is post-dominated by it, and the same loops
//!    are around both; or
//! 2. hangs on no branch whose condition may differ between two invocations of a workgroup, in functions that are called so.
//!
//! The first is the module's own word: it has no meaning where that is false. In a workgroup of one subgroup, barriers of a subgroup and
//! operations on its matrices say the same. (Other operations on subgroups don't: a part of one may execute them.) For the second, values are taken for equal until
//! something shows that they may differ; what is read from memory that invocations write, and whatever is not known, may differ.

use coop_ir::cfg::{Cfg, ControlDeps, Loops, PostDoms};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::entry::CallGraph;
use coop_ir::grammar::ExecutionScope;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{BuiltIn, Decoration, Scope, StorageClass};
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, pointers};

/// The blocks that all invocations of a workgroup execute together.
pub(super) struct UniformBlocks {
    /// By function and block.
    blocks: Vec<Vec<bool>>,
}

impl UniformBlocks {
    /// With `one_subgroup`, a workgroup is one subgroup.
    pub(super) fn new(m: &Module, constants: &Constants, one_subgroup: bool) -> UniformBlocks {
        let mut search = Search::new(m, constants, one_subgroup);
        search.differences();
        let blocks =
            search.functions.iter().map(|f| f.divergent.iter().map(|divergent| !divergent).collect()).collect();
        UniformBlocks { blocks }
    }

    /// Returns true if all invocations of a workgroup execute a block together, or none does.
    pub(super) fn block(&self, function: usize, block: usize) -> bool {
        self.blocks.get(function).and_then(|blocks| blocks.get(block)).copied().unwrap_or(false)
    }
}

struct Function {
    cfg: Cfg,
    deps: ControlDeps,
    /// Blocks that are executed together by the module's own word.
    bound: Vec<bool>,
    /// Blocks that may not be executed together.
    divergent: Vec<bool>,
    /// True if it may be called where not all invocations are.
    parts: bool,
    /// True if what it returns may differ.
    returns_differ: bool,
}

struct Search<'a> {
    m: &'a Module,
    decorations: Decorations,
    calls: CallGraph,
    functions: Vec<Function>,
    /// Values that may differ, and pointers to places that do.
    differ: FxHashSet<Id>,
    /// Variables of an invocation whose contents may differ.
    contents: FxHashSet<Id>,
}

impl<'a> Search<'a> {
    fn new(m: &'a Module, constants: &Constants, one_subgroup: bool) -> Search<'a> {
        let graphs: Vec<(Cfg, PostDoms, Loops)> = m
            .functions
            .iter()
            .map(|f| {
                let cfg = Cfg::new(m, f);
                let (post, loops) = (PostDoms::new(&cfg), Loops::new(&cfg));
                (cfg, post, loops)
            })
            .collect();
        let calls = CallGraph::new(m);
        // The blocks that all must execute together, calls of functions that always come to such a block included.
        let mut always = vec![false; m.functions.len()];
        let binding = loop {
            let binding: Vec<Vec<bool>> = m
                .functions
                .iter()
                .map(|f| {
                    let calls_one = |i: &Inst| i.callee().and_then(|c| calls.function(c)).is_some_and(|c| always[c]);
                    let binds = |r: &InstRef| binds(m, constants, one_subgroup, m.inst(*r)) || calls_one(m.inst(*r));
                    f.blocks.iter().map(|b| b.insts.iter().any(binds)).collect()
                })
                .collect();
            let before = always.clone();
            for (f, (_, post, loops)) in graphs.iter().enumerate() {
                let once = |b: usize| loops.innermost(b).is_none() && post.postdominates(b, 0);
                always[f] = binding[f].iter().enumerate().any(|(b, binds)| *binds && once(b));
            }
            if before == always {
                break binding;
            }
        };
        let functions = graphs
            .into_iter()
            .zip(binding)
            .map(|((cfg, post, loops), binding)| {
                let len = cfg.len();
                let bound = (0..len).map(|b| is_bound(&cfg, &post, &loops, &binding, b)).collect();
                let deps = ControlDeps::new(&post);
                Function { cfg, deps, bound, divergent: vec![false; len], parts: false, returns_differ: false }
            })
            .collect();
        let (differ, contents) = (FxHashSet::default(), FxHashSet::default());
        Search { m, decorations: Decorations::new(m), calls, functions, differ, contents }
    }

    /// Finds all that may differ: a set that grows until nothing is new.
    fn differences(&mut self) {
        loop {
            let before = self.measure();
            for f in 0..self.functions.len() {
                self.function(f);
            }
            if self.measure() == before {
                return;
            }
        }
    }

    /// Grows with whatever is found.
    fn measure(&self) -> usize {
        let of = |f: &Function| {
            f.divergent.iter().filter(|p| **p).count() + usize::from(f.parts) + usize::from(f.returns_differ)
        };
        self.differ.len() + self.contents.len() + self.functions.iter().map(of).sum::<usize>()
    }

    fn function(&mut self, f: usize) {
        let m = self.m;
        for b in 0..self.functions[f].cfg.len() {
            let function = &self.functions[f];
            if !function.divergent[b] && !function.bound[b] {
                let mut controllers = function.deps.controllers(b).iter();
                let divergent = function.parts || controllers.any(|c| self.diverges(f, *c));
                self.functions[f].divergent[b] = divergent;
            }
            for r in &m.functions[f].blocks[b].insts {
                self.inst(f, b, m.inst(*r));
            }
        }
    }

    /// Returns true if invocations may leave a block by different edges, or do not arrive together.
    fn diverges(&self, f: usize, block: usize) -> bool {
        let terminator = self.m.functions[f].blocks.get(block).and_then(|b| b.terminator());
        let decides = terminator.and_then(|r| self.m.inst(r).id(0));
        let branches = self.functions[f].cfg.successors(block).len() > 1;
        self.functions[f].divergent[block] || branches && decides.is_none_or(|id| self.differ.contains(&id))
    }

    fn inst(&mut self, f: usize, b: usize, i: &Inst) {
        let any = |this: &Self| i.ids().any(|id| this.differ.contains(&id));
        let divergent = self.functions[f].divergent[b];
        match i.op {
            Op::Store => {
                if (divergent || any(self))
                    && let Some(variable) = i.accessed().and_then(|p| self.invocation_variable(p))
                {
                    self.contents.insert(variable);
                }
            }
            Op::CopyMemory | Op::CopyMemorySized => {
                self.contents.extend(i.id(0).and_then(|p| self.invocation_variable(p)));
            }
            Op::ReturnValue => self.functions[f].returns_differ |= divergent || any(self),
            Op::FunctionCall => self.call(i, divergent),
            _ => {
                // Functions that are applied to elements, as often as an invocation has some.
                for applied in i.ids().filter_map(|id| self.calls.function(id)).collect::<Vec<_>>() {
                    self.functions[applied].parts = true;
                    let params = self.m.functions[applied].params.iter().filter_map(|r| self.m.inst(*r).result);
                    self.differ.extend(params);
                }
                let Some(result) = i.result else { return };
                let differs = match i.op {
                    Op::Phi => any(self) || self.joins_divergent(f, b),
                    Op::Load => any(self) || self.load_differs(i),
                    Op::Variable | Op::Label => false,
                    Op::ExtInst => any(self) || i.ids_from(2).any(|id| self.invocation_variable(id).is_some()),
                    op if op.is_pure() || op.derives_pointer() => any(self),
                    _ => true,
                };
                if differs {
                    self.differ.insert(result);
                }
                // What gives a pointer to an instruction that is none of those above lets it write there.
                if !matches!(i.op, Op::Load | Op::Phi) && !i.op.is_variable() && !i.op.derives_pointer() {
                    let written: Vec<Id> = i.ids().filter_map(|id| self.invocation_variable(id)).collect();
                    self.contents.extend(written);
                }
            }
        }
    }

    fn call(&mut self, i: &Inst, divergent: bool) {
        // What a function is given a pointer to, it may write.
        let written: Vec<Id> = i.ids_from(1).filter_map(|id| self.invocation_variable(id)).collect();
        self.contents.extend(written);
        let callee = i.callee().and_then(|id| self.calls.function(id));
        let Some(callee) = callee else {
            self.differ.extend(i.result);
            return;
        };
        self.functions[callee].parts |= divergent;
        let params = self.m.functions[callee].params.iter().filter_map(|r| self.m.inst(*r).result);
        for (param, argument) in params.zip(i.ids_from(1)) {
            if self.differ.contains(&argument) {
                self.differ.insert(param);
            }
        }
        if self.functions[callee].returns_differ {
            self.differ.extend(i.result);
        }
    }

    /// Returns true if invocations may come to a block from different ones.
    fn joins_divergent(&self, f: usize, b: usize) -> bool {
        self.functions[f].cfg.predecessors(b).iter().any(|p| self.diverges(f, *p))
    }

    /// The variable of the invocation that a pointer leads into.
    fn invocation_variable(&self, pointer: Id) -> Option<Id> {
        let root = pointers::root(self.m, pointer, Op::derives_pointer)?;
        let inst = self.m.def_inst(root).filter(|i| i.op == Op::Variable)?;
        let own = [StorageClass::Function, StorageClass::Private];
        inst.enumerant(0).is_some_and(|class: StorageClass| own.contains(&class)).then_some(root)
    }

    /// Returns true if what is read through a pointer that is the same for all may differ.
    fn load_differs(&self, i: &Inst) -> bool {
        let Some(root) = i.accessed().and_then(|p| pointers::root(self.m, p, Op::derives_pointer)) else { return true };
        let Some(variable) = self.m.def_inst(root).filter(|v| v.op == Op::Variable) else { return true };
        let Some(class) = variable.enumerant::<StorageClass>(0) else { return true };
        match class {
            StorageClass::Function | StorageClass::Private => self.contents.contains(&root),
            StorageClass::PushConstant | StorageClass::Uniform | StorageClass::UniformConstant => {
                // Storage buffers of old modules.
                let pointee = variable.ty.and_then(|ty| match Type::of(self.m, ty)? {
                    Type::Pointer { pointee, .. } => Some(pointee),
                    _ => None,
                });
                pointee.is_none_or(|ty| self.decorations.has(ty, Decoration::BufferBlock))
            }
            StorageClass::Input => !matches!(
                self.decorations.built_in(root),
                Some(BuiltIn::WorkgroupId | BuiltIn::NumWorkgroups | BuiltIn::WorkgroupSize | BuiltIn::NumSubgroups)
            ),
            StorageClass::StorageBuffer => !self.decorations.has(root, Decoration::NonWritable),
            _ => true,
        }
    }
}

/// Returns true if all invocations of a workgroup must execute an instruction together.
fn binds(m: &Module, constants: &Constants, one_subgroup: bool, i: &Inst) -> bool {
    let is = |id: Option<Id>, scope: Scope| id.and_then(|s| constants.get(s).fixed()) == Some(u64::from(scope.0));
    let workgroup = |id: Option<Id>| is(id, Scope::Workgroup) || one_subgroup && is(id, Scope::Subgroup);
    match i.op.execution_scope() {
        Some(ExecutionScope::Operand(at)) if i.op == Op::ControlBarrier => workgroup(i.id(at)),
        Some(ExecutionScope::Operand(at)) => is(i.id(at), Scope::Workgroup),
        Some(ExecutionScope::Subgroup) => false,
        None => {
            i.op.is_matrix_op() && {
                let result = i.ty.and_then(|ty| types::coop_mat(m, ty));
                let matrix = result.or_else(|| i.ids().find_map(|id| types::coop_mat_of(m, id)));
                matrix.is_some_and(|t| workgroup(Some(t.scope)))
            }
        }
    }
}

/// Returns true if a block runs exactly as often as one of those in `binding`.
fn is_bound(cfg: &Cfg, post: &PostDoms, loops: &Loops, binding: &[bool], block: usize) -> bool {
    if !cfg.is_reachable(block) || !loops.all_natural() {
        return binding[block];
    }
    let same = |a: usize, b: usize| {
        loops.innermost(a) == loops.innermost(b) && cfg.dominates(a, b) && post.postdominates(b, a)
    };
    let mut others = (0..binding.len()).filter(|b| binding[*b] && cfg.is_reachable(*b));
    others.any(|other| same(block, other) || same(other, block))
}
