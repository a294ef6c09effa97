//! Long work on a terminal shows how much is left, and interrupted work says how to go on.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

#[test]
fn an_interrupted_campaign_says_how_to_go_on() {
    let keep = folder("interrupted");
    let runner = std::env::var("COOP_RUNNER").ok();
    let mut command = match &runner {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(env!("CARGO_BIN_EXE_cooplab"));
            command
        }
        None => Command::new(env!("CARGO_BIN_EXE_cooplab")),
    };
    let options =
        ["campaign", "--on", "interp", "--dialect", "khr,nv2", "--target", "", "--shrink", "0", "--jobs", "2"];
    let child = command
        .args(options)
        .args(["--seed=5", "--count", "1000000", "--bytes", "60", "--keep"])
        .arg(&keep)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    std::thread::sleep(Duration::from_secs(3));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let out = child.wait_with_output().expect("it ends");
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
