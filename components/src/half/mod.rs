//! Computes with f32 instead of f16, where the device has no arithmetic with f16.
//!
//! Precondition: no matrices, and no f16 in memory that the application sees (`storage`). Effect: the type becomes f32, and
//! everything made of it; a value that was f16 is held by the f32 that is equal to it. The result of an operation that
//! rounds is rounded to f16, to nearest even ([`crate::float`]). f32 has more than twice the bits of f16 and two: sums, differences,
//! products, quotients and square roots that are rounded twice are as if rounded once. `Fma` and conversions from f64 round to
//! odd first. Other functions, dot products and reductions are computed with f32 and rounded at the end, which is at least as
//! good as each step rounded. Shared memory takes twice the bytes. With [`Options::excess_precision`](crate::Options) the
//! results of arithmetic are not rounded, until their bits are taken, and bits become numbers by `UnpackHalf2x16`, which may take
//! subnormal numbers for zero.
//!
//! Refuses: specialization constants of f16, interfaces, images and atomic operations of f16, rounding modes other than to
//! nearest even, and flushing of subnormal numbers.

mod bits;
mod code;
mod globals;

use crate::Refusal;
use crate::emit::{self, function, glsl, wide};
use crate::float::Format;
use crate::narrow::Notes;
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use crate::report::Software;
use code::F16;
use coop_ir::builder::{FunctionBuilder, Globals};
use coop_ir::decorate::Decorations;
use coop_ir::effects::{ExtSet, ExtSets};
use coop_ir::grammar::GroupOp;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{replace_uses, sort_globals, unify_types};
use coop_ir::spv::{Decoration, GlslStd450 as Glsl};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::uses::Users;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const REMEDY: &str = "use f32 there, or a device with shaderFloat16";

/// The functions that are made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Helper {
    Round,
    ToBits,
    FromBits,
    Fused,
    FromF64,
}

/// The pass while it runs.
struct Half {
    functions: FxHashMap<(Helper, u32), Id>,
    sets: ExtSets,
    users: Users,
    /// True for the types that have f16 in them.
    types: MadeOf<'static>,
    notes: Notes,
    /// Conversions that don't round to nearest even.
    rounded: FxHashSet<Id>,
    /// The halves of words that become vectors of which only components are used.
    parts: FxHashMap<Id, Vec<Id>>,
    replaced: FxHashMap<Id, Id>,
    /// True if the results of arithmetic keep the precision of f32.
    excess: bool,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let declared = m.globals_with(Op::TypeFloat).any(|r| m.inst(r).result.is_some_and(|id| is_half(m, id)));
    if !cx.lacks.in_software(m, F16) || !declared {
        return Ok(());
    }
    globals::check(m)?;
    let mut g = Globals::new(m);
    let mut pass = Half {
        functions: FxHashMap::default(),
        sets: ExtSets::new(m),
        users: Users::new(m),
        types: globals::HALF.made_of(),
        notes: Notes::default(),
        rounded: otherwise_rounded(m),
        parts: FxHashMap::default(),
        replaced: FxHashMap::default(),
        excess: cx.excess_precision,
    };
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    pass.notes.gone.extend(pass.parts.keys().chain(pass.replaced.keys()));
    pass.notes.apply(m);
    replace_uses(m, &pass.replaced);
    globals::retype(m);
    unify_types(m);
    sort_globals(m);
    cx.report.software.push(Software::Arithmetic { narrow: F16.to_string(), wide: "f32".to_owned() });
    Ok(())
}

fn is_half(m: &Module, ty: Id) -> bool {
    types::scalar_or_vector(m, ty).is_some_and(|(s, _)| s == F16)
}

/// Returns true if a type is a matrix of f16.
fn has_half_columns(m: &Module, ty: Id) -> bool {
    matches!(Type::of(m, ty), Some(Type::Matrix { column, .. }) if is_half(m, column))
}

/// Returns the number of components of a number or vector.
fn len_of(m: &Module, ty: Id) -> u32 {
    types::scalar_or_vector(m, ty).map_or(1, |(_, len)| len)
}

/// Returns the ids with a rounding mode other than to nearest even.
fn otherwise_rounded(m: &Module) -> FxHashSet<Id> {
    let decorations = Decorations::new(m);
    let mode = |id: Id| decorations.value(id, Decoration::FPRoundingMode);
    decorations.ids().filter(|id| mode(*id).is_some_and(|mode| mode != 0)).collect()
}

impl Half {
    /// Returns true if a type is made of f16, or points to what is.
    fn has_half(&mut self, m: &Module, ty: Id) -> bool {
        self.types.any(m, ty)
    }

    fn touches(&mut self, m: &Module, i: &Inst) -> bool {
        i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| self.has_half(m, ty))
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        if !self.touches(b.module, &i) || self.sets.is_note(&i) {
            b.keep(r);
            return Ok(());
        }
        let value = i.ty.is_some_and(|ty| is_half(b.module, ty));
        match i.op {
            Op::FConvert | Op::ConvertSToF | Op::ConvertUToF => return self.conversion(b, r, &i),
            Op::Bitcast => return self.bitcast(b, r, &i),
            Op::CompositeExtract if self.part(b, &i) => return Ok(()),
            op if op.is_ext_inst() => return self.extended(b, r, &i),
            op if rounds(op) && value => self.rounded(b, r, &i),
            op if keeps_values(op) => b.keep(r),
            Op::FmaKHR if value => self.fused(b, r, &i, i.ids().collect()),
            _ if i.ty.is_some_and(|ty| has_half_columns(b.module, ty)) => {
                self.rounded_columns(b, r, &i);
            }
            op => return Err(self.refuse(r, &format!("{op} on f16"))),
        }
        Ok(())
    }

    fn refuse(&self, r: InstRef, what: &str) -> Refusal {
        Refusal::new(r, format!("{what} has no lowering to f32"), REMEDY)
    }

    /// Emits the operation with a result of its own, and rounds that.
    fn rounded(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        let (Some(ty), Some(result), false) = (i.ty, i.result, self.excess) else { return b.keep(r) };
        let exact = b.op(i.op, ty, i.operands.iter().copied());
        self.notes.moved.insert(result, exact);
        let len = len_of(b.module, ty);
        self.call_as(b, r, i, Helper::Round, len, &[exact]);
    }

    /// Emits the operation with a result of its own, and rounds the columns of that, a matrix.
    fn rounded_columns(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        let matrix = i.ty.and_then(|ty| Type::of(b.module, ty));
        let (Some(Type::Matrix { column, cols: columns }), Some(ty), Some(result), false) =
            (matrix, i.ty, i.result, self.excess)
        else {
            return b.keep(r);
        };
        let exact = b.op(i.op, ty, i.operands.iter().copied());
        self.notes.moved.insert(result, exact);
        let callee = self.helper(b, Helper::Round, len_of(b.module, column));
        let mut rounded = Vec::new();
        for n in 0..columns {
            let one = b.op(Op::CompositeExtract, column, [exact.into(), n.into()]);
            rounded.push(Operand::Id(b.ids(Op::FunctionCall, column, &[callee, one])));
        }
        b.module.replace(r, Inst::new(Op::CompositeConstruct, i.ty, i.result, rounded).at(i.origin));
        b.keep(r);
    }

    /// Multiplies and adds, and rounds once; with excess precision as f32 does.
    fn fused(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst, arguments: Vec<Id>) {
        if self.excess {
            return b.keep(r);
        }
        let len = i.ty.map_or(1, |ty| len_of(b.module, ty));
        self.notes.plain.extend(i.result);
        self.call_as(b, r, i, Helper::Fused, len, &arguments);
    }

    /// Replaces an instruction by a call.
    fn call_as(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        i: &Inst,
        helper: Helper,
        len: u32,
        arguments: &[Id],
    ) {
        let callee = self.helper(b, helper, len);
        let operands = [callee].into_iter().chain(arguments.iter().copied()).map(Operand::Id);
        b.module.replace(r, Inst::new(Op::FunctionCall, i.ty, i.result, operands).at(i.origin));
        b.keep(r);
    }

    /// Calls a function with words as its result, or f32 ones.
    fn call(&mut self, b: &mut FunctionBuilder<'_>, helper: Helper, ty: Id, argument: Id) -> Id {
        let callee = self.helper(b, helper, 1);
        b.ids(Op::FunctionCall, ty, &[callee, argument])
    }

    /// Returns the function for vectors of a length.
    fn helper(&mut self, b: &mut FunctionBuilder<'_>, helper: Helper, len: u32) -> Id {
        if let Some(id) = self.functions.get(&(helper, len)) {
            return *id;
        }
        let [f32_type, f64_type] = [32, 64].map(|width| Scalar::Float { width });
        let scalar = b.globals.scalar(b.module, f32_type);
        let (float, uint) = (wide(b, scalar, len), b.u32_type());
        let uint = wide(b, uint, len);
        let excess = self.excess;
        let suffix = if len == 1 { String::new() } else { format!("_v{len}") };
        let id = match helper {
            Helper::Round => function(b, &format!("coop_f16_round{suffix}"), float, &[float], |b, v| {
                Format::F16.round(b, len, v[0], false)
            }),
            Helper::ToBits => function(b, &format!("coop_f16_to_bits{suffix}"), uint, &[float], |b, v| {
                let value = if excess { Format::F16.round(b, len, v[0], false) } else { v[0] };
                Format::F16.encode(b, len, value)
            }),
            Helper::FromBits if excess && len == 1 => {
                let (pair, glsl) = (wide(b, scalar, 2), glsl(b.module));
                function(b, "coop_f16_from_bits", float, &[uint], |b, v| {
                    let all = b.op(Op::ExtInst, pair, [glsl.into(), Glsl::UnpackHalf2x16.0.into(), v[0].into()]);
                    b.op(Op::CompositeExtract, float, [all.into(), 0.into()])
                })
            }
            Helper::FromBits => function(b, &format!("coop_f16_from_bits{suffix}"), float, &[uint], |b, v| {
                Format::F16.decode(b, len, v[0])
            }),
            Helper::Fused => function(b, &format!("coop_f16_fma{suffix}"), float, &[float; 3], |b, v| {
                let odd = code::fused(b, len, [v[0], v[1], v[2]]);
                Format::F16.round(b, len, odd, false)
            }),
            Helper::FromF64 => {
                let double = b.globals.scalar(b.module, f64_type);
                let double = wide(b, double, len);
                function(b, &format!("coop_f16_from_f64{suffix}"), float, &[double], |b, v| {
                    let odd = code::from_f64(b, len, v[0], double);
                    Format::F16.round(b, len, odd, false)
                })
            }
        };
        self.functions.insert((helper, len), id);
        id
    }

    /// Conversions to f16 round; those from it are exact, or round as they do from f32.
    fn conversion(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else {
            b.keep(r);
            return Ok(());
        };
        let from = b.module.type_of(value).and_then(|ty| types::scalar_or_vector(b.module, ty));
        let Some((from, len)) = from else { return Err(self.refuse(r, "a conversion of another type")) };
        let single = Scalar::Float { width: 32 };
        if !is_half(b.module, ty) {
            if types::scalar_or_vector(b.module, ty).is_some_and(|(to, _)| to == single) {
                self.notes.plain.insert(result);
                b.module.inst_mut(r).op = Op::CopyObject;
            }
            b.keep(r);
            return Ok(());
        }
        self.notes.plain.insert(result);
        if self.rounded.contains(&result) {
            return Err(self.refuse(r, "a conversion to f16 that does not round to nearest even"));
        }
        if from == (Scalar::Float { width: 64 }) {
            self.call_as(b, r, i, Helper::FromF64, len, &[value]);
            return Ok(());
        }
        let value = if from == single {
            value
        } else {
            let float = b.globals.scalar(b.module, single);
            let float = wide(b, float, len);
            b.ids(i.op, float, &[value])
        };
        self.call_as(b, r, i, Helper::Round, len, &[value]);
        Ok(())
    }

    fn extended(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (ExtSet::Glsl, Some(number)) = (self.sets.of(i), i.ext_instruction().map(Glsl)) else {
            return Err(self.refuse(r, "an instruction of this set on f16"));
        };
        match number {
            Glsl::Fma if !self.excess => self.fused(b, r, i, i.ids_from(2).collect()),
            number if is_exact(number) => b.keep(r),
            Glsl::InterpolateAtCentroid | Glsl::InterpolateAtSample | Glsl::InterpolateAtOffset => {
                return Err(self.refuse(r, "interpolation of f16"));
            }
            _ if i.ty.is_some_and(|ty| is_half(b.module, ty)) => self.rounded(b, r, i),
            _ if i.ty.is_some_and(|ty| has_half_columns(b.module, ty)) => self.rounded_columns(b, r, i),
            Glsl(n) => return Err(self.refuse(r, &format!("instruction {n} of GLSL.std.450 on f16"))),
        }
        Ok(())
    }
}

/// Returns true if an operation rounds its result.
fn rounds(op: Op) -> bool {
    let sums = op.group_operation().is_some_and(|g| matches!(g, GroupOp::FAdd | GroupOp::FMul));
    op != Op::FNegate && (op.is_float_arithmetic() || op.multiplies_vectors() || sums)
}

/// Returns true if an instruction has results that are among its operands, or exact, or not f16.
fn keeps_values(op: Op) -> bool {
    let group = op.group_operation().is_some_and(|g| !matches!(g, GroupOp::FAdd | GroupOp::FMul));
    let memory = op.is_access_chain() || op == Op::CopyMemory;
    let whole = op.takes_any_type() || op.moves_whole_values() || op.is_composite() || op == Op::CopyLogical;
    memory
        || whole
        || group
        || op.is_comparison()
        || op == Op::FNegate
        || op.moves_components()
        || op.is_int_float_conversion()
}

/// Returns true if a function's results are exact for every f16: they are f16 or not floating-point numbers at all.
fn is_exact(number: Glsl) -> bool {
    const EXACT: [Glsl; 18] = [
        Glsl::Round,
        Glsl::RoundEven,
        Glsl::Trunc,
        Glsl::FAbs,
        Glsl::FSign,
        Glsl::Floor,
        Glsl::Ceil,
        Glsl::Modf,
        Glsl::ModfStruct,
        Glsl::FMin,
        Glsl::FMax,
        Glsl::FClamp,
        Glsl::Step,
        Glsl::Frexp,
        Glsl::FrexpStruct,
        Glsl::NMin,
        Glsl::NMax,
        Glsl::NClamp,
    ];
    EXACT.contains(&number)
}
