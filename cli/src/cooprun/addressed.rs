//! Finds the device addresses in the blocks of a module.
//!
//! A pointer to PhysicalStorageBuffer memory in a block is an address. So is an integer of 64 bits, or two of 32, that
//! the module converts to such a pointer: integers are traced back to the block that they are loaded from, through sums
//! and variables of functions.

use coop_exec::type_layout::TypeLayout;
use coop_ir::constant::Constants;
use coop_ir::spv::StorageClass;
use coop_ir::types::{Scalar, Type};
use coop_ir::uses::Users;
use coop_ir::{Id, Inst, Module, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of parts of a block in a case.
const MOST_FIELDS: usize = 256;

/// The number of elements to write for a runtime array of addresses.
const GUESSED_ADDRESSES: u32 = 16;

/// The largest nesting of types to look into.
const MOST_DEPTH: u32 = 16;

/// The largest number of values to look at between a pointer and the load of its address.
const MOST_STEPS: usize = 1000;

/// `StorageClass` Function and PhysicalStorageBuffer.
const PHYSICAL: StorageClass = StorageClass::PhysicalStorageBuffer;

/// A part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Field {
    /// Bytes from the start of the block.
    pub(super) offset: u32,
    pub(super) what: FieldKind,
}

impl Field {
    /// Returns the size in bytes.
    pub(super) fn bytes(self) -> u32 {
        match self.what {
            FieldKind::Address(_) => 8,
            FieldKind::Numbers(scalar, count) => scalar.bytes().saturating_mul(count),
        }
    }
}

/// The contents of a part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldKind {
    /// The address of something of this type.
    Address(Id),
    /// Numbers, and how many.
    Numbers(Scalar, u32),
}

/// Finds the contents of the blocks of a module.
pub(super) struct Blocks<'a> {
    module: &'a Module,
    layout: TypeLayout<'a>,
    constants: &'a Constants,
    /// Integers that are addresses: the block's type, the offset, and the type of what is there.
    integers: BTreeMap<(Id, u32), Id>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(module: &'a Module, layout: TypeLayout<'a>, constants: &'a Constants) -> Blocks<'a> {
        let mut this = Blocks { module, layout, constants, integers: BTreeMap::new() };
        this.integers = this.find_integers();
        this
    }

    /// Returns the parts of a block that has addresses; `None` for others.
    pub(super) fn fields(&self, block: Id) -> Option<Vec<Field>> {
        let mut fields = Vec::new();
        self.collect(block, block, 0, 0, &mut fields);
        fields.iter().any(|f| matches!(f.what, FieldKind::Address(_))).then_some(fields)
    }

    fn collect(&self, block: Id, kind: Id, offset: u32, depth: u32, out: &mut Vec<Field>) {
        if depth > MOST_DEPTH || out.len() >= MOST_FIELDS {
            return;
        }
        let mut add = |what| out.push(Field { offset, what });
        if let Some(pointee) = self.integers.get(&(block, offset)) {
            return add(FieldKind::Address(*pointee));
        }
        let Some(ty) = Type::of(self.module, kind) else { return };
        match ty {
            Type::Pointer { storage: PHYSICAL, pointee } => add(FieldKind::Address(pointee)),
            Type::Scalar(scalar) => add(FieldKind::Numbers(scalar, 1)),
            Type::Vector { elem, len } => {
                if let Some(Type::Scalar(scalar)) = Type::of(self.module, elem) {
                    add(FieldKind::Numbers(scalar, len));
                }
            }
            Type::Array { elem, len } => {
                let len = self.constants.get(len).value().and_then(|n| u32::try_from(n).ok());
                self.elements(block, (kind, elem), len.unwrap_or(0), offset, depth, out);
            }
            // Numbers behind the parts are zeros anyway.
            Type::RuntimeArray { elem } if self.has_pointer(elem, depth) => {
                self.elements(block, (kind, elem), GUESSED_ADDRESSES, offset, depth, out);
            }
            Type::Struct { .. } => {
                for member in self.layout.members(kind) {
                    self.collect(block, member.kind, offset.saturating_add(member.offset), depth + 1, out);
                }
            }
            _ => {}
        }
    }

    fn elements(&self, block: Id, (array, elem): (Id, Id), len: u32, offset: u32, depth: u32, out: &mut Vec<Field>) {
        let Some(stride) = self.layout.stride(array).or_else(|| self.layout.size(elem)) else { return };
        for n in (0..len).take_while(|_| stride > 0).take(MOST_FIELDS) {
            self.collect(block, elem, offset.saturating_add(n.saturating_mul(stride)), depth + 1, out);
        }
    }

    fn has_pointer(&self, kind: Id, depth: u32) -> bool {
        match Type::of(self.module, kind).filter(|_| depth < MOST_DEPTH) {
            Some(Type::Pointer { storage, .. }) => storage == PHYSICAL,
            Some(Type::Array { elem, .. }) => self.has_pointer(elem, depth + 1),
            Some(Type::Struct { members }) => members.into_iter().any(|m| self.has_pointer(m, depth + 1)),
            _ => false,
        }
    }

    /// Finds the integers in blocks that are converted to pointers.
    fn find_integers(&self) -> BTreeMap<(Id, u32), Id> {
        let m = self.module;
        let users = Users::new(m);
        let mut found = BTreeMap::new();
        for r in m.functions.iter().flat_map(|f| f.insts()) {
            let inst = m.inst(r);
            let pointee = match inst.ty.and_then(|t| Type::of(m, t)) {
                Some(Type::Pointer { storage: PHYSICAL, pointee }) => pointee,
                _ => continue,
            };
            let (Op::ConvertUToPtr | Op::Bitcast, Some(from)) = (inst.op, inst.id(0)) else { continue };
            if matches!(m.type_of(from).and_then(|t| Type::of(m, t)), Some(Type::Pointer { .. })) {
                continue;
            }
            for place in self.loaded_from(from, &users) {
                found.entry(place).or_insert(pointee);
            }
        }
        found
    }

    /// Returns the blocks and offsets that a value is loaded from.
    fn loaded_from(&self, value: Id, users: &Users) -> BTreeSet<(Id, u32)> {
        let m = self.module;
        let (mut found, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
        while let Some(id) = work.pop().filter(|_| seen.len() < MOST_STEPS) {
            let Some(inst) = m.def_inst(id).filter(|_| seen.insert(id)) else { continue };
            match inst.op {
                Op::Load => match inst.accessed().and_then(|p| m.def_inst(p)) {
                    Some(variable) if variable.variable_storage() == Some(StorageClass::Function) => {
                        let pointer = variable.result;
                        let stores = pointer.into_iter().flat_map(|p| users.of(p)).map(|r| m.inst(*r));
                        work.extend(
                            stores.filter(|i| i.op == Op::Store && i.accessed() == pointer).filter_map(|i| i.stored()),
                        );
                    }
                    Some(chain) => found.extend(self.place(chain)),
                    None => {}
                },
                // Which of the two is the address, the types don't say.
                Op::IAdd | Op::Phi | Op::Select | Op::CopyObject | Op::Bitcast => work.extend(inst.ids()),
                // The lower half says where both are.
                Op::CompositeConstruct | Op::CompositeExtract => work.extend(inst.id(0)),
                _ => {}
            }
        }
        found
    }

    /// Returns the block that an access chain begins at, and the offset that it selects.
    fn place(&self, chain: &Inst) -> Option<(Id, u32)> {
        if !chain.op.is_member_chain() {
            return None;
        }
        let base = self.module.type_of(chain.derived_from()?)?;
        let Type::Pointer { pointee: block, .. } = Type::of(self.module, base)? else { return None };
        let (mut kind, mut offset) = (block, 0u32);
        for index in chain.ids_from(1) {
            let index = u32::try_from(self.constants.get(index).value()?).ok()?;
            let (inner, further) = match Type::of(self.module, kind)? {
                Type::Struct { .. } => {
                    let member = self.layout.members(kind).into_iter().nth(index as usize)?;
                    (member.kind, member.offset)
                }
                Type::Array { elem, .. } | Type::RuntimeArray { elem } => {
                    (elem, self.layout.stride(kind)?.checked_mul(index)?)
                }
                Type::Vector { elem, .. } => (elem, self.layout.size(elem)?.checked_mul(index)?),
                _ => return None,
            };
            (kind, offset) = (inner, offset.checked_add(further)?);
        }
        Some((block, offset))
    }
}
