//! The layout of types in memory, by their decorations.

use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::spv::Decoration;
use coop_ir::types::Type;
use coop_ir::{Id, Module};

/// The largest number of types to look at for one answer. Real blocks need a few dozen; a cyclic type stops here.
const MAX_STEPS: u32 = 10_000;

/// The largest nesting of types; real ones have a handful of levels.
const MAX_DEPTH: u32 = 64;

/// A member of a block, or the whole of another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes from the start of the block.
    pub offset: u32,
    /// Its type.
    pub kind: Id,
}

/// The layout of a module's types.
#[derive(Clone, Copy)]
pub struct TypeLayout<'a> {
    module: &'a Module,
    decorations: &'a Decorations,
    constants: &'a Constants,
}

impl<'a> TypeLayout<'a> {
    /// Makes the layout of a module's types. Lengths of arrays may depend on the specialization of the constants.
    pub fn new(module: &'a Module, decorations: &'a Decorations, constants: &'a Constants) -> TypeLayout<'a> {
        TypeLayout { module, decorations, constants }
    }

    /// Returns the size of a type in bytes; `None` if it is open (runtime arrays) or not decorated.
    pub fn size(&self, kind: Id) -> Option<u32> {
        self.size_within(kind, None, 0, &mut MAX_STEPS.clone())
    }

    /// Returns the members of a block with their offsets.
    pub fn members(&self, block: Id) -> Vec<Member> {
        let Some(Type::Struct { members }) = Type::of(self.module, block) else { return Vec::new() };
        let offset = |index| self.decorations.member_value(block, index, Decoration::Offset).unwrap_or(0);
        members.iter().zip(0..).map(|(&kind, index)| Member { offset: offset(index), kind }).collect()
    }

    /// Returns the stride of an array in bytes.
    pub fn stride(&self, array: Id) -> Option<u32> {
        self.decorations.value(array, Decoration::ArrayStride)
    }

    fn size_within(&self, kind: Id, matrix_stride: Option<u32>, depth: u32, steps: &mut u32) -> Option<u32> {
        *steps = steps.checked_sub(1).filter(|_| depth < MAX_DEPTH)?;
        match Type::of(self.module, kind)? {
            Type::Scalar(scalar) => Some(scalar.bytes()),
            Type::Vector { elem, len } => self.size_within(elem, None, depth + 1, steps)?.checked_mul(len),
            Type::Matrix { cols, .. } => matrix_stride?.checked_mul(cols),
            // A pointer in a block is a device address.
            Type::Pointer { .. } => Some(8),
            Type::Array { elem, len } => {
                let len = u32::try_from(self.constants.get(len).value()?).ok()?;
                let stride = self.stride(kind).or_else(|| self.size_within(elem, matrix_stride, depth + 1, steps))?;
                stride.checked_mul(len)
            }
            Type::Struct { members } => {
                let mut end = 0;
                for (&member, index) in members.iter().zip(0..) {
                    let of_member = |decoration| self.decorations.member_value(kind, index, decoration);
                    let offset = of_member(Decoration::Offset).unwrap_or(end);
                    let stride = of_member(Decoration::MatrixStride);
                    end = end.max(offset.checked_add(self.size_within(member, stride, depth + 1, steps)?)?);
                }
                Some(end)
            }
            _ => None,
        }
    }
}
