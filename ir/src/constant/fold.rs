//! Values of constants, and operations on them.

use super::Constants;
use crate::grammar::Op;
use crate::module::{Id, Inst, Module};
use crate::types::{self, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// A constant of any type.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Scalar(u64),
    /// A composite constant of the module, by its id: a module can build composites of composites that are exponentially
    /// large when written out.
    Constant(Id),
    /// A composite that an operation makes. The depth is stored, because dropping them recurses.
    Folded(Arc<[Value]>, u8),
    Unknown,
}

/// The most parts of a composite that is folded: the largest vector has 16 components, and memory must stay in proportion.
const MAX_PARTS: usize = 16;

/// The most levels of a composite that is folded.
const MAX_DEPTH: u8 = 8;

/// An operand of an operation, with its type.
pub(super) type Arg = (Value, Option<Id>);

impl Value {
    fn folded(parts: impl ExactSizeIterator<Item = Value>) -> Value {
        if parts.len() > MAX_PARTS {
            return Value::Unknown;
        }
        let parts: Arc<[Value]> = parts.collect();
        let inner = parts.iter().map(|p| match p {
            Value::Folded(_, depth) => *depth,
            _ => 0,
        });
        match inner.max().unwrap_or(0) {
            depth if depth < MAX_DEPTH => Value::Folded(parts, depth + 1),
            _ => Value::Unknown,
        }
    }
}

/// Returns `v` without the bits above `width`.
pub(super) fn mask(v: u64, width: u32) -> u64 {
    if width >= 64 { v } else { v & ((1 << width) - 1) }
}

/// Returns `v`, of `width` bits, as a signed number.
fn signed(v: u64, width: u32) -> i64 {
    match width {
        0 => 0,
        1..=63 => ((v << (64 - width)) as i64) >> (64 - width),
        _ => v as i64,
    }
}

pub(super) fn literal(module: &Module, inst: &Inst) -> Value {
    let (Some(low), Some(ty)) = (inst.word(0), inst.ty) else { return Value::Unknown };
    let high = inst.word(1).unwrap_or(0);
    let bits = u64::from(low) | (u64::from(high) << 32);
    match types::scalar(module, ty) {
        // Narrow signed literals are sign-extended in the file.
        Some(s) => Value::Scalar(mask(bits, s.width())),
        None => Value::Unknown,
    }
}

pub(super) fn null(module: &Module, ty: Id, depth: u32) -> Value {
    match Type::of(module, ty) {
        Some(Type::Scalar(_) | Type::Bool) => Value::Scalar(0),
        Some(Type::Vector { elem, len }) if len as usize <= MAX_PARTS && depth == 0 => {
            Value::folded(vec![null(module, elem, depth + 1); len as usize].into_iter())
        }
        _ => Value::Unknown,
    }
}

/// Returns the width of the integer in a scalar or vector type; 1 for Booleans.
fn width(module: &Module, ty: Option<Id>) -> Option<u32> {
    let of_scalar = |inst: &Inst| match inst.op {
        Op::TypeInt => inst.word(0),
        Op::TypeBool => Some(1),
        _ => None,
    };
    let inst = module.def_inst(ty?)?;
    // Not by recursion: the element of a broken vector type may be that type.
    if inst.op == Op::TypeVector { of_scalar(module.def_inst(inst.id(0)?)?) } else { of_scalar(inst) }
}

impl Constants {
    /// Returns the number of parts of a composite, and `None` for anything else and for those with too many parts.
    fn len(module: &Module, whole: &Value) -> Option<usize> {
        let len = match whole {
            Value::Constant(id) => module.def_inst(*id)?.operands.len(),
            Value::Folded(parts, _) => parts.len(),
            Value::Scalar(_) | Value::Unknown => return None,
        };
        (len <= MAX_PARTS).then_some(len)
    }

    fn part(&self, module: &Module, whole: &Value, at: usize) -> Option<Value> {
        match whole {
            Value::Constant(id) => Some(self.plain(module, module.def_inst(*id)?.id(at)?)),
            Value::Folded(parts, _) => parts.get(at).cloned(),
            Value::Scalar(_) | Value::Unknown => None,
        }
    }

    fn parts(&self, module: &Module, whole: &Value) -> Option<SmallVec<[Value; 4]>> {
        (0..Constants::len(module, whole)?).map(|i| self.part(module, whole, i)).collect()
    }

    /// Folds one operation on constants; `None` if it is not folded.
    pub(super) fn fold(&self, module: &Module, op: Op, ty: Id, args: &[Arg], literals: &[u32]) -> Option<Value> {
        match op {
            Op::CompositeExtract => {
                let whole = args.first()?.0.clone();
                return literals.iter().try_fold(whole, |whole, i| self.part(module, &whole, *i as usize));
            }
            Op::CompositeInsert => return self.inserted(module, &args.get(1)?.0, &args.first()?.0, literals),
            Op::VectorShuffle => {
                let mut all = self.parts(module, &args.first()?.0)?;
                all.extend(self.parts(module, &args.get(1)?.0)?);
                let chosen = literals.iter().map(|i| all.get(*i as usize).cloned().unwrap_or(Value::Unknown));
                return Some(Value::folded(chosen));
            }
            _ => {}
        }
        // Component by component for vectors.
        if let Some(Type::Vector { elem, len }) = Type::of(module, ty) {
            if len as usize > MAX_PARTS {
                return None;
            }
            let component = |i: usize| -> Option<Value> {
                let of = |(v, t): &Arg| match v {
                    Value::Scalar(_) => Some((v.clone(), *t)),
                    _ => Some((self.part(module, v, i)?, *t)),
                };
                let args: Option<SmallVec<[Arg; 3]>> = args.iter().map(of).collect();
                fold_scalar(module, op, elem, &args?)
            };
            return Some(Value::folded((0..len as usize).map(|i| component(i).unwrap_or(Value::Unknown))));
        }
        fold_scalar(module, op, ty, args)
    }

    /// Returns `whole` with the part at `path` replaced. A path of more than [`MAX_DEPTH`] steps is not followed, so that
    /// neither the recursion is deeper.
    fn inserted(&self, module: &Module, whole: &Value, part: &Value, path: &[u32]) -> Option<Value> {
        let Some((first, rest)) = path.split_first() else { return Some(part.clone()) };
        if rest.len() >= usize::from(MAX_DEPTH) {
            return None;
        }
        let mut parts = self.parts(module, whole)?;
        let changed = self.inserted(module, parts.get(*first as usize)?, part, rest)?;
        parts[*first as usize] = changed;
        Some(Value::folded(parts.into_iter()))
    }
}

fn fold_scalar(module: &Module, op: Op, ty: Id, args: &[Arg]) -> Option<Value> {
    let arg = |i: usize| match args.get(i) {
        Some((Value::Scalar(v), _)) => Some(*v),
        _ => None,
    };
    let out = width(module, Some(ty))?;
    if op == Op::Select {
        let chosen = if arg(0)? != 0 { 1 } else { 2 };
        return args.get(chosen).map(|a| a.0.clone());
    }
    let operand = |i: usize| Some((arg(i)?, args.get(i).and_then(|a| width(module, a.1))?));
    let bits = match operand(1) {
        Some(b) => fold_int(op, out, &[operand(0)?, b]),
        None => fold_int(op, out, &[operand(0)?]),
    };
    bits.map(Value::Scalar)
}

/// Folds one operation on integers or Booleans (of width 1) to the bits of its result, `out` wide. Operands are bits and
/// widths. `None` if the operation is not folded, or is not defined for these operands.
pub fn fold_int(op: Op, out: u32, args: &[(u64, u32)]) -> Option<u64> {
    let &(a, aw) = args.first()?;
    let sa = signed(a, aw);
    let unary = match op {
        Op::SNegate => Some(a.wrapping_neg()),
        Op::Not => Some(!a),
        Op::LogicalNot => Some(u64::from(a == 0)),
        Op::UConvert => Some(a),
        Op::SConvert => Some(sa as u64),
        _ => None,
    };
    if let Some(v) = unary {
        return Some(mask(v, out));
    }
    let &(b, bw) = args.get(1)?;
    let sb = signed(b, bw);
    let v = match op {
        Op::IAdd => a.wrapping_add(b),
        Op::ISub => a.wrapping_sub(b),
        Op::IMul => a.wrapping_mul(b),
        Op::UDiv => a.checked_div(b)?,
        Op::UMod => a.checked_rem(b)?,
        Op::SDiv => sa.checked_div(sb)? as u64,
        Op::SRem => sa.checked_rem(sb)? as u64,
        // The result takes the sign of the second operand.
        Op::SMod => {
            let r = sa.checked_rem(sb)?;
            (if r != 0 && (r < 0) != (sb < 0) { r + sb } else { r }) as u64
        }
        Op::ShiftLeftLogical if b < u64::from(aw) => a << b,
        Op::ShiftRightLogical if b < u64::from(aw) => a >> b,
        Op::ShiftRightArithmetic if b < u64::from(aw) => (sa >> b) as u64,
        Op::BitwiseOr | Op::LogicalOr => a | b,
        Op::BitwiseAnd | Op::LogicalAnd => a & b,
        Op::BitwiseXor => a ^ b,
        Op::IEqual | Op::LogicalEqual => u64::from(a == b),
        Op::INotEqual | Op::LogicalNotEqual => u64::from(a != b),
        Op::ULessThan => u64::from(a < b),
        Op::ULessThanEqual => u64::from(a <= b),
        Op::UGreaterThan => u64::from(a > b),
        Op::UGreaterThanEqual => u64::from(a >= b),
        Op::SLessThan => u64::from(sa < sb),
        Op::SLessThanEqual => u64::from(sa <= sb),
        Op::SGreaterThan => u64::from(sa > sb),
        Op::SGreaterThanEqual => u64::from(sa >= sb),
        _ => return None,
    };
    Some(mask(v, out))
}
