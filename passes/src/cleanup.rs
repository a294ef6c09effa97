//! Removes unused capabilities, extensions, types, constants, functions and values.
//!
//! Precondition: none. Effect: capabilities and extensions of cooperative matrices are removed if no matrix is left;
//! unused types, constants, names, functions and values are removed, common subexpressions of a block are merged
//! ([`local_cse`]), and physical addressing is removed if nothing has an address. Variables and everything with a binding
//! stay.

use crate::pipeline::PassCx;
use crate::{Refusal, Target, capabilities, inline, kernel, local_cse};
use coop_ir::builder::{require_capability, require_extension};
use coop_ir::extensions::{capabilities_of, capability_of_component, extensions_of};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::remove_unused_globals;
pub(crate) use coop_ir::rewrite::{remove_capability, remove_extension};
use coop_ir::spv::{AddressingModel, Capability, Decoration, LinkageType, StorageClass};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, IdIndex, IdSet, InstRef, Module, Op, Operand};

/// The extensions that add to the matrices of SPV_KHR_cooperative_matrix, removed if the output does not need them.
const BEYOND_KHR: [&str; 4] = [
    "SPV_NV_cooperative_matrix2",
    "SPV_NV_tensor_addressing",
    "SPV_NV_cooperative_matrix_decode_vector",
    "SPV_EXT_cooperative_matrix_maintenance1",
];

/// The extensions that define matrix types.
const BASE: [&str; 2] = ["SPV_KHR_cooperative_matrix", "SPV_NV_cooperative_matrix"];

/// The capabilities that instructions of SPV_EXT_cooperative_matrix_maintenance1 need.
const BEYOND_CAPABILITIES: [(Op, Capability); 4] = [
    (Op::CooperativeMatrixReduceNV, Capability::CooperativeMatrixReductionsNV),
    (Op::CooperativeMatrixPerElementOpNV, Capability::CooperativeMatrixPerElementOperationsNV),
    (Op::CooperativeMatrixConvertNV, Capability::CooperativeMatrixConversionsEXT),
    (Op::CooperativeMatrixGetCoordinateEXT, Capability::CooperativeMatrixGetCoordinateEXT),
];

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    unused_functions(m);
    local_cse::run(m);
    remove_unused_globals(m, cx.bound);
    kernel::declare(m);
    kernel::distinct_names(m);
    unused_addresses(m);
    unused_components(m);
    let matrices = m.globals.iter().any(|r| m.inst(*r).op == Op::TypeCooperativeMatrixKHR);
    let beyond = m.all().any(|r| is_beyond_khr(m.inst(r).op));
    // Remaining matrices need KHR only, unless an instruction needs more.
    let gone: &[&str] = match (matrices, beyond) {
        (false, _) => {
            BASE.iter().for_each(|e| remove_with_capabilities(m, e));
            &BEYOND_KHR
        }
        (true, false) if cx.options.target != Target::Scalar => &BEYOND_KHR,
        (true, true) if cx.options.target == Target::Ext => &BEYOND_KHR,
        (true, _) => &[],
    };
    gone.iter().for_each(|e| remove_with_capabilities(m, e));
    if matrices && beyond && cx.options.target == Target::Ext {
        needed(m);
    }
    if !m.all().any(|r| m.inst(r).op.is_replicated()) {
        remove_capability(m, Capability::ReplicatedCompositesEXT);
        remove_extension(m, "SPV_EXT_replicated_composites");
    }
    capabilities::take_back(m, cx.declared);
    Ok(())
}

/// Removes the capabilities of matrices with components that none has.
fn unused_components(m: &mut Module) {
    for capability in [Scalar::BF16, Scalar::E4M3].into_iter().filter_map(capability_of_component) {
        let component = |r: InstRef| types::coop_mat(m, m.inst(r).result?).and_then(|t| types::scalar(m, t.component));
        let needs = |r| component(r).and_then(capability_of_component) == Some(capability);
        if !m.globals_with(Op::TypeCooperativeMatrixKHR).any(needs) {
            remove_capability(m, capability);
        }
    }
}

/// Returns true if an instruction needs an extension beyond SPV_KHR_cooperative_matrix.
fn is_beyond_khr(op: Op) -> bool {
    let of = |c: &Capability| extensions_of(*c).any(|e| BEYOND_KHR.contains(&e));
    op.is_matrix_op() && op.info().is_some_and(|i| i.capabilities.iter().any(of))
}

/// Declares the parts of SPV_EXT_cooperative_matrix_maintenance1 that are used.
fn needed(m: &mut Module) {
    require_extension(m, "SPV_EXT_cooperative_matrix_maintenance1");
    for (op, capability) in BEYOND_CAPABILITIES {
        if m.all().any(|r| m.inst(r).op == op) {
            require_capability(m, capability);
        }
    }
}

/// Removes an extension and its capabilities.
fn remove_with_capabilities(m: &mut Module, extension: &str) {
    let declared: Vec<Capability> = m.capabilities().collect();
    let own = capabilities_of(extension).iter().filter(|c| declared.contains(c));
    own.for_each(|c| _ = remove_capability(m, *c));
    remove_extension(m, extension);
}

/// Removes the functions that no entry point calls, unless other modules can.
pub(crate) fn unused_functions(m: &mut Module) {
    let entries: Vec<Id> = m.globals_with(Op::EntryPoint).filter_map(|r| m.inst(r).entry_function()).collect();
    if entries.is_empty() || m.all().any(|r| m.inst(r).opaque) {
        return;
    }
    let linkage = Decoration::LinkageAttributes;
    let own = |op: Op| matches!(op, Op::Name | Op::Decorate);
    let mut work = entries;
    for r in m.globals.iter().chain(&m.trailing) {
        let i = m.inst(*r);
        // Imported functions are called from this module only.
        let imports = i.operands.last().map(|o| o.word()) == Some(LinkageType::Import.0);
        if !own(i.op) || i.op == Op::Decorate && i.enumerant(1) == Some(linkage) && !imports {
            work.extend(i.ids());
        }
    }
    let mut bodies = IdIndex::new(m);
    let functions = || m.functions.iter().map(|f| m.inst(f.def).result);
    functions().zip(0..).for_each(|(id, f)| id.into_iter().for_each(|id| bodies.insert(id, f)));
    let mut used = IdSet::default();
    while let Some(id) = work.pop() {
        if let Some(f) = bodies.get(id)
            && used.insert(id)
        {
            let insts = m.functions[f as usize].insts();
            insts.for_each(|r| work.extend(m.inst(r).ids().filter(|id| bodies.get(*id).is_some())));
        }
    }
    let gone: FxHashSet<Id> = functions().flatten().filter(|id| !used.contains(*id)).collect();
    inline::remove(m, &gone);
}

/// Restores logical addressing if no pointer to PhysicalStorageBuffer memory is left.
fn unused_addresses(m: &mut Module) {
    let physical = StorageClass::PhysicalStorageBuffer;
    let has = |r: InstRef| {
        let i = m.inst(r);
        let storage = if i.op == Op::TypeForwardPointer { i.enumerant(1) } else { i.enumerant(0) };
        (i.op.is_pointer_type() || i.op == Op::TypeForwardPointer) && storage == Some(physical)
    };
    let capability = Capability::PhysicalStorageBufferAddresses;
    if m.globals.iter().any(|r| has(*r)) || !m.has_capability(capability) {
        return;
    }
    let model = m.globals_with(Op::MemoryModel).next();
    let model = model.filter(|r| m.inst(*r).enumerant(0) == Some(AddressingModel::PhysicalStorageBuffer64));
    let Some(model) = model else { return };
    m.inst_mut(model).operands[0] = Operand::Word(AddressingModel::Logical.0);
    remove_capability(m, capability);
    remove_extension(m, "SPV_KHR_physical_storage_buffer");
    remove_extension(m, "SPV_EXT_physical_storage_buffer");
}
