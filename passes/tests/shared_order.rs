//! The order in which shared memory is declared.

use coop_device::Profile;
use coop_ir::{Id, Module, Op, text};
use coop_passes::{Options, Target, lower};

const MODULE: &str = include_str!("../../testdata/drivers/nvidia/shared-order.spvasm");

/// Returns the names of the shared variables of a module's output for khr, in the order of their declarations.
fn declared(module: &str) -> Vec<String> {
    let module = text::parse(module).expect("it parses");
    let name = |m: &Module, id: Id| {
        let of_id = |r: &coop_ir::InstRef| m.inst(*r).op == Op::Name && m.inst(*r).id(0) == Some(id);
        m.globals
            .iter()
            .copied()
            .find(of_id)
            .and_then(|r| m.inst(r).string(1))
            .map_or_else(String::new, |(name, _)| name)
    };
    let profile = Profile::builtin("nvidia-h100").expect("a profile");
    let options = Options { profile: Some(&profile), subgroup_size: Some(32), ..Options::new(Target::Khr) };
    let lowered = lower(&module, &options).expect("it is lowered").module;
    coop_ir::verify::verify(&lowered).expect("it is well formed");
    let all = lowered.globals_with(Op::Variable).filter_map(|r| lowered.inst(r).result);
    all.map(|id| name(&lowered, id)).filter(|name| name.starts_with("shared_")).collect()
}

/// The module with names, and with so many integers behind the matrix.
fn with_behind(count: u32) -> String {
    let first = "OpDecorate";
    let names = "OpName %tile \"shared_tile\"\nOpName %behind \"shared_behind\"\nOpDecorate";
    let module = MODULE.replacen(first, names, 1);
    let length =
        format!("%behind_length = OpConstant %uint {count}\n%_arr_uint_uint_3 = OpTypeArray %uint %behind_length");
    module.replace("%_arr_uint_uint_3 = OpTypeArray %uint %uint_3", &length)
}

#[test]
fn what_ends_within_16_bytes_is_declared_first() {
    for count in [3, 5, 6, 767] {
        assert_eq!(declared(&with_behind(count)), ["shared_behind", "shared_tile"], "{count} integers");
    }
}

#[test]
fn an_order_that_is_right_stays() {
    for count in [4, 8, 768] {
        assert_eq!(declared(&with_behind(count)), ["shared_tile", "shared_behind"], "{count} integers");
    }
}
