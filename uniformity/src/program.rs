//! The control-flow graph of a whole entry point, with callees inlined at their calls.
//!
//! - A *call instance* is a function as it is called from one place; instance 0 is the entry point's. Recursive modules
//!   have no graph.
//! - A *point* is a part of a block: up to and with a call that is followed, or up to the terminator. Point 0 is the
//!   beginning of the entry point.
//! - Edges are those of the blocks, from a call to its callee's first point, and from the callee's returns to the point
//!   after the call. Only points that are reached exist.
//! - Loops are those of the functions; the loops of a call instance are inside the one around its call.
//!
//! Calls that would make the graph too large are not followed: see [`Program::unfollowed`].

use super::summary::Summary;
use coop_ir::cfg::{Case, Cfg, Cfgs, Construct, Constructs, Loops, PostDoms};
use coop_ir::entry::{CallGraph, CallKind};
use coop_ir::grammar::Op;
use coop_ir::{Function, IdIndex, InstRef, Module};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

pub(super) const NONE: u32 = u32::MAX;

/// The analyses of a function's blocks.
pub(super) struct Body<'m> {
    pub(super) cfg: Cow<'m, Cfg>,
    /// Made for functions in which invocations diverge at a branch.
    structure: OnceCell<Structure>,
    loops: Loops,
    /// For functions without merge instructions, which would say where control flow reconverges.
    pub(super) post: Option<PostDoms>,
}

/// The constructs of a function.
struct Structure {
    constructs: Constructs,
    /// For each block, the index of the first construct of which it is the header, or [`NONE`]: the constructs of a
    /// header are adjacent.
    headed: Vec<u32>,
}

impl<'m> Body<'m> {
    fn new(cfg: Cow<'m, Cfg>, structured: bool) -> Body<'m> {
        let unstructured = !structured && cfg.merges().next().is_none();
        let post = unstructured.then(|| PostDoms::new(&cfg));
        Body { loops: Loops::new(&cfg), structure: OnceCell::new(), post, cfg }
    }

    fn structure(&self) -> &Structure {
        self.structure.get_or_init(|| {
            let constructs = Constructs::new(&self.cfg);
            let mut headed = vec![NONE; self.cfg.len()];
            for (i, c) in constructs.all().iter().enumerate().rev() {
                headed[c.header] = i as u32;
            }
            Structure { constructs, headed }
        })
    }

    pub(super) fn constructs(&self) -> &Constructs {
        &self.structure().constructs
    }

    /// Returns the constructs with a header at this block.
    pub(super) fn headed(&self, block: usize) -> impl Iterator<Item = &Construct> {
        let Structure { constructs, headed } = self.structure();
        let all = constructs.all().get(headed[block] as usize..).unwrap_or_default();
        all.iter().take_while(move |c| c.header == block)
    }
}

pub(super) struct CallInstance {
    /// An index into [`Module::functions`].
    pub(super) function: usize,
    /// The point that ends with the call; [`NONE`] for the entry point.
    pub(super) call: u32,
    /// The point after the call.
    pub(super) after: u32,
    pub(super) parent: u32,
    depth: u32,
    /// The first point of each block, or [`NONE`].
    first: Vec<u32>,
    /// The index of its first loop in [`Program::loops`].
    loops: u32,
    /// The index of its first value.
    values: u32,
    /// The numbers of its function's values: see [`number_values`].
    numbers: Range<u32>,
}

impl CallInstance {
    /// Returns the index of the value with a number, unless it is another function's.
    #[inline]
    pub(super) fn slot(&self, number: u32) -> Option<u32> {
        self.numbers.contains(&number).then(|| self.values + (number - self.numbers.start))
    }
}

#[derive(Clone, Copy)]
pub(super) enum End {
    /// The block's terminator.
    Terminator,
    /// A call that is followed: the call instance.
    Call(u32),
}

pub(super) struct Point {
    pub(super) instance: u32,
    pub(super) block: u32,
    /// The instructions, as indices into the block's.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) end: End,
    /// The innermost loop, or [`NONE`].
    pub(super) in_loop: u32,
    edges: (u32, u32),
    preds: (u32, u32),
}

#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) case: Case,
}

pub(super) struct Loop {
    pub(super) parent: u32,
    pub(super) depth: u32,
    /// The points at which control enters.
    pub(super) entries: Vec<u32>,
}

/// The graph of an entry point.
pub(super) struct Program<'m> {
    pub(super) module: &'m Module,
    pub(super) calls: &'m CallGraph,
    /// The summaries of functions that need not be followed.
    pub(super) summaries: &'m [Option<Summary>],
    pub(super) bodies: Vec<Option<Body<'m>>>,
    pub(super) instances: Vec<CallInstance>,
    pub(super) points: Vec<Point>,
    pub(super) edges: Vec<Edge>,
    /// The indices of the edges into each point, by target.
    preds: Vec<u32>,
    pub(super) loops: Vec<Loop>,
    /// The points in reverse postorder.
    pub(super) order: Vec<u32>,
    /// The number of values of all call instances.
    pub(super) values: u32,
    /// Calls that were not followed, and the function called.
    pub(super) unfollowed: Vec<(InstRef, usize)>,
}

/// Returns the most instructions that the graph may have.
fn budget(module: &Module) -> usize {
    module.arena_len().saturating_mul(6) + 60_000
}

/// The universal limit on a function's parameters. More than these cost as much as instructions.
const MAX_PARAMS: usize = 255;

/// The most calls inside each other that are followed.
const MAX_DEPTH: u32 = 64;

impl<'m> Program<'m> {
    /// `numbers` has the numbers of each function's values.
    pub(super) fn new(
        module: &'m Module,
        calls: &'m CallGraph,
        cfgs: &'m Cfgs,
        summaries: &'m [Option<Summary>],
        entry: usize,
        numbers: &[Range<u32>],
    ) -> Program<'m> {
        let structured =
            module.enables(coop_ir::spv::Capability::Shader) || !module.enables(coop_ir::spv::Capability::Kernel);
        // A call splits a point, and copies its callee.
        let blocks: usize = module.functions.iter().map(|f| f.blocks.len()).sum();
        let mut bodies: Vec<Option<Body<'m>>> = Vec::new();
        bodies.resize_with(module.functions.len(), || None);
        let mut this = Program {
            module,
            calls,
            summaries,
            bodies,
            instances: Vec::new(),
            points: Vec::with_capacity(blocks + blocks / 3),
            edges: Vec::new(),
            preds: Vec::new(),
            loops: Vec::new(),
            order: Vec::new(),
            values: 0,
            unfollowed: Vec::new(),
        };
        let mut work = vec![(entry, NONE, NONE, 0u32)];
        let mut left = budget(module);
        let mut next = 0;
        // Call instances are numbered in the order of this list, so that a call can name its callee's before that exists.
        while let Some(&(function, call, parent, depth)) = work.get(next) {
            next += 1;
            let body = this.bodies[function].take();
            let cfg = || match cfgs.get(module, function) {
                Some(cfg) => Cow::Borrowed(cfg),
                None => Cow::Owned(Cfg::new(module, &module.functions[function])),
            };
            let body = body.unwrap_or_else(|| Body::new(cfg(), structured));
            this.instance(function, &body, (call, parent, depth), numbers[function].clone());
            this.points_of(calls, &body, &mut work, &mut left);
            this.bodies[function] = Some(body);
        }
        this.connect();
        this
    }

    fn instance(&mut self, function: usize, body: &Body, (call, parent, depth): (u32, u32, u32), numbers: Range<u32>) {
        let outer = if call == NONE { NONE } else { self.points[call as usize].in_loop };
        let base = self.loops.len() as u32;
        for l in body.loops.all() {
            let parent = l.parent.map_or(outer, |p| base + p as u32);
            let depth = if parent == NONE { 0 } else { self.loops[parent as usize].depth + 1 };
            self.loops.push(Loop { parent, depth, entries: Vec::new() });
        }
        let after = if call == NONE { NONE } else { call + 1 };
        let first = vec![NONE; body.cfg.len()];
        let (values, size) = (self.values, numbers.end - numbers.start);
        self.instances.push(CallInstance { function, call, after, parent, depth, first, loops: base, values, numbers });
        self.values += size;
    }

    /// Makes the points of the last call instance.
    fn points_of(&mut self, calls: &CallGraph, body: &Body, work: &mut Vec<(usize, u32, u32, u32)>, left: &mut usize) {
        let index = (self.instances.len() - 1) as u32;
        let (function, depth) = (self.instances[index as usize].function, self.instances[index as usize].depth);
        let base = self.instances[index as usize].loops;
        let outer = match self.instances[index as usize].call {
            NONE => NONE,
            call => self.points[call as usize].in_loop,
        };
        for &block in body.cfg.rpo() {
            let insts = &self.module.functions[function].blocks[block].insts;
            let in_loop = body.loops.innermost(block).map_or(outer, |l| base + l as u32);
            self.instances[index as usize].first[block] = self.points.len() as u32;
            let mut from = 0;
            let point = |from: usize, to: usize, end: End| Point {
                instance: index,
                block: block as u32,
                from: from as u32,
                to: to as u32,
                end,
                in_loop,
                edges: (0, 0),
                preds: (0, 0),
            };
            for (i, &r) in insts.iter().enumerate() {
                let inst = self.module.inst(r);
                if inst.op != Op::FunctionCall {
                    continue;
                }
                let Some(callee) = inst.callee().and_then(|id| calls.function(id)) else { continue };
                let (params, blocks) = (&self.module.functions[callee].params, &self.module.functions[callee].blocks);
                if blocks.is_empty() || self.summaries[callee].is_some() {
                    continue;
                }
                let insts: usize = blocks.iter().map(|b| b.insts.len() + 1).sum();
                let cost = insts + params.len().saturating_sub(MAX_PARAMS);
                if cost > *left || depth >= MAX_DEPTH {
                    self.unfollowed.push((r, callee));
                    continue;
                }
                *left -= cost;
                self.points.push(point(from, i + 1, End::Call(work.len() as u32)));
                work.push((callee, (self.points.len() - 1) as u32, index, depth + 1));
                from = i + 1;
            }
            self.points.push(point(from, insts.len(), End::Terminator));
        }
        for (i, l) in body.loops.all().iter().enumerate() {
            let first = &self.instances[index as usize].first;
            self.loops[base as usize + i].entries = l.entries.iter().map(|b| first[*b]).collect();
        }
    }

    fn connect(&mut self) {
        self.edges.reserve(self.points.len() + self.points.len() / 2);
        for s in 0..self.points.len() {
            let start = self.edges.len() as u32;
            self.out_edges(s as u32);
            self.points[s].edges = (start, self.edges.len() as u32);
        }
        let mut count = vec![0u32; self.points.len() + 1];
        self.edges.iter().for_each(|e| count[e.to as usize + 1] += 1);
        for i in 0..self.points.len() {
            count[i + 1] += count[i];
            self.points[i].preds = (count[i], count[i + 1]);
        }
        let mut next = count;
        self.preds = vec![0; self.edges.len()];
        for (i, e) in self.edges.iter().enumerate() {
            let slot = &mut next[e.to as usize];
            self.preds[*slot as usize] = i as u32;
            *slot += 1;
        }
        self.order = self.reverse_post_order();
    }

    fn out_edges(&mut self, from: u32) {
        let point = &self.points[from as usize];
        let instance = &self.instances[point.instance as usize];
        if let End::Call(callee) = point.end {
            let to = self.instances[callee as usize].first.first().copied().unwrap_or(NONE);
            if to != NONE {
                self.edges.push(Edge { from, to, case: Case::Always });
            }
            return;
        }
        let Some(body) = &self.bodies[instance.function] else { return };
        if let Some(inst) = self.terminator(from).map(|r| self.module.inst(r))
            && matches!(inst.op, Op::Return | Op::ReturnValue)
        {
            if instance.after != NONE {
                self.edges.push(Edge { from, to: instance.after, case: Case::Always });
            }
            return;
        }
        for e in body.cfg.edges(point.block as usize) {
            let to = instance.first[e.to];
            self.edges.push(Edge { from, to, case: e.case });
        }
    }

    fn reverse_post_order(&self) -> Vec<u32> {
        let mut seen = vec![false; self.points.len()];
        let mut post = Vec::with_capacity(self.points.len());
        let mut stack: Vec<(u32, u32)> = Vec::new();
        if !self.points.is_empty() {
            seen[0] = true;
            stack.push((0, self.points[0].edges.1));
        }
        // The last successor is visited first, so that the first one comes first in the reverse.
        while let Some((point, left)) = stack.last_mut() {
            if *left == self.points[*point as usize].edges.0 {
                post.push(*point);
                stack.pop();
                continue;
            }
            *left -= 1;
            let to = self.edges[*left as usize].to;
            if !std::mem::replace(&mut seen[to as usize], true) {
                let end = self.points[to as usize].edges.1;
                stack.push((to, end));
            }
        }
        post.reverse();
        post
    }

    pub(super) fn point(&self, s: u32) -> &Point {
        &self.points[s as usize]
    }

    pub(super) fn instance_of(&self, s: u32) -> &CallInstance {
        &self.instances[self.points[s as usize].instance as usize]
    }

    pub(super) fn function(&self, instance: u32) -> &'m Function {
        &self.module.functions[self.instances[instance as usize].function]
    }

    pub(super) fn body(&self, instance: u32) -> &Body<'m> {
        let body = &self.bodies[self.instances[instance as usize].function];
        body.as_ref().unwrap_or_else(|| unreachable!("a frame's function has a body"))
    }

    pub(super) fn insts(&self, s: u32) -> &'m [InstRef] {
        let point = self.point(s);
        let all = self.function(point.instance).blocks[point.block as usize].insts.as_slice();
        &all[point.from as usize..point.to as usize]
    }

    /// Returns the terminator at the end of a point, unless it ends with a call.
    pub(super) fn terminator(&self, s: u32) -> Option<InstRef> {
        match self.point(s).end {
            End::Call(_) => None,
            End::Terminator => self.insts(s).last().copied(),
        }
    }

    pub(super) fn terminator_op(&self, s: u32) -> Option<Op> {
        self.terminator(s).map(|r| self.module.inst(r).op)
    }

    /// Returns the edges out of a point, as indices.
    pub(super) fn out(&self, s: u32) -> Range<u32> {
        let (a, b) = self.point(s).edges;
        a..b
    }

    /// Returns the edges into a point, as indices.
    pub(super) fn into(&self, s: u32) -> &[u32] {
        let (a, b) = self.point(s).preds;
        &self.preds[a as usize..b as usize]
    }

    pub(super) fn edge(&self, e: u32) -> Edge {
        self.edges[e as usize]
    }

    /// Returns the first point of a block of a call instance.
    pub(super) fn first(&self, instance: u32, block: usize) -> u32 {
        self.instances[instance as usize].first[block]
    }

    /// Returns true if `instance` is `top` or was called from it, directly or indirectly.
    pub(super) fn within_instance(&self, mut instance: u32, top: u32) -> bool {
        let depth = self.instances[top as usize].depth;
        while self.instances[instance as usize].depth > depth {
            instance = self.instances[instance as usize].parent;
        }
        instance == top
    }

    /// Returns true if a point is in a loop or in one inside it.
    pub(super) fn in_loop(&self, s: u32, l: u32) -> bool {
        self.loop_within(self.point(s).in_loop, l)
    }

    /// Returns true if a loop (or none) is `outer` or inside it.
    pub(super) fn loop_within(&self, mut l: u32, outer: u32) -> bool {
        let depth = self.loops[outer as usize].depth;
        while l != NONE && self.loops[l as usize].depth > depth {
            l = self.loops[l as usize].parent;
        }
        l == outer
    }

    /// Returns the innermost loop of which a point is an entry, if it is one.
    pub(super) fn headed_loop(&self, s: u32) -> Option<u32> {
        let l = self.point(s).in_loop;
        (l != NONE && self.loops[l as usize].entries.contains(&s)).then_some(l)
    }

    /// Returns the label of a point's block.
    pub(super) fn label(&self, s: u32) -> InstRef {
        let point = self.point(s);
        self.function(point.instance).blocks[point.block as usize].label
    }
}

/// Returns the functions that instructions call implicitly (decode functions and such) and their callees. Their
/// instructions are not in any graph.
pub(super) fn callbacks(calls: &CallGraph, functions: usize) -> Vec<usize> {
    let direct = (0..functions).flat_map(|f| calls.calls(f));
    let roots = direct.filter(|c| c.kind == CallKind::Callback).map(|c| c.callee);
    calls.reachable(roots)
}

/// Numbers the values of all functions: returns the range of each function's numbers, and the number of each value. In
/// a malformed module a function may use or redefine another's values.
pub(super) fn number_values(module: &Module) -> (Vec<Range<u32>>, IdIndex) {
    let mut numbers = IdIndex::new(module);
    let mut count = 0;
    let mut ranges = Vec::with_capacity(module.functions.len());
    for f in &module.functions {
        let start = count;
        // In file order, one loop for all lists: this sees each instruction.
        for list in std::iter::once(&f.params[..]).chain(f.blocks.iter().map(|b| &b.insts[..])) {
            for &r in list {
                if let Some(id) = module.inst(r).result
                    && module.def(id) == Some(r)
                {
                    numbers.insert(id, count);
                    count += 1;
                }
            }
        }
        ranges.push(start..count);
    }
    (ranges, numbers)
}
