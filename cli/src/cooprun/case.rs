//! `cooprun case`: writes a first case file for a module.
//!
//! Facts in the module are copied: bindings, types, push constants, specialization constants with their defaults, the
//! workgroup size. All else is guessed and marked as a guess: the lengths of runtime arrays, the number of workgroups,
//! the contents of buffers.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_device::subgroup::{SpecializedFor, specialized_for};
use coop_exec::Error;
use coop_exec::facts::{Binding, BindingKind, Facts, SpecConstant};
use coop_exec::type_layout::TypeLayout;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Module, Op};

use super::addressed::{Blocks, Field, FieldKind};
use super::case_text::{GUESSED_COUNT, printable, quoted, type_name};
use super::{Failure, kernel_case, read_words, write_text};
use crate::Status;
use crate::args::parse_subgroup_size;

/// The largest number of buffers in a case.
const MOST_BUFFERS: usize = 32;

/// The largest nesting of types to look into for an element type.
const MAX_DEPTH: u32 = 16;

#[derive(Args, Debug)]
pub(super) struct WriteCase {
    /// The module, SPIR-V words; - is stdin
    module: PathBuf,
    /// The entry point
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The subgroup size that the pipeline requires
    #[arg(long, value_name = "N", value_parser = parse_subgroup_size)]
    subgroup_size: Option<u32>,
    /// The file to write the case to
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl WriteCase {
    pub(super) fn run(&self) -> Result<Status, Failure> {
        let words = read_words(&self.module)?;
        let module = coop_ir::binary::read_words(&words).map_err(|error| Error::Module(error.to_string()))?;
        let facts = Facts::new(&module, &Specialization::new());
        let kernel = if facts.entries.is_empty() { kernel_case::write(&module, self.entry.as_deref())? } else { None };
        let text = kernel.map_or_else(|| write_case(&module, &facts, self.entry.as_deref(), self.subgroup_size), Ok)?;
        write_text(self.output.as_deref(), &text)?;
        Ok(Status::Success)
    }
}

/// A buffer that is reached by its address.
#[derive(Clone)]
struct Addressed {
    /// The name of its buffer.
    name: String,
    /// The type of its contents.
    pointee: Id,
    /// The types of the blocks that hold the address, and of those that lead to them.
    within: Vec<Id>,
}

struct Writer<'a> {
    module: &'a Module,
    facts: &'a Facts,
    decorations: &'a Decorations,
    layout: TypeLayout<'a>,
    blocks: Blocks<'a>,
    /// The names of the buffers so far.
    named: Vec<String>,
    text: String,
}

/// Returns the text of a first case.
fn write_case(
    module: &Module,
    facts: &Facts,
    entry: Option<&str>,
    subgroup_size: Option<u32>,
) -> Result<String, Error> {
    let decorations = Decorations::new(module);
    let constants = Constants::new(module, &Specialization::new());
    let layout = TypeLayout::new(module, &decorations, &constants);
    let blocks = Blocks::new(module, layout, &constants);
    let named = Vec::new();
    Writer { module, facts, decorations: &decorations, layout, blocks, named, text: String::new() }
        .write(entry, subgroup_size)
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write(mut self, entry: Option<&str>, subgroup_size: Option<u32>) -> Result<String, Error> {
        let entry = self.facts.entry(entry)?;
        let [x, y, z] = entry.local_size.clone().map(|size| size.to_string());
        let from_specs = entry.local_size.iter().any(|size| size.specs().is_some());
        let defaults = if from_specs { ", with the defaults of the spec constants" } else { "" };
        self.line(&format!("entry = {}", quoted(&entry.name)));
        self.line(&format!("# A guess. A workgroup has {x} x {y} x {z} invocations{defaults}."));
        self.line("workgroups = [1, 1, 1]");
        self.line("seed = 1");
        self.subgroup_size(subgroup_size);
        let mut addressed = self.push_constants();
        self.spec_constants();
        let mut last = None;
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
            addressed.extend(self.buffer(binding));
        }
        let mut at = 0;
        while let Some(Addressed { name, pointee, within }) = addressed.get(at).cloned() {
            self.line(&format!("\n# Reached by its address.\n[[buffer]]\nname = {}", quoted(&name)));
            addressed.extend(self.contents(pointee, &within));
            at += 1;
        }
        Ok(self.text)
    }

    /// Writes the subgroup size: the requested one, or the one that the module's defaults are made for.
    fn subgroup_size(&mut self, asked: Option<u32>) {
        let matrices = Op::TypeCooperativeMatrixKHR;
        let depends = self.module.globals_with(matrices).next().is_some();
        match (asked, specialized_for(self.module, &Specialization::new(), true)) {
            (Some(size), _) => self.line(&format!("subgroup-size = {size}")),
            (None, Some(found)) => {
                let SpecializedFor { size, spec_id, sign, .. } = found;
                self.line(&format!("# SpecId {spec_id} is {size}, and the module {sign}."));
                self.line(&format!("subgroup-size = {size}"));
            }
            (None, None) if depends => {
                self.line("# What the pipeline requires; without it the subgroup size is the device's own.");
                self.line("# subgroup-size = 32");
            }
            (None, None) => {}
        }
    }

    /// Writes the push constants. Returns the buffers that their addresses lead to.
    fn push_constants(&mut self) -> Vec<Addressed> {
        let mut addressed = Vec::new();
        let Some(block) = self.facts.push else { return addressed };
        let size = self.facts.push_size.map_or("an unknown number of".into(), |size| size.to_string());
        self.line(&format!("\n# {size} bytes. Addresses of buffers are {{ address = \"NAME\" }}."));
        self.line("push = [");
        if let Some(fields) = self.blocks.fields(block) {
            addressed = self.parts(block, &fields, &[]);
            self.line("]");
            return addressed;
        }
        for (member, index) in self.layout.members(block).into_iter().zip(0..) {
            let offset = member.offset;
            let own = self.decorations.member_name(self.module, block, index);
            let name = own.as_ref().map(|name| format!(" # {}", printable(name))).unwrap_or_default();
            let line = match self.element(member.kind, 0) {
                Some((scalar, count)) => numbers(offset, scalar, count.unwrap_or(1)),
                None => {
                    let bytes = self.layout.size(member.kind).unwrap_or(4).min(256) as usize;
                    format!("    {{ offset = {offset}, bytes = \"{}\" }},", "00".repeat(bytes))
                }
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

    /// Writes a buffer. Returns the buffers that its addresses lead to.
    fn buffer(&mut self, binding: &Binding) -> Vec<Addressed> {
        let mut name = display_name(binding);
        if self.named.contains(&name) {
            let _ = write!(name, "_{}_{}", binding.set, binding.binding);
        }
        self.named.push(name.clone());
        let (set, slot) = (binding.set, binding.binding);
        if binding.kind == BindingKind::Other {
            self.line(&format!(
                "\n# Set {set}, binding {slot} ({name}) is not a buffer: cooprun can't run this module."
            ));
            return Vec::new();
        }
        self.line("\n[[buffer]]");
        self.line(&format!("name = {}", quoted(&name)));
        self.line(&format!("set = {set}\nbinding = {slot}"));
        if binding.kind == BindingKind::Uniform {
            self.line("kind = \"uniform\"");
        }
        self.contents(binding.pointee, &[])
    }

    /// Writes the parts of a block, one on each line. Returns the buffers that their addresses lead to. `within` are
    /// the types that lead to the block; a pointer back to one of those is null.
    fn parts(&mut self, block: Id, fields: &[Field], within: &[Id]) -> Vec<Addressed> {
        let mut addressed: Vec<Addressed> = Vec::new();
        let within = [within, &[block]].concat();
        for field in fields {
            let offset = field.offset;
            let member = self.member_name(block, offset);
            let comment = member.as_ref().map(|name| format!(" # {name}")).unwrap_or_default();
            let line = match field.what {
                FieldKind::Numbers(scalar, count) => numbers(offset, scalar, count),
                FieldKind::Address(pointee) if within.contains(&pointee) || self.named.len() >= MOST_BUFFERS => {
                    format!("    {{ offset = {offset}, type = \"u64\", values = [0] }}, # an address: null")
                }
                FieldKind::Address(pointee) => {
                    let free = member.filter(|name| !self.named.contains(name));
                    let name = free.unwrap_or_else(|| self.free_name(offset));
                    self.named.push(name.clone());
                    let line = format!("    {{ offset = {offset}, address = {} }},", quoted(&name));
                    addressed.push(Addressed { name, pointee, within: within.clone() });
                    line
                }
            };
            self.line(&format!("{line}{comment}"));
        }
        addressed
    }

    /// Returns the name of the member at an offset, where one begins there.
    fn member_name(&self, block: Id, offset: u32) -> Option<String> {
        let members = self.layout.members(block);
        let index = (0..).zip(members).find(|(_, m)| m.offset == offset)?.0;
        self.decorations.member_name(self.module, block, index).map(|name| printable(&name)).filter(|n| !n.is_empty())
    }

    fn free_name(&self, offset: u32) -> String {
        let names = (0..).map(|n| if n == 0 { format!("address{offset}") } else { format!("address{offset}_{n}") });
        names.into_iter().find(|name| !self.named.contains(name)).unwrap_or_default()
    }

    /// Writes the type, number and contents of a buffer's elements. Returns the buffers that their addresses lead to.
    fn contents(&mut self, pointee: Id, within: &[Id]) -> Vec<Addressed> {
        if let Some(fields) = self.blocks.fields(pointee) {
            let end = fields.iter().map(|f| f.offset.saturating_add(f.bytes())).max().unwrap_or(0);
            self.line("type = \"u8\"");
            match self.layout.size(pointee) {
                Some(size) => self.line(&format!("count = {}", size.max(end))),
                None => self.line(&format!("count = {} # a guess", end.saturating_add(GUESSED_COUNT))),
            }
            self.line("# Addresses, and numbers that are guesses; zeros behind them.");
            self.line("fill = { parts = [");
            let addressed = self.parts(pointee, &fields, within);
            self.line("] }");
            return addressed;
        }
        let (scalar, count) = self.element(pointee, 0).unwrap_or((Scalar::Int { width: 32, signed: false }, None));
        self.line(&format!("type = \"{}\"", type_name(scalar)));
        match count {
            Some(count) => self.line(&format!("count = {count}")),
            None => self.line(&format!("count = {GUESSED_COUNT} # a guess")),
        }
        self.line("fill = \"half-integers\" # a guess");
        Vec::new()
    }

    /// Returns the scalar that a type is made of, and the number of them; none if it mixes types.
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

/// Returns a part of push constants or of a block: zeros.
fn numbers(offset: u32, scalar: Scalar, count: u32) -> String {
    let zero = if scalar.is_float() { "0.0" } else { "0" };
    let zeros = vec![zero; count.min(64) as usize].join(", ");
    format!("    {{ offset = {offset}, type = \"{}\", values = [{zeros}] }},", type_name(scalar))
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

/// Returns a float in TOML syntax.
fn float(value: f64) -> String {
    if value.is_nan() { "nan".into() } else { format!("{value:?}") }
}

fn display_name(binding: &Binding) -> String {
    match &binding.name {
        Some(name) => printable(name),
        None => format!("buffer{}_{}", binding.set, binding.binding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_exec::Case;
    use coop_exec::interp::Interpreted;
    use std::path::Path;

    fn case_for(kernel: &str) -> String {
        let path = format!("{}/../testdata/kernels/{kernel}.spv", env!("CARGO_MANIFEST_DIR"));
        let module = coop_ir::binary::read(&std::fs::read(path).unwrap()).unwrap();
        let facts = Facts::new(&module, &Specialization::new());
        write_case(&module, &facts, None, None).unwrap()
    }

    /// A uniform block with a pointer, integers that become pointers, a list and an array; and one in a storage buffer.
    #[test]
    fn addresses_get_buffers() {
        let text = std::fs::read_to_string(format!("{}/../testdata/cli/addresses.spvasm", env!("CARGO_MANIFEST_DIR")));
        let module = coop_ir::text::parse(&text.unwrap()).unwrap();
        let facts = Facts::new(&module, &Specialization::new());
        let text = write_case(&module, &facts, None, Some(32)).unwrap();
        for part in [
            "subgroup-size = 32\n",
            "{ offset = 0, address = \"a\" }, # a\n",
            "{ offset = 8, address = \"b\" }, # b\n",
            "{ offset = 16, address = \"c\" }, # c\n",
            "{ offset = 24, type = \"u32\", values = [0] }, # stride\n",
            "{ offset = 64, address = \"address64\" },\n",
            "{ offset = 8, address = \"where_\" }, # where_\n",
            "{ offset = 0, type = \"u64\", values = [0] }, # an address: null # next\n",
            "name = \"a\"\ntype = \"f16\"",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let case = Case::parse(&text, Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (_, report) = Interpreted::default().run_module(&module, &case).unwrap();
        assert!(report.findings.iter().all(|f| !f.kind.is_undefined_behaviour()), "{:?}", report.findings);
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
