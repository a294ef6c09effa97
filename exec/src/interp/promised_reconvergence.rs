//! A function run with no more reconvergence than SPIR-V promises.
//!
//! Invocations that parted are *groups*. A group that comes to a block with a merge instruction opens a *construct*;
//! whoever of it comes to the merge block waits there, and when all groups of the construct have come or have left it
//! some other way, those that wait are one group again. A group that comes back to the header of a loop begins another
//! round of the same construct. Nothing else makes one group of two. Which group is next is decided by chance.

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
    /// Who has come to the merge block.
    arrived: Mask,
}

struct Group {
    node: u32,
    mask: Mask,
    /// The innermost construct that it is in.
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

    /// A number below `n`.
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

/// A group is gone from where it was: constructs without groups are over, and who waits at their ends goes on.
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

/// A part of a group, or those that waited, go to a node.
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
