//! The passes in order, and the loop that runs them.

use crate::lacks::{atomic_capabilities, extensions};
use crate::report::instructions;
use crate::{
    Error, Lacks, Lowered, Refusal, Report, address_casts, constants, dot, float8, half, integer, long, memory_model,
    nulls, storage, unrolling, version,
};
use coop_device::{Feature, Requirement, capability_requirement};
use coop_ir::builder::require_capability;
use coop_ir::grammar::implied_capabilities;
use coop_ir::rewrite::{
    remove_capability, remove_dangling_notes, remove_extension, remove_opaque_notes, remove_unused_globals,
    sort_globals, spell_out_decoration_groups,
};
use coop_ir::spv::Capability;
use coop_ir::types::{Scalar, Type, coop_mat, scalar};
use coop_ir::{Inst, InstRef, Module, Op, binary};
use std::time::Instant;

/// The context of a pass.
pub(crate) struct Cx<'a> {
    pub(crate) lacks: Lacks,
    /// True if f16 that f32 stands for is rounded by conversions and stores only.
    pub(crate) excess_precision: bool,
    pub(crate) report: &'a mut Report,
}

/// A pass: module in, module out.
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// A summary in a line.
    pub summary: &'static str,
    run: fn(&mut Module, &mut Cx<'_>) -> Result<(), Refusal>,
}

/// Every pass, in the order in which they run.
pub static PASSES: &[Pass] = &[
    Pass { name: "groups", summary: "replace decoration groups by decorations", run: groups },
    Pass {
        name: "matrices",
        summary: "refuse matrices, which are lowered before, unless 8-bit floats or memory of narrow numbers is all that is lacking",
        run: matrices,
    },
    Pass {
        name: "constants",
        summary: "compute constants of such types in the code that uses them",
        run: constants::run,
    },
    Pass {
        name: "memory-model",
        summary: "replace the Vulkan memory model by that of GLSL 4.50",
        run: memory_model::run,
    },
    Pass { name: "dot-products", summary: "replace dot products of integers by products and sums", run: dot::run },
    Pass {
        name: "float8",
        summary: "replace 8-bit floats by integers, and convert them in integer code",
        run: float8::run,
    },
    Pass { name: "storage", summary: "access memory of narrow types by words of 32 bits", run: storage::run },
    Pass { name: "long-vectors", summary: "make arrays of vectors of 64-bit integers", run: long::vectors::run },
    Pass { name: "long", summary: "compute with pairs of 32-bit integers instead of 64-bit ones", run: long::run },
    Pass { name: "half", summary: "compute with f32 instead of f16, and round to f16", run: half::run },
    Pass {
        name: "integer",
        summary: "compute with 32-bit integers instead of 8- and 16-bit ones, and wrap",
        run: integer::run,
    },
    Pass { name: "null-arrays", summary: "spell out null arrays, at which spirv-opt ends", run: nulls::run },
    Pass {
        name: "address-casts",
        summary: "cast device addresses by way of their words, where the driver ends at casts to other pointers",
        run: address_casts::run,
    },
    Pass {
        name: "unrolling",
        summary: "remove the hints to unroll loops, where the driver follows them whatever that takes",
        run: unrolling::run,
    },
    Pass { name: "lacking", summary: "remove the capabilities that nothing needs any more", run: capabilities },
    Pass { name: "version", summary: "declare the version of SPIR-V that the device takes", run: version::run },
];

/// Options of a lowering.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The features that the device lacks.
    pub lacks: Lacks,
    /// True if results of arithmetic with f16 keep the precision of f32, where that stands for it, until they are converted from
    /// another type or stored in memory that the application sees: about as fast as arithmetic with f32, and not the bits that
    /// the module asks for.
    pub excess_precision: bool,
    /// The most instructions that are made: more are refused.
    pub most_instructions: usize,
    /// When to give up. What comes out before that does not depend on it.
    pub deadline: Option<Instant>,
}

impl Options {
    /// The most instructions that are made where nothing else is said: more than drivers compile.
    pub const MOST_INSTRUCTIONS: usize = 1 << 20;

    /// For a device that lacks some features, with nothing else said.
    pub fn new(lacks: Lacks) -> Options {
        Options { lacks, excess_precision: false, most_instructions: Options::MOST_INSTRUCTIONS, deadline: None }
    }
}

/// Lowers a module. One that needs nothing that the device lacks comes back as it is.
pub fn lower(module: &Module, options: &Options) -> Result<Lowered, Error> {
    if needs_any(module, options.lacks) {
        return run(module, PASSES, options);
    }
    Ok(Lowered { module: module.clone(), report: Report::default() })
}

/// Runs some passes, whatever they usually come after.
pub fn run<'p>(
    module: &Module,
    passes: impl IntoIterator<Item = &'p Pass>,
    options: &Options,
) -> Result<Lowered, Error> {
    let mut report = Report::default();
    well_formed(module)?;
    report.changed = true;
    let mut lowered = module.clone();
    lowered.set_most(module.arena_len().saturating_add(options.most_instructions));
    let mut cx = Cx { lacks: options.lacks, excess_precision: options.excess_precision, report: &mut report };
    for pass in passes {
        let done = (pass.run)(&mut lowered, &mut cx).and_then(|()| within_limits(&lowered, options));
        done.map_err(|refusal| placed(refusal, module, &lowered))?;
        remove_dangling_notes(&mut lowered);
        coop_ir::verify::verify(&lowered).map_err(|problems| {
            let first = problems.first().map_or_else(String::new, |p| p.to_string());
            Error::Bug { pass: pass.name, message: format!("{} problems, the first: {first}", problems.len()) }
        })?;
    }
    if lowered.header.bound > binary::MAX_BOUND {
        let reason = format!("its id bound, {}, leaves no room for more", module.header.bound);
        let remedy = "number the ids anew: spirv-opt --compact-ids".to_owned();
        return Err(Refusal { rule: "refused-malformed", at: None, reason, remedy }.into());
    }
    report.instructions = [instructions(module), instructions(&lowered)];
    Ok(Lowered { module: lowered, report })
}

/// The most components of a vector.
const MOST_COMPONENTS: u32 = 4096;

/// Passes rely on it: values come before their uses, and each instruction is where it belongs.
fn well_formed(module: &Module) -> Result<(), Refusal> {
    let malformed = |at: InstRef, why: &str| {
        let remedy = "see what coopcheck says of the module".to_owned();
        Err(Refusal { rule: "refused-malformed", at: Some(at), reason: why.to_owned(), remedy })
    };
    for r in module.globals.iter().copied() {
        let inst = module.inst(r);
        if inst.opaque && inst.op.is_type() {
            return malformed(r, &format!("{} has operands beyond its grammar", inst.op));
        }
        match Type::of_inst(inst) {
            // What is done to a vector may be done to each of its components.
            Some(Type::Vector { len, .. }) if len > MOST_COMPONENTS => {
                return malformed(r, "a vector has more than 4096 components");
            }
            Some(Type::Scalar(s)) if !(1..=64).contains(&s.width()) => {
                return malformed(r, "a number does not have 1 to 64 bits");
            }
            _ => {}
        }
    }
    let Err(problems) = coop_ir::verify::verify(module) else { return Ok(()) };
    let (at, reason) = problems.first().map_or((None, String::new()), |p| (p.inst, p.to_string()));
    let remedy = "see what coopcheck says of the module".to_owned();
    Err(Refusal { rule: "refused-malformed", at, reason, remedy })
}

/// Refuses to go on where a limit is reached.
pub(crate) fn within_limits(m: &Module, options: &Options) -> Result<(), Refusal> {
    too_many(m)?;
    if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        let reason = "the time for lowering is over".to_owned();
        let remedy = "give it more time: in the library, Options::deadline".to_owned();
        return Err(Refusal { rule: "refused-limit", at: None, reason, remedy });
    }
    Ok(())
}

/// Refuses a module with too many instructions.
pub(crate) fn too_many(m: &Module) -> Result<(), Refusal> {
    if !m.is_full() {
        return Ok(());
    }
    let reason = format!("without the types that the device lacks, the module has more than {} instructions", m.most());
    let remedy = "move fewer numbers at once; in the library, Options::most_instructions".to_owned();
    Err(Refusal { rule: "refused-limit", at: None, reason, remedy })
}

/// Returns true if the device lacks a feature that a capability of the module needs, its version of SPIR-V, or casts or hints that it has:
/// if [`lower`] changes the module.
pub fn needs_any(m: &Module, lacks: Lacks) -> bool {
    let older = lacks.older_than(m).is_some();
    let casts = lacks.address_casts() && address_casts::has_any(m);
    let loops = lacks.unrolls_all() && unrolling::has_any(m);
    let dots = lacks.has(Feature::ShaderIntegerDotProduct) && m.enables(Capability::DotProduct);
    older
        || casts
        || loops
        || dots
        || storage::lacks_atomics(m, lacks)
        || m.capabilities().any(|c| std::iter::once(c).chain(implied_capabilities(c)).any(|c| is_lacking(c, lacks)))
}

/// Returns true if the device lacks the features that enable a capability.
fn is_lacking(capability: Capability, lacks: Lacks) -> bool {
    match capability_requirement(capability) {
        Requirement::AnyOf(features) => features.iter().all(|f| lacks.has(*f)),
        _ => false,
    }
}

/// Returns true if a capability is one of atomic operations on floats of a width, and the module has none that it enables.
fn is_of_no_atomic(m: &Module, capability: Capability) -> bool {
    let Some((_, width)) = atomic_capabilities().find(|(c, _)| *c == capability) else { return false };
    let is_one = |r: InstRef| {
        let i = m.inst(r);
        let enabled = i.op.is_atomic() && i.op.info().is_some_and(|info| info.capabilities.contains(&capability));
        enabled && i.ty.and_then(|ty| scalar(m, ty)) == Some(Scalar::Float { width })
    };
    !m.functions.iter().flat_map(|f| f.insts()).any(is_one)
}

/// Returns the refusal with an instruction of the input: if a pass made the one that it names, the one with that origin.
fn placed(refusal: Refusal, original: &Module, module: &Module) -> Refusal {
    let read = |r: InstRef| {
        if r.index() < original.arena_len() {
            return Some(r);
        }
        let origin = module.inst(r).origin?;
        original.all().find(|o| original.inst(*o).origin == Some(origin))
    };
    Refusal { at: refusal.at.and_then(read), ..refusal }
}

fn groups(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    remove_opaque_notes(m);
    if let Some(r) = m.all().find(|r| m.inst(*r).opaque) {
        let why = format!("{} has operands beyond the grammar, which may be of any type", m.inst(r).op);
        return Err(Refusal::new(r, why, "leave the extension out that it is of"));
    }
    if let Some(r) = m.globals_with(Op::TypeVectorIdEXT).find(|r| has_no_lowering(m, cx.lacks, m.inst(*r))) {
        let why = "a long vector of numbers of 8 or 16 bits, or of integers of 64 bits, has no lowering";
        return Err(Refusal::new(r, why, "use vectors of at most four, or arrays"));
    }
    spell_out_decoration_groups(m);
    Ok(())
}

/// Returns true if the components of a long vector are numbers of 8 or 16 bits, or integers that become pairs of words.
fn has_no_lowering(m: &Module, lacks: Lacks, vector: &Inst) -> bool {
    let scalar = vector.ids().next().and_then(|ty| scalar(m, ty));
    scalar.is_some_and(|s| s.width() < 32 || s.width() == 64 && s.is_int() && lacks.in_software(m, s))
}

fn matrices(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let Some(r) = first_matrix(m) else { return Ok(()) };
    if !has_types_of_matrices(m, cx.lacks) {
        let why = "the component types of cooperative matrices and vectors are the device's own";
        return Err(Refusal::new(r, why, "lower the matrices to scalar code first: cooplower --target scalar"));
    }
    storage::matrices::by_words(m, cx.lacks)
}

/// The first matrix or vector type whose components are the device's.
fn first_matrix(m: &Module) -> Option<InstRef> {
    m.globals.iter().copied().find(|r| is_matrix_type(m.inst(*r)))
}

fn is_matrix_type(inst: &Inst) -> bool {
    inst.op.is_type() && inst.op.is_matrix_op()
}

/// Returns true if [`lower`] takes a module for a device although it has cooperative matrices: the device lacks nothing but 8-bit
/// floats that none of them consists of, and has the 8-bit integers that become of those; or nothing but memory of narrow numbers,
/// and matrices are loaded and stored there by whole words.
pub fn keeps_matrices(m: &Module, lacks: Lacks) -> bool {
    has_types_of_matrices(m, lacks) && storage::matrices::by_words(m, lacks).is_ok()
}

/// Returns true if the device lacks nothing but memory of narrow numbers, and 8-bit floats that no matrix consists of, and has the 8-bit
/// integers that become of those.
fn has_types_of_matrices(m: &Module, lacks: Lacks) -> bool {
    let float8 = |s: Scalar| matches!(s, Scalar::E4M3 | Scalar::E5M2);
    let component = |i: &Inst| scalar(m, coop_mat(m, i.result?)?.component);
    let of_float8 = |i: &Inst| component(i).is_some_and(float8);
    let stays = |i: &Inst| i.op == Op::TypeCooperativeMatrixKHR && !of_float8(i);
    if !m.globals.iter().map(|r| m.inst(*r)).all(|i| !is_matrix_type(i) || stays(i)) {
        return false;
    }
    let lacking = m.capabilities().flat_map(|c| std::iter::once(c).chain(implied_capabilities(c)));
    let mut lacking = lacking.filter(|c| is_lacking(*c, lacks) && !is_memory(*c));
    let other = storage::lacks_atomics(m, lacks) || lacks.older_than(m).is_some();
    let has_integers = || !float8::needed_capabilities(m).into_iter().any(|c| is_lacking(c, lacks));
    !other && lacking.all(|c| c == Capability::Float8EXT) && has_integers()
}

/// Returns true if a capability allows narrow numbers in memory, and nothing else.
fn is_memory(capability: Capability) -> bool {
    match capability_requirement(capability) {
        Requirement::AnyOf(features) => features.iter().all(|f| Lacks::MEMORY.contains(f)),
        _ => false,
    }
}

/// Removes a capability, and declares those that it implied and the device has.
pub(crate) fn without_capability(m: &mut Module, capability: Capability, lacks: Lacks) {
    if !remove_capability(m, capability) {
        return;
    }
    for implied in implied_capabilities(capability).into_iter().filter(|c| !is_lacking(*c, lacks)) {
        if !m.enables(implied) {
            require_capability(m, implied);
        }
    }
}

/// Removes the capabilities whose features are lacking, and declares those that they implied and the device has.
fn capabilities(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let lacking: Vec<Capability> =
        m.capabilities().filter(|c| is_lacking(*c, cx.lacks) || is_of_no_atomic(m, *c)).collect();
    for c in &lacking {
        without_capability(m, *c, cx.lacks);
    }
    // What was implied may be of the same extension.
    for extension in lacking.into_iter().flat_map(extensions) {
        if !m.capabilities().any(|c| extensions(c).any(|of| of == extension)) {
            remove_extension(m, extension);
        }
    }
    remove_unused_globals(m, 0);
    sort_globals(m);
    Ok(())
}
