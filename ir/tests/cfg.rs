//! Control-flow graphs against the definitions of what is computed from them: every graph of up to four blocks, random
//! ones of up to 24, and the functions of real modules.

use coop_ir::binary;
use coop_ir::cfg::{
    Case, Cfg, CfgDefect, ConstructKind, Constructs, ControlDeps, DomTree, Frontiers, Graph, Loops, PostDoms,
};
use coop_ir::spv::Capability;
use coop_ir::{Block, Function, Header, Id, Inst, Module, Op, Operand};
use petgraph::graph::DiGraph;
use std::path::Path;

mod common;

/// A set of up to 64 nodes.
type Set = u64;

fn bit(n: usize) -> Set {
    1 << n
}

/// Returns the nodes that `succ` reaches from `start` without `removed`.
fn reach(succ: &[Set], start: usize, removed: Set) -> Set {
    if removed & bit(start) != 0 {
        return 0;
    }
    let mut seen = bit(start);
    loop {
        let next = (0..succ.len()).filter(|n| seen & bit(*n) != 0).fold(seen, |acc, n| acc | succ[n]) & !removed;
        if next == seen {
            return seen;
        }
        seen = next;
    }
}

fn masks(cfg: &Cfg) -> Vec<Set> {
    (0..cfg.len()).map(|b| cfg.successors(b).iter().fold(0, |acc, s| acc | bit(*s))).collect()
}

fn turned(succ: &[Set]) -> Vec<Set> {
    (0..succ.len()).map(|n| (0..succ.len()).filter(|m| succ[*m] & bit(n) != 0).fold(0, |acc, m| acc | bit(m))).collect()
}

fn id(n: usize) -> Id {
    Id::new(n as u32 + 1).expect("not 0")
}

/// Ids that are not labels.
fn special(n: usize) -> Id {
    id(1_000_000 + n)
}

/// A module with one function, whose block `i` has label `i + 1` and branches to `succ[i]`.
fn module_of(succ: &[Set]) -> Module {
    let lists: Vec<Vec<usize>> = succ.iter().map(|s| (0..succ.len()).filter(|t| s & bit(*t) != 0).collect()).collect();
    module_with(&lists)
}

fn module_with(succ: &[Vec<usize>]) -> Module {
    let header = Header { version: 0x10600, generator: 0, bound: 2_000_000, schema: 0, big_endian: false };
    let mut m = Module::new(header, 1000);
    let def =
        m.add(Inst::new(Op::Function, Some(special(0)), Some(special(1)), [Operand::Word(0), Operand::Id(special(2))]));
    let mut blocks = Vec::new();
    for (i, to) in succ.iter().enumerate() {
        let label = m.add(Inst::new(Op::Label, None, Some(id(i)), []));
        let to: Vec<Operand> = to.iter().map(|t| Operand::Id(id(*t))).collect();
        let cond = Operand::Id(special(3));
        let last = match to.as_slice() {
            [] => Inst::new(Op::Return, None, None, []),
            [one] => Inst::new(Op::Branch, None, None, [*one]),
            [a, b] => Inst::new(Op::BranchConditional, None, None, [cond, *a, *b]),
            [first, rest @ ..] => {
                let cases = rest.iter().enumerate().flat_map(|(v, t)| [Operand::Word(v as u32), *t]);
                Inst::new(Op::Switch, None, None, [cond, *first].into_iter().chain(cases))
            }
        };
        let last = m.add(last);
        blocks.push(Block { lead: Vec::new(), label, insts: [last].into_iter().collect() });
    }
    let end = m.add(Inst::new(Op::FunctionEnd, None, None, []));
    m.functions.push(Function { lead: Vec::new(), def, params: Vec::new(), blocks, tail: vec![end] });
    m
}

fn check_dominators(succ: &[Set], root: usize, dominates: impl Fn(usize, usize) -> bool, tree: &DomTree, what: &str) {
    let n = succ.len();
    let reached = reach(succ, root, 0);
    // By the definition: b can't be reached without a.
    let truth: Vec<Set> = (0..n)
        .map(|a| (0..n).filter(|b| *b == a || reach(succ, root, bit(a)) & bit(*b) == 0).fold(0, |acc, b| acc | bit(b)))
        .collect();
    for (a, mine) in truth.iter().enumerate() {
        for b in 0..n {
            assert_eq!(dominates(a, b), mine & bit(b) != 0, "{what}: does {a} dominate {b}? {succ:x?}");
        }
        assert_eq!(tree.is_reachable(a), reached & bit(a) != 0, "{what}: is {a} reached? {succ:x?}");
    }
    for b in 0..n {
        let strict: Vec<usize> = (0..n).filter(|a| *a != b && truth[*a] & bit(b) != 0).collect();
        // The immediate one is dominated by all the others.
        let idom = strict.iter().copied().find(|d| strict.iter().all(|o| truth[*o] & bit(*d) != 0));
        let idom = idom.filter(|_| reached & bit(b) != 0);
        assert_eq!(tree.idom(b), idom, "{what}: immediate dominator of {b}: {succ:x?}");
        let mut children: Vec<_> = tree.children(b).collect();
        children.sort_unstable();
        let expected: Vec<_> = (0..n).filter(|c| tree.idom(*c) == Some(b)).collect();
        assert_eq!(children, expected, "{what}: children of {b}: {succ:x?}");
        let subtree = tree.subtree(b).iter().fold(0, |acc, n| acc | bit(*n));
        let mine = if reached & bit(b) == 0 { 0 } else { truth[b] & reached };
        assert_eq!(subtree, mine, "{what}: subtree of {b}: {succ:x?}");
        for a in 0..n {
            let both =
                (0..n).filter(|d| truth[*d] & bit(a) != 0 && truth[*d] & bit(b) != 0).fold(0, |acc, d| acc | bit(d));
            let closest =
                (0..n).find(|d| both & bit(*d) != 0 && (0..n).all(|o| both & bit(o) == 0 || truth[o] & bit(*d) != 0));
            let closest = closest.filter(|_| reached & bit(a) != 0 && reached & bit(b) != 0);
            assert_eq!(tree.common(a, b), closest, "{what}: common dominator of {a} and {b}: {succ:x?}");
        }
    }
}

/// Against petgraph, for graphs that are too large for the definitions.
fn check_dominators_by_petgraph(cfg: &Cfg, what: &str) {
    let mut graph: DiGraph<(), (), u32> = DiGraph::new();
    let nodes: Vec<_> = (0..cfg.len()).map(|_| graph.add_node(())).collect();
    for (from, to) in cfg.graph().edges() {
        graph.add_edge(nodes[from], nodes[to], ());
    }
    let Some(entry) = nodes.first() else { return };
    let theirs = petgraph::algo::dominators::simple_fast(&graph, *entry);
    for (b, node) in nodes.iter().enumerate() {
        assert_eq!(cfg.idom(b), theirs.immediate_dominator(*node).map(|n| n.index()), "{what}: dominator of {b}");
    }
    let components = cfg.graph().components();
    for members in petgraph::algo::tarjan_scc(&graph) {
        let first = components[members[0].index()];
        assert!(members.iter().all(|n| components[n.index()] == first), "{what}: one component: {members:?}");
        let outside = (0..cfg.len()).filter(|b| !members.contains(&nodes[*b]));
        assert!(outside.into_iter().all(|b| components[b] != first), "{what}: another component than {members:?}");
    }
}

#[test]
fn random_larger_graphs_by_petgraph() {
    let mut random = common::Random(0xBEEF);
    for round in 0..200 {
        let n = 30 + random.below(200);
        let (reach, degree) = (1 + random.below(n), 1 + round % 3);
        let target = |random: &mut common::Random, i: usize| match random.below(4) {
            0 => random.below(n),
            1 => i.saturating_sub(random.below(reach)),
            _ => (i + 1 + random.below(reach)).min(n - 1),
        };
        let succ: Vec<Vec<usize>> =
            (0..n).map(|i| (0..random.below(degree + 2)).map(|_| target(&mut random, i)).collect()).collect();
        let module = module_with(&succ);
        let cfg = Cfg::new(&module, &module.functions[0]);
        check_dominators_by_petgraph(&cfg, &format!("round {round}"));
    }
}

fn check_frontiers(succ: &[Set], cfg: &Cfg) {
    let n = succ.len();
    let (pred, frontiers) = (turned(succ), Frontiers::new(cfg.graph(), cfg.dom()));
    let reached: Vec<usize> = (0..n).filter(|b| cfg.is_reachable(*b)).collect();
    for &a in &reached {
        let in_frontier = |j: &usize| {
            let over_pred = reached.iter().any(|p| pred[*j] & bit(*p) != 0 && cfg.dominates(a, *p));
            over_pred && !(cfg.dominates(a, *j) && a != *j)
        };
        let expected: Vec<_> = reached.iter().copied().filter(in_frontier).collect();
        let mut got = frontiers.of(a).to_vec();
        got.sort_unstable();
        assert_eq!(got, expected, "frontier of {a}: {succ:x?}");
    }
}

/// Everything after the edges that lead to the virtual exit have been checked is the definition again.
fn check_post(succ: &[Set], cfg: &Cfg) {
    let n = succ.len();
    let post = PostDoms::new(cfg);
    let mut full: Vec<Set> = succ.to_vec();
    full.push(0);
    (0..n).filter(|b| succ[*b] == 0).for_each(|b| full[b] |= bit(n));
    let back = turned(&full);
    let leaves = reach(&back, n, 0);
    // Endless loops: exactly one block of each set that is strongly connected and has no way out.
    for &e in post.endless() {
        let scc = reach(succ, e, 0);
        assert_eq!(leaves & scc, 0, "{e} is not in an endless loop: {succ:x?}");
        assert!((0..n).all(|b| scc & bit(b) == 0 || reach(succ, b, 0) == scc), "{e} is not in a sink: {succ:x?}");
        assert_eq!(post.endless().iter().filter(|o| scc & bit(**o) != 0).count(), 1, "two in one sink: {succ:x?}");
        full[e] |= bit(n);
    }
    let back = turned(&full);
    assert_eq!(reach(&back, n, 0).count_ones() as usize, n + 1, "a block can't reach the exit: {succ:x?}");
    let edges: Vec<_> =
        (0..=n).flat_map(|a| (0..=n).map(move |b| (a, b))).filter(|(a, b)| back[*a] & bit(*b) != 0).collect();
    let tree = DomTree::new(&Graph::new(n + 1, &edges), n);
    let dominates = |a: usize, b: usize| if a < n && b < n { post.postdominates(a, b) } else { tree.dominates(a, b) };
    check_dominators(&back, n, dominates, &tree, "post-dominators");
    for b in 0..n {
        assert_eq!(post.ipdom(b), tree.idom(b).filter(|d| *d != n), "{succ:x?}");
    }

    let deps = ControlDeps::new(&post);
    for b in 0..n {
        let controls = |a: &usize| {
            let over = (0..=n).any(|s| full[*a] & bit(s) != 0 && dominates(b, s));
            over && !(dominates(b, *a) && b != *a)
        };
        let expected: Vec<usize> = (0..n).filter(controls).collect();
        let mut got = deps.controllers(b).to_vec();
        got.sort_unstable();
        assert_eq!(got, expected, "controllers of {b}: {succ:x?}");
        assert!((0..n).all(|a| deps.controlled(a).contains(&b) == expected.contains(&a)), "{succ:x?}");
        let mut all: Vec<usize> = expected;
        for i in 0.. {
            let Some(&c) = all.get(i) else { break };
            let more: Vec<_> = deps.controllers(c).iter().copied().filter(|m| !all.contains(m)).collect();
            all.extend(more);
        }
        all.sort_unstable();
        assert_eq!(deps.iterated_controllers([b]), all, "{succ:x?}");
    }
}

fn check_rpo(succ: &[Set], cfg: &Cfg) {
    let mut seen: Set = 0;
    for (i, &b) in cfg.rpo().iter().enumerate() {
        assert_eq!(cfg.rpo_index(b), Some(i));
        // What goes back in reverse post-order goes to a block from which this one was reached.
        for p in cfg.predecessors(b).iter().filter(|p| cfg.is_reachable(**p) && seen & bit(**p) == 0) {
            assert_ne!(reach(succ, b, 0) & bit(*p), 0, "{p} before {b} in {:?}: {succ:x?}", cfg.rpo());
        }
        seen |= bit(b);
    }
    assert_eq!(seen, if succ.is_empty() { 0 } else { reach(succ, 0, 0) });
}

/// The strongly connected sets with at least one edge inside, of the graph `succ` on the nodes `among`.
fn knots(succ: &[Set], among: Set) -> Vec<Set> {
    let inner: Vec<Set> = (0..succ.len()).map(|n| if among & bit(n) != 0 { succ[n] & among } else { 0 }).collect();
    let mut found = Vec::new();
    let mut left = among;
    while left != 0 {
        let n = left.trailing_zeros() as usize;
        let forward = reach(&inner, n, 0);
        let scc = (0..succ.len())
            .filter(|m| forward & bit(*m) != 0 && reach(&inner, *m, 0) & bit(n) != 0)
            .fold(0, |a, m| a | bit(m));
        left &= !scc;
        if inner[n] & scc != 0 {
            found.push(scc);
        }
    }
    found
}

fn check_loops(succ: &[Set], cfg: &Cfg) {
    let n = succ.len();
    let loops = Loops::new(cfg);
    let pred = turned(succ);
    let reached = if n == 0 { 0 } else { reach(succ, 0, 0) };
    let set = |l: usize| loops.blocks(l).iter().fold(0, |acc, b| acc | bit(*b));
    // Natural loops by their definition: back edges to a dominator, and what reaches them without the header. An
    // irreducible loop may have the header of one and swallow it.
    for h in 0..n {
        let latches = (0..n).filter(|t| reached & bit(*t) != 0 && succ[*t] & bit(h) != 0 && cfg.dominates(h, *t));
        let body = latches.clone().fold(bit(h), |acc, t| acc | reach(&pred, t, bit(h))) & reached;
        let found = (0..loops.all().len()).find(|l| loops.all()[*l].header == h);
        let natural = found.is_some_and(|l| loops.all()[l].is_natural());
        assert!(!natural || latches.clone().count() > 0, "no natural loop at {h}: {succ:x?}");
        if natural || (loops.all_natural() && latches.count() > 0) {
            let l = found.unwrap_or_else(|| panic!("no loop at {h}: {succ:x?}"));
            assert_eq!(set(l), body, "blocks of the loop at {h}: {succ:x?}");
        }
    }
    // All loops: each is strongly connected within its parent without the parent's header, and none is missing.
    let mut expected = vec![(reached, None)];
    expected.extend((0..loops.all().len()).map(|l| (set(l) & !bit(loops.all()[l].header), Some(l))));
    for (among, parent) in expected {
        let mut inner = knots(succ, among);
        let mut got: Vec<Set> = (0..loops.all().len()).filter(|l| loops.all()[*l].parent == parent).map(set).collect();
        inner.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, inner, "loops inside {parent:?}: {succ:x?}");
    }
    for (i, l) in loops.all().iter().enumerate() {
        let mut entries: Vec<_> =
            (0..n).filter(|b| set(i) & bit(*b) != 0 && (*b == 0 || pred[*b] & reached & !set(i) != 0)).collect();
        let mut got = l.entries.clone();
        assert_eq!(got[0], l.header);
        got.sort_unstable();
        entries.sort_unstable();
        assert_eq!(got, entries, "entries: {succ:x?}");
        assert_eq!(l.depth, l.parent.map_or(0, |p| loops.all()[p].depth + 1));
        assert!((0..n).all(|b| loops.contains(i, b) == (set(i) & bit(b) != 0)));
        assert!(loops.latches(cfg, i).all(|t| set(i) & bit(t) != 0 && succ[t] & bit(l.header) != 0));
        assert!(
            loops.exits(cfg, i).all(|(a, b)| set(i) & bit(a) != 0 && set(i) & bit(b) == 0 && succ[a] & bit(b) != 0)
        );
    }
    for b in 0..n {
        let deepest = (0..loops.all().len()).filter(|l| set(*l) & bit(b) != 0).max_by_key(|l| loops.all()[*l].depth);
        assert_eq!(loops.innermost(b), deepest, "innermost loop of {b}: {succ:x?}");
        assert_eq!(loops.depth(b), deepest.map_or(0, |l| loops.all()[l].depth + 1));
    }
}

fn check(succ: &[Set]) {
    let module = module_of(succ);
    let cfg = Cfg::new(&module, &module.functions[0]);
    assert_eq!(masks(&cfg), succ);
    let edges: usize = succ.iter().map(|s| s.count_ones() as usize).sum();
    assert_eq!((0..cfg.len()).map(|b| cfg.edges(b).len()).sum::<usize>(), edges);
    let to_entry = succ.iter().filter(|s| **s & 1 != 0).count();
    assert_eq!(cfg.problems().len(), to_entry, "only branches to the entry block are wrong");
    for b in 0..cfg.len() {
        assert_eq!(cfg.predecessors(b).iter().fold(0, |a, p| a | bit(*p)), turned(succ)[b]);
        assert_eq!(cfg.label(b).and_then(|l| cfg.block(l)), Some(b));
    }
    check_rpo(succ, &cfg);
    if !succ.is_empty() {
        check_dominators(succ, 0, |a, b| cfg.dominates(a, b), cfg.dom(), "dominators");
    }
    check_frontiers(succ, &cfg);
    check_post(succ, &cfg);
    check_loops(succ, &cfg);
}

#[test]
fn every_graph_of_up_to_four_blocks() {
    for n in 0..=4usize {
        for code in 0..1u64 << (n * n) {
            let succ: Vec<Set> = (0..n).map(|i| code >> (i * n) & ((1 << n) - 1)).collect();
            check(&succ);
        }
    }
}

#[test]
fn random_graphs() {
    let mut random = common::Random(0x5EED);
    for round in 0..3000 {
        let n = 5 + random.below(20);
        let degree = 1 + round % 3;
        let succ: Vec<Set> = (0..n)
            .map(|_| (0..random.below(degree + 2)).map(|_| bit(random.below(n))).fold(0, |acc, b| acc | b))
            .collect();
        check(&succ);
    }
}

/// Graphs in which most edges lead a short way forward and some back: deep trees, unlike uniformly random ones.
#[test]
fn random_long_graphs() {
    let mut random = common::Random(0xD00D);
    for _ in 0..1500 {
        let n = 8 + random.below(17);
        let succ: Vec<Set> = (0..n)
            .map(|i| {
                let ahead = bit((i + 1 + random.below(3)).min(n - 1));
                let other = match random.below(5) {
                    0 => bit(i.saturating_sub(random.below(6))),
                    1 => bit((i + 2).min(n - 1)),
                    2 => bit(n - 1),
                    _ => 0,
                };
                if i == n - 1 && random.below(2) == 0 { 0 } else { ahead | other }
            })
            .collect();
        check(&succ);
    }
}

#[test]
fn large_graphs_take_no_stack_and_little_time() {
    // A ladder: each block goes to the next or to a common end. Then half as many nested loops that never end.
    let n = 100_000;
    let ladder: Vec<Vec<usize>> = (0..n).map(|i| if i + 1 < n { vec![i + 1, n - 1] } else { vec![] }).collect();
    let back = |i: usize| if i < n / 2 { None } else { Some(n - i) };
    let nested: Vec<Vec<usize>> =
        (0..n).map(|i| back(i).into_iter().chain(Some(i + 1).filter(|t| *t < n)).collect()).collect();
    for (succ, depth) in [(ladder, 0), (nested, n / 2)] {
        let m = module_with(&succ);
        let cfg = Cfg::new(&m, &m.functions[0]);
        assert_eq!(cfg.idom(n / 2), Some(n / 2 - 1));
        assert_eq!(Loops::new(&cfg).depth(n / 2), depth);
        let post = PostDoms::new(&cfg);
        assert!(post.postdominates(n - 1, n / 2));
        assert_eq!(post.endless(), if depth == 0 { vec![] } else { vec![n - 1] });
    }
}

fn file(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels").join(name);
    binary::read(&std::fs::read(&path).expect("readable")).expect("a module")
}

#[test]
fn loops_and_constructs_of_a_real_kernel() {
    let module = file("gemm_tutorial.spv");
    for function in &module.functions {
        let cfg = Cfg::new(&module, function);
        assert_eq!(cfg.problems(), []);
        let (loops, constructs) = (Loops::new(&cfg), Constructs::new(&cfg));
        assert!(loops.all_natural());
        let merges = (0..cfg.len()).filter_map(|b| Some((b, cfg.merge(b)?)));
        for (b, m) in merges.filter(|(_, m)| m.is_loop) {
            let l = loops.all().iter().position(|l| l.header == b).expect("a loop where OpLoopMerge is");
            let continue_target = m.continue_target.expect("it exists");
            let part = |kind| constructs.all().iter().find(|c| c.header == b && c.kind == kind).expect("declared");
            let (body, cont) = (part(ConstructKind::Loop), part(ConstructKind::Continue));
            assert_eq!(cont.first, continue_target);
            assert!(constructs.contains(body, b) && constructs.contains(cont, continue_target));
            for &block in loops.blocks(l) {
                assert!(constructs.contains(body, block) || constructs.contains(cont, block));
            }
            assert!(loops.latches(&cfg, l).all(|t| constructs.contains(cont, t)));
            let merge = m.merge.expect("it exists");
            assert!(!constructs.contains(body, merge) && !constructs.contains(cont, merge));
            assert!(constructs.blocks(cont).all(|x| constructs.contains(cont, x)));
        }
    }
    let all: Vec<_> = module.functions.iter().map(|f| Loops::new(&Cfg::new(&module, f)).all().len()).collect();
    assert!(all.iter().sum::<usize>() >= 3, "the kernel has nested loops: {all:?}");
}

/// Every function of every module at hand against the definitions, where it has at most 63 blocks.
#[test]
fn functions_of_real_modules() {
    let (mut small, mut large) = (0, 0);
    for path in common::all_modules() {
        let module = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
        for function in &module.functions {
            let cfg = Cfg::new(&module, function);
            assert_eq!(cfg.problems(), [], "{}", path.display());
            let shader = module.has_capability(Capability::Shader);
            assert!(!shader || Loops::new(&cfg).all_natural(), "{}: shaders are reducible", path.display());
            if cfg.len() > 63 {
                large += 1;
                check_dominators_by_petgraph(&cfg, &path.display().to_string());
                continue;
            }
            small += 1;
            let succ = masks(&cfg);
            check_rpo(&succ, &cfg);
            if small % 8 == 0 || cfg.len() < 20 {
                check_dominators(&succ, 0, |a, b| cfg.dominates(a, b), cfg.dom(), "dominators");
                check_post(&succ, &cfg);
                check_loops(&succ, &cfg);
                check_frontiers(&succ, &cfg);
            }
        }
    }
    assert!(small > 20, "{small} functions of up to 63 blocks, {large} larger ones");
}

#[test]
fn switch_cases_keep_their_values() {
    // Three targets, of which block 1 is both default and case 0.
    let mut m = module_of(&[0b1110, 0, 0, 0]);
    let last = m.functions[0].blocks[0].insts[0];
    m.inst_mut(last).operands[3] = Operand::Id(id(1));
    let cfg = Cfg::new(&m, &m.functions[0]);
    assert_eq!(cfg.successors(0), [1, 3]);
    let cases: Vec<_> = cfg.edges(0).iter().map(|e| (e.to, e.case)).collect();
    assert_eq!(cases, [(1, Case::Default), (1, Case::Value(0)), (3, Case::Value(1))]);
    assert_eq!(cfg.predecessors(1), [0]);
}

#[test]
fn wide_switch_literals() {
    let mut m = module_of(&[0b1110, 0, 0, 0]);
    let (u64_, selector) = (id(910), id(911));
    m.add(Inst::new(Op::TypeInt, None, Some(u64_), [Operand::Word(64), Operand::Word(0)]));
    m.add(Inst::new(Op::Undef, Some(u64_), Some(selector), []));
    let last = m.functions[0].blocks[0].insts[0];
    let words = [Operand::Id(selector), Operand::Id(id(1)), Operand::Word(7), Operand::Word(1), Operand::Id(id(2))];
    m.inst_mut(last).operands = words.into_iter().collect();
    let cfg = Cfg::new(&m, &m.functions[0]);
    assert_eq!(cfg.edges(0)[1].case, Case::Value(1 << 32 | 7));
    assert_eq!(cfg.successors(0), [1, 2]);
}

fn defects(m: &Module) -> Vec<CfgDefect> {
    Cfg::new(m, &m.functions[0]).problems().iter().map(|p| p.defect).collect()
}

#[test]
fn malformed_graphs_are_recorded() {
    let base = || module_of(&[0b10, 0b100, 0]);
    let mut m = base();
    let last = m.functions[0].blocks[1].insts[0];
    m.inst_mut(last).operands[0] = Operand::Id(id(500));
    assert_eq!(defects(&m), [CfgDefect::NoLabel(id(500))]);

    m.add(Inst::new(Op::Label, None, Some(id(501)), []));
    m.inst_mut(last).operands[0] = Operand::Id(id(501));
    assert_eq!(defects(&m), [CfgDefect::OtherFunction(id(501))]);

    m.inst_mut(last).operands[0] = Operand::Id(id(0));
    assert_eq!(defects(&m), [CfgDefect::ToEntry(id(0))]);

    m.inst_mut(last).operands.clear();
    assert_eq!(defects(&m), [CfgDefect::NoTarget]);
    m.inst_mut(last).operands.push(Operand::Word(0));
    assert_eq!(defects(&m), [CfgDefect::NoTarget]);

    let mut m = base();
    m.functions[0].blocks[1].insts.clear();
    assert_eq!(defects(&m), [CfgDefect::NoTerminator(Some(id(1)))]);

    let mut m = base();
    let label = m.functions[0].blocks[0].label;
    m.functions[0].blocks[2].label = label;
    assert_eq!(defects(&m)[0], CfgDefect::SameLabel(id(0)));
}

#[test]
fn a_terminator_beyond_the_grammar_may_branch() {
    let mut m = module_of(&[0b10, 0b100, 0]);
    let last = m.functions[0].blocks[0].insts[0];
    let mut odd = Inst::new(Op(9999), None, None, [Operand::Word(77), Operand::Word(3)]);
    odd.opaque = true;
    m.replace(last, odd);
    let cfg = Cfg::new(&m, &m.functions[0]);
    assert_eq!(cfg.problems(), []);
    assert_eq!(cfg.edges(0).iter().map(|e| (e.to, e.case)).collect::<Vec<_>>(), [(2, Case::Possible)]);
    assert!(!cfg.is_reachable(1));
}
