//! Casts of device addresses to pointers of another type, at which SwiftShader ends.

mod common;

use common::{everything, interpret, lacks, of_devices, run_on, valid, valid_for};
use coop_components::{Lacks, Options, lower};
use coop_device::{Feature, Profile};
use coop_exec::testing::{case, repository};
use coop_exec::{Case, vulkan_test};
use coop_ir::{Module, Op};

fn module() -> (Module, Case) {
    let path = repository().join("testdata/drivers/swiftshader/pointer-bitcast.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    (common::parse(&source), case("testdata/drivers/swiftshader/pointer-bitcast.toml"))
}

/// Returns the types of which values are cast, in the order of the casts.
fn casts(m: &Module) -> Vec<Op> {
    let mut found = Vec::new();
    let op = |ty| m.def_inst(ty).map(|i| i.op);
    m.in_blocks(|_, i| {
        if i.op == Op::Bitcast {
            found.extend(i.ids().next().and_then(|id| m.type_of(id)).and_then(op));
        }
    });
    found
}

fn of_swiftshader() -> Lacks {
    Lacks::of(&Profile::builtin("google-swiftshader").expect("a profile"))
}

/// The driver lacks nothing else that the module needs.
fn for_swiftshader() -> Module {
    let (module, _) = module();
    let lowered = lower(&module, &Options::new(of_swiftshader())).unwrap_or_else(|e| panic!("{e}"));
    assert!(lowered.report.changed);
    valid("casts", &lowered.module);
    lowered.module
}

#[test]
fn addresses_are_cast_by_way_of_words() {
    let (module, case) = module();
    assert_eq!(casts(&module), [Op::TypePointer]);
    for lacks in [of_swiftshader(), everything()] {
        let lowered = lower(&module, &Options::new(lacks)).unwrap_or_else(|e| panic!("{e}")).module;
        assert_eq!(casts(&lowered), [Op::TypePointer, Op::TypeVector]);
        common::same("casts", &interpret("casts", &lowered, &case, 4), &interpret("casts", &module, &case, 4));
    }
    // Other drivers take the casts.
    for (device, lacks) in of_devices() {
        let lowered = lower(&module, &Options::new(lacks)).unwrap_or_else(|e| panic!("{device}: {e}"));
        assert_eq!(casts(&lowered.module).len() == 1, lacks != of_swiftshader(), "{device}");
    }
    let lowered = lower(&module, &Options::new(lacks(&[Feature::ShaderInt8]))).unwrap_or_else(|e| panic!("{e}"));
    assert!(!lowered.report.changed);
}

/// Before SPIR-V 1.5 such casts are those of an extension.
#[test]
fn older_versions_declare_the_extension() {
    let (mut module, _) = module();
    module.header.version = 0x0001_0400;
    let lowered = lower(&module, &Options::new(everything())).unwrap_or_else(|e| panic!("{e}")).module;
    assert_eq!(casts(&lowered).len(), 2);
    valid_for("vulkan1.1spv1.4", "casts of 1.4", &lowered);
}

vulkan_test!(
    SwiftShader,
    fn casts_end_no_swiftshader(device) {
        let (_, case) = module();
        let outcome = run_on(device, "casts", &for_swiftshader(), &case);
        assert!(outcome.check(&case).expect("a case").is_empty());
    }
);
