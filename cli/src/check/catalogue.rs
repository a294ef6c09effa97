//! `coopcheck explain` and `coopcheck rules`: the rules' own documentation.

use crate::{Status, io};
use coop_passes::{RefusalRule, refusal_rule};
use coop_validate::dynamic::{self, DYNAMIC, Dynamic, ELSEWHERE};
use coop_validate::rule::{self, Fate};
use coop_validate::{RULES, Rule};

/// Prints the documentation of the rules of that name.
pub(super) fn explain(name: &str) -> Status {
    let mut found = rule::search(name);
    let in_a_run = dynamic::search(name);
    if found.is_empty() && in_a_run.is_empty() {
        if let Some(refusal) = refusal_rule(name).copied().or_else(|| of_component_types(name)) {
            io::print(&refusal_text(&refusal));
            return Status::Success;
        }
        if let Some((_, why)) = ELSEWHERE.iter().find(|(id, _)| *id == name) {
            io::print(&format!("{name} is not checked: {why}\n"));
            return Status::Success;
        }
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
    let texts: Vec<String> = found.iter().map(|r| text(r)).chain(in_a_run.iter().map(|d| run_text(d))).collect();
    io::print(&texts.join("\n"));
    Status::Success
}

/// Returns a reason for which component types do not become software.
fn of_component_types(name: &str) -> Option<RefusalRule> {
    let rule = coop_components::refusal_rule(name)?;
    Some(RefusalRule { id: rule.id, summary: rule.summary, why: rule.why, remedy: rule.remedy })
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

fn run_text(rule: &Dynamic) -> String {
    let mut out = format!("{} (only in a run)\n{}\n\n", rule.id, rule.summary);
    out.push_str(&format!("What it checks\n  {}\n", rule.docs));
    out.push_str("How\n  coopcheck --run CASE.toml, which runs the module in the interpreter\n");
    for (heading, ids) in [("Vulkan", rule.vuids), ("Digest", rule.digest)] {
        if !ids.is_empty() {
            out.push_str(&format!("{heading}\n  {}\n", ids.join(", ")));
        }
    }
    out
}

fn refusal_text(rule: &RefusalRule) -> String {
    let mut out = format!(
        "{} (a refusal of cooplower)\n{}\n\nWhy\n  {}\nWhat to do\n  {}\n",
        rule.id, rule.summary, rule.why, rule.remedy
    );
    if !rule.id.starts_with("refused-vulkan-") {
        out.push_str(&format!("A module that is refused\n  testdata/passes/refused/{}.spvasm\n", rule.id));
    }
    out
}

/// Returns the rules, one on each line.
pub(super) fn list() -> String {
    let widest = RULES.iter().map(|r| r.id.len()).max().unwrap_or(0);
    let rules = RULES.iter().map(|r| format!("{:<7}  {:widest$}  {}\n", r.level.name(), r.id, r.summary));
    let runs = DYNAMIC.iter().map(|d| format!("{:<7}  {:widest$}  {}\n", "run", d.id, d.summary));
    rules.chain(runs).collect()
}

/// Returns the page `docs/rules.md`.
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
    out.push_str(
        "\n# Only in a run\n\n\
         What no module shows: `coopcheck --run CASE.toml` runs the module in the interpreter and reports it under these\n\
         ids. Some of it rules see as well, where values are fixed.\n",
    );
    for d in DYNAMIC {
        out.push_str(&format!("\n## {}\n\n{}. {}\n", d.id, capitalised(d.summary), d.docs));
        if !d.digest.is_empty() {
            let vuids = if d.vuids.is_empty() { String::new() } else { format!(" {}.", d.vuids.join(", ")) };
            out.push_str(&format!("\nDigest: {}.{vuids}\n", d.digest.join(", ")));
        }
    }
    out.push_str("\n# Not checked\n\n| digest | why |\n|---|---|\n");
    for (id, why) in ELSEWHERE {
        out.push_str(&format!("| {id} | {why} |\n"));
    }
    out
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
