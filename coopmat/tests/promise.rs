//! Every listed size, type, scope and workgroup is lowered, or native.

use coopmat::{
    ComponentType as T, Device, Feature, Lanes, MatrixProperties, Outcome, PipelineOptions, Prepared, Scope,
};
use std::fmt::Write;

const FLOAT8: &[&str] = &["Float8EXT", "Float8CooperativeMatrixEXT", "StorageBuffer8BitAccess"];

/// A component type: its name in the text, its declaration, its capabilities, and its bits.
fn component(ty: T) -> (&'static str, &'static str, &'static [&'static str], u32) {
    match ty {
        T::F16 => ("f16", "OpTypeFloat 16", &["Float16", "StorageBuffer16BitAccess"], 16),
        T::F32 => ("f32", "OpTypeFloat 32", &[], 32),
        T::F64 => ("f64", "OpTypeFloat 64", &["Float64"], 64),
        T::Bf16 => (
            "bf16",
            "OpTypeFloat 16 BFloat16KHR",
            &["BFloat16TypeKHR", "BFloat16CooperativeMatrixKHR", "StorageBuffer16BitAccess"],
            16,
        ),
        T::U8 => ("u8", "OpTypeInt 8 0", &["Int8", "StorageBuffer8BitAccess"], 8),
        T::S8 => ("s8", "OpTypeInt 8 1", &["Int8", "StorageBuffer8BitAccess"], 8),
        T::E4m3 => ("e4m3", "OpTypeFloat 8 Float8E4M3EXT", FLOAT8, 8),
        T::E5m2 => ("e5m2", "OpTypeFloat 8 Float8E5M2EXT", FLOAT8, 8),
        T::U32 => ("u32", "OpTypeInt 32 0", &[], 32),
        T::S32 => ("s32", "OpTypeInt 32 1", &[], 32),
        other => panic!("no text for {other}"),
    }
}

/// A product of one matrix by another, in a workgroup that has shared memory of its own.
fn product(row: &MatrixProperties, [m, n, k]: [u32; 3], invocations: u32, shared: u32) -> String {
    let types = [row.a, row.b, row.c, row.result];
    let mut names: Vec<T> = types.to_vec();
    names.sort();
    names.dedup();
    let mut capabilities = vec!["Shader", "VulkanMemoryModel", "CooperativeMatrixKHR"];
    names.iter().for_each(|ty| capabilities.extend(component(*ty).2));
    capabilities.sort_unstable();
    capabilities.dedup();
    let mut text = String::from("; Version: 1.6\n");
    capabilities.iter().for_each(|c| writeln!(text, "OpCapability {c}").expect("room"));
    writeln!(text, "OpExtension \"SPV_KHR_cooperative_matrix\"").expect("room");
    if names.contains(&T::Bf16) {
        writeln!(text, "OpExtension \"SPV_KHR_bfloat16\"").expect("room");
    }
    if names.iter().any(|ty| matches!(ty, T::E4m3 | T::E5m2)) {
        writeln!(text, "OpExtension \"SPV_EXT_float8\"").expect("room");
    }
    let scope = row.scope.number();
    let words = shared / 4;
    text += &format!(
        "OpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %va %vb %vc %own\n\
         OpExecutionMode %main LocalSize {invocations} 1 1\n"
    );
    for (n, ty) in [("a", row.a), ("b", row.b), ("c", row.c)] {
        let bytes = component(ty).3 / 8;
        let binding = n.as_bytes()[0] - b'a';
        text += &format!(
            "OpDecorate %array_{n} ArrayStride {bytes}\nOpDecorate %block_{n} Block\n\
             OpMemberDecorate %block_{n} 0 Offset 0\nOpDecorate %v{n} DescriptorSet 0\nOpDecorate %v{n} Binding {binding}\n"
        );
    }
    text += "%void = OpTypeVoid\n%fn = OpTypeFunction %void\n";
    for ty in &names {
        let (name, declaration, ..) = component(*ty);
        text += &format!("%{name} = {declaration}\n");
    }
    if !names.contains(&T::U32) {
        text += "%u32 = OpTypeInt 32 0\n";
    }
    let mut numbers = vec![0, 1, 2, scope, m, n, k, words];
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().for_each(|n| writeln!(text, "%n{n} = OpConstant %u32 {n}").expect("room"));
    for (name, ty, rows, cols, use_) in [("a", row.a, m, k, 0), ("b", row.b, k, n, 1), ("c", row.c, m, n, 2)] {
        let ty = component(ty).0;
        text += &format!(
            "%mat_{name} = OpTypeCooperativeMatrixKHR %{ty} %n{scope} %n{rows} %n{cols} %n{use_}\n\
             %array_{name} = OpTypeRuntimeArray %{ty}\n%block_{name} = OpTypeStruct %array_{name}\n\
             %to_block_{name} = OpTypePointer StorageBuffer %block_{name}\n\
             %to_{name} = OpTypePointer StorageBuffer %{ty}\n\
             %v{name} = OpVariable %to_block_{name} StorageBuffer\n"
        );
    }
    let signed: u32 = [row.a, row.b, row.c, row.result]
        .iter()
        .enumerate()
        .map(|(n, ty)| u32::from(ty.is_signed_integer()) << n)
        .sum();
    let operands: Vec<&str> = [
        "MatrixASignedComponentsKHR",
        "MatrixBSignedComponentsKHR",
        "MatrixCSignedComponentsKHR",
        "MatrixResultSignedComponentsKHR",
    ]
    .into_iter()
    .enumerate()
    .filter_map(|(n, name)| (signed >> n & 1 == 1).then_some(name))
    .collect();
    let operands = operands.join("|");
    text += &format!(
        "%words = OpTypeArray %u32 %n{words}\n%to_words = OpTypePointer Workgroup %words\n\
         %to_word = OpTypePointer Workgroup %u32\n%own = OpVariable %to_words Workgroup\n\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n\
         %word = OpAccessChain %to_word %own %n0\nOpStore %word %n1\n\
         %pa = OpAccessChain %to_a %va %n0 %n0\n%pb = OpAccessChain %to_b %vb %n0 %n0\n\
         %pc = OpAccessChain %to_c %vc %n0 %n0\n\
         %xa = OpCooperativeMatrixLoadKHR %mat_a %pa %n0 %n{k}\n\
         %xb = OpCooperativeMatrixLoadKHR %mat_b %pb %n0 %n{n}\n\
         %xc = OpCooperativeMatrixLoadKHR %mat_c %pc %n0 %n{n}\n\
         %y = OpCooperativeMatrixMulAddKHR %mat_c %xa %xb %xc {operands}\n\
         OpCooperativeMatrixStoreKHR %pc %y %n0 %n{n}\nOpReturn\nOpFunctionEnd\n"
    );
    text
}

/// The pipeline that an engine makes: with a required subgroup size and lanes of subgroups, or with no word of either.
fn pipeline(required: Option<u32>) -> PipelineOptions {
    let mut options = PipelineOptions::default();
    options.lanes = if required.is_some() { Lanes::Subgroup } else { Lanes::Auto };
    options.required_subgroup_size = required;
    options
}

/// Asks for one product; what comes out that is not wanted.
fn ask(device: &Device, row: &MatrixProperties, sizes: [u32; 3], invocations: u32, shared: u32) -> Option<String> {
    let size = device.profile().limits.subgroup_size;
    ask_as(device, row, sizes, [invocations, shared], &pipeline(Some(size)))
}

/// Asks for one product of a pipeline.
fn ask_as(
    device: &Device,
    row: &MatrixProperties,
    sizes: [u32; 3],
    [invocations, shared]: [u32; 2],
    options: &PipelineOptions,
) -> Option<String> {
    let text = product(row, sizes, invocations, shared);
    let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let module = Prepared::read(&coop_ir::binary::write_words(&module)).expect("what was written reads");
    match module.for_pipeline(device, options) {
        Outcome::Native | Outcome::Lowered(_) => None,
        Outcome::Refused(why) => {
            let MatrixProperties { a, b, c, scope, .. } = row;
            let size = options.required_subgroup_size;
            Some(format!("{a} {b} {c} {sizes:?} {scope} {invocations} invocations of {size:?}, {shared} bytes: {why}"))
        }
    }
}

/// Every promise of a device that has Vulkan.
#[test]
fn promises_are_kept() {
    let mut wrong = Vec::new();
    let mut asked = 0;
    for name in Device::builtin_names().filter(|name| !name.contains("opencl")) {
        let device = Device::builtin(name).expect("built in");
        let promise = device.promised();
        // A device that computes with no narrow type has no use for matrices of them, and one without the memory model that they need
        // runs none.
        let narrow = [Feature::ShaderFloat16, Feature::ShaderInt8, Feature::ShaderInt16];
        let some = narrow.into_iter().any(|feature| device.profile().has(feature))
            && device.profile().has(Feature::VulkanMemoryModel);
        assert_eq!((promise.khr.is_empty(), promise.flexible.is_empty()), (!some, !some), "{name}");
        let limits = &device.profile().limits;
        let own = limits.max_compute_shared_memory_size - promise.reserved_shared_memory;
        for row in &promise.khr {
            asked += 1;
            let invocations = limits.subgroup_size.max(32);
            wrong.extend(ask(&device, row, [row.m, row.n, row.k], invocations, own).map(|w| format!("{name}: {w}")));
        }
        for row in &promise.flexible {
            let g = &row.granularity;
            let invocations = match g.scope {
                Scope::Workgroup => row.workgroup_invocations,
                _ => limits.subgroup_size.max(32),
            };
            let up = |g: u32, most: u32| most.min(promise.max_dimension) / g * g;
            let mut all =
                vec![[g.m, g.n, g.k], [up(g.m, 128), up(g.n, 128), up(g.k, 32)], [up(g.m, 64), g.n, up(g.k, 64)]];
            if g.scope == Scope::Workgroup && [(T::F16, T::F32), (T::U8, T::U32)].contains(&(g.a, g.c)) {
                // As large as any may be, in one direction.
                all.extend([[up(g.m, 512), g.n, g.k], [g.m, up(g.n, 512), g.k], [g.m, g.n, up(g.k, 512)]]);
            }
            if row.workgroup_invocations >= 256 && g.a == T::F16 {
                // ggml's largest tile.
                all.push([up(g.m, 128), up(g.n, 256), up(g.k, 64)]);
            }
            for sizes in all {
                asked += 1;
                wrong.extend(ask(&device, g, sizes, invocations, own).map(|w| format!("{name}: {w}")));
            }
        }
    }
    eprintln!("{asked} asked, {} wrong", wrong.len());
    wrong.truncate(20);
    assert!(wrong.is_empty() && asked > 300, "{asked} asked\n{}", wrong.join("\n"));
}

/// The smallest of each, of pipelines that require each other size that the device has, or none.
#[test]
fn promises_are_kept_for_each_subgroup_size() {
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for name in Device::builtin_names().filter(|name| !name.contains("opencl")) {
        let device = Device::builtin(name).expect("built in");
        let (promise, limits) = (device.promised(), &device.profile().limits);
        let shared = limits.max_compute_shared_memory_size - promise.reserved_shared_memory;
        let others = device.profile().required_subgroup_sizes().into_iter().filter(|n| *n != limits.subgroup_size);
        for required in others.map(Some).chain([None]) {
            let options = pipeline(required);
            let mut check = |row: &MatrixProperties, invocations: u32| {
                asked += 1;
                let found = ask_as(&device, row, [row.m, row.n, row.k], [invocations, shared], &options);
                wrong.extend(found.map(|w| format!("{name}: {w}")));
            };
            let subgroup = required.unwrap_or(limits.subgroup_size).max(32);
            promise.khr.iter().for_each(|row| check(row, subgroup));
            for row in &promise.flexible {
                match row.granularity.scope {
                    Scope::Workgroup if row.workgroup_invocations < promise.max_workgroup_size => {}
                    Scope::Workgroup => check(&row.granularity, row.workgroup_invocations),
                    _ => check(&row.granularity, subgroup),
                }
            }
        }
    }
    eprintln!("{asked} asked, {} wrong", wrong.len());
    wrong.truncate(20);
    assert!(wrong.is_empty() && asked > 300, "{asked} asked\n{}", wrong.join("\n"));
}
