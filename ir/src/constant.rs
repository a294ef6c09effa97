//! Constants as a lattice, with specialization values and `OpSpecConstantOp` folded.
//!
//! In nine of ten modules, the dimensions of matrix types are specialization constants or computed from some. So the
//! value of a constant is one of
//!
//! - *fixed*: it can't be specialized, or a value was given for every constant that it depends on;
//! - *default*: the value in the file, and the SpecIds that may change it;
//! - *unknown*: not an integer or Boolean, or computed by an operation that is not folded.
//!
//! Every constant is evaluated once, in file order, so that neither deep chains nor cycles (which break SPIR-V's order)
//! cost more than a look-up. Integers are stored as bits, zero-extended from their width.

use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Id, IdTable, Inst, Module};
use crate::types::{self, Scalar, Type};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The most SpecIds that are listed, so that a chain of thousands stays cheap.
const MAX_SPEC_IDS: usize = 32;

/// The SpecIds on which a value depends, ascending; at most 32 of them are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpecIds(SmallVec<[u32; 4]>);

impl SpecIds {
    fn one(id: u32) -> SpecIds {
        SpecIds(smallvec![id])
    }

    /// Adds other SpecIds.
    #[inline]
    pub fn merge(&mut self, other: &SpecIds) {
        // Most are empty.
        if !other.0.is_empty() {
            self.merge_some(other);
        }
    }

    fn merge_some(&mut self, other: &SpecIds) {
        if self.0.is_empty() {
            self.0 = SmallVec::from_slice(&other.0);
            return;
        }
        for id in &other.0 {
            if self.0.len() >= MAX_SPEC_IDS {
                return;
            }
            if let Err(at) = self.0.binary_search(id) {
                self.0.insert(at, *id);
            }
        }
    }

    /// Returns the SpecIds.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if the value can't be specialized.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for SpecIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "SpecId {one}"),
            many => {
                f.write_str("SpecIds ")?;
                for (i, id) in many.iter().enumerate() {
                    write!(f, "{}{id}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

/// The value of a scalar constant, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Const {
    /// The value, whatever is specialized.
    Fixed(u64),
    /// The value unless one of these is specialized.
    Default {
        /// The value in the file.
        value: u64,
        /// The SpecIds that may change it.
        specs: SpecIds,
    },
    /// Unknown.
    Unknown,
}

/// The result of a comparison of two constants. See [`Constants::compare`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// They are the same id, or have the same fixed value.
    Equal,
    /// Both are fixed, and differ.
    Different,
    /// They are equal with the values in the file; specialization may change that.
    EqualByDefault,
    /// They differ with the values in the file, and specialization may change that.
    DifferentByDefault(SpecIds),
    /// At least one is unknown.
    Unknown,
}

impl Const {
    /// Returns the value, fixed or by default.
    pub fn value(&self) -> Option<u64> {
        match self {
            Const::Fixed(v) | Const::Default { value: v, .. } => Some(*v),
            Const::Unknown => None,
        }
    }

    /// Returns the value as an enumerant, if it is fixed.
    pub fn fixed_as<T: From<u32>>(&self) -> Option<T> {
        self.fixed().and_then(|v| u32::try_from(v).ok()).map(T::from)
    }

    /// Returns the value as an enumerant, fixed or by default.
    pub fn value_as<T: From<u32>>(&self) -> Option<T> {
        self.value().and_then(|v| u32::try_from(v).ok()).map(T::from)
    }

    /// Returns the value, if it is fixed.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Const::Fixed(v) => Some(*v),
            _ => None,
        }
    }

    /// Returns the SpecIds on which the value depends, if it is a default.
    pub fn specs(&self) -> Option<&SpecIds> {
        match self {
            Const::Default { specs, .. } => Some(specs),
            _ => None,
        }
    }

    /// Compares values alone; [`Constants::compare`] also knows that the same id is equal.
    pub fn compare(&self, other: &Const) -> Comparison {
        match (self, other) {
            (Const::Unknown, _) | (_, Const::Unknown) => Comparison::Unknown,
            (Const::Fixed(a), Const::Fixed(b)) if a == b => Comparison::Equal,
            (Const::Fixed(_), Const::Fixed(_)) => Comparison::Different,
            (a, b) if a.value() == b.value() => Comparison::EqualByDefault,
            (a, b) => {
                let mut specs = a.specs().cloned().unwrap_or_default();
                if let Some(more) = b.specs() {
                    specs.merge(more);
                }
                Comparison::DifferentByDefault(specs)
            }
        }
    }
}

impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(v) => write!(f, "{v}"),
            None => f.write_str("?"),
        }
    }
}

/// Parses a SpecId: decimal digits and nothing else.
pub fn parse_spec_id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()))
}

/// A value given for a specialization constant, before the constant's type is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SpecValue {
    /// `12`, `-3`.
    Int(i128),
    /// `0x10`: the bits of an integer, the value of a float.
    Hex(u64),
    /// `1.5`, `1e-3`, `inf`.
    Float(f64),
    /// `true`, `false`.
    Bool(bool),
    /// The bits of a constant of any type, as a pipeline gets them: bits beyond its width are ignored, and a Boolean is
    /// true unless all are zero.
    Bits(u64),
}

impl SpecValue {
    /// Parses the right side of `ID=VALUE`.
    pub fn parse(text: &str) -> Option<SpecValue> {
        match text {
            "true" => return Some(SpecValue::Bool(true)),
            "false" => return Some(SpecValue::Bool(false)),
            _ if text.starts_with('+') => return None,
            _ => {}
        }
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
        if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            // `from_str_radix` would accept a sign after the prefix.
            let value = u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?;
            return Some(if negative { SpecValue::Int(-i128::from(value)) } else { SpecValue::Hex(value) });
        }
        if let Some(value) = digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+')) {
            return Some(SpecValue::Int(if negative { -i128::from(value) } else { i128::from(value) }));
        }
        let value = text.parse::<f64>().ok()?;
        // A number that is too large is not infinity.
        let said_infinite = digits.chars().all(|c| c.is_ascii_alphabetic());
        (value.is_finite() || said_infinite).then_some(SpecValue::Float(value))
    }

    /// Returns the bits of the value in a constant of a type, or the reason for which it does not fit.
    pub fn bits(self, ty: &Type) -> Result<u64, String> {
        if let (SpecValue::Bits(v), Type::Scalar(scalar)) = (self, ty) {
            return Ok(mask(v, scalar.width()));
        }
        match ty {
            Type::Bool => match self {
                SpecValue::Bits(v) => Ok(u64::from(v != 0)),
                SpecValue::Bool(b) => Ok(u64::from(b)),
                SpecValue::Int(v @ (0 | 1)) => Ok(v as u64),
                SpecValue::Hex(v @ (0 | 1)) => Ok(v),
                _ => Err("a Boolean is true or false".into()),
            },
            Type::Scalar(Scalar::Int { width, signed }) => self.int_bits(*width, *signed),
            Type::Scalar(Scalar::Float { width }) => self.float_bits(*width),
            Type::Scalar(s) => Err(format!("constants of type {s} can't be given a value")),
            _ => Err("only scalars can be given a value".into()),
        }
    }

    /// Returns the bits of an integer. A decimal number is its value, a hexadecimal one its bits.
    fn int_bits(self, width: u32, signed: bool) -> Result<u64, String> {
        let (least, most) = match width.clamp(1, 64) {
            n if signed => (-(1i128 << (n - 1)), (1i128 << (n - 1)) - 1),
            n => (0, (1i128 << n) - 1),
        };
        match self {
            SpecValue::Bool(b) => Ok(u64::from(b)),
            SpecValue::Float(v) => Err(format!("{v} is not an integer")),
            SpecValue::Bits(v) => Ok(mask(v, width)),
            SpecValue::Hex(v) if v <= mask(u64::MAX, width) => Ok(v),
            SpecValue::Hex(v) => Err(format!("{v:#x} has more than {width} bits")),
            SpecValue::Int(v) if (least..=most).contains(&v) => Ok(mask(v as u64, width)),
            SpecValue::Int(v) => {
                let kind = if signed { "a signed" } else { "an unsigned" };
                let bits = mask(v as u64, width);
                // What has as many bits may have been meant as those.
                let meant = -(1i128 << (width.clamp(1, 64) - 1)) <= v && v < 1i128 << width.min(64);
                let or = if meant { format!("; {bits:#x} has its bits") } else { String::new() };
                Err(format!("{v} does not fit {kind} integer of {width} bits, which is {least} to {most}{or}"))
            }
        }
    }

    fn float_bits(self, width: u32) -> Result<u64, String> {
        let v = match self {
            SpecValue::Bits(v) => return Ok(mask(v, width)),
            SpecValue::Int(v) => v as f64,
            SpecValue::Hex(v) => v as f64,
            SpecValue::Float(v) => v,
            SpecValue::Bool(_) => return Err("the constant is a float".into()),
        };
        let (bits, becomes) = match width {
            64 => (v.to_bits(), v),
            32 => (u64::from((v as f32).to_bits()), f64::from(v as f32)),
            16 => {
                let (bits, value) = half(v);
                (u64::from(bits), value)
            }
            _ => return Err(format!("no float of {width} bits is known")),
        };
        if v.is_finite() && becomes.is_infinite() {
            return Err(format!("{v:e} is larger than any float of {width} bits; inf is infinity"));
        }
        Ok(bits)
    }
}

/// Returns the nearest 16-bit float, ties to even: its bits, and its value.
fn half(v: f64) -> (u16, f64) {
    let power = |n: i32| f64::from_bits(((1023 + n) as u64) << 52);
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    let a = v.abs();
    if a.is_nan() {
        return (sign | 0x7e00, v);
    }
    if a >= 65520.0 {
        return (sign | 0x7c00, f64::INFINITY.copysign(v));
    }
    // Subnormal numbers have the spacing of the smallest normal ones.
    let exponent = if a < power(-14) { -14 } else { (a.to_bits() >> 52) as i32 - 1023 };
    let steps = (a / power(exponent - 10)).round_ties_even();
    // Rounding up may reach the next exponent.
    let bits = (((exponent + 14) as u16) << 10) + steps as u16;
    (sign | bits, (steps * power(exponent - 10)).copysign(v))
}

/// The values given for specialization constants, by SpecId.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Specialization {
    values: BTreeMap<u32, SpecValue>,
}

impl Specialization {
    /// Returns an empty specialization.
    pub fn new() -> Specialization {
        Specialization::default()
    }

    /// Sets the value of `id`; the last one counts.
    pub fn set(&mut self, id: u32, value: SpecValue) {
        self.values.insert(id, value);
    }

    /// Returns the value given for `id`.
    pub fn get(&self, id: u32) -> Option<SpecValue> {
        self.values.get(&id).copied()
    }

    /// Returns all values, ascending by SpecId.
    pub fn iter(&self) -> impl Iterator<Item = (u32, SpecValue)> + '_ {
        self.values.iter().map(|(id, v)| (*id, *v))
    }

    /// Returns true if no value is given.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A constant of any type.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Scalar(u64),
    /// Shared, since a module can build composites of composites that are exponentially large when written out. The
    /// depth is stored, because dropping them recurses.
    Composite(Arc<[Value]>, u8),
    Unknown,
}

/// The largest composite that is evaluated: the largest vector has 16 components, and memory must stay in proportion.
const MAX_PARTS: usize = 16;

/// The deepest composite that is evaluated.
const MAX_DEPTH: u8 = 8;

/// The most instructions that [`Constants::computed`] follows.
const MAX_STEPS: u32 = 64;

impl Value {
    fn composite(parts: impl ExactSizeIterator<Item = Value>) -> Value {
        if parts.len() > MAX_PARTS {
            return Value::Unknown;
        }
        let parts: Arc<[Value]> = parts.collect();
        let inner = parts.iter().map(|p| match p {
            Value::Composite(_, depth) => *depth,
            _ => 0,
        });
        match inner.max().unwrap_or(0) {
            depth if depth < MAX_DEPTH => Value::Composite(parts, depth + 1),
            _ => Value::Unknown,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    specs: SpecIds,
}

/// The values of all constants of a module, under a specialization.
#[derive(Clone, Debug)]
pub struct Constants {
    entries: IdTable<Entry>,
    spec_ids: FxHashMap<Id, u32>,
    problems: Vec<(u32, String)>,
    /// True if anything computes with the parts of a composite constant: otherwise those need no values.
    parts: bool,
}

impl Constants {
    /// Evaluates every constant of `module`.
    pub fn new(module: &Module, spec: &Specialization) -> Constants {
        let mut spec_ids = FxHashMap::default();
        for r in module.globals_with(Op::Decorate) {
            let inst = module.inst(r);
            if let (Some(target), Some(1), Some(id)) = (inst.id(0), inst.word(1), inst.word(2)) {
                spec_ids.insert(target, id);
            }
        }
        let computed = module.globals_with(Op::SpecConstantOp).flat_map(|r| module.inst(r).ids());
        let parts = computed.filter_map(|id| module.def_inst(id)).any(|i| is_composite(i.op));
        let mut this = Constants { entries: IdTable::new(module), spec_ids, problems: Vec::new(), parts };
        for &r in &module.globals {
            let inst = module.inst(r);
            if let Some(id) = inst.result
                && let Some(entry) = this.eval(module, inst, id, spec)
            {
                this.entries.insert(id, entry);
            }
        }
        this
    }

    /// Returns the value of the scalar constant `id`; unknown also if it is not a constant.
    pub fn get(&self, id: Id) -> Const {
        match self.entries.get(id) {
            Some(Entry { value: Value::Scalar(v), specs }) if specs.is_empty() => Const::Fixed(*v),
            Some(Entry { value: Value::Scalar(v), specs }) => Const::Default { value: *v, specs: specs.clone() },
            _ => Const::Unknown,
        }
    }

    /// Returns the value of `id`, which is a constant or computed from constants by instructions without effects, in a
    /// function; unknown also for what takes more than `MAX_STEPS` instructions.
    pub fn computed(&self, module: &Module, id: Id) -> Const {
        let (mut specs, mut steps) = (SpecIds::default(), MAX_STEPS);
        match self.follow(module, id, &mut specs, &mut steps) {
            Value::Scalar(v) if specs.is_empty() => Const::Fixed(v),
            Value::Scalar(value) => Const::Default { value, specs },
            _ => Const::Unknown,
        }
    }

    fn follow(&self, module: &Module, id: Id, specs: &mut SpecIds, steps: &mut u32) -> Value {
        if self.entries.get(id).is_some() {
            return self.value(id, specs);
        }
        let computed = |i: &&Inst| i.op.is_pure() && i.op != Op::Phi;
        let (Some(inst), Some(left)) = (module.def_inst(id).filter(computed), steps.checked_sub(1)) else {
            return Value::Unknown;
        };
        *steps = left;
        let absorbing = match inst.op {
            Op::LogicalOr => Some(Value::Scalar(1)),
            Op::LogicalAnd => Some(Value::Scalar(0)),
            _ => None,
        };
        // Others may be known though an operand is not.
        let needs_all = absorbing.is_none() && !matches!(inst.op, Op::Select | Op::CompositeInsert);
        let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
        let mut all = specs.clone();
        for operand in inst.ids() {
            let mut own = SpecIds::default();
            let value = self.follow(module, operand, &mut own, steps);
            if absorbing.as_ref() == Some(&value) && own.is_empty() {
                return value;
            }
            if value == Value::Unknown && needs_all {
                return value;
            }
            all.merge(&own);
            args.push((value, module.type_of(operand)));
        }
        *specs = all;
        let literals: SmallVec<[u32; 4]> =
            inst.operands.iter().filter(|o| o.id().is_none()).map(|o| o.word()).collect();
        inst.ty.and_then(|ty| fold(module, inst.op, ty, &args, &literals)).unwrap_or(Value::Unknown)
    }

    /// Returns the SpecIds on which the constant `id` depends (also a composite one), if there are any or its value is
    /// known.
    pub fn specs(&self, id: Id) -> Option<&SpecIds> {
        self.entries.get(id).map(|e| &e.specs)
    }

    /// Returns the SpecId of a constant, if it has one itself.
    pub fn spec_id(&self, id: Id) -> Option<u32> {
        self.spec_ids.get(&id).copied()
    }

    /// Compares two constants: the same id is equal, whatever its value.
    pub fn compare(&self, a: Id, b: Id) -> Comparison {
        if a == b { Comparison::Equal } else { self.get(a).compare(&self.get(b)) }
    }

    /// Returns the given values that do not fit their constants: SpecId and reason.
    pub fn problems(&self) -> &[(u32, String)] {
        &self.problems
    }

    /// Returns the value of a part, and adds the SpecIds on which it depends.
    fn value(&self, id: Id, specs: &mut SpecIds) -> Value {
        let Some(entry) = self.entries.get(id) else { return Value::Unknown };
        specs.merge(&entry.specs);
        entry.value.clone()
    }

    fn eval(&mut self, module: &Module, inst: &Inst, id: Id, spec: &Specialization) -> Option<Entry> {
        let fixed = |value| Some(Entry { value, specs: SpecIds::default() });
        let ty = inst.ty?;
        match inst.op {
            Op::ConstantTrue => fixed(Value::Scalar(1)),
            Op::ConstantFalse => fixed(Value::Scalar(0)),
            Op::Constant => fixed(literal(module, inst)),
            Op::ConstantNull => fixed(null(module, ty, 0)),
            Op::SpecConstant | Op::SpecConstantTrue | Op::SpecConstantFalse => {
                let value = match inst.op {
                    Op::SpecConstantTrue => Value::Scalar(1),
                    Op::SpecConstantFalse => Value::Scalar(0),
                    _ => literal(module, inst),
                };
                let Some(spec_id) = self.spec_id(id) else { return fixed(value) };
                let Some(given) = spec.get(spec_id) else {
                    return Some(Entry { value, specs: SpecIds::one(spec_id) });
                };
                match Type::of(module, ty).map(|t| given.bits(&t)) {
                    Some(Ok(bits)) => fixed(Value::Scalar(bits)),
                    Some(Err(why)) => {
                        self.problems.push((spec_id, why));
                        Some(Entry { value, specs: SpecIds::one(spec_id) })
                    }
                    None => Some(Entry { value, specs: SpecIds::one(spec_id) }),
                }
            }
            op if is_composite(op) => {
                let mut specs = SpecIds::default();
                if !self.parts {
                    inst.ids().filter_map(|id| self.entries.get(id)).for_each(|e| specs.merge(&e.specs));
                    // There may be thousands without dependencies.
                    return (!specs.is_empty()).then_some(Entry { value: Value::Unknown, specs });
                }
                let mut parts = Vec::new();
                for part in inst.ids() {
                    let value = self.value(part, &mut specs);
                    // One more part than the limit means that there are too many.
                    if parts.len() <= MAX_PARTS {
                        parts.push(value);
                    }
                }
                Some(Entry { value: Value::composite(parts.into_iter()), specs })
            }
            Op::SpecConstantOp => {
                let mut specs = SpecIds::default();
                let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                for id in inst.ids() {
                    args.push((self.value(id, &mut specs), module.type_of(id)));
                }
                let op = Op(inst.word(0).and_then(|w| u16::try_from(w).ok())?);
                let literals: Vec<u32> =
                    inst.operands.iter().skip(1).filter(|o| o.id().is_none()).map(|o| o.word()).collect();
                let value = fold(module, op, ty, &args, &literals).unwrap_or(Value::Unknown);
                Some(Entry { value, specs })
            }
            _ => None,
        }
    }
}

fn is_composite(op: Op) -> bool {
    matches!(op, Op::ConstantComposite | Op::SpecConstantComposite)
}

/// Returns `v` without the bits above `width`.
fn mask(v: u64, width: u32) -> u64 {
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

fn literal(module: &Module, inst: &Inst) -> Value {
    let (Some(low), Some(ty)) = (inst.word(0), inst.ty) else { return Value::Unknown };
    let high = inst.word(1).unwrap_or(0);
    let bits = u64::from(low) | (u64::from(high) << 32);
    match types::scalar(module, ty) {
        // Narrow signed literals are sign-extended in the file.
        Some(s) => Value::Scalar(mask(bits, s.width())),
        None => Value::Unknown,
    }
}

fn null(module: &Module, ty: Id, depth: u32) -> Value {
    match Type::of(module, ty) {
        Some(Type::Scalar(_) | Type::Bool) => Value::Scalar(0),
        Some(Type::Vector { elem, len }) if len as usize <= MAX_PARTS && depth == 0 => {
            Value::composite(vec![null(module, elem, depth + 1); len as usize].into_iter())
        }
        _ => Value::Unknown,
    }
}

/// Returns the width of the scalar in a scalar or vector type; 1 for Booleans.
fn width(module: &Module, ty: Option<Id>) -> Option<u32> {
    match Type::of(module, ty?)? {
        Type::Scalar(Scalar::Int { width, .. }) => Some(width),
        Type::Bool => Some(1),
        // Not by recursion: the element of a broken vector type may be that type.
        Type::Vector { elem, .. } => match Type::of(module, elem)? {
            Type::Scalar(Scalar::Int { width, .. }) => Some(width),
            Type::Bool => Some(1),
            _ => None,
        },
        _ => None,
    }
}

type Arg = (Value, Option<Id>);

/// Folds one operation on constants; `None` if it is not folded.
fn fold(module: &Module, op: Op, ty: Id, args: &[Arg], literals: &[u32]) -> Option<Value> {
    match op {
        Op::CompositeExtract => {
            let mut v = &args.first()?.0;
            for i in literals {
                let Value::Composite(parts, _) = v else { return None };
                v = parts.get(*i as usize)?;
            }
            return Some(v.clone());
        }
        Op::CompositeInsert => {
            return inserted(&args.get(1)?.0, &args.first()?.0, literals);
        }
        Op::VectorShuffle => {
            let (Value::Composite(a, _), Value::Composite(b, _)) = (&args.first()?.0, &args.get(1)?.0) else {
                return None;
            };
            let all: Vec<&Value> = a.iter().chain(b.iter()).collect();
            return Some(Value::composite(
                literals.iter().map(|i| all.get(*i as usize).map_or(Value::Unknown, |v| (*v).clone())),
            ));
        }
        _ => {}
    }
    // Component by component for vectors.
    if let Some(Type::Vector { elem, len }) = Type::of(module, ty) {
        if len as usize > MAX_PARTS {
            return None;
        }
        let component = |i: usize| -> Option<Value> {
            let args: Option<Vec<Arg>> = args
                .iter()
                .map(|(v, t)| match v {
                    Value::Composite(parts, _) => Some((parts.get(i)?.clone(), *t)),
                    Value::Scalar(_) => Some((v.clone(), *t)),
                    Value::Unknown => None,
                })
                .collect();
            fold_scalar(module, op, elem, &args?)
        };
        return Some(Value::composite((0..len as usize).map(|i| component(i).unwrap_or(Value::Unknown))));
    }
    fold_scalar(module, op, ty, args)
}

/// Returns `whole` with the part at `path` replaced. The result is no deeper than [`MAX_DEPTH`], and so is the
/// recursion.
fn inserted(whole: &Value, part: &Value, path: &[u32]) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else { return Some(part.clone()) };
    let Value::Composite(parts, _) = whole else { return None };
    let changed = inserted(parts.get(*first as usize)?, part, rest)?;
    let mut parts = parts.to_vec();
    parts[*first as usize] = changed;
    Some(Value::composite(parts.into_iter()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_others() {
        let near = |bits: u16| {
            let v = half_crate(bits);
            [
                v,
                f64::from_bits(v.to_bits().wrapping_add(1)),
                f64::from_bits(v.to_bits().wrapping_sub(1)),
                v * 1.0003,
                v * 0.9997,
            ]
        };
        let ties = |bits: u16| (half_crate(bits) + half_crate(bits.wrapping_add(1))) / 2.0;
        let of_all = (0..=u16::MAX).flat_map(|bits| near(bits).into_iter().chain([ties(bits)]));
        for v in of_all.chain([65519.99, 65520.0, 1e300, -1e300, 5e-324, f64::NAN]) {
            let (bits, value) = half(v);
            if v.is_nan() {
                assert!(value.is_nan() && bits & 0x7fff > 0x7c00);
                continue;
            }
            assert_eq!((half_crate(bits), value.is_sign_negative()), (value, v.is_sign_negative()), "{v:e}");
            // That crate ignores the lower half of the number, and so rounds what is above a tie as a tie.
            if v.to_bits() as u32 == 0 {
                assert_eq!(bits, ::half::f16::from_f64(v).to_bits(), "{v:e}");
            }
            let others = [bits.wrapping_sub(1), bits.wrapping_add(1)].map(half_crate);
            let nearer = |other: &f64| other.is_finite() && (v - other).abs() < (v - value).abs();
            assert!(value.is_infinite() || !others.iter().any(nearer), "{v:e}: {value:e}");
        }
    }

    fn half_crate(bits: u16) -> f64 {
        ::half::f16::from_bits(bits).to_f64()
    }
}
