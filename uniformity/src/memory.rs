//! Memory outside of the invocation: the objects that nothing writes, and the writes of shared memory between barriers.

use super::inst_flags::InstFlags;
use super::instructions::is_followed_chain;
use super::loads::LoadModes;
use super::program::Program;
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::effects::{self, ExtSets, Written};
use coop_ir::grammar::{Class, Op};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module};

/// Returns the storage class of a pointer type.
pub(super) fn storage(module: &Module, ty: Id) -> Option<StorageClass> {
    match Type::of(module, ty)? {
        Type::Pointer { storage, .. } | Type::UntypedPointer { storage } => Some(storage),
        _ => None,
    }
}

/// The memory that a module writes.
pub(super) struct Writes {
    /// The variables that an instruction writes.
    variables: FxHashSet<Id>,
    /// The storage classes in which an instruction writes something that is not a known variable.
    anywhere: FxHashSet<StorageClass>,
    /// The descriptors of written variables.
    slots: FxHashSet<(u32, u32)>,
    /// True if a written variable may alias another one.
    aliased: bool,
    /// Instructions that write shared memory, with the variable if it is known.
    shared: Vec<(InstRef, Option<Id>)>,
    /// The shared variables that callbacks write.
    loose: FxHashSet<Option<Id>>,
    pub(super) images: bool,
    /// True if an instruction is atomic on memory that others than a workgroup see.
    pub(super) atomics: bool,
    /// How memory is read.
    pub(super) load_modes: LoadModes,
}

/// The storage class of a pointer whose type is not known: not a storage class at all.
pub(super) const UNKNOWN_CLASS: StorageClass = StorageClass(u32::MAX);

const BUFFER: StorageClass = StorageClass::StorageBuffer;
const PHYSICAL: StorageClass = StorageClass::PhysicalStorageBuffer;
const SHARED: StorageClass = StorageClass::Workgroup;
const UNIFORM: StorageClass = StorageClass::Uniform;

impl Writes {
    /// `callbacks` are the functions that instructions call implicitly.
    pub(super) fn new(module: &Module, decorations: &Decorations, sets: &ExtSets, callbacks: &[usize]) -> Writes {
        let mut this = Writes {
            variables: FxHashSet::default(),
            anywhere: FxHashSet::default(),
            slots: FxHashSet::default(),
            aliased: false,
            shared: Vec::new(),
            loose: FxHashSet::default(),
            images: false,
            atomics: false,
            load_modes: LoadModes::new(module),
        };
        for (i, f) in module.functions.iter().enumerate() {
            let first = this.shared.len();
            for r in f.blocks.iter().flat_map(|b| b.insts.iter().copied()) {
                let inst = module.inst(r);
                if inst.op != Op::ImageTexelPointer && !effects::may_touch_memory(inst.op) {
                    continue;
                }
                match sets.written(module, inst) {
                    Written::Nothing | Written::Output => this.images |= inst.op == Op::ImageTexelPointer,
                    Written::Through(pointer) => this.write(module, decorations, r, pointer),
                    Written::Image => this.images = true,
                    Written::Anything => {
                        this.images = true;
                        this.anywhere.insert(UNKNOWN_CLASS);
                        this.shared.push((r, None));
                    }
                }
                if effects::orders_memory(inst.op) && inst.op.info().is_none_or(|i| i.class == Class::Atomic) {
                    let class = inst.id(0).and_then(|p| types::storage_of(module, p));
                    this.atomics |= class != Some(SHARED);
                }
            }
            if callbacks.binary_search(&i).is_ok() {
                this.loose.extend(this.shared[first..].iter().map(|w| w.1));
            }
        }
        this.shared.sort_unstable();
        this
    }

    fn write(&mut self, module: &Module, decorations: &Decorations, at: InstRef, pointer: Id) {
        let class = module.type_of(pointer).and_then(|t| storage(module, t)).unwrap_or(UNKNOWN_CLASS);
        if matches!(class, StorageClass::Function | StorageClass::Private) {
            return;
        }
        let root = root(module, pointer);
        match root {
            Some(id) => {
                self.variables.insert(id);
                self.aliased |= decorations.has(id, Decoration::Aliased);
                if let (Some(set), Some(binding)) = (decorations.set(id), decorations.binding(id)) {
                    self.slots.insert((set, binding));
                }
            }
            None => drop(self.anywhere.insert(class)),
        }
        if class == SHARED || class == UNKNOWN_CLASS || class == StorageClass::Generic {
            self.shared.push((at, root));
        }
    }

    /// Returns true if nothing in the module writes what a pointer of this class, into this variable, points to.
    pub(super) fn read_only(
        &self,
        module: &Module,
        decorations: &Decorations,
        class: StorageClass,
        root: Option<Id>,
    ) -> bool {
        match class {
            StorageClass::PushConstant | StorageClass::UniformConstant | StorageClass::ShaderRecordBufferKHR => {
                return true;
            }
            StorageClass::Uniform | StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer => {}
            StorageClass::Workgroup | StorageClass::CrossWorkgroup => {
                return root.is_some_and(|id| !self.variables.contains(&id)) && !self.anywhere(class);
            }
            _ => return false,
        }
        let Some(id) = root else {
            // An address may lead to any buffer.
            let buffers = [BUFFER, UNIFORM, PHYSICAL];
            let written = |id: &Id| {
                let class = module.type_of(*id).and_then(|t| storage(module, t));
                class.is_some_and(|c| buffers.contains(&c))
            };
            return !buffers.iter().any(|c| self.anywhere(*c)) && !self.variables.iter().any(written);
        };
        let slot = decorations.set(id).zip(decorations.binding(id));
        let same_slot = slot.is_some_and(|s| self.slots.contains(&s));
        let alias = self.aliased && decorations.has(id, Decoration::Aliased);
        if not_writable(module, decorations, id) {
            // Another variable may be the same buffer, and be written.
            return !same_slot && !alias;
        }
        let uniform_block = class == UNIFORM && !is_buffer_block(module, decorations, id);
        uniform_block
            || !(self.variables.contains(&id) || same_slot || alias || self.anywhere(class) || self.anywhere(PHYSICAL))
    }

    fn anywhere(&self, class: StorageClass) -> bool {
        self.anywhere.contains(&class) || self.anywhere.contains(&UNKNOWN_CLASS)
    }

    /// Returns the number of instructions that may write each shared variable. The key `None` counts those whose
    /// variable is not known.
    pub(super) fn shared_counts(&self) -> FxHashMap<Option<Id>, u32> {
        let mut counts = FxHashMap::default();
        self.shared.iter().for_each(|w| *counts.entry(w.1).or_default() += 1);
        counts
    }

    /// Returns the instructions that write shared memory.
    pub(super) fn shared(&self) -> impl Iterator<Item = InstRef> + '_ {
        self.shared.iter().map(|w| w.0)
    }
}

/// Returns the variable at the root of a chain of accesses.
pub(super) fn root(module: &Module, pointer: Id) -> Option<Id> {
    // A bit cast may lead to another view of the same variable.
    let views = |op: Op| op.is_copy() || matches!(op, Op::ImageTexelPointer | Op::Bitcast);
    let root = pointers::root(module, pointer, |op| is_followed_chain(op) || views(op))?;
    module.def_inst(root)?.op.is_variable().then_some(root)
}

pub(super) fn pointee(module: &Module, variable: Id) -> Option<Id> {
    let mut ty = match Type::of(module, module.type_of(variable)?)? {
        Type::Pointer { pointee, .. } => pointee,
        _ => module.def_inst(variable)?.id(1)?,
    };
    // Arrays of blocks.
    for _ in 0..8 {
        match Type::of(module, ty)? {
            Type::Array { elem, .. } | Type::RuntimeArray { elem } => ty = elem,
            _ => break,
        }
    }
    Some(ty)
}

fn not_writable(module: &Module, decorations: &Decorations, variable: Id) -> bool {
    if decorations.has(variable, Decoration::NonWritable) {
        return true;
    }
    let Some(ty) = pointee(module, variable) else { return false };
    match Type::of(module, ty) {
        Some(Type::Struct { members }) if !members.is_empty() => {
            (0..members.len() as u32).all(|m| decorations.member_has(ty, m, Decoration::NonWritable))
        }
        _ => false,
    }
}

fn is_buffer_block(module: &Module, decorations: &Decorations, variable: Id) -> bool {
    pointee(module, variable).is_none_or(|ty| decorations.has(ty, Decoration::BufferBlock))
}

/// Returns true for barriers at which a whole workgroup waits.
pub(super) fn is_workgroup_barrier(inst: &Inst, constants: &Constants) -> bool {
    inst.op == Op::ControlBarrier
        && inst.scope_operand().and_then(|s| constants.get(s).value()).is_some_and(|scope| scope <= 2)
}

/// The points that a write of one shared variable reaches without a barrier of the workgroup in between.
struct Reach {
    /// For the beginning of each point, true if an earlier write reaches it.
    forward: Vec<bool>,
    /// For the end of each point, true if a later write reaches it backward.
    backward: Vec<bool>,
}

/// The positions of the writes of shared variables relative to barriers.
pub(super) struct Intervals<'a> {
    program: &'a Program<'a>,
    writes: &'a Writes,
    /// The barriers and the writes of shared memory: the point, the position in it, and the variable of a write.
    events: Vec<Event>,
    cache: FxHashMap<Option<Id>, Reach>,
}

struct Event {
    point: u32,
    place: u32,
    /// `None` for a barrier.
    write: Option<Option<Id>>,
}

impl Event {
    fn writes(&self, variable: Option<Id>) -> bool {
        self.write.is_some_and(|to| to.is_none() || variable.is_none() || to == variable)
    }
}

impl<'a> Intervals<'a> {
    pub(super) fn new(
        program: &'a Program<'a>,
        constants: &'a Constants,
        writes: &'a Writes,
        marks: &InstFlags,
    ) -> Intervals<'a> {
        let mut events = Vec::new();
        // A call that is not followed may write anything.
        let unfollowed = |r: &InstRef| program.unfollowed.iter().any(|c| c.0 == *r);
        let is_event = |r: &InstRef| marks.is_event(*r) || unfollowed(r);
        if !writes.shared.is_empty() {
            for point in 0..program.points.len() as u32 {
                for (place, r) in program.insts(point).iter().enumerate() {
                    if !is_event(r) {
                        continue;
                    }
                    let inst = program.module.inst(*r);
                    let write = writes.shared.binary_search_by_key(r, |w| w.0).ok().map(|i| writes.shared[i].1);
                    let write = write.or_else(|| unfollowed(r).then_some(None));
                    if write.is_some() || is_workgroup_barrier(inst, constants) {
                        events.push(Event { point, place: place as u32, write });
                    }
                }
            }
        }
        Intervals { program, writes, events, cache: FxHashMap::default() }
    }

    fn of(&self, point: u32) -> &[Event] {
        let from = self.events.partition_point(|e| e.point < point);
        let to = self.events.partition_point(|e| e.point <= point);
        &self.events[from..to]
    }

    /// Returns true if a write of the variable (of any, if it is not known) may happen between the same two barriers as
    /// an instruction at a position of a point.
    pub(super) fn written_beside(&mut self, point: u32, place: usize, variable: Option<Id>) -> bool {
        let loose = &self.writes.loose;
        if !loose.is_empty() && (variable.is_none() || loose.contains(&variable) || loose.contains(&None)) {
            return true;
        }
        if !self.cache.contains_key(&variable) {
            let reach = self.reach(variable);
            self.cache.insert(variable, reach);
        }
        let reach = &self.cache[&variable];
        let events = self.of(point);
        let decides = |e: &&Event| e.write.is_none() || e.writes(variable);
        let before = events.iter().rev().filter(|e| (e.place as usize) < place).find(decides);
        let after = events.iter().filter(|e| e.place as usize > place).find(decides);
        before.map_or(reach.forward[point as usize], |e| e.write.is_some())
            || after.map_or(reach.backward[point as usize], |e| e.write.is_some())
    }

    fn reach(&self, variable: Option<Id>) -> Reach {
        let program = self.program;
        let count = program.points.len();
        // For each point: true if a write is open at its end, at its beginning, and if it has a barrier.
        let mut barrier = vec![false; count];
        let (mut after, mut before) = (vec![false; count], vec![false; count]);
        for e in &self.events {
            let s = e.point as usize;
            if e.write.is_none() {
                (barrier[s], after[s]) = (true, false);
            } else if e.writes(variable) {
                after[s] = true;
                before[s] |= !barrier[s];
            }
        }
        let spread = |seeds: &[bool], next: &dyn Fn(u32, &mut Vec<u32>)| {
            let mut reached = vec![false; count];
            let mut work: Vec<u32> = (0..count as u32).filter(|s| seeds[*s as usize]).collect();
            let mut to = Vec::new();
            while let Some(s) = work.pop() {
                next(s, &mut to);
                for to in to.drain(..) {
                    if !std::mem::replace(&mut reached[to as usize], true) && !barrier[to as usize] {
                        work.push(to);
                    }
                }
            }
            reached
        };
        let forward = spread(&after, &|s, to| to.extend(program.out(s).map(|e| program.edge(e).to)));
        let backward = spread(&before, &|s, to| to.extend(program.into(s).iter().map(|e| program.edge(*e).from)));
        Reach { forward, backward }
    }
}
