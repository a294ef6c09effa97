//! The places where modules run: a Vulkan or an OpenCL device, the interpreter, or both; and the results of runs.

use std::cell::OnceCell;
use std::fmt::Write;

use clap::{Args, ValueEnum};
use coop_device::Profile;
use coop_exec::interp::{Finding, Interpreted, Placement};
use coop_exec::opencl::OpenClExecutor;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Bounds, Case, Difference, Error, Executor, OpenCl, Outcome, RunOptions, Vulkan};
use coop_ir::Module;

use super::{DeviceArgs, Failure};
use crate::args::OutputStyle;
use crate::interp::{InterpArgs, draw, placement_name};
use crate::io::{self, Loaded};
use crate::render::{self, Renderer};

/// The choice of the places to run in.
#[derive(Args, Debug)]
pub struct OnArgs {
    /// Where to run
    #[arg(long, value_enum, default_value_t)]
    on: OnName,
    #[command(flatten)]
    device: DeviceArgs,
    /// Options of the interpreter.
    #[command(flatten)]
    pub interp: InterpArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum OnName {
    /// On a Vulkan device
    #[default]
    Vulkan,
    /// In the reference interpreter, which needs no driver and reports undefined behavior
    Interp,
    /// In the interpreter and on a Vulkan device, which must agree
    Both,
    /// On an OpenCL device, which runs kernels
    Opencl,
    /// In the interpreter and on an OpenCL device, which must agree
    InterpOpencl,
}

impl OnName {
    fn on_vulkan(self) -> bool {
        matches!(self, OnName::Vulkan | OnName::Both)
    }

    fn on_opencl(self) -> bool {
        matches!(self, OnName::Opencl | OnName::InterpOpencl)
    }

    fn on_interpreter(self) -> bool {
        matches!(self, OnName::Interp | OnName::Both | OnName::InterpOpencl)
    }
}

/// The loaders that were opened.
pub struct Opened {
    vulkan: Option<Vulkan>,
    opencl: Option<OpenCl>,
}

impl Opened {
    /// Returns true if a device, which can be measured, is among the places.
    pub fn has_device(&self) -> bool {
        self.vulkan.is_some() || self.opencl.is_some()
    }
}

/// One place to run modules.
pub struct Runner<'a> {
    /// The name in `--dump-dir`.
    pub key: String,
    name: String,
    validated: bool,
    how: How<'a>,
}

enum How<'a> {
    Vulkan(VulkanExecutor<'a>),
    OpenCl(OpenClExecutor<'a>),
    Interp(Interpreted),
}

/// The result of a run.
pub struct Ran {
    /// The buffers, times and messages.
    pub outcome: Outcome,
    /// The findings of the interpreter; `None` for devices.
    pub findings: Option<Vec<Finding>>,
    /// True if the validation layer was enabled.
    pub validated: bool,
}

/// The differences of the results in two places.
pub struct Comparison {
    /// The device of the one run.
    pub device: String,
    /// The device of the other run.
    pub with: String,
    /// Elements that differ, by buffer.
    pub differences: Vec<Difference>,
}

impl OnArgs {
    /// Opens the loaders that are needed.
    pub fn open(&self) -> Result<Opened, Failure> {
        if !self.on.on_interpreter()
            && let Some(option) = self.interp.given()
        {
            return Err(Failure::Usage(format!("{option} is for the interpreter: give --on interp or --on both")));
        }
        let vulkan = self.on.on_vulkan().then(|| self.device.open()).transpose()?;
        let opencl = self.on.on_opencl().then(OpenCl::open).transpose()?;
        Ok(Opened { vulkan, opencl })
    }

    /// Returns the places to run in, the interpreters first: the others are compared with them.
    pub fn runners<'a>(
        &self,
        opened: &'a Opened,
        case: &Case,
        style: &OutputStyle,
    ) -> Result<Vec<Runner<'a>>, Failure> {
        let device = opened.vulkan.as_ref().map(|vulkan| self.device.executor(vulkan)).transpose()?;
        let mut runners = Vec::new();
        if self.on.on_interpreter() {
            let default = device.as_ref().map(|device| device.profile().limits.subgroup_size);
            let (size, whose) = self.interp.subgroup_size(case, default);
            if style.verbose > 0 {
                io::error(&format!("interpreter: subgroups of {size} ({whose})"));
            }
            runners.extend(self.interp.interpreters(size).into_iter().map(Runner::interpreter));
        }
        if let (Some(executor), Some(vulkan)) = (device, &opened.vulkan) {
            let (name, validated) = (executor.name(), vulkan.is_validated());
            runners.push(Runner { key: "vulkan".into(), name, validated, how: How::Vulkan(executor) });
        }
        if let Some(opencl) = &opened.opencl {
            let executor = opencl.device(self.device.name())?;
            let name = executor.name();
            // Nothing watches over OpenCL.
            runners.push(Runner { key: "opencl".into(), name, validated: true, how: How::OpenCl(executor) });
        }
        Ok(runners)
    }

    /// Derives how far apart the results of a module may be.
    pub fn bounds(&self, runners: &[Runner<'_>], module: &Module, case: &Case) -> Bounds {
        let device = OnArgs::profile(runners).map(|profile| profile.limits.subgroup_size);
        let (size, _) = self.interp.subgroup_size(case, device);
        let config = self.interp.interpreters(size).first().map(|interpreted| interpreted.config).unwrap_or_default();
        Bounds::derive(module, case, config)
    }

    /// Returns the profile of the device, if one is among the places.
    pub fn profile<'a>(runners: &'a [Runner<'_>]) -> Option<&'a Profile> {
        runners.iter().find_map(|runner| match &runner.how {
            How::Vulkan(executor) => Some(executor.profile()),
            How::OpenCl(_) | How::Interp(_) => None,
        })
    }
}

impl Runner<'_> {
    fn interpreter(interpreted: Interpreted) -> Self {
        let placement = interpreted.config.placement;
        let (key, name) = match placement {
            Placement::BlockedRows => ("interpreter".into(), interpreted.name()),
            other => {
                let other = placement_name(other);
                (format!("interpreter-{other}"), format!("{}, placement {other}", interpreted.name()))
            }
        };
        Runner { key, name, validated: false, how: How::Interp(interpreted) }
    }

    /// Returns true if this is the interpreter.
    pub fn is_interpreter(&self) -> bool {
        matches!(self.how, How::Interp(_))
    }

    fn on_device(
        &self,
        device: &dyn Executor,
        module: &Module,
        case: &Case,
        options: &RunOptions,
    ) -> Result<Ran, Error> {
        let outcome = device.run(&coop_ir::binary::write_words(module), case, options)?;
        Ok(Ran { outcome, findings: None, validated: self.validated })
    }

    /// Runs a module with a case.
    pub fn run(&self, module: &Module, case: &Case, options: &RunOptions) -> Result<Ran, Error> {
        match &self.how {
            How::Vulkan(executor) => self.on_device(executor, module, case, options),
            How::OpenCl(executor) => self.on_device(executor, module, case, options),
            How::Interp(interpreted) => {
                let (buffers, report) = interpreted.within(options.timeout).run_module(module, case)?;
                let mut outcome = Interpreted::outcome(buffers, &report);
                outcome.device.clone_from(&self.name);
                Ok(Ran { outcome, findings: Some(report.findings), validated: false })
            }
        }
    }
}

impl Ran {
    /// Returns true if there are no complaints about the run itself.
    pub fn is_clean(&self) -> bool {
        self.outcome.messages.is_empty() && self.outcome.faults.is_empty()
    }

    /// Returns the complaints of the validation layer, the guards and the interpreter.
    pub fn complaints(&self, loaded: &Loaded, style: &OutputStyle) -> String {
        let mut text = String::new();
        if let Some(findings) = &self.findings {
            text = draw(Renderer::for_file(loaded, style.color.on_stdout(), render::width()), findings);
        } else {
            for line in self.outcome.messages.iter().chain(&self.outcome.faults) {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    /// Returns the differences from another run of the same case.
    pub fn compare(&self, other: &Ran, judge: &Judge<'_>) -> Result<Comparison, Error> {
        Ok(Comparison {
            device: self.outcome.device.clone(),
            with: other.outcome.device.clone(),
            differences: judge.compare(self, other)?,
        })
    }
}

/// Compares runs of a case. Derives its derived tolerances once, when they are needed.
pub struct Judge<'a> {
    /// The case that the runs are of.
    pub case: &'a Case,
    derive: Box<dyn Fn() -> Bounds + 'a>,
    bounds: OnceCell<Bounds>,
    exact: bool,
}

impl<'a> Judge<'a> {
    /// Returns a judge for a case of a module.
    pub fn new(on: &'a OnArgs, runners: &'a [Runner<'_>], module: &'a Module, case: &'a Case) -> Judge<'a> {
        Judge {
            case,
            derive: Box::new(move || on.bounds(runners, module, case)),
            bounds: OnceCell::new(),
            exact: on.interp.is_exact(),
        }
    }

    /// The bounds of the case.
    pub fn bounds(&self) -> &Bounds {
        self.bounds.get_or_init(&self.derive)
    }

    /// Returns the differences between two runs of the case's module, or of another that should give the same results.
    pub fn compare(&self, ran: &Ran, with: &Ran) -> Result<Vec<Difference>, Error> {
        let differences = ran.outcome.compare(&with.outcome, self.case)?;
        if differences.is_empty() {
            return Ok(differences);
        }
        // Bounds are counted from what the interpreter gives for the module with exact sums.
        let sides = if with.findings.is_some() && self.exact { 1 } else { 2 };
        ran.outcome.compare_within(&with.outcome, self.case, self.bounds(), sides)
    }
}

/// Returns the differences of the runs of one module in several places from the first.
pub fn across<'a>(mut runs: impl Iterator<Item = &'a Ran>, judge: &Judge<'_>) -> Result<Vec<Comparison>, Error> {
    let Some(first) = runs.next() else { return Ok(Vec::new()) };
    runs.map(|ran| ran.compare(first, judge)).collect()
}

/// Describes comparisons in lines.
pub fn describe(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for Comparison { device, with, differences } in comparisons {
        for difference in differences {
            let _ = writeln!(text, "{device} against {with}: {difference}");
        }
        if differences.is_empty() {
            let _ = writeln!(text, "{device} agrees with {with}");
        }
    }
    text
}

/// Returns true if the places agree.
pub fn agree(comparisons: &[Comparison]) -> bool {
    comparisons.iter().all(|comparison| comparison.differences.is_empty())
}
