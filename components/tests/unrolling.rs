//! Hints to unroll loops, which SwiftShader follows whatever that takes.

mod common;

use common::{interpret, of_devices, parse, run_on, same, valid};
use coop_components::{Lacks, Options, lower};
use coop_device::Profile;
use coop_exec::testing::{case, repository};
use coop_exec::vulkan_test;
use coop_ir::spv::LoopControl;
use coop_ir::{Module, Op};

fn module() -> Module {
    let path = repository().join("testdata/drivers/swiftshader/unrolled-loops.spvasm");
    parse(&std::fs::read_to_string(path).expect("readable"))
}

/// Returns how many loops have the hint to unroll them.
fn hints(m: &Module) -> usize {
    let has = |hints: LoopControl| hints.contains(LoopControl::Unroll);
    let of = |r| Some(m.inst(r)).filter(|i| i.op == Op::LoopMerge).and_then(|i| i.enumerant(2));
    m.all().filter_map(of).filter(|hints| has(*hints)).count()
}

fn of_swiftshader() -> Lacks {
    Lacks::of(&Profile::builtin("google-swiftshader").expect("a profile"))
}

#[test]
fn loops_are_not_unrolled_for_swiftshader_alone() {
    assert_eq!(hints(&module()), 4);
    assert!(of_devices().iter().any(|(_, lacks)| *lacks == of_swiftshader()));
    for (device, lacks) in of_devices() {
        let lowered = lower(&module(), &Options::new(lacks)).unwrap_or_else(|e| panic!("{device}: {e}"));
        let left = if lacks == of_swiftshader() { 0 } else { 4 };
        assert_eq!(hints(&lowered.module), left, "{device}");
        valid(device, &lowered.module);
    }
    let lowered = lower(&module(), &Options::new(Lacks::default())).unwrap_or_else(|e| panic!("{e}"));
    assert!(!lowered.report.changed);
}

vulkan_test!(
    SwiftShader,
    fn loops_that_are_not_unrolled_run_on_swiftshader(device) {
        let case = case("testdata/drivers/swiftshader/unrolled-loops.toml");
        let lowered = lower(&module(), &Options::new(of_swiftshader())).unwrap_or_else(|e| panic!("{e}")).module;
        let wanted = interpret("loops", &module(), &case, 4);
        same("loops", &run_on(device, "loops", &lowered, &case), &wanted);
    }
);
