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

mod fold;
mod specialization;

pub use fold::fold_int;
pub use specialization::{SpecValue, Specialization, parse_spec_id};

use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Id, IdTable, Inst, Module};
use crate::types::Type;
use fold::{Arg, Value, literal, null};
use smallvec::{SmallVec, smallvec};
use std::fmt;

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

/// The most instructions that [`Constants::computed`] follows.
const MAX_STEPS: u32 = 64;

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
        // A third of the globals are constants, in the middle.
        let entries = IdTable::with_capacity(module, module.globals.len() / 3);
        let mut this = Constants { entries, spec_ids, problems: Vec::new() };
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
        if self.entries.get(id).is_some() || module.def_inst(id).is_some_and(|i| is_composite(i.op)) {
            return self.value(module, id, specs);
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
        inst.ty.and_then(|ty| self.fold(module, inst.op, ty, &args, &literals)).unwrap_or(Value::Unknown)
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

    /// Returns the value of an operand, and adds the SpecIds on which it depends.
    fn value(&self, module: &Module, id: Id, specs: &mut SpecIds) -> Value {
        if let Some(entry) = self.entries.get(id) {
            specs.merge(&entry.specs);
        }
        self.plain(module, id)
    }

    fn plain(&self, module: &Module, id: Id) -> Value {
        match self.entries.get(id) {
            Some(entry) => entry.value.clone(),
            None if module.def_inst(id).is_some_and(|i| is_composite(i.op)) => Value::Constant(id),
            None => Value::Unknown,
        }
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
                inst.ids().filter_map(|id| self.entries.get(id)).for_each(|e| specs.merge(&e.specs));
                // There may be thousands without dependencies.
                (!specs.is_empty()).then_some(Entry { value: Value::Constant(id), specs })
            }
            Op::SpecConstantOp => {
                let mut specs = SpecIds::default();
                let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                for id in inst.ids() {
                    args.push((self.value(module, id, &mut specs), module.type_of(id)));
                }
                let op = Op(inst.word(0).and_then(|w| u16::try_from(w).ok())?);
                let literals: Vec<u32> =
                    inst.operands.iter().skip(1).filter(|o| o.id().is_none()).map(|o| o.word()).collect();
                let value = self.fold(module, op, ty, &args, &literals).unwrap_or(Value::Unknown);
                Some(Entry { value, specs })
            }
            _ => None,
        }
    }
}

fn is_composite(op: Op) -> bool {
    matches!(op, Op::ConstantComposite | Op::SpecConstantComposite)
}
