//! Every rule on the file that breaks it, and nothing on the files that break none.

use coop_ir::text;
use coop_validate::testing::{Case, cases};
use coop_validate::{Level, RULES, Report, check};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate")
}

/// All and only the findings that the comments ask for.
fn compare(case: &Case, problems: &mut Vec<String>) {
    let report = check(&case.module, &case.options);
    compare_labels(case, &report, problems);
    let mut left = report.findings;
    for e in &case.expected {
        let is = |f: &coop_validate::Finding| {
            f.at == e.at && f.rule.id == e.rule && f.level.name() == e.level && f.message.contains(&e.message)
        };
        match left.iter().position(is) {
            Some(i) => drop(left.remove(i)),
            None => problems.push(format!(
                "{}:{}: not found: {}: [{}] {}",
                case.path.display(),
                e.line,
                e.level,
                e.rule,
                e.message
            )),
        }
    }
    let names = text::Names::friendly(&case.module);
    for f in left {
        problems.push(format!(
            "{}: not expected: {}: [{}] {}\n    at {}",
            case.path.display(),
            f.level,
            f.rule.id,
            f.message,
            text::inst_text(&case.module, &names, f.at)
        ));
    }
}

/// All and only the labels that the comments ask for, in a file that asks for any; those at the guilty instructions and
/// at others that are just as guilty aside.
fn compare_labels(case: &Case, report: &Report, problems: &mut Vec<String>) {
    if case.labels.is_empty() && case.rule().split('-').next() != Some("uniformity") {
        return;
    }
    let names = text::Names::friendly(&case.module);
    let mut say = |what: &str, at: coop_ir::InstRef, label: &str| {
        let inst = text::inst_text(&case.module, &names, at);
        problems.push(format!("{}: {what} a label: {label}\n    at {inst}", case.path.display()));
    };
    let others = report.findings.iter().flat_map(|f| f.labels.iter().filter(move |l| l.at != f.at));
    let found: BTreeSet<(coop_ir::InstRef, &str)> =
        others.filter(|l| l.text != "this one too").map(|l| (l.at, l.text.as_str())).collect();
    let wanted: BTreeSet<(coop_ir::InstRef, &str)> = case.labels.iter().map(|(at, l)| (*at, l.as_str())).collect();
    wanted.difference(&found).for_each(|(at, l)| say("lacks", *at, l));
    found.difference(&wanted).for_each(|(at, l)| say("has", *at, l));
}

#[test]
fn files_break_the_rules_that_they_say_and_no_other() {
    let all = cases(&testdata());
    assert!(!all.is_empty(), "no test files");
    let mut problems = Vec::new();
    for case in &all {
        compare(case, &mut problems);
        let valid = case.path.parent().is_some_and(|p| p.ends_with("valid"));
        if valid != case.expected.is_empty() {
            problems.push(format!("{}: a file expects findings exactly if it is not in valid/", case.path.display()));
        }
        if !valid && !case.expected.iter().all(|e| e.rule == case.rule()) {
            problems.push(format!("{}: breaks another rule than its name says", case.path.display()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Rules are documented, sorted, and shown at work by a file.
#[test]
fn rules_are_complete() {
    let shown: BTreeSet<String> = cases(&testdata())
        .iter()
        .filter(|c| !c.expected.is_empty())
        .map(|c| c.path.strip_prefix(testdata()).expect("below it").to_string_lossy().into_owned())
        .collect();
    let mut problems = Vec::new();
    let mut say = |id: &str, what: &str| problems.push(format!("{id}: {what}"));
    for pair in RULES.windows(2) {
        if pair[0].id >= pair[1].id {
            say(pair[1].id, "not sorted");
        }
    }
    for r in RULES {
        let headings: Vec<&str> = r.docs().filter_map(|l| l.strip_prefix("## ")).collect();
        if headings != ["What it checks", "Why", "Example"] {
            say(r.id, "the documentation must have the headings What it checks, Why, Example");
        }
        if r.docs().collect::<Vec<_>>().windows(2).any(|w| w[0].starts_with("## ") && w[1].starts_with("## ")) {
            say(r.id, "a heading has no text");
        }
        if !r.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') || !r.id.contains('-') {
            say(r.id, "ids are family and defect in kebab-case");
        }
        if r.summary.ends_with('.') {
            say(r.id, "the summary has a final period");
        }
        if r.digest.is_empty() && r.vuids.is_empty() {
            say(r.id, "it comes from nowhere");
        }
        if r.vuids.iter().any(|v| !v.starts_with("VUID-")) {
            say(r.id, "not a VUID");
        }
        let file = format!("{}/{}.spvasm", r.family(), r.id);
        if std::env::var_os("COOP_TEST").is_none() && !shown.contains(&file) {
            say(r.id, "no file in testdata shows it");
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Words that begin with a capital in SPIR-V itself.
const NAMES: &[&str] = &[
    "ClampMode",
    "Columns",
    "CombineFunc",
    "CooperativeMatrixTransposeEXT",
    "DecodeFunc",
    "DecodeVectorFunc",
    "Dim",
    "Func",
    "HasDimensions",
    "Height",
    "Intel's",
    "MemoryLayout",
    "Object",
    "OpenCL",
    "Pointer",
    "Rows",
    "Scope",
    "Stride",
    "TensorLayout",
    "Use",
    "Vulkan",
    "Width",
];

/// Messages begin in lower case (the letters of matrices and names of the language excepted), have no final period,
/// and labels are short.
#[test]
fn messages_keep_the_conventions() {
    let mut problems = Vec::new();
    for case in cases(&testdata()) {
        for f in check(&case.module, &case.options).findings {
            let first = f.message.split(' ').next().unwrap_or("");
            let name =
                NAMES.contains(&first) || ["Op", "Make", "Saturating", "SPV_"].iter().any(|n| first.starts_with(n));
            if first.starts_with(char::is_uppercase) && !name && first.len() > 1 {
                problems.push(format!("{}: begins with a capital: {}", f.rule.id, f.message));
            }
            let texts = f.labels.iter().map(|l| &l.text).chain([&f.message]).chain(&f.help);
            for text in texts {
                if text.ends_with('.') || text.is_empty() {
                    problems.push(format!("{}: ends with a period, or is empty: {text}", f.rule.id));
                }
            }
            for l in &f.labels {
                if l.text.chars().count() > 60 {
                    problems.push(format!("{}: a label of more than 60 characters: {}", f.rule.id, l.text));
                }
            }
            if f.level == Level::Allow {
                problems.push(format!("{}: reported although it is off", f.rule.id));
            }
            if !f.labels.iter().any(|l| l.at == f.at) {
                problems.push(format!("{}: the guilty instruction has no label", f.rule.id));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Every id of the digest is checked by a rule or in a run, or the catalog says why not; and rules name no others.
#[test]
fn the_digest_is_covered() {
    use coop_validate::dynamic::{DYNAMIC, ELSEWHERE};
    let digest: BTreeSet<&str> = include_str!("digest.txt").lines().filter(|l| !l.starts_with('#')).collect();
    let by_rules: BTreeSet<&str> = RULES.iter().flat_map(|r| r.digest.iter().copied()).collect();
    let by_runs: BTreeSet<&str> = DYNAMIC.iter().flat_map(|d| d.digest.iter().copied()).collect();
    let not: BTreeSet<&str> = ELSEWHERE.iter().map(|e| e.0).collect();
    let known: BTreeSet<&str> = by_rules.iter().chain(&by_runs).chain(&not).copied().collect();
    assert_eq!(digest.difference(&known).count(), 0, "in no catalogue: {:?}", digest.difference(&known));
    assert_eq!(known.difference(&digest).count(), 0, "not of the digest: {:?}", known.difference(&digest));
    // In a run only, and not at all.
    let dynamic_only = by_runs.difference(&by_rules).count();
    assert_eq!((digest.len(), by_rules.len(), dynamic_only, not.len()), (320, 293, 7, 20));
}

/// The quick test for matrices on the words of a file agrees with the test on the module.
#[test]
fn words_tell_whether_there_are_matrices() {
    let (mut with, mut without) = (0, 0);
    for case in cases(&testdata()) {
        let mut bytes = coop_ir::binary::write(&case.module);
        let has_none = coop_validate::has_no_matrices(&bytes);
        assert_eq!(has_none, !coop_validate::concerns_matrices(&case.module), "{}", case.path.display());
        *(if has_none { &mut without } else { &mut with }) += 1;
        // What is not a list of instructions must be read, to be refused.
        bytes[20..24].fill(0);
        assert!(!coop_validate::has_no_matrices(&bytes));
    }
    assert!(with > 200 && without > 0, "{with} and {without}");
    assert!(!coop_validate::has_no_matrices(b"no module"));
    let text = text::parse("OpCapability Shader\nOpMemoryModel Logical GLSL450\n").expect("a module");
    let mut big = coop_ir::binary::write(&text);
    big.chunks_exact_mut(4).for_each(|w| w.reverse());
    assert!(coop_validate::has_no_matrices(&big));
    big.truncate(big.len() - 1);
    assert!(!coop_validate::has_no_matrices(&big));
    big.truncate(big.len() - 3);
    assert!(!coop_validate::has_no_matrices(&big));
}

/// Variables of types that are nested deeply are looked at without a stack of the same depth, and each type once.
#[test]
fn deeply_nested_types_are_looked_at() {
    let mut structs = "%s0 = OpTypeStruct %uint\n".to_owned();
    for n in 1..20_000 {
        structs += &format!("%s{n} = OpTypeStruct %s{0} %s{0}\n", n - 1);
    }
    let source = format!(
        "OpCapability Shader
        OpCapability CooperativeMatrixKHR
        OpCapability Float16
        OpCapability VulkanMemoryModel
        OpExtension \"SPV_KHR_cooperative_matrix\"
        OpMemoryModel Logical Vulkan
        OpEntryPoint GLCompute %main \"main\" %own %shared
        OpExecutionMode %main LocalSize 32 1 1
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %half = OpTypeFloat 16
        %n0 = OpConstant %uint 0
        %n3 = OpConstant %uint 3
        %n16 = OpConstant %uint 16
        %matrix = OpTypeCooperativeMatrixKHR %half %n3 %n16 %n16 %n0
        {structs}
        %to_own = OpTypePointer Private %s19999
        %to_shared = OpTypePointer Workgroup %s19999
        %own = OpVariable %to_own Private
        %shared = OpVariable %to_shared Workgroup
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %undefined = OpUndef %matrix
        OpReturn
        OpFunctionEnd"
    );
    let module = coop_ir::text::parse(&source).expect("it parses");
    let report = coop_validate::check(&module, &coop_validate::Options::default());
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
