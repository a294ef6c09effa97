//! The alignment of pointers and strides: a warning unless it is proved.

use super::On;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::access::{COLUMN_MAJOR, Pointer, ROW_MAJOR};
use crate::rules::address::{low, offset};
use coop_ir::spv::StorageClass;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// With a device: it can be proved that Pointer and Stride of loads and stores are aligned as Vulkan wants it (16
    /// bytes, or the bytes of one row or column where that is less; 16 bytes for tensors), through access chains and
    /// arithmetic on indices. Buffers and shared variables are taken to be aligned themselves.
    /// ## Why
    /// Drivers may choose wide loads by this rule; otherwise the behavior is undefined. NVIDIA's driver handles tensor loads and
    /// stores at any multiple of a component as intended, lavapipe plain ones, scalar code all.
    /// ## Example
    /// A stride from push constants.
    pub(crate) static UNPROVEN = {
        id: "device-alignment-unproven",
        summary: "an alignment that can't be proved",
        level: Note,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986",
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadNV-06324"
        ],
        digest: ["khr.ls-align", "vk.ls-align", "vk.nv1-align", "nv2.lt-base-align16"],
    }
}

pub(super) fn check(on: &On, out: &mut Sink) {
    if !out.wants(&UNPROVEN) {
        return;
    }
    for &at in &on.cx.body {
        let inst = on.cx.inst(at);
        match inst.op {
            Op::CooperativeMatrixLoadKHR => plain(on, at, inst.ty, (1, 2, 3), out),
            Op::CooperativeMatrixStoreKHR => plain(on, at, object_type(on, at), (2, 3, 4), out),
            // The numbers of Column Major are those of the layouts.
            Op::CooperativeMatrixLoadNV => plain(on, at, inst.ty, (2, 1, 3), out),
            Op::CooperativeMatrixStoreNV => plain(on, at, object_type(on, at), (3, 2, 4), out),
            Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV => {
                if let Some(what) = pointer(on, at, 16, 3) {
                    say(on, at, &[what], 16, out);
                }
            }
            _ => {}
        }
    }
}

/// Returns the reason for which the alignment of Pointer is not proved.
fn pointer(on: &On, at: InstRef, need: u64, memory_operand: usize) -> Option<String> {
    let inst = on.cx.inst(at);
    let p = Pointer::of(on.cx, inst.accessed()?);
    let aligned =
        MemoryOperands::at(inst, memory_operand).aligned.is_some_and(|(n, _)| u64::from(n).is_multiple_of(need));
    if p.storage == Some(StorageClass::PhysicalStorageBuffer) && aligned {
        return None;
    }
    match offset(on.cx, p.id).and_then(|low| low.is_multiple_of(need)) {
        Some(_) => None,
        None => Some("Pointer".into()),
    }
}

/// Returns the type of the stored object.
fn object_type(on: &On, at: InstRef) -> Option<Id> {
    on.cx.module.type_of(on.cx.inst(at).stored()?)
}

/// Checks a load or store with a stride: the operands for layout, stride and memory operands.
fn plain(on: &On, at: InstRef, ty: Option<Id>, (layout, stride, memory): (usize, usize, usize), out: &mut Sink) {
    let cx = on.cx;
    let inst = cx.inst(at);
    let Some(matrix) = ty.and_then(|t| cx.matrix_type(t)) else { return };
    let (Some(component), Some(layout)) = (matrix.component(), inst.id(layout)) else { return };
    let per_line = match cx.constant(layout).fixed() {
        Some(ROW_MAJOR) => matrix.cols().1.fixed(),
        Some(COLUMN_MAJOR) => matrix.rows().1.fixed(),
        _ => return,
    };
    // If the length of lines is not fixed, the strictest alignment is required.
    let need = per_line.and_then(|n| n.checked_mul(component.bytes().into())).map_or(16, |bytes| bytes.min(16));
    if !need.is_power_of_two() {
        return;
    }
    let mut what: Vec<String> = pointer(on, at, need, memory).into_iter().collect();
    let unit = inst.accessed().and_then(|p| Pointer::of(cx, p).unit(cx)).map(|(_, bytes)| bytes);
    if let (Some(stride), Some(unit)) = (inst.id(stride), unit) {
        let proved = unit.is_multiple_of(need)
            || unit.is_power_of_two() && low(cx, stride).is_multiple_of((need / unit).max(1)).is_some();
        if !proved {
            what.push("Stride".into());
        }
    }
    if !what.is_empty() {
        say(on, at, &what, need, out);
    }
}

fn say(on: &On, at: InstRef, what: &[String], need: u64, out: &mut Sink) {
    let are = if what.len() > 1 { "are multiples" } else { "is a multiple" };
    let what = what.join(" and ");
    out.report(&UNPROVEN, at, || {
        Draft::new(format!("that {what} {are} of {need} bytes can't be proved"))
            .label(at, Part::Operand(0), format!("{what}: aligned to {need} bytes?"))
            .label_opt(on.cx.inst(at).accessed().and_then(|p| on.cx.def(p)), Part::Whole, "the address is made here")
            .help("make sure of it where the values come from; `coopcheck --run` looks at those of a case")
    });
}
