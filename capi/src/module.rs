//! Modules, and the options of a pipeline.

use crate::device::{CoopmatDevice, hand_over};
use crate::error::{CoopmatError, CoopmatStatus, Failure, answer, free};
use crate::outcome::CoopmatOutcome;
use crate::pointers::{elements, place, required, string};
use facade::{Lanes, MapEntry, PipelineOptions, Prepared, Specialization, Target};
use std::ffi::{c_char, c_void};

/// A module that was read once. It never changes, so any number of threads may use it. To be freed by `coopmat_module_free`.
pub struct CoopmatModule(Prepared);

/// The matrices that lowered words may contain: one of COOPMAT_TARGET_*.
pub type CoopmatTarget = u32;
/// The best that the device and the module allow.
pub const COOPMAT_TARGET_AUTO: CoopmatTarget = 0;
/// The device's own matrices of VK_KHR_cooperative_matrix.
pub const COOPMAT_TARGET_KHR: CoopmatTarget = 1;
/// No matrices at all.
pub const COOPMAT_TARGET_SCALAR: CoopmatTarget = 2;

/// The lane number of an invocation: one of COOPMAT_LANES_*.
pub type CoopmatLanes = u32;
/// COOPMAT_LANES_SUBGROUP if the device can require subgroup sizes and full subgroups, else COOPMAT_LANES_LOCAL_INDEX.
pub const COOPMAT_LANES_AUTO: CoopmatLanes = 0;
/// Its index in a subgroup of the device: the pipeline must then require what CoopmatRequirements lists.
pub const COOPMAT_LANES_SUBGROUP: CoopmatLanes = 1;
/// Its place in the workgroup: so many consecutive invocations stand for a subgroup as `required_subgroup_size` says.
pub const COOPMAT_LANES_LOCAL_INDEX: CoopmatLanes = 2;

/// Lower the module although the device runs it as it is.
pub const COOPMAT_ALWAYS_LOWER: u32 = 1;
/// Elements outside of tensors whose layout leaves them undefined read as zero, and are not written.
pub const COOPMAT_UNDEFINED_AS_ZERO: u32 = 2;
/// The pointers of tensor loads and stores are multiples of 16 bytes, as SPV_NV_cooperative_matrix2 demands: they are not tested.
pub const COOPMAT_ASSUME_ALIGNED: u32 = 4;
/// The module works with subgroups of any size that the device has, whatever size its constants seem to be for.
pub const COOPMAT_ASSUME_ANY_SUBGROUP_SIZE: u32 = 8;
/// Arithmetic with f16, on a device that has none, keeps the precision of f32 until its results are stored.
pub const COOPMAT_EXCESS_PRECISION: u32 = 16;

/// All flags of `CoopmatPipelineOptions`.
const FLAGS: u32 = COOPMAT_ALWAYS_LOWER
    | COOPMAT_UNDEFINED_AS_ZERO
    | COOPMAT_ASSUME_ALIGNED
    | COOPMAT_ASSUME_ANY_SUBGROUP_SIZE
    | COOPMAT_EXCESS_PRECISION;

/// Where the value of a specialization constant is: a `VkSpecializationMapEntry`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoopmatMapEntry {
    /// The SpecId.
    pub constant_id: u32,
    /// The first byte.
    pub offset: u32,
    /// How many bytes.
    pub size: usize,
}

/// The options of a pipeline. `coopmat_pipeline_options_init` fills in the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CoopmatPipelineOptions {
    /// The size of this structure where the program was compiled.
    pub struct_size: usize,
    /// The entry point; null is all of them.
    pub entry_point: *const c_char,
    /// The entries of the `VkSpecializationInfo`.
    pub map_entries: *const CoopmatMapEntry,
    /// How many there are.
    pub map_entry_count: usize,
    /// Its data.
    pub data: *const c_void,
    /// The bytes of its data.
    pub data_size: usize,
    /// The subgroup size that the pipeline requires; 0 if it requires none.
    pub required_subgroup_size: u32,
    /// The matrices that lowered words may contain.
    pub target: CoopmatTarget,
    /// The lane number of an invocation.
    pub lanes: CoopmatLanes,
    /// COOPMAT_ALWAYS_LOWER, COOPMAT_UNDEFINED_AS_ZERO, COOPMAT_ASSUME_*, COOPMAT_EXCESS_PRECISION, any of them, or 0.
    pub flags: u32,
}

/// Fills in the default options.
///
/// # Safety
///
/// `options` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_pipeline_options_init(options: *mut CoopmatPipelineOptions) {
    // SAFETY: as the caller promises.
    let Ok(options) = (unsafe { place(options, "options") }) else { return };
    // SAFETY: `place` looked at it.
    unsafe {
        options.write(CoopmatPipelineOptions {
            struct_size: size_of::<CoopmatPipelineOptions>(),
            entry_point: std::ptr::null(),
            map_entries: std::ptr::null(),
            map_entry_count: 0,
            data: std::ptr::null(),
            data_size: 0,
            required_subgroup_size: 0,
            target: COOPMAT_TARGET_AUTO,
            lanes: COOPMAT_LANES_AUTO,
            flags: 0,
        });
    }
}

/// Reads the options.
///
/// # Safety
///
/// The pointer is null, or it and its pointers are as the header says.
unsafe fn read_options(options: *const CoopmatPipelineOptions) -> Result<PipelineOptions, Failure> {
    let mut out = PipelineOptions::default();
    if options.is_null() {
        return Ok(out);
    }
    // SAFETY: as the caller promises.
    let options = unsafe { required(options, "options") }?;
    // Later versions may have more members, which programs of today don't.
    if options.struct_size != size_of::<CoopmatPipelineOptions>() {
        let why = format!("options.struct_size is {}; coopmat_pipeline_options_init sets it", options.struct_size);
        return Err(Failure::argument(why));
    }
    if !options.entry_point.is_null() {
        // SAFETY: as the caller promises.
        out.entry_point = Some(unsafe { string(options.entry_point, "options.entry_point") }?.to_owned());
    }
    // SAFETY: as the caller promises.
    let (entries, data) = unsafe {
        (
            elements(options.map_entries, options.map_entry_count, "options.map_entries")?,
            elements(options.data.cast::<u8>(), options.data_size, "options.data")?,
        )
    };
    let entry = |e: &CoopmatMapEntry| MapEntry { constant_id: e.constant_id, offset: e.offset, size: e.size };
    let entries: Vec<MapEntry> = entries.iter().map(entry).collect();
    out.specialization = Specialization::from_entries(&entries, data)
        .map_err(|e| Failure::new(CoopmatStatus::BadSpecialization, e.to_string()))?;
    out.required_subgroup_size = Some(options.required_subgroup_size).filter(|size| *size != 0);
    out.target = match options.target {
        COOPMAT_TARGET_AUTO => Target::Auto,
        COOPMAT_TARGET_KHR => Target::Khr,
        COOPMAT_TARGET_SCALAR => Target::Scalar,
        other => return Err(Failure::argument(format!("options.target is {other}, none of COOPMAT_TARGET_..."))),
    };
    out.lanes = match options.lanes {
        COOPMAT_LANES_AUTO => Lanes::Auto,
        COOPMAT_LANES_SUBGROUP => Lanes::Subgroup,
        COOPMAT_LANES_LOCAL_INDEX => Lanes::LocalIndex,
        other => return Err(Failure::argument(format!("options.lanes is {other}, none of COOPMAT_LANES_..."))),
    };
    if options.flags & !FLAGS != 0 {
        return Err(Failure::argument(format!(
            "options.flags is {:#x}, and only the bits {FLAGS:#x} mean something",
            options.flags
        )));
    }
    out.always_lower = options.flags & COOPMAT_ALWAYS_LOWER != 0;
    out.undefined_as_zero = options.flags & COOPMAT_UNDEFINED_AS_ZERO != 0;
    out.excess_precision = options.flags & COOPMAT_EXCESS_PRECISION != 0;
    out.assume_aligned = options.flags & COOPMAT_ASSUME_ALIGNED != 0;
    out.assume_any_subgroup_size = options.flags & COOPMAT_ASSUME_ANY_SUBGROUP_SIZE != 0;
    Ok(out)
}

/// Reads a module from its words, in the byte order of the machine or the other one. The words are not needed afterwards.
///
/// # Safety
///
/// `words` has `word_count` words; `module` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_module_read(
    words: *const u32,
    word_count: usize,
    module: *mut *mut CoopmatModule,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, words) = unsafe { (place(module, "module")?, elements(words, word_count, "words")?) };
        let module = Prepared::read(words).map_err(|e| Failure::new(CoopmatStatus::BadModule, e.to_string()))?;
        // SAFETY: `place` looked at it.
        unsafe { hand_over(CoopmatModule(module), out) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns true if the module has anything that is ever lowered: if not, each of its pipelines is native. False for
/// null.
///
/// # Safety
///
/// `module` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_module_has_matrices(module: *const CoopmatModule) -> bool {
    // SAFETY: as the caller promises.
    unsafe { module.as_ref() }.is_some_and(|module| module.0.has_matrices())
}

/// Frees a module; null is nothing. Outcomes of it stay.
///
/// # Safety
///
/// `module` is null or alive, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_module_free(module: *mut CoopmatModule) {
    // SAFETY: as the caller promises.
    unsafe { free(module) }
}

/// Computes the outcome for a pipeline on a device. A module that can't be lowered is an outcome, not an error.
/// `options` may be null.
///
/// # Safety
///
/// `module` and `device` are null or alive; `options` is null or says what it points to; `outcome` and `error` are null or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_module_for_pipeline(
    module: *const CoopmatModule,
    device: *const CoopmatDevice,
    options: *const CoopmatPipelineOptions,
    outcome: *mut *mut CoopmatOutcome,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, options) = unsafe { (place(outcome, "outcome")?, read_options(options)?) };
        // SAFETY: as the caller promises.
        let (module, device) = unsafe { (required(module, "module")?, required(device, "device")?) };
        // SAFETY: `place` looked at it.
        unsafe { hand_over(CoopmatOutcome::new(module.0.for_pipeline(&device.0, &options)), out) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns the key of a pipeline for caches: the same 32 bytes if the library's build, the module, the device and the
/// options are the same.
///
/// # Safety
///
/// As for `coopmat_module_for_pipeline`; `key` is null or has room for 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_module_pipeline_key(
    module: *const CoopmatModule,
    device: *const CoopmatDevice,
    options: *const CoopmatPipelineOptions,
    key: *mut u8,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, options) = unsafe { (place(key, "key")?, read_options(options)?) };
        // SAFETY: as the caller promises.
        let (module, device) = unsafe { (required(module, "module")?, required(device, "device")?) };
        let key = module.0.pipeline_key(&device.0, &options);
        // SAFETY: there is room for as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(key.as_ptr(), out, key.len()) };
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}
