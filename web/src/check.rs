//! Findings, and where they are in the text.

use crate::listing::{Listing, Positions};
use crate::{Answer, Problem, Request, constants, lower, read, subgroup_size};
use coop_ir::InstRef;
use coop_validate::{Device, Finding, Options, Part};
use serde_json::{Value, json};
use std::sync::Arc;

/// Checks a file.
pub(crate) fn check(request: &Request, bytes: &[u8]) -> Result<Answer, Vec<Problem>> {
    let input = read(bytes)?;
    let mut options = Options::default();
    options.specialization = constants::given(&input.module, &request.spec)?.rules;
    options.subgroup_size = subgroup_size(request)?;
    if request.device.is_some() {
        let mut device = Device::new(lower::device(request)?.profile().clone());
        device.subgroup_size = options.subgroup_size;
        options.device = Some(Arc::new(device));
    }
    let report = coop_validate::check_with(&input.module, &input.cfgs, &options);
    let listing = Listing::of(&input);
    let places = Places { listing: &listing, positions: Positions::new(listing.text()) };
    let findings: Vec<Value> = report.findings.iter().map(|f| places.finding(f)).collect();
    let omitted: serde_json::Map<String, Value> =
        report.omitted.iter().map(|(rule, n)| (rule.id.to_owned(), json!(n))).collect();
    let entries = coop_ir::entry::entry_points(&input.module, &coop_ir::decorate::Decorations::new(&input.module));
    let json = json!({
        "text": input.written.is_none().then(|| listing.text()),
        "findings": findings,
        "omitted": omitted,
        "undecided": report.undecided,
        "matrices": coop_validate::concerns_matrices(&input.module),
        "instructions": input.module.all().count(),
        "entries": entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>(),
        "constants": constants::json(&input.module),
    });
    Ok(Answer { json, spirv: Vec::new() })
}

/// The places of instructions in a text.
struct Places<'a> {
    listing: &'a Listing<'a>,
    positions: Positions<'a>,
}

impl Places<'_> {
    fn place(&self, at: InstRef, part: Part) -> Value {
        let span = self.listing.span(at, part).map(|span| self.positions.span(&span));
        let (from, to) = span.map(|span| (span.start, span.end)).unzip();
        json!({ "from": from, "to": to, "line": self.listing.line(at) })
    }

    fn finding(&self, finding: &Finding) -> Value {
        let labels = finding.labels.iter().map(|label| {
            let mut value = self.place(label.at, label.part);
            value["text"] = json!(label.text);
            value["main"] = json!(label.at == finding.at);
            value
        });
        json!({
            "rule": finding.rule.id,
            "summary": finding.rule.summary,
            "level": finding.level.name(),
            "message": finding.message,
            "help": finding.help,
            "place": self.place(finding.at, Part::Whole),
            "labels": labels.collect::<Vec<_>>(),
        })
    }
}
