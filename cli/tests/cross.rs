//! The archives, that for another architecture too.

use std::path::Path;
use std::process::Command;

/// The script runs the tools for the other architecture with QEMU, and compares what they do with what this machine's do. It packs both,
/// and no program above its limit.
#[test]
#[ignore = "scripts/test.sh long runs it: two release builds of a quarter of an hour"]
fn tools_for_aarch64_work_and_all_are_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cross");
    let _ = std::fs::remove_dir_all(&out);
    // With the processor in the head of an ELF file for 64-bit machines.
    let targets = [("aarch64-unknown-linux-gnu", 0xb7), ("x86_64-unknown-linux-gnu", 0x3e)];
    let mut script = Command::new("bash");
    script.arg(root.join("scripts/release.sh")).args(targets.map(|(target, _)| target)).env("OUT", &out);
    let done = script.output().expect("bash");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for (target, machine) in targets {
        let name = format!("coop-{}-{target}", env!("CARGO_PKG_VERSION"));
        let unpacked = Command::new("tar").arg("-xzf").arg(format!("{name}.tar.gz")).current_dir(&out).status();
        assert!(unpacked.is_ok_and(|status| status.success()), "{name}");
        for tool in ["coop", "coopcheck", "cooplower", "cooprun"] {
            let program = std::fs::read(out.join(&name).join(tool)).expect("a program");
            assert!(program.len() < 10_000_000, "{tool} for {target} has {} bytes", program.len());
            assert_eq!((&program[..4], &program[18..20]), (&b"\x7fELF"[..], &[machine, 0][..]), "{tool} for {target}");
        }
    }
}
