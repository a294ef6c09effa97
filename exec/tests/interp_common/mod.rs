//! For tests of the interpreter: run a module with buffers of numbers.

#![allow(dead_code, reason = "not every test program needs everything")]

use std::path::PathBuf;

use coop_exec::interp::{Config, Interpreter, Memory, Report};
use coop_ir::Module;
use coop_ir::constant::{SpecValue, Specialization};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interp")
}

pub(crate) fn module(name: &str) -> Module {
    let path = folder().join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    coop_ir::binary::read(&bytes).unwrap()
}

pub(crate) fn f32s(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

pub(crate) fn f16s(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(|v| half::f16::from_f32(v).to_le_bytes()).collect()
}

pub(crate) fn u32s(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

pub(crate) fn from_f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(crate) fn from_f16s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

pub(crate) fn from_u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Buffers have the bindings 0, 1, ... of set 0.
pub(crate) fn try_run(
    module: &Module,
    spec: &[(u32, i64)],
    buffers: &[Vec<u8>],
    config: Config,
) -> Result<(Vec<Vec<u8>>, Report), coop_exec::Error> {
    let mut specialization = Specialization::new();
    for (id, value) in spec {
        specialization.set(*id, SpecValue::Int(i128::from(*value)));
    }
    let mut memory: Vec<Memory> = buffers
        .iter()
        .enumerate()
        .map(|(i, bytes)| Memory { name: format!("buffer {i}"), slot: Some((0, i as u32)), bytes: bytes.clone() })
        .collect();
    let interpreter = Interpreter::new(module, None, &specialization, config)?;
    let report = interpreter.run(&mut memory, &[], [1, 1, 1])?;
    Ok((memory.into_iter().map(|m| m.bytes).collect(), report))
}

pub(crate) fn run(module: &Module, spec: &[(u32, i64)], buffers: &[Vec<u8>], config: Config) -> (Vec<Vec<u8>>, Report) {
    try_run(module, spec, buffers, config).unwrap()
}

/// A run without undefined behavior.
pub(crate) fn run_clean(module: &Module, spec: &[(u32, i64)], buffers: &[Vec<u8>], config: Config) -> Vec<Vec<u8>> {
    let (out, report) = run(module, spec, buffers, config);
    let undefined = report.findings.iter().filter(|f| f.kind.is_undefined_behaviour());
    let text: Vec<String> = undefined.map(|f| f.to_string()).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
    out
}
