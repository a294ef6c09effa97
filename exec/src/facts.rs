//! What a module says about how it is to be run: its entry points, what they need, what they are bound to.

use std::collections::BTreeMap;

use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::grammar::Kind;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op};

use crate::error::Error;
use crate::layout::Layout;

/// The GLCompute execution model.
const GL_COMPUTE: u32 = 5;
/// Decorations.
const SPEC_ID: u32 = 1;
const BLOCK: u32 = 2;
const BUFFER_BLOCK: u32 = 3;
const BINDING: u32 = 33;
const DESCRIPTOR_SET: u32 = 34;
const BUILT_IN: u32 = 11;
const WORKGROUP_SIZE: u32 = 25;
/// Execution modes.
const LOCAL_SIZE: u32 = 17;
const LOCAL_SIZE_ID: u32 = 38;
/// Storage classes.
const UNIFORM: u32 = 2;
const PUSH_CONSTANT: u32 = 9;
const STORAGE_BUFFER: u32 = 12;

/// A compute entry point.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its function.
    pub function: Id,
    /// The size of a workgroup; spec constants may decide it.
    pub local_size: [Const; 3],
    /// Whether the size is given by `LocalSizeId`, which asks for maintenance4.
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
    /// Bytes of the value that specialises it: a Boolean is a `VkBool32`.
    pub fn size(&self) -> usize {
        self.kind.scalar().map_or(4, |scalar| scalar.bytes() as usize)
    }
}

/// What a binding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingKind {
    /// A storage buffer.
    Storage,
    /// A uniform buffer.
    Uniform,
    /// Something that cases have no word for: an image, a sampler, an array of buffers.
    Other,
}

/// A variable with a descriptor set and a binding.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Descriptor set.
    pub set: u32,
    /// Binding.
    pub binding: u32,
    /// What it is.
    pub kind: BindingKind,
    /// The variable.
    pub variable: Id,
    /// The type that it points to.
    pub pointee: Id,
    /// The name of the variable, or of its block.
    pub name: Option<String>,
    /// Whether any function mentions it.
    pub used: bool,
}

/// What there is to know before running a module.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// Major and minor version of SPIR-V.
    pub version: (u8, u8),
    /// Capabilities, in order.
    pub capabilities: Vec<u32>,
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
}

impl Facts {
    /// Reads a module's facts under a specialization.
    pub fn new(module: &Module, specialization: &Specialization) -> Facts {
        let reader = Reader::new(module, specialization);
        Facts {
            version: module.header.version_pair(),
            capabilities: module.capabilities().collect(),
            extensions: reader.extensions(),
            entries: reader.entries(),
            specs: reader.specs(),
            bindings: reader.bindings(),
            push: reader.push(),
            push_size: reader.push().and_then(|block| Layout::new(module, specialization).size(block)),
        }
    }

    /// The entry point of that name; the only one if no name is given.
    pub fn entry(&self, name: Option<&str>) -> Result<&Entry, Error> {
        let names = || self.entries.iter().map(|entry| format!("'{}'", entry.name)).collect::<Vec<_>>().join(", ");
        match (name, self.entries.as_slice()) {
            (_, []) => Err(Error::module("there is no compute entry point")),
            (None, [entry]) => Ok(entry),
            (None, _) => Err(Error::case(format!("the module has several entry points, say which: {}", names()))),
            (Some(name), entries) => entries.iter().find(|entry| entry.name == name).ok_or_else(|| {
                Error::case(format!("the module has no compute entry point '{name}', only {}", names()))
            }),
        }
    }
}

/// The name of a capability, or its number.
pub fn capability_name(capability: u32) -> String {
    match Kind::Capability.enumerant(capability) {
        Some(enumerant) => enumerant.name.to_string(),
        None => format!("capability {capability}"),
    }
}

struct Reader<'a> {
    module: &'a Module,
    constants: Constants,
    decorations: BTreeMap<(Id, u32), u32>,
    names: BTreeMap<Id, String>,
}

impl<'a> Reader<'a> {
    fn new(module: &'a Module, specialization: &Specialization) -> Reader<'a> {
        let mut decorations = BTreeMap::new();
        let mut names = BTreeMap::new();
        for inst in module.globals.iter().map(|&r| module.inst(r)) {
            match (inst.op, inst.id(0)) {
                (Op::Decorate, Some(target)) => {
                    if let Some(decoration) = inst.word(1) {
                        decorations.insert((target, decoration), inst.word(2).unwrap_or(0));
                    }
                }
                (Op::Name, Some(target)) => {
                    if let Some((name, _)) = inst.string(1).filter(|(name, _)| !name.is_empty()) {
                        names.insert(target, name);
                    }
                }
                _ => {}
            }
        }
        Reader { module, constants: Constants::new(module, specialization), decorations, names }
    }

    fn globals(&self, op: Op) -> impl Iterator<Item = &'a Inst> + use<'a> {
        let module = self.module;
        module.globals.iter().map(move |&r| module.inst(r)).filter(move |inst| inst.op == op)
    }

    fn decoration(&self, target: Id, decoration: u32) -> Option<u32> {
        self.decorations.get(&(target, decoration)).copied()
    }

    fn extensions(&self) -> Vec<String> {
        self.globals(Op::Extension).filter_map(|inst| Some(inst.string(0)?.0)).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let compute = self.globals(Op::EntryPoint).filter(|inst| inst.word(0) == Some(GL_COMPUTE));
        compute
            .filter_map(|inst| {
                let function = inst.id(1)?;
                let (name, _) = inst.string(2)?;
                let (local_size, by_id) = self.local_size(function);
                Some(Entry { name, function, local_size, by_id })
            })
            .collect()
    }

    fn local_size(&self, function: Id) -> ([Const; 3], bool) {
        // A WorkgroupSize built-in overrides any execution mode.
        let built_in = self
            .decorations
            .iter()
            .find(|&(&(_, decoration), &value)| decoration == BUILT_IN && value == WORKGROUP_SIZE);
        if let Some((&(id, _), _)) = built_in
            && let Some(size) = self.module.def_inst(id)
        {
            return ([0, 1, 2].map(|axis| self.constant(size.id(axis))), false);
        }
        let of = |op| self.globals(op).filter(move |inst| inst.id(0) == Some(function));
        if let Some(mode) = of(Op::ExecutionModeId).find(|inst| inst.word(1) == Some(LOCAL_SIZE_ID)) {
            return ([2, 3, 4].map(|index| self.constant(mode.id(index))), true);
        }
        match of(Op::ExecutionMode).find(|inst| inst.word(1) == Some(LOCAL_SIZE)) {
            Some(mode) => ([2, 3, 4].map(|index| Const::Fixed(mode.word(index).unwrap_or(1).into())), false),
            None => ([Const::Unknown, Const::Unknown, Const::Unknown], false),
        }
    }

    fn constant(&self, id: Option<Id>) -> Const {
        id.map_or(Const::Unknown, |id| self.constants.get(id))
    }

    fn specs(&self) -> Vec<SpecConstant> {
        // Defaults are those of the module, whatever it is specialized with.
        let defaults = Constants::new(self.module, &Specialization::new());
        let decorated = self.decorations.iter().filter(|&(&(_, decoration), _)| decoration == SPEC_ID);
        let mut specs: Vec<SpecConstant> = decorated
            .filter_map(|(&(id, _), &spec_id)| {
                let kind = Type::of(self.module, self.module.type_of(id)?)?;
                let default = defaults.get(id).value()?;
                Some(SpecConstant { spec_id, kind, default, name: self.names.get(&id).cloned() })
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
        let mut bindings: Vec<Binding> = self
            .globals(Op::Variable)
            .filter_map(|inst| {
                let variable = inst.result?;
                let binding = self.decoration(variable, BINDING)?;
                let set = self.decoration(variable, DESCRIPTOR_SET).unwrap_or(0);
                let Some(Type::Pointer { pointee, storage }) = Type::of(self.module, inst.ty?) else { return None };
                let name = self.names.get(&variable).or_else(|| self.names.get(&pointee)).cloned();
                let kind = self.binding_kind(storage, pointee);
                Some(Binding { set, binding, kind, variable, pointee, name, used: used.get(variable).is_some() })
            })
            .collect();
        bindings.sort_by_key(|binding| (binding.set, binding.binding));
        bindings
    }

    fn binding_kind(&self, storage: u32, pointee: Id) -> BindingKind {
        let is_struct = matches!(Type::of(self.module, pointee), Some(Type::Struct { .. }));
        match storage {
            STORAGE_BUFFER if is_struct => BindingKind::Storage,
            UNIFORM if self.decoration(pointee, BUFFER_BLOCK).is_some() => BindingKind::Storage,
            UNIFORM if is_struct && self.decoration(pointee, BLOCK).is_some() => BindingKind::Uniform,
            _ => BindingKind::Other,
        }
    }

    fn push(&self) -> Option<Id> {
        self.globals(Op::Variable).find_map(|inst| match Type::of(self.module, inst.ty?)? {
            Type::Pointer { storage: PUSH_CONSTANT, pointee } => Some(pointee),
            _ => None,
        })
    }
}
