//! Rules about functions that instructions call implicitly: decode, reduce and per-element functions, and their
//! callees.

use super::CALLBACK;
use crate::cx::{Cx, TypeClass};
use crate::report::{Draft, Part, Sink};
use coop_ir::entry::CallKind;
use coop_ir::{Inst, InstRef, Op};
use coop_uniformity::Analyzer;
use std::collections::VecDeque;

/// The way in which a callback is reached.
#[derive(Clone, Copy)]
struct Way {
    /// The call.
    at: InstRef,
    /// The calling function, if it is a callback, too.
    from: Option<usize>,
}

pub(super) fn check(cx: &Cx, analyzer: &Analyzer, out: &mut Sink) {
    if analyzer.callbacks().is_empty() {
        return;
    }
    let ways = ways(cx, analyzer);
    for (f, way) in ways.iter().enumerate() {
        let Some(way) = way else { continue };
        let blocks = cx.module.functions[f].blocks.iter();
        for at in blocks.flat_map(|b| b.insts.iter().copied()) {
            let inst = cx.inst(at);
            if is_tangled(cx, inst) {
                out.report(&CALLBACK, at, || draft(cx, &ways, at, *way));
            }
        }
    }
}

/// Returns the shortest chain of calls to each callback.
fn ways(cx: &Cx, analyzer: &Analyzer) -> Vec<Option<Way>> {
    let calls = analyzer.calls();
    let count = cx.module.functions.len();
    let mut ways: Vec<Option<Way>> = vec![None; count];
    let mut queue = VecDeque::new();
    for f in 0..count {
        for c in calls.calls(f).iter().filter(|c| c.kind == CallKind::Callback) {
            if ways[c.callee].is_none() {
                ways[c.callee] = Some(Way { at: c.at, from: None });
                queue.push_back(c.callee);
            }
        }
    }
    while let Some(f) = queue.pop_front() {
        for c in calls.calls(f) {
            if ways[c.callee].is_none() {
                ways[c.callee] = Some(Way { at: c.at, from: Some(f) });
                queue.push_back(c.callee);
            }
        }
    }
    ways
}

fn draft(cx: &Cx, ways: &[Option<Way>], at: InstRef, way: Way) -> Draft {
    let op = cx.inst(at).op;
    let mut chain = vec![way.at];
    let mut from = way.from;
    while let Some(Way { at, from: next }) = from.and_then(|f| ways[f]) {
        chain.push(at);
        from = next;
    }
    let runs = chain.last().map_or(op, |r| cx.inst(*r).op);
    let mut draft = Draft::new(format!("{op} in a function that {runs} runs for single elements")).label(
        at,
        Part::Whole,
        "needs all invocations of its scope",
    );
    for (i, call) in chain.iter().enumerate().take(6) {
        let text = if i + 1 == chain.len() { "runs the function for each element" } else { "calls it" };
        draft = draft.label(*call, Part::Whole, text);
    }
    draft
}

/// Returns true if all invocations of a scope must execute an instruction together.
pub(super) fn is_tangled(cx: &Cx, inst: &Inst) -> bool {
    let matrix = |c: Option<TypeClass>| matches!(c, Some(TypeClass::Matrix | TypeClass::MatrixNv | TypeClass::Holder));
    let works = !matches!(inst.op, Op::CooperativeMatrixLengthKHR | Op::ExtInst)
        && !inst.op.is_variable()
        && (matrix(inst.ty.and_then(|t| cx.class(t))) || inst.ids().any(|id| matrix(cx.class(id))));
    works || is_collective(inst.op)
}

/// Returns true for barriers, group and subgroup instructions, derivatives, and image instructions with an implicit
/// derivative.
fn is_collective(op: Op) -> bool {
    op.execution_scope().is_some() || op.takes_derivatives()
}
