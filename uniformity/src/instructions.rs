//! Makes the nodes of each instruction, and the check of one that all invocations of a scope must execute together.

use super::build::{BuildContext, Builder};
use super::shape::{Fold, Shape};
use super::value_graph::{Check, Group, IdValue, Kind, List};
use super::{Assumptions, Uniformity};
use coop_ir::effects::{ExtPointer, ExtSet};
use coop_ir::grammar::{GroupOp, Op};
use coop_ir::spv::{CooperativeMatrixReduce as Reduce, GlslStd450, GroupOperation, OpenClStd};
use coop_ir::types::{self, Scalar, Type, natural_size};
use coop_ir::{Id, Inst, InstRef};
use smallvec::SmallVec;

/// Returns the effect of a subgroup or group instruction, with the scope from its operand.
fn group(op: Op, inst: &Inst) -> Option<Group> {
    Some(match op.group_operation()? {
        GroupOp::AllEqual | GroupOp::Ballot => Group::Same(Uniformity::Subgroup),
        GroupOp::All | GroupOp::Any | GroupOp::BroadcastFirst => Group::Keeps(Uniformity::Subgroup),
        GroupOp::Broadcast | GroupOp::Shuffle => Group::Named,
        GroupOp::Elect | GroupOp::InverseBallot => Group::Own,
        GroupOp::QuadAll | GroupOp::QuadAny => Group::Moved,
        op if op.moves() => Group::Moved,
        op if op.is_reduction() => match inst.enumerant(1) {
            Some(GroupOperation::Reduce) if op.counts_each() => Group::Same(Uniformity::Subgroup),
            Some(GroupOperation::Reduce) => Group::Keeps(Uniformity::Subgroup),
            _ => Group::Own,
        },
        _ => return None,
    })
}

/// Returns true if the analysis follows an access chain: not those into elements of untyped pointers.
pub(super) fn is_followed_chain(op: Op) -> bool {
    op.is_access_chain() && !(op.is_untyped() && op.is_element_chain())
}

impl Builder<'_> {
    /// Makes the nodes of an instruction.
    pub(super) fn instruction(&mut self, at: InstRef, inst: &Inst) {
        self.check(at, inst);
        if !self.is_needed(inst) {
            return;
        }
        match inst.op {
            Op::Variable | Op::UntypedVariableKHR => self.local_variable(inst),
            Op::Phi => self.phi(inst, at),
            Op::Load => {
                let Some(pointer) = inst.accessed() else { return };
                let val = self.load(pointer, at, inst.ty);
                self.set(inst.result, val);
            }
            Op::Store => {
                let (Some(pointer), Some(object)) = (inst.accessed(), inst.stored()) else { return };
                let val = self.val(object);
                self.store(pointer, val, at);
            }
            Op::CopyMemory => {
                let Some((to, from)) = inst.copied() else { return };
                let val = self.load(from, at, None);
                self.store(to, val, at);
            }
            Op::CopyMemorySized => {
                let Some((to, from)) = inst.copied() else { return };
                let val = if self.copies_all(inst) {
                    self.load(from, at, None)
                } else {
                    IdValue::Node(self.fixed(Uniformity::Divergent, Some(at)))
                };
                let n = self.whole(val, None);
                self.store(to, IdValue::Node(n), at);
            }
            op if is_followed_chain(op) => {
                let val = self.chain(inst, at);
                self.set(inst.result, val);
            }
            // A pointer to the buffer of a descriptor differs if the descriptor does.
            Op::BufferPointerEXT => {
                let val = self.buffer(inst);
                self.set(inst.result, val);
            }
            Op::CopyObject => {
                let val = inst.id(0).map_or(IdValue::None, |id| self.val(id));
                self.set(inst.result, val);
            }
            Op::Undef => {
                let n = self.node(Kind::Undef, &[], Some(at), 0);
                self.set(inst.result, IdValue::Node(n));
            }
            Op::FunctionCall => self.unfollowed(at, inst),
            Op::ExtInst => self.extended(at, inst),
            _ => self.other(at, inst),
        }
    }

    /// Returns true if an instruction makes or stores a value that is needed.
    fn is_needed(&self, inst: &Inst) -> bool {
        let Some(needed) = self.context.needed else { return true };
        match inst.op {
            Op::Store => inst.accessed().is_some_and(|id| needed.contains(id)),
            Op::CopyMemory | Op::CopyMemorySized => inst.copied().is_some_and(|(to, _)| needed.contains(to)),
            // These may write more than their result.
            Op::FunctionCall => true,
            Op::ExtInst => inst.result.into_iter().chain(inst.ids_from(2)).any(|id| needed.contains(id)),
            op if op.calls_back() || op == Op::CooperativeMatrixStoreTensorNV => true,
            _ => inst.result.is_some_and(|id| needed.contains(id)),
        }
    }

    /// Returns true if a copy of bytes covers all that its target points to.
    fn copies_all(&self, inst: &Inst) -> bool {
        let BuildContext { module, constants, .. } = self.context;
        let Some((to, from)) = inst.copied() else { return false };
        let pointee = |id: Id| match Type::of(module, module.type_of(id)?)? {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        };
        let (to, bytes) = (pointee(to), inst.id(2).and_then(|id| constants.get(id).value()));
        let size = to.and_then(|ty| natural_size(module, constants, ty)).map(|(size, _)| size);
        to.is_some() && to == pointee(from) && size.is_some() && size == bytes
    }

    /// Handles a call that is not followed: the program inlines the others.
    fn unfollowed(&mut self, at: InstRef, inst: &Inst) {
        if self.is_followed(at) {
            return;
        }
        let callee = inst.callee().and_then(|id| self.context.program.calls.function(id));
        if let Some(summary) = callee.and_then(|f| self.context.program.summaries[f]) {
            let mut ops = List::new();
            for id in inst.ids_from(1) {
                self.argument(id, &mut ops);
            }
            let reads = self.fixed(summary.uniformity, Some(at));
            self.graph.nodes[reads as usize].assumes = summary.assumes;
            ops.push(reads);
            let w = inst.ty.map_or(0, |t| self.context.layouts.width(t));
            let n = self.node(Kind::Max, &ops, Some(at), w);
            let val = match inst.ty.filter(|t| self.context.layouts.storage(*t).is_some()) {
                Some(ty) => self.pointer(ty, n, None),
                None => IdValue::Node(n),
            };
            self.set(inst.result, val);
        } else {
            let args: Vec<Id> = inst.ids_from(1).collect();
            self.clobber(&args, at);
            let n = self.fixed(Uniformity::Divergent, Some(at));
            self.set(inst.result, IdValue::Node(n));
        }
    }

    fn is_followed(&self, at: InstRef) -> bool {
        let point = self.context.program.point(self.point);
        matches!(point.end, super::program::End::Call(_)) && self.context.program.insts(self.point).last() == Some(&at)
    }

    fn extended(&mut self, at: InstRef, inst: &Inst) {
        let set = self.context.sets.of(inst);
        if set == ExtSet::Note {
            return;
        }
        let number = inst.ext_instruction().unwrap_or(0);
        let mut ops = List::new();
        let mut widths = List::new();
        let (mut to, mut reads) = (None, false);
        for (i, id) in inst.ids_from(2).enumerate() {
            let ty = self.context.module.type_of(id);
            if ty.is_some_and(|t| self.context.layouts.storage(t).is_some()) {
                match set.pointer(number, i) {
                    Some(ExtPointer::Writes | ExtPointer::WritesVector) => to = Some(id),
                    _ => reads = true,
                }
                continue;
            }
            ops.push(self.operand(id));
            widths.push(ty.map_or(0, |t| self.context.layouts.width(t)));
        }
        let known = !reads && matches!(set, ExtSet::Glsl | ExtSet::OpenCl);
        let fold = if set == ExtSet::Glsl { Some(GlslStd450(number)) } else { of_opencl(OpenClStd(number)) };
        let ty_width = inst.ty.map_or(0, |t| self.context.layouts.width(t));
        let n = if !known {
            self.fixed(Uniformity::Divergent, Some(at))
        } else if let Some(number) = fold
            && ty_width > 0
            && widths.iter().all(|w| *w > 0)
        {
            self.node(Kind::Fold(Fold::Glsl(number)), &ops, Some(at), ty_width)
        } else {
            self.node(Kind::Max, &ops, Some(at), ty_width)
        };
        if let Some(pointer) = to {
            // The second result.
            let also = self.node(Kind::Max, &[n], Some(at), 0);
            self.store(pointer, IdValue::Node(also), at);
        }
        self.set(inst.result, IdValue::Node(n));
    }

    fn other(&mut self, at: InstRef, inst: &Inst) {
        if inst.op.calls_back() || inst.op == Op::CooperativeMatrixStoreTensorNV {
            self.callback(at);
        }
        let Some(ty) = inst.ty.filter(|_| inst.result.is_some()) else { return };
        if inst.opaque {
            return self.give(inst, Uniformity::Divergent, at);
        }
        if let Some(scope) = self.context.layouts.matrix(ty)
            && !matches!(inst.op, Op::Select | Op::CompositeExtract)
        {
            return self.matrix(at, inst, scope);
        }
        match inst.op {
            Op::CompositeConstruct => self.construct(at, inst, ty),
            Op::CompositeExtract => self.extract(at, inst, ty),
            Op::CompositeInsert => self.insert(at, inst, ty),
            Op::VectorShuffle => self.shuffle(at, inst, ty),
            Op::VectorExtractDynamic => self.extract_dynamic(at, inst, ty),
            Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV => {
                let n = self.shaped(Uniformity::Workgroup, Shape::Unknown, 32, Assumptions::NONE);
                let node = &mut self.graph.nodes[n as usize];
                (node.inst, node.assumes) = (Some(at), Assumptions::LENGTH);
                self.set(inst.result, IdValue::Node(n));
            }
            Op::GroupNonUniformBallotBitCount if inst.enumerant(1) != Some(GroupOperation::Reduce) => {
                self.grouped(at, inst, Group::Own, ty);
            }
            // Functions of the ballot alone.
            Op::GroupNonUniformBallotBitCount
            | Op::GroupNonUniformBallotFindLSB
            | Op::GroupNonUniformBallotFindMSB
            | Op::GroupNonUniformBallotBitExtract => self.plain(at, inst, ty, Kind::Max),
            op if op.is_pure() => self.pure(at, inst, ty),
            op if op.is_image_sample() => self.plain(at, inst, ty, Kind::Max),
            Op::ImageRead | Op::ImageSparseRead => {
                let ops: Vec<u32> = inst.ids().map(|id| self.operand(id)).collect();
                let address = self.node(Kind::Max, &ops, Some(at), 0);
                let n = self.read_image(at, inst, address);
                self.set(inst.result, IdValue::Node(n));
            }
            op => match group(op, inst) {
                Some(g) => self.grouped(at, inst, g, ty),
                None => self.unknown(at, inst, ty),
            },
        }
    }

    /// Gives a result a node of which only the uniformity is known.
    fn give(&mut self, inst: &Inst, uniformity: Uniformity, at: InstRef) {
        let n = self.fixed(uniformity, Some(at));
        self.set(inst.result, IdValue::Node(n));
    }

    fn unknown(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let n = self.fixed(Uniformity::Divergent, Some(at));
        let val = match self.context.layouts.storage(ty) {
            Some(_) => self.pointer(ty, n, None),
            None => IdValue::Node(n),
        };
        self.set(inst.result, val);
    }

    fn grouped(&mut self, at: InstRef, inst: &Inst, g: Group, ty: Id) {
        let scope = inst.scope_operand().and_then(|s| self.context.constants.get(s).value());
        let g = match (g, scope) {
            (Group::Same(_), Some(2)) => Group::Same(Uniformity::Workgroup),
            (Group::Keeps(_), Some(2)) => Group::Keeps(Uniformity::Workgroup),
            (g, _) => g,
        };
        let from = usize::from(scope.is_some());
        let ops: Vec<u32> = inst.ids_from(from).map(|id| self.operand(id)).collect();
        let w = self.context.layouts.width(ty);
        let n = self.node(Kind::Group(g), &ops, Some(at), w);
        self.set(inst.result, IdValue::Node(n));
    }

    /// Makes one node that is as uniform as all operands together.
    fn plain(&mut self, at: InstRef, inst: &Inst, ty: Id, kind: Kind) {
        let ops: List =
            inst.ids().filter(|id| self.context.module.type_of(*id).is_some()).map(|id| self.operand(id)).collect();
        let n = self.node(kind, &ops, Some(at), self.context.layouts.width(ty));
        let val = match self.context.layouts.storage(ty) {
            Some(_) => {
                let root = inst.id(0).and_then(|id| super::memory::root(self.context.module, id));
                self.pointer(ty, n, root.filter(|_| inst.op == Op::Bitcast))
            }
            None => IdValue::Node(n),
        };
        self.set(inst.result, val);
    }

    fn pure(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let module = self.context.module;
        let (leaves, w) = self.context.layouts.components(ty);
        if self.context.layouts.storage(ty).is_some() || !inst.op.is_componentwise() {
            return self.plain(at, inst, ty, Kind::Max);
        }
        // True if operands are integers, each with as many leaves as the result, or with one.
        let fits = |t: Id| {
            let (n, width) = self.context.layouts.components(t);
            (n == leaves || n == 1) && width > 0
        };
        let single = types::scalar(module, ty) == Some(Scalar::Float { width: 32 });
        if inst.op == Op::Bitcast && single {
            return self.plain(at, inst, ty, Kind::Fold(Fold::Float));
        }
        if inst.op == Op::Select && self.context.layouts.is_float(ty) {
            return self.plain(at, inst, ty, Kind::Fold(Fold::Op(Op::Select)));
        }
        if w == 0 || !inst.ids().all(|id| module.type_of(id).is_some_and(fits)) {
            return self.plain(at, inst, ty, Kind::Max);
        }
        let mut vals: SmallVec<[IdValue; 4]> = SmallVec::new();
        for id in inst.ids() {
            vals.push(self.val(id));
        }
        let kind = Kind::Fold(Fold::Op(inst.op));
        let mut node = |k: u32| {
            let mut ops = List::new();
            for val in &vals {
                ops.push(self.leaf(*val, k));
            }
            self.node(kind, &ops, Some(at), w)
        };
        let val = if leaves == 1 {
            IdValue::Node(node(0))
        } else {
            let nodes: List = (0..leaves).map(node).collect();
            self.assemble(&nodes)
        };
        self.set(inst.result, val);
    }

    fn construct(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let leaves = self.context.layouts.leaves(ty);
        let mut nodes = List::new();
        for id in inst.ids() {
            let val = self.val(id);
            let n = self.context.module.type_of(id).map_or(1, |t| self.context.layouts.leaves(t));
            for k in 0..n {
                nodes.push(self.leaf(val, k));
            }
        }
        if leaves > 1 && nodes.len() as u32 == leaves {
            let val = self.assemble(&nodes);
            self.set(inst.result, val);
        } else {
            let n = self.node(Kind::Max, &nodes, Some(at), 0);
            self.set(inst.result, IdValue::Node(n));
        }
    }

    /// Returns the leaf at which a path of literals begins.
    fn path(&self, mut ty: Id, path: impl Iterator<Item = u32>) -> Option<u32> {
        let mut offset = 0;
        for i in path {
            match self.context.layouts.step(self.context.module, ty, Some(u64::from(i))) {
                (Some(child), super::leaves::LeafStep::At(o)) => (offset, ty) = (offset + o, child),
                _ => return None,
            }
        }
        Some(offset)
    }

    fn extract(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let Some(id) = inst.extracted_from() else { return };
        let val = self.val(id);
        let literals = inst.operands.iter().skip(1).map(|o| o.word());
        let whole = self.context.module.type_of(id);
        if let (IdValue::Parts(start, len), Some(offset)) = (val, whole.and_then(|t| self.path(t, literals))) {
            let n = self.context.layouts.leaves(ty);
            if offset + n <= len {
                let val = match n {
                    1 => IdValue::Node(self.leaf(val, offset)),
                    n => IdValue::Parts(start + offset, n),
                };
                return self.set(inst.result, val);
            }
        }
        let from = self.whole(val, Some(at));
        let n = self.node(Kind::Max, &[from], Some(at), self.context.layouts.width(ty));
        self.set(inst.result, IdValue::Node(n));
    }

    fn extract_dynamic(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let Some((vector, index)) = inst.dynamic_extract() else { return };
        let IdValue::Parts(start, len) = self.val(vector) else { return self.plain(at, inst, ty, Kind::Max) };
        let mut ops: List = List::from_slice(&[self.operand(index)]);
        ops.extend_from_slice(&self.graph.parts[start as usize..(start + len) as usize]);
        let n = self.node(Kind::Pick, &ops, Some(at), self.context.layouts.width(ty));
        self.set(inst.result, IdValue::Node(n));
    }

    fn insert(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let Some((object, into)) = inst.inserted() else { return };
        let (object_val, val) = (self.val(object), self.val(into));
        let literals = inst.operands.iter().skip(2).map(|o| o.word());
        let n = self.context.module.type_of(object).map_or(1, |t| self.context.layouts.leaves(t));
        let leaves = self.context.layouts.leaves(ty);
        if leaves > 1
            && let Some(offset) = self.path(ty, literals)
        {
            let nodes: Vec<u32> = (0..leaves)
                .map(|k| match k.checked_sub(offset).filter(|k| *k < n) {
                    Some(k) => self.leaf(object_val, k),
                    None => self.leaf(val, k),
                })
                .collect();
            let val = self.assemble(&nodes);
            return self.set(inst.result, val);
        }
        self.plain(at, inst, ty, Kind::Max);
    }

    fn shuffle(&mut self, at: InstRef, inst: &Inst, ty: Id) {
        let Some((a, b)) = inst.shuffled() else { return };
        let (va, vb) = (self.val(a), self.val(b));
        let (IdValue::Parts(_, na), IdValue::Parts(_, nb)) = (va, vb) else {
            return self.plain(at, inst, ty, Kind::Max);
        };
        let picks: Vec<u32> = inst.operands.iter().skip(2).map(|o| o.word()).collect();
        let nodes: Vec<u32> = picks
            .into_iter()
            .map(|i| match i {
                i if i < na => self.leaf(va, i),
                i if i < na + nb => self.leaf(vb, i - na),
                _ => self.node(Kind::Undef, &[], Some(at), 0),
            })
            .collect();
        let val = self.assemble(&nodes);
        self.set(inst.result, val);
    }

    /// The uniformity of a matrix is that of its elements.
    fn matrix(&mut self, at: InstRef, inst: &Inst, scope: Uniformity) {
        let ty = inst.ty.unwrap_or_else(|| unreachable!("its type has a matrix"));
        match inst.op {
            Op::CompositeConstruct if types::coop_mat(self.context.module, ty).is_none() => {
                self.construct(at, inst, ty);
            }
            Op::CompositeInsert if types::coop_mat(self.context.module, ty).is_none() => self.insert(at, inst, ty),
            // All rows and all columns are reduced to one value.
            Op::CooperativeMatrixReduceNV if inst.enumerant(1) == Some(Reduce::Row | Reduce::Column) => {
                self.give(inst, scope, at);
            }
            Op::CooperativeMatrixReduceNV
            | Op::CompositeInsert
            | Op::CooperativeMatrixMulAddKHR
            | Op::CooperativeMatrixMulAddNV => self.give(inst, Uniformity::Divergent, at),
            op if op.is_pure() => self.plain(at, inst, ty, Kind::Max),
            _ => self.give(inst, Uniformity::Divergent, at),
        }
    }

    // Instructions that must be executed together.

    fn check(&mut self, at: InstRef, inst: &Inst) {
        if !self.context.marks.is_collective(at) || inst.op == Op::Variable || self.context.sets.is_note(inst) {
            return;
        }
        if let Some(scope) = barrier(inst) {
            let scope = match inst.id(scope).and_then(|s| self.context.constants.get(s).value()) {
                Some(3) => Uniformity::Subgroup,
                Some(4) => return,
                _ => Uniformity::Workgroup,
            };
            self.graph.checks.push(Check { point: self.point, at, scope, barrier: true, operands: Vec::new() });
            return;
        }
        let Some(scope) = self.matrix_scope(inst) else { return };
        let operands = uniform_operands(inst)
            .into_iter()
            .filter_map(|i| {
                let id = inst.id(i as usize)?;
                let ty = self.context.module.type_of(id)?;
                // A matrix is one object for the whole scope, so its elements may differ.
                self.context.layouts.matrix(ty).is_none().then(|| (i, self.operand(id)))
            })
            .collect();
        self.graph.checks.push(Check { point: self.point, at, scope, barrier: false, operands });
    }

    /// Returns the scope of the matrices that an instruction uses.
    fn matrix_scope(&self, inst: &Inst) -> Option<Uniformity> {
        let layouts = self.context.layouts;
        let own = inst.ty.filter(|_| !types_only(inst.op)).and_then(|t| layouts.matrix(t));
        let operands = || inst.ids().filter_map(|id| layouts.matrix(self.context.module.type_of(id)?));
        own.into_iter().chain(operands()).filter(|s| *s != Uniformity::Divergent).min()
    }
}

fn types_only(op: Op) -> bool {
    matches!(op, Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV)
}

/// Returns the instruction of GLSL.std.450 that computes the same as an integer instruction of OpenCL.std.
fn of_opencl(inst: OpenClStd) -> Option<GlslStd450> {
    Some(match inst {
        OpenClStd::s_clamp => GlslStd450::SClamp,
        OpenClStd::u_clamp => GlslStd450::UClamp,
        OpenClStd::s_max => GlslStd450::SMax,
        OpenClStd::u_max => GlslStd450::UMax,
        OpenClStd::s_min => GlslStd450::SMin,
        OpenClStd::u_min => GlslStd450::UMin,
        _ => return None,
    })
}

/// Returns the operand with the scope, for instructions at which invocations wait.
pub(super) fn barrier(inst: &Inst) -> Option<usize> {
    inst.op.is_control_barrier().then_some(0)
}

/// Returns the operands, matrices aside, that must be the same in all invocations of the scope.
pub(super) fn uniform_operands(inst: &Inst) -> Vec<u32> {
    let all = 0..inst.operands.len() as u32;
    match inst.op {
        Op::CooperativeMatrixLoadKHR => vec![0, 1, 2],
        Op::CooperativeMatrixStoreKHR => vec![0, 2, 3],
        // Of a struct or an array with matrices, only the constituents are matrices.
        Op::CompositeConstruct | Op::CompositeConstructReplicateEXT => vec![0],
        Op::MatrixTimesScalar => vec![1],
        // The pointer and the layout. The object is a matrix; views and functions follow the masks.
        Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV => {
            [0, 2].into_iter().chain(all.skip(3)).collect()
        }
        Op::CooperativeMatrixLoadNV => vec![0, 1, 2],
        Op::CooperativeMatrixStoreNV => vec![0, 2, 3],
        Op::CooperativeMatrixLoadCheckedINTEL
        | Op::CooperativeMatrixStoreCheckedINTEL
        | Op::CooperativeMatrixConstructCheckedINTEL
        | Op::CooperativeMatrixLoadOffsetINTEL
        | Op::CooperativeMatrixStoreOffsetINTEL => all.collect(),
        _ => Vec::new(),
    }
}
