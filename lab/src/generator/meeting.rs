//! Statements in which subgroups and workgroups meet: factors that other subgroups stored into shared memory, and atomic
//! instructions of all workgroups on one place.

use coop_ir::grammar::Op;
use coop_ir::types::Scalar;
use coop_ir::{Id, Operand};

use super::emit::{A, ACC, B, Gen, Mat};
use super::fun::Value;

/// The scope of everything that a queue family runs, which the memory model of Vulkan has without a capability.
const QUEUE_FAMILY: u32 = 5;

impl Gen<'_> {
    /// A matrix that goes through shared memory, and maybe the product of which it is a factor there.
    pub(super) fn shared_statement(&mut self) -> Option<Value> {
        let x = self.find(|_| true)?;
        let to = self.turned(x.mat);
        let loaded = self.through_shared(x, to)?;
        if self.side.chance(120) {
            self.fun().values.push(loaded);
            return self.product_of_shared(loaded);
        }
        Some(loaded)
    }

    /// A product with a factor that the module itself has stored.
    fn product_of_shared(&mut self, x: Value) -> Option<Value> {
        let Mat { problem, scalar, use_, .. } = x.mat;
        let result = match scalar {
            Scalar::Int { width: 8, signed } => Scalar::Int { width: 32, signed },
            Scalar::Float { width: 16 } | Scalar::BF16 => Scalar::Float { width: 32 },
            _ => return None,
        };
        if use_ == ACC {
            return None;
        }
        let other = self.mat(problem, scalar, if use_ == A { B } else { A });
        let other = self.operand(other);
        let [a, b] = if use_ == A { [x, other] } else { [other, x] };
        let result = self.mat(problem, result, ACC);
        let c = self.operand(result);
        self.note("a factor from the module's own shared memory");
        self.multiplied(a, b, c, result)
    }

    /// The number of the subgroup whose part of shared memory is loaded: the own one, or the next.
    pub(super) fn other_subgroup(&mut self, own: Id, next: bool) -> Id {
        if !next {
            return own;
        }
        self.note("a matrix of another subgroup");
        let (one, all) = (self.u32(1), self.u32(self.subgroups));
        let after = self.u32_op(Op::IAdd, own, one);
        self.u32_op(Op::UMod, after, all)
    }

    /// The greatest of the numbers that all workgroups give, in one place of an output: their order does not matter.
    pub(super) fn atomic_extreme(&mut self) {
        let unit = (Scalar::Int { width: 32, signed: false }, 1);
        let (buffer, base) = self.claim(unit, 1);
        let (pointer, _) = self.pointer(buffer, base, None);
        let (exec, more) = (self.fun().exec[1], self.side.below(100));
        let more = self.uniform(more);
        let value = self.u32_op(Op::IAdd, exec, more);
        let (uint, scope, relaxed) = (self.uint(), self.u32(QUEUE_FAMILY), self.u32(0));
        let operands = [pointer, scope, relaxed, value].map(Operand::Id);
        let op = if self.side.chance(128) { Op::AtomicUMax } else { Op::AtomicOr };
        self.op(op, uint, operands);
        self.note("atomic instructions of all workgroups");
    }
}
