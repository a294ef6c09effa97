//! Updates capabilities, extensions, entry points and decorations once kernels are shaders.

use coop_ir::builder::{add_global, require_capability};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{remove_globals, sort_globals};
use coop_ir::spv::{Capability, Decoration, ExecutionMode, ExecutionModel, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Kind, Module, Op, Operand};
use std::collections::BTreeSet;

/// SPIR-V 1.6, which Vulkan 1.3 accepts: addresses and the memory model are part of it.
const VERSION: u32 = 0x0001_0600;

/// The capabilities of kernels, which are removed.
const GONE: [Capability; 22] = [
    Capability::Addresses,
    Capability::Linkage,
    Capability::Kernel,
    Capability::Vector16,
    Capability::Float16Buffer,
    Capability::ImageBasic,
    Capability::ImageReadWrite,
    Capability::ImageMipmap,
    Capability::Pipes,
    Capability::Groups,
    Capability::DeviceEnqueue,
    Capability::LiteralSampler,
    Capability::GenericPointer,
    Capability::SubgroupDispatch,
    Capability::NamedBarrier,
    Capability::PipeStorage,
    Capability::ExpectAssumeKHR,
    Capability::SubgroupShuffleINTEL,
    Capability::SubgroupBufferBlockIOINTEL,
    Capability::KernelAttributesINTEL,
    Capability::OptNoneINTEL,
    Capability::CacheControlsINTEL,
];

/// The extensions of removed features, or of features that SPIR-V 1.6 includes.
const EXTENSIONS: [&str; 9] = [
    "SPV_KHR_expect_assume",
    "SPV_KHR_linkonce_odr",
    "SPV_KHR_no_integer_wrap_decoration",
    "SPV_KHR_float_controls",
    "SPV_KHR_uniform_group_instructions",
    "SPV_INTEL_subgroups",
    "SPV_INTEL_kernel_attributes",
    "SPV_INTEL_optnone",
    "SPV_INTEL_cache_controls",
];

/// The decorations that only kernels have, or whose target is removed.
const DECORATIONS: [Decoration; 15] = [
    Decoration::CPacked,
    Decoration::Constant,
    Decoration::Restrict,
    Decoration::Aliased,
    Decoration::Volatile,
    Decoration::FuncParamAttr,
    Decoration::FPRoundingMode,
    Decoration::FPFastMathMode,
    Decoration::LinkageAttributes,
    Decoration::Alignment,
    Decoration::MaxByteOffset,
    Decoration::AlignmentId,
    Decoration::UserSemantic,
    Decoration::CacheControlLoadINTEL,
    Decoration::CacheControlStoreINTEL,
];

/// The execution modes for denormals and rounding.
const FLOAT_MODES: [ExecutionMode; 9] = [
    ExecutionMode::DenormPreserve,
    ExecutionMode::DenormFlushToZero,
    ExecutionMode::SignedZeroInfNanPreserve,
    ExecutionMode::RoundingModeRTE,
    ExecutionMode::RoundingModeRTZ,
    ExecutionMode::RoundingModeRTPINTEL,
    ExecutionMode::RoundingModeRTNINTEL,
    ExecutionMode::FloatingPointModeALTINTEL,
    ExecutionMode::FloatingPointModeIEEEINTEL,
];

/// An entry point after the rewrite.
pub(super) struct Shader {
    pub(super) function: Id,
    pub(super) interface: Vec<Id>,
    pub(super) local_size: [u32; 3],
}

/// Returns the rounding and denormal modes of kernels, as text. All are dropped: a device need not support them, so its
/// default applies.
pub(super) fn roundings(m: &Module, kernels: &FxHashSet<Id>) -> BTreeSet<String> {
    let name = |kind: Kind, value: u32| kind.enumerant(value).map_or_else(|| value.to_string(), |e| e.name.to_owned());
    let rounds = Decoration::FPRoundingMode;
    let said = m.globals.iter().map(|r| m.inst(*r)).filter_map(|i| match i.op {
        Op::ExecutionMode if i.id(0).is_some_and(|id| kernels.contains(&id)) => {
            let mode = i.enumerant(1).filter(|mode| FLOAT_MODES.contains(mode))?;
            let width = i.word(2).unwrap_or(0);
            Some(format!("{mode} of {width} bits: the device's default applies"))
        }
        // Round to nearest even is the default of most operations on a device.
        Op::Decorate if i.enumerant(1) == Some(rounds) && i.word(2) != Some(0) => Some(format!(
            "conversions rounded by {}: the device's default applies",
            name(Kind::FPRoundingMode, i.word(2)?)
        )),
        _ => None,
    });
    said.collect()
}

/// Turns the module into one of shaders.
pub(super) fn finish(m: &mut Module, shaders: &[Shader], needed: &FxHashSet<Capability>) {
    m.header.version = m.header.version.max(VERSION);
    let kept: FxHashSet<Id> = shaders.iter().flat_map(|s| s.interface.iter().copied()).collect();
    let of_kernels: FxHashSet<Id> = shaders.iter().map(|s| s.function).collect();
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        match i.op {
            Op::Capability => i.declared_capability().is_some_and(|c| GONE.contains(&c)),
            Op::Extension => i.string(0).is_some_and(|(s, _)| EXTENSIONS.contains(&s.as_str())),
            Op::Variable => i.result.is_some_and(|id| !kept.contains(&id)),
            Op::ExecutionMode | Op::ExecutionModeId => i.id(0).is_some_and(|id| of_kernels.contains(&id)),
            Op::Decorate | Op::DecorateId | Op::DecorateString => {
                i.enumerant(1).is_some_and(|d| DECORATIONS.contains(&d))
            }
            Op::ExtInstImport => i.string(0).is_some_and(|(s, _)| s == "OpenCL.std" || s.starts_with("OpenCL.Debug")),
            Op::ExtInst => true,
            _ => false,
        }
    });
    // Names and decorations of removed ids.
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.note_target().is_some_and(|id| m.def(id).is_none())
    });
    for r in m.globals_with(Op::MemoryModel).collect::<Vec<_>>() {
        let model = [coop_ir::spv::AddressingModel::PhysicalStorageBuffer64.0, coop_ir::spv::MemoryModel::Vulkan.0];
        m.replace(r, Inst::new(Op::MemoryModel, None, None, model.map(Operand::Word)));
    }
    for shader in shaders {
        entry_point(m, shader);
    }
    capabilities(m, needed);
    sort_globals(m);
}

fn entry_point(m: &mut Module, shader: &Shader) {
    let entries: Vec<_> =
        m.globals_with(Op::EntryPoint).filter(|r| m.inst(*r).entry_function() == Some(shader.function)).collect();
    for r in entries {
        let Some((_, end)) = m.inst(r).string(2) else { continue };
        let inst = m.inst_mut(r);
        inst.operands.truncate(end);
        inst.operands[0] = Operand::Word(ExecutionModel::GLCompute.0);
        inst.operands.extend(shader.interface.iter().map(|v| Operand::Id(*v)));
    }
    let size = shader.local_size.map(Operand::Word);
    let head = [Operand::Id(shader.function), Operand::Word(ExecutionMode::LocalSize.0)];
    add_global(m, Inst::new(Op::ExecutionMode, None, None, head.into_iter().chain(size)));
}

fn capabilities(m: &mut Module, needed: &FxHashSet<Capability>) {
    let always = [Capability::Shader, Capability::PhysicalStorageBufferAddresses, Capability::VulkanMemoryModel];
    let mut all: Vec<Capability> = always.to_vec();
    all.extend(needed.iter().copied());
    for r in m.globals.clone() {
        let i = m.inst(r);
        match (i.op, i.word(0)) {
            (Op::TypeInt, Some(8)) => all.push(Capability::Int8),
            (Op::TypeInt, Some(16)) => all.push(Capability::Int16),
            (Op::TypeInt, Some(64)) => all.push(Capability::Int64),
            (Op::TypeFloat, Some(16)) if i.word(1).is_none() => all.push(Capability::Float16),
            (Op::TypeFloat, Some(64)) => all.push(Capability::Float64),
            (Op::TypePointer, Some(class)) if StorageClass(class) == StorageClass::PhysicalStorageBuffer => {
                all.extend(i.id(1).and_then(|t| narrow_storage(m, t)));
            }
            _ => {}
        }
    }
    all.sort_unstable();
    all.dedup();
    all.into_iter().for_each(|c| require_capability(m, c));
}

/// Returns the capability that memory of narrow numbers needs.
fn narrow_storage(m: &Module, mut ty: Id) -> Option<Capability> {
    loop {
        ty = match Type::of(m, ty)? {
            Type::Scalar(s) => {
                return match s.width() {
                    8 => Some(Capability::StorageBuffer8BitAccess),
                    16 => Some(Capability::StorageBuffer16BitAccess),
                    _ => None,
                };
            }
            Type::Vector { elem, .. } | Type::RuntimeArray { elem } | Type::Array { elem, .. } => elem,
            Type::Struct { members } => *members.first()?,
            _ => return None,
        };
    }
}
