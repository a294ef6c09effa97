//! Chooses the tiles that matrices of the module are split into, and the subgroups that hold them.
//!
//! A matrix is split into *tiles*, each a matrix of the device: all of one shape, in a grid that begins at row 0 and
//! column 0. The subgroups of its scope are a grid too ([`ThreadGrid`], one for all matrices of a scope): A is split by rows
//! of tiles among grid rows, B by columns of tiles among grid columns, C by both, as [`crate::matrix::placement`] says with
//! "lane" read as "subgroup" and "element" as "tile".
//!
//! Matrices that are loaded, converted or stored and never multiplied need no tiles of their own use: if the device has none (f32 as a
//! factor, s8 as a sum), tiles of another use hold them. What goes to tiles of the right use is then converted, through shared memory.
//!
//! # Invariants
//!
//! 1. The tiles of the operands of a MulAdd are one row of the profile's list, so rows of A's tiles are rows of C's,
//!    and so on. If the input is well formed, the axis splits of the operands agree too.
//! 2. Element `e` of a matrix, as an invocation counts them, is element `e / tiles` of tile `e % tiles`: so a constant
//!    index is a constant tile, whatever the device's number of elements is.
//! 3. What a tile holds beyond the last row or column is anything in C. In A and B it is zero beyond the end of K, where
//!    a product reads it; what may be otherwise is known ([`super::padding`]), and cleared before. All of a tile may be
//!    beyond, where there are more subgroups than rows or columns of tiles.

use crate::Refusal;
use crate::matrix::arena::Elem;
use crate::matrix::logical::Logical;
use crate::matrix::placement::{Placement, Shape, ThreadGrid, Use, choose};
use coop_device::{ComponentType, MatrixProperties, Profile, Scope};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::CooperativeMatrixOperands as Bits;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// A matrix type of the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mat {
    /// Its id, which will be that of an array of tiles.
    pub(super) ty: Id,
    pub(super) elem: Elem,
    pub(super) shape: Shape,
    pub(super) workgroup: bool,
    /// The type of a tile; the matrix's own where that needs no change.
    pub(super) tile: Id,
    /// The use of a tile's type: the matrix's own, but where the device has none of that ([`tile_use`]).
    pub(super) tile_use: Use,
    /// Rows and columns of a tile.
    pub(super) tile_rows: u32,
    pub(super) tile_cols: u32,
    /// The subgroups of the scope that hold each tile: its rows and columns count tiles.
    pub(super) placement: Placement,
}

impl Mat {
    /// The number of tiles that a subgroup holds.
    pub(super) fn tiles(&self) -> u32 {
        self.placement.len()
    }

    /// The number of rows of tiles that a subgroup holds.
    pub(super) fn rows(&self) -> u32 {
        self.placement.rows.per_group
    }

    /// The number of columns of tiles that a subgroup holds.
    pub(super) fn cols(&self) -> u32 {
        self.placement.cols.per_group
    }

    /// Returns true if the type stays what it is.
    pub(super) fn is_kept(&self) -> bool {
        self.tile == self.ty
    }

    /// The index of the tile in row `i` and column `j` of those held.
    pub(super) fn at(&self, i: u32, j: u32) -> usize {
        (i * self.cols() + j) as usize
    }

    /// Groups of subgroups among which rows and columns of tiles are divided.
    pub(super) fn groups(&self) -> (u32, u32) {
        self.placement.groups()
    }

    /// Rows and columns of elements that all tiles together cover.
    pub(super) fn covered(&self) -> (u32, u32) {
        let (row_groups, col_groups) = self.groups();
        (self.rows() * self.tile_rows * row_groups, self.cols() * self.tile_cols * col_groups)
    }

    /// The name in the names of functions.
    pub(super) fn label(&self) -> String {
        self.name().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    }

    /// Returns true if tiles hold something beyond the last row or column (whole tiles beyond are not meant).
    pub(super) fn has_partial_tiles(&self) -> bool {
        !self.shape.rows.is_multiple_of(self.tile_rows) || !self.shape.cols.is_multiple_of(self.tile_cols)
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        let use_ = types::use_name(self.shape.use_ as u64).unwrap_or("?");
        format!("{} {}x{} {use_}", self.elem.scalar, self.shape.rows, self.shape.cols)
    }
}

/// Returns true if the profile has a product of these types, of whatever sizes: A, B, C and the result.
pub(super) fn multiplies(profile: &Profile, scalars: [Scalar; 4]) -> bool {
    let mut rows = profile.khr_properties.iter().filter(|p| p.scope == Scope::Subgroup && !p.saturating);
    rows.any(|p| has_types(p, scalars, None))
}

/// Returns true if a row of the list has these types. Where there are operand bits they say which integers have a sign.
fn has_types(p: &MatrixProperties, scalars: [Scalar; 4], bits: Option<Bits>) -> bool {
    let signs = [
        Bits::MatrixASignedComponentsKHR,
        Bits::MatrixBSignedComponentsKHR,
        Bits::MatrixCSignedComponentsKHR,
        Bits::MatrixResultSignedComponentsKHR,
    ];
    let mut all = [p.a, p.b, p.c, p.result].into_iter().zip(scalars).zip(signs);
    all.all(|((component, scalar), sign)| is(component, scalar, bits.map(|bits| bits.contains(sign))))
}

/// Returns the operand bits of a product with the signs of sums that the device has. Where nothing saturates, sums of as many
/// bits as C have the same ones, whatever their sign.
fn with_signs_of_device(profile: &Profile, scalars: [Scalar; 4], bits: Bits) -> Bits {
    let [_, _, c, result] = scalars;
    if !result.is_int() || c.width() != result.width() || bits.contains(Bits::SaturatingAccumulationKHR) {
        return bits;
    }
    let sums = Bits::MatrixCSignedComponentsKHR | Bits::MatrixResultSignedComponentsKHR;
    let listed = |bits: &Bits| {
        profile.khr_properties.iter().filter(is_usable).any(|p| !p.saturating && has_types(p, scalars, Some(*bits)))
    };
    [bits, bits | sums, bits - sums].into_iter().find(listed).unwrap_or(bits)
}

/// Returns true if a row of the list is for subgroups, and tiles of all its matrices can be staged.
fn is_usable(p: &&MatrixProperties) -> bool {
    let tiles = [(p.m, p.k, p.a), (p.k, p.n, p.b), (p.m, p.n, p.c), (p.m, p.n, p.result)];
    p.scope == Scope::Subgroup
        && tiles.iter().all(|(rows, cols, ty)| ty.bits().is_none_or(|bits| are_words((*rows, *cols), bits)))
}

/// Returns true if rows and columns of a tile are whole words, which is what shared memory is written in. Lines of a staging
/// buffer are either.
fn are_words((rows, cols): (u32, u32), bits: u32) -> bool {
    [rows, cols].iter().all(|extent| (extent * bits).is_multiple_of(32))
}

/// Returns true if a component type of the profile is this one. The operand bits of a MulAdd decide whether integers
/// have a sign; where there is none, either will do.
fn is(component: ComponentType, scalar: Scalar, signed: Option<bool>) -> bool {
    match scalar {
        Scalar::Int { width, .. } => {
            let sign = match signed {
                Some(true) => component.is_signed_integer(),
                Some(false) => component.is_unsigned_integer(),
                None => component.is_integer(),
            };
            let packed = matches!(component, ComponentType::S8Packed | ComponentType::U8Packed);
            sign && !packed && component.bits() == Some(width)
        }
        Scalar::Float { width: 16 } => component == ComponentType::F16,
        Scalar::Float { width: 32 } => component == ComponentType::F32,
        Scalar::Float { width: 64 } => component == ComponentType::F64,
        Scalar::BF16 => component == ComponentType::Bf16,
        Scalar::E4M3 => component == ComponentType::E4m3,
        Scalar::E5M2 => component == ComponentType::E5m2,
        _ => false,
    }
}

/// The types of a MulAdd: A, B, C and the result, with the operand bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Product {
    at: InstRef,
    types: [Id; 4],
    bits: u32,
}

/// Rows and columns of a tile, by matrix type.
pub(super) type Shapes = FxHashMap<Id, (u32, u32)>;

/// The input of the choice of tiles.
pub(super) struct Choice<'a> {
    profile: &'a Profile,
    by_id: FxHashMap<Id, Logical>,
    products: Vec<Product>,
    /// Types that occur together in an instruction that works tile by tile.
    partners: Vec<(Id, Id)>,
    /// The steps that are left to the search.
    steps: u32,
}

impl<'a> Choice<'a> {
    /// Gives sums the signs that those of the device have.
    pub(super) fn new(m: &mut Module, profile: &'a Profile, mats: &[Logical], same: &[(Id, Id)]) -> Choice<'a> {
        let by_id: FxHashMap<Id, Logical> = mats.iter().map(|l| (l.ty.id, *l)).collect();
        let mut products: Vec<Product> = Vec::new();
        for r in m.all().filter(|r| m.inst(*r).op == Op::CooperativeMatrixMulAddKHR).collect::<Vec<_>>() {
            let i = m.inst(r);
            let operands: Vec<Id> = i.ids().take(3).filter_map(|id| m.type_of(id)).chain(i.ty).collect();
            let Ok(types) = <[Id; 4]>::try_from(operands) else { continue };
            if !types.iter().all(|t| by_id.contains_key(t)) {
                continue;
            }
            let asked = i.matrix_operands();
            let bits = with_signs_of_device(profile, types.map(|t| by_id[&t].scalar), asked);
            if bits != asked {
                let operands = &mut m.inst_mut(r).operands;
                operands.truncate(3);
                operands.push(Operand::Word(bits.0));
            }
            let bits = (bits - Bits::SaturatingAccumulationKHR).0;
            if !products.iter().any(|p| p.types == types && p.bits == bits) {
                products.push(Product { at: r, types, bits });
            }
        }
        Choice { profile, by_id, products, partners: same.to_vec(), steps: 20_000 }
    }

    /// The rows of the list whose tiles can be staged.
    fn rows(&self) -> impl Iterator<Item = &'a MatrixProperties> {
        self.profile.khr_properties.iter().filter(is_usable)
    }

    /// The rows of the list that a product can use, best first.
    fn candidates(&self, product: &Product) -> Result<Vec<&'a MatrixProperties>, Refusal> {
        let [a, b, c, d] = product.types.map(|t| self.by_id[&t]);
        let scalars = [a, b, c, d].map(|l| l.scalar);
        let listed = |p: &&MatrixProperties| !p.saturating && has_types(p, scalars, Some(Bits(product.bits)));
        let mut rows: Vec<&MatrixProperties> = self.rows().filter(listed).collect();
        if rows.is_empty() && d.scalar.is_float() {
            // Sums in f32 will do, where the device has accumulators of the asked type to hold them between products.
            let f32 = Scalar::Float { width: 32 };
            let types = [a.scalar, b.scalar, f32, f32];
            let held =
                |p: &MatrixProperties| [c, d].map(|l| has_tile(self.profile, l.scalar, Use::Accumulator, (p.m, p.n)));
            let fits = |p: &&MatrixProperties| has_types(p, types, None) && held(p) == [true; 2];
            rows = self.rows().filter(fits).collect();
        }
        if rows.is_empty() {
            let why = format!(
                "{} has no matrices that multiply {} by {} into {} (C of {})",
                device(self.profile),
                a.scalar,
                b.scalar,
                d.scalar,
                c.scalar
            );
            let remedy = "lower to scalar code (--target scalar, or auto), or use types that the device has";
            return Err(Refusal::new("refused-device-types", Some(product.at), why, remedy));
        }
        let (m, n, k) = (d.shape.rows, d.shape.cols, a.shape.cols);
        rows.sort_by_key(|p| {
            let padded = |extent: u32, tile: u32| u64::from(extent.next_multiple_of(tile.max(1)));
            let volume = padded(m, p.m) * padded(n, p.n) * padded(k, p.k);
            (volume, u64::MAX - u64::from(p.m) * u64::from(p.n) * u64::from(p.k))
        });
        Ok(rows)
    }

    /// A tile for every type.
    pub(super) fn solve(&mut self) -> Result<Shapes, Refusal> {
        let mut all = Vec::new();
        for product in &self.products {
            all.push((product.types, self.candidates(product)?));
        }
        // Those with the least choice first.
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|i| all[*i].1.len());
        let mut shapes = Shapes::default();
        if !self.search(&all, &order, &mut shapes) {
            let why = format!("no choice of matrices of {} serves all products of the module", device(self.profile));
            let remedy = "lower to scalar code (--target scalar, or auto)";
            return Err(Refusal::new("refused-device-types", self.products.first().map(|p| p.at), why, remedy));
        }
        self.choose_remaining(&mut shapes)?;
        Ok(shapes)
    }

    fn search(&mut self, all: &[([Id; 4], Vec<&'a MatrixProperties>)], order: &[usize], shapes: &mut Shapes) -> bool {
        let Some((first, rest)) = order.split_first() else { return true };
        let (types, rows) = &all[*first];
        for p in rows {
            if self.steps == 0 {
                return false;
            }
            self.steps -= 1;
            let wanted = [(p.m, p.k), (p.k, p.n), (p.m, p.n), (p.m, p.n)];
            if types.iter().zip(wanted).any(|(t, w)| shapes.get(t).is_some_and(|s| *s != w)) {
                continue;
            }
            let mut next = shapes.clone();
            next.extend(types.iter().copied().zip(wanted));
            if self.search(all, rest, &mut next) {
                *shapes = next;
                return true;
            }
        }
        false
    }

    /// Types that no product decides: like those that they occur together with, else the best of the list.
    fn choose_remaining(&self, shapes: &mut Shapes) -> Result<(), Refusal> {
        let mut open: Vec<Id> = self.by_id.keys().copied().filter(|t| !shapes.contains_key(t)).collect();
        open.sort_unstable();
        while !open.is_empty() {
            let partner = |t: &Id| {
                self.partners.iter().find_map(|(a, b)| {
                    let other = if a == t { b } else { a };
                    (a == t || b == t).then(|| shapes.get(other).copied()).flatten()
                })
            };
            let decided = open.iter().enumerate().find_map(|(n, t)| Some((n, partner(t)?)));
            let (n, wanted) = decided.map_or((0, None), |(n, shape)| (n, Some(shape)));
            let ty = open.remove(n);
            let mut choices = self.tiles(self.by_id[&ty])?;
            if let Some(at) = choices.iter().position(|c| Some(*c) == wanted) {
                choices.swap(0, at);
            }
            shapes.insert(ty, choices[0]);
        }
        Ok(())
    }

    /// The tiles that the device has for a type, best first; at least one.
    fn tiles(&self, of: Logical) -> Result<Vec<(u32, u32)>, Refusal> {
        let mut tiles = tiles_as(self.profile, of.scalar, tile_use(self.profile, of.scalar, of.shape.use_));
        if tiles.is_empty() {
            let use_ = types::use_name(of.shape.use_ as u64).unwrap_or("?");
            let why = format!("{} has no matrices of {} for {use_}", device(self.profile), of.scalar);
            let remedy = "lower to scalar code (--target scalar, or auto), or use types that the device has";
            return Err(Refusal::new("refused-device-types", Some(of.at), why, remedy));
        }
        tiles.sort_by_key(|(r, c)| {
            let padded = u64::from(of.shape.rows.next_multiple_of(*r)) * u64::from(of.shape.cols.next_multiple_of(*c));
            (padded, u64::MAX - u64::from(*r) * u64::from(*c))
        });
        tiles.dedup();
        Ok(tiles)
    }
}

/// The use of the tiles that hold matrices of a use: that, or another one where the device has no matrices of that.
pub(super) fn tile_use(profile: &Profile, scalar: Scalar, use_: Use) -> Use {
    let uses = [use_, Use::Accumulator, Use::A, Use::B];
    uses.into_iter().find(|u| !tiles_as(profile, scalar, *u).is_empty()).unwrap_or(use_)
}

/// The tiles that the device has for a component type and a use.
fn tiles_as(profile: &Profile, scalar: Scalar, use_: Use) -> Vec<(u32, u32)> {
    let fits = |p: &MatrixProperties| match use_ {
        Use::A => is(p.a, scalar, None).then_some((p.m, p.k)),
        Use::B => is(p.b, scalar, None).then_some((p.k, p.n)),
        Use::Accumulator => (is(p.c, scalar, None) || is(p.result, scalar, None)).then_some((p.m, p.n)),
    };
    let all = profile.khr_properties.iter().chain(&profile.held_properties);
    let tiles = all.filter(is_usable).filter_map(fits);
    tiles.filter(|tile| are_words(*tile, scalar.width())).collect()
}

/// Returns true if the device multiplies tiles like these.
pub(super) fn has_product(profile: &Profile, mats: [Mat; 4]) -> bool {
    products(profile, mats, None).next().is_some()
}

/// The device's products of tiles like these of A, B, C and the result, with the signs of operand bits if there are any.
pub(super) fn products(
    profile: &Profile,
    mats: [Mat; 4],
    bits: Option<Bits>,
) -> impl Iterator<Item = &MatrixProperties> {
    let [a, _, _, d] = mats;
    profile.khr_properties.iter().filter(move |p| {
        p.scope == Scope::Subgroup
            && has_types(p, mats.map(|m| m.elem.scalar), bits)
            && (p.m, p.n, p.k) == (d.tile_rows, d.tile_cols, a.tile_cols)
    })
}

/// Returns true if the device has a tile, and it can be staged.
pub(super) fn has_tile(profile: &Profile, scalar: Scalar, use_: Use, tile: (u32, u32)) -> bool {
    let all = profile.khr_properties.iter().chain(&profile.held_properties);
    let staged = are_words(tile, scalar.width());
    staged
        && all.filter(|p| p.scope == Scope::Subgroup).any(|p| match use_ {
            Use::A => is(p.a, scalar, None) && (p.m, p.k) == tile,
            Use::B => is(p.b, scalar, None) && (p.k, p.n) == tile,
            Use::Accumulator => (is(p.c, scalar, None) || is(p.result, scalar, None)) && (p.m, p.n) == tile,
        })
}

/// The grid of `subgroups` subgroups of a scope's matrices.
///
/// With `rows`, rows are best held by one subgroup each.
pub(super) fn grid(subgroups: u32, mats: &[Logical], shapes: &Shapes, rows: bool) -> ThreadGrid {
    let in_tiles: Vec<Shape> = mats
        .iter()
        .filter_map(|l| {
            let (r, c) = *shapes.get(&l.ty.id)?;
            let Shape { rows, cols, use_ } = l.shape;
            Some(Shape { rows: rows.div_ceil(r), cols: cols.div_ceil(c), use_ })
        })
        .collect();
    let grid = choose(subgroups, &in_tiles, &[]);
    // As long as nobody has more of the sums to compute.
    let sums = |grid: ThreadGrid| -> u64 {
        let sums = in_tiles.iter().filter(|s| s.use_ == Use::Accumulator);
        sums.map(|s| u64::from(grid.placement(*s).len())).sum()
    };
    if rows {
        let grids = (1..=subgroups).filter(|cols| subgroups.is_multiple_of(*cols));
        let grids: Vec<ThreadGrid> = grids.map(|cols| ThreadGrid::new(subgroups / cols, cols)).collect();
        let least = grids.iter().map(|g| sums(*g)).min();
        if let Some(grid) = grids.into_iter().find(|g| Some(sums(*g)) == least) {
            return grid;
        }
    }
    // Of two that hold as much, the one that reads longer pieces of columns: fewer rows of subgroups.
    let transposed = ThreadGrid::new(grid.cols, grid.rows);
    let held = |grid: ThreadGrid| in_tiles.iter().map(|s| u64::from(grid.placement(*s).len())).sum::<u64>();
    if transposed.rows < grid.rows && held(transposed) <= held(grid) { transposed } else { grid }
}

/// The name of the device in messages.
fn device(profile: &Profile) -> &str {
    if profile.name.is_empty() { &profile.device } else { &profile.name }
}
