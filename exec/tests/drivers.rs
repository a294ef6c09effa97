//! Checks the faults of lavapipe in `docs/drivers.md`, each in a process of its own: a fault that a new driver no longer has
//! fails here, and its section is to be removed.

use std::process::Command;

use coop_exec::case::Number;
use coop_exec::interp::{Config, Interpreted};
use coop_exec::{Case, Error, testing, vulkan_test};

/// The result of running a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// The process ends by a signal.
    Ends,
    /// The result differs from the interpreter's.
    Differs,
}

/// The modules with their cases. Sums of 8-bit products are not among them: that depends on the processor.
const WRONG: [(&str, &str, Wrong); 10] = [
    ("hardware/stride64.spvasm", "passes/variable-initializer.toml", Wrong::Ends),
    ("hardware/element.struct.spv", "hardware/element.struct.toml", Wrong::Ends),
    ("drivers/bytes-in-wide-vectors.spvasm", "drivers/bytes-in-wide-vectors.toml", Wrong::Ends),
    ("drivers/column-major-in-vain.spvasm", "drivers/column-major-in-vain.toml", Wrong::Ends),
    ("drivers/tiles-and-callback.spvasm", "drivers/tiles-and-callback.toml", Wrong::Ends),
    ("drivers/tiles-in-array.spvasm", "drivers/tiles-in-array.toml", Wrong::Ends),
    ("drivers/barrier-of-some-subgroups.spvasm", "drivers/barrier-of-some-subgroups.toml", Wrong::Differs),
    ("drivers/private-array-read-late.spvasm", "drivers/private-array-read-late.toml", Wrong::Differs),
    ("drivers/tiles-and-c.spvasm", "drivers/tiles-and-c.toml", Wrong::Differs),
    ("drivers/tiles-and-reduction.spvasm", "drivers/tiles-and-reduction.toml", Wrong::Differs),
];

/// The environment variable that names the module for a process.
const ONE: &str = "COOP_TEST_ONE";
/// The exit status of such a process where results differ.
const DIFFERENT: i32 = 3;

vulkan_test!(
    Lavapipe,
    fn lavapipe_gets_wrong_what_its_page_says(device) {
        if let Some(one) = std::env::var_os(ONE).and_then(|one| one.to_str()?.parse::<usize>().ok()) {
            let (module, case) = subject(one);
            let wanted = interpreted(&module, &case, 8);
            let got = testing::run(device, &module, &case).unwrap_or_else(|e: Error| panic!("{e}"));
            let same = got.compare(&wanted, &case).unwrap().is_empty();
            std::process::exit(if same { 0 } else { DIFFERENT });
        }
        let seen: Vec<String> = (0..WRONG.len()).map(|one| format!("{}: {}", WRONG[one].0, alone(one))).collect();
        let wanted: Vec<String> = WRONG.iter().map(|(module, _, wrong)| format!("{module}: {wrong:?}")).collect();
        assert_eq!(seen, wanted);
    }
);

/// The modules that Debian 12's lavapipe gets wrong.
const WRONG_ON_DEBIAN_12: [&str; 1] = ["visible-loads"];

vulkan_test!(
    Debian12,
    fn debian_12_gets_wrong_what_the_page_says(device) {
        for name in WRONG_ON_DEBIAN_12.map(|n| format!("testdata/drivers/debian12/{n}")) {
            let (module, case) = (testing::words(format!("{name}.spvasm")), testing::case(format!("{name}.toml")));
            let wanted = interpreted(&module, &case, 8);
            let got = testing::run(device, &module, &case).unwrap_or_else(|e: Error| panic!("{e}"));
            assert!(!got.compare(&wanted, &case).unwrap().is_empty(), "{name} is right: remove its section");
        }
    }
);

#[test]
fn the_page_has_those_of_debian_12() {
    let folder = testing::repository().join("testdata/drivers/debian12");
    let page = std::fs::read_to_string(testing::repository().join("docs/drivers.md")).unwrap();
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|f| f.file_name().to_string_lossy().into_owned());
    let mut modules: Vec<String> = names.filter_map(|n| n.strip_suffix(".spvasm").map(str::to_owned)).collect();
    modules.sort();
    assert_eq!(modules, WRONG_ON_DEBIAN_12);
    for name in modules {
        assert!(page.contains(&format!("testdata/drivers/debian12/{name}.spvasm")), "{name} is not on the page");
    }
}

/// Every module of `testdata/drivers` is one of them, and has its place on the page.
#[test]
fn the_page_has_them_all() {
    let page = std::fs::read_to_string(testing::repository().join("docs/drivers.md")).unwrap();
    let files = std::fs::read_dir(testing::repository().join("testdata/drivers")).unwrap().flatten();
    for name in files.map(|f| format!("drivers/{}", f.file_name().to_string_lossy())).filter(|n| n.ends_with(".spvasm"))
    {
        assert!(WRONG.iter().any(|(module, _, _)| *module == name), "{name}");
    }
    for (one, (name, _, _)) in WRONG.iter().enumerate() {
        assert!(page.contains(&format!("testdata/{name}")), "{name} is not on the page");
        let (module, case) = subject(one);
        interpreted(&module, &case, 8);
    }
}

/// Faults of NVIDIA GPUs can't be reproduced here: the modules must be defined and be named in the document.
#[test]
fn the_page_has_those_of_nvidia() {
    let folder = testing::repository().join("testdata/drivers/nvidia");
    let page = std::fs::read_to_string(testing::repository().join("docs/drivers.md")).unwrap();
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|f| f.file_name().to_string_lossy().into_owned());
    let mut modules: Vec<String> = names.filter(|n| n.ends_with(".spvasm")).collect();
    modules.sort();
    let wanted = [
        "held-across-loops",
        "negated-byte",
        "shared-order",
        "stride-read",
        "tensor-address",
        "unroll-and-return",
        "workgroup-step",
    ];
    let wanted = wanted.map(|n| format!("{n}.spvasm"));
    assert_eq!(modules, wanted);
    for name in modules.iter().map(|n| format!("testdata/drivers/nvidia/{n}")) {
        assert!(page.contains(&name), "{name} is not on the page");
        let outcome = interpreted(&testing::words(&name), &testing::case(name.replace("spvasm", "toml")), 32);
        assert!(outcome.buffers.iter().any(|(name, _)| name == "out"));
    }
}

fn subject(one: usize) -> (Vec<u32>, Case) {
    let (module, case, _) = WRONG[one];
    let mut case = testing::case(format!("testdata/{case}"));
    if module.contains("element.struct") {
        case.spec.extend((0..3).map(|id| (id.to_string(), Number::Int(8))));
    }
    (testing::words(format!("testdata/{module}")), case)
}

/// Returns the interpreter's result, in which nothing is undefined.
fn interpreted(module: &[u32], case: &Case, subgroup_size: u32) -> coop_exec::Outcome {
    let config = Config { subgroup_size, ..Config::default() };
    let module = coop_ir::binary::read_words(module).unwrap();
    let (buffers, report) = Interpreted { config }.run_module(&module, case).unwrap();
    let outcome = Interpreted::outcome(buffers, &report);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    outcome
}

/// Returns the result of a module in a process of its own.
fn alone(one: usize) -> String {
    let wrapper = testing::Driver::Lavapipe.wrapper_or_skip("a process").expect("there is a device");
    let program = std::env::args_os().next().expect("a process has a name");
    let output = Command::new(wrapper)
        .arg(program)
        .args(["--exact", "lavapipe_gets_wrong_what_its_page_says", "--nocapture", "--test-threads=1"])
        .env(ONE, one.to_string())
        .output()
        .expect("a process");
    match output.status.code() {
        Some(DIFFERENT) => format!("{:?}", Wrong::Differs),
        Some(0) => "is right".into(),
        Some(status) => format!("status {status}: {}", String::from_utf8_lossy(&output.stderr)),
        None => format!("{:?}", Wrong::Ends),
    }
}
