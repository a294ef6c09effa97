//! The declarations of the rules about values of layouts and views, with their documentation.

use crate::declare_rule;

declare_rule! {
    /// ## What it checks
    /// Where a layout is used, its dimensions and spans are not 0; those of a layout without
    /// OpTensorLayoutSetDimensionNV are.
    /// ## Why
    /// The coordinates of an element are found by dividing by the spans.
    /// ## Example
    /// `%layout = OpCreateTensorLayoutNV %type` used by a load at once.
    pub(crate) static SPAN_ZERO = {
        id: "tensor-span-zero",
        summary: "a layout is used whose dimensions or spans are 0",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.span-nonzero", "tensor.dim-set-before-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where a layout is used, none of its block sizes is 0.
    /// ## Why
    /// Coordinates are divided by them.
    /// ## Example
    /// `OpTensorLayoutSetBlockSizeNV %type %layout %uint_1 %uint_0`
    pub(crate) static BLOCK_ZERO = {
        id: "tensor-block-zero",
        summary: "a layout is used with a block size of 0",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.block-nonzero"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where a view with HasDimensions is used, none of its dimensions is 0; those of a view without
    /// OpTensorViewSetDimensionNV are.
    /// ## Why
    /// Elements are numbered by dividing by the dimensions.
    /// ## Example
    /// `%view = OpCreateTensorViewNV %type` with HasDimensions, used by a load at once.
    pub(crate) static VIEW_ZERO = {
        id: "tensor-view-dimension-zero",
        summary: "a view is used whose dimensions are 0",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.view-dim-nonzero"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Each stride of a layout is at least the extent, in blocks, of the dimension inside it times that dimension's
    /// stride. A stride of 0 has a note of its own.
    /// ## Why
    /// The specification requires it: otherwise elements of a tensor overlap.
    /// ## Example
    /// Dimensions 16 and 64 with strides 32 and 1.
    pub(crate) static STRIDE_ORDER = {
        id: "tensor-stride-order",
        summary: "strides of a layout let its elements overlap",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTensorLayoutSetStrideNV",
        vuids: [],
        digest: ["tensor.set-stride-monotone", "tensor.slice-stride-erratum"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No stride of a layout is 0.
    /// ## Why
    /// It broadcasts one row over the tensor, which is common for bias vectors and works on the tested devices, but the
    /// specification requires strides that do not let elements overlap.
    /// ## Example
    /// Strides 0 and 1.
    pub(crate) static STRIDE_BROADCAST = {
        id: "tensor-stride-broadcast",
        summary: "a stride of a layout is 0",
        level: Note,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTensorLayoutSetStrideNV",
        vuids: [],
        digest: ["tensor.set-stride-monotone"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The block size of a layout is not changed after its dimensions while it has default strides.
    /// ## Why
    /// OpTensorLayoutSetDimensionNV computes strides in blocks; a block size that comes later does not change them.
    /// ## Example
    /// `OpTensorLayoutSetBlockSizeNV` after `OpTensorLayoutSetDimensionNV`.
    pub(crate) static BLOCK_AFTER = {
        id: "tensor-block-after-dimension",
        summary: "a block size is set after the dimensions",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTensorLayoutSetBlockSizeNV",
        vuids: [],
        digest: ["tensor.order-block-dim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With clamp mode RepeatMirrored no dimension of a layout is 1.
    /// ## Why
    /// By the specification, the mirrored coordinate is computed by a division by 0. The tested devices use coordinate 0.
    /// ## Example
    /// Dimensions 1 and 64 with RepeatMirrored.
    pub(crate) static MIRROR = {
        id: "tensor-mirror-single",
        summary: "a dimension of 1 is mirrored",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.mirror-extent-one"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The clip offset and span of a view do not add up to more than 32 bits; the default span is 0xFFFFFFFF.
    /// ## Why
    /// By the specification the sum wraps, so that everything is clipped. An H100 clips only the elements below the offset,
    /// which is what authors intend; other devices may follow the specification.
    /// ## Example
    /// `OpTensorViewSetClipNV %type %view %uint_4 %uint_max %uint_0 %uint_max`
    pub(crate) static CLIP = {
        id: "portability-clip-offset",
        summary: "the clip offset and span of a view wrap",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing; seen on an H100 (580.159)",
        vuids: [],
        digest: ["tensor.clip-wrap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A view without dimensions of its own has no more dimensions than the layout.
    /// ## Why
    /// It takes them from the layout's spans.
    /// ## Example
    /// A view of 3 dimensions with a layout of 2.
    pub(crate) static RANK_EXCEEDS = {
        id: "tensor-view-rank-exceeds",
        summary: "a view has more dimensions than the layout that it takes them from",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.view-vdim-le-ldim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A view without dimensions of its own has as many dimensions as the layout.
    /// ## Why
    /// The specification does not define which spans it uses if it has fewer. An H100 uses the first.
    /// ## Example
    /// A view of 2 dimensions with a layout of 3.
    pub(crate) static RANK_LESS = {
        id: "tensor-view-rank-less",
        summary: "a view has fewer dimensions than the layout that it takes them from",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.view-vdim-le-ldim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A matrix has no more elements than the spans of the layout.
    /// ## Why
    /// By the specification the outermost coordinate wraps around; on an H100 it does not, and the clamp mode applies. With
    /// a view it wraps around on both.
    /// ## Example
    /// A 16x16 matrix and spans of 8 and 16.
    pub(crate) static EXCEEDS = {
        id: "portability-matrix-exceeds-span",
        summary: "a matrix has more elements than the spans of its layout",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing; seen on an H100 (580.159)",
        vuids: [],
        digest: ["tensor.elements-fit-span"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With clamp mode Undefined, no element that is loaded or stored is outside of the tensor.
    /// ## Why
    /// The mode says that this does not happen.
    /// ## Example
    /// A slice at 8 of span 16 in a dimension of 16.
    pub(crate) static OUT_OF_BOUNDS = {
        id: "tensor-out-of-bounds",
        summary: "elements outside of the tensor with clamp mode Undefined",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.clamp-undefined-oob"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A clamp value is set only for layouts with clamp mode Constant.
    /// ## Why
    /// The others never look at it.
    /// ## Example
    /// `OpTensorLayoutSetClampValueNV` on a layout with clamp mode ClampToEdge.
    pub(crate) static CLAMP_UNUSED = {
        id: "tensor-clamp-value-unused",
        summary: "a clamp value that nothing looks at",
        level: Note,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTensorLayoutSetClampValueNV",
        vuids: [],
        digest: ["tensor.clampvalue-mode"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No matrix with components of 64 bits is loaded through a layout with clamp mode Constant.
    /// ## Why
    /// The clamp value has 32 bits; nothing says what the others are.
    /// ## Example
    /// A load of f64 16x16 with clamp mode Constant.
    pub(crate) static CLAMP_64 = {
        id: "tensor-clamp-value-wide",
        summary: "components of 64 bits and a clamp value of 32",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing",
        vuids: [],
        digest: ["tensor.clampvalue-64"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A tensor store has block sizes of 1.
    /// ## Why
    /// A block is decoded, and can't be encoded.
    /// ## Example
    /// A store through a layout with `OpTensorLayoutSetBlockSizeNV %type %layout %uint_1 %uint_32`.
    pub(crate) static STORE_BLOCK = {
        id: "tensor-store-block",
        summary: "a tensor store with a block size other than 1",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixStoreTensorNV",
        vuids: [],
        digest: ["nv2.st-block-one"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A tensor store writes each element to a place of its own: no stride is 0, and the spans hold the matrix.
    /// ## Why
    /// The order in which several elements are written to one place is undefined.
    /// ## Example
    /// A store of 16x16 through a layout with strides 0 and 1.
    pub(crate) static STORE_OVERLAP = {
        id: "tensor-store-overlap",
        summary: "elements of a tensor store go to the same place",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixStoreTensorNV",
        vuids: [],
        digest: ["nv2.st-overlap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A layout that is used has default strides only if each dimension is a multiple of its block size.
    /// ## Why
    /// By the specification the last, partial block counts; an H100 and Mesa omit it.
    /// ## Example
    /// Dimensions 16 and 40 in blocks of 1 and 32, without `OpTensorLayoutSetStrideNV`.
    pub(crate) static DEFAULT_STRIDES = {
        id: "portability-default-strides",
        summary: "default strides of a tensor with partial blocks",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTensorLayoutSetDimensionNV; seen on an H100 (580.159) and in Mesa",
        vuids: [],
        digest: ["tensor.order-block-dim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With clamp mode Constant, a dimension of 0xFFFFFFFF is not reached with a negative offset.
    /// ## Why
    /// With that dimension no coordinate is too large. Negative ones are out of bounds by the specification; an H100 does not
    /// clamp in such a dimension, and a dispatch was seen to hang.
    /// ## Example
    /// `OpTensorLayoutSliceNV` with offset -8 in a dimension of 0xFFFFFFFF.
    pub(crate) static ENDLESS = {
        id: "portability-endless-dimension",
        summary: "a negative offset in a dimension of 0xFFFFFFFF",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, tensor addressing; seen on an H100 (580.159)",
        vuids: [],
        digest: ["tensor.clamp-undefined-oob"],
    }
}
