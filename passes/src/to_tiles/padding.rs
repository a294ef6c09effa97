//! Finds the factors that may hold nonzero elements beyond their last row or column.
//!
//! A product of tiles sums whole tiles, also where K ends inside one. Elements of A and B beyond the end of K must be zero
//! there. Loads, exchanges and operations on such factors make them zero ([`super::shape`], invariant 3). Constants, splats,
//! quotients and elements that the module writes fill whole tiles: this analysis finds them, and products stage them in
//! shared memory first, where the elements beyond the end are zeroed.

use super::per_element::is_guarded;
use super::shape::Mat;
use crate::matrix::placement::Use;
use coop_ir::constant::Constants;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op};

/// Returns true if K ends inside a tile of this factor.
pub(super) fn ends_inside(mat: Mat) -> bool {
    match mat.shape.use_ {
        Use::A => !mat.shape.cols.is_multiple_of(mat.tile_cols),
        Use::B => !mat.shape.rows.is_multiple_of(mat.tile_rows),
        Use::Accumulator => false,
    }
}

/// The values, and variables, in which something that is not zero may be beyond the end of K.
pub(super) fn filled(m: &Module, constants: &Constants, mats: &FxHashMap<Id, Mat>) -> FxHashSet<Id> {
    let mut padding = Padding { m, constants, mats, holders: FxHashMap::default(), filled: FxHashSet::default() };
    if !mats.values().any(|mat| ends_inside(*mat)) {
        return padding.filled;
    }
    loop {
        let before = padding.filled.len();
        for r in m.all() {
            padding.inst(m.inst(r));
        }
        if padding.filled.len() == before {
            return padding.filled;
        }
    }
}

struct Padding<'a> {
    m: &'a Module,
    constants: &'a Constants,
    mats: &'a FxHashMap<Id, Mat>,
    /// True for types that are such matrices, or contain them.
    holders: FxHashMap<Id, bool>,
    filled: FxHashSet<Id>,
}

impl Padding<'_> {
    fn inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Store => self.store(inst),
            Op::CopyMemory => {
                let from = inst.id(1).and_then(|p| self.root(p));
                if inst.id(1).is_some_and(|p| self.points_to_holder(p)) && self.is_filled(from) {
                    self.fill(inst.id(0).and_then(|p| self.root(p)));
                }
            }
            // A function may write any element through a pointer.
            Op::FunctionCall => {
                for pointer in inst.ids_from(1).collect::<Vec<_>>() {
                    if self.points_to_holder(pointer) {
                        self.fill(self.root(pointer));
                    }
                }
            }
            _ => {}
        }
        let (Some(result), Some(ty)) = (inst.result, inst.ty) else { return };
        if self.filled.contains(&result) {
            return;
        }
        let found = match inst.op {
            Op::Variable => self.points_to_holder(result) && inst.id(1).is_some_and(|id| self.filled.contains(&id)),
            _ if !self.holds(ty) => false,
            _ => self.fills(inst, ty),
        };
        if found {
            self.filled.insert(result);
        }
    }

    /// Returns true if an instruction gives a value with something beyond the end of K.
    fn fills(&self, inst: &Inst, ty: Id) -> bool {
        let mat = self.mats.get(&ty);
        let constructs = inst.op.is_composite();
        match inst.op {
            op if op.is_null_or_undefined() || op == Op::CooperativeMatrixLoadKHR => false,
            // Exchanges clear what is beyond.
            op if op.rearranges_matrix() => false,
            // Clipped elements are those of the object.
            Op::CooperativeMatrixLoadTensorNV => self.one_of(inst.ids().skip(1).take(1)),
            Op::CooperativeMatrixPerElementOpNV => {
                !mat.is_some_and(|mat| is_guarded(*mat)) || self.one_of(inst.ids().take(1))
            }
            _ if constructs && mat.is_some() => !inst.ids().all(|id| self.constants.get(id).fixed() == Some(0)),
            _ if constructs => self.one_of(inst.ids()),
            Op::CompositeExtract | Op::Phi | Op::Select | Op::CopyObject | Op::CopyLogical => self.one_of(inst.ids()),
            Op::CompositeInsert if mat.is_none() => self.one_of(inst.ids()),
            // Infinity times zero is no number.
            Op::MatrixTimesScalar => {
                !mat.is_some_and(|mat| mat.elem.scalar.is_int()) || self.one_of(inst.ids().take(1))
            }
            // Zeros divided by zeros are anything.
            op if op.is_division() => true,
            op if op.is_elementwise() => self.one_of(inst.ids()),
            Op::Load => self.is_filled(inst.accessed().and_then(|p| self.root(p))),
            _ => true,
        }
    }

    fn one_of(&self, mut ids: impl Iterator<Item = Id>) -> bool {
        ids.any(|id| self.filled.contains(&id))
    }

    /// A store of a matrix, or of an element of one.
    fn store(&mut self, inst: &Inst) {
        let (Some(pointer), Some(object)) = (inst.accessed(), inst.stored()) else { return };
        let Some(root) = self.root(pointer) else { return };
        if !self.points_to_holder(root) {
            return;
        }
        let of_element = !self.points_to_holder(pointer);
        if of_element || self.filled.contains(&object) {
            self.filled.insert(root);
        }
    }

    fn fill(&mut self, variable: Option<Id>) {
        self.filled.extend(variable);
    }

    /// Returns true if a variable is; pointers that lead nowhere known are.
    fn is_filled(&self, variable: Option<Id>) -> bool {
        variable.is_none_or(|v| self.filled.contains(&v))
    }

    /// The variable that a pointer leads to.
    fn root(&self, pointer: Id) -> Option<Id> {
        let root = pointers::root(self.m, pointer, |op| op.is_member_chain() || op == Op::CopyObject)?;
        (self.m.def_inst(root)?.op == Op::Variable).then_some(root)
    }

    fn points_to_holder(&mut self, pointer: Id) -> bool {
        match self.m.type_of(pointer).and_then(|t| Type::of(self.m, t)) {
            Some(Type::Pointer { pointee, .. }) => self.holds(pointee),
            _ => false,
        }
    }

    fn holds(&mut self, ty: Id) -> bool {
        if let Some(known) = self.holders.get(&ty) {
            return *known;
        }
        // What a type points to, it does not hold: there are no cycles.
        self.holders.insert(ty, false);
        let found = match Type::of(self.m, ty) {
            Some(Type::CoopMat(_)) => self.mats.get(&ty).is_some_and(|mat| ends_inside(*mat)),
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => self.holds(elem),
            Some(Type::Struct { members }) => members.into_iter().any(|t| self.holds(t)),
            _ => false,
        };
        self.holders.insert(ty, found);
        found
    }
}
