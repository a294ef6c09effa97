//! `coopcheck --format sarif` against the schema of SARIF 2.1.0, and against what code-scanning services want besides.
//!
//! `scripts/sarif-schema.sh` fetches the schema. Without it the test of the schema says that it was skipped, or fails if
//! `COOP_REQUIRE_TOOLS` is set; the other one always runs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sarif(args: &[&str]) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_coopcheck"))
        .args(["--format", "sarif"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("it starts");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("not JSON: {e}"))
}

/// Findings of every level in text and in a binary, one with debug information, and a file that can't be read.
fn documents() -> Vec<Value> {
    vec![
        sarif(&["testdata/validate/valid/gemm.spvasm"]),
        sarif(&[
            "--profile",
            "nvidia-h100",
            "testdata/validate/muladd/muladd-k-mismatch.spvasm",
            "testdata/validate/muladd/muladd-k-mismatch.default.spvasm",
            "testdata/validate/module/module-memory-model.iree.spvasm",
            "testdata/kernels/gemm_simple.debug.spv",
            "testdata/no-such-file.spv",
        ]),
    ]
}

#[test]
fn what_services_want() {
    let [clean, found] = &documents()[..] else { panic!("two documents") };
    let run = &clean["runs"][0];
    assert_eq!(run["results"].as_array().map(Vec::len), Some(0));
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);

    let run = &found["runs"][0];
    assert_eq!(found["version"], "2.1.0");
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    assert_eq!(run["invocations"][0]["toolExecutionNotifications"].as_array().map(Vec::len), Some(1));
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert!(!results.is_empty());
    let mut levels = std::collections::BTreeSet::new();
    for r in results {
        let index = r["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], r["ruleId"]);
        levels.insert(r["level"].as_str().expect("a level").to_owned());
        let place = &r["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().is_some_and(|n| n > 0), "{r}");
        assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|u| !u.is_empty() && !u.contains(' ')), "{r}");
    }
    assert_eq!(levels.into_iter().collect::<Vec<_>>(), ["error", "note", "warning"]);
    // Text has lines, debug information leads to the shader.
    let of = |rule: &str| results.iter().find(|r| r["ruleId"] == rule).unwrap_or_else(|| panic!("no {rule}"));
    let k = &of("muladd-k-mismatch")["locations"][0]["physicalLocation"];
    assert_eq!(k["artifactLocation"]["uri"], "testdata/validate/muladd/muladd-k-mismatch.spvasm");
    assert!(k["region"]["startLine"].as_u64().is_some_and(|n| n > 20));
    let shader = &of("device-alignment-unproven")["locations"][0]["physicalLocation"];
    assert!(shader["artifactLocation"]["uri"].as_str().is_some_and(|u| u.ends_with(".comp")), "{shader}");
    assert!(of("module-memory-model")["properties"]["deviation"].as_str().is_some_and(|d| d.contains("IREE")));
}

#[test]
fn the_schema_holds() {
    let cache = std::env::var_os("COOP_CACHE").map_or(root().join(".cache"), PathBuf::from);
    let Ok(text) = std::fs::read_to_string(cache.join("sarif-2.1.0.json")) else {
        assert!(
            std::env::var_os("COOP_REQUIRE_TOOLS").is_none(),
            "the schema is not there: scripts/sarif-schema.sh fetches it"
        );
        eprintln!("SKIPPED: the schema is not there; scripts/sarif-schema.sh fetches it");
        return;
    };
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    for document in documents() {
        let problems = Schema { root: &schema }.check(&document);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
    // The checker of schemas is one that finds something.
    let mut broken = documents().remove(0);
    broken["version"] = "2.0.0".into();
    broken["runs"][0]["tool"]["driver"].as_object_mut().expect("an object").remove("name");
    broken["runs"][0]["surprise"] = 1.into();
    let problems = Schema { root: &schema }.check(&broken);
    assert_eq!(problems.len(), 3, "{problems:?}");
}

fn say(out: &mut Vec<String>, path: &str, what: String) {
    out.push(format!("{path}: {what}"));
}

/// As much of JSON Schema (draft 7) as the schema of SARIF uses; a keyword that is not known fails the test.
struct Schema<'a> {
    root: &'a Value,
}

impl<'a> Schema<'a> {
    fn check(&self, value: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        self.at(self.root, value, "", &mut problems);
        problems
    }

    fn accepts(&self, schema: &'a Value, value: &Value) -> bool {
        let mut problems = Vec::new();
        self.at(schema, value, "", &mut problems);
        problems.is_empty()
    }

    fn at(&self, schema: &'a Value, value: &Value, path: &str, out: &mut Vec<String>) {
        let keywords = schema.as_object().expect("a schema");
        for (keyword, wanted) in keywords {
            match keyword.as_str() {
                "$schema" | "$id" | "id" | "title" | "description" | "default" | "definitions" => {}
                // Checked with `properties`.
                "additionalProperties" => {}
                "type" => {
                    let is = match value {
                        Value::Null => "null",
                        Value::Bool(_) => "boolean",
                        Value::Number(n) if n.is_i64() || n.is_u64() => "integer",
                        Value::Number(_) => "number",
                        Value::String(_) => "string",
                        Value::Array(_) => "array",
                        Value::Object(_) => "object",
                    };
                    let suits = |t: &Value| t == is || t == "number" && is == "integer";
                    if !(suits(wanted) || wanted.as_array().is_some_and(|a| a.iter().any(suits))) {
                        say(out, path, format!("is of type {is}, not {wanted}"));
                    }
                }
                "enum" => {
                    if !wanted.as_array().expect("a list").contains(value) {
                        say(out, path, format!("{value} is not one of {wanted}"));
                    }
                }
                "required" => {
                    for name in wanted.as_array().expect("a list").iter().filter_map(Value::as_str) {
                        if value.is_object() && value.get(name).is_none() {
                            say(out, path, format!("lacks {name}"));
                        }
                    }
                }
                "minimum" | "maximum" => {
                    let (n, limit) = (value.as_f64(), wanted.as_f64().expect("a number"));
                    let (least, most) = if keyword == "minimum" { (limit, f64::MAX) } else { (f64::MIN, limit) };
                    if n.is_some_and(|n| n < least || n > most) {
                        say(out, path, format!("{value} is beyond the {keyword} {wanted}"));
                    }
                }
                "minItems" => {
                    if value.as_array().is_some_and(|a| (a.len() as u64) < wanted.as_u64().expect("a number")) {
                        say(out, path, "has too few items".into());
                    }
                }
                "uniqueItems" => {
                    let repeated = |a: &Vec<Value>| a.iter().enumerate().any(|(i, v)| a[..i].contains(v));
                    if value.as_array().is_some_and(repeated) {
                        say(out, path, "has the same item twice".into());
                    }
                }
                "format" => {
                    let suits = match (wanted.as_str().expect("a name"), value.as_str()) {
                        ("uri" | "uri-reference", Some(text)) => !text.contains([' ', '\\', '"', '<', '>']),
                        ("date-time", Some(_)) => panic!("{path}: we write no dates"),
                        _ => true,
                    };
                    if !suits {
                        say(out, path, format!("{value} is not {wanted}"));
                    }
                }
                "pattern" => assert!(!value.is_string(), "{path}: we write nothing that has a pattern"),
                "$ref" => {
                    let name = wanted.as_str().and_then(|r| r.strip_prefix("#/definitions/")).expect("a definition");
                    self.at(&self.root["definitions"][name], value, path, out);
                    return;
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.at(wanted, item, &format!("{path}/{i}"), out);
                    }
                }
                "properties" => self.properties(schema, value, path, out),
                "anyOf" => {
                    if !wanted.as_array().expect("a list").iter().any(|s| self.accepts(s, value)) {
                        out.push(format!("{path}: is none of several"));
                    }
                }
                "oneOf" => {
                    let n = wanted.as_array().expect("a list").iter().filter(|s| self.accepts(s, value)).count();
                    if n != 1 {
                        out.push(format!("{path}: is {n} of several, not one"));
                    }
                }
                other => panic!("keyword {other} of the schema is not known here"),
            }
        }
    }

    fn properties(&self, schema: &'a Value, value: &Value, path: &str, out: &mut Vec<String>) {
        let (known, more) = (&schema["properties"], &schema["additionalProperties"]);
        for (name, v) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            match known.get(name) {
                Some(schema) => self.at(schema, v, &path, out),
                None if *more == false => out.push(format!("{path}: is not in the schema")),
                None if more.is_object() => self.at(more, v, &path, out),
                None => {}
            }
        }
    }
}
