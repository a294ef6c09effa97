//! Checks 11, 12, 14, 15 and 17: instructions outside functions.

use super::{NOWHERE, Problem, Verifier};
use crate::grammar::Op;
use crate::hash::FxHashSet;
use crate::module::{Id, Inst, InstRef};
use crate::section::{Section, is_alias_scope};
use crate::spv::StorageClass;

/// Returns true if an opcode may only stand outside functions.
pub(super) fn is_global_only(op: Op) -> bool {
    // Nearly all instructions of functions; names and tables take longer.
    if is_body(op) {
        return false;
    }
    let both =
        matches!(op, Op::Variable | Op::UntypedVariableKHR | Op::Undef | Op::ExtInst | Op::ExtInstWithForwardRefsKHR);
    Section::of(op).is_some() && !both
}

/// Returns true if an opcode is one of the core from loads to returns, none of which may stand outside functions.
fn is_body(op: Op) -> bool {
    matches!(op.0, 61..=70 | 77..=255)
}

impl Verifier<'_> {
    /// Checks everything that is listed outside functions.
    pub(super) fn globals(&mut self) {
        let mut last = Section::Capability;
        // Words, since an unknown execution model makes the instruction opaque.
        let function = |i: &Inst| match i.op {
            Op::EntryPoint => Id::new(i.operands.get(1)?.word()),
            Op::ConditionalEntryPointINTEL => Id::new(i.operands.get(2)?.word()),
            _ => None,
        };
        self.entries = self.module.globals.iter().filter_map(|r| function(self.module.inst(*r))).collect();
        for &r in &self.module.globals {
            let inst = self.module.inst(r);
            if !inst.op.is_line() && !is_alias_scope(inst.op) && inst.op.info().is_some() {
                match Section::of(inst.op) {
                    Some(Section::Graph) => self.problem(11, r, "it must be in a graph"),
                    Some(section) if section < last => {
                        self.problem(11, r, format_args!("it must come before {}", last.name()));
                    }
                    Some(section) => last = section,
                    None => self.problem(11, r, "it must be in a function"),
                }
            }
            self.global(r, inst);
        }
        for &r in self.module.functions.iter().flat_map(|f| &f.lead) {
            if !self.is_aside(self.module.inst(r)) {
                self.problem(11, r, "it must not stand after a function");
            }
        }
        self.graphs();
        for r in self.module.all() {
            if let Some(ty) = self.module.inst(r).ty {
                self.must_be_type(r, ty, "result type");
            }
        }
    }

    /// Checks what stands after the functions: graphs, which consist of inputs, instructions and outputs.
    fn graphs(&mut self) {
        let mut inside = false;
        for &r in &self.module.trailing {
            let inst = self.module.inst(r);
            match inst.op {
                Op::GraphARM => inside = true,
                Op::GraphEndARM => inside = false,
                Op::GraphEntryPointARM => {}
                Op::GraphInputARM | Op::GraphSetOutputARM if !inside => self.problem(11, r, "it must be in a graph"),
                Op::GraphInputARM | Op::GraphSetOutputARM => {}
                Op::ExtInst | Op::CompositeExtract if inside => {}
                _ if self.is_aside(inst) => {}
                _ if inside => self.problem(11, r, "it must not be in a graph"),
                _ => self.problem(11, r, "it must not stand after a function"),
            }
        }
    }

    /// Checks that there is one memory model.
    pub(super) fn memory_models(&mut self) {
        let mut models = self.module.globals_with(Op::MemoryModel);
        if models.next().is_none() {
            let message = "there is no OpMemoryModel, which every module has".to_owned();
            self.problems.push(Problem { inst: None, check: 17, message });
        }
        for second in models.collect::<Vec<_>>() {
            self.problem(17, second, "a module has one memory model");
        }
    }

    fn global(&mut self, r: InstRef, inst: &Inst) {
        match inst.op {
            Op::TypeInt if inst.word(1).is_some_and(|signedness| signedness > 1) => {
                self.problem(12, r, "its signedness is neither 0 nor 1");
            }
            Op::TypePointer => inst.ids_from(1).for_each(|t| self.must_be_type(r, t, "pointee")),
            Op::TypeStruct => inst.ids().for_each(|t| self.must_be_type(r, t, "member")),
            Op::TypeFunction => inst.ids().for_each(|t| self.must_be_type(r, t, "return or parameter type")),
            Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeVector
            | Op::TypeMatrix
            | Op::TypeCooperativeMatrixKHR
            | Op::TypeCooperativeMatrixNV => {
                let element = inst.id(0);
                element.into_iter().for_each(|t| self.must_be_type(r, t, "element"));
                let column = element.filter(|_| inst.op == Op::TypeMatrix).and_then(|t| self.def(t));
                if column.is_some_and(|c| c.op.is_type() && c.op != Op::TypeVector) {
                    self.problem(12, r, "its columns are not vectors");
                }
            }
            Op::TypeForwardPointer => {
                for id in inst.ids() {
                    let pointer = |i: &Inst| matches!(i.op, Op::TypePointer | Op::TypeUntypedPointerKHR);
                    if self.def(id).is_some_and(|i| !pointer(i)) {
                        self.problem(14, r, format_args!("{id} is not a pointer type"));
                    }
                }
            }
            Op::Variable if inst.word(0) == Some(StorageClass::Function.0) => {
                self.problem(11, r, "a variable of storage class Function must be in a function");
            }
            Op::EntryPoint => self.entry_point(r, inst),
            Op::ExecutionMode | Op::ExecutionModeId => {
                if let Some(id) = inst.id(0).filter(|id| !self.entries.contains(id)) {
                    self.problem(15, r, format_args!("{id} is not the function of an entry point"));
                }
            }
            _ => {}
        }
    }

    fn must_be_type(&mut self, r: InstRef, id: Id, role: &str) {
        if self.def(id).is_some_and(|i| !i.op.is_type()) {
            self.problem(12, r, format_args!("its {role} {id} is not a type"));
        }
    }

    fn entry_point(&mut self, r: InstRef, inst: &Inst) {
        if let Some(function) = inst.id(1)
            && self.def(function).map_or(self.maybe.get(&function) == Some(&NOWHERE), |i| i.op != Op::Function)
        {
            self.problem(15, r, format_args!("{function} is not a function"));
        }
        let Some((_, first)) = inst.string(2) else { return };
        let mut seen = FxHashSet::default();
        for id in inst.ids_from(first) {
            let once = seen.insert(id) || self.module.header.version < 0x0001_0400;
            if !once {
                self.problem(15, r, format_args!("its interface has {id} twice"));
            }
            let variable = |i: &Inst| matches!(i.op, Op::Variable | Op::UntypedVariableKHR);
            let global = self.places.get(id).is_none_or(|p| p.function().is_none());
            if !global || self.def(id).is_some_and(|i| !variable(i)) {
                self.problem(15, r, format_args!("{id} in its interface is not a global variable"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_body;
    use crate::grammar::OPS;
    use crate::section::Section;

    #[test]
    fn bodies_have_no_section() {
        for op in OPS.iter().map(|o| o.op).filter(|op| is_body(*op)) {
            assert!(Section::of(op).is_none(), "{op}");
        }
    }
}
