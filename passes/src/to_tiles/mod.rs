//! Replaces cooperative matrices by arrays of those that the device has.
//!
//! Precondition: scope, rows, columns, use and layouts are fixed (`specialize`); no function takes or returns a matrix
//! (`inline`). Effect: every matrix type that the device does not have becomes an array of *tiles* under the same id,
//! so variables, arrays and structs need no change; a value of such a type becomes a value for each tile. [`shape`] decides
//! the tiles of each type and the subgroups that hold them.
//!
//! # Values
//!
//! - [`Tiles::parts`] has the tiles of every value of a matrix type that becomes an array. One of them keeps the id of
//!   the value, so that names, decorations and debug information have something to refer to. Where a value comes out of
//!   a struct or an array, the id stays that of the array of tiles.
//! - Matrix code is generated in place, never in functions that take or return matrices: not every driver has those.
//! - A block may become several. Phis that name it as a predecessor are fixed when the function is done.
//!
//! Refuses: instructions of other matrix extensions, scopes other than subgroup and workgroup, types that the profile
//! does not list.

mod elements;
mod exchange;
mod fetch;
mod fused_loads;
mod inst;
mod known_positions;
mod line_reduce;
mod memory;
mod muladd;
mod narrow_factors;
mod native;
mod padding;
mod per_element;
mod plain_to_tensor;
mod reduce;
mod row_uniform;
mod shape;
mod software_pipeline;
mod staging;
mod tensor;
mod whole_reduce;
mod wide_factors;

pub use memory::has_wide_stride;

use crate::builtins::Builtins;
use crate::decorations::{self, Decorated};
use crate::inline::Carriers;
use crate::kernel;
use crate::matrix::arena::{Arena, Elem};
use crate::matrix::lanes::unknown_size;
use crate::matrix::logical::{Logical, logical};
use crate::matrix::placement::{Shape, ThreadGrid, Use};
use crate::matrix::{dead_matrices, observed_replication};
use crate::pipeline::{PassCx, with_or_without};
use crate::tensor::{Access, Tensors};
use crate::workgroup::Workgroup;
use crate::{LoweredMatrix, Refusal, malformed};
use coop_device::Profile;
use coop_ir::builder::{FunctionBuilder, Globals, Index, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::{BuiltIn, Capability, Scope};
use coop_ir::{Block, Function, Id, Inst, InstRef, Module, Op, Operand};
use known_positions::{Setting, Versions};
use native::Native;
use shape::{Choice, Mat};
use software_pipeline::{CarriedPhi, Pipeline};
use staging::StagingBuffer;
use tensor::Key;

/// Tiles of one matrix that a subgroup holds, at the most: what is done with each is code of its own, and no device has registers
/// for a hundredth of them.
const MOST_TILES: u32 = 4096;

/// The tiles of a value, row by row.
type TileIds = Vec<Id>;

/// A phi for one tile, whose operands are not filled in yet.
struct Phi {
    at: InstRef,
    tile: usize,
    /// Values, and the blocks that they come from.
    from: Vec<(Id, Id)>,
}

/// The instructions taken off the head of a loop.
struct LoopHead {
    kept: Vec<InstRef>,
    /// The block that the loop continues from, if it is a new one.
    continues: Option<Id>,
}

/// The analysis of a module, made before its functions change and constant afterwards.
struct Analysis {
    constants: Constants,
    mats: FxHashMap<Id, Mat>,
    /// The number of invocations of a subgroup.
    size: u32,
    /// The numbers of invocations and of subgroups of a workgroup.
    invocations: Option<u32>,
    subgroups: Option<u32>,
    /// Tensor loads and stores.
    accesses: FxHashMap<InstRef, Access>,
    /// Values whose rows hold one value each.
    row_uniform: FxHashSet<Id>,
    /// Factors that may hold something beyond the end of K.
    filled: FxHashSet<Id>,
    /// The operations on tiles that the device has.
    native: Native,
    /// The number of uses of each value by instructions.
    uses: FxHashMap<Id, u32>,
    /// The types of what `OpSelect` gives that are matrices or have some.
    selected: FxHashSet<Id>,
    /// The decorations of operations that gave matrices, where these become others.
    decorated: FxHashMap<Id, Vec<Decorated>>,
}

/// The functions of entry points.
fn entries(m: &Module) -> impl Iterator<Item = Id> {
    m.globals_with(Op::EntryPoint).filter_map(|r| m.inst(r).entry_function())
}

/// The state of the function that is being changed.
#[derive(Default)]
struct FunctionState {
    id: Option<Id>,
    /// The row and the column of the subgroup in the grid of workgroup matrices.
    group: Option<(Index, Index)>,
    /// Phis of tiles whose operands are not there yet.
    phis: Vec<Phi>,
    /// Loads that are left to the products that use them.
    deferred: FxHashMap<Id, InstRef>,
    /// Those of them that were met.
    loads: FxHashMap<InstRef, Inst>,
    /// Loops whose products are fetched ahead, and the phis of what is fetched.
    pipelines: Vec<Pipeline>,
    carried: Vec<CarriedPhi>,
}

/// The lowering: what is known of the module, what was made of it so far, and the function that is being changed.
struct Tiles<'a, 'cx> {
    cx: &'a mut PassCx<'cx>,
    analysis: Analysis,
    function: FunctionState,
    /// The tiles of values of matrix types.
    parts: FxHashMap<Id, (Mat, TileIds)>,
    /// Values of matrix types that are arrays under their own id.
    boxed: FxHashSet<Id>,
    builtins: Builtins,
    arena: Arena,
    /// Functions that were made, by what they do.
    functions: FxHashMap<Key, Id>,
    tile_types: TileTypes,
    /// For each component type that needs one, the numbers 0, 1, 2, .. in shared memory.
    iota_tables: Vec<StagingBuffer>,
    versions: Versions,
    /// The results of loads that were left to products.
    gone: Vec<Id>,
}

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if known_positions::may_split(m, cx.options) {
        return with_or_without(m, cx, lower);
    }
    lower(m, cx, false)
}

/// The tensor accesses of a module, taken apart.
fn accesses(m: &mut Module, g: &mut Globals, tensors: &mut Tensors) -> Result<FxHashMap<InstRef, Access>, Refusal> {
    let mut accesses = FxHashMap::default();
    for r in m.all().filter(|r| m.inst(*r).op.is_tensor_access()).collect::<Vec<_>>() {
        let mut access = tensors.access(m, g, r)?;
        // Intel's compiler loads matrices of such components by rows only.
        access.runs_down &= !(access.elem.scalar.width() == 32 && kernel::is_kernel(m));
        accesses.insert(r, access);
    }
    Ok(accesses)
}

/// With `lean`, a module with versions takes little shared memory, so that several of its workgroups run on a multiprocessor.
fn lower(m: &mut Module, cx: &mut PassCx<'_>, lean: bool) -> Result<(), Refusal> {
    if let Some(r) = m.globals_with(Op::TypeCooperativeMatrixNV).next() {
        let why = "matrices of SPV_NV_cooperative_matrix are not lowered yet";
        return Err(Refusal::new("refused-dialect", Some(r), why, "use SPV_KHR_cooperative_matrix"));
    }
    let Some(profile) = cx.options.profile else {
        let why =
            format!("which matrices the device has is not known, and the target {} needs them", cx.options.target);
        return Err(Refusal::new(
            "refused-no-profile",
            None,
            why,
            "name the device with --profile, or use --target scalar",
        ));
    };
    memory::narrow_strides(m, profile);
    let constants = Constants::new(m, &Specialization::new());
    narrow_factors::run(m, &constants, profile);
    let widened = wide_factors::run(m, profile);
    let logical = logical(m, &constants)?;
    let Some(size) = cx.options.subgroup_size else { return Err(unknown_size(None)) };
    let workgroup = Workgroup::new(m, &constants);
    let invocations = workgroup.invocations;
    let subgroups = workgroup.most.map(|n| n.div_ceil(size));
    // Those of a kernel can be of any size: there is shared memory for the largest.
    let parts = subgroups.or_else(|| kernel::most_subgroups(m, profile, size));
    let partners = partners(m, &logical);
    let shapes = Choice::new(m, profile, &logical, &partners).solve()?;
    let mut g = Globals::new(m);
    let (mats, tile_types) = split_types(m, &mut g, &logical, (profile, &shapes, &widened), (&workgroup, size))?;
    check_element_order(m, cx, &mats)?;
    let counted = subgroups.filter(|_| invocations.is_some());
    let setting = Setting { options: cx.options, mats: &mats, size, subgroups: counted };
    let versions = known_positions::split(m, &setting);
    let split: FxHashSet<Id> = mats.values().filter(|m| !m.is_kept()).map(|m| m.ty).collect();
    dead_matrices::run(m, &constants, &mats.keys().copied().collect(), &split);
    plain_to_tensor::to_tensor(m, &mut g, &constants, &mats, &widened);
    let mut tensors = Tensors::new(m, cx.options);
    tensors.widen(widened);
    let accesses = accesses(m, &mut g, &mut tensors)?;
    let filled = padding::filled(m, &constants, &mats);
    let native = Native::new(cx);
    let analysis = Analysis {
        decorated: FxHashMap::default(),
        constants,
        mats,
        size,
        invocations,
        subgroups,
        accesses,
        row_uniform: FxHashSet::default(),
        filled,
        native,
        uses: fused_loads::uses(m),
        selected: selected(m),
    };
    let mut arena = Arena::new(m, &analysis.constants, Some(profile), parts);
    if lean {
        versions.keep_lean(&mut arena);
    }
    let mut tiles = Tiles {
        arena,
        builtins: Builtins::new(m),
        cx,
        analysis,
        function: FunctionState::default(),
        parts: FxHashMap::default(),
        boxed: FxHashSet::default(),
        functions: FxHashMap::default(),
        tile_types,
        iota_tables: Vec::new(),
        versions,
        gone: Vec::new(),
    };
    tiles.analysis.decorated = tiles.take_decorations(m);
    tiles.analysis.row_uniform = tiles.find_row_uniform(m);
    tiles.take_iota_tables(m)?;
    tiles.take_answers(m, &mut g)?;
    tiles.report(&logical);
    tiles.globals(m);
    for i in 0..m.functions.len() {
        tiles.function(m, &mut g, i)?;
    }
    tensors.finish(m);
    tiles.forget_deferred(m);
    tiles.begin_entries(m, &mut g);
    tiles.types(m, &mut g);
    tiles.cx.report.added_shared_memory += tiles.arena.finish(m, &mut g);
    if tiles.builtins.is_read() && !kernel::is_kernel(m) {
        require_capability(m, Capability::GroupNonUniform);
    }
    tiles.builtins.finish(m);
    tiles.cx.report.required_subgroup_size = Some(size);
    tiles.cx.report.full_subgroups = true;
    if kernel::is_kernel(m) {
        kernel::spell_out(m, &mut g);
    }
    sort_globals(m);
    Ok(())
}

/// Refuses modules that rely on the positions of elements, unless tiles of the device have them there: elements beyond the last
/// row or column belong to no invocation, and each kind of tile has its own positions. Programs for Intel's devices rely on what those promise: that each
/// element is held once, at the same index in tiles of one shape.
fn check_element_order(m: &Module, cx: &PassCx<'_>, mats: &FxHashMap<Id, Mat>) -> Result<(), Refusal> {
    let uses = mats.iter().map(|(ty, mat)| (*ty, mat.tile_use)).collect();
    let observed = observed_replication::observed(m, &uses);
    let refused = |ty: Id, why: String| {
        let remedy = "lower to scalar code (--target scalar, or auto)";
        Err(Refusal::new("refused-element", m.def(ty), why, remedy))
    };
    let (kernel, promised) = (kernel::is_kernel(m) || cx.options.vulkan().is_some(), kernel::is_kernel(m));
    let mut types: Vec<Id> = observed.types.iter().copied().collect();
    types.sort_unstable();
    for mat in types.iter().filter_map(|ty| mats.get(ty)) {
        if mat.has_partial_tiles() {
            let why =
                format!("single elements of {} are looked at, and the device's matrices have more of them", mat.name());
            return refused(mat.ty, why);
        }
        if kernel && !promised && mat.tile_use != Use::Accumulator {
            let why =
                format!("single elements of {} are looked at, and the device may hold them several times", mat.name());
            return refused(mat.ty, why);
        }
    }
    let mut copies: Vec<(Id, Id)> = observed.copies.iter().copied().collect();
    copies.sort_unstable();
    for (from, to) in copies {
        let (Some(from), Some(to)) = (mats.get(&from), mats.get(&to)) else { continue };
        let same_positions =
            (from.tile_rows, from.tile_cols) == (to.tile_rows, to.tile_cols) && from.tile_use == to.tile_use;
        let own = !kernel && from.is_kept() && to.is_kept();
        let same_tiles = (from.tile_rows, from.tile_cols, from.rows(), from.cols())
            == (to.tile_rows, to.tile_cols, to.rows(), to.cols());
        if !(same_positions || own || promised && same_tiles) {
            let why = format!(
                "elements of {} become elements of {} of the same index, and the device's matrices have other places for them",
                from.name(),
                to.name()
            );
            return refused(to.ty, why);
        }
    }
    Ok(())
}

/// Pairs of matrix types that occur together in an instruction that works element by element.
fn partners(m: &Module, logical: &[Logical]) -> Vec<(Id, Id)> {
    let ids: FxHashSet<Id> = logical.iter().map(|l| l.ty.id).collect();
    let mut out = Vec::new();
    for f in &m.functions {
        for r in f.blocks.iter().flat_map(|b| b.insts.iter()) {
            let i = m.inst(*r);
            let Some(ty) = i.ty.filter(|t| i.op.is_elementwise() && ids.contains(t)) else { continue };
            let types = i.ids().filter_map(|id| m.type_of(id)).filter(|t| *t != ty && ids.contains(t));
            out.extend(types.map(|t| (ty, t)));
        }
    }
    out
}

/// Returns true if the module does things with whole rows: reduces them, or makes factors of sums.
fn keeps_rows(m: &Module) -> bool {
    m.all().any(|r| {
        let inst = m.inst(r);
        match inst.op {
            Op::CooperativeMatrixReduceNV => inst.word(1).is_some_and(|mask| mask & 1 != 0),
            Op::CooperativeMatrixConvertNV => true,
            _ => false,
        }
    })
}

/// Splits each matrix type into tiles, and makes the types of these.
fn split_types(
    m: &mut Module,
    g: &mut Globals,
    logical: &[Logical],
    (profile, shapes, widened): (&Profile, &shape::Shapes, &FxHashMap<Id, Elem>),
    (workgroup, size): (&Workgroup, u32),
) -> Result<(FxHashMap<Id, Mat>, TileTypes), Refusal> {
    let of_workgroup: Vec<Logical> = logical.iter().filter(|l| l.workgroup).copied().collect();
    let mut workgroup_grid = ThreadGrid::new(1, 1);
    if let Some(first) = of_workgroup.first() {
        let Some(invocations) = workgroup.invocations else { return Err(workgroup.refusal(Some(first.at))) };
        workgroup_grid = shape::grid(invocations.div_ceil(size), &of_workgroup, shapes, keeps_rows(m));
    }
    let mut types = TileTypes::default();
    // A widened type may be the same as another one now.
    let tile_use = |l: &Logical| shape::tile_use(profile, l.scalar, l.shape.use_);
    let kept = |l: &Logical, shape: (u32, u32)| {
        let as_it_is = (l.shape.rows, l.shape.cols, l.shape.use_) == (shape.0, shape.1, tile_use(l));
        !l.workgroup && as_it_is && !widened.contains_key(&l.ty.id)
    };
    for l in logical {
        let (r, c) = shapes[&l.ty.id];
        if kept(l, (r, c)) {
            types.entry((l.ty.component, r, c, l.shape.use_ as u32)).or_insert(l.ty.id);
        }
    }
    let mut mats = FxHashMap::default();
    for l in logical {
        let (tile_rows, tile_cols) = shapes[&l.ty.id];
        let tile_use = tile_use(l);
        let grid = if l.workgroup { workgroup_grid } else { ThreadGrid::new(1, 1) };
        let tile = if kept(l, (tile_rows, tile_cols)) {
            l.ty.id
        } else {
            tile_type(m, g, &mut types, (l.ty.component, tile_rows, tile_cols, tile_use as u32))
        };
        let elem = Elem { scalar: l.scalar, ty: l.ty.component };
        let in_tiles = Shape {
            rows: l.shape.rows.div_ceil(tile_rows),
            cols: l.shape.cols.div_ceil(tile_cols),
            use_: l.shape.use_,
        };
        let mat = Mat {
            ty: l.ty.id,
            elem,
            shape: l.shape,
            workgroup: l.workgroup,
            tile,
            tile_use,
            tile_rows,
            tile_cols,
            placement: grid.placement(in_tiles),
        };
        if mat.tiles() > MOST_TILES {
            let tiles = u64::from(mat.rows()) * u64::from(mat.cols());
            let shape = (l.shape.rows, l.shape.cols);
            let why = format!(
                "each subgroup would hold {tiles} tiles of {tile_rows}x{tile_cols} of a {}x{} matrix, more than {MOST_TILES}",
                shape.0, shape.1
            );
            return Err(Refusal::new("refused-size", Some(l.at), why, "use smaller matrices or more subgroups"));
        }
        mats.insert(l.ty.id, mat);
    }
    Ok((mats, types))
}

/// The types of tiles, by component type, rows, columns and use.
type TileTypes = FxHashMap<(Id, u32, u32, u32), Id>;

/// The type of a tile, made if there is none.
fn tile_type(m: &mut Module, g: &mut Globals, types: &mut TileTypes, key: (Id, u32, u32, u32)) -> Id {
    *types.entry(key).or_insert_with(|| {
        let (component, rows, cols, use_) = key;
        let operands = [Scope::Subgroup.0, rows, cols, use_].map(|v| Operand::Id(g.u32(m, v)));
        let operands = [Operand::Id(component)].into_iter().chain(operands);
        let id = m.fresh_id();
        let r = m.add(Inst::new(Op::TypeCooperativeMatrixKHR, None, Some(id), operands));
        m.globals.push(r);
        id
    })
}

/// The types of what `OpSelect` gives that are matrices or have some: no driver need know that of matrices, nor does spirv-val.
fn selected(m: &Module) -> FxHashSet<Id> {
    let mut carriers = Carriers::of(Op::TypeCooperativeMatrixKHR);
    let selects = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| i.op == Op::Select);
    let pointer = |ty: &Id| m.def_inst(*ty).is_some_and(|t| t.op == Op::TypePointer);
    selects.filter_map(|i| i.ty).filter(|ty| carriers.has(m, *ty) && !pointer(ty)).collect()
}

impl Tiles<'_, '_> {
    fn report(&mut self, logical: &[Logical]) {
        for l in logical {
            let mat = self.analysis.mats[&l.ty.id];
            let (row_groups, col_groups) = mat.groups();
            self.cx.report.matrices.push(LoweredMatrix {
                id: mat.ty.get(),
                matrix: mat.name() + if mat.workgroup { " workgroup" } else { "" },
                tile: Some([mat.tile_rows, mat.tile_cols]),
                grid: [mat.placement.grid.rows, mat.placement.grid.cols],
                per_lane: [mat.rows(), mat.cols()],
                replicated: row_groups * col_groups != mat.placement.grid.lanes(),
            });
        }
    }

    /// Takes the decorations of operations that become others.
    fn take_decorations(&self, m: &mut Module) -> FxHashMap<Id, Vec<Decorated>> {
        let insts = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r));
        let matrices =
            insts.filter(|i| i.ty.is_some_and(|ty| self.analysis.mats.contains_key(&ty)) && self.touches(m, i));
        let ids: FxHashSet<Id> = matrices.filter_map(|i| i.result).collect();
        decorations::take(m, &|_, id| ids.contains(&id))
    }

    /// The matrix type of a value, if it has one.
    fn mat_of(&self, m: &Module, value: Id) -> Option<Mat> {
        // The instruction behind the id may have become one for a tile.
        match self.parts.get(&value) {
            Some((mat, _)) => Some(*mat),
            None => self.analysis.mats.get(&m.type_of(value)?).copied(),
        }
    }

    /// Constants of matrix types: tiles, and arrays of them under the old ids.
    fn globals(&mut self, m: &mut Module) {
        for r in m.globals.clone() {
            let inst = m.inst(r).clone();
            let Some(mat) = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied().filter(|m| !m.is_kept()) else {
                continue;
            };
            let (Some(result), true) = (inst.result, inst.op.is_constant() || inst.op == Op::Undef) else { continue };
            let tile = m.fresh_id();
            let operands = inst.operands.iter().copied();
            let t = m.add(Inst::new(inst.op, Some(mat.tile), Some(tile), operands).at(inst.origin));
            m.globals.push(t);
            let count = mat.tiles() as usize;
            let op = match inst.op {
                Op::ConstantCompositeReplicateEXT => Op::ConstantComposite,
                Op::SpecConstantCompositeReplicateEXT => Op::SpecConstantComposite,
                op => op,
            };
            if matches!(op, Op::ConstantComposite | Op::SpecConstantComposite) {
                let all = std::iter::repeat_n(Operand::Id(tile), count);
                m.replace(r, Inst::new(op, inst.ty, inst.result, all).at(inst.origin));
            }
            self.boxed.insert(result);
            self.parts.insert(result, (mat, vec![tile; count]));
        }
    }

    /// Changes a function, if it has to do with matrices.
    fn function(&mut self, m: &mut Module, g: &mut Globals, index: usize) -> Result<(), Refusal> {
        let function = m.functions[index].clone();
        self.check_signature(m, &function)?;
        if !function.insts().any(|r| self.touches(m, m.inst(r))) {
            return Ok(());
        }
        self.function.id = m.inst(function.def).result;
        self.function.deferred =
            fused_loads::deferred(m, &function, &self.analysis.mats, &self.analysis.accesses, &self.analysis.uses);
        self.function.pipelines =
            software_pipeline::find(m, &function, &self.function.deferred, &self.analysis.accesses);
        self.plan_blocks(m);
        m.functions[index].blocks.clear();
        let Some(mut b) = FunctionBuilder::rebuild(m, g, &function) else { return Ok(()) };
        let mut last: FxHashMap<Id, Id> = FxHashMap::default();
        for (n, block) in function.blocks.iter().enumerate() {
            if n > 0 {
                b.reopen(block);
            }
            let label = b.block_id();
            self.add_carried_phis(&mut b, label);
            let head = self.split_header(&mut b, block)?;
            let variable = |r: &InstRef| b.module.inst(*r).op == Op::Variable;
            let variables = if n == 0 { block.insts.iter().rposition(variable).map_or(0, |at| at + 1) } else { 0 };
            for (at, r) in block.insts.iter().enumerate() {
                if n == 0 && at == variables {
                    self.prologue(&mut b);
                }
                if head.as_ref().is_some_and(|s| s.kept.contains(r)) {
                    continue;
                }
                if at + 1 == block.insts.len() {
                    self.prefetch_first(&mut b, label);
                }
                if at + 1 == block.insts.len()
                    && let Some(next) = head.as_ref().and_then(|s| s.continues)
                {
                    b.branch_to(next);
                }
                self.inst(&mut b, *r)?;
            }
            last.insert(label, b.block_id());
        }
        let blocks = b.blocks();
        let old = function.blocks.iter().flat_map(|b| b.insts.iter().copied()).filter(|r| m.inst(*r).op == Op::Phi);
        let old: Vec<InstRef> = old.collect();
        self.fix_phis(m, &old, &last)?;
        m.functions[index].blocks = blocks;
        self.function = FunctionState::default();
        Ok(())
    }

    /// Takes the head of a loop off a block that may become several: its phis, and the merge instruction.
    fn split_header(&mut self, b: &mut FunctionBuilder<'_>, block: &Block) -> Result<Option<LoopHead>, Refusal> {
        let is = |b: &FunctionBuilder<'_>, r: &InstRef, op: Op| b.module.inst(*r).op == op;
        let Some(merge) = block.insts.iter().copied().find(|r| is(b, r, Op::LoopMerge)) else { return Ok(None) };
        let grows = |r: &InstRef| !is(b, r, Op::Phi) && self.touches(b.module, b.module.inst(*r));
        if !block.insts.iter().any(grows) {
            return Ok(None);
        }
        let label = b.block_id();
        let (after, next) = (b.module.inst(merge).id(0), b.module.inst(merge).id(1));
        if let Some(end) = block.terminator().filter(|t| is(b, t, Op::BranchConditional) || is(b, t, Op::Switch)) {
            let leaves = |id: Id| Some(id) == after || Some(id) == next;
            let inst = b.module.inst(end);
            if !inst.ids_from(1).any(leaves) || inst.op == Op::Switch {
                let why = "a loop begins with a choice between two of its blocks, behind an instruction that becomes several blocks";
                let remedy = "branch in a block of its own behind the head of the loop";
                return Err(Refusal::new("refused-control-flow", Some(end), why, remedy));
            }
        }
        let mut kept: Vec<InstRef> = Vec::new();
        for r in block.insts.iter().copied() {
            if is(b, &r, Op::Phi) {
                self.inst(b, r)?;
                kept.push(r);
            }
        }
        // A block that is a loop by itself gets a block to continue from.
        let continues = (next == Some(label)).then(|| b.module.fresh_id());
        if let Some(id) = continues {
            b.module.inst_mut(merge).operands[1] = id.into();
        }
        b.keep(merge);
        kept.push(merge);
        let inside = b.module.fresh_id();
        b.branch_to(inside);
        Ok(Some(LoopHead { kept, continues }))
    }

    /// The place of the subgroup, for all of the function.
    fn prologue(&mut self, b: &mut FunctionBuilder<'_>) {
        let grid = self.analysis.mats.values().find(|m| m.workgroup).map(|m| m.placement.grid);
        let Some(grid) = grid else { return };
        self.function.group = Some(if grid.lanes() == 1 {
            (Index::Const(0), Index::Const(0))
        } else {
            let subgroup = self.builtins.load(b, BuiltIn::SubgroupId);
            (b.div(subgroup, grid.cols), b.rem(subgroup, grid.cols))
        });
    }

    fn check_signature(&self, m: &Module, function: &Function) -> Result<(), Refusal> {
        let is_mat = |t: Option<Id>| t.and_then(|t| self.analysis.mats.get(&t)).is_some_and(|m| !m.is_kept());
        let refused = |at: InstRef| {
            let why = "a function takes or returns a matrix that the device does not have";
            Err(Refusal::new(
                "refused-function",
                Some(at),
                why,
                "inline the function (spirv-opt --inline-entry-points-exhaustive)",
            ))
        };
        if is_mat(m.inst(function.def).ty) {
            return refused(function.def);
        }
        match function.params.iter().find(|p| is_mat(m.inst(**p).ty)) {
            Some(p) => refused(*p),
            None => Ok(()),
        }
    }

    /// Fills in the operands of phis of tiles, and mends the blocks that the other phis of the input (`old`) name.
    fn fix_phis(&mut self, m: &mut Module, old: &[InstRef], last: &FxHashMap<Id, Id>) -> Result<(), Refusal> {
        for r in old.iter().copied().filter(|r| self.function.phis.iter().all(|p| p.at != *r)) {
            let moved = |id: Id| last.get(&id).copied().filter(|l| *l != id);
            let any = m.inst(r).ids_from(0).skip(1).step_by(2).any(|id| moved(id).is_some());
            if any {
                for o in m.inst_mut(r).operands.iter_mut().skip(1).step_by(2) {
                    if let Operand::Id(id) = o {
                        *id = moved(*id).unwrap_or(*id);
                    }
                }
            }
        }
        for CarriedPhi { at, first, next } in std::mem::take(&mut self.function.carried) {
            let block = |label: Id| last.get(&label).copied().unwrap_or(label);
            let operands = [first.0, block(first.1), next.0, block(next.1)];
            m.inst_mut(at).operands = operands.into_iter().map(Operand::Id).collect();
        }
        for phi in std::mem::take(&mut self.function.phis) {
            let mut operands = Vec::new();
            for (value, block) in phi.from {
                let tile = self.parts.get(&value).and_then(|(_, p)| p.get(phi.tile)).copied();
                let Some(tile) = tile else {
                    return malformed(phi.at, "a value that comes into a phi is not a matrix of its type");
                };
                operands.extend([tile, last.get(&block).copied().unwrap_or(block)].map(Operand::Id));
            }
            m.inst_mut(phi.at).operands = operands.into_iter().collect();
        }
        Ok(())
    }

    /// Has every entry point write the iota tables before anything else.
    fn begin_entries(&mut self, m: &mut Module, g: &mut Globals) {
        let Some(iota_tables) = self.write_iota_tables(m, g) else { return };
        let entries: Vec<Id> = entries(m).collect();
        for f in 0..m.functions.len() {
            let is_entry = m.inst(m.functions[f].def).result.is_some_and(|id| entries.contains(&id));
            if !is_entry || self.dispatch(m, g, f, iota_tables) {
                continue;
            }
            let (void, id) = (g.void(m), m.fresh_id());
            let call = m.add(Inst::new(Op::FunctionCall, Some(void), Some(id), [iota_tables.into()]));
            let Some(block) = m.functions[f].blocks.first() else { continue };
            let at = block.insts.iter().rposition(|r| m.inst(*r).op == Op::Variable).map_or(0, |at| at + 1);
            m.functions[f].blocks[0].insts.insert(at, call);
        }
    }

    /// Matrix types become arrays, under the same ids.
    fn types(&mut self, m: &mut Module, g: &mut Globals) {
        let mut mats: Vec<Mat> = self.analysis.mats.values().copied().filter(|m| !m.is_kept()).collect();
        mats.sort_by_key(|m| m.ty);
        for mat in mats {
            let Some(r) = m.def(mat.ty) else { continue };
            let len = g.u32(m, mat.tiles());
            let array = Inst::new(Op::TypeArray, None, Some(mat.ty), [mat.tile.into(), len.into()]);
            let origin = m.inst(r).origin;
            m.replace(r, array.at(origin));
        }
    }
}
