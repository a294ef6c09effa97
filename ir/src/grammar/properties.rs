//! Properties of opcodes, from the tables: `lab/grammar/src/properties.rs` has them for each.

use super::{Class, Effects, Op};

/// A set of properties of an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Properties(pub(super) u32);

impl Properties {
    #[inline]
    const fn contains(self, property: Properties) -> bool {
        self.0 & property.0 != 0
    }
}

/// The operation of a group instruction, for all three generations: `OpGroupIAdd`, `OpGroupNonUniformIAdd`,
/// `OpGroupIAddNonUniformAMD`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum GroupOp {
    Elect,
    All,
    Any,
    AllEqual,
    Ballot,
    InverseBallot,
    BallotBitExtract,
    BallotBitCount,
    BallotFindLsb,
    BallotFindMsb,
    Broadcast,
    BroadcastFirst,
    Shuffle,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    Rotate,
    QuadBroadcast,
    QuadSwap,
    QuadAll,
    QuadAny,
    IAdd,
    FAdd,
    IMul,
    FMul,
    SMin,
    UMin,
    FMin,
    SMax,
    UMax,
    FMax,
    And,
    Or,
    Xor,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
}

impl GroupOp {
    /// Returns true if the operation is a reduction or a scan, which a Group Operation operand selects.
    pub fn is_reduction(self) -> bool {
        use GroupOp::*;
        matches!(
            self,
            IAdd | FAdd
                | IMul
                | FMul
                | SMin
                | UMin
                | FMin
                | SMax
                | UMax
                | FMax
                | And
                | Or
                | Xor
                | LogicalAnd
                | LogicalOr
                | LogicalXor
        )
    }

    /// Returns true if the result of a reduction depends on how often a value occurs: sums, products, and exclusive or.
    pub fn counts_each(self) -> bool {
        use GroupOp::*;
        matches!(self, IAdd | FAdd | IMul | FMul | Xor | LogicalXor)
    }

    /// Returns true if the operation gives one invocation the value of another.
    pub fn moves(self) -> bool {
        use GroupOp::*;
        matches!(
            self,
            Broadcast
                | BroadcastFirst
                | Shuffle
                | ShuffleXor
                | ShuffleUp
                | ShuffleDown
                | Rotate
                | QuadBroadcast
                | QuadSwap
        )
    }
}

impl Op {
    #[inline]
    fn is(self, property: Properties) -> bool {
        self.traits().is_some_and(|t| t.properties.contains(property))
    }

    /// Returns true if the instruction ends a block.
    #[inline]
    pub fn is_terminator(self) -> bool {
        self.is(Properties::TERMINATOR)
    }

    /// Returns true if the instruction ends a block and branches to another one of the function.
    #[inline]
    pub fn is_branch(self) -> bool {
        self.is(Properties::BRANCH)
    }

    /// Returns true if the instruction is an access chain, typed or untyped.
    #[inline]
    pub fn is_access_chain(self) -> bool {
        self.is(Properties::ACCESS_CHAIN)
    }

    /// Returns true if the instruction is an access chain whose base is the first operand: a typed one.
    #[inline]
    pub fn is_typed_access_chain(self) -> bool {
        self.is(Properties::ACCESS_CHAIN) && !self.is(Properties::UNTYPED)
    }

    /// Returns true if the instruction is an access chain whose first index counts objects at the base (`Op...PtrAccessChain`).
    #[inline]
    pub fn is_element_chain(self) -> bool {
        self.is(Properties::ELEMENT_CHAIN)
    }

    /// Returns true if the instruction is a typed access chain that stays in the object at the base.
    #[inline]
    pub fn is_member_chain(self) -> bool {
        self.is_typed_access_chain() && !self.is_element_chain()
    }

    /// Returns true if the instruction uses an untyped pointer; its data type is the first operand.
    #[inline]
    pub fn is_untyped(self) -> bool {
        self.is(Properties::UNTYPED)
    }

    /// Returns true if the instruction converts numbers, vectors or matrices of them, to another type of numbers.
    #[inline]
    pub fn is_conversion(self) -> bool {
        self.is(Properties::NUMERIC_CONVERSION)
    }

    /// Returns true if the instruction converts numbers to floating-point numbers.
    #[inline]
    pub fn is_conversion_to_float(self) -> bool {
        matches!(self, Op::FConvert | Op::ConvertSToF | Op::ConvertUToF)
    }

    /// Returns true if the instruction converts between integers and floating-point numbers.
    #[inline]
    pub fn is_int_float_conversion(self) -> bool {
        matches!(self, Op::ConvertUToF | Op::ConvertSToF | Op::ConvertFToU | Op::ConvertFToS)
    }

    /// Returns true if the instruction converts between pointers of the Generic class and those of others.
    #[inline]
    pub fn is_pointer_cast(self) -> bool {
        self.is(Properties::POINTER_CAST)
    }

    /// Returns true if the result is the first operand, unchanged.
    #[inline]
    pub fn is_copy(self) -> bool {
        self.is(Properties::COPY)
    }

    /// Returns true if the instruction derives a pointer from its first operand, if that is a pointer: typed access
    /// chains, casts, `OpCopyObject`.
    #[inline]
    pub fn derives_pointer(self) -> bool {
        self.is_typed_access_chain() || self.is_pointer_cast() || matches!(self, Op::Bitcast | Op::CopyObject)
    }

    /// Returns true if the instruction is arithmetic that is defined for matrices.
    #[inline]
    pub fn is_matrix_arithmetic(self) -> bool {
        self.is(Properties::MATRIX_ARITHMETIC)
    }

    /// Returns true if the instruction applies to each element of a matrix by itself: arithmetic, conversions, `OpBitcast`.
    #[inline]
    pub fn is_elementwise(self) -> bool {
        self.is_matrix_arithmetic() || self.is_conversion() || self == Op::Bitcast
    }

    /// Returns true if the instruction loads a matrix from memory, of whichever extension it is.
    #[inline]
    pub fn is_matrix_load(self) -> bool {
        self.is_of_matrices(Effects::READS)
    }

    /// Returns true if the instruction stores a matrix to memory, of whichever extension it is.
    #[inline]
    pub fn is_matrix_store(self) -> bool {
        self.is_of_matrices(Effects::WRITES)
    }

    /// Returns true if the instruction loads or stores a matrix; its pointer is the first operand.
    #[inline]
    pub fn is_matrix_access(self) -> bool {
        self.is_of_matrices(Effects::READS | Effects::WRITES)
    }

    /// Returns true if the instruction is for matrices and calls a function of the module.
    #[inline]
    pub fn calls_back(self) -> bool {
        self.is_of_matrices(Effects::CALLS)
    }

    #[inline]
    fn is_of_matrices(self, effects: Effects) -> bool {
        // Most instructions are core instructions.
        self.0 >= Op::TypeCooperativeMatrixKHR.0
            && self.info().is_some_and(|i| i.class == Class::CooperativeMatrix && i.effects.any(effects))
    }

    /// Returns true if the instruction makes or changes a tensor layout.
    #[inline]
    pub fn is_tensor_layout(self) -> bool {
        self.is(Properties::TENSOR_LAYOUT)
    }

    /// Returns true if the instruction makes or changes a tensor view.
    #[inline]
    pub fn is_tensor_view(self) -> bool {
        self.is(Properties::TENSOR_VIEW)
    }

    /// Returns true if the instruction loads or stores through a tensor layout.
    #[inline]
    pub fn is_tensor_access(self) -> bool {
        matches!(self, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV)
    }

    /// Returns true if the instruction is a specialization constant.
    #[inline]
    pub fn is_spec_literal(self) -> bool {
        self.is(Properties::SPEC_LITERAL)
    }

    /// Returns true if the instruction makes a composite by repeating one constituent.
    #[inline]
    pub fn is_replicated(self) -> bool {
        self.is(Properties::REPLICATED)
    }

    /// Returns true if the instruction makes a composite of its constituents, as a constant or not.
    #[inline]
    pub fn is_composite(self) -> bool {
        self.is(Properties::COMPOSITE)
    }

    /// Returns true if the instruction is a dot product of vectors of integers.
    #[inline]
    pub fn is_dot_product(self) -> bool {
        self.is(Properties::DOT_PRODUCT)
    }

    /// Returns true if the instruction is a dot product with a saturating addition.
    #[inline]
    pub fn is_saturating_dot_product(self) -> bool {
        self.is(Properties::SATURATING_DOT_PRODUCT)
    }

    /// Returns true if the instruction compares integers or truth values.
    #[inline]
    pub fn is_integer_comparison(self) -> bool {
        self.is(Properties::INTEGER_COMPARISON)
    }

    /// Returns true if the instruction compares numbers, pointers or truth values, or classifies a number: its result
    /// is a truth value, or a vector of them.
    #[inline]
    pub fn is_comparison(self) -> bool {
        self.is(Properties::COMPARISON)
    }

    /// Returns true if the result is a function of the operands alone, the same in every invocation.
    #[inline]
    pub fn is_pure(self) -> bool {
        self.is(Properties::PURE)
    }

    /// Returns true if the instruction may compute an address: its result does not depend on where it stands, and its
    /// operands are integers, truth values, composites or typed pointers.
    #[inline]
    pub fn is_address_arithmetic(self) -> bool {
        self.is(Properties::ADDRESS_ARITHMETIC)
    }

    /// Returns true if no operand can be a pointer to a variable.
    #[inline]
    pub fn takes_no_pointer(self) -> bool {
        self.is(Properties::TAKES_NO_POINTER)
    }

    /// Returns true if the instruction computes each component of a vector from the same component of its operands.
    #[inline]
    pub fn is_componentwise(self) -> bool {
        self.is(Properties::COMPONENTWISE)
    }

    /// Returns true if the instruction ends the invocation that executes it.
    #[inline]
    pub fn ends_invocation(self) -> bool {
        self.is(Properties::ENDS_INVOCATION)
    }

    /// Returns true if the instruction may make a pointer with Logical addressing, whatever the capabilities are.
    #[inline]
    pub fn makes_logical_pointer(self) -> bool {
        self.is(Properties::LOGICAL_POINTER)
    }

    /// Returns true if the instruction may make a pointer with Logical addressing if variable pointers are enabled.
    #[inline]
    pub fn makes_variable_pointer(self) -> bool {
        self.is(Properties::VARIABLE_POINTER)
    }

    /// Returns true if values of every type may be operands or results of the instruction.
    #[inline]
    pub fn takes_any_type(self) -> bool {
        self.is(Properties::ANY_TYPE)
    }

    /// Returns true if the instruction samples, fetches or gathers from an image.
    #[inline]
    pub fn is_image_sample(self) -> bool {
        self.is(Properties::IMAGE_SAMPLE)
    }

    /// Returns true if the instruction is a derivative, or uses one for the level of detail.
    #[inline]
    pub fn takes_derivatives(self) -> bool {
        self.is(Properties::DERIVATIVES)
    }

    /// Returns the operation of a group instruction; `None` for others.
    #[inline]
    pub fn group_operation(self) -> Option<GroupOp> {
        self.traits()?.group
    }
}
