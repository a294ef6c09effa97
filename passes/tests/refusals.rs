//! Every reason for a refusal has a name, an explanation, and modules in `testdata/passes/refused` that are refused for it.
//!
//! A module `ID.spvasm` or `ID.NAME.spvasm` says in comments how it is lowered (`; target: khr`, `; profile: NAME`, `; lacks: FEATURE`,
//! `; subgroup-size: N`, `; lanes: local-index`, `; entry: NAME`, `; spec: ID=VALUE`,
//! `; most-instructions: N`), and in `; says: TEXT` what the refusal has to mention.

use coop_device::{Feature, Profile};
use coop_ir::constant::{SpecValue, Specialization};
use coop_passes::{Cause, Error, Lanes, Options, REFUSALS, Refusal, Target, lower};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn modules() -> Vec<(String, String)> {
    let files =
        std::fs::read_dir(folder("../testdata/passes/refused")).expect("the folder").flatten().map(|e| e.path());
    let mut out: Vec<(String, String)> = files
        .map(|p| {
            let name = p.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&p).unwrap_or_else(|e| panic!("{}: {e}", p.display())))
        })
        .collect();
    out.sort();
    out
}

/// Why a module is not lowered, and what its comments want to be said.
fn refusal(name: &str, text: &str) -> Result<(Refusal, Vec<String>), String> {
    let said = |key: &str| {
        let lines = text.lines().filter_map(|l| l.strip_prefix("; "));
        lines.filter_map(|l| l.strip_prefix(key)?.strip_prefix(": ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let one = |key: &str| said(key).pop();
    let target = match one("target").as_deref() {
        Some("scalar") => Target::Scalar,
        Some("khr") => Target::Khr,
        other => return Err(format!("{name}: target {}", other.unwrap_or("not said"))),
    };
    let mut profile = one("profile").map(|p| Profile::builtin(&p).expect("a profile"));
    for feature in said("lacks") {
        let feature = Feature::from_name(&feature).expect("a feature");
        profile.as_mut().expect("a profile").features.set(feature, false);
    }
    let mut spec = Specialization::new();
    for value in said("spec") {
        let (id, value) = value.split_once('=').expect("ID=VALUE");
        spec.set(id.parse().expect("an id"), SpecValue::parse(value).expect("a value"));
    }
    let options = Options {
        profile: profile.as_ref(),
        spec,
        subgroup_size: one("subgroup-size").map(|n| n.parse().expect("a number")),
        entry: one("entry"),
        most_instructions: one("most-instructions")
            .map_or(Options::MOST_INSTRUCTIONS, |n| n.parse().expect("a number")),
        lanes: if one("lanes").is_some() { Lanes::LocalIndex } else { Lanes::Subgroup },
        ..Options::new(target)
    };
    let module = coop_ir::text::parse(text).map_err(|e| format!("{name}: {e}"))?;
    match lower(&module, &options) {
        Ok(_) => Err(format!("{name}: lowered")),
        Err(Error::Refused(refusal)) => Ok((*refusal, said("says"))),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[test]
fn modules_are_refused_for_what_their_names_say() {
    let mut wrong = Vec::new();
    for (name, source) in modules() {
        let id = name.split('.').next().unwrap_or_default();
        match refusal(&name, &source) {
            Err(why) => wrong.push(why),
            Ok((refusal, _)) if refusal.rule != id => wrong.push(format!("{name}: {refusal}")),
            Ok((refusal, says)) => {
                let cause = match id {
                    "refused-shared-memory" => Cause::OutOfSharedMemory,
                    "refused-subgroup-size" => Cause::SubgroupSize,
                    _ => Cause::Other,
                };
                if refusal.cause != cause {
                    wrong.push(format!("{name}: the cause is {:?}", refusal.cause));
                }
                let text = refusal.to_string();
                wrong
                    .extend(says.iter().filter(|s| !text.contains(*s)).map(|s| format!("{name}: no '{s}' in: {text}")));
                let named = refusal.reason.split(' ').filter(|word| word.starts_with("OpCooperativeMatrix"));
                wrong.extend(
                    named.filter(|op| !source.contains(*op)).map(|op| format!("{name}: it has no {op}: {text}")),
                );
                if refusal.reason.is_empty() || refusal.remedy.is_empty() {
                    wrong.push(format!("{name}: no reason or remedy"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The ids that the passes' sources mention.
fn mentioned(folder: &Path, out: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            mentioned(&path, out);
        } else if path.file_name().is_some_and(|n| n != "refusals.rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            for part in text.split('"').filter(|p| p.starts_with("refused-") && p.len() > "refused-".len()) {
                out.insert(part.to_owned());
            }
        }
    }
}

#[test]
fn every_reason_is_explained_and_has_a_module() {
    let mut ids = BTreeSet::new();
    mentioned(&folder("src"), &mut ids);
    let explained: BTreeSet<String> = REFUSALS.iter().map(|r| r.id.to_owned()).collect();
    assert_eq!(ids, explained, "what the sources mention, and what is explained");
    assert!(REFUSALS.is_sorted_by_key(|r| r.id), "by id");
    let tested: BTreeSet<String> =
        modules().iter().map(|(name, _)| name.split('.').next().unwrap_or_default().to_owned()).collect();
    // Those for kernels have a test of their own.
    let here: BTreeSet<String> = explained.into_iter().filter(|id| !id.starts_with("refused-vulkan-")).collect();
    assert_eq!(tested, here, "what has a module, and what is explained");
    for r in REFUSALS {
        let sentence = |s: &str| s.ends_with('.') && s.starts_with(|c: char| c.is_uppercase());
        assert!(!r.summary.is_empty() && sentence(r.why) && sentence(r.remedy), "{}", r.id);
    }
}
