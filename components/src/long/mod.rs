//! Computes with pairs of 32-bit words instead of integers of 64 bits, where the device has no arithmetic with them.
//!
//! Precondition: no matrices. Effect: the type becomes the vector of two words, the low one first, which has the size, the
//! alignment and the order of bytes that the number has in memory. Operations are exact modulo 2^64, those of a conversion
//! to a floating-point number round once. Indices become their low words.
//!
//! Vectors of such integers are arrays before that ([`vectors`]).
//!
//! Constants that types and decorations name, such as lengths of arrays, become their low words too.
//!
//! Refuses: specialization constants, interfaces and atomic operations of them, selectors of
//! `OpSwitch`, products of double width, products of subgroups, and constants of 2^32 and more where a type needs one.

mod bits;
mod float;
mod group;
pub(crate) mod pair;
pub(crate) mod vectors;

use crate::Refusal;
use crate::address_casts;
use crate::emit;
use crate::narrow::{Notes, OF_PIPELINE};
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use crate::report::Software;
use crate::storage::NOT_AT_ONCE;
use coop_ir::builder::{FunctionBuilder, Globals, add_global};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::effects::{ExtSet, ExtSets};
use coop_ir::grammar::GroupOp;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{replace_uses, sort_globals, unify_types};
use coop_ir::spv::{GlslStd450 as Glsl, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use pair::{Code, Order, Pair, Shift};

const REMEDY: &str = "use 32-bit integers there, or a device with shaderInt64";

/// The pass while it runs.
struct Long {
    code: Code,
    constants: Constants,
    /// The types that are made of integers of 64 bits.
    longs: MadeOf<'static>,
    sets: ExtSets,
    glsl: Id,
    notes: Notes,
    replaced: FxHashMap<Id, Id>,
    /// The words of results that were computed.
    pairs: FxHashMap<Id, Pair>,
    /// The words of other values, with the block in which they were taken out.
    taken: FxHashMap<Id, (Id, Pair)>,
    /// The vectors that were made of results.
    made: FxHashSet<Id>,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let declared: Vec<InstRef> =
        m.globals_with(Op::TypeInt).filter(|r| m.inst(*r).result.is_some_and(|ty| is_long(m, ty))).collect();
    if declared.is_empty() || !cx.lacks.in_software(m, Scalar::Int { width: 64, signed: false }) {
        return Ok(());
    }
    let mut made = MadeOf::numbers(|_, s| matches!(s, Scalar::Int { width: 64, .. }));
    let (constants, sets) = (Constants::new(m, &Specialization::new()), ExtSets::new(m));
    check(m, &mut made, &constants)?;
    let mut g = Globals::new(m);
    let (uint, bool) = (g.uint(m, 32), g.bool(m));
    let code = Code::new(uint, bool, g.vector(m, uint, 2));
    let mut pass = Long {
        code,
        constants,
        longs: made,
        sets,
        glsl: emit::glsl(m),
        notes: Notes::default(),
        replaced: FxHashMap::default(),
        pairs: FxHashMap::default(),
        taken: FxHashMap::default(),
        made: FxHashSet::default(),
    };
    pass.globals(m, &mut g);
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    pass.notes.gone.extend(pass.replaced.keys());
    pass.notes.apply(m);
    replace_uses(m, &pass.replaced);
    remove_unused(m, &pass.made);
    for r in declared {
        let name = if m.inst(r).operands.last() == Some(&Operand::Word(1)) { "s64" } else { "u64" };
        let software = Software::Arithmetic { narrow: name.to_owned(), wide: "pairs of 32-bit integers".to_owned() };
        cx.report.software.push(software);
        let result = m.inst(r).result;
        m.replace(r, Inst::new(Op::TypeVector, None, result, [uint.into(), 2.into()]));
    }
    unify_types(m);
    sort_globals(m);
    Ok(())
}

/// Returns true if a type is an integer of 64 bits.
fn is_long(m: &Module, ty: Id) -> bool {
    matches!(types::scalar(m, ty), Some(Scalar::Int { width: 64, .. }))
}

/// Refuses types and constants that can't become pairs.
fn check(m: &Module, made: &mut MadeOf<'_>, constants: &Constants) -> Result<(), Refusal> {
    let mut longs = |ty: Option<Id>| ty.is_some_and(|ty| made.any(m, ty));
    for r in m.globals.iter().copied() {
        let i = m.inst(r);
        for id in named_constants(m, i).filter(|id| longs(m.type_of(*id))) {
            let value = constants.get(id).fixed();
            if value.is_none() && m.def_inst(id).is_none_or(|c| c.op != Op::ConstantSizeOfEXT) {
                return Err(refusal(r, &format!("the constant {id} of 64 bits that {} names", i.op)));
            }
            if let Some(value) = value.filter(|v| u32::try_from(*v).is_err()) {
                let why = format!("{} names {value} ({id}), which does not fit into 32 bits", i.op);
                return Err(Refusal::new(
                    r,
                    why,
                    "give a smaller number there, or lower for a device with shaderInt64",
                ));
            }
        }
        let why = match Type::of_inst(i) {
            Some(Type::Pointer { storage: class @ (StorageClass::Input | StorageClass::Output), pointee })
                if longs(Some(pointee)) =>
            {
                format!("an integer of 64 bits in {class:?} memory")
            }
            _ if i.op.is_spec_literal() && longs(i.ty) => {
                let why = "a specialization constant of 64 bits would have another size than the pipeline states";
                return Err(Refusal::new(r, why, OF_PIPELINE));
            }
            _ if i.op == Op::SpecConstantOp && (longs(i.ty) || i.ids().any(|id| longs(m.type_of(id)))) => {
                "a specialization constant that is computed with 64 bits".to_owned()
            }
            _ => continue,
        };
        return Err(refusal(r, &why));
    }
    Ok(())
}

/// Returns the constants that a type, a decoration or an execution mode names: lengths, sizes and distances, which are words in the
/// output.
fn named_constants<'m>(m: &'m Module, i: &'m Inst) -> impl Iterator<Item = Id> + 'm {
    let names = i.op.is_type() || is_note(i.op) || i.op == Op::ExecutionModeId;
    let target = i.note_target();
    let constant = move |id: &Id| Some(*id) != target && m.def_inst(*id).is_some_and(|c| c.op.is_constant());
    i.ids().filter(move |id| names && constant(id))
}

fn refusal(r: InstRef, what: &str) -> Refusal {
    Refusal::new(r, format!("{what} has no lowering to pairs of 32-bit integers"), REMEDY)
}

/// Removes the vectors of results of which only the words are used.
fn remove_unused(m: &mut Module, made: &FxHashSet<Id>) {
    let used: FxHashSet<Id> = m.all().flat_map(|r| m.inst(r).ids().collect::<Vec<_>>()).collect();
    let unused =
        |m: &Module, r: &InstRef| m.inst(*r).result.is_some_and(|id| made.contains(&id) && !used.contains(&id));
    for f in 0..m.functions.len() {
        for n in 0..m.functions[f].blocks.len() {
            let insts = &m.functions[f].blocks[n].insts;
            let gone: Vec<InstRef> = insts.iter().copied().filter(|r| unused(m, r)).collect();
            if gone.is_empty() {
                continue;
            }
            gone.iter().for_each(|r| m.forget(*r));
            let gone: FxHashSet<InstRef> = gone.into_iter().collect();
            m.functions[f].blocks[n].insts.retain(|r| !gone.contains(r));
        }
    }
}

impl Long {
    /// Makes constants pairs, and those words that types and decorations name.
    fn globals(&mut self, m: &mut Module, g: &mut Globals) {
        for r in m.globals.clone() {
            let i = m.inst(r).clone();
            let (Some(id), true) = (i.result, i.ty.is_some_and(|ty| is_long(m, ty))) else { continue };
            let pair = match i.op {
                Op::Constant => {
                    let Some(value) = self.constants.get(id).fixed() else { continue };
                    Pair { low: g.u32(m, value as u32), high: g.u32(m, (value >> 32) as u32) }
                }
                // No descriptor is that large.
                Op::ConstantSizeOfEXT => {
                    let low = m.fresh_id();
                    add_global(m, Inst::new(i.op, Some(self.code.uint), Some(low), i.operands.iter().copied()));
                    Pair { low, high: g.u32(m, 0) }
                }
                _ => continue,
            };
            self.pairs.insert(id, pair);
            m.replace(r, Inst::new(Op::ConstantComposite, i.ty, i.result, [pair.low, pair.high].map(Operand::Id)));
        }
        for r in m.globals.clone() {
            let long = |id: &Id| m.type_of(*id).is_some_and(|ty| is_long(m, ty));
            for id in named_constants(m, m.inst(r)).filter(long).collect::<Vec<_>>() {
                let word = match (self.pairs.get(&id), self.constants.get(id).fixed()) {
                    (Some(pair), _) => pair.low,
                    (None, Some(value)) => g.u32(m, value as u32),
                    (None, None) => continue,
                };
                let target = m.inst(r).note_target();
                m.inst_mut(r).map_ids(|of| if of == id && Some(of) != target { word } else { of });
            }
        }
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        let m = &*b.module;
        let longs = &mut self.longs;
        if !i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| longs.any(m, ty))
            || self.sets.is_note(&i)
        {
            b.keep(r);
            return Ok(());
        }
        let long = i.ty.is_some_and(|ty| is_long(b.module, ty));
        let computed = match i.op {
            Op::Bitcast | Op::ConvertPtrToU | Op::ConvertUToPtr => return self.cast(b, r, &i),
            Op::Select => {
                self.select(b, r, &i);
                return Ok(());
            }
            op if op.is_conversion() && !op.is_saturating_conversion() => return self.conversion(b, r, &i),
            op if op.is_ext_inst() => self.extended(b, &i),
            op if op.is_access_chain() || op.moves_components() => {
                self.indices(b, r, &i, 1);
                return Ok(());
            }
            op if op.group_operation().is_some_and(moves_bits) => {
                self.indices(b, r, &i, 2);
                return Ok(());
            }
            op if keeps_values(op) => {
                b.keep(r);
                return Ok(());
            }
            Op::BitCount => {
                self.count_of_bits(b, &i);
                return Ok(());
            }
            op if op.group_operation().is_some() => op.group_operation().and_then(|of| self.reduction(b, &i, of)),
            _ if long => self.operation(b, &i),
            op if op.compares_integers() => {
                if let Some(result) = self.comparison(b, &i) {
                    self.replace(i.result, result);
                    return Ok(());
                }
                None
            }
            op if shift(op).is_some() => {
                self.indices(b, r, &i, 1);
                return Ok(());
            }
            _ => None,
        };
        let Some(pair) = computed else {
            if i.op.group_operation() == Some(GroupOp::IMul) {
                let why = format!("{} on integers of 64 bits has no lowering: products carry from word to word", i.op);
                return Err(Refusal::new(r, why, REMEDY));
            }
            if i.op.is_atomic() {
                let why = format!("{} on integers of 64 bits has no lowering: {NOT_AT_ONCE}", i.op);
                return Err(Refusal::new(r, why, REMEDY));
            }
            return Err(refusal(r, &format!("{} on integers of 64 bits", i.op)));
        };
        self.result(b, i.result, pair);
        Ok(())
    }

    /// Returns the words of a value.
    fn pair(&mut self, b: &mut FunctionBuilder<'_>, value: Id) -> Pair {
        if let Some(pair) = self.pairs.get(&value) {
            return *pair;
        }
        let here = b.block_id();
        if let Some((_, pair)) = self.taken.get(&value).filter(|(block, _)| *block == here) {
            return *pair;
        }
        let pair = self.code.parts(b, value);
        self.taken.insert(value, (here, pair));
        pair
    }

    /// Returns a number of another width, or the low word of one of 64 bits, as a word.
    fn word(&mut self, b: &mut FunctionBuilder<'_>, value: Id) -> Id {
        let ty = b.module.type_of(value);
        match ty.and_then(|ty| types::scalar(b.module, ty)) {
            Some(Scalar::Int { width: 64, .. }) => self.pair(b, value).low,
            Some(Scalar::Int { width: 8 | 16, .. }) => b.ids(Op::UConvert, self.code.uint, &[value]),
            _ => value,
        }
    }

    fn replace(&mut self, result: Option<Id>, value: Id) {
        let value = self.replaced.get(&value).copied().unwrap_or(value);
        self.replaced.extend(result.map(|id| (id, value)));
    }

    fn result(&mut self, b: &mut FunctionBuilder<'_>, result: Option<Id>, pair: Pair) {
        let Some(id) = result else { return };
        let vector = self.code.vector(b, pair);
        self.made.insert(vector);
        self.pairs.insert(id, pair);
        self.replaced.insert(id, vector);
    }

    /// Keeps an instruction, with the low words of its operands from the one at `first` on.
    fn indices(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst, first: usize) {
        for (n, o) in i.operands.iter().enumerate().skip(first) {
            let Some(id) = o.id().filter(|id| b.module.type_of(*id).is_some_and(|ty| is_long(b.module, ty))) else {
                continue;
            };
            let low = self.pair(b, id).low;
            b.module.inst_mut(r).operands[n] = low.into();
        }
        b.keep(r);
    }

    /// A number of bits takes one truth value, a vector one for each component.
    fn select(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) {
        if i.ty.is_some_and(|ty| is_long(b.module, ty))
            && let Some(condition) = i.ids().next()
        {
            let pair = b.globals.vector(b.module, self.code.bool, 2);
            let both = b.ids(Op::CompositeConstruct, pair, &[condition; 2]);
            b.module.inst_mut(r).operands[0] = both.into();
        }
        b.keep(r);
    }

    /// Casts, also of addresses.
    fn cast(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(value)) = (i.ty, i.ids().next()) else {
            b.keep(r);
            return Ok(());
        };
        let of = |m: &Module, ty: Option<Id>| ty.and_then(|ty| types::scalar_or_vector(m, ty));
        let is_pair = |shape: Option<(Scalar, u32)>| {
            let long = matches!(shape, Some((Scalar::Int { width: 64, .. }, 1)));
            long || shape == Some((Scalar::Int { width: 32, signed: false }, 2))
        };
        let from = b.module.type_of(value);
        if is_pair(of(b.module, from)) && is_pair(of(b.module, Some(ty))) {
            if let Some(pair) = self.pairs.get(&value).copied() {
                self.pairs.extend(i.result.map(|id| (id, pair)));
            }
            self.replace(i.result, value);
            return Ok(());
        }
        if i.op != Op::Bitcast && !(is_pair(of(b.module, from)) || is_pair(of(b.module, Some(ty)))) {
            return Err(refusal(r, &format!("{} of another type", i.op)));
        }
        b.module.inst_mut(r).op = Op::Bitcast;
        if i.result.into_iter().chain([value]).any(|id| types::storage_of(b.module, id).is_some()) {
            address_casts::require(b.module);
        }
        b.keep(r);
        Ok(())
    }

    fn conversion(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(value)) = (i.ty, i.converted()) else {
            b.keep(r);
            return Ok(());
        };
        let signed = !matches!(i.op, Op::UConvert | Op::ConvertUToF) && i.op != Op::ConvertFToU;
        let shape = |m: &Module, ty: Option<Id>| ty.and_then(|ty| types::scalar(m, ty));
        let (from, to) = (shape(b.module, b.module.type_of(value)), shape(b.module, Some(ty)));
        let uint = self.code.uint;
        let (from, to) = from.zip(to).ok_or_else(|| refusal(r, "a conversion of vectors of integers of 64 bits"))?;
        self.notes.plain.extend(i.result);
        let pair = match (from, to) {
            (Scalar::Int { width: 64, .. }, Scalar::Int { width: 32, signed }) => {
                let low = self.pair(b, value).low;
                let low = if signed { b.ids(Op::Bitcast, ty, &[low]) } else { low };
                self.replace(i.result, low);
                return Ok(());
            }
            (Scalar::Int { width: 64, .. }, Scalar::Int { width: 8 | 16, .. }) => {
                b.module.inst_mut(r).operands[0] = self.pair(b, value).low.into();
                b.keep(r);
                return Ok(());
            }
            (Scalar::Int { width: 64, .. }, s) if s.is_float() => {
                let pair = self.pair(b, value);
                let float = self.code.to_float(b, self.glsl, pair, signed, (ty, s));
                let float = float.ok_or_else(|| refusal(r, &format!("a conversion to {s}")))?;
                self.replace(i.result, float);
                return Ok(());
            }
            (Scalar::Int { width: 8 | 16 | 32, .. }, _) => {
                let op = if signed { Op::SConvert } else { Op::UConvert };
                let low = match from {
                    Scalar::Int { width: 32, signed: false } => value,
                    Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, uint, &[value]),
                    _ => b.ids(op, uint, &[value]),
                };
                let high = if signed { self.code.with(b, Op::ShiftRightArithmetic, low, 31) } else { b.u32(0) };
                Some(Pair { low, high })
            }
            (s, _) if s.is_float() => {
                let from = b.module.type_of(value).unwrap_or(ty);
                self.code.of_float(b, self.glsl, value, signed, (from, s))
            }
            _ => None,
        };
        let pair = pair.ok_or_else(|| refusal(r, &format!("a conversion from {from} to {to}")))?;
        self.result(b, i.result, pair);
        Ok(())
    }

    /// Computes a number from numbers.
    fn operation(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Option<Pair> {
        let ids: Vec<Id> = i.ids().collect();
        let x = self.pair(b, *ids.first()?);
        if let Some(shift) = shift(i.op) {
            let by = *ids.get(1)?;
            if let Some(by) = self.constants.get(by).fixed() {
                return Some(self.code.shift_by(b, shift, x, by as u32 % 64));
            }
            let by = self.word(b, by);
            return Some(self.code.shift(b, shift, x, by));
        }
        if i.op == Op::SNegate {
            return Some(self.code.negate(b, x));
        }
        if i.op == Op::BitReverse {
            return Some(self.code.reverse_bits(b, x));
        }
        if i.op.is_bit_field() {
            return self.bit_field(b, i.op, x, &ids);
        }
        let y = ids.get(1).copied().filter(|_| i.op.is_integer_arithmetic())?;
        let y = self.pair(b, y);
        Some(match i.op {
            Op::IAdd => self.code.add(b, x, y),
            Op::ISub => self.code.sub(b, x, y),
            Op::IMul => self.code.mul(b, x, y),
            Op::UDiv => self.code.divide(b, x, y)[0],
            Op::UMod => self.code.divide(b, x, y)[1],
            Op::SDiv => self.code.divide_signed(b, x, y)[0],
            Op::SRem => self.code.divide_signed(b, x, y)[1],
            Op::SMod => self.code.modulo(b, x, y),
            _ => return None,
        })
    }

    /// Takes a field of bits out of a number, or puts one into it.
    fn bit_field(&mut self, b: &mut FunctionBuilder<'_>, op: Op, x: Pair, ids: &[Id]) -> Option<Pair> {
        let (field, behind) = ids.split_last_chunk::<2>().map(|(others, field)| (*field, others.get(1).copied()))?;
        let field = field.map(|id| self.word(b, id));
        match (op, behind) {
            (Op::BitFieldInsert, Some(given)) => {
                let given = self.pair(b, given);
                Some(self.code.insert(b, x, given, field))
            }
            (Op::BitFieldUExtract, None) => Some(self.code.field(b, x, field, false)),
            (Op::BitFieldSExtract, None) => Some(self.code.field(b, x, field, true)),
            _ => None,
        }
    }

    /// Counts the bits of a number, for a result of any width.
    fn count_of_bits(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) {
        let (Some(ty), Some(value)) = (i.ty, i.ids().next()) else { return };
        let is_pair = b.module.type_of(value).is_some_and(|ty| is_long(b.module, ty));
        let count = match is_pair {
            true => {
                let x = self.pair(b, value);
                self.code.count_bits(b, x)
            }
            false => b.ids(i.op, self.code.uint, &[value]),
        };
        if is_long(b.module, ty) {
            let pair = Pair { low: count, high: b.u32(0) };
            return self.result(b, i.result, pair);
        }
        let count = match types::scalar(b.module, ty) {
            _ if ty == self.code.uint => count,
            Some(Scalar::Int { width: 32, .. }) => b.ids(Op::Bitcast, ty, &[count]),
            _ => b.ids(Op::UConvert, ty, &[count]),
        };
        self.replace(i.result, count);
    }

    /// Compares numbers.
    fn comparison(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Option<Id> {
        let mut ids = i.ids();
        let (x, y) = ids.next().zip(ids.next())?;
        let (x, y) = (self.pair(b, x), self.pair(b, y));
        let (order, swapped, not) = match i.op {
            Op::IEqual => return Some(self.code.equal(b, x, y)),
            Op::INotEqual => {
                let equal = self.code.equal(b, x, y);
                return Some(b.ids(Op::LogicalNot, self.code.bool, &[equal]));
            }
            Op::ULessThan => (Order::Unsigned, false, false),
            Op::UGreaterThan => (Order::Unsigned, true, false),
            Op::ULessThanEqual => (Order::Unsigned, true, true),
            Op::UGreaterThanEqual => (Order::Unsigned, false, true),
            Op::SLessThan => (Order::Signed, false, false),
            Op::SGreaterThan => (Order::Signed, true, false),
            Op::SLessThanEqual => (Order::Signed, true, true),
            Op::SGreaterThanEqual => (Order::Signed, false, true),
            _ => return None,
        };
        let (x, y) = if swapped { (y, x) } else { (x, y) };
        let less = self.code.less(b, order, x, y);
        Some(if not { b.ids(Op::LogicalNot, self.code.bool, &[less]) } else { less })
    }

    fn extended(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Option<Pair> {
        let number = i.ext_instruction().map(Glsl).filter(|_| self.sets.of(i) == ExtSet::Glsl)?;
        let pairs: Vec<Pair> = i.ids_from(2).map(|id| self.pair(b, id)).collect();
        let signed = matches!(number, Glsl::SAbs | Glsl::SSign | Glsl::SMin | Glsl::SMax | Glsl::SClamp);
        let order = if signed { Order::Signed } else { Order::Unsigned };
        let code = &self.code;
        let least = |b: &mut FunctionBuilder<'_>, x: Pair, y: Pair| {
            let less = code.less(b, order, y, x);
            code.select(b, less, y, x)
        };
        let greatest = |b: &mut FunctionBuilder<'_>, x: Pair, y: Pair| {
            let less = code.less(b, order, x, y);
            code.select(b, less, y, x)
        };
        Some(match (number, pairs.as_slice()) {
            (Glsl::FindILsb | Glsl::FindUMsb | Glsl::FindSMsb, [x]) => code.find(b, self.glsl, number, *x),
            (Glsl::SAbs, [x]) => code.magnitude(b, *x),
            (Glsl::SSign, [x]) => {
                let (zero, one) = (code.constant(b, 0), code.constant(b, 1));
                let is_zero = code.equal(b, *x, zero);
                let negative = code.is_negative(b, *x);
                let minus = code.constant(b, u64::MAX);
                let sign = code.select(b, negative, minus, one);
                code.select(b, is_zero, zero, sign)
            }
            (Glsl::SMin | Glsl::UMin, [x, y]) => least(b, *x, *y),
            (Glsl::SMax | Glsl::UMax, [x, y]) => greatest(b, *x, *y),
            (Glsl::SClamp | Glsl::UClamp, [x, low, high]) => {
                let x = greatest(b, *x, *low);
                least(b, x, *high)
            }
            _ => return None,
        })
    }
}

/// Returns the shift that an instruction is.
fn shift(op: Op) -> Option<Shift> {
    Some(match op {
        Op::ShiftLeftLogical => Shift::Left,
        Op::ShiftRightLogical => Shift::Logical,
        Op::ShiftRightArithmetic => Shift::Arithmetic,
        _ => return None,
    })
}

/// Returns true if a group operation moves values, or computes each bit by itself.
fn moves_bits(op: GroupOp) -> bool {
    !op.is_reduction() || matches!(op, GroupOp::And | GroupOp::Or | GroupOp::Xor)
}

/// Returns true if an instruction moves values, or computes each bit by itself.
fn keeps_values(op: Op) -> bool {
    let bits = matches!(op, Op::BitwiseAnd | Op::BitwiseOr) || matches!(op, Op::BitwiseXor | Op::Not);
    let whole = op.takes_any_type() || op.moves_whole_values() || op.is_composite() || op == Op::CopyLogical;
    bits || whole || op == Op::CopyMemory || op == Op::ArrayLength
}
