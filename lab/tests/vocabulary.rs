//! Facts about opcodes and enumerants are in `ir`, once: the other crates ask.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates that ask, and how often each takes an operand by its position (`inst.id(2)`, `inst.word(3)`) at most. Views of
/// `ir/src/views.rs` take their place: the numbers may only fall.
const POSITIONS: [(&str, usize); 12] = [
    ("uniformity", 14),
    ("device", 0),
    ("validate", 75),
    ("passes", 225),
    ("components", 0),
    ("coopmat", 0),
    ("capi", 0),
    ("layer", 0),
    ("exec", 41),
    ("cli", 3),
    ("web", 0),
    ("lab", 103),
];

/// The source files of a folder.
fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The code of a crate, without comments and unit tests, by file.
fn code(name: &str) -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    files(&root().join(name).join("src"), &mut paths);
    paths.sort();
    let code = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    paths.iter().map(|p| (p.clone(), code(p))).collect()
}

/// Returns the number of calls of a method with a literal number.
fn calls_with_a_number(code: &str, method: &str) -> usize {
    let number =
        |rest: &str| rest.split_once(')').is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    code.split(method).skip(1).filter(|rest| number(rest)).count()
}

#[test]
fn operands_by_position_get_fewer() {
    let found = POSITIONS.map(|(name, most)| {
        let code = code(name);
        assert!(!code.is_empty(), "{name} has no source files");
        let calls = |method: &str| code.iter().map(|(_, text)| calls_with_a_number(text, method)).sum::<usize>();
        (name, calls(".word(") + calls(".id("), most)
    });
    eprintln!("operands by position: {found:?}, {} in all", found.iter().map(|f| f.1).sum::<usize>());
    for (name, count, most) in found {
        assert!(count <= most, "{name} takes {count} operands by position, more than {most}: see ir/src/views.rs");
    }
}

/// A name is for messages: what an opcode is like is a property (lab/grammar/src/properties.rs).
#[test]
fn no_name_of_an_opcode_is_taken_apart() {
    const TESTS: [&str; 6] = [".starts_with(", ".ends_with(", ".contains(", ".strip_prefix(", ".strip_suffix(", "=="];
    for (name, _) in POSITIONS {
        for (path, text) in code(name) {
            for statement in text.split(';') {
                let named = statement.contains("op.name()") || statement.contains("op.to_string()");
                let tested = TESTS.iter().any(|t| statement.contains(t)) && named;
                // A format may stand beside a comparison of something else.
                let tested = tested && !statement.contains("format!");
                assert!(!tested, "{}: {}", path.display(), statement.trim());
            }
            for prefix in [".starts_with(\"Op", ".strip_prefix(\"Op"] {
                let sets = text.matches(&format!("{prefix}enCL.")).count();
                assert_eq!(text.matches(prefix).count(), sets, "{} tests an opcode's name", path.display());
            }
        }
    }
}

/// The generator has the numbers from the spirv crate; nobody else has a second vocabulary.
#[test]
fn nobody_else_has_enumerants() {
    for name in POSITIONS.map(|p| p.0).into_iter().chain(["ir"]) {
        for (path, text) in code(name) {
            if path.components().any(|c| c.as_os_str() == "grammar") && name == "lab" {
                continue;
            }
            let uses = text.match_indices("spirv::").filter(|(at, _)| {
                !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '"')
            });
            assert_eq!(uses.count(), 0, "{} uses the spirv crate", path.display());
        }
        let manifest = root().join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(&manifest).unwrap_or_else(|e| panic!("{}: {e}", manifest.display()));
        assert!(!manifest.lines().any(|l| l.starts_with("spirv")), "{name} depends on the spirv crate");
    }
}

/// Returns where the runs of three or more opcodes with a separator between them begin and end.
fn runs(code: &str, separator: char) -> Vec<(usize, usize)> {
    let opcode = |at: usize| {
        let name = code[at..].strip_prefix("Op::").filter(|n| n.starts_with(|c: char| c.is_ascii_uppercase()))?;
        Some(at + 4 + name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len()))
    };
    let skip = |at: usize| at + code[at..].len() - code[at..].trim_start().len();
    let (mut out, mut from) = (Vec::new(), 0);
    while let Some(start) = code[from..].find("Op::").map(|at| from + at) {
        from = start + 4;
        let Some(mut end) = opcode(start) else { continue };
        let mut length = 1;
        while let Some(next) = code[skip(end)..].strip_prefix(separator).map(|_| skip(skip(end) + 1)).and_then(opcode) {
            (end, length) = (next, length + 1);
        }
        if length >= 3 {
            out.push((start, end));
        }
        from = end;
    }
    out
}

/// Returns the lists of three or more opcodes that ask what an opcode is like: in `matches!`, in an array, or in an arm that
/// gives a truth value. An arm with code of its own is dispatch.
fn predicates(code: &str) -> Vec<String> {
    let asks = |start: usize, end: usize| {
        let (mut depth, mut open) = (0, None);
        for (at, c) in code[..start].char_indices().rev() {
            match c {
                ')' | ']' | '}' => depth += 1,
                '(' | '[' | '{' if depth > 0 => depth -= 1,
                '(' if code[..at].ends_with("Some") => {}
                '(' | '[' | '{' => {
                    open = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let rest = code[end..].trim_start().trim_start_matches(')').trim_start();
        let value = rest.strip_prefix("=>").map(str::trim_start);
        open.is_some_and(|at| code[..at].ends_with("matches!"))
            || value.is_some_and(|v| v.starts_with("true") || v.starts_with("false"))
    };
    let in_array = |start: usize| code[..start].trim_end().ends_with('[');
    let alternatives = runs(code, '|').into_iter().filter(|(start, end)| asks(*start, *end));
    let arrays = runs(code, ',').into_iter().filter(|(start, _)| in_array(*start));
    alternatives.chain(arrays).map(|(start, end)| code[start..end].to_owned()).collect()
}

#[test]
fn lists_of_opcodes_are_found() {
    let code = "matches!(op, Op::A | Op::B | Op::C); [Op::A, Op::B, Op::C].contains(&op); match op { Op::A
        | Op::B | Op::C => true, Op::D | Op::E | Op::F => self.work(), _ => matches!(op, Op::A | Op::B) }
        matches!(x.map(|i| i.op), Some(Op::A | Op::B | Op::C))";
    assert_eq!(predicates(code).len(), 4);
}

/// Code asks `coop_ir::Op` about opcodes: a new opcode gets its properties there.
#[test]
fn nobody_else_lists_opcodes() {
    for (name, _) in POSITIONS {
        for (path, text) in code(name) {
            let found = predicates(&text);
            assert!(found.is_empty(), "{} has lists of opcodes: {found:#?}", path.display());
        }
    }
}

/// Numbers of registries have names in `coop_ir::spv`.
#[test]
fn enumerants_are_compared_by_name() {
    let raw = |text: &str| {
        let tests = [
            "decoration == ",
            "storage == Some(",
            "built_in(id) == Some(",
            "has_capability(",
            "require_capability(m, ",
            "(Op::ExecutionMode, Some(",
            "(Op::ExecutionModeId, Some(",
            "Op::Capability, Some(",
            "Capability(",
            "Decoration(",
            "StorageClass(",
            "BuiltIn(",
            "ExecutionMode(",
            "MemoryAccess(",
            "Edit::Scope(",
        ];
        let number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        tests.iter().map(|t| text.split(t).skip(1).filter(|rest| number(rest)).count()).sum::<usize>()
    };
    for (name, _) in POSITIONS {
        for (path, text) in code(name) {
            assert_eq!(raw(&text), 0, "{} has a number where coop_ir::spv has a name", path.display());
        }
    }
}

/// The code that both lowerings share is in `matrix`: neither imports from the other, and `matrix` imports from
/// neither.
#[test]
fn lowerings_share_the_matrix_core_only() {
    let folders = ["matrix", "to_scalar", "to_tiles"];
    let mut found = [0; 3];
    for (path, text) in code("passes") {
        let in_folder = |f: &&str| path.components().any(|c| c.as_os_str() == std::ffi::OsStr::new(f));
        let Some(at) = folders.iter().position(in_folder) else { continue };
        found[at] += 1;
        for other in folders[1..].iter().filter(|f| **f != folders[at]) {
            assert!(!text.contains(&format!("{other}::")), "{} imports from {other}", path.display());
        }
    }
    assert!(found.iter().all(|n| *n > 5), "source files in {folders:?}: {found:?}");
}

/// For each crate, the most doc comment lines that begin with "What", "Whether" or "Who", and the most messages with "is no"
/// or "are no". The numbers may only fall.
const PROSE: [(&str, usize, usize); 14] = [
    ("ir", 0, 0),
    ("uniformity", 0, 0),
    ("device", 0, 0),
    ("validate", 0, 0),
    ("passes", 0, 0),
    ("components", 0, 0),
    ("coopmat", 0, 0),
    ("capi", 0, 0),
    ("layer", 0, 0),
    ("exec", 0, 0),
    ("cli", 0, 0),
    ("web", 0, 0),
    ("lab", 0, 0),
    ("fuzz", 0, 0),
];

/// Returns the source files of a crate and of its tests, with their texts.
fn texts(name: &str) -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "fuzz_targets", "grammar"] {
        let folder = root().join(name).join(folder);
        if folder.is_dir() {
            files(&folder, &mut paths);
        }
    }
    let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    paths.iter().map(|p| (p.clone(), text(p))).collect()
}

/// A doc comment says what an item is or does: "The size ...", "Returns the ...".
#[test]
fn doc_comments_say_what_an_item_is() {
    let begins = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        text.is_some_and(|t| ["What", "Whether", "Who"].iter().any(|w| t.starts_with(w)))
    };
    for (name, most, _) in PROSE {
        let files = texts(name);
        assert!(!files.is_empty(), "{name} has no source files");
        let found: Vec<String> = files
            .iter()
            .flat_map(|(path, text)| {
                text.lines().filter(|l| begins(l)).map(move |l| format!("{}: {l}", path.display()))
            })
            .collect();
        eprintln!("{name}: {} doc comments", found.len());
        assert!(found.len() <= most, "{name} has more than {most}:\n{}", found.join("\n"));
    }
}

/// "is not a pointer", and not "is no pointer".
#[test]
fn messages_negate_verbs() {
    let negates = |line: &str| {
        let message =
            line.split_once('"').map_or("", |(_, m)| m).replace("there is no ", "").replace("there are no ", "");
        ["is", "are"].iter().any(|verb| message.contains(&format!(" {verb} no ")))
    };
    for (name, _, most) in PROSE {
        let found: Vec<String> = texts(name)
            .iter()
            .flat_map(|(path, text)| {
                let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
                code.filter(|l| negates(l)).map(|l| format!("{}: {}", path.display(), l.trim())).collect::<Vec<_>>()
            })
            .collect();
        eprintln!("{name}: {} messages", found.len());
        assert!(found.len() <= most, "{name} has more than {most}:\n{}", found.join("\n"));
    }
}

/// A value in a message is not run together with the word behind it: "the stride {}is not an integer".
#[test]
fn values_in_messages_stand_apart() {
    let runs_together = |line: &str| {
        let message = line.split_once('"').map_or("", |(_, message)| message);
        let behind = message.split('}').skip(1);
        behind.filter(|text| text.chars().take_while(char::is_ascii_lowercase).count() > 1).count() > 0
    };
    // The laboratory writes texts for programs.
    for (name, ..) in PROSE.iter().filter(|(name, ..)| !["lab", "fuzz"].contains(name)) {
        let mut code = texts(name);
        code.retain(|(path, _)| path.starts_with(root().join(name).join("src")));
        assert!(!code.is_empty(), "{name}");
        let lines = code.iter().flat_map(|(path, text)| text.lines().map(move |line| (path, line.trim())));
        let found: Vec<String> = lines
            .filter(|(_, line)| !line.starts_with("//") && runs_together(line))
            .map(|(path, line)| format!("{}: {line}", path.display()))
            .collect();
        assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
    }
}
