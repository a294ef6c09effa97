//! Text: spans, agreement with the tools of Khronos, and identity of printing and parsing on every module at hand.

use coop_ir::text::{self, PrintOptions};
use coop_ir::{Kind, Module, Op, binary};
use std::path::{Path, PathBuf};
use std::process::Command;

fn spv_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            spv_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "spv") {
            out.push(path);
        }
    }
}

fn cache() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from)
}

fn modules() -> Vec<(PathBuf, Module)> {
    let mut files = Vec::new();
    spv_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), &mut files);
    spv_files(&cache(), &mut files);
    files.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("readable");
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, module)
    };
    files.into_iter().map(read).collect()
}

fn numeric() -> PrintOptions {
    PrintOptions { friendly_names: false, ..PrintOptions::default() }
}

/// A tool of SPIRV-Tools, from the cache or the path. Without it a test says so, and fails where tools are demanded.
fn tool(name: &str) -> Option<PathBuf> {
    let cached = cache().join("bin").join(name);
    let works = |p: &Path| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
    let found = [cached, PathBuf::from(name)].into_iter().find(|p| works(p));
    if found.is_none() {
        assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "{name} is not installed");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

#[test]
fn spans_are_of_what_they_say() {
    for (path, module) in modules().into_iter().step_by(7) {
        for options in [PrintOptions::default(), numeric()] {
            let printed = text::print(&module, &options);
            let lines: Vec<&str> = printed.text.lines().collect();
            for r in module.all() {
                let at = || format!("{}: {r:?}", path.display());
                let inst = module.inst(r);
                if inst.op.info().is_none() {
                    continue;
                }
                let whole = &printed.text[printed.span(r).expect("listed")];
                assert!(
                    lines[printed.line(r).expect("listed") - 1].ends_with(whole.lines().next().unwrap()),
                    "{}",
                    at()
                );
                let result = printed.result_span(r).map(|s| &printed.text[s]);
                let ty = printed.type_span(r).map(|s| &printed.text[s]);
                assert_eq!(result.is_some(), inst.result.is_some(), "{}", at());
                assert_eq!(ty.is_some(), inst.ty.is_some(), "{}", at());
                let mut rebuilt = result.map_or(String::new(), |r| format!("{r} = "));
                rebuilt += &inst.op.to_string();
                rebuilt.extend(ty.map(|t| format!(" {t}")));
                let mut last = None;
                for i in 0..inst.operands.len() {
                    let span = printed.operand_span(r, i).unwrap_or_else(|| panic!("{} operand {i}", at()));
                    if last.as_ref() != Some(&span) {
                        rebuilt = rebuilt + " " + &printed.text[span.clone()];
                        last = Some(span);
                    }
                }
                assert_eq!(rebuilt, whole, "{}", at());
                assert_eq!(printed.operand_span(r, inst.operands.len()), None, "{}", at());
            }
        }
    }
}

/// The tokens of every instruction, floating-point literals by value: tools print more digits than are needed.
fn tokens(text: &str) -> Vec<String> {
    text.lines().filter(|l| !l.starts_with(';')).flat_map(str::split_whitespace).map(canonical).collect()
}

fn canonical(token: &str) -> String {
    match token.parse::<f64>() {
        Ok(value) if token.contains(['.', 'e']) => format!("{}", value as f32),
        _ => token.to_owned(),
    }
}

/// Whether two tokens are the same or two names of one opcode or capability.
fn same_name(a: &str, b: &str) -> bool {
    let op = |t: &str| t.strip_prefix("Op").and_then(Op::from_name);
    let capability = |t: &str| Kind::Capability.enumerant_named(t);
    a == b || (op(a).is_some() && op(a) == op(b)) || (capability(a).is_some() && capability(a) == capability(b))
}

#[test]
fn prints_what_spirv_dis_prints() {
    let Some(dis) = tool("spirv-dis") else { return };
    for (path, module) in modules().into_iter().step_by(3) {
        let output = Command::new(&dis).args(["--no-color", "--raw-id"]).arg(&path).output().expect("runs");
        if !output.status.success() {
            eprintln!("{}: spirv-dis refuses it", path.display());
            continue;
        }
        let theirs = String::from_utf8_lossy(&output.stdout);
        let ours = text::print(&module, &numeric());
        let lines = theirs.lines().zip(ours.text.lines());
        for (i, (theirs, ours)) in lines.enumerate() {
            if theirs != ours {
                let (theirs, ours) = (tokens(theirs), tokens(ours));
                let same = theirs.len() == ours.len() && theirs.iter().zip(&ours).all(|(a, b)| same_name(a, b));
                assert!(same, "{} line {}:\n{}\n{}", path.display(), i + 1, theirs.join(" "), ours.join(" "));
            }
        }
        assert_eq!(theirs.lines().count(), ours.text.lines().count(), "{}", path.display());
    }
}
