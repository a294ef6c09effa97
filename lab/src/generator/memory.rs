//! Loads and stores, and the memory behind them.

use super::access::MatrixPointer;
use super::emit::{Gen, Mat};
use super::range::Range;
use coop_ir::builder::{add_global, decorate};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, Decoration, MemoryAccess, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};
use std::fmt::Write;

/// The binding of the buffer of numbers.
pub(super) const TABLE: u32 = 100;
/// Units of each inner array of a buffer that is an array of arrays.
const INNER: u32 = 4096;

/// The layout of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// One array.
    Plain,
    /// Some other members in front of it.
    Behind,
    /// Two arrays in an array.
    Nested,
}

/// The contents of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fill {
    Output,
    Halves,
    SmallInts,
    Bits,
    Positive,
    Position,
    /// NaNs, infinities, subnormals: to be moved about, not computed with.
    Wild,
}

/// A buffer.
#[derive(Clone)]
pub(super) struct Buffer {
    name: String,
    component: Scalar,
    unit: (Scalar, u32),
    fill: Fill,
    shape: Shape,
    /// True if the block is reached by address instead of by descriptor.
    physical: bool,
    variable: Id,
    /// The address's member of the push constants.
    member: u32,
    block: Id,
    /// Units that accesses need, from the start of the array.
    units: u32,
    /// The stride of units as a multiple of their size, which matrices ignore.
    apart: u32,
}

impl Buffer {
    pub(super) fn is_output(&self) -> bool {
        self.fill == Fill::Output && self.member != TABLE
    }

    fn unit_bytes(&self) -> u32 {
        self.unit.0.bytes() * self.unit.1
    }

    fn range(&self) -> Range {
        let unsigned = matches!(self.component, Scalar::Int { signed: false, .. });
        match (self.fill, self.component) {
            (Fill::Halves, _) => Range::new(-4, 4, 1),
            (Fill::SmallInts, _) if unsigned => Range::int(0, 4),
            (Fill::SmallInts, _) => Range::int(-2, 2),
            (Fill::Positive, _) => Range::int(1, 4),
            (Fill::Wild, _) => Range::anything(),
            (Fill::Position, Scalar::BF16) => Range::int(0, 255),
            (Fill::Position, Scalar::Float { width: 16 }) => Range::int(0, 2047),
            (Fill::Position, Scalar::Float { .. }) => Range::int(0, (1 << 24) - 1),
            (_, scalar) => Range::of(scalar),
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        if self.member == TABLE {
            return;
        }
        let apart = self.unit_bytes() * self.apart;
        let bytes = match self.shape {
            Shape::Plain => self.units * apart,
            Shape::Behind => 32 + self.units * apart,
            Shape::Nested => 2 * INNER * apart,
        };
        let count = bytes.div_ceil(self.component.bytes()).max(1);
        let _ = writeln!(out, "\n[[buffer]]\nname = \"{}\"", self.name);
        if !self.physical {
            let _ = writeln!(out, "binding = {}", self.member);
        }
        let _ = writeln!(out, "type = \"{}\"\ncount = {count}", self.component);
        let fill = match self.fill {
            Fill::Output => "{ constant = 77 }",
            Fill::Halves => "{ half-integers = [-2.0, 2.0] }",
            Fill::SmallInts if matches!(self.component, Scalar::Int { signed: false, .. }) => "{ small-ints = [0, 4] }",
            Fill::SmallInts => "{ small-ints = [-2, 2] }",
            Fill::Bits => "\"bits\"",
            Fill::Positive => "{ small-ints = [1, 4] }",
            Fill::Position => "\"position\"",
            Fill::Wild => "\"nan-inf\"",
        };
        let _ = writeln!(out, "fill = {fill}");
        if self.component.is_float() {
            // Sums in another order may give a zero of the other sign.
            out.push_str("tolerance = { ulp = 0 }\n");
        }
    }
}

impl Gen<'_> {
    /// A number from the buffer of numbers.
    pub(super) fn table_entry(&mut self, value: u32) -> Id {
        let index = self.table.iter().position(|v| *v == value).unwrap_or(self.table.len());
        if index == self.table.len() {
            self.table.push(value);
        }
        let index = self.u32(index as u32);
        self.table_load(index)
    }

    /// Puts 0 to `n - 1` in some order into the buffer of numbers; answers where.
    pub(super) fn table_run(&mut self, n: u32) -> u32 {
        let by = self.e.pick(&[1, 3]);
        let first = self.table.len() as u32;
        self.table.extend((0..n).map(|i| i * by % n));
        first
    }

    /// Number `first + at` from the buffer of numbers.
    pub(super) fn table_at(&mut self, first: u32, at: Id) -> Id {
        let first = self.u32(first);
        let index = self.u32_op(Op::IAdd, first, at);
        self.table_load(index)
    }

    fn table_load(&mut self, index: Id) -> Id {
        let uint = self.uint();
        let storage = StorageClass::StorageBuffer;
        let variable = match self.buffers.iter().find(|b| b.member == TABLE) {
            Some(b) => b.variable,
            None => {
                let unit = (Scalar::Int { width: 32, signed: false }, 1);
                let (variable, block) =
                    if self.kernel() { self.buffer_argument(unit, "T") } else { self.block_variable(unit, TABLE) };
                // It is written into the case by itself.
                self.tables(variable, block);
                variable
            }
        };
        if self.kernel() {
            let (pointer, _) = self.stepped(variable, uint, index);
            return self.op(Op::Load, uint, [pointer.into(), MemoryAccess::Aligned.into(), Operand::Word(4)]);
        }
        let pointer = self.g.pointer(&mut self.m, storage, uint);
        let zero = self.u32(0);
        let pointer = self.ids(Op::AccessChain, pointer, &[variable, zero, index]);
        self.ids(Op::Load, uint, &[pointer])
    }

    fn tables(&mut self, variable: Id, block: Id) {
        let u32_type = Scalar::Int { width: 32, signed: false };
        self.buffers.push(Buffer {
            name: String::new(),
            component: u32_type,
            unit: (u32_type, 1),
            fill: Fill::Output,
            shape: Shape::Plain,
            physical: false,
            variable,
            member: TABLE,
            block,
            units: 0,
            apart: 1,
        });
    }

    fn block_variable(&mut self, unit: (Scalar, u32), binding: u32) -> (Id, Id) {
        let block = self.block_type(unit, Shape::Plain, 1);
        let variable = self.variable(StorageClass::StorageBuffer, block, None);
        decorate(&mut self.m, variable, Decoration::DescriptorSet, &[0]);
        decorate(&mut self.m, variable, Decoration::Binding, &[binding]);
        (variable, block)
    }

    pub(super) fn unit_type(&mut self, unit: (Scalar, u32)) -> Id {
        let scalar = self.scalar(unit.0);
        if unit.1 == 1 { scalar } else { self.g.vector(&mut self.m, scalar, unit.1) }
    }

    fn block_type(&mut self, unit: (Scalar, u32), shape: Shape, apart: u32) -> Id {
        let bytes = unit.0.bytes() * unit.1 * apart;
        self.scalar_capabilities(unit.0);
        match unit.0.width() {
            8 => {
                self.capability(Capability::StorageBuffer8BitAccess);
            }
            16 => self.capability(Capability::StorageBuffer16BitAccess),
            _ => {}
        }
        let elem = self.unit_type(unit);
        let array = self.m.fresh_id();
        let stride = |this: &mut Self, id, bytes| decorate(&mut this.m, id, Decoration::ArrayStride, &[bytes]);
        let mut members = Vec::new();
        if shape == Shape::Nested {
            let (inner, len, two) = (self.m.fresh_id(), self.u32(INNER), self.u32(2));
            self.global(Inst::new(Op::TypeArray, None, Some(inner), [elem, len].map(Operand::Id)));
            stride(self, inner, bytes);
            self.global(Inst::new(Op::TypeArray, None, Some(array), [inner, two].map(Operand::Id)));
            stride(self, array, bytes * INNER);
        } else {
            self.global(Inst::new(Op::TypeRuntimeArray, None, Some(array), [elem.into()]));
            stride(self, array, bytes);
        }
        if shape == Shape::Behind {
            let uint = self.uint();
            members.extend([(uint, 0), (uint, 4), (array, 32)]);
        } else {
            members.push((array, 0));
        }
        let block = self.m.fresh_id();
        self.global(Inst::new(Op::TypeStruct, None, Some(block), members.iter().map(|m| m.0.into())));
        decorate(&mut self.m, block, Decoration::Block, &[]);
        for (i, (_, offset)) in members.iter().enumerate() {
            let words = [i as u32, Decoration::Offset.0, *offset].map(Operand::Word);
            let operands = [Operand::Id(block)].into_iter().chain(words);
            add_global(&mut self.m, Inst::new(Op::MemberDecorate, None, None, operands));
        }
        block
    }

    /// Returns the type that memory is declared as: the matrix's own component type or another, alone or in vectors.
    /// For a store, a run of the matrix's numbers must fill its numbers.
    pub(super) fn unit_for(&mut self, component: Scalar, run: Option<u32>) -> (Scalar, u32) {
        if self.kernel() {
            // Strides count components there, whatever memory is declared as.
            return (component, 1);
        }
        let int = |width| Scalar::Int { width, signed: false };
        let other = match self.e.below(8) {
            0..=4 => component,
            5 => int(32),
            6 => Scalar::Float { width: 32 },
            _ => self.e.pick(&[int(16), int(8), Scalar::Float { width: 16 }, int(64)]),
        };
        let fits = |s: Scalar| run.is_none_or(|run| (run * component.width()).is_multiple_of(s.width()));
        // The lowerings don't cut numbers of 64 bits, nor make them of eight.
        let scalar = if fits(other) { other } else { component };
        let scalar = if component.width() == 64 && scalar.width() == 8 { component } else { scalar };
        let lanes = self.e.pick(&[1, 1, 2, 4]);
        if scalar != component {
            self.note("memory of another type");
        }
        let lanes = if scalar == Scalar::BF16 { 1 } else { lanes };
        if lanes > 1 {
            self.note("memory of vectors");
        }
        (scalar, lanes)
    }

    /// The buffer for an access, found or made.
    fn buffer(&mut self, component: Scalar, unit: (Scalar, u32), output: bool) -> usize {
        let fill = if output {
            Fill::Output
        } else {
            let fills: &[Fill] = if component.is_float() {
                &[Fill::Halves, Fill::SmallInts, Fill::Position, Fill::Halves, Fill::SmallInts, Fill::Wild]
            } else {
                &[Fill::SmallInts, Fill::Bits, Fill::Bits, Fill::Position, Fill::Positive]
            };
            self.e.pick(fills)
        };
        let same = |b: &Buffer| b.component == component && b.unit == unit && b.fill == fill && b.member != TABLE;
        let found: Vec<usize> = (0..self.buffers.len()).filter(|i| same(&self.buffers[*i])).collect();
        if !found.is_empty() && !self.e.chance(80) {
            return self.e.pick(&found);
        }
        if self.kernel() {
            return self.kernel_buffer(component, unit, fill);
        }
        let shape = self.e.pick(&[Shape::Plain, Shape::Plain, Shape::Behind, Shape::Nested]);
        let shape = if output && shape == Shape::Nested { Shape::Plain } else { shape };
        let wants_address = self.e.chance(50);
        let index = self.buffers.len();
        let name = format!("{}{index}", if output { "O" } else { "I" });
        let storage = if wants_address { StorageClass::PhysicalStorageBuffer } else { StorageClass::StorageBuffer };
        let apart = if self.side.chance(30) { self.side.pick(&[4, 2, 3]) } else { 1 };
        if apart > 1 {
            self.note("array with padding");
        }
        let block = self.block_type(unit, shape, apart);
        let mut member = index as u32;
        let mut variable = None;
        if wants_address {
            let pointer = self.g.pointer(&mut self.m, storage, block);
            self.capability(Capability::PhysicalStorageBufferAddresses);
            if let Some(pushed) = self.push_constant(pointer, 8, format!("address = \"{name}\"")) {
                (variable, member) = (Some(pushed.0), pushed.1);
                self.note("buffer by address");
            }
        }
        let physical = variable.is_some();
        let variable = variable.unwrap_or_else(|| {
            let variable = self.variable(StorageClass::StorageBuffer, block, None);
            decorate(&mut self.m, variable, Decoration::DescriptorSet, &[0]);
            decorate(&mut self.m, variable, Decoration::Binding, &[index as u32]);
            variable
        });
        self.buffers.push(Buffer {
            name,
            component,
            unit,
            fill,
            shape,
            physical,
            variable,
            member,
            block,
            units: 1,
            apart,
        });
        index
    }

    fn kernel_buffer(&mut self, component: Scalar, unit: (Scalar, u32), fill: Fill) -> usize {
        let index = self.buffers.len();
        let name = format!("{}{index}", if fill == Fill::Output { "O" } else { "I" });
        let (variable, block) = self.buffer_argument(unit, &name);
        let (shape, member) = (Shape::Plain, index as u32);
        self.buffers.push(Buffer {
            name,
            component,
            unit,
            fill,
            shape,
            physical: true,
            variable,
            member,
            block,
            units: 1,
            apart: 1,
        });
        index
    }

    /// `base + execution * step`, as an index of some integer type.
    fn index(&mut self, base: u32, dynamic: Option<(Id, u32)>) -> Id {
        let mut at = self.uniform(base);
        if let Some((exec, step)) = dynamic {
            let step = self.uniform(step);
            let product = self.u32_op(Op::IMul, exec, step);
            at = if self.e.chance(128) {
                self.u32_op(Op::IAdd, at, product)
            } else {
                self.u32_op(Op::IAdd, product, at)
            };
        }
        self.as_index(at)
    }

    /// The pointer to unit `base + execution * step` of a buffer, and its storage class.
    pub(super) fn pointer(&mut self, buffer: usize, base: u32, dynamic: Option<(Id, u32)>) -> (Id, StorageClass) {
        let b = self.buffers[buffer].clone();
        let elem = self.unit_type(b.unit);
        if self.kernel() {
            let at = self.index(base, dynamic);
            return self.stepped(b.variable, elem, at);
        }
        let storage = if b.physical { StorageClass::PhysicalStorageBuffer } else { StorageClass::StorageBuffer };
        let mut root = b.variable;
        if b.physical {
            let block = self.g.pointer(&mut self.m, storage, b.block);
            let member = self.g.pointer(&mut self.m, StorageClass::PushConstant, block);
            let index = self.u32(b.member);
            let slot = self.ids(Op::AccessChain, member, &[b.variable, index]);
            root = self.ids(Op::Load, block, &[slot]);
        }
        let mut chain = vec![self.u32(if b.shape == Shape::Behind { 2 } else { 0 })];
        if b.shape == Shape::Nested {
            let half = base / INNER;
            chain.push(self.uniform(half));
        }
        let last = self.index(if b.shape == Shape::Nested { base % INNER } else { base }, dynamic);
        let pointer = self.g.pointer(&mut self.m, storage, elem);
        let op = self.e.pick(&[Op::AccessChain, Op::InBoundsAccessChain]);
        if self.e.chance(80) {
            // In two steps.
            let array = self.member_type(b.block, &chain);
            let array = self.g.pointer(&mut self.m, storage, array);
            let operands: Vec<Id> = [root].into_iter().chain(chain).collect();
            root = self.ids(Op::AccessChain, array, &operands);
            chain = Vec::new();
            self.note("nested access chains");
        }
        let operands: Vec<Id> = [root].into_iter().chain(chain).chain([last]).collect();
        (self.ids(op, pointer, &operands), storage)
    }

    /// The type of what a chain of a constant member index, and maybe an array index, leads to.
    fn member_type(&self, block: Id, chain: &[Id]) -> Id {
        let members = self.m.def_inst(block).map(|i| i.ids().collect::<Vec<_>>()).unwrap_or_default();
        let array = members.last().copied().unwrap_or(block);
        if chain.len() == 1 {
            return array;
        }
        self.m.def_inst(array).and_then(|i| i.id(0)).unwrap_or(array)
    }

    fn which(mat: Mat) -> usize {
        usize::from(mat.workgroup)
    }

    /// A place in an input for a matrix of this scope, of so many units, at a multiple of `step`: another one in each
    /// execution, or the same.
    pub(super) fn input(
        &mut self,
        mat: Mat,
        component: Scalar,
        unit: (Scalar, u32),
        (units, step): (u32, u32),
    ) -> Option<MatrixPointer> {
        let index = self.buffer(component, unit, false);
        let mut base = step * self.e.below(20);
        let (exec, count) = (self.fun().exec[Self::which(mat)], self.fun().count[Self::which(mat)]);
        let moves = self.e.chance(128);
        let by = step * (1 + self.e.below(9));
        let extent = units + if moves { by * (count - 1) } else { 0 };
        let dynamic = moves.then_some((exec, by));
        if self.buffers[index].shape == Shape::Nested {
            if base + extent > INNER {
                return None;
            }
            if self.e.chance(128) {
                // The inner length is a multiple of every step.
                base += INNER;
            }
        }
        let buffer = &mut self.buffers[index];
        buffer.units = buffer.units.max(base + extent);
        let range = buffer.range();
        let (pointer, storage) = self.pointer(index, base, dynamic);
        let align = self.alignment(index, step);
        Some(MatrixPointer { pointer, storage, align, range })
    }

    /// A place in an output that nothing else writes to.
    pub(super) fn output(&mut self, mat: Mat, unit: (Scalar, u32), (units, step): (u32, u32)) -> MatrixPointer {
        let index = self.buffer(mat.scalar, unit, true);
        let (exec, count) = (self.fun().exec[Self::which(mat)], self.fun().count[Self::which(mat)]);
        let gap = self.e.below(3);
        let behind = step * self.unaligned_gap(step * unit.0.bytes() * unit.1);
        // The last unit of a matrix may be shared with nothing: a store writes parts of units only.
        let region = units.next_multiple_of(step) + step * gap;
        let buffer = &mut self.buffers[index];
        let base = buffer.units.next_multiple_of(step) + behind;
        buffer.units = base + region * count;
        let range = buffer.range();
        let (pointer, storage) = self.pointer(index, base, (count > 1).then_some((exec, region)));
        let align = self.alignment(index, step);
        MatrixPointer { pointer, storage, align, range }
    }

    /// Units of an output, for stores that find their places themselves: the buffer and the first unit.
    pub(super) fn claim(&mut self, unit: (Scalar, u32), units: u32) -> (usize, u32) {
        let index = self.buffer(unit.0, unit, true);
        let buffer = &mut self.buffers[index];
        // Neighbours may be of any alignment up to 16 bytes.
        let base = buffer.units.next_multiple_of(16);
        buffer.units = base + units;
        (index, base)
    }

    /// Returns the alignment that every offset of that step keeps, a power of two of at most 16 bytes and no less than
    /// a number.
    fn alignment(&mut self, buffer: usize, step: u32) -> u32 {
        let b = &self.buffers[buffer];
        let bytes = b.unit_bytes() * step;
        let most = 1 << bytes.trailing_zeros().min(4);
        let least = b.unit.0.bytes();
        if self.e.chance(100) { least.min(most) } else { most }
    }
}
