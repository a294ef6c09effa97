//! Rules about the module as a whole: capabilities, extensions, versions, barriers.

use super::matrices::MATRIX_TYPES;
use super::{F32, Mutant, Rows, U32};
use coop_ir::grammar::Op;
use coop_ir::spv::{BuiltIn, Capability, Decoration, Scope, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Inst, Operand};

pub(super) const ROWS: Rows = &[
    ("component-int4-memory", |x| {
        let four = x.scalar(Scalar::Int { width: 4, signed: false });
        x.capability(Capability::Int4TypeINTEL);
        coop_ir::builder::require_extension(&mut x.m, "SPV_INTEL_int4");
        x.variable(StorageClass::Workgroup, four);
        Some(())
    }),
    ("component-interface", |x| {
        let bf16 = x.scalar(Scalar::BF16);
        x.capability(Capability::BFloat16TypeKHR);
        coop_ir::builder::require_extension(&mut x.m, "SPV_KHR_bfloat16");
        let variable = x.variable(StorageClass::Input, bf16);
        x.annotation(Inst::new(
            Op::Decorate,
            None,
            None,
            [variable.into(), Decoration::Location.into(), Operand::Word(0)],
        ));
        Some(())
    }),
    ("component-width-capability", |x| {
        let used = |x: &Mutant<'_>, s: Scalar| {
            MATRIX_TYPES
                .iter()
                .flat_map(|op| x.m.globals_with(*op))
                .any(|r| x.m.inst(r).id(0).and_then(|c| coop_ir::types::scalar(&x.m, c)) == Some(s))
        };
        let int = |width, signed| Scalar::Int { width, signed };
        let both = |x: &Mutant<'_>, w| used(x, int(w, true)) || used(x, int(w, false));
        let all = [
            (&[Capability::Int8, Capability::StorageBuffer8BitAccess][..], both(x, 8)),
            (&[Capability::Int64], both(x, 64)),
            (
                &[Capability::Float16, Capability::Int16, Capability::StorageBuffer16BitAccess],
                both(x, 16) || used(x, Scalar::Float { width: 16 }),
            ),
            (&[Capability::Float64], used(x, Scalar::Float { width: 64 })),
        ];
        let all: Vec<&[Capability]> = all.iter().filter(|c| c.1).map(|c| c.0).collect();
        if all.is_empty() {
            return None;
        }
        let some = x.e.pick(&all);
        while x.drop_capability(some).is_some() {}
        Some(())
    }),
    ("module-capability-missing", |x| {
        // Those that something in the module needs: the generator declares no others.
        let mut all = vec![
            Capability::BFloat16CooperativeMatrixKHR,
            Capability::CooperativeMatrixReductionsNV,
            Capability::CooperativeMatrixConversionsNV,
            Capability::CooperativeMatrixPerElementOperationsNV,
            Capability::CooperativeMatrixTensorAddressingNV,
            Capability::TensorAddressingNV,
            Capability::CooperativeMatrixDecodeVectorNV,
            Capability::CooperativeMatrixConversionsEXT,
            Capability::CooperativeMatrixGetCoordinateEXT,
            Capability::CooperativeMatrixNV,
            Capability::CooperativeMatrixConversionQCOM,
        ];
        // Others imply these.
        if [
            Capability::CooperativeMatrixConversionQCOM,
            Capability::CooperativeMatrixLayoutsARM,
            Capability::BFloat16CooperativeMatrixKHR,
            Capability::PackedCooperativeMatrixINTEL,
            Capability::CooperativeMatrixTF32ComponentTypeINTEL,
            Capability::CooperativeMatrixBFloat16ComponentTypeINTEL,
        ]
        .iter()
        .all(|c| !x.m.has_capability(*c))
        {
            all.push(Capability::CooperativeMatrixKHR);
        }
        if !x.m.has_capability(Capability::CooperativeMatrixDecodeVectorNV) {
            all.push(Capability::CooperativeMatrixBlockLoadsNV);
        }
        x.drop_capability(&all)
    }),
    ("module-entry-point-missing", |x| {
        if x.m.has_capability(Capability::Linkage) {
            return None;
        }
        while let Some(r) = x.op(Op::EntryPoint) {
            x.remove(r);
        }
        Some(())
    }),
    ("module-extension-missing", |x| {
        let all = [
            ("SPV_KHR_cooperative_matrix", [Capability::CooperativeMatrixKHR, Capability::CooperativeMatrixKHR]),
            ("SPV_NV_cooperative_matrix", [Capability::CooperativeMatrixNV, Capability::CooperativeMatrixNV]),
            (
                "SPV_NV_cooperative_matrix2",
                [Capability::CooperativeMatrixConversionsNV, Capability::CooperativeMatrixTensorAddressingNV],
            ),
            ("SPV_NV_tensor_addressing", [Capability::TensorAddressingNV, Capability::TensorAddressingNV]),
            (
                "SPV_NV_cooperative_matrix_decode_vector",
                [Capability::CooperativeMatrixDecodeVectorNV, Capability::CooperativeMatrixDecodeVectorNV],
            ),
            (
                "SPV_EXT_cooperative_matrix_maintenance1",
                [Capability::CooperativeMatrixConversionsEXT, Capability::CooperativeMatrixGetCoordinateEXT],
            ),
            (
                "SPV_QCOM_cooperative_matrix_conversion",
                [Capability::CooperativeMatrixConversionQCOM, Capability::CooperativeMatrixConversionQCOM],
            ),
            (
                "SPV_ARM_cooperative_matrix_layouts",
                [Capability::CooperativeMatrixLayoutsARM, Capability::CooperativeMatrixLayoutsARM],
            ),
            (
                "SPV_INTEL_joint_matrix",
                [Capability::CooperativeMatrixCheckedInstructionsINTEL, Capability::PackedCooperativeMatrixINTEL],
            ),
            ("SPV_KHR_bfloat16", [Capability::BFloat16TypeKHR, Capability::BFloat16CooperativeMatrixKHR]),
        ];
        let used: Vec<&str> =
            all.iter().filter(|(_, c)| c.iter().any(|c| x.m.has_capability(*c))).map(|(name, _)| *name).collect();
        let name = if used.is_empty() { return None } else { x.e.pick(&used) };
        let r = x.find(|_, i| i.op == Op::Extension && i.string(0).is_some_and(|(s, _)| s == name))?;
        x.remove(r);
        Some(())
    }),
    ("module-memory-model", |x| {
        // The first extension wants no memory model.
        let r = x.op(Op::MemoryModel).filter(|_| !x.m.has_capability(Capability::CooperativeMatrixNV))?;
        x.set(r, 1, 1u32)
    }),
    ("module-version-too-old", |x| {
        if x.m.has_capability(Capability::CooperativeMatrixNV) {
            return None;
        }
        x.m.header.version = 0x10200;
        Some(())
    }),
    ("module-version-extension", |x| {
        x.find(|_, i| i.op == Op::Extension && i.string(0).is_some_and(|(s, _)| s == "SPV_NV_cooperative_matrix2"))?;
        x.m.header.version = 0x10500;
        Some(())
    }),
    ("module-workgroup-size", |x| {
        let workgroup =
            x.m.globals_with(Op::TypeCooperativeMatrixKHR)
                .any(|r| x.m.inst(r).id(1).and_then(|s| x.value(s)) == Some(2));
        if !workgroup {
            return None;
        }
        let modes = [Op::ExecutionMode, Op::ExecutionModeId];
        let all: Vec<_> = x.m.globals.iter().copied().filter(|r| modes.contains(&x.m.inst(*r).op)).collect();
        all.into_iter().for_each(|r| x.remove(r));
        // A constant may say it too.
        while let Some(r) =
            x.find(|_, i| i.decorates(Decoration::BuiltIn) && i.enumerant(2) == Some(BuiltIn::WorkgroupSize))
        {
            x.remove(r);
        }
        Some(())
    }),
    ("sync-device-scope", |x| {
        let declared = |c| x.m.has_capability(c);
        if !declared(Capability::VulkanMemoryModel) || declared(Capability::VulkanMemoryModelDeviceScope) {
            return None;
        }
        let (copy, device) = (x.copy_of(Op::ControlBarrier)?, x.u32(Scope::Device.0));
        x.set(copy, 1, device)
    }),
    ("sync-execution-scope", |x| {
        let (copy, scope) = (x.copy_of(Op::ControlBarrier)?, x.u32(1));
        x.set(copy, 0, scope)
    }),
    ("sync-scope-not-constant", |x| {
        let (copy, two) = (x.copy_of(Op::ControlBarrier)?, x.u32(2));
        let (scope, at) = (x.computed(copy, two)?, x.e.pick(&[0, 1]));
        x.set(copy, at, scope)
    }),
    ("sync-semantics-not-constant", |x| {
        let copy = x.copy_of(Op::ControlBarrier)?;
        let old = x.inst(copy).id(2)?;
        let semantics = x.computed(copy, old)?;
        x.set(copy, 2, semantics)
    }),
    ("type-size-of", |x| {
        let matrix = |m: &coop_ir::Module, t| m.def_inst(t).is_some_and(|t| MATRIX_TYPES.contains(&t.op));
        let r = x.find(|m, i| i.op == Op::Load && i.ty.is_some_and(|t| matrix(m, t)))?;
        let (pointer, uint) = (x.inst(r).id(0)?, x.scalar(U32));
        x.before(r, Op::SizeOf, uint, [pointer.into()]).map(drop)
    }),
    ("component-microscaling", |x| {
        let r = x.ops(&MATRIX_TYPES)?;
        let mut ids: Vec<_> = x.inst(r).ids().collect();
        x.capability(Capability::Float4EXT);
        coop_ir::builder::require_extension(&mut x.m, "SPV_EXT_ocp_microscaling_types");
        ids[0] = x.scalar(Scalar::Encoded { width: 4, encoding: 4225 });
        x.matrix_type(&ids);
        Some(())
    }),
    ("arithmetic-scalar-integer", |x| {
        let (r, id, ty) = x.any_matrix(|s| s == U32)?;
        let two = x.u32(2);
        x.after(r, Op::MatrixTimesScalar, ty.id, &[id, two]).map(drop)
    }),
    ("access-untyped-stride", |x| {
        // A matrix of floats in bytes, lines 18 bytes apart.
        let (r, _, ty) = x.matrix(|x, t| x.component(t) == Some(F32))?;
        x.capability(Capability::UntypedPointersKHR);
        coop_ir::builder::require_extension(&mut x.m, "SPV_KHR_untyped_pointers");
        let float = x.scalar(F32);
        let array = x.array(float, 4096);
        let pointer = x.type_with(Op::TypeUntypedPointerKHR, vec![StorageClass::Workgroup.into()]);
        let variable = x.m.fresh_id();
        let operands = [StorageClass::Workgroup.into(), array.into()];
        x.global(Inst::new(Op::UntypedVariableKHR, Some(pointer), Some(variable), operands));
        let entry = x.m.globals_with(Op::EntryPoint).next();
        if let Some(entry) = entry {
            x.m.inst_mut(entry).operands.push(variable.into());
        }
        let (zero, stride) = (x.u32(0), x.u32(18));
        let at = x.after(r, Op::UntypedAccessChainKHR, pointer, &[array, variable, zero])?;
        let chain = x.m.def(at)?;
        x.after(chain, Op::CooperativeMatrixLoadKHR, ty.id, &[at, zero, stride]).map(drop)
    }),
];
