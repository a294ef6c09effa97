//! `--completions SHELL` and `--man FOLDER` of all tools: completion scripts and manual pages, from the declared command lines.
//!
//! They are for who packs the tools, and `--help` does not show them.

use crate::{Status, io};
use clap::Command;
use clap::ValueEnum;
use clap_complete::Shell;
use std::path::Path;

/// Does what the process's arguments ask for, if it is one of these.
pub(crate) fn from_arguments(command: impl FnOnce() -> Command) -> Option<Status> {
    let arguments: Vec<String> = std::env::args().skip(1).take(3).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--completions", shell] => completions(command(), shell),
        ["--man", folder] => manual(command(), Path::new(folder)),
        ["--completions"] => Err(format!("--completions needs a shell: {}", shells())),
        ["--man"] => Err("--man needs a folder to write the pages to".to_owned()),
        _ => return None,
    };
    Some(done.map_or_else(
        |message| {
            io::error(&format!("error: {message}"));
            Status::BadInput
        },
        |()| Status::Success,
    ))
}

fn shells() -> String {
    let names = Shell::value_variants().iter().map(ToString::to_string);
    names.collect::<Vec<_>>().join(", ")
}

fn completions(mut command: Command, shell: &str) -> Result<(), String> {
    let shell = Shell::from_str(shell, false).map_err(|_| format!("no shell '{shell}': {}", shells()))?;
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    io::print(&String::from_utf8_lossy(&script));
    Ok(())
}

fn manual(command: Command, folder: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    // The pages of subcommands have the name of the tool before theirs.
    clap_mangen::generate_to(command, folder).map_err(wrong)
}
