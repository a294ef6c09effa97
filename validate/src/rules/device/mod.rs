//! Rules about a device: whether it can run the module.
//!
//! They apply only with a profile. Conditions on the default of a specialization constant are not checked: the defaults
//! in published modules are placeholders, and a device without 1x1 matrices says nothing about them. One note names the
//! SpecIds that would decide.

pub(crate) mod alignment;
pub(crate) mod feature;
pub(crate) mod matrix;
pub(crate) mod nv1;
pub(crate) mod pipeline;

use crate::cx::Cx;
use crate::declare_rule;
use crate::device::Device;
use crate::report::{Draft, Part, Sink};
use coop_device::Api;
use coop_ir::InstRef;
use coop_ir::constant::Const;
use coop_ir::entry::EntryPoint;
use coop_ir::spv::ExecutionModel;
use std::collections::BTreeSet;

declare_rule! {
    /// ## What it checks
    /// With a device: sizes, scopes and uses of matrices, and the workgroup size, are fixed.
    /// ## Why
    /// A condition on a specialization constant is checked only if its value is given by `--spec`; the defaults in
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

declare_rule! {
    /// ## What it checks
    /// With a device: that profiles can tell. They know compute shaders for Vulkan and kernels for OpenCL; shaders of other
    /// stages, shaders for OpenCL, capabilities and extensions that are in no table, and modules without entry points are
    /// not judged.
    /// ## Why
    /// A profile has the features and limits that compute modules with matrices need. Other features of the
    /// device are not known.
    /// ## Example
    /// A ray-generation shader.
    pub(crate) static NOT_JUDGED = {
        id: "device-not-judged",
        summary: "whether the device takes the module is not for a profile to say",
        level: Note,
        since: "0.2.0",
        spec: "Vulkan, Vulkan Environment for SPIR-V",
        vuids: [],
        digest: ["vk.cap-feature"],
    }
}

/// The conditions that were not decided, with the SpecIds that would decide them.
#[derive(Default)]
pub(crate) struct Open {
    first: Option<InstRef>,
    specs: BTreeSet<u32>,
    what: BTreeSet<&'static str>,
}

impl Open {
    /// Returns the value of a constant if it is fixed; otherwise records that `what` at `at` depends on it.
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

/// The state of a check for one device.
pub(crate) struct On<'a, 'm> {
    pub(crate) cx: &'a Cx<'m>,
    pub(crate) device: &'a Device,
    pub(crate) open: Open,
    /// The number of invocations of a workgroup, if it is fixed and the same for all entry points of the pipeline.
    pub(crate) invocations: Option<u64>,
}

/// Checks everything that depends on the device.
pub(crate) fn check(cx: &Cx, device: &Device, out: &mut Sink) {
    let mut on = On { cx, device, open: Open::default(), invocations: None };
    if !entry_points(&on, out) {
        return;
    }
    feature::check(&mut on, out);
    pipeline::check(&mut on, out);
    matrix::check(&mut on, out);
    if on.is_vulkan() {
        nv1::check(&mut on, out);
        alignment::check(&on, out);
    }
    undecided(&on, out);
}

impl On<'_, '_> {
    /// Returns the entry points of the pipeline.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &EntryPoint> {
        let meant = |e: &&EntryPoint| self.device.entry.as_ref().is_none_or(|name| *name == e.name);
        self.cx.entries().iter().filter(meant)
    }

    /// Returns true if the profile is for Vulkan.
    pub(crate) fn is_vulkan(&self) -> bool {
        self.device.profile.api == Api::Vulkan
    }
}

/// Reports entry points that the profile does not cover. Returns true if the rest of the module can be checked: a
/// shader's capabilities mean nothing to OpenCL, while Vulkan's verdict about them holds for any stage.
fn entry_points(on: &On, out: &mut Sink) -> bool {
    let name = on.device.name();
    let takes = if on.is_vulkan() { "compute shaders" } else { "kernels of OpenCL" };
    let mut judged = false;
    for entry in on.entries() {
        if on.device.profile.api.judges(entry.model) {
            judged = true;
            continue;
        }
        let model = entry.model.name().unwrap_or("unknown");
        judged |= on.is_vulkan();
        // The capabilities that a kernel needs are reported, since Vulkan does not have them; and the stages with
        // matrices are known.
        if on.is_vulkan() && entry.model == ExecutionModel::Kernel || pipeline::refuses_stage(on, entry) {
            continue;
        }
        out.report(&NOT_JUDGED, entry.at, || {
            Draft::new(format!("not judged for {name}: {} is {model}, and the profile is about {takes}", entry.name))
                .label(entry.at, Part::Operand(0), model)
        });
    }
    if let (None, Some(&first)) = (on.cx.entries().first(), on.cx.module.globals.first()) {
        out.report(&NOT_JUDGED, first, || {
            Draft::new(format!("not judged for {name}: the module has no entry point")).label(
                first,
                Part::Whole,
                "a module without entry points",
            )
        });
        return on.is_vulkan();
    }
    judged
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
