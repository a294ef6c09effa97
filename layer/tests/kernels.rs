//! Every kernel of testdata through the layer, run as if the device had its matrices, against what its case expects.

mod support;

use coop_exec::testing::{Kernel, kernels, run};
use coop_exec::{Error, Vulkan};

/// What became of the kernels.
#[derive(Default)]
struct Tally {
    right: Vec<String>,
    wrong: Vec<String>,
    /// The device as the layer shows it lacks something.
    unsupported: Vec<String>,
    /// The layer refuses the pipeline.
    refused: Vec<String>,
}

fn run_all(select: impl Fn(&Kernel) -> bool) -> Tally {
    let vulkan = Vulkan::open(true).unwrap_or_else(|error| panic!("{error}"));
    let device = vulkan.device(None).unwrap_or_else(|error| panic!("{error}"));
    let mut tally = Tally::default();
    for kernel in kernels().into_iter().filter(select) {
        let case = kernel.case();
        match run(&device, &kernel.words(), &case) {
            Ok(outcome) => {
                let said = outcome.messages.iter().chain(&outcome.faults).cloned();
                let differences = outcome.check(&case).unwrap_or_else(|error| panic!("{kernel}: {error}"));
                let wrong: Vec<String> = said.chain(differences.iter().map(ToString::to_string)).collect();
                match wrong.as_slice() {
                    [] => tally.right.push(kernel.to_string()),
                    wrong => tally.wrong.push(format!("{kernel}: {}", wrong.join("; "))),
                }
            }
            Err(error @ Error::Unsupported { .. }) => tally.unsupported.push(format!("{kernel}: {error}")),
            Err(error) => tally.refused.push(format!("{kernel}: {error}")),
        }
    }
    tally
}

fn report(tally: &Tally) {
    for (what, list) in
        [("wrong", &tally.wrong), ("unsupported", &tally.unsupported), ("refused", &tally.refused), ("right", &tally.right)]
    {
        eprintln!("{what}: {}", list.len());
        if what != "right" {
            list.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

layer_test!(Debian12, [("COOPMAT_EXTENSIONS", "all")], fn kernels_run_on_a_device_without_matrices() {
    let tally = run_all(|_| true);
    report(&tally);
    assert!(tally.wrong.is_empty());
});

layer_test!(Lavapipe, [("COOPMAT_EXTENSIONS", "all")], fn kernels_run_on_small_matrices() {
    let tally = run_all(|_| true);
    report(&tally);
    assert!(tally.wrong.is_empty());
});
