//! The JSON output of `--json`.

use coop_exec::cover::Unreached;
use coop_exec::interp::{Blocks, Finding};
use coop_exec::number::Value;
use coop_exec::proof::{Proof, Verdict};
use coop_exec::{Case, Difference, Error, Timer};
use coop_ir::Module;
use serde_json::{Value as Json, json};

use super::Failure;
use super::cover::Covered;
use super::on::{Comparison, Ran};
use super::results::{Verification, dump_name, expected, tera_operations, verdict};
use crate::Status;
use crate::json::Places;
use crate::render::Problem;

/// Returns the object of a run in one place; for several, an object with all of them and their differences.
pub(super) fn several(mut runs: Vec<Json>, comparisons: &[Comparison], ok: bool) -> String {
    match runs.pop() {
        Some(one) if runs.is_empty() => one.to_string(),
        last => {
            runs.extend(last);
            let comparisons: Vec<Json> = comparisons
                .iter()
                .map(|Comparison { device, with, differences }| {
                    let differences: Vec<Json> = differences.iter().map(difference).collect();
                    json!({ "device": device, "with": with, "differences": differences })
                })
                .collect();
            json!({ "ok": ok, "runs": runs, "comparisons": comparisons }).to_string()
        }
    }
}

/// Returns the findings of the interpreter; null where it did not run.
fn findings(ran: &Ran, module: &Module) -> Json {
    let Some(findings) = &ran.findings else { return Json::Null };
    let places = Places::new(module);
    let object = |finding: &Finding| {
        let mut object = places.problem(&Problem::from(finding));
        object["count"] = finding.count.into();
        object
    };
    findings.iter().map(object).collect()
}

/// Returns the output of `cooprun run --json`.
pub(super) fn run(ran: &Ran, case: &Case, differences: &[Difference], module: &Module) -> Json {
    let outcome = &ran.outcome;
    let mut object = json!({
        "ok": verdict(&[ran], differences) == Status::Success,
        "device": outcome.device,
        "validated": ran.validated,
        "messages": outcome.messages,
        "faults": outcome.faults,
        "findings": findings(ran, module),
        "expected": expected(case),
        "differences": differences.iter().map(difference).collect::<Vec<_>>(),
        "buffers": outcome.buffers.iter().map(|(name, bytes)| {
            json!({ "name": name, "file": dump_name(name), "bytes": bytes.len() })
        }).collect::<Vec<_>>(),
    });
    if let Some(median) = outcome.median() {
        object["bench"] = json!({
            "timer": match outcome.timer { Timer::Device => "device", Timer::Host => "host" },
            "median_ns": median.as_nanos() as u64,
            "times_ns": outcome.times.iter().map(|time| time.as_nanos() as u64).collect::<Vec<_>>(),
            "tflops": tera_operations(case, median),
        });
    }
    object
}

/// Returns the output of `cooprun compare --json`.
pub(super) fn compare(a: (&Ran, &Module), b: (&Ran, &Module), differences: &[Difference]) -> Json {
    let side = |(ran, module): (&Ran, &Module)| {
        let outcome = &ran.outcome;
        json!({ "messages": outcome.messages, "faults": outcome.faults, "findings": findings(ran, module) })
    };
    json!({
        "ok": verdict(&[a.0, b.0], differences) == Status::Success,
        "device": a.0.outcome.device,
        "validated": a.0.validated,
        "a": side(a),
        "b": side(b),
        "differences": differences.iter().map(difference).collect::<Vec<_>>(),
    })
}

/// Returns the output of `cooprun verify --json`.
pub(super) fn verify(verification: &Verification, lowered: &Module, original: &Module) -> Json {
    let ran = &verification.ran;
    json!({
        "ok": verification.status() == Status::Success,
        "device": ran.outcome.device,
        "validated": ran.validated,
        "compared_with": verification.compared_with,
        "not_compared": verification.not_compared,
        "messages": ran.outcome.messages,
        "faults": ran.outcome.faults,
        "findings": findings(ran, lowered),
        "original_findings": verification.original.as_ref().map(|ran| findings(ran, original)),
        "differences": verification.differences.iter().map(|(with, found)| {
            json!({ "with": with, "difference": difference(found) })
        }).collect::<Vec<_>>(),
        "report": verification.report,
    })
}

/// Returns the output of `cooprun prove --json`.
pub(super) fn proof(proof: &Proof, case: &Case) -> Json {
    let (verdict, cause, reason) = match &proof.verdict {
        Verdict::Proved => ("proved", None, None),
        Verdict::Refuted(why) => ("refuted", None, Some(why)),
        Verdict::NotProvable(open) => ("not-provable", Some(open.cause.name()), Some(&open.message)),
    };
    let blocks = |blocks: &Blocks| {
        let missed: Vec<String> = blocks.missed.iter().map(ToString::to_string).collect();
        let ways: Vec<[String; 2]> = blocks.missed_ways.iter().map(|(a, b)| [a.to_string(), b.to_string()]).collect();
        let loops: Vec<String> = blocks.short_loops.iter().map(ToString::to_string).collect();
        json!({
            "executed": blocks.executed,
            "all": blocks.all(),
            "missed": missed,
            "ways": blocks.ways,
            "missed_ways": ways,
            "loops": blocks.loops,
            "short_loops": loops,
        })
    };
    let difference = proof
        .difference
        .as_ref()
        .map(|of| json!({ "place": of.place, "original": of.original, "lowered": of.lowered, "only": of.only }));
    let places = proof
        .mismatches
        .iter()
        .map(|m| json!({ "buffer": case.buffer[m.buffer].name, "element": m.element, "certain": m.certain }));
    json!({
        "ok": proof.is_proved(),
        "verdict": verdict,
        "cause": cause,
        "reason": reason,
        "mode": proof.arithmetic.name(),
        "data": proof.data,
        "not_compared": proof.unchecked,
        "stored": proof.stored,
        "differing": proof.differing,
        "places": places.collect::<Vec<_>>(),
        "difference": difference,
        "log2_error": proof.log2_error,
        "rounds": proof.rounds,
        "decisions": proof.decisions,
        "blocks": { "original": blocks(&proof.blocks[0]), "lowered": blocks(&proof.blocks[1]) },
        "text": proof.to_string(),
    })
}

/// Returns the part of `cooprun prove --cover --json` about the other cases.
pub(super) fn covered(covered: &Covered, case: &Case) -> Json {
    let proofs = covered.proofs.iter().map(|(with, proof, blocks)| {
        let mut json = self::proof(proof, case);
        json["with"] = with.as_str().into();
        json["more_blocks"] = (*blocks).into();
        json
    });
    let reasons = |left: &[Unreached]| left.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "tried": covered.tried,
        "proofs": proofs.collect::<Vec<_>>(),
        "left": reasons(&covered.left),
        "left_lowered": covered.lowered.iter().map(|left| reasons(left)).collect::<Vec<_>>(),
    })
}

/// Returns the output for a failure.
pub(super) fn failure(failure: &Failure) -> String {
    let kind = match failure {
        Failure::File(_) => "file",
        Failure::Usage(_) => "usage",
        Failure::Run(error) => kind(error),
        Failure::Lower(coop_passes::Error::Refused(_)) => "refused",
        Failure::Lower(coop_passes::Error::Bug { .. }) => "bug",
    };
    json!({ "ok": false, "error": { "kind": kind, "message": failure.to_string() } }).to_string()
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::NoLoader(_) => "no-loader",
        Error::NoDevice => "no-device",
        Error::NoOpenCl(_) => "no-opencl",
        Error::NoSuchDevice { .. } => "no-such-device",
        Error::Case(_) => "case",
        Error::Module(_) => "module",
        Error::Unsupported { .. } => "unsupported",
        Error::Vulkan { .. } => "vulkan",
        Error::OpenCl { .. } => "opencl",
        Error::Timeout { .. } => "timeout",
    }
}

fn difference(difference: &Difference) -> Json {
    let places = difference.places.iter().map(|place| {
        json!({
            "index": place.index,
            "row": place.row_column.map(|(row, _)| row),
            "column": place.row_column.map(|(_, column)| column),
            "got": number(place.got.0),
            "wanted": number(place.wanted.0),
            "got_bits": format!("0x{:x}", place.got.1),
            "wanted_bits": format!("0x{:x}", place.wanted.1),
            "allowed": number(Value::Float(place.allowed)),
        })
    });
    json!({
        "buffer": difference.buffer,
        "tolerance": difference.tolerance.to_string(),
        "count": difference.count,
        "total": difference.total,
        "largest": difference.largest.map(|(error, _)| error),
        "largest_at": difference.largest.map(|(_, index)| index),
        "nmse": difference.nmse,
        "unwritten": difference.unwritten,
        "stray": difference.stray,
        "note": difference.note,
        "places": places.collect::<Vec<_>>(),
        "text": difference.to_string(),
    })
}

/// Returns a number. NaN, infinities and large integers, which JSON lacks, are strings.
fn number(value: Value) -> Json {
    match value {
        Value::Int(value) => match i64::try_from(value) {
            Ok(value) => value.into(),
            Err(_) => value.to_string().into(),
        },
        Value::Float(value) if value.is_finite() => value.into(),
        Value::Float(value) => value.to_string().into(),
    }
}
