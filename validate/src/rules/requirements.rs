//! The capabilities that a type, instruction or operand needs, and the extensions that capabilities need.

use super::module::missing;
use crate::cx::Cx;
use crate::report::{Part, Sink};
use coop_ir::extensions::capability_of_component;
use coop_ir::spv::{Capability as Cap, Decoration, TensorAddressingOperands};
use coop_ir::{InstRef, Op};

/// The capabilities that were reported already, so that each is reported once.
#[derive(Default)]
struct Seen(Vec<Cap>);

impl Seen {
    /// Returns true if any of these is declared, or was reported before.
    fn covers(&mut self, cx: &Cx, any_of: &[Cap]) -> bool {
        let Some(first) = any_of.first() else { return true };
        if any_of.iter().any(|c| cx.capabilities.has(*c)) || self.0.contains(first) {
            return true;
        }
        self.0.push(*first);
        false
    }
}

/// Returns the capabilities any one of which enables an instruction; empty if it needs none, or has rules of its own.
fn needed(op: Op) -> &'static [Cap] {
    match op {
        // Two extensions share it.
        Op::CooperativeMatrixConvertNV => &[Cap::CooperativeMatrixConversionsNV, Cap::CooperativeMatrixConversionsEXT],
        op if op.is_replicated() => &[Cap::ReplicatedCompositesEXT],
        // Intel's compilers omit them: a separate note.
        op if op.is_intel_matrix_op() => &[],
        op if op.is_matrix_op() => op.info().map_or(&[], |i| i.capabilities),
        _ => &[],
    }
}

/// Checks everything in the module that involves matrices.
pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    let mut seen = Seen::default();
    for &at in cx.globals.iter().chain(&cx.body) {
        let inst = cx.inst(at);
        let op = inst.specialized_op().unwrap_or(inst.op);
        let any_of = needed(op);
        if !seen.covers(cx, any_of) {
            missing(at, Part::Whole, &op.to_string(), any_of, out);
        }
        match inst.op {
            Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV => component(cx, at, &mut seen, out),
            Op::CooperativeMatrixLoadTensorNV => addressing(cx, at, &mut seen, out),
            _ => {}
        }
    }
    if cx.has_transpose() {
        for at in cx.module.globals_with(Op::Decorate) {
            if cx.inst(at).enumerant(1) == Some(Decoration::CooperativeMatrixTransposeEXT)
                && !seen.covers(cx, &[Cap::CooperativeMatrixConversionsEXT])
            {
                missing(
                    at,
                    Part::Operand(1),
                    "CooperativeMatrixTransposeEXT",
                    &[Cap::CooperativeMatrixConversionsEXT],
                    out,
                );
            }
        }
    }
}

fn component(cx: &Cx, at: InstRef, seen: &mut Seen, out: &mut Sink) {
    let Some(component) = cx.inst(at).id(0).and_then(|c| cx.scalar(c)) else { return };
    let Some(needed) = capability_of_component(component) else { return };
    let any_of = &[needed];
    if !seen.covers(cx, any_of) {
        missing(at, Part::Operand(0), &format!("a matrix of {component}"), any_of, out);
    }
}

/// Checks the operands behind the memory operands of a tensor load.
fn addressing(cx: &Cx, at: InstRef, seen: &mut Seen, out: &mut Sink) {
    let inst = cx.inst(at);
    // Unknown bits of memory operands are reported elsewhere.
    let Some(access) = inst.tensor_access() else { return };
    for (bit, name, any_of) in [
        (TensorAddressingOperands::DecodeFunc, "DecodeFunc", [Cap::CooperativeMatrixBlockLoadsNV]),
        (TensorAddressingOperands::DecodeVectorFunc, "DecodeVectorFunc", [Cap::CooperativeMatrixDecodeVectorNV]),
    ] {
        if access.mask.contains(bit) && !seen.covers(cx, &any_of) {
            missing(at, Part::Operand(access.at), name, &any_of, out);
        }
    }
}
