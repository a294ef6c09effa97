//! A function under construction.

use super::emit::{Gen, Mat};
use super::range::Range;
use coop_ir::builder::name;
use coop_ir::grammar::Op;
use coop_ir::spv::{BuiltIn, Capability, GroupOperation, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Block, Function, Id, Inst, InstList, InstRef, Operand};

/// A matrix at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) id: Id,
    pub(super) mat: Mat,
    pub(super) range: Range,
    /// True if it was stored, or went into something else.
    pub(super) used: bool,
}

/// A variable that holds matrices, each within `range` at any time.
#[derive(Clone, Debug)]
pub(super) struct Var {
    pub(super) id: Id,
    pub(super) storage: StorageClass,
    pub(super) mat: Mat,
    pub(super) range: Range,
    pub(super) path: Path,
}

/// The path to a matrix in a variable.
#[derive(Clone, Debug)]
pub(super) enum Path {
    /// The variable is the matrix.
    Whole,
    /// Arrays of these lengths.
    Arrays(Vec<u32>),
    /// This member of a structure.
    Member(u32),
}

/// A function whose blocks are being made.
pub(super) struct Fun {
    id: Id,
    def: InstRef,
    params: Vec<InstRef>,
    blocks: Vec<Block>,
    current: Block,
    pub(super) label: Id,
    variables: Vec<InstRef>,
    /// Goes to the start of the entry block.
    inits: Vec<InstRef>,
    pub(super) values: Vec<Value>,
    pub(super) vars: Vec<Var>,
    /// The number of this execution, by subgroup and by workgroup: below `count`.
    pub(super) exec: [Id; 2],
    pub(super) count: [u32; 2],
    /// The matrix that it returns, with its range.
    pub(super) ret: Option<(Mat, Range)>,
    /// True if subgroups of a workgroup may be in different places.
    pub(super) apart: bool,
    /// Rounds of the loops around, as values below a count.
    pub(super) counters: Vec<(Id, u32)>,
    pub(super) depth: u32,
}

impl Gen<'_> {
    pub(super) fn fun(&mut self) -> &mut Fun {
        self.funs.last_mut().unwrap_or_else(|| unreachable!("statements are made inside of a function"))
    }

    /// Begins a function; answers with its parameters.
    pub(super) fn begin(&mut self, ret: Id, params: &[Id], label: &str) -> (Id, Vec<Id>) {
        let ty = self.g.function(&mut self.m, ret, params);
        let id = self.m.fresh_id();
        name(&mut self.m, id, label);
        let def = self.m.add(Inst::new(Op::Function, Some(ret), Some(id), [Operand::Word(0), ty.into()]));
        let ids: Vec<Id> = params.iter().map(|_| self.m.fresh_id()).collect();
        let params = params
            .iter()
            .zip(&ids)
            .map(|(ty, id)| self.m.add(Inst::new(Op::FunctionParameter, Some(*ty), Some(*id), [])))
            .collect();
        let first = self.m.fresh_id();
        let current = self.block(first);
        self.funs.push(Fun {
            id,
            def,
            params,
            blocks: Vec::new(),
            current,
            label: first,
            variables: Vec::new(),
            inits: Vec::new(),
            values: Vec::new(),
            vars: Vec::new(),
            exec: [first; 2],
            count: [1; 2],
            ret: None,
            apart: false,
            counters: Vec::new(),
            depth: 0,
        });
        (id, ids)
    }

    fn block(&mut self, label: Id) -> Block {
        let label = self.m.add(Inst::new(Op::Label, None, Some(label), []));
        Block { lead: Vec::new(), label, insts: InstList::new() }
    }

    /// Ends the function, whose last block has its terminator.
    pub(super) fn end(&mut self) {
        let Some(mut fun) = self.funs.pop() else { return };
        fun.blocks.push(fun.current);
        if let Some(entry) = fun.blocks.first_mut() {
            entry.insts.insert_many(0, fun.variables.into_iter().chain(fun.inits));
        }
        let tail = vec![self.m.add(Inst::new(Op::FunctionEnd, None, None, []))];
        self.m.functions.push(Function {
            lead: Vec::new(),
            def: fun.def,
            params: fun.params,
            blocks: fun.blocks,
            tail,
        });
        debug_assert!(self.m.def(fun.id).is_some());
    }

    /// Begins a block.
    pub(super) fn start(&mut self, label: Id) {
        let next = self.block(label);
        let fun = self.fun();
        let done = std::mem::replace(&mut fun.current, next);
        fun.blocks.push(done);
        fun.label = label;
    }

    fn push_inst(&mut self, inst: Inst) -> InstRef {
        let r = self.m.add(inst);
        self.fun().current.insts.push(r);
        r
    }

    /// An instruction with a result.
    pub(super) fn op(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let inst = Inst::new(op, Some(ty), None, operands);
        if let (Op::Bitcast, Some(id)) = (op, inst.id(0).filter(|id| self.type_at_hand(*id) == Some(ty))) {
            // Only the sign was another.
            return id;
        }
        let id = self.m.fresh_id();
        self.push_inst(Inst { result: Some(id), ..inst });
        id
    }

    /// The type of a value; a kernel's arguments are not in the module yet.
    fn type_at_hand(&self, id: Id) -> Option<Id> {
        self.m.type_of(id).or_else(|| self.arguments.iter().find(|a| a.id == id).map(|a| a.ty))
    }

    /// An instruction whose operands are ids.
    pub(super) fn ids(&mut self, op: Op, ty: Id, operands: &[Id]) -> Id {
        self.op(op, ty, operands.iter().copied().map(Operand::Id))
    }

    /// An instruction with a result that was announced; its operands may be changed later.
    pub(super) fn op_as(&mut self, id: Id, op: Op, ty: Id, operands: &[Id]) -> InstRef {
        let operands = operands.iter().copied().map(Operand::Id);
        self.push_inst(Inst::new(op, Some(ty), Some(id), operands))
    }

    /// An instruction without a result.
    pub(super) fn effect(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        self.push_inst(Inst::new(op, None, None, operands));
    }

    pub(super) fn branch(&mut self, to: Id) {
        self.effect(Op::Branch, [to.into()]);
    }

    /// A variable of the function, holding `init` from the start.
    pub(super) fn local(&mut self, ty: Id, init: Option<Id>) -> Id {
        let storage = StorageClass::Function;
        let pointer = self.g.pointer(&mut self.m, storage, ty);
        let id = self.m.fresh_id();
        let by_operand = init.is_some() && self.e.chance(64);
        let initializer = init.filter(|_| by_operand);
        let operands = [storage.into()].into_iter().chain(initializer.map(Operand::Id));
        let r = self.m.add(Inst::new(Op::Variable, Some(pointer), Some(id), operands));
        self.fun().variables.push(r);
        if let (Some(init), false) = (init, by_operand) {
            let r = self.m.add(Inst::new(Op::Store, None, None, [id, init].map(Operand::Id)));
            self.fun().inits.push(r);
        }
        id
    }

    pub(super) fn uint(&mut self) -> Id {
        self.g.uint(&mut self.m, 32)
    }

    /// An operation on 32-bit unsigned numbers.
    pub(super) fn u32_op(&mut self, op: Op, a: Id, b: Id) -> Id {
        let uint = self.uint();
        self.ids(op, uint, &[a, b])
    }

    pub(super) fn compare(&mut self, op: Op, a: Id, b: Id) -> Id {
        let bool_type = self.g.bool(&mut self.m);
        self.ids(op, bool_type, &[a, b])
    }

    /// One component of a built-in variable.
    pub(super) fn builtin_value(&mut self, builtin: BuiltIn, component: Option<u32>) -> Id {
        let uint = self.uint();
        if let Some(component) = component.filter(|_| self.kernel()) {
            return self.kernel_builtin(builtin, component);
        }
        let Some(component) = component else {
            let variable = self.builtin(builtin, uint);
            return self.ids(Op::Load, uint, &[variable]);
        };
        let uvec3 = self.g.vector(&mut self.m, uint, 3);
        let variable = self.builtin(builtin, uvec3);
        if self.e.chance(128) {
            let all = self.ids(Op::Load, uvec3, &[variable]);
            return self.op(Op::CompositeExtract, uint, [all.into(), component.into()]);
        }
        let pointer = self.g.pointer(&mut self.m, StorageClass::Input, uint);
        let component = self.u32(component);
        let pointer = self.ids(Op::AccessChain, pointer, &[variable, component]);
        self.ids(Op::Load, uint, &[pointer])
    }

    /// A value that is `value` in every invocation, in one of many ways.
    pub(super) fn uniform(&mut self, value: u32) -> Id {
        let uint = self.uint();
        if self.counts && self.side.chance(30) {
            return self.counted(value);
        }
        match self.e.below(10) {
            0..=3 => self.constant_u32(value),
            4 | 5 if self.kernel() => {
                let text = format!("type = \"u32\", values = [{value}]");
                self.note("argument");
                self.argument(uint, text).unwrap_or_else(|| self.u32(value))
            }
            4 | 5 => {
                let Some((variable, member)) = self.push_constant(uint, 4, format!("values = [{value}]")) else {
                    return self.u32(value);
                };
                self.note("push constant");
                let pointer = self.g.pointer(&mut self.m, StorageClass::PushConstant, uint);
                let member = self.u32(member);
                let pointer = self.ids(Op::AccessChain, pointer, &[variable, member]);
                self.ids(Op::Load, uint, &[pointer])
            }
            6 => {
                self.note("uniform from a buffer");
                self.table_entry(value)
            }
            7 => {
                let part = self.e.below(value.saturating_add(1));
                let a = self.uniform(value - part);
                let b = self.constant_u32(part);
                self.u32_op(Op::IAdd, a, b)
            }
            8 => {
                let a = self.uniform(value);
                let zero = self.u32(0);
                let same = self.compare(Op::IEqual, a, zero);
                self.ids(Op::Select, uint, &[same, zero, a])
            }
            _ => {
                let more = self.e.below(100);
                let a = self.uniform(value.wrapping_add(more));
                let b = self.constant_u32(more);
                self.u32_op(Op::ISub, a, b)
            }
        }
    }

    /// A value that is `value`, from the number of invocations of a subgroup.
    fn counted(&mut self, value: u32) -> Id {
        self.note("OpGroupIAdd");
        self.capability(Capability::Groups);
        let (uint, scope, one) = (self.uint(), self.u32(3), self.u32(1));
        let lanes = self.op(Op::GroupIAdd, uint, [scope.into(), GroupOperation::Reduce.into(), one.into()]);
        let rest = self.u32(value.wrapping_sub(self.profile.lanes()));
        self.u32_op(Op::IAdd, lanes, rest)
    }

    /// A number as a stride of some integer type.
    pub(super) fn as_stride(&mut self, id: Id) -> Id {
        if !matches!(self.profile.limits, super::Limits::Lavapipe | super::Limits::Tiles) {
            return self.as_index(id);
        }
        // Lavapipe ends in its compiler when it meets strides of 64 bits (docs/drivers.md).
        let ty = self.scalar(Scalar::Int { width: 32, signed: true });
        self.ids(Op::Bitcast, ty, &[id])
    }

    /// A number as a value of an integer type, from one of 32 unsigned bits.
    pub(super) fn as_index(&mut self, id: Id) -> Id {
        let int = |width, signed| Scalar::Int { width, signed };
        let (scalar, op) = match self.e.below(8) {
            0..=3 => return id,
            4 | 5 => (int(32, true), Op::Bitcast),
            6 => (int(64, false), Op::UConvert),
            _ => (int(64, true), Op::SConvert),
        };
        self.note(if scalar.width() == 64 { "64-bit index" } else { "signed index" });
        self.scalar_capabilities(scalar);
        let ty = self.scalar(scalar);
        self.ids(op, ty, &[id])
    }
}
