//! Lowers tensor layouts and views (SPV_NV_tensor_addressing), and the loads and stores through them.
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
//! in this order, and no other instruction makes or changes layouts and views. So the operands of these describe the
//! access completely: 32-bit unsigned values, as many of them as possible constants. Strides that SetDimension implies,
//! sums of offsets and the phis of parts are plain integer code.
//!
//! Refuses: layouts and views inside composites, or in variables that are not function-local.
//!
//! # Lowering the accesses
//!
//! [`Tensors::access`] decodes one of these chains; an [`Access`] generates the code that a lowering of matrices needs
//! to load or store elements one by one or in runs. [`access`] shows how it is used.

pub(crate) mod access;
mod base_address;
pub(crate) mod byte_address;
mod decode;
mod decode_reads;
mod direct;
mod divisibility;
pub mod elementwise;
mod emit;
mod index_math;
mod layout_chain;
mod locate;
mod memory;
mod normalize;
mod promises;
mod vectorized;
mod zeros;

pub(crate) use access::{Access, Loaded, Tensors};
pub(crate) use base_address::is_misaligned_pointer;
pub(crate) use emit::{Share, Visit};
pub(crate) use normalize::run;

use coop_ir::spv::TensorClampMode;

/// Modes of `OpTypeTensorLayoutNV`.
const CLAMP_UNDEFINED: u32 = TensorClampMode::Undefined.0;
const CLAMP_CONSTANT: u32 = TensorClampMode::Constant.0;
const CLAMP_TO_EDGE: u32 = TensorClampMode::ClampToEdge.0;
const CLAMP_REPEAT: u32 = TensorClampMode::Repeat.0;
const CLAMP_MIRRORED: u32 = TensorClampMode::RepeatMirrored.0;
