//! What a case's buffers hold afterwards, computed here.
//!
//! The answer does not depend on any driver or on the module. Floats are accumulated in `f64`, so the
//! buffer's tolerance is against the true value; integers are exact, then wrap or saturate in the result's type.

use coop_ir::profile::ComponentType;
use serde::Deserialize;

use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};

/// A statement about the buffers after the run.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// D = f(alpha * A * B + beta * C).
    Gemm(Box<Gemm>),
    /// A buffer holds these elements from the start; the rest is as it was.
    Values(Values),
}

/// Given elements.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Values {
    /// The buffer.
    pub buffer: String,
    /// Its first elements.
    pub values: Vec<crate::case::Number>,
}

/// A matrix multiplication.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gemm {
    /// Rows of A and D.
    pub m: u64,
    /// Columns of B and D.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// A, m by k.
    pub a: View,
    /// B, k by n.
    pub b: View,
    /// C, m by n; zero if not given.
    pub c: Option<View>,
    /// D, m by n.
    pub d: View,
    /// What the product is multiplied with.
    #[serde(default = "one")]
    pub alpha: f64,
    /// What C is multiplied with.
    #[serde(default = "one")]
    pub beta: f64,
    /// Integers only: the final sum is clamped to the accumulator's type.
    #[serde(default)]
    pub saturate: bool,
    /// The type of the accumulator, if it is not D's: the sum goes through it on its way to D.
    pub accumulator: Option<ComponentType>,
    /// What is done to each element of the sum, in order.
    #[serde(default)]
    pub then: Vec<Step>,
}

fn one() -> f64 {
    1.0
}

/// Something done to each element.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// max(x, 0).
    Relu,
    /// x * factor.
    Scale(f64),
    /// x + term.
    Add(f64),
    /// x if positive, else x * slope.
    LeakyRelu(f64),
    /// Between two bounds.
    Clamp(f64, f64),
    /// x / (1 + exp(-x)).
    Silu,
    /// exp(x).
    Exp,
    /// tanh(x).
    Tanh,
    /// -x.
    Negate,
    /// Rounded to a type and back.
    Round(ComponentType),
}

impl Step {
    fn apply(self, value: f64) -> f64 {
        match self {
            Step::Relu => value.max(0.0),
            Step::Scale(factor) => value * factor,
            Step::Add(term) => value + term,
            Step::LeakyRelu(slope) => {
                if value > 0.0 {
                    value
                } else {
                    value * slope
                }
            }
            Step::Clamp(low, high) => value.max(low).min(high),
            Step::Silu => value / (1.0 + (-value).exp()),
            Step::Exp => value.exp(),
            Step::Tanh => value.tanh(),
            Step::Negate => -value,
            Step::Round(kind) => number::rounded(kind, Value::Float(value)).to_f64(),
        }
    }
}

/// How elements lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A row's elements are neighbours.
    #[default]
    Row,
    /// A column's elements are neighbours.
    Column,
}

/// A matrix in a buffer.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct View {
    /// The buffer.
    pub buffer: String,
    /// The element where the matrix begins.
    #[serde(default)]
    pub offset: u64,
    /// Elements from one row (or column) to the next; 0 repeats one row (or column).
    pub stride: u64,
    /// Row or column major.
    #[serde(default)]
    pub layout: Layout,
    /// Rows and columns of the blocks that the matrix is cut into, each stored whole. Within a block `stride` and
    /// `layout` hold; the blocks of one row of blocks follow each other.
    pub blocks: Option<[u64; 2]>,
}

impl View {
    fn element(&self, row: u64, column: u64, columns: u64) -> u64 {
        let (base, row, column) = match self.blocks {
            Some([height, width]) => {
                let block = row / height * columns.div_ceil(width) + column / width;
                (block * height * width, row % height, column % width)
            }
            None => (0, row, column),
        };
        let (major, minor) = match self.layout {
            Layout::Row => (row, column),
            Layout::Column => (column, row),
        };
        self.offset + base + major * self.stride + minor
    }

    /// Refuses views that do not fit their buffer.
    fn check(&self, case: &Case, what: &str, rows: u64, columns: u64) -> Result<(), Error> {
        let fail = |why: String| Err(Error::case(format!("expect: {what}: {why}")));
        let Some(buffer) = case.buffer_named(&self.buffer) else {
            return fail(format!("no buffer is called '{}'", self.buffer));
        };
        if self.blocks.is_some_and(|blocks| blocks.contains(&0)) {
            return fail("blocks have no rows or columns".into());
        }
        let limit = 1 << 31;
        if [rows, columns, self.stride, self.offset].iter().any(|&size| size > limit) || rows * columns > limit {
            return fail(format!("a view of {rows} by {columns}, stride {} is too large", self.stride));
        }
        // Blocks put the last element of a whole block anywhere: the largest is among these.
        let [height, width] = self.blocks.unwrap_or([rows, columns]);
        let corners = [(rows - 1, columns - 1), ((rows - 1) / height * height + height.min(rows) - 1, columns - 1)];
        let last = corners.map(|(row, column)| self.element(row.min(rows - 1), column, columns)).into_iter().max();
        let _ = width;
        match last {
            Some(last) if last >= buffer.count => {
                fail(format!("element {last} lies outside of buffer {}, which has {}", buffer.name, buffer.count))
            }
            _ => Ok(()),
        }
    }

    fn read(&self, case: &Case, rows: u64, columns: u64) -> Result<Matrix, Error> {
        let (index, kind) = locate(case, &self.buffer)?;
        let elements = number::decode_all(kind, &case.contents(index, &|_| 0)?);
        let values = (0..rows * columns)
            .map(|place| {
                let element = self.element(place / columns, place % columns, columns);
                elements.get(element as usize).copied().ok_or_else(|| outside(&self.buffer, element))
            })
            .collect::<Result<_, _>>()?;
        Ok(Matrix { values, columns: columns as usize, kind })
    }
}

fn outside(buffer: &str, element: u64) -> Error {
    Error::case(format!("expect: element {element} lies outside of buffer {buffer}"))
}

fn locate(case: &Case, name: &str) -> Result<(usize, ComponentType), Error> {
    let index = case.buffer.iter().position(|buffer| buffer.name == name);
    let index = index.ok_or_else(|| Error::case(format!("expect: no buffer is called '{name}'")))?;
    Ok((index, case.buffer[index].element))
}

struct Matrix {
    values: Vec<Value>,
    columns: usize,
    kind: ComponentType,
}

impl Expect {
    /// Refuses statements that name buffers that are not there, or elements outside of them.
    pub(crate) fn check(&self, case: &Case) -> Result<(), Error> {
        match self {
            Expect::Gemm(gemm) => gemm.check(case),
            Expect::Values(values) => {
                values.values.iter().try_for_each(|number| number.value().map(|_| ()))?;
                locate(case, &values.buffer).map(|_| ())
            }
        }
    }

    /// The buffer that the statement is about.
    pub fn buffer(&self) -> &str {
        match self {
            Expect::Gemm(gemm) => &gemm.d.buffer,
            Expect::Values(values) => &values.buffer,
        }
    }
}

impl Gemm {
    fn check(&self, case: &Case) -> Result<(), Error> {
        let Gemm { m, n, k, .. } = *self;
        if [m, n, k].contains(&0) {
            return Err(Error::case("expect: m, n and k are at least 1"));
        }
        self.a.check(case, "a", m, k)?;
        self.b.check(case, "b", k, n)?;
        if let Some(c) = &self.c {
            c.check(case, "c", m, n)?;
        }
        self.d.check(case, "d", m, n)
    }

    /// Puts the result into the bytes of D's buffer.
    fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let Gemm { m, n, k, .. } = *self;
        let a = self.a.read(case, m, k)?;
        let b = self.b.read(case, k, n)?;
        let c = self.c.as_ref().map(|c| c.read(case, m, n)).transpose()?;
        let (_, kind) = locate(case, &self.d.buffer)?;
        let accumulator = self.accumulator.unwrap_or(kind);
        let sums = if number::is_float(accumulator) {
            self.float_sums(&a, &b, c.as_ref())
        } else {
            self.integer_sums(&a, &b, c.as_ref(), accumulator)
        };
        for (place, sum) in sums.into_iter().enumerate() {
            let place = place as u64;
            let element = self.d.element(place / n, place % n, n);
            let mut value = sum;
            if self.accumulator.is_some() {
                value = number::rounded(accumulator, value);
            }
            for step in &self.then {
                value = Value::Float(step.apply(value.to_f64()));
            }
            put(kind, value, element, bytes).ok_or_else(|| outside(&self.d.buffer, element))?;
        }
        Ok(())
    }

    fn float_sums(&self, a: &Matrix, b: &Matrix, c: Option<&Matrix>) -> Vec<Value> {
        let a_values: Vec<f64> = a.values.iter().map(|value| value.to_f64()).collect();
        let b_values: Vec<f64> = b.values.iter().map(|value| value.to_f64()).collect();
        let n = b.columns;
        let mut out = Vec::with_capacity(self.m as usize * n);
        let mut row_sums = vec![0.0; n];
        for row in a_values.chunks_exact(a.columns) {
            row_sums.fill(0.0);
            for (&left, right) in row.iter().zip(b_values.chunks_exact(n)) {
                for (sum, &right) in row_sums.iter_mut().zip(right) {
                    *sum += left * right;
                }
            }
            out.extend(row_sums.iter().map(|&sum| Value::Float(self.alpha * sum)));
        }
        if let Some(c) = c {
            for (sum, term) in out.iter_mut().zip(&c.values) {
                *sum = Value::Float(sum.to_f64() + self.beta * term.to_f64());
            }
        }
        out
    }

    fn integer_sums(&self, a: &Matrix, b: &Matrix, c: Option<&Matrix>, kind: ComponentType) -> Vec<Value> {
        debug_assert!(!number::is_float(a.kind) && !number::is_float(b.kind));
        let n = b.columns;
        let (low, high) = number::integer_range(kind);
        let mut out = Vec::with_capacity(self.m as usize * n);
        for (row, left) in a.values.chunks_exact(a.columns).enumerate() {
            for column in 0..n {
                let products = left.iter().enumerate().map(|(k, value)| {
                    // The low half is exact modulo 2^64 whatever the operands, and exact altogether below that.
                    value.to_i128().wrapping_mul(b.values[k * n + column].to_i128())
                });
                let mut sum = products.fold(0i128, i128::wrapping_add).wrapping_mul(self.alpha as i128);
                if let Some(c) = c {
                    sum = sum.wrapping_add(c.values[row * n + column].to_i128().wrapping_mul(self.beta as i128));
                }
                out.push(Value::Int(if self.saturate { sum.clamp(low, high) } else { sum }));
            }
        }
        out
    }
}

fn put(kind: ComponentType, value: Value, element: u64, bytes: &mut [u8]) -> Option<()> {
    let size = number::size_of(kind);
    let start = (element as usize).checked_mul(size)?;
    let place = bytes.get_mut(start..start.checked_add(size)?)?;
    let mut encoded = Vec::with_capacity(size);
    number::encode(kind, value, &mut encoded);
    place.copy_from_slice(&encoded);
    Some(())
}

impl Case {
    /// What the buffers that the case makes statements about hold afterwards: index and bytes.
    pub fn expected(&self) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let mut expected: Vec<(usize, Vec<u8>)> = Vec::new();
        for expect in &self.expect {
            let (index, kind) = locate(self, expect.buffer())?;
            let place = match expected.iter().position(|(known, _)| *known == index) {
                Some(place) => place,
                None => {
                    expected.push((index, self.contents(index, &|_| 0)?));
                    expected.len() - 1
                }
            };
            let bytes = &mut expected[place].1;
            match expect {
                Expect::Gemm(gemm) => gemm.apply(self, bytes)?,
                Expect::Values(values) => {
                    for (element, number) in values.values.iter().enumerate() {
                        let element = element as u64;
                        put(kind, number.value()?, element, bytes).ok_or_else(|| outside(&values.buffer, element))?;
                    }
                }
            }
        }
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Two by three times three by two.
    fn case(types: [&str; 3], d_count: u64, gemm: &str) -> Result<Case, Error> {
        let [ab, c, d] = types;
        let text = format!(
            r#"
            workgroups = [1, 1, 1]
            [[buffer]]
            name = "A"
            type = "{ab}"
            count = 6
            fill = {{ values = [1, 2, 3, 4, 5, 6] }}
            [[buffer]]
            name = "B"
            type = "{ab}"
            count = 6
            fill = {{ values = [1, 0, 0, 1, 1, -1] }}
            [[buffer]]
            name = "C"
            type = "{c}"
            count = 1
            fill = {{ values = [100] }}
            [[buffer]]
            name = "D"
            type = "{d}"
            count = {d_count}
            fill = {{ constant = 9 }}
            [[expect]]
            gemm = {{ m = 2, n = 2, k = 3, {gemm} }}
            "#
        );
        Case::parse(&text, Path::new(""))
    }

    const AB: &str = "a = { buffer = 'A', stride = 3 }, b = { buffer = 'B', stride = 2 }";

    fn result(case: &Case) -> Vec<f64> {
        let expected = case.expected().unwrap();
        let [(3, bytes)] = expected.as_slice() else { panic!("one buffer is expected: {expected:?}") };
        number::decode_all(case.buffer[3].element, bytes).into_iter().map(Value::to_f64).collect()
    }

    #[test]
    fn plain_product_leaves_the_rest_alone() {
        let case =
            case(["f16", "f32", "f32"], 7, &format!("{AB}, d = {{ buffer = 'D', stride = 4, offset = 1 }}")).unwrap();
        assert_eq!(result(&case), [9.0, 4.0, -1.0, 9.0, 9.0, 10.0, -1.0]);
    }

    #[test]
    fn column_major_blocks_bias_and_steps() {
        let gemm = format!(
            "{AB}, c = {{ buffer = 'C', stride = 0, blocks = [1, 1] }}, d = {{ buffer = 'D', stride = 2, layout = 'column' }}"
        );
        // A bias of stride 0 in both directions does not exist: blocks of one element do not make one.
        let error = case(["f32", "f32", "f32"], 4, &gemm).unwrap_err().to_string();
        assert!(error.contains("element 3 lies outside of buffer C"), "{error}");
        let gemm = format!(
            "{AB}, alpha = 2.0, then = [{{ add = 1.0 }}, 'relu'], d = {{ buffer = 'D', stride = 2, layout = 'column' }}"
        );
        assert_eq!(result(&case(["f32", "f32", "f32"], 4, &gemm).unwrap()), [9.0, 21.0, 0.0, 0.0]);
        let gemm = format!("{AB}, d = {{ buffer = 'D', stride = 1, blocks = [2, 1] }}");
        assert_eq!(result(&case(["f32", "f32", "f32"], 4, &gemm).unwrap()), [4.0, 10.0, -1.0, -1.0]);
    }

    #[test]
    fn integers_wrap_or_saturate() {
        let d = "d = { buffer = 'D', stride = 2 }, alpha = 30.0";
        assert_eq!(result(&case(["s8", "s8", "s8"], 4, &format!("{AB}, {d}")).unwrap()), [120.0, -30.0, 44.0, -30.0]);
        let saturated = case(["s8", "s8", "s8"], 4, &format!("{AB}, {d}, saturate = true")).unwrap();
        assert_eq!(result(&saturated), [120.0, -30.0, 127.0, -30.0]);
        // -1 is 255 as u8.
        let unsigned = case(["u8", "u32", "u32"], 4, &format!("{AB}, d = {{ buffer = 'D', stride = 2 }}")).unwrap();
        assert_eq!(result(&unsigned), [4.0, 767.0, 10.0, 1535.0]);
    }

    #[test]
    fn views_are_checked() {
        for (gemm, why) in [
            (
                "a = { buffer = 'X', stride = 3 }, b = { buffer = 'B', stride = 2 }, d = { buffer = 'D', stride = 2 }",
                "'X'",
            ),
            (
                "a = { buffer = 'A', stride = 4 }, b = { buffer = 'B', stride = 2 }, d = { buffer = 'D', stride = 2 }",
                "element 6",
            ),
            (
                "a = { buffer = 'A', stride = 3 }, b = { buffer = 'B', stride = 99999999999 }, d = { buffer = 'D', stride = 2 }",
                "too large",
            ),
        ] {
            let error = case(["f32", "f32", "f32"], 4, gemm).unwrap_err().to_string();
            assert!(error.contains(why), "{gemm}: {error}");
        }
    }
}
