//! The SPIR-V grammar: which operands an opcode takes, which parameters an enumerant adds, and their names.
//!
//! The tables are written at build time from rspirv's (SPIR-V SDK 1.4.341) and `grammar/supplement.rs`. Look-ups by
//! opcode are one array access. What the tables don't know is not an error anywhere: see [`crate::binary`].

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
    pub capabilities: &'static [u32],
    /// Any one of these extensions enables it.
    pub extensions: &'static [&'static str],
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
    /// Any one of these capabilities enables it; empty: always available. A capability itself declares all of these as well.
    pub capabilities: &'static [u32],
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
    /// Those of the scope instance that this operand names, counted without result type and result.
    Operand(usize),
    /// Those of the subgroup: no operand says so.
    Subgroup,
}

/// What is asked of every instruction.
struct Traits {
    has_type: bool,
    has_result: bool,
    is_type: bool,
    is_constant: bool,
    is_spec_constant: bool,
    has_scopes: bool,
    is_atomic: bool,
    /// 0 for `None`, 1 for `ExecutionScope::Subgroup`, 2 and more for an operand.
    execution: u8,
    /// Where the words without result type and result are so many, `most` of 255 being any number, and by a multiple of
    /// `step` more than the least, ...
    least: u8,
    most: u8,
    step: u8,
    /// ... each is an operand: as many as this are ids, and what follows are literal numbers.
    ids: u8,
}

include!(concat!(env!("OUT_DIR"), "/grammar.rs"));

impl Op {
    /// The table row, or `None` for an opcode that the grammar does not know.
    #[inline]
    pub fn info(self) -> Option<&'static OpInfo> {
        let slot = *OP_INDEX.get(usize::from(self.0))?;
        OPS.get(usize::from(slot))
    }

    /// The name without the leading `Op`, or `None`.
    pub fn name(self) -> Option<&'static str> {
        self.info().map(|i| i.name)
    }

    /// The opcode of a name without the leading `Op`; the second names of renamed instructions count too.
    pub fn from_name(name: &str) -> Option<Op> {
        use std::sync::LazyLock;
        static BY_NAME: LazyLock<rustc_hash::FxHashMap<&'static str, Op>> = LazyLock::new(|| {
            let renamed = ALIASES.iter().filter(|a| a.0.is_none()).map(|a| (a.2, Op(a.1 as u16)));
            OPS.iter().map(|i| (i.name, i.op)).chain(renamed).collect()
        });
        BY_NAME.get(name).copied()
    }

    #[inline]
    fn traits(self) -> Option<&'static Traits> {
        let slot = *OP_INDEX.get(usize::from(self.0))?;
        TRAITS.get(usize::from(slot))
    }

    /// Where the words of an instruction, all but the first, begin with a result type and a result as they must: what
    /// those are, and the rest. Of an unknown opcode all is rest.
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

    /// Whether the instruction has a result type, and whether it has a result.
    #[inline]
    pub fn has_type_and_result(self) -> (bool, bool) {
        self.traits().map_or((false, false), |t| (t.has_type, t.has_result))
    }

    /// Where each of so many words, without result type and result, is an operand: how many of them are ids; what
    /// follows those are literal numbers. `None` where it takes more than the opcode to say what the words are.
    #[inline]
    pub(crate) fn plain_operands(self, words: usize) -> Option<usize> {
        let t = self.traits()?;
        let (least, most) = (usize::from(t.least), usize::from(t.most));
        let fits = words >= least && (words <= most || t.most == u8::MAX);
        let whole = t.step == 1 || (words - least).is_multiple_of(usize::from(t.step));
        (fits && whole).then(|| words.min(if t.ids == u8::MAX { words } else { usize::from(t.ids) }))
    }

    /// Whether the instruction ends a block.
    #[inline]
    pub fn is_terminator(self) -> bool {
        matches!(
            self,
            Op::Branch
                | Op::BranchConditional
                | Op::Switch
                | Op::Return
                | Op::ReturnValue
                | Op::Kill
                | Op::Unreachable
                | Op::TerminateInvocation
                | Op::IgnoreIntersectionKHR
                | Op::TerminateRayKHR
                | Op::EmitMeshTasksEXT
        )
    }

    /// Whether the instruction declares a type (`OpType...`, forward pointers not included).
    #[inline]
    pub fn is_type(self) -> bool {
        self.traits().is_some_and(|t| t.is_type)
    }

    /// Whether the instruction makes a constant, specialisable or not (`OpUndef` is not one).
    #[inline]
    pub fn is_constant(self) -> bool {
        self.traits().is_some_and(|t| t.is_constant)
    }

    /// Whether the instruction makes a constant that can be specialised, or one of such.
    #[inline]
    pub fn is_spec_constant(self) -> bool {
        self.traits().is_some_and(|t| t.is_spec_constant)
    }

    /// Whether the instruction takes an execution or memory scope: barriers, atomics and group operations.
    #[inline]
    pub fn has_scopes(self) -> bool {
        self.traits().is_some_and(|t| t.has_scopes)
    }

    /// The invocations that execute the instruction together: those of group and subgroup instructions and of control barriers.
    /// `None` for what each invocation does by itself, and for matrices, whose types say their scope.
    #[inline]
    pub fn execution_scope(self) -> Option<ExecutionScope> {
        match self.traits()?.execution {
            0 => None,
            1 => Some(ExecutionScope::Subgroup),
            n => Some(ExecutionScope::Operand(usize::from(n) - 2)),
        }
    }

    /// Whether the instruction is an atomic operation on memory, a load or a store included.
    #[inline]
    pub fn is_atomic(self) -> bool {
        self.traits().is_some_and(|t| t.is_atomic)
    }

    /// Whether the instruction compares integers or truth values.
    pub fn is_integer_comparison(self) -> bool {
        matches!(
            self,
            Op::IEqual
                | Op::INotEqual
                | Op::LogicalEqual
                | Op::LogicalNotEqual
                | Op::ULessThan
                | Op::ULessThanEqual
                | Op::UGreaterThan
                | Op::UGreaterThanEqual
                | Op::SLessThan
                | Op::SLessThanEqual
                | Op::SGreaterThan
                | Op::SGreaterThanEqual
        )
    }

    /// Whether the instruction compares numbers, pointers or truth values, or says what kind of number one is: its result is a
    /// truth value, or a vector of them.
    pub fn is_comparison(self) -> bool {
        self.is_integer_comparison()
            || matches!(
                self,
                Op::PtrEqual
                    | Op::PtrNotEqual
                    | Op::FOrdEqual
                    | Op::FUnordEqual
                    | Op::FOrdNotEqual
                    | Op::LessOrGreater
                    | Op::FUnordNotEqual
                    | Op::FOrdLessThan
                    | Op::FUnordLessThan
                    | Op::FOrdGreaterThan
                    | Op::FUnordGreaterThan
                    | Op::FOrdLessThanEqual
                    | Op::FUnordLessThanEqual
                    | Op::FOrdGreaterThanEqual
                    | Op::FUnordGreaterThanEqual
                    | Op::Ordered
                    | Op::Unordered
                    | Op::IsNan
                    | Op::IsInf
                    | Op::IsFinite
                    | Op::SignBitSet
            )
    }

    /// Whether the instruction is only about source positions.
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
    /// Whether a word of this kind is an id.
    pub const fn is_id(self) -> bool {
        matches!(self, Kind::IdRef | Kind::IdScope | Kind::IdMemorySemantics | Kind::IdResult | Kind::IdResultType)
    }

    /// The enumerant with this value (for masks: with this one bit).
    pub fn enumerant(self, value: u32) -> Option<&'static Enumerant> {
        let rows = self.enumerants()?;
        rows.binary_search_by_key(&value, |e| e.value).ok().map(|i| &rows[i])
    }

    /// The enumerant with this name; second names of renamed ones count too.
    pub fn enumerant_named(self, name: &str) -> Option<u32> {
        use std::sync::LazyLock;
        type ByName = rustc_hash::FxHashMap<(Kind, &'static str), u32>;
        static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
            let second = ALIASES.iter().filter_map(|a| Some(((a.0?, a.2), a.1)));
            let rows =
                |kind: &'static Kind| kind.enumerants().unwrap_or(&[]).iter().map(|e| ((*kind, e.name), e.value));
            second.chain(Kind::ALL.iter().flat_map(rows)).collect()
        });
        BY_NAME.get(&(self, name)).copied()
    }
}

/// The capabilities that a capability declares implicitly, through others as well; not itself.
pub fn implied_capabilities(capability: u32) -> Vec<u32> {
    let mut all = vec![capability];
    let mut at = 0;
    while let Some(c) = all.get(at) {
        let implied = Kind::Capability.enumerant(*c).map_or(&[][..], |e| e.capabilities);
        all.extend(implied.iter().filter(|c| !all.contains(c)).collect::<Vec<_>>());
        at += 1;
    }
    all.split_off(1)
}

/// The names that opcodes (`None`) and enumerants have besides those in the tables: text may carry either.
pub fn second_names() -> impl Iterator<Item = (Option<Kind>, u32, &'static str)> {
    ALIASES.iter().copied()
}

/// The table of an extended instruction set by its import name, where one is known. `NonSemantic.Shader.DebugInfo` is
/// matched without its revision: later ones only add instructions.
pub fn ext_inst_set(import: &str) -> Option<&'static [ExtInstInfo]> {
    match import {
        "GLSL.std.450" => Some(GLSL_STD_450),
        "OpenCL.std" => Some(OPENCL_STD),
        _ if import.starts_with("NonSemantic.Shader.DebugInfo.") => Some(SHADER_DEBUG_INFO),
        _ => None,
    }
}
