//! Development tools for the other crates, which no user needs.
//!
//! The [generator] makes modules from entropy and breaks their rules; [campaigns](campaign) run them in every way there
//! is and compare the results; [`uniformity`] compares the analysis with the interpreter; [`record`] keeps the results
//! of devices; [`compile`] tries the compilers of drivers with the modules of the [`corpus`], and [`profiles`] keeps what
//! these drivers say of their devices; [`proofs`] proves lowerings, and refutes those with [`planted`] errors;
//! [`proof_campaign`] proves those of generated modules, [`proof_parts`] in parts and in processes of their own;
//! [`llama`] has cases for an engine's modules; [`figures`] lists kernels to measure; [`fuzz`] has the bodies of the fuzzers.

pub mod campaign;
pub mod compile;
pub mod corpus;
pub mod devices_page;
pub mod engine;
pub mod figures;
pub mod fuzz;
pub mod generator;
pub mod llama;
pub mod planted;
pub mod profiles;
pub mod proof_campaign;
pub mod proof_parts;
pub mod proof_reasons;
pub mod proofs;
pub mod record;
pub mod uniformity;
