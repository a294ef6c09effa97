//! The environment that a module is meant for.

use coop_ir::Module;
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::spv::{Capability, ExecutionModel, MemoryModel};
use std::fmt;
use std::str::FromStr;

/// The environment, which may have additional rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TargetEnv {
    /// SPIR-V alone.
    Universal,
    /// OpenCL 2.2.
    OpenCl22,
    /// Vulkan 1.1.
    Vulkan11,
    /// Vulkan 1.2.
    Vulkan12,
    /// Vulkan 1.3.
    Vulkan13,
    /// Vulkan 1.4.
    Vulkan14,
}

impl TargetEnv {
    /// Every environment with its name on the command line.
    pub const ALL: &'static [(&'static str, TargetEnv)] = &[
        ("universal", TargetEnv::Universal),
        ("opencl2.2", TargetEnv::OpenCl22),
        ("vulkan1.1", TargetEnv::Vulkan11),
        ("vulkan1.2", TargetEnv::Vulkan12),
        ("vulkan1.3", TargetEnv::Vulkan13),
        ("vulkan1.4", TargetEnv::Vulkan14),
    ];

    /// Returns the likely environment of a module: Vulkan with capability Shader, OpenCL with Kernel. Of a module with both, the
    /// memory model and the entry points tell: Vulkan has neither the memory model of OpenCL nor kernels.
    pub fn of(module: &Module) -> TargetEnv {
        let (shader, kernel) = (module.enables(Capability::Shader), module.enables(Capability::Kernel));
        let opencl = || {
            let memory = module.memory_model().is_some_and(|(_, model)| model == MemoryModel::OpenCL);
            memory || entry_points(module, &Decorations::new(module)).iter().any(|e| e.model == ExecutionModel::Kernel)
        };
        if kernel && (!shader || opencl()) {
            TargetEnv::OpenCl22
        } else if shader {
            TargetEnv::Vulkan14
        } else {
            TargetEnv::Universal
        }
    }

    /// Returns true for any version of Vulkan.
    pub fn is_vulkan(self) -> bool {
        self >= TargetEnv::Vulkan11
    }

    /// Returns true for any version of OpenCL.
    pub fn is_opencl(self) -> bool {
        self == TargetEnv::OpenCl22
    }
}

impl fmt::Display for TargetEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TargetEnv::ALL.iter().find(|(_, e)| e == self).map_or("", |(n, _)| n);
        f.write_str(name)
    }
}

impl FromStr for TargetEnv {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetEnv, String> {
        TargetEnv::ALL
            .iter()
            .find(|(n, _)| *n == text)
            .map(|(_, e)| *e)
            .ok_or_else(|| format!("'{text}' is not an environment"))
    }
}
