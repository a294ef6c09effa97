//! Provides the built-in variables that lowered code reads, such as invocation and subgroup indices.
//!
//! An existing variable of the module is used, since an interface may have each built-in once; otherwise one is made.
//! [`Builtins::finish`] adds those that were read to the interface of every entry point.

use crate::kernel::{is_kernel, is_wide};
use coop_ir::builder::{FunctionBuilder, Globals, Index, add_global, decorate, name};
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{BuiltIn, Decoration, StorageClass};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, Module, Op, Operand};

/// The built-ins that lowered code may read.
const KNOWN: [BuiltIn; 9] = [
    BuiltIn::WorkgroupSize,
    BuiltIn::LocalInvocationIndex,
    BuiltIn::LocalInvocationId,
    BuiltIn::SubgroupSize,
    BuiltIn::SubgroupMaxSize,
    BuiltIn::NumSubgroups,
    BuiltIn::NumEnqueuedSubgroups,
    BuiltIn::SubgroupId,
    BuiltIn::SubgroupLocalInvocationId,
];

/// The built-in variables of a module, and those that were made for it.
#[derive(Debug, Default)]
pub(crate) struct Builtins {
    variables: FxHashMap<BuiltIn, Id>,
    read: Vec<Id>,
    /// True if indices have 64 bits, as in kernels; those about subgroups do not.
    wide: bool,
    kernel: bool,
}

impl Builtins {
    pub(crate) fn new(m: &Module) -> Builtins {
        let decorations = Decorations::new(m);
        let variable = |id: &Id| m.def_inst(*id).is_some_and(|i| i.op == Op::Variable);
        let found = |b: BuiltIn| Some((b, decorations.with_built_in(b).into_iter().find(variable)?));
        Builtins {
            variables: KNOWN.into_iter().filter_map(found).collect(),
            read: Vec::new(),
            wide: is_wide(m),
            kernel: is_kernel(m),
        }
    }

    /// Returns the variable of a built-in, if the module has one.
    pub(crate) fn existing(&self, builtin: BuiltIn) -> Option<Id> {
        self.variables.get(&builtin).copied()
    }

    /// Returns the variable of a built-in, declaring it if needed.
    pub(crate) fn variable(&mut self, m: &mut Module, g: &mut Globals, builtin: BuiltIn) -> Id {
        let id = self.existing(builtin).unwrap_or_else(|| {
            let storage = StorageClass::Input;
            let vector = matches!(builtin, BuiltIn::LocalInvocationId | BuiltIn::WorkgroupSize);
            let wide = self.wide && (vector || builtin == BuiltIn::LocalInvocationIndex);
            let mut ty = g.uint(m, if wide { 64 } else { 32 });
            if vector {
                ty = g.vector(m, ty, 3);
            }
            let pointer = g.pointer(m, storage, ty);
            let id = m.fresh_id();
            add_global(m, Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
            decorate(m, id, Decoration::BuiltIn, &[builtin.0]);
            name(m, id, &format!("coop_{builtin:?}"));
            self.variables.insert(builtin, id);
            id
        });
        if !self.read.contains(&id) {
            self.read.push(id);
        }
        id
    }

    /// Loads a built-in as an unsigned integer.
    pub(crate) fn load(&mut self, b: &mut FunctionBuilder<'_>, builtin: BuiltIn) -> Index {
        if self.kernel && builtin == BuiltIn::LocalInvocationIndex && self.existing(builtin).is_none() {
            return self.local_index(b);
        }
        let variable = self.variable(b.module, b.globals, builtin);
        let ty = loaded_type(b.module, variable).unwrap_or_else(|| b.u32_type());
        let value = b.ids(Op::Load, ty, &[variable]);
        let u32_type = b.u32_type();
        if ty == u32_type {
            return Index::Value(value);
        }
        let wide = matches!(types::scalar(b.module, ty), Some(Scalar::Int { width: 64, .. }));
        let op = if wide { Op::UConvert } else { Op::Bitcast };
        Index::Value(b.ids(op, u32_type, &[value]))
    }

    /// Computes the local invocation index from built-ins of every OpenCL version; the built-in itself came with 2.0,
    /// and modules don't state their version reliably.
    fn local_index(&mut self, b: &mut FunctionBuilder<'_>) -> Index {
        let parts = [BuiltIn::LocalInvocationId, BuiltIn::WorkgroupSize].map(|builtin| {
            let variable = self.variable(b.module, b.globals, builtin);
            let word = b.u32_type();
            let ty = loaded_type(b.module, variable).unwrap_or(word);
            let value = b.ids(Op::Load, ty, &[variable]);
            let part = match coop_ir::types::Type::of(b.module, ty) {
                Some(coop_ir::types::Type::Vector { elem, .. }) => elem,
                _ => word,
            };
            [0, 1, 2].map(|n| {
                let x = b.op(Op::CompositeExtract, part, [value.into(), Operand::Word(n)]);
                Index::Value(if part == word { x } else { b.ids(Op::UConvert, word, &[x]) })
            })
        });
        let [[x, y, z], [width, height, _]] = parts;
        let plane = b.u32_op(Op::IMul, z, height);
        let row = b.add(plane, y);
        let before = b.u32_op(Op::IMul, row, width);
        b.add(before, x)
    }

    /// Returns true if anything was read.
    pub(crate) fn is_read(&self) -> bool {
        !self.read.is_empty()
    }

    /// Adds the variables that were read to the interfaces of the entry points.
    pub(crate) fn finish(&self, m: &mut Module) {
        add_to_interfaces(m, &self.read);
    }
}

/// Adds variables to the interface of every entry point that does not list them.
pub(crate) fn add_to_interfaces(m: &mut Module, variables: &[Id]) {
    for r in m.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
        let listed: Vec<Id> = m.inst(r).string(2).map_or_else(Vec::new, |(_, at)| m.inst(r).ids_from(at).collect());
        let missing = variables.iter().filter(|v| !listed.contains(v)).map(|v| Operand::Id(*v));
        m.inst_mut(r).operands.extend(missing);
    }
}

/// Returns the type of the value of a variable.
pub(crate) fn loaded_type(m: &Module, variable: Id) -> Option<Id> {
    m.def_inst(m.type_of(variable)?)?.id(1)
}
