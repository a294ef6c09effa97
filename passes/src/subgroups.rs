//! Chooses the subgroup sizes to lower for, and checks that a pipeline can require the chosen one.

use crate::kernel;
use crate::matrix::lanes;
use crate::report::{SizeSource, SubgroupSize, Warning};
use crate::{Cause, Lanes, Options, Refusal, Report};
use coop_device::subgroup::{SpecializedFor, specialized_for};
use coop_device::{Limits, Profile};
use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, entry_points};
use coop_ir::hash::FxHashMap;
use coop_ir::types::{Type, natural_size};
use coop_ir::{Id, InstRef, Module, Op};

/// The id of the refusal of a size.
const RULE: &str = "refused-subgroup-size";

fn misfit(at: Option<InstRef>, reason: String, remedy: impl Into<String>) -> Refusal {
    Refusal::new(RULE, at, reason, remedy).caused_by(Cause::SubgroupSize)
}

/// The most invocations of a subgroup of a kernel.
const MOST_OF_KERNELS: u32 = 1024;

/// The candidate subgroup sizes, before anything is lowered.
pub(crate) struct Subgroups {
    /// In the order in which to try them; empty if no size is given.
    pub(crate) sizes: Vec<SubgroupSize>,
    specialised: Option<SpecializedFor>,
}

impl Subgroups {
    /// Collects the candidates: the kernel's, the options', that of the module's specialization, the profile's. Where
    /// no source is binding, `sizes` continues with the other sizes of the device.
    pub(crate) fn new(module: &Module, options: &Options<'_>, to_shaders: bool) -> Result<Subgroups, Refusal> {
        let own = kernel::subgroup_size(module);
        if let Some(size) = own
            && !(1..=MOST_OF_KERNELS).contains(&size)
        {
            let why = format!("the kernel asks for subgroups of {size}");
            return Err(misfit(None, why, format!("ask for a size of 1 to {MOST_OF_KERNELS}")));
        }
        if let Some(size) = options.subgroup_size
            && !(size.is_power_of_two() && size <= Limits::MAX_SUBGROUP_SIZE)
        {
            let why = format!("there are no subgroups of {size} invocations");
            let remedy = format!("give a size of 1, 2, 4, ... or {}", Limits::MAX_SUBGROUP_SIZE);
            return Err(misfit(None, why, remedy));
        }
        let looks = !options.assume_any_subgroup_size;
        let specialised = looks.then(|| specialized_for(module, &options.spec, options.spec_defaults)).flatten();
        let of = |size, source| SubgroupSize { size, source };
        let own = own.map(|size| of(size, SizeSource::Kernel));
        let given = options.subgroup_size.map(|size| of(size, SizeSource::Given));
        // The size that a kernel requires is binding: its indices depend on it. A shader made from it may require
        // another.
        let said = if to_shaders { given.or(own) } else { own.or(given) };
        let sizes = match (said, options.profile) {
            (Some(said), _) => vec![said],
            (None, Some(profile)) => {
                let invocations = if options.lanes == Lanes::LocalIndex { invocations(module, options) } else { None };
                from_profile(profile, options.lanes, invocations, specialised.as_ref())
            }
            (None, None) => Vec::new(),
        };
        Ok(Subgroups { sizes, specialised })
    }

    /// Makes an empty set of candidates, for modules that do not depend on subgroups.
    pub(crate) fn none() -> Subgroups {
        Subgroups { sizes: Vec::new(), specialised: None }
    }

    /// Reports the chosen size and what the pipeline must require, if the output depends on it.
    pub(crate) fn report(&self, chosen: Option<SubgroupSize>, lanes: Lanes, report: &mut Report) {
        let Some(chosen) = chosen.filter(|_| report.required_subgroup_size.is_some() || report.counts_subgroups) else {
            return;
        };
        report.subgroup_size = Some(chosen);
        let size = chosen.size;
        let depends = match lanes {
            Lanes::Subgroup => format!("the pipeline must require a subgroup size of {size}"),
            Lanes::LocalIndex => format!("each {size} consecutive invocations stand for a subgroup"),
        };
        let sign =
            self.specialised.as_ref().map(|s| format!("SpecId {} is {}, and the module {}", s.spec_id, s.size, s.sign));
        let remedy =
            "give the size that the pipeline requires: --subgroup-size N, in the library Options::subgroup_size";
        match chosen.source {
            SizeSource::Kernel | SizeSource::Given => {}
            SizeSource::Profile => report.warnings.push(Warning {
                id: "subgroup-size-assumed",
                message: format!("{depends}, which is the profile's: no option gives it"),
                remedy: remedy.to_owned(),
            }),
            SizeSource::Workgroup => report.warnings.push(Warning {
                id: "subgroup-size-assumed",
                message: format!("{depends}: the workgroup has no whole subgroups of the size that is the profile's"),
                remedy: remedy.to_owned(),
            }),
            // The device has no other size.
            SizeSource::SpecializedFor if self.sizes.len() == 1 => {}
            SizeSource::SpecializedFor => report.warnings.push(Warning {
                id: "subgroup-size-assumed",
                message: format!("{depends}, which is taken from the module: {}", sign.clone().unwrap_or_default()),
                remedy: remedy.to_owned(),
            }),
        }
        if let (Some(specialised), Some(sign)) = (&self.specialised, sign)
            && specialised.size != size
        {
            report.warnings.push(Warning {
                id: "subgroup-size-specialised",
                message: format!("the module is specialised for another subgroup size than {size}: {sign}"),
                remedy: format!("pass --spec {}={size}, or --subgroup-size {}", specialised.spec_id, specialised.size),
            });
        }
    }
}

/// Returns the sizes to try on a device: the one that the module is specialized for if the device has it, the device's
/// default, the others from the largest on.
///
/// `invocations`: those of a workgroup, if subgroups are parts of it that need not be the device's.
fn from_profile(
    profile: &Profile,
    lanes: Lanes,
    invocations: Option<u32>,
    specialised: Option<&SpecializedFor>,
) -> Vec<SubgroupSize> {
    let of = |size, source| SubgroupSize { size, source };
    let own = profile.limits.subgroup_size;
    if let (Some(n), None) = (invocations.filter(|n| *n > 0 && !n.is_multiple_of(own)), specialised) {
        return vec![of(1 << n.trailing_zeros(), SizeSource::Workgroup)];
    }
    let has = profile.subgroup_sizes();
    let meant = specialised.map(|s| s.size).filter(|size| lanes == Lanes::LocalIndex || has.contains(size));
    let mut sizes: Vec<SubgroupSize> = meant.map(|size| of(size, SizeSource::SpecializedFor)).into_iter().collect();
    let others = has.into_iter().rev().filter(|size| *size != own && lanes == Lanes::Subgroup);
    for size in std::iter::once(own).chain(others) {
        if sizes.iter().all(|s| s.size != size) {
            sizes.push(of(size, SizeSource::Profile));
        }
    }
    sizes
}

/// Returns the invocations of a workgroup, if they are known and the same for all entry points to lower for.
fn invocations(module: &Module, options: &Options<'_>) -> Option<u32> {
    let constants = Constants::new(module, &options.spec);
    let known = |c: Const| if options.spec_defaults { c.value() } else { c.fixed() };
    let entries = entry_points(module, &Decorations::new(module)).into_iter();
    let mut entries = entries.filter(|entry| options.entry.as_ref().is_none_or(|name| *name == entry.name));
    let of = |entry: EntryPoint| {
        let size = entry.workgroup_size?.values(&constants);
        size.into_iter().try_fold(1u32, |n, extent| n.checked_mul(u32::try_from(known(extent)?).ok()?))
    };
    let first = of(entries.next()?)?;
    entries.all(|entry| of(entry) == Some(first)).then_some(first)
}

/// Refuses an output that needs full subgroups which its pipeline can't have.
pub(crate) fn check(output: &Module, options: &Options<'_>, report: &Report) -> Result<(), Refusal> {
    let Some(size) = report.required_subgroup_size.filter(|_| !kernel::is_kernel(output)) else { return Ok(()) };
    let permitted = options.profile.map(|p| (p, p.subgroup_sizes()));
    if let Some((profile, sizes)) = permitted.as_ref().filter(|(_, sizes)| !sizes.contains(&size)) {
        let why = format!("{} has no subgroups of {size} that a pipeline can require", profile.name);
        return Err(misfit(None, why, format!("require {}", list(sizes))));
    }
    // Specialization constants have the values that were given for them.
    let constants = Constants::new(output, &options.spec);
    let known = |c: Const| if options.spec_defaults { c.value() } else { c.fixed() };
    for entry in entry_points(output, &Decorations::new(output)) {
        let Some(workgroup) = entry.workgroup_size else { continue };
        let [x, y, z] = workgroup.values(&constants).map(known);
        let Some(x) = x else { continue };
        let at = Some(workgroup.at);
        if !x.is_multiple_of(u64::from(size)) {
            let why = format!(
                "the output needs full subgroups of {size}, and x of the workgroup size of {}, {x}, is not a multiple of that",
                entry.name
            );
            return Err(misfit(at, why, other_size(x, permitted.as_ref().map(|(_, sizes)| sizes.as_slice()))));
        }
        if let (Some((profile, _)), Some(y), Some(z)) = (&permitted, y, z) {
            enough_subgroups(profile, at, [x, y, z], size)?;
        }
    }
    Ok(())
}

fn enough_subgroups(profile: &Profile, at: Option<InstRef>, extents: [u64; 3], size: u32) -> Result<(), Refusal> {
    let most = u64::from(profile.limits.max_compute_workgroup_subgroups);
    let subgroups = extents.into_iter().fold(1, u64::saturating_mul) / u64::from(size);
    if most == 0 || subgroups <= most {
        return Ok(());
    }
    let why = format!("{subgroups} subgroups of {size} in a workgroup; {} has up to {most}", profile.name);
    Err(misfit(at, why, "require larger subgroups, or make the workgroup smaller"))
}

/// Returns true if what the module does may depend on the size of its subgroups. Scalar code for lanes by local index does not.
pub fn depends_on_subgroups(module: &Module) -> bool {
    lanes::depends_on_subgroups(module)
}

/// The memory that functions of a module have for arrays: variables, and arrays that come along several ways. Of the function with the most, in registers of
/// 32 bits for each invocation.
pub fn registers_of_arrays(module: &Module) -> u64 {
    let constants = Constants::new(module, &Specialization::new());
    let mut known: FxHashMap<Id, u64> = FxHashMap::default();
    let mut of = |ty: Id| {
        let size = || natural_size(module, &constants, ty).map_or(0, |(bytes, _)| bytes.div_ceil(4));
        *known.entry(ty).or_insert_with(size)
    };
    let mut most = 0;
    for function in &module.functions {
        let mut sum = 0u64;
        for inst in function.insts().map(|r| module.inst(r)) {
            let held = match inst.op {
                Op::Variable => inst.ty.and_then(|ty| pointee(module, ty)),
                Op::Phi => {
                    inst.ty.filter(|ty| matches!(Type::of(module, *ty), Some(Type::Array { .. } | Type::Struct { .. })))
                }
                _ => None,
            };
            sum = sum.saturating_add(held.map_or(0, &mut of));
        }
        most = most.max(sum);
    }
    most
}

/// Returns the remedy if x is not a multiple of the subgroup size.
fn other_size(x: u64, permitted: Option<&[u32]>) -> String {
    let local = "--lanes local-index needs no full subgroups";
    let divides = |size: &u32| x.is_multiple_of(u64::from(*size));
    let fits: Vec<u32> = match permitted {
        Some(sizes) => sizes.iter().copied().filter(divides).collect(),
        None => (0..8).map(|n| 1 << n).filter(|n| *n > 1).filter(divides).collect(),
    };
    match fits.as_slice() {
        [] => format!("make x a multiple of the subgroup size; {local}"),
        fits => format!("require {}, or make x a multiple of the subgroup size; {local}", list(fits)),
    }
}

/// Formats sizes: `--subgroup-size 8, 16 or 32`.
fn list(sizes: &[u32]) -> String {
    let words: Vec<String> = sizes.iter().map(u32::to_string).collect();
    let text = match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    };
    format!("--subgroup-size {text}")
}

/// Returns the type that pointers of a type point to.
fn pointee(module: &Module, ty: Id) -> Option<Id> {
    match Type::of(module, ty)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}
