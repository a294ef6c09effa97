//! Tables in the pages of the book have rows, and the commands that the pages name are there: programs, subcommands, options with values that parse, scripts with their
//! words, packages, tests and files. `cli/tests/book.rs` runs them.

use clap::error::ErrorKind;
use coop_exec::testing::pages::{self, Form, PROGRAMS, PageCommand, is_variable};
use coop_exec::testing::{gpus, repository};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Options whose value is a file that the command writes.
const WRITES: [&str; 12] = [
    "-o",
    "--output",
    "--report",
    "--page",
    "--svg",
    "--graph",
    "--dump-dir",
    "--write-baseline",
    "--keep",
    "--man",
    ">",
    "2>",
];

/// Programs, options and files that are there, and complaints about commands.
struct Book {
    tools: BTreeMap<String, clap::Command>,
    /// The help of `cooplab`, and of its subcommands by name.
    lab: BTreeMap<String, String>,
    /// The folders of the workspace's packages by name.
    packages: BTreeMap<String, String>,
    gpus: Vec<String>,
}

impl Book {
    fn new() -> Book {
        let tools = coop_cli::commands().map(|tool| (tool.get_name().to_owned(), tool));
        let mut lab = BTreeMap::from([(String::new(), lab_help(&[]))]);
        let listed: Vec<String> =
            lab[""].lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next()).map(str::to_owned).collect();
        for name in listed.iter().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && *name != "help") {
            if name != "cooplab" {
                lab.insert(name.clone(), lab_help(&[name]));
            }
        }
        let manifest: toml::Value = toml::from_str(&pages::read("Cargo.toml")).expect("Cargo.toml is TOML");
        let folders = manifest["workspace"]["members"].as_array().expect("members");
        let package = |folder: &toml::Value| {
            let folder = folder.as_str().expect("a folder").to_owned();
            let manifest: toml::Value =
                toml::from_str(&pages::read(&format!("{folder}/Cargo.toml"))).expect("a manifest");
            (manifest["package"]["name"].as_str().expect("a name").to_owned(), folder)
        };
        Book {
            tools: tools.into_iter().collect(),
            lab,
            packages: folders.iter().map(package).collect(),
            gpus: gpus().expect("the names of GPUs"),
        }
    }

    /// Looks at a line of commands.
    fn line(&self, line: &str) -> Result<(), String> {
        let mut command: Vec<String> = Vec::new();
        for word in words(line).into_iter().chain([";".to_owned()]) {
            match word.as_str() {
                ";" | "|" | "&&" | "||" => self.command(&std::mem::take(&mut command))?,
                _ => command.push(word),
            }
        }
        Ok(())
    }

    fn command(&self, words: &[String]) -> Result<(), String> {
        let at = words.iter().take_while(|word| is_variable(word)).count();
        let Some((program, rest)) = words[at..].split_first() else { return Ok(()) };
        files(rest)?;
        let redirected = rest.iter().position(|word| matches!(word.as_str(), ">" | "2>" | "<"));
        let rest = &rest[..redirected.unwrap_or(rest.len())];
        match program.as_str() {
            "cargo" => self.cargo(rest),
            "cooplab" => self.lab(rest),
            script if script.starts_with("scripts/") => self.script(script, rest),
            built if built.starts_with("target/") => {
                let name = built.rsplit('/').next().unwrap_or(built);
                self.tool(name, rest)
            }
            tool if PROGRAMS.contains(&tool) => self.tool(tool, rest),
            _ => Ok(()),
        }
    }

    /// A command line of a tool, which its parser takes.
    fn tool(&self, name: &str, rest: &[String]) -> Result<(), String> {
        let mut tool = self.tools.get(name).ok_or_else(|| format!("no program {name}"))?;
        if matches!(rest.first().map(String::as_str), Some("--completions" | "--man")) {
            return Ok(());
        }
        let own: Vec<&String> = rest.iter().take_while(|word| *word != "--").collect();
        let mut globals: Vec<String> = Vec::new();
        for word in &own {
            globals.extend(
                tool.get_arguments().filter(|a| a.is_global_set()).filter_map(|a| a.get_long().map(str::to_owned)),
            );
            match tool.find_subcommand(word) {
                Some(subcommand) => tool = subcommand,
                None if word.starts_with('-') => {
                    let Some(option) = word.strip_prefix("--") else { continue };
                    let option = option.split('=').next().unwrap_or(option);
                    let has = |a: &clap::Arg| {
                        a.get_long() == Some(option) || a.get_all_aliases().is_some_and(|all| all.contains(&option))
                    };
                    if !(["help", "version"].contains(&option)
                        || tool.get_arguments().any(has)
                        || globals.iter().any(|g| g == option))
                    {
                        return Err(format!("{} has no --{option}", tool.get_name()));
                    }
                }
                None => {}
            }
        }
        // Asking for help, nothing is missing.
        let line = std::iter::once(name).chain(own.iter().map(|word| word.as_str())).chain(["--help"]);
        let parsed = self.tools[name].clone().try_get_matches_from(line);
        // An option that the text names has its value elsewhere.
        let named = own.last().is_some_and(|word| word.starts_with("--"));
        let open = named || own.iter().any(|word| is_placeholder(word));
        match parsed.map_err(|e| (e.kind(), e.to_string())) {
            Err((ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _)) => Ok(()),
            Err((ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::InvalidSubcommand, _)) if open => {
                Ok(())
            }
            Err((_, message)) => Err(message),
            Ok(_) => Err("--help is taken for a value".to_owned()),
        }
    }

    /// A command line of `cooplab`, whose subcommands have the options.
    fn lab(&self, rest: &[String]) -> Result<(), String> {
        let name = rest.first().filter(|word| !word.starts_with('-')).cloned().unwrap_or_default();
        let help = self.lab.get(&name).ok_or_else(|| format!("cooplab has no subcommand {name}"))?;
        match rest.iter().filter(|word| word.starts_with("--")).find(|word| !has_word(help, word)) {
            Some(option) => Err(format!("cooplab {name} has no {option}")),
            None => Ok(()),
        }
    }

    /// A script with its words, as its text has them.
    fn script(&self, script: &str, rest: &[String]) -> Result<(), String> {
        if !repository().join(script).is_file() {
            return Err(format!("no file {script}"));
        }
        let text = pages::read(script);
        let mut words = rest.iter().peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--gpu" => {
                    let gpu = words.next().ok_or("--gpu has no name behind it")?;
                    if gpu != "swiftshader" && !self.gpus.contains(gpu) {
                        return Err(format!("no GPU {gpu}: {}", self.gpus.join(", ")));
                    }
                }
                // A program that the script starts.
                program if PROGRAMS.contains(&program) || program.starts_with("target/") => {
                    let own: Vec<String> = std::iter::once(word.clone()).chain(words.cloned()).collect();
                    return self.command(&own);
                }
                "..." | "…" => {}
                own if is_placeholder(own) || own.contains(['/', '.']) => return Ok(()),
                own if own.chars().all(|c| c.is_ascii_digit()) => {}
                own if has_word(&text, own) => {}
                // What selects tests is any word.
                _ if script == "scripts/test.sh" => {}
                own => return Err(format!("{script} does not know {own}")),
            }
        }
        Ok(())
    }

    /// A command of Cargo, with the packages, tests and examples that it names.
    fn cargo(&self, rest: &[String]) -> Result<(), String> {
        const KNOWN: [&str; 8] = ["build", "run", "test", "bench", "install", "fuzz", "cinstall", "nextest"];
        let (Some(command), arguments) = (rest.first(), rest.get(1..).unwrap_or_default()) else { return Ok(()) };
        if !KNOWN.contains(&command.as_str()) {
            return Err(format!("cargo {command} is not one of {KNOWN:?}"));
        }
        let own: Vec<&String> = arguments.iter().take_while(|word| *word != "--").collect();
        let value = |names: &[&str]| {
            let at = own.iter().position(|word| names.contains(&word.as_str()))?;
            own.get(at + 1).map(|word| word.as_str())
        };
        let folder = match value(&["-p", "--package"]) {
            Some(name) => Some(self.packages.get(name).ok_or_else(|| format!("no package {name} in this workspace"))?),
            None => None,
        };
        for (option, place) in [("--test", "tests"), ("--example", "examples"), ("--bench", "benches")] {
            let Some(name) = value(&[option]) else { continue };
            let folder = folder.ok_or_else(|| format!("{option} {name} without a package"))?;
            let there = |end: &str| repository().join(folder).join(place).join(format!("{name}{end}")).exists();
            if !(there(".rs") || there("/main.rs")) {
                return Err(format!("{folder}/{place} has no {name}"));
            }
        }
        let path = value(&["--path"]).filter(|path| !repository().join(path).join("Cargo.toml").is_file());
        path.map_or(Ok(()), |path| Err(format!("{path} is not a package")))
    }

    /// Returns true if a tool or a script has an option.
    fn has_option(&self, option: &str) -> bool {
        fn of(tool: &clap::Command, name: &str) -> bool {
            let has = |a: &clap::Arg| {
                a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|all| all.contains(&name))
            };
            tool.get_arguments().any(has) || tool.get_subcommands().any(|sub| of(sub, name))
        }
        let name = option.trim_start_matches("--");
        ["help", "version", "completions", "man"].contains(&name)
            || self.tools.values().any(|tool| of(tool, name))
            || self.lab.values().any(|help| has_word(help, option))
    }
}

fn lab_help(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_cooplab")).args(arguments).arg("--help").output().expect("cooplab runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns true if a text has a word, an option for example.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).any(|other| other == word)
}

/// Returns true if a word stands for others: `FILE`, `CASE.toml`, `ID=VALUE`, `[--json]`.
fn is_placeholder(word: &str) -> bool {
    let named = word
        .split(['=', '.', '/', ','])
        .any(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    named || word.contains(['[', ']', '…', '<']) || word.ends_with("...")
}

/// Splits a line as a shell does, operators apart; the parts of a synopsis lose their brackets.
fn words(line: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut quoted = false;
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, quoted) = (Some(c), true),
            (None, ' ' | ';') => {
                if quoted || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                quoted = false;
                if c == ';' {
                    out.push(";".to_owned());
                }
            }
            (None, c) => word.push(c),
        }
    }
    out
}

/// Looks for the files that are read, as far as their names begin with a folder of the repository.
fn files(words: &[String]) -> Result<(), String> {
    let mut before = "";
    for word in words {
        let folder = word.split_once('/').map(|(folder, _)| folder);
        let ours =
            folder.is_some_and(|folder| !folder.is_empty() && repository().join(folder).is_dir() && folder != "target");
        let open = is_placeholder(word) || word.contains('*');
        if ours && !WRITES.contains(&before) && !open && !repository().join(word).exists() {
            return Err(format!("no file {word}"));
        }
        before = word;
    }
    Ok(())
}

#[test]
fn commands_in_the_pages_exist() {
    let book = Book::new();
    let mut all: Vec<PageCommand> = pages::pages().iter().flat_map(|page| pages::commands(page)).collect();
    // Its walk-throughs make the tests that they run: lab/tests/contributing.rs.
    all.retain(|command| command.page != "CONTRIBUTING.md" || command.form == Form::Text);
    assert!(all.len() > 200, "only {} commands", all.len());
    let wrong: Vec<String> =
        all.iter().filter_map(|command| Some(format!("{command}: {}", book.line(&command.text).err()?))).collect();
    assert!(wrong.is_empty(), "{} of {} commands:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// A table has rows under its heading: one that a command fills may come out empty.
#[test]
fn tables_have_rows() {
    let mut tables = 0;
    let mut empty = Vec::new();
    for page in pages::pages() {
        let text = pages::read(&page);
        let lines: Vec<&str> = text.lines().collect();
        for at in (0..lines.len()).filter(|at| is_below_heading(lines[*at])) {
            tables += 1;
            if !lines.get(at + 1).is_some_and(|next| next.starts_with('|')) {
                empty.push(format!("{page}:{}", at + 1));
            }
        }
    }
    assert!(tables > 50, "only {tables} tables");
    assert!(empty.is_empty(), "tables without rows: {}", empty.join(", "));
}

/// Returns true for the line between a table's heading and its rows.
fn is_below_heading(line: &str) -> bool {
    line.starts_with('|') && line.contains("---") && line.chars().all(|c| "|-: ".contains(c))
}

/// Options that stand alone in the text are options of a tool or a script; paths are those of files.
#[test]
fn options_and_files_in_the_text_exist() {
    let book = Book::new();
    let scripts = std::fs::read_dir(repository().join("scripts")).expect("scripts");
    let scripts: Vec<String> =
        scripts.map(|e| std::fs::read_to_string(e.expect("an entry").path()).expect("text")).collect();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for page in pages::pages() {
        for (line, span) in pages::spans(&pages::read(&page)) {
            let mut parts = span.split_whitespace();
            let Some(first) = parts.next() else { continue };
            if first.starts_with("--") && first.len() > 2 {
                for option in std::iter::once(first).chain(parts).filter(|word| word.starts_with("--")) {
                    let option = option.split(['=', '|', ']']).next().unwrap_or(option);
                    if !(book.has_option(option) || scripts.iter().any(|text| has_word(text, option))) {
                        wrong.push(format!("{page}:{line}: nothing has the option of `{span}`"));
                    }
                    seen.insert(option.to_owned());
                }
            } else if parts.next().is_none() && !first.contains('*') && !first.ends_with('/') && !first.contains("::") {
                let named = files(&[first.to_owned()]);
                wrong.extend(named.err().map(|why| format!("{page}:{line}: {why}")));
            }
        }
    }
    assert!(seen.len() > 50, "{seen:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The test sees what is not there.
#[test]
fn wrong_commands_are_found() {
    let book = Book::new();
    for line in [
        "coopcheck --no-such-option a.spv",
        "cooprun runs a.spv",
        "cooplower --target nothing a.spv",
        "coop lower --dump-change a.spv -o b.spv",
        "cooplab campaigns",
        "cooplab campaign --no-such-option",
        "scripts/no-such-script.sh",
        "scripts/drivers.sh walk",
        "scripts/drivers.sh run --gpu no-such-gpu cooprun compile a.spv",
        "scripts/drivers.sh run cooprun run testdata/no-such-module.spv",
        "cargo test -p no-such-package",
        "cargo test -p coop-cli --test no-such-test",
        "coop print a.spv | coop pares -",
        "coopcheck testdata/no-such-module.spv",
    ] {
        assert!(book.line(line).is_err(), "{line}");
    }
    for line in ["coopcheck --spec ID=VALUE FILE", "coop reduce a.spv -o b.spv -- sh -c 'x --y {}'", "cooprun prove"] {
        assert_eq!(book.line(line), Ok(()), "{line}");
    }
}
