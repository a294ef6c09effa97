//! Turns OpenCL kernels into Vulkan compute shaders.
//!
//! Precondition: a module of OpenCL kernels with 64-bit addresses, as compilers make them; it may have matrices of any
//! dialect. Effect: each kernel is a Vulkan compute shader of the same name that does the same:
//!
//! - Calls are inlined (`calls`).
//! - Pointers are numbers. Memory of the device is accessed by address, through pointers made at the access
//!   (`pointer_constants`, `pointer_target`, `pointer_arithmetic`, `access`); variables are arrays of one number type
//!   (`variables`). Matrices are loaded and stored through pointers to their component type (`matrix`).
//! - Arguments are push constants (`arguments`); built-in variables are Vulkan's (`built_ins`).
//! - OpenCL.std is GLSL.std.450 (`opencl_std`), barriers and atomics are in Vulkan's memory model (`sync`), and the
//!   other instructions of kernels are replaced (`kernel_instructions`).
//! - Control flow is structured (`flow`).
//! - The module declares what shaders need (`declarations`).
//!
//! Matrices stay as they are: the passes that follow lower them as those of any shader.
//!
//! Refuses what Vulkan can't express, under ids that begin with `refused-vulkan-`.

mod access;
mod arguments;
mod built_ins;
mod calls;
mod declarations;
mod emit;
mod flow;
mod kernel_instructions;
mod leaves;
mod matrix;
mod opencl_std;
mod pointer_arithmetic;
mod pointer_constants;
mod pointer_target;
mod sync;
mod variables;

use crate::inline::Carriers;
use crate::layout::Layout;
use crate::pipeline::PassCx;
use crate::report::{Argument, KernelArguments};
use crate::{Lanes, Refusal, Vulkan, ssa};

use coop_ir::builder::{Globals, decorate};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, entry_points};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel};
use coop_ir::{Id, InstList, InstRef, Module, Op};
use declarations::Shader;
use pointer_target::PointerTargets;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use variables::FlatVariable;

/// Returns true if a module has kernels.
pub(crate) fn has_kernels(m: &Module) -> bool {
    let kernel = ExecutionModel::Kernel;
    m.globals_with(Op::EntryPoint).any(|r| m.inst(r).enumerant(0) == Some(kernel))
}

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let Some(vulkan) = cx.options.vulkan().cloned().filter(|_| has_kernels(m)) else { return Ok(()) };
    let physical = AddressingModel::Physical64;
    let model = m.globals_with(Op::MemoryModel).next();
    if model.and_then(|r| m.inst(r).enumerant(0)) != Some(physical) {
        let why = "the module has no 64-bit addresses";
        return Err(Refusal::new("refused-vulkan-addresses", model, why, "compile for spirv64"));
    }
    let mut g = Globals::new(m);
    let entries = entry_points(m, &Decorations::new(m));
    let kernels: FxHashSet<Id> = entries.iter().map(|e| e.function).collect();
    calls::inline_all(m, &mut g, &kernels)?;
    let mut shaders: Vec<Shader> = Vec::new();
    let mut needed = FxHashSet::default();
    for entry in &entries {
        if shaders.iter().any(|s| s.function == entry.function) {
            continue;
        }
        let f = m.functions.iter().position(|f| m.inst(f.def).result == Some(entry.function));
        let Some(f) = f else { continue };
        shaders.push(shader(m, &mut g, cx, &vulkan, entry, f, &mut needed)?);
    }
    cx.report.approximations.extend(declarations::roundings(m, &kernels));
    declarations::finish(m, &shaders, &needed);
    Ok(())
}

/// Turns function `f` into a shader.
fn shader(
    m: &mut Module,
    g: &mut Globals,
    cx: &mut PassCx<'_>,
    vulkan: &Vulkan,
    entry: &EntryPoint,
    f: usize,
    needed: &mut FxHashSet<Capability>,
) -> Result<Shader, Refusal> {
    pointer_constants::unfold(m, f);
    let constants = Constants::new(m, &cx.options.spec);
    let local_size = local_size(m, cx.options.local_size, entry, &constants)?;
    let literal = |mode: ExecutionMode| entry.mode(mode).map(|found| m.inst(found.at).word(2));
    let asked = literal(ExecutionMode::SubgroupSize).flatten();
    let exact = literal(ExecutionMode::ContractionOff).is_some();
    let layout = Layout::new(m, constants);
    let profile = cx.options.profile;
    let mut kernel = Kernel {
        f,
        layout,
        local_size,
        lanes: cx.options.lanes,
        subgroup_size: asked.or(if cx.options.lanes == Lanes::LocalIndex { cx.options.subgroup_size } else { None }),
        local_arguments: &vulkan.local_arguments,
        push_limit: profile.map(|p| u64::from(p.limits.max_push_constants_size)),
        used: FxHashSet::default(),
        pointer_types: FxHashMap::default(),
        places: PointerTargets::default(),
        roots: Vec::new(),
        components: FxHashMap::default(),
        carriers: Carriers::new(),
        instead_of: FxHashMap::default(),
        out: InstList::new(),
        origin: None,
        variables: InstList::new(),
        interface: Vec::new(),
        inputs: FxHashMap::default(),
        blocks: FxHashMap::default(),
        offsets: Vec::new(),
        described: Vec::new(),
        push: None,
        push_words: 0,
        glsl: None,
        about: BTreeSet::new(),
        prefetches: 0,
        needed,
        m,
        g,
    };
    kernel.run()?;
    let Kernel { interface, described, push_words, about, prefetches, .. } = kernel;
    cx.report.dropped_prefetches += prefetches;
    flow::run(m, g, f)?;
    if exact {
        forbid_contraction(m, f);
    }
    if let Some(size) = asked.filter(|_| cx.options.lanes == Lanes::Subgroup) {
        cx.report.required_subgroup_size = Some(size);
        cx.report.full_subgroups = true;
    }
    let about =
        about.iter().map(|name| format!("{name}: as precise as Vulkan requires, which is less than OpenCL does"));
    cx.report.approximations.extend(about);
    cx.report.kernels.push(KernelArguments {
        entry: entry.name.clone(),
        local_size,
        push_constant_bytes: push_words * 4,
        arguments: described,
    });
    Ok(Shader { function: entry.function, interface, local_size })
}

fn local_size(
    m: &Module,
    given: Option<[u32; 3]>,
    entry: &EntryPoint,
    constants: &Constants,
) -> Result<[u32; 3], Refusal> {
    let said = entry.workgroup_size.as_ref().map(|s| s.values(constants).map(|c| c.value().unwrap_or(0) as u32));
    let at = m.def(entry.function);
    let refused = |why: &str| {
        let remedy = "give the size that the kernel is run with: --local-size X,Y,Z";
        Refusal::new("refused-vulkan-local-size", at, why, remedy)
    };
    match (said, given) {
        (Some(said), Some(given)) if said != given => Err(refused("the kernel requires another workgroup size")),
        (None, None) => Err(refused("the workgroup size is not known")),
        (Some(size), _) | (None, Some(size)) => {
            let known = size.iter().try_fold(1u32, |n, s| n.checked_mul(*s)).is_some_and(|n| n > 0);
            if known { Ok(size) } else { Err(refused("the workgroup size is not known")) }
        }
    }
}

/// Decorates products so that they are rounded before they are added.
fn forbid_contraction(m: &mut Module, f: usize) {
    let arithmetic = |r: &InstRef| {
        let i = m.inst(*r);
        let plain = i.ty.is_some_and(|t| coop_ir::types::scalar_or_vector(m, t).is_some());
        plain && i.op.is_contractible()
    };
    let found: Vec<Id> = m.functions[f].insts().filter(arithmetic).filter_map(|r| m.inst(r).result).collect();
    for id in found {
        decorate(m, id, Decoration::NoContraction, &[]);
    }
}

/// A kernel being turned into a shader. Until its control flow is structured it is one function whose blocks are
/// rewritten in place.
struct Kernel<'a> {
    m: &'a mut Module,
    g: &'a mut Globals,
    f: usize,
    layout: Layout,
    local_size: [u32; 3],
    lanes: Lanes,
    /// The subgroup size that the kernel assumes.
    subgroup_size: Option<u32>,
    local_arguments: &'a BTreeMap<u32, u32>,
    push_limit: Option<u64>,
    /// The ids that the function uses.
    used: FxHashSet<Id>,
    /// The types that pointers had.
    pointer_types: FxHashMap<Id, Id>,
    places: PointerTargets,
    roots: Vec<FlatVariable>,
    /// The component index of pointers into built-in variables.
    components: FxHashMap<Id, Id>,
    carriers: Carriers,
    /// The replacements of removed results.
    instead_of: FxHashMap<Id, Id>,
    /// The instructions of the block being written.
    out: InstList,
    origin: Option<NonZeroU32>,
    variables: InstList,
    interface: Vec<Id>,
    inputs: FxHashMap<BuiltIn, Id>,
    /// Blocks of arrays in memory of the device, by component type.
    blocks: FxHashMap<Id, Id>,
    /// The offset of each argument in the push constants.
    offsets: Vec<Option<u64>>,
    described: Vec<Argument>,
    push: Option<Id>,
    push_words: u32,
    glsl: Option<Id>,
    about: BTreeSet<String>,
    /// The number of dropped prefetches.
    prefetches: u32,
    needed: &'a mut FxHashSet<Capability>,
}

impl Kernel<'_> {
    fn run(&mut self) -> Result<(), Refusal> {
        self.look();
        self.find_targets()?;
        let insts: Vec<InstRef> =
            self.m.functions[self.f].blocks.iter().flat_map(|b| b.insts.iter().copied()).collect();
        for r in insts {
            self.note_access(r)?;
        }
        self.make_roots()?;
        self.arguments()?;
        let prologue = std::mem::take(&mut self.out);
        for b in 0..self.m.functions[self.f].blocks.len() {
            let insts = std::mem::take(&mut self.m.functions[self.f].blocks[b].insts);
            for r in insts {
                self.origin = self.m.inst(r).origin;
                self.rewrite(r)?;
            }
            self.m.functions[self.f].blocks[b].insts = std::mem::take(&mut self.out);
        }
        let variables = std::mem::take(&mut self.variables);
        if let Some(entry) = self.m.functions[self.f].blocks.first_mut() {
            entry.insts.insert_many(0, variables.into_iter().chain(prologue));
        }
        let map: FxHashMap<Id, Id> = self.instead_of.keys().map(|id| (*id, self.now(*id))).collect();
        ssa::replace_in(self.m, self.f, &map);
        self.signature();
        Ok(())
    }

    /// Collects the ids that the function uses, and the pointers among them.
    fn look(&mut self) {
        for r in self.m.functions[self.f].insts().collect::<Vec<_>>() {
            self.used.extend(self.m.inst(r).ids());
        }
        let defined = self.m.functions[self.f].insts().filter_map(|r| self.m.inst(r).result);
        let all: Vec<Id> = defined.chain(self.used.iter().copied()).collect();
        for id in all {
            if let Some(ty) = self.m.type_of(id).filter(|t| self.storage_of(*t).is_some()) {
                self.pointer_types.insert(id, ty);
            }
        }
    }

    fn needs(&mut self, capability: Capability) {
        self.needed.insert(capability);
    }

    /// Writes an instruction, or its replacement, at the end of the block.
    fn rewrite(&mut self, r: InstRef) -> Result<(), Refusal> {
        let (op, opaque) = (self.m.inst(r).op, self.m.inst(r).opaque);
        if opaque && op.info().is_none() {
            let why = format!("{op}, which is not known here, has no form for Vulkan");
            let remedy = "compile without the extension that it is of";
            return Err(Refusal::new("refused-vulkan-instruction", Some(r), why, remedy));
        }
        match op {
            Op::Load => self.rewrite_load(r),
            Op::Store => self.rewrite_store(r),
            Op::CopyMemory | Op::CopyMemorySized => self.rewrite_copy(r),
            Op::ControlBarrier | Op::MemoryBarrier => self.rewrite_barrier(r),
            Op::ExtInst => self.rewrite_extended(r),
            Op::CooperativeMatrixLengthKHR => {
                self.rewrite_length(r);
                Ok(())
            }
            op if sync::is_atomic(op) => self.rewrite_atomic(r),
            op if matrix::accesses(op) => self.rewrite_matrix_access(r),
            _ => {
                if !self.rewrite_group(r)? && !self.rewrite_pointer(r)? {
                    self.rewrite_other(r)?;
                }
                Ok(())
            }
        }
    }

    /// Removes the parameters of the function.
    fn signature(&mut self) {
        let void = self.g.void(self.m);
        let ty = self.g.function(self.m, void, &[]);
        let def = self.m.functions[self.f].def;
        let inst = self.m.inst_mut(def);
        inst.ty = Some(void);
        if let Some(last) = inst.operands.get_mut(1) {
            *last = ty.into();
        }
    }
}
