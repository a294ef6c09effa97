//! Text: spans, agreement with the tools of Khronos, and identity of printing and parsing on every module at hand.

mod common;

use common::tools::{Scratch, modules, same_name, tool};
use coop_ir::text::{self, PrintOptions};
use coop_ir::{binary, fuzz};
use std::process::Command;

fn numeric() -> PrintOptions {
    PrintOptions { friendly_names: false, ..PrintOptions::default() }
}

#[test]
fn spans_are_of_what_they_say() {
    for (path, module) in modules().into_iter().step_by(19) {
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

#[test]
fn prints_what_spirv_dis_prints() {
    let Some(dis) = tool("spirv-dis") else { return };
    for (path, module) in modules().into_iter().step_by(5) {
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

#[test]
fn printing_and_parsing_is_the_identity() {
    for (path, module) in modules() {
        let name = path.display();
        let text = text::print(&module, &numeric()).text;
        let back = text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(binary::write_words(&back) == binary::write_words(&module), "{name}: other words");

        let friendly = text::print(&module, &PrintOptions::default()).text;
        let back = text::parse(&friendly).unwrap_or_else(|e| panic!("{name}, friendly: {e}"));
        assert!(fuzz::renumbered(&module, &back), "{name}: friendly names lead to another module");
        assert!(text::print(&back, &PrintOptions::default()).text.lines().count() == friendly.lines().count());
    }
}

#[test]
fn parses_what_spirv_as_parses() {
    let Some(assembler) = tool("spirv-as") else { return };
    let dir = Scratch::new("text");
    let out = dir.file("out.spv");
    for (path, module) in modules().into_iter().step_by(11) {
        for options in [numeric(), PrintOptions::default()] {
            let text = text::print(&module, &options).text;
            let file = dir.file("in.spvasm");
            std::fs::write(&file, &text).expect("writable");
            let version = module.header.version_pair();
            let env = format!("spv{}.{}", version.0, version.1);
            let args = ["--preserve-numeric-ids", "--target-env", &env, "-o"];
            let run = Command::new(&assembler).args(args).arg(&out).arg(&file).output().expect("runs");
            let message = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{}: {message}", path.display());
            let theirs = binary::read(&std::fs::read(&out).expect("written")).expect("readable");
            let ours = text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            // The header differs: spirv-as does not read comments.
            assert!(binary::write_words(&theirs)[5..] == binary::write_words(&ours)[5..], "{}", path.display());
        }
    }
}
