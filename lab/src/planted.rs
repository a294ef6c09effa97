//! Plants errors in modules: what lowerings get wrong, one at a time.
//!
//! A planted error keeps the types right, so that the module still runs. It may be no error: a comparison of numbers that
//! are never equal may as well include equality. Which of them matter is for a proof to say ([`crate::proofs`]).

use std::fmt;

use coop_exec::random::Random;
use coop_ir::builder::{Globals, decorate, require_capability};
use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::rewrite::{insert_before, sort_globals};
use coop_ir::spv::{Capability, Decoration, FPRoundingMode};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Block, Id, Inst, InstRef, Module, Op, Operand};

/// The kind of an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A constant in integer or address arithmetic, or a stride, is one more.
    Constant,
    /// A float constant is twice as large.
    Scale,
    /// The operands of an instruction are exchanged.
    Operands,
    /// Two instructions of a kind exchange their first operands.
    Fragments,
    /// A comparison includes equality, or does no longer.
    Comparison,
    /// The targets of a branch are exchanged.
    Branch,
    /// A choice always takes the same side: a mask or a clamp is left out.
    Choice,
    /// A barrier is left out.
    Barrier,
    /// A store is left out.
    Store,
    /// A conversion to a narrower type and back is left out.
    Rounding,
    /// An operand is converted to f16 and back.
    Narrowing,
    /// A conversion to a narrower type rounds to zero.
    Mode,
    /// A number is clamped to what is at most 1.
    Clamp,
    /// An access promises four times the alignment.
    Alignment,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 14] = [
        Kind::Constant,
        Kind::Scale,
        Kind::Operands,
        Kind::Fragments,
        Kind::Comparison,
        Kind::Branch,
        Kind::Choice,
        Kind::Barrier,
        Kind::Store,
        Kind::Rounding,
        Kind::Narrowing,
        Kind::Mode,
        Kind::Clamp,
        Kind::Alignment,
    ];

    /// The kinds that only a proof sees in which numbers are rounded.
    pub const OF_ROUNDING: [Kind; 3] = [Kind::Rounding, Kind::Narrowing, Kind::Mode];

    /// Its description in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Constant => "a constant, an index or a stride is one more",
            Kind::Scale => "a float constant is doubled",
            Kind::Operands => "operands are exchanged",
            Kind::Fragments => "two products exchange a factor",
            Kind::Comparison => "a comparison includes equality, or does not",
            Kind::Branch => "the targets of a branch are exchanged",
            Kind::Choice => "a choice always takes one side",
            Kind::Barrier => "a barrier is left out",
            Kind::Store => "a store is left out",
            Kind::Rounding => "a rounding is left out",
            Kind::Narrowing => "a number is rounded to f16",
            Kind::Mode => "a conversion rounds to zero",
            Kind::Clamp => "a number is clamped to at most 1",
            Kind::Alignment => "an access promises four times the alignment",
        }
    }
}

/// How an instruction is changed.
#[derive(Clone, Debug)]
enum Edit {
    /// An operand becomes a constant of a type.
    Constant {
        operand: usize,
        ty: Id,
        scalar: Scalar,
        bits: u64,
    },
    /// Two operands of one instruction are exchanged.
    Swap(usize, usize),
    /// The first operand is exchanged with that of another instruction.
    SwapWith(InstRef),
    Replace(Inst),
    Remove,
    /// An operand of type f32 is rounded to f16.
    Round(usize),
    /// An operand of type f32 is 1 where it is more.
    Clamp(usize),
    /// The result is decorated.
    Decorate(Decoration, Vec<u32>),
}

/// An error that can be planted in a module.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The kind.
    pub kind: Kind,
    /// The instruction.
    pub at: InstRef,
    op: Op,
    edit: Edit,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (instruction {}, {})", self.kind.name(), self.at.index(), self.op)
    }
}

/// Returns the errors that can be planted in a module.
pub fn sites(m: &Module) -> Vec<Planted> {
    let constants = Constants::new(m, &Specialization::new());
    let mut finder = Finder { m, constants, out: Vec::new() };
    for block in m.functions.iter().flat_map(|f| &f.blocks) {
        finder.block(block);
    }
    finder.out
}

/// Returns at most `count` of the errors, as many of each kind as there are, at random.
pub fn sample(mut all: Vec<Planted>, count: usize, seed: u64) -> Vec<Planted> {
    let mut random = Random::new(seed);
    let mut out = Vec::new();
    while out.len() < count && !all.is_empty() {
        for kind in Kind::ALL {
            let of: Vec<usize> = (0..all.len()).filter(|i| all[*i].kind == kind).collect();
            if !of.is_empty() && out.len() < count {
                out.push(all.swap_remove(of[random.integer(0, of.len() as i64 - 1) as usize]));
            }
        }
    }
    out
}

struct Finder<'m> {
    m: &'m Module,
    constants: Constants,
    out: Vec<Planted>,
}

impl Finder<'_> {
    fn add(&mut self, kind: Kind, at: InstRef, edit: Edit) {
        self.out.push(Planted { kind, at, op: self.m.inst(at).op, edit });
    }

    fn block(&mut self, block: &Block) {
        for (i, at) in block.insts.iter().enumerate() {
            let inst = self.m.inst(*at);
            let op = inst.op;
            if op.is_pure() || op.is_access_chain() || op.is_matrix_access() {
                self.constants(*at, inst);
            }
            if op.is_comparison() || op.is_division() || op == Op::FSub || op == Op::ISub {
                self.operands(*at, inst);
            }
            if op.is_matrix_arithmetic() || op.is_contractible() || op == Op::CooperativeMatrixMulAddKHR {
                self.fragments(*at, inst, &block.insts[i + 1..]);
            }
            if let Some(other) = with_or_without_equality(op) {
                self.add(Kind::Comparison, *at, Edit::Replace(Inst { op: other, ..inst.clone() }));
            }
            match op {
                Op::BranchConditional => self.add(Kind::Branch, *at, Edit::Swap(1, 2)),
                Op::Select => (1..3).for_each(|side| self.choice(*at, inst, side)),
                Op::Store => {
                    self.add(Kind::Store, *at, Edit::Remove);
                    self.narrowing(*at, inst, 1);
                    self.alignment(*at, inst);
                }
                Op::Load => self.alignment(*at, inst),
                Op::FAdd | Op::FMul => self.narrowing(*at, inst, 0),
                Op::FConvert => {
                    self.rounding(*at, inst);
                    self.conversion(*at, inst);
                }
                _ if op.is_control_barrier() => self.add(Kind::Barrier, *at, Edit::Remove),
                _ => {}
            }
        }
    }

    fn constants(&mut self, at: InstRef, inst: &Inst) {
        for (operand, id) in inst.operands.iter().enumerate().filter_map(|(i, o)| Some((i, o.id()?))) {
            let (Const::Fixed(bits) | Const::Default { value: bits, .. }) = self.constants.get(id) else { continue };
            let Some(ty) = self.m.type_of(id) else { continue };
            let Some(Type::Scalar(scalar)) = Type::of(self.m, ty) else { continue };
            let (kind, bits) = match scalar {
                Scalar::Int { width, .. } if width <= 32 => {
                    (Kind::Constant, bits.wrapping_add(1) & ((1u64 << width) - 1))
                }
                Scalar::Float { width: 32 } => (Kind::Scale, u64::from((2.0 * f32::from_bits(bits as u32)).to_bits())),
                // The exponent, where the number is not so large.
                Scalar::Float { width: 16 } if bits & 0x7c00 != 0 && bits & 0x7c00 < 0x7800 => {
                    (Kind::Scale, bits + 0x400)
                }
                _ => continue,
            };
            self.add(kind, at, Edit::Constant { operand, ty, scalar, bits });
        }
    }

    fn operands(&mut self, at: InstRef, inst: &Inst) {
        let mut ids = inst.ids();
        let (Some(a), Some(b)) = (ids.next(), ids.next()) else { return };
        if a != b && self.m.type_of(a) == self.m.type_of(b) {
            self.add(Kind::Operands, at, Edit::Swap(0, 1));
        }
    }

    fn fragments(&mut self, at: InstRef, inst: &Inst, rest: &[InstRef]) {
        let first = |inst: &Inst| inst.ids().next().map(|id| (id, self.m.type_of(id)));
        let other = rest.iter().copied().find(|r| {
            let other = self.m.inst(*r);
            other.op == inst.op
                && other.ty == inst.ty
                && first(other).map(|f| f.1) == first(inst).map(|f| f.1)
                && first(other).map(|f| f.0) != first(inst).map(|f| f.0)
                // Its operand must be defined before this instruction: it is no result of one in between.
                && other.ids().next().and_then(|id| self.m.def(id)).is_some_and(|def| !rest.contains(&def) && def != at)
        });
        if let Some(other) = other {
            self.add(Kind::Fragments, at, Edit::SwapWith(other));
        }
    }

    fn choice(&mut self, at: InstRef, inst: &Inst, side: usize) {
        let Some(value) = inst.id(side) else { return };
        let copy = Inst::new(Op::CopyObject, inst.ty, inst.result, [Operand::Id(value)]);
        self.add(Kind::Choice, at, Edit::Replace(copy));
    }

    fn rounding(&mut self, at: InstRef, inst: &Inst) {
        let Some(narrow) = inst.ids().next().and_then(|id| self.m.def_inst(id)) else { return };
        let Some(wide) = narrow.ids().next().filter(|id| narrow.op == Op::FConvert && self.m.type_of(*id) == inst.ty)
        else {
            return;
        };
        let copy = Inst::new(Op::CopyObject, inst.ty, inst.result, [Operand::Id(wide)]);
        self.add(Kind::Rounding, at, Edit::Replace(copy));
    }
}

impl Finder<'_> {
    fn float(&self, id: Id) -> Option<u32> {
        match Type::of(self.m, self.m.type_of(id)?)? {
            Type::Scalar(Scalar::Float { width }) => Some(width),
            _ => None,
        }
    }

    fn narrowing(&mut self, at: InstRef, inst: &Inst, operand: usize) {
        if inst.id(operand).is_some_and(|id| self.float(id) == Some(32) && self.constants.get(id) == Const::Unknown) {
            self.add(Kind::Narrowing, at, Edit::Round(operand));
            self.add(Kind::Clamp, at, Edit::Clamp(operand));
        }
    }

    fn alignment(&mut self, at: InstRef, inst: &Inst) {
        if let Some((bytes, place)) = inst.memory_operands().and_then(|operands| operands.aligned) {
            let mut other = inst.clone();
            other.operands[place] = Operand::Word(4 * bytes);
            self.add(Kind::Alignment, at, Edit::Replace(other));
        }
    }

    fn conversion(&mut self, at: InstRef, inst: &Inst) {
        let widths =
            inst.ids().next().zip(inst.result).and_then(|(from, to)| Some((self.float(from)?, self.float(to)?)));
        if widths.is_some_and(|(from, to)| from > to) {
            let mode = FPRoundingMode::RTZ.0;
            self.add(Kind::Mode, at, Edit::Decorate(Decoration::FPRoundingMode, vec![mode]));
        }
    }
}

/// Returns the comparison that differs for equal operands.
fn with_or_without_equality(op: Op) -> Option<Op> {
    Some(match op {
        Op::ULessThan => Op::ULessThanEqual,
        Op::ULessThanEqual => Op::ULessThan,
        Op::UGreaterThan => Op::UGreaterThanEqual,
        Op::UGreaterThanEqual => Op::UGreaterThan,
        Op::SLessThan => Op::SLessThanEqual,
        Op::SLessThanEqual => Op::SLessThan,
        Op::SGreaterThan => Op::SGreaterThanEqual,
        Op::SGreaterThanEqual => Op::SGreaterThan,
        _ => return None,
    })
}

/// Returns the module with an error.
pub fn plant(module: &Module, planted: &Planted) -> Module {
    let mut m = module.clone();
    match &planted.edit {
        Edit::Constant { operand, ty, scalar, bits } => {
            let mut globals = Globals::new(&m);
            let constant = globals.constant_of(&mut m, *ty, *scalar, *bits);
            let mut inst = m.inst(planted.at).clone();
            inst.operands[*operand] = Operand::Id(constant);
            m.replace(planted.at, inst);
            sort_globals(&mut m);
        }
        Edit::Swap(a, b) => {
            let mut inst = m.inst(planted.at).clone();
            inst.operands.swap(*a, *b);
            m.replace(planted.at, inst);
        }
        Edit::SwapWith(other) => {
            let (mut one, mut two) = (m.inst(planted.at).clone(), m.inst(*other).clone());
            std::mem::swap(&mut one.operands[0], &mut two.operands[0]);
            m.replace(planted.at, one);
            m.replace(*other, two);
        }
        Edit::Replace(inst) => m.replace(planted.at, inst.clone()),
        Edit::Round(operand) => {
            let mut globals = Globals::new(&m);
            let [half, float] = [16, 32].map(|width| globals.scalar(&mut m, Scalar::Float { width }));
            require_capability(&mut m, Capability::Float16);
            let mut inst = m.inst(planted.at).clone();
            for ty in [half, float] {
                let id = m.fresh_id();
                let convert = Inst::new(Op::FConvert, Some(ty), Some(id), [inst.operands[*operand]]);
                insert_before(&mut m, planted.at, convert);
                inst.operands[*operand] = Operand::Id(id);
            }
            m.replace(planted.at, inst);
            sort_globals(&mut m);
        }
        Edit::Clamp(operand) => {
            let mut globals = Globals::new(&m);
            let scalar = Scalar::Float { width: 32 };
            let (float, bool_type) = (globals.scalar(&mut m, scalar), globals.bool(&mut m));
            let one = globals.constant_of(&mut m, float, scalar, u64::from(1f32.to_bits()));
            let mut inst = m.inst(planted.at).clone();
            let (value, one) = (inst.operands[*operand], Operand::Id(one));
            let (above, clamped) = (m.fresh_id(), m.fresh_id());
            let compare = Inst::new(Op::FOrdGreaterThan, Some(bool_type), Some(above), [value, one]);
            let choose = Inst::new(Op::Select, Some(float), Some(clamped), [Operand::Id(above), one, value]);
            insert_before(&mut m, planted.at, compare);
            insert_before(&mut m, planted.at, choose);
            inst.operands[*operand] = Operand::Id(clamped);
            m.replace(planted.at, inst);
            sort_globals(&mut m);
        }
        Edit::Decorate(decoration, operands) => {
            if let Some(id) = m.inst(planted.at).result {
                decorate(&mut m, id, *decoration, operands);
            }
        }
        Edit::Remove => {
            for block in m.functions.iter_mut().flat_map(|f| &mut f.blocks) {
                block.insts.retain(|at| *at != planted.at);
            }
        }
    }
    m
}
