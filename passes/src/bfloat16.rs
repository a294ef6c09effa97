//! Replaces bfloat16 by 16-bit integers where the device has no such type.
//!
//! Precondition: no matrices. Effect: the scalar type and everything made of it becomes the unsigned integer of 16
//! bits; conversions from f32 and to f32 become shifts and a rounding to nearest even (NaN stays NaN), those from and to other types go
//! through f32, as SPV_KHR_bfloat16 says; constants keep their bits. Loads, stores, selections, phis and composites need no change.
//! Does nothing when the profile has `shaderBFloat16Type`, or when the module has no bfloat16. Refuses: dot products of bfloat16,
//! and what SPV_KHR_bfloat16 does not allow.

use crate::Refusal;
use crate::decorations::{self, Decorated};
use crate::pipeline::PassCx;
use coop_device::Feature;
use coop_ir::builder::{FunctionBuilder, Globals, Index, require_capability};
use coop_ir::effects::ExtSets;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{sort_globals, unify_types};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The capabilities that memory of 16-bit integers needs and memory of bfloat16 does not.
const STORAGE: [(StorageClass, Capability); 4] = [
    (StorageClass::StorageBuffer, Capability::StorageBuffer16BitAccess),
    (StorageClass::PhysicalStorageBuffer, Capability::StorageBuffer16BitAccess),
    (StorageClass::Uniform, Capability::UniformAndStorageBuffer16BitAccess),
    (StorageClass::PushConstant, Capability::StoragePushConstant16),
];

fn is_bf16(m: &Module, id: Id) -> bool {
    types::scalar_or_vector(m, id).is_some_and(|(s, _)| s == Scalar::BF16)
}

/// Returns true if a module has bfloat16.
pub(crate) fn occurs(m: &Module) -> bool {
    m.globals_with(Op::TypeFloat).any(|r| m.inst(r).result.is_some_and(|id| is_bf16(m, id)))
}

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if cx.options.profile.is_some_and(|p| p.features.has(Feature::ShaderBFloat16Type)) || !occurs(m) {
        return Ok(());
    }
    let needed = storage_capabilities(m);
    let insts: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
    // Conversions become calls, which do not compute themselves. To bfloat16 only the rounding mode matters; what saturates from it
    // does so in the function.
    let of_bf16 = |m: &Module, id: Id| {
        let i = m.def_inst(id).filter(|i| i.op.is_conversion());
        i.is_some_and(|i| i.ty.into_iter().chain(i.converted().and_then(|v| m.type_of(v))).any(|ty| is_bf16(m, ty)))
    };
    let decorated = decorations::take(m, &of_bf16);
    let rounding = coop_ir::spv::Decoration::FPRoundingMode;
    let mode = |(id, all): (&Id, &Vec<Decorated>)| {
        let (_, mode) = all.iter().find(|(d, mode)| *d == rounding && mode.first() != Some(&0))?;
        Some((*id, *mode.first()?))
    };
    let rounded = decorated.iter().filter_map(mode).collect();
    let mut others = decorated;
    for all in others.values_mut() {
        all.retain(|(d, _)| *d != rounding);
    }
    let mut pass = Bf16 { rounded, others, functions: FxHashMap::default(), sets: ExtSets::new(m) };
    let mut g = Globals::new(m);
    for r in insts {
        pass.inst(m, &mut g, r)?;
    }
    for r in m.globals.clone() {
        let i = m.inst(r);
        if i.op == Op::TypeFloat && i.result.is_some_and(|id| is_bf16(m, id)) {
            let (result, origin) = (i.result, i.origin);
            m.replace(r, Inst::new(Op::TypeInt, None, result, [16.into(), 0.into()]).at(origin));
        }
    }
    for c in [Capability::BFloat16TypeKHR, Capability::BFloat16DotProductKHR, Capability::BFloat16CooperativeMatrixKHR]
    {
        crate::cleanup::remove_capability(m, c);
    }
    crate::cleanup::remove_extension(m, "SPV_KHR_bfloat16");
    require_capability(m, Capability::Int16);
    for capability in needed {
        require_capability(m, capability);
    }
    unify_types(m);
    sort_globals(m);
    casts(m);
    Ok(())
}

/// Returns the capabilities for memory that holds bfloat16, which becomes integers. A pointer without a type may point
/// to it.
fn storage_capabilities(m: &Module) -> Vec<Capability> {
    let types: Vec<Type> = m.globals.iter().filter_map(|r| Type::of_inst(m.inst(*r))).collect();
    let holds = |class: StorageClass| {
        types.iter().any(|ty| match ty {
            Type::Pointer { storage, pointee } => *storage == class && contains_bfloat16(m, *pointee),
            Type::UntypedPointer { storage } => *storage == class,
            _ => false,
        })
    };
    STORAGE.into_iter().filter(|(class, _)| holds(*class)).map(|(_, capability)| capability).collect()
}

/// Returns true if a type is bfloat16 or has a part that is.
fn contains_bfloat16(m: &Module, ty: Id) -> bool {
    let mut work = vec![ty];
    while let Some(ty) = work.pop() {
        if types::scalar_or_vector(m, ty).is_some_and(|(s, _)| s == Scalar::BF16) {
            return true;
        }
        match Type::of(m, ty) {
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => work.push(elem),
            Some(Type::Struct { members }) => work.extend(members),
            _ => {}
        }
    }
    false
}

/// Replaces casts between bfloat16 and integers by copies: both sides have one type now, which SPIR-V does not allow in
/// a cast.
fn casts(m: &mut Module) {
    for r in m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<InstRef>>() {
        let i = m.inst(r);
        if i.op == Op::Bitcast && i.ty.is_some() && i.converted().and_then(|id| m.type_of(id)) == i.ty {
            m.inst_mut(r).op = Op::CopyObject;
        }
    }
}

struct Bf16 {
    /// The rounding mode of conversions, if it is not to nearest even.
    rounded: FxHashMap<Id, u32>,
    /// The other decorations of conversions.
    others: FxHashMap<Id, Vec<Decorated>>,
    /// The conversion functions, by conversion, source and result type, and the decorations of a conversion from bfloat16.
    functions: FxHashMap<(Op, Id, Id, Vec<Decorated>), Id>,
    sets: ExtSets,
}

impl Bf16 {
    fn inst(&mut self, m: &mut Module, g: &mut Globals, r: InstRef) -> Result<(), Refusal> {
        let i = m.inst(r);
        let kind = |id: Option<Id>| id.and_then(|id| types::scalar_or_vector(m, id));
        let result = kind(i.ty);
        let bf = |k: Option<(Scalar, u32)>| k.is_some_and(|k| k.0 == Scalar::BF16);
        let refuse =
            |why: String| Err(Refusal::new("refused-bfloat16", Some(r), why, "use f32, or a device with bfloat16"));
        let any = bf(result) || i.ids().any(|id| bf(kind(m.type_of(id))));
        match i.op {
            _ if !any || self.sets.is_note(i) => Ok(()),
            op if op.is_conversion() => {
                let (Some(ty), Some(from), Some(value)) =
                    (i.ty, i.converted().and_then(|id| m.type_of(id)), i.converted())
                else {
                    return Ok(());
                };
                let (id, origin) = (i.result, i.origin);
                if let Some(mode) = id.and_then(|id| self.rounded.get(&id)).filter(|_| bf(result)) {
                    let mode = coop_ir::Kind::FPRoundingMode.enumerant(*mode).map_or("unknown", |e| e.name);
                    return refuse(format!(
                        "a conversion to bfloat16 that rounds otherwise than to nearest even ({mode})"
                    ));
                }
                let decorations = id.filter(|_| !bf(result)).and_then(|id| self.others.remove(&id)).unwrap_or_default();
                let key = (op, from, ty, decorations);
                let function = match self.functions.get(&key) {
                    Some(f) => *f,
                    None => {
                        let f = make(m, g, op, from, ty, &key.3);
                        self.functions.insert(key, f);
                        f
                    }
                };
                m.replace(r, Inst::new(Op::FunctionCall, Some(ty), id, [function, value].map(Operand::Id)).at(origin));
                Ok(())
            }
            Op::Dot => refuse("a dot product of bfloat16 has no lowering yet".to_owned()),
            op if op.takes_any_type() || op.moves_whole_values() || op.is_composite() => Ok(()),
            op if op.moves_components() || op.is_access_chain() => Ok(()),
            op if op.group_operation().is_some_and(|g| g.moves()) => Ok(()),
            Op::Bitcast | Op::CopyLogical => Ok(()),
            op => refuse(format!("{op} works on bfloat16, which SPV_KHR_bfloat16 does not allow")),
        }
    }
}

/// Makes the function for a conversion of `from` to `to`, one of which is bfloat16.
fn make(m: &mut Module, g: &mut Globals, op: Op, from: Id, to: Id, decorations: &[Decorated]) -> Id {
    let narrowing = types::scalar_or_vector(m, to).is_some_and(|(s, _)| s == Scalar::BF16);
    let (other, len) =
        types::scalar_or_vector(m, if narrowing { from } else { to }).unwrap_or((Scalar::Float { width: 32 }, 1));
    let name = match (narrowing, other) {
        (true, Scalar::Float { .. }) => "coop_bf16_from_float".to_owned(),
        (false, Scalar::Float { .. }) => "coop_bf16_to_float".to_owned(),
        (true, _) => format!("coop_bf16_from_{other}"),
        (false, _) => format!("coop_bf16_to_{other}"),
    };
    let mut b = FunctionBuilder::new(m, g, &name, to, &[from]);
    let value = b.param(0);
    let elem_of = |b: &FunctionBuilder<'_>, ty: Id| match Type::of(b.module, ty) {
        Some(Type::Vector { elem, .. }) => elem,
        _ => ty,
    };
    let (from_elem, to_elem) = (elem_of(&b, from), elem_of(&b, to));
    let mut parts = Vec::new();
    for at in 0..len {
        let one = if len == 1 { value } else { b.op(Op::CompositeExtract, from_elem, [value.into(), at.into()]) };
        parts.push(if narrowing {
            narrow(&mut b, op, one, other, to_elem)
        } else {
            widen(&mut b, op, one, (other, to_elem), decorations)
        });
    }
    let value = match parts.as_slice() {
        [one] => *one,
        _ => b.ids(Op::CompositeConstruct, to, &parts),
    };
    b.finish(Some(value))
}

/// Converts bfloat16 to f32, and that to another type.
fn widen(b: &mut FunctionBuilder<'_>, op: Op, value: Id, (to, to_ty): (Scalar, Id), decorations: &[Decorated]) -> Id {
    let u32_type = b.u32_type();
    let bits = b.ids(Op::UConvert, u32_type, &[value]);
    let Index::Value(bits) = b.u32_op(Op::ShiftLeftLogical, Index::Value(bits), Index::Const(16)) else { return bits };
    let f32_type = b.globals.scalar(b.module, Scalar::Float { width: 32 });
    let wide = b.ids(Op::Bitcast, f32_type, &[bits]);
    if to == (Scalar::Float { width: 32 }) {
        return wide;
    }
    let converted = b.ids(op, to_ty, &[wide]);
    decorations::add(b.module, converted, decorations);
    converted
}

/// Converts a number to f32, and that to bfloat16.
fn narrow(b: &mut FunctionBuilder<'_>, op: Op, value: Id, from: Scalar, to: Id) -> Id {
    let u32_type = b.u32_type();
    let f32_type = b.globals.scalar(b.module, Scalar::Float { width: 32 });
    let value = if from == (Scalar::Float { width: 32 }) { value } else { b.ids(op, f32_type, &[value]) };
    let bits = Index::Value(b.ids(Op::Bitcast, u32_type, &[value]));
    // Adding just under half a unit in the last place, plus the lowest kept bit, rounds to nearest even.
    let high = b.u32_op(Op::ShiftRightLogical, bits, Index::Const(16));
    let odd = b.u32_op(Op::BitwiseAnd, high, Index::Const(1));
    let up = b.add(odd, Index::Const(0x7fff));
    let sum = b.add(bits, up);
    let rounded = b.u32_op(Op::ShiftRightLogical, sum, Index::Const(16));
    let magnitude = b.u32_op(Op::BitwiseAnd, bits, Index::Const(0x7fff_ffff));
    let nan = b.compare(Op::UGreaterThan, magnitude, Index::Const(0x7f80_0000));
    let quiet = b.u32_op(Op::BitwiseOr, high, Index::Const(0x40));
    let (quiet, rounded) = (b.index(quiet), b.index(rounded));
    let chosen = b.ids(Op::Select, u32_type, &[nan, quiet, rounded]);
    b.ids(Op::UConvert, to, &[chosen])
}
