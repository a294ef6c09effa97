//! The Boolean features and properties of a device.
//!
//! A [`Feature`] is a Boolean member of one of Vulkan's feature structures, or a Boolean property that works like one
//! (the float controls, the accelerated dot products). Names are Vulkan's own; where two structures use the same member
//! name (the cooperative-matrix ones do), the vendor suffix tells them apart.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Declares [`Feature`]: structures with their members, in Vulkan's order.
macro_rules! features {
    ($($structure:literal { $($variant:ident = $name:literal),* $(,)? })*) => {
        /// A Boolean feature or property of a device. Later versions know more of them, and number and order them otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Feature {
            $($(
                #[doc = concat!("`", $name, "` of `", $structure, "`.")]
                $variant,
            )*)*
        }

        impl Feature {
            /// Every feature, in the order in which Vulkan grew them.
            pub const ALL: &'static [Feature] = &[$($(Feature::$variant,)*)*];

            /// Returns the name in profiles and messages.
            pub const fn name(self) -> &'static str {
                match self { $($(Feature::$variant => $name,)*)* }
            }

            /// Returns the Vulkan structure that the feature is a member of.
            pub const fn structure(self) -> &'static str {
                match self { $($(Feature::$variant)|* => $structure,)* }
            }
        }
    };
}

features! {
    "VkPhysicalDeviceFeatures" {
        RobustBufferAccess = "robustBufferAccess",
        ShaderUniformBufferArrayDynamicIndexing = "shaderUniformBufferArrayDynamicIndexing",
        ShaderStorageBufferArrayDynamicIndexing = "shaderStorageBufferArrayDynamicIndexing",
        ShaderFloat64 = "shaderFloat64",
        ShaderInt64 = "shaderInt64",
        ShaderInt16 = "shaderInt16",
    }
    "VkPhysicalDevice16BitStorageFeatures" {
        StorageBuffer16BitAccess = "storageBuffer16BitAccess",
        UniformAndStorageBuffer16BitAccess = "uniformAndStorageBuffer16BitAccess",
        StoragePushConstant16 = "storagePushConstant16",
    }
    "VkPhysicalDeviceVariablePointersFeatures" {
        VariablePointersStorageBuffer = "variablePointersStorageBuffer",
        VariablePointers = "variablePointers",
    }
    "VkPhysicalDevice8BitStorageFeatures" {
        StorageBuffer8BitAccess = "storageBuffer8BitAccess",
        UniformAndStorageBuffer8BitAccess = "uniformAndStorageBuffer8BitAccess",
        StoragePushConstant8 = "storagePushConstant8",
    }
    "VkPhysicalDeviceShaderFloat16Int8Features" {
        ShaderFloat16 = "shaderFloat16",
        ShaderInt8 = "shaderInt8",
    }
    "VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures" {
        ShaderSubgroupExtendedTypes = "shaderSubgroupExtendedTypes",
    }
    "VkPhysicalDeviceShaderAtomicInt64Features" {
        ShaderBufferInt64Atomics = "shaderBufferInt64Atomics",
        ShaderSharedInt64Atomics = "shaderSharedInt64Atomics",
    }
    "VkPhysicalDeviceVulkanMemoryModelFeatures" {
        VulkanMemoryModel = "vulkanMemoryModel",
        VulkanMemoryModelDeviceScope = "vulkanMemoryModelDeviceScope",
        VulkanMemoryModelAvailabilityVisibilityChains = "vulkanMemoryModelAvailabilityVisibilityChains",
    }
    "VkPhysicalDeviceScalarBlockLayoutFeatures" {
        ScalarBlockLayout = "scalarBlockLayout",
    }
    "VkPhysicalDeviceUniformBufferStandardLayoutFeatures" {
        UniformBufferStandardLayout = "uniformBufferStandardLayout",
    }
    "VkPhysicalDeviceBufferDeviceAddressFeatures" {
        BufferDeviceAddress = "bufferDeviceAddress",
    }
    "VkPhysicalDeviceDescriptorIndexingFeatures" {
        ShaderUniformBufferArrayNonUniformIndexing = "shaderUniformBufferArrayNonUniformIndexing",
        ShaderStorageBufferArrayNonUniformIndexing = "shaderStorageBufferArrayNonUniformIndexing",
        RuntimeDescriptorArray = "runtimeDescriptorArray",
    }
    "VkPhysicalDeviceSubgroupSizeControlFeatures" {
        SubgroupSizeControl = "subgroupSizeControl",
        ComputeFullSubgroups = "computeFullSubgroups",
    }
    "VkPhysicalDeviceShaderIntegerDotProductFeatures" {
        ShaderIntegerDotProduct = "shaderIntegerDotProduct",
    }
    "VkPhysicalDeviceZeroInitializeWorkgroupMemoryFeatures" {
        ShaderZeroInitializeWorkgroupMemory = "shaderZeroInitializeWorkgroupMemory",
    }
    "VkPhysicalDeviceMaintenance4Features" {
        Maintenance4 = "maintenance4",
    }
    "VkPhysicalDeviceShaderSubgroupRotateFeatures" {
        ShaderSubgroupRotate = "shaderSubgroupRotate",
        ShaderSubgroupRotateClustered = "shaderSubgroupRotateClustered",
    }
    "VkPhysicalDeviceShaderFloatControls2Features" {
        ShaderFloatControls2 = "shaderFloatControls2",
    }
    "VkPhysicalDeviceShaderExpectAssumeFeatures" {
        ShaderExpectAssume = "shaderExpectAssume",
    }
    "VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR" {
        WorkgroupMemoryExplicitLayout = "workgroupMemoryExplicitLayout",
        WorkgroupMemoryExplicitLayoutScalarBlockLayout = "workgroupMemoryExplicitLayoutScalarBlockLayout",
        WorkgroupMemoryExplicitLayout8BitAccess = "workgroupMemoryExplicitLayout8BitAccess",
        WorkgroupMemoryExplicitLayout16BitAccess = "workgroupMemoryExplicitLayout16BitAccess",
    }
    "VkPhysicalDeviceRobustness2FeaturesEXT" {
        RobustBufferAccess2 = "robustBufferAccess2",
        NullDescriptor = "nullDescriptor",
    }
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT" {
        ShaderBufferFloat32Atomics = "shaderBufferFloat32Atomics",
        ShaderBufferFloat32AtomicAdd = "shaderBufferFloat32AtomicAdd",
        ShaderBufferFloat64Atomics = "shaderBufferFloat64Atomics",
        ShaderBufferFloat64AtomicAdd = "shaderBufferFloat64AtomicAdd",
        ShaderSharedFloat32Atomics = "shaderSharedFloat32Atomics",
        ShaderSharedFloat32AtomicAdd = "shaderSharedFloat32AtomicAdd",
    }
    "VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT" {
        ShaderBufferFloat16Atomics = "shaderBufferFloat16Atomics",
        ShaderBufferFloat16AtomicAdd = "shaderBufferFloat16AtomicAdd",
        ShaderBufferFloat16AtomicMinMax = "shaderBufferFloat16AtomicMinMax",
        ShaderBufferFloat32AtomicMinMax = "shaderBufferFloat32AtomicMinMax",
        ShaderBufferFloat64AtomicMinMax = "shaderBufferFloat64AtomicMinMax",
        ShaderSharedFloat16Atomics = "shaderSharedFloat16Atomics",
        ShaderSharedFloat16AtomicAdd = "shaderSharedFloat16AtomicAdd",
        ShaderSharedFloat16AtomicMinMax = "shaderSharedFloat16AtomicMinMax",
        ShaderSharedFloat32AtomicMinMax = "shaderSharedFloat32AtomicMinMax",
        ShaderSharedFloat64AtomicMinMax = "shaderSharedFloat64AtomicMinMax",
    }
    "VkPhysicalDeviceShaderClockFeaturesKHR" {
        ShaderSubgroupClock = "shaderSubgroupClock",
        ShaderDeviceClock = "shaderDeviceClock",
    }
    "VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR" {
        ShaderSubgroupUniformControlFlow = "shaderSubgroupUniformControlFlow",
    }
    "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR" {
        ShaderMaximalReconvergence = "shaderMaximalReconvergence",
    }
    "VkPhysicalDeviceShaderRelaxedExtendedInstructionFeaturesKHR" {
        ShaderRelaxedExtendedInstruction = "shaderRelaxedExtendedInstruction",
    }
    "VkPhysicalDeviceMaintenance8FeaturesKHR" {
        Maintenance8 = "maintenance8",
    }
    "VkPhysicalDeviceShaderReplicatedCompositesFeaturesEXT" {
        ShaderReplicatedComposites = "shaderReplicatedComposites",
    }
    "VkPhysicalDeviceShaderUntypedPointersFeaturesKHR" {
        ShaderUntypedPointers = "shaderUntypedPointers",
    }
    "VkPhysicalDeviceShaderLongVectorFeaturesEXT" {
        LongVector = "longVector",
    }
    "VkPhysicalDeviceShader64BitIndexingFeaturesEXT" {
        Shader64BitIndexing = "shader64BitIndexing",
    }
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR" {
        ShaderBFloat16Type = "shaderBFloat16Type",
        ShaderBFloat16DotProduct = "shaderBFloat16DotProduct",
        ShaderBFloat16CooperativeMatrix = "shaderBFloat16CooperativeMatrix",
    }
    "VkPhysicalDeviceShaderFloat8FeaturesEXT" {
        ShaderFloat8 = "shaderFloat8",
        ShaderFloat8CooperativeMatrix = "shaderFloat8CooperativeMatrix",
    }
    "VkPhysicalDeviceShaderOCPMicroscalingTypesFeaturesEXT" {
        ShaderFloat4 = "shaderFloat4",
        ShaderFloat6 = "shaderFloat6",
        ShaderFloat8UnsignedE8M0 = "shaderFloat8UnsignedE8M0",
        ShaderMxInt8 = "shaderMXInt8",
    }
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR" {
        CooperativeMatrix = "cooperativeMatrix",
        CooperativeMatrixRobustBufferAccess = "cooperativeMatrixRobustBufferAccess",
    }
    "VkPhysicalDeviceCooperativeMatrixFeaturesNV" {
        CooperativeMatrixNv = "cooperativeMatrixNV",
        CooperativeMatrixRobustBufferAccessNv = "cooperativeMatrixRobustBufferAccessNV",
    }
    "VkPhysicalDeviceCooperativeMatrix2FeaturesNV" {
        CooperativeMatrixWorkgroupScope = "cooperativeMatrixWorkgroupScope",
        CooperativeMatrixFlexibleDimensions = "cooperativeMatrixFlexibleDimensions",
        CooperativeMatrixReductionsNv = "cooperativeMatrixReductionsNV",
        CooperativeMatrixConversionsNv = "cooperativeMatrixConversionsNV",
        CooperativeMatrixPerElementOperationsNv = "cooperativeMatrixPerElementOperationsNV",
        CooperativeMatrixTensorAddressing = "cooperativeMatrixTensorAddressing",
        CooperativeMatrixBlockLoads = "cooperativeMatrixBlockLoads",
    }
    "VkPhysicalDeviceCooperativeMatrixDecodeVectorFeaturesNV" {
        CooperativeMatrixDecodeVector = "cooperativeMatrixDecodeVector",
    }
    "VkPhysicalDeviceCooperativeMatrixMaintenance1FeaturesEXT" {
        CooperativeMatrixProperties2 = "cooperativeMatrixProperties2",
        CooperativeMatrixReductionsExt = "cooperativeMatrixReductionsEXT",
        CooperativeMatrixConversionsExt = "cooperativeMatrixConversionsEXT",
        CooperativeMatrixPerElementOperationsExt = "cooperativeMatrixPerElementOperationsEXT",
        CooperativeMatrixGetCoordinate = "cooperativeMatrixGetCoordinate",
    }
    "VkPhysicalDeviceCooperativeMatrixConversionFeaturesQCOM" {
        CooperativeMatrixConversionQcom = "cooperativeMatrixConversionQCOM",
    }
    "VkPhysicalDeviceCooperativeVectorFeaturesNV" {
        CooperativeVector = "cooperativeVector",
        CooperativeVectorTraining = "cooperativeVectorTraining",
    }
    "VkPhysicalDeviceFloatControlsProperties" {
        ShaderSignedZeroInfNanPreserveFloat16 = "shaderSignedZeroInfNanPreserveFloat16",
        ShaderSignedZeroInfNanPreserveFloat32 = "shaderSignedZeroInfNanPreserveFloat32",
        ShaderSignedZeroInfNanPreserveFloat64 = "shaderSignedZeroInfNanPreserveFloat64",
        ShaderDenormPreserveFloat16 = "shaderDenormPreserveFloat16",
        ShaderDenormPreserveFloat32 = "shaderDenormPreserveFloat32",
        ShaderDenormPreserveFloat64 = "shaderDenormPreserveFloat64",
        ShaderDenormFlushToZeroFloat16 = "shaderDenormFlushToZeroFloat16",
        ShaderDenormFlushToZeroFloat32 = "shaderDenormFlushToZeroFloat32",
        ShaderDenormFlushToZeroFloat64 = "shaderDenormFlushToZeroFloat64",
        ShaderRoundingModeRteFloat16 = "shaderRoundingModeRTEFloat16",
        ShaderRoundingModeRteFloat32 = "shaderRoundingModeRTEFloat32",
        ShaderRoundingModeRteFloat64 = "shaderRoundingModeRTEFloat64",
        ShaderRoundingModeRtzFloat16 = "shaderRoundingModeRTZFloat16",
        ShaderRoundingModeRtzFloat32 = "shaderRoundingModeRTZFloat32",
        ShaderRoundingModeRtzFloat64 = "shaderRoundingModeRTZFloat64",
    }
    "VkPhysicalDeviceShaderIntegerDotProductProperties" {
        IntegerDotProduct4x8BitPackedUnsignedAccelerated = "integerDotProduct4x8BitPackedUnsignedAccelerated",
        IntegerDotProduct4x8BitPackedSignedAccelerated = "integerDotProduct4x8BitPackedSignedAccelerated",
        IntegerDotProduct4x8BitPackedMixedSignednessAccelerated = "integerDotProduct4x8BitPackedMixedSignednessAccelerated",
    }
}

impl Feature {
    /// Returns the feature with a name.
    pub fn from_name(name: &str) -> Option<Feature> {
        Feature::ALL.iter().copied().find(|feature| feature.name() == name)
    }

    /// Returns true if this is a Boolean property, which an application does not enable.
    pub fn is_property(self) -> bool {
        self.structure().ends_with("Properties")
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of features. In JSON: an object with every known name, `true` or `false`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Features {
    bits: u128,
}

// One bit per feature in a u128.
const _: () = assert!(Feature::ALL.len() <= 128);

impl Features {
    /// No feature at all.
    pub const NONE: Features = Features { bits: 0 };

    /// Returns true if the set has the feature.
    pub const fn has(&self, feature: Feature) -> bool {
        self.bits >> (feature as u8) & 1 == 1
    }

    /// Adds or removes a feature.
    pub const fn set(&mut self, feature: Feature, on: bool) {
        let bit = 1 << (feature as u8);
        self.bits = if on { self.bits | bit } else { self.bits & !bit };
    }

    /// Adds a feature.
    pub const fn insert(&mut self, feature: Feature) {
        self.set(feature, true);
    }

    /// Returns the features of the set, in the order of [`Feature::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Feature> + use<> {
        let set = *self;
        Feature::ALL.iter().copied().filter(move |&feature| set.has(feature))
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Features {
        let mut set = Features::NONE;
        for feature in features {
            set.insert(feature);
        }
        set
    }
}

impl Serialize for Features {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A feature that is not mentioned is absent.
        let mut map = serializer.serialize_map(None)?;
        for feature in self.iter() {
            map.serialize_entry(feature.name(), &true)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Features, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

/// Reads the members of the object.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Features;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of features")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Features, A::Error> {
        let (mut set, mut said) = (Features::NONE, Features::NONE);
        while let Some(name) = map.next_key::<String>()? {
            let feature = Feature::from_name(&name)
                .ok_or_else(|| A::Error::custom(format_args!("there is no feature {name}")))?;
            if said.has(feature) {
                return Err(A::Error::custom(format_args!("feature {name} is given twice")));
            }
            said.insert(feature);
            set.set(feature, map.next_value()?);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for &feature in Feature::ALL {
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
        }
    }

    #[test]
    fn sets_round_trip() {
        let set: Features = [Feature::ShaderFloat16, Feature::CooperativeVectorTraining].into_iter().collect();
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(serde_json::from_str::<Features>(&json).unwrap(), set);
        assert!(serde_json::from_str::<Features>(r#"{"shaderInt8": true, "ofTomorrow": true}"#).is_err());
        assert!(serde_json::from_str::<Features>(r#"{"shaderInt8": 1}"#).is_err());
    }
}
