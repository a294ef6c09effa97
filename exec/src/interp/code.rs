//! The executable form: instructions whose operands are rows of the register file.
//!
//! A *row* holds one slot of one value for every invocation of a workgroup. SPIR-V has no recursion, so every value of
//! every function has rows of its own for the whole run, constants and variables of the storage classes Function,
//! Private and Input included. The nodes of a function are numbered so that running the lowest numbered one that has
//! waiting invocations makes them reconverge at the earliest possible point: see `order`.

use coop_ir::spv::{CooperativeMatrixLayout, GlslStd450, MemorySemantics, Scope};
use coop_ir::{InstRef, Op};

use super::num::{Num, Rounding};
use super::types::{Leaf, Ty};

/// A row of the register file.
pub(super) type Row = u32;

pub(super) const NO_ROW: Row = u32::MAX;

/// One instruction.
#[derive(Clone, Debug)]
pub(super) enum Ins {
    /// Component by component: the SPIR-V instruction `op` on components of type `num`.
    Each {
        op: Op,
        num: Num,
        dst: Row,
        args: [Row; 4],
        n: u32,
    },
    /// Component by component: an instruction of GLSL.std.450.
    Ext {
        op: GlslStd450,
        num: Num,
        dst: Row,
        args: [Row; 3],
        n: u32,
    },
    /// A conversion, component by component.
    Convert {
        conv: Conv,
        dst: Row,
        a: Row,
        n: u32,
    },
    Copy {
        dst: Row,
        src: Row,
        n: u32,
    },
    /// Copies of any rows; `NO_ROW` is undefined.
    Rows {
        dst: Row,
        src: Box<[Row]>,
    },
    Undef {
        dst: Row,
        n: u32,
    },
    /// `wide` means one condition for each component.
    Select {
        cond: Row,
        wide: bool,
        dst: Row,
        a: Row,
        b: Row,
        n: u32,
        /// The type of the components, if they are numbers.
        num: Option<Num>,
    },
    Extract {
        dst: Row,
        vector: Row,
        n: u32,
        index: Row,
    },
    Insert {
        dst: Row,
        vector: Row,
        n: u32,
        value: Row,
        index: Row,
    },
    /// Instructions that look at all components at once.
    Lane {
        f: LaneFn,
        dst: Row,
        n: u32,
        args: Box<[(Row, u32)]>,
    },

    Chain(Box<Chain>),
    Load {
        dst: Row,
        ptr: Row,
        access: Box<ValueLayout>,
    },
    Store {
        src: Row,
        ptr: Row,
        access: Box<ValueLayout>,
    },
    /// Copies bytes.
    CopyBytes {
        to: Row,
        from: Row,
        bytes: u64,
    },
    ArrayLength {
        dst: Row,
        ptr: Row,
        offset: u64,
        stride: u64,
    },
    Atomic {
        op: Op,
        num: Num,
        dst: Row,
        ptr: Row,
        value: Row,
        comparator: Row,
    },

    Group(Box<Group>),
    Barrier {
        scope: u32,
        orders: Orders,
    },
    /// A memory barrier: the next barrier of control orders this, too.
    Fence {
        orders: Orders,
    },
    Call {
        func: usize,
        args: Box<[(Row, u32)]>,
        dst: Row,
        n: u32,
    },
    /// Checks that all invocations of a scope instance are active, or none.
    Converged {
        scope: u32,
    },
    /// Checks that the scalar that a matrix is multiplied by is uniform in a scope instance.
    SameScalar {
        scope: u32,
        row: Row,
    },

    CoopLoad {
        dst: Row,
        ty: Ty,
        mem: CoopMem,
    },
    CoopStore {
        src: Row,
        ty: Ty,
        mem: CoopMem,
    },
    MulAdd(Box<MulAdd>),
    Relayout {
        dst: Row,
        src: Row,
        from: Ty,
        to: Ty,
        transpose: bool,
    },
    Reduce {
        dst: Row,
        src: Row,
        from: Ty,
        to: Ty,
        mask: u32,
        func: usize,
    },
    PerElement {
        dst: Row,
        src: Row,
        ty: Ty,
        func: usize,
        extras: Box<[Extra]>,
    },
    Tensor(Box<Tensor>),
    GetCoord {
        dst: Row,
        ty: Ty,
        index: Row,
    },
    ConstructChecked {
        dst: Row,
        ty: Ty,
        at: [Row; 2],
        bound: [(Row, Num); 2],
        value: Row,
    },
    /// A splat: `value` must be uniform in the matrix's scope.
    Splat {
        dst: Row,
        ty: Ty,
        value: Row,
    },
    /// A matrix from one array for each invocation (QCOM), or back.
    Rake {
        dst: Row,
        src: Row,
        ty: Ty,
        array: u32,
        bits: u32,
        out: bool,
    },

    /// An instruction that can't be run: an error when it is reached.
    Fail(Box<str>),
}

/// A conversion between scalar types.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Conv {
    pub op: Op,
    pub from: Num,
    pub to: Num,
    pub saturate: bool,
    pub mode: Option<Rounding>,
}

/// A function of all components of the operands of an invocation.
#[derive(Clone, Debug)]
pub(super) enum LaneFn {
    Dot(Num),
    /// Operand and result types; whether the operands are packed into 32 bits, and whether it saturates.
    IntDot {
        a: Num,
        b: Num,
        to: Num,
        packed: bool,
        signed: [bool; 2],
        accumulate: bool,
    },
    /// Matrix products; vectors are matrices of one row or column. Columns are consecutive.
    Product {
        num: Num,
        rows: u32,
        inner: u32,
        cols: u32,
    },
    Outer(Num),
    /// Bits regrouped into components of another width.
    Bits {
        from: u32,
        to: u32,
    },
    /// `OpBitcastExtractEXT`: a bit field of the operand's bits.
    BitsAt {
        from: u32,
        to: u32,
    },
    /// IAddCarry, ISubBorrow, UMulExtended, SMulExtended: low and high parts.
    Pair {
        op: Op,
        width: u32,
    },
    Any,
    All,
    /// GLSL.std.450 on vectors and matrices.
    Glsl {
        op: GlslStd450,
        num: Num,
    },
    /// `floor`: default strides as an H100 computes them.
    Layout {
        op: Op,
        dim: u32,
        floor: bool,
    },
    View {
        op: Op,
        dim: u32,
    },
}

/// An access chain. The storage that the pointer points to decides which of the two strides counts.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub dst: Row,
    pub base: Row,
    pub bytes: u64,
    pub slots: u64,
    pub steps: Box<[Step]>,
    /// True if a constant index is outside its array.
    pub bad: bool,
}

/// An index that is not constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub index: Row,
    pub width: u32,
    pub bytes: u64,
    pub slots: u64,
    /// The length of the array, if it has one.
    pub bound: Option<u32>,
}

/// The layout of a value in memory.
#[derive(Clone, Debug)]
pub(super) struct ValueLayout {
    /// The scalars in byte-addressed memory; `None` if the type has no layout.
    pub leaves: Option<Box<[Leaf]>>,
    /// The size in bytes, from the first scalar to the end of the last.
    pub extent: u32,
    pub slots: u32,
    pub align: u32,
    /// True if another agent may have written the memory, whatever this run does.
    pub volatile: bool,
}

/// A subgroup or group instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub op: Op,
    pub num: Num,
    pub dst: Row,
    pub dst_n: u32,
    pub value: Row,
    pub n: u32,
    pub arg: Row,
    /// Group Operation: 0 reduce, 1 inclusive scan, 2 exclusive scan, 3 clustered.
    pub operation: u32,
    pub scope: u32,
}

/// The location of a matrix in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoopMem {
    pub ptr: Row,
    pub layout: CooperativeMatrixLayout,
    pub stride: Row,
    pub stride_num: Num,
    /// The size in bytes of the unit of the stride.
    pub unit: u32,
    /// The operands that Intel's checked and offset forms add.
    pub surface: Option<Surface>,
    /// True if Vulkan's alignment rule applies.
    pub vulkan: bool,
}

/// The origin in a surface, and the surface's extent if it is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surface {
    pub at: [Row; 2],
    /// The numbers of lines and of elements in a line, each with its type.
    pub bound: Option<[(Row, Num); 2]>,
}

/// A multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct MulAdd {
    pub dst: Row,
    pub rows: [Row; 3],
    pub ty: [Ty; 3],
    pub result: Ty,
    pub operands: u32,
    /// True for SPV_NV_cooperative_matrix: the types decide signedness, and integer overflow is undefined.
    pub nv1: bool,
}

/// An extra operand of a per-element operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub row: Row,
    pub n: u32,
    pub matrix: bool,
}

/// A tensor load or store.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub store: bool,
    pub dst: Row,
    pub object: Row,
    pub ty: Ty,
    pub ptr: Row,
    pub layout: (Row, Ty),
    pub view: Option<(Row, Ty)>,
    /// The decode function, and the size in bytes of its pointer parameter's pointee.
    pub decode: Option<(usize, u32)>,
    pub vector: Option<(usize, u32, u32)>,
}

/// A control-flow edge, with the values of its target's phis.
#[derive(Clone, Debug, Default)]
pub(super) struct Edge {
    pub to: u32,
    pub phis: Box<[(Row, Row, u32)]>,
    /// The `OpUnreachable` of a target that has no other instruction.
    pub unreachable: Option<InstRef>,
}

/// The end of a node.
#[derive(Clone, Debug)]
pub(super) enum Term {
    Go(Edge),
    If { cond: Row, edges: Box<[Edge; 2]> },
    Switch { selector: Row, cases: Box<[(u64, u32)]>, edges: Box<[Edge]> },
    Return { value: Row },
    Kill,
    Unreachable,
    Fail(Box<str>),
}

/// A basic block, or the back edge to the header of a loop.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub code: std::ops::Range<u32>,
    pub term: Term,
    pub at: InstRef,
    /// The scope to check if there are matrices among the phis.
    pub phi_scope: Option<u32>,
    /// The node of the merge block, if the block has a merge instruction and the merge block is reachable.
    pub merge: Option<u32>,
    /// The node of the loop's header, for a back edge.
    pub back: Option<u32>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub(super) struct Func {
    pub nodes: Vec<Node>,
    pub entry: u32,
    pub code: Vec<Ins>,
    pub at: Vec<InstRef>,
    pub params: Vec<(Row, u32)>,
    pub ret: (Row, u32),
    /// Variables of storage class Function, with the row of their initializer.
    pub locals: Vec<(Row, u32, Option<Row>)>,
    /// Variables in byte-addressed memory: offset and size.
    pub own: Vec<(u32, u32)>,
    pub fail: Option<String>,
}

/// The memory whose accesses a barrier orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Orders {
    pub shared: bool,
    pub buffers: bool,
}

impl Orders {
    /// Reads memory semantics in a scope.
    pub(super) fn new(scope: Scope, semantics: MemorySemantics) -> Orders {
        let consistent = MemorySemantics::SequentiallyConsistent;
        let order = MemorySemantics::Acquire | MemorySemantics::Release | MemorySemantics::AcquireRelease | consistent;
        let orders = semantics.intersects(order) && scope != Scope::Invocation;
        let buffers = MemorySemantics::UniformMemory | MemorySemantics::CrossWorkgroupMemory;
        Orders {
            shared: orders && semantics.intersects(MemorySemantics::WorkgroupMemory),
            buffers: orders && semantics.intersects(buffers),
        }
    }

    pub(super) fn and(self, other: Orders) -> Orders {
        Orders { shared: self.shared || other.shared, buffers: self.buffers || other.buffers }
    }
}
