//! Types as a structural view: decoded from their instructions when asked for, never stored.

use crate::constant::{Const, Constants};
use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Id, Inst, Module};
use crate::spv::StorageClass;
use std::fmt;

/// A numerical scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scalar {
    /// `OpTypeInt`.
    Int {
        /// In bits.
        width: u32,
        /// The Signedness operand.
        signed: bool,
    },
    /// `OpTypeFloat` in the IEEE encoding of its width.
    Float {
        /// In bits.
        width: u32,
    },
    /// `OpTypeFloat` with an FP Encoding operand (SPV_KHR_bfloat16, SPV_EXT_float8 and later ones).
    Encoded {
        /// In bits.
        width: u32,
        /// The FP Encoding.
        encoding: u32,
    },
}

impl Scalar {
    /// The encoding of bfloat16 (SPV_KHR_bfloat16).
    pub const BF16: Scalar = Scalar::Encoded { width: 16, encoding: 0 };
    /// The E4M3 encoding of SPV_EXT_float8.
    pub const E4M3: Scalar = Scalar::Encoded { width: 8, encoding: 4214 };
    /// The E5M2 encoding of SPV_EXT_float8.
    pub const E5M2: Scalar = Scalar::Encoded { width: 8, encoding: 4215 };

    /// Decodes an instruction; `None` if it does not declare a numerical scalar type, or lacks operands.
    #[inline]
    pub fn of_inst(inst: &Inst) -> Option<Scalar> {
        match inst.op {
            Op::TypeInt => Some(Scalar::Int { width: inst.word(0)?, signed: inst.word(1)? != 0 }),
            Op::TypeFloat => Some(match (inst.word(0)?, inst.word(1)) {
                (width, None) => Scalar::Float { width },
                (width, Some(encoding)) => Scalar::Encoded { width, encoding },
            }),
            _ => None,
        }
    }

    /// In bits.
    pub fn width(self) -> u32 {
        match self {
            Scalar::Int { width, .. } | Scalar::Float { width } | Scalar::Encoded { width, .. } => width,
        }
    }

    /// In bytes, rounded up.
    pub fn bytes(self) -> u32 {
        self.width().div_ceil(8)
    }

    /// Returns true if it is an integer type of either sign.
    pub fn is_int(self) -> bool {
        matches!(self, Scalar::Int { .. })
    }

    /// Returns true if it is a floating-point type of any encoding.
    pub fn is_float(self) -> bool {
        !self.is_int()
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Scalar::Int { width, signed: true } => write!(f, "s{width}"),
            Scalar::Int { width, signed: false } => write!(f, "u{width}"),
            Scalar::Float { width } => write!(f, "f{width}"),
            Scalar::BF16 => f.write_str("bf16"),
            Scalar::E4M3 => f.write_str("e4m3"),
            Scalar::E5M2 => f.write_str("e5m2"),
            Scalar::Encoded { width, encoding } => write!(f, "f{width} (encoding {encoding})"),
        }
    }
}

/// The operands of `OpTypeCooperativeMatrixKHR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CoopMat {
    /// The type itself.
    pub id: Id,
    /// The component type.
    pub component: Id,
    /// The constant that holds the Scope.
    pub scope: Id,
    /// The constant that holds the number of rows.
    pub rows: Id,
    /// The constant that holds the number of columns.
    pub cols: Id,
    /// The constant that holds the Use.
    pub use_: Id,
}

/// A decoded type instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// `OpTypeVoid`.
    Void,
    /// `OpTypeBool`.
    Bool,
    /// `OpTypeInt` or `OpTypeFloat`.
    Scalar(Scalar),
    /// `OpTypeVector`.
    Vector {
        /// Type of a component.
        elem: Id,
        /// The number of components.
        len: u32,
    },
    /// `OpTypeMatrix`.
    Matrix {
        /// Type of a column.
        column: Id,
        /// The number of columns.
        cols: u32,
    },
    /// `OpTypeCooperativeMatrixKHR`.
    CoopMat(CoopMat),
    /// `OpTypeArray`.
    Array {
        /// Type of an element.
        elem: Id,
        /// The constant that holds the length.
        len: Id,
    },
    /// `OpTypeRuntimeArray`.
    RuntimeArray {
        /// Type of an element.
        elem: Id,
    },
    /// `OpTypeStruct`.
    Struct {
        /// Types of the members.
        members: Vec<Id>,
    },
    /// `OpTypePointer`.
    Pointer {
        /// The storage class.
        storage: StorageClass,
        /// The type of the target.
        pointee: Id,
    },
    /// `OpTypeUntypedPointerKHR`.
    UntypedPointer {
        /// The storage class.
        storage: StorageClass,
    },
    /// `OpTypeFunction`.
    Function {
        /// The return type.
        ret: Id,
        /// The parameter types.
        params: Vec<Id>,
    },
    /// Any other type.
    Other(Op),
}

impl Type {
    /// Decodes the type `id`; `None` if it is not a type, or lacks operands.
    pub fn of(module: &Module, id: Id) -> Option<Type> {
        Type::of_inst(module.def_inst(id)?)
    }

    /// Decodes a type instruction.
    pub fn of_inst(inst: &Inst) -> Option<Type> {
        Some(match inst.op {
            Op::TypeVoid => Type::Void,
            Op::TypeBool => Type::Bool,
            Op::TypeInt | Op::TypeFloat => Type::Scalar(Scalar::of_inst(inst)?),
            Op::TypeVector => Type::Vector { elem: inst.id(0)?, len: inst.word(1)? },
            Op::TypeMatrix => Type::Matrix { column: inst.id(0)?, cols: inst.word(1)? },
            Op::TypeCooperativeMatrixKHR => Type::CoopMat(CoopMat {
                id: inst.result?,
                component: inst.id(0)?,
                scope: inst.id(1)?,
                rows: inst.id(2)?,
                cols: inst.id(3)?,
                use_: inst.id(4)?,
            }),
            Op::TypeArray => Type::Array { elem: inst.id(0)?, len: inst.id(1)? },
            Op::TypeRuntimeArray => Type::RuntimeArray { elem: inst.id(0)? },
            Op::TypeStruct => Type::Struct { members: inst.ids().collect() },
            Op::TypePointer => Type::Pointer { storage: inst.enumerant(0)?, pointee: inst.id(1)? },
            Op::TypeUntypedPointerKHR => Type::UntypedPointer { storage: inst.enumerant(0)? },
            Op::TypeFunction => Type::Function { ret: inst.id(0)?, params: inst.ids_from(1).collect() },
            op if op.is_type() => Type::Other(op),
            _ => return None,
        })
    }

    /// Returns the scalar, if it is one.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(*s),
            _ => None,
        }
    }

    /// Returns the matrix type, if it is one.
    pub fn coop_mat(&self) -> Option<CoopMat> {
        match self {
            Type::CoopMat(m) => Some(*m),
            _ => None,
        }
    }
}

/// Returns the storage class that a pointer points into; `None` if the value is not a pointer.
pub fn storage_of(module: &Module, pointer: Id) -> Option<StorageClass> {
    match Type::of(module, module.type_of(pointer)?)? {
        Type::Pointer { storage, .. } | Type::UntypedPointer { storage } => Some(storage),
        _ => None,
    }
}

/// Returns the numerical scalar type `id`, if it is one.
pub fn scalar(module: &Module, id: Id) -> Option<Scalar> {
    Scalar::of_inst(module.def_inst(id)?)
}

/// Returns the cooperative-matrix type `id`, if it is one.
pub fn coop_mat(module: &Module, id: Id) -> Option<CoopMat> {
    Type::of(module, id)?.coop_mat()
}

/// Returns the cooperative-matrix type of the value `id`, if it has one.
pub fn coop_mat_of(module: &Module, value: Id) -> Option<CoopMat> {
    coop_mat(module, module.type_of(value)?)
}

/// Returns the scalar and the number of components of a numerical scalar type or a vector of them.
pub fn scalar_or_vector(module: &Module, id: Id) -> Option<(Scalar, u32)> {
    match Type::of(module, id)? {
        Type::Scalar(s) => Some((s, 1)),
        Type::Vector { elem, len } => Some((scalar(module, elem)?, len)),
        _ => None,
    }
}

/// A matrix type with its constants looked up. Displays as `f16 16x16 A`, with the scope where it is not a subgroup.
#[derive(Clone, PartialEq, Debug)]
pub struct CoopMatView {
    /// The type itself.
    pub ty: CoopMat,
    /// The component type, where it is a numerical scalar.
    pub component: Option<Scalar>,
    /// The Scope.
    pub scope: Const,
    /// The number of rows.
    pub rows: Const,
    /// The number of columns.
    pub cols: Const,
    /// The Use.
    pub use_: Const,
}

impl CoopMat {
    /// Returns the type with its constants looked up.
    pub fn view(self, module: &Module, constants: &Constants) -> CoopMatView {
        CoopMatView {
            ty: self,
            component: scalar(module, self.component),
            scope: constants.get(self.scope),
            rows: constants.get(self.rows),
            cols: constants.get(self.cols),
            use_: constants.get(self.use_),
        }
    }
}

/// Returns the name of a Cooperative Matrix Use: `A`, `B`, `Accumulator`.
pub fn use_name(use_: u64) -> Option<&'static str> {
    ["A", "B", "Accumulator"].get(usize::try_from(use_).ok()?).copied()
}

/// Returns the name of a Scope, in lower case.
pub fn scope_name(scope: u64) -> Option<&'static str> {
    ["cross-device", "device", "workgroup", "subgroup", "invocation", "queue-family", "shader-call"]
        .get(usize::try_from(scope).ok()?)
        .copied()
}

impl fmt::Display for CoopMatView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.component {
            Some(s) => write!(f, "{s} ")?,
            None => f.write_str("(no scalar) ")?,
        }
        write!(f, "{}x{}", self.rows, self.cols)?;
        match self.use_.value() {
            Some(u) => match use_name(u) {
                Some(name) => write!(f, " {name}")?,
                None => write!(f, " use {u}")?,
            },
            None => f.write_str(" use ?")?,
        }
        match self.scope.value() {
            Some(3) => Ok(()),
            Some(s) => match scope_name(s) {
                Some(name) => write!(f, " {name}"),
                None => write!(f, " scope {s}"),
            },
            None => f.write_str(" scope ?"),
        }
    }
}

/// Returns the size in bytes of a numerical scalar or vector, without padding: the unit of a stride of a matrix load or
/// store.
pub fn packed_bytes(module: &Module, id: Id) -> Option<u32> {
    let (scalar, len) = scalar_or_vector(module, id)?;
    scalar.bytes().checked_mul(len)
}

/// Returns bytes and alignment of a type as C and OpenCL lay it out by default: vectors of three count as vectors of
/// four. `None` for types without a size.
pub fn natural_size(module: &Module, constants: &Constants, ty: Id) -> Option<(u64, u64)> {
    natural_size_at(module, constants, ty, 32, &mut FxHashMap::default())
}

/// `known` has the sizes of types that were asked for: structs of structs may have very many parts.
fn natural_size_at(
    module: &Module,
    constants: &Constants,
    ty: Id,
    depth: u32,
    known: &mut FxHashMap<Id, Option<(u64, u64)>>,
) -> Option<(u64, u64)> {
    if let Some(size) = known.get(&ty) {
        return *size;
    }
    let mut of = |ty: Id| natural_size_at(module, constants, ty, depth.checked_sub(1)?, known);
    let size = natural_size_of(module, constants, ty, &mut of);
    known.insert(ty, size);
    size
}

/// The same from the sizes of the parts.
fn natural_size_of(
    module: &Module,
    constants: &Constants,
    ty: Id,
    of: &mut dyn FnMut(Id) -> Option<(u64, u64)>,
) -> Option<(u64, u64)> {
    Some(match Type::of(module, ty)? {
        Type::Scalar(scalar) => (u64::from(scalar.bytes()), u64::from(scalar.bytes()).max(1)),
        Type::Pointer { .. } => (8, 8),
        Type::Vector { elem, len } => {
            let bytes = of(elem)?.0.checked_mul(u64::from(len.checked_next_power_of_two()?))?;
            (bytes, bytes.max(1))
        }
        Type::Array { elem, len } => {
            let (bytes, align) = of(elem)?;
            (bytes.checked_mul(constants.get(len).value()?)?, align)
        }
        Type::Struct { members } => {
            let (mut end, mut most) = (0u64, 1);
            for member in members {
                let (bytes, align) = of(member)?;
                end = end.checked_next_multiple_of(align)?.checked_add(bytes)?;
                most = most.max(align);
            }
            (end.checked_next_multiple_of(most)?, most)
        }
        _ => return None,
    })
}
