//! Gives the constants that matrices depend on their values for good.
//!
//! Precondition: none. Effect: scope, rows, columns and use of every matrix type and the layout of every load and
//! store become constants that can't be specialised, with everything that they are computed from. So does a constant that a
//! value was given for, if it decides a branch ([`fold`]). Other SpecIds stay; a value given for one of them becomes its default. Refuses: a constant that no value was given for, and one that
//! can't be evaluated.

use crate::fold;
use crate::matrix::observed_replication;
use crate::pipeline::PassCx;
use crate::{Lanes, Refusal, Target};
use coop_ir::builder::literal_operands;
use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{Extent, entry_points};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::{Capability, Scope};
use coop_ir::types::{Scalar, Type};
use coop_ir::views::MatrixAccess;
use coop_ir::{Id, Inst, InstRef, Module, Op};
use std::collections::BTreeSet;

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let constants = Constants::new(m, &cx.options.spec);
    if let Some((id, why)) = constants.problems().first() {
        let reason = format!("the value given for SpecId {id} does not fit: {why}");
        return Err(Refusal::new("refused-spec-value", None, reason, "give a value of the constant's type"));
    }
    let roots = roots(m, cx.options.lanes);
    // Where single elements of factors are accessed, lanes may have to exchange them.
    let shares = cx.options.target != Target::Scalar || observed_replication::accesses_factor_elements(m);
    let mut pass = Specialize { constants, frozen: FxHashSet::default() };
    for (at, id, what) in &roots {
        let (at, id) = (*at, *id);
        match pass.constants.get(id) {
            Const::Fixed(_) => {}
            Const::Default { .. } if cx.options.spec_defaults => {}
            Const::Default { specs, value } => {
                let needed: BTreeSet<u32> =
                    roots.iter().filter_map(|r| pass.constants.specs(r.1)).flat_map(|s| s.iter()).collect();
                let list: Vec<String> = needed.iter().map(|id| format!("--spec {id}=..")).collect();
                return Err(Refusal::new(
                    "refused-unknown-dimension",
                    Some(at),
                    format!("{what} depends on {specs}, and no value was given (the default makes it {value})"),
                    format!("pass what the pipeline uses: {}; or --spec-defaults", list.join(" ")),
                ));
            }
            Const::Unknown => {
                return Err(Refusal::new(
                    "refused-unknown-dimension",
                    Some(at),
                    format!("{what} ({id}) can't be evaluated"),
                    "give the matrix a constant",
                ));
            }
        }
        pass.freeze(m, id);
    }
    if shares {
        // Subgroups share what they exchange in shared memory, so their number is decided where it can be.
        for (_, id, _) in workgroup_size(m) {
            if matches!(pass.constants.get(id), Const::Fixed(_)) || cx.options.spec_defaults {
                pass.freeze(m, id);
            }
        }
    }
    for id in fold::deciders(m, &pass.constants) {
        pass.freeze(m, id);
    }
    pass.apply(m, cx);
    in_proportion(m)
}

/// The most elements of a matrix.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 20;

/// The most invocations of a workgroup: eight times what any device has.
const MOST_INVOCATIONS: u64 = 1 << 16;

/// Refuses sizes with which no device could do anything: what the passes do grows with them.
fn in_proportion(m: &Module) -> Result<(), Refusal> {
    let constants = Constants::new(m, &Specialization::new());
    for r in m.globals_with(Op::TypeCooperativeMatrixKHR).chain(m.globals_with(Op::TypeCooperativeMatrixNV)) {
        let size = |operand| m.inst(r).id(operand).and_then(|id| constants.get(id).value());
        let elements = size(2).zip(size(3)).map(|(rows, cols)| (rows, cols, rows.saturating_mul(cols)));
        if let Some((rows, cols, _)) = elements.filter(|(_, _, n)| *n > MOST_ELEMENTS) {
            let why = format!("a matrix of {rows}x{cols} elements, more than {MOST_ELEMENTS}");
            return Err(Refusal::new("refused-type", Some(r), why, "no device has such matrices"));
        }
    }
    for entry in entry_points(m, &Decorations::new(m)) {
        let Some(size) = entry.workgroup_size else { continue };
        let known = size.values(&constants).map(|n| n.value().unwrap_or(1));
        if known.into_iter().fold(1, u64::saturating_mul) > MOST_INVOCATIONS {
            let [x, y, z] = known;
            let why = format!("a workgroup of {x} x {y} x {z} invocations, more than {MOST_INVOCATIONS}");
            return Err(Refusal::new("refused-size", Some(size.at), why, "no device has such workgroups"));
        }
    }
    Ok(())
}

/// Capabilities of what moves elements between lanes: reductions, conversions of use, per-element operations, tensor
/// addressing (SPV_NV_cooperative_matrix2, SPV_EXT_cooperative_matrix_maintenance1); arrays of rows
/// (SPV_QCOM_cooperative_matrix_conversion).
const MOVES_ELEMENTS: [Capability; 6] = [
    Capability::CooperativeMatrixConversionsEXT,
    Capability::CooperativeMatrixReductionsNV,
    Capability::CooperativeMatrixConversionsNV,
    Capability::CooperativeMatrixPerElementOperationsNV,
    Capability::CooperativeMatrixTensorAddressingNV,
    Capability::CooperativeMatrixConversionQCOM,
];

/// The constants of the workgroup's size.
fn workgroup_size(m: &Module) -> Vec<(InstRef, Id, &'static str)> {
    let mut out = Vec::new();
    for size in entry_points(m, &Decorations::new(m)).iter().filter_map(|e| e.workgroup_size) {
        let constants = size.extents.into_iter().filter_map(|e| match e {
            Extent::Constant(id) => Some(id),
            Extent::Literal(_) => None,
        });
        out.extend(constants.map(|id| (size.at, id, "the size of the workgroup")));
    }
    out
}

/// The constants whose values decide the lowering: where, which, and what it is in words.
fn roots(m: &Module, lanes: Lanes) -> Vec<(InstRef, Id, &'static str)> {
    let mut out = Vec::new();
    // Lanes that hand each other elements do so in parts of shared memory, one for each subgroup.
    let moves = m.capabilities().any(|c| MOVES_ELEMENTS.contains(&c));
    let mut whole_workgroup = lanes == Lanes::LocalIndex || moves;
    for r in m.all() {
        let inst = m.inst(r);
        match inst.op {
            Op::TypeCooperativeMatrixKHR => {
                let names = ["the scope of a matrix", "its number of rows", "its number of columns", "its use"];
                out.extend((1..5).zip(names).filter_map(|(i, what)| Some((r, inst.id(i)?, what))));
                let subgroup =
                    inst.id(1).and_then(|s| m.def_inst(s)).and_then(|s| s.enumerant(0)) == Some(Scope::Subgroup);
                whole_workgroup |= !subgroup;
            }
            Op::TypeCooperativeMatrixNV => {
                let names = ["the scope of a matrix", "its number of rows", "its number of columns"];
                out.extend((1..4).zip(names).filter_map(|(i, what)| Some((r, inst.id(i)?, what))));
                let subgroup =
                    inst.id(1).and_then(|s| m.def_inst(s)).and_then(|s| s.enumerant(0)) == Some(Scope::Subgroup);
                whole_workgroup |= !subgroup;
            }
            Op::TypeTensorLayoutNV | Op::TypeTensorViewNV => {
                let names: &[&str] = if inst.op == Op::TypeTensorLayoutNV {
                    &["the number of dimensions of a tensor layout", "the clamp mode of a tensor layout"]
                } else {
                    &["the number of dimensions of a tensor view", "whether a tensor view has dimensions"]
                };
                let what = |at: usize| names.get(at).copied().unwrap_or("the permutation of a tensor view");
                out.extend(inst.ids().enumerate().map(|(at, id)| (r, id, what(at))));
            }
            Op::CooperativeMatrixLoadTensorNV => {
                let sizes = block_sizes(m, inst);
                out.extend(sizes.into_iter().map(|id| (r, id, "the size of a block of a decode function")));
            }
            op if op.is_matrix_access() => {
                let Some(access) = inst.matrix_access() else { continue };
                let store = op.is_matrix_store();
                out.push((r, access.layout, if store { "the layout of a store" } else { "the layout of a load" }));
                if matches!(op, Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR) {
                    let what = if store { "the interleaving of a store" } else { "the interleaving of a load" };
                    out.extend(interleaving(m, &access).map(|s| (r, s, what)));
                }
            }
            _ => {}
        }
    }
    if whole_workgroup {
        out.extend(workgroup_size(m));
    }
    out
}

/// The stride of an access whose layout SPV_ARM_cooperative_matrix_layouts may have added: a constant then.
fn interleaving(m: &Module, access: &MatrixAccess) -> Option<Id> {
    let arm = m.has_capability(coop_ir::spv::Capability::CooperativeMatrixLayoutsARM);
    let stride = access.stride.filter(|_| arm)?;
    m.def_inst(stride).filter(|i| i.op.is_constant()).map(|_| stride)
}

/// The lengths of arrays in the blocks that the decode functions of a tensor load see.
fn block_sizes(m: &Module, load: &Inst) -> Vec<Id> {
    let mut out = Vec::new();
    for function in load.ids().filter_map(|id| m.def_inst(id)).filter(|i| i.op == Op::Function) {
        let Some(Type::Function { params, .. }) = function.function_type().and_then(|t| Type::of(m, t)) else {
            continue;
        };
        let mut work: Vec<Id> = match params.first().and_then(|t| Type::of(m, *t)) {
            Some(Type::Pointer { pointee, .. }) => vec![pointee],
            _ => continue,
        };
        let mut seen: FxHashSet<Id> = FxHashSet::default();
        while let Some(ty) = work.pop().filter(|_| seen.len() < 1000) {
            if !seen.insert(ty) {
                continue;
            }
            match Type::of(m, ty) {
                Some(Type::Array { elem, len }) => {
                    out.push(len);
                    work.push(elem);
                }
                Some(Type::Struct { members }) => work.extend(members),
                _ => {}
            }
        }
    }
    out
}

struct Specialize {
    constants: Constants,
    frozen: FxHashSet<Id>,
}

impl Specialize {
    /// Marks `id` and everything that it is computed from.
    fn freeze(&mut self, m: &Module, id: Id) {
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            let Some(inst) = m.def_inst(id) else { continue };
            if inst.op.is_constant() && self.frozen.insert(id) {
                work.extend(inst.ids());
            }
        }
    }

    fn apply(&mut self, m: &mut Module, cx: &mut PassCx<'_>) {
        let globals = m.globals.clone();
        let mut unspecialised = FxHashSet::default();
        for r in globals {
            let inst = m.inst(r);
            let (Some(id), Some(ty)) = (inst.result, inst.ty) else { continue };
            let spec_id = self.constants.spec_id(id);
            let value = self.constants.get(id).value();
            if self.frozen.contains(&id) {
                match inst.op {
                    Op::SpecConstant | Op::SpecConstantTrue | Op::SpecConstantFalse | Op::SpecConstantOp => {
                        let (Some(value), Some(fixed)) = (value, value.and_then(|v| constant(m, ty, v))) else {
                            continue;
                        };
                        let inst = Inst { result: Some(id), origin: inst.origin, ..fixed };
                        m.replace(r, inst);
                        if let Some(spec_id) = spec_id {
                            cx.report.consumed_spec_ids.insert(spec_id, value);
                            unspecialised.insert(id);
                        }
                    }
                    Op::SpecConstantComposite => m.inst_mut(r).op = Op::ConstantComposite,
                    _ => {}
                }
            } else if let (Some(spec_id), Some(value)) = (spec_id, value) {
                if cx.options.spec.get(spec_id).is_some()
                    && let Some(fixed) = constant(m, ty, value)
                {
                    let op = match fixed.op {
                        Op::ConstantTrue => Op::SpecConstantTrue,
                        Op::ConstantFalse => Op::SpecConstantFalse,
                        _ => Op::SpecConstant,
                    };
                    let inst = m.inst_mut(r);
                    inst.op = op;
                    inst.operands = fixed.operands;
                }
                cx.report.remaining_spec_ids.push(spec_id);
            }
        }
        // glslang gives one SpecId to two constants when it sizes the workgroup.
        cx.report.remaining_spec_ids.sort_unstable();
        cx.report.remaining_spec_ids.dedup();
        // A composite all of whose parts are constants now is one too; one with a part that can be specialised stays.
        let still_spec: Vec<InstRef> = m
            .globals
            .iter()
            .copied()
            .filter(|r| {
                let i = m.inst(*r);
                i.op == Op::ConstantComposite && i.ids().any(|p| m.def_inst(p).is_some_and(|p| p.op.is_spec_constant()))
            })
            .collect();
        for r in still_spec {
            m.inst_mut(r).op = Op::SpecConstantComposite;
        }
        remove_globals(m, |m, r| {
            let i = m.inst(r);
            i.op == Op::Decorate
                && i.enumerant(1) == Some(coop_ir::spv::Decoration::SpecId)
                && i.id(0).is_some_and(|t| unspecialised.contains(&t))
        });
    }
}

/// The constant instruction for a value of a type, without a result yet.
fn constant(m: &Module, ty: Id, value: u64) -> Option<Inst> {
    match Type::of(m, ty)? {
        Type::Bool => {
            let op = if value == 0 { Op::ConstantFalse } else { Op::ConstantTrue };
            Some(Inst::new(op, Some(ty), None, []))
        }
        Type::Scalar(s @ (Scalar::Int { .. } | Scalar::Float { .. })) => {
            Some(Inst::new(Op::Constant, Some(ty), None, literal_operands(s, value)))
        }
        _ => None,
    }
}
