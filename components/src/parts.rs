//! The numbers and the types that a type is made of.
//!
//! No question is answered by recursion, and none is answered twice where it may be asked of many types: a module may have a chain of
//! structs as long as it is itself, each in the next.

use coop_ir::hash::FxHashMap;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, IdSet, Module};

/// Tells parts of some kind.
type Tells<'a> = dyn Fn(&Module, Id) -> bool + 'a;

/// The types that have a part of some kind. What pointers in them point to is no part.
///
/// Invariant: a type that was asked for is looked at once, and so is each of its parts; no answer changes, whatever becomes of the types.
pub(crate) struct MadeOf<'a> {
    /// Tells the parts.
    is: Box<Tells<'a>>,
    known: FxHashMap<Id, bool>,
}

impl<'a> MadeOf<'a> {
    /// For parts that a predicate tells.
    pub(crate) fn parts(is: impl Fn(&Module, Id) -> bool + 'a) -> MadeOf<'a> {
        MadeOf { is: Box::new(is), known: FxHashMap::default() }
    }

    /// For numbers that a predicate tells.
    pub(crate) fn numbers(is: impl Fn(&Module, Scalar) -> bool + 'a) -> MadeOf<'a> {
        MadeOf::parts(move |m, part| m.def_inst(part).and_then(Scalar::of_inst).is_some_and(|s| is(m, s)))
    }

    /// Returns true if a type has such a part, or is one.
    pub(crate) fn any(&mut self, m: &Module, ty: Id) -> bool {
        // A type is answered for behind its parts.
        let mut work = vec![(ty, false)];
        while let Some((ty, parts_are_known)) = work.pop() {
            if parts_are_known {
                let any = elements(m, ty).iter().any(|part| self.known.get(part) == Some(&true));
                self.known.entry(ty).and_modify(|known| *known |= any);
            } else if !self.known.contains_key(&ty) {
                let is = (self.is)(m, ty);
                self.known.insert(ty, is);
                if !is {
                    work.push((ty, true));
                    work.extend(elements(m, ty).into_iter().map(|part| (part, false)));
                }
            }
        }
        self.known.get(&ty) == Some(&true)
    }
}

/// Returns types and all that they are made of, each once.
pub(crate) fn parts(m: &Module, types: impl IntoIterator<Item = Id>) -> Vec<Id> {
    let (mut seen, mut out) = (IdSet::default(), Vec::new());
    let mut work: Vec<Id> = types.into_iter().collect();
    while let Some(ty) = work.pop() {
        if seen.insert(ty) {
            out.push(ty);
            work.extend(elements(m, ty));
        }
    }
    out
}

/// Returns the types that a type is made of.
fn elements(m: &Module, ty: Id) -> Vec<Id> {
    match Type::of(m, ty) {
        Some(Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. }) => vec![elem],
        Some(Type::Matrix { column, .. }) => vec![column],
        Some(Type::Struct { members }) => members,
        _ => Vec::new(),
    }
}

/// Returns the kinds of numbers that a type is made of, without what pointers in it point to.
pub(crate) fn numbers(m: &Module, ty: Id) -> Vec<Scalar> {
    let mut out = Vec::new();
    let mut work = vec![ty];
    let mut seen = IdSet::default();
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match Type::of(m, ty) {
            Some(Type::Scalar(s)) if !out.contains(&s) => out.push(s),
            _ => work.extend(elements(m, ty)),
        }
    }
    out
}
