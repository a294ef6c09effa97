//! The users of each id.
//!
//! A use is an occurrence as result type or operand. A word of an opaque instruction that equals a defined id is a use
//! too, as it may be that id. The table describes the module at the time when it was made: compare [`Module::edits`].

use crate::grammar::Op;
use crate::module::{Id, IdMap, Inst, InstRef, Module, Operand};

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    len: u32,
    /// The last user counted, so that an instruction counts once however often it uses the id.
    last: InstRef,
}

/// The users of every id, for one state of a module.
#[derive(Clone, Debug)]
pub struct Users {
    ranges: IdMap<Range>,
    users: Vec<InstRef>,
    edits: u64,
}

impl Users {
    /// Collects the users of all ids, in file order.
    pub fn new(module: &Module) -> Users {
        let mut ranges: IdMap<Range> = module.id_map();
        let mut ids = Vec::new();
        module.all().for_each(|r| {
            for_each_use(module, module.inst(r), |id| match ranges.get_mut(id) {
                Some(range) if range.last == r => {}
                Some(range) => (range.len, range.last) = (range.len + 1, r),
                None => {
                    ids.push(id);
                    ranges.insert(id, Range { start: 0, len: 1, last: r });
                }
            });
        });
        let mut total = 0;
        // Any instruction stands where the users will.
        let any = ids.first().and_then(|id| ranges.get(*id)).map(|range| range.last);
        for id in ids {
            if let Some(range) = ranges.get_mut(id) {
                range.start = total;
                total += std::mem::take(&mut range.len);
            }
        }
        let mut users = any.map_or_else(Vec::new, |any| vec![any; total as usize]);
        // Every range is long enough: the same instructions are met in the same order.
        module.all().for_each(|r| {
            for_each_use(module, module.inst(r), |id| {
                let Some(range) = ranges.get_mut(id) else { return };
                let end = (range.start + range.len) as usize;
                if range.len == 0 || users[end - 1] != r {
                    users[end] = r;
                    range.len += 1;
                }
            });
        });
        Users { ranges, users, edits: module.edits() }
    }

    /// Returns the instructions that use `id`, each once, in file order; names, decorations and debug information
    /// included.
    pub fn of(&self, id: Id) -> &[InstRef] {
        match self.ranges.get(id) {
            Some(r) => &self.users[r.start as usize..(r.start + r.len) as usize],
            None => &[],
        }
    }

    /// Returns true if anything uses `id`, including a name.
    pub fn is_used(&self, id: Id) -> bool {
        self.ranges.get(id).is_some()
    }

    /// Returns the users of `id` except names and decorations.
    pub fn beyond_notes<'a>(&'a self, module: &'a Module, id: Id) -> impl Iterator<Item = InstRef> + 'a {
        self.of(id).iter().copied().filter(|r| !is_note(module.inst(*r).op))
    }

    /// Returns true if the module was edited since.
    pub fn is_stale(&self, module: &Module) -> bool {
        self.edits != module.edits()
    }
}

/// Returns true if an instruction only annotates an id: a name or a decoration.
pub fn is_note(op: Op) -> bool {
    matches!(
        op,
        Op::Name
            | Op::MemberName
            | Op::Decorate
            | Op::DecorateId
            | Op::DecorateString
            | Op::MemberDecorate
            | Op::MemberDecorateIdEXT
            | Op::MemberDecorateString
            | Op::GroupDecorate
            | Op::GroupMemberDecorate
    )
}

/// Calls `f` for each id that an instruction uses, or may use, as often as it does.
#[inline]
pub fn for_each_use(module: &Module, inst: &Inst, mut f: impl FnMut(Id)) {
    if let Some(ty) = inst.ty {
        f(ty);
    }
    for o in &inst.operands {
        match *o {
            Operand::Id(id) => f(id),
            Operand::Word(w) if inst.opaque => {
                if let Some(id) = Id::new(w).filter(|id| module.def(*id).is_some()) {
                    f(id);
                }
            }
            Operand::Word(_) => {}
        }
    }
}
