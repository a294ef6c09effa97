//! Rules about instructions of any kind in a module with matrices, without which no lowering and no driver makes sense of it:
//! operands, types of values, interfaces, variables.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::types::storage_name;
use coop_ir::decode::{Ending, decode};
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{AddressingModel, Capability, StorageClass};
use coop_ir::types::Type;
use coop_ir::verify::verify_types;
use coop_ir::{Id, InstRef, Module, Op};

declare_rule! {
    /// ## What it checks
    /// An instruction ends where its operands do.
    /// ## Why
    /// No consumer knows what further words are: spirv-val refuses them, drivers skip them or go wrong.
    /// ## Example
    /// `OpCooperativeMatrixLengthKHR %uint %matrix 7`
    pub(crate) static SURPLUS_WORDS = {
        id: "module-surplus-words",
        summary: "an instruction has words behind its operands",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.3 Physical Layout of a SPIR-V Module and Instruction",
        vuids: [],
        digest: ["spirv.operands"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Operands that must be values are neither types nor functions, and what calls, returns, phis, selections, loads and stores
    /// move has the type that it must; indices are integers, and conversions keep the number of components. What other rules say
    /// of matrices is not said again.
    /// ## Why
    /// `cooplower` refuses such a module, and drivers crash on it.
    /// ## Example
    /// `OpBranchConditional %bool %then %else` with the type for a condition.
    pub(crate) static VALUE_TYPE = {
        id: "module-value-type",
        summary: "a value has another type than its use asks for, or an operand is not a value",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["spirv.value-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Before SPIR-V 1.4, the interface of an entry point has variables of storage classes Input and Output only.
    /// ## Why
    /// The specification and spirv-val say so. Drivers take longer lists.
    /// ## Example
    /// `OpEntryPoint GLCompute %main "main" %buffer` in a module of version 1.3.
    pub(crate) static INTERFACE = {
        id: "module-entry-point-interface",
        summary: "before SPIR-V 1.4, an interface has a variable that is neither Input nor Output",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, OpEntryPoint",
        vuids: [],
        digest: ["spirv.interface"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With addressing model Logical or PhysicalStorageBuffer64, what a variable holds has no pointers inside but those to
    /// PhysicalStorageBuffer memory and, in variables of storage classes Function and Private, those to StorageBuffer memory
    /// (capability VariablePointersStorageBuffer) and to Workgroup memory (capability VariablePointers).
    /// ## Why
    /// Other pointers have no representation in memory.
    /// ## Example
    /// A Workgroup variable for a pointer to Workgroup memory.
    pub(crate) static VARIABLE_POINTER = {
        id: "module-variable-pointer",
        summary: "a variable holds a pointer that has no representation in memory",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["spirv.variable-pointers"],
    }
}

/// Checks interfaces and variables, and, of the instructions of which the other rules have said nothing, words and types of values.
pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    interfaces(cx, out);
    variables(cx, out);
    for &at in &cx.opaque {
        if !out.has_warning(at) {
            surplus_words(cx, at, out);
        }
    }
    value_types(cx, out);
}

fn surplus_words(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
    let Ending::SurplusFrom(first) = decode(cx.module, inst.op, inst.ty, &words, &mut |_| {}) else { return };
    out.report(&SURPLUS_WORDS, at, || {
        let (has, needs) = (inst.word_count(), inst.word_count() - (words.len() - first));
        Draft::new(format!("{} has {has} words, and its operands end after {needs}", inst.op))
            .label(at, Part::Operand(first), format!("{} belongs to no operand", words[first]))
            .help("leave out what stands behind the operands, in the instruction's number of words too")
    });
}

fn value_types(cx: &Cx, out: &mut Sink) {
    for problem in verify_types(cx.module) {
        let Some(at) = problem.inst.filter(|at| !out.has_warning(*at)) else { continue };
        out.report(&VALUE_TYPE, at, || {
            Draft::new(problem.message.clone())
                .label(at, Part::Whole, "here")
                .help("give a value of the type that is asked for, converted if need be, or correct that type")
        });
    }
}

fn interfaces(cx: &Cx, out: &mut Sink) {
    let (major, minor) = cx.module.header.version_pair();
    if (major, minor) >= (1, 4) {
        return;
    }
    for at in cx.module.globals_with(Op::EntryPoint) {
        let inst = cx.inst(at);
        let Some((name, first)) = inst.string(2) else { continue };
        let storage = |id: Id| cx.module.def_inst(id).filter(|v| v.op.is_variable())?.enumerant::<StorageClass>(0);
        let others = inst.operands.iter().enumerate().skip(first).filter_map(|(i, o)| {
            let storage = storage(o.id()?)?;
            (!matches!(storage, StorageClass::Input | StorageClass::Output)).then_some((i, o.id()?, storage))
        });
        let others: Vec<(usize, Id, StorageClass)> = others.collect();
        let Some(&(_, id, storage)) = others.first() else { continue };
        out.report(&INTERFACE, at, || {
            let more = match others.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let storage = storage_name(storage);
            let draft = Draft::new(format!(
                "the interface of entry point {name} has {id} of storage class {storage}{more}, and the module is SPIR-V \
                 {major}.{minor}"
            ));
            let labeled = others.iter().fold(draft, |draft, (i, _, storage)| {
                draft.label(at, Part::Operand(*i), format!("{}: neither Input nor Output", storage_name(*storage)))
            });
            labeled.help("leave these variables out, or let the compiler make SPIR-V 1.4 or later, which lists them all")
        });
    }
}

fn variables(cx: &Cx, out: &mut Sink) {
    let physical = [AddressingModel::Physical32, AddressingModel::Physical64];
    if cx.module.memory_model().is_none_or(|(addressing, _)| physical.contains(&addressing)) {
        return;
    }
    let blocks = cx.module.functions.iter().filter_map(|f| f.blocks.first());
    let local = blocks.flat_map(|b| b.insts.iter().copied());
    for at in cx.module.globals.iter().copied().chain(local) {
        let inst = cx.inst(at);
        let (Some(storage), true) = (inst.enumerant::<StorageClass>(0), inst.op.is_variable()) else { continue };
        let held = match inst.op {
            Op::Variable => match inst.ty.and_then(|t| Type::of(cx.module, t)) {
                Some(Type::Pointer { pointee, .. }) => Some(pointee),
                _ => None,
            },
            _ => inst.data_type(),
        };
        let Some((pointer, to)) = held.and_then(|ty| unrepresented(cx, ty, storage)) else { continue };
        out.report(&VARIABLE_POINTER, at, || {
            let (of, to_name) = (storage_name(storage), storage_name(to));
            let capability = capability_for(to).filter(|_| in_invocation(storage));
            let help = match capability {
                Some(capability) => {
                    format!("declare `OpCapability {capability}`, or keep what the pointer is made from")
                }
                None => "keep indices in the variable, and make the pointer from them where it is used".to_owned(),
            };
            Draft::new(format!("a variable of storage class {of} holds {pointer}, a pointer to {to_name} memory"))
                .label(at, Part::Operand(0), format!("{of} memory has no pointers to {to_name}"))
                .label_opt(cx.def(pointer), Part::Whole, "the type of the pointer")
                .help(help)
        });
    }
}

/// Returns true if each invocation has its own variables of a storage class.
fn in_invocation(storage: StorageClass) -> bool {
    matches!(storage, StorageClass::Function | StorageClass::Private)
}

/// Returns the capability for variables that hold pointers to a storage class.
fn capability_for(to: StorageClass) -> Option<Capability> {
    match to {
        StorageClass::StorageBuffer => Some(Capability::VariablePointersStorageBuffer),
        StorageClass::Workgroup => Some(Capability::VariablePointers),
        _ => None,
    }
}

/// Returns the first pointer type in a type that variables of a storage class can't hold, and what it points to.
fn unrepresented(cx: &Cx, ty: Id, storage: StorageClass) -> Option<(Id, StorageClass)> {
    pointer_in(cx.module, ty, |to| {
        let has = |capability| in_invocation(storage) && cx.has(capability);
        to != StorageClass::PhysicalStorageBuffer && !capability_for(to).is_some_and(has)
    })
}

/// Returns the first pointer type in a type whose storage class `is` what is looked for. Types may be nested deeply, and be parts of many.
fn pointer_in(m: &Module, ty: Id, is: impl Fn(StorageClass) -> bool) -> Option<(Id, StorageClass)> {
    let (mut work, mut seen) = (vec![ty], FxHashSet::default());
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match Type::of(m, ty) {
            Some(Type::Pointer { storage, .. } | Type::UntypedPointer { storage }) if is(storage) => {
                return Some((ty, storage));
            }
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => work.push(elem),
            Some(Type::Struct { members }) => work.extend(members.into_iter().rev()),
            _ => {}
        }
    }
    None
}
