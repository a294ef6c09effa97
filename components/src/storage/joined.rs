//! Stores of neighboring narrow numbers by one invocation, which are joined to stores of words.
//!
//! Scalar code stores the row of a matrix number by number. If the first of them begins a word is known when the code runs: a
//! function tests it, and stores whole words then, else each number by itself.

use super::access::Words;
use super::layout::Layout;
use super::number::{shifted, to_bits};
use super::place::Place;
use super::{Buffer, Storage, memory};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::MemoryAccess;
use coop_ir::types::{self, Scalar};
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The most numbers that are stored together.
const MOST: usize = 64;
/// How deep sums of indices are followed.
const DEEPEST: u32 = 8;

/// The stores that are joined.
#[derive(Default)]
pub(super) struct Joined {
    /// Those that follow one another, by the last of them, which takes the place of all.
    pub(super) runs: FxHashMap<InstRef, Vec<InstRef>>,
    /// The others of them.
    pub(super) gone: FxHashSet<InstRef>,
}

/// The place of a stored number: the array, and the index as a sum.
#[derive(PartialEq)]
struct Key {
    base: Id,
    outer: Vec<Id>,
    terms: Vec<Id>,
    constant: u32,
    bytes: u32,
    memory: Vec<Operand>,
}

/// Finds stores in a block that follow one another at following places, with nothing but computations between them.
pub(super) fn find(m: &Module, layout: &Layout, buffers: &FxHashMap<Id, Buffer>) -> Joined {
    let mut joined = Joined::default();
    for block in m.functions.iter().flat_map(|f| &f.blocks) {
        let mut run: Option<(Key, Vec<InstRef>)> = None;
        for r in block.insts.iter().copied() {
            let i = m.inst(r);
            if let Some(key) = key(m, layout, buffers, i) {
                match &mut run {
                    Some((next, stores)) if *next == key && stores.len() < MOST => stores.push(r),
                    _ => {
                        joined.end(run.take());
                        run = Some((Key { ..key }, vec![r]));
                    }
                }
                if let Some((next, _)) = &mut run {
                    next.constant = next.constant.wrapping_add(1);
                }
            } else if !i.op.is_pure() && !i.op.is_member_chain() {
                joined.end(run.take());
            }
        }
        joined.end(run);
    }
    joined
}

impl Joined {
    /// Takes as many stores as whole words have numbers.
    fn end(&mut self, run: Option<(Key, Vec<InstRef>)>) {
        let Some((key, mut stores)) = run else { return };
        let per = 4 / key.bytes as usize;
        stores.truncate(stores.len() / per * per);
        if let Some((last, others)) = stores.split_last() {
            self.gone.extend(others);
            self.runs.insert(*last, stores);
        }
    }
}

fn key(m: &Module, layout: &Layout, buffers: &FxHashMap<Id, Buffer>, i: &Inst) -> Option<Key> {
    let (pointer, value) = i.accessed().zip(i.stored())?;
    let chain = m.def_inst(pointer).filter(|c| c.op.is_member_chain())?;
    let view = chain.access_chain().filter(|view| buffers.contains_key(&view.base))?;
    let scalar = types::scalar(m, m.type_of(value)?).filter(|s| matches!(s.width(), 8 | 16))?;
    let operands = MemoryOperands::at(i, 2);
    if operands.mask.contains(MemoryAccess::Volatile) {
        return None;
    }
    let mut outer: Vec<Id> = chain.ids_from(view.first).collect();
    let last = outer.pop()?;
    let mut terms = Vec::new();
    let constant = sum(m, layout, last, DEEPEST, &mut terms);
    terms.sort_unstable();
    Some(Key { base: view.base, outer, terms, constant, bytes: scalar.bytes(), memory: memory(i, 2) })
}

/// Takes an index apart into terms and a constant, which is returned. Sums of fewer than 32 bits wrap where the index does not.
fn sum(m: &Module, layout: &Layout, id: Id, depth: u32, terms: &mut Vec<Id>) -> u32 {
    if let Some(n) = layout.fixed(id) {
        return n;
    }
    let wide = |i: &&Inst| {
        let scalar = i.ty.and_then(|ty| types::scalar(m, ty));
        matches!(scalar, Some(Scalar::Int { width: 32 | 64, .. }))
    };
    match m.def_inst(id).filter(|i| i.op == Op::IAdd && depth > 0).filter(wide) {
        Some(i) => i.ids().map(|part| sum(m, layout, part, depth - 1, terms)).fold(0, u32::wrapping_add),
        None => {
            terms.push(id);
            0
        }
    }
}

/// Returns the first of places if they differ in the last index only, which counts numbers.
fn first(places: &[Place], bytes: u32) -> Option<&Place> {
    let (first, rest) = places.split_first()?;
    let (last, outer) = first.terms.split_last()?;
    let alike = |p: &Place| {
        let mine = p.terms.split_last().is_some_and(|(l, o)| l.1 == bytes && o == outer);
        mine && (p.variable, p.constant) == (first.variable, first.constant) && p.descriptor.is_none()
    };
    (last.1 == bytes && first.descriptor.is_none() && rest.iter().all(alike)).then_some(first)
}

impl Storage {
    /// Stores the numbers of a run.
    pub(super) fn store_run(&mut self, b: &mut FunctionBuilder<'_>, stores: &[InstRef]) -> Result<(), String> {
        let insts: Vec<Inst> = stores.iter().map(|r| b.module.inst(*r).clone()).collect();
        let place = |i: &Inst| i.accessed().and_then(|pointer| self.place(b.module, pointer));
        let places: Vec<Place> = insts.iter().filter_map(place).collect();
        let scalar = places.first().and_then(|p| types::scalar(b.module, p.at.ty));
        let together = scalar.and_then(|s| Some((s, first(&places, s.bytes())?)));
        let Some((s, place)) = together.filter(|_| places.len() == insts.len()) else {
            return insts.iter().try_for_each(|i| self.store(b, i));
        };
        let values: Vec<Id> = insts.iter().filter_map(Inst::stored).collect();
        let bits: Vec<Id> = values.iter().map(|value| to_bits(b, *value, place.at.ty, s)).collect();
        let buffer = self.buffers.get(&place.variable).ok_or("a variable is not known")?;
        self.words.store_run(b, buffer, place, s, &bits, memory(&insts[0], 2))
    }
}

impl Words {
    fn store_run(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        buffer: &Buffer,
        place: &Place,
        s: Scalar,
        bits: &[Id],
        memory: Vec<Operand>,
    ) -> Result<(), String> {
        let key = (place.variable, s.bytes(), bits.len(), memory.clone());
        let store = match self.runs.get(&key) {
            Some(store) => *store,
            None => {
                let store = self.run_function(b, buffer, place, s, bits.len(), memory.clone())?;
                self.runs.insert(key, store);
                store
            }
        };
        let at = self.access(buffer, place, memory)?.number(b, s)?;
        let operands = [store, at].into_iter().chain(bits.iter().copied());
        let void = b.globals.void(b.module);
        b.op(Op::FunctionCall, void, operands.map(Operand::Id));
        Ok(())
    }

    /// Makes the function that stores so many numbers, the first at an index.
    fn run_function(
        &self,
        b: &mut FunctionBuilder<'_>,
        buffer: &Buffer,
        place: &Place,
        s: Scalar,
        count: usize,
        memory: Vec<Operand>,
    ) -> Result<Id, String> {
        let (void, bytes) = (b.globals.void(b.module), s.bytes());
        let mut b = FunctionBuilder::new(b.module, b.globals, "store_run", void, &vec![self.uint; count + 1]);
        let at = b.param(0);
        let mut whole = Place::new(b.module, place.variable, false, place.at.ty);
        whole.add(at, bytes, 1);
        let mut access = self.access(buffer, &whole, memory)?;
        let (word, part) = (b.div(Index::Value(at), 4 / bytes), b.rem(Index::Value(at), 4 / bytes));
        let begins = b.compare(Op::IEqual, part, Index::Const(0));
        let numbers: Vec<Id> = (1..=count).map(|n| b.param(n)).collect();
        let mut fork = b.fork(begins);
        for (n, numbers) in numbers.chunks(4 / bytes as usize).enumerate() {
            let shift = |b: &mut FunctionBuilder<'_>, (k, bits): (u32, &Id)| {
                shifted(b, Op::ShiftLeftLogical, *bits, Index::Const(8 * bytes * k))
            };
            let parts: Vec<Id> = (0..).zip(numbers).map(|part| shift(&mut b, part)).collect();
            let all = parts.into_iter().reduce(|a, c| b.ids(Op::BitwiseOr, self.uint, &[a, c]));
            let index = b.add(word, Index::Const(n as u32));
            all.into_iter().for_each(|bits| self.write(&mut b, &access, index, bits));
        }
        b.other(&mut fork);
        for (n, bits) in (0..).zip(numbers) {
            self.write_part(&mut b, &mut access, bytes * n, bits, 8 * bytes)?;
        }
        b.join(fork);
        Ok(b.finish(None))
    }
}
