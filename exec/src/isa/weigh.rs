//! The number of times that the instructions of a listing run.
//!
//! A compiler keeps some loops of a module, unrolls others, and says nothing about which is which. The loops of the
//! listing are matched with those of the module: nesting and order agree, and of the ways to do that the one counts that
//! fits best: what the loops contain is alike, and loops that are missing from the listing repeat seldom. A block in a loop
//! then runs as often as the loop does, a block outside of loops once. Branches inside a loop count as taken both ways,
//! so the sum is an upper bound for code in which some are not.

use coop_ir::cfg::{DomTree, Loops};

use super::{Counts, Kind, Listing, Weighed};
use crate::interp::{Contents, LoopCount, LoopCounts};

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
}

impl Listing {
    /// Returns how many instructions a subgroup executes, or why the loops of the listing are not those of the module: their
    /// nesting, their order, or the barriers in them differ.
    pub fn weigh(&self, counts: &LoopCounts) -> Result<Weighed, String> {
        let loops = Loops::of_graph(&self.graph);
        if !loops.all_natural() {
            return Err("the compiler's listing has a loop with two entries".into());
        }
        let matching = Matching { kept: kept(self, &loops), loops: &loops };
        let found = matching.among(None, &preorder(&counts.loops, counts.subgroups));
        let found = found.ok_or("the compiler's loops are not nested like the module's")?.pairs;
        let dominators = DomTree::new(&self.graph, 0);
        // The blocks from which control leaves a loop without having been able to repeat it.
        let exits = |number: usize, block: &usize| {
            let to = self.graph.successors(*block);
            let repeats = to.contains(&loops.all()[number].header);
            !repeats && to.iter().any(|to| !loops.contains(number, *to))
        };
        let mut sum = Weighed::default();
        for (block, of) in self.blocks.iter().enumerate().filter(|(block, _)| dominators.is_reachable(*block)) {
            let Some(number) = loops.innermost(block) else {
                sum.add(of, 1.0);
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
            sum.add(of, times as f64 / (counts.subgroups * copies) as f64);
        }
        self.check_barriers(counts, &sum)?;
        Ok(sum)
    }

    /// Returns an error unless the barriers are about as many as those of the module. Compilers do not repeat barriers, and
    /// leave out all of them or none (those of a workgroup of one subgroup); so if they are not, loops were taken for others.
    /// Those outside of loops count once, and those behind branches in each round, whether they run or not.
    fn check_barriers(&self, counts: &LoopCounts, sum: &Weighed) -> Result<(), String> {
        let (found, wanted) = (sum.of(Kind::Barrier), counts.barriers as f64 / counts.subgroups as f64);
        let listed = self.counts().of(Kind::Barrier) as f64;
        if listed == 0.0 || (wanted / 1.5 - listed..=wanted * 1.5 + listed).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "a subgroup waits at {wanted:.0} barriers of the module and {found:.0} of the listing: loops were taken for others"
        ))
    }
}

/// A loop of a listing.
struct Kept {
    contents: Contents,
    /// The barriers in its blocks, without the loops inside of it.
    barriers: u64,
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
    let own = |number: usize| loops.blocks(number).iter().filter(move |block| loops.innermost(**block) == Some(number));
    let of = |(number, inner)| match number < all {
        true => {
            let barriers = own(number).map(|block| listing.blocks[*block].of(Kind::Barrier)).sum();
            Kept { contents: inside(number), barriers, inner }
        }
        false => Kept { contents: Contents::default(), barriers: 0, inner },
    };
    inner.into_iter().enumerate().map(of).collect()
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
    pairs: Vec<(usize, &'a LoopCount)>,
}

impl<'a> Found<'a> {
    /// Returns the loop of the module that a loop of the listing is.
    fn of(&self, number: usize) -> Option<&'a LoopCount> {
        self.pairs.iter().find(|(own, _)| *own == number).map(|(_, count)| *count)
    }

    fn with(&self, cost: u64, more: &Found<'a>) -> Found<'a> {
        let pairs = self.pairs.iter().chain(&more.pairs).copied().collect();
        Found { cost: self.cost + cost + more.cost, pairs }
    }
}

struct Matching<'l> {
    kept: Vec<Kept>,
    loops: &'l Loops,
}

impl Matching<'_> {
    /// Matches the loops of the listing inside of one, or the outermost ones, with some of the candidates.
    fn among<'a>(&self, around: Option<usize>, candidates: &[Candidate<'a>]) -> Option<Found<'a>> {
        let own = &self.kept[around.unwrap_or(self.loops.all().len())].inner;
        // best[at]: the best match of the loops so far with candidates before `at`.
        let mut best: Vec<Option<Found<'a>>> = vec![None; candidates.len() + 1];
        best[0] = Some(Found::default());
        self.skip(&mut best, candidates);
        for number in own {
            let mut next: Vec<Option<Found<'a>>> = vec![None; candidates.len() + 1];
            for (at, candidate) in candidates.iter().enumerate() {
                let behind = at + 1 + candidate.inside;
                let Some(pair) = self.pair(*number, candidate, &candidates[at + 1..behind]) else { continue };
                // The loop before is a copy of the same one, or comes before it.
                let copies =
                    |found: &&Found<'a>| found.pairs.iter().any(|(_, one)| std::ptr::eq(*one, candidate.count));
                let before = best[at].iter().map(|found| found.with(0, &pair));
                let copied = best[behind].iter().filter(copies).map(|found| found.with(cost::COPY, &pair));
                let found = before.chain(copied).chain(next[behind].take()).min_by_key(|found| found.cost);
                next[behind] = found;
            }
            self.skip(&mut next, candidates);
            best = next;
        }
        best.pop().flatten()
    }

    /// Lets candidates be missing behind each match.
    fn skip<'a>(&self, best: &mut [Option<Found<'a>>], candidates: &[Candidate<'a>]) {
        for (at, candidate) in candidates.iter().enumerate() {
            let skipped = best[at].as_ref().map(|found| found.with(candidate.missing(), &Found::default()));
            let found = skipped.into_iter().chain(best[at + 1].take()).min_by_key(|found| found.cost);
            best[at + 1] = found;
        }
    }

    /// Matches a loop of the listing with one of the module, and the loops inside of both.
    fn pair<'a>(&self, number: usize, candidate: &Candidate<'a>, inside: &[Candidate<'a>]) -> Option<Found<'a>> {
        let (ours, theirs) = (self.kept[number].contents, candidate.count.contents);
        let differs = |one: bool, other: bool, cost: u64| if one == other { 0 } else { cost };
        let cost = differs(ours.matrix, theirs.matrix, cost::CONTENTS)
            + differs(ours.barrier, theirs.barrier, cost::CONTENTS)
            + differs(ours.shared, theirs.shared, cost::MEMORY)
            + differs(ours.memory, theirs.memory, cost::MEMORY);
        let own = Found { cost, pairs: vec![(number, candidate.count)] };
        let inner = self.among(Some(number), inside)?;
        // What is in loops that the listing has not, is in this one.
        let mut elsewhere: Vec<&LoopCount> = self.kept[number].inner.iter().filter_map(|own| inner.of(*own)).collect();
        elsewhere.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let elsewhere: u64 = elsewhere.iter().map(|count| count.barriers).sum();
        let wanted = candidate.count.barriers.saturating_sub(elsewhere).checked_div(candidate.count.rounds);
        let found = self.kept[number].barriers;
        let alike = wanted.is_none_or(|wanted| wanted <= 2 * found && found <= 2 * wanted);
        Some(own.with(if alike { 0 } else { cost::BARRIERS }, &inner))
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
            before_test: Contents::default(),
            barriers: if contents.barrier { rounds * times } else { 0 },
            inner,
        }
    }

    fn plain(rounds: u64, times: u64, inner: Vec<LoopCount>) -> LoopCount {
        repeats(rounds, times, Contents::default(), inner)
    }

    fn weigh(text: &str, loops: Vec<LoopCount>) -> Option<[f64; Kind::ALL.len()]> {
        let listing = Listing::read(text).unwrap_or_else(|| panic!("not known:\n{text}"));
        let barriers = loops.iter().filter(|one| one.contents.barrier).map(|one| one.rounds).sum();
        let counts = LoopCounts { subgroups: 1, loops, products: 0, barriers };
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
        let text = blocks(&[block("BB1", &["v_mul_f32 v0, v0, v0"])]);
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
        let both = || LoopCount {
            barriers: 4 * 3,
            ..repeats(4, 1, Contents { barrier: true, ..Contents::default() }, vec![repeats(3, 4, stages, vec![])])
        };
        let unrolled = blocks(&[block("BB1", &["s_barrier", "s_barrier", "s_barrier"])]);
        let listing = |text: &str| Listing::read(text).unwrap();
        let counts = LoopCounts { subgroups: 1, loops: vec![both()], products: 0, barriers: 12 };
        assert_eq!(listing(&unrolled).weigh(&counts).unwrap().of(Kind::Barrier), 12.0);
        // The outer one is.
        let unrolled = blocks(&[block("BB1", &["s_barrier"])]);
        assert_eq!(listing(&unrolled).weigh(&counts).unwrap().of(Kind::Barrier), 12.0);
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
            let counts =
                LoopCounts { subgroups: 2, loops: vec![repeats(60, 1, stages, vec![])], products: 0, barriers };
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
            "add.f r0.x, r0.x, r1.x",
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
            "add.f r0.x, r0.x, r1.x",
            "jump #l1",
            "l2:",
            "end",
        ];
        let intel = [
            "mov(16) g89<1>UD g0.1<0,1,0>UD { align1 };",
            "LABEL1:",
            "add(16) g1<1>F g2<1,1,0>F g1<1,1,0>F { align1 };",
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
            "add(16) g1<1>F g2<1,1,0>F g1<1,1,0>F { align1 };",
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
            let weighed = weigh(&text, vec![plain(5, 1, vec![])]).unwrap_or_else(|| panic!("no loop of:\n{text}"));
            let found = (weighed[Kind::Arithmetic as usize], weighed[Kind::Branch as usize]);
            assert_eq!(found, (arithmetic, branches), "{text}");
        }
    }
}
