//! Checks 5 and 13: the shape of a function, and that types, parameters, calls and returns agree.

use super::Verifier;
use super::globals::is_global_only;
use crate::grammar::Op;
use crate::module::{Block, Function, Id, Inst, InstRef};

impl Verifier<'_> {
    /// Checks the parts of a function.
    pub(super) fn function(&mut self, function: &Function) {
        let module = self.module;
        let def = module.inst(function.def);
        if def.op != Op::Function {
            self.problem(5, function.def, "it stands where OpFunction must");
        }
        for &r in &function.params {
            let inst = module.inst(r);
            if inst.op != Op::FunctionParameter && !self.is_aside(inst) {
                self.problem(5, r, "it stands among the parameters of a function");
            }
        }
        for block in &function.blocks {
            self.block_shape(block);
        }
        match function.tail.split_last() {
            Some((last, before)) => {
                if module.inst(*last).op != Op::FunctionEnd {
                    self.problem(5, *last, "it stands where OpFunctionEnd must");
                }
                for &r in before {
                    if !self.is_aside(module.inst(r)) {
                        self.problem(5, r, "it stands between the last block and OpFunctionEnd");
                    }
                }
            }
            None => self.problem(5, function.def, "it has no OpFunctionEnd"),
        }
        self.signature(function);
    }

    fn block_shape(&mut self, block: &Block) {
        let module = self.module;
        if module.inst(block.label).op != Op::Label {
            self.problem(5, block.label, "it stands where the label of a block must");
        }
        for &r in &block.lead {
            if !self.is_aside(module.inst(r)) {
                self.problem(5, r, "it stands between two blocks");
            }
        }
        for (i, &r) in block.insts.iter().enumerate() {
            let op = module.inst(r).op;
            if op.is_terminator() && i + 1 < block.insts.len() {
                self.problem(5, r, "it ends the block, and instructions follow");
            }
            if matches!(op, Op::Label | Op::Function | Op::FunctionParameter | Op::FunctionEnd) {
                self.problem(5, r, "it stands inside a block");
            }
            if is_global_only(op) {
                self.problem(11, r, "it must not be in a function");
            }
        }
    }

    /// The return and parameter types of a function.
    fn signature_of(&self, def: &Inst) -> Option<(Option<Id>, Vec<Id>)> {
        let ty = self.def(def.id(1)?)?;
        (ty.op == Op::TypeFunction).then(|| (ty.id(0), ty.ids_from(1).collect()))
    }

    /// Checks the type of a function, its calls and what it returns.
    pub(super) fn signature(&mut self, function: &Function) {
        let module = self.module;
        let def = module.inst(function.def);
        let Some((ret, params)) = self.signature_of(def) else {
            if let Some(ty) = def.id(1).filter(|t| self.def(*t).is_some_and(|i| i.op != Op::TypeFunction)) {
                self.problem(13, function.def, format_args!("its type {ty} is not a function type"));
            }
            return;
        };
        if let (Some(a), Some(b)) = (ret, def.ty)
            && a != b
        {
            self.problem(13, function.def, format_args!("its result type is {b}, and its function type says {a}"));
        }
        let own: Vec<InstRef> =
            function.params.iter().copied().filter(|r| module.inst(*r).op == Op::FunctionParameter).collect();
        if own.len() != params.len() {
            let (has, must) = (own.len(), params.len());
            self.problem(13, function.def, format_args!("it has {has} parameters, and its function type {must}"));
        }
        for (&r, expected) in own.iter().zip(params) {
            if let Some(ty) = module.inst(r).ty.filter(|t| *t != expected) {
                self.problem(13, r, format_args!("its type is {ty}, and the function type says {expected}"));
            }
        }
        for &r in function.blocks.iter().flat_map(|b| &b.insts) {
            let inst = module.inst(r);
            match inst.op {
                Op::FunctionCall => self.call(r, inst),
                Op::Return if ret.is_some_and(|t| self.def(t).is_some_and(|i| i.op != Op::TypeVoid)) => {
                    self.problem(13, r, "its function returns a value");
                }
                Op::ReturnValue => {
                    let got = inst.id(0).and_then(|v| self.def(v)).and_then(|v| v.ty);
                    if let (Some(got), Some(ret)) = (got, ret.filter(|t| Some(*t) != got)) {
                        self.problem(13, r, format_args!("the value has type {got}, and its function returns {ret}"));
                    }
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, r: InstRef, inst: &Inst) {
        let Some(callee) = inst.id(0) else { return };
        let Some(def) = self.def(callee) else { return };
        if def.op != Op::Function {
            self.problem(13, r, format_args!("{callee} is not a function"));
            return;
        }
        let Some((ret, params)) = self.signature_of(def) else { return };
        if let (Some(got), Some(ret)) = (inst.ty, ret.filter(|t| Some(*t) != inst.ty)) {
            self.problem(13, r, format_args!("its result type is {got}, and {callee} returns {ret}"));
        }
        let args: Vec<Id> = inst.ids_from(1).collect();
        if args.len() != params.len() {
            let (has, must) = (args.len(), params.len());
            self.problem(13, r, format_args!("it has {has} arguments, and {callee} takes {must}"));
        }
        for (arg, expected) in args.into_iter().zip(params) {
            if let Some(ty) = self.def(arg).and_then(|a| a.ty).filter(|t| *t != expected) {
                self.problem(13, r, format_args!("the argument {arg} has type {ty}, and {callee} takes {expected}"));
            }
        }
    }
}
