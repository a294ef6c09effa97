//! Measures the lowering of the largest module for each target, each in a process of its own, because a process's peak
//! memory only grows.

use crate::llama_modules::{groups_of, largest, members, modules, read, stem};
use coop_cli::io;
use coop_device::Profile;
use coop_ir::binary;
use coop_ir::constant::{SpecValue, Specialization};
use coop_passes::{Options, Target, lower};
use nix::sys::resource::{UsageWho, getrusage};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const TARGETS: [Target; 4] = [Target::Scalar, Target::Khr, Target::Ext, Target::Auto];

/// The argument that makes this program the child.
const CHILD: &str = "--lower-the-largest";

/// Lowers what the arguments say, if they do, and prints a line about it.
pub(crate) fn as_child() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let Some(at) = args.iter().position(|a| a == CHILD) else { return false };
    let [name, file, spec @ ..] = &args[at + 1..] else { return false };
    let target = TARGETS.into_iter().find(|t| t.to_string() == *name).unwrap_or(Target::Auto);
    let mut values = Specialization::new();
    for value in spec.iter().filter(|s| *s != "--spec") {
        let (id, value) = value.split_once('=').unwrap_or_else(|| panic!("{value} is not ID=VALUE"));
        let parsed = id.parse().ok().zip(SpecValue::parse(value));
        let (id, value) = parsed.unwrap_or_else(|| panic!("{id}={value}"));
        values.set(id, value);
    }
    let profile = Profile::builtin("nvidia-h100");
    let options = Options { spec: values, profile: profile.as_ref(), ..Options::new(target) };
    let start = Instant::now();
    let module = io::load(Path::new(file)).unwrap_or_else(|e| panic!("{e}")).module;
    let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{e}"));
    let bytes = binary::write(&lowered.module).len();
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap_or_else(|e| panic!("getrusage: {e}"));
    let peak = usage.max_rss() as f64 * if cfg!(target_vendor = "apple") { 1.0 } else { 1024.0 } / 1e6;
    let input = std::fs::metadata(file).map_or(0, |m| m.len());
    let ratio = bytes as f64 / input as f64;
    println!("{name:<8}{millis:>10.1} ms{peak:>10.1} MB{input:>10} to {bytes:>8} bytes, {ratio:.2}x");
    true
}

/// A line for each target.
pub(crate) fn print() {
    let (Some((file, spec)), Ok(program)) = (largest(), std::env::current_exe()) else { return };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    println!(
        "\nLowering the largest module that an engine uses, {name}, for the H100: read, lower, write; 200 ms and 200 MB are allowed\n"
    );
    for target in TARGETS {
        let mut command = Command::new(&program);
        let status = command.arg(CHILD).arg(target.to_string()).arg(&file).args(&spec).status();
        assert!(status.is_ok_and(|s| s.success()), "{target}: the process that lowers failed");
    }
}

/// The longest time and the greatest growth among the engine's pipelines, lowered to khr and to scalar.
pub(crate) fn print_worst() {
    let (Some(modules), Some(profile)) = (modules(), Profile::builtin("nvidia-h100")) else { return };
    let groups = groups_of("spec_cm2.toml");
    let (mut count, mut unsaid) = (0, 0);
    let (mut slowest, mut greatest) = ((0.0, String::new()), (0.0, String::new()));
    for member in members(&modules, &groups) {
        let module = read(member.path);
        for (entry, target) in member.group.entry.iter().flat_map(|e| [Target::Khr, Target::Scalar].map(|t| (e, t))) {
            let options = Options { spec: entry.specialization(), profile: Some(&profile), ..Options::new(target) };
            let start = Instant::now();
            let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{}: {e}", stem(member.path)));
            let millis = start.elapsed().as_secs_f64() * 1e3;
            let size = &lowered.report.size;
            let ratio = size.output as f64 / size.input as f64;
            count += 1;
            unsaid += usize::from(ratio > 6.0 && size.why.is_none());
            let what = || format!("{} to {target}, {}", stem(member.path), entry.label());
            if millis > slowest.0 {
                slowest = (millis, what());
            }
            if ratio > greatest.0 {
                greatest = (ratio, what());
            }
        }
    }
    println!("the longest of {count} lowerings: {:.1} ms, {}", slowest.0, slowest.1);
    println!(
        "the output that is larger by most: {:.2}x, {}; over 6x and not said why: {unsaid}",
        greatest.0, greatest.1
    );
}
