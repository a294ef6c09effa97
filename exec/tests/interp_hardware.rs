//! The modules of `testdata/hardware` in the interpreter: nothing that they do is undefined, where elements are does not show, and
//! what comes out is what was recorded on a device.

use coop_exec::interp::{Config, Interpreted, Placement, Semantics};
use coop_exec::record::{self, Subject};
use coop_exec::{Case, testing};

fn subjects(prefix: &str) -> Vec<Subject> {
    let all = record::subjects(&testing::repository().join("testdata/hardware")).unwrap();
    all.into_iter().filter(|subject| subject.name.starts_with(prefix)).collect()
}

/// Both semantics, and with each another placement.
fn configs() -> [Config; 2] {
    let nvidia = Config { semantics: Semantics::Nvidia, placement: Placement::Permuted, ..Config::default() };
    [Config::default(), nvidia]
}

#[test]
fn sound() {
    let mut failures = Vec::new();
    let only = std::env::var("COOP_HARDWARE").unwrap_or_default();
    for subject in subjects(&only) {
        let words = testing::words(&subject.module);
        for path in &subject.cases {
            for (variant, case) in Case::load(path).unwrap().all_variants().unwrap() {
                for config in configs() {
                    let (_, report) = match (Interpreted { config }).run_case(&words, &case) {
                        Ok(ran) => ran,
                        Err(error) => {
                            failures.push(format!("{} {variant:?}: {error}", subject.name));
                            continue;
                        }
                    };
                    let found = report.findings.iter().filter(|finding| finding.kind.is_undefined_behaviour());
                    failures.extend(found.map(|f| format!("{} {variant:?} {:?}: {f}", subject.name, config.semantics)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
