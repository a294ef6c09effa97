//! Lists every reason for which a module is not lowered, by id, for `coopcheck explain`.

/// A reason for which a module is not lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusalRule {
    /// The id: `refused-unknown-dimension`.
    pub id: &'static str,
    /// The refused construct, in a line.
    pub summary: &'static str,
    /// The explanation.
    pub why: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// The explanation for kernels.
const KERNELS: &str = "An OpenCL kernel becomes a Vulkan compute shader only if each of its parts has an equivalent \
                       there; see docs/vulkan-kernels.md.";

/// All reasons, by id. `testdata/passes/refused` has a module for each; those for kernels are in
/// `passes/tests/vulkan_refusals.rs`.
pub static REFUSALS: &[RefusalRule] = &[
    RefusalRule {
        id: "refused-apply-function",
        summary: "a function object of SPV_INTEL_joint_matrix is applied, and its function is not named",
        why: "OpCooperativeMatrixApplyFunctionINTEL has a pointer to an object whose meaning is not specified, and \
              nothing in the module names the function. A function that is named must take the object and an element \
              (and optionally row and column), and return an element of the same type.",
        remedy: "Name the function: --apply-function NAME.",
    },
    RefusalRule {
        id: "refused-bfloat16",
        summary: "arithmetic on bfloat16 that has no lowering for a device without the type",
        why: "On a device without bfloat16, its numbers become 16-bit integers that are widened to f32 for arithmetic. \
              OpDot has no such lowering yet.",
        remedy: "Use f32 for these, or lower for a device that has VK_KHR_shader_bfloat16.",
    },
    RefusalRule {
        id: "refused-constant-length",
        summary: "a constant expression that depends on the length of a matrix",
        why: "The number of elements of a matrix that an invocation holds is implementation-defined. Where matrices \
              stay, functions can query it; a constant outside functions, such as the length of an array, can't, and \
              drivers crash on OpSpecConstantOp with it.",
        remedy: "Compute it in a function, or lower with --target scalar, where the number is known.",
    },
    RefusalRule {
        id: "refused-control-flow",
        summary: "a loop header that can't be split into several blocks",
        why: "An instruction on a matrix that the device does not support becomes many, with loops. A loop header that \
              also branches to two blocks of the loop would then need two merge instructions.",
        remedy: "Branch in a block of its own after the loop header, as GLSL and HLSL compilers do.",
    },
    RefusalRule {
        id: "refused-decode",
        summary: "a decode function whose pointer can't be followed",
        why: "The pointer that a decode function receives is a physical address even if the load reads a binding; so \
              the function is cloned with the pointer retyped, which requires every use of the pointer to be an access \
              chain, a cast or a load.",
        remedy: "Read the block through the pointer, or through casts of it, in the function itself; pass no pointer \
                 on through variables or phis.",
    },
    RefusalRule {
        id: "refused-decoration",
        summary: "an unknown decoration of a matrix",
        why: "When a matrix is split into parts, each decoration is either copied to the parts or dropped, depending \
              on its meaning. An unknown decoration may change how the matrix is computed.",
        remedy: "Remove the decoration, or use a version of these tools that knows it.",
    },
    RefusalRule {
        id: "refused-device",
        summary: "the device lacks a capability or extension that the lowering to its matrices adds",
        why: "Exchanges between matrices of a device go through shared memory, and indices are computed: that requires \
              capabilities which the module did not need, and which a device with matrices may lack.",
        remedy: "Lower with --target scalar; --target auto does so automatically.",
    },
    RefusalRule {
        id: "refused-device-types",
        summary: "the device has no matrices of these types",
        why: "The targets khr and ext keep the component types: a matrix is split into matrices that the profile lists \
              for its component type and use, or for the product that uses it, and the profile lists none.",
        remedy: "Lower with --target scalar, or auto, which then chooses scalar; or use types that the device supports.",
    },
    RefusalRule {
        id: "refused-dialect",
        summary: "matrices of an extension that this target does not support",
        why: "Matrices of other extensions are first rewritten into those of SPV_KHR_cooperative_matrix. A module with \
              an instruction that has no such form is not lowered in part.",
        remedy: "Use SPV_KHR_cooperative_matrix, and see docs/instructions.md for what is lowered.",
    },
    RefusalRule {
        id: "refused-element",
        summary: "an element index that is out of bounds in every lane",
        why: "A lane of the lowered matrix holds a fixed number of elements, which OpCooperativeMatrixLengthKHR then \
              returns. A constant index beyond it selects no element.",
        remedy: "Bound element indices by the matrix's length.",
    },
    RefusalRule {
        id: "refused-entry",
        summary: "no entry point, or several, with the given name",
        why: "A module is lowered for one of its entry points if --entry names it; the others are removed.",
        remedy: "Name an entry point that the module has.",
    },
    RefusalRule {
        id: "refused-function",
        summary: "a function that takes or returns a matrix that the device does not support",
        why: "Functions that take or return matrices are inlined; one of another module (Linkage) can't be.",
        remedy: "Link first, or inline the function (spirv-opt --inline-entry-points-exhaustive).",
    },
    RefusalRule {
        id: "refused-instruction",
        summary: "an instruction on matrices that has no lowering",
        why: "The instruction is not listed in docs/instructions.md, or has operands that neither a specification nor \
              a device gives a meaning: products that mix integers and floats, conversions that change the shape.",
        remedy: "See docs/instructions.md for what is lowered, and --target scalar, which supports more than khr.",
    },
    RefusalRule {
        id: "refused-lanes",
        summary: "lanes from the local invocation index can't do what the module needs",
        why: "With --lanes local-index a lane is a local invocation index, and its subgroup is not a subgroup of the \
              device: its size must divide the workgroup size, and if the device's subgroups have another size, barriers \
              and communication go through the workgroup's memory, so all invocations of the workgroup must reach them.",
        remedy: "Lower for the device's subgroups (--lanes subgroup), use workgroups of one subgroup, or another --subgroup-size.",
    },
    RefusalRule {
        id: "refused-layout",
        summary: "a memory layout that is not known or not lowered",
        why: "Rows and columns can be located in memory if the layout is known to be RowMajor or ColumnMajor; other \
              layouts are implementation-defined.",
        remedy: "Use RowMajor or ColumnMajor, and give the constant a value with --spec.",
    },
    RefusalRule {
        id: "refused-limit",
        summary: "lowering the module exceeds a limit on instructions or time",
        why: "A caller that lowers untrusted modules sets limits, so that no module takes all memory or time. \
              Functions that take matrices are inlined, and each instruction on a matrix becomes code of its own; a \
              few hundred instructions can expand to billions that way.",
        remedy: "Use smaller matrices, or fewer functions that take them; or set other limits: \
                 Options::most_instructions and Options::deadline.",
    },
    RefusalRule {
        id: "refused-malformed",
        summary: "an instruction with invalid operands",
        why: "The behavior of the instruction is undefined. coopcheck reports what is wrong; the lowering does not guess.",
        remedy: "Run coopcheck on the module.",
    },
    RefusalRule {
        id: "refused-no-profile",
        summary: "no device profile was given",
        why: "The targets khr and ext split matrices into those that a device supports, whose shapes and types are in its profile.",
        remedy: "Name the device: --profile NAME, or --device N for one of this machine.",
    },
    RefusalRule {
        id: "refused-pointer",
        summary: "a pointer from which elements can't be addressed",
        why: "Elements are accessed one by one or tile by tile, at addresses computed from the access chain. A pointer \
              from a phi, a select or a function without variable pointers has none, and one without a type \
              (SPV_KHR_untyped_pointers) only where memory is accessed as the type that it has.",
        remedy: "Use typed pointers, and index the array in the function that loads or stores.",
    },
    RefusalRule {
        id: "refused-recursion",
        summary: "a function that takes or returns matrices is recursive",
        why: "Such functions are inlined, which would never end; shaders have no recursion.",
        remedy: "Write the recursion as a loop.",
    },
    RefusalRule {
        id: "refused-shared-memory",
        summary: "an exchange needs more shared memory than the device has",
        why: "Lanes or subgroups exchange elements through shared memory, in slices if the whole does not fit. Not \
              even the smallest slice fits beside the module's own variables into the shared memory of the profile, or \
              into the 16384 bytes that every device has.",
        remedy: "Name the device with --profile, if it has more; otherwise use smaller matrices, fewer subgroups, or less shared memory.",
    },
    RefusalRule {
        id: "refused-size",
        summary: "a lane would hold too many elements of a constant matrix, or a subgroup too many tiles; or a workgroup is too large",
        why: "A constant matrix with equal elements becomes an array with an operand for each element that a lane \
              holds, and an instruction has at most 65535 words. Each tile gets code of its own; no device has \
              registers for the 4096 tiles of a matrix that a subgroup may hold. A workgroup has at most 65536 \
              invocations, far more than on any device.",
        remedy: "Use smaller matrices, or more lanes or subgroups.",
    },
    RefusalRule {
        id: "refused-spec-value",
        summary: "a value that a specialization constant can't have",
        why: "The value given with --spec does not fit the type of the constant.",
        remedy: "Give a value of the constant's type.",
    },
    RefusalRule {
        id: "refused-stage",
        summary: "matrices in a stage that has no workgroups",
        why: "The lanes of a matrix are the invocations of a full subgroup or workgroup. Subgroups of vertex, fragment or ray tracing \
              shaders can't be required to be full, and no published device has matrices there.",
        remedy: "Use matrices in compute, task or mesh shaders.",
    },
    RefusalRule {
        id: "refused-store-narrow",
        summary: "elements that are stored as parts of words",
        why: "Memory is declared with numbers wider than an element, no lane holds all elements of such a number, and \
              the lanes can't exchange them so that one does; writing a part would overwrite its neighbors.",
        remedy: "Store into memory of the component type, or use dimensions that are multiples of the elements in a number.",
    },
    RefusalRule {
        id: "refused-subgroup-size",
        summary: "a subgroup size that the pipeline can't require",
        why: "The placement of elements depends on the subgroup size, and all subgroups must be full: the pipeline \
              requires the size and full subgroups. For that the device must support the size, and x of the workgroup \
              size must be a multiple of it (VUID-VkPipelineShaderStageCreateInfo-module-08987, \
              VUID-VkPipelineShaderStageCreateInfo-pNext-02757).",
        remedy: "Require a size that divides x, with --subgroup-size; --target auto tries those that the device \
                 supports. Lanes from the local invocation index (--lanes local-index) need no full subgroups.",
    },
    RefusalRule {
        id: "refused-tensor",
        summary: "a tensor access that is undefined for all values of its operands",
        why: "Spans, block sizes and view dimensions of 0 make the address of an element the remainder of a division by 0.",
        remedy: "Set them before loading or storing; run coopcheck on the module.",
    },
    RefusalRule {
        id: "refused-tensor-value",
        summary: "a tensor layout or view that can't be followed",
        why: "A layout becomes plain numbers, which requires the instruction that made it to be known at each access. \
              Local variables, phis, selects and functions are followed; arrays, structs and globals of layouts are \
              not.",
        remedy: "Keep layouts and views in local variables.",
    },
    RefusalRule {
        id: "refused-type",
        summary: "a matrix type that has no lowering",
        why: "Its scope is neither Subgroup nor Workgroup, it has no elements or more than 2^20, its use is unknown, or its components \
              are not numbers of 8, 16, 32 or 64 bits.",
        remedy: "Use such a type.",
    },
    RefusalRule {
        id: "refused-unknown-dimension",
        summary: "rows, columns, scope or use are unknown",
        why: "The placement of elements is computed from the dimensions at lowering time. A specialization constant \
              without a value leaves them open, and its default may not be what the pipeline will use.",
        remedy: "Pass the values that the pipeline uses: --spec ID=VALUE; or --spec-defaults.",
    },
    RefusalRule {
        id: "refused-unknown-size",
        summary: "the number of lanes that share a matrix is unknown",
        why: "The subgroup size depends on the device, the workgroup size may be specialized, and each entry point has \
              its own; the elements that a lane holds depend on both.",
        remedy: "Pass --subgroup-size N or --profile NAME, --spec for the workgroup size, and --entry NAME if the \
                 entry points of a module have different workgroup sizes.",
    },
    RefusalRule {
        id: "refused-vulkan-addresses",
        summary: "the module's addresses are not 64 bits wide",
        why: KERNELS,
        remedy: "Compile for spirv64.",
    },
    RefusalRule {
        id: "refused-vulkan-arguments",
        summary: "the arguments don't fit into the push constants (128 bytes, or the size in the profile)",
        why: KERNELS,
        remedy: "Put some into a buffer.",
    },
    RefusalRule {
        id: "refused-vulkan-builtin",
        summary: "a built-in has no equivalent in Vulkan (for example the number of dimensions)",
        why: KERNELS,
        remedy: "Compute it from arguments.",
    },
    RefusalRule {
        id: "refused-vulkan-call",
        summary: "a called function is not in the module",
        why: KERNELS,
        remedy: "Link it; the names of OpenCL functions need !opencl.ocl.version when translated.",
    },
    RefusalRule {
        id: "refused-vulkan-copy",
        summary: "a copy of memory is long, or its length is unknown",
        why: KERNELS,
        remedy: "Write a loop.",
    },
    RefusalRule {
        id: "refused-vulkan-flow",
        summary: "control flow would nest deeper than some hundred levels",
        why: KERNELS,
        remedy: "Use less unrolling and inlining.",
    },
    RefusalRule {
        id: "refused-vulkan-generic",
        summary: "a pointer from memory or from a number does not reveal which memory it points into",
        why: KERNELS,
        remedy: "Compile with -O2.",
    },
    RefusalRule {
        id: "refused-vulkan-group",
        summary: "a barrier, atomic or group operation has no equivalent at its scope",
        why: KERNELS,
        remedy: "Use barriers, shared memory or subgroup operations.",
    },
    RefusalRule {
        id: "refused-vulkan-instruction",
        summary: "an instruction of kernels has no equivalent in Vulkan",
        why: KERNELS,
        remedy: "Use plain arithmetic.",
    },
    RefusalRule {
        id: "refused-vulkan-local-argument",
        summary: "an argument points to local memory of unknown size",
        why: KERNELS,
        remedy: "Pass --local-arg N=BYTES.",
    },
    RefusalRule {
        id: "refused-vulkan-local-size",
        summary: "the workgroup size is unknown, or contradicts the kernel's",
        why: KERNELS,
        remedy: "Pass --local-size X,Y,Z.",
    },
    RefusalRule {
        id: "refused-vulkan-math",
        summary: "a function of OpenCL.std has no equivalent of its precision or type",
        why: KERNELS,
        remedy: "Write it in the kernel, or use its native_ form.",
    },
    RefusalRule {
        id: "refused-vulkan-matrix",
        summary: "a matrix in memory is accessed as another type, or the shared memory under it has narrower accesses",
        why: KERNELS,
        remedy: "Compile with -O2.",
    },
    RefusalRule {
        id: "refused-vulkan-pointer",
        summary: "a pointer may point to one variable or another, or is made in an unsupported way",
        why: KERNELS,
        remedy: "Compile with -O2, or use one array.",
    },
    RefusalRule {
        id: "refused-vulkan-type",
        summary: "a type has no layout in memory: images, samplers, Booleans in memory",
        why: KERNELS,
        remedy: "Use numbers, vectors, arrays and structs.",
    },
    RefusalRule {
        id: "refused-vulkan-variable",
        summary: "a variable of the module is neither local, constant nor a built-in, is too large, or has an \
                  initializer that is not a plain constant",
        why: KERNELS,
        remedy: "Pass a pointer as an argument.",
    },
];

/// Returns the reason with an id.
pub fn refusal_rule(id: &str) -> Option<&'static RefusalRule> {
    REFUSALS.iter().find(|r| r.id == id)
}
