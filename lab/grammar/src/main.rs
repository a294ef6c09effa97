//! Generates `ir/src/grammar/tables.rs` and `ir/src/spv/tables.rs`: what rspirv knows, with the supplement, in the shape that reading needs.
//!
//! rspirv's tables are searched linearly and its enumerants can only be asked about one at a time, with an allocation.
//! As static arrays indexed by opcode, decoding costs nothing but the look-up. The tables are checked in, so that no
//! user of the library builds rspirv; a test fails when they are stale.

use rspirv::dr::Operand;
use rspirv::grammar::{
    ExtendedInstruction, GLSL_STD_450_INSTRUCTION_TABLE, INSTRUCTION_TABLE, LogicalOperand,
    NONSEMANTIC_SHADER_DEBUGINFO_100_INSTRUCTION_TABLE, OPENCL_STD_100_INSTRUCTION_TABLE, OperandQuantifier,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

mod properties;
mod supplement;
mod versions;

type Shapes = Vec<(String, char)>;

/// An instruction of an extended set: number, name, operands.
type ExtRow = (u32, &'static str, Shapes);

struct Enumerant {
    value: u32,
    name: String,
    params: Shapes,
    capabilities: Vec<u32>,
    extensions: Vec<String>,
}

struct OpRow {
    name: String,
    operands: Shapes,
    capabilities: Vec<u32>,
    extensions: Vec<String>,
}

/// No enumerant has a larger value; vendor ranges of the registry end well below.
const MAX_ENUMERANT: u32 = 8191;

fn kind_name(kind: rspirv::grammar::OperandKind) -> String {
    let name = format!("{kind:?}");
    // Kinds that belong to one extended instruction set are literals of that set.
    if name.contains('(') { "LiteralInteger".to_owned() } else { name }
}

fn shapes(operands: &[LogicalOperand]) -> Shapes {
    operands
        .iter()
        .map(|o| {
            let q = match o.quantifier {
                OperandQuantifier::One => '1',
                OperandQuantifier::ZeroOrOne => '?',
                OperandQuantifier::ZeroOrMore => '*',
            };
            (kind_name(o.kind), q)
        })
        .collect()
}

/// `MAKE_POINTER_VISIBLE` to `MakePointerVisible`: rspirv renames the bits of masks, the assembly language does not.
fn mask_name(kind: &str, constant: &str) -> String {
    match (kind, constant) {
        ("FPFastMathMode", "NOT_NAN") => return "NotNaN".into(),
        ("CooperativeMatrixReduce", "_2X2") => return "2x2".into(),
        ("RayFlags", "SKIP_AAB_BS_KHR") => return "SkipAABBsKHR".into(),
        ("RayFlags", "FORCE_OPACITY_MICROMAP2_STATE_EXT") => return "ForceOpacityMicromap2StateEXT".into(),
        ("MatrixMultiplyAccumulateOperands", c) => {
            return match c {
                "MATRIX_A_SIGNED_COMPONENTS_INTEL" => "MatrixASignedComponentsINTEL",
                "MATRIX_B_SIGNED_COMPONENTS_INTEL" => "MatrixBSignedComponentsINTEL",
                "MATRIX_CB_FLOAT16_INTEL" => "MatrixCBFloat16INTEL",
                "MATRIX_RESULT_B_FLOAT16_INTEL" => "MatrixResultBFloat16INTEL",
                "MATRIX_A_PACKED_INT8_INTEL" => "MatrixAPackedInt8INTEL",
                "MATRIX_B_PACKED_INT8_INTEL" => "MatrixBPackedInt8INTEL",
                "MATRIX_A_PACKED_INT4_INTEL" => "MatrixAPackedInt4INTEL",
                "MATRIX_B_PACKED_INT4_INTEL" => "MatrixBPackedInt4INTEL",
                "MATRIX_ATF32INTEL" => "MatrixATF32INTEL",
                "MATRIX_BTF32INTEL" => "MatrixBTF32INTEL",
                "MATRIX_A_PACKED_FLOAT16_INTEL" => "MatrixAPackedFloat16INTEL",
                "MATRIX_B_PACKED_FLOAT16_INTEL" => "MatrixBPackedFloat16INTEL",
                "MATRIX_A_PACKED_B_FLOAT16_INTEL" => "MatrixAPackedBFloat16INTEL",
                "MATRIX_B_PACKED_B_FLOAT16_INTEL" => "MatrixBPackedBFloat16INTEL",
                other => other,
            }
            .into();
        }
        _ => {}
    }
    constant
        .split('_')
        .map(|part| match part {
            "KHR" | "EXT" | "NV" | "INTEL" | "ARM" | "QCOM" | "AMD" | "ALTERA" | "NSZ" => part.to_owned(),
            _ => {
                let mut chars = part.chars();
                let first = chars.next().unwrap_or_default();
                first.to_string() + &chars.as_str().to_ascii_lowercase()
            }
        })
        .collect()
}

fn value_name(kind: &str, variant: String) -> String {
    match kind {
        // Rust identifiers can't begin with a digit; SPIR-V's names of dimensions do, so rspirv prefixes all of them.
        "Dim" => variant.strip_prefix("Dim").map(str::to_owned).unwrap_or(variant),
        _ => variant.trim_start_matches('_').to_owned(),
    }
}

/// The groups whose names extensions end in. An item that moves to another group or to the core keeps its old name as
/// well.
const GROUPS: [&str; 12] =
    ["KHR", "EXT", "NV", "INTEL", "ALTERA", "ARM", "GOOGLE", "AMD", "AMDX", "QCOM", "NVX", "HUAWEI"];

/// The names that an item called `name` may have had in another group.
fn other_groups(name: &str) -> impl Iterator<Item = String> + '_ {
    let stem = GROUPS.iter().find_map(|g| name.strip_suffix(g)).unwrap_or(name);
    GROUPS.iter().map(move |g| format!("{stem}{g}")).filter(move |n| n != name)
}

macro_rules! value_kinds {
    ($out:ident, $second:ident, $($kind:ident)*) => {$(
        let mut rows = Vec::new();
        for value in 0..=MAX_ENUMERANT {
            if let Some(e) = spirv::$kind::from_u32(value) {
                let name = format!("{e:?}");
                let renamed = RENAMED.iter().filter(|r| r.0 == stringify!($kind)).map(|r| r.1.to_owned());
                let aliases = other_groups(&name).chain(renamed).filter(|n| n.parse() == Ok(e));
                $second.extend(aliases.map(|n| (stringify!($kind).to_owned(), value, n)));
                let operand = Operand::$kind(e);
                rows.push(Enumerant {
                    value,
                    name: value_name(stringify!($kind), format!("{e:?}")),
                    params: shapes(&operand.additional_operands()),
                    capabilities: operand.required_capabilities().iter().map(|c| *c as u32).collect(),
                    extensions: operand.required_extensions().iter().map(|e| e.to_string()).collect(),
                });
            }
        }
        $out.insert(stringify!($kind).to_owned(), (false, rows));
    )*};
}

macro_rules! mask_kinds {
    ($out:ident, $($kind:ident)*) => {$(
        let mut rows = Vec::new();
        for bit in 0..32 {
            let value = 1u32 << bit;
            if let Some(e) = spirv::$kind::from_bits(value) {
                let debug = format!("{e:?}");
                let constant = debug.split_once('(').map_or(debug.as_str(), |(_, r)| r.trim_end_matches(')'));
                let operand = Operand::$kind(e);
                rows.push(Enumerant {
                    value,
                    name: mask_name(stringify!($kind), constant),
                    params: shapes(&operand.additional_operands()),
                    capabilities: operand.required_capabilities().iter().map(|c| *c as u32).collect(),
                    extensions: operand.required_extensions().iter().map(|e| e.to_string()).collect(),
                });
            }
        }
        $out.insert(stringify!($kind).to_owned(), (true, rows));
    )*};
}

/// Second names that differ in more than their group.
const RENAMED: &[(&str, &str)] = &[
    ("Decoration", "HlslCounterBufferGOOGLE"),
    ("Decoration", "HlslSemanticGOOGLE"),
    ("BuiltIn", "FragmentSizeNV"),
    ("BuiltIn", "InvocationsPerPixelNV"),
    ("Capability", "StorageUniformBufferBlock16"),
    ("Capability", "StorageUniform16"),
    ("Capability", "ShadingRateNV"),
];

/// Second names of opcodes.
macro_rules! op_names {
    ($($name:ident)*) => { &[$((spirv::Op::$name as u32, stringify!($name))),*] };
}

const RENAMED_OPS: &[(u32, &str)] = op_names!(SDotKHR UDotKHR SUDotKHR SDotAccSatKHR UDotAccSatKHR SUDotAccSatKHR
    TypeCooperativeVectorNV GroupNonUniformPartitionNV ReportIntersectionNV TypeAccelerationStructureNV
    RayQueryGetClusterIdNV DemoteToHelperInvocationEXT DecorateStringGOOGLE MemberDecorateStringGOOGLE
    ArbitraryFloatSinCosPiINTEL ArbitraryFloatCastINTEL ArbitraryFloatCastFromIntINTEL ArbitraryFloatCastToIntINTEL
    ArbitraryFloatAddINTEL ArbitraryFloatSubINTEL ArbitraryFloatMulINTEL ArbitraryFloatDivINTEL ArbitraryFloatGTINTEL
    ArbitraryFloatGEINTEL ArbitraryFloatLTINTEL ArbitraryFloatLEINTEL ArbitraryFloatEQINTEL ArbitraryFloatRecipINTEL
    ArbitraryFloatRSqrtINTEL ArbitraryFloatCbrtINTEL ArbitraryFloatHypotINTEL ArbitraryFloatSqrtINTEL FixedSqrtINTEL
    FixedRecipINTEL FixedRsqrtINTEL FixedSinINTEL FixedCosINTEL FixedSinCosINTEL FixedSinPiINTEL FixedCosPiINTEL
    FixedSinCosPiINTEL FixedLogINTEL FixedExpINTEL PtrCastToCrossWorkgroupINTEL CrossWorkgroupCastToPtrINTEL
    ReadPipeBlockingINTEL WritePipeBlockingINTEL FPGARegINTEL TaskSequenceCreateINTEL TaskSequenceAsyncINTEL
    TaskSequenceGetINTEL TaskSequenceReleaseINTEL TypeTaskSequenceINTEL);

type Enumerants = BTreeMap<String, (bool, Vec<Enumerant>)>;

/// Kind, value, name.
type SecondNames = Vec<(String, u32, String)>;

fn enumerants() -> (Enumerants, SecondNames) {
    let mut out = BTreeMap::new();
    let mut second = Vec::new();
    value_kinds!(out, second, SourceLanguage ExecutionModel AddressingModel MemoryModel ExecutionMode StorageClass Dim
        SamplerAddressingMode SamplerFilterMode ImageFormat ImageChannelOrder ImageChannelDataType FPRoundingMode
        FPDenormMode QuantizationModes FPOperationMode OverflowModes LinkageType AccessQualifier HostAccessQualifier
        FunctionParameterAttribute Decoration BuiltIn Scope GroupOperation KernelEnqueueFlags Capability
        RayQueryIntersection RayQueryCommittedIntersectionType RayQueryCandidateIntersectionType PackedVectorFormat
        CooperativeMatrixLayout CooperativeMatrixUse TensorClampMode InitializationModeQualifier LoadCacheControl
        StoreCacheControl NamedMaximumNumberOfRegisters FPEncoding CooperativeVectorMatrixLayout ComponentType);
    mask_kinds!(out, ImageOperands FPFastMathMode SelectionControl LoopControl FunctionControl MemorySemantics
        MemoryAccess KernelProfilingInfo RayFlags FragmentShadingRate RawAccessChainOperands CooperativeMatrixOperands
        CooperativeMatrixReduce TensorAddressingOperands MatrixMultiplyAccumulateOperands TensorOperands);
    for &(kind, value, name, params, caps) in supplement::ENUMERANTS {
        let (_, rows) = out.get_mut(kind).unwrap_or_else(|| panic!("supplement: no kind {kind}"));
        assert!(rows.iter().all(|r| r.value != value), "supplement: {kind} {value} ({name}) is in rspirv now");
        rows.push(Enumerant {
            value,
            name: name.to_owned(),
            params: params.iter().map(|(k, q)| (k.to_string(), q.chars().next().unwrap_or('1'))).collect(),
            capabilities: caps.to_vec(),
            extensions: Vec::new(),
        });
        rows.sort_by_key(|r| r.value);
    }
    second.extend(supplement::ALIASES.iter().map(|(kind, value, name)| (kind.to_string(), *value, name.to_string())));
    second.extend(RENAMED_OPS.iter().map(|(op, name)| ("Op".to_owned(), *op, name.to_string())));
    // What Altera took over from Intel has both names throughout; for masks rspirv knows one.
    for (kind, (mask, rows)) in &out {
        let altera = rows.iter().filter(|_| *mask).filter_map(|r| Some((r.value, r.name.strip_suffix("ALTERA")?)));
        second.extend(altera.map(|(value, stem)| (kind.clone(), value, format!("{stem}INTEL"))));
    }
    (out, second)
}

fn opcodes() -> BTreeMap<u16, OpRow> {
    let mut out = BTreeMap::new();
    for i in INSTRUCTION_TABLE.iter() {
        let row = OpRow {
            name: i.opname.trim_start_matches("Op").to_owned(),
            operands: shapes(i.operands),
            capabilities: i.capabilities.iter().map(|c| *c as u32).collect(),
            extensions: i.extensions.iter().map(|e| e.to_string()).collect(),
        };
        out.insert(i.opcode as u16, row);
    }
    for &(op, name, operands, caps, exts) in supplement::OPS {
        let row = OpRow {
            name: name.to_owned(),
            operands: operands.iter().map(|(k, q)| (k.to_string(), q.chars().next().unwrap_or('1'))).collect(),
            capabilities: caps.to_vec(),
            extensions: exts.iter().map(|e| e.to_string()).collect(),
        };
        assert!(out.insert(op, row).is_none(), "supplement: opcode {op} ({name}) is in rspirv now");
    }
    out
}

fn write_shapes(out: &mut String, shapes: &Shapes) {
    out.push_str("&[");
    for (kind, q) in shapes {
        let q = match q {
            '?' => "Optional",
            '*' => "Repeated",
            _ => "One",
        };
        let _ = write!(out, "(Kind::{kind}, Quantifier::{q}), ");
    }
    out.push(']');
}

/// Instructions whose operands depend on more than their opcode: `OpExtInst`, `OpConstant`, `OpSpecConstant`,
/// `OpSpecConstantOp`, `OpSwitch`, `OpExtInstWithForwardRefsKHR`.
const IRREGULAR: [u16; 6] = [12, 43, 50, 52, 251, 4433];

/// Returns the traits of an instruction: the properties that are asked of every instruction, so that they cost one
/// access. See `Traits` in `src/grammar.rs`.
fn traits(op: u16, row: &OpRow) -> String {
    let kind = |i: usize| row.operands.get(i).map(|o| o.0.as_str());
    let has_type = kind(0) == Some("IdResultType");
    let has_result = kind(usize::from(has_type)) == Some("IdResult");
    let (class, _) = properties::of(op, &row.name);
    let is_type = class == "Type" && row.name != "TypeForwardPointer";
    let is_constant = class == "Constant";
    // The names tell them apart: nothing else in the grammar does.
    let is_spec_constant = is_constant && row.name.starts_with("Spec");
    let has_scopes = row.operands.iter().any(|o| matches!(o.0.as_str(), "IdScope" | "IdMemorySemantics"));
    let is_atomic = class == "Atomic";
    let group = properties::group_operation(&row.name).map_or("None".to_owned(), |o| format!("Some(GroupOp::{o})"));
    let properties = properties::bits_of(op, &row.name);
    let not_values = properties::not_values(op, &row.name);
    let rest = &row.operands[usize::from(has_type) + usize::from(has_result)..];
    let (least, most, step, ids) = if IRREGULAR.contains(&op) { NOT_PLAIN } else { plain(rest) };
    let execution = if is_type { 0 } else { execution(row, rest) };
    format!(
        "    Traits {{ has_type: {has_type}, has_result: {has_result}, is_type: {is_type}, is_constant: {is_constant}, is_spec_constant: {is_spec_constant}, has_scopes: {has_scopes}, \
         is_atomic: {is_atomic}, properties: Properties({properties:#x}), not_values: {not_values:#x}, group: {group}, execution: {execution}, least: {least}, most: {most}, step: {step}, ids: {ids} }},\n"
    )
}

/// Capabilities whose instructions work on the invocations of a subgroup together, or ask how many there are, where no operand
/// names a scope: GroupNonUniform and its kin, SubgroupDispatch, NamedBarrier, SubgroupBallotKHR, SubgroupVoteKHR, QuadControlKHR,
/// GroupNonUniformPartitionedEXT, and Intel's for subgroups.
const OF_SUBGROUPS: [u32; 28] = [
    58, 59, 61, 62, 63, 64, 65, 66, 67, 68, 4423, 4431, 5087, 5297, 5568, 5569, 5570, 5579, 5696, 5697, 5698, 6026,
    6220, 6228, 6229, 6230, 6236, 6400,
];

/// Returns the invocations that execute an instruction together: 0 each by itself, 1 those of the subgroup, 2 and more
/// those of the scope that operand 2, 3, ... less 2 names. See `ExecutionScope` in `src/grammar.rs`.
fn execution(row: &OpRow, rest: &[(String, char)]) -> usize {
    let scopes = || rest.iter().enumerate().filter(|(_, o)| o.0 == "IdScope").map(|(i, _)| i);
    // Atomic operations and memory barriers have a scope of memory with its semantics; control barriers have one of execution first.
    let of_memory = usize::from(rest.iter().any(|o| o.0 == "IdMemorySemantics"));
    // A clock is read by each.
    let own = row.name == "ReadClockKHR";
    if row.name == "UntypedGroupAsyncCopyKHR" {
        // The grammar has a plain id for its scope.
        return 2;
    }
    match scopes().next().filter(|_| scopes().count() > of_memory && !own) {
        Some(at) => 2 + at,
        None => usize::from(row.capabilities.iter().any(|c| OF_SUBGROUPS.contains(c))),
    }
}

/// Never plain: at least one word, and at most none.
const NOT_PLAIN: (u8, u8, u8, u8) = (1, 0, 1, 255);

/// Returns the least and the greatest number of words of operands (255: any number), the step between allowed numbers,
/// and the number of leading words that are ids; the others are literals of one word each.
fn plain(shapes: &[(String, char)]) -> (u8, u8, u8, u8) {
    let (mut least, mut most, mut ids) = (0, 0, 255);
    for (i, (kind, quantifier)) in shapes.iter().enumerate() {
        let is_id = matches!(kind.as_str(), "IdRef" | "IdScope" | "IdMemorySemantics");
        let is_literal = kind == "LiteralInteger";
        match quantifier {
            '1' if is_literal && most == least => ids = ids.min(least),
            '*' if is_literal && most == least => return (least, 255, 1, ids.min(least)),
            '1' if is_id && most == least && ids == 255 => {}
            '?' if is_id && ids == 255 => {
                most += 1;
                continue;
            }
            '*' if is_id && ids == 255 => return (least, 255, 1, 255),
            '*' if kind == "PairIdRefIdRef" && most == least && ids == 255 => return (least, 255, 2, 255),
            // Without it, and all that follows.
            _ if shapes[i..].iter().all(|s| s.1 != '1') => return (least, most, 1, ids),
            _ => return NOT_PLAIN,
        }
        (least, most) = (least + 1, most + 1);
    }
    (least, most, 1, ids)
}

/// The instructions of an extended set, by number: rspirv's and the supplement's, which have so many ids as operands.
fn instructions(
    table: impl Iterator<Item = &'static ExtendedInstruction<'static>>,
    more: &[(u32, &'static str, usize)],
) -> Vec<ExtRow> {
    let mut rows: Vec<_> = table.map(|r| (u32::from(r.opcode), r.opname, shapes(r.operands))).collect();
    for &(number, opname, ids) in more {
        assert!(rows.iter().all(|r| r.0 != number), "supplement: {opname} is in rspirv now");
        rows.push((number, opname, vec![("IdRef".to_owned(), '1'); ids]));
    }
    rows.sort();
    rows
}

/// The extended instruction sets: the name of their table, of their type in `spv`, and their instructions.
fn extended() -> [(&'static str, &'static str, Vec<ExtRow>); 3] {
    let debug_info = NONSEMANTIC_SHADER_DEBUGINFO_100_INSTRUCTION_TABLE.iter();
    [
        ("GLSL_STD_450", "GlslStd450", instructions(GLSL_STD_450_INSTRUCTION_TABLE.iter(), &[])),
        ("OPENCL_STD", "OpenClStd", instructions(OPENCL_STD_100_INSTRUCTION_TABLE.iter(), &[])),
        ("SHADER_DEBUG_INFO", "ShaderDebugInfo", instructions(debug_info, supplement::DEBUG_INFO)),
    ]
}

fn ext_table(out: &mut String, name: &str, rows: Vec<ExtRow>) {
    let _ = writeln!(out, "pub(super) static {name}: &[ExtInstInfo] = &[");
    for (number, opname, operands) in rows {
        let _ = write!(out, "    ExtInstInfo {{ number: {number}, name: {opname:?}, operands: ");
        write_shapes(out, &operands);
        out.push_str(" },\n");
    }
    out.push_str("];\n");
}

/// Returns the table of the minor versions of which opcodes and enumerants became part, sorted.
fn versions(ops: &BTreeMap<u16, OpRow>, enums: &Enumerants) -> String {
    let mut rows = Vec::new();
    for &(minor, kind, numbers) in versions::VERSIONS {
        for &number in numbers {
            let known = match kind {
                "Op" => u16::try_from(number).is_ok_and(|op| ops.contains_key(&op)),
                _ => enums.get(kind).is_some_and(|(_, rows)| rows.iter().any(|r| r.value == number)),
            };
            assert!(known, "versions: {kind} {number} is not in the grammar");
            let kind = if kind == "Op" { "None".to_owned() } else { format!("Some(Kind::{kind})") };
            rows.push((kind, number, minor));
        }
    }
    // The order of `Option<Kind>`: kinds are declared by name.
    rows.sort();
    let mut out = String::from("pub(super) static SINCE: &[(Option<Kind>, u32, u8)] = &[\n");
    for (kind, number, minor) in rows {
        let _ = writeln!(out, "    ({kind}, {number}, {minor}),");
    }
    out.push_str("];\n");
    out
}

/// The capabilities with these numbers, by name.
fn capabilities(enums: &Enumerants, numbers: &[u32]) -> String {
    let rows = &enums["Capability"].1;
    let name = |n: &u32| rows.iter().find(|r| r.value == *n).map_or(format!("C({n})"), |r| format!("C::{}", r.name));
    numbers.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the text of `ir/src/grammar/tables.rs`.
fn tables() -> String {
    let ops = opcodes();
    let (enums, second_names) = enumerants();
    let mut kinds: BTreeSet<String> = enums.keys().cloned().collect();
    for row in ops.values() {
        kinds.extend(row.operands.iter().map(|o| o.0.clone()));
    }
    for (_, rows) in enums.values() {
        kinds.extend(rows.iter().flat_map(|r| r.params.iter().map(|p| p.0.clone())));
    }

    let mut out = String::from(
        "// Generated by `cargo run -p coop-grammar`; do not edit.\n\n\
         use super::{Class, Effects, Enumerant, ExtInstInfo, GroupOp, Op, OpInfo, Properties, Quantifier, Traits};\n\
         use crate::spv::Capability as C;\n\n",
    );
    out.push_str("/// The kind of an operand, by its name in the SPIR-V grammar.\n");
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\npub enum Kind {\n");
    for k in &kinds {
        let _ = writeln!(out, "    /// `{k}`.\n    {k},");
    }
    let all: Vec<_> = kinds.iter().map(|k| format!("Kind::{k}")).collect();
    let _ = write!(
        out,
        "}}\n\nimpl Kind {{\n    /// Every kind.\n    pub const ALL: &[Kind] = &[{}];\n}}\n",
        all.join(", ")
    );
    out.push_str(
        "\nimpl Kind {\n    /// The enumerants of this kind, sorted by value; `None` for ids, literals and pairs.\n",
    );
    out.push_str("    pub const fn enumerants(self) -> Option<&'static [Enumerant]> {\n        match self {\n");
    for k in enums.keys() {
        let _ = writeln!(out, "            Kind::{k} => Some({}),", k.to_uppercase());
    }
    out.push_str("            _ => None,\n        }\n    }\n\n    /// Returns true if values of this kind are masks: any number of enumerants or-ed together.\n");
    out.push_str("    pub const fn is_mask(self) -> bool {\n        matches!(self, ");
    let masks: Vec<_> = enums.iter().filter(|(_, (mask, _))| *mask).map(|(k, _)| format!("Kind::{k}")).collect();
    let _ = writeln!(out, "{})\n    }}\n}}\n", masks.join(" | "));

    for (k, (_, rows)) in &enums {
        let _ = writeln!(out, "static {}: &[Enumerant] = &[", k.to_uppercase());
        for r in rows {
            let _ = write!(out, "    Enumerant {{ value: {}, name: {:?}, params: ", r.value, r.name);
            write_shapes(&mut out, &r.params);
            let capabilities = capabilities(&enums, &r.capabilities);
            let not_values = properties::parameters_are_not_values(k, r.value);
            let _ = writeln!(
                out,
                ", not_values: {not_values}, capabilities: &[{capabilities}], extensions: &{:?} }},",
                r.extensions
            );
        }
        out.push_str("];\n");
    }

    out.push_str("impl Properties {\n");
    for (i, name) in properties::properties().enumerate() {
        let _ = writeln!(out, "    pub(super) const {name}: Properties = Properties({:#x});", 1 << i);
    }
    out.push_str("}\n\n");
    out.push_str("/// The instruction table, sorted by opcode.\npub static OPS: &[OpInfo] = &[\n");
    for (op, row) in &ops {
        let _ = write!(out, "    OpInfo {{ op: Op({op}), name: {:?}, operands: ", row.name);
        write_shapes(&mut out, &row.operands);
        let (class, effects) = properties::of(*op, &row.name);
        let _ = writeln!(
            out,
            ", capabilities: &[{}], extensions: &{:?}, class: Class::{class}, effects: Effects({effects}) }},",
            capabilities(&enums, &row.capabilities),
            row.extensions
        );
    }
    out.push_str("];\n\n");

    out.push_str("/// Parallel to [`OPS`].\npub(super) static TRAITS: [Traits; OPS.len()] = [\n");
    for (op, row) in &ops {
        out.push_str(&traits(*op, row));
    }
    out.push_str("];\n\n");

    let last = *ops.keys().last().unwrap_or(&0) as usize;
    let mut index = vec![u16::MAX; last + 1];
    for (i, op) in ops.keys().enumerate() {
        index[*op as usize] = i as u16;
    }
    let _ = writeln!(
        out,
        "/// The row of each opcode in [`OPS`].\npub(super) static OP_INDEX: [u16; {}] = {index:?};\n",
        last + 1
    );

    out.push_str("#[allow(non_upper_case_globals)]\nimpl Op {\n");
    for (op, row) in &ops {
        let _ = writeln!(out, "    /// `Op{}`.\n    pub const {}: Op = Op({op});", row.name, row.name);
    }
    out.push_str("}\n\npub(super) static ALIASES: &[(Option<Kind>, u32, &str)] = &[\n");
    for (kind, value, name) in &second_names {
        let kind = if kind == "Op" { "None".to_owned() } else { format!("Some(Kind::{kind})") };
        let _ = writeln!(out, "    ({kind}, {value}, {name:?}),");
    }
    out.push_str("];\n\n");
    out.push_str(&versions(&ops, &enums));

    for (table, _, rows) in extended() {
        ext_table(&mut out, table, rows);
    }

    out
}

/// Rust's name of an enumerant: the grammar's, with a prefix where that begins with a digit.
fn constant_name(kind: &str, name: &str) -> String {
    match (kind, name.starts_with(|c: char| c.is_ascii_digit())) {
        ("Dim", true) => format!("Dim{name}"),
        (_, true) => format!("_{name}"),
        (_, false) => name.to_owned(),
    }
}

/// Returns the text of `ir/src/spv/tables.rs`: a type for each enumeration and extended instruction set, with its values
/// as constants, second names included.
fn enumerations() -> String {
    let (enums, second_names) = enumerants();
    let mut out = String::from("// Generated by `cargo run -p coop-grammar`; do not edit.\n");
    for (kind, (mask, rows)) in &enums {
        let _ = writeln!(out, "\n{} {{ {kind}:", if *mask { "mask!" } else { "enumeration!" });
        for r in rows {
            let _ = writeln!(out, "    {} = {},", constant_name(kind, &r.name), r.value);
        }
        let known = |name: &str| rows.iter().any(|r| r.name == name);
        let second: BTreeMap<_, _> = second_names.iter().filter(|s| s.0 == *kind).map(|s| (&s.2, s.1)).collect();
        for (name, value) in second.into_iter().filter(|(name, _)| !known(name)) {
            let _ = writeln!(out, "    {} = {value},", constant_name(kind, name));
        }
        out.push_str("}\n");
    }
    for (_, name, rows) in extended() {
        let _ = writeln!(out, "\ninstructions! {{ {name}:");
        for (number, opname, _) in rows {
            let _ = writeln!(out, "    {} = {number},", constant_name(name, opname));
        }
        out.push_str("}\n");
    }
    out
}

/// Returns the files that are generated, by their paths from the repository's root.
fn files() -> [(&'static str, String); 2] {
    [("ir/src/grammar/tables.rs", tables()), ("ir/src/spv/tables.rs", enumerations())]
}

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => {
            eprintln!("{other} is not an option: --check writes nothing and fails where a file is stale");
            return ExitCode::from(2);
        }
    };
    for (name, text) in files() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let now = std::fs::read_to_string(&path).unwrap_or_default();
        if now == text {
            continue;
        }
        if check {
            eprintln!("{name} is stale: run `cargo run -p coop-grammar`");
            return ExitCode::FAILURE;
        }
        if let Err(e) = std::fs::write(&path, text) {
            eprintln!("{name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    /// The tables that are checked in are those that the generator writes.
    #[test]
    fn tables_are_current() {
        for (name, text) in super::files() {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
            let now = std::fs::read_to_string(path).unwrap_or_default();
            assert!(now == text, "{name} is stale: run `cargo run -p coop-grammar`");
        }
    }
}
