//! Programs that look at single elements of matrices: each is held once, whatever the matrix is used for.

use coop_exec::interp::{Config, Interpreted};
use coop_exec::testing::words;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, vulkan_test};
use coop_ir::Module;
use coop_passes::{Error, Lanes, Options, Target, lower};
use std::path::Path;

/// The integers that the case fills the factors with.
fn number(at: u32) -> i64 {
    i64::from(at * 7 % 9) - 4
}

/// `testdata/elements/sums.spv` with matrices of `size` x `size` and subgroups of `lanes`, and what it must find: the sums of the elements of A, of
/// B, and of their product.
fn case(size: u32, lanes: u32) -> Case {
    let value = |n: u32| format!("{}.0", number(n));
    let all: Vec<String> = (0..2 * size * size).map(value).collect();
    let sum = |from: u32| (from..from + size * size).map(number).sum::<i64>();
    // The sum of a product is that of columns of A times rows of B.
    let column = |k: u32| (0..size).map(|r| number(r * size + k)).sum::<i64>();
    let row = |k: u32| (0..size).map(|c| number(size * size + k * size + c)).sum::<i64>();
    let product: i64 = (0..size).map(|k| column(k) * row(k)).sum();
    let (a, b) = (sum(0), sum(size * size));
    let text = format!(
        "workgroups = [1, 1, 1]\nspec = {{ 0 = {size}, 1 = {lanes} }}\nsubgroup-size = {lanes}\nfull-subgroups = true
         [[buffer]]\nname = \"F\"\nbinding = 0\ntype = \"f16\"\ncount = {}\nfill = {{ values = [{}] }}
         [[buffer]]\nname = \"S\"\nbinding = 1\ntype = \"f32\"\ncount = 3
         [[expect]]\n[expect.values]\nbuffer = \"S\"\nvalues = [{a}.0, {b}.0, {product}.0]\n",
        all.len(),
        all.join(", ")
    );
    Case::parse(&text, Path::new("")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn module() -> Module {
    coop_ir::binary::read_words(&words("testdata/elements/sums.spv")).expect("a module")
}

fn options(case: &Case, lanes: u32, target: Target) -> Options<'static> {
    let mut options = Options::new(target);
    options.spec = case.specialization().expect("fine");
    options.subgroup_size = Some(lanes);
    options
}

/// The words of the module lowered to scalar code, and its case.
fn scalar(size: u32, lanes: u32, by: Lanes) -> (Vec<u32>, Case) {
    let case = case(size, lanes);
    let mut options = options(&case, lanes, Target::Scalar);
    options.lanes = by;
    let lowered = lower(&module(), &options).unwrap_or_else(|e| panic!("{size} on {lanes}: {e}"));
    (coop_ir::binary::write_words(&lowered.module), case)
}

fn right(on: &dyn Executor, words: &[u32], case: &Case, what: &str) {
    let outcome = on.run(words, case, &RunOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let said: Vec<String> = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
    assert!(said.is_empty(), "{what}: {said:?}");
    let differences = outcome.check(case).expect("a case");
    assert!(differences.is_empty(), "{what}: {}", differences[0]);
}

#[test]
fn sums_of_the_elements_of_factors_count_each_once() {
    for (size, lanes) in [(8, 8), (16, 8), (16, 16), (16, 32), (8, 32), (32, 64)] {
        let (words, case) = scalar(size, lanes, Lanes::Subgroup);
        let here = Interpreted { config: Config { subgroup_size: lanes, ..Config::default() } };
        right(&here, &words, &case, &format!("{size} on {lanes}"));
    }
}

vulkan_test!(Lavapipe, fn sums_of_the_elements_of_factors_are_right_on_lavapipe(device) {
    let device: &VulkanExecutor<'_> = device;
    for size in [8, 16, 32] {
        let (words, case) = scalar(size, 8, Lanes::Subgroup);
        right(device, &words, &case, &format!("{size}"));
    }
});

/// Fewer elements than lanes: some lanes would hold copies.
#[test]
fn what_lanes_cannot_hold_once_is_refused() {
    let case = case(4, 32);
    match lower(&module(), &options(&case, 32, Target::Scalar)) {
        Err(Error::Refused(refusal)) => {
            assert_eq!(refusal.rule, "refused-element");
            assert!(refusal.reason.contains("4x4") && refusal.reason.contains("32 lanes"), "{refusal}");
        }
        other => panic!("not refused: {:?}", other.map(|l| l.report)),
    }
}

/// Elements that are changed in place, each by itself, may be held many times: nothing is handed round.
#[test]
fn elements_that_are_changed_in_place_cost_nothing() {
    let module = coop_ir::binary::read_words(&words("testdata/opencl/gemm_tf32.spv")).expect("a module");
    let lowered = lower(&module, &Options::new(Target::Scalar)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lowered.report.added_shared_memory, 0);
    assert!(lowered.report.matrices.iter().any(|m| m.replicated), "{:?}", lowered.report.matrices);
}

/// A kernel that becomes a shader has no promise of where the device's own matrices have their elements.
#[test]
fn kernels_that_look_at_factors_keep_no_matrices_as_shaders() {
    let profile = coop_device::Profile::builtin("mesa-lavapipe").expect("a profile");
    for name in ["sums", "chain"] {
        let module = coop_ir::binary::read_words(&words(format!("testdata/opencl/{name}.spv"))).expect("a module");
        let mut options = Options::new(Target::Khr);
        options.vulkan = Some(coop_passes::Vulkan { local_arguments: [(4, 256)].into_iter().collect() });
        options.local_size = Some([16, 1, 1]);
        options.profile = Some(&profile);
        match lower(&module, &options) {
            Err(Error::Refused(refusal)) => assert_eq!(refusal.rule, "refused-element", "{name}: {refusal}"),
            other => panic!("{name}: not refused: {:?}", other.map(|l| l.report)),
        }
    }
}
