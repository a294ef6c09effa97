//! The text of case files: names, types, guesses.

use coop_ir::types::Scalar;

/// The guessed number of elements of a runtime array.
pub(super) const GUESSED_COUNT: u32 = 4096;

/// Returns the characters of a name that comments and strings allow.
pub(super) fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

/// Returns a string in TOML syntax.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the name of a scalar type in case files; `u8` for types that they lack.
pub(super) fn type_name(scalar: Scalar) -> String {
    let name = scalar.to_string();
    match name.parse::<coop_device::ComponentType>() {
        Ok(kind) if coop_exec::number::is_element_type(kind) => name,
        _ => "u8".into(),
    }
}
