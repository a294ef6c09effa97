//! Checks the pointers that come from C.

use crate::error::{CoopmatStatus, Failure};
use std::ffi::{CStr, c_char};

/// Returns the object that a pointer points to.
///
/// # Safety
///
/// The pointer is null, not aligned, or points to a `T` that stays as it is while `'a` lasts.
pub(crate) unsafe fn required<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{what} is not aligned")));
    }
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is null")))
}

/// Returns `count` elements; none if the count is zero, whatever the pointer.
///
/// # Safety
///
/// The pointer is null, not aligned, or points to `count` elements that stay as they are while `'a` lasts.
pub(crate) unsafe fn elements<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{what} is not aligned")));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("{what} has {count} elements, more than there is memory")));
    }
    // SAFETY: as the caller promises; the size is one that memory can have.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Returns a text that ends with a zero.
///
/// # Safety
///
/// The pointer is null, or points to such a text, which stays as it is while `'a` lasts.
pub(crate) unsafe fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is null")));
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Returns the destination of a result.
///
/// # Safety
///
/// The pointer is null, not aligned, or can be written.
pub(crate) unsafe fn place<T>(pointer: *mut T, what: &str) -> Result<*mut T, Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{what} is not aligned")));
    }
    Ok(pointer)
}

/// Returns the number of elements, and copies them to the caller's buffer if there is one.
///
/// # Safety
///
/// `buffer` is null or has room for `capacity` elements; `count` is null or can be written.
pub(crate) unsafe fn give<T: Copy>(
    all: &[T],
    buffer: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    if buffer.is_null() && count.is_null() {
        return Err(Failure::argument("buffer and count are both null"));
    }
    if !buffer.is_aligned() || !count.is_aligned() {
        return Err(Failure::argument("buffer or count is not aligned"));
    }
    if !count.is_null() {
        // SAFETY: as the caller promises.
        unsafe { count.write(all.len()) };
    }
    if buffer.is_null() {
        return Ok(());
    }
    if capacity < all.len() {
        let why = format!("a buffer of {capacity} elements for {}", all.len());
        return Err(Failure::new(CoopmatStatus::BufferTooSmall, why));
    }
    // SAFETY: the buffer has room for as many, and nothing of ours is in it.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), buffer, all.len()) };
    Ok(())
}

/// The same for a text, with a terminating zero, which the count includes.
///
/// # Safety
///
/// As for [`give`].
pub(crate) unsafe fn give_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    let text = crate::error::text(text);
    let bytes: Vec<c_char> = text.as_bytes_with_nul().iter().map(|byte| *byte as c_char).collect();
    // SAFETY: as the caller promises.
    unsafe { give(&bytes, buffer, capacity, count) }
}
