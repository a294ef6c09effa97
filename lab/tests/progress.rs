//! Long work on a terminal shows how much is left, and interrupted work says how to go on.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("progress").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

/// The words behind an option in a command line.
fn value(line: &str, option: &str) -> u64 {
    let mut words = line.split(' ').skip_while(|word| *word != option);
    assert_eq!(words.clone().filter(|word| *word == option).count(), 1, "{line}");
    words.nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

fn cooplab() -> Command {
    match std::env::var("COOP_RUNNER") {
        Ok(runner) => {
            let mut command = Command::new(runner);
            command.arg(env!("CARGO_BIN_EXE_cooplab"));
            command
        }
        Err(_) => Command::new(env!("CARGO_BIN_EXE_cooplab")),
    }
}

/// Interrupts a command after three seconds.
fn interrupted(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    std::thread::sleep(Duration::from_secs(3));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    child.wait_with_output().expect("it ends")
}

/// Proofs of generated modules go on where they were; what keeps nothing says how to start again.
#[test]
fn other_interrupted_work_says_how_to_go_on() {
    let out = interrupted(cooplab().args(["proofs", "--generated", "1000000", "--seed", "5", "--target", "scalar"]));
    let said = String::from_utf8_lossy(&out.stdout);
    let next = said.lines().last().and_then(|l| l.split("--seed ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    assert!(next.is_some_and(|next| next > 5) && said.ends_with(" goes on\n"), "{said}");
    let out = interrupted(cooplab().args(["uniformity", "--count", "1000000", "--seed", "5"]));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{said}");
    let line = said.lines().find_map(|l| l.strip_prefix("interrupted; to start again: ")).expect("how to start again");
    assert!(line.ends_with("cooplab uniformity --count 1000000 --seed 5"), "{line}");
}

#[test]
fn an_interrupted_campaign_says_how_to_go_on() {
    let keep = folder("interrupted");
    let mut command = cooplab();
    let options =
        ["campaign", "--on", "interp", "--dialect", "khr,nv2", "--target", "", "--shrink", "0", "--jobs", "2"];
    command.args(options).args(["--seed=5", "--count", "1000000", "--bytes", "60", "--keep"]).arg(&keep);
    let out = interrupted(&mut command);
    let (table, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{table}{said}");
    assert!(!said.contains("modules, "), "no line of progress without a terminal: {said}");
    let line = said.lines().find_map(|l| l.strip_prefix("interrupted; to go on: ")).expect("how to go on");
    let (seed, count) = (value(line, "--seed"), value(line, "--count"));
    // Two dialects take turns, and each goes on where it was.
    assert!(seed > 5 && (seed - 5).is_multiple_of(2), "{line}");
    assert_eq!(count, 1_000_000 - (seed - 5) / 2, "{line}");
    assert!(line.contains(" --target '' ") && !line.contains("--seed=5"), "{line}");
    assert!(table.contains("khr") && table.contains("nv2"), "{table}");
}

#[test]
fn progress_is_on_terminals() {
    let keep = folder("terminal");
    let options = "campaign --on interp --count 3 --bytes 40 --target '' --shrink 0";
    let line = format!("{} {options} --keep {}", env!("CARGO_BIN_EXE_cooplab"), keep.display());
    // `script` gives its command a terminal.
    let arguments = ["--quiet", "--return", "--command", &line, "/dev/null"];
    let mut command = Command::new("script");
    let out = command.args(arguments).env("TERM", "xterm").stdin(Stdio::null()).output().expect("script of util-linux");
    let seen = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && seen.contains("of 3 modules, "), "{seen}");
}

/// A campaign goes on behind the parts that its file counts, with the counts that one run gives; other options are refused, and so is
/// what is no such file.
#[test]
fn a_campaign_goes_on_from_its_file() {
    let folder = folder("state");
    let run = |state: &str, count: &str, more: &[&str]| {
        let mut command = cooplab();
        command.args(["campaign", "--on", "interp", "--placements", "1", "--bytes", "60", "--dialect", "khr,nv2"]);
        command.args(["--part", "1", "--count", count, "--state", state]).args(more).current_dir(&folder);
        command.output().expect("cooplab runs")
    };
    let counted = |state: &str| {
        let text = std::fs::read_to_string(folder.join(state)).expect("it was written");
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rows = value["tally"]["rows"].as_object_mut().expect("rows");
        rows.values_mut().for_each(|row| ["seconds", "spent"].iter().for_each(|time| row[*time] = 0.into()));
        (value["done"].clone(), value["tally"].clone())
    };
    for count in ["1", "3"] {
        let output = run("twice.json", count, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(run("once.json", "3", &[]).status.success());
    assert_eq!(counted("twice.json"), counted("once.json"));
    assert_eq!(counted("once.json").0, 3);
    for (state, more) in [("once.json", &["--seed", "7"][..]), ("broken.json", &[])] {
        std::fs::write(folder.join("broken.json"), "{}").expect("writable");
        let output = run(state, "3", more);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
