//! How far outputs of a module may be from each other on implementations that are all right: derived, not guessed.
//!
//! The reference interpreter runs the module once and follows how far every value may be from what another implementation
//! computes (`interp/spread.rs` says from what, and how). What is not touched by an inexact operation is the same everywhere: moves,
//! integers, clamps, exact conversions, sums of small integers.

use coop_ir::Module;

use crate::Case;
use crate::error::Error;
use crate::interp::{Config, Distance, Interpreted, MulAddMode};

/// How far each output may be from the interpreter's.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bounds {
    /// By buffer, in the order of the case.
    buffers: Vec<Vec<Distance>>,
    /// Why no bound can be had.
    void: Option<String>,
}

impl Bounds {
    /// Runs the module. What can't be run has no bounds, and says why.
    pub fn derive(module: &Module, case: &Case, config: Config) -> Bounds {
        let interpreter = Interpreted { config: Config { spread: true, mul_add: MulAddMode::Exact, ..config } };
        match interpreter.run_module(module, case).map(|(_, report)| report) {
            Ok(report) if report.is_undefined() => Bounds::void("its behaviour is undefined"),
            Ok(report) => match report.spread {
                Some(spread) => Bounds { buffers: spread.buffers, void: spread.depends.map(|(_, why)| why) },
                None => Bounds::void("the interpreter has not looked"),
            },
            Err(error @ (Error::Unsupported { .. } | Error::Case(_) | Error::Module(_))) => {
                Bounds::void(&error.to_string())
            }
            Err(error) => Bounds::void(&error.to_string()),
        }
    }

    fn void(why: &str) -> Bounds {
        Bounds { buffers: Vec::new(), void: Some(why.into()) }
    }

    /// Why there are none, if there are none.
    pub fn why_not(&self) -> Option<&str> {
        self.void.as_deref()
    }

    /// How far two runs may be apart in an element of a buffer; `sides` is 1 if one of them is the interpreter's, else 2. Infinite:
    /// anything is right. NaN: no bound is known.
    pub(crate) fn allowed(&self, buffer: usize, offset: usize, size: usize, sides: u8) -> f64 {
        let Some(list) = self.buffers.get(buffer).filter(|_| self.void.is_none()) else { return 0.0 };
        let from = list.partition_point(|d| d.offset + usize::from(d.bytes) <= offset);
        let mut touching = list[from..].iter().take_while(|d| d.offset < offset + size);
        match (touching.next(), touching.next()) {
            (None, _) => 0.0,
            (Some(d), None) if d.offset == offset && usize::from(d.bytes) == size => d.by * f64::from(sides),
            // Numbers of another size were stored here: nothing is known about the element as the case has it.
            _ => f64::NAN,
        }
    }
}
