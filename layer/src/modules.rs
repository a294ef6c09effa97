//! Shader modules: the words of those that the layer has to look at again when pipelines are made of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ash::vk;
use coop_device::{Feature, Profile, Requirement, capability_requirement};
use coop_ir::spv::Capability;
use coopmat::Prepared;

use crate::cache::Key;
use crate::device::{Device, device_of};
use crate::instance::Loaded;
use crate::log;

/// A module that may have to be lowered.
pub(crate) struct TrackedModule {
    pub(crate) words: Vec<u32>,
    /// The module, read when the first pipeline is made of it.
    prepared: OnceLock<Result<Prepared, String>>,
    /// The hash that identifies it.
    hash: OnceLock<Key>,
}

impl TrackedModule {
    /// Keeps words.
    pub(crate) fn new(words: Vec<u32>) -> TrackedModule {
        TrackedModule { words, prepared: OnceLock::new(), hash: OnceLock::new() }
    }

    /// Keeps words whose hash is known.
    fn with_hash(words: Vec<u32>, hash: Key) -> TrackedModule {
        TrackedModule { words, prepared: OnceLock::new(), hash: OnceLock::from(hash) }
    }

    /// Tells the module from others.
    pub(crate) fn hash(&self) -> &Key {
        self.hash.get_or_init(|| hash_of(&self.words))
    }

    /// Reads the module, the first time.
    pub(crate) fn prepared(&self) -> Result<&Prepared, String> {
        let read = || Prepared::read(&self.words).map_err(|error| error.to_string());
        self.prepared.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// Returns the hash that tells a module from others.
fn hash_of(words: &[u32]) -> Key {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    coopmat::hash(&[&bytes])
}

/// The modules of a device that are kept. Engines make a module of the same words for each pipeline of a shader: such modules share one
/// [`TrackedModule`], so that the words are kept, read and checked once.
#[derive(Default)]
pub(crate) struct Modules(RwLock<Tables>);

/// Invariant: `by_hash` has the hash of each module in `by_handle`, with the number of handles that it has there, and no other.
#[derive(Default)]
struct Tables {
    /// By the handle of what stands in for the module.
    by_handle: HashMap<vk::ShaderModule, Arc<TrackedModule>>,
    /// By the hash of the words.
    by_hash: HashMap<Key, (Arc<TrackedModule>, usize)>,
}

impl Modules {
    /// Returns a kept module.
    pub(crate) fn get(&self, module: vk::ShaderModule) -> Option<Arc<TrackedModule>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).by_handle.get(&module).cloned()
    }

    fn insert(&self, module: vk::ShaderModule, words: &[u32]) {
        // Now, so that pipelines need not wait for it.
        let hash = hash_of(words);
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let new = || (Arc::new(TrackedModule::with_hash(words.to_vec(), hash)), 0);
        let (kept, handles) = tables.by_hash.entry(hash).or_insert_with(new);
        *handles += 1;
        let kept = Arc::clone(kept);
        if let Some(old) = tables.by_handle.insert(module, kept) {
            tables.release(&old);
        }
    }

    fn remove(&self, module: vk::ShaderModule) {
        if self.get(module).is_none() {
            return;
        }
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = tables.by_handle.remove(&module) {
            tables.release(&kept);
        }
    }
}

impl Tables {
    /// Takes note that a module has one handle less.
    fn release(&mut self, module: &TrackedModule) {
        if let Entry::Occupied(mut shared) = self.by_hash.entry(*module.hash()) {
            shared.get_mut().1 -= 1;
            if shared.get().1 == 0 {
                shared.remove();
            }
        }
    }
}

/// A module that every driver takes: an entry point that does nothing. Its handle stands in for a module that is lowered only when
/// its specialization is known, so that handles of the layer and of the driver can't be mixed up.
const STAND_IN: &[u32] = &[
    0x0723_0203,
    0x0001_0000,
    0,
    5,
    0, // magic number, version 1.0, bound 5
    0x0002_0011,
    1, // OpCapability Shader
    0x0003_000e,
    0,
    1, // OpMemoryModel Logical GLSL450
    0x0005_000f,
    5,
    3,
    0x6e69_616d,
    0, // OpEntryPoint GLCompute %3 "main"
    0x0006_0010,
    3,
    17,
    1,
    1,
    1, // OpExecutionMode %3 LocalSize 1 1 1
    0x0002_0013,
    1, // %1 = OpTypeVoid
    0x0003_0021,
    2,
    1, // %2 = OpTypeFunction %1
    0x0005_0036,
    1,
    3,
    0,
    2, // %3 = OpFunction %1 None %2
    0x0002_00f8,
    4,           // %4 = OpLabel
    0x0001_00fd, // OpReturn
    0x0001_0038, // OpFunctionEnd
];

const MAGIC: u32 = 0x0723_0203;
const OP_CAPABILITY: u32 = 17;

/// Returns true if a module has matrices, or declares a capability that the layer provides and the driver did not enable.
pub(crate) fn needs_layer(words: &[u32], profile: &Profile) -> bool {
    if words.first() != Some(&MAGIC) {
        return false;
    }
    let mut at = 5;
    // Capabilities come first.
    while let Some([first, capability, ..]) = words.get(at..).filter(|rest| rest.len() >= 2) {
        if *first != 2 << 16 | OP_CAPABILITY {
            break;
        }
        let capability = Capability(*capability);
        if [Capability::CooperativeMatrixKHR, Capability::CooperativeMatrixNV].contains(&capability) {
            return true;
        }
        let provides = |f: &Feature| crate::additions::ADDITIONS.iter().any(|a| a.features.contains(&(*f, true)));
        if let Requirement::AnyOf(features) = capability_requirement(capability)
            && features.iter().any(provides)
            && !features.iter().any(|f| profile.has(*f))
        {
            return true;
        }
        at += 2;
    }
    false
}

/// Returns the words that a create info points to.
///
/// # Safety
///
/// The create info is valid and outlives the words.
pub(crate) unsafe fn words<'a>(info: &vk::ShaderModuleCreateInfo<'a>) -> &'a [u32] {
    if info.p_code.is_null() {
        return &[];
    }
    // SAFETY: an array of that many bytes.
    unsafe { std::slice::from_raw_parts(info.p_code, info.code_size / 4) }
}

impl Device {
    /// Makes a module of the driver's.
    pub(crate) fn driver_module(&self, words: &[u32]) -> Result<vk::ShaderModule, vk::Result> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: a function of that type.
        let create = unsafe {
            std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateShaderModule>>(self.function(c"vkCreateShaderModule"))
        };
        let create = create.ok_or(vk::Result::ERROR_INITIALIZATION_FAILED)?;
        let mut module = vk::ShaderModule::null();
        // SAFETY: the device is alive, and the words until the call returns.
        unsafe { create(self.handle, &raw const info, std::ptr::null(), &raw mut module) }.result_with_success(module)
    }

    /// Destroys a module of the driver's.
    pub(crate) fn drop_driver_module(&self, module: vk::ShaderModule) {
        // SAFETY: a function of that type; nothing uses the module any more.
        unsafe {
            let destroy = self.function(c"vkDestroyShaderModule");
            if let Some(destroy) = std::mem::transmute::<Loaded, Option<vk::PFN_vkDestroyShaderModule>>(destroy) {
                destroy(self.handle, module, std::ptr::null());
            }
        }
    }
}

/// `vkCreateShaderModule`.
pub(crate) unsafe extern "system" fn create_shader_module(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::ShaderModule,
) -> vk::Result {
    crate::guard::guard("vkCreateShaderModule", || {
        // SAFETY: the application's own arguments, here and below.
        let Some(this) = (unsafe { device_of(device) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        // SAFETY: a function of that type.
        let next = unsafe {
            std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateShaderModule>>(this.function(c"vkCreateShaderModule"))
        };
        let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        // SAFETY: as above.
        let words = unsafe { words(&*info) };
        let Some(active) = this.active.as_ref().filter(|active| needs_layer(words, active.target.profile())) else {
            // SAFETY: as above.
            return unsafe { next(device, info, allocator, out) };
        };
        let stand_in = vk::ShaderModuleCreateInfo::default().code(STAND_IN);
        // SAFETY: as above.
        let result = unsafe { next(device, &raw const stand_in, allocator, out) };
        if result == vk::Result::SUCCESS {
            // SAFETY: the driver wrote the handle.
            let module = unsafe { *out };
            log::debug(format_args!("module {module:?}: {} words are kept", words.len()));
            active.modules.insert(module, words);
        }
        result
    })
}

/// `vkDestroyShaderModule`.
pub(crate) unsafe extern "system" fn destroy_shader_module(
    device: vk::Device,
    module: vk::ShaderModule,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    crate::guard::guard("vkDestroyShaderModule", || {
        // SAFETY: the application's own arguments.
        let Some(this) = (unsafe { device_of(device) }) else { return };
        if let Some(active) = &this.active {
            active.modules.remove(module);
        }
        // SAFETY: as above, and a function of that type.
        unsafe {
            let destroy = this.function(c"vkDestroyShaderModule");
            if let Some(destroy) = std::mem::transmute::<Loaded, Option<vk::PFN_vkDestroyShaderModule>>(destroy) {
                destroy(device, module, allocator);
            }
        }
    });
}

/// `vkGetShaderModuleIdentifierEXT`: that of the module that was given, not of its stand-in.
pub(crate) unsafe extern "system" fn module_identifier(
    device: vk::Device,
    module: vk::ShaderModule,
    out: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    crate::guard::guard("vkGetShaderModuleIdentifierEXT", || {
        // SAFETY: the application's own arguments, and functions of those types.
        unsafe {
            let Some(this) = device_of(device) else { return };
            let kept = this.active.as_ref().and_then(|active| active.modules.get(module));
            let Some(kept) = kept else {
                let next = this.function(c"vkGetShaderModuleIdentifierEXT");
                let next = std::mem::transmute::<Loaded, Option<vk::PFN_vkGetShaderModuleIdentifierEXT>>(next);
                if let Some(next) = next {
                    next(device, module, out);
                }
                return;
            };
            let next = this.function(c"vkGetShaderModuleCreateInfoIdentifierEXT");
            let next = std::mem::transmute::<Loaded, Option<vk::PFN_vkGetShaderModuleCreateInfoIdentifierEXT>>(next);
            let info = vk::ShaderModuleCreateInfo::default().code(&kept.words);
            if let Some(next) = next {
                next(device, &raw const info, out);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_matrices_concern_the_layer() {
        let profile = Profile::builtin("mesa-lavapipe-debian12").unwrap();
        let head = [MAGIC, 0x0001_0600, 0, 10, 0, 0x0002_0011, 1];
        let with = |capability: u32| [&head[..], &[0x0002_0011, capability]].concat();
        assert!(!needs_layer(&head, &profile) && !needs_layer(STAND_IN, &profile));
        assert!(needs_layer(&with(6022), &profile) && needs_layer(&with(5357), &profile));
        // bfloat16, which the device has not; float16, which it has.
        assert!(needs_layer(&with(5116), &profile) && !needs_layer(&with(9), &profile));
        // Ends in the middle of an instruction.
        assert!(!needs_layer(&with(6022)[..8], &profile) && !needs_layer(&[], &profile));
    }

    #[test]
    fn modules_of_the_same_words_are_kept_once() {
        let handle = <vk::ShaderModule as vk::Handle>::from_raw;
        let (modules, other) = (Modules::default(), [STAND_IN, &[0x0001_0000]].concat());
        for (number, words) in [(1, STAND_IN), (2, other.as_slice()), (3, STAND_IN)] {
            modules.insert(handle(number), words);
        }
        let get = |number: u64| modules.get(handle(number));
        assert!(Arc::ptr_eq(&get(1).unwrap(), &get(3).unwrap()) && !Arc::ptr_eq(&get(1).unwrap(), &get(2).unwrap()));
        modules.remove(handle(1));
        modules.remove(handle(1));
        assert!(get(1).is_none());
        assert_eq!((get(3).unwrap().words.as_slice(), get(2).unwrap().words.as_slice()), (STAND_IN, other.as_slice()));
        modules.remove(handle(2));
        modules.remove(handle(3));
        let tables = modules.0.into_inner().unwrap();
        assert!(tables.by_handle.is_empty() && tables.by_hash.is_empty());
    }

    #[test]
    fn the_stand_in_is_a_module() {
        let module = coop_ir::binary::read_words(STAND_IN).unwrap();
        coop_ir::verify::verify(&module).unwrap();
        assert_eq!(coop_ir::binary::write_words(&module), STAND_IN);
    }
}
