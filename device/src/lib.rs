//! Device profiles: the features and limits of a Vulkan device.
//!
//! A [`Profile`] is data about one device and driver, measured on it (`cooprun profile`) or taken from the vendor's
//! publications. Checking and lowering use it; only `vulkan`, a feature of the crate, talks to a driver. In a profile's
//! JSON the names are Vulkan's own member names. A feature that is not mentioned is absent, and a limit that is not
//! mentioned is the least that Vulkan guarantees; an unknown name is an error.

mod feature;
mod read;
mod require;
mod scalar;
#[cfg(any(feature = "vulkan", test))]
mod slow;
pub mod subgroup;
#[cfg(feature = "vulkan")]
pub mod vulkan;

use std::fmt;

use coop_ir::spv::{Capability, ExecutionModel};
use serde::{Deserialize, Serialize};

pub use feature::{Feature, Features};
pub use require::{
    Requirement, VulkanExtension, capability_requirement, opencl_requirement, serves_spirv, spirv_extension,
};
pub use scalar::{ApiVersion, ComponentType, Scope, SubgroupOperations};

/// The origin of a profile's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Read from the driver: on the device itself, or, where the source says so, without it.
    Measured,
    /// Taken from the vendor's documents or from published reports.
    Published,
    /// Unknown.
    #[default]
    Unknown,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Measured => "measured",
            Origin::Published => "published",
            Origin::Unknown => "unknown",
        })
    }
}

/// The programming interface of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Api {
    /// Vulkan, as far as compute shaders are concerned.
    #[default]
    Vulkan,
    /// OpenCL.
    #[serde(rename = "OpenCL")]
    OpenCl,
}

impl Api {
    fn is_vulkan(&self) -> bool {
        *self == Api::Vulkan
    }

    /// Returns true if profiles cover entry points of an execution model: compute shaders, or kernels.
    pub fn judges(self, model: ExecutionModel) -> bool {
        match self {
            Api::Vulkan => model == ExecutionModel::GLCompute,
            Api::OpenCl => model == ExecutionModel::Kernel,
        }
    }
}

/// The features and limits of a device, as far as compute modules with matrices use them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    /// The name of the profile: `nvidia-h100`.
    pub name: String,
    /// The device's own name.
    pub device: String,
    /// The driver's name.
    pub driver: String,
    /// The driver's version, in its own words.
    pub driver_info: String,
    /// The interface that the profile is for.
    #[serde(skip_serializing_if = "Api::is_vulkan")]
    pub api: Api,
    /// The Vulkan version that the device reports.
    pub api_version: ApiVersion,
    /// The origin of the values.
    pub origin: Origin,
    /// Their source and date, in words.
    pub source: String,
    /// Sizes and counts.
    pub limits: Limits,
    /// Features and Boolean properties.
    pub features: Features,
    /// Device extensions. Only those that matter to compute shaders need to be listed.
    pub extensions: Vec<String>,
    /// The source of a report that matrices of this device are slower than code without them; empty where there is none.
    /// Lowering for the best target then prefers scalar code. No query of Vulkan's tells.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub slow_matrices: String,
    /// The list of `VK_KHR_cooperative_matrix`: exact sizes, best first.
    pub khr_properties: Vec<MatrixProperties>,
    /// Matrices that the device supports but does not multiply: they are loaded, stored, and accessed by element. No
    /// query of Vulkan's lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_properties: Vec<MatrixProperties>,
    /// The list of `VK_NV_cooperative_matrix2`: granularities, best first.
    pub flexible_properties: Vec<FlexibleProperties>,
    /// The answers of `VK_EXT_cooperative_matrix_maintenance1`, by query.
    pub properties2: Vec<Properties2>,
    /// The list of `VK_NV_cooperative_matrix`, the oldest extension.
    pub nv_properties: Vec<NvProperties>,
}

/// Sizes and counts of a device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// The most bytes of Workgroup memory of a workgroup.
    pub max_compute_shared_memory_size: u32,
    /// The most invocations of a workgroup.
    pub max_compute_work_group_invocations: u32,
    /// The largest workgroup in each dimension.
    pub max_compute_work_group_size: [u32; 3],
    /// The most workgroups of a dispatch in each dimension.
    pub max_compute_work_group_count: [u32; 3],
    /// Bytes of push constants.
    pub max_push_constants_size: u32,
    /// The most bytes of a storage buffer that a shader can access.
    pub max_storage_buffer_range: u64,
    /// The most bytes of a uniform buffer that a shader can access.
    pub max_uniform_buffer_range: u64,
    /// The subgroup size if none is required.
    pub subgroup_size: u32,
    /// The smallest subgroup size that can be required.
    pub min_subgroup_size: u32,
    /// The largest subgroup size that can be required.
    pub max_subgroup_size: u32,
    /// The most subgroups of a workgroup.
    pub max_compute_workgroup_subgroups: u32,
    /// Shader stages in which a subgroup size can be required (`VkShaderStageFlags`).
    pub required_subgroup_size_stages: u32,
    /// Shader stages that have subgroup operations (`VkShaderStageFlags`).
    pub subgroup_supported_stages: u32,
    /// Subgroup operations.
    pub subgroup_supported_operations: SubgroupOperations,
    /// Shader stages in which cooperative matrices may appear (`VkShaderStageFlags`).
    pub cooperative_matrix_supported_stages: u32,
    /// The largest workgroup, in invocations, that may use Workgroup-scope matrices.
    pub cooperative_matrix_workgroup_scope_max_workgroup_size: u32,
    /// The most rows or columns of a matrix with flexible dimensions.
    pub cooperative_matrix_flexible_dimensions_max_dimension: u32,
    /// Bytes of Workgroup memory that the driver keeps for itself when Workgroup-scope matrices are used.
    pub cooperative_matrix_workgroup_scope_reserved_shared_memory: u32,
    /// Components of a long vector; 0 without long vectors.
    pub max_vector_components: u32,
    /// Nanoseconds per tick of a timestamp; 0 where there are no timestamps.
    pub timestamp_period: f32,
}

impl Default for Limits {
    /// Returns the least limits of a Vulkan 1.1 device, with a subgroup of one.
    fn default() -> Limits {
        Limits {
            max_compute_shared_memory_size: 16384,
            max_compute_work_group_invocations: 128,
            max_compute_work_group_size: [128, 128, 64],
            max_compute_work_group_count: [65535; 3],
            max_push_constants_size: 128,
            max_storage_buffer_range: 1 << 27,
            max_uniform_buffer_range: 16384,
            subgroup_size: 1,
            min_subgroup_size: 1,
            max_subgroup_size: 1,
            max_compute_workgroup_subgroups: 0,
            required_subgroup_size_stages: 0,
            subgroup_supported_stages: Limits::COMPUTE_STAGE,
            subgroup_supported_operations: SubgroupOperations::BASIC,
            cooperative_matrix_supported_stages: 0,
            cooperative_matrix_workgroup_scope_max_workgroup_size: 0,
            cooperative_matrix_flexible_dimensions_max_dimension: 0,
            cooperative_matrix_workgroup_scope_reserved_shared_memory: 0,
            max_vector_components: 0,
            timestamp_period: 0.0,
        }
    }
}

impl Limits {
    /// The bit of the compute stage in masks of shader stages.
    pub const COMPUTE_STAGE: u32 = 0x20;

    /// The most invocations of a subgroup on any device.
    pub const MAX_SUBGROUP_SIZE: u32 = 128;
}

/// One row of the KHR list: a multiply-add of exactly this size. A is m by k, B is k by n, C and the result are m by n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct MatrixProperties {
    /// Rows of A and of the result.
    pub m: u32,
    /// Columns of B and of the result.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Components of A.
    pub a: ComponentType,
    /// Components of B.
    pub b: ComponentType,
    /// Components of C.
    pub c: ComponentType,
    /// Components of the result.
    pub result: ComponentType,
    /// True if the final addition saturates.
    #[serde(default)]
    pub saturating: bool,
    /// The scope of all four.
    pub scope: Scope,
}

/// One row of the flexible-dimensions list: sizes may be multiples of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlexibleProperties {
    /// Types, scope, and the granularities as m, n, k.
    #[serde(flatten)]
    pub granularity: MatrixProperties,
    /// The number of invocations of the workgroup; 0 with Subgroup scope.
    #[serde(default)]
    pub workgroup_invocations: u32,
}

/// The answer to one query of `VK_EXT_cooperative_matrix_maintenance1`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Properties2 {
    /// The scope of the query.
    pub scope: Scope,
    /// The number of invocations of the workgroup; 0 with Subgroup scope.
    #[serde(default)]
    pub invocations: u32,
    /// The subgroup size of the query; 0 is unspecified.
    #[serde(default)]
    pub subgroup_size: u32,
    /// True if the query is for saturating accumulation.
    #[serde(default)]
    pub saturating: bool,
    /// The answer. `saturating` and `scope` repeat the query.
    pub entries: Vec<MatrixProperties>,
}

/// One row of the list of `VK_NV_cooperative_matrix`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct NvProperties {
    /// Rows of A and of D.
    pub m: u32,
    /// Columns of B and of D.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Components of A.
    pub a: ComponentType,
    /// Components of B.
    pub b: ComponentType,
    /// Components of C.
    pub c: ComponentType,
    /// Components of D, the result.
    pub d: ComponentType,
    /// The scope of all four.
    pub scope: Scope,
}

/// The built-in profiles, by name.
const BUILTIN: &[(&str, &str)] = &[
    ("adreno-630", include_str!("../profiles/adreno-630.json")),
    ("adreno-740", include_str!("../profiles/adreno-740.json")),
    ("adreno-830", include_str!("../profiles/adreno-830.json")),
    ("amd-navi10", include_str!("../profiles/amd-navi10.json")),
    ("amd-navi21", include_str!("../profiles/amd-navi21.json")),
    ("amd-polaris10", include_str!("../profiles/amd-polaris10.json")),
    ("amd-rdna3", include_str!("../profiles/amd-rdna3.json")),
    ("amd-rdna4", include_str!("../profiles/amd-rdna4.json")),
    ("amd-vega10", include_str!("../profiles/amd-vega10.json")),
    ("apple-kosmickrisp", include_str!("../profiles/apple-kosmickrisp.json")),
    ("apple-m1", include_str!("../profiles/apple-m1.json")),
    ("arm-mali", include_str!("../profiles/arm-mali.json")),
    ("google-swiftshader", include_str!("../profiles/google-swiftshader.json")),
    ("intel-arc", include_str!("../profiles/intel-arc.json")),
    ("intel-opencl-cpu", include_str!("../profiles/intel-opencl-cpu.json")),
    ("intel-opencl-gpu", include_str!("../profiles/intel-opencl-gpu.json")),
    ("intel-xe2", include_str!("../profiles/intel-xe2.json")),
    ("mesa-lavapipe", include_str!("../profiles/mesa-lavapipe.json")),
    ("mesa-lavapipe-debian12", include_str!("../profiles/mesa-lavapipe-debian12.json")),
    ("nvidia-h100", include_str!("../profiles/nvidia-h100.json")),
    ("nvk-ampere", include_str!("../profiles/nvk-ampere.json")),
    ("nvk-kepler", include_str!("../profiles/nvk-kepler.json")),
    ("nvk-turing", include_str!("../profiles/nvk-turing.json")),
    ("qualcomm-adreno", include_str!("../profiles/qualcomm-adreno.json")),
];

impl Profile {
    /// The newest version of SPIR-V.
    pub const NEWEST_SPIRV: (u8, u8) = (1, 6);

    /// Returns the newest version of SPIR-V that the device's Vulkan takes.
    pub fn spirv_version(&self) -> (u8, u8) {
        let of_1_1 = if self.has_extension("VK_KHR_spirv_1_4") { (1, 4) } else { (1, 3) };
        let versions = [(1, 3, Profile::NEWEST_SPIRV), (1, 2, (1, 5)), (1, 1, of_1_1)];
        let taken = versions.iter().find(|(major, minor, _)| self.api_version.at_least(*major, *minor));
        taken.map_or((1, 0), |(_, _, spirv)| *spirv)
    }

    /// Returns the built-in profile with a name.
    pub fn builtin(name: &str) -> Option<Profile> {
        let (_, json) = BUILTIN.iter().find(|(builtin, _)| *builtin == name)?;
        match read::builtin(json) {
            Ok(profile) => Some(profile),
            Err(error) => unreachable!("a test reads every built-in profile, {name} too: {error}"),
        }
    }

    /// Returns the names of the built-in profiles, sorted.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile.
    pub fn from_json(text: &str) -> Result<Profile, ProfileError> {
        read::from_json(text)
    }

    /// Writes the profile, indented, with a final newline.
    pub fn to_json(&self) -> String {
        match serde_json::to_string_pretty(self) {
            Ok(text) => text + "\n",
            Err(error) => unreachable!("a profile has string keys only: {error}"),
        }
    }

    /// Returns true if the device has the feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Returns the device with SPV_EXT_cooperative_matrix_maintenance1 added.
    #[must_use]
    pub fn with_maintenance1(mut self) -> Profile {
        const NAME: &str = "VK_EXT_cooperative_matrix_maintenance1";
        if self.has_extension(NAME) {
            return self;
        }
        self.extensions.push(NAME.into());
        for feature in [
            Feature::CooperativeMatrixProperties2,
            Feature::CooperativeMatrixReductionsExt,
            Feature::CooperativeMatrixConversionsExt,
            Feature::CooperativeMatrixPerElementOperationsExt,
            Feature::CooperativeMatrixGetCoordinate,
        ] {
            self.features.insert(feature);
        }
        let entries = self.khr_properties.clone();
        let scope = Scope::Subgroup;
        self.properties2 = vec![Properties2 { scope, invocations: 0, subgroup_size: 0, saturating: false, entries }];
        self
    }

    /// Returns the subgroup sizes that a compute pipeline can require, ascending: if none can be required, the device's
    /// own.
    pub fn subgroup_sizes(&self) -> Vec<u32> {
        let limits = &self.limits;
        let stages = limits.required_subgroup_size_stages & Limits::COMPUTE_STAGE != 0;
        if !self.has(Feature::SubgroupSizeControl) || !stages {
            return vec![limits.subgroup_size];
        }
        let sizes = (0..u32::BITS).map(|n| 1 << n);
        sizes.filter(|n| (limits.min_subgroup_size..=limits.max_subgroup_size).contains(n)).collect()
    }

    /// Returns the registers of 32 bits that a subgroup has, where that does not depend on its size and the driver chooses the size by what a
    /// shader needs, if none is required: on Intel's GPUs, a subgroup is a thread of 128 registers, each with 32 bits for as many invocations
    /// as the smallest subgroup has.
    pub fn registers_of_subgroup(&self) -> Option<u32> {
        let Limits { min_subgroup_size: min, max_subgroup_size: max, .. } = self.limits;
        (self.api.is_vulkan() && self.driver.contains("Intel") && min < max).then(|| min.saturating_mul(128))
    }

    /// Returns true if the device lists the extension.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions.iter().any(|extension| extension == name)
    }

    /// Returns an error with the missing requirement if a module may not declare the capability on this device.
    pub fn check_capability(&self, capability: Capability) -> Result<(), Requirement> {
        let requirement = self.requirement_of(capability);
        if requirement.is_met_by(self) { Ok(()) } else { Err(requirement) }
    }

    /// Returns what a capability asks of the device, by its interface.
    pub fn requirement_of(&self, capability: Capability) -> Requirement {
        match self.api {
            Api::Vulkan => capability_requirement(capability),
            Api::OpenCl => opencl_requirement(capability),
        }
    }

    /// Returns the subgroup sizes that a pipeline can require of compute shaders, the device's usual one first.
    pub fn required_subgroup_sizes(&self) -> Vec<u32> {
        let limits = &self.limits;
        let can =
            self.has(Feature::SubgroupSizeControl) && limits.required_subgroup_size_stages & Limits::COMPUTE_STAGE != 0;
        if !can {
            return Vec::new();
        }
        let sizes = (0..u32::BITS)
            .map(|i| 1 << i)
            .filter(|n| (limits.min_subgroup_size..=limits.max_subgroup_size).contains(n));
        let mut sizes: Vec<u32> = sizes.collect();
        sizes.sort_by_key(|n| *n != limits.subgroup_size);
        sizes
    }
}

/// An error in the text of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileError(String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a device profile: {}", self.0)
    }
}

impl std::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_read_and_written_alike() {
        let names: Vec<_> = Profile::builtin_names().collect();
        assert!(names.is_sorted(), "{names:?}");
        for (name, json) in BUILTIN {
            let profile = Profile::from_json(json).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(profile.name, *name);
            let canonical = profile.to_json();
            if std::env::var_os("COOP_BLESS").is_some() {
                std::fs::write(format!("{}/profiles/{name}.json", env!("CARGO_MANIFEST_DIR")), &canonical).unwrap();
            } else {
                assert!(canonical == *json, "{name} is not as to_json writes it: run this test with COOP_BLESS=1");
            }
            assert_ne!(profile.origin, Origin::Unknown);
        }
        assert!(Profile::builtin("no-such-device").is_none());
    }

    #[test]
    fn sizes_that_can_be_required() {
        let sizes = |name: &str| Profile::builtin(name).unwrap().required_subgroup_sizes();
        assert_eq!(sizes("nvidia-h100"), [32]);
        assert_eq!(sizes("amd-rdna3"), [64, 32]);
        assert_eq!(sizes("intel-opencl-cpu"), [16, 4, 8, 32, 64]);
        assert!(Profile::default().required_subgroup_sizes().is_empty());
    }

    #[test]
    fn h100_is_what_was_measured() {
        let h100 = Profile::builtin("nvidia-h100").unwrap();
        assert_eq!(h100.limits.subgroup_size, 32);
        assert_eq!(h100.limits.max_compute_shared_memory_size, 49152);
        assert!(h100.has(Feature::CooperativeMatrixWorkgroupScope));
        assert!(h100.limits.subgroup_supported_operations.has(SubgroupOperations::PARTITIONED));
        let f16 = h100.khr_properties.iter().filter(|row| row.a == ComponentType::F16).count();
        assert!(f16 > 0 && h100.flexible_properties.iter().any(|row| row.granularity.scope == Scope::Workgroup));
    }

    /// A profile that was not measured says so, with its source; a list of matrices goes with the feature.
    #[test]
    fn published_profiles_name_their_sources() {
        let all: Vec<Profile> = Profile::builtin_names().filter_map(Profile::builtin).collect();
        let published: Vec<&Profile> = all.iter().filter(|p| p.origin == Origin::Published).collect();
        assert_eq!(published.len(), 5);
        for p in published {
            assert!(p.source.contains(" as of ") && p.source.ends_with("Not measured."), "{}: {}", p.name, p.source);
            assert_eq!(p.khr_properties.is_empty(), !p.has(Feature::CooperativeMatrix), "{}", p.name);
            assert_eq!(p.has_extension("VK_KHR_cooperative_matrix"), p.has(Feature::CooperativeMatrix), "{}", p.name);
            assert!(p.has(Feature::VulkanMemoryModel) && p.limits.subgroup_size > 1, "{}", p.name);
            let bf16 = p.khr_properties.iter().any(|r| r.a == ComponentType::Bf16);
            assert_eq!(bf16, p.has(Feature::ShaderBFloat16CooperativeMatrix), "{}", p.name);
            let fp8 = p.khr_properties.iter().any(|r| r.a == ComponentType::E4m3);
            assert_eq!(fp8, p.has(Feature::ShaderFloat8CooperativeMatrix), "{}", p.name);
            assert!(p.flexible_properties.is_empty() && p.properties2.is_empty(), "{}", p.name);
        }
    }

    /// A profile that a driver wrote says which, when, and that nothing ran.
    #[test]
    fn profiles_of_drivers_say_so() {
        let all: Vec<Profile> = Profile::builtin_names().filter_map(Profile::builtin).collect();
        let of_drivers: Vec<&Profile> = all.iter().filter(|p| p.source.contains("a GPU that is not there")).collect();
        assert_eq!(of_drivers.len(), 15);
        for p in of_drivers {
            assert_eq!(p.origin, Origin::Measured, "{}", p.name);
            assert!(p.source.starts_with(&format!("{} on 20", p.driver_info)), "{}: {}", p.name, p.source);
            assert!(p.source.ends_with("Nothing was executed."), "{}: {}", p.name, p.source);
            assert_eq!(p.khr_properties.is_empty(), !p.has(Feature::CooperativeMatrix), "{}", p.name);
            assert!(p.limits.subgroup_size > 1 && p.slow_matrices == slow::source(&p.device), "{}", p.name);
        }
    }

    /// Devices whose subgroups share registers: those of Intel, with subgroups of several sizes.
    #[test]
    fn registers_are_those_of_a_subgroup_on_intels_gpus() {
        let profiles = Profile::builtin_names().filter_map(Profile::builtin);
        let of = |p: Profile| Some((p.name.clone(), p.registers_of_subgroup()?));
        let found: Vec<(String, u32)> = profiles.filter_map(of).collect();
        assert_eq!(found, [("intel-arc".to_owned(), 1024), ("intel-xe2".to_owned(), 2048)]);
    }

    /// A profile with slow matrices has matrices, and names the source.
    #[test]
    fn slow_matrices_have_a_source() {
        let slow: Vec<Profile> = Profile::builtin_names().filter_map(Profile::builtin).collect();
        let slow: Vec<&Profile> = slow.iter().filter(|p| !p.slow_matrices.is_empty()).collect();
        assert_eq!(slow.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["intel-arc"]);
        assert!(
            slow.iter().all(|p| p.has(Feature::CooperativeMatrix) && p.slow_matrices == slow::source("Arc(TM) A770"))
        );
    }

    #[test]
    fn lavapipe_has_eights_only() {
        let lavapipe = Profile::builtin("mesa-lavapipe").unwrap();
        assert_eq!(lavapipe.khr_properties.len(), 4);
        assert!(lavapipe.khr_properties.iter().all(|row| (row.m, row.n, row.k) == (8, 8, 8)));
        assert!(!lavapipe.has(Feature::CooperativeMatrixTensorAddressing));
        assert!(lavapipe.has_extension("VK_NV_cooperative_matrix2"));
        let old = Profile::builtin("mesa-lavapipe-debian12").unwrap();
        assert!(old.khr_properties.is_empty() && !old.has(Feature::CooperativeMatrix));
        assert!(old.has(Feature::ShaderFloat16) && old.limits.subgroup_size == 8);
    }
}
