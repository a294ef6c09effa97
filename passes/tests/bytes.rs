//! Negations and differences of bytes, which NVIDIA's driver computes wrongly in 8 bits (docs/drivers.md).

use std::path::Path;

use coop_ir::types::{Scalar, Type};
use coop_ir::{Module, Op, text};
use coop_passes::{Options, Target, lower};

/// The negations and differences of bytes in a module.
fn differences_of_bytes(module: &Module) -> usize {
    let is_byte = |ty| matches!(Type::of(module, ty), Some(Type::Scalar(Scalar::Int { width: 8, .. })));
    module
        .all()
        .map(|r| module.inst(r))
        .filter(|i| matches!(i.op, Op::SNegate | Op::ISub) && i.ty.is_some_and(is_byte))
        .count()
}

#[test]
fn scalar_code_computes_differences_of_bytes_in_32_bits() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/passes/negated-bytes.spvasm");
    let source = std::fs::read_to_string(path).expect("the module is there");
    let module = text::parse(&source).expect("the module parses");
    let options = Options { subgroup_size: Some(32), ..Options::new(Target::Scalar) };
    let lowered = lower(&module, &options).expect("the module is lowered").module;
    assert_eq!(differences_of_bytes(&module), 0, "matrices, not bytes");
    assert_eq!(differences_of_bytes(&lowered), 0);
    assert!(lowered.all().any(|r| lowered.inst(r).op == Op::BitFieldSExtract));
}
