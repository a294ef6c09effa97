//! Names and decorations by id and member.
//!
//! Decorations that come through a group (`OpGroupDecorate`, `OpGroupMemberDecorate`) are those of its targets, as if
//! each had its own. An id or member keeps them in file order, its own first.

use crate::grammar::Op;
use crate::module::{Id, IdIndex, InstRef, Module, Operand};
use crate::spv::{BuiltIn, Decoration};
use smallvec::SmallVec;

/// A decoration of an id or a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decorated {
    /// The instruction that decorates: `OpDecorate`, `OpMemberDecorate`, ...
    pub inst: InstRef,
    /// The Decoration.
    pub decoration: Decoration,
    /// The index of the instruction's first operand after the Decoration.
    pub first: usize,
    /// That operand, if there is one.
    pub value: Option<Operand>,
}

/// The usual entry: a name, and no more.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Option<InstRef>,
    /// The index in [`Decorations::more`], or [`NONE`].
    more: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct More {
    /// Resources have a set and a binding; most other ids have one decoration.
    own: SmallVec<[Decorated; 2]>,
    members: Vec<(u32, Decorated)>,
    groups: Vec<Id>,
    member_groups: Vec<(u32, Id)>,
    member_names: Vec<(u32, InstRef)>,
}

/// The names and decorations of a module.
#[derive(Clone, Debug)]
pub struct Decorations {
    /// The indices in `entries`.
    index: IdIndex,
    entries: Vec<Entry>,
    more: Vec<More>,
    /// Every id with an entry, in the order of first mention.
    ids: Vec<Id>,
}

impl Decorations {
    /// Collects the names and decorations of a module.
    pub fn new(module: &Module) -> Decorations {
        // Most decorated ids have a name, too.
        let names = module.globals_with(Op::Name).count();
        let (entries, ids) = (Vec::with_capacity(names), Vec::with_capacity(names));
        let mut all = Decorations { index: IdIndex::new(module), entries, more: Vec::new(), ids };
        for &r in &module.globals {
            all.add(module, r);
        }
        all
    }

    fn add(&mut self, module: &Module, r: InstRef) {
        let inst = module.inst(r);
        let Some(target) = inst.id(0) else { return };
        let decorated = |at: usize| {
            let value = inst.operands.get(at + 1).copied();
            Some(Decorated { inst: r, decoration: inst.enumerant(at)?, first: at + 1, value })
        };
        match inst.op {
            Op::Name => {
                self.entry(target).name.get_or_insert(r);
            }
            Op::MemberName => {
                if let Some(member) = inst.word(1) {
                    self.more(target).member_names.push((member, r));
                }
            }
            Op::Decorate | Op::DecorateId | Op::DecorateString => {
                if let Some(d) = decorated(1) {
                    self.more(target).own.push(d);
                }
            }
            Op::MemberDecorate | Op::MemberDecorateIdEXT | Op::MemberDecorateString => {
                if let (Some(member), Some(d)) = (inst.word(1), decorated(2)) {
                    self.more(target).members.push((member, d));
                }
            }
            Op::GroupDecorate => {
                for id in inst.ids_from(1) {
                    self.more(id).groups.push(target);
                }
            }
            Op::GroupMemberDecorate => {
                for pair in inst.operands.get(1..).unwrap_or_default().chunks_exact(2) {
                    if let Some(id) = pair[0].id() {
                        self.more(id).member_groups.push((pair[1].word(), target));
                    }
                }
            }
            _ => {}
        }
    }

    fn entry(&mut self, id: Id) -> &mut Entry {
        let at = match self.index.get(id) {
            Some(at) => at as usize,
            None => {
                self.index.insert(id, self.entries.len() as u32);
                self.entries.push(Entry { name: None, more: NONE });
                self.ids.push(id);
                self.entries.len() - 1
            }
        };
        &mut self.entries[at]
    }

    fn more(&mut self, id: Id) -> &mut More {
        let next = self.more.len();
        let entry = self.entry(id);
        if entry.more == NONE {
            entry.more = next as u32;
            self.more.push(More::default());
            return &mut self.more[next];
        }
        let at = entry.more as usize;
        &mut self.more[at]
    }

    /// The decorations of an id with these parts, without those of its members.
    fn all<'a>(&'a self, more: &'a More) -> impl Iterator<Item = &'a Decorated> {
        more.own.iter().chain(more.groups.iter().flat_map(|g| self.own(*g)))
    }

    fn find(&self, id: Id) -> Option<&More> {
        let entry = self.entries[self.index.get(id)? as usize];
        self.more.get(entry.more as usize)
    }

    fn own(&self, id: Id) -> impl Iterator<Item = &Decorated> {
        self.find(id).into_iter().flat_map(|e| &e.own)
    }

    /// Returns the decorations of an id, without those of its members.
    pub fn of(&self, id: Id) -> impl Iterator<Item = &Decorated> {
        self.find(id).into_iter().flat_map(|more| self.all(more))
    }

    /// Returns the decorations of a member of a struct type.
    pub fn member(&self, id: Id, member: u32) -> impl Iterator<Item = &Decorated> {
        self.members(id).filter(move |(m, _)| *m == member).map(|(_, d)| d)
    }

    /// Returns the decorations of all members of a struct type, with the members.
    pub fn members(&self, id: Id) -> impl Iterator<Item = (u32, &Decorated)> {
        let own = self.find(id).into_iter().flat_map(|e| &e.members).map(|(m, d)| (*m, d));
        let groups = self.find(id).into_iter().flat_map(|e| &e.member_groups);
        own.chain(groups.flat_map(|(m, g)| self.own(*g).map(move |d| (*m, d))))
    }

    /// Returns true if an id has a decoration.
    pub fn has(&self, id: Id, decoration: Decoration) -> bool {
        self.of(id).any(|d| d.decoration == decoration)
    }

    /// Returns the first operand of an id's decoration, if it is not an id.
    pub fn value(&self, id: Id, decoration: Decoration) -> Option<u32> {
        self.of(id).find(|d| d.decoration == decoration)?.literal()
    }

    /// Returns true if a member has a decoration.
    pub fn member_has(&self, id: Id, member: u32, decoration: Decoration) -> bool {
        self.member(id, member).any(|d| d.decoration == decoration)
    }

    /// Returns the first operand of a member's decoration, if it is not an id.
    pub fn member_value(&self, id: Id, member: u32, decoration: Decoration) -> Option<u32> {
        self.member(id, member).find(|d| d.decoration == decoration)?.literal()
    }

    /// Returns the SpecId of a specialization constant.
    pub fn spec_id(&self, id: Id) -> Option<u32> {
        self.value(id, Decoration::SpecId)
    }

    /// Returns the ids with this SpecId: usually one, two if glslang repeats a constant for the workgroup size.
    pub fn with_spec_id(&self, spec_id: u32) -> impl Iterator<Item = Id> {
        self.ids.iter().copied().filter(move |id| self.spec_id(*id) == Some(spec_id))
    }

    /// Returns the BuiltIn of an id.
    pub fn built_in(&self, id: Id) -> Option<BuiltIn> {
        self.value(id, Decoration::BuiltIn).map(BuiltIn)
    }

    /// Returns the ids with this BuiltIn, without members of blocks.
    pub fn with_built_in(&self, built_in: BuiltIn) -> impl Iterator<Item = Id> {
        let is = move |d: &Decorated| d.decoration == Decoration::BuiltIn && d.literal() == Some(built_in.0);
        // Most ids have only a name.
        let decorated =
            self.entries.iter().zip(&self.ids).filter_map(|(e, id)| Some((self.more.get(e.more as usize)?, *id)));
        decorated.filter(move |(more, _)| self.all(more).any(is)).map(|(_, id)| id)
    }

    /// Returns the descriptor set of a resource variable.
    pub fn set(&self, id: Id) -> Option<u32> {
        self.value(id, Decoration::DescriptorSet)
    }

    /// Returns the binding of a resource variable.
    pub fn binding(&self, id: Id) -> Option<u32> {
        self.value(id, Decoration::Binding)
    }

    /// Returns the name of an id, if it has one that is not empty.
    pub fn name(&self, module: &Module, id: Id) -> Option<String> {
        let (name, _) = module.inst(self.entries[self.index.get(id)? as usize].name?).string(1)?;
        Some(name).filter(|n| !n.is_empty())
    }

    /// Returns the name of a member of a struct type, if it has one that is not empty.
    pub fn member_name(&self, module: &Module, id: Id, member: u32) -> Option<String> {
        let (_, r) = self.find(id)?.member_names.iter().find(|(m, _)| *m == member)?;
        let (name, _) = module.inst(*r).string(2)?;
        Some(name).filter(|n| !n.is_empty())
    }

    /// Returns every id that has a name or a decoration, or whose members do, in the order of first mention.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.ids.iter().copied()
    }
}

impl Decorated {
    /// Returns the first operand after the Decoration, if there is one and it is not an id.
    pub fn literal(&self) -> Option<u32> {
        match self.value {
            Some(Operand::Word(w)) => Some(w),
            _ => None,
        }
    }

    /// Returns the operands after the Decoration.
    pub fn operands(self, module: &Module) -> &[Operand] {
        module.inst(self.inst).operands.get(self.first..).unwrap_or_default()
    }
}
