//! Decides which decorations of a matrix its parts (elements or fragments) keep.
//!
//! [`fate`] decides for every decoration that the grammar knows, for all lowerings. An unknown decoration may mean
//! anything, and is refused ([`run`]). [`take`] returns those that operations on the parts get.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers;
use coop_ir::rewrite::{remove_globals, spell_out_decoration_groups};
use coop_ir::spv::Decoration;
use coop_ir::types::Type;
use coop_ir::{Id, Module, Op};

/// The fate of a decoration of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It describes how an operation computes: the operations on the parts get it. Operations that compute nothing, or
    /// become something other than operations on the parts (products, reductions), lose it; the precision of those is
    /// implementation-defined.
    Operation,
    /// It describes the whole, or one access, and does not hold for the parts: it is dropped.
    Dropped,
    /// It does not describe values, or nothing about them that changes: it stays with the id.
    Kept,
}

/// Returns the fate of a decoration. `None`: it is unknown.
pub(crate) fn fate(decoration: Decoration) -> Option<Fate> {
    // A value that is the same for some invocations as a whole need not have the same parts.
    const UNIFORM: [Decoration; 3] = [Decoration::Uniform, Decoration::UniformId, Decoration::NonUniform];
    // Decorations of the access of a load.
    const ALIASES: [Decoration; 2] = [Decoration::AliasScopeINTEL, Decoration::NoAliasINTEL];
    const OPERATION: [Decoration; 9] = [
        Decoration::RelaxedPrecision,
        Decoration::SaturatedConversion,
        Decoration::FPRoundingMode,
        Decoration::FPFastMathMode,
        Decoration::NoContraction,
        Decoration::NoSignedWrap,
        Decoration::NoUnsignedWrap,
        Decoration::SaturatedToLargestFloat8NormalConversionEXT,
        Decoration::FPMaxErrorDecorationINTEL,
    ];
    let is = |list: &[Decoration]| list.contains(&decoration);
    decoration.name()?;
    Some(match () {
        () if is(&OPERATION) => Fate::Operation,
        () if is(&UNIFORM) || is(&ALIASES) => Fate::Dropped,
        () => Fate::Kept,
    })
}

/// A decoration with its operands.
pub(crate) type Decorated = (Decoration, Vec<u32>);

/// Expands decoration groups, drops decorations that do not hold for parts of matrices, and refuses unknown ones. The
/// bindings that are selected with a NonUniform index are noted for [`keep_non_uniform`].
pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    spell_out_decoration_groups(m);
    let decorations = Decorations::new(m);
    let mut dropped = FxHashSet::default();
    for r in m.functions.iter().flat_map(|f| f.insts()) {
        let i = m.inst(r);
        let Some(id) = i.result.filter(|_| i.ty.is_some_and(|ty| is_matrix(m, ty))) else { continue };
        for d in decorations.of(id) {
            match fate(d.decoration) {
                Some(Fate::Dropped) => drop(dropped.insert(d.inst)),
                Some(Fate::Operation | Fate::Kept) => {}
                None => {
                    let why = format!("decoration {} of a matrix may change what {} means", d.decoration, i.op);
                    return Err(Refusal::new("refused-decoration", Some(r), why, "leave the decoration out"));
                }
            }
        }
    }
    remove_globals(m, |_, r| dropped.contains(&r));
    cx.non_uniform = non_uniform(m);
    Ok(())
}

fn is_matrix(m: &Module, ty: Id) -> bool {
    match Type::of(m, ty) {
        Some(Type::CoopMat(_)) => true,
        Some(Type::Other(op)) => op == Op::TypeCooperativeMatrixNV,
        _ => false,
    }
}

/// Removes the decorations that describe how operations compute, for the `wanted` ids. Returns them by id.
pub(crate) fn take(m: &mut Module, wanted: &dyn Fn(&Module, Id) -> bool) -> FxHashMap<Id, Vec<Decorated>> {
    let mut out: FxHashMap<Id, Vec<Decorated>> = FxHashMap::default();
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        let Some((id, d)) = i.decoration() else { return false };
        if fate(d) != Some(Fate::Operation) || !wanted(m, id) {
            return false;
        }
        out.entry(id).or_default().push((d, i.operands.iter().skip(2).map(|o| o.word()).collect()));
        true
    });
    out
}

/// Adds decorations to an id.
pub(crate) fn add(m: &mut Module, id: Id, decorations: &[Decorated]) {
    for (d, words) in decorations {
        coop_ir::builder::decorate(m, id, *d, words);
    }
}

/// Bindings, as descriptor set and number.
pub(crate) type Bindings = FxHashSet<(Option<u32>, Option<u32>)>;

/// Returns the bindings of which a module selects one by an index that differs between invocations.
fn non_uniform(m: &Module) -> Bindings {
    let decorations = Decorations::new(m);
    let decorated = decorations.ids().filter(|id| decorations.has(*id, Decoration::NonUniform));
    let variables = decorated.filter_map(|id| root(m, id));
    variables.map(|v| (decorations.set(v), decorations.binding(v))).collect()
}

/// Decorates as NonUniform every pointer into the noted bindings that has a non-constant index: the code of a lowered
/// access uses the same index. An extra decoration costs speed only.
pub(crate) fn keep_non_uniform(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let bindings = &cx.non_uniform;
    if bindings.is_empty() {
        return Ok(());
    }
    let decorations = Decorations::new(m);
    let mut new: FxHashSet<Id> = FxHashSet::default();
    let constant = |id: Id| m.def_inst(id).is_some_and(|i| i.op.is_constant());
    for i in m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| steps(i.op)) {
        let Some((id, base)) = i.result.zip(i.derived_from()) else { continue };
        let chosen = m.def_inst(base).is_some_and(|b| b.op == Op::Variable)
            && bindings.contains(&(decorations.set(base), decorations.binding(base)))
            && i.id(1).is_some_and(|first| !constant(first));
        let goes_on = new.contains(&base) || decorations.has(base, Decoration::NonUniform);
        if (chosen || goes_on) && !decorations.has(id, Decoration::NonUniform) {
            new.insert(id);
        }
    }
    let mut new: Vec<Id> = new.into_iter().collect();
    new.sort_unstable();
    new.into_iter().for_each(|id| coop_ir::builder::decorate(m, id, Decoration::NonUniform, &[]));
    Ok(())
}

/// Returns true if an instruction derives a pointer from another one.
fn steps(op: Op) -> bool {
    op.is_typed_access_chain() || op == Op::CopyObject
}

/// Returns the variable that a pointer points into.
fn root(m: &Module, id: Id) -> Option<Id> {
    pointers::root(m, id, steps).filter(|root| m.def_inst(*root).is_some_and(|i| i.op == Op::Variable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_ir::Kind;

    #[test]
    fn every_decoration_has_a_fate() {
        let all: Vec<u32> = (0..8192).filter(|d| fate(Decoration(*d)).is_some()).collect();
        let known = Kind::Decoration.enumerants().unwrap_or_default();
        assert_eq!(all, known.iter().map(|e| e.value).collect::<Vec<_>>());
        let of = |wanted: Fate| -> Vec<&str> {
            known.iter().filter(|e| fate(Decoration(e.value)) == Some(wanted)).map(|e| e.name).collect()
        };
        assert_eq!(of(Fate::Operation).len(), 9);
        assert_eq!(of(Fate::Dropped), ["Uniform", "UniformId", "NonUniform", "AliasScopeINTEL", "NoAliasINTEL"]);
        // Decorations that sound like properties of results have an explicit decision.
        let words = ["FP", "Precision", "Round", "Satur", "Wrap", "Contract", "Conversion", "Denorm"];
        let named = known.iter().filter(|e| words.iter().any(|w| e.name.contains(w)));
        let kept: Vec<&str> = named.filter(|e| fate(Decoration(e.value)) == Some(Fate::Kept)).map(|e| e.name).collect();
        // Those of functions, and of objects of FPGAs.
        assert_eq!(kept, ["FunctionRoundingModeINTEL", "FunctionDenormModeINTEL"]);
    }
}
