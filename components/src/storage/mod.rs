//! Accesses memory of narrow types by words of 32 bits, where the device may not access it otherwise.
//!
//! Precondition: no matrices in that memory, no decoration groups. Effect: a variable of StorageBuffer, Uniform, PushConstant or laid-out
//! Workgroup memory that holds numbers which the device can't load from there becomes an array of words, all of it. A load
//! takes its words apart, and a store puts them together. Offsets, strides and sizes stay ([`layout`]).
//!
//! A word of which a store writes every byte is stored, and so is one of which stores that follow one another do ([`joined`]). Of other words, the store clears and then sets its own bits, by
//! `OpAtomicAnd` and `OpAtomicOr`: another invocation may write the neighboring bytes at the same time. (An exclusive or with
//! the difference would take one operation less, but two invocations that write the same value would undo each other.) Words
//! of which parts are written that way are read by `OpAtomicLoad`, unless all of a word is read.
//!
//! Arithmetic is left to later passes: the numbers taken out of words have the types that they had, and the module declares
//! the capabilities for these where the device has them.
//!
//! Pointers to such memory at device addresses become pointers to words ([`address`]). Shared memory with an explicit layout becomes one
//! array of words where the device takes no such layout ([`shared`]). Memory with atomic operations that the device lacks becomes words too,
//! shared memory without a layout included, which gets one by the sizes of its numbers: the operations are loops of compare-exchange
//! ([`atomics`]).
//!
//! Refuses: pointers to such variables that are chosen, passed or stored; untyped pointers; such buffers of descriptor heaps; atomic operations on numbers of 64 bits;
//! arrays of unknown length moved as a whole.

mod access;
mod address;
mod atomics;
mod joined;
mod layout;
pub(crate) mod matrices;
mod number;
mod place;
mod shared;

use crate::long::vectors;
use crate::parts::{MadeOf, numbers, parts};
use crate::pipeline::Cx;
use crate::report::Software;
use crate::{Lacks, Refusal, emit};
use access::Words;
use address::Addresses;
use atomics::Lacking;
pub(crate) use atomics::{NOT_AT_ONCE, lacks_any as lacks_atomics};
use coop_ir::builder::{FunctionBuilder, Globals, decorate, require_capability};
use coop_ir::effects::ExtSets;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{remove_globals, remove_unused_globals, replace_uses, sort_globals};
use coop_ir::spv::{Decoration, MemoryAccess, MemoryModel, StorageClass};
use coop_ir::types::{Scalar, Type, storage_of};
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use joined::Joined;
use layout::Layout;
use place::Place;

/// Integers of 64 bits: vectors of them have no lowering in memory that others see, but by words.
const LONG: Scalar = Scalar::Int { width: 64, signed: false };

/// A variable that becomes words.
#[derive(Clone, Debug)]
struct Buffer {
    class: StorageClass,
    /// The type of the block.
    block: Id,
    /// The type of the descriptors, if the variable is an array of them.
    descriptors: Option<Id>,
    /// Elements of the array: none for a buffer of any length.
    len: Option<u32>,
    /// Words of an element: uniform memory has elements of 16 bytes.
    words: u32,
    /// True for the storage buffers of before SPIR-V 1.3.
    buffer_block: bool,
    /// True if parts of words are written, here or by a variable with the same binding.
    parts_written: bool,
    /// True for shared memory, which becomes an array without a layout.
    plain: bool,
    /// True for shared memory that had no layout before, and shares its bytes with no other variable.
    own: bool,
}

/// The pass while it runs.
struct Storage {
    layout: Layout,
    buffers: FxHashMap<Id, Buffer>,
    /// The variable of shared memory that stands for all blocks in it.
    shared: Option<Id>,
    addresses: Addresses,
    /// True if memory at addresses is accessed.
    at_addresses: bool,
    places: FxHashMap<Id, Place>,
    /// The value of each load that is gone.
    loaded: FxHashMap<Id, Id>,
    words: Words,
    joined: Joined,
    sets: ExtSets,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    no_untyped_pointers(m)?;
    no_narrow_heaps(m, cx.lacks)?;
    let lacking = atomics::find(m, cx.lacks)?;
    let layout = Layout::new(m, own_types(m, &lacking));
    let mut buffers = find(m, &layout, cx.lacks, &lacking)?;
    let shared = shared::unite(&mut buffers);
    if cx.lacks.shared_layout(m) {
        shared::remove_capabilities(m, cx.lacks);
    }
    let pointees = address::pointees(m, cx.lacks, &lacking.numbers);
    if buffers.is_empty() && pointees.is_empty() {
        return Ok(());
    }
    let vulkan = m.memory_model().is_some_and(|(_, model)| model == MemoryModel::Vulkan);
    let mut g = Globals::new(m);
    let addresses = Addresses::new(m, &mut g, pointees);
    mark_written(m, &layout, &mut buffers, &addresses);
    let words = Words::new(m, &mut g, vulkan);
    let (sets, joined) = (ExtSets::new(m), joined::find(m, &layout, &buffers));
    let (places, loaded) = (FxHashMap::default(), FxHashMap::default());
    let at_addresses = false;
    let mut pass = Storage { layout, buffers, shared, addresses, at_addresses, places, loaded, words, joined, sets };
    pass.retype(m, &mut g);
    no_parameters(m, &pass.buffers)?;
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    let gone: FxHashSet<Id> = pass.places.keys().chain(pass.loaded.keys()).copied().collect();
    remove_globals(m, |m, r| m.inst(r).note_target().is_some_and(|id| gone.contains(&id)));
    replace_uses(m, &pass.loaded);
    pass.report(m, cx);
    shared::leave_one(m, &pass.layout, &pass.buffers, pass.shared);
    remove_unused_globals(m, 0);
    declare_numbers(m, cx.lacks);
    sort_globals(m);
    Ok(())
}

/// Declares the capabilities for the numbers that are taken out of words: capabilities for memory allow less.
fn declare_numbers(m: &mut Module, lacks: Lacks) {
    let narrow = |r: InstRef| Scalar::of_inst(m.inst(r)).filter(|s| s.width() < 32);
    let found: Vec<Scalar> = m.globals.iter().copied().filter_map(narrow).collect();
    for capability in found.into_iter().filter_map(|s| lacks.capability_for(s)) {
        if !m.enables(capability) {
            require_capability(m, capability);
        }
    }
}

/// Refuses pointers without a type, if there are values of such types. Those to descriptors in a heap are kept, as descriptors are.
fn no_untyped_pointers(m: &Module) -> Result<(), Refusal> {
    let untyped = |ty: Id| match Type::of(m, ty) {
        Some(Type::UntypedPointer { storage }) => storage != StorageClass::UniformConstant,
        _ => false,
    };
    match m.all().find(|r| m.inst(*r).ty.is_some_and(untyped)) {
        Some(r) => {
            let why = "pointers without a type have no lowering to words yet";
            Err(Refusal::new(r, why, "declare the type of the memory"))
        }
        None => Ok(()),
    }
}

/// Refuses buffers of descriptors in a heap whose numbers the device can't access: no variable stands for such a buffer.
fn no_narrow_heaps(m: &Module, lacks: Lacks) -> Result<(), Refusal> {
    let mut long_vectors = vectors::made_of();
    for r in m.functions.iter().flat_map(|f| f.insts()).filter(|r| m.inst(*r).op == Op::BufferPointerEXT) {
        let Some(Type::Pointer { storage, pointee }) = m.inst(r).ty.and_then(|ty| Type::of(m, ty)) else { continue };
        let narrow = numbers(m, pointee).into_iter().find(|s| narrow_in(m, lacks, storage, *s));
        let long = Some(LONG).filter(|s| lacks.in_software(m, *s) && long_vectors.any(m, pointee));
        if let Some(s) = narrow.or(long) {
            let why = format!("{s} in a buffer of a descriptor heap has no lowering to words yet");
            return Err(Refusal::new(r, why, "bind the buffer as a variable, or store numbers of 32 bits in it"));
        }
    }
    Ok(())
}

/// Returns true if numbers have less than 32 bits, and the device can't access them in memory of a storage class.
fn narrow_in(m: &Module, lacks: Lacks, memory: StorageClass, s: Scalar) -> bool {
    s.width() < 32 && (lacks.storage(memory, s) || lacks.in_software(m, s))
}

/// Returns the types of the variables of shared memory that become words for their atomic operations.
fn own_types(m: &Module, lacking: &Lacking) -> Vec<Id> {
    let types = lacking.variables.iter().filter_map(|id| Type::of(m, m.type_of(*id)?));
    types
        .filter_map(|ty| match ty {
            Type::Pointer { storage: StorageClass::Workgroup, pointee } => Some(pointee),
            _ => None,
        })
        .collect()
}

/// Finds the variables that become words.
fn find(m: &Module, layout: &Layout, lacks: Lacks, lacking: &Lacking) -> Result<FxHashMap<Id, Buffer>, Refusal> {
    let mut buffers = FxHashMap::default();
    let mut long_vectors = vectors::made_of();
    let mut needing: FxHashMap<StorageClass, MadeOf<'_>> = FxHashMap::default();
    let mut any = MadeOf::numbers(|_, _| true);
    let no_layout = lacks.shared_layout(m);
    for r in m.globals_with(Op::Variable) {
        let i = m.inst(r);
        let Some(Type::Pointer { storage: class, pointee }) = i.ty.and_then(|ty| Type::of(m, ty)) else { continue };
        let (block, descriptors) = match Type::of(m, pointee) {
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => (elem, Some(pointee)),
            _ => (pointee, None),
        };
        let has = |d: Decoration| layout.decorations.has(block, d);
        let buffer_block = has(Decoration::BufferBlock);
        let atomics = i.result.is_some_and(|id| lacking.variables.contains(&id));
        let own = atomics && class == StorageClass::Workgroup && !has(Decoration::Block);
        let (block, descriptors) = if own { (pointee, None) } else { (block, descriptors) };
        // Other memory has no layout that anybody sees.
        if !has(Decoration::Block) && !buffer_block && !own {
            continue;
        }
        let memory = if buffer_block { StorageClass::StorageBuffer } else { class };
        let vectors = lacks.in_software(m, LONG) && long_vectors.any(m, block);
        let needed =
            needing.entry(memory).or_insert_with(|| MadeOf::numbers(move |m, s| narrow_in(m, lacks, memory, s)));
        let plain = own || no_layout && class == StorageClass::Workgroup;
        let refuse = |why: String| Err(Refusal::new(r, why, "use storage buffers, uniform buffers or push constants"));
        if plain && descriptors.is_some() {
            return refuse("an array of blocks in shared memory with an explicit layout".to_owned());
        }
        let whole = plain || atomics || vectors;
        if !(whole && any.any(m, block) || needed.any(m, block)) {
            continue;
        }
        let words = if memory == StorageClass::Uniform { 4 } else { 1 };
        let len = match memory {
            StorageClass::StorageBuffer => None,
            StorageClass::Uniform | StorageClass::PushConstant | StorageClass::Workgroup => {
                let Some(bytes) = layout.block_bytes(m, block) else {
                    return refuse(format!("the size of a block in {memory:?} memory is not known"));
                };
                Some(bytes.div_ceil(4 * words).max(1))
            }
            _ => {
                let narrow = numbers(m, block).into_iter().find(|s| whole || narrow_in(m, lacks, memory, *s));
                let narrow = narrow.map_or_else(String::new, |s| s.to_string());
                return refuse(format!("{narrow} in {memory:?} memory has no lowering"));
            }
        };
        if i.initializer().is_some() {
            return refuse("an initializer of memory that becomes words has no lowering".to_owned());
        }
        let Some(id) = i.result else { continue };
        let parts_written = false;
        buffers.insert(id, Buffer { class, block, descriptors, len, words, buffer_block, parts_written, plain, own });
    }
    Ok(buffers)
}

/// Marks the variables of which parts of words may be written: those to which numbers of less than a word are stored, and
/// those that share memory with them.
fn mark_written(m: &Module, layout: &Layout, buffers: &mut FxHashMap<Id, Buffer>, addresses: &Addresses) {
    let mut written = FxHashSet::default();
    let mut narrow = MadeOf::numbers(|_, s| s.width() < 32);
    m.in_blocks(|_, i| {
        let (target, ty) = match i.copied() {
            Some((target, _)) => (Some(target), pointee(m, target)),
            None if i.op == Op::Store => (i.accessed(), i.stored().and_then(|v| m.type_of(v))),
            None if i.op.is_atomic() => (i.accessed(), i.accessed().and_then(|pointer| pointee(m, pointer))),
            None => return,
        };
        if ty.is_none_or(|ty| narrow.any(m, ty)) {
            let root = target.and_then(|id| coop_ir::pointers::root(m, id, Op::derives_pointer));
            written.extend(root.filter(|root| buffers.contains_key(root)));
        }
    });
    let binding = |id: Id| (layout.decorations.set(id), layout.decorations.binding(id));
    let aliased = |id: Id| layout.decorations.has(id, Decoration::Aliased);
    let bindings: FxHashSet<_> = written.iter().map(|id| binding(*id)).filter(|b| b.1.is_some()).collect();
    let any_aliased = written.iter().any(|id| aliased(*id)) || addresses.buffer.parts_written;
    // Blocks in shared memory overlap.
    let laid_out = |b: &Buffer| b.class == StorageClass::Workgroup && !b.own;
    let shared = buffers.iter().any(|(id, b)| laid_out(b) && written.contains(id));
    for (id, buffer) in buffers {
        let overlaps = bindings.contains(&binding(*id)) || any_aliased && aliased(*id);
        buffer.parts_written = written.contains(id) || overlaps || shared && laid_out(buffer);
    }
}

/// Refuses parameters that are pointers to memory of words.
fn no_parameters(m: &Module, buffers: &FxHashMap<Id, Buffer>) -> Result<(), Refusal> {
    let mut reached: FxHashMap<StorageClass, FxHashSet<Id>> = FxHashMap::default();
    for r in m.functions.iter().flat_map(|f| f.params.iter().copied()) {
        let ty = m.inst(r).ty.and_then(|ty| Type::of(m, ty));
        let Some(Type::Pointer { storage, pointee }) = ty else { continue };
        let of_class = || parts(m, buffers.values().filter(|b| b.class == storage).map(|b| b.block));
        if reached.entry(storage).or_insert_with(|| of_class().into_iter().collect()).contains(&pointee) {
            let why = "a parameter points to memory that is accessed by words";
            return Err(Refusal::new(r, why, "inline the function: spirv-opt --inline-entry-points-exhaustive"));
        }
    }
    Ok(())
}

impl Storage {
    /// Gives each variable its new type, and the decorations that its members had.
    fn retype(&mut self, m: &mut Module, g: &mut Globals) {
        let mut ids: Vec<Id> = self.buffers.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let buffer = &self.buffers[&id];
            let members = match Type::of(m, buffer.block) {
                Some(Type::Struct { members }) => members.len() as u32,
                _ => 0,
            };
            let of_members = |d: Decoration| {
                let has =
                    (0..members).filter(|n| self.layout.decorations.member_has(buffer.block, *n, d)).count() as u32;
                (has > 0, has == members && members > 0)
            };
            let mut new = Vec::new();
            for d in [Decoration::Coherent, Decoration::Volatile, Decoration::NonWritable] {
                let (any, all) = of_members(d);
                let holds = if d == Decoration::NonWritable { all } else { any };
                if holds && !self.layout.decorations.has(id, d) {
                    new.push(d);
                }
            }
            if buffer.plain && !buffer.own {
                // Decorations of the others hold for all of them.
                new.retain(|d| *d != Decoration::NonWritable);
                remove_globals(m, |m, r| {
                    let of = m.inst(r).decoration().filter(|(target, _)| *target == id);
                    of.is_some_and(|(_, d)| shared::ALONE.contains(&d))
                });
            }
            // To write a part of a word is to read the word.
            if buffer.parts_written {
                remove_globals(m, |m, r| m.inst(r).decoration() == Some((id, Decoration::NonReadable)));
            }
            new.into_iter().for_each(|d| decorate(m, id, d, &[]));
            let ty = self.words.variable_type(m, g, buffer);
            if let Some(r) = m.def(id) {
                m.inst_mut(r).ty = Some(ty);
            }
        }
        if !self.addresses.is_empty() {
            let block = self.words.block_type(m, g, &self.addresses.buffer);
            self.addresses.retype(m, g, &self.layout, block);
        }
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        if self.joined.gone.contains(&r) {
            return Ok(());
        }
        let ours = |id: Id| self.buffers.contains_key(&id) || self.places.contains_key(&id);
        if !i.ids().any(ours) && !self.addresses.reaches(b.module, &i) {
            b.keep(r);
            return Ok(());
        }
        if self.sets.is_note(&i) {
            // Debug information about a pointer that is gone.
            if i.ids().all(|id| !self.places.contains_key(&id)) {
                b.keep(r);
            }
            return Ok(());
        }
        if address::compares_pointers(i.op) && self.addresses.reaches(b.module, &i) {
            let why = format!("{} takes device addresses, for which SPIR-V does not have it", i.op);
            return Err(Refusal::new(r, why, "convert the addresses to integers, by OpConvertPtrToU"));
        }
        let remedy = match i.op {
            op if op.is_atomic() => "use atomic operations on numbers of 32 bits or less",
            op if op.is_element_chain() => "decorate the type of the pointer with ArrayStride, or index an array",
            _ => "access the memory directly, by access chains from its variable",
        };
        let refuse = |why: String| Refusal::new(r, why, remedy);
        let done = match i.op {
            op if op.is_typed_access_chain() && self.addresses.reaches(b.module, &i) => self.address(b, r, &i),
            op if op.is_typed_access_chain() => self.chain(b, &i),
            Op::CopyObject => self.copy_of_pointer(b, &i),
            Op::Load => self.load(b, &i),
            Op::Store => match self.joined.runs.remove(&r) {
                Some(stores) => self.store_run(b, &stores),
                None => self.store(b, &i),
            },
            Op::CopyMemory => self.copy(b, &i),
            Op::ArrayLength => self.length(b, &i),
            op if op.is_atomic() => self.atomic(b, &i),
            op if op.is_matrix_access() => self.matrix(b, r, &i),
            op => Err(format!("{op} takes a pointer to memory that is accessed by words, and has no lowering")),
        };
        done.map_err(refuse)
    }

    /// Returns the place that a pointer points to.
    fn place(&self, m: &Module, pointer: Id) -> Option<Place> {
        self.places.get(&pointer).cloned().or_else(|| {
            let buffer = self.buffers.get(&pointer)?;
            let variable = self.shared.filter(|_| buffer.plain && !buffer.own).unwrap_or(pointer);
            Some(Place::new(m, variable, buffer.descriptors.is_some(), buffer.block))
        })
    }

    fn chain(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let (Some(chain), Some(result)) = (i.access_chain(), i.result) else { return Ok(()) };
        let Some(mut place) = self.place(b.module, chain.base) else { return Ok(()) };
        place.follow(b.module, &self.layout, i)?;
        if pointee(b.module, result) != Some(place.at.ty) {
            return Err(format!("{} does not give a pointer to what its indices select", i.op));
        }
        let non_uniform = |id: Id| self.layout.decorations.has(id, Decoration::NonUniform);
        place.non_uniform |= non_uniform(result) || non_uniform(chain.base);
        self.places.insert(result, place);
        Ok(())
    }

    fn copy_of_pointer(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        if let (Some(result), Some(place)) = (i.result, i.copy_source().and_then(|id| self.place(b.module, id))) {
            self.places.insert(result, place);
        }
        Ok(())
    }

    /// Returns the place and the memory that a pointer points to, for an access with memory operands.
    fn target(&mut self, b: &mut FunctionBuilder<'_>, pointer: Id, memory: &[Operand]) -> Option<(Place, Buffer)> {
        if let Some(place) = self.place(b.module, pointer) {
            let buffer = self.buffers.get(&place.variable)?.clone();
            return Some((place, buffer));
        }
        let place = self.addresses.place(b, pointer, memory)?;
        self.at_addresses = true;
        Some((place, self.addresses.buffer.clone()))
    }

    fn load(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let (Some(pointer), Some(result)) = (i.accessed(), i.result) else { return Ok(()) };
        let memory = memory(i, 1);
        let Some((place, buffer)) = self.target(b, pointer, &memory) else { return Ok(()) };
        let value = self.words.load(b, &self.layout, &buffer, &place, memory)?;
        self.loaded.insert(result, value);
        Ok(())
    }

    fn store(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let (Some(pointer), Some(value)) = (i.accessed(), i.stored()) else { return Ok(()) };
        let memory = memory(i, 2);
        let Some((place, buffer)) = self.target(b, pointer, &memory) else {
            return Err("a pointer to memory that is accessed by words is stored".to_owned());
        };
        self.words.store(b, &self.layout, &buffer, &place, value, memory)
    }

    /// A copy of memory is a load and a store.
    fn copy(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let (Some((target, source)), Some(at)) = (i.copied(), i.memory_operands_at()) else { return Ok(()) };
        let of_target = MemoryOperands::at(i, at);
        let both = of_target.end >= i.operands.len();
        if both && of_target.mask.intersects(MemoryAccess::MakePointerAvailable | MemoryAccess::MakePointerVisible) {
            return Err("a copy with memory operands that make available or visible, for both sides,".to_owned()
                + " has no lowering to words yet");
        }
        let to = i.operands.get(at..of_target.end).unwrap_or_default().to_vec();
        let from = if both { to.clone() } else { memory(i, of_target.end) };
        let value = match self.target(b, source, &from) {
            Some((place, buffer)) => self.words.load(b, &self.layout, &buffer, &place, from)?,
            None => {
                let Some(ty) = pointee(b.module, source) else { return Ok(()) };
                let from = of_memory(b.module, source, from);
                b.op(Op::Load, ty, [source.into()].into_iter().chain(from))
            }
        };
        match self.target(b, target, &to) {
            Some((place, buffer)) => self.words.store(b, &self.layout, &buffer, &place, value, to),
            None => {
                // The two sides may be laid out differently.
                let (have, want) = (b.module.type_of(value), pointee(b.module, target));
                let value = match want {
                    Some(want) if have != Some(want) => b.ids(Op::CopyLogical, want, &[value]),
                    _ => value,
                };
                let to = of_memory(b.module, target, to);
                b.effect(Op::Store, [target, value].map(Operand::Id).into_iter().chain(to));
                Ok(())
            }
        }
    }

    fn length(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let (Some(pointer), Some(member), Some(result)) = (i.ids().next(), i.operands.last(), i.result) else {
            return Ok(());
        };
        let Some((place, buffer)) = self.target(b, pointer, &[]) else { return Ok(()) };
        let value = self.words.length(b, &self.layout, &buffer, &place, member.word())?;
        self.loaded.insert(result, value);
        Ok(())
    }

    fn atomic(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Result<(), String> {
        let target = i.accessed().and_then(|pointer| self.target(b, pointer, &[]));
        let Some((place, buffer)) = target else {
            return Err("an atomic operation takes a pointer as a value".to_owned());
        };
        let value = self.words.atomic(b, &self.layout, &buffer, &place, i)?;
        self.loaded.extend(i.result.zip(value));
        Ok(())
    }

    fn report(&self, m: &Module, cx: &mut Cx<'_>) {
        let mut ids: Vec<(&Id, &Buffer)> = self.buffers.iter().collect();
        ids.sort_unstable_by_key(|(id, _)| **id);
        for (id, buffer) in ids {
            let decorations = &self.layout.decorations;
            let name = decorations.name(m, *id).or_else(|| decorations.name(m, buffer.block));
            let name = name.map_or_else(String::new, |name| format!(" {name}"));
            let at = decorations.binding(*id).map_or_else(String::new, |binding| {
                format!(" at set {}, binding {binding}", decorations.set(*id).unwrap_or(0))
            });
            let variable = format!("{:?} memory{name}{at}", buffer.class);
            cx.report.software.push(Software::Words { variable, atomics: buffer.parts_written });
            cx.report.whole_words |= buffer.len.is_none();
        }
        if self.at_addresses {
            let atomics = self.addresses.buffer.parts_written;
            cx.report.software.push(Software::Words { variable: "memory at device addresses".to_owned(), atomics });
            cx.report.whole_words = true;
        }
    }
}

/// Returns the type that a pointer points to.
fn pointee(m: &Module, pointer: Id) -> Option<Id> {
    match Type::of(m, m.type_of(pointer)?)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}

/// Returns the memory operands of an access.
fn memory(i: &Inst, at: usize) -> Vec<Operand> {
    i.operands.get(at..).unwrap_or_default().to_vec()
}

/// Returns the memory operands of an access of memory that stays as it is: those of an invocation's own say nothing.
fn of_memory(m: &Module, pointer: Id, memory: Vec<Operand>) -> Vec<Operand> {
    match storage_of(m, pointer) {
        Some(StorageClass::Function | StorageClass::Private) => Vec::new(),
        _ => memory,
    }
}
