//! `--without` and `--excess-precision`: the component types that a device lacks become software.

use clap::Args;
use coop_components::Lacks;
use coop_device::{Feature, Profile};
use coop_ir::Module;
use coop_ir::nearest::{DidYouMean, nearest};
use coop_passes::{Error, Lowered, Options};

use crate::io;

/// The features that the device lacks.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WithoutArgs {
    /// Features that the device lacks, by commas, besides those that its profile lacks: the types that need them become software
    #[arg(long, value_delimiter = ',', value_name = "FEATURE", value_parser = parse_lack)]
    without: Vec<Feature>,
    /// Arithmetic with f16 that the device lacks keeps the precision of f32 until its results are stored: faster, and not the same bits
    #[arg(long)]
    excess_precision: bool,
}

impl WithoutArgs {
    /// Returns true if no feature is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.without.is_empty()
    }

    /// Returns what a device lacks: the features that are named, and those that its profile lacks.
    pub(crate) fn lacks(&self, profile: Option<&Profile>) -> Lacks {
        let said = self.without.iter().filter_map(|f| Lacks::without(*f)).fold(Lacks::default(), Lacks::and);
        profile.map_or(said, |profile| Lacks::of(profile).and(said))
    }

    /// Returns the options of the lowering of component types, with the limits of another.
    pub(crate) fn options(&self, options: &Options<'_>) -> coop_components::Options {
        coop_components::Options {
            lacks: self.lacks(options.profile),
            excess_precision: self.excess_precision,
            most_instructions: options.most_instructions,
            deadline: options.deadline,
        }
    }

    /// Lowers the component types that the device lacks, in the output of a lowering. Returns true if there are any. If that is
    /// refused, and only the profile asks for it, the output stays as it is, which is said where `warn` is true.
    pub(crate) fn apply(
        &self,
        original: &Module,
        options: &Options<'_>,
        lowered: &mut Lowered,
        warn: bool,
    ) -> Result<bool, Error> {
        let notes = lowered.report.not_taken.len();
        let done = coopmat::fit::components(original, &self.options(options), lowered, !self.is_empty())?;
        if warn {
            lowered.report.not_taken.iter().skip(notes).for_each(|note| io::error(&format!("warning: no {note}")));
        }
        Ok(done)
    }
}

/// A feature that can be done without.
fn parse_lack(text: &str) -> Result<Feature, String> {
    let known = || Lacks::FEATURES.iter().map(|f| f.name());
    let feature = Feature::from_name(text).filter(|f| Lacks::FEATURES.contains(f));
    feature.ok_or_else(|| {
        let meant = DidYouMean(nearest(text, known()));
        format!(
            "no lowering does without it; those that can be lacking: {}{meant}",
            known().collect::<Vec<_>>().join(", ")
        )
    })
}
