//! Executes pointer arithmetic, loads, stores and atomics.

use coop_ir::Op;

use super::code::{Chain, NO_ROW, Row, ValueLayout};
use super::findings::FindingKind;
use super::location::{Fault, Location};
use super::machine::{Machine, Stop};
use super::num::{Num, mask, number, signed};
use super::program::tag;
use super::shared_race::Agent;
use super::taint::Taint;
use super::{PUSH_INDEX, base_address};

/// The bytes of a buffer whose accesses within a workgroup are remembered where data is concrete.
const REMEMBERED: usize = 4 << 20;

impl Machine<'_> {
    pub(super) fn chain(&mut self, c: &Chain) {
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let base = self.regs.get(c.base, l);
            self.decided_by(c.base, l, "a pointer");
            let mut taint = self.regs.taint(c.base, l).decided();
            let in_rows = base >> tag::SHIFT == tag::ROWS;
            let mut p = base.wrapping_add(if in_rows { c.slots } else { c.bytes });
            let mut bad = c.bad;
            for s in &c.steps {
                let i = signed(self.regs.get(s.index, l), s.width);
                self.decided_by(s.index, l, "an index");
                taint = taint.with(self.regs.taint(s.index, l).decided());
                bad |= s.bound.is_some_and(|b| i < 0 || i >= i64::from(b));
                p = p.wrapping_add((i as u64).wrapping_mul(if in_rows { s.slots } else { s.bytes }));
            }
            if bad && !taint.is_undefined() {
                p = tag::INVALID << tag::SHIFT | self.at.index() as u64;
            }
            self.regs.put(c.dst, l, p);
            self.regs.set_taint(c.dst, l, taint);
        }
    }

    /// Finds the bytes to which a pointer points.
    pub(super) fn resolve(&self, p: u64, size: u64) -> Result<Location, Fault> {
        match p >> tag::SHIFT {
            tag::SHARED => {
                let at = signed(p, tag::SHIFT);
                if at < 0 || at as u64 + size > self.shared.len() as u64 {
                    return Err(Fault::Outside(format!(
                        "bytes {at} to {} of {} bytes of shared memory",
                        at + size as i64 - 1,
                        self.shared.len()
                    )));
                }
                Ok(Location::Shared(at as usize))
            }
            tag::ROWS => {
                let row = p & 0xff_ffff_ffff;
                if row + size > u64::from(self.p.rows) {
                    return Err(Fault::Outside("a variable".into()));
                }
                Ok(Location::Rows(row as Row))
            }
            tag::OWN => {
                let at = signed(p, tag::SHIFT);
                if at < 0 || (at as u64).saturating_add(size) > u64::from(self.p.own_size) {
                    return Err(Fault::Outside("the private memory".into()));
                }
                Ok(Location::Own(at as usize))
            }
            tag::INVALID => Err(Fault::Outside(format!(
                "an array: the index in instruction {} is not below its length",
                p & 0xff_ffff_ffff
            ))),
            0 if p == 0 => Err(Fault::Null),
            0 => self.resolve_buffer(p, size),
            _ => Err(Fault::Nowhere(p)),
        }
    }

    fn resolve_buffer(&self, p: u64, size: u64) -> Result<Location, Fault> {
        let index = (p >> 40).wrapping_sub(1) as usize;
        let offset = p.wrapping_sub(base_address(index)) as i64;
        let (len, name) = if index == PUSH_INDEX {
            (self.push.len(), "the push constants".to_owned())
        } else {
            let Some(b) = self.buffers.get(index) else { return Err(Fault::Nowhere(p)) };
            (b.bytes.len(), b.name.clone())
        };
        if offset < 0 || (offset as u64).saturating_add(size) > len as u64 {
            let last = offset.saturating_add(size as i64).saturating_sub(1);
            return Err(Fault::Outside(format!("bytes {offset} to {last} of {name}, which has {len} bytes")));
        }
        Ok(if index == PUSH_INDEX { Location::Push(offset as usize) } else { Location::Buffer(index, offset as usize) })
    }

    pub(super) fn report_fault(&mut self, fault: Fault, who: &str, verb: &str) {
        self.find(FindingKind::OutOfBounds, || match fault {
            Fault::Null => format!("{who} {verb} through a null pointer"),
            Fault::Nowhere(p) => format!("{who} {verb} at address {p:#x}, where there is no buffer"),
            Fault::Outside(what) => format!("{who} {verb} {what}"),
        });
    }

    /// Returns the pointer of an invocation; reports an undefined one.
    fn pointer(&mut self, ptr: Row, lane: usize) -> Option<u64> {
        if self.regs.taint(ptr, lane).is_inexact() {
            self.depends("a pointer");
        }
        self.decided_by(ptr, lane, "a pointer");
        if self.regs.is_undefined(ptr, lane) {
            self.find(FindingKind::Uninitialised, || format!("the pointer is undefined in invocation {lane}"));
            return None;
        }
        Some(self.regs.get(ptr, lane))
    }

    pub(super) fn load(&mut self, dst: Row, ptr: Row, access: &ValueLayout) -> Result<(), Stop> {
        if let Some(row) = self.one_row(ptr, access.slots) {
            self.regs.copy(dst, row, access.slots);
            return Ok(());
        }
        let extent = u64::from(access.extent);
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let place = match self.pointer(ptr, l) {
                Some(p) => self.place(p, access, extent, l, "reads"),
                None => None,
            };
            let Some(place) = place else {
                for i in 0..access.slots {
                    self.regs.put(dst + i, l, 0);
                    self.regs.set_taint(dst + i, l, Taint::Exact);
                }
                continue;
            };
            if let Location::Rows(row) = place {
                for i in 0..access.slots {
                    let (v, taint) = (self.regs.get(row + i, l), self.regs.taint(row + i, l));
                    self.regs.put(dst + i, l, v);
                    self.regs.set_taint(dst + i, l, taint);
                }
                continue;
            }
            let Some(leaves) = &access.leaves else {
                return Err(self.unsupported("a type without a layout is read from memory"));
            };
            for leaf in leaves {
                let at = leaf.offset as usize;
                let (v, taint) = self.read(place, at, leaf.bytes, Some(l));
                let v = if access.volatile { self.foreign(place, leaf.bytes, v) } else { v };
                self.regs.put(dst + leaf.slot, l, v);
                self.regs.set_taint(dst + leaf.slot, l, taint);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, src: Row, ptr: Row, access: &ValueLayout) -> Result<(), Stop> {
        if let Some(row) = self.one_row(ptr, access.slots) {
            self.regs.copy(row, src, access.slots);
            return Ok(());
        }
        let extent = u64::from(access.extent);
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let Some(p) = self.pointer(ptr, l) else { continue };
            let Some(place) = self.place(p, access, extent, l, "writes") else { continue };
            if let Location::Rows(row) = place {
                for i in 0..access.slots {
                    let (v, taint) = (self.regs.get(src + i, l), self.regs.taint(src + i, l));
                    self.regs.put(row + i, l, v);
                    self.regs.set_taint(row + i, l, taint);
                }
                continue;
            }
            let Some(leaves) = &access.leaves else {
                return Err(self.unsupported("a type without a layout is written to memory"));
            };
            for leaf in leaves {
                let (v, taint) = (self.regs.get(src + leaf.slot, l), self.regs.taint(src + leaf.slot, l));
                self.write(place, leaf.offset as usize, leaf.bytes, v, taint, Some(l));
            }
        }
        Ok(())
    }

    /// Returns the value of a load where another agent may have written: `v`, or another number as often.
    fn foreign(&mut self, place: Location, bytes: u8, v: u64) -> u64 {
        if self.config.others.is_none() || !matches!(place, Location::Buffer(..)) {
            return v;
        }
        self.others = self.others.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let n = self.others >> 33;
        match n % 4 {
            0 | 1 => v,
            2 => n >> 2 & 1,
            _ => mask(n >> 2, u32::from(bytes) * 8),
        }
    }

    /// Copies bytes. Undefined ones leave memory as it is.
    pub(super) fn copy_bytes(&mut self, to: Row, from: Row, bytes: u64) -> Result<(), Stop> {
        let access = ValueLayout {
            leaves: None,
            extent: u32::try_from(bytes).unwrap_or(u32::MAX),
            slots: 1,
            align: 1,
            volatile: false,
        };
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let (Some(to), Some(from)) = (self.pointer(to, l), self.pointer(from, l)) else { continue };
            let target = self.place(to, &access, bytes, l, "writes");
            let source = self.place(from, &access, bytes, l, "reads");
            let (Some(target), Some(source)) = (target, source) else { continue };
            if matches!(target, Location::Rows(_)) || matches!(source, Location::Rows(_)) {
                // An element of a matrix is a number.
                let Some(bytes) = u8::try_from(bytes).ok().filter(|n| matches!(n, 1 | 2 | 4 | 8)) else {
                    return Err(self.unsupported("a copy of the bytes of a variable that holds matrices"));
                };
                let (value, taint) = self.read(source, 0, bytes, Some(l));
                self.write(target, 0, bytes, value, taint, Some(l));
                continue;
            }
            let read: Vec<_> = (0..bytes as usize).map(|at| self.read(source, at, 1, Some(l))).collect();
            for (at, (value, taint)) in read.into_iter().enumerate() {
                if !taint.is_undefined() || matches!(target, Location::Own(_) | Location::Shared(_)) {
                    self.write(target, at, 1, value, taint, Some(l));
                }
            }
        }
        Ok(())
    }

    /// Returns the row that the pointers of all active invocations point to, if it is the same.
    fn one_row(&self, ptr: Row, slots: u32) -> Option<Row> {
        let first = *self.regs.act.list.first()? as usize;
        let p = self.regs.get(ptr, first);
        let fits = (p & 0xff_ffff_ffff) + u64::from(slots) <= u64::from(self.p.rows);
        if p >> tag::SHIFT != tag::ROWS || !fits || self.regs.any_taint(ptr..ptr + 1) {
            return None;
        }
        self.regs.act.list.iter().all(|l| self.regs.get(ptr, *l as usize) == p).then_some(p as Row)
    }

    fn place(&mut self, p: u64, access: &ValueLayout, extent: u64, lane: usize, verb: &str) -> Option<Location> {
        let size = if p >> tag::SHIFT == tag::ROWS { u64::from(access.slots) } else { extent };
        match self.resolve(p, size) {
            Ok(place) => {
                if !matches!(place, Location::Rows(_)) && access.align > 1 && !p.is_multiple_of(u64::from(access.align))
                {
                    let align = access.align;
                    self.find(FindingKind::Misaligned, || {
                        format!("invocation {lane} {verb} at address {p:#x}, which is not a multiple of {align}")
                    });
                }
                Some(place)
            }
            Err(fault) => {
                self.report_fault(fault, &format!("invocation {lane}"), verb);
                None
            }
        }
    }

    /// Reads up to 8 bytes with their taint. `lane` is the invocation, for races (`None` if the access is recorded
    /// elsewhere).
    pub(super) fn read(&mut self, place: Location, at: usize, bytes: u8, lane: Option<usize>) -> (u64, Taint) {
        let (value, taint) = self.read_value(place, at, bytes, lane);
        if taint.is_undefined() || matches!(place, Location::Rows(_)) {
            return (value, taint);
        }
        let own = lane.unwrap_or(0) * self.p.own_size as usize;
        match &mut self.regs.symbols {
            Some(symbols) => (value, symbols.read(place, own, at, usize::from(bytes), value)),
            None => (value, taint),
        }
    }

    /// Like [`read`](Machine::read), without terms.
    fn read_value(&mut self, place: Location, at: usize, bytes: u8, lane: Option<usize>) -> (u64, Taint) {
        let n = usize::from(bytes);
        let memory_bounds = self.memory_bounds.at(place, at, bytes);
        match place {
            Location::Buffer(i, base) => {
                self.note_buffer(i, base + at..base + at + n, false);
                if let Some(lane) = lane {
                    self.note_own(i, base + at..base + at + n, self.lane_agent(lane), false, false);
                }
                (number(&self.buffers[i].bytes[base + at..base + at + n]), memory_bounds)
            }
            Location::Push(base) => (number(&self.push[base + at..base + at + n]), Taint::Exact),
            Location::Shared(base) => {
                let range = base + at..base + at + n;
                if let Some(lane) = lane {
                    self.note_access(range.clone(), self.lane_agent(lane), false, false);
                }
                let set = self.shared_set[range.clone()].iter().all(|s| *s);
                (number(&self.shared[range]), if set { memory_bounds } else { Taint::Undefined })
            }
            Location::Own(base) => {
                let first = lane.unwrap_or(0) * self.p.own_size as usize + base + at;
                let taints = &self.own_taint[first..first + n];
                let undefined = taints.iter().any(|s| s.is_undefined());
                let taint = if undefined { Taint::Undefined } else { taints.first().copied().unwrap_or_default() };
                let alike = taints.iter().all(|s| *s == taint || s.is_undefined());
                (number(&self.own[first..first + n]), if undefined || alike { taint } else { Taint::UNKNOWN })
            }
            Location::Rows(row) => {
                let lane = lane.unwrap_or(0);
                (self.regs.get(row, lane), self.regs.taint(row, lane))
            }
        }
    }

    /// Writes up to 8 bytes. Returns true if that may change them, for some data.
    pub(super) fn write(
        &mut self,
        place: Location,
        at: usize,
        bytes: u8,
        v: u64,
        taint: Taint,
        lane: Option<usize>,
    ) -> bool {
        let n = usize::from(bytes);
        let own = lane.unwrap_or(0) * self.p.own_size as usize;
        // A bit for each byte.
        let mut changed = 0u8;
        let taint = match &mut self.regs.symbols {
            Some(symbols) if !matches!(place, Location::Rows(_)) => {
                changed = symbols.write(place, own, at, n, taint);
                // The bytes have the term now.
                taint.decided()
            }
            _ => {
                self.memory_bounds.put(place, at, bytes, taint);
                taint
            }
        };
        match place {
            Location::Buffer(i, base) => {
                if taint.is_undefined() {
                    let name = self.buffers[i].name.clone();
                    self.find(FindingKind::Uninitialised, || {
                        format!("an undefined value is written to byte {} of {name}", base + at)
                    });
                }
                // Values of this data that are equal may differ for other data.
                let other = number(&self.buffers[i].bytes[base + at..base + at + n]) ^ v;
                changed |= (0..n).filter(|k| other >> (8 * k) & 0xff != 0).fold(0, |all, k| all | 1 << k);
                for run in runs(changed) {
                    let range = base + at + run.start..base + at + run.end;
                    self.note_buffer(i, range.clone(), true);
                    if let Some(lane) = lane {
                        self.note_own(i, range, self.lane_agent(lane), true, false);
                    }
                }
                self.buffers[i].bytes[base + at..base + at + n].copy_from_slice(&v.to_le_bytes()[..n]);
            }
            Location::Push(_) => self.find(FindingKind::Undefined, || "push constants are written".into()),
            Location::Shared(base) => {
                let range = base + at..base + at + n;
                if let Some(lane) = lane {
                    self.note_access(range.clone(), self.lane_agent(lane), true, false);
                }
                self.shared_set[range.clone()].fill(!taint.is_undefined());
                self.shared[range].copy_from_slice(&v.to_le_bytes()[..n]);
            }
            Location::Own(base) => {
                let first = lane.unwrap_or(0) * self.p.own_size as usize + base + at;
                self.own[first..first + n].copy_from_slice(&v.to_le_bytes()[..n]);
                self.own_taint[first..first + n].fill(taint);
            }
            Location::Rows(row) => {
                let lane = lane.unwrap_or(0);
                self.regs.put(row, lane, v);
                self.regs.set_taint(row, lane, taint);
            }
        }
        changed != 0
    }

    pub(super) fn lane_agent(&self, lane: usize) -> Agent {
        Agent { id: lane as u32, subgroup: (lane / self.p.subgroup) as u16 }
    }

    /// Records an access to shared memory and reports a race.
    pub(super) fn note_access(&mut self, range: std::ops::Range<usize>, agent: Agent, write: bool, atomic: bool) {
        let start = range.start;
        let Some(conflict) = self.race.access(range, agent, write, atomic, self.at) else { return };
        self.find_with(FindingKind::DataRace, |this| {
            let verb = if write { "writes" } else { "reads" };
            let other = if conflict.wrote { "wrote" } else { "read" };
            let near = this.p.shared.iter().rev().find(|v| v.offset as usize <= start);
            let what = near.map_or_else(String::new, |v| {
                format!("byte {} of {}", start - v.offset as usize, super::findings::name_of(this.m, v.id))
            });
            let message = format!("{} {verb} {what} with no barrier since another accessed it", agent.describe());
            (message, vec![(Some(conflict.at), format!("{} {other} it here", conflict.who.describe()))])
        });
    }

    /// Records an access to a buffer, and reports a race within the workgroup: where data is concrete, of stores of matrices alone, so
    /// that what is remembered stays small.
    pub(super) fn note_own(
        &mut self,
        buffer: usize,
        range: std::ops::Range<usize>,
        agent: Agent,
        write: bool,
        atomic: bool,
    ) {
        let (start, at, symbolic) = (range.start, self.at, self.regs.symbols.is_some());
        if !(symbolic || write && agent.is_matrix()) {
            return;
        }
        let Some(race) = self.own_races.get_mut(buffer) else { return };
        // Concrete stores of the same invocations come one after the other, as drivers have it.
        let (end, who) =
            if symbolic { (range.end, agent) } else { (range.end.min(REMEMBERED), agent.of_invocations()) };
        race.grow(end);
        let Some(conflict) = race.access(range, who, write, atomic, at) else { return };
        self.find_with(FindingKind::DataRace, |this| {
            let (verb, name) = (if write { "writes" } else { "reads" }, &this.buffers[buffer].name);
            let other = if conflict.wrote { "wrote" } else { "read" };
            let data = if symbolic { "; the values may differ for other data" } else { "" };
            let message = format!(
                "{} {verb} byte {start} of {name} with no barrier since another accessed it{data}",
                agent.describe()
            );
            (message, vec![(Some(conflict.at), format!("{} {other} it here", conflict.who.describe()))])
        });
    }

    /// Records an access to a buffer and reports a race with another workgroup.
    fn note_buffer(&mut self, buffer: usize, range: std::ops::Range<usize>, write: bool) {
        let start = range.start;
        let Some(other) = self.buffer_race.access(buffer, range, write, self.at) else { return };
        self.find_with(FindingKind::DataRace, |this| {
            let verb = if write { "writes" } else { "reads" };
            let (name, did) = (&this.buffers[buffer].name, if other.wrote { "wrote" } else { "read" });
            let message =
                format!("{verb} byte {start} of {name}, which another workgroup {did}; nothing orders the two");
            let who = match other.workgroup {
                Some(number) => format!("workgroup number {number} {did} it here"),
                None => format!("several workgroups {did} it, one of them here"),
            };
            (message, vec![(Some(other.at), who)])
        });
    }

    pub(super) fn array_length(&mut self, dst: Row, ptr: Row, offset: u64, stride: u64) {
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let p = self.regs.get(ptr, l);
            let len = match self.resolve(p, 0) {
                Ok(Location::Buffer(i, at)) => {
                    let rest = self.buffers[i].bytes.len() as u64 - at as u64;
                    rest.saturating_sub(offset) / stride.max(1)
                }
                _ => 0,
            };
            self.regs.put(dst, l, mask(len, 32));
            self.regs.set_taint(dst, l, Taint::Exact);
        }
    }

    pub(super) fn atomic(
        &mut self,
        op: Op,
        num: Num,
        dst: Row,
        ptr: Row,
        value: Row,
        comparator: Row,
    ) -> Result<(), Stop> {
        let bytes = num.bytes() as u8;
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let Some(p) = self.pointer(ptr, l) else { continue };
            let access =
                ValueLayout { leaves: None, extent: bytes.into(), slots: 1, align: bytes.into(), volatile: false };
            let Some(place) = self.place(p, &access, u64::from(bytes), l, "accesses") else { continue };
            if let Location::Shared(at) = place {
                let write = op != Op::AtomicLoad;
                self.note_access(at..at + usize::from(bytes), self.lane_agent(l), write, true);
            }
            if let Location::Buffer(i, at) = place {
                self.buffer_race.atomic();
                let write = op != Op::AtomicLoad;
                self.note_own(i, at..at + usize::from(bytes), self.lane_agent(l), write, true);
            }
            let lane = if matches!(place, Location::Rows(_) | Location::Own(_)) { Some(l) } else { None };
            let (old, mut before) = self.read(place, 0, bytes, lane);
            let partly = before.is_undefined() && self.is_partly_set(place, bytes);
            // What is stored beside a number that others set may be anything, and stays so where it is stored back.
            let beside = partly && op == Op::AtomicCompareExchange && !self.is_tracked();
            if partly && (op == Op::AtomicLoad || beside) {
                before = self.unknown();
            }
            let get = |row: Row| {
                if row == NO_ROW { (0, Taint::Exact) } else { (self.regs.get(row, l), self.regs.taint(row, l)) }
            };
            let ((v, given), (c, compared)) = (get(value), get(comparator));
            // A load has an undefined result, which is reported where it is used.
            let reads = op != Op::AtomicLoad && !matches!(op, Op::AtomicStore | Op::AtomicFlagClear);
            // Bits that these leave as they were stay undefined, and the others do not depend on them.
            let by_bits = before.is_undefined() && matches!(op, Op::AtomicAnd | Op::AtomicOr);
            let undefined = reads && before.is_undefined() && op != Op::AtomicExchange && !by_bits;
            if undefined || given.is_undefined() || compared.is_undefined() {
                self.find(FindingKind::Uninitialised, || format!("an atomic operand is undefined in invocation {l}"));
            }
            let Some(new) = combined(op, num, old, v, c) else {
                return Err(self.unsupported(&format!("{op} is not supported")));
            };
            if by_bits && !given.is_undefined() {
                let decides = if op == Op::AtomicAnd { 0 } else { 0xff };
                for i in 0..bytes {
                    let byte = |x: u64| x >> (8 * i) & 0xff;
                    let (_, was) = self.read(place, i.into(), 1, lane);
                    let taint = match given {
                        Taint::Term(_) => Taint::UNKNOWN,
                        _ if byte(v) == decides => Taint::Exact,
                        _ => was,
                    };
                    self.write(place, i.into(), 1, byte(new), taint, lane);
                }
            } else if beside && !given.is_undefined() {
                for i in 0..bytes {
                    let byte = |x: u64| x >> (8 * i) & 0xff;
                    let (_, was) = self.read(place, i.into(), 1, lane);
                    let taint = if byte(new) == byte(old) { was } else { Taint::Exact };
                    self.write(place, i.into(), 1, byte(new), taint, lane);
                }
            } else if op != Op::AtomicLoad {
                let taint = match &mut self.regs.symbols {
                    Some(symbols) => symbols.atomic(op, num, (old, before), (v, given), compared),
                    None if self.regs.probe.is_some() => {
                        super::error_bound::of_atomic(op, num, (old, before), (v, given))
                    }
                    None => Taint::Exact,
                };
                self.write(place, 0, bytes, new, taint, lane);
            }
            if dst != NO_ROW {
                let old = if op == Op::AtomicFlagTestAndSet { u64::from(old != 0) } else { old };
                self.regs.put(dst, l, old);
                let keeps = by_bits || op == Op::AtomicLoad;
                let taint = if before.is_undefined() && !keeps { Taint::Exact } else { before };
                self.regs.set_taint(dst, l, taint);
            }
        }
        Ok(())
    }

    /// Returns true if some bytes of a number in shared memory were written: others may be those of its neighbors.
    fn is_partly_set(&self, place: Location, bytes: u8) -> bool {
        matches!(place, Location::Shared(at) if self.shared_set[at..at + usize::from(bytes)].contains(&true))
    }

    /// Returns the taint of a value of which nothing else is known, where runs track more than undefined values.
    fn unknown(&self) -> Taint {
        if self.is_tracked() { Taint::UNKNOWN } else { Taint::Exact }
    }

    /// Returns true if the run tracks more of values than whether they are defined.
    fn is_tracked(&self) -> bool {
        self.regs.symbols.is_some() || self.regs.probe.is_some()
    }
}

fn combined(op: Op, num: Num, old: u64, v: u64, c: u64) -> Option<u64> {
    let w = num.bits();
    let s = |x: u64| signed(x, w);
    let float = |f: fn(f64, f64) -> f64| num.encode_f64(f(num.to_f64(old), num.to_f64(v)));
    Some(match op {
        Op::AtomicLoad => old,
        Op::AtomicStore | Op::AtomicExchange => v,
        Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak => {
            if old == c {
                v
            } else {
                old
            }
        }
        Op::AtomicIIncrement => mask(old.wrapping_add(1), w),
        Op::AtomicIDecrement => mask(old.wrapping_sub(1), w),
        Op::AtomicIAdd => mask(old.wrapping_add(v), w),
        Op::AtomicISub => mask(old.wrapping_sub(v), w),
        Op::AtomicSMin => {
            if s(v) < s(old) {
                v
            } else {
                old
            }
        }
        Op::AtomicSMax => {
            if s(v) > s(old) {
                v
            } else {
                old
            }
        }
        Op::AtomicUMin => old.min(v),
        Op::AtomicUMax => old.max(v),
        Op::AtomicAnd => old & v,
        Op::AtomicOr => old | v,
        Op::AtomicXor => old ^ v,
        Op::AtomicFAddEXT => float(|a, b| a + b),
        Op::AtomicFMinEXT => float(f64::min),
        Op::AtomicFMaxEXT => float(f64::max),
        Op::AtomicFlagTestAndSet => 1,
        Op::AtomicFlagClear => 0,
        _ => return None,
    })
}

/// Returns the runs of bits that are set.
fn runs(mut mask: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let start = at + mask.trailing_zeros() as usize;
            mask >>= mask.trailing_zeros();
            let len = mask.trailing_ones();
            at = start + len as usize;
            mask = mask.checked_shr(len).unwrap_or(0);
            start..at
        })
    })
}
