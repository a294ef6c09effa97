//! Built-in inputs: the uniformity of each, and its name in findings.

use super::shape::{Grid, Shape};
use super::{Assumptions, Uniformity};
use coop_ir::decorate::Decorations;
use coop_ir::spv::{BuiltIn, Decoration};
use coop_ir::types::{Scalar, Type, scalar};
use coop_ir::{Id, Module};
use std::ops::Range;

/// Returns the BuiltIn of an input's component, and the component of that. The components of a block are counted
/// through its members.
pub(super) fn which(
    module: &Module,
    decorations: &Decorations,
    variable: Id,
    component: u32,
) -> Option<(BuiltIn, u32)> {
    if let Some(number) = decorations.built_in(variable) {
        return Some((number, component));
    }
    let mut members = block(module, decorations, variable)?;
    let (number, range) = members.find(|(_, range)| range.contains(&component))?;
    Some((number?, component - range.start))
}

/// Returns all built-ins of an input; `None` if a part of it is something else.
pub(super) fn all(module: &Module, decorations: &Decorations, variable: Id) -> Option<Vec<(BuiltIn, u32)>> {
    if let Some(number) = decorations.built_in(variable) {
        return Some((0..3).map(|c| (number, c)).collect());
    }
    let mut found = Vec::new();
    for (number, range) in block(module, decorations, variable)? {
        let number = number?;
        found.extend((0..range.len() as u32).map(|c| (number, c)));
    }
    Some(found)
}

/// Returns the members of a block with their BuiltIns and numbers of components, as the analysis counts leaves. The
/// list ends at the first member for which these are not known.
fn block<'a>(
    module: &'a Module,
    decorations: &'a Decorations,
    variable: Id,
) -> Option<impl Iterator<Item = (Option<BuiltIn>, Range<u32>)> + 'a> {
    let Some(Type::Pointer { pointee, .. }) = Type::of(module, module.type_of(variable)?) else { return None };
    let Some(Type::Struct { members }) = Type::of(module, pointee) else { return None };
    let mut end = 0;
    Some(members.into_iter().enumerate().map(move |(i, ty)| {
        let len = match Type::of(module, ty) {
            Some(Type::Scalar(_) | Type::Bool) => Some(1),
            Some(Type::Vector { elem, len }) => matches!(scalar(module, elem), Some(Scalar::Int { .. })).then_some(len),
            _ => None,
        };
        let start = end;
        end = len.map_or(u32::MAX, |len| end.saturating_add(len));
        let number = len.and_then(|_| decorations.member_value(pointee, i as u32, Decoration::BuiltIn).map(BuiltIn));
        (number, start..end)
    }))
}

/// The uniformity and shape of a built-in.
pub(super) struct Source {
    pub(super) uniformity: Uniformity,
    pub(super) shape: Shape,
    /// The assumptions of the shape.
    pub(super) assumes: Assumptions,
}

/// Returns the uniformity and shape of a component of a built-in.
pub(super) fn built_in(grid: &Grid, number: BuiltIn, component: u32) -> Source {
    use Uniformity::{Divergent, Subgroup, Workgroup};
    let plain = |uniformity| Source { uniformity, shape: Shape::Unknown, assumes: Assumptions::NONE };
    let known = |uniformity, shape, assumes| match shape {
        // A constant, so it does not differ.
        Shape::Const(_) => Source { uniformity: Workgroup, shape, assumes },
        shape => Source { uniformity, shape, assumes },
    };
    let exact = Assumptions::NONE;
    let subgroup = grid.subgroup;
    let places = grid.subgroups();
    let size = |axis: u32| grid.size.and_then(|s| s.get(axis as usize).copied());
    match number {
        BuiltIn::WorkgroupSize => match size(component) {
            Some(n) => known(Workgroup, Shape::Const(u64::from(n)), exact),
            None => plain(Workgroup),
        },
        BuiltIn::NumWorkgroups
        | BuiltIn::WorkgroupId
        | BuiltIn::EnqueuedWorkgroupSize
        | BuiltIn::GlobalSize
        | BuiltIn::GlobalOffset
        | BuiltIn::WorkDim
        | BuiltIn::SubgroupMaxSize
        | BuiltIn::NumEnqueuedSubgroups
        | BuiltIn::DeviceIndex
        | BuiltIn::ViewIndex => plain(Workgroup),
        BuiltIn::SubgroupSize => {
            // The last subgroup of a kernel reports its own size.
            let whole = grid.size.is_some() && grid.lanes.is_multiple_of(subgroup);
            let assumes = match grid.kernel {
                true => places,
                false if grid.assumed => Assumptions::SIZE,
                false => exact,
            };
            match grid.kernel && !whole {
                true => plain(Subgroup),
                false => Source { uniformity: Workgroup, shape: Shape::Const(subgroup as u64), assumes },
            }
        }
        BuiltIn::NumSubgroups => match grid.size {
            Some(_) => Source {
                uniformity: Workgroup,
                shape: Shape::Const(grid.lanes.div_ceil(subgroup) as u64),
                assumes: places,
            },
            None => plain(Workgroup),
        },
        BuiltIn::SubgroupId if grid.size.is_some() => known(Subgroup, grid.vector(|l| (l / subgroup) as u32), places),
        BuiltIn::SubgroupId => plain(Subgroup),
        BuiltIn::SubgroupLocalInvocationId => known(Divergent, grid.vector(|l| (l % subgroup) as u32), places),
        BuiltIn::LocalInvocationIndex if grid.size.is_some() => known(Divergent, grid.vector(|l| l as u32), exact),
        BuiltIn::LocalInvocationIndex => {
            let lanes = (0..subgroup as u32).collect();
            let shape = Shape::Offset { lanes, align: power_of_two(subgroup as u32), base: Subgroup };
            Source { uniformity: Divergent, shape, assumes: places }
        }
        BuiltIn::LocalInvocationId => match local_id(grid, component) {
            Some(shape) => known(Divergent, shape, exact),
            None => plain(Divergent),
        },
        BuiltIn::GlobalInvocationId => match (local_id(grid, component), size(component)) {
            (Some(Shape::Lanes(lanes)), Some(n)) => {
                // Nothing is known about the offset of a kernel.
                let align = if grid.kernel { 1 } else { power_of_two(n) };
                let shape = Shape::Offset { lanes, align, base: Workgroup };
                Source { uniformity: Divergent, shape, assumes: exact }
            }
            // The workgroup has one invocation along this axis.
            (Some(_), _) => plain(Workgroup),
            (None, _) => plain(Divergent),
        },
        _ => plain(Divergent),
    }
}

/// Returns the highest power of two that divides a number.
fn power_of_two(n: u32) -> u32 {
    if n == 0 { 1 } else { 1 << n.trailing_zeros() }
}

fn local_id(grid: &Grid, axis: u32) -> Option<Shape> {
    let [x, y, z] = grid.size?.map(|n| n as usize);
    Some(match axis {
        0 => grid.vector(|l| (l % x) as u32),
        1 => grid.vector(|l| (l / x % y) as u32),
        2 => grid.vector(|l| (l / (x * y) % z) as u32),
        _ => return None,
    })
}
