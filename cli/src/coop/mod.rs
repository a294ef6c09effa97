//! `coop`: one tool with the three others as subcommands, and with what else one does with modules.
//!
//! `coop check`, `coop lower` and `coop run` parse the command lines of `coopcheck`, `cooplower` and `cooprun` and do the same. A
//! program that is called by one of those names is that tool, so that links to one file are enough.

mod align;
mod difference;
mod reduce;
mod stats;
mod text;

pub use difference::{Difference, Line, Region, difference};

use crate::args::OutputStyle;
use crate::io::FileError;
use crate::{Status, check, cooprun, io, lower};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  coop check module.spv                        as coopcheck
  coop lower --target scalar in.spv -o out.spv as cooplower
  coop lower --passes fold in.spv -o out.spv   one pass alone
  coop run verify gemm.spv --case gemm.toml    as cooprun
  coop print module.spv                        SPIR-V words to assembly text
  coop parse module.spvasm -o module.spv       assembly text to SPIR-V words
  coop diff before.spv after.spv               what differs, whatever the numbers of ids
  coop stats module.spv                        what is in a module: instructions, matrices, barriers, shared memory
  coop reduce bad.spv -o small.spv -- driver-test {}
                                               the smallest module for which the command still succeeds

Exit status:
  0    done; diff: the modules are the same
  1    diff: they differ; check, lower, run: as their own help says
  2    input that can't be read, or wrong usage; reduce: the module itself is not interesting
  3    lower, run: refused
  101  a bug in coop";

/// Check, lower, run, print, compare, count and reduce SPIR-V modules.
#[derive(Parser, Debug)]
#[command(name = "coop", version, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Check the cooperative matrices of SPIR-V modules: coopcheck
    Check(Box<check::Cli>),
    /// Lower cooperative matrices in a SPIR-V module to what a device can run: cooplower
    Lower(Box<lower::Cli>),
    /// Run SPIR-V compute modules on a Vulkan device or in an interpreter and compare what they write: cooprun
    Run(Box<cooprun::Cli>),
    /// Print a module as assembly text
    Print(text::Print),
    /// Make SPIR-V words of assembly text
    Parse(text::Parse),
    /// Print how two modules differ, whatever the numbers of their ids
    Diff(Diff),
    /// Count what is in a module
    Stats(stats::Stats),
    /// Make a module small for which a command does something
    Reduce(reduce::Reduce),
}

/// The declared command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs `coop` with the arguments of the process, or the tool that the program is called as.
pub fn main() -> Status {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_stem().and_then(|name| name.to_str()) {
        Some("coopcheck") => return check::main(),
        Some("cooplower") => return lower::main(),
        Some("cooprun") => return cooprun::main(),
        _ => {}
    }
    if let Some(status) = crate::describe::from_arguments(command) {
        return status;
    }
    let result = match Cli::parse().command {
        Command::Check(cli) => Ok(check::execute(&cli)),
        Command::Lower(cli) => Ok(lower::execute(&cli)),
        Command::Run(cli) => Ok(cooprun::execute(&cli)),
        Command::Print(print) => print.run(),
        Command::Parse(parse) => parse.run(),
        Command::Diff(diff) => diff.run(),
        Command::Stats(stats) => stats.run(),
        Command::Reduce(reduce) => reduce.run(),
    };
    result.unwrap_or_else(|error| {
        io::error(&format!("error: {error}"));
        Status::BadInput
    })
}

/// The two modules and how their difference is printed.
#[derive(Args, Debug)]
struct Diff {
    /// The module before: SPIR-V words or assembly text; - is standard input
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The module after
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Print both modules beside each other
    #[arg(short = 'y', long)]
    side_by_side: bool,
    /// Lines around each change that are the same in both
    #[arg(short = 'U', long, value_name = "N", default_value_t = 2)]
    context: usize,
    /// The width of both columns together [default: that of the terminal, or 160]
    #[arg(long, value_name = "COLUMNS", value_parser = crate::args::whole::<usize>(40, 1000))]
    width: Option<usize>,
    /// Leave out names, lines of source and the text of the source
    #[arg(long)]
    no_debug: bool,
    #[command(flatten)]
    style: OutputStyle,
}

impl Diff {
    fn run(&self) -> Result<Status, FileError> {
        let load = |path: &Path| {
            let mut loaded = io::load(path)?;
            io::make_sense(&loaded)?;
            if self.no_debug {
                text::drop_debug(&mut loaded.module);
            }
            Ok(loaded)
        };
        let (before, after) = (load(&self.before)?, load(&self.after)?);
        let difference = difference(&before.module, &after.module);
        if difference.is_empty() {
            return Ok(Status::Success);
        }
        if self.style.quiet == 0 {
            let color = self.style.color.on_stdout();
            let heads = [before.name.as_str(), after.name.as_str()];
            let text = if self.side_by_side {
                let width = self.width.or_else(|| Some(terminal_size::terminal_size()?.0.0.into())).unwrap_or(160);
                difference.side_by_side(heads, self.context, width.max(40), color)
            } else {
                difference.unified(heads, self.context, color)
            };
            io::print(&text);
        }
        Ok(Status::Findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
