//! O = softmax(scale * Q * transpose(K)) * V, head by head.

use coop_ir::profile::ComponentType;
use serde::Deserialize;

use super::{locate, outside, put};
use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};

/// Attention over buffers without gaps: Q and O are `heads` x `n` x `head`, K and V are `kv-heads` x `kv` x `head`.
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
    /// Columns of all of them.
    pub head: u64,
    /// Heads of Q and O; as many as `kv-heads`, or a multiple: neighbours share K and V.
    pub heads: u64,
    /// Heads of K and V.
    pub kv_heads: u64,
    /// What the products of Q and K are multiplied with.
    pub scale: f64,
}

/// The elements of one buffer.
struct Rows<'a> {
    name: &'a str,
    bytes: &'a [u8],
    kind: ComponentType,
    head: u64,
}

impl Rows<'_> {
    fn row(&self, row: u64) -> Result<Vec<f64>, Error> {
        let size = number::size_of(self.kind);
        let start = (row * self.head) as usize * size;
        let bytes = self.bytes.get(start..start + self.head as usize * size);
        let bytes = bytes.ok_or_else(|| outside(self.name, (row + 1) * self.head - 1))?;
        Ok(bytes.chunks_exact(size).map(|bytes| number::decode(self.kind, bytes).to_f64()).collect())
    }
}

impl Attention {
    pub(super) fn check(&self, case: &Case) -> Result<(), Error> {
        let sizes = [self.n, self.kv, self.head, self.heads, self.kv_heads];
        if sizes.iter().any(|&size| size == 0 || size > 1 << 24) || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Error::case("expect: attention's sizes are no sizes, or heads no multiple of kv-heads"));
        }
        let queries = self.heads.saturating_mul(self.n).saturating_mul(self.head);
        let keys = self.kv_heads.saturating_mul(self.kv).saturating_mul(self.head);
        for (name, count) in [(&self.q, queries), (&self.k, keys), (&self.v, keys), (&self.o, queries)] {
            let (index, _) = locate(case, name)?;
            if case.buffer[index].count < count {
                return Err(outside(name, count - 1));
            }
        }
        Ok(())
    }

    /// The rows of O that are asked for (rows of all heads, one head after the other), element by element with its place.
    pub(crate) fn rows(
        &self,
        case: &Case,
        contents: &dyn Fn(usize) -> Result<Vec<u8>, Error>,
        wanted: &[u64],
    ) -> Result<Vec<(u64, Value)>, Error> {
        let of = |name: &str| -> Result<(Vec<u8>, ComponentType), Error> {
            let (index, kind) = locate(case, name)?;
            Ok((contents(index)?, kind))
        };
        let (q, k, v) = (of(&self.q)?, of(&self.k)?, of(&self.v)?);
        let (queries, keys, values) = (
            Rows { name: &self.q, bytes: &q.0, kind: q.1, head: self.head },
            Rows { name: &self.k, bytes: &k.0, kind: k.1, head: self.head },
            Rows { name: &self.v, bytes: &v.0, kind: v.1, head: self.head },
        );
        let mut out = Vec::with_capacity(wanted.len() * self.head as usize);
        for &row in wanted {
            let query = queries.row(row)?;
            let first = row / self.n / (self.heads / self.kv_heads) * self.kv;
            let sums = self.weighted(&query, first, &keys, &values)?;
            out.extend((0..).zip(sums).map(|(column, sum)| (row * self.head + column, Value::Float(sum))));
        }
        Ok(out)
    }

    fn weighted(&self, query: &[f64], first: u64, keys: &Rows<'_>, values: &Rows<'_>) -> Result<Vec<f64>, Error> {
        let score = |row: u64| -> Result<f64, Error> {
            Ok(self.scale * keys.row(first + row)?.iter().zip(query).map(|(k, q)| k * q).sum::<f64>())
        };
        let scores = (0..self.kv).map(score).collect::<Result<Vec<_>, _>>()?;
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sums = vec![0.0; self.head as usize];
        let mut total = 0.0;
        for (row, score) in (0..).zip(scores) {
            let weight = (score - most).exp();
            total += weight;
            for (sum, value) in sums.iter_mut().zip(values.row(first + row)?) {
                *sum += weight * value;
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= total);
        Ok(sums)
    }

    /// Puts the result into the bytes of O's buffer.
    pub(super) fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let (_, kind) = locate(case, &self.o)?;
        let all: Vec<u64> = (0..self.heads * self.n).collect();
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
    }
}
