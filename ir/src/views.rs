//! Named operands of instructions that many places decode.
//!
//! The opcode decides: if an instruction does not have an operand, the view of it is `None`.

use crate::grammar::{ExecutionScope, Kind, Op};
use crate::module::{Id, Inst};
use crate::spv::{
    Capability, CooperativeMatrixOperands, Decoration, ExecutionMode, GroupOperation, MemoryAccess, StorageClass,
    TensorAddressingOperands,
};
use crate::uses::is_note;

/// The memory operands of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryOperands {
    /// The mask; no bit if there are no memory operands.
    pub mask: MemoryAccess,
    /// The bits that the grammar does not know. Parameters behind the first of them are not decoded.
    pub unknown: MemoryAccess,
    /// The literal of Aligned, and its operand index.
    pub aligned: Option<(u32, usize)>,
    /// The scope of MakePointerAvailable, and its operand index.
    pub available: Option<(Id, usize)>,
    /// The scope of MakePointerVisible, and its operand index.
    pub visible: Option<(Id, usize)>,
    /// The index of the operand after the last.
    pub end: usize,
}

impl MemoryOperands {
    /// Decodes the memory operands that begin at an operand.
    pub fn at(inst: &Inst, first: usize) -> MemoryOperands {
        let none = MemoryAccess::None;
        let empty =
            MemoryOperands { mask: none, unknown: none, aligned: None, available: None, visible: None, end: first };
        let Some(mask) = inst.enumerant(first) else { return empty };
        let mut m = MemoryOperands { mask, ..empty };
        let mut at = first + 1;
        for bit in (0..u32::BITS).map(|b| MemoryAccess(1 << b)).filter(|b| mask.intersects(*b)) {
            let Some(row) = Kind::MemoryAccess.enumerant(bit.0) else {
                m.unknown |= bit;
                continue;
            };
            // Parameters are in the order of the bits.
            if !m.unknown.is_empty() {
                continue;
            }
            match bit {
                MemoryAccess::Aligned => m.aligned = inst.word(at).map(|w| (w, at)),
                MemoryAccess::MakePointerAvailable => m.available = inst.id(at).map(|id| (id, at)),
                MemoryAccess::MakePointerVisible => m.visible = inst.id(at).map(|id| (id, at)),
                _ => {}
            }
            at += row.params.len();
        }
        m.end = at;
        m
    }

    /// Returns the alignment in bytes, if it is specified and valid.
    pub fn alignment(&self) -> Option<u32> {
        self.aligned.map(|(bytes, _)| bytes).filter(|bytes| bytes.is_power_of_two())
    }
}

/// A load or store of a matrix with a stride.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixAccess {
    /// The pointer.
    pub pointer: Id,
    /// The stored value; `None` for a load.
    pub object: Option<Id>,
    /// The memory layout; Column Major, a truth value, in SPV_NV_cooperative_matrix.
    pub layout: Id,
    /// The stride.
    pub stride: Option<Id>,
    /// The index of the first memory operand.
    pub memory: usize,
}

/// The operands of an access chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessChain {
    /// The base pointer.
    pub base: Id,
    /// The type of the data behind the base, for an untyped chain.
    pub data_type: Option<Id>,
    /// The index of the first operand behind the base: the Element operand or the first index.
    pub first: usize,
}

/// The operands of a load or store through a tensor layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorAccess {
    /// The memory operands, which begin at operand [`TensorAccess::MEMORY`].
    pub memory: MemoryOperands,
    /// The operand index of the mask of the tensor addressing operands.
    pub at: usize,
    /// That mask.
    pub mask: TensorAddressingOperands,
    /// The tensor view, and its operand index.
    pub view: Option<(Id, usize)>,
    /// The decode function, and its operand index.
    pub decode: Option<(Id, usize)>,
    /// The decode function of vectors, and its operand index.
    pub decode_vector: Option<(Id, usize)>,
}

impl TensorAccess {
    /// The index of the first memory operand.
    pub const MEMORY: usize = 3;
}

impl Inst {
    /// Returns the index of the first memory operand, if the instruction may have some.
    pub fn memory_operands_at(&self) -> Option<usize> {
        Some(match self.op {
            Op::Load => 1,
            Op::Store | Op::CopyMemory => 2,
            Op::CopyMemorySized => 3,
            op if op.is_tensor_access() => TensorAccess::MEMORY,
            _ => self.matrix_access_at()?.3,
        })
    }

    /// Returns the memory operands; of a copy, the first.
    pub fn memory_operands(&self) -> Option<MemoryOperands> {
        self.memory_operands_at().map(|at| MemoryOperands::at(self, at))
    }

    /// Returns the mask of the memory operands; no bit if there are none.
    pub fn memory_access(&self) -> MemoryAccess {
        self.memory_operands_at().and_then(|at| self.enumerant(at)).unwrap_or(MemoryAccess::None)
    }

    /// Returns the pointer that a load, a store, an atomic operation or an access of a matrix goes through.
    pub fn accessed(&self) -> Option<Id> {
        let accesses = matches!(self.op, Op::Load | Op::Store) || self.op.is_atomic() || self.op.is_matrix_access();
        self.id(0).filter(|_| accesses)
    }

    /// Returns the scope and the semantics of an atomic operation (the first ones, of a compare-exchange), and the place of its values, which
    /// come behind them.
    pub fn atomic_operands(&self) -> Option<(Id, Id, usize)> {
        let two = matches!(self.op, Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak);
        let (scope, semantics) = self.id(1).zip(self.id(2)).filter(|_| self.op.is_atomic())?;
        Some((scope, semantics, if two { 4 } else { 3 }))
    }

    /// Returns the target and the source of a copy of memory.
    pub fn copied(&self) -> Option<(Id, Id)> {
        let copies = matches!(self.op, Op::CopyMemory | Op::CopyMemorySized);
        self.id(0).zip(self.id(1)).filter(|_| copies)
    }

    /// Returns the operands of an access chain.
    #[inline]
    pub fn access_chain(&self) -> Option<AccessChain> {
        if !self.op.is_access_chain() {
            return None;
        }
        let untyped = self.op.is_untyped();
        let base = usize::from(untyped);
        Some(AccessChain { base: self.id(base)?, data_type: self.id(0).filter(|_| untyped), first: base + 1 })
    }

    /// Returns the operand that is copied unchanged: that of `OpCopyObject` and similar instructions.
    pub fn copy_source(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op.is_copy())
    }

    /// Returns the condition of a conditional branch, or the selector of a switch.
    pub fn branch_condition(&self) -> Option<Id> {
        self.id(0).filter(|_| matches!(self.op, Op::BranchConditional | Op::Switch))
    }

    /// Returns the value that a function returns.
    pub fn returned(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op == Op::ReturnValue)
    }

    /// Returns the operand with the execution scope of a group instruction or a barrier.
    pub fn scope_operand(&self) -> Option<Id> {
        match self.op.execution_scope()? {
            ExecutionScope::Operand(at) => self.id(at),
            ExecutionScope::Subgroup => None,
        }
    }

    /// Returns the Group Operation of a reduction or a scan.
    pub fn reduction_kind(&self) -> Option<GroupOperation> {
        self.op.group_operation().filter(|o| o.is_reduction()).and_then(|_| self.enumerant(1))
    }

    /// Returns the capability of an `OpCapability`.
    pub fn declared_capability(&self) -> Option<Capability> {
        (self.op == Op::Capability).then(|| self.enumerant(0)).flatten()
    }

    /// Returns the literal of an `OpConstant` or `OpSpecConstant` of at most 32 bits, or the low word of a longer one.
    #[inline]
    pub fn literal(&self) -> Option<u32> {
        self.word(0).filter(|_| matches!(self.op, Op::Constant | Op::SpecConstant))
    }

    /// Returns the storage class of a variable.
    pub fn variable_storage(&self) -> Option<StorageClass> {
        matches!(self.op, Op::Variable | Op::UntypedVariableKHR).then(|| self.enumerant(0)).flatten()
    }

    /// Returns the function type of an `OpFunction`.
    pub fn function_type(&self) -> Option<Id> {
        self.id(1).filter(|_| self.op == Op::Function)
    }

    /// Returns the function of an `OpEntryPoint`.
    pub fn entry_function(&self) -> Option<Id> {
        self.id(1).filter(|_| self.op == Op::EntryPoint)
    }

    /// Returns the function that a call, or an instruction with a function for each element, calls.
    pub fn callee(&self) -> Option<Id> {
        match self.op {
            Op::FunctionCall => self.id(0),
            Op::CooperativeMatrixPerElementOpNV | Op::CooperativeMatrixApplyFunctionINTEL => self.id(1),
            Op::CooperativeMatrixReduceNV => self.id(2),
            _ => None,
        }
    }

    /// Returns the value that a store writes.
    pub fn stored(&self) -> Option<Id> {
        match self.op {
            Op::Store | Op::CooperativeMatrixStoreTensorNV => self.id(1),
            _ => self.id(self.matrix_access_at()?.0?),
        }
    }

    /// Returns the type of what an untyped variable holds, if it says so.
    pub fn data_type(&self) -> Option<Id> {
        self.id(1).filter(|_| self.op == Op::UntypedVariableKHR)
    }

    /// Returns the type of a part of this composite type, by its index. How long vectors, matrices and arrays are is not looked at.
    pub fn part_type(&self, index: u32) -> Option<Id> {
        match self.op {
            Op::TypeStruct => self.id(index as usize),
            Op::TypeVector
            | Op::TypeVectorIdEXT
            | Op::TypeMatrix
            | Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeCooperativeMatrixKHR
            | Op::TypeCooperativeMatrixNV => self.id(0),
            _ => None,
        }
    }

    /// Returns the initializer of a variable.
    pub fn initializer(&self) -> Option<Id> {
        match self.op {
            Op::Variable => self.id(1),
            Op::UntypedVariableKHR => self.id(2),
            _ => None,
        }
    }

    /// Returns the operand indices of the object, the layout, the stride and the memory operands of a matrix access
    /// with a stride.
    fn matrix_access_at(&self) -> Option<(Option<usize>, usize, usize, usize)> {
        Some(match self.op {
            Op::CooperativeMatrixLoadKHR => (None, 1, 2, 3),
            Op::CooperativeMatrixStoreKHR => (Some(1), 2, 3, 4),
            Op::CooperativeMatrixLoadNV => (None, 2, 1, 3),
            Op::CooperativeMatrixStoreNV => (Some(1), 3, 2, 4),
            Op::CooperativeMatrixLoadCheckedINTEL => (None, 3, 6, 7),
            Op::CooperativeMatrixStoreCheckedINTEL => (Some(3), 4, 7, 8),
            Op::CooperativeMatrixLoadOffsetINTEL => (None, 3, 4, 5),
            Op::CooperativeMatrixStoreOffsetINTEL => (Some(3), 4, 5, 6),
            _ => return None,
        })
    }

    /// Returns the operands of a load or store of a matrix with a stride, of whichever extension it is.
    pub fn matrix_access(&self) -> Option<MatrixAccess> {
        let (object, layout, stride, memory) = self.matrix_access_at()?;
        Some(MatrixAccess {
            pointer: self.id(0)?,
            object: object.and_then(|at| self.id(at)),
            layout: self.id(layout)?,
            stride: self.id(stride),
            memory,
        })
    }

    /// Returns the operands behind the layout of a load or store through a tensor layout, if they are known.
    pub fn tensor_access(&self) -> Option<TensorAccess> {
        if !self.op.is_tensor_access() {
            return None;
        }
        let memory = MemoryOperands::at(self, TensorAccess::MEMORY);
        let at = memory.end;
        let mask: TensorAddressingOperands = self.enumerant(at).filter(|_| memory.unknown.is_empty())?;
        let mut next = at + 1;
        let mut take = |bit: TensorAddressingOperands| {
            let operand = next;
            next += usize::from(mask.contains(bit));
            self.id(operand).filter(|_| mask.contains(bit)).map(|id| (id, operand))
        };
        Some(TensorAccess {
            memory,
            at,
            mask,
            view: take(TensorAddressingOperands::TensorView),
            decode: take(TensorAddressingOperands::DecodeFunc),
            decode_vector: take(TensorAddressingOperands::DecodeVectorFunc),
        })
    }

    /// Returns the Cooperative Matrix Operands of a multiply-add; none if they are omitted.
    pub fn matrix_operands(&self) -> CooperativeMatrixOperands {
        let at = matches!(self.op, Op::CooperativeMatrixMulAddKHR).then_some(3);
        at.and_then(|at| self.enumerant(at)).unwrap_or(CooperativeMatrixOperands::None)
    }

    /// Returns the number of an instruction of an extended set.
    pub fn ext_instruction(&self) -> Option<u32> {
        self.word(1).filter(|_| self.op.is_ext_inst())
    }

    /// Returns the instruction set of an extended instruction.
    pub fn ext_set(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op.is_ext_inst())
    }

    /// Returns the target, the member and the decoration of an `OpMemberDecorate`.
    pub fn member_decoration(&self) -> Option<(Id, u32, Decoration)> {
        let (target, member) = self.id(0).zip(self.word(1)).filter(|_| self.op == Op::MemberDecorate)?;
        Some((target, member, self.enumerant(2)?))
    }

    /// Returns the function and the mode of an `OpExecutionMode` or `OpExecutionModeId`.
    pub fn execution_mode(&self) -> Option<(Id, ExecutionMode)> {
        let sets = matches!(self.op, Op::ExecutionMode | Op::ExecutionModeId);
        self.id(0).zip(self.enumerant(1)).filter(|_| sets)
    }

    /// Returns the dimension and the clamp mode of a type of tensor layouts.
    pub fn tensor_layout_type(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::TypeTensorLayoutNV)
    }

    /// Returns the dimension of a type of tensor views, and the operand that says if it has dimensions.
    pub fn tensor_view_type(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::TypeTensorViewNV)
    }

    /// Returns the vector and the index of an `OpVectorExtractDynamic`.
    pub fn dynamic_extract(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::VectorExtractDynamic)
    }

    /// Returns the object and the composite of an `OpCompositeInsert`.
    pub fn inserted(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::CompositeInsert)
    }

    /// Returns the composite of an `OpCompositeExtract`.
    pub fn extracted_from(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op == Op::CompositeExtract)
    }

    /// Returns the two vectors of an `OpVectorShuffle`.
    pub fn shuffled(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::VectorShuffle)
    }

    /// Returns the matrix and the scalar of an `OpMatrixTimesScalar`.
    pub fn matrix_times_scalar(&self) -> Option<(Id, Id)> {
        self.id(0).zip(self.id(1)).filter(|_| self.op == Op::MatrixTimesScalar)
    }

    /// Returns the values of a phi, each with the label of its predecessor.
    pub fn incoming(&self) -> impl Iterator<Item = (Id, Id)> + '_ {
        let pairs = if self.op == Op::Phi { self.operands.as_slice() } else { &[] };
        pairs.chunks_exact(2).filter_map(|pair| pair[0].id().zip(pair[1].id()))
    }

    /// Returns true if the instruction is an `OpDecorate` of an id with a decoration.
    pub fn decorates(&self, decoration: Decoration) -> bool {
        self.op == Op::Decorate && self.enumerant(1) == Some(decoration)
    }

    /// Returns true if the instruction is an `OpMemberDecorate` with a decoration.
    pub fn decorates_member(&self, decoration: Decoration) -> bool {
        self.op == Op::MemberDecorate && self.enumerant(2) == Some(decoration)
    }

    /// Returns the target and the decoration of an `OpDecorate`.
    pub fn decoration(&self) -> Option<(Id, Decoration)> {
        self.id(0).zip(self.enumerant(1)).filter(|_| self.op == Op::Decorate)
    }

    /// Returns the target and the decoration of an instruction that decorates an id or a member, whatever its operands are.
    pub fn any_decoration(&self) -> Option<(Id, Decoration)> {
        let at = match self.op {
            Op::Decorate | Op::DecorateId | Op::DecorateString => 1,
            Op::MemberDecorate | Op::MemberDecorateIdEXT | Op::MemberDecorateString => 2,
            _ => return None,
        };
        self.id(0).zip(self.enumerant(at))
    }

    /// Returns the id that a name or a decoration is about.
    pub fn note_target(&self) -> Option<Id> {
        self.id(0).filter(|_| is_note(self.op))
    }

    /// Returns the bits of an `OpConstant` of at most 64 bits.
    pub fn constant_bits(&self) -> Option<u64> {
        let low = self.word(0).filter(|_| self.op == Op::Constant)?;
        Some(u64::from(low) | u64::from(self.word(1).unwrap_or(0)) << 32)
    }

    /// Returns the pointer that an access chain, a cast or a copy derives its result from.
    pub fn derived_from(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op.derives_pointer())
    }

    /// Returns the operand of a conversion of numbers or of a bit cast.
    pub fn converted(&self) -> Option<Id> {
        self.id(0).filter(|_| self.op.is_conversion() || self.op == Op::Bitcast)
    }

    /// Returns the matrices A, B and C of a multiply-add.
    pub fn mul_add(&self) -> Option<[Id; 3]> {
        if !matches!(self.op, Op::CooperativeMatrixMulAddKHR | Op::CooperativeMatrixMulAddNV) {
            return None;
        }
        Some([self.id(0)?, self.id(1)?, self.id(2)?])
    }

    /// Returns the condition and the two values of a selection.
    pub fn selection(&self) -> Option<[Id; 3]> {
        if self.op != Op::Select {
            return None;
        }
        Some([self.id(0)?, self.id(1)?, self.id(2)?])
    }

    /// Returns the invocation whose value a broadcast in a subgroup gives, or in a quad.
    pub fn broadcast_from(&self) -> Option<Id> {
        let broadcasts = matches!(self.op, Op::GroupNonUniformBroadcast | Op::GroupNonUniformQuadBroadcast);
        self.id(2).filter(|_| broadcasts)
    }

    /// Returns the merge block of a merge instruction.
    pub fn merge_block(&self) -> Option<Id> {
        self.id(0).filter(|_| matches!(self.op, Op::LoopMerge | Op::SelectionMerge))
    }

    /// Returns the continue target of a loop merge.
    pub fn continue_target(&self) -> Option<Id> {
        self.id(1).filter(|_| self.op == Op::LoopMerge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    /// The operands by name are those of the text.
    #[test]
    fn operands_by_name() {
        let module = text::parse(
            "%void = OpTypeVoid
             %float = OpTypeFloat 32
             %n = OpConstant %float 4
             %ptr = OpTypePointer StorageBuffer %float
             %v = OpVariable %ptr StorageBuffer
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %1 = OpCooperativeMatrixLoadKHR %float %v %n %n Aligned|MakePointerVisible|NonPrivatePointer 16 %n
             OpCooperativeMatrixStoreKHR %v %1 %n %n Volatile
             %2 = OpCooperativeMatrixLoadTensorNV %float %v %1 %n Aligned 8 TensorView|DecodeFunc %n %main
             %3 = OpCooperativeMatrixMulAddKHR %float %1 %1 %1 MatrixASignedComponentsKHR
             OpStore %v %3
             OpReturn
             OpFunctionEnd",
        )
        .expect("it is text");
        let insts: Vec<&Inst> = module.functions[0].blocks[0].insts.iter().map(|r| module.inst(*r)).collect();
        let [load, store, tensor, product, plain, ..] = insts.as_slice() else { unreachable!("six instructions") };
        let memory = load.memory_operands().expect("a load has some");
        assert_eq!((memory.alignment(), memory.visible.map(|v| v.1), memory.end), (Some(16), Some(5), 6));
        let access = store.matrix_access().expect("a store");
        assert_eq!(
            (access.object, store.stored(), store.memory_access()),
            (load.result, load.result, MemoryAccess::Volatile)
        );
        let addressing = tensor.tensor_access().expect("a tensor load");
        assert_eq!(
            (addressing.at, addressing.view.map(|v| v.1), addressing.decode.map(|d| d.1)),
            (5, Some(6), Some(7))
        );
        assert_eq!((addressing.decode_vector, addressing.memory.alignment()), (None, Some(8)));
        assert_eq!(product.matrix_operands(), CooperativeMatrixOperands::MatrixASignedComponentsKHR);
        assert_eq!((plain.stored(), plain.memory_access()), (product.result, MemoryAccess::None));
        assert_eq!(product.memory_operands(), None);
    }

    /// Operands of access chains, copies, branches, groups and globals.
    #[test]
    fn operands_of_memory_by_name() {
        let module = text::parse(
            "OpCapability Shader
             OpMemoryModel Logical GLSL450
             OpDecorate %v NonWritable
             OpMemberDecorate %s 0 Volatile
             %void = OpTypeVoid
             %uint = OpTypeInt 32 0
             %n = OpConstant %uint 3
             %s = OpTypeStruct %uint
             %ptr = OpTypePointer StorageBuffer %s
             %up = OpTypeUntypedPointerKHR StorageBuffer
             %v = OpVariable %ptr StorageBuffer
             %fn = OpTypeFunction %uint
             %main = OpFunction %uint None %fn
             %entry = OpLabel
             %1 = OpInBoundsPtrAccessChain %ptr %v %n %n
             %2 = OpUntypedAccessChainKHR %up %s %v %n
             OpCopyMemory %v %1
             OpControlBarrier %n %n %n
             %3 = OpGroupNonUniformIAdd %uint %n InclusiveScan %n
             %4 = OpCopyObject %uint %3
             OpSwitch %n %end
             %end = OpLabel
             OpReturnValue %n
             OpFunctionEnd",
        )
        .expect("it is text");
        let global = |op: Op| module.globals_with(op).next().map(|r| module.inst(r)).expect("a global");
        let (v, n) = (global(Op::Variable).result, global(Op::Constant).result);
        assert_eq!(global(Op::Capability).declared_capability(), Some(Capability::Shader));
        assert_eq!(global(Op::Constant).literal(), Some(3));
        assert_eq!(global(Op::Variable).variable_storage(), Some(StorageClass::StorageBuffer));
        assert_eq!(global(Op::Decorate).decoration(), v.map(|v| (v, Decoration::NonWritable)));
        assert!(global(Op::Decorate).decorates(Decoration::NonWritable));
        assert!(global(Op::MemberDecorate).decorates_member(Decoration::Volatile));
        let models = module.memory_model().expect("models");
        assert_eq!((models.0.name(), models.1.name()), (Some("Logical"), Some("GLSL450")));
        let insts: Vec<&Inst> = module.functions[0].insts().map(|r| module.inst(r)).collect();
        let of = |op: Op| *insts.iter().find(|i| i.op == op).expect("an instruction");
        let typed = of(Op::InBoundsPtrAccessChain).access_chain().expect("a chain");
        assert_eq!((Some(typed.base), typed.data_type, typed.first), (v, None, 1));
        let untyped = of(Op::UntypedAccessChainKHR).access_chain().expect("a chain");
        assert_eq!((Some(untyped.base), untyped.data_type, untyped.first), (v, global(Op::TypeStruct).result, 2));
        assert_eq!(of(Op::CopyMemory).copied(), v.zip(of(Op::InBoundsPtrAccessChain).result));
        assert_eq!(of(Op::ControlBarrier).scope_operand(), n);
        let scan = of(Op::GroupNonUniformIAdd);
        assert_eq!((scan.scope_operand(), scan.reduction_kind()), (n, Some(GroupOperation::InclusiveScan)));
        assert_eq!(of(Op::CopyObject).copy_source(), scan.result);
        assert_eq!((of(Op::Switch).branch_condition(), of(Op::ReturnValue).returned()), (n, n));
        assert_eq!(
            (scan.copied(), scan.access_chain(), scan.branch_condition(), scan.literal()),
            (None, None, None, None)
        );
    }

    /// Operands of composites, types and modes.
    #[test]
    fn operands_of_composites_types_and_modes_by_name() {
        let module = text::parse(
            "%set = OpExtInstImport \"GLSL.std.450\"
             OpExecutionMode %main LocalSize 8 4 1
             OpMemberDecorate %s 3 Offset 16
             %void = OpTypeVoid
             %float = OpTypeFloat 32
             %s = OpTypeStruct %float
             %layout = OpTypeTensorLayoutNV %s %float
             %view = OpTypeTensorViewNV %float %s
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %1 = OpVectorExtractDynamic %float %s %float
             %2 = OpCompositeInsert %s %float %1 0
             %3 = OpCompositeExtract %float %2 0
             %4 = OpVectorShuffle %s %2 %3 0 1
             %5 = OpMatrixTimesScalar %s %4 %3
             %6 = OpExtInst %float %set Sqrt %5
             OpReturn
             OpFunctionEnd",
        )
        .expect("it is text");
        let of = |op: Op| module.all().map(|r| module.inst(r)).find(|i| i.op == op).expect("an instruction");
        let (s, float) = (of(Op::TypeStruct).result, of(Op::TypeFloat).result);
        let main = of(Op::Function).result;
        assert_eq!(of(Op::ExecutionMode).execution_mode(), main.map(|id| (id, ExecutionMode::LocalSize)));
        assert_eq!(of(Op::MemberDecorate).member_decoration(), s.map(|id| (id, 3, Decoration::Offset)));
        assert_eq!(of(Op::MemberDecorate).any_decoration(), s.map(|id| (id, Decoration::Offset)));
        assert_eq!(of(Op::TypeTensorLayoutNV).tensor_layout_type(), s.zip(float));
        assert_eq!(of(Op::TypeTensorViewNV).tensor_view_type(), float.zip(s));
        let extract = of(Op::VectorExtractDynamic);
        assert_eq!(extract.dynamic_extract(), s.zip(float));
        let insert = of(Op::CompositeInsert);
        assert_eq!((insert.inserted(), insert.extracted_from()), (float.zip(extract.result), None));
        let part = of(Op::CompositeExtract);
        assert_eq!((part.extracted_from(), part.inserted()), (insert.result, None));
        let shuffle = of(Op::VectorShuffle);
        assert_eq!(shuffle.shuffled(), insert.result.zip(part.result));
        let product = of(Op::MatrixTimesScalar);
        assert_eq!(product.matrix_times_scalar(), shuffle.result.zip(part.result));
        let sqrt = of(Op::ExtInst);
        assert_eq!((sqrt.ext_set(), sqrt.ext_instruction()), (of(Op::ExtInstImport).result, Some(31)));
        assert_eq!((product.ext_set(), sqrt.shuffled(), sqrt.execution_mode()), (None, None, None));
    }

    /// Operands of notes, constants, conversions, selections and merges.
    #[test]
    fn operands_of_values_by_name() {
        let module = text::parse(
            "OpName %x \"x\"
             %void = OpTypeVoid
             %long = OpTypeInt 64 0
             %bool = OpTypeBool
             %x = OpConstant %long 0x500000007
             %c = OpConstantTrue %bool
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %1 = OpBitcast %long %x
             %2 = OpSelect %long %c %x %1
             %3 = OpCooperativeMatrixMulAddKHR %long %x %1 %2
             OpLoopMerge %a %b None
             OpBranch %a
             OpFunctionEnd",
        )
        .expect("it is text");
        let x = module.globals_with(Op::Constant).next().map(|r| module.inst(r)).expect("a constant");
        let name = module.globals_with(Op::Name).next().map(|r| module.inst(r)).expect("a name");
        assert_eq!((x.constant_bits(), x.note_target(), name.note_target()), (Some(0x5_0000_0007), None, x.result));
        let insts: Vec<&Inst> = module.functions[0].blocks[0].insts.iter().map(|r| module.inst(*r)).collect();
        let [cast, select, product, merge, _] = insts.as_slice() else { unreachable!("five instructions") };
        assert_eq!((cast.converted(), cast.derived_from(), select.converted()), (x.result, x.result, None));
        assert_eq!(select.selection().map(|s| s[1..] == [x.result, cast.result].map(Option::unwrap)), Some(true));
        assert_eq!(product.mul_add().map(|p| p[2]), select.result);
        assert_eq!((merge.merge_block(), merge.continue_target()), (merge.id(0), merge.id(1)));
        assert_eq!((merge.ext_set(), merge.member_decoration(), merge.execution_mode()), (None, None, None));
        assert_eq!((select.mul_add(), product.selection(), select.merge_block()), (None, None, None));
    }

    /// The positions are those of the grammar.
    #[test]
    fn memory_operands_are_where_the_grammar_has_them() {
        for info in crate::grammar::OPS {
            let (ty, result) = info.op.has_type_and_result();
            let shape = &info.operands[usize::from(ty) + usize::from(result)..];
            let inst = Inst::new(info.op, None, None, []);
            if let Some(at) = inst.memory_operands_at() {
                assert_eq!(shape.get(at).map(|o| o.0), Some(Kind::MemoryAccess), "{}", info.op);
            }
        }
    }
}
