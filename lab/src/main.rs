//! `cooplab`: what develops the tools and no user needs.

mod grammar;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the grammar's tables in ir/src from rspirv's tables, the supplement and the properties
    Grammar {
        /// Write nothing; fail where a file is not what would be written
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Grammar { check } => grammar(check),
    }
}

/// A generated file, from the repository's root, and its text.
fn generated() -> [(&'static str, String); 2] {
    [("ir/src/grammar/tables.rs", grammar::tables()), ("ir/src/spv/tables.rs", grammar::enumerations())]
}

fn grammar(check: bool) -> ExitCode {
    for (name, text) in generated() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let done = if check {
            match std::fs::read_to_string(&path) {
                Ok(now) if now == text => Ok(()),
                Ok(_) => Err("it is stale: run `cargo run -p coop-lab -- grammar`".to_owned()),
                Err(e) => Err(e.to_string()),
            }
        } else {
            std::fs::write(&path, text).map_err(|e| e.to_string())
        };
        if let Err(e) = done {
            eprintln!("cooplab: {name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    /// What is checked in is what the generator writes.
    #[test]
    fn tables_are_current() {
        for (name, text) in super::generated() {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            let now = std::fs::read_to_string(path).unwrap_or_default();
            assert!(now == text, "{name} is stale: run `cargo run -p coop-lab -- grammar`");
        }
    }
}
