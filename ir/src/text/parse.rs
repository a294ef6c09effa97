//! Parses text into a module.
//!
//! The parser assembles words through the grammar and passes them to the reader of binaries, so that modules have the
//! same invariants. Instructions end where the next one begins (`Op…` or `%x = Op…`), not at the end of a line.

use super::lex::{Token, lex};
use super::number::{Number, integer, shorten};
use crate::binary;
use crate::decode::Import;
use crate::grammar::{Kind, Op, OpInfo, Operands, Quantifier};
use crate::hash::FxHashMap;
use crate::module::{InstRef, Module};
use std::fmt;
use std::ops::Range;

/// An error in a text, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The first line is 1.
    pub line: usize,
    /// In characters; the first column is 1.
    pub column: usize,
    /// The same place in bytes of the text.
    pub span: Range<usize>,
    /// The message: lower case, no final period.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// A module and the positions of its instructions in the text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The module.
    pub module: Module,
    /// The first word and the position of each instruction of the text, in order.
    places: Vec<(u32, Range<u32>)>,
    /// The starts of the lines.
    lines: Vec<u32>,
}

impl Parsed {
    /// Returns the bytes of the text from which an instruction was read.
    pub fn span(&self, r: InstRef) -> Option<Range<usize>> {
        let word = self.module.inst(r).origin?.get();
        let after = self.places.partition_point(|p| p.0 <= word);
        let (_, span) = self.places.get(after.checked_sub(1)?)?;
        Some(span.start as usize..span.end as usize)
    }

    /// Returns the line on which an instruction begins; the first line is 1.
    pub fn line(&self, r: InstRef) -> Option<usize> {
        let start = self.span(r)?.start;
        Some(self.lines.partition_point(|l| *l as usize <= start))
    }
}

/// Parses assembly text.
///
/// Numeric ids keep their number, others get free ones from 1 on in the order in which they appear. The header's words
/// come from comments at the top as [`super::print`] writes them; without these the version is 1.6.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    parse_with_places(text).map(|p| p.module)
}

/// Does the same, and keeps the positions of instructions.
pub fn parse_with_places(text: &str) -> Result<Parsed, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(error(text, 0..0, "a text of more than 4 GB".into()));
    }
    let (tokens, comments) = lex(text);
    if tokens.is_empty() {
        return Err(error(text, 0..0, "no instruction in this text".into()));
    }
    let mut a = Assembler::new(text, tokens);
    while a.at < a.tokens.len() {
        a.instruction().map_err(|(token, message)| error(text, a.span(token), message))?;
    }
    let header = comments.header(a.max_id);
    a.words[1..5].copy_from_slice(&[header.version, header.generator, header.bound, header.schema]);
    let module = binary::read_words(&a.words).map_err(|e| {
        let after = a.places.partition_point(|p| p.0 as usize <= e.word);
        let at_end = e.word >= a.words.len();
        let span = match a.places.get(after.saturating_sub(1)) {
            Some((_, span)) if !at_end => span.start as usize..span.end as usize,
            _ => text.len()..text.len(),
        };
        let message = e.op.map_or_else(|| e.message.clone(), |op| format!("{op}: {}", e.message));
        error(text, span, message)
    })?;
    let starts = text.bytes().zip(1u32..).filter(|(b, _)| *b == b'\n').map(|(_, next)| next);
    let lines = std::iter::once(0).chain(starts).collect();
    Ok(Parsed { module, places: a.places, lines })
}

fn error(text: &str, span: Range<usize>, message: String) -> ParseError {
    let before = &text.as_bytes()[..span.start];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    ParseError { line, column, span, message }
}

/// The token of an error (or the number of tokens, for the end), and its message.
type Fault = (usize, String);

/// The state of parsing an instruction: by its grammar, or beyond it.
#[derive(PartialEq)]
enum Mode {
    Grammar,
    /// A `!` word was read: up to the next instruction every token is a word by itself.
    Raw,
}

struct Assembler<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    /// The index of the next token.
    at: usize,
    words: Vec<u32>,
    places: Vec<(u32, Range<u32>)>,
    /// The numbers of ids in the text, sorted: no name gets one of these.
    numbers: Vec<u32>,
    named: FxHashMap<&'t str, u32>,
    next_free: u32,
    /// The number of entries of `numbers` below `next_free`.
    passed: usize,
    max_id: u32,
    /// By id: types of numbers; types of values; imported sets.
    number_types: FxHashMap<u32, Option<Number>>,
    value_types: FxHashMap<u32, u32>,
    sets: FxHashMap<u32, Import>,
}

impl<'t> Assembler<'t> {
    fn new(text: &'t str, tokens: Vec<Token>) -> Assembler<'t> {
        let numeric = |t: &Token| id_number(&text[t.start as usize..t.end as usize]);
        let mut numbers: Vec<u32> = tokens.iter().filter_map(numeric).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Assembler {
            text,
            words: vec![binary::MAGIC, 0, 0, 0, 0],
            places: Vec::new(),
            at: 0,
            max_id: 0,
            numbers,
            named: FxHashMap::default(),
            next_free: 1,
            passed: 0,
            number_types: FxHashMap::default(),
            value_types: FxHashMap::default(),
            sets: FxHashMap::default(),
            tokens,
        }
    }

    fn span(&self, token: usize) -> Range<usize> {
        match self.tokens.get(token) {
            Some(t) => t.start as usize..t.end as usize,
            None => self.text.len()..self.text.len(),
        }
    }

    /// Returns token `index`; empty behind the last one.
    fn token(&self, index: usize) -> &'t str {
        &self.text[self.span(index)]
    }

    fn fault<T>(&self, token: usize, message: impl Into<String>) -> Result<T, Fault> {
        Err((token, message.into()))
    }

    /// Returns true if token `index` begins an instruction, or the text ends there.
    fn ends_before(&self, index: usize) -> bool {
        let token = self.token(index);
        token.is_empty()
            || is_opcode(token)
            || (token.starts_with('%') && self.token(index + 1) == "=" && is_opcode(self.token(index + 2)))
    }

    fn instruction(&mut self) -> Result<(), Fault> {
        let first = self.at;
        let start = self.words.len();
        let token = self.token(first);
        if token.starts_with('!') {
            self.raw_tokens()?;
        } else if token == "OpUnknown" {
            self.unknown()?;
        } else {
            self.known(start)?;
        }
        let span = self.span(first).start as u32..self.span(self.at - 1).end as u32;
        self.places.push((start as u32, span));
        Ok(())
    }

    /// Parses `%r = OpX …` or `OpX …`.
    fn known(&mut self, start: usize) -> Result<(), Fault> {
        let result = match self.token(self.at) {
            t if is_opcode(t) => None,
            t if t.starts_with('%') => {
                if self.token(self.at + 1) != "=" {
                    return self.fault(self.at + 1, format!("expected `=` after `{}`", shorten(t)));
                }
                self.at += 2;
                Some(self.at - 2)
            }
            t => return self.fault(self.at, format!("expected an opcode or a result, found `{}`", shorten(t))),
        };
        let name = self.token(self.at);
        let info = if is_opcode(name) { Op::from_name(&name[2..]).and_then(Op::info) } else { None };
        let Some(info) = info else {
            let what =
                if name.is_empty() { "expected an opcode".into() } else { format!("no opcode `{}`", shorten(name)) };
            return self.fault(self.at, what);
        };
        let op_token = self.at;
        self.at += 1;
        let (has_ty, has_result) = info.op.has_type_and_result();
        match (has_result, result) {
            (true, None) => return self.fault(op_token, format!("{} has a result: `%x = ` must precede it", info.op)),
            (false, Some(r)) => return self.fault(r, format!("{} has no result", info.op)),
            _ => {}
        }
        self.words.push(0);
        let mut mode = Mode::Grammar;
        if has_ty {
            mode = self.operand_or_raw(Kind::IdRef, info.op)?;
        }
        if let Some(r) = result {
            let id = self.id(r)?;
            self.words.push(id);
            if has_ty && mode == Mode::Grammar {
                let ty = self.words[start + 1];
                self.value_types.entry(id).or_insert(ty);
            }
        }
        if mode == Mode::Grammar {
            let shape = &info.operands[usize::from(has_ty) + usize::from(has_result)..];
            mode = match info.op {
                Op::Constant | Op::SpecConstant => self.number(self.words[start + 1])?,
                Op::Switch => self.switch()?,
                Op::ExtInst | Op::ExtInstWithForwardRefsKHR => self.ext_inst()?,
                Op::SpecConstantOp => self.spec_constant_op()?,
                _ => self.shape(shape, info.op)?,
            };
        }
        if mode == Mode::Raw {
            self.raw_tokens()?;
        }
        let count = self.words.len() - start;
        let Ok(count) = u16::try_from(count) else {
            return self.fault(op_token, format!("the instruction has {count} words; 65535 fit"));
        };
        self.words[start] = u32::from(count) << 16 | u32::from(info.op.0);
        self.remember(info.op, start);
        Ok(())
    }

    /// Records the facts on which later literals and extended instructions depend. The first definition of an id
    /// counts.
    fn remember(&mut self, op: Op, start: usize) {
        let words = &self.words[start..];
        match (op, words) {
            (Op::TypeInt, &[_, id, width, signed, ..]) => {
                let number = Some(Number::Int { width, signed: signed != 0 }).filter(|_| (1..=64).contains(&width));
                self.number_types.entry(id).or_insert(number);
            }
            (Op::TypeFloat, &[_, id, width, ..]) => {
                let number = Number::of_float(width, words.get(3).copied());
                self.number_types.entry(id).or_insert(number);
            }
            (Op::ExtInstImport, &[_, id, ref name @ ..]) => {
                let set = Import::of(name.iter().copied());
                self.sets.entry(id).or_insert(set);
            }
            _ => {}
        }
    }

    /// Parses `OpUnknown(opcode, words) …`.
    fn unknown(&mut self) -> Result<(), Fault> {
        let first = self.at;
        let mut numbers = [0u16; 2];
        for (number, opening) in numbers.iter_mut().zip(["(", ","]) {
            self.at += 1;
            // Other tools also accept the second number without a comma.
            if self.token(self.at) == opening {
                self.at += 1;
            } else if opening == "(" {
                return self.fault(self.at, "expected `(opcode, words)` after OpUnknown");
            }
            let parsed = integer(self.token(self.at)).filter(|(negative, ..)| !negative);
            let Some(value) = parsed.and_then(|(_, value, _)| u16::try_from(value).ok()) else {
                let message = format!("`{}` is not a 16-bit number", shorten(self.token(self.at)));
                return self.fault(self.at, message);
            };
            *number = value;
        }
        self.at += 1;
        if self.token(self.at) != ")" {
            return self.fault(self.at, "expected `)`");
        }
        self.at += 1;
        let [op, count] = numbers;
        if count == 0 {
            return self.fault(first, "an instruction of length 0");
        }
        let end = self.words.len() + usize::from(count);
        self.words.push(u32::from(count) << 16 | u32::from(op));
        while self.words.len() < end {
            if self.ends_before(self.at) {
                let missing = end - self.words.len();
                return self.fault(self.at, format!("OpUnknown has {count} words, and {missing} of them are missing"));
            }
            self.raw_token()?;
        }
        if self.words.len() > end {
            return self.fault(self.at - 1, format!("OpUnknown has {count} words; this goes beyond"));
        }
        let start = end - usize::from(count);
        let op = Op(op);
        if let ((true, true), &[ty, result, ..]) = (op.has_type_and_result(), &self.words[start + 1..]) {
            self.value_types.entry(result).or_insert(ty);
        }
        self.remember(op, start);
        Ok(())
    }

    /// Parses tokens that are words by themselves, up to the next instruction.
    fn raw_tokens(&mut self) -> Result<(), Fault> {
        while !self.ends_before(self.at) {
            self.raw_token()?;
        }
        Ok(())
    }

    /// Parses `!word`, an id, a string or a 32-bit number.
    fn raw_token(&mut self) -> Result<(), Fault> {
        let token = self.token(self.at);
        let word = match token.as_bytes().first() {
            Some(b'!') => self.immediate(token)?,
            Some(b'%') => self.id(self.at)?,
            Some(b'"') => return self.string(),
            _ => match integer(token) {
                Some((false, magnitude, _)) => self.in_32_bits(u32::try_from(magnitude).ok())?,
                Some((true, magnitude, _)) => {
                    let value = i64::try_from(magnitude).ok().and_then(|m| i32::try_from(-m).ok());
                    self.in_32_bits(value.map(|v| v as u32))?
                }
                None => {
                    let mut words = Vec::new();
                    let float = Number::of_float(32, None);
                    match float.map(|f| f.parse(token, &mut words)) {
                        Some(Ok(())) => words[0],
                        _ => {
                            let message =
                                format!("after a `!` word, `{}` is not an id, number or string", shorten(token));
                            return self.fault(self.at, message);
                        }
                    }
                }
            },
        };
        self.words.push(word);
        self.at += 1;
        Ok(())
    }

    fn immediate(&self, token: &str) -> Result<u32, Fault> {
        let parsed = integer(&token[1..]).filter(|_| !token[1..].starts_with(['-', '+']));
        self.in_32_bits(parsed.and_then(|(_, value, _)| u32::try_from(value).ok()))
    }

    fn in_32_bits(&self, word: Option<u32>) -> Result<u32, Fault> {
        let message = || format!("`{}` is not a number of 32 bits", shorten(self.token(self.at)));
        word.ok_or_else(|| (self.at, message()))
    }

    /// Parses a required token: an operand of this kind, or a `!` word.
    fn operand_or_raw(&mut self, kind: Kind, op: Op) -> Result<Mode, Fault> {
        if self.ends_before(self.at) {
            return self.fault(self.at, format!("{op} ends where an operand ({kind:?}) must follow"));
        }
        if self.token(self.at).starts_with('!') {
            return Ok(Mode::Raw);
        }
        self.operand(kind, op)
    }

    fn shape(&mut self, shape: Operands, op: Op) -> Result<Mode, Fault> {
        for &(kind, quantifier) in shape {
            loop {
                if quantifier != Quantifier::One && self.ends_before(self.at) {
                    break;
                }
                if self.operand_or_raw(kind, op)? == Mode::Raw {
                    return Ok(Mode::Raw);
                }
                if quantifier != Quantifier::Repeated {
                    break;
                }
            }
        }
        Ok(Mode::Grammar)
    }

    fn operand(&mut self, kind: Kind, op: Op) -> Result<Mode, Fault> {
        let token = self.token(self.at);
        match kind {
            Kind::PairLiteralIntegerIdRef => return self.pair(Kind::LiteralInteger, Kind::IdRef, op),
            Kind::PairIdRefLiteralInteger => return self.pair(Kind::IdRef, Kind::LiteralInteger, op),
            Kind::PairIdRefIdRef => return self.pair(Kind::IdRef, Kind::IdRef, op),
            Kind::LiteralString => self.string()?,
            Kind::LiteralInteger | Kind::LiteralExtInstInteger => {
                self.literal(Number::Int { width: 32, signed: false })?;
            }
            Kind::LiteralFloat => {
                let float = Number::of_float(32, None);
                self.literal(float.unwrap_or_else(|| unreachable!("a 32-bit float is known")))?;
            }
            _ if kind.is_id() => {
                let id = self.id(self.at)?;
                self.words.push(id);
                self.at += 1;
            }
            _ if kind.enumerants().is_some() => return self.enumerant(kind, op),
            // The operation of OpSpecConstantOp is itself OpSpecConstantOp.
            Kind::LiteralSpecConstantOpInteger => {
                self.operation()?;
            }
            _ => {
                let message = format!("`{}` can't stand for a {kind:?} here", shorten(token));
                return self.fault(self.at, message);
            }
        }
        Ok(Mode::Grammar)
    }

    fn pair(&mut self, first: Kind, second: Kind, op: Op) -> Result<Mode, Fault> {
        self.operand(first, op)?;
        self.operand_or_raw(second, op)
    }

    fn enumerant(&mut self, kind: Kind, op: Op) -> Result<Mode, Fault> {
        let token = self.token(self.at);
        let unknown = |name: &str| (self.at, format!("no {kind:?} `{}`", shorten(name)));
        let mut value = 0;
        if kind.is_mask() {
            for name in token.split('|').filter(|n| *n != "None" && Some(*n) != super::no_bits(kind)) {
                value |= kind.enumerant_named(name).ok_or_else(|| unknown(name))?;
            }
        } else {
            value = kind.enumerant_named(token).ok_or_else(|| unknown(token))?;
        }
        self.words.push(value);
        self.at += 1;
        if !kind.is_mask() {
            let params = kind.enumerant(value).map_or(&[] as Operands, |e| e.params);
            return self.shape(params, op);
        }
        while value != 0 {
            let bit = value & value.wrapping_neg();
            value ^= bit;
            let params = kind.enumerant(bit).map_or(&[] as Operands, |e| e.params);
            if self.shape(params, op)? == Mode::Raw {
                return Ok(Mode::Raw);
            }
        }
        Ok(Mode::Grammar)
    }

    fn literal(&mut self, number: Number) -> Result<(), Fault> {
        let token = self.token(self.at);
        number.parse(token, &mut self.words).map_err(|message| (self.at, message))?;
        self.at += 1;
        Ok(())
    }

    /// Parses a literal of type `ty`, or a `!` word.
    fn number(&mut self, ty: u32) -> Result<Mode, Fault> {
        if self.ends_before(self.at) {
            return self.fault(self.at, "a literal must follow");
        }
        if self.token(self.at).starts_with('!') {
            return Ok(Mode::Raw);
        }
        let Some(&Some(number)) = self.number_types.get(&ty) else {
            let message = "the type of this literal is not a number type that is declared further up";
            return self.fault(self.at, message);
        };
        self.literal(number)?;
        Ok(Mode::Grammar)
    }

    fn switch(&mut self) -> Result<Mode, Fault> {
        let selector = self.words.len();
        for _ in 0..2 {
            if self.operand_or_raw(Kind::IdRef, Op::Switch)? == Mode::Raw {
                return Ok(Mode::Raw);
            }
        }
        let ty = self.value_types.get(&self.words[selector]).copied().unwrap_or(0);
        while !self.ends_before(self.at) {
            if self.number(ty)? == Mode::Raw || self.operand_or_raw(Kind::IdRef, Op::Switch)? == Mode::Raw {
                return Ok(Mode::Raw);
            }
        }
        Ok(Mode::Grammar)
    }

    fn ext_inst(&mut self) -> Result<Mode, Fault> {
        let op = Op::ExtInst;
        if self.operand_or_raw(Kind::IdRef, op)? == Mode::Raw {
            return Ok(Mode::Raw);
        }
        let set = self.words.last().and_then(|w| self.sets.get(w)).copied();
        let token = self.token(self.at);
        let row = set.and_then(|s| s.table?.iter().find(|row| row.name == token));
        match row {
            Some(row) => {
                self.words.push(row.number);
                self.at += 1;
            }
            None if self.operand_or_raw(Kind::LiteralExtInstInteger, op)? == Mode::Raw => return Ok(Mode::Raw),
            None => {}
        }
        match (set, row) {
            (Some(set), _) if set.non_semantic => self.shape(&[(Kind::IdRef, Quantifier::Repeated)], op),
            (_, Some(row)) => self.shape(row.operands, op),
            // The rest is beyond the grammar, so every token is a word by itself.
            _ => Ok(Mode::Raw),
        }
    }

    fn spec_constant_op(&mut self) -> Result<Mode, Fault> {
        if self.ends_before(self.at) {
            return self.fault(self.at, "the name of an operation must follow OpSpecConstantOp");
        }
        if self.token(self.at).starts_with('!') {
            return Ok(Mode::Raw);
        }
        let info = self.operation()?;
        let (ty, result) = info.op.has_type_and_result();
        self.shape(&info.operands[usize::from(ty) + usize::from(result)..], info.op)
    }

    /// Reads the name of an operation without `Op`, as OpSpecConstantOp has it.
    fn operation(&mut self) -> Result<&'static OpInfo, Fault> {
        let token = self.token(self.at);
        let Some(info) = Op::from_name(token).and_then(Op::info) else {
            return self.fault(self.at, format!("no operation `{}`", shorten(token)));
        };
        self.words.push(u32::from(info.op.0));
        self.at += 1;
        Ok(info)
    }

    fn string(&mut self) -> Result<(), Fault> {
        let token = self.token(self.at);
        let Some(inside) = token.strip_prefix('"') else {
            return self.fault(self.at, format!("expected a string in quotes, found `{}`", shorten(token)));
        };
        let mut bytes = Vec::with_capacity(inside.len());
        let (mut escaped, mut closed) = (false, false);
        for b in inside.bytes() {
            match b {
                _ if closed => return self.fault(self.at, "text follows the closing quote of a string"),
                0 => return self.fault(self.at, "a string can't contain a zero byte"),
                b'\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                b'"' if !escaped => closed = true,
                _ => bytes.push(b),
            }
            escaped = false;
        }
        if !closed {
            return self.fault(self.at, "a string without closing quote");
        }
        bytes.push(0);
        self.words.extend(bytes.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        }));
        self.at += 1;
        Ok(())
    }

    /// Returns the number of the id in token `index`.
    fn id(&mut self, index: usize) -> Result<u32, Fault> {
        let token = self.token(index);
        let Some(name) = token.strip_prefix('%') else {
            return self.fault(index, format!("expected an id, found `{}`", shorten(token)));
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return self
                .fault(index, format!("`{}` is not an id: letters, digits and `_` make a name", shorten(token)));
        }
        let number = match id_number(token) {
            Some(number) => number,
            None => match self.named.get(name) {
                Some(number) => *number,
                None => {
                    let number = self.free_number();
                    self.named.insert(name, number);
                    number
                }
            },
        };
        self.max_id = self.max_id.max(number);
        Ok(number)
    }

    /// Returns the smallest number that neither the text nor a name uses.
    fn free_number(&mut self) -> u32 {
        while self.numbers.get(self.passed) == Some(&self.next_free) {
            self.passed += 1;
            self.next_free += 1;
        }
        self.next_free += 1;
        self.next_free - 1
    }
}

/// Returns true if a token looks like an opcode.
fn is_opcode(token: &str) -> bool {
    matches!(token.as_bytes(), [b'O', b'p', b'A'..=b'Z', ..])
}

/// Returns the number of a numeric id. With a leading zero, or larger than any module's ids, it is a name like any
/// other.
fn id_number(token: &str) -> Option<u32> {
    let digits = token.strip_prefix('%')?;
    if !digits.starts_with(|c: char| matches!(c, '1'..='9')) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| *n < binary::MAX_BOUND)
}
