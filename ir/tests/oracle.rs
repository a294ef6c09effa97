//! rspirv's loader as an oracle: where it can load a module, our decoding agrees instruction by instruction.

mod common;

use coop_ir::{Id, Inst, Module, Op, Operand, binary};
use rspirv::dr;

/// An operand of rspirv as ours: words, and which of them are ids. `None` for what has no fixed width in rspirv.
fn operand(o: &dr::Operand) -> Vec<Operand> {
    use rspirv::binary::Assemble;
    if let Some(id) = o.id_ref_any() {
        return vec![Operand::Id(Id::new(id).expect("not 0"))];
    }
    let mut words = Vec::new();
    o.assemble_into(&mut words);
    words.into_iter().map(Operand::Word).collect()
}

fn same(theirs: &dr::Instruction, ours: &Inst) -> bool {
    let id = |id: Option<u32>| id.and_then(Id::new);
    let operands: Vec<Operand> = theirs.operands.iter().flat_map(operand).collect();
    // Operands of a known set that rspirv has no table for are ids to us and words to it.
    let same_operands = || {
        operands.len() == ours.operands.len()
            && operands
                .iter()
                .zip(&ours.operands)
                .all(|(a, b)| a == b || (ours.op == Op::ExtInst && a.word() == b.word()))
    };
    theirs.class.opcode as u32 == u32::from(ours.op.0)
        && id(theirs.result_type) == ours.ty
        && id(theirs.result_id) == ours.result
        && same_operands()
}

/// Everything but source positions, which rspirv keeps in another order.
fn ours(module: &Module) -> impl Iterator<Item = &Inst> {
    module.all().map(|r| module.inst(r)).filter(|i| !i.op.is_line())
}

#[test]
fn rspirv_decodes_the_same() {
    let (mut compared, mut refused) = (0, 0);
    for path in common::all_modules().into_iter().step_by(3) {
        let bytes = std::fs::read(&path).expect("readable");
        let Ok(theirs) = dr::load_bytes(&bytes) else {
            refused += 1;
            continue;
        };
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let is_line = |i: &dr::Instruction| Op(i.class.opcode as u32 as u16).is_line();
        // rspirv sorts global instructions into sections, so compare each opcode's instructions in their order.
        let key = |op: u32, in_function: bool| if in_function { u32::MAX } else { op };
        let mut groups: std::collections::BTreeMap<u32, (Vec<&dr::Instruction>, Vec<&Inst>)> = Default::default();
        let mut in_function = false;
        for i in theirs.all_inst_iter().filter(|i| !is_line(i)) {
            in_function |= i.class.opcode == rspirv::spirv::Op::Function;
            groups.entry(key(i.class.opcode as u32, in_function)).or_default().0.push(i);
        }
        in_function = false;
        for i in ours(&module) {
            in_function |= i.op == Op::Function;
            groups.entry(key(u32::from(i.op.0), in_function)).or_default().1.push(i);
        }
        for (theirs, ours) in groups.values() {
            assert_eq!(theirs.len(), ours.len(), "{}", path.display());
            for (theirs, ours) in theirs.iter().zip(ours) {
                assert!(same(theirs, ours), "{}: {theirs:?}\n{ours:?}", path.display());
            }
        }
        compared += 1;
    }
    eprintln!("{compared} compared, {refused} refused by rspirv");
    assert!(compared > 0, "rspirv loads none of the modules");
}
