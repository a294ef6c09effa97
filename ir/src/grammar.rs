//! The SPIR-V grammar: the operands of opcodes, the parameters of enumerants, and the names of both.
//!
//! `coop-grammar` generates the tables in `grammar/tables.rs` from rspirv's (SPIR-V SDK 1.4.341), from a supplement for
//! what those lack (`lab/grammar/src/supplement.rs`), and from the class and effects of each opcode
//! (`lab/grammar/src/properties.rs`). Look-ups by opcode are one array access. An opcode or enumerant that the tables
//! lack is never an error: see [`crate::binary`].

mod properties;
#[rustfmt::skip]
mod tables;

use crate::spv::Capability;
pub use properties::GroupOp;
use properties::Properties;
use tables::{ALIASES, GLSL_STD_450, OP_INDEX, OPENCL_STD, SHADER_DEBUG_INFO, SINCE, TRAITS};
pub use tables::{Kind, OPS};

/// An opcode. Any 16-bit number is one; the named constants are those that the grammar knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(pub u16);

/// How often an operand may appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Exactly once.
    One,
    /// Once or not at all.
    Optional,
    /// Any number of times, up to the end of the instruction.
    Repeated,
}

/// The shape of an operand list.
pub type Operands = &'static [(Kind, Quantifier)];

/// A row of the instruction table.
#[derive(Debug)]
pub struct OpInfo {
    /// The opcode.
    pub op: Op,
    /// Its name without the leading `Op`.
    pub name: &'static str,
    /// Its operands, result type and result included.
    pub operands: Operands,
    /// Any one of these capabilities enables it; empty: always available.
    pub capabilities: &'static [Capability],
    /// Any one of these extensions enables it.
    pub extensions: &'static [&'static str],
    /// The section of the specification that it belongs to.
    pub class: Class,
    /// Its effects besides computing the result.
    pub effects: Effects,
}

/// One value of an enumeration, or one bit of a mask.
#[derive(Debug)]
pub struct Enumerant {
    /// The value, or the bit.
    pub value: u32,
    /// Its name in assembly text.
    pub name: &'static str,
    /// The operands that follow when it is present.
    pub params: Operands,
    /// True if those operands are not values.
    pub not_values: bool,
    /// Any one of these capabilities enables it; empty: always available. A capability itself declares all of these as well.
    pub capabilities: &'static [Capability],
    /// Any one of these extensions enables it.
    pub extensions: &'static [&'static str],
}

/// A row of an extended instruction set.
#[derive(Debug)]
pub struct ExtInstInfo {
    /// The instruction's number in its set.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its operands.
    pub operands: Operands,
}

/// The invocations that execute an instruction together, to exchange values or to wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExecutionScope {
    /// The invocations of the scope in this operand, counted without result type and result.
    Operand(usize),
    /// The invocations of the subgroup; there is no scope operand.
    Subgroup,
}

/// The properties of an opcode that are needed for every instruction.
struct Traits {
    has_type: bool,
    has_result: bool,
    is_type: bool,
    is_constant: bool,
    is_spec_constant: bool,
    has_scopes: bool,
    is_atomic: bool,
    properties: Properties,
    /// The operands that are not values: a bit for each word after result type and result, the last for all that follow.
    not_values: u16,
    group: Option<GroupOp>,
    /// 0 for `None`, 1 for `ExecutionScope::Subgroup`, 2 and more for an operand.
    execution: u8,
    /// If the number of words without result type and result is between `least` and `most` (255 is unbounded), and
    /// exceeds `least` by a multiple of `step`, ...
    least: u8,
    most: u8,
    step: u8,
    /// ... each word is an operand: this many ids, then literal numbers.
    ids: u8,
}

/// The section of the SPIR-V specification that an instruction belongs to (chapter 3.3); extensions are with the
/// section whose instructions they resemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Class {
    Annotation,
    Arithmetic,
    Atomic,
    Barrier,
    Bit,
    Composite,
    Constant,
    ControlFlow,
    Conversion,
    CooperativeMatrix,
    CooperativeVector,
    Debug,
    Derivative,
    DeviceSideEnqueue,
    Extension,
    Fpga,
    Function,
    Graph,
    Group,
    Image,
    Memory,
    Miscellaneous,
    ModeSetting,
    MotionEstimation,
    NodePayload,
    /// Instructions among the invocations of a subgroup, those of Intel's extensions included.
    NonUniform,
    Pipe,
    Primitive,
    RayTracing,
    Relational,
    /// Tensors of SPV_ARM_tensors.
    Tensor,
    /// Layouts and views of SPV_NV_tensor_addressing.
    TensorAddressing,
    Type,
}

/// The effects of an instruction besides computing its result: a set.
///
/// These are the effects that follow from the opcode. An [`Op::ExtInst`] has no effects here, and a load with
/// `Volatile` has the same as another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u8);

impl Effects {
    /// No effects.
    pub const NONE: Effects = Effects(0);
    /// Reads memory or an image, or something else that may change between two executions.
    pub const READS: Effects = Effects(1);
    /// Writes memory, an image or an output.
    pub const WRITES: Effects = Effects(2);
    /// Orders memory accesses or waits for other invocations.
    pub const BARRIER: Effects = Effects(4);
    /// Depends on which other invocations execute it, or on their operands.
    pub const EXCHANGES: Effects = Effects(8);
    /// Decides what is executed next, or ends the invocation.
    pub const CONTROL: Effects = Effects(16);
    /// Calls functions, which have effects of their own.
    pub const CALLS: Effects = Effects(32);

    /// Returns true if one of `others` is in the set.
    pub const fn any(self, others: Effects) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::ops::BitOr for Effects {
    type Output = Effects;

    fn bitor(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }
}

impl std::fmt::Debug for Effects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = ["READS", "WRITES", "BARRIER", "EXCHANGES", "CONTROL", "CALLS"];
        f.debug_set().entries(all.iter().enumerate().filter(|(i, _)| self.0 & 1 << i != 0).map(|e| e.1)).finish()
    }
}

impl Op {
    /// Returns the table row, or `None` for an opcode that the grammar does not know.
    #[inline]
    pub fn info(self) -> Option<&'static OpInfo> {
        let slot = *OP_INDEX.get(usize::from(self.0))?;
        OPS.get(usize::from(slot))
    }

    /// Returns the name without the leading `Op`, or `None`.
    pub fn name(self) -> Option<&'static str> {
        self.info().map(|i| i.name)
    }

    /// Returns the opcode with a name without the leading `Op`; second names of renamed instructions are included.
    pub fn from_name(name: &str) -> Option<Op> {
        use std::sync::LazyLock;
        static BY_NAME: LazyLock<crate::hash::FxHashMap<&'static str, Op>> = LazyLock::new(|| {
            let renamed = ALIASES.iter().filter(|a| a.0.is_none()).map(|a| (a.2, Op(a.1 as u16)));
            OPS.iter().map(|i| (i.name, i.op)).chain(renamed).collect()
        });
        BY_NAME.get(name).copied()
    }

    /// Returns the first version of SPIR-V that has the instruction: 1.0 for one that an extension adds.
    pub fn since(self) -> (u8, u8) {
        since(None, u32::from(self.0))
    }

    #[inline]
    fn traits(self) -> Option<&'static Traits> {
        let slot = *OP_INDEX.get(usize::from(self.0))?;
        TRAITS.get(usize::from(slot))
    }

    /// Splits off result type and result from the words of an instruction without the first one, if they are there as
    /// they must be. Of an unknown opcode there are none.
    #[inline]
    pub(crate) fn split(self, words: &[u32]) -> Option<(Option<u32>, Option<u32>, &[u32])> {
        match (self.has_type_and_result(), words) {
            ((true, true), [ty, result, rest @ ..]) => Some((Some(*ty), Some(*result), rest)),
            ((false, true), [result, rest @ ..]) => Some((None, Some(*result), rest)),
            ((true, false), [ty, rest @ ..]) => Some((Some(*ty), None, rest)),
            ((false, false), rest) => Some((None, None, rest)),
            _ => None,
        }
    }

    /// Returns true for the first value if the instruction has a result type, for the second if it has a result.
    #[inline]
    pub fn has_type_and_result(self) -> (bool, bool) {
        self.traits().map_or((false, false), |t| (t.has_type, t.has_result))
    }

    /// Returns how many of so many words, without result type and result, are ids, if each word is an operand; the
    /// others are literal numbers. `None` if it takes more than the opcode to decode the words.
    #[inline]
    pub(crate) fn plain_operands(self, words: usize) -> Option<usize> {
        let t = self.traits()?;
        let (least, most) = (usize::from(t.least), usize::from(t.most));
        let fits = words >= least && (words <= most || t.most == u8::MAX);
        let whole = t.step == 1 || (words - least).is_multiple_of(usize::from(t.step));
        (fits && whole).then(|| words.min(if t.ids == u8::MAX { words } else { usize::from(t.ids) }))
    }

    /// Returns the operands that are not values, but types, functions, labels, strings or instruction sets: a bit for each
    /// word after result type and result, the last one for all that follow. Of an unknown opcode it is every one.
    #[inline]
    pub(crate) fn not_values(self) -> u16 {
        self.traits().map_or(u16::MAX, |t| t.not_values)
    }

    /// Returns true if the instruction declares a type (`OpType...`, forward pointers not included).
    #[inline]
    pub fn is_type(self) -> bool {
        self.traits().is_some_and(|t| t.is_type)
    }

    /// Returns true if the instruction makes a constant, specializable or not (`OpUndef` is not one).
    #[inline]
    pub fn is_constant(self) -> bool {
        self.traits().is_some_and(|t| t.is_constant)
    }

    /// Returns true if the instruction makes a constant that can be specialized, or one of such.
    #[inline]
    pub fn is_spec_constant(self) -> bool {
        self.traits().is_some_and(|t| t.is_spec_constant)
    }

    /// Returns true if the instruction takes an execution or memory scope: barriers, atomics and group operations.
    #[inline]
    pub fn has_scopes(self) -> bool {
        self.traits().is_some_and(|t| t.has_scopes)
    }

    /// Returns true if the instruction is for cooperative matrices, tensor layouts or views whatever its operands are:
    /// a capability for them enables it.
    #[inline]
    pub fn is_matrix_op(self) -> bool {
        // Most instructions are core instructions, and none of those is.
        self.0 >= Op::TypeCooperativeMatrixKHR.0
            && self.info().is_some_and(|i| i.capabilities.iter().any(|c| crate::extensions::is_matrix_capability(*c)))
    }

    /// Returns true if the instruction is one of SPV_NV_cooperative_matrix, the oldest extension.
    #[inline]
    pub fn is_nv_matrix_op(self) -> bool {
        (Op::TypeCooperativeMatrixNV.0..=Op::CooperativeMatrixLengthNV.0).contains(&self.0)
    }

    /// Returns true if the instruction is one of SPV_INTEL_joint_matrix.
    #[inline]
    pub fn is_intel_matrix_op(self) -> bool {
        self.is_matrix_op() && self.info().is_some_and(|i| i.extensions.contains(&"SPV_INTEL_joint_matrix"))
    }

    /// Returns true if `OpSpecConstantOp` takes the instruction as its operation in a module with these capabilities.
    pub fn is_specializable(self, has: impl Fn(Capability) -> bool) -> bool {
        use Capability as C;
        match self {
            Op::SConvert
            | Op::UConvert
            | Op::FConvert
            | Op::SNegate
            | Op::Not
            | Op::IAdd
            | Op::ISub
            | Op::IMul
            | Op::UDiv
            | Op::SDiv
            | Op::UMod
            | Op::SRem
            | Op::SMod
            | Op::ShiftRightLogical
            | Op::ShiftRightArithmetic
            | Op::ShiftLeftLogical
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::BitwiseAnd
            | Op::VectorShuffle
            | Op::CompositeExtract
            | Op::CompositeInsert
            | Op::LogicalOr
            | Op::LogicalAnd
            | Op::LogicalNot
            | Op::LogicalEqual
            | Op::LogicalNotEqual
            | Op::Select
            | Op::IEqual
            | Op::INotEqual
            | Op::ULessThan
            | Op::SLessThan
            | Op::UGreaterThan
            | Op::SGreaterThan
            | Op::ULessThanEqual
            | Op::SLessThanEqual
            | Op::UGreaterThanEqual
            | Op::SGreaterThanEqual
            // SPV_NV_cooperative_matrix adds only one of these; compilers and consumers use the other as well.
            | Op::CooperativeMatrixLengthNV
            | Op::CooperativeMatrixLengthKHR => true,
            Op::QuantizeToF16 => has(C::Shader),
            Op::ConvertFToS
            | Op::ConvertSToF
            | Op::ConvertFToU
            | Op::ConvertUToF
            | Op::ConvertPtrToU
            | Op::ConvertUToPtr
            | Op::GenericCastToPtr
            | Op::PtrCastToGeneric
            | Op::Bitcast
            | Op::FNegate
            | Op::FAdd
            | Op::FSub
            | Op::FMul
            | Op::FDiv
            | Op::FRem
            | Op::FMod
            | Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::UntypedAccessChainKHR
            | Op::UntypedInBoundsAccessChainKHR
            | Op::UntypedPtrAccessChainKHR
            | Op::UntypedInBoundsPtrAccessChainKHR => has(C::Kernel),
            _ => false,
        }
    }

    /// Returns the invocations that execute the instruction together: those of group and subgroup instructions and of
    /// control barriers. `None` for instructions that each invocation executes by itself, and for matrices, whose types
    /// have the scope.
    #[inline]
    pub fn execution_scope(self) -> Option<ExecutionScope> {
        match self.traits()?.execution {
            0 => None,
            1 => Some(ExecutionScope::Subgroup),
            n => Some(ExecutionScope::Operand(usize::from(n) - 2)),
        }
    }

    /// Returns true if the instruction is an atomic operation on memory, a load or a store included.
    #[inline]
    pub fn is_atomic(self) -> bool {
        self.traits().is_some_and(|t| t.is_atomic)
    }

    /// Returns true if the instruction is one of an extended set.
    #[inline]
    pub fn is_ext_inst(self) -> bool {
        matches!(self, Op::ExtInst | Op::ExtInstWithForwardRefsKHR)
    }

    /// Returns true if the instruction is only a source position.
    #[inline]
    pub fn is_line(self) -> bool {
        matches!(self, Op::Line | Op::NoLine)
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "Op{name}"),
            None => write!(f, "Op#{}", self.0),
        }
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Kind {
    /// Returns true if a word of this kind is an id.
    pub const fn is_id(self) -> bool {
        matches!(self, Kind::IdRef | Kind::IdScope | Kind::IdMemorySemantics | Kind::IdResult | Kind::IdResultType)
    }

    /// Returns the enumerant with this value (for masks: with this one bit).
    pub fn enumerant(self, value: u32) -> Option<&'static Enumerant> {
        let rows = self.enumerants()?;
        rows.binary_search_by_key(&value, |e| e.value).ok().map(|i| &rows[i])
    }

    /// Returns the first version of SPIR-V that has an enumerant: 1.0 for one that an extension adds.
    pub fn since(self, value: u32) -> (u8, u8) {
        since(Some(self), value)
    }

    /// Returns the enumerant with this name; second names of renamed ones are included.
    pub fn enumerant_named(self, name: &str) -> Option<u32> {
        use std::sync::LazyLock;
        type ByName = crate::hash::FxHashMap<(Kind, &'static str), u32>;
        static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
            let second = ALIASES.iter().filter_map(|a| Some(((a.0?, a.2), a.1)));
            let rows =
                |kind: &'static Kind| kind.enumerants().unwrap_or(&[]).iter().map(|e| ((*kind, e.name), e.value));
            second.chain(Kind::ALL.iter().flat_map(rows)).collect()
        });
        BY_NAME.get(&(self, name)).copied()
    }
}

fn since(kind: Option<Kind>, number: u32) -> (u8, u8) {
    let row = SINCE.binary_search_by_key(&(kind, number), |row| (row.0, row.1));
    (1, row.map_or(0, |at| SINCE[at].2))
}

/// Returns the capabilities that a capability implies, directly or through others, without itself.
pub fn implied_capabilities(capability: Capability) -> Vec<Capability> {
    let mut all = vec![capability];
    let mut at = 0;
    while let Some(c) = all.get(at) {
        let implied = Kind::Capability.enumerant(c.0).map_or(&[][..], |e| e.capabilities);
        for c in implied {
            if !all.contains(c) {
                all.push(*c);
            }
        }
        at += 1;
    }
    all.split_off(1)
}

/// Returns the second names of opcodes (`None`) and enumerants: text may have either name.
pub fn second_names() -> impl Iterator<Item = (Option<Kind>, u32, &'static str)> {
    ALIASES.iter().copied()
}

/// Returns the table of an extended instruction set by its import name, if there is one. `NonSemantic.Shader.DebugInfo`
/// is matched without its revision: later ones only add instructions.
pub fn ext_inst_set(import: &str) -> Option<&'static [ExtInstInfo]> {
    match import {
        "GLSL.std.450" => Some(GLSL_STD_450),
        "OpenCL.std" => Some(OPENCL_STD),
        _ if import.starts_with("NonSemantic.Shader.DebugInfo.") => Some(SHADER_DEBUG_INFO),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spv::{CooperativeMatrixLayout, CooperativeMatrixReduce, OpenClStd};

    #[test]
    fn instructions_about_matrices() {
        let found: Vec<u16> = OPS.iter().map(|o| o.op).filter(|op| op.is_matrix_op()).map(|op| op.0).collect();
        // KHR; QCOM; ConvertNV; NV and GetCoordinate; NV2 and tensor addressing; Intel.
        let ranges = [
            4456..=4460,
            4497..=4497,
            4540..=4542,
            5293..=5293,
            5358..=5363,
            5366..=5379,
            5382..=5382,
            5384..=5384,
            5390..=5390,
            6193..=6195,
            6239..=6240,
            6440..=6440,
            6448..=6449,
        ];
        assert_eq!(found, ranges.into_iter().flatten().collect::<Vec<u16>>());
    }

    #[test]
    fn versions_that_items_became_part_of() {
        assert!(SINCE.is_sorted_by_key(|row| (row.0, row.1)));
        let since = [Op::Load, Op::GroupNonUniformShuffle, Op::CopyLogical, Op::SDot, Op::CooperativeMatrixLoadKHR];
        assert_eq!(since.map(Op::since), [(1, 0), (1, 3), (1, 4), (1, 6), (1, 0)]);
        let of = |kind: Kind, name: &str| kind.since(kind.enumerant_named(name).expect("a name"));
        assert_eq!(of(Kind::LoopControl, "PeelCount"), (1, 4));
        assert_eq!(of(Kind::LoopControl, "Unroll"), (1, 0));
        assert_eq!(of(Kind::StorageClass, "PhysicalStorageBuffer"), (1, 5));
    }

    #[test]
    fn named_enumerants_are_those_of_the_tables() {
        let named = |kind: Kind, name: &str| kind.enumerant_named(name).expect("a name");
        assert_eq!(Capability::CooperativeMatrixKHR.0, named(Kind::Capability, "CooperativeMatrixKHR"));
        assert_eq!(Capability::CooperativeMatrixConversionsEXT, Capability(5429));
        assert_eq!(Capability::CooperativeMatrixReductionsEXT, Capability::CooperativeMatrixReductionsNV);
        assert_eq!(CooperativeMatrixReduce::_2x2.0, named(Kind::CooperativeMatrixReduce, "2x2"));
        assert_eq!(CooperativeMatrixLayout::PackedINTEL, CooperativeMatrixLayout(2));
        assert_eq!(OpenClStd::printf, OpenClStd(184));
    }
}
