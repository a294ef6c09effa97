//! Changes modules: insertion, removal, replacement of uses, and sorting of globals.
//!
//! A pass that replaces an instruction by one other uses [`Module::replace`], which keeps ids and handles; this module
//! has the other changes. [`crate::builder`] makes new instructions.

use crate::builder::add_global;
use crate::effects::{ExtSet, ExtSets};
use crate::grammar::Op;
use crate::hash::{FxHashMap, FxHashSet};
use crate::module::{Id, IdMap, IdSet, Inst, InstRef, Module, Operand};
use crate::section::Section;
use crate::spv::{Capability, Decoration};
use crate::uses::is_note;
use smallvec::SmallVec;

/// Inserts an instruction in front of another one, inside a block. Returns `None`, and changes nothing, if `before` is
/// in no block.
pub fn insert_before(m: &mut Module, before: InstRef, inst: Inst) -> Option<InstRef> {
    let (f, b, at) = m.functions.iter().enumerate().find_map(|(f, function)| {
        let at = |insts: &[InstRef]| insts.iter().position(|i| *i == before);
        function.blocks.iter().enumerate().find_map(|(b, block)| Some((f, b, at(&block.insts)?)))
    })?;
    let r = m.add(inst);
    m.functions[f].blocks[b].insts.insert(at, r);
    Some(r)
}

/// Replaces ids wherever they are used; definitions stay.
pub fn replace_uses(m: &mut Module, map: &FxHashMap<Id, Id>) {
    for r in m.all().collect::<Vec<_>>() {
        let inst = m.inst(r);
        if inst.ty.into_iter().chain(inst.ids()).any(|id| map.contains_key(&id)) {
            m.inst_mut(r).map_ids(|id| map.get(&id).copied().unwrap_or(id));
        }
    }
}

/// Removes the global instructions for which `dead` holds; their ids are not defined any more. Returns their number.
pub fn remove_globals(m: &mut Module, mut dead: impl FnMut(&Module, InstRef) -> bool) -> usize {
    let gone: FxHashSet<InstRef> = m.globals.iter().copied().filter(|r| dead(m, *r)).collect();
    if !gone.is_empty() {
        gone.iter().for_each(|r| m.forget(*r));
        m.globals.retain(|r| !gone.contains(r));
    }
    gone.len()
}

/// Removes debug information and other notes about ids that are not defined any more, and what is said about these notes.
pub fn remove_dangling_notes(m: &mut Module) {
    let sets = ExtSets::new(m);
    if !sets.has_notes() {
        return;
    }
    let mut users: FxHashMap<Id, Vec<InstRef>> = FxHashMap::default();
    let mut work: Vec<InstRef> = Vec::new();
    for r in m.all().filter(|r| sets.is_note(m.inst(*r))) {
        for id in m.inst(r).ids() {
            users.entry(id).or_default().push(r);
            if m.def(id).is_none() {
                work.push(r);
            }
        }
    }
    let mut gone: FxHashSet<InstRef> = FxHashSet::default();
    let mut ids: FxHashSet<Id> = FxHashSet::default();
    while let Some(r) = work.pop() {
        if gone.insert(r)
            && let Some(id) = m.inst(r).result
        {
            ids.insert(id);
            work.extend(users.get(&id).into_iter().flatten());
        }
    }
    if gone.is_empty() {
        return;
    }
    let about = |m: &Module, r: InstRef| m.inst(r).note_target().is_some_and(|id| ids.contains(&id));
    remove_globals(m, |m, r| gone.contains(&r) || about(m, r));
    remove_from_functions(m, &gone);
}

/// Removes the extended instructions of the sets whose names fit, these sets, and what is said of the results.
pub fn remove_ext_insts(m: &mut Module, fits: impl Fn(&str) -> bool) {
    let of_sets = |i: &Inst| i.string(0).is_some_and(|(name, _)| fits(&name));
    let sets: FxHashSet<Id> =
        m.globals_with(Op::ExtInstImport).filter(|r| of_sets(m.inst(*r))).filter_map(|r| m.inst(r).result).collect();
    if sets.is_empty() {
        return;
    }
    let fits = |i: &Inst| i.ext_set().is_some_and(|set| sets.contains(&set));
    let gone: FxHashSet<InstRef> = m.all().filter(|r| fits(m.inst(*r))).collect();
    let ids: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).chain(sets.iter().copied()).collect();
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        gone.contains(&r) || i.note_target().or(i.result).is_some_and(|id| ids.contains(&id))
    });
    remove_from_functions(m, &gone);
}

/// Removes the debug information for OpenCL: the grammar does not know which of its words are ids.
pub fn remove_opaque_notes(m: &mut Module) {
    remove_ext_insts(m, |set| ExtSet::named(set) == ExtSet::Note && !set.starts_with("NonSemantic."));
}

/// Removes instructions that functions list, and those behind the functions.
pub fn remove_from_functions(m: &mut Module, gone: &FxHashSet<InstRef>) {
    for function in &mut m.functions {
        function.lead.retain(|r| !gone.contains(r));
        function.tail.retain(|r| !gone.contains(r));
        for block in &mut function.blocks {
            block.lead.retain(|r| !gone.contains(r));
            block.insts.retain(|r| !gone.contains(r));
        }
    }
    m.trailing.retain(|r| !gone.contains(r));
    gone.iter().for_each(|r| m.forget(*r));
}

/// Removes a capability. Returns true if it was there.
pub fn remove_capability(m: &mut Module, capability: Capability) -> bool {
    remove_globals(m, |m, r| m.inst(r).op == Op::Capability && m.inst(r).enumerant(0) == Some(capability)) > 0
}

/// Removes an extension.
pub fn remove_extension(m: &mut Module, extension: &str) {
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.op == Op::Extension && i.string(0).is_some_and(|(s, _)| s == extension)
    });
}

/// Removes unused types and constants, with their names and decorations. Any word of an opaque instruction may be an id
/// below `bound`: if there are such, only what passes made is removed: give 0 where all may go.
pub fn remove_unused_globals(m: &mut Module, bound: u32) {
    let first = if m.all().any(|r| m.inst(r).opaque) { bound } else { 0 };
    // `WorkgroupSize` is a constant with an effect of its own.
    let built_in: FxHashSet<Id> = m
        .globals_with(Op::Decorate)
        .map(|r| m.inst(r))
        .filter(|i| i.enumerant(1) == Some(Decoration::BuiltIn))
        .filter_map(|i| i.note_target())
        .collect();
    let removable = |m: &Module, r: InstRef| {
        let i = m.inst(r);
        if i.result.is_some_and(|id| built_in.contains(&id) || id.get() < first) {
            return false;
        }
        let constant = i.op.is_constant() || i.op == Op::Undef;
        (constant && !i.op.is_spec_literal()) || (i.op.is_type() && i.op != Op::TypeForwardPointer)
    };
    let mentions = |op: Op| op.is_name() || op.is_literal_decoration();
    // From the last to the first: the operands of a removed one are removed in the same iteration.
    let mut used = IdSet::default();
    let use_all =
        |used: &mut IdSet, i: &Inst| i.ty.into_iter().chain(i.ids()).fold(false, |new, id| used.insert(id) | new);
    let others = m.functions.iter().flat_map(|f| f.insts()).chain(m.trailing.iter().copied());
    others.for_each(|r| _ = use_all(&mut used, m.inst(r)));
    for r in &m.globals {
        let i = m.inst(*r);
        // A forward declaration is removed with its pointer.
        if !removable(m, *r) && !mentions(i.op) && i.op != Op::TypeForwardPointer {
            use_all(&mut used, i);
        }
    }
    // To a fixed point: a struct may come before the pointer type that keeps it.
    let declared: Vec<(Id, InstRef)> =
        m.globals.iter().rev().filter(|r| removable(m, **r)).filter_map(|r| Some((m.inst(*r).result?, *r))).collect();
    loop {
        let mut any = false;
        for (id, r) in &declared {
            if used.contains(*id) {
                any |= use_all(&mut used, m.inst(*r));
            }
        }
        if !any {
            break;
        }
    }
    let dead: FxHashSet<Id> = m
        .globals
        .iter()
        .filter(|r| removable(m, **r))
        .filter_map(|r| m.inst(*r).result)
        .filter(|id| !used.contains(*id))
        .collect();
    let gone: FxHashSet<InstRef> = m
        .globals
        .iter()
        .copied()
        .filter(|r| {
            let i = m.inst(*r);
            let about = mentions(i.op) || i.op == Op::TypeForwardPointer;
            let target = if about { i.id(0) } else { i.result };
            (removable(m, *r) || about) && target.is_some_and(|id| dead.contains(&id))
        })
        .collect();
    remove_globals(m, |_, r| gone.contains(&r));
}

/// Replaces decoration groups by the decorations of each target.
pub fn spell_out_decoration_groups(m: &mut Module) {
    let of_groups = |op: Op| matches!(op, Op::GroupDecorate | Op::GroupMemberDecorate | Op::DecorationGroup);
    if !m.globals.iter().any(|r| of_groups(m.inst(*r).op)) {
        return;
    }
    let groups: FxHashSet<Id> = m.globals_with(Op::DecorationGroup).filter_map(|r| m.inst(r).result).collect();
    let of_group: Vec<Inst> = m
        .globals
        .iter()
        .map(|r| m.inst(*r))
        .filter(|i| matches!(i.op, Op::Decorate | Op::DecorateId | Op::DecorateString))
        .filter(|i| i.id(0).is_some_and(|id| groups.contains(&id)))
        .cloned()
        .collect();
    let mut new = Vec::new();
    for r in m.globals.iter().copied().filter(|r| of_groups(m.inst(*r).op)) {
        let i = m.inst(r);
        let Some(group) = i.id(0) else { continue };
        let said = || of_group.iter().filter(|d| d.id(0) == Some(group));
        let rest = |d: &Inst| d.operands.iter().skip(1).copied().collect::<Vec<_>>();
        if i.op == Op::GroupDecorate {
            let targets: Vec<Id> = i.ids_from(1).collect();
            let each = |id: &Id| said().map(|d| (d.op, [vec![Operand::Id(*id)], rest(d)].concat())).collect::<Vec<_>>();
            new.extend(targets.iter().flat_map(each));
        } else {
            for member in i.operands.get(1..).unwrap_or_default().chunks_exact(2) {
                let op = |op: Op| if op == Op::DecorateString { Op::MemberDecorateString } else { Op::MemberDecorate };
                new.extend(said().map(|d| (op(d.op), [member.to_vec(), rest(d)].concat())));
            }
        }
    }
    for (op, operands) in new {
        add_global(m, Inst::new(op, None, None, operands));
    }
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        let target = if is_note(i.op) { i.id(0) } else { i.result };
        of_groups(i.op) || target.is_some_and(|id| groups.contains(&id))
    });
}

/// Merges types that are declared twice and that SPIR-V allows one of: all but pointers, arrays and structs. Uses of
/// the later ones become uses of the first.
pub fn unify_types(m: &mut Module) {
    loop {
        let mut first: FxHashMap<(Op, Vec<Operand>), Id> = FxHashMap::default();
        let mut same: FxHashMap<Id, Id> = FxHashMap::default();
        for r in &m.globals {
            let i = m.inst(*r);
            let several =
                [Op::TypeArray, Op::TypeRuntimeArray, Op::TypeStruct, Op::TypePointer, Op::TypeForwardPointer];
            if !i.op.is_type() || several.contains(&i.op) {
                continue;
            }
            let Some(id) = i.result else { continue };
            let one = *first.entry((i.op, i.operands.to_vec())).or_insert(id);
            if one != id {
                same.insert(id, one);
            }
        }
        if same.is_empty() {
            return;
        }
        // Names and decorations of removed types would apply to the remaining ones, some of them twice.
        remove_globals(m, |m, r| {
            let i = m.inst(r);
            let note = matches!(i.op, Op::Name | Op::Decorate);
            let target = if note { i.id(0) } else { i.result };
            target.is_some_and(|id| same.contains_key(&id))
        });
        replace_uses(m, &same);
    }
}

/// The state of a global that is being sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sorting {
    /// Not looked at yet.
    Waiting,
    /// Those that it uses are being sorted.
    Entered,
    /// In its place.
    Done,
}

/// Sorts types, constants and variables so that each is declared before it is used, moving as little as possible.
/// Forward-declared pointer types may be used early, as SPIR-V allows.
pub fn sort_globals(m: &mut Module) {
    let declares = |r: &InstRef| Section::of(m.inst(*r).op) == Some(Section::Declaration);
    let first = m.globals.iter().position(declares).unwrap_or(m.globals.len());
    if is_sorted(m, &m.globals[first..]) {
        debug_assert_eq!(sorted(m, &m.globals[first..], true).0, m.globals[first..]);
        return;
    }
    let list = m.globals.split_off(first);
    let (mut out, around) = sorted(m, &list, true);
    if around {
        // Debug information that refers to one another in circles.
        out = sorted(m, &list, false).0;
    }
    m.globals.extend(out);
    settle_forward_references(m);
}

/// Returns true if each global declaration is known to stand behind what it uses.
fn is_sorted(m: &Module, list: &[InstRef]) -> bool {
    let forward = |op: Op| matches!(op, Op::TypeForwardPointer | Op::ExtInstWithForwardRefsKHR);
    let mut used = IdSet::default();
    list.iter().map(|r| m.inst(*r)).all(|inst| {
        inst.ty.into_iter().chain(inst.ids()).for_each(|id| _ = used.insert(id));
        !forward(inst.op) && !inst.result.is_some_and(|id| used.contains(id))
    })
}

/// Returns global declarations in an order in which each stands behind what it uses, and whether there are circles, in which that
/// can't be. `follow`: what an `OpExtInstWithForwardRefsKHR` uses comes before it too; it may come later.
fn sorted(m: &Module, list: &[InstRef], follow: bool) -> (Vec<InstRef>, bool) {
    let mut around = false;
    let forward: FxHashSet<Id> =
        list.iter().filter(|r| m.inst(**r).op == Op::TypeForwardPointer).filter_map(|r| m.inst(*r).id(0)).collect();
    let mut listed: IdMap<InstRef> = m.id_map();
    for r in list {
        m.inst(*r).result.into_iter().for_each(|id| _ = listed.insert(id, *r));
    }
    let mut states = vec![Sorting::Waiting; m.arena_len()];
    let mut out = Vec::with_capacity(list.len());
    let mut stack = Vec::new();
    for r in list {
        stack.push((*r, false));
        while let Some((r, ready)) = stack.pop() {
            match states[r.index()] {
                Sorting::Done => continue,
                _ if ready => {
                    states[r.index()] = Sorting::Done;
                    out.push(r);
                    continue;
                }
                // A circle: not valid SPIR-V but by way of forward references, and `verify` reports it.
                Sorting::Entered => {
                    around = true;
                    continue;
                }
                Sorting::Waiting => states[r.index()] = Sorting::Entered,
            }
            stack.push((r, true));
            let inst = m.inst(r);
            if inst.op == Op::TypeForwardPointer {
                continue;
            }
            let early = inst.op == Op::TypeStruct;
            let uses = inst.ty.into_iter().chain(inst.ids()).filter(|id| !(early && forward.contains(id)));
            let late = |n: &InstRef| {
                inst.op == Op::ExtInstWithForwardRefsKHR && m.inst(*n).op.is_ext_inst() && (!follow || *n == r)
            };
            let needs: SmallVec<[InstRef; 8]> =
                uses.filter_map(|id| listed.get(id).copied()).filter(|n| !late(n)).collect();
            let open = needs.into_iter().rev().filter(|n| states[n.index()] != Sorting::Done);
            stack.extend(open.map(|n| (n, false)));
        }
    }
    (out, around)
}

/// An `OpExtInstWithForwardRefsKHR` must have a forward reference: if sorting has removed it, the instruction becomes
/// an `OpExtInst`.
fn settle_forward_references(m: &mut Module) {
    if m.globals_with(Op::ExtInstWithForwardRefsKHR).next().is_none() {
        return;
    }
    let mut defined: FxHashSet<Id> = FxHashSet::default();
    for r in m.globals.clone() {
        let inst = m.inst_mut(r);
        if inst.op == Op::ExtInstWithForwardRefsKHR && inst.ids().all(|id| defined.contains(&id)) {
            inst.op = Op::ExtInst;
        }
        defined.extend(inst.result);
    }
}

#[cfg(test)]
mod tests {
    use super::{sort_globals, unify_types};
    use crate::Op;

    #[test]
    fn forward_references_that_order_settles() {
        let text = r#"
            OpCapability Shader
            OpExtension "SPV_KHR_relaxed_extended_instruction"
            %set = OpExtInstImport "NonSemantic.Test"
            OpMemoryModel Logical GLSL450
            %void = OpTypeVoid
            %first = OpExtInstWithForwardRefsKHR %void %set 1 %second
            %second = OpExtInst %void %set 2
            %round = OpExtInstWithForwardRefsKHR %void %set 3 %round
        "#;
        let mut m = crate::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        sort_globals(&mut m);
        let all = m.globals.iter().map(|r| m.inst(*r)).filter(|i| i.ty.is_some());
        let ops: Vec<Op> = all.map(|i| i.op).collect();
        assert_eq!(ops, [Op::ExtInst, Op::ExtInst, Op::ExtInstWithForwardRefsKHR]);
    }

    /// A pointer's debug information may name what it points to before that is described, which names the pointer.
    #[test]
    fn forward_references_in_a_circle() {
        let text = r#"
            OpCapability Shader
            OpExtension "SPV_KHR_relaxed_extended_instruction"
            %set = OpExtInstImport "NonSemantic.Test"
            OpMemoryModel Logical GLSL450
            %void = OpTypeVoid
            %pointer = OpExtInstWithForwardRefsKHR %void %set 1 %struct %uint
            %member = OpExtInst %void %set 2 %pointer
            %struct = OpExtInst %void %set 3 %member
            %uint = OpTypeInt 32 0
            %other = OpExtInst %void %set 2 %pointer
        "#;
        let mut m = crate::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        sort_globals(&mut m);
        assert_eq!(crate::verify::verify(&m), Ok(()));
    }

    #[test]
    fn types_are_declared_once() {
        let text = r"
            OpCapability Shader
            OpCapability LongVectorEXT
            OpMemoryModel Logical GLSL450
            OpDecorate %a1 ArrayStride 4
            OpDecorate %a2 ArrayStride 8
            %float = OpTypeFloat 32
            %uint = OpTypeInt 32 0
            %c5 = OpConstant %uint 5
            %v1 = OpTypeVectorIdEXT %float %c5
            %v2 = OpTypeVectorIdEXT %float %c5
            %image1 = OpTypeImage %float 2D 0 0 0 2 R32f
            %image2 = OpTypeImage %float 2D 0 0 0 2 R32f
            %a1 = OpTypeArray %v1 %c5
            %a2 = OpTypeArray %v2 %c5
        ";
        let mut m = crate::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        unify_types(&mut m);
        let count = |op| m.globals_with(op).count();
        assert_eq!([Op::TypeVectorIdEXT, Op::TypeImage, Op::TypeArray].map(count), [1, 1, 2]);
    }
}
