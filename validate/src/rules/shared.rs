//! Rules about matrices in shared memory.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::SpecIds;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers::root;
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{Type, natural_size};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// An array of Workgroup memory that matrices are loaded from or stored to has elements of 16 bytes, or the variables that are
    /// declared behind it have, together, a multiple of 16 bytes.
    /// ## Why
    /// Rows of a matrix begin with multiples of 16 bytes, in a variable that no instruction can align. NVIDIA's driver
    /// places variables in the reverse order of their declarations, each at a multiple of what its type is aligned to, and moves
    /// rows as if they began with multiples of 16: hundreds of elements of a matrix are wrong (docs/drivers.md). glslang declares
    /// variables in the order of their first use. cooplower puts them in order.
    /// ## Example
    /// `shared f16vec2 tile[128]; shared uint counts[3];` with `coopMatStore(m, tile, 0, 8, gl_CooperativeMatrixLayoutRowMajor)`
    pub(crate) static MISPLACED = {
        id: "portability-shared-order",
        summary: "a matrix in shared memory that is declared before an array of an odd size",
        level: Warning,
        since: "0.2.0",
        spec: "Vulkan, alignment of Pointer in OpCooperativeMatrixLoadKHR; seen on an H100 (580.159)",
        vuids: [],
        digest: ["khr.ls-align"],
    }
}

/// The bytes that rows begin with a multiple of.
const ROW: u64 = 16;

/// Checks where a driver that places shared variables in reverse order puts those that matrices are in.
pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    let one_entry = || cx.module.globals_with(Op::EntryPoint).count() == 1;
    // Blocks with a layout overlap, and begin together.
    if !cx.env.is_vulkan() || cx.has(Capability::WorkgroupMemoryExplicitLayoutKHR) || !one_entry() {
        return;
    }
    let mut accessed: FxHashMap<Id, InstRef> = FxHashMap::default();
    for &at in cx.body.iter().filter(|r| cx.inst(**r).op.is_matrix_access()) {
        let variable = cx.inst(at).accessed().and_then(|p| root(cx.module, p, Op::derives_pointer));
        variable.into_iter().for_each(|id| _ = accessed.entry(id).or_insert(at));
    }
    if accessed.is_empty() {
        return;
    }
    // The SpecIds that the sizes depend on of what is declared behind.
    let (mut end, mut odd, mut specs) = (0_u64, None, SpecIds::default());
    for r in cx.module.globals_with(Op::Variable).collect::<Vec<_>>().into_iter().rev() {
        let inst = cx.inst(r);
        let ty = inst.ty.and_then(|ty| Type::of(cx.module, ty));
        let Some(Type::Pointer { storage: StorageClass::Workgroup, pointee }) = ty else { continue };
        let Some((size, align)) = natural_size(cx.module, &cx.constants, pointee).filter(|(_, align)| *align > 0)
        else {
            return;
        };
        let Some(start) = end.checked_next_multiple_of(align) else { return };
        let at = inst.result.and_then(|id| accessed.get(&id));
        if let (Some(at), Some(odd), true) = (at, odd, align < ROW && !start.is_multiple_of(ROW)) {
            let verdict = if specs.is_empty() { Verdict::Broken } else { Verdict::BrokenByDefault(specs.clone()) };
            report(verdict, r, *at, odd, size, out);
        }
        let Some(next) = start.checked_add(size) else { return };
        end = next;
        merge_lengths(cx, pointee, &mut specs);
        if !size.is_multiple_of(ROW) {
            odd = Some(r);
        }
    }
}

/// Adds the SpecIds that the lengths of arrays in a type depend on.
fn merge_lengths(cx: &Cx, ty: Id, specs: &mut SpecIds) {
    let (mut work, mut seen) = (vec![ty], FxHashSet::default());
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match Type::of(cx.module, ty) {
            Some(Type::Array { elem, len }) => {
                cx.constants.get(len).specs().into_iter().for_each(|of| specs.merge(of));
                work.push(elem);
            }
            Some(Type::Struct { members }) => work.extend(members),
            _ => {}
        }
    }
}

fn report(verdict: Verdict, variable: InstRef, access: InstRef, odd: InstRef, size: u64, out: &mut Sink) {
    out.judge(&MISPLACED, verdict, variable, || {
        Draft::new(format!(
            "matrices in these {size} bytes of shared memory begin between multiples of 16 bytes on a driver that places \
             variables in reverse order, and are wrong there"
        ))
        .label(variable, Part::Result, "declared before a variable of an odd size")
        .label(odd, Part::Result, "its size is between multiples of 16 bytes")
        .label(access, Part::Operand(0), "the matrix is here")
        .help("declare (in GLSL: use) the other variable first, make it a multiple of 16 bytes, or make this one an array of uvec4")
    });
}
