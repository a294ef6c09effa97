//! Affine sums: sums of multiples of values and a constant, so that addresses fold as far as they are known.

use coop_ir::Id;
use coop_ir::builder::{FunctionBuilder, Index};
use smallvec::SmallVec;

/// `constant + sum of coefficient * value`, in 32-bit unsigned arithmetic.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Affine {
    terms: SmallVec<[(Id, u32); 3]>,
    constant: u32,
}

impl Affine {
    pub(crate) fn constant(constant: u32) -> Affine {
        Affine { terms: SmallVec::new(), constant }
    }

    pub(crate) fn scaled(index: Index, factor: u32) -> Affine {
        match index {
            Index::Const(c) => Affine::constant(c.wrapping_mul(factor)),
            Index::Value(_) if factor == 0 => Affine::default(),
            Index::Value(id) => Affine { terms: SmallVec::from_iter([(id, factor)]), constant: 0 },
        }
    }

    pub(crate) fn plus(mut self, other: &Affine) -> Affine {
        self.constant = self.constant.wrapping_add(other.constant);
        for (id, k) in &other.terms {
            match self.terms.iter_mut().find(|t| t.0 == *id) {
                Some(t) => t.1 = t.1.wrapping_add(*k),
                None => self.terms.push((*id, *k)),
            }
        }
        self
    }

    pub(crate) fn times(mut self, factor: u32) -> Affine {
        if factor == 0 {
            return Affine::default();
        }
        self.constant = self.constant.wrapping_mul(factor);
        self.terms.iter_mut().for_each(|t| t.1 = t.1.wrapping_mul(factor));
        self
    }

    /// The sum without its constant, and that.
    pub(crate) fn split_constant(mut self) -> (Affine, u32) {
        let constant = std::mem::take(&mut self.constant);
        (self, constant)
    }

    /// The code that computes it.
    pub(crate) fn emit(&self, b: &mut FunctionBuilder<'_>) -> Index {
        let mut sum = Index::Const(self.constant);
        for (id, k) in &self.terms {
            let term = b.mul(Index::Value(*id), Index::Const(*k));
            sum = b.add(term, sum);
        }
        sum
    }

    /// The value, if nothing is added to the constant.
    pub(crate) fn known(&self) -> Option<u32> {
        self.terms.iter().all(|t| t.1 == 0).then_some(self.constant)
    }

    /// The quotient by `d`, if `d` divides every part.
    pub(crate) fn exact(&self, d: u32) -> Option<Affine> {
        let divides = self.terms.iter().all(|t| t.1.is_multiple_of(d)) && self.constant.is_multiple_of(d);
        divides.then(|| {
            let mut quotient = self.clone();
            quotient.terms.iter_mut().for_each(|t| t.1 /= d);
            quotient.constant /= d;
            quotient
        })
    }

    /// Quotient and remainder by `d`. Exact without code when `d` divides every coefficient.
    pub(crate) fn div_rem(&self, b: &mut FunctionBuilder<'_>, d: u32) -> (Affine, Index) {
        if self.terms.iter().all(|t| t.1.is_multiple_of(d)) {
            let mut quotient = self.clone();
            quotient.terms.iter_mut().for_each(|t| t.1 /= d);
            quotient.constant /= d;
            return (quotient, Index::Const(self.constant % d));
        }
        let sum = self.emit(b);
        let quotient = b.div(sum, d);
        (Affine::scaled(quotient, 1), b.rem(sum, d))
    }

    /// Quotient and remainder by `d` of a sum none of whose parts is negative: only those that `d` does not divide take code, so
    /// that the others can be added where they fold.
    pub(crate) fn div_rem_by_parts(&self, b: &mut FunctionBuilder<'_>, d: u32) -> (Affine, Index) {
        let divides = |t: &mut (Id, u32)| t.1.is_multiple_of(d);
        let (mut quotient, mut rest) = (self.clone(), self.clone());
        quotient.terms.retain(divides);
        quotient.terms.iter_mut().for_each(|t| t.1 /= d);
        quotient.constant /= d;
        rest.terms.retain(|t| !divides(t));
        rest.constant %= d;
        let rest = rest.emit(b);
        let of_rest = b.div(rest, d);
        (quotient.plus(&Affine::scaled(of_rest, 1)), b.rem(rest, d))
    }
}
