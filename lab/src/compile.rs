//! Attempts to make pipelines of modules on a driver's compiler, and the table of their ends.
//!
//! One attempt is a module, a target and a device: [`attempt`] asks the library what an engine is to do there and makes the
//! pipeline of that. A process that is at it may crash; who started it knows the attempt and enters its [`Fate`].

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use coop_exec::case::{Case, Number};
use coop_exec::error::Error;
use coop_exec::facts::Facts;
use coop_exec::vulkan::VulkanExecutor;
use coop_ir::{Module, binary};
use coopmat::{Device, Outcome, PipelineOptions, Prepared, Target};
use serde::{Deserialize, Serialize};

use crate::corpus::Use;

/// The targets, with their names.
pub const TARGETS: [(&str, Target); 3] = [("auto", Target::Auto), ("khr", Target::Khr), ("scalar", Target::Scalar)];

/// The end of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Fate {
    /// The driver made the pipeline of the module as it is.
    Native,
    /// The driver made the pipeline of the lowered module.
    Made,
    /// We refuse the module: by this rule, for this reason.
    Refused(String, String),
    /// The driver refuses what it was given.
    DriverRefused(String),
    /// The driver crashed.
    Crashed(String),
    /// The attempt went over a limit of time or memory.
    OverLimit(String),
    /// We gave out a module that the device does not take, or read or wrote one wrongly: a fault of ours.
    Ours(String),
}

impl Fate {
    /// Returns true if the module has a pipeline.
    pub fn is_made(&self) -> bool {
        matches!(self, Fate::Native | Fate::Made)
    }

    /// Returns true for what somebody has to look at.
    pub fn is_trouble(&self) -> bool {
        !self.is_made() && !matches!(self, Fate::Refused(..))
    }

    fn column(&self) -> usize {
        match self {
            Fate::Native => 0,
            Fate::Made => 1,
            Fate::Refused(..) => 2,
            Fate::DriverRefused(_) => 3,
            Fate::Crashed(_) => 4,
            Fate::OverLimit(_) => 5,
            Fate::Ours(_) => 6,
        }
    }
}

/// The columns of the table, in the order of [`Fate`].
const COLUMNS: [&str; 7] = ["native", "lowered", "refused", "by driver", "crashed", "over limit", "our fault"];

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Native => f.write_str("made as it is"),
            Fate::Made => f.write_str("made"),
            Fate::Refused(rule, message) => write!(f, "refused: {message} [{rule}]"),
            Fate::DriverRefused(message) => write!(f, "the driver refuses it: {message}"),
            Fate::Crashed(message) => write!(f, "the driver crashed: {message}"),
            Fate::OverLimit(message) => write!(f, "over a limit: {message}"),
            Fate::Ours(message) => write!(f, "a fault of ours: {message}"),
        }
    }
}

/// The words for the driver, with the case of their pipeline.
pub struct Given {
    /// The words.
    pub words: Vec<u32>,
    /// The case.
    pub case: Case,
    /// True if these are the words of the module itself.
    pub native: bool,
}

/// Asks the library what to give a driver.
pub fn give(used: &Use, device: &Device, target: Target) -> Result<Given, Fate> {
    let words = binary::write_words(&used.module);
    let ours = |error: &dyn fmt::Display| Fate::Ours(error.to_string());
    let prepared = Prepared::read(&words).map_err(|error| ours(&error))?;
    let mut options = PipelineOptions::default();
    options.specialization = specialization(&used.module, &used.case).map_err(|error| ours(&error))?;
    options.target = target;
    // Who asks for a target wants to know what is made for it.
    options.always_lower = target != Target::Auto;
    let sizes = device.profile().required_subgroup_sizes();
    options.required_subgroup_size = used.case.subgroup_size.filter(|size| sizes.contains(size));
    let mut case = Case {
        entry: used.case.entry.clone(),
        workgroups: [1; 3],
        spec: used.case.spec.clone(),
        subgroup_size: options.required_subgroup_size,
        ..Case::default()
    };
    match prepared.for_pipeline(device, &options) {
        Outcome::Native => {
            // The library leaves a module without matrices to its engine, whatever the device lacks.
            let lacking = lacking(used, device, options.required_subgroup_size).map_err(|error| ours(&error))?;
            if let Some(finding) = lacking {
                return Err(Fate::Refused("unsupported".to_owned(), finding));
            }
            case.full_subgroups = used.case.full_subgroups && device.can_require_subgroups();
            Ok(Given { words, case, native: true })
        }
        Outcome::Lowered(lowered) => {
            case.subgroup_size = lowered.requirements.subgroup_size;
            case.full_subgroups = lowered.requirements.full_subgroups;
            Ok(Given { words: lowered.words, case, native: false })
        }
        Outcome::Refused(refused) if refused.rule == "refused-internal" => Err(Fate::Ours(refused.to_string())),
        Outcome::Refused(refused) => Err(Fate::Refused(refused.rule.to_owned(), refused.message.clone())),
    }
}

/// Returns the first thing that the device lacks for a module as it is.
fn lacking(used: &Use, device: &Device, subgroup_size: Option<u32>) -> Result<Option<String>, Error> {
    let options = coop_passes::Options {
        spec: used.case.specialization()?,
        entry: used.case.entry.clone(),
        spec_defaults: true,
        ..coop_passes::Options::new(coop_passes::Target::Scalar)
    };
    let profile = Arc::new(device.profile().clone());
    let found = coopmat::fit::lacking(&used.module, &options, &profile, subgroup_size);
    Ok(found.first().map(|finding| format!("{} [{}]", finding.message, finding.rule.id)))
}

/// Makes the pipeline.
pub fn attempt(executor: &VulkanExecutor<'_>, given: &Given) -> Fate {
    match executor.compile(&given.words, &given.case, false) {
        Ok(compiled) => match compiled.messages.first() {
            Some(message) => Fate::Ours(message.clone()),
            None if given.native => Fate::Native,
            None => Fate::Made,
        },
        Err(error @ Error::Vulkan { .. }) => Fate::DriverRefused(error.to_string()),
        Err(error) => Fate::Ours(error.to_string()),
    }
}

/// Returns the values of a case as the bytes of the module's constants.
fn specialization(module: &Module, case: &Case) -> Result<coopmat::Specialization, Error> {
    let values = case.specialization()?;
    let mut bytes = coopmat::Specialization::default();
    for spec in Facts::new(module, &values).specs {
        let Some(value) = values.get(spec.spec_id) else { continue };
        let bits = value.bits(&spec.kind).map_err(|why| Error::case(format!("spec {}: {why}", spec.spec_id)))?;
        match spec.size() {
            1 => bytes.set_u8(spec.spec_id, bits as u8),
            2 => bytes.set_u16(spec.spec_id, bits as u16),
            4 => bytes.set_u32(spec.spec_id, bits as u32),
            _ => bytes.set_u64(spec.spec_id, bits),
        }
    }
    Ok(bytes)
}

/// The part of a case that a pipeline is made with.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PipelineCase<'a> {
    workgroups: [u32; 3],
    entry: Option<&'a str>,
    subgroup_size: Option<u32>,
    full_subgroups: bool,
    spec: &'a BTreeMap<String, Number>,
}

/// Returns the text of a case file for a module that was given to a driver.
pub fn case_text(case: &Case) -> String {
    let case = PipelineCase {
        workgroups: [1; 3],
        entry: case.entry.as_deref(),
        subgroup_size: case.subgroup_size,
        full_subgroups: case.full_subgroups,
        spec: &case.spec,
    };
    toml::to_string(&case).unwrap_or_else(|error| unreachable!("a table of plain values: {error}"))
}

/// The fates of attempts, by device and target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    rows: BTreeMap<String, BTreeMap<String, Row>>,
}

/// The fates on one device for one target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Row {
    counts: [u64; COLUMNS.len()],
    /// Refusals, by rule.
    rules: BTreeMap<String, u64>,
    /// Troubles, by module.
    troubles: BTreeMap<String, Fate>,
}

impl Tally {
    /// Enters the end of an attempt.
    pub fn enter(&mut self, device: &str, target: &str, module: &str, fate: Fate) {
        let row = self.rows.entry(device.to_owned()).or_default().entry(target.to_owned()).or_default();
        row.counts[fate.column()] += 1;
        if let Fate::Refused(rule, _) = &fate {
            *row.rules.entry(rule.clone()).or_default() += 1;
        }
        if fate.is_trouble() {
            row.troubles.insert(module.to_owned(), fate);
        }
    }

    /// Returns the troubles: device, target, module, fate.
    pub fn troubles(&self) -> impl Iterator<Item = (&str, &str, &str, &Fate)> {
        self.cells().flat_map(|(device, target, row)| {
            row.troubles.iter().map(move |(module, fate)| (device, target, module.as_str(), fate))
        })
    }

    /// Returns the number of attempts for which a pipeline was made.
    pub fn made(&self) -> u64 {
        self.cells().map(|(_, _, row)| row.counts[0] + row.counts[1]).sum()
    }

    /// Returns the devices.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &str, &Row)> {
        self.rows.iter().flat_map(|(device, targets)| {
            targets.iter().map(move |(target, row)| (device.as_str(), target.as_str(), row))
        })
    }

    /// Returns the table in Markdown, with the rules of refusals.
    pub fn table(&self) -> String {
        let mut text = format!("| device | target | {} | refused by |\n|---|---|", COLUMNS.join(" | "));
        text.push_str(&"---|".repeat(COLUMNS.len() + 1));
        text.push('\n');
        for (device, target, row) in self.cells() {
            let counts: Vec<String> =
                row.counts.iter().map(|n| if *n == 0 { String::new() } else { n.to_string() }).collect();
            let mut rules: Vec<(&String, &u64)> = row.rules.iter().collect();
            rules.sort_by_key(|(rule, count)| (std::cmp::Reverse(**count), rule.as_str()));
            let rules: Vec<String> =
                rules.iter().map(|(rule, n)| format!("{} {n}", rule.trim_start_matches("refused-"))).collect();
            let _ = writeln!(text, "| {device} | {target} | {} | {} |", counts.join(" | "), rules.join(", "));
        }
        text
    }
}
