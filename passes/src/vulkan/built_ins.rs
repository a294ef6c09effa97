//! Rewrites built-in variables: OpenCL's have 64 bits, and some have no Vulkan counterpart.

use super::Kernel;
use crate::{Lanes, Refusal};
use coop_ir::builder::{add_global, decorate, name};
use coop_ir::spv::{BuiltIn, Decoration, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

impl Kernel<'_> {
    /// Records the component that a chain into a built-in variable selects.
    pub(super) fn built_in_pointer(&mut self, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(id), Some(base)) = (inst.result, inst.id(0)) else { return Err(self.no_layout(r)) };
        let mut indices: Vec<Id> =
            if inst.op.is_typed_access_chain() { inst.ids_from(1).collect() } else { Vec::new() };
        if inst.op.is_element_chain() && indices.first().and_then(|i| self.layout.constant(*i)) == Some(0) {
            indices.remove(0);
        }
        let before = self.components.get(&base).copied();
        let component = match indices.as_slice() {
            [] => before,
            [one] if before.is_none() => Some(*one),
            _ => return Err(self.no_layout(r)),
        };
        if let Some(component) = component {
            self.components.insert(id, component);
        }
        self.m.forget(r);
        Ok(())
    }

    /// Rewrites a load of a built-in variable or of a component.
    pub(super) fn rewrite_built_in(&mut self, r: InstRef, variable: Id, pointer: Id) -> Result<(), Refusal> {
        let ty = self.m.inst(r).ty.ok_or_else(|| self.no_layout(r))?;
        let whole = self.m.type_of(variable).and_then(|t| self.pointee(t)).ok_or_else(|| self.no_layout(r))?;
        let builtin = self.layout.built_in(variable).filter(|b| b.name().is_some());
        let value = builtin.and_then(|b| self.built_in(b, whole)).ok_or_else(|| {
            let what = builtin.map_or_else(|| "a variable of the interface".to_owned(), |b| format!("{b:?}"));
            let why = format!("{what} has no equivalent in Vulkan");
            Refusal::new("refused-vulkan-builtin", Some(r), why, "compute it from arguments")
        })?;
        match self.components.get(&pointer).copied() {
            None if whole == ty => self.replace_result(r, value),
            None => return Err(self.no_layout(r)),
            Some(component) => {
                let component = self.now(component);
                match self.layout.constant(component) {
                    Some(c) => {
                        self.instead(r, Op::CompositeExtract, ty, [value.into(), Operand::Word(c as u32)]);
                    }
                    None => self.instead(r, Op::VectorExtractDynamic, ty, [value, component].map(Operand::Id)),
                }
            }
        }
        Ok(())
    }

    /// Computes a built-in with the kernel's type.
    fn built_in(&mut self, builtin: BuiltIn, ty: Id) -> Option<Id> {
        let (scalar, count) = self.shape(ty)?;
        let elem = match Type::of(self.m, ty)? {
            Type::Vector { elem, .. } => elem,
            _ => ty,
        };
        let mut parts = Vec::with_capacity(count as usize);
        for c in 0..count {
            let value = self.built_in_component(builtin, c)?;
            let value = self.resize(value, scalar.width(), false);
            parts.push(self.cast(value, elem));
        }
        Some(match parts.as_slice() {
            [one] => *one,
            _ => self.ids(Op::CompositeConstruct, ty, &parts),
        })
    }

    /// Computes a component of a built-in as an unsigned 32-bit integer.
    fn built_in_component(&mut self, builtin: BuiltIn, c: u32) -> Option<Id> {
        let size = self.local_size;
        let of = |i: u32| size.get(i as usize).copied().unwrap_or(1);
        match builtin {
            BuiltIn::GlobalInvocationId
            | BuiltIn::LocalInvocationId
            | BuiltIn::WorkgroupId
            | BuiltIn::NumWorkgroups
                if c < 3 =>
            {
                Some(self.input(builtin, Some(c)))
            }
            BuiltIn::LocalInvocationIndex => Some(self.input(builtin, None)),
            BuiltIn::GlobalOffset => Some(self.u32(0)),
            BuiltIn::WorkgroupSize | BuiltIn::EnqueuedWorkgroupSize => Some(self.u32(of(c))),
            BuiltIn::GlobalSize => {
                let groups = self.input(BuiltIn::NumWorkgroups, Some(c));
                Some(self.times(32, groups, u64::from(of(c))))
            }
            BuiltIn::GlobalLinearId => {
                let [x, y, z] = [0, 1, 2].map(|c| self.input(BuiltIn::GlobalInvocationId, Some(c)));
                let [w, h] = [0, 1].map(|c| self.built_in_component(BuiltIn::GlobalSize, c));
                let (w, h, word) = (w?, h?, self.u32_type());
                let at = self.ids(Op::IMul, word, &[z, h]);
                let at = self.ids(Op::IAdd, word, &[at, y]);
                let at = self.ids(Op::IMul, word, &[at, w]);
                Some(self.ids(Op::IAdd, word, &[at, x]))
            }
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => match (self.lanes, self.subgroup_size) {
                (_, Some(size)) => Some(self.u32(size)),
                (Lanes::LocalIndex, None) => None,
                (Lanes::Subgroup, None) => Some(self.input(BuiltIn::SubgroupSize, None)),
            },
            BuiltIn::SubgroupId | BuiltIn::SubgroupLocalInvocationId if self.lanes == Lanes::LocalIndex => {
                let size = self.subgroup_size.filter(|s| s.is_power_of_two())?;
                let index = self.input(BuiltIn::LocalInvocationIndex, None);
                let word = self.u32_type();
                let (op, by) = match builtin {
                    BuiltIn::SubgroupId => (Op::ShiftRightLogical, size.trailing_zeros()),
                    _ => (Op::BitwiseAnd, size - 1),
                };
                let by = self.u32(by);
                Some(self.ids(op, word, &[index, by]))
            }
            BuiltIn::SubgroupId | BuiltIn::SubgroupLocalInvocationId => Some(self.input(builtin, None)),
            BuiltIn::NumSubgroups | BuiltIn::NumEnqueuedSubgroups => match self.subgroup_size {
                Some(s) => Some(self.u32((size.iter().product::<u32>()).div_ceil(s))),
                None if self.lanes == Lanes::Subgroup => Some(self.input(BuiltIn::NumSubgroups, None)),
                None => None,
            },
            _ => None,
        }
    }

    /// Loads a component of an input of the shader, or the input itself.
    fn input(&mut self, builtin: BuiltIn, component: Option<u32>) -> Id {
        let word = self.u32_type();
        let ty = if component.is_some() { self.g.vector(self.m, word, 3) } else { word };
        let variable = match self.inputs.get(&builtin) {
            Some(id) => *id,
            None => {
                let storage = StorageClass::Input;
                let pointer = self.g.pointer(self.m, storage, ty);
                let id = self.m.fresh_id();
                add_global(self.m, Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
                decorate(self.m, id, Decoration::BuiltIn, &[builtin.0]);
                name(self.m, id, &format!("{builtin:?}"));
                self.inputs.insert(builtin, id);
                id
            }
        };
        if !self.interface.contains(&variable) {
            self.interface.push(variable);
        }
        let value = self.ids(Op::Load, ty, &[variable]);
        match component {
            None => value,
            Some(c) => self.op(Op::CompositeExtract, word, [value.into(), Operand::Word(c)]),
        }
    }
}
