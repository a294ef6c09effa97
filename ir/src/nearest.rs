//! Suggests a known name for a misspelled one.

use std::fmt;

/// Returns the known name that is nearest to an unknown one, if any is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|k| (distance(name, k), k));
    scored.min_by_key(|(d, _)| *d).filter(|(d, k)| *d <= k.len() / 2).map(|(_, k)| k)
}

/// The end of a message about an unknown name: a suggestion, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct DidYouMean<'a>(pub Option<&'a str>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, "; did you mean '{name}'?"))
    }
}

/// Returns how many characters must be inserted, removed or replaced to turn one string into the other.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "xbcd"), 2);
    }

    #[test]
    fn only_what_is_near_is_meant() {
        assert_eq!(nearest("subgroupsize", ["subgroupSize", "name"]), Some("subgroupSize"));
        assert_eq!(nearest("zzzzzzzz", ["subgroupSize", "name"]), None);
    }
}
