//! Values that invocations combine by way of shared memory.
//!
//! The idiom: every subgroup reduces what its invocations have, one of them stores the result into shared memory, and
//! behind a barrier every invocation combines its own value with all that was stored, by an operation for which
//! combining twice is combining once. Each then has the same, since its own value is in what its subgroup stored. That
//! it is, and that all of it is read, is assumed and not shown.

use super::graph::Program;
use super::memory::root;
use super::nodes::{Graph, Kind};
use coop_ir::grammar::Op;
use std::collections::BTreeMap;

/// How many nodes are followed.
const MAX_NODES: usize = 600;

/// Each node that is such a combination, ascending, with the operand that alone decides it.
pub(super) fn combinations(program: &Program, graph: &Graph) -> Vec<(u32, u32)> {
    let mut found = BTreeMap::new();
    if graph.shared_stores.is_empty() {
        return Vec::new();
    }
    for n in 0..graph.nodes.len() as u32 {
        let Some(combined) = combination(program, graph, n) else { continue };
        let Some((own, read)) = read_of(program, graph, combined) else { continue };
        // In a loop over what was stored, the value is a phi that begins with the invocation's own.
        if let Some((begin, phi)) = accumulated(program, graph, own, n) {
            if covers(program, graph, read, begin) {
                found.insert(phi, read);
                found.insert(n, read);
            }
        } else if covers(program, graph, read, own) {
            found.insert(n, read);
        }
    }
    found.into_iter().collect()
}

/// The two operands of a node that combines idempotently.
fn combination(program: &Program, graph: &Graph, n: u32) -> Option<(u32, u32)> {
    let node = &graph.nodes[n as usize];
    if graph.find(n) != n || !matches!(node.kind, Kind::Max | Kind::Fold(_)) {
        return None;
    }
    let inst = program.module.inst(node.inst?);
    let fits = match inst.op {
        // Minima and maxima of GLSL.std.450, those that care about NaN included.
        Op::ExtInst => matches!(inst.word(1), Some(37..=42 | 79 | 80)),
        op => matches!(op, Op::LogicalAnd | Op::LogicalOr | Op::BitwiseAnd | Op::BitwiseOr),
    };
    let mut ops = graph.operands(n);
    match (fits, ops.next(), ops.next(), ops.next()) {
        (true, Some((a, _)), Some((b, _)), None) => Some((a, b)),
        _ => None,
    }
}

/// Which of the two is read from shared memory: the other one first.
fn read_of(program: &Program, graph: &Graph, (a, b): (u32, u32)) -> Option<(u32, u32)> {
    let shared = |n: u32| shared_variable(program, graph, n).is_some();
    match (shared(a), shared(b)) {
        (false, true) => Some((a, b)),
        (true, false) => Some((b, a)),
        _ => None,
    }
}

fn shared_variable(program: &Program, graph: &Graph, n: u32) -> Option<coop_ir::Id> {
    let node = &graph.nodes[n as usize];
    let inst = program.module.inst(node.inst.filter(|_| matches!(node.kind, Kind::Load { .. }))?);
    let variable = root(program.module, inst.id(0)?)?;
    graph.shared_stores.contains_key(&variable).then_some(variable)
}

/// If `own` is a phi of a loop's header whose other value is the combination: what it begins with, and the phi.
fn accumulated(program: &Program, graph: &Graph, own: u32, combined: u32) -> Option<(u32, u32)> {
    let node = &graph.nodes[own as usize];
    let l = program.headed_loop(node.spot).filter(|_| node.kind == Kind::Phi)?;
    let (mut begin, mut back) = (None, false);
    for (op, edge) in graph.operands(own) {
        let from = program.edge(edge?).from;
        if program.in_loop(from, l) {
            if op != combined {
                return None;
            }
            back = true;
        } else if begin.replace(op).is_some() {
            return None;
        }
    }
    Some((begin.filter(|_| back)?, own))
}

/// Whether what is stored where `read` reads was made from `own` by a subgroup.
fn covers(program: &Program, graph: &Graph, read: u32, own: u32) -> bool {
    let Some(variable) = shared_variable(program, graph, read) else { return false };
    let stored = graph.shared_stores.get(&variable).into_iter().flatten().map(|n| graph.find(*n));
    // Who hands on the value of one invocation has reduced nothing.
    let hands_on = |n: u32| {
        let op = graph.nodes[n as usize].inst.map(|r| program.module.inst(r).op);
        matches!(op, Some(Op::GroupNonUniformBroadcast | Op::GroupNonUniformBroadcastFirst))
    };
    let group = |n: u32| matches!(graph.nodes[n as usize].kind, Kind::Group(_)) && !hands_on(n);
    let groups = slice(graph, stored.collect(), group);
    groups.into_iter().any(|g| !slice(graph, vec![g], |n| n == own).is_empty())
}

/// The nodes on which others depend and that are wanted.
fn slice(graph: &Graph, mut work: Vec<u32>, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut count = 0;
    let mut found = Vec::new();
    while let Some(n) = work.pop() {
        if count > MAX_NODES || std::mem::replace(&mut seen[n as usize], true) {
            continue;
        }
        count += 1;
        if wanted(n) {
            found.push(n);
        }
        work.extend(graph.operands(n).map(|(op, _)| op));
    }
    found
}
