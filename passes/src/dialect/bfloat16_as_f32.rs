//! Converts bfloat16 factors to f32, for devices that run kernels and multiply f32 but not bfloat16.
//!
//! Intel's compiler of kernels does the same: it has no bfloat16 type, and multiplies f32 as tf32, which represents
//! every bfloat16 exactly. Precondition: [`super::bfloat16_matrices`]. Effect: matrix types for A and B all of whose
//! values are loaded, moved and multiplied get f32 components, under their ids; their loads are tensor loads that
//! decode each element.

use super::float_conversions::value_of;
use super::rewriter::Rewriter;
use super::tensor_form;
use crate::kernel::{is_kernel, through_matrix};
use crate::pipeline::PassCx;
use crate::{Checked, Refusal};
use coop_device::{ComponentType, Profile};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{remove_globals, replace_uses, sort_globals};
use coop_ir::spv::CooperativeMatrixUse as Use;
use coop_ir::spv::TensorAddressingOperands;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, InstRef, Module, Op, Operand};
use std::collections::BTreeSet;

/// The tensor operand that names a decode function, and the one that names a view.
const DECODE: u32 = TensorAddressingOperands::DecodeFunc.0;
const VIEW: u32 = TensorAddressingOperands::TensorView.0;

pub(super) fn run(m: &mut Module, cx: &PassCx<'_>) -> Result<(), Refusal> {
    if !is_kernel(m) || !cx.options.profile.is_some_and(widens) {
        return Ok(());
    }
    let types = candidates(m);
    if types.is_empty() {
        return Ok(());
    }
    // Loads of f32 will have the same type, and decode nothing.
    let of_bfloat16 = |r: &InstRef| m.inst(*r).ty.is_some_and(|t| types.contains(&t));
    let loads: FxHashSet<InstRef> = m.all().filter(of_bfloat16).collect();
    let mut e = Rewriter::new(m);
    let f32_type = e.g.scalar(e.m, Scalar::Float { width: 32 });
    let mut same = FxHashMap::default();
    for ty in &types {
        let Some(mut operands) = e.m.def_inst(*ty).map(|i| i.operands.clone()) else { continue };
        operands[0] = f32_type.into();
        let there = e.m.globals_with(Op::TypeCooperativeMatrixKHR).find(|r| e.m.inst(*r).operands == operands);
        same.extend(there.and_then(|r| e.m.inst(r).result).map(|id| (id, *ty)));
        if let Some(r) = e.m.def(*ty) {
            e.m.inst_mut(r).operands = operands;
        }
    }
    replace_uses(e.m, &same);
    remove_globals(e.m, |m, r| m.inst(r).result.is_some_and(|id| same.contains_key(&id)));
    let mut decoders = FxHashMap::default();
    e.each(&mut |e, r| {
        if loads.contains(&r) {
            load(e, r, &mut decoders, f32_type)?;
        }
        Ok(true)
    })?;
    sort_globals(m);
    Ok(())
}

/// Returns true if a device multiplies f32 but not bfloat16.
fn widens(profile: &Profile) -> bool {
    let has = |c: ComponentType| profile.khr_properties.iter().any(|p| p.a == c && p.b == c);
    has(ComponentType::F32) && !has(ComponentType::Bf16)
}

/// Returns the bfloat16 types for A and B whose values are only loaded, moved and multiplied.
fn candidates(m: &Module) -> BTreeSet<Id> {
    let constants = coop_ir::constant::Constants::new(m, &coop_ir::constant::Specialization::new());
    let factor = |ty: types::CoopMat| {
        let view = ty.view(m, &constants);
        view.component == Some(Scalar::BF16) && matches!(view.use_.fixed_as(), Some(Use::MatrixAKHR | Use::MatrixBKHR))
    };
    let types = m.globals_with(Op::TypeCooperativeMatrixKHR).filter_map(|r| types::coop_mat(m, m.inst(r).result?));
    let mut found: BTreeSet<Id> = types.filter(|t| factor(*t)).map(|t| t.id).collect();
    for r in m.all() {
        let i = m.inst(r);
        let fits = match i.op {
            op if op.moves_whole_values() || op.is_matrix_length() => true,
            op if op.is_name() || op.is_literal_decoration() => true,
            Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixMulAddKHR => true,
            Op::CooperativeMatrixLoadTensorNV => decode_at(i).is_some(),
            _ => false,
        };
        // An access to an element would see other bits.
        if let Some((_, _, ty)) = i.op.is_member_chain().then(|| through_matrix(m, i)).flatten() {
            found.remove(&ty);
        }
        if !fits {
            for ty in i.ids().filter_map(|id| m.type_of(id)).chain(i.ty) {
                found.remove(&ty);
            }
        }
    }
    found
}

/// Returns the operand index of the tensor addressing operands of a tensor load that does not decode yet.
fn decode_at(i: &coop_ir::Inst) -> Option<usize> {
    let access = i.tensor_access()?;
    (!access.mask.intersects(TensorAddressingOperands::DecodeFunc)).then_some(access.at)
}

/// Makes a load of bfloat16 decode its elements to f32.
fn load(e: &mut Rewriter<'_>, r: InstRef, decoders: &mut FxHashMap<Id, Id>, f32_type: Id) -> Result<(), Refusal> {
    if e.m.inst(r).op == Op::CooperativeMatrixLoadKHR {
        tensor_form::as_tensor(e, r, Checked::default())?;
    }
    let inst = e.m.inst(r).clone();
    if inst.op != Op::CooperativeMatrixLoadTensorNV {
        return Ok(());
    }
    let (Some(pointer), Some(at)) = (inst.id(0).and_then(|p| e.m.type_of(p)), decode_at(&inst)) else { return Ok(()) };
    let rank = inst.id(2).and_then(|l| e.m.type_of(l)).and_then(|t| e.m.def_inst(t)).and_then(|t| t.id(0));
    let rank = rank.and_then(|c| e.known(c)).unwrap_or(2) as u32;
    // Decode functions differ by the rank of the layout.
    let word = e.g.uint(e.m, 32);
    let array = e.g.array(e.m, word, rank);
    let decoder = match decoders.get(&pointer).filter(|_| rank == 2) {
        Some(known) => *known,
        None => {
            let mut b = e.function("coop_bf16_at", f32_type, &[pointer, array, array]);
            let from = b.param(0);
            let number = types_pointee(b.module, pointer).unwrap_or(f32_type);
            let bits = b.ids(Op::Load, number, &[from]);
            let value = value_of(&mut b, bits);
            let made = b.finish(Some(value));
            if rank == 2 {
                decoders.insert(pointer, made);
            }
            made
        }
    };
    let mut operands = inst.operands.clone();
    let tensor = inst.word(at).unwrap_or(0);
    operands[at] = Operand::Word(tensor | DECODE);
    let behind = at + 1 + usize::from(tensor & VIEW != 0);
    operands.insert(behind, decoder.into());
    e.replace(r, inst.op, operands);
    Ok(())
}

fn types_pointee(m: &Module, pointer: Id) -> Option<Id> {
    match types::Type::of(m, pointer)? {
        types::Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}
