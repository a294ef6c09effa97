//! Every kernel of `testdata/kernels`, lowered to scalar code and then for a device that lacks all component types, gives the
//! bytes that the scalar code gives.

mod common;

use common::{everything, interpret, same, scalar, try_lowered};
use coop_exec::testing::{kernels, run_clean};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::vulkan_test;
use coop_ir::binary;

/// The kernels that are refused, with a part of the reason.
const REFUSED: [(&str, &str); 1] = [("bda", "does not access f16 by address")];

#[test]
fn kernels_without_component_types_in_the_interpreter() {
    let (mut ran, mut refused) = (0, 0);
    for kernel in kernels() {
        let what = kernel.to_string();
        let case = kernel.case();
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        match try_lowered(&what, &plain, everything()) {
            Ok(lowered) => {
                let expected = interpret(&what, &plain, &case, 8);
                let found = interpret(&format!("{what}, lowered"), &lowered.module, &case, 8);
                same(&what, &found, &expected);
                ran += 1;
            }
            Err(e) => {
                let known = REFUSED.iter().find(|(name, _)| *name == kernel.module);
                assert!(known.is_some_and(|(_, why)| e.to_string().contains(why)), "{what}: {e}");
                refused += 1;
            }
        }
    }
    assert_eq!((ran, refused), (33, 1), "pairs of kernels and cases that run, and that are refused");
}

fn on_device(device: &VulkanExecutor<'_>) {
    for kernel in kernels() {
        let (what, case) = (kernel.to_string(), kernel.case());
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        let Ok(lowered) = try_lowered(&what, &plain, everything()) else { continue };
        let outcome = run_clean(device, &binary::write_words(&lowered.module), &case);
        let outcome = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
        let wrong: Vec<String> = outcome.check(&case).expect("a case").iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{what}: {}", wrong.join("\n"));
    }
}

vulkan_test!(
    Lavapipe,
    fn kernels_without_component_types_on_lavapipe(device) {
        on_device(device);
    }
);
