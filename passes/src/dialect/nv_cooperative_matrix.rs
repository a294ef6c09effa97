//! Rewrites SPV_NV_cooperative_matrix, whose types do not state the use of a matrix, into SPV_KHR_cooperative_matrix.
//!
//! The use of a value is inferred from the instructions that consume it. Values that must have one type (variables with
//! the values stored and loaded, phis with their incoming values, operands of arithmetic with results, composites with
//! their parts) form a class. A class is an accumulator if MulAdd adds to or returns one of its values, else A or B if
//! MulAdd multiplies one as such, else the use that other values of its type have, or an accumulator. Values that can
//! be duplicated for free are in no class: loads from memory, constants and splats are made once for each use that is
//! asked of them. Where MulAdd multiplies an accumulator, the value is converted there. The length of a matrix is asked
//! of its type alone, so all matrices of such a type whose elements are accessed have one use.
//!
//! Each type becomes one type for each use of its values; the first keeps the id. Where matrices stay, the module has the Vulkan memory
//! model then ([`memory_model`]).

use super::memory_model;
use crate::cleanup::{remove_capability, remove_extension};
use crate::inline::Carriers;
use crate::{Refusal, Target, malformed, ssa};
use coop_ir::builder::{Globals, require_capability, require_extension};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::Capability;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use std::collections::BTreeSet;

/// The use of a matrix; the discriminants are the enumerants of KHR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Use {
    A = 0,
    B = 1,
    Accumulator = 2,
}

const OF_MULADD: [Use; 3] = [Use::A, Use::B, Use::Accumulator];

pub(super) fn run(m: &mut Module, target: Target) -> Result<(), Refusal> {
    if m.globals_with(Op::TypeCooperativeMatrixNV).next().is_none() {
        let Some(r) = m.all().find(|r| m.inst(*r).op.is_nv_matrix_instruction()) else { return Ok(()) };
        return malformed(r, format!("{} in a module without matrices of its extension", m.inst(r).op));
    }
    if target != Target::Scalar {
        memory_model::run(m)?;
    }
    let constants = Constants::new(m, &Specialization::new());
    let g = Globals::new(m);
    let mut pass = Upgrade {
        m,
        g,
        constants,
        carriers: Carriers::of(Op::TypeCooperativeMatrixNV),
        parent: FxHashMap::default(),
        roles: FxHashMap::default(),
        types: FxHashMap::default(),
        versions: FxHashMap::default(),
        usual: FxHashMap::default(),
        flexible: FxHashMap::default(),
        converted: false,
    };
    pass.classes()?;
    pass.one_length();
    pass.rewrite()?;
    pass.finish();
    Ok(())
}

struct Upgrade<'m> {
    m: &'m mut Module,
    g: Globals,
    constants: Constants,
    carriers: Carriers,
    /// Union-find over values and variables.
    parent: FxHashMap<Id, Id>,
    /// The uses of a class by MulAdd, by its representative.
    roles: FxHashMap<Id, BTreeSet<Use>>,
    /// The type that replaces a type, by use.
    types: FxHashMap<(Id, Use), Id>,
    /// The versions of constants, loads and splats, by use.
    versions: FxHashMap<(Id, Use), Id>,
    /// The use of matrices of a type where nothing determines it: as MulAdd takes them elsewhere.
    usual: FxHashMap<Id, Use>,
    /// The same for a value that can be duplicated.
    flexible: FxHashMap<Id, Use>,
    converted: bool,
}

impl Upgrade<'_> {
    fn is_carrier(&mut self, id: Id) -> bool {
        self.m.type_of(id).is_some_and(|t| self.carriers.has(self.m, t))
    }

    /// Returns true if a value can be duplicated for each use.
    fn is_flexible(&self, id: Id) -> bool {
        self.m.def_inst(id).is_some_and(|i| {
            i.op.is_constant()
                || i.op == Op::CooperativeMatrixLoadNV
                || i.op == Op::Undef
                || (i.op == Op::CompositeConstruct && self.is_matrix(i.ty))
        })
    }

    fn is_matrix(&self, ty: Option<Id>) -> bool {
        ty.and_then(|t| self.m.def_inst(t)).is_some_and(|i| i.op == Op::TypeCooperativeMatrixNV)
    }

    fn find(&mut self, id: Id) -> Id {
        let mut root = id;
        while let Some(next) = self.parent.get(&root).copied().filter(|n| *n != root) {
            root = next;
        }
        self.parent.insert(id, root);
        root
    }

    fn union(&mut self, a: Id, b: Id) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            self.parent.insert(a, b);
            let roles = self.roles.remove(&a).unwrap_or_default();
            self.roles.entry(b).or_default().extend(roles);
        }
    }

    fn role(&mut self, id: Id, use_: Use) {
        let root = self.find(id);
        self.roles.entry(root).or_default().insert(use_);
    }

    fn use_of(&mut self, id: Id) -> Use {
        let root = self.find(id);
        match self.roles.get(&root).map(|r| r.iter().copied().collect::<Vec<_>>()).as_deref() {
            Some([Use::A]) => Use::A,
            Some([Use::B]) => Use::B,
            _ => Use::Accumulator,
        }
    }

    fn body(&self) -> Vec<InstRef> {
        self.m.functions.iter().flat_map(|f| f.blocks.iter().flat_map(|b| b.insts.iter().copied())).collect()
    }

    /// Returns the carriers among result and operands of an instruction that are in classes.
    fn members(&mut self, inst: &Inst) -> Vec<Id> {
        let all: Vec<Id> = inst.result.into_iter().chain(inst.ids()).collect();
        all.into_iter().filter(|id| self.is_carrier(*id) && !self.is_flexible(*id)).collect()
    }

    fn classes(&mut self) -> Result<(), Refusal> {
        for r in self.body() {
            let inst = self.m.inst(r).clone();
            match inst.op {
                Op::CooperativeMatrixMulAddNV => {
                    for (at, use_) in OF_MULADD.into_iter().enumerate() {
                        if let Some(id) = inst.id(at).filter(|id| !self.is_flexible(*id)) {
                            self.role(id, use_);
                        }
                    }
                    if let Some(result) = inst.result {
                        self.role(result, Use::Accumulator);
                    }
                }
                Op::CooperativeMatrixLoadNV | Op::CooperativeMatrixStoreNV | Op::CooperativeMatrixLengthNV => {}
                Op::FunctionCall | Op::ReturnValue if !self.members(&inst).is_empty() => {
                    let why = "a matrix goes through a function that was not inlined";
                    return Err(Refusal::new("refused-dialect", Some(r), why, "see what coopcheck says"));
                }
                _ if ssa::is_debug(self.m, &inst) => {}
                _ => {
                    let members = self.members(&inst);
                    for pair in members.windows(2) {
                        self.union(pair[0], pair[1]);
                    }
                }
            }
        }
        self.undecided();
        Ok(())
    }

    /// Chooses the use of undetermined classes by the uses that MulAdd makes of values of the same type: a device has
    /// matrices of each type for some uses only.
    fn undecided(&mut self) {
        let mut seen: FxHashMap<Id, BTreeSet<Use>> = FxHashMap::default();
        for r in self.body() {
            let inst = self.m.inst(r);
            if inst.op != Op::CooperativeMatrixMulAddNV {
                continue;
            }
            let operands = inst.ids().take(3).zip(OF_MULADD).chain(inst.result.map(|id| (id, Use::Accumulator)));
            for (id, use_) in operands {
                if let Some(ty) = self.m.type_of(id) {
                    seen.entry(ty).or_default().insert(use_);
                }
            }
        }
        self.usual = seen
            .into_iter()
            .filter(|(_, uses)| !uses.contains(&Use::Accumulator))
            .filter_map(|(ty, uses)| Some((ty, *uses.first()?)))
            .collect();
        let globals: Vec<InstRef> = self.m.globals.clone();
        for r in globals.into_iter().chain(self.body()) {
            let inst = self.m.inst(r);
            let Some((id, ty)) = inst.result.zip(inst.ty) else { continue };
            let pointee = match Type::of(self.m, ty) {
                Some(Type::Pointer { pointee, .. }) => pointee,
                _ => ty,
            };
            let Some(use_) = self.usual.get(&pointee).copied() else { continue };
            if self.is_flexible(id) {
                self.flexible.insert(id, use_);
            } else {
                let root = self.find(id);
                let roles = self.roles.entry(root).or_default();
                if roles.is_empty() {
                    roles.insert(use_);
                }
            }
        }
    }

    /// Returns the type that replaces `ty` where its matrices have a use.
    fn mapped(&mut self, ty: Id, use_: Use) -> Id {
        if !self.carriers.has(self.m, ty) {
            return ty;
        }
        if let Some(id) = self.types.get(&(ty, use_)) {
            return *id;
        }
        let Some(r) = self.m.def(ty) else { return ty };
        let old = self.m.inst(r).clone();
        let first = !self.types.keys().any(|k| k.0 == ty);
        let id = if first { ty } else { self.m.fresh_id() };
        self.types.insert((ty, use_), id);
        let matrix = matches!(old.op, Op::TypeCooperativeMatrixNV | Op::TypeCooperativeMatrixKHR);
        let new = if matrix {
            self.matrix_type(&old, use_, id)
        } else {
            // Built from the original, which may be replaced already: its parts are looked up by their own ids.
            let original = self.originals(ty);
            let operands: Vec<Operand> = original
                .into_iter()
                .map(|o| match o {
                    Operand::Id(part) if self.m.def_inst(part).is_some_and(|i| i.op.is_type()) => {
                        Operand::Id(self.mapped(part, use_))
                    }
                    o => o,
                })
                .collect();
            Inst::new(old.op, None, Some(id), operands).at(old.origin)
        };
        if first {
            self.m.replace(r, new);
        } else {
            let r = self.m.add(new);
            self.m.globals.push(r);
            self.copy_decorations(ty, id);
        }
        id
    }

    /// Returns the original operands of a type.
    fn originals(&self, ty: Id) -> Vec<Operand> {
        let now: Vec<Operand> = self.m.def_inst(ty).map(|i| i.operands.to_vec()).unwrap_or_default();
        // The operand now is the part mapped for the first use: map it back.
        let back = |id: Id| self.types.iter().find(|(_, new)| **new == id).map_or(id, |((old, _), _)| *old);
        now.into_iter().map(|o| o.id().map_or(o, |id| Operand::Id(back(id)))).collect()
    }

    fn copy_decorations(&mut self, from: Id, to: Id) {
        let map = [(from, to)].into_iter().collect();
        crate::inline::splice::copy_annotations(self.m, &map, &FxHashSet::default());
    }

    fn matrix_type(&mut self, old: &Inst, use_: Use, id: Id) -> Inst {
        // If another use took the id, the operands are KHR's, which begin with the same ones.
        let mut operands: Vec<Operand> = old.operands.iter().take(1).copied().collect();
        for part in old.ids().skip(1).take(3).collect::<Vec<_>>() {
            let word = self.m.type_of(part).and_then(|t| types::scalar(self.m, t));
            let narrow = matches!(word, Some(Scalar::Int { width: 32, .. }));
            let id = match self.constants.get(part).fixed().filter(|_| !narrow) {
                Some(v) => self.g.u32(self.m, v as u32),
                None => part,
            };
            operands.push(id.into());
        }
        operands.push(self.g.u32(self.m, use_ as u32).into());
        Inst::new(Op::TypeCooperativeMatrixKHR, None, Some(id), operands).at(old.origin)
    }

    /// Returns the version of a constant, load or splat for a use; others are made beside the first.
    fn version(&mut self, id: Id, use_: Use) -> Id {
        if let Some(known) = self.versions.get(&(id, use_)) {
            return *known;
        }
        let Some(r) = self.m.def(id) else { return id };
        let mut inst = self.m.inst(r).clone();
        let first = !self.versions.keys().any(|k| k.0 == id);
        let new = if first { id } else { self.m.fresh_id() };
        self.versions.insert((id, use_), new);
        let constant = inst.op.is_constant() || inst.op == Op::Undef;
        if constant {
            let parts: Vec<Operand> = self.original_parts(id);
            let parts: Vec<Operand> = parts
                .into_iter()
                .map(|o| match o.id() {
                    Some(part) if self.is_matrix_constant(part) => Operand::Id(self.version(part, use_)),
                    _ => o,
                })
                .collect();
            inst.operands = parts.into_iter().collect();
        }
        if first {
            let m = self.m.inst_mut(r);
            m.operands = inst.operands;
            return new;
        }
        inst.result = Some(new);
        let copy = self.m.add(inst);
        if constant {
            let in_function = !self.m.globals.contains(&r);
            if in_function {
                self.insert_after(r, copy);
            } else {
                self.m.globals.push(copy);
            }
        } else {
            self.insert_after(r, copy);
        }
        new
    }

    fn is_matrix_constant(&mut self, id: Id) -> bool {
        self.is_flexible(id) && (self.is_carrier(id) || self.versions.keys().any(|k| k.0 == id))
    }

    fn original_parts(&self, id: Id) -> Vec<Operand> {
        let now: Vec<Operand> = self.m.def_inst(id).map(|i| i.operands.to_vec()).unwrap_or_default();
        let back = |id: Id| self.versions.iter().find(|(_, new)| **new == id).map_or(id, |((old, _), _)| *old);
        now.into_iter().map(|o| o.id().map_or(o, |id| Operand::Id(back(id)))).collect()
    }

    fn insert_after(&mut self, at: InstRef, new: InstRef) {
        for f in &mut self.m.functions {
            for b in &mut f.blocks {
                if let Some(i) = b.insts.iter().position(|r| *r == at) {
                    b.insts.insert(i + 1, new);
                    return;
                }
            }
        }
    }

    fn rewrite(&mut self) -> Result<(), Refusal> {
        let body = self.body();
        let elements = self.element_uses(&body);
        // Choose the version of each operand while types are still the original ones.
        let mut demands: Vec<(InstRef, usize, Id, Use)> = Vec::new();
        let mut uses: Vec<(Id, Use)> = Vec::new();
        let variables: Vec<InstRef> = self.m.globals_with(Op::Variable).collect();
        for r in body.iter().copied().chain(variables) {
            let inst = self.m.inst(r).clone();
            if ssa::is_debug(self.m, &inst) {
                continue;
            }
            let members = self.members(&inst);
            let own = members.first().map(|id| self.use_of(*id)).unwrap_or(Use::Accumulator);
            for (at, operand) in inst.operands.iter().enumerate() {
                let Some(id) = operand.id() else { continue };
                if !self.is_carrier(id) {
                    continue;
                }
                let wanted = match inst.op {
                    Op::CooperativeMatrixMulAddNV => OF_MULADD.get(at).copied().unwrap_or(own),
                    _ if members.is_empty() => self.flexible.get(&id).copied().unwrap_or(own),
                    _ => own,
                };
                if self.is_flexible(id) || inst.op == Op::CooperativeMatrixMulAddNV {
                    demands.push((r, at, id, wanted));
                }
            }
            if let Some(id) = inst.result.filter(|id| self.is_carrier(*id) && !self.is_flexible(*id)) {
                let use_ = self.use_of(id);
                uses.push((id, use_));
            }
        }
        self.retype(&body, uses, demands)?;
        for r in self.body() {
            self.instruction(r, &elements)?;
        }
        self.constant_lengths(&elements);
        Ok(())
    }

    /// Updates the types of values and the versions of operands.
    fn retype(
        &mut self,
        body: &[InstRef],
        uses: Vec<(Id, Use)>,
        demands: Vec<(InstRef, usize, Id, Use)>,
    ) -> Result<(), Refusal> {
        let mut flexible: Vec<Id> = Vec::new();
        let globals: Vec<InstRef> = self.m.globals.clone();
        for r in globals.iter().chain(body) {
            let result = self.m.inst(*r).result.filter(|id| self.is_carrier(*id) && self.is_flexible(*id));
            flexible.extend(result);
        }
        let mut wanted: FxHashMap<Id, Use> = uses.iter().copied().collect();
        let mut conversions: Vec<(InstRef, usize, Id, Use)> = Vec::new();
        for (r, at, id, use_) in demands {
            if self.is_flexible(id) {
                let version = self.version(id, use_);
                wanted.insert(version, use_);
                self.m.inst_mut(r).operands[at] = Operand::Id(version);
            } else if self.use_of(id) != use_ {
                conversions.push((r, at, id, use_));
            }
        }
        // An unused version may have any use.
        for id in flexible {
            if !self.versions.keys().any(|k| k.0 == id) {
                let use_ = self.flexible.get(&id).copied().unwrap_or(Use::Accumulator);
                self.version(id, use_);
            }
        }
        for ((_, use_), id) in &self.versions {
            wanted.entry(*id).or_insert(*use_);
        }
        let mut all: Vec<(Id, Use)> = wanted.into_iter().collect();
        all.sort_unstable();
        let types: Vec<(Id, Id, Use)> =
            all.into_iter().filter_map(|(id, use_)| Some((id, self.m.type_of(id)?, use_))).collect();
        for (id, ty, use_) in types {
            let ty = self.mapped(ty, use_);
            if let Some(r) = self.m.def(id) {
                self.m.inst_mut(r).ty = Some(ty);
            }
        }
        for (r, at, id, use_) in conversions {
            let Some(from) = self.m.type_of(id) else { continue };
            let original = self.types.iter().find(|(_, new)| **new == from).map_or(from, |((old, _), _)| *old);
            let ty = self.mapped(original, use_);
            let new = self.m.fresh_id();
            let convert = Inst::new(Op::CooperativeMatrixConvertNV, Some(ty), Some(new), [id.into()]);
            coop_ir::rewrite::insert_before(self.m, r, convert);
            self.m.inst_mut(r).operands[at] = Operand::Id(new);
            self.converted = true;
        }
        // Types without values, such as those of which only the length is asked.
        let left: Vec<Id> =
            self.m.globals_with(Op::TypeCooperativeMatrixNV).filter_map(|r| self.m.inst(r).result).collect();
        for ty in left {
            self.mapped(ty, Use::Accumulator);
        }
        Ok(())
    }

    /// Returns, for each matrix type whose length is asked for, the uses whose elements are accessed.
    fn element_uses(&mut self, body: &[InstRef]) -> FxHashMap<Id, BTreeSet<Use>> {
        let mut out: FxHashMap<Id, BTreeSet<Use>> = FxHashMap::default();
        for (ty, base) in self.accessed_matrices(body) {
            let use_ = if self.is_flexible(base) { Use::Accumulator } else { self.use_of(base) };
            out.entry(ty).or_default().insert(use_);
        }
        out
    }

    /// Where the length of a type is asked, gives all matrices of the type whose elements are accessed one length: that
    /// of accumulators, if they would have several.
    fn one_length(&mut self) {
        let body = self.body();
        let elements = self.element_uses(&body);
        let asked: FxHashSet<Id> = self
            .m
            .all()
            .filter_map(|r| {
                let i = self.m.inst(r);
                match i.op {
                    Op::CooperativeMatrixLengthNV => i.id(0),
                    Op::SpecConstantOp if i.word(0) == Some(u32::from(Op::CooperativeMatrixLengthNV.0)) => i.id(1),
                    _ => None,
                }
            })
            .collect();
        for (ty, base) in self.accessed_matrices(&body) {
            let several = elements.get(&ty).is_some_and(|uses| uses.len() > 1);
            if several && asked.contains(&ty) && !self.is_flexible(base) {
                self.role(base, Use::Accumulator);
            }
        }
    }

    /// Returns the matrices whose elements are accessed: the type, and the value or variable.
    fn accessed_matrices(&mut self, body: &[InstRef]) -> Vec<(Id, Id)> {
        let mut out = Vec::new();
        for r in body {
            let inst = self.m.inst(*r).clone();
            let (base, first) = match inst.op {
                op if op.is_member_chain() => (inst.derived_from(), 1),
                Op::CompositeExtract => (inst.id(0), 1),
                Op::CompositeInsert => (inst.id(1), 2),
                _ => continue,
            };
            let Some(base) = base.filter(|id| self.is_carrier(*id)) else { continue };
            let mut ty = self.m.type_of(base);
            if inst.op != Op::CompositeExtract && inst.op != Op::CompositeInsert {
                ty = ty.and_then(|t| match Type::of(self.m, t)? {
                    Type::Pointer { pointee, .. } => Some(pointee),
                    _ => None,
                });
            }
            for operand in inst.operands.iter().skip(first) {
                let Some(at) = ty else { break };
                if self.is_matrix(Some(at)) {
                    out.push((at, base));
                    break;
                }
                ty = match Type::of(self.m, at) {
                    Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => Some(elem),
                    Some(Type::Struct { members }) => {
                        let index = match operand {
                            Operand::Id(id) => self.constants.get(*id).value(),
                            Operand::Word(w) => Some(u64::from(*w)),
                        };
                        index.and_then(|i| members.get(i as usize)).copied()
                    }
                    _ => None,
                };
            }
        }
        out
    }

    /// Returns the type whose length is meant: that of the matrices whose elements are accessed, which have one use
    /// ([`Upgrade::one_length`]); else of any; of accumulators where there are none.
    fn length_type(&mut self, ty: Id, elements: &FxHashMap<Id, BTreeSet<Use>>) -> Id {
        let own = self.types.keys().filter(|k| k.0 == ty).map(|k| k.1).min();
        let looked = elements.get(&ty).and_then(BTreeSet::first).copied();
        self.mapped(ty, looked.or(own).unwrap_or(Use::Accumulator))
    }

    fn layout(&mut self, r: InstRef, column_major: Option<Id>) -> Result<Id, Refusal> {
        let value = column_major.and_then(|id| self.constants.get(id).fixed());
        match value {
            Some(v) => Ok(self.g.u32(self.m, u32::from(v != 0))),
            None => {
                let why = "the Column Major operand of a load or store is not a known constant";
                Err(Refusal::new("refused-layout", Some(r), why, "give the constant with --spec"))
            }
        }
    }

    fn instruction(&mut self, r: InstRef, elements: &FxHashMap<Id, BTreeSet<Use>>) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let rest = |from: usize| inst.operands.get(from..).unwrap_or_default().to_vec();
        let (op, operands) = match (inst.op, inst.id(0), inst.id(1), inst.id(2)) {
            (Op::CooperativeMatrixLoadNV, Some(pointer), Some(stride), column_major) => {
                let layout = self.layout(r, column_major)?;
                let first = [pointer, layout, stride].map(Operand::Id).to_vec();
                (Op::CooperativeMatrixLoadKHR, [first, rest(3)].concat())
            }
            (Op::CooperativeMatrixStoreNV, Some(pointer), Some(object), Some(stride)) => {
                let layout = self.layout(r, inst.id(3))?;
                let first = [pointer, object, layout, stride].map(Operand::Id).to_vec();
                (Op::CooperativeMatrixStoreKHR, [first, rest(4)].concat())
            }
            (Op::CooperativeMatrixMulAddNV, Some(a), Some(b), Some(c)) => {
                let mut mask = 0;
                for (bit, id) in [Some(a), Some(b), Some(c), inst.result].into_iter().enumerate() {
                    let elem = id.and_then(|id| self.m.type_of(id)).and_then(|t| types::coop_mat(self.m, t));
                    let scalar = elem.and_then(|t| types::scalar(self.m, t.component));
                    if matches!(scalar, Some(Scalar::Int { signed: true, .. })) {
                        mask |= 1 << bit;
                    }
                }
                let mut operands = [a, b, c].map(Operand::Id).to_vec();
                operands.extend((mask != 0).then_some(Operand::Word(mask)));
                (Op::CooperativeMatrixMulAddKHR, operands)
            }
            (Op::CooperativeMatrixLengthNV, Some(ty), ..) => {
                (Op::CooperativeMatrixLengthKHR, vec![self.length_type(ty, elements).into()])
            }
            _ => return Ok(()),
        };
        let new = Inst::new(op, inst.ty, inst.result, operands).at(inst.origin);
        self.m.replace(r, new);
        Ok(())
    }

    /// Rewrites lengths in constant expressions.
    fn constant_lengths(&mut self, elements: &FxHashMap<Id, BTreeSet<Use>>) {
        for r in self.m.globals_with(Op::SpecConstantOp).collect::<Vec<_>>() {
            let inst = self.m.inst(r);
            if inst.word(0) != Some(u32::from(Op::CooperativeMatrixLengthNV.0)) {
                continue;
            }
            let Some(ty) = inst.id(1) else { continue };
            let ty = self.length_type(ty, elements);
            let inst = self.m.inst_mut(r);
            inst.operands[0] = Operand::Word(u32::from(Op::CooperativeMatrixLengthKHR.0));
            inst.operands[1] = Operand::Id(ty);
        }
    }

    fn finish(&mut self) {
        remove_capability(self.m, Capability::CooperativeMatrixNV);
        remove_extension(self.m, "SPV_NV_cooperative_matrix");
        require_capability(self.m, Capability::CooperativeMatrixKHR);
        require_extension(self.m, "SPV_KHR_cooperative_matrix");
        if self.converted {
            require_capability(self.m, Capability::CooperativeMatrixConversionsNV);
            require_extension(self.m, "SPV_NV_cooperative_matrix2");
        }
        sort_globals(self.m);
    }
}
