//! Messages of the compilers of shaders, as diagnostics.

use super::lines;
use lsp_types::{Diagnostic, DiagnosticSeverity, Range};

/// Returns the diagnostics in what a compiler wrote about the file at `path`. Without any that names a line, one for all of it.
pub(super) fn diagnostics(said: &str, path: &str, text: &str) -> Vec<Diagnostic> {
    let located: Vec<Diagnostic> = said.lines().filter_map(|line| message(line, path, text)).collect();
    if !located.is_empty() {
        return located;
    }
    vec![diagnostic(lines::whole_line(text, 0), DiagnosticSeverity::ERROR, said.trim())]
}

/// A diagnostic of the compiler.
fn diagnostic(range: Range, severity: DiagnosticSeverity, message: &str) -> Diagnostic {
    Diagnostic {
        range,
        severity: Some(severity),
        source: Some("compiler".to_owned()),
        message: message.to_owned(),
        ..Diagnostic::default()
    }
}

/// Takes a message apart: `ERROR: path:12: what` (glslang), `path:12: error: what` (glslc), `path:12:5: error: what` (dxc),
/// `path(12): error 30015: what` (slangc).
fn message(line: &str, path: &str, text: &str) -> Option<Diagnostic> {
    let (before, rest) = line.split_once(path)?;
    let rest = rest.strip_prefix([':', '('])?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let number: u32 = rest[..digits].parse().ok()?;
    let what = rest[digits..].trim_start_matches([':', ')', ' ']);
    // A column.
    let what = what.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches([':', ' ']);
    let severity = match format!("{before}{what}").to_lowercase() {
        says if says.contains("error") => DiagnosticSeverity::ERROR,
        says if says.contains("warning") => DiagnosticSeverity::WARNING,
        says if says.starts_with("note") => DiagnosticSeverity::INFORMATION,
        _ => DiagnosticSeverity::ERROR,
    };
    Some(diagnostic(lines::whole_line(text, number.saturating_sub(1)), severity, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_four_compilers() {
        let text = "one\n  two\n";
        for said in [
            "ERROR: /t/a.comp:2: 'x' : undeclared identifier",
            "/t/a.comp:2: error: 'x' : undeclared identifier",
            "/t/a.comp:2:7: error: use of undeclared identifier 'x'",
            "/t/a.comp(2): error 30015: undefined identifier 'x'.",
        ] {
            let all = diagnostics(&format!("a.comp\n{said}\n1 error"), "/t/a.comp", text);
            assert_eq!(all.len(), 1, "{said}");
            assert_eq!((all[0].range.start.line, all[0].range.start.character), (1, 2), "{said}");
            assert_eq!(all[0].severity, Some(DiagnosticSeverity::ERROR));
            assert!(all[0].message.contains("'x'"), "{}", all[0].message);
        }
        let all = diagnostics("no such stage", "/t/a.comp", text);
        assert_eq!((all.len(), all[0].message.as_str()), (1, "no such stage"));
    }
}
