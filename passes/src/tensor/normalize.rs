//! The pass: splits layouts and views into their parts, and rebuilds them in front of each access.

use super::layout_chain::{TensorType, layout, steps};
use super::{promises, zeros};
use crate::pipeline::PassCx;
use crate::{Refusal, Semantics, malformed, ssa};
use coop_ir::builder::Globals;
use coop_ir::cfg::Cfg;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if cx.options.undefined_as_zero {
        zeros::read(m);
    }
    if cx.options.assume_aligned {
        promises::align(m);
    }
    let is_type = |r: &InstRef| matches!(m.inst(*r).op, Op::TypeTensorLayoutNV | Op::TypeTensorViewNV);
    let tensor_types: Vec<InstRef> = m.globals.iter().copied().filter(is_type).collect();
    if tensor_types.is_empty() {
        return Ok(());
    }
    let constants = Constants::new(m, &Specialization::new());
    let mut types = FxHashMap::default();
    for r in tensor_types {
        let Some(id) = m.inst(r).result else { continue };
        let ty = TensorType::of(m, &constants, id)
            .map_err(|why| Refusal::new("refused-type", Some(r), why, "see what coopcheck says"))?;
        types.extend(ty.map(|t| (id, t)));
    }
    let g = Globals::new(m);
    let mut pass = Normalizer {
        m,
        g,
        constants,
        types,
        semantics: cx.options.semantics,
        known: FxHashMap::default(),
        inserted: FxHashMap::default(),
        phis: Vec::new(),
        dead: FxHashSet::default(),
        values: FxHashMap::default(),
    };
    for f in 0..pass.m.functions.len() {
        pass.function(f)?;
    }
    coop_ir::rewrite::sort_globals(pass.m);
    Ok(())
}

/// A phi of a part that may turn out to be redundant.
struct Phi {
    block: usize,
    id: Id,
    incoming: Vec<(Id, Id)>,
}

struct Normalizer<'m> {
    m: &'m mut Module,
    g: Globals,
    constants: Constants,
    types: FxHashMap<Id, TensorType>,
    semantics: Semantics,
    /// The parts of a layout or view.
    known: FxHashMap<Id, Vec<Id>>,
    /// New instructions, by the one they are inserted in front of.
    inserted: FxHashMap<InstRef, Vec<InstRef>>,
    phis: Vec<Phi>,
    dead: FxHashSet<InstRef>,
    /// Values already computed: by block, operation and operands.
    values: FxHashMap<(usize, Op, Id, Id), Id>,
}

impl Normalizer<'_> {
    fn function(&mut self, f: usize) -> Result<(), Refusal> {
        let cfg = Cfg::new(self.m, &self.m.functions[f]);
        let labels: Vec<Option<Id>> = (0..cfg.len()).map(|b| cfg.label(b)).collect();
        let mut layout_phis: Vec<(InstRef, usize)> = Vec::new();
        self.values.clear();
        let unreached = (0..cfg.len()).filter(|b| !cfg.is_reachable(*b));
        for b in cfg.rpo().iter().copied().chain(unreached) {
            for r in self.m.functions[f].blocks[b].insts.clone() {
                self.inst(r, b, &mut layout_phis)?;
            }
        }
        // The values of back edges are known only now.
        for (r, b) in layout_phis {
            let inst = self.m.inst(r).clone();
            let Some(parts) = inst.result.and_then(|id| self.known.get(&id).cloned()) else { continue };
            for pair in inst.operands.chunks_exact(2) {
                let (Some(value), Some(from)) = (pair[0].id(), pair[1].id()) else { continue };
                let incoming = self.parts_of(r, value)?;
                for (phi, part) in parts.iter().zip(incoming) {
                    let at = self.phis.iter_mut().find(|p| p.id == *phi);
                    at.into_iter().for_each(|p| p.incoming.push((part, from)));
                }
            }
            debug_assert!(labels[b].is_some());
        }
        self.place_phis(f);
        self.rebuild(f);
        Ok(())
    }

    fn refuse<T>(&self, r: InstRef) -> Result<T, Refusal> {
        let why = format!("{} on a tensor layout or view can't be followed", self.m.inst(r).op);
        let remedy = "keep layouts and views in local variables, not in arrays, structs or globals";
        Err(Refusal::new("refused-tensor-value", Some(r), why, remedy))
    }

    /// Returns the parts of a layout or view that `r` uses.
    fn parts_of(&mut self, r: InstRef, value: Id) -> Result<Vec<Id>, Refusal> {
        if let Some(parts) = self.known.get(&value) {
            return Ok(parts.clone());
        }
        let Some(def) = self.m.def_inst(value) else { return self.refuse(r) };
        let Some(ty) = def.ty.and_then(|t| self.types.get(&t)).cloned() else { return self.refuse(r) };
        match def.op {
            // Any value: no defined behavior depends on it.
            Op::Undef | Op::ConstantNull => {
                let parts = self.created(&ty);
                self.known.insert(value, parts.clone());
                Ok(parts)
            }
            _ => self.refuse(r),
        }
    }

    fn number(&mut self, value: u32) -> Id {
        self.g.u32(self.m, value)
    }

    /// Returns the parts of a new layout or view.
    fn created(&mut self, ty: &TensorType) -> Vec<Id> {
        let (zero, one, all) = (self.number(0), self.number(1), self.number(u32::MAX));
        let mut parts = vec![zero; ty.parts()];
        match ty {
            TensorType::Layout(l) => parts[..l.rank].fill(one),
            TensorType::View(v) => {
                let clip = 2 * v.order.len();
                (parts[clip + 1], parts[clip + 3]) = (all, all);
            }
        }
        parts
    }

    fn inst(&mut self, r: InstRef, b: usize, phis: &mut Vec<(InstRef, usize)>) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        if inst.op.is_tensor_layout() || inst.op.is_tensor_view() {
            return self.update(r, b, &inst);
        }
        if matches!(inst.op, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV) {
            return self.access(r, &inst);
        }
        let ty = inst.ty.and_then(|t| self.types.get(&t)).cloned();
        let Some(ty) = ty else {
            let takes = |id: Id| self.m.type_of(id).is_some_and(|t| self.types.contains_key(&t));
            if inst.ids().any(takes) {
                if ssa::is_debug(self.m, &inst) {
                    self.dead.insert(r);
                    return Ok(());
                }
                return self.refuse(r);
            }
            return Ok(());
        };
        let Some(result) = inst.result else { return self.refuse(r) };
        let parts = match inst.op {
            Op::Phi => {
                phis.push((r, b));
                (0..ty.parts())
                    .map(|_| {
                        let id = self.m.fresh_id();
                        self.phis.push(Phi { block: b, id, incoming: Vec::new() });
                        id
                    })
                    .collect()
            }
            Op::CopyObject => match inst.copy_source() {
                Some(from) => self.parts_of(r, from)?,
                None => return self.refuse(r),
            },
            Op::Undef => self.created(&ty),
            Op::Select => {
                let Some([condition, yes, no]) = inst.selection() else {
                    return self.refuse(r);
                };
                let (yes, no) = (self.parts_of(r, yes)?, self.parts_of(r, no)?);
                let pairs = yes.into_iter().zip(no);
                pairs.map(|(y, n)| if y == n { y } else { self.select(r, condition, y, n) }).collect()
            }
            _ => return self.refuse(r),
        };
        self.known.insert(result, parts);
        self.dead.insert(r);
        Ok(())
    }

    /// Inserts an instruction with a 32-bit result in front of `r`.
    fn emit(&mut self, r: InstRef, op: Op, operands: &[Id]) -> Id {
        let ty = self.g.uint(self.m, 32);
        let id = self.m.fresh_id();
        let origin = self.m.inst(r).origin;
        let inst = Inst::new(op, Some(ty), Some(id), operands.iter().map(|o| Operand::Id(*o))).at(origin);
        let new = self.m.add(inst);
        self.inserted.entry(r).or_default().push(new);
        id
    }

    fn select(&mut self, r: InstRef, condition: Id, yes: Id, no: Id) -> Id {
        self.emit(r, Op::Select, &[condition, yes, no])
    }

    fn value(&self, id: Id) -> Option<u32> {
        let inst = self.m.def_inst(id)?;
        // Constants made by this pass are not in the table.
        match inst.op {
            Op::Constant if inst.operands.len() == 1 => inst.literal(),
            _ => self.constants.get(id).fixed().and_then(|v| u32::try_from(v).ok()),
        }
    }

    /// Returns `a op b`, folded if known. Equal operations in a block are computed once.
    fn binary(&mut self, r: InstRef, b: usize, op: Op, x: Id, y: Id) -> Id {
        let folded = match (op, self.value(x), self.value(y)) {
            (Op::IAdd, Some(x), Some(y)) => Some(x.wrapping_add(y)),
            (Op::ISub, Some(x), Some(y)) => Some(x.wrapping_sub(y)),
            (Op::IMul, Some(x), Some(y)) => Some(x.wrapping_mul(y)),
            (Op::UDiv, Some(x), Some(y)) => x.checked_div(y),
            (Op::IMul, Some(0), _) | (Op::IMul, _, Some(0)) => Some(0),
            (Op::IAdd, Some(0), _) | (Op::IMul, Some(1), _) => return y,
            (Op::IAdd | Op::ISub, _, Some(0)) | (Op::IMul | Op::UDiv, _, Some(1)) => return x,
            _ => None,
        };
        if let Some(value) = folded {
            return self.number(value);
        }
        if let Some(id) = self.values.get(&(b, op, x, y)) {
            return *id;
        }
        let id = self.emit(r, op, &[x, y]);
        self.values.insert((b, op, x, y), id);
        id
    }

    /// Returns an operand as an unsigned number.
    fn unsigned(&mut self, r: InstRef, b: usize, id: Id) -> Result<Id, Refusal> {
        if let Some(value) = self.value(id)
            && self.m.def_inst(id).is_some_and(|i| i.op.is_constant())
        {
            return Ok(self.number(value));
        }
        match self.m.type_of(id).and_then(|t| types::scalar(self.m, t)) {
            Some(Scalar::Int { width: 32, signed: false }) => Ok(id),
            Some(Scalar::Int { width: 32, signed: true }) => {
                if let Some(id) = self.values.get(&(b, Op::Bitcast, id, id)) {
                    return Ok(*id);
                }
                let cast = self.emit(r, Op::Bitcast, &[id]);
                self.values.insert((b, Op::Bitcast, id, id), cast);
                Ok(cast)
            }
            _ => malformed(r, format!("an operand of {} is not a 32-bit integer", self.m.inst(r).op)),
        }
    }

    fn update(&mut self, r: InstRef, b: usize, inst: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result)) = (inst.ty.and_then(|t| self.types.get(&t)).cloned(), inst.result) else {
            return self.refuse(r);
        };
        self.dead.insert(r);
        if matches!(inst.op, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV) {
            let parts = self.created(&ty);
            self.known.insert(result, parts);
            return Ok(());
        }
        let Some(from) = inst.id(0) else { return self.refuse(r) };
        let mut parts = self.parts_of(r, from)?;
        let mut args = Vec::new();
        for id in inst.ids_from(1).collect::<Vec<_>>() {
            // A stride may have 64 bits: the rewritten accesses of other dialects have such.
            let wide = self.m.type_of(id).and_then(|t| types::scalar(self.m, t)).is_some_and(|s| s.width() == 64);
            let stays = wide && inst.op == Op::TensorLayoutSetStrideNV;
            args.push(if stays { id } else { self.unsigned(r, b, id)? });
        }
        let fits = match (&ty, inst.op) {
            (TensorType::Layout(l), Op::TensorLayoutSliceNV) => args.len() == 2 * l.rank,
            (TensorType::Layout(_), Op::TensorLayoutSetClampValueNV) => args.len() == 1,
            (TensorType::Layout(l), op) => op.is_tensor_layout() && args.len() == l.rank,
            (TensorType::View(_), Op::TensorViewSetClipNV) => args.len() == 4,
            (TensorType::View(v), op) => op.is_tensor_view() && args.len() == v.order.len(),
        };
        if !fits || parts.len() != ty.parts() {
            return malformed(r, format!("the operands of {} don't fit its type", inst.op));
        }
        match ty {
            TensorType::Layout(l) => self.update_layout(r, b, inst.op, l.rank, &args, &mut parts),
            TensorType::View(v) => self.update_view(r, b, inst.op, v.order.len(), &args, &mut parts),
        }
        self.known.insert(result, parts);
        Ok(())
    }

    fn update_layout(&mut self, r: InstRef, b: usize, op: Op, rank: usize, args: &[Id], parts: &mut [Id]) {
        let at = |kind: usize, d: usize| kind * rank + d;
        match op {
            Op::TensorLayoutSetBlockSizeNV => parts[..rank].copy_from_slice(args),
            Op::TensorLayoutSetDimensionNV => {
                let (zero, one) = (self.number(0), self.number(1));
                let mut stride = one;
                for d in (0..rank).rev() {
                    parts[at(layout::EXTENT, d)] = args[d];
                    parts[at(layout::SPAN, d)] = args[d];
                    parts[at(layout::OFFSET, d)] = zero;
                    parts[at(layout::STRIDE, d)] = stride;
                    if d > 0 {
                        let blocks = self.blocks(r, b, args[d], parts[at(layout::BLOCK, d)]);
                        stride = self.binary(r, b, Op::IMul, stride, blocks);
                    }
                }
            }
            Op::TensorLayoutSetStrideNV => parts[2 * rank..3 * rank].copy_from_slice(args),
            Op::TensorLayoutSliceNV => {
                for d in 0..rank {
                    let offset = at(layout::OFFSET, d);
                    parts[offset] = self.binary(r, b, Op::IAdd, parts[offset], args[2 * d]);
                    parts[at(layout::SPAN, d)] = args[2 * d + 1];
                }
            }
            _ => parts[5 * rank] = args[0],
        }
    }

    /// Returns the number of blocks of a dimension.
    fn blocks(&mut self, r: InstRef, b: usize, extent: Id, block: Id) -> Id {
        if self.semantics == Semantics::Nvidia || self.value(block) == Some(1) {
            return self.binary(r, b, Op::UDiv, extent, block);
        }
        // Extents can be as large as the type allows, so adding to them would overflow.
        let whole = self.binary(r, b, Op::UDiv, extent, block);
        let (extent_value, block_value) = (self.value(extent), self.value(block));
        if let (Some(e), Some(k)) = (extent_value, block_value)
            && k > 0
        {
            return self.number(e.div_ceil(k));
        }
        let covered = self.binary(r, b, Op::IMul, whole, block);
        let bool_type = self.g.bool(self.m);
        let id = self.m.fresh_id();
        let test = Inst::new(Op::INotEqual, Some(bool_type), Some(id), [covered, extent].map(Operand::Id));
        let test = self.m.add(test);
        self.inserted.entry(r).or_default().push(test);
        let (zero, one) = (self.number(0), self.number(1));
        let more = self.select(r, id, one, zero);
        self.binary(r, b, Op::IAdd, whole, more)
    }

    fn update_view(&mut self, r: InstRef, b: usize, op: Op, rank: usize, args: &[Id], parts: &mut [Id]) {
        match op {
            Op::TensorViewSetDimensionNV => {
                let mut stride = self.number(1);
                for d in (0..rank).rev() {
                    (parts[d], parts[rank + d]) = (args[d], stride);
                    if d > 0 {
                        stride = self.binary(r, b, Op::IMul, stride, args[d]);
                    }
                }
            }
            Op::TensorViewSetStrideNV => parts[rank..2 * rank].copy_from_slice(args),
            _ => parts[2 * rank..].copy_from_slice(args),
        }
    }

    /// Makes the layout and the view of an access in front of it.
    fn access(&mut self, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        for (at, operand) in inst.operands.iter().enumerate() {
            let Some(id) = operand.id() else { continue };
            let Some(ty_id) = self.m.type_of(id).filter(|t| self.types.contains_key(t)) else { continue };
            let parts = self.parts_of(r, id)?;
            let Some(ty) = self.types.get(&ty_id).cloned() else { continue };
            let create = match ty {
                TensorType::Layout(_) => Op::CreateTensorLayoutNV,
                TensorType::View(_) => Op::CreateTensorViewNV,
            };
            let mut last = self.chained(r, inst, create, ty_id, &[]);
            for (op, operands) in steps(&ty, &parts) {
                let all: Vec<Id> = std::iter::once(last).chain(operands).collect();
                last = self.chained(r, inst, op, ty_id, &all);
            }
            self.m.inst_mut(r).operands[at] = Operand::Id(last);
        }
        Ok(())
    }

    fn chained(&mut self, r: InstRef, inst: &Inst, op: Op, ty: Id, operands: &[Id]) -> Id {
        let id = self.m.fresh_id();
        let new = Inst::new(op, Some(ty), Some(id), operands.iter().map(|o| Operand::Id(*o))).at(inst.origin);
        let new = self.m.add(new);
        self.inserted.entry(r).or_default().push(new);
        id
    }

    /// Removes phis with one incoming value, and inserts the others into their blocks.
    fn place_phis(&mut self, f: usize) {
        let mut map: FxHashMap<Id, Id> = FxHashMap::default();
        let end = |map: &FxHashMap<Id, Id>, mut id: Id| {
            while let Some(next) = map.get(&id) {
                id = *next;
            }
            id
        };
        loop {
            let before = map.len();
            for phi in self.phis.iter().filter(|p| !p.incoming.is_empty()) {
                if map.contains_key(&phi.id) {
                    continue;
                }
                let mut values = phi.incoming.iter().map(|(v, _)| end(&map, *v)).filter(|v| *v != phi.id);
                let first = values.next();
                if let Some(one) = first.filter(|one| values.all(|v| v == *one)) {
                    map.insert(phi.id, one);
                }
            }
            if map.len() == before {
                break;
            }
        }
        let u32_type = self.g.uint(self.m, 32);
        for phi in std::mem::take(&mut self.phis) {
            if map.contains_key(&phi.id) {
                continue;
            }
            let operands = phi.incoming.iter().flat_map(|(v, l)| [Operand::Id(end(&map, *v)), Operand::Id(*l)]);
            let r = self.m.add(Inst::new(Op::Phi, Some(u32_type), Some(phi.id), operands));
            self.m.functions[f].blocks[phi.block].insts.insert(0, r);
        }
        let map: FxHashMap<Id, Id> = map.keys().map(|k| (*k, end(&map, *k))).collect();
        for r in self.inserted.values().flatten() {
            self.m.inst_mut(*r).map_ids(|id| map.get(&id).copied().unwrap_or(id));
        }
        ssa::replace_in(self.m, f, &map);
    }

    /// Inserts the new instructions and removes the old ones.
    fn rebuild(&mut self, f: usize) {
        let mut gone: FxHashSet<Id> = FxHashSet::default();
        for b in 0..self.m.functions[f].blocks.len() {
            let old = std::mem::take(&mut self.m.functions[f].blocks[b].insts);
            for r in old {
                self.m.functions[f].blocks[b].insts.extend(self.inserted.remove(&r).unwrap_or_default());
                if self.dead.contains(&r) {
                    gone.extend(self.m.inst(r).result);
                    self.m.forget(r);
                } else {
                    self.m.functions[f].blocks[b].insts.push(r);
                }
            }
        }
        self.dead.clear();
        coop_ir::rewrite::remove_globals(self.m, |m, r| {
            let i = m.inst(r);
            i.note_target().is_some_and(|id| gone.contains(&id))
        });
    }
}
