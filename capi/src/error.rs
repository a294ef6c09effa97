//! Statuses, and errors with messages.

use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status that a function returns.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoopmatStatus {
    /// Success.
    Ok = 0,
    /// A pointer is null or not aligned, a number is not one of the named ones, or a text is not UTF-8.
    InvalidArgument = 1,
    /// The words are not a SPIR-V module.
    BadModule = 2,
    /// The text is not a device profile.
    BadProfile = 3,
    /// No built-in device has that name.
    NoSuchDevice = 4,
    /// The values of specialization constants can't be read.
    BadSpecialization = 5,
    /// A call of Vulkan failed.
    Vulkan = 6,
    /// The buffer is too small; the count is the required size.
    BufferTooSmall = 7,
    /// The outcome is of a kind that does not have the requested value.
    WrongKind = 8,
    /// A bug of the library.
    Internal = 9,
}

/// The reason why a function failed, in words. To be freed by `coopmat_error_free`.
pub struct CoopmatError {
    message: CString,
}

/// Returns the message of an error: lower case, no final period, valid until the error is freed. Empty for null.
///
/// # Safety
///
/// `error` is null or an error that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_error_message(error: *const CoopmatError) -> *const c_char {
    // SAFETY: null or alive, as the caller promises.
    match unsafe { error.as_ref() } {
        Some(error) => error.message.as_ptr(),
        None => c"".as_ptr(),
    }
}

/// Frees an error; null is nothing.
///
/// # Safety
///
/// `error` is null or an error that is not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_error_free(error: *mut CoopmatError) {
    // SAFETY: as the caller promises.
    unsafe { free(error) }
}

/// A status and its message.
pub(crate) struct Failure {
    status: CoopmatStatus,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: CoopmatStatus, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Failure {
        Failure::new(CoopmatStatus::InvalidArgument, message)
    }
}

/// Does the work of a function: no panic leaves it, and `error`, unless null, is set to what went wrong or to null.
///
/// # Safety
///
/// `error` is null or can be written.
pub(crate) unsafe fn answer(
    error: *mut *mut CoopmatError,
    work: impl FnOnce() -> Result<(), Failure>,
) -> CoopmatStatus {
    // What the work leaves behind is written to the caller's pointers as its last step, so a panic leaves them as they were.
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        // A payload may panic when it is dropped.
        std::mem::forget(panic);
        Err(Failure::new(CoopmatStatus::Internal, "a bug of the library: please report it with the input"))
    });
    let (status, message) = match done {
        Ok(()) => (CoopmatStatus::Ok, None),
        Err(failure) => (failure.status, Some(failure.message)),
    };
    if !error.is_null() {
        let error_of = |message: String| Box::into_raw(Box::new(CoopmatError { message: text(&message) }));
        // SAFETY: as the caller promises.
        unsafe { error.write(message.map_or(std::ptr::null_mut(), error_of)) };
    }
    status
}

/// Drops what a handle stands for, if it is not null.
///
/// # Safety
///
/// `handle` is null or came out of `Box::into_raw`, and nobody uses it any more.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    // SAFETY: as the caller promises.
    let owned = unsafe { Box::from_raw(handle) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(owned))) {
        std::mem::forget(panic);
    }
}

/// A text as C has it; it ends before the first zero.
pub(crate) fn text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
