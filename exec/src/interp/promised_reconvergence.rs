//! Runs a function with no more reconvergence than SPIR-V guarantees.
//!
//! Invocations that diverged are *groups*. A group that reaches a block with a merge instruction opens a *construct*.
//! Those of its invocations that reach the merge block wait there. When all groups of the construct have reached it or
//! have left the construct some other way, those that wait become one group again. A group that comes back to the
//! header of a loop begins another iteration of the same construct. Nothing else joins groups. Which group runs next is
//! random.

use super::code::Func;
use super::machine::{Machine, Stop};
use super::registers::Mask;

/// A construct that is being executed.
struct Construct {
    outer: Option<usize>,
    header: u32,
    merge: u32,
    /// Groups inside, those in inner constructs included.
    groups: usize,
    /// The invocations that have reached the merge block.
    arrived: Mask,
}

struct Group {
    node: u32,
    mask: Mask,
    /// The innermost construct that contains the group.
    inside: Option<usize>,
}

impl Machine<'_> {
    pub(super) fn apart(&mut self, f: &Func, mask: &Mask) -> Result<(), Stop> {
        let mut constructs: Vec<Construct> = Vec::new();
        let mut groups = vec![Group { node: f.entry, mask: *mask, inside: None }];
        let mut to = Vec::new();
        while !groups.is_empty() {
            let Group { node, mask, mut inside } = groups.swap_remove(self.chance(groups.len()));
            let n = &f.nodes[node as usize];
            let reopened = inside.is_some_and(|c| constructs[c].header == node);
            if let Some(merge) = n.merge.filter(|_| !reopened) {
                // In the outer ones the group is counted already.
                constructs.push(Construct { outer: inside, header: node, merge, groups: 1, arrived: Mask::EMPTY });
                inside = Some(constructs.len() - 1);
            }
            to.clear();
            self.node(f, node, mask, &mut to)?;
            for next in &to {
                go_on(f, &mut constructs, &mut groups, inside, *next);
            }
            leave(f, &mut constructs, &mut groups, inside);
        }
        Ok(())
    }

    /// Returns a random number below `n`.
    fn chance(&mut self, n: usize) -> usize {
        self.turns = self.turns.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.turns >> 33) as usize % n.max(1)
    }
}

/// Counts a group into a construct and those around it.
fn enter(constructs: &mut [Construct], from: Option<usize>) {
    let mut at = from;
    while let Some(c) = at {
        constructs[c].groups += 1;
        at = constructs[c].outer;
    }
}

/// Takes a group out of its construct and those around it. A construct without groups is closed, and the invocations
/// that wait at its merge block go on.
fn leave(f: &Func, constructs: &mut [Construct], groups: &mut Vec<Group>, from: Option<usize>) {
    let mut at = from;
    while let Some(c) = at {
        let construct = &mut constructs[c];
        construct.groups -= 1;
        let (outer, merge) = (construct.outer, construct.merge);
        if construct.groups == 0 && !construct.arrived.is_empty() {
            let mask = std::mem::replace(&mut construct.arrived, Mask::EMPTY);
            go_on(f, constructs, groups, outer, (merge, mask));
        }
        at = outer;
    }
}

/// Sends a part of a group, or those that waited, to a node.
fn go_on(
    f: &Func,
    constructs: &mut [Construct],
    groups: &mut Vec<Group>,
    inside: Option<usize>,
    (node, mask): (u32, Mask),
) {
    // The way back is no block: who takes it comes to the header.
    let node = f.nodes[node as usize].back.unwrap_or(node);
    let mut at = inside;
    while let Some(c) = at {
        let construct = &mut constructs[c];
        if construct.merge == node {
            construct.arrived.or(&mask);
            return;
        }
        if construct.header == node {
            break;
        }
        at = construct.outer;
    }
    let inside = at.or(inside);
    enter(constructs, inside);
    groups.push(Group { node, mask, inside });
}
