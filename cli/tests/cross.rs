//! The archive for another architecture.

use std::path::Path;
use std::process::Command;

/// The script runs the tools with QEMU and compares what they do with what this machine's do.
#[test]
#[ignore = "scripts/test.sh long runs it: two release builds of a quarter of an hour"]
fn tools_for_aarch64_work_and_are_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cross");
    let _ = std::fs::remove_dir_all(&out);
    let target = "aarch64-unknown-linux-gnu";
    let mut script = Command::new("bash");
    let done = script.arg(root.join("scripts/release.sh")).arg(target).env("OUT", &out).output().expect("bash");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let name = format!("coop-{}-{target}", env!("CARGO_PKG_VERSION"));
    let unpacked = Command::new("tar").arg("-xzf").arg(format!("{name}.tar.gz")).current_dir(&out).status();
    assert!(unpacked.is_ok_and(|status| status.success()));
    for tool in ["coopcheck", "cooplower", "cooprun"] {
        let program = std::fs::read(out.join(&name).join(tool)).expect("a program");
        assert!(program.len() < 10_000_000, "{tool} has {} bytes", program.len());
        // An ELF file for little-endian 64-bit ARM.
        assert_eq!((&program[..4], &program[18..20]), (&b"\x7fELF"[..], &[0xb7, 0][..]), "{tool}");
    }
}
