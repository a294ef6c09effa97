//! The interpreter alone: a module with a case, or its speed.
//!
//!     cargo run --release -p coop-exec --example interp                       speed of a 256 x 256 x 256 multiply
//!     cargo run --release -p coop-exec --example interp -- MODULE CASE [SUBGROUP-SIZE [VARIANT]]

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use coop_exec::Case;
use coop_exec::interp::{Config, Interpreted};

const GEMM: &str = r#"
workgroups = [8, 8, 1]
push = [{ values = [256, 256, 256] }]
operations = 33554432
spec = { 7 = 8 }
buffer = [
    { name = "A", binding = 0, type = "f16", count = 65536, fill = "half-integers", row-stride = 256 },
    { name = "B", binding = 1, type = "f16", count = 65536, fill = "half-integers", row-stride = 32 },
    { name = "C", binding = 2, type = "f32", count = 65536, row-stride = 256 },
]
[[expect]]
[expect.gemm]
m = 256
n = 256
k = 256
a = { buffer = "A", stride = 256 }
b = { buffer = "B", stride = 32, blocks = [32, 32], block-order = "column" }
d = { buffer = "C", stride = 256 }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (module, mut case) = match args.as_slice() {
        [] => {
            let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels/gemm_tutorial.spv");
            (kernels, Case::parse(GEMM, Path::new(""))?)
        }
        [_] => return Err("a module and a case".into()),
        [module, case, ..] => (module.into(), Case::load(Path::new(case))?),
    };
    let mut config = Config::default();
    if let Some(size) = args.get(2) {
        config.subgroup_size = size.parse()?;
    }
    if let Some(variant) = args.get(3) {
        case = case.with_variant(variant)?;
    }
    let bytes = std::fs::read(module)?;
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let start = Instant::now();
    let (buffers, report) = Interpreted { config }.run_case(&words, &case)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = std::io::stdout().lock();
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{} instructions in {seconds:.3} s", report.steps)?;
    if let Some(operations) = case.operations {
        writeln!(out, "{:.1} Mflop/s", operations / seconds / 1e6)?;
    }
    for (index, wanted) in case.expected()? {
        let buffer = &case.buffer[index];
        match coop_exec::compare(buffer, &buffers[index].bytes, &wanted)? {
            Some(difference) => writeln!(out, "{difference}")?,
            None => writeln!(out, "{} is as expected", buffer.name)?,
        }
    }
    Ok(())
}
