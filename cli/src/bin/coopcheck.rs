//! `coopcheck`.
fn main() {}
