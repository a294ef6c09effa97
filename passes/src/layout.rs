//! The layout of OpenCL's types in memory: each at a multiple of its alignment, vectors of three like those of four.
//!
//! Matrices have no layout that anything says; compilers of kernels count them as pointers where they are in structs and
//! arrays ([`Layout::with_matrices`]).

use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::Decoration;
use coop_ir::types::Type;
use coop_ir::{Id, Module};

/// Size and alignment in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

/// Types in memory.
pub(crate) struct Layout {
    constants: Constants,
    pub(crate) decorations: Decorations,
    /// True if matrices have a size.
    matrices: bool,
}

/// Arrays that are moved as a whole have at most so many elements.
const MOST_PARTS: u64 = 1 << 16;

/// Types may be nested so deeply.
const DEEPEST: u32 = 32;

/// The sizes of types that were asked for: structs of structs may have very many parts.
type Known = FxHashMap<Id, Option<Size>>;

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

    /// Returns true if an id has a decoration.
    pub(crate) fn has(&self, id: Id, decoration: Decoration) -> bool {
        self.decorations.has(id, decoration)
    }

    /// Size and alignment of a type; `None` for what has none in memory.
    pub(crate) fn size(&self, m: &Module, ty: Id) -> Option<Size> {
        self.size_at(m, ty, DEEPEST, &mut Known::default())
    }

    fn size_at(&self, m: &Module, ty: Id, depth: u32, known: &mut Known) -> Option<Size> {
        if let Some(size) = known.get(&ty) {
            return *size;
        }
        let size = self.size_of(m, ty, depth, known);
        known.insert(ty, size);
        size
    }

    fn size_of(&self, m: &Module, ty: Id, depth: u32, known: &mut Known) -> Option<Size> {
        let depth = depth.checked_sub(1)?;
        match Type::of(m, ty)? {
            Type::Scalar(s) => {
                let bytes = u64::from(s.bytes());
                matches!(s.width(), 8 | 16 | 32 | 64).then_some(Size { bytes, align: bytes })
            }
            Type::Pointer { .. } => Some(Size { bytes: 8, align: 8 }),
            Type::CoopMat(_) => self.matrices.then_some(Size { bytes: 8, align: 8 }),
            Type::Vector { elem, len } => {
                let elem = self.size_at(m, elem, depth, known)?;
                let len = u64::from(if len == 3 { 4 } else { len });
                Some(Size { bytes: elem.bytes * len, align: elem.bytes * len })
            }
            Type::Array { elem, len } => {
                let elem = self.size_at(m, elem, depth, known)?;
                let bytes = elem.bytes.checked_mul(self.constant(len)?)?;
                (bytes < 1 << 32).then_some(Size { bytes, align: elem.align })
            }
            Type::Struct { members } => {
                let mut whole = Size { bytes: 0, align: 1 };
                for (at, member) in self.members(m, ty, &members, depth, known)? {
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

    fn members(&self, m: &Module, ty: Id, members: &[Id], depth: u32, known: &mut Known) -> Option<Vec<(u64, Size)>> {
        let packed = self.has(ty, Decoration::CPacked);
        let mut at = 0u64;
        let mut out = Vec::with_capacity(members.len());
        for member in members {
            let size = self.size_at(m, *member, depth, known)?;
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
                let offsets = self.members(m, ty, &members, DEEPEST, &mut Known::default())?;
                Some(members.iter().zip(offsets).map(|(t, (at, _))| (*t, at)).collect())
            }
            _ => None,
        }
    }
}
