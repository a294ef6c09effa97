//! Builds instructions: types and constants, which are looked up before they are made, and functions, block by block.

use crate::grammar::Op;
use crate::hash::{FxHashMap, FxHashSet};
use crate::module::{Block, Function, Id, Inst, InstList, InstRef, Module, Operand, OperandList, string_operands};
use crate::section::Section;
use crate::spv::{Capability, FunctionControl, LoopControl, SelectionControl, StorageClass};
use crate::types::Scalar;
use smallvec::SmallVec;

/// The types and constants of a module, by their contents.
///
/// SPIR-V allows one id only for each scalar, vector and function type, so these must be found, not made twice. Arrays
/// and structs may repeat, and those of the input may carry layout decorations: only our own are shared. New globals go
/// to the end of the list; [`crate::rewrite::sort_globals`] restores the order when older ones refer to them.
pub struct Globals {
    ids: FxHashMap<(Op, Option<Id>, OperandList), Id>,
    /// The Boolean type.
    bool: Option<Id>,
    /// The type of most constants, and of most types' lengths.
    u32: Option<Id>,
    /// Constants of that type, by value.
    u32s: FxHashMap<u32, Id>,
}

impl Globals {
    /// Collects the types and constants of `module`.
    pub fn new(module: &Module) -> Globals {
        let decorated: FxHashSet<Id> = module
            .globals
            .iter()
            .map(|r| module.inst(*r))
            .filter(|i| matches!(i.op, Op::Decorate | Op::DecorateId | Op::MemberDecorate | Op::DecorateString))
            .filter_map(|i| i.id(0))
            .collect();
        let mut ids = FxHashMap::with_capacity_and_hasher(module.globals.len(), Default::default());
        for r in &module.globals {
            let i = module.inst(*r);
            let shared = match i.op {
                Op::TypeVoid | Op::TypeBool | Op::TypeInt | Op::TypeFloat | Op::TypeVector | Op::TypeFunction => true,
                Op::TypePointer | Op::Constant | Op::ConstantTrue | Op::ConstantFalse | Op::ConstantNull => {
                    i.result.is_some_and(|id| !decorated.contains(&id))
                }
                _ => false,
            };
            if let (true, Some(id)) = (shared, i.result) {
                ids.entry((i.op, i.ty, i.operands.clone())).or_insert(id);
            }
        }
        Globals { ids, bool: None, u32: None, u32s: FxHashMap::default() }
    }

    fn intern(&mut self, m: &mut Module, op: Op, ty: Option<Id>, operands: impl IntoIterator<Item = Operand>) -> Id {
        let key = (op, ty, operands.into_iter().collect::<OperandList>());
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = m.fresh_id();
        let r = m.add(Inst::new(op, ty, Some(id), key.2.iter().copied()));
        m.globals.push(r);
        self.ids.insert(key, id);
        id
    }

    /// Returns `void`.
    pub fn void(&mut self, m: &mut Module) -> Id {
        self.intern(m, Op::TypeVoid, None, [])
    }

    /// Returns `bool`.
    pub fn bool(&mut self, m: &mut Module) -> Id {
        let ty = self.bool.unwrap_or_else(|| self.intern(m, Op::TypeBool, None, []));
        self.bool = Some(ty);
        ty
    }

    /// Returns a numerical scalar type.
    pub fn scalar(&mut self, m: &mut Module, scalar: Scalar) -> Id {
        match scalar {
            Scalar::Int { width, signed } => {
                self.intern(m, Op::TypeInt, None, [width.into(), u32::from(signed).into()])
            }
            Scalar::Float { width } => self.intern(m, Op::TypeFloat, None, [width.into()]),
            Scalar::Encoded { width, encoding } => self.intern(m, Op::TypeFloat, None, [width.into(), encoding.into()]),
        }
    }

    /// Returns an unsigned integer type.
    pub fn uint(&mut self, m: &mut Module, width: u32) -> Id {
        self.scalar(m, Scalar::Int { width, signed: false })
    }

    /// Returns a vector type.
    pub fn vector(&mut self, m: &mut Module, elem: Id, len: u32) -> Id {
        self.intern(m, Op::TypeVector, None, [elem.into(), len.into()])
    }

    /// Returns an array type without a stride.
    pub fn array(&mut self, m: &mut Module, elem: Id, len: u32) -> Id {
        let len = self.u32(m, len);
        self.intern(m, Op::TypeArray, None, [elem.into(), len.into()])
    }

    /// Returns a pointer type.
    pub fn pointer(&mut self, m: &mut Module, storage: StorageClass, pointee: Id) -> Id {
        self.intern(m, Op::TypePointer, None, [storage.into(), pointee.into()])
    }

    /// Returns a function type.
    pub fn function(&mut self, m: &mut Module, ret: Id, params: &[Id]) -> Id {
        let operands: SmallVec<[Operand; 8]> = [ret].iter().chain(params).map(|id| Operand::Id(*id)).collect();
        self.intern(m, Op::TypeFunction, None, operands)
    }

    /// Returns a 32-bit unsigned constant.
    pub fn u32(&mut self, m: &mut Module, value: u32) -> Id {
        if let Some(id) = self.u32s.get(&value) {
            return *id;
        }
        let ty = self.u32_type(m);
        let id = self.intern(m, Op::Constant, Some(ty), [value.into()]);
        self.u32s.insert(value, id);
        id
    }

    /// Returns the type of unsigned 32-bit integers.
    fn u32_type(&mut self, m: &mut Module) -> Id {
        let ty = self.u32.unwrap_or_else(|| self.uint(m, 32));
        self.u32 = Some(ty);
        ty
    }

    /// Returns a constant of a numerical scalar type with these bits (zero-extended from the type's width).
    pub fn constant(&mut self, m: &mut Module, scalar: Scalar, bits: u64) -> Id {
        let ty = self.scalar(m, scalar);
        self.constant_of(m, ty, scalar, bits)
    }

    /// Like [`Globals::constant`], for a known type id.
    pub fn constant_of(&mut self, m: &mut Module, ty: Id, scalar: Scalar, bits: u64) -> Id {
        self.intern(m, Op::Constant, Some(ty), literal_operands(scalar, bits))
    }

    /// Returns a Boolean constant.
    pub fn boolean(&mut self, m: &mut Module, value: bool) -> Id {
        let ty = self.bool(m);
        self.intern(m, if value { Op::ConstantTrue } else { Op::ConstantFalse }, Some(ty), [])
    }

    /// Returns the null value of a type.
    pub fn null(&mut self, m: &mut Module, ty: Id) -> Id {
        self.intern(m, Op::ConstantNull, Some(ty), [])
    }
}

/// Returns the literal words of a constant: narrow signed integers are sign-extended, as SPIR-V requires.
pub fn literal_operands(scalar: Scalar, bits: u64) -> SmallVec<[Operand; 2]> {
    let width = scalar.width();
    let signed = matches!(scalar, Scalar::Int { signed: true, .. });
    let low = match width {
        1..=31 if signed && bits >> (width - 1) & 1 == 1 => (bits as u32) | (u32::MAX << width),
        _ => bits as u32,
    };
    let mut out = SmallVec::new();
    out.push(Operand::Word(low));
    if width > 32 {
        out.push(Operand::Word((bits >> 32) as u32));
    }
    out
}

/// Adds a new global instruction at the end of its section: before the first one of a later section.
pub fn add_global(m: &mut Module, inst: Inst) -> InstRef {
    let mine = Section::of(inst.op).unwrap_or(Section::Declaration);
    let at = end_of(m, mine);
    let r = m.add(inst);
    m.globals.insert(at, r);
    r
}

/// Returns where a section ends in the list of globals, which is in the order of sections. Source positions, which have none, belong to
/// what is before them.
fn end_of(m: &Module, mine: Section) -> usize {
    let section = |at: usize| m.globals[..=at].iter().rev().find_map(|r| Section::of(m.inst(*r).op));
    let (mut start, mut end) = (0, m.globals.len());
    while start < end {
        let middle = start.midpoint(end);
        if section(middle).is_some_and(|s| s > mine) { end = middle } else { start = middle + 1 }
    }
    start
}

/// Decorates an id.
pub fn decorate(m: &mut Module, target: Id, decoration: crate::spv::Decoration, operands: &[u32]) {
    let words = operands.iter().map(|w| Operand::Word(*w));
    let all = [Operand::Id(target), decoration.into()].into_iter().chain(words);
    add_global(m, Inst::new(Op::Decorate, None, None, all));
}

/// Gives an id a name.
pub fn name(m: &mut Module, target: Id, text: &str) {
    let operands = [Operand::Id(target)].into_iter().chain(string_operands(text));
    add_global(m, Inst::new(Op::Name, None, None, operands));
}

/// Declares a capability unless it is declared.
pub fn require_capability(m: &mut Module, capability: Capability) {
    if !m.has_capability(capability) {
        add_global(m, Inst::new(Op::Capability, None, None, [capability.into()]));
    }
}

/// Declares an extension unless it is declared.
pub fn require_extension(m: &mut Module, extension: &str) {
    let have = m.globals_with(Op::Extension).any(|r| m.inst(r).string(0).is_some_and(|(s, _)| s == extension));
    if !have {
        add_global(m, Inst::new(Op::Extension, None, None, string_operands(extension)));
    }
}

/// The form of a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroll {
    /// Unrolled.
    Now,
    /// A loop with the unroll hint.
    Ask,
    /// A loop.
    No,
    /// A loop with the hint not to unroll.
    Never,
}

/// A number that is constant, or computed at run time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    /// A constant.
    Const(u32),
    /// A 32-bit unsigned value.
    Value(Id),
}

/// A fork of control flow into two paths.
#[derive(Debug)]
pub struct Fork {
    second: Id,
    merge: Id,
    /// The last block of the first path.
    end: Id,
}

/// Builds a function, block by block; it is part of the module after [`FunctionBuilder::finish`].
pub struct FunctionBuilder<'m> {
    /// The module of the function.
    pub module: &'m mut Module,
    /// Its types and constants.
    pub globals: &'m mut Globals,
    id: Id,
    def: InstRef,
    params: Vec<InstRef>,
    blocks: Vec<Block>,
    variables: Vec<InstRef>,
    current: Block,
    current_id: Id,
}

impl<'m> FunctionBuilder<'m> {
    /// Starts a function that returns `ret` and takes `params` (type ids), with its entry block open.
    pub fn new(module: &'m mut Module, globals: &'m mut Globals, label: &str, ret: Id, params: &[Id]) -> Self {
        let ty = globals.function(module, ret, params);
        let id = module.fresh_id();
        name(module, id, label);
        let control = FunctionControl::None.0;
        let def = module.add(Inst::new(Op::Function, Some(ret), Some(id), [control.into(), ty.into()]));
        let params = params
            .iter()
            .map(|ty| {
                let p = module.fresh_id();
                module.add(Inst::new(Op::FunctionParameter, Some(*ty), Some(p), []))
            })
            .collect();
        let current_id = module.fresh_id();
        let label = module.add(Inst::new(Op::Label, None, Some(current_id), []));
        let current = Block { lead: Vec::new(), label, insts: InstList::new() };
        FunctionBuilder {
            module,
            globals,
            id,
            def,
            params,
            blocks: Vec::new(),
            variables: Vec::new(),
            current,
            current_id,
        }
    }

    /// Starts to rebuild a function that was taken out of the module: its definition and its parameters stay, and its
    /// first block is open. [`FunctionBuilder::keep`] and the emitting methods fill it.
    pub fn rebuild(module: &'m mut Module, globals: &'m mut Globals, function: &Function) -> Option<Self> {
        let first = function.blocks.first()?;
        let id = module.inst(function.def).result?;
        let current_id = module.inst(first.label).result?;
        let current = Block { lead: first.lead.clone(), label: first.label, insts: InstList::new() };
        Some(FunctionBuilder {
            module,
            globals,
            id,
            def: function.def,
            params: function.params.clone(),
            blocks: Vec::new(),
            variables: Vec::new(),
            current,
            current_id,
        })
    }

    /// Appends an instruction of the module.
    pub fn keep(&mut self, r: InstRef) {
        self.current.insts.push(r);
    }

    /// Opens a block of the rebuilt function, under its label. The block before must have its terminator.
    pub fn reopen(&mut self, block: &Block) {
        let next = Block { lead: block.lead.clone(), label: block.label, insts: InstList::new() };
        self.blocks.push(std::mem::replace(&mut self.current, next));
        self.current_id = self.module.inst(block.label).result.unwrap_or(self.current_id);
    }

    /// Ends the open block with a branch, and opens the one with this label.
    pub fn branch_to(&mut self, label: Id) {
        self.effect(Op::Branch, [label.into()]);
        self.start_block(label);
    }

    /// Returns the label of the open block.
    pub fn block_id(&self) -> Id {
        self.current_id
    }

    /// Returns the blocks of a rebuilt function; the last one has its terminator.
    pub fn blocks(mut self) -> Vec<Block> {
        self.blocks.push(self.current);
        if let Some(entry) = self.blocks.first_mut() {
            entry.insts.insert_many(0, self.variables);
        }
        self.blocks
    }

    /// Returns the function's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns parameter `index`; the function itself if there is no such parameter, in a malformed module.
    pub fn param(&self, index: usize) -> Id {
        self.params.get(index).and_then(|r| self.module.inst(*r).result).unwrap_or(self.id)
    }

    /// Emits an instruction with a result.
    pub fn op(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.module.fresh_id();
        let r = self.module.add(Inst::new(op, Some(ty), Some(id), operands));
        self.current.insts.push(r);
        id
    }

    /// Emits an instruction whose operands are all ids.
    pub fn ids(&mut self, op: Op, ty: Id, operands: &[Id]) -> Id {
        self.op(op, ty, operands.iter().map(|id| Operand::Id(*id)))
    }

    /// Emits an instruction without a result.
    pub fn effect(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let r = self.module.add(Inst::new(op, None, None, operands));
        self.current.insts.push(r);
    }

    /// Adds a variable of the function that holds a `ty`.
    pub fn variable(&mut self, ty: Id) -> Id {
        let storage = StorageClass::Function;
        let pointer = self.globals.pointer(self.module, storage, ty);
        let id = self.module.fresh_id();
        let r = self.module.add(Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
        self.variables.push(r);
        id
    }

    /// Returns the type of unsigned 32-bit integers.
    pub fn u32_type(&mut self) -> Id {
        self.globals.u32_type(self.module)
    }

    /// Returns a 32-bit unsigned constant.
    pub fn u32(&mut self, value: u32) -> Id {
        self.globals.u32(self.module, value)
    }

    /// Returns the id of an index.
    pub fn index(&mut self, index: Index) -> Id {
        match index {
            Index::Const(v) => self.u32(v),
            Index::Value(id) => id,
        }
    }

    /// Computes `a + b`.
    pub fn add(&mut self, a: Index, b: Index) -> Index {
        match (a, b) {
            (Index::Const(a), Index::Const(b)) => Index::Const(a.wrapping_add(b)),
            (Index::Const(0), x) | (x, Index::Const(0)) => x,
            _ => self.u32_op(Op::IAdd, a, b),
        }
    }

    /// Computes `a * b`.
    pub fn mul(&mut self, a: Index, b: Index) -> Index {
        match (a, b) {
            (Index::Const(a), Index::Const(b)) => Index::Const(a.wrapping_mul(b)),
            (Index::Const(0), _) | (_, Index::Const(0)) => Index::Const(0),
            (Index::Const(1), x) | (x, Index::Const(1)) => x,
            _ => self.u32_op(Op::IMul, a, b),
        }
    }

    /// Computes `a / b`, for `b` not 0.
    pub fn div(&mut self, a: Index, b: u32) -> Index {
        match a {
            Index::Const(a) => Index::Const(a / b.max(1)),
            _ if b == 1 => a,
            _ if b.is_power_of_two() => self.u32_op(Op::ShiftRightLogical, a, Index::Const(b.trailing_zeros())),
            _ => self.u32_op(Op::UDiv, a, Index::Const(b)),
        }
    }

    /// Computes `a % b`, for `b` not 0.
    pub fn rem(&mut self, a: Index, b: u32) -> Index {
        match a {
            Index::Const(a) => Index::Const(a % b.max(1)),
            _ if b == 1 => Index::Const(0),
            _ if b.is_power_of_two() => self.u32_op(Op::BitwiseAnd, a, Index::Const(b - 1)),
            _ => self.u32_op(Op::UMod, a, Index::Const(b)),
        }
    }

    /// Emits an operation on two 32-bit unsigned values.
    pub fn u32_op(&mut self, op: Op, a: Index, b: Index) -> Index {
        let ty = self.u32_type();
        let (a, b) = (self.index(a), self.index(b));
        Index::Value(self.ids(op, ty, &[a, b]))
    }

    /// Emits a comparison of two 32-bit unsigned values.
    pub fn compare(&mut self, op: Op, a: Index, b: Index) -> Id {
        let ty = self.globals.bool(self.module);
        let (a, b) = (self.index(a), self.index(b));
        self.ids(op, ty, &[a, b])
    }

    fn start_block(&mut self, id: Id) {
        let label = self.module.add(Inst::new(Op::Label, None, Some(id), []));
        let next = Block { lead: Vec::new(), label, insts: InstList::new() };
        self.blocks.push(std::mem::replace(&mut self.current, next));
        self.current_id = id;
    }

    /// Runs `body` with 0, 1, ... `count - 1`.
    pub fn repeat(&mut self, count: u32, unroll: Unroll, body: &mut dyn FnMut(&mut Self, Index)) {
        if unroll == Unroll::Now || count <= 1 {
            (0..count).for_each(|i| body(self, Index::Const(i)));
            return;
        }
        self.count(Index::Const(0), Index::Const(count), Index::Const(1), unroll, body);
    }

    /// Emits a loop that runs `body` with `first`, `first + step`, ... while they are less than `end`.
    pub fn count(
        &mut self,
        first: Index,
        end: Index,
        step: Index,
        unroll: Unroll,
        body: &mut dyn FnMut(&mut Self, Index),
    ) {
        let [header, check, inside, next, merge] = std::array::from_fn(|_| self.module.fresh_id());
        let (i, i_next) = (self.module.fresh_id(), self.module.fresh_id());
        let (ty, first, step) = (self.u32_type(), self.index(first), self.index(step));
        let before = self.current_id;
        self.effect(Op::Branch, [header.into()]);

        self.start_block(header);
        let phi = [first, before, i_next, next].map(Operand::Id);
        let r = self.module.add(Inst::new(Op::Phi, Some(ty), Some(i), phi));
        self.current.insts.push(r);
        let control = match unroll {
            Unroll::Ask => LoopControl::Unroll,
            Unroll::Never => LoopControl::DontUnroll,
            Unroll::Now | Unroll::No => LoopControl::None,
        };
        self.effect(Op::LoopMerge, [merge.into(), next.into(), control.0.into()]);
        self.effect(Op::Branch, [check.into()]);

        self.start_block(check);
        let more = self.compare(Op::ULessThan, Index::Value(i), end);
        self.effect(Op::BranchConditional, [more.into(), inside.into(), merge.into()]);

        self.start_block(inside);
        body(self, Index::Value(i));
        self.effect(Op::Branch, [next.into()]);

        self.start_block(next);
        let r = self.module.add(Inst::new(Op::IAdd, Some(ty), Some(i_next), [i, step].map(Operand::Id)));
        self.current.insts.push(r);
        self.effect(Op::Branch, [header.into()]);

        self.start_block(merge);
    }

    /// Emits a loop that runs `body` with `first`, `first + step`, ... while they are less than `end`, and with values
    /// of the given types: the initial ones, then those that `body` returned for the previous iteration. Returns the
    /// last ones.
    #[allow(clippy::type_complexity, reason = "a callback, as everywhere here")]
    pub fn fold(
        &mut self,
        (first, end, step): (Index, Index, Index),
        types: &[Id],
        begin: &[Id],
        body: &mut dyn FnMut(&mut Self, Index, &[Id]) -> Vec<Id>,
    ) -> Vec<Id> {
        let [header, check, inside, next, merge] = std::array::from_fn(|_| self.module.fresh_id());
        let (i, i_next) = (self.module.fresh_id(), self.module.fresh_id());
        let (ty, first, step) = (self.u32_type(), self.index(first), self.index(step));
        let before = self.current_id;
        self.branch_to(header);
        let phi = |this: &mut Self, ty: Id, id: Id, operands: &[Id]| {
            let operands = operands.iter().map(|id| Operand::Id(*id));
            let r = this.module.add(Inst::new(Op::Phi, Some(ty), Some(id), operands));
            this.current.insts.push(r);
            r
        };
        phi(self, ty, i, &[first, before, i_next, next]);
        let values: Vec<Id> = types.iter().map(|_| self.module.fresh_id()).collect();
        let phis: Vec<InstRef> =
            (0..types.len()).map(|n| phi(self, types[n], values[n], &[begin[n], before])).collect();
        self.effect(Op::LoopMerge, [merge.into(), next.into(), LoopControl::DontUnroll.0.into()]);
        self.branch_to(check);
        let more = self.compare(Op::ULessThan, Index::Value(i), end);
        self.effect(Op::BranchConditional, [more.into(), inside.into(), merge.into()]);
        self.start_block(inside);
        let after = body(self, Index::Value(i), &values);
        self.branch_to(next);
        for (r, value) in phis.iter().zip(after) {
            self.module.inst_mut(*r).operands.extend([value, next].map(Operand::Id));
        }
        let r = self.module.add(Inst::new(Op::IAdd, Some(ty), Some(i_next), [i, step].map(Operand::Id)));
        self.current.insts.push(r);
        self.effect(Op::Branch, [header.into()]);
        self.start_block(merge);
        values
    }

    /// Emits a loop that runs `body` with values of the given types: the initial ones, then those that `body` returned for the
    /// previous iteration, until the condition that it returns before them holds. Returns those that the last iteration began with:
    /// what the body reads is lost behind the loop on SwiftShader, for invocations that leave it before others (docs/drivers.md).
    #[allow(clippy::type_complexity, reason = "a callback, as everywhere here")]
    pub fn until(
        &mut self,
        types: &[Id],
        begin: &[Id],
        body: &mut dyn FnMut(&mut Self, &[Id]) -> (Id, Vec<Id>),
    ) -> Vec<Id> {
        let [header, inside, next, merge] = std::array::from_fn(|_| self.module.fresh_id());
        let before = self.current_id;
        self.branch_to(header);
        let values: Vec<Id> = types.iter().map(|_| self.module.fresh_id()).collect();
        let mut phis = Vec::new();
        for ((ty, value), first) in types.iter().zip(&values).zip(begin) {
            let r = self.module.add(Inst::new(Op::Phi, Some(*ty), Some(*value), [*first, before].map(Operand::Id)));
            self.current.insts.push(r);
            phis.push(r);
        }
        self.effect(Op::LoopMerge, [merge.into(), next.into(), LoopControl::DontUnroll.0.into()]);
        self.branch_to(inside);
        let (done, after) = body(self, &values);
        self.effect(Op::BranchConditional, [done.into(), merge.into(), next.into()]);
        self.start_block(next);
        for (r, value) in phis.iter().zip(&after) {
            self.module.inst_mut(*r).operands.extend([*value, next].map(Operand::Id));
        }
        self.effect(Op::Branch, [header.into()]);
        self.start_block(merge);
        values
    }

    /// Emits `body` under `condition`.
    pub fn when(&mut self, condition: Id, body: &mut dyn FnMut(&mut Self)) {
        let (inside, merge) = (self.module.fresh_id(), self.module.fresh_id());
        self.effect(Op::SelectionMerge, [merge.into(), SelectionControl::None.0.into()]);
        self.effect(Op::BranchConditional, [condition.into(), inside.into(), merge.into()]);
        self.start_block(inside);
        body(self);
        self.effect(Op::Branch, [merge.into()]);
        self.start_block(merge);
    }

    /// Emits `yes` under `condition` and `no` otherwise; returns phis of the values that they return, which have the
    /// given types.
    pub fn choose(
        &mut self,
        condition: Id,
        types: &[Id],
        yes: &mut dyn FnMut(&mut Self) -> Vec<Id>,
        no: &mut dyn FnMut(&mut Self) -> Vec<Id>,
    ) -> Vec<Id> {
        let [first, second, merge] = std::array::from_fn(|_| self.module.fresh_id());
        self.effect(Op::SelectionMerge, [merge.into(), SelectionControl::None.0.into()]);
        self.effect(Op::BranchConditional, [condition.into(), first.into(), second.into()]);
        self.start_block(first);
        let a = yes(self);
        let from_a = self.current_id;
        self.effect(Op::Branch, [merge.into()]);
        self.start_block(second);
        let b = no(self);
        let from_b = self.current_id;
        self.effect(Op::Branch, [merge.into()]);
        self.start_block(merge);
        let pairs = a.into_iter().zip(b).zip(types);
        pairs.map(|((a, b), ty)| if a == b { a } else { self.ids(Op::Phi, *ty, &[a, from_a, b, from_b]) }).collect()
    }

    /// Starts the path on which `condition` holds. [`FunctionBuilder::other`] starts the other path, and
    /// [`FunctionBuilder::join`] ends both.
    pub fn fork(&mut self, condition: Id) -> Fork {
        let [first, second, merge] = std::array::from_fn(|_| self.module.fresh_id());
        self.effect(Op::SelectionMerge, [merge.into(), SelectionControl::None.0.into()]);
        self.effect(Op::BranchConditional, [condition.into(), first.into(), second.into()]);
        self.start_block(first);
        Fork { second, merge, end: first }
    }

    /// Starts the path on which the condition of a fork does not hold.
    pub fn other(&mut self, fork: &mut Fork) {
        fork.end = self.current_id;
        self.effect(Op::Branch, [fork.merge.into()]);
        self.start_block(fork.second);
    }

    /// Ends a fork. Returns the last blocks of both paths, for phis: the one on which the condition holds first.
    pub fn join(&mut self, fork: Fork) -> (Id, Id) {
        let from = (fork.end, self.current_id);
        self.effect(Op::Branch, [fork.merge.into()]);
        self.start_block(fork.merge);
        from
    }

    /// Selects `a` if `condition` holds, else `b`.
    pub fn select(&mut self, condition: Id, a: Index, b: Index) -> Index {
        if a == b {
            return a;
        }
        let ty = self.u32_type();
        let (a, b) = (self.index(a), self.index(b));
        Index::Value(self.ids(Op::Select, ty, &[condition, a, b]))
    }

    /// Returns `value` (or nothing) and puts the function into the module.
    pub fn finish(mut self, value: Option<Id>) -> Id {
        match value {
            Some(v) => self.effect(Op::ReturnValue, [v.into()]),
            None => self.effect(Op::Return, []),
        }
        self.blocks.push(self.current);
        if let Some(entry) = self.blocks.first_mut() {
            entry.insts.insert_many(0, self.variables);
        }
        let end = self.module.add(Inst::new(Op::FunctionEnd, None, None, []));
        let (def, params, blocks) = (self.def, self.params, self.blocks);
        self.module.functions.push(Function { lead: Vec::new(), def, params, blocks, tail: vec![end] });
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::{add_global, end_of};
    use crate::section::Section;
    use crate::{Inst, Module, Op};
    use std::path::Path;

    /// Where a section ends, by a look at each global.
    fn first_of_later(m: &Module, mine: Section) -> usize {
        let later = |r: &crate::InstRef| Section::of(m.inst(*r).op).is_some_and(|s| s > mine);
        m.globals.iter().position(later).unwrap_or(m.globals.len())
    }

    #[test]
    fn sections_end_where_later_ones_begin() {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels");
        let files = std::fs::read_dir(kernels).expect("the folder").flatten().map(|f| f.path());
        let mut modules = 0;
        for path in files.filter(|path| path.extension().is_some_and(|e| e == "spv")) {
            let bytes = std::fs::read(&path).expect("readable");
            let mut m = crate::binary::read(&bytes).expect("a module");
            // Source positions between the globals, as compilers leave them with debug information.
            for at in (1..m.globals.len()).rev().step_by(3) {
                let line = m.add(Inst::new(Op::NoLine, None, None, []));
                m.globals.insert(at, line);
            }
            let of =
                m.globals.iter().filter_map(|r| Section::of(m.inst(*r).op)).collect::<std::collections::BTreeSet<_>>();
            assert!(of.len() > 4, "{}: {}", path.display(), of.len());
            for section in of.into_iter().chain([Section::Source, Section::Processed, Section::Graph]) {
                assert_eq!(end_of(&m, section), first_of_later(&m, section), "{}: {}", path.display(), section.name());
            }
            let before = first_of_later(&m, Section::Capability);
            let added = add_global(&mut m, Inst::new(Op::Capability, None, None, [1.into()]));
            assert_eq!(m.globals[before], added);
            modules += 1;
        }
        assert!(modules > 10, "{modules}");
    }
}
