//! An expression for each element, in postfix notation.
//!
//! `X Y + f16 2:f16 *` is f16(x + y) * 2. Words are names of buffers (the element at the same place, or after an
//! offset: `X@64`), numbers with a type (`1.5:f32`), operations, and types, which convert. Every operation is done in
//! the type of its operands, which must be the same: floats are rounded once to nearest even, integers wrap,
//! integer division truncates. Conversion to an integer truncates.

use std::fmt;
use std::str::FromStr;

use coop_device::ComponentType;
use coop_ir::constant::SpecValue;
use serde::Deserialize;

use super::{elements, locate, outside, put};
use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};

/// Elements that are computed one by one.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Map {
    /// The buffer that is written.
    pub buffer: String,
    /// The first element written.
    #[serde(default)]
    pub offset: u64,
    /// The number of elements.
    pub count: u64,
    /// The expression.
    pub value: Program,
}

/// A postfix expression.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Program {
    words: Vec<Word>,
}

#[derive(Clone, PartialEq, Debug)]
enum Word {
    Element { buffer: String, offset: u64 },
    Number(Value, ComponentType),
    Unary(Unary),
    Binary(Binary),
    Convert(ComponentType),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unary {
    Negate,
    Abs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
}

impl TryFrom<String> for Program {
    type Error = String;

    fn try_from(text: String) -> Result<Program, String> {
        text.parse()
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Program, String> {
        let words: Vec<Word> = text.split_whitespace().map(word).collect::<Result<_, _>>()?;
        let mut depth = 0usize;
        for (word, text) in words.iter().zip(text.split_whitespace()) {
            let (takes, gives) = match word {
                Word::Element { .. } | Word::Number(..) => (0, 1),
                Word::Unary(_) | Word::Convert(_) => (1, 1),
                Word::Binary(_) => (2, 1),
            };
            depth = depth.checked_sub(takes).ok_or_else(|| format!("'{text}' lacks operands"))? + gives;
        }
        if depth == 1 { Ok(Program { words }) } else { Err(format!("'{text}' leaves {depth} values instead of one")) }
    }
}

fn word(text: &str) -> Result<Word, String> {
    Ok(match text {
        "+" => Word::Binary(Binary::Add),
        "-" => Word::Binary(Binary::Subtract),
        "*" => Word::Binary(Binary::Multiply),
        "/" => Word::Binary(Binary::Divide),
        "max" => Word::Binary(Binary::Max),
        "min" => Word::Binary(Binary::Min),
        "neg" => Word::Unary(Unary::Negate),
        "abs" => Word::Unary(Unary::Abs),
        _ => {
            if let Some((value, kind)) = text.split_once(':') {
                return typed_number(value, kind).ok_or_else(|| format!("'{text}' is not a number with a type"));
            }
            if let Ok(kind) = text.parse::<ComponentType>() {
                return if number::is_element_type(kind) {
                    Ok(Word::Convert(kind))
                } else {
                    Err(format!("'{text}' is a type that no element of a buffer has"))
                };
            }
            let (buffer, offset) = match text.split_once('@') {
                Some((buffer, offset)) => {
                    (buffer, offset.parse().map_err(|_| format!("'{text}' has no whole number behind its @"))?)
                }
                None => (text, 0),
            };
            Word::Element { buffer: buffer.to_string(), offset }
        }
    })
}

fn typed_number(value: &str, kind: &str) -> Option<Word> {
    let kind: ComponentType = kind.parse().ok().filter(|kind| number::is_element_type(*kind))?;
    let value = match SpecValue::parse(value)? {
        SpecValue::Int(value) if number::is_float(kind) => Value::Float(value as f64),
        SpecValue::Int(value) => Value::Int(value),
        SpecValue::Hex(value) if number::is_float(kind) => Value::Float(value as f64),
        SpecValue::Hex(value) => Value::Int(value.into()),
        SpecValue::Float(value) if number::is_float(kind) => Value::Float(value),
        _ => return None,
    };
    Some(Word::Number(number::rounded(kind, value), kind))
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Max => "max",
            Binary::Min => "min",
        })
    }
}

/// A value with its type.
type Typed = (Value, ComponentType);

impl Unary {
    fn apply(self, (value, kind): Typed) -> Typed {
        let value = match (self, value) {
            (Unary::Negate, Value::Int(value)) => Value::Int(value.wrapping_neg()),
            (Unary::Negate, Value::Float(value)) => Value::Float(-value),
            (Unary::Abs, Value::Int(value)) => Value::Int(value.wrapping_abs()),
            (Unary::Abs, Value::Float(value)) => Value::Float(value.abs()),
        };
        (number::rounded(kind, value), kind)
    }
}

impl Binary {
    fn apply(self, (left, kind): Typed, (right, other): Typed) -> Result<Typed, String> {
        if kind != other {
            return Err(format!("'{self}' takes two numbers of one type; here are {kind} and {other}"));
        }
        let value = match (left, right) {
            (Value::Int(left), Value::Int(right)) => Value::Int(match self {
                Binary::Add => left.wrapping_add(right),
                Binary::Subtract => left.wrapping_sub(right),
                Binary::Multiply => left.wrapping_mul(right),
                Binary::Divide => left.checked_div(right).ok_or("a division by zero has no value")?,
                Binary::Max => left.max(right),
                Binary::Min => left.min(right),
            }),
            (left, right) => {
                let (left, right) = (left.to_f64(), right.to_f64());
                Value::Float(match self {
                    Binary::Add => left + right,
                    Binary::Subtract => left - right,
                    Binary::Multiply => left * right,
                    Binary::Divide => left / right,
                    Binary::Max => left.max(right),
                    Binary::Min => left.min(right),
                })
            }
        };
        Ok((number::rounded(kind, value), kind))
    }
}

fn convert((value, _): Typed, kind: ComponentType) -> Typed {
    let value = if number::is_float(kind) { Value::Float(value.to_f64()) } else { Value::Int(value.to_i128()) };
    (number::rounded(kind, value), kind)
}

impl Map {
    /// Checked by computing it: maps are small.
    pub(super) fn check(&self, case: &Case) -> Result<(), Error> {
        let (_, _) = locate(case, &self.buffer)?;
        let mut inputs = self.value.words.iter().filter_map(|word| match word {
            Word::Element { buffer, .. } => Some(buffer),
            _ => None,
        });
        inputs.try_for_each(|name| locate(case, name).map(|_| ()))
    }

    pub(super) fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let (_, kind) = locate(case, &self.buffer)?;
        let mut inputs: Vec<(&str, Vec<Value>, ComponentType)> = Vec::new();
        for word in &self.value.words {
            if let Word::Element { buffer, .. } = word
                && !inputs.iter().any(|(name, _, _)| name == buffer)
            {
                let (values, kind) = elements(case, buffer)?;
                inputs.push((buffer, values, kind));
            }
        }
        for place in 0..self.count {
            let (value, computed) = self.evaluate(place, &inputs)?;
            if computed != kind {
                let why =
                    format!("expect: buffer {} is of {kind}, its elements are computed as {computed}", self.buffer);
                return Err(Error::case(why));
            }
            let element = place.checked_add(self.offset).ok_or_else(|| outside(&self.buffer, place))?;
            put(&self.buffer, kind, value, element, bytes)?;
        }
        Ok(())
    }

    fn evaluate(&self, place: u64, inputs: &[(&str, Vec<Value>, ComponentType)]) -> Result<Typed, Error> {
        let mut stack: Vec<Typed> = Vec::new();
        for word in &self.value.words {
            let next = match word {
                Word::Element { buffer, offset } => {
                    let element = place.saturating_add(*offset);
                    let input = inputs.iter().find(|(name, _, _)| name == buffer);
                    let value = input.and_then(|(_, values, kind)| Some((*values.get(element as usize)?, *kind)));
                    value.ok_or_else(|| outside(buffer, element))?
                }
                Word::Number(value, kind) => (*value, *kind),
                Word::Unary(operation) => operation.apply(pop(&mut stack)),
                Word::Convert(kind) => convert(pop(&mut stack), *kind),
                Word::Binary(operation) => {
                    let right = pop(&mut stack);
                    let result = operation.apply(pop(&mut stack), right);
                    result.map_err(|why| Error::case(format!("expect: buffer {}: {why}", self.buffer)))?
                }
            };
            stack.push(next);
        }
        Ok(pop(&mut stack))
    }
}

fn pop(stack: &mut Vec<Typed>) -> Typed {
    stack.pop().unwrap_or_else(|| unreachable!("a program was counted through when it was read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn evaluate(kind: &str, out: &str, program: &str) -> Result<f64, Error> {
        let text = format!(
            "workgroups = [1, 1, 1]\n[[buffer]]\nname = \"X\"\ntype = \"{kind}\"\ncount = 4\nfill = {{ values = [100, -7, 3, 5] }}\n\
             [[buffer]]\nname = \"Z\"\ntype = \"{out}\"\ncount = 2\n\
             [[expect]]\nmap = {{ buffer = \"Z\", offset = 1, count = 1, value = \"{program}\" }}"
        );
        let case = Case::parse(&text, Path::new(""))?;
        let (_, bytes) = case.expected()?.remove(0);
        Ok(number::decode_all(case.buffer[1].element, &bytes)[1].to_f64())
    }

    #[test]
    fn values() {
        for (kind, out, program, value) in [
            ("s8", "s8", "X X +", -56.0),
            ("s8", "s8", "X@1 X@2 /", -2.0),
            ("s8", "u8", "X@1 u8", 249.0),
            ("s8", "u8", "X@1 u8 X@2 u8 /", 83.0),
            ("s8", "f16", "X@1 f16 abs 0.5:f16 *", 3.5),
            ("f32", "f16", "X@2 f16 X@1 f16 /", -0.428_466_796_875),
            ("f32", "f32", "X neg 3:f32 - X@3 max 4.5:f32 min", 4.5),
            ("f32", "s32", "X@1 2:f32 / s32", -3.0),
            ("s32", "f32", "X@1 u32 f32", 4_294_967_296.0),
        ] {
            assert_eq!(evaluate(kind, out, program), Ok(value), "{program}");
        }
    }

    #[test]
    fn faults() {
        for (program, why) in [
            ("X +", "'+' lacks operands"),
            ("X X", "leaves 2 values"),
            ("", "leaves 0 values"),
            ("Y", "no buffer is called 'Y'"),
            ("X X f16 +", "'+' takes two numbers of one type; here are s8 and f16"),
            ("X f16", "is of s8, its elements are computed as f16"),
            ("X 0:s8 /", "division by zero"),
            ("X@9", "element 9 lies outside"),
            ("1.5:s8", "is not a number with a type"),
        ] {
            let error = evaluate("s8", "s8", program).unwrap_err().to_string();
            assert!(error.contains(why), "{program}: {error}");
        }
    }
}
