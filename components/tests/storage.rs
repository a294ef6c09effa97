//! Memory by words, and memory without the Vulkan memory model: original and output leave the same bytes, whatever of the features is lacking.

mod common;

use common::{environment, everything, interpret, lacks, lowered, of_devices, parse, run_on, same, valid_for};
use coop_components::Lacks;
use coop_device::Feature;
use coop_exec::testing::{case, repository};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, Vulkan, vulkan_test};
use coop_ir::{Module, Op};

/// The modules with cases.
const NAMES: [&str; 5] = ["layouts", "racing", "coherent", "addresses", "memory-only"];

fn module(name: &str) -> Module {
    let path = repository().join(format!("testdata/components/{name}.spvasm"));
    parse(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn with_case(name: &str) -> (Module, Case) {
    (module(name), case(format!("testdata/components/{name}.toml")))
}

/// Each feature by itself, pairs of neighbors, and all of them.
fn combinations() -> Vec<Lacks> {
    let all = Lacks::FEATURES;
    let single = all.iter().map(|f| lacks(&[*f]));
    let pairs = all.windows(2).map(lacks);
    single.chain(pairs).chain([everything(), lacks(&all[..3]), lacks(&all[3..])]).collect()
}

#[test]
fn bytes_are_the_same_in_the_interpreter() {
    for name in NAMES {
        let (module, case) = with_case(name);
        let wanted = interpret(name, &module, &case, 8);
        for lacks in combinations() {
            let what = format!("{name} without {:?}", lacks.features().collect::<Vec<_>>());
            let found = interpret(&what, &lowered(&what, &module, lacks).module, &case, 8);
            same(&what, &found, &wanted);
        }
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    for name in NAMES {
        let (module, case) = with_case(name);
        let wanted = interpret(name, &module, &case, 8);
        for lacks in combinations() {
            let what = format!("{name} without {:?}", lacks.features().collect::<Vec<_>>());
            let lowered = lowered(&what, &module, lacks);
            same(&what, &run_on(device, &what, &lowered.module, &case), &wanted);
        }
    }
}

vulkan_test!(
    Lavapipe,
    fn bytes_are_the_same_on_lavapipe(device) {
        on_device(device);
    }
);

/// The modules for each device that there is a profile of, as it takes them.
fn for_devices(mut check: impl FnMut(Lacks, &str, &Module, &Case)) {
    for (device, lacks) in of_devices() {
        for name in NAMES.into_iter().chain(["versions"]) {
            let (module, case) = with_case(name);
            let what = format!("{name} for {device}");
            let lowered = lowered(&what, &module, lacks);
            valid_for(environment(&lowered.module), &what, &lowered.module);
            check(lacks, &what, &lowered.module, &case);
        }
    }
}

fn original(what: &str, case: &Case) -> Outcome {
    let name = what.split(' ').next().expect("a name");
    interpret(what, &module(name), case, 8)
}

#[test]
fn bytes_are_the_same_with_what_devices_have_in_the_interpreter() {
    for_devices(|_, what, lowered, case| same(what, &interpret(what, lowered, case, 8), &original(what, case)));
}

vulkan_test!(
    Lavapipe,
    fn bytes_are_the_same_with_what_devices_have_on_lavapipe(_device) {
        for_devices(|lacks, what, lowered, case| {
            let features: Vec<Feature> = lacks.features().collect();
            let vulkan = Vulkan::open(true).expect("a loader").without(&features);
            let device = vulkan.device(Some("llvmpipe")).expect("lavapipe");
            same(what, &run_on(&device, what, lowered, case), &original(what, case));
        });
    }
);

/// Invocations that write neighboring bytes of a word leave those of others as they are: no store writes the whole word.
#[test]
fn parts_of_words_are_written_by_atomic_operations() {
    let lowered = lowered("racing", &module("racing"), everything());
    let mut atomics = 0;
    let mut stores = 0;
    let m = &lowered.module;
    m.in_blocks(|_, i| {
        let class = i.accessed().and_then(|p| coop_ir::types::storage_of(m, p));
        let shared = class == Some(coop_ir::spv::StorageClass::StorageBuffer);
        atomics += usize::from(shared && (i.op == Op::AtomicAnd || i.op == Op::AtomicOr));
        stores += usize::from(shared && i.op == Op::Store);
    });
    assert_eq!((atomics, stores), (8, 0));
    assert!(lowered.report.whole_words && lowered.report.software.len() >= 5, "{:?}", lowered.report);
}

/// Memory through which invocations hand each other numbers is coherent without the Vulkan memory model, and nothing says more than its successor knows.
#[test]
fn memory_that_invocations_share_is_coherent() {
    let lowered = lowered("coherent", &module("coherent"), lacks(&[Feature::VulkanMemoryModel]));
    let text = coop_ir::text::print(&lowered.module, &coop_ir::text::PrintOptions::default()).text;
    let count = |part: &str| text.matches(part).count();
    assert!(text.contains("OpMemoryModel Logical GLSL450") && text.contains("OpDecorate %2 Coherent"), "{text}");
    assert_eq!(
        (count(" Coherent"), count("MakePointer"), count("Private"), count("VulkanMemoryModel")),
        (1, 0, 0, 0),
        "{text}"
    );
    // The scope of the queue family, and the semantics that make available and visible.
    assert_eq!((count("OpConstant %uint 5"), count("OpConstant %uint 24904")), (0, 0), "{text}");
}

/// An extension stays for a capability that the removed one implied, and goes with the last.
#[test]
fn extensions_of_implied_capabilities_stay() {
    let path = repository().join("testdata/components/memory-only.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    let extended = "OpCapability UniformAndStorageBuffer8BitAccess\n OpExtension \"SPV_KHR_8bit_storage\"";
    let source = source.replace("OpCapability StorageBuffer8BitAccess", extended);
    // Before SPIR-V 1.4 interfaces have inputs and outputs alone.
    let mut module = parse(&source.replace("%index %from %to", "%index"));
    module.header.version = 0x0001_0300;
    valid_for("vulkan1.1", "the original", &module);
    let uniform = Feature::UniformAndStorageBuffer8BitAccess;
    for (lacks, stays) in [(lacks(&[uniform]), true), (lacks(&[uniform, Feature::StorageBuffer8BitAccess]), false)] {
        let lowered = coop_components::lower(&module, &coop_components::Options::new(lacks));
        let lowered = lowered.unwrap_or_else(|e| panic!("{e}")).module;
        valid_for("vulkan1.1", "lowered", &lowered);
        let extension = |r: coop_ir::InstRef| lowered.inst(r).string(0).is_some_and(|s| s.0 == "SPV_KHR_8bit_storage");
        assert_eq!(lowered.globals_with(Op::Extension).any(extension), stays);
    }
}

/// Arrays of descriptors keep their bindings, and the decorations of indices that differ.
#[test]
fn arrays_of_descriptors() {
    for lacks in combinations() {
        lowered("arrays", &module("arrays"), lacks);
    }
}

/// The storage buffers of before SPIR-V 1.3, which are uniform memory with another decoration.
#[test]
fn buffer_blocks_are_storage_buffers() {
    let path = repository().join("testdata/components/racing.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    let source = source.replace(" StorageBuffer\n", " Uniform\n").replace(" StorageBuffer %", " Uniform %");
    let module = parse(&source.replace(" Block\n", " BufferBlock\n"));
    let case = case("testdata/components/racing.toml");
    let wanted = interpret("original", &module, &case, 8);
    let lowered = coop_components::lower(&module, &coop_components::Options::new(everything()));
    // No validator takes them since SPIR-V 1.4, which the module is for the rest.
    let lowered = lowered.unwrap_or_else(|e| panic!("{e}"));
    assert!(lowered.module.all().any(|r| lowered.module.inst(r).op == Op::AtomicOr));
    same("buffer blocks", &interpret("lowered", &lowered.module, &case, 8), &wanted);
}
