//! Findings as JSON: one object a file. The layout is a contract; `docs/coopcheck.md` describes it.

use crate::render::{Problem, sources};
use coop_ir::decorate::Decorations;
use coop_ir::source::SourceMap;
use coop_ir::{InstRef, Module};
use coop_validate::{Part, Report};
use serde_json::{Value, json};

/// The object of a file that was checked.
pub fn report(module: &Module, file: &str, report: &Report) -> Value {
    let places = Places::new(module);
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|f| {
            let mut value = places.problem(&Problem::from(f));
            value["spec_ids"] = json!(f.defaults);
            value["deviation"] = json!(f.deviation.map(|d| d.words));
            value
        })
        .collect();
    let omitted: serde_json::Map<String, Value> =
        report.omitted.iter().map(|(rule, n)| (rule.id.to_owned(), json!(n))).collect();
    json!({
        "file": file,
        "ok": report.is_ok(),
        "findings": findings,
        "omitted": omitted,
        "undecided": report.undecided,
    })
}

/// The object of a file in which there was nothing to check.
pub fn without_findings(file: &str) -> Value {
    json!({ "file": file, "ok": true, "findings": [], "omitted": {}, "undecided": 0 })
}

/// Adds problems that no rule found to the object of a file.
pub fn append(object: &mut Value, module: &Module, problems: &[Problem]) {
    if problems.is_empty() {
        return;
    }
    let places = Places::new(module);
    if let Some(findings) = object["findings"].as_array_mut() {
        findings.extend(problems.iter().map(|p| {
            let mut value = places.problem(p);
            value["spec_ids"] = json!([]);
            value
        }));
    }
}

/// The object of a file that could not be read.
pub fn unreadable(file: &str, message: &str) -> Value {
    json!({ "file": file, "ok": false, "unreadable": message, "findings": [] })
}

/// Locates instructions, by numbers and names.
pub struct Places<'a> {
    module: &'a Module,
    decorations: Decorations,
    shader: SourceMap,
    /// The index of each function in the module's list, by arena index.
    functions: Vec<Option<usize>>,
}

impl<'a> Places<'a> {
    /// For the instructions of `module`.
    pub fn new(module: &'a Module) -> Places<'a> {
        let mut functions = vec![None; module.arena_len()];
        for (i, f) in module.functions.iter().enumerate() {
            f.insts().for_each(|r| functions[r.index()] = Some(i));
        }
        Places { module, decorations: Decorations::new(module), shader: sources::of(module), functions }
    }

    /// The place in the shader's source that an instruction belongs to: its own line, or the first that uses it.
    pub fn in_source(&self, at: InstRef) -> Option<Value> {
        self.source(crate::render::in_source(self.module, &self.shader, at)?)
    }

    /// One problem as an object.
    pub fn problem(&self, p: &Problem) -> Value {
        let labels: Vec<Value> = p
            .labels
            .iter()
            .map(|(at, part, text)| {
                let (part, operand) = match part {
                    Part::Whole => ("instruction", None),
                    Part::Type => ("type", None),
                    Part::Result => ("result", None),
                    Part::Operand(i) => ("operand", Some(i)),
                };
                json!({
                    "instruction": at.index(),
                    "word_offset": self.word_offset(*at),
                    "part": part,
                    "operand": operand,
                    "text": text,
                    "source": self.in_source(*at),
                })
            })
            .collect();
        json!({
            "rule": p.code,
            "level": p.level.name(),
            "message": p.message,
            "instruction": p.at.index(),
            "word_offset": self.word_offset(p.at),
            "opcode": self.module.inst(p.at).op.to_string(),
            "function": self.function(p.at),
            "labels": labels,
            "help": p.help,
            "source": self.in_source(p.at),
        })
    }

    /// The place in the shader's source, if the module says it.
    fn source(&self, at: InstRef) -> Option<Value> {
        let location = self.shader.location(at)?;
        let file = self.shader.file(location)?;
        // Line and column 0 mean that they are not known.
        let known = |n: u32| (n != 0).then_some(n);
        Some(json!({
            "file": file.name(),
            "line": known(location.line),
            "column": known(location.column),
            "text": file.line(location.line),
        }))
    }

    fn word_offset(&self, at: InstRef) -> Option<u32> {
        self.module.inst(at).origin.map(|o| o.get())
    }

    /// The function that an instruction is in: its name, or its id.
    fn function(&self, at: InstRef) -> Option<String> {
        let f = &self.module.functions[self.functions[at.index()]?];
        let id = self.module.inst(f.def).result?;
        Some(self.decorations.name(self.module, id).unwrap_or_else(|| id.to_string()))
    }
}
