//! Checks 9 and 10: instructions against the grammar; and ids against the header's bound.

use super::Verifier;
use crate::decode::{Ending, decode};
use crate::module::{InstRef, Operand};

impl Verifier<'_> {
    /// Decodes every instruction again.
    pub(super) fn operands(&mut self) {
        let mut words = Vec::new();
        let bound = self.module.header.bound;
        for r in self.module.all() {
            let inst = self.module.inst(r);
            if inst.word_count() > usize::from(u16::MAX) {
                self.problem(10, r, format_args!("it has {} words; 65535 is the most", inst.word_count()));
            }
            let (has_ty, has_result) = inst.op.has_type_and_result();
            self.presence(r, "result type", has_ty, inst.ty.is_some());
            self.presence(r, "result", has_result, inst.result.is_some());
            let ids = inst.result.into_iter().chain(inst.ty).chain(inst.ids());
            for id in ids.filter(|id| id.get() >= bound) {
                self.problem(1, r, format_args!("{id} is not below the bound {bound} of the header"));
            }
            words.clear();
            words.extend(inst.operands.iter().map(|o| o.word()));
            let mut wrong = None;
            let ending = decode(self.module, inst.op, inst.ty, &words, &mut |p| {
                let part = &inst.operands[p.start..p.start + p.len];
                let bad = part.iter().position(|o| matches!(o, Operand::Id(_)) != p.kind.is_id());
                if let (Some(i), None) = (bad, wrong) {
                    wrong = Some((p.start + i, p.kind));
                }
            });
            if let Some((i, kind)) = wrong {
                let word = words[i];
                if kind.is_id() && word == 0 {
                    self.problem(9, r, format_args!("operand {i} is id 0"));
                } else if kind.is_id() {
                    self.problem(9, r, format_args!("operand {i}, {word}, is kept as a word and must be an id"));
                } else {
                    self.problem(9, r, format_args!("operand {i}, %{word}, is kept as an id and must be a word"));
                }
            }
            match ending {
                Ending::Complete => {}
                Ending::OpaqueFrom(_) | Ending::SurplusFrom(_) if inst.opaque => {}
                Ending::OpaqueFrom(i) | Ending::SurplusFrom(i) => {
                    self.problem(
                        9,
                        r,
                        format_args!("operand {i} is beyond the grammar, and it is not marked as opaque"),
                    );
                }
                Ending::Missing(kind) => {
                    self.problem(9, r, format_args!("an operand is missing at its end ({kind:?})"));
                }
                Ending::OpenString => self.problem(9, r, "a string has no end"),
            }
        }
    }

    fn presence(&mut self, r: InstRef, what: &str, must: bool, is: bool) {
        match (must, is) {
            (true, false) => self.problem(9, r, format_args!("it has no {what}")),
            (false, true) => self.problem(9, r, format_args!("it has a {what}, and must not")),
            _ => {}
        }
    }
}
