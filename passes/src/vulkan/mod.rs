//! From kernels to compute shaders.

pub(crate) mod flow;
