//! The layout of OpenCL's types in memory: each at a multiple of its alignment, vectors of three like those of four.
//!
//! Matrices have no layout that anything says; compilers of kernels count them as pointers where they are in structs and
//! arrays ([`Layout::with_matrices`]).

use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::spv::{BuiltIn, Decoration};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Module};

/// Size and alignment in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

/// A number inside a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) offset: u64,
    pub(crate) scalar: Scalar,
}

/// Types in memory.
pub(crate) struct Layout {
    constants: Constants,
    decorations: Decorations,
    /// True if matrices have a size.
    matrices: bool,
}

/// Arrays that are moved as a whole have at most so many elements.
const MOST_PARTS: u64 = 1 << 16;

/// Types may be nested so deeply.
const DEEPEST: u32 = 32;

impl Layout {
    pub(crate) fn new(m: &Module, constants: Constants) -> Layout {
        Layout { constants, decorations: Decorations::new(m), matrices: false }
    }

    /// The same, with matrices of the size of a pointer.
    pub(crate) fn with_matrices(m: &Module, constants: Constants) -> Layout {
        Layout { matrices: true, ..Layout::new(m, constants) }
    }

    /// The value of a constant that can't be specialised any more.
    pub(crate) fn constant(&self, id: Id) -> Option<u64> {
        self.constants.get(id).fixed()
    }

    /// The built-in that a variable is.
    pub(crate) fn built_in(&self, id: Id) -> Option<BuiltIn> {
        self.decorations.built_in(id)
    }

    /// Returns true if an id has a decoration.
    pub(crate) fn has(&self, id: Id, decoration: Decoration) -> bool {
        self.decorations.has(id, decoration)
    }

    /// The name of an id.
    pub(crate) fn name(&self, m: &Module, id: Id) -> Option<String> {
        self.decorations.name(m, id)
    }

    /// Size and alignment of a type; `None` for what has none in memory.
    pub(crate) fn size(&self, m: &Module, ty: Id) -> Option<Size> {
        self.size_at(m, ty, DEEPEST)
    }

    fn size_at(&self, m: &Module, ty: Id, depth: u32) -> Option<Size> {
        let depth = depth.checked_sub(1)?;
        match Type::of(m, ty)? {
            Type::Scalar(s) => {
                let bytes = u64::from(s.bytes());
                matches!(s.width(), 8 | 16 | 32 | 64).then_some(Size { bytes, align: bytes })
            }
            Type::Pointer { .. } => Some(Size { bytes: 8, align: 8 }),
            Type::CoopMat(_) => self.matrices.then_some(Size { bytes: 8, align: 8 }),
            Type::Vector { elem, len } => {
                let elem = self.size_at(m, elem, depth)?;
                let len = u64::from(if len == 3 { 4 } else { len });
                Some(Size { bytes: elem.bytes * len, align: elem.bytes * len })
            }
            Type::Array { elem, len } => {
                let elem = self.size_at(m, elem, depth)?;
                let bytes = elem.bytes.checked_mul(self.constant(len)?)?;
                (bytes < 1 << 32).then_some(Size { bytes, align: elem.align })
            }
            Type::Struct { members } => {
                let mut whole = Size { bytes: 0, align: 1 };
                for (at, member) in self.members(m, ty, &members, depth)? {
                    whole.bytes = at + member.bytes;
                    whole.align = whole.align.max(member.align);
                }
                if self.has(ty, Decoration::CPacked) {
                    whole.align = 1;
                }
                whole.bytes = whole.bytes.next_multiple_of(whole.align);
                (whole.bytes < 1 << 32).then_some(whole)
            }
            _ => None,
        }
    }

    fn members(&self, m: &Module, ty: Id, members: &[Id], depth: u32) -> Option<Vec<(u64, Size)>> {
        let packed = self.has(ty, Decoration::CPacked);
        let mut at = 0u64;
        let mut out = Vec::with_capacity(members.len());
        for member in members {
            let size = self.size_at(m, *member, depth)?;
            if !packed {
                at = at.next_multiple_of(size.align.max(1));
            }
            out.push((at, size));
            at = at.checked_add(size.bytes)?;
        }
        Some(out)
    }

    /// The parts of a composite type: type and offset of each.
    pub(crate) fn parts(&self, m: &Module, ty: Id) -> Option<Vec<(Id, u64)>> {
        match Type::of(m, ty)? {
            Type::Vector { elem, len } => {
                let step = self.size(m, elem)?.bytes;
                Some((0..u64::from(len)).map(|i| (elem, i * step)).collect())
            }
            Type::Array { elem, len } => {
                let step = self.size(m, elem)?.bytes;
                let len = self.constant(len).filter(|n| *n <= MOST_PARTS)?;
                Some((0..len).map(|i| (elem, i * step)).collect())
            }
            Type::Struct { members } => {
                let offsets = self.members(m, ty, &members, DEEPEST)?;
                Some(members.iter().zip(offsets).map(|(t, (at, _))| (*t, at)).collect())
            }
            _ => None,
        }
    }

    /// The numbers that a type is made of, with their offsets, at most `most` of them. Pointers count as 64-bit numbers.
    pub(crate) fn leaves(&self, m: &Module, ty: Id, most: usize) -> Option<Vec<Leaf>> {
        let mut out = Vec::new();
        let mut work = vec![(ty, 0u64)];
        while let Some((ty, at)) = work.pop() {
            match Type::of(m, ty)? {
                Type::Scalar(scalar) => out.push(Leaf { offset: at, scalar }),
                Type::Pointer { .. } => {
                    out.push(Leaf { offset: at, scalar: Scalar::Int { width: 64, signed: false } });
                }
                Type::Array { len, .. } if self.constant(len)? > most as u64 => return None,
                _ => work.extend(self.parts(m, ty)?.into_iter().map(|(t, o)| (t, at + o))),
            }
            if out.len() > most || work.len() > 2 * most {
                return None;
            }
        }
        out.sort_by_key(|l| l.offset);
        Some(out)
    }
}
