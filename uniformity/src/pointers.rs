//! Pointers: their targets, and the effects of loads and stores through them.

use super::build::{BuildContext, Builder};
use super::leaves::LeafStep;
use super::loads::LoadKind;
use super::memory::UNKNOWN_CLASS;
use super::value_graph::{IdValue, Kind, List, SharedStore};
use super::{Assumptions, Uniformity};
use coop_ir::effects::read_access;
use coop_ir::grammar::Op;
use coop_ir::spv::StorageClass;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Module};
use smallvec::{SmallVec, smallvec};

/// The target of a pointer.
#[derive(Clone, Debug)]
pub(super) enum PointerTarget {
    /// Leaves of a variable.
    CellTargets {
        /// The first cell, for each of the possible targets.
        bases: List,
        ty: Option<Id>,
        /// The indices that choose among them.
        deps: List,
        /// True if there is one such index, and the targets are its choices in order.
        pick: bool,
        /// True for a part of a leaf.
        part: bool,
        /// True for an element of a matrix.
        element: bool,
    },
    /// A built-in or another input, with the component that a chain chooses, or its first one, counted through the
    /// members of a block.
    Input { variable: Id, component: Option<u32> },
    /// Memory; the node is the address.
    Memory { class: StorageClass, root: Option<Id>, node: u32 },
}

/// The fields of [`PointerTarget::CellTargets`] while a chain is followed.
pub(super) struct CellTargets {
    bases: List,
    ty: Option<Id>,
    deps: List,
    pick: bool,
    part: bool,
    element: bool,
}

impl Builder<'_> {
    /// Returns the value of a load through a pointer.
    pub(super) fn load(&mut self, pointer: Id, at: InstRef, ty: Option<Id>) -> IdValue {
        let place = match self.val(pointer) {
            IdValue::PointerTarget(p) => {
                if let Some((base, leaves)) = self.one_variable(p) {
                    return match leaves {
                        1 => IdValue::Node(self.read_cell(base)),
                        _ => {
                            let nodes: List = (base..base + leaves).map(|cell| self.read_cell(cell)).collect();
                            self.assemble(&nodes)
                        }
                    };
                }
                self.places[p as usize].clone()
            }
            other => PointerTarget::Memory { class: UNKNOWN_CLASS, root: None, node: self.whole(other, None) },
        };
        match place {
            PointerTarget::CellTargets { bases, ty: cell_ty, deps, pick, part, .. } => {
                let leaves = cell_ty.map_or(1, |t| self.context.layouts.leaves(t));
                let mut nodes = List::new();
                for k in 0..leaves {
                    let from: List = bases.iter().map(|b| self.read_cell(b + k)).collect();
                    nodes.push(if from.len() == 1 && deps.is_empty() {
                        from[0]
                    } else {
                        let kind = if pick && !part { Kind::Pick } else { Kind::Max };
                        let ops: List = deps.iter().chain(&from).copied().collect();
                        let n = self.node(kind, &ops, Some(at), 0);
                        self.set_width(n, ty);
                        n
                    });
                }
                self.assemble(&nodes)
            }
            PointerTarget::Input { variable, component } => self.input(variable, component, ty),
            PointerTarget::Memory { class, root, node } => {
                let n = self.load_memory((class, root), pointer, node, at);
                self.set_width(n, ty);
                // A pointer that was loaded may lead anywhere.
                match ty.and_then(|t| self.context.layouts.storage(t)) {
                    Some(class) => self.place(PointerTarget::Memory { class, root: None, node: n }),
                    None => IdValue::Node(n),
                }
            }
        }
    }

    /// Returns the first cell and the number of cells, if the target is known.
    fn one_variable(&self, place: u32) -> Option<(u32, u32)> {
        match &self.places[place as usize] {
            PointerTarget::CellTargets { bases, ty, deps, .. } if bases.len() == 1 && deps.is_empty() => {
                Some((bases[0], ty.map_or(1, |t| self.context.layouts.leaves(t))))
            }
            _ => None,
        }
    }

    /// Sets the width of a node, if its type has one leaf.
    pub(super) fn set_width(&mut self, n: u32, ty: Option<Id>) {
        if let Some(ty) = ty {
            self.graph.nodes[n as usize].width = self.context.layouts.width(ty) as u8;
        }
    }

    /// Returns the value of a read at an address, through a pointer of this class, into this variable.
    fn load_memory(
        &mut self,
        (class, root): (StorageClass, Option<Id>),
        pointer: Id,
        address: u32,
        at: InstRef,
    ) -> u32 {
        let BuildContext { module, decorations, writes, .. } = self.context;
        let access = writes.load_modes.access(module, decorations, module.inst(at), pointer);
        let reading = writes.reading(module, decorations, (class, root), access);
        let assumes = match reading {
            LoadKind::Shared(volatile) => {
                let beside = self.intervals.written_beside(self.point, self.place_in_point, root);
                let raced = if volatile { None } else { Some(Assumptions::RACE) };
                if beside { raced } else { Some(Assumptions::NONE) }
            }
            other => other.assumes(),
        };
        self.read(assumes, reading == LoadKind::Constant, address, at)
    }

    fn read(&mut self, assumes: Option<Assumptions>, constant: bool, address: u32, at: InstRef) -> u32 {
        match assumes {
            Some(assumes) => self.node(Kind::Load { assumes, constant }, &[address], Some(at), 0),
            None => self.fixed(Uniformity::Divergent, Some(at)),
        }
    }

    /// Returns the value of a read of an image at an address.
    pub(super) fn read_image(&mut self, at: InstRef, inst: &Inst, address: u32) -> u32 {
        let BuildContext { module, decorations, writes, .. } = self.context;
        let from = inst.id(0).and_then(|image| module.def_inst(image)).filter(|i| i.op == Op::Load);
        let access = match from.and_then(|load| load.id(0)) {
            Some(pointer) => writes.load_modes.access(module, decorations, inst, pointer),
            None => read_access(inst),
        };
        self.read(writes.reading_image(access).assumes(), false, address, at)
    }

    /// Adds all that an argument may bring into a function: for a pointer also the contents behind it.
    pub(super) fn argument(&mut self, id: Id, ops: &mut List) {
        let val = self.val(id);
        ops.push(self.whole(val, None));
        if let IdValue::PointerTarget(p) = val
            && let PointerTarget::CellTargets { bases, ty, .. } = self.places[p as usize].clone()
        {
            let leaves = ty.map_or(1, |t| self.context.layouts.leaves(t));
            for cell in bases.iter().flat_map(|b| *b..*b + leaves) {
                ops.push(self.read_cell(cell));
            }
        }
    }

    pub(super) fn store(&mut self, pointer: Id, val: IdValue, at: InstRef) {
        let IdValue::PointerTarget(p) = self.val(pointer) else { return };
        let (element, part) = match self.places[p as usize] {
            PointerTarget::CellTargets { element, part, .. } => (element, part),
            PointerTarget::Memory { class, root: Some(root), node } if class == StorageClass::Workgroup => {
                let (value, point) = (self.whole(val, None), self.point);
                let store = SharedStore { point, value, pointer, address: node };
                return self.graph.shared_stores.entry(root).or_default().push(store);
            }
            _ => return,
        };
        if let Some((base, leaves)) = self.one_variable(p).filter(|_| !part && !element) {
            for k in 0..leaves {
                let new = self.leaf(val, k);
                self.define(base + k, new);
            }
            return;
        }
        let PointerTarget::CellTargets { bases, ty, deps, .. } = self.places[p as usize].clone() else { return };
        let leaves = ty.map_or(1, |t| self.context.layouts.leaves(t));
        for base in &bases {
            for k in 0..leaves {
                let new = self.leaf(val, k);
                let cell = base + k;
                // Every invocation writes its own element.
                let new = if element { self.fixed(Uniformity::Divergent, Some(at)) } else { new };
                let mut ops: List = smallvec![self.read_cell(cell), new];
                ops.extend_from_slice(&deps);
                let n = self.node(Kind::Max, &ops, Some(at), 0);
                self.define(cell, n);
            }
        }
    }

    /// Returns the target of an access chain.
    pub(super) fn chain(&mut self, inst: &Inst, at: InstRef) -> IdValue {
        let untyped = matches!(inst.op, Op::UntypedAccessChainKHR | Op::UntypedInBoundsAccessChainKHR);
        let skip = usize::from(untyped);
        let Some(base) = inst.id(skip) else { return IdValue::None };
        let val = self.val(base);
        let by_element = inst.op.is_element_chain();
        let place = match val {
            IdValue::PointerTarget(p) if !by_element => self.places[p as usize].clone(),
            IdValue::PointerTarget(p) => match self.places[p as usize].clone() {
                PointerTarget::Memory { class, root, node } => PointerTarget::Memory { class, root, node },
                _ => PointerTarget::Memory { class: UNKNOWN_CLASS, root: None, node: self.uniform },
            },
            other => PointerTarget::Memory { class: UNKNOWN_CLASS, root: None, node: self.whole(other, None) },
        };
        let indices: SmallVec<[Id; 4]> = inst.ids_from(skip + 1).collect();
        let constant = |id: Id| self.context.constants.get(id).fixed();
        let place = match place {
            PointerTarget::CellTargets { bases, ty, deps, pick, part, element } => {
                let mut c = CellTargets { bases, ty, deps, pick, part, element };
                for id in indices {
                    let value = constant(id);
                    self.step(&mut c, id, value);
                }
                let CellTargets { bases, ty, deps, pick, part, element } = c;
                PointerTarget::CellTargets { bases, ty, deps, pick, part, element }
            }
            PointerTarget::Input { variable, component } => {
                let ty = self.context.module.type_of(base).and_then(|ty| pointee(self.context.module, ty));
                match ty.and_then(|ty| self.part_of(ty, &indices)) {
                    Some(part) => PointerTarget::Input { variable, component: Some(component.unwrap_or(0) + part) },
                    // Arrays of inputs, which compute shaders do not have.
                    None => PointerTarget::Memory { class: UNKNOWN_CLASS, root: Some(variable), node: self.uniform },
                }
            }
            PointerTarget::Memory { class, root, node } => {
                let mut ops: List = if node == self.uniform { List::new() } else { smallvec![node] };
                for id in indices {
                    if constant(id).is_none() {
                        ops.push(self.operand(id));
                    }
                }
                let class = if class == UNKNOWN_CLASS {
                    inst.ty.and_then(|t| self.context.layouts.storage(t)).unwrap_or(UNKNOWN_CLASS)
                } else {
                    class
                };
                let node = if ops.is_empty() { self.uniform } else { self.node(Kind::Max, &ops, Some(at), 0) };
                PointerTarget::Memory { class, root, node }
            }
        };
        self.place(place)
    }

    /// Returns the (first) leaf of a type to which constant indices lead.
    fn part_of(&self, ty: Id, indices: &[Id]) -> Option<u32> {
        let mut at = (Some(ty), 0);
        for id in indices {
            match self.context.layouts.step(self.context.module, at.0?, self.context.constants.get(*id).fixed()) {
                (inner, LeafStep::At(n)) => at = (inner, at.1 + n),
                _ => return None,
            }
        }
        Some(at.1)
    }

    /// Returns the target of `OpBufferPointerEXT`: a buffer that other descriptors may alias.
    pub(super) fn buffer(&mut self, inst: &Inst) -> IdValue {
        let node = inst.id(0).map_or(self.uniform, |id| self.operand(id));
        let class = inst.ty.and_then(|t| self.context.layouts.storage(t)).unwrap_or(UNKNOWN_CLASS);
        self.place(PointerTarget::Memory { class, root: None, node })
    }

    pub(super) fn step(&mut self, c: &mut CellTargets, index: Id, value: Option<u64>) {
        let module = self.context.module;
        let Some(ty) = c.ty else { return };
        let (child, step) = self.context.layouts.step(module, ty, value);
        let is_matrix = || {
            matches!(Type::of(module, ty), Some(Type::CoopMat(_)))
                || module.def_inst(ty).is_some_and(|i| i.op == Op::TypeCooperativeMatrixNV)
        };
        c.ty = child;
        match step {
            LeafStep::At(offset) => c.bases.iter_mut().for_each(|b| *b += offset),
            LeafStep::Any { count, stride } => {
                c.pick = c.bases.len() == 1 && value.is_none() && c.deps.is_empty();
                // More targets than that do not help.
                let each: List = c.bases.iter().flat_map(|b| (0..count).map(move |i| b + i * stride)).collect();
                c.bases = each;
                if value.is_none() {
                    c.deps.push(self.operand(index));
                }
            }
            LeafStep::Into if is_matrix() => (c.element, c.ty) = (true, None),
            LeafStep::Into => {
                c.part = true;
                if value.is_none() {
                    c.deps.push(self.operand(index));
                }
                // The inside of a leaf has no leaves of its own.
                c.ty = None;
            }
        }
    }

    /// Returns a pointer of which only the address is known.
    pub(super) fn pointer(&mut self, ty: Id, node: u32, root: Option<Id>) -> IdValue {
        let class = self.context.layouts.storage(ty).unwrap_or(UNKNOWN_CLASS);
        self.place(PointerTarget::Memory { class, root, node })
    }

    /// Invalidates whatever a call that is not followed might write.
    pub(super) fn clobber(&mut self, args: &[Id], at: InstRef) {
        let node = self.fixed(Uniformity::Divergent, Some(at));
        let mut cells: Vec<u32> = Vec::new();
        for id in args {
            if let IdValue::PointerTarget(p) = self.val(*id)
                && let PointerTarget::CellTargets { bases, ty, .. } = &self.places[p as usize]
            {
                let leaves = ty.map_or(1, |t| self.context.layouts.leaves(t));
                cells.extend(bases.iter().flat_map(|b| *b..*b + leaves));
            }
        }
        let all: Vec<Id> =
            self.context.module.globals_with(Op::Variable).filter_map(|r| self.context.module.inst(r).result).collect();
        cells.extend(self.private_cells(&all));
        for cell in cells {
            self.define(cell, node);
        }
    }

    /// Invalidates the Private variables that callbacks write.
    pub(super) fn callback(&mut self, at: InstRef) {
        let ids = self.context.callback_privates;
        if ids.is_empty() {
            return;
        }
        let node = self.fixed(Uniformity::Divergent, Some(at));
        for cell in self.private_cells(ids) {
            self.define(cell, node);
        }
    }

    pub(super) fn private_cells(&mut self, ids: &[Id]) -> Vec<u32> {
        let mut cells = Vec::new();
        for id in ids {
            self.val(*id);
            if let Some((base, n)) = self.privates.get(id) {
                cells.extend(*base..base + n);
            }
        }
        cells
    }
}

pub(super) fn pointee(module: &Module, pointer: Id) -> Option<Id> {
    match Type::of(module, pointer)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    }
}
