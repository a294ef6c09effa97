//! Checks on random flow graphs that the statements visit the same nodes.

use super::graph::{Arm, Flow, Node, Selector, Var};
use super::statements::{Branch, Stmt, build};
use coop_ir::Id;
use coop_ir::hash::FxHashMap;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Makes a graph in which every node can reach the last one, which ends the function.
fn random(r: &mut Random) -> Flow {
    let n = 2 + r.below(14);
    let wild = r.below(3);
    let mut nodes = Vec::new();
    for b in 0..n {
        let mut to: Vec<usize> = Vec::new();
        if b + 1 < n {
            to.push(b + 1 + r.below((n - b - 1).min(3)));
            for _ in 0..r.below(3) {
                // No edge leads to the entry.
                let t = if wild > 0 { 1 + r.below(n - 1) } else { b + 1 + r.below(n - b - 1) };
                if !to.contains(&t) {
                    to.push(t);
                }
            }
        }
        // Which arm is the one that leads on differs.
        if to.len() > 1 && r.below(2) == 0 {
            to.swap(0, 1);
        }
        let c = Id::new(b as u32 + 1).expect("not 0");
        let on = match to.len() {
            0 | 1 => Selector::Always,
            2 => Selector::Condition(c),
            _ => Selector::Switch(c, 1),
        };
        let last = to.len().saturating_sub(1);
        let arm = |(i, t): (usize, &usize)| Arm {
            values: if i == last { Vec::new() } else { vec![[i as u32, 0]] },
            default: i == last,
            ..Arm::always(*t)
        };
        nodes.push(Node { block: Some(b), on, arms: to.iter().enumerate().map(arm).collect() });
    }
    Flow::of(nodes)
}

/// Returns the arm that a node takes at this visit.
fn decision(salt: u64, node: usize, step: usize, arms: usize) -> usize {
    Random(salt ^ (node as u64) << 32 ^ step as u64).below(arms * 7) % arms
}

const STEPS: usize = 60;

fn walk(flow: &Flow, salt: u64) -> Vec<usize> {
    let (mut at, mut trace) = (0, Vec::new());
    while trace.len() < STEPS {
        trace.push(at);
        let node = &flow.nodes[at];
        match node.arms.len() {
            0 => break,
            n => at = node.arms[decision(salt, at, trace.len(), n)].to,
        }
    }
    trace
}

enum End {
    Fell,
    Broke,
    Continued,
    /// The limit of steps was reached.
    Stopped,
}

struct Run<'a> {
    salt: u64,
    arms: &'a [usize],
    trace: Vec<usize>,
    variables: FxHashMap<Var, u32>,
    /// The number of forks on a variable that was not assigned in this list or above.
    forks_on_unset: usize,
}

impl Run<'_> {
    fn chosen(&self, on: Selector, branches: &[Branch]) -> Option<usize> {
        let value = match on {
            Selector::Variable(v) => *self.variables.get(&v)?,
            Selector::Always => return None,
            Selector::Condition(_) | Selector::Switch(..) => {
                let node = *self.trace.last()?;
                let c = match on {
                    Selector::Condition(c) | Selector::Switch(c, _) => c.get() as usize - 1,
                    _ => node,
                };
                assert_eq!(c, node, "a fork is decided by the block before it");
                let taken = decision(self.salt, node, self.trace.len(), self.arms[node]);
                if matches!(on, Selector::Condition(_)) {
                    return Some(taken);
                }
                taken as u32
            }
        };
        let hit = branches.iter().position(|b| b.values.iter().any(|v| v[0] == value));
        hit.or_else(|| branches.iter().position(|b| b.default))
    }

    fn list(&mut self, body: &[Stmt]) -> End {
        for stmt in body {
            if self.trace.len() >= STEPS {
                return End::Stopped;
            }
            let end = match stmt {
                Stmt::Block(b) => {
                    self.trace.push(*b);
                    End::Fell
                }
                Stmt::Set(v, n) => {
                    self.variables.insert(*v, *n);
                    End::Fell
                }
                Stmt::Choose(v, c, yes, no) => {
                    let node = *self.trace.last().expect("a block decided");
                    assert_eq!(c.get() as usize - 1, node);
                    let taken = decision(self.salt, node, self.trace.len(), 2);
                    self.variables.insert(*v, if taken == 0 { *yes } else { *no });
                    End::Fell
                }
                Stmt::Fork(on, branches) => match self.chosen(*on, branches) {
                    Some(i) => self.list(&branches[i].body),
                    None => {
                        self.forks_on_unset += 1;
                        End::Stopped
                    }
                },
                Stmt::Loop(body) => loop {
                    match self.list(body) {
                        End::Broke => break End::Fell,
                        End::Stopped => break End::Stopped,
                        End::Fell | End::Continued => {}
                    }
                },
                Stmt::Break => End::Broke,
                Stmt::Continue => End::Continued,
            };
            if !matches!(end, End::Fell) {
                return end;
            }
        }
        End::Fell
    }
}

/// Counts the occurrences of each block in the statements.
fn count(body: &[Stmt], counts: &mut Vec<usize>) {
    for stmt in body {
        match stmt {
            Stmt::Block(b) => counts[*b] += 1,
            Stmt::Fork(_, branches) => branches.iter().for_each(|b| count(&b.body, counts)),
            Stmt::Loop(body) => count(body, counts),
            _ => {}
        }
    }
}

#[test]
fn statements_pass_the_nodes_that_the_flow_passes() {
    let mut r = Random(1);
    let (mut wild, mut forks) = (0, 0);
    for case in 0..4_000 {
        let mut flow = random(&mut r);
        let before = flow.clone();
        let body = build(&mut flow).expect("not deep");
        wild += usize::from(flow.entry_variables() > 0);
        let arms: Vec<usize> = before.nodes.iter().map(|n| n.arms.len()).collect();
        let mut counts = vec![0; arms.len()];
        count(&body, &mut counts);
        let reached = before.reached();
        for (b, n) in counts.iter().enumerate() {
            assert_eq!(*n, usize::from(reached.contains(&b)), "case {case}: block {b} in {body:#?}");
        }
        for salt in 0..8 {
            let wanted = walk(&before, salt * 977 + case);
            let mut run = Run {
                salt: salt * 977 + case,
                arms: &arms,
                trace: Vec::new(),
                variables: FxHashMap::default(),
                forks_on_unset: 0,
            };
            run.list(&body);
            assert_eq!(run.trace, wanted, "case {case}: {before:#?}\n{body:#?}");
            assert_eq!(run.forks_on_unset, 0, "case {case}");
            forks += wanted.len();
        }
    }
    assert!(wild > 200, "{wild} irreducible graphs");
    assert!(forks > 100_000);
}

#[test]
fn a_chain_of_forks_is_refused_when_it_is_too_deep() {
    let end = 3000;
    let node = |b: usize| {
        let c = Id::new(b as u32 + 1).expect("not 0");
        if b >= end - 2 {
            return Node {
                block: Some(b),
                on: Selector::Always,
                arms: if b == end { vec![] } else { vec![Arm::always(end)] },
            };
        }
        let arms = vec![Arm::always(b + 2), Arm { default: false, ..Arm::always(b + 1) }];
        if b.is_multiple_of(2) {
            Node { block: Some(b), on: Selector::Condition(c), arms }
        } else {
            Node { block: Some(b), on: Selector::Always, arms: vec![Arm::always(end)] }
        }
    };
    let mut flow = Flow::of((0..=end).map(node).collect());
    assert!(build(&mut flow).is_err());
}
