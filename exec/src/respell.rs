//! Rewrites modules of SPV_EXT_cooperative_matrix_maintenance1 for SPV_NV_cooperative_matrix2, for devices that support
//! only that.
//!
//! The two extensions share the opcodes of reductions, per-element operations and conversions of use, so most modules
//! differ only in their declarations. Beyond that:
//!
//! | maintenance1 | here |
//! |---|---|
//! | a conversion with the decoration CooperativeMatrixTransposeEXT, to B | `OpCooperativeMatrixTransposeNV`, behind the conversion of the components |
//! | `OpCooperativeMatrixConvertUseEXT` to the other signedness | a conversion of use, then a bitcast |
//! | `OpCooperativeMatrixGetCoordinateEXT` | per-element operations write rows and columns into matrices of the same type, which have them at the same index |
//! | version 1.3 to 1.5 | version 1.6, which that extension asks for |
//!
//! Operations that the extension lacks are errors: conversions of factors to accumulators, transposition to A,
//! reductions and per-element operations on bfloat16 and 8-bit floats, and coordinates that the components can't
//! represent.

use coop_ir::hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;

use coop_ir::builder::{FunctionBuilder, Globals, add_global, require_capability, require_extension};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::{Capability, CooperativeMatrixUse, Decoration, StorageClass};
use coop_ir::types::{CoopMat, CoopMatView, Scalar, coop_mat, scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The extension that is replaced.
pub(crate) const EXT: &str = "SPV_EXT_cooperative_matrix_maintenance1";
const NV2: &str = "SPV_NV_cooperative_matrix2";

/// Uses.
const B: u64 = CooperativeMatrixUse::MatrixBKHR.0 as u64;
const ACCUMULATOR: u64 = CooperativeMatrixUse::MatrixAccumulatorKHR.0 as u64;

/// Rewrites a module for a device with SPV_NV_cooperative_matrix2; returns the module itself if it does not use
/// maintenance1. The error names operations that the extension lacks.
pub fn as_nv2<'m>(module: &'m Module, specialization: &Specialization) -> Result<Cow<'m, Module>, String> {
    let named = |m: &Module, r: InstRef| m.inst(r).string(0).is_some_and(|(name, _)| name == EXT);
    let declares = [Capability::CooperativeMatrixConversionsEXT, Capability::CooperativeMatrixGetCoordinateEXT]
        .iter()
        .any(|c| module.has_capability(*c));
    if !declares && !module.globals_with(Op::Extension).any(|r| named(module, r)) {
        return Ok(Cow::Borrowed(module));
    }
    let transpose = |m: &Module, r: InstRef| {
        m.inst(r).op == Op::Decorate && m.inst(r).enumerant(1) == Some(Decoration::CooperativeMatrixTransposeEXT)
    };
    let decorations = module.globals_with(Op::Decorate).filter(|r| transpose(module, *r));
    let turned = decorations.filter_map(|r| module.inst(r).id(0)).collect();
    let mut m = module.clone();
    let conversions = m.has_capability(Capability::CooperativeMatrixConversionsEXT);
    remove_globals(&mut m, |m, r| {
        let inst = m.inst(r);
        match inst.op {
            Op::Capability => matches!(
                inst.enumerant(0),
                Some(Capability::CooperativeMatrixConversionsEXT | Capability::CooperativeMatrixGetCoordinateEXT)
            ),
            Op::Extension => named(m, r),
            _ => transpose(m, r),
        }
    });
    if conversions {
        require_capability(&mut m, Capability::CooperativeMatrixConversionsNV);
    }
    require_extension(&mut m, NV2);
    raise_version(&mut m)?;
    let globals = Globals::new(&m);
    let constants = Constants::new(module, specialization);
    let mut speller = Speller { m, globals, constants, turned, places: FxHashMap::default(), variables: Vec::new() };
    speller.functions()?;
    Ok(Cow::Owned(speller.m))
}

/// Raises the version. From 1.4 on, entry points list every variable that they use.
fn raise_version(m: &mut Module) -> Result<(), String> {
    if m.header.version < 0x0001_0400 {
        if m.globals_with(Op::Decorate).any(|r| m.inst(r).enumerant(1) == Some(Decoration::BufferBlock)) {
            return Err("a BufferBlock, which ended with SPIR-V 1.3".into());
        }
        let variables: Vec<Id> = m.globals_with(Op::Variable).filter_map(|r| m.inst(r).result).collect();
        for r in m.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
            let listed: Vec<Id> = m.inst(r).ids().collect();
            let missing = variables.iter().filter(|v| !listed.contains(v)).map(|v| Operand::Id(*v));
            m.inst_mut(r).operands.extend(missing);
        }
    }
    m.header.version = m.header.version.max(0x0001_0600);
    Ok(())
}

struct Speller {
    m: Module,
    globals: Globals,
    constants: Constants,
    /// Conversions that transpose.
    turned: FxHashSet<Id>,
    /// Functions that return the row (0) or column (1) of an element, by matrix type.
    places: FxHashMap<(Id, usize), Id>,
    /// Variables of the current function.
    variables: Vec<InstRef>,
}

impl Speller {
    fn functions(&mut self) -> Result<(), String> {
        for f in 0..self.m.functions.len() {
            for b in 0..self.m.functions[f].blocks.len() {
                let old = std::mem::take(&mut self.m.functions[f].blocks[b].insts);
                let mut new = Vec::with_capacity(old.len());
                for r in old {
                    self.inst(r, &mut new)?;
                }
                self.m.functions[f].blocks[b].insts = new.into_iter().collect();
            }
            let variables = std::mem::take(&mut self.variables);
            if let Some(entry) = self.m.functions[f].blocks.first_mut() {
                entry.insts = variables.into_iter().chain(entry.insts.iter().copied()).collect();
            }
        }
        Ok(())
    }

    /// Appends the replacement of an instruction.
    fn inst(&mut self, r: InstRef, out: &mut Vec<InstRef>) -> Result<(), String> {
        let inst = self.m.inst(r);
        let mat = inst.ty.and_then(|ty| coop_mat(&self.m, ty));
        match (inst.op, mat) {
            (Op::CooperativeMatrixGetCoordinateEXT, _) => {
                let inst = inst.clone();
                return self.coordinate(&inst, out);
            }
            (Op::CooperativeMatrixReduceNV | Op::CooperativeMatrixPerElementOpNV, Some(mat)) => {
                let small = |s: &Scalar| matches!(*s, Scalar::BF16 | Scalar::E4M3 | Scalar::E5M2);
                if let Some(s) = scalar(&self.m, mat.component).filter(small) {
                    return Err(format!("{} of {s}", inst.op));
                }
            }
            (op, Some(to)) if op.is_conversion() || op == Op::CooperativeMatrixConvertNV => {
                let inst = inst.clone();
                return self.conversion(r, &inst, to, out);
            }
            _ => {}
        }
        out.push(r);
        Ok(())
    }

    fn view(&self, ty: CoopMat) -> CoopMatView {
        ty.view(&self.m, &self.constants)
    }

    fn conversion(&mut self, r: InstRef, inst: &Inst, to: CoopMat, out: &mut Vec<InstRef>) -> Result<(), String> {
        let from = inst.id(0).and_then(|id| coop_mat(&self.m, self.m.type_of(id)?));
        let (Some(from), Some(result), Some(value)) = (from, inst.result, inst.id(0)) else {
            return Err(format!("the first operand of {} is not a matrix", inst.op));
        };
        let uses = [from, to].map(|ty| self.view(ty).use_.value());
        let turned = self.turned.contains(&result);
        let relabels = inst.op == Op::CooperativeMatrixConvertNV;
        if uses[0] == uses[1] && !turned && !relabels {
            out.push(r);
            return Ok(());
        }
        if uses[0] != Some(ACCUMULATOR) {
            return Err("a conversion of a factor to an accumulator".into());
        }
        if turned && uses[1] != Some(B) {
            return Err("a transposition to a factor A".into());
        }
        let word = if turned { Op::CooperativeMatrixTransposeNV } else { Op::CooperativeMatrixConvertNV };
        // What has the use, or the components, of the result already.
        let (first, second, between) = match (relabels, turned) {
            (true, _) if from.component != to.component => {
                (word, Op::Bitcast, CoopMat { component: from.component, ..to })
            }
            (false, true) => (inst.op, word, CoopMat { component: to.component, ..from }),
            (true, true) => {
                self.m.replace(r, Inst::new(word, inst.ty, inst.result, [value.into()]).at(inst.origin));
                out.push(r);
                return Ok(());
            }
            (_, false) => {
                out.push(r);
                return Ok(());
            }
        };
        let ty = self.matrix_type(between);
        let middle = self.op(out, first, ty, [value.into()]);
        if second == word {
            // Rounding and saturation go with the components.
            let decorations: Vec<InstRef> =
                self.m.globals_with(Op::Decorate).filter(|d| self.m.inst(*d).id(0) == Some(result)).collect();
            decorations.into_iter().for_each(|d| self.m.inst_mut(d).operands[0] = Operand::Id(middle));
        }
        self.m.replace(r, Inst::new(second, inst.ty, inst.result, [middle.into()]).at(inst.origin));
        out.push(r);
        Ok(())
    }

    /// Returns the id of a matrix type.
    fn matrix_type(&mut self, ty: CoopMat) -> Id {
        let operands = [ty.component, ty.scope, ty.rows, ty.cols, ty.use_].map(Operand::Id);
        let types = self.m.globals_with(Op::TypeCooperativeMatrixKHR).map(|r| self.m.inst(r));
        let found = types.filter(|i| i.operands[..] == operands).find_map(|i| i.result);
        if let Some(id) = found {
            return id;
        }
        let id = self.m.fresh_id();
        add_global(&mut self.m, Inst::new(Op::TypeCooperativeMatrixKHR, None, Some(id), operands));
        id
    }

    fn op(&mut self, out: &mut Vec<InstRef>, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.m.fresh_id();
        out.push(self.m.add(Inst::new(op, Some(ty), Some(id), operands)));
        id
    }

    /// Replaces the query of an element's row and column.
    fn coordinate(&mut self, inst: &Inst, out: &mut Vec<InstRef>) -> Result<(), String> {
        let none = || String::from("coordinates of no matrix");
        let (pair, result) = inst.ty.zip(inst.result).ok_or_else(none)?;
        let (matrix, index) = inst.id(0).zip(inst.id(1)).ok_or_else(none)?;
        let mat = self.m.type_of(matrix).and_then(|ty| coop_mat(&self.m, ty)).ok_or_else(none)?;
        let view = self.view(mat);
        let component = view.component.ok_or_else(none)?;
        let most = match component {
            Scalar::Float { width: 16 } => 1 << 11,
            Scalar::Float { .. } => 1 << 24,
            Scalar::Int { width, signed } => 1u64 << (width.min(24) - u32::from(signed)),
            _ => 0,
        };
        let extents = [&view.rows, &view.cols].map(|e| e.value().unwrap_or(u64::MAX));
        if extents.iter().any(|e| *e > most) {
            return Err(format!("coordinates in a matrix of {component}, which does not hold them"));
        }
        require_capability(&mut self.m, Capability::CooperativeMatrixPerElementOperationsNV);
        let class = StorageClass::Function;
        let whole = self.globals.pointer(&mut self.m, class, mat.id);
        let part = self.globals.pointer(&mut self.m, class, mat.component);
        let number = self.m.def_inst(pair).and_then(|i| i.id(0)).ok_or_else(none)?;
        let signed = matches!(scalar(&self.m, number), Some(Scalar::Int { signed: true, .. }));
        let mut both = [number; 2];
        for (which, one) in both.iter_mut().enumerate() {
            let function = self.place(mat, component, which);
            let variable = self.m.fresh_id();
            let inst = Inst::new(Op::Variable, Some(whole), Some(variable), [class.into()]);
            let inst = self.m.add(inst);
            self.variables.push(inst);
            let [held, callee] = [matrix, function].map(Operand::Id);
            let all = self.op(out, Op::CooperativeMatrixPerElementOpNV, mat.id, [held, callee]);
            out.push(self.m.add(Inst::new(Op::Store, None, None, [variable, all].map(Operand::Id))));
            let slot = self.op(out, Op::AccessChain, part, [variable, index].map(Operand::Id));
            let element = self.op(out, Op::Load, mat.component, [slot.into()]);
            *one = match component {
                Scalar::Int { width: 32, signed: other } if other == signed => element,
                Scalar::Int { width: 32, .. } => self.op(out, Op::Bitcast, number, [element.into()]),
                Scalar::Int { signed: true, .. } => self.op(out, Op::SConvert, number, [element.into()]),
                Scalar::Int { .. } => {
                    let word = self.globals.uint(&mut self.m, 32);
                    let wide = self.op(out, Op::UConvert, word, [element.into()]);
                    if signed { self.op(out, Op::Bitcast, number, [wide.into()]) } else { wide }
                }
                _ if signed => self.op(out, Op::ConvertFToS, number, [element.into()]),
                _ => self.op(out, Op::ConvertFToU, number, [element.into()]),
            };
        }
        out.push(self.m.add(Inst::new(Op::CompositeConstruct, Some(pair), Some(result), both.map(Operand::Id))));
        Ok(())
    }

    /// Returns a function that returns the row or column of an element.
    fn place(&mut self, mat: CoopMat, component: Scalar, which: usize) -> Id {
        if let Some(function) = self.places.get(&(mat.id, which)) {
            return *function;
        }
        let word = self.globals.uint(&mut self.m, 32);
        let label = ["coop_row", "coop_column"][which];
        let params = [word, word, mat.component];
        let mut f = FunctionBuilder::new(&mut self.m, &mut self.globals, label, mat.component, &params);
        let at = f.param(which);
        let value = match component {
            Scalar::Int { width: 32, signed: false } => at,
            Scalar::Int { width: 32, .. } => f.ids(Op::Bitcast, mat.component, &[at]),
            Scalar::Int { signed: true, .. } => f.ids(Op::SConvert, mat.component, &[at]),
            Scalar::Int { .. } => f.ids(Op::UConvert, mat.component, &[at]),
            _ => f.ids(Op::ConvertUToF, mat.component, &[at]),
        };
        let function = f.finish(Some(value));
        self.places.insert((mat.id, which), function);
        function
    }
}
