//! The body of the fuzzer, kept here so that the tests run it too.

use crate::{Error, Lanes, Options, Target, lower};
use coop_ir::{Op, binary};

/// Lowers whatever reads as a module, in each mode. Nothing may panic; what is lowered can be read again and has no
/// matrices. (Modules that break rules lower to modules that break rules: more can't be asked of those.)
pub fn lowering(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    for (lanes, size) in [(Lanes::Subgroup, 8), (Lanes::LocalIndex, 32)] {
        let mut options = Options::new(Target::Scalar);
        options.lanes = lanes;
        options.subgroup_size = Some(size);
        options.spec_defaults = true;
        options.verify_each = false;
        match lower(&module, &options) {
            Ok(lowered) => {
                let words = binary::write_words(&lowered.module);
                let again = binary::read_words(&words).unwrap_or_else(|e| panic!("the output can't be read: {e}"));
                assert!(again.globals_with(Op::TypeCooperativeMatrixKHR).next().is_none(), "a matrix is left");
            }
            Err(Error::Refused(refusal)) => {
                assert!(refusal.rule.starts_with("refused-") && !refusal.remedy.is_empty(), "{refusal}");
            }
            Err(bug) => panic!("{bug}"),
        }
    }
}
