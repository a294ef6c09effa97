//! Builds the graph of values of a [`Program`].
//!
//! A *node* is a value at one point of the program. Every id has an [`IdValue`] in each call instance: a node, or one
//! for each leaf of its type (see `leaves`), or the target of a pointer. Variables of the storage classes Function and
//! Private are not memory here: each of their leaves is a *cell*. A load is the node that was stored last, or a phi if
//! several stores may have been the last. A variable whose address escapes is opaque.
//!
//! Invariants of the nodes:
//!
//! 1. Operands are nodes; those of a phi come in pairs with the edge of each.
//! 2. Nodes that are the same value by construction have one representative ([`ValueGraph::find`]).
//! 3. A node without an instruction is a phi of a cell, or a value from before the first instruction.

use super::inst_flags::InstFlags;
use super::leaves::LeafLayouts;
use super::memory::UNKNOWN_CLASS;
use super::memory::{Intervals, Writes};
use super::pointers::{PointerTarget, pointee};
use super::program::{End, NONE, Program};
use super::shape::{Grid, Shape, float_code};
use super::value_graph::{IdValue, Kind, List, Node, ValueGraph};
use super::variables::{Cell, Current};
use super::{Assumptions, Uniformity};
use coop_ir::cfg::Case;
use coop_ir::constant::{Const, Constants};
use coop_ir::decorate::Decorations;
use coop_ir::effects::ExtSets;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::StorageClass;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, IdIndex, IdSet, IdTable, Inst, InstRef, Module};
use smallvec::smallvec;

/// A phi whose operands are found after all points were visited.
enum Pending {
    /// `OpPhi`.
    Phi { point: u32, at: InstRef, nodes: Vec<u32> },
    /// The result of a call that was followed.
    Return { callee: u32, after: u32, nodes: Vec<u32> },
}

/// The analyses from which the graph is built.
pub(super) struct BuildContext<'a> {
    pub(super) module: &'a Module,
    pub(super) program: &'a Program<'a>,
    pub(super) constants: &'a Constants,
    pub(super) decorations: &'a Decorations,
    pub(super) layouts: &'a LeafLayouts,
    pub(super) writes: &'a Writes,
    pub(super) escaped: &'a FxHashSet<Id>,
    /// The number of each value of a function.
    pub(super) numbers: &'a IdIndex,
    pub(super) grid: Grid,
    /// The Private variables that callbacks write.
    pub(super) callback_privates: &'a [Id],
    /// The values that need nodes, unless all do.
    pub(super) needed: Option<&'a IdSet>,
    pub(super) marks: &'a InstFlags,
    pub(super) sets: &'a ExtSets,
}

pub(super) struct Builder<'a> {
    pub(super) context: BuildContext<'a>,
    pub(super) graph: ValueGraph,
    pub(super) places: Vec<PointerTarget>,
    globals: IdTable<IdValue>,
    pub(super) cells: Vec<Cell>,
    /// The cells of Private variables.
    pub(super) privates: FxHashMap<Id, (u32, u32)>,
    pub(super) current: Vec<Current>,
    /// The cells that the point has accessed.
    pub(super) touched: Vec<u32>,
    pending: Vec<Pending>,
    pub(super) phis: Vec<u32>,
    inputs: FxHashMap<(Id, u32), u32>,
    pub(super) intervals: Intervals<'a>,
    pub(super) point: u32,
    /// The index of the current instruction in the point.
    pub(super) place_in_point: usize,
    /// The node of every value that is known to be uniform and nothing more.
    pub(super) uniform: u32,
    pub(super) undef: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: BuildContext<'a>) -> Builder<'a> {
        // Most values need no node; capacity that is not used costs nothing.
        let about = context.program.values as usize * 4 / 5 + 64;
        let graph = ValueGraph {
            nodes: Vec::with_capacity(about),
            ops: Vec::with_capacity(about * 2),
            alias: Vec::with_capacity(about),
            parts: Vec::new(),
            vals: vec![IdValue::None; context.program.values as usize],
            conditions: vec![NONE; context.program.points.len()],
            checks: Vec::new(),
            cell_of: FxHashMap::default(),
            source_of: FxHashMap::default(),
            constant_of: FxHashMap::default(),
            shared_stores: FxHashMap::default(),
            shared_writes: context.writes.shared_counts(),
            built_in_of: FxHashMap::default(),
        };
        let intervals = Intervals::new(context.program, context.constants, context.writes, context.marks);
        let mut this = Builder {
            globals: IdTable::new(context.module),
            context,
            graph,
            places: Vec::new(),
            cells: Vec::new(),
            privates: FxHashMap::default(),
            current: Vec::new(),
            touched: Vec::new(),
            pending: Vec::new(),
            phis: Vec::new(),
            inputs: FxHashMap::default(),
            intervals,
            point: 0,
            place_in_point: 0,
            uniform: 0,
            undef: 0,
        };
        this.uniform = this.fixed(Uniformity::Workgroup, None);
        this.undef = this.node(Kind::Undef, &[], None, 0);
        this
    }

    /// Visits all points.
    pub(super) fn run(mut self) -> ValueGraph {
        self.entry_parameters();
        for &s in &self.context.program.order {
            self.point = s;
            self.walk(s);
            self.leave();
        }
        for p in std::mem::take(&mut self.pending) {
            self.resolve(&p);
        }
        self.resolve_cells();
        self.simplify();
        self.graph
    }

    // Nodes.

    pub(super) fn node(&mut self, kind: Kind, ops: &[u32], inst: Option<InstRef>, width: u32) -> u32 {
        let start = self.graph.ops.len() as u32;
        self.graph.ops.extend_from_slice(ops);
        let id = self.graph.nodes.len() as u32;
        self.graph.alias.push(id);
        self.graph.nodes.push(Node {
            kind,
            ops: (start, self.graph.ops.len() as u32),
            point: self.point,
            inst,
            width: u8::try_from(width).unwrap_or(0),
            uniformity: Uniformity::Workgroup,
            assumes: Assumptions::NONE,
            shape: Shape::Top,
            shape_assumes: Assumptions::NONE,
        });
        id
    }

    /// Makes a node of which only the uniformity is known.
    pub(super) fn fixed(&mut self, uniformity: Uniformity, inst: Option<InstRef>) -> u32 {
        let n = self.node(Kind::Fixed, &[], inst, 0);
        (self.graph.nodes[n as usize].uniformity, self.graph.nodes[n as usize].shape) = (uniformity, Shape::Unknown);
        n
    }

    pub(super) fn shaped(&mut self, uniformity: Uniformity, shape: Shape, width: u32, assumes: Assumptions) -> u32 {
        let n = self.fixed(uniformity, None);
        let node = &mut self.graph.nodes[n as usize];
        (node.shape, node.width, node.shape_assumes) = (shape, width as u8, assumes);
        n
    }

    /// Returns a value with one node for each leaf.
    pub(super) fn assemble(&mut self, nodes: &[u32]) -> IdValue {
        if let [one] = nodes {
            return IdValue::Node(*one);
        }
        let start = self.graph.parts.len() as u32;
        self.graph.parts.extend_from_slice(nodes);
        IdValue::Parts(start, nodes.len() as u32)
    }

    /// Returns a leaf of a value; the value itself if it has one leaf.
    pub(super) fn leaf(&mut self, val: IdValue, k: u32) -> u32 {
        match val {
            IdValue::Parts(start, len) if k < len => self.graph.parts[(start + k) as usize],
            IdValue::Parts(..) | IdValue::Node(_) => self.whole(val, None),
            IdValue::PointerTarget(p) => self.address(p),
            IdValue::None => self.fixed(Uniformity::Divergent, None),
        }
    }

    /// Returns one node for a value.
    pub(super) fn whole(&mut self, val: IdValue, inst: Option<InstRef>) -> u32 {
        match val {
            IdValue::Node(n) => n,
            IdValue::Parts(start, len) => {
                let parts = self.graph.parts[start as usize..(start + len) as usize].to_vec();
                self.node(Kind::Max, &parts, inst, 0)
            }
            IdValue::PointerTarget(p) => self.address(p),
            IdValue::None => self.fixed(Uniformity::Divergent, inst),
        }
    }

    /// Returns the node of a pointer's address.
    fn address(&mut self, p: u32) -> u32 {
        match &self.places[p as usize] {
            PointerTarget::CellTargets { deps, .. } if deps.is_empty() => self.uniform,
            PointerTarget::CellTargets { deps, .. } => {
                let deps = deps.clone();
                self.node(Kind::Max, &deps, None, 0)
            }
            PointerTarget::Input { .. } => self.uniform,
            PointerTarget::Memory { node, .. } => *node,
        }
    }

    // Ids.

    /// Returns the slot of an id's value, if it is one of the call instance's function.
    fn slot(&self, id: Id) -> Option<u32> {
        self.context.program.instance_of(self.point).slot(self.context.numbers.get(id)?)
    }

    /// Returns the value of an id in the current call instance.
    pub(super) fn val(&mut self, id: Id) -> IdValue {
        if let Some(number) = self.context.numbers.get(id) {
            // In a malformed module it may be another function's: nothing is known about that.
            let slot = self.context.program.instance_of(self.point).slot(number);
            return slot.map_or(IdValue::None, |slot| self.graph.vals[slot as usize]);
        }
        if let Some(val) = self.globals.get(id) {
            return *val;
        }
        let val = self.global(id, 0);
        self.globals.insert(id, val);
        val
    }

    pub(super) fn set(&mut self, id: Option<Id>, val: IdValue) {
        if let Some(slot) = id.and_then(|id| self.slot(id)) {
            self.graph.vals[slot as usize] = val;
        }
    }

    /// Returns the node of an operand.
    pub(super) fn operand(&mut self, id: Id) -> u32 {
        let val = self.val(id);
        self.whole(val, None)
    }

    /// Returns the value of a constant or a variable.
    fn global(&mut self, id: Id, depth: u32) -> IdValue {
        let module = self.context.module;
        let Some(inst) = module.def_inst(id) else { return IdValue::None };
        let Some(ty) = inst.ty else { return IdValue::None };
        if matches!(inst.op, Op::Variable | Op::UntypedVariableKHR) {
            return self.global_variable(id, ty);
        }
        let leaves = self.context.layouts.leaves(ty);
        match inst.op {
            Op::Undef => IdValue::Node(self.undef),
            Op::ConstantComposite | Op::SpecConstantComposite if leaves > 1 && depth < 8 => {
                let mut nodes = Vec::new();
                for part in inst.ids() {
                    if nodes.len() as u32 > leaves {
                        break;
                    }
                    let val = match self.is_variable(part) {
                        true => IdValue::Node(self.uniform),
                        false => self.global(part, depth + 1),
                    };
                    let part_ty = module.type_of(part);
                    let n = part_ty.map_or(1, |t| self.context.layouts.leaves(t));
                    nodes.extend((0..n).map(|k| self.leaf(val, k)));
                }
                if nodes.len() as u32 == leaves { self.assemble(&nodes) } else { IdValue::Node(self.uniform) }
            }
            Op::ConstantNull if leaves > 1 && self.number_width(ty) > 0 => {
                let (zero, w) = (Shape::Const(0), self.number_width(ty));
                let zero = self.shaped(Uniformity::Workgroup, zero, w, Assumptions::NONE);
                self.assemble(&vec![zero; leaves as usize])
            }
            _ => {
                let w = self.context.layouts.width(ty);
                let (shape, assumes) = match self.context.constants.get(id) {
                    Const::Fixed(v) if w > 0 => (Shape::Const(v), Assumptions::NONE),
                    Const::Default { value, .. } if w > 0 => (Shape::Const(value), Assumptions::DEFAULTS),
                    _ if self.context.layouts.is_float(ty) => {
                        (float_constant(module, inst).map_or(Shape::Unknown, Shape::Const), Assumptions::NONE)
                    }
                    _ => (Shape::Unknown, Assumptions::NONE),
                };
                let n = self.shaped(Uniformity::Workgroup, shape, w, assumes);
                if assumes == Assumptions::DEFAULTS {
                    self.graph.constant_of.insert(n, id);
                }
                IdValue::Node(n)
            }
        }
    }

    /// Returns the width of the integers in a vector, or an array of arrays.
    fn number_width(&self, mut ty: Id) -> u32 {
        for _ in 0..8 {
            match self.context.module.def_inst(ty) {
                Some(i) if matches!(i.op, Op::TypeVector | Op::TypeArray) => match Type::of_inst(i) {
                    Some(Type::Vector { elem, .. } | Type::Array { elem, .. }) => ty = elem,
                    _ => return 0,
                },
                _ => break,
            }
        }
        self.context.layouts.width(ty)
    }

    fn is_variable(&self, id: Id) -> bool {
        let inst = self.context.module.def_inst(id);
        inst.is_some_and(|i| matches!(i.op, Op::Variable | Op::UntypedVariableKHR))
    }

    fn global_variable(&mut self, id: Id, ty: Id) -> IdValue {
        let module = self.context.module;
        let class = self.context.layouts.storage(ty).unwrap_or(UNKNOWN_CLASS);
        let place = match class {
            StorageClass::Input => PointerTarget::Input { variable: id, component: None },
            StorageClass::Private if !self.context.escaped.contains(&id) => {
                let pointee = pointee(module, ty);
                let init = module.def_inst(id).and_then(Inst::initializer);
                let base = self.new_cells(id, pointee, init);
                self.privates.insert(id, (base, pointee.map_or(1, |t| self.context.layouts.leaves(t))));
                PointerTarget::CellTargets {
                    bases: smallvec![base],
                    ty: pointee,
                    deps: List::new(),
                    pick: false,
                    part: false,
                    element: false,
                }
            }
            _ => PointerTarget::Memory { class, root: Some(id), node: self.uniform },
        };
        self.place(place)
    }

    pub(super) fn place(&mut self, place: PointerTarget) -> IdValue {
        self.places.push(place);
        IdValue::PointerTarget((self.places.len() - 1) as u32)
    }

    /// Makes cells for a variable, with its initializer or undefined.
    fn new_cells(&mut self, variable: Id, ty: Option<Id>, init: Option<Id>) -> u32 {
        let base = self.cells.len() as u32;
        let leaves = ty.map_or(1, |t| self.context.layouts.leaves(t));
        // The address of a variable is uniform. In a malformed module variables may refer to each other.
        let init = init.map(|id| if self.is_variable(id) { IdValue::Node(self.uniform) } else { self.val(id) });
        for k in 0..leaves {
            let node = match init {
                Some(val) => self.leaf(val, k),
                None => self.undef,
            };
            self.cells.push(Cell { variable, first: node, reads: smallvec![], stores: smallvec![] });
            self.current.push(Current { point: NONE, node: 0, stored: false });
        }
        base
    }

    /// Makes the values of the entry point's parameters: those of kernels are uniform.
    fn entry_parameters(&mut self) {
        let program = self.context.program;
        let Some(instance) = program.instances.first() else { return };
        for r in &self.context.module.functions[instance.function].params {
            let inst = self.context.module.inst(*r);
            let Some(ty) = inst.ty.filter(|_| inst.op == Op::FunctionParameter) else { continue };
            let val = match self.context.layouts.storage(ty) {
                Some(class) => {
                    // A struct by value is a copy in each invocation of the same data, as long as none writes it.
                    let by_value =
                        class == StorageClass::Function && inst.result.is_some_and(|id| self.is_only_read(id));
                    let class = if by_value { StorageClass::PushConstant } else { class };
                    let node = self.uniform;
                    self.place(PointerTarget::Memory { class, root: None, node })
                }
                None => IdValue::Node(self.fixed(Uniformity::Workgroup, Some(*r))),
            };
            self.set(inst.result, val);
        }
    }

    /// Returns true if a pointer, and those made from it, are used for reads only.
    fn is_only_read(&self, pointer: Id) -> bool {
        let module = self.context.module;
        let mut made: FxHashSet<Id> = [pointer].into_iter().collect();
        // Definitions come before their uses.
        for r in module.functions.iter().flat_map(|f| f.insts()) {
            let inst = module.inst(r);
            let mut uses = inst.ids().enumerate().filter(|(_, id)| made.contains(id)).map(|(n, _)| n).peekable();
            if uses.peek().is_none() {
                continue;
            }
            match inst.op {
                Op::Load => {}
                Op::CopyMemory | Op::CopyMemorySized if uses.all(|n| n == 1) => {}
                op if op.is_typed_access_chain() || matches!(op, Op::Bitcast | Op::CopyObject) => {
                    made.extend(inst.result);
                }
                _ => return false,
            }
        }
        true
    }

    // Points.

    fn walk(&mut self, s: u32) {
        let module = self.context.module;
        let program = self.context.program;
        let insts = program.insts(s);
        for (i, &r) in insts.iter().enumerate() {
            self.place_in_point = i;
            self.instruction(r, module.inst(r));
        }
        if let End::Call(callee) = program.point(s).end
            && let Some(&r) = insts.last()
        {
            self.call(callee, r);
        }
        if let Some(r) = program.terminator(s) {
            let inst = module.inst(r);
            if matches!(inst.op, Op::BranchConditional | Op::Switch)
                && let Some(id) = inst.branch_condition()
            {
                self.graph.conditions[s as usize] = self.operand(id);
            } else if program.out(s).len() > 1 || program.out(s).any(|e| program.edge(e).case == Case::Possible) {
                self.graph.conditions[s as usize] = self.fixed(Uniformity::Divergent, Some(r));
            }
        }
    }

    /// Makes a variable of storage class Function, at the beginning of its function.
    pub(super) fn local_variable(&mut self, inst: &Inst) {
        let (Some(id), Some(ty)) = (inst.result, inst.ty) else { return };
        let class = self.context.layouts.storage(ty).unwrap_or(UNKNOWN_CLASS);
        if class != StorageClass::Function || self.context.escaped.contains(&id) {
            let node = self.uniform;
            let val = self.place(PointerTarget::Memory { class: UNKNOWN_CLASS, root: Some(id), node });
            self.set(Some(id), val);
            return;
        }
        let pointee = pointee(self.context.module, ty);
        let base = self.new_cells(id, pointee, inst.initializer());
        for cell in base..self.cells.len() as u32 {
            self.define(cell, self.cells[cell as usize].first);
        }
        let place = PointerTarget::CellTargets {
            bases: smallvec![base],
            ty: pointee,
            deps: List::new(),
            pick: false,
            part: false,
            element: false,
        };
        let val = self.place(place);
        self.set(Some(id), val);
    }

    fn call(&mut self, callee: u32, at: InstRef) {
        let module = self.context.module;
        let program = self.context.program;
        let inst = module.inst(at);
        let instance = &program.instances[callee as usize];
        let params = program.function(callee).params.iter().filter_map(|r| {
            let p = module.inst(*r);
            (p.op == Op::FunctionParameter).then_some(p.result)?
        });
        for (param, arg) in params.zip(inst.ids_from(1)) {
            let val = self.val(arg);
            if let Some(slot) = self.context.numbers.get(param).and_then(|n| instance.slot(n)) {
                self.graph.vals[slot as usize] = val;
            }
        }
        let Some(ty) = inst.ty.filter(|t| !matches!(Type::of(module, *t), Some(Type::Void) | None)) else { return };
        let was = std::mem::replace(&mut self.point, instance.after);
        let nodes = self.phis(ty, Some(at));
        self.point = was;
        let val = match self.context.layouts.storage(ty) {
            Some(_) => self.pointer(ty, nodes[0], None),
            None => self.assemble(&nodes),
        };
        self.set(inst.result, val);
        self.pending.push(Pending::Return { callee, after: instance.after, nodes });
    }

    /// Makes a phi for each leaf of a type.
    fn phis(&mut self, ty: Id, at: Option<InstRef>) -> Vec<u32> {
        let leaves = self.context.layouts.leaves(ty);
        let w = self.context.layouts.width(ty);
        let nodes: Vec<u32> = (0..leaves).map(|_| self.node(Kind::Phi, &[], at, w)).collect();
        self.phis.extend(&nodes);
        nodes
    }

    pub(super) fn phi(&mut self, inst: &Inst, at: InstRef) {
        let Some(ty) = inst.ty else { return };
        let nodes = self.phis(ty, Some(at));
        let val = match self.context.layouts.storage(ty) {
            Some(_) => self.pointer(ty, nodes[0], None),
            None => self.assemble(&nodes),
        };
        self.set(inst.result, val);
        self.pending.push(Pending::Phi { point: self.point, at, nodes });
    }

    fn resolve(&mut self, p: &Pending) {
        let module = self.context.module;
        let program = self.context.program;
        match p {
            Pending::Phi { point, at, nodes } => {
                let inst = module.inst(*at);
                let mut values = Vec::new();
                for &e in program.into(*point) {
                    let from = program.point(program.edge(e).from);
                    let label = program.body(from.instance).cfg.label(from.block as usize);
                    let value = inst.incoming().find(|(_, from)| Some(*from) == label).map(|(value, _)| value);
                    // The operands are values of the call instance of this point.
                    self.point = *point;
                    let val = value.map_or(IdValue::None, |id| self.val(id));
                    values.push((e, val));
                }
                self.fill(nodes, &values, *point);
            }
            Pending::Return { callee, after, nodes } => {
                let mut values = Vec::new();
                for &e in program.into(*after) {
                    let from = program.edge(e).from;
                    if program.point(from).instance != *callee {
                        continue;
                    }
                    self.point = from;
                    let value = program.terminator(from).and_then(|r| module.inst(r).returned());
                    let val = value.map_or(IdValue::None, |id| self.val(id));
                    values.push((e, val));
                }
                self.fill(nodes, &values, *after);
            }
        }
    }

    fn fill(&mut self, nodes: &[u32], values: &[(u32, IdValue)], point: u32) {
        for (k, n) in nodes.iter().enumerate() {
            let mut ops = Vec::with_capacity(values.len() * 2);
            for (e, val) in values {
                self.point = self.context.program.edge(*e).from;
                ops.extend([self.leaf(*val, k as u32), *e]);
            }
            self.point = point;
            self.set_ops(*n, &ops);
        }
    }

    // Inputs.

    /// Returns the value of a built-in or another input.
    pub(super) fn input(&mut self, variable: Id, component: Option<u32>, ty: Option<Id>) -> IdValue {
        let (first, leaves) = (component.unwrap_or(0), ty.map_or(1, |t| self.context.layouts.leaves(t)));
        let nodes: List = (first..first + leaves).map(|k| self.input_node(variable, k)).collect();
        self.assemble(&nodes)
    }

    fn input_node(&mut self, variable: Id, component: u32) -> u32 {
        if let Some(n) = self.inputs.get(&(variable, component)) {
            return *n;
        }
        let was = std::mem::take(&mut self.point);
        let module = self.context.module;
        let built_in = super::inputs::which(module, self.context.decorations, variable, component);
        let ty = module.type_of(variable).and_then(|t| pointee(module, t));
        let width = match ty.map_or(0, |t| self.context.layouts.components(t).1) {
            0 => 32,
            w => w,
        };
        let n = match built_in.map(|(b, axis)| super::inputs::built_in(&self.context.grid, b, axis)) {
            Some(source) => self.shaped(source.uniformity, source.shape, width, source.assumes),
            None => self.fixed(Uniformity::Divergent, None),
        };
        self.point = was;
        self.inputs.insert((variable, component), n);
        self.graph.built_in_of.extend(built_in.map(|(b, _)| (n, b)));
        self.graph.source_of.insert(n, (variable, component));
        n
    }
}

/// Returns the code of a float constant that can't be specialized.
fn float_constant(module: &Module, inst: &Inst) -> Option<u64> {
    let scalar = types::scalar(module, inst.ty?).filter(|s| s.is_float())?;
    let value = match (inst.op, scalar) {
        (Op::ConstantNull, _) => 0.0,
        (Op::Constant, Scalar::Float { width: 16 }) => half_value(inst.literal()? as u16),
        (Op::Constant, Scalar::Float { width: 32 }) => f64::from(f32::from_bits(inst.literal()?)),
        (Op::Constant, Scalar::Float { width: 64 }) => {
            f64::from_bits(u64::from(inst.literal()?) | u64::from(inst.word(1)?) << 32)
        }
        _ => return None,
    };
    float_code(value)
}

fn half_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
    };
    if bits >> 15 == 1 { -value } else { value }
}
