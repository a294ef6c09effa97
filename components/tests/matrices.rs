//! Matrices stay where the device lacks memory of narrow numbers alone, and they are loaded and stored by whole words.

mod common;

use common::{interpret, lacks, lowered, parse, run_on, same};
use coop_components::{Lacks, keeps_matrices, lower};
use coop_device::Feature;
use coop_exec::testing::{case, repository};
use coop_exec::vulkan_test;
use coop_ir::spv::Capability;
use coop_ir::{Module, Op};

fn source() -> String {
    let path = repository().join("testdata/components/matrices.spvasm");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn without_memory() -> Lacks {
    lacks(&Lacks::MEMORY)
}

/// The first line of the module in another form.
fn with(from: &str, to: &str) -> Module {
    let source = source();
    assert!(source.contains(from), "{from}");
    parse(&source.replacen(from, to, 1))
}

const INDEX: &str = "%first = OpShiftLeftLogical %uint %wg %uint_6";

/// Indices that are multiples of two elements, whatever the workgroup.
const EVEN: [&str; 6] = [
    INDEX,
    "%first = OpIMul %uint %wg %uint_64",
    "%other = OpIMul %uint %uint_64 %wg\n %first = OpIAdd %uint %other %uint_8",
    "%other = OpShiftLeftLogical %uint %wg %uint_6\n %first = OpISub %uint %uint_192 %other",
    "%other = OpIMul %uint %wg %uint_65\n %first = OpBitwiseAnd %uint %other %no_rest",
    "%other = OpIMul %uint %uint_64 %wg\n %first = OpCopyObject %uint %other",
];

#[test]
fn matrices_are_moved_by_whole_words_in_the_interpreter() {
    let case = case("testdata/components/matrices.toml");
    for index in EVEN {
        let module = with(INDEX, index);
        let wanted = interpret(index, &module, &case, 8);
        assert!(wanted.buffers.iter().any(|(name, bytes)| name == "out" && bytes.iter().any(|b| *b != 0)), "{index}");
        assert!(keeps_matrices(&module, without_memory()), "{index}");
        let lowered = lowered(index, &module, without_memory()).module;
        assert!(lowered.all().any(|r| lowered.inst(r).op == Op::CooperativeMatrixLoadKHR), "{index}");
        assert!(!lowered.has_capability(Capability::StorageBuffer16BitAccess), "{index}");
        // Nothing else takes the words: no atomic operation puts parts of them together.
        assert!(lowered.all().all(|r| !lowered.inst(r).op.is_atomic()), "{index}");
        same(index, &interpret(index, &lowered, &case, 8), &wanted);
    }
}

vulkan_test!(
    Lavapipe,
    fn matrices_are_moved_by_whole_words_on_lavapipe(device) {
        let case = case("testdata/components/matrices.toml");
        let module = parse(&source());
        let wanted = interpret("matrices", &module, &case, 8);
        let lowered = lowered("matrices", &module, without_memory()).module;
        same("matrices", &run_on(device, "matrices", &lowered, &case), &wanted);
    }
);

#[test]
fn matrices_that_are_not_made_of_whole_words_are_refused() {
    const LOAD: &str = "%a = OpCooperativeMatrixLoadKHR %mat %from %uint_0 %uint_8";
    const TYPE: &str = "%mat = OpTypeCooperativeMatrixKHR %half %subgroup %uint_8 %uint_8";
    let (first, stride) = ("its first element is not known", "its stride is not known");
    let parts = [
        (INDEX, "%first = OpCopyObject %uint %wg", first),
        (INDEX, "%first = OpIMul %uint %wg %uint_3", first),
        (INDEX, "%other = OpShiftLeftLogical %uint %wg %uint_6\n %first = OpIAdd %uint %other %uint_1", first),
        ("OpAccessChain %ptr_half %in %uint_0 %uint_8", "OpAccessChain %ptr_half %in %uint_0 %uint_3", first),
        (LOAD, "%a = OpCooperativeMatrixLoadKHR %mat %from %uint_0 %uint_3", stride),
        (LOAD, "%a = OpCooperativeMatrixLoadKHR %mat %from %uint_0 %wg", stride),
        (
            "OpCooperativeMatrixStoreKHR %to %sum %uint_1 %uint_8",
            "OpCooperativeMatrixStoreKHR %to %sum %uint_1 %uint_3",
            stride,
        ),
        (
            TYPE,
            "%mat = OpTypeCooperativeMatrixKHR %half %subgroup %uint_3 %uint_8",
            "its rows and columns are not known",
        ),
    ];
    for (from, to, why) in parts {
        let module = with(from, to);
        assert!(!keeps_matrices(&module, without_memory()), "{to}");
        let refusal = lower(&module, &coop_components::Options::new(without_memory())).expect_err(to).to_string();
        assert!(refusal.contains(why), "{to}: {refusal}");
        assert!(refusal.contains("cooplower --target scalar"), "{to}: {refusal}");
    }
}

#[test]
fn matrices_of_types_that_are_lacking_do_not_stay() {
    let all = [&[Feature::ShaderFloat16][..], &Lacks::MEMORY].concat();
    assert!(!keeps_matrices(&parse(&source()), lacks(&all)));
    assert!(!keeps_matrices(&parse(&source()), lacks(&[Feature::ShaderFloat16])));
}
