//! Splits the words of an instruction into operands by the grammar. Reader, printer and verifier share it.

use crate::grammar::{self, Enumerant, ExtInstInfo, Kind, Op, Operands, Quantifier};
use crate::module::{Id, Module};

/// The facts about earlier instructions that decoding needs.
pub trait Context {
    /// Returns the number of words of a literal of type `ty`, if it is known.
    fn literal_words(&self, ty: Id) -> Option<usize>;
    /// Returns the type of the value `id`.
    fn type_of(&self, id: Id) -> Option<Id>;
    /// Returns the extended instruction set imported as `id`.
    fn ext_inst_set(&self, id: Id) -> ExtSet;
}

/// The grammar of an imported extended instruction set.
#[derive(Clone, Copy, Debug)]
pub enum ExtSet {
    /// A set with a table.
    Table(&'static [ExtInstInfo]),
    /// A non-semantic set: all operands are ids, whatever the instruction (SPV_KHR_non_semantic_info).
    AllIds,
    /// A set without a known grammar.
    Unknown,
}

impl Context for Module {
    fn literal_words(&self, ty: Id) -> Option<usize> {
        let inst = self.def_inst(ty)?;
        match inst.op {
            Op::TypeInt | Op::TypeFloat => Some(if inst.word(0)? > 32 { 2 } else { 1 }),
            _ => None,
        }
    }

    fn type_of(&self, id: Id) -> Option<Id> {
        Module::type_of(self, id)
    }

    fn ext_inst_set(&self, id: Id) -> ExtSet {
        match self.def_inst(id).filter(|i| i.op == Op::ExtInstImport) {
            Some(import) => Import::of(import.operands.iter().map(|o| o.word())).set(),
            None => ExtSet::Unknown,
        }
    }
}

/// The properties of an import that follow from its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Import {
    /// The grammar of its instructions, if it is known.
    pub(crate) table: Option<&'static [ExtInstInfo]>,
    /// True if its instructions are not executed, and have ids as operands only.
    pub(crate) non_semantic: bool,
}

impl Import {
    /// Decodes the words of the name. A long name costs no more than a short one: this runs for each use of the set.
    pub(crate) fn of(words: impl Iterator<Item = u32>) -> Import {
        /// Longer than any known name, and than the known prefixes.
        const WORDS: usize = 16;
        let bytes = words.take(WORDS).flat_map(u32::to_le_bytes).take_while(|b| *b != 0);
        let bytes: smallvec::SmallVec<[u8; 4 * WORDS]> = bytes.collect();
        let name = String::from_utf8_lossy(&bytes);
        Import { table: grammar::ext_inst_set(&name), non_semantic: name.starts_with("NonSemantic.") }
    }

    fn set(self) -> ExtSet {
        match self.table {
            _ if self.non_semantic => ExtSet::AllIds,
            Some(table) => ExtSet::Table(table),
            None => ExtSet::Unknown,
        }
    }
}

/// One operand: `len` words from `start`, counted without result type and result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its kind.
    pub kind: Kind,
    /// Its first word.
    pub start: usize,
    /// The number of its words.
    pub len: usize,
    /// True if it is the id of something that is computed, a constant or a variable: not of a type, a function, a label.
    pub is_value: bool,
}

/// The end of decoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every word was understood.
    Complete,
    /// The words from this one on are beyond the grammar: an opcode, an enumerant or an instruction set is unknown.
    OpaqueFrom(usize),
    /// All operands are known, and the words from this one on belong to none.
    SurplusFrom(usize),
    /// The instruction ends where an operand of this kind must be.
    Missing(Kind),
    /// A literal string has no terminating zero.
    OpenString,
}

/// Calls `emit` for each operand of an instruction. `words` are those after result type `ty` and result.
pub fn decode<C: Context + ?Sized>(
    cx: &C,
    op: Op,
    ty: Option<Id>,
    words: &[u32],
    emit: &mut dyn FnMut(Piece),
) -> Ending {
    let Some(info) = op.info() else { return Ending::OpaqueFrom(0) };
    let (has_ty, has_result) = op.has_type_and_result();
    let shape = &info.operands[usize::from(has_ty) + usize::from(has_result)..];
    let mut d = Decoder { cx, words, at: 0, not_values: op.not_values(), first: 0, named: false, emit };
    let ending = match op {
        Op::Constant | Op::SpecConstant => d.number(ty),
        Op::Switch => d.switch(),
        Op::ExtInst | Op::ExtInstWithForwardRefsKHR => d.ext_inst(),
        Op::SpecConstantOp => d.spec_constant_op(),
        _ => d.shape(shape),
    };
    match ending {
        Ending::Complete if d.at < words.len() => Ending::SurplusFrom(d.at),
        other => other,
    }
}

/// Returns true if an operand is one of those for which bits are set, the last of them for all that follow.
#[inline]
pub(crate) fn is_in(bits: u16, operand: usize) -> bool {
    bits >> operand.min(15) & 1 != 0
}

struct Decoder<'a, C: ?Sized> {
    cx: &'a C,
    words: &'a [u32],
    at: usize,
    /// The operands that are not values, counted from `first`.
    not_values: u16,
    first: usize,
    /// True in the parameters of an enumerant that are not values.
    named: bool,
    emit: &'a mut dyn FnMut(Piece),
}

impl<C: Context + ?Sized> Decoder<'_, C> {
    fn take(&mut self, kind: Kind, len: usize) -> Ending {
        if self.at + len > self.words.len() {
            return Ending::Missing(kind);
        }
        let named = self.named || is_in(self.not_values, self.at.saturating_sub(self.first));
        (self.emit)(Piece { kind, start: self.at, len, is_value: kind.is_id() && !named });
        self.at += len;
        Ending::Complete
    }

    fn shape(&mut self, shape: Operands) -> Ending {
        for &(kind, quantifier) in shape {
            loop {
                if self.at >= self.words.len() {
                    if quantifier == Quantifier::One {
                        return Ending::Missing(kind);
                    }
                    break;
                }
                match self.operand(kind) {
                    Ending::Complete => {}
                    other => return other,
                }
                if quantifier != Quantifier::Repeated {
                    break;
                }
            }
        }
        Ending::Complete
    }

    fn operand(&mut self, kind: Kind) -> Ending {
        match kind {
            Kind::PairLiteralIntegerIdRef => self.pair(Kind::LiteralInteger, Kind::IdRef),
            Kind::PairIdRefLiteralInteger => self.pair(Kind::IdRef, Kind::LiteralInteger),
            Kind::PairIdRefIdRef => self.pair(Kind::IdRef, Kind::IdRef),
            Kind::LiteralString => {
                let last = self.words[self.at..].iter().position(|w| w.to_le_bytes().contains(&0));
                last.map_or(Ending::OpenString, |last| self.take(kind, last + 1))
            }
            _ if kind.enumerants().is_some() => self.enumerant(kind),
            _ => self.take(kind, 1),
        }
    }

    fn pair(&mut self, first: Kind, second: Kind) -> Ending {
        match self.take(first, 1) {
            Ending::Complete => self.take(second, 1),
            other => other,
        }
    }

    fn enumerant(&mut self, kind: Kind) -> Ending {
        let value = self.words[self.at];
        if !kind.is_mask() {
            let known = kind.enumerant(value);
            let ending = self.take(kind, 1);
            return match (known, ending) {
                (Some(e), Ending::Complete) => self.params(e),
                // The number of parameters is not known, so nothing after this word is.
                (None, Ending::Complete) if self.at < self.words.len() => Ending::OpaqueFrom(self.at),
                (_, ending) => ending,
            };
        }
        let ending = self.take(kind, 1);
        if ending != Ending::Complete {
            return ending;
        }
        let mut rest = value;
        while rest != 0 {
            let bit = rest & rest.wrapping_neg();
            rest ^= bit;
            match kind.enumerant(bit) {
                Some(e) if e.params.is_empty() => {}
                Some(e) => match self.params(e) {
                    Ending::Complete => {}
                    other => return other,
                },
                None if self.at < self.words.len() => return Ending::OpaqueFrom(self.at),
                None => {}
            }
        }
        Ending::Complete
    }

    fn params(&mut self, enumerant: &Enumerant) -> Ending {
        let outer = std::mem::replace(&mut self.named, enumerant.not_values);
        let ending = self.shape(enumerant.params);
        self.named = outer;
        ending
    }

    fn number(&mut self, ty: Option<Id>) -> Ending {
        let rest = self.words.len() - self.at;
        let len = ty.and_then(|t| self.cx.literal_words(t)).unwrap_or(rest);
        if len == 0 {
            return Ending::Missing(Kind::LiteralContextDependentNumber);
        }
        self.take(Kind::LiteralContextDependentNumber, len)
    }

    fn switch(&mut self) -> Ending {
        let selector = self.words.first().copied().and_then(Id::new);
        for _ in 0..2 {
            match self.take(Kind::IdRef, 1) {
                Ending::Complete => {}
                other => return other,
            }
        }
        let ty = selector.and_then(|s| self.cx.type_of(s));
        let literal = ty.and_then(|t| self.cx.literal_words(t)).unwrap_or(1);
        while self.at < self.words.len() {
            match self.take(Kind::LiteralContextDependentNumber, literal) {
                Ending::Complete => {}
                other => return other,
            }
            match self.take(Kind::IdRef, 1) {
                Ending::Complete => {}
                other => return other,
            }
        }
        Ending::Complete
    }

    fn ext_inst(&mut self) -> Ending {
        let set = self.words.first().copied().and_then(Id::new);
        match self.take(Kind::IdRef, 1) {
            Ending::Complete => {}
            other => return other,
        }
        let number = self.words.get(self.at).copied();
        match self.take(Kind::LiteralExtInstInteger, 1) {
            Ending::Complete => {}
            other => return other,
        }
        match set.map_or(ExtSet::Unknown, |s| self.cx.ext_inst_set(s)) {
            ExtSet::AllIds => {
                self.named = true;
                self.shape(&[(Kind::IdRef, Quantifier::Repeated)])
            }
            ExtSet::Table(table) => {
                let row = table.binary_search_by_key(&number.unwrap_or(u32::MAX), |r| r.number);
                match row {
                    Ok(i) => self.shape(table[i].operands),
                    Err(_) if self.at < self.words.len() => Ending::OpaqueFrom(self.at),
                    Err(_) => Ending::Complete,
                }
            }
            ExtSet::Unknown if self.at < self.words.len() => Ending::OpaqueFrom(self.at),
            ExtSet::Unknown => Ending::Complete,
        }
    }

    fn spec_constant_op(&mut self) -> Ending {
        let inner = self.words.first().copied();
        match self.take(Kind::LiteralSpecConstantOpInteger, 1) {
            Ending::Complete => {}
            other => return other,
        }
        let info = inner.and_then(|w| u16::try_from(w).ok()).and_then(|w| Op(w).info());
        let Some(info) = info else { return Ending::OpaqueFrom(self.at) };
        let (ty, result) = info.op.has_type_and_result();
        (self.not_values, self.first) = (info.op.not_values(), self.at);
        self.shape(&info.operands[usize::from(ty) + usize::from(result)..])
    }
}
