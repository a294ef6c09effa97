//! Multiplies factors in f16 whose type no matrices of the device have, and of which f16 represents every number.
//!
//! 8-bit floats (E4M3, E5M2) are such numbers: their products are the same in f16, and so are the sums. Effect: the types of such
//! factors become matrices of f16 under their own ids, if the device lacks a product of the module and has it with f16; their
//! loads convert each element on its way into a staging buffer. Nothing changes if anything else than products asks for
//! elements or bits of such a matrix, or makes one by rounding.

use super::shape::multiplies;
use crate::matrix::arena::Elem;
use crate::ssa::is_debug;
use coop_device::Profile;
use coop_ir::builder::{Globals, require_capability};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const HALF: Scalar = Scalar::Float { width: 16 };
const SINGLE: Scalar = Scalar::Float { width: 32 };

/// Returns the component type in memory of each matrix type that became one of f16.
pub(super) fn run(m: &mut Module, profile: &Profile) -> FxHashMap<Id, Elem> {
    let mut widened = FxHashMap::default();
    let products: Vec<[Id; 4]> = m
        .all()
        .filter(|r| m.inst(*r).op == Op::CooperativeMatrixMulAddKHR)
        .filter_map(|r| types_of_product(m, m.inst(r)))
        .collect();
    for product in &products {
        for ty in lacking(m, profile, *product).into_iter().flatten() {
            let component = types::coop_mat(m, ty).map(|t| t.component);
            let elem = component.and_then(|ty| Some(Elem { scalar: types::scalar(m, ty)?, ty }));
            widened.extend(elem.map(|elem| (ty, elem)));
        }
    }
    if widened.is_empty() || !m.all().all(|r| stays_exact(m, r, &widened)) {
        return FxHashMap::default();
    }
    let half = Globals::new(m).scalar(m, HALF);
    require_capability(m, Capability::Float16);
    for ty in widened.keys() {
        if let Some(r) = m.def(*ty) {
            m.inst_mut(r).operands[0] = Operand::Id(half);
        }
    }
    widened
}

/// The types of A, B, C and the result.
fn types_of_product(m: &Module, inst: &Inst) -> Option<[Id; 4]> {
    let of = |at: usize| m.type_of(inst.id(at)?);
    Some([of(0)?, of(1)?, of(2)?, inst.ty?])
}

fn component(m: &Module, ty: Id) -> Option<Scalar> {
    types::scalar(m, types::coop_mat(m, ty)?.component)
}

fn is_narrow(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::E4M3 | Scalar::E5M2)
}

/// Returns the types of the factors of a product that the device lacks, and has if those that are narrow are f16.
fn lacking(m: &Module, profile: &Profile, product: [Id; 4]) -> Option<Vec<Id>> {
    let components = product.map(|ty| component(m, ty));
    let [Some(a), Some(b), Some(c), Some(d)] = components else { return None };
    // As in the choice of tiles, sums in f32 will do.
    let has = |a, b| multiplies(profile, [a, b, c, d]) || multiplies(profile, [a, b, SINGLE, SINGLE]);
    let wide = |scalar: Scalar| if is_narrow(scalar) { HALF } else { scalar };
    if has(a, b) || !has(wide(a), wide(b)) {
        return None;
    }
    let factors = product.iter().zip([a, b]).filter(|(_, scalar)| is_narrow(*scalar));
    Some(factors.map(|(ty, _)| *ty).collect())
}

/// Returns true if an instruction means the same where the matrices of these types are of f16.
fn stays_exact(m: &Module, r: InstRef, widened: &FxHashMap<Id, Elem>) -> bool {
    let inst = m.inst(r);
    if inst.opaque || points_to_element(m, inst, widened) {
        return false;
    }
    let makes = inst.ty.is_some_and(|ty| widened.contains_key(&ty));
    let takes = inst.ids().any(|id| m.type_of(id).is_some_and(|ty| widened.contains_key(&ty)));
    match inst.op {
        _ if !makes && !takes => true,
        Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadTensorNV => makes,
        Op::CooperativeMatrixMulAddKHR => !makes,
        op => op.moves_whole_values() || is_note(op) || is_debug(m, inst),
    }
}

/// Returns true if an instruction makes a pointer that may be one to an element of such a matrix in a variable.
fn points_to_element(m: &Module, inst: &Inst, widened: &FxHashMap<Id, Elem>) -> bool {
    let pointer = inst.ty.filter(|_| inst.op.is_access_chain()).and_then(|ty| Type::of(m, ty));
    let Some(Type::Pointer { storage: StorageClass::Function | StorageClass::Private, pointee }) = pointer else {
        return false;
    };
    widened.values().any(|elem| elem.ty == pointee)
}
