//! Finds the memory that each pointer points into.
//!
//! The storage classes of a kernel are of little help (Generic is any, and bitcasts change them), so every pointer is
//! followed to its origin. It then becomes a number: a 64-bit address for memory of the device, a 32-bit offset in
//! bytes for a variable, which is known at compile time. Pointers into matrices stay pointers.

use super::Kernel;
use super::variables::{FlatVariable, Initial};
use crate::Refusal;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::StorageClass;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Op};

/// The memory that a pointer points into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PointerTarget {
    /// Memory of the device: the pointer is its address.
    Global,
    /// A variable, by its number: the pointer is an offset in bytes.
    FlatVariable(usize),
    /// A built-in variable.
    BuiltIn(Id),
    /// A matrix in a variable of the function.
    Matrix,
}

impl Kernel<'_> {
    /// Finds the target of every pointer of the function.
    pub(super) fn find_targets(&mut self) -> Result<(), Refusal> {
        self.places_of_parameters()?;
        self.places_of_globals()?;
        let insts: Vec<InstRef> =
            self.m.functions[self.f].blocks.iter().flat_map(|b| b.insts.iter().copied()).collect();
        let pointers: Vec<InstRef> = insts.into_iter().filter(|r| self.gives_pointer(*r)).collect();
        for r in &pointers {
            self.place_of_source(*r)?;
        }
        loop {
            let mut changed = false;
            for r in &pointers {
                changed |= self.follow(*r)?;
            }
            if !changed {
                break;
            }
        }
        for r in pointers {
            let id = self.m.inst(r).result;
            if let Some(id) = id.filter(|id| !self.places.contains_key(id)) {
                // Only null and undefined pointers are left: any address will do.
                self.places.insert(id, PointerTarget::Global);
            }
        }
        self.loaded_places()
    }

    /// Refuses Generic pointers that are read from memory, which are assumed to be addresses of the device's memory, if
    /// the function stores a pointer to a variable: they might be that.
    fn loaded_places(&self) -> Result<(), Refusal> {
        let insts = || self.m.functions[self.f].blocks.iter().flat_map(|b| b.insts.iter().copied());
        let keeps_variable = |r: &InstRef| {
            let inst = self.m.inst(*r);
            let values = match inst.op {
                Op::Store => inst.ids_from(1),
                Op::CompositeConstruct | Op::CompositeInsert | Op::ConvertPtrToU => inst.ids_from(0),
                _ => return false,
            };
            values.into_iter().any(|v| self.places.get(&v).is_some_and(|place| *place != PointerTarget::Global))
        };
        let loaded = |r: &InstRef| self.m.inst(*r).op == Op::Load && self.gives_pointer(*r) && !self.is_of_device(*r);
        let Some(r) = insts().find(loaded) else { return Ok(()) };
        if insts().any(|r| keeps_variable(&r)) {
            return Err(pointer_from(r, "read from memory"));
        }
        Ok(())
    }

    /// Returns true if a pointer that an instruction gives is an address of the device's memory by its storage class.
    fn is_of_device(&self, r: InstRef) -> bool {
        let device = [StorageClass::CrossWorkgroup, StorageClass::UniformConstant];
        self.m.inst(r).ty.and_then(|t| self.storage_of(t)).is_some_and(|c| device.contains(&c))
    }

    fn gives_pointer(&self, r: InstRef) -> bool {
        self.m.inst(r).ty.is_some_and(|t| self.storage_of(t).is_some())
    }

    /// Returns the storage class of a pointer type.
    pub(super) fn storage_of(&self, ty: Id) -> Option<StorageClass> {
        match Type::of(self.m, ty)? {
            Type::Pointer { storage, .. } => Some(storage),
            _ => None,
        }
    }

    /// Returns the pointee type of a pointer type.
    pub(super) fn pointee(&self, ty: Id) -> Option<Id> {
        match Type::of(self.m, ty)? {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        }
    }

    /// Returns the function's parameters, without the source positions among them.
    pub(super) fn parameters(&self) -> Vec<InstRef> {
        let is = |r: &InstRef| self.m.inst(*r).op == Op::FunctionParameter;
        self.m.functions[self.f].params.iter().copied().filter(is).collect()
    }

    fn places_of_parameters(&mut self) -> Result<(), Refusal> {
        for (index, r) in self.parameters().into_iter().enumerate() {
            let Inst { op: Op::FunctionParameter, ty: Some(ty), result: Some(id), .. } = *self.m.inst(r) else {
                continue;
            };
            let Some(storage) = self.storage_of(ty) else { continue };
            let place = if storage == StorageClass::Workgroup {
                let size = self.local_arguments.get(&(index as u32)).copied();
                let Some(size) = size else {
                    let why = format!("argument {index} is a pointer to memory that a workgroup shares");
                    let remedy = format!("give its size with --local-arg {index}=BYTES");
                    return Err(Refusal::new("refused-vulkan-local-argument", Some(r), why, remedy));
                };
                self.add_root(FlatVariable::new(StorageClass::Workgroup, u64::from(size), Initial::None, id))
            } else if storage == StorageClass::Function {
                // A struct by value.
                let size = self.pointee(ty).and_then(|t| self.layout.size(self.m, t)).map(|s| s.bytes);
                let Some(size) = size else { return Err(self.no_layout(r)) };
                self.add_root(FlatVariable::new(StorageClass::Function, size, Initial::Argument(index), id))
            } else {
                PointerTarget::Global
            };
            self.places.insert(id, place);
        }
        Ok(())
    }

    fn places_of_globals(&mut self) -> Result<(), Refusal> {
        for r in self.m.globals_with(Op::Variable).collect::<Vec<_>>() {
            let Inst { ty: Some(ty), result: Some(id), .. } = *self.m.inst(r) else { continue };
            if !self.used.contains(&id) {
                continue;
            }
            let initial = self.m.inst(r).initializer();
            let class = self.m.inst(r).variable_storage();
            let size = self.pointee(ty).and_then(|t| self.layout.size(self.m, t)).map(|s| s.bytes);
            let place = match (class, size) {
                (Some(c), _) if c == StorageClass::Input => PointerTarget::BuiltIn(id),
                (Some(c), Some(size)) if c == StorageClass::Workgroup => {
                    self.add_root(FlatVariable::new(StorageClass::Workgroup, size, Initial::None, id))
                }
                (Some(c), Some(size)) if c == StorageClass::UniformConstant && initial.is_some() => {
                    let initial = initial.map_or(Initial::None, Initial::Constant);
                    self.add_root(FlatVariable::new(StorageClass::Private, size, initial, id))
                }
                _ => {
                    let name = self.layout.name(self.m, id).unwrap_or_else(|| id.to_string());
                    let why = format!("the variable '{name}' of the module is neither shared, constant nor a built-in");
                    let remedy = "pass a pointer as an argument instead";
                    return Err(Refusal::new("refused-vulkan-variable", Some(r), why, remedy));
                }
            };
            self.places.insert(id, place);
        }
        Ok(())
    }

    fn add_root(&mut self, root: FlatVariable) -> PointerTarget {
        self.roots.push(root);
        PointerTarget::FlatVariable(self.roots.len() - 1)
    }

    /// Finds the target of a pointer that an instruction makes from operands other than pointers.
    fn place_of_source(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (Some(ty), Some(id)) = (inst.ty, inst.result) else { return Ok(()) };
        let place = match inst.op {
            Op::Variable => {
                let Some(pointee) = self.pointee(ty) else { return Ok(()) };
                if self.carriers.has(self.m, pointee) {
                    PointerTarget::Matrix
                } else {
                    let initial = inst.initializer().map_or(Initial::None, Initial::Constant);
                    let Some(size) = self.layout.size(self.m, pointee) else { return Err(self.no_layout(r)) };
                    self.add_root(FlatVariable::new(StorageClass::Function, size.bytes, initial, id))
                }
            }
            // Generic pointers are checked once all targets are known.
            Op::Load if self.storage_of(ty) == Some(StorageClass::Generic) => PointerTarget::Global,
            Op::Load | Op::ConvertUToPtr => {
                if !self.is_of_device(r) {
                    let from = if inst.op == Op::Load { "read from memory" } else { "made of a number" };
                    return Err(pointer_from(r, from));
                }
                PointerTarget::Global
            }
            _ => return Ok(()),
        };
        self.places.insert(id, place);
        Ok(())
    }

    /// Finds the target of a pointer derived from others. Returns true if it is new.
    fn follow(&mut self, r: InstRef) -> Result<bool, Refusal> {
        let inst = self.m.inst(r);
        let Some(id) = inst.result else { return Ok(false) };
        let from: Vec<Id> = match inst.op {
            op if op.derives_pointer() => inst.derived_from().into_iter().collect(),
            Op::Select => inst.ids_from(1).collect(),
            Op::Phi => inst.operands.iter().step_by(2).filter_map(|o| o.id()).collect(),
            Op::Variable | Op::Load | Op::ConvertUToPtr | Op::Undef | Op::ConstantNull => return Ok(false),
            op => {
                let why = format!("a pointer comes from {op}");
                let remedy =
                    "only what compilers emit for pointers is followed: access chains, casts, phis and selects";
                return Err(Refusal::new("refused-vulkan-pointer", Some(r), why, remedy));
            }
        };
        let Some(found) = from.iter().find_map(|p| self.places.get(p).copied()) else { return Ok(false) };
        let merges = matches!(inst.op, Op::Select | Op::Phi);
        let other = from.iter().find(|p| self.places.get(p).is_some_and(|q| *q != found));
        if other.is_some() || merges && matches!(found, PointerTarget::Matrix | PointerTarget::BuiltIn(_)) {
            let why = "a pointer may point into one variable or another, or into global memory".to_owned();
            let remedy = "compile with more optimization (-O2), or use one array for both";
            return Err(Refusal::new("refused-vulkan-pointer", Some(r), why, remedy));
        }
        Ok(self.places.insert(id, found).is_none())
    }

    pub(super) fn no_layout(&self, r: InstRef) -> Refusal {
        let why = "a type has no known layout in memory";
        Refusal::new("refused-vulkan-type", Some(r), why, "use integers, floats, vectors, arrays and structs of them")
    }
}

/// Refuses a pointer whose origin can't be followed.
fn pointer_from(r: InstRef, from: &str) -> Refusal {
    let why = format!("a pointer that is {from} does not say which memory it points into");
    let remedy = "only pointers to global memory can be; compile with more optimization (-O2), so that pointers stay in \
                  registers";
    Refusal::new("refused-vulkan-generic", Some(r), why, remedy)
}

/// The targets, by pointer.
pub(super) type PointerTargets = FxHashMap<Id, PointerTarget>;
