//! Writes a first case for an OpenCL kernel from its parameters. All else is guessed and marked as a guess.

use std::fmt::Write;

use coop_exec::Error;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, entry_points};
use coop_ir::spv::{ExecutionMode, ExecutionModel, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Module, Op};

use super::case_text::{GUESSED_COUNT, printable, quoted, type_name};

/// The guessed size in bytes of workgroup memory that a parameter points to.
const GUESSED_LOCAL: u32 = 4096;

/// The largest nesting of types to look into.
const MAX_DEPTH: u32 = 16;

/// Returns the text of a first case, if the module has kernels.
pub(super) fn write(module: &Module, entry: Option<&str>) -> Result<Option<String>, Error> {
    let decorations = Decorations::new(module);
    let kernels: Vec<EntryPoint> =
        entry_points(module, &decorations).into_iter().filter(|e| e.model == ExecutionModel::Kernel).collect();
    let names = || kernels.iter().map(|e| quoted(&e.name)).collect::<Vec<_>>().join(", ");
    let found = match (entry, kernels.as_slice()) {
        (_, []) => return Ok(None),
        (None, [one]) => one,
        (None, _) => {
            return Err(Error::Case(format!("the module has several kernels, name one (--entry): {}", names())));
        }
        (Some(name), _) => kernels
            .iter()
            .find(|e| e.name == name)
            .ok_or_else(|| Error::Case(format!("the module has no kernel '{name}', only {}", names())))?,
    };
    let constants = Constants::new(module, &Specialization::new());
    let writer = Writer { module, decorations: &decorations, constants: &constants, text: String::new() };
    Ok(Some(writer.write(found)))
}

struct Writer<'a> {
    module: &'a Module,
    decorations: &'a Decorations,
    constants: &'a Constants,
    text: String,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write(mut self, entry: &EntryPoint) -> String {
        let literal = |mode: ExecutionMode| entry.mode(mode).and_then(|found| self.module.inst(found.at).word(2));
        let subgroup = literal(ExecutionMode::SubgroupSize);
        let asked =
            entry.workgroup_size.as_ref().map(|size| size.values(self.constants).map(|c| c.value().unwrap_or(1)));
        self.line(&format!("entry = {}", quoted(&entry.name)));
        self.line("workgroups = [1, 1, 1] # a guess");
        match asked {
            Some([x, y, z]) => self.line(&format!("local-size = [{x}, {y}, {z}] # what the kernel asks for")),
            None => {
                let lanes = subgroup.unwrap_or(16);
                self.line(&format!("local-size = [{lanes}, 1, 1] # a guess: kernels leave it to their host"));
            }
        }
        if let Some(size) = subgroup {
            self.line(&format!("subgroup-size = {size}"));
        }
        self.line("seed = 1");
        let buffers = self.arguments(entry);
        for (name, pointee) in buffers {
            self.line(&format!("\n[[buffer]]\nname = {}", quoted(&name)));
            let scalar = self.number(pointee, 0).unwrap_or(Scalar::Int { width: 8, signed: false });
            self.line(&format!("type = \"{}\"", type_name(scalar)));
            self.line(&format!("count = {GUESSED_COUNT} # a guess"));
            self.line("fill = \"half-integers\" # a guess");
        }
        self.text
    }

    /// Writes the arguments. Returns the buffers among them.
    fn arguments(&mut self, entry: &EntryPoint) -> Vec<(String, Id)> {
        let mut buffers: Vec<(String, Id)> = Vec::new();
        let function = self.module.functions.iter().find(|f| self.module.inst(f.def).result == Some(entry.function));
        self.line("\n# The arguments in order. Numbers are a guess.");
        self.line("push = [");
        let params = function.iter().flat_map(|f| &f.params).map(|r| self.module.inst(*r));
        let params: Vec<_> =
            params.filter(|i| i.op == Op::FunctionParameter).filter_map(|i| Some((i.result?, i.ty?))).collect();
        for (n, (id, ty)) in params.into_iter().enumerate() {
            let own =
                self.decorations.name(self.module, id).map(|name| printable(&name)).filter(|name| !name.is_empty());
            let comment = own.as_ref().map(|name| format!(" # {name}")).unwrap_or_default();
            let part = match Type::of(self.module, ty) {
                Some(Type::Pointer { storage, pointee }) if storage == StorageClass::Function => self.bytes(pointee),
                Some(Type::Pointer { storage, .. }) if storage == StorageClass::Workgroup => {
                    format!("{{ local = {GUESSED_LOCAL} }}")
                }
                Some(Type::Pointer { pointee, .. }) => {
                    let taken = |name: &String| buffers.iter().any(|(other, _)| other == name);
                    let name = own.filter(|name| !taken(name)).unwrap_or_else(|| format!("argument{n}"));
                    buffers.push((name.clone(), pointee));
                    format!("{{ address = {} }}", quoted(&name))
                }
                _ => match self.number(ty, 0) {
                    Some(scalar) => {
                        let (zero, count) = (
                            if scalar.is_float() { "0.0" } else { "0" },
                            self.size(ty) / u64::from(scalar.bytes().max(1)),
                        );
                        let zeros = vec![zero; count.clamp(1, 64) as usize].join(", ");
                        format!("{{ type = \"{}\", values = [{zeros}] }}", type_name(scalar))
                    }
                    None => self.bytes(ty),
                },
            };
            self.line(&format!("    {part},{comment}"));
        }
        self.line("]");
        buffers
    }

    fn size(&self, ty: Id) -> u64 {
        types::natural_size(self.module, self.constants, ty).map_or(0, |(bytes, _)| bytes)
    }

    /// Returns the argument for a struct by value.
    fn bytes(&self, ty: Id) -> String {
        let mut out = String::from("{ bytes = \"");
        for _ in 0..self.size(ty).clamp(1, 1024) {
            let _ = write!(out, "00");
        }
        out + "\" }"
    }

    /// Returns the scalar that a type is made of; none if it mixes types.
    fn number(&self, ty: Id, depth: u32) -> Option<Scalar> {
        if depth > MAX_DEPTH {
            return None;
        }
        match Type::of(self.module, ty)? {
            Type::Scalar(scalar) => Some(scalar),
            Type::Vector { elem, .. } | Type::Array { elem, .. } => self.number(elem, depth + 1),
            Type::Struct { members } => {
                let mut all = members.iter().take(64).map(|member| self.number(*member, depth + 4));
                let first = all.next()??;
                all.all(|other| other == Some(first)).then_some(first)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_exec::Case;
    use std::path::Path;

    #[test]
    fn every_kernel_gets_a_case_that_can_be_read_back() {
        let folder = format!("{}/../testdata/opencl", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "spv") {
                continue;
            }
            let module = coop_ir::binary::read(&std::fs::read(&path).unwrap()).unwrap();
            let text = write(&module, None).unwrap().unwrap_or_else(|| panic!("{}: no kernel", path.display()));
            let case = Case::parse(&text, Path::new("")).unwrap_or_else(|e| panic!("{}: {e}\n{text}", path.display()));
            let arguments = module.functions.iter().map(|f| f.params.len()).max().unwrap();
            assert!(case.local_size.is_some() && !case.buffer.is_empty() && case.push.len() <= arguments, "{text}");
            count += 1;
        }
        assert!(count > 10, "{count} kernels");
    }
}
