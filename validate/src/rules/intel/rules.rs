//! The declarations of the rules with their documentation.

use crate::declare_rule;

declare_rule! {
    /// ## What it checks
    /// Instructions, layouts and operands of SPV_INTEL_joint_matrix come with their capability.
    /// ## Why
    /// The specification requires it. The SPIR-V translator up to LLVM 22 and DPC++ omit it for the packed layout and the bits
    /// of multiply-adds; Intel's compilers do not insist, and its runtime for processors even refuses modules that
    /// declare PackedCooperativeMatrixINTEL or CooperativeMatrixCheckedInstructionsINTEL.
    /// ## Example
    /// `MatrixAAndBBFloat16ComponentsINTEL` without CooperativeMatrixBFloat16ComponentTypeINTEL.
    pub(crate) static CAPABILITY = {
        id: "intel-capability-missing",
        summary: "something of SPV_INTEL_joint_matrix without its capability",
        level: Note,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, capabilities",
        vuids: [],
        digest: ["intel.caps", "intel.packed-layout-cap", "intel.tf32-type", "intel.bf16-type", "intel.bf16-convert",
                 "intel.tf32-round"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The packed layout is not that of an accumulator.
    /// ## Why
    /// It packs what is multiplied; Intel's compiler refuses it for accumulators.
    /// ## Example
    /// A store of an accumulator with layout 2.
    pub(crate) static PACKED_ACCUMULATOR = {
        id: "intel-packed-accumulator",
        summary: "an accumulator in the packed layout",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Layout; Intel graphics compiler 2.40",
        vuids: [],
        digest: ["intel.packed-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The packed layout is that of B.
    /// ## Why
    /// In A, what would be packed lies side by side already, so that packed means row-major; Intel's compiler refuses it.
    /// ## Example
    /// A load of A with layout 2.
    pub(crate) static PACKED_A = {
        id: "intel-packed-a",
        summary: "A in the packed layout",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Layout; Intel graphics compiler 2.40",
        vuids: [],
        digest: ["intel.packed-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With the packed layout, B's rows are a multiple of the components in 32 bits.
    /// ## Why
    /// So many rows are packed into one line.
    /// ## Example
    /// B of f16 15x16 with layout 2.
    pub(crate) static PACKED_ROWS = {
        id: "intel-packed-rows",
        summary: "rows that do not fill packed lines",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["intel.packed-rows"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Checked loads, stores and constructions: X and Y are 32-bit integers, Height, Width and Stride integers, Pointer
    /// points to a scalar or vector, and the matrix is one.
    /// ## Why
    /// X and Y are coordinates on a surface of Height lines of Width elements.
    /// ## Example
    /// X is a f32.
    pub(crate) static CHECKED = {
        id: "intel-checked-type",
        summary: "an operand of a checked instruction has the wrong type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, checked instructions",
        vuids: [],
        digest: ["intel.checked-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Value of OpCooperativeMatrixConstructCheckedINTEL has the component type.
    /// ## Why
    /// It becomes the elements that are in bounds.
    /// ## Example
    /// A f32 for a matrix of f16.
    pub(crate) static CHECKED_VALUE = {
        id: "intel-checked-value",
        summary: "the value of a checked construction is not a component",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, OpCooperativeMatrixConstructCheckedINTEL",
        vuids: [],
        digest: ["intel.checked-value"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Checked loads and stores go through pointers to CrossWorkgroup or Generic memory.
    /// ## Why
    /// Intel's compiler has them for global memory only.
    /// ## Example
    /// A checked load from Workgroup memory.
    pub(crate) static CHECKED_STORAGE = {
        id: "intel-checked-storage",
        summary: "a checked access to memory that Intel's compiler has none for",
        level: Warning,
        since: "0.2.0",
        spec: "Intel graphics compiler 2.40",
        vuids: [],
        digest: ["intel.checked-storage"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A checked store is not column-major.
    /// ## Why
    /// Intel's compiler has no such store.
    /// ## Example
    /// `OpCooperativeMatrixStoreCheckedINTEL` with layout ColumnMajorKHR.
    pub(crate) static COLUMN_MAJOR = {
        id: "intel-checked-column-major",
        summary: "a checked store that is column-major",
        level: Warning,
        since: "0.2.0",
        spec: "Intel graphics compiler 2.40",
        vuids: [],
        digest: ["intel.storechecked-layout"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With MatrixAAndBTF32ComponentsINTEL, A and B are of f32.
    /// ## Why
    /// TF32 is f32 with fewer significant bits.
    /// ## Example
    /// The bit with A of f16.
    pub(crate) static TF32 = {
        id: "intel-tf32-type",
        summary: "TF32 of components that are not f32",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Operands",
        vuids: [],
        digest: ["intel.tf32-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where a bit says that components are bfloat16, they are 16-bit integers.
    /// ## Why
    /// They hold the bits of bfloat16.
    /// ## Example
    /// MatrixCBFloat16ComponentsINTEL with C of f32.
    pub(crate) static BF16 = {
        id: "intel-bfloat16-type",
        summary: "bfloat16 in components that are not 16-bit integers",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Operands",
        vuids: [],
        digest: ["intel.bf16-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where a bit says that components are bfloat16, the SignedComponents bit of the same matrix is clear.
    /// ## Why
    /// They are not integers, whatever their type says.
    /// ## Example
    /// MatrixAAndBBFloat16ComponentsINTEL together with MatrixASignedComponentsKHR.
    pub(crate) static BF16_SIGNED = {
        id: "intel-bfloat16-signed",
        summary: "components that are bfloat16 and signed integers at once",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, Cooperative Matrix Operands",
        vuids: [],
        digest: ["intel.bf16-excl"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpConvertFToBF16INTEL of matrices goes from f32 to 16-bit integers, OpConvertBF16ToFINTEL back, OpRoundFToTF32INTEL
    /// from f32 to f32; scope, rows, columns and use stay.
    /// ## Why
    /// Conversions go component by component.
    /// ## Example
    /// OpConvertFToBF16INTEL to a matrix of f16.
    pub(crate) static CONVERSION = {
        id: "intel-conversion-type",
        summary: "a conversion to or from bfloat16 or TF32 between the wrong types",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, SPV_INTEL_bfloat16_conversion and SPV_INTEL_tensor_float32_conversion",
        vuids: [],
        digest: ["intel.bf16-convert", "intel.tf32-round"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpCooperativeMatrixApplyFunctionINTEL keeps scope, rows and columns, and its function object is a pointer.
    /// ## Why
    /// A function is applied to each element.
    /// ## Example
    /// From 16x16 to 16x8.
    pub(crate) static APPLY = {
        id: "intel-apply-type",
        summary: "a function is applied between matrices of different size, or is not a function object",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, OpCooperativeMatrixApplyFunctionINTEL",
        vuids: [],
        digest: ["intel.apply"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpCooperativeMatrixApplyFunctionINTEL is not used.
    /// ## Why
    /// It is experimental: nothing in the module names the function that would be called, no consumer is known to have
    /// it, and it can't be lowered.
    /// ## Example
    /// Any use of it.
    pub(crate) static APPLY_NOTE = {
        id: "intel-apply-function",
        summary: "an instruction that names no function to call",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, OpCooperativeMatrixApplyFunctionINTEL",
        vuids: [],
        digest: ["intel.apply"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpCooperativeMatrixPrefetchINTEL has no X and Y, and constants for rows, columns and layout.
    /// ## Why
    /// The published text has X and Y after the pointer; the compilers that are around have not. A consumer that expects
    /// the one takes the other's operands for something else. The instruction changes nothing and may always be dropped.
    /// ## Example
    /// A prefetch of 8 words in all.
    pub(crate) static PREFETCH = {
        id: "intel-prefetch-form",
        summary: "a prefetch in a form that compilers do not make",
        level: Note,
        since: "0.2.0",
        spec: "SPV_INTEL_joint_matrix, OpCooperativeMatrixPrefetchINTEL; llvm-spirv 22, llc 23, DPC++ 2026.2",
        vuids: [],
        digest: ["intel.prefetch"],
    }
}

declare_rule! {
    /// ## What it checks
    /// CacheControlLoadINTEL and CacheControlStoreINTEL are on pointers to Function, UniformConstant, CrossWorkgroup or
    /// Generic memory, each cache level once.
    /// ## Why
    /// They say how such memory is cached; two different answers for one level make no sense.
    /// ## Example
    /// CacheControlLoadINTEL 0 twice on one pointer.
    pub(crate) static CACHE = {
        id: "intel-cache-control",
        summary: "a cache control where it means nothing, or twice",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_cache_controls",
        vuids: [],
        digest: ["intel.cache-control"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpCompositeConstruct of a matrix has a component, not a pointer to one.
    /// ## Why
    /// DPC++ passes half and bfloat16 by a pointer to a struct of one member; Intel's compiler loads the value, spirv-val
    /// refuses the module.
    /// ## Example
    /// `OpCompositeConstruct %matrix %pointer_to_half`
    pub(crate) static FILL = {
        id: "intel-fill-pointer",
        summary: "a matrix is filled through a pointer",
        level: Note,
        since: "0.2.0",
        spec: "SPV_KHR_cooperative_matrix, OpCompositeConstruct; DPC++ 2026.2",
        vuids: [],
        digest: ["khr.construct-single"],
    }
}
