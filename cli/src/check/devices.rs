//! `coopcheck devices`: tells which devices run a module as it is or lowered, and why others do not.

use super::compile::{Compiler, Language};
use super::{Cli, DevicesArgs, DevicesFormat, device};
use crate::Status;
use crate::io::{self, Loaded};
use coop_components::Lacks;
use coop_device::{Api, Profile};
use coop_ir::Module;
use coop_ir::constant::Specialization;
use coop_ir::spv::Capability;
use coop_passes::{Error, Lanes, PASSES, Target, Vulkan, lower};
use coop_validate::{Device, Level, Options, Report};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The verdict on a module for a device.
enum Verdict {
    /// The device runs it as it is, where the pipeline requires this subgroup size.
    AsIs { subgroup_size: Option<u32> },
    /// The device runs it when it is lowered; `because` is the reason why not as it is.
    /// `software` names the component types that become software.
    Lowered { how: How, subgroup_size: Option<u32>, because: String, software: Option<String> },
    /// The device does not run it.
    No { because: String },
    /// Undecided without the values of these SpecIds.
    Open { because: String },
    /// The profile does not decide it.
    NotJudged { because: String },
}

/// The options of a lowering.
#[derive(Clone, Copy)]
struct How {
    target: Target,
    lanes: Lanes,
    /// The subgroup size that the pipeline requires.
    subgroup_size: Option<u32>,
    /// True if kernels become shaders.
    vulkan: bool,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cooplower")?;
        if self.vulkan {
            f.write_str(" --env vulkan")?;
        }
        write!(f, " --target {}", self.target)?;
        if self.lanes == Lanes::LocalIndex {
            f.write_str(" --lanes local-index")?;
        }
        match self.subgroup_size {
            Some(size) => write!(f, " --subgroup-size {size}"),
            None => Ok(()),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &DevicesArgs) -> Status {
    match prepared(args) {
        Ok((profiles, spec)) => {
            let mut status = Status::Success;
            for path in &args.files {
                status = status.max(file(path, args, &profiles, &spec));
            }
            status
        }
        Err(message) => {
            io::error(&format!("error: {message}"));
            Status::BadInput
        }
    }
}

/// Returns the requested profiles: those named, or all built-in ones.
fn prepared(args: &DevicesArgs) -> Result<(Vec<Profile>, Specialization), String> {
    let spec = args.spec.specialization().map_err(|e| e.to_string())?;
    let mut profiles = Vec::new();
    for name in &args.profile {
        profiles.push(device::named(name)?);
    }
    for name in &args.device {
        profiles.push(device::of_this_machine(name)?);
    }
    if profiles.is_empty() {
        profiles.extend(Profile::builtin_names().filter_map(Profile::builtin));
    }
    Ok((profiles, spec))
}

fn file(path: &Path, args: &DevicesArgs, profiles: &[Profile], spec: &Specialization) -> Status {
    let loaded = match Language::of(path) {
        Some(language) => {
            let (program, arguments) = (args.compiler.clone(), args.compiler_arguments.clone());
            let bytes = Compiler { program, arguments }.compile(language, path);
            bytes.and_then(|bytes| io::parse(io::display_name(path), bytes))
        }
        None => io::load(path),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(e) => {
            io::error(&format!("error: {e}"));
            return Status::BadInput;
        }
    };
    if let Err(errors) = io::well_formed(&loaded) {
        errors.iter().for_each(|e| io::error(&format!("error: {e}")));
        return Status::BadInput;
    }
    let mut options = Options::default();
    options.specialization = spec.clone();
    let report = coop_validate::check(&loaded.module, &options);
    let broken = report.blocking().next();
    let verdicts: Vec<(&Profile, Verdict)> = profiles
        .iter()
        .map(|profile| match broken {
            // What breaks rules runs nowhere for sure.
            Some(f) => (profile, Verdict::No { because: format!("{} [{}]", f.message, f.rule.id) }),
            None => (profile, judge(&loaded, profile, &options, args.subgroup_size)),
        })
        .collect();
    match args.format {
        DevicesFormat::Human => io::print(&table(&loaded.name, &verdicts)),
        DevicesFormat::Json => io::print(&format!("{}\n", objects(&loaded.name, &verdicts))),
    }
    if broken.is_some() { Status::Findings } else { Status::Success }
}

/// Returns every target; elements last, since they are slow.
fn targets() -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    for target in PASSES.iter().flat_map(|p| p.targets) {
        if !all.contains(target) {
            all.push(*target);
        }
    }
    all.sort_by_key(|t| *t == Target::Scalar);
    all
}

/// Returns a device, with the subgroup size that the pipeline requires, if any.
fn on(profile: &Profile, options: &Options, subgroup_size: Option<u32>) -> Options {
    let device = Device { subgroup_size, ..Device::new(profile.clone()) };
    let mut options = options.clone();
    options.device = Some(Arc::new(device));
    options
}

fn judge(loaded: &Loaded, profile: &Profile, options: &Options, subgroup_size: Option<u32>) -> Verdict {
    // Without a requirement first; then each size that can be required.
    let sizes: Vec<Option<u32>> = match subgroup_size {
        Some(size) => vec![Some(size)],
        None => [None].into_iter().chain(profile.required_subgroup_sizes().into_iter().map(Some)).collect(),
    };
    let as_is = |size| coop_validate::check_device(&loaded.module, &on(profile, options, size));
    let report = as_is(sizes[0]);
    let Some(because) = first_error(&report) else {
        return match obstacle(&report) {
            None => Verdict::AsIs { subgroup_size: sizes[0] },
            Some(verdict) => verdict,
        };
    };
    if depends_on_subgroups(&report) {
        for &subgroup_size in &sizes[1..] {
            let report = as_is(subgroup_size);
            if first_error(&report).is_none() && obstacle(&report).is_none() {
                return Verdict::AsIs { subgroup_size };
            }
        }
    }
    // Of the last lowering, which takes the most.
    let (mut why_not, mut not_judged) = (None, None);
    let vulkan = profile.api == Api::Vulkan && loaded.module.has_capability(Capability::Kernel);
    // What needs no subgroups of the device comes last.
    let by_index = (Target::Scalar, Lanes::LocalIndex, &sizes[..1]);
    let ways = targets().into_iter().map(|target| (target, Lanes::Subgroup, &sizes[..]));
    for (target, lanes, sizes) in ways.chain(Some(by_index).filter(|_| profile.api == Api::Vulkan)) {
        let mut noted = |why: String| {
            if lanes == Lanes::Subgroup {
                why_not = Some(why);
            }
        };
        for &size in sizes {
            let how = How { target, lanes, subgroup_size: size, vulkan };
            let lowered = match lower(&loaded.module, &lowering(how, profile, options)) {
                Ok(lowered) => lowered,
                Err(Error::Refused(refusal)) => {
                    noted(format!("{how}: {}", refusal.reason));
                    continue;
                }
                Err(bug @ Error::Bug { .. }) => panic!("{bug}"),
            };
            let required = lowered.report.required_subgroup_size;
            let (module, software) = without_components(lowered.module, profile);
            let after = coop_validate::check_device(&module, &on(profile, options, required.or(size)));
            let reason = match (first_error(&after), obstacle(&after)) {
                (None, None) => return Verdict::Lowered { how, subgroup_size: required, because, software },
                (Some(reason), _) => reason,
                (None, Some(Verdict::NotJudged { because: reason })) => {
                    not_judged.get_or_insert_with(|| format!("{because}; after {how}: {reason}"));
                    reason
                }
                (None, Some(verdict)) => words(&verdict).1.unwrap_or_default().to_owned(),
            };
            noted(format!("after {how}: {reason}"));
            if !depends_on_subgroups(&after) {
                break;
            }
        }
    }
    if let Some(because) = not_judged {
        return Verdict::NotJudged { because };
    }
    // With the SpecIds known a lowering might do.
    match undecided(&report).or_else(|| refused_for_constants(loaded, profile, options, subgroup_size)) {
        Some(open) => Verdict::Open { because: format!("{because}; {open}") },
        None => Verdict::No {
            because: match why_not {
                Some(why_not) => format!("{because}; {why_not}"),
                None => because,
            },
        },
    }
}

/// Returns a module without the component types that a device lacks, with their names and what they cost; the module itself if
/// that is refused.
fn without_components(module: Module, profile: &Profile) -> (Module, Option<String>) {
    match coop_components::lower(&module, &coop_components::Options::new(Lacks::of(profile))) {
        Ok(done) => {
            let software = done.report.summary().map(|names| format!("{names} in software: {}", done.report.growth()));
            (done.module, software)
        }
        Err(coop_components::Error::Refused(_)) => (module, None),
        Err(bug @ coop_components::Error::Bug { .. }) => panic!("{bug}"),
    }
}

fn lowering<'p>(how: How, profile: &'p Profile, options: &Options) -> coop_passes::Options<'p> {
    let mut lowering = coop_passes::Options::new(how.target);
    lowering.lanes = how.lanes;
    lowering.spec = options.specialization.clone();
    lowering.profile = Some(profile);
    lowering.subgroup_size = how.subgroup_size;
    lowering.vulkan = how.vulkan.then(Vulkan::default);
    lowering
}

/// Returns true if another subgroup size might fix all errors of a report.
fn depends_on_subgroups(report: &Report) -> bool {
    const RULES: [&str; 4] = ["device-local-size", "device-muladd", "device-qcom-lanes", "device-type"];
    let mut errors = report.findings.iter().filter(|f| f.level == Level::Error).peekable();
    errors.peek().is_some() && errors.all(|f| RULES.contains(&f.rule.id))
}

/// Returns true if the scalar lowering, which accepts the most, is refused for lack of values.
fn refused_for_constants(
    loaded: &Loaded,
    profile: &Profile,
    options: &Options,
    subgroup_size: Option<u32>,
) -> Option<String> {
    let vulkan = profile.api == Api::Vulkan && loaded.module.has_capability(Capability::Kernel);
    let mut how =
        lowering(How { target: Target::Scalar, lanes: Lanes::Subgroup, subgroup_size, vulkan }, profile, options);
    let Err(Error::Refused(refusal)) = lower(&loaded.module, &how) else { return None };
    how.spec_defaults = true;
    lower(&loaded.module, &how).is_ok().then(|| refusal.reason.clone())
}

fn first_error(report: &Report) -> Option<String> {
    let first = report.findings.iter().find(|f| f.level == Level::Error)?;
    Some(first.message.clone())
}

/// Returns the reason why a module without errors is not certain to run.
fn obstacle(report: &Report) -> Option<Verdict> {
    let note = |id: &str| report.findings.iter().find(|f| f.rule.id == id).map(|f| f.message.clone());
    note("device-not-judged")
        .map(|because| Verdict::NotJudged { because })
        .or_else(|| undecided(report).map(|because| Verdict::Open { because }))
}

/// Returns the findings that depend on specialization constants.
fn undecided(report: &Report) -> Option<String> {
    report.findings.iter().find(|f| f.rule.id == "device-undecided").map(|f| f.message.clone())
}

fn table(file: &str, verdicts: &[(&Profile, Verdict)]) -> String {
    let widest = verdicts.iter().map(|(p, _)| p.name.chars().count()).max().unwrap_or(0);
    let mut out = format!("{file}\n");
    for (profile, verdict) in verdicts {
        let (short, because) = words(verdict);
        out.push_str(&format!("  {:widest$}  {short}\n", profile.name));
        if let Some(because) = because {
            out.push_str(&format!("  {:widest$}    {because}\n", ""));
        }
    }
    out
}

/// Returns the verdict in words, and the reason for it.
fn words(verdict: &Verdict) -> (String, Option<&str>) {
    match verdict {
        Verdict::AsIs { subgroup_size: None } => ("runs as it is".into(), None),
        Verdict::AsIs { subgroup_size: Some(n) } => {
            (format!("runs as it is, requiring {n} invocations to a subgroup"), None)
        }
        Verdict::Lowered { how, subgroup_size, because, software } => {
            let size = subgroup_size.map_or(String::new(), |n| format!(", with subgroups of {n}"));
            let software = software.as_ref().map_or_else(String::new, |s| format!(", with {s}"));
            (format!("runs after `{how}`{size}{software}"), Some(because))
        }
        Verdict::No { because } => ("does not run".into(), Some(because)),
        Verdict::Open { because } => ("can't be said".into(), Some(because)),
        Verdict::NotJudged { because } => ("not judged".into(), Some(because)),
    }
}

fn objects(file: &str, verdicts: &[(&Profile, Verdict)]) -> Value {
    let devices: Vec<Value> = verdicts
        .iter()
        .map(|(profile, verdict)| {
            let (name, how, size, because) = match verdict {
                Verdict::AsIs { subgroup_size } => ("as-is", None, *subgroup_size, None),
                Verdict::Lowered { how, subgroup_size, because, .. } => {
                    ("lowered", Some(how), *subgroup_size, Some(because))
                }
                Verdict::No { because } => ("no", None, None, Some(because)),
                Verdict::Open { because } => ("open", None, None, Some(because)),
                Verdict::NotJudged { because } => ("not-judged", None, None, Some(because)),
            };
            let mut object = json!({
                "profile": profile.name,
                "runs": name,
                "target": how.map(|h| h.target.to_string()),
                "command": how.map(|h| h.to_string()),
                "required_subgroup_size": size,
                "because": because,
            });
            if let Verdict::Lowered { software: Some(software), .. } = verdict {
                object["software"] = json!(software);
            }
            object
        })
        .collect();
    json!({ "file": file, "devices": devices })
}

/// Returns the device that a command line names.
pub(super) fn of(cli: &Cli) -> Result<Option<Arc<Device>>, String> {
    let profile = match (&cli.profile.profile, &cli.profile.device) {
        (Some(name), _) => device::named(name)?,
        (None, Some(name)) => device::of_this_machine(name)?,
        (None, None) => return Ok(None),
    };
    let (subgroup_size, entry) = (cli.profile.subgroup_size, cli.entry.entry.clone());
    Ok(Some(Arc::new(Device { profile: profile.into(), subgroup_size, entry })))
}
