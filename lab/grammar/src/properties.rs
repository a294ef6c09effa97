//! The class, the effects and the properties of every opcode.
//!
//! The classes are the sections of chapter 3.3 of the SPIR-V specification; extensions are put with the section whose
//! instructions they resemble. An opcode that no row names stops the generator, and so does one that two rows name.

use std::ops::RangeInclusive;

/// Bits of `Effects` in `ir/src/grammar.rs`.
const READS: u8 = 1;
const WRITES: u8 = 2;
const BARRIER: u8 = 4;
const EXCHANGES: u8 = 8;
const CONTROL: u8 = 16;
const CALLS: u8 = 32;
/// The effects of an instruction whose effects are unknown.
const ANYTHING: u8 = READS | WRITES | EXCHANGES | CONTROL | CALLS;

/// A class, what its instructions do, and their opcodes.
type Row = (&'static str, u8, &'static [RangeInclusive<u16>]);

const ROWS: &[Row] = &[
    ("Miscellaneous", 0, &[0..=1, 321..=321, 5631..=5631, 6145..=6145]),
    // OpAssumeTrueKHR: its removal is always right, its motion is not.
    ("Miscellaneous", CONTROL, &[5630..=5630]),
    // OpReadClockKHR: two reads differ.
    ("Miscellaneous", READS, &[5056..=5056]),
    // OpIsHelperInvocationEXT changes during an invocation; OpSamplerImageAddressingModeNV is a mode of the module.
    ("Miscellaneous", READS, &[5381..=5381]),
    ("Debug", 0, &[2..=8, 317..=317, 330..=330]),
    ("Annotation", 0, &[71..=75, 332..=332, 5127..=5127, 5632..=5633, 5911..=5913]),
    ("Extension", 0, &[10..=11, 6248..=6248]),
    // The extended instruction sets have a table of their own.
    ("Extension", 0, &[12..=12, 4433..=4433]),
    ("ModeSetting", 0, &[14..=17, 331..=331, 5397..=5397, 6249..=6250]),
    (
        "Type",
        0,
        &[
            19..=39,
            322..=322,
            327..=327,
            4163..=4163,
            4190..=4190,
            4417..=4417,
            4456..=4456,
            4472..=4472,
            5076..=5076,
            5115..=5115,
            5281..=5281,
            5288..=5288,
            5313..=5313,
            5341..=5341,
            5358..=5358,
            5370..=5371,
            5700..=5712,
            6086..=6086,
            6090..=6090,
            6119..=6119,
            6199..=6199,
        ],
    ),
    (
        "Constant",
        0,
        &[41..=52, 323..=323, 4461..=4462, 5103..=5104, 5129..=5129, 5600..=5600, 6091..=6092, 6251..=6253],
    ),
    // Variables, access chains, array lengths, comparisons of pointers, prefetches.
    (
        "Memory",
        0,
        &[
            59..=60,
            65..=70,
            401..=403,
            4418..=4420,
            4423..=4426,
            5119..=5119,
            5126..=5126,
            5398..=5398,
            5818..=5818,
            6244..=6244,
        ],
    ),
    ("Memory", READS, &[61..=61, 6428..=6428]),
    ("Memory", WRITES, &[62..=62, 6429..=6429]),
    ("Memory", READS | WRITES, &[63..=64]),
    // OpSaveMemoryINTEL and OpRestoreMemoryINTEL bound the life of arrays on the stack.
    ("Memory", WRITES, &[5819..=5820]),
    ("Function", 0, &[54..=56, 5609..=5610]),
    ("Function", CALLS, &[57..=57]),
    ("Function", ANYTHING, &[5601..=5601, 5611..=5611]),
    // OpSampledImage, OpImage, queries.
    ("Image", 0, &[86..=86, 100..=107, 316..=316]),
    ("Image", READS, &[87..=98, 305..=315, 320..=320, 4160..=4162, 4480..=4483, 4500..=4503, 5011..=5012, 5283..=5283]),
    ("Image", WRITES, &[99..=99]),
    (
        "Conversion",
        0,
        &[
            109..=124,
            4195..=4195,
            4447..=4447,
            4497..=4497,
            5391..=5396,
            5934..=5934,
            5938..=5938,
            6116..=6117,
            6426..=6426,
            6529..=6531,
        ],
    ),
    ("Composite", 0, &[77..=84, 400..=400, 4463..=4463, 4540..=4542, 6096..=6096, 6254..=6254]),
    ("Arithmetic", 0, &[126..=152, 4427..=4427, 4450..=4455, 5585..=5598, 5840..=5882, 5923..=5933, 6916..=6918]),
    ("Bit", 0, &[194..=205, 6242..=6242]),
    ("Relational", 0, &[154..=191]),
    // Neighbors in a quad.
    ("Derivative", EXCHANGES, &[207..=215]),
    ("Primitive", WRITES, &[218..=221, 5295..=5295, 5299..=5299]),
    // Fragment shader interlock.
    ("Primitive", BARRIER, &[5364..=5365]),
    ("Barrier", BARRIER, &[224..=225, 329..=329, 6142..=6143]),
    ("Barrier", 0, &[328..=328]),
    ("Atomic", READS, &[227..=227]),
    ("Atomic", WRITES, &[228..=228, 319..=319]),
    ("Atomic", READS | WRITES, &[229..=242, 318..=318, 5614..=5615, 6035..=6035]),
    // Phis, labels, merges, the ends of lifetimes.
    ("ControlFlow", 0, &[245..=248, 5887..=5887]),
    ("ControlFlow", WRITES, &[256..=257]),
    ("ControlFlow", CONTROL, &[249..=255, 4416..=4416, 4448..=4449, 5294..=5294, 5335..=5336, 5380..=5380]),
    ("Group", READS | WRITES | EXCHANGES, &[259..=259, 4434..=4434]),
    ("Group", BARRIER | EXCHANGES, &[260..=260]),
    ("Group", EXCHANGES, &[261..=271, 5000..=5007, 6401..=6408]),
    ("NonUniform", EXCHANGES, &[333..=366, 4421..=4422, 4428..=4432, 5110..=5111, 5296..=5296]),
    // SPV_INTEL_subgroups and its relatives: shuffles, block accesses, products.
    ("NonUniform", EXCHANGES, &[5571..=5574, 6237..=6237]),
    ("NonUniform", READS | EXCHANGES, &[5575..=5575, 5577..=5577, 5580..=5580]),
    ("NonUniform", WRITES | EXCHANGES, &[5576..=5576, 5578..=5578, 5581..=5581]),
    ("NonUniform", EXCHANGES, &[6221..=6221, 6234..=6234]),
    // The two-dimensional block loads write through a pointer to private memory.
    ("NonUniform", READS | WRITES | EXCHANGES, &[6231..=6233, 6235..=6235]),
    ("Pipe", READS | WRITES | EXCHANGES, &[274..=288, 324..=324, 5946..=5947]),
    ("DeviceSideEnqueue", READS | WRITES, &[291..=304, 325..=326]),
    (
        "RayTracing",
        ANYTHING,
        &[
            4445..=4446,
            4473..=4479,
            5249..=5280,
            5300..=5301,
            5304..=5312,
            5314..=5334,
            5337..=5340,
            5344..=5352,
            5427..=5439,
            6016..=6032,
        ],
    ),
    ("CooperativeMatrix", 0, &[4460..=4460, 5362..=5362, 5363..=5363, 6440..=6440]),
    // Products, conversions and constructions of matrices are whole in their scope.
    ("CooperativeMatrix", EXCHANGES, &[4459..=4459, 5293..=5293, 5361..=5361, 5390..=5390, 6195..=6195]),
    // With functions of the module.
    ("CooperativeMatrix", EXCHANGES | CALLS, &[5366..=5366, 5369..=5369, 6448..=6448]),
    ("CooperativeMatrix", READS | EXCHANGES, &[4457..=4457, 5359..=5359, 6193..=6193, 6239..=6239]),
    ("CooperativeMatrix", READS | EXCHANGES | CALLS, &[5367..=5367]),
    ("CooperativeMatrix", WRITES | EXCHANGES, &[4458..=4458, 5360..=5360, 5368..=5368, 6194..=6194, 6240..=6240]),
    ("CooperativeMatrix", EXCHANGES, &[6449..=6449]),
    ("TensorAddressing", 0, &[5372..=5379, 5382..=5382, 5384..=5384]),
    ("Tensor", READS, &[4164..=4164]),
    ("Tensor", WRITES, &[4165..=4165]),
    ("Tensor", 0, &[4166..=4166]),
    ("CooperativeVector", READS, &[5289..=5289, 5292..=5292, 5302..=5302]),
    ("CooperativeVector", READS | WRITES, &[5290..=5291]),
    ("CooperativeVector", WRITES, &[5303..=5303]),
    ("Graph", ANYTHING, &[4181..=4186]),
    ("MotionEstimation", READS | EXCHANGES, &[5699..=5699, 5713..=5816]),
    ("NodePayload", ANYTHING, &[5074..=5075, 5078..=5078, 5090..=5090, 5101..=5101]),
    ("Fpga", ANYTHING, &[5949..=5949, 6163..=6166]),
];

/// A property, by its name in `ir/src/grammar/properties.rs`, and the opcodes that have it.
type Property = (&'static str, &'static [RangeInclusive<u16>]);

const PROPERTIES: &[Property] = &[
    ("TERMINATOR", &[249..=255, 4416..=4416, 4448..=4449, 5294..=5294]),
    // OpBranch, OpBranchConditional, OpSwitch.
    ("BRANCH", &[249..=251]),
    ("ACCESS_CHAIN", &[65..=67, 70..=70, 4419..=4420, 4423..=4424]),
    // Of those, the ones whose first index counts objects at the base, and those whose first operand is a type.
    ("ELEMENT_CHAIN", &[67..=67, 70..=70, 4423..=4424]),
    ("UNTYPED", &[4418..=4420, 4423..=4426]),
    // Between numbers, with a sign or a floating point or none.
    ("NUMERIC_CONVERSION", &[109..=115]),
    ("POINTER_CAST", &[121..=123]),
    // OpCopyObject, OpCopyLogical, OpExpectKHR, OpArithmeticFenceEXT: the result is the operand.
    ("COPY", &[83..=83, 400..=400, 5631..=5631, 6145..=6145]),
    // What the extensions list for matrices, OpMatrixTimesScalar included.
    ("MATRIX_ARITHMETIC", &[126..=136, 143..=143]),
    ("INTEGER_COMPARISON", &[164..=165, 170..=179]),
    // Not OpIsNormal, which nothing here computes.
    ("COMPARISON", &[156..=158, 160..=165, 170..=191, 401..=402]),
    // Constants that a specialization gives a value.
    ("SPEC_LITERAL", &[48..=50]),
    ("REPLICATED", &[4461..=4463]),
    ("COMPOSITE", &[44..=44, 51..=51, 80..=80, 4461..=4463]),
    // The layouts and the views of SPV_NV_tensor_addressing, as values.
    ("TENSOR_LAYOUT", &[5372..=5376, 5384..=5384]),
    ("TENSOR_VIEW", &[5377..=5379, 5382..=5382]),
    ("DOT_PRODUCT", &[4450..=4455]),
    ("SATURATING_DOT_PRODUCT", &[4453..=4455]),
    // Functions of the operands alone, the same in every invocation: vectors and composites, conversions, arithmetic, logic,
    // bits, comparisons of pointers, lengths and queries, tensor layouts, conversions of matrices.
    (
        "PURE",
        &[
            68..=68,
            77..=83,
            86..=86,
            100..=104,
            106..=107,
            109..=124,
            126..=152,
            154..=191,
            194..=205,
            400..=403,
            4195..=4195,
            4425..=4425,
            4450..=4455,
            4463..=4463,
            5293..=5293,
            5372..=5379,
            5382..=5382,
            5384..=5384,
            5390..=5390,
            5585..=5586,
            5589..=5590,
            5595..=5596,
        ],
    ),
    // What addresses are computed with: integers, truth values, composites, typed chains.
    (
        "ADDRESS_ARITHMETIC",
        &[
            65..=66,
            80..=81,
            83..=83,
            113..=114,
            124..=124,
            126..=126,
            128..=128,
            130..=130,
            132..=132,
            134..=134,
            137..=137,
            164..=175,
            176..=179,
            194..=200,
        ],
    ),
    // No operand can be a pointer to a variable.
    ("TAKES_NO_POINTER", &[109..=116, 118..=119, 126..=168, 170..=205, 246..=253]),
    // What computes each component of a vector from the same component of the operands, for numbers and truth values.
    ("COMPONENTWISE", &[109..=119, 124..=124, 126..=141, 164..=191, 194..=205]),
    // What ends the invocation: OpKill, OpTerminateInvocation, OpIgnoreIntersectionKHR, OpTerminateRayKHR.
    ("ENDS_INVOCATION", &[252..=252, 4416..=4416, 4448..=4449]),
    // What makes pointers with Logical addressing: variables, chains, parameters, copies, texel and buffer pointers.
    ("LOGICAL_POINTER", &[55..=55, 59..=60, 65..=66, 83..=83, 4418..=4420, 5119..=5119, 5398..=5398]),
    // What does so with variable pointers only: null, calls, loads, chains into elements, selections, phis.
    ("VARIABLE_POINTER", &[46..=46, 57..=57, 61..=61, 67..=67, 169..=169, 245..=245, 4423..=4424]),
    // What values of every type may be operands or results of.
    (
        "ANY_TYPE",
        &[
            1..=1,
            54..=55,
            57..=57,
            59..=59,
            61..=62,
            80..=80,
            83..=83,
            245..=245,
            254..=254,
            4463..=4463,
            5601..=5601,
            5611..=5611,
        ],
    ),
    // Reads of images that are sampled, fetched from or gathered from.
    ("IMAGE_SAMPLE", &[87..=97, 314..=315, 4480..=4480]),
    // Derivatives, and what takes them for a level of detail.
    (
        "DERIVATIVES",
        &[87..=87, 89..=89, 91..=91, 93..=93, 105..=105, 207..=215, 305..=305, 307..=307, 309..=309, 311..=311],
    ),
];

/// Every operand.
const ALL: u16 = u16::MAX;

/// The classes that name things of every kind: notes, modes, types, graphs.
const NAMING: [&str; 6] = ["Annotation", "Debug", "Extension", "Graph", "ModeSetting", "Type"];

/// The operands that are not values, but types, functions, labels, strings or sets of instructions: a bit for each word after
/// result type and result, the last one for all that follow. An opcode that no row names has [`ALL`] in a class of [`NAMING`],
/// and none otherwise.
const NOT_VALUES: &[(u16, &[RangeInclusive<u16>])] = &[
    // The instruction sets of OpExtInst.
    (0b1, &[12..=12, 4433..=4433]),
    // Types whose other operands are constants: arrays, vectors, matrices, tensors, payloads of nodes.
    (0b1, &[28..=28, 4163..=4163, 4456..=4456, 5076..=5076, 5288..=5288, 5358..=5358, 6119..=6119]),
    // Tensor layouts and views: constants only.
    (0, &[5370..=5371]),
    (ALL, &[54..=54]),
    // Calls.
    (0b1, &[57..=57, 5600..=5600, 5611..=5611, 6163..=6163]),
    // The types that untyped pointers are said to point to, and those of lengths and sizes.
    (0b1, &[4419..=4420, 4423..=4425, 4460..=4460, 5126..=5126, 5129..=5129, 5362..=5362, 6244..=6244]),
    (0b10, &[4418..=4418]),
    // OpPhi, merges, branches.
    (0b1010_1010_1010_1010, &[245..=245]),
    (ALL, &[246..=247, 249..=249]),
    (ALL & !1, &[250..=251]),
    // Kernels to enqueue, or to ask about.
    (0b100_0000, &[292..=292]),
    (0b10, &[293..=294, 325..=325]),
    (0b1, &[295..=296, 326..=326]),
    (0b11, &[5610..=5610]),
    // The functions of matrix operations.
    (0b100, &[5366..=5366]),
    (0b10, &[5369..=5369, 6448..=6448]),
];

/// The enumerants whose parameters are not values: lists of alias scopes, functions that decode elements.
const PARAMETERS_NOT_VALUES: &[(&str, &[u32])] =
    &[("MemoryAccess", &[1 << 16, 1 << 17]), ("TensorAddressingOperands", &[1 << 1, 1 << 2])];

/// Returns the bits of the operands of an opcode that are not values.
///
/// # Panics
///
/// If two rows name the opcode, or if the name is that of an instruction with a function or a type that no row has.
pub(super) fn not_values(op: u16, name: &str) -> u16 {
    let mut rows = NOT_VALUES.iter().filter(|(_, ranges)| ranges.iter().any(|r| r.contains(&op)));
    let row = rows.next();
    assert!(rows.next().is_none(), "properties: two rows of NOT_VALUES have opcode {op} (Op{name})");
    let kin = name.starts_with("Untyped") && name.contains("AccessChain") || name.ends_with("FunctionCall");
    assert!(row.is_some() || !kin, "properties: Op{name} has the name of one with a type or a function, and no row");
    row.map_or(if NAMING.contains(&of(op, name).0) { ALL } else { 0 }, |row| row.0)
}

/// Returns true if the parameters of an enumerant are not values.
pub(super) fn parameters_are_not_values(kind: &str, value: u32) -> bool {
    PARAMETERS_NOT_VALUES.iter().any(|(k, values)| *k == kind && values.contains(&value))
}

/// The names of the properties, in the order of their bits.
pub(super) fn properties() -> impl Iterator<Item = &'static str> {
    PROPERTIES.iter().map(|p| p.0)
}

/// Returns the bits of an opcode's properties.
///
/// # Panics
///
/// If the name implies a property that no row has.
pub(super) fn bits_of(op: u16, name: &str) -> u32 {
    let has = |p: &Property| p.1.iter().any(|r| r.contains(&op));
    let named = |property: &str| PROPERTIES.iter().any(|p| p.0 == property && has(p));
    let kin = [
        ("ACCESS_CHAIN", name.ends_with("AccessChain") || name.ends_with("AccessChainKHR")),
        ("UNTYPED", name.starts_with("Untyped") && name.contains("Chain")),
        ("ELEMENT_CHAIN", name.contains("PtrAccessChain")),
        ("TENSOR_LAYOUT", name.contains("TensorLayout") && !name.starts_with("Type")),
        ("TENSOR_VIEW", name.contains("TensorView") && !name.starts_with("Type")),
        ("REPLICATED", name.contains("CompositeReplicate") || name.contains("ConstructReplicate")),
        ("DERIVATIVES", name.starts_with("DPd") || name.starts_with("Fwidth") || name.contains("ImplicitLod")),
        ("BRANCH", name.starts_with("Branch")),
    ];
    for (property, of_name) in kin {
        assert!(!of_name || named(property), "properties: Op{name} has the name of {property}, but not the property");
    }
    PROPERTIES.iter().enumerate().filter(|(_, p)| has(p)).map(|(i, _)| 1 << i).sum()
}

/// The operations of groups of invocations, by what follows `Group`, `GroupNonUniform` or `Subgroup` in a name.
const GROUP_OPERATIONS: &[(&str, &str)] = &[
    ("Elect", "Elect"),
    ("All", "All"),
    ("Any", "Any"),
    ("AllEqual", "AllEqual"),
    ("Ballot", "Ballot"),
    ("InverseBallot", "InverseBallot"),
    ("BallotBitExtract", "BallotBitExtract"),
    ("BallotBitCount", "BallotBitCount"),
    ("BallotFindLSB", "BallotFindLsb"),
    ("BallotFindMSB", "BallotFindMsb"),
    ("Broadcast", "Broadcast"),
    ("ReadInvocation", "Broadcast"),
    ("BroadcastFirst", "BroadcastFirst"),
    ("FirstInvocation", "BroadcastFirst"),
    ("Shuffle", "Shuffle"),
    ("ShuffleXor", "ShuffleXor"),
    ("ShuffleUp", "ShuffleUp"),
    ("ShuffleDown", "ShuffleDown"),
    ("Rotate", "Rotate"),
    ("QuadBroadcast", "QuadBroadcast"),
    ("QuadSwap", "QuadSwap"),
    ("QuadAll", "QuadAll"),
    ("QuadAny", "QuadAny"),
    ("IAdd", "IAdd"),
    ("FAdd", "FAdd"),
    ("IMul", "IMul"),
    ("FMul", "FMul"),
    ("SMin", "SMin"),
    ("UMin", "UMin"),
    ("FMin", "FMin"),
    ("SMax", "SMax"),
    ("UMax", "UMax"),
    ("FMax", "FMax"),
    ("BitwiseAnd", "And"),
    ("BitwiseOr", "Or"),
    ("BitwiseXor", "Xor"),
    ("LogicalAnd", "LogicalAnd"),
    ("LogicalOr", "LogicalOr"),
    ("LogicalXor", "LogicalXor"),
];

/// Instructions of groups that are no such operation: copies, pipes, partitions.
const OTHER_OF_GROUPS: [&str; 7] = [
    "GroupAsyncCopy",
    "GroupWaitEvents",
    "GroupReserveReadPipePackets",
    "GroupReserveWritePipePackets",
    "GroupCommitReadPipe",
    "GroupCommitWritePipe",
    "GroupNonUniformPartitionEXT",
];

/// Returns the operation of a group of invocations that an instruction is, by its variant of `GroupOp`.
///
/// # Panics
///
/// If an instruction has the name of a group operation that is not known.
pub(super) fn group_operation(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix("GroupNonUniform").or_else(|| name.strip_prefix("Group"));
    let rest = rest.or_else(|| name.strip_prefix("Subgroup"))?;
    let rest = rest.strip_suffix("NonUniformAMD").or_else(|| rest.strip_suffix("KHR")).unwrap_or(rest);
    let found = GROUP_OPERATIONS.iter().find(|o| o.0 == rest).map(|o| o.1);
    // Decorations of groups; Intel's blocks, shuffles and motion estimation.
    let other = name.ends_with("Decorate") || rest.ends_with("INTEL") || OTHER_OF_GROUPS.contains(&name);
    assert!(found.is_some() || other, "properties: Op{name} is in none of the lists of groups");
    found
}

/// Returns the class of an opcode and the bits of its effects.
///
/// # Panics
///
/// If no row names the opcode, or more than one does.
pub(super) fn of(op: u16, name: &str) -> (&'static str, u8) {
    let mut rows = ROWS.iter().filter(|(_, _, ranges)| ranges.iter().any(|r| r.contains(&op)));
    let row = rows.next().unwrap_or_else(|| panic!("properties: no row has opcode {op} (Op{name})"));
    assert!(rows.next().is_none(), "properties: two rows have opcode {op} (Op{name})");
    (row.0, row.1)
}

#[cfg(test)]
mod tests {
    use super::{bits_of, group_operation, of};

    #[test]
    #[should_panic(expected = "no row has opcode 65000 (OpNew)")]
    fn an_opcode_without_a_class_stops_the_generator() {
        of(65000, "New");
    }

    #[test]
    #[should_panic(expected = "OpNewAccessChainKHR has the name of ACCESS_CHAIN, but not the property")]
    fn an_access_chain_that_is_not_listed_stops_the_generator() {
        bits_of(65000, "NewAccessChainKHR");
    }

    #[test]
    #[should_panic(expected = "OpGroupNonUniformNew is in none of the lists of groups")]
    fn an_operation_of_groups_that_is_not_listed_stops_the_generator() {
        group_operation("GroupNonUniformNew");
    }
}
