//! Looks for data for which two modules store values that are too far apart.

use coop_ir::Module;

use crate::bounds::Bounds;
use crate::case::Case;
use crate::error::Error;
use crate::executor::Outcome;
use crate::fill::{Fill, Plain, With};
use crate::interp::{Config, Fingerprints, Interpreted, Report};
use crate::number;
use crate::tolerance::Tolerance;

/// The seeds that are tried where expressions differ and values do not.
const SEEDS: u64 = 3;

/// How far apart the values are that two runs stored.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Distance {
    /// As near as the case asks.
    Agree,
    /// Farther than the tolerance of the case, in no element farther than two implementations of the original may be: the
    /// largest distance.
    WithinBounds(f64),
    /// Farther: the first difference.
    Beyond(String),
}

/// Returns how far apart the values are that two runs stored with a case's data. `same_decisions` is true if the second decides
/// nothing in another way than the first.
pub(crate) fn distance(
    config: Config,
    (module, case): (&Module, &Case),
    a: &Fingerprints,
    b: &Fingerprints,
    same_decisions: bool,
) -> Result<Distance, Error> {
    let outcomes = [a, b].map(|side| Interpreted::outcome(side.memory.clone(), &Report::default()));
    apart(config, (module, case), outcomes, same_decisions)
}

/// Returns how far apart two outcomes are.
fn apart(
    config: Config,
    (module, case): (&Module, &Case),
    [wanted, got]: [Outcome; 2],
    same_decisions: bool,
) -> Result<Distance, Error> {
    if got.compare(&wanted, case)?.is_empty() {
        return Ok(Distance::Agree);
    }
    let derive = if same_decisions { Bounds::of_same_decisions } else { Bounds::derive };
    let bounds = derive(module, case, config);
    let found = got.compare_within(&wanted, case, &bounds, 2)?;
    if found.is_empty() {
        return Ok(Distance::Agree);
    }
    // The tolerance of a whole buffer knows nothing of the number of terms in a sum, nor of their magnitudes.
    let mut derived = case.clone();
    for buffer in derived.buffer.iter_mut().filter(|b| matches!(b.tolerance, Tolerance::Nmse(_))) {
        buffer.tolerance = Tolerance::Derived;
    }
    let largest = found.iter().filter_map(|difference| difference.largest).map(|(error, _)| error);
    Ok(match got.compare_within(&wanted, &derived, &bounds, 2)?.first() {
        None => Distance::WithinBounds(largest.fold(0.0, f64::max)),
        Some(beyond) => Distance::Beyond(beyond.to_string()),
    })
}

/// A kind of data that is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tried {
    /// That of the case, with another seed.
    OfCase,
    /// Numbers that fill their formats.
    Digits,
    /// Numbers of all orders of magnitude, the least and the greatest integers among them.
    Magnitudes,
}

/// Looks for other data for which two modules store other values: of the case's kind, within its tolerances; and numbers with
/// many digits and of all magnitudes, within the bounds that are derived from the original. What one rounding does is less than the
/// tolerance of many a case, and to small integers it does nothing; what saturates, and what another format does not hold, is seen
/// at the ends of the ranges only.
pub(crate) fn find(
    interpreted: &Interpreted,
    (module, case): (&Module, &Case),
    (lowered, asked): (&Module, &Case),
    data: &[bool],
) -> Result<Option<String>, Error> {
    let all = [Tried::OfCase, Tried::Digits, Tried::Magnitudes];
    for (seed, tried) in (1..=SEEDS).flat_map(|seed| all.map(|tried| (seed, tried))) {
        let [one, other] = [case, asked].map(|case| {
            let mut other = Case { seed: case.seed.wrapping_add(seed), ..case.clone() };
            for (index, buffer) in other.buffer.iter_mut().enumerate().filter(|(index, _)| !data[*index]) {
                buffer.seed = Some(case.buffer_seed(index));
            }
            if tried == Tried::OfCase { other } else { filled(other, data, tried) }
        });
        // Other data may make a run long, or lead it to what the interpreter lacks: that shows nothing.
        let Ok((wanted, report)) = interpreted.run_module(module, &one) else { continue };
        if report.is_undefined() {
            continue;
        }
        let Ok((got, report)) = interpreted.run_module(lowered, &other) else { continue };
        if report.is_undefined() {
            return Ok(Some(format!("with the seed {} the lowered module has undefined behaviour", one.seed)));
        }
        let outcomes = [wanted, got].map(|memory| Interpreted::outcome(memory, &Report::default()));
        let found = match tried {
            Tried::Digits | Tried::Magnitudes => beyond_bounds(interpreted.config, module, &one, outcomes)?,
            Tried::OfCase => match apart(interpreted.config, (module, &one), outcomes, false)? {
                Distance::Beyond(found) => Some(found),
                Distance::Agree | Distance::WithinBounds(_) => None,
            },
        };
        if let Some(found) = found {
            let data = match tried {
                Tried::OfCase => "the seed",
                Tried::Digits => "numbers with many digits and the seed",
                Tried::Magnitudes => "numbers of all magnitudes and the seed",
            };
            return Ok(Some(format!("with {data} {}: {found}", one.seed)));
        }
    }
    Ok(None)
}

/// Returns a case with numbers that fill their formats, or of all magnitudes, where it has small ones, and with the tolerances that
/// are derived.
fn filled(mut case: Case, data: &[bool], tried: Tried) -> Case {
    for (buffer, is_data) in case.buffer.iter_mut().zip(data) {
        if !matches!(buffer.tolerance, Tolerance::Any | Tolerance::Sums { .. }) {
            buffer.tolerance = Tolerance::Derived;
        }
        let range = match &buffer.fill {
            _ if !is_data => None,
            Fill::Plain(Plain::SmallInts | Plain::HalfIntegers) => Some((-4.0, 4.0)),
            Fill::With(With::SmallInts(low, high)) => Some((*low as f64, *high as f64)),
            Fill::With(With::HalfIntegers(low, high)) => Some((*low, *high)),
            Fill::Plain(Plain::Uniform) | Fill::With(With::Uniform(..)) if tried == Tried::Magnitudes => {
                Some((-1.0, 1.0))
            }
            _ => None,
        };
        let Some((low, high)) = range else { continue };
        buffer.fill = match tried {
            Tried::Magnitudes => Fill::Plain(Plain::Magnitudes),
            _ if number::is_float(buffer.element) => Fill::With(With::Uniform(low, high)),
            _ => Fill::Plain(Plain::Uniform),
        };
    }
    case
}

/// Returns the first difference that no implementation of the original may have: the other outcome is the interpreter's, too.
fn beyond_bounds(
    config: Config,
    module: &Module,
    case: &Case,
    [wanted, got]: [Outcome; 2],
) -> Result<Option<String>, Error> {
    let bounds = Bounds::derive(module, case, config);
    if bounds.why_not().is_some() {
        return Ok(None);
    }
    let known = |difference: &crate::Difference| difference.places.iter().any(|place| !place.allowed.is_nan());
    let found = got.compare_within(&wanted, case, &bounds, 1)?;
    Ok(found.iter().find(|difference| known(difference)).map(ToString::to_string))
}
