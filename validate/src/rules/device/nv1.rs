//! Checks matrices of SPV_NV_cooperative_matrix against the device's list for it.

use super::On;
use crate::declare_rule;
use crate::matrix::NvMatrix;
use crate::report::{Draft, Part, Sink};
use coop_device::{ComponentType, Feature, NvProperties, Scope};
use coop_ir::types::Scalar;
use coop_ir::{InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// With a device: the size and component type of each matrix of SPV_NV_cooperative_matrix are in its list, in some
    /// role.
    /// ## Why
    /// Devices have matrices of few sizes.
    /// ## Example
    /// A f16 4x4 matrix.
    pub(crate) static NV1_TYPE = {
        id: "device-nv1-type",
        summary: "the device has no matrices of this type and size (SPV_NV_cooperative_matrix)",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-OpTypeCooperativeMatrixNV-06316"],
        digest: ["vk.nv1-type", "nv1.signedness"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: one row of its list matches A, B, C and D of a multiply-add of SPV_NV_cooperative_matrix, the
    /// scope, and the signedness of integers as their types declare it.
    /// ## Why
    /// There are no operands that would say how integers are read; the types do.
    /// ## Example
    /// u8 times s8.
    pub(crate) static NV1_MULADD = {
        id: "device-nv1-muladd",
        summary: "the device has no such multiply-add (SPV_NV_cooperative_matrix)",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-OpTypeCooperativeMatrixMulAddNV-10059"],
        digest: ["vk.nv1-muladd", "nv1.signedness"],
    }
}

/// A matrix of which everything is fixed.
#[derive(Clone, Copy)]
struct Fixed {
    component: Scalar,
    scope: Scope,
    rows: u64,
    cols: u64,
}

fn fixed(on: &mut On, m: &NvMatrix, what: &'static str, at: InstRef) -> Option<Fixed> {
    let [scope, rows, cols] = [m.scope, m.rows, m.cols].map(|id| on.open.value(&on.cx.constant(id), what, at));
    let scope = Scope::from_number(u32::try_from(scope?).ok()?);
    Some(Fixed { component: m.component?, scope, rows: rows?, cols: cols? })
}

/// Here the declared sign matters.
fn same_type(declared: Scalar, listed: ComponentType) -> bool {
    match declared {
        Scalar::Int { width, signed } => {
            listed.bits() == Some(width)
                && if signed { listed.is_signed_integer() } else { listed.is_unsigned_integer() }
        }
        Scalar::Float { width: 16 } => listed == ComponentType::F16,
        Scalar::Float { width: 32 } => listed == ComponentType::F32,
        Scalar::Float { width: 64 } => listed == ComponentType::F64,
        _ => false,
    }
}

pub(super) fn check(on: &mut On, out: &mut Sink) {
    if !on.cx.has_nv1() || !on.device.profile.has(Feature::CooperativeMatrixNv) {
        return;
    }
    let mut refused = Vec::new();
    for m in on.cx.nv_matrices() {
        let Some(at) = on.cx.def(m.id) else { continue };
        let Some(f) = fixed(on, m, "matrix types", at) else { continue };
        let fits = |r: &NvProperties| {
            let is = |t, rows: u32, cols: u32| {
                same_type(f.component, t) && f.rows == u64::from(rows) && f.cols == u64::from(cols)
            };
            r.scope == f.scope && (is(r.a, r.m, r.k) || is(r.b, r.k, r.n) || is(r.c, r.m, r.n) || is(r.d, r.m, r.n))
        };
        if on.device.profile.nv_properties.iter().any(fits) {
            continue;
        }
        refused.push(m.id);
        out.report(&NV1_TYPE, at, || {
            Draft::new(format!("{} has no {m}; it has {}", on.device.name(), sizes(on)))
                .label(at, Part::Whole, format!("{m}"))
                .help("choose a size that the device has")
        });
    }
    for &at in &on.cx.body {
        if on.cx.inst(at).op == Op::CooperativeMatrixMulAddNV {
            muladd(on, at, &refused, out);
        }
    }
}

fn sizes(on: &On) -> String {
    let mut list: Vec<String> = Vec::new();
    for r in &on.device.profile.nv_properties {
        let s = format!("{}x{}x{}", r.m, r.n, r.k);
        if !list.contains(&s) {
            list.push(s);
        }
    }
    if list.is_empty() { "none at all".into() } else { list.join(", ") }
}

fn muladd(on: &mut On, at: InstRef, refused: &[coop_ir::Id], out: &mut Sink) {
    let cx = on.cx;
    let inst = cx.inst(at);
    let value = |i: usize| inst.id(i).and_then(|v| cx.nv_matrix(cx.module.type_of(v)?));
    let (Some(a), Some(b), Some(c)) = (value(0), value(1), value(2)) else { return };
    let Some(d) = inst.ty.and_then(|t| cx.nv_matrix(t)) else { return };
    if [a, b, c, d].iter().any(|m| refused.contains(&m.id)) {
        return;
    }
    let views = [a, b, c, d].map(|m| fixed(on, m, "multiply-adds", at));
    let [Some(fa), Some(fb), Some(fc), Some(fd)] = views else { return };
    let fits = |r: &NvProperties| {
        r.scope == fa.scope
            && (fa.rows, fb.cols, fa.cols) == (r.m.into(), r.n.into(), r.k.into())
            && same_type(fa.component, r.a)
            && same_type(fb.component, r.b)
            && same_type(fc.component, r.c)
            && same_type(fd.component, r.d)
    };
    if on.device.profile.nv_properties.iter().any(fits) {
        return;
    }
    out.report(&NV1_MULADD, at, || {
        let what = format!("{} times {} plus {} into {}", fa.component, fb.component, fc.component, fd.component);
        let (m, n, k) = (fa.rows, fb.cols, fa.cols);
        Draft::new(format!("{} has no {m}x{n}x{k} multiply-add of {what}; it has {}", on.device.name(), sizes(on)))
            .label(at, Part::Whole, format!("{m}x{n}x{k}"))
    });
}
