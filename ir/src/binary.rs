//! Reads and writes binary modules.
//!
//! [`read`] accepts either byte order and [`write()`] returns the bytes that were read, header included. Anything
//! beyond the grammar is kept: an unknown opcode, an enumerant or surplus words make an instruction [`Inst::opaque`],
//! not an error. Only what no consumer could interpret is an error.

use crate::decode::{Context, Ending, Piece, decode};
use crate::grammar::Op;
use crate::module::{Block, Function, Header, Id, Inst, InstList, InstRef, Module, Operand, OperandList};
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

/// The first word of a module.
pub const MAGIC: u32 = 0x0723_0203;

/// The number of words in front of the first instruction.
const HEADER_WORDS: usize = 5;

/// A larger bound in a header is wrong: no module needs as many ids.
pub const MAX_BOUND: u32 = 1 << 28;

/// An error in the bytes of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// Offset from the start of the file, in words.
    pub word: usize,
    /// The instruction that could not be read, if its opcode was.
    pub op: Option<Op>,
    /// The message: lower case, no final period.
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Some(op) => write!(f, "word {}: {op}: {}", self.word, self.message),
            None => write!(f, "word {}: {}", self.word, self.message),
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns true if bytes begin as a SPIR-V binary does, in either byte order.
pub fn is_binary(bytes: &[u8]) -> bool {
    matches!(bytes.first_chunk::<4>(), Some(m) if *m == MAGIC.to_le_bytes() || *m == MAGIC.to_be_bytes())
}

/// An instruction as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub struct RawInst<'a> {
    /// The opcode.
    pub op: Op,
    /// Its words, including the first one.
    bytes: &'a [u8],
    big_endian: bool,
}

impl RawInst<'_> {
    /// Returns word `index`, the first being the one with opcode and length.
    pub fn word(&self, index: usize) -> Option<u32> {
        word(self.bytes, index, self.big_endian)
    }
}

fn word(bytes: &[u8], index: usize, big_endian: bool) -> Option<u32> {
    let b = *bytes.get(index * 4..index * 4 + 4)?.first_chunk::<4>()?;
    Some(if big_endian { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
}

/// Returns the instructions in a module's bytes without reading the module. The last item is an error if the words are
/// not a list of instructions; there are no items if the bytes are not a module.
pub fn instructions(bytes: &[u8]) -> impl Iterator<Item = Result<RawInst<'_>, ReadError>> + '_ {
    let big_endian = bytes.first_chunk::<4>() == Some(&MAGIC.to_be_bytes());
    let count = if is_binary(bytes) && bytes.len().is_multiple_of(4) { bytes.len() / 4 } else { 0 };
    let mut lie = word(bytes, 3, big_endian).filter(|_| count > 3).and_then(|bound| plausible(bound).err());
    let mut at = HEADER_WORDS;
    std::iter::from_fn(move || {
        if let Some(lie) = lie.take() {
            at = count;
            return Some(Err(lie));
        }
        let first = word(bytes, at, big_endian).filter(|_| at < count)?;
        let (op, len) = (Op(first as u16), (first >> 16) as usize);
        let position = at;
        at = if len == 0 { count } else { at + len };
        match bytes.get(position * 4..(position + len) * 4) {
            Some(bytes) if len > 0 => Some(Ok(RawInst { op, bytes, big_endian })),
            _ => {
                at = count;
                let message = format!("{len} words, of which {} are there", count - position);
                Some(Err(ReadError { word: position, op: Some(op), message }))
            }
        }
    })
}

/// Returns an error if a header's bound is one that no module can have.
fn plausible(bound: u32) -> Result<(), ReadError> {
    if bound > MAX_BOUND {
        let message = format!("the id bound {bound} is larger than any module's");
        return Err(ReadError { word: 3, op: None, message });
    }
    Ok(())
}

/// Reads a module from the bytes of a file.
pub fn read(bytes: &[u8]) -> Result<Module, ReadError> {
    let fail = |word, message: String| Err(ReadError { word, op: None, message });
    let Some(magic) = bytes.first_chunk::<4>() else {
        return fail(0, format!("a module has at least 20 bytes; this has {}", bytes.len()));
    };
    let big_endian = *magic == MAGIC.to_be_bytes();
    if !big_endian && *magic != MAGIC.to_le_bytes() {
        let [a, b, c, d] = *magic;
        return fail(
            0,
            format!("not SPIR-V: the first bytes are {a:02x} {b:02x} {c:02x} {d:02x}, not the magic number"),
        );
    }
    if !bytes.len().is_multiple_of(4) {
        return fail(bytes.len() / 4, format!("the size, {} bytes, is not a multiple of 4", bytes.len()));
    }
    let (chunks, _) = bytes.as_chunks::<4>();
    let words: Vec<u32> = match big_endian {
        true => chunks.iter().map(|c| u32::from_be_bytes(*c)).collect(),
        false => chunks.iter().map(|c| u32::from_le_bytes(*c)).collect(),
    };
    Reader::new(&words, big_endian)?.run()
}

/// Reads a module from words in this machine's byte order.
pub fn read_words(words: &[u32]) -> Result<Module, ReadError> {
    match words.first() {
        Some(&MAGIC) => Reader::new(words, false)?.run(),
        _ => Err(ReadError { word: 0, op: None, message: "not SPIR-V: no magic number".into() }),
    }
}

/// Returns the words of a module.
pub fn write_words(module: &Module) -> Vec<u32> {
    let h = &module.header;
    let mut out = Vec::with_capacity(word_count(module));
    out.extend([MAGIC, h.version, h.generator, h.bound, h.schema]);
    module.all().for_each(|r| {
        let i = module.inst(r);
        // The length is a 16-bit field; `verify` rejects an instruction that a pass made too long.
        out.push(((i.word_count() as u32) << 16) | u32::from(i.op.0));
        out.extend(i.ty.map(Id::get));
        out.extend(i.result.map(Id::get));
        out.extend(i.operands.iter().map(|o| o.word()));
    });
    debug_assert_eq!(out.len(), word_count(module));
    out
}

/// Returns the number of words that [`write_words`] gives.
pub fn word_count(module: &Module) -> usize {
    HEADER_WORDS + module.all().map(|r| module.inst(r).word_count()).sum::<usize>()
}

/// Returns the bytes of a module, in the byte order in which it was read.
pub fn write(module: &Module) -> Vec<u8> {
    let words = write_words(module);
    let mut out = Vec::with_capacity(words.len() * 4);
    for w in words {
        out.extend(if module.header.big_endian { w.to_be_bytes() } else { w.to_le_bytes() });
    }
    out
}

/// The position of the reader in a module: in a function, that is the module's last one, and in a block, its last one.
#[derive(Clone, Copy)]
enum Position {
    Outside,
    /// Behind the first instruction of a graph (SPV_ARM_graph).
    Graphs,
    /// After `OpFunction`, before the first label.
    Head,
    Block,
    /// After a terminator.
    Between,
}

struct Reader<'a> {
    words: &'a [u32],
    at: usize,
    module: Module,
    position: Position,
    /// Instructions whose owner depends on the next one: most are source positions.
    pending: Vec<InstRef>,
    /// The instructions of the current block, except the last: a list of the right size is made when all are known.
    body: Vec<InstRef>,
}

impl<'a> Reader<'a> {
    fn new(words: &'a [u32], big_endian: bool) -> Result<Reader<'a>, ReadError> {
        let &[_, version, generator, bound, schema, ..] = words else {
            let message = format!("the header has 5 words; the file has {}", words.len());
            return Err(ReadError { word: words.len(), op: None, message });
        };
        plausible(bound)?;
        let header = Header { version, generator, bound, schema, big_endian };
        let module = Module::with_room(header, words.len(), count(words));
        Ok(Reader {
            words,
            at: HEADER_WORDS,
            module,
            position: Position::Outside,
            pending: Vec::new(),
            body: Vec::new(),
        })
    }

    fn run(mut self) -> Result<Module, ReadError> {
        while self.at < self.words.len() {
            let start = self.at;
            let (r, op, opaque) = match self.quick() {
                Some((r, op)) => (r, op, false),
                None => {
                    let inst = self.inst()?;
                    let (op, opaque) = (inst.op, inst.opaque);
                    (self.module.add(inst), op, opaque)
                }
            };
            if let Err(message) = self.put(r, op, opaque) {
                return Err(ReadError { word: start, op: Some(op), message });
            }
        }
        match self.position {
            Position::Outside | Position::Graphs => {}
            _ => {
                let message = "the file ends inside a function".to_owned();
                return Err(ReadError { word: self.words.len(), op: None, message });
            }
        }
        if self.module.functions.is_empty() && matches!(self.position, Position::Outside) {
            self.module.globals.append(&mut self.pending);
        } else {
            self.module.trailing = self.pending;
        }
        self.module.set_read();
        Ok(self.module)
    }

    /// Adds the next instruction, if its opcode and length determine its operands and they are valid; otherwise does
    /// nothing. Operands are written in place, since moving them takes longer than making them.
    fn quick(&mut self) -> Option<(InstRef, Op)> {
        let start = self.at;
        let first = *self.words.get(start)?;
        let (op, end) = (Op(first as u16), start + (first >> 16) as usize);
        let (ty, result, rest) = op.split(self.words.get(start + 1..end)?)?;
        let bound = self.module.header.bound;
        let ty = if let Some(word) = ty { Some(valid(word, bound)?) } else { None };
        let result = if let Some(word) = result { Some(valid(word, bound)?) } else { None };
        let ids = match (op, rest) {
            (Op::Constant | Op::SpecConstant, [_]) => {
                ty.and_then(|t| self.module.literal_words(t)).filter(|n| *n == 1)?;
                0..0
            }
            _ => plain(op, rest)?,
        };
        if rest.get(ids.clone())?.iter().any(|w| valid(*w, bound).is_none()) {
            return None;
        }
        self.at = end;
        let origin = NonZeroU32::new(start as u32);
        let inst = Inst { op, ty, result, operands: OperandList::new(), origin, opaque: false };
        let r = self.module.add_with(inst, |operands| {
            if rest.len() > operands.inline_size() {
                operands.reserve_exact(rest.len());
            }
            for (i, word) in rest.iter().enumerate() {
                operands.push(match Id::new(*word) {
                    Some(id) if ids.contains(&i) => Operand::Id(id),
                    _ => Operand::Word(*word),
                });
            }
        });
        Some((r, op))
    }

    /// Reads the next instruction with its whole grammar.
    fn inst(&mut self) -> Result<Inst, ReadError> {
        let start = self.at;
        let first = self.words[start];
        let op = Op(first as u16);
        let count = (first >> 16) as usize;
        let fail = |message: String| ReadError { word: start, op: Some(op), message };
        if count == 0 {
            return Err(ReadError { word: start, op: None, message: "an instruction of length 0".into() });
        }
        let Some(words) = self.words.get(start + 1..start + count) else {
            let left = self.words.len() - start;
            return Err(fail(format!("it has {count} words, and the file ends after {left}")));
        };
        self.at = start + count;

        let (has_ty, has_result) = op.has_type_and_result();
        let bound = self.module.header.bound;
        let id = |word: Option<&u32>, what: &str| -> Result<Id, ReadError> {
            let word = *word.ok_or_else(|| fail(format!("it has no {what}")))?;
            let id = Id::new(word).ok_or_else(|| fail(format!("its {what} is id 0")))?;
            if word >= bound {
                return Err(fail(format!("id {word} is not below the bound {bound} of the header")));
            }
            Ok(id)
        };
        let mut rest = words;
        let ty = if has_ty { Some(id(rest.first(), "result type")?) } else { None };
        rest = &rest[usize::from(has_ty)..];
        let result = if has_result { Some(id(rest.first(), "result")?) } else { None };
        rest = &rest[usize::from(has_result)..];

        let mut operands = OperandList::with_capacity(rest.len());
        let mut bad = None;
        let ending = decode(&self.module, op, ty, rest, &mut |p: Piece| {
            for &w in &rest[p.start..p.start + p.len] {
                operands.push(match Id::new(w) {
                    Some(id) if p.kind.is_id() => {
                        if w >= bound {
                            bad.get_or_insert_with(|| format!("id {w} is not below the bound {bound} of the header"));
                        }
                        Operand::Id(id)
                    }
                    None if p.kind.is_id() => {
                        bad.get_or_insert_with(|| zero(op).to_owned());
                        Operand::Word(0)
                    }
                    _ => Operand::Word(w),
                });
            }
        });
        if let Some(message) = bad {
            return Err(fail(message));
        }
        let opaque = match ending {
            Ending::Complete => false,
            Ending::OpaqueFrom(n) | Ending::SurplusFrom(n) => {
                operands.extend(rest[n..].iter().map(|w| Operand::Word(*w)));
                true
            }
            Ending::Missing(kind) => {
                return Err(fail(format!("its {count} words end where an operand ({kind:?}) must follow")));
            }
            Ending::OpenString => return Err(fail("a string has no end".into())),
        };
        Ok(Inst { op, ty, result, operands, origin: NonZeroU32::new(start as u32), opaque })
    }

    /// Adds an instruction to the list that it belongs to. The current function and block are in the module already.
    fn put(&mut self, r: InstRef, op: Op, opaque: bool) -> Result<(), String> {
        // Most instructions are calls to phis, none of which end a function.
        let ends = !(Op::FunctionCall.0..=Op::Phi.0).contains(&op.0)
            && (op.is_terminator() || matches!(op, Op::Label | Op::Function | Op::FunctionParameter | Op::FunctionEnd));
        if matches!(self.position, Position::Block) && !ends {
            self.body.push(r);
            return Ok(());
        }
        // spirv-opt leaves a DebugNoScope behind the last terminator.
        let debug = matches!(op, Op::ExtInst | Op::ExtInstWithForwardRefsKHR);
        let loose = op.is_line() || debug || (opaque && op.info().is_none());
        match (self.position, op) {
            (Position::Outside, Op::Function) => {
                let lead = std::mem::take(&mut self.pending);
                let (params, blocks, tail) = (Vec::new(), Vec::new(), Vec::new());
                self.module.functions.push(Function { lead, def: r, params, blocks, tail });
                self.position = Position::Head;
            }
            (Position::Outside | Position::Graphs, Op::Label | Op::FunctionParameter | Op::FunctionEnd) => {
                return Err("not inside a function".into());
            }
            (Position::Outside | Position::Graphs, _) if op.is_terminator() => return Err("not inside a block".into()),
            (Position::Graphs, Op::Function) => return Err("behind a graph; functions come before graphs".into()),
            (Position::Outside, Op::GraphEntryPointARM | Op::GraphARM) => {
                self.pending.push(r);
                self.position = Position::Graphs;
            }
            (Position::Graphs, _) => self.pending.push(r),
            (Position::Outside, _) if self.module.functions.is_empty() && !op.is_line() => {
                self.module.globals.append(&mut self.pending);
                self.module.globals.push(r);
            }
            (Position::Outside, _) => self.pending.push(r),
            (Position::Head | Position::Between, Op::Label) => self.open(r),
            (Position::Head | Position::Between, Op::FunctionEnd) => self.close(r),
            (Position::Head, Op::FunctionParameter) => {
                if let Some(f) = self.module.functions.last_mut() {
                    f.params.append(&mut self.pending);
                    f.params.push(r);
                }
            }
            (Position::Head | Position::Between, _) if loose => self.pending.push(r),
            (Position::Head, _) => return Err("in a function, but not inside a block".into()),
            (Position::Between, _) => return Err("after the terminator of a block".into()),
            (Position::Block, Op::Label | Op::FunctionEnd) => {
                let last = self.body.last().map(|l| self.module.inst(*l));
                if last.is_none_or(|l| l.op.info().is_some()) {
                    let label = self.block().and_then(|b| self.module.inst(b.label).result);
                    return Err(format!("the block {} before it has no terminator", DisplayId(label)));
                }
                // The last instruction is beyond the grammar: a terminator of some newer extension.
                self.take_body();
                if op == Op::Label { self.open(r) } else { self.close(r) }
            }
            (Position::Block, Op::Function | Op::FunctionParameter) => return Err("inside a block".into()),
            (Position::Block, _) => {
                self.body.push(r);
                self.take_body();
                self.position = Position::Between;
            }
        }
        Ok(())
    }

    /// Returns the current block.
    fn block(&self) -> Option<&Block> {
        self.module.functions.last()?.blocks.last()
    }

    fn take_body(&mut self) {
        if let Some(block) = self.module.functions.last_mut().and_then(|f| f.blocks.last_mut()) {
            block.insts = InstList::from_slice(&self.body);
        }
        self.body.clear();
    }

    fn open(&mut self, label: InstRef) {
        let lead = std::mem::take(&mut self.pending);
        if let Some(f) = self.module.functions.last_mut() {
            f.blocks.push(Block { lead, label, insts: InstList::new() });
        }
        self.position = Position::Block;
    }

    fn close(&mut self, end: InstRef) {
        self.pending.push(end);
        if let Some(f) = self.module.functions.last_mut() {
            f.tail = std::mem::take(&mut self.pending);
        }
        self.position = Position::Outside;
    }
}

/// Returns the number of instructions behind the header; for words that are not a module, some number that their size
/// allows.
fn count(words: &[u32]) -> usize {
    let (mut at, mut found) = (HEADER_WORDS, 0);
    while let Some(length) = words.get(at).map(|word| (word >> 16) as usize).filter(|length| *length > 0) {
        at += length;
        found += 1;
    }
    found.min(words.len() / 2)
}

/// Returns an id that a module with this bound can have.
fn valid(word: u32, bound: u32) -> Option<Id> {
    Id::new(word).filter(|_| word < bound)
}

/// Returns the words of an instruction that are ids, if the opcode, the length, and for a few an enumerant, determine
/// them. The others are literals.
#[inline]
fn plain(op: Op, words: &[u32]) -> Option<Range<usize>> {
    Some(match (op, words) {
        // Enumerants without operands, in newer grammars too.
        (Op::TypePointer, [0..=12, _]) => 1..2,
        (Op::Variable, [0..=12]) | (Op::Capability, [_]) => 0..0,
        // Aligned.
        (Op::Load, [_, 2, _]) => 0..1,
        (Op::Store, [_, _, 2, _]) => 0..2,
        (Op::SelectionMerge, [_, 0..=2]) => 0..1,
        (Op::LoopMerge, [_, _, 0..=2]) => 0..2,
        (Op::Name, [_, text @ ..]) | (Op::MemberName, [_, _, text @ ..]) if is_string(text) => 0..1,
        (Op::Decorate, [_, what @ ..]) | (Op::MemberDecorate, [_, _, what @ ..]) if is_decoration(what) => 0..1,
        // The operation and its operands.
        (Op::SpecConstantOp, [inner, rest @ ..]) => {
            1..1 + Op(u16::try_from(*inner).ok()?).plain_operands(rest.len())?
        }
        _ => 0..op.plain_operands(words.len())?,
    })
}

/// Returns true if these words are exactly one string.
fn is_string(words: &[u32]) -> bool {
    words.iter().position(|w| w.to_le_bytes().contains(&0)).is_some_and(|last| last + 1 == words.len())
}

/// Returns true if these words are a decoration without operands, or one with a literal.
fn is_decoration(words: &[u32]) -> bool {
    match words {
        // RelaxedPrecision, Block, BufferBlock; NoPerspective to Uniform.
        [0 | 2 | 3 | 13..=26] => true,
        // SpecId, ArrayStride, MatrixStride; Location to Offset.
        [1 | 6 | 7 | 30..=35, _] => true,
        // BuiltIn: those of shaders.
        [11, 0..=43] => true,
        _ => false,
    }
}

/// Returns the message about an id that is 0.
fn zero(op: Op) -> &'static str {
    match op {
        Op::ExtInst => {
            "an operand is id 0; glslang (seen with 16) writes that with -gVS for variables of types that it does not \
             describe, like tensor layouts and matrices of SPV_NV_cooperative_matrix: compile with -g, or without"
        }
        _ => "an operand is id 0",
    }
}

struct DisplayId(Option<Id>);

impl fmt::Display for DisplayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "{id}"),
            None => write!(f, "(no id)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::OPS;

    /// The quick reader agrees with the grammar.
    #[test]
    fn quick_is_right() {
        let mut state = 1u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            [1, 1, 2, 3, 5, 0, 11, 24, 33, 35, 0x61, 0x6161_6161][(state >> 16) as usize % 12]
        };
        let mut quick = 0;
        let ops = OPS.iter().map(|o| (o.op, None));
        // Operations on constants determine the operands themselves.
        let inner = OPS.iter().map(|o| (Op::SpecConstantOp, Some(u32::from(o.op.0))));
        for (op, inner) in ops.chain(inner) {
            for n in 0..200 {
                let len = if inner.is_some() { 4 } else { 1 } + n % 8;
                let mut words = vec![MAGIC, 0x0001_0600, 0, 40, 0, (len << 16) | u32::from(op.0)];
                words.extend((1..len).map(|_| word()));
                inner.into_iter().for_each(|inner| words[8] = inner);
                let mut reader = Reader::new(&words, false).expect("a header");
                let Some((r, _)) = reader.quick() else { continue };
                let inst = reader.module.inst(r).clone();
                quick += 1;
                let mut other = Reader::new(&words, false).expect("a header");
                assert_eq!(other.inst().as_ref(), Ok(&inst), "{words:?}");
                assert_eq!(reader.at, other.at);
            }
        }
        assert!(quick > 2_500, "{quick}");
    }
}
