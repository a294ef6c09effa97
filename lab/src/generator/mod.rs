//! Generates valid compute shaders (and kernels of OpenCL) from entropy. They work on cooperative matrices, and each
//! has a case file to run it with.
//!
//! Every module of [`generate`] keeps these rules:
//!
//! 1. It is valid, and so is its use: no access outside of its buffers, no races, no undefined value that matters, no
//!    instruction on a matrix that only some invocations of its scope execute. Alignment is the exception: pointers and
//!    strides are multiples of a number's size, but in a third of the modules not of what the specifications require
//!    (`align`).
//! 2. Nothing that it writes depends on which invocation holds which element of a matrix, nor on the size of a
//!    subgroup; a workgroup has as many subgroups in each of its variants.
//! 3. Every number is exact in its type, whatever the order of sums (`Range` tracks this), so outputs are the same bit
//!    by bit, except for the sign of zero.
//! 4. The same entropy gives the same module. Less entropy gives a simpler one.
//!
//! A module computes matrices and stores them. Each store has memory of its own for every subgroup (or workgroup) that
//! executes it and every iteration of the loops around it.

// Most files are an `impl Gen` for one kind of construct: constructs nest, so these files call each other.
mod access;
mod align;
mod attention;
mod callback;
mod coordinates;
mod decode;
pub mod diverge;
mod emit;
mod entropy;
mod flow;
mod fun;
mod glsl450;
mod intel;
mod kernel;
mod late;
mod meeting;
mod memory;
pub mod mutate;
mod number;
mod nv2;
mod product_loop;
mod qcom;
mod range;
mod tensor;
mod value;

use coop_ir::Module;
use std::collections::BTreeMap;
use std::fmt;

/// The instructions that a module has, besides those of the core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// SPV_KHR_cooperative_matrix alone.
    Khr,
    /// With SPV_NV_cooperative_matrix2, SPV_NV_tensor_addressing and SPV_NV_cooperative_matrix_decode_vector.
    Nv2,
    /// With SPV_EXT_cooperative_matrix_maintenance1.
    Ext,
    /// SPV_NV_cooperative_matrix, the first of all, instead.
    Nv1,
    /// With SPV_INTEL_joint_matrix, in shaders.
    Intel,
    /// With SPV_QCOM_cooperative_matrix_conversion.
    Qcom,
    /// With SPV_ARM_cooperative_matrix_layouts.
    Arm,
    /// With SPV_INTEL_joint_matrix, in OpenCL kernels.
    Kernel,
}

impl Dialect {
    /// Every dialect of shaders.
    pub const ALL: [Dialect; 7] =
        [Dialect::Khr, Dialect::Nv2, Dialect::Ext, Dialect::Nv1, Dialect::Intel, Dialect::Qcom, Dialect::Arm];

    /// Returns the name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Khr => "khr",
            Dialect::Nv2 => "nv2",
            Dialect::Ext => "ext",
            Dialect::Nv1 => "nv1",
            Dialect::Intel => "intel",
            Dialect::Qcom => "qcom",
            Dialect::Arm => "arm",
            Dialect::Kernel => "kernel",
        }
    }

    /// Returns true if there are modules of the dialect that keep to these limits.
    pub fn has(self, limits: Limits) -> bool {
        match limits {
            Limits::Lavapipe => matches!(self, Dialect::Khr | Dialect::Nv2),
            // Lowered, where not as they are.
            Limits::Any => true,
            Limits::Tiles | Limits::Nvidia => self != Dialect::Kernel,
        }
    }

    /// The dialect of a name.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().chain([Dialect::Kernel]).find(|d| d.name() == name)
    }
}

/// Types and sizes that a module keeps to, so that some device runs it as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limits {
    /// None but the specification's.
    Any,
    /// Types that a current lavapipe multiplies, and multiples of 8 x 8 x 8: what can be lowered to its matrices.
    Tiles,
    /// The matrices of a current lavapipe: 8 x 8 x 8 (with flexible dimensions: multiples of these) in subgroups of 8,
    /// f16 or 8-bit integers multiplied into f16, f32 or 32-bit integers.
    Lavapipe,
    /// The matrices of an NVIDIA GPU of compute capability 9: multiples of 16, 16 and 32 (of workgroup scope 32, 32 and
    /// 32) in subgroups of 32, f16, bf16 or 8-bit integers.
    Nvidia,
}

impl Limits {
    /// All of them.
    pub const ALL: [Limits; 4] = [Limits::Any, Limits::Tiles, Limits::Lavapipe, Limits::Nvidia];
}

/// The instructions, types and sizes that generated modules may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GeneratorProfile {
    /// Instructions.
    pub dialect: Dialect,
    /// Types and sizes.
    pub limits: Limits,
}

impl GeneratorProfile {
    /// SPV_KHR_cooperative_matrix as a current lavapipe has it.
    pub const DEVICE8: GeneratorProfile = GeneratorProfile { dialect: Dialect::Khr, limits: Limits::Lavapipe };
    /// Everything in SPV_KHR_cooperative_matrix.
    pub const ANY: GeneratorProfile = GeneratorProfile { dialect: Dialect::Khr, limits: Limits::Any };

    /// Everything in a dialect.
    pub fn any(dialect: Dialect) -> GeneratorProfile {
        GeneratorProfile { dialect, limits: Limits::Any }
    }

    /// The profile of a name, as it is displayed.
    pub fn from_name(name: &str) -> Option<GeneratorProfile> {
        let dialects = Dialect::ALL.into_iter().chain([Dialect::Kernel]);
        let all = dialects.flat_map(|dialect| Limits::ALL.map(|limits| GeneratorProfile { dialect, limits }));
        all.into_iter().find(|p| p.to_string() == name)
    }

    /// The subgroup size of the module's case; it has variants for others where there are no limits.
    pub fn lanes(self) -> u32 {
        match self.limits {
            _ if self.dialect == Dialect::Kernel => 16,
            Limits::Nvidia => 32,
            _ => 8,
        }
    }

    /// The subgroup sizes for which cases have variants, besides the first.
    pub fn variants(self) -> &'static [u32] {
        match self.limits {
            // Of 4 there would be matrices of 4 rows at most.
            _ if self.dialect == Dialect::Kernel => &[],
            Limits::Any if self.dialect == Dialect::Qcom => &[16, 32],
            Limits::Any => &[4, 16, 32],
            _ => &[],
        }
    }
}

impl fmt::Display for GeneratorProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dialect.name())?;
        f.write_str(match self.limits {
            Limits::Any => "",
            Limits::Tiles => "-tiles",
            Limits::Lavapipe => "-lavapipe",
            Limits::Nvidia => "-nvidia",
        })
    }
}

/// A module and how to run it.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The module.
    pub module: Module,
    /// A case file, in TOML, for subgroups of [`GeneratorProfile::lanes`]; a variant `s16` is for subgroups of 16.
    pub case: String,
    /// The number of each construct in the module.
    pub made: BTreeMap<&'static str, u32>,
    /// The number of bytes of entropy that were used; more change nothing.
    pub used: usize,
}

/// Makes a module.
pub fn generate(profile: GeneratorProfile, entropy: &[u8]) -> Generated {
    emit::Gen::new(profile, entropy, false).run()
}

/// Makes a module without specialization constants.
pub fn generate_fixed(profile: GeneratorProfile, entropy: &[u8]) -> Generated {
    emit::Gen::new(profile, entropy, true).run()
}
