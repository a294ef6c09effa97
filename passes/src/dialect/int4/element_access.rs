//! Makes the per-element function of a load or store of 4-bit integers.
//!
//! Its parameters are row, column and element, followed by the operands of the access: pointer or index, stride,
//! offsets, bounds. The index of an element, counted in nibbles from the pointer of the access, gives the unit of
//! memory and the bits in it.

use super::super::rewriter::{Rewriter, Shape, within};
use super::super::tensor_form::{self, Access};
use super::{BYTE, LONG, is_four};
use crate::matrix::address::access_operands;
use crate::matrix::pointer::{MemoryLocation, place, steppable};
use crate::{Checked, Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index, require_capability};
use coop_ir::spv::{Capability, Scope, StorageClass};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// The address computation of an access, and the parameters of its function besides row, column and element.
pub(super) struct ElementAccess {
    place: MemoryLocation,
    layout: u64,
    /// The rows in a line of the packed layout, and 1 otherwise.
    rows: u32,
    /// True if elements are counted with 64 bits.
    wide: bool,
    /// The elements in a unit of memory.
    per: u32,
    /// The elements for each unit of the stride.
    stride_counts: u32,
    pub(super) extras: Vec<Id>,
    /// The index of each operand among the extra parameters.
    root: Option<usize>,
    last: Option<usize>,
    stride: usize,
    offset: Option<usize>,
    bound: Option<usize>,
}

impl ElementAccess {
    pub(super) fn new(
        e: &mut Rewriter<'_>,
        r: InstRef,
        access: &Access,
        shape: Shape,
        (kernel, checked): (bool, Checked),
    ) -> Result<ElementAccess, Refusal> {
        let layout = e.known(access.layout).filter(|l| *l <= tensor_form::PACKED);
        let Some(layout) = layout else {
            let why = "the memory layout of 4-bit integers is not RowMajor, ColumnMajor or PackedINTEL".to_owned();
            return Err(Refusal::new("refused-layout", Some(r), why, "use RowMajor, ColumnMajor or PackedINTEL"));
        };
        let mut place = place(e.m, &e.constants, r, access.pointer)?;
        // Compilers of kernels let pointers point to the components, which become bytes.
        let wide = kernel || place.storage == StorageClass::PhysicalStorageBuffer;
        let components = is_four(place.memory) && wide && place.lanes == 1;
        if components {
            place.memory = BYTE;
        }
        let bits = match place.memory {
            Scalar::Int { width: width @ (8 | 16 | 32), .. } if place.lanes == 1 && place.component.is_none() => width,
            other => {
                let why = format!("a matrix of 4-bit integers in memory of {other} or vectors");
                return Err(Refusal::new("refused-pointer", Some(r), why, "point to integers of 8, 16 or 32 bits"));
            }
        };
        if access.store && bits != 32 {
            let why =
                format!("elements of 4 bits are stored into {}, where an element does not fill a number", place.memory);
            return Err(Refusal::new(
                "refused-store-narrow",
                Some(r),
                why,
                "store through a pointer to 32-bit integers",
            ));
        }
        let rows = if layout == tensor_form::PACKED && shape.use_ != 0 { 8 } else { 1 };
        if !shape.rows.is_multiple_of(rows) {
            let why = format!("a matrix of {} rows is packed by {rows} rows", shape.rows);
            return Err(Refusal::new("refused-layout", Some(r), why, "use a number of rows that can be packed"));
        }
        let counts_components = access.offset.is_some() || layout == tensor_form::PACKED || kernel || components;
        let mut at = ElementAccess {
            layout,
            rows,
            wide,
            per: bits / 4,
            stride_counts: if counts_components { 1 } else { bits / 4 },
            extras: Vec::new(),
            root: None,
            last: None,
            stride: 0,
            offset: None,
            bound: None,
            place,
        };
        at.pass(e, r, access, checked)?;
        Ok(at)
    }

    /// Collects the extra parameters of the function.
    fn pass(&mut self, e: &mut Rewriter<'_>, r: InstRef, access: &Access, checked: Checked) -> Result<(), Refusal> {
        let zero = e.g.u32(e.m, 0);
        let mut offset = match access.offset {
            Some([a, b]) => Some([e.word(r, a)?, e.word(r, b)?]),
            None => None,
        };
        let mut bound = match access.bound {
            Some([a, b]) => Some([tensor_form::extent(e, r, a)?, tensor_form::extent(e, r, b)?]),
            None => None,
        };
        if checked == Checked::Prose {
            let (o, b) = tensor_form::prose(e, self.layout, self.rows, offset.unwrap_or([zero, zero]), bound);
            (offset, bound) = (offset.map(|_| o), b);
        }
        let Some(mut stride) = access.stride.or(bound.map(|[_, width]| width)) else {
            return malformed(r, "a stride is missing");
        };
        if self.wide {
            let long = e.g.scalar(e.m, LONG);
            match e.m.type_of(stride).and_then(|t| types::scalar(e.m, t)) {
                Some(LONG) => {}
                Some(Scalar::Int { width: 64, .. }) => stride = e.ids(Op::Bitcast, long, &[stride]),
                Some(Scalar::Int { .. }) => stride = e.ids(Op::UConvert, long, &[stride]),
                _ => return malformed(r, "the stride is not an integer"),
            }
        } else {
            stride = self.unsigned(e, r, stride)?;
        }
        if let Some((last, before)) = self.place.indices.clone().split_last() {
            if before.iter().any(|id| e.known(*id).is_none()) || !self.place.global && !self.wide {
                let why =
                    "a matrix of 4-bit integers in one of several buffers, which is not known before the module runs";
                return Err(Refusal::new("refused-pointer", Some(r), why.to_owned(), "index buffers by constants"));
            }
            let last = self.unsigned(e, r, *last)?;
            self.last = Some(self.extra(last));
        }
        if !self.place.global {
            self.root = Some(self.extra(self.place.root));
        }
        self.stride = self.extra(stride);
        for (pair, slot) in [(offset, 0), (bound, 1)] {
            let Some([a, b]) = pair else { continue };
            let (a, b) = (self.unsigned(e, r, a)?, self.unsigned(e, r, b)?);
            let first = self.extra(a);
            self.extra(b);
            *(if slot == 0 { &mut self.offset } else { &mut self.bound }) = Some(first);
        }
        Ok(())
    }

    fn extra(&mut self, id: Id) -> usize {
        self.extras.push(id);
        self.extras.len() - 1
    }

    /// Converts an integer to 32 bits, unsigned.
    fn unsigned(&self, e: &mut Rewriter<'_>, r: InstRef, id: Id) -> Result<Id, Refusal> {
        let value = e.word(r, id)?;
        let word = e.g.uint(e.m, 32);
        Ok(if e.m.type_of(value) == Some(word) { value } else { e.ids(Op::Bitcast, word, &[value]) })
    }

    /// Makes the function of row, column, element and the extra parameters.
    pub(super) fn function(&mut self, e: &mut Rewriter<'_>, access: &Access, shape: Shape) -> Id {
        let word = e.g.uint(e.m, 32);
        let mut params = vec![word, word, shape.component];
        params.extend(self.extras.iter().filter_map(|id| e.m.type_of(*id)));
        if access.store {
            require_device_scope(e.m, self.place.storage);
        }
        let memory = access_operands(&access.memory, self.per / 2);
        let label = if access.store { "coop_store_int4" } else { "coop_load_int4" };
        let mut made = e.function(label, shape.component, &params);
        let b = &mut made;
        let [row, col, element] = [0, 1, 2].map(|at| b.param(at));
        let (line, along) = self.surface(b, Index::Value(row), Index::Value(col));
        let inside = self.inside(b, (row, col), (line, along), shape);
        let zero = b.globals.null(b.module, shape.component);
        let out = if access.store {
            b.when(inside, &mut |b| {
                let (pointer, shift) = self.pointer(b, line, along);
                self.put(b, pointer, shift, element);
            });
            vec![element]
        } else {
            b.choose(
                inside,
                &[shape.component],
                &mut |b| {
                    let (pointer, shift) = self.pointer(b, line, along);
                    vec![self.get(b, pointer, shift, shape.component, &memory)]
                },
                &mut |_| vec![zero],
            )
        };
        made.finish(Some(out[0]))
    }

    /// Returns the line and the element of the line.
    fn surface(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> (Index, Index) {
        let (line, along) = match self.layout {
            tensor_form::COLUMN_MAJOR => (col, row),
            _ if self.rows > 1 => {
                let (high, low) = (b.div(row, self.rows), b.rem(row, self.rows));
                let begin = b.mul(col, Index::Const(self.rows));
                (high, b.add(begin, low))
            }
            _ => (row, col),
        };
        let Some(first) = self.offset else { return (line, along) };
        let (x, y) = (b.param(3 + first), b.param(4 + first));
        (b.add(line, Index::Value(x)), b.add(along, Index::Value(y)))
    }

    fn inside(
        &self,
        b: &mut FunctionBuilder<'_>,
        (row, col): (Id, Id),
        (line, along): (Index, Index),
        shape: Shape,
    ) -> Id {
        let truth = b.globals.bool(b.module);
        let rows = b.compare(Op::ULessThan, Index::Value(row), Index::Const(shape.rows));
        let cols = b.compare(Op::ULessThan, Index::Value(col), Index::Const(shape.cols));
        let mut inside = b.ids(Op::LogicalAnd, truth, &[rows, cols]);
        if let Some(first) = self.bound {
            let none = b.u32(0);
            for (at, end) in [(line, b.param(3 + first)), (along, b.param(4 + first))] {
                let at = b.index(at);
                let test = within(b, none, at, end);
                inside = b.ids(Op::LogicalAnd, truth, &[inside, test]);
            }
        }
        inside
    }

    /// Returns the pointer to the unit that contains an element, and the bit where it begins.
    fn pointer(&self, b: &mut FunctionBuilder<'_>, line: Index, along: Index) -> (Id, Index) {
        let stride = b.param(3 + self.stride);
        let by = self.per.trailing_zeros();
        let (unit, low) = if self.wide {
            let (long, by) = (b.globals.scalar(b.module, LONG), b.globals.constant(b.module, LONG, by.into()));
            let [line, along] = [line, along].map(|n| {
                let n = b.index(n);
                b.ids(Op::SConvert, long, &[n])
            });
            let mut begin = b.ids(Op::IMul, long, &[line, stride]);
            if self.stride_counts > 1 {
                begin = b.ids(Op::ShiftLeftLogical, long, &[begin, by]);
            }
            let number = b.ids(Op::IAdd, long, &[begin, along]);
            let word = b.u32_type();
            let low = b.ids(Op::UConvert, word, &[number]);
            (b.ids(Op::ShiftRightArithmetic, long, &[number, by]), Index::Value(low))
        } else {
            let begin = b.mul(line, Index::Value(stride));
            let begin = b.mul(begin, Index::Const(self.stride_counts));
            let number = b.add(begin, along);
            let unit = b.div(number, self.per);
            (b.index(unit), number)
        };
        let bit = b.rem(low, self.per);
        let shift = b.mul(bit, Index::Const(4));
        let pointer_type = b.globals.pointer(b.module, self.place.storage, self.place.memory_ty);
        let root = self.root.map_or(self.place.root, |at| b.param(3 + at));
        let Some((_, before)) = self.place.indices.split_last() else {
            let root = steppable(b, &self.place, root);
            let ty = b.module.type_of(root).unwrap_or(pointer_type);
            return (b.ids(Op::PtrAccessChain, ty, &[root, unit]), shift);
        };
        let last = self.last.map(|at| b.param(3 + at));
        let at = match last {
            Some(last) if self.wide => {
                let long = b.globals.scalar(b.module, LONG);
                let last = b.ids(Op::UConvert, long, &[last]);
                b.ids(Op::IAdd, long, &[last, unit])
            }
            Some(last) => {
                let sum = b.add(Index::Value(last), Index::Value(unit));
                b.index(sum)
            }
            None => unit,
        };
        let chain: Vec<Id> = [root].into_iter().chain(before.iter().copied()).chain([at]).collect();
        (b.ids(Op::AccessChain, pointer_type, &chain), shift)
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, pointer: Id, shift: Index, to: Id, memory: &[Operand]) -> Id {
        let operands = [Operand::Id(pointer)].into_iter().chain(self.aligned(memory));
        let unit = b.op(Op::Load, self.place.memory_ty, operands);
        let word = b.u32_type();
        let unit = match self.place.memory {
            Scalar::Int { width: 32, .. } if self.place.memory_ty == word => unit,
            Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, word, &[unit]),
            _ => b.ids(Op::UConvert, word, &[unit]),
        };
        let moved = b.u32_op(Op::ShiftRightLogical, Index::Value(unit), shift);
        let value = b.u32_op(Op::BitwiseAnd, moved, Index::Const(15));
        let value = b.index(value);
        b.ids(Op::UConvert, to, &[value])
    }

    /// Returns the memory operands of a load; addresses need their alignment.
    fn aligned(&self, memory: &[Operand]) -> Vec<Operand> {
        let physical = self.place.storage == StorageClass::PhysicalStorageBuffer;
        if memory.is_empty() && physical {
            vec![Operand::Word(2), Operand::Word(self.per / 2)]
        } else {
            memory.to_vec()
        }
    }

    /// Stores an element into its word: clears the old bits, then sets the new ones.
    fn put(&self, b: &mut FunctionBuilder<'_>, pointer: Id, shift: Index, element: Id) {
        let word = b.u32_type();
        let value = b.ids(Op::UConvert, word, &[element]);
        let put = b.u32_op(Op::ShiftLeftLogical, Index::Value(value), shift);
        let ones = b.u32_op(Op::ShiftLeftLogical, Index::Const(15), shift);
        let keep = b.u32_op(Op::BitwiseXor, ones, Index::Const(u32::MAX));
        let shared = self.place.storage == StorageClass::Workgroup;
        let scope = if shared { Scope::Workgroup } else { Scope::Device };
        let (scope, relaxed) = (b.u32(scope.0), b.u32(0));
        for (op, with) in [(Op::AtomicAnd, keep), (Op::AtomicOr, put)] {
            let with = b.index(with);
            let with =
                if self.place.memory_ty == word { with } else { b.ids(Op::Bitcast, self.place.memory_ty, &[with]) };
            b.ids(op, self.place.memory_ty, &[pointer, scope, relaxed, with]);
        }
    }
}

/// Atomic operations on memory of the whole device need a capability in the Vulkan memory model.
fn require_device_scope(m: &mut Module, storage: StorageClass) {
    let model = m.has_capability(Capability::VulkanMemoryModel);
    if model && storage != StorageClass::Workgroup {
        require_capability(m, Capability::VulkanMemoryModelDeviceScope);
    }
}
