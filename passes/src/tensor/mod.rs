//! Tensor layouts and views (SPV_NV_tensor_addressing), and the loads and stores that go by them.
//!
//! # The pass
//!
//! Precondition: `inline`, so that layouts and views are values of one function. Effect, on SPIR-V that stays valid
//! and means the same: each tensor load and store has a layout (and view) of its own, made right in front of it by
//!
//! ```text
//! Create, SetBlockSize, SetDimension, SetStride, Slice, SetClampValue       Create, SetDimension, SetStride, SetClip
//! ```
//!
//! in this order, and nothing else makes or changes layouts and views. So what an access goes by are the operands of
//! these: 32-bit unsigned values, as many of them as possible constants. Strides that SetDimension implies, sums of
//! offsets and what meets in phis are computed by plain integer code.
//!
//! Refuses: layouts and views inside composites, or in variables that are not of one function.
//!
//! # Lowering the accesses
//!
//! [`Tensors::access`] reads one of these chains; an [`Access`] makes the code that a realisation of matrices needs
//! to load or store elements one by one or in runs. [`access`] shows how it is used.

pub(crate) mod access;
mod align;
pub(crate) mod bytes;
mod calc;
mod decode;
mod direct;
mod locate;
mod memory;
mod normal;
mod origin;
mod parts;
pub mod plain;
mod reads;
mod visit;
mod wide;
mod zeros;

pub(crate) use access::{Access, Loaded, Tensors};
pub(crate) use normal::run;
pub(crate) use origin::points_beside;
pub(crate) use visit::Visit;

use coop_ir::Op;
use coop_ir::spv::TensorClampMode;

/// The instructions that make or change layouts.
const OF_LAYOUT: [Op; 6] = [
    Op::CreateTensorLayoutNV,
    Op::TensorLayoutSetBlockSizeNV,
    Op::TensorLayoutSetDimensionNV,
    Op::TensorLayoutSetStrideNV,
    Op::TensorLayoutSliceNV,
    Op::TensorLayoutSetClampValueNV,
];

/// The instructions that make or change views.
const OF_VIEW: [Op; 4] =
    [Op::CreateTensorViewNV, Op::TensorViewSetDimensionNV, Op::TensorViewSetStrideNV, Op::TensorViewSetClipNV];

/// Modes of `OpTypeTensorLayoutNV`.
const CLAMP_UNDEFINED: u32 = TensorClampMode::Undefined.0;
const CLAMP_CONSTANT: u32 = TensorClampMode::Constant.0;
const CLAMP_TO_EDGE: u32 = TensorClampMode::ClampToEdge.0;
const CLAMP_REPEAT: u32 = TensorClampMode::Repeat.0;
const CLAMP_MIRRORED: u32 = TensorClampMode::RepeatMirrored.0;
