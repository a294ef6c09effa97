//! Normalizes the matrices of OpenCL kernels.
//!
//! Precondition: `private`, `inline`. Effect, in a module of kernels:
//!
//! - Matrices are loaded and stored through pointers to their component type. Compilers of kernels count strides in
//!   components, whatever the pointee type.
//!
//! The rest of a kernel stays: its arguments, its pointers (Generic ones too), its control flow, which need not be
//! structured, and its subgroup size.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_device::Profile;
use coop_ir::builder::{Globals, add_global, literal_operands, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{insert_before, remove_globals, sort_globals};
use coop_ir::spv::{AddressingModel, Capability, ExecutionMode, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand, string_operands};

/// Returns true if a module has kernels.
pub(crate) fn is_kernel(m: &Module) -> bool {
    m.is_kernel()
}

/// Returns true if pointers have sizes and can be stepped anywhere.
pub(crate) fn is_physical(m: &Module) -> bool {
    let models = [AddressingModel::Physical32, AddressingModel::Physical64];
    let model = m.globals_with(Op::MemoryModel).next().and_then(|r| m.inst(r).enumerant(0));
    model.is_some_and(|model| models.contains(&model))
}

/// Returns true if sizes are 64-bit numbers.
pub(crate) fn is_wide(m: &Module) -> bool {
    let model = m.globals_with(Op::MemoryModel).next().and_then(|r| m.inst(r).enumerant(0));
    model == Some(AddressingModel::Physical64)
}

/// Returns the subgroup size that the kernels of a module require, if all that require one agree.
pub(crate) fn subgroup_size(m: &Module) -> Option<u32> {
    if !is_kernel(m) {
        return None;
    }
    let mut sizes = modes(m).filter_map(|r| m.inst(r).word(2));
    let first = sizes.next()?;
    sizes.all(|size| size == first).then_some(first)
}

fn modes(m: &Module) -> impl Iterator<Item = InstRef> + '_ {
    let mode = ExecutionMode::SubgroupSize.0;
    m.globals_with(Op::ExecutionMode).filter(move |r| m.inst(*r).word(1) == Some(mode))
}

/// Removes the required subgroup size of kernels that no longer depend on it.
pub(crate) fn forget_subgroup_size(m: &mut Module) {
    let gone: Vec<InstRef> = modes(m).collect();
    remove_globals(m, |_, r| gone.contains(&r));
    crate::cleanup::remove_capability(m, Capability::SubgroupDispatch);
}

/// Declares the capabilities that elements need and matrices did not: 16-bit floats outside memory.
pub(crate) fn declare(m: &mut Module) {
    if !is_kernel(m) || !m.has_capability(Capability::Float16Buffer) {
        return;
    }
    let half = |ty: Option<Id>| {
        ty.and_then(|t| types::scalar_or_vector(m, t)).is_some_and(|(s, _)| s == Scalar::Float { width: 16 })
    };
    if m.functions.iter().flat_map(|f| f.insts()).any(|r| half(m.inst(r).ty)) {
        require_capability(m, Capability::Float16);
    }
}

/// Gives functions unique names: LLVM's translator merges two of one name and type, and crashes.
pub(crate) fn distinct_names(m: &mut Module) {
    if !is_kernel(m) {
        return;
    }
    let functions: FxHashSet<Id> = m.functions.iter().filter_map(|f| m.inst(f.def).result).collect();
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    for r in m.globals_with(Op::Name).collect::<Vec<_>>() {
        let inst = m.inst(r);
        let Some(id) = inst.note_target().filter(|id| functions.contains(id)) else { continue };
        let Some((name, _)) = inst.string(1) else { continue };
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let name = format!("{name}.{count}");
            m.inst_mut(r).operands = [Operand::Id(id)].into_iter().chain(string_operands(&name)).collect();
        }
    }
}

/// Returns the most subgroups that a workgroup of kernels without a fixed size can have on a device.
pub(crate) fn most_subgroups(m: &Module, profile: &Profile, subgroup_size: u32) -> Option<u32> {
    is_kernel(m).then(|| profile.limits.max_compute_work_group_invocations.div_ceil(subgroup_size.max(1)))
}

/// Fixes the workgroup size, so that a kernel is not run with another.
fn fix_size(m: &mut Module, size: [u32; 3]) -> Result<(), Refusal> {
    let constants = Constants::new(m, &Specialization::new());
    for entry in entry_points(m, &Decorations::new(m)) {
        let Some(said) = &entry.workgroup_size else {
            let operands = [entry.function.into(), Operand::Word(ExecutionMode::LocalSize.0)];
            let operands = operands.into_iter().chain(size.map(Operand::Word));
            add_global(m, Inst::new(Op::ExecutionMode, None, None, operands));
            continue;
        };
        let said = said.values(&constants).map(|c| c.value().unwrap_or(0) as u32);
        if said != size {
            let [said, given] = [said, size].map(|s| s.map(|n| n.to_string()).join("x"));
            let why = format!("the kernel {} requires workgroups of {said}, not {given}", entry.name);
            let remedy = "leave --local-size out";
            return Err(Refusal::new("refused-unknown-size", m.def(entry.function), why, remedy));
        }
    }
    Ok(())
}

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if !is_kernel(m) {
        return Ok(());
    }
    if let Some(size) = cx.options.local_size {
        fix_size(m, size)?;
    }
    let mut g = Globals::new(m);
    let insts: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
    for r in insts {
        through_component(m, &mut g, r);
    }
    sort_globals(m);
    Ok(())
}

/// Rewrites matrices into the form that Intel's compiler accepts: access chains to elements begin at the matrix, and
/// integers that types and layouts consist of, and matrices of zeros, are constants, not nulls.
pub(crate) fn spell_out(m: &mut Module, g: &mut Globals) {
    for r in m.globals_with(Op::ConstantNull).collect::<Vec<_>>() {
        let inst = m.inst(r).clone();
        if let Some(scalar @ Scalar::Int { .. }) = inst.ty.and_then(|t| types::scalar(m, t)) {
            m.replace(r, Inst::new(Op::Constant, inst.ty, inst.result, literal_operands(scalar, 0)).at(inst.origin));
        }
        let component = inst.ty.and_then(|t| types::coop_mat(m, t)).and_then(|ty| types::scalar(m, ty.component));
        if let Some(component) = component {
            let zero = g.constant(m, component, 0);
            m.replace(r, Inst::new(Op::ConstantComposite, inst.ty, inst.result, [zero.into()]).at(inst.origin));
        }
    }
    for r in m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<_>>() {
        let inst = m.inst(r).clone();
        if !inst.op.is_member_chain() {
            continue;
        }
        let Some((storage, at, matrix)) = through_matrix(m, &inst).filter(|(_, at, _)| *at > 1) else { continue };
        let (ty, id) = (g.pointer(m, storage, matrix), m.fresh_id());
        let outer = inst.operands.iter().take(at).copied();
        insert_before(m, r, Inst::new(inst.op, Some(ty), Some(id), outer).at(inst.origin));
        let inner = [Operand::Id(id)].into_iter().chain(inst.operands.iter().skip(at).copied());
        m.replace(r, Inst::new(inst.op, inst.ty, inst.result, inner).at(inst.origin));
    }
    sort_globals(m);
}

/// Returns the storage class of a chain, and the operand that is an index into a matrix, with the matrix's type.
pub(crate) fn through_matrix(m: &Module, inst: &Inst) -> Option<(StorageClass, usize, Id)> {
    let Type::Pointer { storage, mut pointee } = Type::of(m, m.type_of(inst.id(0)?)?)? else { return None };
    for (at, index) in inst.ids().enumerate().skip(1) {
        let ty = m.def_inst(pointee)?;
        let member = match ty.op {
            Op::TypeCooperativeMatrixKHR => return Some((storage, at, pointee)),
            Op::TypeStruct => match m.def_inst(index)? {
                i if i.op == Op::ConstantNull => 0,
                i if i.op == Op::Constant => i.literal()?,
                _ => return None,
            },
            _ => 0,
        };
        pointee = ty.part_type(member)?;
    }
    None
}

/// Replaces the pointer of a load or store of a matrix by one to the component type.
fn through_component(m: &mut Module, g: &mut Globals, r: InstRef) {
    let inst = m.inst(r);
    let Some(access) = inst.matrix_access().filter(|_| !inst.op.is_nv_matrix_op()) else { return };
    let matrix = access.object.map_or(inst.ty, |id| m.type_of(id));
    let component = matrix.and_then(|ty| types::coop_mat(m, ty)).map(|ty| ty.component);
    let (Some(component), Some(pointer), origin) = (component, Some(access.pointer), inst.origin) else { return };
    let Some(Type::Pointer { storage, pointee }) = m.type_of(pointer).and_then(|t| Type::of(m, t)) else { return };
    if pointee == component {
        return;
    }
    let ty = g.pointer(m, storage, component);
    let id = m.fresh_id();
    insert_before(m, r, Inst::new(Op::Bitcast, Some(ty), Some(id), [pointer.into()]).at(origin));
    m.inst_mut(r).operands[0] = Operand::Id(id);
}
