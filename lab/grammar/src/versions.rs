//! The versions of SPIR-V of which instructions and enumerants became part after 1.0: the column `version` of
//! `spirv.core.grammar.json` in the SPIR-V headers as of 2026-08-14. rspirv's tables don't have it. What is not here is part of
//! 1.0, or of an extension only.

/// Minor version, kind of the enumerants (`Op` for opcodes), their numbers, ascending.
pub(super) const VERSIONS: &[(u8, &str, &[u32])] = &[
    (1, "Capability", &[58, 59, 60]),
    (1, "Decoration", &[45]),
    (1, "ExecutionMode", &[33, 34, 35, 36]),
    (1, "LoopControl", &[4, 8]),
    (1, "Op", &[321, 322, 323, 324, 325, 326, 327, 328, 329, 330]),
    (2, "Decoration", &[46, 47]),
    (2, "ExecutionMode", &[37, 38, 39]),
    (2, "Op", &[331, 332]),
    (3, "BuiltIn", &[4416, 4417, 4418, 4419, 4420, 4424, 4425, 4426, 4438, 4440]),
    (3, "Capability", &[61, 62, 63, 64, 65, 66, 67, 68, 4427, 4433, 4434, 4435, 4436, 4437, 4439, 4441, 4442]),
    (3, "GroupOperation", &[3]),
    (
        3,
        "Op",
        &[
            333, 334, 335, 336, 337, 338, 339, 340, 341, 342, 343, 344, 345, 346, 347, 348, 349, 350, 351, 352, 353,
            354, 355, 356, 357, 358, 359, 360, 361, 362, 363, 364, 365, 366,
        ],
    ),
    (3, "StorageClass", &[12]),
    (4, "Capability", &[4464, 4465, 4466, 4467, 4468]),
    (4, "Decoration", &[27, 4469, 4470, 5634, 5635]),
    (4, "ExecutionMode", &[4459, 4460, 4461, 4462, 4463]),
    (4, "ImageOperands", &[4096, 8192]),
    (4, "LoopControl", &[16, 32, 64, 128, 256]),
    (4, "Op", &[400, 401, 402, 403, 5632, 5633]),
    (4, "StorageClass", &[5402]),
    (5, "AddressingModel", &[5348]),
    (
        5,
        "Capability",
        &[
            69, 70, 4448, 4449, 4450, 5301, 5302, 5303, 5304, 5305, 5306, 5307, 5308, 5309, 5310, 5311, 5312, 5345,
            5346, 5347,
        ],
    ),
    (5, "Decoration", &[5300, 5355, 5356]),
    (5, "ImageOperands", &[256, 512, 1024, 2048]),
    (5, "MemoryAccess", &[8, 16, 32]),
    (5, "MemoryModel", &[3]),
    (5, "MemorySemantics", &[4096, 8192, 16384, 32768]),
    (5, "Scope", &[5]),
    (5, "StorageClass", &[5349]),
    (6, "Capability", &[71, 5379, 6016, 6017, 6018, 6019]),
    (6, "ImageOperands", &[16384]),
    (6, "Op", &[4416, 4450, 4451, 4452, 4453, 4454, 4455, 5380]),
    (6, "PackedVectorFormat", &[0]),
];
