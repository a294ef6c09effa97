//! The outcome for a device: the module as it is, a lowered one, or a refusal.

use crate::{Answer, Problem, Request, constants, read, subgroup_size};
use coop_ir::binary;
use coop_ir::text::{self, PrintOptions};
use coopmat::{Device, Lowered, Outcome, PipelineOptions, Prepared, Refused, Target};
use serde_json::{Value, json};

/// The device of a request.
pub(crate) fn device(request: &Request) -> Result<Device, Vec<Problem>> {
    let fail = |message: String| vec![Problem::new("device", message)];
    let name = request.device.as_deref().ok_or_else(|| fail("no device is named".into()))?;
    if name.trim_start().starts_with('{') {
        return Device::from_json(name).map_err(|error| fail(error.to_string()));
    }
    Device::builtin(name).ok_or_else(|| fail(format!("no built-in device is called '{name}'")))
}

fn target(request: &Request) -> Result<Target, Vec<Problem>> {
    match request.target.as_deref() {
        None | Some("auto") => Ok(Target::Auto),
        Some("khr") => Ok(Target::Khr),
        Some("scalar") => Ok(Target::Scalar),
        Some(other) => Err(vec![Problem::new("target", format!("'{other}' is not auto, khr or scalar"))]),
    }
}

/// Lowers a file for a device, as far as that is needed; for a target that is named, always.
pub(crate) fn lower(request: &Request, bytes: &[u8], with_text: bool) -> Result<Answer, Vec<Problem>> {
    let input = read(bytes)?;
    let device = device(request)?;
    let mut options = PipelineOptions::default();
    options.target = target(request)?;
    options.always_lower = options.target != Target::Auto;
    options.check_rules = true;
    options.required_subgroup_size = subgroup_size(request)?;
    options.specialization = constants::given(&input.module, &request.spec)?.pipeline;
    let words = binary::write_words(&input.module);
    let prepared = Prepared::read(&words).map_err(|error| vec![Problem::new("input", error.to_string())])?;
    Ok(match prepared.for_pipeline(&device, &options) {
        Outcome::Native => {
            Answer { json: json!({ "outcome": "native", "matrices": prepared.has_matrices() }), spirv: Vec::new() }
        }
        Outcome::Lowered(lowered) => {
            let mut json = lowered_json(&lowered, words.len());
            let mut spirv = Vec::new();
            if with_text {
                json["text"] = json!(printed(&lowered.words)?);
                spirv = lowered.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            }
            Answer { json, spirv }
        }
        Outcome::Refused(refused) => Answer { json: refused_json(&refused), spirv: Vec::new() },
    })
}

fn printed(words: &[u32]) -> Result<String, Vec<Problem>> {
    let module = binary::read_words(words).map_err(|error| vec![Problem::new("input", error.to_string())])?;
    Ok(text::print(&module, &PrintOptions::default()).text)
}

fn lowered_json(lowered: &Lowered, words: usize) -> Value {
    let needs = &lowered.requirements;
    json!({
        "outcome": "lowered",
        "target": match lowered.target {
            Target::Khr => "khr",
            Target::Scalar => "scalar",
            Target::Auto => "auto",
        },
        "because": lowered.because,
        "not_taken": lowered.not_taken,
        "warnings": lowered.warnings,
        "approximations": lowered.approximations,
        "words": { "before": words, "after": lowered.words.len() },
        "needs": {
            "subgroup_size": needs.subgroup_size,
            "full_subgroups": needs.full_subgroups,
            "shared_memory": needs.shared_memory,
            "capabilities": needs.capabilities,
            "extensions": needs.extensions,
        },
    })
}

fn refused_json(refused: &Refused) -> Value {
    let findings: Vec<String> = refused.findings.iter().map(ToString::to_string).collect();
    json!({
        "outcome": "refused",
        "rule": refused.rule,
        "message": refused.message,
        "remedy": refused.remedy,
        "findings": findings,
        "not_taken": refused.not_taken,
    })
}
