//! The commands in the pages of the book, for the tests that run them or look whether there are such.
//!
//! A command begins with one of our programs, `cargo` or a script. It is a line of a fenced block of `console` or `sh`, a line of an
//! indented block (up to three spaces, which a remark follows), or between backticks in the text.

use super::repository;

/// The place of a command in its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A line `$ ...` of a block of `console`; what it prints follows on the page.
    Console,
    /// A line of another block.
    Line,
    /// Between backticks.
    Text,
}

/// A command in a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageCommand {
    /// The page, from the repository's folder.
    pub page: String,
    /// Its line, from 1.
    pub line: usize,
    /// The place in the page.
    pub form: Form,
    /// The command as a line for a shell.
    pub text: String,
    /// The exit status that the page names, else 0.
    pub status: i32,
}

impl std::fmt::Display for PageCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: `{}`", self.page, self.line, self.text)
    }
}

/// Returns the pages of the book and README.md, from the repository's folder.
pub fn pages() -> Vec<String> {
    let summary = read("docs/SUMMARY.md");
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let in_docs = |link: &str| link.strip_prefix("../").map_or_else(|| format!("docs/{link}"), str::to_owned);
    std::iter::once("README.md".to_owned()).chain(links.map(in_docs)).collect()
}

/// Returns the text of a file of the repository.
pub fn read(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the commands of a page, in order.
pub fn commands(page: &str) -> Vec<PageCommand> {
    let text = read(page);
    let mut found: Vec<PageCommand> = blocks(page, &text);
    found.extend(spans(&text).into_iter().filter(|(_, span)| is_command(span)).map(|(line, span)| PageCommand {
        page: page.to_owned(),
        line,
        form: Form::Text,
        text: span,
        status: 0,
    }));
    found.sort_by_key(|command| command.line);
    found
}

/// Returns what stands between backticks outside of blocks, with the line where it begins.
pub fn spans(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut paragraph = String::new();
    let mut first = 1;
    let mut fenced = false;
    // The last paragraph ends here too.
    for (at, line) in text.lines().chain([""]).enumerate() {
        let fence = line.starts_with("```");
        if !(fence || fenced || line.is_empty() || line.starts_with("    ")) {
            paragraph.push_str(line);
            paragraph.push('\n');
            continue;
        }
        let mut line = first;
        for (i, part) in paragraph.split('`').enumerate() {
            if i % 2 == 1 {
                out.push((line, part.replace('\n', " ").replace("\\|", "|")));
            }
            line += part.matches('\n').count();
        }
        paragraph.clear();
        first = at + 2;
        fenced ^= fence;
    }
    out
}

/// Returns the commands in the blocks of a page.
fn blocks(page: &str, text: &str) -> Vec<PageCommand> {
    let mut out = Vec::new();
    let mut language: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("```") {
            language = if language.is_some() { None } else { Some(name) };
            continue;
        }
        let (form, command) = match language {
            Some("console") => match line.strip_prefix("$ ") {
                Some(command) => (Form::Console, command),
                None => continue,
            },
            Some("sh") if !line.trim().is_empty() => (Form::Line, line),
            Some(_) => continue,
            None => match line.strip_prefix("    ") {
                Some(line) => {
                    let line = line.strip_prefix("$ ").unwrap_or(line);
                    let command = line.split("   ").next().unwrap_or(line);
                    if !is_command(command) {
                        continue;
                    }
                    (Form::Line, command)
                }
                None => continue,
            },
        };
        let (text, status) = match command.rsplit_once("# exit status ") {
            Some((text, status)) => (text, status.trim().parse().expect("a number behind `# exit status`")),
            None => (command, 0),
        };
        out.push(PageCommand { page: page.to_owned(), line: at + 1, form, text: text.trim().to_owned(), status });
    }
    out
}

/// Returns true if a line begins with a program that we have, `cargo` or a script, behind variables.
fn is_command(line: &str) -> bool {
    let program = line.split_whitespace().find(|word| !is_variable(word));
    program.is_some_and(|word| {
        let word = word.trim_end_matches(';');
        PROGRAMS.contains(&word) || word == "cargo" || word.starts_with("scripts/")
    })
}

/// Our programs.
pub const PROGRAMS: [&str; 5] = ["coop", "coopcheck", "cooplower", "cooprun", "cooplab"];

/// Returns true if a word gives a variable a value.
pub fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_each_form() {
        let page = "Text `coop print a\nb` and `other`.\n\n    cooprun run x.spv      a remark\n    not one\n\n```console\n$ coop diff a b\nprinted\n\
                    ```\n```sh\nA=1 scripts/try.sh    # exit status 3\n```\n";
        let found: Vec<(usize, Form, String, i32)> =
            blocks("p", page).into_iter().map(|c| (c.line, c.form, c.text, c.status)).collect();
        let wanted = [
            (4, Form::Line, "cooprun run x.spv", 0),
            (8, Form::Console, "coop diff a b", 0),
            (12, Form::Line, "A=1 scripts/try.sh", 3),
        ];
        assert_eq!(found, wanted.map(|(line, form, text, status)| (line, form, text.to_owned(), status)));
        assert_eq!(spans(page), [(1, "coop print a b".to_owned()), (2, "other".to_owned())]);
        assert!(pages().iter().any(|page| page == "layer/README.md") && pages().len() > 25);
    }
}
