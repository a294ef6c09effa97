//! The layout of memory that the application sees, as decorations give it.

use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::Decoration;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, IdSet, Module};
use std::cell::RefCell;

/// A composite that is moved as a whole has at most so many numbers.
pub(super) const MOST_NUMBERS: usize = 1 << 12;

/// Types are nested so deeply at most.
const DEEPEST: u32 = 32;

/// A type at a place in memory. What a struct says of a matrix holds for its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// The type.
    pub(super) ty: Id,
    /// Bytes from the beginning of what it is a part of.
    pub(super) offset: u32,
    /// Bytes between the columns of the matrices that it has.
    pub(super) matrix_stride: MatrixStride,
}

/// Bytes between the columns of matrices, where there are some.
type MatrixStride = Option<u32>;

/// Types in memory.
pub(super) struct Layout {
    pub(super) decorations: Decorations,
    constants: Constants,
    /// The bytes of types that were asked for: structs of structs may have very many parts.
    bytes: RefCell<FxHashMap<(Id, MatrixStride), Option<u32>>>,
}

impl Layout {
    pub(super) fn new(m: &Module) -> Layout {
        Layout {
            decorations: Decorations::new(m),
            constants: Constants::new(m, &Specialization::new()),
            bytes: RefCell::default(),
        }
    }

    /// Returns the value of a constant that can't be specialized any more.
    pub(super) fn fixed(&self, id: Id) -> Option<u32> {
        self.constants.get(id).fixed().and_then(|v| u32::try_from(v).ok())
    }

    /// Returns the value of an index, as [`Layout::fixed`] does, if it is not negative. Indices are signed, whatever their type.
    pub(super) fn index(&self, m: &Module, id: Id) -> Option<u32> {
        let width = types::scalar(m, m.type_of(id)?)?.width();
        self.fixed(id).filter(|n| width > 32 || (1..=32).contains(&width) && n >> (width - 1) == 0)
    }

    /// Returns a member of a struct. An error says why it has no place.
    pub(super) fn member(&self, ty: Id, members: &[Id], member: u32) -> Result<Placed, String> {
        let value = |d: Decoration| self.decorations.member_value(ty, member, d);
        let inner = members.get(member as usize).copied().ok_or_else(|| format!("a struct has no member {member}"))?;
        if self.decorations.member_has(ty, member, Decoration::RowMajor) {
            return Err("a row-major matrix is in memory of words".to_owned());
        }
        let offset = value(Decoration::Offset).ok_or_else(|| format!("member {member} has no Offset"))?;
        Ok(Placed { ty: inner, offset, matrix_stride: value(Decoration::MatrixStride) })
    }

    /// Returns the type of the elements of an array, a vector or a matrix, and the bytes from one to the next.
    pub(super) fn element(&self, m: &Module, whole: Placed) -> Result<(Placed, u32), String> {
        let at = |ty: Id| Placed { ty, offset: 0, matrix_stride: whole.matrix_stride };
        match Type::of(m, whole.ty) {
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => {
                let stride = self.decorations.value(whole.ty, Decoration::ArrayStride);
                stride.map(|s| (at(elem), s)).ok_or_else(|| "an array has no ArrayStride".to_owned())
            }
            Some(Type::Vector { elem, .. }) => {
                types::packed_bytes(m, elem).map(|b| (at(elem), b)).ok_or_else(|| "a vector of no numbers".to_owned())
            }
            Some(Type::Matrix { column, .. }) => {
                whole.matrix_stride.map(|s| (at(column), s)).ok_or_else(|| "a matrix has no MatrixStride".to_owned())
            }
            _ => Err("a type has no elements".to_owned()),
        }
    }

    /// Returns the parts of a type in the order of a composite; none for a number.
    pub(super) fn parts(&self, m: &Module, whole: Placed) -> Result<Vec<Placed>, String> {
        let count = match Type::of(m, whole.ty) {
            Some(Type::Scalar(_)) => return Ok(Vec::new()),
            Some(Type::Struct { members }) => {
                let all = (0..members.len() as u32).map(|n| self.member(whole.ty, &members, n));
                let inside = |p: Placed| {
                    let offset = whole.offset.checked_add(p.offset).ok_or("an offset is too large")?;
                    Ok(Placed { offset, ..p })
                };
                return all.map(|p| p.and_then(inside)).collect();
            }
            Some(Type::Vector { len, .. }) => len,
            Some(Type::Matrix { cols, .. }) => cols,
            Some(Type::Array { len, .. }) => {
                self.fixed(len).ok_or_else(|| "the length of an array is not known".to_owned())?
            }
            _ => return Err("a type is not made of numbers".to_owned()),
        };
        if count as usize > MOST_NUMBERS {
            return Err(format!("an array of {count} elements is moved as a whole"));
        }
        let (one, stride) = self.element(m, whole)?;
        (0..count)
            .map(|n| {
                let offset = n.checked_mul(stride).and_then(|o| o.checked_add(whole.offset));
                offset.map(|offset| Placed { offset, ..one }).ok_or_else(|| "an array is too large".to_owned())
            })
            .collect()
    }

    /// Returns the bytes of a block, up to the end of its last number. `None` if its length is not known.
    pub(super) fn block_bytes(&self, m: &Module, ty: Id) -> Option<u32> {
        self.bytes(m, Placed { ty, offset: 0, matrix_stride: None }, DEEPEST)
    }

    fn bytes(&self, m: &Module, whole: Placed, depth: u32) -> Option<u32> {
        let key = (whole.ty, whole.matrix_stride);
        if let Some(known) = self.bytes.borrow().get(&key) {
            return *known;
        }
        let bytes = self.computed_bytes(m, whole, depth.checked_sub(1)?);
        self.bytes.borrow_mut().insert(key, bytes);
        bytes
    }

    fn computed_bytes(&self, m: &Module, whole: Placed, depth: u32) -> Option<u32> {
        let count = match Type::of(m, whole.ty)? {
            Type::Scalar(s) => return Some(s.bytes()),
            Type::Struct { members } => {
                let mut end = 0;
                for n in 0..members.len() as u32 {
                    let member = self.member(whole.ty, &members, n).ok()?;
                    end = end.max(member.offset.checked_add(self.bytes(m, member, depth)?)?);
                }
                return Some(end);
            }
            Type::Vector { len, .. } => len,
            Type::Matrix { cols, .. } => cols,
            Type::Array { len, .. } => self.fixed(len)?,
            _ => return None,
        };
        let (one, stride) = self.element(m, whole).ok()?;
        count.checked_sub(1)?.checked_mul(stride)?.checked_add(self.bytes(m, one, depth)?)
    }
}

/// Returns the kinds of numbers that a type is made of, without what pointers in it point to.
pub(crate) fn numbers(m: &Module, ty: Id) -> Vec<Scalar> {
    let mut out = Vec::new();
    let mut work = vec![ty];
    let mut seen = IdSet::default();
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match Type::of(m, ty) {
            Some(Type::Scalar(s)) if !out.contains(&s) => out.push(s),
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. }) => work.push(elem),
            Some(Type::Matrix { column, .. }) => work.push(column),
            Some(Type::Struct { members }) => work.extend(members),
            _ => {}
        }
    }
    out
}
