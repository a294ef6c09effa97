//! The loader, the instance, and the messages of the validation layer.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use ash::{ext, vk};
use coop_device::ApiVersion;

use super::check;
use crate::error::Error;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The largest number of messages to keep.
const MAX_MESSAGES: usize = 100;

type Messages = Mutex<Vec<String>>;

/// A Vulkan instance.
pub(super) struct Instance {
    pub(super) entry: ash::Entry,
    pub(super) raw: ash::Instance,
    /// The newest version that both the loader and we know.
    pub(super) version: ApiVersion,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    validated: bool,
    /// True if a dispatch did not end in time. What it uses must stay alive from then on, so nothing is destroyed any
    /// more.
    pub(super) abandoned: Cell<bool>,
    /// Boxed: the messenger keeps its address.
    messages: Box<Messages>,
}

impl Instance {
    pub(super) fn new(validation: bool) -> Result<Instance, Error> {
        // SAFETY: loading libvulkan runs its initializers, which is what a Vulkan program asks for.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| Error::NoLoader(error.to_string()))?;
        // SAFETY: the entry points of a loaded library.
        let version = unsafe { entry.try_enumerate_instance_version() };
        let loader = check("vkEnumerateInstanceVersion", version)?.unwrap_or(vk::API_VERSION_1_0);
        let version = ApiVersion::from_packed(loader).min(ApiVersion::new(1, 4));
        let layer = validation && has_layer(&entry)?;
        let debug = layer || has_debug_utils(&entry, None)?;

        let messages: Box<Messages> = Box::default();
        let mut info = messenger_info(&messages);
        let application = vk::ApplicationInfo::default().application_name(c"cooprun").api_version(version.to_packed());
        let layers = if layer { vec![VALIDATION_LAYER.as_ptr()] } else { Vec::new() };
        let extensions = if debug { vec![ext::debug_utils::NAME.as_ptr()] } else { Vec::new() };
        let mut create = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        if debug {
            create = create.push_next(&mut info);
        }
        // SAFETY: all pointers in `create` live until the call returns; `messages` lives as long as the instance.
        let raw = match unsafe { entry.create_instance(&create, None) } {
            // The loader has no driver at all.
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => return Err(Error::NoDevice),
            other => check("vkCreateInstance", other)?,
        };
        let mut instance =
            Instance { entry, raw, version, messenger: None, validated: layer, abandoned: Cell::new(false), messages };
        if debug {
            let functions = ext::debug_utils::Instance::new(&instance.entry, &instance.raw);
            // SAFETY: the instance has the extension; `messages` outlives the messenger, which Drop destroys first.
            let messenger =
                unsafe { functions.create_debug_utils_messenger(&messenger_info(&instance.messages), None) };
            instance.messenger = Some((functions, check("vkCreateDebugUtilsMessengerEXT", messenger)?));
        }
        Ok(instance)
    }

    pub(super) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>, Error> {
        // SAFETY: the instance is alive.
        match unsafe { self.raw.enumerate_physical_devices() } {
            // The loader has drivers, and none of them starts.
            Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Ok(Vec::new()),
            other => check("vkEnumeratePhysicalDevices", other),
        }
    }

    pub(super) fn is_validated(&self) -> bool {
        self.validated
    }

    pub(super) fn take_messages(&self) -> Vec<String> {
        match self.messages.lock() {
            Ok(mut messages) => std::mem::take(&mut *messages),
            Err(poisoned) => std::mem::take(&mut *poisoned.into_inner()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.abandoned.get() {
            // The layer may still write to them.
            std::mem::forget(std::mem::take(&mut self.messages));
            return;
        }
        // SAFETY: devices borrow the instance, so none is left; the messenger goes before the instance.
        unsafe {
            if let Some((functions, messenger)) = self.messenger.take() {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn has_layer(entry: &ash::Entry) -> Result<bool, Error> {
    // SAFETY: the entry points of a loaded library.
    let layers = check("vkEnumerateInstanceLayerProperties", unsafe { entry.enumerate_instance_layer_properties() })?;
    let named = layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER));
    Ok(named && has_debug_utils(entry, Some(VALIDATION_LAYER))?)
}

fn has_debug_utils(entry: &ash::Entry, layer: Option<&CStr>) -> Result<bool, Error> {
    // SAFETY: the entry points of a loaded library.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(layer) };
    let extensions = check("vkEnumerateInstanceExtensionProperties", extensions)?;
    Ok(extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(ext::debug_utils::NAME)))
}

fn messenger_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::{DebugUtilsMessageSeverityFlagsEXT as Severity, DebugUtilsMessageTypeFlagsEXT as Kind};
    let address: *const Messages = messages;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::ERROR | Severity::WARNING)
        .message_type(Kind::VALIDATION)
        .pfn_user_callback(Some(collect))
        .user_data(address.cast_mut().cast())
}

/// Called by the validation layer, from any thread.
unsafe extern "system" fn collect(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: `user` is what `messenger_info` gave, alive as long as the messenger; the layer's data is valid during the call.
    let (messages, data) = unsafe { (&*user.cast::<Messages>(), data.as_ref()) };
    // SAFETY: a zero-terminated string or null, as Vulkan says.
    let text = data.and_then(|data| unsafe { data.message_as_c_str() }).map(CStr::to_string_lossy).unwrap_or_default();
    let level = if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) { "error" } else { "warning" };
    let message = format!("validation {level}: {}", text.trim());
    let mut messages = match messages.lock() {
        Ok(messages) => messages,
        Err(poisoned) => poisoned.into_inner(),
    };
    if messages.len() < MAX_MESSAGES && !messages.contains(&message) {
        messages.push(message);
    }
    vk::FALSE
}
