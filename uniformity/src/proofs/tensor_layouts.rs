//! Finds the operands that make a tensor layout or view differ.
//!
//! Each operand sets one number of a layout, so a layout differs if one operand does and no later instruction sets that
//! number again.

use super::super::Uniformity;
use super::Prover;
use coop_ir::grammar::Op;

/// The numbers of a layout or a view that an instruction sets together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Block,
    Dimension,
    Stride,
    Offset,
    Span,
    Clamp,
    Clip,
}

/// Returns true if an instruction makes a layout or a view.
pub(super) fn is_layout(op: Op) -> bool {
    matches!(op, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV) || field(op, 1).is_some()
}

/// Returns the field that an operand sets. Operands are counted without literals; operand 0 is the layout before.
fn field(op: Op, operand: usize) -> Option<Field> {
    Some(match op {
        Op::TensorLayoutSetBlockSizeNV => Field::Block,
        Op::TensorLayoutSetDimensionNV | Op::TensorViewSetDimensionNV => Field::Dimension,
        Op::TensorLayoutSetStrideNV | Op::TensorViewSetStrideNV => Field::Stride,
        Op::TensorLayoutSliceNV if operand % 2 == 1 => Field::Offset,
        Op::TensorLayoutSliceNV => Field::Span,
        Op::TensorLayoutSetClampValueNV => Field::Clamp,
        Op::TensorViewSetClipNV => Field::Clip,
        _ => return None,
    })
}

/// Returns true if an instruction overwrites a field.
fn sets(op: Op, set: Field) -> bool {
    match op {
        Op::TensorLayoutSetDimensionNV | Op::TensorViewSetDimensionNV => {
            matches!(set, Field::Dimension | Field::Stride | Field::Offset | Field::Span)
        }
        // Offsets are added to the earlier ones.
        Op::TensorLayoutSliceNV => set == Field::Span,
        _ => field(op, 1) == Some(set),
    }
}

impl Prover<'_, '_, '_> {
    /// Returns the values each of which alone makes a layout or a view differ if it differs.
    pub(super) fn fields(&self, mut n: u32, scope: Uniformity) -> Vec<u32> {
        let solution = self.solution;
        let mut found = Vec::new();
        let mut later: Vec<Op> = Vec::new();
        for _ in 0..64 {
            let node = &solution.graph.nodes[n as usize];
            let Some(op) = node.inst.map(|r| solution.program.module.inst(r).op).filter(|op| is_layout(*op)) else {
                break;
            };
            let mut before = None;
            for (i, (operand, _)) in solution.graph.operands(n).enumerate() {
                let Some(set) = field(op, i).filter(|_| i > 0) else {
                    before = Some(operand);
                    continue;
                };
                let differs = solution.seen_from(operand, node.point).0 > scope;
                if differs && !later.iter().any(|op| sets(*op, set)) {
                    found.push(operand);
                }
            }
            later.push(op);
            match before {
                Some(layout) => n = layout,
                None => break,
            }
        }
        found
    }
}
