//! Matches the ids of two modules: which id of one is which of the other.
//!
//! Globals are matched by what they are: an instruction's key is made of its words and the keys of the ids that it names, first
//! with names and decorations, then without. Functions are matched as entry points, by name, by contents, and then in order;
//! inside two matched functions, instructions are aligned first by what their operands are computed from, and in the
//! gaps by what they are themselves. Where both modules use a number for the same kind of thing, as before and after a pass, that counts
//! first.

use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::hash::{FxHashMap, FxHasher};
use coop_ir::{Function, Id, Inst, InstRef, Module, Operand, uses};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// The longest time for which the shortest difference of two modules is searched, in all of their parts together; after it, any
/// difference is taken.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// The ids of two modules that are the same, and their functions.
pub(super) struct Matching {
    /// The id of the first module for ids of the second.
    pub(super) ids: FxHashMap<Id, Id>,
    /// The functions of the first with those of the second, as indices, by the order of the first and then of the second.
    pub(super) functions: Vec<(Option<usize>, Option<usize>)>,
}

/// Returns the operations that make `b` of `a`: the fewest, if they are found until then.
pub(super) fn operations(a: &[u64], b: &[u64], until: Instant) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, a, b, Some(until))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    // What is combined with others by addition is to depend on all bits.
    hasher.finish().rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a key of an instruction, with a key for each id but the result's.
fn key(inst: &Inst, id: impl Fn(Id) -> u64) -> u64 {
    let operand = |o: &Operand| match o {
        Operand::Id(of) => id(*of),
        Operand::Word(word) => hash(word),
    };
    let operands: Vec<u64> = inst.operands.iter().map(operand).collect();
    hash((inst.op.0, inst.ty.map(&id), inst.result.is_some(), operands))
}

/// The keys of a module's ids.
struct Keys {
    /// Of globals, by what they are.
    contents: FxHashMap<Id, u64>,
    /// Of globals, by names and decorations too.
    noted: FxHashMap<Id, u64>,
    /// Of all ids that have names or decorations, by those alone.
    notes: FxHashMap<Id, u64>,
}

impl Keys {
    fn new(m: &Module) -> Keys {
        let mut notes: FxHashMap<Id, u64> = FxHashMap::default();
        for inst in m.globals.iter().map(|r| m.inst(*r)).filter(|i| uses::is_note(i.op)) {
            let Some(target) = inst.note_target() else { continue };
            let note = key(inst, |_| 0);
            // In any order.
            notes.entry(target).and_modify(|sum| *sum = sum.wrapping_add(note)).or_insert(note);
        }
        let mut keys = Keys { contents: FxHashMap::default(), noted: FxHashMap::default(), notes };
        for inst in m.globals.iter().map(|r| m.inst(*r)) {
            let Some(id) = inst.result else { continue };
            let contents = key(inst, |id| keys.contents.get(&id).copied().unwrap_or(1));
            let noted = key(inst, |id| keys.noted.get(&id).copied().unwrap_or(1));
            keys.contents.insert(id, contents);
            keys.noted.insert(id, hash((noted, keys.notes.get(&id))));
        }
        keys
    }
}

/// The pairs of ids so far.
#[derive(Default)]
struct Pairs {
    of_second: FxHashMap<Id, Id>,
    of_first: FxHashMap<Id, Id>,
}

impl Pairs {
    fn add(&mut self, first: Id, second: Id) {
        if !self.of_first.contains_key(&first) && !self.of_second.contains_key(&second) {
            self.of_first.insert(first, second);
            self.of_second.insert(second, first);
        }
    }

    /// Matches ids without a partner that have equal keys, in order.
    fn by_key(&mut self, first: &[(Id, u64)], second: &[(Id, u64)]) {
        let mut by_key: FxHashMap<u64, Vec<Id>> = FxHashMap::default();
        let free = first.iter().rev().filter(|(id, _)| !self.of_first.contains_key(id));
        free.for_each(|(id, key)| by_key.entry(*key).or_default().push(*id));
        for (id, key) in second {
            if !self.of_second.contains_key(id)
                && let Some(partner) = by_key.get_mut(key).and_then(Vec::pop)
            {
                self.add(partner, *id);
            }
        }
    }

    /// Matches ids without a partner that have the same number in both modules and equal keys.
    fn by_number(&mut self, first: &[(Id, u64)], second: &[(Id, u64)]) {
        let first: FxHashMap<Id, u64> = first.iter().copied().collect();
        second.iter().filter(|(id, key)| first.get(id) == Some(key)).for_each(|(id, _)| self.add(*id, *id));
    }
}

/// Matches the ids and the functions of two modules.
pub(super) fn align(a: &Module, b: &Module, until: Instant) -> Matching {
    let keys = [Keys::new(a), Keys::new(b)];
    let mut pairs = Pairs::default();
    let globals = |m: &Module, key: &dyn Fn(Id, &Inst) -> Option<u64>| -> Vec<(Id, u64)> {
        let insts = m.globals.iter().map(|r| m.inst(*r));
        insts.filter_map(|inst| Some((inst.result?, key(inst.result?, inst)?))).collect()
    };
    let noted = [(a, &keys[0]), (b, &keys[1])].map(|(m, keys)| globals(m, &|id, _| keys.noted.get(&id).copied()));
    let numbered = is_numbered(&noted[0], &noted[1]);
    for round in
        [|keys: &Keys, id: Id| keys.noted.get(&id).copied(), |keys: &Keys, id: Id| keys.contents.get(&id).copied()]
    {
        let [first, second] = [(a, &keys[0]), (b, &keys[1])].map(|(m, keys)| globals(m, &|id, _| round(keys, id)));
        if numbered {
            pairs.by_number(&first, &second);
        }
        pairs.by_key(&first, &second);
    }
    if numbered {
        let kind = |_: Id, inst: &Inst| Some(hash(inst.op.0));
        pairs.by_number(&globals(a, &kind), &globals(b, &kind));
    }
    let named = |m: &Module| {
        let decorations = Decorations::new(m);
        globals(m, &|id, _| Some(hash(decorations.name(m, id).filter(|name| !name.is_empty())?)))
    };
    pairs.by_key(&named(a), &named(b));
    if numbered {
        // What a number is for has changed.
        let any = |_: Id, _: &Inst| Some(0);
        pairs.by_number(&globals(a, &any), &globals(b, &any));
    }
    let functions = functions([a, b], &keys, &mut pairs);
    for (f, g) in &functions {
        if let (Some(f), Some(g)) = (f, g) {
            bodies([(a, &a.functions[*f]), (b, &b.functions[*g])], &keys, numbered, &mut pairs, until);
        }
    }
    Matching { ids: pairs.of_second, functions }
}

/// Returns true if most of the ids of one list have the same key in the other: then the numbers mean something.
fn is_numbered(first: &[(Id, u64)], second: &[(Id, u64)]) -> bool {
    let of_first: FxHashMap<Id, u64> = first.iter().copied().collect();
    let same = second.iter().filter(|(id, key)| of_first.get(id) == Some(key)).count();
    2 * same > first.len().min(second.len())
}

/// A key of a function of one of two modules.
type Round<'a> = &'a dyn Fn(usize, usize) -> Option<u64>;

/// Matches functions, and their ids.
fn functions(modules: [&Module; 2], keys: &[Keys; 2], pairs: &mut Pairs) -> Vec<(Option<usize>, Option<usize>)> {
    let ids = modules.map(|m| -> Vec<Option<Id>> { m.functions.iter().map(|f| m.inst(f.def).result).collect() });
    let decorations = modules.map(Decorations::new);
    let entries = [0, 1].map(|side| entry_points(modules[side], &decorations[side]));
    // Of entry points of one function the first.
    let by_function = [0, 1].map(|side| {
        let all = entries[side].iter().rev().map(|entry| (entry.function, entry));
        all.collect::<FxHashMap<Id, _>>()
    });
    let entry = |side: usize, f: usize| {
        let entry = by_function[side].get(&ids[side][f]?)?;
        Some(hash((&entry.name, entry.model.0)))
    };
    let name = |side: usize, f: usize| {
        let name = decorations[side].name(modules[side], ids[side][f]?).filter(|name| !name.is_empty())?;
        Some(hash(name))
    };
    let contents = |side: usize, f: usize| {
        let m: &Module = modules[side];
        Some(hash(levels(m, &m.functions[f], &keys[side]).pop()?))
    };
    let of_type = |side: usize, f: usize| {
        let ty = modules[side].inst(modules[side].functions[f].def).function_type()?;
        keys[side].contents.get(&ty).copied()
    };
    let number = |side: usize, f: usize| Some(hash((of_type(side, f)?, ids[side][f]?.get())));
    let rounds: [Round<'_>; 5] = [&entry, &name, &contents, &number, &of_type];
    for round in rounds {
        let [first, second] = [0, 1].map(|side| -> Vec<(Id, u64)> {
            (0..ids[side].len()).filter_map(|f| Some((ids[side][f]?, round(side, f)?))).collect()
        });
        pairs.by_key(&first, &second);
    }
    let place: FxHashMap<Id, usize> = ids[1].iter().enumerate().filter_map(|(g, id)| Some(((*id)?, g))).collect();
    let of_first = (0..ids[0].len()).map(|f| {
        let partner = ids[0][f].and_then(|id| pairs.of_first.get(&id)).and_then(|id| place.get(id).copied());
        (Some(f), partner)
    });
    let mut out: Vec<(Option<usize>, Option<usize>)> = of_first.collect();
    let alone = |g: &usize| !ids[1][*g].is_some_and(|id| pairs.of_second.contains_key(&id));
    out.extend((0..ids[1].len()).filter(alone).map(|g| (None, Some(g))));
    out
}

/// Returns keys of the instructions of a function: by what they are themselves, then with their names and decorations, then each time
/// by what their operands are computed from one step more.
fn levels(m: &Module, function: &Function, keys: &Keys) -> Vec<Vec<u64>> {
    /// Deeper, a change at the top would be one of all that follows.
    const STEPS: usize = 2;
    let insts: Vec<&Inst> = function.insts().map(|r| m.inst(r)).collect();
    let global = |id: Id| keys.contents.get(&id).copied();
    let notes = |inst: &Inst| inst.result.and_then(|id| keys.notes.get(&id));
    let mut out: Vec<Vec<u64>> = vec![insts.iter().map(|inst| key(inst, |id| global(id).unwrap_or(2))).collect()];
    let mut local: FxHashMap<Id, u64> = FxHashMap::default();
    for _ in 0..=STEPS {
        let known = |id: Id| global(id).or_else(|| local.get(&id).copied()).unwrap_or(2);
        let level: Vec<u64> = insts.iter().map(|inst| hash((key(inst, known), notes(inst)))).collect();
        local = insts.iter().zip(&level).filter_map(|(inst, key)| Some((inst.result?, *key))).collect();
        out.push(level);
    }
    out
}

/// Matches the ids of two functions.
fn bodies(functions: [(&Module, &Function); 2], keys: &[Keys; 2], numbered: bool, pairs: &mut Pairs, until: Instant) {
    let refs = functions.map(|(_, f)| f.insts().collect::<Vec<InstRef>>());
    let result = |side: usize, at: usize| functions[side].0.inst(refs[side][at]).result;
    let levels = [0, 1].map(|side| levels(functions[side].0, functions[side].1, &keys[side]));
    // By numbers, where most of the results of one are those of the other.
    let exact = [0, 1].map(|side| -> Vec<u64> {
        let m = functions[side].0;
        refs[side].iter().map(|r| hash((m.inst(*r).result, key(m.inst(*r), |id| u64::from(id.get()))))).collect()
    });
    let kinds = [0, 1].map(|side| -> Vec<(Id, u64)> {
        let insts = refs[side].iter().map(|r| functions[side].0.inst(*r));
        insts.filter_map(|inst| Some((inst.result?, u64::from(inst.op.0)))).collect()
    });
    let numbered = numbered && is_numbered(&kinds[0], &kinds[1]);
    // In the end by their types alone: something else is computed in the same place.
    let types = [0, 1].map(|side| -> Vec<u64> {
        let of = |(at, r): (usize, &InstRef)| match functions[side].0.inst(*r) {
            Inst { ty: Some(ty), result: Some(_), .. } => hash((3, keys[side].contents.get(ty))),
            _ => hash((4, side, at)),
        };
        refs[side].iter().enumerate().map(of).collect()
    });
    let mut gaps = vec![(0..refs[0].len(), 0..refs[1].len())];
    let mut matched: Vec<(usize, usize)> = Vec::new();
    let by_contents = levels[0].iter().zip(&levels[1]).rev();
    let by_number = numbered.then_some((&exact[0], &exact[1]));
    for (first, second) in by_number.into_iter().chain(by_contents).chain([(&types[0], &types[1])]) {
        let mut left = Vec::new();
        for (of_first, of_second) in gaps {
            for op in operations(&first[of_first.clone()], &second[of_second.clone()], until) {
                let (_, old, new) = op.as_tag_tuple();
                let old = old.start + of_first.start..old.end + of_first.start;
                let new = new.start + of_second.start..new.end + of_second.start;
                if matches!(op, DiffOp::Equal { .. }) {
                    matched.extend(old.zip(new));
                } else if !old.is_empty() && !new.is_empty() {
                    left.push((old, new));
                }
            }
        }
        gaps = left;
    }
    if numbered {
        pairs.by_number(&kinds[0], &kinds[1]);
    }
    for (old, new) in matched {
        if let (Some(first), Some(second)) = (result(0, old), result(1, new)) {
            pairs.add(first, second);
        }
    }
}
