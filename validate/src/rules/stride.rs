//! Rules about the stride of loads and stores, and about the bytes that they access.

use super::access::{COLUMN_BLOCKED, COLUMN_MAJOR, LoadStore, Pointer, ROW_BLOCKED, ROW_MAJOR, layout_name};
use super::address;
use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::Capability;
use coop_ir::types::{Scalar, Type, packed_bytes};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Stride is present for the layouts that need it: row-major, column-major, and ARM's interleaved ones.
    /// ## Why
    /// Without it the start of the second row or column is not known.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR %matrix %pointer %row_major`
    pub(crate) static MISSING = {
        id: "access-stride-missing",
        summary: "a layout that needs a stride has none",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["khr.ls-stride-present"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Stride is a scalar integer, of any width and sign.
    /// ## Why
    /// It counts elements.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR %matrix %pointer %row_major %float_16`
    pub(crate) static TYPE = {
        id: "access-stride-type",
        summary: "Stride is not a scalar integer",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-stride-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The stride of a store, where constants determine it, is greater than 0.
    /// ## Why
    /// With stride 0 all rows (or columns) would be written to the same place. Loads may use it, to spread one row.
    /// ## Example
    /// `OpCooperativeMatrixStoreKHR %pointer %matrix %row_major %uint_0`
    pub(crate) static STORE_NOT_POSITIVE = {
        id: "store-stride-not-positive",
        summary: "the stride of a store is 0 or negative",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["khr.store-stride-positive"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The stride of a load, where constants determine it, is not negative.
    /// ## Why
    /// Rows (or columns) follow each other upwards; 0 spreads one of them over the matrix.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR %matrix %pointer %row_major %int_n16`
    pub(crate) static LOAD_NEGATIVE = {
        id: "load-stride-negative",
        summary: "the stride of a load is negative",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["khr.load-stride-nonneg"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where all sizes are fixed, the stride of a store is at least the length of a row (or column) in bytes.
    /// ## Why
    /// Otherwise elements of neighboring rows are written to the same place, in no order.
    /// ## Example
    /// A row-major store of a f32 16x16 matrix with stride 8 into an array of f32.
    pub(crate) static ROWS_OVERLAP = {
        id: "store-rows-overlap",
        summary: "rows or columns of a store overlap",
        level: Warning,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixStoreKHR",
        vuids: [],
        digest: ["khr.store-rows-overlap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Through an untyped pointer, where the stride counts bytes, a constant stride is a multiple of the size of a
    /// component.
    /// ## Why
    /// Otherwise components are not aligned to their own size.
    /// ## Example
    /// A load of a f16 matrix through an untyped pointer with stride 33.
    pub(crate) static UNTYPED = {
        id: "access-untyped-stride",
        summary: "a stride in bytes is not a multiple of the component's size",
        level: Warning,
        since: "0.1.0",
        spec: "SPV_KHR_untyped_pointers, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-untyped-stride-bytes"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, where all sizes are fixed, the stride in bytes is a multiple of 16, or of the bytes of one row
    /// (row-major) or column (column-major) where that is less. `cooplower` still lowers such modules: its output relies
    /// only on alignments that are known or tested.
    /// ## Why
    /// Each row or column must begin where the hardware's wide loads can. What else happens is undefined: a driver was seen
    /// to read zeros.
    /// ## Example
    /// A row-major load of a f16 16x16 matrix with stride 17 from an array of f16: rows begin every 34 bytes.
    pub(crate) static MISALIGNED = {
        id: "access-stride-misaligned",
        summary: "the stride breaks the alignment of rows or columns",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986",
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadNV-06324"
        ],
        digest: ["khr.ls-align", "vk.ls-align", "vk.nv1-align"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where all sizes and indices are fixed, the last element that is loaded or stored still lies in the array that
    /// Pointer points into, if that array is a whole variable.
    /// ## Why
    /// Shared memory has no bounds checks: the access reads or destroys what lies behind.
    /// ## Example
    /// A f32 16x16 matrix stored with stride 16 into a Workgroup array of 128 f32.
    pub(crate) static OUT_OF_BOUNDS = {
        id: "access-out-of-bounds",
        summary: "a load or store reaches beyond its array",
        level: Warning,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-in-bounds"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, where a row (row-major) or column (column-major) has a fixed size, the offset of Pointer in its variable
    /// is a multiple of 16 bytes, or of that size where it is less, as far as access chains and arithmetic on indices
    /// tell; for tensor loads and stores of 16 bytes.
    /// ## Why
    /// The matrix must begin where the hardware's wide loads can. The buffer itself is assumed to be aligned. Otherwise
    /// the behavior is undefined, but engines rely on drivers: NVIDIA's handles tensor loads and stores at any multiple of a
    /// component as intended, lavapipe plain ones; other drivers need not. Lowered code handles all, except for plain
    /// accesses that khr leaves to the device.
    /// ## Example
    /// A load of a f16 16x16 matrix from element `8 * i + 4` of an array of f16.
    pub(crate) static POINTER_MISALIGNED = {
        id: "access-pointer-misaligned",
        summary: "Pointer is not aligned",
        level: Warning,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986",
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadNV-06324"
        ],
        digest: ["khr.ls-align", "vk.ls-align", "vk.nv1-align", "nv2.lt-base-align16"],
    }
}

/// Returns true if Pointer can be a multiple of `need` bytes.
pub(crate) fn pointer_alignment(cx: &Cx, at: InstRef, pointer: Id, need: u64, verb: &str, out: &mut Sink) {
    let Some(low) = address::offset(cx, pointer) else { return };
    if !cx.env.is_vulkan() || low.is_multiple_of(need) != Some(false) {
        return;
    }
    out.report(&POINTER_MISALIGNED, at, || {
        let rest = low.remainder(need);
        Draft::new(format!("the address of a {verb} is {rest} bytes past a multiple of {need}, which Vulkan asks for"))
            .label(at, Part::Operand(0), format!("not a multiple of {need} bytes"))
            .label_opt(cx.def(pointer), Part::Whole, "points there")
            .help("this is undefined by the text; some drivers do what is meant, and so does scalar code")
    });
}

/// A load or store of a matrix with a stride, of either extension.
pub(crate) struct Strided<'a> {
    pub(crate) at: InstRef,
    pub(crate) is_load: bool,
    pub(crate) matrix: Option<MatrixType<'a>>,
    pub(crate) pointer: Pointer,
    /// The layout, by the numbers of SPV_KHR_cooperative_matrix.
    pub(crate) layout: Const,
    pub(crate) stride: Id,
    /// The operand index of the stride.
    pub(crate) operand: usize,
}

impl Strided<'_> {
    fn verb(&self) -> &'static str {
        if self.is_load { "load" } else { "store" }
    }
}

/// Checks the stride of a load or store of SPV_KHR_cooperative_matrix.
pub(crate) fn check(cx: &Cx, a: &LoadStore, out: &mut Sink) {
    let Some((stride, operand)) = a.stride else {
        let needed =
            Verdict::of(&a.layout_value, |v| !matches!(v, ROW_MAJOR | COLUMN_MAJOR | ROW_BLOCKED | COLUMN_BLOCKED));
        out.judge(&MISSING, needed, a.at, || {
            Draft::new(format!("a {} with layout {} needs a stride", a.verb(), layout_name(a.layout_value.value())))
                .label(a.at, Part::Whole, "has no Stride")
                .help("give the distance of rows (row-major) or columns (column-major), in elements of the array")
        });
        return;
    };
    let ty = cx.module.type_of(stride).and_then(|t| cx.scalar(t));
    if !ty.is_some_and(Scalar::is_int) {
        let what = cx.describe_value(stride);
        out.report(&TYPE, a.at, || {
            Draft::new(format!("Stride must be a scalar integer; this is {what}"))
                .label(a.at, Part::Operand(operand), "Stride")
                .label_opt(cx.def(stride), Part::Whole, "comes from here")
        });
        return;
    }
    let (matrix, layout) = (a.matrix.map(MatrixType::Khr), a.layout_value.clone());
    let strided = Strided { at: a.at, is_load: a.is_load, matrix, pointer: a.pointer, layout, stride, operand };
    sign(cx, &strided, out);
    sizes(cx, &strided, out);
}

/// Returns true if a stride is one that its load or store can have.
pub(crate) fn sign(cx: &Cx, a: &Strided, out: &mut Sink) {
    let value = cx.computed(a.stride);
    // A dynamic stride is common, and not an undecided condition.
    let Some(bits) = value.value() else { return };
    let n = cx.signed(a.stride, bits);
    let draft = |message: String| {
        Draft::new(message).label(a.at, Part::Operand(a.operand), format!("Stride is {n}")).label_opt(
            cx.def(a.stride),
            Part::Whole,
            "comes from here",
        )
    };
    if a.is_load {
        out.judge(&LOAD_NEGATIVE, Verdict::of(&value, |v| cx.signed(a.stride, v) >= 0), a.at, || {
            draft(format!("the stride of a load must not be negative; it is {n}"))
        });
    } else {
        out.judge(&STORE_NOT_POSITIVE, Verdict::of(&value, |v| cx.signed(a.stride, v) > 0), a.at, || {
            draft(format!("the stride of a store must be positive; it is {n}"))
        });
    }
}

/// The sizes that the rules about bytes need, all of them fixed.
struct Sizes {
    /// Bytes from one row (or column) to the next.
    stride: u64,
    /// Bytes of one row (or column).
    line: u64,
    /// The number of rows (or columns).
    lines: u64,
    /// `row` or `column`.
    noun: &'static str,
}

/// Checks the bytes that a load or store accesses.
pub(crate) fn sizes(cx: &Cx, a: &Strided, out: &mut Sink) {
    let Some(matrix) = a.matrix else { return };
    let (Some(component), Some(n)) = (matrix.component(), cx.computed(a.stride).fixed()) else { return };
    let n = match u64::try_from(cx.signed(a.stride, n)) {
        Ok(n) if n < 1 << 32 => n,
        _ => return,
    };
    if a.pointer.pointee.is_none() && !n.is_multiple_of(u64::from(component.bytes().max(1))) {
        let bytes = component.bytes();
        out.report(&UNTYPED, a.at, || {
            Draft::new(format!(
                "the stride through an untyped pointer counts bytes; {n} is not a multiple of the {bytes} of {component}"
            ))
            .label(a.at, Part::Operand(a.operand), format!("Stride is {n} bytes"))
        });
        return;
    }
    let unit = match a.pointer.pointee {
        // Compilers of kernels count components, whatever the type of the pointer.
        Some(_) if cx.module.has_capability(Capability::Kernel) => u64::from(component.bytes().max(1)),
        Some(_) => match a.pointer.unit(cx) {
            Some((_, bytes)) => bytes,
            None => return,
        },
        None => 1,
    };
    let (rows, cols) = (matrix.rows().1.fixed(), matrix.cols().1.fixed());
    let (Some(rows), Some(cols), Some(layout)) = (rows, cols, a.layout.fixed()) else { return };
    let (per_line, lines, noun) = match layout {
        ROW_MAJOR => (cols, rows, "row"),
        COLUMN_MAJOR => (rows, cols, "column"),
        _ => return,
    };
    // A component of fewer than 8 bits has no address.
    let (Some(line), Some(bytes)) = (per_line.checked_mul(u64::from(component.width())), n.checked_mul(unit)) else {
        return;
    };
    let sizes = Sizes { stride: bytes, line: line.div_ceil(8), lines, noun };
    overlap(a, &sizes, out);
    let need = sizes.line.min(16);
    if need.is_power_of_two() {
        pointer_alignment(cx, a.at, a.pointer.id, need, a.verb(), out);
    }
    alignment(cx, a, &sizes, out);
    bounds(cx, a, &sizes, out);
}

fn overlap(a: &Strided, s: &Sizes, out: &mut Sink) {
    if !a.is_load && s.stride > 0 && s.lines > 1 && s.stride < s.line {
        out.report(&ROWS_OVERLAP, a.at, || {
            Draft::new(format!(
                "{}s of {} bytes are stored {} bytes apart: they overlap, in no order",
                s.noun, s.line, s.stride
            ))
            .label(a.at, Part::Operand(a.operand), format!("{} bytes from {} to {}", s.stride, s.noun, s.noun))
            .help("the stride counts elements of the array that Pointer points into, not components of the matrix")
        });
    }
}

fn alignment(cx: &Cx, a: &Strided, s: &Sizes, out: &mut Sink) {
    let need = s.line.min(16);
    let misaligned = cx.env.is_vulkan() && s.lines > 1 && need.is_power_of_two() && !s.stride.is_multiple_of(need);
    // Shaders branch on the stride, which a specialization sets.
    if misaligned && !cx.is_never_executed(a.at) {
        out.report(&MISALIGNED, a.at, || {
            Draft::new(format!("{}s begin every {} bytes; Vulkan wants a multiple of {need}", s.noun, s.stride))
                .label(a.at, Part::Operand(a.operand), format!("{} bytes from {} to {}", s.stride, s.noun, s.noun))
                .help(format!(
                    "pad {}s to a multiple of {need} bytes: else this is undefined by the text, though some drivers do what is meant",
                    s.noun
                ))
        });
    }
}

fn bounds(cx: &Cx, a: &Strided, s: &Sizes, out: &mut Sink) {
    let Some((first, length, unit)) = place_in_variable(cx, a) else { return };
    let end = (s.lines.saturating_sub(1))
        .checked_mul(s.stride)
        .and_then(|b| b.checked_add(s.line))
        .and_then(|b| b.checked_add(first.checked_mul(unit)?));
    let (Some(end), Some(size)) = (end, length.checked_mul(unit)) else { return };
    if end > size {
        out.report(&OUT_OF_BOUNDS, a.at, || {
            Draft::new(format!("a {} reaches byte {end} of an array of {size} bytes", a.verb()))
                .label(a.at, Part::Operand(0), format!("element {first} of {length}"))
                .label_opt(cx.def(a.pointer.id), Part::Whole, "points here")
        });
    }
}

/// Returns index, length and element size in bytes, if Pointer is an element of an array that is a whole variable, and
/// all is fixed.
fn place_in_variable(cx: &Cx, a: &Strided) -> Option<(u64, u64, u64)> {
    let chain = cx.module.def_inst(a.pointer.id)?;
    if !matches!(chain.op, Op::AccessChain | Op::InBoundsAccessChain) || chain.operands.len() != 2 {
        return None;
    }
    let variable = chain.access_chain()?.base;
    if cx.module.def_inst(variable)?.op != Op::Variable {
        return None;
    }
    let Type::Pointer { pointee, .. } = Type::of(cx.module, cx.module.type_of(variable)?)? else { return None };
    let Type::Array { elem, len } = Type::of(cx.module, pointee)? else { return None };
    let index = cx.constant(chain.id(1)?).fixed()?;
    Some((index, cx.constant(len).fixed()?, u64::from(packed_bytes(cx.module, elem)?)))
}
