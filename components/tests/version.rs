//! Modules of SPIR-V 1.6 for devices that take an older version: what that version lacks is undone or refused, and original and
//! output leave the same bytes.

mod common;

use common::{interpret, parse, run_on, same, scalar, valid, valid_for};
use coop_components::{Error, Lacks, Lowered, Options, lower};
use coop_device::Profile;
use coop_exec::testing::{case, kernels, repository};
use coop_exec::{Case, vulkan_test};
use coop_ir::spv::Capability;
use coop_ir::{Module, binary};

/// The versions of Vulkan before 1.3, with an extension, the version of SPIR-V that each takes, and what spirv-val calls it.
const OLDER: [(&str, &str, (u8, u8), &str); 3] = [
    ("1.2.0", "[]", (1, 5), "vulkan1.2"),
    ("1.1.0", r#"["VK_KHR_spirv_1_4"]"#, (1, 4), "vulkan1.1spv1.4"),
    ("1.1.0", "[]", (1, 3), "vulkan1.1"),
];

/// The lacks of a device of a Vulkan with every feature that passes do without.
fn of_vulkan(api: &str, extensions: &str) -> Lacks {
    let features: Vec<String> = Lacks::FEATURES.iter().map(|f| format!("\"{f}\": true")).collect();
    let features = features.join(", ");
    let json = format!(
        r#"{{"name": "test", "apiVersion": "{api}", "limits": {{"subgroupSize": 8}}, "extensions": {extensions}, "features": {{{features}}}}}"#
    );
    Lacks::of(&Profile::from_json(&json).unwrap_or_else(|e| panic!("{e}")))
}

fn source() -> String {
    let path = repository().join("testdata/components/versions.spvasm");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn module() -> (Module, Case) {
    (parse(&source()), case("testdata/components/versions.toml"))
}

fn lowered(what: &str, module: &Module, lacks: Lacks) -> Lowered {
    lower(module, &Options::new(lacks)).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Newer parts of SPIR-V are undone, and the output does what the module did.
#[test]
fn older_versions_of_a_module() {
    let (module, case) = module();
    assert_eq!(module.header.version_pair(), (1, 6));
    valid("the original", &module);
    let wanted = interpret("the original", &module, &case, 8);
    for (api, extensions, version, environment) in OLDER {
        let lowered = lowered(environment, &module, of_vulkan(api, extensions)).module;
        assert_eq!(lowered.header.version_pair(), version);
        valid_for(environment, environment, &lowered);
        same(environment, &interpret(environment, &lowered, &case, 8), &wanted);
    }
}

vulkan_test!(
    Lavapipe,
    fn older_versions_of_a_module_on_lavapipe(device) {
        let (module, case) = module();
        let wanted = run_on(device, "the original", &module, &case);
        same("the original", &wanted, &interpret("the original", &module, &case, 8));
        for (api, extensions, _, environment) in OLDER {
            let lowered = lowered(environment, &module, of_vulkan(api, extensions)).module;
            same(environment, &run_on(device, environment, &lowered, &case), &wanted);
        }
    }
);

/// Kernels for a device of Vulkan 1.1 with all features, and with none.
#[test]
fn kernels_become_those_of_vulkan_1_1() {
    for (n, kernel) in kernels().into_iter().enumerate() {
        let (what, case) = (kernel.to_string(), kernel.case());
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        let vulkan = of_vulkan("1.1.0", "[]");
        let lowered = lowered(&what, &plain, vulkan).module;
        assert!(lowered.header.version_pair() <= (1, 3), "{what}");
        valid_for("vulkan1.1", &what, &lowered);
        if n % 5 == 0 {
            let wanted = interpret(&what, &plain, &case, 8);
            same(&what, &interpret(&what, &lowered, &case, 8), &wanted);
        }
        let Ok(without) = lower(&plain, &Options::new(vulkan.and(Lacks::all()))) else { continue };
        valid_for("vulkan1.1", &what, &without.module);
    }
}

/// Parts of a text and what comes instead.
type Changes<'a> = &'a [(&'a str, &'a str)];

/// Replaces parts of the module.
fn changed(parts: Changes<'_>) -> Module {
    let mut text = source();
    for (part, other) in parts {
        assert!(text.contains(part), "no {part} in {text}");
        text = text.replacen(part, other, 1);
    }
    parse(&text)
}

/// Instructions and operands without a form in an older version are refused, by name and the version that they are part of.
#[test]
fn what_has_no_older_form_is_refused() {
    // Parts of the module, what comes instead, and parts of the reason.
    let shuffle = ("OpCapability GroupNonUniformShuffle\n", "");
    let rows: [(Changes<'_>, &[&str]); 5] = [
        (&[("OpReturn\n", "%same = OpPtrEqual %bool %sixth %eighth\nOpReturn\n")], &["OpPtrEqual", "1.4", "1.3"]),
        (&[shuffle], &["OpGroupNonUniformBroadcast", "1.5", "constant"]),
        (&[("OpCapability Shader\n", "OpCapability Shader\nOpCapability ShaderLayer\n")], &["ShaderLayer", "1.5"]),
        (
            &[
                ("%v70 =", "%narrow = OpSpecConstantOp %ushort UConvert %wide\n%v70 ="),
                ("OpReturn\n", "%copy = OpCopyObject %ushort %narrow\nOpReturn\n"),
            ],
            &["UConvert", "1.4"],
        ),
        (&[("OpReturn\n", "OpTerminateInvocation\n")], &["OpTerminateInvocation", "1.6"]),
    ];
    for (parts, why) in rows {
        match lower(&changed(parts), &Options::new(of_vulkan("1.1.0", "[]"))) {
            Err(Error::Refused(refused)) => {
                assert_eq!(refused.rule, "refused-spirv-version", "{refused}");
                assert!(why.iter().all(|part| refused.reason.contains(part)), "{refused}");
                assert!(refused.at.is_some() && !refused.remedy.is_empty(), "{refused}");
            }
            other => panic!("{why:?}: {:?}", other.map(|lowered| lowered.report)),
        }
    }
}

/// Shared memory with an explicit layout is for SPIR-V 1.4, whatever else the device has.
#[test]
fn shared_memory_with_a_layout() {
    let path = repository().join("testdata/components/shared.spvasm");
    let source = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (module, case) = (parse(&source), case("testdata/components/shared.toml"));
    let wanted = interpret("the original", &module, &case, 8);
    for (api, extensions, version, environment) in OLDER {
        let lowered = lowered(environment, &module, of_vulkan(api, extensions)).module;
        assert_eq!(lowered.header.version_pair(), version);
        let layout = lowered.capabilities().any(|c| c == Capability::WorkgroupMemoryExplicitLayoutKHR);
        assert_eq!(layout, version >= (1, 4), "{environment}");
        valid_for(environment, environment, &lowered);
        same(environment, &interpret(environment, &lowered, &case, 8), &wanted);
    }
    // A pointer that is passed has no one variable.
    let text = source.replace("OpStore %ph %h\n", "%none = OpFunctionCall %void %take %ph\n");
    let callee = "%give = OpTypeFunction %void %to_half\n%index =";
    let text = text.replacen("%index =", callee, 1)
        + "%take = OpFunction %void None %give\n%given = OpFunctionParameter %to_half\n%inside = OpLabel\nOpReturn\nOpFunctionEnd\n";
    match lower(&parse(&text), &Options::new(of_vulkan("1.1.0", "[]"))) {
        Err(Error::Refused(refused)) => assert!(refused.reason.contains("a parameter points to"), "{refused}"),
        other => panic!("{:?}", other.map(|lowered| lowered.report)),
    }
}

/// Versions before 1.3 are refused: subgroups and storage buffers are not part of them.
#[test]
fn versions_before_1_3_are_refused() {
    match lower(&module().0, &Options::new(of_vulkan("1.0.0", "[]"))) {
        Err(Error::Refused(refused)) => {
            assert_eq!(refused.rule, "refused-spirv-version");
            assert!(refused.reason.contains("SPIR-V 1.0"), "{refused}");
        }
        other => panic!("{:?}", other.map(|lowered| lowered.report)),
    }
}
