//! Declares an older version of SPIR-V, for devices that take no newer one.
//!
//! Effect: the version is the newest that the device takes, and extensions are declared of which capabilities became part of
//! SPIR-V since. Versions before 1.4 have other interfaces: modules are left as they are for devices that take no more.

use crate::Refusal;
use crate::pipeline::Cx;
use crate::report::Software;
use coop_ir::builder::require_extension;
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::Capability;
use coop_ir::{Kind, Module, Op};

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let Some((major, minor)) = cx.lacks.older_than(m) else { return Ok(()) };
    m.header.version = u32::from_be_bytes([0, major, minor, 0]);
    let declared = m.globals_with(Op::Extension).filter_map(|r| m.inst(r).string(0));
    let declared: Vec<String> = declared.map(|(name, _)| name.to_string()).collect();
    let of = |c: Capability| Kind::Capability.enumerant(c.0).map_or(&[][..], |e| e.extensions);
    let is_open = |all: &&[&str]| !all.iter().any(|name| declared.iter().any(|d| d == name));
    let open: Vec<&[&str]> = m.capabilities().map(of).filter(is_open).collect();
    for all in open {
        let khr = all.iter().find(|name| name.starts_with("SPV_KHR_")).or(all.first());
        khr.into_iter().for_each(|name| require_extension(m, name));
    }
    sort_globals(m);
    cx.report.software.push(Software::Version { major, minor });
    Ok(())
}
