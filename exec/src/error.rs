//! The errors of runs.

use std::fmt;

/// The reason why a module could not be run. A run that ends with wrong values is not an error but a difference.
#[derive(Clone, PartialEq, Debug)]
pub enum Error {
    /// There is no Vulkan loader on this machine.
    NoLoader(String),
    /// There is a loader, but no driver with a device.
    NoDevice,
    /// There is no OpenCL loader, or none of its platforms has a device; the text says which.
    NoOpenCl(String),
    /// No device has that index or name.
    NoSuchDevice {
        /// The index or name that was asked for.
        wanted: String,
        /// The devices that exist.
        present: Vec<String>,
    },
    /// The case file can't be read, or does not fit the module.
    Case(String),
    /// The module can't be run: it is malformed or has no compute shader.
    Module(String),
    /// The device lacks what the module needs; each line names a capability and what is missing.
    Unsupported {
        /// The device.
        device: String,
        /// The missing features, one a line.
        missing: Vec<String>,
    },
    /// A Vulkan call failed.
    Vulkan {
        /// The call.
        call: &'static str,
        /// The result of the call.
        result: String,
        /// The messages of the validation layer up to then.
        messages: Vec<String>,
    },
    /// An OpenCL call failed.
    OpenCl {
        /// The call.
        call: &'static str,
        /// The name of the error.
        result: String,
        /// The messages of the compiler.
        messages: Vec<String>,
    },
    /// The dispatch did not end in time. The device can't be used any further.
    Timeout {
        /// The limit in seconds.
        seconds: f64,
        /// The number of workgroups that had ended, and of all workgroups, where known.
        workgroups: Option<(u64, u128)>,
    },
}

impl Error {
    /// Makes an error of the case.
    pub fn case(message: impl Into<String>) -> Error {
        Error::Case(message.into())
    }

    /// Returns the error with the messages of the validation layer, if it is one of a Vulkan call.
    pub(crate) fn with_messages(self, messages: Vec<String>) -> Error {
        match self {
            Error::Vulkan { call, result, .. } => Error::Vulkan { call, result, messages },
            other => other,
        }
    }

    /// Makes an error of the module.
    pub(crate) fn module(message: impl Into<String>) -> Error {
        Error::Module(message.into())
    }
}

/// The remedy on a machine without Vulkan.
const INSTALL: &str = "install a Vulkan driver and its loader (Debian and Ubuntu: apt install libvulkan1 mesa-vulkan-drivers; \
     Fedora: dnf install vulkan-loader mesa-vulkan-drivers), or run this through the repository's \
     'scripts/drivers.sh run', which brings a software driver";

/// The remedy on a machine without OpenCL.
const INSTALL_OPENCL: &str = "install a runtime and the ICD loader (Debian and Ubuntu: apt install ocl-icd-libopencl1 \
     pocl-opencl-icd; Fedora: dnf install ocl-icd pocl), or run this through the repository's 'scripts/drivers.sh run --opencl \
     pocl', which brings one";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoLoader(why) => write!(f, "the Vulkan loader can't be opened ({why}): {INSTALL}"),
            Error::NoDevice => write!(f, "no Vulkan driver offers a device: {INSTALL}"),
            Error::NoOpenCl(why) => write!(f, "{why}: {INSTALL_OPENCL}"),
            Error::NoSuchDevice { wanted, present } => {
                write!(f, "no device matches '{wanted}'; there are: ")?;
                for (index, name) in present.iter().enumerate() {
                    write!(f, "{}{index} '{name}'", if index > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Error::Case(message) => write!(f, "case: {message}"),
            Error::Module(message) => write!(f, "module: {message}"),
            Error::Unsupported { device, missing } => {
                write!(f, "{device} can't run this module")?;
                for line in missing {
                    write!(f, "\n  {line}")?;
                }
                Ok(())
            }
            Error::Vulkan { call, result, messages } | Error::OpenCl { call, result, messages } => {
                write!(f, "{call} failed: {result}")?;
                for message in messages {
                    write!(f, "\n  {message}")?;
                }
                Ok(())
            }
            Error::Timeout { seconds, workgroups } => {
                write!(f, "the dispatch did not end within {seconds} seconds")?;
                match workgroups {
                    Some((ended, all)) => write!(f, ": {ended} of {all} workgroups did"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Error {}
