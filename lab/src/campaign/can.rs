//! Decides if a device can run a module, as far as the module shows it.
//!
//! Capabilities and extensions are checked when the module is run; a missing one is a reason as well.

use super::known;
use coop_device::{ComponentType, MatrixProperties, NvProperties, Profile};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::types::{CoopMatView, Scalar, coop_mat_of};
use coop_ir::{Id, Module, Op};

/// Returns the reason why the device does not run the matrices of a module natively, if there is one.
pub(super) fn why_not(module: &Module, spec: &Specialization, profile: &Profile, invocations: u32) -> Option<String> {
    let constants = Constants::new(module, spec);
    if let Some(why) = known::is_wrong(module, &constants, &profile.device) {
        return Some(why.to_owned());
    }
    if module.globals_with(Op::TypeCooperativeMatrixNV).next().is_some() {
        return why_not_nv1(module, &constants, profile);
    }
    let rows = rows(profile, invocations);
    let types = module.globals_with(Op::TypeCooperativeMatrixKHR);
    for r in types {
        let view = module.inst(r).result.and_then(|id| coop_ir::types::coop_mat(module, id))?.view(module, &constants);
        if !rows.iter().any(|row| row.has(&view)) {
            return Some("the device has no such matrix type".into());
        }
    }
    for r in module.functions.iter().flat_map(|f| f.insts()) {
        let inst = module.inst(r);
        if inst.op != Op::CooperativeMatrixMulAddKHR {
            continue;
        }
        let mut ids = inst.ids().take(3).chain(inst.result);
        let views: Vec<CoopMatView> =
            ids.by_ref().filter_map(|id| Some(coop_mat_of(module, id)?.view(module, &constants))).collect();
        let [a, b, c, d] = views.as_slice() else { return None };
        let saturating = inst.word(3).unwrap_or(0) & 0x10 != 0;
        if !rows.iter().any(|row| row.multiplies([a, b, c, d], saturating)) {
            return Some("the device has no such multiplication".into());
        }
    }
    None
}

/// Like [`why_not`], for matrices of SPV_NV_cooperative_matrix.
fn why_not_nv1(module: &Module, constants: &Constants, profile: &Profile) -> Option<String> {
    let list = &profile.nv_properties;
    let size = |id: Option<Id>| constants.get(id?).value();
    let matrix = |ty: Id| {
        let i = module.def_inst(ty).filter(|i| i.op == Op::TypeCooperativeMatrixNV)?;
        let of = component(coop_ir::types::scalar(module, i.id(0)?))?;
        Some((of, size(i.id(2))?, size(i.id(3))?))
    };
    let parts = |p: &NvProperties| {
        let [m, n, k] = [p.m, p.n, p.k].map(u64::from);
        [(p.a, m, k), (p.b, k, n), (p.c, m, n), (p.d, m, n)]
    };
    for r in module.globals_with(Op::TypeCooperativeMatrixNV) {
        let found = module.inst(r).result.and_then(matrix);
        if !list.iter().any(|p| parts(p).iter().any(|part| Some(*part) == found)) {
            return Some("the device has no such matrix type".into());
        }
    }
    for r in module.functions.iter().flat_map(|f| f.insts()) {
        let inst = module.inst(r);
        if inst.op != Op::CooperativeMatrixMulAddNV {
            continue;
        }
        let types: Vec<_> =
            inst.ids().take(3).chain(inst.result).map(|id| module.type_of(id).and_then(matrix)).collect();
        if !list.iter().any(|p| parts(p).map(Some)[..] == types[..]) {
            return Some("the device has no such multiplication".into());
        }
    }
    None
}

/// A line of a device's lists.
struct Row {
    p: MatrixProperties,
    flexible: bool,
    most: u64,
}

fn rows(profile: &Profile, invocations: u32) -> Vec<Row> {
    let exact = profile.khr_properties.iter().map(|p| Row { p: *p, flexible: false, most: 0 });
    let most = u64::from(profile.limits.cooperative_matrix_flexible_dimensions_max_dimension);
    let flexible = profile.flexible_properties.iter().filter(|f| {
        let workgroup = f.granularity.scope.number() == 2;
        !workgroup || f.workgroup_invocations == invocations
    });
    exact.chain(flexible.map(|f| Row { p: f.granularity, flexible: true, most })).collect()
}

fn component(scalar: Option<Scalar>) -> Option<ComponentType> {
    use ComponentType::*;
    Some(match scalar? {
        Scalar::BF16 => Bf16,
        Scalar::E4M3 => E4m3,
        Scalar::E5M2 => E5m2,
        Scalar::Float { width: 16 } => F16,
        Scalar::Float { width: 32 } => F32,
        Scalar::Float { width: 64 } => F64,
        Scalar::Int { width: 8, signed: true } => S8,
        Scalar::Int { width: 8, .. } => U8,
        Scalar::Int { width: 16, signed: true } => S16,
        Scalar::Int { width: 16, .. } => U16,
        Scalar::Int { width: 32, signed: true } => S32,
        Scalar::Int { width: 32, .. } => U32,
        Scalar::Int { width: 64, signed: true } => S64,
        Scalar::Int { width: 64, .. } => U64,
        _ => return None,
    })
}

impl Row {
    fn fits(&self, extent: Option<u64>, of: u32) -> bool {
        let Some(extent) = extent else { return false };
        let of = u64::from(of);
        if self.flexible { of > 0 && extent.is_multiple_of(of) && extent <= self.most } else { extent == of }
    }

    fn is(&self, view: &CoopMatView, use_: u64) -> bool {
        let p = &self.p;
        let (rows, cols) = match use_ {
            0 => (p.m, p.k),
            1 => (p.k, p.n),
            _ => (p.m, p.n),
        };
        view.scope.value() == Some(p.scope.number().into())
            && self.fits(view.rows.value(), rows)
            && self.fits(view.cols.value(), cols)
    }

    /// Returns true if some operand or the result of this line has the type.
    fn has(&self, view: &CoopMatView) -> bool {
        let (Some(use_), Some(component)) = (view.use_.value(), component(view.component)) else { return false };
        let types: &[ComponentType] = match use_ {
            0 => &[self.p.a],
            1 => &[self.p.b],
            _ => &[self.p.c, self.p.result],
        };
        types.contains(&component) && self.is(view, use_)
    }

    fn multiplies(&self, views: [&CoopMatView; 4], saturating: bool) -> bool {
        let wanted = [self.p.a, self.p.b, self.p.c, self.p.result];
        self.p.saturating == saturating
            && (0..4).all(|i| component(views[i].component) == Some(wanted[i]) && self.is(views[i], (i as u64).min(2)))
    }
}
