//! `cooplower --prove`: a lowering is written only if it is proved to store what the original stores.

use std::path::Path;

use coop_exec::Case;
use coop_exec::interp::{Config, Interpreted};
use coop_exec::proof::{Options as ProofOptions, Proof, prove};
use coop_ir::Module;
use coop_passes::{Lowered, Options};

use crate::cooprun::verify::{as_written, asked};
use crate::io::FileError;

/// Proves a lowering for the case in a file.
pub(crate) fn proof(
    original: &Module,
    lowered: &Lowered,
    options: &Options<'_>,
    path: &Path,
) -> Result<Proof, FileError> {
    let fail =
        |error: coop_exec::Error| FileError { name: format!("--prove {}", path.display()), message: error.to_string() };
    let mut case = Case::load(path).map_err(fail)?;
    for (id, value) in options.spec.iter() {
        case.spec.insert(id.to_string(), value.into());
    }
    case.entry = options.entry.clone().or(case.entry);
    case.local_size = case.local_size.or(options.local_size);
    let device = options.profile.map(|profile| profile.limits.subgroup_size);
    let config = Config::default();
    case.subgroup_size = case.subgroup_size.or(options.subgroup_size);
    let size = case.subgroup_size.or(device).unwrap_or(config.subgroup_size);
    let interpreted = Interpreted { config: Config { subgroup_size: size, ..config } };
    let asked = asked(&case, &lowered.report);
    let module = as_written(&lowered.module).map_err(fail)?;
    prove(&interpreted, (original, &case), (&module, &asked), &ProofOptions::default()).map_err(fail)
}
