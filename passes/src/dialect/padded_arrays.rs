//! Rewrites accesses through pointers into arrays with padding between elements, such as those of std140.
//!
//! A matrix access ignores the ArrayStride (SPV_KHR_cooperative_matrix, SPV_NV_cooperative_matrix2): from its pointer
//! on, numbers are contiguous, and rows are apart by the stride times the size of the pointee. An index into the array
//! does count the padding, so lowerings that access elements by index need memory without padding.
//!
//! Effect: such a pointer into a binding becomes one into a view of the binding without padding, and such an address
//! one of a type without padding. Accesses left over are refused where elements are located ([`crate::matrix::pointer`]).

use super::rewriter::Rewriter;
use crate::Refusal;
use crate::builtins::add_to_interfaces;
use crate::kernel::is_physical;
use crate::matrix::pointer::{chain, containers, is_array, is_padded};
use crate::tensor::byte_address::{Bound, Layouts, Views};
use coop_ir::builder::decorate;
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

pub(super) fn run(m: &mut Module) -> Result<(), Refusal> {
    if is_physical(m) || !m.globals.iter().any(|r| m.inst(*r).result.is_some_and(|id| is_padded(m, id))) {
        return Ok(());
    }
    let decorations = Decorations::new(m);
    let mut pass = Padded { decorations, views: Views::default(), pointers: FxHashMap::default() };
    let mut e = Rewriter::new(m);
    e.each(&mut |e, r| {
        pass.access(e, r);
        Ok(true)
    })?;
    let views = pass.views.finish(m, &pass.decorations);
    if m.header.version_pair() >= (1, 4) {
        add_to_interfaces(m, &views);
    }
    sort_globals(m);
    Ok(())
}

struct Padded {
    decorations: Decorations,
    views: Views,
    /// Pointer types stepped by the size of their pointee, by pointee.
    pointers: FxHashMap<Id, Id>,
}

impl Padded {
    /// Replaces the pointer of an access, if needed.
    fn access(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Option<()> {
        let inst = e.m.inst(r).clone();
        let stride = match inst.op {
            Op::CooperativeMatrixLoadKHR => Some(2),
            Op::CooperativeMatrixStoreKHR => Some(3),
            Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV => None,
            _ => return None,
        };
        let pointer = inst.accessed()?;
        let Type::Pointer { storage, pointee } = Type::of(e.m, e.m.type_of(pointer)?)? else { return None };
        if !self.leads_through_padding(e, pointer) {
            return None;
        }
        if storage == StorageClass::PhysicalStorageBuffer {
            let ty = self.stepped(e, pointee);
            let cast = e.ids(Op::Bitcast, ty, &[pointer]);
            e.m.inst_mut(r).operands[0] = cast.into();
            return Some(());
        }
        let (scalar, lanes) = types::scalar_or_vector(e.m, pointee)?;
        let layouts = Layouts { m: e.m, constants: &e.constants, decorations: &self.decorations };
        let bound = layouts.bound(pointer)?;
        // The unit of the view is the pointee, or its component where vectors begin elsewhere, or are of three, which only a
        // scalar block layout has without padding.
        let begins = |bytes: u32| {
            let factors = bound.terms.iter().map(|t| t.1).chain([bound.constant]);
            factors.into_iter().all(|n| n.is_multiple_of(bytes))
        };
        let whole = scalar.bytes() * lanes;
        let (unit, bytes) = match Type::of(e.m, pointee)? {
            _ if lanes != 3 && begins(whole) => (pointee, whole),
            Type::Vector { elem, .. } if begins(scalar.bytes()) => (elem, scalar.bytes()),
            _ => return None,
        };
        let pointer = self.pointer(e, r, &bound, (unit, bytes))?;
        e.m.inst_mut(r).operands[0] = pointer.into();
        if let Some(at) = stride.filter(|_| bytes < whole)
            && let Some(stride) = inst.id(at)
        {
            let word = e.word(r, stride).ok()?;
            let (ty, by) = (e.g.uint(e.m, 32), e.g.u32(e.m, whole / bytes));
            let counted = match e.known(stride) {
                Some(known) => e.g.u32(e.m, (known as u32).wrapping_mul(whole / bytes)),
                None => e.ids(Op::IMul, ty, &[word, by]),
            };
            e.m.inst_mut(r).operands[at] = counted.into();
        }
        Some(())
    }

    /// Makes the pointer to a location of a binding, through a view of the binding with units of so many bytes.
    fn pointer(&mut self, e: &mut Rewriter<'_>, r: InstRef, bound: &Bound, (unit, bytes): (Id, u32)) -> Option<Id> {
        let view = self.views.view(e.m, &self.decorations, bound.variable, unit, bytes);
        let word = e.g.uint(e.m, 32);
        let mut sum = (bound.constant > 0).then(|| e.g.u32(e.m, bound.constant / bytes));
        for (id, factor) in &bound.terms {
            let mut term = e.word(r, *id).ok()?;
            if factor / bytes != 1 {
                let by = e.g.u32(e.m, factor / bytes);
                term = e.ids(Op::IMul, word, &[term, by]);
            }
            sum = Some(match sum {
                Some(sum) => e.ids(Op::IAdd, word, &[sum, term]),
                None => term,
            });
        }
        let zero = e.g.u32(e.m, 0);
        let index = sum.unwrap_or(zero);
        let ty = e.g.pointer(e.m, StorageClass::StorageBuffer, unit);
        let chain: Vec<Id> = [view].into_iter().chain(bound.descriptor).chain([zero, index]).collect();
        Some(e.ids(Op::AccessChain, ty, &chain))
    }

    /// Returns a pointer type that is stepped by the size of its pointee.
    fn stepped(&mut self, e: &mut Rewriter<'_>, pointee: Id) -> Id {
        *self.pointers.entry(pointee).or_insert_with(|| {
            let id = e.m.fresh_id();
            let operands = [Operand::Word(StorageClass::PhysicalStorageBuffer.0), pointee.into()];
            let pointer = e.m.add(Inst::new(Op::TypePointer, None, Some(id), operands));
            e.m.globals.push(pointer);
            let bytes = types::packed_bytes(e.m, pointee).unwrap_or(1);
            decorate(e.m, id, Decoration::ArrayStride, &[bytes]);
            id
        })
    }

    /// Returns true if the last array that a pointer steps into has padding.
    fn leads_through_padding(&self, e: &Rewriter<'_>, pointer: Id) -> bool {
        let (root, indices) = chain(e.m, pointer);
        let types = containers(e.m, &e.constants, root, &indices).unwrap_or_default();
        types.into_iter().rev().find(|ty| is_array(e.m, *ty)).is_some_and(|ty| is_padded(e.m, ty))
    }
}
