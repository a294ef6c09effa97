//! Runs a module on a Vulkan device, without any window.
//!
//! The files of this folder are parts of one executor: they share its physical device, its logical device and `check`.
//!
//! [`Vulkan`] holds the loader and an instance, with the Khronos validation layer when that is installed: its messages
//! are part of every outcome and every error. A run makes a logical device with just the features that the module
//! needs, buffers in device memory and a pipeline, and waits for the dispatch up to a time limit. An executor that is
//! [`VulkanExecutor::frugal`] keeps the logical device for the next run: drivers may take longer to make one than to
//! compile a shader.
//!
//! Unsafe code is confined to this module. What makes it sound: every handle is owned by one value that destroys it
//! when it is dropped, after the queue is idle; values that hold handles are dropped before the device or
//! instance that made them (they borrow it); memory that Vulkan reads or writes outlives the call or the submission.
#![allow(unsafe_code)]

mod buffers;
mod compile;
mod compute;
mod device;
mod instance;
mod pipeline;
mod run;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ash::vk;
use coop_device::vulkan as query;
use coop_device::{Feature, Profile};
use coop_ir::Module;

use crate::case::Case;
use crate::compiled::Compiled;
use crate::error::Error;
use crate::executor::{Executor, Outcome, RunOptions};
use crate::measure::{Measure, MeasureOptions, Measured};
use crate::respell;
use device::{Device, Needs};
use instance::Instance;

/// The Vulkan devices of this machine.
pub struct Vulkan {
    instance: Instance,
    devices: Vec<Physical>,
}

/// A physical device and its properties.
struct Physical {
    handle: vk::PhysicalDevice,
    profile: Profile,
}

/// One device of [`Vulkan`], to run modules on.
pub struct VulkanExecutor<'a> {
    instance: &'a Instance,
    physical: &'a Physical,
    frugal: bool,
    unoptimized: bool,
    /// The profile of the device where modules of maintenance1 are rewritten for NV2.
    respells: Option<Box<Profile>>,
    kept: RefCell<Option<Rc<Device<'a>>>>,
    spent: Cell<Spent>,
}

/// The time of runs, by activity.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// Making logical devices.
    pub devices: Duration,
    /// Allocating, filling and reading buffers.
    pub buffers: Duration,
    /// Making pipelines, which is where most drivers compile.
    pub pipelines: Duration,
    /// Running, from submission to the end of the dispatch.
    pub dispatches: Duration,
}

impl Vulkan {
    /// Opens the loader and asks every driver for its devices. `validation` enables the Khronos validation layer
    /// if it is installed.
    pub fn open(validation: bool) -> Result<Vulkan, Error> {
        let instance = Instance::new(validation)?;
        let handles = instance.physical_devices()?;
        let mut devices = Vec::with_capacity(handles.len());
        for handle in handles {
            // SAFETY: the handle is one of the instance's own devices.
            let profile = unsafe { query::profile(&instance.entry, &instance.raw, instance.version, handle) }?;
            devices.push(Physical { handle, profile });
        }
        Ok(Vulkan { instance, devices })
    }

    /// Returns the same devices as if they had none of some features: no logical device is made with them, and a module that
    /// needs one does not run.
    #[must_use]
    pub fn without(mut self, features: &[Feature]) -> Vulkan {
        for device in &mut self.devices {
            features.iter().for_each(|f| device.profile.features.set(*f, false));
        }
        self
    }

    /// Returns the devices' profiles, in the order of their indices.
    pub fn profiles(&self) -> impl ExactSizeIterator<Item = &Profile> {
        self.devices.iter().map(|device| &device.profile)
    }

    /// Returns true if the validation layer is enabled.
    pub fn is_validated(&self) -> bool {
        self.instance.is_validated()
    }

    /// Returns the messages of the validation layer since the last call.
    pub fn messages(&self) -> Vec<String> {
        self.instance.take_messages()
    }

    /// Returns a device by index or by a part of its name, regardless of case; by default the first one.
    pub fn device(&self, wanted: Option<&str>) -> Result<VulkanExecutor<'_>, Error> {
        if self.devices.is_empty() {
            return Err(Error::NoDevice);
        }
        let index = match wanted {
            None => Some(0),
            Some(wanted) => match wanted.parse::<usize>() {
                Ok(index) => Some(index),
                Err(_) => {
                    let wanted = wanted.to_lowercase();
                    self.profiles().position(|profile| profile.device.to_lowercase().contains(&wanted))
                }
            },
        };
        match index.and_then(|index| self.devices.get(index)) {
            Some(physical) => Ok(VulkanExecutor {
                instance: &self.instance,
                physical,
                frugal: false,
                unoptimized: false,
                respells: None,
                kept: RefCell::new(None),
                spent: Cell::default(),
            }),
            None => Err(Error::NoSuchDevice {
                wanted: wanted.unwrap_or_default().to_string(),
                present: self.profiles().map(|profile| profile.device.clone()).collect(),
            }),
        }
    }
}

impl<'a> VulkanExecutor<'a> {
    /// Returns the profile of the device.
    pub fn profile(&self) -> &Profile {
        self.respells.as_deref().unwrap_or(&self.physical.profile)
    }

    /// Returns an executor without a logical device that rewrites modules of SPV_EXT_cooperative_matrix_maintenance1
    /// for SPV_NV_cooperative_matrix2 ([`respell::as_nv2`]). Its profile has the first extension as far as the device
    /// has the second. An error if the device has neither.
    pub fn respelled(&self) -> Result<Self, Error> {
        const EXT: &str = "VK_EXT_cooperative_matrix_maintenance1";
        let mut profile = self.physical.profile.clone();
        let mut has = false;
        for (nv, ext) in [
            (Feature::CooperativeMatrixReductionsNv, &[Feature::CooperativeMatrixReductionsExt][..]),
            (Feature::CooperativeMatrixConversionsNv, &[Feature::CooperativeMatrixConversionsExt]),
            (
                Feature::CooperativeMatrixPerElementOperationsNv,
                &[Feature::CooperativeMatrixPerElementOperationsExt, Feature::CooperativeMatrixGetCoordinate],
            ),
        ] {
            if profile.has(nv) {
                has = true;
                ext.iter().for_each(|f| profile.features.insert(*f));
            }
        }
        if !has {
            let missing = vec!["it has nothing of SPV_NV_cooperative_matrix2 to spell modules with".into()];
            return Err(Error::Unsupported { device: profile.device, missing });
        }
        if !profile.has_extension(EXT) {
            profile.extensions.push(EXT.into());
        }
        Ok(VulkanExecutor {
            respells: Some(Box::new(profile)),
            kept: RefCell::new(None),
            spent: Cell::default(),
            ..*self
        })
    }

    /// Returns the module as the driver gets it with a case.
    pub fn spelled<'m>(&self, module: &'m Module, case: &Case) -> Result<Cow<'m, Module>, Error> {
        if self.respells.is_none() {
            return Ok(Cow::Borrowed(module));
        }
        let unsupported = |what| Error::Unsupported {
            device: self.physical.profile.device.clone(),
            missing: vec![format!("SPV_NV_cooperative_matrix2 has no words for {what}")],
        };
        respell::as_nv2(module, &case.specialization()?).map_err(unsupported)
    }

    /// Like [`spelled`](Self::spelled), for words.
    fn spelled_words<'w>(&self, words: &'w [u32], case: &Case) -> Result<Cow<'w, [u32]>, Error> {
        if self.respells.is_none() {
            return Ok(Cow::Borrowed(words));
        }
        let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
        let spelled = self.spelled(&module, case)?;
        let changed = matches!(spelled, Cow::Owned(_));
        Ok(if changed { Cow::Owned(coop_ir::binary::write_words(&spelled)) } else { Cow::Borrowed(words) })
    }

    /// Returns an executor with one logical device for many runs, and buffers that are reused. The device has what any
    /// capability needs, as far as it is supported, so that a module that uses more than it declares may go unnoticed.
    #[must_use]
    pub fn frugal(self) -> Self {
        VulkanExecutor { frugal: true, ..self }
    }

    /// Returns an executor that asks the driver for pipelines without optimization, which some drivers make sooner.
    #[must_use]
    pub fn unoptimized(self) -> Self {
        VulkanExecutor { unoptimized: true, ..self }
    }

    /// Returns the time spent since the last call.
    pub fn spent(&self) -> Spent {
        self.spent.take()
    }

    /// Makes the pipeline of a module with what a case says of the entry point, the specialization and subgroups, and
    /// returns what the driver says about it. Needs no buffers and executes nothing. With `texts` the driver keeps the
    /// module at the stages of its compilation, which takes time.
    pub fn compile(&self, words: &[u32], case: &Case, texts: bool) -> Result<Compiled, Error> {
        self.instance.take_messages();
        let result = self.spelled_words(words, case).and_then(|words| compile::compile(self, &words, case, texts));
        let messages = self.instance.take_messages();
        match result {
            Ok(compiled) => Ok(Compiled { messages, ..compiled }),
            Err(error) => Err(error.with_messages(messages)),
        }
    }

    /// Returns a logical device that has what is needed.
    fn logical(&self, needs: Needs) -> Result<Rc<Device<'a>>, Error> {
        let kept = self.kept.take();
        let needs = match kept {
            Some(device) if device.has(&needs) => {
                self.kept.replace(Some(Rc::clone(&device)));
                return Ok(device);
            }
            Some(device) => device.and(needs),
            None if self.frugal => {
                let version = self.physical.profile.api_version.min(self.instance.version);
                needs.with_every_capability(&self.physical.profile, version)?
            }
            None => needs,
        };
        let device = Rc::new(Device::new(self.instance, self.physical, needs, self.frugal)?);
        if self.frugal {
            self.kept.replace(Some(Rc::clone(&device)));
        }
        Ok(device)
    }
}

impl Measure for VulkanExecutor<'_> {
    fn measure(
        &self,
        words: &[u32],
        case: &Case,
        given: &[Vec<u8>],
        wanted: &[usize],
        options: &MeasureOptions,
    ) -> Result<Measured, Error> {
        run::measure(self, &self.spelled_words(words, case)?, case, given, wanted, options)
    }
}

impl Executor for VulkanExecutor<'_> {
    fn name(&self) -> String {
        self.physical.profile.device.clone()
    }

    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error> {
        // What an earlier run left is not about this one.
        self.instance.take_messages();
        let result = self.spelled_words(words, case).and_then(|words| run::run(self, &words, case, options));
        let lost = vk::Result::ERROR_DEVICE_LOST.to_string();
        match &result {
            // A shader that is not compiled, or not even given to the driver, does the device no harm.
            Ok(_) | Err(Error::Unsupported { .. } | Error::Case(_) | Error::Module(_)) => {}
            Err(Error::Vulkan { call: "vkCreateComputePipelines", result, .. }) if *result != lost => {}
            // Whatever state the device is in, nobody relies on it.
            Err(_) => drop(self.kept.take()),
        }
        let messages = self.instance.take_messages();
        match result {
            Ok(outcome) => Ok(Outcome { messages, ..outcome }),
            Err(error) => Err(error.with_messages(messages)),
        }
    }
}

/// Converts the result of a Vulkan call.
fn check<T>(call: &'static str, result: Result<T, vk::Result>) -> Result<T, Error> {
    result.map_err(|result| failed(call, result))
}

impl From<query::QueryError> for Error {
    fn from(error: query::QueryError) -> Error {
        failed(error.call, error.result)
    }
}

fn failed(call: &'static str, result: vk::Result) -> Error {
    Error::Vulkan { call, result: result.to_string(), messages: Vec::new() }
}

/// Nanoseconds, as Vulkan's waits take them.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
