//! `coopcheck devices`: which devices take a module as it is, or lowered, and why not.

use super::{Cli, DevicesArgs, DevicesFormat, device};
use crate::Status;
use crate::io::{self, Loaded};
use coop_device::Profile;
use coop_ir::constant::Specialization;
use coop_passes::{Error, PASSES, Target, lower};
use coop_validate::{Device, Level, Options, Report};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// What becomes of a module on a device.
enum Verdict {
    /// It runs as it is.
    AsIs,
    /// It runs when it is lowered; why it does not as it is.
    Lowered { target: Target, subgroup_size: Option<u32>, because: String },
    /// It does not run.
    No { because: String },
    /// It can't be said without the values of these SpecIds.
    Open { because: String },
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

/// The profiles that are asked for: those named, or all that are built in.
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
    let loaded = match io::load(path) {
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
    let broken = report.findings.iter().find(|f| f.level == Level::Error);
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

/// Every target that passes are for; elements last, since they are slow.
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

fn judge(loaded: &Loaded, profile: &Profile, options: &Options, subgroup_size: Option<u32>) -> Verdict {
    let on = |subgroup_size| {
        let device = Device { subgroup_size, ..Device::new(profile.clone()) };
        let mut options = options.clone();
        options.device = Some(Arc::new(device));
        options
    };
    let report = coop_validate::check_device(&loaded.module, &on(subgroup_size));
    let Some(because) = first_error(&report) else {
        return match open(&report) {
            Some(because) => Verdict::Open { because },
            None => Verdict::AsIs,
        };
    };
    // Of the last target, which takes the most.
    let mut why_not = None;
    for target in targets() {
        let mut how = coop_passes::Options::new(target);
        how.spec = options.specialization.clone();
        how.profile = Some(profile);
        how.subgroup_size = subgroup_size;
        let lowered = match lower(&loaded.module, &how) {
            Ok(lowered) => lowered,
            Err(Error::Refused(refusal)) => {
                why_not = Some(format!("cooplower --target {target}: {}", refusal.reason));
                continue;
            }
            Err(bug @ Error::Bug { .. }) => panic!("{bug}"),
        };
        let size = lowered.report.required_subgroup_size;
        let after = coop_validate::check_device(&lowered.module, &on(size.or(subgroup_size)));
        match first_error(&after).or_else(|| open(&after)) {
            None => return Verdict::Lowered { target, subgroup_size: size, because },
            Some(reason) => why_not = Some(format!("after cooplower --target {target}: {reason}")),
        }
    }
    // With the SpecIds known a lowering might do.
    match open(&report).or_else(|| refused_for_constants(loaded, profile, options, subgroup_size)) {
        Some(open) => Verdict::Open { because: format!("{because}; {open}") },
        None => Verdict::No {
            because: match why_not {
                Some(why_not) => format!("{because}; {why_not}"),
                None => because,
            },
        },
    }
}

/// Whether the scalar lowering, which takes the most, is refused for want of values.
fn refused_for_constants(
    loaded: &Loaded,
    profile: &Profile,
    options: &Options,
    subgroup_size: Option<u32>,
) -> Option<String> {
    let mut how = coop_passes::Options::new(Target::Scalar);
    how.spec = options.specialization.clone();
    how.profile = Some(profile);
    how.subgroup_size = subgroup_size;
    let Err(Error::Refused(refusal)) = lower(&loaded.module, &how) else { return None };
    how.spec_defaults = true;
    lower(&loaded.module, &how).is_ok().then(|| refusal.reason.clone())
}

fn first_error(report: &Report) -> Option<String> {
    let first = report.findings.iter().find(|f| f.level == Level::Error)?;
    Some(first.message.clone())
}

/// What could not be judged.
fn open(report: &Report) -> Option<String> {
    let first = report.findings.iter().find(|f| f.rule.id == "device-undecided")?;
    Some(first.message.clone())
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

/// The verdict in words, and the reason behind it.
fn words(verdict: &Verdict) -> (String, Option<&str>) {
    match verdict {
        Verdict::AsIs => ("runs as it is".into(), None),
        Verdict::Lowered { target, subgroup_size, because } => {
            let size = subgroup_size.map_or(String::new(), |n| format!(", with subgroups of {n}"));
            (format!("runs after `cooplower --target {target}`{size}"), Some(because))
        }
        Verdict::No { because } => ("does not run".into(), Some(because)),
        Verdict::Open { because } => ("can't be said".into(), Some(because)),
    }
}

fn objects(file: &str, verdicts: &[(&Profile, Verdict)]) -> Value {
    let devices: Vec<Value> = verdicts
        .iter()
        .map(|(profile, verdict)| {
            let (name, target, size, because) = match verdict {
                Verdict::AsIs => ("as-is", None, None, None),
                Verdict::Lowered { target, subgroup_size, because } => {
                    ("lowered", Some(target.to_string()), *subgroup_size, Some(because))
                }
                Verdict::No { because } => ("no", None, None, Some(because)),
                Verdict::Open { because } => ("open", None, None, Some(because)),
            };
            json!({
                "profile": profile.name,
                "runs": name,
                "target": target,
                "required_subgroup_size": size,
                "because": because,
            })
        })
        .collect();
    json!({ "file": file, "devices": devices })
}

/// The device of a command line that checks, if it names one.
pub(super) fn of(cli: &Cli) -> Result<Option<Arc<Device>>, String> {
    let profile = match (&cli.profile.profile, &cli.profile.device) {
        (Some(name), _) => device::named(name)?,
        (None, Some(name)) => device::of_this_machine(name)?,
        (None, None) => return Ok(None),
    };
    let (subgroup_size, entry) = (cli.profile.subgroup_size, cli.entry.entry.clone());
    Ok(Some(Arc::new(Device { profile, subgroup_size, entry })))
}
