//! Makes modules small that show something: removes and simplifies instructions as long as a test says that the rest still
//! shows it.
//!
//! Candidates are well formed ([`coop_ir::verify`]) and break no rule of level error that the module itself does not break. Who has
//! another judge of modules, spirv-val for example, gives it to [`reduce_valid`].
//! Each step that the test confirms is the start of the next, so the best module so far is always one that was tested.

mod loops;

use coop_ir::builder::Globals;
use coop_ir::cfg::Case;
use coop_ir::grammar::{Class, implied_capabilities};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::needs::{each_need, is_needed};
use coop_ir::rewrite::{remove_globals, replace_uses};
use coop_ir::spv::{Capability, Decoration};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand, binary, verify};
use coop_passes::{Options, Target};
use std::ops::ControlFlow;

/// The answer of a test: `Continue(true)` if the candidate still shows what is looked for, `Break` to end with the best so far.
pub type Answer = ControlFlow<(), bool>;

/// The reason why a reduction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No step that is known makes the module smaller.
    Smallest,
    /// The number of tests is used up.
    OutOfTries,
    /// The test ended it.
    Stopped,
}

/// The result of a reduction.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The smallest module that was confirmed; the original, if none was.
    pub module: Module,
    /// The number of tests.
    pub tries: u32,
    /// The reason why it ended.
    pub end: End,
}

/// A judge of candidates, which takes the module itself: false for one that is not valid.
pub type Judge<'a> = dyn FnMut(&Module) -> bool + 'a;

/// Returns a module with less in it that still passes the test, which is asked at most `tries` times. The original counts as
/// tested.
pub fn reduce(module: &Module, tries: u32, test: &mut dyn FnMut(&Module) -> Answer) -> Reduced {
    reduce_valid(module, tries, None, test)
}

/// Like [`reduce`], with candidates that a judge takes. Without one, capabilities and extensions go only where the grammar shows that
/// nothing needs them.
pub fn reduce_valid<'a>(
    module: &Module,
    tries: u32,
    judge: Option<&'a mut Judge<'a>>,
    test: &'a mut dyn FnMut(&Module) -> Answer,
) -> Reduced {
    let (best, kept) = (module.clone(), FxHashSet::default());
    let mut r = Reducer { best, broken: broken(module), kept, tries, asked: 0, stopped: false, judge, test };
    loop {
        let mut changed = r.prune();
        changed |= r.branches();
        changed |= r.loops();
        changed |= r.runs();
        changed |= r.forward();
        changed |= r.undefine();
        changed |= r.entry_points();
        changed |= r.notes();
        changed |= r.constants();
        changed |= r.declarations();
        if !changed || r.is_over() {
            break;
        }
    }
    let end = match (r.stopped, r.asked < r.tries) {
        (true, _) => End::Stopped,
        (false, true) => End::Smallest,
        (false, false) => End::OutOfTries,
    };
    Reduced { module: r.best, tries: r.asked, end }
}

/// Returns the number of instructions of a module.
pub fn size(module: &Module) -> usize {
    module.all().count()
}

/// Returns the ids of the rules of level error that a module breaks.
fn broken(module: &Module) -> FxHashSet<&'static str> {
    let report = coop_validate::check(module, &coop_validate::Options::default());
    report.blocking().map(|finding| finding.rule.id).collect()
}

struct Reducer<'a> {
    best: Module,
    /// The rules that the original breaks.
    broken: FxHashSet<&'static str>,
    /// The functions and globals that the test needs, although nothing uses them: a driver may look at them.
    kept: FxHashSet<Id>,
    tries: u32,
    asked: u32,
    stopped: bool,
    judge: Option<&'a mut Judge<'a>>,
    test: &'a mut dyn FnMut(&Module) -> Answer,
}

impl Reducer<'_> {
    fn is_over(&self) -> bool {
        self.stopped || self.asked >= self.tries
    }

    /// Tests a candidate and takes it if it passes.
    fn attempt(&mut self, candidate: Module) -> bool {
        if self.is_over() || size(&candidate) > size(&self.best) || verify::verify(&candidate).is_err() {
            return false;
        }
        if binary::write_words(&candidate) == binary::write_words(&self.best) {
            return false;
        }
        if !broken(&candidate).is_subset(&self.broken) || self.judge.as_mut().is_some_and(|judge| !judge(&candidate)) {
            return false;
        }
        self.asked += 1;
        match (self.test)(&candidate) {
            ControlFlow::Continue(true) => {
                self.best = candidate;
                true
            }
            ControlFlow::Continue(false) => false,
            ControlFlow::Break(()) => {
                self.stopped = true;
                false
            }
        }
    }

    /// Tries to remove parts of a list that `list` makes of the best module, many at once as long as that goes.
    fn parts<T: Clone>(&mut self, list: fn(&Module) -> Vec<T>, without: impl Fn(&Module, &[T]) -> Module) -> bool {
        let mut changed = false;
        let mut many = list(&self.best).len().next_power_of_two() / 2;
        while many > 0 && !self.is_over() {
            let mut from = 0;
            loop {
                let all = list(&self.best);
                let Some(some) = all.get(from..).filter(|s| !s.is_empty()) else { break };
                if self.attempt(without(&self.best, &some[..many.min(some.len())])) {
                    changed = true;
                } else {
                    from += many;
                }
                if self.is_over() {
                    break;
                }
            }
            many /= 2;
        }
        changed
    }

    /// Removes functions and globals that nothing uses: all, or those that the test does not need.
    fn prune(&mut self) -> bool {
        let all = pruned(&self.best, &FxHashSet::default());
        let mut changed = self.attempt(all);
        if !changed {
            while self.parts(unused, without_unused) {
                changed = true;
            }
        }
        self.kept = unused(&self.best).into_iter().collect();
        changed
    }

    /// Removes instructions whose results nobody uses.
    fn runs(&mut self) -> bool {
        self.parts(removable, without)
    }

    /// Removes names, what says where a module comes from, and decorations; with a judge those that a valid module may need, and
    /// execution modes, as well.
    fn notes(&mut self) -> bool {
        let changed = self.parts(|m| notes(m, is_optional), without_globals);
        changed | (self.judge.is_some() && self.parts(|m| notes(m, is_note), without_globals))
    }

    /// Makes constants of specialization constants, null constants of composite ones, and one constant of equal ones.
    fn constants(&mut self) -> bool {
        let mut changed = self.attempt(with_equal_constants_once(&self.best, &self.kept));
        for r in self.best.globals.clone().into_iter().rev() {
            if self.is_over() {
                break;
            }
            let inst = self.best.inst(r);
            let Some(id) = inst.result else { continue };
            if let Some(plain) = without_specialization(inst.op) {
                let mut candidate = self.best.clone();
                candidate.inst_mut(r).op = plain;
                let of_id = |m: &Module, note: InstRef| m.inst(note).decoration() == Some((id, Decoration::SpecId));
                remove_globals(&mut candidate, of_id);
                changed |= self.attempt(candidate);
            }
            let inst = self.best.inst(r);
            let is_composite = inst.op.is_composite() && inst.op.is_constant() || inst.op == Op::SpecConstantOp;
            if let (true, Some(ty)) = (is_composite, inst.ty) {
                let mut candidate = self.best.clone();
                let null = Globals::new(&candidate).null(&mut candidate, ty);
                replace_uses(&mut candidate, &[(id, null)].into_iter().collect());
                changed |= self.attempt(pruned(&candidate, &self.kept));
            }
        }
        changed
    }

    /// Removes capabilities and extensions.
    fn declarations(&mut self) -> bool {
        let judged = self.judge.is_some();
        let mut changed = false;
        let is_declaration = |m: &Module, r: InstRef| matches!(m.inst(r).op, Op::Capability | Op::Extension);
        let all: Vec<InstRef> = self.best.globals.iter().copied().filter(|r| is_declaration(&self.best, *r)).collect();
        // An extension goes behind the capabilities that have it.
        let (extensions, capabilities): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|r| self.best.inst(*r).op == Op::Extension);
        for r in capabilities.into_iter().chain(extensions) {
            if judged || !is_wanted(&self.best, r) {
                changed |= self.attempt(without_globals(&self.best, &[r]));
            }
            let capability = self.best.inst(r).declared_capability().filter(|_| self.best.globals.contains(&r));
            // What it implies may be enough.
            for implied in capability.into_iter().flat_map(implied_capabilities) {
                let mut candidate = self.best.clone();
                if judged && !self.best.has_capability(implied) && !self.is_over() {
                    candidate.inst_mut(r).operands = [Operand::Word(implied.0)].into_iter().collect();
                    changed |= self.attempt(candidate);
                }
            }
        }
        changed
    }

    /// Removes all entry points but one.
    fn entry_points(&mut self) -> bool {
        let entries: Vec<InstRef> = self.best.globals_with(Op::EntryPoint).collect();
        if entries.len() < 2 {
            return false;
        }
        entries.iter().any(|kept| {
            let function = self.best.inst(*kept).entry_function();
            let mut candidate = self.best.clone();
            remove_globals(&mut candidate, |m, r| {
                let i = m.inst(r);
                let of_other = i.execution_mode().is_some_and(|(of, _)| Some(of) != function);
                of_other || i.op == Op::EntryPoint && r != *kept
            });
            self.attempt(pruned(&candidate, &self.kept))
        })
    }

    /// Decides branches, and removes what is not reached any more.
    fn branches(&mut self) -> bool {
        let mut changed = false;
        let mut from = 0;
        while !self.is_over() {
            let Some(at) = conditional(&self.best).into_iter().nth(from) else { break };
            let decided = [true, false].into_iter().any(|taken| {
                let candidate = decide(&self.best, at, taken, &self.kept);
                candidate.is_some_and(|candidate| self.attempt(candidate))
            });
            changed |= decided;
            // The one behind a decided one has its number.
            from += usize::from(!decided);
        }
        changed
    }

    /// Passes loops by, and takes away what makes a loop of blocks that are executed once.
    fn loops(&mut self) -> bool {
        let mut changed = false;
        for label in loops::headers(&self.best) {
            for smaller in [loops::passed_by, loops::executed_once] {
                if let Some(candidate) = smaller(&self.best, label).filter(|_| !self.is_over()) {
                    changed |= self.attempt(pruned(&candidate, &self.kept));
                }
            }
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
            if inst.op == Op::Phi || inst.op.is_function_header() || self.is_over() || !self.best.all().any(|l| l == r)
            {
                continue;
            }
            let same: Option<Id> = inst.ids().find(|o| self.best.type_of(*o) == Some(ty));
            let Some(other) = same else { continue };
            let mut candidate = self.best.clone();
            replace_uses(&mut candidate, &[(id, other)].into_iter().collect());
            changed |= self.attempt(without(&candidate, &[r]));
        }
        changed
    }

    /// Puts a null constant in the place of values.
    fn undefine(&mut self) -> bool {
        let kept = self.kept.clone();
        self.parts(replaceable, |m, gone| {
            let mut out = m.clone();
            let mut globals = Globals::new(&out);
            let mut map: FxHashMap<Id, Id> = FxHashMap::default();
            for r in gone {
                if let (Some(id), Some(ty)) = (m.inst(*r).result, m.inst(*r).ty) {
                    map.insert(id, globals.null(&mut out, ty));
                }
            }
            replace_uses(&mut out, &map);
            pruned(&without(&out, gone), &kept)
        })
    }
}

/// Returns the instructions of functions that can go: nobody uses them, and the flow of control is none of theirs. The last first.
fn removable(m: &Module) -> Vec<InstRef> {
    let used: FxHashSet<Id> = m.all().flat_map(|r| m.inst(r).ids().collect::<Vec<_>>()).collect();
    let inside = |inst: &Inst| !inst.op.is_merge() && !inst.result.is_some_and(|id| used.contains(&id));
    let mut out: Vec<InstRef> = bodies(m).filter(|r| inside(m.inst(*r))).collect();
    out.reverse();
    out
}

/// Returns the instructions of functions whose result a null constant can replace.
fn replaceable(m: &Module) -> Vec<InstRef> {
    let with_value = |r: &InstRef| m.inst(*r).ty.is_some_and(|ty| is_nullable(m, ty));
    let mut out: Vec<InstRef> = bodies(m).filter(with_value).collect();
    out.reverse();
    out
}

/// Returns true if a type has a null constant.
fn is_nullable(m: &Module, ty: Id) -> bool {
    let ty = Type::of(m, ty);
    matches!(ty, Some(Type::Bool | Type::Scalar(_) | Type::Vector { .. } | Type::Array { .. } | Type::Struct { .. }))
        || ty.is_some_and(|ty| ty.coop_mat().is_some())
}

/// Returns the instructions in the blocks of a module but the last ones.
fn bodies(m: &Module) -> impl Iterator<Item = InstRef> + '_ {
    let blocks = m.functions.iter().flat_map(|f| &f.blocks);
    blocks.flat_map(|b| b.insts.iter().copied().take(b.insts.len().saturating_sub(1)))
}

/// Returns the instructions that branch on a value, outer ones before inner ones.
fn conditional(m: &Module) -> Vec<InstRef> {
    let blocks = m.functions.iter().flat_map(|f| &f.blocks);
    blocks.filter_map(|b| b.terminator()).filter(|r| m.inst(*r).branch_condition().is_some()).collect()
}

/// Returns the module with the branch at `at` decided: what depends on that is folded, and what is not reached any more is gone.
fn decide(m: &Module, at: InstRef, taken: bool, kept: &FxHashSet<Id>) -> Option<Module> {
    let selector = m.inst(at).branch_condition()?;
    let ty = m.type_of(selector)?;
    let mut out = m.clone();
    let mut globals = Globals::new(&out);
    let value = match Type::of(m, ty)? {
        Type::Bool => globals.boolean(&mut out, taken),
        Type::Scalar(scalar) if scalar.is_int() => {
            // The first case of a switch, or its default.
            let function = m.functions.iter().find(|f| f.insts().any(|r| r == at))?;
            let block = function.blocks.iter().position(|b| b.terminator() == Some(at))?;
            let cfg = coop_ir::cfg::Cfg::new(m, function);
            let values =
                || cfg.edges(block).iter().filter_map(|e| if let Case::Value(v) = e.case { Some(v) } else { None });
            let value = if taken { values().next()? } else { (0..).find(|v| values().all(|other| other != *v))? };
            globals.constant_of(&mut out, ty, scalar, value)
        }
        _ => return None,
    };
    let operands = m.inst(at).operands.iter().map(|o| if o.id() == Some(selector) { Operand::Id(value) } else { *o });
    out.inst_mut(at).operands = operands.collect();
    let fold = Options { passes: vec!["fold".to_owned()], ..Options::new(Target::Scalar) };
    let folded = coop_passes::lower(&out, &fold).ok()?.module;
    Some(pruned(&folded, kept))
}

/// Returns a module without some instructions of functions.
fn without(m: &Module, gone: &[InstRef]) -> Module {
    let set: FxHashSet<InstRef> = gone.iter().copied().collect();
    let mut out = m.clone();
    for f in &mut out.functions {
        for b in &mut f.blocks {
            b.insts.retain(|r| !set.contains(r));
        }
    }
    gone.iter().for_each(|r| out.forget(*r));
    out
}

/// Returns a module without some of its global instructions.
fn without_globals(m: &Module, gone: &[InstRef]) -> Module {
    let gone: FxHashSet<InstRef> = gone.iter().copied().collect();
    let mut out = m.clone();
    remove_globals(&mut out, |_, r| gone.contains(&r));
    out
}

/// Returns the global instructions for which `wanted` holds.
fn notes(m: &Module, wanted: fn(&Inst) -> bool) -> Vec<InstRef> {
    m.globals.iter().copied().filter(|r| wanted(m.inst(*r))).collect()
}

/// Returns true if an instruction says something without which every module is as valid.
fn is_optional(inst: &Inst) -> bool {
    let decoration = inst.decoration().map(|(_, d)| d).or_else(|| inst.member_decoration().map(|(_, _, d)| d));
    let is_hint = |d| {
        matches!(
            d,
            Decoration::RelaxedPrecision
                | Decoration::NoContraction
                | Decoration::NonWritable
                | Decoration::NonReadable
                | Decoration::Restrict
        )
    };
    let is_debug = inst.op.info().is_some_and(|info| info.class == Class::Debug) && inst.result.is_none();
    is_debug || decoration.is_some_and(is_hint)
}

/// Returns true if an instruction says something of an id or of the module, and nothing is made of it.
fn is_note(inst: &Inst) -> bool {
    let class = inst.op.info().map(|info| info.class);
    let is_said = matches!(class, Some(Class::Annotation | Class::Debug)) && inst.result.is_none();
    is_said || inst.execution_mode().is_some()
}

/// Returns a module in which constants that are equal are one.
fn with_equal_constants_once(m: &Module, kept: &FxHashSet<Id>) -> Module {
    let mut first: FxHashMap<(Op, Option<Id>, Vec<u32>), Id> = FxHashMap::default();
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let decorated: FxHashSet<Id> = m.globals.iter().filter_map(|r| m.inst(*r).decoration()).map(|(id, _)| id).collect();
    for inst in m.globals.iter().map(|r| m.inst(*r)) {
        let Some(id) = inst.result.filter(|id| inst.op.is_constant() && !decorated.contains(id)) else { continue };
        if inst.op.is_spec_constant() {
            continue;
        }
        let key = (inst.op, inst.ty, inst.operands.iter().map(|o| o.word()).collect());
        let kept = *first.entry(key).or_insert(id);
        if kept != id {
            map.insert(id, kept);
        }
    }
    let mut out = m.clone();
    replace_uses(&mut out, &map);
    pruned(&out, kept)
}

/// Returns the opcode of a constant that is none of specialization.
fn without_specialization(op: Op) -> Option<Op> {
    match op {
        Op::SpecConstant => Some(Op::Constant),
        Op::SpecConstantTrue => Some(Op::ConstantTrue),
        Op::SpecConstantFalse => Some(Op::ConstantFalse),
        Op::SpecConstantComposite => Some(Op::ConstantComposite),
        _ => None,
    }
}

/// Returns true if something in a module may need a capability or an extension that it declares, as far as the grammar tells. What
/// the grammar never asks for, prose may.
fn is_wanted(m: &Module, declaration: InstRef) -> bool {
    /// Capabilities that the specification asks for where the grammar does not, beside instructions for which it does.
    const ALSO_IN_PROSE: [Capability; 5] = [
        Capability::Addresses,
        Capability::Linkage,
        Capability::VariablePointers,
        Capability::VariablePointersStorageBuffer,
        Capability::Shader,
    ];
    let inst = m.inst(declaration);
    if let Some(capability) = inst.declared_capability() {
        let asked = Op::all().filter_map(Op::info).any(|info| info.capabilities.contains(&capability))
            || Kind::ALL
                .iter()
                .filter(|kind| **kind != Kind::Capability)
                .any(|kind| kind.enumerants().unwrap_or(&[]).iter().any(|row| row.capabilities.contains(&capability)));
        return !asked || ALSO_IN_PROSE.contains(&capability) || is_needed(m, capability);
    }
    let Some((name, _)) = inst.string(0) else { return true };
    let named = |extensions: &[&str]| extensions.contains(&name.as_str());
    let of_module = m.all().any(|r| {
        let i = m.inst(r);
        let mut found = i.op.info().is_some_and(|info| named(info.extensions));
        each_need(m, i, &mut |any| {
            found |= any.iter().filter_map(|c| Kind::Capability.enumerant(c.0)).any(|row| named(row.extensions));
        });
        found
            || i.declared_capability()
                .and_then(|c| Kind::Capability.enumerant(c.0))
                .is_some_and(|row| named(row.extensions))
    });
    let asked = Kind::Capability.enumerants().unwrap_or(&[]).iter().any(|row| named(row.extensions));
    !asked || of_module
}

/// Returns a module without functions that nothing calls, and without globals that nothing mentions, except for those in `kept`
/// and what they use.
fn pruned(m: &Module, kept: &FxHashSet<Id>) -> Module {
    let mut out = m.clone();
    loop {
        let gone: Vec<Id> = unused(&out).into_iter().filter(|id| !kept.contains(id)).collect();
        let before = size(&out);
        out = without_unused(&out, &gone);
        if size(&out) == before {
            return out;
        }
    }
}

/// Returns the functions that nothing calls and the globals that nothing mentions; names, decorations and the interface of an
/// entry point mention nothing. The last first.
fn unused(m: &Module) -> Vec<Id> {
    let mut used: FxHashSet<Id> = FxHashSet::default();
    for r in m.all() {
        let i = m.inst(r);
        match i.op {
            op if op.is_name() || op.is_literal_decoration() => {}
            Op::EntryPoint => used.extend(i.entry_function()),
            _ => used.extend(i.ty.into_iter().chain(i.ids())),
        }
    }
    let heads = m.globals.iter().copied().chain(m.functions.iter().map(|f| f.def));
    let results = heads.filter_map(|r| m.inst(r).result);
    let mut out: Vec<Id> = results.filter(|id| !used.contains(id) && !sizes_workgroup(m, *id)).collect();
    out.reverse();
    out
}

/// Returns a module without some of its [`unused`] functions and globals, and without what names, decorates and lists them.
fn without_unused(m: &Module, gone: &[Id]) -> Module {
    let gone: FxHashSet<Id> = gone.iter().copied().collect();
    let mut out = m.clone();
    let is_gone = |m: &Module, r: InstRef| m.inst(r).result.is_some_and(|id| gone.contains(&id));
    let (dead, live) = std::mem::take(&mut out.functions).into_iter().partition(|f| is_gone(m, f.def));
    out.functions = live;
    let dead: Vec<coop_ir::Function> = dead;
    dead.iter().flat_map(coop_ir::Function::insts).for_each(|r| out.forget(r));
    remove_globals(&mut out, is_gone);
    let known: FxHashSet<Id> = out.all().filter_map(|r| out.inst(r).result).collect();
    remove_globals(&mut out, |m, r| {
        let i = m.inst(r);
        (i.op.is_name() || i.op.is_literal_decoration()) && i.note_target().is_some_and(|id| !known.contains(&id))
    });
    let variables: FxHashSet<Id> = out.globals_with(Op::Variable).filter_map(|r| out.inst(r).result).collect();
    for r in out.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
        let main = out.inst(r).entry_function();
        let keep = |o: &Operand| o.id().is_none_or(|id| Some(id) == main || variables.contains(&id));
        let operands: Vec<Operand> = out.inst(r).operands.iter().copied().filter(keep).collect();
        out.inst_mut(r).operands = operands.into_iter().collect();
    }
    out
}

/// Returns true if an id is a constant that sizes workgroups: nothing uses it.
fn sizes_workgroup(m: &Module, id: Id) -> bool {
    m.def_inst(id).is_some_and(|d| d.op.is_constant())
        && m.globals_with(Op::Decorate).any(|r| m.inst(r).decoration() == Some((id, Decoration::BuiltIn)))
}
