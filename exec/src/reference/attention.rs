//! O = softmax(scale * Q * transpose(K)) * V, head by head.

use coop_device::ComponentType;
use serde::Deserialize;

use super::{locate, outside, put};
use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};
use crate::quantised::Blocks;

/// Attention over buffers without gaps: Q is `heads` x `n` x `head`, K is `kv-heads` x `kv` x `head`, V is `kv-heads` x `kv` x
/// `head-v`, O is `heads` x `n` x `head-v`; all of these for each batch.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Attention {
    /// The buffer of queries.
    pub q: String,
    /// The buffer of keys.
    pub k: String,
    /// The buffer of values.
    pub v: String,
    /// The buffer of results.
    pub o: String,
    /// Rows of Q and O.
    pub n: u64,
    /// Rows of K and V.
    pub kv: u64,
    /// Columns of Q and K.
    pub head: u64,
    /// Columns of V and O, if different from `head`.
    pub head_v: Option<u64>,
    /// Heads of Q and O; as many as `kv-heads`, or a multiple: neighbors share K and V.
    pub heads: u64,
    /// Heads of K and V.
    pub kv_heads: u64,
    /// The number of batches, one after the other, each with its own mask.
    #[serde(default = "one")]
    pub batches: u64,
    /// The factor of the products of Q and K.
    pub scale: f64,
    /// K is made of blocks.
    pub k_format: Option<Blocks>,
    /// V is made of blocks.
    pub v_format: Option<Blocks>,
    /// O is `n` x `heads` x `head-v`.
    #[serde(default)]
    pub rows_first: bool,
    /// c: scores are c * tanh(score).
    pub softcap: Option<f64>,
    /// The buffer of the mask, which is added to the scores of each head, `n` x `kv`.
    pub mask: Option<String>,
    /// The factor of the mask for each head.
    #[serde(default)]
    pub slopes: Vec<f64>,
    /// The buffer of a further score for each head, of a row of V that is zero.
    pub sinks: Option<String>,
}

fn one() -> u64 {
    1
}

/// The rows of one buffer.
struct Rows<'a> {
    name: &'a str,
    bytes: Vec<u8>,
    kind: ComponentType,
    columns: u64,
    format: Option<Blocks>,
}

impl Rows<'_> {
    fn row(&self, row: u64) -> Result<Vec<f64>, Error> {
        let elements = row * self.columns..(row + 1) * self.columns;
        elements.map(|element| self.element(element)).collect()
    }

    fn element(&self, element: u64) -> Result<f64, Error> {
        let size = number::size_of(self.kind);
        let start = element as usize * size;
        let value = match self.format {
            Some(blocks) => blocks.decode(&self.bytes, element),
            None => self.bytes.get(start..start + size).map(|bytes| number::decode(self.kind, bytes).to_f64()),
        };
        value.ok_or_else(|| outside(self.name, element))
    }
}

/// The operands of an attention.
struct Operands<'a> {
    queries: Rows<'a>,
    keys: Rows<'a>,
    values: Rows<'a>,
    mask: Option<Rows<'a>>,
    sinks: Option<Rows<'a>>,
}

impl Attention {
    fn head_v(&self) -> u64 {
        self.head_v.unwrap_or(self.head)
    }

    pub(super) fn check(&self, case: &Case) -> Result<(), Error> {
        const MOST: u64 = 1 << 16;
        let heads =
            [("head", self.head), ("head-v", self.head_v()), ("heads", self.heads), ("kv-heads", self.kv_heads)];
        let sizes = [("n", self.n), ("kv", self.kv), ("batches", self.batches)].into_iter().chain(heads);
        for (name, size) in sizes {
            if size == 0 || size > MOST {
                return Err(Error::case(format!("expect: {name} of attention is {size}, not 1 to {MOST}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, of) = (self.heads, self.kv_heads);
            return Err(Error::case(format!("expect: heads, {heads}, is not a multiple of kv-heads, {of}")));
        }
        if !self.slopes.is_empty() && self.slopes.len() as u64 != self.heads {
            return Err(Error::case("expect: attention has a slope for each head, or none"));
        }
        if [self.k_format, self.v_format].into_iter().flatten().any(|blocks| !blocks.is_decoded()) {
            return Err(Error::case("expect: a format of attention is for fills only"));
        }
        let (rows, kv_rows) = (self.batches * self.heads * self.n, self.batches * self.kv_heads * self.kv);
        let mut needs = vec![
            (&self.q, rows * self.head, None),
            (&self.k, kv_rows * self.head, self.k_format),
            (&self.v, kv_rows * self.head_v(), self.v_format),
            (&self.o, rows * self.head_v(), None),
        ];
        needs.extend(self.mask.as_ref().map(|mask| (mask, self.batches * self.n * self.kv, None)));
        needs.extend(self.sinks.as_ref().map(|sinks| (sinks, self.heads, None)));
        for (name, count, format) in needs {
            let (index, _) = locate(case, name)?;
            let there = case.buffer[index].count;
            let there = format.map_or(there, |blocks| there / blocks.bytes() * blocks.elements());
            if there < count {
                return Err(outside(name, count - 1));
            }
        }
        Ok(())
    }

    /// Computes the requested rows of O (rows of all heads of all batches, one head after the other), each element with
    /// its index.
    pub(crate) fn rows(
        &self,
        case: &Case,
        contents: &dyn Fn(usize) -> Result<Vec<u8>, Error>,
        wanted: &[u64],
    ) -> Result<Vec<(u64, Value)>, Error> {
        let rows = |name, columns, format| -> Result<Rows<'_>, Error> {
            let (index, kind) = locate(case, name)?;
            Ok(Rows { name, bytes: contents(index)?, kind, columns, format })
        };
        let operands = Operands {
            queries: rows(&self.q, self.head, None)?,
            keys: rows(&self.k, self.head, self.k_format)?,
            values: rows(&self.v, self.head_v(), self.v_format)?,
            mask: self.mask.as_deref().map(|mask| rows(mask, self.kv, None)).transpose()?,
            sinks: self.sinks.as_deref().map(|sinks| rows(sinks, 1, None)).transpose()?,
        };
        let mut out = Vec::with_capacity(wanted.len() * self.head_v() as usize);
        for &row in wanted {
            let (head, index) = (row / self.n % self.heads, row % self.n);
            let batch = row / self.n / self.heads;
            let within = if self.rows_first { index * self.heads + head } else { head * self.n + index };
            let place = batch * self.heads * self.n + within;
            let sums = self.row((batch, head, index), &operands)?;
            out.extend((0..).zip(sums).map(|(column, sum)| (place * self.head_v() + column, Value::Float(sum))));
        }
        Ok(out)
    }

    /// One row of O.
    fn row(&self, (batch, head, index): (u64, u64, u64), operands: &Operands<'_>) -> Result<Vec<f64>, Error> {
        let query = operands.queries.row((batch * self.heads + head) * self.n + index)?;
        let first = (batch * self.kv_heads + head / (self.heads / self.kv_heads)) * self.kv;
        let slope = self.slopes.get(head as usize).copied().unwrap_or(1.0);
        let mask = operands.mask.as_ref().map(|mask| mask.row(batch * self.n + index)).transpose()?;
        let sink = operands.sinks.as_ref().map(|sinks| sinks.element(head)).transpose()?;
        let mut scores = Vec::with_capacity(self.kv as usize);
        for row in 0..self.kv {
            let key = operands.keys.row(first + row)?;
            let mut score = self.scale * key.iter().zip(&query).map(|(k, q)| k * q).sum::<f64>();
            if let Some(cap) = self.softcap {
                score = cap * score.tanh();
            }
            scores.push(score + mask.as_ref().map_or(0.0, |mask| slope * mask[row as usize]));
        }
        let most = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let mut sums = vec![0.0; self.head_v() as usize];
        let mut total = sink.map_or(0.0, |sink| (sink - most).exp());
        for (row, score) in (0..).zip(scores) {
            let weight = (score - most).exp();
            total += weight;
            for (sum, value) in sums.iter_mut().zip(operands.values.row(first + row)?) {
                *sum += weight * value;
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= total);
        Ok(sums)
    }

    /// Writes the result into the bytes of O's buffer.
    pub(super) fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let (_, kind) = locate(case, &self.o)?;
        let all: Vec<u64> = (0..self.batches * self.heads * self.n).collect();
        for (element, value) in self.rows(case, &|index| case.contents(index, &|_| 0), &all)? {
            put(&self.o, kind, value, element, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn two_heads_share_keys() {
        let text = r#"
            workgroups = [1, 1, 1]
            buffer = [
                { name = "Q", type = "f32", count = 4, fill = { values = [0.0, 0.0, 1.0, 0.0] } },
                { name = "K", type = "f32", count = 4, fill = { values = [0.0, 5.0, 2.0, 5.0] } },
                { name = "V", type = "f32", count = 4, fill = { values = [1.0, 3.0, 3.0, -1.0] } },
                { name = "O", type = "f32", count = 4 },
            ]
            [[expect]]
            attention = { q = "Q", k = "K", v = "V", o = "O", n = 1, kv = 2, head = 2, heads = 2, kv-heads = 1, scale = 0.5 }
        "#;
        let case = Case::parse(text, Path::new("")).unwrap();
        let (_, bytes) = case.expected().unwrap().remove(0);
        let values = number::decode_all(ComponentType::F32, &bytes);
        let e = std::f64::consts::E;
        let wanted = [2.0, 1.0, (1.0 + 3.0 * e) / (1.0 + e), (3.0 - e) / (1.0 + e)];
        for (value, wanted) in values.iter().zip(wanted) {
            assert!((value.to_f64() - wanted).abs() < 1e-6, "{values:?}");
        }
        let wrong = text.replace("kv = 2", "kv = 3");
        assert!(Case::parse(&wrong, Path::new("")).is_err());
        // A mask that leaves one key, with another slope, and a sink that weighs as much.
        let text = text
            .replace("scale = 0.5 }", "scale = 0.0, mask = 'M', slopes = [1.0, 0.5], sinks = 'S', rows-first = true }")
            .replace(
                "buffer = [",
                "buffer = [{ name = 'M', type = 'f32', count = 2, fill = { values = [-inf, 2.0] } },
                { name = 'S', type = 'f32', count = 2, fill = { values = [2.0, 1.0] } },",
            );
        let case = Case::parse(&text, Path::new("")).unwrap();
        let (_, bytes) = case.expected().unwrap().remove(0);
        let values: Vec<f64> =
            number::decode_all(ComponentType::F32, &bytes).iter().map(|value| value.to_f64()).collect();
        assert_eq!(values, [1.5, -0.5, 1.5, -0.5]);
        // The same for two batches: other heads of K and V, and another mask.
        let text = text
            .replace("kv-heads = 1,", "kv-heads = 1, batches = 2,")
            .replace("count = 4, fill = { values = [0.0, 0.0, 1.0, 0.0] }", "count = 8, fill = 'zeros'")
            .replace("count = 4, fill = { values = [0.0, 5.0, 2.0, 5.0] }", "count = 8, fill = 'zeros'")
            .replace(
                "count = 4, fill = { values = [1.0, 3.0, 3.0, -1.0] }",
                "count = 8, fill = { values = [1.0, 3.0, 3.0, -1.0, 2.0, 4.0, 6.0, 8.0] }",
            )
            .replace(
                "count = 2, fill = { values = [-inf, 2.0] }",
                "count = 4, fill = { values = [-inf, 2.0, 2.0, -inf] }",
            )
            .replace("name = \"O\", type = \"f32\", count = 4", "name = \"O\", type = \"f32\", count = 8");
        let case = Case::parse(&text, Path::new("")).unwrap();
        let (_, bytes) = case.expected().unwrap().remove(0);
        let values: Vec<f64> =
            number::decode_all(ComponentType::F32, &bytes).iter().map(|value| value.to_f64()).collect();
        assert_eq!(values, [1.5, -0.5, 1.5, -0.5, 1.0, 2.0, 1.0, 2.0]);
    }
}
