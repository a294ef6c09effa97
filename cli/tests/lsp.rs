//! `coopcheck lsp`, asked by a client of our own and by Neovim.

use lsp_server::{ErrorCode, Message, Notification, Request};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

fn testdata(path: &str) -> PathBuf {
    std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(path)).expect("it exists")
}

/// Returns false without a tool, which is a failure if tools must be there.
fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok();
    assert!(there || std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "no {tool}: run scripts/test.sh first");
    if !there {
        eprintln!("SKIPPED: {tool} is not there; scripts/drivers.sh fetches it");
    }
    there
}

/// An editor with a server.
struct Editor {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    requests: i32,
    /// Notifications that came before an answer.
    waiting: VecDeque<Notification>,
}

impl Editor {
    fn new() -> Editor {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coopcheck"));
        let mut server = command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
        let from = BufReader::new(server.stdout.take().expect("a pipe"));
        let to = server.stdin.take();
        let mut editor = Editor { server, to, from, requests: 0, waiting: VecDeque::new() };
        let answer = editor.ask("initialize", json!({ "capabilities": {} })).expect("an answer");
        assert_eq!(answer["capabilities"]["textDocumentSync"], 1, "{answer}");
        assert_eq!(answer["serverInfo"]["name"], "coopcheck");
        editor.tell("initialized", json!({}));
        editor
    }

    fn send(&mut self, message: Message) {
        message.write(self.to.as_mut().expect("it is open")).expect("it is read");
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(Notification::new(method.to_owned(), params).into());
    }

    fn next(&mut self) -> Message {
        Message::read(&mut self.from).expect("a message").expect("the server is there")
    }

    /// Returns the answer to a request, or the code of the error.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, i32> {
        self.requests += 1;
        let id = self.requests.into();
        self.send(Request::new(id, method.to_owned(), params).into());
        loop {
            match self.next() {
                Message::Notification(notification) => self.waiting.push_back(notification),
                Message::Request(request) => panic!("the server asks for {}", request.method),
                Message::Response(response) => {
                    assert_eq!(response.id, self.requests.into());
                    return response.error.map_or_else(|| Ok(response.result.unwrap_or(Value::Null)), |e| Err(e.code));
                }
            }
        }
    }

    /// Opens a document; returns its diagnostics.
    fn open(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "languageId": "glsl", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.published(uri, Some(1))
    }

    fn change(&mut self, uri: &str, version: i32, text: &str) {
        let document = json!({ "uri": uri, "version": version });
        let changes = json!([{ "text": text }]);
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Returns the diagnostics of a version, which are those that come next.
    fn published(&mut self, uri: &str, version: Option<i32>) -> Vec<Value> {
        let Notification { method, params } = self.waiting.pop_front().unwrap_or_else(|| match self.next() {
            Message::Notification(notification) => notification,
            other => panic!("{other:?} where diagnostics must be"),
        });
        assert_eq!((method.as_str(), params["uri"].as_str()), ("textDocument/publishDiagnostics", Some(uri)));
        assert_eq!(params["version"].as_i64(), version.map(i64::from));
        params["diagnostics"].as_array().expect("a list").clone()
    }

    /// Ends the server; returns its exit status.
    fn end(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null), Ok(Value::Null));
        self.tell("exit", Value::Null);
        self.to = None;
        self.server.wait().expect("it ends").code()
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn at(uri: &str, line: u32, character: u32) -> Value {
    json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } })
}

#[test]
fn shaders_are_checked_as_they_are_typed() {
    if !has("glslang") {
        return;
    }
    let path = testdata("cli/divergent.comp");
    let (uri, text) = (uri(&path), std::fs::read_to_string(&path).expect("text"));
    let mut editor = Editor::new();
    let found = editor.open(&uri, &text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["code"], "uniformity-flow");
    assert_eq!(found[0]["severity"], 2);
    assert_eq!(found[0]["range"]["start"], json!({ "line": 26, "character": 12 }));
    let related = found[0]["relatedInformation"].as_array().expect("the branch");
    assert_eq!(related[0]["location"]["range"]["start"]["line"], 25);
    assert!(related[0]["message"].as_str().is_some_and(|m| m.starts_with("this branch sends")), "{related:?}");

    let hover = editor.ask("textDocument/hover", at(&uri, 25, 14)).expect("an answer");
    let said = hover["contents"]["value"].as_str().expect("text");
    assert!(said.starts_with("`skip`: bool\n\nmay differ between any two invocations\n- line 19: "), "{said}");
    assert!(said.ends_with("- line 19: LocalInvocationIndex differs between invocations"), "{said}");
    let hover = editor.ask("textDocument/hover", at(&uri, 28, 12)).expect("an answer");
    let wanted = "`c`: matrix f32 16x16 Accumulator\n\nmay be executed by a part of a subgroup";
    assert_eq!(hover["contents"]["value"], wanted);
    let hover = editor.ask("textDocument/hover", at(&uri, 31, 17)).expect("an answer");
    let wanted = "`c`: matrix f32 16x16 Accumulator\n\nexecuted by all invocations of a workgroup together";
    assert_eq!(hover["contents"]["value"], wanted);
    assert_eq!(editor.ask("textDocument/hover", at(&uri, 0, 2)), Ok(Value::Null));
    let to = editor.ask("textDocument/definition", at(&uri, 26, 20)).expect("an answer");
    assert_eq!(to[0]["range"]["start"]["line"], 25);

    // A request between the change and its check is answered for the new text.
    editor.change(&uri, 2, &text.replace("if (!skip) {", "{"));
    assert_eq!(editor.ask("textDocument/definition", at(&uri, 26, 20)), Ok(Value::Null));
    assert_eq!(editor.published(&uri, Some(2)), Vec::<Value>::new());
    editor.change(&uri, 3, &text.replace("if (!skip) {", "if (!é𝄞) {"));
    let found = editor.published(&uri, Some(3));
    assert!(found.iter().all(|d| d["source"] == "compiler" && d["range"]["start"]["line"] == 25), "{found:?}");
    assert!(!found.is_empty());
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(editor.published(&uri, None), Vec::<Value>::new());
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn assembly_is_checked_with_the_project_beside_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lsp");
    std::fs::create_dir_all(&folder).expect("writable");
    let path = folder.join("a b.spvasm");
    let text = std::fs::read_to_string(testdata("validate/muladd/muladd-k-mismatch.spvasm")).expect("text");
    let uri = format!("file://{}/a%20b.spvasm", folder.display());
    let _ = std::fs::remove_file(folder.join("coopcheck.toml"));
    let mut editor = Editor::new();
    let found = editor.open(&uri, &text);
    assert_eq!((found.len(), &found[0]["code"]), (1, &json!("muladd-k-mismatch")), "{found:?}");
    let line = found[0]["range"]["start"]["line"].as_u64().expect("a line") as usize;
    let source = text.lines().nth(line).expect("a line");
    assert!(source.contains("OpCooperativeMatrixMulAddKHR"), "{source}");

    // The id of A: its type, and where it is defined.
    let operand = source.split_whitespace().nth(4).expect("A");
    let column = source.find(operand).expect("it is there") as u32 + 1;
    let hover = editor.ask("textDocument/hover", at(&uri, line as u32, column)).expect("an answer");
    let said = hover["contents"]["value"].as_str().expect("text");
    assert!(said.starts_with(&format!("`{operand}`: matrix f16 ")) && said.contains(" A"), "{said}");

    std::fs::write(folder.join("coopcheck.toml"), "[levels]\nmuladd-k-mismatch = \"warn\"\n").expect("writable");
    editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(editor.published(&uri, Some(1))[0]["severity"], 2);
    std::fs::write(folder.join("coopcheck.toml"), "[levels]\nmuladd-k = \"warn\"\n").expect("writable");
    editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
    let found = editor.published(&uri, Some(1));
    assert!(found.len() == 1 && found[0]["message"].as_str().is_some_and(|m| m.contains("muladd-k")), "{found:?}");

    std::fs::remove_file(folder.join("coopcheck.toml")).expect("it is there");
    editor.change(&uri, 2, "OpCapability Shader\n  OpNothing\n");
    let found = editor.published(&uri, Some(2));
    assert_eq!((found.len(), &found[0]["range"]["start"]["line"]), (1, &json!(1)), "{found:?}");
    editor.change(&uri, 3, "");
    assert_eq!(editor.published(&uri, Some(3)).len(), 1);
    assert!(!path.exists(), "the text of the editor counts");
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn what_an_editor_sends_does_not_end_the_server() {
    let mut editor = Editor::new();
    assert_eq!(editor.ask("textDocument/rename", json!({})), Err(ErrorCode::MethodNotFound as i32));
    assert_eq!(editor.ask("textDocument/hover", json!({ "position": 1 })), Err(ErrorCode::InvalidParams as i32));
    assert_eq!(editor.ask("textDocument/hover", at("file:///nowhere.comp", 1, 1)), Ok(Value::Null));
    editor.tell("textDocument/didOpen", json!([1]));
    editor.tell("textDocument/didChange", json!({ "textDocument": { "uri": "file:///x", "version": 1 } }));
    editor.tell("$/unknown", Value::Null);
    // Not a file, so not checked.
    let document = json!({ "uri": "untitled:Untitled-1", "languageId": "glsl", "version": 1, "text": "" });
    editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
    let found = editor.open("file:///nowhere/x.spvasm", "#version 450\n");
    assert!(found[0]["message"].as_str().is_some_and(|m| m.starts_with("GLSL, not a SPIR-V module")), "{found:?}");
    assert_eq!(editor.ask("textDocument/hover", at("file:///nowhere/x.spvasm", 1 << 31, u32::MAX)), Ok(Value::Null));
    assert_eq!(editor.end(), Some(0));
    // No editor.
    let output =
        Command::new(env!("CARGO_BIN_EXE_coopcheck")).arg("lsp").stdin(Stdio::null()).output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no request of an editor"), "{said}");
    // An editor that is gone.
    let mut editor = Editor::new();
    editor.to = None;
    assert_eq!(editor.server.wait().expect("it ends").code(), Some(0));
}

#[test]
fn neovim_shows_findings() {
    if !has("glslang") || !has("nvim") {
        return;
    }
    let script = testdata("cli/lsp.lua");
    let output = Command::new("nvim")
        .args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "-c"])
        .arg(format!("luafile {}", script.display()))
        .env("COOPCHECK", env!("CARGO_BIN_EXE_coopcheck"))
        .env("SHADER", testdata("cli/divergent.comp"))
        .output()
        .expect("it runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    for wanted in [
        "line 27 uniformity-flow OpCooperativeMatrixLoadKHR may be executed by a part of a subgroup, and so are 8 more instructions",
        "hover: `c`: matrix f32 16x16 Accumulator",
        "hover: `skip`: bool",
        "- line 19: LocalInvocationIndex differs between invocations",
        "definition: line 26",
        "no finding",
        "line 26 compiler 'nothing' : undeclared identifier",
    ] {
        assert!(lines.iter().any(|line| line.trim_end() == wanted), "{wanted}\n{shown}");
    }
}

/// An indented block of the page about editors, behind a line that ends so.
fn block(page: &str, behind: &str) -> String {
    let (_, rest) = page.split_once(behind).unwrap_or_else(|| panic!("no '{behind}'"));
    let lines = rest.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim_start_matches("    "))).collect()
}

/// The configurations of Helix and VS Code start the server, for languages that are declared.
#[test]
fn configurations_of_editors_read() {
    let page = std::fs::read_to_string(testdata("../docs/editors.md")).expect("the page");
    let helix: toml::Table = block(&page, "stay:\n").parse().expect("TOML");
    let server = &helix["language-server"]["coopcheck"];
    assert_eq!((server["command"].as_str(), server["args"][0].as_str()), (Some("coopcheck"), Some("lsp")));
    assert_eq!(helix["language"][0]["language-servers"][0].as_str(), Some("coopcheck"));
    let package: Value = serde_json::from_str(&block(&page, "`package.json`:\n")).expect("JSON");
    let script = block(&page, "`extension.js`:\n");
    assert!(package["main"] == "./extension.js" && script.contains("command: \"coopcheck\", args: [\"lsp\"]"));
    let client = package["dependencies"].as_object().expect("one").keys().next().expect("a package");
    assert!(script.contains(&format!("require(\"{client}/node\")")), "{client}");
    for event in package["activationEvents"].as_array().expect("languages") {
        let language = event.as_str().and_then(|event| event.strip_prefix("onLanguage:")).expect("a language");
        let declared = package["contributes"]["languages"].as_array().expect("some");
        // VS Code itself has HLSL.
        assert!(language == "hlsl" || declared.iter().any(|row| row["id"] == language), "{language} is not declared");
        assert!(script.contains(&format!("\"{language}\"")), "{language} is not started for");
    }
}
