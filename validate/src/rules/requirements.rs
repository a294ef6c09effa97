//! Which capability a type, instruction or operand asks for, and which extension a capability comes from.

use super::module::missing;
use crate::cx::{Cx, is_matrix_op};
use crate::report::{Part, Sink};
use coop_ir::types::Scalar;
use coop_ir::{InstRef, Kind, Op};

/// A capability and the extensions that have it.
pub(crate) struct Provider {
    pub(crate) capability: u32,
    pub(crate) extensions: &'static [&'static str],
}

const fn by(capability: u32, extensions: &'static [&'static str]) -> Provider {
    Provider { capability, extensions }
}

const NV2: &str = "SPV_NV_cooperative_matrix2";
const MAINTENANCE: &str = "SPV_EXT_cooperative_matrix_maintenance1";
const INTEL: &str = "SPV_INTEL_joint_matrix";

/// Where capabilities for matrices, or for what they are made of, come from.
pub(crate) const EXTENSIONS: &[Provider] = &[
    by(4201, &["SPV_ARM_cooperative_matrix_layouts"]),
    by(4212, &["SPV_EXT_float8"]),
    by(4213, &["SPV_EXT_float8"]),
    by(4496, &["SPV_QCOM_cooperative_matrix_conversion"]),
    by(5112, &["SPV_INTEL_int4"]),
    by(5114, &["SPV_INTEL_int4"]),
    by(5116, &["SPV_KHR_bfloat16"]),
    by(5118, &["SPV_KHR_bfloat16"]),
    by(5357, &["SPV_NV_cooperative_matrix"]),
    by(5429, &[MAINTENANCE]),
    by(5430, &[NV2, MAINTENANCE]),
    by(5431, &[NV2]),
    by(5432, &[NV2, MAINTENANCE]),
    by(5433, &[NV2]),
    by(5434, &[NV2]),
    by(5438, &[MAINTENANCE]),
    by(5439, &["SPV_NV_tensor_addressing"]),
    by(5447, &["SPV_NV_cooperative_matrix_decode_vector"]),
    by(6022, &["SPV_KHR_cooperative_matrix"]),
    by(6024, &["SPV_EXT_replicated_composites"]),
    by(6192, &[INTEL]),
    by(6238, &[INTEL]),
    by(6411, &[INTEL]),
    by(6434, &[INTEL]),
    by(6435, &[INTEL]),
    by(6436, &[INTEL]),
    by(6437, &[INTEL]),
];

/// The name of a capability.
pub(crate) fn capability_name(capability: u32) -> String {
    Kind::Capability.enumerant(capability).map_or_else(|| capability.to_string(), |e| e.name.to_owned())
}

/// What was reported already, so that each capability is asked for once.
#[derive(Default)]
struct Seen(Vec<u32>);

impl Seen {
    /// Whether any of these is declared, or was asked for before.
    fn covers(&mut self, cx: &Cx, any_of: &[u32]) -> bool {
        let Some(first) = any_of.first() else { return true };
        if any_of.iter().any(|c| cx.capabilities.has(*c)) || self.0.contains(first) {
            return true;
        }
        self.0.push(*first);
        false
    }
}

/// Any of these capabilities enables an instruction; empty if it needs none, or has rules of its own.
fn needed(op: Op) -> &'static [u32] {
    match op {
        // Two extensions share it.
        Op::CooperativeMatrixConvertNV => &[5431, 5429],
        Op::CompositeConstructReplicateEXT
        | Op::ConstantCompositeReplicateEXT
        | Op::SpecConstantCompositeReplicateEXT => &[6024],
        op if (6193..=6449).contains(&op.0) => &[],
        op if is_matrix_op(op) => op.info().map_or(&[], |i| i.capabilities),
        _ => &[],
    }
}

/// Everything in the module that has to do with matrices.
pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    let mut seen = Seen::default();
    for &at in cx.globals.iter().chain(&cx.body) {
        let inst = cx.inst(at);
        let any_of = needed(inst.op);
        if !seen.covers(cx, any_of) {
            missing(at, Part::Whole, &inst.op.to_string(), any_of, out);
        }
        match inst.op {
            Op::TypeCooperativeMatrixKHR => component(cx, at, &mut seen, out),
            Op::CooperativeMatrixLoadTensorNV => addressing(cx, at, &mut seen, out),
            _ => {}
        }
    }
    if cx.has_transpose() {
        for at in cx.module.globals_with(Op::Decorate) {
            if cx.inst(at).word(1) == Some(crate::cx::TRANSPOSE) && !seen.covers(cx, &[5429]) {
                missing(at, Part::Operand(1), "CooperativeMatrixTransposeEXT", &[5429], out);
            }
        }
    }
}

fn component(cx: &Cx, at: InstRef, seen: &mut Seen, out: &mut Sink) {
    let Some(component) = cx.inst(at).id(0).and_then(|c| cx.scalar(c)) else { return };
    let any_of: &[u32] = match component {
        Scalar::BF16 => &[5118],
        Scalar::E4M3 | Scalar::E5M2 => &[4213],
        Scalar::Int { width: 4, .. } => &[5114],
        _ => return,
    };
    if !seen.covers(cx, any_of) {
        missing(at, Part::Operand(0), &format!("a matrix of {component}"), any_of, out);
    }
}

/// The operands that follow the memory operands of a tensor load.
fn addressing(cx: &Cx, at: InstRef, seen: &mut Seen, out: &mut Sink) {
    let inst = cx.inst(at);
    // Memory operands are few words; unknown bits of theirs are reported elsewhere.
    let Some(mask_at) = super::memory::end(inst, 3) else { return };
    let Some(mask) = inst.word(mask_at) else { return };
    for (bit, name, any_of) in [(2, "DecodeFunc", [5434]), (4, "DecodeVectorFunc", [5447])] {
        if mask & bit != 0 && !seen.covers(cx, &any_of) {
            missing(at, Part::Operand(mask_at), name, &any_of, out);
        }
    }
}
