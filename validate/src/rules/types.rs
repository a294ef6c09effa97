//! Rules about matrix types, and about where matrices may be.

use super::{component, nv1, tensor};
use crate::cx::{Cx, TypeClass};
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::verdict::Verdict;
use coop_ir::spv::{Capability, Decoration, Scope, StorageClass};
use coop_ir::types::{CoopMatView, Type, scope_name};
use coop_ir::{Id, InstRef, Op};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

declare_rule! {
    /// ## What it checks
    /// The Component Type of a matrix is an `OpTypeInt` or an `OpTypeFloat`.
    /// ## Why
    /// Matrices of Booleans, vectors or structs do not exist.
    /// ## Example
    /// `OpTypeCooperativeMatrixKHR %bool %subgroup %rows %columns %use`
    pub(crate) static COMPONENT_NOT_SCALAR = {
        id: "type-component-not-scalar",
        summary: "the component type is not a numerical scalar",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-component-scalar"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Scope is a constant instruction of a 32-bit integer type; `OpUndef` is not one.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// A Scope that is an `OpUndef`, or a 64-bit constant.
    pub(crate) static SCOPE_NOT_CONSTANT = {
        id: "type-scope-not-constant",
        summary: "Scope is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-scope-const", "khr.type-not-undef"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Rows is a constant instruction of a 32-bit integer type; `OpUndef` is not one.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// Rows given by an `OpConstant` of a 64-bit integer type.
    pub(crate) static ROWS_NOT_CONSTANT = {
        id: "type-rows-not-constant",
        summary: "Rows is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-rows-const", "khr.type-not-undef"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Columns is a constant instruction of a 32-bit integer type; `OpUndef` is not one.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// Columns given by an `OpUndef`.
    pub(crate) static COLUMNS_NOT_CONSTANT = {
        id: "type-columns-not-constant",
        summary: "Columns is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-cols-const", "khr.type-not-undef"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Use is a constant instruction of a 32-bit integer type; `OpUndef` is not one.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// Use given by a constant of type `f32`.
    pub(crate) static USE_NOT_CONSTANT = {
        id: "type-use-not-constant",
        summary: "Use is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-use-const", "khr.type-not-undef"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Use is 0 (MatrixA), 1 (MatrixB) or 2 (MatrixAccumulator).
    /// ## Why
    /// No other use exists; how a matrix is spread over invocations depends on it.
    /// ## Example
    /// A matrix type whose Use is `%uint_3`.
    pub(crate) static USE_UNKNOWN = {
        id: "type-use-unknown",
        summary: "Use is not A, B or Accumulator",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Use",
        vuids: [],
        digest: ["khr.type-use-value"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Rows and Columns are at least 1.
    /// ## Why
    /// A matrix without elements has no meaning, and no device offers one.
    /// ## Example
    /// A matrix type with 16 rows and 0 columns.
    pub(crate) static DIMENSION_ZERO = {
        id: "type-dimension-zero",
        summary: "a matrix has no rows or no columns",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.type-dims-positive"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, Scope is Subgroup or Workgroup.
    /// ## Why
    /// Only the invocations of a subgroup or of a workgroup can hold a matrix together.
    /// ## Example
    /// A matrix type whose Scope is Device.
    pub(crate) static SCOPE_UNSUPPORTED = {
        id: "type-scope-unsupported",
        summary: "Scope is neither Subgroup nor Workgroup",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-Scope-12243"],
        digest: ["khr.type-scope-value"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Variables that are matrices, or arrays or structs with matrices inside, have storage class Function or Private.
    /// ## Why
    /// A matrix is held by invocations together and has no layout in memory; only loads and stores give it one.
    /// ## Example
    /// `OpVariable %ptr_Workgroup_matrix Workgroup`
    pub(crate) static VARIABLE_STORAGE = {
        id: "type-variable-storage",
        summary: "a variable with a matrix is neither Function nor Private",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["khr.storage-class", "khr.no-memory-interface", "nv1.storage"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A struct with Block or BufferBlock has no matrix inside.
    /// ## Why
    /// Such structs describe memory that the API sees, and a matrix has no layout in memory.
    /// ## Example
    /// `OpDecorate %s Block` for `%s = OpTypeStruct %matrix`
    pub(crate) static IN_BLOCK = {
        id: "type-in-block",
        summary: "an interface block has a matrix inside",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["khr.no-memory-interface"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpSizeOf` is not asked for the size of a matrix, or of what has one inside.
    /// ## Why
    /// The type is abstract: an invocation's share of a matrix has no size that a program could know.
    /// ## Example
    /// `OpSizeOf %uint %pointer_to_matrix`
    pub(crate) static SIZE_OF = {
        id: "type-size-of",
        summary: "OpSizeOf of a matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.no-memory-interface"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, `OpBitcast` does not make or take a pointer to a matrix.
    /// ## Why
    /// The type is abstract: its bits in memory are not defined.
    /// ## Example
    /// `OpBitcast %ptr_uint %pointer_to_matrix`
    pub(crate) static POINTER_BITCAST = {
        id: "type-pointer-bitcast",
        summary: "OpBitcast of a pointer to a matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.no-memory-interface"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No two types of matrices, tensor layouts or views have the same operands.
    /// ## Why
    /// Types that are not aggregates are declared once. If one is declared twice, values of both types go together only by luck: types
    /// are compared by id.
    /// ## Example
    /// `OpTypeCooperativeMatrixKHR %float %uint_3 %uint_16 %uint_16 %uint_2`, a second time.
    pub(crate) static DUPLICATE = {
        id: "type-duplicate",
        summary: "a type is declared twice",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.8 Types and Variables",
        vuids: [],
        digest: ["types.signedness-ids"],
    }
}

/// Reports types that are declared twice.
fn duplicates(cx: &Cx, out: &mut Sink) {
    let unique = |op: Op| op.is_matrix_type() || op.is_tensor_type();
    let mut seen: BTreeMap<(Op, Vec<u32>), InstRef> = BTreeMap::new();
    for &at in cx.globals.iter().filter(|r| unique(cx.inst(**r).op)) {
        let inst = cx.inst(at);
        let key = (inst.op, inst.operands.iter().map(|o| o.word()).collect());
        match seen.entry(key) {
            Entry::Vacant(first) => drop(first.insert(at)),
            Entry::Occupied(first) => out.report(&DUPLICATE, at, || {
                let what = inst.result.map_or_else(|| inst.op.to_string(), |id| cx.describe(id));
                Draft::new(format!("{what} is declared twice; the two are different types, and invalid together"))
                    .label(at, Part::Whole, "the second")
                    .label(*first.get(), Part::Whole, "the first")
                    .help("use the first wherever the second is used")
            }),
        }
    }
}

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    duplicates(cx, out);
    for m in cx.matrices() {
        if let Some(at) = cx.decl(m) {
            matrix_type(cx, m, at, out);
            either(cx, MatrixType::Khr(m), at, out);
        }
    }
    for m in cx.nv_matrices() {
        if let Some(at) = cx.def(m.id) {
            nv1::matrix_type(cx, at, out);
            either(cx, MatrixType::Nv(m), at, out);
        }
    }
    blocks(cx, out);
}

/// Checks `OpSizeOf` of a type that involves matrices.
pub(crate) fn size_of(cx: &Cx, at: InstRef, out: &mut Sink) {
    if cx.inst(at).id(0).is_none_or(|p| cx.class(p) != Some(TypeClass::Pointer)) {
        return;
    }
    out.report(&SIZE_OF, at, || {
        Draft::new("the size of a cooperative matrix is not defined, so OpSizeOf has no result").label(
            at,
            Part::Operand(0),
            "points to a matrix, or has one inside",
        )
    });
}

fn matrix_type(cx: &Cx, m: &CoopMatView, at: InstRef, out: &mut Sink) {
    if m.component.is_none() {
        let what = cx.describe(m.ty.component);
        out.report(&COMPONENT_NOT_SCALAR, at, || {
            Draft::new(format!("the component type of a matrix must be an integer or a float; this is {what}"))
                .label(at, Part::Operand(0), format!("this is {what}"))
                .label_opt(cx.def(m.ty.component), Part::Whole, "declared here")
        });
    }
    let operands: [(&'static Rule, &str, Id); 4] = [
        (&SCOPE_NOT_CONSTANT, "Scope", m.ty.scope),
        (&ROWS_NOT_CONSTANT, "Rows", m.ty.rows),
        (&COLUMNS_NOT_CONSTANT, "Columns", m.ty.cols),
        (&USE_NOT_CONSTANT, "Use", m.ty.use_),
    ];
    for (i, (rule, name, id)) in operands.into_iter().enumerate() {
        if let Some(why) = cx.not_const_u32(id) {
            out.report(rule, at, || {
                Draft::new(format!("{name} of a matrix must be a constant of a 32-bit integer type; {why}"))
                    .label(at, Part::Operand(i + 1), format!("{name} is given here"))
                    .label_opt(cx.def(id), Part::Whole, "comes from here")
            });
        }
    }
    out.judge(&USE_UNKNOWN, Verdict::of(&m.use_, |v| v <= 2), at, || {
        Draft::new(format!("Use {} is not 0 (A), 1 (B) or 2 (Accumulator)", m.use_))
            .label(at, Part::Operand(4), format!("Use is {}", m.use_))
            .label_opt(cx.def(m.ty.use_), Part::Whole, "comes from here")
    });
}

/// Checks the rules that matrix types of both extensions share.
fn either(cx: &Cx, m: MatrixType, at: InstRef, out: &mut Sink) {
    component::matrix_type(cx, m, at, out);
    for (name, operand, (id, value)) in [("rows", 2, m.rows()), ("columns", 3, m.cols())] {
        out.judge(&DIMENSION_ZERO, Verdict::of(value, |v| cx.signed(id, v) >= 1), at, || {
            let n = value.value().map_or(0, |v| cx.signed(id, v));
            Draft::new(format!("a matrix has at least 1 row and 1 column; this one has {n} {name}"))
                .label(at, Part::Operand(operand), format!("{n} {name}"))
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
    }
    if cx.env.is_vulkan() {
        let (id, scope) = m.scope();
        let ok = |v| v == u64::from(Scope::Subgroup.0) || v == u64::from(Scope::Workgroup.0);
        out.judge(&SCOPE_UNSUPPORTED, Verdict::of(scope, ok), at, || {
            let name = scope.value().and_then(scope_name).unwrap_or("unknown");
            Draft::new(format!("Scope {scope} ({name}) is neither Subgroup (3) nor Workgroup (2)"))
                .label(at, Part::Operand(1), format!("Scope is {name}"))
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
    }
}

/// Checks a variable of a type that involves matrices.
pub(crate) fn variable(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(storage) = inst.enumerant(0) else { return };
    let holds = match inst.op {
        // The type is a pointer to something with a matrix inside, or it would not be in the list.
        Op::Variable => inst.result.and_then(|v| cx.class(v)) == Some(TypeClass::Pointer),
        _ => inst
            .data_type()
            .is_some_and(|t| matches!(cx.class(t), Some(TypeClass::Matrix | TypeClass::MatrixNv | TypeClass::Holder))),
    };
    if holds && storage != StorageClass::Function && storage != StorageClass::Private {
        let name = storage_name(storage);
        out.report(&VARIABLE_STORAGE, at, || {
            Draft::new(format!("a variable with a cooperative matrix has storage class {name}"))
                .label(at, Part::Operand(0), "must be Function or Private")
                .label_opt(inst.ty.and_then(|t| cx.def(t)), Part::Whole, "its type has a matrix inside")
                .help("keep the matrix in a Function or Private variable, and store its elements to memory")
        });
    }
}

/// Returns the name of a storage class.
pub(crate) fn storage_name(storage: StorageClass) -> &'static str {
    storage.name().unwrap_or("unknown")
}

fn blocks(cx: &Cx, out: &mut Sink) {
    for r in cx.module.globals_with(Op::Decorate) {
        let inst = cx.inst(r);
        let block = [Decoration::Block, Decoration::BufferBlock];
        let Some((ty, decoration)) = inst.decoration() else { continue };
        if !block.contains(&decoration) {
            continue;
        }
        let Some(at) = cx.def(ty) else { continue };
        match cx.class(ty) {
            Some(TypeClass::Holder) => {}
            Some(TypeClass::TensorHolder) => {
                tensor::types::in_block(at, r, out);
                continue;
            }
            _ => continue,
        }
        let member = match Type::of(cx.module, ty) {
            Some(Type::Struct { members }) => {
                let inside =
                    |m: &Id| matches!(cx.class(*m), Some(TypeClass::Matrix | TypeClass::MatrixNv | TypeClass::Holder));
                members.iter().position(inside)
            }
            _ => None,
        };
        let name = decoration.name().unwrap_or("Block");
        out.report(&IN_BLOCK, at, || {
            Draft::new(format!("a struct that is decorated {name} has a cooperative matrix inside"))
                .label(at, member.map_or(Part::Whole, Part::Operand), "a matrix, or something with one inside")
                .label(r, Part::Whole, "decorated here")
                .help("put the elements into the block, and load the matrix from them")
        });
    }
}

/// Checks `OpBitcast` of a pointer to a matrix.
pub(crate) fn pointer_bitcast(cx: &Cx, o: &Operation, out: &mut Sink) {
    if !cx.has(Capability::Shader) {
        return;
    }
    let from = o.id(0).is_some_and(|v| cx.class(v) == Some(TypeClass::Pointer));
    let to = o.ty.is_some_and(|t| cx.class(t) == Some(TypeClass::Pointer));
    if from || to {
        let (part, text) = if from { (o.part(0), "points to a matrix") } else { (Part::Type, "points to a matrix") };
        out.report(&POINTER_BITCAST, o.at, || {
            Draft::new("a pointer to a cooperative matrix is cast, but a matrix has no bits in memory")
                .label(o.at, part, text)
        });
    }
}
