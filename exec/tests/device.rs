//! Tests of the executor apart from matrices, with a small kernel assembled word by word.

use std::path::Path;
use std::time::Duration;

use coop_exec::testing;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Error, Executor, RunOptions, Vulkan, vulkan_test};

/// One instruction: the word count is counted.
fn op(opcode: u32, operands: &[u32]) -> Vec<u32> {
    let mut words = vec![(operands.len() as u32 + 1) << 16 | opcode];
    words.extend(operands);
    words
}

/// A string operand.
fn text(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 4) & !3, 0);
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).collect()
}

/// `out[i] = in[i] * SPEC + push`, with SPEC = 3 by default (SpecId 7), in workgroups of 8; or a loop without an end.
fn module(endless: bool) -> Vec<u32> {
    let [main, void, function, uint, array, block, block_ptr, input, output] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let [uvec3, uvec3_ptr, id, push, push_ptr, constants, push_member, element] = [10, 11, 12, 13, 14, 15, 16, 17];
    let [zero, spec, entry, whole, x, source, loaded, product, term, sum, target] =
        [18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];
    let [push_source, header, merge, next, body] = [29, 30, 31, 32, 33];
    let mut words = vec![0x0723_0203, 0x0001_0300, 0, 34, 0];
    let mut add = |instructions: &[Vec<u32>]| words.extend(instructions.iter().flatten());
    let mut entry_point = vec![5, main];
    entry_point.extend(text("main"));
    entry_point.push(id);
    add(&[
        op(17, &[1]),                       // OpCapability Shader
        op(14, &[0, 1]),                    // OpMemoryModel Logical GLSL450
        op(15, &entry_point),               // OpEntryPoint GLCompute
        op(16, &[main, 17, 8, 1, 1]),       // OpExecutionMode LocalSize
        op(71, &[array, 6, 4]),             // ArrayStride
        op(72, &[block, 0, 35, 0]),         // Offset
        op(71, &[block, 2]),                // Block
        op(71, &[input, 34, 0]),            // DescriptorSet
        op(71, &[input, 33, 0]),            // Binding
        op(71, &[output, 34, 1]),           // DescriptorSet: another set, binding 5
        op(71, &[output, 33, 5]),           // Binding
        op(71, &[id, 11, 28]),              // BuiltIn GlobalInvocationId
        op(72, &[push, 0, 35, 4]),          // Offset: the first word of the push constants is not used
        op(71, &[push, 2]),                 // Block
        op(71, &[spec, 1, 7]),              // SpecId
        op(19, &[void]),                    // OpTypeVoid
        op(33, &[function, void]),          // OpTypeFunction
        op(21, &[uint, 32, 0]),             // OpTypeInt
        op(29, &[array, uint]),             // OpTypeRuntimeArray
        op(30, &[block, array]),            // OpTypeStruct
        op(32, &[block_ptr, 12, block]),    // OpTypePointer StorageBuffer
        op(59, &[block_ptr, input, 12]),    // OpVariable
        op(59, &[block_ptr, output, 12]),   // OpVariable
        op(23, &[uvec3, uint, 3]),          // OpTypeVector
        op(32, &[uvec3_ptr, 1, uvec3]),     // OpTypePointer Input
        op(59, &[uvec3_ptr, id, 1]),        // OpVariable
        op(30, &[push, uint]),              // OpTypeStruct
        op(32, &[push_ptr, 9, push]),       // OpTypePointer PushConstant
        op(59, &[push_ptr, constants, 9]),  // OpVariable
        op(32, &[push_member, 9, uint]),    // OpTypePointer PushConstant
        op(32, &[element, 12, uint]),       // OpTypePointer StorageBuffer
        op(43, &[uint, zero, 0]),           // OpConstant
        op(50, &[uint, spec, 3]),           // OpSpecConstant
        op(54, &[void, main, 0, function]), // OpFunction
        op(248, &[entry]),                  // OpLabel
    ]);
    if endless {
        add(&[
            op(249, &[header]),         // OpBranch
            op(248, &[header]),         // OpLabel
            op(246, &[merge, next, 0]), // OpLoopMerge
            op(249, &[body]),           // OpBranch
            op(248, &[body]),           // OpLabel
            op(65, &[element, target, output, zero, zero]),
            op(62, &[target, spec]), // OpStore: a loop without effect may be taken out
            op(249, &[next]),
            op(248, &[next]),
            op(249, &[header]),
            op(248, &[merge]),
        ]);
    } else {
        add(&[
            op(61, &[uvec3, whole, id]),                // OpLoad
            op(81, &[uint, x, whole, 0]),               // OpCompositeExtract
            op(65, &[element, source, input, zero, x]), // OpAccessChain
            op(61, &[uint, loaded, source]),            // OpLoad
            op(132, &[uint, product, loaded, spec]),    // OpIMul
            op(65, &[push_member, push_source, constants, zero]),
            op(61, &[uint, term, push_source]),          // OpLoad
            op(128, &[uint, sum, product, term]),        // OpIAdd
            op(65, &[element, target, output, zero, x]), // OpAccessChain
            op(62, &[target, sum]),                      // OpStore
        ]);
    }
    add(&[op(253, &[]), op(56, &[])]); // OpReturn, OpFunctionEnd
    words
}

fn case(extra: &str) -> Case {
    let text = format!(
        r#"
        workgroups = [2, 1, 1]
        push = [{{ offset = 4, values = [10] }}]
        {extra}
        [[buffer]]
        name = "in"
        binding = 0
        type = "u32"
        count = 16
        fill = "ramp"
        [[buffer]]
        name = "out"
        set = 1
        binding = 5
        type = "u32"
        count = 16
        "#
    );
    Case::parse(&text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn result(device: &VulkanExecutor<'_>, case: &Case) -> Vec<u32> {
    let outcome = testing::run_clean(device, &module(false), case).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.buffer("in"), Some(case.contents(0, &|_| 0).unwrap().as_slice()));
    let bytes = outcome.buffer("out").unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

fn everything_arrives(device: &VulkanExecutor<'_>) {
    assert_eq!(result(device, &case("")), (0..16).map(|i| i * 3 + 10).collect::<Vec<u32>>());
    assert_eq!(result(device, &case("spec = { 7 = 5, 99 = 1 }")), (0..16).map(|i| i * 5 + 10).collect::<Vec<u32>>());
}

vulkan_test!(Lavapipe, fn buffers_push_constants_and_specialization(device) {
    everything_arrives(device);
});

vulkan_test!(Debian12, fn the_same_on_an_old_driver(device) {
    everything_arrives(device);
});

vulkan_test!(Lavapipe, fn subgroup_size_can_be_required(device) {
    let text = "subgroup-size = 8\nfull-subgroups = true";
    assert_eq!(result(device, &case(text))[15], 55);
    // Of a module that does not look at subgroups their size is not asked.
    assert_eq!(result(device, &case("subgroup-size = 64"))[15], 55);
    let kernel = testing::kernels().into_iter().find(|k| k.module == "gemm_simple").expect("a kernel");
    let mut case = kernel.case();
    case.subgroup_size = Some(64);
    let error = testing::run(device, &kernel.words(), &case).unwrap_err().to_string();
    assert!(error.contains("subgroup-size 64 is not a power of two from 8 to 8"), "{error}");
});

vulkan_test!(Lavapipe, fn dispatches_are_measured(device) {
    let options = RunOptions { bench: 5, ..RunOptions::default() };
    let outcome = device.run(&module(false), &case(""), &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.times.len(), 5);
    let median = outcome.median().unwrap();
    assert!(median > Duration::ZERO && median < Duration::from_secs(5), "{median:?}");
});

vulkan_test!(Lavapipe, fn cases_that_do_not_fit_are_refused(device) {
    let run = |case: &Case| testing::run(device, &module(false), case).unwrap_err().to_string();
    let mut lacking = case("");
    lacking.buffer.pop();
    assert_eq!(run(&lacking), "case: the module uses set 1, binding 5; the case has no buffer for it");
    let mut uniform = case("");
    uniform.buffer[0].kind = coop_exec::case::BufferKind::Uniform;
    assert_eq!(run(&uniform), "case: buffer in: the module's set 0, binding 0 is a storage buffer");
    let mut short = case("");
    short.push.clear();
    assert_eq!(run(&short), "case: push: the module has 8 bytes of push constants, the case gives 0");
    let mut other = case("");
    other.entry = Some("other".into());
    assert_eq!(run(&other), "case: the module has no compute entry point 'other', only 'main'");
    assert_eq!(run(&case("spec = { 7 = 1.5 }")), "case: spec 7: 1.5 is not an integer");
    let mut many = case("");
    many.workgroups = [u32::MAX, 1, 1];
    assert!(run(&many).contains("maxComputeWorkGroupCount is"), "{}", run(&many));
});

vulkan_test!(Lavapipe, fn the_validation_layer_is_heard(device) {
    // A workgroup of 8 is not made of whole subgroups of 8 if it is 7 wide.
    let mut words = module(false);
    let size = words.iter().position(|&word| word == 6 << 16 | 16).unwrap();
    words[size + 3] = 7;
    let outcome = testing::run(device, &words, &case("full-subgroups = true")).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.messages.iter().any(|message| message.contains("VUID-")), "{:?}", outcome.messages);
});

vulkan_test!(Lavapipe, fn writes_behind_a_buffer_are_seen(device) {
    let words = testing::words("testdata/kernels/bda.spv");
    let mut case = testing::case("testdata/kernels/bda.toml");
    case.expect.clear();
    let c = case.buffer.iter_mut().find(|buffer| buffer.name == "C").unwrap();
    c.count -= 32;
    let outcome = testing::run(device, &words, &case).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.faults, ["buffer C: written 0 bytes behind its end"]);
});

vulkan_test!(Lavapipe, fn kept_buffers_begin_anew(device) {
    let words = testing::words("testdata/kernels/bda.spv");
    let whole = testing::case("testdata/kernels/bda.toml");
    let mut short = whole.clone();
    short.expect.clear();
    short.buffer.iter_mut().filter(|buffer| buffer.name == "C").for_each(|c| c.count -= 32);
    let vulkan = Vulkan::open(false).unwrap_or_else(|error| panic!("{error}"));
    let kept = vulkan.device(Some(&device.profile().device)).unwrap_or_else(|error| panic!("{error}"));
    let kept = kept.frugal().unoptimized();
    // The same buffers, of which every run writes other parts.
    for case in [&whole, &short, &whole] {
        let one = testing::run(&kept, &words, case).unwrap_or_else(|error| panic!("{error}"));
        let other = testing::run(device, &words, case).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((one.buffers, one.faults), (other.buffers, other.faults));
    }
    let spent = kept.spent();
    assert!(!spent.devices.is_zero() && !spent.dispatches.is_zero() && kept.spent().devices.is_zero(), "{spent:?}");
});

vulkan_test!(Lavapipe, fn a_dispatch_without_end_is_given_up(device) {
    let options = RunOptions { timeout: Duration::from_millis(200), ..RunOptions::default() };
    let error = device.run(&module(true), &case(""), &options).unwrap_err();
    assert_eq!(error, Error::Timeout { seconds: 0.2, workgroups: None });
    // The driver's thread never ends, and its exit handlers wait for it.
});

#[test]
fn the_module_is_what_it_says() {
    let module = coop_ir::binary::read_words(&module(false)).unwrap();
    let facts = coop_exec::facts::Facts::new(&module, &coop_ir::constant::Specialization::new());
    assert_eq!(facts.push_size, Some(8));
    assert_eq!(
        facts.bindings.iter().map(|b| (b.set, b.binding, b.used)).collect::<Vec<_>>(),
        [(0, 0, true), (1, 5, true)]
    );
    assert_eq!(facts.specs.iter().map(|s| (s.spec_id, s.default)).collect::<Vec<_>>(), [(7, 3)]);
}
