//! Projects of `coopcheck`: coopcheck.toml, baselines, equal findings of several files, `--watch`.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(path)
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("project").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("in a folder")).expect("writable");
    std::fs::write(path, text).expect("writable");
}

/// A module with products of which K disagrees by the defaults of SpecIds.
fn by_default() -> String {
    std::fs::read_to_string(testdata("validate/muladd/muladd-k-mismatch.default.spvasm")).expect("it exists")
}

/// A module with a product of which K disagrees.
fn wrong() -> String {
    std::fs::read_to_string(testdata("validate/muladd/muladd-k-mismatch.spvasm")).expect("it exists")
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coopcheck"));
    command.args(arguments).current_dir(folder).env_remove("RUST_BACKTRACE");
    command
}

/// Status, standard output, standard error.
fn coopcheck(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let out = command(folder, arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (out.status.code().expect("an exit status"), text(out.stdout), text(out.stderr))
}

#[test]
fn files_of_a_project_are_found_from_below() {
    let folder = folder("files");
    put(&folder, "coopcheck.toml", "files = [\"spv/**/*.spvasm\"]\n");
    put(&folder, "spv/deep/er/wrong.spvasm", &wrong());
    put(&folder, "spv/other.txt", "no module");
    put(&folder, "wrong.spvasm", &wrong());
    for (from, shown) in [("", "spv/deep/er/wrong.spvasm"), ("spv/deep", "er/wrong.spvasm")] {
        let (status, out, _) = coopcheck(&folder.join(from), &["--format", "short"]);
        assert_eq!((status, out.lines().count()), (1, 1), "{out}");
        assert!(out.starts_with(&format!("{shown}:")), "{out}");
    }
    let config = folder.join("coopcheck.toml");
    let (status, out, _) =
        coopcheck(Path::new("/"), &["--format", "short", "--config", config.to_str().expect("UTF-8")]);
    assert_eq!((status, out.lines().count()), (1, 1), "{out}");
    let (status, _, err) = coopcheck(&folder, &["--no-config"]);
    assert!(status == 2 && err.contains("no FILE is given"), "{status} {err}");
}

#[test]
fn pipelines_have_constants_and_devices() {
    let folder = folder("pipelines");
    let rest = "[[pipeline]]\nname = \"good\"\nfiles = [\"*.spvasm\"]\nspec = { 2 = 16, 5 = 16 }\n";
    put(&folder, "a.spvasm", &by_default());
    put(&folder, "coopcheck.toml", &format!("files = [\"a.spvasm\"]\n{rest}"));
    let (status, out, err) = coopcheck(&folder, &["--format", "short"]);
    let good = (status, out.contains("muladd-k-mismatch"));
    assert_eq!(good, (0, false), "{out}{err}");
    // Another pipeline gives other values, for which the product is certainly wrong.
    let bad = rest.replace("good", "bad").replace("5 = 16", "5 = 8");
    put(&folder, "coopcheck.toml", &format!("files = [\"a.spvasm\"]\n{rest}{bad}"));
    let (status, out, err) = coopcheck(&folder, &["--format", "short"]);
    assert_eq!((status, out.matches("error[muladd-k-mismatch]").count()), (1, 1), "{out}{err}");
    // Values of the command line come after those of pipelines.
    let (status, out, _) = coopcheck(&folder, &["--format", "short", "--spec", "5=16"]);
    assert_eq!((status, out.contains("muladd-k-mismatch")), (0, false), "{out}");

    let devices = "devices = [\"mesa-lavapipe-debian12\", \"nvidia-h100\"]\n";
    put(&folder, "coopcheck.toml", &format!("files = [\"a.spvasm\"]\n{devices}{rest}"));
    let (_, out, _) = coopcheck(&folder, &["--format", "short"]);
    assert!(out.contains("mesa-lavapipe-debian12"), "{out}");
    let (_, out, _) = coopcheck(&folder, &["--format", "short", "--profile", "nvidia-h100"]);
    assert!(
        !out.contains("mesa-lavapipe-debian12"),
        "a device of the command line replaces those of the project: {out}"
    );
}

#[test]
fn levels_and_allowed_findings() {
    let folder = folder("levels");
    put(&folder, "a.spvasm", &wrong());
    put(&folder, "b.spvasm", &wrong());
    put(&folder, "coopcheck.toml", "files = [\"*.spvasm\"]\n[levels]\nmuladd-k-mismatch = \"warn\"\n");
    let (status, out, _) = coopcheck(&folder, &["--format", "short"]);
    assert!(status == 0 && out.contains("warning[muladd-k-mismatch]"), "{out}");
    let (status, out, _) = coopcheck(&folder, &["--format", "short", "--deny", "muladd-k-mismatch"]);
    assert!(status == 1 && out.contains("error[muladd-k-mismatch]"), "{out}");
    let (status, _, _) = coopcheck(&folder, &["--allow", "muladd-k-mismatch", "a.spvasm"]);
    assert_eq!(status, 0);

    let allow =
        "files = [\"*.spvasm\"]\n[[allow]]\nrule = \"muladd-k-mismatch\"\nfiles = [\"a.*\"]\nreason = \"old\"\n";
    put(&folder, "coopcheck.toml", allow);
    let (status, out, err) = coopcheck(&folder, &["--format", "short"]);
    assert!(
        status == 1 && out.lines().all(|line| line.starts_with("b.spvasm")) && !err.contains("nothing"),
        "{out}{err}"
    );
    put(
        &folder,
        "coopcheck.toml",
        &format!("{allow}[[allow]]\nrule = \"load-stride\"\nreason = \"x\"\n")
            .replace("load-stride", "muladd-use-mismatch"),
    );
    let (_, _, err) = coopcheck(&folder, &[]);
    let note = "note: coopcheck.toml:7:8: allow of muladd-use-mismatch allows nothing: there is no such finding";
    assert!(err.contains(note), "{err}");
}

#[test]
fn mistakes_in_the_file_have_a_line() {
    let folder = folder("mistakes");
    put(&folder, "a.spvasm", &wrong());
    let cases = [
        ("file = [\"a\"]", "1:1: unknown field `file`"),
        (
            "files = [\"a.spvasm\"]\n[levels]\nmuladd-k-missmatch = \"deny\"",
            "3:1: no rule is called 'muladd-k-missmatch'; did you mean 'muladd-k-mismatch'?",
        ),
        (
            "files = [\"a.spvasm\"]\n[levels]\nmuladd-k-mismatch = \"error\"",
            "3:21: 'error' is not a level: allow, warn or deny",
        ),
        ("files = [\"a.spvasm\"]\n[levels]\nwarnings = \"warn\"", "3:12: warnings can be \"deny\" only, not \"warn\""),
        ("files = [\n  \"a.spvasm\",\n  \"b*.spvasm\"]", "3:3: 'b*.spvasm' does not match a file"),
        ("files = [\"a[\"]", "1:10: 'a['"),
        ("files = [\"x/\"]", "1:10: 'x/' names a folder"),
        ("devices = [\"nvidia-h1\"]", "1:12: nvidia-h1: no built-in profile"),
        ("target-env = \"vulkan9\"", "1:14: "),
        ("files = 3", "1:9: invalid type: integer `3`"),
        ("files = [", "1:10: "),
        ("[[allow]]\nrule = \"muladd-k-mismatch\"", "1:1: missing field `reason`"),
        (
            "[[allow]]\nrule = \"muladd-k-mismatch\"\nreason = \" \"",
            "3:10: the reason why muladd-k-mismatch is allowed is empty",
        ),
        ("[[pipeline]]\nname = \"p\"\nfiles = []\nspec = { x = 1 }", "4:10: 'x' is not a SpecId"),
        ("[[pipeline]]\nname = \"p\"\nfiles = []\nspec = { 1 = [] }", "4:14: the value of SpecId 1 is not a number"),
        ("[[pipeline]]\nname = \"p\"\nfiles = []\nsubgroup-size = 3", "4:17: a subgroup has 1, 2, 4"),
    ];
    for (text, message) in cases {
        put(&folder, "coopcheck.toml", text);
        let (status, out, err) = coopcheck(&folder, &[]);
        assert_eq!((status, out.as_str()), (2, ""), "{text}: {err}");
        assert!(err.starts_with(&format!("error: coopcheck.toml:{message}")), "{text}: {err}");
    }
    put(&folder, "coopcheck.toml", "");
    let (status, _, err) = coopcheck(&folder, &[]);
    assert!(status == 2 && err.contains("no files"), "{err}");
}

#[test]
fn baselines_let_new_findings_through() {
    let folder = folder("baseline");
    put(&folder, "coopcheck.toml", "files = [\"spv/*.spvasm\"]\nbaseline = \"known.json\"\n");
    put(&folder, "spv/a.spvasm", &wrong());
    let (status, _, err) = coopcheck(&folder, &[]);
    assert!(
        status == 2 && err.contains("known.json: no such file; `coopcheck --write-baseline known.json` writes"),
        "{err}"
    );
    let (status, _, err) = coopcheck(&folder, &["--write-baseline", "known.json"]);
    assert!(status == 0 && err.contains("1 findings are in known.json"), "{err}");
    assert_eq!(coopcheck(&folder, &[]), (0, String::new(), String::new()));
    // Also from elsewhere.
    assert_eq!(coopcheck(&folder.join("spv"), &[]).0, 0);

    // Ids and lines are others, the finding is the same.
    let moved =
        wrong().replace("%main", "%the_entry_point").replacen("OpTypeVoid", "OpTypeVoid\n\n; Two lines more.", 1);
    put(&folder, "spv/a.spvasm", &moved);
    assert_eq!(coopcheck(&folder, &[]).0, 0);

    // One more of the same is new, and so is one in another file.
    let product = wrong().lines().find(|l| l.contains("OpCooperativeMatrixMulAddKHR")).expect("a product").to_owned();
    let (result, _) = product.trim().split_once(' ').expect("a result");
    let twice = wrong().replacen(&product, &format!("{product}\n{}", product.replace(result, "%again")), 1);
    put(&folder, "spv/a.spvasm", &twice);
    let (status, out, err) = coopcheck(&folder, &["--format", "short"]);
    assert_eq!((status, out.lines().count()), (1, 1), "{out}{err}");
    put(&folder, "spv/a.spvasm", &wrong());
    put(&folder, "spv/b.spvasm", &wrong());
    let (status, out, _) = coopcheck(&folder, &["--format", "short"]);
    assert!(status == 1 && out.starts_with("spv/b.spvasm") && out.lines().count() == 1, "{out}");

    // What is mended is said.
    std::fs::remove_file(folder.join("spv/b.spvasm")).expect("it is there");
    put(&folder, "spv/a.spvasm", &std::fs::read_to_string(testdata("validate/valid/gemm.spvasm")).expect("it exists"));
    let (status, _, err) = coopcheck(&folder, &[]);
    assert!(status == 0 && err.contains("1 findings of the baseline are gone"), "{err}");

    for (text, message) in [("{}", "not a baseline"), ("{\"version\": 9, \"findings\": []}", "a baseline of version 9")]
    {
        put(&folder, "known.json", text);
        let (status, _, err) = coopcheck(&folder, &[]);
        assert!(status == 2 && err.contains(message), "{err}");
    }
}

#[test]
fn equal_findings_of_several_files_are_one() {
    let folder = folder("grouped");
    for name in ["a", "b", "c"] {
        put(&folder, &format!("{name}.spvasm"), &wrong());
    }
    let all = ["a.spvasm", "b.spvasm", "c.spvasm"];
    let (status, out, err) = coopcheck(&folder, &all);
    assert_eq!((status, out.matches("error[muladd-k-mismatch]").count()), (1, 1), "{out}");
    assert!(out.contains("and 2 more files\n") && err.contains("3 errors in 3 files"), "{out}{err}");
    let (_, out, _) = coopcheck(&folder, &[&["-v"][..], &all].concat());
    assert!(out.contains("and 2 more files: b.spvasm, c.spvasm"), "{out}");
    // Programs get all of them.
    let (_, out, _) = coopcheck(&folder, &[&["--format", "json"][..], &all].concat());
    let objects: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert!(objects.len() == 3 && objects.iter().all(|o| o["findings"].as_array().is_some_and(|f| f.len() == 1)));
}

#[test]
fn watching_sees_changes() {
    let folder = folder("watch");
    put(&folder, "coopcheck.toml", "files = [\"a.spvasm\"]\n");
    put(&folder, "a.spvasm", &std::fs::read_to_string(testdata("validate/valid/gemm.spvasm")).expect("it exists"));
    let mut child = command(&folder, &["--watch", "--format", "short"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let streams: [Box<dyn std::io::Read + Send>; 2] =
        [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
    // A channel for each: which of two lines comes first is known within a stream only.
    let [findings, messages] = streams.map(|stream| {
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        lines
    });
    let until = |lines: &std::sync::mpsc::Receiver<String>, wanted: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).unwrap_or_else(|e| panic!("no '{wanted}': {e}"));
            if line.contains(wanted) {
                return;
            }
        }
    };
    until(&messages, "watching 2 files");
    put(&folder, "a.spvasm", &wrong());
    until(&findings, "error[muladd-k-mismatch]");
    until(&messages, "watching 2 files");
    // A mistake in the project does not end it.
    put(&folder, "coopcheck.toml", "files = [\"a.spvasm\"]\nlevel = 3\n");
    until(&messages, "unknown field `level`");
    until(&messages, "watching");
    put(&folder, "coopcheck.toml", "files = [\"a.spvasm\"]\n[levels]\nmuladd-k-mismatch = \"warn\"\n");
    until(&findings, "warning[muladd-k-mismatch]");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let (status, _, err) = coopcheck(&folder, &["--watch", "-"]);
    assert!(status == 2 && err.contains("--watch needs files"), "{err}");
}

/// The example of the page is a project.
#[test]
fn the_page_shows_a_project() {
    let folder = folder("page");
    let page = include_str!("../../docs/coopcheck.md");
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    put(&folder, "coopcheck.toml", text);
    put(&folder, "profiles/ours.json", include_str!("../../device/profiles/mesa-lavapipe.json"));
    put(&folder, "shaders/.keep", "");
    put(&folder, "spv/gemm.spv", &wrong());
    let pattern = "shaders/**/*.comp";
    let (status, _, err) = coopcheck(&folder, &[]);
    assert!(status == 2 && err.contains(&format!("coopcheck.toml:1:10: '{pattern}' does not match a file")), "{err}");
    put(&folder, "coopcheck.toml", &text.replacen(&format!("\"{pattern}\", "), "", 1));
    assert_eq!(coopcheck(&folder, &["--write-baseline", "coopcheck-baseline.json"]).0, 0);
    let (status, out, err) = coopcheck(&folder, &[]);
    assert_eq!((status, out.as_str()), (0, ""), "{err}");
}

/// The progress of many files is on terminals only.
#[test]
fn progress_is_for_terminals() {
    let folder = folder("progress");
    for n in 0..30 {
        put(&folder, &format!("{n}.spvasm"), &wrong());
    }
    put(&folder, "coopcheck.toml", "files = [\"*.spvasm\"]\n");
    let (_, out, err) = coopcheck(&folder, &[]);
    assert!(!err.contains("of 30 files") && !format!("{out}{err}").contains('\x1b'), "{out}{err}");
    // `script` gives its command a terminal.
    let in_terminal = |options: &str| {
        let line = format!("{} {options}", env!("CARGO_BIN_EXE_coopcheck"));
        let arguments = ["--quiet", "--return", "--command", &line, "/dev/null"];
        let mut command = Command::new("script");
        command.args(arguments).env("TERM", "xterm").env("NO_COLOR", "1").current_dir(&folder);
        let out = command.stdin(Stdio::null()).output().expect("script of util-linux");
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (status, seen) = in_terminal("--format short");
    assert!(status == Some(1) && seen.contains("of 30 files, "), "{seen}");
    let (status, seen) = in_terminal("-q --format short");
    assert!(status == Some(1) && !seen.contains("of 30 files, "), "{seen}");
}
