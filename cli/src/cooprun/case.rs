//! `cooprun case`: a first case file for a module.
//!
//! What the module says is written down: bindings, types, push constants, spec constants with their defaults, the size of a
//! workgroup. What it can't say is guessed and marked as a guess: how many elements a runtime array has, how many workgroups
//! to start, what goes in.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_exec::Error;
use coop_exec::facts::{Binding, BindingKind, Facts, SpecConstant};
use coop_exec::layout::Layout;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Module};

use super::{Failure, kernel_case, read_words, write_text};
use crate::Status;

/// Elements of a runtime array, when nothing better is known.
pub(super) const GUESSED_COUNT: u32 = 4096;

/// Nesting of types that is looked into for an element type.
const MAX_DEPTH: u32 = 16;

#[derive(Args, Debug)]
pub(super) struct WriteCase {
    /// The module, SPIR-V words; - is stdin
    module: PathBuf,
    /// The entry point
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Where to write the case
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl WriteCase {
    pub(super) fn run(&self) -> Result<Status, Failure> {
        let words = read_words(&self.module)?;
        let module = coop_ir::binary::read_words(&words).map_err(|error| Error::Module(error.to_string()))?;
        let facts = Facts::new(&module, &Specialization::new());
        let kernel = if facts.entries.is_empty() { kernel_case::write(&module, self.entry.as_deref())? } else { None };
        let text = kernel.map_or_else(|| write_case(&module, &facts, self.entry.as_deref()), Ok)?;
        write_text(self.output.as_deref(), &text)?;
        Ok(Status::Success)
    }
}

struct Writer<'a> {
    module: &'a Module,
    facts: &'a Facts,
    decorations: &'a Decorations,
    layout: Layout<'a>,
    text: String,
}

/// The text of a first case.
fn write_case(module: &Module, facts: &Facts, entry: Option<&str>) -> Result<String, Error> {
    let decorations = Decorations::new(module);
    let constants = Constants::new(module, &Specialization::new());
    let layout = Layout::new(module, &decorations, &constants);
    Writer { module, facts, decorations: &decorations, layout, text: String::new() }.write(entry)
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write(mut self, entry: Option<&str>) -> Result<String, Error> {
        let entry = self.facts.entry(entry)?;
        let [x, y, z] = entry.local_size.clone().map(|size| size.to_string());
        let from_specs = entry.local_size.iter().any(|size| size.specs().is_some());
        let defaults = if from_specs { ", with the defaults of the spec constants" } else { "" };
        self.line(&format!("entry = {}", quoted(&entry.name)));
        self.line(&format!("# A guess. A workgroup has {x} x {y} x {z} invocations{defaults}."));
        self.line("workgroups = [1, 1, 1]");
        self.line("seed = 1");
        let addressed = self.push_constants();
        self.spec_constants();
        let mut last = None;
        let mut names: Vec<String> = addressed.iter().map(|(name, _)| name.clone()).collect();
        for binding in self.facts.bindings.iter().filter(|binding| binding.used) {
            let slot = (binding.set, binding.binding);
            if last == Some(slot) {
                self.line(&format!(
                    "# The module also sees set {}, binding {} as {}.",
                    slot.0,
                    slot.1,
                    display_name(binding)
                ));
                continue;
            }
            last = Some(slot);
            self.buffer(binding, &mut names);
        }
        for (name, pointee) in addressed {
            self.line(&format!("\n# Reached by its address.\n[[buffer]]\nname = {}", quoted(&name)));
            self.contents(pointee);
        }
        Ok(self.text)
    }

    /// Answers what is reached by addresses among them: the names that buffers for that get, and what is there.
    fn push_constants(&mut self) -> Vec<(String, Id)> {
        let mut addressed: Vec<(String, Id)> = Vec::new();
        let Some(block) = self.facts.push else { return addressed };
        let size = self.facts.push_size.map_or("an unknown number of".into(), |size| size.to_string());
        self.line(&format!("\n# {size} bytes. Addresses of buffers are {{ address = \"NAME\" }}."));
        self.line("push = [");
        for (member, index) in self.layout.members(block).into_iter().zip(0..) {
            let offset = member.offset;
            let own = self.decorations.member_name(self.module, block, index);
            let name = own.as_ref().map(|name| format!(" # {}", printable(name))).unwrap_or_default();
            let line = match Type::of(self.module, member.kind) {
                Some(Type::Pointer { pointee, .. }) => {
                    let own = own.filter(|own| !addressed.iter().any(|(name, _)| *name == printable(own)));
                    let buffer = own.map_or_else(|| format!("address{offset}"), |own| printable(&own));
                    let line = format!("    {{ offset = {offset}, address = {} }},", quoted(&buffer));
                    addressed.push((buffer, pointee));
                    line
                }
                _ => match self.element(member.kind, 0) {
                    Some((scalar, count)) => {
                        let zero = if scalar.is_float() { "0.0" } else { "0" };
                        let zeros = vec![zero; count.unwrap_or(1).min(64) as usize].join(", ");
                        format!("    {{ offset = {offset}, type = \"{}\", values = [{zeros}] }},", type_name(scalar))
                    }
                    None => {
                        let bytes = self.layout.size(member.kind).unwrap_or(4).min(256) as usize;
                        format!("    {{ offset = {offset}, bytes = \"{}\" }},", "00".repeat(bytes))
                    }
                },
            };
            self.line(&format!("{line}{name}"));
        }
        self.line("]");
        addressed
    }

    fn spec_constants(&mut self) {
        if self.facts.specs.is_empty() {
            return;
        }
        self.line("\n# The module's defaults.");
        self.line("[spec]");
        for spec in self.facts.specs.clone() {
            let name = spec.name.as_deref().map(|name| format!(" # {}", printable(name))).unwrap_or_default();
            self.line(&format!("{} = {}{name}", spec.spec_id, default_value(&spec)));
        }
    }

    fn buffer(&mut self, binding: &Binding, names: &mut Vec<String>) {
        let mut name = display_name(binding);
        if names.contains(&name) {
            let _ = write!(name, "_{}_{}", binding.set, binding.binding);
        }
        names.push(name.clone());
        let (set, slot) = (binding.set, binding.binding);
        if binding.kind == BindingKind::Other {
            self.line(&format!("\n# Set {set}, binding {slot} ({name}) is no buffer: cooprun can't run this module."));
            return;
        }
        self.line("\n[[buffer]]");
        self.line(&format!("name = {}", quoted(&name)));
        self.line(&format!("set = {set}\nbinding = {slot}"));
        if binding.kind == BindingKind::Uniform {
            self.line("kind = \"uniform\"");
        }
        self.contents(binding.pointee);
    }

    /// The type of a buffer's elements, how many there are, and what they are filled with.
    fn contents(&mut self, pointee: Id) {
        let (scalar, count) = self.element(pointee, 0).unwrap_or((Scalar::Int { width: 32, signed: false }, None));
        self.line(&format!("type = \"{}\"", type_name(scalar)));
        match count {
            Some(count) => self.line(&format!("count = {count}")),
            None => self.line(&format!("count = {GUESSED_COUNT} # a guess")),
        }
        self.line("fill = \"half-integers\" # a guess");
    }

    /// The scalar that a type is made of, and how many; none if it mixes them.
    fn element(&self, kind: Id, depth: u32) -> Option<(Scalar, Option<u32>)> {
        if depth > MAX_DEPTH {
            return None;
        }
        match Type::of(self.module, kind)? {
            Type::Scalar(scalar) => Some((scalar, Some(1))),
            Type::Vector { elem, len } => {
                let (scalar, count) = self.element(elem, depth + 1)?;
                Some((scalar, count.and_then(|count| count.checked_mul(len))))
            }
            Type::RuntimeArray { elem } => Some((self.element(elem, depth + 1)?.0, None)),
            Type::Array { elem, .. } => {
                let (scalar, _) = self.element(elem, depth + 1)?;
                Some((scalar, Some(self.layout.size(kind)? / scalar.bytes().max(1))))
            }
            Type::Struct { members } => {
                let mut found: Option<Scalar> = None;
                for &member in members.iter().take(64) {
                    let (scalar, _) = self.element(member, depth + 4)?;
                    if found.is_some_and(|found| found != scalar) {
                        return None;
                    }
                    found = Some(scalar);
                }
                let scalar = found?;
                let count = self.layout.size(kind).map(|size| size / scalar.bytes().max(1));
                Some((scalar, count))
            }
            _ => None,
        }
    }
}

fn default_value(spec: &SpecConstant) -> String {
    let bits = spec.default;
    match spec.kind.scalar() {
        None => (bits != 0).to_string(),
        Some(Scalar::Int { width, signed: true }) if (1..=64).contains(&width) => {
            ((bits << (64 - width)) as i64 >> (64 - width)).to_string()
        }
        Some(Scalar::Int { .. }) if bits > i64::MAX as u64 => format!("\"0x{bits:x}\""),
        Some(Scalar::Int { .. }) => bits.to_string(),
        Some(Scalar::Float { width: 32 }) => float(f32::from_bits(bits as u32).into()),
        Some(Scalar::Float { width: 64 }) => float(f64::from_bits(bits)),
        Some(Scalar::Float { width: 16 }) => {
            let half = coop_exec::number::decode(coop_device::ComponentType::F16, &(bits as u16).to_le_bytes());
            float(half.to_f64())
        }
        Some(_) => bits.to_string(),
    }
}

/// A float as TOML writes it.
fn float(value: f64) -> String {
    if value.is_nan() { "nan".into() } else { format!("{value:?}") }
}

pub(super) fn type_name(scalar: Scalar) -> String {
    let name = scalar.to_string();
    match name.parse::<coop_device::ComponentType>() {
        Ok(kind) if coop_exec::number::is_element_type(kind) => name,
        _ => "u8".into(),
    }
}

fn display_name(binding: &Binding) -> String {
    match &binding.name {
        Some(name) => printable(name),
        None => format!("buffer{}_{}", binding.set, binding.binding),
    }
}

/// What of a name can stand in a comment or a string.
pub(super) fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_exec::Case;
    use std::path::Path;

    fn case_for(kernel: &str) -> String {
        let path = format!("{}/../testdata/kernels/{kernel}.spv", env!("CARGO_MANIFEST_DIR"));
        let module = coop_ir::binary::read(&std::fs::read(path).unwrap()).unwrap();
        let facts = Facts::new(&module, &Specialization::new());
        write_case(&module, &facts, None).unwrap()
    }

    #[test]
    fn the_case_of_a_kernel_can_be_read_back() {
        let text = case_for("gemm_simple");
        for part in [
            "entry = \"main\"",
            "32 x 1 x 1 invocations",
            "type = \"f16\"",
            "binding = 2",
            "0 = 16 # M",
            "values = [0]",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let case = Case::parse(&text, Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(case.buffer.len(), 3);
        assert_eq!(case.push_constants(&|_| 0).unwrap().len(), 12);
    }

    #[test]
    fn every_kernel_gets_a_case() {
        let folder = format!("{}/../testdata/kernels", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "spv") {
                let text = case_for(path.file_stem().unwrap().to_str().unwrap());
                Case::parse(&text, Path::new("")).unwrap_or_else(|error| panic!("{}: {error}\n{text}", path.display()));
                count += 1;
            }
        }
        assert!(count > 20, "{count} kernels");
    }
}
