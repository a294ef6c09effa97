//! The declarations of the rules with their documentation.

use crate::declare_rule;

declare_rule! {
    /// ## What it checks
    /// Every instruction with a matrix as operand or result is executed by all invocations of the matrix's scope (the
    /// subgroup or the workgroup) together, or by none of them. Calls, loops, early returns, variables and barriers are
    /// followed; an *error* names two invocations of which only one executes the instruction, a *warning* says that
    /// there may be such. The labels lead from the instruction to the branch that decides, to the value that decides
    /// the branch, and to where that begins to differ.
    /// ## Why
    /// The elements of a matrix are spread over the invocations of its scope. Where some are missing, so are their
    /// elements: the behavior is undefined, and on devices results are wrong or the device hangs. Access to single
    /// elements through a pointer is not concerned.
    /// ## Example
    /// Bad: half of each subgroup loads the matrix.
    /// ```glsl
    /// if (gl_SubgroupInvocationID < 16)
    ///     coopMatLoad(a, buf, 0, stride, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    /// Good: whole subgroups do, and other work is left to some invocations.
    /// ```glsl
    /// if (gl_SubgroupID < 2)
    ///     coopMatLoad(a, buf, 0, stride, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    pub(crate) static FLOW = {
        id: "uniformity-flow",
        summary: "a matrix instruction is executed by only a part of its scope",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR and the list of tangled instructions",
        vuids: [],
        digest: [
            "flow.aon-type",
            "flow.uniform-control",
            "flow.divergent-return",
            "flow.loop-trip",
            "flow.switch-fallthrough",
            "flow.component-loop",
            "flow.uniform-nv1"
        ],
    }
}

declare_rule! {
    /// ## What it checks
    /// Pointers, strides, layouts and views of matrix loads and stores, the scalar of OpMatrixTimesScalar and the value
    /// of which a matrix is made have one value in all invocations of the scope.
    /// ## Why
    /// The instruction is executed once for the whole scope; with different operands it is not defined which apply.
    /// ## Example
    /// Bad: each invocation has a stride of its own.
    /// ```glsl
    /// coopMatLoad(a, buf, 0, 16 + gl_LocalInvocationIndex, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    /// Good: what differs between subgroups is the same within each.
    /// ```glsl
    /// coopMatLoad(a, buf, gl_SubgroupID * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    pub(crate) static OPERAND = {
        id: "uniformity-operand",
        summary: "an operand that must be the same for the whole scope differs",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and others",
        vuids: [],
        digest: [
            "flow.uniform-pointer",
            "flow.uniform-stride",
            "flow.uniform-splat",
            "flow.uniform-mts-scalar",
            "flow.uniform-tensor-state",
            "flow.uniform-checked"
        ],
    }
}

declare_rule! {
    /// ## What it checks
    /// A control barrier is executed by all invocations of its execution scope together, or by none. Errors and
    /// warnings are as for `uniformity-flow`.
    /// ## Why
    /// A barrier waits for all invocations of the scope; where some never come, the shader hangs, or the driver lets
    /// the others pass, and the memory that the barrier should order is read too early.
    /// ## Example
    /// Bad: some invocations return in front of the barrier.
    /// ```glsl
    /// if (gl_GlobalInvocationID.x >= n)
    ///     return;
    /// barrier();
    /// ```
    /// Good: all stay, and those without work do none.
    /// ```glsl
    /// if (gl_GlobalInvocationID.x < n)
    ///     work();
    /// barrier();
    /// ```
    pub(crate) static BARRIER = {
        id: "uniformity-barrier",
        summary: "a barrier is executed by only a part of its scope",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpControlBarrier",
        vuids: [],
        digest: ["flow.uniform-control"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Functions that an instruction runs for single elements (decode functions, reductions, per-element operations),
    /// and all that those call, contain no instruction that all invocations of a scope must execute together: nothing
    /// that works on matrices, no barrier, no group or subgroup instruction, no derivative.
    /// ## Why
    /// Which invocations run the function, how often and in which order is not said, so nothing in it is executed
    /// together.
    /// ## Example
    /// Bad: the decode function waits for the others.
    /// ```glsl
    /// float16_t decode(const in Block b, const in uint block[2], const in uint at[2]) {
    ///     barrier();
    ///     return tables[b.bits];
    /// }
    /// ```
    /// Good: what must be shared is made before the load.
    /// ```glsl
    /// fill(tables);
    /// barrier();
    /// coopMatLoadTensorNV(a, buf, 0, layout, decode);
    /// ```
    pub(crate) static CALLBACK = {
        id: "uniformity-callback",
        summary: "an instruction of a whole scope in a function that is run for single elements",
        level: Error,
        since: "0.1.0",
        spec: "SPV_NV_cooperative_matrix2, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: [
            "tangled.decode-func",
            "tangled.decode-vector-func",
            "tangled.combine-func",
            "tangled.per-element-func",
            "tangled.cm-in-callback"
        ],
    }
}

declare_rule! {
    /// ## What it checks
    /// No function calls itself, neither directly nor through others; an instruction that runs a function for each
    /// element calls it too. The other rules of this family say nothing about an entry point that does so.
    /// ## Why
    /// Shaders have no stack that could grow.
    /// ## Example
    /// Bad: a per-element function that applies itself to a matrix again.
    /// ```glsl
    /// float each(const in uint row, const in uint col, const in float v) {
    ///     coopMatPerElementNV(m, m, each);
    ///     return v;
    /// }
    /// ```
    /// Good: a loop around the instruction.
    /// ```glsl
    /// for (uint i = 0; i < n; ++i)
    ///     coopMatPerElementNV(m, m, each);
    /// ```
    pub(crate) static RECURSION = {
        id: "uniformity-recursion",
        summary: "a function calls itself",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Validation Rules within a Module",
        vuids: ["VUID-StandaloneSpirv-None-04634"],
        digest: ["tangled.call-edges", "tangled.recursion"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Which assumptions the silence of `uniformity-flow`, `uniformity-operand` and `uniformity-barrier` rests on. There
    /// is one note for each assumption:
    ///
    /// - subgroups are full and made of consecutive invocations, where a value is uniform only because, say,
    ///   `gl_LocalInvocationIndex / 32` is the same in 32 consecutive invocations;
    /// - subgroups have 32 invocations, where that is needed and neither `--subgroup-size` nor a profile says how many
    ///   they have;
    /// - no invocation writes memory that others read at the same time, where a value comes from a buffer that the module
    ///   writes, or from shared memory that may be written between the same two barriers;
    /// - all invocations hold equally many elements of a matrix, where the number of elements decides;
    /// - what was reduced over a workgroup by way of shared memory covers the value of each invocation, where an
    ///   invocation decides by the largest (say) of its own value and the reduced ones;
    /// - subgroups stay together where different subgroups go different ways, which is promised only to modules with
    ///   the execution mode SubgroupUniformControlFlowKHR or MaximallyReconvergesKHR.
    /// ## Why
    /// Each of them holds for every shader that is correct otherwise, or on every known driver, but no text promises it.
    /// ## Example
    /// Bad, but right where subgroups have 32 invocations: in subgroups of 64 the second half would be missing.
    /// ```glsl
    /// if (gl_LocalInvocationIndex / 32 == 0)
    ///     coopMatLoad(a, buf, 0, stride, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    /// Good: the same without an assumption.
    /// ```glsl
    /// if (gl_SubgroupID == 0)
    ///     coopMatLoad(a, buf, 0, stride, gl_CooperativeMatrixLayoutRowMajor);
    /// ```
    pub(crate) static ASSUMED = {
        id: "uniformity-assumed",
        summary: "a matrix instruction is uniform under an assumption only",
        level: Note,
        since: "0.1.0",
        spec: "SPIR-V, 2.20 Uniform control flow; SPV_KHR_subgroup_uniform_control_flow",
        vuids: [],
        digest: ["flow.subgroup-reconverge"],
    }
}
