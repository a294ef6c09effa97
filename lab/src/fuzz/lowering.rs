//! The body of the fuzzer, kept here so that the tests run it too.

use coop_device::Profile;
use coop_ir::{Module, Op, binary, verify};
use coop_passes::{Checked, Error, Lanes, Options, Target, Tf32, Vulkan, lower};
use std::sync::LazyLock;

/// Ways to lower, which between them run every pass with every kind of realisation.
static MODES: LazyLock<Vec<Options<'static>>> = LazyLock::new(|| {
    static DEVICES: LazyLock<[Profile; 3]> = LazyLock::new(|| {
        let builtin = |name| Profile::builtin(name).unwrap_or_else(|| unreachable!("{name} is built in"));
        [builtin("nvidia-h100"), builtin("mesa-lavapipe"), builtin("mesa-lavapipe").with_maintenance1()]
    });
    let [h100, lavapipe, maintenance] = &*DEVICES;
    let mode = |target, profile: Option<&'static Profile>, subgroup_size| {
        let mut options = Options::new(target);
        options.profile = profile;
        options.subgroup_size = subgroup_size;
        options.spec_defaults = true;
        options.verify_each = false;
        options
    };
    let kernel = Some(Vulkan { local_arguments: [(0, 64), (3, 256)].into() });
    vec![
        mode(Target::Scalar, None, Some(8)),
        Options { lanes: Lanes::LocalIndex, ..mode(Target::Scalar, None, Some(32)) },
        mode(Target::Scalar, Some(h100), None),
        Options { checked: Checked::Prose, ..mode(Target::Khr, Some(h100), None) },
        Options { tf32: Tf32::Rne, ..mode(Target::Khr, Some(lavapipe), None) },
        mode(Target::Ext, Some(maintenance), None),
        Options {
            vulkan: kernel.clone(),
            local_size: Some([16, 1, 1]),
            lanes: Lanes::LocalIndex,
            ..mode(Target::Scalar, Some(lavapipe), None)
        },
        Options { vulkan: kernel, local_size: Some([16, 1, 1]), ..mode(Target::Khr, Some(h100), None) },
    ]
});

/// Lowers whatever reads as a module, in one of eight ways, which its bytes choose. Nothing may panic; what is lowered can be
/// read again, is well formed and has no matrices that the target does not have. (Modules that break rules lower to modules that
/// break rules: more can't be asked of those.)
pub fn lowering(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    let hash = bytes.iter().fold(0u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    in_mode(&module, (hash >> 16) as usize % MODES.len());
}

/// As [`lowering`], in all the ways one after another.
pub fn lowering_in_all_modes(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    (0..MODES.len()).for_each(|mode| in_mode(&module, mode));
}

/// Lowers a module in one way, and looks at what is handed out.
fn in_mode(module: &Module, mode: usize) {
    let options = &MODES[mode];
    match lower(module, options) {
        Ok(lowered) => {
            let words = binary::write_words(&lowered.module);
            let again = binary::read_words(&words).unwrap_or_else(|e| panic!("the output can't be read: {e}"));
            // What has no matrices comes back as it is.
            let left = |op| lowered.report.changed && again.globals_with(op).next().is_some();
            assert!(!left(Op::TypeCooperativeMatrixNV), "a matrix of SPV_NV_cooperative_matrix is left");
            assert!(options.target != Target::Scalar || !left(Op::TypeCooperativeMatrixKHR), "a matrix is left");
            if lowered.report.changed
                && let Err(problems) = verify::verify(&again)
            {
                panic!("the output is not well formed: {}", problems[0]);
            }
        }
        Err(Error::Refused(refusal)) => {
            assert!(refusal.rule.starts_with("refused-") && !refusal.remedy.is_empty(), "{refusal}");
        }
        Err(bug) => panic!("{bug}"),
    }
}
