//! The body of the fuzzer of component types, kept here so that the tests run it too.

use coop_components::{Error, Lacks, Options, lower};
use coop_device::{Requirement, capability_requirement};
use coop_ir::binary;

/// Lowers the component types of whatever reads as a module, for a device that lacks some features, which the bytes choose.
/// Nothing may panic; what is lowered can be read again, and declares nothing that the device lacks.
pub fn components(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    let hash = bytes.iter().fold(0u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)) >> 8;
    // All of them for one in four.
    let chosen = |n: usize| hash & 3 == 0 || hash >> (n + 2) & 1 == 1;
    let features = Lacks::FEATURES.into_iter().enumerate().filter(|(n, _)| chosen(*n));
    let lacks = features.filter_map(|(_, f)| Lacks::without(f)).fold(Lacks::default(), Lacks::and);
    match lower(&module, &Options::new(lacks)) {
        Ok(done) => {
            let words = binary::write_words(&done.module);
            let again = binary::read_words(&words).unwrap_or_else(|e| panic!("the output can't be read: {e}"));
            let lacking = again.capabilities().find(|c| match capability_requirement(*c) {
                Requirement::AnyOf(features) => features.iter().all(|f| lacks.has(*f)),
                _ => false,
            });
            assert_eq!(lacking, None, "a capability that the device lacks is left");
        }
        Err(Error::Refused(refusal)) => {
            assert!(refusal.rule.starts_with("refused-") && !refusal.remedy.is_empty(), "{refusal}");
        }
        Err(bug) => panic!("{bug}"),
    }
}
