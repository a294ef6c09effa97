//! The low bits of addresses, as far as they are known: enough to prove or disprove an alignment.

use crate::cx::Cx;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::Decoration;
use coop_ir::types::{Type, scalar_or_vector};
use coop_ir::{Id, Inst, Op};

/// The number of low bits that are computed.
const BITS: u32 = 8;

/// The longest chain of pointers that is followed; malformed modules may have cycles.
const DEPTH: u32 = 24;

/// The most numbers that are followed for one.
const MOST_NUMBERS: usize = 256;

/// The low bits of a number: those below `bits` are those of `value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Low {
    bits: u32,
    value: u64,
}

impl Low {
    const UNKNOWN: Low = Low { bits: 0, value: 0 };

    fn exact(value: u64) -> Low {
        Low { bits: BITS, value: value & ((1 << BITS) - 1) }
    }

    fn new(bits: u32, value: u64) -> Low {
        let bits = bits.min(BITS);
        Low { bits, value: value & ((1 << bits) - 1) }
    }

    fn add(self, other: Low) -> Low {
        Low::new(self.bits.min(other.bits), self.value.wrapping_add(other.value))
    }

    fn sub(self, other: Low) -> Low {
        Low::new(self.bits.min(other.bits), self.value.wrapping_sub(other.value))
    }

    /// `(v + 2^b x) (w + 2^c y)`: the unknown bits begin at the least of the three mixed terms.
    fn mul(self, other: Low) -> Low {
        let zeros = |v: u64| if v == 0 { BITS } else { v.trailing_zeros() };
        let bits = (other.bits + zeros(self.value)).min(self.bits + zeros(other.value)).min(self.bits + other.bits);
        Low::new(bits, self.value.wrapping_mul(other.value))
    }

    /// Returns true if it is a multiple of a power of two; `None` if that is not known.
    pub(crate) fn is_multiple_of(self, n: u64) -> Option<bool> {
        debug_assert!(n.is_power_of_two(), "alignments are");
        let wanted = n.trailing_zeros();
        let known = wanted.min(self.bits);
        if self.value & ((1 << known) - 1) != 0 { Some(false) } else { (self.bits >= wanted).then_some(true) }
    }

    /// Returns the remainder by a power of two, as far as it is known.
    pub(crate) fn remainder(self, n: u64) -> u64 {
        self.value & (n - 1)
    }
}

/// Returns the low bits of an integer.
pub(crate) fn low(cx: &Cx, id: Id) -> Low {
    number(cx, id, &mut FxHashMap::default())
}

/// As [`low`]. `known` has the numbers that were asked for: each is followed once, however often it is used.
fn number(cx: &Cx, id: Id, known: &mut FxHashMap<Id, Low>) -> Low {
    if let Some(v) = cx.computed(id).fixed() {
        return Low::exact(v);
    }
    if let Some(low) = known.get(&id) {
        return *low;
    }
    if known.len() == MOST_NUMBERS {
        return Low::UNKNOWN;
    }
    // Of a number that depends on itself nothing is known.
    known.insert(id, Low::UNKNOWN);
    let low = computed(cx, id, known);
    known.insert(id, low);
    low
}

fn computed(cx: &Cx, id: Id, known: &mut FxHashMap<Id, Low>) -> Low {
    let Some(inst) = cx.module.def_inst(id) else { return Low::UNKNOWN };
    let (op, first) = match inst.op {
        Op::SpecConstantOp => match inst.specialized_op() {
            Some(op) => (op, 1),
            None => return Low::UNKNOWN,
        },
        op => (op, 0),
    };
    let mut arg = |i: usize| inst.id(first + i).map_or(Low::UNKNOWN, |a| number(cx, a, known));
    let fixed = |i: usize| inst.id(first + i).and_then(|a| cx.computed(a).fixed());
    match op {
        Op::IAdd => arg(0).add(arg(1)),
        Op::ISub => arg(0).sub(arg(1)),
        Op::IMul => arg(0).mul(arg(1)),
        Op::ShiftLeftLogical => match fixed(1) {
            Some(n) if n < u64::from(BITS) => arg(0).mul(Low::exact(1 << n)),
            Some(_) => Low::exact(0),
            None => Low::UNKNOWN,
        },
        // A mask clears its zero bits.
        Op::BitwiseAnd => match fixed(0).or_else(|| fixed(1)) {
            Some(mask) => Low::new(mask.trailing_zeros(), 0),
            None => Low::UNKNOWN,
        },
        Op::CopyObject | Op::Bitcast | Op::UConvert | Op::SConvert => arg(0),
        _ => Low::UNKNOWN,
    }
}

/// Returns the offset of a pointer into its variable, in bytes, as far as it is known. `None` if it is not derived from
/// a variable by access chains.
pub(crate) fn offset(cx: &Cx, pointer: Id) -> Option<Low> {
    let mut id = pointer;
    let mut sum = Low::exact(0);
    for _ in 0..DEPTH {
        let inst = cx.module.def_inst(id)?;
        match inst.op {
            Op::Variable => return Some(sum),
            Op::CopyObject => id = inst.copy_source()?,
            Op::AccessChain | Op::InBoundsAccessChain => {
                sum = sum.add(chain(cx, inst));
                id = inst.access_chain()?.base;
            }
            _ => return None,
        }
    }
    None
}

fn chain(cx: &Cx, inst: &Inst) -> Low {
    let base = inst.access_chain().and_then(|c| cx.module.type_of(c.base)).and_then(|t| Type::of(cx.module, t));
    let Some(Type::Pointer { pointee, .. }) = base else { return Low::UNKNOWN };
    let (mut ty, mut sum) = (pointee, Low::exact(0));
    for index in inst.ids_from(1) {
        let Some((step, next)) = step(cx, ty, index) else { return Low::UNKNOWN };
        sum = sum.add(step);
        ty = next;
    }
    sum
}

/// Returns the bytes of one index step, and the type there.
fn step(cx: &Cx, ty: Id, index: Id) -> Option<(Low, Id)> {
    match Type::of(cx.module, ty)? {
        Type::Array { elem, .. } | Type::RuntimeArray { elem } => {
            let bytes = match cx.decorations().value(ty, Decoration::ArrayStride) {
                Some(stride) => stride,
                // Without a layout, elements of 1, 2 or 4 scalars are adjacent.
                None => match scalar_or_vector(cx.module, elem)? {
                    (_, 3) => return None,
                    (s, n) => s.bytes().checked_mul(n)?,
                },
            };
            Some((low(cx, index).mul(Low::exact(bytes.into())), elem))
        }
        Type::Vector { elem, .. } => {
            let bytes = cx.scalar(elem)?.bytes();
            Some((low(cx, index).mul(Low::exact(bytes.into())), elem))
        }
        Type::Struct { members } => {
            let i = u32::try_from(cx.constant(index).fixed()?).ok()?;
            let at = cx.decorations().member_value(ty, i, Decoration::Offset)?;
            Some((Low::exact(at.into()), *members.get(i as usize)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Low;

    #[test]
    fn low_bits() {
        let x = Low::new(4, 0b0100);
        assert_eq!(x.is_multiple_of(4), Some(true));
        assert_eq!(x.is_multiple_of(8), Some(false));
        assert_eq!(Low::UNKNOWN.is_multiple_of(2), None);
        assert_eq!(Low::UNKNOWN.is_multiple_of(1), Some(true));
        // Something times 16.
        assert_eq!(Low::UNKNOWN.mul(Low::exact(16)).is_multiple_of(16), Some(true));
        assert_eq!(Low::UNKNOWN.mul(Low::exact(8)).is_multiple_of(16), None);
        // (something times 4) times 4, plus 2.
        let y = Low::UNKNOWN.mul(Low::exact(4)).mul(Low::exact(4)).add(Low::exact(2));
        assert_eq!((y.is_multiple_of(16), y.is_multiple_of(2), y.remainder(16)), (Some(false), Some(true), 2));
        // The products of all small numbers agree.
        for a in 0..64u64 {
            for b in 0..64u64 {
                for (ka, kb) in [(2, 3), (0, 5), (4, 4), (6, 1)] {
                    let p = Low::new(ka, a).mul(Low::new(kb, b));
                    assert_eq!((a * b) & ((1 << p.bits) - 1), p.value, "{a} {b} {ka} {kb}");
                }
            }
        }
    }
}
