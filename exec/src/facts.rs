//! The facts that a run needs to know about a module: its entry points, their requirements and bindings.

use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{SizeSource, entry_points};
use coop_ir::extensions::is_matrix_capability;
use coop_ir::grammar::{ExecutionScope, Kind};
use coop_ir::spv::{BuiltIn, Capability, Decoration, ExecutionModel, Scope, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op};

use crate::error::Error;
use crate::type_layout::TypeLayout;

/// A compute entry point.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its function.
    pub function: Id,
    /// The workgroup size, which may depend on specialization constants.
    pub local_size: [Const; 3],
    /// True if `LocalSizeId` gives the size, which requires maintenance4.
    pub by_id: bool,
}

/// A specialization constant that has a SpecId.
#[derive(Clone, PartialEq, Debug)]
pub struct SpecConstant {
    /// The SpecId.
    pub spec_id: u32,
    /// Its type.
    pub kind: Type,
    /// The bits of its default.
    pub default: u64,
    /// Its name, if the module has one.
    pub name: Option<String>,
}

impl SpecConstant {
    /// Returns the size in bytes of the value that specializes it: a Boolean is a `VkBool32`.
    pub fn size(&self) -> usize {
        self.kind.scalar().map_or(4, |scalar| scalar.bytes() as usize)
    }
}

/// The kind of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingKind {
    /// A storage buffer.
    Storage,
    /// A uniform buffer.
    Uniform,
    /// Something that cases can't describe: an image, a sampler, an array of buffers.
    Other,
}

/// A variable with a descriptor set and a binding.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Descriptor set.
    pub set: u32,
    /// Binding.
    pub binding: u32,
    /// The kind.
    pub kind: BindingKind,
    /// The variable.
    pub variable: Id,
    /// The type that it points to.
    pub pointee: Id,
    /// The name of the variable, or of its block.
    pub name: Option<String>,
    /// True if a function uses it.
    pub used: bool,
}

impl Binding {
    /// Returns the set, the binding and the name, for messages.
    pub fn place(&self) -> String {
        let name = self.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("set {}, binding {}{name}", self.set, self.binding)
    }
}

/// The facts about a module that a run needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// Major and minor version of SPIR-V.
    pub version: (u8, u8),
    /// Capabilities, in order.
    pub capabilities: Vec<Capability>,
    /// Extensions, in order.
    pub extensions: Vec<String>,
    /// Compute entry points.
    pub entries: Vec<Entry>,
    /// Specialization constants, by SpecId.
    pub specs: Vec<SpecConstant>,
    /// Bindings, by set and binding. Several variables may share one.
    pub bindings: Vec<Binding>,
    /// The type of the push constant block.
    pub push: Option<Id>,
    /// Bytes of the push constant block, from its members' offsets.
    pub push_size: Option<u32>,
    /// True if the module has matrices, instructions that a subgroup executes together, or built-ins of subgroups.
    pub uses_subgroups: bool,
}

impl Facts {
    /// Collects the facts of a specialized module.
    pub fn new(module: &Module, specialization: &Specialization) -> Facts {
        let decorations = Decorations::new(module);
        let constants = Constants::new(module, specialization);
        let reader = Reader { module, decorations: &decorations, constants };
        let push = reader.push();
        let layout = TypeLayout::new(module, &decorations, &reader.constants);
        Facts {
            version: module.header.version_pair(),
            capabilities: module.capabilities().collect(),
            extensions: reader.extensions(),
            entries: reader.entries(),
            specs: reader.specs(),
            bindings: reader.bindings(),
            push,
            push_size: push.and_then(|block| layout.size(block)),
            uses_subgroups: reader.uses_subgroups(),
        }
    }

    /// Returns the entry point of that name, or the only one if no name is given.
    pub fn entry(&self, name: Option<&str>) -> Result<&Entry, Error> {
        let names = || self.entries.iter().map(|entry| format!("'{}'", entry.name)).collect::<Vec<_>>().join(", ");
        match (name, self.entries.as_slice()) {
            (_, []) => Err(Error::module("there is no compute entry point")),
            (None, [entry]) => Ok(entry),
            (None, _) => Err(Error::case(format!(
                "the module has several entry points, name one (--entry, or entry of the case): {}",
                names()
            ))),
            (Some(name), entries) => entries.iter().find(|entry| entry.name == name).ok_or_else(|| {
                Error::case(format!("the module has no compute entry point '{name}', only {}", names()))
            }),
        }
    }
}

struct Reader<'a> {
    module: &'a Module,
    decorations: &'a Decorations,
    constants: Constants,
}

impl Reader<'_> {
    fn uses_subgroups(&self) -> bool {
        let insts = self.module.functions.iter().flat_map(|f| f.insts()).map(|r| self.module.inst(r));
        let together = |inst: &Inst| match inst.op.execution_scope() {
            None => false,
            Some(ExecutionScope::Subgroup) => true,
            Some(ExecutionScope::Operand(at)) => {
                let scope = inst.id(at).and_then(|id| self.constants.get(id).value());
                scope != Some(Scope::Workgroup.0.into())
            }
        };
        let of_subgroups = |built_in: BuiltIn| {
            let capabilities = Kind::BuiltIn.enumerant(built_in.0).map_or(&[][..], |e| e.capabilities);
            [Capability::GroupNonUniform, Capability::SubgroupBallotKHR].iter().any(|c| capabilities.contains(c))
        };
        let decorated = self.module.globals_with(Op::Decorate).map(|r| self.module.inst(r));
        let mut built_ins = decorated.filter(|i| i.enumerant(1) == Some(Decoration::BuiltIn));
        self.module.capabilities().any(is_matrix_capability)
            || built_ins.any(|i| i.enumerant(2).is_some_and(of_subgroups))
            || insts.into_iter().any(together)
    }

    fn extensions(&self) -> Vec<String> {
        let names = self.module.globals_with(Op::Extension);
        names.filter_map(|r| Some(self.module.inst(r).string(0)?.0)).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let all = entry_points(self.module, self.decorations);
        let compute = all.into_iter().filter(|entry| entry.model == ExecutionModel::GLCompute);
        compute
            .map(|entry| {
                let size = entry.workgroup_size;
                Entry {
                    name: entry.name,
                    function: entry.function,
                    local_size: size.map_or([const { Const::Unknown }; 3], |size| size.values(&self.constants)),
                    by_id: size.is_some_and(|size| size.source == SizeSource::LocalSizeId),
                }
            })
            .collect()
    }

    fn specs(&self) -> Vec<SpecConstant> {
        // Defaults are those of the module, whatever it is specialized with.
        let defaults = Constants::new(self.module, &Specialization::new());
        let decorated = self.decorations.ids().filter_map(|id| Some((id, self.decorations.spec_id(id)?)));
        let mut specs: Vec<SpecConstant> = decorated
            .filter_map(|(id, spec_id)| {
                let kind = Type::of(self.module, self.module.type_of(id)?)?;
                let default = defaults.get(id).value()?;
                Some(SpecConstant { spec_id, kind, default, name: self.decorations.name(self.module, id) })
            })
            .collect();
        // Several constants may share a SpecId, and then a value.
        specs.sort_by_key(|spec| (spec.spec_id, spec.name.is_none()));
        specs.dedup_by_key(|spec| spec.spec_id);
        specs
    }

    fn bindings(&self) -> Vec<Binding> {
        let mut used = self.module.id_map();
        for inst in self.module.functions.iter().flat_map(|function| function.insts()).map(|r| self.module.inst(r)) {
            for id in inst.ids() {
                used.insert(id, ());
            }
        }
        let variables = self.module.globals_with(Op::Variable).map(|r| self.module.inst(r));
        let mut bindings: Vec<Binding> = variables
            .filter_map(|inst| {
                let variable = inst.result?;
                let binding = self.decorations.binding(variable)?;
                let set = self.decorations.set(variable).unwrap_or(0);
                let Some(Type::Pointer { pointee, storage }) = Type::of(self.module, inst.ty?) else { return None };
                let name = |id| self.decorations.name(self.module, id);
                let name = name(variable).or_else(|| name(pointee));
                let kind = self.binding_kind(storage, pointee);
                Some(Binding { set, binding, kind, variable, pointee, name, used: used.get(variable).is_some() })
            })
            .collect();
        bindings.sort_by_key(|binding| (binding.set, binding.binding));
        bindings
    }

    fn binding_kind(&self, storage: StorageClass, pointee: Id) -> BindingKind {
        let is_struct = matches!(Type::of(self.module, pointee), Some(Type::Struct { .. }));
        let uniform = storage == StorageClass::Uniform;
        let is = |decoration| self.decorations.has(pointee, decoration);
        if is_struct && storage == StorageClass::StorageBuffer || uniform && is(Decoration::BufferBlock) {
            BindingKind::Storage
        } else if uniform && is_struct && is(Decoration::Block) {
            BindingKind::Uniform
        } else {
            BindingKind::Other
        }
    }

    fn push(&self) -> Option<Id> {
        let variables = self.module.globals_with(Op::Variable).map(|r| self.module.inst(r));
        variables.filter_map(|inst| Type::of(self.module, inst.ty?)).find_map(|kind| match kind {
            Type::Pointer { storage, pointee } if storage == StorageClass::PushConstant => Some(pointee),
            _ => None,
        })
    }
}
