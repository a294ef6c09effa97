//! The layout of memory that the application sees, as decorations give it.

use crate::parts::{numbers, parts};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::Decoration;
use coop_ir::types::{self, Type};
use coop_ir::{Id, Module};
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
    /// How the matrices lie that it has, or that it is a column of.
    pub(super) matrices: Option<Matrices>,
}

/// How matrices lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Matrices {
    /// Bytes from one column to the next; of those that are row-major, from one row to the next.
    stride: u32,
    /// True if they are row-major: the numbers of a row lie side by side, those of a column do not.
    row_major: bool,
}

impl Placed {
    /// Returns true if the numbers of a vector do not lie side by side: it is a column of a row-major matrix.
    pub(super) fn is_strided(self) -> bool {
        self.matrices.is_some_and(|of| of.row_major)
    }
}

/// A type in memory that nobody else sees: its parts lie as close as their numbers may.
struct Own {
    bytes: u32,
    /// Its numbers lie at multiples of so many bytes.
    align: u32,
    /// Where the members of a struct lie.
    offsets: Vec<u32>,
    /// Bytes between the elements of an array.
    stride: u32,
}

/// Bytes of types, with how the matrices in them lie. `None` if they are not known.
type Bytes = FxHashMap<(Id, Option<Matrices>), Option<u32>>;

/// Types in memory.
pub(super) struct Layout {
    pub(super) decorations: Decorations,
    constants: Constants,
    /// Types in memory that nobody else sees, which no decoration places.
    own: FxHashMap<Id, Own>,
    /// The bytes of types that were asked for: structs of structs may have very many parts.
    bytes: RefCell<Bytes>,
}

impl Layout {
    /// Reads the decorations; `own` are types of memory that nobody lays out.
    pub(super) fn new(m: &Module, own: Vec<Id>) -> Layout {
        let mut layout = Layout {
            own: FxHashMap::default(),
            decorations: Decorations::new(m),
            constants: Constants::new(m, &Specialization::new()),
            bytes: RefCell::default(),
        };
        let parts: FxHashSet<Id> = parts(m, own).into_iter().collect();
        // Parts come before what they are parts of.
        for id in m.globals.iter().filter_map(|r| m.inst(*r).result).filter(|id| parts.contains(id)) {
            if let Some(own) = layout.own_type(m, id) {
                layout.own.insert(id, own);
            }
        }
        layout
    }

    /// Places the parts of a type that no decoration places. `None` if some do, or its size is not known.
    fn own_type(&self, m: &Module, ty: Id) -> Option<Own> {
        let part = |ty: Id| match self.own.get(&ty) {
            Some(own) => Some((own.bytes, own.align)),
            None => {
                let bytes = self.bytes(m, Placed { ty, offset: 0, matrices: None }, DEEPEST)?;
                Some((bytes, numbers(m, ty).iter().map(|s| s.bytes()).max()?))
            }
        };
        let repeated = |elem: Id, len: u32| {
            let (bytes, align) = part(elem)?;
            let stride = bytes.checked_next_multiple_of(align)?;
            let all = len.checked_sub(1)?.checked_mul(stride)?.checked_add(bytes)?;
            Some(Own { bytes: all, align, offsets: Vec::new(), stride })
        };
        match Type::of(m, ty)? {
            Type::Scalar(s) => Some(Own { bytes: s.bytes(), align: s.bytes(), offsets: Vec::new(), stride: 0 }),
            Type::Vector { elem, len } => repeated(elem, len),
            Type::Matrix { column, cols } => repeated(column, cols),
            Type::Array { elem, len } if self.decorations.value(ty, Decoration::ArrayStride).is_none() => {
                repeated(elem, self.fixed(len)?)
            }
            Type::Struct { members } => {
                const PLACES: [Decoration; 2] = [Decoration::Offset, Decoration::MatrixStride];
                let placed = |n: u32| PLACES.iter().any(|d| self.decorations.member_value(ty, n, *d).is_some());
                if (0..members.len() as u32).any(placed) {
                    return None;
                }
                let mut own = Own { bytes: 0, align: 1, offsets: Vec::new(), stride: 0 };
                for member in members {
                    let (bytes, align) = part(member)?;
                    let offset = own.bytes.checked_next_multiple_of(align)?;
                    own.offsets.push(offset);
                    (own.bytes, own.align) = (offset.checked_add(bytes)?, own.align.max(align));
                }
                Some(own)
            }
            _ => None,
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
        let offset = value(Decoration::Offset).or_else(|| self.own.get(&ty)?.offsets.get(member as usize).copied());
        let offset = offset.ok_or_else(|| format!("member {member} has no Offset"))?;
        let row_major = self.decorations.member_has(ty, member, Decoration::RowMajor);
        let matrices = value(Decoration::MatrixStride).map(|stride| Matrices { stride, row_major });
        Ok(Placed { ty: inner, offset, matrices })
    }

    /// Returns the type of the elements of an array, a vector or a matrix, and the bytes from one to the next.
    pub(super) fn element(&self, m: &Module, whole: Placed) -> Result<(Placed, u32), String> {
        let at = |ty: Id| Placed { ty, offset: 0, matrices: whole.matrices };
        match Type::of(m, whole.ty) {
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => {
                let stride = self.decorations.value(whole.ty, Decoration::ArrayStride);
                let stride = stride.or_else(|| self.own.get(&whole.ty).map(|own| own.stride));
                stride.map(|s| (at(elem), s)).ok_or_else(|| "an array has no ArrayStride".to_owned())
            }
            Some(Type::Vector { elem, .. }) if whole.is_strided() => {
                whole.matrices.map(|of| (at(elem), of.stride)).ok_or_else(|| "a vector of no numbers".to_owned())
            }
            Some(Type::Vector { elem, .. }) => {
                types::packed_bytes(m, elem).map(|b| (at(elem), b)).ok_or_else(|| "a vector of no numbers".to_owned())
            }
            Some(Type::Matrix { column, .. }) => {
                let own = || self.own.get(&whole.ty).map(|own| own.stride);
                let stride = match whole.matrices {
                    Some(of) if of.row_major => types::scalar_or_vector(m, column).map(|(s, _)| s.bytes()),
                    Some(of) => Some(of.stride),
                    None => own(),
                };
                stride.map(|s| (at(column), s)).ok_or_else(|| "a matrix has no MatrixStride".to_owned())
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
        self.bytes(m, Placed { ty, offset: 0, matrices: None }, DEEPEST)
    }

    fn bytes(&self, m: &Module, whole: Placed, depth: u32) -> Option<u32> {
        let key = (whole.ty, whole.matrices);
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
