//! The rules, a file a family. A file holds the declarations of its rules and the functions that apply them.

pub(crate) mod access;
pub(crate) mod arithmetic;
pub(crate) mod composite;
pub(crate) mod convert;
pub(crate) mod element;
pub(crate) mod length;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod muladd;
pub(crate) mod stride;
pub(crate) mod sync;
pub(crate) mod types;

use crate::rule::Rule;

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[
    &access::LAYOUT_CAPABILITY,
    &access::LAYOUT_NOT_CONSTANT,
    &access::LAYOUT_UNKNOWN,
    &access::NOT_IN_ARRAY,
    &stride::OUT_OF_BOUNDS,
    &access::POINTEE_TYPE,
    &access::POINTER_SOURCE,
    &access::POINTER_TYPE,
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
    &arithmetic::CALL,
    &composite::CONSTANT,
    &composite::CONSTRUCT,
    &convert::BITCAST_COMPONENT,
    &convert::BITCAST_USE,
    &convert::COMPONENT,
    &convert::NOT_ALLOWED,
    &convert::OPERAND_NOT_MATRIX,
    &convert::SHAPE_MISMATCH,
    &convert::USE_MISMATCH,
    &element::INDEX_COUNT,
    &element::INDEX_RANGE,
    &element::INDEX_TYPE,
    &element::TYPE,
    &length::OPERAND_TYPE,
    &length::RESULT_TYPE,
    &length::SPECIALIZED,
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
    &module::EXTENSION_MISSING,
    &module::MEMORY_MODEL,
    &module::VERSION_TOO_OLD,
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
    &arithmetic::SELECT,
    &access::STORE_OBJECT,
    &stride::ROWS_OVERLAP,
    &stride::STORE_NOT_POSITIVE,
    &sync::SCOPE_NOT_CONSTANT,
    &sync::SEMANTICS_NOT_CONSTANT,
    &types::COLUMNS_NOT_CONSTANT,
    &types::COMPONENT_NOT_SCALAR,
    &types::DIMENSION_ZERO,
    &types::IN_BLOCK,
    &types::POINTER_BITCAST,
    &types::ROWS_NOT_CONSTANT,
    &types::SCOPE_NOT_CONSTANT,
    &types::SCOPE_UNSUPPORTED,
    &types::SIZE_OF,
    &types::USE_NOT_CONSTANT,
    &types::USE_UNKNOWN,
    &types::VARIABLE_STORAGE,
];
