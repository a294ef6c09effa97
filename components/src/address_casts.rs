//! Casts of device addresses to pointers of another type, by way of their words.
//!
//! SwiftShader ends at an `OpBitcast` from one type of such pointers to another (docs/drivers.md), and takes casts to vectors of two words
//! and from them.

use crate::Refusal;
use crate::emit::rebuild;
use crate::pipeline::Cx;
use coop_ir::builder::{Globals, require_extension};
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::StorageClass;
use coop_ir::types::storage_of;
use coop_ir::{Inst, Module, Op};

/// The extension with casts between addresses and pairs of words, part of SPIR-V 1.5.
const EXTENSION: &str = "SPV_KHR_physical_storage_buffer";

/// Declares what has casts between addresses and pairs of words.
pub(crate) fn require(m: &mut Module) {
    if m.header.version_pair() < (1, 5) {
        require_extension(m, EXTENSION);
    }
}

/// Returns true if a module has such casts.
pub(crate) fn has_any(m: &Module) -> bool {
    let mut any = false;
    m.in_blocks(|_, i| any |= is_cast(m, i));
    any
}

fn is_cast(m: &Module, i: &Inst) -> bool {
    let far = |id| storage_of(m, id) == Some(StorageClass::PhysicalStorageBuffer);
    i.op == Op::Bitcast && i.result.is_some_and(far) && i.ids().next().is_some_and(far)
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    if !cx.lacks.address_casts() || !has_any(m) {
        return Ok(());
    }
    require(m);
    let mut g = Globals::new(m);
    let uint = g.uint(m, 32);
    let pair = g.vector(m, uint, 2);
    rebuild(m, &mut g, &mut |b, r| {
        let i = b.module.inst(r).clone();
        if is_cast(b.module, &i)
            && let Some(pointer) = i.ids().next()
        {
            let words = b.ids(Op::Bitcast, pair, &[pointer]);
            b.module.inst_mut(r).operands[0] = words.into();
        }
        b.keep(r);
        Ok(())
    })?;
    sort_globals(m);
    Ok(())
}
