//! Answers to the page's requests, for files whose findings are on record.

use coop_validate::testing::{Case, cases};
use coop_web::{Answer, Request, answer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(path)
}

fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(testdata(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn ask(request: Value, file: &[u8]) -> Answer {
    let request: Request = serde_json::from_value(request).expect("a request");
    answer(&request, file)
}

/// The number of the line, from 1, on which an instruction begins: found without the listing.
fn line_of(case: &Case, at: coop_ir::InstRef) -> usize {
    let parsed = coop_ir::text::parse_with_places(&case.source).expect("it parses");
    let span = parsed.span(at).expect("it is in the text");
    case.source[..span.start].matches('\n').count() + 1
}

/// Files whose comments set options that a request has not are left out; there must be hundreds of others.
#[test]
fn findings_are_at_the_lines_that_comments_name() {
    let (mut compared, mut refused) = (0, Vec::new());
    for case in cases(&testdata("validate")) {
        let options = ["; env:", "; subgroup:", "; warn:", "; deny:", "; allow:", "; profile:", "; spec:"];
        if options.iter().any(|option| case.source.lines().any(|line| line.starts_with(option))) {
            continue;
        }
        let given = ask(json!({ "what": "check" }), case.source.as_bytes()).json;
        let name = case.path.display();
        if given["problems"].is_array() {
            refused.push(name.to_string());
            continue;
        }
        let mut found: Vec<(String, String, u64)> = given["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .map(|f| {
                let text = |key: &str| f[key].as_str().expect("a text").to_owned();
                (text("level"), text("rule"), f["place"]["line"].as_u64().expect("a line"))
            })
            .collect();
        let line = |at| line_of(&case, at) as u64;
        let mut wanted: Vec<(String, String, u64)> =
            case.expected.iter().map(|e| (e.level.clone(), e.rule.clone(), line(e.at))).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{name}");
        compared += wanted.len();
    }
    assert!(compared > 300, "only {compared} findings");
    // Rules look at modules that a tool refuses to read on, too.
    assert!(refused.len() < 10, "{refused:?}");
}

/// Spans count as JavaScript does: letters beyond ASCII take one or two units.
#[test]
fn spans_count_units_of_utf_16() {
    let case = std::fs::read_to_string(testdata("validate/muladd/muladd-k-mismatch.spvasm")).expect("a file");
    let text = format!("; é and 𝄞\n{case}");
    let given = ask(json!({ "what": "check" }), text.as_bytes()).json;
    let units: Vec<u16> = text.encode_utf16().collect();
    let piece = |place: &Value| {
        let at = |key: &str| place[key].as_u64().expect("a number") as usize;
        String::from_utf16(&units[at("from")..at("to")]).expect("whole letters")
    };
    let finding = &given["findings"][0];
    assert!(piece(&finding["place"]).starts_with("%product = OpCooperativeMatrixMulAddKHR %c16x16"), "{finding}");
    let labels: Vec<String> = finding["labels"].as_array().expect("labels").iter().map(piece).collect();
    assert!(
        labels.iter().any(|label| label == "%uint_16") || labels.iter().any(|l| l.starts_with("%a16x16")),
        "{labels:?}"
    );
}

/// A binary comes with its text, and findings point into that.
#[test]
fn binaries_come_with_their_text() {
    let module = coop_ir::text::parse(
        &std::fs::read_to_string(testdata("validate/muladd/muladd-k-mismatch.spvasm")).expect("a file"),
    );
    let file = coop_ir::binary::write(&module.expect("it parses"));
    let given = ask(json!({ "what": "check" }), &file).json;
    let text = given["text"].as_str().expect("a text");
    let line = given["findings"][0]["place"]["line"].as_u64().expect("a line") as usize;
    assert!(text.lines().nth(line - 1).is_some_and(|l| l.contains("OpCooperativeMatrixMulAddKHR")), "{line}: {text}");
    assert_eq!(given["matrices"], true);
}

#[test]
fn constants_are_listed_and_taken() {
    let file = bytes("kernels/gemm_simple.spv");
    let given = ask(json!({ "what": "check" }), &file).json;
    let constants = given["constants"].as_array().expect("constants");
    assert_eq!(constants.len(), 4, "{given}");
    assert_eq!(constants[0]["id"], 0);
    assert_eq!(constants[0]["type"], "u32");
    // Twice the columns of A are no longer the rows of B, wherever the same constant stands for both; so a value changes what comes out.
    let lowered = |spec: Value| {
        ask(json!({ "what": "lower", "device": "mesa-lavapipe", "target": "scalar", "spec": spec }), &file)
    };
    let (small, large) = (lowered(json!({ "0": "16" })), lowered(json!({ "0": "32" })));
    assert_eq!((&small.json["outcome"], &large.json["outcome"]), (&json!("lowered"), &json!("lowered")));
    assert_ne!(small.spirv, large.spirv);
    let wrong = ask(json!({ "what": "check", "spec": { "0": "half" } }), &file).json;
    assert_eq!(wrong["problems"][0]["field"], "spec");
}

/// The page lowers as the library does, and what comes out has no matrices any more.
#[test]
fn lowered_modules_are_those_of_the_library() {
    use coopmat::{Device, Outcome, PipelineOptions, Prepared};
    let file = bytes("kernels/gemm_i8.spv");
    let given = ask(json!({ "what": "lower", "device": "mesa-lavapipe-debian12" }), &file);
    let mut options = PipelineOptions::default();
    options.check_rules = true;
    let device = Device::builtin("mesa-lavapipe-debian12").expect("a device");
    let Outcome::Lowered(wanted) = Prepared::read_bytes(&file).expect("a module").for_pipeline(&device, &options)
    else {
        panic!("it is lowered for a device without matrices");
    };
    let words: Vec<u8> = wanted.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(given.spirv == words && !words.is_empty());
    let text = given.json["text"].as_str().expect("a text");
    assert!(text.contains("OpEntryPoint") && !text.contains("CooperativeMatrix"), "{text}");
    assert_eq!(given.json["target"], "scalar");
}

#[test]
fn every_device_has_a_row() {
    let file = bytes("kernels/gemm_simple.spv");
    let list = ask(json!({ "what": "devices" }), &[]).json;
    let devices = list["devices"].as_array().expect("devices");
    assert!(devices.len() > 20, "{list}");
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for device in devices {
        let row = ask(json!({ "what": "row", "device": device["name"] }), &file).json;
        *outcomes
            .entry(row["outcome"].as_str().unwrap_or_else(|| panic!("{device}: {row}")).to_owned())
            .or_default() += 1;
        assert!(row["text"].is_null());
    }
    assert!(outcomes["native"] > 3 && outcomes["lowered"] > 3, "{outcomes:?}");
}

/// Bad input is a problem with a place or a field, never a panic.
#[test]
fn bad_input_is_a_problem() {
    let problem = |request: Value, file: &[u8]| {
        let given = ask(request, file).json;
        let first = given["problems"][0].clone();
        assert!(first["message"].as_str().is_some_and(|m| !m.is_empty()), "{given}");
        first
    };
    let check = || json!({ "what": "check" });
    assert_eq!(problem(check(), b"")["field"], "input");
    assert_eq!(problem(check(), b"%a = OpTypeVoid\n%b = OpTypeVoidd\n")["line"], 2);
    assert_eq!(problem(check(), &[0xff, 0xfe, 0, 1])["line"], Value::Null);
    assert_eq!(problem(check(), &[3, 2, 0x23, 7, 0, 0])["field"], "input");
    // Well-formed text of a module that makes no sense: an id without a definition.
    let undefined =
        problem(check(), b"OpCapability Shader\nOpMemoryModel Logical GLSL450\n%v = OpTypePointer Uniform %missing\n");
    assert_eq!(undefined["line"], 3, "{undefined}");
    let gemm = bytes("kernels/gemm_simple.spv");
    assert_eq!(problem(json!({ "what": "lower" }), &gemm)["field"], "device");
    assert_eq!(problem(json!({ "what": "lower", "device": "abacus" }), &gemm)["field"], "device");
    assert_eq!(problem(json!({ "what": "lower", "device": "{ not JSON" }), &gemm)["field"], "device");
    assert_eq!(
        problem(json!({ "what": "lower", "device": "nvidia-h100", "target": "best" }), &gemm)["field"],
        "target"
    );
    assert_eq!(problem(json!({ "what": "check", "subgroup_size": "31" }), &gemm)["field"], "subgroup_size");
    for cut in (0..gemm.len()).step_by(97) {
        ask(check(), &gemm[..cut]);
    }
}
