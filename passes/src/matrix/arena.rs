//! The shared memory that a lowering adds: one array through which invocations exchange elements.
//!
//! # Invariants
//!
//! 1. There is one array for everything, of `uvec4` (a *quad*, 16 bytes), so that it serves every component type and is
//!    written 4 or 16 bytes at a time. Nothing writes less than a word: who writes an element of 8 or 16 bits has its
//!    neighbours in the word too. Matrices are loaded from quads, with strides counted in quads.
//! 2. It has a zone for the whole workgroup, at its beginning, and behind that one part for each subgroup, all equally
//!    long. So what subgroups do by themselves, at different times, never overlaps what the workgroup does.
//! 3. A [`Region`] is a range of a zone, at the same place in every part, and known when code is made. Those that are
//!    taken at the same time don't overlap; those taken one after the other (between [`Arena::mark`] and
//!    [`Arena::release`]) do. "At the same time" is a matter of the code that is made, from the first write to the last
//!    read. A function that is made once and called from several places keeps its regions, whatever is taken between
//!    the calls: so what must live across calls is *resident* ([`Arena::take_resident`]), and lies behind all regions
//!    that are given back.
//! 4. So between the last read of one region and the first write to the next there must be a barrier of the zone's
//!    scope, as between writing and reading by others. The convention is that who takes a region has a
//!    [`Arena::barrier`] *before its first write* and one between writing and reading; nobody has one after reading.
//!    That is sound at the beginning of the program too, and in loops.
//! 5. Barriers of a zone stand only where all invocations of its scope arrive.
//! 6. The length of the array, of a part, and where the parts begin are constants that [`Arena::finish`] fills in.
//! 7. Blocks in shared memory (SPV_KHR_workgroup_memory_explicit_layout) all begin at its beginning: beside such blocks
//!    the array is one more, at an offset behind them.
//! 8. What the module's own Workgroup variables take, the workgroup's zone and the parts of all subgroups are together
//!    not more than the device has: a region that would not fit is refused when it is taken, with the numbers.
//!    [`Arena::room`] tells beforehand, so that cheaper plans (slices) can be chosen.

use crate::builtins::add_to_interfaces;
use crate::device::is_nvidia;
use crate::kernel::is_kernel;
use crate::matrix::barrier;
use crate::matrix::bits::{gather, part, split_value};
use crate::{Cause, Refusal};
use coop_device::Profile;
use coop_ir::builder::{FunctionBuilder, Globals, Index, add_global, decorate, name};
use coop_ir::constant::{Const, Constants};
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Capability, Decoration, Scope, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Bytes of a quad.
pub(crate) const QUAD: u32 = 16;

/// Bytes that every Vulkan device has at least; what is assumed where no device is named.
const PORTABLE: u32 = 16384;

/// Shared memory with which two workgroups run on a multiprocessor of an H200 at a time. 24,576 bytes still do, half of 48 KB,
/// and 25,600 do not (docs/performance.md).
pub(crate) const TWO_WORKGROUPS: u32 = 49_152 / 2 - 1024;

/// The invocations that share a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Zone {
    /// The invocations of the workgroup.
    Workgroup,
    /// The invocations of a subgroup: each subgroup has one.
    Subgroup,
}

impl Zone {
    /// The zone of matrices of a scope.
    pub(crate) fn of_scope(workgroup: bool) -> Zone {
        if workgroup { Zone::Workgroup } else { Zone::Subgroup }
    }

    fn scope(self) -> Scope {
        match self {
            Zone::Workgroup => Scope::Workgroup,
            Zone::Subgroup => Scope::Subgroup,
        }
    }
}

/// A range of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Region {
    /// The invocations that share it.
    pub(crate) zone: Zone,
    /// Its first quad, counted from the beginning of the zone or part.
    pub(crate) at: u32,
    /// The length in quads.
    pub(crate) quads: u32,
    /// True if it is never given back: it begins behind all that are.
    resident: bool,
}

impl Region {
    /// A number that no other region of the zone has, for the keys of functions that are made for a region.
    pub(crate) fn key(self) -> u32 {
        self.at << 1 | u32::from(self.resident)
    }
}

/// The type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Elem {
    /// The component type.
    pub(crate) scalar: Scalar,
    /// Its id.
    pub(crate) ty: Id,
}

#[derive(Clone, Copy, Default, Debug)]
struct Use {
    /// Quads that are taken now.
    now: u32,
    /// The most that ever were.
    most: u32,
    /// Quads of resident regions, which lie behind the others.
    resident: u32,
    /// The constant that is `most`, which is known at the end.
    residents_at: Option<Id>,
}

impl Use {
    /// The quads of the zone or part.
    fn quads(&self) -> u32 {
        self.most + self.resident
    }
}

/// The amount taken at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    workgroup: u32,
    subgroup: u32,
}

/// The array.
#[derive(Debug)]
pub(crate) struct Arena {
    workgroup: Use,
    subgroup: Use,
    /// Subgroups of a workgroup; 0 where that is not known.
    subgroups: u32,
    /// Bytes of the module's own variables.
    own: u32,
    /// True if these are blocks, with an explicit layout.
    blocks: bool,
    /// Bytes of the device.
    limit: u32,
    /// True if that is less than the device has.
    lean: bool,
    /// True if two workgroups run on a multiprocessor where each takes no more than [`TWO_WORKGROUPS`].
    runs_two: bool,
    device: Option<String>,
    /// True if the module has the Vulkan memory model.
    model: bool,
    /// True if it is one of kernels.
    kernel: bool,
    variable: Option<Id>,
    part_length: Option<Id>,
    parts_at: Option<Id>,
}

impl Arena {
    /// For a module whose workgroups have `subgroups` subgroups (`None`: not known, so nothing of the zone of
    /// subgroups can be taken).
    pub(crate) fn new(m: &Module, constants: &Constants, profile: Option<&Profile>, subgroups: Option<u32>) -> Arena {
        let own = OwnMemory::new(m, constants);
        Arena {
            workgroup: Use::default(),
            subgroup: Use::default(),
            subgroups: subgroups.unwrap_or(0),
            own: own.bytes(),
            blocks: own.blocks,
            limit: profile.map_or(PORTABLE, |p| p.limits.max_compute_shared_memory_size),
            lean: false,
            runs_two: is_nvidia(profile),
            device: profile.map(|p| p.name.clone()),
            kernel: is_kernel(m),
            model: m.has_capability(Capability::VulkanMemoryModel),
            variable: None,
            part_length: None,
            parts_at: None,
        }
    }

    /// The bytes that can still be taken from a zone: of each part, where it is that of subgroups.
    pub(crate) fn room(&self, zone: Zone) -> u32 {
        self.room_within(self.limit, zone)
    }

    /// The bytes that resident regions can still have of a zone.
    pub(crate) fn room_for_residents(&self, zone: Zone) -> u32 {
        self.room_beside(self.limit, zone, self.usage(zone).quads())
    }

    /// Takes no more than this many bytes, though the device has more, and of these at most half for what goes in batches.
    pub(crate) fn limit_to(&mut self, bytes: u32) {
        self.limit = self.limit.min(bytes);
        self.lean = true;
    }

    /// The bytes that a batch may have of a zone: more batches take more time, and less memory. No batch is worth a workgroup that
    /// runs beside.
    pub(crate) fn room_for_batch(&self, zone: Zone) -> u32 {
        let room = self.room(zone);
        let quads = self.subgroup.quads().saturating_mul(self.subgroups).saturating_add(self.workgroup.quads());
        let taken = quads.saturating_mul(QUAD).saturating_add(self.own);
        if self.lean {
            room.min(self.limit / 2)
        } else if self.runs_two && taken <= TWO_WORKGROUPS {
            room.min(self.room_within(TWO_WORKGROUPS, zone))
        } else {
            room
        }
    }

    /// The bytes that a subgroup may have for what it fetches ahead: the rest is for what has to be staged.
    pub(crate) fn room_for_ahead(&self) -> u32 {
        let room = self.room(Zone::Subgroup);
        if self.lean { room / 4 * 3 } else { room / 2 }
    }

    /// The bytes that can still be taken of a zone if the module may have `limit`.
    fn room_within(&self, limit: u32, zone: Zone) -> u32 {
        let usage = self.usage(zone);
        self.room_beside(limit, zone, usage.now + usage.resident)
    }

    fn room_beside(&self, limit: u32, zone: Zone, used: u32) -> u32 {
        let total = limit.saturating_sub(self.own) / QUAD;
        let quads = match zone {
            Zone::Workgroup => total.saturating_sub(self.subgroup.quads().saturating_mul(self.subgroups)),
            Zone::Subgroup => total.saturating_sub(self.workgroup.quads()).checked_div(self.subgroups).unwrap_or(0),
        };
        quads.saturating_sub(used).saturating_mul(QUAD)
    }

    fn usage(&self, zone: Zone) -> &Use {
        match zone {
            Zone::Workgroup => &self.workgroup,
            Zone::Subgroup => &self.subgroup,
        }
    }

    fn usage_mut(&mut self, zone: Zone) -> &mut Use {
        match zone {
            Zone::Workgroup => &mut self.workgroup,
            Zone::Subgroup => &mut self.subgroup,
        }
    }

    /// Takes a region. `at` is the instruction that needs it, and `what` what for.
    pub(crate) fn take(&mut self, at: InstRef, what: &str, zone: Zone, bytes: u32) -> Result<Region, Refusal> {
        let room = self.room(zone);
        if bytes > room {
            return Err(self.too_large(at, what, zone, bytes, room));
        }
        let quads = bytes.div_ceil(QUAD);
        let usage = self.usage_mut(zone);
        let region = Region { zone, at: usage.now, quads, resident: false };
        usage.now += quads;
        usage.most = usage.most.max(usage.now);
        Ok(region)
    }

    /// Takes a region for good. It overlaps no other, whichever function takes that and whenever: functions that are
    /// made before use what [`Arena::take`] gave them when they are called afterwards too.
    pub(crate) fn take_resident(&mut self, at: InstRef, what: &str, zone: Zone, bytes: u32) -> Result<Region, Refusal> {
        let room = self.room_for_residents(zone);
        if bytes > room {
            return Err(self.too_large(at, what, zone, bytes, room));
        }
        let quads = bytes.div_ceil(QUAD);
        let usage = self.usage_mut(zone);
        let region = Region { zone, at: usage.resident, quads, resident: true };
        usage.resident += quads;
        Ok(region)
    }

    fn too_large(&self, at: InstRef, what: &str, zone: Zone, bytes: u32, room: u32) -> Refusal {
        if zone == Zone::Subgroup && self.subgroups == 0 {
            let why = format!("{what} needs shared memory for each subgroup, and how many there are is not known");
            let remedy = if self.kernel {
                "say how large the workgroups are (--local-size X,Y,Z), or for which device (--profile NAME)"
            } else {
                "give the spec constants of the workgroup's size with --spec, and --profile or --subgroup-size"
            };
            return Refusal::new("refused-unknown-size", Some(at), why, remedy);
        }
        if self.own == u32::MAX {
            let why = format!("{what} needs shared memory behind the module's own blocks, whose length is not known");
            let remedy = "give the spec constants of their lengths with --spec";
            return Refusal::new("refused-unknown-size", Some(at), why, remedy);
        }
        let device = match &self.device {
            Some(name) => format!("{name} has {}", self.limit),
            None => format!("a device need not have more than {}", self.limit),
        };
        let each = match zone {
            Zone::Workgroup => String::new(),
            Zone::Subgroup => format!(" for each of {} subgroups", self.subgroups),
        };
        let why = format!(
            "{what} needs {bytes} bytes of shared memory{each}; {device}, the module itself takes {}, and {room} are left",
            self.own
        );
        let remedy = if self.device.is_some() {
            "use smaller matrices, fewer subgroups or less shared memory"
        } else {
            "name the device with --profile"
        };
        Refusal::new("refused-shared-memory", Some(at), why, remedy).caused_by(Cause::OutOfSharedMemory)
    }

    /// Returns true if the module's own shared memory is blocks, which all begin at its beginning.
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks
    }

    /// Returns the bytes of the module's own variables, a multiple of [`QUAD`].
    pub(crate) fn own_bytes(&self) -> u32 {
        self.own
    }

    /// Returns the amount taken now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { workgroup: self.workgroup.now, subgroup: self.subgroup.now }
    }

    /// Gives back what was taken since.
    pub(crate) fn release(&mut self, mark: Mark) {
        (self.workgroup.now, self.subgroup.now) = (mark.workgroup, mark.subgroup);
    }

    /// The quad at which a region begins. `part` is the number of the invocation's subgroup in the workgroup; a region
    /// of the workgroup needs none.
    pub(crate) fn begin(&mut self, b: &mut FunctionBuilder<'_>, region: Region, part: Option<Index>) -> Index {
        let mut at = Index::Const(region.at);
        if region.resident {
            let usage = self.usage_mut(region.zone);
            let first = *usage.residents_at.get_or_insert_with(|| b.module.fresh_id());
            at = b.add(Index::Value(first), at);
        }
        let part = match (region.zone, part) {
            (Zone::Subgroup, Some(part)) => part,
            (Zone::Subgroup, None) => unreachable!("whoever takes a region of subgroups knows the subgroup"),
            (Zone::Workgroup, _) => return at,
        };
        let length = *self.part_length.get_or_insert_with(|| b.module.fresh_id());
        let parts_at = *self.parts_at.get_or_insert_with(|| b.module.fresh_id());
        let offset = b.mul(part, Index::Value(length));
        let begin = b.add(offset, Index::Value(parts_at));
        b.add(begin, at)
    }

    fn variable(&mut self, m: &mut Module) -> Id {
        *self.variable.get_or_insert_with(|| m.fresh_id())
    }

    /// Returns the pointer for loads and stores of a matrix at a quad: its stride is in quads, or in components in kernels, whose
    /// compilers count those whatever the pointer points to.
    pub(crate) fn matrix_pointer(&mut self, b: &mut FunctionBuilder<'_>, quad: Index, elem: Elem) -> Id {
        let pointer = self.quad_pointer(b, quad);
        if !self.kernel {
            return pointer;
        }
        let ty = b.globals.pointer(b.module, StorageClass::Workgroup, elem.ty);
        b.ids(Op::Bitcast, ty, &[pointer])
    }

    /// Returns the number of pointees of such a pointer in a quad.
    pub(crate) fn units_of_quad(&self, elem: Elem) -> u32 {
        if self.kernel { QUAD / elem.scalar.bytes() } else { 1 }
    }

    /// Returns a pointer into the array.
    fn pointer(&mut self, b: &mut FunctionBuilder<'_>, pointee: Id, indices: &[Index]) -> Id {
        let array = self.variable(b.module);
        let pointer = b.globals.pointer(b.module, StorageClass::Workgroup, pointee);
        let member = self.blocks.then_some(Index::Const(0));
        let indices: Vec<Id> = member.iter().chain(indices).map(|i| b.index(*i)).collect();
        b.ids(Op::AccessChain, pointer, &[&[array], indices.as_slice()].concat())
    }

    fn quad_pointer(&mut self, b: &mut FunctionBuilder<'_>, quad: Index) -> Id {
        let u32_type = b.u32_type();
        let quad_type = b.globals.vector(b.module, u32_type, 4);
        self.pointer(b, quad_type, &[quad])
    }

    /// The memory operands of loads and stores.
    pub(crate) fn access_operands(&self) -> Vec<Operand> {
        barrier::access_operands(self.model)
    }

    /// Word `word` of the array, counted from its beginning (four to a quad).
    pub(crate) fn load_word(&mut self, b: &mut FunctionBuilder<'_>, word: Index) -> Id {
        let (quad, part) = (b.div(word, 4), b.rem(word, 4));
        self.load_part(b, quad, part)
    }

    /// Writes a word.
    pub(crate) fn store_word(&mut self, b: &mut FunctionBuilder<'_>, word: Index, value: Id) {
        let (quad, part) = (b.div(word, 4), b.rem(word, 4));
        self.store_part(b, quad, part, value);
    }

    /// Reads word `part` of a quad.
    pub(crate) fn load_part(&mut self, b: &mut FunctionBuilder<'_>, quad: Index, part: Index) -> Id {
        let u32_type = b.u32_type();
        let pointer = self.pointer(b, u32_type, &[quad, part]);
        let operands = self.access_operands();
        b.op(Op::Load, u32_type, [Operand::Id(pointer)].into_iter().chain(operands))
    }

    /// Writes word `part` of a quad.
    pub(crate) fn store_part(&mut self, b: &mut FunctionBuilder<'_>, quad: Index, part: Index, value: Id) {
        let u32_type = b.u32_type();
        let pointer = self.pointer(b, u32_type, &[quad, part]);
        let operands = self.access_operands();
        b.effect(Op::Store, [pointer, value].map(Operand::Id).into_iter().chain(operands));
    }

    /// Writes a quad, given as a vector of four words.
    pub(crate) fn store_quad(&mut self, b: &mut FunctionBuilder<'_>, quad: Index, value: Id) {
        let pointer = self.quad_pointer(b, quad);
        let operands = self.access_operands();
        b.effect(Op::Store, [pointer, value].map(Operand::Id).into_iter().chain(operands));
    }

    /// Reads a quad as a vector of four words.
    pub(crate) fn load_quad(&mut self, b: &mut FunctionBuilder<'_>, quad: Index) -> Id {
        let pointer = self.quad_pointer(b, quad);
        let u32_type = b.u32_type();
        let ty = b.globals.vector(b.module, u32_type, 4);
        let operands = self.access_operands();
        b.op(Op::Load, ty, [Operand::Id(pointer)].into_iter().chain(operands))
    }

    /// Reads the element of type `elem` at a byte that is a multiple of its size.
    pub(crate) fn load_element(&mut self, b: &mut FunctionBuilder<'_>, elem: Elem, byte: Index) -> Id {
        let Elem { scalar, ty: elem } = elem;
        let first = b.div(byte, 4);
        let word_type = b.u32_type();
        if scalar.width() > 32 {
            let words: Vec<Id> = (0..scalar.width() / 32)
                .map(|w| {
                    let at = b.add(first, Index::Const(w));
                    self.load_word(b, at)
                })
                .collect();
            return gather(b, WORD, word_type, &words, elem);
        }
        let word = self.load_word(b, first);
        if scalar.width() == 32 {
            return if elem == word_type { word } else { b.ids(Op::Bitcast, elem, &[word]) };
        }
        let rest = b.rem(byte, 4);
        let bit = b.mul(rest, Index::Const(8));
        part(b, scalar, elem, word, 32, bit)
    }

    /// Waits until every invocation of the zone's scope is here, and what they wrote can be seen.
    pub(crate) fn barrier(&self, b: &mut FunctionBuilder<'_>, zone: Zone) {
        let scope = b.u32(zone.scope().0);
        let semantics = b.u32(barrier::semantics(self.model).0);
        b.effect(Op::ControlBarrier, [scope, scope, semantics].map(Operand::Id));
    }

    /// Makes the array as long as it has to be, if anything was taken. Answers its bytes.
    pub(crate) fn finish(&mut self, m: &mut Module, g: &mut Globals) -> u32 {
        let parts = self.subgroup.quads() * self.subgroups;
        let fill = [
            (self.part_length, self.subgroup.quads()),
            (self.parts_at, self.workgroup.quads()),
            (self.workgroup.residents_at, self.workgroup.most),
            (self.subgroup.residents_at, self.subgroup.most),
        ];
        for (id, value) in fill.into_iter().filter_map(|(id, value)| Some((id?, value))) {
            let ty = g.uint(m, 32);
            let r = m.add(Inst::new(Op::Constant, Some(ty), Some(id), [value.into()]));
            m.globals.push(r);
        }
        let Some(variable) = self.variable else { return 0 };
        let quads = self.workgroup.quads() + parts;
        let word = g.uint(m, 32);
        let quad = g.vector(m, word, 4);
        let quads = quads.max(1);
        let array =
            if self.blocks { shared_block(m, g, (quad, QUAD), quads, self.own) } else { g.array(m, quad, quads) };
        let storage = StorageClass::Workgroup;
        let pointer = g.pointer(m, storage, array);
        let r = m.add(Inst::new(Op::Variable, Some(pointer), Some(variable), [storage.into()]));
        m.globals.push(r);
        if self.blocks {
            alias_blocks(m);
        }
        name(m, variable, "coop_arena");
        if m.header.version_pair() >= (1, 4) {
            add_to_interfaces(m, &[variable]);
        }
        quads * QUAD
    }
}

/// Declares a block for shared memory, an array of so many elements of this type and size at this offset.
pub(crate) fn shared_block(m: &mut Module, g: &mut Globals, (elem, bytes): (Id, u32), length: u32, at: u32) -> Id {
    let length = g.u32(m, length);
    let [array, block] = [m.fresh_id(), m.fresh_id()];
    for (op, id, operands) in
        [(Op::TypeArray, array, vec![elem.into(), length.into()]), (Op::TypeStruct, block, vec![array.into()])]
    {
        let r = m.add(Inst::new(op, None, Some(id), operands));
        m.globals.push(r);
    }
    decorate(m, array, Decoration::ArrayStride, &[bytes]);
    decorate(m, block, Decoration::Block, &[]);
    let offset = [block.into(), 0.into(), Decoration::Offset.into(), at.into()];
    add_global(m, Inst::new(Op::MemberDecorate, None, None, offset));
    block
}

/// Declares that the blocks in shared memory overlap, which they do.
pub(crate) fn alias_blocks(m: &mut Module) {
    let decorations = Decorations::new(m);
    let shared = m.globals_with(Op::Variable).map(|r| m.inst(r));
    let shared = shared.filter(|i| i.variable_storage() == Some(StorageClass::Workgroup)).filter_map(|i| i.result);
    let plain: Vec<Id> = shared.filter(|id| !decorations.has(*id, Decoration::Aliased)).collect();
    plain.into_iter().for_each(|id| decorate(m, id, Decoration::Aliased, &[]));
}

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// Neighbouring elements as words, the first in the lowest bits.
pub(crate) fn words_of(b: &mut FunctionBuilder<'_>, elem: Elem, elements: &[Id]) -> Vec<Id> {
    let Elem { scalar, ty: elem } = elem;
    let word_type = b.u32_type();
    match scalar.width() {
        width @ (8 | 16) => {
            let chunks = elements.chunks((32 / width) as usize);
            chunks.map(|c| gather(b, scalar, elem, c, word_type)).collect()
        }
        32 => elements.iter().map(|e| gather(b, scalar, elem, &[*e], word_type)).collect(),
        width => elements.iter().flat_map(|e| split_value(b, WORD, word_type, *e, width)).collect(),
    }
}

/// The module's own Workgroup variables.
struct OwnMemory<'m> {
    m: &'m Module,
    constants: &'m Constants,
    decorations: Decorations,
    /// True if variables are blocks, which all begin at the beginning of shared memory.
    blocks: bool,
}

impl<'m> OwnMemory<'m> {
    fn new(m: &'m Module, constants: &'m Constants) -> OwnMemory<'m> {
        let own = OwnMemory { m, constants, decorations: Decorations::new(m), blocks: false };
        let blocks = own.pointees().any(|ty| own.decorations.has(ty, Decoration::Block));
        OwnMemory { blocks, ..own }
    }

    fn pointees(&self) -> impl Iterator<Item = Id> {
        let variables = self.m.globals_with(Op::Variable).map(|r| self.m.inst(r));
        let shared = variables.filter(|i| i.variable_storage() == Some(StorageClass::Workgroup));
        shared.filter_map(|i| match Type::of(self.m, i.ty?)? {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        })
    }

    /// The bytes that they take, as drivers lay them out: at least this much is gone. All there can be where blocks have no known size.
    fn bytes(&self) -> u32 {
        let mut bytes: u64 = 0;
        let mut known = FxHashMap::default();
        for layout in self.pointees().map(|ty| self.layout(ty, 0, &mut known)) {
            bytes = match (layout, self.blocks) {
                (Some((size, _)), true) => bytes.max(size),
                (Some((size, align)), false) => bytes.next_multiple_of(align.max(1)).saturating_add(size),
                (None, true) => u64::MAX - u64::from(QUAD),
                (None, false) => bytes,
            };
        }
        u32::try_from(bytes.next_multiple_of(u64::from(QUAD))).unwrap_or(u32::MAX)
    }

    /// Size and alignment of a type in bytes: where its layout is not explicit, as it is by nature. `known` has those of types that
    /// were asked for: structs of structs may have very many parts.
    fn layout(&self, ty: Id, depth: u32, known: &mut FxHashMap<Id, Option<(u64, u64)>>) -> Option<(u64, u64)> {
        if depth > 64 {
            return None;
        }
        if let Some(layout) = known.get(&ty) {
            return *layout;
        }
        let layout = self.computed_layout(ty, &mut |inner| self.layout(inner, depth + 1, known));
        known.insert(ty, layout);
        layout
    }

    /// The same from the layouts of the parts.
    fn computed_layout(&self, ty: Id, inner: &mut dyn FnMut(Id) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
        Some(match Type::of(self.m, ty)? {
            Type::Bool => (4, 4),
            Type::Scalar(s) => (u64::from(s.bytes()), u64::from(s.bytes())),
            Type::Vector { elem, len } => {
                let (size, _) = inner(elem)?;
                let padded = if len == 3 { 4 } else { u64::from(len) };
                (size * u64::from(len), size * padded)
            }
            Type::Matrix { column, cols } => {
                let (size, align) = inner(column)?;
                (size.next_multiple_of(align).saturating_mul(u64::from(cols)), align)
            }
            Type::Array { elem, len } => {
                let (size, align) = inner(elem)?;
                let stride = self.decorations.value(ty, Decoration::ArrayStride).filter(|_| self.blocks).map(u64::from);
                let len = match self.constants.get(len) {
                    // Blocks begin at the same place, however long a pipeline makes them.
                    Const::Default { .. } if self.blocks => return None,
                    len => len.value()?,
                };
                let stride = stride.unwrap_or_else(|| size.next_multiple_of(align.max(1)));
                (stride.saturating_mul(len).min(1 << 40), align)
            }
            Type::Struct { members } => {
                let (mut end, mut most) = (0u64, 1);
                for (n, member) in (0..).zip(members) {
                    let (size, align) = inner(member)?;
                    let value = |decoration| self.decorations.member_value(ty, n, decoration).map(u64::from);
                    // A matrix of rows has up to four of them, of columns likewise.
                    let size =
                        value(Decoration::MatrixStride).map_or(size, |stride| size.max(stride.saturating_mul(4)));
                    let at = value(Decoration::Offset).unwrap_or_else(|| end.next_multiple_of(align.max(1)));
                    end = end.max(at.saturating_add(size));
                    most = most.max(align);
                }
                (end.next_multiple_of(most), most)
            }
            Type::Pointer { .. } => (8, 8),
            _ => return None,
        })
    }
}
