//! The verifier accepts what is valid, and finds each kind of damage that is done to a real module.

use coop_ir::verify::verify;
use coop_ir::{Id, Inst, InstList, InstRef, Module, Op, Operand, binary};
use std::path::Path;
use std::process::Command;

mod common;

/// Everything at hand is well formed, unless spirv-val says that it is not valid either.
#[test]
fn accepts_every_valid_module() {
    let validator = common::cache().join("bin/spirv-val");
    let mut rejected = 0;
    for path in common::all_modules() {
        let module = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
        let Err(problems) = verify(&module) else { continue };
        let out = Command::new(&validator).args(["--target-env", "spv1.6"]).arg(&path).output();
        let out = out.unwrap_or_else(|e| panic!("{} has problems, and {}: {e}", path.display(), validator.display()));
        assert!(!out.status.success(), "{} is valid, yet: {:#?}", path.display(), problems);
        rejected += 1;
    }
    assert!(rejected < 100, "{rejected} modules at hand are ill-formed");
}

/// A kernel to break.
fn kernel(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels").join(name);
    let module = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
    assert_eq!(verify(&module), Ok(()));
    module
}

/// Where an instruction is listed.
#[derive(Clone, Copy)]
struct At {
    inst: InstRef,
    function: usize,
    block: usize,
    index: usize,
}

/// The first instruction of a function's block that fits.
fn find(m: &Module, fits: impl Fn(&Inst, At) -> bool) -> At {
    let functions = m.functions.iter().enumerate();
    let blocks = functions.flat_map(|(f, x)| x.blocks.iter().enumerate().map(move |(b, x)| (f, b, x)));
    let mut insts = blocks.flat_map(|(function, block, x)| {
        x.insts.iter().enumerate().map(move |(index, inst)| At { inst: *inst, function, block, index })
    });
    insts.find(|at| fits(m.inst(at.inst), *at)).expect("the kernel has such an instruction")
}

fn op(m: &Module, op: Op) -> At {
    find(m, |i, _| i.op == op)
}

fn insts(m: &mut Module, at: At) -> &mut InstList {
    &mut m.functions[at.function].blocks[at.block].insts
}

/// The first global with this opcode.
fn global(m: &Module, op: Op) -> InstRef {
    m.globals_with(op).next().expect("the kernel has one")
}

fn result(m: &Module, r: InstRef) -> Id {
    m.inst(r).result.expect("it has a result")
}

/// The module has problems of this check only, and one of them says this.
#[track_caller]
fn fails(m: &Module, check: u8, says: &str) {
    let problems = verify(m).expect_err("something is wrong");
    assert!(problems.iter().all(|p| p.check == check), "only check {check}: {problems:#?}");
    assert!(problems.iter().any(|p| p.message.contains(says)), "nothing says {says:?}: {problems:#?}");
}

/// One of the module's problems is of this check and says this; the damage breaks other checks too.
#[track_caller]
fn fails_among_others(m: &Module, check: u8, says: &str) {
    let problems = verify(m).expect_err("something is wrong");
    assert!(problems.iter().any(|p| p.check == check && p.message.contains(says)), "no {says:?}: {problems:#?}");
}

#[test]
fn check_1_one_definition() {
    let mut m = kernel("gemm_simple.spv");
    let ty = m.inst(global(&m, Op::TypeVoid)).clone();
    let r = m.add(ty);
    m.globals.push(r);
    fails(&m, 1, "is defined twice");

    let mut m = kernel("gemm_simple.spv");
    let r = global(&m, Op::TypeVoid);
    m.globals.push(r);
    fails(&m, 1, "it is listed twice");

    let mut m = kernel("gemm_simple.spv");
    m.header.bound = 10;
    fails(&m, 1, "is not below the bound 10 of the header");

    let mut m = kernel("gemm_simple.spv");
    let r = global(&m, Op::TypeVoid);
    m.forget(r);
    fails(&m, 1, "the module's table of definitions");
}

#[test]
fn check_2_used_ids_are_defined() {
    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::CooperativeMatrixMulAddKHR);
    let nobody = m.fresh_id();
    m.inst_mut(at.inst).operands[0] = Operand::Id(nobody);
    fails(&m, 2, &format!("{nobody} is not defined"));

    // A surplus word of a known instruction is not its definition,
    let mut surplus = m.clone();
    let store = op(&surplus, Op::CooperativeMatrixStoreKHR);
    let store = surplus.inst_mut(store.inst);
    store.operands.push(Operand::Word(nobody.get()));
    store.opaque = true;
    fails(&surplus, 2, &format!("{nobody} is not defined"));

    // but one of an unknown instruction may be, for the rest of its function.
    let odd = Inst { opaque: true, ..Inst::new(Op(9999), None, None, [Operand::Word(3), Operand::Word(nobody.get())]) };
    let r = m.add(odd);
    insts(&mut m, at).insert(at.index, r);
    assert_eq!(verify(&m), Ok(()));
    let entry = global(&m, Op::EntryPoint);
    let function = m.inst(entry).operands[1];
    m.inst_mut(entry).operands[1] = Operand::Id(nobody);
    fails_among_others(&m, 2, &format!("{nobody} is not defined"));
    // Outside functions it defines for all, but no function.
    insts(&mut m, at).remove(at.index);
    m.globals.push(r);
    fails(&m, 15, &format!("{nobody} is not a function"));
    m.inst_mut(entry).operands[1] = function;
    assert_eq!(verify(&m), Ok(()));

    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::CooperativeMatrixMulAddKHR);
    insts(&mut m, at).remove(at.index);
    m.forget(at.inst);
    fails(&m, 2, &format!("{} is not defined", result(&m, at.inst)));
}

#[test]
fn check_3_globals_come_before_their_users() {
    let mut m = kernel("gemm_simple.spv");
    let int = global(&m, Op::TypeInt);
    m.globals.retain(|r| *r != int);
    m.globals.push(int);
    fails(&m, 3, &format!("{} is defined only after it", result(&m, int)));

    // A type that contains itself breaks the order too.
    let mut m = kernel("gemm_simple.spv");
    let s = m.globals_with(Op::TypeStruct).last().expect("a struct");
    let own = result(&m, s);
    m.inst_mut(s).operands[0] = Operand::Id(own);
    fails(&m, 3, "is defined only after it");
}

#[test]
fn check_4_definitions_dominate_uses() {
    // Two neighbors of which the second uses the first change places.
    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::CooperativeMatrixMulAddKHR);
    let user = m.functions[at.function].blocks[at.block].insts.get(at.index + 1).copied().expect("a store");
    assert!(m.inst(user).ids().any(|i| i == result(&m, at.inst)));
    insts(&mut m, at).swap(at.index, at.index + 1);
    fails(&m, 4, "does not dominate this use");

    // A value of a loop's body, used by the condition in the header.
    let mut m = kernel("gemm_simple.spv");
    let condition = op(&m, Op::BranchConditional);
    let matrix = op(&m, Op::CooperativeMatrixMulAddKHR);
    assert!(condition.block < matrix.block);
    let value = result(&m, matrix.inst);
    m.inst_mut(condition.inst).operands[0] = Operand::Id(value);
    fails(&m, 4, "does not dominate this use");

    // The value that a phi takes from a predecessor must be there at that one's end.
    let mut m = kernel("gemm_simple.opt.spv");
    let phi = op(&m, Op::Phi);
    let own = result(&m, phi.inst);
    let entry = m.functions[0].blocks[0].label;
    let entry = result(&m, entry);
    let from = m.inst(phi.inst).ids().position(|i| i == entry).expect("a value from the entry block");
    m.inst_mut(phi.inst).operands[from - 1] = Operand::Id(own);
    fails(&m, 4, "does not dominate this use");

    // A parameter of one function in another.
    let mut m = kernel("functions.spv");
    let param = m.functions.iter().find_map(|f| f.params.first().copied()).expect("a parameter");
    let store = op(&m, Op::Store);
    let param = result(&m, param);
    m.inst_mut(store.inst).operands[0] = Operand::Id(param);
    fails(&m, 4, "belongs to the function");
}

#[test]
fn check_5_functions_and_blocks() {
    let mut m = kernel("gemm_simple.spv");
    let at = find(&m, |i, at| i.op == Op::Branch && at.block == 1);
    insts(&mut m, at).pop();
    fails_among_others(&m, 5, "has no terminator");

    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::Store);
    let r = m.add(Inst::new(Op::Unreachable, None, None, []));
    insts(&mut m, at).insert(at.index, r);
    fails(&m, 5, "it ends the block, and instructions follow");

    let mut m = kernel("gemm_simple.spv");
    m.functions[0].tail.clear();
    fails(&m, 5, "it has no OpFunctionEnd");

    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::Store);
    let end = m.add(Inst::new(Op::FunctionEnd, None, None, []));
    insts(&mut m, at).insert(at.index, end);
    fails(&m, 5, "it stands inside a block");

    for place in 0..3 {
        let mut m = kernel("functions.spv");
        let r = m.add(Inst::new(Op::MemoryBarrier, None, None, [Operand::Word(0), Operand::Word(0)]));
        let scope = result(&m, global(&m, Op::Constant));
        m.inst_mut(r).operands = [Operand::Id(scope), Operand::Id(scope)].into_iter().collect();
        let f = &mut m.functions[1];
        [&mut f.params, &mut f.blocks[0].lead, &mut f.tail][place].insert(0, r);
        fails(&m, 5, "it stands ");
    }

    for place in 0..3 {
        let mut m = kernel("functions.spv");
        let odd = m.add(Inst { opaque: true, ..Inst::new(Op(9999), None, None, []) });
        let f = &mut m.functions[1];
        *[&mut f.def, &mut f.blocks[0].label, f.tail.last_mut().expect("an end")][place] = odd;
        fails_among_others(&m, 5, " must");
    }
}

#[test]
fn check_6_phis_and_variables_come_first() {
    let mut m = kernel("gemm_simple.opt.spv");
    let phi = op(&m, Op::Phi);
    let scope = result(&m, global(&m, Op::Constant));
    let barrier = m.add(Inst::new(Op::MemoryBarrier, None, None, [Operand::Id(scope), Operand::Id(scope)]));
    insts(&mut m, phi).insert(phi.index, barrier);
    fails(&m, 6, "it does not stand at the start of its block");

    let mut m = kernel("gemm_simple.spv");
    let variable = op(&m, Op::Variable);
    assert_eq!(variable.block, 0);
    let barrier = m.add(Inst::new(Op::MemoryBarrier, None, None, [Operand::Id(scope), Operand::Id(scope)]));
    insts(&mut m, variable).insert(variable.index, barrier);
    fails(&m, 6, "it does not stand at the start of the entry block");

    let mut m = kernel("gemm_simple.spv");
    let mut copy = m.inst(variable.inst).clone();
    copy.result = Some(m.fresh_id());
    let copy = m.add(copy);
    m.functions[0].blocks[1].insts.insert(0, copy);
    fails(&m, 6, "it is not in the entry block");
}

#[test]
fn check_7_phis_have_the_predecessors() {
    let edit = |f: &dyn Fn(&mut Module, InstRef)| {
        let mut m = kernel("gemm_simple.opt.spv");
        let phi = op(&m, Op::Phi);
        f(&mut m, phi.inst);
        m
    };
    let m = edit(&|m, phi| m.inst_mut(phi).operands.truncate(2));
    fails(&m, 7, "it has no value for the predecessor");
    let m = edit(&|m, phi| {
        let pair = [m.inst(phi).operands[0], m.inst(phi).operands[1]];
        m.inst_mut(phi).operands.extend(pair);
    });
    fails(&m, 7, "it has two values for the predecessor");
    let m = edit(&|m, phi| {
        let last = m.functions[0].blocks.last().expect("blocks").label;
        let pair = [m.inst(phi).operands[0], Operand::Id(result(m, last))];
        m.inst_mut(phi).operands.extend(pair);
    });
    fails(&m, 7, "is not a predecessor of its block");
}

#[test]
fn check_8_edges() {
    let mut m = kernel("gemm_simple.spv");
    let branch = op(&m, Op::Branch);
    let entry = m.functions[0].blocks[0].label;
    let entry = result(&m, entry);
    let void = result(&m, global(&m, Op::TypeVoid));
    let mut back = m.clone();
    m.inst_mut(branch.inst).operands[0] = Operand::Id(void);
    fails(&m, 8, &format!("the target {void} is not a label"));
    let last = find(&back, |i, at| i.op == Op::Branch && at.block > 1);
    back.inst_mut(last.inst).operands[0] = Operand::Id(entry);
    fails_among_others(&back, 8, "the entry block");

    // Only merges and branches may follow; a label is not a value.
    let mut m = kernel("gemm_simple.spv");
    let merge = op(&m, Op::LoopMerge);
    let nop = m.add(Inst::new(Op::Nop, None, None, []));
    insts(&mut m, merge).insert(merge.index + 1, nop);
    fails(&m, 8, "no branch that it could be about follows it");

    let mut m = kernel("gemm_simple.spv");
    let store = op(&m, Op::Store);
    m.inst_mut(store.inst).operands[1] = Operand::Id(entry);
    fails_among_others(&m, 8, &format!("its operand {entry} is a label"));
    let mut m = kernel("gemm_simple.spv");
    let branch = op(&m, Op::BranchConditional);
    m.inst_mut(branch.inst).operands[0] = Operand::Id(entry);
    fails(&m, 8, &format!("its operand {entry} is a label"));

    let mut m = kernel("gemm_simple.spv");
    m.functions[0].blocks.swap(1, 2);
    fails(&m, 8, "the block stands before");

    // A label of another function: the use crosses functions too.
    let mut m = kernel("functions.spv");
    let other = m.functions[1].blocks[0].label;
    let other = result(&m, other);
    let branch = op(&m, Op::Branch);
    m.inst_mut(branch.inst).operands[0] = Operand::Id(other);
    fails_among_others(&m, 8, "a label of another function");
}

#[test]
fn check_9_operands_are_those_of_the_grammar() {
    let edit = |f: &dyn Fn(&mut Inst)| {
        let mut m = kernel("gemm_simple.spv");
        let at = op(&m, Op::CooperativeMatrixMulAddKHR);
        f(m.inst_mut(at.inst));
        m
    };
    fails(&edit(&|i| i.operands.truncate(2)), 9, "an operand is missing at its end");
    fails(&edit(&|i| i.operands.extend([0, 0].map(Operand::Word))), 9, "is beyond the grammar");
    fails(&edit(&|i| i.operands[1] = Operand::Word(i.operands[1].word())), 9, "is kept as a word and must be an id");
    fails(&edit(&|i| i.operands[1] = Operand::Word(0)), 9, "operand 1 is id 0");
    fails_among_others(&edit(&|i| i.ty = None), 9, "it has no result type");

    let mut m = kernel("gemm_simple.spv");
    let void = result(&m, global(&m, Op::TypeVoid));
    let capability = global(&m, Op::Capability);
    m.inst_mut(capability).operands[0] = Operand::Id(void);
    fails_among_others(&m, 9, "is kept as an id and must be a word");

    let mut m = kernel("gemm_simple.spv");
    let name = global(&m, Op::Name);
    m.inst_mut(name).operands.pop();
    m.inst_mut(name).operands.push(Operand::Word(u32::from_le_bytes(*b"open")));
    fails(&m, 9, "a string has no end");
}

#[test]
fn check_10_length() {
    let mut m = kernel("gemm_simple.spv");
    let float = result(&m, global(&m, Op::TypeFloat));
    let long = m.fresh_id();
    let long = m.add(Inst::new(Op::TypeStruct, None, Some(long), vec![Operand::Id(float); 65534]));
    m.globals.push(long);
    fails(&m, 10, "it has 65536 words");
    m.inst_mut(long).operands.pop();
    assert_eq!(verify(&m), Ok(()));
}

#[test]
fn check_11_sections() {
    let mut m = kernel("gemm_simple.spv");
    let capability = m.globals.remove(0);
    m.globals.push(capability);
    fails(&m, 11, "it must come before types, constants and variables");

    let mut m = kernel("gemm_simple.spv");
    let store = op(&m, Op::Store);
    insts(&mut m, store).remove(store.index);
    m.trailing.push(store.inst);
    fails_among_others(&m, 11, "it must not stand after a function");

    let mut m = kernel("gemm_simple.spv");
    let r = m.add(Inst::new(Op::Nop, None, None, []));
    m.globals.push(r);
    fails(&m, 11, "it must be in a function");

    let mut m = kernel("gemm_simple.spv");
    let int = m.globals_with(Op::TypeCooperativeMatrixKHR).last().expect("a matrix type");
    let at = op(&m, Op::Store);
    m.globals.retain(|r| *r != int);
    insts(&mut m, at).insert(at.index, int);
    fails_among_others(&m, 11, "it must not be in a function");

    let mut m = kernel("gemm_simple.spv");
    let variable = op(&m, Op::Variable);
    m.inst_mut(variable.inst).operands[0] = Operand::Word(4);
    fails(&m, 11, "must have the storage class Function");
    let mut m = kernel("gemm_simple.spv");
    let variable = global(&m, Op::Variable);
    m.inst_mut(variable).operands[0] = Operand::Word(7);
    fails(&m, 11, "must be in a function");
}

#[test]
fn check_12_types_are_types() {
    let mut m = kernel("gemm_simple.spv");
    let constant = result(&m, global(&m, Op::Constant));
    let load = op(&m, Op::Load);
    m.inst_mut(load.inst).ty = Some(constant);
    fails_among_others(&m, 12, &format!("its result type {constant} is not a type"));

    let mut m = kernel("gemm_simple.spv");
    let last = m.globals_with(Op::TypePointer).last().expect("a pointer type");
    let before = m.globals.iter().position(|r| *r == last).expect("listed");
    let constant = m.globals[..before].iter().find(|r| m.inst(**r).op == Op::Constant).expect("an earlier constant");
    let constant = result(&m, *constant);
    m.inst_mut(last).operands[1] = Operand::Id(constant);
    fails_among_others(&m, 12, &format!("its pointee {constant} is not a type"));

    let mut m = kernel("gemm_simple.spv");
    let int = global(&m, Op::TypeInt);
    m.inst_mut(int).operands[1] = Operand::Word(2);
    fails(&m, 12, "its signedness is neither 0 nor 1");
}

#[test]
fn check_16_conditions_and_indices_are_values() {
    for (opcode, operand) in [(Op::BranchConditional, 0), (Op::AccessChain, 1)] {
        let mut m = kernel("gemm_simple.spv");
        let at = op(&m, opcode);
        let void = result(&m, global(&m, Op::TypeVoid));
        m.inst_mut(at.inst).operands[operand] = Operand::Id(void);
        fails(&m, 16, &format!("{void} is not a value"));
    }

    // A type, and a function, where a number must be.
    let m = kernel("gemm_simple.spv");
    for other in [global(&m, Op::TypeVoid), m.functions[0].def] {
        let mut m = kernel("gemm_simple.spv");
        let (at, id) = (op(&m, Op::IAdd), result(&m, other));
        m.inst_mut(at.inst).operands[1] = Operand::Id(id);
        fails(&m, 16, &format!("{id} is not a value"));
    }

    let mut m = kernel("gemm_simple.spv");
    let at = op(&m, Op::AccessChain);
    m.inst_mut(at.inst).operands[1] = m.inst(at.inst).operands[0];
    fails(&m, 16, "is not an integer");
}

#[test]
fn check_16_conversions_keep_the_number_of_components() {
    let source = "OpCapability Shader
        OpMemoryModel Logical GLSL450
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %vec2 = OpTypeVector %float 2
        %c1 = OpConstant %uint 1
        %f = OpFunction %void None %fn
        %label = OpLabel
        %x = OpConvertUToF %vec2 %c1
        OpReturn
        OpFunctionEnd";
    fails(&coop_ir::text::parse(source).expect("a module"), 16, "a conversion of 1 components gives 2");
}

#[test]
fn check_16_values_have_the_types_that_operations_ask_for() {
    let with = |globals: &str, body: &str| {
        let source = format!(
            "OpCapability Shader
            OpCapability CooperativeMatrixKHR
            OpExtension \"SPV_KHR_cooperative_matrix\"
            OpMemoryModel Logical GLSL450
            %void = OpTypeVoid
            %fn = OpTypeFunction %void
            %uint = OpTypeInt 32 0
            %float = OpTypeFloat 32
            %vec2 = OpTypeVector %float 2
            %pair = OpTypeStruct %uint %float
            %pointer = OpTypePointer Private %uint
            %one = OpConstant %uint 1
            %half = OpConstant %float 0.5
            %nothing = OpConstantNull %pair
            %zeros = OpConstantNull %vec2
            %acc = OpTypeCooperativeMatrixKHR %float %one %one %one %one
            %ones = OpConstantComposite %acc %half
            %number = OpVariable %pointer Private
            {globals}
            %f = OpFunction %void None %fn
            %label = OpLabel
            {body}
            OpReturn
            OpFunctionEnd"
        );
        coop_ir::text::parse(&source).expect("a module")
    };
    assert_eq!(verify(&with("", "%x = OpCompositeExtract %float %nothing 1\n %y = OpFNegate %vec2 %zeros")), Ok(()));
    // Addresses and numbers are converted into one another.
    let address = "%x = OpConvertPtrToU %uint %number\n %y = OpConvertUToPtr %pointer %x";
    assert_eq!(verify(&with("", address)), Ok(()));
    fails(&with("%v = OpVariable %uint Private", ""), 16, "not a pointer type");
    fails(&with("%v = OpVariable %pointer Private %half", ""), 16, "and must have");
    fails(&with("", "%x = OpCompositeExtract %uint %nothing 1"), 16, "its indices lead to");
    fails(&with("", "%x = OpCompositeExtract %uint %nothing 2"), 16, "its indices lead to nothing");
    fails(&with("", "%x = OpCompositeInsert %pair %half %nothing 0"), 16, "and must have");
    fails(&with("", "%x = OpCompositeInsert %vec2 %half %nothing 0"), 16, "and must have");
    fails(&with("", "%x = OpAtomicIAdd %uint %number %one %one %half"), 16, "and must have");
    fails(&with("", "OpAtomicStore %number %one %one %half"), 16, "and must have");
    fails(&with("", "%x = OpIAdd %uint %one %number"), 16, "not as many components");
    fails(&with("", "%x = OpFAdd %vec2 %zeros %half"), 16, "not as many components");
    fails(&with("", "%x = OpFDiv %acc %ones %half"), 16, "not as many components");
    fails(&with("", "%x = OpMatrixTimesScalar %acc %half %half"), 16, "and must have");
    fails(&with("", "%x = OpVectorTimesScalar %vec2 %zeros %one"), 16, "and must have");
    fails(&with("", "%x = OpFunctionCall %void %f\n %y = OpCopyObject %void %x"), 16, "is not a value");
    fails(&with("", "%x = OpBitcast %void %one"), 16, "can't be cast");
    fails(&with("%columns = OpTypeMatrix %float 2", ""), 12, "its columns are not vectors");
}

#[test]
fn check_15_execution_modes_are_of_entry_points() {
    let mut m = kernel("functions.spv");
    let modes = |r: &InstRef| matches!(m.inst(*r).op, Op::ExecutionMode | Op::ExecutionModeId);
    let mode = m.globals.iter().copied().find(modes).expect("the kernel has one");
    let entry = m.inst(mode).id(0);
    let other = m.functions.iter().map(|f| f.def).find(|f| m.inst(*f).result != entry).expect("another function");
    let id = result(&m, other);
    m.inst_mut(mode).operands[0] = Operand::Id(id);
    fails(&m, 15, &format!("{id} is not the function of an entry point"));
}

#[test]
fn check_13_calls_and_signatures() {
    let call = |m: &Module| find(m, |i, _| i.op == Op::FunctionCall && i.operands.len() > 2);

    let mut m = kernel("functions.spv");
    let at = call(&m);
    m.inst_mut(at.inst).operands.pop();
    fails(&m, 13, "arguments, and");

    let mut m = kernel("functions.spv");
    let at = call(&m);
    let variable = result(&m, m.globals_with(Op::Constant).last().expect("a constant"));
    m.inst_mut(at.inst).operands[1] = Operand::Id(variable);
    fails(&m, 13, &format!("the argument {variable} has type"));

    let mut m = kernel("functions.spv");
    let at = call(&m);
    m.inst_mut(at.inst).operands[0] = Operand::Id(variable);
    fails(&m, 13, &format!("{variable} is not a function"));

    let mut m = kernel("functions.spv");
    let at = op(&m, Op::ReturnValue);
    let ty = m.type_of(variable);
    m.inst_mut(at.inst).operands[0] = Operand::Id(variable);
    fails(&m, 13, &format!("the value has type {}", ty.expect("a constant has a type")));

    let mut m = kernel("functions.spv");
    let at = op(&m, Op::ReturnValue);
    m.replace(at.inst, Inst::new(Op::Return, None, None, []));
    fails(&m, 13, "its function returns a value");

    let mut m = kernel("functions.spv");
    let f = m.functions.iter().position(|f| f.params.len() > 1).expect("a function with parameters");
    let param = m.functions[f].params[0];
    m.inst_mut(param).ty = ty;
    fails_among_others(&m, 13, "the function type says");

    let mut m = kernel("functions.spv");
    let def = m.functions[f].def;
    m.inst_mut(def).operands[1] = Operand::Id(ty.expect("a type"));
    fails(&m, 13, "is not a function type");

    let mut m = kernel("functions.spv");
    let mut more = m.inst(m.functions[f].params[0]).clone();
    more.result = Some(m.fresh_id());
    let more = m.add(more);
    m.functions[f].params.push(more);
    fails(&m, 13, "parameters, and its function type");
}

#[test]
fn check_14_recursion_through_pointers_only() {
    let base = kernel("bda.spv");
    let forward = |m: &mut Module, id: Id| {
        let r = m.add(Inst::new(Op::TypeForwardPointer, None, None, [Operand::Id(id), Operand::Word(5349)]));
        let first = m.globals.iter().position(|r| m.inst(*r).op.is_type()).expect("types");
        m.globals.insert(first, r);
    };
    // A list: a struct with a pointer to itself.
    let mut m = base.clone();
    let (node, pointer) = (m.fresh_id(), m.fresh_id());
    forward(&mut m, pointer);
    let node_inst = m.add(Inst::new(Op::TypeStruct, None, Some(node), [Operand::Id(pointer)]));
    let pointer_inst = m.add(Inst::new(Op::TypePointer, None, Some(pointer), [Operand::Word(5349), Operand::Id(node)]));
    m.globals.extend([node_inst, pointer_inst]);
    assert_eq!(verify(&m), Ok(()));
    // The same without the declaration.
    let declaration = |r: &InstRef| m.inst(*r).op == Op::TypeForwardPointer && m.inst(*r).id(0) == Some(pointer);
    let mut undeclared = m.clone();
    undeclared.globals.retain(|r| !declaration(r));
    fails(&undeclared, 3, "is defined only after it");
    // The same by value.
    m.replace(pointer_inst, Inst::new(Op::TypeStruct, None, Some(pointer), [Operand::Id(node)]));
    fails(&m, 14, &format!("{pointer} is not a pointer type"));
}

#[test]
fn check_15_entry_points() {
    let edit = |f: &dyn Fn(&mut Inst)| {
        let mut m = kernel("gemm_simple.spv");
        let r = global(&m, Op::EntryPoint);
        f(m.inst_mut(r));
        m
    };
    fails(&edit(&|i| i.operands.extend_from_within_last()), 15, "its interface has");
    let m = kernel("gemm_simple.spv");
    let void = result(&m, global(&m, Op::TypeVoid));
    fails(&edit(&|i| i.operands.push(Operand::Id(void))), 15, "is not a global variable");
    fails(&edit(&|i| i.operands[1] = Operand::Id(void)), 15, &format!("{void} is not a function"));
    let local = result(&m, op(&m, Op::Variable).inst);
    let m = edit(&|i| i.operands.push(Operand::Id(local)));
    let problems = verify(&m).expect_err("a local variable");
    assert!(problems.iter().any(|p| p.check == 15), "{problems:#?}");

    // Before SPIR-V 1.4 the interface may repeat itself.
    let mut m = kernel("gemm_simple.vulkan11.spv");
    let r = global(&m, Op::EntryPoint);
    m.inst_mut(r).operands.extend_from_within_last();
    assert_eq!(verify(&m), Ok(()));
}

#[test]
fn check_17_one_memory_model() {
    let mut m = kernel("gemm_simple.spv");
    let r = global(&m, Op::MemoryModel);
    let second = m.add(m.inst(r).clone());
    let at = m.globals.iter().position(|g| *g == r).expect("it is listed");
    m.globals.insert(at + 1, second);
    fails(&m, 17, "a module has one memory model");
    m.globals.drain(at..at + 2);
    fails(&m, 17, "there is no OpMemoryModel");
}

#[test]
fn check_16_values_have_their_types() {
    // Two instructions that the kernels lack, made from a comparison.
    let base = |opcode| {
        // The optimized kernel has a phi; only the other one stores plain values.
        let mut m = kernel(if opcode == Op::Store { "gemm_simple.spv" } else { "gemm_simple.opt.spv" });
        if matches!(opcode, Op::Select | Op::CopyObject) {
            let at = find(&m, |i, _| matches!(i.op, Op::ULessThan | Op::SLessThan));
            let (bool_, value, id) = (m.inst(at.inst).ty, result(&m, at.inst), m.fresh_id());
            let operands = vec![Operand::Id(value); if opcode == Op::Select { 3 } else { 1 }];
            let r = m.add(Inst::new(opcode, bool_, Some(id), operands));
            insts(&mut m, at).insert(at.index + 1, r);
        }
        assert_eq!(verify(&m), Ok(()));
        m
    };
    for (opcode, operand) in [(Op::Phi, 0), (Op::Store, 1), (Op::Select, 2), (Op::CopyObject, 0)] {
        let mut m = base(opcode);
        let at = op(&m, opcode);
        let was = m.inst(at.inst).id(operand).and_then(|i| m.type_of(i));
        let other = m.globals.iter().copied().find(|r| m.inst(*r).op.is_constant() && m.inst(*r).ty != was);
        let other = result(&m, other.expect("a constant of another type"));
        m.inst_mut(at.inst).operands[operand] = Operand::Id(other);
        fails(&m, 16, &format!("{other} has type"));
        let void = result(&m, global(&m, Op::TypeVoid));
        m.inst_mut(at.inst).operands[operand] = Operand::Id(void);
        fails(&m, 16, &format!("{void} is not a value"));
    }
    let mut m = kernel("gemm_simple.spv");
    let load = op(&m, Op::Load);
    let was = m.inst(load.inst).ty;
    let other = m.globals.iter().map(|r| m.inst(*r)).find(|i| i.op.is_type() && i.result != was).and_then(|i| i.result);
    m.inst_mut(load.inst).ty = other;
    fails_among_others(&m, 16, "and the pointer is one to");
}

trait Repeat {
    /// Repeats the last element.
    fn extend_from_within_last(&mut self);
}

impl Repeat for coop_ir::OperandList {
    fn extend_from_within_last(&mut self) {
        let last = self.last().copied().expect("not empty");
        self.push(last);
    }
}

/// No analysis panics on a corrupted module.
#[test]
fn damaged_modules_are_survived() {
    let mut random = common::Random(0xBAD);
    let mut read = 0;
    for name in ["functions.spv", "gemm_tutorial.opt.spv", "gemm_simple.debug.spv", "bda.spv"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels").join(name);
        let bytes = std::fs::read(&path).expect("readable");
        for _ in 0..400 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + random.below(4) {
                let at = 20 + 4 * random.below(bytes.len() / 4 - 5);
                let other = 20 + 4 * random.below(bytes.len() / 4 - 5);
                match random.below(3) {
                    0 => bytes[at] = bytes[at].wrapping_add(1 + random.below(4) as u8),
                    1 => bytes.copy_within(other..other + 4, at),
                    _ => bytes[at] = random.below(256) as u8,
                }
            }
            let Ok(m) = binary::read(&bytes) else { continue };
            read += 1;
            let _ = verify(&m);
            common::survey(&m);
        }
    }
    assert!(read > 200, "too few of the damaged modules can be read: {read}");
}

/// dxc writes debug information for OpenCL between blocks and before variables, as spirv-val allows.
#[test]
fn debug_information_stands_where_it_likes() {
    let module = |set: &str| {
        // 24 is DebugNoScope.
        let source = format!(
            "OpCapability Shader
            %set = OpExtInstImport \"{set}\"
            OpMemoryModel Logical GLSL450
            %void = OpTypeVoid
            %fn = OpTypeFunction %void
            %uint = OpTypeInt 32 0
            %pointer = OpTypePointer Function %uint
            %f = OpFunction %void None %fn
            %first = OpLabel
            %scope = OpExtInst %void %set 24
            %x = OpVariable %pointer Function
            OpBranch %second
            %none = OpExtInst %void %set 24
            %second = OpLabel
            OpReturn
            %last = OpExtInst %void %set 24
            OpFunctionEnd"
        );
        coop_ir::text::parse(&source).unwrap_or_else(|e| panic!("{e}"))
    };
    for set in ["OpenCL.DebugInfo.100", "DebugInfo", "NonSemantic.Shader.DebugInfo.100"] {
        assert_eq!(verify(&module(set)), Ok(()), "{set}");
    }
    let says = verify(&module("Another.1")).expect_err("no notes");
    let says: Vec<String> = says.iter().map(ToString::to_string).collect();
    for part in ["between two blocks", "at the start of the entry block", "between the last block and OpFunctionEnd"] {
        assert!(says.iter().any(|s| s.contains(part)), "{part}: {says:?}");
    }
}

/// spirv-val wants the scopes of aliases among the decorations; LLVM's translator writes them behind the names of ids, before those
/// of members.
#[test]
fn scopes_of_aliases_come_before_decorations() {
    let scopes = "%domain = OpAliasDomainDeclINTEL
        %scope = OpAliasScopeDeclINTEL %domain
        %scopes = OpAliasScopeListDeclINTEL %scope";
    let module = |before: &str, between: &str, after: &str| {
        let source = format!(
            "OpCapability Kernel
            OpCapability Addresses
            OpCapability MemoryAccessAliasingINTEL
            OpExtension \"SPV_INTEL_memory_access_aliasing\"
            OpMemoryModel Physical64 OpenCL
            OpName %s \"s\"
            {before}
            OpMemberName %s 0 \"x\"
            {between}
            OpDecorate %s CPacked
            OpDecorateId %f NoAliasINTEL %scopes
            %void = OpTypeVoid
            {after}
            %uint = OpTypeInt 32 0
            %s = OpTypeStruct %uint
            %fn = OpTypeFunction %void
            %f = OpFunction %void None %fn
            %label = OpLabel
            OpReturn
            OpFunctionEnd"
        );
        coop_ir::text::parse(&source).unwrap_or_else(|e| panic!("{e}"))
    };
    for (before, between, after) in [(scopes, "", ""), ("", scopes, ""), ("", "", scopes)] {
        let mut m = module(before, between, after);
        assert_eq!(verify(&m), Ok(()));
        coop_ir::rewrite::sort_globals(&mut m);
        assert_eq!(verify(&m), Ok(()), "sorted");
    }
}

/// Graphs (SPV_ARM_graph) stand behind the functions, if there are any; entry points name them before they are there.
#[test]
fn graphs_stand_behind_functions() {
    let function = "%main = OpFunction %void None %fn
        %label = OpLabel
        OpReturn
        OpFunctionEnd";
    let graph = "OpGraphEntryPointARM %graph \"graph\" %in %out
        %graph = OpGraphARM %type
        %value = OpGraphInputARM %tensor %zero
        %pair = OpExtInst %two %tosa 1 %value %weights
        %first = OpCompositeExtract %tensor %pair 0
        OpGraphSetOutputARM %first %zero
        OpGraphEndARM";
    let module = |first: &str, second: &str| {
        let source = format!(
            "OpCapability Shader
            OpCapability VulkanMemoryModel
            OpCapability Int8
            OpCapability GraphARM
            OpCapability TensorsARM
            OpExtension \"SPV_ARM_graph\"
            OpExtension \"SPV_ARM_tensors\"
            %tosa = OpExtInstImport \"TOSA.001000.1\"
            OpMemoryModel Logical Vulkan
            OpDecorate %in DescriptorSet 0
            OpDecorate %in Binding 0
            OpDecorate %out DescriptorSet 0
            OpDecorate %out Binding 1
            %void = OpTypeVoid
            %fn = OpTypeFunction %void
            %uint = OpTypeInt 32 0
            %char = OpTypeInt 8 0
            %zero = OpConstant %uint 0
            %rank = OpConstant %uint 4
            %tensor = OpTypeTensorARM %char %rank
            %two = OpTypeStruct %tensor %tensor
            %pointer = OpTypePointer UniformConstant %tensor
            %in = OpVariable %pointer UniformConstant
            %out = OpVariable %pointer UniformConstant
            %weights = OpGraphConstantARM %tensor 0
            %type = OpTypeGraphARM 1 %tensor %tensor
            {first}
            {second}"
        );
        coop_ir::text::parse(&source)
    };
    for (first, second) in [(function, graph), ("", graph)] {
        let mut m = module(first, second).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verify(&m), Ok(()), "{first}");
        let words = binary::write_words(&m);
        let read = binary::read_words(&words).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(binary::write_words(&read), words, "{first}");
        coop_ir::rewrite::sort_globals(&mut m);
        coop_ir::rewrite::remove_unused_globals(&mut m, 0);
        assert_eq!(verify(&m), Ok(()), "sorted: {first}");
        assert_eq!(m.globals_with(Op::GraphConstantARM).count(), 1, "{first}");
    }
    let says = module(graph, function).expect_err("a function behind a graph").to_string();
    assert!(says.contains("functions come before graphs"), "{says}");
    let outside = module(
        function,
        "OpGraphEntryPointARM %g \"g\"\n%g = OpGraphARM %type\nOpGraphEndARM\n%v = OpGraphInputARM %tensor %zero",
    );
    fails(&outside.unwrap_or_else(|e| panic!("{e}")), 11, "it must be in a graph");
    let inside = module(function, "%g = OpGraphARM %type\n%x = OpUndef %tensor\nOpGraphEndARM");
    fails(&inside.unwrap_or_else(|e| panic!("{e}")), 11, "it must not be in a graph");
}
