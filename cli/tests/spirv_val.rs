//! Every module in `testdata/validate` through spirv-val as well. Where the two disagree there must be an explanation
//! here; `docs/vs-spirv-val.md` is written from it.

use coop_ir::spv::Capability;
use coop_ir::{Op, binary};
use coop_validate::testing::{Case, cases};
use coop_validate::{Level, RULES, Rule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reasons why spirv-val accepts a module in which we find an error, or the other way round, by file name.
const EXPLAINED: &[(&str, &str)] = &[
    ("access-layout-unknown", "the value of MemoryLayout is not checked"),
    ("access-not-in-array", "that Pointer points into an array is not checked"),
    ("access-stride-misaligned", "the value of a stride is not checked"),
    ("access-stride-misaligned.computed", "the value of a stride is not checked"),
    ("arithmetic-type-mismatch", "only class, scope, shape and use of the operands are compared, not the types"),
    ("component-int4-memory", "4-bit integers are accepted in memory by themselves"),
    ("component-microscaling", "any float is accepted as the component type"),
    ("component-saturation-target", "the target of the decoration is not checked"),
    ("convert-bitcast-component", "the shape is compared, the class of the components is not"),
    ("decode-parameter-coordinates.type", "the element type of the coordinates is not checked"),
    ("decode-storage-class", "the storage class of Pointer with a decode function is not checked"),
    ("decode-vector-block", "the values of layouts are not tracked"),
    ("element-index-out-of-range", "indices are not compared with the number of elements"),
    ("element-index-out-of-range.nv1", "indices are not compared with the number of elements"),
    (
        "elements",
        "OpSelect of matrices is refused; since SPIR-V 1.4 it takes any composite where the condition is a scalar, and matrices are composites",
    ),
    (
        "kernel",
        "a Scope other than Workgroup and Subgroup is refused in a kernel; that is a rule of Vulkan's (VUID-StandaloneSpirv-Scope-12243), and SPV_KHR_cooperative_matrix has none",
    ),
    ("load-stride-negative", "the value of a stride is not checked"),
    ("memory-aligned-missing", "loads and stores of matrices are exempt from this check"),
    ("move-storage-class", "the storage class of variables of matrices is not checked in copies"),
    ("muladd-k-mismatch.given", "values of specialization constants can't be given"),
    ("muladd-signed-not-integer", "the bits are not compared with the component types"),
    ("no-width", "the width of types is checked, which coopcheck does not do"),
    ("nv1-not-allowed.bitcast", "OpBitcast of these matrices is accepted"),
    ("qcom-subarray-start", "the start of a part is not compared with the length of the array"),
    (
        "same-constant",
        "a barrier's scope that is a specialization constant is refused; SPV_KHR_cooperative_matrix lets scopes be any constant instruction (2.16.2)",
    ),
    ("store-stride-not-positive", "the value of a stride is not checked"),
    ("tensor-block-zero", "the values of layouts are not tracked"),
    ("tensor-clamp-not-constant", "that ClampMode is a constant is not checked"),
    ("tensor-pointer-not-in-array", "that Pointer points into an array is not checked"),
    ("tensor-span-zero", "the values of layouts are not tracked"),
    ("tensor-span-zero.slice", "the values of layouts are not tracked"),
    ("tensor-store-block", "the values of layouts are not tracked"),
    ("tensor-variable-storage", "variables of layouts and views are accepted everywhere"),
    ("tensor-view-dimension-zero", "the values of views are not tracked"),
    ("tensor-view-rank-exceeds", "the dimensions of view and layout are not compared"),
    ("transpose-decoration-target.group", "decorations that come through a group are not checked"),
    ("type-dimension-zero", "rows and columns of 0 are accepted"),
    ("type-in-block", "the members of blocks are not checked"),
    ("type-rows-not-constant", "the width of the constant is not checked"),
    ("type-size-of", "OpSizeOf of a matrix is accepted"),
    ("type-use-unknown", "the value of Use is not checked"),
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

/// Returns the error of spirv-val for a module, if any.
fn refusal(tool: &Path, case: &Case) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spirv_val");
    std::fs::create_dir_all(&folder).expect("writable");
    let file = folder.join(format!("{}.spv", case.name()));
    std::fs::write(&file, binary::write(&case.module)).expect("writable");
    let kernel = case.module.has_capability(Capability::Kernel);
    let env = if kernel { "spv1.6" } else { "vulkan1.3" };
    let out = Command::new(tool).args(["--target-env", env]).arg(&file).output().expect("it starts");
    if out.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    Some(text.lines().next().unwrap_or("no reason given").to_owned())
}

/// The number of capability Kernel.
/// Of one family of rules.
#[derive(Default)]
struct Family {
    rules: usize,
    errors: usize,
    both: usize,
    ours: usize,
}

/// A disagreement: the file, the rule that it is about (if it breaks one), and what spirv-val does.
type Row = (String, Option<&'static Rule>, &'static str);

#[test]
fn disagreements_are_explained() {
    let Some(tool) = spirv_val() else { return };
    let mut families: BTreeMap<&str, Family> = BTreeMap::new();
    for rule in RULES {
        let family = families.entry(rule.family()).or_default();
        family.rules += 1;
        family.errors += usize::from(rule.level == Level::Error);
    }
    let (mut both, mut ours, mut theirs, mut neither) = (0, Vec::new(), Vec::new(), 0);
    let (mut problems, mut crashes) = (Vec::new(), Vec::new());
    for case in cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate")) {
        // What a device takes is no question for spirv-val, and Intel's extension it can't read.
        let intel = case
            .module
            .globals_with(Op::Extension)
            .any(|r| case.module.inst(r).string(0).is_some_and(|(name, _)| name == "SPV_INTEL_joint_matrix"));
        // Nor does it look at who executes what.
        let uniformity = case.path.parent().is_some_and(|f| f.ends_with("uniformity"));
        if case.options.device.is_some() || intel || uniformity {
            continue;
        }
        let we_refuse = !coop_validate::check(&case.module, &case.options).is_ok();
        let refusal = refusal(&tool, &case);
        if refusal.as_ref().is_some_and(|r| r.starts_with("terminate called")) {
            crashes.push(case.name().to_owned());
        }
        let explained = EXPLAINED.iter().find(|(name, _)| *name == case.name()).map(|(_, why)| *why);
        let rule = coop_validate::rule::find(case.rule());
        if let (true, Some(family)) = (we_refuse, rule.and_then(|r| families.get_mut(r.family()))) {
            if refusal.is_some() { family.both += 1 } else { family.ours += 1 }
        }
        match (we_refuse, refusal, explained) {
            (true, Some(_), None) => both += 1,
            (false, None, None) => neither += 1,
            (true, None, Some(why)) => ours.push((case.name().to_owned(), rule, why)),
            (false, Some(_), Some(why)) => theirs.push((case.name().to_owned(), rule, why)),
            (true, None, None) => problems.push(format!("{}: spirv-val accepts it", case.path.display())),
            (false, Some(said), None) => problems.push(format!("{}: spirv-val says {said}", case.path.display())),
            (_, _, Some(why)) => problems.push(format!("{}: agreed after all: {why}", case.path.display())),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(ours.len() + theirs.len(), EXPLAINED.len(), "an explanation for a file that is not there");
    let page = page(&families, (both, neither), &ours, &theirs, &crashes);
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

fn page(
    families: &BTreeMap<&str, Family>,
    (both, neither): (usize, usize),
    ours: &[Row],
    theirs: &[Row],
    crashes: &[String],
) -> String {
    let mut out = format!(
        "# coopcheck and spirv-val on the same modules\n\n\
         Written by the test `cli/tests/spirv_val.rs` from the modules in `testdata/validate`, each of which breaks one rule or\n\
         none, with the spirv-val that `scripts/drivers.sh` fetches (environment vulkan1.3; spv1.6 for kernels). Warnings and\n\
         notes of coopcheck do not count here: many of them are for modules that are valid. spirv-val checks all of SPIR-V, and\n\
         only its first message counts; coopcheck checks matrices, and reports all that it finds.\n\n\
         | | modules |\n|---|---|\n\
         | both find an error | {both} |\n\
         | neither does | {neither} |\n\
         | only coopcheck does | {} |\n\
         | only spirv-val does | {} |\n\n\
         Not compared, because spirv-val does not check them: rules about a device (`device-...`), about uniformity\n\
         (`uniformity-...`) and about a run (`run-...`), and SPV_INTEL_joint_matrix, whose instructions and operands it\n\
         can't read.\n\n\
         ## What each finds\n\n\
         For each family: the number of its rules, of those with level error, and of the modules that violate one of these\n\
         and that both tools reject, or only coopcheck.\n\n\
         | family | rules | errors | both | only coopcheck |\n|---|---|---|---|---|\n",
        ours.len(),
        theirs.len()
    );
    for (name, f) in families {
        let _ = writeln!(out, "| {name} | {} | {} | {} | {} |", f.rules, f.errors, f.both, f.ours);
    }
    out.push_str(
        "\n## Only coopcheck\n\nThe second column is the rule's first sentence; [rules.md](rules.md) has its documentation.\n\n\
         | module | what must hold | source | what spirv-val does |\n|---|---|---|---|\n",
    );
    for (name, rule, why) in ours {
        let (sentence, source) = rule.map_or((String::new(), ""), |r| (sentence(r), r.spec));
        let _ = writeln!(out, "| {name} | {sentence} | {source} | {why} |");
    }
    out.push_str("\n## Only spirv-val\n\n| module | what spirv-val does, and why the module is valid |\n|---|---|\n");
    for (name, _, why) in theirs {
        let _ = writeln!(out, "| {name} | {why} |");
    }
    out.push_str(
        "\n## Over generated mutations\n\nOne rule is broken in each of many generated modules; \
         [mutants.md](mutants.md) has the scores of each rule,\nand why some have none.\n\n\
         | rules | modules | coopcheck finds the rule, % | spirv-val refuses, % |\n|---|---|---|---|\n",
    );
    let mutants = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mutants.md");
    let mutants = std::fs::read_to_string(mutants).expect("docs/mutants.md");
    let total = mutants.lines().find(|l| l.starts_with("| all "));
    let _ = writeln!(out, "{}", total.expect("a row for all"));
    if !crashes.is_empty() {
        out.push_str("\n## spirv-val ends without a verdict\n\nBy an exception, on a module that is invalid:\n\n");
        for name in crashes {
            let _ = writeln!(out, "- {name}");
        }
    }
    out
}

/// Returns the first paragraph of a rule's documentation, in a line.
fn sentence(rule: &Rule) -> String {
    let lines = rule.docs().skip_while(|l| !l.starts_with("## What it checks")).skip(1);
    let text: Vec<&str> = lines.take_while(|l| !l.starts_with("## ")).collect();
    text.join(" ")
}
