//! Replaces variables by their pieces, and accesses to them by accesses to the pieces.

use super::pieces::Pieces;
use super::pointer_uses::{Action, Element, End, Location, PointerUses};
use crate::layout::Layout;
use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use std::collections::BTreeMap;

/// A piece that became a variable of its own.
#[derive(Clone, Copy)]
struct Piece {
    variable: Id,
    bytes: u64,
    ty: Id,
}

struct Rewrite<'a> {
    m: &'a mut Module,
    g: &'a mut Globals,
    layout: &'a Layout,
    /// The pieces of each variable, by offset.
    pieces: &'a [BTreeMap<u64, Piece>],
    /// The instruction being replaced.
    at: InstRef,
}

pub(super) fn run(m: &mut Module, g: &mut Globals, layout: &Layout, f: usize, walk: &PointerUses, split: Vec<Pieces>) {
    let made = |m: &mut Module, g: &mut Globals, pieces: Pieces| -> BTreeMap<u64, Piece> {
        let piece = |(offset, (bytes, ty))| (offset, Piece { variable: ssa::variable(m, g, f, ty), bytes, ty });
        pieces.into_iter().map(piece).collect()
    };
    let pieces: Vec<_> = split.into_iter().map(|pieces| made(m, g, pieces)).collect();
    let mut gone: FxHashSet<InstRef> = walk.variables.iter().map(|v| v.at).collect();
    gone.extend(walk.derived.iter().map(|(_, r)| *r));
    let mut loaded: FxHashMap<Id, Id> = FxHashMap::default();
    for (at, act) in &walk.acts {
        let value = Rewrite { m, g, layout, pieces: &pieces, at: *at }.act(*act);
        loaded.extend(m.inst(*at).result.zip(value));
        gone.insert(*at);
    }
    let results: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).collect();
    ssa::remove_insts(m, f, &gone);
    ssa::remove_annotations(m, &results);
    ssa::replace_in(m, f, &loaded);
}

impl Rewrite<'_> {
    /// Performs an access on the pieces. Returns the value of a load.
    fn act(&mut self, act: Action) -> Option<Id> {
        match act {
            Action::Load(location, ty) => return Some(self.load(location, ty)),
            Action::Store(location, ty) => {
                let value = self.m.inst(self.at).stored()?;
                self.store(location, ty, value);
            }
            Action::Copy(to, from, bytes) => self.copy(to, from, bytes),
        }
        None
    }

    fn emit(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.m.fresh_id();
        let origin = self.m.inst(self.at).origin;
        insert_before(self.m, self.at, Inst::new(op, Some(ty), Some(id), operands).at(origin));
        id
    }

    fn ids(&mut self, op: Op, ty: Id, operands: &[Id]) -> Id {
        self.emit(op, ty, operands.iter().copied().map(Operand::Id))
    }

    fn put(&mut self, pointer: Id, value: Id, more: &[u32]) {
        let origin = self.m.inst(self.at).origin;
        let operands = [pointer, value].map(Operand::Id).into_iter().chain(more.iter().copied().map(Operand::Word));
        insert_before(self.m, self.at, Inst::new(Op::Store, None, None, operands).at(origin));
    }

    /// Makes the pointer to an element of a matrix. Returns it with the component type.
    fn element(&mut self, location: Location, element: Element) -> Option<(Id, Id)> {
        let piece = *self.pieces[location.variable].get(&location.offset)?;
        let component = types::coop_mat(self.m, element.matrix)?.component;
        let pointer = self.g.pointer(self.m, StorageClass::Function, component);
        Some((self.ids(Op::AccessChain, pointer, &[piece.variable, element.index]), component))
    }

    fn load(&mut self, location: Location, ty: Id) -> Id {
        let Some(element) = location.element else { return self.load_at(location.variable, location.offset, ty) };
        let Some((pointer, component)) = self.element(location, element) else { return ssa::undef(self.m, ty) };
        let value = self.ids(Op::Load, component, &[pointer]);
        self.reinterpreted(value, component, ty)
    }

    fn load_at(&mut self, variable: usize, offset: u64, ty: Id) -> Id {
        let bytes = self.layout.size(self.m, ty).map_or(0, |s| s.bytes);
        if let Some(piece) =
            self.pieces[variable].get(&offset).copied().filter(|p| p.bytes == bytes && self.is_leaf(ty))
        {
            let value = self.ids(Op::Load, piece.ty, &[piece.variable]);
            return self.reinterpreted(value, piece.ty, ty);
        }
        let parts = self.parts(ty);
        let values: Vec<Id> = parts.into_iter().map(|(part, at)| self.load_at(variable, offset + at, part)).collect();
        self.ids(Op::CompositeConstruct, ty, &values)
    }

    fn store(&mut self, location: Location, ty: Id, value: Id) {
        let Some(element) = location.element else {
            return self.store_at(location.variable, location.offset, ty, value);
        };
        let Some((pointer, component)) = self.element(location, element) else { return };
        let value = self.reinterpreted(value, ty, component);
        self.put(pointer, value, &[]);
    }

    fn store_at(&mut self, variable: usize, offset: u64, ty: Id, value: Id) {
        let bytes = self.layout.size(self.m, ty).map_or(0, |s| s.bytes);
        if let Some(piece) =
            self.pieces[variable].get(&offset).copied().filter(|p| p.bytes == bytes && self.is_leaf(ty))
        {
            let value = self.reinterpreted(value, ty, piece.ty);
            self.put(piece.variable, value, &[]);
            return;
        }
        for (n, (part, at)) in (0..).zip(self.parts(ty)) {
            let value = self.emit(Op::CompositeExtract, part, [value.into(), Operand::Word(n)]);
            self.store_at(variable, offset + at, part, value);
        }
    }

    /// Returns true if a type can be one piece.
    fn is_leaf(&self, ty: Id) -> bool {
        !matches!(Type::of(self.m, ty), Some(Type::Array { .. } | Type::Struct { .. }))
    }

    /// Returns the parts of a composite; of a vector, its components.
    fn parts(&self, ty: Id) -> Vec<(Id, u64)> {
        self.layout.parts(self.m, ty).unwrap_or_default()
    }

    /// Copies pieces, which both ends have in the same sizes. All are read before any is written: the ends may overlap.
    fn copy(&mut self, to: End, from: End, bytes: u64) {
        let moved: Vec<(u64, Id, Id)> = match (to, from) {
            (_, End::Variable(variable, begin)) => {
                let pieces = self.within(variable, begin, bytes);
                pieces.into_iter().map(|(at, p)| (at - begin, p.ty, self.ids(Op::Load, p.ty, &[p.variable]))).collect()
            }
            (End::Variable(variable, begin), End::Elsewhere(pointer)) => {
                let pieces = self.within(variable, begin, bytes);
                let load = |(at, p): (u64, Piece)| {
                    let (pointer, align) = self.elsewhere(pointer, at - begin, p.ty, 1);
                    let operands = [pointer.into(), Operand::Word(MemoryAccess::Aligned.0), Operand::Word(align)];
                    (at - begin, p.ty, self.emit(Op::Load, p.ty, operands))
                };
                pieces.into_iter().map(load).collect()
            }
            (End::Elsewhere(_), End::Elsewhere(_)) => Vec::new(),
        };
        for (at, ty, value) in moved {
            match to {
                End::Variable(variable, begin) => self.store_at(variable, begin + at, ty, value),
                End::Elsewhere(pointer) => {
                    let (pointer, align) = self.elsewhere(pointer, at, ty, 0);
                    self.put(pointer, value, &[MemoryAccess::Aligned.0, align]);
                }
            }
        }
    }

    /// Returns the pieces of a variable in a range.
    fn within(&self, variable: usize, begin: u64, bytes: u64) -> Vec<(u64, Piece)> {
        self.pieces[variable].range(begin..begin + bytes).map(|(at, piece)| (*at, *piece)).collect()
    }

    /// Makes a pointer into other memory, so many bytes after an end of the copy. Returns it with its alignment.
    fn elsewhere(&mut self, pointer: Id, offset: u64, ty: Id, end: u32) -> (Id, u32) {
        let align = self.aligned(end).unwrap_or_else(|| self.layout.size(self.m, ty).map_or(1, |s| s.align));
        let align = if offset == 0 { align } else { align.min(1 << offset.trailing_zeros()) };
        let storage = match self.m.type_of(pointer).and_then(|t| Type::of(self.m, t)) {
            Some(Type::Pointer { storage, .. }) => storage,
            _ => StorageClass::Function,
        };
        let mut at = pointer;
        if offset > 0 {
            let byte = self.g.uint(self.m, 8);
            let bytes = self.g.pointer(self.m, storage, byte);
            let count = self.g.constant(self.m, Scalar::Int { width: 64, signed: false }, offset);
            at = self.ids(Op::Bitcast, bytes, &[at]);
            at = self.ids(Op::InBoundsPtrAccessChain, bytes, &[at, count]);
        }
        let wanted = self.g.pointer(self.m, storage, ty);
        if self.m.type_of(at) != Some(wanted) {
            at = self.ids(Op::Bitcast, wanted, &[at]);
        }
        (at, u32::try_from(align).unwrap_or(1))
    }

    /// Returns the alignment that a copy states for its target (0) or its source (1); one that is stated once holds for
    /// both.
    fn aligned(&self, end: u32) -> Option<u64> {
        let inst = self.m.inst(self.at);
        let first = if inst.op == Op::CopyMemorySized { 3 } else { 2 };
        let masks: Vec<u32> = inst.operands.iter().skip(first).map(|o| o.word()).collect();
        let said = |at: usize| {
            let mask = *masks.get(at)?;
            (mask & MemoryAccess::Aligned.0 != 0).then(|| masks.get(at + 1).copied().map(u64::from)).flatten()
        };
        let second = if said(0).is_some() { 2 } else { 1 };
        let found = if end == 1 && masks.len() > second { said(second) } else { said(0) };
        found.filter(|a| a.is_power_of_two())
    }

    /// Reinterprets a value as another type.
    fn reinterpreted(&mut self, value: Id, from: Id, to: Id) -> Id {
        if from == to {
            return value;
        }
        let storage = |m: &Module, ty: Id| match Type::of(m, ty) {
            Some(Type::Pointer { storage, .. }) => Some(storage),
            _ => None,
        };
        let generic = StorageClass::Generic;
        let word = self.g.uint(self.m, 64);
        match (storage(self.m, from), storage(self.m, to)) {
            (Some(a), Some(b)) if a == b => self.ids(Op::Bitcast, to, &[value]),
            (Some(_), Some(b)) if b == generic => {
                let Some(Type::Pointer { pointee, .. }) = Type::of(self.m, from) else { return value };
                let between = self.g.pointer(self.m, generic, pointee);
                let cast = self.ids(Op::PtrCastToGeneric, between, &[value]);
                self.reinterpreted(cast, between, to)
            }
            (Some(a), Some(b)) if a == generic => {
                let Some(Type::Pointer { pointee, .. }) = Type::of(self.m, from) else { return value };
                let between = self.g.pointer(self.m, b, pointee);
                let cast = self.ids(Op::GenericCastToPtr, between, &[value]);
                self.reinterpreted(cast, between, to)
            }
            (Some(_), _) => {
                let number = self.ids(Op::ConvertPtrToU, word, &[value]);
                self.reinterpreted(number, word, to)
            }
            (None, Some(_)) => {
                let number = self.reinterpreted(value, from, word);
                self.ids(Op::ConvertUToPtr, to, &[number])
            }
            (None, None) => self.ids(Op::Bitcast, to, &[value]),
        }
    }
}
