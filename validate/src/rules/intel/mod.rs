//! Rules about SPV_INTEL_joint_matrix, as its producers and consumers implement it.

pub(crate) mod rules;

use super::access::{self, LoadStore, PACKED, Pointer};
use super::callback::is_int32;
use super::memory;
use super::stride::{self, Strided};
use super::types::storage_name;
use crate::cx::Cx;
use crate::matrix::MatrixType;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::{Capability as Cap, CooperativeMatrixOperands, Decoration};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{CoopMatView, Scalar, Type, scalar_or_vector};
use coop_ir::{Id, InstRef, Op};
use rules::{
    APPLY, APPLY_NOTE, BF16, BF16_SIGNED, CACHE, CAPABILITY, CHECKED, CHECKED_STORAGE, CHECKED_VALUE, COLUMN_MAJOR,
    CONVERSION, FILL, PACKED_A, PACKED_ACCUMULATOR, PACKED_ROWS, PREFETCH, TF32,
};

fn needs(cx: &Cx, at: InstRef, part: Part, what: &str, capability: Cap, out: &mut Sink) {
    if cx.capabilities.has(capability) {
        return;
    }
    out.report(&CAPABILITY, at, || {
        Draft::new(format!("{what} needs capability {capability}; compilers leave it out, and consumers do not insist"))
            .label(at, part, "needs it")
    });
}

/// Checks the packed layout of a load or store.
pub(crate) fn packed(cx: &Cx, at: InstRef, matrix: Option<&CoopMatView>, layout: Id, operand: usize, out: &mut Sink) {
    if cx.constant(layout).fixed() != Some(PACKED) {
        return;
    }
    if cx.has(Capability::Kernel) {
        needs(cx, at, Part::Operand(operand), "layout PackedINTEL", Cap::PackedCooperativeMatrixINTEL, out);
    }
    let Some(m) = matrix else { return };
    match m.use_.fixed() {
        Some(2) => out.report(&PACKED_ACCUMULATOR, at, || {
            Draft::new(format!("{m} can't be in the packed layout: it is for what is multiplied"))
                .label(at, Part::Operand(operand), "PackedINTEL")
                .label_opt(cx.decl(m), Part::Operand(4), "an accumulator")
        }),
        Some(0) => out.report(&PACKED_A, at, || {
            Draft::new(format!(
                "{m} in the packed layout is row-major, if it is accepted at all; Intel's compiler refuses it"
            ))
            .label(at, Part::Operand(operand), "PackedINTEL")
            .label_opt(cx.decl(m), Part::Operand(4), "use A")
            .help("load A row-major")
        }),
        Some(1) => rows(cx, at, m, operand, out),
        _ => {}
    }
}

fn rows(cx: &Cx, at: InstRef, m: &CoopMatView, operand: usize, out: &mut Sink) {
    let Some(width) = m.component.map(Scalar::width).filter(|w| (1..32).contains(w)) else { return };
    let per_line = u64::from(32 / width);
    out.judge(&PACKED_ROWS, Verdict::of(&m.rows, |n| n.is_multiple_of(per_line)), at, || {
        Draft::new(format!("{} rows of {m} are not a multiple of {per_line}, which are packed into one line", m.rows))
            .label(at, Part::Operand(operand), "PackedINTEL")
            .label_opt(cx.decl(m), Part::Operand(2), format!("{} rows", m.rows))
    });
}

/// Checks the packed layout of a KHR load or store.
pub(crate) fn load_or_store(cx: &Cx, a: &LoadStore, out: &mut Sink) {
    packed(cx, a.at, a.matrix, a.layout, if a.is_load { 1 } else { 2 }, out);
}

/// A matrix of a multiply-add: its name, its part of the instruction, its type, and true if its SignedComponents bit is
/// set.
pub(crate) type MulAddOperand<'a> = (&'a str, Part, &'a CoopMatView, bool);

/// Checks Intel's bits on a multiply-add: A, B, C and the result.
pub(crate) fn muladd(cx: &Cx, at: InstRef, mask: u32, roles: [MulAddOperand; 4], out: &mut Sink) {
    let [a, b, c, r] = roles;
    if mask & CooperativeMatrixOperands::MatrixAAndBTF32ComponentsINTEL.0 != 0 {
        needs(
            cx,
            at,
            Part::Operand(3),
            "MatrixAAndBTF32ComponentsINTEL",
            Cap::CooperativeMatrixTF32ComponentTypeINTEL,
            out,
        );
        for (name, part, m, _) in [a, b] {
            if m.component != Some(Scalar::Float { width: 32 }) {
                out.report(&TF32, at, || {
                    Draft::new(format!("{name} is to be read as TF32, so its components must be f32; it is {m}"))
                        .label(at, part, format!("{m}"))
                        .label(at, Part::Operand(3), "MatrixAAndBTF32ComponentsINTEL")
                });
            }
        }
    }
    let bits: [(u32, &str, &[MulAddOperand]); 3] = [
        (
            CooperativeMatrixOperands::MatrixAAndBBFloat16ComponentsINTEL.0,
            "MatrixAAndBBFloat16ComponentsINTEL",
            &[a, b],
        ),
        (CooperativeMatrixOperands::MatrixCBFloat16ComponentsINTEL.0, "MatrixCBFloat16ComponentsINTEL", &[c]),
        (CooperativeMatrixOperands::MatrixResultBFloat16ComponentsINTEL.0, "MatrixResultBFloat16ComponentsINTEL", &[r]),
    ];
    for (bit, bit_name, concerned) in bits {
        if mask & bit == 0 {
            continue;
        }
        needs(cx, at, Part::Operand(3), bit_name, Cap::CooperativeMatrixBFloat16ComponentTypeINTEL, out);
        for (name, part, m, signed) in concerned {
            if !matches!(m.component, Some(Scalar::Int { width: 16, .. })) {
                out.report(&BF16, at, || {
                    Draft::new(format!(
                        "{name} is to hold bfloat16, so its components must be 16-bit integers; it is {m}"
                    ))
                    .label(at, *part, format!("{m}"))
                    .label(at, Part::Operand(3), bit_name)
                });
            }
            if *signed {
                out.report(&BF16_SIGNED, at, || {
                    Draft::new(format!("{name} can't hold bfloat16 and signed integers at once"))
                        .label(at, *part, format!("{m}"))
                        .label(at, Part::Operand(3), format!("the mask is {mask:#x}"))
                        .help("clear the SignedComponents bit")
                });
            }
        }
    }
}

/// Checks an instruction of Intel's extensions.
pub(crate) fn instruction(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let capability = match inst.op {
        Op::CooperativeMatrixLoadCheckedINTEL
        | Op::CooperativeMatrixStoreCheckedINTEL
        | Op::CooperativeMatrixConstructCheckedINTEL => Cap::CooperativeMatrixCheckedInstructionsINTEL,
        Op::CooperativeMatrixLoadOffsetINTEL | Op::CooperativeMatrixStoreOffsetINTEL => {
            Cap::CooperativeMatrixOffsetInstructionsINTEL
        }
        Op::CooperativeMatrixPrefetchINTEL => Cap::CooperativeMatrixPrefetchINTEL,
        Op::CooperativeMatrixGetElementCoordINTEL | Op::CooperativeMatrixApplyFunctionINTEL => {
            Cap::CooperativeMatrixInvocationInstructionsINTEL
        }
        Op::ConvertFToBF16INTEL | Op::ConvertBF16ToFINTEL => {
            conversion(cx, at, Cap::CooperativeMatrixBFloat16ComponentTypeINTEL, out);
            return;
        }
        Op::RoundFToTF32INTEL => {
            conversion(cx, at, Cap::CooperativeMatrixTF32ComponentTypeINTEL, out);
            return;
        }
        _ => return,
    };
    needs(cx, at, Part::Whole, &inst.op.to_string(), capability, out);
    match inst.op {
        // Operands: the indices of X, Height and the layout.
        Op::CooperativeMatrixLoadCheckedINTEL => checked(cx, at, (1, Some(4), 3), inst.ty, Part::Type, out),
        Op::CooperativeMatrixStoreCheckedINTEL => {
            let object = inst.stored().and_then(|o| cx.module.type_of(o));
            checked(cx, at, (1, Some(5), 4), object, Part::Operand(3), out);
            if inst.id(4).is_some_and(|l| cx.constant(l).fixed() == Some(access::COLUMN_MAJOR)) {
                out.report(&COLUMN_MAJOR, at, || {
                    Draft::new("Intel's compiler has no checked store that is column-major").label(
                        at,
                        Part::Operand(4),
                        "ColumnMajorKHR",
                    )
                });
            }
        }
        Op::CooperativeMatrixLoadOffsetINTEL => checked(cx, at, (1, None, 3), inst.ty, Part::Type, out),
        Op::CooperativeMatrixStoreOffsetINTEL => {
            let object = inst.stored().and_then(|o| cx.module.type_of(o));
            checked(cx, at, (1, None, 4), object, Part::Operand(3), out);
        }
        Op::CooperativeMatrixConstructCheckedINTEL => construct(cx, at, out),
        Op::CooperativeMatrixApplyFunctionINTEL => apply(cx, at, out),
        Op::CooperativeMatrixPrefetchINTEL => prefetch(cx, at, out),
        _ => {}
    }
}

fn wrong(cx: &Cx, at: InstRef, name: &str, part: Part, wanted: &str, is: String, out: &mut Sink) {
    let op = cx.inst(at).op;
    out.report(&CHECKED, at, || {
        Draft::new(format!("{name} of {op} must be {wanted}; this is {is}")).label(at, part, format!("this is {is}"))
    });
}

fn integers(cx: &Cx, at: InstRef, x: usize, height: Option<usize>, out: &mut Sink) {
    let inst = cx.inst(at);
    for (name, i) in [("X", x), ("Y", x + 1)] {
        let Some(id) = inst.id(i) else { continue };
        if !cx.module.type_of(id).is_some_and(|t| is_int32(cx, t)) {
            wrong(cx, at, name, Part::Operand(i), "a 32-bit integer", cx.describe_value(id), out);
        }
    }
    let Some(height) = height else { return };
    for (name, i) in [("Height", height), ("Width", height + 1)] {
        let Some(id) = inst.id(i) else { continue };
        if !cx.module.type_of(id).and_then(|t| cx.scalar(t)).is_some_and(Scalar::is_int) {
            wrong(cx, at, name, Part::Operand(i), "an integer", cx.describe_value(id), out);
        }
    }
}

/// Checks a load or store with coordinates: operands X, Height if it is checked, and the layout.
fn checked(
    cx: &Cx,
    at: InstRef,
    (x, height, layout): (usize, Option<usize>, usize),
    ty: Option<Id>,
    part: Part,
    out: &mut Sink,
) {
    let inst = cx.inst(at);
    let matrix = ty.and_then(|t| cx.matrix(t));
    if matrix.is_none() {
        let is = ty.map_or_else(|| "no value".into(), |t| cx.describe(t));
        wrong(cx, at, "the matrix", part, "a cooperative matrix", is, out);
    }
    integers(cx, at, x, height, out);
    if let Some(pointer) = inst.id(0).map(|p| Pointer::of(cx, p)) {
        let pointee = pointer.pointee.map(|p| (p, scalar_or_vector(cx.module, p).is_some()));
        // DPC++ uses a struct of one member for bfloat16 and half.
        let accepted = pointee.is_some_and(|(p, numeric)| {
            numeric || matches!(Type::of(cx.module, p), Some(Type::Struct { members }) if members.len() == 1)
        });
        if !accepted {
            let is = pointee
                .map_or_else(|| cx.describe_value(pointer.id), |(p, _)| format!("a pointer to {}", cx.describe(p)));
            wrong(cx, at, "Pointer", Part::Operand(0), "a pointer to a scalar or vector", is, out);
        }
        let classes = [StorageClass::CrossWorkgroup, StorageClass::Generic];
        if let Some(storage) = pointer.storage.filter(|s| height.is_some() && !classes.contains(s)) {
            let name = storage_name(storage);
            out.report(&CHECKED_STORAGE, at, || {
                Draft::new(format!(
                    "Intel's compiler has checked accesses to CrossWorkgroup and Generic memory; this is {name}"
                ))
                .label(at, Part::Operand(0), format!("points to {name} memory"))
            });
        }
    }
    if let Some(id) = inst.id(layout) {
        access::layout(cx, at, id, layout, out);
        packed(cx, at, matrix, id, layout, out);
    }
    let operand = height.map_or(layout + 1, |h| h + 2);
    let is_load = matches!(inst.op, Op::CooperativeMatrixLoadCheckedINTEL | Op::CooperativeMatrixLoadOffsetINTEL);
    let Some(pointer) = inst.id(0).map(|p| Pointer::of(cx, p)) else { return };
    if let Some(stride) = inst.id(operand) {
        if cx.module.type_of(stride).and_then(|t| cx.scalar(t)).is_some_and(Scalar::is_int) {
            let matrix = matrix.map(MatrixType::Khr);
            stride::sign(cx, &Strided { at, is_load, matrix, pointer, layout: Const::Unknown, stride, operand }, out);
        } else {
            wrong(cx, at, "Stride", Part::Operand(operand), "an integer", cx.describe_value(stride), out);
        }
    }
    memory::check(cx, &memory::Site { at, is_load, memory: operand + 1, pointer }, out);
}

fn construct(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    integers(cx, at, 0, Some(2), out);
    let (Some(ty), Some(value)) = (inst.ty, inst.id(4)) else { return };
    let Some(matrix) = cx.matrix(ty) else {
        wrong(cx, at, "the result", Part::Type, "a cooperative matrix", cx.describe(ty), out);
        return;
    };
    if cx.module.type_of(value) != Some(matrix.ty.component) {
        out.report(&CHECKED_VALUE, at, || {
            let (is, wanted) = (cx.describe_value(value), cx.describe(matrix.ty.component));
            Draft::new(format!("the elements of {matrix} are {wanted}; this is {is}"))
                .label(at, Part::Operand(4), format!("this is {is}"))
                .label_opt(cx.decl(matrix), Part::Operand(0), format!("the components are {wanted}"))
        });
    }
}

fn conversion(cx: &Cx, at: InstRef, capability: Cap, out: &mut Sink) {
    let inst = cx.inst(at);
    let (Some(value), Some(ty)) = (inst.id(0), inst.ty) else { return };
    let (from, to) = match (cx.matrix_of(value), cx.matrix(ty)) {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return,
        _ => {
            out.report(&CONVERSION, at, || {
                let (was, is) = (cx.describe_value(value), cx.describe(ty));
                Draft::new(format!("{} between {was} and {is}: both must be matrices", inst.op)).label(
                    at,
                    Part::Whole,
                    "converted here",
                )
            });
            return;
        }
    };
    needs(cx, at, Part::Whole, &format!("{} of matrices", inst.op), capability, out);
    let float = |m: &CoopMatView| m.component == Some(Scalar::Float { width: 32 });
    let bits = |m: &CoopMatView| matches!(m.component, Some(Scalar::Int { width: 16, .. }));
    let suits = match inst.op {
        Op::ConvertFToBF16INTEL => float(from) && bits(to),
        Op::ConvertBF16ToFINTEL => bits(from) && float(to),
        _ => float(from) && float(to),
    };
    let wanted = match inst.op {
        Op::ConvertFToBF16INTEL => "from f32 to 16-bit integers",
        Op::ConvertBF16ToFINTEL => "from 16-bit integers to f32",
        _ => "from f32 to f32",
    };
    let pairs = [
        (from.ty.scope, to.ty.scope),
        (from.ty.rows, to.ty.rows),
        (from.ty.cols, to.ty.cols),
        (from.ty.use_, to.ty.use_),
    ];
    let shape = pairs.into_iter().map(|(a, b)| cx.equal(a, b)).find(|v| *v != Verdict::Holds);
    let verdict = if suits { shape.unwrap_or(Verdict::Holds) } else { Verdict::Broken };
    out.judge(&CONVERSION, verdict, at, || {
        let message = if suits {
            format!("{} keeps scope, rows, columns and use; this one goes from {from} to {to}", inst.op)
        } else {
            format!("{} goes {wanted}; this one goes from {from} to {to}", inst.op)
        };
        Draft::new(message)
            .label(at, Part::Whole, "converted here")
            .label_opt(cx.decl(from), Part::Whole, format!("{from}"))
            .label_opt(cx.decl(to), Part::Whole, format!("{to}"))
    });
}

fn apply(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    out.report(&APPLY_NOTE, at, || {
        Draft::new("nothing names the function that is to be called; no consumer is known, and it can't be lowered")
            .label(at, Part::Operand(0), "an object, not a function")
            .help("loop over the components, or use OpCooperativeMatrixPerElementOpNV")
    });
    let (Some(object), Some(value), Some(ty)) = (inst.id(0), inst.id(1), inst.ty) else { return };
    if Pointer::of(cx, object).storage.is_none() {
        let is = cx.describe_value(object);
        out.report(&APPLY, at, || {
            Draft::new(format!("the function object must be a pointer; this is {is}")).label(
                at,
                Part::Operand(0),
                format!("this is {is}"),
            )
        });
    }
    let (Some(from), Some(to)) = (cx.matrix_of(value), cx.matrix(ty)) else {
        out.report(&APPLY, at, || {
            let (was, is) = (cx.describe_value(value), cx.describe(ty));
            Draft::new(format!("a function is applied to a matrix and gives one; this goes from {was} to {is}")).label(
                at,
                Part::Whole,
                "applied here",
            )
        });
        return;
    };
    let pairs = [(from.ty.scope, to.ty.scope), (from.ty.rows, to.ty.rows), (from.ty.cols, to.ty.cols)];
    let verdict = pairs.into_iter().map(|(a, b)| cx.equal(a, b)).find(|v| *v != Verdict::Holds);
    out.judge(&APPLY, verdict.unwrap_or(Verdict::Holds), at, || {
        Draft::new(format!("scope, rows and columns stay when a function is applied; {from} can't become {to}"))
            .label(at, Part::Whole, "applied here")
            .label_opt(cx.decl(from), Part::Whole, format!("{from}"))
            .label_opt(cx.decl(to), Part::Whole, format!("{to}"))
    });
}

fn prefetch(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let words = inst.operands.len();
    // Pointer, rows, columns, level, layout; perhaps a stride, and memory operands.
    let constant = |i: usize| {
        let id = inst.word(i).and_then(Id::new);
        id.and_then(|id| cx.module.def_inst(id)).is_some_and(|d| d.op.is_constant())
    };
    // A level is a small number; with X and Y there is an id at its position, and the level behind it is not a
    // constant's id.
    let level = inst.word(3).is_some_and(|level| level < 8) && (words < 7 || !constant(3) || !constant(6));
    let shipped = words >= 5 && level && constant(1) && constant(2) && constant(4);
    if !shipped {
        out.report(&PREFETCH, at, || {
            Draft::new(
                "a prefetch with X and Y, or without constants for rows, columns and layout; compilers make neither",
            )
            .label(at, Part::Whole, format!("{words} operands"))
            .help("leave it out: it changes nothing")
        });
    }
}

/// Checks the cache controls of a module.
pub(crate) fn cache_controls(cx: &Cx, out: &mut Sink) {
    const CONTROLS: [u32; 2] = [Decoration::CacheControlLoadINTEL.0, Decoration::CacheControlStoreINTEL.0];
    let classes =
        [StorageClass::Function, StorageClass::UniformConstant, StorageClass::CrossWorkgroup, StorageClass::Generic];
    let mut seen: Vec<(Id, u32, u32)> = Vec::new();
    for at in cx.module.globals_with(Op::Decorate) {
        let inst = cx.inst(at);
        let (Some(target), Some(control), Some(level)) = (inst.id(0), inst.word(1), inst.word(2)) else { continue };
        if !CONTROLS.contains(&control) {
            continue;
        }
        let storage = Pointer::of(cx, target).storage;
        let message = match storage {
            None => Some("a cache control is on something that is not a pointer".to_owned()),
            Some(s) if !classes.contains(&s) => {
                Some(format!("a cache control is on a pointer to {} memory, which it is not for", storage_name(s)))
            }
            Some(_) if seen.contains(&(target, control, level)) => {
                Some(format!("cache level {level} has another control already"))
            }
            Some(_) => None,
        };
        seen.push((target, control, level));
        if let Some(message) = message {
            out.report(&CACHE, at, || {
                Draft::new(message).label(at, Part::Whole, "a cache control").label_opt(
                    cx.def(target),
                    Part::Whole,
                    "is on this",
                )
            });
        }
    }
}

/// Reports and returns true if a matrix is filled through a pointer, as DPC++ does.
pub(crate) fn filled(cx: &Cx, at: InstRef, matrix: &str, out: &mut Sink) -> bool {
    let inst = cx.inst(at);
    let pointer = inst.op == Op::CompositeConstruct
        && cx.has(Capability::Kernel)
        && inst.operands.len() == 1
        && inst.id(0).is_some_and(|v| Pointer::of(cx, v).storage == Some(StorageClass::Function));
    if pointer {
        out.report(&FILL, at, || {
            Draft::new(format!("{matrix} is filled through a pointer: DPC++ does so, Intel's compiler loads the value"))
                .label(at, Part::Operand(0), "a pointer to the value")
                .help("load the value first, for other consumers")
        });
    }
    pointer
}
