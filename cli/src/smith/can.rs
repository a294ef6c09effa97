//! What a device can run, as far as a module shows it; and what drivers are known to get wrong.
//!
//! Capabilities and extensions are looked at when the module is run: what is missing then is a reason as well.

use coop_ir::constant::{Constants, Specialization};
use coop_ir::profile::{ComponentType, MatrixProperties, NvProperties, Profile};
use coop_ir::types::{CoopMatView, Scalar, coop_mat_of};
use coop_ir::{Id, Module, Op};

/// What a driver is known to get wrong: a part of its name, whether a module has it, and what it is.
type Known = (&'static str, fn(&Module, &Constants) -> bool, &'static str);

/// `docs/drivers.md` has the evidence.
const KNOWN: &[Known] = &[
    ("llvmpipe", has_wide_stride, "known: a Stride of 64 bits ends llvmpipe's compiler"),
    ("llvmpipe", has_wide_memory, "known: bytes loaded from 32-byte vectors end llvmpipe's compiler"),
    ("llvmpipe", c_lives_on, "known: llvmpipe sums products of several tiles up in C itself"),
    (
        "llvmpipe",
        |m, c| has_tiles(m, c) && calls(m),
        "known: llvmpipe has no functions beside matrices of several tiles",
    ),
    (
        "llvmpipe",
        |m, c| has_tiles(m, c) && points_into(m),
        "known: llvmpipe has no arrays of matrices of several tiles",
    ),
];

/// Whether C is used again after a multiplication over several tiles.
fn c_lives_on(m: &Module, constants: &Constants) -> bool {
    let insts = || m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r));
    let products = insts().filter(|i| i.op == Op::CooperativeMatrixMulAddKHR);
    let long = products.filter(|i| {
        let a = i.id(0).and_then(|a| coop_mat_of(m, a));
        a.is_some_and(|a| a.view(m, constants).cols.value() != Some(8))
    });
    long.filter_map(|i| i.id(2))
        .any(|c| insts().flat_map(|i| i.ids().collect::<Vec<_>>()).filter(|id| *id == c).count() > 1)
}

/// Whether there is a matrix type that is larger than one tile of llvmpipe's.
fn has_tiles(m: &Module, constants: &Constants) -> bool {
    let types =
        m.globals_with(Op::TypeCooperativeMatrixKHR).filter_map(|r| coop_ir::types::coop_mat(m, m.inst(r).result?));
    types.map(|t| t.view(m, constants)).any(|v| v.rows.value() != Some(8) || v.cols.value() != Some(8))
}

fn calls(m: &Module) -> bool {
    let ops = [Op::CooperativeMatrixReduceNV, Op::CooperativeMatrixPerElementOpNV, Op::FunctionCall];
    m.functions.iter().flat_map(|f| f.insts()).any(|r| ops.contains(&m.inst(r).op))
}

/// Whether a chain leads to a matrix.
fn points_into(m: &Module) -> bool {
    let chains = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| i.op == Op::AccessChain);
    chains.filter_map(|i| m.def_inst(i.ty?)?.id(1)).any(|pointee| coop_ir::types::coop_mat(m, pointee).is_some())
}

/// Whether a matrix is loaded from memory whose elements are more than 16 of its components. Stores are no trouble.
fn has_wide_memory(m: &Module, _: &Constants) -> bool {
    let insts = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r));
    insts.filter(|i| i.op == Op::CooperativeMatrixLoadKHR).any(|i| {
        let component = i.ty.and_then(|ty| coop_ir::types::coop_mat(m, ty)).map(|ty| ty.component);
        let pointee = i.id(0).and_then(|pointer| m.def_inst(m.type_of(pointer)?)?.id(1));
        let bytes = |ty: Option<Id>| ty.and_then(|ty| coop_ir::types::packed_bytes(m, ty));
        bytes(pointee).zip(bytes(component)).is_some_and(|(all, one)| all > 16 * one)
    })
}

fn has_wide_stride(m: &Module, _: &Constants) -> bool {
    let strides = m.functions.iter().flat_map(|f| f.insts()).filter_map(|r| {
        let i = m.inst(r);
        match i.op {
            Op::CooperativeMatrixLoadKHR => i.id(2),
            Op::CooperativeMatrixStoreKHR => i.id(3),
            _ => None,
        }
    });
    let width = |id: Id| coop_ir::types::scalar(m, m.type_of(id)?).map(Scalar::width);
    strides.filter_map(width).any(|w| w > 32)
}

/// Why the device does not run a module natively, if its matrices are the reason.
pub(super) fn why_not(module: &Module, spec: &Specialization, profile: &Profile, invocations: u32) -> Option<String> {
    let constants = Constants::new(module, spec);
    if let Some(known) = KNOWN.iter().find(|k| profile.device.contains(k.0) && (k.1)(module, &constants)) {
        return Some(known.2.to_owned());
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

/// The same for matrices of SPV_NV_cooperative_matrix.
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

    /// Whether some operand or the result of this line has the type.
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
