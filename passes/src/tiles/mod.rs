//! Replaces cooperative matrices by arrays of those that the device has.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::{Module, Op};

/// The opcodes that no module has afterwards.
pub(crate) const REMOVED: &[Op] = &[];

pub(crate) fn run(_: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let why = format!("the target {} is not there yet", cx.options.target);
    Err(Refusal::new("refused-target", None, why, "use --target scalar"))
}
