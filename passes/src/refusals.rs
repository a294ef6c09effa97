//! Every reason for which a module is not lowered, by id: what `coopcheck explain` says of them.

/// A reason for which a module is not lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusalRule {
    /// What it is called: `refused-unknown-dimension`.
    pub id: &'static str,
    /// What is refused, in a line.
    pub summary: &'static str,
    /// Why.
    pub why: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Why kernels are refused.
const KERNELS: &str = "A kernel of OpenCL becomes a compute shader of Vulkan only where each of its parts has an equal there; \
                       docs/vulkan-kernels.md says more.";

/// All of them, by id. `testdata/passes/refused` has a module for each; those for kernels are in
/// `passes/tests/vulkan_refusals.rs`.
pub static REFUSALS: &[RefusalRule] = &[
    RefusalRule {
        id: "refused-apply-function",
        summary: "a function object of SPV_INTEL_joint_matrix is applied, and nobody says which function that is",
        why: "OpCooperativeMatrixApplyFunctionINTEL has a pointer to an object whose meaning no text specifies; nothing in the module \
              names the function. Where somebody names it, it has to take the object and an element (and maybe row and column), and to \
              give an element of the same type.",
        remedy: "Name the function: --apply-function NAME.",
    },
    RefusalRule {
        id: "refused-bfloat16",
        summary: "arithmetic on bfloat16 that a device without the type can't be given",
        why: "Where the device has no bfloat16, its numbers become 16-bit integers and are widened to f32 to be computed with. \
              OpDot, and conversions from and to types other than f16 and f32, have no such form yet.",
        remedy: "Use f32 for these, or lower for a device that has VK_KHR_shader_bfloat16.",
    },
    RefusalRule {
        id: "refused-constant-length",
        summary: "what has to be a constant is computed from the length of a matrix",
        why: "How many elements of a matrix an invocation holds is the device's own. Where matrices stay, functions ask for it; a constant \
              outside of functions, such as the length of an array, can't, and drivers end at OpSpecConstantOp with it.",
        remedy: "Compute it in a function, or lower with --target scalar, which knows the number.",
    },
    RefusalRule {
        id: "refused-control-flow",
        summary: "a loop whose first block can't become several",
        why: "An instruction on a matrix that the device does not have becomes many, with loops. The first block of a loop that \
              also chooses between two of the loop's blocks would need two merge instructions then.",
        remedy: "Branch in a block of its own behind the head of the loop, as GLSL and HLSL compilers do.",
    },
    RefusalRule {
        id: "refused-decode",
        summary: "a decode function whose pointer can't be followed",
        why: "The pointer that a decode function gets is a physical address even where the load reads a binding; so the function is \
              cloned with the pointer retyped, which needs every use of the pointer to be an access chain, a cast or a load.",
        remedy: "Read the block through the pointer, or through casts of it, where the function is; pass no pointer on through \
                 variables or phis.",
    },
    RefusalRule {
        id: "refused-decoration",
        summary: "a decoration of a matrix that is not known",
        why: "Where a matrix becomes parts, what its decorations say is said of the parts or no more, depending on what that is. A decoration \
              that is not known may change what the matrix is computed as.",
        remedy: "Leave the decoration out, or use a version of these tools that knows it.",
    },
    RefusalRule {
        id: "refused-device",
        summary: "the device lacks something that the lowering to its matrices added",
        why: "What moves between matrices of a device goes through shared memory, and what stands in an index is computed: that \
              takes capabilities which the module did not need, and which a device with matrices may lack.",
        remedy: "Lower with --target scalar; --target auto does so by itself.",
    },
    RefusalRule {
        id: "refused-device-types",
        summary: "the device has no matrices of these types",
        why: "The targets khr and ext keep the component types: a matrix is cut into those that the profile lists for its component \
              type and use, or for the product that it takes part in, and there is none.",
        remedy: "Lower with --target scalar, or auto, which takes scalar then; or use types that the device has.",
    },
    RefusalRule {
        id: "refused-dialect",
        summary: "matrices of an extension that this target does not know",
        why: "Matrices of other extensions become those of SPV_KHR_cooperative_matrix first. What has no such form is not lowered in \
              part.",
        remedy: "Use SPV_KHR_cooperative_matrix, and see docs/instructions.md for what is lowered.",
    },
    RefusalRule {
        id: "refused-element",
        summary: "an element index that no lane has",
        why: "A lane of the lowered matrix holds a fixed number of elements, which is what OpCooperativeMatrixLengthKHR says then. A \
              constant index beyond it names nothing.",
        remedy: "Bound element indices by the matrix's length.",
    },
    RefusalRule {
        id: "refused-entry",
        summary: "no entry point, or several, of the name that was given",
        why: "A module is lowered for one of its entry points where --entry names it; the others are dropped.",
        remedy: "Name an entry point that the module has.",
    },
    RefusalRule {
        id: "refused-function",
        summary: "a function that takes or gives a matrix that the device does not have",
        why: "Functions that take or give matrices are put in place of their calls; one of another module (Linkage) can't be.",
        remedy: "Link first, or inline the function (spirv-opt --inline-entry-points-exhaustive).",
    },
    RefusalRule {
        id: "refused-instruction",
        summary: "an instruction on matrices that has no lowering",
        why: "The instruction is none of those in docs/instructions.md, or has operands that no device and no specification gives a \
              meaning: products that mix integers and floats, conversions that change the shape.",
        remedy: "See docs/instructions.md for what is lowered, and --target scalar, which knows more than khr.",
    },
    RefusalRule {
        id: "refused-lanes",
        summary: "lanes by local index that can't be what the module needs",
        why: "With --lanes local-index a lane is a place in the workgroup, and its subgroup is none of the device's: it must divide the \
              workgroup, and where the device's subgroups have another size, what it waits for or communicates goes through the \
              workgroup's memory, so that all invocations of the workgroup have to be there.",
        remedy: "Lower for the device's subgroups (--lanes subgroup), use workgroups of one subgroup, or another --subgroup-size.",
    },
    RefusalRule {
        id: "refused-layout",
        summary: "a memory layout that is not known or not lowered",
        why: "Rows and columns can be found in memory where the layout is RowMajor or ColumnMajor and known; other layouts are the \
              device's own.",
        remedy: "Use RowMajor or ColumnMajor, and give the constant a value with --spec.",
    },
    RefusalRule {
        id: "refused-limit",
        summary: "lowering the module takes more than it may: instructions, or time",
        why: "Who lowers what others give sets limits, so that no module takes more memory or time than there is. Functions that take \
              matrices stand in place of their calls, and each instruction on a matrix becomes code of its own; a few hundred \
              instructions can ask for billions that way.",
        remedy: "Use smaller matrices, or fewer functions that take them; or set other limits: Options::most_instructions and \
                 Options::deadline.",
    },
    RefusalRule {
        id: "refused-malformed",
        summary: "an instruction whose operands don't fit it",
        why: "What it would do is not defined. coopcheck says what is wrong; the lowering does not guess.",
        remedy: "See what coopcheck says of the module.",
    },
    RefusalRule {
        id: "refused-no-profile",
        summary: "nobody said which matrices the device has",
        why: "The targets khr and ext cut matrices into those of a device, whose shapes and types are in its profile.",
        remedy: "Name the device: --profile NAME, or --device N for one of this machine.",
    },
    RefusalRule {
        id: "refused-pointer",
        summary: "a pointer from which elements can't be addressed",
        why: "Elements are read and written one by one or tile by tile, from addresses that are computed from the access chain. An \
              untyped pointer, or one that comes out of a phi, a select or a function without variable pointers, has none.",
        remedy: "Use typed pointers, and index the array in the function that loads or stores.",
    },
    RefusalRule {
        id: "refused-recursion",
        summary: "a function that takes or gives matrices calls itself",
        why: "Such functions are put in place of their calls, which would never end; shaders have no recursion.",
        remedy: "Write the recursion as a loop.",
    },
    RefusalRule {
        id: "refused-shared-memory",
        summary: "an exchange needs more shared memory than there is",
        why: "What lanes or subgroups hand each other goes through shared memory, in slices where all of it has no room. Not even the \
              smallest slice fits beside the module's own variables into what the profile has, or into the 16384 bytes that every \
              device has.",
        remedy: "Name the device with --profile, if it has more; else use smaller matrices, fewer subgroups, or less shared memory.",
    },
    RefusalRule {
        id: "refused-size",
        summary: "a lane would hold too many elements of a constant matrix, or a subgroup too many tiles; or a workgroup is too large",
        why: "A matrix all of whose elements are one value becomes an array with an operand for each element that a lane holds, and \
              an instruction has at most 65535 words. What is done with a tile is code of its own; no device has registers for the \
              4096 that a subgroup may hold of a matrix. A workgroup has at most 65536 invocations, far more than on any device.",
        remedy: "Use smaller matrices, or more lanes or subgroups.",
    },
    RefusalRule {
        id: "refused-spec-value",
        summary: "a value that a specialization constant can't have",
        why: "The value given with --spec does not fit the type of the constant.",
        remedy: "Give a value of the constant's type.",
    },
    RefusalRule {
        id: "refused-store-narrow",
        summary: "elements that are stored as parts of words",
        why: "Memory is declared in numbers wider than an element, no lane holds all elements of such a number, and they can't be \
              handed around so that one does; writing a part would disturb what is beside it.",
        remedy: "Store into memory of the component type, or use dimensions that are multiples of the elements in a number.",
    },
    RefusalRule {
        id: "refused-subgroup-size",
        summary: "subgroups of a size that the pipeline can't require",
        why: "Who holds which element depends on the size of subgroups, and all of them must be full: the pipeline requires the size \
              and full subgroups. For that the device must have the size, and x of the workgroup size must be a multiple of it \
              (VUID-VkPipelineShaderStageCreateInfo-module-08987, VUID-VkPipelineShaderStageCreateInfo-pNext-02757).",
        remedy: "Require a size that divides x, with --subgroup-size; --target auto tries those that the device has. Lanes by local \
                 index (--lanes local-index) need no full subgroups.",
    },
    RefusalRule {
        id: "refused-tensor",
        summary: "a tensor access that is undefined whatever the values are",
        why: "Spans, block sizes and view dimensions of 0 make the address of an element the remainder of a division by 0.",
        remedy: "Set them before loading or storing; see what coopcheck says.",
    },
    RefusalRule {
        id: "refused-tensor-value",
        summary: "a tensor layout or view that can't be followed",
        why: "A layout becomes plain numbers, which needs the instruction that made it to be known at each access. Local variables, \
              phis, selects and functions are followed; arrays, structs and globals of layouts are not.",
        remedy: "Keep layouts and views in local variables.",
    },
    RefusalRule {
        id: "refused-type",
        summary: "a matrix type that has no lowering",
        why: "Its scope is neither Subgroup nor Workgroup, it has no elements or more than 2^20, its use is unknown, or its components \
              are no numbers of 8, 16, 32 or 64 bits.",
        remedy: "Use such a type.",
    },
    RefusalRule {
        id: "refused-unknown-dimension",
        summary: "rows, columns, scope or use that are not known",
        why: "Who holds which element is decided when lowering, from the dimensions. A specialization constant without a value leaves \
              them open, and its default may not be what the pipeline will use.",
        remedy: "Pass what the pipeline uses: --spec ID=VALUE; or --spec-defaults.",
    },
    RefusalRule {
        id: "refused-unknown-size",
        summary: "how many lanes share a matrix is not known",
        why: "The size of a subgroup is the device's, that of a workgroup may be specialized, and each entry point has its own; what a \
              lane holds depends on it.",
        remedy: "Pass --subgroup-size N or --profile NAME, --spec for the workgroup's size, and --entry NAME where the entry points of a \
                 module have workgroups of different sizes.",
    },
    RefusalRule {
        id: "refused-vulkan-addresses",
        summary: "the module's addresses are not 64 bits wide",
        why: KERNELS,
        remedy: "Compile for spirv64.",
    },
    RefusalRule {
        id: "refused-vulkan-arguments",
        summary: "the arguments don't fit into the push constants (128 bytes, or what the profile says)",
        why: KERNELS,
        remedy: "Put some into a buffer.",
    },
    RefusalRule {
        id: "refused-vulkan-builtin",
        summary: "a built-in has no equal (the number of dimensions, say)",
        why: KERNELS,
        remedy: "Compute it from arguments.",
    },
    RefusalRule {
        id: "refused-vulkan-call",
        summary: "a called function is not in the module",
        why: KERNELS,
        remedy: "Link it; OpenCL's names need !opencl.ocl.version when translated.",
    },
    RefusalRule {
        id: "refused-vulkan-copy",
        summary: "a copy of memory is long, or its length not known",
        why: KERNELS,
        remedy: "Write a loop.",
    },
    RefusalRule {
        id: "refused-vulkan-flow",
        summary: "constructs would nest deeper than some hundred levels",
        why: KERNELS,
        remedy: "Less unrolling and inlining.",
    },
    RefusalRule {
        id: "refused-vulkan-generic",
        summary: "a pointer comes from memory or a number without saying which memory it points into",
        why: KERNELS,
        remedy: "Compile with -O2.",
    },
    RefusalRule {
        id: "refused-vulkan-group",
        summary: "a barrier, atomic or group operation has no equal at its scope",
        why: KERNELS,
        remedy: "Barriers, shared memory, subgroups.",
    },
    RefusalRule {
        id: "refused-vulkan-instruction",
        summary: "an instruction of kernels has no equal",
        why: KERNELS,
        remedy: "Plain arithmetic.",
    },
    RefusalRule {
        id: "refused-vulkan-local-argument",
        summary: "an argument points to local memory of unknown size",
        why: KERNELS,
        remedy: "Pass --local-arg N=BYTES.",
    },
    RefusalRule {
        id: "refused-vulkan-local-size",
        summary: "the workgroup size is not known, or contradicts the kernel's",
        why: KERNELS,
        remedy: "Pass --local-size X,Y,Z.",
    },
    RefusalRule {
        id: "refused-vulkan-math",
        summary: "a function of OpenCL.std has no equal of its precision or type",
        why: KERNELS,
        remedy: "Write it in the kernel, or use its native form.",
    },
    RefusalRule {
        id: "refused-vulkan-matrix",
        summary: "a matrix in memory is looked at as something else, or shared memory under it has narrower accesses",
        why: KERNELS,
        remedy: "Compile with -O2.",
    },
    RefusalRule {
        id: "refused-vulkan-pointer",
        summary: "a pointer may be to one variable or another, or is made in a way that is not followed",
        why: KERNELS,
        remedy: "Compile with -O2, use one array.",
    },
    RefusalRule {
        id: "refused-vulkan-type",
        summary: "a type has no layout in memory: images, samplers, Booleans in memory",
        why: KERNELS,
        remedy: "Numbers, vectors, arrays, structs.",
    },
    RefusalRule {
        id: "refused-vulkan-variable",
        summary: "a variable of the module is neither local, constant nor a built-in, is too large, or begins with something that is not a plain constant",
        why: KERNELS,
        remedy: "Pass a pointer as an argument.",
    },
];

/// The reason of that name.
pub fn refusal_rule(id: &str) -> Option<&'static RefusalRule> {
    REFUSALS.iter().find(|r| r.id == id)
}
