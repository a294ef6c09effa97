//! The C ABI of coopmat. `include/coopmat.h` is made of these sources by cbindgen (`scripts/capi.sh header`).
//!
//! The unsafe code is sound because a pointer from C is null, which is answered with a status, or points to what the
//! header states for as long as the call lasts; and handles are what a function here returned and nothing has freed.
//! Nothing keeps a pointer of the caller after a call, handles are never written to once they are returned, and no
//! panic leaves a function.

mod device;
mod error;
mod module;
mod outcome;
mod pointers;

pub use device::*;
pub use error::*;
pub use module::*;
pub use outcome::*;

use std::ffi::c_char;

/// The version of this ABI. It grows by one where a program that was compiled with an older header would break.
pub const COOPMAT_ABI_VERSION: u32 = 1;

/// Returns the version of the ABI that the library has: compare it with COOPMAT_ABI_VERSION, which the program was compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn coopmat_abi_version() -> u32 {
    COOPMAT_ABI_VERSION
}

/// Returns the version of the library, and of the sources that it was built of: two builds of which one lowers a module
/// differently have different ones. The text is the library's own.
#[unsafe(no_mangle)]
pub extern "C" fn coopmat_build() -> *const c_char {
    static BUILD: std::sync::OnceLock<std::ffi::CString> = std::sync::OnceLock::new();
    BUILD.get_or_init(|| error::text(facade::BUILD)).as_ptr()
}
