//! `cooplower`: options to lowering to files.

use crate::Status;
use crate::args::{OutputStyle, ProfileArgs, SpecArgs, TargetArg};
use crate::component_passes;
use crate::interp::SemanticsName;
use crate::io::{self, FileError, Loaded};
use crate::render::{self, Problem, Renderer};
use crate::software::WithoutArgs;
use clap::{CommandFactory, Parser, ValueEnum};
use coop_device::Profile;
use coop_ir::Module;
use coop_ir::constant::Specialization;
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::nearest::{DidYouMean, nearest};
use coop_ir::text::{PrintOptions, print};
use coop_passes::{Error, Lanes, Lowered, Options, PASSES, Refusal, Target, Vulkan, Warning, lower_with};
use coop_validate::{Finding, Level, Part};
use coopmat::fit::{Fit, Shortage, lacking, or_scalar};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most invocations of a workgroup that `--local-size` takes, and bytes of shared memory that `--local-arg` does: more than
/// any device has.
const MOST_INVOCATIONS: u64 = 1 << 16;
const MOST_LOCAL_BYTES: u32 = 1 << 24;

const HELP: &str = "\
Examples:
  cooplower --target scalar --subgroup-size 32 --spec-defaults gemm.spv -o out.spv
  cooplower --target khr --profile mesa-lavapipe --subgroup-size 8 --spec 0=8 --spec 1=8 --spec 2=8 gemm.spv -o out.spv
  cooplower --target auto --profile nvidia-h100 --subgroup-size 32 --entry main --spec-file gemm.spec gemm.spv -o out.spv
  cooplower --env vulkan --local-size 16,1,1 --target scalar --lanes local-index kernel.spv -o shader.spv
  cooplower --target scalar --lanes local-index --subgroup-size 32 --spec-file gemm.spec gemm.spv -t -o -

Exit status:
  0    done; a module without matrices comes out byte for byte
  1    the input breaks a rule of level error (see coopcheck); --no-check lowers it all the same
  2    input unreadable, or wrong usage
  3    refused, with the reason and the remedy, or not proved (--prove); nothing is written
  101  a bug in the tool";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum CheckedArg {
    /// Lines of memory and elements of a line, as every implementation has it
    Implementations,
    /// Rows and columns of a big matrix, as the text of SPV_INTEL_joint_matrix says
    Prose,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Tf32Arg {
    /// With all bits of the numbers
    F32,
    /// Without the bits that tf32 does not have
    Truncate,
    /// Rounded to nearest even
    Rne,
}

/// A promise about the module and the pipelines that are made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AssumeArg {
    /// Pointers of tensor accesses are multiples of 16 bytes, as SPV_NV_cooperative_matrix2 demands
    Aligned,
    /// The module works with any subgroup size of the device, whatever size its constants seem to be for
    AnySubgroupSize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LanesArg {
    /// Subgroups of the device; the pipeline must require their size
    Subgroup,
    /// Consecutive invocations of the workgroup; runs with subgroups of any size
    LocalIndex,
}

/// The environment that runs the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum EnvArg {
    /// Vulkan: OpenCL kernels become compute shaders, with their arguments in push constants
    Vulkan,
}

/// Lower cooperative matrices in a SPIR-V module to what a device can run
#[derive(Parser, Debug)]
#[command(name = "cooplower", version, after_help = HELP)]
pub(crate) struct Cli {
    /// The module: SPIR-V words in either byte order, or assembly; - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["list_passes", "list_profiles"])]
    input: Option<PathBuf>,
    /// The file to write the result to; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write assembly text instead of words
    #[arg(short = 't', long)]
    text: bool,
    /// The cooperative matrices that the output may contain
    #[arg(long, value_enum, default_value_t)]
    target: TargetArg,
    /// The lanes of a subgroup-scope matrix
    #[arg(long, value_enum, default_value = "subgroup")]
    lanes: LanesArg,
    /// The behavior where specifications and hardware differ: default strides with partial blocks, clips with an
    /// offset, matrices larger than their spans, the step of a decode function's pointer
    #[arg(long, value_enum, default_value = "spec")]
    semantics: SemanticsName,
    /// The unit of offsets and bounds of Intel's checked loads and stores
    #[arg(long, value_enum, default_value = "implementations")]
    checked: CheckedArg,
    /// The multiplication of numbers that Intel's instructions take as tf32
    #[arg(long, value_enum, default_value = "f32")]
    tf32: Tf32Arg,
    /// The function that OpCooperativeMatrixApplyFunctionINTEL means; it takes the function object and an element, and
    /// maybe row and column
    #[arg(long, value_name = "NAME")]
    apply_function: Option<String>,
    /// Elements outside of tensors whose layout leaves them undefined read as zero, and are not written
    #[arg(long)]
    undefined_as_zero: bool,
    /// Promises that lowered code may rely on, by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROMISE")]
    assume: Vec<AssumeArg>,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    without: WithoutArgs,
    #[command(flatten)]
    spec: SpecArgs,
    /// The entry point to lower for; the others are dropped, with all that only they use
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Constants of matrices that no value was given for take their defaults
    #[arg(long)]
    spec_defaults: bool,
    /// The environment that runs the output, if not that of the input
    #[arg(long, value_enum)]
    env: Option<EnvArg>,
    /// The size of a kernel's workgroups, where it says none: for --env vulkan, and for the shared memory that each subgroup
    /// takes
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_size)]
    local_size: Option<[u32; 3]>,
    /// Bytes of shared memory behind argument N of a kernel, for --env vulkan
    #[arg(long, value_name = "N=BYTES", value_parser = parse_local, requires = "env")]
    local_arg: Vec<(u32, u32)>,
    /// Write nothing unless the output is proved to store what the input stores, for all contents of the data buffers of
    /// this case (see cooprun prove)
    #[arg(long, value_name = "CASE", conflicts_with_all = ["env", "fuel"])]
    prove: Option<PathBuf>,
    /// Write what was done and what the output needs, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Lower although the input breaks rules
    #[arg(long)]
    no_check: bool,
    /// List the passes in order
    #[arg(long)]
    list_passes: bool,
    /// Write the module after this pass, or after all, as text
    #[arg(long, value_name = "all|PASS", requires = "dump_dir")]
    dump_after: Option<String>,
    /// The folder to write those to
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// Print what each pass changed, to standard error, with so many lines around it
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    dump_changed: Option<usize>,
    /// Run only these passes, by commas, on any module, whatever they usually come after
    #[arg(long, value_name = "PASSES", value_delimiter = ',', value_parser = parse_pass, conflicts_with_all = ["fuel", "prove"])]
    passes: Vec<String>,
    /// Check that the module is well formed after each pass
    #[arg(long)]
    verify_each: bool,
    /// Say how long each pass took
    #[arg(long)]
    time_passes: bool,
    /// Run only the first N passes
    #[arg(long, value_name = "N")]
    fuel: Option<usize>,
    #[command(flatten)]
    style: OutputStyle,
}

/// The declared command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// The tool.
pub fn main() -> Status {
    if let Some(status) = crate::describe::from_arguments(command) {
        return status;
    }
    execute(&Cli::parse())
}

/// Does what a command line asks for.
pub(crate) fn execute(cli: &Cli) -> Status {
    match run(cli) {
        Ok(status) => status,
        Err(e) => {
            io::error(&format!("error: {e}"));
            Status::BadInput
        }
    }
}

fn run(cli: &Cli) -> Result<Status, FileError> {
    if cli.list_passes {
        let lines: String = passes().map(|(name, summary)| format!("{name:<12} {summary}\n")).collect();
        io::print(&lines);
        return Ok(Status::Success);
    }
    if cli.profile.list_profiles {
        io::print(&ProfileArgs::list());
        return Ok(Status::Success);
    }
    can_dump(cli)?;
    let Some(input) = &cli.input else { return Ok(Status::Success) };
    let loaded = io::load(input)?;
    let profile = match &cli.profile.device {
        Some(name) => {
            let profile = crate::check::device::of_this_machine(name);
            Some(profile.map_err(|message| FileError { name: format!("--device {name}"), message })?)
        }
        None => cli.profile.named()?,
    };
    let profile = profile.map(Arc::new);
    let spec = cli.spec.specialization()?;
    if let Some(name) = &cli.entry {
        has_entry(&loaded, name)?;
    }
    if !cli.no_check && breaks_rules(cli, &loaded, &spec, profile.as_deref())? {
        return Ok(Status::Findings);
    }
    let options = options(cli, profile.as_deref(), spec)?;
    can_run(&options.passes, options.target)?;
    let mut seen = Seen { cli, modules: Vec::new() };
    let lowered = seen.lower(&loaded, &options);
    if let Ok(lowered) = &lowered {
        have_run(&options.passes, lowered)?;
    }
    let fit = fit(cli, &loaded, &options, profile.as_ref(), lowered, &mut seen);
    seen.write(&loaded)?;
    // What is lowered is verified before.
    if let Ok(fit) = &fit
        && !fit.lowered.report.changed
    {
        io::make_sense(&loaded)?;
    }
    match fit {
        Ok(fit) => match unproved(cli, &loaded, &fit.lowered, &options)? {
            Some(status) => Ok(status),
            None => write(cli, &loaded, &fit, profile.as_deref()).map(|()| Status::Success),
        },
        Err(Error::Refused(refusal)) => {
            refuse(cli, &loaded, &refusal);
            Ok(Status::Refused)
        }
        Err(Error::Bug { pass, message }) if !cli.passes.is_empty() => {
            io::error(&format!("{}: {pass} needs passes that usually come before it: {message}", loaded.name));
            io::error(&format!(
                "  help: add those to --passes {}; --list-passes has their order",
                cli.passes.join(",")
            ));
            Ok(Status::Refused)
        }
        Err(bug @ Error::Bug { .. }) => panic!("{bug}"),
    }
}

/// The modules that passes leave, as far as the command line asks to see them.
struct Seen<'a> {
    cli: &'a Cli,
    /// The names of passes, with the module after each.
    modules: Vec<(String, Module)>,
}

impl Seen<'_> {
    fn is_dumped(&self, name: &str) -> bool {
        match (&self.cli.dump_after, &self.cli.dump_dir) {
            (Some(which), Some(_)) => which == "all" || name.ends_with(&format!("-{which}")),
            _ => false,
        }
    }

    fn keep(&mut self, name: &str, module: &Module) {
        if self.cli.dump_changed.is_some() || self.is_dumped(name) {
            self.modules.push((name.to_owned(), module.clone()));
        }
    }

    /// Lowers a module, and forgets what was seen of another lowering. Where only passes of component types are named, nothing is
    /// lowered yet.
    fn lower(&mut self, loaded: &Loaded, options: &Options<'_>) -> Result<Lowered, Error> {
        self.modules.clear();
        if options.passes.len() < self.cli.passes.len() && options.passes.is_empty() {
            return Ok(component_passes::unlowered(&loaded.module, options));
        }
        lower_with(&loaded.module, options, &mut |name, module| self.keep(name, module))
    }

    fn write(&self, loaded: &Loaded) -> Result<(), FileError> {
        if let Some(dir) = &self.cli.dump_dir {
            let dumped = self.modules.iter().filter(|(name, _)| self.is_dumped(name));
            dumped.into_iter().try_for_each(|(name, module)| dump(dir, name, module))?;
        }
        if let Some(context) = self.cli.dump_changed {
            dump_changed(self.cli, context, &loaded.module, &self.modules);
        }
        Ok(())
    }
}

/// Makes of what was lowered what the device runs: by the passes of component types that are named, or else by scalar code where the
/// device does not run the other, and without the component types that it lacks.
fn fit(
    cli: &Cli,
    loaded: &Loaded,
    options: &Options<'_>,
    profile: Option<&Arc<Profile>>,
    lowered: Result<Lowered, Error>,
    seen: &mut Seen<'_>,
) -> Result<Fit, Error> {
    let mut keep = |name: &str, module: &Module| seen.keep(name, module);
    let lowered = component_passes::run(&cli.passes, lowered?, cli.without.options(options), &mut keep)?;
    // What else the device lacks is for who asks for a lowering.
    if !cli.passes.is_empty() {
        return verified(Fit { lowered, lacking: Vec::new() });
    }
    let fit = match profile {
        Some(profile) => {
            let target = lowered.report.target.clone();
            let lacks = cli.without.lacks(Some(profile));
            let taken = or_scalar(&loaded.module, options, lowered, profile, lacks);
            if !seen.modules.is_empty() && taken.as_ref().is_ok_and(|taken| taken.lowered.report.target != target) {
                // What was taken instead is what is to be seen.
                let _ = seen.lower(loaded, &Options { target: Target::Scalar, ..options.clone() });
            }
            let mut taken = taken?;
            let shortage = Shortage::of(&taken.lowered, profile);
            taken.lowered.report.warnings.extend(shortage.map(|shortage| Warning {
                id: "few-registers",
                message: format!("{shortage}: the driver may refuse it, or compile for minutes"),
                remedy: "--lanes local-index, which requires no size".to_owned(),
            }));
            taken
        }
        None => Fit { lowered, lacking: Vec::new() },
    };
    verified(without_components(cli, loaded, options, fit)?)
}

/// Returns what was lowered if it is well formed; nobody gets what is not.
fn verified(fit: Fit) -> Result<Fit, Error> {
    let words = coop_ir::binary::write_words(&fit.lowered.module);
    match coop_ir::verify::verify_words(&words) {
        Err(problems) if fit.lowered.report.changed => {
            let message = problems.first().map_or_else(String::new, ToString::to_string);
            Err(Error::Bug { pass: "output", message })
        }
        _ => Ok(fit),
    }
}

/// Lowers the component types that the device lacks as well.
fn without_components(cli: &Cli, loaded: &Loaded, options: &Options<'_>, mut fit: Fit) -> Result<Fit, Error> {
    if cli.without.apply(&loaded.module, options, &mut fit.lowered, cli.style.quiet < 2)? {
        let size = fit.lowered.report.required_subgroup_size;
        let lacking = |profile: &Profile| lacking(&fit.lowered.module, options, &Arc::new(profile.clone()), size);
        fit.lacking = options.profile.map(lacking).unwrap_or_default();
    }
    Ok(fit)
}

/// The names of all passes with their summaries, in order: those of matrices, then those of component types.
fn passes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_components = coop_components::PASSES.iter().map(|pass| (pass.name, pass.summary));
    PASSES.iter().map(|pass| (pass.name, pass.summary)).chain(of_components)
}

/// The name of a pass.
fn parse_pass(text: &str) -> Result<String, String> {
    let meant = || DidYouMean(nearest(text, passes().map(|(name, _)| name)));
    let known = passes().any(|(name, _)| name == text);
    known.then(|| text.to_owned()).ok_or_else(|| format!("no such pass, --list-passes lists them{}", meant()))
}

/// Proves the lowering, if that is asked for. Returns the exit status if it is not proved.
fn unproved(cli: &Cli, loaded: &Loaded, lowered: &Lowered, options: &Options<'_>) -> Result<Option<Status>, FileError> {
    let Some(case) = &cli.prove else { return Ok(None) };
    let proof = crate::proving::proof(&loaded.module, lowered, options, case)?;
    if proof.is_proved() {
        if cli.style.quiet == 0 {
            io::error(&format!("{}: {proof}", loaded.name));
        }
        return Ok(None);
    }
    io::error(&format!("{}: {proof}", loaded.name));
    io::error(
        "error: nothing is written, because the output is not proved to store what the input stores; without --prove it is written all the same",
    );
    Ok(Some(Status::Refused))
}

/// Says why there is nothing to write after the pass of `--dump-after`.
fn can_dump(cli: &Cli) -> Result<(), FileError> {
    let Some(name) = cli.dump_after.as_deref().filter(|name| *name != "all") else { return Ok(()) };
    let why = match (passes().any(|(pass, _)| pass == name), component_passes::has(name)) {
        (false, _) => "no such pass; --list-passes lists them",
        (true, true) if !cli.passes.iter().any(|pass| pass == name) => {
            "a pass of component types is dumped where --passes names it: lower the matrices first, then the output"
        }
        _ => return Ok(()),
    };
    Err(FileError { name: format!("--dump-after {name}"), message: why.to_owned() })
}

/// Says which of the passes that are asked for no lowering to the target runs.
fn can_run(passes: &[String], target: Target) -> Result<(), FileError> {
    let of_others = |name: &&String| {
        target != Target::Auto && PASSES.iter().any(|pass| pass.name == **name && !pass.targets.contains(&target))
    };
    passes.iter().find(of_others).map_or(Ok(()), |name| Err(not_run(name, &target.to_string())))
}

/// Says which of the passes that are asked for have not run, where the target was left open.
fn have_run(passes: &[String], lowered: &Lowered) -> Result<(), FileError> {
    let report = &lowered.report;
    let missing = passes.iter().find(|name| report.changed && !report.passes.iter().any(|pass| pass.pass == **name));
    missing.map_or(Ok(()), |name| Err(not_run(name, &format!("{}, which auto is here", report.target))))
}

/// The pass is not one of the target's.
fn not_run(name: &str, target: &str) -> FileError {
    let targets = PASSES.iter().filter(|pass| pass.name == name).flat_map(|pass| pass.targets);
    let targets: Vec<String> = targets.map(ToString::to_string).collect();
    let message = format!("is not run for target {target}: give --target {}", targets.join(" or "));
    FileError { name: format!("--passes {name}"), message }
}

/// Returns the options of the lowering.
fn options<'a>(cli: &Cli, profile: Option<&'a Profile>, spec: Specialization) -> Result<Options<'a>, FileError> {
    let mut options = Options::new(cli.target.into());
    options.spec = spec;
    options.entry.clone_from(&cli.entry);
    options.spec_defaults = cli.spec_defaults;
    options.profile = profile;
    options.subgroup_size = cli.profile.subgroup_size;
    options.semantics = match cli.semantics {
        SemanticsName::Spec => coop_passes::Semantics::Spec,
        SemanticsName::Nvidia => coop_passes::Semantics::Nvidia,
    };
    options.checked = match cli.checked {
        CheckedArg::Implementations => coop_passes::Checked::Implementations,
        CheckedArg::Prose => coop_passes::Checked::Prose,
    };
    options.tf32 = match cli.tf32 {
        Tf32Arg::F32 => coop_passes::Tf32::F32,
        Tf32Arg::Truncate => coop_passes::Tf32::Truncate,
        Tf32Arg::Rne => coop_passes::Tf32::Rne,
    };
    options.apply_function = cli.apply_function.clone();
    options.lanes = match cli.lanes {
        LanesArg::Subgroup => Lanes::Subgroup,
        LanesArg::LocalIndex => Lanes::LocalIndex,
    };
    options.undefined_as_zero = cli.undefined_as_zero;
    options.assume_aligned = cli.assume.contains(&AssumeArg::Aligned);
    options.assume_any_subgroup_size = cli.assume.contains(&AssumeArg::AnySubgroupSize);
    options.local_size = cli.local_size;
    let local_arguments = local_arguments(cli)?;
    options.vulkan = cli.env.map(|EnvArg::Vulkan| Vulkan { local_arguments });
    options.verify_each |= cli.verify_each;
    options.fuel = cli.fuel;
    options.passes = cli.passes.iter().filter(|name| !component_passes::has(name)).cloned().collect();
    if !cli.without.is_empty() && !cli.passes.is_empty() && options.passes.len() == cli.passes.len() {
        let message = "--passes names no pass that does without a feature; such passes are at the end of --list-passes";
        return Err(FileError { name: "--without".to_owned(), message: message.to_owned() });
    }
    Ok(options)
}

/// Returns whether the module has an entry point of that name; else it is wrong usage.
fn has_entry(loaded: &Loaded, name: &str) -> Result<(), FileError> {
    let entries = entry_points(&loaded.module, &Decorations::new(&loaded.module));
    if entries.iter().any(|e| e.name == name) {
        return Ok(());
    }
    let names: Vec<String> = entries.iter().map(|e| format!("'{}'", e.name)).collect();
    let message = match names.as_slice() {
        [] => "the module has no entry point".to_owned(),
        names => format!("the module has no such entry point, only {}", names.join(", ")),
    };
    Err(FileError { name: format!("--entry {name}"), message })
}

/// `16`, `16,1` or `16,1,1`.
fn parse_size(text: &str) -> Result<[u32; 3], String> {
    let mut size = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
    if parts.len() > 3 {
        return Err(format!("{} numbers; a workgroup has up to three sizes, as 16,8,1", parts.len()));
    }
    for (slot, part) in size.iter_mut().zip(parts) {
        *slot = part.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("'{part}' is not a size"))?;
    }
    let invocations = size.into_iter().map(u64::from).fold(1, u64::saturating_mul);
    if invocations > MOST_INVOCATIONS {
        return Err(format!("{invocations} invocations; no device has workgroups of more than {MOST_INVOCATIONS}"));
    }
    Ok(size)
}

/// `3=1024`.
fn parse_local(text: &str) -> Result<(u32, u32), String> {
    let (index, bytes) = text.split_once('=').ok_or("it has the form N=BYTES")?;
    let number = |t: &str| t.trim().parse().map_err(|_| format!("'{t}' is not a number"));
    let (index, bytes) = (number(index)?, number(bytes)?);
    match bytes {
        1..=MOST_LOCAL_BYTES => Ok((index, bytes)),
        _ => Err(format!("{bytes} bytes is not a size of shared memory, which is 1 to {MOST_LOCAL_BYTES}")),
    }
}

/// The sizes of `--local-arg`, each argument once.
fn local_arguments(cli: &Cli) -> Result<BTreeMap<u32, u32>, FileError> {
    let mut sizes = BTreeMap::new();
    for (index, bytes) in &cli.local_arg {
        if sizes.insert(*index, *bytes).is_some() {
            let message = format!("argument {index} is given twice");
            return Err(FileError { name: "--local-arg".to_owned(), message });
        }
    }
    Ok(sizes)
}

/// Shows the rules of level error that the module breaks, if any. A module that can't be made sense of, as one that is cut off,
/// is an error.
fn breaks_rules(
    cli: &Cli,
    loaded: &Loaded,
    spec: &Specialization,
    profile: Option<&Profile>,
) -> Result<bool, FileError> {
    let mut options = coop_validate::Options::default();
    options.specialization = spec.clone();
    // Where nothing is said, the subgroups of the lowering are the device's own.
    options.subgroup_size = cli.profile.subgroup_size.or(profile.map(|p| p.limits.subgroup_size));
    // As it will be lowered: what slang's lambdas capture is passed as it means it.
    let mut report = coop_validate::check(&coop_ir::captures::as_passed(&loaded.module), &options);
    let blocking: Vec<_> = report.blocking().cloned().collect();
    if blocking.is_empty() {
        return Ok(false);
    }
    io::make_sense(loaded)?;
    report.findings = blocking;
    let renderer = Renderer::for_file(loaded, cli.style.color.on_stderr(), render::width());
    let shown = render::human(renderer, &report);
    io::error(shown.trim_end());
    io::error("error: the module breaks rules, so it is not lowered (--no-check lowers it all the same)");
    Ok(true)
}

fn refuse(cli: &Cli, loaded: &Loaded, refusal: &Refusal) {
    let at = refusal.at.filter(|r| loaded.module.all().any(|l| l == *r));
    let Some(at) = at else {
        io::error(&format!("{}: {}: {}", loaded.name, refusal.rule, refusal.reason));
        io::error(&format!("  help: {}", refusal.remedy));
        return;
    };
    let problem = Problem {
        code: refusal.rule.to_owned(),
        level: Level::Error,
        message: refusal.reason.clone(),
        at,
        labels: vec![(at, Part::Whole, "this can't be lowered".to_owned())],
        help: Some(refusal.remedy.clone()),
    };
    let mut renderer = Renderer::for_file(loaded, cli.style.color.on_stderr(), render::width());
    io::error(renderer.draw(&problem).trim_end());
}

/// The module as text.
fn text(module: &Module) -> String {
    print(module, &PrintOptions::default()).text
}

/// Prints what each pass changed.
fn dump_changed(cli: &Cli, context: usize, input: &Module, seen: &[(String, Module)]) {
    let before = std::iter::once(input).chain(seen.iter().map(|(_, module)| module));
    for (before, (name, after)) in before.zip(seen) {
        let difference = crate::coop::difference(before, after);
        if difference.is_empty() {
            io::error(&format!("{name}: nothing changed"));
            continue;
        }
        let [removed, added] = difference.changes();
        io::error(&format!("{name}: -{removed} +{added}"));
        let heads = [format!("before {name}"), format!("after {name}")];
        let text = difference.unified([&heads[0], &heads[1]], context, cli.style.color.on_stderr());
        io::error(text.trim_end());
    }
}

fn dump(dir: &Path, name: &str, module: &Module) -> Result<(), FileError> {
    let fail = |e: std::io::Error| FileError { name: dir.display().to_string(), message: e.to_string() };
    std::fs::create_dir_all(dir).map_err(fail)?;
    io::write_bytes(&dir.join(format!("{name}.spvasm")), text(module).as_bytes())
}

fn write(cli: &Cli, loaded: &Loaded, fit: &Fit, profile: Option<&Profile>) -> Result<(), FileError> {
    let Fit { lowered, lacking } = fit;
    let report = &lowered.report;
    if let Some(output) = &cli.output {
        if cli.text {
            io::write_bytes(output, text(&lowered.module).as_bytes())?;
        } else if report.changed || loaded.format == io::Format::Text {
            io::write_binary(output, &lowered.module)?;
        } else {
            io::write_bytes(output, &loaded.bytes)?;
        }
    } else if cli.text {
        io::print(&text(&lowered.module));
    }
    if let Some(path) = &cli.report {
        let json = serde_json::to_string_pretty(report)
            .map_err(|e| FileError { name: io::display_name(path), message: e.to_string() })?;
        io::write_bytes(path, format!("{json}\n").as_bytes())?;
    }
    if cli.time_passes {
        for t in &report.passes {
            io::error(&format!("{:>8} us  {}", t.micros, t.pass));
        }
    }
    if cli.style.quiet == 0 {
        say(cli, loaded, lowered);
    }
    if cli.style.quiet < 2 {
        report.warnings.iter().for_each(|w| io::error(&format!("warning: {w}")));
    }
    if let Some(profile) = profile.filter(|_| report.changed && cli.style.quiet < 2) {
        for Finding { message, rule, .. } in lacking {
            io::error(&format!("warning: {} does not run the output: {message} [{}]", profile.name, rule.id));
        }
    }
    Ok(())
}

/// Prints the requirements of the output on the pipeline.
fn say(cli: &Cli, loaded: &Loaded, lowered: &Lowered) {
    let report = &lowered.report;
    if !report.changed {
        io::error(&format!("{}: no cooperative matrices, nothing to lower", loaded.name));
        return;
    }
    let size = report.size.output;
    if !report.skipped_passes.is_empty() {
        if !cli.passes.is_empty() {
            let ran: Vec<&str> = report.passes.iter().map(|pass| pass.pass).collect();
            io::error(&format!(
                "{}: {} ran and no other pass, {} -> {size} bytes",
                loaded.name,
                ran.join(", "),
                loaded.bytes.len()
            ));
            return;
        }
        let (ran, skipped) = (report.passes.len(), report.skipped_passes.join(", "));
        io::error(&format!("{}: not finished: {ran} passes ran, and not {skipped} (--fuel)", loaded.name));
        return;
    }
    io::error(&format!("{}: lowered to {}, {} -> {size} bytes", loaded.name, report.target, loaded.bytes.len()));
    for id in &report.unknown_spec_ids {
        io::error(&format!("note: {} has no constant with SpecId {id}", loaded.name));
    }
    if let Some(why) = report.size.why.as_ref().filter(|_| cli.style.verbose > 0) {
        io::error(&format!("    {why}"));
    }
    if let Some(size) = report.required_subgroup_size {
        io::error(&format!("    the pipeline must require a subgroup size of {size} and full subgroups"));
    }
    if report.added_shared_memory > 0 {
        io::error(&format!("    it takes {} bytes more of shared memory", report.added_shared_memory));
    }
    if !report.added_capabilities.is_empty() {
        io::error(&format!("    it needs besides: {}", report.added_capabilities.join(", ")));
    }
    report.software.iter().for_each(|s| io::error(&format!("    {s}")));
    for kernel in &report.kernels {
        let [x, y, z] = kernel.local_size;
        let bytes = kernel.push_constant_bytes;
        io::error(&format!("    {}: a compute shader, {x}x{y}x{z}, {bytes} bytes of push constants", kernel.entry));
        for a in &kernel.arguments {
            let name = a.name.as_ref().map_or_else(String::new, |n| format!(" ({n})"));
            let size = a.size.map_or_else(String::new, |s| format!(", {s} bytes"));
            let at = a.offset.map_or_else(String::new, |o| format!(" at {o}"));
            io::error(&format!("      argument {}{name}: {}{at}{size}", a.index, a.kind));
        }
    }
    if cli.style.verbose > 0 {
        for m in &report.matrices {
            let ([gr, gc], [r, c]) = (m.grid, m.per_lane);
            let copies = if m.replicated { ", copies" } else { "" };
            let held = match m.tile {
                None => format!("{gr}x{gc} lanes, {r}x{c} each"),
                Some([tr, tc]) => format!("{gr}x{gc} subgroups, {r}x{c} tiles of {tr}x{tc} each"),
            };
            io::error(&format!("    %{} {}: {held}{copies}", m.id, m.matrix));
        }
        report.not_taken.iter().for_each(|n| io::error(&format!("    not {n}")));
        report.approximations.iter().for_each(|a| io::error(&format!("    {a}")));
    }
    if cli.output.is_none() && !cli.text {
        io::error("    nothing is written: give -o FILE, or -t for text");
    }
}
