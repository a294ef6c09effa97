//! The GPUs of `--gpu`: those that `scripts/drivers.sh` has drivers for.

use std::path::PathBuf;

use coop_cli::cooprun::Failure;
use coop_exec::testing;

/// A GPU that is not there.
pub(crate) struct Gpu {
    /// Its name.
    pub(crate) name: String,
    /// The program that starts others with its driver.
    pub(crate) runner: PathBuf,
}

/// A driver that executes, on any machine: it is none of all the GPUs.
const SWIFTSHADER: &str = "swiftshader";

/// Returns the GPUs of these names; `all` is every one, and `swiftshader` may be named besides.
pub(crate) fn named(names: &[String]) -> Result<Vec<Gpu>, Failure> {
    let known = testing::gpus().map_err(|error| Failure::Usage(format!("scripts/drivers.sh gpus: {error}")))?;
    let mut gpus = Vec::new();
    for name in names.iter().flat_map(|name| if name == "all" { known.clone() } else { vec![name.clone()] }) {
        if !known.contains(&name) && name != SWIFTSHADER {
            let known = known.join(", ");
            return Err(Failure::Usage(format!("--gpu: there is no '{name}', only: {known}, {SWIFTSHADER}")));
        }
        let runner = testing::runner_of_gpu(&name);
        if !runner.exists() {
            let why = format!("{name}: no {}; scripts/drivers.sh gpu fetches the drivers", runner.display());
            return Err(Failure::Usage(why));
        }
        gpus.push(Gpu { name, runner });
    }
    Ok(gpus)
}
