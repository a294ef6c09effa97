//! Subgroups of a size that a device has not: a module's own operations on subgroups, lowered with `--lanes local-index`, give
//! on subgroups of any size what the original gives on its own.
//!
//! The witness is the interpreter, which runs the original with subgroups of the size that it is made for.

use coop_device::Profile;
use coop_exec::interp::{Config, Interpreted};
use coop_exec::{Case, Executor, Outcome, RunOptions, testing, vulkan_test};
use coop_ir::{Module, binary, text};
use coop_passes::{Error, Lanes, Lowered, Options, Refusal, Target, lower};
use std::fmt::Write as _;
use std::path::Path;

/// A type of values: its name, its declaration, what it needs, how one is made of `%word` (0 to 7), and the words of `%result`.
struct Kind {
    name: &'static str,
    capability: &'static str,
    make: &'static str,
    words: &'static str,
    count: u32,
}

const KINDS: [Kind; 10] = [
    Kind {
        name: "u32",
        capability: "",
        make: "%value = OpCopyObject %u32 %word",
        words: "%w0 = OpCopyObject %u32 %result",
        count: 1,
    },
    Kind {
        name: "s32",
        capability: "",
        make: "%minus = OpISub %u32 %word %n3\n%value = OpBitcast %s32 %minus",
        words: "%w0 = OpBitcast %u32 %result",
        count: 1,
    },
    Kind {
        name: "f32",
        capability: "",
        make: "%value = OpConvertUToF %f32 %word",
        words: "%w0 = OpBitcast %u32 %result",
        count: 1,
    },
    Kind {
        name: "f16",
        capability: "Float16",
        make: "%value = OpConvertUToF %f16 %word",
        words: "%wide = OpFConvert %f32 %result\n%w0 = OpBitcast %u32 %wide",
        count: 1,
    },
    Kind {
        name: "u16",
        capability: "Int16",
        make: "%value = OpUConvert %u16 %word",
        words: "%w0 = OpUConvert %u32 %result",
        count: 1,
    },
    Kind {
        name: "s8",
        capability: "Int8",
        make: "%minus = OpISub %u32 %word %n3\n%cast = OpBitcast %s32 %minus\n%value = OpSConvert %s8 %cast",
        words: "%wide = OpSConvert %s32 %result\n%w0 = OpBitcast %u32 %wide",
        count: 1,
    },
    Kind {
        name: "u64",
        capability: "Int64",
        make: "%long = OpUConvert %u64 %word\n%value = OpIMul %u64 %long %large",
        words: "%pair = OpBitcast %v2u32 %result\n%w0 = OpCompositeExtract %u32 %pair 0\n%w1 = OpCompositeExtract %u32 %pair 1",
        count: 2,
    },
    Kind {
        name: "f64",
        capability: "Float64",
        make: "%value = OpConvertUToF %f64 %word",
        words: "%pair = OpBitcast %v2u32 %result\n%w0 = OpCompositeExtract %u32 %pair 0\n%w1 = OpCompositeExtract %u32 %pair 1",
        count: 2,
    },
    Kind {
        name: "v3f32",
        capability: "",
        make: "%first = OpConvertUToF %f32 %word\n%third = OpFAdd %f32 %first %one\n%value = OpCompositeConstruct %v3f32 %first %one %third",
        words: "%bits = OpBitcast %v3u32 %result\n%w0 = OpCompositeExtract %u32 %bits 0\n%w1 = OpCompositeExtract %u32 %bits 1\n%w2 = OpCompositeExtract %u32 %bits 2",
        count: 3,
    },
    Kind {
        name: "bool",
        capability: "",
        make: "%value = OpUGreaterThan %bool %word %n3",
        words: "%w0 = OpSelect %u32 %result %n1 %n0",
        count: 1,
    },
];

const TYPES: &str = "\
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%u32 = OpTypeInt 32 0
%s32 = OpTypeInt 32 1
%f32 = OpTypeFloat 32
%v2u32 = OpTypeVector %u32 2
%v3u32 = OpTypeVector %u32 3
%v4u32 = OpTypeVector %u32 4
%v3f32 = OpTypeVector %f32 3
%one = OpConstant %f32 1
%n0 = OpConstant %u32 0
%n1 = OpConstant %u32 1
%n2 = OpConstant %u32 2
%n3 = OpConstant %u32 3
%n4 = OpConstant %u32 4
%n8 = OpConstant %u32 8
%yes = OpConstantTrue %bool
";

/// The words that an invocation writes.
const WORDS: u32 = 4;

/// A module of one entry point in which each invocation makes a value of its number in `X`, does `body` with it and writes the words
/// of `%result`.
fn module(kind: &Kind, size: u32, extra: &str, body: &str, words: (&str, u32)) -> Module {
    let capability =
        if kind.capability.is_empty() { String::new() } else { format!("OpCapability {}\n", kind.capability) };
    let declaration = match kind.name {
        "f16" => "%f16 = OpTypeFloat 16\n",
        "f64" => "%f64 = OpTypeFloat 64\n",
        "u16" => "%u16 = OpTypeInt 16 0\n",
        "s8" => "%s8 = OpTypeInt 8 1\n",
        "u64" => "%u64 = OpTypeInt 64 0\n%large = OpConstant %u64 1099511627781\n",
        _ => "",
    };
    let mut source = format!(
        "; Version: 1.6\nOpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n{capability}\
         OpCapability GroupNonUniform\nOpCapability GroupNonUniformVote\nOpCapability GroupNonUniformBallot\n\
         OpCapability GroupNonUniformArithmetic\nOpCapability GroupNonUniformShuffle\n\
         OpCapability GroupNonUniformShuffleRelative\nOpCapability GroupNonUniformClustered\nOpCapability GroupNonUniformQuad\n\
         OpCapability GroupNonUniformRotateKHR\nOpExtension \"SPV_KHR_subgroup_rotate\"\n\
         OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %x %o %index %lane %subgroup %size %count %eq %ge %gt %le %lt\n\
         OpExecutionMode %main LocalSize {} 1 1\n\
         OpDecorate %array ArrayStride 4\nOpDecorate %block Block\nOpMemberDecorate %block 0 Offset 0\n\
         OpDecorate %x DescriptorSet 0\nOpDecorate %x Binding 0\nOpDecorate %o DescriptorSet 0\nOpDecorate %o Binding 1\n\
         OpDecorate %index BuiltIn LocalInvocationIndex\nOpDecorate %lane BuiltIn SubgroupLocalInvocationId\n\
         OpDecorate %subgroup BuiltIn SubgroupId\nOpDecorate %size BuiltIn SubgroupSize\nOpDecorate %count BuiltIn NumSubgroups\n\
         OpDecorate %eq BuiltIn SubgroupEqMask\nOpDecorate %ge BuiltIn SubgroupGeMask\nOpDecorate %gt BuiltIn SubgroupGtMask\n\
         OpDecorate %le BuiltIn SubgroupLeMask\nOpDecorate %lt BuiltIn SubgroupLtMask\n{TYPES}{declaration}",
        size * 2
    );
    source += &format!(
        "%array = OpTypeRuntimeArray %u32\n%block = OpTypeStruct %array\n%to_block = OpTypePointer StorageBuffer %block\n\
         %to_word = OpTypePointer StorageBuffer %u32\n%to_in = OpTypePointer Input %u32\n%to_mask = OpTypePointer Input %v4u32\n\
         %x = OpVariable %to_block StorageBuffer\n%o = OpVariable %to_block StorageBuffer\n\
         %index = OpVariable %to_in Input\n%lane = OpVariable %to_in Input\n%subgroup = OpVariable %to_in Input\n\
         %size = OpVariable %to_in Input\n%count = OpVariable %to_in Input\n\
         %eq = OpVariable %to_mask Input\n%ge = OpVariable %to_mask Input\n%gt = OpVariable %to_mask Input\n\
         %le = OpVariable %to_mask Input\n%lt = OpVariable %to_mask Input\n\
         %matrix = OpTypeCooperativeMatrixKHR %f32 %n3 %n8 %n8 %n2\n%null = OpConstantNull %matrix\n{extra}\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n%me = OpLoad %u32 %index\n%my_lane = OpLoad %u32 %lane\n\
         %sum = OpFAdd %matrix %null %null\n%from = OpAccessChain %to_word %x %n0 %me\n%given = OpLoad %u32 %from\n\
         %word = OpUMod %u32 %given %n8\n{}\n{body}\n{}\n%place = OpIMul %u32 %me %n4\n",
        kind.make, words.0
    );
    for n in 0..words.1 {
        writeln!(
            source,
            "%at{n} = OpIAdd %u32 %place %n{n}\n%to{n} = OpAccessChain %to_word %o %n0 %at{n}\nOpStore %to{n} %w{n}"
        )
        .expect("room");
    }
    source += "OpReturn\nOpFunctionEnd\n";
    text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn case(size: u32) -> Case {
    let (invocations, words) = (size * 2, size * 2 * WORDS);
    let text = format!(
        "workgroups = [1, 1, 1]\nseed = 3\nsubgroup-size = {size}\n\
         [[buffer]]\nname = 'X'\nbinding = 0\ntype = 'u32'\ncount = {invocations}\nfill = {{ small-ints = [0, 100] }}\n\
         [[buffer]]\nname = 'O'\nbinding = 1\ntype = 'u32'\ncount = {words}\nfill = {{ constant = 77 }}\n"
    );
    Case::parse(&text, Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

fn interpreted(module: &Module, case: &Case, size: u32) -> Result<Outcome, String> {
    let mut case = case.clone();
    case.subgroup_size = Some(size);
    let config = Config { subgroup_size: size, ..Config::default() };
    let (buffers, report) = Interpreted { config }.run_module(module, &case).map_err(|e| e.to_string())?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("{finding:?}"));
    }
    Ok(Interpreted::outcome(buffers, &report))
}

/// Lowers a module with emulated subgroups of `size`.
fn emulated(module: &Module, size: u32, profile: Option<&Profile>, case: &Case) -> Result<Lowered, Refusal> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().expect("values");
    options.spec_defaults = true;
    (options.lanes, options.subgroup_size, options.profile) = (Lanes::LocalIndex, Some(size), profile);
    options.verify_each = true;
    lower(module, &options).map_err(|error| match error {
        Error::Refused(refusal) => *refusal,
        bug => panic!("{bug}"),
    })
}

/// Returns what differs between the original on subgroups of `size` and what it is lowered to on others.
fn wrong(label: &str, module: &Module, size: u32, others: &[u32]) -> Vec<String> {
    wrong_as(label, module, module, size, others)
}

/// Returns what differs between another module on subgroups of `size` and what a module is lowered to on others.
fn wrong_as(label: &str, original: &Module, module: &Module, size: u32, others: &[u32]) -> Vec<String> {
    let case = case(size);
    let wanted = match interpreted(original, &case, size) {
        Ok(wanted) => wanted,
        Err(why) => return vec![format!("{label}: the original: {why}")],
    };
    let lowered = match emulated(module, size, None, &case) {
        Ok(lowered) => lowered,
        Err(refusal) => return vec![format!("{label}: {refusal}")],
    };
    let check = |other: &u32| match interpreted(&lowered.module, &case, *other) {
        Err(why) => Some(format!("{label} on {other}: {why}")),
        Ok(got) => {
            let differences = got.compare(&wanted, &case).expect("comparable");
            differences.first().map(|d| format!("{label} on {other}: {d}"))
        }
    };
    others.iter().filter_map(check).collect()
}

/// Every operation on values of a type, as the text of its instruction with the result `%result`, and the type of that.
fn operations(kind: &Kind) -> Vec<(String, &'static str)> {
    let ty = kind.name;
    let mut all: Vec<(String, &'static str)> = Vec::new();
    let number = kind.name.trim_start_matches("v3");
    let reductions: &[&str] = match number.as_bytes()[0] {
        b'u' => &["IAdd", "IMul", "UMin", "UMax", "BitwiseAnd", "BitwiseOr", "BitwiseXor"],
        b's' => &["IAdd", "IMul", "SMin", "SMax", "BitwiseAnd", "BitwiseOr", "BitwiseXor"],
        b'f' => &["FAdd", "FMin", "FMax"],
        _ => &["LogicalAnd", "LogicalOr", "LogicalXor"],
    };
    for reduction in reductions {
        for scan in ["Reduce", "InclusiveScan", "ExclusiveScan"] {
            all.push((format!("%result = OpGroupNonUniform{reduction} %{ty} %n3 {scan} %value"), "value"));
        }
        all.push((format!("%result = OpGroupNonUniform{reduction} %{ty} %n3 ClusteredReduce %value %n4"), "value"));
    }
    for (moves, with) in [
        ("Broadcast", " %n3"),
        ("BroadcastFirst", ""),
        ("Shuffle", " %n2"),
        ("ShuffleXor", " %n1"),
        ("RotateKHR", " %n3"),
        ("QuadBroadcast", " %n2"),
        ("QuadSwap", " %n1"),
    ] {
        all.push((format!("%result = OpGroupNonUniform{moves} %{ty} %n3 %value{with}"), "value"));
    }
    // Invocations that would have the value of none keep their own.
    all.push((
        format!("%up = OpGroupNonUniformShuffleUp %{ty} %n3 %value %n2\n%in = OpUGreaterThanEqual %bool %my_lane %n2\n%result = OpSelect %{ty} %in %up %value"),
        "value",
    ));
    all.push((
        format!(
            "%down = OpGroupNonUniformShuffleDown %{ty} %n3 %value %n2\n%end = OpLoad %u32 %size\n%next = OpIAdd %u32 %my_lane %n2\n\
             %in = OpULessThan %bool %next %end\n%result = OpSelect %{ty} %in %down %value"
        ),
        "value",
    ));
    all.push(("%result = OpGroupNonUniformAllEqual %bool %n3 %value".to_string(), "bool"));
    if kind.name == "bool" {
        for vote in ["All", "Any"] {
            all.push((format!("%result = OpGroupNonUniform{vote} %bool %n3 %value"), "bool"));
        }
        all.push(("%result = OpGroupNonUniformElect %bool %n3".to_owned(), "bool"));
        all.push(("%result = OpGroupNonUniformBallot %v4u32 %n3 %value".to_owned(), "ballot"));
        let ballot = "%ballot = OpGroupNonUniformBallot %v4u32 %n3 %value\n";
        all.push((format!("{ballot}%result = OpGroupNonUniformInverseBallot %bool %n3 %ballot"), "bool"));
        all.push((format!("{ballot}%result = OpGroupNonUniformBallotBitExtract %bool %n3 %ballot %n2"), "bool"));
        for count in ["Reduce", "InclusiveScan", "ExclusiveScan"] {
            all.push((format!("{ballot}%result = OpGroupNonUniformBallotBitCount %u32 %n3 {count} %ballot"), "word"));
        }
        for find in ["LSB", "MSB"] {
            all.push((format!("{ballot}%result = OpGroupNonUniformBallotFind{find} %u32 %n3 %ballot"), "word"));
        }
        for mask in ["eq", "ge", "gt", "le", "lt"] {
            all.push((format!("%result = OpLoad %v4u32 %{mask}"), "ballot"));
        }
        for builtin in ["size", "lane", "subgroup", "count"] {
            all.push((format!("%result = OpLoad %u32 %{builtin}"), "word"));
        }
    }
    all
}

const BALLOT: &str = "%w0 = OpCompositeExtract %u32 %result 0\n%w1 = OpCompositeExtract %u32 %result 1\n\
                      %w2 = OpCompositeExtract %u32 %result 2\n%w3 = OpCompositeExtract %u32 %result 3";

#[test]
fn every_operation_gives_on_any_subgroups_what_it_gives_on_its_own() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for (size, others) in [(32, &[8, 64][..]), (8, &[32]), (64, &[16]), (128, &[32])] {
        for kind in KINDS.iter().filter(|kind| size == 32 || ["u32", "f16", "bool"].contains(&kind.name)) {
            for (body, result) in operations(kind) {
                let words = match result {
                    "value" => (kind.words, kind.count),
                    "bool" => ("%w0 = OpSelect %u32 %result %n1 %n0", 1),
                    "word" => ("%w0 = OpCopyObject %u32 %result", 1),
                    _ => (BALLOT, 4),
                };
                let module = module(kind, size, "", &body, words);
                let label = format!("{} of {size}: {body}", kind.name);
                problems.extend(wrong(&label, &module, size, others));
                count += 1;
            }
        }
    }
    assert!(problems.is_empty(), "{} of {count} wrong:\n{}", problems.len(), problems.join("\n"));
    assert!(count > 400, "{count}");
}

/// The interpreter rotates whole subgroups, so the witness is a shuffle.
#[test]
fn clusters_are_rotated() {
    let shuffle = "%sum4 = OpIAdd %u32 %my_lane %n3\n%rest = OpUMod %u32 %sum4 %n4\n%quad = OpUDiv %u32 %my_lane %n4\n\
                   %first_of = OpIMul %u32 %quad %n4\n%other = OpIAdd %u32 %first_of %rest\n\
                   %result = OpGroupNonUniformShuffle %u32 %n3 %value %other";
    let rotate = "%result = OpGroupNonUniformRotateKHR %u32 %n3 %value %n3 %n4";
    let kind = &KINDS[0];
    let [original, module] = [shuffle, rotate].map(|body| module(kind, 32, "", body, (kind.words, kind.count)));
    let problems = wrong_as(rotate, &original, &module, 32, &[8, 64]);
    assert!(problems.is_empty(), "{problems:?}");
}

/// A pass that communicates where not all invocations are would hang.
#[test]
fn what_communicates_stands_where_all_invocations_are() {
    let add = |at: &str| format!("%added = OpGroupNonUniformIAdd %u32 %n3 Reduce %value\n{at}");
    // A branch that all take alike: a number of the workgroup's.
    let alike = "%half = OpAccessChain %to_word %x %n0 %n1\n%same = OpULessThan %bool %n1 %n2\nOpSelectionMerge %after None\n\
                 OpBranchConditional %same %inside %after\n%inside = OpLabel\n";
    let after = "OpBranch %after\n%after = OpLabel\n%result = OpPhi %u32 %n0 %entry %added %inside";
    // One by the number of the invocation.
    let parted = alike.replace("%same = OpULessThan %bool %n1 %n2", "%same = OpULessThan %bool %me %n8");
    // The same with a barrier of the workgroup beside it, by which the module says that all are there.
    let barrier = "%all = OpIAdd %u32 %n4 %n4\nOpControlBarrier %n2 %n2 %n0\n";
    let kind = &KINDS[0];
    let of = |body: String| module(kind, 32, "", &body, (kind.words, kind.count));
    let small = case(32);
    let alike = of(format!("{alike}{}", add(after)));
    assert_eq!(wrong("a branch that all take", &alike, 32, &[8]), Vec::<String>::new());
    let refusal = emulated(&of(format!("{parted}{}", add(after))), 32, None, &small).expect_err("parted");
    assert_eq!(refusal.rule, "refused-lanes");
    assert!(refusal.reason.contains("OpGroupNonUniformIAdd"), "{refusal}");
    let said = of(format!("{parted}{barrier}{}", add(after)));
    emulated(&said, 32, None, &small).expect("the module says that all are there");
    // A barrier of the subgroup among them.
    let waits = of(format!("OpControlBarrier %n3 %n3 %n0\n{}", add("%result = OpCopyObject %u32 %added")));
    assert_eq!(wrong("a barrier", &waits, 32, &[8, 64]), Vec::<String>::new());
    let refusal = emulated(&of(format!("{parted}OpControlBarrier %n3 %n3 %n0\n{}", add(after))), 32, None, &small);
    assert!(refusal.expect_err("parted").reason.contains("OpControlBarrier"));
}

/// Slang's neural module waits for the subgroup behind branches by what shared memory holds, in workgroups of one subgroup: all of the
/// workgroup are there then.
#[test]
fn a_barrier_of_the_only_subgroup_is_one_of_the_workgroup() {
    let kind = &KINDS[0];
    // The buffer may be written, so that nothing else shows that all take the branch.
    let of_64 = |inside: &str| {
        let body = format!(
            "%where = OpAccessChain %to_word %x %n0 %n0\n%first = OpLoad %u32 %where\n%less = OpULessThan %bool %first %n1000\n\
             OpSelectionMerge %after None\nOpBranchConditional %less %inside %after\n%inside = OpLabel\n{inside}\n\
             OpBranch %after\n%after = OpLabel\n%result = OpPhi %u32 %n0 %entry %added %inside"
        );
        module(kind, 32, "%n1000 = OpConstant %u32 1000\n", &body, (kind.words, kind.count))
    };
    let add = "%added = OpGroupNonUniformIAdd %u32 %n3 Reduce %value";
    let both = of_64(&format!("OpControlBarrier %n3 %n3 %n0\n{add}"));
    assert_eq!(wrong("the only subgroup", &both, 64, &[8, 32]), Vec::<String>::new());
    // A sum alone may be of those that come to it.
    let refusal = emulated(&of_64(add), 64, None, &case(64)).expect_err("a sum");
    assert!(refusal.reason.contains("OpGroupNonUniformIAdd"), "{refusal}");
    // And of two subgroups, one may come to the barrier without the other.
    let refusal = emulated(&both, 32, None, &case(32)).expect_err("two subgroups");
    assert!(refusal.reason.contains("OpControlBarrier"), "{refusal}");
}

/// Loops of as many rounds for all, calls, and variables of functions, as unoptimized compilers have them.
#[test]
fn loops_and_calls_are_looked_through() {
    let extra = "%to_own = OpTypePointer Function %u32\n%taken = OpTypeFunction %u32 %u32\n\
                 %callee = OpFunction %u32 None %taken\n%param = OpFunctionParameter %u32\n%begin = OpLabel\n\
                 %called = OpGroupNonUniformIAdd %u32 %n3 InclusiveScan %param\nOpReturnValue %called\nOpFunctionEnd\n";
    let body = "OpBranch %header\n%header = OpLabel\n%i = OpPhi %u32 %n0 %entry %next %continue\n\
                %so_far = OpPhi %u32 %value %entry %added %continue\nOpLoopMerge %end %continue None\nOpBranch %check\n\
                %check = OpLabel\n%more = OpULessThan %bool %i %n3\nOpBranchConditional %more %inside %end\n%inside = OpLabel\n\
                %added = OpFunctionCall %u32 %callee %so_far\nOpBranch %continue\n%continue = OpLabel\n\
                %next = OpIAdd %u32 %i %n1\nOpBranch %header\n%end = OpLabel\n%result = OpCopyObject %u32 %so_far";
    let kind = &KINDS[0];
    let alike = module(kind, 32, extra, body, (kind.words, kind.count));
    assert_eq!(wrong("three rounds", &alike, 32, &[8, 64]), Vec::<String>::new());
    // As many rounds as the number of the invocation says.
    let parted = module(kind, 32, extra, &body.replace("%i %n3", "%i %my_lane"), (kind.words, kind.count));
    assert_eq!(emulated(&parted, 32, None, &case(32)).expect_err("parted").rule, "refused-lanes");
}

/// ggml's products of experts, which find the tokens of each by ballots: made for subgroups of 32, on others.
#[test]
fn products_of_experts_are_right_on_small_subgroups() {
    let Some(folder) = testing::llama_modules() else { return };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/llama/cm2");
    for name in [
        "matmul_id_subgroup_bf16_cm2",
        "matmul_id_subgroup_f16_cm2",
        "matmul_id_subgroup_q4_0_f16_cm2",
        "matmul_id_subgroup_iq4_nl_f16_cm2",
    ] {
        let path = cases.join(format!("{name}.toml"));
        let case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = std::fs::read(folder.join(format!("{name}.spv"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let lowered = emulated(&module, 32, None, &case).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(lowered.report.required_subgroup_size, None, "{name}");
        let outcome = interpreted(&lowered.module, &case, 8).unwrap_or_else(|e| panic!("{name}: {e}"));
        let differences = outcome.check(&case).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(differences.is_empty(), "{name}: {}", differences[0]);
    }
}

vulkan_test!(
    Debian12,
    fn subgroups_of_32_run_on_smaller_ones(device) {
        let profile = Profile::builtin("mesa-lavapipe-debian12").expect("a profile");
        let kind = &KINDS[0];
        for body in [
            "%result = OpGroupNonUniformIAdd %u32 %n3 InclusiveScan %value",
            "%result = OpGroupNonUniformShuffleXor %u32 %n3 %value %n8",
            "%yes_or_no = OpUGreaterThan %bool %value %n3\n%ballot = OpGroupNonUniformBallot %v4u32 %n3 %yes_or_no\n\
             %result = OpGroupNonUniformBallotBitCount %u32 %n3 ExclusiveScan %ballot",
        ] {
            let module = module(kind, 32, "", body, (kind.words, kind.count));
            let mut case = case(32);
            let wanted = interpreted(&module, &case, 32).unwrap_or_else(|e| panic!("{body}: {e}"));
            let lowered = emulated(&module, 32, Some(&profile), &case).unwrap_or_else(|e| panic!("{body}: {e}"));
            case.subgroup_size = None;
            let words = binary::write_words(&lowered.module);
            let got = device.run(&words, &case, &RunOptions::default()).unwrap_or_else(|e| panic!("{body}: {e}"));
            let differences = got.compare(&wanted, &case).expect("comparable");
            assert!(differences.is_empty(), "{body}: {}", differences[0]);
        }
    }
);
