//! Declares implied capabilities, and removes them at the end.
//!
//! A module need not declare a capability that another one implies: CooperativeMatrixNV implies Shader, and some modules declare
//! only the first. A pass that removes a capability must keep those that it implied, so [`run`] declares all of them before the
//! matrices are lowered, and [`take_back`] removes the ones that are implied again, or that nothing needs, after the last pass.

use crate::Refusal;
use crate::cleanup::remove_capability;
use crate::pipeline::PassCx;
use coop_ir::builder::{require_capability, require_extension};
use coop_ir::grammar::implied_capabilities;
use coop_ir::hash::FxHashSet;
use coop_ir::needs::is_needed;
use coop_ir::spv::Capability;
use coop_ir::{Kind, Module, Op};

/// The kinds of a module, which are never taken back.
const KINDS: [Capability; 2] = [Capability::Shader, Capability::Kernel];

/// Declares what the declared capabilities imply.
pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    cx.declared.iter().copied().flat_map(implied_capabilities).for_each(|c| require_capability(m, c));
    Ok(())
}

/// Takes back what [`run`] declared and nothing asks for; `declared` has the capabilities that the input declared itself. What
/// stays has its extension.
pub(crate) fn take_back(m: &mut Module, declared: &[Capability]) {
    let now: Vec<Capability> = m.capabilities().collect();
    let spelled_out: FxHashSet<Capability> =
        declared.iter().flat_map(|c| implied_capabilities(*c)).filter(|c| !declared.contains(c)).collect();
    let mut left: Vec<Capability> = now.into_iter().filter(|c| spelled_out.contains(c)).collect();
    // Those that imply others come first: what they are not needed for themselves, the others may be.
    left.sort_by_key(|c| std::cmp::Reverse(implied_capabilities(*c).len()));
    for c in left {
        // pocl takes no module for a kernel whose Kernel is only implied.
        let stays = c == Capability::Kernel || KINDS.contains(&c) && !implies(m, c);
        if !stays && (implies(m, c) || !is_needed(m, c)) {
            remove_capability(m, c);
            continue;
        }
        let extensions = Kind::Capability.enumerant(c.0).map_or(&[][..], |e| e.extensions);
        let named =
            |e: &&str| m.globals_with(Op::Extension).any(|r| m.inst(r).string(0).is_some_and(|(n, _)| n == **e));
        if !extensions.iter().any(named)
            && let Some(first) = extensions.first()
        {
            require_extension(m, first);
        }
    }
}

/// Returns true if another capability that is declared implies one.
fn implies(m: &Module, capability: Capability) -> bool {
    m.capabilities().any(|other| other != capability && implied_capabilities(other).contains(&capability))
}
