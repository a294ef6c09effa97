//! SPIR-V modules: read, write, print, parse, and every question one can ask of one.

pub mod profile;
