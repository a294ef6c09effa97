//! Arithmetic on single numbers, for the functions that matrix instructions call.

use super::emit::Gen;
use super::range::Range;
use coop_ir::Id;
use coop_ir::grammar::Op;
use coop_ir::types::Scalar;

/// A number at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Num {
    pub(super) id: Id,
    pub(super) scalar: Scalar,
    pub(super) range: Range,
}

/// An operation that may be done in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Combine {
    Add,
    Max,
    Min,
    /// Bits of integers.
    And,
    Or,
    Xor,
    /// Integers only: products of floats leave every range soon.
    Mul,
}

impl Combine {
    /// Returns the operations that numbers of a type have.
    pub(super) fn all(scalar: Scalar) -> &'static [Combine] {
        use Combine::*;
        if scalar.is_int() { &[Add, Max, Min, And, Or, Xor, Mul] } else { &[Add, Max, Min] }
    }

    /// Returns the range of the result for any number of values; `None` if it is not exact.
    pub(super) fn range(self, range: Range, scalar: Scalar, n: u32) -> Option<Range> {
        match self {
            Combine::Max | Combine::Min => range.fits(scalar).then_some(range),
            Combine::Add => range.times(n).hull(range).wrapped(scalar),
            _ => scalar.is_int().then(|| Range::of(scalar)),
        }
    }
}

/// Returns true if there is arithmetic on numbers of the type.
pub(super) fn computes(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::Encoded { .. })
}

/// The comparison that says whether one number is less than another.
pub(super) fn less(scalar: Scalar) -> Op {
    match scalar {
        Scalar::Int { signed: true, .. } => Op::SLessThan,
        Scalar::Int { .. } => Op::ULessThan,
        _ => Op::FOrdLessThan,
    }
}

impl Gen<'_> {
    pub(super) fn num_op(&mut self, op: Op, scalar: Scalar, operands: &[Id], range: Range) -> Num {
        let ty = self.scalar(scalar);
        Num { id: self.ids(op, ty, operands), scalar, range }
    }

    pub(super) fn num_add(&mut self, a: Num, b: Num) -> Option<Num> {
        let range = a.range.plus(b.range).wrapped(a.scalar)?;
        let op = if a.scalar.is_float() { Op::FAdd } else { Op::IAdd };
        Some(self.num_op(op, a.scalar, &[a.id, b.id], range))
    }

    pub(super) fn num_mul(&mut self, a: Num, b: Num) -> Option<Num> {
        let range = a.range.mul(b.range).wrapped(a.scalar)?;
        let op = if a.scalar.is_float() { Op::FMul } else { Op::IMul };
        Some(self.num_op(op, a.scalar, &[a.id, b.id], range))
    }

    pub(super) fn num_negate(&mut self, a: Num) -> Option<Num> {
        let range = a.range.negated().wrapped(a.scalar)?;
        let op = if a.scalar.is_float() { Op::FNegate } else { Op::SNegate };
        Some(self.num_op(op, a.scalar, &[a.id], range))
    }

    pub(super) fn num_select(&mut self, condition: Id, a: Num, b: Num) -> Option<Num> {
        let range = a.range.hull(b.range);
        // Halves of one and the size of the other may not go together.
        if !range.fits(a.scalar) {
            return None;
        }
        Some(self.num_op(Op::Select, a.scalar, &[condition, a.id, b.id], range))
    }

    /// A small number of a type, as a constant.
    pub(super) fn num_small(&mut self, scalar: Scalar) -> Num {
        let (value, frac) = self.small_number(scalar);
        Num { id: self.number(scalar, value, frac), scalar, range: Range::new(value, value, frac) }
    }

    /// A 32-bit unsigned number as one of a type; `None` if that is not exact (integers wrap).
    pub(super) fn num_of_u32(&mut self, id: Id, range: Range, scalar: Scalar) -> Option<Num> {
        let u32_type = Scalar::Int { width: 32, signed: false };
        if scalar.is_float() && !range.fits(scalar) {
            return None;
        }
        let to = range.wrapped(scalar)?;
        Some(match scalar {
            _ if scalar == u32_type => Num { id, scalar, range },
            Scalar::Int { width: 32, .. } => self.num_op(Op::Bitcast, scalar, &[id], to),
            Scalar::Int { signed: true, .. } => self.num_op(Op::SConvert, scalar, &[id], to),
            Scalar::Int { .. } => self.num_op(Op::UConvert, scalar, &[id], to),
            Scalar::Float { .. } => self.num_op(Op::ConvertUToF, scalar, &[id], to),
            Scalar::Encoded { .. } => {
                let float = self.num_op(Op::ConvertUToF, Scalar::Float { width: 32 }, &[id], to);
                self.num_op(Op::FConvert, scalar, &[float.id], to)
            }
        })
    }

    /// The result of an operation whose range the caller knows.
    pub(super) fn num_combine(&mut self, how: Combine, a: Num, b: Num, range: Range) -> Num {
        let scalar = a.scalar;
        let float = scalar.is_float();
        let op = match how {
            Combine::Add if float => Op::FAdd,
            Combine::Add => Op::IAdd,
            Combine::Mul => Op::IMul,
            Combine::And => Op::BitwiseAnd,
            Combine::Or => Op::BitwiseOr,
            Combine::Xor => Op::BitwiseXor,
            Combine::Max | Combine::Min => {
                let below = self.compare(less(scalar), a.id, b.id);
                let (x, y) = if how == Combine::Max { (b.id, a.id) } else { (a.id, b.id) };
                return self.num_op(Op::Select, scalar, &[below, x, y], range);
            }
        };
        self.num_op(op, scalar, &[a.id, b.id], range)
    }
}
