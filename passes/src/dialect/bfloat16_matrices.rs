//! Changes matrices of 16-bit integers that hold bfloat16 into matrices of bfloat16, for devices that have those.
//!
//! Precondition: [`super::float_conversions`] has put bit casts where such matrices are computed with. Effect: a type
//! all of whose values are loaded, stored, moved and cast gets bfloat16 components, under its id; the casts become
//! copies, and single elements are cast where they are extracted or inserted. A type whose values are used otherwise,
//! such as by integer arithmetic, stays as it is.

use super::rewriter::Rewriter;
use crate::Refusal;
use coop_ir::builder::require_capability;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{remove_globals, replace_uses, sort_globals};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

pub(super) fn run(m: &mut Module) -> Result<(), Refusal> {
    let mut pairs = pairs(m);
    if pairs.is_empty() {
        return Ok(());
    }
    let mut e = Rewriter::new(m);
    let ineligible = Usage::new(&e, &pairs).ineligible();
    pairs.retain(|ty, _| !ineligible.contains(ty));
    if pairs.is_empty() {
        return Ok(());
    }
    let pointers = Usage::new(&e, &pairs).element_pointers();
    let retype = Retype { bf16: e.g.scalar(e.m, Scalar::BF16), pairs, pointers };
    e.each(&mut |e, r| retype.inst(e, r))?;
    retype.globals(&mut e);
    sort_globals(m);
    Ok(())
}

/// The types of 16-bit integers that are cast from or to bfloat16, each with that type.
fn pairs(m: &Module) -> FxHashMap<Id, Id> {
    let mut out = FxHashMap::default();
    for r in m.functions.iter().flat_map(|f| f.insts()).filter(|r| m.inst(*r).op == Op::Bitcast) {
        let i = m.inst(r);
        let (Some(to), Some(from)) = (i.ty, i.converted().and_then(|v| m.type_of(v))) else { continue };
        let scalar = |t: Id| types::coop_mat(m, t).and_then(|t| types::scalar(m, t.component));
        match (scalar(from), scalar(to)) {
            (Some(Scalar::Int { .. }), Some(Scalar::BF16)) => drop(out.insert(from, to)),
            (Some(Scalar::BF16), Some(Scalar::Int { .. })) => drop(out.insert(to, from)),
            _ => {}
        }
    }
    out
}

/// The uses of values of the candidate types.
struct Usage<'a, 'm> {
    e: &'a Rewriter<'m>,
    pairs: &'a FxHashMap<Id, Id>,
}

impl Usage<'_, '_> {
    fn new<'a, 'm>(e: &'a Rewriter<'m>, pairs: &'a FxHashMap<Id, Id>) -> Usage<'a, 'm> {
        Usage { e, pairs }
    }

    /// Returns the type if it is a candidate.
    fn one(&self, ty: Option<Id>) -> Option<Id> {
        ty.filter(|t| self.pairs.contains_key(t))
    }

    fn of_value(&self, id: Option<Id>) -> Option<Id> {
        self.one(id.and_then(|id| self.e.m.type_of(id)))
    }

    /// Returns the matrix type that an access chain to an element goes through.
    fn through(&self, inst: &Inst) -> Option<Id> {
        if !inst.op.is_member_chain() {
            return None;
        }
        let mut ty = self.e.pointee(inst.derived_from()?)?;
        for index in inst.ids_from(1) {
            if self.pairs.contains_key(&ty) {
                return Some(ty);
            }
            ty = match Type::of(self.e.m, ty)? {
                Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. } => elem,
                Type::Struct { members } => *members.get(self.e.known(index)? as usize)?,
                _ => return None,
            };
        }
        None
    }

    /// Returns the pointers to elements, with the matrix types.
    fn element_pointers(&self) -> FxHashMap<Id, Id> {
        let insts = self.e.m.functions.iter().flat_map(|f| f.insts()).map(|r| self.e.m.inst(r));
        insts.filter_map(|i| Some((i.result?, self.through(i)?))).collect()
    }

    /// Returns the types whose values have uses that a change of the component type does not allow.
    fn ineligible(&self) -> FxHashSet<Id> {
        let pointers = self.element_pointers();
        let mut out = FxHashSet::default();
        for r in self.e.m.all() {
            let inst = self.e.m.inst(r);
            let mentioned = inst.ids().filter_map(|id| self.of_value(Some(id))).chain(self.one(inst.ty));
            let fits = match inst.op {
                op if op.moves_whole_values() || op.is_member_chain() => true,
                op if op.is_name() || op.is_literal_decoration() => true,
                op if op.is_matrix_access() && op.is_matrix_instruction() => true,
                op if op.is_matrix_length() || op == Op::CooperativeMatrixGetCoordinateEXT => true,
                op if op.rearranges_matrix() || op == Op::ExtInst => true,
                Op::Bitcast => {
                    let (from, to) = (inst.converted().and_then(|v| self.e.m.type_of(v)), inst.ty);
                    let pair = |a: Option<Id>, b: Option<Id>| a.and_then(|a| self.pairs.get(&a).copied()) == b;
                    pair(from, to) || pair(to, from)
                }
                // Only a single element, not one inside another composite.
                Op::CompositeExtract => inst.operands.len() == 2,
                Op::CompositeInsert => inst.operands.len() == 3,
                Op::CompositeConstruct => inst.operands.len() == 1,
                Op::ConstantComposite => {
                    let value = inst.ids().next().and_then(|id| self.e.m.def_inst(id));
                    inst.operands.len() == 1 && value.is_some_and(|v| v.op == Op::Constant)
                }
                _ => false,
            };
            if !fits {
                out.extend(mentioned);
            }
            // Pointers to elements are only loaded from and stored to.
            for (at, id) in inst.ids().enumerate() {
                let access = inst.op == Op::Load || inst.op == Op::Store && at == 0;
                if let Some(ty) = pointers.get(&id).filter(|_| !access && !matches!(inst.op, Op::Name | Op::Decorate)) {
                    out.insert(*ty);
                }
            }
        }
        out
    }
}

struct Retype {
    bf16: Id,
    pairs: FxHashMap<Id, Id>,
    pointers: FxHashMap<Id, Id>,
}

impl Retype {
    fn cast(&self, e: &mut Rewriter<'_>, value: Id) -> Id {
        e.ids(Op::Bitcast, self.bf16, &[value])
    }

    /// Replaces an instruction that returns an integer by one that returns bfloat16, and a cast of that.
    fn cast_result(&self, e: &mut Rewriter<'_>, r: InstRef) {
        let inst = e.m.inst(r).clone();
        let raw = e.op(inst.op, self.bf16, inst.operands.iter().copied());
        e.replace(r, Op::Bitcast, [raw.into()]);
    }

    fn inst(&self, e: &mut Rewriter<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let is = |e: &Rewriter<'_>, id: Option<Id>| {
            id.and_then(|id| e.m.type_of(id)).is_some_and(|t| self.pairs.contains_key(&t))
        };
        let own = inst.ty.is_some_and(|t| self.pairs.contains_key(&t));
        let element = |id: Option<Id>| id.is_some_and(|id| self.pointers.contains_key(&id));
        let mut operands = inst.operands.clone();
        match inst.op {
            Op::Bitcast if own || is(e, inst.converted()) => e.replace(r, Op::CopyObject, operands),
            Op::CompositeConstruct if own => {
                if let Some(value) = inst.id(0) {
                    operands[0] = self.cast(e, value).into();
                    e.replace(r, inst.op, operands);
                }
            }
            Op::CompositeExtract if is(e, inst.id(0)) => self.cast_result(e, r),
            Op::CompositeInsert if own => {
                if let Some(value) = inst.id(0) {
                    operands[0] = self.cast(e, value).into();
                    e.replace(r, inst.op, operands);
                }
            }
            Op::Load if element(inst.accessed()) => self.cast_result(e, r),
            Op::Store if element(inst.accessed()) => {
                if let Some(value) = inst.stored() {
                    operands[1] = self.cast(e, value).into();
                    e.replace(r, inst.op, operands);
                }
            }
            Op::AccessChain | Op::InBoundsAccessChain if element(inst.result) => {
                let storage = match inst.ty.and_then(|t| Type::of(e.m, t)) {
                    Some(Type::Pointer { storage, .. }) => storage,
                    _ => StorageClass::Function,
                };
                let ty = e.g.pointer(e.m, storage, self.bf16);
                e.m.inst_mut(r).ty = Some(ty);
            }
            _ => {}
        }
        Ok(true)
    }

    /// Rewrites the types and their constants.
    fn globals(&self, e: &mut Rewriter<'_>) {
        for r in e.m.globals.clone() {
            let inst = e.m.inst(r).clone();
            if inst.op == Op::ConstantComposite && inst.ty.is_some_and(|t| self.pairs.contains_key(&t)) {
                let bits = inst.ids().next().and_then(|id| e.known(id)).unwrap_or(0) & 0xffff;
                let value = e.g.constant_of(e.m, self.bf16, Scalar::BF16, bits);
                e.m.inst_mut(r).operands[0] = value.into();
            }
        }
        let mut pairs: Vec<(Id, Id)> = self.pairs.iter().map(|(ty, same)| (*ty, *same)).collect();
        pairs.sort_unstable();
        for (ty, same) in &pairs {
            if let Some(r) = e.m.def(*ty) {
                e.m.inst_mut(r).operands[0] = Operand::Id(self.bf16);
            }
            replace_uses(e.m, &[(*same, *ty)].into_iter().collect());
            remove_globals(e.m, |m, r| m.inst(r).result == Some(*same));
        }
        require_capability(e.m, Capability::BFloat16CooperativeMatrixKHR);
    }
}
