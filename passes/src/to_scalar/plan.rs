//! Chooses the placement of each matrix type, for the module as a whole.
//!
//! Matrices of subgroup scope are small, and held in blocks of one thread grid. Those of workgroup scope are held without
//! copies: factors in coalesced placements along their usual major order in memory, accumulators in tiles whose pieces
//! match the adjacent elements of the factors of their products.

use super::Mat;
use super::arith::HALF;
use crate::Refusal;
use crate::matrix::callback::may_write;
use crate::matrix::logical::{Logical, logical};
use crate::matrix::placement::{
    BlockedMatrix, MajorOrder, Run, Shape, ThreadGrid, Use, choose, coalesced_within, tile,
};
use crate::matrix::{lanes, observed_replication};
use coop_ir::constant::Constants;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, Module, Op};

/// Every matrix type with its dimensions, and the thread grids that hold them. `partial` are the types of partial accumulators, with the groups
/// of lanes among which K is divided for each.
pub(super) fn collect(
    m: &Module,
    constants: &Constants,
    lanes: &lanes::LaneSource,
    partial: &FxHashMap<Id, u32>,
) -> Result<FxHashMap<Id, Mat>, Refusal> {
    let found = logical(m, constants)?;
    let uses: FxHashMap<Id, Use> = found.iter().map(|l| (l.ty.id, l.shape.use_)).collect();
    let observed = observed_replication::observed(m, &uses).types;
    let mut mats = FxHashMap::default();
    let directions = Directions::new(m, constants, &found);
    for scope in [false, true] {
        let of_scope: Vec<Logical> = found.iter().filter(|l| l.workgroup == scope).copied().collect();
        let Some(first) = of_scope.first() else { continue };
        let count = lanes.count(scope).ok_or_else(|| lanes.unknown(Some(first.at), scope))?;
        let by_id: FxHashMap<Id, (Scalar, Shape)> = of_scope.iter().map(|l| (l.ty.id, (l.scalar, l.shape))).collect();
        let runs = runs(m, constants, &by_id);
        let held = |shape: Shape, ty: Id| BlockedMatrix { shape, once: observed.contains(&ty) };
        let grid = if scope {
            ThreadGrid::new(count, 1)
        } else {
            let holdings: Vec<BlockedMatrix> = of_scope.iter().map(|l| held(l.shape, l.ty.id)).collect();
            choose(count, &holdings, &runs)
        };
        let pieces = Pieces::new(m, &by_id, &runs, &directions);
        let reduced = reduced_by_rows(m, &by_id);
        for Logical { ty, scalar, shape, workgroup, .. } in of_scope {
            let order = directions.of(ty.id, shape.use_);
            let parts = partial.get(&ty.id).copied().unwrap_or(1);
            let placement = match shape.use_ {
                _ if !scope => {
                    let placement = grid.blocked(held(shape, ty.id));
                    if observed.contains(&ty.id) && placement.pads() {
                        return Err(not_once(m, ty.id, shape, count));
                    }
                    placement
                }
                Use::Accumulator if parts > 1 => tile(count / parts, shape, pieces.of(shape), false),
                Use::Accumulator => tile(count, shape, pieces.of(shape), reduced.contains(&(shape.rows, shape.cols))),
                _ => {
                    // What is put into shared memory in slices of K should be every lane's work each time.
                    let along_k = (order == MajorOrder::Row) == (shape.use_ == Use::A);
                    let span = if along_k { SPAN } else { u32::MAX };
                    coalesced_within(count, shape, order, QUAD_BITS / scalar.width().clamp(8, 128), span)
                }
            };
            let elem = ty.component;
            mats.insert(ty.id, Mat { ty: ty.id, elem, scalar, placement, workgroup, order, parts });
        }
    }
    Ok(mats)
}

/// The refusal where some lanes would hold copies of elements that are looked at.
fn not_once(m: &Module, ty: Id, shape: Shape, lanes: u32) -> Refusal {
    let Shape { rows, cols, .. } = shape;
    let why = format!(
        "single elements of a matrix of {rows}x{cols} are looked at, and {lanes} lanes can't hold each of them once"
    );
    let remedy = "use dimensions of which the subgroup size is a divisor, or change elements only in place";
    Refusal::new("refused-element", m.def(ty), why, remedy)
}

/// The shapes of matrices whose rows are reduced.
fn reduced_by_rows(m: &Module, mats: &FxHashMap<Id, (Scalar, Shape)>) -> FxHashSet<(u32, u32)> {
    let reductions = m.all().map(|r| m.inst(r)).filter(|i| i.op == Op::CooperativeMatrixReduceNV);
    let rows = reductions.filter(|i| i.word(1) == Some(1));
    rows.filter_map(|i| mats.get(&m.type_of(i.id(0)?)?)).map(|(_, shape)| (shape.rows, shape.cols)).collect()
}

/// The neighbours along K that are divided among lanes: slices are multiples of it.
const SPAN: u32 = 16;

/// Bits that are read and written together.
const QUAD_BITS: u32 = 128;

/// Returns true if an instruction defines a factor that is loaded; a variable holds one, mostly.
fn loads(op: Op) -> bool {
    op == Op::Load || op.is_matrix_load()
}

/// The direction in which each type's matrices mostly lie in memory.
struct Directions {
    votes: FxHashMap<Id, (u32, u32)>,
}

impl Directions {
    fn new(m: &Module, constants: &Constants, found: &[Logical]) -> Directions {
        let known: FxHashSet<Id> = found.iter().map(|l| l.ty.id).collect();
        let mut votes: FxHashMap<Id, (u32, u32)> = FxHashMap::default();
        for r in m.all() {
            let inst = m.inst(r);
            let value = |id: Option<Id>| id.and_then(|id| constants.get(id).value());
            let vote = match inst.op {
                Op::CooperativeMatrixLoadKHR => {
                    Some((inst.ty, value(inst.matrix_access().map(|a| a.layout)) == Some(1)))
                }
                Op::CooperativeMatrixLoadTensorNV => Some((inst.ty, transposes(m, constants, inst))),
                _ => None,
            };
            let Some((Some(ty), column)) = vote else { continue };
            if known.contains(&ty) {
                let (rows, columns) = votes.entry(ty).or_default();
                *(if column { columns } else { rows }) += 1;
            }
        }
        Directions { votes }
    }

    fn of(&self, ty: Id, use_: Use) -> MajorOrder {
        match self.votes.get(&ty) {
            Some((rows, columns)) if rows > columns => MajorOrder::Row,
            Some((rows, columns)) if rows < columns => MajorOrder::Column,
            // What a product likes best.
            _ if use_ == Use::B => MajorOrder::Column,
            _ => MajorOrder::Row,
        }
    }
}

/// Returns true if a tensor load has a view that exchanges the last two dimensions.
fn transposes(m: &Module, constants: &Constants, inst: &Inst) -> bool {
    inst.ids().filter_map(|id| m.def_inst(m.type_of(id)?)).filter(|t| t.op == Op::TypeTensorViewNV).any(|t| {
        let order: Vec<Option<u64>> = t.ids_from(2).map(|p| constants.get(p).value()).collect();
        match order.as_slice() {
            [.., Some(a), Some(b)] => a > b,
            _ => false,
        }
    })
}

/// Rows and columns of accumulators that stay together, by shape.
struct Pieces {
    wanted: FxHashMap<(u32, u32), (u32, u32)>,
}

impl Pieces {
    fn new(m: &Module, mats: &FxHashMap<Id, (Scalar, Shape)>, runs: &[Run], directions: &Directions) -> Pieces {
        let mut wanted: FxHashMap<(u32, u32), (u32, u32)> = FxHashMap::default();
        let mut want = |shape: Shape, rows: u32, cols: u32| {
            let entry = wanted.entry((shape.rows, shape.cols)).or_insert((1, 1));
            *entry = (entry.0.max(rows), entry.1.max(cols));
        };
        for run in runs.iter().filter(|r| r.shape.use_ == Use::Accumulator) {
            let (rows, cols) = if run.along_row { (1, run.len) } else { (run.len, 1) };
            want(run.shape, rows, cols);
        }
        for inst in m.all().map(|r| m.inst(r)).filter(|i| i.op == Op::CooperativeMatrixMulAddKHR) {
            let of = |n: usize| {
                let ty = m.type_of(inst.id(n)?)?;
                mats.get(&ty).map(|(scalar, _)| (ty, QUAD_BITS / scalar.width().clamp(8, 128)))
            };
            let (Some((a, a_piece)), Some((b, b_piece)), Some((_, shape))) =
                (of(0), of(1), inst.ty.and_then(|t| mats.get(&t)))
            else {
                continue;
            };
            let types = inst.ids().take(3).filter_map(|id| m.type_of(id)).chain(inst.ty);
            let sums_in_words = types.filter_map(|t| mats.get(&t)).all(|(scalar, _)| scalar.width() <= 32);
            // Factors are read in pieces of a lane's rows or columns; those that lie along K are turned for that. Halves
            // that are summed in pairs are not widened then.
            let types = inst.ids().take(3).filter_map(|id| m.type_of(id));
            let halves = types.filter_map(|t| mats.get(&t)).all(|(scalar, _)| *scalar == HALF);
            let loaded = inst.ids().take(2).filter_map(|id| m.def_inst(id)).all(|i| loads(i.op));
            let transposed = match sums_in_words {
                true if halves && loaded => QUAD_BITS / HALF.width(),
                true => 4,
                false => 1,
            };
            let rows = if directions.of(a, Use::A) == MajorOrder::Column { a_piece } else { transposed };
            let cols = if directions.of(b, Use::B) == MajorOrder::Row { b_piece } else { transposed };
            want(*shape, rows, cols);
        }
        Pieces { wanted }
    }

    fn of(&self, shape: Shape) -> (u32, u32) {
        self.wanted.get(&(shape.rows, shape.cols)).copied().unwrap_or((1, 1))
    }
}

/// The use of matrices of a type, if they are of workgroup scope.
fn use_of(mats: &FxHashMap<Id, Mat>, ty: Id) -> Option<Use> {
    mats.get(&ty).filter(|mat| mat.workgroup).map(|mat| mat.placement.shape.use_)
}

/// The loads of workgroup-scope factors whose results are used once, by a product in the same block, with nothing in
/// between that may write memory or wait; and accumulators that become factors, which are used so.
pub(super) fn deferred(m: &Module, mats: &FxHashMap<Id, Mat>) -> FxHashSet<Id> {
    let mut uses: FxHashMap<Id, u32> = FxHashMap::default();
    let blocks = || m.functions.iter().flat_map(|f| &f.blocks);
    for r in blocks().flat_map(|b| &b.insts) {
        for id in m.inst(*r).ids() {
            *uses.entry(id).or_default() += 1;
        }
    }
    let mut out = FxHashSet::default();
    for block in blocks() {
        // Loads since the last instruction that may have written what they read.
        let mut open: FxHashSet<Id> = FxHashSet::default();
        let mut moved: FxHashSet<Id> = FxHashSet::default();
        for r in &block.insts {
            let inst = m.inst(*r);
            let use_ = inst.ty.and_then(|ty| use_of(mats, ty));
            let (staged, factor) = (use_.is_some(), use_.is_some_and(|u| u != Use::Accumulator));
            match inst.op {
                Op::CooperativeMatrixConvertNV | Op::FConvert | Op::SConvert | Op::UConvert if staged && factor => {
                    moved.extend(inst.result.filter(|id| uses.get(id) == Some(&1)));
                }
                Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadTensorNV if staged => {
                    open.extend(inst.result.filter(|id| uses.get(id) == Some(&1)));
                }
                Op::CooperativeMatrixMulAddKHR => {
                    out.extend(inst.ids().take(2).filter(|id| open.contains(id) || moved.contains(id)));
                }
                op if may_write(m, op, inst) => open.clear(),
                _ => {}
            }
        }
    }
    out
}

/// The loads of workgroup-scope factors that nothing but products uses, and not as [`deferred`] has it: whether that is
/// as A, and the type of the sums.
pub(super) fn settled(m: &Module, mats: &FxHashMap<Id, Mat>, deferred: &FxHashSet<Id>) -> FxHashMap<Id, (bool, Id)> {
    let insts = || m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r));
    let loads = insts().filter(|i| matches!(i.op, Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadTensorNV));
    let factor = |ty: Id| use_of(mats, ty).is_some_and(|u| u != Use::Accumulator);
    let loads: FxHashSet<Id> = loads.filter(|i| i.ty.is_some_and(factor)).filter_map(|i| i.result).collect();
    let mut out: FxHashMap<Id, (bool, Id)> = FxHashMap::default();
    let mut otherwise: FxHashSet<Id> = deferred.clone();
    // They are put down as f32, which sums of f64 can't use.
    let is_wide = |inst: &Inst| {
        let types = inst.ids().filter_map(|id| m.type_of(id)).chain(inst.ty);
        types.filter_map(|ty| mats.get(&ty)).any(|mat| mat.scalar.width() == 64)
    };
    for inst in insts() {
        for (n, id) in inst.ids().enumerate().filter(|(_, id)| loads.contains(id)) {
            match inst.ty {
                Some(ty) if inst.op == Op::CooperativeMatrixMulAddKHR && n < 2 && !is_wide(inst) => {
                    if *out.entry(id).or_insert((n == 0, ty)) != (n == 0, ty) {
                        otherwise.insert(id);
                    }
                }
                _ => {
                    otherwise.insert(id);
                }
            }
        }
    }
    out.retain(|id, _| !otherwise.contains(id));
    out
}

/// The stores into memory of wider numbers than the matrix has.
fn runs(m: &Module, constants: &Constants, mats: &FxHashMap<Id, (Scalar, Shape)>) -> Vec<Run> {
    let mut out = Vec::new();
    for r in m.all().filter(|r| m.inst(*r).op == Op::CooperativeMatrixStoreKHR) {
        let inst = m.inst(r);
        let run = || -> Option<Run> {
            let access = inst.matrix_access()?;
            let pointer = types::Type::of(m, m.type_of(access.pointer)?)?;
            let types::Type::Pointer { pointee, .. } = pointer else { return None };
            let (memory, _) = types::scalar_or_vector(m, pointee)?;
            let (scalar, shape) = *mats.get(&m.type_of(access.object?)?)?;
            let along_row = constants.get(access.layout).value()? == 0;
            (memory.width() > scalar.width()).then(|| Run { shape, along_row, len: memory.width() / scalar.width() })
        };
        out.extend(run());
    }
    out
}
