//! Cases for llama.cpp's modules with matrices, small ones for proofs: `scripts/llama-shaders.sh` compiles the modules.
//!
//! A module with matrices of workgroup scope (`_cm2`) has cases in `testdata/llama/cm2`. Products with matrices of subgroup scope
//! (`_cm1`) have the same bindings and push constants, but other constants (`testdata/llama/spec.toml`), tiles, and
//! buffers that are padded to whole tiles; so do attentions. Modules that differ in the type of sums alone share a case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coop_cli::cooprun::Failure;
use coop_device::ComponentType;
use coop_exec::Case;
use coop_exec::case::Number;

/// A module with a case.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name of the module, with that of the case where there are several.
    pub name: String,
    /// The module.
    pub module: PathBuf,
    /// The case.
    pub case: Case,
    /// The buffers with sizes and indices.
    pub fixed: Vec<String>,
}

/// The rows, columns and depth of a tile, which one subgroup of 32 computes by matrices of 16 x 16 x 16.
const TILE: [u64; 3] = [32, 32, 32];

/// The rows of Q in a tile of an attention.
const ROWS: u64 = 16;

/// Returns the modules in a folder that have cases in another, and the names of those that have none.
pub fn modules(shaders: &Path, cases: &Path) -> Result<(Vec<Found>, Vec<String>), Failure> {
    let files = |folder: &Path, end: &str| -> Result<Vec<PathBuf>, Failure> {
        let fail = |error: std::io::Error| Failure::Usage(format!("{}: {error}", folder.display()));
        let mut out = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.to_string_lossy().ends_with(end) {
                out.push(path);
            }
        }
        out.sort();
        Ok(out)
    };
    let mut by_module: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in files(cases, ".toml")? {
        by_module.entry(first_word(&path)).or_default().push(path);
    }
    let (mut found, mut without) = (Vec::new(), Vec::new());
    for module in files(shaders, "_cm1.spv")?.into_iter().chain(files(shaders, "_cm2.spv")?) {
        let name = first_word(&module);
        let own = name.replace("_f16acc", "").replace("_cm1", "_cm2");
        // Of B in f32 only the type differs.
        let (own, wide) = match by_module.contains_key(&own) {
            true => (own, false),
            false => (
                own.replace("_f32_cm2", "_f16_cm2").replace("_f32_ocp_", "_f16_ocp_").replace("f16_f16_cm2", "f16_cm2"),
                true,
            ),
        };
        let Some(paths) = by_module.get(&own) else {
            without.push(name);
            continue;
        };
        let count = found.len();
        for path in paths {
            let (case, said) = (Case::load(path)?, io_name(path));
            let name = if paths.len() > 1 { format!("{name} with {said}") } else { name.clone() };
            let case = match name.contains("_cm1") {
                true => subgroups(&name, case, wide),
                false => Some(case),
            };
            let Some(case) = case else { continue };
            let indices = case.buffer.iter().filter(|b| b.element == ComponentType::S32).map(|b| b.name.clone());
            found.push(Found { name, module: module.clone(), fixed: indices.collect(), case });
        }
        if found.len() == count {
            without.push(name);
        }
    }
    Ok((found, without))
}

/// Returns the name of a file up to the first dot.
fn first_word(path: &Path) -> String {
    io_name(path).split('.').next().unwrap_or_default().to_owned()
}

fn io_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Formats with blocks of 32 elements, or of one.
const SHORT: [&str; 10] = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4", "f16", "f32", "bf16"];

/// Makes a plain product as small as two rounds of the loop over K and a tile at each edge allow.
fn shrink(name: &str, case: &mut Case, sizes: &mut [u64]) -> Option<()> {
    let [m, n, k] = [*sizes.first()?, *sizes.get(1)?, *sizes.get(2)?];
    let plain = sizes.get(3..6)? == [k, k, m] && sizes.get(9..16)? == [0, 1, k, 1, 1, 1, 1];
    if name.contains("_id_") || !plain {
        return None;
    }
    let format = name.strip_prefix("matmul_").unwrap_or(name);
    let depth = if SHORT.iter().any(|short| format.starts_with(short)) { 64 } else { 256 };
    let to = [m.min(40), n.min(36), k.min(depth)];
    for (buffer, [of, rows]) in
        [("A", [m * k, to[0] * to[2]]), ("B", [n * k, to[1] * to[2]]), ("D", [m * n, to[0] * to[1]])]
    {
        let buffer = case.buffer.iter_mut().find(|b| b.name == buffer)?;
        buffer.count = (buffer.count * rows).div_ceil(of);
        buffer.row_stride = None;
    }
    let [m, n, k] = to;
    for (at, value) in [m, n, k, k, k, m, m * k, n * k, m * n].into_iter().chain([0, 1, k]).enumerate() {
        sizes[at] = value;
    }
    let values = sizes.iter().map(|n| Number::Int(*n as i64)).collect();
    case.push.first_mut()?.values = Some(values);
    Some(())
}

/// Returns the case of a module with matrices of subgroup scope, made of one of workgroup scope.
fn subgroups(name: &str, mut case: Case, wide: bool) -> Option<Case> {
    case.variant.clear();
    case.expect.clear();
    case.full_subgroups = true;
    case.subgroup_size = Some(32);
    let values = |case: &Case| -> Vec<u64> {
        let part = case.push.first().and_then(|part| part.values.clone()).unwrap_or_default();
        part.iter().filter_map(|n| if let Number::Int(n) = n { u64::try_from(*n).ok() } else { None }).collect()
    };
    let mut sizes = values(&case);
    if name.starts_with("matmul") {
        if sizes.len() < 16 && !name.contains("_id_") {
            return None;
        }
        shrink(name, &mut case, &mut sizes);
        let [m, n] = [*sizes.first()?, *sizes.get(1)?];
        let depth = if name.contains("bf16") { 16 } else { TILE[2] };
        let tile = [32, 32, 32, depth, 32, 32, 2, 16, 16, 16, 32, 0];
        case.spec = (0..).zip(tile).map(|(id, v): (u32, u64)| (id.to_string(), Number::Int(v as i64))).collect();
        let third = case.workgroups[2];
        let splits = if name.contains("matmul_id") { 1 } else { sizes[2].div_ceil(*sizes.get(11)?).max(1) };
        case.workgroups = [(m.div_ceil(TILE[0]) * splits) as u32, n.div_ceil(TILE[1]) as u32, third];
        // The rows of A and B that the last tile reads.
        for (buffer, rows) in [("A", m), ("B", n)] {
            let of = case.buffer.iter_mut().find(|b| b.name == buffer)?;
            of.count += of.count.div_ceil(rows) * (rows.next_multiple_of(32) - rows);
            let in_f32 = if buffer == "A" { name.contains("matmul_f32_") } else { wide };
            if in_f32 {
                of.element = ComponentType::F32;
            }
        }
        return Some(case);
    }
    if name.starts_with("flash_attn") {
        let rows = *sizes.first()?;
        let old = case.workgroups[0];
        if u64::from(old) != rows.div_ceil(64) {
            // Parts of K and V, or groups of heads: other dispatches.
            return None;
        }
        for (id, value) in [(0, 128), (1, 16), (2, 64), (6, 8), (7, 4), (8, 32), (9, 0)] {
            case.spec.insert(id.to_string(), Number::Int(value));
        }
        // Of a part of a tile the module tests rows that it does not have by a value that it never wrote: whole tiles alone.
        case.workgroups[0] = (rows / ROWS) as u32;
        return (rows >= ROWS).then_some(case);
    }
    if name.starts_with("conv_transpose_2d") {
        // Output channels by outputs; each subgroup has one matrix.
        let [channels, outputs] = [*sizes.first()?, sizes.get(2)? * sizes.get(5)? * sizes.get(6)?];
        for (id, value) in [(0, 256), (1, 64), (2, 32), (3, 32), (4, 4)] {
            case.spec.insert(id.to_string(), Number::Int(value));
        }
        case.workgroups = [channels.div_ceil(64) as u32, outputs.div_ceil(32) as u32, 1];
        return Some(case);
    }
    // Results of subgroups always go through shared memory.
    if name.starts_with("conv") && !name.ends_with(".callback") {
        // The tiles are those of the case.
        case.spec.insert("0".to_owned(), Number::Int(256));
        return Some(case);
    }
    None
}
