//! Entry points as older versions of SPIR-V declare them.

use crate::Refusal;
use coop_ir::builder::{Globals, add_global, decorate};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, Extent, SizeSource, WorkgroupSize, entry_points};
use coop_ir::spv::{BuiltIn, Decoration, ExecutionMode, StorageClass};
use coop_ir::types::storage_of;
use coop_ir::{Id, Inst, Module, Op, Operand};

pub(super) fn run(m: &mut Module, version: (u8, u8)) -> Result<(), Refusal> {
    let entries = entry_points(m, &Decorations::new(m));
    if version < (1, 4) {
        entries.iter().for_each(|entry| interface(m, entry));
    }
    sizes(m, &entries)
}

/// Leaves inputs and outputs in the interface, which had no other variables before 1.4.
fn interface(m: &mut Module, entry: &EntryPoint) {
    let is_kept = |id: &Id| matches!(storage_of(m, *id), Some(StorageClass::Input | StorageClass::Output));
    let kept: Vec<Operand> = entry.interface.iter().copied().filter(is_kept).map(Operand::Id).collect();
    let operands = &mut m.inst_mut(entry.at).operands;
    operands.truncate(operands.len() - entry.interface.len());
    operands.extend(kept);
}

/// Replaces `LocalSizeId`, which Vulkan 1.3 has without an extension, by `LocalSize`, and by the built-in `WorkgroupSize` where
/// the pipeline sets the size.
fn sizes(m: &mut Module, entries: &[EntryPoint]) -> Result<(), Refusal> {
    let constants = Constants::new(m, &Specialization::new());
    let mut specialized: Option<[Id; 3]> = None;
    for entry in entries {
        let Some(size) = entry.size_of_modes(m).filter(|s| s.source == SizeSource::LocalSizeId) else { continue };
        let values = size.values(&constants);
        let fixed: Option<Vec<u32>> = values.iter().map(|v| v.fixed_as::<u32>()).collect();
        let ids = extents(&size);
        let over = entry.workgroup_size.is_some_and(|s| s.source == SizeSource::BuiltIn);
        if fixed.is_none() && !over {
            // The built-in holds for every entry point.
            let one = entries.len() == 1;
            specialized = ids.filter(|ids| one && same_type(m, ids));
            if specialized.is_none() {
                let why = "a workgroup size that the pipeline sets is given by LocalSizeId, in a module of several entry points \
                           or with constants of several types, and SPIR-V before 1.6 has only a built-in for it";
                let remedy = "lower with the values that the pipeline gives: --spec ID=VALUE".to_owned();
                return Err(Refusal {
                    rule: "refused-spirv-version",
                    at: Some(size.at),
                    reason: why.to_owned(),
                    remedy,
                });
            }
        }
        let literals = values.iter().map(|v| v.value_as::<u32>().unwrap_or(1));
        let operands: Vec<Operand> = [entry.function.into(), ExecutionMode::LocalSize.into()]
            .into_iter()
            .chain(literals.map(Operand::Word))
            .collect();
        m.replace(size.at, Inst::new(Op::ExecutionMode, None, None, operands));
    }
    if let Some(ids) = specialized {
        built_in(m, &ids);
    }
    Ok(())
}

fn extents(size: &WorkgroupSize) -> Option<[Id; 3]> {
    match size.extents {
        [Extent::Constant(x), Extent::Constant(y), Extent::Constant(z)] => Some([x, y, z]),
        _ => None,
    }
}

fn same_type(m: &Module, ids: &[Id; 3]) -> bool {
    let types = ids.map(|id| m.type_of(id));
    types[0].is_some() && types.iter().all(|ty| *ty == types[0])
}

/// Declares the workgroup size as a constant.
fn built_in(m: &mut Module, ids: &[Id; 3]) {
    let Some(number) = m.type_of(ids[0]) else { return };
    let vector = Globals::new(m).vector(m, number, 3);
    let id = m.fresh_id();
    add_global(m, Inst::new(Op::SpecConstantComposite, Some(vector), Some(id), ids.map(Operand::Id)));
    decorate(m, id, Decoration::BuiltIn, &[BuiltIn::WorkgroupSize.0]);
}
