//! Rules about cooperative matrices in SPIR-V, and the report of violations.
//!
//! [`check`] accepts every module that can be read: it never panics, and a rule that does not find what it needs is
//! silent, because well-formedness in general is not checked here. A rule is declared in one place with its
//! documentation ([`rule`]), in the file of its family under `rules/`, and is listed in [`RULES`].
//!
//! Guarantees of a [`Report`]:
//!
//! 1. Findings are sorted by instruction, then by rule.
//! 2. *Error* means that the module is invalid, or that it certainly has undefined behavior. A finding that
//!    depends on the default of a specialization constant is a *warning* at most, unless the user denies the rule.
//! 3. Unknown values are silent: they are counted ([`Report::undecided`]), never guessed.
//! 4. Dimensions are compared by id first, then by value: two types that share a constant agree whatever it is.

mod concern;
mod cx;
mod device;
pub mod dynamic;
mod env;
mod matrix;
mod operation;
mod options;
#[cfg(feature = "text")]
mod places;
mod producer;
mod report;
pub mod rule;
mod rules;
#[cfg(feature = "testing")]
pub mod testing;
mod verdict;

pub use concern::{concerns_matrices, has_no_matrices};
pub use device::Device;
pub use env::TargetEnv;
pub use options::{Options, UnknownRule};
pub use producer::Deviation;
pub use report::{Finding, Label, Part, Report};
pub use rule::{Level, Rule};
pub use rules::RULES;

use coop_ir::Module;
use coop_ir::cfg::Cfgs;
use cx::Cx;
use producer::Producer;
use report::Sink;

/// Checks a module against every rule. A module without matrices is only checked against the device, if there is one,
/// and, if the options say so, for uniform barriers.
pub fn check(module: &Module, options: &Options) -> Report {
    check_with(module, &Cfgs::default(), options)
}

/// Does the same for a caller that has the graphs of the module's functions, or some of them.
pub fn check_with(module: &Module, cfgs: &Cfgs, options: &Options) -> Report {
    let matrices = concerns_matrices(module);
    if !matrices && !options.barriers {
        return check_device(module, options);
    }
    let mut out = Sink::new(options, Producer::of(module));
    let cx = Cx::new(module, cfgs, options);

    if matrices {
        rules::check(&cx, &mut out);
    }
    #[cfg(feature = "uniformity")]
    rules::uniformity::check(&cx, options, &mut out);
    if let Some(device) = &options.device {
        rules::device::check(&cx, device, &mut out);
    }
    out.finish()
}

/// Checks a module, with or without matrices, against the rules of a device alone.
pub fn check_device(module: &Module, options: &Options) -> Report {
    let mut out = Sink::new(options, Producer::of(module));
    if let Some(device) = &options.device {
        let none = Cfgs::default();
        let cx = Cx::new(module, &none, options);
        rules::device::check(&cx, device, &mut out);
    }
    out.finish()
}
