//! The subcommands of `cooplab`, one file each.

pub(crate) mod campaign;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod devices_page;
pub(crate) mod figures;
mod gpus;
pub(crate) mod lowering;
pub(crate) mod mutants;
pub(crate) mod profiles;
pub(crate) mod proofs;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod shrink;
pub(crate) mod uniformity;
