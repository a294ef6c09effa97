//! Finds the subgroup size for which a module was specialized.
//!
//! SPIR-V for Vulkan does not say it: an engine passes the size of the device as a specialization constant, and the
//! module computes with it. Two signs tell which constant that is:
//!
//! 1. The number of invocations of a workgroup divided by the constant is a factor of the length of an array in shared
//!    memory, and the array is indexed by `SubgroupId`: so the quotient is the number of subgroups.
//! 2. The constant has a name for a subgroup size: `SubgroupSize`, `WARP`, `wave_size`.
//!
//! Neither is a proof, and a module without them may still depend on a size.

use crate::Limits;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, Extent, entry_points};
use coop_ir::spv::{BuiltIn, StorageClass};
use coop_ir::types::Type;
use coop_ir::uses::Users;
use coop_ir::{Id, IdSet, Module};
use coop_ir::{InstRef, Op};
use std::collections::BTreeSet;

/// The subgroup size for which a module was specialized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecializedFor {
    /// The size.
    pub size: u32,
    /// The SpecId of the constant that holds it.
    pub spec_id: u32,
    /// The constant.
    pub at: InstRef,
    /// How the module uses the constant, to follow "SpecId 10 is 32, and the module".
    pub sign: &'static str,
    /// True if an array in shared memory has a part for each subgroup of that size: with smaller subgroups there are more of
    /// them than parts.
    pub has_parts: bool,
}

/// Returns the size for which `module` was specialized, if there is a sign of one. Constants without a value in `spec`
/// have their defaults if `defaults` is set; otherwise they are unknown.
pub fn specialized_for(module: &Module, spec: &Specialization, defaults: bool) -> Option<SpecializedFor> {
    let search = Search {
        module,
        decorations: Decorations::new(module),
        structure: Constants::new(module, &Specialization::new()),
        values: Constants::new(module, spec),
        defaults,
    };
    let divisors = search.divisors();
    let sign = "divides the invocations of its workgroup by it to get the number of subgroups";
    match search.only(divisors, sign, true) {
        Some(found) => Some(found),
        None => search.only(search.named(), "calls it a subgroup size", false),
    }
}

struct Search<'a> {
    module: &'a Module,
    decorations: Decorations,
    /// The constants without any value given, for the SpecIds on which each depends.
    structure: Constants,
    values: Constants,
    defaults: bool,
}

impl Search<'_> {
    /// Returns the size that all these constants hold, if they agree.
    fn only(&self, candidates: BTreeSet<Id>, sign: &'static str, has_parts: bool) -> Option<SpecializedFor> {
        let mut found: Option<SpecializedFor> = None;
        for id in candidates {
            let (Some(at), Some(spec_id)) = (self.module.def(id), self.decorations.spec_id(id)) else { continue };
            let Some(size) = self.value(id).and_then(|v| u32::try_from(v).ok()) else { continue };
            if !size.is_power_of_two() || !(4..=Limits::MAX_SUBGROUP_SIZE).contains(&size) {
                continue;
            }
            if found.as_ref().is_some_and(|f| f.size != size) {
                return None;
            }
            found.get_or_insert(SpecializedFor { size, spec_id, at, sign, has_parts });
        }
        found
    }

    fn value(&self, id: Id) -> Option<u64> {
        let value = self.values.get(id);
        if self.defaults { value.value() } else { value.fixed() }
    }

    /// Returns the constants by which the number of invocations of a workgroup is divided in the length of an array
    /// with a part for each subgroup.
    fn divisors(&self) -> BTreeSet<Id> {
        let entries = entry_points(self.module, &self.decorations);
        let workgroups: Vec<(BTreeSet<u32>, u64)> = entries.iter().filter_map(|e| self.workgroup(e)).collect();
        if workgroups.is_empty() || self.decorations.with_built_in(BuiltIn::SubgroupId).next().is_none() {
            return BTreeSet::new();
        }
        let users = Users::new(self.module);
        let mut found = BTreeSet::new();
        for r in self.module.globals_with(Op::Variable) {
            let inst = self.module.inst(r);
            let (Some(variable), Some(ty)) = (inst.result, inst.ty) else { continue };
            let Some(Type::Pointer { storage, pointee }) = Type::of(self.module, ty) else { continue };
            if storage != StorageClass::Workgroup {
                continue;
            }
            let Some(Type::Array { len, .. }) = Type::of(self.module, pointee) else { continue };
            let divisors = self.divisors_in(len, &workgroups);
            if !divisors.is_empty() && self.is_indexed_by_subgroup(variable, &users) {
                found.extend(divisors);
            }
        }
        found
    }

    /// Returns the SpecIds of the size of a workgroup, and the number of its invocations.
    fn workgroup(&self, entry: &EntryPoint) -> Option<(BTreeSet<u32>, u64)> {
        let size = entry.workgroup_size?;
        let constants = size.extents.iter().filter_map(|e| match e {
            Extent::Constant(id) => self.structure.specs(*id),
            Extent::Literal(_) => None,
        });
        let specs: BTreeSet<u32> = constants.flat_map(|s| s.iter()).collect();
        let values = size.values(&self.values);
        let known = values.iter().map(|v| if self.defaults { v.value() } else { v.fixed() });
        let invocations = known.into_iter().try_fold(1u64, |n, v| n.checked_mul(v?))?;
        (!specs.is_empty()).then_some((specs, invocations))
    }

    /// Returns the divisors of the number of invocations of a workgroup in the operands of a constant.
    fn divisors_in(&self, constant: Id, workgroups: &[(BTreeSet<u32>, u64)]) -> Vec<Id> {
        let mut found = Vec::new();
        let mut seen = IdSet::default();
        let mut work = vec![constant];
        while let Some(id) = work.pop() {
            let Some(inst) = self.module.def_inst(id).filter(|i| i.op == Op::SpecConstantOp && seen.insert(id)) else {
                continue;
            };
            work.extend(inst.ids());
            let mut operands = inst.ids();
            let (Some(Op::UDiv | Op::SDiv), Some(dividend), Some(divisor)) =
                (inst.specialized_op(), operands.next(), operands.next())
            else {
                continue;
            };
            let specs: BTreeSet<u32> = self.structure.specs(dividend).into_iter().flat_map(|s| s.iter()).collect();
            let whole = workgroups.iter().any(|(of, n)| *of == specs && self.value(dividend) == Some(*n));
            // A size that is computed from several constants is not followed.
            if whole && self.decorations.spec_id(divisor).is_some_and(|id| !specs.contains(&id)) {
                found.push(divisor);
            }
        }
        found
    }

    /// Returns true if an index into a variable depends on the number of the subgroup.
    fn is_indexed_by_subgroup(&self, variable: Id, users: &Users) -> bool {
        let chains = users.of(variable).iter().map(|r| self.module.inst(*r));
        let chains = chains.filter(|i| i.op.is_member_chain() && i.access_chain().is_some_and(|c| c.base == variable));
        chains.flat_map(|i| i.ids_from(1)).any(|index| self.comes_from_subgroup_id(index, users))
    }

    /// Returns true if a value is computed from `SubgroupId`, also through variables of functions.
    fn comes_from_subgroup_id(&self, value: Id, users: &Users) -> bool {
        let mut seen = IdSet::default();
        let mut work = vec![value];
        while let Some(id) = work.pop() {
            let Some(inst) = self.module.def_inst(id).filter(|_| seen.insert(id)) else { continue };
            if self.decorations.built_in(id) == Some(BuiltIn::SubgroupId) {
                return true;
            }
            match inst.op {
                Op::Variable if inst.variable_storage() == Some(StorageClass::Function) => {
                    let stores = users.of(id).iter().map(|r| self.module.inst(*r));
                    work.extend(
                        stores.filter(|i| i.op == Op::Store && i.accessed() == Some(id)).filter_map(|i| i.stored()),
                    );
                }
                // Memory and calls are not followed.
                Op::Variable | Op::Function | Op::FunctionCall => {}
                Op::Load => work.extend(inst.accessed()),
                _ => work.extend(inst.ids()),
            }
        }
        false
    }

    /// Returns the constants whose name is one for subgroup sizes.
    fn named(&self) -> BTreeSet<Id> {
        let constants = self.module.globals_with(Op::SpecConstant).filter_map(|r| self.module.inst(r).result);
        let named = |id: &Id| self.decorations.name(self.module, *id).is_some_and(|n| is_subgroup_size(&n));
        constants.filter(|id| self.decorations.spec_id(*id).is_some()).filter(named).collect()
    }
}

/// Returns true if a name is one for subgroup sizes.
fn is_subgroup_size(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_ascii_alphabetic()).collect::<String>().to_ascii_lowercase();
    matches!(letters.as_str(), "warp" | "wave")
        || ["subgroupsize", "warpsize", "wavesize", "wavefrontsize", "simdsize", "sgsize"]
            .iter()
            .any(|end| letters.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_subgroup_sizes() {
        for name in ["WARP", "SubGroupSize", "SUBGROUP_SIZE", "warp_size", "sg_size", "kWaveSize"] {
            assert!(is_subgroup_size(name), "{name}");
        }
        for name in ["WMITER", "num_warps", "SubgroupSizeLog2", "BLOCK_SIZE", "waves"] {
            assert!(!is_subgroup_size(name), "{name}");
        }
    }
}
