//! The state of a trial, and the numbers that it makes up.

use super::{BranchChoice, Path, PathSearch, SearchPlan, Trial};
use coop_ir::hash::{FxHashMap, FxHasher};
use coop_ir::{Id, InstRef};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

impl<'a> Trial<'a> {
    pub(super) fn new(player: &PathSearch, plan: &'a SearchPlan<'a>, number: u64) -> Trial<'a> {
        let lanes = player.solution.grid.lanes;
        let mut t = Trial {
            number,
            plan,
            values: vec![None; plan.slots.len() * lanes],
            calls: FxHashMap::default(),
            visits: FxHashMap::default(),
            passed: vec![false; lanes],
            waiting: BTreeMap::new(),
            choices: FxHashMap::default(),
            memory: FxHashMap::default(),
            numbers: FxHashMap::default(),
            workgroups: [1; 3],
            workgroup: [0; 3],
            rolls: 0,
            work: (plan.slots.len() * lanes / 8) as u64,
            strict: None,
        };
        let all = [[1, 1, 1], [2, 1, 1], [4, 1, 1], [2, 2, 1], [1, 4, 1]];
        t.workgroups = all[t.roll() as usize % all.len()];
        for axis in 0..3 {
            t.workgroup[axis] = t.roll() % u64::from(t.workgroups[axis]);
        }
        t
    }

    fn hash(&self, key: impl Hash) -> u64 {
        let mut h = FxHasher::default();
        (self.number, key).hash(&mut h);
        // The hasher mixes the low bits poorly.
        let h = h.finish() ^ 0x9e37_79b9_7f4a_7c15;
        let h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    /// Stores the value of a node for an invocation.
    pub(super) fn put(&mut self, at: usize, v: Option<u64>) {
        self.values[at] = v;
        if let Some(strict) = &mut self.strict {
            strict.made_up[at] = strict.touched;
        }
    }

    /// Records whether the value being computed depends on made-up numbers so far.
    pub(super) fn touch(&mut self, to: bool) {
        if let Some(strict) = &mut self.strict {
            strict.touched = to;
        }
    }

    /// Records that the number of the workgroup was used.
    pub(super) fn place(&mut self) {
        if let Some(strict) = &mut self.strict {
            strict.placed = true;
        }
    }

    /// Returns true if the value being computed depends on made-up numbers.
    pub(super) fn touched(&self) -> bool {
        self.strict.as_ref().is_some_and(|s| s.touched)
    }

    /// Returns the next pseudo-random number.
    pub(super) fn roll(&mut self) -> u64 {
        self.rolls += 1;
        self.hash(self.rolls)
    }

    /// Returns a number: small, close to one to which it may be compared, or any.
    pub(super) fn choose(&self, key: impl Hash) -> u64 {
        let h = self.hash(key);
        let (kind, n) = (h % 8, h >> 8);
        match kind {
            0 => 0,
            1 | 2 => n % 5,
            3 => n % 71,
            7 => n >> (n % 56),
            _ => {
                let near = (n >> 8) % 3;
                let constants = &self.plan.constants;
                let one = |n: u64| constants.get(n as usize % constants.len().max(1)).copied().unwrap_or(n % 9);
                let c = if kind == 6 { one(n >> 16).wrapping_mul(one(n >> 24)) } else { one(n >> 16) };
                c.wrapping_add(near).wrapping_sub(1)
            }
        }
    }

    /// Returns the path of the trial.
    pub(super) fn path(self) -> Path {
        let mut kept: Vec<InstRef> = self.plan.kept.iter().copied().collect();
        kept.sort_unstable();
        let mut choices: Vec<BranchChoice> = self
            .choices
            .into_iter()
            .map(|((at, iteration, group), to)| BranchChoice { at, iteration, group, to })
            .collect();
        choices.sort_unstable_by_key(|t| (t.at, t.iteration, t.group));
        let memory = self.memory.into_iter();
        let mut memory: Vec<(Id, u64, u64)> =
            memory.map(|((base, indices), v)| (base, indices.last().copied().unwrap_or(0), v)).collect();
        memory.sort_unstable();
        let mut numbers: Vec<(InstRef, u32, u64)> = self.numbers.into_iter().map(|((at, g), v)| (at, g, v)).collect();
        numbers.sort_unstable();
        Path { kept, uniformity: Vec::new(), choices, memory, numbers, workgroups: self.workgroups }
    }
}
