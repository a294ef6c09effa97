//! The parts of instructions in text that was parsed.

use super::Parsed;
use crate::decode::{Ending, Piece, decode};
use crate::module::{Inst, InstRef};
use std::ops::Range;

impl Parsed {
    /// Returns the span of an instruction's result in the text that was parsed.
    pub fn result_span(&self, text: &str, r: InstRef) -> Option<Range<usize>> {
        self.module.inst(r).result?;
        self.token(text, r, 0)
    }

    /// Returns the span of its result type.
    pub fn type_span(&self, text: &str, r: InstRef) -> Option<Range<usize>> {
        let inst = self.module.inst(r);
        inst.ty?;
        self.token(text, r, opcode(inst) + 1)
    }

    /// Returns the span of the operand that `index` of [`Inst::operands`] is a word of.
    pub fn operand_span(&self, text: &str, r: InstRef, index: usize) -> Option<Range<usize>> {
        let inst = self.module.inst(r);
        let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
        let (mut found, mut pieces) = (None, 0);
        let ending = decode(&self.module, inst.op, inst.ty, &words, &mut |p: Piece| {
            if (p.start..p.start + p.len).contains(&index) {
                found = Some(pieces);
            }
            pieces += 1;
        });
        let first = opcode(inst) + 1 + usize::from(inst.ty.is_some());
        // A piece is a token as long as everything is known.
        let all = tokens(text.get(self.span(r)?)?).len();
        if ending != Ending::Complete || all != first + pieces { None } else { self.token(text, r, first + found?) }
    }

    fn token(&self, text: &str, r: InstRef, index: usize) -> Option<Range<usize>> {
        let whole = self.span(r)?;
        let token = tokens(text.get(whole.clone())?).get(index)?.clone();
        Some(whole.start + token.start..whole.start + token.end)
    }
}

/// Returns the index of the opcode among the tokens: `%result = OpName %type operands`.
fn opcode(inst: &Inst) -> usize {
    if inst.result.is_some() { 2 } else { 0 }
}

/// The words of an instruction's text; a string counts as one, comments as none.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b if b.is_ascii_whitespace() => i += 1,
            b';' => i = text[i..].find('\n').map_or(bytes.len(), |n| i + n),
            b'"' => {
                let start = i;
                i += 1;
                while i < bytes.len() && bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                i = (i + 1).min(bytes.len());
                out.push(start..i);
            }
            _ => {
                let start = i;
                while i < bytes.len() && !bytes[i].is_ascii_whitespace() && bytes[i] != b';' {
                    i += 1;
                }
                out.push(start..i);
            }
        }
    }
    out
}
