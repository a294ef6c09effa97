//! Subgroup and group instructions.

use coop_ir::Op;
use coop_ir::grammar::GroupOp;

use super::code::{Group, NO_ROW, Row};
use super::findings::FindingKind;
use super::machine::{Machine, Stop};
use super::num::{Num, mask, signed};
use super::taint::Taint;

impl Machine<'_> {
    pub(super) fn group(&mut self, g: &Group) -> Result<(), Stop> {
        for range in self.instances(g.scope) {
            let start = range.start;
            let active: Vec<usize> = range.clone().filter(|l| self.regs.act.mask.has(*l)).collect();
            if active.is_empty() {
                continue;
            }
            if !self.one_group(g, start, range.len(), &active) {
                return Err(self.unsupported(&format!("{} is not supported", g.op)));
            }
        }
        Ok(())
    }

    fn set(&mut self, dst: Row, lane: usize, v: u64, taint: Taint) {
        self.regs.put(dst, lane, v);
        self.regs.set_taint(dst, lane, taint);
    }

    /// Returns the taint of a value that is made from the operands of all invocations.
    fn all_taints(&self, g: &Group, active: &[usize]) -> Taint {
        if g.value == NO_ROW || !self.regs.any_taint(g.value..g.value + g.n) {
            return Taint::Exact;
        }
        let all = (g.value..g.value + g.n).flat_map(|row| active.iter().map(move |l| self.regs.taint(row, *l)));
        all.fold(Taint::Exact, Taint::with)
    }

    fn one_group(&mut self, g: &Group, start: usize, size: usize, active: &[usize]) -> bool {
        let first = active[0];
        // An invocation id or a cluster size chooses among the values.
        if g.arg != NO_ROW && self.regs.any_taint(g.arg..g.arg + 1) {
            if active.iter().any(|l| self.regs.taint(g.arg, *l).is_inexact()) {
                self.depends("an operand of a group operation");
            }
            active.iter().for_each(|l| self.decided_by(g.arg, *l, "an operand of a group operation"));
        }
        let taint = self.all_taints(g, active);
        let all = |this: &mut Self, v: u64, p: Taint| {
            for l in active {
                this.set(g.dst, *l, v, p);
            }
        };
        match g.op {
            Op::GroupNonUniformElect => {
                for l in active {
                    self.set(g.dst, *l, u64::from(*l == first), Taint::Exact);
                }
            }
            Op::GroupNonUniformAll | Op::SubgroupAllKHR | Op::GroupAll => {
                let v = active.iter().all(|l| self.regs.get(g.value, *l) != 0);
                let taint = self.vote(g, active, true, taint);
                all(self, u64::from(v), taint);
            }
            Op::GroupNonUniformAny | Op::SubgroupAnyKHR | Op::GroupAny => {
                let v = active.iter().any(|l| self.regs.get(g.value, *l) != 0);
                let taint = self.vote(g, active, false, taint);
                all(self, u64::from(v), taint);
            }
            Op::GroupNonUniformAllEqual | Op::SubgroupAllEqualKHR => {
                let float = g.num.is_float();
                let same = |row: Row, l: usize| {
                    let (a, b) = (self.regs.get(row, first), self.regs.get(row, l));
                    if float { g.num.to_f64(a) == g.num.to_f64(b) } else { a == b }
                };
                let v = (g.value..g.value + g.n).all(|row| active.iter().all(|l| same(row, *l)));
                all(self, u64::from(v), taint);
            }
            Op::GroupNonUniformBroadcastFirst | Op::SubgroupFirstInvocationKHR => self.shuffle(g, active, |_| first),
            Op::GroupNonUniformBroadcast | Op::SubgroupReadInvocationKHR | Op::GroupBroadcast => {
                let id = self.uniform(g.arg, start..start + size, "the invocation id");
                self.shuffle(g, active, |_| start + id as usize);
            }
            Op::GroupNonUniformShuffle => self.shuffle_by(g, active, start, |_, id| id),
            Op::GroupNonUniformShuffleXor => self.shuffle_by(g, active, start, |me, id| me ^ id),
            Op::GroupNonUniformShuffleUp => self.shuffle_by(g, active, start, |me, id| me.wrapping_sub(id)),
            Op::GroupNonUniformShuffleDown => self.shuffle_by(g, active, start, |me, id| me.wrapping_add(id)),
            Op::GroupNonUniformRotateKHR => {
                let cluster = size as u64;
                self.shuffle_by(g, active, start, |me, id| (me + id % cluster) % cluster);
            }
            Op::GroupNonUniformQuadBroadcast => self.shuffle_by(g, active, start, |me, id| (me & !3) + (id & 3)),
            Op::GroupNonUniformQuadSwap => self.shuffle_by(g, active, start, |me, dir| match dir {
                0 => me ^ 1,
                1 => me ^ 2,
                _ => me ^ 3,
            }),
            op => {
                let Some(what) = op.group_operation() else { return false };
                if self.ballot(g, what, (start, size), active, taint) || self.quad_vote(g, what, start, active, taint) {
                    return true;
                }
                let Some(combine) = combiner(what, g.num) else { return false };
                self.arithmetic(g, start, active, combine, identity(what, g.num), (what, taint));
            }
        }
        true
    }

    /// Returns the taint of a vote of invocations; `general` is that by the general rule.
    fn vote(&mut self, g: &Group, active: &[usize], all: bool, general: Taint) -> Taint {
        let parts: Vec<(u64, Taint)> =
            active.iter().map(|l| (self.regs.get(g.value, *l), self.regs.taint(g.value, *l))).collect();
        match &mut self.regs.symbols {
            Some(symbols) => symbols.vote(all, &parts, general),
            None => general,
        }
    }

    /// Executes a ballot or an instruction on one. Returns false for all others.
    fn ballot(
        &mut self,
        g: &Group,
        what: GroupOp,
        (start, size): (usize, usize),
        active: &[usize],
        taint: Taint,
    ) -> bool {
        match what {
            GroupOp::Ballot => {
                let mut words = [0u64; 4];
                for l in active {
                    let m = l - start;
                    if self.regs.get(g.value, *l) != 0 && m < 128 {
                        words[m / 32] |= 1 << (m % 32);
                    }
                }
                for l in active {
                    for (i, w) in words.iter().enumerate().take(g.dst_n as usize) {
                        self.set(g.dst + i as u32, *l, *w, taint);
                    }
                }
            }
            GroupOp::InverseBallot | GroupOp::BallotBitExtract => {
                for l in active {
                    let bit =
                        if what == GroupOp::InverseBallot { l - start } else { self.regs.get(g.arg, *l) as usize };
                    let v = bit < 128 && self.regs.get(g.value + (bit / 32).min(3) as u32, *l) >> (bit % 32) & 1 == 1;
                    self.set(g.dst, *l, u64::from(v), taint);
                }
            }
            GroupOp::BallotBitCount | GroupOp::BallotFindLsb | GroupOp::BallotFindMsb => {
                for l in active {
                    let mut bits = 0u128;
                    for i in 0..g.n.min(4) {
                        bits |= u128::from(self.regs.get(g.value + i, *l)) << (32 * i);
                    }
                    let me = (l - start) as u32;
                    let below = |n: u32| if n >= 128 { u128::MAX } else { (1 << n) - 1 };
                    bits &= below(size as u32);
                    let v = match (what, g.operation) {
                        (GroupOp::BallotFindLsb, _) => bits.trailing_zeros(),
                        (GroupOp::BallotFindMsb, _) => 127 - bits.leading_zeros().min(127),
                        (_, 1) => (bits & below(me + 1)).count_ones(),
                        (_, 2) => (bits & below(me)).count_ones(),
                        _ => bits.count_ones(),
                    };
                    self.set(g.dst, *l, u64::from(v), taint);
                }
            }
            _ => return false,
        }
        true
    }

    /// Executes a vote of the invocations of each quad. Returns false for all other instructions.
    fn quad_vote(&mut self, g: &Group, what: GroupOp, start: usize, active: &[usize], taint: Taint) -> bool {
        if !matches!(what, GroupOp::QuadAll | GroupOp::QuadAny) {
            return false;
        }
        for l in active {
            let quad = |other: &&usize| (**other - start) / 4 == (*l - start) / 4;
            let mut lanes = active.iter().filter(quad);
            let v = if what == GroupOp::QuadAll {
                lanes.all(|o| self.regs.get(g.value, *o) != 0)
            } else {
                lanes.any(|o| self.regs.get(g.value, *o) != 0)
            };
            self.set(g.dst, *l, u64::from(v), taint);
        }
        true
    }

    fn shuffle_by(&mut self, g: &Group, active: &[usize], start: usize, to: impl Fn(u64, u64) -> u64) {
        let from: Vec<usize> = active
            .iter()
            .map(|l| {
                let member = to((l - start) as u64, self.regs.get(g.arg, *l));
                if member < self.p.subgroup as u64 { start + member as usize } else { usize::MAX }
            })
            .collect();
        let mut next = from.iter();
        let list: Vec<(usize, usize)> =
            active.iter().map(|l| (*l, next.next().copied().unwrap_or(usize::MAX))).collect();
        self.shuffle(g, active, |l| list.iter().find(|p| p.0 == l).map_or(usize::MAX, |p| p.1));
    }

    /// Gives every invocation the value of another one. The value of an inactive invocation is undefined.
    fn shuffle(&mut self, g: &Group, active: &[usize], from: impl Fn(usize) -> usize) {
        for i in 0..g.n {
            let taken: Vec<(u64, Taint)> = active
                .iter()
                .map(|l| {
                    let other = from(*l);
                    if other < self.p.lanes && self.regs.act.mask.has(other) {
                        (self.regs.get(g.value + i, other), self.regs.taint(g.value + i, other))
                    } else {
                        (0, Taint::Undefined)
                    }
                })
                .collect();
            for (l, (v, p)) in active.iter().zip(taken) {
                self.set(g.dst + i, *l, v, p);
            }
        }
    }

    fn arithmetic(
        &mut self,
        g: &Group,
        start: usize,
        active: &[usize],
        combine: impl Fn(u64, u64) -> u64,
        identity: u64,
        (what, taint): (GroupOp, Taint),
    ) {
        let cluster = if g.operation == 3 && g.arg != NO_ROW {
            let size = self.regs.get(g.arg, active[0]) as usize;
            if !size.is_power_of_two() {
                self.find(FindingKind::Undefined, || format!("the cluster size {size} is not a power of two"));
            }
            size.max(1)
        } else {
            usize::MAX
        };
        for i in 0..g.n {
            let values: Vec<u64> = active.iter().map(|l| self.regs.get(g.value + i, *l)).collect();
            let taints: Vec<Taint> = active.iter().map(|l| self.regs.taint(g.value + i, *l)).collect();
            let track = self.regs.probe.is_some() || self.regs.symbols.is_some();
            let mut symbols = self.regs.symbols.take();
            let results: Vec<(u64, Taint)> = (0..active.len())
                .map(|k| {
                    let mine = (active[k] - start) / cluster;
                    let members = (0..active.len()).filter(|j| (active[*j] - start) / cluster == mine);
                    let wanted = members.filter(|j| match g.operation {
                        1 => *j <= k,
                        2 => *j < k,
                        _ => true,
                    });
                    let wanted: Vec<usize> = wanted.collect();
                    let v = wanted.iter().map(|j| values[*j]).reduce(&combine).unwrap_or(identity);
                    if !track || taint.is_undefined() {
                        return (v, taint);
                    }
                    let parts: Vec<(u64, Taint)> = wanted.iter().map(|j| (values[*j], taints[*j])).collect();
                    let taint = match &mut symbols {
                        Some(symbols) => symbols.group(what, g.num, &parts, taint),
                        None => super::error_bound::of_group(what, g.num, &parts, taint),
                    };
                    (v, taint)
                })
                .collect();
            self.regs.symbols = symbols;
            for (l, (v, taint)) in active.iter().zip(results) {
                self.set(g.dst + i, *l, v, taint);
            }
        }
    }
}

fn combiner(what: GroupOp, num: Num) -> Option<Box<dyn Fn(u64, u64) -> u64>> {
    let w = num.bits();
    let float = |f: fn(f64, f64) -> f64| -> Box<dyn Fn(u64, u64) -> u64> {
        Box::new(move |a, b| num.encode_f64(f(num.to_f64(a), num.to_f64(b))))
    };
    let int = |f: fn(u64, u64) -> u64| -> Box<dyn Fn(u64, u64) -> u64> { Box::new(move |a, b| mask(f(a, b), w)) };
    Some(match what {
        GroupOp::IAdd => int(u64::wrapping_add),
        GroupOp::IMul => int(u64::wrapping_mul),
        GroupOp::FAdd => float(|a, b| a + b),
        GroupOp::FMul => float(|a, b| a * b),
        GroupOp::FMin => float(f64::min),
        GroupOp::FMax => float(f64::max),
        GroupOp::UMin => int(u64::min),
        GroupOp::UMax => int(u64::max),
        GroupOp::SMin => Box::new(move |a, b| if signed(a, w) <= signed(b, w) { a } else { b }),
        GroupOp::SMax => Box::new(move |a, b| if signed(a, w) >= signed(b, w) { a } else { b }),
        GroupOp::And | GroupOp::LogicalAnd => Box::new(|a, b| a & b),
        GroupOp::Or | GroupOp::LogicalOr => Box::new(|a, b| a | b),
        GroupOp::Xor | GroupOp::LogicalXor => Box::new(|a, b| a ^ b),
        _ => return None,
    })
}

fn identity(what: GroupOp, num: Num) -> u64 {
    let w = num.bits();
    let ones = mask(u64::MAX, w);
    match what {
        GroupOp::IMul => 1,
        GroupOp::FMul => num.encode_f64(1.0),
        GroupOp::FMin => num.encode_f64(f64::INFINITY),
        GroupOp::FMax => num.encode_f64(f64::NEG_INFINITY),
        GroupOp::UMin | GroupOp::And => ones,
        GroupOp::LogicalAnd => 1,
        GroupOp::SMin => ones >> 1,
        GroupOp::SMax => 1 << (w - 1),
        _ => 0,
    }
}
