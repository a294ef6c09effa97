//! Certificates: what the library lowers is proved for a case, and what was changed afterwards is not.

use coopmat::{Device, Lowered, Outcome, PipelineOptions, Prepared, ProofMode, ProofOptions, Target, Uncertified};

fn file(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kernels/").to_owned() + name;
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn lowered(module: &Prepared, device: &Device, target: Target) -> (PipelineOptions, Lowered) {
    let mut options = PipelineOptions::default();
    (options.target, options.always_lower) = (target, true);
    for id in 0..4 {
        options.specialization.set_u32(id, 8);
    }
    match module.for_pipeline(device, &options) {
        Outcome::Lowered(lowered) => (options, *lowered),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lowered_words_get_a_certificate() {
    let module = Prepared::read_bytes(&file("gemm_simple.spv")).expect("a module");
    let device = Device::builtin("mesa-lavapipe").expect("a device");
    let case = String::from_utf8(file("gemm_simple.toml")).expect("text");
    for target in [Target::Scalar, Target::Khr] {
        let (pipeline, words) = lowered(&module, &device, target);
        for mode in [ProofMode::Reals, ProofMode::Rounding] {
            let mut asked = ProofOptions::new(case.clone());
            asked.mode = mode;
            let certificate = module.certify(&device, &pipeline, &words, &asked).unwrap_or_else(|why| panic!("{why}"));
            assert!(certificate.is_for(&module, &words));
            assert_eq!((certificate.mode, certificate.decisions), (mode, 0));
            assert_eq!(certificate.specialization, pipeline.specialization);
            assert_eq!(certificate.subgroup_size, 8);
            assert!(certificate.stored > 0 && certificate.log2_error < -40.0, "{certificate:?}");
            assert!(certificate.lowered_blocks.missed.is_empty(), "{certificate}");
            assert!(certificate.to_string().starts_with("proved: "), "{certificate}");
        }
    }
}

#[test]
fn other_words_get_none() {
    let module = Prepared::read_bytes(&file("gemm_simple.spv")).expect("a module");
    let device = Device::builtin("mesa-lavapipe").expect("a device");
    let case = String::from_utf8(file("gemm_simple.toml")).expect("text");
    let (pipeline, words) = lowered(&module, &device, Target::Scalar);
    let certificate = module.certify(&device, &pipeline, &words, &ProofOptions::new(case.clone())).expect("a proof");
    // The additions of floats become subtractions.
    let mut broken = words.clone();
    let (mut at, mut changed) = (5, 0);
    while at < broken.words.len() {
        let (length, op) = ((broken.words[at] >> 16) as usize, broken.words[at] & 0xffff);
        if op == 129 {
            broken.words[at] = broken.words[at] & !0xffff | 131;
            changed += 1;
        }
        at += length.max(1);
    }
    let fused = changed == 0;
    assert!(!fused, "the lowering has no addition of floats to break");
    assert!(!certificate.is_for(&module, &broken));
    match module.certify(&device, &pipeline, &broken, &ProofOptions::new(case)) {
        Err(Uncertified::Refuted(why)) => assert!(why.contains("stored elements differ"), "{why}"),
        other => panic!("{other:?}"),
    }
    let failed = module.certify(&device, &pipeline, &words, &ProofOptions::new("workgroups = 3"));
    assert!(matches!(failed, Err(Uncertified::Failed(_))), "{failed:?}");
}

/// A certificate is about the subgroups of the pipeline, and says which outputs it does not compare.
#[test]
fn certificates_are_about_the_pipeline() {
    let module = Prepared::read_bytes(&file("gemm_simple.spv")).expect("a module");
    let device = Device::builtin("mesa-lavapipe").expect("a device");
    let case = String::from_utf8(file("gemm_simple.toml")).expect("text");
    let (mut pipeline, words) = lowered(&module, &device, Target::Scalar);
    let other = format!("subgroup-size = 32\n{case}");
    pipeline.required_subgroup_size = Some(8);
    match module.certify(&device, &pipeline, &words, &ProofOptions::new(other)) {
        Err(Uncertified::Failed(why)) => assert!(why.contains("subgroups of 32, and the pipeline requires 8"), "{why}"),
        other => panic!("{other:?}"),
    }
    let buffers = case.split("[[expect]]").next().unwrap_or_default();
    let ignored = "[[buffer]]\nname = \"W\"\nbinding = 9\ntype = \"u32\"\ncount = 4\ntolerance = \"any\"\n";
    let more = format!("{buffers}{ignored}");
    let certificate = module.certify(&device, &pipeline, &words, &ProofOptions::new(more)).expect("a proof");
    assert!(certificate.text.contains("W is not compared"), "{certificate}");
}
