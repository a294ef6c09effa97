//! Rules about scopes and memory semantics, which the extension loosens for scopes and tightens for semantics.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_ir::decode::{Piece, decode};
use coop_ir::{Id, InstRef, Kind, Op};
use spirv::Capability;

declare_rule! {
    /// ## What it checks
    /// In a shader, an execution or memory scope is a constant instruction; specialization constants are allowed.
    /// ## Why
    /// Which invocations a barrier waits for must be known when the pipeline is made.
    /// ## Example
    /// `OpControlBarrier %loaded %workgroup %semantics` with `%loaded` read from a buffer.
    pub(crate) static SCOPE_NOT_CONSTANT = {
        id: "sync-scope-not-constant",
        summary: "a scope is not a constant instruction",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.scope-ids-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, memory semantics are an `OpConstant`, not a specialization constant.
    /// ## Why
    /// The extension lets only scopes be specialised; what a barrier orders is part of the program.
    /// ## Example
    /// `OpControlBarrier %workgroup %workgroup %chosen` with `%chosen = OpSpecConstant %uint 264`.
    pub(crate) static SEMANTICS_NOT_CONSTANT = {
        id: "sync-semantics-not-constant",
        summary: "memory semantics are not an OpConstant",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.memsem-ids-const"],
    }
}

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    if !cx.has(Capability::Shader) {
        return;
    }
    for &at in &cx.synchronising {
        let inst = cx.inst(at);
        let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
        decode(cx.module, inst.op, inst.ty, &words, &mut |p: Piece| {
            let Some(id) = inst.id(p.start) else { return };
            match p.kind {
                // The memory operands of loads and stores have a rule of their own.
                Kind::IdScope => scope(cx, at, p.start, id, out),
                Kind::IdMemorySemantics => semantics(cx, at, p.start, id, out),
                _ => {}
            }
        });
    }
}

fn scope(cx: &Cx, at: InstRef, operand: usize, id: Id, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(id) else { return };
    if !def.op.is_constant() {
        out.report(&SCOPE_NOT_CONSTANT, at, || {
            Draft::new(format!("a scope must be a constant instruction; this is the result of {}", def.op))
                .label(at, Part::Operand(operand), "not a constant")
                .label_opt(cx.def(id), Part::Result, "computed here")
        });
    }
}

fn semantics(cx: &Cx, at: InstRef, operand: usize, id: Id, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(id) else { return };
    if !matches!(def.op, Op::Constant | Op::ConstantNull) {
        out.report(&SEMANTICS_NOT_CONSTANT, at, || {
            Draft::new(format!("memory semantics must be an OpConstant; this is the result of {}", def.op))
                .label(at, Part::Operand(operand), "not an OpConstant")
                .label_opt(cx.def(id), Part::Result, "declared here")
        });
    }
}
