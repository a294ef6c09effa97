//! The passes in order, and the one loop that runs them.

use crate::decorations::Bindings;
use crate::subgroups::Subgroups;
#[cfg(feature = "kernels")]
use crate::vulkan;
use crate::{
    Cause, Error, Lowered, Options, Refusal, Report, Size, SubgroupSize, Target, Timing, bfloat16, capabilities,
    cleanup, decorations, device, dialect, emulate, entry, fold, inline, input_blocks, kernel, private, shared_order,
    specialize, subgroups, tensor, to_scalar, to_tiles, typed_pointers, visibility,
};
use coop_device::Feature;
use coop_ir::grammar::implied_capabilities;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{Capability, Decoration};
use coop_ir::{Id, Inst, InstRef, Module, Op, binary};
use std::sync::OnceLock;
use std::time::Instant;

/// The context of a pass: what it works with besides the module.
pub(crate) struct PassCx<'a> {
    pub(crate) options: &'a Options<'a>,
    pub(crate) report: &'a mut Report,
    /// The bound of the input's ids. What is not below it was made by passes, and no instruction beyond the grammar can mean it.
    pub(crate) bound: u32,
    /// The capabilities that the input declares itself.
    pub(crate) declared: &'a [Capability],
    /// The bindings that the input chooses with a NonUniform index.
    pub(crate) non_uniform: Bindings,
}

impl PassCx<'_> {
    /// Refuses to go on where a limit of the options is reached.
    pub(crate) fn within_limits(&self, m: &Module, at: Option<InstRef>) -> Result<(), Refusal> {
        within_limits(m, self.options, at)
    }
}

/// Runs a pass with a wish, and without it on what the module was before if there is too little shared memory.
pub(crate) fn with_or_without(
    m: &mut Module,
    cx: &mut PassCx<'_>,
    pass: fn(&mut Module, &mut PassCx<'_>, bool) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let before = (m.clone(), cx.report.clone());
    match pass(m, cx, true) {
        Err(refusal) if refusal.cause == Cause::OutOfSharedMemory => {
            (*m, *cx.report) = before;
            pass(m, cx, false)
        }
        done => done,
    }
}

fn within_limits(m: &Module, options: &Options<'_>, at: Option<InstRef>) -> Result<(), Refusal> {
    if m.is_full() {
        return Err(too_many(m, at));
    }
    if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        let why = "the time for lowering is over";
        return Err(Refusal::new("refused-limit", at, why, "give it more time: in the library, Options::deadline"));
    }
    Ok(())
}

/// The refusal of an output with too many instructions.
pub(crate) fn too_many(m: &Module, at: Option<InstRef>) -> Refusal {
    let why = format!("lowered, the module has more than {} instructions", m.most());
    let remedy = "use smaller matrices, or fewer functions that take them; in the library, Options::most_instructions";
    Refusal::new("refused-limit", at, why, remedy)
}

/// A pass: module in, module out.
pub struct Pass {
    /// Its name on the command line.
    pub name: &'static str,
    /// A summary in a line.
    pub summary: &'static str,
    /// The targets that it is run for.
    pub targets: &'static [Target],
    /// Tells the opcodes that no module has after it, if there are such.
    pub removes: Option<fn(Op) -> bool>,
    run: fn(&mut Module, &mut PassCx<'_>) -> Result<(), Refusal>,
}

/// Every pass, in the order in which they run.
pub static PASSES: &[Pass] = &[
    Pass {
        name: "entry",
        summary: "keep the entry point that is lowered for, where the options name one; drop debug information for OpenCL",
        targets: Target::ALL,
        removes: None,
        run: entry::run,
    },
    Pass {
        name: "captures",
        summary: "pass by value what per-element operations pass by value to functions that take a pointer",
        targets: Target::ALL,
        removes: None,
        run: |m, _| {
            coop_ir::captures::take_as_passed(m);
            Ok(())
        },
    },
    Pass {
        name: "input-blocks",
        summary: "replace blocks of built-in variables by a variable for each member",
        targets: Target::ALL,
        removes: None,
        run: input_blocks::run,
    },
    Pass {
        name: "capabilities",
        summary: "declare the capabilities that declared ones imply",
        targets: Target::ALL,
        removes: None,
        run: capabilities::run,
    },
    Pass {
        name: "decorations",
        summary: "replace decoration groups, and drop decorations that do not hold for parts of a matrix",
        targets: Target::ALL,
        removes: Some(|op| op == Op::GroupDecorate || op == Op::GroupMemberDecorate),
        run: decorations::run,
    },
    Pass {
        name: "specialize",
        summary: "replace the constants that matrices depend on by their values",
        targets: Target::ALL,
        removes: None,
        run: specialize::run,
    },
    Pass {
        name: "fold",
        summary: "fold constants and branches on them, and remove unreachable code",
        targets: Target::ALL,
        removes: None,
        run: fold::run,
    },
    Pass {
        name: "private",
        summary: "promote private memory of OpenCL kernels to values, whatever pointers access it",
        targets: Target::ALL,
        removes: None,
        run: private::run,
    },
    #[cfg(feature = "kernels")]
    Pass {
        name: "vulkan",
        summary: "turn OpenCL kernels into Vulkan compute shaders, if requested",
        targets: Target::ALL,
        removes: None,
        run: vulkan::run,
    },
    Pass {
        name: "inline",
        summary: "inline functions that take or return matrices, tensor layouts or views",
        targets: Target::ALL,
        removes: None,
        run: inline::run,
    },
    Pass {
        name: "pointees",
        summary: "give pointers without a type that of what they point to",
        targets: Target::ALL,
        removes: None,
        run: typed_pointers::run,
    },
    Pass {
        name: "kernel",
        summary: "access the matrices of OpenCL kernels through pointers to their component type",
        targets: Target::ALL,
        removes: None,
        run: kernel::run,
    },
    Pass {
        name: "dialect",
        summary: "rewrite other dialects into KHR and NV2 instructions",
        targets: Target::ALL,
        removes: Some(|op| {
            op.is_nv_matrix_instruction() || op.is_intel_matrix_instruction() || op.is_qcom_conversion()
        }),
        run: dialect::run,
    },
    Pass {
        name: "visibility",
        summary: "make shared memory visible by barriers instead of by each access",
        targets: Target::ALL,
        removes: None,
        run: visibility::run,
    },
    Pass {
        name: "tensor",
        summary: "rebuild the layout and the view of each tensor load and store in front of it, from plain numbers",
        targets: Target::ALL,
        removes: None,
        run: tensor::run,
    },
    Pass {
        name: "emulate",
        summary: "emulate subgroups of a size that the device does not support, if lanes come from the local invocation index",
        targets: &[Target::Scalar],
        removes: None,
        run: emulate::run,
    },
    Pass {
        name: "scalar",
        summary: "replace cooperative matrices by arrays of the elements that each invocation owns",
        targets: &[Target::Scalar],
        removes: Some(Op::is_matrix_instruction),
        run: to_scalar::run,
    },
    Pass {
        name: "tiles",
        summary: "replace cooperative matrices by arrays of matrices that the device supports",
        targets: &[Target::Khr],
        removes: Some(Op::is_extended_matrix_instruction),
        run: to_tiles::run,
    },
    Pass {
        name: "tiles-ext",
        summary: "as tiles, and keep the instructions of SPV_EXT_cooperative_matrix_maintenance1 that the device supports",
        targets: &[Target::Ext],
        removes: Some(|op| op.is_tensor_access() || op == Op::CooperativeMatrixTransposeNV),
        run: to_tiles::run,
    },
    Pass {
        name: "pointers",
        summary: "inline generated functions that receive pointers which can't be passed",
        targets: Target::ALL,
        removes: None,
        run: inline::given_pointers,
    },
    Pass {
        name: "bfloat16",
        summary: "replace bfloat16 by 16-bit integers and arithmetic on them if the device lacks the type",
        targets: Target::ALL,
        removes: None,
        run: bfloat16::run,
    },
    Pass {
        name: "cleanup",
        summary: "remove unused capabilities, extensions, types and constants",
        targets: Target::ALL,
        removes: None,
        run: cleanup::run,
    },
    Pass {
        name: "non-uniform",
        summary: "decorate pointers into bindings that the input chooses with a NonUniform index",
        targets: Target::ALL,
        removes: None,
        run: decorations::keep_non_uniform,
    },
    Pass {
        name: "shared-order",
        summary: "declare shared memory whose size is a multiple of 16 bytes last: a driver aligns it by what is declared behind it",
        targets: &[Target::Khr, Target::Ext],
        removes: None,
        run: shared_order::run,
    },
];

/// The passes for modules without matrices, which have types that a device lacks.
const OF_TYPES: [&str; 8] =
    ["entry", "captures", "input-blocks", "capabilities", "decorations", "bfloat16", "cleanup", "non-uniform"];

/// The types that make a module one to lower.
const MATRIX_TYPES: [Op; 2] = [Op::TypeCooperativeMatrixKHR, Op::TypeCooperativeMatrixNV];

/// Lowers a module. One without matrices comes back as it is, unless it has bfloat16 and the profile has not; one that is not well formed ([`coop_ir::verify`]) is refused.
pub fn lower(module: &Module, options: &Options<'_>) -> Result<Lowered, Error> {
    lower_watched(module, options, None)
}

/// As [`lower`]; `after` sees the module after each pass, with the pass's number and name in the first argument. For
/// [`Target::Auto`] it sees the passes of the target that is taken.
pub fn lower_with(
    module: &Module,
    options: &Options<'_>,
    after: &mut dyn FnMut(&str, &Module),
) -> Result<Lowered, Error> {
    lower_watched(module, options, Some(after))
}

/// Sees the module after each pass.
type After<'a> = Option<&'a mut dyn FnMut(&str, &Module)>;

fn lower_watched(module: &Module, options: &Options<'_>, after: After<'_>) -> Result<Lowered, Error> {
    let legacy = |r: &InstRef| module.inst(*r).op == Op::TypeJointMatrixINTEL;
    if let Some(r) = module.globals.iter().copied().find(legacy) {
        let why = "OpTypeJointMatrixINTEL is what SPV_INTEL_joint_matrix had before it was built on SPV_KHR_cooperative_matrix";
        let remedy = "compile again with a compiler that emits OpTypeCooperativeMatrixKHR (oneAPI 2025 or later)";
        return Err(Refusal::new("refused-dialect", Some(r), why, remedy).into());
    }
    #[cfg(feature = "kernels")]
    let to_shaders = options.vulkan().is_some() && vulkan::has_kernels(module);
    #[cfg(not(feature = "kernels"))]
    let to_shaders = false;
    let without_matrices = !module.globals.iter().any(|r| MATRIX_TYPES.contains(&module.inst(*r).op));
    let lacks = |p: &coop_device::Profile| !p.has(Feature::ShaderBFloat16Type);
    if !to_shaders && without_matrices && bfloat16::occurs(module) && options.profile.is_some_and(lacks) {
        WellFormed::check(module, options)?;
        let options = &Options { target: Target::Scalar, ..options.clone() };
        let passes = PASSES.iter().filter(|p| OF_TYPES.contains(&p.name));
        return with_passes(module, options, &Subgroups::none(), None, passes, after);
    }
    if !to_shaders && without_matrices && options.passes.is_empty() {
        let profile = options.profile.map(|p| p.name.clone());
        let report = Report { target: options.target.to_string(), profile, ..Report::default() };
        return Ok(Lowered { module: module.clone(), report });
    }
    WellFormed::check(module, options)?;
    let subgroups = Subgroups::new(module, options, to_shaders)?;
    if options.target == Target::Auto {
        return auto(module, options, &subgroups, after);
    }
    to_target(module, options, &subgroups, subgroups.sizes.first().copied(), after)
}

/// Lowers for the target of the options and subgroups of a size.
fn to_target(
    module: &Module,
    options: &Options<'_>,
    subgroups: &Subgroups,
    size: Option<SubgroupSize>,
    after: After<'_>,
) -> Result<Lowered, Error> {
    let passes = PASSES.iter().filter(|p| p.targets.contains(&options.target));
    with_passes(module, options, subgroups, size, passes, after)
}

/// Runs passes for subgroups of a size.
fn with_passes<'p>(
    module: &Module,
    options: &Options<'_>,
    subgroups: &Subgroups,
    size: Option<SubgroupSize>,
    passes: impl Iterator<Item = &'p Pass>,
    mut after: After<'_>,
) -> Result<Lowered, Error> {
    let mut report = Report {
        target: options.target.to_string(),
        profile: options.profile.map(|p| p.name.clone()),
        changed: true,
        ..Report::default()
    };
    let original = module;
    let options = &Options { subgroup_size: size.map(|s| s.size), ..options.clone() };
    let mut module = module.clone();
    // Lowered, most modules have two to three times as many.
    module.reserve(module.arena_len().saturating_mul(2).min(options.most_instructions));
    module.set_most(module.arena_len().saturating_add(options.most_instructions));
    let known: FxHashSet<u32> = spec_ids(&module).collect();
    report.unknown_spec_ids = options.spec.iter().map(|(id, _)| id).filter(|id| !known.contains(id)).collect();
    let declared: Vec<Capability> = module.capabilities().collect();
    let (bound, non_uniform) = (original.header.bound, Bindings::default());
    let mut cx = PassCx { options, report: &mut report, bound, declared: &declared, non_uniform };
    for (number, pass) in passes.enumerate() {
        let chosen = options.passes.is_empty() || options.passes.iter().any(|name| name == pass.name);
        if !chosen || options.fuel.is_some_and(|fuel| number >= fuel) {
            cx.report.skipped_passes.push(pass.name);
            continue;
        }
        // WebAssembly has no clock.
        let start = (!cfg!(target_family = "wasm")).then(Instant::now);
        let done = (pass.run)(&mut module, &mut cx);
        let done = done.and_then(|()| within_limits(&module, options, None));
        done.map_err(|refusal| placed(refusal, original, &module))?;
        cx.report
            .passes
            .push(Timing { pass: pass.name, micros: start.map_or(0, |start| start.elapsed().as_micros() as u64) });
        if let Some(after) = &mut after {
            after(&format!("{number:02}-{}", pass.name), &module);
        }
        check(&module, pass, options.verify_each)?;
    }
    if module.header.bound > binary::MAX_BOUND {
        let why = format!("its id bound, {}, leaves no room for more", original.header.bound);
        return Err(Refusal::new("refused-malformed", None, why, "number the ids anew: spirv-opt --compact-ids").into());
    }
    if report.skipped_passes.is_empty() {
        subgroups::check(&module, options, &report).map_err(|refusal| placed(refusal, original, &module))?;
        device::check(original, &module, options).map_err(|refusal| placed(refusal, original, &module))?;
    }
    subgroups.report(size, options.lanes, &mut report);
    let now: Vec<Capability> = module.capabilities().collect();
    let implied = |c: &Capability| declared.iter().any(|d| implied_capabilities(*d).contains(c));
    let added = now.iter().filter(|c| !declared.contains(c) && !implied(c));
    report.added_capabilities = added.map(|c| c.to_string()).collect();
    report.removed_capabilities = declared.iter().filter(|c| !now.contains(c)).map(|c| c.to_string()).collect();
    report.size = Size::of(original, &module);
    Ok(Lowered { module, report })
}

/// The SpecIds of a module.
fn spec_ids(m: &Module) -> impl Iterator<Item = u32> {
    let decorations = m.globals_with(Op::Decorate).map(|r| m.inst(r));
    decorations.filter(|i| i.enumerant(1) == Some(Decoration::SpecId)).filter_map(|i| i.word(2))
}

/// The best target: matrices where the device has any and they can express the module, with subgroups of any size that it has;
/// else scalar code, which comes first where the device's matrices are slow. The refusal of the last target is what is answered when none can.
fn auto(module: &Module, options: &Options<'_>, subgroups: &Subgroups, after: After<'_>) -> Result<Lowered, Error> {
    let mut targets = Vec::new();
    if let Some(profile) = options.profile.filter(|p| p.has(Feature::CooperativeMatrix)) {
        if profile.has_extension("VK_EXT_cooperative_matrix_maintenance1") {
            targets.push(Target::Ext);
        }
        targets.push(Target::Khr);
    }
    targets.push(Target::Scalar);
    let mut reasons: Vec<String> = Vec::new();
    if let Some(profile) = options.profile.filter(|p| targets.len() > 1 && !p.slow_matrices.is_empty()) {
        targets.rotate_right(1);
        let why =
            format!("matrices of {} are slower than code without them, says {}", profile.name, profile.slow_matrices);
        reasons.extend(targets.iter().skip(1).map(|target| format!("{target}: {why}")));
    }
    let sizes: Vec<Option<SubgroupSize>> = match subgroups.sizes.as_slice() {
        [] => vec![None],
        sizes => sizes.iter().copied().map(Some).collect(),
    };
    let mut answer = Err(Error::Bug { pass: "auto", message: "no target".to_owned() });
    for target in targets {
        let mut first = None;
        for size in &sizes {
            let options = Options { target, ..options.clone() };
            // Nobody is to see a target that is not taken.
            let mut seen: Vec<(String, Module)> = Vec::new();
            let mut keep = |name: &str, module: &Module| seen.push((name.to_owned(), module.clone()));
            let keep: After<'_> = if after.is_some() { Some(&mut keep) } else { None };
            let refusal = match to_target(module, &options, subgroups, *size, keep) {
                Err(Error::Refused(refusal)) => refusal,
                Ok(mut lowered) => {
                    if let Some(after) = after {
                        seen.iter().for_each(|(name, module)| after(name, module));
                    }
                    lowered.report.not_taken = reasons;
                    return Ok(lowered);
                }
                bug => return bug,
            };
            let of =
                size.filter(|_| sizes.len() > 1).map_or_else(String::new, |s| format!(" with subgroups of {}", s.size));
            let reason = format!("{refusal}");
            if first.as_ref().is_none_or(|(_, said)| *said != reason) {
                reasons.push(format!("{target}{of}: {reason}"));
            }
            first.get_or_insert((refusal, reason));
        }
        if let Some((refusal, _)) = first {
            answer = Err(Error::Refused(refusal));
        }
    }
    answer
}

/// The result of the check that a module is well formed ([`coop_ir::verify`]), kept for further lowerings of the same module.
#[derive(Clone, Default, Debug)]
pub struct WellFormed(OnceLock<Result<(), Refusal>>);

impl WellFormed {
    /// Refuses a module that is not well formed. It is looked at unless the options have the result.
    fn check(module: &Module, options: &Options<'_>) -> Result<(), Refusal> {
        let Some(kept) = options.well_formed else { return well_formed(module) };
        let kept = kept.0.get_or_init(|| well_formed(module)).clone();
        debug_assert_eq!(kept, well_formed(module), "it is of another module");
        kept
    }
}

/// Passes rely on it: values come before their uses, and each instruction is where it belongs.
fn well_formed(module: &Module) -> Result<(), Refusal> {
    // What is done to a vector may be done to each of its components.
    let most = 0xffff;
    let too_long = |r: &InstRef| module.inst(*r).word(1).is_some_and(|n| n > most);
    let malformed = |at: Option<InstRef>, why: String| Err(Refusal::malformed(at, why));
    if let Some(r) = module.globals_with(Op::TypeVector).find(too_long) {
        return malformed(Some(r), format!("a vector has more components than an instruction has words, {most}"));
    }
    let numbers = module.globals_with(Op::TypeInt).chain(module.globals_with(Op::TypeFloat));
    let mut seen = FxHashSet::default();
    for (r, number) in numbers.map(|r| (r, module.inst(r))) {
        if let Some(width) = number.word(0).filter(|width| !(1..=64).contains(width)) {
            return malformed(Some(r), format!("a number of {width} bits: there are those of 1 to 64"));
        }
        if !seen.insert((number.op, &number.operands)) {
            return malformed(Some(r), format!("there is another {} with the same operands", number.op));
        }
    }
    // Nobody knows what they mean: passes would copy words of them into other instructions, and take two types for one.
    let removed = |op: Op| PASSES.iter().filter_map(|p| p.removes).any(|removes| removes(op));
    let is_matrix = |ty: Id| module.def_inst(ty).is_some_and(|t| MATRIX_TYPES.contains(&t.op));
    let of_matrices = |i: &Inst| i.ty.into_iter().chain(i.ids().filter_map(|id| module.type_of(id))).any(is_matrix);
    let unknown = |i: &Inst| i.opaque && (i.op.is_type() || i.op == Op::EntryPoint || removed(i.op) || of_matrices(i));
    if let Some(r) = module.all().find(|r| unknown(module.inst(*r))) {
        let why = format!("{} has operands beyond its grammar", module.inst(r).op);
        return Err(Refusal::new("refused-malformed", Some(r), why, "use the instruction as its extension has it"));
    }
    let Err(problems) = coop_ir::verify::verify(module) else { return Ok(()) };
    let (at, why) = problems.first().map_or((None, String::new()), |p| (p.inst, p.to_string()));
    malformed(at, why)
}

/// Returns the refusal with an instruction of the input, in its place and its reason: if a pass generated or changed the one that
/// it names, the one with that origin.
fn placed(refusal: Refusal, original: &Module, module: &Module) -> Refusal {
    let read = |r: InstRef| {
        if r.index() < original.arena_len() {
            return Some(r);
        }
        let origin = module.inst(r).origin?;
        original.all().find(|o| original.inst(*o).origin == Some(origin))
    };
    let at = refusal.at.and_then(read);
    let reason = match (refusal.at, at) {
        (Some(changed), Some(at)) if module.inst(changed).op != original.inst(at).op => {
            renamed(&refusal.reason, &module.inst(changed).op.to_string(), &original.inst(at).op.to_string())
        }
        _ => refusal.reason,
    };
    Refusal { at, reason, ..refusal }
}

/// Returns the text with another word in the place of one.
fn renamed(text: &str, old: &str, new: &str) -> String {
    text.split(' ').map(|word| if word == old { new } else { word }).collect::<Vec<_>>().join(" ")
}

fn check(module: &Module, pass: &Pass, verify: bool) -> Result<(), Error> {
    let bug = |message: String| Error::Bug { pass: pass.name, message };
    if let Some(removes) = pass.removes
        && let Some(r) = module.all().find(|r| removes(module.inst(*r).op))
    {
        return Err(bug(format!("an instruction is left that the pass removes: {}", module.inst(r).op)));
    }
    if verify {
        coop_ir::verify::verify(module).map_err(|problems| {
            let first = problems.first().map_or_else(String::new, |p| p.to_string());
            bug(format!("{} problems, the first: {first}", problems.len()))
        })?;
    }
    Ok(())
}
