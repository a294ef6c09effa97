//! `coop reduce`.

use super::*;

#[test]
fn a_module_becomes_small() {
    let folder = folder("reduce");
    let small = folder.join("small.spv");
    let command = format!("{} print {{}} | grep -q 'OpCooperativeMatrixMulAddKHR'", env!("CARGO_BIN_EXE_coop"));
    let out = tool(env!("CARGO_BIN_EXE_coop"))
        .args(["reduce", GEMM, "--quiet", "-o"])
        .arg(&small)
        .args(["--", "sh", "-c", &command])
        .output()
        .expect("it runs");
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert_eq!(stderr(&out), "");
    let (before, after) = (load(&root().join(GEMM)), load(&small));
    verify::verify(&after).expect("it is well formed");
    assert_eq!(after.all().filter(|r| after.inst(*r).op == Op::CooperativeMatrixMulAddKHR).count(), 1);
    let [many, few] = [before, after].map(|m| m.all().count());
    assert!(few <= 60 && many > 200, "{few} of {many} instructions are left");
    if let Some(mut val) = spirv_tool("spirv-val") {
        let out = val.args(["--target-env", "vulkan1.3"]).arg(&small).output().expect("it runs");
        assert!(out.status.success(), "{}{}", stdout(&out), stderr(&out));
    }
}

/// A module that spirv-val accepts stays so: a module of each kind, reduced to one instruction, without spirv-val's help and with it.
#[test]
fn what_is_left_is_valid() {
    let val = |environment: &str, file: &Path| {
        let mut val = spirv_tool("spirv-val")?;
        Some(val.args(["--target-env", environment]).arg(file).output().expect("it runs").status.success())
    };
    if spirv_tool("spirv-val").is_none() {
        return;
    }
    let folder = folder("valid");
    let (file, environments) = (folder.join("small.spv"), ["vulkan1.3", "vulkan1.4", "spv1.6"]);
    let mut tried = 0;
    let wanted = |m: &Module| m.all().find(|r| m.inst(*r).op.is_matrix_store()).map(|r| m.inst(r).op);
    for (name, module) in modules("kernels").into_iter().chain(modules("passes")) {
        let Some(op) = wanted(&module).filter(|_| tried < 24 && module.all().count() < 400) else { continue };
        std::fs::write(&file, binary::write(&module)).expect("writable");
        let Some(environment) = environments.into_iter().find(|e| val(e, &file) == Some(true)) else { continue };
        tried += 1;
        let reduced = reduce(&module, 400, &mut |m| ControlFlow::Continue(m.all().any(|r| m.inst(r).op == op)));
        std::fs::write(&file, binary::write(&reduced.module)).expect("writable");
        let left = text::print(&reduced.module, &text::PrintOptions::default()).text;
        assert_eq!(val(environment, &file), Some(true), "{name} for {environment}:\n{left}");
    }
    assert!(tried > 15, "{tried} modules");
}

/// A loop around what is looked for goes, and so does one that leaves its values to what follows: with a continue target that is
/// reached, and without.
#[test]
fn loops_go() {
    let head = "OpCapability Shader\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %main \"main\"\n\
                OpExecutionMode %main LocalSize 1 1 1\n%void = OpTypeVoid\n%fn = OpTypeFunction %void\n%bool = OpTypeBool\n\
                %true = OpConstantTrue %bool\n%u32 = OpTypeInt 32 0\n%n0 = OpConstant %u32 0\n%n1 = OpConstant %u32 1\n\
                %n9 = OpConstant %u32 9\n%main = OpFunction %void None %fn\n%entry = OpLabel\nOpBranch %head\n%head = OpLabel\n";
    let counted = "%i = OpPhi %u32 %n0 %entry %j %next\n%goes = OpULessThan %bool %i %n9\nOpLoopMerge %merge %next None\n\
                   OpBranchConditional %goes %body %merge\n%body = OpLabel\n%k = OpIMul %u32 %i %i\nOpBranch %next\n\
                   %next = OpLabel\n%j = OpIAdd %u32 %i %n1\nOpBranch %head\n%merge = OpLabel\n%s = OpISub %u32 %i %n1\n";
    let once = "OpLoopMerge %merge %next None\nOpBranch %body\n%body = OpLabel\n%s = OpISub %u32 %n9 %n1\nOpBranch %merge\n\
                %next = OpLabel\nOpBranch %head\n%merge = OpLabel\n";
    let choice = "OpLoopMerge %merge %next None\nOpBranchConditional %true %body %merge\n%body = OpLabel\n\
                  %s = OpISub %u32 %n9 %n1\nOpBranch %merge\n%next = OpLabel\nOpBranch %head\n%merge = OpLabel\n";
    let tail = "OpReturn\nOpFunctionEnd\n";
    for (loop_, wanted) in [(counted, Op::ISub), (counted, Op::IMul), (once, Op::ISub), (choice, Op::ISub)] {
        let module = text::parse(&format!("{head}{loop_}{tail}")).expect("it parses");
        let reduced = reduce(&module, 400, &mut |m| ControlFlow::Continue(m.all().any(|r| m.inst(r).op == wanted)));
        let left = text::print(&reduced.module, &text::PrintOptions::default()).text;
        assert!(
            left.contains(&wanted.to_string()) && !left.contains("OpLoopMerge") && !left.contains("OpPhi"),
            "{left}"
        );
    }
}

/// A function that nothing calls and a variable that nothing uses stay where the test needs them, as it does where a driver looks
/// at them; the others go, and so does what main does not need.
#[test]
fn what_the_test_needs_stays_though_nothing_uses_it() {
    let module = "OpCapability Shader\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %main \"main\"\n\
                  OpExecutionMode %main LocalSize 1 1 1\n%void = OpTypeVoid\n%fn = OpTypeFunction %void\n\
                  %u32 = OpTypeInt 32 0\n%n3 = OpConstant %u32 3\n%n9 = OpConstant %u32 9\n%three = OpTypeArray %u32 %n3\n\
                  %nine = OpTypeArray %u32 %n9\n%to3 = OpTypePointer Workgroup %three\n%to9 = OpTypePointer Workgroup %nine\n\
                  %kept = OpVariable %to3 Workgroup\n%other = OpVariable %to9 Workgroup\n\
                  %main = OpFunction %void None %fn\n%entry = OpLabel\n%sum = OpIAdd %u32 %n3 %n9\nOpReturn\nOpFunctionEnd\n\
                  %f = OpFunction %void None %fn\n%a = OpLabel\n%product = OpIMul %u32 %n3 %n3\nOpReturn\nOpFunctionEnd\n\
                  %g = OpFunction %void None %fn\n%b = OpLabel\n%rest = OpISub %u32 %n9 %n3\nOpReturn\nOpFunctionEnd\n";
    let module = text::parse(module).expect("it parses");
    let has = |m: &Module, op: Op| m.all().any(|r| m.inst(r).op == op);
    let needs = |m: &Module| has(m, Op::IMul) && has(m, Op::Variable);
    let reduced = reduce(&module, 400, &mut |m| ControlFlow::Continue(needs(m)));
    let left = text::print(&reduced.module, &text::PrintOptions::default()).text;
    assert!(needs(&reduced.module) && !left.contains("OpISub") && !left.contains("OpIAdd"), "{left}");
    assert_eq!(left.matches("OpFunction ").count(), 2, "{left}");
    assert_eq!(left.matches("OpVariable").count(), 1, "{left}");
}

/// With spirv-val, what a module declares and does not need goes.
#[test]
fn what_nothing_needs_goes() {
    if spirv_tool("spirv-val").is_none() {
        return;
    }
    let folder = folder("unused");
    let (large, small) = (folder.join("large.spvasm"), folder.join("small.spvasm"));
    let source = text::print(&load(&root().join(GEMM)), &text::PrintOptions::default()).text;
    let source = source.replacen(
        "OpCapability Shader",
        "OpCapability Shader\nOpCapability Int64\nOpCapability GroupNonUniform",
        1,
    );
    let source = source.replacen("OpExtension", "OpExtension \"SPV_KHR_16bit_storage\"\nOpExtension", 1);
    std::fs::write(&large, source).expect("writable");
    let command = format!("{} print {{}} | grep -q OpCooperativeMatrixMulAddKHR", env!("CARGO_BIN_EXE_coop"));
    let names = [&large, &small].map(|file| file.to_string_lossy().into_owned());
    let out = coop(&["reduce", &names[0], "-o", &names[1], "--", "sh", "-c", &command]);
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("valid by spirv-val for vulkan1.3, as the module is"), "{}", stderr(&out));
    let left = std::fs::read_to_string(&small).expect("it was written");
    for gone in [
        "Int64",
        "GroupNonUniform",
        "16BitAccess",
        "SPV_KHR_16bit_storage",
        "OpDecorate",
        "OpName",
        "OpSource",
        "OpSpecConstant",
        "OpVariable",
    ] {
        assert!(!left.contains(gone), "{gone} is left:\n{left}");
    }
    assert!(left.lines().filter(|line| line.contains("OpConstant ")).count() < 8, "{left}");
}

/// A broken rule is what the command looks for; the loop and the branches around it go.
#[test]
fn a_finding_is_kept() {
    let folder = folder("finding");
    let small = folder.join("small.spvasm");
    let small_name = small.to_string_lossy().into_owned();
    let check = env!("CARGO_BIN_EXE_coopcheck");
    let out = coop(&[
        "reduce",
        MISMATCH,
        "-o",
        &small_name,
        "--status",
        "1",
        "--text",
        "muladd-k-mismatch",
        "--",
        check,
        "{}",
    ]);
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("runs of the command"), "{}", stderr(&out));
    let again = tool(check).arg(&small).output().expect("it runs");
    assert!(status(&again) == 1 && stdout(&again).contains("muladd-k-mismatch"), "{}", stdout(&again));
    let text = std::fs::read_to_string(&small).expect("text");
    assert!(text.starts_with("; SPIR-V") && text.contains("OpCooperativeMatrixMulAddKHR"), "{text}");
}

/// The most that a command takes is bounded, with all that it starts, and what is reached is kept.
#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_reached() {
    use nix::sys::signal::{Signal, kill};
    let folder = folder("interrupt");
    let small = folder.join("small.spv");
    let seen = folder.join("seen");
    // The first commands are quick, others hang.
    let script = format!("echo x >> {0}; test $(wc -l < {0}) -lt 3 || sleep 600 & wait; test -s {{}}", seen.display());
    let start = Instant::now();
    let mut child = tool(env!("CARGO_BIN_EXE_coop"))
        .args(["reduce", GEMM, "-o"])
        .arg(&small)
        .args(["--timeout", "100", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = || std::fs::read_to_string(&seen).map_or(0, |text| text.lines().count());
    while lines() < 3 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lines(), 3, "the third command does not end");
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(start.elapsed() < Duration::from_secs(90));
    assert!(said.contains("it may become smaller; to go on: coop reduce "), "{said}");
    let name = small.to_string_lossy();
    assert!(said.contains(&format!("coop reduce {name} -o {name} --timeout 100 -- sh -c 'echo x")), "{said}");
    let left = load(&small).all().count();
    assert!(left < load(&root().join(GEMM)).all().count(), "{left}: the second command confirmed a step");
    // A command that takes too long is not kept, and ends with what it started.
    let out =
        coop(&["reduce", GEMM, "-o", &name, "--timeout", "1", "--", "sh", "-c", "sleep 600 & sleep 600; echo {}"]);
    assert_eq!(status(&out), 2, "{}", stderr(&out));
    assert!(stderr(&out).contains("took more than 1 s and was killed"), "{}", stderr(&out));
}
