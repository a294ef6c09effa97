//! Types, constants and modes of f16.

use super::code::F16;
use super::is_half;
use crate::Refusal;
use crate::float::Format;
use crate::narrow::{Narrow, Widths};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{remove_capability, remove_globals};
use coop_ir::spv::{Capability, ExecutionMode};
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// Modes of a width, with their capabilities.
const MODES: [(ExecutionMode, Capability); 5] = [
    (ExecutionMode::DenormPreserve, Capability::DenormPreserve),
    (ExecutionMode::DenormFlushToZero, Capability::DenormFlushToZero),
    (ExecutionMode::SignedZeroInfNanPreserve, Capability::SignedZeroInfNanPreserve),
    (ExecutionMode::RoundingModeRTE, Capability::RoundingModeRTE),
    (ExecutionMode::RoundingModeRTZ, Capability::RoundingModeRTZ),
];

/// f16.
pub(super) const HALF: Narrow =
    Narrow { is: |s, _| s == F16, widths: Widths { eight: false, sixteen: false }, remedy: super::REMEDY };

/// Refuses the globals that have no lowering.
pub(super) fn check(m: &Module) -> Result<(), Refusal> {
    HALF.check(m)?;
    for r in m.globals.iter().copied() {
        let i = m.inst(r);
        let default = i.execution_mode().is_some_and(|(_, mode)| mode == ExecutionMode::FPFastMathDefault);
        let why = match mode(m, r) {
            Some((ExecutionMode::DenormFlushToZero, 16)) => "f32 does not flush the subnormal numbers of f16",
            Some((ExecutionMode::RoundingModeRTZ, 16)) => "rounding of f16 toward zero has no lowering",
            _ if default && i.ids().any(|id| is_half(m, id)) => {
                "the default of fast math for f16 has no lowering to f32"
            }
            _ => continue,
        };
        return Err(Refusal::new(r, why, super::REMEDY));
    }
    Ok(())
}

/// Returns a mode for numbers of a width.
fn mode(m: &Module, r: InstRef) -> Option<(ExecutionMode, u32)> {
    let i = m.inst(r);
    let (_, mode) = i.execution_mode()?;
    MODES.iter().find(|(of, _)| *of == mode)?;
    Some((mode, i.operands.last()?.word()))
}

/// Makes f16 f32: types, constants, modes. Layouts of types with f16 go: no memory that others see has them any more.
pub(super) fn retype(m: &mut Module) {
    HALF.strip_layouts(m);
    modes(m);
    for r in m.globals.clone() {
        let i = m.inst(r);
        let constant = i.op == Op::Constant && i.ty.is_some_and(|ty| is_half(m, ty));
        if let Some(bits) = i.constant_bits().filter(|_| constant) {
            m.inst_mut(r).operands[0] = Operand::Word(Format::F16.widened(bits as u32));
        }
    }
    for r in m.globals_with(Op::TypeFloat).collect::<Vec<_>>() {
        if m.inst(r).result.is_some_and(|id| is_half(m, id)) {
            m.inst_mut(r).operands[0] = Operand::Word(32);
        }
    }
}

/// Subnormal numbers of f16 are kept, and results round to nearest even, without being asked. What is said of zeros, infinities
/// and NaN of f16 has to hold for f32 then.
fn modes(m: &mut Module) {
    let of_functions = |m: &Module, width: u32| -> FxHashSet<(Id, ExecutionMode)> {
        let modes = m.globals.iter().filter(|r| mode(m, **r).is_some_and(|(_, w)| w == width));
        modes.filter_map(|r| m.inst(*r).execution_mode()).collect()
    };
    let wide = of_functions(m, 32);
    for r in m.globals.clone() {
        let kept = mode(m, r) == Some((ExecutionMode::SignedZeroInfNanPreserve, 16));
        let said = m.inst(r).execution_mode().is_some_and(|said| wide.contains(&said));
        if kept
            && !said
            && let Some(width) = m.inst_mut(r).operands.last_mut()
        {
            *width = Operand::Word(32);
        }
    }
    remove_globals(m, |m, r| mode(m, r).is_some_and(|(_, width)| width == 16));
    for (of, capability) in MODES {
        if !m.globals.iter().any(|r| mode(m, *r).is_some_and(|(mode, _)| mode == of)) {
            remove_capability(m, capability);
        }
    }
}
