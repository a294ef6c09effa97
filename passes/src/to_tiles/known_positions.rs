//! Has a module find out at run time which invocation holds which element of a tile.
//!
//! The device decides that. Where it is as expected, elements move in registers: from an accumulator to a left factor by
//! copies, along a row by shuffles. Otherwise they go through shared memory. An entry point whose loops gain from that gets
//! two *versions* of its code. It first compares positions, which it reads from iota tables ([`super::per_element`]), with what
//! is expected, and calls one of them.
//!
//! # Invariants
//!
//! 1. The answer of a check is about types: element `i` of any tile of a type has the same position ([`super::elements`]).
//! 2. All invocations of a workgroup call the same version: subgroups vote, and tell each other. So barriers and matrix
//!    instructions may stand in a version.
//! 3. The module is right whatever the answer is. What a driver is expected to do decides only whether versions are worth
//!    their instructions.
//!
//! A branch in the loop instead of versions costs most of what is won: what stands behind it can't be scheduled with what is
//! before it (docs/performance.md).
//!
//! NVIDIA's products take fragments of 16x16 elements in which a lane holds pairs of neighbors (PTX ISA, "Matrix Fragments for
//! mma.m16n8k16 with floating point type"): an accumulator and a left factor are placed alike, and each row is in four
//! consecutive lanes.

use super::exchange::{Change, Conversion};
use super::line_reduce::Fold;
use super::per_element::{as_word, represents_positions};
use super::shape::{self, Mat};
use super::staging::{Layout, StagingBuffer};
use super::{Tiles, entries, tile_type};
use crate::device::is_nvidia;
use crate::inline::splice;
use crate::kernel;
use crate::matrix::arena::{Arena, Elem, QUAD, TWO_WORKGROUPS, Zone};
use crate::matrix::placement::Use;
use crate::matrix::row_uniform::{Combine, combine};
use crate::{Options, Refusal};
use coop_device::SubgroupOperations;
use coop_ir::builder::{FunctionBuilder, Globals, Index, Unroll, require_capability};
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{BuiltIn, Capability, CooperativeMatrixReduce, Scope, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Block, Function, Id, Inst, InstRef, Module, Op, Operand};

/// Invocations that hold a fragment.
const LANES: u32 = 32;

/// Rows and columns of a fragment.
const EXTENT: u32 = 16;

/// The elements of an accumulator that are in one row, for each of the rows that a lane has a part of.
const ROWS: [[u32; 4]; 2] = [[0, 1, 2, 3], [4, 5, 6, 7]];

/// The bits in which the numbers of the lanes that hold a row differ.
const ROW_LANES: [u32; 2] = [1, 2];

/// The elements of a fragment that an invocation holds.
const LENGTH: u32 = 8;

/// An entry point with two versions of its code.
struct Versioned {
    entry: Id,
    /// Matrices, one for each type of tiles that is checked. Of a left factor: element `i` has to be at the position of element
    /// `i` of an accumulator, for all `i`. Of an accumulator: the elements of a row have to be those of [`ROWS`], in the lanes
    /// that [`ROW_LANES`] says.
    checked: Vec<Mat>,
    /// The version for a device that holds elements as expected, and that for any other.
    versions: [Id; 2],
}

/// The versions of a module's entry points.
#[derive(Default)]
pub(super) struct Versions {
    entries: Vec<Versioned>,
    /// A word for each subgroup, if there are several.
    words: Option<StagingBuffer>,
}

impl Versions {
    /// Takes less shared memory for the versions than the device has.
    pub(super) fn keep_lean(&self, arena: &mut Arena) {
        if !self.entries.is_empty() {
            arena.limit_to(TWO_WORKGROUPS);
        }
    }
}

/// Returns true if entry points may get versions, as far as the device (its invocations vote and shuffle) and the opcodes of the
/// module tell.
pub(super) fn may_split(m: &Module, options: &Options<'_>) -> bool {
    let operations = SubgroupOperations(SubgroupOperations::VOTE.0 | SubgroupOperations::SHUFFLE.0);
    let shuffles = options.profile.is_some_and(|p| p.limits.subgroup_supported_operations.has(operations));
    let moves = |r: InstRef| matches!(m.inst(r).op, Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixReduceNV);
    shuffles && is_nvidia(options.profile) && m.functions.iter().flat_map(|f| f.insts()).any(moves)
}

/// The device, the types and the workgroup, which decide about versions beside the instructions.
pub(super) struct Setting<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) mats: &'a FxHashMap<Id, Mat>,
    pub(super) size: u32,
    /// The subgroups of every workgroup, where that is known.
    pub(super) subgroups: Option<u32>,
}

impl Setting<'_> {
    /// Returns true if tiles are as large as NVIDIA's fragments.
    fn expects_fragments(&self, mat: Mat) -> bool {
        let extents = (mat.tile_rows, mat.tile_cols);
        self.size == LANES && extents == (EXTENT, EXTENT) && represents_positions(mat)
    }

    /// The matrix to check for an instruction whose elements could stay in registers.
    fn to_check(&self, m: &Module, inst: &Inst) -> Option<Mat> {
        let mut ids = inst.ids();
        let from = self.mats.get(&m.type_of(ids.next()?)?).copied()?;
        let to = self.mats.get(&inst.ty?).copied()?;
        if inst.op == Op::CooperativeMatrixReduceNV {
            let by_row = inst.enumerant(1) == Some(CooperativeMatrixReduce::Row);
            let what = combine(m, ids.next()?);
            return Some(from).filter(|_| by_row && self.shuffles(from, to, what));
        }
        let converts = inst.op.is_conversion() || inst.op == Op::CooperativeMatrixConvertNV;
        let profile = self.options.profile?;
        let extents = (from.tile_rows, from.tile_cols);
        let stays = from.elem == to.elem || shape::has_tile(profile, to.elem.scalar, from.tile_use, extents);
        Some(to).filter(|_| converts && stays && self.copies(from, to))
    }

    /// Returns true if each subgroup may hold elements of both matrices at the same positions.
    fn copies(&self, from: Mat, to: Mat) -> bool {
        let tiles = |m: Mat| (m.groups(), m.rows(), m.cols(), m.tile_rows, m.tile_cols, m.workgroup);
        (from.tile_use, to.tile_use) == (Use::Accumulator, Use::A)
            && tiles(from) == tiles(to)
            && self.expects_fragments(to)
    }

    /// Returns true if the elements of rows may be reduced by shuffles.
    fn shuffles(&self, from: Mat, to: Mat, what: Combine) -> bool {
        let word = matches!(from.elem.scalar, Scalar::Float { width: 32 } | Scalar::Int { width: 32, .. });
        let (_, col_groups) = from.groups();
        word && what != Combine::Other
            && col_groups == 1
            && from.tile == to.tile
            && from.tile_use == Use::Accumulator
            && self.expects_fragments(from)
    }
}

/// Gives entry points two versions whose loops have instructions for which positions matter.
pub(super) fn split(m: &mut Module, setting: &Setting<'_>) -> Versions {
    let mut versions = Versions::default();
    if kernel::is_kernel(m) || setting.subgroups.is_none() || !may_split(m, setting.options) {
        return versions;
    }
    let functions: FxHashSet<Id> = entries(m).collect();
    for f in 0..m.functions.len() {
        let Some(entry) = m.inst(m.functions[f].def).result.filter(|id| functions.contains(id)) else { continue };
        let checked = checked_in_loops(m, &m.functions[f], setting);
        if checked.is_empty() {
            continue;
        }
        splice::duplicate(m, f, "_in_registers");
        let first = m.functions.last().and_then(|f| m.inst(f.def).result);
        let Some((first, second)) = first.zip(move_body(m, f)) else { continue };
        versions.entries.push(Versioned { entry, checked, versions: [first, second] });
    }
    versions
}

/// Moves the body of an entry point to a function of its own. The entry point returns, until it is known whom to call
/// ([`Tiles::dispatch`]).
fn move_body(m: &mut Module, f: usize) -> Option<Id> {
    let body = m.functions[f].clone();
    let (def, tail) = (m.inst(body.def).clone(), m.inst(*body.tail.last()?).clone());
    let [moved, label] = [m.fresh_id(), m.fresh_id()];
    let def = Inst { result: Some(moved), ..def };
    let (def, tail) = (m.add(def), vec![m.add(tail)]);
    let label = m.add(Inst::new(Op::Label, None, Some(label), []));
    let end = m.add(Inst::new(Op::Return, None, None, []));
    // Debug information says in which function it stands.
    let entry = m.inst(body.def).result;
    for r in body.blocks.iter().flat_map(Block::all) {
        m.inst_mut(r).map_ids(|id| if Some(id) == entry { moved } else { id });
    }
    m.functions[f].blocks = vec![Block { lead: Vec::new(), label, insts: [end].into_iter().collect() }];
    m.functions.push(Function { lead: Vec::new(), def, params: body.params, blocks: body.blocks, tail });
    Some(moved)
}

/// The matrices to check for instructions in loops, one of each type of tiles.
fn checked_in_loops(m: &Module, function: &Function, setting: &Setting<'_>) -> Vec<Mat> {
    let cfg = Cfg::new(m, function);
    let loops = Loops::new(&cfg);
    let in_loops = (0..function.blocks.len()).filter(|n| loops.innermost(*n).is_some());
    let mut checked: Vec<Mat> = Vec::new();
    for mat in in_loops.flat_map(|n| &function.blocks[n].insts).filter_map(|r| setting.to_check(m, m.inst(*r))) {
        if checked.iter().all(|other| other.tile != mat.tile) {
            checked.push(mat);
        }
    }
    checked
}

impl Tiles<'_, '_> {
    fn setting(&self) -> Setting<'_> {
        let (options, analysis) = (self.cx.options, &self.analysis);
        Setting { options, mats: &analysis.mats, size: analysis.size, subgroups: analysis.subgroups }
    }

    /// The matrices whose positions the checks read, with the instruction that a message about them names.
    pub(super) fn checked_mats(&self, m: &Module) -> Vec<(InstRef, Mat)> {
        let of = |v: &Versioned| {
            let at = m.def(v.entry);
            v.checked.iter().filter_map(|mat| Some((at?, *mat))).collect::<Vec<_>>()
        };
        self.versions.entries.iter().flat_map(of).collect()
    }

    /// Takes room for what subgroups tell each other.
    pub(super) fn take_answers(&mut self, m: &mut Module, g: &mut Globals) -> Result<(), Refusal> {
        let (Some(count), Some(first)) = (self.analysis.subgroups, self.versions.entries.first()) else {
            return Ok(());
        };
        let Some(at) = m.def(first.entry).filter(|_| count > 1) else { return Ok(()) };
        let elem = Elem { scalar: Scalar::Int { width: 32, signed: false }, ty: g.uint(m, 32) };
        let layout = Layout::new(elem, (1, count), (1, count), false, 0);
        let region = self.arena.take(at, "the positions of elements", Zone::Workgroup, layout.quads() * QUAD)?;
        self.versions.words = Some(StagingBuffer { layout, region, each: 0 });
        Ok(())
    }

    /// Returns true if a conversion moves elements between tiles that are known to be alike.
    pub(super) fn stays_in_registers(&self, how: &Conversion) -> bool {
        let (from, to) = (how.from, how.to);
        let moves = how.change == Change::None && !how.transposed && !how.clears() && from.elem == to.elem;
        moves && self.is_checked(to.tile) && self.setting().copies(from, to)
    }

    /// Returns true if the lanes that hold the rows of tiles are known, and can reduce them.
    pub(super) fn shuffles_rows(&self, fold: &Fold, what: Combine) -> bool {
        fold.by_row && self.is_checked(fold.from.tile) && self.setting().shuffles(fold.from, fold.to, what)
    }

    /// Returns true if the function that is being changed is called only where a check holds for a type of tiles: a left
    /// factor's are those of accumulators with the same components, or the rows of an accumulator's are in lanes.
    fn is_checked(&self, tile: Id) -> bool {
        let version = self.versions.entries.iter().find(|v| self.function.id == Some(v.versions[0]));
        version.is_some_and(|v| v.checked.iter().any(|mat| mat.tile == tile))
    }

    /// Has an entry point with versions choose between them, behind the iota tables are written. Returns false if it has none.
    pub(super) fn dispatch(&mut self, m: &mut Module, g: &mut Globals, index: usize, iota_tables: Id) -> bool {
        let function = m.functions[index].clone();
        let entry = m.inst(function.def).result;
        let Some(versioned) = self.versions.entries.iter().find(|v| Some(v.entry) == entry) else { return false };
        let (checked, [expected, other]) = (versioned.checked.clone(), versioned.versions);
        let asked: Vec<Id> = checked.into_iter().map(|mat| self.check_function(m, g, mat)).collect();
        let (void, bool) = (g.void(m), g.bool(m));
        m.functions[index].blocks[0].insts.clear();
        let Some(mut b) = FunctionBuilder::rebuild(m, g, &function) else { return false };
        b.ids(Op::FunctionCall, void, &[iota_tables]);
        let answers: Vec<Id> = asked.iter().map(|check| b.ids(Op::FunctionCall, bool, &[*check])).collect();
        let all = answers.into_iter().reduce(|x, y| b.ids(Op::LogicalAnd, bool, &[x, y]));
        let Some(mut holds) = all else { return false };
        if let Some(words) = self.versions.words {
            holds = self.agree(&mut b, words, holds);
        }
        let mut fork = b.fork(holds);
        b.ids(Op::FunctionCall, void, &[expected]);
        b.other(&mut fork);
        b.ids(Op::FunctionCall, void, &[other]);
        b.join(fork);
        b.effect(Op::Return, []);
        m.functions[index].blocks = b.blocks();
        true
    }

    /// True in all invocations of the workgroup if it is true in all subgroups.
    fn agree(&mut self, b: &mut FunctionBuilder<'_>, words: StagingBuffer, holds: Id) -> Id {
        let word = b.u32_type();
        let subgroup = self.subgroup(b);
        let lane = self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId);
        let begin = words.begin(b, &mut self.arena, Index::Const(0));
        let first = b.mul(begin, Index::Const(4));
        let writes = b.compare(Op::IEqual, lane, Index::Const(0));
        let arena = &mut self.arena;
        b.when(writes, &mut |b| {
            let (one, zero) = (b.u32(1), b.u32(0));
            let answer = b.ids(Op::Select, word, &[holds, one, zero]);
            let at = b.add(first, subgroup);
            arena.store_word(b, at, answer);
        });
        self.arena.barrier(b, Zone::Workgroup);
        let mut answers = Vec::new();
        for at in (0..words.layout.length).step_by(words.layout.unit() as usize) {
            let at = b.add(first, Index::Const(at));
            answers.extend(words.load_unit(b, &mut self.arena, at));
        }
        let all = answers.into_iter().reduce(|x, y| b.ids(Op::BitwiseAnd, word, &[x, y]));
        let all = all.unwrap_or_else(|| unreachable!("a workgroup has subgroups"));
        b.compare(Op::IEqual, Index::Value(all), Index::Const(1))
    }

    /// The function that does a check: its result is the same in all invocations of a subgroup.
    fn check_function(&mut self, m: &mut Module, g: &mut Globals, mat: Mat) -> Id {
        type C = Capability;
        for capability in [C::GroupNonUniform, C::GroupNonUniformVote, C::GroupNonUniformShuffle] {
            require_capability(m, capability);
        }
        let bool = g.bool(m);
        let rows = mat.tile_use == Use::Accumulator;
        let label = if rows { "coop_rows_in_lanes" } else { "coop_same_positions" };
        let mut f = FunctionBuilder::new(m, g, &format!("{label}_{}", mat.elem.scalar), bool, &[]);
        let held = if rows { self.rows_in_lanes(&mut f, mat) } else { self.same_positions(&mut f, mat) };
        let scope = f.u32(Scope::Subgroup.0);
        let all = f.ids(Op::GroupNonUniformAll, bool, &[scope, held]);
        f.finish(Some(all))
    }

    /// True in an invocation that holds elements at the same positions.
    fn same_positions(&mut self, f: &mut FunctionBuilder<'_>, to: Mat) -> Id {
        let key = (to.elem.ty, to.tile_rows, to.tile_cols, Use::Accumulator as u32);
        let from = Mat { tile: tile_type(f.module, f.globals, &mut self.tile_types, key), ..to };
        let (bool, word) = (f.globals.bool(f.module), f.u32_type());
        let [places, others] = [from, to].map(|mat| self.positions_in_tile(f, mat));
        let lengths = [from, to].map(|mat| f.ids(Op::CooperativeMatrixLengthKHR, word, &[mat.tile]));
        let held = f.variable(bool);
        let equal = f.ids(Op::IEqual, bool, &lengths);
        f.effect(Op::Store, [held, equal].map(Operand::Id));
        f.when(equal, &mut |f| {
            f.count(Index::Const(0), Index::Value(lengths[0]), Index::Const(1), Unroll::Ask, &mut |f, i| {
                let i = f.index(i);
                for n in 0..2 {
                    let [x, y] = [(from, places[n]), (to, others[n])].map(|(mat, tile)| number_at(f, mat, tile, i));
                    require(f, held, x, y);
                }
            });
        });
        f.ids(Op::Load, bool, &[held])
    }

    /// True in an invocation that holds the expected elements of each of its rows.
    fn rows_in_lanes(&mut self, f: &mut FunctionBuilder<'_>, mat: Mat) -> Id {
        let (bool, word) = (f.globals.bool(f.module), f.u32_type());
        let [rows, cols] = self.positions_in_tile(f, mat);
        let length = f.ids(Op::CooperativeMatrixLengthKHR, word, &[mat.tile]);
        let held = f.variable(bool);
        let expected = f.compare(Op::IEqual, Index::Value(length), Index::Const(LENGTH));
        f.effect(Op::Store, [held, expected].map(Operand::Id));
        f.when(expected, &mut |f| {
            let one = f.u32(1);
            for elements in ROWS {
                let (first, mut columns) = (f.u32(elements[0]), f.u32(0));
                let row = number_at(f, mat, rows, first);
                // Columns of the row are bits.
                for i in elements {
                    let i = f.u32(i);
                    let [other, column] = [rows, cols].map(|tile| number_at(f, mat, tile, i));
                    require(f, held, row, other);
                    let bit = f.ids(Op::ShiftLeftLogical, word, &[one, column]);
                    columns = f.ids(Op::BitwiseOr, word, &[columns, bit]);
                }
                for lanes in ROW_LANES {
                    let [other, more] = [row, columns].map(|value| shuffle(f, word, value, lanes));
                    require(f, held, row, other);
                    columns = f.ids(Op::BitwiseOr, word, &[columns, more]);
                }
                let all = f.u32((1 << EXTENT) - 1);
                require(f, held, columns, all);
            }
        });
        f.ids(Op::Load, bool, &[held])
    }

    /// Variables that hold the numbers of the rows and of the columns of a tile's elements.
    fn positions_in_tile(&mut self, f: &mut FunctionBuilder<'_>, mat: Mat) -> [Id; 2] {
        let table = self.iota_tables.iter().find(|s| s.layout.elem == mat.elem).copied();
        let table = table.unwrap_or_else(|| unreachable!("an answer is given where there are tables"));
        [true, false].map(|down| {
            let tile = self.iota_tile(f, table, mat, down);
            let variable = f.variable(mat.tile);
            f.effect(Op::Store, [variable, tile].map(Operand::Id));
            variable
        })
    }
}

/// The number in an element of a variable.
fn number_at(f: &mut FunctionBuilder<'_>, mat: Mat, variable: Id, i: Id) -> Id {
    let pointer = f.globals.pointer(f.module, StorageClass::Function, mat.elem.ty);
    let place = f.ids(Op::AccessChain, pointer, &[variable, i]);
    let value = f.ids(Op::Load, mat.elem.ty, &[place]);
    as_word(f, mat.elem, value)
}

/// Makes a variable false if two numbers differ.
fn require(f: &mut FunctionBuilder<'_>, held: Id, x: Id, y: Id) {
    let bool = f.globals.bool(f.module);
    let so_far = f.ids(Op::Load, bool, &[held]);
    let holds = f.ids(Op::IEqual, bool, &[x, y]);
    let both = f.ids(Op::LogicalAnd, bool, &[so_far, holds]);
    f.effect(Op::Store, [held, both].map(Operand::Id));
}

/// The value of the lane whose number differs in these bits.
fn shuffle(b: &mut FunctionBuilder<'_>, ty: Id, value: Id, lanes: u32) -> Id {
    let (scope, lanes) = (b.u32(Scope::Subgroup.0), b.u32(lanes));
    b.ids(Op::GroupNonUniformShuffleXor, ty, &[scope, value, lanes])
}

/// A tile with the elements of another one, each at its index.
pub(super) fn copy(b: &mut FunctionBuilder<'_>, from: Mat, to: Mat, tile: Id) -> Id {
    let null = b.globals.null(b.module, to.tile);
    let [source, target] = [(from.tile, tile), (to.tile, null)].map(|(ty, tile)| {
        let variable = b.variable(ty);
        b.effect(Op::Store, [variable, tile].map(Operand::Id));
        variable
    });
    let word = b.u32_type();
    let length = b.ids(Op::CooperativeMatrixLengthKHR, word, &[to.tile]);
    let elem = to.elem.ty;
    let pointer = b.globals.pointer(b.module, StorageClass::Function, elem);
    b.count(Index::Const(0), Index::Value(length), Index::Const(1), Unroll::Ask, &mut |b, i| {
        let i = b.index(i);
        let [read, written] = [source, target].map(|v| b.ids(Op::AccessChain, pointer, &[v, i]));
        let value = b.ids(Op::Load, elem, &[read]);
        b.effect(Op::Store, [written, value].map(Operand::Id));
    });
    b.op(Op::Load, to.tile, [target.into()])
}

/// A tile whose rows hold what their elements are reduced to.
pub(super) fn shuffle_rows(b: &mut FunctionBuilder<'_>, fold: &Fold, tile: Id) -> Id {
    let elem = fold.from.elem.ty;
    let variable = b.variable(fold.from.tile);
    b.effect(Op::Store, [variable, tile].map(Operand::Id));
    let pointer = b.globals.pointer(b.module, StorageClass::Function, elem);
    for row in ROWS {
        let places = row.map(|i| {
            let i = b.u32(i);
            b.ids(Op::AccessChain, pointer, &[variable, i])
        });
        let [first, rest @ ..] = places.map(|place| b.ids(Op::Load, elem, &[place]));
        let combine = |b: &mut FunctionBuilder<'_>, x: Id, y: Id| b.ids(Op::FunctionCall, elem, &[fold.function, x, y]);
        let mut value = rest.into_iter().fold(first, |x, y| combine(b, x, y));
        for lanes in ROW_LANES {
            let other = shuffle(b, elem, value, lanes);
            value = combine(b, value, other);
        }
        for place in places {
            b.effect(Op::Store, [place, value].map(Operand::Id));
        }
    }
    b.op(Op::Load, fold.from.tile, [variable.into()])
}
