//! `coopcheck`: checks the cooperative matrices of SPIR-V modules.

mod allow;
mod baseline;
mod catalogue;
pub(crate) mod compile;
pub(crate) mod device;
mod devices;
mod files;
mod graph;
mod graph_drawing;
mod group;
mod lsp;
mod project;
mod run;
mod sarif;
mod watch;

pub use catalogue::markdown;

use crate::args::{EntryArgs, OutputStyle, ProfileArgs, SpecArgs, parse_subgroup_size};
use crate::{Status, io};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use coop_validate::{Level, Options, TargetEnv};
use project::Project;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  coopcheck module.spv                       every rule, with the defaults of spec constants
  coopcheck gemm.comp -- -DTILE=16           a shader, compiled by the compiler that there is
  coopcheck --spec 0=16 --spec 1=16 a.spv    check what is shipped
  coopcheck --format json *.spv              one JSON object a file
  coopcheck --allow store-rows-overlap -     a module from standard input, one rule off
  coopcheck --run gemm.toml gemm.spv         run it too, in an interpreter
  coopcheck --profile nvidia-h100 a.spv      whether a device takes it, too
  coopcheck --graph flow.svg a.spv           its control flow, colored by uniformity
  coopcheck devices a.spv                    which devices take it, as it is or lowered
  coopcheck explain muladd-k-mismatch        what a rule checks and why
  coopcheck explain 08973                    the rule for a Vulkan VUID
  coopcheck rules                            all rules, one a line
  coopcheck                                  the files of coopcheck.toml, as it says
  coopcheck --watch                          the same, again whenever a file changes
  coopcheck lsp                              the same in an editor, as one types (docs/editors.md)

A file holds SPIR-V words, of either byte order, SPIR-V assembly text, or a shader: .comp and the other stages of GLSL,
.hlsl, .slang.

Exit status:
  0    no errors
  1    findings of level error
  2    input that can't be read, or wrong usage
  101  a bug in coopcheck";

/// Check the cooperative matrices of SPIR-V modules.
#[derive(Parser, Debug)]
#[command(
    name = "coopcheck",
    version,
    after_long_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Modules to check, or shaders in GLSL, HLSL or Slang; - is standard input [default: files of coopcheck.toml]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The project [default: coopcheck.toml in this folder or the nearest above it]
    #[arg(long, value_name = "FILE.toml", conflicts_with = "no_config")]
    config: Option<PathBuf>,
    /// Do not look for coopcheck.toml
    #[arg(long)]
    no_config: bool,
    /// Report only findings that are not in this file
    #[arg(long, value_name = "FILE.json")]
    baseline: Option<PathBuf>,
    /// Write all findings to a file for --baseline, and exit with status 0
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["baseline", "watch"])]
    write_baseline: Option<PathBuf>,
    /// Check again whenever a file changes, until interrupted
    #[arg(long)]
    watch: bool,
    /// The compiler for shaders [default: glslang, glslangValidator or glslc; dxc; slangc]
    #[arg(long, value_name = "PROGRAM")]
    compiler: Option<PathBuf>,
    /// Further arguments for the compiler
    #[arg(last = true, value_name = "ARGUMENT")]
    compiler_arguments: Vec<String>,
    #[command(flatten)]
    spec: SpecArgs,
    /// The environment whose rules apply too [default: by the module]
    #[arg(
        long,
        value_name = "ENV",
        value_parser = PossibleValuesParser::new(TargetEnv::ALL.iter().map(|(name, _)| *name))
    )]
    target_env: Option<String>,
    /// Make a rule an error; `warnings` means all warnings; may be repeated
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
    /// Make a rule a warning; may be repeated
    #[arg(long, value_name = "RULE")]
    warn: Vec<String>,
    /// Turn a rule off; may be repeated
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// The format of findings
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: Format,
    /// Run each module in the interpreter too, with this case, for at most a minute, and report undefined behavior
    #[arg(long, value_name = "CASE.toml")]
    run: Option<PathBuf>,
    /// Also draw the control flow of the entry point, in the colors of who executes what together: SVG, or DOT for FILE.dot
    #[arg(long, value_name = "FILE.svg|FILE.dot", conflicts_with = "watch")]
    graph: Option<PathBuf>,
    /// Check the barriers of modules without matrices too
    #[arg(long)]
    barriers: bool,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    entry: EntryArgs,
    #[command(flatten)]
    style: OutputStyle,
}

/// The format of findings
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Format {
    /// In the shader's source if the module has debug information, else in its disassembly; with -v in both
    #[default]
    Human,
    /// One line for each finding: file:line:column: level[rule]: message
    Short,
    /// One workflow command of GitHub Actions for each finding
    Github,
    /// One JSON object for each file
    Json,
    /// One SARIF 2.1.0 document, for code-scanning services
    Sarif,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Explain a rule: by its id, by a VUID (or its number), or by an id of the rule digest
    Explain {
        /// The rule
        #[arg(value_name = "RULE|VUID")]
        name: String,
    },
    /// List the rules
    Rules {
        /// As text, one line for each rule, or as the page docs/rules.md
        #[arg(long, value_enum, default_value_t)]
        format: CatalogueFormat,
    },
    /// Tell which devices run modules: as they are, lowered by cooplower, or not at all, and why
    Devices(DevicesArgs),
    /// Serve an editor: findings as one types, by the Language Server Protocol over standard input and output
    Lsp,
    /// Write a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(clap::Args, Debug)]
struct DevicesArgs {
    /// The modules, or shaders in GLSL, HLSL or Slang; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The compiler for shaders [default: glslang, glslangValidator or glslc; dxc; slangc]
    #[arg(long, value_name = "PROGRAM")]
    compiler: Option<PathBuf>,
    /// Further arguments for the compiler
    #[arg(last = true, value_name = "ARGUMENT")]
    compiler_arguments: Vec<String>,
    /// A device profile: a built-in name, or a file; may be repeated [default: all built-in ones]
    #[arg(long, value_name = "NAME|FILE.json")]
    profile: Vec<String>,
    /// This machine's Vulkan device of that number or name; may be repeated
    #[arg(long, value_name = "N|NAME")]
    device: Vec<String>,
    /// The subgroup size that the pipeline requires
    #[arg(long, value_name = "N", value_parser = parse_subgroup_size)]
    subgroup_size: Option<u32>,
    #[command(flatten)]
    spec: SpecArgs,
    /// The format of the output
    #[arg(long, value_enum, default_value_t)]
    format: DevicesFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum DevicesFormat {
    /// A line for each device, with the reason
    #[default]
    Human,
    /// One JSON object for each file
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum CatalogueFormat {
    #[default]
    Text,
    Md,
}

/// The declared command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs `coopcheck` with the arguments of the process.
pub fn main() -> Status {
    if let Some(status) = crate::describe::from_arguments(command) {
        return status;
    }
    execute(&Cli::parse())
}

/// Does what a command line asks for.
pub(crate) fn execute(cli: &Cli) -> Status {
    match &cli.command {
        None => check(cli),
        Some(Command::Explain { name }) => catalogue::explain(name),
        Some(Command::Rules { format: CatalogueFormat::Text }) => {
            io::print(&catalogue::list());
            Status::Success
        }
        Some(Command::Rules { format: CatalogueFormat::Md }) => {
            io::print(&catalogue::markdown());
            Status::Success
        }
        Some(Command::Devices(args)) => devices::run(args),
        Some(Command::Lsp) => lsp::serve(cli),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "coopcheck", &mut script);
            io::print(&String::from_utf8_lossy(&script));
            Status::Success
        }
    }
}

fn check(cli: &Cli) -> Status {
    if cli.profile.list_profiles {
        io::print(&ProfileArgs::list());
        return Status::Success;
    }
    let checked = if cli.watch { watch::check(cli) } else { once(cli).map(|checked| checked.status) };
    checked.unwrap_or_else(|message| {
        io::error(&format!("error: {message}"));
        Status::BadInput
    })
}

/// Reads the project and checks once.
fn once(cli: &Cli) -> Result<files::Checked, String> {
    let project = project(cli)?;
    if project.is_none() && cli.files.is_empty() {
        let message = format!("no FILE is given, and there is no {} in this folder or above it", project::NAME);
        Cli::command().error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    let options = options(cli, project.as_ref())?;
    let dynamic = run::Dynamic::new(cli)?;
    let task = files::Task { cli, options: &options, dynamic: dynamic.as_ref(), project: project.as_ref() };
    if let Some(path) = &cli.graph {
        files::draw(&task, path)?;
    }
    files::check(&task)
}

/// Returns the project, if there is one.
fn project(cli: &Cli) -> Result<Option<Project>, String> {
    project_file(cli).map(|path| Project::read(&path)).transpose()
}

/// Returns the file of the project, if there is one.
fn project_file(cli: &Cli) -> Option<PathBuf> {
    match &cli.config {
        Some(path) => Some(path.clone()),
        None if cli.no_config => None,
        None => std::env::current_dir().ok().and_then(|folder| Project::find(&folder)),
    }
}

fn options(cli: &Cli, project: Option<&Project>) -> Result<Options, String> {
    let mut options = Options::default();
    if let Some(project) = project {
        options.env = project.env;
        project.set_levels(&mut options)?;
    }
    options.specialization = cli.spec.specialization().map_err(|e| e.to_string())?;
    options.env = cli.target_env.as_deref().map(str::parse).transpose()?.or(options.env);
    options.device = devices::of(cli)?;
    options.subgroup_size = cli.profile.subgroup_size;
    options.barriers = cli.barriers;
    // The strictest counts where a rule is named twice.
    for (names, level) in [(&cli.allow, Level::Allow), (&cli.warn, Level::Warning), (&cli.deny, Level::Error)] {
        for name in names {
            if level == Level::Error && name == "warnings" {
                options.deny_warnings = true;
            } else {
                options.set_level(name, level).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
