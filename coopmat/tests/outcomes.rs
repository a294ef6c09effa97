//! Tests the outcomes of our own modules, on the devices that come with the library.

use coopmat::{
    Device, Feature, Lanes, Lowered, MapEntry, Outcome, PipelineOptions, Prepared, Profile, Refused, Specialization,
    Target,
};
use std::time::Duration;

fn bytes(name: &str) -> Vec<u8> {
    let path = format!("{}/../testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn kernel(name: &str) -> Prepared {
    Prepared::read_bytes(&bytes(&format!("kernels/{name}.spv"))).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A module that is written as text.
fn assembled(name: &str) -> Prepared {
    assembled_with(name, 0)
}

/// A module that is written as text, with so many names more.
fn assembled_with(name: &str, names: usize) -> Prepared {
    let text = String::from_utf8(bytes(name)).expect("text");
    let mut module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let ids: Vec<_> = module.globals.iter().filter_map(|r| module.inst(*r).result).collect();
    ids.iter().cycle().take(names).for_each(|id| coop_ir::builder::name(&mut module, *id, "another"));
    Prepared::read(&coop_ir::binary::write_words(&module)).expect("what was written reads")
}

fn device(name: &str) -> Device {
    Device::builtin(name).unwrap_or_else(|| panic!("no device {name}"))
}

/// The constants of the tutorial's GEMM: three sizes of a tile, then others.
fn tutorial(specialization: &mut Specialization, tile: u32) {
    for (id, value) in (0..).zip([tile, tile, tile, 8, 32, 32, 16, 3]) {
        specialization.set_u32(id, value);
    }
}

/// A device without some features.
fn without(name: &str, features: &[Feature]) -> Device {
    let mut profile = Profile::builtin(name).unwrap_or_else(|| panic!("no device {name}"));
    features.iter().for_each(|feature| profile.features.set(*feature, false));
    Device::from_profile(profile)
}

#[track_caller]
fn lowered(outcome: Outcome) -> Lowered {
    match outcome {
        Outcome::Lowered(lowered) => *lowered,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(outcome: Outcome) -> Refused {
    match outcome {
        Outcome::Refused(refused) => *refused,
        other => panic!("{other:?}"),
    }
}

const fn shared<T: Send + Sync + 'static>() {}

const _: () = {
    shared::<Device>();
    shared::<Prepared>();
    shared::<PipelineOptions>();
    shared::<Outcome>();
    shared::<coopmat::Promise>();
    shared::<coopmat::ReadError>();
};

#[test]
fn native_where_the_device_runs_it() {
    let module = kernel("gemm_simple");
    assert!(module.has_matrices());
    assert_eq!(module.for_pipeline(&device("nvidia-h100"), &PipelineOptions::default()), Outcome::Native);
    let mut options = PipelineOptions::default();
    options.always_lower = true;
    options.target = Target::Scalar;
    let lowered = lowered(module.for_pipeline(&device("nvidia-h100"), &options));
    assert!(lowered.because.is_empty() && lowered.target == Target::Scalar, "{lowered:?}");
}

/// A device that has the matrices runs such a module, and no driver that is known makes its pipeline.
#[test]
fn a_length_in_a_constant_is_lowered_where_there_are_matrices() {
    let path = "../testdata/drivers/gpu/length-in-constant.spvasm";
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let module = coop_ir::text::parse(&text).expect("the text parses");
    let words = coop_ir::binary::write_words(&module);
    let module = Prepared::read(&words).expect("it reads");
    let mut options = PipelineOptions::default();
    options.required_subgroup_size = Some(32);
    for name in ["amd-rdna3", "nvk-turing"] {
        let lowered = lowered(module.for_pipeline(&device(name), &options));
        assert_eq!(lowered.target, Target::Khr, "{name}");
        assert!(lowered.because.iter().any(|why| why.contains("length of a matrix")), "{name}: {:?}", lowered.because);
        let again = Prepared::read(&lowered.words).expect("what was written reads");
        assert!(again.has_matrices());
        assert_eq!(again.for_pipeline(&device(name), &options), Outcome::Native, "{name}");
    }
}

#[test]
fn a_module_without_matrices_is_native_everywhere() {
    let scalar = kernel("gemm_simple").for_pipeline(&device("mesa-lavapipe-debian12"), &PipelineOptions::default());
    let again = Prepared::read(&lowered(scalar).words).expect("what was written reads");
    assert!(!again.has_matrices());
    for name in Device::builtin_names() {
        assert_eq!(again.for_pipeline(&device(name), &PipelineOptions::default()), Outcome::Native, "{name}");
    }
}

#[test]
fn lowered_to_scalar_code_where_there_are_no_matrices() {
    let lowered =
        lowered(kernel("gemm_simple").for_pipeline(&device("mesa-lavapipe-debian12"), &PipelineOptions::default()));
    assert_eq!(lowered.target, Target::Scalar);
    assert_eq!((lowered.requirements.subgroup_size, lowered.requirements.full_subgroups), (Some(8), true));
    assert!(lowered.requirements.features.has(Feature::ShaderFloat16));
    assert!(lowered.because[0].contains("CooperativeMatrixKHR"), "{:?}", lowered.because);
    assert!(lowered.warnings.iter().any(|w| w.contains("subgroup-size-assumed")), "{:?}", lowered.warnings);
}

#[test]
fn lowered_to_the_matrices_that_there_are() {
    let mut options = PipelineOptions::default();
    tutorial(&mut options.specialization, 32);
    // Workgroups of two subgroups.
    options.specialization.set_u32(3, 32);
    options.required_subgroup_size = Some(32);
    let lowered = lowered(kernel("gemm_tutorial").for_pipeline(&device("amd-rdna3"), &options));
    assert_eq!(lowered.target, Target::Khr, "{lowered:?}");
    assert!(lowered.requirements.features.has(Feature::CooperativeMatrix));
    assert!(lowered.requirements.extensions.contains(&"VK_KHR_cooperative_matrix".to_owned()));
    options.target = Target::Scalar;
    let scalar = kernel("gemm_tutorial").for_pipeline(&device("amd-rdna3"), &options);
    assert_eq!(self::lowered(scalar).target, Target::Scalar);
}

/// Where matrices are listed and slow, the best target is code without them; who asks for them gets them.
#[test]
fn slow_matrices_are_left_alone() {
    let mut options = PipelineOptions::default();
    tutorial(&mut options.specialization, 16);
    options.specialization.set_u32(3, 16);
    options.required_subgroup_size = Some(16);
    options.always_lower = true;
    let slow = Profile::builtin("intel-arc").expect("built in");
    assert!(slow.slow_matrices.contains("24404"));
    let fast = Device::from_profile(Profile { slow_matrices: String::new(), ..slow.clone() });
    let slow = Device::from_profile(slow);
    let target =
        |device: &Device, options: &PipelineOptions| lowered(kernel("gemm_tutorial").for_pipeline(device, options));
    let taken = target(&slow, &options);
    assert_eq!(taken.target, Target::Scalar, "{taken:?}");
    assert!(taken.not_taken.iter().any(|why| why.contains("slower") && why.contains("24404")), "{taken:?}");
    let taken = target(&fast, &options);
    assert_eq!(taken.target, Target::Khr, "{taken:?}");
    options.target = Target::Khr;
    assert_eq!(target(&slow, &options).target, Target::Khr);
}

/// Intel's drivers refuse code that spills too much, and choose the size of subgroups by the registers that a shader needs: code without matrices that
/// holds much leaves the size to them, whatever the module's own pipeline requires.
#[test]
fn what_holds_more_than_the_registers_leaves_the_size_to_the_driver() {
    let module = Prepared::read_bytes(&bytes("bench/matmul_khr_f16.spv")).expect("a module");
    let mut options = PipelineOptions::default();
    for (id, value) in (0..).zip([512, 128, 128, 64, 32, 32, 1]) {
        options.specialization.set_u32(id, value);
    }
    for required in [None, Some(32)] {
        options.required_subgroup_size = required;
        for (name, target) in
            [("intel-arc", Target::Auto), ("intel-arc", Target::Scalar), ("intel-xe2", Target::Scalar)]
        {
            options.target = target;
            options.always_lower = true;
            let taken = lowered(module.for_pipeline(&device(name), &options));
            let needs = &taken.requirements;
            assert_eq!(
                (taken.target, needs.subgroup_size, needs.full_subgroups),
                (Target::Scalar, None, false),
                "{taken:?}"
            );
            assert!(needs.any_subgroup_size, "{taken:?}");
            assert!(taken.not_taken.iter().any(|why| why.contains("registers")), "{taken:?}");
        }
        let elsewhere = lowered(module.for_pipeline(&device("nvidia-h100"), &options));
        assert_eq!((elsewhere.requirements.subgroup_size, elsewhere.requirements.any_subgroup_size), (Some(32), false));
    }
    // Attention moves elements between lanes, which lanes by local index can't: the driver takes its matrices, slow or not.
    let attention = Prepared::read_bytes(&bytes("bench/flash_khr.spv")).expect("a module");
    let mut of_attention = PipelineOptions::default();
    for (id, value) in (0..).zip([128, 128, 32, 64, 32, 1]) {
        of_attention.specialization.set_u32(id, value);
    }
    of_attention.required_subgroup_size = Some(32);
    let taken = lowered(attention.for_pipeline(&device("intel-arc"), &of_attention));
    assert_eq!((taken.target, taken.requirements.subgroup_size), (Target::Khr, Some(32)), "{taken:?}");
    assert!(taken.not_taken.iter().any(|why| why.contains("registers")), "{taken:?}");
    options.lanes = Lanes::Subgroup;
    let asked = lowered(module.for_pipeline(&device("intel-arc"), &options));
    assert_eq!((asked.requirements.subgroup_size, asked.requirements.any_subgroup_size), (Some(32), false));
}

#[test]
fn the_size_that_the_pipeline_requires_is_the_one_that_is_meant() {
    let mut options = PipelineOptions::default();
    options.target = Target::Scalar;
    options.lanes = Lanes::Subgroup;
    options.always_lower = true;
    for size in [8, 16, 32] {
        options.required_subgroup_size = Some(size);
        let lowered = lowered(kernel("gemm_simple").for_pipeline(&device("intel-arc"), &options));
        assert_eq!(lowered.requirements.subgroup_size, Some(size));
        assert!(lowered.warnings.is_empty(), "{:?}", lowered.warnings);
    }
    options.required_subgroup_size = Some(64);
    let refused = refused(kernel("gemm_simple").for_pipeline(&device("intel-arc"), &options));
    assert_eq!(refused.rule, "refused-subgroup-size");
}

#[test]
fn lanes_are_places_in_the_workgroup_where_no_size_can_be_required() {
    let device = without("mesa-lavapipe-debian12", &[Feature::SubgroupSizeControl, Feature::ComputeFullSubgroups]);
    assert!(!device.can_require_subgroups());
    let by_index = lowered(kernel("gemm_simple").for_pipeline(&device, &PipelineOptions::default()));
    assert_eq!((by_index.requirements.subgroup_size, by_index.requirements.full_subgroups), (None, false));
    assert!(by_index.not_taken.iter().any(|n| n.contains("full subgroups")), "{:?}", by_index.not_taken);
    let mut options = PipelineOptions::default();
    options.lanes = Lanes::Subgroup;
    let by_subgroup = lowered(kernel("gemm_simple").for_pipeline(&device, &options));
    assert!(by_subgroup.requirements.full_subgroups);
}

#[test]
fn one_module_has_many_pipelines() {
    let module = kernel("gemm_tutorial");
    let device = device("mesa-lavapipe-debian12");
    let with = |tile: u32| {
        let mut options = PipelineOptions::default();
        tutorial(&mut options.specialization, tile);
        module.for_pipeline(&device, &options)
    };
    let (small, large, defaults) = (lowered(with(8)), lowered(with(16)), with(16));
    assert_ne!(small.words, large.words);
    assert_eq!(Outcome::Lowered(Box::new(large)), defaults, "the same question has the same answer");
}

#[test]
fn constants_that_are_left_can_be_given_again() {
    let module = kernel("gemm_tutorial");
    let mut options = PipelineOptions::default();
    tutorial(&mut options.specialization, 16);
    let lowered = lowered(module.for_pipeline(&device("mesa-lavapipe-debian12"), &options));
    // The tile's constants have their values for good; there may be others.
    assert!(!lowered.specialization.ids().any(|id| id == 0), "{:?}", lowered.specialization);
    let again = Prepared::read(&lowered.words).expect("what was written reads");
    assert!(!again.has_matrices());
}

#[test]
fn specialization_is_bytes() {
    let entry = |constant_id, offset, size| MapEntry { constant_id, offset, size };
    let data = [1, 0, 0, 0, 2, 0, 3, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    let entries = [entry(4, 0, 4), entry(2, 4, 2), entry(7, 6, 1), entry(9, 8, 8)];
    let read = Specialization::from_entries(&entries, &data).expect("well formed");
    let mut same = Specialization::default();
    same.set_u32(4, u32::from_ne_bytes([1, 0, 0, 0]));
    same.set_u16(2, u16::from_ne_bytes([2, 0]));
    same.set_u8(7, 3);
    same.set_u64(9, 0x0909_0909_0909_0909);
    assert_eq!(read, same);
    let (entries, data) = read.to_entries();
    assert_eq!(Specialization::from_entries(&entries, &data), Ok(read.clone()));
    assert_eq!(read.only(|id| id > 4).ids().collect::<Vec<_>>(), [7, 9]);
    for (wrong, says) in [
        (vec![entry(1, 14, 4)], "its 4 bytes at 14 are not in the 16 bytes"),
        (vec![entry(1, u32::MAX, usize::MAX)], "are not in the 16 bytes"),
        (vec![entry(1, 0, 3)], "no constant has 3 bytes"),
        (vec![entry(1, 0, 4), entry(1, 0, 4)], "given twice"),
    ] {
        let data = [0; 16];
        let error = Specialization::from_entries(&wrong, &data).expect_err("wrong").to_string();
        assert!(error.starts_with("the value of specialization constant 1: ") && error.contains(says), "{error}");
    }
}

#[test]
fn values_of_the_wrong_size_are_refused() {
    let mut options = PipelineOptions::default();
    options.specialization.set_u64(0, 16);
    let refused = refused(kernel("gemm_tutorial").for_pipeline(&device("mesa-lavapipe"), &options));
    assert_eq!(refused.rule, "refused-spec-value");
    assert!(refused.to_string().contains("it has 4 bytes and is given 8"), "{refused}");
    // A constant that the module does not have is nobody's business.
    let mut options = PipelineOptions::default();
    options.specialization.set_u64(4711, 16);
    lowered(kernel("gemm_simple").for_pipeline(&device("mesa-lavapipe-debian12"), &options));
}

#[test]
fn entry_points_have_to_be_there() {
    let mut options = PipelineOptions::default();
    options.entry_point = Some("nobody".to_owned());
    let refused = refused(kernel("gemm_simple").for_pipeline(&device("nvidia-h100"), &options));
    assert_eq!((refused.rule, refused.remedy.as_str()), ("refused-entry", "name one that it has: 'main'"));
    options.entry_point = Some("main".to_owned());
    assert_eq!(kernel("gemm_simple").for_pipeline(&device("nvidia-h100"), &options), Outcome::Native);
}

#[test]
fn what_no_lowering_mends_is_refused() {
    let device = without("mesa-lavapipe-debian12", &[Feature::BufferDeviceAddress]);
    let refused = refused(kernel("bda").for_pipeline(&device, &PipelineOptions::default()));
    assert_eq!(refused.rule, "refused-device");
    assert!(refused.findings[0].message.contains("PhysicalStorageBufferAddresses"), "{refused}");
    assert!(refused.to_string().contains("bufferDeviceAddress"), "{refused}");
}

/// Types that the device lacks become software, behind addresses too. Uses without a lowering are said.
#[test]
fn component_types_become_software() {
    let lacking = [Feature::ShaderFloat16, Feature::StorageBuffer16BitAccess];
    let device = without("mesa-lavapipe-debian12", &lacking);
    for name in ["gemm_simple", "bda"] {
        let found = lowered(kernel(name).for_pipeline(&device, &PipelineOptions::default()));
        assert!(found.approximations.iter().any(|a| a == "f16 is computed with f32"), "{:?}", found.approximations);
        assert!(found.warnings.iter().any(|w| w.contains("multiple of 4 bytes")), "{:?}", found.warnings);
        assert!(lacking.iter().all(|f| !found.requirements.features.has(*f)));
    }
    let constant = assembled("components/refused.spvasm");
    let refused = refused(constant.for_pipeline(&device, &PipelineOptions::default()));
    assert_eq!(refused.rule, "refused-device");
    assert!(refused.not_taken.iter().any(|n| n.contains("refused-component-type")), "{:?}", refused.not_taken);
}

#[test]
fn modules_that_break_rules_are_refused_with_what_they_break() {
    let device = device("mesa-lavapipe-debian12");
    let mut options = PipelineOptions::default();
    options.check_rules = true;
    // A large module is checked on another thread while it is lowered.
    for names in [0, 2000] {
        let module = assembled_with("validate/muladd/muladd-k-mismatch.spvasm", names);
        let refused = refused(module.for_pipeline(&device, &options));
        assert_eq!(refused.rule, "refused-rules");
        assert!(refused.findings.iter().any(|f| f.rule == "muladd-k-mismatch" && f.word.is_some()), "{refused:?}");
    }
}

/// Each row of the workgroup copies a matrix.
#[cfg(feature = "uniformity")]
const SUBGROUP_FOR_EACH_ROW: &str = r#"
    OpCapability Shader
    OpCapability VulkanMemoryModel
    OpCapability CooperativeMatrixKHR
    OpExtension "SPV_KHR_cooperative_matrix"
    OpMemoryModel Logical Vulkan
    OpEntryPoint GLCompute %main "main" %in %out %local
    OpExecutionMode %main LocalSize 8 2 1
    OpDecorate %floats ArrayStride 4
    OpDecorate %block Block
    OpMemberDecorate %block 0 Offset 0
    OpDecorate %in DescriptorSet 0
    OpDecorate %in Binding 0
    OpDecorate %out DescriptorSet 0
    OpDecorate %out Binding 1
    OpDecorate %local BuiltIn LocalInvocationId
    %void = OpTypeVoid
    %nothing = OpTypeFunction %void
    %uint = OpTypeInt 32 0
    %uint3 = OpTypeVector %uint 3
    %float = OpTypeFloat 32
    %c0 = OpConstant %uint 0
    %c2 = OpConstant %uint 2
    %c3 = OpConstant %uint 3
    %c8 = OpConstant %uint 8
    %c64 = OpConstant %uint 64
    %ty = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2
    %floats = OpTypeRuntimeArray %float
    %block = OpTypeStruct %floats
    %to_block = OpTypePointer StorageBuffer %block
    %to_float = OpTypePointer StorageBuffer %float
    %to_uint3 = OpTypePointer Input %uint3
    %in = OpVariable %to_block StorageBuffer
    %out = OpVariable %to_block StorageBuffer
    %local = OpVariable %to_uint3 Input
    %main = OpFunction %void None %nothing
    %entry = OpLabel
    %id = OpLoad %uint3 %local
    %row = OpCompositeExtract %uint %id 1
    %at = OpIMul %uint %row %c64
    %from = OpAccessChain %to_float %in %c0 %at
    %m = OpCooperativeMatrixLoadKHR %ty %from %c0 %c8
    %to = OpAccessChain %to_float %out %c0 %at
    OpCooperativeMatrixStoreKHR %to %m %c0 %c8
    OpReturn
    OpFunctionEnd
"#;

/// As CubeCL's kernels are: the rows of a workgroup are its subgroups, and each has a pointer of its own.
#[cfg(feature = "uniformity")]
#[test]
fn rules_are_checked_for_the_devices_subgroups() {
    let mut options = PipelineOptions::default();
    options.check_rules = true;
    let module = coop_ir::text::parse(SUBGROUP_FOR_EACH_ROW).unwrap_or_else(|e| panic!("{e}"));
    let rows = Prepared::read(&coop_ir::binary::write_words(&module)).expect("what was written reads");
    let device = device("mesa-lavapipe-debian12");
    lowered(rows.for_pipeline(&device, &options));
    // Two rows are a subgroup of 16, and what the pipeline requires comes first.
    options.required_subgroup_size = Some(16);
    let refused = refused(rows.for_pipeline(&device, &options));
    assert_eq!(refused.rule, "refused-rules");
    assert!(refused.findings.iter().any(|f| f.rule == "uniformity-operand"), "{refused:?}");
    assert!(!refused.to_string().contains("default"), "{refused}");
}

/// As IREE's compiler makes them.
#[test]
fn the_memory_model_of_glsl_is_a_warning() {
    let mut options = PipelineOptions::default();
    options.check_rules = true;
    for names in [0, 2000] {
        let module = assembled_with("validate/module/module-memory-model.iree.spvasm", names);
        let lowered = lowered(module.for_pipeline(&device("mesa-lavapipe-debian12"), &options));
        assert!(lowered.warnings.iter().any(|w| w.contains("Vulkan memory model")), "{:?}", lowered.warnings);
    }
}

/// Modules that break rules, each of them: some outcome, and no bug of ours, whether rules are asked for or not.
#[test]
fn broken_modules_have_an_outcome() {
    let device = device("mesa-lavapipe-debian12");
    let mut modules = 0;
    let folders =
        std::fs::read_dir(format!("{}/../testdata/validate", env!("CARGO_MANIFEST_DIR"))).expect("the folder");
    for folder in folders.flatten().filter(|f| f.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|f| f.path()) {
            let Some(text) =
                std::fs::read_to_string(&file).ok().filter(|_| file.extension().is_some_and(|e| e == "spvasm"))
            else {
                continue;
            };
            let Ok(module) = coop_ir::text::parse(&text) else { continue };
            let Ok(module) = Prepared::read(&coop_ir::binary::write_words(&module)) else { continue };
            for check_rules in [false, true] {
                let mut options = PipelineOptions::default();
                options.check_rules = check_rules;
                options.always_lower = true;
                let outcome = module.for_pipeline(&device, &options);
                if let Outcome::Refused(why) = &outcome {
                    assert_ne!(why.rule, "refused-internal", "{}: {why}", file.display());
                }
                // What the first pipeline found out about the module is kept.
                assert!(module.for_pipeline(&device, &options) == outcome, "{}: {outcome:?}", file.display());
                modules += 1;
            }
        }
    }
    assert!(modules > 300, "{modules}");
}

#[test]
fn limits_hold() {
    let module = assembled("passes/refused/refused-limit.spvasm");
    let device = device("mesa-lavapipe-debian12");
    let mut options = PipelineOptions::default();
    options.limits.instructions = 10_000;
    let refused = refused(module.for_pipeline(&device, &options));
    assert_eq!(refused.rule, "refused-limit", "{refused}");
    assert!(refused.message.contains("more than 10"), "{refused}");
    let mut options = PipelineOptions::default();
    options.limits.time = Some(Duration::ZERO);
    let refused = self::refused(kernel("gemm_simple").for_pipeline(&device, &options));
    assert_eq!((refused.rule, refused.message.as_str()), ("refused-limit", "the time for lowering is over"));
    options.limits.time = Some(Duration::from_secs(60));
    lowered(kernel("gemm_simple").for_pipeline(&device, &options));
}

#[test]
fn wrong_bytes_are_errors() {
    let good = bytes("kernels/gemm_simple.spv");
    for (wrong, says) in [
        (&good[..0], "at least 20 bytes"),
        (&good[..6], "bytes"),
        (&good[..good.len() - 1], "not a multiple of 4"),
        (&good[..good.len() - 4], "inside a function"),
        (&good[1..], "not SPIR-V"),
    ] {
        let error = Prepared::read_bytes(wrong).expect_err("no module").to_string();
        assert!(error.contains(says), "{error}");
    }
    let swapped: Vec<u8> = good.chunks_exact(4).flat_map(|w| [w[3], w[2], w[1], w[0]]).collect();
    let device = device("mesa-lavapipe-debian12");
    let options = PipelineOptions::default();
    let outcome = Prepared::read_bytes(&swapped).expect("either byte order").for_pipeline(&device, &options);
    let words = lowered(outcome).words;
    // Drivers take words in the machine's order.
    assert_eq!(words[0], coop_ir::binary::MAGIC);
}

#[test]
fn threads_get_the_same() {
    let (module, device) = (kernel("elementwise_float"), device("amd-rdna3"));
    let mut options = PipelineOptions::default();
    options.target = Target::Scalar;
    options.always_lower = true;
    let once = module.for_pipeline(&device, &options);
    assert!(matches!(once, Outcome::Lowered(_)), "{once:?}");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| module.for_pipeline(&device, &options))).collect();
        threads.into_iter().for_each(|thread| assert!(thread.join().expect("no panic") == once));
    });
    // A module that is read again, too.
    assert!(kernel("elementwise_float").for_pipeline(&device, &options) == once);
}

#[test]
fn keys_are_of_what_goes_in() {
    let (module, device) = (kernel("gemm_simple"), device("amd-rdna3"));
    let options = PipelineOptions::default();
    let key = module.pipeline_key(&device, &options);
    assert_eq!(kernel("gemm_simple").pipeline_key(&self::device("amd-rdna3"), &options), key);
    let mut others = vec![
        kernel("gemm_i8").pipeline_key(&device, &options),
        module.pipeline_key(&self::device("amd-rdna4"), &options),
    ];
    let mut change = |change: &dyn Fn(&mut PipelineOptions)| {
        let mut options = options.clone();
        change(&mut options);
        others.push(module.pipeline_key(&device, &options));
    };
    change(&|o| o.specialization.set_u32(0, 0));
    change(&|o| o.specialization.set_u64(0, 0));
    change(&|o| o.required_subgroup_size = Some(32));
    change(&|o| o.entry_point = Some("main".to_owned()));
    change(&|o| o.target = Target::Scalar);
    change(&|o| o.lanes = Lanes::LocalIndex);
    change(&|o| o.undefined_as_zero = true);
    change(&|o| o.assume_aligned = true);
    change(&|o| o.excess_precision = true);
    change(&|o| o.assume_any_subgroup_size = true);
    let all = others.len();
    others.push(key);
    others.sort();
    others.dedup();
    assert_eq!(others.len(), all + 1);
    assert!(coopmat::BUILD.starts_with(coopmat::VERSION) && coopmat::BUILD.len() > coopmat::VERSION.len() + 16);
}

/// Made for subgroups of 32: an array has a part for each of them, and in each a value is broadcast, by all invocations or by some.
fn with_parts(uniform: bool) -> Prepared {
    let broadcast = "%b = OpGroupNonUniformBroadcastFirst %u32 %n3 %me";
    let body = if uniform {
        format!("{broadcast}\n")
    } else {
        format!(
            "%few = OpULessThan %bool %me %n3\nOpSelectionMerge %end None\nOpBranchConditional %few %in %end\n%in = OpLabel\n\
             {broadcast}\nOpBranch %end\n%end = OpLabel\n"
        )
    };
    let text = format!(
        "; Version: 1.6\nOpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
         OpCapability GroupNonUniform\nOpCapability GroupNonUniformBallot\n\
         OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %index %subgroup %parts\nOpExecutionModeId %main LocalSizeId %x %n1 %n1\n\
         OpDecorate %x SpecId 0\nOpDecorate %size SpecId 1\n\
         OpDecorate %index BuiltIn LocalInvocationIndex\nOpDecorate %subgroup BuiltIn SubgroupId\n\
         %void = OpTypeVoid\n%fn = OpTypeFunction %void\n%bool = OpTypeBool\n%u32 = OpTypeInt 32 0\n%f32 = OpTypeFloat 32\n\
         %n1 = OpConstant %u32 1\n%n2 = OpConstant %u32 2\n%n3 = OpConstant %u32 3\n%n8 = OpConstant %u32 8\n\
         %x = OpSpecConstant %u32 128\n%size = OpSpecConstant %u32 32\n%count = OpSpecConstantOp %u32 UDiv %x %size\n\
         %array = OpTypeArray %u32 %count\n%to_array = OpTypePointer Workgroup %array\n%to_part = OpTypePointer Workgroup %u32\n\
         %to_in = OpTypePointer Input %u32\n%index = OpVariable %to_in Input\n%subgroup = OpVariable %to_in Input\n\
         %parts = OpVariable %to_array Workgroup\n%matrix = OpTypeCooperativeMatrixKHR %f32 %n3 %n8 %n8 %n2\n\
         %null = OpConstantNull %matrix\n%main = OpFunction %void None %fn\n%entry = OpLabel\n%me = OpLoad %u32 %index\n\
         %s = OpLoad %u32 %subgroup\n%sum = OpFAdd %matrix %null %null\n%part = OpAccessChain %to_part %parts %s\n\
         OpStore %part %me\n{body}OpReturn\nOpFunctionEnd\n"
    );
    let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Prepared::read(&coop_ir::binary::write_words(&module)).expect("what was written reads")
}

#[test]
fn subgroups_that_a_module_is_made_for_are_emulated() {
    let options = PipelineOptions::default();
    // Its subgroups have 8 invocations: 16 would write into 4 parts.
    let small = device("mesa-lavapipe-debian12");
    let emulated = lowered(with_parts(true).for_pipeline(&small, &options));
    assert_eq!((emulated.target, emulated.requirements.subgroup_size), (Target::Scalar, None));
    assert!(emulated.requirements.shared_memory >= 512, "{:?}", emulated.requirements);
    assert!(emulated.not_taken.iter().any(|why| why.contains("none has 32 invocations (SpecId 1")), "{emulated:?}");
    let refused = refused(with_parts(false).for_pipeline(&small, &options));
    assert_eq!(refused.rule, "refused-lanes");
    // A device that has them needs none of that.
    let large =
        lowered(with_parts(false).for_pipeline(&without("nvidia-h100", &[Feature::CooperativeMatrix]), &options));
    assert_eq!((large.requirements.subgroup_size, large.requirements.full_subgroups), (Some(32), true));
    // One that is said to work with any size has the device's.
    let mut options = PipelineOptions::default();
    options.assume_any_subgroup_size = true;
    for uniform in [true, false] {
        let any = lowered(with_parts(uniform).for_pipeline(&small, &options));
        assert_eq!((any.requirements.subgroup_size, any.requirements.full_subgroups), (Some(8), true));
        assert!(any.requirements.shared_memory == 0 && !any.warnings.iter().any(|w| w.contains("SpecId")), "{any:?}");
    }
    // A size that the pipeline asks for.
    let mut options = PipelineOptions::default();
    options.required_subgroup_size = Some(64);
    let asked = lowered(with_parts(true).for_pipeline(&small, &options));
    assert_eq!(asked.requirements.subgroup_size, None);
}

#[test]
fn workgroups_smaller_than_a_subgroup_are_subgroups() {
    let module = kernel("gemm_simple");
    let mut profile = Profile::builtin("nvidia-h100").expect("a device");
    profile.features.set(Feature::CooperativeMatrix, false);
    for size in [32, 64] {
        let limits = &mut profile.limits;
        (limits.subgroup_size, limits.min_subgroup_size, limits.max_subgroup_size) = (size, size, size);
        let device = Device::from_profile(profile.clone());
        // Whole workgroups, halves of one, and thirds.
        for (workgroup, stands) in [(8, 8), (16, 16), (32, 32), (96, 32)] {
            let mut options = PipelineOptions::default();
            (0..).zip([16, 16, 16, workgroup]).for_each(|(id, value)| options.specialization.set_u32(id, value));
            let lowered = lowered(module.for_pipeline(&device, &options));
            let whole = workgroup % size == 0;
            assert_eq!(lowered.requirements.subgroup_size, whole.then_some(size), "{workgroup} on {size}");
            let said = format!("each {stands} consecutive invocations stand for a subgroup");
            assert_eq!(lowered.warnings.iter().any(|w| w.contains(&said)), !whole, "{:?}", lowered.warnings);
        }
    }
    // What comes out is right: the interpreter has the subgroups of the device.
    let path = format!("{}/../testdata/kernels/gemm_simple.toml", env!("CARGO_MANIFEST_DIR"));
    let case = coop_exec::Case::load(std::path::Path::new(&path)).expect("a case");
    let mut options = PipelineOptions::default();
    (0..).zip([8, 8, 8, 8]).for_each(|(id, value)| options.specialization.set_u32(id, value));
    let words = lowered(module.for_pipeline(&Device::from_profile(profile), &options)).words;
    let wide = coop_exec::Case { subgroup_size: Some(64), ..case };
    let differences = written(&words, &wide).check(&wide).expect("comparable");
    assert!(differences.is_empty(), "{}", differences[0]);
}

/// Returns the output of words, run by the interpreter with subgroups of 32.
fn written(words: &[u32], case: &coop_exec::Case) -> coop_exec::Outcome {
    let module = coop_ir::binary::read_words(words).expect("a module");
    let (buffers, report) = coop_exec::interp::Interpreted { config: Default::default() }
        .run_module(&module, case)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    coop_exec::interp::Interpreted::outcome(buffers, &report)
}

#[test]
fn elements_that_layouts_leave_undefined_can_be_as_outside_of_other_layouts() {
    let path = format!("{}/../exec/tests/interp/clamp", env!("CARGO_MANIFEST_DIR"));
    let case = coop_exec::Case::load(std::path::Path::new(&format!("{path}.toml"))).expect("a case");
    let module = Prepared::read_bytes(&std::fs::read(format!("{path}.spv")).expect("a module")).expect("reads");
    let small = without("nvidia-h100", &[Feature::CooperativeMatrix]);
    let mut options = PipelineOptions::default();
    // The mode of the layout: Constant, then Undefined.
    options.specialization.set_u32(0, 1);
    let wanted = written(&lowered(module.for_pipeline(&small, &options)).words, &case);
    options.specialization.set_u32(0, 0);
    let left = lowered(module.for_pipeline(&small, &options)).words;
    options.undefined_as_zero = true;
    let zeros = lowered(module.for_pipeline(&small, &options)).words;
    assert_ne!(left, zeros);
    let differences = written(&zeros, &case).compare(&wanted, &case).expect("comparable");
    assert!(differences.is_empty(), "{}", differences[0]);
}

#[test]
fn pointers_can_be_promised_to_be_aligned() {
    let path = format!("{}/../testdata/nv2/unaligned.f16.spv", env!("CARGO_MANIFEST_DIR"));
    let module = Prepared::read_bytes(&std::fs::read(path).expect("a module")).expect("reads");
    let mut options = PipelineOptions::default();
    options.specialization.set_u32(0, 8);
    let small = device("mesa-lavapipe-debian12");
    let tested = lowered(module.for_pipeline(&small, &options)).words;
    options.assume_aligned = true;
    let promised = lowered(module.for_pipeline(&small, &options)).words;
    assert!(promised.len() < tested.len(), "{} words, {} with tests", promised.len(), tested.len());
}

#[test]
fn bfloat16_without_matrices_is_lowered_where_there_is_none() {
    let text = "; Version: 1.6\nOpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability BFloat16TypeKHR\n\
         OpCapability StorageBuffer16BitAccess\nOpExtension \"SPV_KHR_bfloat16\"\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %in %out %index\nOpExecutionMode %main LocalSize 32 1 1\n\
         OpDecorate %index BuiltIn LocalInvocationIndex\n\
         OpDecorate %a16 ArrayStride 2\nOpDecorate %b16 Block\nOpMemberDecorate %b16 0 Offset 0\n\
         OpDecorate %a32 ArrayStride 4\nOpDecorate %b32 Block\nOpMemberDecorate %b32 0 Offset 0\n\
         OpDecorate %in DescriptorSet 0\nOpDecorate %in Binding 0\nOpDecorate %out DescriptorSet 0\nOpDecorate %out Binding 1\n\
         %void = OpTypeVoid\n%fn = OpTypeFunction %void\n%u32 = OpTypeInt 32 0\n%f32 = OpTypeFloat 32\n\
         %bf16 = OpTypeFloat 16 BFloat16KHR\n%n0 = OpConstant %u32 0\n%third = OpConstant %f32 0.3333\n\
         %a16 = OpTypeRuntimeArray %bf16\n%b16 = OpTypeStruct %a16\n%p16 = OpTypePointer StorageBuffer %b16\n\
         %e16 = OpTypePointer StorageBuffer %bf16\n%a32 = OpTypeRuntimeArray %f32\n%b32 = OpTypeStruct %a32\n\
         %p32 = OpTypePointer StorageBuffer %b32\n%e32 = OpTypePointer StorageBuffer %f32\n\
         %to_in = OpTypePointer Input %u32\n%index = OpVariable %to_in Input\n\
         %in = OpVariable %p16 StorageBuffer\n%out = OpVariable %p32 StorageBuffer\n\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n%me = OpLoad %u32 %index\n\
         %from = OpAccessChain %e16 %in %n0 %me\n%x = OpLoad %bf16 %from\n%wide = OpFConvert %f32 %x\n\
         %product = OpFMul %f32 %wide %third\n%narrow = OpFConvert %bf16 %product\n%again = OpFConvert %f32 %narrow\n\
         %to = OpAccessChain %e32 %out %n0 %me\nOpStore %to %again\nOpStore %from %narrow\nOpReturn\nOpFunctionEnd\n";
    let module = coop_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let words = coop_ir::binary::write_words(&module);
    let prepared = Prepared::read(&words).expect("what was written reads");
    assert!(prepared.has_matrices());
    let options = PipelineOptions::default();
    let without = lowered(prepared.for_pipeline(&device("mesa-lavapipe-debian12"), &options));
    let again = coop_ir::binary::read_words(&without.words).expect("reads");
    assert!(again.capabilities().all(|c| c.to_string() != "BFloat16TypeKHR"), "{without:?}");
    assert_eq!((without.requirements.subgroup_size, without.target), (None, Target::Scalar));
    let case = "workgroups = [1, 1, 1]\n[[buffer]]\nname = 'I'\nbinding = 0\ntype = 'bf16'\ncount = 32\nfill = 'half-integers'\n\
                [[buffer]]\nname = 'O'\nbinding = 1\ntype = 'f32'\ncount = 32\nfill = { constant = 99 }\n";
    let case = coop_exec::Case::parse(case, std::path::Path::new("")).expect("a case");
    let differences = written(&without.words, &case).compare(&written(&words, &case), &case).expect("comparable");
    assert!(differences.is_empty(), "{}", differences[0]);
    // Who has the type has nothing to lower.
    let mut profile = Profile::builtin("nvidia-h100").expect("a device");
    profile.features.set(Feature::ShaderBFloat16Type, true);
    profile.extensions.push("VK_KHR_shader_bfloat16".to_owned());
    assert_eq!(prepared.for_pipeline(&Device::from_profile(profile), &options), Outcome::Native);
}

#[test]
fn small_floats_are_multiplied_in_f16_where_matrices_have_only_that() {
    let module = assembled("passes/wide-factors.spvasm");
    let options = PipelineOptions::default();
    for name in ["nvidia-h100", "mesa-lavapipe", "amd-rdna3", "intel-xe2"] {
        let device = device(name);
        let lowered = lowered(module.for_pipeline(&device, &options));
        assert_eq!(lowered.target, Target::Khr, "{name}");
        assert!(!lowered.requirements.features.has(Feature::ShaderFloat8), "{name}");
    }
    // What becomes of the type needs memory of bytes there, and no lowering of that leaves matrices.
    let device = without("mesa-lavapipe", &[Feature::StorageBuffer8BitAccess]);
    let lowered = lowered(module.for_pipeline(&device, &options));
    assert_eq!(lowered.target, Target::Scalar);
    assert!(lowered.not_taken.iter().any(|why| why.starts_with("khr: ")), "{:?}", lowered.not_taken);
}
