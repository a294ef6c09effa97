//! `docs/instructions.md`: every instruction on matrices, and what each target makes of it, found by lowering modules that have it.
//!
//! `COOP_UPDATE=1 cargo test -p coop-cli --test instructions` writes the page. What it says is shown, not claimed: an instruction is *done*
//! for a target if a module of ours that has it is lowered to that target; it is *refused* if all are refused at it, for the reason that
//! stands there.

mod every_type;

use coop_device::Profile;
use coop_exec::Case;
use coop_ir::constant::Specialization;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op, binary, text};
use coop_passes::{Error, Options, REFUSALS, Target, lower};
use every_type::every_type;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const TARGETS: [Target; 3] = [Target::Scalar, Target::Khr, Target::Ext];

/// The folders whose modules show what is done.
const FOLDERS: [&str; 15] = [
    "testdata/kernels",
    "testdata/nv2",
    "testdata/tensor",
    "exec/tests/interp",
    "testdata/validate/valid",
    "testdata/passes",
    "testdata/passes/refused",
    "testdata/dialects",
    "testdata/dialects/options",
    "testdata/dialects/table",
    "testdata/dialects/h100",
    "testdata/drivers",
    "testdata/hardware",
    "testdata/bench",
    "testdata/opencl",
];

/// The sections of the page; an instruction with what is to be said of it.
const SECTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "SPV_KHR_cooperative_matrix",
        &[
            (
                "TypeCooperativeMatrixKHR",
                "scopes Subgroup and Workgroup; `refused-type` for others, `refused-unknown-dimension` without values; 4-bit integers (SPV_INTEL_int4) become 8-bit ones",
            ),
            (
                "CooperativeMatrixLoadKHR",
                "any pointee; RowMajor, ColumnMajor, PackedINTEL, RowBlockedInterleavedARM, ColumnBlockedInterleavedARM, else `refused-layout`; `refused-pointer` for untyped pointers to memory of another type",
            ),
            ("CooperativeMatrixStoreKHR", "as the load; `refused-store-narrow` for words that no lane can hold whole"),
            (
                "CooperativeMatrixMulAddKHR",
                "every operand bit; `refused-instruction` for floats mixed with integers; khr: products that the profile lists, else `refused-device-types`",
            ),
            ("CooperativeMatrixLengthKHR", "what an invocation holds of the lowered matrix"),
        ],
    ),
    (
        "Instructions of SPIR-V on matrices",
        &[
            ("Variable", ""),
            ("Load", ""),
            ("Store", ""),
            ("CopyMemory", ""),
            ("AccessChain", "of elements, also in divergent flow"),
            ("Phi", ""),
            ("Select", ""),
            ("FunctionCall", "put in place of the call; `refused-recursion`, `refused-function`"),
            ("CompositeConstruct", ""),
            ("CompositeExtract", "`refused-element` beyond the length"),
            ("CompositeInsert", ""),
            ("ConstantComposite", "`refused-size` where a lane would hold more than 60000"),
            ("ConstantNull", ""),
            ("Undef", ""),
            ("FNegate", ""),
            ("FAdd", ""),
            ("FSub", ""),
            ("FMul", ""),
            ("FDiv", ""),
            ("SNegate", ""),
            ("IAdd", ""),
            ("ISub", ""),
            ("IMul", ""),
            ("SDiv", ""),
            ("UDiv", ""),
            ("MatrixTimesScalar", "integers too"),
            ("FConvert", "`--semantics nvidia` truncates to bfloat16"),
            ("SConvert", ""),
            ("UConvert", ""),
            ("ConvertFToS", ""),
            ("ConvertFToU", ""),
            ("ConvertSToF", ""),
            ("ConvertUToF", ""),
            ("Bitcast", ""),
        ],
    ),
    (
        "SPV_NV_cooperative_matrix2",
        &[
            ("CooperativeMatrixConvertNV", ""),
            ("CooperativeMatrixTransposeNV", ""),
            ("CooperativeMatrixReduceNV", "rows, columns, both, 2x2; any function, other dimensions"),
            ("CooperativeMatrixPerElementOpNV", "once for each element where the function does more than compute"),
            (
                "CooperativeMatrixLoadTensorNV",
                "with decode functions, also SPV_NV_cooperative_matrix_decode_vector; `refused-decode`, `refused-tensor`",
            ),
            ("CooperativeMatrixStoreTensorNV", ""),
        ],
    ),
    (
        "SPV_NV_tensor_addressing",
        &[
            ("TypeTensorLayoutNV", "1 to 5 dimensions, every clamp mode"),
            ("TypeTensorViewNV", "1 to 5 dimensions, permuted"),
            ("CreateTensorLayoutNV", "`refused-tensor-value` where layouts are in arrays, structs or globals"),
            ("TensorLayoutSetDimensionNV", ""),
            ("TensorLayoutSetStrideNV", ""),
            ("TensorLayoutSliceNV", ""),
            ("TensorLayoutSetClampValueNV", ""),
            ("TensorLayoutSetBlockSizeNV", ""),
            ("CreateTensorViewNV", ""),
            ("TensorViewSetDimensionNV", ""),
            ("TensorViewSetStrideNV", ""),
            ("TensorViewSetClipNV", ""),
        ],
    ),
    (
        "SPV_EXT_cooperative_matrix_maintenance1",
        &[
            ("CooperativeMatrixReduceEXT", ""),
            ("CooperativeMatrixPerElementOpEXT", ""),
            ("CooperativeMatrixConvertUseEXT", ""),
            ("CooperativeMatrixGetCoordinateEXT", ""),
        ],
    ),
    (
        "SPV_NV_cooperative_matrix",
        &[
            (
                "TypeCooperativeMatrixNV",
                "becomes that of SPV_KHR_cooperative_matrix; the use is found from where the matrix goes",
            ),
            ("CooperativeMatrixLoadNV", ""),
            ("CooperativeMatrixStoreNV", ""),
            ("CooperativeMatrixMulAddNV", ""),
            ("CooperativeMatrixLengthNV", ""),
        ],
    ),
    (
        "SPV_INTEL_joint_matrix",
        &[
            (
                "CooperativeMatrixLoadCheckedINTEL",
                "every layout; offsets and bounds are of the surface in memory, or with `--checked prose` of a big matrix",
            ),
            ("CooperativeMatrixStoreCheckedINTEL", ""),
            ("CooperativeMatrixConstructCheckedINTEL", "negative offsets are outside"),
            ("CooperativeMatrixPrefetchINTEL", "both encodings; dropped, and counted in the report"),
            ("CooperativeMatrixApplyFunctionINTEL", "done where `--apply-function NAME` says which function"),
            ("CooperativeMatrixGetElementCoordINTEL", ""),
            ("CooperativeMatrixLoadOffsetINTEL", "every layout"),
            ("CooperativeMatrixStoreOffsetINTEL", ""),
            (
                "ConvertFToBF16INTEL",
                "of matrices, vectors and numbers; to nearest even; khr of C where the device has bfloat16 accumulators",
            ),
            ("ConvertBF16ToFINTEL", "the same; khr of C where the device has bfloat16 accumulators"),
            ("RoundFToTF32INTEL", "the same; to nearest even"),
        ],
    ),
    (
        "SPV_QCOM_cooperative_matrix_conversion",
        &[
            ("BitCastArrayQCOM", ""),
            ("CompositeConstructCoopMatQCOM", ""),
            ("CompositeExtractCoopMatQCOM", ""),
            ("ExtractSubArrayQCOM", ""),
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Opcodes that are about matrices wherever they stand.
fn is_matrix_op(name: &str) -> bool {
    let parts = ["CooperativeMatrix", "CoopMat", "TensorLayout", "TensorView", "ArrayQCOM"];
    parts.iter().any(|p| name.contains(p)) && !name.starts_with("Debug")
}

fn is_matrix(m: &Module, ty: Option<Id>) -> bool {
    let Some(inst) = ty.and_then(|t| m.def_inst(t)) else { return false };
    matches!(inst.op, Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV)
}

/// Returns true if an instruction makes, takes or points to a matrix.
fn touches(m: &Module, inst: &Inst) -> bool {
    if inst.op.name().is_some_and(is_matrix_op) {
        return true;
    }
    let mut types = inst.ty.into_iter().chain(inst.ids().filter_map(|id| m.type_of(id)));
    types.any(|t| match Type::of(m, t) {
        Some(Type::Pointer { pointee, .. }) => is_matrix(m, Some(pointee)),
        _ => is_matrix(m, Some(t)),
    })
}

/// The instructions of the page that a module has. Some have two names.
fn has(m: &Module, rows: &BTreeSet<&'static str>) -> BTreeSet<&'static str> {
    let ops: BTreeSet<u16> = m.all().map(|r| m.inst(r)).filter(|i| touches(m, i)).map(|i| i.op.0).collect();
    rows.iter().copied().filter(|r| Op::from_name(r).is_some_and(|op| ops.contains(&op.0))).collect()
}

/// A module and what to lower it with.
struct Shown {
    name: String,
    module: Module,
    spec: Specialization,
    size: u32,
}

fn shown() -> Vec<Shown> {
    let mut out = Vec::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        files.sort();
        for path in files {
            let module = match path.extension().and_then(|e| e.to_str()) {
                Some("spv") => binary::read(&std::fs::read(&path).expect("readable")).ok(),
                Some("spvasm") => text::parse(&std::fs::read_to_string(&path).expect("readable")).ok(),
                _ => continue,
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let module = module.unwrap_or_else(|| panic!("{name} can't be read"));
            let stem = name.split('.').next().unwrap_or_default();
            let case = [path.with_extension("toml"), path.with_file_name(format!("{stem}.toml"))];
            let case = case.iter().find_map(|c| Case::load(c).ok());
            let spec = case.as_ref().and_then(|c| c.specialization().ok()).unwrap_or_default();
            let size = case.and_then(|c| c.subgroup_size).unwrap_or(32);
            out.push(Shown { name, module, spec, size });
        }
    }
    // Small ones show as much, and sooner.
    out.sort_by_key(|s| s.module.all().count());
    out
}

/// The fate of an instruction.
#[derive(Clone, Default)]
struct Found {
    done: Option<String>,
    /// The reasons of refusals at it, each with a module.
    refused: BTreeMap<&'static str, String>,
}

type Table = BTreeMap<&'static str, [Found; 3]>;

fn table() -> Table {
    let rows: BTreeSet<&'static str> = SECTIONS.iter().flat_map(|s| s.1.iter().map(|r| r.0)).collect();
    let built_in = |name: &str| Profile::builtin(name).expect("built in");
    let profiles = [built_in("nvidia-h100"), built_in("intel-opencl-gpu"), every_type().with_maintenance1()];
    let mut table: Table = rows.iter().map(|r| (*r, Default::default())).collect();
    for one in shown() {
        let here = has(&one.module, &rows);
        let ways = TARGETS.into_iter().enumerate().flat_map(|way| profiles.iter().map(move |profile| (way, profile)));
        for ((at, target), profile) in ways {
            let open: Vec<&'static str> = here.iter().copied().filter(|r| table[r][at].done.is_none()).collect();
            if open.is_empty() {
                continue;
            }
            let mut options = Options::new(target);
            (options.spec, options.spec_defaults) = (one.spec.clone(), true);
            options.subgroup_size = Some(one.size);
            if target != Target::Scalar {
                options.profile = Some(profile);
            }
            match lower(&one.module, &options) {
                Ok(_) => {
                    for row in open {
                        table.get_mut(row).expect("a row")[at].done = Some(one.name.clone());
                    }
                }
                Err(Error::Refused(refusal)) => {
                    let op = refusal.at.map(|r| one.module.inst(r).op);
                    for row in open.into_iter().filter(|r| op.is_some() && Op::from_name(r) == op) {
                        let found = &mut table.get_mut(row).expect("a row")[at];
                        found.refused.entry(refusal.rule).or_insert(one.name.clone());
                    }
                }
                Err(error) => panic!("{}: {error}", one.name),
            }
        }
    }
    table
}

fn cell(found: &Found) -> String {
    if found.done.is_some() {
        return "done".to_owned();
    }
    let reasons: Vec<String> = found.refused.keys().map(|r| format!("`{r}`")).collect();
    if reasons.is_empty() { "not shown".to_owned() } else { format!("refused: {}", reasons.join(", ")) }
}

fn page(table: &Table) -> String {
    let mut out = String::from(
        "# Instructions\n\n\
         What `cooplower` makes of each instruction on matrices, for each target. *Done*: a module with it in this repository is lowered;\n\
         *refused*: it is not, for that reason. `cli/tests/instructions.rs` finds this out by lowering, and compares; `COOP_UPDATE=1` writes it.\n\
         `coopcheck explain REASON` says more, and [below](#reasons) is a list. khr and ext are for a device that has the types: the H100, for kernels an\n\
         Intel GPU, and for bfloat16 accumulators one that has matrices of every type, which is none of ours. [What is executed](dialects.md) of other dialects\n\
         is listed by layout, use and width.\n",
    );
    for (section, rows) in SECTIONS {
        let _ = write!(out, "\n## {section}\n\n| instruction | scalar | khr | ext | |\n|---|---|---|---|---|\n");
        for (row, note) in *rows {
            let [scalar, khr, ext] = table[row].each_ref().map(cell);
            let _ = writeln!(out, "| Op{row} | {scalar} | {khr} | {ext} | {note} |");
        }
    }
    out.push_str("\n## Reasons\n\n| | what is refused | what to do |\n|---|---|---|\n");
    for r in REFUSALS {
        let _ = writeln!(out, "| `{}` | {} | {} |", r.id, r.summary, r.remedy);
    }
    out
}

#[test]
fn the_page_says_what_is_lowered() {
    current("docs/instructions.md", &page(&table()));
}

/// Compares a page with what it should be.
fn current(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("COOP_UPDATE").is_some() {
        std::fs::write(&path, text).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs: Vec<String> = text
        .lines()
        .zip(written.lines().chain(std::iter::repeat("")))
        .filter(|(new, old)| new != old)
        .map(|(new, old)| format!("is:  {new}\nsays: {old}"))
        .collect();
    assert!(text == written, "{name} is not current (COOP_UPDATE=1 writes it):\n{}", differs.join("\n"));
}

#[test]
fn every_instruction_on_matrices_has_a_row() {
    let rows: BTreeSet<&str> = SECTIONS.iter().flat_map(|s| s.1.iter().map(|r| r.0)).collect();
    let missing: Vec<&str> =
        (0..=u16::MAX).filter_map(|code| Op(code).name()).filter(|n| is_matrix_op(n) && !rows.contains(n)).collect();
    assert!(missing.is_empty(), "no row: {}", missing.join(", "));
    for row in rows {
        assert!(Op::from_name(row).is_some(), "{row} is not an instruction");
    }
}
