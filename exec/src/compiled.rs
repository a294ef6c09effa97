//! A pipeline as the driver that made it describes it.
//!
//! Names, descriptions and units are the driver's own (VK_KHR_pipeline_executable_properties): nothing here knows one of
//! them, but for the instruction sets of [`crate::isa`]. Values compare between pipelines of one driver only.

use std::time::Duration;

use coop_ir::Module;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::error::Error;
use crate::interp::{Config, Interpreted, LoopCounts};
use crate::isa::Listing;

/// A compute pipeline as the driver describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compiled {
    /// The name of the device.
    pub device: String,
    /// The driver with its version.
    pub driver: String,
    /// The time that vkCreateComputePipelines took.
    pub time: Duration,
    /// The executables of the pipeline. `None` if the device lacks VK_KHR_pipeline_executable_properties.
    pub executables: Option<Vec<Executable>>,
    /// The messages of the validation layer.
    pub messages: Vec<String>,
}

/// One program of a pipeline for the device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Executable {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The subgroup size that it runs with; 0 where the driver does not say.
    pub subgroup_size: u32,
    /// Its statistics, in the driver's order.
    pub statistics: Vec<Statistic>,
    /// Its texts at the stages of compilation, in the driver's order.
    pub texts: Vec<Text>,
}

impl Executable {
    /// Returns the statistic with a name.
    pub fn statistic(&self, name: &str) -> Option<Value> {
        self.statistics.iter().find(|s| s.name == name).map(|s| s.value)
    }

    /// Returns the last of the texts in the language of a known processor.
    pub fn listing(&self) -> Option<Listing> {
        self.texts.iter().rev().find_map(|text| Listing::read(text.text.as_deref()?))
    }

    /// Counts how often the loops of its module run in a case, with the subgroups that the driver chose. The interpreter may take
    /// so long.
    pub fn loop_counts(&self, module: &Module, case: &Case, limit: Duration) -> Result<LoopCounts, Error> {
        let config = Config { subgroup_size: self.subgroup_size.max(1), ..Config::default() };
        let case = Case { subgroup_size: None, ..case.clone() };
        Interpreted { config }.within(limit).loop_counts(module, &case)
    }
}

/// One number about an executable.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Statistic {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The value.
    pub value: Value,
}

/// The value of a statistic, of one of the types that Vulkan has for it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// A Boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
}

impl Value {
    /// Returns the number, with a Boolean as 0 or 1.
    pub fn number(self) -> f64 {
        match self {
            Value::Bool(value) => f64::from(u8::from(value)),
            Value::Int(value) => value as f64,
            Value::Uint(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(value) => f.write_str(if *value { "yes" } else { "no" }),
            Value::Int(value) => value.fmt(f),
            Value::Uint(value) => value.fmt(f),
            Value::Float(value) => write!(f, "{value:.3}"),
        }
    }
}

/// An executable at one stage of its compilation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Text {
    /// The name of the stage.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The text. `None` for a stage that is not text.
    pub text: Option<String>,
}
