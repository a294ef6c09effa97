//! Bodies for fuzzers, kept here so that the tests run them too.

use coop_device::Profile;
use coop_ir::binary;
use coop_validate::{Device, Options, check, check_device};
use std::sync::Arc;

/// Checks whatever reads as a module, also for a device. Nothing may panic, and a second check says the same as the first.
pub fn checker(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    let mut options = Options::default();
    options.device = Profile::builtin("nvidia-h100").map(|p| Arc::new(Device::new(p)));
    let first = check(&module, &options);
    let second = check(&module, &options);
    assert_eq!(first.findings.len(), second.findings.len(), "the same module, another verdict");
    check_device(&module, &options);
    for f in &first.findings {
        assert!(!f.message.is_empty() && !f.labels.is_empty(), "{}: an empty finding", f.rule.id);
    }
}
