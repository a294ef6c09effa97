//! The features that a device lacks and that the passes do without.

use coop_device::{Api, Feature, Features, Profile};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Kind, Module, Op};

/// The features that a device lacks and that the passes do without: of component types, atomic operations on floats, the Vulkan memory
/// model, and shared memory with an explicit layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lacks {
    features: Features,
    /// The newest version of SPIR-V, if there is a newer one.
    spirv: Option<(u8, u8)>,
    /// True if the driver is SwiftShader, which ends at casts of device addresses to pointers of another type, and unrolls each loop
    /// with the hint to.
    swiftshader: bool,
}

/// The beginning of the names of that driver's versions.
const SWIFTSHADER: &str = "SwiftShader";

impl Lacks {
    /// The features that the passes of this crate do without.
    pub const FEATURES: [Feature; 28] = [
        Feature::ShaderFloat16,
        Feature::ShaderFloat8,
        Feature::ShaderInt16,
        Feature::ShaderInt8,
        Feature::ShaderInt64,
        Feature::ShaderIntegerDotProduct,
        Feature::StorageBuffer16BitAccess,
        Feature::UniformAndStorageBuffer16BitAccess,
        Feature::StoragePushConstant16,
        Feature::WorkgroupMemoryExplicitLayout16BitAccess,
        Feature::StorageBuffer8BitAccess,
        Feature::UniformAndStorageBuffer8BitAccess,
        Feature::StoragePushConstant8,
        Feature::WorkgroupMemoryExplicitLayout8BitAccess,
        Feature::VulkanMemoryModel,
        Feature::WorkgroupMemoryExplicitLayout,
        Feature::ShaderBufferFloat32Atomics,
        Feature::ShaderBufferFloat32AtomicAdd,
        Feature::ShaderBufferFloat32AtomicMinMax,
        Feature::ShaderSharedFloat32Atomics,
        Feature::ShaderSharedFloat32AtomicAdd,
        Feature::ShaderSharedFloat32AtomicMinMax,
        Feature::ShaderBufferFloat16Atomics,
        Feature::ShaderBufferFloat16AtomicAdd,
        Feature::ShaderBufferFloat16AtomicMinMax,
        Feature::ShaderSharedFloat16Atomics,
        Feature::ShaderSharedFloat16AtomicAdd,
        Feature::ShaderSharedFloat16AtomicMinMax,
    ];

    /// The features of memory that holds numbers of less than 32 bits, but for shared memory.
    pub const MEMORY: [Feature; 6] = [
        Feature::StorageBuffer16BitAccess,
        Feature::UniformAndStorageBuffer16BitAccess,
        Feature::StoragePushConstant16,
        Feature::StorageBuffer8BitAccess,
        Feature::UniformAndStorageBuffer8BitAccess,
        Feature::StoragePushConstant8,
    ];

    /// Returns the features of [`Lacks::FEATURES`] that a device lacks; none for a device that is not programmed by Vulkan.
    pub fn of(profile: &Profile) -> Lacks {
        let lacks = |f: &Feature| profile.api == Api::Vulkan && !profile.has(*f);
        let spirv = Some(profile.spirv_version()).filter(|v| profile.api == Api::Vulkan && *v < Profile::NEWEST_SPIRV);
        let swiftshader = profile.driver.starts_with(SWIFTSHADER);
        Lacks { features: Lacks::FEATURES.into_iter().filter(lacks).collect(), spirv, swiftshader }
    }

    /// Returns the lack of every feature of [`Lacks::FEATURES`], and what SwiftShader does to casts of device addresses and to loops.
    pub fn all() -> Lacks {
        Lacks { features: Lacks::FEATURES.into_iter().collect(), spirv: None, swiftshader: true }
    }

    /// Returns the lack of a feature; `None` if no pass does without it.
    pub fn without(feature: Feature) -> Option<Lacks> {
        let of = |features| Lacks { features, ..Lacks::default() };
        Lacks::FEATURES.contains(&feature).then(|| of([feature].into_iter().collect()))
    }

    /// Returns what one or the other lacks.
    #[must_use]
    pub fn and(self, other: Lacks) -> Lacks {
        let spirv = self.spirv.into_iter().chain(other.spirv).min();
        let features = self.features.iter().chain(other.features.iter()).collect();
        Lacks { features, spirv, swiftshader: self.swiftshader || other.swiftshader }
    }

    /// Returns true if nothing is lacking.
    pub fn is_empty(self) -> bool {
        self == Lacks::default()
    }

    /// Returns the version of SPIR-V that a module is to have: `None` if the device takes its own.
    pub(crate) fn older_than(self, m: &Module) -> Option<(u8, u8)> {
        self.spirv.filter(|newest| m.header.version_pair() > *newest)
    }

    /// Returns true if the driver ends at casts of device addresses to pointers of another type.
    pub(crate) fn address_casts(self) -> bool {
        self.swiftshader
    }

    /// Returns true if the driver unrolls each loop with the hint to, whatever that takes.
    pub(crate) fn unrolls_all(self) -> bool {
        self.swiftshader
    }

    /// Returns true if shared memory of a module has an explicit layout, and the device takes none: it lacks the feature, or the
    /// version of SPIR-V that the extension is for.
    pub(crate) fn shared_layout(self, m: &Module) -> bool {
        let lacking =
            || self.has(Feature::WorkgroupMemoryExplicitLayout) || self.older_than(m).is_some_and(|v| v < (1, 4));
        SHARED_LAYOUT.iter().any(|c| m.enables(*c)) && lacking()
    }

    /// Returns the lacking features.
    pub fn features(self) -> impl Iterator<Item = Feature> {
        self.features.iter()
    }

    /// Returns true if a feature is lacking.
    pub fn has(self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Returns true if memory of a storage class may not hold a type.
    pub(crate) fn storage(self, class: StorageClass, scalar: Scalar) -> bool {
        storage(class, scalar.width()).is_some_and(|feature| self.has(feature))
    }

    /// Returns true if an atomic operation on numbers of a type in memory of a storage class has to be one on words: the device lacks the
    /// operation, or the type is held by another one.
    pub(crate) fn atomic(self, m: &Module, class: StorageClass, op: Op, scalar: Scalar) -> bool {
        let in_software = scalar.width() < 32 && self.in_software(m, scalar);
        let Scalar::Float { width } = scalar else { return in_software };
        in_software || atomic(class, op, width).is_some_and(|feature| self.has(feature))
    }

    /// Returns true if a type has to be held by another one in a module: the device has no arithmetic for it, and the module
    /// computes with it, or will when it takes values out of words.
    pub(crate) fn in_software(self, m: &Module, scalar: Scalar) -> bool {
        let Some((feature, capability)) = arithmetic(scalar) else { return false };
        let classes =
            [StorageClass::StorageBuffer, StorageClass::Uniform, StorageClass::PushConstant, StorageClass::Workgroup];
        // What an atomic operation stores is computed.
        let computed = |(c, width)| scalar == (Scalar::Float { width }) && m.enables(c);
        let computes = || m.enables(capability) || atomic_capabilities().any(computed);
        self.has(feature) && (computes() || classes.iter().any(|c| self.storage(*c, scalar)))
    }

    /// Returns the capability with which a module takes numbers of a type out of words; `None` if the device lacks it, and for types
    /// that need none.
    pub(crate) fn capability_for(self, scalar: Scalar) -> Option<Capability> {
        arithmetic(scalar).filter(|(feature, _)| !self.has(*feature)).map(|(_, capability)| capability)
    }
}

/// The capabilities of shared memory with an explicit layout; the first is implied by the others.
pub(crate) const SHARED_LAYOUT: [Capability; 3] = [
    Capability::WorkgroupMemoryExplicitLayoutKHR,
    Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR,
    Capability::WorkgroupMemoryExplicitLayout16BitAccessKHR,
];

/// The feature and the capability for arithmetic with a type.
fn arithmetic(scalar: Scalar) -> Option<(Feature, Capability)> {
    Some(match scalar {
        Scalar::Float { width: 16 } => (Feature::ShaderFloat16, Capability::Float16),
        Scalar::E4M3 | Scalar::E5M2 => (Feature::ShaderFloat8, Capability::Float8EXT),
        Scalar::Int { width: 16, .. } => (Feature::ShaderInt16, Capability::Int16),
        Scalar::Int { width: 8, .. } => (Feature::ShaderInt8, Capability::Int8),
        Scalar::Int { width: 64, .. } => (Feature::ShaderInt64, Capability::Int64),
        _ => return None,
    })
}

/// The feature for memory of a storage class that holds numbers of a width.
fn storage(class: StorageClass, width: u32) -> Option<Feature> {
    Some(match (class, width) {
        (StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer, 16) => Feature::StorageBuffer16BitAccess,
        (StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer, 8) => Feature::StorageBuffer8BitAccess,
        (StorageClass::Uniform, 16) => Feature::UniformAndStorageBuffer16BitAccess,
        (StorageClass::Uniform, 8) => Feature::UniformAndStorageBuffer8BitAccess,
        (StorageClass::PushConstant, 16) => Feature::StoragePushConstant16,
        (StorageClass::PushConstant, 8) => Feature::StoragePushConstant8,
        (StorageClass::Workgroup, 16) => Feature::WorkgroupMemoryExplicitLayout16BitAccess,
        (StorageClass::Workgroup, 8) => Feature::WorkgroupMemoryExplicitLayout8BitAccess,
        _ => return None,
    })
}

/// The capability of an atomic operation on floats of a width, the width, and the features for buffers and for shared memory. Loads, stores
/// and exchanges need none.
type OfFloats = (Option<Capability>, u32, Feature, Feature);

/// The atomic operations on floats that devices may lack.
const ATOMICS: [OfFloats; 6] = [
    (
        Some(Capability::AtomicFloat32AddEXT),
        32,
        Feature::ShaderBufferFloat32AtomicAdd,
        Feature::ShaderSharedFloat32AtomicAdd,
    ),
    (
        Some(Capability::AtomicFloat32MinMaxEXT),
        32,
        Feature::ShaderBufferFloat32AtomicMinMax,
        Feature::ShaderSharedFloat32AtomicMinMax,
    ),
    (None, 32, Feature::ShaderBufferFloat32Atomics, Feature::ShaderSharedFloat32Atomics),
    (
        Some(Capability::AtomicFloat16AddEXT),
        16,
        Feature::ShaderBufferFloat16AtomicAdd,
        Feature::ShaderSharedFloat16AtomicAdd,
    ),
    (
        Some(Capability::AtomicFloat16MinMaxEXT),
        16,
        Feature::ShaderBufferFloat16AtomicMinMax,
        Feature::ShaderSharedFloat16AtomicMinMax,
    ),
    (None, 16, Feature::ShaderBufferFloat16Atomics, Feature::ShaderSharedFloat16Atomics),
];

/// The capabilities of atomic operations on floats, with the width of these.
pub(crate) fn atomic_capabilities() -> impl Iterator<Item = (Capability, u32)> {
    ATOMICS.into_iter().filter_map(|(capability, width, ..)| Some((capability?, width)))
}

/// The feature for an atomic operation on floats of a width in memory of a storage class.
fn atomic(class: StorageClass, op: Op, width: u32) -> Option<Feature> {
    let capabilities = op.info().map_or(&[][..], |i| i.capabilities);
    let fits = |of: &&OfFloats| of.1 == width && of.0.map_or(capabilities.is_empty(), |c| capabilities.contains(&c));
    let (_, _, buffer, shared) = ATOMICS.iter().find(fits).filter(|_| op.is_atomic())?;
    match class {
        StorageClass::StorageBuffer | StorageClass::Uniform | StorageClass::PhysicalStorageBuffer => Some(*buffer),
        StorageClass::Workgroup => Some(*shared),
        _ => None,
    }
}

/// The extensions of a capability, and those of the instructions that it enables.
pub(crate) fn extensions(capability: Capability) -> impl Iterator<Item = &'static str> {
    let own = Kind::Capability.enumerant(capability.0).map_or(&[][..], |e| e.extensions);
    let added = Op::AtomicFAddEXT.info().filter(|i| i.capabilities.contains(&capability));
    own.iter().chain(added.map_or(&[][..], |i| i.extensions)).copied()
}
