//! Rules about a device: whether it takes the module.
//!
//! They apply only where a profile is given. What rests on the default of a specialization constant is not judged: the
//! defaults in published modules are placeholders, and a device that has no 1x1 matrices says nothing about them. One
//! note names the SpecIds that would decide.

pub(crate) mod alignment;
pub(crate) mod feature;
pub(crate) mod matrix;
pub(crate) mod nv1;
pub(crate) mod pipeline;

use crate::cx::Cx;
use crate::declare_rule;
use crate::device::Device;
use crate::report::{Draft, Part, Sink};
use coop_ir::InstRef;
use coop_ir::constant::Const;
use std::collections::BTreeSet;

declare_rule! {
    /// ## What it checks
    /// With a device: sizes, scopes and uses of matrices, and the workgroup size, are fixed.
    /// ## Why
    /// What rests on a specialization constant is judged only when its value is given by `--spec`; the defaults in
    /// published modules are placeholders.
    /// ## Example
    /// A matrix of TM x TK with `TM` and `TK` specialization constants, and no `--spec` for them.
    pub(crate) static UNDECIDED = {
        id: "device-undecided",
        summary: "whether the device takes the module depends on specialization constants",
        level: Note,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [],
        digest: ["vk.type-match", "vk.muladd-match"],
    }
}

/// What was left open, and what would decide it.
#[derive(Default)]
pub(crate) struct Open {
    first: Option<InstRef>,
    specs: BTreeSet<u32>,
    what: BTreeSet<&'static str>,
}

impl Open {
    /// The value of a constant if it is fixed; else notes that `what` at `at` rests on it.
    fn value(&mut self, constant: &Const, what: &'static str, at: InstRef) -> Option<u64> {
        if let Const::Fixed(v) = constant {
            return Some(*v);
        }
        if let Const::Default { specs, .. } = constant {
            self.specs.extend(specs.iter());
        }
        self.what.insert(what);
        if self.first.is_none_or(|f| at.index() < f.index()) {
            self.first = Some(at);
        }
        None
    }
}

/// A check for one device.
pub(crate) struct On<'a, 'm> {
    pub(crate) cx: &'a Cx<'m>,
    pub(crate) device: &'a Device,
    pub(crate) open: Open,
    /// The invocations of a workgroup, where all entry points that are meant agree and it is fixed.
    pub(crate) invocations: Option<u64>,
}

/// Everything that a device has a say in.
pub(crate) fn check(cx: &Cx, device: &Device, out: &mut Sink) {
    let mut on = On { cx, device, open: Open::default(), invocations: None };
    feature::check(&mut on, out);
    pipeline::check(&mut on, out);
    matrix::check(&mut on, out);
    nv1::check(&mut on, out);
    alignment::check(&on, out);
    undecided(&on, out);
}

fn undecided(on: &On, out: &mut Sink) {
    let Some(at) = on.open.first else { return };
    let what: Vec<&str> = on.open.what.iter().copied().collect();
    out.report(&UNDECIDED, at, || {
        let what = what.join(", ");
        let draft = if on.open.specs.is_empty() {
            Draft::new(format!("not judged for {}, because values are not known: {what}", on.device.name()))
        } else {
            let ids: Vec<String> = on.open.specs.iter().take(12).map(u32::to_string).collect();
            let more = if on.open.specs.len() > 12 { " and more" } else { "" };
            let give: Vec<String> = on.open.specs.iter().take(3).map(|id| format!("--spec {id}=...")).collect();
            Draft::new(format!(
                "not judged for {}, because it depends on SpecIds {}{more}: {what}",
                on.device.name(),
                ids.join(", ")
            ))
            .help(format!("pass the values that are shipped: `{}`, or --spec-file", give.join(" ")))
        };
        draft.label(at, Part::Whole, "the first that is left open")
    });
}
