//! No panic crosses into C.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ash::vk;

use crate::log;

/// Runs the body of a function that Vulkan calls; a panic becomes the failure that the function's result has.
pub(crate) fn guard<R: Failure>(name: &str, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        log::error(format_args!("{name}: a bug of the layer: {text}"));
        R::FAILED
    })
}

/// The result of a function that failed.
pub(crate) trait Failure {
    /// The result.
    const FAILED: Self;
}

impl Failure for vk::Result {
    const FAILED: vk::Result = vk::Result::ERROR_UNKNOWN;
}

impl Failure for () {
    const FAILED: () = ();
}

impl<T> Failure for Option<T> {
    const FAILED: Option<T> = None;
}
