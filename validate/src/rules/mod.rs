//! The rules, one file for each family. A file has the declarations of its rules and the functions that check them.

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod arithmetic;
pub(crate) mod arm;
pub(crate) mod callback;
pub(crate) mod change_use;
pub(crate) mod component;
pub(crate) mod composite;
pub(crate) mod constant;
pub(crate) mod convert;
pub(crate) mod coordinate;
pub(crate) mod decode;
pub(crate) mod device;
pub(crate) mod element;
pub(crate) mod form;
pub(crate) mod intel;
pub(crate) mod length;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod moves;
pub(crate) mod muladd;
pub(crate) mod nv1;
pub(crate) mod perelement;
pub(crate) mod qcom;
pub(crate) mod reduce;
pub(crate) mod requirements;
pub(crate) mod shared;
pub(crate) mod stride;
pub(crate) mod sync;
pub(crate) mod tensor;
pub(crate) mod types;
#[cfg(feature = "uniformity")]
pub(crate) mod uniformity;

use crate::cx::Cx;
use crate::operation::Operation;
use crate::report::Sink;
use crate::rule::Rule;
use coop_ir::spv::Capability as Cap;
use coop_ir::spv::Capability;
use coop_ir::types::Scalar;
use coop_ir::{InstRef, Op};
use tensor::state::States;

/// Checks the rules about the module as a whole, then visits the instructions that involve matrices.
pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    module::check(cx, out);
    if cx.has_transpose() {
        change_use::targets(cx, out);
    }
    if cx.has(Capability::CacheControlsINTEL) {
        intel::cache_controls(cx, out);
    }
    // Capability Float8EXT adds a decoration that any instruction may have.
    let small = [Cap::Float8EXT, Cap::Int4TypeINTEL, Cap::Int4CooperativeMatrixINTEL];
    if cx.has_small_floats() || small.iter().any(|c| cx.declares(*c)) {
        component::globals(cx, out);
    }
    shared::check(cx, out);
    sync::check(cx, out);
    types::check(cx, out);
    let storage_only = |c: Option<Scalar>| c.is_some_and(|c| component::storage_only(c).is_some());
    let small = cx.matrices().iter().any(|m| storage_only(m.component))
        || cx.nv_matrices().iter().any(|m| storage_only(m.component));
    for &at in &cx.globals {
        global(cx, at, small, out);
    }
    for &at in &cx.body {
        instruction(cx, at, out);
        moves::check(cx, at, out);
        let o = Operation::new(cx, at);
        operation(cx, &o, out);
        if small {
            component::operation(cx, &o, out);
        }
        if cx.has_nv1() {
            nv1::instruction(cx, at, out);
        }
        intel::instruction(cx, at, out);
    }
    if cx.has_tensors() {
        tensors(cx, out);
    }
    arithmetic::functions(cx, out);
    form::check(cx, out);
}

/// Checks a type, constant or variable; `small`: there are matrices with storage-only components.
fn global(cx: &Cx, at: InstRef, small: bool, out: &mut Sink) {
    match cx.inst(at).op {
        Op::Variable | Op::UntypedVariableKHR => variable(cx, at, out),
        Op::TypeTensorLayoutNV => tensor::types::layout(cx, at, out),
        Op::TypeTensorViewNV => tensor::types::view(cx, at, out),
        Op::ConstantComposite | Op::SpecConstantComposite => {
            composite::constituents(cx, &composite::CONSTANT, at, out);
        }
        Op::ConstantCompositeReplicateEXT | Op::SpecConstantCompositeReplicateEXT => {
            composite::constituents(cx, &composite::REPLICATE, at, out);
        }
        Op::SpecConstantOp => {
            let Some(o) = Operation::specialized(cx, at) else { return };
            if constant::operation(cx, &o, out) {
                operation(cx, &o, out);
                if small {
                    component::operation(cx, &o, out);
                }
            }
        }
        _ => {}
    }
}

fn variable(cx: &Cx, at: InstRef, out: &mut Sink) {
    types::variable(cx, at, out);
    tensor::types::variable(cx, at, out);
}

/// Checks loads, stores and changes of tensor layouts, which need the values of layouts in each function.
fn tensors(cx: &Cx, out: &mut Sink) {
    for i in 0..cx.module.functions.len() {
        let states = States::new(cx, i);
        cx.body_of(i).iter().for_each(|&at| match cx.inst(at).op {
            Op::CooperativeMatrixLoadTensorNV => tensor::access::check(cx, at, true, states.as_ref(), out),
            Op::CooperativeMatrixStoreTensorNV => tensor::access::check(cx, at, false, states.as_ref(), out),
            Op::TensorLayoutSetStrideNV | Op::TensorLayoutSetClampValueNV => {
                if let Some(states) = &states {
                    tensor::values::change(cx, at, states, out);
                }
            }
            _ => {}
        });
    }
}

fn instruction(cx: &Cx, at: InstRef, out: &mut Sink) {
    match cx.inst(at).op {
        Op::CooperativeMatrixLoadKHR => access::check(cx, at, true, out),
        Op::CooperativeMatrixStoreKHR => access::check(cx, at, false, out),
        Op::CooperativeMatrixMulAddKHR => muladd::muladd(cx, at, out),
        Op::CooperativeMatrixReduceNV => reduce::check(cx, at, out),
        Op::CooperativeMatrixConvertNV => change_use::convert(cx, at, out),
        Op::CooperativeMatrixTransposeNV => change_use::transpose(cx, at, out),
        Op::CooperativeMatrixPerElementOpNV => perelement::check(cx, at, out),
        Op::CooperativeMatrixGetCoordinateEXT | Op::CooperativeMatrixGetElementCoordINTEL => {
            coordinate::check(cx, at, out);
        }
        Op::BitCastArrayQCOM => qcom::bitcast(cx, at, out),
        Op::CompositeConstructCoopMatQCOM | Op::CompositeExtractCoopMatQCOM => qcom::composite(cx, at, out),
        Op::ExtractSubArrayQCOM => qcom::subarray(cx, at, out),
        op if op.is_tensor_layout() || op.is_tensor_view() => tensor::ops::check(cx, at, out),

        Op::Variable | Op::UntypedVariableKHR => variable(cx, at, out),
        Op::SizeOf => types::size_of(cx, at, out),
        Op::CompositeConstruct => composite::constituents(cx, &composite::CONSTRUCT, at, out),
        Op::CompositeConstructReplicateEXT => composite::constituents(cx, &composite::REPLICATE, at, out),
        Op::FunctionCall => arithmetic::call(cx, at, out),
        _ => {}
    }
}

/// Checks an operation on values, which may be that of an `OpSpecConstantOp`.
fn operation(cx: &Cx, o: &Operation, out: &mut Sink) {
    match o.op {
        Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV => length::check(cx, o, out),

        Op::CompositeExtract => element::extract(cx, o, out),
        Op::CompositeInsert => element::insert(cx, o, out),
        op if op.is_member_chain() => element::chain(cx, o, 1, out),
        // The first index steps over whole objects.
        Op::PtrAccessChain | Op::InBoundsPtrAccessChain => element::chain(cx, o, 2, out),

        Op::Bitcast => {
            types::pointer_bitcast(cx, o, out);
            convert::conversion(cx, o, out);
        }
        op if op.is_conversion() => convert::conversion(cx, o, out),
        Op::QuantizeToF16
        | Op::ConvertPtrToU
        | Op::SatConvertSToU
        | Op::SatConvertUToS
        | Op::ConvertUToPtr
        | Op::PtrCastToGeneric
        | Op::GenericCastToPtr
        | Op::GenericCastToPtrExplicit => convert::not_allowed(cx, o, out),

        Op::FNegate | Op::FAdd | Op::FSub | Op::FMul | Op::FDiv => arithmetic::arithmetic(cx, o, false, out),
        Op::SNegate | Op::IAdd | Op::ISub | Op::IMul | Op::SDiv | Op::UDiv => {
            arithmetic::arithmetic(cx, o, true, out);
        }
        Op::MatrixTimesScalar => arithmetic::times_scalar(cx, o, out),
        Op::Select => {
            arithmetic::select(cx, o, out);
            moves::select(cx, o, out);
        }
        Op::ExtInst | Op::ExtInstWithForwardRefsKHR => arithmetic::extended(cx, o, out),
        op if op.is_intel_float_conversion() => nv1::converted(cx, o, out),
        op if arithmetic::refuses_matrices(op) => arithmetic::refused(cx, o, out),
        _ => {}
    }
}

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[
    &access::LAYOUT_CAPABILITY,
    &access::LAYOUT_NOT_CONSTANT,
    &access::LAYOUT_UNKNOWN,
    &access::NOT_IN_ARRAY,
    &stride::OUT_OF_BOUNDS,
    &access::POINTEE_TYPE,
    &stride::POINTER_MISALIGNED,
    &access::POINTER_SOURCE,
    &access::POINTER_TYPE,
    &component::STORED,
    &access::STORAGE_CLASS,
    &stride::MISALIGNED,
    &stride::MISSING,
    &stride::TYPE,
    &stride::UNTYPED,
    &arithmetic::COMPONENT,
    &arithmetic::DIVIDE,
    &arithmetic::NOT_ALLOWED,
    &arithmetic::SCALAR_INTEGER,
    &arithmetic::SCALAR_OPENCL,
    &arithmetic::SCALAR_TYPE,
    &arithmetic::TYPE_MISMATCH,
    &arm::SHAPE,
    &arm::STRIDE,
    &arithmetic::CALL,
    &component::ARITHMETIC,
    &component::INT4_MEMORY,
    &component::INTERFACE,
    &component::MICROSCALING,
    &component::REDUCE,
    &component::SATURATED,
    &component::WIDTH,
    &composite::CONSTANT,
    &constant::OPERATION,
    &composite::CONSTRUCT,
    &convert::BITCAST_COMPONENT,
    &convert::BITCAST_USE,
    &convert::COMPONENT,
    &convert::NOT_ALLOWED,
    &convert::OPERAND_NOT_MATRIX,
    &convert::SHAPE_MISMATCH,
    &convert::USE_MISMATCH,
    &coordinate::RANGE,
    &coordinate::INDEX,
    &coordinate::NOT_MATRIX,
    &coordinate::RESULT,
    &decode::NOT_FUNCTION,
    &decode::COORDINATES,
    &decode::COUNT,
    &decode::POINTER,
    &decode::RETURN,
    &decode::SIDE_EFFECTS,
    &decode::STORAGE,
    &decode::VECTOR_ALONE,
    &decode::BLOCK_MULTIPLE,
    &decode::VECTOR_EIGHT,
    &decode::VECTOR_RETURN,
    &device::alignment::UNPROVEN,
    &device::feature::BLOCKS,
    &device::pipeline::RANGE,
    &device::feature::CAPABILITY,
    &device::matrix::SIGNEDNESS,
    &device::matrix::DIMENSION,
    &device::feature::EXTENSION,
    &device::pipeline::FULL_SUBGROUPS,
    &device::pipeline::LOCAL_SIZE,
    &device::matrix::MULADD,
    &device::NOT_JUDGED,
    &device::nv1::NV1_MULADD,
    &device::nv1::NV1_TYPE,
    &device::matrix::LANES,
    &device::matrix::WORKGROUP_SCOPE,
    &device::pipeline::SHARED,
    &device::feature::VERSION,
    &device::pipeline::STAGE,
    &device::matrix::TYPE,
    &device::UNDECIDED,
    &device::pipeline::WORKGROUP,
    &element::INDEX_COUNT,
    &element::INDEX_RANGE,
    &element::INDEX_TYPE,
    &element::TYPE,
    &intel::rules::APPLY_NOTE,
    &intel::rules::APPLY,
    &intel::rules::BF16_SIGNED,
    &intel::rules::BF16,
    &intel::rules::CACHE,
    &intel::rules::CAPABILITY,
    &intel::rules::COLUMN_MAJOR,
    &intel::rules::CHECKED_STORAGE,
    &intel::rules::CHECKED,
    &intel::rules::CHECKED_VALUE,
    &intel::rules::CONVERSION,
    &intel::rules::FILL,
    &intel::rules::PACKED_A,
    &intel::rules::PACKED_ACCUMULATOR,
    &intel::rules::PACKED_ROWS,
    &intel::rules::PREFETCH,
    &intel::rules::TF32,
    &length::OPERAND_TYPE,
    &length::RESULT_TYPE,
    &access::LOAD_RESULT,
    &stride::LOAD_NEGATIVE,
    &memory::ALIGNED_MISSING,
    &memory::NOT_MULTIPLE,
    &memory::NOT_POWER,
    &memory::LOAD_AVAILABLE,
    &memory::PRIVATE,
    &memory::UNKNOWN,
    &memory::SCOPE_NOT_CONSTANT,
    &memory::SCOPE_UNSUPPORTED,
    &memory::STORE_VISIBLE,
    &module::CAPABILITY_MISSING,
    &module::ENTRY_CALLED,
    &form::INTERFACE,
    &module::ENTRY_MISSING,
    &module::EXTENSION_MISSING,
    &module::MEMORY_MODEL,
    &form::SURPLUS_WORDS,
    &form::VALUE_TYPE,
    &form::VARIABLE_POINTER,
    &module::VERSION_EXTENSION,
    &module::VERSION_TOO_OLD,
    &module::WORKGROUP_SIZE,
    &moves::STORAGE,
    &moves::TYPE_MISMATCH,
    &muladd::COMPONENT_WIDER,
    &muladd::K_MISMATCH,
    &muladd::M_MISMATCH,
    &muladd::N_MISMATCH,
    &muladd::OPERAND_NOT_MATRIX,
    &muladd::OPERANDS_UNKNOWN,
    &muladd::SATURATING_FLOAT,
    &muladd::SCOPE_MISMATCH,
    &muladd::SIGNED_DISAGREES,
    &muladd::SIGNED_NOT_INTEGER,
    &muladd::USE_MISMATCH,
    &nv1::ACCESS,
    &nv1::COLUMN_MAJOR,
    &nv1::CONVERT,
    &nv1::SHAPE,
    &nv1::NOT_ALLOWED,
    &nv1::NOT_MATRIX,
    &nv1::STORAGE,
    &nv1::TYPE,
    &perelement::COUNT,
    &perelement::ARGUMENT,
    &perelement::NOT_FUNCTION,
    &perelement::SIDE_EFFECTS,
    &perelement::SIGNATURE,
    &perelement::TYPE,
    &convert::BF16_ROUNDING,
    &tensor::rules::CLIP,
    &decode::STEP,
    &tensor::rules::DEFAULT_STRIDES,
    &tensor::rules::ENDLESS,
    &length::SPECIALIZED,
    &tensor::rules::EXCEEDS,
    &shared::MISPLACED,
    &qcom::LENGTH,
    &qcom::ARRAY,
    &qcom::BITCAST,
    &qcom::COMPONENT,
    &qcom::ELEMENT,
    &qcom::SCOPE,
    &qcom::SHAPE,
    &qcom::MULTIPLE,
    &qcom::BOUNDS,
    &qcom::SUBARRAY,
    &reduce::COMPONENT,
    &reduce::MASK,
    &reduce::NOT_FUNCTION,
    &reduce::NOT_MATRIX,
    &reduce::SCOPE,
    &reduce::SHAPE,
    &reduce::SIGNATURE,
    &reduce::USE,
    &composite::REPLICATE,
    &arithmetic::SELECT,
    &access::STORE_OBJECT,
    &stride::ROWS_OVERLAP,
    &stride::STORE_NOT_POSITIVE,
    &sync::DEVICE_SCOPE,
    &sync::EXECUTION_SCOPE,
    &sync::SCOPE_NOT_CONSTANT,
    &sync::SEMANTICS_NOT_CONSTANT,
    &tensor::access::NOT_MATRIX,
    &tensor::rules::BLOCK_AFTER,
    &tensor::rules::BLOCK_ZERO,
    &tensor::types::CLAMP_NOT_CONSTANT,
    &tensor::types::CLAMP_UNKNOWN,
    &tensor::rules::CLAMP_UNUSED,
    &tensor::rules::CLAMP_64,
    &tensor::types::DIMENSION_NOT_CONSTANT,
    &tensor::types::DIMENSION_RANGE,
    &tensor::types::HAS_DIMENSIONS,
    &tensor::access::LAYOUT,
    &tensor::rules::MIRROR,
    &tensor::access::OBJECT,
    &tensor::ops::COUNT,
    &tensor::ops::OPERAND,
    &tensor::access::UNKNOWN,
    &tensor::rules::OUT_OF_BOUNDS,
    &tensor::types::PERMUTATION,
    &tensor::types::PERMUTATION_COUNT,
    &tensor::access::NOT_IN_ARRAY,
    &tensor::access::POINTER,
    &tensor::ops::RESULT,
    &tensor::rules::SPAN_ZERO,
    &tensor::access::STORAGE,
    &tensor::rules::STORE_BLOCK,
    &tensor::access::STORE_DECODE,
    &tensor::rules::STORE_OVERLAP,
    &tensor::rules::STRIDE_BROADCAST,
    &tensor::rules::STRIDE_ORDER,
    &tensor::types::STORAGE,
    &tensor::rules::VIEW_ZERO,
    &tensor::access::VIEW,
    &tensor::rules::RANK_EXCEEDS,
    &tensor::rules::RANK_LESS,
    &change_use::TRANSPOSE_COMPONENT,
    &change_use::TARGET,
    &change_use::TRANSPOSE_SHAPE,
    &change_use::TRANSPOSE_USE,
    &types::COLUMNS_NOT_CONSTANT,
    &types::COMPONENT_NOT_SCALAR,
    &types::DIMENSION_ZERO,
    &types::DUPLICATE,
    &types::IN_BLOCK,
    &types::POINTER_BITCAST,
    &types::ROWS_NOT_CONSTANT,
    &types::SCOPE_NOT_CONSTANT,
    &types::SCOPE_UNSUPPORTED,
    &types::SIZE_OF,
    &types::USE_NOT_CONSTANT,
    &types::USE_UNKNOWN,
    &types::VARIABLE_STORAGE,
    #[cfg(feature = "uniformity")]
    &uniformity::ASSUMED,
    #[cfg(feature = "uniformity")]
    &uniformity::BARRIER,
    #[cfg(feature = "uniformity")]
    &uniformity::CALLBACK,
    #[cfg(feature = "uniformity")]
    &uniformity::FLOW,
    #[cfg(feature = "uniformity")]
    &uniformity::OPERAND,
    #[cfg(feature = "uniformity")]
    &uniformity::RECURSION,
    &change_use::TYPES,
    &change_use::DIRECTION,
    &change_use::NOT_MATRIX,
    &change_use::SHAPE,
];
