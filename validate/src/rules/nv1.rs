//! Rules about SPV_NV_cooperative_matrix, the first extension of all: matrices without a use, of which integers are
//! signed as their type says.

use super::access::{self, Pointer};
use super::stride::{self, Strided};
use super::types::storage_name;
use super::{component, convert, memory};
use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::{MatrixType, NvMatrix};
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use coop_ir::constant::Const;
use coop_ir::spv::StorageClass;
use coop_ir::types::{Scalar, Type, scalar_or_vector};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Component Type is an integer or a float; Scope, Rows and Columns are constant instructions of scalar integer
    /// types.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// Rows is an `OpUndef`.
    pub(crate) static TYPE = {
        id: "nv1-type-operand",
        summary: "an operand of the type is not a numerical type or integer constant",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpTypeCooperativeMatrixNV",
        vuids: [],
        digest: ["nv1.type-ids"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Loads, stores and multiply-adds of the extension have matrices of SPV_NV_cooperative_matrix.
    /// ## Why
    /// Matrices of SPV_KHR_cooperative_matrix have instructions of their own; the two never meet.
    /// ## Example
    /// `OpCooperativeMatrixMulAddNV %c %khr_matrix %b %zero`
    pub(crate) static NOT_MATRIX = {
        id: "nv1-not-matrix",
        summary: "an operand or the result is not a matrix of SPV_NV_cooperative_matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, instructions",
        vuids: [],
        digest: ["nv1.ls-types", "nv1.no-mix"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Pointer of a load or store points to a numerical scalar or a vector of such, and Stride is a scalar integer.
    /// ## Why
    /// The stride counts elements of what Pointer points to.
    /// ## Example
    /// Stride is a float.
    pub(crate) static ACCESS = {
        id: "nv1-access-type",
        summary: "Pointer or Stride of a load or store has the wrong type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpCooperativeMatrixLoadNV and StoreNV",
        vuids: [],
        digest: ["nv1.ls-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Column Major is a constant instruction of the Boolean type.
    /// ## Why
    /// How elements lie in memory must be known when the pipeline is made; it may be specialized.
    /// ## Example
    /// Column Major is `%uint_1`, as SPV_KHR_cooperative_matrix would have it.
    pub(crate) static COLUMN_MAJOR = {
        id: "nv1-column-major",
        summary: "Column Major is not a Boolean constant",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpCooperativeMatrixLoadNV and StoreNV",
        vuids: [],
        digest: ["nv1.ls-colmajor-bool"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The storage class of Pointer is Workgroup, StorageBuffer or PhysicalStorageBuffer.
    /// ## Why
    /// Only memory that the invocations share can hold a matrix for all of them.
    /// ## Example
    /// A load from an array in a Private variable.
    pub(crate) static STORAGE = {
        id: "nv1-storage-class",
        summary: "a load or store in a storage class that has no matrices",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpCooperativeMatrixLoadNV and StoreNV",
        vuids: [],
        digest: ["nv1.ls-storage-class"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A is M x K, B is K x N, C and the result are M x N, and all four have one scope.
    /// ## Why
    /// As for matrices of SPV_KHR_cooperative_matrix.
    /// ## Example
    /// A is f16 16x8, B is f16 16x16.
    pub(crate) static SHAPE = {
        id: "nv1-muladd-shape",
        summary: "sizes or scopes of a multiply-add do not fit together",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpCooperativeMatrixMulAddNV",
        vuids: [],
        digest: ["nv1.muladd-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrices of SPV_NV_cooperative_matrix are not multiplied component by component (OpFMul, OpIMul), nor taken by
    /// OpBitcast and by whatever does not take matrices of SPV_KHR_cooperative_matrix either.
    /// ## Why
    /// The extension lists what there is; OpFMul, OpIMul and OpBitcast came with SPV_KHR_cooperative_matrix.
    /// ## Example
    /// `OpFMul %matrix %a %b`
    pub(crate) static NOT_ALLOWED = {
        id: "nv1-not-allowed",
        summary: "an instruction that does not take these matrices",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, Arithmetic and Conversion Instructions",
        vuids: [],
        digest: ["nv1.arith-list"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion keeps the scope, the rows and the columns.
    /// ## Why
    /// Conversions go component by component.
    /// ## Example
    /// `OpFConvert` from f32 16x16 to f16 16x8.
    pub(crate) static CONVERT = {
        id: "nv1-convert-shape",
        summary: "a conversion changes scope, rows or columns",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, Conversion Instructions",
        vuids: [],
        digest: ["nv1.convert-shape"],
    }
}

/// `OpTypeCooperativeMatrixNV`.
pub(crate) fn matrix_type(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    if let Some(component) = inst.id(0).filter(|c| cx.scalar(*c).is_none()) {
        let is = cx.describe(component);
        out.report(&TYPE, at, || {
            Draft::new(format!("the component type of a matrix must be an integer or a float; this is {is}")).label(
                at,
                Part::Operand(0),
                format!("this is {is}"),
            )
        });
    }
    for (operand, name) in [(1, "Scope"), (2, "Rows"), (3, "Columns")] {
        let Some(id) = inst.id(operand) else { continue };
        let suits = cx.module.def_inst(id).is_some_and(|i| i.op.is_constant())
            && cx.module.type_of(id).and_then(|t| cx.scalar(t)).is_some_and(Scalar::is_int);
        if !suits {
            let is = cx.describe_value(id);
            out.report(&TYPE, at, || {
                Draft::new(format!("{name} of a matrix must be a constant of an integer type; this is {is}"))
                    .label(at, Part::Operand(operand), format!("{name} is given here"))
                    .label_opt(cx.def(id), Part::Whole, "comes from here")
            });
        }
    }
}

/// Checks a load, store or multiply-add of this extension.
pub(crate) fn instruction(cx: &Cx, at: InstRef, out: &mut Sink) {
    match cx.inst(at).op {
        Op::CooperativeMatrixLoadNV => load_or_store(cx, at, true, out),
        Op::CooperativeMatrixStoreNV => load_or_store(cx, at, false, out),
        Op::CooperativeMatrixMulAddNV => muladd(cx, at, out),
        _ => {}
    }
}

/// Reports an operation that does not accept these matrices.
pub(crate) fn refused(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some((matrix, part)) = o.matrix(cx) else { return };
    let op = o.op;
    out.report(&NOT_ALLOWED, o.at, || {
        Draft::new(format!("{op} does not take matrices of SPV_NV_cooperative_matrix; this is {matrix}"))
            .label(o.at, part, format!("{matrix}"))
            .help("work component by component, or use SPV_KHR_cooperative_matrix, which has more")
    });
}

/// Checks a conversion of Intel's, which does not accept matrices of this extension.
pub(crate) fn converted(cx: &Cx, o: &Operation, out: &mut Sink) {
    if let Some((MatrixType::Nv(_), _)) = o.matrix(cx) {
        refused(cx, o, out);
    }
}

/// Checks a conversion of or to a matrix of this extension.
pub(crate) fn conversion(cx: &Cx, o: &Operation, from: Option<MatrixType>, to: Option<MatrixType>, out: &mut Sink) {
    if o.op == Op::Bitcast {
        refused(cx, o, out);
        return;
    }
    let (Some(value), Some(ty)) = (o.id(0), o.ty) else { return };
    let (Some(from), Some(to)) = (from, to) else {
        let (part, is) = match from {
            Some(_) => (Part::Type, cx.describe(ty)),
            None => (o.part(0), cx.describe_value(value)),
        };
        out.report(&NOT_MATRIX, o.at, || {
            Draft::new(format!("{} between a matrix and {is}: both must be matrices", o.op)).label(
                o.at,
                part,
                format!("this is {is}"),
            )
        });
        return;
    };
    for (name, operand, (a, was), (b, is)) in [
        ("scope", 1, from.scope(), to.scope()),
        ("rows", 2, from.rows(), to.rows()),
        ("columns", 3, from.cols(), to.cols()),
    ] {
        out.judge(&CONVERT, cx.equal(a, b), o.at, || {
            Draft::new(format!("a conversion from {from} to {to} changes the {name} from {was} to {is}"))
                .label(o.at, Part::Whole, "converted here")
                .label_opt(from.decl(cx), Part::Operand(operand), format!("{name}: {was}"))
                .label_opt(to.decl(cx), Part::Operand(operand), format!("{name}: {is}"))
        });
    }
    convert::components(cx, o, from, to, true, out);
}

fn not_matrix(cx: &Cx, at: InstRef, name: &str, part: Part, is: String, out: &mut Sink) {
    let op = cx.inst(at).op;
    out.report(&NOT_MATRIX, at, || {
        Draft::new(format!("{op} works on matrices of SPV_NV_cooperative_matrix; {name} is {is}")).label(
            at,
            part,
            format!("this is {is}"),
        )
    });
}

fn load_or_store(cx: &Cx, at: InstRef, is_load: bool, out: &mut Sink) {
    let inst = cx.inst(at);
    let first = if is_load { 1 } else { 2 };
    let (Some(pointer), Some(stride), Some(column_major)) = (inst.id(0), inst.id(first), inst.id(first + 1)) else {
        return;
    };
    let ty = if is_load { inst.ty } else { inst.stored().and_then(|o| cx.module.type_of(o)) };
    if ty.is_none_or(|t| cx.nv_matrix(t).is_none()) {
        let (name, part) = if is_load { ("the result", Part::Type) } else { ("Object", Part::Operand(1)) };
        let is = ty.map_or_else(|| "no value".into(), |t| cx.describe(t));
        not_matrix(cx, at, name, part, is, out);
    }
    let p = Pointer::of(cx, pointer);
    let elements = p.pointee.is_some_and(|t| scalar_or_vector(cx.module, t).is_some());
    if !elements {
        let is = match p.pointee {
            Some(pointee) => format!("a pointer to {}", cx.describe(pointee)),
            None => cx.describe_value(pointer),
        };
        out.report(&ACCESS, at, || {
            Draft::new(format!("Pointer must point to a scalar or vector of numbers; this is {is}")).label(
                at,
                Part::Operand(0),
                format!("this is {is}"),
            )
        });
    }
    let classes = [StorageClass::Workgroup, StorageClass::StorageBuffer, StorageClass::PhysicalStorageBuffer];
    if let Some(storage) = p.storage.filter(|s| !classes.iter().any(|c| c == s)) {
        let name = storage_name(storage);
        out.report(&STORAGE, at, || {
            Draft::new(format!(
                "matrices are in Workgroup, StorageBuffer or PhysicalStorageBuffer memory, not in {name}"
            ))
            .label(at, Part::Operand(0), format!("points to {name} memory"))
            .label_opt(cx.def(p.ty), Part::Operand(0), "the storage class")
        });
    }
    let integer = cx.module.type_of(stride).and_then(|t| cx.scalar(t)).is_some_and(Scalar::is_int);
    if !integer {
        let is = cx.describe_value(stride);
        out.report(&ACCESS, at, || {
            Draft::new(format!("Stride must be a scalar integer; this is {is}"))
                .label(at, Part::Operand(first), "Stride")
                .label_opt(cx.def(stride), Part::Whole, "comes from here")
        });
    }
    let boolean = cx
        .module
        .def_inst(column_major)
        .is_some_and(|i| i.op.is_constant() && i.ty.and_then(|t| Type::of(cx.module, t)) == Some(Type::Bool));
    if !boolean {
        let is = cx.describe_value(column_major);
        out.report(&COLUMN_MAJOR, at, || {
            Draft::new(format!("the operand Column Major must be a constant of the Boolean type; this is {is}"))
                .label(at, Part::Operand(first + 1), "Column Major")
                .label_opt(cx.def(column_major), Part::Whole, "comes from here")
                .help("it is true or false here; 0 and 1 are the layouts of SPV_KHR_cooperative_matrix")
        });
    }
    let verb = if is_load { "load" } else { "store" };
    if elements {
        access::source(cx, at, &p, verb, out);
        access::single_object(cx, at, &p, verb, out);
    }
    // False and true have the numbers of the layouts.
    let layout = if boolean { cx.constant(column_major) } else { Const::Unknown };
    let matrix = ty.and_then(|t| cx.nv_matrix(t)).map(MatrixType::Nv);
    if integer {
        let strided = Strided { at, is_load, matrix, pointer: p, layout, stride, operand: first };
        stride::sign(cx, &strided, out);
        stride::sizes(cx, &strided, out);
    }
    component::memory(cx, at, &p, out);
    memory::check(cx, &memory::Site { at, is_load, memory: first + 2, pointer: p }, out);
}

fn muladd(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let mut role = |name: &str, part: Part, ty: Option<Id>| {
        let matrix = ty.and_then(|t| cx.nv_matrix(t));
        if matrix.is_none() {
            not_matrix(cx, at, name, part, ty.map_or_else(|| "no value".into(), |t| cx.describe(t)), out);
        }
        matrix
    };
    let ty = |i: usize| inst.id(i).and_then(|v| cx.module.type_of(v));
    let a = role("A", Part::Operand(0), ty(0));
    let b = role("B", Part::Operand(1), ty(1));
    let c = role("C", Part::Operand(2), ty(2));
    let d = role("the result", Part::Type, inst.ty);
    let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d) else { return };
    let named = [("A", a), ("B", b), ("C", c), ("the result", d)];
    for (name, other) in &named[1..] {
        compare(cx, at, "scope", (1, "A", a, a.scope), (1, name, other, other.scope), out);
    }
    compare(cx, at, "K", (3, "A", a, a.cols), (2, "B", b, b.rows), out);
    for (name, other) in &named[2..] {
        compare(cx, at, "M", (2, "A", a, a.rows), (2, name, other, other.rows), out);
        compare(cx, at, "N", (3, "B", b, b.cols), (3, name, other, other.cols), out);
    }
}

type Side<'a> = (usize, &'a str, &'a NvMatrix, Id);

fn compare(cx: &Cx, at: InstRef, what: &str, x: Side, y: Side, out: &mut Sink) {
    out.judge(&SHAPE, cx.equal(x.3, y.3), at, || {
        let (vx, vy) = (cx.constant(x.3), cx.constant(y.3));
        Draft::new(format!("{what} of {} ({vx}) differs from {what} of {} ({vy})", x.1, y.1))
            .label(at, Part::Whole, "multiplied here")
            .label_opt(cx.def(x.2.id), Part::Operand(x.0), format!("{} is {}", x.1, x.2))
            .label_opt(cx.def(y.2.id), Part::Operand(y.0), format!("{} is {}", y.1, y.2))
    });
}
