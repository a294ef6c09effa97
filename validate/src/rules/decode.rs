//! Rules about the decode functions of a tensor load: one returns a component of a block, another may return several at
//! once.

use super::callback::{Callback, is_int32, side_effect};
use super::reduce::{not_function, shorten};
use super::tensor::access::TensorLoadStore;
use super::tensor::state::States;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::rules::types::storage_name;
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{CoopMatView, Scalar, Type};
use coop_ir::{Id, Op};

declare_rule! {
    /// ## What it checks
    /// A tensor load with a decode function is from StorageBuffer or PhysicalStorageBuffer memory.
    /// ## Why
    /// The function gets an address, which Workgroup memory has not.
    /// ## Example
    /// A tensor load from a Workgroup array with DecodeFunc.
    pub(crate) static STORAGE = {
        id: "decode-storage-class",
        summary: "a decode function for memory without addresses",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-storage"],
    }
}

declare_rule! {
    /// ## What it checks
    /// DecodeFunc and DecodeVectorFunc are `OpFunction`s.
    /// ## Why
    /// The implementation calls them.
    /// ## Example
    /// DecodeFunc is a constant.
    pub(crate) static NOT_FUNCTION = {
        id: "decode-not-function",
        summary: "a decode function is not a function",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, Tensor Addressing Operands",
        vuids: [],
        digest: ["nv2.decode-is-function", "decode.is-function"],
    }
}

declare_rule! {
    /// ## What it checks
    /// DecodeFunc returns a component of the matrix.
    /// ## Why
    /// Its result becomes the element.
    /// ## Example
    /// A load of a f16 matrix with a decode function that returns f32.
    pub(crate) static RETURN = {
        id: "decode-return-type",
        summary: "a decode function does not return a component",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-return"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A decode function has three parameters.
    /// ## Why
    /// It is called with a pointer to the block, the block's coordinates, and those inside the block.
    /// ## Example
    /// A decode function without the coordinates inside the block.
    pub(crate) static COUNT = {
        id: "decode-parameter-count",
        summary: "a decode function does not have three parameters",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-param-count", "decode.params"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The first parameter of a decode function is a pointer to PhysicalStorageBuffer memory, also where the load is
    /// from a StorageBuffer.
    /// ## Why
    /// The function gets an address.
    /// ## Example
    /// A first parameter that points to StorageBuffer memory.
    pub(crate) static POINTER = {
        id: "decode-parameter-pointer",
        summary: "a decode function does not take a PhysicalStorageBuffer pointer",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-param-ptr", "decode.params"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The second and third parameters of a decode function are arrays of 32-bit integers, as long as the layout has
    /// dimensions.
    /// ## Why
    /// They are the block's coordinates, and those inside the block.
    /// ## Example
    /// Arrays of 3 for a layout of 2 dimensions.
    pub(crate) static COORDINATES = {
        id: "decode-parameter-coordinates",
        summary: "coordinates of a decode function have the wrong type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-param-arrays", "decode.params"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A decode function, and what it calls, writes no memory that outlives the call.
    /// ## Why
    /// It runs for each element at least once, in any invocation and any order.
    /// ## Example
    /// A decode function that counts its calls by an atomic.
    pub(crate) static SIDE_EFFECTS = {
        id: "decode-side-effects",
        summary: "a decode function writes memory",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.decode-pure"],
    }
}

declare_rule! {
    /// ## What it checks
    /// DecodeVectorFunc comes with DecodeFunc.
    /// ## Why
    /// The implementation may call either, and for single elements it needs the latter.
    /// ## Example
    /// `OpCooperativeMatrixLoadTensorNV ... None DecodeVectorFunc %decode4`
    pub(crate) static VECTOR_ALONE = {
        id: "decode-vector-alone",
        summary: "DecodeVectorFunc without DecodeFunc",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix_decode_vector, Tensor Addressing Operands",
        vuids: [],
        digest: ["decode.requires-scalar"],
    }
}

declare_rule! {
    /// ## What it checks
    /// DecodeVectorFunc returns a vector of 2, 4 or 8 components of the matrix.
    /// ## Why
    /// It decodes that many consecutive elements.
    /// ## Example
    /// A DecodeVectorFunc that returns a vector of 3.
    pub(crate) static VECTOR_RETURN = {
        id: "decode-vector-return",
        summary: "DecodeVectorFunc does not return 2, 4 or 8 components",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix_decode_vector, Tensor Addressing Operands",
        vuids: [],
        digest: ["decode.return-vector"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A DecodeVectorFunc that returns an OpTypeVector of 8 components comes with capability Vector16 or LongVectorEXT.
    /// ## Why
    /// Shaders have vectors of up to 4 components else.
    /// ## Example
    /// `OpTypeVector %half 8` without either capability.
    pub(crate) static VECTOR_EIGHT = {
        id: "decode-vector-eight",
        summary: "vectors of 8 components without their capability",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, OpTypeVector",
        vuids: [],
        digest: ["decode.v8-vector-cap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a DecodeVectorFunc of V components, the innermost block size is a multiple of V.
    /// ## Why
    /// A vector lies in one block.
    /// ## Example
    /// A block size of 6 with a DecodeVectorFunc that returns 4 components.
    pub(crate) static BLOCK_MULTIPLE = {
        id: "decode-vector-block",
        summary: "a block is not a multiple of the vector that is decoded",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-OpCooperativeMatrixLoadTensorNV-12429"],
        digest: ["decode.block-multiple", "vk.decode-block"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The struct that a decode function's pointer points to has a size that is a multiple of its alignment.
    /// ## Why
    /// Blocks are found by the size of that struct. Whether it is rounded to the alignment is not said; an H100 does not
    /// round: blocks of a f16 and three bytes follow each other every 5 bytes.
    /// ## Example
    /// A decode function for `struct { float16_t scale; uint8_t q[3]; }`.
    pub(crate) static STEP = {
        id: "portability-decode-step",
        summary: "a decoded block's size is not a multiple of its alignment",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV; seen on an H100 (580.159)",
        vuids: [],
        digest: ["nv2.decode-param-ptr"],
    }
}

/// Checks the decode functions of a load.
pub(crate) fn check(cx: &Cx, a: &TensorLoadStore, states: Option<&States>, out: &mut Sink) {
    if !a.is_load {
        return;
    }
    if let Some((_, operand)) = a.decode.or(a.decode_vector) {
        storage(cx, a, operand, out);
    }
    if let (None, Some((_, operand))) = (a.decode, a.decode_vector) {
        out.report(&VECTOR_ALONE, a.at, || {
            Draft::new("DecodeVectorFunc needs a DecodeFunc beside it, for single elements").label(
                a.at,
                Part::Operand(operand),
                "DecodeVectorFunc alone",
            )
        });
    }
    if let Some((function, operand)) = a.decode
        && let Some(callback) = callback(cx, a, "DecodeFunc", function, operand, out)
        && let Some(matrix) = a.matrix
        && callback.ret != matrix.ty.component
    {
        out.report(&RETURN, a.at, || {
            let (c, is) = (cx.describe(matrix.ty.component), cx.describe(callback.ret));
            Draft::new(format!("DecodeFunc must return {c}, a component of {matrix}; it returns {is}"))
                .label(a.at, Part::Operand(operand), "DecodeFunc")
                .label(callback.at, Part::Type, format!("returns {is}"))
        });
    }
    if let Some((function, operand)) = a.decode_vector
        && let Some(callback) = callback(cx, a, "DecodeVectorFunc", function, operand, out)
        && let Some(matrix) = a.matrix
    {
        vector(cx, a, matrix, &callback, operand, states, out);
    }
}

fn storage(cx: &Cx, a: &TensorLoadStore, operand: usize, out: &mut Sink) {
    let classes = [StorageClass::StorageBuffer, StorageClass::PhysicalStorageBuffer];
    let Some(storage) = a.pointer.storage.filter(|s| !classes.contains(s)) else { return };
    let name = storage_name(storage);
    out.report(&STORAGE, a.at, || {
        Draft::new(format!("a decode function needs StorageBuffer or PhysicalStorageBuffer memory; this is {name}"))
            .label(a.at, Part::Operand(0), format!("points to {name} memory"))
            .label(a.at, Part::Operand(operand), "gets an address")
            .label_opt(cx.def(a.pointer.ty), Part::Operand(0), "the storage class")
    });
}

/// Returns the function, after checks of its parameters.
fn callback<'a>(
    cx: &Cx<'a>,
    a: &TensorLoadStore,
    name: &str,
    function: Id,
    operand: usize,
    out: &mut Sink,
) -> Option<Callback<'a>> {
    let Some(callback) = Callback::of(cx, function) else {
        not_function(cx, &NOT_FUNCTION, name, a.at, operand, function, out);
        return None;
    };
    if callback.len() != 3 {
        out.report(&COUNT, a.at, || {
            let is = callback.signature(cx);
            Draft::new(format!(
                "{name} takes a pointer, block coordinates and coordinates inside the block; this one takes {}",
                callback.len()
            ))
            .label(a.at, Part::Operand(operand), name)
            .label(callback.at, Part::Whole, shorten(is))
        });
    } else {
        pointer(cx, a, name, operand, &callback, out);
        for i in [1, 2] {
            coordinates(cx, a, name, operand, &callback, i, out);
        }
    }
    if let Some(write) = side_effect(cx, function) {
        out.report(&SIDE_EFFECTS, a.at, || {
            Draft::new(format!("{name} writes memory; it may run any number of times, in any order"))
                .label(a.at, Part::Operand(operand), name)
                .label(write, Part::Whole, "writes")
        });
    }
    Some(callback)
}

fn pointer(cx: &Cx, a: &TensorLoadStore, name: &str, operand: usize, callback: &Callback, out: &mut Sink) {
    let ty = callback.param(0);
    match ty.and_then(|t| Type::of(cx.module, t)) {
        Some(Type::Pointer { storage, pointee }) if storage == StorageClass::PhysicalStorageBuffer => {
            step(cx, a, operand, callback, pointee, out);
        }
        other => out.report(&POINTER, a.at, || {
            let is = match other {
                Some(Type::Pointer { storage, .. }) => format!("a pointer to {} memory", storage_name(storage)),
                _ => ty.map(|t| cx.describe(t)).unwrap_or_default(),
            };
            Draft::new(format!(
                "the first parameter of {name} must be a pointer to PhysicalStorageBuffer memory; it is {is}"
            ))
            .label(a.at, Part::Operand(operand), name)
            .label(callback.param_at(cx, 0), Part::Whole, format!("this is {is}"))
            .help("declare it so also where the load is from a StorageBuffer: the implementation makes the address")
        }),
    }
}

fn coordinates(
    cx: &Cx,
    a: &TensorLoadStore,
    name: &str,
    operand: usize,
    callback: &Callback,
    i: usize,
    out: &mut Sink,
) {
    let which = if i == 1 { "block coordinates" } else { "coordinates inside the block" };
    let Some(ty) = callback.param(i) else { return };
    let report = |out: &mut Sink, rule: &'static Rule, verdict, is: String, wanted: String| {
        out.judge(rule, verdict, a.at, || {
            Draft::new(format!("the {which} of {name} must be {wanted}; they are {is}"))
                .label(a.at, Part::Operand(operand), name)
                .label(callback.param_at(cx, i), Part::Whole, shorten(format!("this is {is}")))
        });
    };
    let Some(Type::Array { elem, len }) = Type::of(cx.module, ty) else {
        report(out, &COORDINATES, Verdict::Broken, cx.describe(ty), "an array of 32-bit integers".into());
        return;
    };
    if !is_int32(cx, elem) {
        let is = format!("an array of {}", cx.describe(elem));
        report(out, &COORDINATES, Verdict::Broken, is, "an array of 32-bit integers".into());
        return;
    }
    let Some(layout) = cx.module.type_of(a.layout).and_then(|t| cx.layout_type(t)) else { return };
    let (n, dims) = (cx.constant(len), cx.constant(layout.dim));
    let verdict = cx.equal(len, layout.dim);
    report(out, &COORDINATES, verdict, format!("{n}"), format!("{dims}, as many as the layout has dimensions"));
}

/// Returns the element type and the length of a vector type that may be returned.
fn vector_type(cx: &Cx, ty: Id) -> Option<(Id, Const)> {
    if let Some(Type::Vector { elem, len }) = Type::of(cx.module, ty) {
        return Some((elem, Const::Fixed(len.into())));
    }
    let inst = cx.module.def_inst(ty).filter(|i| i.op == Op::TypeVectorIdEXT)?;
    Some((inst.id(0)?, cx.constant(inst.id(1)?)))
}

fn vector(
    cx: &Cx,
    a: &TensorLoadStore,
    matrix: &CoopMatView,
    callback: &Callback,
    operand: usize,
    states: Option<&States>,
    out: &mut Sink,
) {
    let wanted = cx.describe(matrix.ty.component);
    let report = |out: &mut Sink, verdict, is: String| {
        out.judge(&VECTOR_RETURN, verdict, a.at, || {
            Draft::new(format!("DecodeVectorFunc must return a vector of 2, 4 or 8 {wanted}; it returns {is}"))
                .label(a.at, Part::Operand(operand), "DecodeVectorFunc")
                .label(callback.at, Part::Type, format!("returns {is}"))
        });
    };
    let found = vector_type(cx, callback.ret).filter(|(elem, _)| *elem == matrix.ty.component);
    let Some((_, n)) = found else {
        report(out, Verdict::Broken, cx.describe(callback.ret));
        return;
    };
    report(out, Verdict::of(&n, |n| matches!(n, 2 | 4 | 8)), cx.describe(callback.ret));
    let short = matches!(Type::of(cx.module, callback.ret), Some(Type::Vector { len: 8, .. }));
    if short && !cx.has(Capability::Vector16) && !cx.has(Capability::LongVectorEXT) {
        out.report(&VECTOR_EIGHT, a.at, || {
            Draft::new("a vector of 8 components needs capability LongVectorEXT (or Vector16, in kernels)")
                .label(a.at, Part::Operand(operand), "DecodeVectorFunc")
                .label_opt(cx.def(callback.ret), Part::Operand(1), "8 components")
        });
    }
    let layout = states.and_then(|s| s.layout(a.layout));
    if let (Some(layout), Some(n)) = (layout, n.fixed().filter(|n| matches!(n, 2 | 4 | 8)))
        && let Some(block) = layout.dims.checked_sub(1).and_then(|d| layout.block[d])
        && !u64::from(block).is_multiple_of(n)
    {
        out.report(&BLOCK_MULTIPLE, a.at, || {
            Draft::new(format!(
                "the innermost block size {block} is not a multiple of the {n} components of DecodeVectorFunc"
            ))
            .label(a.at, Part::Operand(operand), format!("decodes {n} at once"))
            .label_opt(layout.block_at, Part::Whole, format!("blocks of {block}"))
            .label(callback.at, Part::Type, format!("returns {n} components"))
        });
    }
}

fn step(cx: &Cx, a: &TensorLoadStore, operand: usize, callback: &Callback, pointee: Id, out: &mut Sink) {
    let Some((size, align)) = extent(cx, pointee) else { return };
    if align == 0 || size.is_multiple_of(align) {
        return;
    }
    out.report(&STEP, a.at, || {
        let rounded = size.next_multiple_of(align);
        Draft::new(format!(
            "a block of {size} bytes with alignment {align}: an H100 steps {size} bytes from block to block, others may step {rounded}"
        ))
        .label(a.at, Part::Operand(operand), "decodes blocks")
        .label(callback.param_at(cx, 0), Part::Whole, format!("points to {size} bytes"))
        .label_opt(cx.def(pointee), Part::Whole, format!("alignment {align}"))
        .help("pad the struct to a multiple of its alignment")
    });
}

/// Returns the end of a type's last byte, by its decorations, and the alignment of its largest scalar.
pub(crate) fn extent(cx: &Cx, ty: Id) -> Option<(u64, u64)> {
    extent_with(cx, ty, 0, &mut FxHashMap::default())
}

/// As [`extent`]. `known` has the types that were asked for: structs of structs may have very many parts.
fn extent_with(cx: &Cx, ty: Id, depth: u32, known: &mut Known) -> Option<(u64, u64)> {
    if let Some(extent) = known.get(&ty) {
        return *extent;
    }
    let extent = if depth > DEEPEST { None } else { computed_extent(cx, ty, depth + 1, known) };
    known.insert(ty, extent);
    extent
}

/// The extents of types.
type Known = FxHashMap<Id, Option<(u64, u64)>>;

/// Types are nested so deeply at most.
const DEEPEST: u32 = 16;

fn computed_extent(cx: &Cx, ty: Id, depth: u32, known: &mut Known) -> Option<(u64, u64)> {
    match Type::of(cx.module, ty)? {
        Type::Scalar(s) => Some((s.bytes().into(), s.bytes().into())),
        Type::Vector { elem, len } => {
            let bytes = cx.scalar(elem).map(Scalar::bytes)?;
            Some((u64::from(bytes) * u64::from(len), bytes.into()))
        }
        Type::Array { elem, len } => {
            let (size, align) = extent_with(cx, elem, depth, known)?;
            let stride = cx.decorations().value(ty, Decoration::ArrayStride)?;
            let n = cx.constant(len).fixed()?;
            Some((n.checked_sub(1)?.checked_mul(stride.into())?.checked_add(size)?, align))
        }
        Type::Struct { members } => {
            let (mut end, mut align) = (0u64, 1u64);
            for (i, m) in members.iter().enumerate() {
                let (size, a) = extent_with(cx, *m, depth, known)?;
                let offset = cx.decorations().member_value(ty, u32::try_from(i).ok()?, Decoration::Offset)?;
                end = end.max(u64::from(offset).checked_add(size)?);
                align = align.max(a);
            }
            Some((end, align))
        }
        _ => None,
    }
}
