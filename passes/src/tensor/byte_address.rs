//! Addresses bytes of storage buffers: addresses as sums of multiples of values, and further views of a buffer to read
//! them through.
//!
//! A buffer that a module declares with one type is declared again, at the same set and binding, as an array of
//! whatever unit a read needs. Numbers are read whole if their address is known to be a multiple of their size, and in
//! pieces where it is not: blocks of quantized weights may begin anywhere.

use super::index_math::power;
use crate::matrix::bits::{gather, small_type};
use coop_ir::builder::{FunctionBuilder, Index, decorate, name, require_capability, require_extension};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{Capability, Decoration, MemoryAccess, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Function, Id, IdSet, Inst, Module, Op, Operand};

/// The most parts of a value that are read one by one.
const MAX_PARTS: u32 = 1024;

/// A multiple of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term {
    pub(super) at: Index,
    pub(super) factor: u32,
    /// A power of two that divides the value.
    pub(super) align: u32,
}

impl Term {
    /// Returns a power of two that divides it.
    fn divided_by(&self) -> u32 {
        power(self.factor).saturating_mul(self.align)
    }
}

/// The address of a byte of a buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Address {
    pub(super) terms: Vec<Term>,
    pub(super) constant: u32,
}

impl Address {
    pub(super) fn plus(mut self, term: Term) -> Address {
        match term.at {
            Index::Const(v) => self.constant = self.constant.wrapping_add(v.wrapping_mul(term.factor)),
            Index::Value(_) => match self.terms.iter_mut().find(|t| t.at == term.at) {
                Some(t) => t.factor = t.factor.wrapping_add(term.factor),
                None => self.terms.push(term),
            },
        }
        self
    }

    pub(super) fn behind(&self, bytes: u32) -> Address {
        Address { terms: self.terms.clone(), constant: self.constant.wrapping_add(bytes) }
    }

    /// A power of two that divides it.
    pub(super) fn align(&self) -> u32 {
        let terms = self.terms.iter().map(Term::divided_by);
        terms.chain([power(self.constant)]).min().unwrap_or(1)
    }

    /// Returns true if the address is known not to be a multiple of `bytes`, a power of two.
    pub(super) fn surely_misaligned(&self, bytes: u32) -> bool {
        let parts = self.terms.iter().map(Term::divided_by).min().unwrap_or(bytes).min(bytes);
        !self.constant.is_multiple_of(parts)
    }

    /// Returns the condition that the address is not a multiple of `bytes`, a power of two. `None`: it always is one.
    pub(super) fn misaligned(&self, b: &mut FunctionBuilder<'_>, bytes: u32) -> Option<Id> {
        let mut parts = self.terms.iter().filter(|t| t.divided_by() < bytes);
        let constant = self.constant % bytes;
        let rest = match (constant, parts.next(), parts.next()) {
            (0, None, _) => return None,
            // The value must provide the factors of two of `bytes` that the constant factor lacks.
            (0, Some(only), None) => b.rem(only.at, bytes / power(only.factor)),
            _ => {
                let mut sum = Index::Const(constant);
                for t in self.terms.iter().filter(|t| t.divided_by() < bytes) {
                    let value = b.mul(t.at, Index::Const(t.factor % bytes));
                    sum = b.add(sum, value);
                }
                b.rem(sum, bytes)
            }
        };
        Some(b.compare(Op::INotEqual, rest, Index::Const(0)))
    }

    /// Returns the index of the unit of `bytes` bytes (a power of two that divides the address) that begins there.
    ///
    /// A divisor of the sum need not divide its terms: terms not known to be multiples are added up first. If there is
    /// one such term, it is a multiple since the others are.
    pub(super) fn index(&self, b: &mut FunctionBuilder<'_>, bytes: u32) -> Index {
        let (whole, mut parts): (Vec<Term>, Vec<Term>) = self.terms.iter().partition(|t| t.divided_by() >= bytes);
        let rest = self.constant % bytes;
        let alone = if rest == 0 && parts.len() == 1 { parts.pop() } else { None };
        let mut sum = Index::Const(self.constant / bytes);
        if !parts.is_empty() {
            let mut all = Index::Const(rest);
            for t in parts {
                let value = b.mul(t.at, Index::Const(t.factor));
                all = b.add(value, all);
            }
            let all = b.div(all, bytes);
            sum = b.add(all, sum);
        }
        for t in whole.into_iter().chain(alone) {
            // The value provides the factors of two that the constant factor lacks.
            let shared = power(t.factor).min(bytes);
            let value = b.div(t.at, bytes / shared);
            let value = b.mul(value, Index::Const(t.factor / shared));
            sum = b.add(value, sum);
        }
        sum
    }
}

/// The memory layout of types.
pub(crate) struct Layouts<'a> {
    pub(crate) m: &'a Module,
    pub(crate) constants: &'a Constants,
    pub(crate) decorations: &'a Decorations,
}

impl Layouts<'_> {
    pub(super) fn offset(&self, ty: Id, member: u32) -> Option<u32> {
        self.decorations.member_value(ty, member, Decoration::Offset)
    }

    pub(super) fn stride(&self, ty: Id) -> Option<u32> {
        self.decorations.value(ty, Decoration::ArrayStride)
    }

    /// Returns the distance of elements without an explicit layout, as in shared memory; unknown for vectors of three.
    fn packed(&self, elem: Id) -> Option<u32> {
        match Type::of(self.m, elem)? {
            Type::Vector { len: 3, .. } => None,
            Type::Array { elem: of, len } if self.stride(elem).is_none() => {
                self.packed(of)?.checked_mul(u32::try_from(self.constants.get(len).value()?).ok()?)
            }
            _ => self.size(elem).map(|(size, _)| size),
        }
    }

    /// Returns size and alignment in bytes; runtime arrays add nothing to a size.
    pub(super) fn size(&self, ty: Id) -> Option<(u32, u32)> {
        self.size_at(ty, 0, &mut FxHashMap::default())
    }

    /// `known` has the sizes of types that were asked for: structs of structs may have very many parts.
    fn size_at(&self, ty: Id, depth: u32, known: &mut FxHashMap<Id, Option<(u32, u32)>>) -> Option<(u32, u32)> {
        if depth > 32 {
            return None;
        }
        if let Some(size) = known.get(&ty) {
            return *size;
        }
        let size = self.size_of(ty, &mut |part| self.size_at(part, depth + 1, known));
        known.insert(ty, size);
        size
    }

    /// The same from the sizes of the parts.
    fn size_of(&self, ty: Id, of: &mut dyn FnMut(Id) -> Option<(u32, u32)>) -> Option<(u32, u32)> {
        Some(match Type::of(self.m, ty)? {
            // Booleans have no size.
            Type::Scalar(s) if s.bytes() > 0 => (s.bytes(), s.bytes()),
            Type::Vector { elem, len } => {
                let (size, align) = of(elem)?;
                (size.checked_mul(len)?, align)
            }
            Type::Array { elem, len } => {
                let (size, align) = of(elem)?;
                let stride = self.stride(ty).unwrap_or(size.next_multiple_of(align));
                (stride.checked_mul(u32::try_from(self.constants.get(len).value()?).ok()?)?, align)
            }
            Type::RuntimeArray { elem } => (0, of(elem)?.1),
            Type::Struct { members } => {
                let (mut end, mut align) = (0, 1);
                for (at, member) in (0..).zip(members) {
                    let (size, a) = of(member)?;
                    end = end.max(self.offset(ty, at)?.checked_add(size)?);
                    align = align.max(a);
                }
                (end, align)
            }
            Type::Pointer { .. } => (8, 8),
            _ => return None,
        })
    }

    /// Follows an access chain: returns the type, and what is added to the address. `index` returns the value of an
    /// index that is not a constant.
    pub(super) fn walk(
        &self,
        mut ty: Id,
        indices: &[Id],
        mut address: Address,
        index: &mut dyn FnMut(Id) -> Option<Term>,
    ) -> Option<(Id, Address)> {
        for id in indices {
            let (elem, stride) = match Type::of(self.m, ty)? {
                Type::Struct { members } => {
                    let member = u32::try_from(self.constants.get(*id).value()?).ok()?;
                    address = address.behind(self.offset(ty, member)?);
                    ty = *members.get(member as usize)?;
                    continue;
                }
                Type::Array { elem, .. } | Type::RuntimeArray { elem } => {
                    (elem, self.stride(ty).or_else(|| self.packed(elem))?)
                }
                Type::Vector { elem, .. } => (elem, self.size(elem)?.0),
                _ => return None,
            };
            let term = match self.constants.get(*id).fixed() {
                Some(v) => Term { at: Index::Const(v as u32), factor: 1, align: 1 },
                None => index(*id)?,
            };
            address = address.plus(Term { factor: stride, ..term });
            ty = elem;
        }
        Some((ty, address))
    }
}

/// A location in a binding: variable, index into an array of buffers, and the byte, as multiples of values and a
/// constant.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) variable: Id,
    pub(crate) descriptor: Option<Id>,
    pub(crate) terms: Vec<(Id, u32)>,
    pub(crate) constant: u32,
}

impl Layouts<'_> {
    /// Returns the binding and the location in it that a pointer points to.
    pub(crate) fn bound(&self, pointer: Id) -> Option<Bound> {
        self.reached(pointer, &[StorageClass::StorageBuffer]).filter(|bound| self.is_variable(bound.variable))
    }

    fn is_variable(&self, id: Id) -> bool {
        self.m.def_inst(id).is_some_and(|i| i.op == Op::Variable)
    }

    /// Returns the location that a pointer points to, in a variable of some storage classes or in a buffer of a
    /// descriptor heap.
    pub(super) fn reached(&self, pointer: Id, storages: &[StorageClass]) -> Option<Bound> {
        let m = self.m;
        let mut root = pointer;
        let mut parts: Vec<Vec<Id>> = Vec::new();
        for _ in 0..1000 {
            let inst = m.def_inst(root)?;
            match (inst.op, inst.id(0)) {
                (Op::AccessChain | Op::InBoundsAccessChain, Some(base)) => {
                    parts.push(inst.ids_from(1).collect());
                    root = base;
                }
                (Op::CopyObject, Some(base)) => root = base,
                (Op::Variable | Op::BufferPointerEXT, _) => break,
                _ => return None,
            }
        }
        let Type::Pointer { storage, pointee } = Type::of(m, m.type_of(root)?)? else { return None };
        storages.contains(&storage).then_some(())?;
        let indices: Vec<Id> = parts.into_iter().rev().flatten().collect();
        let mut indices = indices.as_slice();
        let (mut ty, mut descriptor) = (pointee, None);
        if storage != StorageClass::Workgroup
            && let Type::Array { elem, .. } | Type::RuntimeArray { elem } = Type::of(m, pointee)?
        {
            descriptor = Some(*indices.first()?);
            (ty, indices) = (elem, &indices[1..]);
        }
        let found = self.walk(ty, indices, Address::default(), &mut |id| {
            types::scalar(m, m.type_of(id)?)?.is_int().then_some(())?;
            Some(Term { at: Index::Value(id), factor: 1, align: 1 })
        });
        let (_, address) = found?;
        let term = |t: &Term| match t.at {
            Index::Value(id) => Some((id, t.factor)),
            Index::Const(_) => None,
        };
        let terms = address.terms.iter().filter_map(term).collect();
        Some(Bound { variable: root, descriptor, terms, constant: address.constant })
    }
}

/// A buffer whose bytes are read, in the generated function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Buffer {
    pub(super) variable: Id,
    /// The index into an array of buffers.
    pub(super) descriptor: Option<Id>,
}

/// The views of buffers that were made.
#[derive(Default, Debug)]
pub(crate) struct Views {
    by_unit: FxHashMap<(Id, Id), Id>,
    made: Vec<BufferView>,
}

/// A view, its original variable, and its unit.
#[derive(Clone, Copy, Debug)]
struct BufferView {
    view: Id,
    variable: Id,
    unit: Id,
    bytes: u32,
}

impl Views {
    /// Returns a view: a variable that aliases `variable` as an array of `unit`s of `bytes` bytes.
    pub(crate) fn view(&mut self, m: &mut Module, d: &Decorations, variable: Id, unit: Id, bytes: u32) -> Id {
        if let Some(id) = self.by_unit.get(&(variable, unit)) {
            return *id;
        }
        let storage = StorageClass::StorageBuffer;
        let add = |m: &mut Module, op: Op, operands: &[Operand]| {
            let id = m.fresh_id();
            let r = m.add(Inst::new(op, None, Some(id), operands.iter().copied()));
            m.globals.push(r);
            id
        };
        let array = add(m, Op::TypeRuntimeArray, &[unit.into()]);
        decorate(m, array, Decoration::ArrayStride, &[bytes]);
        let block = add(m, Op::TypeStruct, &[array.into()]);
        decorate(m, block, Decoration::Block, &[]);
        let member = [Operand::Id(block), 0.into(), (Decoration::Offset.0).into(), 0.into()];
        coop_ir::builder::add_global(m, Inst::new(Op::MemberDecorate, None, None, member));
        let mut held = block;
        let mut readonly = d.has(variable, Decoration::NonWritable);
        if let Some(Type::Pointer { pointee, .. }) = m.type_of(variable).and_then(|t| Type::of(m, t)) {
            let mut of = pointee;
            match Type::of(m, pointee) {
                Some(Type::Array { elem, len }) => {
                    held = add(m, Op::TypeArray, &[block.into(), len.into()]);
                    of = elem;
                }
                Some(Type::RuntimeArray { elem }) => {
                    held = add(m, Op::TypeRuntimeArray, &[block.into()]);
                    of = elem;
                }
                _ => {}
            }
            let members = match Type::of(m, of) {
                Some(Type::Struct { members }) => members.len() as u32,
                _ => 0,
            };
            readonly |= members > 0 && (0..members).all(|at| d.member_has(of, at, Decoration::NonWritable));
        }
        let pointer = add(m, Op::TypePointer, &[storage.into(), held.into()]);
        let id = m.fresh_id();
        let r = m.add(Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
        m.globals.push(r);
        name(m, id, "coop_view");
        for what in [Decoration::DescriptorSet, Decoration::Binding] {
            if let Some(value) = d.value(variable, what) {
                decorate(m, id, what, &[value]);
            }
        }
        for what in [Decoration::Coherent, Decoration::Volatile] {
            if d.has(variable, what) {
                decorate(m, id, what, &[]);
            }
        }
        if readonly {
            decorate(m, id, Decoration::NonWritable, &[]);
        }
        self.by_unit.insert((variable, unit), id);
        self.made.push(BufferView { view: id, variable, unit, bytes });
        id
    }

    /// Removes unused views, and declares what the others need. Returns them.
    pub(crate) fn finish(&mut self, m: &mut Module, d: &Decorations) -> Vec<Id> {
        if self.made.is_empty() {
            return Vec::new();
        }
        let (mut made, mut used) = (IdSet::default(), IdSet::default());
        self.made.iter().for_each(|v| _ = made.insert(v.view));
        let ids = m.functions.iter().flat_map(Function::insts).flat_map(|r| m.inst(r).ids());
        ids.filter(|id| made.contains(*id)).for_each(|id| _ = used.insert(id));
        let (kept, dropped): (Vec<BufferView>, Vec<BufferView>) =
            self.made.drain(..).partition(|v| used.contains(v.view));
        let dropped: FxHashSet<Id> = dropped.into_iter().map(|v| v.view).collect();
        coop_ir::rewrite::remove_globals(m, |m, r| {
            let i = m.inst(r);
            let target = i.note_target().or(i.result);
            target.is_some_and(|id| dropped.contains(&id))
        });
        aliased(m, d, &kept);
        kept.iter().for_each(|v| storage_capability(m, v.bytes, v.unit));
        kept.into_iter().map(|v| v.view).collect()
    }
}

/// Decorates views and the variables of their bindings as aliased.
fn aliased(m: &mut Module, d: &Decorations, views: &[BufferView]) {
    let slot = |id: Id| (d.set(id), d.binding(id));
    let variables: Vec<Id> = m.globals_with(Op::Variable).filter_map(|r| m.inst(r).result).collect();
    let mut all: Vec<Id> = Vec::new();
    for v in views {
        let of = slot(v.variable);
        let same = variables.iter().copied().filter(|id| slot(*id) == of && of.1.is_some());
        all.extend(same.chain([v.view]));
    }
    let mut open: IdSet = IdSet::default();
    all.iter().for_each(|id| _ = open.insert(*id));
    // Where there are two, neither is Restrict.
    let restrict =
        |i: &Inst| i.decoration().is_some_and(|(id, what)| what == Decoration::Restrict && open.contains(id));
    coop_ir::rewrite::remove_globals(m, |m, r| restrict(m.inst(r)));
    let decorations = m.globals.iter().filter_map(|r| m.inst(*r).decoration());
    let mut said: FxHashSet<Id> =
        decorations.filter(|(_, what)| *what == Decoration::Aliased).map(|(id, _)| id).collect();
    for id in all {
        if said.insert(id) {
            decorate(m, id, Decoration::Aliased, &[]);
        }
    }
}

/// Declares the capability for memory of small units.
fn storage_capability(m: &mut Module, bytes: u32, unit: Id) {
    let scalar = match Type::of(m, unit) {
        Some(Type::Vector { elem, .. }) => Type::of(m, elem).and_then(|t| t.scalar()),
        Some(t) => t.scalar(),
        None => None,
    };
    match scalar.map_or(bytes, Scalar::bytes) {
        1 => {
            require_capability(m, Capability::StorageBuffer8BitAccess);
            if m.header.version_pair() < (1, 5) {
                require_extension(m, "SPV_KHR_8bit_storage");
            }
        }
        2 => require_capability(m, Capability::StorageBuffer16BitAccess),
        _ => {}
    }
}

/// The state for reads of bytes.
pub(super) struct Reader<'a> {
    pub(super) views: &'a mut Views,
    pub(super) decorations: &'a Decorations,
    pub(super) constants: &'a Constants,
    pub(super) buffer: Buffer,
    /// Memory operands, without an alignment.
    pub(super) operands: Vec<Operand>,
}

impl Reader<'_> {
    /// Reads a value of type `ty`. `None`: it has no known layout, or too many parts.
    pub(super) fn read(&mut self, b: &mut FunctionBuilder<'_>, ty: Id, address: &Address) -> Option<Id> {
        let mut left = MAX_PARTS;
        self.value(b, ty, address, &mut left)
    }

    fn value(&mut self, b: &mut FunctionBuilder<'_>, ty: Id, address: &Address, left: &mut u32) -> Option<Id> {
        *left = left.checked_sub(1)?;
        let parts: Vec<(Id, u32)> = match Type::of(b.module, ty)? {
            Type::Scalar(s) => return self.scalar(b, ty, s, address),
            Type::Vector { elem, len } => {
                let bytes = Type::of(b.module, elem)?.scalar()?.bytes();
                if let Some(whole) = self.vector(b, ty, (bytes, len), address) {
                    return Some(whole);
                }
                (0..len).map(|i| (elem, i * bytes)).collect()
            }
            Type::Array { elem, len } => {
                let len = u32::try_from(self.constants.get(len).value()?).ok()?;
                let layouts = Layouts { m: b.module, constants: self.constants, decorations: self.decorations };
                let stride = layouts.stride(ty)?;
                (0..len.min(MAX_PARTS + 1)).map(|i| (elem, i * stride)).collect()
            }
            Type::Struct { members } => {
                let layouts = Layouts { m: b.module, constants: self.constants, decorations: self.decorations };
                let at = (0..).zip(members).map(|(i, t)| Some((t, layouts.offset(ty, i)?)));
                at.collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        };
        let mut values = Vec::new();
        for (part, offset) in parts {
            values.push(self.value(b, part, &address.behind(offset), left)?);
        }
        Some(b.ids(Op::CompositeConstruct, ty, &values))
    }

    fn scalar(&mut self, b: &mut FunctionBuilder<'_>, ty: Id, scalar: Scalar, address: &Address) -> Option<Id> {
        let bytes = scalar.bytes();
        if !bytes.is_power_of_two() {
            return None;
        }
        let piece = address.align().min(bytes);
        if piece == bytes {
            return Some(self.unit(b, ty, bytes, address));
        }
        let of = Scalar::Int { width: piece * 8, signed: false };
        small_type(b.module, of);
        let piece_ty = b.globals.scalar(b.module, of);
        let parts: Vec<Id> =
            (0..bytes / piece).map(|i| self.unit(b, piece_ty, piece, &address.behind(i * piece))).collect();
        Some(gather(b, of, piece_ty, &parts, ty))
    }

    /// A vector at once, of 4, 8 or 16 bytes, if it is where it may be read so.
    fn vector(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        ty: Id,
        (bytes, len): (u32, u32),
        address: &Address,
    ) -> Option<Id> {
        let total = bytes.checked_mul(len)?;
        if !matches!(total, 4 | 8 | 16) || address.align() < total {
            return None;
        }
        let word = b.u32_type();
        if bytes == 4 {
            // A view with the vector type itself as unit.
            return Some(self.unit(b, ty, total, address));
        }
        let unit = if total == 4 { word } else { b.globals.vector(b.module, word, total / 4) };
        let raw = self.unit(b, unit, total, address);
        Some(b.ids(Op::Bitcast, ty, &[raw]))
    }

    fn unit(&mut self, b: &mut FunctionBuilder<'_>, unit: Id, bytes: u32, address: &Address) -> Id {
        let view = self.views.view(b.module, self.decorations, self.buffer.variable, unit, bytes);
        let index = address.index(b, bytes);
        let (zero, index) = (b.u32(0), b.index(index));
        let pointer = b.globals.pointer(b.module, StorageClass::StorageBuffer, unit);
        let chain: Vec<Id> = [view].into_iter().chain(self.buffer.descriptor).chain([zero, index]).collect();
        let pointer = b.ids(Op::AccessChain, pointer, &chain);
        b.op(Op::Load, unit, [Operand::Id(pointer)].into_iter().chain(self.operands.iter().copied()))
    }
}

/// Returns memory operands without the alignment, which is that of other memory.
pub(super) fn unaligned(operands: &[Operand]) -> Vec<Operand> {
    let mut out = operands.to_vec();
    let aligned = MemoryAccess::Aligned.0;
    if let Some(mask) = out.first().map(|o| o.word())
        && mask & aligned != 0
    {
        out[0] = Operand::Word(mask & !aligned);
        out.remove(1);
    }
    out
}

/// Adds an alignment to memory operands that have none.
pub(super) fn with_alignment(mut operands: Vec<Operand>, bytes: u32) -> Vec<Operand> {
    let mask = operands.first().map_or(0, |o| o.word()) | MemoryAccess::Aligned.0;
    if operands.is_empty() {
        operands.push(Operand::Word(mask));
    }
    operands[0] = Operand::Word(mask);
    operands.insert(1, Operand::Word(bytes));
    operands
}

/// Decorates a pointer parameter: Vulkan requires every parameter that points to PhysicalStorageBuffer memory to state
/// its aliasing.
pub(super) fn aliased_parameter(b: &mut FunctionBuilder<'_>, id: Id) {
    let parameter = b.module.def_inst(id).filter(|i| i.op == Op::FunctionParameter);
    let pointer = parameter.and_then(|i| i.ty).and_then(|t| Type::of(b.module, t));
    let physical = StorageClass::PhysicalStorageBuffer;
    if !matches!(pointer, Some(Type::Pointer { storage, .. }) if storage == physical) {
        return;
    }
    let says = [Decoration::Aliased, Decoration::Restrict];
    let mut decorations = b.module.globals_with(Op::Decorate).map(|r| b.module.inst(r));
    let said = decorations.any(|i| i.decoration().is_some_and(|(target, d)| target == id && says.contains(&d)));
    drop(decorations);
    if !said {
        decorate(b.module, id, Decoration::Aliased, &[]);
    }
}
