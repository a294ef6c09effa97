//! Places in memory: what access chains point to.

use super::layout::{Layout, Placed};
use coop_ir::spv::Decoration;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op};

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
    /// The largest power of two, up to 4, that is known to divide the bytes of each term.
    pub(super) unit: u32,
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
            unit: 4,
            at: Placed { ty: block, offset: 0, matrices: None },
            non_uniform: false,
        }
    }

    /// Returns true if the place is a block, and not an array of descriptors.
    pub(super) fn is_in_block(&self) -> bool {
        !self.of_descriptors
    }

    /// Goes from the place of the base of an access chain to the one that its indices select.
    pub(super) fn follow(&mut self, m: &Module, layout: &Layout, i: &Inst) -> Result<(), String> {
        let Some(chain) = i.access_chain() else { return Ok(()) };
        let mut indices = i.ids_from(chain.first);
        if i.op.is_element_chain()
            && let Some(element) = indices.next()
        {
            let stride = m.type_of(chain.base).and_then(|ty| layout.decorations.value(ty, Decoration::ArrayStride));
            let stride = stride
                .ok_or_else(|| format!("the type of the pointer that {} starts from has no ArrayStride", i.op))?;
            if !self.is_in_block() {
                return Err(format!("{} counts descriptors", i.op));
            }
            self.skip(m, layout, element, stride);
        }
        indices.try_for_each(|index| self.step(m, layout, index))
    }

    /// Goes to the part that an index of an access chain selects.
    fn step(&mut self, m: &Module, layout: &Layout, index: Id) -> Result<(), String> {
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
    fn skip(&mut self, m: &Module, layout: &Layout, index: Id, stride: u32) {
        match layout.index(m, index).and_then(|n| n.checked_mul(stride)?.checked_add(self.constant)) {
            Some(constant) => self.constant = constant,
            None => self.add(index, stride, multiple(m, layout, index, 8)),
        }
    }

    /// Adds the bytes that an index counts, a multiple of a power of two.
    pub(super) fn add(&mut self, index: Id, bytes: u32, multiple: u32) {
        self.unit = self.unit.min(power(bytes.wrapping_mul(multiple)));
        self.terms.push((index, bytes));
    }
}

/// Returns the largest power of two, up to 4, that divides a number.
fn power(n: u32) -> u32 {
    1 << n.trailing_zeros().min(2)
}

/// Returns a power of two, up to 4, that is known to divide an index, however it wraps.
fn multiple(m: &Module, layout: &Layout, id: Id, depth: u32) -> u32 {
    if let Some(n) = layout.fixed(id) {
        return power(n);
    }
    let Some(i) = m.def_inst(id).filter(|_| depth > 0) else { return 1 };
    let mut ids = i.ids();
    let (first, second) = (ids.next(), ids.next());
    let of = |id: Option<Id>| id.map_or(1, |id| multiple(m, layout, id, depth - 1));
    match i.op {
        Op::IMul => power(of(first) * of(second)),
        Op::IAdd | Op::ISub => of(first).min(of(second)),
        Op::BitwiseAnd => of(first).max(of(second)),
        Op::ShiftLeftLogical => {
            second.and_then(|by| layout.fixed(by)).map_or(of(first), |by| power(of(first) << by.min(2)))
        }
        Op::CopyObject | Op::SConvert | Op::UConvert | Op::SNegate => of(first),
        _ => 1,
    }
}
