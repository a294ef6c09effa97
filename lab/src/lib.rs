//! What develops the other crates and no user needs.
//!
//! The [generator](generator) makes modules from entropy and breaks their rules; [campaigns](campaign) run them in every
//! way there is and compare; [`uniformity`] compares what the analysis says with what the interpreter sees; [`record`]
//! keeps what devices wrote; [`figures`] lists kernels to measure; [`fuzz`] has the bodies of the fuzzers; [`grammar`]
//! writes the tables of `coop_ir`.

pub mod campaign;
pub mod figures;
pub mod fuzz;
pub mod generator;
pub mod grammar;
pub mod record;
pub mod uniformity;
