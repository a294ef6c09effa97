//! Compares two contents of a buffer as far as the case asks.

use std::fmt;

use crate::bounds::Bounds;
use crate::case::{Buffer, Case};
use crate::error::Error;
use crate::executor::Outcome;
use crate::number::{self, Value};
use crate::tolerance::Tolerance;

/// The number of mismatches that a report names.
const PLACES: usize = 8;

/// An element in which two buffers differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// The element.
    pub index: u64,
    /// Its row and column, if the buffer has a row stride.
    pub row_column: Option<(u64, u64)>,
    /// The value that was found, with its bits.
    pub got: (Value, u64),
    /// The value that was wanted, with its bits.
    pub wanted: (Value, u64),
    /// The distance that was allowed, where that was derived; NaN where no bound is known.
    pub allowed: f64,
}

/// The differences of two buffers beyond the tolerance.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The buffer.
    pub buffer: String,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// Elements that are too far apart (with nmse: that differ at all).
    pub count: u64,
    /// Elements of the buffer.
    pub total: u64,
    /// The first of them.
    pub places: Vec<Mismatch>,
    /// The largest difference of two numbers, and where; none if only NaNs and infinities differ.
    pub largest: Option<(f64, u64)>,
    /// The normalised mean squared error, if the elements are finite floats.
    pub nmse: Option<f64>,
    /// The reason why no tolerance could be derived.
    pub note: Option<String>,
    /// The number of elements that should have been written and were not.
    pub unwritten: u64,
    /// The number of elements that should not have been written and were.
    pub stray: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { buffer, count, total, tolerance, .. } = self;
        write!(f, "buffer {buffer}: {count} of {total} elements differ (tolerance: {tolerance}")?;
        if let Some(nmse) = self.nmse {
            write!(f, "; nmse {nmse:.3e}")?;
        }
        f.write_str(")")?;
        if let Some((error, index)) = self.largest {
            write!(f, "; largest error {error} at [{index}]")?;
        }
        for place in &self.places {
            write!(f, "\n  [{}]", place.index)?;
            if let Some((row, column)) = place.row_column {
                write!(f, " row {row}, column {column}")?;
            }
            write!(
                f,
                ": {} (0x{:x}) instead of {} (0x{:x})",
                place.got.0, place.got.1, place.wanted.0, place.wanted.1
            )?;
            if place.allowed.is_nan() {
                f.write_str(", with no bound known")?;
            } else if place.allowed > 0.0 {
                write!(f, ", more than {:e} apart", place.allowed)?;
            }
        }
        let more = self.count - self.places.len() as u64;
        if more > 0 {
            write!(f, "\n  and {more} more")?;
        }
        let elements = |n: u64| if n == 1 { "element" } else { "elements" };
        if self.unwritten > 0 {
            let n = self.unwritten;
            write!(f, "\n  {n} {} wrongly as before the run: not written?", elements(n))?;
        }
        if self.stray > 0 {
            let n = self.stray;
            write!(f, "\n  {n} {} should be as before the run: written by mistake?", elements(n))?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n  no tolerance could be derived: {note}")?;
        }
        Ok(())
    }
}

/// Compares what a buffer holds with what it should hold; `None` if that is within the tolerance.
pub fn compare(buffer: &Buffer, got: &[u8], wanted: &[u8]) -> Result<Option<Difference>, Error> {
    compare_within(buffer, got, wanted, None)
}

/// Like [`compare`], with bounds for a derived tolerance: the buffer's index in the case, and how many of the two
/// contents are not the interpreter's.
pub fn compare_within(
    buffer: &Buffer,
    got: &[u8],
    wanted: &[u8],
    bounds: Option<(&Bounds, usize, u8)>,
) -> Result<Option<Difference>, Error> {
    if got.len() != wanted.len() {
        let name = &buffer.name;
        return Err(Error::case(format!("buffer {name}: {} bytes are compared with {}", got.len(), wanted.len())));
    }
    if got == wanted || buffer.tolerance == Tolerance::Any {
        return Ok(None);
    }
    if let Tolerance::Sums { group, abs, rel } = buffer.tolerance {
        return compare_sums(buffer, got, wanted, group, Tolerance::Near { abs, rel });
    }
    let mut difference = Difference {
        buffer: buffer.name.clone(),
        tolerance: if bounds.is_none() { buffer.tolerance.without_bounds() } else { buffer.tolerance },
        count: 0,
        total: buffer.count,
        places: Vec::new(),
        largest: None,
        nmse: None,
        note: None,
        unwritten: 0,
        stray: 0,
    };
    let bounds = bounds.filter(|_| buffer.tolerance == Tolerance::Derived);
    let (mut error_squares, mut squares) = (0.0, 0.0);
    let size = number::size_of(buffer.element);
    for (index, (got, wanted)) in got.chunks_exact(size).zip(wanted.chunks_exact(size)).enumerate() {
        let index = index as u64;
        let pair = Pair::new(buffer, got, wanted);
        squares += pair.wanted.to_f64().powi(2);
        if pair.is_same() {
            continue;
        }
        let error = pair.error();
        error_squares += error.powi(2);
        let allowed = bounds.map_or(0.0, |(bounds, at, sides)| bounds.allowed(at, index as usize * size, size, sides));
        if pair.is_within(buffer.tolerance) || pair.is_apart_by(allowed) {
            continue;
        }
        difference.count += 1;
        if error.is_finite() && difference.largest.is_none_or(|(largest, _)| error > largest) {
            difference.largest = Some((error, index));
        }
        if difference.places.len() < PLACES {
            difference.places.push(Mismatch {
                index,
                row_column: buffer.row_stride.map(|stride| (index / stride, index % stride)),
                got: (pair.got, number::bits_of(got)),
                wanted: (pair.wanted, number::bits_of(wanted)),
                allowed,
            });
        }
    }
    let nmse = if error_squares == 0.0 { 0.0 } else { error_squares / squares };
    difference.nmse = number::is_float(buffer.element).then_some(nmse).filter(|nmse| !nmse.is_nan());
    let fine = match buffer.tolerance {
        // An error that is not a number is never small.
        Tolerance::Nmse(limit) => nmse <= limit,
        _ => difference.count == 0,
    };
    difference.note = bounds.and_then(|(bounds, ..)| bounds.why_not()).map(Into::into);
    Ok(if fine { None } else { Some(difference) })
}

impl Difference {
    /// Counts the elements that were not written, or should not have been, given what the buffer held before.
    pub(crate) fn trace(&mut self, buffer: &Buffer, got: &[u8], wanted: &[u8], before: &[u8]) {
        let size = number::size_of(buffer.element);
        for ((got, wanted), before) in
            got.chunks_exact(size).zip(wanted.chunks_exact(size)).zip(before.chunks_exact(size))
        {
            if got != wanted {
                self.unwritten += u64::from(got == before);
                self.stray += u64::from(wanted == before);
            }
        }
    }
}

/// Compares the sums of groups of elements as a buffer of their own, in `f64`.
fn compare_sums(
    buffer: &Buffer,
    got: &[u8],
    wanted: &[u8],
    group: u64,
    tolerance: Tolerance,
) -> Result<Option<Difference>, Error> {
    let sums = |bytes: &[u8]| -> Vec<u8> {
        let values = number::decode_all(buffer.element, bytes);
        let groups = values.chunks(usize::try_from(group).unwrap_or(usize::MAX));
        groups.flat_map(|group| group.iter().map(|value| value.to_f64()).sum::<f64>().to_le_bytes()).collect()
    };
    let (got, wanted) = (sums(got), sums(wanted));
    let element = coop_device::ComponentType::F64;
    let count = buffer.count.div_ceil(group);
    let sums = Buffer { element, count, row_stride: None, tolerance, ..buffer.clone() };
    Ok(compare(&sums, &got, &wanted)?.map(|difference| Difference { tolerance: buffer.tolerance, ..difference }))
}

struct Pair {
    got: Value,
    wanted: Value,
    ulps: u64,
}

impl Pair {
    fn new(buffer: &Buffer, got: &[u8], wanted: &[u8]) -> Pair {
        let ulps = ordinal(got).abs_diff(ordinal(wanted));
        Pair { got: number::decode(buffer.element, got), wanted: number::decode(buffer.element, wanted), ulps }
    }

    /// Returns true if the bits are the same or both values are NaN.
    fn is_same(&self) -> bool {
        match (self.got, self.wanted) {
            (Value::Float(got), Value::Float(wanted)) => {
                got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan()
            }
            (got, wanted) => got == wanted,
        }
    }

    fn error(&self) -> f64 {
        match (self.got, self.wanted) {
            (Value::Int(got), Value::Int(wanted)) => (got - wanted).unsigned_abs() as f64,
            (got, wanted) => (got.to_f64() - wanted.to_f64()).abs(),
        }
    }

    /// Returns true if these are two different numbers that are at most `allowed` apart.
    fn is_apart_by(&self, allowed: f64) -> bool {
        allowed == f64::INFINITY || allowed > 0.0 && self.error() <= allowed
    }

    fn is_within(&self, tolerance: Tolerance) -> bool {
        let error = self.error();
        match tolerance {
            // Only whole buffers are within such a tolerance or not.
            Tolerance::Derived | Tolerance::Exact | Tolerance::Nmse(_) | Tolerance::Sums { .. } => false,
            Tolerance::Any => true,
            _ if error.is_nan() || error.is_infinite() => false,
            Tolerance::Ulp(limit) => match self.got {
                Value::Float(_) => self.ulps <= limit,
                Value::Int(_) => error <= limit as f64,
            },
            Tolerance::Near { abs, rel } => error <= abs + rel * self.wanted.to_f64().abs(),
        }
    }
}

/// Maps a float's bits to integers such that neighbors differ by one and both zeros are 0.
fn ordinal(bytes: &[u8]) -> i64 {
    let sign = 1u64 << (bytes.len() * 8 - 1);
    let bits = number::bits_of(bytes);
    let magnitude = (bits & (sign - 1)) as i64;
    if bits & sign != 0 { -magnitude } else { magnitude }
}

impl Outcome {
    /// Returns the differences from what the case expects.
    pub fn check(&self, case: &Case) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for (index, wanted) in case.expected()? {
            let buffer = &case.buffer[index];
            let got = self.buffer(&buffer.name).unwrap_or_default();
            if let Some(mut difference) = compare(buffer, got, &wanted)? {
                difference.trace(buffer, got, &wanted, &case.contents(index, &|_| 0)?);
                differences.push(difference);
            }
        }
        Ok(differences)
    }

    /// Returns the differences from another outcome of the same case. Derived tolerances count as exact.
    pub fn compare(&self, other: &Outcome, case: &Case) -> Result<Vec<Difference>, Error> {
        self.compare_with(other, case, None)
    }

    /// Like [`compare`](Outcome::compare), with bounds for derived tolerances. `sides` is 1 if one of the outcomes is
    /// the interpreter's, else 2.
    pub fn compare_within(
        &self,
        other: &Outcome,
        case: &Case,
        bounds: &Bounds,
        sides: u8,
    ) -> Result<Vec<Difference>, Error> {
        self.compare_with(other, case, Some((bounds, sides)))
    }

    fn compare_with(
        &self,
        other: &Outcome,
        case: &Case,
        bounds: Option<(&Bounds, u8)>,
    ) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for (index, buffer) in case.buffer.iter().enumerate() {
            let ours = self.buffer(&buffer.name).unwrap_or_default();
            let theirs = other.buffer(&buffer.name).unwrap_or_default();
            let theirs = &*buffer.with_addresses_of(ours, theirs)?;
            let bounds = bounds.map(|(bounds, sides)| (bounds, index, sides));
            if let Some(mut difference) = compare_within(buffer, ours, theirs, bounds)? {
                difference.trace(buffer, ours, theirs, &case.contents(index, &|_| 0)?);
                differences.push(difference);
            }
        }
        Ok(differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use std::path::Path;

    fn buffer(kind: &str, count: u64, tolerance: &str) -> Buffer {
        let text = format!(
            "workgroups = [1, 1, 1]\n[[buffer]]\nname = \"D\"\ntype = \"{kind}\"\ncount = {count}\n\
             row-stride = 2\ntolerance = {tolerance}"
        );
        Case::parse(&text, Path::new("")).unwrap().buffer.remove(0)
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn differ(tolerance: &str, got: &[f32], wanted: &[f32]) -> Option<Difference> {
        compare(&buffer("f32", got.len() as u64, tolerance), &f32s(got), &f32s(wanted)).unwrap()
    }

    #[test]
    fn tolerances() {
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        for (tolerance, got, wanted, fine) in [
            ("'derived'", 1.0, 1.0, true),
            ("'derived'", next, 1.0, false),
            ("'exact'", 1.0, 1.0, true),
            ("'exact'", next, 1.0, false),
            ("'exact'", 0.0, -0.0, false),
            ("'exact'", f32::NAN, -f32::NAN, true),
            ("{ ulp = 1 }", next, 1.0, true),
            ("{ ulp = 0 }", next, 1.0, false),
            ("{ ulp = 0 }", -0.0, 0.0, true),
            ("{ ulp = 2 }", f32::from_bits(1), -f32::from_bits(1), true),
            ("{ ulp = 1000 }", f32::NAN, 1.0, false),
            ("{ ulp = 9999 }", f32::INFINITY, f32::MAX, false),
            ("{ abs = 0.5 }", 1.5, 1.0, true),
            ("{ abs = 0.5 }", 1.75, 1.0, false),
            ("{ rel = 0.5, abs = 0.1 }", -15.0, -10.0, true),
            ("{ abs = inf }", f32::INFINITY, 1.0, false),
            ("{ abs = inf }", f32::NAN, 1.0, false),
            ("{ nmse = 0.01 }", 10.5, 10.0, true),
            ("{ nmse = 0.001 }", 10.5, 10.0, false),
            ("{ nmse = 0.01 }", f32::NAN, 10.0, false),
            ("{ nmse = 0.01 }", f32::INFINITY, f32::INFINITY, true),
            ("{ nmse = 0.01 }", 1.0, 0.0, false),
        ] {
            assert_eq!(differ(tolerance, &[got], &[wanted]).is_none(), fine, "{tolerance} {got} {wanted}");
        }
    }

    #[test]
    fn integers_are_compared_as_integers() {
        let buffer = buffer("s8", 3, "{ ulp = 1 }");
        assert_eq!(compare(&buffer, &[0, 0xff, 5], &[0, 0, 6]).unwrap(), None);
        assert_eq!(compare(&buffer, &[0, 0xfe, 5], &[0, 0, 5]).unwrap().unwrap().count, 1);
        assert!(compare(&buffer, &[0], &[0, 1]).is_err());
    }

    #[test]
    fn sums_do_not_care_who_holds_what() {
        let tolerance = "{ sums-of = 2, abs = 0.5 }";
        assert_eq!(differ(tolerance, &[1.0, 2.0, 5.0], &[3.0, 0.75, 5.0]).map(|d| d.count), Some(1));
        assert_eq!(differ(tolerance, &[1.0, 2.0, 5.0], &[3.0, 0.0, 5.5]), None);
        assert_eq!(differ("'any'", &[f32::NAN], &[1.0]), None);
    }

    #[test]
    fn the_report_says_where_and_how_far() {
        let difference = differ("'exact'", &[1.0, 2.0, 3.0, 4.5], &[1.0, 2.25, 3.0, 4.0]).unwrap();
        let expected = "buffer D: 2 of 4 elements differ (tolerance: exact; nmse 1.006e-2); largest error 0.5 at [3]\n  \
                        [1] row 0, column 1: 2 (0x40000000) instead of 2.25 (0x40100000)\n  \
                        [3] row 1, column 1: 4.5 (0x40900000) instead of 4 (0x40800000)";
        assert_eq!(difference.to_string(), expected);
        let many = differ("'exact'", &[1.0; 40], &[2.0; 40]).unwrap().to_string();
        assert!(many.ends_with("and 32 more"), "{many}");
    }
}
