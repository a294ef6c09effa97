//! Emits the code of an access: elements one by one, and in runs.
//!
//! A run whose elements are adjacent in memory, in bounds and unclipped, is located once and moved in units as wide as
//! its alignment allows; a run in a block of quantized numbers is decoded by the vector function. Other runs, or those
//! that fail the test at run time, go element by element.

use super::access::{Access, Loaded, invariant};
use super::decode::Decoder;
use super::index_math::{IndexMath, Num, Step};
use super::layout_chain::layout;
use super::locate::{Location, Rules};
use super::memory::Root;
use super::vectorized::{WideRoot, at};
use crate::matrix::arena::{QUAD, words_of};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::StorageClass;
use coop_ir::{Id, Op, Operand};

/// The source or destination of elements, in the generated function.
pub(super) enum Endpoint {
    /// Memory, by its declared type and in units.
    Memory(Box<Root>, Option<Box<WideRoot>>),
    /// A decode function.
    Decode(Box<Decoder>),
}

/// Emits the code of an access. See [`Access::begin`].
pub(crate) struct Visit {
    pub(super) access: Access,
    pub(super) rules: Rules,
    pub(super) source: Endpoint,
    /// The values of the access's arguments.
    pub(super) values: Vec<Id>,
    fill: Option<Id>,
    /// The 64-bit stride.
    far: Option<Id>,
    /// The plans by length of run; `None` if the elements can't be located at once.
    plans: FxHashMap<u32, Option<Planned>>,
}

/// The runs of an invocation that fill a quad each.
pub(crate) struct Share<'a> {
    /// The row and the column at which each begins.
    pub(crate) places: &'a [(Index, Index)],
    /// The same for one that is known at run time only.
    pub(crate) place: &'a mut dyn FnMut(&mut FunctionBuilder<'_>, Index) -> (Index, Index),
}

/// Runs that fill a quad each.
struct LocatedQuads {
    locations: Vec<Location>,
    plan: Plan,
    /// The condition that some of them must go element by element.
    unless: Option<Id>,
}

/// A plan, and the dimensions whose offsets must be multiples of the run's length for it.
#[derive(Clone, Debug)]
struct Planned {
    plan: Plan,
    aligned: Vec<usize>,
}

/// The method that moves a whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// All elements are the same.
    Same,
    /// The elements are adjacent in memory.
    Follow,
    /// The elements are decoded one by one.
    Decode,
    /// So many elements are decoded at once.
    DecodeVector(u32),
}

fn not(b: &mut FunctionBuilder<'_>, condition: Id) -> Id {
    let ty = b.globals.bool(b.module);
    b.ids(Op::LogicalNot, ty, &[condition])
}

impl Visit {
    pub(super) fn new(
        access: Access,
        (rules, values): (Rules, &[Id]),
        source: Endpoint,
        fill: Option<Id>,
        far: Option<Id>,
    ) -> Visit {
        Visit { access, rules, source, values: values.to_vec(), fill, far, plans: FxHashMap::default() }
    }

    /// Returns the 64-bit offset, in elements, that the 64-bit stride adds to `linear`.
    fn far(&self, b: &mut FunctionBuilder<'_>, location: &Location) -> Option<Id> {
        let (stride, line) = (self.far?, location.line?);
        Some(lines_of(b, line, stride))
    }

    /// Loads an element.
    pub(crate) fn load(&mut self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> Loaded {
        self.load_one(b, row, col)
    }

    fn load_one(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> Loaded {
        let location = self.rules.locate(&mut IndexMath::new(b, 1), invariant(row), invariant(col));
        let elem = self.access.elem.ty;
        let no = IndexMath::new(b, 1).or(location.clipped, location.outside);
        let Some(no) = no else { return Loaded { value: self.fetch(b, &location), keep: None } };
        let other = match self.fill {
            Some(fill) => fill,
            None => b.globals.null(b.module, elem),
        };
        let values = b.choose(no, &[elem], &mut |_| vec![other], &mut |b| vec![self.fetch(b, &location)]);
        Loaded { value: values[0], keep: location.clipped }
    }

    /// Loads the element at a location in the tensor.
    fn fetch(&self, b: &mut FunctionBuilder<'_>, location: &Location) -> Id {
        let far = self.far(b, location);
        let value = match &self.source {
            Endpoint::Memory(root, _) => root.load(b, location.linear, far),
            Endpoint::Decode(decoder) => {
                let (block, within) = coordinates(b, location, 0);
                decoder.one(b, location.linear, far, (&block, &within))
            }
        };
        self.access.converted(b, value)
    }

    /// Loads a run of `count` elements.
    pub(crate) fn load_run(&mut self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, count: u32) -> Vec<Loaded> {
        let Some(Planned { plan, aligned }) = self.plan(count) else { return self.one_by_one(b, row, col, count) };
        let location = self.whole(b, (row, col), count, &aligned, false);
        let unit = self.unit(plan, count);
        let no = self.unless(b, &location, unit, &aligned, count);
        let this = &*self;
        let elem = self.access.elem.ty;
        let Some(no) = no else {
            let values = this.fetch_run(b, &location, plan, count, unit);
            return values.into_iter().map(|value| Loaded { value, keep: None }).collect();
        };
        let bool_type = b.globals.bool(b.module);
        let mut types = vec![elem; count as usize];
        let keeps = location.clipped.is_some();
        if keeps {
            types.extend(vec![bool_type; count as usize]);
        }
        let never = keeps.then(|| b.globals.boolean(b.module, false));
        let got = b.choose(
            no,
            &types,
            &mut |b| {
                let each = this.one_by_one(b, row, col, count);
                let keeps = each.iter().filter_map(|l| if keeps { l.keep.or(never) } else { None });
                each.iter().map(|l| l.value).chain(keeps).collect()
            },
            &mut |b| {
                let values = this.fetch_run(b, &location, plan, count, unit);
                values
                    .into_iter()
                    .chain(never.into_iter().cycle().take(if keeps { count as usize } else { 0 }))
                    .collect()
            },
        );
        let (values, keeps) = got.split_at(count as usize);
        values.iter().enumerate().map(|(i, value)| Loaded { value: *value, keep: keeps.get(i).copied() }).collect()
    }

    /// Loads runs that fill a quad each, as vectors of four words. `None` if they are not loaded in quads: use
    /// [`Visit::load_run`].
    ///
    /// One test decides for all of them, and words are not taken apart: nothing waits for a load before its value is used, so
    /// all of them are on their way together.
    pub(crate) fn load_quads(&mut self, b: &mut FunctionBuilder<'_>, share: &mut Share<'_>) -> Option<Vec<Id>> {
        let LocatedQuads { locations, plan, unless } = self.locate_quads(b, share.places)?;
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let elem = self.access.elem;
        let count = QUAD / elem.scalar.bytes();
        let whole = |b: &mut FunctionBuilder<'_>| -> Vec<Id> {
            let one = |location: &Location| match &self.source {
                Endpoint::Memory(_, Some(wide)) if !self.access.converts() => {
                    wide.load_unit(b, location.linear, 0, QUAD)
                }
                source => {
                    let unit = matches!(source, Endpoint::Memory(..)).then(|| self.stored_quad());
                    let elements = self.fetch_run(b, location, plan, count, unit);
                    let words = words_of(b, elem, &elements);
                    b.ids(Op::CompositeConstruct, quad, &words)
                }
            };
            locations.iter().map(one).collect()
        };
        let Some(unless) = unless else { return Some(whole(b)) };
        let all = share.places.len() as u32;
        // The code for single elements stands there once.
        let mut each = |b: &mut FunctionBuilder<'_>| -> Vec<Id> {
            let slots = Slots::new(b, quad, all);
            b.repeat(all, Unroll::Ask, &mut |b, n| {
                let (row, col) = (share.place)(b, n);
                let elements = self.one_by_one(b, row, col, count);
                let elements: Vec<Id> = elements.iter().map(|l| l.value).collect();
                let words = words_of(b, elem, &elements);
                let value = b.ids(Op::CompositeConstruct, quad, &words);
                slots.put(b, n, value);
            });
            (0..all).map(|n| slots.get(b, Index::Const(n))).collect()
        };
        Some(b.choose(unless, &vec![quad; all as usize], &mut |b| each(b), &mut |b| whole(b)))
    }

    /// Returns the condition that runs are loaded in quads, all of which are in the memory of their binding: that they may be
    /// read whether the program reads them or not. `None` if that can't be asked.
    pub(crate) fn may_load_quads(&mut self, b: &mut FunctionBuilder<'_>, share: &Share<'_>) -> Option<Id> {
        let LocatedQuads { locations, unless, .. } = self.locate_quads(b, share.places)?;
        let Endpoint::Memory(_, Some(wide)) = &self.source else { return None };
        let ty = b.globals.bool(b.module);
        let mut all = unless.map(|no| not(b, no));
        for location in &locations {
            let inside = wide.in_bounds(b, location.linear, self.stored_quad())?;
            all = Some(all.map_or(inside, |all| b.ids(Op::LogicalAnd, ty, &[all, inside])));
        }
        all
    }

    /// Returns true if [`Visit::load_quads`] loads runs that fill a quad each.
    pub(crate) fn has_quads(&mut self) -> bool {
        self.plan_quads().is_some()
    }

    /// Returns true if elements are decoded.
    pub(crate) fn decodes(&self) -> bool {
        matches!(self.source, Endpoint::Decode(_))
    }

    /// Returns the plan for runs that fill a quad each. `None` if they are neither adjacent in memory nor decoded.
    fn plan_quads(&mut self) -> Option<Planned> {
        let count = QUAD / self.access.elem.scalar.bytes();
        let planned = self.plan(count)?;
        let as_quads = match planned.plan {
            Plan::Follow => self.unit(planned.plan, count) == Some(self.stored_quad()),
            Plan::Decode | Plan::DecodeVector(_) => true,
            Plan::Same => false,
        };
        (as_quads && !self.rules.clips() && !self.access.is_volatile()).then_some(planned)
    }

    /// The bytes in memory of a run that fills a quad.
    fn stored_quad(&self) -> u32 {
        QUAD / self.access.elem.scalar.bytes() * self.access.stored.scalar.bytes()
    }

    /// Locates runs that fill a quad each.
    fn locate_quads(&mut self, b: &mut FunctionBuilder<'_>, places: &[(Index, Index)]) -> Option<LocatedQuads> {
        let count = QUAD / self.access.elem.scalar.bytes();
        let Planned { plan, aligned } = self.plan_quads()?;
        let locations: Vec<Location> =
            places.iter().map(|place| self.whole(b, *place, count, &aligned, true)).collect();
        let mut unless = None;
        for location in &locations {
            let no = self.unless(b, location, Some(self.stored_quad()), &aligned, count);
            unless = IndexMath::new(b, 1).or(unless, no);
        }
        Some(LocatedQuads { locations, plan, unless })
    }

    /// Locates a run, assuming that the tested offsets are aligned.
    fn whole(
        &self,
        b: &mut FunctionBuilder<'_>,
        (row, col): (Index, Index),
        count: u32,
        aligned: &[usize],
        in_moving_slice: bool,
    ) -> Location {
        let mut place = [invariant(row), invariant(col)];
        let moving = &mut place[usize::from(!self.access.runs_down)];
        // Facts about the first element say little about the last.
        (moving.step, moving.align, moving.below) = (Step::One, count.max(moving.align), None);
        let c = &mut IndexMath::new(b, count);
        let assuming;
        let rules = match aligned {
            [] => &self.rules,
            _ => {
                assuming = self.rules.assuming(count, aligned.iter().copied());
                &assuming
            }
        };
        if in_moving_slice {
            rules.locate_in_moving_slice(c, place[0], place[1])
        } else {
            rules.locate(c, place[0], place[1])
        }
    }

    /// Returns the unit in which a run is moved.
    fn unit(&self, plan: Plan, count: u32) -> Option<u32> {
        match &self.source {
            Endpoint::Memory(_, Some(wide)) if plan == Plan::Follow => wide.unit(count),
            _ => None,
        }
    }

    /// Returns the condition that a run must go element by element.
    fn unless(
        &self,
        b: &mut FunctionBuilder<'_>,
        location: &Location,
        unit: Option<u32>,
        aligned: &[usize],
        count: u32,
    ) -> Option<Id> {
        let misaligned = match (&self.source, unit) {
            (Endpoint::Memory(_, Some(wide)), Some(unit)) => wide.misaligned(b, location.linear, unit),
            _ => None,
        };
        let c = &mut IndexMath::new(b, 1);
        let mut out = c.or(location.clipped, location.outside);
        for d in aligned {
            let (_, rest) = c.div_rem(self.rules.part(layout::OFFSET, *d), Num::known(count));
            out = match c.compare(Op::INotEqual, rest, Num::known(0)) {
                Ok(test) => c.or(out, Some(test)),
                Err(true) => c.truth(),
                Err(false) => out,
            };
        }
        c.or(out, misaligned)
    }

    fn fetch_run(
        &self,
        b: &mut FunctionBuilder<'_>,
        location: &Location,
        plan: Plan,
        count: u32,
        unit: Option<u32>,
    ) -> Vec<Id> {
        let far = self.far(b, location);
        let values = match (&self.source, plan) {
            (Endpoint::Memory(root, _), Plan::Same) => {
                let value = root.load(b, location.linear, far);
                let value = self.access.converted(b, value);
                return vec![value; count as usize];
            }
            (Endpoint::Memory(_, Some(wide)), _) if unit.is_some() => {
                wide.load(b, location.linear, count, unit.unwrap_or_default())
            }
            (Endpoint::Memory(root, _), _) => (0..count)
                .map(|j| {
                    let linear = at(&mut IndexMath::new(b, 1), location.linear, j);
                    root.load(b, linear, far)
                })
                .collect::<Vec<Id>>(),
            (Endpoint::Decode(decoder), Plan::DecodeVector(lanes)) => (0..count / lanes)
                .flat_map(|j| {
                    let (block, within) = coordinates(b, location, j * lanes);
                    decoder.several(b, location.linear, far, (&block, &within))
                })
                .collect(),
            (Endpoint::Decode(decoder), _) => (0..count)
                .map(|j| {
                    let linear = at(&mut IndexMath::new(b, 1), location.linear, j);
                    let (block, within) = coordinates(b, location, j);
                    decoder.one(b, linear, far, (&block, &within))
                })
                .collect(),
        };
        values.into_iter().map(|value| self.access.converted(b, value)).collect()
    }

    /// Returns the plan for runs of `count` elements, if they can be located at once.
    fn plan(&mut self, count: u32) -> Option<Planned> {
        if count < 2 || !count.is_power_of_two() {
            return None;
        }
        if let Some(known) = self.plans.get(&count) {
            return known.clone();
        }
        let down = self.access.runs_down;
        let plan = self.access.probe(count, down, false).map(|location| self.plan_for(&location, count));
        let vector = matches!(&self.source, Endpoint::Decode(d) if d.lanes().is_some_and(|l| l <= count));
        let planned = match plan {
            Some(plan) if plan != Plan::Decode || !vector => Some(Planned { plan, aligned: Vec::new() }),
            // Blocks may begin at any element as far as one can prove, but hardly ever do.
            plan => self.plan_aligned(count).or(plan.map(|plan| Planned { plan, aligned: Vec::new() })),
        };
        self.plans.insert(count, planned.clone());
        planned
    }

    /// Returns the plan for the case that the offsets of moving coordinates are multiples of `count`.
    fn plan_aligned(&self, count: u32) -> Option<Planned> {
        let location = self.access.probe(count, self.access.runs_down, true)?;
        let moves = |n: &Num| n.step == Step::One;
        let offset = |d: &usize| self.rules.part(layout::OFFSET, *d);
        let aligned: Vec<usize> = (0..location.coordinates.len())
            .filter(|d| moves(&location.coordinates[*d].block) || moves(&location.coordinates[*d].within))
            .filter(|d| offset(d).align < count)
            .collect();
        if aligned.iter().any(|d| offset(d).constant().is_some()) {
            return None;
        }
        Some(Planned { plan: self.plan_for(&location, count), aligned })
    }

    fn plan_for(&self, location: &Location, count: u32) -> Plan {
        let Endpoint::Decode(decoder) = &self.source else {
            return if location.linear.step == Step::One { Plan::Follow } else { Plan::Same };
        };
        let moves = |n: &Num| n.step == Step::One;
        let in_block = location.coordinates.last().filter(|c| moves(&c.within)).map(|c| c.within.align);
        let lanes = decoder.lanes().filter(|l| *l <= count && in_block.is_some_and(|align| align >= *l));
        match lanes.filter(|_| location.moves_last() && location.linear.step == Step::Still) {
            Some(lanes) => Plan::DecodeVector(lanes),
            None => Plan::Decode,
        }
    }

    /// Loads the elements of a run one by one, in a loop if there are many.
    fn one_by_one(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, count: u32) -> Vec<Loaded> {
        if count < 4 {
            return (0..count)
                .map(|j| {
                    let (row, col) = self.along(b, row, col, Index::Const(j));
                    self.load_one(b, row, col)
                })
                .collect();
        }
        let elem = self.access.elem.ty;
        let bool_type = b.globals.bool(b.module);
        let values = Slots::new(b, elem, count);
        let keeps = self.rules.clips().then(|| Slots::new(b, bool_type, count));
        b.repeat(count, Unroll::Ask, &mut |b, j| {
            let (row, col) = self.along(b, row, col, j);
            let got = self.load_one(b, row, col);
            values.put(b, j, got.value);
            if let Some(keeps) = &keeps {
                let keep = got.keep.unwrap_or_else(|| b.globals.boolean(b.module, false));
                keeps.put(b, j, keep);
            }
        });
        (0..count)
            .map(|j| {
                let keep = keeps.as_ref().map(|k| k.get(b, Index::Const(j)));
                Loaded { value: values.get(b, Index::Const(j)), keep }
            })
            .collect()
    }

    /// Stores an element.
    pub(crate) fn store(&mut self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, value: Id) {
        self.store_one(b, row, col, value);
    }

    fn store_one(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, value: Id) {
        let location = self.rules.locate(&mut IndexMath::new(b, 1), invariant(row), invariant(col));
        let Endpoint::Memory(memory, _) = &self.source else { unreachable!("stores have no decode function") };
        match IndexMath::new(b, 1).or(location.clipped, location.outside) {
            Some(no) => {
                let yes = not(b, no);
                b.when(yes, &mut |b| {
                    let far = self.far(b, &location);
                    memory.store(b, (location.linear, far), value);
                });
            }
            None => {
                let far = self.far(b, &location);
                memory.store(b, (location.linear, far), value);
            }
        }
    }

    /// Stores a run of elements.
    pub(crate) fn store_run(&mut self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, values: &[Id]) {
        let count = values.len() as u32;
        let Some(Planned { plan: Plan::Follow, aligned }) = self.plan(count) else {
            return self.store_one_by_one(b, row, col, values);
        };
        let location = self.whole(b, (row, col), count, &aligned, false);
        let unit = self.unit(Plan::Follow, count);
        let this = &*self;
        match self.unless(b, &location, unit, &aligned, count) {
            None => this.put_run(b, &location, values, unit),
            Some(no) => {
                let one_by_one = &mut |b: &mut FunctionBuilder<'_>| {
                    this.store_one_by_one(b, row, col, values);
                    Vec::new()
                };
                b.choose(no, &[], one_by_one, &mut |b| {
                    this.put_run(b, &location, values, unit);
                    Vec::new()
                });
            }
        }
    }

    fn put_run(&self, b: &mut FunctionBuilder<'_>, location: &Location, values: &[Id], unit: Option<u32>) {
        match (&self.source, unit) {
            (Endpoint::Memory(_, Some(wide)), Some(unit)) => wide.store(b, location.linear, values, unit),
            (Endpoint::Memory(root, _), _) => {
                let far = self.far(b, location);
                for (j, value) in (0..).zip(values) {
                    let linear = at(&mut IndexMath::new(b, 1), location.linear, j);
                    root.store(b, (linear, far), *value);
                }
            }
            (Endpoint::Decode(_), _) => unreachable!("stores have no decode function"),
        }
    }

    fn store_one_by_one(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, values: &[Id]) {
        let count = values.len() as u32;
        if count < 4 {
            for (j, value) in (0..).zip(values) {
                let (row, col) = self.along(b, row, col, Index::Const(j));
                self.store_one(b, row, col, *value);
            }
            return;
        }
        let slots = Slots::new(b, self.access.elem.ty, count);
        for (j, value) in (0..).zip(values) {
            slots.put(b, Index::Const(j), *value);
        }
        b.repeat(count, Unroll::Ask, &mut |b, j| {
            let (row, col) = self.along(b, row, col, j);
            let value = slots.get(b, j);
            self.store_one(b, row, col, value);
        });
    }

    fn along(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, j: Index) -> (Index, Index) {
        if self.access.runs_down { (b.add(row, j), col) } else { (row, b.add(col, j)) }
    }
}

/// Multiplies a signed number of lines by a 64-bit stride.
fn lines_of(b: &mut FunctionBuilder<'_>, lines: Num, stride: Id) -> Id {
    let wide = b.globals.uint(b.module, 64);
    let lines = b.index(lines.at);
    let lines = b.ids(Op::SConvert, wide, &[lines]);
    b.ids(Op::IMul, wide, &[lines, stride])
}

/// Returns the coordinates of element `j` of a run: of its block, and in its block.
fn coordinates(b: &mut FunctionBuilder<'_>, location: &Location, j: u32) -> (Vec<Num>, Vec<Num>) {
    let c = &mut IndexMath::new(b, 1);
    location.coordinates.iter().map(|x| (at(c, x.block, j), at(c, x.within, j))).unzip()
}

/// A function-local array.
struct Slots {
    variable: Id,
    elem: Id,
}

impl Slots {
    fn new(b: &mut FunctionBuilder<'_>, elem: Id, count: u32) -> Slots {
        let array = b.globals.array(b.module, elem, count);
        Slots { variable: b.variable(array), elem }
    }

    fn pointer(&self, b: &mut FunctionBuilder<'_>, at: Index) -> Id {
        let ty = b.globals.pointer(b.module, StorageClass::Function, self.elem);
        let at = b.index(at);
        b.ids(Op::AccessChain, ty, &[self.variable, at])
    }

    fn put(&self, b: &mut FunctionBuilder<'_>, at: Index, value: Id) {
        let pointer = self.pointer(b, at);
        b.effect(Op::Store, [pointer, value].map(Operand::Id));
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, at: Index) -> Id {
        let pointer = self.pointer(b, at);
        b.ids(Op::Load, self.elem, &[pointer])
    }
}
