//! Classifies reads of memory: always the same value, the same unless there is a race, or any value.
//!
//! Memory that no instruction of the module writes need not be constant: another dispatch, or the host, may write it.
//! There are three kinds of reads.
//!
//! - A volatile read (`Volatile`, or the decoration) says that somebody writes: each invocation may read something
//!   else.
//! - Without an order between the write and the read there is a race, so a read that can't be ordered with writes of
//!   others during the dispatch is constant. Reads of the Vulkan and the GLSL450 memory model are private, and no order
//!   includes them, except for NonPrivate or Coherent ones. Only atomics on memory that is shared with other dispatches
//!   order anything with these.
//! - The rest is the same for all invocations that read between the same two atomics: an assumption.
//!
//! Only invocations of the module write shared memory.

use super::Assumptions;
use super::memory::{Writes, pointee};
use coop_ir::decorate::Decorations;
use coop_ir::effects::{ReadAccess, read_access};
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{Decoration, MemoryModel, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module};

/// The kind of a read, for invocations that read at one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoadKind {
    /// One value, whenever they read.
    Constant,
    /// One value, if nobody writes at the same time.
    Unraced,
    /// Shared memory: it depends on the barriers between reads and writes, see `Intervals`. True if the read is
    /// volatile.
    Shared(bool),
    /// Any value.
    Anything,
}

impl LoadKind {
    /// Returns the assumptions under which the read gives one value, if it can. Barriers are not taken into account.
    pub(super) fn assumes(self) -> Option<Assumptions> {
        match self {
            LoadKind::Constant => Some(Assumptions::NONE),
            LoadKind::Unraced | LoadKind::Shared(false) => Some(Assumptions::RACE),
            LoadKind::Shared(true) | LoadKind::Anything => None,
        }
    }
}

/// The defaults and decorations of a module that say how memory is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadModes {
    volatile: bool,
    coherent: bool,
    /// True if reads are private by default.
    private: bool,
}

impl LoadModes {
    pub(super) fn new(module: &Module) -> LoadModes {
        let has = |needed: Decoration| {
            let own = module.globals_with(Op::Decorate).any(|r| module.inst(r).decorates(needed));
            own || module.globals_with(Op::MemberDecorate).any(|r| module.inst(r).decorates_member(needed))
        };
        let model = module.memory_model().map(|(_, memory)| memory);
        let private = !matches!(model, Some(MemoryModel::Simple | MemoryModel::OpenCL));
        LoadModes { volatile: has(Decoration::Volatile), coherent: has(Decoration::Coherent), private }
    }

    /// Returns how an instruction reads memory through a pointer, or an image behind it.
    pub(super) fn access(self, module: &Module, decorations: &Decorations, inst: &Inst, pointer: Id) -> ReadAccess {
        let access = read_access(inst);
        let decorated = |asked: bool, d: Decoration| asked && is_decorated(module, decorations, pointer, d);
        ReadAccess {
            volatile: access.volatile || decorated(self.volatile, Decoration::Volatile),
            non_private: access.non_private || !self.private || decorated(self.coherent, Decoration::Coherent),
        }
    }
}

impl Writes {
    /// Returns the kind of a read through a pointer of this class, into this variable.
    pub(super) fn reading(
        &self,
        module: &Module,
        decorations: &Decorations,
        (class, root): (StorageClass, Option<Id>),
        access: ReadAccess,
    ) -> LoadKind {
        use StorageClass as S;
        match class {
            // Data of the dispatch; handles, except for OpenCL's constant memory.
            S::PushConstant | S::ShaderRecordBufferKHR => LoadKind::Constant,
            S::UniformConstant if !access.volatile => LoadKind::Constant,
            S::Workgroup if self.read_only(module, decorations, class, root) => LoadKind::Constant,
            S::Workgroup => LoadKind::Shared(access.volatile),
            _ if access.volatile => LoadKind::Anything,
            S::StorageBuffer | S::Uniform | S::PhysicalStorageBuffer | S::CrossWorkgroup | S::Image => {
                let written = !self.read_only(module, decorations, class, root);
                let ordered = access.non_private && self.atomics;
                if written || ordered { LoadKind::Unraced } else { LoadKind::Constant }
            }
            _ => LoadKind::Anything,
        }
    }

    /// Returns the kind of a read of an image.
    pub(super) fn reading_image(&self, access: ReadAccess) -> LoadKind {
        match access {
            ReadAccess { volatile: true, .. } => LoadKind::Anything,
            ReadAccess { non_private, .. } if self.images || non_private && self.atomics => LoadKind::Unraced,
            _ => LoadKind::Constant,
        }
    }
}

/// Returns true if memory behind a pointer has a decoration: the variable, a member on the path, or a member that is
/// read. It counts as decorated if the origin of the pointer is not known.
fn is_decorated(module: &Module, decorations: &Decorations, pointer: Id, decoration: Decoration) -> bool {
    let mut id = pointer;
    let target = module.type_of(pointer).and_then(|t| match Type::of(module, t)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    });
    if target.is_some_and(|ty| has_member(module, decorations, ty, decoration)) {
        return true;
    }
    for _ in 0..64 {
        if decorations.has(id, decoration) {
            return true;
        }
        let Some(inst) = module.def_inst(id) else { return true };
        let (base, ty, first) = match inst.op {
            Op::Variable | Op::UntypedVariableKHR | Op::Load | Op::ConvertUToPtr | Op::Bitcast => return false,
            Op::CopyObject => (inst.copy_source(), None, 0),
            // The elements of an untyped chain are not followed.
            op if op.is_untyped() && op.is_element_chain() => return true,
            op => {
                let Some(chain) = inst.access_chain() else { return true };
                let ty = chain.data_type.or_else(|| pointed(module, chain.base));
                (Some(chain.base), ty, chain.first + usize::from(op.is_element_chain()))
            }
        };
        if ty.is_some_and(|ty| leads_through(module, decorations, ty, inst.ids_from(first), decoration)) {
            return true;
        }
        let Some(base) = base else { return true };
        id = base;
    }
    true
}

fn pointed(module: &Module, pointer: Id) -> Option<Id> {
    match Type::of(module, module.type_of(pointer)?)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => pointee(module, pointer),
    }
}

/// Returns true if a member on a path of indices has a decoration.
fn leads_through(
    module: &Module,
    decorations: &Decorations,
    mut ty: Id,
    path: impl Iterator<Item = Id>,
    decoration: Decoration,
) -> bool {
    for index in path {
        match Type::of(module, ty) {
            Some(Type::Struct { members }) => {
                let member = module.def_inst(index).and_then(|i| i.word(0));
                let Some(inner) = member.and_then(|m| members.get(m as usize)) else { return true };
                if decorations.member_has(ty, member.unwrap_or(0), decoration) {
                    return true;
                }
                ty = *inner;
            }
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. }) => ty = elem,
            Some(Type::Matrix { column, .. }) => ty = column,
            _ => return false,
        }
    }
    false
}

/// Returns true if a member of a type, or of a part of it, has a decoration.
fn has_member(module: &Module, decorations: &Decorations, ty: Id, decoration: Decoration) -> bool {
    // Structs of structs may have very many parts: each type is looked at once.
    let (mut work, mut seen) = (vec![ty], FxHashSet::default());
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match Type::of(module, ty) {
            Some(Type::Struct { members }) => {
                if (0..members.len() as u32).any(|n| decorations.member_has(ty, n, decoration)) {
                    return true;
                }
                work.extend(members);
            }
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => work.push(elem),
            _ => {}
        }
    }
    false
}
