//! Translates instructions on registers: the same for functions and for `OpSpecConstantOp`.

use coop_ir::spv::GlslStd450;
use coop_ir::{Inst, Op};

use super::code::{Conv, Ins, LaneFn, NO_ROW, Row};
use super::glsl_std_450;
use super::num::{Num, Rounding};
use super::types::{Kind, Ty, Types};

/// A value operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arg {
    pub row: Row,
    pub ty: Ty,
}

/// Properties of an instruction that its decorations and its module decide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub saturate: bool,
    pub mode: Option<Rounding>,
    /// True if the set of an `OpExtInst` is GLSL.std.450.
    pub glsl: bool,
    /// True if tensor layouts get the default strides that an H100 computes.
    pub floor_strides: bool,
}

/// An instruction to translate. `args` are its id operands that are values.
pub(super) struct Translation<'a> {
    pub types: &'a Types,
    pub inst: &'a Inst,
    /// The type of the result.
    pub ty: Ty,
    /// The first row of the result.
    pub dst: Row,
    pub args: &'a [Arg],
    pub manner: Manner,
    pub out: &'a mut Vec<Ins>,
}

impl Translation<'_> {
    /// Translates the instruction; returns false if it is not one on registers alone.
    pub(super) fn run(mut self) -> Result<bool, String> {
        fits(self.types, self.inst.op, self.types.slots(self.ty), self.args)?;
        Ok(self.rearrangement()? || self.conversion()? || self.algebra()? || self.tensor()? || self.component_wise()?)
    }

    fn arg(&self, i: usize) -> Result<Arg, String> {
        self.args.get(i).copied().ok_or_else(|| format!("{} lacks operand {i}", self.inst.op))
    }

    fn literal(&self, i: usize) -> u32 {
        self.inst.word(i).unwrap_or(0)
    }

    fn numeric(&self, ty: Ty) -> Result<(Num, u32), String> {
        self.types.numeric(ty).ok_or_else(|| format!("{} on a type that is not numeric", self.inst.op))
    }

    /// Instructions that only move components.
    fn rearrangement(&mut self) -> Result<bool, String> {
        let (ty, dst, n) = (self.ty, self.dst, self.types.slots(self.ty));
        match self.inst.op {
            op if op.is_copy() => {
                self.out.push(Ins::Copy { dst, src: self.arg(0)?.row, n });
            }
            op if op.is_pointer_cast() => {
                self.out.push(Ins::Copy { dst, src: self.arg(0)?.row, n: 1 });
            }
            Op::CompositeConstruct | Op::CompositeConstructReplicateEXT => {
                construct(self.types, ty, dst, self.args, self.inst.op, self.out)?;
            }
            Op::CompositeExtract => {
                let whole = self.arg(0)?;
                let (part, slot) = path(self.types, whole.ty, self.inst, 1)?;
                self.out.push(Ins::Copy { dst, src: whole.row + slot, n: self.types.slots(part) });
            }
            Op::CompositeInsert => {
                let (object, whole) = (self.arg(0)?, self.arg(1)?);
                let (part, slot) = path(self.types, whole.ty, self.inst, 2)?;
                let count = self.types.slots(part);
                let src = (0..n)
                    .map(|i| if (slot..slot + count).contains(&i) { object.row + i - slot } else { whole.row + i });
                self.out.push(Ins::Rows { dst, src: src.collect() });
            }
            Op::VectorShuffle => {
                let (a, b) = (self.arg(0)?, self.arg(1)?);
                let len = self.types.slots(a.ty);
                let src = (0..n).map(|i| match self.literal(2 + i as usize) {
                    u32::MAX => NO_ROW,
                    k if k < len => a.row + k,
                    k if k - len < self.types.slots(b.ty) => b.row + k - len,
                    _ => NO_ROW,
                });
                self.out.push(Ins::Rows { dst, src: src.collect() });
            }
            Op::VectorExtractDynamic => {
                let (v, i) = (self.arg(0)?, self.arg(1)?);
                self.out.push(Ins::Extract { dst, vector: v.row, n: self.types.slots(v.ty), index: i.row });
            }
            Op::VectorInsertDynamic => {
                let (v, value, i) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
                self.out.push(Ins::Insert { dst, vector: v.row, n, value: value.row, index: i.row });
            }
            Op::Select => {
                let (c, a, b) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
                let wide = matches!(self.types.kind(c.ty), Kind::Vector { .. });
                let num = self.types.numeric(ty).map(|t| t.0);
                self.out.push(Ins::Select { cond: c.row, wide, dst, a: a.row, b: b.row, n, num });
            }
            Op::Transpose => {
                let a = self.arg(0)?;
                let Kind::Matrix { column, cols } = *self.types.kind(a.ty) else {
                    return Err("the operand of OpTranspose is not a matrix".into());
                };
                let rows = self.types.slots(column);
                let src = (0..rows).flat_map(|r| (0..cols).map(move |c| a.row + c * rows + r));
                self.out.push(Ins::Rows { dst, src: src.collect() });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Conversions and bitcasts.
    fn conversion(&mut self) -> Result<bool, String> {
        let (ty, dst, n) = (self.ty, self.dst, self.types.slots(self.ty));
        match self.inst.op {
            Op::ConvertPtrToU | Op::ConvertUToPtr => {
                let conv =
                    Conv { op: Op::UConvert, from: Num::U64, to: self.numeric(ty)?.0, saturate: false, mode: None };
                self.out.push(Ins::Convert { conv, dst, a: self.arg(0)?.row, n });
            }
            Op::ConvertFToU
            | Op::ConvertFToS
            | Op::ConvertSToF
            | Op::ConvertUToF
            | Op::UConvert
            | Op::SConvert
            | Op::FConvert
            | Op::SatConvertSToU
            | Op::SatConvertUToS => {
                let a = self.arg(0)?;
                let (from, to) = (self.numeric(a.ty)?.0, self.numeric(ty)?.0);
                let conv = Conv { op: self.inst.op, from, to, saturate: self.manner.saturate, mode: self.manner.mode };
                self.out.push(Ins::Convert { conv, dst, a: a.row, n });
            }
            Op::ConvertFToBF16INTEL => {
                let a = self.arg(0)?;
                let conv = Conv { op: Op::FConvert, from: Num::F32, to: Num::Bf16, saturate: false, mode: None };
                self.out.push(Ins::Convert { conv, dst, a: a.row, n });
            }
            Op::ConvertBF16ToFINTEL => {
                let a = self.arg(0)?;
                let conv = Conv { op: Op::FConvert, from: Num::Bf16, to: Num::F32, saturate: false, mode: None };
                self.out.push(Ins::Convert { conv, dst, a: a.row, n });
            }
            Op::Bitcast => {
                let a = self.arg(0)?;
                let ((from, an), (to, _)) = (self.numeric(a.ty)?, self.numeric(ty)?);
                if from.bits() == to.bits() {
                    self.out.push(Ins::Copy { dst, src: a.row, n });
                } else {
                    let f = LaneFn::Bits { from: from.bits(), to: to.bits() };
                    self.out.push(Ins::Lane { f, dst, n, args: [(a.row, an)].into() });
                }
            }
            Op::BitcastExtractEXT => {
                let (a, at) = (self.arg(0)?, self.arg(1)?);
                let ((from, an), (to, _)) = (self.numeric(a.ty)?, self.numeric(ty)?);
                let f = LaneFn::BitsAt { from: from.bits(), to: to.bits() };
                self.out.push(Ins::Lane { f, dst, n, args: [(a.row, an), (at.row, 1)].into() });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Instructions that look at all components of their operands.
    fn algebra(&mut self) -> Result<bool, String> {
        let (ty, dst, n) = (self.ty, self.dst, self.types.slots(self.ty));
        match self.inst.op {
            Op::VectorTimesScalar | Op::MatrixTimesScalar => {
                let (a, b) = (self.arg(0)?, self.arg(1)?);
                let num = self.numeric(ty)?.0;
                let op = if num.is_float() { Op::FMul } else { Op::IMul };
                for i in 0..n {
                    self.out.push(Ins::Each { op, num, dst: dst + i, args: [a.row + i, b.row, 0, 0], n: 1 });
                }
            }
            Op::VectorTimesMatrix | Op::MatrixTimesVector | Op::MatrixTimesMatrix => {
                let (a, b) = (self.arg(0)?, self.arg(1)?);
                let num = self.numeric(ty)?.0;
                let (rows, inner) = match (self.inst.op, self.types.kind(a.ty)) {
                    (Op::VectorTimesMatrix, _) => (1, self.types.slots(a.ty)),
                    (_, Kind::Matrix { column, cols }) => (self.types.slots(*column), *cols),
                    _ => return Err(format!("the first operand of {} is not a matrix", self.inst.op)),
                };
                if rows == 0
                    || !n.is_multiple_of(rows)
                    || self.types.slots(b.ty) != inner * (n / rows)
                    || self.args.len() != 2
                {
                    return Err(format!("{}: its operands do not fit each other", self.inst.op));
                }
                let f = LaneFn::Product { num, rows, inner, cols: n / rows };
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            Op::OuterProduct => {
                let f = LaneFn::Outer(self.numeric(ty)?.0);
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            Op::Dot => {
                let f = LaneFn::Dot(self.numeric(ty)?.0);
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            op if op.is_dot_product() => {
                let (a, b) = (self.arg(0)?, self.arg(1)?);
                let accumulate = self.inst.op.is_saturating_dot_product();
                let signed = match self.inst.op {
                    Op::SDot | Op::SDotAccSat => [true, true],
                    Op::UDot | Op::UDotAccSat => [false, false],
                    _ => [true, false],
                };
                let packed = matches!(self.types.kind(a.ty), Kind::Num(_));
                let (a, b, to) = (self.numeric(a.ty)?.0, self.numeric(b.ty)?.0, self.numeric(ty)?.0);
                let f = LaneFn::IntDot { a, b, to, packed, signed, accumulate };
                let used = if accumulate { 3 } else { 2 };
                self.out.push(Ins::Lane {
                    f,
                    dst,
                    n,
                    args: whole(self.types, &self.args[..used.min(self.args.len())]),
                });
            }
            Op::IAddCarry | Op::ISubBorrow | Op::UMulExtended | Op::SMulExtended => {
                let f = LaneFn::Pair { op: self.inst.op, width: self.numeric(self.arg(0)?.ty)?.0.bits() };
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            Op::Any | Op::All => {
                let f = if self.inst.op == Op::Any { LaneFn::Any } else { LaneFn::All };
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Instructions on tensor layouts and views.
    fn tensor(&mut self) -> Result<bool, String> {
        let (ty, dst, n) = (self.ty, self.dst, self.types.slots(self.ty));
        match self.inst.op {
            op if op.is_tensor_layout() => {
                let Kind::Layout { dim, .. } = *self.types.kind(ty) else { return Err("no tensor layout".into()) };
                let f = LaneFn::Layout { op: self.inst.op, dim, floor: self.manner.floor_strides };
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            op if op.is_tensor_view() => {
                let Kind::View { dim, .. } = *self.types.kind(ty) else { return Err("no tensor view".into()) };
                let f = LaneFn::View { op: self.inst.op, dim };
                self.out.push(Ins::Lane { f, dst, n, args: whole(self.types, self.args) });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Instructions that work component by component, and those of GLSL.std.450.
    fn component_wise(&mut self) -> Result<bool, String> {
        let (ty, dst, n) = (self.ty, self.dst, self.types.slots(self.ty));
        match self.inst.op {
            Op::ExtInst if self.manner.glsl => return ext(self.types, self.inst, ty, dst, self.args, self.out),
            op if is_each(op) => {
                let num = match self.types.numeric(self.arg(0)?.ty) {
                    Some((num, _)) => num,
                    None => return Err(format!("{op} on a type that is not numeric")),
                };
                let mut rows = [0; 4];
                for (slot, a) in rows.iter_mut().zip(self.args) {
                    *slot = a.row;
                }
                self.out.push(Ins::Each { op, num, dst, args: rows, n });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Checks the numbers of components that execution relies on: malformed modules get no further than this.
fn fits(types: &Types, op: Op, n: u32, args: &[Arg]) -> Result<(), String> {
    let size = |i: usize| args.get(i).map_or(0, |a| types.slots(a.ty));
    let good = match op {
        op if op.is_copy() || op.is_pointer_cast() || op.is_conversion() => size(0) == n,
        Op::ConvertPtrToU
        | Op::ConvertUToPtr
        | Op::Transpose
        | Op::SatConvertSToU
        | Op::SatConvertUToS
        | Op::ConvertFToBF16INTEL
        | Op::ConvertBF16ToFINTEL => size(0) == n,
        Op::CompositeInsert => size(1) == n,
        Op::VectorExtractDynamic => size(0) > 0 && size(1) == 1 && n == 1,
        Op::VectorInsertDynamic => size(0) == n && size(1) == 1 && size(2) == 1,
        Op::Select => (size(0) == 1 || size(0) == n) && size(1) == n && size(2) == n,
        Op::VectorTimesScalar | Op::MatrixTimesScalar => size(0) == n && size(1) == 1,
        Op::OuterProduct => size(0) > 0 && size(0).checked_mul(size(1)) == Some(n),
        Op::Dot => size(0) == size(1) && n == 1 && args.len() == 2,
        op if op.is_saturating_dot_product() => size(0) == size(1) && size(2) == 1 && n == 1,
        op if op.is_dot_product() => size(0) == size(1) && n == 1,
        Op::IAddCarry | Op::ISubBorrow | Op::UMulExtended | Op::SMulExtended => {
            size(0) == size(1) && n == 2 * size(0) && args.len() == 2
        }
        Op::Any | Op::All => n == 1,
        Op::BitcastExtractEXT => size(1) == 1,
        op if op.changes_tensor() => size(0) == n,
        Op::BitFieldInsert => size(0) == n && size(1) == n && size(2) == 1 && size(3) == 1,
        Op::BitFieldSExtract | Op::BitFieldUExtract => size(0) == n && size(1) == 1 && size(2) == 1,
        op if is_each(op) => {
            !args.is_empty() && args.iter().all(|a| types.slots(a.ty) == n) && args.len() >= op.required_operands()
        }
        _ => true,
    };
    if good { Ok(()) } else { Err(format!("{op}: its operands do not fit each other")) }
}

fn whole(types: &Types, args: &[Arg]) -> Box<[(Row, u32)]> {
    args.iter().map(|a| (a.row, types.slots(a.ty))).collect()
}

fn construct(types: &Types, ty: Ty, dst: Row, args: &[Arg], op: Op, out: &mut Vec<Ins>) -> Result<(), String> {
    if let (Kind::Coop(_), [value]) = (types.kind(ty), args) {
        if types.slots(value.ty) != 1 {
            return Err("a matrix is made from a scalar".into());
        }
        out.push(Ins::Splat { dst, ty, value: value.row });
        return Ok(());
    }
    let mut src: Vec<Row> = args.iter().flat_map(|a| (0..types.slots(a.ty)).map(|i| a.row + i)).collect();
    if op == Op::CompositeConstructReplicateEXT && !src.is_empty() {
        let n = types.slots(ty) as usize;
        src = src.iter().copied().cycle().take(n).collect();
    }
    if src.len() != types.slots(ty) as usize {
        return Err(format!("{} components are given, {} needed", src.len(), types.slots(ty)));
    }
    out.push(Ins::Rows { dst, src: src.into() });
    Ok(())
}

/// Returns the part of `ty` that the literal indices from operand `from` on select, and its first slot.
pub(super) fn path(types: &Types, ty: Ty, inst: &Inst, from: usize) -> Result<(Ty, u32), String> {
    let (mut ty, mut at) = (ty, 0);
    for o in inst.operands.iter().skip(from) {
        let (part, slot) =
            types.part(ty, o.word()).ok_or_else(|| format!("{}: index {} is out of range", inst.op, o.word()))?;
        (ty, at) = (part, at + slot);
    }
    Ok((ty, at))
}

fn ext(types: &Types, inst: &Inst, ty: Ty, dst: Row, args: &[Arg], out: &mut Vec<Ins>) -> Result<bool, String> {
    let op = GlslStd450(inst.ext_instruction().unwrap_or(0));
    let n = types.slots(ty);
    let first = args.first().ok_or("an extended instruction without operands")?;
    let num = match types.numeric(first.ty) {
        Some((num, _)) => num,
        None => return Err("an extended instruction on a type that is not numeric".into()),
    };
    if glsl_std_450::is_whole(op) {
        let sizes: Vec<u32> = args.iter().map(|a| types.slots(a.ty)).collect();
        if !glsl_std_450::fits(op, &sizes, n) {
            return Err("its operands do not fit each other".into());
        }
        let num = if num.is_float() { num } else { types.numeric(ty).map_or(num, |t| t.0) };
        out.push(Ins::Lane { f: LaneFn::Glsl { op, num }, dst, n, args: whole(types, args) });
        return Ok(true);
    }
    if !glsl_std_450::is_each(op) {
        return Ok(false);
    }
    if args.len() < glsl_std_450::arity(op) || args.iter().any(|a| types.slots(a.ty) != n) {
        return Err("its operands do not fit each other".into());
    }
    let mut rows = [0; 3];
    for (slot, a) in rows.iter_mut().zip(args) {
        *slot = a.row;
    }
    if op == GlslStd450::Ldexp
        && let Some(conv) = args.get(1).and_then(|exponent| exponent_of_32_bits(types.numeric(exponent.ty)?.0))
    {
        out.push(Ins::Convert { conv, dst, a: rows[1], n });
        rows[1] = dst;
    }
    out.push(Ins::Ext { op, num, dst, args: rows, n });
    Ok(true)
}

/// Returns the conversion of an exponent of another width to the 32 bits that are executed. A larger number is as good as the largest.
fn exponent_of_32_bits(from: Num) -> Option<Conv> {
    let Num::Int { width, signed } = from else { return None };
    // A narrower one without a sign has its bits already.
    if width == 32 || width < 32 && !signed {
        return None;
    }
    Some(Conv { op: Op::SConvert, from, to: Num::Int { width: 32, signed: true }, saturate: width > 32, mode: None })
}

/// Returns true if `eval::execute` executes the instruction component by component.
fn is_each(op: Op) -> bool {
    let converts = op.is_conversion() || op.is_saturating_conversion() || matches!(op, Op::Bitcast | Op::ConvertPtrToU);
    let others = matches!(op, Op::FmaKHR | Op::RoundFToTF32INTEL);
    op.is_comparison() || others || op.is_componentwise() && !converts && op != Op::Select
}
