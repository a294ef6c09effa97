//! `// coopcheck: allow(RULE, ...) REASON` in the shader's source: findings of these rules are left out on its line, or on the next line
//! with code if it stands alone.

use crate::render::{in_source, sources};
use coop_ir::Module;
use coop_validate::Report;
use std::collections::BTreeMap;

/// A comment that allows rules.
struct Allowed {
    rules: Vec<String>,
    /// The line of the comment, from 1.
    line: usize,
    /// True if it has allowed a finding.
    used: bool,
}

/// Leaves out the findings that comments in the shader's source allow. Returns a message for each comment that has no effect: without
/// a reason, or without a finding.
pub(super) fn apply(module: &Module, report: &mut Report) -> Vec<String> {
    let shader = sources::of(module);
    let mut messages = Vec::new();
    // By file and line.
    let mut allowed: BTreeMap<(usize, usize), Vec<Allowed>> = BTreeMap::new();
    for (index, file) in shader.files().iter().enumerate() {
        let Some(text) = file.text() else { continue };
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((rules, reason)) = comment(line) else { continue };
            if reason.is_empty() {
                let missing = "coopcheck: allow(...) needs a reason behind it, and allows nothing without one";
                messages.push(format!("{}:{}: {missing}", file.name(), at + 1));
                continue;
            }
            let has_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
            let of = if has_code(line) { Some(at) } else { (at..lines.len()).find(|l| has_code(lines[*l])) };
            if let Some(of) = of {
                let rules = rules.split(',').map(|rule| rule.trim().to_owned()).collect();
                allowed.entry((index, of + 1)).or_default().push(Allowed { rules, line: at + 1, used: false });
            }
        }
    }
    if allowed.is_empty() {
        return messages;
    }
    report.retain(|finding| {
        let place = in_source(module, &shader, finding.at).and_then(|at| shader.location(at));
        let comments = place.and_then(|place| allowed.get_mut(&(place.file, place.line as usize)));
        let names = |comment: &&mut Allowed| comment.rules.iter().any(|rule| rule == finding.rule.id);
        let Some(comment) = comments.and_then(|comments| comments.iter_mut().find(names)) else { return true };
        comment.used = true;
        false
    });
    for ((file, _), comments) in &allowed {
        for comment in comments.iter().filter(|comment| !comment.used) {
            let (name, rules) = (shader.files()[*file].name(), comment.rules.join(", "));
            messages.push(format!(
                "{name}:{}: coopcheck: allow({rules}) allows nothing: there is no such finding",
                comment.line
            ));
        }
    }
    messages
}

/// Returns the rules and the reason of a comment.
fn comment(line: &str) -> Option<(&str, &str)> {
    let (_, comment) = line.split_once("//")?;
    let (rules, reason) = comment.trim_start().strip_prefix("coopcheck: allow(")?.split_once(')')?;
    Some((rules, reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::comment;

    #[test]
    fn comments_have_rules_and_a_reason() {
        let whole = comment("    x = 1; // coopcheck: allow(uniformity-flow) the host gives equal values");
        assert_eq!(whole, Some(("uniformity-flow", "the host gives equal values")));
        assert_eq!(comment("// coopcheck: allow(a, b)"), Some(("a, b", "")));
        assert_eq!([comment("allow(a) b"), comment("// allow(a) b"), comment("// coopcheck: allow a")], [None; 3]);
    }
}
