//! The archives of scripts/release.sh, the action that takes one, the hook of pre-commit.

use serde_yaml_ng::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Packs the tools that tests run, of any size up to `most` bytes.
fn release(out: &Path, most: &str) -> Output {
    let tools = Path::new(env!("CARGO_BIN_EXE_coopcheck")).parent().expect("a folder");
    Command::new(root().join("scripts/release.sh"))
        .arg("--bin")
        .arg(tools)
        .env("OUT", out)
        .env("MOST_BYTES", most)
        .env("LEVEL", "1")
        .output()
        .expect("bash")
}

/// Packs an archive for a test, in a folder of its own: tests run side by side.
fn archive(test: &str) -> PathBuf {
    let packed = release(&folder(test), "1000000000");
    assert!(packed.status.success(), "{}", text(&packed));
    PathBuf::from(String::from_utf8_lossy(&packed.stdout).trim())
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

#[test]
fn archives_unpack_and_run() {
    let archive = archive("archive");
    let folder = archive.parent().expect("a folder");
    let name = archive.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    assert!(run(folder, "sha256sum", &["--check", "--quiet", &format!("{name}.sha256")]).status.success());
    assert!(run(folder, "tar", &["-xzf", name]).status.success());
    let unpacked = folder.join(name.trim_end_matches(".tar.gz"));
    for tool in ["coop", "coopcheck", "cooplower", "cooprun"] {
        let packed = Command::new(unpacked.join(tool)).arg("--version").output().expect("it runs");
        assert!(text(&packed).contains(&format!("{tool} {}", env!("CARGO_PKG_VERSION"))), "{}", text(&packed));
        let bash = std::fs::read_to_string(unpacked.join(format!("completions/{tool}.bash"))).expect("a script");
        assert!(bash.contains(&format!("_{tool}()")), "{bash}");
        let checked = run(&unpacked, "bash", &["-n", &format!("completions/{tool}.bash")]);
        assert!(checked.status.success(), "{}", text(&checked));
        for other in [format!("completions/_{tool}"), format!("completions/{tool}.fish")] {
            assert!(std::fs::metadata(unpacked.join(&other)).is_ok_and(|file| file.len() > 100), "{other}");
        }
        let page = std::fs::read_to_string(unpacked.join(format!("man/{tool}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH {tool} 1")) && page.contains(".SH OPTIONS"), "{page}");
    }
    for page in ["cooprun-verify", "coopcheck-devices", "coop-reduce", "coop-run-verify"] {
        assert!(unpacked.join(format!("man/{page}.1")).is_file(), "{page}");
    }
    // One program, and links to it.
    let programs = std::fs::read_dir(&unpacked).expect("a folder").map(|entry| entry.expect("an entry"));
    let programs =
        programs.filter(|entry| entry.file_type().expect("a type").is_file() && entry.path().extension().is_none());
    let names: Vec<String> = programs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().filter(|name| !name.starts_with("LICENSE")).collect::<Vec<_>>(), ["coop"]);
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"] {
        assert_eq!(std::fs::read(unpacked.join(file)).expect(file), std::fs::read(root().join(file)).expect(file));
    }
}

#[test]
fn large_tools_are_not_packed() {
    let packed = release(&folder("large"), "1000");
    assert!(!packed.status.success() && text(&packed).contains("bytes, more than 1000"), "{}", text(&packed));
}

#[test]
fn wrong_usage_of_completions_and_pages() {
    for (arguments, message) in [
        (&["--completions"][..], "error: --completions needs a shell: bash, elvish, fish, powershell, zsh"),
        (&["--completions", "tcsh"][..], "error: no shell 'tcsh': bash, elvish, fish, powershell, zsh"),
        (&["--man"][..], "error: --man needs a folder"),
        (&["--man", "/dev/null/pages"][..], "error: /dev/null/pages: "),
    ] {
        let out = run(&root(), env!("CARGO_BIN_EXE_cooplower"), arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(text(&out).starts_with(message), "{arguments:?}: {}", text(&out));
    }
}

/// A checkout with this archive, in which the steps of the action are run as a runner does.
struct Runner {
    folder: PathBuf,
    inputs: Vec<(&'static str, String)>,
    /// A folder of programs that the runner has besides those of the system.
    programs: PathBuf,
}

impl Runner {
    /// Runs the action's steps until one fails, and returns its status with all output.
    fn run(&self) -> (i32, String) {
        let action: Value = serde_yaml_ng::from_str(&read("action.yml")).expect("YAML");
        let temporary = self.folder.join("temporary");
        std::fs::create_dir_all(&temporary).expect("writable");
        let path_file = self.folder.join("path");
        std::fs::write(&path_file, "").expect("writable");
        let mut all = String::new();
        for step in action["runs"]["steps"].as_sequence().expect("steps") {
            assert_eq!(step["shell"].as_str(), Some("bash"));
            let added = std::fs::read_to_string(&path_file).expect("a file").trim().to_owned();
            let mut command = Command::new("bash");
            command
                .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"].as_str().expect("a script")])
                .current_dir(&self.folder)
                .env("RUNNER_TEMP", &temporary)
                .env("GITHUB_PATH", &path_file)
                .env("PATH", format!("{added}:{}:/usr/bin:/bin", self.programs.display()));
            for (name, value) in step["env"].as_mapping().expect("variables") {
                let value = value.as_str().expect("text");
                let input = value.trim_start_matches("${{ inputs.").trim_end_matches(" }}");
                let default = action["inputs"][input]["default"].as_str().unwrap_or_default();
                assert!(action["inputs"].get(input).is_some(), "no input {input}");
                let given = self.inputs.iter().find(|(name, _)| *name == input).map(|(_, value)| value.as_str());
                command.env(name.as_str().expect("a name"), given.unwrap_or(default));
            }
            let out = command.output().expect("bash");
            all.push_str(&text(&out));
            if !out.status.success() {
                return (out.status.code().expect("an exit status"), all);
            }
        }
        (0, all)
    }
}

#[test]
fn the_action_annotates_and_reports() {
    let folder = folder("action");
    let archive = archive("archive-of-action");
    let sum = std::fs::read_to_string(archive.with_extension("gz.sha256")).expect("a checksum");
    let sum = sum.split(' ').next().expect("a checksum").to_owned();
    let wrong = "validate/muladd/muladd-k-mismatch.spvasm";
    std::fs::copy(root().join("testdata").join(wrong), folder.join("wrong module.spvasm")).expect("writable");
    let archive = ("archive", archive.display().to_string());
    let runner = |inputs: &[(&'static str, String)]| Runner {
        folder: folder.clone(),
        inputs: [std::slice::from_ref(&archive), inputs].concat(),
        programs: PathBuf::from("/usr/bin"),
    };
    let arguments = ("arguments", "--warn\nmuladd-use-mismatch\n\nwrong module.spvasm\n".to_owned());
    let (status, out) = runner(&[("sha256", sum), arguments.clone()]).run();
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("::error file=wrong module.spvasm,title=muladd-k-mismatch::"), "{out}");
    // Without arguments, the files of the project.
    std::fs::write(folder.join("coopcheck.toml"), "files = [\"*.spvasm\"]\n").expect("writable");
    let (status, out) = runner(&[("sarif", "found.sarif".into())]).run();
    assert_eq!(status, 1, "{out}");
    let report = std::fs::read_to_string(folder.join("found.sarif")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["runs"][0]["results"][0]["ruleId"], "muladd-k-mismatch");
    let (status, out) = runner(&[("sha256", "0".repeat(64)), arguments]).run();
    assert!(status == 2 && out.contains("has another sha256"), "{status} {out}");
    let address = ("archive", "https://example.invalid/a.tar.gz".to_owned());
    let (status, out) = Runner { folder, inputs: vec![address], programs: PathBuf::from("/usr/bin") }.run();
    assert!(status == 2 && out.contains("needs its sha256"), "{status} {out}");
}

/// Returns the folder of a tool; `None` where it is not there, which is a failure where tools are demanded.
fn folder_of(tool: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).find(|folder| folder.join(tool).is_file());
    let missing = format!("no {tool}: scripts/test.sh fetches it");
    assert!(found.is_some() || std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "{missing}");
    if found.is_none() {
        eprintln!("SKIPPED: {missing}");
    }
    found
}

/// Copies a shader that is right and one that is not.
fn two_shaders(folder: &Path) {
    for (from, to) in [("kernels/gemm_simple.comp", "right.comp"), ("cli/divergent.comp", "wrong.comp")] {
        std::fs::copy(root().join("testdata").join(from), folder.join(to)).expect("writable");
    }
}

/// Sources are checked too, and annotated in their lines.
#[test]
fn the_action_annotates_shaders() {
    let Some(programs) = folder_of("glslang") else { return };
    let folder = folder("action-shaders");
    two_shaders(&folder);
    let archive = ("archive", archive("archive-of-shaders").display().to_string());
    let arguments = ("arguments", "--deny\nuniformity-flow\nright.comp\nwrong.comp\n".to_owned());
    let inputs = vec![archive, arguments, ("sarif", String::new())];
    let mut runner = Runner { folder: folder.clone(), inputs, programs };
    let (status, out) = runner.run();
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("::error file=wrong.comp,line=27,col=13,title=uniformity-flow::"), "{out}");
    assert!(!out.contains("file=right.comp"), "{out}");
    runner.inputs[2].1 = "found.sarif".to_owned();
    let (status, out) = runner.run();
    assert_eq!(status, 1, "{out}");
    let report = std::fs::read_to_string(folder.join("found.sarif")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let results = report["runs"][0]["results"].as_array().expect("results");
    assert_eq!(
        (results.len(), &results[0]["ruleId"], &results[0]["level"]),
        (1, &"uniformity-flow".into(), &"error".into())
    );
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!((&place["artifactLocation"]["uri"], &place["region"]["startLine"]), (&"wrong.comp".into(), &27.into()));
    // Without the wrong one, all is well.
    runner.inputs[1].1 = "right.comp\n".to_owned();
    assert_eq!(runner.run().0, 0);
}

/// Runs git or pre-commit in a folder, with coopcheck in PATH and settings of no user.
fn in_repository(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let tools = Path::new(env!("CARGO_BIN_EXE_coopcheck")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("folders");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("PATH", format!("{}:{path}", tools.display()));
    command.env("HOME", folder).env("PRE_COMMIT_HOME", folder.join(".cache")).env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "author@example.invalid");
    }
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// pre-commit itself takes the hook from a repository and runs it on what is to be committed.
#[test]
fn pre_commit_runs_the_hook() {
    if folder_of("pre-commit").is_none() || folder_of("glslang").is_none() {
        return;
    }
    let (hooks, project) = (folder("hook"), folder("hooked"));
    let git = |folder: &Path, arguments: &[&str]| {
        let out = in_repository(folder, "git", arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    std::fs::copy(root().join(".pre-commit-hooks.yaml"), hooks.join(".pre-commit-hooks.yaml")).expect("writable");
    git(&hooks, &["init", "--quiet"]);
    git(&hooks, &["add", ".pre-commit-hooks.yaml"]);
    git(&hooks, &["commit", "--quiet", "--message", "The hook"]);
    let revision = git(&hooks, &["rev-parse", "HEAD"]);
    let repository = format!("repos:\n- repo: {}\n  rev: {revision}\n", hooks.display());
    let hook = "  hooks:\n  - id: coopcheck\n    args: [--deny, uniformity-flow]\n";
    std::fs::write(project.join(".pre-commit-config.yaml"), repository + hook).expect("writable");
    two_shaders(&project);
    git(&project, &["init", "--quiet"]);
    git(&project, &["add", ".pre-commit-config.yaml", "right.comp"]);
    let right = in_repository(&project, "pre-commit", &["run"]);
    assert!(right.status.success() && text(&right).contains("Passed"), "{}", text(&right));
    git(&project, &["add", "wrong.comp"]);
    let wrong = in_repository(&project, "pre-commit", &["run"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong));
    assert!(text(&wrong).contains("wrong.comp:27:13: error[uniformity-flow]"), "{}", text(&wrong));
}

#[test]
fn the_hook_takes_what_coopcheck_takes() {
    let hooks: Value = serde_yaml_ng::from_str(&read(".pre-commit-hooks.yaml")).expect("YAML");
    let hook = &hooks[0];
    let pattern = hook["files"].as_str().expect("a pattern");
    let extensions: Vec<&str> = pattern.trim_start_matches("\\.(").trim_end_matches(")$").split('|').collect();
    for extension in ["comp", "mesh", "rcall", "hlsl", "slang", "spv", "spvasm"] {
        assert!(extensions.contains(&extension), "{extension} in {pattern}");
    }
    let entry = hook["entry"].as_str().expect("a command");
    let mut words = entry.split(' ');
    assert_eq!(words.next(), Some("coopcheck"));
    let module = "testdata/validate/muladd/muladd-k-mismatch.spvasm";
    let arguments: Vec<&str> = words.chain([module]).collect();
    let out = run(&root(), env!("CARGO_BIN_EXE_coopcheck"), &arguments);
    assert!(out.status.code() == Some(1) && text(&out).contains("error[muladd-k-mismatch]"), "{}", text(&out));
}

#[test]
fn the_image_has_the_tools_as_they_are_released() {
    let file = read("Dockerfile");
    assert!(file.contains("/source/target/dist/coop "));
    assert!(file.contains("for tool in coopcheck cooplower cooprun; do ln -s coop "));
    assert!(file.contains("--locked --profile dist") && read("Cargo.toml").contains("[profile.dist]"));
}

/// No image is built here: each instruction is one of Docker's, later stages copy from earlier ones, shells take what is run, and what cargo
/// builds there is in the folder that is sent.
#[test]
fn the_image_can_be_built() {
    let file = read("Dockerfile").replace("\\\n", " ");
    let mut stages: Vec<&str> = Vec::new();
    let mut copied = Vec::new();
    for line in file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (instruction, rest) = line.split_once(' ').expect("an instruction has arguments");
        match instruction {
            "FROM" => stages.push(rest.split_once(" AS ").map_or("", |(_, name)| name)),
            "COPY" => {
                let from = rest.strip_prefix("--from=").and_then(|rest| rest.split(' ').next());
                assert!(
                    from.is_none_or(|name| stages.split_last().is_some_and(|(_, before)| before.contains(&name))),
                    "{line}"
                );
                copied.extend(rest.split(' ').rev().nth(1).filter(|_| from.is_some()));
            }
            "RUN" => {
                let checked = Command::new("sh").args(["-n", "-c", rest]).output().expect("a shell");
                assert!(checked.status.success(), "{line}: {}", text(&checked));
            }
            "WORKDIR" => assert!(rest.starts_with('/'), "{line}"),
            "CMD" => assert_eq!(serde_json::from_str::<Vec<String>>(rest).expect("a list"), ["coopcheck"]),
            other => panic!("{other} is not expected in the Dockerfile"),
        }
    }
    assert_eq!((stages.as_slice(), copied.as_slice()), (&["build", ""][..], &["/source/target/dist/coop"][..]));
    let left_out = read(".dockerignore");
    let tracked = run(&root(), "git", &["ls-files"]);
    for name in String::from_utf8_lossy(&tracked.stdout).lines() {
        let top = name.split('/').next().unwrap_or_default();
        assert!(left_out.lines().all(|line| line != top && line != name), "{name} is not sent, by .dockerignore");
    }
}
