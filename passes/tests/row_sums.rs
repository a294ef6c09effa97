//! Products with a matrix of one number become sums of rows in scalar code.

use std::path::Path;

use coop_ir::{Module, Op, text};
use coop_passes::{Options, Target, lower};

fn module() -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/passes/row-sums.spvasm");
    text::parse(&std::fs::read_to_string(path).expect("the module is there")).expect("the module parses")
}

/// Functions of the output whose names begin so.
fn functions(module: &Module, name: &str) -> usize {
    let names = module.globals_with(Op::Name).filter_map(|r| module.inst(r).string(1));
    names.filter(|(text, _)| text.starts_with(name)).count()
}

fn lowered(module: &Module) -> Module {
    let options = Options { subgroup_size: Some(32), verify_each: true, ..Options::new(Target::Scalar) };
    lower(module, &options).expect("the module is lowered").module
}

#[test]
fn nothing_is_multiplied_and_no_factor_is_made() {
    let output = lowered(&module());
    assert_eq!(functions(&output, "coop_product"), 0);
    assert_eq!(functions(&output, "coop_move"), 0);
    assert_eq!(functions(&output, "coop_reduce_row"), 1);
}

/// A rounding mode on the conversion of A is one of elements that the sums would not have.
#[test]
fn a_conversion_with_a_rounding_mode_stays() {
    let mut source = text::print(&module(), &text::PrintOptions::default()).text;
    let conversion = source.lines().find(|l| l.contains("= OpFConvert")).expect("a conversion");
    let a = conversion.split_whitespace().next().expect("its result").to_owned();
    let product = source.lines().find(|l| l.contains("OpCooperativeMatrixMulAddKHR")).expect("a product");
    let factor = product.split_whitespace().nth(4).expect("its A").to_owned();
    assert_ne!(a, factor, "the first conversion is of the narrow accumulator");
    source = source.replacen("OpDecorate", &format!("OpDecorate {factor} FPRoundingMode RTZ\nOpDecorate"), 1);
    let output = lowered(&text::parse(&source).expect("the module parses"));
    assert_eq!(functions(&output, "coop_product"), 1);
}

/// A constant that the pipeline may still set is not taken for its default.
#[test]
fn a_factor_that_can_be_specialized_stays() {
    let mut source = text::print(&module(), &text::PrintOptions::default()).text;
    let construct = source.lines().find(|l| l.contains("= OpCompositeConstruct")).expect("a splat").to_owned();
    let number = construct.split_whitespace().last().expect("its number");
    source = source.replace(&construct, &construct.replace(number, "%settable"));
    source = source.replacen("OpDecorate", "OpDecorate %settable SpecId 7\nOpDecorate", 1);
    let half = source.lines().find(|l| l.contains("OpTypeFloat 16")).expect("f16").to_owned();
    let ty = half.split_whitespace().next().expect("its id");
    source = source.replacen(&half, &format!("{half}\n%settable = OpSpecConstant {ty} 1"), 1);
    let output = lowered(&text::parse(&source).expect("the module parses"));
    let settable = output.globals_with(Op::SpecConstant).find_map(|r| output.inst(r).result).expect("it stays");
    assert!(output.all().any(|r| output.inst(r).op == Op::FConvert && output.inst(r).ids().eq([settable])));
}
