//! The specialization constants of a module, and the values that the page's user gives them.

use crate::Problem;
use coop_ir::Module;
use coop_ir::constant::{Constants, SpecValue, Specialization, parse_spec_id};
use coop_ir::decorate::Decorations;
use coop_ir::types::Type;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A specialization constant.
struct Constant {
    id: u32,
    ty: Type,
    /// The type in words: `u32`.
    kind: String,
    name: Option<String>,
    default: Option<u64>,
}

/// The values that were given, as the checker and as pipelines take them.
pub(crate) struct Given {
    pub(crate) rules: Specialization,
    pub(crate) pipeline: coopmat::Specialization,
}

fn all(module: &Module) -> Vec<Constant> {
    let constants = Constants::new(module, &Specialization::new());
    let decorations = Decorations::new(module);
    let mut all: BTreeMap<u32, Constant> = BTreeMap::new();
    for inst in module.globals.iter().map(|r| module.inst(*r)).filter(|inst| inst.op.is_spec_literal()) {
        let (Some(result), Some(ty)) = (inst.result, inst.ty) else { continue };
        let (Some(id), Some(ty)) = (constants.spec_id(result), Type::of(module, ty)) else { continue };
        let kind = match &ty {
            Type::Bool => "bool".to_owned(),
            Type::Scalar(scalar) => scalar.to_string(),
            _ => continue,
        };
        let default = constants.get(result).value();
        all.entry(id).or_insert(Constant { id, ty, kind, name: decorations.name(module, result), default });
    }
    all.into_values().collect()
}

/// Returns the constants for the page's form.
pub(crate) fn json(module: &Module) -> Value {
    let all = all(module);
    let one = |c: &Constant| json!({ "id": c.id, "name": c.name, "type": c.kind, "default": c.shown() });
    all.iter().map(one).collect()
}

impl Constant {
    /// Returns the default as `--spec` takes it.
    fn shown(&self) -> Option<String> {
        let bits = self.default?;
        Some(match &self.ty {
            Type::Bool => (bits != 0).to_string(),
            Type::Scalar(scalar) if scalar.is_float() => match scalar.width() {
                32 => f32::from_bits(bits as u32).to_string(),
                64 => f64::from_bits(bits).to_string(),
                _ => format!("{bits:#x}"),
            },
            // Of a negative number the bits are its value above the type's largest.
            Type::Scalar(_) if self.kind.starts_with('i') => {
                let beyond = 64 - self.width();
                ((bits << beyond) as i64 >> beyond).to_string()
            }
            _ => bits.to_string(),
        })
    }

    fn width(&self) -> u32 {
        match &self.ty {
            Type::Scalar(scalar) => scalar.width().clamp(1, 64),
            _ => 32,
        }
    }
}

/// Reads the values of a request, as far as the module has the constants: the page keeps values between modules.
pub(crate) fn given(module: &Module, spec: &BTreeMap<String, String>) -> Result<Given, Vec<Problem>> {
    let mut given = Given { rules: Specialization::new(), pipeline: coopmat::Specialization::default() };
    let (mut problems, all) = (Vec::new(), all(module));
    for (id, text) in spec.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let Some(constant) = parse_spec_id(id).and_then(|id| all.iter().find(|c| c.id == id)) else { continue };
        let value = SpecValue::parse(text.trim())
            .ok_or_else(|| format!("'{text}' is not a number (12, -3, 0x10, 1.5), true or false"));
        match value.and_then(|value| Ok((value, value.bits(&constant.ty)?))) {
            Ok((value, bits)) => {
                given.rules.set(constant.id, value);
                match constant.width() {
                    8 => given.pipeline.set_u8(constant.id, bits as u8),
                    16 => given.pipeline.set_u16(constant.id, bits as u16),
                    64 => given.pipeline.set_u64(constant.id, bits),
                    _ => given.pipeline.set_u32(constant.id, bits as u32),
                }
            }
            Err(why) => problems.push(Problem::new("spec", format!("SpecId {id}: {why}"))),
        }
    }
    if problems.is_empty() { Ok(given) } else { Err(problems) }
}
