//! Casts between narrow integers and other types of as many bits.

use super::{Int, Integer, int, low_bits, word};
use crate::Refusal;
use crate::cast::{self, Part};
use coop_ir::builder::FunctionBuilder;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Op};

impl Integer {
    pub(super) fn bitcast(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else {
            b.keep(r);
            return Ok(());
        };
        let shape = |ty: Option<Id>| ty.and_then(|ty| types::scalar_or_vector(b.module, ty));
        let (Some((from, count)), Some((to, len))) = (shape(b.module.type_of(value)), shape(Some(ty))) else {
            return Err(self.refuse(r, "a cast of pointers or other types"));
        };
        let bits = |s: Scalar, n: u32| s.width().checked_mul(n).filter(|bits| *bits <= 128);
        if bits(from, count).is_none() || bits(from, count) != bits(to, len) {
            return Err(self.refuse(r, "a cast between types of different sizes"));
        }
        let parts = self.parts(b, value, from, count);
        let value = self.made_of(b, &parts, ty, to, len);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Takes a value apart, into its components or the words of those.
    fn parts(&self, b: &mut FunctionBuilder<'_>, value: Id, s: Scalar, len: u32) -> Vec<Part> {
        let Some(narrow) = self.narrow_of(b.module, value) else { return cast::parts(b, value, s, len) };
        let unsigned = word(b, Int { width: 32, signed: false, len });
        let value = if narrow.signed { b.ids(Op::Bitcast, unsigned, &[value]) } else { value };
        let uint = b.u32_type();
        cast::components(b, value, uint, len).into_iter().map(|v| (v, s.width())).collect()
    }

    /// Makes a value of a type of parts.
    fn made_of(&self, b: &mut FunctionBuilder<'_>, parts: &[Part], ty: Id, s: Scalar, len: u32) -> Id {
        let narrow = int(b.module, ty).filter(|i| self.is_narrow(*i));
        let Some(to) = narrow else { return cast::value(b, parts, ty, s, len) };
        let one = Int { len: 1, ..to };
        let (elem, same) = (b.globals.scalar(b.module, s), word(b, Int { width: 32, ..one }));
        let all: Vec<Id> = cast::pieces(b, parts, s.width())
            .into_iter()
            .map(|v| {
                let v = if one.signed { b.ids(Op::Bitcast, same, &[v]) } else { v };
                low_bits(b, v, elem, one)
            })
            .collect();
        cast::composed(b, ty, &all)
    }
}
