//! The passes of `coop-components` for `cooplower`: by a lowering, and alone.

use coop_components::{Lacks, PASSES};
use coop_ir::{Module, binary};
use coop_passes::{Cause, Error, Lowered, Options, Refusal, Report, Timing};
use std::time::Instant;

/// Returns true if a pass is one of component types.
pub(crate) fn has(name: &str) -> bool {
    PASSES.iter().any(|pass| pass.name == name)
}

/// Returns a module of which nothing was lowered yet, for passes of component types alone.
pub(crate) fn unlowered(module: &Module, options: &Options<'_>) -> Lowered {
    let mut report = Report::default();
    report.target = options.target.to_string();
    report.profile = options.profile.map(|profile| profile.name.clone());
    report.size.input = binary::word_count(module) * 4;
    Lowered { module: module.clone(), report }
}

/// Runs those of the named passes that are of component types, behind a lowering. Without a word of what the device lacks, it lacks
/// all that they do without. `after` sees the module after each.
pub(crate) fn run(
    names: &[String],
    mut lowered: Lowered,
    mut options: coop_components::Options,
    after: &mut dyn FnMut(&str, &Module),
) -> Result<Lowered, Error> {
    if !names.iter().any(|name| has(name)) {
        return Ok(lowered);
    }
    let all = Lacks::all;
    if options.lacks.is_empty() {
        options.lacks = all();
    }
    for (number, pass) in PASSES.iter().enumerate() {
        if !names.iter().any(|name| name == pass.name) {
            lowered.report.skipped_passes.push(pass.name);
            continue;
        }
        let start = Instant::now();
        let done = coop_components::run(&lowered.module, [pass], &options).map_err(|error| match error {
            coop_components::Error::Bug { pass, message } => Error::Bug { pass, message },
            coop_components::Error::Refused(refusal) => {
                let coop_components::Refusal { rule, at, reason, remedy } = *refusal;
                Error::from(Refusal { rule, at, reason, remedy, cause: Cause::Other })
            }
        })?;
        lowered.module = done.module;
        lowered.report.changed = true;
        lowered.report.passes.push(Timing { pass: pass.name, micros: start.elapsed().as_micros() as u64 });
        after(&format!("{number:02}-{}", pass.name), &lowered.module);
    }
    lowered.report.size.output = binary::word_count(&lowered.module) * 4;
    Ok(lowered)
}
