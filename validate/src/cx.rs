//! The facts about a module that the rules use, computed once.

use crate::env::TargetEnv;
use crate::matrix::{MatrixType, NvMatrix};
use crate::options::Options;
use crate::verdict::Verdict;
use coop_ir::cfg::{Cfg, Cfgs, is_never_executed};
use coop_ir::constant::{Const, Constants};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{CallGraph, EntryPoint, entry_points};
use coop_ir::grammar::implied_capabilities;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{AddressingModel, Capability};
use coop_ir::types::{CoopMatView, Scalar, Type, coop_mat, scalar};
use coop_ir::{Id, IdMap, Inst, InstRef, Module, Op, spv};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

/// The class of a type, or of the type of a value, with respect to matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TypeClass {
    /// A matrix of SPV_KHR_cooperative_matrix.
    Matrix,
    /// A matrix of SPV_NV_cooperative_matrix.
    MatrixNv,
    /// An array or a struct with a matrix somewhere inside.
    Holder,
    /// A pointer to one of these.
    Pointer,
    /// A tensor layout.
    Layout,
    /// A tensor view.
    View,
    /// An array or a struct with a layout or view somewhere inside, and no matrix.
    TensorHolder,
    /// A pointer to one of these three.
    TensorPointer,
}

impl TypeClass {
    /// Returns the class of a composite with something of this class inside.
    fn around(self) -> Option<TypeClass> {
        match self {
            TypeClass::Matrix | TypeClass::MatrixNv | TypeClass::Holder => Some(TypeClass::Holder),
            TypeClass::Layout | TypeClass::View | TypeClass::TensorHolder => Some(TypeClass::TensorHolder),
            TypeClass::Pointer | TypeClass::TensorPointer => None,
        }
    }

    /// Returns the class of a pointer to something of this class.
    fn pointer(self) -> Option<TypeClass> {
        match self.around()? {
            TypeClass::Holder => Some(TypeClass::Pointer),
            _ => Some(TypeClass::TensorPointer),
        }
    }
}

/// The capabilities of a module, including implied ones.
#[derive(Debug, Default)]
pub(crate) struct Capabilities(Vec<Capability>);

impl Capabilities {
    fn new(module: &Module) -> Capabilities {
        let declared = module.capabilities();
        let mut all: Vec<Capability> = declared.flat_map(|c| implied_capabilities(c).into_iter().chain([c])).collect();
        all.sort_unstable();
        all.dedup();
        Capabilities(all)
    }

    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

/// A module with its tables.
pub(crate) struct Cx<'a> {
    pub(crate) module: &'a Module,
    cfgs: &'a Cfgs,
    pub(crate) constants: Constants,
    pub(crate) capabilities: Capabilities,
    pub(crate) env: TargetEnv,
    /// True if the addressing model is Logical.
    pub(crate) logical: bool,
    /// Globals (types, constants, variables) that involve matrices, in file order.
    pub(crate) globals: Vec<InstRef>,
    /// Instructions of functions that involve matrices, in file order.
    pub(crate) body: Vec<InstRef>,
    /// For each function, the index of its first instruction in `body`.
    body_starts: Vec<u32>,
    /// The `OpCapability` and the `OpExtension` instructions.
    pub(crate) declared: Vec<InstRef>,
    pub(crate) extensions: Vec<InstRef>,
    /// Instructions that call the function of an entry point, directly or as a callback, and that function.
    pub(crate) entry_calls: Vec<(InstRef, Id)>,
    entry_functions: Vec<Id>,
    /// Instructions with words beyond the grammar, in file order.
    pub(crate) opaque: Vec<InstRef>,
    /// Instructions with execution or memory scopes, in file order.
    pub(crate) synchronizing: Vec<InstRef>,
    /// The classes of types and of values, whose ids do not overlap.
    classes: IdMap<TypeClass>,
    /// Types, ascending, and their indices in `matrices`: few.
    matrix_index: Vec<(Id, u32)>,
    matrices: Vec<CoopMatView>,
    /// The types of SPV_NV_cooperative_matrix; most modules have none.
    nv_matrices: Vec<NvMatrix>,
    /// True if there is a transposing decoration.
    has_transpose: bool,
    /// True if there is a type or an instruction of SPV_NV_cooperative_matrix.
    has_nv1: bool,
    /// True if a float type has an encoding.
    has_small_floats: bool,
    /// True if there is a tensor layout, or a load or store that needs one.
    has_tensors: bool,
    decorations: OnceCell<Decorations>,
    calls: OnceCell<CallGraph>,
    entries: OnceCell<Vec<EntryPoint>>,
    /// By function: the first instruction of it, or of its callees, that writes memory that outlives the call. Many
    /// tensor loads have the same decode function.
    pub(crate) side_effects: RefCell<FxHashMap<Id, Option<InstRef>>>,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(module: &'a Module, cfgs: &'a Cfgs, options: &Options) -> Cx<'a> {
        let mut cx = Cx {
            module,
            cfgs,
            constants: Constants::new(module, &options.specialization),
            capabilities: Capabilities::new(module),
            env: options.env.unwrap_or_else(|| TargetEnv::of(module)),
            logical: module.memory_model().is_some_and(|(addressing, _)| addressing == AddressingModel::Logical),
            globals: Vec::new(),
            body: Vec::new(),
            body_starts: Vec::with_capacity(module.functions.len()),
            declared: Vec::new(),
            extensions: Vec::new(),
            entry_calls: Vec::new(),
            opaque: Vec::new(),
            entry_functions: module
                .globals_with(Op::EntryPoint)
                .filter_map(|r| module.inst(r).entry_function())
                .collect(),
            synchronizing: Vec::new(),
            classes: module.id_map(),
            matrix_index: Vec::new(),
            matrices: Vec::new(),
            nv_matrices: Vec::new(),
            has_transpose: false,
            has_nv1: false,
            has_small_floats: false,
            has_tensors: false,
            decorations: OnceCell::new(),
            calls: OnceCell::new(),
            entries: OnceCell::new(),
            side_effects: RefCell::default(),
        };
        for &r in &module.globals {
            cx.classify_global(r);
        }
        cx.matrix_index.sort_unstable();
        for f in &module.functions {
            cx.body_starts.push(cx.body.len() as u32);
            // Labels are irrelevant.
            f.lead.iter().chain([&f.def]).chain(&f.params).for_each(|r| cx.classify_body(*r));
            for b in &f.blocks {
                b.lead.iter().for_each(|r| cx.classify_body(*r));
                b.insts.iter().for_each(|r| cx.classify_inst(*r));
            }
            f.tail.iter().for_each(|r| cx.classify_body(*r));
        }
        cx
    }

    /// One pass in file order: a type comes after its parts, and a cycle through forward pointers adds nothing, since a
    /// matrix can't be reached through memory.
    fn classify_global(&mut self, r: InstRef) {
        let inst = self.module.inst(r);
        self.opaque.extend(inst.opaque.then_some(r));
        let Some(result) = inst.result else {
            match inst.op {
                Op::Decorate => {
                    self.has_transpose |= inst.enumerant(1) == Some(spv::Decoration::CooperativeMatrixTransposeEXT);
                }
                Op::Capability => self.declared.push(r),
                Op::Extension => self.extensions.push(r),
                _ => {}
            }
            return;
        };
        let class = match inst.op {
            Op::TypeCooperativeMatrixKHR => {
                if let Some(view) = coop_mat(self.module, result).map(|m| m.view(self.module, &self.constants)) {
                    self.matrix_index.push((result, self.matrices.len() as u32));
                    self.matrices.push(view);
                }
                Some(TypeClass::Matrix)
            }
            Op::TypeCooperativeMatrixNV => {
                self.has_nv1 = true;
                self.nv_matrices.extend(NvMatrix::of(self.module, &self.constants, inst));
                Some(TypeClass::MatrixNv)
            }
            Op::TypeFloat => {
                self.has_small_floats |= inst.operands.len() > 1;
                None
            }
            Op::TypeTensorLayoutNV => Some(TypeClass::Layout),
            Op::TypeTensorViewNV => Some(TypeClass::View),
            Op::TypeArray | Op::TypeRuntimeArray => inst.id(0).and_then(|e| self.class(e)?.around()),
            // A matrix takes precedence over a layout beside it.
            Op::TypeStruct => {
                let mut inside = inst.ids().filter_map(|m| self.class(m)?.around());
                let first = inside.next();
                if first == Some(TypeClass::TensorHolder) && inside.any(|c| c == TypeClass::Holder) {
                    Some(TypeClass::Holder)
                } else {
                    first
                }
            }
            Op::TypePointer => inst.id(1).and_then(|p| self.class(p)?.pointer()),
            _ => inst.ty.and_then(|t| self.class(t)),
        };
        if let Some(class) = class {
            self.classes.insert(result, class);
        }
        let operation = inst.specialized_op();
        self.has_nv1 |= operation.is_some_and(Op::is_nv_matrix_op);
        let of_matrix = class.is_some()
            || operation.is_some_and(Op::is_matrix_op)
            || matches!(inst.op, Op::SpecConstantOp | Op::UntypedVariableKHR)
                && inst.ids().any(|o| self.class(o).is_some());
        if of_matrix {
            self.globals.push(r);
        }
    }

    fn classify_body(&mut self, r: InstRef) {
        self.classify_inst(r);
    }

    /// Does the same for the most frequent case: a call for each would take a tenth of the time.
    #[inline(always)]
    fn classify_inst(&mut self, r: InstRef) {
        let inst = self.module.inst(r);
        if inst.opaque {
            self.opaque.push(r);
        }
        let own = inst.ty.and_then(|t| self.class(t));
        // The result of OpFunction is not a value.
        if let (Some(class), Some(result)) = (own, inst.result)
            && inst.op != Op::Function
        {
            self.classes.insert(result, class);
        }
        let takes_some = || inst.op == Op::FunctionCall && self.takes_matrices(inst);
        if own.is_some() || inst.op.is_matrix_op() || inst.ids().any(|o| self.class(o).is_some()) || takes_some() {
            self.has_nv1 |= inst.op.is_nv_matrix_op();
            self.has_tensors |=
                matches!(inst.op, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV)
                    || own == Some(TypeClass::Layout);
            self.body.push(r);
        }
        if inst.op == Op::FunctionCall || inst.op.is_matrix_op() {
            let entry = inst.ids().find(|i| self.entry_functions.contains(i));
            self.entry_calls.extend(entry.map(|e| (r, e)));
        }
        if inst.op.has_scopes() {
            self.synchronizing.push(r);
        }
    }

    /// Returns true if the type of the called function has matrices.
    fn takes_matrices(&self, call: &Inst) -> bool {
        let function = call.callee().and_then(|f| self.module.def_inst(f)).filter(|f| f.op == Op::Function);
        let ty = function.and_then(|f| f.function_type()).and_then(|t| self.module.def_inst(t));
        ty.is_some_and(|t| t.ids().any(|o| self.class(o).is_some()))
    }

    /// Returns the graphs of functions that exist already.
    #[cfg(feature = "uniformity")]
    pub(crate) fn cfgs(&self) -> &'a Cfgs {
        self.cfgs
    }

    /// Returns the graph of a function, by its index in the module.
    pub(crate) fn cfg(&self, function: usize) -> Cow<'a, Cfg> {
        match self.cfgs.get(self.module, function) {
            Some(cfg) => Cow::Borrowed(cfg),
            None => Cow::Owned(Cfg::new(self.module, &self.module.functions[function])),
        }
    }

    /// Returns true if constants decide branches so that an instruction of a function is never executed.
    pub(crate) fn is_never_executed(&self, r: InstRef) -> bool {
        let place = |f: usize| {
            let block = self.module.functions[f].blocks.iter().position(|b| b.insts.contains(&r))?;
            Some((f, block))
        };
        let Some((f, block)) = (0..self.module.functions.len()).find_map(place) else { return false };
        is_never_executed(self.module, &self.constants, &self.cfg(f), f, block)
    }

    pub(crate) fn inst(&self, r: InstRef) -> &'a Inst {
        self.module.inst(r)
    }

    /// Returns the class of a type, or of a value.
    pub(crate) fn class(&self, id: Id) -> Option<TypeClass> {
        self.classes.get(id).copied()
    }

    /// Returns the matrix type `ty`.
    pub(crate) fn matrix(&self, ty: Id) -> Option<&CoopMatView> {
        let behind = self.matrix_index.partition_point(|(id, _)| *id <= ty);
        let (id, at) = *self.matrix_index.get(behind.checked_sub(1)?)?;
        self.matrices.get(at as usize).filter(|_| id == ty)
    }

    /// Returns the matrix type of `value`.
    pub(crate) fn matrix_of(&self, value: Id) -> Option<&CoopMatView> {
        self.matrix(self.module.type_of(value)?)
    }

    /// Returns the matrix type `ty`, of either extension.
    pub(crate) fn matrix_type(&self, ty: Id) -> Option<MatrixType<'_>> {
        self.matrix(ty).map(MatrixType::Khr).or_else(|| self.nv_matrix(ty).map(MatrixType::Nv))
    }

    /// Returns the matrix type of `value`, of either extension.
    pub(crate) fn matrix_type_of(&self, value: Id) -> Option<MatrixType<'_>> {
        self.matrix_type(self.module.type_of(value)?)
    }

    /// Returns every matrix type.
    pub(crate) fn matrices(&self) -> &[CoopMatView] {
        &self.matrices
    }

    /// Returns the type `ty` of a matrix of SPV_NV_cooperative_matrix.
    pub(crate) fn nv_matrix(&self, ty: Id) -> Option<&NvMatrix> {
        self.nv_matrices.iter().find(|m| m.id == ty)
    }

    /// Returns true if there is a bfloat16 or an 8-bit float.
    pub(crate) fn has_small_floats(&self) -> bool {
        self.has_small_floats
    }

    /// Returns every type of SPV_NV_cooperative_matrix.
    pub(crate) fn nv_matrices(&self) -> &[NvMatrix] {
        &self.nv_matrices
    }

    /// Returns true if the module uses SPV_NV_cooperative_matrix.
    pub(crate) fn has_nv1(&self) -> bool {
        self.has_nv1
    }

    /// Returns true if the module names an extension.
    pub(crate) fn has_extension(&self, name: &str) -> bool {
        self.extensions.iter().any(|r| self.inst(*r).string(0).is_some_and(|(n, _)| n == name))
    }

    /// Returns true if the module declares a capability itself.
    pub(crate) fn declares(&self, capability: Capability) -> bool {
        self.declared.iter().any(|r| self.inst(*r).declared_capability() == Some(capability))
    }

    /// Returns the instructions of a function that involve matrices, in file order.
    pub(crate) fn body_of(&self, function: usize) -> &[InstRef] {
        let start = |f: usize| self.body_starts.get(f).map_or(self.body.len(), |s| *s as usize);
        &self.body[start(function)..start(function + 1)]
    }

    /// Returns true if an instruction has the transposing decoration (SPV_EXT_cooperative_matrix_maintenance1).
    pub(crate) fn transposes(&self, at: InstRef) -> bool {
        let decorated =
            |id| self.decorations().of(id).any(|d| d.decoration == spv::Decoration::CooperativeMatrixTransposeEXT);
        self.has_transpose && self.inst(at).result.is_some_and(decorated)
    }

    /// Returns true if there is a transposing decoration.
    pub(crate) fn has_transpose(&self) -> bool {
        self.has_transpose
    }

    /// Returns true if anything is loaded or stored through a tensor layout.
    pub(crate) fn has_tensors(&self) -> bool {
        self.has_tensors
    }

    /// Returns names and decorations, which are collected on first use.
    pub(crate) fn decorations(&self) -> &Decorations {
        self.decorations.get_or_init(|| Decorations::new(self.module))
    }

    /// Returns the call graph, which is made on first use.
    pub(crate) fn calls(&self) -> &CallGraph {
        self.calls.get_or_init(|| CallGraph::new(self.module))
    }

    /// Returns the entry points, which are collected on first use.
    pub(crate) fn entries(&self) -> &[EntryPoint] {
        self.entries.get_or_init(|| entry_points(self.module, self.decorations()))
    }

    /// Returns true if `id` is defined, and not as a value: a type, a set of extended instructions.
    pub(crate) fn is_not_a_value(&self, id: Id) -> bool {
        self.module.def_inst(id).is_some_and(|d| d.ty.is_none() && d.op.info().is_some())
    }

    /// Returns the definition of `id`.
    pub(crate) fn def(&self, id: Id) -> Option<InstRef> {
        self.module.def(id)
    }

    /// Returns the declaration of a matrix's type.
    pub(crate) fn decl(&self, matrix: &CoopMatView) -> Option<InstRef> {
        self.module.def(matrix.ty.id)
    }

    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.capabilities.has(capability)
    }

    pub(crate) fn scalar(&self, ty: Id) -> Option<Scalar> {
        scalar(self.module, ty)
    }

    /// Returns a description of a value's type: `f16 16x16 A`, `u32`, `v4 of f32`.
    pub(crate) fn describe_value(&self, value: Id) -> String {
        match self.module.type_of(value) {
            Some(ty) => self.describe(ty),
            None => match self.module.def_inst(value) {
                Some(i) if i.op.is_type() => format!("a type ({})", self.describe(value)),
                Some(i) => format!("no value ({})", i.op),
                None => "nothing that is defined".to_owned(),
            },
        }
    }

    /// Returns a description of a type.
    pub(crate) fn describe(&self, ty: Id) -> String {
        if let Some(m) = self.matrix(ty) {
            return m.to_string();
        }
        if let Some(m) = self.nv_matrix(ty) {
            return m.to_string();
        }
        match Type::of(self.module, ty) {
            Some(Type::Void) => "void".into(),
            Some(Type::Bool) => "bool".into(),
            Some(Type::Scalar(s)) => s.to_string(),
            Some(Type::Vector { elem, len }) => match self.scalar(elem) {
                Some(s) => format!("{len}-vector of {s}"),
                None => format!("{len}-vector"),
            },
            Some(Type::Matrix { .. }) => "an OpTypeMatrix".into(),
            Some(Type::CoopMat(_)) => "a cooperative matrix".into(),
            Some(Type::Array { .. }) => "an array".into(),
            Some(Type::RuntimeArray { .. }) => "a runtime array".into(),
            Some(Type::Struct { .. }) => "a struct".into(),
            Some(Type::Pointer { .. } | Type::UntypedPointer { .. }) => "a pointer".into(),
            Some(Type::Function { .. }) => "a function type".into(),
            Some(Type::Other(Op::TypeTensorLayoutNV)) => "a tensor layout".into(),
            Some(Type::Other(Op::TypeTensorViewNV)) => "a tensor view".into(),
            Some(Type::Other(Op::TypeVectorIdEXT)) => "a long vector".into(),
            Some(Type::Other(op)) => format!("{op}"),
            None => "no type".into(),
        }
    }

    /// Returns a constant as a number with the sign of its type.
    pub(crate) fn signed(&self, id: Id, bits: u64) -> i64 {
        match self.module.type_of(id).and_then(|t| self.scalar(t)) {
            Some(Scalar::Int { width: width @ 1..=63, signed: true }) => {
                ((bits << (64 - width)) as i64) >> (64 - width)
            }
            Some(Scalar::Int { signed: true, .. }) => bits as i64,
            _ => i64::try_from(bits).unwrap_or(i64::MAX),
        }
    }

    pub(crate) fn constant(&self, id: Id) -> Const {
        self.constants.get(id)
    }

    /// Returns the value of an operand that need not be a constant, where constants determine it.
    pub(crate) fn computed(&self, id: Id) -> Const {
        self.constants.computed(self.module, id)
    }

    /// Returns true if two constants are equal.
    pub(crate) fn equal(&self, a: Id, b: Id) -> Verdict {
        if a == b { Verdict::Holds } else { self.constants.compare(a, b).into() }
    }

    /// Returns the reason for which `id` is not a constant instruction of a 32-bit integer type, or `None` if it is
    /// one.
    pub(crate) fn not_const_u32(&self, id: Id) -> Option<String> {
        let Some(inst) = self.module.def_inst(id) else { return Some("nothing defines it".into()) };
        if !inst.op.is_constant() {
            return Some(format!("this is the result of {}", inst.op));
        }
        match inst.ty.and_then(|t| self.scalar(t)) {
            Some(Scalar::Int { width: 32, .. }) => None,
            _ => Some(format!("this is a constant of type {}", self.describe_value(id))),
        }
    }
}
