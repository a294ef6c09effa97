//! Decides whether a module is about cooperative matrices at all.
//!
//! It is if it has an instruction for them, or declares a capability or an extension for them, of any of the
//! extensions. The answer is the same for the words of a file, which need not be read then, and for the module that was
//! read.

use coop_ir::extensions::{is_matrix_capability, is_matrix_extension};
use coop_ir::spv::Capability;
use coop_ir::{Module, Op, binary};

/// Returns true if the words of a file are a module without cooperative matrices, which need not be read. Returns
/// `false` for words that may not be a module, so that reading it reports the problem: if they are not a list of
/// instructions, if there is not exactly one memory model, or if a function has no end.
pub fn has_no_matrices(bytes: &[u8]) -> bool {
    if bytes.len() < 20 || !bytes.len().is_multiple_of(4) || !binary::is_binary(bytes) {
        return false;
    }
    let (mut models, mut in_function) = (0, false);
    for inst in binary::instructions(bytes) {
        let Ok(inst) = inst else { return false };
        let first = if inst.op == Op::SpecConstantOp { 3 } else { 1 };
        if concerns(inst.op, |i| inst.word(first + i)) {
            return false;
        }
        match inst.op {
            Op::MemoryModel => models += 1,
            Op::Function if !in_function => in_function = true,
            Op::FunctionEnd if in_function => in_function = false,
            Op::Function | Op::FunctionEnd => return false,
            _ => {}
        }
    }
    models == 1 && !in_function
}

/// Returns true if the module uses cooperative matrices, of any extension. For modules without matrices no table is
/// built.
pub fn concerns_matrices(module: &Module) -> bool {
    module.all().any(|r| {
        let inst = module.inst(r);
        concerns(inst.op, |i| inst.word(i))
    })
}

/// Returns true if an instruction with these operands, result type and result not counted, is about matrices.
fn concerns(op: Op, operand: impl Fn(usize) -> Option<u32>) -> bool {
    match op {
        Op::Capability => operand(0).is_some_and(|c| is_matrix_capability(Capability(c))),
        Op::Extension => {
            let bytes = (0..).map_while(operand).flat_map(u32::to_le_bytes).take_while(|b| *b != 0);
            is_matrix_extension(&String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()))
        }
        Op::SpecConstantOp => operand(0).and_then(|w| u16::try_from(w).ok()).is_some_and(|w| Op(w).is_matrix_op()),
        _ => op.is_matrix_op(),
    }
}
