//! Rules about tensor layouts and views.

use super::access::{addressing, is_tensor};
use super::{Edit, Mutant, Rows, U64};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, MemoryAccess, StorageClass, TensorAddressingOperands};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Operand};

pub(super) const ROWS: Rows = &[
    ("portability-clip-offset", |x| {
        let r = x.op(Op::TensorViewSetClipNV)?;
        let (one, all) = (x.u32(1), x.u32(u32::MAX));
        let at = x.e.pick(&[1, 3]);
        x.set(r, at, one)?;
        x.set(r, at + 1, all)
    }),
    ("portability-endless-dimension", |x| {
        let (layout, r) = x.new_layout(1, &[u32::MAX, 8])?;
        let (minus, eight, zero) = (x.u32(-2i32 as u32), x.u32(8), x.u32(0));
        let sliced = x.change(r, Op::TensorLayoutSliceNV, layout, &[minus, eight, zero, eight])?;
        x.use_layout(sliced)
    }),
    ("portability-matrix-exceeds-span", |x| {
        let (layout, _) = x.new_layout(1, &[1, 1])?;
        let object = x.inst(x.behind(layout)?).id(1)?;
        let ty = x.mat(object)?;
        if x.value(ty.rows)? * x.value(ty.cols)? == 1 {
            return None;
        }
        x.use_layout(layout)
    }),
    ("portability-default-strides", |x| {
        let (layout, r) = x.new_layout(1, &[])?;
        let [block, extent] = [4, 1021].map(|v| x.u32(v));
        let blocks = x.change(r, Op::TensorLayoutSetBlockSizeNV, layout, &[block, block])?;
        let next = x.m.def(blocks)?;
        let sized = x.change(next, Op::TensorLayoutSetDimensionNV, blocks, &[extent, extent])?;
        x.use_layout(sized)
    }),
    ("tensor-block-after-dimension", |x| {
        let (layout, r) = x.new_layout(1, &[1024, 1024])?;
        let block = x.u32(4);
        let blocks = x.change(r, Op::TensorLayoutSetBlockSizeNV, layout, &[block, block])?;
        x.use_layout(blocks)
    }),
    ("tensor-block-zero", |x| {
        let (layout, r) = x.new_layout(1, &[])?;
        let (zero, extent) = (x.u32(0), x.u32(1024));
        let blocks = x.change(r, Op::TensorLayoutSetBlockSizeNV, layout, &[zero, zero])?;
        let next = x.m.def(blocks)?;
        let sized = x.change(next, Op::TensorLayoutSetDimensionNV, blocks, &[extent, extent])?;
        x.use_layout(sized)
    }),
    ("tensor-span-zero", |x| {
        let (layout, _) = x.new_layout(1, &[])?;
        x.use_layout(layout)
    }),
    ("tensor-mirror-single", |x| {
        let (layout, r) = x.new_layout(4, &[1, 1024])?;
        let [zero, many] = [0, 1024].map(|v| x.u32(v));
        let sliced = x.change(r, Op::TensorLayoutSliceNV, layout, &[zero, many, zero, many])?;
        x.use_layout(sliced)
    }),
    ("tensor-out-of-bounds", |x| {
        // As many elements as the matrix has, from the last row on.
        let (layout, r) = x.new_layout(0, &[])?;
        let object = x.inst(x.behind(layout)?).id(1)?;
        let ty = x.mat(object)?;
        let (rows, cols) = (x.value(ty.rows)?, x.value(ty.cols)?);
        let [h, w, zero, two] = [rows, cols, 0, 2].map(|v| x.u32(v));
        let sized = x.change(r, Op::TensorLayoutSetDimensionNV, layout, &[h, w])?;
        let next = x.m.def(sized)?;
        let sliced = x.change(next, Op::TensorLayoutSliceNV, sized, &[two, h, zero, w])?;
        x.use_layout(sliced)
    }),
    ("tensor-stride-order", |x| {
        let (layout, r) = x.new_layout(1, &[1024, 1024])?;
        let [one, ten] = [1, 10].map(|v| x.u32(v));
        let strided = x.change(r, Op::TensorLayoutSetStrideNV, layout, &[ten, one])?;
        x.use_layout(strided)
    }),
    ("tensor-stride-broadcast", |x| {
        let (layout, r) = x.new_layout(1, &[1024, 1024])?;
        let [zero, one] = [0, 1].map(|v| x.u32(v));
        let strided = x.change(r, Op::TensorLayoutSetStrideNV, layout, &[zero, one])?;
        x.use_layout(strided)
    }),
    ("tensor-clamp-value-unused", |x| {
        let (layout, r) = x.new_layout(3, &[1024, 1024])?;
        let one = x.u32(1);
        let valued = x.change(r, Op::TensorLayoutSetClampValueNV, layout, &[one])?;
        x.use_layout(valued)
    }),
    ("tensor-clamp-not-constant", |x| x.layout_type(1, |x| x.constant(U64, 1))),
    ("tensor-clamp-unknown", |x| x.layout_type(1, |x| x.u32(5))),
    ("tensor-dimension-not-constant", |x| x.layout_type(0, |x| x.constant(U64, 2))),
    ("tensor-dimension-range", |x| {
        let six = x.e.pick(&[0, 6, 7]);
        x.layout_type(0, move |x| x.u32(six))
    }),
    ("tensor-has-dimensions-not-boolean", |x| {
        let r = x.op(Op::TypeTensorViewNV)?;
        let mut ids: Vec<Id> = x.inst(r).ids().collect();
        ids[1] = x.u32(1);
        x.type_with(Op::TypeTensorViewNV, ids.into_iter().map(Operand::Id).collect());
        Some(())
    }),
    ("tensor-permutation", |x| {
        let r = x.op(Op::TypeTensorViewNV)?;
        let mut ids: Vec<Id> = x.inst(r).ids().collect();
        let wrong = x.e.pick(&[9u32, 5, 6]);
        ids[2] = if ids.len() > 3 && x.e.chance(128) { ids[3] } else { x.u32(wrong) };
        x.type_with(Op::TypeTensorViewNV, ids.into_iter().map(Operand::Id).collect());
        Some(())
    }),
    ("tensor-permutation-count", |x| {
        let r = x.op(Op::TypeTensorViewNV)?;
        let mut ids: Vec<Id> = x.inst(r).ids().collect();
        if ids.len() > 3 && x.e.chance(128) {
            ids.pop();
        } else {
            let more = x.u32(ids.len() as u32 - 2);
            ids.push(more);
        }
        x.type_with(Op::TypeTensorViewNV, ids.into_iter().map(Operand::Id).collect());
        Some(())
    }),
    ("tensor-layout-operand", |x| {
        let r = x.find(|_, i| is_tensor(i))?;
        let (copy, one) = (x.copy(r)?, x.u32(1));
        x.set(copy, 2, one)
    }),
    ("tensor-operand-count", |x| {
        // Of the block size, the number of operands stays.
        let counts = |op: Op| op.is_tensor_layout() && op.changes_dimensions() && op != Op::TensorLayoutSetBlockSizeNV;
        let r = x.find(|_, i| counts(i.op))?;
        let copy = x.copy(r)?;
        let operands = &mut x.m.inst_mut(copy).operands;
        let last = operands.pop()?;
        if operands.len().is_multiple_of(2) {
            operands.extend([last, last]);
        }
        Some(())
    }),
    ("tensor-operand-type", |x| {
        let r = x.find(|_, i| i.op.changes_tensor())?;
        let (copy, one) = (x.copy(r)?, x.float());
        let last = x.m.inst(copy).operands.len() - 1;
        x.set(copy, last, one)
    }),
    ("tensor-operands-unknown", |x| {
        let r = x.find(|_, i| is_tensor(i))?;
        let copy = x.copy(r)?;
        let (at, mask) = addressing(x.m.inst(copy))?;
        x.set(copy, at, mask | 0x20)
    }),
    ("tensor-result-type", |x| {
        let r = x.find(|_, i| i.op.changes_tensor() && i.op.is_tensor_layout())?;
        let copy = x.copy(r)?;
        let uint = x.scalar(Scalar::Int { width: 32, signed: false });
        x.m.inst_mut(copy).ty = Some(uint);
        Some(())
    }),
    ("tensor-store-block", |x| {
        let (layout, r) = x.new_layout(1, &[])?;
        let [block, extent] = [2, 1024].map(|v| x.u32(v));
        let blocks = x.change(r, Op::TensorLayoutSetBlockSizeNV, layout, &[block, block])?;
        let next = x.m.def(blocks)?;
        let sized = x.change(next, Op::TensorLayoutSetDimensionNV, blocks, &[extent, extent])?;
        x.store_by(sized)
    }),
    ("tensor-store-overlap", |x| {
        // A slice of one element.
        let (layout, _) = x.new_layout(1, &[1, 1])?;
        let object = x.inst(x.behind(layout)?).id(1)?;
        let ty = x.mat(object)?;
        if x.value(ty.rows)? * x.value(ty.cols)? == 1 {
            return None;
        }
        x.store_by(layout)
    }),
    ("tensor-clamp-value-wide", |x| {
        let (layout, _) = x.new_layout(1, &[1024, 1024])?;
        let access = x.behind(layout)?;
        let object = x.inst(access).id(1)?;
        let ty = x.mat(object)?;
        x.capability(Capability::Int64);
        let wide = x.altered(ty, &[Edit::Component(U64)])?;
        let undef = x.undef(access, wide)?;
        let r = x.load_by(layout)?;
        x.m.inst_mut(r).ty = Some(wide);
        x.set(r, 1, undef)
    }),
    ("tensor-variable-storage", |x| {
        let r = x.ops(&[Op::TypeTensorLayoutNV, Op::TypeTensorViewNV])?;
        let ty = x.inst(r).result?;
        x.variable(StorageClass::Workgroup, ty);
        Some(())
    }),
    ("tensor-view-operand", |x| {
        let r = x.find(|_, i| is_tensor(i) && addressing(i).is_some_and(|(_, mask)| mask & 1 != 0))?;
        let (copy, one) = (x.copy(r)?, x.u32(1));
        let (at, _) = addressing(x.m.inst(copy))?;
        x.set(copy, at + 1, one)
    }),
    ("tensor-view-dimension-zero", |x| x.with_view(true, 2)),
    ("tensor-view-rank-exceeds", |x| x.with_view(false, 3)),
    ("tensor-view-rank-less", |x| x.with_view(false, 1)),
];

impl Mutant<'_> {
    /// A new layout of two dimensions in front of a tensor access; with its sizes set if there are any.
    fn new_layout(&mut self, clamp: u32, dims: &[u32]) -> Option<(Id, InstRef)> {
        let at = self.find(|_, i| is_tensor(i))?;
        let (two, clamp) = (self.u32(2), self.u32(clamp));
        let ty = self.type_with(Op::TypeTensorLayoutNV, vec![two.into(), clamp.into()]);
        let mut layout = self.before(at, Op::CreateTensorLayoutNV, ty, [])?;
        if !dims.is_empty() {
            let ids: Vec<Id> = dims.iter().map(|d| self.u32(*d)).collect();
            let made = self.m.def(layout)?;
            layout = self.change(made, Op::TensorLayoutSetDimensionNV, layout, &ids)?;
        }
        Some((layout, self.m.def(layout)?))
    }

    /// A change of a layout or view, behind an instruction.
    fn change(&mut self, at: InstRef, op: Op, of: Id, operands: &[Id]) -> Option<Id> {
        let ty = self.m.type_of(of)?;
        let all: Vec<Id> = [of].into_iter().chain(operands.iter().copied()).collect();
        self.after(at, op, ty, &all)
    }

    /// The tensor access behind a layout.
    fn behind(&self, layout: Id) -> Option<InstRef> {
        let at = self.m.def(layout)?;
        let block = self.m.functions.iter().flat_map(|f| f.blocks.iter()).find(|b| b.insts.contains(&at))?;
        let from = block.insts.iter().position(|r| *r == at)?;
        block.insts[from..].iter().copied().find(|r| is_tensor(self.m.inst(*r)))
    }

    fn use_layout(&mut self, layout: Id) -> Option<()> {
        self.load_by(layout).map(drop)
    }

    /// A load by a layout alone, like the access behind it.
    fn load_by(&mut self, layout: Id) -> Option<InstRef> {
        let access = self.behind(layout)?;
        let inst = self.inst(access);
        let (pointer, object) = (inst.id(0)?, inst.id(1)?);
        let ty = self.m.type_of(object)?;
        let id = self.m.fresh_id();
        let memory = self.plain_memory(&inst);
        let operands =
            [pointer.into(), object.into(), layout.into()].into_iter().chain(memory).chain([Operand::Word(0)]);
        self.insert(access, Inst::new(Op::CooperativeMatrixLoadTensorNV, Some(ty), Some(id), operands), false)
    }

    fn store_by(&mut self, layout: Id) -> Option<()> {
        let access = self.behind(layout)?;
        let inst = self.inst(access);
        let (pointer, object) = (inst.id(0)?, inst.id(1)?);
        let memory = self.plain_memory(&inst);
        let operands =
            [pointer.into(), object.into(), layout.into()].into_iter().chain(memory).chain([Operand::Word(0)]);
        self.insert(access, Inst::new(Op::CooperativeMatrixStoreTensorNV, None, None, operands), false).map(drop)
    }

    /// Memory operands that are right for the pointer of an access.
    fn plain_memory(&self, access: &Inst) -> Vec<Operand> {
        let aligned = access.word(3).is_some_and(|m| m & 2 != 0);
        if aligned { vec![MemoryAccess::Aligned.into(), access.operands[4]] } else { vec![Operand::Word(0)] }
    }

    /// A new layout type that differs in an operand.
    fn layout_type(&mut self, at: usize, new: impl Fn(&mut Self) -> Id) -> Option<()> {
        let r = self.op(Op::TypeTensorLayoutNV)?;
        let mut ids: Vec<Id> = self.inst(r).ids().collect();
        ids[at] = new(self);
        self.type_with(Op::TypeTensorLayoutNV, ids.into_iter().map(Operand::Id).collect());
        Some(())
    }

    /// A load through a new view of so many dimensions, and a layout of two.
    fn with_view(&mut self, own: bool, rank: u32) -> Option<()> {
        let (layout, r) = self.new_layout(1, &[1024, 1024])?;
        let bool_type = self.g.bool(&mut self.m);
        let op = if own { Op::ConstantTrue } else { Op::ConstantFalse };
        let known = self.m.globals_with(op).find_map(|r| self.m.inst(r).result);
        let truth = match known {
            Some(id) => id,
            None => {
                let id = self.m.fresh_id();
                self.global(Inst::new(op, Some(bool_type), Some(id), []));
                id
            }
        };
        let ids: Vec<Operand> = [rank].into_iter().map(|v| self.u32(v)).chain([truth]).map(Operand::Id).collect();
        let perm: Vec<Operand> = (0..rank).map(|p| self.u32(p)).map(Operand::Id).collect();
        let ty = self.type_with(Op::TypeTensorViewNV, ids.into_iter().chain(perm).collect());
        let view = self.after(r, Op::CreateTensorViewNV, ty, &[])?;
        let access = self.behind(layout)?;
        let inst = self.inst(access);
        let (pointer, object) = (inst.id(0)?, inst.id(1)?);
        let memory = self.plain_memory(&inst);
        let result = self.m.fresh_id();
        let all = [pointer.into(), object.into(), layout.into()].into_iter().chain(memory);
        let all: Vec<Operand> = all.chain([TensorAddressingOperands::TensorView.into(), view.into()]).collect();
        let matrix = self.m.type_of(object)?;
        let load = Inst::new(Op::CooperativeMatrixLoadTensorNV, Some(matrix), Some(result), all);
        self.insert(access, load, false).map(drop)
    }
}
