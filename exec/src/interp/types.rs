//! Types as slots and as bytes.
//!
//! A value is a number of *slots*, each one scalar (64 bits wide here, whatever the type) per invocation: a vector has
//! one for each component, a struct those of its members, a pointer one, a cooperative matrix one for each element that
//! an invocation holds. In memory with bytes (buffers, Workgroup) a type has offsets: its decorations where it has
//! some, else packed with natural alignment.

use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, IdMap, Inst, Module, Op};

use super::num::Num;
use super::placement::Placed;

/// An index into [`Types`].
pub(super) type Ty = u32;

/// The largest number of slots in a value.
pub(super) const MAX_SLOTS: u64 = 1 << 22;

pub(super) const NO_TYPE: Ty = u32::MAX;

/// The structure of a type.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Void,
    Num(Num),
    Vector {
        elem: Ty,
        len: u32,
    },
    Matrix {
        column: Ty,
        cols: u32,
    },
    Coop(Box<Coop>),
    Array {
        elem: Ty,
        len: u32,
        stride: Option<u32>,
    },
    Runtime {
        elem: Ty,
        stride: Option<u32>,
    },
    Struct {
        members: Box<[Member]>,
    },
    Pointer {
        class: StorageClass,
        pointee: Id,
        stride: Option<u32>,
    },
    Untyped {
        class: StorageClass,
    },
    Layout {
        dim: u32,
        clamp: u32,
    },
    View {
        dim: u32,
        has_dims: bool,
        perm: Box<[u32]>,
    },
    /// An unknown or unsupported type; uses of its values fail.
    Other,
}

/// A member of a struct.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub ty: Ty,
    pub slot: u32,
    pub offset: u32,
    /// The layout of a matrix member.
    pub matrix: MatLayout,
    /// True if no decoration gives its offset.
    pub natural: bool,
}

/// The layout of a matrix member in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MatLayout {
    pub stride: Option<u32>,
    pub row_major: bool,
}

/// A cooperative matrix type with its constants resolved.
#[derive(Clone, Debug)]
pub(super) struct Coop {
    pub num: Num,
    pub elem: Ty,
    pub scope: u32,
    pub rows: u32,
    pub cols: u32,
    /// 0 A, 1 B, 2 Accumulator; 3 for the types of SPV_NV_cooperative_matrix, which have none.
    pub use_: u32,
    pub placed: Placed,
}

impl Coop {
    pub(super) fn elems(&self) -> usize {
        self.rows as usize * self.cols as usize
    }
}

/// A type, with facts that are needed often.
#[derive(Clone, Debug)]
pub(super) struct Info {
    pub kind: Kind,
    pub slots: u32,
    pub id: Id,
}

/// One scalar of a type in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub offset: u32,
    pub bytes: u8,
    pub slot: u32,
}

/// Decorations that the interpreter reads.
#[derive(Default)]
pub(super) struct Decorations {
    pub of: Vec<(Id, Decoration, Vec<u32>)>,
    pub members: Vec<(Id, u32, Decoration, u32)>,
    index: FxHashMap<(Id, Decoration), usize>,
    member_index: FxHashMap<(Id, u32, Decoration), u32>,
}

impl Decorations {
    pub(super) fn new(module: &Module) -> Decorations {
        let mut d = Decorations::default();
        for inst in module.globals.iter().map(|r| module.inst(*r)) {
            match inst.op {
                Op::Decorate | Op::DecorateId => {
                    if let (Some(target), Some(deco)) = (inst.id(0), inst.enumerant(1)) {
                        let words = inst.operands.iter().skip(2).map(|o| o.word()).collect();
                        d.push(target, deco, words);
                    }
                }
                Op::MemberDecorate => {
                    if let Some((target, member, deco)) = inst.member_decoration() {
                        d.push_member(target, member, deco, inst.word(3).unwrap_or(0));
                    }
                }
                Op::GroupDecorate => d.group(inst),
                _ => {}
            }
        }
        d
    }

    fn push(&mut self, target: Id, deco: Decoration, words: Vec<u32>) {
        self.index.insert((target, deco), self.of.len());
        self.of.push((target, deco, words));
    }

    fn push_member(&mut self, target: Id, member: u32, deco: Decoration, word: u32) {
        self.member_index.insert((target, member, deco), word);
        self.members.push((target, member, deco, word));
    }

    fn group(&mut self, inst: &Inst) {
        let Some(group) = inst.id(0) else { return };
        let of: Vec<_> = self.of.iter().filter(|d| d.0 == group).cloned().collect();
        for target in inst.ids_from(1) {
            for (_, deco, words) in &of {
                self.push(target, *deco, words.clone());
            }
        }
    }

    pub(super) fn word(&self, target: Id, deco: Decoration) -> Option<u32> {
        let at = *self.index.get(&(target, deco))?;
        Some(self.of[at].2.first().copied().unwrap_or(0))
    }

    pub(super) fn has(&self, target: Id, deco: Decoration) -> bool {
        self.index.contains_key(&(target, deco))
    }

    pub(super) fn member(&self, target: Id, member: u32, deco: Decoration) -> Option<u32> {
        self.member_index.get(&(target, member, deco)).copied()
    }
}

/// The types of a module.
pub(super) struct Types {
    list: Vec<Info>,
    by_id: IdMap<Ty>,
}

impl Types {
    pub(super) fn new(module: &Module) -> Types {
        Types { list: Vec::new(), by_id: module.id_map() }
    }

    pub(super) fn get(&self, ty: Ty) -> &Info {
        &self.list[ty as usize]
    }

    pub(super) fn kind(&self, ty: Ty) -> &Kind {
        &self.list[ty as usize].kind
    }

    pub(super) fn slots(&self, ty: Ty) -> u32 {
        self.list[ty as usize].slots
    }

    pub(super) fn of(&self, id: Id) -> Option<Ty> {
        self.by_id.get(id).copied()
    }

    pub(super) fn add(&mut self, id: Id, kind: Kind) -> Result<Ty, String> {
        let slots = self.count(&kind);
        if slots > MAX_SLOTS && !matches!(kind, Kind::Array { .. } | Kind::Struct { .. }) {
            return Err(format!("the type {id} has {slots} components"));
        }
        let ty = self.list.len() as Ty;
        self.list.push(Info { kind, slots: slots.min(u64::from(u32::MAX)) as u32, id });
        self.by_id.insert(id, ty);
        Ok(ty)
    }

    fn count(&self, kind: &Kind) -> u64 {
        let of = |ty: &Ty| u64::from(self.slots(*ty));
        match kind {
            Kind::Void | Kind::Runtime { .. } => 0,
            Kind::Num(_) | Kind::Pointer { .. } | Kind::Untyped { .. } | Kind::Other => 1,
            Kind::Vector { len, .. } => u64::from(*len),
            Kind::Matrix { column, cols } => of(column).saturating_mul(u64::from(*cols)),
            Kind::Coop(c) => u64::from(c.placed.len),
            Kind::Array { elem, len, .. } => of(elem).saturating_mul(u64::from(*len)),
            Kind::Struct { members } => members.iter().map(|m| of(&m.ty)).fold(0, u64::saturating_add),
            Kind::Layout { dim, .. } => 5 * u64::from(*dim) + 1,
            Kind::View { dim, .. } => 2 * u64::from(*dim) + 4,
        }
    }

    /// The scalar and the number of components of a scalar, a vector or a cooperative matrix.
    pub(super) fn numeric(&self, ty: Ty) -> Option<(Num, u32)> {
        match self.kind(ty) {
            Kind::Num(n) => Some((*n, 1)),
            Kind::Vector { elem, len } => match self.kind(*elem) {
                Kind::Num(n) => Some((*n, *len)),
                // Vectors of pointers (Kernel) are not numeric.
                _ => None,
            },
            Kind::Coop(c) => Some((c.num, c.placed.len)),
            Kind::Matrix { column, cols } => self.numeric(*column).map(|(n, len)| (n, len * cols)),
            Kind::Pointer { .. } | Kind::Untyped { .. } => Some((Num::U64, 1)),
            _ => None,
        }
    }

    pub(super) fn coop(&self, ty: Ty) -> Option<&Coop> {
        match self.kind(ty) {
            Kind::Coop(c) => Some(c),
            _ => None,
        }
    }

    /// The scope of the cooperative matrices in a type, if it has any.
    pub(super) fn matrix_scope(&self, ty: Ty) -> Option<u32> {
        match self.kind(ty) {
            Kind::Coop(c) => Some(c.scope),
            Kind::Array { elem, .. } => self.matrix_scope(*elem),
            Kind::Struct { members } => members.iter().find_map(|m| self.matrix_scope(m.ty)),
            _ => None,
        }
    }

    /// Returns the type of a part and its first slot.
    pub(super) fn part(&self, ty: Ty, index: u32) -> Option<(Ty, u32)> {
        match self.kind(ty) {
            Kind::Vector { elem, len } | Kind::Array { elem, len, .. } if index < *len => {
                Some((*elem, index.checked_mul(self.slots(*elem))?))
            }
            Kind::Matrix { column, cols } if index < *cols => Some((*column, index * self.slots(*column))),
            Kind::Coop(c) if index < c.placed.len => Some((c.elem, index)),
            Kind::Struct { members } => members.get(index as usize).map(|m| (m.ty, m.slot)),
            _ => None,
        }
    }

    /// Returns size and alignment in bytes. Runtime arrays have size 0.
    pub(super) fn size(&self, ty: Ty, mat: MatLayout) -> (u64, u32) {
        match self.kind(ty) {
            Kind::Num(n) => (u64::from(n.bytes()), n.bytes()),
            Kind::Pointer { .. } | Kind::Untyped { .. } => (8, 8),
            Kind::Vector { elem, len } => {
                let (size, align) = self.size(*elem, mat);
                (size * u64::from(*len), align)
            }
            Kind::Matrix { column, cols } => {
                let (column_size, align) = self.size(*column, mat);
                let count = if mat.row_major { self.slots(*column) } else { *cols };
                let across = if mat.row_major { u64::from(*cols) * u64::from(align) } else { column_size };
                let stride = mat.stride.map_or(across, u64::from);
                (stride * u64::from(count.saturating_sub(1)) + across, align)
            }
            Kind::Array { elem, len, stride } => {
                let (size, align) = self.size(*elem, mat);
                let stride = stride.map_or(size.next_multiple_of(u64::from(align.max(1))), u64::from);
                (stride.saturating_mul(u64::from(*len)), align)
            }
            Kind::Runtime { elem, .. } => (0, self.size(*elem, mat).1),
            Kind::Struct { members } => {
                let mut end = 0;
                let mut align = 1;
                for m in members {
                    let (size, a) = self.size(m.ty, m.matrix);
                    align = align.max(a);
                    end = end.max(u64::from(m.offset).saturating_add(size));
                }
                (end.saturating_add(u64::from(self.tail(members, end, align))), align)
            }
            _ => (0, 1),
        }
    }

    /// Returns the padding after the last member of a struct without offsets of its own, as in C.
    fn tail(&self, members: &[Member], end: u64, align: u32) -> u32 {
        let natural = members.iter().all(|m| m.natural);
        if natural { (end.next_multiple_of(u64::from(align.max(1))) - end) as u32 } else { 0 }
    }

    /// Returns the stride of an array in bytes.
    pub(super) fn stride(&self, elem: Ty, stride: Option<u32>, mat: MatLayout) -> u64 {
        match stride {
            Some(s) => u64::from(s),
            None => {
                let (size, align) = self.size(elem, mat);
                size.next_multiple_of(u64::from(align.max(1)))
            }
        }
    }

    /// Returns the scalars of a type in memory, ascending by slot; `None` if the type has no fixed layout.
    pub(super) fn leaves(&self, ty: Ty, mat: MatLayout) -> Option<Vec<Leaf>> {
        let mut out = Vec::new();
        self.add_leaves(ty, mat, 0, &mut out)?;
        Some(out)
    }

    fn add_leaves(&self, ty: Ty, mat: MatLayout, at: u64, out: &mut Vec<Leaf>) -> Option<()> {
        if out.len() as u64 > MAX_SLOTS {
            return None;
        }
        match self.kind(ty) {
            Kind::Num(n) => {
                if !n.bits().is_multiple_of(8) {
                    return None;
                }
                out.push(Leaf { offset: u32::try_from(at).ok()?, bytes: n.bytes() as u8, slot: out.len() as u32 });
            }
            Kind::Pointer { .. } | Kind::Untyped { .. } => {
                out.push(Leaf { offset: u32::try_from(at).ok()?, bytes: 8, slot: out.len() as u32 });
            }
            Kind::Vector { elem, len } => {
                // A column of a matrix that is stored by rows.
                let size = match mat {
                    MatLayout { stride: Some(stride), row_major: true } => u64::from(stride),
                    _ => self.size(*elem, mat).0,
                };
                for i in 0..u64::from(*len) {
                    self.add_leaves(*elem, mat, at + i * size, out)?;
                }
            }
            Kind::Matrix { column, cols } => {
                let rows = self.slots(*column);
                let (num, _) = self.numeric(*column)?;
                let natural = if mat.row_major { *cols } else { rows } * num.bytes();
                let stride = u64::from(mat.stride.unwrap_or(natural));
                let size = u64::from(num.bytes());
                for c in 0..u64::from(*cols) {
                    for r in 0..u64::from(rows) {
                        let offset = if mat.row_major { r * stride + c * size } else { c * stride + r * size };
                        let offset = u32::try_from(at + offset).ok()?;
                        out.push(Leaf { offset, bytes: num.bytes() as u8, slot: out.len() as u32 });
                    }
                }
            }
            Kind::Array { elem, len, stride } => {
                let stride = self.stride(*elem, *stride, mat);
                for i in 0..u64::from(*len) {
                    self.add_leaves(*elem, mat, at.checked_add(i.checked_mul(stride)?)?, out)?;
                }
            }
            Kind::Struct { members } => {
                for m in members {
                    self.add_leaves(m.ty, m.matrix, at + u64::from(m.offset), out)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the structure of a type that needs no constants; `None` for other types and instructions.
    pub(super) fn plain(&self, inst: &Inst, d: &Decorations) -> Option<Kind> {
        let id = inst.result?;
        let of = |id: Id| self.of(id).unwrap_or(NO_TYPE);
        Some(match Type::of_inst(inst)? {
            Type::Void => Kind::Void,
            Type::Bool => Kind::Num(Num::Bool),
            Type::Scalar(s) => Num::of(s).map_or(Kind::Other, Kind::Num),
            Type::Vector { elem, len } => known(of(elem), |elem| Kind::Vector { elem, len }),
            Type::Matrix { column, cols } => known(of(column), |column| Kind::Matrix { column, cols }),
            Type::RuntimeArray { elem } => {
                let stride = d.word(id, Decoration::ArrayStride);
                known(of(elem), |elem| Kind::Runtime { elem, stride })
            }
            Type::Struct { members } => self.structure(id, &members, d),
            Type::Pointer { storage, pointee } => {
                Kind::Pointer { class: storage, pointee, stride: d.word(id, Decoration::ArrayStride) }
            }
            Type::UntypedPointer { storage } => Kind::Untyped { class: storage },
            Type::CoopMat(_) | Type::Array { .. } => return None,
            Type::Other(op) if op.is_tensor_type() || op.is_matrix_type() => return None,
            Type::Other(Op::TypeVectorIdEXT) => return None,
            Type::Function { .. } | Type::Other(_) => Kind::Other,
        })
    }

    fn structure(&self, id: Id, members: &[Id], d: &Decorations) -> Kind {
        let mut list = Vec::new();
        let (mut slot, mut end) = (0u32, 0u64);
        for (i, member) in members.iter().enumerate() {
            let i = i as u32;
            let Some(ty) = self.of(*member) else { return Kind::Other };
            let stride = d.member(id, i, Decoration::MatrixStride);
            let matrix = MatLayout { stride, row_major: d.member(id, i, Decoration::RowMajor).is_some() };
            let (size, align) = self.size(ty, matrix);
            let natural = end.next_multiple_of(u64::from(align.max(1))).min(u64::from(u32::MAX)) as u32;
            let said = d.member(id, i, Decoration::Offset);
            let offset = said.unwrap_or(natural);
            end = u64::from(offset).saturating_add(size);
            list.push(Member { ty, slot, offset, matrix, natural: said.is_none() });
            slot = slot.saturating_add(self.slots(ty));
        }
        Kind::Struct { members: list.into() }
    }
}

fn known(ty: Ty, f: impl FnOnce(Ty) -> Kind) -> Kind {
    if ty == NO_TYPE { Kind::Other } else { f(ty) }
}
