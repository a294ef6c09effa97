//! How large a type in memory is, by its own decorations.

use std::collections::BTreeMap;

use coop_ir::constant::{Constants, Specialization};
use coop_ir::types::Type;
use coop_ir::{Id, Module, Op};

const ARRAY_STRIDE: u32 = 6;
const MATRIX_STRIDE: u32 = 7;
const OFFSET: u32 = 35;

/// Types looked at for one answer. Real blocks need a few dozen; a cyclic type stops here.
const MAX_STEPS: u32 = 10_000;

/// Nesting of types; real ones have a handful of levels.
const MAX_DEPTH: u32 = 64;

/// A member of a block, or the whole of what is no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes from the start of the block.
    pub offset: u32,
    /// Its type.
    pub kind: Id,
}

/// The layout decorations of a module.
pub struct Layout<'a> {
    module: &'a Module,
    constants: Constants,
    strides: BTreeMap<Id, u32>,
    members: BTreeMap<(Id, u32, u32), u32>,
}

impl<'a> Layout<'a> {
    /// Reads a module's decorations. Lengths of arrays may depend on the specialization.
    pub fn new(module: &'a Module, specialization: &Specialization) -> Layout<'a> {
        let mut strides = BTreeMap::new();
        let mut members = BTreeMap::new();
        for inst in module.globals.iter().map(|&r| module.inst(r)) {
            match (inst.op, inst.id(0), inst.word(1), inst.word(2)) {
                (Op::Decorate, Some(target), Some(ARRAY_STRIDE), Some(stride)) => {
                    strides.insert(target, stride);
                }
                (Op::MemberDecorate, Some(target), Some(member), Some(decoration)) => {
                    members.insert((target, member, decoration), inst.word(3).unwrap_or(0));
                }
                _ => {}
            }
        }
        Layout { module, constants: Constants::new(module, specialization), strides, members }
    }

    /// Bytes of a type; `None` if that is open (runtime arrays) or not said.
    pub fn size(&self, kind: Id) -> Option<u32> {
        self.size_within(kind, None, 0, &mut MAX_STEPS.clone())
    }

    /// The members of a block with their offsets.
    pub fn members(&self, block: Id) -> Vec<Member> {
        let Some(Type::Struct { members }) = Type::of(self.module, block) else { return Vec::new() };
        let offset = |index| self.members.get(&(block, index, OFFSET)).copied().unwrap_or(0);
        members.iter().zip(0..).map(|(&kind, index)| Member { offset: offset(index), kind }).collect()
    }

    /// Bytes from one element of an array to the next.
    pub fn stride(&self, array: Id) -> Option<u32> {
        self.strides.get(&array).copied()
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
                    let offset = self.members.get(&(kind, index, OFFSET)).copied().unwrap_or(end);
                    let stride = self.members.get(&(kind, index, MATRIX_STRIDE)).copied();
                    end = end.max(offset.checked_add(self.size_within(member, stride, depth + 1, steps)?)?);
                }
                Some(end)
            }
            _ => None,
        }
    }
}
