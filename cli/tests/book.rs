//! The book: its links hold, and the commands of its chapters print what these say.
//!
//! A command is a line `$ ...` of a block ```` ```console ````; the lines after it are what it prints, and `(exit status N)` where that is not 0.
//! The blocks of a page run in a folder of the page's own, in which `testdata` is that of the repository. `COOP_UPDATE=1` writes
//! what is printed now.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The chapters whose commands are run.
const CHAPTERS: [&str; 4] = ["authors", "compilers", "lowering", "precision"];

/// The most lines that a page shows of what a command prints.
const MOST_LINES: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The folder of the tools.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_coopcheck")).parent().expect("a folder").to_owned()
}

/// Returns what a command prints, as a page shows it.
fn printed(command: &str, folder: &Path) -> String {
    let path = format!("{}:{}", tools().display(), std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-o", "pipefail", "-c", &format!("{{ {command}\n}} 2>&1")]);
    let output = bash.current_dir(folder).env("PATH", path).output().expect("bash");
    let mut text = String::from_utf8(output.stdout).expect("UTF-8");
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut shown = lines[..lines.len().min(MOST_LINES)].join("\n");
    if !shown.is_empty() {
        shown.push('\n');
    }
    if lines.len() > MOST_LINES {
        shown.push_str(&format!("... ({} more lines)\n", lines.len() - MOST_LINES));
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => shown.push_str(&format!("(exit status {code})\n")),
        None => panic!("`{command}` was ended by a signal: {text}"),
    }
    shown
}

/// Returns a page with what its commands print now, and their number.
fn run(page: &str, folder: &Path) -> (String, usize) {
    let (mut out, mut count) = (String::new(), 0);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line != "```console" {
            continue;
        }
        for line in lines.by_ref().take_while(|line| *line != "```") {
            if let Some(command) = line.strip_prefix("$ ") {
                out.push_str(&format!("{line}\n{}", printed(command, folder)));
                count += 1;
            }
        }
        out.push_str("```\n");
    }
    (out, count)
}

#[test]
fn commands_print_what_the_chapters_say() {
    let mut stale = Vec::new();
    for name in CHAPTERS {
        let path = root().join(format!("docs/{name}.md"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("book-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::os::unix::fs::symlink(root().join("testdata"), folder.join("testdata")).expect("a link");
        let page = read(&path);
        let (now, count) = run(&page, &folder);
        assert!(count > 1, "docs/{name}.md has {count} commands");
        if now == page {
            continue;
        }
        if std::env::var_os("COOP_UPDATE").is_some() {
            std::fs::write(&path, &now).expect("the page is written");
        }
        let different = now.lines().zip(page.lines()).find(|(a, b)| a != b);
        stale.push(format!("docs/{name}.md: prints {different:?} (now, on the page)"));
    }
    assert!(
        stale.is_empty() || std::env::var_os("COOP_UPDATE").is_some(),
        "COOP_UPDATE=1 writes them:\n{}",
        stale.join("\n")
    );
}

/// The commands that a chapter writes between backticks have options that there are.
#[test]
fn options_in_the_text_exist() {
    let help = |tool: &str, arguments: &[&str]| {
        let output = Command::new(tools().join(tool)).args(arguments).arg("--help").output().expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let all: String = [("coopcheck", vec![]), ("cooplower", vec![]), ("coopcheck", vec!["devices"])]
        .into_iter()
        .chain(["run", "compare", "verify", "prove", "compile", "case"].map(|sub| ("cooprun", vec![sub])))
        .map(|(tool, arguments)| help(tool, &arguments))
        .collect();
    let known = |option: &str| all.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option);
    assert!(known("--placement") && known("--watch") && !known("--no-such-option"));
    let mut seen = BTreeSet::new();
    for name in CHAPTERS.iter().chain(&["book"]) {
        let page = read(&root().join(format!("docs/{name}.md")));
        for (i, code) in page.split('`').enumerate() {
            // Commands that others' programs run have options of theirs.
            if i % 2 == 0 || !(code.starts_with("coop") || code.starts_with("--")) {
                continue;
            }
            for option in code.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
                assert!(known(option), "docs/{name}.md: `{code}`: no tool has {option}");
                seen.insert(option.to_owned());
            }
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
}

/// Every page in docs is a chapter.
#[test]
fn every_page_is_in_the_book() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    for entry in std::fs::read_dir(root().join("docs")).expect("docs") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let wanted = name != "SUMMARY.md" && name.ends_with(".md");
        assert!(!wanted || summary.contains(&format!("]({name})")), "docs/{name} is not in docs/SUMMARY.md");
    }
}

/// Returns the links and pictures of a page of the built book, without those to other sites.
fn references(html: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for mark in ["href=\"", "src=\""] {
        all.extend(html.split(mark).skip(1).filter_map(|rest| rest.split('"').next()));
    }
    all.retain(|link| !link.contains(':') && !link.is_empty());
    all
}

fn pages(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, out);
        } else if path.extension().is_some_and(|e| e == "html") {
            out.push(path);
        }
    }
}

/// The book is built, and each of its links leads to a file, and to a place in that.
#[test]
fn links_of_the_built_book_hold() {
    if Command::new("mdbook").arg("--version").output().is_err() {
        let required = std::env::var_os("COOP_REQUIRE_TOOLS").is_some();
        assert!(!required, "mdbook is not there: scripts/drivers.sh mdbook fetches it");
        eprintln!("SKIPPED: mdbook is not there; scripts/drivers.sh mdbook fetches it");
        return;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let mut script = Command::new("bash");
    script.arg(root().join("scripts/book.sh")).arg("--bin").arg(tools()).env("OUT", &out);
    let output = script.output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = out.join("html");
    let mut all = Vec::new();
    pages(&html, &mut all);
    assert!(all.len() > 25, "only {} pages", all.len());
    let (mut broken, mut count) = (Vec::new(), 0);
    for page in all.iter().filter(|page| !page.ends_with("404.html") && !page.ends_with("print.html")) {
        let text = read(page);
        for link in references(&text) {
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if path.is_empty() { page.clone() } else { page.parent().expect("a folder").join(path) };
            let name = page.strip_prefix(&html).expect("a page of the book").display();
            if !file.is_file() {
                broken.push(format!("{name}: {link}"));
            } else if !anchor.is_empty() && !read(&file).contains(&format!("id=\"{anchor}\"")) {
                broken.push(format!("{name}: {link} (no such place)"));
            }
        }
    }
    assert!(count > 500, "only {count} links");
    assert!(broken.is_empty(), "{} of {count} links are broken:\n{}", broken.len(), broken.join("\n"));
}
