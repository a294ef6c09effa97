//! Places in memory: what access chains point to.

use super::layout::{Layout, Placed};
use coop_ir::types::Type;
use coop_ir::{Id, Module};

/// A place in a variable that becomes words: `variable[descriptor]`, and bytes from its beginning.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The variable.
    pub(super) variable: Id,
    /// The index of the descriptor.
    pub(super) descriptor: Option<Id>,
    /// True while the next index is that of a descriptor.
    of_descriptors: bool,
    /// The number of bytes that is known.
    pub(super) constant: u32,
    /// Indices, with the bytes that each counts.
    pub(super) terms: Vec<(Id, u32)>,
    /// The type at the place; its offset is 0.
    pub(super) at: Placed,
    /// True if the descriptor differs between invocations.
    pub(super) non_uniform: bool,
}

impl Place {
    /// Returns the place of a variable.
    pub(super) fn new(m: &Module, variable: Id, of_descriptors: bool, block: Id) -> Place {
        debug_assert!(m.def(variable).is_some());
        Place {
            variable,
            descriptor: None,
            of_descriptors,
            constant: 0,
            terms: Vec::new(),
            at: Placed { ty: block, offset: 0, matrices: None },
            non_uniform: false,
        }
    }

    /// Returns true if the place is a block, and not an array of descriptors.
    pub(super) fn is_in_block(&self) -> bool {
        !self.of_descriptors
    }

    /// Goes to the part that an index of an access chain selects.
    pub(super) fn step(&mut self, m: &Module, layout: &Layout, index: Id) -> Result<(), String> {
        if self.of_descriptors {
            (self.of_descriptors, self.descriptor) = (false, Some(index));
            return Ok(());
        }
        if let Some(Type::Struct { members }) = Type::of(m, self.at.ty) {
            let member = layout.fixed(index).ok_or("the member of a struct is not a known constant")?;
            let inner = layout.member(self.at.ty, &members, member)?;
            self.constant = self.constant.checked_add(inner.offset).ok_or("an offset is too large")?;
            self.at = Placed { offset: 0, ..inner };
            return Ok(());
        }
        let (inner, stride) = layout.element(m, self.at)?;
        self.skip(m, layout, index, stride);
        self.at = inner;
        Ok(())
    }

    /// Goes on by as many elements as an index counts.
    pub(super) fn skip(&mut self, m: &Module, layout: &Layout, index: Id, stride: u32) {
        match layout.index(m, index).and_then(|n| n.checked_mul(stride)?.checked_add(self.constant)) {
            Some(constant) => self.constant = constant,
            None => self.terms.push((index, stride)),
        }
    }
}
