//! The options of a pipeline.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The matrices that lowered words may contain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Target {
    /// The best that the device and the module allow.
    #[default]
    Auto,
    /// The device's own matrices of VK_KHR_cooperative_matrix, and what it has of VK_EXT_cooperative_matrix_maintenance1.
    Khr,
    /// No matrices at all.
    Scalar,
}

/// The lane number of an invocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Lanes {
    /// [`Lanes::Subgroup`] if the device can require subgroup sizes and full subgroups, else [`Lanes::LocalIndex`]; that too
    /// where a module is made for subgroups of a size that the device has not, and in code without matrices that holds more numbers than subgroups of
    /// that size have registers ([`Requirements::any_subgroup_size`](crate::Requirements::any_subgroup_size)).
    #[default]
    Auto,
    /// Its index in a subgroup of the device. The pipeline must then require what [`Requirements`](crate::Requirements)
    /// lists.
    Subgroup,
    /// Its place in the workgroup: so many consecutive invocations stand for a subgroup as
    /// [`PipelineOptions::required_subgroup_size`] says. Such words run with subgroups of any size: what the module itself
    /// does with subgroups goes through shared memory where the device has others.
    LocalIndex,
}

/// The engine's description of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PipelineOptions {
    /// The entry point; without it, all of them.
    pub entry_point: Option<String>,
    /// Values of specialization constants. Those that none is given for have their defaults, as in any pipeline.
    pub specialization: Specialization,
    /// The subgroup size that the pipeline requires (`VkPipelineShaderStageRequiredSubgroupSizeCreateInfo`). Without it one is
    /// chosen: [`Requirements::subgroup_size`](crate::Requirements::subgroup_size).
    pub required_subgroup_size: Option<u32>,
    /// The instructions that lowered words may contain.
    pub target: Target,
    /// The source of an invocation's index in its subgroup.
    pub lanes: Lanes,
    /// True if a module that the device runs is lowered all the same.
    pub always_lower: bool,
    /// True if elements outside of a tensor read as zero, and are not written, where its layout has the clamp mode Undefined: for
    /// engines that read there and multiply by zero, which is no number if they have read none. It costs comparisons.
    pub undefined_as_zero: bool,
    /// True if the pointers of all tensor loads and stores are multiples of 16 bytes, as SPV_NV_cooperative_matrix2 demands.
    /// Engines pass multiples of an element's size (ggml: rows of odd lengths, batches behind the first), so without this the
    /// lowered words test where it matters, and take a slower way for the others.
    pub assume_aligned: bool,
    /// True if arithmetic with f16, on a device that has none, keeps the precision of f32 until its results are stored: faster, and not
    /// the bits that the module asks for.
    pub excess_precision: bool,
    /// True if the module works with subgroups of any size that the device has. Engines write the size of a subgroup into
    /// constants, and the lengths of shared arrays depend on these: without this, a module that shows such a size is lowered for
    /// it, and it is emulated where the device has none of it.
    pub assume_any_subgroup_size: bool,
    /// True if a module that breaks rules of cooperative matrices is refused before it is lowered, as `cooplower` does:
    /// for modules of others. An engine checks its own once, with `coopcheck`. Without this such a module is refused if
    /// it can't be understood, and else does what its driver would have done with it: something.
    /// The memory model is the exception: IREE's modules declare GLSL450, which is a warning of
    /// [`Lowered`](crate::Lowered).
    #[cfg(feature = "rules")]
    pub check_rules: bool,
    /// The limits of a lowering.
    pub limits: Limits,
}

/// The limits of a lowering: exceeding them is refused by `refused-limit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most instructions that are made, those that are removed again included: about a hundred bytes and a microsecond each.
    pub instructions: usize,
    /// The most time that it takes, looked at between instructions on matrices. Without it, what comes out depends on nothing but
    /// what goes in; with it, whether something comes out depends on the machine.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { instructions: coop_passes::Options::MOST_INSTRUCTIONS, time: None }
    }
}

/// Where the value of a constant is (`VkSpecializationMapEntry`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapEntry {
    /// The SpecId.
    pub constant_id: u32,
    /// The first byte.
    pub offset: u32,
    /// How many bytes.
    pub size: usize,
}

/// Values of specialization constants as pipelines have them: bytes, whatever the type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Specialization {
    values: BTreeMap<u32, Bytes>,
}

/// The bytes of a constant, in the order of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bytes {
    bytes: [u8; 8],
    size: u8,
}

impl Bytes {
    fn new(bytes: &[u8]) -> Option<Bytes> {
        let size = bytes.len();
        let mut all = [0; 8];
        all.get_mut(..size).filter(|_| matches!(size, 1 | 2 | 4 | 8))?.copy_from_slice(bytes);
        Some(Bytes { bytes: all, size: size as u8 })
    }

    fn bits(self) -> u64 {
        let [a, b, c, d, ..] = self.bytes;
        match self.size {
            1 => a.into(),
            2 => u16::from_ne_bytes([a, b]).into(),
            4 => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(self.bytes),
        }
    }
}

impl Specialization {
    /// Reads a `VkSpecializationInfo`.
    pub fn from_entries(entries: &[MapEntry], data: &[u8]) -> Result<Specialization, SpecializationError> {
        let mut values = BTreeMap::new();
        for entry in entries {
            let MapEntry { constant_id, offset, size } = *entry;
            let fail = |why| Err(SpecializationError { constant_id, why });
            let end = (offset as usize).checked_add(size);
            let Some(bytes) = end.and_then(|end| data.get(offset as usize..end)) else {
                return fail(format!("its {size} bytes at {offset} are not in the {} bytes of data", data.len()));
            };
            let Some(value) = Bytes::new(bytes) else { return fail(format!("no constant has {size} bytes")) };
            if values.insert(constant_id, value).is_some() {
                return fail("it is given twice".to_owned());
            }
        }
        Ok(Specialization { values })
    }

    /// Gives a constant of 8 bits a value.
    pub fn set_u8(&mut self, constant_id: u32, value: u8) {
        self.set(constant_id, &value.to_ne_bytes());
    }

    /// Gives a constant of 16 bits a value.
    pub fn set_u16(&mut self, constant_id: u32, value: u16) {
        self.set(constant_id, &value.to_ne_bytes());
    }

    /// Gives a constant of 32 bits a value, or a Boolean: zero is false.
    pub fn set_u32(&mut self, constant_id: u32, value: u32) {
        self.set(constant_id, &value.to_ne_bytes());
    }

    /// Gives a constant of 64 bits a value.
    pub fn set_u64(&mut self, constant_id: u32, value: u64) {
        self.set(constant_id, &value.to_ne_bytes());
    }

    fn set(&mut self, constant_id: u32, bytes: &[u8]) {
        if let Some(value) = Bytes::new(bytes) {
            self.values.insert(constant_id, value);
        }
    }

    /// Returns the SpecIds that have a value, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.values.keys().copied()
    }

    /// Returns whether no constant has a value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the values as a `VkSpecializationInfo` has them: entries, and the data that they point into.
    pub fn to_entries(&self) -> (Vec<MapEntry>, Vec<u8>) {
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        for (constant_id, value) in &self.values {
            let size = usize::from(value.size);
            entries.push(MapEntry { constant_id: *constant_id, offset: data.len() as u32, size });
            // All eight, so that the next is aligned for any type.
            data.extend_from_slice(&value.bytes);
        }
        (entries, data)
    }

    /// Returns the values of the constants that `keep` says yes to.
    #[must_use]
    pub fn only(&self, keep: impl Fn(u32) -> bool) -> Specialization {
        let values = self.values.iter().filter(|(id, _)| keep(**id)).map(|(id, value)| (*id, *value));
        Specialization { values: values.collect() }
    }

    /// Returns SpecIds, sizes in bytes and bits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        self.values.iter().map(|(id, value)| (*id, value.size.into(), value.bits()))
    }
}

/// The reason why bytes are not values of specialization constants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecializationError {
    /// The SpecId.
    pub constant_id: u32,
    why: String,
}

impl fmt::Display for SpecializationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of specialization constant {}: {}", self.constant_id, self.why)
    }
}

impl std::error::Error for SpecializationError {}
