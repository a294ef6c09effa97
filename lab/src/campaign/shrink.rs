//! Making what fails small: less entropy, then fewer instructions; and keeping it.

use super::Trouble;
use crate::generator::{Generated, GeneratorProfile};
use coop_ir::hash::FxHashSet;
use coop_ir::{Id, InstRef, Module, Op, Operand, binary, text};
use std::path::Path;

/// Less entropy that still makes trouble of the same class: what `troubles` answers with `true`. It is asked at most
/// `tries` times.
pub fn shrink(entropy: &[u8], mut tries: u32, troubles: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = entropy.to_vec();
    let mut attempt = |best: &mut Vec<u8>, candidate: Vec<u8>| {
        if tries == 0 || candidate == *best {
            return false;
        }
        tries -= 1;
        let better = troubles(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    // The end first: what is not there is zeros.
    let mut cut = best.len() / 2;
    while cut > 0 {
        let mut shorter = best.clone();
        shorter.truncate(best.len() - cut.min(best.len()));
        if !attempt(&mut best, shorter) {
            cut /= 2;
        }
    }
    let mut span = (best.len() / 2).max(1);
    loop {
        let mut changed = false;
        let mut at = 0;
        while at < best.len() {
            let end = (at + span).min(best.len());
            let mut without = best.clone();
            without.drain(at..end);
            if attempt(&mut best, without) {
                changed = true;
                continue;
            }
            let mut zeroed = best.clone();
            zeroed[at..end].fill(0);
            changed |= attempt(&mut best, zeroed);
            at = end;
        }
        match span {
            1 if !changed => break,
            1 => {}
            _ => span /= 2,
        }
    }
    while best.last() == Some(&0) {
        best.pop();
    }
    best
}

/// A module with less in it that still makes trouble. `troubles` is asked at most `tries` times.
pub fn reduce(module: &Module, tries: u32, troubles: &mut dyn FnMut(&Module) -> bool) -> Module {
    let mut r = Reducer { best: module.clone(), tries, troubles };
    loop {
        let mut changed = r.runs();
        changed |= r.forward();
        let pruned = pruned(&r.best);
        changed |= r.attempt(pruned);
        if !changed || r.tries == 0 {
            return r.best;
        }
    }
}

struct Reducer<'a> {
    best: Module,
    tries: u32,
    troubles: &'a mut dyn FnMut(&Module) -> bool,
}

impl Reducer<'_> {
    fn attempt(&mut self, candidate: Module) -> bool {
        let size = |m: &Module| m.all().count();
        if self.tries == 0 || size(&candidate) > size(&self.best) || coop_ir::verify::verify(&candidate).is_err() {
            return false;
        }
        if binary::write_words(&candidate) == binary::write_words(&self.best) {
            return false;
        }
        self.tries -= 1;
        let good = (self.troubles)(&candidate);
        if good {
            self.best = candidate;
        }
        good
    }

    /// Removes instructions whose results nobody uses, many at once as long as that goes.
    fn runs(&mut self) -> bool {
        let mut changed = false;
        let mut many = 32;
        while many > 0 && self.tries > 0 {
            let mut from = 0;
            loop {
                let removable = removable(&self.best);
                let Some(some) = removable.get(from..).filter(|s| !s.is_empty()) else { break };
                let some: FxHashSet<InstRef> = some.iter().copied().take(many).collect();
                if self.attempt(without(&self.best, &some)) {
                    changed = true;
                } else {
                    from += many;
                }
                if self.tries == 0 {
                    break;
                }
            }
            many /= 2;
        }
        changed
    }

    /// Puts the operand of an instruction in its place, where the types are the same.
    fn forward(&mut self) -> bool {
        let mut changed = false;
        let all: Vec<InstRef> = self.best.functions.iter().flat_map(|f| f.insts()).collect();
        for r in all.into_iter().rev() {
            let inst = self.best.inst(r);
            let (Some(id), Some(ty)) = (inst.result, inst.ty) else { continue };
            if inst.op == Op::Phi || inst.op.is_function_header() {
                continue;
            }
            let same: Option<Id> = inst.ids().find(|o| self.best.type_of(*o) == Some(ty));
            let Some(other) = same else { continue };
            let mut candidate = self.best.clone();
            coop_ir::rewrite::replace_uses(&mut candidate, &[(id, other)].into_iter().collect());
            changed |= self.attempt(without(&candidate, &[r].into_iter().collect()));
        }
        changed
    }
}

/// Instructions of functions that can go: nobody uses them, and the flow of control is none of theirs. The last first.
fn removable(m: &Module) -> Vec<InstRef> {
    let used: FxHashSet<Id> = m.all().flat_map(|r| m.inst(r).ids().collect::<Vec<_>>()).collect();
    let mut out = Vec::new();
    for f in &m.functions {
        for b in &f.blocks {
            for r in b.insts.iter().take(b.insts.len().saturating_sub(1)) {
                let inst = m.inst(*r);
                let merge = matches!(inst.op, Op::SelectionMerge | Op::LoopMerge);
                if !merge && !inst.result.is_some_and(|id| used.contains(&id)) {
                    out.push(*r);
                }
            }
        }
    }
    out.reverse();
    out
}

fn without(m: &Module, gone: &FxHashSet<InstRef>) -> Module {
    let mut out = m.clone();
    for f in &mut out.functions {
        for b in &mut f.blocks {
            b.insts.retain(|r| !gone.contains(r));
        }
    }
    gone.iter().for_each(|r| out.forget(*r));
    out
}

/// Without functions that nothing calls, and without globals that nothing mentions.
fn pruned(m: &Module) -> Module {
    let mut out = m.clone();
    loop {
        let mut used: FxHashSet<Id> = FxHashSet::default();
        for r in out.all() {
            let i = out.inst(r);
            match i.op {
                op if op.is_name() || op.is_literal_decoration() => {}
                // The interface of an entry point uses nothing.
                Op::EntryPoint => used.extend(i.id(1)),
                _ => used.extend(i.ty.into_iter().chain(i.ids())),
            }
        }
        let before = out.all().count();
        let dead: Vec<usize> = (0..out.functions.len())
            .rev()
            .filter(|f| !out.inst(out.functions[*f].def).result.is_some_and(|id| used.contains(&id)))
            .collect();
        for f in dead {
            let function = out.functions.remove(f);
            function.insts().for_each(|r| out.forget(r));
        }
        let known: FxHashSet<Id> = out.all().filter_map(|r| out.inst(r).result).collect();
        let gone = |m: &Module, r: InstRef| {
            let i = m.inst(r);
            match i.op {
                op if op.is_name() || op.is_literal_decoration() => {
                    i.id(0).is_some_and(|id| !used.contains(&id) && !built_in(m, id) || !known.contains(&id))
                }
                _ => i.result.is_some_and(|id| !used.contains(&id) && !built_in(m, id)),
            }
        };
        coop_ir::rewrite::remove_globals(&mut out, gone);
        let variables: FxHashSet<Id> = out.globals_with(Op::Variable).filter_map(|r| out.inst(r).result).collect();
        for r in out.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
            let main = out.inst(r).id(1);
            let keep = |o: &Operand| o.id().is_none_or(|id| Some(id) == main || variables.contains(&id));
            let operands: Vec<Operand> = out.inst(r).operands.iter().copied().filter(keep).collect();
            out.inst_mut(r).operands = operands.into_iter().collect();
        }
        if out.all().count() == before {
            return out;
        }
    }
}

/// Constants that say the size of a workgroup are used by nothing.
fn built_in(m: &Module, id: Id) -> bool {
    m.globals_with(Op::Decorate).any(|r| {
        let i = m.inst(r);
        i.id(0) == Some(id) && i.word(1) == Some(spirv_builtin()) && m.def_inst(id).is_some_and(|d| d.op.is_constant())
    })
}

const fn spirv_builtin() -> u32 {
    11
}

/// Writes what is needed to see the trouble again.
pub fn keep(
    folder: &Path,
    profile: GeneratorProfile,
    made: &Generated,
    entropy: &[u8],
    trouble: &Trouble,
) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let print = |m: &Module| text::print(m, &text::PrintOptions::default()).text;
    std::fs::write(folder.join("entropy.bin"), entropy)?;
    let mut header: String = trouble.message.lines().map(|l| format!("; {l}\n")).collect();
    // For `testdata/passes`, where such modules go: what they are lowered to.
    let word = trouble.class.split([' ', ',']).next().unwrap_or("");
    if ["scalar", "khr", "ext", "auto"].contains(&word) {
        header.insert_str(0, &format!("; targets: {word}\n"));
    }
    std::fs::write(folder.join("module.spvasm"), format!("; {profile}\n{header}{}", print(&made.module)))?;
    std::fs::write(folder.join("module.spv"), binary::write(&made.module))?;
    std::fs::write(folder.join("module.toml"), &made.case)?;
    std::fs::write(folder.join("trouble.txt"), format!("{profile}\n{}\n\n{}\n", trouble.class, trouble.message))?;
    for (label, module) in &trouble.modules {
        let name: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(folder.join(format!("{name}.spvasm")), print(module))?;
    }
    Ok(())
}
