//! Measures the speed of the tools, and of spirv-val on the same files: `scripts/bench.sh`.
//!
//! Criterion times the library, one file after the other on one thread. Everything is processor time, so that a machine
//! that does other things as well gives the same figures; megabytes are those of the binary modules, whatever the step
//! makes of them. spirv-val is timed as a process that is given the folder of files, minus the same with a folder that
//! holds one module that does nothing (start-up, dynamic linking). The second table compares processes as they are.

// The tables are what this is for.
#![allow(clippy::print_stdout)]

#[path = "../../tests/llama_modules/mod.rs"]
mod llama_modules;

mod clock;
mod largest;
mod process;

use clock::CpuTime;
use coop_cli::io;
use coop_device::Profile;
use coop_exec::Case;
use coop_exec::interp::{Config, Interpreted};
use coop_ir::{Module, binary, text, verify};
use coop_passes::{Options, Target, lower};
use criterion::measurement::Measurement;
use criterion::{Criterion, Throughput};
use llama_modules::{groups, groups_of, members, modules, repository, stem};
use process::{Cost, Tool};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The steps that are timed, each with the multiple of spirv-val's throughput that it is meant to reach.
const STEPS: [(&str, Option<f64>); 9] = [
    ("read", Some(10.0)),
    ("write", None),
    ("print", Some(10.0)),
    ("parse", None),
    ("verify", None),
    ("rules", None),
    ("check", Some(10.0)),
    ("check-flow", Some(5.0)),
    ("lower", None),
];

/// Files that are timed together.
struct Corpus {
    name: String,
    files: Vec<PathBuf>,
    bytes: Vec<Vec<u8>>,
    /// Modules that can be lowered, with the specialization constants of a device with 16x16x16 and subgroups of 32.
    to_lower: Vec<(Module, Options<'static>)>,
    /// The size of those in bytes.
    to_lower_bytes: u64,
}

impl Corpus {
    fn new(name: &str, files: Vec<PathBuf>) -> Corpus {
        let bytes: Vec<Vec<u8>> = files.iter().map(|p| read_file(p)).collect();
        let mut corpus =
            Corpus { name: name.to_owned(), bytes, to_lower: Vec::new(), to_lower_bytes: 0, files: files.clone() };
        let groups = groups();
        for (file, bytes) in files.iter().zip(&corpus.bytes) {
            let mut options = Options { subgroup_size: Some(32), verify_each: false, ..Options::new(Target::Scalar) };
            let one = [file.clone()];
            if let Some(member) = members(&one, &groups).first() {
                options.spec = member.group.entry[0].specialization();
            } else if stem(file).ends_with("_cm2") {
                continue;
            } else {
                options.spec_defaults = true;
            }
            let module = read(bytes);
            if let Err(e) = lower(&module, &options) {
                panic!("{}: {e}", file.display());
            }
            corpus.to_lower_bytes += bytes.len() as u64;
            corpus.to_lower.push((module, options));
        }
        corpus
    }

    fn size(&self) -> u64 {
        self.bytes.iter().map(|b| b.len() as u64).sum()
    }
}

fn read_file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

fn read(bytes: &[u8]) -> Module {
    binary::read(bytes).unwrap_or_else(|e| panic!("{e}"))
}

fn main() {
    if largest::as_child() {
        return;
    }
    // `cargo bench -- --test` and such only try whether it runs.
    let timed = std::env::args().any(|a| a == "--bench") && !std::env::args().any(|a| a == "--test" || a == "--list");
    // While this process is small and has started no other: both would count.
    let memory = timed.then(memory);
    let corpora = corpora();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("criterion");
    let mut criterion = Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .output_directory(&folder)
        .configure_from_args();
    for corpus in &corpora {
        bench(&mut criterion, corpus);
    }
    criterion.final_summary();
    if let Some(memory) = memory {
        throughput(&folder, &corpora);
        processes(&corpora);
        without_matrices();
        one_by_one(&corpora);
        lowering(&corpora);
        largest::print();
        largest::print_worst();
        interpreter();
        println!("{memory}");
    }
}

/// Our kernels, and of llama.cpp's modules the largest, the 20 largest and all.
fn corpora() -> Vec<Corpus> {
    let folder = repository().join("testdata/kernels");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut kernels: Vec<PathBuf> =
        entries.map_while(Result::ok).map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "spv")).collect();
    kernels.sort();
    let mut out = vec![Corpus::new("kernels", kernels)];
    if let Some(mut llama) = modules() {
        llama.sort_by_key(|p| std::cmp::Reverse(size(p)));
        out.push(Corpus::new("llama-largest", llama[..1].to_vec()));
        out.push(Corpus::new("llama-20", llama[..20].to_vec()));
        out.push(Corpus::new("llama-all", llama));
    }
    out
}

fn bench(criterion: &mut Criterion<CpuTime>, corpus: &Corpus) {
    let mut group = criterion.benchmark_group(&corpus.name);
    group.throughput(Throughput::Bytes(corpus.size()));
    let modules: Vec<Module> = corpus.bytes.iter().map(|b| read(b)).collect();
    let print = |m: &Module| text::print(m, &text::PrintOptions::default()).text;
    group.bench_function("read", |b| b.iter(|| corpus.bytes.iter().map(|b| read(b).arena_len()).sum::<usize>()));
    group.bench_function("write", |b| b.iter(|| modules.iter().map(|m| binary::write(m).len()).sum::<usize>()));
    group.bench_function("print", |b| b.iter(|| modules.iter().map(|m| print(m).len()).sum::<usize>()));
    let texts: Vec<String> = modules.iter().map(print).collect();
    let parse = |t: &String| text::parse(t).unwrap_or_else(|e| panic!("{e}")).arena_len();
    group.bench_function("parse", |b| b.iter(|| texts.iter().map(parse).sum::<usize>()));
    group.bench_function("verify", |b| b.iter(|| modules.iter().all(|m| verify::verify(m).is_ok())));
    let (every, without) = (coop_validate::Options::default(), without_uniformity());
    group.bench_function("rules", |b| {
        b.iter(|| modules.iter().map(|m| coop_validate::check(m, &without).findings.len()).sum::<usize>());
    });
    // All that coopcheck does with a file, but for reading it from the disk and showing what it has found.
    let check = |bytes: &Vec<u8>, options: &coop_validate::Options| {
        let loaded = io::parse(String::new(), bytes.clone()).unwrap_or_else(|e| panic!("{e}"));
        let cfgs = io::well_formed(&loaded).unwrap_or_else(|e| panic!("{}", e[0]));
        coop_validate::check_with(&loaded.module, &cfgs, options).findings.len()
    };
    for (name, options) in [("check", &without), ("check-flow", &every)] {
        group.bench_function(name, |b| b.iter(|| corpus.bytes.iter().map(|m| check(m, options)).sum::<usize>()));
    }
    group.throughput(Throughput::Bytes(corpus.to_lower_bytes));
    let lowered = |(m, o): &(Module, Options<'_>)| lower(m, o).map_or(0, |l| l.module.arena_len());
    group.bench_function("lower", |b| b.iter(|| corpus.to_lower.iter().map(lowered).sum::<usize>()));
    group.finish();
}

/// Every rule but those about who executes what.
fn without_uniformity() -> coop_validate::Options {
    let mut options = coop_validate::Options::default();
    for rule in coop_validate::RULES.iter().filter(|r| r.family() == "uniformity") {
        options.set_level(rule.id, coop_validate::Level::Allow).unwrap_or_else(|e| panic!("{e}"));
    }
    options
}

/// Measures modules without matrices, most of them llama.cpp's.
fn without_matrices() {
    const GOAL: Duration = Duration::from_micros(200);
    let Some(folder) = modules().and_then(|m| Some(m.first()?.parent()?.to_owned())) else { return };
    let Ok(entries) = std::fs::read_dir(&folder) else { return };
    let files = entries.map_while(Result::ok).map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "spv"));
    let mut plain: Vec<(PathBuf, Vec<u8>)> =
        files.map(|p| (p.clone(), read_file(&p))).filter(|f| coop_validate::has_no_matrices(&f.1)).collect();
    plain.sort_by_key(|f| f.1.len());
    let Some((largest, bytes)) = plain.last() else { return };
    let each = |bytes: &Vec<u8>| {
        let runs = (0..20).map(|_| {
            let start = std::time::Instant::now();
            assert!(std::hint::black_box(coop_validate::has_no_matrices(bytes)));
            start.elapsed()
        });
        runs.min().unwrap_or_default()
    };
    let mut times: Vec<Duration> = plain.iter().map(|f| each(&f.1)).collect();
    times.sort_unstable();
    let (middle, most) = (times[times.len() / 2], times[times.len() - 1]);
    let tool = Tool::coopcheck();
    let [one, none] = tool.cost_and_idle(std::slice::from_ref(largest));
    let net = one.wall.saturating_sub(none.wall);
    let mark = |d: Duration| if d < GOAL { "" } else { "*" };
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    println!(
        "\n{} modules without matrices: as a call {:.1} us in the middle, {:.1} us at most{}; \
         as a process with the largest, {} bytes, {:.0} us more than `--version`{} (which takes {:.0} us)",
        plain.len(),
        us(middle),
        us(most),
        mark(most),
        bytes.len(),
        us(net),
        mark(net),
        us(none.wall)
    );
}

/// The time of a step as criterion has measured it: the median, in nanoseconds.
fn median(folder: &Path, corpus: &Corpus, step: &str) -> Option<f64> {
    let file = folder.join(&corpus.name).join(step).join("new/estimates.json");
    let estimates: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

fn throughput(folder: &Path, corpora: &[Corpus]) {
    let spirv_val = Tool::spirv_val();
    println!("\nMB/s of processor time, and how many times spirv-val's that is (* less than the goal)\n");
    print!("{:<14}{:>7}{:>9}{:>11}", "files", "count", "MB", "spirv-val");
    STEPS.iter().for_each(|(step, _)| print!("{step:>15}"));
    println!();
    for corpus in corpora {
        let size = corpus.size() as f64 / 1e6;
        let val = spirv_val.as_ref().map(|tool| size / tool.net(&corpus.files).cpu.as_secs_f64());
        print!(
            "{:<14}{:>7}{size:>9.3}{:>11}",
            corpus.name,
            corpus.files.len(),
            or_dash(val.map(|v| format!("{v:.1}")))
        );
        for (step, goal) in STEPS {
            let bytes = if step == "lower" { corpus.to_lower_bytes } else { corpus.size() };
            let speed = median(folder, corpus, step).map(|ns| bytes as f64 * 1e3 / ns);
            let ratio = speed.zip(val).map(|(s, v)| s / v);
            let missed = ratio.zip(goal).is_some_and(|(r, g)| r < g);
            let ratio = ratio.map_or(String::new(), |r| format!("{r:.1}x{}", if missed { "*" } else { "" }));
            print!("{:>8}{ratio:>7}", or_dash(speed.map(|s| format!("{s:.1}"))));
        }
        println!();
    }
    match &spirv_val {
        Some(tool) => println!("\nspirv-val --target-env vulkan1.3: {}", tool.version()),
        None => println!("\nno spirv-val: run scripts/drivers.sh first"),
    }
    println!(
        "parse: MB of the binary, not of the text; rules, check: every rule but uniformity; check: reading included; \
         check-flow: with uniformity; lower: KHR modules only, from a module"
    );
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// Both programs as a user starts them.
fn processes(corpora: &[Corpus]) {
    let coopcheck = Tool::coopcheck();
    let Some(spirv_val) = Tool::spirv_val() else { return };
    println!("\nWhole processes, milliseconds: one start for all files of a row, start-up included\n");
    let columns = ["coopcheck", "cpu", "spirv-val", "cpu", "ratio", "of cpu"];
    print!("{:<14}", "files");
    columns.iter().for_each(|c| print!("{c:>12}"));
    println!();
    let row = |name: &str, ours: Cost, theirs: Cost| {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let (wall, cpu) = (ms(theirs.wall) / ms(ours.wall), ms(theirs.cpu) / ms(ours.cpu));
        print!("{name:<14}{:>12.2}{:>12.2}", ms(ours.wall), ms(ours.cpu));
        println!("{:>12.2}{:>12.2}{wall:>11.1}x{cpu:>11.1}x", ms(theirs.wall), ms(theirs.cpu));
    };
    row("nothing", coopcheck.nothing(), spirv_val.nothing());
    for corpus in corpora {
        row(&corpus.name, coopcheck.cost(&corpus.files), spirv_val.cost(&corpus.files));
    }
}

/// The number of the largest modules that are timed one by one.
const LARGEST: usize = 8;
/// The factor by which coopcheck must be faster than spirv-val on each of them, uniformity included.
const GOAL: f64 = 5.0;

/// Both programs on the largest modules, a start for each.
fn one_by_one(corpora: &[Corpus]) {
    let (Some(spirv_val), Some(corpus)) = (Tool::spirv_val(), corpora.iter().find(|c| c.name == "llama-20")) else {
        return;
    };
    let coopcheck = Tool::coopcheck();
    println!(
        "\nThe largest modules one by one: processor time in milliseconds without start-up (* less than {GOAL}x)\n"
    );
    println!("{:<44}{:>9}{:>11}{:>11}{:>9}", "file", "MB", "coopcheck", "spirv-val", "ratio");
    for file in &corpus.files[..LARGEST] {
        let one = std::slice::from_ref(file);
        let [ours, theirs] = [&coopcheck, &spirv_val].map(|tool| tool.net(one).cpu.as_secs_f64() * 1e3);
        let ratio = theirs / ours.max(1e-3);
        let mark = if ratio < GOAL { "*" } else { "" };
        let megabytes = size(file) as f64 / 1e6;
        println!("{:<44}{megabytes:>9.3}{ours:>11.2}{theirs:>11.2}{ratio:>8.1}x{mark}", stem(file));
    }
}

/// The peak memory of coopcheck and of spirv-val with the largest module. The system tells the largest peak of all
/// processes so far, so ours comes first.
fn memory() -> String {
    let Some(file) = modules().and_then(|m| m.into_iter().max_by_key(|p| size(p))) else { return String::new() };
    let peak = |tool: Tool| {
        tool.cost(std::slice::from_ref(&file));
        process::peak_of_children() as f64 / 1e6
    };
    let ours = peak(Tool::coopcheck());
    let theirs = Tool::spirv_val().map(peak).map_or(String::new(), |p| format!(", spirv-val at most {p:.1} MB"));
    let size = size(&file) as f64 / 1e6;
    let limit = 20.0 * size + 20.0;
    format!(
        "peak memory with the largest module, {size:.3} MB: coopcheck {ours:.1} MB of {limit:.1} MB allowed{theirs}"
    )
}

/// Measures the interpreter on a product of f16 matrices of 256 x 256: with subgroup matrices, with tensor layouts and
/// matrices of workgroup scope.
fn interpreter() {
    let folder = repository().join("testdata/bench");
    let case = Case::load(&folder.join("matmul_f16.interp.toml")).unwrap_or_else(|e| panic!("{e}"));
    for name in ["matmul_khr_f16", "matmul_nv2_f16"] {
        let module = read(&read_file(&folder.join(format!("{name}.spv"))));
        let executor = Interpreted { config: Config::default() };
        let fastest = (0..5).map(|_| {
            let start = CpuTime.start();
            let (_, report) = executor.run_module(&module, &case).unwrap_or_else(|e| panic!("{name}: {e}"));
            (CpuTime.end(start), report)
        });
        let Some((time, report)) = fastest.min_by_key(|(time, _)| *time) else { return };
        if let Some(finding) = report.findings.first() {
            panic!("{name}: {finding}");
        }
        let rate = case.operations.unwrap_or(0.0) / time.as_secs_f64() / 1e6;
        println!(
            "interpreting {name}, 256 x 256 x 256: {:.3} s of processor time (goal: less than 10 s), {rate:.0} MFLOP/s, {} steps",
            time.as_secs_f64(),
            report.steps
        );
    }
}

/// Measures the lowering of the largest modules: of those with matrices of SPV_KHR_cooperative_matrix, and of
/// cooperative matrix 2.
fn lowering(corpora: &[Corpus]) {
    let largest = corpora.iter().flat_map(|c| &c.to_lower).max_by_key(|(m, _)| m.arena_len());
    if let Some((module, options)) = largest {
        lowering_of("the largest KHR module", module, options);
    }
    let (Some(files), groups) = (modules(), groups_of("spec_cm2.toml")) else { return };
    let Some(member) = members(&files, &groups).into_iter().max_by_key(|m| size(m.path)) else { return };
    let (module, name) = (read(&read_file(member.path)), stem(member.path));
    let profile = Profile::builtin("nvidia-h100").unwrap_or_else(|| panic!("it is built in"));
    for target in [Target::Khr, Target::Scalar] {
        let options = Options {
            spec: member.group.entry[0].specialization(),
            profile: Some(&profile),
            verify_each: false,
            ..Options::new(target)
        };
        lowering_of(&format!("the largest module of cooperative matrix 2, {name},"), &module, &options);
    }
}

fn lowering_of(what: &str, module: &Module, options: &Options<'_>) {
    let lowered = (0..20).filter_map(|_| lower(module, options).ok());
    let fastest = lowered.min_by_key(|l| l.report.passes.iter().map(|p| p.micros).sum::<u64>());
    let Some(lowered) = fastest else { return };
    let (input, output) = (binary::write(module).len(), binary::write(&lowered.module).len());
    let passes: Vec<String> = lowered.report.passes.iter().map(|p| format!("{} {}", p.pass, p.micros)).collect();
    let micros: u64 = lowered.report.passes.iter().map(|p| p.micros).sum();
    let ratio = output as f64 / input as f64;
    println!(
        "\nlowering {what} to {}: {micros} us ({}), {input} to {output} bytes: {ratio:.2}x",
        options.target,
        passes.join(", ")
    );
}
