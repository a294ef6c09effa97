//! `cooplab shrink`: makes a module small that a driver crashes at or refuses.
//!
//! Each try is compiled by a process of its own. A smaller module counts if it is well formed and the driver does the same
//! with it: crashes, or refuses it with the same message.

use std::mem::discriminant;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_cli::Status;
use coop_cli::args::{MOST_SECONDS, whole};
use coop_cli::cooprun::{DeviceArgs, Failure, print, read_words};
use coop_cli::io;
use coop_cli::process::{self, End, Limits};
use coop_exec::Case;
use coop_ir::text::{PrintOptions, print as disassemble};
use coop_ir::{Module, binary};
use coop_lab::campaign::reduce;
use coop_lab::compile::{Fate, Given, attempt};

use super::gpus::{self, Gpu};

#[derive(Args, Debug)]
pub(crate) struct Shrink {
    /// The module, with its case beside it (FILE.toml): `cooplab compile --keep` writes both
    module: PathBuf,
    /// The GPU whose driver it is, by its name in `scripts/drivers.sh gpus`; without it the device at hand
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// The number of attempts
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tries: u32,
    /// The time limit of an attempt in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// The file to write the assembly of the small module to
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Compile the module in this process
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Shrink {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if self.worker {
            let case = Case::load(&self.module.with_extension("toml"))?;
            let given = Given { words: read_words(&self.module)?, case, native: true };
            let vulkan = coop_exec::Vulkan::open(false)?;
            let fate = attempt(&self.device.executor(&vulkan)?, &given);
            let text = serde_json::to_string(&fate).map_err(|error| Failure::Usage(error.to_string()))?;
            print(&text);
            return Ok(Status::Success);
        }
        let gpu = match &self.gpu {
            Some(name) => gpus::named(std::slice::from_ref(name))?.pop(),
            None => None,
        };
        let module = io::load(&self.module)?.module;
        let folder = std::env::temp_dir().join(format!("cooplab-shrink-{}", std::process::id()));
        let failed = |error: std::io::Error| Failure::Usage(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let file = folder.join("try.spv");
        std::fs::copy(self.module.with_extension("toml"), file.with_extension("toml")).map_err(failed)?;
        let result = self.shrink(&module, &file, gpu.as_ref());
        let _ = std::fs::remove_dir_all(&folder);
        let (small, fate) = result?;
        io::error(&format!("{fate}"));
        let text = disassemble(&small, &PrintOptions::default()).text;
        io::write_bytes(&self.output, text.as_bytes())?;
        Ok(Status::Success)
    }

    /// Returns the smallest module found, and what the driver does with it.
    fn shrink(&self, module: &Module, file: &std::path::Path, gpu: Option<&Gpu>) -> Result<(Module, Fate), Failure> {
        let fate_of = |module: &Module| {
            std::fs::write(file, binary::write(module)).ok()?;
            self.fate(file, gpu)
        };
        let Some(first) = fate_of(module).filter(|fate| fate.is_trouble() && !matches!(fate, Fate::Ours(_))) else {
            let why =
                format!("{}: the driver makes the pipeline, there is nothing to make small", self.module.display());
            return Err(Failure::Usage(why));
        };
        let alike = |fate: &Fate| match (fate, &first) {
            (Fate::DriverRefused(one), Fate::DriverRefused(other)) => one == other,
            (one, other) => discriminant(one) == discriminant(other),
        };
        let small = reduce(module, self.tries, &mut |module| fate_of(module).as_ref().is_some_and(alike));
        let fate = fate_of(&small).unwrap_or(first);
        Ok((small, fate))
    }

    fn fate(&self, file: &std::path::Path, gpu: Option<&Gpu>) -> Option<Fate> {
        let limits = Limits { time: Duration::from_secs(self.timeout), memory: 8192 };
        let mut command = match gpu {
            Some(gpu) => process::program_with(Some(gpu.runner.as_os_str())),
            None => process::this_program(),
        };
        command.arg("shrink").arg(file).arg("--worker").stdin(Stdio::null());
        if let Some(device) = &self.device.device {
            command.args(["--device", device]);
        }
        let finished = process::finish(&mut command, limits).ok()?;
        let how = || format!("{}; its last words: {}", finished.end, finished.last_words().unwrap_or_default());
        match finished.end {
            End::Status(0) => serde_json::from_str(finished.stdout.lines().last()?).ok(),
            End::Status(1) | End::Crashed(_) => Some(Fate::Crashed(how())),
            End::OutOfTime(_) | End::OutOfMemory(_) => Some(Fate::OverLimit(how())),
            End::Status(_) => None,
        }
    }
}
