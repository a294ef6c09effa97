//! What develops the other crates and no user needs.
//!
//! The [generator] makes modules from entropy and breaks their rules; [campaigns](campaign) run them in every
//! way there is and compare; [`uniformity`] compares what the analysis says with what the interpreter sees; [`record`]
//! keeps what devices wrote; [`figures`] lists kernels to measure; [`fuzz`] has the bodies of the fuzzers.

pub mod campaign;
pub mod engine;
pub mod figures;
pub mod fuzz;
pub mod generator;
pub mod record;
pub mod uniformity;
