//! `cooprun`.
fn main() {}
