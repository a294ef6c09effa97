//! Debug information for OpenCL, which dxc writes with `-fspv-debug=rich` and DPC++ with `-g`: the grammar does not know which of its
//! words are ids, so it goes with what it is about.

use coop_ir::{Module, Op, binary, text};
use coop_passes::{Lanes, Options, Target, lower};
use std::fmt::Write;

/// A kernel with debug information about its function, its variables, and every value that it loads.
fn described() -> Module {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kernels/functions.spv");
    let module = binary::read(&std::fs::read(path).expect("readable")).expect("a module");
    let source = text::print(&module, &text::PrintOptions::default()).text;
    let mut described = String::new();
    let (mut next, mut first) = (0, true);
    let mut note = |out: &mut String, what: &str| {
        next += 1;
        writeln!(out, "%note{next} = OpExtInst %void %notes {what}").expect("a string");
    };
    for line in source.lines() {
        let op = line.split_whitespace().find(|word| word.starts_with("Op")).unwrap_or_default();
        let result = line.trim_start().split(' ').next().filter(|word| word.starts_with('%'));
        if op == "OpMemoryModel" {
            described.push_str("%notes = OpExtInstImport \"OpenCL.DebugInfo.100\"\n");
        } else if op == "OpFunction" && std::mem::take(&mut first) {
            // A DebugFunction, 20, names what comes later.
            note(&mut described, &format!("20 {}", result.expect("a function")));
        }
        writeln!(described, "{line}").expect("a string");
        // DebugNoScope is 24, DebugValue 29.
        if matches!(op, "OpReturn" | "OpReturnValue" | "OpBranch" | "OpBranchConditional") {
            note(&mut described, "24");
        }
        if let Some(value) = result.filter(|_| op == "OpLoad" || op.starts_with("OpCooperativeMatrixL")) {
            note(&mut described, &format!("29 %note1 {value}"));
        }
    }
    text::parse(&described).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn debug_information_for_opencl_goes() {
    let module = described();
    assert!(module.all().filter(|r| module.inst(*r).opaque).count() > 10);
    assert_eq!(coop_ir::verify::verify(&module), Ok(()));
    for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
        let options = Options { lanes, subgroup_size: Some(8), spec_defaults: true, ..Options::new(Target::Scalar) };
        let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{e}")).module;
        assert_eq!(lowered.all().filter(|r| lowered.inst(*r).opaque).count(), 0);
        let sets = lowered.globals_with(Op::ExtInstImport).filter_map(|r| lowered.inst(r).string(0));
        assert_eq!(sets.filter(|(name, _)| name.contains("Debug")).count(), 0);
    }
}
