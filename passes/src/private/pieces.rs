//! Splits variables into pieces.
//!
//! Each access implies a number, a pointer or a matrix of some size at some offset. A copy implies that both ends have
//! the same pieces. Where different pieces overlap, vectors are split; if pieces still overlap then, the variable can't
//! be split.

use super::pointer_uses::{Action, End, PointerUses};
use crate::layout::Layout;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::StorageClass;
use coop_ir::types::{self, Type};
use coop_ir::{Id, Module, Op};
use std::collections::BTreeMap;

/// The pieces of a variable: size and type, by offset.
pub(super) type Pieces = BTreeMap<u64, (u64, Id)>;

/// The most parts of a composite.
const MOST_PARTS: usize = 256;

/// Returns the pieces of each variable, or a variable that can't be split.
pub(super) fn split(m: &Module, layout: &Layout, walk: &PointerUses, left: &FxHashSet<Id>) -> Result<Vec<Pieces>, Id> {
    let mut apart: FxHashSet<usize> = FxHashSet::default();
    let byte = m.globals_with(Op::TypeInt).find(|r| m.inst(*r).word(0) == Some(8)).and_then(|r| m.inst(r).result);
    loop {
        let mut cutter = Splitter { m, layout, apart: &apart, pieces: vec![Pieces::new(); walk.variables.len()], byte };
        let Err(variable) = cutter.run(walk) else { return Ok(cutter.pieces) };
        let id = walk.variables[variable].id;
        // Retry with vectors split.
        if left.contains(&id) || !apart.insert(variable) {
            return Err(id);
        }
    }
}

struct Splitter<'a> {
    m: &'a Module,
    layout: &'a Layout,
    /// The variables whose vectors are split.
    apart: &'a FxHashSet<usize>,
    pieces: Vec<Pieces>,
    /// The type of a byte.
    byte: Option<Id>,
}

impl Splitter<'_> {
    /// Splits all variables. Fails with the index of a variable that can't be split.
    fn run(&mut self, walk: &PointerUses) -> Result<(), usize> {
        // Stores tell the types best.
        let stores = walk.acts.iter().filter(|a| matches!(a.1, Action::Store(..)));
        let loads = walk.acts.iter().filter(|a| matches!(a.1, Action::Load(..)));
        for (_, act) in stores.chain(loads) {
            let (Action::Store(location, ty) | Action::Load(location, ty)) = act else { continue };
            match location.element {
                Some(element) => {
                    self.element_fits(element.matrix, *ty).ok_or(location.variable)?;
                    self.add(location.variable, location.offset, element.matrix)?;
                }
                None => self.add(location.variable, location.offset, *ty)?,
            }
        }
        loop {
            let mut changed = false;
            for (_, act) in &walk.acts {
                let Action::Copy(to, from, bytes) = act else { continue };
                changed |= self.copy_pieces(*to, *from, *bytes)?;
                changed |= self.copy_pieces(*from, *to, *bytes)?;
            }
            if !changed {
                break;
            }
        }
        for (_, act) in &walk.acts {
            if let Action::Copy(End::Elsewhere(pointer), End::Variable(source, begin), bytes) = act {
                self.cover(*source, *begin, *bytes, *pointer)?;
            }
        }
        Ok(())
    }

    /// Ensures that pieces cover all bytes of a variable in a range: they are copied to memory where more of them may
    /// be used than here. A copy to private memory stays until its types are known.
    fn cover(&mut self, variable: usize, begin: u64, bytes: u64, to: Id) -> Result<(), usize> {
        let mut at = begin;
        let end = begin.checked_add(bytes).ok_or(variable)?;
        while at < end {
            if let Some((size, _)) = self.pieces[variable].get(&at) {
                at += size;
                continue;
            }
            let storage = self.m.type_of(to).and_then(|t| Type::of(self.m, t));
            let known = [StorageClass::CrossWorkgroup, StorageClass::Workgroup];
            let byte = self
                .byte
                .filter(|_| matches!(storage, Some(Type::Pointer { storage, .. }) if known.contains(&storage)));
            self.put(variable, at, 1, byte.ok_or(variable)?)?;
            at += 1;
        }
        Ok(())
    }

    /// Returns `Some` if an element can be accessed as a type: it has the same bits.
    fn element_fits(&self, matrix: Id, ty: Id) -> Option<()> {
        let component = types::scalar(self.m, types::coop_mat(self.m, matrix)?.component)?;
        let (scalar, count) = types::scalar_or_vector(self.m, self.only_number(ty)?)?;
        (scalar.width() * count == component.width()).then_some(())
    }

    /// Returns the scalar type that a type is, or that is the only content of a struct.
    fn only_number(&self, ty: Id) -> Option<Id> {
        match Type::of(self.m, ty)? {
            Type::Scalar(_) | Type::Vector { .. } => Some(ty),
            _ => None,
        }
    }

    /// Adds the parts of a type at an offset.
    fn add(&mut self, variable: usize, offset: u64, ty: Id) -> Result<(), usize> {
        for (at, part) in self.parts(ty, self.apart.contains(&variable)).ok_or(variable)? {
            let bytes = self.layout.size(self.m, part).ok_or(variable)?.bytes;
            self.put(variable, offset + at, bytes, part)?;
        }
        Ok(())
    }

    /// Returns the numbers, pointers, matrices and, unless `apart`, vectors that a type consists of.
    fn parts(&self, ty: Id, apart: bool) -> Option<Vec<(u64, Id)>> {
        let mut out = Vec::new();
        let mut work = vec![(0, ty)];
        while let Some((at, ty)) = work.pop() {
            match Type::of(self.m, ty)? {
                Type::Scalar(_) | Type::Pointer { .. } | Type::CoopMat(_) => out.push((at, ty)),
                Type::Vector { .. } if !apart => out.push((at, ty)),
                _ => work.extend(self.layout.parts(self.m, ty)?.into_iter().map(|(t, o)| (at + o, t))),
            }
            if out.len() + work.len() > MOST_PARTS {
                return None;
            }
        }
        Some(out)
    }

    /// Adds a piece. Returns true if it is new.
    fn put(&mut self, variable: usize, offset: u64, bytes: u64, ty: Id) -> Result<bool, usize> {
        let end = offset.checked_add(bytes).ok_or(variable)?;
        let matrix = |t: Id| types::coop_mat(self.m, t).map(|_| t);
        let overlapping = self.pieces[variable].range(..end).next_back().filter(|(at, (size, _))| *at + size > offset);
        match overlapping {
            None => {
                self.pieces[variable].insert(offset, (bytes, ty));
                Ok(true)
            }
            // A matrix can only be accessed as its own type.
            Some((at, (size, there))) if (*at, *size) == (offset, bytes) && matrix(*there) == matrix(ty) => Ok(false),
            Some(_) => Err(variable),
        }
    }

    /// Adds the pieces of one end of a copy to the other.
    fn copy_pieces(&mut self, to: End, from: End, bytes: u64) -> Result<bool, usize> {
        let End::Variable(source, begin) = from else { return Ok(false) };
        let mut changed = false;
        let inside: Vec<(u64, (u64, Id))> = self.pieces[source]
            .range(..begin.saturating_add(bytes))
            .filter(|(at, (size, _))| *at + size > begin)
            .map(|(at, piece)| (*at, *piece))
            .collect();
        for (at, (size, ty)) in inside {
            if at < begin || at + size > begin + bytes {
                return Err(source);
            }
            match to {
                End::Variable(target, offset) => {
                    let apart = self.apart.contains(&target);
                    for (inner, part) in self.parts(ty, apart).ok_or(source)? {
                        let size = self.layout.size(self.m, part).ok_or(source)?.bytes;
                        changed |= self.put(target, offset + at - begin + inner, size, part)?;
                    }
                }
                // Other memory holds no matrices.
                End::Elsewhere(_) if types::coop_mat(self.m, ty).is_some() => return Err(source),
                End::Elsewhere(_) => {}
            }
        }
        Ok(changed)
    }
}
