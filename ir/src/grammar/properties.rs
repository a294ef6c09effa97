//! Properties of opcodes, from the tables: `lab/grammar/src/properties.rs` has them for each.

use super::{Class, Effects, OPS, Op, Quantifier};

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

    /// Returns true if the instruction compares integers, and not truth values.
    #[inline]
    pub fn compares_integers(self) -> bool {
        self.is_integer_comparison() && !matches!(self, Op::LogicalEqual | Op::LogicalNotEqual)
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

    /// Returns true if the instruction declares the merge block of a construct.
    #[inline]
    pub fn is_merge(self) -> bool {
        matches!(self, Op::SelectionMerge | Op::LoopMerge)
    }

    /// Returns true if the instruction ends a block that no other one of the function follows, and does not end the
    /// invocation: a return, or `OpUnreachable`.
    #[inline]
    pub fn leaves_function(self) -> bool {
        matches!(self, Op::Return | Op::ReturnValue | Op::Unreachable)
    }

    /// Returns true if the instruction is `OpFunction` or one of its parameters.
    #[inline]
    pub fn is_function_header(self) -> bool {
        matches!(self, Op::Function | Op::FunctionParameter)
    }

    /// Returns true if the instruction declares a variable, typed or untyped.
    #[inline]
    pub fn is_variable(self) -> bool {
        matches!(self, Op::Variable | Op::UntypedVariableKHR)
    }

    /// Returns true if the instruction may be removed without a change: `OpNop`, the bounds of lifetimes, assumptions.
    #[inline]
    pub fn is_hint(self) -> bool {
        matches!(self, Op::Nop | Op::LifetimeStart | Op::LifetimeStop | Op::AssumeTrueKHR)
    }

    /// Returns true if invocations wait for each other at the instruction, or announce that they got there; the
    /// execution scope is the first operand.
    #[inline]
    pub fn is_control_barrier(self) -> bool {
        matches!(self, Op::ControlBarrier | Op::ControlBarrierArriveINTEL | Op::ControlBarrierWaitINTEL)
    }

    /// Returns true if the instruction declares a type of cooperative matrices.
    #[inline]
    pub fn is_matrix_type(self) -> bool {
        matches!(self, Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV)
    }

    /// Returns true if the instruction is there for matrices of SPV_KHR_cooperative_matrix alone: their type, and what
    /// that extension, SPV_NV_cooperative_matrix2 and SPV_EXT_cooperative_matrix_maintenance1 do with them.
    #[inline]
    pub fn is_matrix_instruction(self) -> bool {
        matches!(
            self,
            Op::TypeCooperativeMatrixKHR
                | Op::CooperativeMatrixLoadKHR
                | Op::CooperativeMatrixStoreKHR
                | Op::CooperativeMatrixMulAddKHR
                | Op::CooperativeMatrixLengthKHR
        ) || self.is_extended_matrix_instruction()
    }

    /// Returns true if the instruction is one that SPV_NV_cooperative_matrix2 or SPV_EXT_cooperative_matrix_maintenance1
    /// adds for matrices of SPV_KHR_cooperative_matrix.
    #[inline]
    pub fn is_extended_matrix_instruction(self) -> bool {
        matches!(
            self,
            Op::CooperativeMatrixLoadTensorNV
                | Op::CooperativeMatrixStoreTensorNV
                | Op::CooperativeMatrixReduceNV
                | Op::CooperativeMatrixPerElementOpNV
                | Op::CooperativeMatrixConvertNV
                | Op::CooperativeMatrixTransposeNV
                | Op::CooperativeMatrixGetCoordinateEXT
        )
    }

    /// Returns true if the instruction is one of SPV_NV_cooperative_matrix.
    #[inline]
    pub fn is_nv_matrix_instruction(self) -> bool {
        matches!(
            self,
            Op::TypeCooperativeMatrixNV
                | Op::CooperativeMatrixLoadNV
                | Op::CooperativeMatrixStoreNV
                | Op::CooperativeMatrixMulAddNV
                | Op::CooperativeMatrixLengthNV
        )
    }

    /// Returns true if the instruction is one that SPV_INTEL_joint_matrix adds for matrices, or one of Intel's conversions
    /// to their component types.
    #[inline]
    pub fn is_intel_matrix_instruction(self) -> bool {
        matches!(
            self,
            Op::CooperativeMatrixLoadCheckedINTEL
                | Op::CooperativeMatrixStoreCheckedINTEL
                | Op::CooperativeMatrixConstructCheckedINTEL
                | Op::CooperativeMatrixLoadOffsetINTEL
                | Op::CooperativeMatrixStoreOffsetINTEL
                | Op::CooperativeMatrixGetElementCoordINTEL
                | Op::CooperativeMatrixPrefetchINTEL
                | Op::CooperativeMatrixApplyFunctionINTEL
        ) || self.is_intel_float_conversion()
    }

    /// Returns true if the instruction declares a type of tensor layouts or views.
    #[inline]
    pub fn is_tensor_type(self) -> bool {
        matches!(self, Op::TypeTensorLayoutNV | Op::TypeTensorViewNV)
    }

    /// Returns true if the instruction declares a type of pointers.
    #[inline]
    pub fn is_pointer_type(self) -> bool {
        matches!(self, Op::TypePointer | Op::TypeUntypedPointerKHR)
    }

    /// Returns true if the instruction names an id or a member.
    #[inline]
    pub fn is_name(self) -> bool {
        matches!(self, Op::Name | Op::MemberName)
    }

    /// Returns true if the instruction is a decoration with literal operands, of an id or of a member.
    #[inline]
    pub fn is_literal_decoration(self) -> bool {
        matches!(self, Op::Decorate | Op::MemberDecorate)
    }

    /// Returns every opcode that the grammar has, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Op> {
        OPS.iter().map(|o| o.op)
    }

    /// Returns true if the instruction is arithmetic on integers, one by one: negation, sums, products, quotients, remainders.
    #[inline]
    pub fn is_integer_arithmetic(self) -> bool {
        matches!(self, Op::SNegate | Op::IAdd | Op::ISub | Op::IMul) || self.divides_integers()
    }

    /// Returns true if the instruction divides integers: the behavior is undefined where the divisor is zero.
    #[inline]
    pub fn divides_integers(self) -> bool {
        matches!(self, Op::UDiv | Op::SDiv | Op::UMod | Op::SRem | Op::SMod)
    }

    /// Returns true if the instruction is arithmetic on floating-point numbers, one by one: negation, sums, products,
    /// quotients, remainders.
    #[inline]
    pub fn is_float_arithmetic(self) -> bool {
        self == Op::FNegate || self.is_contractible() || matches!(self, Op::FDiv | Op::FRem | Op::FMod)
    }

    /// Returns true if the instruction divides numbers and gives the quotient.
    #[inline]
    pub fn is_division(self) -> bool {
        matches!(self, Op::FDiv | Op::SDiv | Op::UDiv)
    }

    /// Returns true if a product and a sum of such instructions may be contracted into one operation.
    #[inline]
    pub fn is_contractible(self) -> bool {
        matches!(self, Op::FAdd | Op::FSub | Op::FMul)
    }

    /// Returns true if the instruction changes the width of numbers, and not their kind.
    #[inline]
    pub fn is_width_conversion(self) -> bool {
        self.is_conversion() && !self.is_int_float_conversion()
    }

    /// Returns true if the instruction converts between signed and unsigned integers with saturation.
    #[inline]
    pub fn is_saturating_conversion(self) -> bool {
        matches!(self, Op::SatConvertSToU | Op::SatConvertUToS)
    }

    /// Returns true if the instruction reads or replaces a field of bits.
    #[inline]
    pub fn is_bit_field(self) -> bool {
        matches!(self, Op::BitFieldInsert | Op::BitFieldSExtract | Op::BitFieldUExtract)
    }

    /// Returns true if the instruction orders integers, and equal integers satisfy it.
    #[inline]
    pub fn is_reflexive_order(self) -> bool {
        matches!(self, Op::ULessThanEqual | Op::UGreaterThanEqual | Op::SLessThanEqual | Op::SGreaterThanEqual)
    }

    /// Returns true if the instruction is satisfied when its first integer is less than its second.
    #[inline]
    pub fn is_strictly_less(self) -> bool {
        matches!(self, Op::ULessThan | Op::SLessThan)
    }

    /// Returns true if the instruction changes a tensor layout or view that is its first operand.
    #[inline]
    pub fn changes_tensor(self) -> bool {
        let makes = matches!(self, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV);
        (self.is_tensor_layout() || self.is_tensor_view()) && !makes
    }

    /// Returns the instructions that make a tensor layout or view and change it, each once, in the order in which none undoes
    /// what one before it set; none for other instructions.
    pub fn tensor_chain(self) -> &'static [Op] {
        if self.is_tensor_layout() {
            return &[
                Op::CreateTensorLayoutNV,
                Op::TensorLayoutSetBlockSizeNV,
                Op::TensorLayoutSetDimensionNV,
                Op::TensorLayoutSetStrideNV,
                Op::TensorLayoutSliceNV,
                Op::TensorLayoutSetClampValueNV,
            ];
        }
        if !self.is_tensor_view() {
            return &[];
        }
        &[Op::CreateTensorViewNV, Op::TensorViewSetDimensionNV, Op::TensorViewSetStrideNV, Op::TensorViewSetClipNV]
    }

    /// Returns true if the instruction changes each dimension of a tensor layout or view: behind the layout or view it has
    /// operands for each of them.
    #[inline]
    pub fn changes_dimensions(self) -> bool {
        let others = matches!(self, Op::TensorLayoutSetClampValueNV | Op::TensorViewSetClipNV);
        self.changes_tensor() && !others
    }

    /// Returns true if the instruction makes a value of any type without an operand: null or undefined.
    #[inline]
    pub fn is_null_or_undefined(self) -> bool {
        matches!(self, Op::ConstantNull | Op::Undef)
    }

    /// Returns true if the instruction makes, stores, loads, chooses or copies values as a whole, whatever they consist of.
    #[inline]
    pub fn moves_whole_values(self) -> bool {
        let moves = matches!(self, Op::Load | Op::Store | Op::Variable | Op::Phi | Op::Select | Op::CopyObject);
        moves || self.is_null_or_undefined()
    }

    /// Returns true if the instruction multiplies vectors of floating-point numbers: with one another, with numbers or with matrices.
    #[inline]
    pub fn multiplies_vectors(self) -> bool {
        matches!(self, Op::Dot | Op::VectorTimesScalar | Op::VectorTimesMatrix | Op::MatrixTimesVector)
    }

    /// Returns true if the instruction takes components out of composites, puts some in, or orders them anew.
    #[inline]
    pub fn moves_components(self) -> bool {
        let vectors = matches!(self, Op::VectorShuffle | Op::VectorExtractDynamic | Op::VectorInsertDynamic);
        vectors || matches!(self, Op::CompositeExtract | Op::CompositeInsert | Op::Transpose)
    }

    /// Returns true if the result is the operand, a matrix, with another component type or use or with its rows as columns.
    #[inline]
    pub fn rearranges_matrix(self) -> bool {
        matches!(self, Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV)
    }

    /// Returns true if the instruction gives the number of elements that an invocation holds of a matrix.
    #[inline]
    pub fn is_matrix_length(self) -> bool {
        matches!(self, Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV)
    }

    /// Returns true if the instruction converts between numbers and the formats of SPV_INTEL_bfloat16_conversion and
    /// SPV_INTEL_tensor_float32_conversion.
    #[inline]
    pub fn is_intel_float_conversion(self) -> bool {
        matches!(self, Op::ConvertFToBF16INTEL | Op::ConvertBF16ToFINTEL | Op::RoundFToTF32INTEL)
    }

    /// Returns true if the instruction converts between matrices and arrays (SPV_QCOM_cooperative_matrix_conversion).
    #[inline]
    pub fn is_qcom_conversion(self) -> bool {
        let composite = matches!(self, Op::CompositeConstructCoopMatQCOM | Op::CompositeExtractCoopMatQCOM);
        composite || matches!(self, Op::BitCastArrayQCOM | Op::ExtractSubArrayQCOM)
    }

    /// Returns the number of operands that the instruction has at least, without result type and result.
    pub fn required_operands(self) -> usize {
        let required = |i: &super::OpInfo| i.operands.iter().filter(|o| o.1 == Quantifier::One).count();
        let (ty, result) = self.has_type_and_result();
        self.info().map_or(0, |i| required(i) - usize::from(ty) - usize::from(result))
    }

    /// Returns the operation of a group instruction; `None` for others.
    #[inline]
    pub fn group_operation(self) -> Option<GroupOp> {
        self.traits()?.group
    }
}

#[cfg(test)]
mod tests {
    use super::Op;

    /// An opcode that is added with the name of its kin fails this test until the property has it.
    #[test]
    fn opcodes_have_the_properties_of_their_kin() {
        type Row = (&'static str, fn(Op) -> bool, fn(&str) -> bool);
        // The names of the older extension are those of SPV_KHR_cooperative_matrix.
        fn is_nv(name: &str) -> bool {
            let name = name.strip_suffix("NV").map(|name| name.strip_prefix("Type").unwrap_or(name));
            let name = name.and_then(|name| name.strip_prefix("CooperativeMatrix"));
            name.is_some_and(|name| ["", "Load", "Store", "MulAdd", "Length"].contains(&name))
        }
        /// The arithmetic of core SPIR-V on numbers, without what is for vectors and matrices, or gives a pair.
        fn arithmetic(n: &str, kind: char) -> bool {
            let rest = n.strip_prefix(kind).or_else(|| n.strip_prefix(['S', 'U']).filter(|_| kind == 'I'));
            rest.is_some_and(|r| ["Negate", "Add", "Sub", "Mul", "Div", "Rem", "Mod"].contains(&r))
        }
        let rows: [Row; 27] = [
            ("multiplies_vectors", Op::multiplies_vectors, |n| {
                n == "Dot" || n.starts_with("VectorTimes") || n == "MatrixTimesVector"
            }),
            ("moves_components", Op::moves_components, |n| {
                let dynamic = n.starts_with("Vector") && (n.ends_with("Dynamic") || n.ends_with("Shuffle"));
                dynamic || ["CompositeExtract", "CompositeInsert", "Transpose"].contains(&n)
            }),
            ("compares_integers", Op::compares_integers, |n| {
                let rest = n.strip_prefix(['I', 'S', 'U']).unwrap_or_default();
                ["Equal", "NotEqual"].contains(&rest) || rest.starts_with("LessThan") || rest.starts_with("GreaterThan")
            }),
            ("is_integer_arithmetic", Op::is_integer_arithmetic, |n| arithmetic(n, 'I')),
            ("is_float_arithmetic", Op::is_float_arithmetic, |n| arithmetic(n, 'F')),
            ("is_null_or_undefined", Op::is_null_or_undefined, |n| n == "ConstantNull" || n == "Undef"),
            ("is_matrix_length", Op::is_matrix_length, |n| n.starts_with("CooperativeMatrixLength")),
            ("is_bit_field", Op::is_bit_field, |n| n.starts_with("BitField")),
            ("is_merge", Op::is_merge, |n| n.ends_with("Merge")),
            ("leaves_function", Op::leaves_function, |n| n.starts_with("Return") || n == "Unreachable"),
            ("is_function_header", Op::is_function_header, |n| n == "Function" || n == "FunctionParameter"),
            ("is_variable", Op::is_variable, |n| n.ends_with("Variable") || n.ends_with("VariableKHR")),
            ("is_hint", Op::is_hint, |n| n.starts_with("Lifetime") || n.starts_with("Assume") || n == "Nop"),
            ("is_control_barrier", Op::is_control_barrier, |n| n.starts_with("ControlBarrier")),
            ("is_matrix_type", Op::is_matrix_type, |n| n.starts_with("TypeCooperativeMatrix")),
            ("is_matrix_instruction", Op::is_matrix_instruction, |n| {
                let own = n.starts_with("CooperativeMatrix") && !n.ends_with("INTEL") && !is_nv(n);
                own || n == "TypeCooperativeMatrixKHR"
            }),
            ("is_nv_matrix_instruction", Op::is_nv_matrix_instruction, is_nv),
            ("is_intel_matrix_instruction", Op::is_intel_matrix_instruction, |n| {
                let conversion = n.contains("BF16") || n.contains("TF32");
                n.ends_with("INTEL") && (n.starts_with("CooperativeMatrix") || conversion)
            }),
            ("is_tensor_type", Op::is_tensor_type, |n| {
                n.starts_with("TypeTensorLayout") || n.starts_with("TypeTensorView")
            }),
            ("is_pointer_type", Op::is_pointer_type, |n| {
                n.starts_with("Type") && n.contains("Pointer") && n != "TypeForwardPointer"
            }),
            ("is_name", Op::is_name, |n| n == "Name" || n == "MemberName"),
            ("is_division", Op::is_division, |n| n.ends_with("Div")),
            ("is_width_conversion", Op::is_width_conversion, |n| n.len() == 8 && n.ends_with("Convert")),
            ("is_saturating_conversion", Op::is_saturating_conversion, |n| n.starts_with("SatConvert")),
            ("is_reflexive_order", Op::is_reflexive_order, |n| {
                (n.starts_with('U') || n.starts_with('S')) && n.ends_with("ThanEqual")
            }),
            ("changes_tensor", Op::changes_tensor, |n| n.starts_with("TensorLayout") || n.starts_with("TensorView")),
            ("is_qcom_conversion", Op::is_qcom_conversion, |n| {
                n.ends_with("QCOM") && n.contains("Array") || n.contains("CoopMat")
            }),
        ];
        for (property, has, is_kin) in rows {
            let kin = |op: &Op| is_kin(op.name().unwrap_or_default().trim_start_matches("Op"));
            let with: Vec<Op> = Op::all().filter(|op| has(*op)).collect();
            let named: Vec<Op> = Op::all().filter(kin).collect();
            assert_eq!(with, named, "{property}");
            assert!(with.len() > 1, "{property}");
        }
    }

    /// A chain has each instruction of its kind once.
    #[test]
    fn chains_of_tensors_are_whole() {
        for kind in [Op::is_tensor_layout, Op::is_tensor_view] {
            let mut chain = Op::all().find(|op| kind(*op)).expect("an opcode").tensor_chain().to_vec();
            assert!(!chain[0].changes_tensor(), "{chain:?}");
            assert!(chain[1..].iter().all(|op| op.changes_tensor()), "{chain:?}");
            chain.sort_by_key(|op| op.0);
            let mut all: Vec<Op> = Op::all().filter(|op| kind(*op)).collect();
            all.sort_by_key(|op| op.0);
            assert_eq!(chain, all);
        }
        assert!(Op::Load.tensor_chain().is_empty());
        let dimensions = Op::all().filter(|op| op.changes_dimensions()).count();
        assert_eq!(dimensions, 6);
    }

    #[test]
    fn required_operands_are_those_of_the_grammar() {
        let found = [Op::IAdd, Op::FNegate, Op::FmaKHR, Op::Load, Op::Store, Op::Return].map(Op::required_operands);
        assert_eq!(found, [2, 1, 3, 1, 2, 0]);
    }
}
