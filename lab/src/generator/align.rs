//! The alignment of loads and stores: that of the specifications, or only that of the component type.
//!
//! The specifications leave the second undefined. Engines rely on it, and drivers give what they expect: every lowering
//! must too.

use super::emit::Gen;
use super::{Limits, entropy::Echo};
use coop_ir::types::Scalar;

/// The rules that require an alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// Pointer and Stride of loads and stores: 16 bytes, or the bytes of a row (or column) where they are less.
    Plain,
    /// Pointer of tensor loads and stores: 16 bytes.
    Tensor,
}

pub(super) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Gen<'_> {
    /// Decides whether some accesses of the module break the rules of alignment.
    pub(super) fn choose_alignment(&mut self) {
        self.unaligned = self.e.echo().chance(100);
    }

    /// Chooses how far an access is aligned. `Some`: as its numbers alone, with what else there is to choose.
    pub(super) fn unaligned(&mut self, rule: Rule) -> Option<Echo> {
        // Whether NVIDIA's driver has plain accesses of such addresses is not known; it has tensor accesses.
        if !self.unaligned || rule == Rule::Plain && self.profile.limits == Limits::Nvidia {
            return None;
        }
        let mut echo = self.e.echo();
        echo.chance(180).then(|| {
            self.note(if rule == Rule::Plain { "unaligned load or store" } else { "unaligned tensor access" });
            echo
        })
    }

    /// Returns the alignment of a tensor's offsets in units: units of 16 bytes, or of a number.
    pub(super) fn tensor_step(&mut self, component: Scalar, unit_bytes: u32) -> u32 {
        match self.unaligned(Rule::Tensor) {
            Some(_) => component.bytes() / gcd(component.bytes(), unit_bytes),
            None => 16 / (1 << unit_bytes.trailing_zeros().min(4)),
        }
    }

    /// Returns the number of steps between an output and the one before it, where steps are less than 16 bytes.
    pub(super) fn unaligned_gap(&mut self, step_bytes: u32) -> u32 {
        if !self.unaligned || step_bytes.is_multiple_of(16) { 0 } else { self.e.echo().below(7) }
    }
}
