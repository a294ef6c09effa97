//! Finds powers of two that divide values.

use super::index_math::power;
use crate::ssa::is_debug;
use coop_ir::constant::Constants;
use coop_ir::{Id, Module, Op};

/// The depth to which definitions are followed.
const DEPTH: usize = 24;

const MAX: u32 = 1 << 31;

/// Returns a power of two that divides a 32-bit integer, as far as its definition shows.
pub(super) fn align(m: &Module, constants: &Constants, id: Id) -> u32 {
    Finder { m, constants, path: Vec::new(), assumed: 0, budget: 2000 }.of(id)
}

struct Finder<'a> {
    m: &'a Module,
    constants: &'a Constants,
    /// The phis and variables being visited: a value that comes back around a loop is assumed to be a multiple of
    /// whatever the others are.
    path: Vec<Id>,
    /// The number of such assumptions.
    assumed: u32,
    budget: u32,
}

impl Finder<'_> {
    fn of(&mut self, id: Id) -> u32 {
        if self.budget == 0 || self.path.len() > DEPTH {
            return 1;
        }
        self.budget -= 1;
        if let Some(value) = self.constants.get(id).fixed() {
            return power(value as u32);
        }
        let Some(inst) = self.m.def_inst(id) else { return 1 };
        let x = |this: &mut Self, at: usize| inst.id(at).map_or(1, |id| this.of(id));
        match inst.op {
            Op::Constant => power(inst.literal().unwrap_or(1)),
            Op::IAdd | Op::ISub | Op::BitwiseOr | Op::BitwiseXor => x(self, 0).min(x(self, 1)),
            Op::BitwiseAnd => x(self, 0).max(x(self, 1)),
            Op::IMul => x(self, 0).saturating_mul(x(self, 1)).min(MAX),
            Op::Select => x(self, 1).min(x(self, 2)),
            Op::CopyObject | Op::SNegate => x(self, 0),
            Op::Bitcast => {
                // Scalars only: the bits of a vector are not known here.
                let scalar = inst.converted().and_then(|i| self.m.type_of(i)).and_then(|t| self.m.def_inst(t));
                if scalar.is_some_and(|t| t.op == Op::TypeInt) { x(self, 0) } else { 1 }
            }
            Op::ShiftLeftLogical => {
                let shift = inst.id(1).and_then(|s| self.known(s)).unwrap_or(0).min(31);
                (u64::from(x(self, 0)) << shift).min(u64::from(MAX)) as u32
            }
            Op::ShiftRightLogical => {
                let shift = inst.id(1).and_then(|s| self.known(s)).unwrap_or(31).min(31);
                self.divided(inst.id(0), 1 << shift)
            }
            Op::UDiv => match inst.id(1).and_then(|d| self.known(d)) {
                Some(d) if d.is_power_of_two() => self.divided(inst.id(0), d),
                _ => 1,
            },
            Op::UMod => x(self, 0).min(x(self, 1)),
            Op::Phi => {
                if self.path.contains(&id) {
                    self.assumed += 1;
                    return MAX;
                }
                self.path.push(id);
                let values: Vec<Id> = inst.operands.iter().step_by(2).filter_map(|o| o.id()).collect();
                let all = values.into_iter().map(|v| self.of(v)).min().unwrap_or(1);
                self.path.pop();
                all
            }
            Op::Load => inst.accessed().map_or(1, |variable| self.loaded(variable)),
            _ => 1,
        }
    }

    /// Returns the divisor of a variable of the function: the value is one of those stored there, if the variable has
    /// no other uses.
    fn loaded(&mut self, variable: Id) -> u32 {
        if self.path.contains(&variable) {
            self.assumed += 1;
            return MAX;
        }
        let function = coop_ir::spv::StorageClass::Function;
        let Some(inst) =
            self.m.def_inst(variable).filter(|i| i.op == Op::Variable && i.variable_storage() == Some(function))
        else {
            return 1;
        };
        let mut values: Vec<Id> = inst.initializer().into_iter().collect();
        let m = self.m;
        // Visiting all instructions is expensive, so it is done rarely.
        self.budget = self.budget.saturating_sub(50);
        for r in m.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts) {
            let user = m.inst(*r);
            match user.op {
                Op::Store if user.accessed() == Some(variable) => values.extend(user.stored()),
                Op::Load => {}
                _ if is_debug(m, user) => {}
                _ if user.ids().any(|i| i == variable) => return 1,
                _ => {}
            }
        }
        self.path.push(variable);
        let all = values.into_iter().map(|v| self.of(v)).min().unwrap_or(1);
        self.path.pop();
        all
    }

    /// Returns the divisor of a number divided by a power of two. A value divided again in each iteration of a loop
    /// loses a factor each time.
    fn divided(&mut self, id: Option<Id>, by: u32) -> u32 {
        let before = self.assumed;
        let number = id.map_or(1, |id| self.of(id));
        if self.assumed > before { 1 } else { (number / by).max(1) }
    }

    fn known(&self, id: Id) -> Option<u32> {
        self.constants.get(id).fixed().map(|v| v as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::align;
    use coop_ir::constant::{Constants, Specialization};
    use coop_ir::{Id, Module, Op, text};

    /// A loop with two counters: one goes up by 8, one is halved.
    const LOOP: &str = "
        OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\"
        OpExecutionMode %main LocalSize 1 1 1
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %bool = OpTypeBool
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c2 = OpConstant %uint 2
        %c8 = OpConstant %uint 8
        %c16 = OpConstant %uint 16
        %main = OpFunction %void None %fn
        %entry = OpLabel
        OpBranch %head
        %head = OpLabel
        %up = OpPhi %uint %c16 %entry %more %next
        %down = OpPhi %uint %c16 %entry %half %next
        %quarter = OpPhi %uint %c16 %entry %fourth %next
        OpLoopMerge %end %next None
        %goes = OpULessThan %bool %c0 %down
        OpBranchConditional %goes %next %end
        %next = OpLabel
        %more = OpIAdd %uint %up %c8
        %half = OpShiftRightLogical %uint %down %c1
        %fourth = OpUDiv %uint %quarter %c2
        %fixed = OpUDiv %uint %c16 %c2
        %both = OpIAdd %uint %up %fixed
        OpBranch %head
        %end = OpLabel
        OpReturn
        OpFunctionEnd";

    fn of(m: &Module, op: Op, nth: usize) -> u32 {
        let constants = Constants::new(m, &Specialization::new());
        let all = m.functions.iter().flat_map(|f| f.insts()).filter(|r| m.inst(*r).op == op);
        let id: Vec<Id> = all.filter_map(|r| m.inst(r).result).collect();
        align(m, &constants, id[nth])
    }

    #[test]
    fn what_is_divided_in_a_loop_is_a_multiple_of_nothing() {
        let m = text::parse(LOOP).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!([0, 1, 2].map(|n| of(&m, Op::Phi, n)), [8, 1, 1]);
        // Outside of the loop's own way it is what it was.
        assert_eq!((of(&m, Op::UDiv, 1), of(&m, Op::IAdd, 1)), (8, 8));
    }
}
