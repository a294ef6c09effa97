//! Limits the memory of coopcheck to 20 times the size of the file, and 10 MB more than the program takes without one (4 MB, or 11 MB
//! unoptimized), whatever the file holds.
#![cfg(unix)]
// The figures belong to what the test says about itself.
#![allow(clippy::print_stdout)]

mod llama_modules;

use coop_ir::{Op, binary, text};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MB: u64 = 1_000_000;

/// A run of the checker on a file.
struct Run {
    name: &'static str,
    file: PathBuf,
    status: i32,
}

/// All in one test, the smallest limit first: the system tells the largest peak of all processes that this one has
/// started, so that a file's own peak is at most what is seen here. For the same reason this process stays small.
#[test]
fn in_proportion_to_the_file() {
    let folder = scratch();
    let huge_bound = write(&folder.join("bound.spv"), |out| words(out, &[binary::MAGIC, 0x0001_0600, 0, 1 << 28, 0]));
    let lying_bound = write(&folder.join("lie.spv"), |out| words(out, &[binary::MAGIC, 0x0001_0600, 0, u32::MAX, 0]));
    let far_apart = write(&folder.join("far.spv"), far_apart);
    let matrices = write(&folder.join("matrices.spv"), |out| repeated(out, MATRICES, 10 * MB));
    let blocks = write(&folder.join("blocks.spv"), |out| repeated(out, BLOCKS, 10 * MB));
    let broken = write(&folder.join("broken.spv"), |out| repeated(out, BROKEN, 10 * MB));
    let globals = write(&folder.join("globals.spv"), many_globals);
    let zeros =
        write(&folder.join("zeros.spv"), |out| out.seek(SeekFrom::Start(100 * MB - 1)).and(out.write_all(&[0])));
    let magic = write(&folder.join("magic.spv"), |out| {
        words(out, &[binary::MAGIC, 0x0001_0600, 0, 100, 0])?;
        out.seek(SeekFrom::Start(100 * MB - 1)).and(out.write_all(&[0]))
    });
    let text = write(&folder.join("text.spvasm"), |out| out.write_all(&vec![b' '; MB as usize]));

    let mut runs = vec![
        Run { name: "a header with a large id bound and nothing else", file: huge_bound, status: 2 },
        Run { name: "a header with an id bound of 2^32 - 1", file: lying_bound, status: 2 },
        Run { name: "a kernel with a few enormous ids", file: far_apart, status: 0 },
        Run { name: "1 MB of spaces", file: text, status: 2 },
        Run { name: "10 MB of matrix operations", file: matrices, status: 0 },
        Run { name: "10 MB of blocks", file: blocks, status: 0 },
        Run { name: "10 MB of operations that break a rule", file: broken, status: 1 },
        Run { name: "10 MB of types, constants and decorations", file: globals, status: 0 },
        Run { name: "100 MB of zeros", file: zeros, status: 2 },
        Run { name: "a header and 100 MB of zeros", file: magic, status: 2 },
    ];
    if let Some(modules) = llama_modules::modules() {
        let largest = modules.into_iter().max_by_key(|p| size(p)).expect("there are some");
        runs.push(Run { name: "the largest module of llama.cpp", file: largest, status: 0 });
    }
    runs.sort_by_key(|r| size(&r.file));
    // A wrapper that starts this test may have run small programs before; what they take counts as the program's own.
    let done = Command::new(env!("CARGO_BIN_EXE_coopcheck")).arg("--version").stdout(Stdio::null()).status();
    assert!(done.expect("it starts").success());
    let own = peak();
    assert!(own < 13 * MB, "the program alone takes {own} bytes, or something large ran before");
    let failures: Vec<String> = runs.iter().filter_map(|r| check(r, own).err()).collect();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(run: &Run, own: u64) -> Result<(), String> {
    let size = size(&run.file);
    let limit = 20 * size + 10 * MB + own;
    let start = Instant::now();
    let out = Command::new(env!("CARGO_BIN_EXE_coopcheck")).arg(&run.file).stdout(Stdio::null()).output();
    let out = out.expect("it starts");
    let (time, peak) = (start.elapsed(), peak());
    let mb = |n: u64| n as f64 / MB as f64;
    println!("{}: {:.3} MB, at most {:.1} MB of memory, {:.2} s", run.name, mb(size), mb(peak), time.as_secs_f64());
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() != Some(run.status) {
        return Err(format!("{}: {}, not exit status {}\n{said}", run.name, out.status, run.status));
    }
    if peak > limit {
        return Err(format!("{}: {:.1} MB of memory, more than {:.1} MB", run.name, mb(peak), mb(limit)));
    }
    // Nothing is worked on for long before it turns out to be unreadable; a busy machine is allowed for.
    if run.status == 2 && time > Duration::from_secs(5) {
        return Err(format!("{}: {time:?} to say that it can't be read", run.name));
    }
    Ok(())
}

/// The largest amount of memory that a process started by this one has used.
fn peak() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("always known");
    // In kilobytes, except where it is in bytes.
    u64::try_from(usage.max_rss()).expect("a size") * if cfg!(target_vendor = "apple") { 1 } else { 1024 }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).len()
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

fn write(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> PathBuf {
    let mut out = BufWriter::new(File::create(path).expect("writable"));
    fill(&mut out).and_then(|()| out.flush()).expect("writable");
    path.to_owned()
}

fn words(out: &mut impl Write, words: &[u32]) -> std::io::Result<()> {
    words.iter().try_for_each(|w| out.write_all(&w.to_le_bytes()))
}

/// A valid module with matrices: what stands before the body of its function.
const HEAD: &str = "
    OpCapability Shader
    OpCapability Float16
    OpCapability VulkanMemoryModel
    OpCapability CooperativeMatrixKHR
    OpExtension \"SPV_KHR_cooperative_matrix\"
    OpMemoryModel Logical Vulkan
    OpEntryPoint GLCompute %main \"main\"
    OpExecutionMode %main LocalSize 32 1 1
    %void = OpTypeVoid
    %fn = OpTypeFunction %void
    %half = OpTypeFloat 16
    %float = OpTypeFloat 32
    %u32 = OpTypeInt 32 0
    %c0 = OpConstant %u32 0
    %c1 = OpConstant %u32 1
    %c2 = OpConstant %u32 2
    %c3 = OpConstant %u32 3
    %c8 = OpConstant %u32 8
    %c16 = OpConstant %u32 16
    %A = OpTypeCooperativeMatrixKHR %half %c3 %c16 %c16 %c0
    %B = OpTypeCooperativeMatrixKHR %half %c3 %c16 %c16 %c1
    %K = OpTypeCooperativeMatrixKHR %half %c3 %c8 %c16 %c1
    %C = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2
    %a = OpConstantNull %A
    %b = OpConstantNull %B
    %k = OpConstantNull %K
    %c = OpConstantNull %C
    %main = OpFunction %void None %fn
    %entry = OpLabel
";

/// Bodies, to be repeated.
const MATRICES: &str = "
    %x = OpCooperativeMatrixMulAddKHR %C %a %b %c
    %y = OpFAdd %C %x %c
    %z = OpFNegate %C %y
    %n = OpCooperativeMatrixLengthKHR %u32 %C
";
const BLOCKS: &str = "
    OpBranch %next
    %next = OpLabel
";
const BROKEN: &str = "
    %x = OpCooperativeMatrixMulAddKHR %C %a %k %c
";
const TAIL: &str = "
    OpReturn
    OpFunctionEnd
";

/// The module's words, with its body's ids before the bound, as often as fit into `size` bytes. Written piece by piece.
fn repeated(out: &mut (impl Write + Seek), body: &str, size: u64) -> std::io::Result<()> {
    let head = assembled(&format!("{HEAD}{TAIL}"));
    let module = text::parse(&format!("{HEAD}{body}{TAIL}")).expect("it parses");
    // Ids that only the body has are renumbered from one repetition to the next.
    let first = head[3];
    let insts: Vec<_> = module.functions[0].insts().map(|r| module.inst(r).clone()).collect();
    let after = insts.iter().position(|i| i.op == Op::Label).expect("an entry block") + 1;
    let body = &insts[after..insts.len() - 2];
    let (tail, bound) = (3, module.header.bound);
    let own = bound - first;
    let length: usize = body.iter().map(|i| i.word_count()).sum();
    let times = u32::try_from((size / 4 - head.len() as u64) / length as u64).expect("fewer than the words");
    let mut header = head[..5].to_vec();
    header[3] = first + own * times;
    words(out, &header)?;
    // OpReturn and OpFunctionEnd have a word each.
    words(out, &head[5..head.len() - (tail - 1)])?;
    for n in 0..times {
        for inst in body {
            let mut inst = inst.clone();
            let renumber = |id: coop_ir::Id| match id.get() {
                number if number < first => id,
                number => coop_ir::Id::new(number + own * n).expect("not 0"),
            };
            inst.map_ids(renumber);
            inst.result = inst.result.map(renumber);
            words(out, &[((inst.word_count() as u32) << 16) | u32::from(inst.op.0)])?;
            for id in inst.ty.into_iter().chain(inst.result) {
                words(out, &[id.get()])?;
            }
            for operand in &inst.operands {
                words(out, &[operand.word()])?;
            }
        }
    }
    words(out, &head[head.len() - (tail - 1)..])
}

fn assembled(source: &str) -> Vec<u32> {
    binary::write_words(&text::parse(source).expect("it parses"))
}

/// A module of constants, each with a decoration, and of types made from them.
fn many_globals(out: &mut (impl Write + Seek)) -> std::io::Result<()> {
    let head = assembled(&format!("{HEAD}{TAIL}"));
    let module = binary::read_words(&head).expect("a module");
    let named = |op: Op, nth: usize| {
        let r = module.globals_with(op).nth(nth).expect("it is there");
        module.inst(r).result.expect("it has a result").get()
    };
    let (integer, half) = (named(Op::TypeInt, 0), named(Op::TypeFloat, 0));
    let scope = named(Op::Constant, 3);
    let start = |op: Op| {
        let mut at = 5;
        while head[at] & 0xffff != u32::from(op.0) {
            at += (head[at] >> 16) as usize;
        }
        at
    };
    let (types, function) = (start(Op::TypeVoid), start(Op::Function));
    let each = 4 + 4 + 7;
    let times = (10 * MB as u32 / 4 - head.len() as u32) / each;
    let first = head[3];
    words(out, &head[..3])?;
    words(out, &[first + 2 * times, 0])?;
    words(out, &head[5..types])?;
    for n in 0..times {
        // OpDecorate %constant SpecId n
        words(out, &[(4 << 16) | u32::from(Op::Decorate.0), first + 2 * n, 1, n])?;
    }
    words(out, &head[types..function])?;
    for n in 0..times {
        let (constant, matrix) = (first + 2 * n, first + 2 * n + 1);
        words(out, &[(4 << 16) | u32::from(Op::SpecConstant.0), integer, constant, 16])?;
        let op = (7 << 16) | u32::from(Op::TypeCooperativeMatrixKHR.0);
        words(out, &[op, matrix, half, scope, constant, constant, named(Op::Constant, 0)])?;
    }
    words(out, &head[function..])
}

/// Few instructions, ids next to the largest bound that is accepted.
fn far_apart(out: &mut (impl Write + Seek)) -> std::io::Result<()> {
    let mut module = text::parse(&format!("{HEAD}{MATRICES}{TAIL}")).expect("it parses");
    let far = (1 << 28) - module.header.bound;
    let refs: Vec<_> = module.all().collect();
    for r in refs {
        let mut inst = module.inst(r).clone();
        let renumber = |id: coop_ir::Id| coop_ir::Id::new(id.get() + far - 1).expect("not 0");
        inst.map_ids(renumber);
        inst.result = inst.result.map(renumber);
        module.replace(r, inst);
    }
    module.header.bound = 1 << 28;
    words(out, &binary::write_words(&module))
}
