//! The subcommands of `cooplab`, one file each.

pub(crate) mod campaign;
pub(crate) mod figures;
pub(crate) mod mutants;
pub(crate) mod proofs;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod uniformity;
