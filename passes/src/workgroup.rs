//! Computes the workgroup sizes of a module.

use crate::Refusal;
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, entry_points};
use coop_ir::{InstRef, Module};
use std::collections::BTreeSet;

/// The workgroup size of a module's entry points.
#[derive(Clone, Debug)]
pub(crate) struct Workgroup {
    /// The number of invocations, if it is known and the same for all entry points.
    pub(crate) invocations: Option<u32>,
    /// The largest number of invocations, if all are known.
    pub(crate) most: Option<u32>,
    /// The greatest common divisor of x of all of them, if it is known.
    divides_x: Option<u32>,
    /// The reason why `invocations` is not known, and the remedy.
    unknown: (String, String),
}

impl Workgroup {
    pub(crate) fn new(m: &Module, constants: &Constants) -> Workgroup {
        let entries = entry_points(m, &Decorations::new(m));
        let sizes: Vec<Option<u32>> = entries.iter().map(|e| invocations(e, constants)).collect();
        let known: Option<Vec<u32>> = sizes.into_iter().collect();
        let same = known.as_ref().and_then(|all| all.first().copied().filter(|s| all.iter().all(|o| o == s)));
        let x = |e: &EntryPoint| e.workgroup_size?.values(constants)[0].fixed().and_then(|x| u32::try_from(x).ok());
        let divides_x = entries.iter().map(x).try_fold(0, |all, x| Some(greatest_divisor(all, x?)));
        Workgroup {
            invocations: same,
            most: known.as_ref().and_then(|all| all.iter().copied().max()),
            divides_x: divides_x.filter(|_| !entries.is_empty()),
            unknown: unknown(&entries, constants, known.is_some()),
        }
    }

    /// Returns true if every workgroup consists of full subgroups of a size.
    pub(crate) fn has_full_subgroups(&self, size: u32) -> bool {
        self.divides_x.is_some_and(|x| x.is_multiple_of(size))
    }

    /// Refuses a module whose number of invocations must be known.
    pub(crate) fn refusal(&self, at: Option<InstRef>) -> Refusal {
        let (why, remedy) = self.unknown.clone();
        Refusal::new("refused-unknown-size", at, why, remedy)
    }
}

/// Returns the reason why the number of invocations is not known, or not the same for all entry points.
fn unknown(entries: &[EntryPoint], constants: &Constants, known: bool) -> (String, String) {
    let [first, ..] = entries else {
        return ("the module has no entry point that says the size of a workgroup".into(), "link it first".into());
    };
    if known {
        let sizes: Vec<String> = entries.iter().map(|e| format!("{} has {}", e.name, extents(e, constants))).collect();
        let why = format!("entry points with workgroups of different sizes: {}", sizes.join(", "));
        return (why, format!("lower for one of them at a time: --entry {}", first.name));
    }
    let sizes = entries.iter().filter_map(|e| e.workgroup_size);
    let values: Vec<_> = sizes.flat_map(|s| s.values(constants)).collect();
    let specs: BTreeSet<u32> = values.iter().filter_map(|v| v.specs()).flat_map(|s| s.iter()).collect();
    if specs.is_empty() {
        let why = "the module does not declare the workgroup size".to_owned();
        return (why, "give it a LocalSize; for kernels, --local-size X,Y,Z".to_owned());
    }
    let give: Vec<String> = specs.iter().map(|id| format!("--spec {id}=..")).collect();
    let why = "the workgroup size depends on spec constants without a given value".to_owned();
    (why, format!("pass what the pipeline uses: {}; or --spec-defaults", give.join(" ")))
}

/// Formats a workgroup size: `64x2x1`.
fn extents(entry: &EntryPoint, constants: &Constants) -> String {
    let values = entry.workgroup_size.map(|s| s.values(constants).map(|v| v.to_string()));
    values.map_or_else(|| "none".to_owned(), |v| v.join("x"))
}

fn greatest_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the number of invocations of a workgroup of an entry point, if it is known.
fn invocations(entry: &EntryPoint, constants: &Constants) -> Option<u32> {
    let size = entry.workgroup_size?.values(constants);
    size.iter().try_fold(1u32, |n, s| n.checked_mul(u32::try_from(s.fixed()?).ok()?))
}
