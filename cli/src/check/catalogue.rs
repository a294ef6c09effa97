//! `coopcheck explain` and `coopcheck rules`: the rules' own documentation.

use crate::{Status, io};
use coop_validate::rule::{self, Fate};
use coop_validate::{RULES, Rule};

/// Prints what the rules of that name check and why.
pub(super) fn explain(name: &str) -> Status {
    let mut found = rule::search(name);
    if found.is_empty() {
        match rule::fate(name) {
            Some(Fate::Renamed(new)) => {
                io::error(&format!("note: '{name}' is called '{new}' now"));
                found = rule::search(new);
            }
            Some(Fate::Removed(why)) => {
                io::print(&format!("{name} was removed: {why}\n"));
                return Status::Success;
            }
            None => {
                let hint = match rule::nearest(name) {
                    Some(near) => format!("did you mean '{}'?", near.id),
                    None => "`coopcheck rules` lists them".to_owned(),
                };
                io::error(&format!("error: no rule is called '{name}'; {hint}"));
                return Status::BadInput;
            }
        }
    }
    let texts: Vec<String> = found.iter().map(|r| text(r)).collect();
    io::print(&texts.join("\n"));
    Status::Success
}

fn text(rule: &Rule) -> String {
    let mut out = format!("{} ({}, since {})\n{}\n\n", rule.id, rule.level, rule.since, rule.summary);
    for line in rule.docs() {
        match line.strip_prefix("## ") {
            Some(heading) => out.push_str(&format!("{heading}\n")),
            None => out.push_str(&format!("  {line}\n")),
        }
    }
    out.push_str(&format!("Source\n  {}\n", rule.spec));
    for (heading, ids) in [("Vulkan", rule.vuids), ("Digest", rule.digest)] {
        if !ids.is_empty() {
            out.push_str(&format!("{heading}\n  {}\n", ids.join(", ")));
        }
    }
    out.push_str(&format!("A module that breaks it\n  {}\n", rule.example_file()));
    out
}

/// One line a rule.
pub(super) fn list() -> String {
    let widest = RULES.iter().map(|r| r.id.len()).max().unwrap_or(0);
    RULES.iter().map(|r| format!("{:<7}  {:widest$}  {}\n", r.level.name(), r.id, r.summary)).collect()
}

/// The page `docs/rules.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Rules\n\n\
         What `coopcheck` checks, from the rules' own documentation: `coopcheck rules --format md` writes this page, and a\n\
         test compares. `coopcheck explain RULE` shows one of them, also by a Vulkan VUID or its number.\n\n\
         An *error* means that the module is invalid, or that it does something undefined for sure; what rests on the\n\
         default of a specialization constant is a *warning* at most. Rules of level *allow* are off unless asked for with\n\
         `--warn` or `--deny`.\n\n\
         | rule | level | what breaking it means |\n|---|---|---|\n",
    );
    for r in RULES {
        out.push_str(&format!("| [{0}](#{0}) | {1} | {2} |\n", r.id, r.level, r.summary));
    }
    for r in RULES {
        out.push_str(&format!("\n## {}\n\n{} ({}, since {}).\n", r.id, capitalised(r.summary), r.level, r.since));
        for line in r.docs() {
            match line.strip_prefix("## ") {
                Some(heading) => out.push_str(&format!("\n**{heading}.** ")),
                None => out.push_str(&format!("{}\n", line.trim_end())),
            }
        }
        out.push_str(&format!("\nSource: {}.", r.spec));
        if !r.vuids.is_empty() {
            out.push_str(&format!(" {}.", r.vuids.join(", ")));
        }
        if !r.digest.is_empty() {
            out.push_str(&format!(" Digest: {}.", r.digest.join(", ")));
        }
        out.push_str(&format!(" Test: [`{0}`](../{0}).\n", r.example_file()));
    }
    out
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
