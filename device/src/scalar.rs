//! The scalar types of profiles: component types, scopes, versions, subgroup operations.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use coop_ir::nearest::{DidYouMean, nearest};

/// Implements serde through `Display` and `FromStr`.
macro_rules! as_string {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                // Owned, so that readers which cannot lend text (TOML, escapes) work too.
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

as_string!(ComponentType, Scope, ApiVersion);

/// Declares [`ComponentType`]: variant, name, VkComponentTypeKHR value, bits.
macro_rules! component_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $vk:literal, $bits:literal;)*) => {
        /// A component type of cooperative matrices, as a device names it (`VkComponentTypeKHR`).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ComponentType {
            $($(#[$doc])* $variant,)*
            /// A value that this version does not know; written `vk:NUMBER`.
            Other(u32),
        }

        impl ComponentType {
            /// Every component type that has a name.
            pub const ALL: &'static [ComponentType] = &[$(ComponentType::$variant,)*];

            /// Returns the type of a `VkComponentTypeKHR` value.
            pub const fn from_vk(value: u32) -> ComponentType {
                match value { $($vk => ComponentType::$variant,)* other => ComponentType::Other(other) }
            }

            /// Returns the `VkComponentTypeKHR` value.
            pub const fn to_vk(self) -> u32 {
                match self { $(ComponentType::$variant => $vk,)* ComponentType::Other(value) => value }
            }

            /// Returns the name, if this version knows one.
            pub const fn name(self) -> Option<&'static str> {
                match self { $(ComponentType::$variant => Some($name),)* ComponentType::Other(_) => None }
            }

            /// Returns the width of a component in bits, if this version knows it.
            pub const fn bits(self) -> Option<u32> {
                match self { $(ComponentType::$variant => Some($bits),)* ComponentType::Other(_) => None }
            }
        }
    };
}

component_types! {
    /// IEEE half.
    F16 = "f16", 0, 16;
    /// IEEE single.
    F32 = "f32", 1, 32;
    /// IEEE double.
    F64 = "f64", 2, 64;
    /// Signed, 8 bits.
    S8 = "s8", 3, 8;
    /// Signed, 16 bits.
    S16 = "s16", 4, 16;
    /// Signed, 32 bits.
    S32 = "s32", 5, 32;
    /// Signed, 64 bits.
    S64 = "s64", 6, 64;
    /// Unsigned, 8 bits.
    U8 = "u8", 7, 8;
    /// Unsigned, 16 bits.
    U16 = "u16", 8, 16;
    /// Unsigned, 32 bits.
    U32 = "u32", 9, 32;
    /// Unsigned, 64 bits.
    U64 = "u64", 10, 64;
    /// bfloat16.
    Bf16 = "bf16", 1_000_141_000, 16;
    /// Four signed bytes in a word; of cooperative vectors only.
    S8Packed = "s8packed", 1_000_491_000, 32;
    /// Four unsigned bytes in a word; of cooperative vectors only.
    U8Packed = "u8packed", 1_000_491_001, 32;
    /// 8-bit float, 4 bits of exponent.
    E4m3 = "e4m3", 1_000_491_002, 8;
    /// 8-bit float, 5 bits of exponent.
    E5m2 = "e5m2", 1_000_491_003, 8;
    /// 6-bit float, 2 bits of exponent.
    E2m3 = "e2m3", 1_000_672_000, 6;
    /// 6-bit float, 3 bits of exponent.
    E3m2 = "e3m2", 1_000_672_001, 6;
    /// 4-bit float.
    E2m1 = "e2m1", 1_000_672_002, 4;
    /// An exponent alone, 8 bits.
    E8m0 = "e8m0", 1_000_672_003, 8;
    /// The 8-bit integer of the OCP microscaling formats.
    MxInt8 = "mxint8", 1_000_672_004, 8;
}

impl ComponentType {
    /// Returns true if this is an integer type (the packed ones included).
    pub const fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// Returns true if this is a signed integer type.
    pub const fn is_signed_integer(self) -> bool {
        use ComponentType::*;
        matches!(self, S8 | S16 | S32 | S64 | S8Packed)
    }

    /// Returns true if this is an unsigned integer type.
    pub const fn is_unsigned_integer(self) -> bool {
        use ComponentType::*;
        matches!(self, U8 | U16 | U32 | U64 | U8Packed)
    }
}

impl fmt::Display for ComponentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "vk:{}", self.to_vk()),
        }
    }
}

impl FromStr for ComponentType {
    type Err = String;

    fn from_str(text: &str) -> Result<ComponentType, String> {
        if let Some(value) = text.strip_prefix("vk:").and_then(|number| number.parse().ok()) {
            return Ok(ComponentType::from_vk(value));
        }
        let named = ComponentType::ALL.iter().copied().find(|kind| kind.name() == Some(text));
        named.ok_or_else(|| format!("'{text}' is not a component type"))
    }
}

/// The scope of a matrix. The numbers are those of SPIR-V and of `VkScopeKHR`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// All invocations on the device.
    Device,
    /// A workgroup.
    Workgroup,
    /// A subgroup.
    Subgroup,
    /// A queue family.
    QueueFamily,
    /// A value that this version does not know; written `vk:NUMBER`.
    Other(u32),
}

impl Scope {
    /// Returns the scope with a number.
    pub const fn from_number(value: u32) -> Scope {
        match value {
            1 => Scope::Device,
            2 => Scope::Workgroup,
            3 => Scope::Subgroup,
            5 => Scope::QueueFamily,
            other => Scope::Other(other),
        }
    }

    /// Returns the scope's number in SPIR-V and Vulkan.
    pub const fn number(self) -> u32 {
        match self {
            Scope::Device => 1,
            Scope::Workgroup => 2,
            Scope::Subgroup => 3,
            Scope::QueueFamily => 5,
            Scope::Other(value) => value,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Device => f.write_str("device"),
            Scope::Workgroup => f.write_str("workgroup"),
            Scope::Subgroup => f.write_str("subgroup"),
            Scope::QueueFamily => f.write_str("queueFamily"),
            Scope::Other(value) => write!(f, "vk:{value}"),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        match text {
            "device" => Ok(Scope::Device),
            "workgroup" => Ok(Scope::Workgroup),
            "subgroup" => Ok(Scope::Subgroup),
            "queueFamily" => Ok(Scope::QueueFamily),
            _ => match text.strip_prefix("vk:").and_then(|number| number.parse().ok()) {
                Some(value) => Ok(Scope::from_number(value)),
                None => Err(format!("'{text}' is not a scope")),
            },
        }
    }
}

/// A version of the Vulkan interface, `1.3.281`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ApiVersion {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Patch level.
    pub patch: u16,
}

impl ApiVersion {
    /// Returns the first release of a minor version.
    pub const fn new(major: u16, minor: u16) -> ApiVersion {
        ApiVersion { major, minor, patch: 0 }
    }

    /// Returns the version for Vulkan's packed number.
    pub const fn from_packed(value: u32) -> ApiVersion {
        ApiVersion {
            major: (value >> 22 & 0x7f) as u16,
            minor: (value >> 12 & 0x3ff) as u16,
            patch: (value & 0xfff) as u16,
        }
    }

    /// Returns Vulkan's packed number.
    pub const fn to_packed(self) -> u32 {
        (self.major as u32) << 22 | (self.minor as u32) << 12 | self.patch as u32
    }

    /// Returns true if this version includes that minor version.
    pub const fn at_least(self, major: u16, minor: u16) -> bool {
        self.major > major || self.major == major && self.minor >= minor
    }
}

impl Default for ApiVersion {
    fn default() -> ApiVersion {
        ApiVersion::new(1, 0)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for ApiVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<ApiVersion, String> {
        let bad = || format!("'{text}' is not a version such as 1.3 or 1.3.281");
        let mut parts = text.split('.');
        let mut number = |wanted: bool| match parts.next() {
            Some(part) => part.parse::<u16>().map_err(|_| bad()),
            None if wanted => Err(bad()),
            None => Ok(0),
        };
        let version = ApiVersion { major: number(true)?, minor: number(true)?, patch: number(false)? };
        if parts.next().is_some() { Err(bad()) } else { Ok(version) }
    }
}

/// Declares [`SubgroupOperations`]: constant, name, bit.
macro_rules! subgroup_operations {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $bit:literal;)*) => {
        /// The groups of subgroup operations that a device has (`VkSubgroupFeatureFlags`).
        /// In JSON: a list of names.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
        pub struct SubgroupOperations(pub u32);

        impl SubgroupOperations {
            $($(#[$doc])* pub const $constant: SubgroupOperations = SubgroupOperations($bit);)*

            const NAMES: &'static [(&'static str, u32)] = &[$(($name, $bit)),*];
        }
    };
}

subgroup_operations! {
    /// Elect and barriers.
    BASIC = "basic", 0x1;
    /// All, any, all-equal.
    VOTE = "vote", 0x2;
    /// Reductions and scans.
    ARITHMETIC = "arithmetic", 0x4;
    /// Ballots and broadcasts.
    BALLOT = "ballot", 0x8;
    /// Shuffles.
    SHUFFLE = "shuffle", 0x10;
    /// Shuffles up and down.
    SHUFFLE_RELATIVE = "shuffleRelative", 0x20;
    /// Reductions over clusters.
    CLUSTERED = "clustered", 0x40;
    /// Quad broadcasts and swaps.
    QUAD = "quad", 0x80;
    /// NVIDIA's partitions.
    PARTITIONED = "partitionedNV", 0x100;
    /// Rotations.
    ROTATE = "rotate", 0x200;
    /// Rotations within clusters.
    ROTATE_CLUSTERED = "rotateClustered", 0x400;
}

impl SubgroupOperations {
    /// Returns true if every one of the given operations is there.
    pub const fn has(self, operations: SubgroupOperations) -> bool {
        self.0 & operations.0 == operations.0
    }
}

impl fmt::Display for SubgroupOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, _) in SubgroupOperations::NAMES.iter().filter(|(_, bit)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = " ";
        }
        Ok(())
    }
}

impl Serialize for SubgroupOperations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = SubgroupOperations::NAMES.iter().filter(|(_, bit)| self.0 & bit != 0);
        serializer.collect_seq(names.map(|(name, _)| name))
    }
}

impl<'de> Deserialize<'de> for SubgroupOperations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SubgroupOperations, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let bit = |name: &String| {
            let found = SubgroupOperations::NAMES.iter().find(|(n, _)| n == name);
            let unknown = || {
                let near = nearest(name, SubgroupOperations::NAMES.iter().map(|(n, _)| *n));
                D::Error::custom(format_args!("'{name}' is not a group of subgroup operations{}", DidYouMean(near)))
            };
            found.map(|(_, bit)| *bit).ok_or_else(unknown)
        };
        names.iter().try_fold(0, |bits, name| Ok(bits | bit(name)?)).map(SubgroupOperations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_types_round_trip() {
        for &kind in ComponentType::ALL.iter().chain(&[ComponentType::Other(77)]) {
            assert_eq!(ComponentType::from_vk(kind.to_vk()), kind);
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("f17".parse::<ComponentType>().unwrap_err(), "'f17' is not a component type");
    }

    #[test]
    fn versions_round_trip() {
        let version = ApiVersion { major: 1, minor: 4, patch: 354 };
        assert_eq!(version.to_string().parse(), Ok(version));
        assert_eq!(ApiVersion::from_packed(version.to_packed()), version);
        assert_eq!("1.2".parse(), Ok(ApiVersion::new(1, 2)));
        assert!(version.at_least(1, 3) && !version.at_least(1, 5));
        for bad in ["", "1", "1.x", "1.2.3.4", "1.99999"] {
            assert!(bad.parse::<ApiVersion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn subgroup_operations_are_a_list_of_names() {
        let json = serde_json::to_string(&SubgroupOperations(0x41)).unwrap();
        assert_eq!(json, r#"["basic","clustered"]"#);
        assert_eq!(serde_json::from_str::<SubgroupOperations>(&json).unwrap(), SubgroupOperations(0x41));
        let error = serde_json::from_str::<SubgroupOperations>(r#"["shufle"]"#).unwrap_err().to_string();
        assert!(error.contains("'shufle' is not a group of subgroup operations; did you mean 'shuffle'?"), "{error}");
    }
}
