//! Multiplications over every mixture of component types, with odd shapes, wrapping and saturation, lowered to scalar
//! code and run: front ends emit a few of these, the extension allows all.

use coop_components::Lacks;
use coop_device::Profile;
use coop_exec::interp::Interpreted;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, vulkan_test};
use coop_ir::text::parse;
use coop_ir::{Module, Op, binary};
use coop_passes::{Lanes, Options, Target, lower};
use std::time::Duration;

/// A component type: its name in case files, its declaration, bytes.
#[derive(Clone, Copy)]
struct Ty {
    name: &'static str,
    width: u32,
    /// For integers, whether they are signed.
    int: Option<bool>,
}

const fn int(name: &'static str, width: u32, signed: bool) -> Ty {
    Ty { name, width, int: Some(signed) }
}

const fn float(name: &'static str, width: u32) -> Ty {
    Ty { name, width, int: None }
}

const S8: Ty = int("s8", 8, true);
const U8: Ty = int("u8", 8, false);
const S16: Ty = int("s16", 16, true);
const U16: Ty = int("u16", 16, false);
const S32: Ty = int("s32", 32, true);
const U32: Ty = int("u32", 32, false);
const S64: Ty = int("s64", 64, true);
const U64: Ty = int("u64", 64, false);
const F16: Ty = float("f16", 16);
const BF16: Ty = float("bf16", 16);
const E4M3: Ty = float("e4m3", 8);
const E5M2: Ty = float("e5m2", 8);
const F32: Ty = float("f32", 32);
const F64: Ty = float("f64", 64);

/// One multiplication: D = A * B + C, with A m x k and B k x n.
struct Product {
    a: Ty,
    b: Ty,
    c: Ty,
    d: Ty,
    shape: [u32; 3],
    saturate: bool,
    /// 3 subgroup, 2 workgroup.
    scope: u32,
    /// True for each of A, B, and D that is column major.
    columns: [bool; 3],
}

impl Product {
    fn label(&self) -> String {
        let [m, n, k] = self.shape;
        let (a, b, c, d) = (self.a.name, self.b.name, self.c.name, self.d.name);
        format!("{a} x {b} + {c} -> {d}, {m}x{n}x{k}, scope {}, saturate {}", self.scope, self.saturate)
    }

    fn types(&self) -> [Ty; 4] {
        [self.a, self.b, self.c, self.d]
    }

    fn text(&self) -> String {
        let [m, n, k] = self.shape;
        let all = self.types();
        let mut declared: Vec<&str> = Vec::new();
        let mut types = String::new();
        for ty in all {
            if declared.contains(&ty.name) {
                continue;
            }
            declared.push(ty.name);
            let name = ty.name;
            // 32-bit unsigned is declared anyway.
            types += &match (ty.int, name) {
                (_, "u32") => String::new(),
                (Some(signed), _) => format!("%{name} = OpTypeInt {} {}\n", ty.width, u32::from(signed)),
                (None, "bf16") => "%bf16 = OpTypeFloat 16 BFloat16KHR\n".to_owned(),
                (None, "e4m3") => "%e4m3 = OpTypeFloat 8 Float8E4M3EXT\n".to_owned(),
                (None, "e5m2") => "%e5m2 = OpTypeFloat 8 Float8E5M2EXT\n".to_owned(),
                (None, _) => format!("%{name} = OpTypeFloat {}\n", ty.width),
            };
            types += &format!(
                "%array_{name} = OpTypeRuntimeArray %{name}\n%block_{name} = OpTypeStruct %array_{name}\n\
                 %pblock_{name} = OpTypePointer StorageBuffer %block_{name}\n%p_{name} = OpTypePointer StorageBuffer %{name}\n"
            );
        }
        let mut decorations = String::new();
        for name in &declared {
            let bytes = all.iter().find(|t| t.name == *name).map_or(0, |t| t.width / 8);
            decorations += &format!(
                "OpDecorate %array_{name} ArrayStride {bytes}\nOpDecorate %block_{name} Block\n\
                 OpMemberDecorate %block_{name} 0 Offset 0\n"
            );
        }
        let mut variables = String::new();
        let mut chains = String::new();
        for (i, (name, ty)) in ["a", "b", "c", "d"].iter().zip(all).enumerate() {
            decorations += &format!("OpDecorate %{name} DescriptorSet 0\nOpDecorate %{name} Binding {i}\n");
            variables += &format!("%{name} = OpVariable %pblock_{} StorageBuffer\n", ty.name);
            chains += &format!("%at_{name} = OpAccessChain %p_{} %{name} %u0 %u0\n", ty.name);
        }
        let mut capabilities =
            "OpCapability Shader\nOpCapability CooperativeMatrixKHR\nOpCapability VulkanMemoryModel\n\
             OpCapability StorageBuffer8BitAccess\nOpCapability StorageBuffer16BitAccess\n"
                .to_owned();
        let bf16 = all.iter().any(|t| t.name == "bf16");
        let fp8 = all.iter().any(|t| t.int.is_none() && t.width == 8);
        for (capability, uses) in [
            ("Int8", all.iter().any(|t| t.int.is_some() && t.width == 8)),
            ("Int16", all.iter().any(|t| t.int.is_some() && t.width == 16)),
            ("Int64", all.iter().any(|t| t.int.is_some() && t.width == 64)),
            ("Float16", all.iter().any(|t| t.name == "f16")),
            ("Float64", all.iter().any(|t| t.name == "f64")),
            ("BFloat16TypeKHR", bf16),
            ("BFloat16CooperativeMatrixKHR", bf16),
            ("Float8EXT", fp8),
            ("Float8CooperativeMatrixEXT", fp8),
        ] {
            if uses {
                capabilities += &format!("OpCapability {capability}\n");
            }
        }
        let mut operands = Vec::new();
        for (ty, bit) in all.iter().zip(["A", "B", "C", "Result"]) {
            if ty.int == Some(true) {
                operands.push(format!("Matrix{bit}SignedComponentsKHR"));
            }
        }
        if self.saturate {
            operands.push("SaturatingAccumulationKHR".to_owned());
        }
        let operands = operands.join("|");
        let (sa, sb, sd) = (self.stride(0), self.stride(1), self.stride(2));
        let order = |i: usize| if self.columns[i] { "%u1" } else { "%u0" };
        let (oa, ob, od) = (order(0), order(1), order(2));
        let [ta, tb, tc, td] = all.map(|t| t.name);
        format!(
            "; SPIR-V\n; Version: 1.6\n{capabilities}\
             OpExtension \"SPV_KHR_cooperative_matrix\"\n{extension}\
             OpMemoryModel Logical Vulkan\n\
             OpEntryPoint GLCompute %main \"main\" %a %b %c %d\nOpExecutionMode %main LocalSize 16 1 1\n\
             {decorations}\
             %void = OpTypeVoid\n%fn = OpTypeFunction %void\n%u32 = OpTypeInt 32 0\n\
             %u0 = OpConstant %u32 0\n%u1 = OpConstant %u32 1\n%u2 = OpConstant %u32 2\n\
             %scope = OpConstant %u32 {scope}\n%m = OpConstant %u32 {m}\n%n = OpConstant %u32 {n}\n%k = OpConstant %u32 {k}\n\
             %sa = OpConstant %u32 {sa}\n%sb = OpConstant %u32 {sb}\n%sd = OpConstant %u32 {sd}\n\
             {types}{variables}\
             %mat_a = OpTypeCooperativeMatrixKHR %{ta} %scope %m %k %u0\n\
             %mat_b = OpTypeCooperativeMatrixKHR %{tb} %scope %k %n %u1\n\
             %mat_c = OpTypeCooperativeMatrixKHR %{tc} %scope %m %n %u2\n\
             %mat_d = OpTypeCooperativeMatrixKHR %{td} %scope %m %n %u2\n\
             %main = OpFunction %void None %fn\n%entry = OpLabel\n{chains}\
             %va = OpCooperativeMatrixLoadKHR %mat_a %at_a {oa} %sa\n\
             %vb = OpCooperativeMatrixLoadKHR %mat_b %at_b {ob} %sb\n\
             %vc = OpCooperativeMatrixLoadKHR %mat_c %at_c {od} %sd\n\
             %vd = OpCooperativeMatrixMulAddKHR %mat_d %va %vb %vc {operands}\n\
             OpCooperativeMatrixStoreKHR %at_d %vd {od} %sd\nOpReturn\nOpFunctionEnd\n",
            scope = self.scope,
            extension = match (bf16, fp8) {
                (true, _) => "OpExtension \"SPV_KHR_bfloat16\"\n",
                (_, true) => "OpExtension \"SPV_EXT_float8\"\n",
                _ => "",
            },
        )
    }

    /// The stride of A, B, or of C and D: a few elements more than a line.
    fn stride(&self, which: usize) -> u32 {
        let [m, n, k] = self.shape;
        let (rows, cols) = [(m, k), (k, n), (m, n)][which];
        3 + if self.columns[which] { rows } else { cols }
    }

    fn case(&self) -> String {
        let [m, n, k] = self.shape;
        let (sa, sb, sd) = (self.stride(0), self.stride(1), self.stride(2));
        let layout = |i: usize| if self.columns[i] { "column" } else { "row" };
        // Integers take any value, so that they wrap; floats stay exact in every order. Saturation needs a dot product
        // that fits, and a C near the end of the range.
        let factor = |t: Ty| match (t.int, self.saturate) {
            (None, _) => "\"half-integers\"".to_owned(),
            (Some(_), false) => "\"bits\"".to_owned(),
            (Some(true), true) => "{ small-ints = [-3, 3] }".to_owned(),
            (Some(false), true) => "{ small-ints = [0, 3] }".to_owned(),
        };
        let sum = |t: Ty| if t.int.is_some() { "\"nan-inf\"" } else { "\"half-integers\"" };
        let mut out = format!("workgroups = [1, 1, 1]\nseed = {}\n", m * 31 + n * 7 + k);
        for (i, (name, ty, fill)) in [
            ("A", self.a, factor(self.a)),
            ("B", self.b, factor(self.b)),
            ("C", self.c, sum(self.c).to_owned()),
            ("D", self.d, "\"bits\"".to_owned()),
        ]
        .into_iter()
        .enumerate()
        {
            let (rows, cols) = [(m, k), (k, n), (m, n), (m, n)][i];
            let lines = if self.columns[i.min(2)] { cols } else { rows };
            let count = lines * [sa, sb, sd, sd][i];
            out += &format!(
                "[[buffer]]\nname = \"{name}\"\nbinding = {i}\ntype = \"{}\"\ncount = {count}\nfill = {fill}\n",
                ty.name
            );
        }
        out += &format!(
            "[[expect]]\n[expect.gemm]\nm = {m}\nn = {n}\nk = {k}\n\
             a = {{ buffer = \"A\", stride = {sa}, layout = \"{}\" }}\nb = {{ buffer = \"B\", stride = {sb}, layout = \"{}\" }}\n\
             c = [{{ buffer = \"C\", stride = {sd}, layout = \"{}\" }}]\nd = {{ buffer = \"D\", stride = {sd}, layout = \"{}\" }}\n",
            layout(0),
            layout(1),
            layout(2),
            layout(2)
        );
        if self.saturate {
            out += &format!("saturate = {k}\n");
        }
        out
    }
}

/// Every mixture that is tried.
fn products() -> Vec<Product> {
    let mut out = Vec::new();
    let mut add = |a, b, c, d, shape, saturate, scope, columns| {
        out.push(Product { a, b, c, d, shape, saturate, scope, columns });
    };
    let shapes = [[8, 8, 8], [16, 16, 16], [5, 7, 3], [12, 20, 6], [1, 1, 9]];
    for (i, (a, b, c, d)) in [
        (S8, S8, S32, S32),
        (U8, U8, U32, U32),
        (S8, U8, S32, S32),
        (U8, S8, U32, S32),
        (S8, S8, S8, S8),
        (U8, U8, U8, U8),
        (S8, U8, S16, S16),
        (S16, S16, S32, S32),
        (U16, S16, S64, S64),
        (U8, U16, U16, U16),
        (S32, S32, S32, S32),
        (U32, U32, U64, U64),
        (S8, S16, S8, S32),
        (S64, S64, S64, S64),
    ]
    .into_iter()
    .enumerate()
    {
        for saturate in [false, true] {
            // What saturating in the sign of D means for a C of the other sign and the same width, the text leaves open.
            if saturate && c.width == d.width && c.int != d.int {
                continue;
            }
            add(a, b, c, d, shapes[i % 5], saturate, 3, [i % 2 == 0, i % 3 == 0, i % 4 == 0]);
            add(a, b, c, d, shapes[(i + 3) % 5], saturate, 2, [i % 3 == 0, i % 2 == 0, i % 4 == 1]);
        }
    }
    for (i, (a, b, c, d)) in [
        (F16, F16, F32, F32),
        (F16, F16, F16, F16),
        (F16, F16, F32, F16),
        (F16, F32, F32, F32),
        (BF16, BF16, F32, F32),
        (BF16, BF16, BF16, F32),
        (F32, F32, F32, F32),
        (F64, F64, F64, F64),
        (F32, F32, F64, F64),
    ]
    .into_iter()
    .enumerate()
    {
        add(a, b, c, d, shapes[i % 5], false, 3, [i % 2 == 1, i % 3 == 1, i % 4 == 1]);
        add(a, b, c, d, shapes[(i + 1) % 5], false, 2, [i % 3 == 1, i % 2 == 1, i % 4 == 2]);
    }
    // Large enough that nothing is written out. (Drivers take long over arrays of hundreds of f16.)
    for (a, c) in [(F32, F32), (U8, U32)] {
        add(a, a, c, c, [32, 24, 40], false, 3, [false; 3]);
    }
    out
}

/// Products of 8-bit floats.
fn products_of_small_floats() -> Vec<Product> {
    let shapes = [[16, 8, 32], [8, 8, 8], [5, 7, 3], [12, 20, 6], [32, 16, 16]];
    let types = [(E4M3, E4M3, F32), (E5M2, E4M3, F32), (E5M2, E5M2, F16), (E4M3, E5M2, F16)];
    let mut out = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        for (j, (a, b, c)) in types.into_iter().enumerate() {
            let columns = [(i + j) % 2 == 0, (i + j) % 3 == 1, j % 3 == 2];
            let scope = 2 + (i + j) as u32 % 2;
            out.push(Product { a, b, c, d: c, shape, saturate: false, scope, columns });
        }
    }
    out
}

/// Lowers a product for a device that has no matrices of its factors, and not the type either: products of f16 are left.
fn in_f16(product: &Product, profile: &Profile) -> Module {
    let label = product.label();
    let module = parse(&product.text()).unwrap_or_else(|e| panic!("{label}: {e}\n{}", product.text()));
    let mut options = Options::new(Target::Khr);
    options.profile = Some(profile);
    options.subgroup_size = Some(8);
    let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{label}: {e}")).module;
    let lacks = Lacks::of(profile);
    let lowered = coop_components::lower(&lowered, &coop_components::Options::new(lacks));
    let lowered = lowered.unwrap_or_else(|e| panic!("{label}: {e}")).module;
    let has = |op| lowered.all().any(|r| lowered.inst(r).op == op);
    assert!(has(Op::CooperativeMatrixMulAddKHR), "{label}");
    assert!(!lowered.capabilities().any(|c| c.to_string().contains("Float8")), "{label}");
    lowered
}

/// Runs the products of 8-bit floats in f16 on an executor.
fn run_in_f16(profile: &Profile, device: &dyn Executor) {
    let mut failures = Vec::new();
    for product in products_of_small_floats() {
        let label = product.label();
        let mut case =
            Case::parse(&product.case(), std::path::Path::new(".")).unwrap_or_else(|e| panic!("{label}: {e}"));
        (case.subgroup_size, case.full_subgroups) = (Some(8), true);
        // Buffers are accessed by words.
        case.buffer.iter_mut().for_each(|b| b.count = b.count.next_multiple_of(4));
        let words = binary::write_words(&in_f16(&product, profile));
        match device.run(&words, &case, &RunOptions::default()) {
            Err(e) => failures.push(format!("{label}: {e}")),
            Ok(outcome) => {
                failures.extend(outcome.messages.iter().chain(&outcome.faults).map(|w| format!("{label}: {w}")));
                let differences = outcome.check(&case).unwrap_or_else(|e| panic!("{label}: {e}"));
                failures.extend(differences.iter().map(|d| format!("{label}: {d}")));
            }
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn products_of_small_floats_are_done_in_f16_in_the_interpreter() {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = 8;
    run_in_f16(&Profile::builtin("mesa-lavapipe").expect("built in"), &interpreter);
}

vulkan_test!(
    Lavapipe,
    fn products_of_small_floats_are_done_in_f16(device) {
        run_in_f16(device.profile(), device);
    }
);

/// Runs every `step`th mixture.
fn run_all(device: &VulkanExecutor<'_>, step: usize) {
    let mut failures = Vec::new();
    let mut runs = 0;
    for product in products().into_iter().step_by(step) {
        let label = product.label();
        let module = parse(&product.text()).unwrap_or_else(|e| panic!("{label}: {e}\n{}", product.text()));
        let case = Case::parse(&product.case(), std::path::Path::new("."))
            .unwrap_or_else(|e| panic!("{label}: {e}\n{}", product.case()));
        for (lanes, size) in [(Lanes::LocalIndex, 16), (Lanes::LocalIndex, 4), (Lanes::Subgroup, 8)] {
            let mut options = Options::new(Target::Scalar);
            options.subgroup_size = Some(size);
            options.lanes = lanes;
            let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{label}: {e}")).module;
            let mut case = case.clone();
            if lanes == Lanes::Subgroup {
                (case.subgroup_size, case.full_subgroups) = (Some(size), true);
            }
            let what = format!("{label}, {lanes:?} of {size}");
            // LLVM 15 compiles some of them for more than a minute.
            let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
            match device.run(&binary::write_words(&lowered), &case, &options) {
                Err(e) => failures.push(format!("{what}: {e}")),
                Ok(outcome) => {
                    runs += 1;
                    failures.extend(outcome.messages.iter().chain(&outcome.faults).map(|w| format!("{what}: {w}")));
                    let differences = outcome.check(&case).unwrap_or_else(|e| panic!("{what}: {e}"));
                    failures.extend(differences.iter().map(|d| format!("{what}: {d}")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {runs} runs fail:\n{}", failures.len(), failures.join("\n"));
}

/// In the interpreter, which has every type: originals and lowerings, small floats among them.
#[test]
fn products_of_all_types_in_the_interpreter() {
    let mut all = products();
    all.extend(products_of_small_floats());
    let mut failures = Vec::new();
    for product in all {
        let label = product.label();
        let module = parse(&product.text()).unwrap_or_else(|e| panic!("{label}: {e}\n{}", product.text()));
        let case = Case::parse(&product.case(), std::path::Path::new("."))
            .unwrap_or_else(|e| panic!("{label}: {e}\n{}", product.case()));
        let mut options = Options::new(Target::Scalar);
        options.subgroup_size = Some(8);
        let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{label}: {e}")).module;
        let mut interpreter = Interpreted::default();
        interpreter.config.subgroup_size = 8;
        for (what, module) in [("original", &module), ("lowered", &lowered)] {
            match interpreter.run(&binary::write_words(module), &case, &RunOptions::default()) {
                Err(e) => failures.push(format!("{label}, {what}: {e}")),
                Ok(outcome) => {
                    failures.extend(outcome.faults.iter().map(|w| format!("{label}, {what}: {w}")));
                    let differences = outcome.check(&case).unwrap_or_else(|e| panic!("{label}: {e}"));
                    failures.extend(differences.iter().map(|d| format!("{label}, {what}: {d}")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn products_of_some_types_are_exact(device) {
        run_all(device, 2);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: the driver compiles products of all types for minutes"]
    Lavapipe,
    fn products_of_all_types_are_exact(device) {
        run_all(device, 1);
    }
);

vulkan_test!(
    Debian12,
    fn products_of_some_types_are_exact_on_debian_12(device) {
        run_all(device, 3);
    }
);
