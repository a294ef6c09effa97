//! Every kernel on the weakest device there is a profile of: SwiftShader, with subgroups of 4 and without any component type.

use coop_exec::interp::Interpreted;
use coop_exec::testing::{kernels, wrong};
use coop_exec::{Executor, RunOptions};
use coopmat::{Device, Outcome, PipelineOptions, Prepared};
use std::collections::BTreeMap;

/// The reasons why kernels don't run, with how many pairs of kernel and case each of them is for.
const REFUSED: [(&str, u64); 1] = [(
    "google-swiftshader does not run the module, lowered or not: capability Float16 needs feature shaderFloat16, which \
     google-swiftshader does not have",
    // Behind device addresses.
    1,
)];

#[test]
fn kernels_on_a_device_without_component_types() {
    let device = Device::builtin("google-swiftshader").expect("a profile");
    let (mut ran, mut refused) = (0, BTreeMap::new());
    for kernel in kernels() {
        let (what, case) = (kernel.to_string(), kernel.case());
        let prepared = Prepared::read(&kernel.words()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut options = PipelineOptions::default();
        let spec = case.specialization().expect("values");
        for (id, value) in spec.iter() {
            let coop_ir::constant::SpecValue::Int(value) = value else { continue };
            options.specialization.set_u32(id, value as u32);
        }
        // Every case is made for subgroups of 8, which this device emulates.
        options.required_subgroup_size = Some(8);
        match prepared.for_pipeline(&device, &options) {
            Outcome::Lowered(lowered) => {
                let mut interpreter = Interpreted::default();
                interpreter.config.subgroup_size = 4;
                let outcome = interpreter.run(&lowered.words, &case, &RunOptions::default());
                let wrong = wrong(&what, outcome, &case);
                assert!(wrong.is_empty(), "{}", wrong.join("\n"));
                ran += 1;
            }
            Outcome::Refused(r) => *refused.entry(r.message.clone()).or_insert(0) += 1,
            Outcome::Native => panic!("{what}: the device has no matrices"),
        }
    }
    let found: Vec<(&str, u64)> = refused.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    assert_eq!((ran, found.as_slice()), (33, &REFUSED[..]));
}
