//! `cooprun`: runs modules on Vulkan devices and in the reference interpreter, and compares what they write.
//!
//! One file for each subcommand. A subcommand returns a [`Status`] or a [`Failure`]; only [`main`] prints failures,
//! with `--json` as JSON.

mod addressed;
mod case;
mod case_text;
mod compare;
mod compile;
mod compile_text;
mod cover;
mod devices;
mod execute;
mod json;
mod kernel_case;
pub mod on;
mod placed;
mod placement;
mod placement_drawing;
mod prove;
pub mod results;
pub mod verify;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Error, RunOptions, Vulkan};

use crate::Status;
use crate::args::{EntryArgs, OutputStyle, SpecArgs};
use crate::io::{self, FileError};

const EXAMPLES: &str = "\
Examples:
  cooprun devices
  cooprun profile --device 0 -o my.json
  cooprun case gemm.spv -o gemm.toml
  cooprun run gemm.spv --case gemm.toml
  cooprun run gemm.spv --case gemm.toml --on interp
  cooprun compare gemm.spv lowered.spv --case gemm.toml
  cooprun verify gemm.spv --target scalar --case gemm.toml
  cooprun compile gemm.spv lowered.spv --case gemm.toml
  cooprun prove gemm.spv --target scalar --case gemm.toml

Exit status:
  0    done, nothing differs
  1    a difference, a message of the validation layer, a write outside of a buffer, or
       undefined behaviour that the interpreter found; compile: the driver refuses a module,
       crashes, or goes over a limit; prove: refuted
  2    input that can't be read, wrong usage, or no device that can run it
  3    verify, prove: the module can't be lowered; the message says why and what to do.
       prove: neither proved nor refuted
  101  a bug in cooprun";

/// Run SPIR-V compute modules on a Vulkan device or in an interpreter and compare what they write.
#[derive(Parser, Debug)]
#[command(name = "cooprun", version, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    style: OutputStyle,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the Vulkan devices of this machine, with what they support
    Devices(devices::Devices),
    /// Write a device's profile
    Profile(devices::WriteProfile),
    /// Write a first case file for a module from its declarations
    Case(case::WriteCase),
    /// Run one module and check it against what the case expects
    Run(execute::Run),
    /// Run two modules with the same inputs and compare every buffer
    Compare(compare::Compare),
    /// Lower a module, run the result, and compare it with the original and with what the case expects
    Verify(verify::Verify),
    /// Make the pipeline of a module, or of two, and print what the driver says of it: registers, instructions
    Compile(compile::Compile),
    /// Lower a module and prove that the result stores the same for all contents of the buffers
    Prove(prove::Prove),
    /// Show which invocation holds which element of matrices, as a table or drawn
    Placement(placement::PlacementArgs),
}

/// The reason why a subcommand failed.
#[derive(Debug)]
pub enum Failure {
    /// A file can't be read or written.
    File(FileError),
    /// A case, a module or a device does not allow the run.
    Run(Error),
    /// Options that exclude each other, or a wrong value.
    Usage(String),
    /// The module can't be lowered.
    Lower(coop_passes::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::File(error) => error.fmt(f),
            Failure::Run(error) => error.fmt(f),
            Failure::Usage(message) => f.write_str(message),
            Failure::Lower(error) => error.fmt(f),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Run(error)
    }
}

/// The choice of the device, and of the validation layer.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// The device: its index, or a part of its name
    #[arg(long, value_name = "N|NAME")]
    pub device: Option<String>,
    /// Do not load the Khronos validation layer
    #[arg(long)]
    pub no_validation: bool,
    /// Rewrite modules of SPV_EXT_cooperative_matrix_maintenance1 for another extension, and treat the device as one
    /// that has the first
    #[arg(long, value_enum, value_name = "EXTENSION")]
    pub spell_as: Option<Spelling>,
}

/// The extension that replaces SPV_EXT_cooperative_matrix_maintenance1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Spelling {
    /// SPV_NV_cooperative_matrix2, which has the same instructions except coordinates (replaced by per-element
    /// operations), conversions of factors to accumulators, and transposition to A
    Nv2,
}

impl DeviceArgs {
    /// Opens Vulkan.
    pub fn open(&self) -> Result<Vulkan, Error> {
        Vulkan::open(!self.no_validation)
    }

    /// Returns the device that was asked for.
    pub fn name(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Opens the device that was asked for.
    pub fn executor<'a>(&self, vulkan: &'a Vulkan) -> Result<VulkanExecutor<'a>, Error> {
        let device = vulkan.device(self.device.as_deref())?;
        match self.spell_as {
            Some(Spelling::Nv2) => device.respelled(),
            None => Ok(device),
        }
    }
}

/// The variant of a case, and what replaces parts of it.
#[derive(Args, Debug)]
struct CaseChoice {
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    entry: EntryArgs,
    /// A variant of the case
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

impl CaseChoice {
    fn apply(&self, mut case: Case) -> Result<Case, Failure> {
        if let Some(variant) = &self.variant {
            case = case.with_variant(variant)?;
        }
        // What the command line says comes after what the case says.
        for (id, value) in self.spec.specialization()?.iter() {
            case.spec.insert(id.to_string(), value.into());
        }
        if self.entry.entry.is_some() {
            case.entry.clone_from(&self.entry.entry);
        }
        Ok(case)
    }
}

/// The options of a run.
#[derive(Args, Debug)]
struct CaseArgs {
    /// The case file (TOML)
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    #[command(flatten)]
    choice: CaseChoice,
    /// The time limit of a dispatch in seconds, on a device or in the interpreter
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
    /// Enable robust buffer access
    #[arg(long)]
    robust: bool,
    /// Write the buffers to this folder, as NAME.bin
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl CaseArgs {
    fn load(&self) -> Result<Case, Failure> {
        self.choice.apply(Case::load(&self.case)?)
    }

    fn options(&self, bench: u32) -> Result<RunOptions, Error> {
        let timeout = std::time::Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Error::Case(format!("--timeout: {} is not a number of seconds", self.timeout)))?;
        Ok(RunOptions { bench, timeout, robust: self.robust })
    }
}

/// The declared command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs the tool with the process's arguments.
pub fn main() -> Status {
    if let Some(status) = crate::describe::from_arguments(command) {
        return status;
    }
    execute(&Cli::parse())
}

/// Does what a command line asks for.
pub(crate) fn execute(cli: &Cli) -> Status {
    let (result, json) = match &cli.command {
        Command::Devices(command) => (command.run(), command.json()),
        Command::Profile(command) => (command.run(), false),
        Command::Case(command) => (command.run(), false),
        Command::Run(command) => (command.run(&cli.style), command.json()),
        Command::Compare(command) => (command.run(&cli.style), command.json()),
        Command::Verify(command) => (command.run(&cli.style), command.json()),
        Command::Compile(command) => (command.run(&cli.style), command.json()),
        Command::Prove(command) => (command.run(&cli.style), command.json()),
        Command::Placement(command) => (command.run(&cli.style), command.json()),
    };
    report(result, json)
}

/// Prints the reason of a failure, with `json` as JSON, and returns the exit status.
pub fn report(result: Result<Status, Failure>, json: bool) -> Status {
    match result {
        Ok(status) => status,
        Err(failure) => {
            if json {
                print(&json::failure(&failure));
            } else {
                io::error(&format!("error: {failure}"));
            }
            match failure {
                Failure::Lower(coop_passes::Error::Refused(_)) => Status::Refused,
                // The hook of `crate::run` tells whose fault it is, and how to report it.
                Failure::Lower(coop_passes::Error::Bug { .. }) => panic!("{failure}"),
                Failure::File(_) | Failure::Run(_) | Failure::Usage(_) => Status::BadInput,
            }
        }
    }
}

/// Writes to stdout, with one newline at the end.
pub fn print(text: &str) {
    io::print(&format!("{}\n", text.trim_end()));
}

/// Writes text to a file, or to stdout if that is `-` or not given.
fn write_text(path: Option<&Path>, text: &str) -> Result<(), FileError> {
    io::write_bytes(path.unwrap_or(Path::new("-")), text.as_bytes())
}

/// Returns the words of the module in a file, in this machine's byte order.
pub fn read_words(path: &Path) -> Result<Vec<u32>, FileError> {
    Ok(coop_ir::binary::write_words(&io::load(path)?.module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
