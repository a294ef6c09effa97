//! The checker and the lowerings for a page in a browser.
//!
//! [`answer`] takes a [`Request`] and the bytes of a file, SPIR-V words or assembly text, and returns JSON. [`abi`] is the same
//! for JavaScript. Nothing here reads files, clocks or the network.

pub mod abi;
mod check;
mod constants;
mod listing;
mod lower;

use coop_device::Profile;
use coop_ir::cfg::Cfgs;
use coop_ir::text::{self, Parsed};
use coop_ir::{Module, binary, verify};
use listing::Positions;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A request of the page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The subject.
    pub what: What,
    /// The name of a built-in profile, or the JSON of another one.
    #[serde(default)]
    pub device: Option<String>,
    /// The subgroup size that the pipeline requires, as text.
    #[serde(default)]
    pub subgroup_size: Option<String>,
    /// The target of a lowering: `auto`, `khr` or `scalar`.
    #[serde(default)]
    pub target: Option<String>,
    /// Values of specialization constants, by SpecId, as `--spec` takes them.
    #[serde(default)]
    pub spec: BTreeMap<String, String>,
}

/// The subject of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The findings.
    #[default]
    Check,
    /// The outcome for a device, with the lowered text.
    Lower,
    /// The outcome for a device, without the text: a row of the table of devices.
    Row,
    /// The list of devices; the file is not looked at.
    Devices,
}

/// An answer: JSON, and the words of a lowered module, as bytes.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The answer.
    pub json: Value,
    /// The lowered module; empty where there is none.
    pub spirv: Vec<u8>,
}

/// A problem of the input: `field` says where, a request's field or `input`.
#[derive(Clone, Debug)]
struct Problem {
    field: &'static str,
    message: String,
    /// The span in the text, in units of UTF-16, and the line.
    place: Option<(std::ops::Range<usize>, usize)>,
}

impl Problem {
    fn new(field: &'static str, message: impl Into<String>) -> Problem {
        Problem { field, message: message.into(), place: None }
    }

    fn json(&self) -> Value {
        let (span, line) = self.place.clone().unzip();
        let (from, to) = span.map(|s| (s.start, s.end)).unzip();
        json!({ "field": self.field, "message": self.message, "from": from, "to": to, "line": line })
    }
}

/// Returns the answer to a request about a file. Bad input is an answer with `problems`.
pub fn answer(request: &Request, input: &[u8]) -> Answer {
    let done = match request.what {
        What::Devices => Ok(Answer { json: devices(), spirv: Vec::new() }),
        What::Check => check::check(request, input),
        What::Lower => lower::lower(request, input, true),
        What::Row => lower::lower(request, input, false),
    };
    done.unwrap_or_else(|problems| {
        let problems: Vec<Value> = problems.iter().map(Problem::json).collect();
        Answer { json: json!({ "problems": problems }), spirv: Vec::new() }
    })
}

/// Returns the built-in profiles, with what a table says of them.
fn devices() -> Value {
    let all = Profile::builtin_names().filter_map(Profile::builtin).map(|profile| {
        json!({
            "name": profile.name,
            "device": profile.device,
            "driver": profile.driver,
            "origin": profile.origin.to_string(),
            "subgroup": profile.limits.subgroup_size,
            "matrices": profile.khr_properties.len(),
            "flexible": profile.flexible_properties.len(),
        })
    });
    json!({ "version": coopmat::VERSION, "devices": all.collect::<Vec<_>>() })
}

/// Returns the subgroup size of a request.
fn subgroup_size(request: &Request) -> Result<Option<u32>, Vec<Problem>> {
    let Some(text) = &request.subgroup_size else { return Ok(None) };
    let size: Option<u32> = text.parse().ok().filter(|n: &u32| n.is_power_of_two() && *n <= 128);
    let fail =
        || vec![Problem::new("subgroup_size", format!("the subgroup size '{text}' is not a power of two up to 128"))];
    size.map(Some).ok_or_else(fail)
}

/// A module as the page's user gave it.
struct Input<'a> {
    module: Module,
    /// The text, where that is what was given, with the places of its instructions.
    written: Option<(&'a str, Parsed)>,
    cfgs: Cfgs,
}

/// Reads words or text.
fn read(bytes: &[u8]) -> Result<Input<'_>, Vec<Problem>> {
    let fail = |message: String| Err(vec![Problem::new("input", message)]);
    let (module, written) = if binary::is_binary(bytes) {
        match binary::read(bytes) {
            Ok(module) => (module, None),
            Err(error) => return fail(error.to_string()),
        }
    } else {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return fail("neither SPIR-V words, which begin with 0x07230203, nor assembly text".into());
        };
        match text::parse_with_places(text) {
            Ok(parsed) => (parsed.module.clone(), Some((text, parsed))),
            Err(error) => {
                let positions = Positions::new(text);
                let place = Some((positions.span(&error.span), error.line));
                return Err(vec![Problem { field: "input", message: error.message, place }]);
            }
        }
    };
    let cfgs = well_formed(&module, written.as_ref())?;
    Ok(Input { module, written, cfgs })
}

/// Returns the graphs of a module's functions, or why it makes no sense. The agreement of types is left to rules.
fn well_formed(module: &Module, written: Option<&(&str, Parsed)>) -> Result<Cfgs, Vec<Problem>> {
    /// The most reasons that anybody reads.
    const MOST: usize = 10;
    let verified = match written {
        None => verify::verify_read(module),
        Some(_) => verify::verify(module).map(|()| Cfgs::default()),
    };
    let problems = match verified {
        Ok(cfgs) => return Ok(cfgs),
        Err(problems) => problems,
    };
    let positions = written.map(|(text, _)| Positions::new(text));
    let place = |at| {
        let (_, parsed) = written?;
        Some((positions.as_ref()?.span(&parsed.span(at)?), parsed.line(at)?))
    };
    let mut seen = BTreeSet::new();
    let about_form = problems.into_iter().filter(|p| !p.is_about_types() && seen.insert(p.message.clone())).take(MOST);
    let problems: Vec<Problem> =
        about_form.map(|p| Problem { field: "input", place: p.inst.and_then(place), message: p.message }).collect();
    if problems.is_empty() { Ok(Cfgs::default()) } else { Err(problems) }
}
