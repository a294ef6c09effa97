//! `--without`: the component types that a device lacks become software.

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

    /// Lowers the component types that the device lacks, in the output of a lowering. Returns true if there are any. If that is
    /// refused, and only the profile asks for it, the output stays as it is, which is said where `warn` is true.
    pub(crate) fn apply(
        &self,
        original: &Module,
        options: &Options<'_>,
        lowered: &mut Lowered,
        warn: bool,
    ) -> Result<bool, Error> {
        let lacks = self.lacks(options.profile);
        let notes = lowered.report.not_taken.len();
        let done = coopmat::fit::components(original, options, lowered, lacks, !self.is_empty())?;
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
