//! Checks types and multiply-adds against the lists of the device.
//!
//! A row of the KHR list stands for exactly its size. Rows of the flexible list (NV2) stand for multiples, if the
//! device has the feature; rows of the later query (maintenance1) do so with the feature, too, and otherwise for
//! exactly their size. A type must be in some row in its role, a multiply-add in one row as a whole.

use super::On;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_device::{ComponentType, Feature, MatrixProperties, Scope};
use coop_ir::constant::Const;
use coop_ir::spv::CooperativeMatrixOperands as Mask;
use coop_ir::types::{CoopMatView, Scalar, scope_name, use_name};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// With a device: each matrix type is in one of its lists in the role that its use says: A is M x K of AType, B is
    /// K x N of BType, an accumulator M x N of CType or ResultType. With flexible dimensions multiples of a
    /// granularity count, at scope Workgroup those for the number of invocations.
    /// ## Why
    /// Devices have matrices of few sizes, and drivers refuse or crash on others.
    /// ## Example
    /// A f16 4x4 matrix on a device with 16x16x16.
    pub(crate) static TYPE = {
        id: "device-type",
        summary: "the device has no matrices of this type and size",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10163",
            "VUID-RuntimeSpirv-cooperativeMatrixFlexibleDimensions-10165",
            "VUID-RuntimeSpirv-cooperativeMatrixProperties2-13382"
        ],
        digest: ["vk.type-match", "vk.flex-type", "vk.props2-type", "vk.props2-subgroup-query", "qcom.sizes-supported"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: one row of its lists matches A, B, C, the result, the scope, each SignedComponents bit (set exactly
    /// if the row's type is signed) and saturation.
    /// ## Why
    /// That each matrix is in some row is not enough: they must be multiplied in one.
    /// ## Example
    /// f16 times f16 into f16, on a device that has f16 times f16 into f32 only.
    pub(crate) static MULADD = {
        id: "device-muladd",
        summary: "the device has no such multiply-add",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpCooperativeMatrixMulAddKHR-10060",
            "VUID-RuntimeSpirv-cooperativeMatrixFlexibleDimensions-10166",
            "VUID-RuntimeSpirv-cooperativeMatrixProperties2-13383"
        ],
        digest: ["vk.muladd-match", "vk.flex-muladd", "vk.props2-muladd"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: matrices of scope Workgroup need its feature cooperativeMatrixWorkgroupScope.
    /// ## Why
    /// Without it matrices belong to subgroups.
    /// ## Example
    /// A matrix of scope Workgroup on lavapipe.
    pub(crate) static WORKGROUP_SCOPE = {
        id: "device-scope-workgroup",
        summary: "the device has no matrices of scope Workgroup",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-cooperativeMatrixWorkgroupScope-10164"],
        digest: ["vk.wg-scope-feature"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device that has VK_NV_cooperative_matrix2: rows and columns are not more than
    /// cooperativeMatrixFlexibleDimensionsMaxDimension.
    /// ## Why
    /// Larger matrices must be cut into tiles.
    /// ## Example
    /// A matrix of 2048x16 on a device with up to 1024.
    pub(crate) static DIMENSION = {
        id: "device-dimension",
        summary: "a matrix is larger than the device's largest",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-cooperativeMatrixFlexibleDimensionsMaxDimension-10167"],
        digest: ["vk.flex-max-dim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: an integer component type is declared with the signedness that the device's list has.
    /// ## Why
    /// The specification allows either, since the bits of the multiply-add decide. The Khronos validation layer compares the
    /// declared signedness and complains.
    /// ## Example
    /// A matrix of u32 accumulators on a device that lists s32 only.
    pub(crate) static SIGNEDNESS = {
        id: "device-component-signedness",
        summary: "the device lists the component type with the other sign only",
        level: Note,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation; Khronos validation layer of 2026-08",
        vuids: [],
        digest: ["vk.type-match"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: matrices whose rows or columns are spread over lanes by SPV_QCOM_cooperative_matrix_conversion have
    /// no more of them than a subgroup has invocations.
    /// ## Why
    /// Lane i gives or gets row (or column) i.
    /// ## Example
    /// A matrix A of 128 rows on a device with subgroups of 64.
    pub(crate) static LANES = {
        id: "device-qcom-lanes",
        summary: "a matrix has more rows or columns than a subgroup has lanes",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion",
        vuids: ["VUID-RuntimeSpirv-NSize-12352", "VUID-RuntimeSpirv-KSize-12353"],
        digest: ["qcom.sizes-supported", "qcom.subgroup-pow2", "qcom.subarray-sizes"],
    }
}

/// A row, and true if it stands for multiples.
#[derive(Clone, Copy)]
struct Row {
    size: MatrixProperties,
    multiples: bool,
}

impl Row {
    fn fits(&self, n: u64, of: u32) -> bool {
        if self.multiples { of > 0 && n > 0 && n.is_multiple_of(u64::from(of)) } else { n == u64::from(of) }
    }

    /// Returns `16x16x16`, or `multiples of 16x16x16`.
    fn describe(&self) -> String {
        let MatrixProperties { m, n, k, .. } = self.size;
        if self.multiples { format!("multiples of {m}x{n}x{k}") } else { format!("{m}x{n}x{k}") }
    }
}

/// A matrix with everything fixed.
#[derive(Clone, Copy)]
struct Fixed {
    component: Scalar,
    scope: Scope,
    rows: u64,
    cols: u64,
    use_: u64,
}

impl On<'_, '_> {
    fn fixed(&mut self, m: &CoopMatView, what: &'static str, at: InstRef) -> Option<Fixed> {
        let mut value = |c: &Const| self.open.value(c, what, at);
        // Evaluates all of them, so that all SpecIds are named.
        let values = [value(&m.scope), value(&m.rows), value(&m.cols), value(&m.use_)];
        let [scope, rows, cols, use_] = values;
        let scope = Scope::from_number(u32::try_from(scope?).ok()?);
        Some(Fixed { component: m.component?, scope, rows: rows?, cols: cols?, use_: use_? })
    }

    /// Returns the rows for a scope; `None` if they depend on a workgroup size that is not known.
    fn rows(&self, scope: Scope) -> Option<Vec<Row>> {
        let p = &self.device.profile;
        let exact = p.khr_properties.iter().map(|size| Row { size: *size, multiples: false });
        let mut rows: Vec<Row> = exact.filter(|r| r.size.scope == scope).collect();
        let flexible = p.has(Feature::CooperativeMatrixFlexibleDimensions);
        let properties2 = p.has(Feature::CooperativeMatrixProperties2);
        let invocations = match (scope, self.invocations) {
            (Scope::Workgroup, None) if flexible || properties2 => return None,
            (Scope::Workgroup, Some(n)) => n,
            _ => 0,
        };
        if flexible {
            let suits = |r: &&coop_device::FlexibleProperties| {
                r.granularity.scope == scope
                    && (scope != Scope::Workgroup || u64::from(r.workgroup_invocations) == invocations)
            };
            let more = p.flexible_properties.iter().filter(suits);
            rows.extend(more.map(|r| Row { size: r.granularity, multiples: true }));
        }
        if properties2 {
            let size = self.device.subgroup_size.unwrap_or(0);
            let suits = |q: &&coop_device::Properties2| {
                q.scope == scope
                    && (scope != Scope::Workgroup || u64::from(q.invocations) == invocations)
                    && (q.subgroup_size == 0 || q.subgroup_size == size || size == 0)
            };
            for query in p.properties2.iter().filter(suits) {
                rows.extend(query.entries.iter().map(|size| Row { size: *size, multiples: flexible }));
            }
        }
        Some(rows)
    }
}

/// Returns true if a declared component type is one of a list, of either sign.
fn same_type(declared: Scalar, listed: ComponentType) -> bool {
    match declared {
        Scalar::Int { width, .. } => {
            listed.is_integer()
                && listed.bits() == Some(width)
                && !matches!(listed, ComponentType::S8Packed | ComponentType::U8Packed)
        }
        Scalar::Float { width: 16 } => listed == ComponentType::F16,
        Scalar::Float { width: 32 } => listed == ComponentType::F32,
        Scalar::Float { width: 64 } => listed == ComponentType::F64,
        Scalar::BF16 => listed == ComponentType::Bf16,
        Scalar::E4M3 => listed == ComponentType::E4m3,
        Scalar::E5M2 => listed == ComponentType::E5m2,
        _ => false,
    }
}

/// Returns the component type and the size that a row has for a role.
fn role(row: &MatrixProperties, use_: u64) -> Option<([ComponentType; 2], u32, u32)> {
    match use_ {
        0 => Some(([row.a; 2], row.m, row.k)),
        1 => Some(([row.b; 2], row.k, row.n)),
        2 => Some(([row.c, row.result], row.m, row.n)),
        _ => None,
    }
}

pub(super) fn check(on: &mut On, out: &mut Sink) {
    let cx = on.cx;
    // Without the feature, or without the stage, that is the finding.
    if !on.device.profile.has(Feature::CooperativeMatrix) {
        return;
    }
    let mut refused = Vec::new();
    for m in cx.matrices() {
        let Some(at) = cx.decl(m) else { continue };
        if !matrix_type(on, m, at, out) {
            refused.push(m.ty.id);
        }
    }
    let mut taken = Vec::new();
    for &at in &cx.body {
        match cx.inst(at).op {
            Op::CooperativeMatrixMulAddKHR => {
                // Unrolled products have thousands of multiply-adds of a few kinds.
                let kind = Kind::of(cx, at);
                if !taken.contains(&kind) && muladd(on, at, &refused, out) {
                    taken.push(kind);
                }
            }
            Op::CompositeConstructCoopMatQCOM | Op::CompositeExtractCoopMatQCOM => lanes(on, at, out),
            _ => {}
        }
    }
}

/// Returns true if the device has matrices of this type, as far as that is known.
fn matrix_type(on: &mut On, m: &CoopMatView, at: InstRef, out: &mut Sink) -> bool {
    let Some(f) = on.fixed(m, "matrix types", at) else { return true };
    let (profile, name) = (&on.device.profile, on.device.name());
    if f.scope == Scope::Workgroup && !profile.has(Feature::CooperativeMatrixWorkgroupScope) {
        out.report(&WORKGROUP_SCOPE, at, || {
            Draft::new(format!("{m}: {name} lacks cooperativeMatrixWorkgroupScope"))
                .label(at, Part::Operand(1), "scope Workgroup")
                .help("give matrices scope Subgroup")
        });
        return false;
    }
    let most = u64::from(profile.limits.cooperative_matrix_flexible_dimensions_max_dimension);
    for (what, n, operand) in [("rows", f.rows, 2), ("columns", f.cols, 3)] {
        if most > 0 && n > most && profile.has_extension("VK_NV_cooperative_matrix2") {
            out.report(&DIMENSION, at, || {
                Draft::new(format!("{m} has {n} {what}; {name} has up to {most}")).label(
                    at,
                    Part::Operand(operand),
                    format!("{n} {what}"),
                )
            });
            return false;
        }
    }
    let Some(mut rows) = on.rows(f.scope) else { return true };
    let held = on.device.profile.held_properties.iter().filter(|p| p.scope == f.scope);
    rows.extend(held.map(|size| Row { size: *size, multiples: false }));
    let fits = |r: &&Row| {
        role(&r.size, f.use_).is_some_and(|(types, height, width)| {
            types.iter().any(|t| same_type(f.component, *t)) && r.fits(f.rows, height) && r.fits(f.cols, width)
        })
    };
    let found: Vec<&Row> = rows.iter().filter(fits).collect();
    if found.is_empty() {
        out.report(&TYPE, at, || {
            Draft::new(format!("{name} has no {m}; {}", nearest(&rows, f)))
                .label(at, Part::Whole, format!("{m}"))
                .help("choose a size that the device has, or lower the module: `coopcheck devices` shows the targets")
        });
        return false;
    }
    if let Scalar::Int { signed, .. } = f.component {
        let listed = |t: &ComponentType| t.is_signed_integer() == signed;
        let same = found.iter().any(|r| role(&r.size, f.use_).is_some_and(|(types, ..)| types.iter().any(listed)));
        if !same {
            out.report(&SIGNEDNESS, at, || {
                let other = if signed { "unsigned" } else { "signed" };
                Draft::new(format!(
                    "{name} lists {m} with {other} components only; the validation layer wants them declared so"
                ))
                .label(at, Part::Operand(0), format!("declared {}", f.component))
            });
        }
    }
    true
}

/// Returns the nearest types that the device has, for a message.
fn nearest(rows: &[Row], f: Fixed) -> String {
    let use_ = use_name(f.use_).unwrap_or("such a use");
    let of_type = |r: &&Row| role(&r.size, f.use_).is_some_and(|(t, ..)| t.iter().any(|t| same_type(f.component, *t)));
    let size = |r: &Row| {
        let (_, height, width) = role(&r.size, f.use_).unwrap_or(([ComponentType::Other(0); 2], 0, 0));
        if r.multiples { format!("multiples of {height}x{width}") } else { format!("{height}x{width}") }
    };
    let mut sizes: Vec<String> = Vec::new();
    for s in rows.iter().filter(of_type).map(size) {
        if !sizes.contains(&s) {
            sizes.push(s);
        }
    }
    if !sizes.is_empty() {
        return format!("of {} as {use_} it has {}", f.component, some(&sizes));
    }
    let mut types: Vec<String> = Vec::new();
    for t in rows.iter().filter_map(|r| role(&r.size, f.use_)).flat_map(|(t, ..)| t) {
        let t = t.to_string();
        if !types.contains(&t) {
            types.push(t);
        }
    }
    let scope = scope_name(f.scope.number().into()).unwrap_or("that");
    if types.is_empty() {
        format!("at {scope} scope it has no {use_} at all")
    } else {
        format!("as {use_} it has {}", some(&types))
    }
}

/// Returns the first few of a list.
fn some(list: &[String]) -> String {
    let more = if list.len() > 6 { format!(" and {} more", list.len() - 6) } else { String::new() };
    format!("{}{more}", list.iter().take(6).cloned().collect::<Vec<_>>().join(", "))
}

/// The requirements of a multiply-add's operand on a row.
struct Wanted {
    component: Scalar,
    signed: bool,
}

impl Wanted {
    fn is(&self, listed: ComponentType) -> bool {
        same_type(self.component, listed) && (!self.component.is_int() || listed.is_signed_integer() == self.signed)
    }

    /// Returns the type as the multiply-add interprets it: `s8` for a u8 with its bit set.
    fn name(&self) -> String {
        match self.component {
            Scalar::Int { width, .. } => Scalar::Int { width, signed: self.signed }.to_string(),
            other => other.to_string(),
        }
    }
}

/// The kind of a multiply-add, by which a device has it or not: the types of the operands and of the result, and the operands' mask.
#[derive(PartialEq, Eq)]
struct Kind([Option<Id>; 4], u32);

impl Kind {
    fn of(cx: &Cx, at: InstRef) -> Kind {
        let inst = cx.inst(at);
        let operand = |i: usize| cx.module.type_of(inst.id(i)?);
        Kind([operand(0), operand(1), operand(2), inst.ty], inst.matrix_operands().0)
    }
}

/// Checks a multiply-add. Returns true if a row of the lists matches it.
fn muladd(on: &mut On, at: InstRef, refused: &[Id], out: &mut Sink) -> bool {
    let cx = on.cx;
    let inst = cx.inst(at);
    let mask = inst.matrix_operands().0;
    let value = |i: usize| inst.id(i).and_then(|v| cx.matrix_of(v));
    let (Some(a), Some(b), Some(c)) = (value(0), value(1), value(2)) else { return false };
    let Some(result) = inst.ty.and_then(|t| cx.matrix(t)) else { return false };
    if [a, b, c, result].iter().any(|m| refused.contains(&m.ty.id)) {
        return false;
    }
    let views = [a, b, c, result].map(|m| on.fixed(m, "multiply-adds", at));
    let [Some(fa), Some(fb), Some(fc), Some(fr)] = views else { return false };
    let Some(rows) = on.rows(fa.scope) else { return false };
    let bit = |b: Mask| mask & b.0 != 0;
    let wanted = [
        Wanted { component: fa.component, signed: bit(Mask::MatrixASignedComponentsKHR) },
        Wanted { component: fb.component, signed: bit(Mask::MatrixBSignedComponentsKHR) },
        Wanted { component: fc.component, signed: bit(Mask::MatrixCSignedComponentsKHR) },
        Wanted { component: fr.component, signed: bit(Mask::MatrixResultSignedComponentsKHR) },
    ];
    let saturating = bit(Mask::SaturatingAccumulationKHR);
    let types = |r: &Row| {
        let s = &r.size;
        wanted[0].is(s.a) && wanted[1].is(s.b) && wanted[2].is(s.c) && wanted[3].is(s.result)
    };
    let size = |r: &Row| r.fits(fa.rows, r.size.m) && r.fits(fb.cols, r.size.n) && r.fits(fa.cols, r.size.k);
    if rows.iter().any(|r| types(r) && size(r) && r.size.saturating == saturating) {
        return true;
    }
    let name = on.device.name();
    out.report(&MULADD, at, || {
        let (m, n, k) = (fa.rows, fb.cols, fa.cols);
        let [wa, wb, wc, wr] = wanted.each_ref().map(Wanted::name);
        let with = if saturating { " with saturation" } else { "" };
        let what = format!("{wa} times {wb} plus {wc} into {wr}");
        let listed = |f: &dyn Fn(&Row) -> bool| {
            let mut list: Vec<String> = Vec::new();
            for r in rows.iter().filter(|r| f(r)) {
                let d = r.describe();
                if !list.contains(&d) {
                    list.push(d);
                }
            }
            list
        };
        let sized = listed(&|r| types(r) && r.size.saturating == saturating);
        let other = rows.iter().filter(|r| size(r));
        let instead = if !sized.is_empty() {
            format!("of these types it has {}", some(&sized))
        } else if rows.iter().any(|r| types(r) && size(r)) {
            format!("it has it {} saturation only", if saturating { "without" } else { "with" })
        } else {
            let mut list: Vec<String> = Vec::new();
            for r in other {
                let s = &r.size;
                let d = format!("{} times {} plus {} into {}", s.a, s.b, s.c, s.result);
                if !list.contains(&d) {
                    list.push(d);
                }
            }
            if list.is_empty() {
                "it has none of this size".into()
            } else {
                format!("of this size it has {}", some(&list))
            }
        };
        Draft::new(format!("{name} has no {m}x{n}x{k} multiply-add of {what}{with}; {instead}"))
            .label(at, Part::Whole, format!("{m}x{n}x{k}"))
            .label_opt(cx.decl(a), Part::Whole, format!("A is read as {wa}"))
            .label_opt(cx.decl(b), Part::Whole, format!("B is read as {wb}"))
    });
    false
}

fn lanes(on: &On, at: InstRef, out: &mut Sink) {
    let cx = on.cx;
    let inst = cx.inst(at);
    let ty = if inst.op == Op::CompositeConstructCoopMatQCOM {
        inst.ty
    } else {
        inst.id(0).and_then(|v| cx.module.type_of(v))
    };
    let Some(m) = ty.and_then(|t| cx.matrix(t)) else { return };
    let (Some(rows), Some(cols), Some(use_)) = (m.rows.fixed(), m.cols.fixed(), m.use_.fixed()) else { return };
    let (n, what) = if use_ == 1 { (cols, "columns") } else { (rows, "rows") };
    let size = u64::from(on.device.subgroup_size.unwrap_or(on.device.profile.limits.subgroup_size));
    if n > size {
        out.report(&LANES, at, || {
            Draft::new(format!("{m} has {n} {what}, one for each lane; subgroups of {} have {size}", on.device.name()))
                .label(at, Part::Whole, format!("{n} {what}"))
                .label_opt(cx.decl(m), Part::Whole, "the matrix")
        });
    }
}
