//! Arithmetic on lanes' arrays: multiplication and everything that works element by element.
//!
//! # Precision of MulAdd
//!
//! Floating point: products and sums are taken in f32 (in f64 where an operand is f64), `k` ascending, beginning with
//! the element of C; the sum is rounded once to the result type at the end. Vulkan leaves order and precision to the
//! implementation, so this is one of the legal results, and so are sums of parts of K ([`super::split_k`]). Where all four matrices are of f16 and at workgroup scope, a lane
//! may sum in pairs of f16 instead ([`super::product`]), rounding at each `k`, as who asks for such sums can expect. Integers are exact: the dot product and the sum wrap in the
//! width of the result, and SaturatingAccumulation saturates the last addition, in the signedness that the Result
//! bit gives.

use super::array::{Array, ArrayBuilder, slot, unroll, visit};
use super::exchange::Conversion;
use super::row_uniform::representative;
use super::{Key, Lower, Mat};
use crate::decorations::Decorated;
use crate::matrix::bits::small_type;
use crate::matrix::elementwise::{apply, saturated_sum, truncated};
use crate::matrix::placement::Use;
use crate::{Refusal, Semantics, malformed};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::rewrite::{insert_before, remove_globals};
use coop_ir::spv::CooperativeMatrixOperands as Bits;
use coop_ir::spv::Decoration;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// The type that may be summed in pairs.
pub(super) const HALF: Scalar = Scalar::Float { width: 16 };

/// The decoration CooperativeMatrixTransposeEXT.
const TRANSPOSE: u32 = Decoration::CooperativeMatrixTransposeEXT.0;

/// Up to this many multiplications a MulAdd is written out, 16x16x16 on 32 lanes among them; more become a loop over k.
const UNROLL_MULADD: u32 = 256;
/// Up to this many it asks the driver to unroll that loop. Beyond, a lane works out of memory anyway.
const ASK_MULADD: u32 = 4096;

impl Lower<'_, '_> {
    pub(super) fn elementwise(&mut self, r: InstRef, mat: Mat) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (op, args): (Op, Vec<Id>) = (inst.op, inst.ids().collect());
        let result = inst.result;
        let mats: Vec<Option<Mat>> = args.iter().map(|a| self.mat_of(*a)).collect();
        if let [Some(from)] = mats.as_slice()
            && (op.is_conversion() || op == Op::Bitcast)
            && let (Some(id), [value]) = (result, args.as_slice())
        {
            let transposed = self.takes_transposed(id);
            if transposed || from.placement != mat.placement {
                let decorations = self.decorated.get(&id).cloned().unwrap_or_default();
                let truncates = self.truncates(op, mat);
                let how = Conversion { from: *from, to: mat, transposed, op: Some((op, decorations)), truncates };
                return self.transfer(r, &how, *value);
            }
        }
        if mats.iter().flatten().any(|m| m.placement != mat.placement) {
            let why = format!("{op} changes the shape or the use of a matrix");
            return Err(Refusal::new(
                "refused-instruction",
                Some(r),
                why,
                "convert between matrices of one shape and use",
            ));
        }
        if args.is_empty() || args.iter().any(|a| self.m.type_of(*a).is_none()) {
            return malformed(r, format!("an operand of {op} has no type"));
        }
        let decorations = result.and_then(|id| self.decorated.get(&id)).cloned().unwrap_or_default();
        let types: Vec<Id> = [mat.ty].into_iter().chain(args.iter().filter_map(|a| self.m.type_of(*a))).collect();
        let words = decorations.iter().flat_map(|(d, more)| [d.0].into_iter().chain(more.iter().copied()));
        // Of the result, then of the operands.
        let row_uniform: Vec<bool> = result.iter().chain(&args).map(|id| self.row_uniform.contains(id)).collect();
        let words = words.chain(row_uniform.iter().map(|a| u32::from(*a)));
        let key = Key { op, types: types.clone(), extra: words.map(Operand::Word).collect() };
        let truncates = self.truncates(op, mat);
        self.call(r, key, &args, &mut |this| {
            let label = format!("coop_{}_{}", op.name().unwrap_or("op"), mat.label());
            small_type(this.m, mat.scalar);
            let mut b = FunctionBuilder::new(this.m, &mut this.g, &label, mat.ty, &types[1..]);
            Ok(elementwise_body(&mut b, (op, truncates), mat, (&mats, &row_uniform), &decorations).finish(b))
        })
    }

    /// Says once how results are computed that could be others.
    pub(super) fn approximates(&mut self, note: &str) {
        let notes = &mut self.cx.report.approximations;
        if !notes.iter().any(|n| n == note) {
            notes.push(note.to_owned());
        }
    }

    /// Returns true if an operation cuts off what does not fit: on an H100, conversions of matrices to bfloat16 do.
    fn truncates(&self, op: Op, to: Mat) -> bool {
        op == Op::FConvert && to.scalar == Scalar::BF16 && self.cx.options.semantics == Semantics::Nvidia
    }

    /// Converts a matrix to another use, or transposes it.
    pub(super) fn convert_use(&mut self, r: InstRef, to: Mat) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let turns = inst.op == Op::CooperativeMatrixTransposeNV;
        let (Some(value), Some(result)) = (inst.id(0), inst.result) else {
            return malformed(r, "the instruction has no operand");
        };
        let Some(from) = self.mat_of(value).filter(|f| f.scalar.width() == to.scalar.width()) else {
            return malformed(r, "the operand is not a matrix of the same component type");
        };
        if from.parts > 1 {
            return self.sum_parts(r, from, to, value);
        }
        let transposed = self.takes_transposed(result) || turns;
        self.transfer(r, &Conversion { from, to, transposed, op: None, truncates: false }, value)
    }

    /// Returns true if an id is decorated with CooperativeMatrixTransposeEXT; the decoration is taken off.
    fn takes_transposed(&mut self, id: Id) -> bool {
        let turn = TRANSPOSE;
        let found = remove_globals(self.m, |m, r| {
            let i = m.inst(r);
            i.op == Op::Decorate && i.id(0) == Some(id) && i.word(1) == Some(turn)
        });
        found > 0
    }

    /// A factor of subgroup scope as a product takes it. Where each element is held once, lanes exchange elements before the product.
    fn replicated_factor(&mut self, r: InstRef, mat: Mat, value: Id) -> Result<(Mat, Id), Refusal> {
        let placement = mat.placement.grid.placement(mat.placement.shape);
        if placement == mat.placement {
            return Ok((mat, value));
        }
        let held = match self.replicated.get(&mat.ty) {
            Some(held) => *held,
            None => {
                let (ty, len) = (self.m.fresh_id(), self.g.u32(self.m, placement.len()));
                let array = self.m.add(Inst::new(Op::TypeArray, None, Some(ty), [mat.elem.into(), len.into()]));
                self.m.globals.push(array);
                let held = Mat { ty, placement, ..mat };
                self.replicated.insert(mat.ty, held);
                held
            }
        };
        let id = self.m.fresh_id();
        let product = self.m.inst(r);
        let (op, place) = (product.op, Inst::new(Op::Undef, Some(held.ty), Some(id), []).at(product.origin));
        let Some(first) = insert_before(self.m, r, place) else {
            unreachable!("a product that is being lowered is in a block")
        };
        let how = Conversion { from: mat, to: held, transposed: false, op: None, truncates: false };
        self.transfer(first, &how, value).map_err(|refusal| {
            // What the place is for is the product.
            let reason = refusal.reason.replacen(&Op::Undef.to_string(), &op.to_string(), 1);
            Refusal { at: Some(r), reason: format!("{reason}: elements of its factors are looked at"), ..refusal }
        })?;
        Ok((held, id))
    }

    pub(super) fn muladd(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let mut args: Vec<Id> = inst.ids().take(3).collect();
        let bits = inst.matrix_operands();
        let result = inst.ty.and_then(|t| self.mats.get(&t)).copied();
        let mats: Option<Vec<Mat>> = args.iter().map(|a| self.mat_of(*a)).collect();
        let (Some(d), Some(&[mut a, mut b, c])) = (result, mats.as_deref()) else {
            return malformed(r, "the operands are not three matrices");
        };
        if !Bits::ALL.contains(bits) {
            let why = format!("the operand bits {:#x} have no lowering yet", bits.0);
            return Err(Refusal::new(
                "refused-instruction",
                Some(r),
                why,
                "use the bits of SPV_KHR_cooperative_matrix",
            ));
        }
        MulAdd { a, b, c, d, bits, pairs: false }.check(r)?;
        if !d.workgroup {
            (a, args[0]) = self.replicated_factor(r, a, args[0])?;
            (b, args[1]) = self.replicated_factor(r, b, args[1])?;
        }
        let mul = MulAdd { a, b, c, d, bits, pairs: false };
        let types = [d, a, b, c].map(|m| m.ty);
        let key = Key { op: Op::CooperativeMatrixMulAddKHR, types: types.to_vec(), extra: vec![bits.0.into()] };
        if d.scalar.is_float() {
            let note = "MulAdd sums in f32 (f64 for f64), k ascending from C, and rounds once to the result type";
            self.approximates(note);
        }
        if d.workgroup {
            let sources = [args[0], args[1]].map(|id| self.source(id));
            return self.product(r, mul, sources, args[2]);
        }
        self.call(r, key, &args, &mut |this| {
            let label = format!("coop_muladd_{}_{}", d.label(), a.placement.shape.cols);
            for m in [a, b, c, d] {
                small_type(this.m, m.scalar);
            }
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, d.ty, &types[1..]);
            let value = if mul.work() <= UNROLL_MULADD { mul.unrolled(&mut f) } else { mul.looped(&mut f) };
            Ok(f.finish(Some(value)))
        })
    }
}

/// The value that a body leaves.
struct Body(Id);

impl Body {
    fn finish(self, b: FunctionBuilder<'_>) -> Id {
        b.finish(Some(self.0))
    }
}

fn elementwise_body(
    b: &mut FunctionBuilder<'_>,
    (op, truncates): (Op, bool),
    mat: Mat,
    (mats, row_uniform): (&[Option<Mat>], &[bool]),
    decorations: &[Decorated],
) -> Body {
    let len = mat.placement.len();
    let how = unroll(len);
    let unrolled = how == Unroll::Now;
    let op = match op {
        Op::MatrixTimesScalar if mat.scalar.is_int() => Op::IMul,
        Op::MatrixTimesScalar => Op::FMul,
        op => op,
    };
    let (result_is_row_uniform, row_uniform) =
        row_uniform.split_first().map_or((false, row_uniform), |(first, rest)| (*first, rest));
    let mut arrays: Vec<(Id, Option<Array>, bool)> = Vec::new();
    for (i, mat) in mats.iter().enumerate() {
        let value = b.param(i);
        let array = mat.map(|m| Array::new(b, m, value, !unrolled));
        arrays.push((value, array, row_uniform.get(i) == Some(&true)));
    }
    let each = |b: &mut FunctionBuilder<'_>, i: Index, at: Index| {
        let mut operands = Vec::new();
        for (value, array, row_uniform) in &arrays {
            operands.push(match array {
                Some(array) => {
                    let at = representative(b, *row_uniform, mat, i, at);
                    array.get(b, at)
                }
                None => *value,
            });
        }
        if truncates { truncated(b, mat.elem, operands[0]) } else { apply(b, op, mat.elem, &operands, decorations) }
    };
    let mut sink = ArrayBuilder::new(b, mat, !unrolled);
    if result_is_row_uniform {
        sink.rows(b, mat, how, &mut |b, i, at| each(b, i, at));
    } else {
        visit(b, mat.placement, how, &mut |b, i, _, at| {
            let value = each(b, i, at);
            sink.set(b, at, value);
        });
    }
    Body(sink.finish(b))
}

#[derive(Clone, Copy)]
pub(super) struct MulAdd {
    pub(super) a: Mat,
    pub(super) b: Mat,
    pub(super) c: Mat,
    pub(super) d: Mat,
    pub(super) bits: Bits,
    /// True if a lane sums in pairs of f16.
    pub(super) pairs: bool,
}

impl MulAdd {
    fn check(&self, r: InstRef) -> Result<(), Refusal> {
        let (a, b, c, d) = (self.a.placement, self.b.placement, self.c.placement, self.d.placement);
        // In bands everybody has what its tile needs; the parts that go through shared memory need not fit.
        let staged = self.d.workgroup;
        let fits = [a, b, d].map(|m| m.shape.use_) == [Use::A, Use::B, Use::Accumulator]
            && a.shape.rows == d.shape.rows
            && b.shape.cols == d.shape.cols
            && a.shape.cols == b.shape.rows
            && c == d
            && (staged || a.rows == d.rows && b.cols == d.cols)
            && [self.a, self.b, self.c]
                .iter()
                .all(|m| (staged || m.placement.grid == self.d.placement.grid) && m.workgroup == staged);
        if !fits {
            return malformed(r, "the shapes or uses of the operands don't fit together");
        }
        let scalars = [self.a, self.b, self.c, self.d].map(|m| m.scalar);
        if scalars.iter().any(|s| s.is_int() != self.d.scalar.is_int()) {
            let why = format!("it multiplies {} and {} into {}", scalars[0], scalars[1], scalars[3]);
            return Err(Refusal::new("refused-instruction", Some(r), why, "use integers alone, or floats alone"));
        }
        Ok(())
    }

    /// Multiplications of a lane.
    fn work(&self) -> u32 {
        self.d.placement.len().saturating_mul(self.a.placement.cols.per_group)
    }

    /// The type in which a lane sums.
    pub(super) fn sum(&self) -> Scalar {
        let scalars = [self.a, self.b, self.c, self.d].map(|m| m.scalar);
        match self.d.scalar {
            _ if self.pairs => HALF,
            Scalar::Int { width, .. } => Scalar::Int { width: width.max(32), signed: false },
            _ if scalars.iter().any(|s| s.width() == 64) => Scalar::Float { width: 64 },
            _ => Scalar::Float { width: 32 },
        }
    }

    /// An element as a number of the type in which a lane sums.
    pub(super) fn widen(&self, b: &mut FunctionBuilder<'_>, value: Id, from: Mat, signed: bool) -> Id {
        let sum = self.sum();
        let ty = b.globals.scalar(b.module, sum);
        if from.elem == ty {
            return value;
        }
        let op = match from.scalar {
            Scalar::Int { width, .. } if width == sum.width() => Op::Bitcast,
            Scalar::Int { width, .. } if width < sum.width() && signed => Op::SConvert,
            Scalar::Int { .. } => Op::UConvert,
            _ => Op::FConvert,
        };
        b.ids(op, ty, &[value])
    }

    pub(super) fn step(&self, b: &mut FunctionBuilder<'_>, sum: Id, x: Id, y: Id) -> Id {
        let (ty, mul, add) = match self.sum() {
            s @ Scalar::Int { .. } => (b.globals.scalar(b.module, s), Op::IMul, Op::IAdd),
            s => (b.globals.scalar(b.module, s), Op::FMul, Op::FAdd),
        };
        let product = b.ids(mul, ty, &[x, y]);
        b.ids(add, ty, &[sum, product])
    }

    /// Returns true if the sums of a lane are its part of the accumulator, between slices too.
    pub(super) fn keeps_sums(&self) -> bool {
        let sum = self.sum();
        self.c.ty == self.d.ty && self.d.scalar == sum && !self.saturates() && !self.pairs
    }

    fn saturates(&self) -> bool {
        self.bits.contains(Bits::SaturatingAccumulationKHR) && self.d.scalar.is_int()
    }

    /// Returns the initial value of the sum: C, unless the addition of C saturates and so must come last.
    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, c: Id) -> Id {
        if self.saturates() {
            return b.globals.constant(b.module, self.sum(), 0);
        }
        self.widen(b, c, self.c, self.bits.contains(Bits::MatrixCSignedComponentsKHR))
    }

    /// The element of the result.
    pub(super) fn end(&self, b: &mut FunctionBuilder<'_>, sum: Id, c: Id) -> Id {
        let wide = self.sum();
        let ty = b.globals.scalar(b.module, wide);
        let sum = if self.saturates() { self.saturated(b, sum, c) } else { sum };
        let Scalar::Int { width, .. } = self.d.scalar else {
            return if ty == self.d.elem { sum } else { b.ids(Op::FConvert, self.d.elem, &[sum]) };
        };
        let (sum, ty) = if width < wide.width() {
            let ty = b.globals.uint(b.module, width);
            (b.ids(Op::UConvert, ty, &[sum]), ty)
        } else {
            (sum, ty)
        };
        if ty == self.d.elem { sum } else { b.ids(Op::Bitcast, self.d.elem, &[sum]) }
    }

    /// `sum + c`, saturated in the width of the result.
    fn saturated(&self, b: &mut FunctionBuilder<'_>, sum: Id, c: Id) -> Id {
        let wide = self.sum();
        let width = self.d.scalar.width();
        let signed = self.bits.contains(Bits::MatrixResultSignedComponentsKHR);
        let c = self.widen(b, c, self.c, self.bits.contains(Bits::MatrixCSignedComponentsKHR));
        let ty = b.globals.scalar(b.module, wide);
        let bool_type = b.globals.bool(b.module);
        if width < wide.width() {
            // Both as numbers of the result's width; then the wide sum can't wrap.
            let narrow = b.globals.uint(b.module, width);
            let extend = if signed { Op::SConvert } else { Op::UConvert };
            let [x, y] = [sum, c].map(|v| {
                let low = b.ids(Op::UConvert, narrow, &[v]);
                b.ids(extend, ty, &[low])
            });
            let total = b.ids(Op::IAdd, ty, &[x, y]);
            let (least, most) = if signed {
                let half = 1u64 << (width - 1);
                (Some(half.wrapping_neg() & 0xffff_ffff), half - 1)
            } else {
                (None, (1 << width) - 1)
            };
            let most = b.globals.constant(b.module, wide, most);
            let above = if signed { Op::SGreaterThan } else { Op::UGreaterThan };
            let over = b.ids(above, bool_type, &[total, most]);
            let total = b.ids(Op::Select, ty, &[over, most, total]);
            let Some(least) = least else { return total };
            let least = b.globals.constant(b.module, wide, least);
            let under = b.ids(Op::SLessThan, bool_type, &[total, least]);
            return b.ids(Op::Select, ty, &[under, least, total]);
        }
        saturated_sum(b, ty, wide, sum, c, signed)
    }

    fn unrolled(&self, b: &mut FunctionBuilder<'_>) -> Id {
        let (rows, cols, depth) =
            (self.d.placement.rows.per_group, self.d.placement.cols.per_group, self.a.placement.cols.per_group);
        let [a_signed, b_signed] =
            [Bits::MatrixASignedComponentsKHR, Bits::MatrixBSignedComponentsKHR].map(|bit| self.bits.contains(bit));
        let all = |b: &mut FunctionBuilder<'_>, param: usize, mat: Mat, signed: Option<bool>| -> Vec<Id> {
            let value = b.param(param);
            let array = Array::new(b, mat, value, false);
            let mut out = Vec::new();
            for i in 0..mat.placement.len() {
                let value = array.get(b, Index::Const(i));
                out.push(signed.map_or(value, |s| self.widen(b, value, mat, s)));
            }
            out
        };
        let xs = all(b, 0, self.a, Some(a_signed));
        let ys = all(b, 1, self.b, Some(b_signed));
        let cs = all(b, 2, self.c, None);
        let mut parts = Vec::new();
        for i in 0..rows {
            for j in 0..cols {
                let c = cs[(i * cols + j) as usize];
                let mut sum = self.begin(b, c);
                for k in 0..depth {
                    sum = self.step(b, sum, xs[(i * depth + k) as usize], ys[(k * cols + j) as usize]);
                }
                parts.push(self.end(b, sum, c));
            }
        }
        b.ids(Op::CompositeConstruct, self.d.ty, &parts)
    }

    fn looped(&self, b: &mut FunctionBuilder<'_>) -> Id {
        let (rows, cols, depth) =
            (self.d.placement.rows.per_group, self.d.placement.cols.per_group, self.a.placement.cols.per_group);
        let [a_signed, b_signed] =
            [Bits::MatrixASignedComponentsKHR, Bits::MatrixBSignedComponentsKHR].map(|bit| self.bits.contains(bit));
        let values = [0, 1, 2].map(|i| b.param(i));
        let xs = Array::new(b, self.a, values[0], true);
        let ys = Array::new(b, self.b, values[1], true);
        let cs = Array::new(b, self.c, values[2], true);
        let sum_type = b.globals.scalar(b.module, self.sum());
        let len = self.d.placement.len();
        let sums_type = b.globals.array(b.module, sum_type, len);
        let (sums, out) = (b.variable(sums_type), b.variable(self.d.ty));
        b.repeat(len, unroll(len), &mut |b, i| {
            let c = cs.get(b, i);
            let first = self.begin(b, c);
            let slot = slot(b, sums, sum_type, i);
            b.effect(Op::Store, [slot.into(), first.into()]);
        });
        let outer = if self.work() <= ASK_MULADD { Unroll::Ask } else { Unroll::No };
        let inner = if outer == Unroll::Ask { unroll(len) } else { Unroll::No };
        b.repeat(depth, outer, &mut |b, k| {
            b.repeat(rows, inner, &mut |b, i| {
                let line = b.mul(i, Index::Const(depth));
                let at = b.add(line, k);
                let x = xs.get(b, at);
                let x = self.widen(b, x, self.a, a_signed);
                b.repeat(cols, inner, &mut |b, j| {
                    let line = b.mul(k, Index::Const(cols));
                    let at = b.add(line, j);
                    let y = ys.get(b, at);
                    let y = self.widen(b, y, self.b, b_signed);
                    let line = b.mul(i, Index::Const(cols));
                    let at = b.add(line, j);
                    let slot = slot(b, sums, sum_type, at);
                    let sum = b.ids(Op::Load, sum_type, &[slot]);
                    let sum = self.step(b, sum, x, y);
                    b.effect(Op::Store, [slot.into(), sum.into()]);
                });
            });
        });
        b.repeat(len, unroll(len), &mut |b, i| {
            let slot_in = slot(b, sums, sum_type, i);
            let sum = b.ids(Op::Load, sum_type, &[slot_in]);
            let c = cs.get(b, i);
            let value = self.end(b, sum, c);
            let slot_out = slot(b, out, self.d.elem, i);
            b.effect(Op::Store, [slot_out.into(), value.into()]);
        });
        b.ids(Op::Load, self.d.ty, &[out])
    }
}
