//! The passes before matrices are replaced: inlining, tensor addresses. The interpreter is the witness.

use coop_exec::interp::Interpreted;
use coop_exec::{Case, Executor, Outcome, RunOptions};
use coop_ir::{Module, binary};
use coop_passes::{Options, Target, lower};
use std::path::Path;

fn testdata(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/tensor").join(name);
    binary::read(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).expect("a module")
}

fn interpret(what: &str, module: &Module, case: &Case, subgroup: u32) -> Outcome {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = subgroup;
    let outcome = interpreter.run(&binary::write_words(module), case, &RunOptions::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(outcome.faults.is_empty() && outcome.messages.is_empty(), "{what}: {:?}", outcome.faults);
    outcome
}

fn case(text: &str) -> Case {
    Case::parse(text, Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn functions_that_return_from_anywhere_are_inlined() {
    let mut different = std::collections::BTreeSet::new();
    for name in ["returns.spv", "returns.debug.spv", "returns.opt.spv"] {
        let original = testdata(name);
        let mut options = Options::new(Target::Scalar);
        options.subgroup_size = Some(8);
        let lowered = lower(&original, &options).unwrap_or_else(|e| panic!("{name}: {e}")).module;
        // Nothing takes a matrix any more: what is called are the functions of the scalar lowering.
        assert!(coop_ir::verify::verify(&lowered).is_ok());
        for k in [0u32, 1, 2, 3, 4, 5, 7, 10, 11, 21, 32, 40, 41, 42, 43, 60, 61, 77, 99, 100] {
            let case = case(&format!(
                "workgroups = [1, 1, 1]\nseed = 3\nsubgroup-size = 8\nfull-subgroups = true\npush = [{{ values = [{k}, 3] }}]\n\
                 [[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"f32\"\ncount = 64\nfill = \"half-integers\"\n\
                 [[buffer]]\nname = \"D\"\nbinding = 1\ntype = \"f32\"\ncount = 64\nfill = {{ constant = 99 }}\n"
            ));
            let (before, after) = (interpret(name, &original, &case, 8), interpret(name, &lowered, &case, 8));
            let differences = before.compare(&after, &case).expect("comparable");
            assert!(differences.is_empty(), "{name}, k = {k}: {}", differences[0]);
            different.insert(after.buffer("D").map(<[u8]>::to_vec));
        }
    }
    assert!(different.len() > 10, "only {} results", different.len());
}
