//! Every module in `testdata/validate` through spirv-val as well. Where the two disagree there must be an explanation
//! here; `docs/vs-spirv-val.md` is written from it.

use coop_ir::{Op, binary};
use coop_validate::testing::{Case, cases};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why spirv-val accepts a module in which we find an error, or the other way round. By file name.
const EXPLAINED: &[(&str, &str)] = &[
    ("access-layout-unknown", "the value of MemoryLayout is not looked at"),
    ("access-not-in-array", "that Pointer points into an array is not checked"),
    ("arithmetic-type-mismatch", "only class, scope, shape and use of the operands are compared, not the types"),
    ("component-microscaling", "the component type is not looked at beyond being a float"),
    ("component-saturation-target", "what the decoration is on is not checked"),
    ("convert-bitcast-component", "the shape is compared, the class of the components is not"),
    ("decode-parameter-coordinates.type", "the element type of the coordinates is not looked at"),
    ("decode-storage-class", "the storage class of Pointer with a decode function is not looked at"),
    ("decode-vector-block", "what layouts hold is not followed"),
    ("element-index-out-of-range", "indices are not compared with the number of elements"),
    ("elements", "OpSelect of matrices is refused, although they are composites and the condition is a scalar"),
    ("kernel", "the scopes of Vulkan are demanded of kernels too"),
    ("load-stride-negative", "the value of a stride is not looked at"),
    ("memory-aligned-missing", "loads and stores of matrices are left out of this check"),
    ("muladd-k-mismatch.given", "values of specialization constants can't be given"),
    ("muladd-signed-not-integer", "the bits are not compared with the component types"),
    ("no-width", "the width of types is checked, which coopcheck leaves to others"),
    ("nv1-not-allowed.bitcast", "OpBitcast of these matrices is let through"),
    ("qcom-subarray-start", "the start of a part is not compared with the length of the array"),
    ("same-constant", "scopes that are specialization constants are refused, which the extension allows"),
    ("store-stride-not-positive", "the value of a stride is not looked at"),
    ("tensor-block-zero", "what layouts hold is not followed"),
    ("tensor-clamp-not-constant", "that ClampMode is a constant is not checked"),
    ("tensor-pointer-not-in-array", "that Pointer points into an array is not checked"),
    ("tensor-span-zero", "what layouts hold is not followed"),
    ("tensor-span-zero.slice", "what layouts hold is not followed"),
    ("tensor-store-block", "what layouts hold is not followed"),
    ("tensor-variable-storage", "variables of layouts and views are accepted everywhere"),
    ("tensor-view-dimension-zero", "what views hold is not followed"),
    ("tensor-view-rank-exceeds", "the dimensions of view and layout are not compared"),
    ("transpose-decoration-target.group", "decorations that come through a group are not looked at"),
    ("type-dimension-zero", "rows and columns of 0 are accepted"),
    ("type-in-block", "the members of blocks are not looked at"),
    ("type-rows-not-constant", "the width of the constant is not checked"),
    ("type-size-of", "OpSizeOf of a matrix is accepted"),
    ("type-use-unknown", "the value of Use is not looked at"),
];

/// The tool in the folder of fetched tools. Others are of any age, and say other things.
fn spirv_val() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let tool = cache.join("bin/spirv-val");
    if tool.is_file() {
        return Some(tool);
    }
    assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "spirv-val is not there: scripts/drivers.sh fetches it");
    eprintln!("SKIPPED: spirv-val is not there; scripts/drivers.sh fetches it");
    None
}

/// What spirv-val says against a module, if it does.
fn refusal(tool: &Path, case: &Case) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spirv_val");
    std::fs::create_dir_all(&folder).expect("writable");
    let file = folder.join(format!("{}.spv", case.name()));
    std::fs::write(&file, binary::write(&case.module)).expect("writable");
    let kernel = case.module.has_capability(spirv_capability_kernel());
    let env = if kernel { "spv1.6" } else { "vulkan1.3" };
    let out = Command::new(tool).args(["--target-env", env]).arg(&file).output().expect("it starts");
    if out.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    Some(text.lines().next().unwrap_or("no reason given").to_owned())
}

/// The number of capability Kernel.
fn spirv_capability_kernel() -> u32 {
    coop_ir::Kind::Capability.enumerant_named("Kernel").expect("the grammar has it")
}

#[test]
fn disagreements_are_explained() {
    let Some(tool) = spirv_val() else { return };
    let (mut both, mut ours, mut theirs, mut neither) = (0, Vec::new(), Vec::new(), 0);
    let mut problems = Vec::new();
    for case in cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate")) {
        // What a device takes is no question for spirv-val, and Intel's extension it can't read.
        let intel = case
            .module
            .globals_with(Op::Extension)
            .any(|r| case.module.inst(r).string(0).is_some_and(|(name, _)| name == "SPV_INTEL_joint_matrix"));
        if case.options.device.is_some() || intel {
            continue;
        }
        let we_refuse = !coop_validate::check(&case.module, &case.options).is_ok();
        let refusal = refusal(&tool, &case);
        let explained = EXPLAINED.iter().find(|(name, _)| *name == case.name()).map(|(_, why)| *why);
        match (we_refuse, refusal, explained) {
            (true, Some(_), None) => both += 1,
            (false, None, None) => neither += 1,
            (true, None, Some(why)) => ours.push((case.name().to_owned(), why)),
            (false, Some(_), Some(why)) => theirs.push((case.name().to_owned(), why)),
            (true, None, None) => problems.push(format!("{}: spirv-val accepts it", case.path.display())),
            (false, Some(said), None) => problems.push(format!("{}: spirv-val says {said}", case.path.display())),
            (_, _, Some(why)) => problems.push(format!("{}: agreed after all: {why}", case.path.display())),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(ours.len() + theirs.len(), EXPLAINED.len(), "an explanation for a file that is not there");
    let page = page(both, neither, &ours, &theirs);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vs-spirv-val.md");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always") {
        std::fs::write(&path, page).expect("writable");
    } else {
        let is = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            is == page,
            "docs/vs-spirv-val.md is stale: INSTA_UPDATE=always cargo test -p coop-cli --test spirv_val"
        );
    }
}

fn page(both: usize, neither: usize, ours: &[(String, &str)], theirs: &[(String, &str)]) -> String {
    let mut out = format!(
        "# coopcheck and spirv-val on the same modules\n\n\
         Written by the test `cli/tests/spirv_val.rs` from the modules in `testdata/validate`, with the spirv-val that\n\
         `scripts/drivers.sh` fetches. Warnings and notes of coopcheck do not count here: many of them are for modules that\n\
         are valid. spirv-val checks all of SPIR-V, and only its first message counts; coopcheck checks matrices.\n\n\
         | | |\n|---|---|\n\
         | both find an error | {both} |\n\
         | neither does | {neither} |\n\
         | only coopcheck does | {} |\n\
         | only spirv-val does | {} |\n",
        ours.len(),
        theirs.len()
    );
    for (heading, what, rows) in
        [("Only coopcheck", "what spirv-val does", ours), ("Only spirv-val", "what spirv-val does", theirs)]
    {
        let _ = write!(out, "\n## {heading}\n\n| module | {what} |\n|---|---|\n");
        for (name, why) in rows {
            let _ = writeln!(out, "| {name} | {why} |");
        }
    }
    out
}
