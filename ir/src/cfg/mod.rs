//! The control-flow graph of a function, and what follows from it.
//!
//! Blocks are numbered in file order ([`Function::blocks`]); the entry block is 0. Nothing here asks that a module be
//! valid, structured or reducible. What is true of every [`Cfg`]:
//!
//! 1. [`Cfg::edges`] has one entry for each target of a terminator, in order, with its case; [`Cfg::successors`] has
//!    each target once. Predecessors mirror successors.
//! 2. A target that is not a label of this function makes no edge, but a [`CfgProblem`]. A branch to the entry block is
//!    an edge and a problem. A label that repeats another's id is a problem; branches go to the first.
//! 3. A block whose last instruction is not a terminator is a problem, and has no successors; if that instruction's
//!    opcode is unknown it may be a terminator: it is not a problem, and the labels among its words are successors.
//! 4. Dominance is over paths from the entry block. A block that none reaches is dominated by all blocks.
//! 5. A merge instruction counts if nothing but source positions stands between it and the terminator. It makes no
//!    edges: what SPIR-V calls structural dominance is in [`Constructs`].
//! 6. A function without blocks has an empty graph.
//!
//! The graph, reverse post-order and dominators are made at once. What fewer callers need is made from it on demand:
//! [`PostDoms`], [`ControlDeps`], [`Frontiers`], [`Loops`], [`Constructs`], and `Order` (a feature). Nothing recurses.

mod decided;
mod dom;
mod graph;
mod loops;
mod merge;
#[cfg(feature = "execution")]
mod order;
mod post;

pub use decided::is_never_executed;
pub use dom::{DomTree, Frontiers};
pub use graph::Graph;
pub use loops::{Loop, Loops};
pub use merge::{Construct, ConstructKind, Constructs, Merge};
#[cfg(feature = "execution")]
pub use order::{NodeKind, Order};
pub use post::{ControlDeps, PostDoms};

use crate::decode::Context;
use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Block, Function, Id, Inst, InstRef, Module};
use graph::{NONE, Walk};
use std::fmt;

/// The condition under which an edge is taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Case {
    /// By `OpBranch`.
    Always,
    /// If the condition of `OpBranchConditional` is true.
    True,
    /// If it is false.
    False,
    /// If the selector of `OpSwitch` has this value, zero-extended from the literal's words.
    Value(u64),
    /// If the selector has no other edge's value.
    Default,
    /// Unknown: the terminator is beyond the grammar.
    Possible,
}

/// An edge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// The target.
    pub to: usize,
    /// The condition.
    pub case: Case,
}

/// A defect of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CfgDefect {
    /// The last instruction of the block with this label is not a terminator, or it has no instructions.
    NoTerminator(Option<Id>),
    /// A branch or a merge names an id that is not a label.
    NoLabel(Id),
    /// A branch or a merge names a label of another function.
    OtherFunction(Id),
    /// A branch leads to the entry block.
    ToEntry(Id),
    /// A branch lacks a target.
    NoTarget,
    /// Two blocks have this label.
    SameLabel(Id),
}

impl fmt::Display for CfgDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CfgDefect::NoTerminator(Some(id)) => write!(f, "the block {id} has no terminator"),
            CfgDefect::NoTerminator(None) => write!(f, "a block has no terminator"),
            CfgDefect::NoLabel(id) => write!(f, "the target {id} is not a label"),
            CfgDefect::OtherFunction(id) => write!(f, "the target {id} is a label of another function"),
            CfgDefect::ToEntry(id) => write!(f, "the target {id} is the entry block of the function"),
            CfgDefect::NoTarget => write!(f, "it lacks a target"),
            CfgDefect::SameLabel(id) => write!(f, "two blocks of the function have the label {id}"),
        }
    }
}

/// A defect and the instruction that has it: a label, a terminator or a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CfgProblem {
    /// The instruction.
    pub at: InstRef,
    /// The defect.
    pub defect: CfgDefect,
}

/// The control-flow graph of one function.
#[derive(Clone, Debug)]
pub struct Cfg {
    labels: Vec<Option<Id>>,
    by_label: FxHashMap<Id, u32>,
    graph: Graph,
    /// The edges of all blocks, and the start of each block's.
    edges: Vec<Edge>,
    edges_start: Vec<u32>,
    /// The merge instructions by block.
    merges: Vec<(u32, Merge)>,
    rpo: Vec<usize>,
    rpo_index: Vec<u32>,
    dom: DomTree,
    problems: Vec<CfgProblem>,
}

impl Cfg {
    /// Returns the graph of a function.
    pub fn new(module: &Module, function: &Function) -> Cfg {
        let mut builder = Builder::new(module, function);
        for (at, block) in function.blocks.iter().enumerate() {
            builder.block(at, block);
        }
        builder.finish()
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if the function has no blocks.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the block with a label.
    pub fn block(&self, label: Id) -> Option<usize> {
        self.by_label.get(&label).map(|b| *b as usize)
    }

    /// Returns the label of a block; `None` if a pass made one without a result.
    pub fn label(&self, block: usize) -> Option<Id> {
        self.labels[block]
    }

    /// Returns blocks and edges without their cases.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the successors of a block, each once.
    pub fn successors(&self, block: usize) -> &[usize] {
        self.graph.successors(block)
    }

    /// Returns the predecessors of a block, each once, ascending, including unreachable ones.
    pub fn predecessors(&self, block: usize) -> &[usize] {
        self.graph.predecessors(block)
    }

    /// Returns every target of the block's terminator with its case, in order.
    pub fn edges(&self, block: usize) -> &[Edge] {
        &self.edges[self.edges_start[block] as usize..self.edges_start[block + 1] as usize]
    }

    /// Returns the merge instruction of the block.
    pub fn merge(&self, block: usize) -> Option<&Merge> {
        let at = self.merges.binary_search_by_key(&block, |(b, _)| *b as usize).ok()?;
        Some(&self.merges[at].1)
    }

    /// Returns the blocks with a merge instruction, ascending.
    pub fn merges(&self) -> impl Iterator<Item = (usize, &Merge)> {
        self.merges.iter().map(|(b, m)| (*b as usize, m))
    }

    /// Returns the reachable blocks in reverse post-order: except for back edges, predecessors come first.
    pub fn rpo(&self) -> &[usize] {
        &self.rpo
    }

    /// Returns the position of a block in reverse post-order, if it is reachable.
    pub fn rpo_index(&self, block: usize) -> Option<usize> {
        Some(self.rpo_index[block]).filter(|i| *i != NONE).map(|i| i as usize)
    }

    /// Returns true if a path leads from the entry to the block.
    pub fn is_reachable(&self, block: usize) -> bool {
        self.rpo_index[block] != NONE
    }

    /// Returns the dominator tree.
    pub fn dom(&self) -> &DomTree {
        &self.dom
    }

    /// Returns true if every path from the entry to `b` goes through `a`. Takes constant time.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        self.dom.dominates(a, b)
    }

    /// Returns the closest other block that dominates `b`.
    pub fn idom(&self, b: usize) -> Option<usize> {
        self.dom.idom(b)
    }

    /// Returns the problems of the graph, in file order.
    pub fn problems(&self) -> &[CfgProblem] {
        &self.problems
    }
}

/// The graphs of a module's functions, or none: passed on to later users.
#[derive(Clone, Debug, Default)]
pub struct Cfgs {
    graphs: Vec<Cfg>,
    edits: u64,
}

impl Cfgs {
    /// These graphs, one for each of the module's functions.
    pub(crate) fn of(module: &Module, graphs: Vec<Cfg>) -> Cfgs {
        Cfgs { graphs, edits: module.edits() }
    }

    /// Returns the graph of a function of the module from which they were made, unless that was edited since.
    pub fn get(&self, module: &Module, function: usize) -> Option<&Cfg> {
        self.graphs.get(function).filter(|_| self.edits == module.edits())
    }
}

struct Builder<'a> {
    module: &'a Module,
    cfg: Cfg,
    pairs: Vec<(usize, usize)>,
}

impl<'a> Builder<'a> {
    fn new(module: &'a Module, function: &Function) -> Builder<'a> {
        let len = function.blocks.len();
        let mut by_label = FxHashMap::default();
        by_label.reserve(len);
        let mut labels = Vec::with_capacity(len);
        let mut problems = Vec::new();
        for (at, block) in function.blocks.iter().enumerate() {
            let label = module.inst(block.label).result;
            labels.push(label);
            let Some(id) = label else { continue };
            if let std::collections::hash_map::Entry::Vacant(e) = by_label.entry(id) {
                e.insert(at as u32);
            } else {
                problems.push(CfgProblem { at: block.label, defect: CfgDefect::SameLabel(id) });
            }
        }
        let empty = Graph::default();
        let cfg = Cfg {
            labels,
            by_label,
            dom: DomTree::new(&empty, 0),
            graph: empty,
            edges: Vec::with_capacity(len * 2),
            edges_start: Vec::with_capacity(len + 1),
            merges: Vec::new(),
            rpo: Vec::new(),
            rpo_index: vec![NONE; len],
            problems,
        };
        Builder { module, cfg, pairs: Vec::with_capacity(len * 2) }
    }

    fn problem(&mut self, at: InstRef, defect: CfgDefect) {
        self.cfg.problems.push(CfgProblem { at, defect });
    }

    /// Returns the block that an operand of `at` names.
    fn target(&mut self, at: InstRef, id: Option<Id>) -> Option<usize> {
        let Some(id) = id else {
            self.problem(at, CfgDefect::NoTarget);
            return None;
        };
        let found = self.cfg.block(id);
        if found.is_none() {
            let label = self.module.def_inst(id).is_some_and(|i| i.op == Op::Label);
            self.problem(at, if label { CfgDefect::OtherFunction(id) } else { CfgDefect::NoLabel(id) });
        }
        found
    }

    fn edge(&mut self, from: usize, at: InstRef, id: Option<Id>, case: Case) {
        let Some(to) = self.target(at, id) else { return };
        if to == 0
            && let Some(id) = id
        {
            self.problem(at, CfgDefect::ToEntry(id));
        }
        self.cfg.edges.push(Edge { to, case });
        self.pairs.push((from, to));
    }

    fn block(&mut self, from: usize, block: &Block) {
        self.cfg.edges_start.push(self.cfg.edges.len() as u32);
        let (module, last) = (self.module, block.terminator());
        match last.map(|r| (r, module.inst(r))) {
            Some((r, inst)) if inst.op.is_terminator() => self.terminator(from, r, inst),
            Some((_, inst)) if inst.op.info().is_none() => self.beyond(from, inst),
            _ => self.problem(block.label, CfgDefect::NoTerminator(self.cfg.labels[from])),
        }
        if let Some(merge) = self.merge(block) {
            self.cfg.merges.push((from as u32, merge));
        }
    }

    fn terminator(&mut self, from: usize, at: InstRef, inst: &Inst) {
        match inst.op {
            Op::Branch => self.edge(from, at, inst.id(0), Case::Always),
            Op::BranchConditional => {
                self.edge(from, at, inst.id(1), Case::True);
                self.edge(from, at, inst.id(2), Case::False);
            }
            Op::Switch => {
                self.edge(from, at, inst.id(1), Case::Default);
                let ty = inst.id(0).and_then(|s| self.module.type_of(s));
                let words = ty.and_then(|t| self.module.literal_words(t)).unwrap_or(1);
                for i in (2..inst.operands.len()).step_by(words + 1) {
                    let low = u64::from(inst.operands[i].word());
                    let high = if words == 2 { u64::from(inst.word(i + 1).unwrap_or(0)) } else { 0 };
                    self.edge(from, at, inst.id(i + words), Case::Value(high << 32 | low));
                }
            }
            _ => {}
        }
    }

    /// Handles a last instruction of unknown opcode: any of its words may be a label.
    fn beyond(&mut self, from: usize, inst: &Inst) {
        for o in &inst.operands {
            if let Some(to) = Id::new(o.word()).and_then(|id| self.cfg.block(id)) {
                self.cfg.edges.push(Edge { to, case: Case::Possible });
                self.pairs.push((from, to));
            }
        }
    }

    fn merge(&mut self, block: &Block) -> Option<Merge> {
        let module = self.module;
        let before = block.insts.iter().rev().skip(1).map(|r| (*r, module.inst(*r)));
        let (at, inst) = before.into_iter().find(|(_, i)| !i.op.is_line())?;
        let is_loop = match inst.op {
            Op::SelectionMerge => false,
            Op::LoopMerge => true,
            _ => return None,
        };
        let merge = self.target(at, inst.id(0));
        let continue_target = if is_loop { self.target(at, inst.id(1)) } else { None };
        Some(Merge { inst: at, merge, is_loop, continue_target })
    }

    fn finish(self) -> Cfg {
        let Builder { mut cfg, pairs, .. } = self;
        cfg.edges_start.push(cfg.edges.len() as u32);
        cfg.graph = Graph::new(cfg.len(), &pairs);
        drop(pairs);
        let mut walk = Walk::new(&cfg.graph, 0);
        cfg.dom = DomTree::of_walk(&cfg.graph, 0, &walk);
        walk.post.reverse();
        cfg.rpo = walk.post;
        for (at, block) in cfg.rpo.iter().enumerate() {
            cfg.rpo_index[*block] = at as u32;
        }
        cfg
    }
}
