//! Findings as SARIF 2.1.0: one document with one run, for code-scanning services.
//!
//! A result points to where the shader's author can look: the shader's source if the module has debug information, the
//! line of assembly text, or else an offset in the binary. The module itself is always named.

use crate::io::{Format, Loaded};
use crate::json::Places;
use crate::render::Problem;
use coop_ir::{InstRef, text};
use coop_validate::{Level, RULES, Rule};
use serde_json::{Value, json};

/// The part of one file.
#[derive(Default)]
pub(super) struct Part {
    results: Vec<Value>,
    notifications: Vec<Value>,
}

impl Part {
    /// Returns the part of a file that was checked.
    pub(super) fn checked<'a>(loaded: &Loaded, problems: impl Iterator<Item = (Problem, Option<&'a str>)>) -> Part {
        let places = Places::new(&loaded.module);
        let lines = (loaded.format == Format::Text)
            .then(|| std::str::from_utf8(&loaded.bytes).ok().and_then(|t| text::parse_with_places(t).ok()))
            .flatten();
        let line = |at: InstRef| lines.as_ref().and_then(|parsed| parsed.line(at));
        let results = problems.map(|(p, deviation)| result(loaded, &places, &line, &p, deviation)).collect();
        Part { results, notifications: Vec::new() }
    }

    /// Returns the part of a file that could not be read.
    pub(super) fn unreadable(file: &str, message: &str) -> Part {
        let notification = json!({
            "level": "error",
            "message": { "text": message },
            "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(file) } } }],
        });
        Part { results: Vec::new(), notifications: vec![notification] }
    }
}

/// Returns the whole document.
pub(super) fn document(parts: Vec<Part>, exit_code: u8) -> String {
    let (mut results, mut notifications) = (Vec::new(), Vec::new());
    for part in parts {
        results.extend(part.results);
        notifications.extend(part.notifications);
    }
    let rules: Vec<Value> = RULES.iter().map(|r| descriptor(r)).collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "coopcheck",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "invocations": [{
                "executionSuccessful": notifications.is_empty(),
                "exitCode": exit_code,
                "toolExecutionNotifications": notifications,
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{document:#}\n")
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
        Level::Allow => "none",
    }
}

fn descriptor(rule: &Rule) -> Value {
    let mut markdown = String::new();
    for line in rule.docs() {
        match line.strip_prefix("## ") {
            Some(heading) => markdown.push_str(&format!("\n**{heading}.** ")),
            None => markdown.push_str(&format!("{line}\n")),
        }
    }
    let text: Vec<&str> = rule.docs().filter(|l| !l.starts_with("## ")).collect();
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.summary },
        "fullDescription": { "text": text.join(" ") },
        "help": { "text": format!("{} Source: {}.", text.join(" "), rule.spec), "markdown": markdown.trim() },
        "defaultConfiguration": { "enabled": rule.level != Level::Allow, "level": level(rule.level) },
        "properties": { "tags": [rule.family()], "vuids": rule.vuids, "source": rule.spec },
    })
}

fn result(
    loaded: &Loaded,
    places: &Places,
    line: &dyn Fn(InstRef) -> Option<usize>,
    problem: &Problem,
    deviation: Option<&str>,
) -> Value {
    let found = places.problem(problem);
    let module = |at: InstRef, offset: Option<u64>| {
        let mut region = serde_json::Map::new();
        // A binary has one line, as far as services are concerned that want one.
        region.insert("startLine".into(), json!(line(at).unwrap_or(1)));
        if let (None, Some(words)) = (line(at), offset) {
            region.insert("byteOffset".into(), json!(words * 4));
        }
        json!({ "artifactLocation": { "uri": uri(&loaded.name) }, "region": region })
    };
    let offset = |v: &Value| v["word_offset"].as_u64();
    let in_source = |source: &Value| {
        let (file, line) = (source["file"].as_str()?, source["line"].as_u64()?);
        let mut region = json!({ "startLine": line });
        if let Some(column) = source["column"].as_u64() {
            region["startColumn"] = json!(column);
        }
        Some(json!({ "artifactLocation": { "uri": uri(file) }, "region": region }))
    };
    let physical = in_source(&found["source"]).unwrap_or_else(|| module(problem.at, offset(&found)));
    let mut location = json!({ "physicalLocation": physical });
    if let Some(function) = found["function"].as_str() {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
    }
    let labels = found["labels"].as_array().into_iter().flatten();
    let related: Vec<Value> = problem
        .labels
        .iter()
        .zip(labels)
        .map(|((at, _, text), label)| {
            let place = in_source(&label["source"]).unwrap_or_else(|| module(*at, offset(label)));
            json!({ "physicalLocation": place, "message": { "text": text } })
        })
        .collect();
    let text = match &problem.help {
        Some(help) => format!("{}\n\n{help}", problem.message),
        None => problem.message.clone(),
    };
    let mut result = json!({
        "ruleId": problem.code,
        "level": level(problem.level),
        "message": { "text": text },
        "locations": [location],
        "relatedLocations": related,
        "partialFingerprints": { "coopcheck/v1": format!("{}:{}", problem.code, problem.message) },
        "properties": {
            "module": loaded.name,
            "instruction": found["instruction"],
            "word_offset": found["word_offset"],
            "opcode": found["opcode"],
        },
    });
    if let Ok(index) = RULES.binary_search_by_key(&problem.code.as_str(), |r| r.id) {
        result["ruleIndex"] = json!(index);
    }
    if let Some(deviation) = deviation {
        result["properties"]["deviation"] = json!(deviation);
    }
    result
}

/// Returns a path as a URI reference, with escapes.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for b in path.bytes() {
        match b {
            b'\\' => out.push('/'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_references() {
        assert_eq!(uri("shaders/a b.comp"), "shaders/a%20b.comp");
        assert_eq!(uri("C:\\x"), "C%3A/x");
    }
}
