//! Finds blocks that are never executed because constants decide a branch.

use super::Cfg;
use crate::constant::Constants;
use crate::grammar::Op;
use crate::module::Module;

/// Returns true if no invocation reaches a block of a function, since on every path to it constants decide a branch,
/// which goes elsewhere. Values of the specialization count as constants, defaults do not.
pub fn is_never_executed(m: &Module, constants: &Constants, cfg: &Cfg, function: usize, block: usize) -> bool {
    let mut at = block;
    while let Some(above) = cfg.idom(at) {
        at = above;
        let terminator = m.functions[function].blocks[at].insts.last().map(|r| m.inst(*r));
        let Some(branch) = terminator.filter(|i| i.op == Op::BranchConditional) else { continue };
        let (Some(condition), Some(yes), Some(no)) = (branch.id(0), branch.id(1), branch.id(2)) else { continue };
        let Some(taken) = constants.computed(m, condition).fixed() else { continue };
        let Some(other) = cfg.block(if taken != 0 { no } else { yes }).filter(|_| yes != no) else { continue };
        if cfg.predecessors(other) == [at] && cfg.dominates(other, block) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::{SpecValue, Specialization};
    use crate::text;

    const SOURCE: &str = "
        OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpDecorate %stride SpecId 7
        %void = OpTypeVoid
        %uint = OpTypeInt 32 0
        %bool = OpTypeBool
        %c0 = OpConstant %uint 0
        %c3 = OpConstant %uint 3
        %stride = OpSpecConstant %uint 10
        %any = OpUndef %bool
        %fn = OpTypeFunction %void
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %low = OpBitwiseAnd %uint %stride %c3
        %odd = OpINotEqual %bool %low %c0
        %element = OpLogicalOr %bool %any %odd
        OpSelectionMerge %end None
        OpBranchConditional %element %slow %fast
        %slow = OpLabel
        OpBranch %end
        %fast = OpLabel
        OpBranch %inner
        %inner = OpLabel
        OpBranch %end
        %end = OpLabel
        OpReturn
        OpFunctionEnd";

    #[test]
    fn a_condition_may_be_known_in_part() {
        let m = text::parse(SOURCE).unwrap_or_else(|e| panic!("{e}"));
        let cfg = Cfg::new(&m, &m.functions[0]);
        let dead = |stride: Option<&str>| {
            let mut spec = Specialization::new();
            if let Some(text) = stride {
                spec.set(7, SpecValue::parse(text).expect("a number"));
            }
            let constants = Constants::new(&m, &spec);
            (0..cfg.len()).map(|b| is_never_executed(&m, &constants, &cfg, 0, b)).collect::<Vec<_>>()
        };
        // In order: entry, slow, fast, inner, end.
        assert_eq!(dead(Some("10")), [false, false, true, true, false]);
        assert_eq!(dead(Some("12")), [false; 5]);
        assert_eq!(dead(None), [false; 5]);
    }
}
