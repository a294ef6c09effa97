//! Lowers SPV_QCOM_cooperative_matrix_conversion, which converts between a matrix and one array per invocation of a
//! subgroup: a row of the matrix (of B, a column).
//!
//! Rows and columns go through shared memory: the invocations of a subgroup write their arrays there, one after the
//! other, and the matrix is loaded from there; or the matrix is stored there, and each invocation reads its array.
//! There is one array of shared memory per component type, with a part for each subgroup, which all conversions reuse.
//! So each conversion has two barriers: one before writing, one between writing and reading. Where the module's own shared
//! memory is blocks with explicit layouts, the arrays are more blocks, one behind the other.
//!
//! Invocations beyond the last row do not contribute when a matrix is made, and receive the last row when one is taken
//! apart.

use super::rewriter::{Rewriter, Shape};
use crate::builtins::{Builtins, add_to_interfaces};
use crate::cleanup::{remove_capability, remove_extension};
use crate::matrix::arena::{Arena, Zone, alias_blocks, shared_block};
use crate::matrix::barrier;
use crate::matrix::bits::{gather, small_type, split_value};
use crate::matrix::lanes::unknown_size;
use crate::pipeline::PassCx;
use crate::workgroup::Workgroup;
use crate::{Lanes, Refusal, malformed};
use coop_device::{Feature, Profile};
use coop_ir::builder::{FunctionBuilder, Globals, Index, Unroll, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::{BuiltIn, Capability, CooperativeMatrixLayout, CooperativeMatrixUse, Scope, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use std::collections::BTreeMap;

const WORD: Scalar = Scalar::Int { width: 32, signed: false };
const ROW_MAJOR: u32 = CooperativeMatrixLayout::RowMajorKHR.0;
const COLUMN_MAJOR: u32 = CooperativeMatrixLayout::ColumnMajorKHR.0;
const USE_B: u32 = CooperativeMatrixUse::MatrixBKHR.0;

pub(super) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let Some(first) = m.all().find(|r| m.inst(*r).op.is_qcom_conversion()) else {
        forget(m);
        return Ok(());
    };
    let constants = Constants::new(m, &Specialization::new());
    let size = cx.options.subgroup_size;
    let workgroup = Workgroup::new(m, &constants);
    // Declared as variables of the module, which the passes that follow see.
    let mut arena = Arena::new(m, &constants, cx.options.profile, None);
    let subgroups = workgroup.most.unwrap_or(0).div_ceil(size.unwrap_or(1).max(1));
    let mut pass = Qcom {
        builtins: Builtins::new(m),
        model: m.has_capability(Capability::VulkanMemoryModel),
        size: size.unwrap_or(0),
        workgroup,
        local_index: cx.options.lanes == Lanes::LocalIndex,
        blocks: arena.has_blocks(),
        memories: BTreeMap::new(),
        functions: FxHashMap::default(),
    };
    let mut e = Rewriter::new(m);
    e.each(&mut |e, r| pass.inst(e, r))?;
    let Qcom { builtins, memories, .. } = pass;
    let bytes = memories.values().fold(0u32, |sum, memory| memory.all(subgroups).saturating_add(sum));
    let what = format!("{} and its like", m.inst(first).op);
    arena.take(first, &what, Zone::Workgroup, bytes)?;
    let blocks = arena.has_blocks();
    let mut variables = Vec::new();
    // What the module itself takes is a multiple of 16 bytes, and so is each of these.
    let mut at = arena.own_bytes();
    for memory in memories.into_values() {
        variables.push(memory.variable);
        if blocks {
            access_blocks(m, cx.options.profile, first, memory.bytes)?;
        }
        let size = memory.all(subgroups);
        memory.declare(m, subgroups, blocks.then_some(at));
        at = at.saturating_add(size);
    }
    if blocks {
        alias_blocks(m);
    }
    cx.report.added_shared_memory = cx.report.added_shared_memory.saturating_add(bytes);
    variables.sort_unstable();
    if m.header.version_pair() >= (1, 4) {
        add_to_interfaces(m, &variables);
    }
    builtins.finish(m);
    forget(m);
    sort_globals(m);
    Ok(())
}

fn forget(m: &mut Module) {
    remove_capability(m, Capability::CooperativeMatrixConversionQCOM);
    remove_extension(m, "SPV_QCOM_cooperative_matrix_conversion");
}

/// Shared memory for matrices of a component type.
struct Memory {
    variable: Id,
    component: Id,
    bytes: u32,
    /// The constant number of elements per subgroup.
    part: Id,
    most: u32,
}

impl Memory {
    /// Returns the size in bytes for all subgroups.
    fn all(&self, subgroups: u32) -> u32 {
        self.most.saturating_mul(subgroups).saturating_mul(self.bytes)
    }

    /// Declares the variable once its length is known: beside blocks as one more, at this offset.
    fn declare(&self, m: &mut Module, subgroups: u32, block_at: Option<u32>) {
        let mut g = Globals::new(m);
        let storage = StorageClass::Workgroup;
        let length = self.most.saturating_mul(subgroups);
        let pointee = match block_at {
            Some(at) => shared_block(m, &mut g, (self.component, self.bytes), length, at),
            None => g.array(m, self.component, length),
        };
        let pointer = g.pointer(m, storage, pointee);
        let word = g.uint(m, 32);
        let part = Inst::new(Op::Constant, Some(word), Some(self.part), [self.most.into()]);
        let variable = Inst::new(Op::Variable, Some(pointer), Some(self.variable), [storage.into()]);
        for inst in [part, variable] {
            let r = m.add(inst);
            m.globals.push(r);
        }
    }
}

/// The kind of a helper function, and its types.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Helper {
    /// Writes the invocation's array, of so many invocations, to the memory of a component type.
    Put(Id, Id, u32),
    /// Reads the invocation's array.
    Get(Id, Id, u32),
    Cast(Id, Id),
    /// Extracts a part of an array, from an index of this type on.
    Part(Id, Id, Id),
}

struct Qcom {
    builtins: Builtins,
    model: bool,
    size: u32,
    workgroup: Workgroup,
    local_index: bool,
    /// True if the module's own shared memory is blocks, beside which there may be no other variables.
    blocks: bool,
    memories: BTreeMap<Id, Memory>,
    functions: FxHashMap<Helper, Id>,
}

/// A one-dimensional array of numbers.
#[derive(Clone, Copy)]
struct Array {
    ty: Id,
    elem: Id,
    scalar: Scalar,
    len: u32,
}

impl Array {
    fn of(e: &Rewriter<'_>, r: InstRef, ty: Option<Id>) -> Result<Array, Refusal> {
        let found = || match Type::of(e.m, ty?)? {
            Type::Array { elem, len } => {
                let len = u32::try_from(e.known(len)?).ok()?;
                Some(Array { ty: ty?, elem, scalar: types::scalar(e.m, elem)?, len })
            }
            _ => None,
        };
        found().map_or_else(|| malformed(r, "an operand or the result is not an array of numbers"), Ok)
    }

    fn bits(&self) -> u32 {
        self.len.saturating_mul(self.scalar.width())
    }
}

impl Qcom {
    fn inst(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let first = inst.id(0);
        match inst.op {
            Op::CompositeConstructCoopMatQCOM => {
                let shape = e.shape_of_type(r, inst.ty)?;
                let array = Array::of(e, r, first.and_then(|id| e.m.type_of(id)))?;
                self.construct(e, r, shape, array)?;
            }
            Op::CompositeExtractCoopMatQCOM => {
                let Some(matrix) = first else { return malformed(r, "the operands don't fit the instruction") };
                let shape = e.shape(r, matrix)?;
                let array = Array::of(e, r, inst.ty)?;
                self.extract(e, r, matrix, shape, array)?;
            }
            Op::BitCastArrayQCOM => {
                let from = Array::of(e, r, first.and_then(|id| e.m.type_of(id)))?;
                let to = Array::of(e, r, inst.ty)?;
                self.cast(e, r, from, to)?;
            }
            Op::ExtractSubArrayQCOM => self.part(e, r, &inst)?,
            _ => {}
        }
        Ok(true)
    }

    /// Returns how many invocations hold a part of the matrix, and how many elements each.
    fn lines(&self, r: InstRef, shape: Shape, array: Array) -> Result<(u32, u32), Refusal> {
        if self.size == 0 {
            return Err(unknown_size(Some(r)));
        }
        let Some(workgroup) = self.workgroup.invocations else { return Err(self.workgroup.refusal(Some(r))) };
        if self.local_index && self.size != workgroup {
            let why = "rows of a matrix are exchanged among lanes that can't synchronize";
            let remedy = "use subgroups of the device: --lanes subgroup";
            return Err(Refusal::new("refused-lanes", Some(r), why, remedy));
        }
        let (count, len) = if shape.use_ == USE_B { (shape.cols, shape.rows) } else { (shape.rows, shape.cols) };
        if count > self.size {
            let why = format!("{count} rows or columns, with subgroups of {} invocations", self.size);
            return Err(Refusal::new("refused-size", Some(r), why, "use larger subgroups"));
        }
        if count == 0 {
            return malformed(r, "the matrix has no rows or no columns");
        }
        let fits = Some(array.bits()) == len.checked_mul(shape.scalar.width())
            && (array.scalar.width() == shape.scalar.width() || array.scalar.width() == 32 && array.scalar.is_int());
        if !fits {
            return malformed(r, "the array's size differs from that of a row or column of the matrix");
        }
        Ok((count, len))
    }

    fn memory(&mut self, e: &mut Rewriter<'_>, shape: Shape) -> (Id, Id) {
        let needed = shape.rows.saturating_mul(shape.cols).checked_next_multiple_of(16).unwrap_or(u32::MAX);
        small_type(e.m, shape.scalar);
        let memory = self.memories.entry(shape.component).or_insert_with(|| Memory {
            variable: e.m.fresh_id(),
            component: shape.component,
            bytes: shape.scalar.bytes(),
            part: e.m.fresh_id(),
            most: 0,
        });
        memory.most = memory.most.max(needed);
        (memory.variable, memory.part)
    }

    fn barrier(&self, e: &mut Rewriter<'_>) {
        // Where lanes come from the local invocation index, the subgroup is the workgroup.
        let scope = if self.local_index { Scope::Workgroup } else { Scope::Subgroup };
        let semantics = barrier::semantics(self.model);
        let ids = [scope.0, scope.0, semantics.0].map(|v| Operand::Id(e.g.u32(e.m, v)));
        e.effect(Op::ControlBarrier, ids);
    }

    /// Makes the pointer to the subgroup's part of the memory.
    fn begin(&mut self, e: &mut Rewriter<'_>, (variable, part): (Id, Id), component: Id) -> Id {
        let word = e.g.uint(e.m, 32);
        let first = if Some(self.size) == self.workgroup.invocations {
            e.g.u32(e.m, 0)
        } else {
            require_capability(e.m, Capability::GroupNonUniform);
            let id = self.builtins.variable(e.m, &mut e.g, BuiltIn::SubgroupId);
            let ty = crate::builtins::loaded_type(e.m, id).unwrap_or(word);
            let id = e.ids(Op::Load, ty, &[id]);
            e.ids(Op::IMul, word, &[id, part])
        };
        let pointer = e.g.pointer(e.m, StorageClass::Workgroup, component);
        let member = self.blocks.then(|| e.g.u32(e.m, 0));
        let chain: Vec<Id> = [variable].into_iter().chain(member).chain([first]).collect();
        e.ids(Op::AccessChain, pointer, &chain)
    }

    fn construct(&mut self, e: &mut Rewriter<'_>, r: InstRef, shape: Shape, array: Array) -> Result<(), Refusal> {
        let (count, len) = self.lines(r, shape, array)?;
        let Some(value) = e.m.inst(r).id(0) else { return malformed(r, "the operands don't fit the instruction") };
        let memory = self.memory(e, shape);
        let put = self.put(e, shape, array, (count, len), memory);
        let void = e.g.void(e.m);
        self.barrier(e);
        e.ids(Op::FunctionCall, void, &[put, value]);
        self.barrier(e);
        let pointer = self.begin(e, memory, shape.component);
        let layout = if shape.use_ == USE_B { COLUMN_MAJOR } else { ROW_MAJOR };
        let mut operands = [layout, len].map(|v| Operand::Id(e.g.u32(e.m, v))).to_vec();
        operands.insert(0, pointer.into());
        operands.extend(barrier::access_operands(self.model));
        e.replace(r, Op::CooperativeMatrixLoadKHR, operands);
        Ok(())
    }

    fn extract(
        &mut self,
        e: &mut Rewriter<'_>,
        r: InstRef,
        matrix: Id,
        shape: Shape,
        array: Array,
    ) -> Result<(), Refusal> {
        let (count, len) = self.lines(r, shape, array)?;
        let memory = self.memory(e, shape);
        let get = self.get(e, shape, array, (count, len), memory);
        self.barrier(e);
        let pointer = self.begin(e, memory, shape.component);
        let layout = if shape.use_ == USE_B { COLUMN_MAJOR } else { ROW_MAJOR };
        let mut operands = [pointer, matrix].map(Operand::Id).to_vec();
        operands.extend([layout, len].map(|v| Operand::Id(e.g.u32(e.m, v))));
        operands.extend(barrier::access_operands(self.model));
        e.effect(Op::CooperativeMatrixStoreKHR, operands);
        self.barrier(e);
        e.call(r, get, &[]);
        Ok(())
    }

    /// Returns the lane and the index of its first element, in a helper function.
    fn lane(&mut self, b: &mut FunctionBuilder<'_>, part: Id) -> (Index, Index) {
        if self.local_index {
            return (self.builtins.load(b, BuiltIn::LocalInvocationIndex), Index::Const(0));
        }
        require_capability(b.module, Capability::GroupNonUniform);
        let lane = self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId);
        if Some(self.size) == self.workgroup.invocations {
            return (lane, Index::Const(0));
        }
        let subgroup = self.builtins.load(b, BuiltIn::SubgroupId);
        let first = b.mul(subgroup, Index::Value(part));
        (lane, first)
    }

    /// Returns the function that writes an invocation's array.
    fn put(
        &mut self,
        e: &mut Rewriter<'_>,
        shape: Shape,
        array: Array,
        (count, len): (u32, u32),
        (variable, part): (Id, Id),
    ) -> Id {
        let key = Helper::Put(array.ty, shape.component, count);
        if let Some(f) = self.functions.get(&key) {
            return *f;
        }
        let (void, blocks) = (e.g.void(e.m), self.blocks);
        let operands = barrier::access_operands(self.model);
        let mut b = e.function("coop_put_row", void, &[array.ty]);
        let (value, pointer) = (b.param(0), pointer_to(&mut b, shape.component));
        let (lane, first) = self.lane(&mut b, part);
        let mut write = |b: &mut FunctionBuilder<'_>| {
            let begin = b.mul(lane, Index::Const(len));
            let begin = b.add(begin, first);
            let numbers: Vec<Id> = (0..array.len)
                .flat_map(|i| {
                    let x = b.op(Op::CompositeExtract, array.elem, [value.into(), i.into()]);
                    split_number(b, array.scalar, array.elem, x, shape.scalar, shape.component)
                })
                .collect();
            for (i, number) in (0..).zip(numbers) {
                let at = b.add(begin, Index::Const(i));
                let to = element(b, pointer, variable, blocks, at);
                b.effect(Op::Store, [to, number].map(Operand::Id).into_iter().chain(operands.iter().copied()));
            }
        };
        if count < self.size {
            let has = b.compare(Op::ULessThan, lane, Index::Const(count));
            b.when(has, &mut write);
        } else {
            write(&mut b);
        }
        let f = b.finish(None);
        self.functions.insert(key, f);
        f
    }

    /// Returns the function that reads an invocation's array.
    fn get(
        &mut self,
        e: &mut Rewriter<'_>,
        shape: Shape,
        array: Array,
        (count, len): (u32, u32),
        (variable, part): (Id, Id),
    ) -> Id {
        let key = Helper::Get(array.ty, shape.component, count);
        if let Some(f) = self.functions.get(&key) {
            return *f;
        }
        let (operands, blocks) = (barrier::access_operands(self.model), self.blocks);
        let mut b = e.function("coop_get_row", array.ty, &[]);
        let b_ref = &mut b;
        let pointer = pointer_to(b_ref, shape.component);
        let (mut lane, first) = self.lane(b_ref, part);
        if count < self.size {
            let has = b_ref.compare(Op::ULessThan, lane, Index::Const(count));
            lane = b_ref.select(has, lane, Index::Const(count - 1));
        }
        let begin = b_ref.mul(lane, Index::Const(len));
        let begin = b_ref.add(begin, first);
        let numbers: Vec<Id> = (0..len)
            .map(|i| {
                let at = b_ref.add(begin, Index::Const(i));
                let from = element(b_ref, pointer, variable, blocks, at);
                let operands = [Operand::Id(from)].into_iter().chain(operands.iter().copied());
                b_ref.op(Op::Load, shape.component, operands)
            })
            .collect();
        let parts = join_numbers(b_ref, (shape.scalar, shape.component), &numbers, (array.scalar, array.elem));
        let value = b_ref.ids(Op::CompositeConstruct, array.ty, &parts);
        let f = b.finish(Some(value));
        self.functions.insert(key, f);
        f
    }

    fn cast(&mut self, e: &mut Rewriter<'_>, r: InstRef, from: Array, to: Array) -> Result<(), Refusal> {
        let Some(value) = e.m.inst(r).id(0) else { return malformed(r, "the operands don't fit the instruction") };
        if from.bits() != to.bits() || !matches!(from.scalar.width().max(to.scalar.width()), 8 | 16 | 32) {
            return malformed(r, "a cast between arrays of other sizes");
        }
        let key = Helper::Cast(from.ty, to.ty);
        let f = match self.functions.get(&key) {
            Some(f) => *f,
            None => {
                let mut b = e.function("coop_cast_array", to.ty, &[from.ty]);
                let value = b.param(0);
                let numbers: Vec<Id> =
                    (0..from.len).map(|i| b.op(Op::CompositeExtract, from.elem, [value.into(), i.into()])).collect();
                let parts = if from.scalar.width() > to.scalar.width() {
                    let apart = |x: &Id| split_number(&mut b, from.scalar, from.elem, *x, to.scalar, to.elem);
                    numbers.iter().flat_map(apart).collect()
                } else {
                    join_numbers(&mut b, (from.scalar, from.elem), &numbers, (to.scalar, to.elem))
                };
                let value = b.ids(Op::CompositeConstruct, to.ty, &parts);
                let f = b.finish(Some(value));
                self.functions.insert(key, f);
                f
            }
        };
        e.call(r, f, &[value]);
        Ok(())
    }

    fn part(&mut self, e: &mut Rewriter<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(value), Some(start)) = (inst.id(0), inst.id(1)) else {
            return malformed(r, "the operands don't fit the instruction");
        };
        let (from, to) = (Array::of(e, r, e.m.type_of(value))?, Array::of(e, r, inst.ty)?);
        let start = e.word(r, start)?;
        let Some(start_type) = e.m.type_of(start) else { return malformed(r, "the index has no type") };
        if from.elem != to.elem {
            return malformed(r, "a part of an array has other elements");
        }
        let key = Helper::Part(from.ty, to.ty, start_type);
        let f = match self.functions.get(&key) {
            Some(f) => *f,
            None => {
                let mut b = e.function("coop_part_of_array", to.ty, &[from.ty, start_type]);
                let (value, start) = (b.param(0), b.param(1));
                let word = b.u32_type();
                let start = if start_type == word { start } else { b.ids(Op::Bitcast, word, &[start]) };
                let (source, target) = (b.variable(from.ty), b.variable(to.ty));
                b.effect(Op::Store, [source, value].map(Operand::Id));
                let pointer = b.globals.pointer(b.module, StorageClass::Function, from.elem);
                b.repeat(to.len, Unroll::Now, &mut |b, i| {
                    let at = b.add(Index::Value(start), i);
                    let (at, i) = (b.index(at), b.index(i));
                    let from_at = b.ids(Op::AccessChain, pointer, &[source, at]);
                    let to_at = b.ids(Op::AccessChain, pointer, &[target, i]);
                    let x = b.ids(Op::Load, from.elem, &[from_at]);
                    b.effect(Op::Store, [to_at, x].map(Operand::Id));
                });
                let value = b.ids(Op::Load, to.ty, &[target]);
                let f = b.finish(Some(value));
                self.functions.insert(key, f);
                f
            }
        };
        e.call(r, f, &[value, start]);
        Ok(())
    }
}

/// Returns a pointer to a number of shared memory.
fn element(b: &mut FunctionBuilder<'_>, pointer: Id, variable: Id, blocks: bool, at: Index) -> Id {
    let indices: Vec<Id> = blocks.then_some(Index::Const(0)).into_iter().chain([at]).map(|i| b.index(i)).collect();
    b.ids(Op::AccessChain, pointer, &[&[variable], indices.as_slice()].concat())
}

/// Declares what numbers of this size need in blocks of shared memory.
fn access_blocks(m: &mut Module, profile: Option<&Profile>, at: InstRef, bytes: u32) -> Result<(), Refusal> {
    let (capability, feature) = match bytes {
        1 => (Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR, Feature::WorkgroupMemoryExplicitLayout8BitAccess),
        2 => {
            (Capability::WorkgroupMemoryExplicitLayout16BitAccessKHR, Feature::WorkgroupMemoryExplicitLayout16BitAccess)
        }
        _ => return Ok(()),
    };
    if let Some(profile) = profile.filter(|p| !p.has(feature) && !m.has_capability(capability)) {
        let bits = bytes * 8;
        let why = format!(
            "rows of {bits}-bit numbers go through shared memory, the module's own is blocks with explicit layouts, and {} has no \
             {bits}-bit numbers in these (feature {feature})",
            profile.name
        );
        let remedy =
            "declare the module's shared memory without explicit layouts (SPV_KHR_workgroup_memory_explicit_layout)";
        return Err(Refusal::new("refused-dialect", Some(at), why, remedy));
    }
    require_capability(m, capability);
    Ok(())
}

fn pointer_to(b: &mut FunctionBuilder<'_>, component: Id) -> Id {
    b.globals.pointer(b.module, StorageClass::Workgroup, component)
}

/// Splits a number into several that are no wider, the lowest bits first.
fn split_number(b: &mut FunctionBuilder<'_>, from: Scalar, from_ty: Id, value: Id, to: Scalar, to_ty: Id) -> Vec<Id> {
    if from_ty == to_ty {
        return vec![value];
    }
    if from.width() == to.width() {
        return vec![b.ids(Op::Bitcast, to_ty, &[value])];
    }
    let word = b.u32_type();
    let value = if from_ty == word || from != WORD { value } else { b.ids(Op::Bitcast, word, &[value]) };
    split_value(b, to, to_ty, value, from.width())
}

/// Joins numbers into ones that are at least as wide.
fn join_numbers(
    b: &mut FunctionBuilder<'_>,
    (from, from_ty): (Scalar, Id),
    numbers: &[Id],
    (to, to_ty): (Scalar, Id),
) -> Vec<Id> {
    let count = (to.width() / from.width()).max(1) as usize;
    numbers.chunks(count).map(|parts| gather(b, from, from_ty, parts, to_ty)).collect()
}
