//! Lowers 4-bit integers (SPV_INTEL_int4) to 8-bit integers.
//!
//! Their values are between 0 and 15 afterwards, in unsigned 8-bit integers, whatever the signedness of the type:
//! instructions that read them as signed numbers, which are `OpSConvert`, `OpConvertSToF` and multiplications with
//! signed operand bits, extend the sign first. The extension has no arithmetic on them, and only vectors of them in
//! memory that others see; anything else is refused here.
//!
//! In memory, a matrix of them has two elements per byte, the first in the low bits. No tensor layout can describe
//! that, so a load becomes a per-element operation that finds its nibble by row and column; and a store one that
//! updates its word by atomic operations, since other invocations own the other elements of the word.

mod element_access;

use super::rewriter::Rewriter;
use super::tensor_form::Access;
use crate::cleanup::{remove_capability, remove_extension};
use crate::decorations;
use crate::kernel::is_kernel;
use crate::matrix::bits::small_type;
use crate::{Checked, Refusal, malformed};
use coop_ir::builder::{require_capability, require_extension};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{sort_globals, unify_types};
use coop_ir::spv::{Capability, CooperativeMatrixOperands, Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op, Operand};
use element_access::ElementAccess;

const BYTE: Scalar = Scalar::Int { width: 8, signed: false };
const LONG: Scalar = Scalar::Int { width: 64, signed: false };

/// The capabilities of SPV_INTEL_int4.
const CAPABILITIES: [Capability; 2] = [Capability::Int4TypeINTEL, Capability::Int4CooperativeMatrixINTEL];

/// Operands of multiplications: signs of A and B, of C and the result, and saturation.
const SIGNS: [u32; 2] =
    [CooperativeMatrixOperands::MatrixASignedComponentsKHR.0, CooperativeMatrixOperands::MatrixBSignedComponentsKHR.0];
const SUMS_SIGNED: u32 = CooperativeMatrixOperands::MatrixCSignedComponentsKHR.0
    | CooperativeMatrixOperands::MatrixResultSignedComponentsKHR.0;
const SATURATING: u32 = CooperativeMatrixOperands::SaturatingAccumulationKHR.0;

fn is_four(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Int { width: 4, .. })
}

pub(super) fn run(m: &mut Module, checked: Checked) -> Result<(), Refusal> {
    let four = |m: &Module, r: InstRef| m.inst(r).result.and_then(|id| types::scalar(m, id)).is_some_and(is_four);
    let types: Vec<InstRef> = m.globals_with(Op::TypeInt).filter(|r| four(m, *r)).collect();
    if types.is_empty() {
        return Ok(());
    }
    memory_holds_none(m)?;
    let kernel = is_kernel(m);
    let mut pass = Pass { checked, kernel, functions: FxHashMap::default() };
    let mut e = Rewriter::new(m);
    e.each(&mut |e, r| pass.inst(e, r))?;
    widen(m, &types);
    Ok(())
}

/// Widens the types to 8 bits, under their ids, and masks their constants to 4 bits.
fn widen(m: &mut Module, four: &[InstRef]) {
    let ids: Vec<Id> = four.iter().filter_map(|r| m.inst(*r).result).collect();
    for r in m.globals.clone() {
        let inst = m.inst(r);
        let constant = matches!(inst.op, Op::Constant | Op::SpecConstant) && inst.ty.is_some_and(|t| ids.contains(&t));
        if let Some(value) = inst.literal().filter(|_| constant) {
            m.inst_mut(r).operands[0] = Operand::Word(value & 15);
        }
    }
    for r in four {
        m.inst_mut(*r).operands = [8, 0].map(Operand::Word).into_iter().collect();
    }
    small_type(m, BYTE);
    for c in CAPABILITIES {
        remove_capability(m, c);
    }
    remove_extension(m, "SPV_INTEL_int4");
    if m.globals_with(Op::TypeCooperativeMatrixKHR).next().is_some() {
        require_capability(m, Capability::CooperativeMatrixKHR);
        require_extension(m, "SPV_KHR_cooperative_matrix");
    }
    unify_types(m);
    sort_globals(m);
}

fn refuse<T>(r: InstRef, why: String) -> Result<T, Refusal> {
    let remedy = "widen the integers to 8 bits where they are made";
    Err(Refusal::new("refused-type", Some(r), why, remedy))
}

/// Refuses 4-bit integers in memory that is not private to an invocation. (SPV_INTEL_int4 has vectors of them there.)
fn memory_holds_none(m: &Module) -> Result<(), Refusal> {
    // Structs of structs may have very many parts: each type is looked at once.
    let has = |ty: Id| {
        let (mut work, mut seen) = (vec![ty], FxHashSet::default());
        while let Some(ty) = work.pop() {
            if !seen.insert(ty) {
                continue;
            }
            match Type::of(m, ty) {
                Some(Type::Scalar(s)) if is_four(s) => return true,
                Some(Type::Vector { elem, .. } | Type::Array { elem, .. } | Type::RuntimeArray { elem }) => {
                    work.push(elem);
                }
                Some(Type::Struct { members }) => work.extend(members),
                _ => {}
            }
        }
        false
    };
    let own = [StorageClass::Function, StorageClass::Private];
    let used: FxHashSet<Id> = m.all().filter_map(|r| m.inst(r).ty).collect();
    for r in m.globals_with(Op::TypePointer).filter(|r| m.inst(*r).result.is_some_and(|id| used.contains(&id))) {
        let Some(Type::Pointer { storage, pointee }) = m.inst(r).result.and_then(|t| Type::of(m, t)) else { continue };
        // Generic pointers may point to an invocation's own elements.
        let elsewhere = !own.contains(&storage) && storage != StorageClass::Generic;
        // Kernels, and the Vulkan shaders made of them, point to components as to bytes.
        let physical = storage == StorageClass::PhysicalStorageBuffer;
        let component = physical || is_kernel(m) && types::scalar(m, pointee).is_some();
        if elsewhere && !component && has(pointee) {
            return refuse(
                r,
                "4-bit integers lie in memory as vectors, two to a byte (SPV_INTEL_int4), which is not lowered".into(),
            );
        }
    }
    Ok(())
}

/// The operation of a per-element function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ElementFunction {
    Signed,
    Masked,
    /// Clamps an unsigned 8-bit number to 4 bits.
    NearestUnsigned,
    /// Clamps a signed 8-bit number to 4 bits.
    NearestSigned,
}

/// The numbers 7, 8 and 15 of a type, and the type of comparisons.
struct Numbers {
    ty: Id,
    truth: Id,
    most: Id,
    sign: Id,
    low: Id,
}

impl ElementFunction {
    /// Emits the operation on a number or vector; `ids` makes an instruction.
    fn of(self, n: &Numbers, x: Id, ids: &mut dyn FnMut(Op, Id, &[Id]) -> Id) -> Id {
        match self {
            ElementFunction::Masked => ids(Op::BitwiseAnd, n.ty, &[x, n.low]),
            ElementFunction::Signed => {
                let turned = ids(Op::BitwiseXor, n.ty, &[x, n.sign]);
                ids(Op::ISub, n.ty, &[turned, n.sign])
            }
            ElementFunction::NearestUnsigned => {
                let above = ids(Op::UGreaterThan, n.truth, &[x, n.low]);
                ids(Op::Select, n.ty, &[above, n.low, x])
            }
            ElementFunction::NearestSigned => {
                // Constants of the type have 4 bits.
                let least = ids(Op::SNegate, n.ty, &[n.sign]);
                let below = ids(Op::SLessThan, n.truth, &[x, least]);
                let x = ids(Op::Select, n.ty, &[below, least, x]);
                let above = ids(Op::SGreaterThan, n.truth, &[x, n.most]);
                ids(Op::Select, n.ty, &[above, n.most, x])
            }
        }
    }
}

struct Pass {
    checked: Checked,
    kernel: bool,
    functions: FxHashMap<(ElementFunction, Id), Id>,
}

/// Returns true if a type is a matrix of 4-bit integers, and false if it is a scalar or vector of them.
fn of(m: &Module, ty: Option<Id>) -> Option<bool> {
    let ty = ty?;
    if let Some(matrix) = types::coop_mat(m, ty) {
        return types::scalar(m, matrix.component).filter(|s| is_four(*s)).map(|_| true);
    }
    types::scalar_or_vector(m, ty).filter(|(s, _)| is_four(*s)).map(|_| false)
}

/// Returns the width of the integers of a type.
fn width(m: &Module, ty: Option<Id>) -> Option<u32> {
    let ty = ty?;
    let scalar = match types::coop_mat(m, ty) {
        Some(matrix) => types::scalar(m, matrix.component),
        None => types::scalar_or_vector(m, ty).map(|(s, _)| s),
    };
    scalar.filter(|s| matches!(s, Scalar::Int { .. })).map(Scalar::width)
}

impl Pass {
    /// Rewrites an instruction. Returns true if it stays.
    fn inst(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let to = of(e.m, inst.ty);
        let from = inst.ids().find_map(|id| of(e.m, e.m.type_of(id)));
        if to.is_none() && from.is_none() {
            return Ok(true);
        }
        match inst.op {
            Op::CooperativeMatrixLoadKHR
            | Op::CooperativeMatrixLoadCheckedINTEL
            | Op::CooperativeMatrixLoadOffsetINTEL
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixStoreCheckedINTEL
            | Op::CooperativeMatrixStoreOffsetINTEL => return self.access(e, r),
            Op::CooperativeMatrixMulAddKHR => self.muladd(e, r)?,
            Op::UConvert | Op::SConvert | Op::ConvertSToF | Op::ConvertUToF | Op::ConvertFToS | Op::ConvertFToU => {
                self.convert(e, r, to.is_some())?;
            }
            // Between signed and unsigned types.
            Op::Bitcast if to == Some(false) && from == Some(false) && inst.ty.is_some() => {
                let lanes = |ty: Option<Id>| ty.and_then(|t| types::scalar_or_vector(e.m, t)).map(|(_, n)| n);
                if lanes(inst.ty) != lanes(inst.converted().and_then(|v| e.m.type_of(v))) {
                    return refuse(r, "vectors of 4-bit integers are cast to others".into());
                }
                e.replace(r, Op::CopyObject, inst.operands.iter().copied());
            }
            Op::Load
            | Op::Store
            | Op::Variable
            | Op::CopyMemory
            | Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::CopyObject
            | Op::Phi
            | Op::Select
            | Op::FunctionCall
            | Op::FunctionParameter
            | Op::ReturnValue
            | Op::Undef
            | Op::CompositeConstruct
            | Op::CompositeExtract
            | Op::CompositeInsert
            | Op::VectorShuffle
            | Op::VectorExtractDynamic
            | Op::VectorInsertDynamic
            | Op::ExtInst
            | Op::CooperativeMatrixLengthKHR
            | Op::CooperativeMatrixGetElementCoordINTEL
            | Op::CooperativeMatrixGetCoordinateEXT
            | Op::CooperativeMatrixConstructCheckedINTEL
            | Op::CooperativeMatrixConvertNV
            | Op::CooperativeMatrixTransposeNV => {}
            op => return refuse(r, format!("SPV_INTEL_int4 has no {op} of 4-bit integers")),
        }
        Ok(true)
    }

    /// Applies a per-element function to a matrix, or the same operation to a number or vector.
    fn each(&mut self, e: &mut Rewriter<'_>, how: ElementFunction, value: Id) -> Result<Id, Refusal> {
        let Some(ty) = e.m.type_of(value) else { return Ok(value) };
        let Some(matrix) = types::coop_mat(e.m, ty) else {
            let lanes = types::scalar_or_vector(e.m, ty).map_or(1, |(_, n)| n);
            let all = |e: &mut Rewriter<'_>, bits: u64| {
                let scalar = types::scalar_or_vector(e.m, ty).map_or(BYTE, |(s, _)| s);
                let elem = e.g.scalar(e.m, scalar);
                let one = e.g.constant_of(e.m, elem, scalar, bits);
                if lanes == 1 { one } else { e.ids(Op::CompositeConstruct, ty, &vec![one; lanes as usize]) }
            };
            let one = e.g.bool(e.m);
            let truth = if lanes == 1 { one } else { e.g.vector(e.m, one, lanes) };
            let numbers = Numbers { ty, truth, most: all(e, 7), sign: all(e, 8), low: all(e, 15) };
            return Ok(how.of(&numbers, value, &mut |op, ty, operands| e.ids(op, ty, operands)));
        };
        let component = matrix.component;
        let function = match self.functions.get(&(how, component)) {
            Some(f) => *f,
            None => {
                let word = e.g.uint(e.m, 32);
                let scalar = types::scalar(e.m, component).unwrap_or(BYTE);
                let [most, sign, low] = [7, 8, 15].map(|n| e.g.constant_of(e.m, component, scalar, n));
                let numbers = Numbers { ty: component, truth: e.g.bool(e.m), most, sign, low };
                let mut b = e.function("coop_int4", component, &[word, word, component]);
                let x = b.param(2);
                let out = how.of(&numbers, x, &mut |op, ty, operands| b.ids(op, ty, operands));
                let f = b.finish(Some(out));
                self.functions.insert((how, component), f);
                f
            }
        };
        Ok(e.ids(Op::CooperativeMatrixPerElementOpNV, ty, &[value, function]))
    }

    fn convert(&mut self, e: &mut Rewriter<'_>, r: InstRef, to_four: bool) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(mut value), Some(ty)) = (inst.converted(), inst.ty) else {
            return malformed(r, "the conversion has no operand or no type");
        };
        let from = e.m.type_of(value);
        let from_four = of(e.m, from).is_some();
        if from_four && matches!(inst.op, Op::SConvert | Op::ConvertSToF) {
            value = self.each(e, ElementFunction::Signed, value)?;
        }
        let mut decorated = decorations::take(e.m, &|_, id| Some(id) == inst.result);
        let decorated = inst.result.and_then(|id| decorated.remove(&id)).unwrap_or_default();
        let saturates = decorated.iter().any(|(d, _)| *d == Decoration::SaturatedConversion);
        // 8-bit integers already have the width.
        let same = |e: &Rewriter<'_>, other: Option<Id>| matches!(width(e.m, other), Some(4 | 8));
        let resized = matches!(inst.op, Op::UConvert | Op::SConvert);
        if !to_four {
            let op = if resized && same(e, inst.ty) { Op::Bitcast } else { inst.op };
            e.replace(r, op, [value.into()]);
            if let Some(id) = inst.result.filter(|_| op != Op::Bitcast) {
                decorations::add(e.m, id, &decorated);
            }
            return Ok(());
        }
        let op = if resized && same(e, from) { Op::Bitcast } else { inst.op };
        let mut wide = e.ids(op, ty, &[value]);
        if op != Op::Bitcast {
            decorations::add(e.m, wide, &decorated);
        }
        if saturates {
            let signed = matches!(inst.op, Op::SConvert | Op::ConvertFToS);
            wide = self.each(
                e,
                if signed { ElementFunction::NearestSigned } else { ElementFunction::NearestUnsigned },
                wide,
            )?;
        }
        let masked = self.each(e, ElementFunction::Masked, wide)?;
        e.replace(r, Op::CopyObject, [masked.into()]);
        Ok(())
    }

    fn muladd(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let Some([a, b, c]) = inst.mul_add() else { return malformed(r, "the operands are not three matrices") };
        if of(e.m, inst.ty).is_some() || of(e.m, e.m.type_of(c)).is_some() {
            return refuse(r, "accumulators of 4 bits: SPV_INTEL_int4 does not define how sums overflow".into());
        }
        let mut bits = inst.matrix_operands().0;
        let mut factors = [a, b];
        for (factor, sign) in factors.iter_mut().zip(SIGNS) {
            if bits & sign != 0 && of(e.m, e.m.type_of(*factor)).is_some() {
                *factor = self.each(e, ElementFunction::Signed, *factor)?;
            }
        }
        let both = [a, b].iter().all(|x| of(e.m, e.m.type_of(*x)).is_some());
        if both && bits & 3 != 0 {
            // Every 4-bit value is a signed 8-bit value, and devices multiply those by each other.
            bits |= 3;
            if bits & SATURATING == 0 {
                bits |= SUMS_SIGNED;
            }
        }
        let operands = [factors[0], factors[1], c].map(Operand::Id).into_iter();
        e.replace(r, inst.op, operands.chain((bits != 0).then_some(Operand::Word(bits))));
        Ok(())
    }

    /// Rewrites a load or store into a per-element operation.
    fn access(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let Some(access) = Access::of(&inst) else { return malformed(r, "the operands don't fit the instruction") };
        let shape = match access.object {
            Some(object) => e.shape(r, object)?,
            None => e.shape_of_type(r, inst.ty)?,
        };
        let mut at = ElementAccess::new(e, r, &access, shape, (self.kernel, self.checked))?;
        let function = at.function(e, &access, shape);
        let object = access.object.unwrap_or_else(|| e.g.null(e.m, shape.ty));
        let operands: Vec<Id> = [object, function].into_iter().chain(at.extras).collect();
        if access.store {
            e.ids(Op::CooperativeMatrixPerElementOpNV, shape.ty, &operands);
            return Ok(false);
        }
        e.replace(r, Op::CooperativeMatrixPerElementOpNV, operands.into_iter().map(Operand::Id));
        Ok(true)
    }
}
