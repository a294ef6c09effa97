//! The layout of types as lists of scalar leaves, as scalar replacement of aggregates has it.
//!
//! A scalar is one leaf, and so are a vector of floats, a matrix, and every type that is not split. A vector of
//! integers or Booleans has a leaf for each component, a struct those of its members, a short array those of its
//! elements. A type with more than [`MAX_LEAVES`] is one leaf.

use super::Uniformity;
use coop_ir::constant::Constants;
use coop_ir::grammar::Op;
use coop_ir::spv::StorageClass;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, IdTable, Module};

const MAX_LEAVES: u32 = 64;
const MAX_SPLIT_ARRAY: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Leaf,
    /// `count` children with `leaves` leaves each.
    Row {
        count: u32,
        leaves: u32,
    },
    Struct,
}

#[derive(Clone, Copy, Debug)]
struct LeafLayout {
    form: Form,
    leaves: u32,
    /// The scope of the matrix that the type is or contains.
    matrix: Option<Uniformity>,
    /// The width in bits of an integer type, 1 for Booleans, 0 for anything else.
    width: u8,
    /// The width of a vector's components, or of the type itself.
    component: u8,
    /// The storage class of a pointer type.
    storage: Option<StorageClass>,
    /// True for a scalar float.
    float: bool,
}

/// The target of one step of an access path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeafStep {
    /// The leaves at this offset.
    At(u32),
    /// One of `count` children; the offset grows by `stride`.
    Any { count: u32, stride: u32 },
    /// A part of a leaf.
    Into,
}

/// The layouts of all types of a module.
pub(super) struct LeafLayouts {
    by_type: IdTable<LeafLayout>,
    has_matrices: bool,
}

impl LeafLayouts {
    pub(super) fn new(module: &Module, constants: &Constants) -> LeafLayouts {
        let mut this = LeafLayouts { by_type: IdTable::new(module), has_matrices: false };
        // A type comes after the types that it uses.
        for &r in &module.globals {
            let inst = module.inst(r);
            let Some(id) = inst.result.filter(|_| inst.op.is_type()) else { continue };
            let mut layout = this.layout(module, constants, id);
            layout.component = match inst.op {
                Op::TypeVector => inst.id(0).map_or(0, |e| this.width(e) as u8),
                _ => layout.width,
            };
            this.has_matrices |= layout.matrix.is_some();
            this.by_type.insert(id, layout);
        }
        this
    }

    fn layout(&self, module: &Module, constants: &Constants, ty: Id) -> LeafLayout {
        let leaf = |matrix| LeafLayout {
            form: Form::Leaf,
            leaves: 1,
            matrix,
            width: 0,
            component: 0,
            storage: None,
            float: false,
        };
        let inst = module.def_inst(ty);
        if let Some(inst) = inst.filter(|i| i.op == Op::TypeCooperativeMatrixNV) {
            return leaf(Some(scope(inst.id(1), constants)));
        }
        match inst.and_then(Type::of_inst) {
            Some(Type::Bool) => LeafLayout { width: 1, ..leaf(None) },
            Some(Type::Scalar(Scalar::Int { width, .. })) => LeafLayout { width: width.min(64) as u8, ..leaf(None) },
            Some(Type::Scalar(_)) => LeafLayout { float: true, ..leaf(None) },
            Some(Type::Pointer { storage, .. } | Type::UntypedPointer { storage }) => {
                LeafLayout { storage: Some(storage), ..leaf(None) }
            }
            Some(Type::CoopMat(m)) => leaf(Some(scope(Some(m.scope), constants))),
            Some(Type::Vector { elem, len }) if len <= 4 && self.width(elem) > 0 => {
                LeafLayout { form: Form::Row { count: len, leaves: 1 }, leaves: len, ..leaf(None) }
            }
            Some(Type::Array { elem, len }) => {
                let (inner, matrix) = (self.leaves(elem), self.matrix(elem));
                let count = constants.get(len).fixed().filter(|n| (1..=MAX_SPLIT_ARRAY).contains(n));
                match count.map(|n| n as u32).filter(|n| n * inner <= MAX_LEAVES) {
                    Some(count) => {
                        LeafLayout { form: Form::Row { count, leaves: inner }, leaves: count * inner, ..leaf(matrix) }
                    }
                    None => leaf(matrix),
                }
            }
            Some(Type::Struct { members }) => {
                let matrix = members.iter().filter_map(|m| self.matrix(*m)).min();
                let total = members.iter().try_fold(0u32, |n, m| n.checked_add(self.leaves(*m)));
                match total.filter(|n| (1..=MAX_LEAVES).contains(n)) {
                    Some(leaves) => LeafLayout { form: Form::Struct, leaves, ..leaf(matrix) },
                    None => leaf(matrix),
                }
            }
            _ => leaf(None),
        }
    }

    /// Returns true if any type is or contains a matrix.
    pub(super) fn has_matrices(&self) -> bool {
        self.has_matrices
    }

    /// Returns the number of leaves of a type: at least one.
    pub(super) fn leaves(&self, ty: Id) -> u32 {
        self.by_type.get(ty).map_or(1, |l| l.leaves)
    }

    /// Returns the scope of the matrix that a value of this type is or contains.
    pub(super) fn matrix(&self, ty: Id) -> Option<Uniformity> {
        self.by_type.get(ty)?.matrix
    }

    /// Returns the width in bits of an integer type, 1 for Booleans, 0 for anything else.
    pub(super) fn width(&self, ty: Id) -> u32 {
        self.by_type.get(ty).map_or(0, |l| u32::from(l.width))
    }

    /// Returns true if a type is a scalar float.
    pub(super) fn is_float(&self, ty: Id) -> bool {
        self.by_type.get(ty).is_some_and(|l| l.float)
    }

    /// Returns the number of leaves of a type, and its width as a scalar, or that of a vector's components.
    pub(super) fn components(&self, ty: Id) -> (u32, u32) {
        self.by_type.get(ty).map_or((1, 0), |l| (l.leaves, u32::from(l.component)))
    }

    /// Returns the storage class of a pointer type.
    pub(super) fn storage(&self, ty: Id) -> Option<StorageClass> {
        self.by_type.get(ty)?.storage
    }

    /// Returns the type and the leaves to which an index leads. `index` is `None` if it is not constant.
    pub(super) fn step(&self, module: &Module, ty: Id, index: Option<u64>) -> (Option<Id>, LeafStep) {
        let layout = self.by_type.get(ty);
        let child = child(module, ty, index);
        let step = match (layout.map(|l| l.form), index) {
            (Some(Form::Row { count, leaves }), Some(i)) if i < u64::from(count) => LeafStep::At(i as u32 * leaves),
            (Some(Form::Row { count, leaves }), _) => LeafStep::Any { count, stride: leaves },
            (Some(Form::Struct), Some(i)) => match module.def_inst(ty).filter(|s| i < s.operands.len() as u64) {
                Some(s) => LeafStep::At(s.ids().take(i as usize).map(|m| self.leaves(m)).sum()),
                None => LeafStep::Into,
            },
            _ => LeafStep::Into,
        };
        (child, step)
    }
}

/// Returns the type of a part.
fn child(module: &Module, ty: Id, index: Option<u64>) -> Option<Id> {
    // For one member, the list of all members need not be made.
    if let Some(inst) = module.def_inst(ty).filter(|i| i.op == Op::TypeStruct) {
        return inst.id(usize::try_from(index?).ok()?);
    }
    match Type::of(module, ty)? {
        Type::Vector { elem, .. } | Type::Array { elem, .. } | Type::RuntimeArray { elem } => Some(elem),
        Type::Matrix { column, .. } => Some(column),
        Type::CoopMat(m) => Some(m.component),
        Type::Other(Op::TypeCooperativeMatrixNV) => module.def_inst(ty)?.id(0),
        _ => None,
    }
}

/// Returns the uniformity that a matrix of this scope has. An unknown scope counts as the workgroup, which asks for
/// more.
fn scope(id: Option<Id>, constants: &Constants) -> Uniformity {
    match id.and_then(|id| constants.get(id).value()) {
        Some(3) => Uniformity::Subgroup,
        Some(4) => Uniformity::Divergent,
        _ => Uniformity::Workgroup,
    }
}
