//! Case files: everything that a run needs besides the module.
//!
//! `fill` and `reference` belong to this file: a case consists of their types, and they read its buffers.
//!
//! A case is TOML. It names the entry point, the specialization, the push constants, the buffers with their initial
//! contents, and how many workgroups to start; it may say what the module writes. Contents depend on the case alone, so
//! two modules run with one case see the same bytes. Every buffer that a shader can write is compared, with the
//! tolerance `derived` unless the buffer says otherwise; elements that a module must not touch are checked as well.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coop_device::{ComponentType, Limits};
use coop_ir::constant::{SpecValue, Specialization, parse_spec_id};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::file::{self, MAX_TEXT};
use crate::fill::Fill;
use crate::number::{self, Value};
use crate::reference::Expect;
use crate::tolerance::Tolerance;

/// The most bytes that the buffers of a case may have together.
const MAX_TOTAL_BYTES: u64 = 4 << 30;

/// Everything that a run needs besides the module.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Case {
    /// The entry point; needed when the module has several.
    pub entry: Option<String>,
    /// Workgroups in x, y and z.
    pub workgroups: [u32; 3],
    /// The seed of random contents.
    #[serde(default)]
    pub seed: u64,
    /// Values of specialization constants, by SpecId.
    #[serde(default)]
    pub spec: BTreeMap<String, Number>,
    /// The push constants, one part after the other; of a kernel the arguments, each a part.
    #[serde(default)]
    pub push: Vec<PushPart>,
    /// The workgroup size of modules that leave it to the host.
    pub local_size: Option<[u32; 3]>,
    /// The buffers.
    #[serde(default)]
    pub buffer: Vec<Buffer>,
    /// The expected contents of the buffers after the run.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// The subgroup size that the pipeline asks for.
    pub subgroup_size: Option<u32>,
    /// True if the pipeline asks for full subgroups.
    #[serde(default)]
    pub full_subgroups: bool,
    /// Arithmetic operations that one dispatch does, to report them per second.
    pub operations: Option<f64>,
    /// Other ways to run the same thing, with the same outcome.
    #[serde(default)]
    pub variant: BTreeMap<String, Variant>,
    /// The folder of the files that the case names.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// Another way to run a case. What it leaves out is as in the case.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Variant {
    /// Workgroups in x, y and z.
    pub workgroups: Option<[u32; 3]>,
    /// Values of specialization constants, by SpecId, on top of the case's.
    #[serde(default)]
    pub spec: BTreeMap<String, Number>,
    /// The subgroup size that the pipeline asks for.
    pub subgroup_size: Option<u32>,
    /// True if the pipeline asks for full subgroups.
    pub full_subgroups: Option<bool>,
    /// Push constants instead of the case's.
    pub push: Option<Vec<PushPart>>,
    /// Contents of buffers, by name.
    #[serde(default)]
    pub fill: BTreeMap<String, Fill>,
    /// Tolerances of buffers, by name.
    #[serde(default)]
    pub tolerance: BTreeMap<String, Tolerance>,
}

/// A number in a case file. Strings hold what TOML's integers can't: `"0xffffffffffffffff"`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// `true`, `false`: 1 and 0.
    Bool(bool),
    /// `12`.
    Int(i64),
    /// `1.5`, `inf`, `nan`.
    Float(f64),
    /// `"0x10"`.
    Text(String),
}

impl From<SpecValue> for Number {
    fn from(value: SpecValue) -> Number {
        match value {
            SpecValue::Bool(value) => Number::Bool(value),
            SpecValue::Float(value) => Number::Float(value),
            SpecValue::Int(value) => match i64::try_from(value) {
                Ok(value) => Number::Int(value),
                Err(_) => Number::Text(value.to_string()),
            },
            SpecValue::Hex(value) | SpecValue::Bits(value) => Number::Text(format!("{value:#x}")),
        }
    }
}

impl Number {
    /// Returns the value; an error if a text is not a number.
    pub fn value(&self) -> Result<Value, Error> {
        match self {
            Number::Bool(value) => Ok(Value::Int(i128::from(*value))),
            Number::Int(value) => Ok(Value::Int(i128::from(*value))),
            Number::Float(value) => Ok(Value::Float(*value)),
            Number::Text(text) => match SpecValue::parse(text) {
                Some(SpecValue::Int(value)) => Ok(Value::Int(value)),
                Some(SpecValue::Hex(value) | SpecValue::Bits(value)) => Ok(Value::Int(value.into())),
                Some(SpecValue::Float(value)) => Ok(Value::Float(value)),
                Some(SpecValue::Bool(value)) => Ok(Value::Int(i128::from(value))),
                None => Err(Error::case(format!("'{text}' is not a number"))),
            },
        }
    }

    fn spec_value(&self) -> Result<SpecValue, Error> {
        match self {
            Number::Bool(value) => Ok(SpecValue::Bool(*value)),
            Number::Int(value) => Ok(SpecValue::Int((*value).into())),
            Number::Float(value) => Ok(SpecValue::Float(*value)),
            Number::Text(text) => {
                SpecValue::parse(text).ok_or_else(|| Error::case(format!("'{text}' is not a number")))
            }
        }
    }
}

/// A part of the push constants, or of what a buffer holds: exactly one of `values`, `address`, `bytes` and `local`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PushPart {
    /// The offset of the part; by default the end of the last one, aligned for its type.
    pub offset: Option<u32>,
    /// The type of `values`.
    #[serde(rename = "type")]
    pub kind: Option<ComponentType>,
    /// Numbers.
    pub values: Option<Vec<Number>>,
    /// The buffer whose device address goes here, 8 bytes.
    pub address: Option<String>,
    /// Bytes in hexadecimal; spaces are ignored.
    pub bytes: Option<String>,
    /// The size in bytes of the workgroup memory that a kernel's argument points to. Not a push constant.
    pub local: Option<u32>,
}

/// The kind of a buffer in the shader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferKind {
    /// A storage buffer.
    #[default]
    Storage,
    /// A uniform buffer.
    Uniform,
}

/// A buffer.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Buffer {
    /// The name in messages and references.
    pub name: String,
    /// Descriptor set; 0 when only a binding is given.
    pub set: Option<u32>,
    /// Binding. A buffer without one is reached by its address only.
    pub binding: Option<u32>,
    /// Storage or uniform.
    #[serde(default)]
    pub kind: BufferKind,
    /// Component type of the elements.
    #[serde(rename = "type")]
    pub element: ComponentType,
    /// Elements.
    pub count: u64,
    /// The initial contents.
    #[serde(default)]
    pub fill: Fill,
    /// The seed of the buffer's random contents. The default is the case's seed combined with the buffer's index.
    pub seed: Option<u64>,
    /// Elements from one row to the next: with it, differences are shown by row and column.
    pub row_stride: Option<u64>,
    /// The tolerance between two runs.
    #[serde(default)]
    pub tolerance: Tolerance,
}

impl Buffer {
    /// Bytes of the buffer. A case that was read has checked that this fits.
    pub fn size(&self) -> usize {
        self.count as usize * number::size_of(self.element)
    }

    /// Returns the bytes `theirs` with the device addresses of `ours`: those differ from run to run.
    pub(crate) fn with_addresses_of<'t>(&self, ours: &[u8], theirs: &'t [u8]) -> Result<Cow<'t, [u8]>, Error> {
        if !self.fill.has_addresses() {
            return Ok(Cow::Borrowed(theirs));
        }
        let mut theirs = theirs.to_vec();
        for ((their, our), address) in theirs.iter_mut().zip(ours).zip(self.fill.addresses(self)?) {
            if address {
                *their = *our;
            }
        }
        Ok(Cow::Owned(theirs))
    }

    /// Descriptor set and binding, if the buffer has them.
    pub fn slot(&self) -> Option<(u32, u32)> {
        self.binding.map(|binding| (self.set.unwrap_or(0), binding))
    }
}

impl Case {
    /// Reads a case file.
    pub fn load(path: &Path) -> Result<Case, Error> {
        let text =
            file::read_text(path, MAX_TEXT).map_err(|error| Error::case(format!("{}: {error}", path.display())))?;
        let case = Case::parse(&text, path.parent().unwrap_or(Path::new("")));
        case.map_err(|error| match error {
            Error::Case(message) => Error::case(format!("{}: {message}", path.display())),
            other => other,
        })
    }

    /// Reads the text of a case file; files that it names are in `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Case, Error> {
        let mut case: Case = toml::from_str(text).map_err(|error| Error::case(error.to_string().trim_end()))?;
        case.folder = folder.to_owned();
        case.check()?;
        Ok(case)
    }

    /// Returns the case as changed by one of its variants.
    pub fn with_variant(mut self, name: &str) -> Result<Case, Error> {
        let Some(variant) = self.variant.get(name).cloned() else {
            let known: Vec<&str> = self.variant.keys().map(String::as_str).collect();
            return Err(Error::case(format!("there is no variant '{name}', only: {}", known.join(", "))));
        };
        self.workgroups = variant.workgroups.unwrap_or(self.workgroups);
        self.spec.extend(variant.spec);
        self.subgroup_size = variant.subgroup_size.or(self.subgroup_size);
        self.full_subgroups = variant.full_subgroups.unwrap_or(self.full_subgroups);
        self.push = variant.push.unwrap_or(self.push);
        for (buffer, fill) in variant.fill {
            self.buffer_of_variant(&buffer)?.fill = fill;
        }
        for (buffer, tolerance) in variant.tolerance {
            self.buffer_of_variant(&buffer)?.tolerance = tolerance;
        }
        self.check()?;
        Ok(self)
    }

    fn buffer_of_variant(&mut self, name: &str) -> Result<&mut Buffer, Error> {
        let found = self.buffer.iter_mut().find(|buffer| buffer.name == name);
        found.ok_or_else(|| Error::case(format!("variant: no buffer is called '{name}'")))
    }

    /// Returns the case itself, then each of its variants with its name.
    pub fn all_variants(&self) -> Result<Vec<(Option<String>, Case)>, Error> {
        let mut all = vec![(None, self.clone())];
        for name in self.variant.keys() {
            all.push((Some(name.clone()), self.clone().with_variant(name)?));
        }
        Ok(all)
    }

    fn check(&self) -> Result<(), Error> {
        if self.workgroups.contains(&0) {
            return Err(Error::case("workgroups: a dispatch needs at least one in each dimension"));
        }
        if let Some([x, y, z]) = self.local_size
            && x.checked_mul(y).and_then(|xy| xy.checked_mul(z)).is_none_or(|n| n == 0)
        {
            return Err(Error::case(format!("local-size: {x} x {y} x {z} is not a workgroup size")));
        }
        if let Some(size) = self.subgroup_size
            && !(size.is_power_of_two() && size <= Limits::MAX_SUBGROUP_SIZE)
        {
            let most = Limits::MAX_SUBGROUP_SIZE;
            let why = format!("subgroup-size: {size} is not 1, 2, 4, ... or {most}");
            return Err(Error::case(why));
        }
        let mut total = 0u64;
        for (index, buffer) in self.buffer.iter().enumerate() {
            let before = &self.buffer[..index];
            self.check_buffer(buffer, before)?;
            total = total.saturating_add(buffer.count.saturating_mul(number::size_of(buffer.element) as u64));
        }
        if total > MAX_TOTAL_BYTES {
            return Err(Error::case(format!("the buffers have {total} bytes, more than {MAX_TOTAL_BYTES}")));
        }
        self.specialization()?;
        for expect in &self.expect {
            expect.check(self)?;
        }
        // Names and sizes are checked by laying the parts out.
        self.push_constants(&|_| 0).map(|_| ())
    }

    fn check_buffer(&self, buffer: &Buffer, before: &[Buffer]) -> Result<(), Error> {
        let name = &buffer.name;
        if !number::is_element_type(buffer.element) {
            return Err(Error::case(format!("buffer {name}: there are no buffers of {}", buffer.element)));
        }
        if buffer.count == 0 {
            return Err(Error::case(format!("buffer {name}: count is 0")));
        }
        if before.iter().any(|other| other.name == *name) {
            return Err(Error::case(format!("two buffers are called {name}")));
        }
        let slot = buffer.slot();
        if let Some(other) = before.iter().find(|other| slot.is_some() && other.slot() == slot) {
            let (set, binding) = slot.unwrap_or_default();
            return Err(Error::case(format!(
                "buffers {} and {name} are both set {set}, binding {binding}",
                other.name
            )));
        }
        if buffer.row_stride == Some(0) {
            return Err(Error::case(format!("buffer {name}: row-stride is 0")));
        }
        buffer.fill.check(buffer, &|wanted| self.buffer_named(wanted).is_some())
    }

    /// The buffer of that name.
    pub fn buffer_named(&self, name: &str) -> Option<&Buffer> {
        self.buffer.iter().find(|buffer| buffer.name == name)
    }

    /// The specialization by SpecId.
    pub fn specialization(&self) -> Result<Specialization, Error> {
        let mut specialization = Specialization::new();
        for (key, number) in &self.spec {
            let id = parse_spec_id(key).ok_or_else(|| Error::case(format!("spec: '{key}' is not a SpecId")))?;
            // Two keys may be two spellings of one number.
            if specialization.get(id).is_some() {
                return Err(Error::case(format!("spec: SpecId {id} is given twice")));
            }
            specialization.set(id, number.spec_value()?);
        }
        Ok(specialization)
    }

    /// Returns true if the case needs device addresses.
    pub fn needs_addresses(&self) -> bool {
        self.push.iter().any(|part| part.address.is_some())
            || self.buffer.iter().any(|buffer| buffer.binding.is_none() || buffer.fill.has_addresses())
    }

    /// The bytes of the push constants, given every buffer's device address.
    pub fn push_constants(&self, address: &dyn Fn(&str) -> u64) -> Result<Vec<u8>, Error> {
        // Every device's limit is far below; this only keeps a typing error from taking all memory.
        lay_out(&self.push, "push", 1 << 16, &|name| self.buffer_named(name).is_some(), address)
    }

    /// Returns the bytes of a part and their alignment.
    pub fn push_part(&self, part: &PushPart, address: &dyn Fn(&str) -> u64) -> Result<(Vec<u8>, usize), Error> {
        part.bytes("push", &|name| self.buffer_named(name).is_some(), address)
    }

    /// The initial bytes of a buffer, given every buffer's device address.
    pub fn contents(&self, index: usize, address: &dyn Fn(&str) -> u64) -> Result<Vec<u8>, Error> {
        let buffer = &self.buffer[index];
        buffer.fill.bytes(buffer, self.buffer_seed(index), &self.folder, address)
    }

    /// Makes the case one for subgroups of the size that a pipeline requires. One that is for others is refused.
    pub fn require_subgroups(&mut self, required: Option<u32>) -> Result<(), Error> {
        match (self.subgroup_size, required) {
            (Some(own), Some(required)) if own != required => Err(Error::case(format!(
                "it is for subgroups of {own}, and the pipeline requires {required}: make them the same"
            ))),
            _ => {
                self.subgroup_size = self.subgroup_size.or(required);
                Ok(())
            }
        }
    }

    /// The seed of a buffer's random contents.
    pub(crate) fn buffer_seed(&self, index: usize) -> u64 {
        // Buffers beside each other get streams that have nothing in common.
        self.buffer[index].seed.unwrap_or_else(|| self.seed.wrapping_add((index as u64 + 1) << 32))
    }
}

impl PushPart {
    /// Returns the bytes and their alignment. `known` tells which buffers exist; messages begin with `what`.
    fn bytes(
        &self,
        what: &str,
        known: &dyn Fn(&str) -> bool,
        address: &dyn Fn(&str) -> u64,
    ) -> Result<(Vec<u8>, usize), Error> {
        let mut data = Vec::new();
        let alignment = match (&self.values, &self.address, &self.bytes, self.local) {
            (Some(values), None, None, None) => {
                let kind = self.kind.unwrap_or(ComponentType::U32);
                if !number::is_element_type(kind) {
                    return Err(Error::case(format!("{what}: there are no constants of {kind}")));
                }
                for value in values {
                    number::encode(kind, value.value()?, &mut data);
                }
                number::size_of(kind)
            }
            (None, Some(name), None, None) => {
                if !known(name) {
                    return Err(Error::case(format!("{what}: no buffer is called '{name}'")));
                }
                data.extend_from_slice(&address(name).to_le_bytes());
                8
            }
            (None, None, Some(text), None) => {
                data = hex(text).ok_or_else(|| Error::case(format!("{what}: '{text}' is not bytes in hexadecimal")))?;
                1
            }
            (None, None, None, Some(1..)) => 1,
            _ => return Err(Error::case(format!("{what}: a part has one of values, address, bytes and local"))),
        };
        Ok((data, alignment))
    }
}

/// Returns the bytes of parts. Each part is at its own offset or follows the one before. `most` is the largest size in
/// bytes.
pub(crate) fn lay_out(
    parts: &[PushPart],
    what: &str,
    most: usize,
    known: &dyn Fn(&str) -> bool,
    address: &dyn Fn(&str) -> u64,
) -> Result<Vec<u8>, Error> {
    let mut out: Vec<u8> = Vec::new();
    for part in parts {
        let (data, alignment) = part.bytes(what, known, address)?;
        let start = match part.offset {
            Some(offset) => offset as usize,
            None => out.len().next_multiple_of(alignment),
        };
        let end = start.saturating_add(data.len());
        if end > most {
            return Err(Error::case(format!("{what}: {end} bytes are more than there is room for, {most}")));
        }
        if out.len() < end {
            out.resize(end, 0);
        }
        out[start..end].copy_from_slice(&data);
    }
    Ok(out)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Case, Error> {
        Case::parse(text, Path::new(""))
    }

    #[test]
    fn a_whole_case() {
        let case = parse(
            r#"
            workgroups = [2, 1, 1]
            seed = 7
            push = [{ values = [1, 2] }, { address = "A" }, { bytes = "ff 00" }, { type = "f16", values = [1.0] }]
            [spec]
            0 = 16
            1 = true
            2 = "0xffffffffffffffff"
            [[buffer]]
            name = "A"
            binding = 0
            type = "f16"
            count = 64
            fill = "half-integers"
            [[buffer]]
            name = "pointers"
            type = "u64"
            count = 2
            fill = { addresses = ["A", "pointers"] }
            "#,
        )
        .unwrap();
        assert_eq!(case.specialization().unwrap().get(2), Some(SpecValue::Hex(u64::MAX)));
        assert!(case.needs_addresses());
        let address = |name: &str| if name == "A" { 0x1122 } else { 0x33 };
        let push = case.push_constants(&address).unwrap();
        assert_eq!(push, [1, 0, 0, 0, 2, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 0xff, 0, 0x00, 0x3c]);
        assert_eq!(case.contents(1, &address).unwrap()[8], 0x33);
        assert_eq!(case.contents(0, &address).unwrap().len(), 128);
        assert_eq!(case.contents(0, &address), case.contents(0, &|_| 0));
    }

    #[test]
    fn variants() {
        let text = "workgroups = [4, 1, 1]\nspec = { 0 = 8, 3 = 8 }\n\
                    [[buffer]]\nname = \"A\"\ntype = \"f16\"\ncount = 2\n\
                    [variant.wide]\nworkgroups = [2, 1, 1]\nspec = { 0 = 16 }\nsubgroup-size = 32\n\
                    push = [{ values = [7] }]\nfill = { A = { constant = 2.0 } }\ntolerance = { A = { ulp = 1 } }\n\
                    [variant.lost]\nfill = { B = \"zeros\" }";
        let wide = parse(text).unwrap().with_variant("wide").unwrap();
        assert_eq!((wide.workgroups, wide.subgroup_size), ([2, 1, 1], Some(32)));
        let spec = wide.specialization().unwrap();
        assert_eq!((spec.get(0), spec.get(3)), (Some(SpecValue::Int(16)), Some(SpecValue::Int(8))));
        assert_eq!(wide.push_constants(&|_| 0).unwrap(), [7, 0, 0, 0]);
        assert_eq!(wide.contents(0, &|_| 0).unwrap(), [0, 0x40, 0, 0x40]);
        assert_eq!(wide.buffer[0].tolerance, Tolerance::Ulp(1));
        let error = parse(text).unwrap().with_variant("lost").unwrap_err().to_string();
        assert_eq!(error, "case: variant: no buffer is called 'B'");
        assert!(parse(text).unwrap().all_variants().is_err());
        let error = parse(text).unwrap().with_variant("tall").unwrap_err().to_string();
        assert_eq!(error, "case: there is no variant 'tall', only: lost, wide");
    }

    #[test]
    fn faults_are_named() {
        let buffer = "[[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"f16\"\ncount = 4\n";
        let with = |extra: &str| format!("workgroups = [1, 1, 1]\n{extra}");
        for (text, why) in [
            (String::new(), "workgroups"),
            ("workgroups = [1, 0, 1]".into(), "at least one"),
            (with("colour = 1"), "colour"),
            (with(&format!("{buffer}{buffer}")), "two buffers are called A"),
            (with("spec = { x = 1 }"), "'x' is not a SpecId"),
            (with("push = [{ address = \"B\" }]"), "no buffer is called 'B'"),
            (with("push = [{ offset = 4000000000, values = [1] }]"), "more than there is room for"),
            (with("push = [{}]"), "one of values, address, bytes and local"),
            (with(&buffer.replace("f16", "mxint8")), "there are no buffers of mxint8"),
            (with(&buffer.replace("count = 4", "count = 400000000000")), "more than"),
            (
                with(&buffer.replace("count = 4", "count = 4\nfill = { addresses = [\"A\"] }")),
                "addresses need elements of u64",
            ),
            (with(&buffer.replace("count = 4", "count = 4\ntolerance = { ulp = -1 }")), "ulp"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with("case: ") && error.contains(why), "{text}: {error}");
        }
    }
}
