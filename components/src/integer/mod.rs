//! Computes with 32-bit integers instead of those of 8 and 16 bits, where the device has no arithmetic with them.
//!
//! Precondition: no matrices, and no such integers in memory that the application sees (`storage`). Effect: each type becomes
//! the one of 32 bits with the same signedness, and everything made of it. A value is held extended by its type's signedness,
//! always: an operation whose result may not be is followed by an extension of its low bits, and one that looks at the upper
//! bits by the other signedness than its operand's type gets the operand extended so first. Shared memory takes more bytes.
//!
//! An exclusive scan for the least or greatest of signed numbers starts with another value with 32 bits: there the numbers are the upper bits
//! of the words that are scanned.
//!
//! Refuses: specialization constants, interfaces and atomic operations of such integers; products of double width, and dot products.

mod cast;

use crate::Refusal;
use crate::emit::{self, wide};
use crate::narrow::{Narrow, Notes, Widths};
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use crate::report::Software;
use coop_ir::builder::{FunctionBuilder, Globals};
use coop_ir::effects::{ExtSet, ExtSets};
use coop_ir::grammar::GroupOp;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{replace_uses, sort_globals, unify_types};
use coop_ir::spv::{GlslStd450 as Glsl, GroupOperation};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const REMEDY: &str = "use 32-bit integers there, or a device with shaderInt16 and shaderInt8";

/// The pass while it runs.
struct Integer {
    narrow: Narrow,
    sets: ExtSets,
    types: MadeOf<'static>,
    notes: Notes,
    replaced: FxHashMap<Id, Id>,
}

/// An integer type, or one of vectors of them, of up to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Int {
    width: u32,
    signed: bool,
    len: u32,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let soft = |width: u32| cx.lacks.in_software(m, Scalar::Int { width, signed: false });
    let widths = Widths { eight: soft(8), sixteen: soft(16) };
    let is = |s: Scalar, widths: Widths| match s {
        Scalar::Int { width: 8, .. } => widths.eight,
        Scalar::Int { width: 16, .. } => widths.sixteen,
        _ => false,
    };
    let narrow = Narrow { is, widths, remedy: REMEDY };
    let declared: Vec<Id> = m.globals_with(Op::TypeInt).filter_map(|r| m.inst(r).result).collect();
    let mut types = narrow.made_of();
    if !declared.iter().any(|ty| types.any(m, *ty)) {
        return Ok(());
    }
    narrow.check(m)?;
    let mut g = Globals::new(m);
    let sets = ExtSets::new(m);
    let replaced = FxHashMap::default();
    let mut pass = Integer { narrow, sets, types, notes: Notes::default(), replaced };
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    pass.notes.gone.extend(pass.replaced.keys());
    pass.notes.apply(m);
    replace_uses(m, &pass.replaced);
    narrow.strip_layouts(m);
    for r in m.globals_with(Op::TypeInt).collect::<Vec<_>>() {
        let Some(ty) = m.inst(r).result.filter(|ty| pass.types.any(m, *ty)) else { continue };
        if let Some(s) = types::scalar(m, ty) {
            cx.report.software.push(Software::Arithmetic { narrow: s.to_string(), wide: "32-bit integers".to_owned() });
        }
        m.inst_mut(r).operands[0] = Operand::Word(32);
    }
    unify_types(m);
    sort_globals(m);
    Ok(())
}

/// Returns an integer type, or the one that a vector type is made of.
fn int(m: &Module, ty: Id) -> Option<Int> {
    match types::scalar_or_vector(m, ty)? {
        (Scalar::Int { width, signed }, len) => Some(Int { width, signed, len }),
        _ => None,
    }
}

impl Integer {
    fn is_narrow(&self, i: Int) -> bool {
        (self.narrow.is)(Scalar::Int { width: i.width, signed: i.signed }, self.narrow.widths)
    }

    /// Returns the type of a value if it is one that becomes wider, or a vector of those.
    fn narrow_of(&self, m: &Module, value: Id) -> Option<Int> {
        int(m, m.type_of(value)?).filter(|i| self.is_narrow(*i))
    }

    fn touches(&mut self, m: &Module, i: &Inst) -> bool {
        i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| self.types.any(m, ty))
    }

    fn refuse(&self, r: InstRef, what: &str) -> Refusal {
        Refusal::new(r, format!("{what} has no lowering to 32-bit integers"), REMEDY)
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        if !self.touches(b.module, &i) || self.sets.is_note(&i) {
            b.keep(r);
            return Ok(());
        }
        match i.op {
            Op::Bitcast => return self.bitcast(b, r, &i),
            Op::BitReverse => self.reversed(b, r, &i),
            op if op.is_conversion() && !op.is_saturating_conversion() => self.conversion(b, r, &i),
            op if op.is_ext_inst() => return self.extended(b, r, &i),
            op if op.group_operation().is_some() => return self.group(b, r, &i),
            op if self.keeps_values(op) => b.keep(r),
            op => match reads(op) {
                Some(reads) => self.operation(b, r, &i, reads),
                None => return Err(self.refuse(r, &format!("{op} on integers of 8 or 16 bits"))),
            },
        }
        Ok(())
    }

    /// Returns true if an instruction moves values, or uses them as indices or selectors.
    fn keeps_values(&self, op: Op) -> bool {
        let memory = op.is_access_chain() || op == Op::CopyMemory || op == Op::ArrayLength;
        let whole = op.takes_any_type() || op.moves_whole_values() || op.is_composite() || op == Op::CopyLogical;
        memory || whole || op.moves_components() || op == Op::Switch
    }

    /// Emits an operation on operands that are extended as it reads them, and extends its result.
    fn operation(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst, reads: Reads) {
        let operands: Vec<Operand> = i.operands.clone().to_vec();
        let operands = self.extended_operands(b, &operands, reads);
        self.emit(b, r, i, operands);
    }

    /// Reverses a word: the bits of the number become its upper ones.
    fn reversed(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        let (Some(ty), Some(result)) = (i.ty, i.result) else { return b.keep(r) };
        let Some(narrow) = int(b.module, ty).filter(|n| self.is_narrow(*n)) else { return b.keep(r) };
        let id = b.op(i.op, ty, i.operands.iter().copied());
        self.notes.moved.insert(result, id);
        let value = upper_bits(b, id, ty, narrow);
        self.notes.gone.insert(result);
        self.replaced.insert(result, value);
    }

    /// Emits an exclusive scan for the least or greatest signed number: of words with the numbers as their upper bits, so that the
    /// value that it starts with is the narrow type's.
    fn scan_of_upper_bits(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        let (Some(ty), Some(result)) = (i.ty, i.result) else { return b.keep(r) };
        let Some(narrow) = int(b.module, ty).filter(|n| self.is_narrow(*n)) else { return b.keep(r) };
        let mut operands: Vec<Operand> = i.operands.to_vec();
        for o in &mut operands {
            let Some(id) = o.id().filter(|id| b.module.type_of(*id) == Some(ty)) else { continue };
            let (zero, at, width) = (b.globals.null(b.module, ty), b.u32(32 - narrow.width), b.u32(narrow.width));
            *o = b.ids(Op::BitFieldInsert, ty, &[zero, id, at, width]).into();
        }
        let id = b.op(i.op, ty, operands);
        self.notes.moved.insert(result, id);
        let value = upper_bits(b, id, ty, narrow);
        self.notes.gone.insert(result);
        self.replaced.insert(result, value);
    }

    /// Extends the narrow operands by the signedness that an operation reads them with.
    fn extended_operands(&self, b: &mut FunctionBuilder<'_>, operands: &[Operand], reads: Reads) -> Vec<Operand> {
        let signs: Vec<bool> =
            operands.iter().filter_map(|o| Some(self.narrow_of(b.module, o.id()?)?.signed)).collect();
        let mixed = signs.iter().any(|s| *s != signs[0]);
        let sign = match reads {
            Reads::Low => None,
            Reads::Unsigned => Some(false),
            Reads::Signed => Some(true),
            Reads::Equal => Some(false).filter(|_| mixed),
        };
        let each = |b: &mut FunctionBuilder<'_>, o: &Operand| match (o.id(), sign) {
            (Some(id), Some(signed)) => self.extend(b, id, signed).into(),
            _ => *o,
        };
        operands.iter().map(|o| each(b, o)).collect()
    }

    /// Emits an operation with a result of its own, and extends that if it is narrow.
    fn emit(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst, operands: Vec<Operand>) {
        let (Some(ty), Some(result)) = (i.ty, i.result) else { return b.keep(r) };
        let Some(narrow) = int(b.module, ty).filter(|n| self.is_narrow(*n)) else {
            b.module.inst_mut(r).operands = operands.into();
            b.keep(r);
            return;
        };
        let id = b.op(i.op, ty, operands);
        self.notes.moved.insert(result, id);
        let value = low_bits(b, id, ty, narrow);
        self.notes.gone.insert(result);
        self.replaced.insert(result, value);
    }

    /// Returns a value extended by a signedness; other values than narrow ones as they are.
    fn extend(&self, b: &mut FunctionBuilder<'_>, value: Id, signed: bool) -> Id {
        let (Some(ty), Some(narrow)) = (b.module.type_of(value), self.narrow_of(b.module, value)) else { return value };
        if narrow.signed == signed {
            return value;
        }
        low_bits(b, value, ty, Int { signed, ..narrow })
    }

    /// Conversions of numbers: from narrow integers, to them, or both.
    fn conversion(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else { return b.keep(r) };
        let signed = !matches!(i.op, Op::UConvert | Op::ConvertUToF);
        let value = self.extend(b, value, signed);
        let from = b.module.type_of(value).and_then(|ty| int(b.module, ty));
        let to = int(b.module, ty);
        self.notes.plain.insert(result);
        let (Some(from), Some(to)) = (from, to) else {
            return match to.filter(|to| self.is_narrow(*to)) {
                // From a float.
                Some(to) => {
                    let word = word(b, to);
                    let id = b.ids(i.op, word, &[value]);
                    let value = self.narrowed(b, id, word, ty, to);
                    self.replaced.insert(result, value);
                }
                None => {
                    b.module.inst_mut(r).operands[0] = value.into();
                    b.keep(r);
                }
            };
        };
        // As a word, by which 64 bits are made or of which bits are taken.
        let as_word = Int { signed, width: 32, len: from.len };
        let word = word(b, as_word);
        let value = match from.width {
            32 => as_type(b, value, word),
            _ if self.is_narrow(from) => as_type(b, value, word),
            _ => b.ids(i.op, word, &[value]),
        };
        let value = match to.width {
            64 => b.ids(i.op, ty, &[value]),
            32 => as_type(b, value, ty),
            _ => self.narrowed(b, value, word, ty, to),
        };
        self.replaced.insert(result, value);
    }

    /// Returns the low bits of a word as a value of a narrow type.
    fn narrowed(&self, b: &mut FunctionBuilder<'_>, value: Id, from: Id, ty: Id, to: Int) -> Id {
        if !self.is_narrow(to) {
            // One width is lacking, the other is not.
            let op = if to.signed { Op::SConvert } else { Op::UConvert };
            return b.ids(op, ty, &[value]);
        }
        let same = word(b, Int { width: 32, ..to });
        let value = if from == same { value } else { b.ids(Op::Bitcast, same, &[value]) };
        low_bits(b, value, ty, to)
    }

    fn extended(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let number = i.ext_instruction().map(Glsl).filter(|_| self.sets.of(i) == ExtSet::Glsl);
        let reads = match number {
            Some(Glsl::SAbs | Glsl::SSign | Glsl::SMin | Glsl::SMax | Glsl::SClamp) => Reads::Signed,
            Some(Glsl::UMin | Glsl::UMax | Glsl::UClamp) => Reads::Unsigned,
            // The exponent is a number of its own type.
            Some(Glsl::Ldexp) => Reads::Low,
            Some(Glsl(n)) => {
                let what = format!("instruction {n} of GLSL.std.450 on integers of 8 or 16 bits");
                return Err(self.refuse(r, &what));
            }
            None => return Err(self.refuse(r, "an instruction of this set on integers of 8 or 16 bits")),
        };
        let (head, operands) = i.operands.split_at(2);
        let operands = self.extended_operands(b, operands, reads);
        let all = head.iter().copied().chain(operands).collect();
        self.emit(b, r, i, all);
        Ok(())
    }

    fn group(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let Some(op) = i.op.group_operation().filter(|op| op.is_reduction()) else {
            b.keep(r);
            return Ok(());
        };
        let reads = match op {
            GroupOp::SMin | GroupOp::SMax if i.reduction_kind() == Some(GroupOperation::ExclusiveScan) => {
                self.scan_of_upper_bits(b, r, i);
                return Ok(());
            }
            GroupOp::SMin | GroupOp::SMax => Reads::Signed,
            GroupOp::UMin | GroupOp::UMax => Reads::Unsigned,
            _ => Reads::Low,
        };
        self.operation(b, r, i, reads);
        Ok(())
    }
}

/// The bits of its operands that an operation looks at, besides the low ones that a narrow type has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    /// None: the low bits of the result depend on the low bits of the operands.
    Low,
    /// All, extended with zeros.
    Unsigned,
    /// All, extended with the sign.
    Signed,
    /// All, extended alike.
    Equal,
}

/// Returns how an operation reads its operands. `None` if it has no lowering.
fn reads(op: Op) -> Option<Reads> {
    Some(match op {
        Op::SNegate | Op::IAdd | Op::ISub | Op::IMul | Op::Not => Reads::Low,
        Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::ShiftLeftLogical => Reads::Low,
        // A field lies within the bits of the number.
        Op::BitFieldInsert | Op::BitFieldSExtract | Op::BitFieldUExtract => Reads::Low,
        Op::BitCount => Reads::Unsigned,
        Op::UDiv | Op::UMod | Op::ShiftRightLogical => Reads::Unsigned,
        Op::SDiv | Op::SRem | Op::SMod | Op::ShiftRightArithmetic => Reads::Signed,
        Op::IEqual | Op::INotEqual => Reads::Equal,
        Op::ULessThan | Op::ULessThanEqual | Op::UGreaterThan | Op::UGreaterThanEqual => Reads::Unsigned,
        Op::SLessThan | Op::SLessThanEqual | Op::SGreaterThan | Op::SGreaterThanEqual => Reads::Signed,
        _ => return None,
    })
}

/// Returns the type of words of a shape.
fn word(b: &mut FunctionBuilder<'_>, shape: Int) -> Id {
    let elem = b.globals.scalar(b.module, Scalar::Int { width: 32, signed: shape.signed });
    wide(b, elem, shape.len)
}

/// Returns a value as one of another type of 32 bits, or of one that becomes such.
fn as_type(b: &mut FunctionBuilder<'_>, value: Id, ty: Id) -> Id {
    let shape = |b: &FunctionBuilder<'_>, ty: Option<Id>| ty.and_then(|ty| int(b.module, ty)).map(|i| i.signed);
    let (from, to) = (shape(b, b.module.type_of(value)), shape(b, Some(ty)));
    let op = if from == to { Op::CopyObject } else { Op::Bitcast };
    if b.module.type_of(value) == Some(ty) { value } else { b.ids(op, ty, &[value]) }
}

/// Extends the low bits of a value, by the signedness of `shape`, to a value of its type.
fn low_bits(b: &mut FunctionBuilder<'_>, value: Id, ty: Id, shape: Int) -> Id {
    let op = if shape.signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
    let (zero, width) = (b.u32(0), b.u32(shape.width));
    b.ids(op, ty, &[value, zero, width])
}

/// Extends the upper bits of a value, by the signedness of `shape`, to a value of its type.
fn upper_bits(b: &mut FunctionBuilder<'_>, value: Id, ty: Id, shape: Int) -> Id {
    let op = if shape.signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
    let (at, width) = (b.u32(32 - shape.width), b.u32(shape.width));
    b.ids(op, ty, &[value, at, width])
}
