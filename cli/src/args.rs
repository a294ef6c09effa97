//! Groups of options that the tools share. Each tool flattens those that it supports into its own command line.

use crate::io::{self, FileError};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use coop_device::{Limits, Profile};
use coop_ir::constant::{SpecValue, Specialization, parse_spec_id};
use coop_passes::Target;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The use of colors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Returns true if standard output gets colors.
    pub fn on_stdout(self) -> bool {
        self.on(&std::io::stdout())
    }

    /// Returns true if standard error gets colors.
    pub fn on_stderr(self) -> bool {
        self.on(&std::io::stderr())
    }

    fn on(self, stream: &impl IsTerminal) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
                !refused && !dumb && stream.is_terminal()
            }
        }
    }
}

/// The verbosity and the style of output.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputStyle {
    /// When to use colors; NO_COLOR is respected
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: Color,
    /// Say more; may be repeated
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Say less; may be repeated
    #[arg(short, long, action = clap::ArgAction::Count, global = true, conflicts_with = "verbose")]
    pub quiet: u8,
}

/// Values for specialization constants.
#[derive(Clone, Debug, Default, Args)]
pub struct SpecArgs {
    /// Give a specialization constant a value: decimal, hexadecimal, float, true or false; may be repeated
    #[arg(long = "spec", value_name = "ID=VALUE", value_parser = parse_spec)]
    pub spec: Vec<(u32, SpecValue)>,
    /// Read values of specialization constants from a file: one ID=VALUE on each line, # begins a comment; --spec
    /// overrides them
    #[arg(long, value_name = "FILE")]
    pub spec_file: Option<PathBuf>,
}

impl SpecArgs {
    /// Returns all values together.
    pub fn specialization(&self) -> Result<Specialization, FileError> {
        let mut all = Specialization::new();
        if let Some(path) = &self.spec_file {
            for (id, value) in read_spec_file(path)? {
                all.set(id, value);
            }
        }
        let mut given = BTreeSet::new();
        for (id, value) in &self.spec {
            if !given.insert(*id) {
                let message = format!("SpecId {id} is given twice");
                return Err(FileError { name: "--spec".into(), message });
            }
            all.set(*id, *value);
        }
        Ok(all)
    }
}

/// Parses `ID=VALUE`.
fn parse_spec(text: &str) -> Result<(u32, SpecValue), String> {
    let (id, value) = text.split_once('=').ok_or("it must be ID=VALUE")?;
    let (id, value) = (id.trim(), value.trim());
    let id = parse_spec_id(id).ok_or_else(|| format!("'{id}' is not a SpecId"))?;
    let value = SpecValue::parse(value)
        .ok_or_else(|| format!("'{value}' is not a number (12, -3, 0x10, 1.5), true or false"))?;
    Ok((id, value))
}

fn read_spec_file(path: &Path) -> Result<Vec<(u32, SpecValue)>, FileError> {
    let text = io::read_text(path)?;
    let mut out: Vec<(u32, SpecValue)> = Vec::new();
    let mut given = BTreeMap::new();
    for (line, n) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let twice = |id, first| format!("SpecId {id} is given twice, first in line {first}");
        let pair = parse_spec(line).and_then(|pair| match given.insert(pair.0, n) {
            None => Ok(pair),
            Some(first) => Err(twice(pair.0, first)),
        });
        match pair {
            Ok(pair) => out.push(pair),
            Err(message) => {
                return Err(FileError { name: format!("{}:{n}", io::display_name(path)), message });
            }
        }
    }
    Ok(out)
}

/// The choice of the device.
#[derive(Clone, Debug, Default, Args)]
pub struct ProfileArgs {
    /// A device profile: a built-in name, or a file that `cooprun profile` wrote
    #[arg(long, value_name = "NAME|FILE.json", conflicts_with = "device")]
    pub profile: Option<String>,
    /// Read the profile from this machine's Vulkan device of that number or name
    #[arg(long, value_name = "N|NAME")]
    pub device: Option<String>,
    /// The subgroup size that the pipeline requires; without it the profile's is assumed, with a warning where it matters
    #[arg(long, value_name = "N", value_parser = parse_subgroup_size)]
    pub subgroup_size: Option<u32>,
    /// List the built-in profiles
    #[arg(long)]
    pub list_profiles: bool,
}

/// Returns a parser of whole numbers from `least` to `most`.
pub fn whole<T: TryFrom<u64> + Clone + Send + Sync>(least: u64, most: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(least..=most)
}

/// The largest number of threads or processes that share work.
pub const MOST_JOBS: u64 = 1024;

/// The largest number of dispatches to measure.
pub const MOST_BENCH: u64 = 100_000;

/// The largest number of seconds that an option takes: a hundred years.
pub const MOST_SECONDS: u64 = 3_200_000_000;

/// The largest number of bytes of entropy for a generated module.
pub const MOST_ENTROPY: u64 = 1 << 20;

pub(crate) fn parse_subgroup_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if n.is_power_of_two() && n <= Limits::MAX_SUBGROUP_SIZE => Ok(n),
        _ => Err(format!("a subgroup has 1, 2, 4, ... or {} invocations", Limits::MAX_SUBGROUP_SIZE)),
    }
}

impl ProfileArgs {
    /// Returns the built-in profiles, one on each line.
    pub fn list() -> String {
        let line = |name: &str| {
            let p = Profile::builtin(name)?;
            Some(format!("{name:<24} {}, {} {} ({})\n", p.device, p.driver, p.driver_info, p.origin))
        };
        Profile::builtin_names().filter_map(line).collect()
    }

    /// Returns the profile of `--profile`, if given. `check::device` reads that of `--device`.
    pub fn named(&self) -> Result<Option<Profile>, FileError> {
        let Some(name) = &self.profile else { return Ok(None) };
        if let Some(profile) = Profile::builtin(name) {
            return Ok(Some(profile));
        }
        let path = Path::new(name);
        if !path.exists() && path.extension().is_none() {
            let known: Vec<_> = Profile::builtin_names().collect();
            let message = format!("no built-in profile and no file; built in are {}", known.join(", "));
            return Err(FileError { name: name.clone(), message });
        }
        let text = io::read_text(path)?;
        match Profile::from_json(&text) {
            Ok(profile) => Ok(Some(profile)),
            Err(e) => Err(FileError { name: name.clone(), message: e.to_string() }),
        }
    }
}

/// The cooperative matrices that the output may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum TargetArg {
    /// No cooperative matrices at all
    #[default]
    Scalar,
    /// Matrices of SPV_KHR_cooperative_matrix at subgroup scope, of the shapes and types that the profile lists
    Khr,
    /// As khr, and the operations of SPV_EXT_cooperative_matrix_maintenance1 that the profile supports
    Ext,
    /// The best of these that the profile and the module allow
    Auto,
}

impl From<TargetArg> for Target {
    fn from(target: TargetArg) -> Target {
        match target {
            TargetArg::Scalar => Target::Scalar,
            TargetArg::Khr => Target::Khr,
            TargetArg::Ext => Target::Ext,
            TargetArg::Auto => Target::Auto,
        }
    }
}

/// The choice of the entry point.
#[derive(Clone, Debug, Default, Args)]
pub struct EntryArgs {
    /// The entry point, where a module has several
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_values_of_every_kind() {
        assert_eq!(parse_spec("3=16"), Ok((3, SpecValue::Int(16))));
        assert_eq!(parse_spec("3 = -1"), Ok((3, SpecValue::Int(-1))));
        assert_eq!(parse_spec("0=0x10"), Ok((0, SpecValue::Hex(16))));
        assert_eq!(parse_spec("0=1.5"), Ok((0, SpecValue::Float(1.5))));
        assert_eq!(parse_spec("0=true"), Ok((0, SpecValue::Bool(true))));
        for bad in ["", "3", "=4", "x=4", "3=", "3=x", "-1=2", "+1=2", "1=0x+2", "1=+2", "1=1e999"] {
            assert!(parse_spec(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_given_once() {
        let twice = SpecArgs { spec: vec![(3, SpecValue::Int(1)), (3, SpecValue::Int(1))], spec_file: None };
        assert_eq!(twice.specialization().unwrap_err().to_string(), "--spec: SpecId 3 is given twice");
    }

    #[test]
    fn subgroup_sizes() {
        assert_eq!(parse_subgroup_size("32"), Ok(32));
        for bad in ["0", "3", "256", "x", "-8"] {
            assert!(parse_subgroup_size(bad).is_err(), "{bad}");
        }
    }
}
