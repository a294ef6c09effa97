//! Runs a program: one workgroup after the other, all invocations of a workgroup in lock step by block.

use coop_ir::spv::Scope;
use std::time::Instant;

use coop_ir::{InstRef, Module, Op};

use super::Coverage;
use super::buffer_race::BufferRace;
use super::code::{Edge, Func, Ins, NO_ROW, Orders, Row, Term};
use super::error_bound;
use super::findings::{self, FindingKind, Findings, History};
use super::loop_counts::BlockCounts;
use super::memory_bounds::MemoryBounds;
use super::program::{Argument, Program};
use super::registers::{Mask, Regs, Unfit};
use super::shared_race::Race;
use super::taint::Taint;
use super::{Config, Memory, Reconvergence, base_address};

/// The reason why a run ended early.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// The instruction can't be run.
    Unsupported(String),
    /// The step budget ran out; a finding says so.
    Budget,
    /// The time limit is over.
    Time,
}

/// The number of instructions between two looks at the clock.
const CLOCK_STEPS: u64 = 1024;

/// The largest depth of calls. SPIR-V has no recursion, so only a malformed module has more.
pub(super) const MAX_DEPTH: usize = 128;

/// Buffers that are reused to avoid allocations.
#[derive(Default)]
pub(super) struct Scratch {
    pub values: [Vec<u64>; 3],
    pub taint: [Vec<Taint>; 3],
    pub floats: [Vec<f64>; 3],
    pub offsets: Vec<Option<i64>>,
}

/// A run.
pub(super) struct Machine<'p> {
    pub m: &'p Module,
    pub p: &'p Program,
    pub config: Config,
    pub regs: Regs,
    pub shared: Vec<u8>,
    /// True for each byte of shared memory that has a value.
    pub shared_set: Vec<bool>,
    /// The memory of each invocation, one after the other.
    pub own: Vec<u8>,
    pub own_taint: Vec<Taint>,
    /// Arguments by value, each with its offset in the memory of an invocation.
    values: Vec<(usize, Vec<u8>)>,
    pub race: Race,
    pub buffer_race: BufferRace,
    /// The accesses to each buffer within a workgroup: in symbolic runs all, since those of the case's data may be harmless where
    /// others are not; else those of stores of matrices.
    pub own_races: Vec<Race>,
    /// The memory that barriers of memory have ordered since the last barrier of control.
    fenced: Orders,
    pub buffers: &'p mut [Memory],
    pub push: Vec<u8>,
    pub findings: Findings,
    pub history: History,
    /// Invocations that ended without returning.
    pub dead: Mask,
    pub any_dead: bool,
    /// The instruction that executes.
    pub at: InstRef,
    pub steps: u64,
    pub limit: u64,
    /// The start of the run, and the step count of the next look at the clock.
    pub started: Instant,
    pub next_look: u64,
    /// Workgroups that have ended.
    pub ended: u64,
    pub depth: usize,
    /// The elements of one matrix, and their taints (empty: all are exact).
    pub tile: Vec<u64>,
    pub tile_taint: Vec<Taint>,
    /// The error bounds of numbers in memory.
    pub memory_bounds: MemoryBounds,
    pub scratch: Scratch,
    pub workgroup: [u32; 3],
    /// The coverage, if the configuration asks for it.
    pub coverage: Option<Coverage>,
    /// How often subgroups executed each block, in a run that counts them.
    pub blocks: Option<BlockCounts>,
    /// The random state that selects the next group of diverged invocations.
    pub turns: u64,
    /// The random state for values that other agents write.
    pub others: u64,
}

impl<'p> Machine<'p> {
    pub(super) fn new(
        m: &'p Module,
        p: &'p Program,
        config: Config,
        buffers: &'p mut [Memory],
        push: &[u8],
    ) -> Machine<'p> {
        let at = p.functions[p.entry].at.first().copied().or(m.globals.first().copied());
        let at = at.unwrap_or_else(|| unreachable!("a program with an entry point has instructions"));
        let mut regs = Regs::new(p.lanes, p.rows as usize);
        regs.probe = config.error_bounds.then(error_bound::probe);
        Machine {
            m,
            p,
            config,
            regs,
            shared: Vec::new(),
            shared_set: Vec::new(),
            own: Vec::new(),
            own_taint: Vec::new(),
            values: Vec::new(),
            race: Race::default(),
            buffer_race: BufferRace::default(),
            own_races: Vec::new(),
            fenced: Orders::default(),
            buffers,
            push: push.to_vec(),
            findings: Findings::default(),
            history: History::default(),
            dead: Mask::EMPTY,
            any_dead: false,
            at,
            steps: 0,
            limit: 0,
            started: Instant::now(),
            next_look: 0,
            ended: 0,
            depth: 0,
            tile: Vec::new(),
            tile_taint: Vec::new(),
            memory_bounds: MemoryBounds::default(),
            scratch: Scratch::default(),
            workgroup: [0; 3],
            coverage: config.coverage.then(|| Coverage::new(m.arena_len())),
            blocks: None,
            turns: match config.reconvergence {
                Reconvergence::Promised(seed) => seed,
                Reconvergence::Early => 0,
            },
            others: config.others.unwrap_or(0),
        }
    }

    /// Runs every workgroup.
    pub(super) fn dispatch(&mut self, workgroups: [u32; 3]) -> Result<(), Stop> {
        for (row, v, undef) in &self.p.constants {
            self.regs.fill(*row, *v, *undef);
        }
        for b in &self.p.bindings {
            let found = self.buffers.iter().position(|m| m.slot == Some((b.set, b.binding)));
            // Whether every binding has a buffer was checked before.
            self.regs.fill(b.row, found.map_or(0, base_address), false);
        }
        for row in &self.p.push {
            self.regs.fill(*row, base_address(super::PUSH_INDEX), false);
        }
        self.arguments();
        self.buffer_race = BufferRace::new(workgroups, self.buffers.len());
        for z in 0..workgroups[2] {
            for y in 0..workgroups[1] {
                for x in 0..workgroups[0] {
                    self.workgroup = [x, y, z];
                    self.start(workgroups);
                    let all = Mask::first(self.p.lanes);
                    self.limit = self.steps.saturating_add(self.config.step_budget);
                    // A workgroup that has nothing to do takes time too.
                    self.next_look = 0;
                    self.call(self.p.entry, &all)?;
                    self.ended += 1;
                }
            }
        }
        Ok(())
    }

    /// Sets the arguments of a kernel: see [`super::Interpreter::run`].
    fn arguments(&mut self) {
        let size = |argument: &Argument| match argument {
            Argument::Buffer => (8, 8),
            Argument::Number(n) => (*n as usize, *n as usize),
            Argument::Shared(_) => (0, 1),
            Argument::Value { bytes, align, .. } => (*bytes as usize, *align as usize),
        };
        let all = self.p.arguments.iter().fold(0, |at: usize, (_, argument)| match size(argument) {
            (0, _) => at,
            (n, align) => at.next_multiple_of(align) + n,
        });
        let addresses = self.push.len() >= all;
        self.values.clear();
        let (mut buffer, mut at) = (0, 0usize);
        for (row, argument) in &self.p.arguments {
            match argument {
                Argument::Shared(pointer) => self.regs.fill(*row, *pointer, false),
                Argument::Buffer if !addresses => {
                    self.regs.fill(*row, base_address(buffer), buffer >= self.buffers.len());
                    buffer += 1;
                }
                Argument::Value { bytes, align, offset } => {
                    at = at.next_multiple_of(*align as usize);
                    let value = self.push.get(at..at + *bytes as usize).map(<[u8]>::to_vec);
                    self.values.extend(value.map(|value| (*offset as usize, value)));
                    at += *bytes as usize;
                }
                _ => {
                    let (n, _) = size(argument);
                    at = at.next_multiple_of(n);
                    let value = self.push.get(at..at + n).map(super::num::number);
                    self.regs.fill(*row, value.unwrap_or(0), value.is_none());
                    at += n;
                }
            }
        }
    }

    /// Prepares a workgroup.
    fn start(&mut self, workgroups: [u32; 3]) {
        self.history.clear();
        self.buffer_race.next_workgroup();
        self.own_races.resize_with(self.buffers.len(), Race::default);
        let subgroups = self.p.lanes.div_ceil(self.p.subgroup);
        self.own_races.iter_mut().for_each(|race| race.next_workgroup(subgroups));
        self.fenced = Orders::default();
        self.dead = Mask::EMPTY;
        self.any_dead = false;
        self.regs.activate(&Mask::first(self.p.lanes));
        let size = self.p.shared_size as usize;
        self.shared.clear();
        self.shared.resize(size, 0);
        self.shared_set.clear();
        self.shared_set.resize(size, false);
        let own = self.p.own_size as usize;
        self.own.clear();
        self.own.resize(own * self.p.lanes, 0);
        self.own_taint.clear();
        self.own_taint.resize(own * self.p.lanes, Taint::Undefined);
        for lane in 0..self.p.lanes {
            for (offset, leaves, init) in &self.p.own_globals {
                let Some(init) = init else { continue };
                for leaf in leaves {
                    let (slot, bytes) = (leaf.slot as usize, usize::from(leaf.bytes));
                    if init.undef.get(slot).copied().unwrap_or(false) {
                        continue;
                    }
                    let first = lane * own + (*offset + leaf.offset) as usize;
                    let value = init.v.get(slot).copied().unwrap_or(0).to_le_bytes();
                    self.own[first..first + bytes].copy_from_slice(&value[..bytes]);
                    self.own_taint[first..first + bytes].fill(Taint::Exact);
                }
            }
            for (offset, value) in &self.values {
                let range = lane * own + offset..lane * own + offset + value.len();
                self.own[range.clone()].copy_from_slice(value);
                self.own_taint[range].fill(Taint::Exact);
            }
        }
        for v in self.p.shared.iter().filter(|v| v.zero) {
            self.shared_set[v.offset as usize..(v.offset + v.size) as usize].fill(true);
        }
        self.memory_bounds.forget_shared();
        if let Some(symbols) = &mut self.regs.symbols {
            symbols.start_workgroup();
        }
        self.race.reset(size, self.p.lanes.div_ceil(self.p.subgroup));
        for (row, n, init) in &self.p.privates {
            match init {
                Some(value) => {
                    for i in 0..*n {
                        let undef = value.undef.get(i as usize).copied().unwrap_or(false);
                        self.regs.fill(row + i, value.v.get(i as usize).copied().unwrap_or(0), undef);
                    }
                }
                None => self.regs.undefine(*row, *n),
            }
        }
        for (built_in, row, n) in &self.p.builtins {
            for i in 0..*n {
                for lane in 0..self.p.lanes {
                    let v = self.built_in(*built_in, i as usize, lane, workgroups);
                    self.regs.put(row + i, lane, v.unwrap_or(0));
                    self.regs.set_taint(row + i, lane, Taint::undefined_if(v.is_none()));
                }
            }
        }
    }

    fn built_in(&self, number: u32, i: usize, lane: usize, workgroups: [u32; 3]) -> Option<u64> {
        let size = self.p.local_size.map(|v| v as usize);
        let local = [lane % size[0], lane / size[0] % size[1], lane / (size[0] * size[1])];
        let group = self.workgroup.map(|v| v as usize);
        let axis = i.min(2);
        let global = |axis: usize| group[axis] * size[axis] + local[axis];
        let total = |axis: usize| workgroups[axis] as usize * size[axis];
        let (subgroup, member) = (lane / self.p.subgroup, lane % self.p.subgroup);
        let word = |keep: &dyn Fn(usize) -> bool| {
            (0..32).filter(|b| keep(i * 32 + b) && i * 32 + b < self.p.subgroup).fold(0u64, |v, b| v | 1 << b)
        };
        Some(match number {
            24 => u64::from(workgroups[axis]),
            25 | 32 => size[axis] as u64,
            26 => group[axis] as u64,
            27 => local[axis] as u64,
            28 => global(axis) as u64,
            29 => lane as u64,
            30 => 3,
            31 => total(axis) as u64,
            33 => 0,
            34 => ((global(2) * total(1) + global(1)) * total(0) + global(0)) as u64,
            36 | 37 => self.p.subgroup as u64,
            38 | 39 => self.p.lanes.div_ceil(self.p.subgroup) as u64,
            40 => subgroup as u64,
            41 => member as u64,
            4416 => word(&|b| b == member),
            4417 => word(&|b| b >= member),
            4418 => word(&|b| b > member),
            4419 => word(&|b| b <= member),
            4420 => word(&|b| b < member),
            // DeviceIndex, ViewIndex.
            4438 | 4440 => 0,
            _ => return None,
        })
    }

    /// Runs a function for some invocations until all of them have returned.
    pub(super) fn call(&mut self, index: usize, mask: &Mask) -> Result<(), Stop> {
        let f = &self.p.functions[index];
        if let Some(why) = &f.fail {
            return Err(Stop::Unsupported(format!("function {}: {why}", findings::name_of(self.m, self.p.ids[index]))));
        }
        if self.depth >= MAX_DEPTH {
            return Err(Stop::Unsupported("calls are nested too deeply".into()));
        }
        self.depth += 1;
        let chain = self.blocks.as_mut().filter(|_| self.depth > 1).map(|blocks| blocks.enter(self.at));
        self.regs.activate(mask);
        for (row, n, init) in &f.locals {
            match init {
                Some(src) => self.regs.copy(*row, *src, *n),
                None => self.regs.undefine(*row, *n),
            }
        }
        for (offset, size) in &f.own {
            for lane in self.regs.act.list.iter().map(|l| *l as usize) {
                let first = lane * self.p.own_size as usize + *offset as usize;
                self.own_taint[first..first + *size as usize].fill(Taint::Undefined);
            }
        }
        match self.config.reconvergence {
            Reconvergence::Early => self.together(f, mask)?,
            Reconvergence::Promised(_) => self.apart(f, mask)?,
        }
        if let (Some(blocks), Some(chain)) = (&mut self.blocks, chain) {
            blocks.leave(chain);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Runs a function; diverged invocations reconverge as early as possible.
    fn together(&mut self, f: &Func, mask: &Mask) -> Result<(), Stop> {
        let (mut node, mut here) = (f.entry, *mask);
        // Ascending from the end: the lowest node is the last.
        let mut waiting: Vec<(u32, Mask)> = Vec::new();
        loop {
            self.node(f, node, here, &mut waiting)?;
            match waiting.pop() {
                Some(next) => (node, here) = next,
                None => return Ok(()),
            }
        }
    }

    /// Runs a node for some invocations and appends their successors to `waiting`.
    pub(super) fn node(
        &mut self,
        f: &Func,
        node: u32,
        mut here: Mask,
        waiting: &mut Vec<(u32, Mask)>,
    ) -> Result<(), Stop> {
        self.regs.activate(&here);
        let n = &f.nodes[node as usize];
        self.steps += 1 + u64::from(n.code.end - n.code.start);
        if self.steps > self.limit {
            self.at = n.at;
            self.over_budget();
            return Err(Stop::Budget);
        }
        if self.steps >= self.next_look {
            self.next_look = self.steps + CLOCK_STEPS;
            self.look_at_clock()?;
        }
        if let Some(symbols) = &mut self.regs.symbols {
            *symbols.trace.blocks.entry(n.at).or_default() += 1;
            if n.back.is_some() {
                *symbols.trace.backs.entry(n.at).or_default() += 1;
            }
        }
        if let Some(blocks) = self.blocks.as_mut().filter(|_| n.back.is_none()) {
            blocks.add(n.at, &here, self.p.subgroup);
        }
        if let Some(scope) = n.phi_scope {
            self.at = n.at;
            self.converged(scope);
        }
        for i in n.code.start as usize..n.code.end as usize {
            self.at = f.at[i];
            if let Some(coverage) = &mut self.coverage {
                coverage.add(self.at, &self.regs.act.mask);
            }
            self.step(&f.code[i])?;
            self.note_lost();
        }
        if self.any_dead {
            here = here.minus(&self.dead);
            self.regs.activate(&here);
        }
        self.at = n.at;
        if !here.is_empty() {
            self.terminate(f, &n.term, &here, waiting)?;
        }
        Ok(())
    }

    fn terminate(&mut self, f: &Func, term: &Term, here: &Mask, waiting: &mut Vec<(u32, Mask)>) -> Result<(), Stop> {
        match term {
            Term::Go(edge) => self.go(edge, here, waiting),
            Term::If { cond, edges } => {
                self.decide(*cond, "the condition of a branch");
                let mut yes = Mask::EMPTY;
                for l in &self.regs.act.list {
                    if self.regs.get(*cond, *l as usize) != 0 {
                        yes.set(*l as usize);
                    }
                }
                let no = here.minus(&yes);
                if !yes.is_empty() && !no.is_empty() {
                    self.history.split(self.at, vec![yes, no]);
                }
                for (edge, mask) in edges.iter().zip([yes, no]) {
                    if !mask.is_empty() {
                        self.note_way(f, edge);
                        self.go(edge, &mask, waiting);
                    }
                }
            }
            Term::Switch { selector, cases, edges } => {
                self.decide(*selector, "the selector of a switch");
                // The first edge is the default.
                let mut masks = vec![Mask::EMPTY; edges.len()];
                for l in &self.regs.act.list {
                    let v = self.regs.get(*selector, *l as usize);
                    let to = cases.iter().find(|c| c.0 == v).map_or(0, |c| c.1 as usize);
                    masks[to].set(*l as usize);
                }
                if masks.iter().filter(|m| !m.is_empty()).count() > 1 {
                    self.history.split(self.at, masks.clone());
                }
                for (edge, mask) in edges.iter().zip(&masks) {
                    if !mask.is_empty() {
                        self.note_way(f, edge);
                        self.go(edge, mask, waiting);
                    }
                }
            }
            Term::Return { value } => {
                if *value != NO_ROW {
                    self.regs.copy(f.ret.0, *value, f.ret.1);
                }
                if self.depth == 1 {
                    self.history.returned(self.at, here);
                }
            }
            Term::Kill => {
                self.dead.or(here);
                self.any_dead = true;
                self.history.returned(self.at, here);
            }
            Term::Unreachable => {
                self.unreachable(here);
            }
            Term::Fail(why) => return Err(self.unsupported(why)),
        }
        Ok(())
    }

    /// Ends the invocations that reached an `OpUnreachable`.
    fn unreachable(&mut self, here: &Mask) {
        self.find(FindingKind::Unreachable, || "reached".into());
        self.dead.or(here);
        self.any_dead = true;
    }

    /// Records the way that a branch takes, in a symbolic run.
    fn note_way(&mut self, f: &Func, edge: &Edge) {
        let at = self.at;
        if let Some((symbols, node)) = self.regs.symbols.as_mut().zip(f.nodes.get(edge.to as usize)) {
            symbols.trace.ways.insert((at, node.at));
        }
    }

    fn go(&mut self, edge: &Edge, mask: &Mask, waiting: &mut Vec<(u32, Mask)>) {
        // At once, before the others go on: what they do without these is no fault of its own.
        if let Some(at) = edge.unreachable {
            let from = std::mem::replace(&mut self.at, at);
            self.unreachable(mask);
            self.at = from;
            return;
        }
        if !edge.phis.is_empty() {
            self.regs.activate(mask);
            for (dst, src, n) in &edge.phis {
                self.regs.copy(*dst, *src, *n);
            }
        }
        match waiting.binary_search_by(|w| edge.to.cmp(&w.0)) {
            Ok(i) => waiting[i].1.or(mask),
            Err(i) => waiting.insert(i, (edge.to, *mask)),
        }
    }

    /// Executes one instruction.
    fn step(&mut self, ins: &Ins) -> Result<(), Stop> {
        if error_bound::execute(&mut self.regs, ins) {
            if self.regs.divided_by_zero {
                self.regs.divided_by_zero = false;
                self.find(FindingKind::Undefined, || "an integer is divided by zero".into());
            }
            if let Some(Unfit { value, width, signed }) = self.regs.unfit.take() {
                let sign = if signed { 's' } else { 'u' };
                self.find(FindingKind::Undefined, || {
                    format!("{value} is converted to {sign}{width}, which does not have it")
                });
            }
            return Ok(());
        }
        match ins {
            Ins::Chain(chain) => self.chain(chain),
            Ins::Load { dst, ptr, access } => self.load(*dst, *ptr, access)?,
            Ins::Store { src, ptr, access } => self.store(*src, *ptr, access)?,
            Ins::CopyBytes { to, from, bytes } => self.copy_bytes(*to, *from, *bytes)?,
            Ins::ArrayLength { dst, ptr, offset, stride } => self.array_length(*dst, *ptr, *offset, *stride),
            Ins::Atomic { op, num, dst, ptr, value, comparator } => {
                self.atomic(*op, *num, *dst, *ptr, *value, *comparator)?;
            }
            Ins::Group(group) => self.group(group)?,
            Ins::Barrier { scope, orders } => self.barrier(*scope, *orders),
            Ins::Fence { orders } => self.fenced = self.fenced.and(*orders),
            Ins::Call { func, args, dst, n } => {
                let mask = self.regs.act.mask;
                let callee = &self.p.functions[*func];
                for ((src, n), (param, _)) in args.iter().zip(&callee.params) {
                    self.regs.copy(*param, *src, *n);
                }
                self.call(*func, &mask)?;
                self.regs.activate(&mask.minus(&self.dead));
                self.regs.copy(*dst, callee.ret.0, *n);
            }
            Ins::Converged { scope } => self.converged(*scope),
            Ins::SameScalar { scope, row } => {
                for range in self.instances(*scope) {
                    self.uniform(*row, range, "the scalar");
                }
            }
            Ins::Fail(why) => return Err(self.unsupported(why)),
            _ => {
                // One of these may take as long as a million others.
                self.look_at_clock()?;
                self.matrix_step(ins)?;
            }
        }
        Ok(())
    }

    pub(super) fn unsupported(&self, why: &str) -> Stop {
        Stop::Unsupported(format!("instruction {}: {why}", self.at.index()))
    }

    /// Reports a finding at the current instruction.
    pub(super) fn find(&mut self, kind: FindingKind, message: impl FnOnce() -> String) {
        if self.findings.wants(kind, self.at) {
            let message = self.placed(message());
            self.findings.push(kind, self.at, message, Vec::new());
        }
    }

    pub(super) fn find_with(
        &mut self,
        kind: FindingKind,
        make: impl FnOnce(&Self) -> (String, Vec<(Option<InstRef>, String)>),
    ) {
        if self.findings.wants(kind, self.at) {
            let (message, notes) = make(self);
            let message = self.placed(message);
            self.findings.push(kind, self.at, message, notes);
        }
    }

    fn placed(&self, message: String) -> String {
        let op = self.m.inst(self.at);
        let result = op.result.map(|id| format!(" {}", findings::name_of(self.m, id))).unwrap_or_default();
        let [x, y, z] = self.workgroup;
        format!("{}{result} (workgroup {x} {y} {z}): {message}", op.op)
    }

    /// Reports a value that decides something and is undefined.
    pub(super) fn decide(&mut self, row: Row, what: &str) {
        if !self.regs.dirty[row as usize] {
            return;
        }
        if self.regs.act.list.iter().any(|l| self.regs.taint(row, *l as usize).is_inexact()) {
            self.depends(what);
        }
        for k in 0..self.regs.act.list.len() {
            self.decided_by(row, self.regs.act.list[k] as usize, what);
        }
        let bad = self.regs.act.list.iter().copied().find(|l| self.regs.is_undefined(row, *l as usize));
        if let Some(lane) = bad {
            self.find(FindingKind::Uninitialised, || format!("{what} is undefined in invocation {lane}"));
        }
    }

    /// Records that a value decided something, if it depends on data.
    pub(super) fn decided_by(&mut self, row: Row, lane: usize, what: &str) {
        if let Taint::Term(term) = self.regs.taint(row, lane)
            && let Some(symbols) = &mut self.regs.symbols
        {
            symbols.decide(term, self.regs.r[row as usize * self.regs.lanes + lane], self.at, what);
        }
    }

    /// Records the first instruction that lost a term.
    fn note_lost(&mut self) {
        if let Some(symbols) = &mut self.regs.symbols
            && let Some(why) = symbols.lost_now.take()
            && symbols.lost.is_none()
        {
            symbols.lost = Some((self.at, why));
        }
    }

    /// Notes that something depends on a value that other implementations may round differently, or whose term is lost.
    pub(super) fn depends(&mut self, what: &str) {
        if self.memory_bounds.depends.is_none() {
            let of = if self.regs.symbols.is_some() { "data in an unknown way" } else { "how a value is rounded" };
            let message = self.placed(format!("{what} depends on {of}"));
            self.memory_bounds.depends = Some((self.at, message));
        }
    }

    /// Ends the run when the time limit has passed.
    fn look_at_clock(&self) -> Result<(), Stop> {
        match self.config.time_limit {
            Some(limit) if self.started.elapsed() >= limit => Err(Stop::Time),
            _ => Ok(()),
        }
    }

    fn over_budget(&mut self) {
        let (steps, active) = (self.config.step_budget, self.regs.act.list.len());
        let lanes = findings::lane_list(self.regs.act.list.iter().map(|l| *l as usize));
        self.find(FindingKind::InfiniteLoop, || {
            format!("after {steps} instructions the workgroup has not ended; {active} invocations are here: {lanes}")
        });
    }

    /// Returns the invocations of each instance of a scope.
    pub(super) fn instances(&self, scope: u32) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let (lanes, step) = (self.p.lanes, if scope == Scope::Subgroup.0 { self.p.subgroup } else { self.p.lanes });
        (0..lanes.div_ceil(step)).map(move |i| i * step..((i + 1) * step).min(lanes))
    }

    /// Reports instances of a scope of which only some invocations are active.
    pub(super) fn converged(&mut self, scope: u32) {
        if self.regs.act.full {
            return;
        }
        for range in self.instances(scope) {
            let active = range.clone().filter(|l| self.regs.act.mask.has(*l)).count();
            if active != 0 && active != range.len() {
                self.find_with(FindingKind::NonUniformExecution, |this| this.divergence(scope, range.clone()));
            }
        }
    }

    /// Describes how the invocations of an instance diverged.
    pub(super) fn divergence(
        &self,
        scope: u32,
        range: std::ops::Range<usize>,
    ) -> (String, Vec<(Option<InstRef>, String)>) {
        let mask = &self.regs.act.mask;
        let here = || range.clone().filter(|l| mask.has(*l));
        let away = || range.clone().filter(|l| !mask.has(*l));
        let name = if scope == Scope::Subgroup.0 {
            format!("subgroup {}", range.start / self.p.subgroup)
        } else {
            "the workgroup".into()
        };
        let message = format!(
            "executed by {} of the {} invocations of {name}: {}; not by {}",
            here().count(),
            range.len(),
            findings::lane_list(here()),
            findings::lane_list(away()),
        );
        let mut notes = Vec::new();
        let (Some(a), Some(b)) = (here().next(), away().next()) else { return (message, notes) };
        if let Some(at) = self.history.parted(a, b) {
            let inst = self.m.inst(at);
            let condition = inst.id(0);
            let why = match condition {
                Some(c) if inst.op != Op::Branch => format!(
                    "{} on {} sent invocations {a} and {b} to different blocks; its value comes from {}",
                    inst.op,
                    findings::name_of(self.m, c),
                    findings::sources(self.m, &self.p.decorations, c)
                ),
                _ => format!("invocations {a} and {b} parted here"),
            };
            notes.push((Some(at), why));
        }
        if let Some(at) = self.history.left(b) {
            notes.push((Some(at), format!("invocation {b} ended here")));
        }
        (message, notes)
    }

    /// Returns the value of an operand that must be uniform in an instance; reports one that is not.
    pub(super) fn uniform(&mut self, row: Row, range: std::ops::Range<usize>, what: &str) -> u64 {
        let active = range.clone().filter(|l| self.regs.act.mask.has(*l));
        match self.regs.uniform(row, active) {
            Ok(v) => {
                if self.regs.any_taint(row..row + 1) {
                    if range.clone().any(|l| self.regs.taint(row, l).is_inexact()) {
                        self.depends(what);
                    }
                    range.clone().for_each(|l| self.decided_by(row, l, what));
                }
                if self.regs.dirty[row as usize] && range.clone().any(|l| self.regs.is_undefined(row, l)) {
                    self.find(FindingKind::Uninitialised, || format!("{what} is undefined"));
                }
                v
            }
            Err((a, b)) => {
                let (x, y) = (self.regs.get(row, a), self.regs.get(row, b));
                self.find(FindingKind::NonUniformOperand, || {
                    format!("{what} differs: {x:#x} in invocation {a}, {y:#x} in invocation {b}")
                });
                x
            }
        }
    }

    fn barrier(&mut self, scope: u32, orders: Orders) {
        self.converged(scope);
        let Orders { shared, buffers } = orders.and(std::mem::take(&mut self.fenced));
        let subgroups = self.instances(Scope::Subgroup.0);
        let own_races = self.own_races.iter_mut().filter(|_| buffers);
        if scope == Scope::Subgroup.0 {
            let mut races: Vec<&mut Race> = own_races.chain(shared.then_some(&mut self.race)).collect();
            for (i, range) in subgroups.enumerate() {
                if range.clone().any(|l| self.regs.act.mask.has(l)) {
                    races.iter_mut().for_each(|race| race.subgroup_barrier(i));
                }
            }
        } else if scope != Scope::Invocation.0 {
            own_races.for_each(Race::barrier);
            if shared {
                self.race.barrier();
            }
        }
    }
}
