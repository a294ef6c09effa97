//! Folding of constants under specialization, on a module made by hand.

use coop_ir::constant::{Comparison, Const, Constants, SpecValue, Specialization};
use coop_ir::{Header, Id, Inst, Module, Op, Operand};

struct Maker(Module);

impl Maker {
    fn new() -> Maker {
        Maker(Module::new(Header { version: 0x10600, generator: 0, bound: 1, schema: 0, big_endian: false }, 0))
    }

    fn global(&mut self, op: Op, ty: Option<Id>, operands: Vec<Operand>) -> Id {
        let id = self.0.fresh_id();
        let r = self.0.add(Inst::new(op, ty, Some(id), operands));
        self.0.globals.push(r);
        id
    }

    fn spec(&mut self, ty: Id, spec_id: u32, value: u32) -> Id {
        let id = self.global(Op::SpecConstant, Some(ty), vec![value.into()]);
        let r = self.0.add(Inst::new(Op::Decorate, None, None, [id.into(), 1.into(), spec_id.into()]));
        self.0.globals.insert(0, r);
        id
    }

    fn op(&mut self, ty: Id, op: Op, args: &[Id]) -> Id {
        let mut operands = vec![Operand::Word(u32::from(op.0))];
        operands.extend(args.iter().map(|a| Operand::Id(*a)));
        self.global(Op::SpecConstantOp, Some(ty), operands)
    }
}

#[test]
fn spec_constants_fold_with_defaults_and_given_values() {
    let mut m = Maker::new();
    let int = m.global(Op::TypeInt, None, vec![32.into(), 1.into()]);
    let long = m.global(Op::TypeInt, None, vec![64.into(), 1.into()]);
    let boolean = m.global(Op::TypeBool, None, vec![]);
    let a = m.spec(int, 7, 16);
    let minus = m.global(Op::Constant, Some(int), vec![(-3i32 as u32).into()]);
    let product = m.op(int, Op::IMul, &[a, minus]);
    let rem = m.op(int, Op::SRem, &[product, a]);
    let modulo = m.op(int, Op::SMod, &[minus, a]);
    let less = m.op(boolean, Op::SLessThan, &[product, a]);
    let chosen = m.op(int, Op::Select, &[less, a, minus]);
    let wide = m.op(long, Op::SConvert, &[minus]);
    let by_zero = m.op(int, Op::UDiv, &[a, rem]);

    let defaults = Constants::new(&m.0, &Specialization::new());
    assert_eq!(defaults.get(minus), Const::Fixed(0xffff_fffd));
    assert_eq!(defaults.get(product).value(), Some((-48i32) as u32 as u64));
    assert_eq!(defaults.get(product).specs().expect("a default").iter().collect::<Vec<_>>(), [7]);
    assert_eq!(defaults.get(rem).value(), Some(0));
    assert_eq!(defaults.get(modulo).value(), Some(13));
    assert_eq!(defaults.get(chosen).value(), Some(16));
    assert_eq!(defaults.get(wide), Const::Fixed(-3i64 as u64));
    assert_eq!(defaults.get(by_zero), Const::Unknown);
    assert_eq!(defaults.compare(a, a), Comparison::Equal);
    assert!(matches!(defaults.compare(a, minus), Comparison::DifferentByDefault(s) if s.to_string() == "SpecId 7"));

    let mut given = Specialization::new();
    given.set(7, SpecValue::parse("-0x10").expect("a value"));
    let given = Constants::new(&m.0, &given);
    assert_eq!(given.get(product), Const::Fixed(48));
    assert_eq!(given.get(chosen), Const::Fixed(0xffff_fffd));

    let mut bad = Specialization::new();
    bad.set(7, SpecValue::parse("1.5").expect("a value"));
    let bad = Constants::new(&m.0, &bad);
    assert_eq!(bad.problems(), [(7, "1.5 is not an integer".to_owned())]);
    assert_eq!(bad.get(a).value(), Some(16));
}

/// Composites are looked into only as far as memory and the stack stay in proportion to the module.
#[test]
fn composites_stay_in_proportion() {
    let mut m = Maker::new();
    let uint = m.global(Op::TypeInt, None, vec![32.into(), 0.into()]);
    let one = m.global(Op::Constant, Some(uint), vec![1.into()]);

    // A vector type of a billion components, and one of itself.
    let huge = m.global(Op::TypeVector, None, vec![uint.into(), (1 << 30).into()]);
    let sum = m.op(huge, Op::IAdd, &[one, one]);
    let cyclic = Id::new(m.0.header.bound).expect("not 0");
    assert_eq!(m.global(Op::TypeVector, None, vec![cyclic.into(), 2.into()]), cyclic);
    let odd = m.op(cyclic, Op::IAdd, &[one, one]);

    // Each holds the one before it twice: written out, 2 to the power of 64 values.
    let mut double = one;
    for _ in 0..64 {
        double = m.global(Op::ConstantComposite, Some(uint), vec![double.into(), double.into()]);
    }
    // Each holds the one before it, and takes its id, so that nothing else keeps that one alive.
    let chain = m.global(Op::ConstantComposite, Some(uint), vec![one.into()]);
    for _ in 0..200_000 {
        let r = m.0.add(Inst::new(Op::ConstantComposite, Some(uint), Some(chain), [Operand::Id(chain)]));
        m.0.globals.push(r);
    }
    let constants = Constants::new(&m.0, &Specialization::new());
    for id in [sum, odd, double, chain] {
        assert_eq!(constants.get(id), Const::Unknown);
    }
}

#[test]
fn vectors_fold_by_component() {
    let mut m = Maker::new();
    let uint = m.global(Op::TypeInt, None, vec![32.into(), 0.into()]);
    let vector = m.global(Op::TypeVector, None, vec![uint.into(), 3.into()]);
    let x = m.spec(uint, 0, 32);
    let one = m.global(Op::Constant, Some(uint), vec![1.into()]);
    let size = m.global(Op::SpecConstantComposite, Some(vector), vec![x.into(), one.into(), one.into()]);
    let twice = m.op(vector, Op::IAdd, &[size, size]);
    let operands = |op: Op, ids: &[Id], index: u32| {
        let mut all = vec![Operand::Word(u32::from(op.0))];
        all.extend(ids.iter().map(|i| Operand::Id(*i)));
        all.push(Operand::Word(index));
        all
    };
    let inserted = m.global(Op::SpecConstantOp, Some(vector), operands(Op::CompositeInsert, &[x, twice], 1));
    let parts: Vec<Id> = (0..4)
        .map(|i| m.global(Op::SpecConstantOp, Some(uint), operands(Op::CompositeExtract, &[inserted], i)))
        .collect();
    let constants = Constants::new(&m.0, &Specialization::new());
    let values: Vec<Option<u64>> = parts.iter().map(|p| constants.get(*p).value()).collect();
    assert_eq!(values, [Some(64), Some(32), Some(2), None]);
}
