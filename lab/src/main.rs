//! `cooplab`: what develops the tools and no user needs.

mod commands;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use commands::{campaign, figures, mutants, record, replay, uniformity};
use coop_cli::args::OutputStyle;
use coop_cli::cooprun::{Failure, report};
use coop_cli::{Status, io};

const EXAMPLES: &str = "\
Examples:
  cooplab campaign --dialect khr,nv2 --on interp --target khr,scalar --count 10000
  cooplab record testdata/hardware --device 0 -o testdata/hardware/h100
  cooplab replay testdata/hardware --on interp --semantics nvidia

Exit status:
  0    done, nothing differs
  1    a difference, or something wrong
  2    input that can't be read, wrong usage, or no device that can run it
  101  a bug in cooplab";

/// Develop the tools: generated modules, campaigns, recordings, figures, and the grammar.
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
    /// Measure kernels, and what the lowerings make of them, beside hand-written ones
    Figures(figures::Figures),
    /// Run every module of a folder on a device and keep what it wrote
    Record(record::Record),
    /// Run every module of a folder, as it is or lowered, and compare with what a device wrote
    Replay(replay::Replay),
    /// Write the grammar's tables in ir/src from rspirv's tables, the supplement and the properties
    Grammar(Grammar),
}

#[derive(Args, Debug)]
struct Grammar {
    /// Write nothing; fail where a file is not what would be written
    #[arg(long)]
    check: bool,
}

impl Grammar {
    fn run(&self) -> Result<Status, Failure> {
        for (name, text) in coop_lab::grammar::files() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            if !self.check {
                io::write_bytes(&path, text.as_bytes())?;
            } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                io::error(&format!("{name} is stale: run `cargo run -p coop-lab -- grammar`"));
                return Ok(Status::Findings);
            }
        }
        Ok(Status::Success)
    }
}

fn main() -> ExitCode {
    coop_cli::run("cooplab", || {
        let cli = Cli::parse();
        let result = match &cli.command {
            Command::Campaign(command) => command.run(),
            Command::Uniformity(command) => command.run(),
            Command::Mutants(command) => command.run(),
            Command::Figures(command) => command.run(),
            Command::Record(command) => command.run(),
            Command::Replay(command) => command.run(&cli.style),
            Command::Grammar(command) => command.run(),
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
