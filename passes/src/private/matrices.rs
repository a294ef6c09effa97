//! Rewrites accesses to variables that contain matrices into plain access chains, whatever pointers they go through.
//!
//! Every pointer derived from such a variable is followed: chains, casts, and lifetimes. Each is a path, the indices
//! from the variable to the pointee. Where memory is read or written through it, an access chain of that path replaces
//! it; then the pointers are unused and removed.

use crate::inline::Carriers;
use crate::{Refusal, ssa};
use coop_ir::builder::Globals;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::StorageClass;
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use smallvec::SmallVec;

/// The location that a pointer points to.
#[derive(Clone, Debug)]
struct Location {
    variable: Id,
    /// The indices from the variable.
    path: Vec<Id>,
    /// The type of the variable, then the type after each index.
    types: SmallVec<[Id; 4]>,
    /// The type that a cast gives the location, if it is not the last of `types`: a struct or an array around it, at
    /// its beginning.
    seen: Option<Id>,
}

pub(super) fn run(m: &mut Module, g: &mut Globals, f: usize) -> Result<(), Refusal> {
    let mut carriers = Carriers::new();
    let mut locations: FxHashMap<Id, Location> = FxHashMap::default();
    let mut gone: FxHashSet<InstRef> = FxHashSet::default();
    // Definitions come before their uses.
    for r in m.functions[f].insts().collect::<Vec<_>>() {
        let inst = m.inst(r).clone();
        if inst.op == Op::Variable {
            let pointee = inst.ty.and_then(|t| pointee(m, t));
            if let (Some(id), Some(pointee)) = (inst.result, pointee.filter(|t| carriers.has(m, *t))) {
                locations.insert(
                    id,
                    Location { variable: id, path: Vec::new(), types: [pointee].into_iter().collect(), seen: None },
                );
            }
            continue;
        }
        if !inst.ids().any(|id| locations.contains_key(&id)) || ssa::is_debug(m, &inst) {
            continue;
        }
        let base = inst.id(0).and_then(|id| locations.get(&id)).cloned();
        match (inst.op, base, inst.result) {
            (op, Some(base), Some(result)) if op.derives_pointer() => {
                let location = derived(m, g, &inst, base).ok_or_else(|| untracked(m, r))?;
                locations.insert(result, location);
                gone.insert(r);
            }
            (Op::Load, Some(location), _) => load(m, g, r, &location)?,
            (Op::Store, Some(location), _) if !inst.stored().is_some_and(|v| locations.contains_key(&v)) => {
                store(m, g, r, &location)?;
            }
            (Op::LifetimeStart | Op::LifetimeStop, ..) => {
                gone.insert(r);
            }
            _ => return Err(untracked(m, r)),
        }
    }
    let results: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).collect();
    ssa::remove_insts(m, f, &gone);
    ssa::remove_annotations(m, &results);
    Ok(())
}

fn untracked(m: &Module, r: InstRef) -> Refusal {
    let why = format!("{} on a pointer to a matrix, which can't be followed", m.inst(r).op);
    let remedy = "index arrays of matrices directly, and keep no pointers to matrices that are computed";
    Refusal::new("refused-pointer", Some(r), why, remedy)
}

fn pointee(m: &Module, ty: Id) -> Option<Id> {
    match Type::of(m, ty)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}

/// Returns the value of an integer constant.
fn known(m: &Module, id: Id) -> Option<u64> {
    let inst = m.def_inst(id)?;
    match inst.op {
        Op::ConstantNull => Some(0),
        Op::Constant => inst.constant_bits(),
        _ => None,
    }
}

/// Returns the location of a pointer derived from another.
fn derived(m: &mut Module, g: &mut Globals, inst: &Inst, base: Location) -> Option<Location> {
    match inst.op {
        op if op.is_member_chain() => inst.ids_from(1).try_fold(base, |location, index| location.step(m, index)),
        Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
            let base = base.advanced(m, g, inst.id(1)?)?;
            inst.ids_from(2).try_fold(base, |location, index| location.step(m, index))
        }
        Op::Bitcast => {
            let wanted = pointee(m, inst.ty?)?;
            Some(base.reinterpreted(m, g, wanted))
        }
        _ => Some(base),
    }
}

impl Location {
    fn ty(&self) -> Option<Id> {
        self.types.last().copied()
    }

    /// Returns the location one index deeper.
    fn step(mut self, m: &Module, index: Id) -> Option<Location> {
        if let Some(seen) = self.seen {
            return self.step_through_wrapper(m, seen, index);
        }
        let next = match Type::of(m, self.ty()?)? {
            Type::Array { elem, .. } | Type::Vector { elem, .. } => elem,
            Type::CoopMat(ty) => ty.component,
            Type::Struct { members } => *members.get(usize::try_from(known(m, index)?).ok()?)?,
            _ => return None,
        };
        self.path.push(index);
        self.types.push(next);
        Some(self)
    }

    /// Returns the location one index deeper into the type of a cast. A struct with one member is at the location of
    /// the member, and an array of such structs at that of an array of members.
    fn step_through_wrapper(mut self, m: &Module, seen: Id, index: Id) -> Option<Location> {
        let inside = match Type::of(m, seen)? {
            Type::Struct { members } if members.len() == 1 && known(m, index) == Some(0) => *members.first()?,
            Type::Array { elem, .. } => match Type::of(m, self.ty()?)? {
                Type::Array { .. } => {
                    let place = Location { seen: None, ..self }.step(m, index)?;
                    return Some(place.with_wrapper_type(m, elem));
                }
                // The first element.
                _ if known(m, index) == Some(0) => elem,
                _ => return None,
            },
            _ => return None,
        };
        self.seen = None;
        Some(self.with_wrapper_type(m, inside))
    }

    /// Returns the same location with the type of a wrapper, or its own.
    fn with_wrapper_type(self, m: &Module, wanted: Id) -> Location {
        let seen = (self.ty() != Some(wanted) && wraps(m, wanted, self.ty())).then_some(wanted);
        Location { seen, ..self }
    }

    /// Returns the location advanced by `count` objects.
    fn advanced(mut self, m: &mut Module, g: &mut Globals, count: Id) -> Option<Location> {
        let count_known = known(m, count);
        if count_known == Some(0) {
            return Some(self);
        }
        let last = *self.path.last()?;
        let container = *self.types.get(self.types.len().checked_sub(2)?)?;
        if !matches!(Type::of(m, container)?, Type::Array { .. } | Type::CoopMat(_)) {
            return None;
        }
        // Both are known numbers, or one of them is zero.
        let sum = match (known(m, last), count_known) {
            (Some(0), _) => count,
            (Some(a), Some(b)) => g.u32(m, u32::try_from(a.checked_add(b)?).ok()?),
            _ => return None,
        };
        *self.path.last_mut()? = sum;
        Some(self)
    }

    /// Returns the same location as another type, if one is at its beginning or around it. Otherwise it stays as it is:
    /// the accesses determine the type.
    fn reinterpreted(self, m: &mut Module, g: &mut Globals, wanted: Id) -> Location {
        let mut inside = Location { seen: None, ..self.clone() };
        while inside.ty() != Some(wanted) {
            let first = match inside.ty().and_then(|t| Type::of(m, t)) {
                Some(Type::Array { .. } | Type::Struct { .. } | Type::CoopMat(_)) => g.u32(m, 0),
                _ => break,
            };
            match inside.clone().step(m, first) {
                Some(next) => inside = next,
                None => break,
            }
        }
        if inside.ty() == Some(wanted) {
            return Location { seen: None, ..inside };
        }
        if wraps(m, wanted, self.ty()) {
            return Location { seen: Some(wanted), ..self };
        }
        let mut around = Location { seen: None, ..self.clone() };
        while around.ty() != Some(wanted) && around.path.last().is_some_and(|i| known(m, *i) == Some(0)) {
            around.path.pop();
            around.types.pop();
        }
        if around.ty() == Some(wanted) { Location { seen: None, ..around } } else { self }
    }

    /// Makes the pointer in front of an instruction.
    fn pointer(&self, m: &mut Module, g: &mut Globals, r: InstRef, ty: Id) -> Id {
        if self.path.is_empty() {
            return self.variable;
        }
        let (ty, id) = (g.pointer(m, StorageClass::Function, ty), m.fresh_id());
        let operands = [self.variable].into_iter().chain(self.path.iter().copied()).map(Operand::Id);
        let chain = Inst::new(Op::AccessChain, Some(ty), Some(id), operands).at(m.inst(r).origin);
        insert_before(m, r, chain);
        id
    }

    /// Returns the same location as a type that can be bit-copied to `ty`.
    fn fitting(&self, m: &mut Module, g: &mut Globals, ty: Id) -> Option<Location> {
        let bits = |m: &Module, t: Id| types::scalar_or_vector(m, t).map(|(s, n)| s.width() * n);
        let mut location = Location { seen: None, ..self.clone() };
        for _ in 0..8 {
            let now = location.ty()?;
            if now == ty || bits(m, now).is_some() && bits(m, now) == bits(m, ty) {
                return Some(location);
            }
            let zero = g.u32(m, 0);
            location = location.step(m, zero)?;
        }
        None
    }
}

/// Returns true if a type is another one wrapped in structs with one member, or an array of such where that is an
/// array.
fn wraps(m: &Module, outer: Id, inner: Option<Id>) -> bool {
    let (mut outer, Some(mut inner)) = (outer, inner) else { return false };
    for _ in 0..16 {
        if outer == inner {
            return true;
        }
        match (Type::of(m, outer), Type::of(m, inner)) {
            (Some(Type::Struct { members }), _) if members.len() == 1 => outer = members[0],
            (Some(Type::Array { elem: a, len: n }), Some(Type::Array { elem: b, len: k }))
                if known(m, n).is_some() && known(m, n) == known(m, k) =>
            {
                (outer, inner) = (a, b);
            }
            _ => return false,
        }
    }
    false
}

fn load(m: &mut Module, g: &mut Globals, r: InstRef, location: &Location) -> Result<(), Refusal> {
    let inst = m.inst(r).clone();
    let found = inst.ty.and_then(|ty| Some((ty, location.fitting(m, g, ty)?)));
    let Some((wanted, location)) = found else { return Err(untracked(m, r)) };
    let Some(ty) = location.ty() else { return Err(untracked(m, r)) };
    let pointer = location.pointer(m, g, r, ty);
    if ty == wanted {
        m.replace(r, Inst::new(Op::Load, Some(ty), inst.result, [pointer.into()]).at(inst.origin));
        return Ok(());
    }
    let raw = m.fresh_id();
    insert_before(m, r, Inst::new(Op::Load, Some(ty), Some(raw), [pointer.into()]).at(inst.origin));
    m.replace(r, Inst::new(Op::Bitcast, Some(wanted), inst.result, [raw.into()]).at(inst.origin));
    Ok(())
}

fn store(m: &mut Module, g: &mut Globals, r: InstRef, location: &Location) -> Result<(), Refusal> {
    let inst = m.inst(r).clone();
    let given = inst.stored().and_then(|value| Some((value, m.type_of(value)?)));
    let found = given.and_then(|(value, ty)| Some((value, ty, location.fitting(m, g, ty)?)));
    let Some((mut value, given, location)) = found else { return Err(untracked(m, r)) };
    let Some(ty) = location.ty() else { return Err(untracked(m, r)) };
    if ty != given {
        let raw = m.fresh_id();
        insert_before(m, r, Inst::new(Op::Bitcast, Some(ty), Some(raw), [value.into()]).at(inst.origin));
        value = raw;
    }
    let pointer = location.pointer(m, g, r, ty);
    m.replace(r, Inst::new(Op::Store, None, None, [pointer, value].map(Operand::Id)).at(inst.origin));
    Ok(())
}
