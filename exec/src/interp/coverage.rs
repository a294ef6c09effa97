//! The sets of invocations that executed each instruction together.

use super::registers::Mask;
use coop_ir::InstRef;

/// The sets of invocations of a workgroup that executed each instruction. Instructions that do nothing when executed,
/// such as phis, are left out.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Coverage {
    /// Indexed by [`InstRef::index`].
    sets: Vec<Vec<Mask>>,
}

impl Coverage {
    pub(super) fn new(instructions: usize) -> Coverage {
        Coverage { sets: vec![Vec::new(); instructions] }
    }

    pub(super) fn add(&mut self, at: InstRef, by: &Mask) {
        if let Some(sets) = self.sets.get_mut(at.index())
            && !sets.contains(by)
        {
            sets.push(*by);
        }
    }

    fn sets(&self, at: InstRef) -> &[Mask] {
        self.sets.get(at.index()).map_or(&[], |s| s)
    }

    /// Returns true if an invocation of some workgroup executed an instruction.
    pub fn executed(&self, at: InstRef, by: usize) -> bool {
        self.sets(at).iter().any(|s| s.has(by))
    }

    /// Returns true if one invocation executed an instruction when another one of its workgroup did not.
    pub fn apart(&self, at: InstRef, one: usize, other: usize) -> bool {
        self.sets(at).iter().any(|s| s.has(one) && !s.has(other))
    }

    /// Returns true if two invocations of a workgroup executed an instruction together.
    pub fn together(&self, at: InstRef, one: usize, other: usize) -> bool {
        self.sets(at).iter().any(|s| s.has(one) && s.has(other))
    }
}
