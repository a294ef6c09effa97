//! Null arrays into which numbers are put, at which spirv-opt ends, and SwiftShader with it.

mod common;

use common::{everything, run_on};
use coop_components::{Options, PASSES, run};
use coop_exec::testing::{case, repository};
use coop_exec::vulkan_test;
use coop_ir::{Module, text};

fn spelled_out() -> Module {
    let path = repository().join("testdata/drivers/swiftshader/insert-into-null.spvasm");
    let module = common::parse(&std::fs::read_to_string(path).expect("it is there"));
    let lowered = run(&module, PASSES, &Options::new(everything())).unwrap_or_else(|e| panic!("{e}")).module;
    let text = text::print(&lowered, &text::PrintOptions::default()).text;
    assert!(!text.contains("OpConstantNull %_arr") && text.contains("OpConstantComposite %_arr"), "{text}");
    common::valid("null arrays", &lowered);
    lowered
}

#[test]
fn null_arrays_are_spelled_out() {
    let case = case("testdata/drivers/swiftshader/insert-into-null.toml");
    let outcome = common::interpret("null arrays", &spelled_out(), &case, 4);
    assert!(outcome.check(&case).expect("a case").is_empty());
}

vulkan_test!(
    SwiftShader,
    fn null_arrays_end_no_swiftshader(device) {
        let case = case("testdata/drivers/swiftshader/insert-into-null.toml");
        let outcome = run_on(device, "null arrays", &spelled_out(), &case);
        assert!(outcome.check(&case).expect("a case").is_empty());
    }
);
