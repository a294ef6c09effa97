//! Rewrites SPV_INTEL_joint_matrix, in shaders and in kernels, into KHR and NV2 instructions.
//!
//! | instruction | becomes |
//! |---|---|
//! | loads and stores that are packed, checked or have offsets | tensor loads and stores ([`super::tensor_form`]) |
//! | checked construction | an operation on each element, with its row and column |
//! | coordinates of an element | SPV_EXT_cooperative_matrix_maintenance1's |
//! | conversions, operand bits of multiplications | bfloat16 of SPV_KHR_bfloat16, roundings ([`super::float_conversions`]) |
//! | prefetches, cache controls in shaders | nothing; counted in the report |
//! | application of a function object | an operation on each element, if somebody says which function is meant |
//!
//! Also accepts what producers emit beyond the specification: the length of a matrix instead of a type, a matrix filled
//! with the value behind a pointer, strides that count components whatever the pointee type.

use super::float_conversions::{Numbers, load_number};
use super::rewriter::{Rewriter, within};
use super::tensor_form;
use crate::cleanup::{remove_capability, remove_extension};
use crate::pipeline::PassCx;
use crate::{Refusal, malformed};
use coop_ir::builder::{require_capability, require_extension};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{remove_globals, sort_globals};
use coop_ir::spv::{Capability, Decoration};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// Capabilities of the extensions that this pass lowers; no instruction needs them afterwards.
const CAPABILITIES: [Capability; 10] = [
    Capability::CooperativeMatrixCheckedInstructionsINTEL,
    Capability::CooperativeMatrixOffsetInstructionsINTEL,
    Capability::CooperativeMatrixPrefetchINTEL,
    Capability::PackedCooperativeMatrixINTEL,
    Capability::CooperativeMatrixInvocationInstructionsINTEL,
    Capability::CooperativeMatrixTF32ComponentTypeINTEL,
    Capability::CooperativeMatrixBFloat16ComponentTypeINTEL,
    Capability::BFloat16ConversionINTEL,
    Capability::TensorFloat32RoundingINTEL,
    Capability::CooperativeMatrixLayoutsARM,
];

const EXTENSIONS: [&str; 5] = [
    "SPV_INTEL_joint_matrix",
    "SPV_INTEL_bfloat16_conversion",
    "SPV_INTEL_tensor_float32_conversion",
    "SPV_INTEL_tensor_float32_rounding",
    "SPV_ARM_cooperative_matrix_layouts",
];

/// The decorations of SPV_INTEL_cache_controls.
const CACHE_CONTROLS: [Decoration; 2] = [Decoration::CacheControlLoadINTEL, Decoration::CacheControlStoreINTEL];
/// The capability of those decorations.
const CACHE_CAPABILITY: Capability = Capability::CacheControlsINTEL;

pub(super) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let imports = imports(m);
    let mut pass = Pass { imports, ..Pass::default() };
    let mut e = Rewriter::new(m);
    e.each(&mut |e, r| pass.inst(e, r, cx))?;
    let changed = e.changed;
    cx.report.dropped_prefetches += pass.prefetches;
    finish(m, cx, changed);
    Ok(())
}

#[derive(Default)]
struct Pass {
    numbers: Numbers,
    /// The names of functions imported from other modules.
    imports: FxHashMap<Id, String>,
    /// The functions of checked construction, by component type.
    constructs: FxHashMap<Id, Id>,
    /// The per-element wrappers of the applied function, by the type of the function object and the component type.
    applied: FxHashMap<(Id, Id), Id>,
    prefetches: u32,
}

/// Returns the functions whose bodies are in other modules, with their names.
fn imports(m: &Module) -> FxHashMap<Id, String> {
    let empty: FxHashSet<Id> =
        m.functions.iter().filter(|f| f.blocks.is_empty()).filter_map(|f| m.inst(f.def).result).collect();
    let linkage = Decoration::LinkageAttributes;
    let named = m.globals_with(Op::Decorate).map(|r| m.inst(r)).filter(|i| i.enumerant(1) == Some(linkage));
    named.filter_map(|i| Some((i.note_target().filter(|id| empty.contains(id))?, i.string(2)?.0.to_string()))).collect()
}

impl Pass {
    /// Rewrites an instruction. Returns true if it stays.
    fn inst(&mut self, e: &mut Rewriter<'_>, r: InstRef, cx: &mut PassCx<'_>) -> Result<bool, Refusal> {
        match e.m.inst(r).op {
            Op::CooperativeMatrixLoadKHR
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixLoadCheckedINTEL
            | Op::CooperativeMatrixStoreCheckedINTEL
            | Op::CooperativeMatrixLoadOffsetINTEL
            | Op::CooperativeMatrixStoreOffsetINTEL => {
                tensor_form::access(e, r, cx.options.checked)?;
            }
            Op::CooperativeMatrixConstructCheckedINTEL => self.construct_checked(e, r)?,
            Op::CooperativeMatrixGetElementCoordINTEL => {
                let inst = e.m.inst(r);
                let (Some(matrix), Some(index)) = (inst.id(0), inst.id(1)) else {
                    return malformed(r, "the operands don't fit the instruction");
                };
                let index = e.word(r, index)?;
                e.replace(r, Op::CooperativeMatrixGetCoordinateEXT, [matrix, index].map(Operand::Id));
            }
            Op::CooperativeMatrixPrefetchINTEL => {
                self.prefetches += 1;
                return Ok(false);
            }
            Op::CooperativeMatrixApplyFunctionINTEL => self.apply(e, r, cx)?,
            op if op.is_intel_float_conversion() => {
                self.numbers.conversion(e, r)?;
            }
            Op::CooperativeMatrixMulAddKHR => self.numbers.muladd(e, r, cx.options.tf32)?,
            Op::CooperativeMatrixLengthKHR => length(e, r),
            Op::CompositeConstruct => fill(e, r)?,
            Op::FunctionCall => {
                let name = e.m.inst(r).callee().and_then(|f| self.imports.get(&f)).cloned();
                if let Some(name) = name {
                    self.numbers.library_call(e, r, &name)?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn construct_checked(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let shape = e.shape_of_type(r, inst.ty)?;
        let ids: Vec<Id> = inst.ids().collect();
        let [x, y, height, width, value] = ids[..] else {
            return malformed(r, "the operands don't fit the instruction");
        };
        let mut extras = Vec::new();
        for id in [x, y] {
            extras.push(e.word(r, id)?);
        }
        for id in [height, width] {
            extras.push(tensor_form::extent(e, r, id)?);
        }
        for extra in &mut extras {
            *extra = unsigned(e, *extra);
        }
        let function = match self.constructs.get(&shape.component) {
            Some(f) => *f,
            None => {
                let f = construct_element(e, shape.component);
                self.constructs.insert(shape.component, f);
                f
            }
        };
        let zero = e.g.null(e.m, shape.ty);
        let operands = [zero, function].into_iter().chain(extras).chain([value]).map(Operand::Id);
        e.replace(r, Op::CooperativeMatrixPerElementOpNV, operands.collect::<Vec<_>>());
        Ok(())
    }

    fn apply(&mut self, e: &mut Rewriter<'_>, r: InstRef, cx: &PassCx<'_>) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(object), Some(matrix)) = (inst.id(0), inst.id(1)) else {
            return malformed(r, "the operands don't fit the instruction");
        };
        let Some(name) = &cx.options.apply_function else {
            let why = "OpCooperativeMatrixApplyFunctionINTEL does not name its function: how the function object identifies it is not specified";
            let remedy = "name the function with --apply-function NAME";
            return Err(Refusal::new("refused-apply-function", Some(r), why, remedy));
        };
        let shape = e.shape(r, matrix)?;
        if inst.ty != Some(shape.ty) {
            let why = "a function is applied that changes the type of a matrix";
            let remedy = "convert the matrix before or after";
            return Err(Refusal::new("refused-apply-function", Some(r), why, remedy));
        }
        let Some(object_type) = e.m.type_of(object) else { return malformed(r, "the function object has no type") };
        let key = (object_type, shape.component);
        let function = match self.applied.get(&key) {
            Some(f) => *f,
            None => {
                let f = apply_function(e, r, name, key)?;
                self.applied.insert(key, f);
                f
            }
        };
        e.replace(r, Op::CooperativeMatrixPerElementOpNV, [matrix, function, object].map(Operand::Id));
        Ok(())
    }
}

/// Casts a 32-bit integer to unsigned.
fn unsigned(e: &mut Rewriter<'_>, id: Id) -> Id {
    let word = e.g.uint(e.m, 32);
    if e.m.type_of(id) == Some(word) { id } else { e.ids(Op::Bitcast, word, &[id]) }
}

/// Makes the function that returns each element of a checked construction. Its parameters are row, column, the current
/// element, the two offsets, height, width, and the value.
fn construct_element(e: &mut Rewriter<'_>, component: Id) -> Id {
    let word = e.g.uint(e.m, 32);
    let params = [word, word, component, word, word, word, word, component];
    let mut b = e.function("coop_construct_checked", component, &params);
    let p: Vec<Id> = (0..params.len()).map(|i| b.param(i)).collect();
    let row = within(&mut b, p[3], p[0], p[5]);
    let col = within(&mut b, p[4], p[1], p[6]);
    let bool_type = b.globals.bool(b.module);
    let inside = b.ids(Op::LogicalAnd, bool_type, &[row, col]);
    let value = b.ids(Op::Select, component, &[inside, p[7], p[2]]);
    b.finish(Some(value))
}

/// Makes a per-element function that calls the one the user names: `f(object, element)` or `f(object, element, row,
/// column)`.
fn apply_function(e: &mut Rewriter<'_>, r: InstRef, name: &str, (object, component): (Id, Id)) -> Result<Id, Refusal> {
    let refuse = |why: String| {
        let remedy = "give the name of a function that takes the object, the element, and maybe row and column";
        Err(Refusal::new("refused-apply-function", Some(r), why, remedy))
    };
    let Some(function) = named_function(e.m, name) else {
        return refuse(format!("the module has no function called {name}"));
    };
    let ty = e.m.def_inst(function).and_then(|i| i.function_type()).and_then(|t| Type::of(e.m, t));
    let Some(Type::Function { ret, params }) = ty else { return malformed(r, "a function without a type") };
    let integer = |t: &Id| matches!(types::scalar(e.m, *t), Some(Scalar::Int { .. }));
    let fits = ret == component
        && matches!(params.len(), 2 | 4)
        && params[1] == component
        && params[0] == object
        && params[2..].iter().all(integer);
    if !fits {
        return refuse(format!("the function {name} does not take the object and an element and return an element"));
    }
    let word = e.g.uint(e.m, 32);
    let mut b = e.function("coop_apply", component, &[word, word, component, object]);
    let mut args = vec![function, b.param(3), b.param(2)];
    for (at, ty) in params[2..].iter().enumerate() {
        let value = b.param(at);
        let width = types::scalar(b.module, *ty).map_or(32, Scalar::width);
        args.push(match width {
            _ if *ty == word => value,
            32 => b.ids(Op::Bitcast, *ty, &[value]),
            _ => b.ids(Op::UConvert, *ty, &[value]),
        });
    }
    let value = b.ids(Op::FunctionCall, component, &args);
    Ok(b.finish(Some(value)))
}

/// Returns the function with a name that a linkage decoration or debug information gives.
fn named_function(m: &Module, name: &str) -> Option<Id> {
    let linkage = Decoration::LinkageAttributes;
    let bodies: FxHashSet<Id> =
        m.functions.iter().filter(|f| !f.blocks.is_empty()).filter_map(|f| m.inst(f.def).result).collect();
    let of = |r: InstRef| {
        let i = m.inst(r);
        let text = match i.op {
            Op::Name => i.string(1)?.0,
            Op::Decorate if i.enumerant(1) == Some(linkage) => i.string(2)?.0,
            _ => return None,
        };
        i.note_target().filter(|id| text == name && bodies.contains(id))
    };
    m.globals.iter().find_map(|r| of(*r))
}

/// Rewrites the length of a matrix into the 32-bit length of its type.
fn length(e: &mut Rewriter<'_>, r: InstRef) {
    let inst = e.m.inst(r).clone();
    let Some(mut of) = inst.id(0) else { return };
    if let Some(ty) = e.m.type_of(of) {
        of = ty;
    }
    let word = e.g.uint(e.m, 32);
    let asked = inst.ty.and_then(|t| types::scalar(e.m, t));
    match asked {
        Some(Scalar::Int { width, .. }) if inst.ty != Some(word) => {
            let length = e.ids(Op::CooperativeMatrixLengthKHR, word, &[of]);
            let op = if width == 32 { Op::Bitcast } else { Op::UConvert };
            e.replace(r, op, [length.into()]);
        }
        _ if inst.id(0) != Some(of) => e.replace(r, Op::CooperativeMatrixLengthKHR, [of.into()]),
        _ => {}
    }
}

/// Rewrites a matrix that is filled with the value behind a pointer.
fn fill(e: &mut Rewriter<'_>, r: InstRef) -> Result<(), Refusal> {
    let inst = e.m.inst(r);
    let (Some(ty), Some(value), 1) = (inst.ty, inst.id(0), inst.operands.len()) else { return Ok(()) };
    let Some(matrix) = types::coop_mat(e.m, ty) else { return Ok(()) };
    if e.pointee(value).is_none() {
        return Ok(());
    }
    let Some((number, depth)) = tensor_form::number_behind(e, value) else {
        return malformed(r, "a matrix is filled with a value that is not a number");
    };
    let loaded = load_number(e, value, number, depth);
    let width = |ty: Id| types::scalar(e.m, ty).map(Scalar::width);
    if width(number) != width(matrix.component) {
        return malformed(r, "a matrix is filled with a number of another type");
    }
    let component = matrix.component;
    let value = if number == component { loaded } else { e.ids(Op::Bitcast, component, &[loaded]) };
    e.replace(r, Op::CompositeConstruct, [value.into()]);
    Ok(())
}

/// Removes extensions, capabilities and decorations that are no longer needed.
fn finish(m: &mut Module, cx: &mut PassCx<'_>, changed: bool) {
    let mut declared = false;
    for c in CAPABILITIES {
        declared |= remove_capability(m, c);
    }
    EXTENSIONS.iter().for_each(|e| remove_extension(m, e));
    if declared && m.globals_with(Op::TypeCooperativeMatrixKHR).next().is_some() {
        // Some of the removed capabilities implied it.
        require_capability(m, Capability::CooperativeMatrixKHR);
        require_extension(m, "SPV_KHR_cooperative_matrix");
    }
    if m.has_capability(Capability::Shader) && m.has_capability(CACHE_CAPABILITY) {
        let controls = |m: &Module, r: InstRef| {
            let i = m.inst(r);
            i.op == Op::Decorate && i.enumerant(1).is_some_and(|d| CACHE_CONTROLS.contains(&d))
        };
        cx.report.dropped_cache_controls += remove_globals(m, controls) as u32;
        remove_capability(m, CACHE_CAPABILITY);
        remove_extension(m, "SPV_INTEL_cache_controls");
    }
    if changed {
        sort_globals(m);
    }
}
