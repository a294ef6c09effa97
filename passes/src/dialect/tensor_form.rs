//! Rewrites loads and stores with a memory layout that KHR does not have, or with offsets and bounds, into tensor loads
//! and stores (SPV_NV_tensor_addressing), which both lowerings of matrices implement.
//!
//! The row-major index of an element is written as digits of a mixed radix; each digit has a stride in memory, in
//! elements. That is a tensor layout with a dimension for each digit. Where bounds concern two digits together, the
//! layout has one dimension for both, and a view permutes the digits into their order in memory.

use super::rewriter::{Rewriter, Shape};
use crate::kernel::is_kernel;
use crate::{Checked, Refusal, malformed};
use coop_ir::spv::{CooperativeMatrixLayout, TensorClampMode};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// Memory layouts, by enumerant.
const ROW_MAJOR: u64 = CooperativeMatrixLayout::RowMajorKHR.0 as u64;
pub(super) const COLUMN_MAJOR: u64 = CooperativeMatrixLayout::ColumnMajorKHR.0 as u64;
pub(super) const PACKED: u64 = CooperativeMatrixLayout::PackedINTEL.0 as u64;
const ARM_ROW_BLOCKED: u64 = CooperativeMatrixLayout::RowBlockedInterleavedARM.0 as u64;
const ARM_COLUMN_BLOCKED: u64 = CooperativeMatrixLayout::ColumnBlockedInterleavedARM.0 as u64;

/// Clamp modes of tensor layouts.
const UNDEFINED: u32 = TensorClampMode::Undefined.0;
const CONSTANT: u32 = TensorClampMode::Constant.0;

/// The operands of an access.
pub(super) struct Access {
    pub(super) store: bool,
    pub(super) pointer: Id,
    pub(super) object: Option<Id>,
    pub(super) layout: Id,
    pub(super) stride: Option<Id>,
    pub(super) memory: Vec<Operand>,
    /// The offsets into the surface: lines, and elements of a line.
    pub(super) offset: Option<[Id; 2]>,
    /// The bounds: lines, and elements of a line.
    pub(super) bound: Option<[Id; 2]>,
}

/// A digit of an element's index, or several that are clamped together.
#[derive(Clone, Copy)]
struct Digit {
    span: u32,
    stride: Id,
    offset: Id,
    extent: Id,
}

/// The layout of the elements in memory.
struct MemoryLayout {
    clamp: u32,
    digits: Vec<Digit>,
    /// The sizes of the dimensions of a view, and the permutation that maps them to digits of the element's index.
    view: Option<([u32; 3], [u32; 3])>,
}

/// Rewrites an access into a tensor access, unless KHR supports it as it is.
pub(super) fn access(e: &mut Rewriter<'_>, r: InstRef, checked: Checked) -> Result<bool, Refusal> {
    tensor_access(e, r, checked, false)
}

/// Rewrites an access into a tensor access in any case.
pub(super) fn as_tensor(e: &mut Rewriter<'_>, r: InstRef, checked: Checked) -> Result<bool, Refusal> {
    tensor_access(e, r, checked, true)
}

fn tensor_access(e: &mut Rewriter<'_>, r: InstRef, checked: Checked, always: bool) -> Result<bool, Refusal> {
    let inst = e.m.inst(r).clone();
    let Some(access) = Access::of(&inst) else { return malformed(r, "the operands don't fit the instruction") };
    let shape = match access.object {
        Some(object) => e.shape(r, object)?,
        None => e.shape_of_type(r, inst.ty)?,
    };
    let refuse = |why: String| {
        let remedy =
            "use a layout of SPV_KHR_cooperative_matrix, SPV_INTEL_joint_matrix or SPV_ARM_cooperative_matrix_layouts";
        Err(Refusal::new("refused-layout", Some(r), why, remedy))
    };
    let Some(layout) = e.known(access.layout) else {
        return refuse("the memory layout is not a known constant".to_owned());
    };
    let plain = access.offset.is_none() && matches!(layout, ROW_MAJOR | COLUMN_MAJOR);
    if plain && !always && !counts_components(e, &access, shape) {
        return Ok(false);
    }
    let placed = match layout {
        ARM_ROW_BLOCKED | ARM_COLUMN_BLOCKED => blocked(e, r, &access, shape, layout)?,
        ROW_MAJOR | COLUMN_MAJOR | PACKED => lines(e, r, &access, shape, layout, checked)?,
        _ => return refuse(format!("no lowering of memory layout {layout} is known")),
    };
    emit(e, r, &access, shape, &placed);
    Ok(true)
}

impl Access {
    pub(super) fn of(inst: &Inst) -> Option<Access> {
        use Op as O;
        let (store, offset, bound, object, layout) = match inst.op {
            O::CooperativeMatrixLoadKHR => (false, None, None, None, 1),
            O::CooperativeMatrixStoreKHR => (true, None, None, Some(1), 2),
            O::CooperativeMatrixLoadCheckedINTEL => (false, Some(1), Some(4), None, 3),
            O::CooperativeMatrixStoreCheckedINTEL => (true, Some(1), Some(5), Some(3), 4),
            O::CooperativeMatrixLoadOffsetINTEL => (false, Some(1), None, None, 3),
            O::CooperativeMatrixStoreOffsetINTEL => (true, Some(1), None, Some(3), 4),
            _ => return None,
        };
        let pair = |at: Option<usize>| match at {
            None => Some(None),
            Some(at) => Some(Some([inst.id(at)?, inst.id(at + 1)?])),
        };
        let stride_at = bound.map_or(layout + 1, |at| at + 2);
        let stride = inst.id(stride_at);
        let rest = stride_at + usize::from(stride.is_some());
        Some(Access {
            store,
            pointer: inst.id(0)?,
            object: match object {
                Some(at) => Some(inst.id(at)?),
                None => None,
            },
            layout: inst.id(layout)?,
            stride,
            memory: inst.operands.get(rest..).unwrap_or_default().to_vec(),
            offset: pair(offset)?,
            bound: pair(bound)?,
        })
    }
}

/// Returns true if a plain access counts its stride in components although the pointer points to something else, as
/// compilers of kernels mean it.
fn counts_components(e: &Rewriter<'_>, access: &Access, shape: Shape) -> bool {
    let pointee = e.pointee(access.pointer);
    is_kernel(e.m) && pointee.and_then(|t| types::packed_bytes(e.m, t)) != Some(shape.scalar.bytes())
}

/// Returns the layout of rows, columns or packed rows.
fn lines(
    e: &mut Rewriter<'_>,
    r: InstRef,
    access: &Access,
    shape: Shape,
    layout: u64,
    checked: Checked,
) -> Result<MemoryLayout, Refusal> {
    let (zero, one) = (e.g.u32(e.m, 0), e.g.u32(e.m, 1));
    let words = |e: &mut Rewriter<'_>, pair: Option<[Id; 2]>| -> Result<Option<[Id; 2]>, Refusal> {
        let Some([a, b]) = pair else { return Ok(None) };
        Ok(Some([e.word(r, a)?, e.word(r, b)?]))
    };
    let mut offset = words(e, access.offset)?.unwrap_or([zero, zero]);
    let mut bound = match access.bound {
        Some([a, b]) => Some([extent(e, r, a)?, extent(e, r, b)?]),
        None => None,
    };
    // Where 32 bits hold several components, they are those of consecutive rows; in A they are adjacent anyway.
    let packs = layout == PACKED && shape.use_ != 0;
    let rows = if packs { (32 / shape.scalar.width().max(1)).max(1) } else { 1 };
    if checked == Checked::Prose {
        (offset, bound) = prose(e, layout, rows, offset, bound);
    }
    let stride = match (access.stride, bound) {
        (None, Some([_, width])) if checked == Checked::Prose => width,
        _ => {
            let Some(stride) = access.stride.or(access.bound.map(|[_, width]| width)) else {
                return malformed(r, "a stride is missing");
            };
            if is_far(e, stride, access.offset.is_some()) { unsigned_64(e, stride) } else { e.word(r, stride)? }
        }
    };
    if !shape.rows.is_multiple_of(rows) {
        let why = format!("a matrix of {} rows is packed by {rows} rows", shape.rows);
        return Err(Refusal::new("refused-layout", Some(r), why, "use a number of rows that can be packed"));
    }
    let clamp = if bound.is_some() { CONSTANT } else { UNDEFINED };
    let digit = |span, stride, offset, extent| Digit { span, stride, offset, extent };
    let [height, width] = match bound {
        Some(bound) => bound,
        None => [shape.rows, shape.cols].map(|n| e.g.u32(e.m, n)),
    };
    if layout == COLUMN_MAJOR {
        let rows = digit(shape.rows, one, offset[1], width);
        let cols = digit(shape.cols, stride, offset[0], height);
        return Ok(MemoryLayout { clamp, digits: vec![rows, cols], view: None });
    }
    if rows == 1 {
        let lines = digit(shape.rows, stride, offset[0], height);
        let along = digit(shape.cols, one, offset[1], width);
        return Ok(MemoryLayout { clamp, digits: vec![lines, along], view: None });
    }
    let packs = shape.rows / rows;
    if bound.is_none() {
        let (all, apart) = (e.g.u32(e.m, u32::MAX), e.g.u32(e.m, rows));
        let digits = vec![
            digit(packs, stride, offset[0], all),
            digit(rows, one, offset[1], all),
            digit(shape.cols, apart, zero, all),
        ];
        return Ok(MemoryLayout { clamp, digits, view: None });
    }
    let lines = digit(packs, stride, offset[0], height);
    let along = digit(shape.cols * rows, one, offset[1], width);
    let view = Some(([packs, shape.cols, rows], [0, 2, 1]));
    Ok(MemoryLayout { clamp, digits: vec![lines, along], view })
}

/// Returns true if distances of a stride are computed with 64 bits: it has as many, and there are more lines than a
/// matrix has, or it is not known to be small.
fn is_far(e: &Rewriter<'_>, stride: Id, offset: bool) -> bool {
    let wide = e.m.type_of(stride).and_then(|t| types::scalar(e.m, t)).is_some_and(|s| s.width() == 64);
    wide && (offset || e.known(stride).is_none_or(|s| s >= crate::matrix::address::FAR))
}

/// Casts a stride of 64 bits to unsigned.
fn unsigned_64(e: &mut Rewriter<'_>, stride: Id) -> Id {
    let wide = e.g.uint(e.m, 64);
    if e.m.type_of(stride) == Some(wide) { stride } else { e.ids(Op::Bitcast, wide, &[stride]) }
}

/// Converts a bound to 32 bits: one of 64 bits is clamped to what signed offsets reach.
pub(super) fn extent(e: &mut Rewriter<'_>, r: InstRef, bound: Id) -> Result<Id, Refusal> {
    let wide =
        |e: &Rewriter<'_>| e.m.type_of(bound).filter(|t| types::scalar(e.m, *t).is_some_and(|s| s.width() == 64));
    let Some(ty) = wide(e) else { return e.word(r, bound) };
    let most = u64::from(u32::MAX >> 1);
    if let Some(known) = e.known(bound) {
        return Ok(e.g.u32(e.m, known.min(most) as u32));
    }
    let scalar = Scalar::Int { width: 64, signed: false };
    let (limit, most) = (e.g.constant_of(e.m, ty, scalar, most), e.g.u32(e.m, most as u32));
    let (bool_type, word) = (e.g.bool(e.m), e.g.uint(e.m, 32));
    let beyond = e.ids(Op::UGreaterThan, bool_type, &[bound, limit]);
    let narrow = e.word(r, bound)?;
    Ok(e.ids(Op::Select, word, &[beyond, most, narrow]))
}

/// Converts offsets and bounds that count rows and columns of a big matrix to lines and elements of lines.
pub(super) fn prose(
    e: &mut Rewriter<'_>,
    layout: u64,
    rows: u32,
    offset: [Id; 2],
    bound: Option<[Id; 2]>,
) -> ([Id; 2], Option<[Id; 2]>) {
    let turn = |[a, b]: [Id; 2]| [b, a];
    if layout == COLUMN_MAJOR {
        return (turn(offset), bound.map(turn));
    }
    if rows == 1 {
        return (offset, bound);
    }
    // A power of two, since it consists of bits of a word.
    let shift = rows.trailing_zeros();
    let word = e.g.uint(e.m, 32);
    let by = e.g.u32(e.m, shift);
    let pack = |e: &mut Rewriter<'_>, [a, b]: [Id; 2]| {
        let a = e.ids(Op::ShiftRightArithmetic, word, &[a, by]);
        [a, e.ids(Op::ShiftLeftLogical, word, &[b, by])]
    };
    let offset = pack(e, offset);
    (offset, bound.map(|b| pack(e, b)))
}

/// Returns the layout of blocks of 4 rows and 16 bytes, several of them interleaved by 4 bytes.
fn blocked(
    e: &mut Rewriter<'_>,
    r: InstRef,
    access: &Access,
    shape: Shape,
    layout: u64,
) -> Result<MemoryLayout, Refusal> {
    let refuse = |why: String| Err(Refusal::new("refused-layout", Some(r), why, "see what coopcheck says"));
    let Some(group) = access.stride.and_then(|s| e.known(s)).filter(|s| matches!(s, 1 | 2 | 4)) else {
        return refuse("the stride of a blocked layout is not 1, 2 or 4".into());
    };
    let group = group as u32;
    let bytes = shape.scalar.bytes();
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return refuse(format!("a blocked layout can't hold {} components", shape.scalar));
    }
    if bytes == 8 && group > 1 {
        return refuse(format!("{} components are split by blocks that are interleaved by 4 bytes", shape.scalar));
    }
    if shape.rows.checked_mul(shape.cols).is_none_or(|n| n > i32::MAX as u32) {
        return refuse(format!("a {}x{} matrix has more elements than 32 bits count", shape.rows, shape.cols));
    }
    let by_rows = layout == ARM_ROW_BLOCKED;
    // The components of a word, and of a row of a block.
    let (part, wide) = (4 / bytes, 16 / bytes);
    let (row_unit, col_unit) = if by_rows { (4, wide * group) } else { (4 * group, wide) };
    if !shape.rows.is_multiple_of(row_unit) || !shape.cols.is_multiple_of(col_unit) {
        let why = format!("a {}x{} matrix in blocks of {row_unit}x{col_unit}", shape.rows, shape.cols);
        return refuse(why);
    }
    let block = 4 * wide;
    let words = if group > 1 { [(4, group * part), (part, 1)] } else { [(wide, 1), (1, 1)] };
    let inner = (4, wide * group);
    let split = (group, part);
    // The digits of the row, then of the column, the most significant first: radix and stride.
    let digits: Vec<(u32, u32)> = if by_rows {
        let bands = shape.rows / 4;
        let groups = shape.cols / col_unit;
        [(bands, shape.cols / wide * block), inner, (groups, group * block), split].into_iter().chain(words).collect()
    } else {
        let groups = shape.rows / row_unit;
        let bands = shape.cols / wide;
        [(groups, group * block), split, inner, (bands, shape.rows / 4 * block)].into_iter().chain(words).collect()
    };
    let (zero, all) = (e.g.u32(e.m, 0), e.g.u32(e.m, u32::MAX));
    let digits = digits.into_iter().filter(|(span, _)| *span > 1);
    let mut out: Vec<(u32, u32)> = Vec::new();
    for (span, stride) in digits {
        // Adjacent digits that form one number are merged.
        match out.last_mut().filter(|last| last.1 == span * stride) {
            Some(last) => *last = (last.0 * span, stride),
            None => out.push((span, stride)),
        }
    }
    let digits = out
        .into_iter()
        .map(|(span, stride)| Digit { span, stride: e.g.u32(e.m, stride), offset: zero, extent: all })
        .collect();
    Ok(MemoryLayout { clamp: UNDEFINED, digits, view: None })
}

fn emit(e: &mut Rewriter<'_>, r: InstRef, access: &Access, shape: Shape, placed: &MemoryLayout) {
    let (zero, one) = (e.g.u32(e.m, 0), e.g.u32(e.m, 1));
    let rank = placed.digits.len() as u32;
    let parts = [rank, placed.clamp].map(|v| Operand::Id(e.g.u32(e.m, v)));
    let layout_type = e.type_with(Op::TypeTensorLayoutNV, &parts);
    let spans: Vec<Id> = placed.digits.iter().map(|d| e.g.u32(e.m, d.span)).collect();
    let of = |f: &dyn Fn(&Digit) -> Id| placed.digits.iter().map(f).collect::<Vec<Id>>();
    let slice = placed.digits.iter().zip(&spans).flat_map(|(d, span)| [d.offset, *span]).collect();
    let mut layout = e.op(Op::CreateTensorLayoutNV, layout_type, []);
    for (op, operands) in [
        (Op::TensorLayoutSetBlockSizeNV, of(&|_| one)),
        (Op::TensorLayoutSetDimensionNV, of(&|d| d.extent)),
        (Op::TensorLayoutSetStrideNV, of(&|d| d.stride)),
        (Op::TensorLayoutSliceNV, slice),
        (Op::TensorLayoutSetClampValueNV, vec![zero]),
    ] {
        let operands: Vec<Id> = [layout].into_iter().chain(operands).collect();
        layout = e.ids(op, layout_type, &operands);
    }
    let view = placed.view.map(|(sizes, order)| {
        let yes = e.g.boolean(e.m, true);
        let dims = e.g.u32(e.m, 3);
        let parts = [dims, yes].into_iter().chain(order.map(|o| e.g.u32(e.m, o)));
        let parts: Vec<Operand> = parts.map(Operand::Id).collect();
        let ty = e.type_with(Op::TypeTensorViewNV, &parts);
        let sizes = sizes.map(|s| e.g.u32(e.m, s));
        let view = e.op(Op::CreateTensorViewNV, ty, []);
        let operands: Vec<Id> = [view].into_iter().chain(sizes).collect();
        e.ids(Op::TensorViewSetDimensionNV, ty, &operands)
    });
    let object = access.object.unwrap_or_else(|| e.g.null(e.m, shape.ty));
    let mut operands: Vec<Operand> = [access.pointer, object, layout].map(Operand::Id).to_vec();
    if access.memory.is_empty() {
        operands.push(Operand::Word(0));
    }
    operands.extend(access.memory.iter().copied());
    operands.push(Operand::Word(u32::from(view.is_some())));
    operands.extend(view.map(Operand::Id));
    let op = if access.store { Op::CooperativeMatrixStoreTensorNV } else { Op::CooperativeMatrixLoadTensorNV };
    e.replace(r, op, operands);
}

/// Returns the type of the number that a pointer points to, or of the first one in nested structs; and the depth of
/// these.
pub(super) fn number_behind(e: &Rewriter<'_>, pointer: Id) -> Option<(Id, u32)> {
    let mut ty = e.pointee(pointer)?;
    for depth in 0..8 {
        match Type::of(e.m, ty)? {
            Type::Scalar(_) => return Some((ty, depth)),
            Type::Struct { members } if members.len() == 1 => ty = members[0],
            _ => return None,
        }
    }
    None
}
