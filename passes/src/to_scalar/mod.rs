//! Replaces cooperative matrices by arrays of the elements that each invocation owns.
//!
//! Precondition: scope, rows, columns, use and layouts are fixed (`specialize`). Effect: every matrix type becomes an
//! array of its component type under the same id, so variables, arrays, structs, phis, parameters and element access
//! need no change; each instruction that treats a matrix as one becomes a call of a function of the module that works
//! on the arrays, one function for each combination of types, layouts and operands. Which lane holds which element is
//! said in [`crate::matrix::placement`].
//!
//! Operations that move elements between lanes (products of workgroup scope, conversions of use, reductions, and stores of
//! words that no lane holds whole) go through shared memory ([`crate::matrix::arena`]), with barriers that all lanes of the scope
//! execute. All of these stand where the scope's control flow is uniform, by the rules of SPIR-V; nothing else in the
//! output communicates, and nothing has to be uniform that was not.
//!
//! Refuses: instructions of other matrix extensions, scopes other than subgroup and workgroup, moving elements between
//! lanes that can't wait for each other (by local index), stores of parts of words, element indices that no lane has.

mod ahead;
mod arith;
mod array;
mod callback;
mod exchange;
mod exchange_buffer;
mod fetch;
mod fragment;
mod k_loop;
mod memory;
mod plan;
mod product;
mod reduce;
mod register_tile;
mod resident;
mod row_sums;
mod row_uniform;
mod separate_sums;
mod split_k;
mod staged_factor;
mod tensor;

use crate::decorations::{self, Decorated};
use crate::device::is_nvidia;
use crate::matrix::arena::{Arena, TWO_WORKGROUPS};
use crate::matrix::placement::{MajorOrder, Placement, Run, Shape, Use};
use crate::matrix::{dead_matrices, lanes};
use crate::pipeline::{PassCx, with_or_without};
use crate::tensor::{Access, Tensors};
use crate::{LoweredMatrix, Refusal, malformed};
use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::Scope;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Refuses an instruction whose operands are of other kinds than it takes.
fn unfit(r: InstRef) -> Result<(), Refusal> {
    malformed(r, "the operands don't fit the instruction")
}

/// A matrix type that is being replaced.
#[derive(Clone, Copy, Debug)]
struct Mat {
    /// Its id, which will be that of the array type.
    ty: Id,
    /// The type of an element.
    elem: Id,
    scalar: Scalar,
    /// The lanes that hold each element.
    placement: Placement,
    workgroup: bool,
    /// The direction in which it mostly lies in memory.
    order: MajorOrder,
    /// The groups of lanes that each hold all of a partial accumulator ([`split_k`]); 1 of any other matrix.
    parts: u32,
}

impl Mat {
    /// Neighbours along its direction in memory that a lane holds together.
    fn piece(&self) -> u32 {
        match self.order {
            MajorOrder::Row => self.placement.cols.piece,
            MajorOrder::Column => self.placement.rows.piece,
        }
    }

    /// The name in the names of functions.
    fn label(&self) -> String {
        let Shape { rows, cols, use_ } = self.placement.shape;
        let use_ = match use_ {
            Use::A => "A",
            Use::B => "B",
            Use::Accumulator => "C",
        };
        format!("{}_{rows}x{cols}_{use_}", self.scalar.to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
    }
}

/// A function of the output, by what it does: opcode, types and whatever else its body depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    op: Op,
    types: Vec<Id>,
    extra: Vec<Operand>,
}

struct Lower<'a, 'cx> {
    m: &'a mut Module,
    cx: &'a mut PassCx<'cx>,
    g: Globals,
    constants: Constants,
    mats: FxHashMap<Id, Mat>,
    functions: FxHashMap<Key, Id>,
    lanes: lanes::LaneSource,
    arena: Arena,
    tensors: Tensors,
    /// Loads that are left to the product that uses them, and what they are.
    deferred: FxHashSet<Id>,
    left: FxHashMap<Id, Deferred>,
    /// Products whose factors may be fetched an iteration ahead.
    ahead: FxHashMap<InstRef, ahead::AheadLoop>,
    /// Loads whose results stay in shared memory, if there is room, and where they are.
    settled: FxHashMap<Id, (bool, Id)>,
    residents: FxHashMap<Id, product::Resident>,
    /// Matrices whose rows hold one value each.
    row_uniform: FxHashSet<Id>,
    /// The decorations of operations that gave matrices.
    decorated: FxHashMap<Id, Vec<Decorated>>,
    /// The types of matrices that are being stored by whole words.
    words: FxHashMap<(Id, Run), Mat>,
    /// The types that factors of which each element is held once have in products.
    replicated: FxHashMap<Id, Mat>,
}

/// A load that is done where its result is needed.
enum Deferred {
    Plain(Box<memory::Access>),
    Tensor(Box<Access>),
    /// A matrix that becomes one of other use.
    Moved(Box<exchange::Conversion>, Id),
}

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    // What stays in shared memory may be what others lack room for.
    with_or_without(m, cx, lower)
}

/// With `wish`, factors may stay in shared memory, K is divided among groups of lanes, and small workgroups take so little shared memory that two
/// run on a multiprocessor.
fn lower(m: &mut Module, cx: &mut PassCx<'_>, wish: bool) -> Result<(), Refusal> {
    if let Some(r) = m.globals_with(Op::TypeCooperativeMatrixNV).next() {
        let why = "matrices of SPV_NV_cooperative_matrix are not lowered yet";
        return Err(Refusal::new("refused-dialect", Some(r), why, "use SPV_KHR_cooperative_matrix"));
    }
    let constants = Constants::new(m, &Specialization::new());
    let mut lanes = lanes::LaneSource::new(m, &constants, cx.options)?;
    let types: FxHashSet<Id> = m.globals_with(Op::TypeCooperativeMatrixKHR).filter_map(|r| m.inst(r).result).collect();
    let in_workgroup = |ty: &Id| {
        types::coop_mat(m, *ty).is_some_and(|t| t.view(m, &constants).scope.fixed_as() == Some(Scope::Workgroup))
    };
    let staged = types.iter().copied().filter(in_workgroup).collect();
    let divided = match lanes.count(true) {
        Some(count) if wish => Some(split_k::Accumulators::new(m, &constants, count)?),
        _ => None,
    };
    if let Some(divided) = &divided {
        separate_sums::run(m, divided);
    }
    dead_matrices::run(m, &constants, &types, &staged);
    let mut g = Globals::new(m);
    let sums_rows = row_sums::run(m, &mut g, &constants);
    let partial = divided.map_or_else(FxHashMap::default, |divided| split_k::run(m, &mut g, &divided));
    let mats = plan::collect(m, &constants, &lanes, &partial)?;
    let deferred = plan::deferred(m, &mats);
    let ahead = ahead::find(m, &deferred);
    let settled = if wish { plan::settled(m, &mats, &deferred) } else { FxHashMap::default() };
    if reduce::in_subgroups(m, &mats, &lanes) {
        lanes.count_by_subgroups();
    }
    let row_uniform = row_uniform::row_uniform_values(m, &mats);
    let tensors = Tensors::new(m, cx.options);
    let decorated = decorations::take(m, &|m, id| m.type_of(id).is_some_and(|ty| mats.contains_key(&ty)));
    lanes.subgroup_matrices = mats.values().any(|m| !m.workgroup);
    lanes.widen_memory_scopes(m, &mut g, &constants);
    let size = lanes.count(false).unwrap_or(1);
    let most = || cx.options.profile.and_then(|p| crate::kernel::most_subgroups(m, p, size));
    let mut arena = Arena::new(m, &constants, cx.options.profile, lanes.subgroups().or_else(most));
    if wish && is_nvidia(cx.options.profile) && runs_beside_another(&mats, &lanes) {
        arena.limit_to(TWO_WORKGROUPS);
    }
    let mut lower = Lower {
        m,
        cx,
        g,
        constants,
        mats,
        functions: FxHashMap::default(),
        lanes,
        arena,
        tensors,
        deferred,
        ahead,
        settled,
        residents: FxHashMap::default(),
        left: FxHashMap::default(),
        row_uniform,
        decorated,
        words: FxHashMap::default(),
        replicated: FxHashMap::default(),
    };
    lower.report();
    if sums_rows {
        lower.approximates("a product with a matrix of one number sums the rows of A in f32, in any order");
    }
    lower.globals()?;
    lower.bodies()?;
    lower.types();
    lower.tensors.finish(lower.m);
    // What is left stands where it means nothing: outside functions, or with operands of other types.
    if let Some(r) = lower.m.all().find(|r| lower.m.inst(*r).op.is_matrix_instruction()) {
        return malformed(r, format!("{} is outside of functions, or its operands do not fit it", lower.m.inst(r).op));
    }
    lower.lanes.finish(lower.m);
    lower.cx.report.added_shared_memory += lower.arena.finish(lower.m, &mut lower.g);
    if let Some(size) = lower.lanes.required_subgroup_size() {
        lower.cx.report.required_subgroup_size = Some(size);
        lower.cx.report.full_subgroups = true;
    }
    lower.cx.report.counts_subgroups |= lower.lanes.counts_subgroups();
    sort_globals(lower.m);
    Ok(())
}

/// Returns true if a workgroup has so few invocations that a multiprocessor waits with one alone, and each holds so few sums
/// that slices may be short. With 128 invocations an H200 runs attention with heads of 64 and 128 a fifth to a half faster so,
/// and that with heads of 256, which has 128 sums for each, a tenth slower (docs/performance.md).
fn runs_beside_another(mats: &FxHashMap<Id, Mat>, lanes: &lanes::LaneSource) -> bool {
    let sums = mats.values().filter(|m| m.workgroup && m.placement.shape.use_ == Use::Accumulator);
    let most = sums.map(|m| m.placement.len()).max().unwrap_or(0);
    lanes.count(true).is_some_and(|invocations| invocations <= 128) && (1..=64).contains(&most)
}

impl Lower<'_, '_> {
    fn report(&mut self) {
        let mut mats: Vec<&Mat> = self.mats.values().filter(|m| m.parts == 1).collect();
        mats.sort_by_key(|m| m.ty);
        for mat in mats {
            let view = types::coop_mat(self.m, mat.ty).map(|t| t.view(self.m, &self.constants).to_string());
            let placement = mat.placement;
            self.cx.report.matrices.push(LoweredMatrix {
                id: mat.ty.get(),
                matrix: view.unwrap_or_default(),
                tile: None,
                grid: [mat.placement.grid.rows, mat.placement.grid.cols],
                per_lane: [placement.rows.per_group, placement.cols.per_group],
                replicated: placement.copies(),
            });
        }
    }

    /// Leaves a load to the product that uses it.
    fn leave(&mut self, r: InstRef, id: Id, load: Deferred) {
        let inst = self.m.inst(r);
        let undefined = Inst::new(Op::Undef, inst.ty, Some(id), []).at(inst.origin);
        self.m.replace(r, undefined);
        self.left.insert(id, load);
    }

    /// Returns the source of a factor.
    fn source(&mut self, id: Id) -> product::Source {
        if let Some(resident) = self.residents.get(&id) {
            return product::Source::Resident(*resident);
        }
        match self.left.remove(&id) {
            Some(Deferred::Plain(access)) => product::Source::Memory(access),
            Some(Deferred::Tensor(access)) => product::Source::Tensor(access),
            Some(Deferred::Moved(how, value)) => product::Source::Moved(how, value),
            None => product::Source::Value(id),
        }
    }

    fn mat_of(&self, value: Id) -> Option<Mat> {
        self.mats.get(&self.m.type_of(value)?).copied()
    }

    /// Constants of matrix type, and lengths that are constants.
    fn globals(&mut self) -> Result<(), Refusal> {
        for r in self.m.globals.clone() {
            let inst = self.m.inst(r);
            let mat = inst.ty.and_then(|t| self.mats.get(&t)).copied();
            match inst.op {
                Op::ConstantComposite | Op::SpecConstantComposite => {
                    if let Some(mat) = mat {
                        self.splat(r, mat, inst.op)?;
                    }
                }
                Op::ConstantCompositeReplicateEXT | Op::SpecConstantCompositeReplicateEXT => {
                    if let Some(mat) = mat {
                        let op = if inst.op == Op::ConstantCompositeReplicateEXT {
                            Op::ConstantComposite
                        } else {
                            Op::SpecConstantComposite
                        };
                        self.splat(r, mat, op)?;
                    }
                }
                Op::SpecConstantOp if inst.word(0) == Some(u32::from(Op::CooperativeMatrixLengthKHR.0)) => {
                    let Some(mat) = inst.id(1).and_then(|t| self.mats.get(&t)).copied() else { continue };
                    let len = Operand::Word(mat.placement.len());
                    let new = Inst::new(Op::Constant, inst.ty, inst.result, [len]).at(inst.origin);
                    self.m.replace(r, new);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A matrix all of whose elements are operand 0, made by `op`.
    fn splat(&mut self, r: InstRef, mat: Mat, op: Op) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let Some(value) = inst.id(0) else { return Ok(()) };
        let len = mat.placement.len() as usize;
        if len > 60_000 {
            let why = format!("each lane would hold {len} elements of a constant matrix");
            return Err(Refusal::new("refused-size", Some(r), why, "use smaller matrices or more lanes"));
        }
        let new = Inst::new(op, inst.ty, inst.result, std::iter::repeat_n(Operand::Id(value), len)).at(inst.origin);
        self.m.replace(r, new);
        Ok(())
    }

    fn bodies(&mut self) -> Result<(), Refusal> {
        let insts: Vec<InstRef> =
            self.m.functions.iter().flat_map(|f| f.blocks.iter().flat_map(|b| b.insts.iter().copied())).collect();
        for r in insts {
            self.inst(r)?;
        }
        Ok(())
    }

    fn inst(&mut self, r: InstRef) -> Result<(), Refusal> {
        self.cx.within_limits(self.m, Some(r))?;
        let inst = self.m.inst(r);
        let result = inst.ty.and_then(|t| self.mats.get(&t)).copied();
        let operand = inst.ids().find_map(|id| self.mat_of(id));
        if inst.result.is_some_and(|id| self.settled.contains_key(&id)) && self.make_resident(r)? {
            return Ok(());
        }
        let inst = self.m.inst(r);
        match inst.op {
            Op::CooperativeMatrixLoadKHR => return self.load(r),
            Op::CooperativeMatrixStoreKHR => return self.store(r),
            Op::CooperativeMatrixMulAddKHR => return self.muladd(r),
            Op::CooperativeMatrixLengthKHR => {
                let Some(mat) = inst.id(0).and_then(|t| self.mats.get(&t)).copied() else { return Ok(()) };
                let (ty, result, origin) = (inst.ty, inst.result, inst.origin);
                let Some((ty, scalar)) = ty.and_then(|t| Some((t, types::scalar(self.m, t).filter(|s| s.is_int())?)))
                else {
                    return malformed(r, "a length that is not an integer");
                };
                let len = self.g.constant_of(self.m, ty, scalar, u64::from(mat.placement.len()));
                self.m.replace(r, Inst::new(Op::CopyObject, Some(ty), result, [len.into()]).at(origin));
                return Ok(());
            }
            Op::CooperativeMatrixLoadTensorNV => return self.tensor_load(r),
            Op::CooperativeMatrixStoreTensorNV => return self.tensor_store(r),
            Op::CooperativeMatrixReduceNV => return self.reduce(r),
            Op::CooperativeMatrixPerElementOpNV => return self.per_element(r),
            Op::CooperativeMatrixGetCoordinateEXT => return self.coordinate(r),
            Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV => {
                if let Some(to) = result {
                    return self.convert_use(r, to);
                }
            }
            _ => {}
        }
        if result.is_none() && operand.is_none() {
            return self.lanes.inst(self.m, &mut self.g, r);
        }
        match (inst.op, result, operand) {
            (Op::CompositeConstruct, Some(mat), _) if inst.operands.len() == 1 => {
                self.splat(r, mat, Op::CompositeConstruct)
            }
            (Op::CompositeConstructReplicateEXT, Some(mat), _) => self.splat(r, mat, Op::CompositeConstruct),
            (Op::Select, Some(mat), _) => self.elementwise(r, mat),
            (op, Some(mat), _) if op.is_elementwise() => self.elementwise(r, mat),
            (Op::CompositeExtract | Op::CompositeInsert, ..) => self.element_index(r),
            (
                Op::Load
                | Op::Store
                | Op::CopyMemory
                | Op::Phi
                | Op::Undef
                | Op::CopyObject
                | Op::Variable
                | Op::CompositeConstruct
                | Op::CompositeConstructReplicateEXT
                | Op::FunctionCall
                | Op::ReturnValue
                | Op::ConstantNull,
                ..,
            ) => Ok(()),
            // Debug information may name matrices, and keeps doing so.
            (Op::ExtInst, None, _) => Ok(()),
            (op, ..) => {
                let why = format!("{op} on a matrix has no lowering to scalar yet");
                let remedy = "docs/instructions.md has what is lowered";
                Err(Refusal::new("refused-instruction", Some(r), why, remedy))
            }
        }
    }

    /// Extraction and insertion work on arrays as on matrices, as long as the element exists.
    fn element_index(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (composite, first) = if inst.op == Op::CompositeExtract { (inst.id(0), 1) } else { (inst.id(1), 2) };
        let mat = composite.and_then(|c| self.mat_of(c));
        let (Some(mat), Some(index)) = (mat, inst.word(first)) else { return Ok(()) };
        if index < mat.placement.len() {
            return Ok(());
        }
        let why = format!("element {index} of a matrix of which each lane holds {}", mat.placement.len());
        Err(Refusal::new("refused-element", Some(r), why, "bound element indices by the matrix's length"))
    }

    /// Replaces an instruction by a call of a function that is made when first needed.
    fn call(
        &mut self,
        r: InstRef,
        key: Key,
        args: &[Id],
        make: &mut dyn FnMut(&mut Self) -> Result<Id, Refusal>,
    ) -> Result<(), Refusal> {
        if let Some(id) = args.iter().find(|id| self.m.type_of(**id).is_none()) {
            return malformed(r, format!("{id} is not a value"));
        }
        let function = match self.functions.get(&key) {
            Some(f) => *f,
            None => {
                let f = make(self)?;
                self.functions.insert(key, f);
                f
            }
        };
        let inst = self.m.inst(r);
        let (origin, ty, result) = (inst.origin, inst.ty, inst.result);
        let (ty, result) = match ty {
            Some(ty) => (ty, result),
            None => (self.g.void(self.m), Some(self.m.fresh_id())),
        };
        let operands = std::iter::once(function).chain(args.iter().copied()).map(Operand::Id);
        self.m.replace(r, Inst::new(Op::FunctionCall, Some(ty), result, operands).at(origin));
        Ok(())
    }

    /// A function that is made when first needed.
    fn function(&mut self, key: Key, make: &mut dyn FnMut(&mut Self) -> Id) -> Id {
        if let Some(f) = self.functions.get(&key) {
            return *f;
        }
        let f = make(self);
        self.functions.insert(key, f);
        f
    }

    /// Matrix types become arrays, under the same ids.
    fn types(&mut self) {
        let mut mats: Vec<Mat> = self.mats.values().copied().collect();
        mats.sort_by_key(|m| m.ty);
        for mat in mats {
            let Some(r) = self.m.def(mat.ty) else { continue };
            let len = self.g.u32(self.m, mat.placement.len());
            let origin = self.m.inst(r).origin;
            let array = Inst::new(Op::TypeArray, None, Some(mat.ty), [mat.elem.into(), len.into()]);
            self.m.replace(r, array.at(origin));
        }
    }
}
