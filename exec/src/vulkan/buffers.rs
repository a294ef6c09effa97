//! Buffers in device memory, with uploads and downloads.

use std::borrow::Cow;
use std::cell::Cell;

use ash::vk;
use coop_device::Feature;

use super::check;
use super::device::Device;
use crate::case::{BufferKind, Case};
use crate::error::Error;

/// The size in bytes of the guard after each buffer, which is checked after the run.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;

/// A buffer with its own memory.
struct Allocation<'a> {
    device: &'a Device<'a>,
    kind: Kind,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    /// The mapping of the memory, once there is one.
    mapped: Cell<*mut u8>,
    size: usize,
}

/// The properties that interchangeable buffers share.
type Kind = (vk::BufferUsageFlags, vk::MemoryPropertyFlags);

/// Buffers that a device keeps for later runs: drivers take longer to allocate memory than to run a small shader.
#[derive(Default)]
pub(super) struct Spares(Vec<Spare>);

struct Spare {
    kind: Kind,
    size: usize,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut u8,
}

impl Spares {
    /// Destroys them all.
    ///
    /// # Safety
    ///
    /// They were made by `device`, and no submission is pending.
    pub(super) unsafe fn destroy(&mut self, device: &ash::Device) {
        for spare in self.0.drain(..) {
            // SAFETY: as promised; each is destroyed once, for it is gone from the list.
            unsafe {
                device.destroy_buffer(spare.buffer, None);
                device.free_memory(spare.memory, None);
            }
        }
    }
}

impl<'a> Allocation<'a> {
    fn new(
        device: &'a Device<'a>,
        size: usize,
        usage: vk::BufferUsageFlags,
        wanted: vk::MemoryPropertyFlags,
    ) -> Result<Allocation<'a>, Error> {
        let kind = (usage, wanted);
        // Sizes that many buffers have.
        let size = if device.keeps { size.next_power_of_two() } else { size };
        let mut spares = device.spares.borrow_mut();
        if let Some(at) = spares.0.iter().position(|s| s.kind == kind && s.size == size) {
            let Spare { buffer, memory, mapped, .. } = spares.0.swap_remove(at);
            return Ok(Allocation { device, kind, buffer, memory, mapped: Cell::new(mapped), size });
        }
        drop(spares);
        let create = vk::BufferCreateInfo::default().size(size as u64).usage(usage);
        // SAFETY: the device is alive, here and below; handles are destroyed once, by Drop.
        let buffer = check("vkCreateBuffer", unsafe { device.raw.create_buffer(&create, None) })?;
        // From here on Drop destroys the buffer; a null memory is ignored by Vulkan.
        let (memory, mapped) = (vk::DeviceMemory::null(), Cell::new(std::ptr::null_mut()));
        let mut this = Allocation { device, kind, buffer, memory, mapped, size };
        // SAFETY: as above.
        let requirements = unsafe { device.raw.get_buffer_memory_requirements(buffer) };
        let types = &device.memory.memory_types[..device.memory.memory_type_count as usize];
        let fits = |index: usize, flags| {
            requirements.memory_type_bits >> index & 1 == 1 && types[index].property_flags.contains(flags)
        };
        let index = (0..types.len()).find(|&index| fits(index, wanted));
        let index = index.or_else(|| (0..types.len()).find(|&index| fits(index, vk::MemoryPropertyFlags::empty())));
        let Some(index) = index else { return Err(Error::case("the device has no memory for a buffer of that size")) };
        let mut flags = vk::MemoryAllocateFlagsInfo::default();
        if usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS) {
            flags.flags = vk::MemoryAllocateFlags::DEVICE_ADDRESS;
        }
        let mut allocate =
            vk::MemoryAllocateInfo::default().allocation_size(requirements.size).memory_type_index(index as u32);
        if !flags.flags.is_empty() {
            allocate = allocate.push_next(&mut flags);
        }
        // SAFETY: as above; the memory is bound once, from its start, and is as large as was asked for.
        unsafe {
            this.memory = check("vkAllocateMemory", device.raw.allocate_memory(&allocate, None))?;
            check("vkBindBufferMemory", device.raw.bind_buffer_memory(buffer, this.memory, 0))?;
        }
        Ok(this)
    }

    /// Runs `access` on the bytes of host-visible memory that no submission uses.
    fn with_bytes<T>(&self, access: impl FnOnce(&mut [u8]) -> T) -> Result<T, Error> {
        let whole = (self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
        // SAFETY: the memory is host-visible and coherent, has at least `size` bytes, and is mapped here only, once; what is
        // pending was waited for before.
        unsafe {
            if self.mapped.get().is_null() {
                let pointer = self.device.raw.map_memory(whole.0, whole.1, whole.2, whole.3);
                self.mapped.set(check("vkMapMemory", pointer)?.cast());
            }
            Ok(access(std::slice::from_raw_parts_mut(self.mapped.get(), self.size)))
        }
    }

    fn address(&self) -> u64 {
        let info = vk::BufferDeviceAddressInfo::default().buffer(self.buffer);
        // SAFETY: the buffer was made for addresses and is bound.
        unsafe { self.device.raw.get_buffer_device_address(&info) }
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        if self.device.instance.abandoned.get() {
            return;
        }
        if self.device.keeps && self.memory != vk::DeviceMemory::null() {
            let (kind, size, buffer, memory, mapped) =
                (self.kind, self.size, self.buffer, self.memory, self.mapped.get());
            self.device.spares.borrow_mut().0.push(Spare { kind, size, buffer, memory, mapped });
        } else {
            // SAFETY: made here, destroyed once, and no submission is pending.
            unsafe {
                self.device.raw.destroy_buffer(self.buffer, None);
                self.device.raw.free_memory(self.memory, None);
            }
        }
    }
}

/// A buffer of the case, for the shader and for the host.
struct Resource<'a> {
    main: Allocation<'a>,
    staging: Allocation<'a>,
    payload: usize,
}

/// The contents of the buffers after a run.
#[derive(Default)]
pub(super) struct Contents {
    /// Name and bytes, in the order of the case.
    pub(super) buffers: Vec<(String, Vec<u8>)>,
    /// The faults: buffers that were written behind their ends.
    pub(super) faults: Vec<String>,
}

/// All buffers of a case, in its order.
pub(super) struct Buffers<'a> {
    resources: Vec<Resource<'a>>,
    addresses: Vec<u64>,
}

impl<'a> Buffers<'a> {
    /// Makes the buffers and stages their initial contents: those in `given`, or else the case's.
    pub(super) fn new(device: &'a Device<'a>, case: &Case, given: Option<&[Vec<u8>]>) -> Result<Buffers<'a>, Error> {
        let mut resources = Vec::with_capacity(case.buffer.len());
        let addressable = device.features.has(Feature::BufferDeviceAddress);
        for buffer in &case.buffer {
            check_range(device, buffer)?;
            let payload = buffer.size();
            // A whole number of words, then the guard.
            let size = payload.next_multiple_of(16) + GUARD;
            use vk::{BufferUsageFlags as Usage, MemoryPropertyFlags as Memory};
            let mut usage = Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
            usage |= match buffer.kind {
                BufferKind::Storage => Usage::STORAGE_BUFFER,
                BufferKind::Uniform => Usage::UNIFORM_BUFFER,
            };
            if addressable {
                usage |= Usage::SHADER_DEVICE_ADDRESS;
            }
            let main = Allocation::new(device, size, usage, Memory::DEVICE_LOCAL)?;
            let host = Memory::HOST_VISIBLE | Memory::HOST_COHERENT;
            let staging = Allocation::new(device, size, Usage::TRANSFER_SRC | Usage::TRANSFER_DST, host)?;
            resources.push(Resource { main, staging, payload });
        }
        let address = |resource: &Resource<'_>| if addressable { resource.main.address() } else { 0 };
        let addresses = resources.iter().map(address).collect();
        let this = Buffers { resources, addresses };
        for (index, resource) in this.resources.iter().enumerate() {
            let contents = match given.and_then(|given| given.get(index)) {
                Some(bytes) if bytes.len() == resource.payload => Cow::Borrowed(bytes.as_slice()),
                _ => Cow::Owned(case.contents(index, &|name| this.address(case, name))?),
            };
            resource.staging.with_bytes(|bytes| {
                let (payload, guard) = bytes.split_at_mut(contents.len());
                payload.copy_from_slice(&contents);
                guard.fill(GUARD_BYTE);
            })?;
        }
        Ok(this)
    }

    /// Returns the device address of a buffer; 0 if there is none of that name, or the run has no addresses.
    pub(super) fn address(&self, case: &Case, name: &str) -> u64 {
        let index = case.buffer.iter().position(|buffer| buffer.name == name);
        index.and_then(|index| self.addresses.get(index)).copied().unwrap_or(0)
    }

    /// Returns the descriptor of a buffer.
    pub(super) fn descriptor(&self, index: usize) -> vk::DescriptorBufferInfo {
        let resource = &self.resources[index];
        vk::DescriptorBufferInfo { buffer: resource.main.buffer, offset: 0, range: resource.payload as u64 }
    }

    /// Records the copies to the device.
    pub(super) fn record_upload(&self, commands: vk::CommandBuffer) {
        self.record_copies(commands, |resource| (resource.staging.buffer, resource.main.buffer));
    }

    /// Records the copies back.
    pub(super) fn record_download(&self, commands: vk::CommandBuffer) {
        self.record_copies(commands, |resource| (resource.main.buffer, resource.staging.buffer));
    }

    /// Records the copy back of one buffer.
    pub(super) fn record_download_of(&self, commands: vk::CommandBuffer, index: usize) {
        let resource = &self.resources[index];
        record_copy(commands, resource, (resource.main.buffer, resource.staging.buffer));
    }

    fn record_copies(&self, commands: vk::CommandBuffer, ends: impl Fn(&Resource<'a>) -> (vk::Buffer, vk::Buffer)) {
        for resource in &self.resources {
            record_copy(commands, resource, ends(resource));
        }
    }

    /// Returns the downloaded bytes of one buffer.
    pub(super) fn read_one(&self, index: usize) -> Result<Vec<u8>, Error> {
        let resource = &self.resources[index];
        resource.staging.with_bytes(|bytes| bytes[..resource.payload].to_vec())
    }

    /// Returns the downloaded contents of all buffers.
    pub(super) fn read(&self, case: &Case) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        for (buffer, resource) in case.buffer.iter().zip(&self.resources) {
            let (payload, touched) = resource.staging.with_bytes(|bytes| {
                let (payload, guard) = bytes.split_at(resource.payload);
                (payload.to_vec(), guard.iter().position(|&byte| byte != GUARD_BYTE))
            })?;
            if let Some(place) = touched {
                contents.faults.push(format!("buffer {}: written {place} bytes behind its end", buffer.name));
            }
            contents.buffers.push((buffer.name.clone(), payload));
        }
        Ok(contents)
    }
}

fn record_copy(commands: vk::CommandBuffer, resource: &Resource<'_>, (from, to): (vk::Buffer, vk::Buffer)) {
    let region = vk::BufferCopy { src_offset: 0, dst_offset: 0, size: resource.main.size as u64 };
    // SAFETY: the command buffer records, both buffers are of this size, and both live until it has run.
    unsafe { resource.main.device.raw.cmd_copy_buffer(commands, from, to, &[region]) };
}

fn check_range(device: &Device<'_>, buffer: &crate::case::Buffer) -> Result<(), Error> {
    let limits = &device.profile.limits;
    let (limit, name) = match buffer.kind {
        BufferKind::Storage => (limits.max_storage_buffer_range, "maxStorageBufferRange"),
        BufferKind::Uniform => (limits.max_uniform_buffer_range, "maxUniformBufferRange"),
    };
    let size = buffer.size();
    if buffer.binding.is_some() && size as u64 > limit {
        let missing = vec![format!("buffer {} has {size} bytes, {name} is {limit}", buffer.name)];
        return Err(Error::Unsupported { device: device.profile.device.clone(), missing });
    }
    Ok(())
}
