//! Divergent control flow: the points at which invocations are diverged after a branch, and the point where they
//! reconverge.
//!
//! The invocations of a scope diverge at a branch whose condition differs within the scope. The *reconvergence point*
//! is the first point behind which they must be together again. The *region* of the branch is what can be reached
//! before that point, in this iteration of the loops around it or in another: only some invocations execute it, or they
//! execute it at different times.
//!
//! The reconvergence point of a branch is the first of these that every path reaches before it leaves the bound:
//!
//! 1. the merge block of a construct around the branch, innermost first. Nothing else in structured control flow makes
//!    invocations reconverge: neither a block to which several cases of a switch lead, nor a continue target, nor a
//!    block in front of a merge block declared later;
//! 2. the continue target of the loop around it, if the entry point has the mode MaximallyReconverges;
//! 3. without merge instructions, a post-dominator, provided that no path to it starts another iteration of a loop
//!    around it, or runs through a loop that can be entered at several blocks: an iteration of such a loop is not
//!    defined, and invocations do not wait at its end;
//! 4. the point behind the call of the function.
//!
//! A path that returns or ends the invocation leaves every construct; one that ends the invocation leaves every call.

use super::Assumptions;
use super::Uniformity;
use super::program::{NONE, Program};
use coop_ir::cfg::{Construct, ConstructKind};
use coop_ir::grammar::Op;
use smallvec::{SmallVec, smallvec};

/// The region of a branch.
pub(super) struct Region {
    /// The points of the region.
    pub(super) points: Vec<u32>,
    /// The reconvergence point.
    pub(super) reconvergence: Option<u32>,
}

/// The effects of branches on points and loops.
pub(super) struct Flow {
    /// The scope over which all invocations execute a point together.
    pub(super) points: Vec<Uniformity>,
    pub(super) points_assume: Vec<Assumptions>,
    /// The scope over which invocations reach a point along one edge.
    pub(super) joins: Vec<Uniformity>,
    pub(super) joins_assume: Vec<Assumptions>,
    /// The scope over which invocations leave a loop in the same iteration.
    pub(super) exits: Vec<Uniformity>,
    pub(super) exits_assume: Vec<Assumptions>,
}

impl Flow {
    pub(super) fn new(program: &Program) -> Flow {
        let (points, loops) = (program.points.len(), program.loops.len());
        Flow {
            points: vec![Uniformity::Workgroup; points],
            points_assume: vec![Assumptions::NONE; points],
            joins: vec![Uniformity::Workgroup; points],
            joins_assume: vec![Assumptions::NONE; points],
            exits: vec![Uniformity::Workgroup; loops],
            exits_assume: vec![Assumptions::NONE; loops],
        }
    }
}

/// The points and joins that a branch has changed.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) points: Vec<u32>,
    pub(super) joins: Vec<u32>,
    /// True if an exit of a loop changed.
    pub(super) exits: bool,
}

impl Changed {
    pub(super) fn any(&self) -> bool {
        self.exits || !self.points.is_empty() || !self.joins.is_empty()
    }
}

type HeadedConstructs<'a> = SmallVec<[&'a Construct; 2]>;

/// The bound of a region.
enum Bound<'a> {
    Construct {
        instance: u32,
        headed: HeadedConstructs<'a>,
    },
    /// Blocks that are not an entry of a loop around the reconvergence point.
    Iterations {
        instance: u32,
        entries: Vec<u32>,
    },
    CallInstance(u32),
    /// No bound.
    None,
}

/// The extent that invocations leave at the end of a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminates {
    Nothing,
    Function,
    All,
}

impl Terminates {
    fn of(program: &Program, s: u32) -> Terminates {
        match program.terminator_op(s) {
            Some(op) if op.ends_invocation() => Terminates::All,
            Some(Op::Return | Op::ReturnValue) => Terminates::Function,
            _ => Terminates::Nothing,
        }
    }
}

/// Finds regions.
pub(super) struct Regions<'p, 'm> {
    pub(super) program: &'p Program<'m>,
    /// For each edge, true if it can be taken.
    pub(super) taken: Vec<bool>,
    /// True if the entry point promises maximal reconvergence.
    pub(super) maximal: bool,
    /// For each point, the extent that invocations leave.
    terminates: Vec<Terminates>,
    stamp: u32,
    seen: Vec<u32>,
    work: Vec<u32>,
    /// The points that a walk has found; kept here to reuse the allocation.
    found: Vec<u32>,
    /// The number of points that may still be visited.
    pub(super) budget: u64,
}

impl<'p, 'm> Regions<'p, 'm> {
    pub(super) fn new(program: &'p Program<'m>, maximal: bool) -> Regions<'p, 'm> {
        Regions {
            program,
            taken: vec![false; program.edges.len()],
            maximal,
            terminates: (0..program.points.len() as u32).map(|s| Terminates::of(program, s)).collect(),
            stamp: 0,
            seen: vec![0; program.points.len()],
            work: Vec::new(),
            found: Vec::new(),
            budget: 20_000_000,
        }
    }

    /// Returns the targets of the edges that can be taken; a point may come twice.
    pub(super) fn next(&self, s: u32) -> impl Iterator<Item = u32> + '_ {
        let taken = self.program.out(s).filter(|e| self.taken[*e as usize]);
        taken.map(|e| self.program.edge(e).to)
    }

    /// Returns true if more than one edge of a branch can be taken.
    pub(super) fn diverges(&self, s: u32) -> bool {
        let mut next = self.next(s);
        let first = next.next();
        next.any(|to| Some(to) != first)
    }

    /// Returns the region of a branch.
    pub(super) fn region(&mut self, x: u32) -> Region {
        let mut at = x;
        loop {
            let instance = self.program.point(at).instance;
            let block = self.program.point(at).block as usize;
            let body = self.program.body(instance);
            if let Some(post) = &body.post {
                let mut up = post.ipdom(block);
                while let Some(p) = up {
                    let reconvergence = self.program.first(instance, p);
                    if reconvergence != NONE
                        && let Some(r) = self.walk(x, reconvergence, &self.iteration_bound(instance, reconvergence))
                        && !r.points.iter().chain([&x]).any(|s| self.is_tangled(*s))
                    {
                        return r;
                    }
                    up = post.ipdom(p);
                }
            }
            // Starts at the dominators of the block, which have the merge instructions of the constructs around it.
            let mut header = Some(block);
            while let Some(h) = header {
                if let Some(r) = self.constructs_at(x, instance, block, h) {
                    return r;
                }
                header = body.constructs().structural().idom(h);
            }
            let top = &self.program.instances[instance as usize];
            if top.call == NONE {
                break;
            }
            if let Some(r) = self.walk(x, top.after, &Bound::CallInstance(instance)) {
                return r;
            }
            at = top.call;
        }
        let all = self.walk(x, NONE, &Bound::None);
        all.unwrap_or_else(|| unreachable!("nothing bounds it"))
    }

    /// Returns the region, if a construct with this header bounds it.
    fn constructs_at(&mut self, x: u32, instance: u32, block: usize, header: usize) -> Option<Region> {
        let body = self.program.body(instance);
        let headed: HeadedConstructs = body.headed(header).collect();
        if !headed.iter().any(|c| body.constructs().contains(c, block)) {
            return None;
        }
        if self.maximal
            && let Some(inner) = headed.iter().find(|c| c.kind == ConstructKind::Loop)
            && body.constructs().contains(inner, block)
            && let Some(target) = inner.continue_target
        {
            let reconvergence = self.program.first(instance, target);
            // Control that returns to the header without the continue target starts another iteration.
            let bound = Bound::Construct { instance, headed: smallvec![*inner] };
            if reconvergence != NONE
                && let Some(r) = self.walk(x, reconvergence, &bound)
                && !r.points.contains(&self.program.first(instance, header))
            {
                return Some(r);
            }
        }
        let reconvergence = self.program.first(instance, headed.first()?.merge?);
        if reconvergence == NONE {
            return None;
        }
        self.walk(x, reconvergence, &Bound::Construct { instance, headed })
    }

    /// Returns true if a point is in a loop that can be entered at several points.
    fn is_tangled(&self, s: u32) -> bool {
        let mut l = self.program.point(s).in_loop;
        while l != NONE {
            let of = &self.program.loops[l as usize];
            if of.entries.len() > 1 {
                return true;
            }
            l = of.parent;
        }
        false
    }

    /// Returns the bound of the loops around a reconvergence point that no merge instruction declares.
    fn iteration_bound(&self, instance: u32, reconvergence: u32) -> Bound<'static> {
        let mut entries = Vec::new();
        let mut l = self.program.point(reconvergence).in_loop;
        while l != NONE {
            entries.extend(&self.program.loops[l as usize].entries);
            l = self.program.loops[l as usize].parent;
        }
        entries.retain(|e| *e != reconvergence);
        Bound::Iterations { instance, entries }
    }

    /// Returns what is reached from a branch before `reconvergence`; `None` if a path leaves the bound.
    fn walk(&mut self, x: u32, reconvergence: u32, bound: &Bound) -> Option<Region> {
        self.stamp += 1;
        self.found.clear();
        self.work.clear();
        self.go_on(x);
        while let Some(s) = self.work.pop() {
            if s == reconvergence || self.seen[s as usize] == self.stamp {
                continue;
            }
            self.seen[s as usize] = self.stamp;
            self.budget = self.budget.saturating_sub(1);
            if !self.within(s, bound) {
                return None;
            }
            self.found.push(s);
            self.go_on(s);
        }
        let points = std::mem::take(&mut self.found);
        Some(Region { points, reconvergence: (reconvergence != NONE).then_some(reconvergence) })
    }

    /// Adds the successors of a point that were not seen in this walk to the work list.
    fn go_on(&mut self, s: u32) {
        for e in self.program.out(s) {
            let to = self.program.edge(e).to;
            if self.taken[e as usize] && self.seen[to as usize] != self.stamp {
                self.work.push(to);
            }
        }
    }

    fn within(&self, s: u32, bound: &Bound) -> bool {
        let program = self.program;
        let point = program.point(s);
        let dies = self.terminates[s as usize] == Terminates::All;
        let returns = |instance: u32| point.instance == instance && self.terminates[s as usize] == Terminates::Function;
        match bound {
            Bound::None => true,
            _ if dies => false,
            Bound::CallInstance(instance) => program.within_instance(point.instance, *instance),
            Bound::Iterations { instance, entries } => {
                program.within_instance(point.instance, *instance) && !returns(*instance) && !entries.contains(&s)
            }
            Bound::Construct { instance, headed } => {
                if point.instance != *instance {
                    return program.within_instance(point.instance, *instance);
                }
                let constructs = program.body(*instance).constructs();
                !returns(*instance) && headed.iter().any(|c| constructs.contains(c, point.block as usize))
            }
        }
    }

    /// Applies the effects of a branch at which invocations of a scope diverge, or may if an assumption fails.
    pub(super) fn apply(
        &mut self,
        flow: &mut Flow,
        (x, uniformity, assumes): (u32, Uniformity, Assumptions),
        changed: &mut Changed,
    ) {
        let region = self.region(x);
        let raise = |slot: &mut Uniformity, mask: &mut Assumptions| {
            let new = (uniformity.max(*slot), mask.and(assumes));
            let differs = new != (*slot, *mask);
            (*slot, *mask) = new;
            differs
        };
        for &s in &region.points {
            if raise(&mut flow.points[s as usize], &mut flow.points_assume[s as usize]) {
                changed.points.push(s);
            }
        }
        // The region, and the branch itself.
        self.stamp += 1;
        for &s in region.points.iter().chain([&x]) {
            self.seen[s as usize] = self.stamp;
        }
        for &s in region.points.iter().chain(&region.reconvergence) {
            if self.is_join(x, s, |from| self.seen[from as usize] == self.stamp)
                && raise(&mut flow.joins[s as usize], &mut flow.joins_assume[s as usize])
            {
                changed.joins.push(s);
            }
        }
        let mut l = self.program.point(x).in_loop;
        while l != NONE {
            let outside = region.reconvergence.is_none_or(|m| !self.program.in_loop(m, l));
            if outside && self.leaves_loop(x, l) {
                changed.exits |= raise(&mut flow.exits[l as usize], &mut flow.exits_assume[l as usize]);
            }
            l = self.program.loops[l as usize].parent;
        }
        self.found = region.points;
    }

    /// Returns true if paths from the branch reach a point along several edges, in one iteration of the loops around
    /// both. `inside` says whether a point is the branch or in its region.
    pub(super) fn is_join(&self, x: u32, s: u32, inside: impl Fn(u32) -> bool) -> bool {
        let program = self.program;
        if program.into(s).len() < 2 {
            return false;
        }
        let headed = program.headed_loop(s);
        let around_both = headed.is_some_and(|l| program.in_loop(x, l));
        let mut count = 0;
        let mut last = NONE;
        for &e in program.into(s) {
            let from = program.edge(e).from;
            if !self.taken[e as usize] || from == last || !inside(from) {
                continue;
            }
            let back = headed.is_some_and(|l| program.in_loop(from, l));
            let natural = headed.is_some_and(|l| program.loops[l as usize].entries.len() == 1);
            if headed.is_none() || !natural || back == around_both {
                count += 1;
                last = from;
            }
        }
        count > 1
    }

    /// Returns true if a path from the branch leaves a loop in the iteration in which it branched.
    fn leaves_loop(&mut self, x: u32, l: u32) -> bool {
        let program = self.program;
        let entries = &program.loops[l as usize].entries;
        let natural = entries.len() == 1;
        self.stamp += 1;
        self.work.clear();
        self.go_on(x);
        while let Some(s) = self.work.pop() {
            if self.seen[s as usize] == self.stamp {
                continue;
            }
            self.seen[s as usize] = self.stamp;
            self.budget = self.budget.saturating_sub(1);
            if !program.in_loop(s, l) {
                return true;
            }
            if natural && entries.contains(&s) {
                continue;
            }
            self.go_on(s);
        }
        false
    }
}
