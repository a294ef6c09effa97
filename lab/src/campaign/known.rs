//! The known faults of drivers, recognized by the modules that show them. `docs/drivers.md` has the evidence.

use coop_ir::constant::Constants;
use coop_ir::types::{Scalar, coop_mat_of};
use coop_ir::{Id, Inst, InstRef, Module, Op};
use coop_uniformity::{Analyzer, Options, Uniformity};

/// The storage class.
const PRIVATE: u32 = 6;

/// The bit of memory operands.
const NONTEMPORAL: u32 = 4;

/// A known fault: a part of the driver's name, a predicate on modules, and a description.
type Known = (&'static str, fn(&Module, &Constants) -> bool, &'static str);

/// Faults for which modules are neither run nor compared.
const WRONG: &[Known] = &[
    ("", has_constant_length, "known: drivers end at OpSpecConstantOp with the length of a matrix"),
    ("", selects_matrices, "known: drivers need not take OpSelect of matrices"),
    ("llvmpipe", has_wide_stride, "known: a Stride of 64 bits ends llvmpipe's compiler"),
    ("llvmpipe", has_wide_memory, "known: bytes loaded from 32-byte vectors end llvmpipe's compiler"),
    ("llvmpipe", c_lives_on, "known: llvmpipe sums products of several tiles up in C itself"),
    (
        "llvmpipe",
        |m, c| has_tiles(m, c) && calls(m),
        "known: llvmpipe has no functions beside matrices of several tiles",
    ),
    (
        "llvmpipe",
        |m, c| has_tiles(m, c) && points_into(m),
        "known: llvmpipe has no arrays of matrices of several tiles",
    ),
    ("llvmpipe", parts_at_barriers, "known: llvmpipe loses subgroups at barriers that others do not reach"),
    ("llvmpipe", keeps_private, "known: llvmpipe reads private arrays of matrices after they are written again"),
    ("NVIDIA", has_read_wide_stride, "known: NVIDIA does not compile a Stride of 64 bits that is read from memory"),
    (
        "NVIDIA",
        steps_for_all,
        "known: NVIDIA loads factors for workgroups wrongly with an innermost stride, and with decode functions at edges",
    ),
    (
        "Portable Computing Language",
        |m, _| reads_narrow_once(m),
        "known: nontemporal loads of 8 or 16 bits may end pocl's compiler",
    ),
];

/// Faults that may crash a driver's compiler, but mostly do not: they are a reason only where that has happened.
const ENDS: &[Known] = &[(
    "llvmpipe",
    loads_in_vain,
    "known: column-major loads of another type's memory that only dead code uses end llvmpipe's compiler",
)];

/// Returns the known fault of a device's driver that a module shows, if any.
pub(super) fn is_wrong(module: &Module, constants: &Constants, device: &str) -> Option<&'static str> {
    find(WRONG, module, constants, device)
}

/// Returns the reason why the driver of a device may have crashed at a module.
pub(super) fn may_end(module: &Module, constants: &Constants, device: &str) -> Option<&'static str> {
    find(ENDS, module, constants, device)
}

fn find(list: &[Known], module: &Module, constants: &Constants, device: &str) -> Option<&'static str> {
    list.iter().find(|k| device.contains(k.0) && (k.1)(module, constants)).map(|k| k.2)
}

/// Returns true if a constant is the length of a matrix.
fn has_constant_length(m: &Module, _: &Constants) -> bool {
    let length = u32::from(Op::CooperativeMatrixLengthKHR.0);
    m.globals_with(Op::SpecConstantOp).any(|r| m.inst(r).word(0) == Some(length))
}

/// Returns true if one of two matrices is chosen by an instruction.
pub(super) fn selects_matrices(m: &Module, _: &Constants) -> bool {
    let matrix = |ty: Id| {
        let types = [Op::TypeCooperativeMatrixKHR, Op::TypeCooperativeMatrixNV];
        m.def_inst(ty).is_some_and(|i| types.contains(&i.op))
    };
    insts(m).any(|i| i.op == Op::Select && i.ty.is_some_and(matrix))
}

/// Returns true if a number of 8 or 16 bits is loaded with the hint that it is not needed again.
fn reads_narrow_once(m: &Module) -> bool {
    let narrow = |ty: Option<Id>| {
        matches!(
            ty.and_then(|t| coop_ir::types::scalar(m, t)),
            Some(Scalar::Int { width: 8 | 16, .. } | Scalar::Float { width: 16 })
        )
    };
    insts(m).any(|i| i.op == Op::Load && i.word(1).is_some_and(|mask| mask & NONTEMPORAL != 0) && narrow(i.ty))
}

fn insts(m: &Module) -> impl Iterator<Item = &Inst> {
    m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r))
}

/// Returns true if a barrier of subgroups is where not all subgroups of a workgroup are.
fn parts_at_barriers(m: &Module, constants: &Constants) -> bool {
    let barrier = |r: &InstRef| {
        let inst = m.inst(*r);
        inst.op == Op::ControlBarrier && inst.id(0).and_then(|s| constants.get(s).value()) == Some(3)
    };
    let blocks = || m.functions.iter().flat_map(|f| &f.blocks).filter(|b| b.insts.iter().any(barrier));
    if blocks().next().is_none() {
        return false;
    }
    let analyzer = Analyzer::new(m, constants);
    let options = Options { subgroup_size: Some(8), facts: true, unreached: true };
    analyzer.entry_points().iter().filter_map(|e| analyzer.analyze(e, options).ok()).any(|found| {
        let label = |b: &coop_ir::Block| m.inst(b.label).result;
        blocks().filter_map(label).any(|label| found.block(label) != Uniformity::Workgroup)
    })
}

/// Returns true if factors of workgroup scope are loaded by way of a layout in which what follows in a row does not
/// follow in memory: an innermost stride that is not 1, or an innermost slice of 1. Or with a decode function by way of
/// one that clamps to the edge or mirrors (modes 2 and 4).
fn steps_for_all(m: &Module, constants: &Constants) -> bool {
    let last = |i: &Inst| i.ids().last().and_then(|id| constants.get(id).value());
    let steps = insts(m).any(|i| match i.op {
        Op::TensorLayoutSetStrideNV => last(i) != Some(1),
        Op::TensorLayoutSliceNV => last(i) == Some(1),
        _ => false,
    });
    insts(m).filter(|i| i.op == Op::CooperativeMatrixLoadTensorNV).any(|i| {
        let matrix = i.ty.and_then(|ty| coop_ir::types::coop_mat(m, ty)).map(|ty| ty.view(m, constants));
        let factor = matrix.is_some_and(|v| v.scope.value() == Some(2) && v.use_.value() != Some(2));
        let layout = i.id(2).and_then(|layout| m.def_inst(m.type_of(layout)?));
        let mode = layout.and_then(|ty| constants.get(ty.id(1)?).value());
        let decodes = i.ids().filter_map(|id| m.def_inst(id)).any(|i| i.op == Op::Function);
        factor && (steps || decodes && matches!(mode, Some(2 | 4)))
    })
}

/// Returns true if a matrix comes from a place of a private array that is not constant, and the array is written behind
/// that.
fn keeps_private(m: &Module, _: &Constants) -> bool {
    let chain = |pointer: Id| m.def_inst(pointer).filter(|i| i.op.is_member_chain());
    let private = |pointer: Id| {
        let base = chain(pointer).and_then(|c| c.id(0)).unwrap_or(pointer);
        let variable = m.def_inst(base).filter(|v| v.op == Op::Variable)?;
        (variable.word(0) == Some(PRIVATE)).then_some(base)
    };
    let constant = |id: Id| m.def_inst(id).is_some_and(|i| i.op.is_constant());
    let mut loaded: Vec<Id> = Vec::new();
    insts(m).any(|i| match i.op {
        Op::Load if i.ty.is_some_and(|ty| coop_ir::types::coop_mat(m, ty).is_some()) => {
            let moving = i.id(0).filter(|p| chain(*p).is_some_and(|c| !c.ids_from(1).all(constant)));
            loaded.extend(moving.and_then(private));
            false
        }
        Op::Store => i.accessed().and_then(private).is_some_and(|variable| loaded.contains(&variable)),
        // What is called may write it.
        Op::FunctionCall => !loaded.is_empty(),
        _ => false,
    })
}

/// Returns true if a matrix is loaded column by column from memory of numbers of another width, and used behind a
/// branch at most.
fn loads_in_vain(m: &Module, constants: &Constants) -> bool {
    let column_major = |i: &Inst| i.id(1).and_then(|layout| constants.get(layout).value()) == Some(1);
    let foreign = |i: &Inst| {
        let component =
            i.ty.and_then(|ty| coop_ir::types::coop_mat(m, ty))
                .and_then(|ty| coop_ir::types::scalar(m, ty.component))
                .map(Scalar::width);
        let pointee = i.id(0).and_then(|pointer| m.def_inst(m.type_of(pointer)?)?.id(1));
        let scalar = pointee.and_then(|ty| coop_ir::types::scalar_or_vector(m, ty)).map(|(s, _)| s.width());
        component.zip(scalar).is_some_and(|(a, b)| a != b)
    };
    m.functions.iter().flat_map(|f| &f.blocks).any(|block| {
        let here = || block.insts.iter().map(|r| m.inst(*r));
        let loads = here().filter(|i| i.op == Op::CooperativeMatrixLoadKHR && column_major(i) && foreign(i));
        loads.filter_map(|i| i.result).any(|id| {
            let used = |i: &Inst| !matches!(i.op, Op::Phi | Op::Store) && i.ids().any(|o| o == id);
            !here().any(used)
        })
    })
}

/// Returns true if C is used again after a multiplication over several tiles.
fn c_lives_on(m: &Module, constants: &Constants) -> bool {
    let products = insts(m).filter(|i| i.op == Op::CooperativeMatrixMulAddKHR);
    let long = products.filter(|i| {
        let a = i.id(0).and_then(|a| coop_mat_of(m, a));
        a.is_some_and(|a| a.view(m, constants).cols.value() != Some(8))
    });
    long.filter_map(|i| i.id(2))
        .any(|c| insts(m).flat_map(|i| i.ids().collect::<Vec<_>>()).filter(|id| *id == c).count() > 1)
}

/// Returns true if there is a matrix type that is larger than one tile of llvmpipe's.
fn has_tiles(m: &Module, constants: &Constants) -> bool {
    let types =
        m.globals_with(Op::TypeCooperativeMatrixKHR).filter_map(|r| coop_ir::types::coop_mat(m, m.inst(r).result?));
    types.map(|t| t.view(m, constants)).any(|v| v.rows.value() != Some(8) || v.cols.value() != Some(8))
}

fn calls(m: &Module) -> bool {
    insts(m).any(|i| i.callee().is_some())
}

/// Returns true if a chain leads to a matrix.
fn points_into(m: &Module) -> bool {
    let chains = insts(m).filter(|i| i.op == Op::AccessChain);
    chains.filter_map(|i| m.def_inst(i.ty?)?.id(1)).any(|pointee| coop_ir::types::coop_mat(m, pointee).is_some())
}

/// Returns true if a matrix is loaded from memory whose elements are more than 16 of its components. Stores are no
/// trouble.
fn has_wide_memory(m: &Module, _: &Constants) -> bool {
    insts(m).filter(|i| i.op == Op::CooperativeMatrixLoadKHR).any(|i| {
        let component = i.ty.and_then(|ty| coop_ir::types::coop_mat(m, ty)).map(|ty| ty.component);
        let pointee = i.id(0).and_then(|pointer| m.def_inst(m.type_of(pointer)?)?.id(1));
        let bytes = |ty: Option<Id>| ty.and_then(|ty| coop_ir::types::packed_bytes(m, ty));
        bytes(pointee).zip(bytes(component)).is_some_and(|(all, one)| all > 16 * one)
    })
}

fn has_wide_stride(m: &Module, _: &Constants) -> bool {
    wide_strides(m).next().is_some()
}

/// Returns true if a stride of 64 bits is not made of constants alone.
fn has_read_wide_stride(m: &Module, _: &Constants) -> bool {
    fn reads(m: &Module, id: Id, depth: u32) -> bool {
        let inst = m.def_inst(id).filter(|i| !i.op.is_constant());
        inst.is_some_and(|i| depth == 0 || i.op == Op::Load || i.ids().any(|o| reads(m, o, depth - 1)))
    }
    wide_strides(m).any(|stride| reads(m, stride, 8))
}

fn wide_strides(m: &Module) -> impl Iterator<Item = Id> {
    let strides = insts(m).filter_map(|i| match i.op {
        Op::CooperativeMatrixLoadNV => i.id(1),
        Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreNV => i.id(2),
        Op::CooperativeMatrixStoreKHR => i.id(3),
        _ => None,
    });
    let width = |id: Id| coop_ir::types::scalar(m, m.type_of(id)?).map(Scalar::width);
    strides.filter(move |id| width(*id).is_some_and(|w| w > 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_exec::Case;
    use std::path::Path;

    /// Modules that show faults are recognized.
    #[test]
    fn modules_that_show_it_are_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/drivers");
        let files = std::fs::read_dir(folder).expect("the folder").flatten().map(|e| e.path());
        let mut found: Vec<(String, Option<&str>)> = files
            .filter(|p| p.extension().is_some_and(|e| e == "spvasm"))
            .map(|p| {
                let text = std::fs::read_to_string(&p).expect("readable");
                let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
                let case = Case::load(&p.with_extension("toml")).unwrap_or_else(|e| panic!("{e}"));
                let constants = Constants::new(&module, &case.specialization().unwrap_or_default());
                let why = |device| is_wrong(&module, &constants, device).or(may_end(&module, &constants, device));
                assert_eq!(why("NVIDIA H100"), None);
                let name = p.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
                (name, why("llvmpipe (LLVM 21.1.8, 256 bits)"))
            })
            .collect();
        found.sort();
        let wanted = [
            ("barrier-of-some-subgroups", "loses subgroups"),
            ("bytes-in-wide-vectors", "32-byte vectors"),
            ("column-major-in-vain", "column-major"),
            ("private-array-read-late", "private arrays"),
            ("tiles-and-c", "in C itself"),
            ("tiles-and-callback", "no functions"),
            ("tiles-and-reduction", "no functions"),
            ("tiles-in-array", "no arrays"),
        ];
        assert_eq!(found.len(), wanted.len());
        for ((name, why), (file, part)) in found.iter().zip(wanted) {
            assert!(name == file && why.is_some_and(|w| w.contains(part)), "{name}: {why:?}, not {file}: {part}");
        }
    }

    /// Loads that an NVIDIA GPU gets wrong, and similar ones that it does not.
    #[test]
    fn factors_of_workgroups_in_steps_are_known() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/drivers/nvidia/workgroup-step.spvasm");
        let text = std::fs::read_to_string(file).expect("readable");
        let why = |text: &str| {
            let module = coop_ir::text::parse(text).expect("a module");
            is_wrong(&module, &Constants::new(&module, &Default::default()), "NVIDIA H100")
        };
        assert!(why(&text).is_some_and(|w| w.contains("innermost stride")));
        for (from, to) in [
            ("%b %uint_64 %uint_2", "%b %uint_64 %uint_1"),
            ("%half %uint_2 %uint_32 %uint_32 %uint_0", "%half %uint_2 %uint_32 %uint_32 %uint_2"),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(why(&text.replace(from, to)), None, "{to}");
        }
    }

    /// A module that an NVIDIA GPU does not take, and one that it takes: the same lowered to its own matrices.
    #[test]
    fn strides_that_are_read_are_narrow_when_lowered() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/drivers/nvidia/stride-read.spvasm");
        let module = coop_ir::text::parse(&std::fs::read_to_string(file).expect("readable")).expect("a module");
        let why = |m: &Module| is_wrong(m, &Constants::new(m, &Default::default()), "NVIDIA H100");
        assert!(why(&module).is_some_and(|w| w.contains("Stride of 64 bits")));
        let profile = coop_device::Profile::builtin("nvidia-h100").expect("built in");
        for target in [coop_passes::Target::Khr, coop_passes::Target::Ext] {
            let mut options = coop_passes::Options::new(target);
            options.profile = Some(&profile);
            let lowered = coop_passes::lower(&module, &options).unwrap_or_else(|e| panic!("{target}: {e}")).module;
            assert!(insts(&lowered).any(|i| i.op == Op::CooperativeMatrixLoadKHR));
            assert_eq!(wide_strides(&lowered).count(), 0, "{target}");
            assert_eq!(why(&lowered), None, "{target}");
        }
    }

    /// Modules that are similar but do not show the fault.
    #[test]
    fn modules_without_it_are_not() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/drivers");
        for (name, from, to) in [
            ("barrier-of-some-subgroups", "OpULessThan %bool %26 ", "OpULessThan %bool %uint_0 "),
            ("column-major-in-vain", "%28 %uint_1 %uint_32", "%28 %uint_0 %uint_32"),
            ("private-array-read-late", "%_ptr_Private_19 %5 %33", "%_ptr_Private_19 %5 %uint_1"),
        ] {
            let text = std::fs::read_to_string(folder.join(format!("{name}.spvasm"))).expect("readable");
            assert!(text.contains(from), "{name}");
            let text = text.replace(from, to);
            let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let constants = Constants::new(&module, &Default::default());
            assert_eq!(is_wrong(&module, &constants, "llvmpipe"), None, "{name}");
            assert_eq!(may_end(&module, &constants, "llvmpipe"), None, "{name}");
        }
    }
}
