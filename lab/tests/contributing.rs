//! CONTRIBUTING.md: what its walk-throughs say to do is done, in a copy of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}

/// A step of a walk-through.
enum Step {
    /// A change of files, as `git diff` prints it.
    Patch(String),
    /// Commands for a shell.
    Commands(String),
}

/// The steps of each walk-through, with its heading: the fenced blocks of `diff` and `sh` below `## Walk-through: …`.
fn walk_throughs(page: &str) -> Vec<(String, Vec<Step>)> {
    let mut all: Vec<(String, Vec<Step>)> = Vec::new();
    let mut inside = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = heading.starts_with("Walk-through: ");
            if inside {
                all.push((heading.to_owned(), Vec::new()));
            }
        }
        let Some(language) = line.strip_prefix("```").filter(|_| inside) else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
        let body = body.join("\n") + "\n";
        let step = match language {
            "diff" => Step::Patch(body),
            "sh" => Step::Commands(body),
            other => panic!("a walk-through has a block of `{other}`; its steps are diff and sh"),
        };
        all.last_mut().expect("a walk-through has begun").1.push(step);
    }
    all
}

/// Copies the files that git knows to a folder.
fn copy_to(tree: &Path) {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let files = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let files: Vec<&str> = files.split_terminator('\0').filter(|f| root().join(f).is_file()).collect();
    assert!(files.len() > 1000, "only {} files", files.len());
    for file in files {
        let to = tree.join(file);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder is made");
        std::fs::copy(root().join(file), to).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

fn run(command: &mut Command, what: &str) {
    let output = command.output().unwrap_or_else(|e| panic!("{what}: {e}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{what}\n{}", String::from_utf8_lossy(&said));
}

#[test]
fn walk_throughs_work() {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is there");
    let all = walk_throughs(&page);
    assert_eq!(all.len(), 3, "a rule, a pass and a profile");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contributing");
    for (heading, steps) in all {
        assert!(steps.iter().any(|s| matches!(s, Step::Commands(c) if c.contains("cargo test"))), "{heading}: no test");
        // One folder for all, so that what a walk-through does not change is built once.
        let tree = work.join("tree");
        if tree.exists() {
            std::fs::remove_dir_all(&tree).expect("the last copy goes");
        }
        copy_to(&tree);
        for (at, step) in steps.iter().enumerate() {
            let what = format!("{heading}, step {}", at + 1);
            match step {
                Step::Patch(patch) => {
                    let file = work.join("step.patch");
                    std::fs::write(&file, patch).expect("the patch is written");
                    // The copy lies in a repository that is not its own.
                    let mut git = Command::new("git");
                    git.args(["apply", "--whitespace=nowarn"]).arg(&file).current_dir(&tree);
                    run(git.env("GIT_CEILING_DIRECTORIES", &work), &what);
                }
                Step::Commands(commands) => {
                    let mut shell = Command::new("bash");
                    shell.args(["-euo", "pipefail", "-c", commands]).current_dir(&tree);
                    run(shell.env("CARGO_TARGET_DIR", work.join("build")).env_remove("CARGO_INCREMENTAL"), &what);
                }
            }
        }
    }
}
