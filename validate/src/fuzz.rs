//! Bodies for fuzzers, kept here so that the tests run them too.

use crate::{Options, check};
use coop_ir::binary;

/// Checks whatever reads as a module. Nothing may panic, and a second check says the same as the first.
pub fn checker(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    let options = Options::default();
    let first = check(&module, &options);
    let second = check(&module, &options);
    assert_eq!(first.findings.len(), second.findings.len(), "the same module, another verdict");
    for f in &first.findings {
        assert!(!f.message.is_empty() && !f.labels.is_empty(), "{}: an empty finding", f.rule.id);
    }
}
