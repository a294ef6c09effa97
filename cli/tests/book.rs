//! The book: its links hold, and the commands of its pages do what these say.
//!
//! Each command of a block in a page of docs/SUMMARY.md, or in README.md, is run, from the first of the page to the last, in a folder of the
//! page's own, in which `testdata` is that of the repository, and [`FILES`] has what the page calls by other names. It ends with status 0, or that
//! behind `# exit status`. Those of a block ```` ```console ```` begin with `$`, and print what follows, with `(exit status N)` where that
//! is not 0; `COOP_UPDATE=1` writes what is printed now. [`NOT_RUN`] lists the commands that are not run here, with the reason; `lab/tests/book.rs`
//! looks at these, and at those between backticks in the text: programs, options and files are there.

use coop_exec::testing::pages::{self, Form, PageCommand};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files in the folders of pages: a page, a name there, a file of the repository.
const FILES: &[(&str, &str, &str)] = &[
    ("docs/component-types.md", "gemm.spv", "testdata/kernels/gemm_simple.spv"),
    ("docs/coop.md", "bad.spvasm", "testdata/validate/muladd/muladd-k-mismatch.spvasm"),
    ("docs/coop.md", "gemm.spv", "testdata/kernels/gemm_simple.spv"),
    ("docs/coop.md", "gemm.toml", "testdata/kernels/gemm_simple.toml"),
    ("docs/coop.md", "shader.comp", "testdata/cli/divergent.comp"),
    ("docs/vulkan-kernels.md", "gemm.spv", "testdata/opencl/gemm_f16.spv"),
    ("exec/README.md", "a.spv", "testdata/kernels/gemm_simple.spv"),
    ("exec/README.md", "b.spv", "testdata/kernels/gemm_simple.opt.spv"),
    ("exec/README.md", "module.spv", "testdata/kernels/gemm_simple.spv"),
    ("exec/README.md", "x.toml", "testdata/kernels/gemm_simple.toml"),
];

/// Commands of blocks that are not run: a page, their beginning, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("CONTRIBUTING.md", "cargo test ", "lab/tests/contributing.rs runs the walk-throughs in a copy of the repository"),
    ("CONTRIBUTING.md", "sed ", "a step of those"),
    ("README.md", "cargo install ", "builds for minutes; cli/tests/release.rs tries what an archive has"),
    ("README.md", "coopcheck --watch", "ends by an interrupt only; cli/tests/project.rs and cli/tests/lsp.rs run both"),
    ("README.md", "scripts/test.sh", "runs this test"),
    ("README.md", "scripts/try.sh", "fetches drivers and builds; cli/tests/cooprun.rs does the same"),
    (
        "docs/component-types.md",
        "scripts/drivers.sh run --swiftshader",
        "many minutes; lab/tests/hardware.rs has a module in the interpreter",
    ),
    ("docs/drivers.md", "scripts/drivers.sh run --opencl pocl cooplab ", "a campaign of minutes"),
    (
        "docs/drivers.md",
        "scripts/drivers.sh run",
        "faults of drivers, some of them crashes: exec/tests/drivers.rs, cli/tests/compile.rs",
    ),
    ("docs/drivers.md", "GALLIUM_OVERRIDE_CPU_CAPS=", "depends on the processor: exec/tests/drivers.rs"),
    ("docs/drivers.md", "cooplab campaign", "campaigns of minutes, on a GPU"),
    ("docs/drivers.md", "cooprun run testdata/drivers/nvidia/", "faults of NVIDIA's driver, on its GPU"),
    ("docs/engines.md", "COOP", "a line for any program; layer/tests/application.rs runs one with the layer"),
    ("docs/engines.md", "cargo cinstall", "cargo-c is built for minutes; scripts/capi.sh check uses it"),
    ("docs/engines.md", "scripts/capi.sh install", "writes to the system; capi/tests/c.rs builds the examples"),
    ("docs/engines.md", "scripts/engines.sh", "minutes; layer/tests/engines.rs runs a part"),
    ("docs/engines.md", "scripts/layer.sh", "a line for any program"),
    ("docs/performance.md", "cooplab code", "two minutes of compiling; lab/tests/compile.rs has a part"),
    ("docs/performance.md", "cooplab figures", "speed, on a GPU; lab/tests/figures.rs has a small one"),
    ("docs/performance.md", "cooprun compile lowered.spv", "AMD's driver; cli/tests/compile.rs"),
    ("docs/performance.md", "scripts/llama-shaders.sh", "a minute and a half; scripts/test.sh begins with it"),
    ("docs/uniformity.md", "cooplab uniformity", "minutes; lab/tests/uniformity.rs has a part"),
    ("exec/README.md", "cooplab ", "campaigns and figures: lab/tests"),
    ("exec/README.md", "cooprun profile --spell-as nv2", "on a device with SPV_NV_cooperative_matrix2"),
    ("exec/README.md", "cooprun run module.spv --case x.toml --spell-as nv2", "on such a device"),
    ("exec/README.md", "cooprun verify module.spv --case x.toml --target ext", "on such a device"),
    ("exec/README.md", "scripts/drivers.sh run --gpu", "AMD's driver; cli/tests/compile.rs"),
    ("layer/README.md", "COOP_DRIVER=system", "a line for any program"),
    ("layer/README.md", "scripts/engines.sh", "minutes; layer/tests/engines.rs runs a part"),
    (
        "layer/README.md",
        "scripts/layer.sh",
        "a line for any program; layer/tests/application.rs runs one with the layer",
    ),
];

/// Options and operators with a file behind them that the command writes.
const WRITES: [&str; 6] = ["-o", "--graph", "--report", "--svg", ">", "2>"];

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

/// The folder in which the commands of a page run, and one with the tools, which start with the driver of this process.
struct Place {
    folder: PathBuf,
    path: String,
}

impl Place {
    fn new(page: &str) -> Place {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book-pages");
        let folder = all.join(page.replace('/', "-"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("bin")).expect("a folder");
        std::os::unix::fs::symlink(root().join("testdata"), folder.join("testdata")).expect("a link");
        for (_, name, file) in FILES.iter().filter(|(of, _, _)| *of == page) {
            std::fs::copy(root().join(file), folder.join(name)).unwrap_or_else(|e| panic!("{file}: {e}"));
        }
        // What starts programs with a driver's C library starts no links.
        let runner = std::env::var("COOP_RUNNER").map_or_else(|_| String::new(), |runner| format!("'{runner}' "));
        for name in ["coop", "coopcheck", "cooplower", "cooprun"] {
            let script = format!("#!/bin/sh\nexec {runner}'{}' \"$@\"\n", tools().join(name).display());
            let file = folder.join("bin").join(name);
            std::fs::write(&file, script).expect("a script");
            let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
            std::fs::set_permissions(&file, mode).expect("a program");
        }
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").expect("a path"));
        Place { folder, path }
    }

    /// Runs a line; returns what it prints, to either stream, and its status.
    fn run(&self, line: &str) -> (String, i32) {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-o", "pipefail", "-c", &format!("{{ {line}\n}} 2>&1")]);
        bash.current_dir(&self.folder).env("PATH", &self.path).env("NO_COLOR", "1").stdin(Stdio::null());
        let output = bash.output().expect("bash");
        let mut text = String::from_utf8(output.stdout).expect("UTF-8");
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        (text, output.status.code().unwrap_or_else(|| panic!("`{line}` was ended by a signal")))
    }
}

/// Returns what a command printed, as a page shows it.
fn shown(text: &str, status: i32) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut shown: String = lines.iter().take(MOST_LINES).flat_map(|line| [line, "\n"]).collect();
    if lines.len() > MOST_LINES {
        shown.push_str(&format!("... ({} more lines)\n", lines.len() - MOST_LINES));
    }
    if status != 0 {
        shown.push_str(&format!("(exit status {status})\n"));
    }
    shown
}

/// Returns what stands below a line of a page, up to the next command of its block, or its end.
fn below(page: &str, line: usize) -> String {
    let lines = page.lines().skip(line).take_while(|l| !l.starts_with("$ ") && *l != "```");
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the row of a command that is not run.
fn not_run(command: &PageCommand) -> Option<usize> {
    NOT_RUN.iter().position(|(page, start, _)| *page == command.page && command.text.starts_with(start))
}

/// Runs the commands of a page. Returns what is wrong, and the page as it should be.
fn run(page: &str, used: &mut [bool], ran: &mut usize) -> (Vec<String>, String) {
    let place = Place::new(page);
    let mut text = pages::read(page);
    let mut wrong = Vec::new();
    let mut changes = Vec::new();
    for command in pages::commands(page).iter().filter(|command| command.form != Form::Text) {
        if let Some(row) = not_run(command) {
            used[row] = true;
            continue;
        }
        let (printed, status) = place.run(&command.text);
        *ran += 1;
        if command.form == Form::Console {
            let (now, then) = (shown(&printed, status), below(&text, command.line));
            if now != then {
                let first = now.lines().zip(then.lines()).find(|(a, b)| a != b);
                if std::env::var_os("COOP_UPDATE").is_none() {
                    wrong.push(format!(
                        "{command} prints something else: {first:?} (now, on the page); COOP_UPDATE=1 writes it"
                    ));
                }
                changes.push((command.line, then.lines().count(), now));
            }
        } else if status != command.status {
            wrong.push(format!("{command} ends with status {status}, not {}:\n{printed}", command.status));
        }
        let words: Vec<&str> = command.text.split_whitespace().collect();
        let written = words.windows(2).filter(|pair| WRITES.contains(&pair[0]) && pair[1] != "-").map(|pair| pair[1]);
        let missing = written.filter(|file| status == 0 && !place.folder.join(file).exists());
        wrong.extend(missing.map(|file| format!("{command} has not written {file}")));
    }
    for (line, count, now) in changes.into_iter().rev() {
        let lines: Vec<&str> = text.lines().collect();
        let [before, after] = [&lines[..line], &lines[line + count..]].map(|l| l.join("\n"));
        text = format!("{before}\n{now}{after}\n");
    }
    (wrong, text)
}

#[test]
fn commands_do_what_the_pages_say() {
    let update = std::env::var_os("COOP_UPDATE").is_some();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    let mut used = vec![false; NOT_RUN.len()];
    for page in pages::pages() {
        let (found, now) = run(&page, &mut used, &mut ran);
        if update && now != pages::read(&page) {
            std::fs::write(root().join(&page), now).expect("the page is written");
        }
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 60, "only {ran} commands");
    let unused: Vec<_> = NOT_RUN.iter().zip(used).filter(|(_, used)| !used).map(|(row, _)| row).collect();
    assert!(unused.is_empty(), "no such commands any more: {unused:?}");
    // The files that the reasons name.
    let words = NOT_RUN.iter().flat_map(|(_, _, why)| why.split([' ', ',', ';', ':']));
    let gone: Vec<&str> = words.filter(|word| word.contains('/') && !root().join(word).exists()).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let pages = pages::pages();
    let no_page: Vec<_> = FILES.iter().filter(|(page, _, _)| !pages.iter().any(|other| other == page)).collect();
    assert!(no_page.is_empty(), "{no_page:?}");
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
