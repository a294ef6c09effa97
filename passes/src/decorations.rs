//! What becomes of a decoration of a matrix when the matrix becomes parts: elements, or tiles.
//!
//! [`fate`] decides it for every decoration that the grammar knows, for all lowerings. What one does not know may say anything, and is
//! refused ([`run`]). [`take`] has those that operations on the parts get, for whoever makes these.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers;
use coop_ir::rewrite::{remove_globals, spell_out_decoration_groups};
use coop_ir::spv::Decoration;
use coop_ir::types::Type;
use coop_ir::{Id, Module, Op};

/// What becomes of a decoration of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It says how an operation computes: the operations on the parts have it. What computes nothing, or becomes something else than
    /// operations on its parts (products, reductions), goes without; all that it would say there is left to the implementation.
    Operation,
    /// It says of the whole, or of one access, what does not hold of the parts: it goes.
    Dropped,
    /// It says nothing of values, or nothing about them that changes: it stays with the id.
    Kept,
}

/// What becomes of a decoration. `None`: nobody knows what it says.
pub(crate) fn fate(decoration: Decoration) -> Option<Fate> {
    // The same invocations need not have the same parts of what is the same as a whole.
    const UNIFORM: [Decoration; 3] = [Decoration::Uniform, Decoration::UniformId, Decoration::NonUniform];
    // Of the access that a load was.
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

/// Gives each target of a group of decorations its own, drops what does not hold of parts of matrices, and refuses what nobody knows.
/// The bindings that are chosen with a NonUniform index are noted for [`keep_non_uniform`].
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

/// Takes from the module the decorations that say how operations compute, of the ids that are `wanted`.
pub(crate) fn take(m: &mut Module, wanted: &dyn Fn(&Module, Id) -> bool) -> FxHashMap<Id, Vec<Decorated>> {
    let mut out: FxHashMap<Id, Vec<Decorated>> = FxHashMap::default();
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        let (Op::Decorate, Some(id), Some(d)) = (i.op, i.id(0), i.enumerant(1)) else { return false };
        if fate(d) != Some(Fate::Operation) || !wanted(m, id) {
            return false;
        }
        out.entry(id).or_default().push((d, i.operands.iter().skip(2).map(|o| o.word()).collect()));
        true
    });
    out
}

/// Decorates an id as another was.
pub(crate) fn give(m: &mut Module, id: Id, decorations: &[Decorated]) {
    for (d, words) in decorations {
        coop_ir::builder::decorate(m, id, *d, words);
    }
}

/// Bindings, as descriptor set and number.
pub(crate) type Bindings = FxHashSet<(Option<u32>, Option<u32>)>;

/// The bindings of which a module chooses one by an index that differs between invocations.
fn non_uniform(m: &Module) -> Bindings {
    let decorations = Decorations::new(m);
    let decorated = decorations.ids().filter(|id| decorations.has(*id, Decoration::NonUniform));
    let variables = decorated.filter_map(|id| root(m, id));
    variables.map(|v| (decorations.set(v), decorations.binding(v))).collect()
}

/// Says NonUniform of every pointer into these bindings that has an index which is no constant: what a lowering makes of an access
/// chooses by the same index. It is a matter of speed to say it of too many.
pub(crate) fn keep_non_uniform(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let bindings = &cx.non_uniform;
    if bindings.is_empty() {
        return Ok(());
    }
    let decorations = Decorations::new(m);
    let mut new: FxHashSet<Id> = FxHashSet::default();
    let constant = |id: Id| m.def_inst(id).is_some_and(|i| i.op.is_constant());
    for i in m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| steps(i.op)) {
        let Some((id, base)) = i.result.zip(i.id(0)) else { continue };
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

/// Returns true if an instruction makes a pointer of another one.
fn steps(op: Op) -> bool {
    op.is_typed_access_chain() || op == Op::CopyObject
}

/// The variable that a pointer leads into.
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
        // Whatever is about results of computations by its name is decided on purpose.
        let words = ["FP", "Precision", "Round", "Satur", "Wrap", "Contract", "Conversion", "Denorm"];
        let named = known.iter().filter(|e| words.iter().any(|w| e.name.contains(w)));
        let kept: Vec<&str> = named.filter(|e| fate(Decoration(e.value)) == Some(Fate::Kept)).map(|e| e.name).collect();
        // Those of functions, and of objects of FPGAs.
        assert_eq!(kept, ["FunctionRoundingModeINTEL", "FunctionDenormModeINTEL"]);
    }
}
