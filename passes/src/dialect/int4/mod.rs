//! Integers of 4 bits (SPV_INTEL_int4) as integers of 8 bits.
//!
//! Their values are between 0 and 15 afterwards, in 8 bits without a sign, whatever the type said of one: what reads them as numbers
//! with a sign, which are `OpSConvert`, `OpConvertSToF` and multiplications that say so, extends the sign first. The extension has no
//! arithmetic on them, and of memory that others see it has only vectors of them; what it does not have is refused here.
//!
//! A matrix of them lies in memory two elements to a byte, the first in the low bits. No tensor layout says that, so a load is an
//! operation on each element, which finds its half of a byte by row and column; and a store one that puts it into its word by
//! atomic operations, since the other elements of the word are others'.

mod at;

use super::edit::{Edit, malformed};
use super::surface::Access;
use crate::cleanup::{remove_capability, remove_extension};
use crate::decorations;
use crate::kernel::is_kernel;
use crate::matrix::bits::small_type;
use crate::{Checked, Refusal};
use at::At;
use coop_ir::builder::{require_capability, require_extension};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{sort_globals, unify_types};
use coop_ir::spv::{Capability, CooperativeMatrixOperands, Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op, Operand};

const BYTE: Scalar = Scalar::Int { width: 8, signed: false };
const LONG: Scalar = Scalar::Int { width: 64, signed: false };

/// Int4TypeINTEL and Int4CooperativeMatrixINTEL.
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
    let mut e = Edit::new(m);
    e.each(&mut |e, r| pass.inst(e, r))?;
    widen(m, &types);
    Ok(())
}

/// The types become those of 8 bits, under their ids, and their constants hold 4 of them.
fn widen(m: &mut Module, four: &[InstRef]) {
    let ids: Vec<Id> = four.iter().filter_map(|r| m.inst(*r).result).collect();
    for r in m.globals.clone() {
        let inst = m.inst(r);
        let constant = matches!(inst.op, Op::Constant | Op::SpecConstant) && inst.ty.is_some_and(|t| ids.contains(&t));
        if let Some(value) = inst.word(0).filter(|_| constant) {
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

/// Refuses 4-bit integers in memory that is not an invocation's own. (SPV_INTEL_int4 has vectors of them there.)
fn memory_holds_none(m: &Module) -> Result<(), Refusal> {
    fn has(m: &Module, ty: Id, depth: u32) -> bool {
        match Type::of(m, ty) {
            Some(Type::Scalar(s)) => is_four(s),
            Some(Type::Vector { elem, .. } | Type::Array { elem, .. } | Type::RuntimeArray { elem }) if depth < 16 => {
                has(m, elem, depth + 1)
            }
            Some(Type::Struct { members }) if depth < 16 => members.iter().any(|member| has(m, *member, depth + 1)),
            _ => false,
        }
    }
    let own = [StorageClass::Function, StorageClass::Private];
    let used: FxHashSet<Id> = m.all().filter_map(|r| m.inst(r).ty).collect();
    for r in m.globals_with(Op::TypePointer).filter(|r| m.inst(*r).result.is_some_and(|id| used.contains(&id))) {
        let Some(Type::Pointer { storage, pointee }) = m.inst(r).result.and_then(|t| Type::of(m, t)) else { continue };
        // Generic pointers may be to an invocation's own elements.
        let elsewhere = !own.contains(&storage) && storage != StorageClass::Generic;
        // Kernels, and what becomes of them in Vulkan, point to components as to bytes.
        let physical = storage == StorageClass::PhysicalStorageBuffer;
        let component = physical || is_kernel(m) && types::scalar(m, pointee).is_some();
        if elsewhere && !component && has(m, pointee, 0) {
            return refuse(
                r,
                "4-bit integers lie in memory as vectors, two to a byte (SPV_INTEL_int4), which is not lowered".into(),
            );
        }
    }
    Ok(())
}

/// What a function for each element does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Signed,
    Masked,
    /// From a number of 8 bits without a sign, the nearest of 4.
    NearestUnsigned,
    /// The same of numbers with a sign.
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

impl Made {
    /// The operation on a number or vector; `ids` makes an instruction.
    fn of(self, n: &Numbers, x: Id, ids: &mut dyn FnMut(Op, Id, &[Id]) -> Id) -> Id {
        match self {
            Made::Masked => ids(Op::BitwiseAnd, n.ty, &[x, n.low]),
            Made::Signed => {
                let turned = ids(Op::BitwiseXor, n.ty, &[x, n.sign]);
                ids(Op::ISub, n.ty, &[turned, n.sign])
            }
            Made::NearestUnsigned => {
                let above = ids(Op::UGreaterThan, n.truth, &[x, n.low]);
                ids(Op::Select, n.ty, &[above, n.low, x])
            }
            Made::NearestSigned => {
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
    functions: FxHashMap<(Made, Id), Id>,
}

/// Returns whether a type is of 4-bit integers, and whether it is a matrix's.
fn of(m: &Module, ty: Option<Id>) -> Option<bool> {
    let ty = ty?;
    if let Some(matrix) = types::coop_mat(m, ty) {
        return types::scalar(m, matrix.component).filter(|s| is_four(*s)).map(|_| true);
    }
    types::scalar_or_vector(m, ty).filter(|(s, _)| is_four(*s)).map(|_| false)
}

/// The width of the integers of a type.
fn width(m: &Module, ty: Option<Id>) -> Option<u32> {
    let ty = ty?;
    let scalar = match types::coop_mat(m, ty) {
        Some(matrix) => types::scalar(m, matrix.component),
        None => types::scalar_or_vector(m, ty).map(|(s, _)| s),
    };
    scalar.filter(|s| matches!(s, Scalar::Int { .. })).map(Scalar::width)
}

impl Pass {
    /// Answers whether the instruction stays.
    fn inst(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<bool, Refusal> {
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
            // Between types with and without a sign.
            Op::Bitcast if to == Some(false) && from == Some(false) && inst.ty.is_some() => {
                let lanes = |ty: Option<Id>| ty.and_then(|t| types::scalar_or_vector(e.m, t)).map(|(_, n)| n);
                if lanes(inst.ty) != lanes(inst.id(0).and_then(|v| e.m.type_of(v))) {
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

    /// A function of elements, on a matrix; the same on a number or vector.
    fn each(&mut self, e: &mut Edit<'_>, how: Made, value: Id) -> Result<Id, Refusal> {
        let Some(ty) = e.m.type_of(value) else { return Ok(value) };
        let Some(matrix) = types::coop_mat(e.m, ty) else {
            let lanes = types::scalar_or_vector(e.m, ty).map_or(1, |(_, n)| n);
            let all = |e: &mut Edit<'_>, bits: u64| {
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

    fn convert(&mut self, e: &mut Edit<'_>, r: InstRef, to_four: bool) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(mut value), Some(ty)) = (inst.id(0), inst.ty) else { return malformed(r, "a conversion of nothing") };
        let from = e.m.type_of(value);
        let from_four = of(e.m, from).is_some();
        if from_four && matches!(inst.op, Op::SConvert | Op::ConvertSToF) {
            value = self.each(e, Made::Signed, value)?;
        }
        let mut decorated = decorations::take(e.m, &|_, id| Some(id) == inst.result);
        let decorated = inst.result.and_then(|id| decorated.remove(&id)).unwrap_or_default();
        let saturates = decorated.iter().any(|(d, _)| *d == Decoration::SaturatedConversion);
        // What has 8 bits has the width already.
        let same = |e: &Edit<'_>, other: Option<Id>| matches!(width(e.m, other), Some(4 | 8));
        let resized = matches!(inst.op, Op::UConvert | Op::SConvert);
        if !to_four {
            let op = if resized && same(e, inst.ty) { Op::Bitcast } else { inst.op };
            e.replace(r, op, [value.into()]);
            if let Some(id) = inst.result.filter(|_| op != Op::Bitcast) {
                decorations::give(e.m, id, &decorated);
            }
            return Ok(());
        }
        let op = if resized && same(e, from) { Op::Bitcast } else { inst.op };
        let mut wide = e.ids(op, ty, &[value]);
        if op != Op::Bitcast {
            decorations::give(e.m, wide, &decorated);
        }
        if saturates {
            let signed = matches!(inst.op, Op::SConvert | Op::ConvertFToS);
            wide = self.each(e, if signed { Made::NearestSigned } else { Made::NearestUnsigned }, wide)?;
        }
        let masked = self.each(e, Made::Masked, wide)?;
        e.replace(r, Op::CopyObject, [masked.into()]);
        Ok(())
    }

    fn muladd(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(a), Some(b), Some(c)) = (inst.id(0), inst.id(1), inst.id(2)) else {
            return malformed(r, "the operands are not three matrices");
        };
        if of(e.m, inst.ty).is_some() || of(e.m, e.m.type_of(c)).is_some() {
            return refuse(r, "sums of 4 bits: nothing says what becomes of the other bits".into());
        }
        let mut bits = inst.matrix_operands().0;
        let mut factors = [a, b];
        for (factor, sign) in factors.iter_mut().zip(SIGNS) {
            if bits & sign != 0 && of(e.m, e.m.type_of(*factor)).is_some() {
                *factor = self.each(e, Made::Signed, *factor)?;
            }
        }
        let both = [a, b].iter().all(|x| of(e.m, e.m.type_of(*x)).is_some());
        if both && bits & 3 != 0 {
            // Every value of 4 bits is one of 8 bits with a sign, and devices multiply those by each other.
            bits |= 3;
            if bits & SATURATING == 0 {
                bits |= SUMS_SIGNED;
            }
        }
        let operands = [factors[0], factors[1], c].map(Operand::Id).into_iter();
        e.replace(r, inst.op, operands.chain((bits != 0).then_some(Operand::Word(bits))));
        Ok(())
    }

    /// A load or store as an operation on each element.
    fn access(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let Some(access) = Access::of(&inst) else { return malformed(r, "the operands don't fit the instruction") };
        let shape = match access.object {
            Some(object) => e.shape(r, object)?,
            None => e.shape_of_type(r, inst.ty)?,
        };
        let mut at = At::new(e, r, &access, shape, (self.kernel, self.checked))?;
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
