//! Follows the pointers into a function's variables, and collects the accesses through them.

use crate::layout::Layout;
use crate::ssa::is_debug;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// A variable.
pub(super) struct Variable {
    pub(super) id: Id,
    pub(super) at: InstRef,
}

/// A location in a variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// The index of the variable.
    pub(super) variable: usize,
    /// The offset in bytes.
    pub(super) offset: u64,
    /// The element, if the location is in a matrix.
    pub(super) element: Option<Element>,
}

/// An element of the matrix at a location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    /// The type of the matrix.
    pub(super) matrix: Id,
    pub(super) index: Id,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Variable(usize, u64),
    Elsewhere(Id),
}

/// An access to a location.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// A load, with the loaded type.
    Load(Location, Id),
    /// A store, with the stored type.
    Store(Location, Id),
    /// A copy: target, source, and number of bytes.
    Copy(End, End, u64),
}

/// The uses of the pointers into a function's variables.
#[derive(Default)]
pub(super) struct PointerUses {
    pub(super) variables: Vec<Variable>,
    pub(super) acts: Vec<(InstRef, Action)>,
    /// Instructions that are dead without the variable: pointers into it, lifetimes, debug information.
    pub(super) derived: Vec<(usize, InstRef)>,
}

/// Follows the pointers into the variables of function `f`, except for variables in `left` and those with a use that
/// can't be followed.
pub(super) fn walk(m: &Module, layout: &Layout, f: usize, left: &FxHashSet<Id>) -> PointerUses {
    let mut left = left.clone();
    loop {
        match (UseFinder { m, layout, left: &left, locations: FxHashMap::default(), walk: PointerUses::default() })
            .run(f)
        {
            Ok(walk) => return walk,
            Err(more) => left.extend(more),
        }
    }
}

struct UseFinder<'a> {
    m: &'a Module,
    layout: &'a Layout,
    left: &'a FxHashSet<Id>,
    locations: FxHashMap<Id, Location>,
    walk: PointerUses,
}

impl UseFinder<'_> {
    /// Returns the uses, or the variables with a use that can't be followed.
    fn run(mut self, f: usize) -> Result<PointerUses, FxHashSet<Id>> {
        let mut lost: FxHashSet<Id> = FxHashSet::default();
        // Definitions come before their uses.
        for r in self.m.functions[f].insts() {
            let inst = self.m.inst(r);
            if inst.op == Op::Variable {
                self.variable(r, inst);
                continue;
            }
            if !inst.ids().any(|id| self.locations.contains_key(&id)) {
                continue;
            }
            // A stored pointer escapes, for now: the variable it is stored to may be promoted.
            let escapes = inst.stored().filter(|_| inst.op == Op::Store).and_then(|id| self.locations.get(&id));
            if let Some(location) = escapes {
                lost.insert(self.walk.variables[location.variable].id);
            } else if self.follow(r, inst).is_none() {
                let used = inst.ids().filter_map(|id| self.locations.get(&id));
                lost.extend(used.map(|location| self.walk.variables[location.variable].id));
            }
        }
        if lost.is_empty() { Ok(self.walk) } else { Err(lost) }
    }

    fn variable(&mut self, r: InstRef, inst: &Inst) {
        // An initializer would have to be stored.
        let (Some(id), Some(pointee), 1) = (inst.result, pointee(self.m, inst.ty), inst.operands.len()) else { return };
        if self.left.contains(&id) || self.layout.size(self.m, pointee).is_none() {
            return;
        }
        let variable = self.walk.variables.len();
        self.walk.variables.push(Variable { id, at: r });
        self.locations.insert(id, Location { variable, offset: 0, element: None });
    }

    /// Records an instruction that uses a pointer into a variable, if it is supported.
    fn follow(&mut self, r: InstRef, inst: &Inst) -> Option<()> {
        if is_debug(self.m, inst) || is_note(inst.op) {
            for id in inst.ids().collect::<Vec<_>>() {
                let Some(location) = self.locations.get(&id) else { continue };
                self.walk.derived.push((location.variable, r));
            }
            return Some(());
        }
        let first = inst.id(0)?;
        let volatile = inst.memory_access().contains(MemoryAccess::Volatile);
        let location = self.locations.get(&first).copied();
        match inst.op {
            Op::Load if !volatile => {
                self.sized(inst.ty?)?;
                self.walk.acts.push((r, Action::Load(location?, inst.ty?)));
            }
            Op::Store if !volatile => {
                let ty = self.m.type_of(inst.stored()?)?;
                self.sized(ty)?;
                self.walk.acts.push((r, Action::Store(location?, ty)));
            }
            Op::CopyMemorySized if !volatile => {
                self.copy(r, first, inst.copied()?.1, u64::try_from(integer(self.m, inst.id(2)?)?).ok()?)?;
            }
            Op::CopyMemory if !volatile => {
                let ty = pointee(self.m, self.m.type_of(first))?;
                self.copy(r, first, inst.copied()?.1, self.layout.size(self.m, ty)?.bytes)?;
            }
            Op::LifetimeStart | Op::LifetimeStop => self.walk.derived.push((location?.variable, r)),
            op if op.derives_pointer() => {
                let location = self.derived(inst, location?)?;
                self.walk.derived.push((location.variable, r));
                self.locations.insert(inst.result?, location);
            }
            _ => return None,
        }
        Some(())
    }

    fn sized(&self, ty: Id) -> Option<u64> {
        Some(self.layout.size(self.m, ty)?.bytes)
    }

    fn copy(&mut self, r: InstRef, to: Id, from: Id, bytes: u64) -> Option<()> {
        let end = |id: Id| match self.locations.get(&id) {
            Some(Location { element: Some(_), .. }) => None,
            Some(location) => Some(End::Variable(location.variable, location.offset)),
            None => Some(End::Elsewhere(id)),
        };
        let act = Action::Copy(end(to)?, end(from)?, bytes);
        self.walk.acts.push((r, act));
        Some(())
    }

    /// Returns the location of a pointer derived from another.
    fn derived(&self, inst: &Inst, base: Location) -> Option<Location> {
        match inst.op {
            op if op.is_member_chain() => self.chain(inst, base, 1),
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
                let by = integer(self.m, inst.id(1)?)?;
                let ty = pointee(self.m, self.m.type_of(inst.derived_from()?))?;
                let base =
                    if by == 0 { base } else { advanced(base, by.checked_mul(self.sized(ty)?.try_into().ok()?)?)? };
                self.chain(inst, base, 2)
            }
            Op::GenericCastToPtrExplicit if inst.enumerant(1) != Some(StorageClass::Function) => None,
            _ => Some(base),
        }
    }

    /// Returns the location that the indices of a chain lead to, from operand `first` on.
    fn chain(&self, inst: &Inst, base: Location, first: usize) -> Option<Location> {
        let mut ty = pointee(self.m, self.m.type_of(inst.derived_from()?))?;
        let mut location = base;
        for index in inst.ids_from(first) {
            if matches!(Type::of(self.m, ty)?, Type::CoopMat(_)) {
                if location.element.is_some() {
                    return None;
                }
                location.element = Some(Element { matrix: ty, index });
                ty = types::coop_mat(self.m, ty)?.component;
                continue;
            }
            let index = integer(self.m, index)?;
            let by;
            (ty, by) = match Type::of(self.m, ty)? {
                Type::Array { elem, .. } | Type::Vector { elem, .. } => {
                    (elem, index.checked_mul(i64::try_from(self.sized(elem)?).ok()?)?)
                }
                Type::Struct { .. } => {
                    let parts = self.layout.parts(self.m, ty)?;
                    let (member, at) = *parts.get(usize::try_from(index).ok()?)?;
                    (member, i64::try_from(at).ok()?)
                }
                _ => return None,
            };
            location = if by == 0 { location } else { advanced(location, by)? };
        }
        Some(location)
    }
}

/// Returns the location advanced by some bytes.
fn advanced(location: Location, by: i64) -> Option<Location> {
    if location.element.is_some() {
        return None;
    }
    Some(Location { offset: location.offset.checked_add_signed(by)?, ..location })
}

/// Returns the pointee of a pointer type.
pub(super) fn pointee(m: &Module, ty: Option<Id>) -> Option<Id> {
    match Type::of(m, ty?)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}

/// Returns the value of a known integer, with its sign.
pub(super) fn integer(m: &Module, id: Id) -> Option<i64> {
    integer_at(m, id, 16)
}

fn integer_at(m: &Module, id: Id, depth: u32) -> Option<i64> {
    let depth = depth.checked_sub(1)?;
    let inst = m.def_inst(id)?;
    let Scalar::Int { width, .. } = types::scalar(m, inst.ty?)? else { return None };
    let operand = |n: usize| integer_at(m, inst.id(n)?, depth);
    let value = match inst.op {
        Op::ConstantNull => 0,
        Op::Constant => inst.constant_bits()? as i64,
        Op::SConvert | Op::CopyObject => operand(0)?,
        Op::UConvert => {
            let Scalar::Int { width, .. } = types::scalar(m, m.type_of(inst.converted()?)?)? else { return None };
            truncate(operand(0)?, width, false)
        }
        Op::IAdd => operand(0)?.wrapping_add(operand(1)?),
        Op::ISub => operand(0)?.wrapping_sub(operand(1)?),
        Op::IMul => operand(0)?.wrapping_mul(operand(1)?),
        _ => return None,
    };
    Some(truncate(value, width, true))
}

/// Truncates a number to its lowest bits, as signed or unsigned.
fn truncate(value: i64, width: u32, signed: bool) -> i64 {
    let up = 64u32.saturating_sub(width);
    if signed { value << up >> up } else { ((value as u64) << up >> up) as i64 }
}
