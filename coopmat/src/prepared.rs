//! A module that was read once.

use crate::hash;
use crate::{Device, Outcome, PipelineOptions, Specialization, lowering};
use coop_ir::constant::{Constants, SpecValue};
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::spv::Capability;
use coop_ir::types::Type;
use coop_ir::{Module, binary};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// A module that was read once, for any number of pipelines and threads.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) module: Module,
    /// True if anything in it is lowered here.
    concerned: bool,
    constants: BTreeMap<u32, SpecConstant>,
    /// The names of its entry points.
    pub(crate) entries: Vec<String>,
    hash: OnceLock<[u8; 32]>,
    /// The result of the check that its first lowering makes.
    pub(crate) well_formed: coop_passes::WellFormed,
}

/// A specialization constant of a module.
#[derive(Clone, Copy, Debug)]
struct SpecConstant {
    /// The size of its value in a `VkSpecializationInfo`.
    bytes: u32,
    /// Its value where none is given.
    default: u64,
}

/// The reason why words are not a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl Prepared {
    /// Reads a module from its words, in the byte order of the machine or the other one.
    pub fn read(words: &[u32]) -> Result<Prepared, ReadError> {
        Prepared::from_module(|| binary::read_words(words))
    }

    /// Reads a module from the bytes of a file.
    pub fn read_bytes(bytes: &[u8]) -> Result<Prepared, ReadError> {
        Prepared::from_module(|| binary::read(bytes))
    }

    fn from_module(read: impl FnOnce() -> Result<Module, binary::ReadError>) -> Result<Prepared, ReadError> {
        let prepared = guarded(|| {
            let module = read().map_err(|error| error.to_string())?;
            let constants = spec_constants(&module);
            let entries = entry_points(&module, &Decorations::new(&module));
            let entries = entries.into_iter().map(|entry| entry.name).collect();
            let types = module.has_capability(Capability::BFloat16TypeKHR);
            let concerned = types || coop_validate::concerns_matrices(&module);
            let (hash, well_formed) = (OnceLock::new(), coop_passes::WellFormed::default());
            Ok(Prepared { concerned, constants, entries, module, hash, well_formed })
        });
        prepared.unwrap_or_else(Err).map_err(ReadError)
    }

    /// Returns true if the module has anything that is ever lowered, matrices or bfloat16: if not, each of its
    /// pipelines is [`Outcome::Native`].
    pub fn has_matrices(&self) -> bool {
        self.concerned
    }

    /// Returns the outcome for a pipeline on a device.
    pub fn for_pipeline(&self, device: &Device, options: &PipelineOptions) -> Outcome {
        if !self.concerned {
            return Outcome::Native;
        }
        match guarded(|| lowering::outcome(self, device, options)) {
            Ok(outcome) => outcome,
            Err(panic) => Outcome::Refused(Box::new(lowering::internal(panic))),
        }
    }

    /// Returns a collision-resistant hash of the module's words.
    pub fn hash(&self) -> [u8; 32] {
        *self.hash.get_or_init(|| {
            // A module that is read and not changed is written as the same words.
            hash::hash_words(&binary::write_words(&self.module))
        })
    }

    /// Returns the key of [`Prepared::for_pipeline`] for caches: the same if the library's build, the module, the device and the
    /// options are.
    pub fn pipeline_key(&self, device: &Device, options: &PipelineOptions) -> [u8; 32] {
        pipeline_key(&self.hash(), device, options)
    }

    /// Returns the values of all constants of the module, as a pipeline with `given` has them; an error if one does not fit.
    pub(crate) fn values(&self, given: &Specialization) -> Result<coop_ir::constant::Specialization, (u32, String)> {
        let mut all = coop_ir::constant::Specialization::new();
        for (id, constant) in &self.constants {
            all.set(*id, SpecValue::Bits(constant.default));
        }
        for (id, bytes, bits) in given.iter() {
            // A value for a constant that the module does not have says nothing.
            let Some(constant) = self.constants.get(&id) else { continue };
            if constant.bytes != bytes {
                return Err((id, format!("it has {} bytes and is given {bytes}", constant.bytes)));
            }
            all.set(id, SpecValue::Bits(bits));
        }
        Ok(all)
    }
}

/// Returns the key of what [`Prepared::for_pipeline`] answers for a module that was not read yet: the same if the library's build,
/// what tells the module from others, the device and the options are.
pub fn pipeline_key(module: &[u8; 32], device: &Device, options: &PipelineOptions) -> [u8; 32] {
    hash::hash(&[crate::BUILD.as_bytes(), module, &device.hash(), format!("{options:?}").as_bytes()])
}

/// Runs what must not panic; the message if it does.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    // What `f` works on is dropped with it, and what it borrows is never written.
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
    })
}

/// The specialization constants of a module, by SpecId.
fn spec_constants(module: &Module) -> BTreeMap<u32, SpecConstant> {
    let constants = Constants::new(module, &coop_ir::constant::Specialization::new());
    let mut all = BTreeMap::new();
    for inst in module.globals.iter().map(|r| module.inst(*r)).filter(|inst| inst.op.is_spec_literal()) {
        let (Some(id), Some(ty)) = (inst.result, inst.ty) else { continue };
        let bytes = match Type::of(module, ty) {
            Some(Type::Bool) => 4,
            Some(Type::Scalar(scalar)) => scalar.bytes(),
            _ => continue,
        };
        if let (Some(spec_id), Some(default)) = (constants.spec_id(id), constants.get(id).value()) {
            all.insert(spec_id, SpecConstant { bytes, default });
        }
    }
    all
}
