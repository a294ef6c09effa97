//! What `--json` prints.

use coop_exec::number::Value;
use coop_exec::{Case, Difference, Error, Outcome, Timer};
use serde_json::{Value as Json, json};

use super::Failure;
use super::execute::{dump_name, expected, tera_operations};
use super::verify::Verification;

/// `cooprun run --json`.
pub(super) fn run(outcome: &Outcome, case: &Case, differences: &[Difference], validated: bool, ok: bool) -> String {
    let mut object = json!({
        "ok": ok,
        "device": outcome.device,
        "validated": validated,
        "messages": outcome.messages,
        "faults": outcome.faults,
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
    object.to_string()
}

/// `cooprun compare --json`.
pub(super) fn compare(a: &Outcome, b: &Outcome, differences: &[Difference], validated: bool, ok: bool) -> String {
    let side = |outcome: &Outcome| json!({ "messages": outcome.messages, "faults": outcome.faults });
    json!({
        "ok": ok,
        "device": a.device,
        "validated": validated,
        "a": side(a),
        "b": side(b),
        "differences": differences.iter().map(difference).collect::<Vec<_>>(),
    })
    .to_string()
}

/// `cooprun verify --json`.
pub(super) fn verify(lowered: &Outcome, verification: &Verification, validated: bool, ok: bool) -> String {
    json!({
        "ok": ok,
        "device": lowered.device,
        "validated": validated,
        "compared_with": verification.compared_with,
        "not_compared": verification.not_compared,
        "messages": lowered.messages,
        "faults": lowered.faults,
        "differences": verification.differences.iter().map(|(with, found)| {
            json!({ "with": with, "difference": difference(found) })
        }).collect::<Vec<_>>(),
        "report": verification.report,
    })
    .to_string()
}

/// What went wrong, in place of a result.
pub(super) fn failure(failure: &Failure) -> String {
    let kind = match failure {
        Failure::File(_) => "file",
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
        Error::NoSuchDevice { .. } => "no-such-device",
        Error::Case(_) => "case",
        Error::Module(_) => "module",
        Error::Unsupported { .. } => "unsupported",
        Error::Vulkan { .. } => "vulkan",
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
        "places": places.collect::<Vec<_>>(),
        "text": difference.to_string(),
    })
}

/// JSON has no NaN, no infinity and no 128-bit integers: those are strings.
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
