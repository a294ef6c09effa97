//! The graph of values, which `build` makes.

use super::shape::{Fold, Shape};
use super::{Assumptions, Uniformity};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::BuiltIn;
use coop_ir::{Id, InstRef};
use smallvec::SmallVec;

/// A short list of nodes or cells.
pub(super) type List = SmallVec<[u32; 4]>;

/// The rule by which a node's uniformity follows from its operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// An uninitialized value: deciding by it is undefined behavior.
    Undef,
    /// Fixed when the node was made.
    Fixed,
    /// The uniformity of the least uniform operand.
    Max,
    /// The same, and the value can be computed.
    Fold(Fold),
    /// The operand that an index, the first operand, selects from the others.
    Pick,
    /// A join of control flow.
    Phi,
    /// A read at the address that is the operand.
    Load {
        /// The assumptions under which one address holds one value.
        assumes: Assumptions,
        /// True if nothing writes the memory.
        constant: bool,
    },
    /// A subgroup or group instruction.
    Group(Group),
}

/// The effect of a subgroup or group instruction on its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// The same in every invocation of the scope.
    Same(Uniformity),
    /// The same in every invocation of the scope, and equal to the operand if that is the same everywhere.
    Keeps(Uniformity),
    /// As uniform as the operand within the scope.
    Moved,
    /// The operand of the invocation that the second operand selects.
    Named,
    /// Different in each invocation.
    Own,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) ops: (u32, u32),
    pub(super) point: u32,
    pub(super) inst: Option<InstRef>,
    /// The width in bits of integers and Booleans.
    pub(super) width: u8,
    pub(super) uniformity: Uniformity,
    /// The assumptions of `uniformity`.
    pub(super) assumes: Assumptions,
    pub(super) shape: Shape,
    /// The assumptions of `shape`.
    pub(super) shape_assumes: Assumptions,
}

/// The value of an id in a call instance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum IdValue {
    None,
    Node(u32),
    /// One node for each leaf, in [`ValueGraph::parts`].
    Parts(u32, u32),
    /// In [`Builder::places`].
    PointerTarget(u32),
}

/// An instruction that all invocations of a scope must execute together.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) point: u32,
    pub(super) at: InstRef,
    pub(super) scope: Uniformity,
    pub(super) barrier: bool,
    /// The operands that must be uniform: their positions and nodes.
    pub(super) operands: Vec<(u32, u32)>,
}

/// The finished graph.
pub(super) struct ValueGraph {
    pub(super) nodes: Vec<Node>,
    pub(super) ops: Vec<u32>,
    pub(super) alias: Vec<u32>,
    pub(super) parts: Vec<u32>,
    pub(super) vals: Vec<IdValue>,
    /// The condition of each point's terminator, or `NONE`.
    pub(super) conditions: Vec<u32>,
    pub(super) checks: Vec<Check>,
    /// The variable of a cell's phi.
    pub(super) cell_of: FxHashMap<u32, Id>,
    /// The built-in or variable of a node without an instruction, and its component.
    pub(super) source_of: FxHashMap<u32, (Id, u32)>,
    /// The specialization constant of a node whose shape is the default.
    pub(super) constant_of: FxHashMap<u32, Id>,
    /// The stores into each variable of shared memory.
    pub(super) shared_stores: FxHashMap<Id, Vec<SharedStore>>,
    /// The number of instructions that may write each of them. The key `None` counts those that may write any.
    pub(super) shared_writes: FxHashMap<Option<Id>, u32>,
    /// The BuiltIn of a node.
    pub(super) built_in_of: FxHashMap<u32, BuiltIn>,
}

/// A store into shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedStore {
    pub(super) point: u32,
    pub(super) value: u32,
    pub(super) pointer: Id,
    /// The node of the address.
    pub(super) address: u32,
}

impl ValueGraph {
    /// Returns the representative of `n`.
    pub(super) fn find(&self, mut n: u32) -> u32 {
        while self.alias[n as usize] != n {
            n = self.alias[n as usize];
        }
        n
    }

    /// Returns the nodes that represent themselves.
    pub(super) fn standing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.alias).filter(|(n, of)| n == *of).map(|(n, _)| n)
    }

    /// Returns the words of a node's operand list.
    pub(super) fn raw(&self, n: u32) -> &[u32] {
        let (a, b) = self.nodes[n as usize].ops;
        &self.ops[a as usize..b as usize]
    }

    /// Returns the operands of a node.
    pub(super) fn inputs(&self, n: u32) -> impl Iterator<Item = u32> + '_ {
        let step = if self.nodes[n as usize].kind == Kind::Phi { 2 } else { 1 };
        self.raw(n).iter().step_by(step).copied()
    }

    /// Returns the operands of a node, for a phi with their edges. In the finished graph they represent themselves.
    pub(super) fn operands(&self, n: u32) -> impl Iterator<Item = (u32, Option<u32>)> + '_ {
        let phi = self.nodes[n as usize].kind == Kind::Phi;
        let mut rest = self.raw(n);
        std::iter::from_fn(move || {
            let (op, others) = rest.split_first()?;
            rest = others;
            if !phi {
                return Some((*op, None));
            }
            let (edge, others) = rest.split_first()?;
            rest = others;
            Some((*op, Some(*edge)))
        })
    }

    /// Returns the operands of a phi and their edges.
    pub(super) fn incoming(&self, n: u32) -> &[[u32; 2]] {
        self.raw(n).as_chunks().0
    }

    /// Replaces all operands by their representatives.
    pub(super) fn settle(&mut self) {
        for n in 0..self.nodes.len() as u32 {
            self.alias[n as usize] = self.find(n);
        }
        for node in &self.nodes {
            let step = if node.kind == Kind::Phi { 2 } else { 1 };
            let mut at = node.ops.0 as usize;
            while at < node.ops.1 as usize {
                self.ops[at] = self.alias[self.ops[at] as usize];
                at += step;
            }
        }
    }

    /// Returns the nodes of an id in a call instance.
    pub(super) fn nodes_of(&self, at: u32) -> &[u32] {
        match self.vals.get(at as usize) {
            Some(IdValue::Parts(start, len)) => &self.parts[*start as usize..(*start + *len) as usize],
            Some(IdValue::Node(n)) => std::slice::from_ref(n),
            _ => &[],
        }
    }
}
