//! `cooplab profiles`: the built-in profiles of GPUs that are not there, as their drivers say today.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_cli::Status;
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::io;
use coop_cli::process::{self, End, Limits};
use coop_device::Profile;
use coop_lab::profiles::{changes, file_of, from_driver, name_of};

use super::gpus::{self, Gpu};

#[derive(Args, Debug)]
pub(crate) struct Profiles {
    /// GPUs, by the names of `scripts/drivers.sh gpus`, or all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all")]
    gpu: Vec<String>,
    /// Write those that changed, dated
    #[arg(long, value_name = "YYYY-MM-DD")]
    write: Option<String>,
    /// Print the profile of the device at hand
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The limits of a process that asks a driver.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), memory: 4096 };

impl Profiles {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if self.worker {
            let vulkan = coop_exec::Vulkan::open(false)?;
            print(&self.device.executor(&vulkan)?.profile().to_json());
            return Ok(Status::Success);
        }
        let mut changed = 0;
        for gpu in gpus::named(&self.gpu)? {
            let now = from_driver(&gpu.name, &ask(&gpu)?, self.write.as_deref().unwrap_or("today"));
            let found = match Profile::builtin(name_of(&gpu.name)) {
                Some(built_in) => changes(&built_in, &now),
                None => vec!["there is no such profile yet".to_owned()],
            };
            if found.is_empty() {
                print(&format!("{}: as built in", now.name));
                continue;
            }
            changed += 1;
            print(&format!("{}, as {} has it:\n  {}", now.name, now.driver_info, found.join("\n  ")));
            if self.write.is_some() {
                io::write_bytes(&file_of(&now.name), now.to_json().as_bytes())?;
            }
        }
        Ok(if changed == 0 || self.write.is_some() { Status::Success } else { Status::Findings })
    }
}

/// Returns what the driver of a GPU says.
fn ask(gpu: &Gpu) -> Result<Profile, Failure> {
    let mut command = process::program_with(Some(gpu.runner.as_os_str()));
    command.args(["profiles", "--worker"]).stdin(Stdio::null());
    let failed = |why: String| Failure::Usage(format!("{}: {why}", gpu.name));
    let finished = process::finish(&mut command, LIMITS).map_err(|error| failed(error.to_string()))?;
    match finished.end {
        End::Status(0) => Profile::from_json(&finished.stdout).map_err(|error| failed(error.to_string())),
        end => Err(failed(format!("the process {end}: {}", finished.last_words().unwrap_or_default()))),
    }
}
