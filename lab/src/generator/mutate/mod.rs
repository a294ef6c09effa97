//! Breaks one rule of coopcheck's catalogue in a valid module, and says which.
//!
//! A [`Mutator`] is a rule's id and a function that breaks it. A function answers `None` where the module has
//! nothing to break. Most add a copy of an instruction, or a new one, with one thing wrong about it, so that everything
//! else about the module stays valid; the operand that is wrong is an `OpUndef` of the wrong type.

mod access;
mod callbacks;
mod matrices;
mod modules;
mod tensors;
mod vendor;

use super::entropy::Entropy;
use coop_ir::builder::{Globals, add_global};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::grammar::Op;
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{CoopMat, Scalar, Type, coop_mat, coop_mat_of};
use coop_ir::{Block, Function, Id, Inst, InstList, InstRef, Module, Operand};

/// A way to break a rule.
pub struct Mutator {
    /// The rule.
    pub rule: &'static str,
    apply: fn(&mut Mutant<'_>) -> Option<()>,
}

type Rows = &'static [(&'static str, fn(&mut Mutant<'_>) -> Option<()>)];

/// Every way there is, by rule.
pub fn mutators() -> Vec<Mutator> {
    let all: [Rows; 6] = [access::ROWS, callbacks::ROWS, matrices::ROWS, modules::ROWS, tensors::ROWS, vendor::ROWS];
    let mut out: Vec<Mutator> =
        all.iter().flat_map(|rows| rows.iter()).map(|(rule, apply)| Mutator { rule, apply: *apply }).collect();
    out.sort_by_key(|m| m.rule);
    out
}

impl Mutator {
    /// The module with the rule broken somewhere; `entropy` says where. `None` if there is no such place.
    pub fn apply(&self, module: &Module, entropy: &[u8]) -> Option<Module> {
        let m = module.clone();
        let g = Globals::new(&m);
        let constants = Constants::new(&m, &Specialization::new());
        let mut mutant = Mutant { m, g, e: Entropy::new(entropy), constants };
        (self.apply)(&mut mutant)?;
        sort_globals(&mut mutant.m);
        Some(mutant.m)
    }
}

/// A module that is being broken.
struct Mutant<'a> {
    m: Module,
    g: Globals,
    e: Entropy<'a>,
    constants: Constants,
}

/// A type of matrix, of either extension.
#[derive(Clone)]
struct AnyMatrix {
    id: Id,
    /// Component type, scope, rows and columns, and with SPV_KHR_cooperative_matrix the use.
    ids: Vec<Id>,
}

/// Another type of matrix.
#[derive(Clone, Copy)]
enum Edit {
    Component(Scalar),
    Scope(u32),
    /// Adds rows.
    Rows(u32),
    Columns(u32),
    Use(u32),
}

const U32: Scalar = Scalar::Int { width: 32, signed: false };
const S32: Scalar = Scalar::Int { width: 32, signed: true };
const U64: Scalar = Scalar::Int { width: 64, signed: false };
const F32: Scalar = Scalar::Float { width: 32 };

impl Mutant<'_> {
    /// One of the instructions for which a test holds.
    fn find(&mut self, test: impl Fn(&Module, &Inst) -> bool) -> Option<InstRef> {
        let all: Vec<InstRef> = self.m.all().filter(|r| test(&self.m, self.m.inst(*r))).collect();
        if all.is_empty() { None } else { Some(self.e.pick(&all)) }
    }

    /// One of the instructions with an opcode.
    fn op(&mut self, op: Op) -> Option<InstRef> {
        self.find(|_, i| i.op == op)
    }

    fn ops(&mut self, ops: &[Op]) -> Option<InstRef> {
        self.find(|_, i| ops.contains(&i.op))
    }

    fn inst(&self, r: InstRef) -> Inst {
        self.m.inst(r).clone()
    }

    fn set(&mut self, r: InstRef, index: usize, operand: impl Into<Operand>) -> Option<()> {
        let slot = self.m.inst_mut(r).operands.get_mut(index)?;
        *slot = operand.into();
        Some(())
    }

    /// Inserts an instruction behind another one of a block.
    fn insert(&mut self, at: InstRef, inst: Inst, behind: bool) -> Option<InstRef> {
        let (f, b, i) = self.m.functions.iter().enumerate().find_map(|(f, function)| {
            let place = |b: &Block| b.insts.iter().position(|r| *r == at);
            function.blocks.iter().enumerate().find_map(|(b, block)| Some((f, b, place(block)?)))
        })?;
        let r = self.m.add(inst);
        self.m.functions[f].blocks[b].insts.insert(i + usize::from(behind), r);
        Some(r)
    }

    /// A new instruction with a result, in front of another one.
    fn before(&mut self, at: InstRef, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Option<Id> {
        let id = self.m.fresh_id();
        self.insert(at, Inst::new(op, Some(ty), Some(id), operands), false)?;
        Some(id)
    }

    /// A new instruction with a result, behind another one.
    fn after(&mut self, at: InstRef, op: Op, ty: Id, ids: &[Id]) -> Option<Id> {
        let id = self.m.fresh_id();
        let operands = ids.iter().copied().map(Operand::Id);
        self.insert(at, Inst::new(op, Some(ty), Some(id), operands), true)?;
        Some(id)
    }

    /// A copy of an instruction in front of it, to be broken.
    fn copy(&mut self, at: InstRef) -> Option<InstRef> {
        let mut inst = self.inst(at);
        inst.result = inst.result.map(|_| self.m.fresh_id());
        self.insert(at, inst, false)
    }

    /// A copy of some instruction with an opcode.
    fn copy_of(&mut self, op: Op) -> Option<InstRef> {
        let at = self.op(op)?;
        self.copy(at)
    }

    /// A value of a type, in front of an instruction.
    fn undef(&mut self, before: InstRef, ty: Id) -> Option<Id> {
        self.before(before, Op::Undef, ty, [])
    }

    /// Emits a value that is not a constant, equal to `id`.
    fn computed(&mut self, before: InstRef, id: Id) -> Option<Id> {
        let ty = self.m.type_of(id)?;
        self.before(before, Op::CopyObject, ty, [id.into()])
    }

    fn u32(&mut self, value: u32) -> Id {
        self.g.u32(&mut self.m, value)
    }

    fn constant(&mut self, scalar: Scalar, bits: u64) -> Id {
        self.g.constant(&mut self.m, scalar, bits)
    }

    /// A constant of a float type.
    fn float(&mut self) -> Id {
        self.constant(F32, u64::from(1f32.to_bits()))
    }

    fn scalar(&mut self, scalar: Scalar) -> Id {
        self.g.scalar(&mut self.m, scalar)
    }

    fn global(&mut self, inst: Inst) {
        let r = self.m.add(inst);
        self.m.globals.push(r);
    }

    fn annotation(&mut self, inst: Inst) {
        add_global(&mut self.m, inst);
    }

    fn capability(&mut self, capability: Capability) {
        coop_ir::builder::require_capability(&mut self.m, capability);
    }

    fn value(&self, id: Id) -> Option<u32> {
        self.constants.get(id).value().map(|v| v as u32)
    }

    /// The matrix type of a value.
    fn mat(&self, value: Id) -> Option<CoopMat> {
        coop_mat_of(&self.m, value)
    }

    fn component(&self, mat: CoopMat) -> Option<Scalar> {
        coop_ir::types::scalar(&self.m, mat.component)
    }

    /// Finds an instruction whose result is a matrix that satisfies a test, with its type, and that instructions can
    /// follow.
    fn matrix(&mut self, test: impl Fn(&Self, CoopMat) -> bool) -> Option<(InstRef, Id, CoopMat)> {
        let all: Vec<(InstRef, Id, CoopMat)> = self
            .m
            .functions
            .iter()
            .flat_map(|f| f.blocks.iter())
            .flat_map(|b| b.insts.iter().copied())
            .filter(|r| !matches!(self.m.inst(*r).op, Op::Phi | Op::Variable))
            .filter_map(|r| {
                let i = self.m.inst(r);
                let ty = coop_mat(&self.m, i.ty?)?;
                test(self, ty).then_some((r, i.result?, ty))
            })
            .collect();
        if all.is_empty() { None } else { Some(self.e.pick(&all)) }
    }

    /// Finds an instruction whose result is a matrix of either extension with components that satisfy a test, with its
    /// type, and that instructions can follow.
    fn any_matrix(&mut self, test: impl Fn(Scalar) -> bool) -> Option<(InstRef, Id, AnyMatrix)> {
        let blocks = self.m.functions.iter().flat_map(|f| f.blocks.iter()).flat_map(|b| b.insts.iter().copied());
        let all: Vec<(InstRef, Id, AnyMatrix)> = blocks
            .filter(|r| !matches!(self.m.inst(*r).op, Op::Phi | Op::Variable))
            .filter_map(|r| {
                let i = self.m.inst(r);
                let ty = self.any_type(i.ty?)?;
                test(self.scalar_of(&ty)?).then_some((r, i.result?, ty))
            })
            .collect();
        let at = self.e.below(u32::try_from(all.len()).ok()?);
        all.into_iter().nth(at as usize)
    }

    /// The matrix type `ty` of either extension.
    fn any_type(&self, ty: Id) -> Option<AnyMatrix> {
        let inst = self.m.def_inst(ty)?;
        let matrix = matches!(inst.op, Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV);
        matrix.then(|| AnyMatrix { id: ty, ids: inst.ids().collect() })
    }

    /// The component type of a matrix type.
    fn scalar_of(&self, ty: &AnyMatrix) -> Option<Scalar> {
        coop_ir::types::scalar(&self.m, *ty.ids.first()?)
    }

    /// A matrix type that differs from another one.
    fn altered(&mut self, ty: CoopMat, edits: &[Edit]) -> Option<Id> {
        self.other_type(&[ty.component, ty.scope, ty.rows, ty.cols, ty.use_], edits)
    }

    /// A matrix type that differs from the one with these operands.
    fn other_type(&mut self, ids: &[Id], edits: &[Edit]) -> Option<Id> {
        let mut ids = ids.to_vec();
        for edit in edits {
            let (at, new) = match *edit {
                Edit::Component(s) => (0, self.scalar(s)),
                Edit::Scope(s) => (1, self.u32(s)),
                Edit::Rows(n) => (2, self.value(ids[2]).map(|v| self.u32(v + n))?),
                Edit::Columns(n) => (3, self.value(ids[3]).map(|v| self.u32(v + n))?),
                Edit::Use(u) => (4, self.u32(u)),
            };
            *ids.get_mut(at)? = new;
        }
        Some(self.matrix_type(&ids))
    }

    /// A new operation behind an instruction, or where it may be one at times that of an `OpSpecConstantOp`, with null
    /// constants for operands that are none.
    fn operation(&mut self, at: InstRef, op: Op, ty: Id, ids: &[Id]) -> Option<InstRef> {
        let specializable = op.is_specializable(|c| self.m.has_capability(c));
        if !specializable || !self.e.chance(64) {
            let id = self.m.fresh_id();
            return self.insert(at, Inst::new(op, Some(ty), Some(id), ids.iter().copied().map(Operand::Id)), true);
        }
        let mut operands = vec![Operand::Word(u32::from(op.0))];
        for &id in ids {
            let def = self.m.def_inst(id)?;
            let constant = def.op.is_constant() || def.op.is_type();
            operands.push(if constant { id } else { self.null_like(id)? }.into());
        }
        let id = self.m.fresh_id();
        let r = self.m.add(Inst::new(Op::SpecConstantOp, Some(ty), Some(id), operands));
        self.m.globals.push(r);
        Some(r)
    }

    /// The null constant of a value's type.
    fn null_like(&mut self, value: Id) -> Option<Id> {
        let ty = self.m.type_of(value)?;
        Some(self.g.null(&mut self.m, ty))
    }

    /// Sets an operand of an operation.
    fn set_operand(&mut self, r: InstRef, index: usize, operand: impl Into<Operand>) -> Option<()> {
        let before = usize::from(self.m.inst(r).op == Op::SpecConstantOp);
        self.set(r, before + index, operand)
    }

    /// The matrix type with these operands.
    fn matrix_type(&mut self, ids: &[Id]) -> Id {
        let operands: Vec<Operand> = ids.iter().copied().map(Operand::Id).collect();
        let op = if ids.len() == 4 { Op::TypeCooperativeMatrixNV } else { Op::TypeCooperativeMatrixKHR };
        self.type_with(op, operands)
    }

    /// A type, found or made.
    fn type_with(&mut self, op: Op, operands: Vec<Operand>) -> Id {
        let known = self.m.globals_with(op).find(|r| self.m.inst(*r).operands.as_slice() == operands.as_slice());
        if let Some(id) = known.and_then(|r| self.m.inst(r).result) {
            return id;
        }
        let id = self.m.fresh_id();
        self.global(Inst::new(op, None, Some(id), operands));
        id
    }

    fn array(&mut self, elem: Id, len: u32) -> Id {
        let len = self.u32(len);
        self.type_with(Op::TypeArray, vec![elem.into(), len.into()])
    }

    /// A new variable of the module, in the interface of the entry point.
    fn variable(&mut self, storage: StorageClass, ty: Id) -> Id {
        let pointer = self.g.pointer(&mut self.m, storage, ty);
        let id = self.m.fresh_id();
        self.global(Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
        let entry = self.m.globals_with(Op::EntryPoint).next();
        if let Some(entry) = entry {
            self.m.inst_mut(entry).operands.push(id.into());
        }
        id
    }

    /// A function that returns a parameter, or an undefined value of its type.
    fn function(&mut self, ret: Id, params: &[Id]) -> Id {
        let ty = self.g.function(&mut self.m, ret, params);
        let id = self.m.fresh_id();
        let def = self.m.add(Inst::new(Op::Function, Some(ret), Some(id), [Operand::Word(0), ty.into()]));
        let mut value = None;
        let mut list = Vec::new();
        for p in params {
            let param = self.m.fresh_id();
            if *p == ret {
                value = Some(param);
            }
            let physical = matches!(
                Type::of(&self.m, *p),
                Some(Type::Pointer { storage: StorageClass::PhysicalStorageBuffer, .. })
            );
            if physical {
                self.annotation(Inst::new(Op::Decorate, None, None, [Operand::Id(param), Decoration::Aliased.into()]));
            }
            list.push(self.m.add(Inst::new(Op::FunctionParameter, Some(*p), Some(param), [])));
        }
        let label = self.m.fresh_id();
        let label = self.m.add(Inst::new(Op::Label, None, Some(label), []));
        let mut insts = InstList::new();
        let value = value.unwrap_or_else(|| {
            let undef = self.m.fresh_id();
            insts.push(self.m.add(Inst::new(Op::Undef, Some(ret), Some(undef), [])));
            undef
        });
        insts.push(self.m.add(Inst::new(Op::ReturnValue, None, None, [value.into()])));
        let blocks = vec![Block { lead: Vec::new(), label, insts }];
        let tail = vec![self.m.add(Inst::new(Op::FunctionEnd, None, None, []))];
        self.m.functions.push(Function { lead: Vec::new(), def, params: list, blocks, tail });
        id
    }

    /// Return and parameter types of a function.
    fn signature(&self, function: Id) -> Option<(Id, Vec<Id>)> {
        match Type::of(&self.m, self.m.def_inst(function)?.id(1)?)? {
            Type::Function { ret, params } => Some((ret, params)),
            _ => None,
        }
    }

    /// Removes a global instruction.
    fn remove(&mut self, r: InstRef) {
        self.m.globals.retain(|g| *g != r);
        self.m.forget(r);
    }

    /// Removes one of these capabilities.
    fn drop_capability(&mut self, some: &[Capability]) -> Option<()> {
        let r = self.find(|_, i| i.op == Op::Capability && i.enumerant(0).is_some_and(|c| some.contains(&c)))?;
        self.remove(r);
        Some(())
    }
}
