//! Declares the shared memory that ends at a multiple of 16 bytes last.
//!
//! NVIDIA's driver (580.159) places the variables of shared memory in the reverse order of their declarations, each at a multiple of
//! what its type is aligned to, and moves the rows of a matrix 16 bytes at a time from wherever the variable begins: an array of
//! `v4char` that is declared before one of 767 integers begins at a multiple of 4, and other bytes are loaded. Nothing that a module
//! can say aligns such a variable; the order of declarations has no other meaning.
//!
//! Precondition: none. Effect: variables of shared memory whose sizes are not multiples of 16 are declared before those whose sizes are,
//! and of the former those last that matrices are stored to or loaded from. The others keep their order, and stay in place if
//! it is right.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::FxHashSet;
use coop_ir::pointers::root;
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::StorageClass;
use coop_ir::types::{Type, natural_size};
use coop_ir::{Id, InstRef, Module, Op};

/// The bytes that a driver moves at once, and expects a row of a matrix to begin with a multiple of.
const MOVED: u64 = 16;

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    let accesses = m.all().map(|r| m.inst(r)).filter(|inst| inst.op.is_matrix_access());
    let of_matrices: FxHashSet<Id> =
        accesses.filter_map(|inst| root(m, inst.accessed()?, Op::derives_pointer)).collect();
    let mut shared: Vec<InstRef> = m.globals_with(Op::Variable).filter(|r| shared_type(m, *r).is_some()).collect();
    if of_matrices.is_empty() || shared.len() < 2 {
        return Ok(());
    }
    let constants = Constants::new(m, &Specialization::new());
    let key = |r: &InstRef| {
        let size = shared_type(m, *r).and_then(|ty| natural_size(m, &constants, ty));
        match size {
            Some((size, _)) if size.is_multiple_of(MOVED) => 2,
            _ => u8::from(m.inst(*r).result.is_some_and(|id| of_matrices.contains(&id))),
        }
    };
    if shared.is_sorted_by_key(key) {
        return Ok(());
    }
    let moved: FxHashSet<InstRef> = shared.iter().copied().collect();
    shared.sort_by_cached_key(key);
    m.globals.retain(|r| !moved.contains(r));
    m.globals.extend(shared);
    // What mentions a variable, as debug information does, comes behind it.
    sort_globals(m);
    Ok(())
}

/// Returns the type of a variable of shared memory.
fn shared_type(m: &Module, variable: InstRef) -> Option<Id> {
    match m.inst(variable).ty.and_then(|ty| Type::of(m, ty)) {
        Some(Type::Pointer { storage: StorageClass::Workgroup, pointee }) => Some(pointee),
        _ => None,
    }
}
