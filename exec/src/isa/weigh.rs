//! The number of times that the instructions of a listing run.
//!
//! A compiler keeps some loops of a module, unrolls others, and says nothing about which is which. The loops of the
//! listing are matched with those of the module: nesting and order agree, and of the ways to do that the one counts that
//! fits best: what the loops contain is alike, so is how much they do in a round, and loops that are missing from the listing
//! repeat seldom. The match is refused unless barriers and floating-point multiplications come to as many as in the module.
//! A block in a loop then runs as often as the loop does, a block outside of loops once. Branches inside a loop count as taken
//! both ways, so the sum is an upper bound for code in which some are not.

use coop_ir::cfg::{DomTree, Loops};

use super::{Counts, Kind, Listing, Weighed};
use crate::interp::{Contents, LoopCount, LoopCounts, Operations};

impl Weighed {
    /// Returns all numbers multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Weighed {
        Weighed { counts: self.counts.map(|count| count * factor) }
    }

    fn add(&mut self, counts: &Counts, times: f64) {
        Kind::ALL.iter().for_each(|kind| self.counts[*kind as usize] += counts.of(*kind) as f64 * times);
    }
}

/// The costs of what does not fit in a match. Only their order of magnitude matters.
mod cost {
    /// Only one of the loops multiplies matrices, or only one has a barrier.
    pub(super) const CONTENTS: u64 = 80;
    /// A round of one of the loops has more barriers than one of the other: another loop inside of it is unrolled.
    pub(super) const BARRIERS: u64 = 60;
    /// Only one of the loops accesses shared memory, or buffers.
    pub(super) const MEMORY: u64 = 20;
    /// The listing has a loop more than once.
    pub(super) const COPY: u64 = 60;
    /// A loop of the module that repeats at most so often is missing from the listing.
    pub(super) const MISSING: [(u64, u64); 4] = [(1, 0), (32, 10), (128, 40), (u64::MAX, 400)];
    /// A round of one of the loops has twice or half as many instructions as are expected for the scalars of the other.
    pub(super) const RATIO: f64 = 4.0;
    /// A round of one of the loops has twice or half as many floating-point multiplications as one of the other.
    pub(super) const MULTIPLICATIONS: f64 = 10.0;
    /// A round of one of the loops differs by twice or half as many instructions beyond what compilers do to a round.
    pub(super) const SIZE: f64 = 20.0;
}

impl Listing {
    /// Returns how many instructions a subgroup executes, or why the loops of the listing are not those of the module: their
    /// nesting, their order, or the barriers or multiplications in them differ.
    pub fn weigh(&self, counts: &LoopCounts) -> Result<Weighed, String> {
        let loops = Loops::of_graph(&self.graph);
        if !loops.all_natural() {
            return Err("the compiler's listing has a loop with two entries".into());
        }
        let mut matching = Matching { kept: kept(self, &loops), loops: &loops, scalars: 1 };
        let found = SCALARS.iter().filter_map(|scalars| {
            matching.scalars = *scalars;
            matching.all(counts)
        });
        let found = found.min_by_key(|found| found.cost);
        let found = found.ok_or("the compiler's loops are not nested like the module's")?.pairs;
        let dominators = DomTree::new(&self.graph, 0);
        // The blocks from which control leaves a loop without having been able to repeat it.
        let exits = |number: usize, block: &usize| {
            let to = self.graph.successors(*block);
            let repeats = to.contains(&loops.all()[number].header);
            !repeats && to.iter().any(|to| !loops.contains(number, *to))
        };
        let mut sum = Weighed::default();
        let mut multiplications = 0.0;
        for (block, of) in self.blocks.iter().enumerate().filter(|(block, _)| dominators.is_reachable(*block)) {
            let Some(number) = loops.innermost(block) else {
                sum.add(of, 1.0);
                multiplications += self.multiplications[block] as f64;
                continue;
            };
            let (_, count) =
                found.iter().find(|(own, _)| *own == number).ok_or("a loop of the compiler's is not the module's")?;
            let copies = found.iter().filter(|(_, other)| std::ptr::eq(*other, *count)).count() as u64;
            let exits: Vec<usize> = loops.blocks(number).iter().copied().filter(|block| exits(number, block)).collect();
            let behind = |block: usize| exits.iter().any(|exit| *exit != block && dominators.dominates(*exit, block));
            let times = if exits.is_empty() {
                count.rounds
            } else {
                // A loop that is left in its middle runs the first part once more than the rest. If the first part is the
                // body, the compiler has moved the test behind it, and the first test of all out of the loop.
                let first = loops.blocks(number).iter().filter(|block| !behind(**block));
                let first = first.map(|block| contents(&self.blocks[*block])).fold(Contents::default(), Contents::with);
                let rotated = work(count.contents).is_some_and(|has| has(first) && !has(count.before_test));
                match (rotated, behind(block)) {
                    (true, false) | (false, true) => count.rounds,
                    (false, false) => count.headers,
                    (true, true) => (2 * count.rounds).saturating_sub(count.headers),
                }
            };
            let times = times as f64 / (counts.subgroups * copies) as f64;
            sum.add(of, times);
            multiplications += self.multiplications[block] as f64 * times;
        }
        self.check_barriers(counts, &sum)?;
        self.check_multiplications(counts, &sum, multiplications)?;
        Ok(sum)
    }

    /// Returns an error unless the barriers are about as many as those of the module. Compilers do not repeat barriers, and
    /// leave out all of them or none (those of a workgroup of one subgroup); so if they are not, loops were taken for others.
    /// Those outside of loops count once, and those behind branches in each round, whether they run or not.
    fn check_barriers(&self, counts: &LoopCounts, sum: &Weighed) -> Result<(), String> {
        let (found, wanted) = (sum.of(Kind::Barrier), counts.operations.barriers as f64 / counts.subgroups as f64);
        let listed = self.counts().of(Kind::Barrier) as f64;
        if listed == 0.0 || (wanted / 1.5 - listed..=wanted * 1.5 + listed).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "a subgroup waits at {wanted:.0} barriers of the module and {found:.0} of the listing: loops were taken for others"
        ))
    }

    /// Returns an error unless the floating-point multiplications are about as many as those of the module. Compilers keep them,
    /// and divide with more of them, integers too, which is never most of what a program does.
    /// Those outside of loops count once, and those behind branches in each round, whether they run or not.
    fn check_multiplications(&self, counts: &LoopCounts, sum: &Weighed, found: f64) -> Result<(), String> {
        let wanted = counts.operations.multiplications as f64 / counts.subgroups as f64;
        let listed = self.multiplications.iter().sum::<u64>() as f64;
        let most = (wanted * 3.0 + listed).max(sum.total() / 3.0);
        if (wanted / 1.5 - listed..=most).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "an invocation multiplies floating-point numbers {wanted:.0} times in the module and {found:.0} times in the listing: \
             loops were taken for others"
        ))
    }
}

/// A loop of a listing.
struct Kept {
    contents: Contents,
    /// The barriers in its blocks, without the loops inside of it.
    barriers: u64,
    /// The instructions in its blocks that compute or access memory, without the loops inside of it.
    instructions: u64,
    /// The floating-point multiplications in its blocks, without the loops inside of it.
    multiplications: u64,
    /// The loops inside of it, in an order that control flow follows.
    inner: Vec<usize>,
}

/// Returns the kinds of operations of a block.
fn contents(of: &Counts) -> Contents {
    let has = |kind: Kind| of.of(kind) > 0;
    Contents {
        matrix: has(Kind::Matrix),
        barrier: has(Kind::Barrier),
        shared: has(Kind::Shared),
        memory: has(Kind::Memory),
    }
}

/// Returns the test for the operation of a loop by which its body is told from its test.
fn work(contents: Contents) -> Option<fn(Contents) -> bool> {
    let kinds: [fn(Contents) -> bool; 4] = [|of| of.matrix, |of| of.barrier, |of| of.shared, |of| of.memory];
    kinds.into_iter().find(|has| has(contents))
}

/// Returns the loops of a listing, and behind them the program itself.
fn kept(listing: &Listing, loops: &Loops) -> Vec<Kept> {
    let all = loops.all().len();
    let mut inner = vec![Vec::new(); all + 1];
    for block in listing.graph.reverse_postorder(0) {
        if let Some(number) = loops.innermost(block).filter(|number| loops.all()[*number].header == block) {
            inner[loops.all()[number].parent.unwrap_or(all)].push(number);
        }
    }
    let inside = |number: usize| {
        loops
            .blocks(number)
            .iter()
            .map(|block| contents(&listing.blocks[*block]))
            .fold(Contents::default(), Contents::with)
    };
    let mut kept: Vec<Kept> = inner
        .into_iter()
        .enumerate()
        .map(|(number, inner)| Kept {
            contents: if number < all { inside(number) } else { Contents::default() },
            barriers: 0,
            instructions: 0,
            multiplications: 0,
            inner,
        })
        .collect();
    for (block, of) in listing.blocks.iter().enumerate() {
        let own = &mut kept[loops.innermost(block).unwrap_or(all)];
        own.barriers += of.of(Kind::Barrier);
        let kinds = [Kind::Matrix, Kind::Memory, Kind::Shared, Kind::Arithmetic];
        own.instructions += kinds.map(|kind| of.of(kind)).iter().sum::<u64>();
        own.multiplications += listing.multiplications[block];
    }
    kept
}

/// A loop of the module, in preorder.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    count: &'a LoopCount,
    /// The number of loops inside of it, at any depth.
    inside: usize,
    /// How often it repeats in each round of the loop around it, rounded up.
    repeats: u64,
}

/// Returns loops and those inside of them; the code around them runs `times` times.
fn preorder(loops: &[LoopCount], times: u64) -> Vec<Candidate<'_>> {
    let mut all = Vec::new();
    for count in loops {
        let inner = preorder(&count.inner, count.rounds);
        let repeats = count.rounds.checked_div(times).unwrap_or(0) + u64::from(times > 0 && count.rounds % times > 0);
        all.push(Candidate { count, inside: inner.len(), repeats });
        all.extend(inner);
    }
    all
}

impl Candidate<'_> {
    /// Returns the cost of a listing without it.
    fn missing(&self) -> u64 {
        let found = cost::MISSING.iter().find(|(most, _)| self.repeats <= *most);
        found.map_or(0, |(_, cost)| *cost)
    }
}

/// Which loop of the module each loop of a listing is.
#[derive(Clone, Default)]
struct Found<'a> {
    cost: u64,
    /// The operations of the outermost of these loops, which are not left for the code around them.
    done: Operations,
    pairs: Vec<(usize, &'a LoopCount)>,
}

/// Returns numbers that are the same for about the same operations.
fn about(operations: Operations) -> [Option<u32>; 3] {
    [operations.barriers, operations.scalars, operations.multiplications].map(u64::checked_ilog2)
}

/// Matches of the same loops that differ in what they leave for the code around them; of those that leave about the same the
/// best one. The best of all need not suit what is around.
type Best<'a> = Vec<Found<'a>>;

/// Enters a match that costs so much and does this.
fn enter<'a>(best: &mut Best<'a>, cost: u64, done: Operations, pairs: impl FnOnce() -> Vec<(usize, &'a LoopCount)>) {
    match best.iter_mut().find(|other| about(other.done) == about(done)) {
        Some(other) if other.cost < cost => {}
        Some(other) => *other = Found { cost, done, pairs: pairs() },
        None => best.push(Found { cost, done, pairs: pairs() }),
    }
}

struct Matching<'l> {
    kept: Vec<Kept>,
    loops: &'l Loops,
    /// The scalars of the module for each instruction of the listing.
    scalars: u64,
}

/// The scalars for each instruction that are tried: an instruction takes up to four, and where a loop is unrolled its counters,
/// addresses and private arrays, which are most of the scalars, are gone. It is much the same everywhere in one program.
const SCALARS: [u64; 6] = [1, 2, 4, 8, 16, 32];

impl Matching<'_> {
    /// Matches all loops.
    fn all<'a>(&self, counts: &'a LoopCounts) -> Option<Found<'a>> {
        let program = self.loops.all().len();
        let mut best = self.among(program, &preorder(&counts.loops, counts.subgroups));
        for found in &mut best {
            found.cost += self.misfit(program, counts.subgroups, counts.operations.without(found.done));
        }
        best.into_iter().min_by_key(|found| found.cost)
    }

    /// Matches the loops of the listing inside of one, or the outermost ones, with some of the candidates.
    fn among<'a>(&self, around: usize, candidates: &[Candidate<'a>]) -> Best<'a> {
        // best[at]: the matches of the loops so far with candidates before `at`.
        let mut best: Vec<Best<'a>> = vec![Best::new(); candidates.len() + 1];
        best[0] = vec![Found::default()];
        skip(&mut best, candidates);
        for number in &self.kept[around].inner {
            let mut next: Vec<Best<'a>> = vec![Best::new(); candidates.len() + 1];
            for (at, candidate) in candidates.iter().enumerate() {
                let behind = at + 1 + candidate.inside;
                let Some(pair) = self.pair(*number, candidate, &candidates[at + 1..behind]) else { continue };
                // The loop before is a copy of the same one, or comes before it.
                let copies =
                    |found: &&Found<'a>| found.pairs.iter().any(|(_, one)| std::ptr::eq(*one, candidate.count));
                let copied = best[behind].iter().filter(copies).map(|found| (found, cost::COPY, found.done));
                let before = best[at].iter().map(|found| (found, 0, found.done.with(pair.done)));
                for (found, more, done) in copied.chain(before) {
                    enter(&mut next[behind], found.cost + more + pair.cost, done, || {
                        found.pairs.iter().chain(&pair.pairs).copied().collect()
                    });
                }
            }
            skip(&mut next, candidates);
            best = next;
        }
        best.pop().unwrap_or_default()
    }

    /// Matches a loop of the listing with one of the module, and the loops inside of both.
    fn pair<'a>(&self, number: usize, candidate: &Candidate<'a>, inside: &[Candidate<'a>]) -> Option<Found<'a>> {
        let (ours, count) = (self.kept[number].contents, candidate.count);
        // The compiler may have removed what is not executed.
        let differs = |of: fn(Contents) -> bool, cost: u64| {
            let alike = if of(ours) { of(count.contents) } else { !of(count.executed) };
            if alike { 0 } else { cost }
        };
        let contents = differs(|of| of.matrix, cost::CONTENTS)
            + differs(|of| of.barrier, cost::CONTENTS)
            + differs(|of| of.shared, cost::MEMORY)
            + differs(|of| of.memory, cost::MEMORY);
        let whole = |inner: &Found<'a>| {
            contents + inner.cost + self.misfit(number, count.rounds, count.operations.without(inner.done))
        };
        let found = self.among(number, inside);
        let inner = found.iter().min_by_key(|inner| whole(inner))?;
        let pairs = [(number, count)].into_iter().chain(inner.pairs.iter().copied()).collect();
        Some(Found { cost: whole(inner), done: count.operations, pairs })
    }

    /// Returns the cost of what a round of the listing does for one of the module, given what the loops inside of it leave: what
    /// is in loops that the listing has not, is in this one. The code outside of all loops may do more: it has branches that do not run.
    fn misfit(&self, number: usize, rounds: u64, left: Operations) -> u64 {
        // The doublings that compilers do to a round: divisions take several instructions, and what is not used takes none.
        const ALIKE: f64 = 3.0;
        let own = &self.kept[number];
        let program = number == self.loops.all().len();
        let of_round = |whole: u64| whole.checked_div(rounds);
        let barriers = of_round(left.barriers);
        let alike = barriers.is_none_or(|wanted| wanted <= 2 * own.barriers && (program || own.barriers <= 2 * wanted));
        let differ = |wanted: Option<u64>, found: u64| match wanted {
            Some(wanted) if !program || wanted > found => doublings(wanted, found),
            _ => 0.0,
        };
        let size = differ(of_round(left.scalars), own.instructions.saturating_mul(self.scalars));
        let multiplied = differ(of_round(left.multiplications), own.multiplications);
        let cost = cost::RATIO * size + cost::SIZE * (size - ALIKE).max(0.0) + cost::MULTIPLICATIONS * multiplied;
        cost.round() as u64 + if alike { 0 } else { cost::BARRIERS }
    }
}

/// Returns how often one number has to be doubled to be the other. Numbers up to 8 tell nothing.
fn doublings(one: u64, other: u64) -> f64 {
    (one.max(8) as f64 / other.max(8) as f64).log2().abs()
}

/// Lets candidates be missing behind each match.
fn skip<'a>(best: &mut [Best<'a>], candidates: &[Candidate<'a>]) {
    for (at, candidate) in candidates.iter().enumerate() {
        let missing = candidate.missing();
        for found in best[at].clone() {
            enter(&mut best[at + 1], found.cost + missing, found.done, || found.pairs);
        }
    }
}

#[cfg(test)]
mod tests {
    use coop_ir::Id;

    use super::*;

    /// A loop that tests before its body: `rounds` times in each of `times` runs of the code around it.
    fn repeats(rounds: u64, times: u64, contents: Contents, inner: Vec<LoopCount>) -> LoopCount {
        LoopCount {
            header: Id::new(1).unwrap(),
            headers: (rounds + 1) * times,
            rounds: rounds * times,
            contents,
            executed: contents,
            before_test: Contents::default(),
            operations: Operations {
                products: 0,
                barriers: if contents.barrier { rounds * times } else { 0 },
                scalars: rounds * times + inner.iter().map(|one| one.operations.scalars).sum::<u64>(),
                multiplications: inner.iter().map(|one| one.operations.multiplications).sum::<u64>(),
            },
            inner,
        }
    }

    fn plain(rounds: u64, times: u64, inner: Vec<LoopCount>) -> LoopCount {
        repeats(rounds, times, Contents::default(), inner)
    }

    /// The loop with other numbers of scalars and multiplications.
    fn doing(count: LoopCount, scalars: u64, multiplications: u64) -> LoopCount {
        LoopCount { operations: Operations { scalars, multiplications, ..count.operations }, ..count }
    }

    fn weigh(text: &str, loops: Vec<LoopCount>) -> Option<[f64; Kind::ALL.len()]> {
        let listing = Listing::read(text).unwrap_or_else(|| panic!("not known:\n{text}"));
        let barriers = loops.iter().filter(|one| one.contents.barrier).map(|one| one.rounds).sum();
        let scalars = loops.iter().map(|one| one.operations.scalars).sum();
        let multiplications = loops.iter().map(|one| one.operations.multiplications).sum();
        let operations = Operations { products: 0, barriers, scalars, multiplications };
        let counts = LoopCounts { subgroups: 1, loops, operations };
        listing.weigh(&counts).ok().map(|weighed| Kind::ALL.map(|kind| weighed.of(kind)))
    }

    /// AMD's listing of these lines, each of which is a label or an instruction.
    fn amd(lines: &[&str]) -> String {
        let line = |line: &&str| match line.ends_with(':') {
            true => format!("{line}\n"),
            false => format!("\t{line} ; 00000000\n"),
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_loop_that_is_left_in_its_middle_runs_its_first_part_once_more() {
        let text = amd(&[
            "BB0:",
            "v_mov_b32 v0, v1",
            "BB1:",
            "s_nop 0",
            "s_cbranch_scc1 BB3",
            "BB2:",
            "ds_load_b32 v0, v1",
            "s_branch BB1",
            "BB3:",
            "s_endpgm",
        ]);
        // arithmetic 1, waits 11, shared memory 10, branches 11 and 10 and the end.
        assert_eq!(weigh(&text, vec![plain(10, 1, vec![])]), Some([0.0, 0.0, 10.0, 1.0, 0.0, 11.0, 22.0]));
        // A loop that never ran has been at its header no less.
        assert_eq!(weigh(&text, vec![plain(0, 1, vec![])]), Some([0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 2.0]));
        assert_eq!(weigh(&text, vec![]), None);
    }

    #[test]
    fn a_loop_that_is_left_behind_its_body_has_been_rotated() {
        let body = ["BB1:", "ds_load_b32 v0, v1", "s_cbranch_scc1 BB3", "BB2:", "v_mov_b32 v0, v1", "s_branch BB1"];
        let text = amd(&[&["BB0:", "s_nop 0"], &body[..], &["BB3:", "s_endpgm"]].concat());
        let shared = Contents { shared: true, ..Contents::default() };
        let tested_first = repeats(10, 3, shared, vec![]);
        // Shared memory 30, arithmetic 27, branches 30 and 27 and the end.
        assert_eq!(weigh(&text, vec![tested_first.clone()]), Some([0.0, 0.0, 30.0, 27.0, 0.0, 1.0, 58.0]));
        // Where the module loads before it tests, the listing does.
        let loads_first = LoopCount { before_test: shared, ..tested_first };
        assert_eq!(weigh(&text, vec![loads_first]), Some([0.0, 0.0, 33.0, 30.0, 0.0, 1.0, 64.0]));
    }

    /// A loop of the listing, whose only block has these instructions.
    fn block(label: &str, lines: &[&str]) -> Vec<String> {
        let first = [format!("{label}:")].into_iter().chain(lines.iter().map(|line| (*line).to_owned()));
        first.chain([format!("s_cbranch_scc1 {label}")]).collect()
    }

    fn blocks(blocks: &[Vec<String>]) -> String {
        let lines: Vec<&str> = blocks.iter().flatten().map(String::as_str).collect();
        amd(&[&["BB0:", "v_mov_b32 v0, v1"], &lines[..], &["BB99:", "s_endpgm"]].concat())
    }

    #[test]
    fn unrolled_loops_are_those_that_repeat_seldom() {
        let text = blocks(&[block("BB1", &["v_add_f32 v0, v0, v0"])]);
        let arithmetic = |loops| weigh(&text, loops).map(|weighed| weighed[Kind::Arithmetic as usize]);
        assert_eq!(arithmetic(vec![plain(4, 1, vec![]), plain(500, 1, vec![])]), Some(501.0));
        assert_eq!(arithmetic(vec![plain(500, 1, vec![plain(4, 500, vec![])])]), Some(501.0));
        // The outer loop is the unrolled one.
        assert_eq!(arithmetic(vec![plain(2, 1, vec![plain(500, 2, vec![])])]), Some(1001.0));
    }

    #[test]
    fn loops_are_told_apart_by_what_they_do() {
        let text = blocks(&[block("BB1", &["ds_load_b32 v0, v1", "s_barrier"])]);
        let shared = |loops| weigh(&text, loops).map(|weighed| weighed[Kind::Shared as usize]);
        let stages = Contents { shared: true, barrier: true, ..Contents::default() };
        assert_eq!(shared(vec![plain(20, 1, vec![]), repeats(30, 1, stages, vec![])]), Some(30.0));
        assert_eq!(shared(vec![repeats(30, 1, stages, vec![]), plain(20, 1, vec![])]), Some(30.0));
    }

    #[test]
    fn copies_of_a_loop_share_its_rounds() {
        let matrix = Contents { matrix: true, ..Contents::default() };
        let product = ["v_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[16:23], v[8:15]"];
        let text = blocks(&[block("BB1", &product), block("BB2", &product)]);
        let weighed = weigh(&text, vec![repeats(300, 1, matrix, vec![])]).unwrap();
        assert_eq!(weighed[Kind::Matrix as usize], 300.0);
        // Two loops are two loops.
        let loops = vec![repeats(300, 1, matrix, vec![]), repeats(40, 1, matrix, vec![])];
        assert_eq!(weigh(&text, loops).unwrap()[Kind::Matrix as usize], 340.0);
    }

    /// The inner loop is unrolled: the round that is left has all of its barriers.
    #[test]
    fn barriers_tell_which_of_two_loops_is_unrolled() {
        let stages = Contents { barrier: true, ..Contents::default() };
        let both = || {
            let count = repeats(4, 1, stages, vec![repeats(3, 4, stages, vec![])]);
            LoopCount { operations: Operations { barriers: 4 * 3, ..count.operations }, ..count }
        };
        let unrolled = blocks(&[block("BB1", &["s_barrier", "s_barrier", "s_barrier"])]);
        let listing = |text: &str| Listing::read(text).unwrap();
        let counts = LoopCounts {
            subgroups: 1,
            loops: vec![both()],
            operations: Operations { barriers: 12, scalars: 16, ..Operations::default() },
        };
        assert_eq!(listing(&unrolled).weigh(&counts).unwrap().of(Kind::Barrier), 12.0);
        // The outer one is.
        let unrolled = blocks(&[block("BB1", &["s_barrier"])]);
        assert_eq!(listing(&unrolled).weigh(&counts).unwrap().of(Kind::Barrier), 12.0);
    }

    /// A listing with instructions and behind them a loop with instructions.
    fn behind(unrolled: usize, looped: usize, instruction: &str) -> String {
        let lines = [vec![instruction; unrolled], vec!["BB1:"], vec![instruction; looped]].concat();
        amd(&[&["BB0:"], &lines[..], &["s_cbranch_scc1 BB1", "BB99:", "s_endpgm"]].concat())
    }

    /// One of two loops is unrolled: the one that repeats much or the one that repeats seldom.
    #[test]
    fn sizes_tell_two_loops_apart() {
        let of = |scalars: u64, count: LoopCount| doing(count.clone(), scalars * count.rounds, 0);
        let loops = || vec![of(40, plain(128, 1, vec![])), of(1100, plain(4, 1, vec![]))];
        let arithmetic = |unrolled: usize, looped: usize| {
            let text = behind(unrolled, looped, "v_add_f32 v0, v0, v0");
            weigh(&text, loops()).map(|weighed| weighed[Kind::Arithmetic as usize])
        };
        assert_eq!(arithmetic(128 * 40, 1000), Some(128.0 * 40.0 + 4.0 * 1000.0));
        assert_eq!(arithmetic(4 * 1000, 40), Some(4.0 * 1000.0 + 128.0 * 40.0));
    }

    /// Both loops are as large.
    #[test]
    fn multiplications_tell_two_loops_apart() {
        let of = |multiplications: u64, count: LoopCount| {
            doing(count.clone(), 1000 * count.rounds, multiplications * count.rounds)
        };
        let loops = || vec![of(256, plain(8, 1, vec![])), of(512, plain(4, 1, vec![]))];
        // Two multiplications each.
        let arithmetic = |unrolled: usize, looped: usize| {
            let text = behind(unrolled, looped, "v_pk_fma_f16 v0, v0, v0, v0");
            weigh(&text, loops()).map(|weighed| weighed[Kind::Arithmetic as usize])
        };
        assert_eq!(arithmetic(4 * 256, 128), Some(4.0 * 256.0 + 8.0 * 128.0));
        assert_eq!(arithmetic(8 * 128, 256), Some(8.0 * 128.0 + 4.0 * 256.0));
        // Loops that multiply otherwise are other loops.
        assert_eq!(arithmetic(0, 2000), None);
        assert_eq!(arithmetic(0, 20), None);
    }

    /// Of two loops of the listing inside of a third, each may be one of two, and what is left has to be in the one around them.
    #[test]
    fn what_is_left_is_in_the_loop_around() {
        let of = |scalars: u64, count: LoopCount| {
            let inner: u64 = count.inner.iter().map(|one| one.operations.scalars).sum();
            doing(count.clone(), scalars * count.rounds + inner, 0)
        };
        // The second one inside does most; unrolled, it is 8,000 instructions.
        let inner = vec![of(40, plain(128, 10, vec![])), of(1000, plain(8, 10, vec![]))];
        let text = |own: usize, inside: usize| {
            let own = vec!["v_add_f32 v0, v0, v0"; own];
            let inside = vec!["v_add_f32 v0, v0, v0"; inside];
            let lines = [&["BB0:", "v_mov_b32 v0, v1", "BB1:"][..], &own, &["BB2:"], &inside];
            let end = ["s_cbranch_scc1 BB2", "BB3:", "s_cbranch_scc0 BB1", "BB4:", "s_endpgm"];
            amd(&[&lines.concat()[..], &end].concat())
        };
        let arithmetic = |own: usize, inside: usize| {
            let loops = vec![of(10, plain(10, 1, inner.clone()))];
            weigh(&text(own, inside), loops).map(|weighed| weighed[Kind::Arithmetic as usize])
        };
        assert_eq!(arithmetic(5000, 1000), Some(1.0 + 10.0 * 5000.0 + 80.0 * 1000.0));
        assert_eq!(arithmetic(8000, 40), Some(1.0 + 10.0 * 8000.0 + 1280.0 * 40.0));
    }

    #[test]
    fn loops_inside_of_loops() {
        let text = amd(&[
            "BB0:",
            "v_mov_b32 v0, v1",
            "BB1:",
            "s_barrier",
            "BB2:",
            "ds_load_b32 v0, v1",
            "s_cbranch_scc1 BB2",
            "BB3:",
            "global_load_b32 v0, v1, off",
            "s_cbranch_scc0 BB1",
            "BB4:",
            "s_endpgm",
        ]);
        let outer = Contents { barrier: true, shared: true, memory: true, ..Contents::default() };
        let inner = Contents { shared: true, ..Contents::default() };
        let loops = vec![repeats(10, 1, outer, vec![repeats(7, 10, inner, vec![])])];
        assert_eq!(weigh(&text, loops), Some([0.0, 10.0, 70.0, 1.0, 10.0, 0.0, 70.0 + 10.0 + 1.0]));
    }

    #[test]
    fn other_barriers_are_other_loops() {
        let text = blocks(&[block("BB1", &["ds_load_b32 v0, v1", "s_barrier"])]);
        let listing = Listing::read(&text).unwrap();
        let stages = Contents { shared: true, barrier: true, ..Contents::default() };
        let weighed = |barriers: u64| {
            let counts = LoopCounts {
                subgroups: 2,
                loops: vec![repeats(60, 1, stages, vec![])],
                operations: Operations { barriers, scalars: 60, ..Operations::default() },
            };
            listing.weigh(&counts).is_ok()
        };
        assert_eq!([60, 80, 120, 8].map(weighed), [true, true, false, false]);
    }

    /// The loop of each compiler's listing: 5 rounds with an instruction of arithmetic, and one behind it.
    #[test]
    fn the_loops_of_each_language() {
        let nvidia = [
            "block.u 0 L0 [] -> {",
            "      r0       = mov r1               // delay=1",
            "} -> [1]",
            "block.u 1 L1 [0, 2] -> {",
            "      up0      = isetp.lt.u32 ur3 ur4 // delay=1",
            "                 bra !up0 L9          // delay=1",
            "} -> [2, 3]",
            "block.u 2 L5 [1] -> {",
            "      r0       = ffma r1 r2 r0        // delay=1",
            "                 bra pT L1            // delay=1",
            "} -> [1]",
            "block.u 3 L9 [1] -> {",
            "                 exit                 // delay=1",
            "} -> []",
        ];
        let adreno = "Native code for unnamed CL shader (null) with blake3 00:";
        let at_the_end = [
            adreno,
            "mov.f32f32 r0.x, r1.x",
            "l1:",
            "mul.f r0.x, r0.x, r1.x",
            "cmps.s.lt p0.x, r0.y, r0.z",
            "br p0.x, #l1",
            "l2:",
            "end",
        ];
        let at_the_beginning = [
            adreno,
            "mov.f32f32 r0.x, r1.x",
            "l1:",
            "cmps.s.lt p0.x, r0.y, r0.z",
            "br !p0.x, #l2",
            "mul.f r0.x, r0.x, r1.x",
            "jump #l1",
            "l2:",
            "end",
        ];
        let intel = [
            "mov(16) g89<1>UD g0.1<0,1,0>UD { align1 };",
            "LABEL1:",
            "mul(16) g1<1>F g2<1,1,0>F g1<1,1,0>F { align1 };",
            "cmp.l.f0.0(16) null<1>UD g3<1,1,0>UD g4<1,1,0>UD { align1 };",
            "(+f0.0) while(16) JIP: LABEL1 { align1 };",
            "LABEL2:",
            "mov(16) g89<1>UD g0.1<0,1,0>UD { align1 };",
        ];
        let left = [
            "mov(16) g89<1>UD g0.1<0,1,0>UD { align1 };",
            "LABEL1:",
            "cmp.l.f0.0(16) null<1>UD g3<1,1,0>UD g4<1,1,0>UD { align1 };",
            "(+f0.0) break(16) JIP: LABEL2 UIP: LABEL2 { align1 };",
            "mul(16) g1<1>F g2<1,1,0>F g1<1,1,0>F { align1 };",
            "LABEL2:",
            "while(16) JIP: LABEL1 { align1 };",
            "LABEL3:",
            "mov(16) g89<1>UD g0.1<0,1,0>UD { align1 };",
        ];
        let texts: [(&[&str], f64, f64); 5] = [
            (&nvidia, 1.0 + 6.0 + 5.0, 6.0 + 5.0 + 1.0),
            (&at_the_end, 1.0 + 2.0 * 5.0, 5.0 + 1.0),
            (&at_the_beginning, 1.0 + 6.0 + 5.0, 6.0 + 5.0 + 1.0),
            (&intel, 1.0 + 2.0 * 5.0 + 1.0, 5.0),
            (&left, 1.0 + 6.0 + 5.0 + 1.0, 6.0 + 5.0),
        ];
        for (lines, arithmetic, branches) in texts {
            let text = lines.join("\n");
            let multiplies = doing(plain(5, 1, vec![]), 5, 5);
            let weighed = weigh(&text, vec![multiplies]).unwrap_or_else(|| panic!("no loop of:\n{text}"));
            let found = (weighed[Kind::Arithmetic as usize], weighed[Kind::Branch as usize]);
            assert_eq!(found, (arithmetic, branches), "{text}");
        }
    }
}
