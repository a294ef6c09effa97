//! The data model. See the crate's documentation for its invariants.

use crate::grammar::Op;
use crate::hash::{FxHashMap, FxHashSet};
use crate::spv::{AddressingModel, Capability, MemoryModel};
use smallvec::SmallVec;
use std::fmt;
use std::num::NonZeroU32;

/// An id of the file: `%12` in text. Never renumbered, so that every message can name what the author sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(NonZeroU32);

impl Id {
    /// `None` for 0, which is never an id.
    #[inline]
    pub fn new(number: u32) -> Option<Id> {
        NonZeroU32::new(number).map(Id)
    }

    /// The number in the file.
    #[inline]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A handle of an instruction: stays valid while others are inserted, moved or removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstRef(NonZeroU32);

impl InstRef {
    fn from_index(index: usize) -> InstRef {
        let n = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        InstRef(n.unwrap_or_else(|| unreachable!("more instructions than words fit a file")))
    }

    /// The place in the arena; for instructions that were read, the running number in the file.
    #[inline]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for InstRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index())
    }
}

/// One operand word, with what the grammar says of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// An id, also where it is the parameter of an enumerant (a scope of a memory operand, say).
    Id(Id),
    /// Anything else: a literal, an enumerant, a mask, a part of a string, or a word of an opaque instruction.
    Word(u32),
}

impl Operand {
    /// The word in the file.
    #[inline]
    pub fn word(self) -> u32 {
        match self {
            Operand::Id(id) => id.get(),
            Operand::Word(w) => w,
        }
    }

    /// The id, if it is one.
    #[inline]
    pub fn id(self) -> Option<Id> {
        match self {
            Operand::Id(id) => Some(id),
            Operand::Word(_) => None,
        }
    }
}

impl From<Id> for Operand {
    fn from(id: Id) -> Operand {
        Operand::Id(id)
    }
}

impl From<u32> for Operand {
    fn from(word: u32) -> Operand {
        Operand::Word(word)
    }
}

/// The operands of one instruction, result type and result not included.
pub type OperandList = SmallVec<[Operand; 4]>;

/// The instructions of one block. Half of all blocks are short, so a few need no allocation.
pub type InstList = SmallVec<[InstRef; 4]>;

/// One instruction.
#[derive(PartialEq, Eq, Debug)]
pub struct Inst {
    /// The opcode.
    pub op: Op,
    /// The result type.
    pub ty: Option<Id>,
    /// The id that it defines.
    pub result: Option<Id>,
    /// Everything else, one entry a word.
    pub operands: OperandList,
    /// Where it was read: offset in words from the start of the file. Instructions that a pass makes carry the
    /// origin of what they stand for, or none.
    pub origin: Option<NonZeroU32>,
    /// True if part of it is beyond the grammar: an unknown opcode, an unknown enumerant, or surplus words. The words
    /// in question are kept as [`Operand::Word`], and any of them may be an id.
    pub opaque: bool,
}

impl Clone for Inst {
    /// Copies the operands all at once: what is derived copies them one by one, and lowerings copy whole modules.
    fn clone(&self) -> Inst {
        Inst { operands: SmallVec::from_slice(&self.operands), ..*self }
    }
}

impl Inst {
    /// An instruction made by us.
    pub fn new(op: Op, ty: Option<Id>, result: Option<Id>, operands: impl IntoIterator<Item = Operand>) -> Inst {
        Inst { op, ty, result, operands: operands.into_iter().collect(), origin: None, opaque: false }
    }

    /// The same instruction, standing for what was read at `origin`.
    #[must_use]
    pub fn at(mut self, origin: Option<NonZeroU32>) -> Inst {
        self.origin = origin;
        self
    }

    /// Operand `index` if it exists and is an id.
    #[inline]
    pub fn id(&self, index: usize) -> Option<Id> {
        self.operands.get(index).and_then(|o| o.id())
    }

    /// Operand `index` as a word, if it exists.
    #[inline]
    pub fn word(&self, index: usize) -> Option<u32> {
        self.operands.get(index).map(|o| o.word())
    }

    /// Operand `index` as a value of an enumeration or a mask, if it exists.
    #[inline]
    pub fn enumerant<T: From<u32>>(&self, index: usize) -> Option<T> {
        self.word(index).map(T::from)
    }

    /// Returns the opcode of what `OpSpecConstantOp` computes; `None` for other instructions.
    #[inline]
    pub fn specialized_op(&self) -> Option<Op> {
        if self.op != Op::SpecConstantOp {
            return None;
        }
        self.word(0).and_then(|w| u16::try_from(w).ok()).map(Op)
    }

    /// The ids among the operands, in order; result type and result not included.
    #[inline]
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.operands.iter().filter_map(|o| o.id())
    }

    /// The ids from operand `index` on.
    pub fn ids_from(&self, index: usize) -> impl Iterator<Item = Id> + '_ {
        self.operands.iter().skip(index).filter_map(|o| o.id())
    }

    /// The string that begins at operand `index`, and the index of the operand after it. Bytes that are not UTF-8
    /// become replacement characters.
    pub fn string(&self, index: usize) -> Option<(String, usize)> {
        let words = self.operands.get(index..)?;
        let (bytes, used) = string_bytes(words.iter().map(|o| o.word()))?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), index + used))
    }

    /// How many words the instruction takes in a file.
    pub fn word_count(&self) -> usize {
        1 + usize::from(self.ty.is_some()) + usize::from(self.result.is_some()) + self.operands.len()
    }

    /// Replaces each id among result type and operands (not the result).
    pub fn map_ids(&mut self, mut f: impl FnMut(Id) -> Id) {
        self.ty = self.ty.map(&mut f);
        for o in &mut self.operands {
            if let Operand::Id(id) = o {
                *id = f(*id);
            }
        }
    }
}

/// The bytes of a literal string up to its terminating zero, and the number of words it takes. `None` when no zero
/// byte ends it.
pub(crate) fn string_bytes(words: impl Iterator<Item = u32>) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::with_capacity(4 * words.size_hint().0.min(64));
    for (i, w) in words.enumerate() {
        for b in w.to_le_bytes() {
            if b == 0 {
                return Some((bytes, i + 1));
            }
            bytes.push(b);
        }
    }
    None
}

/// A literal string as operand words: UTF-8, little-endian, with a terminating zero.
pub fn string_operands(text: &str) -> impl Iterator<Item = Operand> + '_ {
    let bytes = text.as_bytes();
    (0..=bytes.len() / 4).map(move |i| {
        let mut word = [0; 4];
        for (slot, b) in word.iter_mut().zip(bytes.iter().skip(4 * i)) {
            *slot = *b;
        }
        Operand::Word(u32::from_le_bytes(word))
    })
}

/// The first five words of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// As in the file: `0x00010600` is 1.6.
    pub version: u32,
    /// The generator word: tool in the high half, its version in the low half.
    pub generator: u32,
    /// Every id is below it.
    pub bound: u32,
    /// Reserved, 0.
    pub schema: u32,
    /// True if the file's words are big-endian.
    pub big_endian: bool,
}

impl Header {
    /// Major and minor version.
    pub fn version_pair(&self) -> (u8, u8) {
        let [_, major, minor, _] = self.version.to_be_bytes();
        (major, minor)
    }
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Source positions in front of the label.
    pub lead: Vec<InstRef>,
    /// The `OpLabel`.
    pub label: InstRef,
    /// Everything after the label; the last one is the terminator.
    pub insts: InstList,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The instructions between the previous function and this one: usually source positions.
    pub lead: Vec<InstRef>,
    /// The `OpFunction`.
    pub def: InstRef,
    /// The `OpFunctionParameter`s, with source positions among them.
    pub params: Vec<InstRef>,
    /// The blocks in file order, the entry block first; none for an imported function.
    pub blocks: Vec<Block>,
    /// Up to and including `OpFunctionEnd`.
    pub tail: Vec<InstRef>,
}

impl Function {
    /// Every instruction, in file order.
    pub fn insts(&self) -> impl Iterator<Item = InstRef> + '_ {
        let blocks = self.blocks.iter().flat_map(Block::all);
        let head = self.lead.iter().copied().chain([self.def]).chain(self.params.iter().copied());
        head.chain(blocks).chain(self.tail.iter().copied())
    }
}

impl Block {
    /// Every instruction, label and what leads it included, in file order.
    pub fn all(&self) -> impl Iterator<Item = InstRef> + '_ {
        self.lead.iter().copied().chain([self.label]).chain(self.insts.iter().copied())
    }

    /// The last instruction.
    pub fn terminator(&self) -> Option<InstRef> {
        self.insts.last().copied()
    }
}

/// A map from ids that costs an array access for ids in proportion to the module, and still works when a file uses
/// a few enormous ones.
#[derive(Clone, Debug)]
pub struct IdMap<T> {
    dense: Vec<Option<T>>,
    sparse: FxHashMap<Id, T>,
    limit: u32,
}

impl<T> IdMap<T> {
    /// A map whose dense part may grow to `limit` entries.
    pub fn with_limit(limit: u32) -> IdMap<T> {
        IdMap { dense: Vec::new(), sparse: FxHashMap::default(), limit }
    }

    /// The entry of `id`.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        // The dense part never grows beyond the limit.
        match self.dense.get(id.get() as usize) {
            Some(slot) => slot.as_ref(),
            None if id.get() < self.limit => None,
            None => self.sparse.get(&id),
        }
    }

    /// The entry of `id`, to change.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        if id.get() < self.limit { self.dense.get_mut(id.get() as usize)?.as_mut() } else { self.sparse.get_mut(&id) }
    }

    /// Sets the entry of `id`; answers what it was.
    #[inline]
    pub fn insert(&mut self, id: Id, value: T) -> Option<T> {
        match self.dense.get_mut(id.get() as usize) {
            Some(slot) => slot.replace(value),
            None => self.insert_beyond(id, value),
        }
    }

    /// Sets the entry of an id that the dense part does not have.
    #[cold]
    fn insert_beyond(&mut self, id: Id, value: T) -> Option<T> {
        if id.get() >= self.limit {
            return self.sparse.insert(id, value);
        }
        let i = id.get() as usize;
        // All at once where that is little, as it is nearly always.
        let least = if self.limit <= 1 << 16 { self.limit as usize } else { self.dense.len() * 2 };
        let len = (i + 1).max(least).min(self.limit as usize);
        self.dense.resize_with(len, || None);
        self.dense[i].replace(value)
    }

    /// Sets the entry of `id`, unless it has one.
    #[inline]
    pub fn insert_first(&mut self, id: Id, value: T) {
        match self.dense.get_mut(id.get() as usize) {
            Some(slot @ None) => *slot = Some(value),
            Some(_) => {}
            None => {
                if self.get(id).is_none() {
                    self.insert(id, value);
                }
            }
        }
    }

    /// Makes room for the ids below `bound`.
    fn reserve(&mut self, bound: u32) {
        self.dense.resize_with(bound.min(self.limit) as usize, || None);
    }

    /// Removes the entry of `id`.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        if id.get() < self.limit { self.dense.get_mut(id.get() as usize)?.take() } else { self.sparse.remove(&id) }
    }
}

/// A map from ids to numbers below `u32::MAX`, in four bytes an id: memory that is touched for the first time is what a
/// short process pays for most.
#[derive(Clone, Debug)]
pub struct IdIndex(IdMap<NonZeroU32>);

impl IdIndex {
    /// Makes an empty map for a module's ids.
    pub fn new(module: &Module) -> IdIndex {
        IdIndex(module.id_map())
    }

    /// Returns the number of `id`.
    #[inline]
    pub fn get(&self, id: Id) -> Option<u32> {
        self.0.get(id).map(|n| n.get() - 1)
    }

    /// Sets the number of `id`, which is below `u32::MAX`: there are not as many of anything in a module.
    #[inline]
    pub fn insert(&mut self, id: Id, number: u32) {
        if let Some(n) = number.checked_add(1).and_then(NonZeroU32::new) {
            self.0.insert(id, n);
        }
    }
}

/// A map for few of a module's ids and entries that are large, which lie side by side.
#[derive(Clone, Debug)]
pub struct IdTable<T> {
    /// The place in `items`.
    index: IdIndex,
    items: Vec<T>,
}

impl<T> IdTable<T> {
    /// Makes an empty map for a module's ids.
    pub fn new(module: &Module) -> IdTable<T> {
        IdTable::with_capacity(module, 0)
    }

    /// Makes an empty map for a module's ids, with room for some entries.
    pub fn with_capacity(module: &Module, entries: usize) -> IdTable<T> {
        IdTable { index: IdIndex::new(module), items: Vec::with_capacity(entries) }
    }

    /// Returns the entry of `id`.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        self.items.get(self.index.get(id)? as usize)
    }

    /// Sets the entry of `id`.
    pub fn insert(&mut self, id: Id, item: T) {
        match self.index.get(id) {
            Some(at) => self.items[at as usize] = item,
            None => {
                self.index.insert(id, self.items.len() as u32);
                self.items.push(item);
            }
        }
    }
}

/// A set of ids: a bit for each, and a list of those that are enormous.
#[derive(Clone, Debug, Default)]
pub struct IdSet {
    words: Vec<u64>,
    sparse: FxHashSet<Id>,
}

impl IdSet {
    /// Ids from here on have no bits.
    const DENSE: u32 = 1 << 22;

    /// Returns true if `id` is in the set.
    #[inline]
    pub fn contains(&self, id: Id) -> bool {
        let n = id.get();
        match self.words.get(n as usize / 64) {
            Some(w) => w >> (n % 64) & 1 == 1,
            None => n >= IdSet::DENSE && self.sparse.contains(&id),
        }
    }

    /// Adds `id`, and returns whether it was not in the set before.
    #[inline]
    pub fn insert(&mut self, id: Id) -> bool {
        let n = id.get();
        let Some(word) = self.words.get_mut(n as usize / 64) else { return self.insert_beyond(id) };
        let new = *word >> (n % 64) & 1 == 0;
        *word |= 1 << (n % 64);
        new
    }

    /// Adds an id that has no bit yet.
    #[cold]
    fn insert_beyond(&mut self, id: Id) -> bool {
        let n = id.get();
        if n >= IdSet::DENSE {
            return self.sparse.insert(id);
        }
        let word = n as usize / 64;
        self.words.resize((word + 1).next_power_of_two(), 0);
        self.words[word] |= 1 << (n % 64);
        true
    }
}

/// A module: the data of its instructions (an arena) apart from their order (lists of handles).
#[derive(Clone, Debug)]
pub struct Module {
    /// The header words.
    pub header: Header,
    /// Everything before the first function, in file order.
    pub globals: Vec<InstRef>,
    /// The functions, in file order.
    pub functions: Vec<Function>,
    /// The instructions after the last function: usually none. Graphs (SPV_ARM_graph) are here, also in a module without functions.
    pub trailing: Vec<InstRef>,
    insts: Vec<Inst>,
    defs: IdMap<InstRef>,
    edits: u64,
    /// The number of edits and the bound when the reader was done, if it made the module.
    read: Option<(u64, u32)>,
    most: usize,
}

impl Module {
    /// A module without instructions. `size_hint` is the number of words expected.
    pub fn new(header: Header, size_hint: usize) -> Module {
        Module::with_room(header, size_hint, size_hint / 4)
    }

    /// The same, with room for so many instructions.
    pub(crate) fn with_room(header: Header, size_hint: usize, insts: usize) -> Module {
        let limit = u32::try_from(size_hint.saturating_mul(4)).unwrap_or(u32::MAX).clamp(4096, 1 << 24);
        let mut defs = IdMap::with_limit(limit);
        defs.reserve(header.bound);
        Module {
            header,
            globals: Vec::new(),
            functions: Vec::new(),
            trailing: Vec::new(),
            insts: Vec::with_capacity(insts),
            defs,
            edits: 0,
            read: None,
            most: usize::MAX,
        }
    }

    /// Makes room for more instructions.
    pub fn reserve(&mut self, insts: usize) {
        self.insts.reserve(insts);
    }

    /// Sets the most instructions that the module may have: passes that add many check [`Module::is_full`] now and
    /// then.
    pub fn set_most(&mut self, insts: usize) {
        self.most = insts;
    }

    /// Returns the most instructions that the module may have.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns true if more instructions were made than [`Module::set_most`] allows, including removed ones.
    pub fn is_full(&self) -> bool {
        self.insts.len() > self.most
    }

    /// Returns the instruction of a handle.
    #[inline]
    pub fn inst(&self, r: InstRef) -> &Inst {
        &self.insts[r.index()]
    }

    /// Returns the instruction of a handle, for changes. Its result must stay the same: otherwise use
    /// [`Module::replace`].
    pub fn inst_mut(&mut self, r: InstRef) -> &mut Inst {
        self.edits += 1;
        &mut self.insts[r.index()]
    }

    /// Adds an instruction to the arena, but to no list yet. The first definition of an id counts.
    pub fn add(&mut self, inst: Inst) -> InstRef {
        self.append(inst)
    }

    /// Does the same, and makes the instruction in place.
    #[inline(always)]
    fn append(&mut self, inst: Inst) -> InstRef {
        self.edits += 1;
        let r = InstRef::from_index(self.insts.len());
        if let Some(id) = inst.result {
            self.defs.insert_first(id, r);
        }
        self.insts.push(inst);
        r
    }

    /// Like [`Module::add`], for an instruction whose operands are made in place.
    #[inline]
    pub(crate) fn add_with(&mut self, inst: Inst, operands: impl FnOnce(&mut OperandList)) -> InstRef {
        let r = self.append(inst);
        if let Some(inst) = self.insts.last_mut() {
            operands(&mut inst.operands);
        }
        r
    }

    /// Replaces the instruction of a handle, wherever that is listed.
    pub fn replace(&mut self, r: InstRef, inst: Inst) {
        self.edits += 1;
        let old = self.insts[r.index()].result;
        if old != inst.result {
            if let Some(id) = old
                && self.defs.get(id) == Some(&r)
            {
                self.defs.remove(id);
            }
            if let Some(id) = inst.result {
                self.defs.insert(id, r);
            }
        }
        self.insts[r.index()] = inst;
    }

    /// Records that an instruction was removed from all lists, so that its id is not defined any more.
    pub fn forget(&mut self, r: InstRef) {
        self.edits += 1;
        if let Some(id) = self.insts[r.index()].result
            && self.defs.get(id) == Some(&r)
        {
            self.defs.remove(id);
        }
    }

    /// Returns the instruction that defines `id`.
    #[inline]
    pub fn def(&self, id: Id) -> Option<InstRef> {
        self.defs.get(id).copied()
    }

    /// Returns the instruction that defines `id`.
    #[inline]
    pub fn def_inst(&self, id: Id) -> Option<&Inst> {
        self.def(id).map(|r| self.inst(r))
    }

    /// Returns the type of the value `id`.
    #[inline]
    pub fn type_of(&self, id: Id) -> Option<Id> {
        self.def_inst(id)?.ty
    }

    /// Returns an unused id.
    pub fn fresh_id(&mut self) -> Id {
        let id = Id::new(self.header.bound.max(1)).unwrap_or_else(|| unreachable!("at least 1"));
        self.header.bound = id.get() + 1;
        id
    }

    /// Returns the number of edits: an analysis made at another number is stale.
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// Records that the reader has checked all instructions and the bound.
    pub(crate) fn set_read(&mut self) {
        self.read = Some((self.edits, self.header.bound));
    }

    /// Returns true if the instructions and the bound are those that the reader has checked.
    pub(crate) fn is_as_read(&self) -> bool {
        self.read == Some((self.edits, self.header.bound))
    }

    /// Returns the number of instructions in the arena, including those in no list: the size of a table indexed by
    /// [`InstRef::index`].
    pub fn arena_len(&self) -> usize {
        self.insts.len()
    }

    /// Returns every listed instruction, in file order.
    pub fn all(&self) -> impl Iterator<Item = InstRef> + '_ {
        let functions = self.functions.iter().flat_map(Function::insts);
        self.globals.iter().copied().chain(functions).chain(self.trailing.iter().copied())
    }

    /// Calls `f` with every instruction of every block in file order; labels and the instructions before them are left
    /// out.
    #[inline]
    pub fn in_blocks<'a>(&'a self, mut f: impl FnMut(InstRef, &'a Inst)) {
        for function in &self.functions {
            for block in &function.blocks {
                for &r in &block.insts {
                    f(r, self.inst(r));
                }
            }
        }
    }

    /// Returns a table indexed by id of the right size for this module.
    pub fn id_map<T>(&self) -> IdMap<T> {
        IdMap::with_limit(self.defs.limit.min(self.header.bound))
    }

    /// Returns the capabilities that the module declares, in order.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> + '_ {
        self.globals_with(Op::Capability).filter_map(|r| self.inst(r).enumerant(0))
    }

    /// Returns true if the module declares `capability` itself (not through another that implies it).
    pub fn has_capability(&self, capability: Capability) -> bool {
        self.capabilities().any(|c| c == capability)
    }

    /// Returns true if the module may use the features of `capability`: it declares that, or another that implies it.
    pub fn enables(&self, capability: Capability) -> bool {
        let implies = |c| crate::grammar::implied_capabilities(c).contains(&capability);
        self.has_capability(capability) || self.capabilities().any(implies)
    }

    /// Returns true if the module has OpenCL kernels and no shaders, by its capabilities.
    pub fn is_kernel(&self) -> bool {
        self.enables(Capability::Kernel) && !self.enables(Capability::Shader)
    }

    /// Returns the addressing model and the memory model, if the module declares them.
    pub fn memory_model(&self) -> Option<(AddressingModel, MemoryModel)> {
        let inst = self.globals_with(Op::MemoryModel).next().map(|r| self.inst(r))?;
        inst.enumerant(0).zip(inst.enumerant(1))
    }

    /// Returns the global instructions with this opcode.
    pub fn globals_with(&self, op: Op) -> impl Iterator<Item = InstRef> + '_ {
        self.globals.iter().copied().filter(move |r| self.inst(*r).op == op)
    }
}
