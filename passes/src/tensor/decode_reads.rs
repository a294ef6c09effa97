//! Analyzes how decode functions read their blocks: which alignment of blocks the reads promise, and how wide they
//! could be.

use super::base_address::promised;
use super::byte_address::{Address, Layouts, Term};
use super::divisibility::align;
use super::index_math::power;
use crate::matrix::arena::QUAD;
use coop_ir::builder::Index;
use coop_ir::cfg::{Case, Cfg};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::Type;
use coop_ir::{Function, Id, Module, Op};

/// The reads of a block by a decode function.
pub(super) struct Reads {
    /// The divisor of the address of blocks, where something is read, if the alignments of the loads are true.
    pub(super) promised: u32,
    /// The widest read, in bytes, where blocks begin at multiples of 16, over the blocks likely to execute.
    pub(super) widest: u32,
}

/// Returns how a function reads the blocks behind `root`, which are `step` bytes apart.
pub(super) fn reads(
    m: &Module,
    constants: &Constants,
    decorations: &Decorations,
    function: &Function,
    (root, step): (Id, u32),
) -> Reads {
    let every = power(step).min(QUAD);
    let cfg = Cfg::new(m, function);
    let likely = reachable_by_default(m, constants, function, &cfg);
    // For each basic block, the largest alignment that a load in it promises.
    let mut own = vec![None; function.blocks.len()];
    let mut widest_read = 1;
    for (n, block) in function.blocks.iter().enumerate() {
        for inst in block.insts.iter().map(|r| m.inst(*r)).filter(|i| i.op == Op::Load) {
            let Some(pointer) = inst.accessed() else { continue };
            let Some(address) = behind(m, constants, decorations, pointer, root, 0) else { continue };
            let promise = promised(&inst.operands[1..], 1).min(every).min(address.align());
            own[n] = own[n].max(Some(promise));
            if likely.contains(&n) {
                widest_read =
                    widest_read.max(inst.ty.map_or(1, |ty| widest(m, ty, 0, &mut FxHashMap::default())).min(every));
            }
        }
    }
    Reads { promised: on_every_path(&cfg, own).unwrap_or(1), widest: widest_read }
}

/// Returns what all paths through a function that read anything promise, given the promise of each basic block. `None`:
/// none reads.
fn on_every_path(cfg: &Cfg, own: Vec<Option<u32>>) -> Option<u32> {
    let mut from = vec![None; own.len()];
    // A back edge leads to a block not yet visited: it promises nothing more.
    for n in cfg.rpo().iter().rev().copied() {
        let next = cfg.successors(n).iter().map(|s| from[*s]);
        from[n] = match own[n] {
            Some(own) => Some(next.map(|p| p.unwrap_or(own).max(own)).min().unwrap_or(own)),
            None => next.flatten().min(),
        };
    }
    from.first().copied().flatten()
}

/// Returns the blocks of a function that are reachable when specialization constants have their default values.
fn reachable_by_default(m: &Module, constants: &Constants, function: &Function, cfg: &Cfg) -> FxHashSet<usize> {
    let only = |n: usize| {
        let end = m.inst(function.blocks[n].terminator()?);
        let value = constants.get(end.branch_condition()?).value()?;
        let taken = |case: &Case| match case {
            Case::True => value != 0,
            Case::False => value == 0,
            Case::Value(v) => *v == value,
            _ => false,
        };
        let edges = cfg.edges(n);
        let found = edges.iter().find(|e| taken(&e.case)).or_else(|| edges.iter().find(|e| e.case == Case::Default));
        found.map(|e| e.to)
    };
    let (mut reached, mut work) = (FxHashSet::default(), vec![0]);
    while let Some(n) = work.pop() {
        if reached.insert(n) {
            work.extend(only(n).map_or_else(|| cfg.successors(n).to_vec(), |to| vec![to]));
        }
    }
    reached
}

/// Returns the offset of a pointer from another one, if it is derived from that.
fn behind(
    m: &Module,
    constants: &Constants,
    decorations: &Decorations,
    pointer: Id,
    root: Id,
    depth: u32,
) -> Option<Address> {
    if pointer == root {
        return Some(Address::default());
    }
    let inst = m.def_inst(pointer).filter(|_| depth < 32)?;
    let from = inst.id(0)?;
    let base = || behind(m, constants, decorations, from, root, depth + 1);
    match inst.op {
        Op::Bitcast | Op::CopyObject => base(),
        op if op.is_typed_access_chain() => {
            let layouts = Layouts { m, constants, decorations };
            let ty = m.type_of(from)?;
            let Type::Pointer { pointee, .. } = Type::of(m, ty)? else { return None };
            let indices: Vec<Id> = inst.ids_from(1).collect();
            let steps = inst.op.is_element_chain();
            let (first, rest) = indices.split_at(usize::from(steps));
            let term = |id: Id| Term { at: Index::Value(id), factor: 1, align: align(m, constants, id) };
            let mut address = base()?;
            for id in first {
                let known = constants.get(*id).fixed();
                let term = known.map_or(term(*id), |v| Term { at: Index::Const(v as u32), factor: 1, align: 1 });
                address = address.plus(Term { factor: layouts.stride(ty)?, ..term });
            }
            Some(layouts.walk(pointee, rest, address, &mut |id| Some(term(id)))?.1)
        }
        _ => None,
    }
}

/// Returns the widest read, in bytes, for a value of this type.
fn widest(m: &Module, ty: Id, depth: u32, known: &mut FxHashMap<Id, u32>) -> u32 {
    if depth > 32 {
        return 1;
    }
    // Structs of structs may have very many parts.
    if let Some(bytes) = known.get(&ty) {
        return *bytes;
    }
    let bytes = match Type::of(m, ty) {
        Some(Type::Scalar(s)) => power(s.bytes().max(1)),
        Some(Type::Vector { elem, len }) => {
            let one = widest(m, elem, depth + 1, known);
            Some(one * len).filter(|all| matches!(all, 4 | 8 | 16)).unwrap_or(one)
        }
        Some(Type::Array { elem, .. }) => widest(m, elem, depth + 1, known),
        Some(Type::Struct { members }) => members.iter().map(|t| widest(m, *t, depth + 1, known)).max().unwrap_or(1),
        _ => 1,
    };
    known.insert(ty, bytes);
    bytes
}
