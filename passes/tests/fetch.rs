//! Factors are fetched ahead of their products, unless their memory is volatile, and decoded along their blocks; what is added to
//! sums in the same loop is fetched ahead too.

use coop_device::Profile;
use coop_ir::{Id, Module, Op, text};
use coop_passes::{Options, Target, lower};

/// A loop that multiplies matrices of 32x32, loaded with these memory operands.
fn product(operands: &str) -> Module {
    product_and(operands, "")
}

/// The same, with instructions in the loop that make `%added` of the sum. `%at` is the loop's number, whose tensor they may load.
fn product_and(operands: &str, adds: &str) -> Module {
    parsed(&product_source(operands, adds))
}

fn parsed(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|e| panic!("{e}"))
}

fn product_source(operands: &str, adds: &str) -> String {
    let added = if adds.is_empty() { "%sum" } else { "%added" };
    format!(
        "; Version: 1.6
         OpCapability Shader
         OpCapability VulkanMemoryModel
         OpCapability Float16
         OpCapability StorageBuffer16BitAccess
         OpCapability CooperativeMatrixKHR
         OpCapability CooperativeMatrixTensorAddressingNV
         OpCapability TensorAddressingNV
         OpExtension \"SPV_KHR_cooperative_matrix\"
         OpExtension \"SPV_NV_cooperative_matrix2\"
         OpExtension \"SPV_NV_tensor_addressing\"
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\" %in %out
         OpExecutionMode %main LocalSize 64 1 1
         OpDecorate %halves ArrayStride 2
         OpDecorate %halves_block Block
         OpMemberDecorate %halves_block 0 Offset 0
         OpDecorate %floats ArrayStride 4
         OpDecorate %floats_block Block
         OpMemberDecorate %floats_block 0 Offset 0
         OpDecorate %in DescriptorSet 0
         OpDecorate %in Binding 0
         OpDecorate %out DescriptorSet 0
         OpDecorate %out Binding 1
         %void = OpTypeVoid
         %fn = OpTypeFunction %void
         %bool = OpTypeBool
         %uint = OpTypeInt 32 0
         %half = OpTypeFloat 16
         %float = OpTypeFloat 32
         %n0 = OpConstant %uint 0
         %n1 = OpConstant %uint 1
         %n2 = OpConstant %uint 2
         %n32 = OpConstant %uint 32
         %n256 = OpConstant %uint 256
         %zero_half = OpConstant %half 0
         %zero = OpConstant %float 0
         %a = OpTypeCooperativeMatrixKHR %half %n2 %n32 %n32 %n0
         %b = OpTypeCooperativeMatrixKHR %half %n2 %n32 %n32 %n1
         %c = OpTypeCooperativeMatrixKHR %float %n2 %n32 %n32 %n2
         %h = OpTypeCooperativeMatrixKHR %half %n2 %n32 %n32 %n2
         %h_zero = OpConstantComposite %h %zero_half
         %a_zero = OpConstantComposite %a %zero_half
         %b_zero = OpConstantComposite %b %zero_half
         %c_zero = OpConstantComposite %c %zero
         %layout = OpTypeTensorLayoutNV %n2 %n1
         %halves = OpTypeRuntimeArray %half
         %halves_block = OpTypeStruct %halves
         %floats = OpTypeRuntimeArray %float
         %floats_block = OpTypeStruct %floats
         %to_halves = OpTypePointer StorageBuffer %halves_block
         %to_floats = OpTypePointer StorageBuffer %floats_block
         %to_half = OpTypePointer StorageBuffer %half
         %to_float = OpTypePointer StorageBuffer %float
         %in = OpVariable %to_halves StorageBuffer
         %out = OpVariable %to_floats StorageBuffer
         %main = OpFunction %void None %fn
         %entry = OpLabel
         %from = OpAccessChain %to_half %in %n0 %n0
         %to = OpAccessChain %to_float %out %n0 %n0
         %l0 = OpCreateTensorLayoutNV %layout
         %l1 = OpTensorLayoutSetDimensionNV %layout %l0 %n256 %n256
         OpBranch %header
         %header = OpLabel
         %k = OpPhi %uint %n0 %entry %next %latch
         %sum = OpPhi %c %c_zero %entry %more %latch
         %goes_on = OpULessThan %bool %k %n256
         OpLoopMerge %end %latch None
         OpBranchConditional %goes_on %body %end
         %body = OpLabel
         %l2 = OpTensorLayoutSliceNV %layout %l1 %n0 %n32 %k %n32
         %l3 = OpTensorLayoutSliceNV %layout %l1 %k %n32 %n0 %n32
         {adds}
         %x = OpCooperativeMatrixLoadTensorNV %a %from %a_zero %l2 {operands} None
         %y = OpCooperativeMatrixLoadTensorNV %b %from %b_zero %l3 {operands} None
         %more = OpCooperativeMatrixMulAddKHR %c %x %y {added}
         OpBranch %latch
         %latch = OpLabel
         %next = OpIAdd %uint %k %n32
         OpBranch %header
         %end = OpLabel
         OpCooperativeMatrixStoreKHR %to %sum %n0 %n32
         OpReturn
         OpFunctionEnd"
    )
}

/// Returns the number of functions of the module lowered to subgroup matrices whose names begin so.
fn functions(module: &Module, prefix: &str) -> usize {
    functions_of(module, Target::Khr, prefix)
}

fn functions_of(module: &Module, target: Target, prefix: &str) -> usize {
    let profile = Profile::builtin("nvidia-h100").expect("built in");
    let mut options = Options::new(target);
    (options.profile, options.subgroup_size, options.verify_each) = (Some(&profile), Some(32), true);
    let lowered = lower(module, &options).unwrap_or_else(|e| panic!("{e}"));
    let module = &lowered.module;
    let names = module.globals_with(Op::Name).filter_map(|r| Some(module.inst(r).string(1)?.0));
    names.filter(|name| name.starts_with(prefix)).count()
}

/// Returns the number of functions that fetch.
fn fetches(operands: &str) -> usize {
    functions(&product(operands), "coop_fetch_")
}

#[test]
fn factors_are_fetched_ahead_unless_memory_is_volatile() {
    assert_eq!(fetches("None"), 2);
    assert_eq!(fetches("Volatile"), 0);
}

/// Returns the calls of functions that fetch, where the device has so many bytes of shared memory: all of them, and those between
/// a barrier and the next product.
fn calls(module: &Module, bytes: u32) -> (usize, usize) {
    let mut profile = Profile::builtin("nvidia-h100").expect("built in").clone();
    profile.limits.max_compute_shared_memory_size = bytes;
    let mut options = Options::new(Target::Khr);
    (options.profile, options.subgroup_size, options.verify_each) = (Some(&profile), Some(32), true);
    let lowered = lower(module, &options).unwrap_or_else(|e| panic!("{e}"));
    let m = &lowered.module;
    let names = m.globals_with(Op::Name).map(|r| m.inst(r));
    let fetching = names.filter(|i| i.string(1).is_some_and(|s| s.0.starts_with("coop_fetch_")));
    let fetching: Vec<Option<Id>> = fetching.map(|i| i.id(0)).collect();
    let (mut all, mut ahead, mut behind_barrier) = (0, 0, false);
    for i in m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)) {
        match i.op {
            Op::ControlBarrier => behind_barrier = true,
            Op::CooperativeMatrixMulAddKHR => behind_barrier = false,
            Op::FunctionCall if fetching.contains(&i.callee()) => {
                all += 1;
                ahead += usize::from(behind_barrier);
            }
            _ => {}
        }
    }
    (all, ahead)
}

/// Both factors before the loop, and in it for the next iteration; where shared memory has half of K, for the other half too.
#[test]
fn slices_are_fetched_ahead() {
    let module = product("None");
    assert_eq!(calls(&module, 49152), (4, 2));
    assert_eq!(calls(&module, 4096), (6, 4));
}

/// Between slices that are decoded nothing is: both factors of two slices are fetched where they are used.
#[test]
fn slices_beside_decoded_ones_are_not_fetched_ahead() {
    assert_eq!(calls(&decoded(), 49152), (2, 0));
    assert_eq!(calls(&decoded(), 8192), (4, 0));
}

/// In scalar code too, both factors before the loop and, in the product's function, for the next iteration.
#[test]
fn first_slices_of_scalar_products_are_fetched_ahead() {
    let ahead = |module: &Module| functions_of(module, Target::Scalar, "coop_fetch_first");
    assert_eq!(ahead(&product("None")), 2);
    assert_eq!(ahead(&product("Volatile")), 0);
    // There is no loop.
    assert_eq!(ahead(&decoded()), 0);
    // The next iteration reads what this one writes.
    assert_eq!(ahead(&product_and("None", "OpStore %to %zero\n%added = OpCopyObject %c %sum")), 0);
    // Only the iteration itself knows if it is the last.
    let test = "%goes_on = OpULessThan %bool %k %n256";
    let found = product_source("None", "").replace(
        test,
        "%number = OpLoad %float %to\n%most = OpConvertFToU %uint %number\n%goes_on = OpULessThan %bool %k %most",
    );
    assert_eq!(ahead(&parsed(&found)), 0);
}

/// A quotient by a number that may be zero and a load from an array by an index that may be too large are not computed for an iteration
/// that there may not be.
#[test]
fn nothing_undefined_is_computed_ahead() {
    let layout = "%l2 = OpTensorLayoutSliceNV %layout %l1 %n0 %n32 %k %n32";
    let by = |lines: &str| {
        let source = product_source("None", "").replace(layout, &format!("{lines}\n{}", layout.replace("%k", "%at")));
        let source = source.replace(
            "%main = OpFunction %void None %fn",
            "%table = OpTypeArray %uint %n32\n%to_table = OpTypePointer Private %table\n%to_entry = OpTypePointer Private %uint\n\
             %entries = OpVariable %to_table Private\n%main = OpFunction %void None %fn",
        );
        let module = parsed(&source.replace("%main \"main\" %in %out", "%main \"main\" %in %out %entries"));
        (calls(&module, 49152), functions_of(&module, Target::Scalar, "coop_fetch_first"))
    };
    let (both, one) = (((4, 2), 2), ((2, 0), 1));
    let divided = |op: &str, by: &str| format!("%rest = OpISub %uint %n256 %k\n%at = {op} %uint %k {by}");
    let (at_zero, at_index) =
        ("%entry_0 = OpAccessChain %to_entry %entries %n1", "%entry_0 = OpAccessChain %to_entry %entries %k");
    assert_eq!(by("%at = OpIAdd %uint %k %n0"), both);
    for op in ["OpUDiv", "OpUMod"] {
        assert_eq!(by(&divided(op, "%n32")), both, "{op}");
        assert_eq!(by(&divided(op, "%rest")), one, "{op}");
        assert_eq!(by(&divided(op, "%n0")), one, "{op}");
    }
    assert_eq!(by(&format!("{at_zero}\n%at = OpLoad %uint %entry_0")), both);
    assert_eq!(by(&format!("{at_index}\n%at = OpLoad %uint %entry_0")), one);
}

/// Memory that may be loaded an iteration early is tested first: it may be beyond the binding.
#[test]
fn what_is_added_to_sums_is_fetched_ahead() {
    let add = |operands: &str, row: &str| {
        format!(
            "%l4 = OpTensorLayoutSliceNV %layout %l1 {row} %n32 %k %n32
             %bias = OpCooperativeMatrixLoadTensorNV %h %from %h_zero %l4 {operands} None
             %wide = OpFConvert %c %bias
             %added = OpFAdd %c %sum %wide"
        )
    };
    let tested = |adds: &str| functions(&product_and("None", adds), "coop_may_fetch_");
    assert_eq!(tested(""), 0);
    assert_eq!(tested(&add("None", "%n0")), 1);
    // The row is one of two that a branch chooses between.
    let chosen = format!(
        "OpSelectionMerge %join None
         OpBranchConditional %goes_on %then %join
         %then = OpLabel
         %far = OpIAdd %uint %k %n32
         OpBranch %join
         %join = OpLabel
         %row = OpPhi %uint %n0 %body %far %then
         {}",
        add("None", "%row")
    );
    assert_eq!(tested(&chosen), 1);
    // A division is undefined on the way that the branch keeps from it.
    let divided = chosen.replace("%far = OpIAdd %uint %k %n32", "%far = OpUDiv %uint %n32 %k");
    assert_eq!(tested(&divided), 0);
    assert_eq!(tested(&add("Volatile", "%n0")), 0);
    // The next iteration reads what this one writes.
    let stored = format!("OpCooperativeMatrixStoreKHR %to %sum %n0 %n32\n{}", add("None", "%n0"));
    assert_eq!(tested(&stored), 0);
    // Where the memory is, only the iteration itself knows.
    let found = format!(
        "%place = OpAccessChain %to_float %out %n0 %k
         %number = OpLoad %float %place
         %known = OpConvertFToU %uint %number
         {}",
        add("None", "%known")
    );
    assert_eq!(tested(&found), 0);
}

/// A product whose right factor is decoded.
fn decoded() -> Module {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/passes/decoded-columns.spvasm");
    let source = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text::parse(&source).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn blocks_along_columns_are_decoded_by_vectors() {
    let module = decoded();
    let profile = Profile::builtin("nvidia-h100").expect("built in");
    let mut options = Options::new(Target::Khr);
    (options.profile, options.subgroup_size, options.verify_each) = (Some(&profile), Some(32), true);
    let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{e}"));
    let m = &lowered.module;
    let mut names = m.globals_with(Op::Name).map(|r| m.inst(r));
    let fetch = names.find(|i| i.string(1).is_some_and(|s| s.0 == "coop_fetch_64x32")).and_then(|i| i.id(0));
    let function = m.functions.iter().find(|f| m.inst(f.def).result == fetch && fetch.is_some()).expect("B is fetched");
    let results = function.insts().map(|r| m.inst(r)).filter(|i| i.op == Op::FunctionCall).filter_map(|i| i.ty);
    let (vectors, elements): (Vec<Id>, Vec<Id>) =
        results.partition(|t| m.def_inst(*t).is_some_and(|i| i.op == Op::TypeVector));
    // Each of 64 invocations has 4 runs of 8 elements; beyond the tensor, one element at a time, in a loop.
    assert_eq!((vectors.len(), elements.len()), (8, 1));
}
