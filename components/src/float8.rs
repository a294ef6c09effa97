//! Replaces 8-bit floats by 8-bit integers, where the device has no such types.
//!
//! Precondition: no matrices of them, no decoration groups. Effect: both types (E4M3, E5M2) become the unsigned integer of 8 bits, and
//! everything made of them; conversions become functions ([`crate::float`]), which round once, to nearest even, and saturate
//! where the decoration says so. Constants keep their bits. Memory of them is memory of 8-bit integers, which later passes
//! see to. Refuses: conversions from f64, and anything but conversions, which SPV_EXT_float8 does not have either.

use crate::emit::{self, function};
use crate::float::Format;
use crate::narrow::Notes;
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use crate::report::Software;
use crate::{Refusal, cast};
use coop_ir::builder::{FunctionBuilder, Globals, require_capability};
use coop_ir::decorate::Decorations;
use coop_ir::effects::ExtSets;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{replace_uses, sort_globals, unify_types};
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const REMEDY: &str = "use f32 there, or a device with shaderFloat8";

/// The capabilities for memory of 8-bit integers.
const STORAGE: [(StorageClass, Capability); 5] = [
    (StorageClass::StorageBuffer, Capability::StorageBuffer8BitAccess),
    (StorageClass::PhysicalStorageBuffer, Capability::StorageBuffer8BitAccess),
    (StorageClass::Uniform, Capability::UniformAndStorageBuffer8BitAccess),
    (StorageClass::PushConstant, Capability::StoragePushConstant8),
    (StorageClass::Workgroup, Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR),
];

/// The pass while it runs.
struct Float8 {
    /// Functions by type, by whether they convert to it, and by whether they saturate.
    functions: FxHashMap<(Scalar, bool, bool), Id>,
    sets: ExtSets,
    decorations: Decorations,
    notes: Notes,
    replaced: FxHashMap<Id, Id>,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let declared: Vec<InstRef> = m.globals_with(Op::TypeFloat).filter(|r| is_type(m, *r)).collect();
    if declared.is_empty() || !cx.lacks.in_software(m, Scalar::E4M3) {
        return Ok(());
    }
    check(m)?;
    let needed = needed_capabilities(m);
    let mut g = Globals::new(m);
    let mut pass = Float8 {
        functions: FxHashMap::default(),
        sets: ExtSets::new(m),
        decorations: Decorations::new(m),
        notes: Notes::default(),
        replaced: FxHashMap::default(),
    };
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    pass.notes.gone.extend(pass.replaced.keys());
    pass.notes.apply(m);
    replace_uses(m, &pass.replaced);
    for r in declared {
        let (result, origin) = (m.inst(r).result, m.inst(r).origin);
        if let Some(s) = result.and_then(|id| types::scalar(m, id)) {
            cx.report.software.push(Software::Arithmetic { narrow: s.to_string(), wide: "integer code".to_owned() });
        }
        m.replace(r, Inst::new(Op::TypeInt, None, result, [8.into(), 0.into()]).at(origin));
    }
    needed.into_iter().for_each(|c| require_capability(m, c));
    unify_types(m);
    sort_globals(m);
    casts(m);
    Ok(())
}

/// Returns the type if it is an 8-bit float.
fn float8(s: Scalar) -> Option<Scalar> {
    Some(s).filter(|s| matches!(*s, Scalar::E4M3 | Scalar::E5M2))
}

/// The types that are made of 8-bit floats.
fn made_of() -> MadeOf<'static> {
    MadeOf::numbers(|_, s| float8(s).is_some())
}

fn is_type(m: &Module, r: InstRef) -> bool {
    m.inst(r).result.and_then(|id| types::scalar(m, id)).and_then(float8).is_some()
}

/// Refuses constants whose values are computed.
fn check(m: &Module) -> Result<(), Refusal> {
    let mut ours = made_of();
    for r in m.globals_with(Op::SpecConstantOp) {
        let i = m.inst(r);
        if i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| ours.any(m, ty)) {
            return Err(Refusal::new(r, "a constant that is computed from 8-bit floats has no lowering", REMEDY));
        }
    }
    Ok(())
}

/// Returns the capabilities for the integers that 8-bit floats become, and for memory that holds them.
pub(crate) fn needed_capabilities(m: &Module) -> Vec<Capability> {
    let types: Vec<Type> = m.globals.iter().filter_map(|r| Type::of_inst(m.inst(*r))).collect();
    let mut ours = made_of();
    let mut holds = |class: StorageClass| {
        types.iter().any(|ty| match ty {
            Type::Pointer { storage, pointee } => {
                let laid_out =
                    class != StorageClass::Workgroup || m.enables(Capability::WorkgroupMemoryExplicitLayoutKHR);
                *storage == class && laid_out && ours.any(m, *pointee)
            }
            _ => false,
        })
    };
    let storage = STORAGE.into_iter().filter(|(class, _)| holds(*class)).map(|(_, capability)| capability);
    storage.chain([Capability::Int8]).collect()
}

/// Replaces casts between 8-bit floats and integers of 8 bits by copies: SPIR-V does not allow casts to the same type.
fn casts(m: &mut Module) {
    for r in m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<InstRef>>() {
        let i = m.inst(r);
        if i.op == Op::Bitcast && i.ty.is_some() && i.converted().and_then(|id| m.type_of(id)) == i.ty {
            m.inst_mut(r).op = Op::CopyObject;
        }
    }
}

impl Float8 {
    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        let kind =
            |ty: Option<Id>| ty.and_then(|ty| types::scalar_or_vector(b.module, ty)).and_then(|(s, _)| float8(s));
        let to = kind(i.ty);
        let from = i.ids().find_map(|id| kind(b.module.type_of(id)));
        if to.is_none() && from.is_none() || self.sets.is_note(&i) {
            b.keep(r);
            return Ok(());
        }
        match i.op {
            op if op.is_conversion() => self.conversion(b, r, &i, (from, to)),
            Op::Bitcast => keep(b, r),
            op if op.takes_any_type() || op.moves_whole_values() || op.is_composite() => keep(b, r),
            op if op.moves_components() || op.is_access_chain() || op == Op::CopyLogical => keep(b, r),
            op if op.group_operation().is_some_and(|g| g.moves()) => keep(b, r),
            op => Err(Refusal::new(r, format!("{op} on 8-bit floats has no lowering"), REMEDY)),
        }
    }

    /// Converts component by component, through f32.
    fn conversion(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        i: &Inst,
        (from, to): (Option<Scalar>, Option<Scalar>),
    ) -> Result<(), Refusal> {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else { return keep(b, r) };
        let source = b.module.type_of(value).and_then(|ty| types::scalar_or_vector(b.module, ty));
        let (Some((source, len)), Some((target, _))) = (source, types::scalar_or_vector(b.module, ty)) else {
            return keep(b, r);
        };
        let single = Scalar::Float { width: 32 };
        if source == (Scalar::Float { width: 64 }) {
            return Err(Refusal::new(r, "a conversion from f64 to an 8-bit float has no lowering", REMEDY));
        }
        if self.decorations.value(result, Decoration::FPRoundingMode).is_some_and(|mode| mode != 0) {
            return Err(Refusal::new(r, "a conversion to an 8-bit float that does not round to nearest even", REMEDY));
        }
        let saturates = self.decorations.has(result, Decoration::SaturatedToLargestFloat8NormalConversionEXT);
        let [source_type, target_type, float] = [source, target, single].map(|s| b.globals.scalar(b.module, s));
        let mut all = Vec::new();
        for one in cast::components(b, value, source_type, len) {
            let middle = match from {
                Some(from) => self.call(b, (from, false, false), float, one),
                None if source == single => one,
                None => b.ids(i.op, float, &[one]),
            };
            all.push(match to {
                Some(to) => self.call(b, (to, true, saturates), target_type, middle),
                None if target == single => middle,
                None => b.ids(i.op, target_type, &[middle]),
            });
        }
        let value = cast::composed(b, ty, &all);
        self.notes.plain.insert(result);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Calls the function that converts a number from a type, or to it.
    fn call(&mut self, b: &mut FunctionBuilder<'_>, key: (Scalar, bool, bool), ty: Id, value: Id) -> Id {
        let function = match self.functions.get(&key) {
            Some(id) => *id,
            None => {
                let id = made(b, key);
                self.functions.insert(key, id);
                id
            }
        };
        b.op(Op::FunctionCall, ty, [function, value].map(Operand::Id))
    }
}

fn keep(b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
    b.keep(r);
    Ok(())
}

/// Makes the function that converts a number from a type to f32, or back.
fn made(b: &mut FunctionBuilder<'_>, (s, narrows, saturates): (Scalar, bool, bool)) -> Id {
    let format = Format::of(s).unwrap_or(Format::F16);
    let (uint, byte) = (b.u32_type(), b.globals.scalar(b.module, s));
    let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
    if !narrows {
        return function(b, &format!("coop_{s}_to_float"), float, &[byte], |b, v| {
            let code = b.ids(Op::UConvert, uint, &[v[0]]);
            format.decode(b, 1, code)
        });
    }
    let name = format!("coop_{s}_from_float{}", if saturates { "_saturated" } else { "" });
    function(b, &name, byte, &[float], |b, v| {
        let rounded = format.round(b, 1, v[0], saturates);
        let code = format.encode(b, 1, rounded);
        b.ids(Op::UConvert, byte, &[code])
    })
}
