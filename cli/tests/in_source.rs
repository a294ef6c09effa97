//! Findings of every module of `testdata/validate`, as they are shown where a module has lines of a source: in that, in few lines each.

use coop_cli::render::{self, Renderer};
use coop_ir::text;
use coop_validate::Options;
use std::path::{Path, PathBuf};

/// The most lines of a finding.
const MOST_LINES: usize = 15;

/// The modules in a folder and those in it.
fn modules(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            modules(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "spvasm") {
            found.push(path);
        }
    }
}

/// The opcode in a line of assembly.
fn opcode(line: &str) -> &str {
    let code = line.split(';').next().unwrap_or_default();
    code.split_whitespace().find(|word| word.starts_with("Op")).unwrap_or_default()
}

/// Gives a module in assembly lines of a source, which is the assembly itself. The lines are those of what is in functions.
fn with_lines(assembly: &str) -> String {
    let quoted = assembly.replace('\\', "\\\\").replace('"', "\\\"");
    let source = format!("%lines_of = OpString \"source.comp\"\nOpSource GLSL 460 %lines_of \"{quoted}\"\n");
    let (mut out, mut source) = (String::new(), Some(source));
    let (mut in_function, mut after_merge) = (false, false);
    for (number, line) in assembly.lines().enumerate() {
        let op = opcode(line);
        let before = [
            "OpCapability",
            "OpExtension",
            "OpExtInstImport",
            "OpMemoryModel",
            "OpEntryPoint",
            "OpExecutionMode",
            "OpExecutionModeId",
        ];
        if !op.is_empty() && !before.contains(&op) {
            out.push_str(&source.take().unwrap_or_default());
        }
        let alone = ["OpLabel", "OpFunctionParameter", "OpFunctionEnd", "OpVariable", "OpPhi"];
        if in_function && !op.is_empty() && !alone.contains(&op) && !after_merge {
            out.push_str(&format!("OpLine %lines_of {} 1\n", number + 1));
        }
        after_merge = op.ends_with("Merge") || after_merge && op.is_empty();
        in_function = op == "OpFunction" || in_function && op != "OpFunctionEnd";
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[test]
fn each_finding_takes_few_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate");
    let mut paths = Vec::new();
    modules(&root, &mut paths);
    paths.sort();
    let (mut wrong, mut shown, mut in_source) = (Vec::new(), 0, 0);
    for path in &paths {
        let assembly = std::fs::read_to_string(path).expect("a module");
        let Ok(module) = text::parse(&with_lines(&assembly)) else { continue };
        let report = coop_validate::check(&module, &Options::default());
        for drawn in render::each(Renderer::new(&module, "module.spv", false, render::WIDTH), &report) {
            shown += 1;
            in_source += usize::from(drawn.contains("[source.comp:"));
            let lines = drawn.trim_end().lines().count();
            if lines > MOST_LINES {
                wrong.push(format!("{}: {lines} lines\n{drawn}", path.display()));
            }
        }
    }
    eprintln!("{} modules, {shown} findings, {in_source} of them in the source", paths.len());
    assert!(wrong.is_empty(), "{} of {shown}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(in_source > 300 && in_source * 4 > shown * 3, "{in_source} of {shown}");
}
