//! Promotes function variables to values.
//!
//! [`promote`] replaces `OpVariable`s that are only loaded and stored as a whole by their values, with phis where paths
//! meet. [`repair`] fixes a function in which an edit of the control flow left uses that their definitions no longer
//! dominate: it adds variables, which are then promoted.

use coop_ir::builder::Globals;
use coop_ir::cfg::{Cfg, Frontiers};
use coop_ir::effects::{ExtSet, ExtSets};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::Type;
use coop_ir::uses::{Users, for_each_use, is_note};
use coop_ir::{Id, IdSet, Inst, InstRef, Module, Op, Operand};
use smallvec::SmallVec;

/// Returns the variables of function `f` whose type is `wanted`, and that are only loaded and stored as a whole.
pub(crate) fn candidates(m: &Module, f: usize, wanted: &dyn Fn(&Module, Id) -> bool) -> Vec<Id> {
    let Some(entry) = m.functions[f].blocks.first() else { return Vec::new() };
    let of_function = entry.insts.iter().map(|r| m.inst(*r)).take_while(|i| {
        // Variables come first, with source positions among them.
        i.op == Op::Variable || i.op.is_line() || i.op == Op::ExtInst
    });
    let mut pointees: FxHashMap<Id, Id> = FxHashMap::default();
    let mut found: Vec<Id> = of_function
        .filter(|i| i.op == Op::Variable)
        .filter_map(|i| {
            let id = i.result?;
            let Type::Pointer { pointee, .. } = Type::of(m, i.ty?)? else { return None };
            pointees.insert(id, pointee);
            wanted(m, pointee).then_some(id)
        })
        .collect();
    if found.is_empty() {
        return found;
    }
    // Only the function itself uses its variables, and words of opaque instructions elsewhere that may be their ids.
    let mut left: IdSet = IdSet::default();
    found.iter().for_each(|id| _ = left.insert(*id));
    let mut refuted: IdSet = IdSet::default();
    let mut look = |i: &Inst| {
        for_each_use(m, i, |id| {
            if left.contains(id) && !pointees.get(&id).is_some_and(|pointee| is_simple_use(m, i, id, *pointee)) {
                refuted.insert(id);
            }
        });
    };
    m.functions[f].insts().for_each(|r| look(m.inst(r)));
    let others = m.globals.iter().chain(&m.trailing).map(|r| m.inst(*r));
    others.filter(|i| i.opaque).for_each(&mut look);
    found.retain(|id| !refuted.contains(*id));
    found
}

/// Returns true if a use of a variable loads or stores it as a whole, or is a note about it.
fn is_simple_use(m: &Module, i: &Inst, id: Id, pointee: Id) -> bool {
    let volatile = |i: &Inst| i.memory_access().contains(MemoryAccess::Volatile);
    match i.op {
        Op::Load => i.ty == Some(pointee) && !volatile(i),
        Op::Store => i.accessed() == Some(id) && i.stored() != Some(id) && !volatile(i),
        // Debug information of variables is removed with them.
        Op::ExtInst => is_debug(m, i),
        op => is_note(op),
    }
}

/// Returns true if an instruction is an extended one of a set that has no effect.
pub(crate) fn is_debug(m: &Module, inst: &Inst) -> bool {
    inst.op == Op::ExtInst && ExtSet::of(m, inst) == ExtSet::Note
}

/// Replaces variables (from [`candidates`]) of function `f` by values.
pub(crate) fn promote(m: &mut Module, f: usize, variables: &[Id]) {
    if variables.is_empty() {
        return;
    }
    let cfg = Cfg::new(m, &m.functions[f]);
    let frontiers = Frontiers::new(cfg.graph(), cfg.dom());
    let mut places: FxHashMap<Id, PromotedVariable> = FxHashMap::default();
    for id in variables {
        let Some(inst) = m.def_inst(*id) else { continue };
        let Some(Type::Pointer { pointee, .. }) = inst.ty.and_then(|t| Type::of(m, t)) else { continue };
        places.insert(
            *id,
            PromotedVariable {
                ty: pointee,
                initial: inst.initializer(),
                events: Vec::new(),
                phis: FxHashMap::default(),
            },
        );
    }
    collect_events(m, f, &mut places);
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut new_phis: Vec<Phi> = Vec::new();
    let mut ends = Ends::new(cfg.len());
    for id in variables {
        let Some(mut place) = places.remove(id) else { continue };
        let first = new_phis.len();
        place.add_phis(m, &cfg, &frontiers, &mut new_phis);
        place.rename(m, &cfg, &mut ends, &mut map, &mut new_phis[first..]);
    }
    // The replacement of a load may be the load of another variable. A module that is not well formed may store the
    // value of a later load: that is a cycle.
    let end = |mut id: Id| {
        for _ in 0..=map.len() {
            let Some(next) = map.get(&id) else { break };
            id = *next;
        }
        id
    };
    for phi in &mut new_phis {
        phi.incoming.iter_mut().for_each(|(v, _)| *v = end(*v));
    }
    let resolved: FxHashMap<Id, Id> = map.keys().map(|k| (*k, end(*k))).collect();
    remove_accesses(m, f, variables);
    replace_in(m, f, &resolved);
    prune_and_insert(m, f, new_phis);
}

/// One load or store.
#[derive(Clone, Copy)]
enum Event {
    Load(Id),
    Store(Id),
}

struct PromotedVariable {
    ty: Id,
    initial: Option<Id>,
    /// In the order of blocks and instructions: the block and what happens.
    events: Vec<(usize, Event)>,
    /// The phi, by block.
    phis: FxHashMap<usize, Id>,
}

struct Phi {
    block: usize,
    id: Id,
    ty: Id,
    incoming: Vec<(Id, Id)>,
}

fn collect_events(m: &Module, f: usize, places: &mut FxHashMap<Id, PromotedVariable>) {
    for (b, block) in m.functions[f].blocks.iter().enumerate() {
        for r in &block.insts {
            let i = m.inst(*r);
            let Some(place) = i.accessed().and_then(|p| places.get_mut(&p)) else { continue };
            match (i.op, i.result, i.stored()) {
                (Op::Load, Some(result), _) => place.events.push((b, Event::Load(result))),
                (Op::Store, _, Some(value)) => place.events.push((b, Event::Store(value))),
                _ => {}
            }
        }
    }
}

impl PromotedVariable {
    /// Adds a phi to each block where different values may join and a load may see them.
    fn add_phis(&mut self, m: &mut Module, cfg: &Cfg, frontiers: &Frontiers, all: &mut Vec<Phi>) {
        let mut loaded_first: Vec<usize> = Vec::new();
        let mut stored: FxHashSet<usize> = FxHashSet::default();
        for (b, event) in &self.events {
            match event {
                Event::Load(_) if !stored.contains(b) => loaded_first.push(*b),
                Event::Load(_) => {}
                Event::Store(_) => {
                    stored.insert(*b);
                }
            }
        }
        // The blocks where the variable is live on entry.
        let mut live: FxHashSet<usize> = FxHashSet::default();
        while let Some(b) = loaded_first.pop() {
            if live.insert(b) {
                loaded_first.extend(cfg.predecessors(b).iter().filter(|p| !stored.contains(p)));
            }
        }
        let mut work: Vec<usize> = stored.into_iter().filter(|b| cfg.is_reachable(*b)).collect();
        work.sort_unstable();
        let mut places: Vec<usize> = Vec::new();
        while let Some(b) = work.pop() {
            for at in frontiers.of(b) {
                if live.contains(at) && !places.contains(at) {
                    places.push(*at);
                    work.push(*at);
                }
            }
        }
        places.sort_unstable();
        for block in places {
            let id = m.fresh_id();
            self.phis.insert(block, id);
            all.push(Phi { block, id, ty: self.ty, incoming: Vec::new() });
        }
    }

    /// Finds the value of each load and the incoming values of each phi; `phis` are those of this variable.
    fn rename(&self, m: &mut Module, cfg: &Cfg, ends: &mut Ends, map: &mut FxHashMap<Id, Id>, phis: &mut [Phi]) {
        // The values at the ends of blocks with a phi or a store; the others have those of their dominators.
        ends.clear();
        for (block, phi) in &self.phis {
            ends.set(*block, Some(*phi));
        }
        for (block, event) in &self.events {
            if let Event::Store(value) = event {
                ends.set(*block, Some(*value));
            }
        }
        let mut unset: Option<Id> = None;
        let mut events = self.events.as_slice();
        while let Some((b, _)) = events.first() {
            let (of_block, rest) = events.split_at(events.iter().take_while(|e| e.0 == *b).count());
            events = rest;
            let mut now = self.phis.get(b).copied();
            if now.is_none() && matches!(of_block[0].1, Event::Load(_)) {
                now = self.above(cfg, ends, *b);
            }
            for (_, event) in of_block {
                match event {
                    Event::Store(v) => now = Some(*v),
                    Event::Load(result) => {
                        let value = match now {
                            Some(v) => v,
                            None => *unset.get_or_insert_with(|| undef(m, self.ty)),
                        };
                        map.insert(*result, value);
                    }
                }
            }
        }
        for phi in phis {
            for p in cfg.predecessors(phi.block) {
                let value = match self.at_end(cfg, ends, *p) {
                    Some(v) => v,
                    None => *unset.get_or_insert_with(|| undef(m, self.ty)),
                };
                if let Some(label) = cfg.label(*p) {
                    phi.incoming.push((value, label));
                }
            }
        }
    }

    /// Returns the value at the beginning of a block without a phi.
    fn above(&self, cfg: &Cfg, ends: &mut Ends, block: usize) -> Option<Id> {
        // Unreachable code has no values.
        if !cfg.is_reachable(block) {
            return None;
        }
        match cfg.idom(block) {
            Some(d) => self.at_end(cfg, ends, d),
            None => self.initial,
        }
    }

    /// Returns the value at the end of a block.
    fn at_end(&self, cfg: &Cfg, ends: &mut Ends, block: usize) -> Option<Id> {
        // Dominators up to one whose value is known; then all of them have it.
        let (mut at, mut walked) = (block, SmallVec::<[usize; 16]>::new());
        let value = loop {
            if let Some(known) = ends.get(at) {
                break known;
            }
            walked.push(at);
            if !cfg.is_reachable(at) {
                break None;
            }
            match cfg.idom(at) {
                Some(d) => at = d,
                None => break self.initial,
            }
        };
        walked.into_iter().for_each(|b| ends.set(b, value));
        value
    }
}

/// The values of a variable at the ends of blocks, as far as they are known.
struct Ends {
    /// For each block, the number of the variable and its value.
    known: Vec<(u32, Option<Id>)>,
    variable: u32,
}

impl Ends {
    fn new(blocks: usize) -> Ends {
        Ends { known: vec![(0, None); blocks], variable: 0 }
    }

    /// Goes on to another variable.
    fn clear(&mut self) {
        self.variable += 1;
    }

    fn get(&self, block: usize) -> Option<Option<Id>> {
        let (variable, value) = self.known[block];
        (variable == self.variable).then_some(value)
    }

    fn set(&mut self, block: usize, value: Option<Id>) {
        self.known[block] = (self.variable, value);
    }
}

/// Returns an undefined value of a type, as a global.
pub(crate) fn undef(m: &mut Module, ty: Id) -> Id {
    let existing = m.globals_with(Op::Undef).find(|r| m.inst(*r).ty == Some(ty)).and_then(|r| m.inst(r).result);
    if let Some(id) = existing {
        return id;
    }
    let id = m.fresh_id();
    let r = m.add(Inst::new(Op::Undef, Some(ty), Some(id), []));
    m.globals.push(r);
    id
}

/// Removes variables with their loads, stores, names and decorations.
fn remove_accesses(m: &mut Module, f: usize, variables: &[Id]) {
    let set: FxHashSet<Id> = variables.iter().copied().collect();
    let mut gone: Vec<InstRef> = Vec::new();
    for block in &m.functions[f].blocks {
        for r in &block.insts {
            let i = m.inst(*r);
            let dead = match i.op {
                Op::Variable => i.result.is_some_and(|id| set.contains(&id)),
                Op::Load | Op::Store => i.accessed().is_some_and(|id| set.contains(&id)),
                Op::ExtInst => i.ids().any(|id| set.contains(&id)),
                _ => false,
            };
            if dead {
                gone.push(*r);
            }
        }
    }
    let gone_results: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).collect();
    remove_insts(m, f, &gone.into_iter().collect());
    remove_annotations(m, &gone_results);
}

/// Removes those of these values that nothing uses but names and the like.
pub(crate) fn remove_unused(m: &mut Module, values: &FxHashSet<Id>) {
    let users = Users::new(m);
    let gone: FxHashSet<Id> = values.iter().copied().filter(|id| users.beyond_notes(m, *id).next().is_none()).collect();
    let insts: FxHashSet<InstRef> = gone.iter().filter_map(|id| m.def(*id)).collect();
    for f in 0..m.functions.len() {
        let here: FxHashSet<InstRef> = m.functions[f].insts().filter(|r| insts.contains(r)).collect();
        remove_insts(m, f, &here);
    }
    remove_annotations(m, &gone);
}

/// Removes instructions from the blocks of a function.
pub(crate) fn remove_insts(m: &mut Module, f: usize, gone: &FxHashSet<InstRef>) {
    if gone.is_empty() {
        return;
    }
    gone.iter().for_each(|r| m.forget(*r));
    for block in &mut m.functions[f].blocks {
        block.insts.retain(|r| !gone.contains(r));
    }
}

/// Removes the names, decorations and debug information of removed ids.
pub(crate) fn remove_annotations(m: &mut Module, gone: &FxHashSet<Id>) {
    if gone.is_empty() {
        return;
    }
    coop_ir::rewrite::remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.note_target().is_some_and(|id| gone.contains(&id))
    });
    let sets = ExtSets::new(m);
    for f in 0..if sets.has_notes() { m.functions.len() } else { 0 } {
        let speaks = |i: &Inst| sets.is_note(i) && i.ids().any(|id| gone.contains(&id));
        let insts: FxHashSet<InstRef> = m.functions[f].insts().filter(|r| speaks(m.inst(*r))).collect();
        remove_insts(m, f, &insts);
    }
}

/// Replaces ids in one function.
pub(crate) fn replace_in(m: &mut Module, f: usize, map: &FxHashMap<Id, Id>) {
    if map.is_empty() {
        return;
    }
    let mut replaced = IdSet::default();
    map.keys().for_each(|id| _ = replaced.insert(*id));
    for r in m.functions[f].insts().collect::<Vec<_>>() {
        if m.inst(r).ids().any(|id| replaced.contains(id)) {
            m.inst_mut(r).map_ids(|id| map.get(&id).copied().unwrap_or(id));
        }
    }
}

/// Inserts the phis that have uses into their blocks.
fn prune_and_insert(m: &mut Module, f: usize, phis: Vec<Phi>) {
    let ids: FxHashSet<Id> = phis.iter().map(|p| p.id).collect();
    let mut needed: FxHashSet<Id> = FxHashSet::default();
    let mut work: Vec<Id> = Vec::new();
    for r in m.functions[f].insts() {
        work.extend(m.inst(r).ids().filter(|id| ids.contains(id)));
    }
    let by_id: FxHashMap<Id, &Phi> = phis.iter().map(|p| (p.id, p)).collect();
    while let Some(id) = work.pop() {
        if needed.insert(id)
            && let Some(phi) = by_id.get(&id)
        {
            work.extend(phi.incoming.iter().map(|i| i.0).filter(|v| ids.contains(v)));
        }
    }
    for phi in phis.iter().rev().filter(|p| needed.contains(&p.id)) {
        let operands = phi.incoming.iter().flat_map(|(v, l)| [Operand::Id(*v), Operand::Id(*l)]);
        let r = m.add(Inst::new(Op::Phi, Some(phi.ty), Some(phi.id), operands));
        m.functions[f].blocks[phi.block].insts.insert(0, r);
    }
}

/// Adds a variable to function `f`.
pub(crate) fn variable(m: &mut Module, g: &mut Globals, f: usize, ty: Id) -> Id {
    let storage = StorageClass::Function;
    let pointer = g.pointer(m, storage, ty);
    let id = m.fresh_id();
    let r = m.add(Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
    if let Some(entry) = m.functions[f].blocks.first_mut() {
        entry.insts.insert(0, r);
    }
    id
}

/// Makes definitions dominate their uses again in function `f`, after an edit added edges on which the values do not
/// matter. Pointers from access chains are recomputed at their uses.
pub(crate) fn repair(m: &mut Module, g: &mut Globals, f: usize) {
    // Each iteration may find operands of access chains that were recomputed.
    for _ in 0..64 {
        let broken = broken_uses(m, f);
        if broken.is_empty() {
            return;
        }
        let mut variables: Vec<Id> = Vec::new();
        for (value, uses) in broken {
            let Some(def) = m.def(value) else { continue };
            if m.inst(def).op.is_typed_access_chain() {
                remake(m, f, def, &uses);
                continue;
            }
            let Some(ty) = m.inst(def).ty else { continue };
            let variable = variable(m, g, f, ty);
            variables.push(variable);
            store_after(m, f, def, variable, value);
            for u in &uses {
                let loaded = m.fresh_id();
                let load = Inst::new(Op::Load, Some(ty), Some(loaded), [variable.into()]);
                place_before_use(m, f, u, load);
                substitute(m, u, value, loaded);
            }
        }
        promote(m, f, &variables);
    }
}

/// A use of a value: the instruction and its block; for a phi, the predecessor that the value comes from.
struct Use {
    by: InstRef,
    block: usize,
    /// The operand index in a phi.
    incoming: Option<usize>,
}

/// Returns the uses that their definitions do not dominate, by value.
fn broken_uses(m: &Module, f: usize) -> Vec<(Id, Vec<Use>)> {
    let cfg = Cfg::new(m, &m.functions[f]);
    let mut def_block: FxHashMap<Id, usize> = FxHashMap::default();
    for (b, block) in m.functions[f].blocks.iter().enumerate() {
        def_block.extend(block.insts.iter().filter_map(|r| Some((m.inst(*r).result?, b))));
    }
    let mut out: Vec<(Id, Vec<Use>)> = Vec::new();
    let mut index: FxHashMap<Id, usize> = FxHashMap::default();
    let mut add = |id: Id, u: Use| {
        let at = *index.entry(id).or_insert_with(|| {
            out.push((id, Vec::new()));
            out.len() - 1
        });
        out[at].1.push(u);
    };
    for b in cfg.rpo() {
        for r in &m.functions[f].blocks[*b].insts {
            let i = m.inst(*r);
            if i.op == Op::Phi {
                for at in (0..i.operands.len()).step_by(2) {
                    let (Some(v), Some(from)) = (i.id(at), i.id(at + 1).and_then(|l| cfg.block(l))) else { continue };
                    if def_block.get(&v).is_some_and(|d| !cfg.dominates(*d, from)) {
                        add(v, Use { by: *r, block: from, incoming: Some(at) });
                    }
                }
                continue;
            }
            let mut seen: Vec<Id> = Vec::new();
            for v in i.ids() {
                if !seen.contains(&v) && def_block.get(&v).is_some_and(|d| !cfg.dominates(*d, *b)) {
                    seen.push(v);
                    add(v, Use { by: *r, block: *b, incoming: None });
                }
            }
        }
    }
    out
}

fn place_before_use(m: &mut Module, f: usize, u: &Use, inst: Inst) {
    let r = m.add(inst);
    let insts = &m.functions[f].blocks[u.block].insts;
    let at = match u.incoming {
        None => insts.iter().position(|i| *i == u.by).unwrap_or(0),
        Some(_) => {
            // In front of a merge instruction, which must stay next to the terminator.
            let last = insts.len().saturating_sub(1);
            let merges = |i: &InstRef| matches!(m.inst(*i).op, Op::SelectionMerge | Op::LoopMerge);
            insts.iter().position(merges).unwrap_or(last)
        }
    };
    m.functions[f].blocks[u.block].insts.insert(at, r);
}

fn substitute(m: &mut Module, u: &Use, from: Id, to: Id) {
    let inst = m.inst_mut(u.by);
    match u.incoming {
        Some(at) => inst.operands[at] = Operand::Id(to),
        None => inst.map_ids(|id| if id == from { to } else { id }),
    }
}

fn remake(m: &mut Module, f: usize, def: InstRef, uses: &[Use]) {
    for u in uses {
        let id = m.fresh_id();
        let Some(old) = m.inst(def).result else { return };
        let mut inst = m.inst(def).clone();
        inst.result = Some(id);
        place_before_use(m, f, u, inst);
        substitute(m, u, old, id);
    }
}

fn store_after(m: &mut Module, f: usize, def: InstRef, variable: Id, value: Id) {
    let r = m.add(Inst::new(Op::Store, None, None, [variable, value].map(Operand::Id)));
    let found = m.functions[f].blocks.iter().enumerate().find_map(|(b, block)| {
        let at = block.insts.iter().position(|i| *i == def)?;
        Some((b, at))
    });
    let Some((b, mut at)) = found else { return };
    let insts = &m.functions[f].blocks[b].insts;
    // Phis and variables stay together at the top.
    at += 1;
    while insts.get(at).is_some_and(|i| matches!(m.inst(*i).op, Op::Phi | Op::Variable) || m.inst(*i).op.is_line()) {
        at += 1;
    }
    m.functions[f].blocks[b].insts.insert(at, r);
}
