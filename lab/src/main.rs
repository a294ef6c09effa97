//! `cooplab`: what develops the tools and no user needs.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{
    campaign, code, compile, devices_page, figures, lowering, mutants, profiles, proofs, record, replay, shrink,
    uniformity,
};
use coop_cli::args::OutputStyle;
use coop_cli::cooprun::{Failure, report};
use coop_cli::progress;

const EXAMPLES: &str = "\
Examples:
  cooplab campaign --dialect khr,nv2 --on interp --target khr,scalar --count 10000
  cooplab compile --gpu all --jobs 2
  cooplab record testdata/hardware --device 0 -o testdata/hardware/h100
  cooplab replay testdata/hardware --on interp --semantics nvidia

Exit status:
  0    done, nothing differs
  1    a difference, or something wrong
  2    input that can't be read, wrong usage, or no device that can run it
  101  a bug in cooplab";

/// Develop the tools: generated modules, campaigns, recordings, figures.
#[derive(Parser, Debug)]
#[command(name = "cooplab", version, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    style: OutputStyle,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Generate modules, run each in every way there is, and compare
    Campaign(campaign::Campaign),
    /// Generate modules with all kinds of control flow, and compare what is called uniform with what is executed
    Uniformity(uniformity::Uniformity),
    /// Break the rules of generated modules, and count how many coopcheck finds
    Mutants(mutants::Mutants),
    /// Print what compilers say of measured kernels, lowered and written by hand
    Code(code::Code),
    /// Make pipelines of all modules on the compilers of drivers, and say what becomes of them
    Compile(compile::Compile),
    /// Write the page of devices from the profiles and the last result of `compile`
    DevicesPage(devices_page::DevicesPage),
    /// Measure kernels, and what the lowerings make of them, beside hand-written ones
    Figures(figures::Figures),
    /// Time the lowerings of an engine's pipelines
    Lowering(lowering::Lowering),
    /// Make a module small that a driver's compiler crashes at or refuses
    Shrink(shrink::Shrink),
    /// Compare the built-in profiles of GPUs that are not there with what their drivers say
    Profiles(profiles::Profiles),
    /// Prove the lowerings of a list for all contents of their buffers, and count planted errors that are refuted
    Proofs(proofs::Proofs),
    /// Run every module of a folder on a device and keep what it wrote
    Record(record::Record),
    /// Run every module of a folder, as it is or lowered, and compare with what a device wrote
    Replay(replay::Replay),
}

fn main() -> ExitCode {
    coop_cli::run("cooplab", || {
        let cli = Cli::parse();
        // These go on where they were.
        let resumed =
            matches!(&cli.command, Command::Campaign(_)) || matches!(&cli.command, Command::Proofs(p) if p.resumes());
        if !resumed && let Err(error) = progress::end_on_interrupt() {
            return report(Err(Failure::Usage(error)), false);
        }
        let result = match &cli.command {
            Command::Campaign(command) => command.run(),
            Command::Uniformity(command) => command.run(),
            Command::Mutants(command) => command.run(),
            Command::Code(command) => command.run(),
            Command::Compile(command) => command.run(),
            Command::DevicesPage(command) => command.run(),
            Command::Figures(command) => command.run(),
            Command::Lowering(command) => command.run(),
            Command::Shrink(command) => command.run(),
            Command::Profiles(command) => command.run(),
            Command::Proofs(command) => command.run(),
            Command::Record(command) => command.run(),
            Command::Replay(command) => command.run(&cli.style),
        };
        report(result, false)
    })
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
