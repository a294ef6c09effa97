//! Shared memory with an explicit layout, where the device takes none.
//!
//! All blocks of such memory begin at its byte 0, and overlap. They become one variable, an array of words without a layout, which is
//! as long as the longest of them.

use super::Buffer;
use super::layout::Layout;
use crate::Lacks;
use crate::lacks::SHARED_LAYOUT;
use crate::pipeline::without_capability;
use coop_ir::entry::entry_points;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{remove_extension, remove_globals};
use coop_ir::spv::Decoration;
use coop_ir::{Id, Module, Operand};

/// The extension of such layouts.
const EXTENSION: &str = "SPV_KHR_workgroup_memory_explicit_layout";

/// Decorations of a block that do not hold for the variable that stands for all of them.
pub(super) const ALONE: [Decoration; 4] =
    [Decoration::Aliased, Decoration::Restrict, Decoration::NonWritable, Decoration::NonReadable];

/// Chooses the variable that stands for all blocks, if there are some, and makes it as long as the longest.
pub(super) fn unite(buffers: &mut FxHashMap<Id, Buffer>) -> Option<Id> {
    let all = || buffers.iter().filter(|(_, buffer)| buffer.plain && !buffer.own);
    let (id, len) = (all().map(|(id, _)| *id).min()?, all().filter_map(|(_, buffer)| buffer.len).max());
    buffers.get_mut(&id)?.len = len;
    Some(id)
}

/// Removes the capabilities of explicit layouts, and the extension.
pub(super) fn remove_capabilities(m: &mut Module, lacks: Lacks) {
    // Those that imply others first.
    SHARED_LAYOUT.iter().rev().for_each(|c| without_capability(m, *c, lacks));
    remove_extension(m, EXTENSION);
}

/// Removes the blocks that another variable stands for, from the interfaces of entry points too.
pub(super) fn leave_one(m: &mut Module, layout: &Layout, buffers: &FxHashMap<Id, Buffer>, shared: Option<Id>) {
    let Some(shared) = shared else { return };
    let is_gone = |id: Id| id != shared && buffers.get(&id).is_some_and(|buffer| buffer.plain && !buffer.own);
    for entry in entry_points(m, &layout.decorations) {
        let mut kept: Vec<Id> = Vec::new();
        for id in &entry.interface {
            let id = if is_gone(*id) { shared } else { *id };
            if !kept.contains(&id) {
                kept.push(id);
            }
        }
        let operands = &mut m.inst_mut(entry.at).operands;
        operands.truncate(operands.len() - entry.interface.len());
        operands.extend(kept.into_iter().map(Operand::Id));
    }
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.note_target().or(i.result).is_some_and(is_gone)
    });
}
