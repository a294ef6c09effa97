//! D = f(alpha * A * B + beta * C).

use coop_device::ComponentType;
use serde::Deserialize;

use super::{locate, outside, put};
use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};
use crate::quantised::Blocks;

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
    pub a: MatrixView,
    /// B, k by n.
    pub b: MatrixView,
    /// The matrices to add, each m by n.
    #[serde(default)]
    pub c: Vec<MatrixView>,
    /// D, m by n.
    pub d: MatrixView,
    /// The factor of the product.
    #[serde(default = "one")]
    pub alpha: f64,
    /// The factor of C.
    #[serde(default = "one")]
    pub beta: f64,
    /// Integers only: C plus the products of each this many steps in k is clamped to the accumulator's type.
    pub saturate: Option<u64>,
    /// The range in k that is left out: from, to.
    #[serde(default)]
    pub skip: [u64; 2],
    /// The type of the accumulator, if it is not D's: the sum goes through it on its way to D.
    pub accumulator: Option<ComponentType>,
    /// The operations on each element of the sum, in order.
    #[serde(default)]
    pub then: Vec<ElementOp>,
}

fn one() -> f64 {
    1.0
}

/// An operation on each element.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElementOp {
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

impl ElementOp {
    fn apply(self, value: f64) -> f64 {
        match self {
            ElementOp::Relu => value.max(0.0),
            ElementOp::Scale(factor) => value * factor,
            ElementOp::Add(term) => value + term,
            ElementOp::LeakyRelu(slope) => {
                if value > 0.0 {
                    value
                } else {
                    value * slope
                }
            }
            ElementOp::Clamp(low, high) => value.max(low).min(high),
            ElementOp::Silu => value / (1.0 + (-value).exp()),
            ElementOp::Exp => value.exp(),
            ElementOp::Tanh => value.tanh(),
            ElementOp::Negate => -value,
            ElementOp::Round(kind) => number::rounded(kind, Value::Float(value)).to_f64(),
        }
    }
}

/// The major order of elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MajorOrder {
    /// Row-major: the elements of a row are consecutive.
    #[default]
    Row,
    /// Column-major: the elements of a column are consecutive.
    Column,
}

/// A matrix in a buffer.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MatrixView {
    /// The buffer.
    pub buffer: String,
    /// The element where the matrix begins.
    #[serde(default)]
    pub offset: u64,
    /// Elements from one row (or column) to the next; 0 repeats one row (or column).
    pub stride: u64,
    /// Row or column major.
    #[serde(default)]
    pub layout: MajorOrder,
    /// Rows and columns of the blocks that the matrix is cut into, each stored whole. Within a block `stride` and
    /// `layout` hold.
    pub blocks: Option<[u64; 2]>,
    /// The major order of the blocks.
    #[serde(default)]
    pub block_order: MajorOrder,
    /// The buffer holds quantized numbers in blocks of their own; offset and stride count numbers. Of A and B only.
    pub format: Option<Blocks>,
}

impl MatrixView {
    fn element(&self, row: u64, column: u64, [rows, columns]: [u64; 2]) -> u64 {
        let (base, row, column) = match self.blocks {
            Some([height, width]) => {
                let block = match self.block_order {
                    MajorOrder::Row => row / height * columns.div_ceil(width) + column / width,
                    MajorOrder::Column => column / width * rows.div_ceil(height) + row / height,
                };
                (block * height * width, row % height, column % width)
            }
            None => (0, row, column),
        };
        let (major, minor) = match self.layout {
            MajorOrder::Row => (row, column),
            MajorOrder::Column => (column, row),
        };
        self.offset + base + major * self.stride + minor
    }

    /// Refuses views that exceed their buffer.
    fn check(&self, case: &Case, what: &str, rows: u64, columns: u64) -> Result<(), Error> {
        let fail = |why: String| Err(Error::case(format!("expect: {what}: {why}")));
        let Some(buffer) = case.buffer_named(&self.buffer) else {
            return fail(format!("no buffer is called '{}'", self.buffer));
        };
        if self.format.is_some() && (buffer.element != ComponentType::U8 || matches!(what, "c" | "d")) {
            return fail("a format is for a and b in buffers of u8".into());
        }
        if self.format.is_some_and(|blocks| !blocks.is_decoded()) {
            return fail("the format is for fills only".into());
        }
        if self.blocks.is_some_and(|blocks| blocks.contains(&0)) {
            return fail("blocks have no rows or columns".into());
        }
        let limit = 1 << 31;
        let [height, width] = self.blocks.unwrap_or([rows, columns]);
        // What is below stays far within 64 bits then.
        let sizes = [rows, columns, self.stride, self.offset, height, width];
        if sizes.iter().any(|&size| size > limit) || rows * columns > limit {
            return fail(format!("a view of {rows} by {columns}, stride {} is too large", self.stride));
        }
        // Elements grow with row and column, block by block: the last one is in the last row or in the last column
        // of some block, and the ends of all blocks are few.
        let ends =
            |size: u64, step: u64| (0..size).step_by(step as usize).map(move |start| (start + step).min(size) - 1);
        let corners = ends(rows, height).flat_map(|row| ends(columns, width).map(move |column| (row, column)));
        let last = corners.map(|(row, column)| self.element(row, column, [rows, columns])).max();
        match last {
            Some(last) if last >= self.elements_in(buffer.count) => {
                let count = self.elements_in(buffer.count);
                fail(format!("element {last} lies outside of buffer {}, which has {count}", buffer.name))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of values in a buffer of `count` elements.
    fn elements_in(&self, count: u64) -> u64 {
        self.format.map_or(count, |blocks| count / blocks.bytes() * blocks.elements())
    }

    fn read(&self, case: &Case, rows: u64, columns: u64) -> Result<Matrix, Error> {
        let (index, kind) = locate(case, &self.buffer)?;
        let bytes = case.contents(index, &|_| 0)?;
        let values = (0..rows * columns)
            .map(|place| self.value(&bytes, kind, (place / columns, place % columns), [rows, columns]))
            .collect::<Result<_, _>>()?;
        Ok(Matrix { values, columns: columns as usize })
    }

    /// One element, given the buffer's bytes and type.
    fn value(
        &self,
        bytes: &[u8],
        kind: ComponentType,
        (row, column): (u64, u64),
        sizes: [u64; 2],
    ) -> Result<Value, Error> {
        let element = self.element(row, column, sizes);
        let size = number::size_of(kind);
        let start = element as usize * size;
        let value = match self.format {
            Some(blocks) => blocks.decode(bytes, element).map(Value::Float),
            None => bytes.get(start..start + size).map(|bytes| number::decode(kind, bytes)),
        };
        value.ok_or_else(|| outside(&self.buffer, element))
    }
}

struct Matrix {
    values: Vec<Value>,
    columns: usize,
}

impl Gemm {
    pub(super) fn check(&self, case: &Case) -> Result<(), Error> {
        let Gemm { m, n, k, .. } = *self;
        if [m, n, k].contains(&0) {
            return Err(Error::case("expect: m, n and k are at least 1"));
        }
        self.a.check(case, "a", m, k)?;
        self.b.check(case, "b", k, n)?;
        for c in &self.c {
            c.check(case, "c", m, n)?;
        }
        if self.saturate == Some(0) {
            return Err(Error::case("expect: saturate is the number of steps in k between clamps, at least 1"));
        }
        self.d.check(case, "d", m, n)
    }

    /// Writes the result into the bytes of D's buffer.
    pub(super) fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let Gemm { m, n, k, .. } = *self;
        let a = self.a.read(case, m, k)?;
        let b = self.b.read(case, k, n)?;
        let c: Vec<Matrix> = self.c.iter().map(|c| c.read(case, m, n)).collect::<Result<_, _>>()?;
        let (_, kind) = locate(case, &self.d.buffer)?;
        let accumulator = self.accumulator.unwrap_or(kind);
        let sums = if number::is_float(accumulator) {
            self.float_sums(&a, &b, &c)
        } else {
            self.integer_sums(&a, &b, &c, accumulator)
        };
        for (place, sum) in sums.into_iter().enumerate() {
            let place = place as u64;
            let element = self.d.element(place / n, place % n, [m, n]);
            put(&self.d.buffer, kind, self.finished(sum, accumulator), element, bytes)?;
        }
        Ok(())
    }

    /// Computes elements of D in some rows and columns, each with its index in the buffer. Floats without C only.
    pub(crate) fn sample(
        &self,
        case: &Case,
        contents: &[Vec<u8>],
        rows: &[u64],
        columns: &[u64],
    ) -> Result<Vec<(u64, Value)>, Error> {
        let (_, kind) = locate(case, &self.d.buffer)?;
        let accumulator = self.accumulator.unwrap_or(kind);
        if !self.c.is_empty() || !number::is_float(accumulator) {
            return Err(Error::case("expect: only products of floats without c can be sampled"));
        }
        let Gemm { m, n, k, .. } = *self;
        let line = |view: &MatrixView, sizes: [u64; 2], place: &dyn Fn(u64) -> (u64, u64)| -> Result<Vec<f64>, Error> {
            let (index, kind) = locate(case, &view.buffer)?;
            let steps = (0..k).filter(|&step| !self.skips(step));
            steps.map(|step| Ok(view.value(&contents[index], kind, place(step), sizes)?.to_f64())).collect()
        };
        let left = rows.iter().map(|&row| line(&self.a, [m, k], &|step| (row, step))).collect::<Result<Vec<_>, _>>()?;
        let mut out = Vec::with_capacity(rows.len() * columns.len());
        for &column in columns {
            let right = line(&self.b, [k, n], &|step| (step, column))?;
            for (&row, left) in rows.iter().zip(&left) {
                let sum: f64 = left.iter().zip(&right).map(|(left, right)| left * right).sum();
                let value = self.finished(Value::Float(self.alpha * sum), accumulator);
                out.push((self.d.element(row, column, [m, n]), value));
            }
        }
        Ok(out)
    }

    /// Applies the remaining operations to a sum on its way to D.
    fn finished(&self, sum: Value, accumulator: ComponentType) -> Value {
        let value = if self.accumulator.is_some() { number::rounded(accumulator, sum) } else { sum };
        self.then.iter().fold(value, |value, step| Value::Float(step.apply(value.to_f64())))
    }

    fn float_sums(&self, a: &Matrix, b: &Matrix, c: &[Matrix]) -> Vec<Value> {
        let a_values: Vec<f64> = a.values.iter().map(|value| value.to_f64()).collect();
        let b_values: Vec<f64> = b.values.iter().map(|value| value.to_f64()).collect();
        let n = b.columns;
        let mut out = Vec::with_capacity(self.m as usize * n);
        let mut row_sums = vec![0.0; n];
        for row in a_values.chunks_exact(a.columns) {
            row_sums.fill(0.0);
            for ((k, &left), right) in (0..).zip(row).zip(b_values.chunks_exact(n)) {
                if self.skips(k) {
                    continue;
                }
                for (sum, &right) in row_sums.iter_mut().zip(right) {
                    *sum += left * right;
                }
            }
            out.extend(row_sums.iter().map(|&sum| Value::Float(self.alpha * sum)));
        }
        for c in c {
            for (sum, term) in out.iter_mut().zip(&c.values) {
                *sum = Value::Float(sum.to_f64() + self.beta * term.to_f64());
            }
        }
        out
    }

    /// Computes integer sums, exact modulo 2^128, and exact altogether unless 64-bit operands are large.
    fn integer_sums(&self, a: &Matrix, b: &Matrix, c: &[Matrix], kind: ComponentType) -> Vec<Value> {
        let n = b.columns;
        let (low, high) = number::integer_range(kind);
        let a_values: Vec<i128> = a.values.iter().map(|value| value.to_i128()).collect();
        let b_values: Vec<i128> = b.values.iter().map(|value| value.to_i128()).collect();
        let mut out = Vec::with_capacity(self.m as usize * n);
        for (row, left) in a_values.chunks_exact(a.columns).enumerate() {
            for column in 0..n {
                let terms = c.iter().map(|c| c.values[row * n + column].to_i128().wrapping_mul(self.beta as i128));
                let mut sum = terms.fold(0i128, i128::wrapping_add);
                for (k, value) in left.iter().enumerate().filter(|(k, _)| !self.skips(*k as u64)) {
                    let product = value.wrapping_mul(b_values[k * n + column]);
                    sum = sum.wrapping_add(product.wrapping_mul(self.alpha as i128));
                    if self.saturate.is_some_and(|steps| (k as u64 + 1).is_multiple_of(steps)) {
                        sum = sum.clamp(low, high);
                    }
                }
                out.push(Value::Int(if self.saturate.is_some() { sum.clamp(low, high) } else { sum }));
            }
        }
        out
    }

    fn skips(&self, k: u64) -> bool {
        (self.skip[0]..self.skip[1]).contains(&k)
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
            "{AB}, c = [{{ buffer = 'C', stride = 0, blocks = [1, 1] }}], d = {{ buffer = 'D', stride = 2, layout = 'column' }}"
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
    fn blocks_in_columns_and_skipped_steps() {
        // B in blocks of 2 by 1, one column of blocks after the other: 1 0 | 1 . || 0 1 | -1 .
        let gemm = "a = { buffer = 'A', stride = 3 }, d = { buffer = 'D', stride = 2 }, skip = [0, 1], \
                    b = { buffer = 'B', stride = 1, blocks = [2, 1], block-order = 'column' }";
        let error = case(["f32", "f32", "f32"], 4, gemm).unwrap_err().to_string();
        assert!(error.contains("element 6 lies outside of buffer B"), "{error}");
        let gemm = "a = { buffer = 'A', stride = 3 }, d = { buffer = 'D', stride = 2 }, skip = [0, 1], \
                    b = { buffer = 'B', stride = 1, blocks = [3, 1], block-order = 'column' }";
        // B is then 1 1 / 0 1 / 0 -1, of which the first row is left out.
        assert_eq!(result(&case(["f32", "f32", "f32"], 4, gemm).unwrap()), [0.0, -1.0, 0.0, -1.0]);
    }

    #[test]
    fn saturation_clamps_after_every_step() {
        // Row 2 is 4 5 6: 30 * (4 * 1 + 5 * 0 + 6 * 1), and 30 * (5 - 6): clamped high on the way, then down.
        let gemm = format!("{AB}, d = {{ buffer = 'D', stride = 2 }}, alpha = 30.0, saturate = 1");
        let stepwise = case(["s8", "s8", "s8"], 4, &gemm).unwrap();
        assert_eq!(result(&stepwise), [120.0, -30.0, 127.0, -53.0]);
    }

    #[test]
    fn integers_wrap_or_saturate() {
        let d = "d = { buffer = 'D', stride = 2 }, alpha = 30.0";
        assert_eq!(result(&case(["s8", "s8", "s8"], 4, &format!("{AB}, {d}")).unwrap()), [120.0, -30.0, 44.0, -30.0]);
        let saturated = case(["s8", "s8", "s8"], 4, &format!("{AB}, {d}, saturate = 3")).unwrap();
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
