//! Declares an older version of SPIR-V, for devices that take no newer one.
//!
//! Effect: the version is the newest that the device takes. Extensions are declared of which capabilities became part of SPIR-V
//! since. What is only a hint, a promise or a note goes: loop controls, decorations ([`PROMISES`]), non-semantic
//! instructions. Interfaces of entry points and sizes of workgroups are said as before ([`entry`]), and newer instructions become
//! older ones ([`code`]).
//!
//! Refuses: versions before 1.3, and whatever else the older version lacks by the grammar.

mod code;
mod entry;

use crate::Refusal;
use crate::pipeline::Cx;
use crate::report::Software;
use coop_ir::builder::require_extension;
use coop_ir::decode::decode;
use coop_ir::extensions::extension_since;
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{remove_ext_insts, remove_globals, remove_unused_globals, sort_globals};
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::storage_of;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op};

/// The oldest version that modules are lowered to.
const OLDEST: (u8, u8) = (1, 3);

/// Decorations that a compiler may rely on and a module need not have.
const PROMISES: [Decoration; 5] = [
    Decoration::UniformId,
    Decoration::NoSignedWrap,
    Decoration::NoUnsignedWrap,
    Decoration::CounterBuffer,
    Decoration::UserSemantic,
];

/// The extension of non-semantic instructions, part of 1.6.
const NON_SEMANTIC: &str = "SPV_KHR_non_semantic_info";

/// The version that a module is to have, and the extensions that it declares.
struct Target {
    version: (u8, u8),
    declared: FxHashSet<String>,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let Some(version) = cx.lacks.older_than(m) else { return Ok(()) };
    let (major, minor) = version;
    if version < OLDEST {
        let (a, b) = m.header.version_pair();
        let reason = format!(
            "the device takes SPIR-V {major}.{minor}, and a module of {a}.{b} becomes one of 1.3 at the oldest"
        );
        let remedy = "compile for Vulkan 1.0".to_owned();
        return Err(Refusal { rule: "refused-spirv-version", at: None, reason, remedy });
    }
    let target = Target { version, declared: extensions(m, version) };
    if version < (1, 6) && !target.declared.contains(NON_SEMANTIC) {
        // Before 1.6 they need an extension, which the device may lack.
        remove_ext_insts(m, |set| set.starts_with("NonSemantic."));
    }
    decorations(m, &target);
    entry::run(m, version)?;
    code::run(m, &target)?;
    remove_unused_globals(m, 0);
    sort_globals(m);
    for r in m.all().collect::<Vec<_>>() {
        if let Some((what, since)) = target.newer(m, m.inst(r)) {
            return Err(refused(r, &what, since, version));
        }
    }
    m.header.version = u32::from_be_bytes([0, major, minor, 0]);
    cx.report.software.push(Software::Version { major, minor });
    Ok(())
}

/// A refusal of an instruction for something that an older version of SPIR-V lacks.
fn refused(at: InstRef, what: &str, since: (u8, u8), version: (u8, u8)) -> Refusal {
    let reason = format!(
        "{what} is part of SPIR-V {}.{}, and has no form in {}.{}, which the device takes",
        since.0, since.1, version.0, version.1
    );
    let remedy = format!("compile the module for SPIR-V {}.{}", version.0, version.1);
    Refusal { rule: "refused-spirv-version", at: Some(at), reason, remedy }
}

/// Declares the extensions of capabilities that became part of SPIR-V after a version. Returns all that are declared.
fn extensions(m: &mut Module, version: (u8, u8)) -> FxHashSet<String> {
    let name = |m: &Module, r: InstRef| m.inst(r).string(0).map(|(name, _)| name.to_string());
    let mut declared: FxHashSet<String> = m.globals_with(Op::Extension).filter_map(|r| name(m, r)).collect();
    let newer: Vec<Capability> = m.capabilities().filter(|c| Kind::Capability.since(c.0) > version).collect();
    for c in newer {
        let all = Kind::Capability.enumerant(c.0).map_or(&[][..], |e| e.extensions);
        if all.iter().any(|name| declared.contains(*name)) {
            continue;
        }
        if let Some(name) = all.iter().find(|name| name.starts_with("SPV_KHR_")).or(all.first()) {
            require_extension(m, name);
            declared.insert((*name).to_owned());
        }
    }
    declared
}

/// Removes the decorations that say no more than a promise, and those of what could not be decorated before.
fn decorations(m: &mut Module, target: &Target) {
    let own = |m: &Module, id: Id| {
        matches!(storage_of(m, id), Some(StorageClass::Function | StorageClass::Private)) && target.version < (1, 4)
    };
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        let Some((id, d)) = i.any_decoration() else { return false };
        let promise = PROMISES.contains(&d) && target.newer(m, i).is_some();
        promise || d == Decoration::NonWritable && own(m, id)
    });
}

impl Target {
    /// Returns the first part of an instruction that the version lacks and no declared extension adds, and its version.
    fn newer(&self, m: &Module, i: &Inst) -> Option<(String, (u8, u8))> {
        let lacks =
            |since: (u8, u8), by: &[&str]| since > self.version && !by.iter().any(|name| self.declared.contains(*name));
        let op_lacks = |op: Op| lacks(op.since(), op.info().map_or(&[][..], |info| info.extensions));
        if op_lacks(i.op) {
            return Some((i.op.to_string(), i.op.since()));
        }
        if let Some(op) = i.specialized_op().filter(|op| op_lacks(*op)) {
            return Some((format!("{} of {op}", i.op), op.since()));
        }
        if i.op == Op::Extension
            && let Some((name, _)) = i.string(0)
            && extension_since(&name) > self.version
        {
            return Some((name.to_string(), extension_since(&name)));
        }
        let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
        let mut found = None;
        decode(m, i.op, i.ty, &words, &mut |piece| {
            let Some(word) = words.get(piece.start).copied().filter(|_| piece.kind.enumerants().is_some()) else {
                return;
            };
            let bits = (0..u32::BITS).map(|b| 1 << b).filter(|b| word & b != 0);
            let values: Vec<u32> = if piece.kind.is_mask() { bits.collect() } else { vec![word] };
            for row in values.into_iter().filter_map(|v| piece.kind.enumerant(v)) {
                let since = piece.kind.since(row.value);
                if found.is_none() && lacks(since, row.extensions) {
                    found = Some((format!("{} {}", i.op, row.name), since));
                }
            }
        });
        found
    }
}
