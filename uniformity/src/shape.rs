//! The shape of a value: the facts that are known about an integer or Boolean in each invocation of a workgroup.
//!
//! A [`Shape`] is a fact about all executions of an instruction:
//!
//! - `Top`: nothing has reached it yet;
//! - `Const`: one value, in every invocation;
//! - `Lanes`: this value in this invocation, whenever it executes;
//! - `Offset`: an unknown value that is uniform over a scope, plus this in this invocation;
//! - `Unknown`.
//!
//! The invocations of `Lanes` and `Offset` are those of [`Grid`]. Shapes only move down this list, and from one shape
//! to another only by way of `Unknown`. Values that do not fit in 32 bits are not in a vector, whatever the type.
//!
//! Of floats only constants and selections of constants are known, as numbers of [`float_code`].

use super::{Assumptions, Uniformity};
use coop_ir::constant::fold_int;
use coop_ir::grammar::Op;
use coop_ir::spv::GlslStd450;
use std::rc::Rc;

/// The invocations that shapes describe.
///
/// If the size of a workgroup is known, they are those of a workgroup, by `LocalInvocationIndex`, and a subgroup is
/// `subgroup` consecutive ones. Otherwise they are those of any one subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grid {
    pub(super) size: Option<[u32; 3]>,
    /// The length of a vector.
    pub(super) lanes: usize,
    pub(super) subgroup: usize,
    /// True if no subgroup size is specified.
    pub(super) assumed: bool,
    /// True for an OpenCL kernel: the last subgroup may be smaller and reports its size, and global ids have an offset.
    pub(super) kernel: bool,
}

/// The size of a larger workgroup counts as unknown.
const MAX_LANES: u64 = 2048;

impl Grid {
    pub(super) fn new(size: Option<[u32; 3]>, subgroup: Option<u32>, kernel: bool) -> Grid {
        let count = |s: &[u32; 3]| s.iter().map(|n| u64::from(*n)).try_fold(1u64, u64::checked_mul);
        let size = size.filter(|s| count(s).is_some_and(|n| (1..=MAX_LANES).contains(&n)));
        let assumed = subgroup.is_none();
        let subgroup = subgroup.unwrap_or(super::DEFAULT_SUBGROUP).clamp(1, MAX_LANES as u32) as usize;
        let lanes = size.as_ref().and_then(count).map_or(subgroup, |n| n as usize);
        Grid { size, lanes, subgroup, assumed, kernel }
    }

    /// Returns true if a workgroup is one invocation: then everything is uniform.
    pub(super) fn is_single(&self) -> bool {
        self.size.is_some() && self.lanes == 1
    }

    /// Returns the assumptions for telling invocations apart by their position in a subgroup.
    pub(super) fn subgroups(&self) -> Assumptions {
        if self.assumed { Assumptions::FULL.and(Assumptions::SIZE) } else { Assumptions::FULL }
    }

    /// Returns the scope over which values agree.
    pub(super) fn agreement<T: PartialEq>(&self, lanes: &[T]) -> Uniformity {
        let same = |part: &[T]| part.windows(2).all(|w| w[0] == w[1]);
        if same(lanes) {
            Uniformity::Workgroup
        } else if lanes.chunks(self.subgroup).all(same) {
            Uniformity::Subgroup
        } else {
            Uniformity::Divergent
        }
    }

    /// Returns two invocations of one scope that `differ`.
    pub(super) fn witness(&self, scope: Uniformity, differ: impl Fn(usize, usize) -> bool) -> Option<(usize, usize)> {
        let step = if scope == Uniformity::Workgroup { self.lanes } else { self.subgroup };
        (0..self.lanes).step_by(step.max(1)).find_map(|first| {
            let members = first + 1..(first + step).min(self.lanes);
            members.into_iter().find(|l| differ(first, *l)).map(|l| (first, l))
        })
    }

    pub(super) fn vector(&self, f: impl Fn(usize) -> u32) -> Shape {
        Shape::Lanes((0..self.lanes).map(f).collect()).normal()
    }
}

/// See the module documentation.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    Top,
    Const(u64),
    Lanes(Rc<[u32]>),
    Offset {
        lanes: Rc<[u32]>,
        /// The unknown part is a multiple of this power of two. This remains true for sums, which wrap around at a
        /// power of two, and for quotients by such numbers.
        align: u32,
        /// The scope over which the unknown part is uniform.
        base: Uniformity,
    },
    Unknown,
}

impl Shape {
    pub(super) fn normal(self) -> Shape {
        match self {
            Shape::Lanes(v) if v.windows(2).all(|w| w[0] == w[1]) => {
                v.first().map_or(Shape::Unknown, |v| Shape::Const(u64::from(*v)))
            }
            other => other,
        }
    }

    /// Returns the value in an invocation, if the shape is exact.
    pub(super) fn value(&self, lane: usize) -> Option<u64> {
        match self {
            Shape::Const(v) => Some(*v),
            Shape::Lanes(v) => v.get(lane).map(|v| u64::from(*v)),
            _ => None,
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Shape::Const(_) | Shape::Lanes(_))
    }

    /// Joins with the shape of another value.
    pub(super) fn meet(&mut self, other: &Shape) {
        match (&*self, other) {
            (_, Shape::Top) | (Shape::Unknown, _) => {}
            (Shape::Top, s) => *self = s.clone(),
            (a, b) if a.is_exact() && a == b => {}
            _ => *self = Shape::Unknown,
        }
    }
}

/// Returns the code of a float in shapes: the float itself, if it is a small unsigned integer, else its bits as a
/// 32-bit float. `None` for floats whose bits are such an integer, and for those that do not fit in 32 bits.
pub(super) fn float_code(value: f64) -> Option<u64> {
    let single = value as f32;
    if value == 0.0 && value.is_sign_negative() || f64::from(single) != value {
        return None;
    }
    if single >= 0.0 && single <= MOST_CODED as f32 && single.fract() == 0.0 {
        return Some(single as u64);
    }
    Some(u64::from(single.to_bits())).filter(|bits| *bits > MOST_CODED)
}

/// Returns the float of a code of [`float_code`].
pub(super) fn float_of_code(code: u64) -> f32 {
    if code <= MOST_CODED { code as f32 } else { f32::from_bits(code as u32) }
}

/// All integers up to here are exact as 32-bit floats.
const MOST_CODED: u64 = 1 << 24;

/// An operation that can be computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fold {
    Op(Op),
    /// An instruction of GLSL.std.450.
    Glsl(GlslStd450),
    /// The 32-bit float with an integer's bits.
    Float,
}

/// An operand: shape, uniformity, width in bits (1 for Booleans, 0 for anything that is not an integer).
pub(super) type Arg<'a> = (&'a Shape, Uniformity, u32);

/// Returns the shape of a result, and its uniformity where that is better than the operands'.
pub(super) fn fold(grid: &Grid, f: Fold, out: u32, args: &[Arg]) -> (Shape, Option<Uniformity>) {
    if let Some(shape) = decided(f, args) {
        return (shape, None);
    }
    if args.iter().any(|a| *a.0 == Shape::Top) {
        return (Shape::Top, None);
    }
    // A selection may be of any type.
    let chosen = match f {
        Fold::Op(Op::Select) => args.first().is_some_and(|a| a.2 == 1),
        Fold::Float => args.iter().all(|a| a.2 == 32),
        _ => false,
    };
    if !chosen && (out == 0 || args.iter().any(|a| a.2 == 0)) {
        return (Shape::Unknown, None);
    }
    if args.iter().all(|a| a.0.is_exact()) {
        return (exact(grid, f, out, args).unwrap_or(Shape::Unknown), None);
    }
    if let Some(uniformity) = compared(grid, f, args) {
        return (Shape::Unknown, Some(uniformity));
    }
    match offset(f, out, args) {
        Some(Shape::Offset { lanes, align, base }) => match grid.agreement(&lanes) {
            Uniformity::Workgroup => (Shape::Unknown, Some(base)),
            uniformity => (Shape::Offset { lanes, align, base }, Some(uniformity.max(base))),
        },
        Some(shape) => (shape.normal(), None),
        None => (Shape::Unknown, None),
    }
}

/// Returns the result that one operand decides alone.
fn decided(f: Fold, args: &[Arg]) -> Option<Shape> {
    let Fold::Op(op) = f else { return None };
    let is = |i: usize, v: u64| args.get(i).is_some_and(|a| *a.0 == Shape::Const(v));
    let either = |v: u64| is(0, v) || is(1, v);
    match op {
        Op::LogicalAnd | Op::IMul | Op::BitwiseAnd if either(0) => Some(Shape::Const(0)),
        Op::LogicalOr if either(1) => Some(Shape::Const(1)),
        Op::UMod if is(1, 1) => Some(Shape::Const(0)),
        Op::ULessThan if is(1, 0) => Some(Shape::Const(0)),
        Op::UGreaterThanEqual if is(1, 0) => Some(Shape::Const(1)),
        Op::Select => match args.first()?.0 {
            Shape::Const(c) => args.get(if *c != 0 { 1 } else { 2 }).map(|a| a.0.clone()),
            _ => None,
        },
        Op::CopyObject => args.first().map(|a| a.0.clone()),
        _ => None,
    }
}

fn exact(grid: &Grid, f: Fold, out: u32, args: &[Arg]) -> Option<Shape> {
    if args.len() > 4 {
        return None;
    }
    let mut values = [(0u64, 0u32); 4];
    let mut at = |lane: usize| {
        for (slot, (shape, _, width)) in values.iter_mut().zip(args) {
            *slot = (shape.value(lane)?, *width);
        }
        one(f, out, &values[..args.len()])
    };
    if args.iter().all(|a| matches!(a.0, Shape::Const(_))) {
        return at(0).map(Shape::Const);
    }
    let lanes = all((0..grid.lanes).map(|l| at(l).and_then(|v| u32::try_from(v).ok())));
    Some(Shape::Lanes(lanes?).normal())
}

/// Collects values, if all are there. The iterator has a known length, so that this allocates once.
fn all(values: impl Iterator<Item = Option<u32>>) -> Option<Rc<[u32]>> {
    let mut complete = true;
    let found = values.map(|value| {
        complete &= value.is_some();
        value.unwrap_or(0)
    });
    let found = found.collect();
    complete.then_some(found)
}

/// Computes an operation on numbers.
fn one(f: Fold, out: u32, a: &[(u64, u32)]) -> Option<u64> {
    let mask = |v: u64| if out >= 64 { v } else { v & ((1 << out) - 1) };
    let signed = |i: usize| {
        let (v, w) = a[i];
        if w == 0 || w >= 64 { v as i64 } else { ((v << (64 - w)) as i64) >> (64 - w) }
    };
    match (f, a.len()) {
        (Fold::Float, 1) => float_code(f64::from(f32::from_bits(u32::try_from(a[0].0).ok()?))),
        (Fold::Op(Op::Select), 3) => Some(if a[0].0 != 0 { a[1].0 } else { a[2].0 }),
        (Fold::Op(Op::Bitcast), 1) if a[0].1 == out => Some(a[0].0),
        (Fold::Op(Op::BitCount), 1) => Some(u64::from(a[0].0.count_ones())),
        (Fold::Op(Op::BitFieldUExtract), 3) => {
            let (from, count) = (a[1].0, a[2].0);
            let fits = from.checked_add(count).is_some_and(|end| end <= u64::from(a[0].1));
            let low = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
            fits.then(|| a[0].0.checked_shr(from as u32).unwrap_or(0) & low)
        }
        (Fold::Op(op), 1 | 2) => fold_int(op, out, a),
        (Fold::Glsl(GlslStd450::UMin), 2) => Some(a[0].0.min(a[1].0)),
        (Fold::Glsl(GlslStd450::UMax), 2) => Some(a[0].0.max(a[1].0)),
        (Fold::Glsl(GlslStd450::SMin), 2) => Some(mask(signed(0).min(signed(1)) as u64)),
        (Fold::Glsl(GlslStd450::SMax), 2) => Some(mask(signed(0).max(signed(1)) as u64)),
        (Fold::Glsl(GlslStd450::UClamp), 3) if a[1].0 <= a[2].0 => Some(a[0].0.clamp(a[1].0, a[2].0)),
        (Fold::Glsl(GlslStd450::FindILsb), 1) if a[0].0 != 0 => Some(u64::from(a[0].0.trailing_zeros())),
        (Fold::Glsl(GlslStd450::FindUMsb), 1) if a[0].0 != 0 => Some(63 - u64::from(a[0].0.leading_zeros())),
        _ => None,
    }
}

/// Returns the scope over which a comparison agrees, of a constant with the sum of an unknown uniform part and a known
/// part. The sum is in a block of numbers that starts at a multiple of the power of two that divides the unknown part.
/// If the constant cuts a block, values on both sides of the cut may differ.
fn compared(grid: &Grid, f: Fold, args: &[Arg]) -> Option<Uniformity> {
    let Fold::Op(op) = f else { return None };
    let (offset, constant, swapped) = match args {
        [a, b] => match (a.0, b.0) {
            (Shape::Offset { .. }, Shape::Const(c)) => (a, *c, false),
            (Shape::Const(c), Shape::Offset { .. }) => (b, *c, true),
            _ => return None,
        },
        _ => return None,
    };
    let (Shape::Offset { lanes, align, base }, width) = (offset.0, offset.2) else { return None };
    let most = |signed: bool| (u64::MAX >> (64 - width.clamp(1, 64))) >> u32::from(signed);
    // The comparison is `number < constant`, up to negation, or an equality.
    let (below, signed) = match op {
        Op::IEqual | Op::INotEqual => (None, false),
        Op::ULessThan | Op::UGreaterThanEqual => (Some(!swapped), false),
        Op::UGreaterThan | Op::ULessThanEqual => (Some(swapped), false),
        Op::SLessThan | Op::SGreaterThanEqual => (Some(!swapped), true),
        Op::SGreaterThan | Op::SLessThanEqual => (Some(swapped), true),
        _ => return None,
    };
    let align = u64::from(*align);
    let limit = match below {
        // `x <= c` is `x < c + 1`.
        Some(false) if constant == most(signed) => return Some(Uniformity::Workgroup),
        Some(false) => constant.wrapping_add(1),
        _ => constant,
    };
    let side = |v: &u32| {
        let (block, rest) = (u64::from(*v) / align, u64::from(*v) % align);
        (block, if below.is_some() { rest < limit % align } else { rest == limit % align })
    };
    let sides: Vec<(u64, bool)> = lanes.iter().map(side).collect();
    Some(grid.agreement(&sides).max(*base)).filter(|uniformity| *uniformity != Uniformity::Divergent)
}

/// Computes sums of an unknown uniform part and a known part.
fn offset(f: Fold, out: u32, args: &[Arg]) -> Option<Shape> {
    let Fold::Op(op) = f else { return None };
    if matches!(op, Op::UConvert | Op::SConvert) {
        return converted(out, args);
    }
    if args.iter().any(|a| a.2 != out) {
        return None;
    }
    // Of 64 bits, only values that fit in 32 are known.
    let truncate = |v: u64| if out >= 64 { u32::try_from(v).ok() } else { Some((v & ((1 << out) - 1)) as u32) };
    if op == Op::Bitcast {
        return args.first().map(|a| a.0.clone());
    }
    let &[a, b] = args else { return None };
    match op {
        Op::IAdd | Op::ISub => {
            let (a, b) = (Sum::of(a)?, Sum::of(b)?);
            let sum = |x: u32, y: u32| {
                let (x, y) = (u64::from(x), u64::from(y));
                truncate(if op == Op::IAdd { x + y } else { x.wrapping_sub(y) })
            };
            let lanes = a.zip(&b, sum)?;
            Some(Shape::Offset { lanes, align: a.align.min(b.align), base: a.base.max(b.base) })
        }
        Op::IMul | Op::ShiftLeftLogical => {
            let (a, factor) = match (a.0, b.0) {
                (_, Shape::Const(k)) if op == Op::ShiftLeftLogical => (a, 1u64.checked_shl(u32::try_from(*k).ok()?)?),
                (_, Shape::Const(c)) if op == Op::IMul => (a, *c),
                (Shape::Const(c), _) if op == Op::IMul => (b, *c),
                _ => return None,
            };
            let Shape::Offset { lanes, align, base } = a.0 else { return None };
            let product = |v: &u32| match u64::from(*v).checked_mul(factor) {
                Some(v) => truncate(v),
                None => truncate(u64::from(*v).wrapping_mul(factor)).filter(|_| out < 64),
            };
            let lanes = all(lanes.iter().map(product))?;
            let bits = align.trailing_zeros() + factor.trailing_zeros();
            Some(Shape::Offset { lanes, align: 1 << bits.min(out.min(32) - 1), base: *base })
        }
        Op::UDiv | Op::ShiftRightLogical | Op::UMod | Op::BitwiseAnd => {
            let (Shape::Offset { lanes, align, base }, Shape::Const(c)) = (a.0, b.0) else { return None };
            let by = match op {
                Op::ShiftRightLogical => 1u32.checked_shl(u32::try_from(*c).ok()?)?,
                Op::BitwiseAnd => u32::try_from(*c).ok()?.checked_add(1).filter(|n| n.is_power_of_two())?,
                _ => u32::try_from(*c).ok()?,
            };
            if !by.is_power_of_two() || !align.is_multiple_of(by) {
                return None;
            }
            Some(if matches!(op, Op::UMod | Op::BitwiseAnd) {
                Shape::Lanes(lanes.iter().map(|v| v % by).collect())
            } else {
                Shape::Offset { lanes: lanes.iter().map(|v| v / by).collect(), align: align / by, base: *base }
            })
        }
        _ => None,
    }
}

/// Converts a sum to another width.
fn converted(out: u32, args: &[Arg]) -> Option<Shape> {
    let &[(Shape::Offset { lanes, align, base }, _, from)] = args else { return None };
    if out < from {
        let lanes = lanes.iter().map(|v| if out >= 32 { *v } else { v & ((1 << out) - 1) }).collect();
        return Some(Shape::Offset { lanes, align: (*align).min(1 << (out.min(32) - 1)), base: *base });
    }
    // Without a carry into the unknown part, the unknown part is extended, and its sign is that of the sum.
    let plain = lanes.iter().all(|v| v < align);
    plain.then(|| Shape::Offset { lanes: lanes.clone(), align: *align, base: *base })
}

/// A summand: an unknown part that is uniform over `base`, and a known one.
struct Sum {
    known: KnownPart,
    /// The alignment of the unknown part; the greatest there is, if it is 0.
    align: u32,
    base: Uniformity,
}

enum KnownPart {
    One(u32),
    Each(Rc<[u32]>),
}

impl Sum {
    fn of((shape, uniformity, _): Arg) -> Option<Sum> {
        let none = Uniformity::Workgroup;
        Some(match shape {
            Shape::Const(v) => Sum { known: KnownPart::One(u32::try_from(*v).ok()?), align: MOST, base: none },
            Shape::Lanes(v) => Sum { known: KnownPart::Each(v.clone()), align: MOST, base: none },
            Shape::Offset { lanes, align, base } => {
                Sum { known: KnownPart::Each(lanes.clone()), align: *align, base: *base }
            }
            Shape::Unknown if uniformity != Uniformity::Divergent => {
                Sum { known: KnownPart::One(0), align: 1, base: uniformity }
            }
            Shape::Unknown | Shape::Top => return None,
        })
    }

    /// Combines the known parts; `None` if neither has more than one value, as nothing would be gained.
    fn zip(&self, other: &Sum, f: impl Fn(u32, u32) -> Option<u32>) -> Option<Rc<[u32]>> {
        match (&self.known, &other.known) {
            (KnownPart::Each(a), KnownPart::Each(b)) => all(a.iter().zip(b.iter()).map(|(a, b)| f(*a, *b))),
            (KnownPart::Each(a), KnownPart::One(b)) => all(a.iter().map(|a| f(*a, *b))),
            (KnownPart::One(a), KnownPart::Each(b)) => all(b.iter().map(|b| f(*a, *b))),
            (KnownPart::One(_), KnownPart::One(_)) => None,
        }
    }
}

/// 0 is a multiple of every power of two.
const MOST: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use Uniformity::{Divergent, Subgroup, Workgroup};

    fn grid() -> Grid {
        Grid::new(Some([64, 1, 1]), Some(32), false)
    }

    fn binary(op: Op, a: &Shape, b: &Shape) -> (Shape, Option<Uniformity>) {
        let uniformity = |s: &Shape| match s {
            Shape::Unknown | Shape::Const(_) => Workgroup,
            _ => Divergent,
        };
        fold(&grid(), Fold::Op(op), 32, &[(a, uniformity(a), 32), (b, uniformity(b), 32)])
    }

    #[test]
    fn vectors_are_computed_and_judged() {
        let index = grid().vector(|l| l as u32);
        let (half, _) = binary(Op::UDiv, &index, &Shape::Const(32));
        let Shape::Lanes(half) = half else { panic!("{half:?}") };
        assert_eq!(grid().agreement(&half), Subgroup);
        assert_eq!(binary(Op::ULessThan, &index, &Shape::Const(64)).0, Shape::Const(1));
        assert_eq!(binary(Op::UDiv, &index, &Shape::Const(0)).0, Shape::Unknown);
        let Shape::Lanes(v) = &index else { panic!() };
        assert_eq!(grid().witness(Subgroup, |a, b| (v[a] < 16) != (v[b] < 16)), Some((0, 16)));
        assert_eq!(grid().witness(Subgroup, |a, b| (v[a] < 32) != (v[b] < 32)), None);
        assert_eq!(grid().witness(Workgroup, |a, b| (v[a] < 32) != (v[b] < 32)), Some((0, 32)));
    }

    #[test]
    fn unknown_but_uniform_parts_cancel_where_they_are_aligned() {
        let global = Shape::Offset { lanes: (0..64).collect(), align: 64, base: Workgroup };
        let (shape, uniformity) = binary(Op::UDiv, &global, &Shape::Const(32));
        assert!(matches!(shape, Shape::Offset { align: 2, .. }));
        assert_eq!(uniformity, Some(Subgroup));
        assert_eq!(binary(Op::UDiv, &global, &Shape::Const(48)).0, Shape::Unknown);
        let (shape, _) = binary(Op::BitwiseAnd, &global, &Shape::Const(31));
        let Shape::Lanes(v) = shape else { panic!("{shape:?}") };
        assert_eq!((v[0], v[33]), (0, 1));
        // Unknown + index, less the index again.
        let index = grid().vector(|l| l as u32);
        let (sum, uniformity) = binary(Op::IAdd, &Shape::Unknown, &index);
        assert_eq!(uniformity, Some(Divergent));
        assert_eq!(binary(Op::ISub, &sum, &index), (Shape::Unknown, Some(Workgroup)));
        // Nothing is known of the unknown part.
        assert_eq!(binary(Op::UDiv, &sum, &Shape::Const(1 << 5)).0, Shape::Unknown);
    }

    #[test]
    fn one_operand_may_decide() {
        assert_eq!(binary(Op::IMul, &Shape::Unknown, &Shape::Const(0)).0, Shape::Const(0));
        assert_eq!(binary(Op::IMul, &Shape::Top, &Shape::Const(0)).0, Shape::Const(0));
        assert_eq!(binary(Op::IAdd, &Shape::Top, &Shape::Const(0)).0, Shape::Top);
    }
}
