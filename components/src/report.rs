//! The record of a lowering.

use coop_ir::hash::FxHashMap;
use coop_ir::{Id, Module, Op};
use std::fmt;

/// A type or memory that became software.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Software {
    /// A buffer, push constants or shared memory is accessed by words of 32 bits.
    Words {
        /// The storage class, the name and the binding of the variable, in words.
        variable: String,
        /// True if parts of words are written, which takes atomic operations.
        atomics: bool,
    },
    /// Arithmetic with a type.
    Arithmetic {
        /// The type: `f16`.
        narrow: String,
        /// The type that holds its values: `f32`.
        wide: String,
    },
    /// The memory model.
    MemoryModel,
    /// The version of SPIR-V.
    Version {
        /// Its major number.
        major: u8,
        /// Its minor number.
        minor: u8,
    },
}

impl fmt::Display for Software {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Software::Words { variable, atomics } => {
                let how = if *atomics { "; parts of words are written by atomic operations" } else { "" };
                write!(f, "{variable} is accessed by words of 32 bits{how}")
            }
            Software::Arithmetic { narrow, wide } => write!(f, "{narrow} is computed with {wide}"),
            Software::Version { major, minor } => write!(f, "the module is SPIR-V {major}.{minor}"),
            Software::MemoryModel => {
                f.write_str("memory that invocations share is coherent, without the Vulkan memory model")
            }
        }
    }
}

/// The record of a lowering.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// True if the module was changed.
    pub changed: bool,
    /// The types and memory that became software.
    pub software: Vec<Software>,
    /// True if the range of each buffer that is accessed by words has to be a multiple of 4 bytes.
    pub whole_words: bool,
    /// The instructions of the entry points before and after, those of a called function once for each call, those of a loop once.
    pub instructions: [u64; 2],
}

impl Report {
    /// Says how much more is executed, and so about how much slower the code is where memory takes little of the time.
    pub fn growth(&self) -> String {
        let [before, after] = self.instructions.map(|n| n.max(1) as f64);
        format!("slower by about {:.1}, by its instructions", after / before)
    }

    /// Returns the types and the memory that became software, in few words: `f16, s8, memory`. `None` if there are none.
    pub fn summary(&self) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        for software in &self.software {
            names.push(match software {
                Software::Words { .. } => "memory of narrow types",
                Software::Arithmetic { narrow, .. } => narrow,
                Software::MemoryModel => "the memory model",
                Software::Version { .. } => continue,
            });
        }
        names.sort_by_key(|name| name.contains(' '));
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Calls are followed so deep.
const DEEPEST: usize = 16;

/// Counts the instructions of entry points, those of a called function once for each call.
pub(crate) fn instructions(m: &Module) -> u64 {
    let mut counts: FxHashMap<Id, u64> = FxHashMap::default();
    for _ in 0..DEEPEST {
        let count = |f: &coop_ir::Function| {
            let of = |r| m.inst(r).callee().and_then(|callee| counts.get(&callee)).copied().unwrap_or(1);
            f.insts().map(of).fold(0, u64::saturating_add)
        };
        let next = m.functions.iter().filter_map(|f| Some((m.inst(f.def).result?, count(f)))).collect();
        if std::mem::replace(&mut counts, next) == counts {
            break;
        }
    }
    let entries = m.globals_with(Op::EntryPoint).filter_map(|r| m.inst(r).entry_function());
    entries.filter_map(|f| counts.get(&f)).copied().fold(0, u64::saturating_add)
}
