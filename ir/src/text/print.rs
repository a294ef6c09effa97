//! Prints a module as text.

use super::names::Names;
use super::number::{Number, push_u64};
use super::{GENERATORS, no_bits};
use crate::decode::{Context, Ending, ExtSet, Import, Piece, decode};
use crate::grammar::{Kind, Op};
use crate::module::{Header, Id, Inst, InstRef, Module, Operand, string_bytes};
use std::fmt::Write as _;
use std::ops::Range;

/// The column of opcodes when results are aligned.
const COLUMN: usize = 15;

/// The options of printing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// Print names instead of numbers of ids: see [`Names::friendly`].
    pub friendly_names: bool,
    /// Start with comments for the header's words.
    pub header: bool,
    /// Align the opcodes.
    pub indent: bool,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { friendly_names: true, header: true, indent: true }
    }
}

/// A printed module.
#[derive(Debug, Default)]
pub struct Printed {
    /// The text, one instruction a line (more lines where a string has line breaks).
    pub text: String,
    /// By arena index; of an excerpt, in the order of its lines.
    insts: Vec<InstPlace>,
    /// Of an excerpt, its instructions with their places in `insts`, ascending.
    some: Option<Vec<(InstRef, u32)>>,
    pieces: Vec<PiecePlace>,
}

/// The position of an instruction. `line` is 0 for those that are in no list of the module.
#[derive(Clone, Copy, Debug, Default)]
struct InstPlace {
    start: usize,
    len: u32,
    line: u32,
    first_piece: u32,
    pieces: u32,
    operands: u32,
    has_result: bool,
    has_type: bool,
}

/// A token, and the first of the operand words that it prints.
#[derive(Clone, Copy, Debug)]
struct PiecePlace {
    /// From the start of the instruction.
    offset: u32,
    word: u32,
}

impl Printed {
    fn place(&self, r: InstRef) -> Option<&InstPlace> {
        let index = match &self.some {
            None => r.index(),
            Some(some) => some[some.binary_search_by_key(&r, |s| s.0).ok()?].1 as usize,
        };
        self.insts.get(index).filter(|p| p.line != 0)
    }

    /// Returns the start of each instruction's line in an excerpt, and its line number, in order. The header's lines
    /// come before the first; omitted lines have no text.
    pub fn line_starts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        // Spaces stand before the instruction.
        let begin = |at: usize| self.text[..at].rfind('\n').map_or(0, |n| n + 1);
        let places = if self.some.is_some() { &self.insts[..] } else { &[] };
        places.iter().map(move |p| (begin(p.start), p.line as usize))
    }

    /// Returns the span of the instruction from its result (or opcode) to its last operand.
    pub fn span(&self, r: InstRef) -> Option<Range<usize>> {
        self.place(r).map(|p| p.start..p.start + p.len as usize)
    }

    /// Returns the span of the result with its `%`.
    pub fn result_span(&self, r: InstRef) -> Option<Range<usize>> {
        let p = self.place(r).filter(|p| p.has_result)?;
        Some(self.token(p.start))
    }

    /// Returns the span of the result type with its `%`.
    pub fn type_span(&self, r: InstRef) -> Option<Range<usize>> {
        let p = self.place(r).filter(|p| p.has_type)?;
        let before = if p.has_result { self.token(p.start).end + " = ".len() } else { p.start };
        Some(self.token(self.token(before).end + 1))
    }

    /// Returns the span of the operand that `index` of [`Inst::operands`] is a word of.
    pub fn operand_span(&self, r: InstRef, index: usize) -> Option<Range<usize>> {
        let p = self.place(r).filter(|p| index < p.operands as usize)?;
        let pieces = self.pieces.get(p.first_piece as usize..)?.get(..p.pieces as usize)?;
        let after = pieces.partition_point(|piece| piece.word as usize <= index);
        let piece = pieces.get(after.checked_sub(1)?)?;
        Some(self.token(p.start + piece.offset as usize))
    }

    /// Returns the line on which the instruction begins; the first line is 1.
    pub fn line(&self, r: InstRef) -> Option<usize> {
        self.place(r).map(|p| p.line as usize)
    }

    /// Returns the token that begins at `start`.
    fn token(&self, start: usize) -> Range<usize> {
        let rest = &self.text.as_bytes()[start..];
        let len = if rest.first() == Some(&b'"') {
            let mut escaped = false;
            let inside = rest[1..].iter().position(|b| {
                let end = *b == b'"' && !escaped;
                escaped = *b == b'\\' && !escaped;
                end
            });
            inside.map_or(rest.len(), |n| n + 2)
        } else {
            rest.iter().position(|b| matches!(b, b' ' | b'\n')).unwrap_or(rest.len())
        };
        start..start + len
    }
}

/// Prints a module.
pub fn print(module: &Module, options: &PrintOptions) -> Printed {
    let names = if options.friendly_names { Names::friendly(module) } else { Names::numeric() };
    print_with(module, &names, options)
}

/// Prints a module with these names; [`PrintOptions::friendly_names`] is ignored.
pub fn print_with(module: &Module, names: &Names, options: &PrintOptions) -> Printed {
    let mut p = Printer::new(module, names);
    p.out.reserve(module.arena_len() * 48);
    p.places.reserve(module.arena_len() * 3);
    let mut insts = vec![InstPlace::default(); module.arena_len()];
    p.begin(options);
    for r in module.all() {
        insts[r.index()] = p.line(r, options);
    }
    Printed { text: p.out, insts, some: None, pieces: p.places }
}

/// Prints some instructions of a module, and those on the lines before and behind each: like [`print()`], with the same
/// names and line numbers, but without the other lines.
pub fn print_some(module: &Module, options: &PrintOptions, some: impl IntoIterator<Item = InstRef>) -> Printed {
    let names = if options.friendly_names { Names::friendly(module) } else { Names::numeric() };
    let mut order = Vec::with_capacity(module.arena_len());
    module.all().for_each(|r| order.push(r));
    let mut asked = vec![false; module.arena_len()];
    some.into_iter().for_each(|r| asked[r.index()] = true);
    let is = |i: usize| order.get(i).is_some_and(|r| asked[r.index()]);

    let mut p = Printer::new(module, &names);
    let (mut insts, mut places) = (Vec::new(), Vec::new());
    p.begin(options);
    for (i, &r) in order.iter().enumerate() {
        if is(i) || is(i + 1) || i > 0 && is(i - 1) {
            places.push((r, insts.len() as u32));
            insts.push(p.line(r, options));
        } else {
            p.skip(r);
        }
    }
    places.sort_unstable();
    Printed { text: p.out, insts, some: Some(places), pieces: p.places }
}

/// Prints one instruction, not aligned and without line end.
pub fn inst_text(module: &Module, names: &Names, r: InstRef) -> String {
    let mut p = Printer::new(module, names);
    p.inst(module.inst(r), false);
    p.out
}

/// Prints the comments from which the parser takes the header's words.
fn header(h: &Header, out: &mut String) {
    out.push_str("; SPIR-V\n; Version: ");
    let (major, minor) = h.version_pair();
    if h.version == u32::from_be_bytes([0, major, minor, 0]) {
        let _ = writeln!(out, "{major}.{minor}");
    } else {
        let _ = writeln!(out, "{:#010x}", h.version);
    }
    let tool = h.generator >> 16;
    out.push_str("; Generator: ");
    match GENERATORS.get(tool as usize) {
        Some(name) => out.push_str(name),
        None => {
            let _ = write!(out, "Unknown({tool})");
        }
    }
    let _ = writeln!(out, "; {}\n; Bound: {}\n; Schema: {}", h.generator & 0xffff, h.bound, h.schema);
}

struct Printer<'a> {
    module: &'a Module,
    names: &'a Names,
    out: String,
    places: Vec<PiecePlace>,
    /// The number of the next line.
    line: u32,
    line_breaks: u32,
    /// The instructions above that line: a bit for each, by arena index.
    above: Vec<u64>,
    /// The operands of the current instruction as words and as pieces; kept to reuse the allocation.
    words: Vec<u32>,
    pieces: Vec<Piece>,
}

/// The definitions that a reader of the text knows here: those further up.
struct SoFar<'a> {
    module: &'a Module,
    /// `None`: all definitions count.
    above: Option<&'a [u64]>,
}

impl<'a> SoFar<'a> {
    fn def(&self, id: Id) -> Option<&'a Inst> {
        let r = self.module.def(id)?;
        let bit = |above: &[u64]| above.get(r.index() / 64).is_some_and(|w| w >> (r.index() % 64) & 1 == 1);
        let seen = self.above.is_none_or(bit);
        seen.then(|| self.module.inst(r))
    }

    fn number(&self, ty: Id) -> Option<Number> {
        Number::of_type(self.def(ty)?)
    }
}

impl Context for SoFar<'_> {
    fn literal_words(&self, ty: Id) -> Option<usize> {
        self.def(ty).and_then(|_| self.module.literal_words(ty))
    }

    fn type_of(&self, id: Id) -> Option<Id> {
        self.def(id)?.ty
    }

    fn ext_inst_set(&self, id: Id) -> ExtSet {
        self.def(id).map_or(ExtSet::Unknown, |_| self.module.ext_inst_set(id))
    }
}

impl<'a> Printer<'a> {
    fn new(module: &'a Module, names: &'a Names) -> Printer<'a> {
        Printer {
            module,
            names,
            out: String::new(),
            places: Vec::new(),
            line: 1,
            line_breaks: 0,
            above: Vec::new(),
            words: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Prints the header, if it is enabled.
    fn begin(&mut self, options: &PrintOptions) {
        self.above = vec![0; self.module.arena_len().div_ceil(64)];
        if options.header {
            header(&self.module.header, &mut self.out);
            self.line += 5;
        }
    }

    /// Appends an instruction with its line end.
    fn line(&mut self, r: InstRef, options: &PrintOptions) -> InstPlace {
        let inst = self.module.inst(r);
        if options.indent {
            self.indent(inst);
        }
        let start = self.out.len();
        let first_piece = self.places.len();
        let unknown = !self.inst(inst, true);
        let place = InstPlace {
            start,
            len: (self.out.len() - start) as u32,
            line: self.line,
            first_piece: first_piece as u32,
            pieces: (self.places.len() - first_piece) as u32,
            operands: inst.operands.len() as u32,
            has_result: inst.result.is_some() && !unknown,
            has_type: inst.ty.is_some() && !unknown,
        };
        self.out.push('\n');
        self.end_line(r);
        place
    }

    fn end_line(&mut self, r: InstRef) {
        self.above[r.index() / 64] |= 1 << (r.index() % 64);
        self.line += 1 + self.line_breaks;
        self.line_breaks = 0;
    }

    /// Counts the lines of an instruction without keeping them.
    fn skip(&mut self, r: InstRef) {
        let inst = self.module.inst(r);
        // Only strings contain line breaks.
        let may_break = |o: &Operand| o.id().is_none() && o.word().to_le_bytes().contains(&b'\n');
        if inst.operands.iter().any(may_break) && inst.op.plain_operands(inst.operands.len()).is_none() {
            let (text, pieces) = (self.out.len(), self.places.len());
            self.inst(inst, true);
            self.out.truncate(text);
            self.places.truncate(pieces);
        }
        self.end_line(r);
    }

    /// Adds spaces, so that `=` and opcodes are aligned.
    fn indent(&mut self, inst: &Inst) {
        const SPACES: &str = "               ";
        let taken = match inst.result.filter(|_| inst.op.info().is_some()) {
            None => 0,
            Some(id) => {
                let name = match self.names.name(id) {
                    Some(name) => name.len(),
                    None => id.get().ilog10() as usize + 1,
                };
                "%".len() + name + " = ".len()
            }
        };
        self.out.push_str(&SPACES[..COLUMN.saturating_sub(taken)]);
    }

    /// Appends one instruction. Returns `false` if it was printed as words altogether.
    fn inst(&mut self, inst: &Inst, in_order: bool) -> bool {
        let start = self.out.len();
        self.words.clear();
        self.words.extend(inst.operands.iter().map(|o| o.word()));
        self.pieces.clear();
        let cx = SoFar { module: self.module, above: in_order.then_some(&self.above) };
        let pieces = &mut self.pieces;
        let ending = decode(&cx, inst.op, inst.ty, &self.words, &mut |p| pieces.push(p));
        let known = self.pieces.last().map_or(0, |p| p.start + p.len);
        let complete = ending == Ending::Complete && known == self.words.len();
        // A word beyond the last known operand must follow a `!` word, else it would be read as the beginning of an
        // instruction; an id can't be that word without giving up its name.
        let last = self.pieces.last().map(|p| inst.operands[p.start]);
        let Some(name) = inst.op.name().filter(|_| complete || matches!(last, Some(Operand::Word(_)))) else {
            self.all_words(inst);
            return false;
        };
        let plain = self.pieces.len() - usize::from(!complete);

        if let Some(id) = inst.result {
            self.names.push(id, &mut self.out);
            self.out.push_str(" = ");
        }
        self.out.push_str("Op");
        self.out.push_str(name);
        if let Some(ty) = inst.ty {
            self.out.push(' ');
            self.names.push(ty, &mut self.out);
        }
        let mut raw_from = None;
        for i in 0..plain {
            let piece = self.pieces[i];
            let mark = self.out.len();
            self.out.push(' ');
            if !self.piece(inst, piece, in_order) {
                self.out.truncate(mark);
                raw_from = Some(piece.start);
                break;
            }
            self.places.push(PiecePlace { offset: (mark + 1 - start) as u32, word: piece.start as u32 });
        }
        if !complete && raw_from.is_none() {
            raw_from = self.pieces.last().map(|p| p.start);
        }
        for i in raw_from.unwrap_or(self.words.len())..self.words.len() {
            self.raw(inst.operands[i], i, start);
        }
        true
    }

    /// Appends one operand; returns `false` (with anything appended) if it would not parse to the same words.
    fn piece(&mut self, inst: &Inst, piece: Piece, in_order: bool) -> bool {
        let operand = inst.operands[piece.start];
        let word = operand.word();
        match (operand, piece.kind.is_id()) {
            (Operand::Id(id), true) => {
                self.names.push(id, &mut self.out);
                return true;
            }
            (Operand::Word(_), false) => {}
            _ => return false,
        }
        match piece.kind {
            Kind::LiteralString => self.string(piece),
            Kind::LiteralContextDependentNumber => {
                let cx = SoFar { module: self.module, above: in_order.then_some(&self.above) };
                let ty = match inst.op {
                    Op::Switch => inst.id(0).and_then(|id| cx.type_of(id)),
                    Op::Constant | Op::SpecConstant => inst.ty,
                    _ => None,
                };
                let number = ty.and_then(|ty| cx.number(ty));
                number.is_some_and(|n| n.print(&self.words[piece.start..piece.start + piece.len], &mut self.out))
            }
            Kind::LiteralExtInstInteger => {
                let cx = SoFar { module: self.module, above: in_order.then_some(&self.above) };
                match inst.id(0).map_or(ExtName::Number, |set| ext_inst_name(&cx, set, word)) {
                    ExtName::Known(name) => self.out.push_str(name),
                    ExtName::Number => push_u64(&mut self.out, u64::from(word)),
                    ExtName::Missing => return false,
                }
                true
            }
            Kind::LiteralSpecConstantOpInteger => match u16::try_from(word).ok().and_then(|w| Op(w).name()) {
                Some(name) => {
                    self.out.push_str(name);
                    true
                }
                None => false,
            },
            Kind::LiteralInteger => {
                push_u64(&mut self.out, u64::from(word));
                true
            }
            Kind::LiteralFloat => Number::of_float(32, None).is_some_and(|n| n.print(&[word], &mut self.out)),
            kind if kind.is_mask() => self.mask(kind, word),
            kind => match kind.enumerant(word) {
                Some(e) => {
                    self.out.push_str(e.name);
                    true
                }
                None => false,
            },
        }
    }

    fn mask(&mut self, kind: Kind, word: u32) -> bool {
        if word == 0 {
            return no_bits(kind).map(|name| self.out.push_str(name)).is_some();
        }
        let mut rest = word;
        while rest != 0 {
            let bit = rest & rest.wrapping_neg();
            rest ^= bit;
            let Some(e) = kind.enumerant(bit) else { return false };
            self.out.push_str(e.name);
            if rest != 0 {
                self.out.push('|');
            }
        }
        true
    }

    /// Appends a string in quotes, if it is text with the words that a writer would give it.
    fn string(&mut self, piece: Piece) -> bool {
        let words = &self.words[piece.start..piece.start + piece.len];
        let Some((bytes, _)) = string_bytes(words.iter().copied()) else { return false };
        let padding = words.last().map_or(0, |w| w >> (8 * (bytes.len() as u32 % 4)));
        let Some(text) = std::str::from_utf8(&bytes).ok().filter(|_| padding == 0) else { return false };
        self.out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                self.out.push('\\');
            }
            self.line_breaks += u32::from(c == '\n');
            self.out.push(c);
        }
        self.out.push('"');
        true
    }

    /// Appends ` %12` or ` !0x0000000c`.
    fn raw(&mut self, operand: Operand, word: usize, start: usize) {
        self.out.push(' ');
        self.places.push(PiecePlace { offset: (self.out.len() - start) as u32, word: word as u32 });
        match operand {
            Operand::Id(id) => {
                self.names.push(id, &mut self.out);
            }
            Operand::Word(word) => {
                self.out.push_str("!0x");
                for nibble in (0..8).rev() {
                    let digit = char::from_digit(word >> (4 * nibble) & 15, 16);
                    self.out.push(digit.unwrap_or_else(|| unreachable!("four bits")));
                }
            }
        }
    }

    /// Appends `OpUnknown(5, 3) %1 !0x00000002`: the word count delimits the instruction.
    fn all_words(&mut self, inst: &Inst) {
        let start = self.out.len();
        let _ = write!(self.out, "OpUnknown({}, {})", inst.op.0, inst.word_count());
        for id in inst.ty.iter().chain(&inst.result) {
            self.out.push(' ');
            self.names.push(*id, &mut self.out);
        }
        for (i, o) in inst.operands.iter().enumerate() {
            self.raw(*o, i, start);
        }
    }
}

/// The form of an extended instruction's name.
enum ExtName {
    Known(&'static str),
    /// The set has no table, or is non-semantic: those get new instructions without a new name.
    Number,
    /// The set has a table without the number.
    Missing,
}

fn ext_inst_name(cx: &SoFar<'_>, set: Id, number: u32) -> ExtName {
    let Some(import) = cx.def(set).filter(|i| i.op == Op::ExtInstImport) else { return ExtName::Number };
    let import = Import::of(import.operands.iter().map(|o| o.word()));
    let Some(table) = import.table else { return ExtName::Number };
    match table.binary_search_by_key(&number, |row| row.number) {
        Ok(i) => ExtName::Known(table[i].name),
        Err(_) if import.non_semantic => ExtName::Number,
        Err(_) => ExtName::Missing,
    }
}
