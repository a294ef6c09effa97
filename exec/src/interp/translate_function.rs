//! Translates functions: blocks, branches, memory, calls, subgroup instructions.

use coop_ir::hash::FxHashMap;
use coop_ir::spv::{MemoryAccess, MemorySemantics, OpenClStd, Scope, StorageClass};
use coop_ir::views::MemoryOperands;

use coop_ir::cfg::{Case, Cfg, NodeKind, Order};
use coop_ir::grammar::{ExecutionScope, GroupOp};
use coop_ir::{Function, Id, Inst, InstRef, Module, Op};

use super::code::{Chain, Conv, Edge, Func, Group, Ins, NO_ROW, Node, Orders, Row, Step, Term, ValueLayout};
use super::glsl_std_450;
use super::num::Num;
use super::program::Translator;
use super::translate_values::{Arg, Translation};
use super::types::{Kind, MatLayout, Ty};

/// Code, with the SPIR-V instruction that each part is from.
#[derive(Default)]
pub(super) struct Body {
    pub code: Vec<Ins>,
    pub at: Vec<InstRef>,
    pub locals: Vec<(Row, u32, Option<Row>)>,
    pub own: Vec<(u32, u32)>,
}

impl Body {
    pub(super) fn push(&mut self, ins: Ins, r: InstRef) {
        self.code.push(ins);
        self.at.push(r);
    }
}

type Phis = FxHashMap<usize, Vec<(Id, Row, u32, Vec<(Id, Id)>)>>;

impl Translator<'_> {
    /// Translates the body of a function that has an index. If that fails, calls of the function fail.
    pub(super) fn translate_function(&mut self, id: Id) {
        let Some(&index) = self.function_index.get(&id) else { return };
        let function = self.m.functions.iter().find(|f| self.m.inst(f.def).result == Some(id)).cloned();
        let Some(function) = function else { return };
        if function.blocks.is_empty() {
            self.functions[index].fail = Some(format!("the function {id} is imported"));
            return;
        }
        match self.body(&function) {
            Ok(func) => {
                let old = std::mem::take(&mut self.functions[index]);
                self.functions[index] = Func { params: old.params, ret: old.ret, ..func };
            }
            Err(why) => self.functions[index].fail = Some(why),
        }
    }

    fn body(&mut self, function: &Function) -> Result<Func, String> {
        let cfg = Cfg::new(self.m, function);
        if let Some(problem) = cfg.problems().first() {
            return Err(problem.defect.to_string());
        }
        let order = Order::new(&cfg);
        let phis = self.phis(function)?;
        let mut body = Body::default();
        let mut nodes = Vec::new();
        for kind in &order.nodes {
            let start = body.code.len() as u32;
            let node = match *kind {
                NodeKind::Back(header) => {
                    let to = order.block(header).unwrap_or(0);
                    let at = function.blocks[header].label;
                    let term = Term::Go(Edge { to, ..Edge::default() });
                    Node { code: start..start, term, at, phi_scope: None, merge: None, back: Some(to) }
                }
                NodeKind::Block(b) => self.block(function, b, &cfg, &order, &phis, &mut body)?,
            };
            nodes.push(node);
        }
        let entry = order.block(0).unwrap_or(0);
        let Body { code, at, locals, own } = body;
        Ok(Func { nodes, entry, code, at, locals, own, ..Func::default() })
    }

    fn phis(&mut self, function: &Function) -> Result<Phis, String> {
        let mut phis = Phis::default();
        for (b, block) in function.blocks.iter().enumerate() {
            for r in &block.insts {
                let inst = self.m.inst(*r);
                let (Op::Phi, Some(id)) = (inst.op, inst.result) else { continue };
                let n = self.types.slots(self.type_of(id)?);
                let row = self.row(id)?;
                let sources = inst.incoming().collect();
                phis.entry(b).or_default().push((id, row, n, sources));
            }
        }
        Ok(phis)
    }

    fn block(
        &mut self,
        function: &Function,
        b: usize,
        cfg: &Cfg,
        order: &Order,
        phis: &Phis,
        body: &mut Body,
    ) -> Result<Node, String> {
        let block = &function.blocks[b];
        let start = body.code.len() as u32;
        let Some((last, rest)) = block.insts.split_last() else { return Err("a block without instructions".into()) };
        for r in rest {
            let before = body.code.len();
            if let Err(why) = self.instruction(*r, body) {
                body.code.truncate(before);
                body.at.truncate(before);
                let op = self.m.inst(*r).op;
                body.push(Ins::Fail(format!("{op}: {why}").into()), *r);
            }
        }
        let edge = |this: &mut Self, to: usize| -> Result<Edge, String> {
            let mut moves = Vec::new();
            for (_, row, n, sources) in phis.get(&to).into_iter().flatten() {
                let from = cfg.label(b);
                if let Some((value, _)) = sources.iter().find(|s| Some(s.1) == from) {
                    let ty = this.type_of(*value)?;
                    if this.types.slots(ty) != *n {
                        return Err("an OpPhi whose values have several types".into());
                    }
                    moves.push((*row, this.row(*value)?, *n));
                }
            }
            let moves = this.untangle(moves)?;
            let first = function.blocks.get(to).and_then(|b| b.insts.iter().find(|r| this.m.inst(**r).op != Op::Phi));
            let unreachable = first.copied().filter(|r| this.m.inst(*r).op == Op::Unreachable);
            let to = order.target(b, to).ok_or("a branch to a block that is not reached")?;
            Ok(Edge { to, phis: moves.into(), unreachable })
        };
        let inst = self.m.inst(*last);
        let term = match inst.op {
            Op::Branch => Term::Go(edge(self, cfg.successors(b).first().copied().ok_or("a branch without target")?)?),
            Op::BranchConditional => {
                let edges = cfg.edges(b);
                let cond = inst.branch_condition().ok_or("a branch without condition")?;
                let (Some(yes), Some(no)) = (edges.first(), edges.get(1)) else {
                    return Err("a branch without targets".into());
                };
                let edges = Box::new([edge(self, yes.to)?, edge(self, no.to)?]);
                Term::If { cond: self.row(cond)?, edges }
            }
            Op::Switch => {
                let selector = self.row(inst.branch_condition().ok_or("a switch without selector")?)?;
                let width =
                    inst.branch_condition().and_then(|s| self.type_of(s).ok()).and_then(|t| self.types.numeric(t));
                let width = width.map_or(32, |w| w.0.bits());
                let mut cases = Vec::new();
                let mut edges = Vec::new();
                for e in cfg.edges(b) {
                    if let Case::Value(v) = e.case {
                        cases.push((super::num::mask(v, width), edges.len() as u32));
                    }
                    edges.push(edge(self, e.to)?);
                }
                Term::Switch { selector, cases: cases.into(), edges: edges.into() }
            }
            Op::Return => Term::Return { value: NO_ROW },
            Op::ReturnValue => {
                let value = inst.returned().ok_or("no value")?;
                let ty = self.m.inst(function.def).ty.and_then(|t| self.types.of(t));
                let n = self.types.slots(self.type_of(value)?);
                if ty.map(|t| self.types.slots(t)) != Some(n) {
                    return Err("the value that is returned has another type than the function".into());
                }
                Term::Return { value: self.row(value)? }
            }
            Op::Kill | Op::TerminateInvocation => Term::Kill,
            Op::Unreachable => Term::Unreachable,
            op => Term::Fail(op.to_string().into()),
        };
        let scope = phis.get(&b).into_iter().flatten().find_map(|p| {
            let ty = self.type_of(p.0).ok()?;
            self.types.matrix_scope(ty)
        });
        let merge = cfg.merge(b).and_then(|m| m.merge).and_then(|m| order.block(m));
        Ok(Node { code: start..body.code.len() as u32, term, at: *last, phi_scope: scope, merge, back: None })
    }

    /// Turns parallel moves into a sequence of moves.
    fn untangle(&mut self, moves: Vec<(Row, Row, u32)>) -> Result<Vec<(Row, Row, u32)>, String> {
        let overlap = |dst: Row, src: Row, n: u32, m: u32| dst < src + m && src < dst + n;
        let tangled = moves.iter().enumerate().any(|(i, a)| moves[i + 1..].iter().any(|b| overlap(a.0, b.1, a.2, b.2)));
        if !tangled {
            return Ok(moves);
        }
        let total = moves.iter().map(|m| m.2).sum();
        let mut temp = self.new_rows(total)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (dst, src, n) in moves {
            first.push((temp, src, n));
            second.push((dst, temp, n));
            temp += n;
        }
        first.extend(second);
        Ok(first)
    }

    /// The operands that are values.
    fn args(&mut self, inst: &Inst) -> Result<Vec<Arg>, String> {
        let mut args = Vec::new();
        let skip = usize::from(inst.op == Op::ExtInst);
        for id in inst.ids().skip(skip) {
            let Some(def) = self.m.def_inst(id) else { return Err(format!("{id} is not defined")) };
            if def.ty.is_none() || def.op == Op::Function {
                continue;
            }
            args.push(Arg { row: self.row(id)?, ty: self.type_of(id)? });
        }
        Ok(args)
    }

    fn instruction(&mut self, r: InstRef, body: &mut Body) -> Result<(), String> {
        let m = self.m;
        let mut inst = m.inst(r);
        let mut renamed;
        match inst.op {
            Op::Nop
            | Op::Phi
            | Op::SelectionMerge
            | Op::LoopMerge
            | Op::Line
            | Op::NoLine
            | Op::LifetimeStart
            | Op::LifetimeStop
            | Op::AssumeTrueKHR
            | Op::CooperativeMatrixPrefetchINTEL
            | Op::UntypedPrefetchKHR => return Ok(()),
            Op::ExtInst
                if (inst.ext_set() == self.opencl || inst.ext_set() == self.glsl)
                    && self.extended(r, inst, body)? =>
            {
                return Ok(());
            }
            _ => {}
        }
        match inst.op {
            Op::ExtInst if inst.ext_set().is_some() && inst.ext_set() == self.opencl => {
                let number = inst.ext_instruction().unwrap_or(0);
                let same = glsl_std_450::of_opencl(OpenClStd(number));
                let same = same.ok_or_else(|| format!("instruction {number} of OpenCL.std is not run"))?;
                renamed = inst.clone();
                renamed.operands[1] = same.0.into();
                inst = &renamed;
            }
            Op::ExtInst if inst.ext_set() != self.glsl => {
                let set =
                    inst.ext_set().and_then(|s| m.def_inst(s)).and_then(|i| i.string(0)).map_or(String::new(), |s| s.0);
                if set.starts_with("NonSemantic.") {
                    return Ok(());
                }
                return Err(format!("the instruction set '{set}' is not run"));
            }
            _ => {}
        }
        if let Some(scope) = self.touches_matrix(inst) {
            body.push(Ins::Converged { scope }, r);
            if let Some((_, scalar)) = inst.matrix_times_scalar() {
                body.push(Ins::SameScalar { scope, row: self.row(scalar)? }, r);
            }
        }
        if self.matrix_instruction(r, inst, body)? || self.memory(r, inst, body)? || self.group(r, inst, body)? {
            return Ok(());
        }
        match inst.op {
            Op::FunctionCall => return self.call(r, inst, body),
            Op::ControlBarrier => {
                let scope =
                    inst.scope_operand().and_then(|s| self.scalar(s)).ok_or("its scope is not constant")? as u32;
                body.push(Ins::Barrier { scope, orders: self.orders(inst)? }, r);
                return Ok(());
            }
            Op::MemoryBarrier => {
                body.push(Ins::Fence { orders: self.orders(inst)? }, r);
                return Ok(());
            }
            Op::Undef => {
                let id = inst.result.ok_or("no result")?;
                let n = self.types.slots(self.type_of(id)?);
                body.push(Ins::Undef { dst: self.row(id)?, n }, r);
                return Ok(());
            }
            _ => {}
        }
        let Some(id) = inst.result else { return Err("is not supported".into()) };
        let args = self.args(inst)?;
        let ty = self.type_of(id)?;
        let dst = self.row(id)?;
        let manner = self.manner(inst, r);
        let mut code = Vec::new();
        let translation = Translation { types: &self.types, inst, ty, dst, args: &args, manner, out: &mut code };
        if !translation.run()? {
            return Err(match (inst.op, inst.ext_instruction()) {
                (Op::ExtInst, Some(number)) => format!("instruction {number} of GLSL.std.450 is not supported"),
                _ => "is not supported".into(),
            });
        }
        let (mut all, mut at) = (std::mem::take(&mut body.code), std::mem::take(&mut body.at));
        self.push_all(&mut all, &mut at, code, r);
        (body.code, body.at) = (all, at);
        Ok(())
    }

    /// The memory that a barrier orders: its last operands are the scope of memory and its semantics.
    fn orders(&self, inst: &Inst) -> Result<Orders, String> {
        let mut last = inst.ids().collect::<Vec<Id>>().into_iter().rev().map(|id| self.scalar(id).map(|v| v as u32));
        match (last.next().flatten(), last.next().flatten()) {
            (Some(semantics), Some(scope)) => Ok(Orders::new(Scope(scope), MemorySemantics(semantics))),
            _ => Err("its memory semantics are not constant".into()),
        }
    }

    /// The scope of the matrices among operands and result.
    fn touches_matrix(&self, inst: &Inst) -> Option<u32> {
        let of = |id: Id| {
            let ty = self.type_of(id).ok()?;
            self.types.matrix_scope(ty)
        };
        inst.result.and_then(of).or_else(|| inst.ids().find_map(of))
    }

    fn call(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<(), String> {
        let callee = inst.callee().ok_or("no function")?;
        if let Some(op) = imported(self.m, callee) {
            return self.conversion(r, inst, op, body);
        }
        let func = self.function(callee)?;
        let mut args = Vec::new();
        for id in inst.ids_from(1) {
            args.push((self.row(id)?, self.types.slots(self.type_of(id)?)));
        }
        if args.iter().map(|a| a.1).ne(self.functions[func].params.iter().map(|p| p.1)) {
            return Err(format!("the arguments do not fit the function {callee}"));
        }
        let n = self.functions[func].ret.1;
        if n > 0 && inst.ty.and_then(|t| self.types.of(t)).map(|t| self.types.slots(t)) != Some(n) {
            return Err(format!("the result does not fit the function {callee}"));
        }
        let dst = if n == 0 { 0 } else { self.row(inst.result.ok_or("no result")?)? };
        body.push(Ins::Call { func, args: args.into(), dst, n }, r);
        Ok(())
    }

    /// Translates a conversion of the value that a pointer points to.
    fn conversion(&mut self, r: InstRef, inst: &Inst, op: Op, body: &mut Body) -> Result<(), String> {
        let (id, pointer) = (inst.result.ok_or("no result")?, inst.id(1).ok_or("no pointer")?);
        let ty = self.pointee(pointer)?.0.ok_or("its type is not known")?;
        let (from, to) = if op == Op::ConvertFToBF16INTEL { (Num::F32, Num::Bf16) } else { (Num::Bf16, Num::F32) };
        let bits = |ty: Ty| self.types.numeric(ty).map(|(num, n)| (num.bits(), n));
        if bits(ty) != Some((from.bits(), 1)) || bits(self.type_of(id)?) != Some((to.bits(), 1)) {
            return Err("it converts other types".into());
        }
        let dst = self.row(id)?;
        self.load(r, pointer, ty, dst, Operands::PLAIN, body)?;
        let conv = Conv { op: Op::FConvert, from, to, saturate: false, mode: None };
        body.push(Ins::Convert { conv, dst, a: dst, n: 1 }, r);
        Ok(())
    }

    /// Returns the pointee of a pointer, its storage class, and the stride of `OpPtrAccessChain` through it.
    pub(super) fn pointee(&self, pointer: Id) -> Result<(Option<Ty>, StorageClass, Option<u32>), String> {
        match self.types.kind(self.type_of(pointer)?) {
            Kind::Pointer { class, pointee, stride } => Ok((self.types.of(*pointee), *class, *stride)),
            Kind::Untyped { class } => Ok((None, *class, None)),
            _ => Err(format!("{pointer} is not a pointer")),
        }
    }

    pub(super) fn access(&self, ty: Ty, mat: MatLayout, aligned: u32) -> ValueLayout {
        let leaves = self.types.leaves(ty, mat);
        let extent = leaves.iter().flatten().map(|l| l.offset + u32::from(l.bytes)).max().unwrap_or(0);
        let natural = leaves.iter().flatten().map(|l| u32::from(l.bytes)).max().unwrap_or(1);
        ValueLayout {
            leaves: leaves.map(Vec::into_boxed_slice),
            extent,
            slots: self.types.slots(ty),
            align: natural.max(aligned),
            volatile: false,
        }
    }

    fn memory(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        match inst.op {
            Op::Variable | Op::UntypedVariableKHR => {
                let id = inst.result.ok_or("no result")?;
                let pointer_row = self.row(id)?;
                if let Some(ty) = self.pointee(id)?.0.filter(|ty| inst.op == Op::Variable && self.is_in_bytes(*ty)) {
                    return self.own_variable(r, inst, (pointer_row, ty), body).map(|()| true);
                }
                let pointer = self.known.get(id).copied().ok_or("its storage class can't be in a function")?;
                let row = pointer as u32;
                let n = match self.pointee(id)?.0 {
                    Some(ty) => self.types.slots(ty),
                    None => inst.id(1).and_then(|t| self.types.of(t)).map_or(0, |t| self.types.slots(t)),
                };
                let at = if inst.op == Op::Variable { 1 } else { 2 };
                let init = match inst.id(at) {
                    Some(i) if self.types.slots(self.type_of(i)?) == n => Some(self.row(i)?),
                    Some(_) => return Err("its initializer has another type".into()),
                    None => None,
                };
                body.locals.push((row, n, init));
            }
            Op::Load => {
                let (id, ptr) = (inst.result.ok_or("no result")?, inst.accessed().ok_or("no pointer")?);
                let ty = self.type_of(id)?;
                let dst = self.row(id)?;
                self.load(r, ptr, ty, dst, Operands::of(inst, 1), body)?;
            }
            Op::Store => {
                let (ptr, value) = (inst.accessed().ok_or("no pointer")?, inst.stored().ok_or("no object")?);
                let ty = self.type_of(value)?;
                let src = self.row(value)?;
                self.store(r, ptr, ty, src, Operands::of(inst, 2), body)?;
            }
            Op::CopyMemory => {
                let (to, from) = inst.copied().ok_or("no target or source")?;
                let ty = self.pointee(to)?.0.or(self.pointee(from)?.0).ok_or("its type is not known")?;
                let temp = self.new_rows(self.types.slots(ty))?;
                self.load(r, from, ty, temp, Operands::of(inst, 2), body)?;
                self.store(r, to, ty, temp, Operands::PLAIN, body)?;
            }
            Op::CopyMemorySized => {
                let (to, from) = inst.copied().ok_or("no target or source")?;
                let bytes = inst.id(2).and_then(|id| self.scalar(id)).ok_or("its size is not constant")?;
                let (to, from) = (self.row(to)?, self.row(from)?);
                body.push(Ins::CopyBytes { to, from, bytes }, r);
            }
            op if op.is_access_chain() => self.chain(r, inst, body)?,
            Op::ArrayLength | Op::UntypedArrayLengthKHR => {
                let untyped = inst.op == Op::UntypedArrayLengthKHR;
                let at = usize::from(untyped);
                let ptr = inst.id(at).ok_or("no pointer")?;
                let ty = if untyped { inst.id(0).and_then(|t| self.types.of(t)) } else { self.pointee(ptr)?.0 };
                let member = inst.word(at + 1).unwrap_or(0) as usize;
                let Some(Kind::Struct { members }) = ty.map(|t| self.types.kind(t)) else {
                    return Err("no struct".into());
                };
                let m = members.get(member).ok_or("no such member")?;
                let Kind::Runtime { elem, stride } = *self.types.kind(m.ty) else {
                    return Err("no runtime array".into());
                };
                let (offset, stride) = (u64::from(m.offset), self.types.stride(elem, stride, m.matrix));
                let dst = self.row(inst.result.ok_or("no result")?)?;
                let ptr = self.row(ptr)?;
                body.push(Ins::ArrayLength { dst, ptr, offset, stride }, r);
            }
            Op::PtrDiff => {
                let (a, b) = (inst.id(0).ok_or("no operand")?, inst.id(1).ok_or("no operand")?);
                let elem = self.pointee(a)?.0.ok_or("its type is not known")?;
                let size = self.types.stride(elem, self.pointee(a)?.2, MatLayout::default()).max(1);
                let dst = self.row(inst.result.ok_or("no result")?)?;
                let (a, b, size) = (self.row(a)?, self.row(b)?, self.constant_row(size)?);
                let wide = Num::Int { width: 64, signed: true };
                let temp = self.new_rows(2)?;
                body.push(Ins::Each { op: Op::ISub, num: wide, dst: temp, args: [a, b, 0, 0], n: 1 }, r);
                body.push(Ins::Each { op: Op::SDiv, num: wide, dst: temp + 1, args: [temp, size, 0, 0], n: 1 }, r);
                let to = self
                    .types
                    .numeric(self.type_of(inst.result.ok_or("no result")?)?)
                    .ok_or("its result is not an integer")?
                    .0;
                let conv = super::code::Conv { op: Op::SConvert, from: wide, to, saturate: false, mode: None };
                body.push(Ins::Convert { conv, dst, a: temp + 1, n: 1 }, r);
            }
            op if op.is_atomic() => self.atomic(r, inst, body)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the layout of an access through a pointer. `aligned` is the alignment of the memory operands, or 0.
    /// Those of kernels may be less than the type requires.
    fn access_through(&self, ptr: Id, ty: Ty, aligned: u32) -> Result<ValueLayout, String> {
        let physical = self.pointee(ptr)?.1 == StorageClass::PhysicalStorageBuffer;
        let more = if physical { aligned.max(1) } else { 1 };
        let access = self.access(ty, self.mat.get(ptr).copied().unwrap_or_default(), more);
        let align = if self.is_kernel() && aligned > 0 { aligned } else { access.align };
        Ok(ValueLayout { align, ..access })
    }

    /// Initializes a private variable in byte-addressed memory.
    fn own_variable(&mut self, r: InstRef, inst: &Inst, at: (Row, Ty), body: &mut Body) -> Result<(), String> {
        let (pointer, ty) = at;
        let place =
            self.constants.iter().rev().find(|c| c.0 == pointer).map(|c| c.1 as u32).ok_or("it has no place")?;
        let (size, _) = self.types.size(ty, MatLayout::default());
        body.own.push((place, size as u32));
        if let Some(init) = inst.id(1) {
            let src = self.row(init)?;
            let access = self.access(ty, MatLayout::default(), 1);
            body.push(Ins::Store { src, ptr: pointer, access: Box::new(access) }, r);
        }
        Ok(())
    }

    fn load(
        &mut self,
        r: InstRef,
        ptr: Id,
        ty: Ty,
        dst: Row,
        operands: Operands,
        body: &mut Body,
    ) -> Result<(), String> {
        let n = self.types.slots(ty);
        self.row(ptr)?;
        if let Some(pointer) = self.known.get(ptr) {
            let src = self.inside(*pointer, ptr, n)?;
            body.push(Ins::Copy { dst, src, n }, r);
            return Ok(());
        }
        let mut access = self.access_through(ptr, ty, operands.aligned)?;
        access.volatile = operands.volatile;
        let ptr = self.row(ptr)?;
        body.push(Ins::Load { dst, ptr, access: Box::new(access) }, r);
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        r: InstRef,
        ptr: Id,
        ty: Ty,
        src: Row,
        operands: Operands,
        body: &mut Body,
    ) -> Result<(), String> {
        let n = self.types.slots(ty);
        self.row(ptr)?;
        if let Some(pointer) = self.known.get(ptr) {
            let dst = self.inside(*pointer, ptr, n)?;
            body.push(Ins::Copy { dst, src, n }, r);
            return Ok(());
        }
        let access = self.access_through(ptr, ty, operands.aligned)?;
        let ptr = self.row(ptr)?;
        body.push(Ins::Store { src, ptr, access: Box::new(access) }, r);
        Ok(())
    }

    /// Returns the row that a known pointer points to, if its pointee has `n` components.
    fn inside(&self, pointer: u64, ptr: Id, n: u32) -> Result<Row, String> {
        match self.pointee(ptr)?.0 {
            Some(ty) if self.types.slots(ty) != n => Err("its type is not that of the pointer".into()),
            _ if (pointer & 0xff_ffff_ffff) + u64::from(n) > u64::from(self.rows) => {
                Err("it leaves the variable".into())
            }
            _ => Ok(pointer as Row),
        }
    }

    fn chain(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<(), String> {
        let id = inst.result.ok_or("no result")?;
        let untyped = inst.op.is_untyped();
        let through = inst.op.is_element_chain();
        let base = inst.id(usize::from(untyped)).ok_or("no base")?;
        let mut ty = if untyped { inst.id(0).and_then(|t| self.types.of(t)) } else { self.pointee(base)?.0 };
        let mut mat = if untyped { MatLayout::default() } else { self.mat.get(base).copied().unwrap_or_default() };
        let mut indices = inst.ids_from(1 + usize::from(untyped));
        let (mut bytes, mut slots, mut bad) = (0u64, 0u64, false);
        let mut steps = Vec::new();
        let base_row = self.row(base)?;

        let first = if through { indices.next() } else { None };
        if let Some(index) = first {
            let elem = ty.ok_or("the type of the base is not known")?;
            let stride = self.types.stride(elem, self.pointee(base)?.2, mat);
            self.step(index, stride, self.types.slots(elem), None, (&mut bytes, &mut slots, &mut bad), &mut steps)?;
        }
        for index in indices {
            let whole = ty.ok_or("the type of the base is not known")?;
            let place = (&mut bytes, &mut slots, &mut bad);
            ty = Some(match self.types.kind(whole).clone() {
                Kind::Struct { members } => {
                    let i = self.scalar(index).ok_or("the index of a member is not constant")?;
                    let m = members.get(i as usize).ok_or("no such member")?;
                    *place.0 = place.0.wrapping_add(u64::from(m.offset));
                    *place.1 = place.1.wrapping_add(u64::from(m.slot));
                    mat = m.matrix;
                    m.ty
                }
                Kind::Array { elem, len, stride } => {
                    let stride = self.types.stride(elem, stride, mat);
                    self.step(index, stride, self.types.slots(elem), Some(len), place, &mut steps)?;
                    elem
                }
                Kind::Runtime { elem, stride } => {
                    let stride = self.types.stride(elem, stride, mat);
                    self.step(index, stride, self.types.slots(elem), None, place, &mut steps)?;
                    elem
                }
                Kind::Vector { elem, len } => {
                    let natural = self.types.size(elem, mat).0;
                    let stride = if mat.row_major { mat.stride.map_or(natural, u64::from) } else { natural };
                    self.step(index, stride, 1, Some(len), place, &mut steps)?;
                    mat = MatLayout::default();
                    elem
                }
                Kind::Matrix { column, cols } => {
                    let rows = self.types.slots(column);
                    let size = u64::from(self.types.numeric(column).map_or(4, |n| n.0.bytes()));
                    let natural = if mat.row_major { size * u64::from(cols) } else { size * u64::from(rows) };
                    let stride = mat.stride.map_or(natural, u64::from);
                    let step = if mat.row_major { size } else { stride };
                    self.step(index, step, rows, Some(cols), place, &mut steps)?;
                    if mat.row_major {
                        mat.stride = Some(stride as u32);
                    } else {
                        mat = MatLayout::default();
                    }
                    column
                }
                Kind::Coop(c) => {
                    self.step(index, 0, 1, Some(c.placed.len), place, &mut steps)?;
                    c.elem
                }
                _ => return Err("an index into a type that has no parts".into()),
            });
        }
        if mat != MatLayout::default() {
            self.mat.insert(id, mat);
        }
        if let (Some(base), true, false) = (self.known.get(base).copied(), steps.is_empty(), bad) {
            let pointer = base.wrapping_add(slots);
            self.known.insert(id, pointer);
            let row = self.constant_row(pointer)?;
            self.row_of.insert(id, row);
            return Ok(());
        }
        let dst = self.row(id)?;
        let chain = Chain { dst, base: base_row, bytes, slots, steps: steps.into(), bad };
        body.push(Ins::Chain(Box::new(chain)), r);
        Ok(())
    }

    fn step(
        &mut self,
        index: Id,
        bytes: u64,
        slots: u32,
        bound: Option<u32>,
        place: (&mut u64, &mut u64, &mut bool),
        steps: &mut Vec<Step>,
    ) -> Result<(), String> {
        let width = self.types.numeric(self.type_of(index)?).ok_or("an index that is not an integer")?.0.bits();
        let slots = u64::from(slots);
        if let Some(v) = self.scalar(index) {
            let v = super::num::signed(v, width) as u64;
            *place.0 = place.0.wrapping_add(v.wrapping_mul(bytes));
            *place.1 = place.1.wrapping_add(v.wrapping_mul(slots));
            *place.2 |= bound.is_some_and(|b| v >= u64::from(b));
            return Ok(());
        }
        let index = self.row(index)?;
        steps.push(Step { index, width, bytes, slots, bound });
        Ok(())
    }

    fn atomic(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<(), String> {
        let ptr = inst.id(0).ok_or("no pointer")?;
        let exchange = matches!(inst.op, Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak);
        let value = inst.id(if exchange { 4 } else { 3 });
        let comparator = if exchange { inst.id(5) } else { None };
        let ty = match inst.result {
            Some(id) if inst.op != Op::AtomicFlagTestAndSet => self.type_of(id)?,
            _ => match value {
                Some(v) => self.type_of(v)?,
                None => self.pointee(ptr)?.0.ok_or("its type is not known")?,
            },
        };
        let Some((num, 1)) = self.types.numeric(ty) else { return Err("its type is not a scalar".into()) };
        let dst = inst.result.map(|id| self.row(id)).transpose()?.unwrap_or(NO_ROW);
        let ptr = self.row(ptr)?;
        let value = value.map(|v| self.row(v)).transpose()?.unwrap_or(NO_ROW);
        let comparator = comparator.map(|v| self.row(v)).transpose()?.unwrap_or(NO_ROW);
        body.push(Ins::Atomic { op: inst.op, num, dst, ptr, value, comparator }, r);
        Ok(())
    }

    /// Subgroup and group instructions.
    fn group(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        let Some(what) = inst.op.group_operation() else { return Ok(false) };
        // Whether the scope is the subgroup, without an operand that says so.
        let khr = inst.op.execution_scope() == Some(ExecutionScope::Subgroup);
        let id = inst.result.ok_or("no result")?;
        let ty = self.type_of(id)?;
        let scope = if khr {
            Scope::Subgroup.0.into()
        } else {
            inst.id(0).and_then(|s| self.scalar(s)).ok_or("its scope is not constant")?
        };
        let rest: Vec<Id> = inst.ids_from(usize::from(!khr)).collect();
        // Reductions and scans have a literal Group Operation after the scope.
        let operation = if khr { 0 } else { inst.operands.get(1).filter(|o| o.id().is_none()).map_or(0, |o| o.word()) };
        let value = rest.first().copied();
        let arg = rest.get(1).copied();
        let row = |this: &mut Self, id: Option<Id>| -> Result<(Row, u32), String> {
            Ok(match id {
                Some(id) => (this.row(id)?, this.types.slots(this.type_of(id)?)),
                None => (NO_ROW, 0),
            })
        };
        let num = value.and_then(|v| self.type_of(v).ok()).and_then(|t| self.types.numeric(t));
        let (value, n) = row(self, value)?;
        let (arg, arg_n) = row(self, arg)?;
        let dst_n = self.types.slots(ty);
        let scalar_arg = arg == NO_ROW || inst.op == Op::GroupBroadcast || arg_n == 1;
        let needs_arg = what.moves() && what != GroupOp::BroadcastFirst || what == GroupOp::BallotBitExtract;
        let needs_value = what != GroupOp::Elect;
        // What moves values or combines them gives one like them.
        let alike = what.moves() || what.is_reduction();
        let from_ballot = matches!(what, GroupOp::InverseBallot | GroupOp::BallotBitExtract | GroupOp::BallotBitCount);
        if !scalar_arg
            || (needs_arg && arg == NO_ROW)
            || (needs_value && value == NO_ROW)
            || (alike && dst_n != n)
            || (from_ballot && n != 4)
        {
            return Err("its operands do not fit each other".into());
        }
        let group = Group {
            op: inst.op,
            num: num.map_or(Num::Bool, |n| n.0),
            dst: self.row(id)?,
            dst_n,
            value,
            n,
            arg,
            operation,
            scope: scope as u32,
        };
        body.push(Ins::Group(Box::new(group)), r);
        Ok(true)
    }
}

/// The memory operands of a load.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    /// The alignment in bytes, or 0.
    aligned: u32,
    volatile: bool,
}

impl Operands {
    pub(super) const PLAIN: Operands = Operands { aligned: 0, volatile: false };

    /// Returns the memory operands at operand `at`.
    fn of(inst: &Inst, at: usize) -> Operands {
        let volatile = inst.enumerant(at).is_some_and(|mask: MemoryAccess| mask.contains(MemoryAccess::Volatile));
        Operands { aligned: aligned(inst, at), volatile }
    }
}

/// Returns the Aligned literal of the memory operands at operand `at`, or 0.
pub(super) fn aligned(inst: &Inst, at: usize) -> u32 {
    let memory = MemoryOperands::at(inst, at);
    if memory.mask.contains(MemoryAccess::Aligned) { memory.alignment().unwrap_or(1) } else { 0 }
}

/// Returns the conversion that an imported function of Intel's device library computes.
fn imported(m: &Module, callee: Id) -> Option<Op> {
    let empty = m.functions.iter().any(|f| f.blocks.is_empty() && m.inst(f.def).result == Some(callee));
    let linkage = coop_ir::spv::Decoration::LinkageAttributes;
    let mut said = m.globals_with(Op::Decorate).map(|r| m.inst(r)).filter(|i| i.enumerant(1) == Some(linkage));
    let name = said.find(|i| i.id(0) == Some(callee)).filter(|_| empty)?.string(2)?.0;
    match name.as_ref() {
        "__devicelib_ConvertFToBF16INTEL" => Some(Op::ConvertFToBF16INTEL),
        "__devicelib_ConvertBF16ToFINTEL" => Some(Op::ConvertBF16ToFINTEL),
        _ => None,
    }
}
