//! Turns variables into arrays of one unit type.
//!
//! A variable of the function, of the workgroup, or of constants becomes an array of the widest number that divides
//! every access to it; accesses of wider numbers take several. So the types through which it is accessed do not matter.

use super::Kernel;
use crate::Refusal;
use coop_ir::builder::{add_global, name};
use coop_ir::spv::StorageClass;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// The initial value of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Initial {
    None,
    /// A constant of the module.
    Constant(Id),
    /// An argument of the kernel, by index.
    Argument(usize),
}

/// A variable that becomes an array of units.
#[derive(Clone, Debug)]
pub(super) struct FlatVariable {
    pub(super) storage: StorageClass,
    pub(super) bytes: u64,
    pub(super) initial: Initial,
    /// The id of the original variable.
    pub(super) was: Id,
    /// The unit, once an access is recorded.
    unit: Option<Scalar>,
    /// The array, once it is declared.
    array: Option<Id>,
}

/// The longest array.
const LONGEST: u64 = 1 << 26;

/// The most initial values.
const MOST_VALUES: u64 = 1 << 16;

impl FlatVariable {
    pub(super) fn new(storage: StorageClass, bytes: u64, initial: Initial, was: Id) -> FlatVariable {
        FlatVariable { storage, bytes, initial, was, unit: None, array: None }
    }

    /// Records an access of a number at a multiple of `align`.
    pub(super) fn note(&mut self, scalar: Scalar, align: u64) {
        let int = |bytes: u64| Scalar::Int { width: bytes as u32 * 8, signed: false };
        let bytes = u64::from(scalar.bytes()).min(align.max(1));
        let this = if bytes < u64::from(scalar.bytes()) { int(bytes) } else { scalar };
        self.unit = Some(match self.unit {
            None => this,
            Some(unit) if unit == this => unit,
            Some(unit) => int(u64::from(unit.bytes()).min(bytes)),
        });
    }

    fn unit(&self) -> Scalar {
        self.unit.unwrap_or(Scalar::Int { width: 32, signed: false })
    }

    pub(super) fn unit_bytes(&self) -> u64 {
        u64::from(self.unit().bytes())
    }
}

impl Kernel<'_> {
    /// Declares the arrays of all accessed variables, with their initial values.
    pub(super) fn make_roots(&mut self) -> Result<(), Refusal> {
        for i in 0..self.roots.len() {
            let root = self.roots[i].clone();
            if root.unit.is_none() {
                continue;
            }
            let at = self.m.def(root.was);
            let len = root.bytes.div_ceil(root.unit_bytes());
            if len == 0 || len > LONGEST {
                let why =
                    format!("a variable has {} bytes, and takes {len} numbers; 1 to {LONGEST} can be", root.bytes);
                return Err(Refusal::new("refused-vulkan-variable", at, why, "use a smaller one"));
            }
            let unit = self.g.scalar(self.m, root.unit());
            let ty = self.g.array(self.m, unit, len as u32);
            let values = match root.initial {
                Initial::Constant(id) => Some(self.initial_values(&root, id, len)?),
                _ => None,
            };
            let storage = root.storage;
            let pointer = self.g.pointer(self.m, storage, ty);
            let id = self.m.fresh_id();
            let mut operands = vec![storage.into()];
            match values {
                Some(values) => operands.push(Operand::Id(self.composite(ty, &values))),
                // Bytes that a constant does not define are zero; nothing reads them.
                None if root.storage == StorageClass::Private => operands.push(self.g.null(self.m, ty).into()),
                None => {}
            }
            let inst = Inst::new(Op::Variable, Some(pointer), Some(id), operands);
            if root.storage == StorageClass::Function {
                let r = self.m.add(inst);
                self.variables.push(r);
            } else {
                add_global(self.m, inst);
                self.interface.push(id);
            }
            if let Some(text) = self.layout.name(self.m, root.was) {
                name(self.m, id, &text);
            }
            self.roots[i].array = Some(id);
        }
        Ok(())
    }

    fn composite(&mut self, ty: Id, values: &[Id]) -> Id {
        let id = self.m.fresh_id();
        let operands = values.iter().map(|v| Operand::Id(*v));
        let r = self.m.add(Inst::new(Op::ConstantComposite, Some(ty), Some(id), operands));
        self.m.globals.push(r);
        id
    }

    /// Converts a constant to the units of a variable.
    fn initial_values(&mut self, root: &FlatVariable, id: Id, len: u64) -> Result<Vec<Id>, Refusal> {
        let at = self.m.def(root.was);
        let refused = |why: String| {
            Refusal::new("refused-vulkan-variable", at, why, "fill the variable in the kernel, or pass a buffer")
        };
        if len > MOST_VALUES {
            return Err(refused(format!("a variable has {len} initial values, more than {MOST_VALUES}")));
        }
        let mut bytes = vec![0u8; (len * root.unit_bytes()) as usize];
        self.constant_bytes(id, 0, &mut bytes, 0)
            .ok_or_else(|| refused("the initial value of a variable is not a plain constant".to_owned()))?;
        let unit = root.unit();
        let number = |c: &[u8]| c.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let values: Vec<u64> = bytes.chunks(root.unit_bytes() as usize).map(number).collect();
        Ok(values.into_iter().map(|v| self.g.constant(self.m, unit, v)).collect())
    }

    fn constant_bytes(&self, id: Id, at: u64, out: &mut [u8], depth: u32) -> Option<()> {
        let inst = self.m.def_inst(id)?;
        let ty = inst.ty?;
        match inst.op {
            Op::ConstantNull | Op::Undef => Some(()),
            Op::Constant => {
                let (scalar, _) = self.shape(ty)?;
                let value = inst.constant_bits()?;
                let bytes = scalar.bytes() as usize;
                let place = out.get_mut(at as usize..at as usize + bytes)?;
                place.copy_from_slice(value.to_le_bytes().get(..bytes)?);
                Some(())
            }
            Op::ConstantComposite if depth < 32 => {
                let parts = self.layout.parts(self.m, ty)?;
                let values: Vec<Id> = inst.ids().collect();
                for ((_, offset), value) in parts.iter().zip(values) {
                    self.constant_bytes(value, at + offset, out, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Makes a pointer to the unit at an offset, which is a multiple of the unit.
    pub(super) fn unit_pointer(&mut self, root: usize, offset: Id) -> Option<Id> {
        let (array, unit, storage) = {
            let r = &self.roots[root];
            (r.array?, r.unit(), r.storage)
        };
        let shift = unit.bytes().trailing_zeros();
        let index = match self.known(offset) {
            Some(known) => self.u32((known as u32) >> shift),
            None if shift == 0 => offset,
            None => {
                let (ty, shift) = (self.u32_type(), self.u32(shift));
                self.ids(Op::ShiftRightLogical, ty, &[offset, shift])
            }
        };
        let unit = self.g.scalar(self.m, unit);
        let pointer = self.g.pointer(self.m, storage, unit);
        Some(self.ids(Op::AccessChain, pointer, &[array, index]))
    }

    /// Returns the type of a variable's units.
    pub(super) fn unit_type(&mut self, root: usize) -> Id {
        let unit = self.roots[root].unit();
        self.g.scalar(self.m, unit)
    }

    /// Stores struct arguments into their variables.
    pub(super) fn fill_arguments(&mut self, at: InstRef) -> Result<(), Refusal> {
        for i in 0..self.roots.len() {
            let root = self.roots[i].clone();
            let (Initial::Argument(index), Some(_)) = (root.initial, root.array) else { continue };
            let ty = self.unit_type(i);
            for k in 0..root.bytes.div_ceil(root.unit_bytes()) {
                let offset = k * root.unit_bytes();
                let value = self.argument_part(index, ty, offset).ok_or_else(|| self.no_layout(at))?;
                let place = self.u32(offset as u32);
                let Some(pointer) = self.unit_pointer(i, place) else { continue };
                self.effect(Op::Store, [pointer, value].map(Operand::Id));
            }
        }
        Ok(())
    }
}
