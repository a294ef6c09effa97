//! `cooplower`.
fn main() {}
