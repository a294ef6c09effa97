//! Translates the instructions on cooperative matrices, of every dialect.

use super::matrix::is_major;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::spv::{CooperativeMatrixLayout, TensorAddressingOperands};
use coop_ir::{Id, Inst, InstRef, Op};

use super::Semantics;
use super::code::{Conv, CoopMem, Extra, Ins, MulAdd, NO_ROW, Row, Surface, Tensor};
use super::num::{Num, Rounding};
use super::program::Translator;
use super::translate_function::Body;
use super::types::{Kind, MatLayout, Ty};

/// The tensor addressing operands that have an operand of their own.
const TENSOR_OPERANDS: TensorAddressingOperands = TensorAddressingOperands(
    TensorAddressingOperands::TensorView.0
        | TensorAddressingOperands::DecodeFunc.0
        | TensorAddressingOperands::DecodeVectorFunc.0,
);

impl Translator<'_> {
    /// Translates an instruction that exists for matrices only or is different for them. Returns false for all others.
    pub(super) fn matrix_instruction(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        let operand = |i: usize| inst.id(i).ok_or_else(|| format!("lacks operand {i}"));
        match inst.op {
            Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadNV => self.coop_access(r, inst, None, body)?,
            Op::CooperativeMatrixStoreKHR | Op::CooperativeMatrixStoreNV => self.coop_access(r, inst, None, body)?,
            Op::CooperativeMatrixLoadCheckedINTEL => {
                let surface = self.surface([operand(1)?, operand(2)?], Some([operand(4)?, operand(5)?]))?;
                self.coop_access(r, inst, Some(surface), body)?;
            }
            Op::CooperativeMatrixStoreCheckedINTEL => {
                let surface = self.surface([operand(1)?, operand(2)?], Some([operand(5)?, operand(6)?]))?;
                self.coop_access(r, inst, Some(surface), body)?;
            }
            Op::CooperativeMatrixLoadOffsetINTEL | Op::CooperativeMatrixStoreOffsetINTEL => {
                let surface = self.surface([operand(1)?, operand(2)?], None)?;
                self.coop_access(r, inst, Some(surface), body)?;
            }
            Op::CooperativeMatrixConstructCheckedINTEL => {
                let (dst, ty) = self.matrix_result(inst)?;
                let at = [self.row(operand(0)?)?, self.row(operand(1)?)?];
                let bound = [self.extent(operand(2)?)?, self.extent(operand(3)?)?];
                let value = self.row(operand(4)?)?;
                body.push(Ins::ConstructChecked { dst, ty, at, bound, value }, r);
            }
            Op::CooperativeMatrixMulAddKHR | Op::CooperativeMatrixMulAddNV => self.mul_add(r, inst, body)?,
            Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV => {
                let of = operand(0)?;
                // One published compiler gives a value where the type belongs.
                let ty = self.types.of(of).map_or_else(|| self.type_of(of), Ok)?;
                let len = self.types.coop(ty).ok_or("the type of its operand is not a matrix type")?.placed.len;
                let (dst, src) = (self.row(inst.result.ok_or("no result")?)?, self.constant_row(u64::from(len))?);
                body.push(Ins::Copy { dst, src, n: 1 }, r);
            }
            Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV => {
                let (dst, to) = self.matrix_result(inst)?;
                let (src, from) = self.matrix(operand(0)?)?;
                if self.types.coop(from).map(|c| c.scope) != self.types.coop(to).map(|c| c.scope) {
                    return Err("a conversion between scopes".into());
                }
                let transpose = inst.op == Op::CooperativeMatrixTransposeNV || self.transposes(inst);
                let conv = match inst.op {
                    Op::CooperativeMatrixTransposeNV => self.transposed_components(from, to),
                    _ => None,
                };
                let src = match conv {
                    Some((conv, n)) => {
                        let temp = self.new_rows(n)?;
                        body.push(Ins::Convert { conv, dst: temp, a: src, n }, r);
                        temp
                    }
                    None => src,
                };
                body.push(Ins::Relayout { dst, src, from, to, transpose }, r);
            }
            Op::CooperativeMatrixReduceNV => {
                let (dst, to) = self.matrix_result(inst)?;
                let (src, from) = self.matrix(operand(0)?)?;
                let mask = inst.word(1).unwrap_or(0);
                let func = self.callback(operand(2)?, 2)?;
                body.push(Ins::Reduce { dst, src, from, to, mask, func }, r);
            }
            Op::CooperativeMatrixPerElementOpNV => {
                let (dst, ty) = self.matrix_result(inst)?;
                let (src, from) = self.matrix(operand(0)?)?;
                if from != ty {
                    return Err("its result has another type than its operand".into());
                }
                let mut extras = Vec::new();
                for id in inst.ids_from(2) {
                    let t = self.type_of(id)?;
                    let matrix = self.types.coop(t).is_some();
                    extras.push(Extra { row: self.row(id)?, n: self.types.slots(t), matrix });
                }
                let func = self.callback(operand(1)?, 3 + extras.len())?;
                body.push(Ins::PerElement { dst, src, ty, func, extras: extras.into() }, r);
            }
            Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV => self.tensor(r, inst, body)?,
            Op::CooperativeMatrixGetCoordinateEXT | Op::CooperativeMatrixGetElementCoordINTEL => {
                let ty = self.matrix(operand(0)?)?.1;
                let (dst, index) = (self.row(inst.result.ok_or("no result")?)?, self.row(operand(1)?)?);
                body.push(Ins::GetCoord { dst, ty, index }, r);
            }
            op if op.is_conversion() => return self.convert(r, inst, body),
            Op::CompositeConstruct => {
                // A published compiler splats through a pointer to a struct of the component.
                let Ok((dst, ty)) = self.matrix_result(inst) else { return Ok(false) };
                let value = operand(0)?;
                let Kind::Pointer { pointee, .. } = *self.types.kind(self.type_of(value)?) else { return Ok(false) };
                let pointee = self.types.of(pointee).ok_or("its pointer's type is not known")?;
                let temp = self.new_rows(self.types.slots(pointee))?;
                let access = self.access(pointee, MatLayout::default(), 1);
                let ptr = self.row(value)?;
                body.push(Ins::Load { dst: temp, ptr, access: Box::new(access) }, r);
                body.push(Ins::Splat { dst, ty, value: temp }, r);
            }
            Op::CooperativeMatrixApplyFunctionINTEL => {
                return Err("the calling convention of its function object is not specified".into());
            }
            _ => return self.array_instruction(r, inst, body),
        }
        Ok(true)
    }

    /// Translates an instruction of SPV_QCOM_cooperative_matrix_conversion. Returns false for all others.
    fn array_instruction(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        let operand = |i: usize| inst.id(i).ok_or_else(|| format!("lacks operand {i}"));
        match inst.op {
            Op::CompositeConstructCoopMatQCOM => {
                let (dst, ty) = self.matrix_result(inst)?;
                let (array, bits) = self.array(operand(0)?)?;
                let src = self.row(operand(0)?)?;
                body.push(Ins::Rake { dst, src, ty, array, bits, out: false }, r);
            }
            Op::CompositeExtractCoopMatQCOM => {
                let (src, ty) = self.matrix(operand(0)?)?;
                let id = inst.result.ok_or("no result")?;
                let (array, bits) = self.array(id)?;
                let dst = self.row(id)?;
                body.push(Ins::Rake { dst, src, ty, array, bits, out: true }, r);
            }
            Op::BitCastArrayQCOM => {
                let id = inst.result.ok_or("no result")?;
                let ((n, from), (m, to)) = (self.array(operand(0)?)?, self.array(id)?);
                let (dst, src) = (self.row(id)?, self.row(operand(0)?)?);
                let f = super::code::LaneFn::Bits { from, to };
                body.push(Ins::Lane { f, dst, n: m, args: [(src, n)].into() }, r);
            }
            Op::ExtractSubArrayQCOM => {
                let id = inst.result.ok_or("no result")?;
                let ((n, _), (m, _)) = (self.array(operand(0)?)?, self.array(id)?);
                let (dst, src, start) = (self.row(id)?, self.row(operand(0)?)?, self.row(operand(1)?)?);
                for i in 0..m {
                    let at = self.new_rows(1)?;
                    let step = self.constant_row(u64::from(i))?;
                    body.push(Ins::Each { op: Op::IAdd, num: Num::U32, dst: at, args: [start, step, 0, 0], n: 1 }, r);
                    body.push(Ins::Extract { dst: dst + i, vector: src, n, index: at }, r);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn matrix(&mut self, id: Id) -> Result<(Row, Ty), String> {
        let ty = self.type_of(id)?;
        if self.types.coop(ty).is_none() {
            return Err(format!("{id} is not a matrix of a known type"));
        }
        Ok((self.row(id)?, ty))
    }

    fn matrix_result(&mut self, inst: &Inst) -> Result<(Row, Ty), String> {
        self.matrix(inst.result.ok_or("no result")?)
    }

    /// Returns the length of a one-dimensional array and the width of its elements in bits.
    fn array(&self, id: Id) -> Result<(u32, u32), String> {
        match *self.types.kind(self.type_of(id)?) {
            Kind::Array { elem, len, .. } => Ok((
                len,
                self.types.numeric(elem).ok_or("an operand or the result is not an array of numbers")?.0.bits(),
            )),
            _ => Err(format!("{id} is not an array")),
        }
    }

    /// Returns what becomes of the elements of `OpCooperativeMatrixTransposeNV`, and how many an invocation has; nothing where they
    /// keep their bits. The text does not say: Khronos' conformance tests want their values.
    fn transposed_components(&self, from: Ty, to: Ty) -> Option<(Conv, u32)> {
        let (a, b) = (self.types.coop(from)?, self.types.coop(to)?);
        let op = match (a.num, b.num) {
            (x, y) if x == y => return None,
            (Num::Int { width: x, .. }, Num::Int { width: y, .. }) if x == y => return None,
            (Num::Int { signed: true, .. }, Num::Int { .. }) => Op::SConvert,
            (Num::Int { .. }, Num::Int { .. }) => Op::UConvert,
            (Num::Int { signed: true, .. }, _) => Op::ConvertSToF,
            (Num::Int { .. }, _) => Op::ConvertUToF,
            (_, Num::Int { signed: true, .. }) => Op::ConvertFToS,
            (_, Num::Int { .. }) => Op::ConvertFToU,
            _ => Op::FConvert,
        };
        let truncates = self.config.semantics == Semantics::Nvidia && b.num == Num::Bf16;
        let mode = truncates.then_some(Rounding::ToZero);
        Some((Conv { op, from: a.num, to: b.num, saturate: false, mode }, a.placed.len))
    }

    fn transposes(&self, inst: &Inst) -> bool {
        inst.result.is_some_and(|id| self.d.has(id, Decoration::CooperativeMatrixTransposeEXT))
    }

    fn callback(&mut self, id: Id, params: usize) -> Result<usize, String> {
        let func = self.function(id)?;
        if self.functions[func].ret.1 == 0 {
            return Err(format!("the function {id} returns nothing"));
        }
        if self.functions[func].params.len() != params {
            return Err(format!(
                "the function {id} has {} parameters, not {params}",
                self.functions[func].params.len()
            ));
        }
        Ok(func)
    }

    fn surface(&mut self, at: [Id; 2], bound: Option<[Id; 2]>) -> Result<Surface, String> {
        let at = [self.row(at[0])?, self.row(at[1])?];
        let bound = match bound {
            Some([h, w]) => Some([self.extent(h)?, self.extent(w)?]),
            None => None,
        };
        Ok(Surface { at, bound })
    }

    fn extent(&mut self, id: Id) -> Result<(Row, Num), String> {
        let num = self.types.numeric(self.type_of(id)?).ok_or("a bound is not an integer")?.0;
        Ok((self.row(id)?, num))
    }

    fn coop_mem(
        &mut self,
        ptr: Id,
        layout: Id,
        stride: Option<Id>,
        surface: Option<Surface>,
        intel: bool,
    ) -> Result<CoopMem, String> {
        let layout = CooperativeMatrixLayout(self.scalar(layout).ok_or("its layout is not constant")? as u32);
        let (pointee, storage, _) = self.pointee(ptr)?;
        let kernel = self.is_kernel()
            || !matches!(
                storage,
                StorageClass::Uniform
                    | StorageClass::Workgroup
                    | StorageClass::StorageBuffer
                    | StorageClass::PhysicalStorageBuffer
            );
        let unit = match pointee {
            // Producers of kernels count components, whatever the pointee: 0 stands for that.
            _ if intel || kernel || layout == CooperativeMatrixLayout::PackedINTEL => 0,
            Some(ty) => match self.types.numeric(ty) {
                Some((num, n)) => num.bytes() * n,
                None => return Err("its pointee is not a scalar or a vector".into()),
            },
            None => 1,
        };
        let (stride, stride_num) = match stride {
            Some(id) => {
                let num = self.types.numeric(self.type_of(id)?).ok_or("its stride is not an integer")?.0;
                (self.row(id)?, num)
            }
            None => (NO_ROW, Num::U32),
        };
        let vulkan = unit > 0 && is_major(layout) && self.m.has_capability(Capability::Shader);
        Ok(CoopMem { ptr: self.row(ptr)?, layout, stride, stride_num, unit, surface, vulkan })
    }

    /// Translates a load or store with a stride, at a pointer or in a surface.
    fn coop_access(
        &mut self,
        r: InstRef,
        inst: &Inst,
        surface: Option<Surface>,
        body: &mut Body,
    ) -> Result<(), String> {
        let access = inst.matrix_access().ok_or("lacks an operand")?;
        let intel = surface.is_some();
        let held = if inst.op.is_matrix_load() {
            self.matrix_result(inst)?
        } else {
            self.matrix(access.object.ok_or("lacks an operand")?)?
        };
        let mem = self.coop_mem(access.pointer, access.layout, access.stride, surface, intel)?;
        body.push(
            match held {
                (dst, ty) if inst.op.is_matrix_load() => Ins::CoopLoad { dst, ty, mem },
                (src, ty) => Ins::CoopStore { src, ty, mem },
            },
            r,
        );
        Ok(())
    }

    fn mul_add(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<(), String> {
        let (dst, result) = self.matrix_result(inst)?;
        let mut rows = [0; 3];
        let mut ty = [0; 3];
        for i in 0..3 {
            (rows[i], ty[i]) = self.matrix(inst.id(i).ok_or("lacks an operand")?)?;
        }
        let operands = inst.matrix_operands().0;
        let nv1 = inst.op == Op::CooperativeMatrixMulAddNV;
        body.push(Ins::MulAdd(Box::new(MulAdd { dst, rows, ty, result, operands, nv1 })), r);
        Ok(())
    }

    /// Translates a conversion of a matrix, which may change the use and transpose as well.
    fn convert(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        let Ok((dst, to)) = self.matrix_result(inst) else { return Ok(false) };
        let (src, from) = self.matrix(inst.id(0).ok_or("no operand")?)?;
        let (Some(a), Some(b)) = (self.types.coop(from), self.types.coop(to)) else { return Ok(false) };
        let manner = self.manner(inst, r);
        let nvidia = self.config.semantics == Semantics::Nvidia;
        // Observed on an H100: f32 to bf16 truncates.
        let mode = if nvidia && b.num == Num::Bf16 { Some(Rounding::ToZero) } else { manner.mode };
        let conv = Conv { op: inst.op, from: a.num, to: b.num, saturate: manner.saturate, mode };
        let n = a.placed.len;
        let transpose = self.transposes(inst);
        if a.scope != b.scope {
            return Err("a conversion between scopes".into());
        }
        if a.use_ == b.use_ && !transpose && (a.rows, a.cols) == (b.rows, b.cols) {
            body.push(Ins::Convert { conv, dst, a: src, n }, r);
        } else {
            let temp = self.new_rows(n)?;
            body.push(Ins::Convert { conv, dst: temp, a: src, n }, r);
            body.push(Ins::Relayout { dst, src: temp, from, to, transpose }, r);
        }
        Ok(true)
    }

    fn tensor(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<(), String> {
        let store = inst.op == Op::CooperativeMatrixStoreTensorNV;
        let operand = |i: usize| inst.id(i).ok_or_else(|| format!("lacks operand {i}"));
        let ptr = operand(0)?;
        let (object, ty) = self.matrix(operand(1)?)?;
        let layout = operand(2)?;
        let layout = (self.row(layout)?, self.type_of(layout)?);
        if !matches!(self.types.kind(layout.1), Kind::Layout { .. }) {
            return Err("its tensor layout has a type that is not known".into());
        }
        let access = inst.tensor_access().ok_or("its memory operands are not known")?;
        let given = [access.view, access.decode, access.decode_vector].iter().flatten().count();
        if given != (access.mask.0 & TENSOR_OPERANDS.0).count_ones() as usize {
            return Err("it lacks an operand of its tensor addressing operands".into());
        }
        let [view, decode, vector] = [access.view, access.decode, access.decode_vector].map(|o| o.map(|(id, _)| id));
        let view = match view {
            Some(v) => {
                let view = (self.row(v)?, self.type_of(v)?);
                if !matches!(self.types.kind(view.1), Kind::View { .. }) {
                    return Err("its tensor view has a type that is not known".into());
                }
                Some(view)
            }
            None => None,
        };
        let decode = decode.map(|f| self.decoder(f)).transpose()?;
        let vector = match vector {
            Some(f) => {
                let (func, size) = self.decoder(f)?;
                Some((func, size, self.functions[func].ret.1))
            }
            None => None,
        };
        let dst = match store {
            true => NO_ROW,
            false => match self.matrix_result(inst)? {
                (dst, result) if result == ty => dst,
                _ => return Err("its result has another type than its object".into()),
            },
        };
        let ptr = self.row(ptr)?;
        let tensor = Tensor { store, dst, object, ty, ptr, layout, view, decode, vector };
        body.push(Ins::Tensor(Box::new(tensor)), r);
        Ok(())
    }

    /// Returns a decode function and the size in bytes of its blocks.
    fn decoder(&mut self, id: Id) -> Result<(usize, u32), String> {
        let func = self.callback(id, 3)?;
        let function = self.m.functions.iter().find(|f| self.m.inst(f.def).result == Some(id));
        let param = function
            .and_then(|f| f.params.iter().map(|p| self.m.inst(*p)).find(|i| i.op == Op::FunctionParameter))
            .and_then(|i| i.result)
            .ok_or("its decode function has no parameter")?;
        let pointee = self.pointee(param)?.0.ok_or("its decode function takes no typed pointer")?;
        let (size, align) = self.types.size(pointee, MatLayout::default());
        // A struct that ends in a runtime array has a block size only where the members before it fill it.
        let rounded = match self.config.semantics {
            Semantics::Spec => size.next_multiple_of(u64::from(align.max(1))),
            Semantics::Nvidia => size,
        };
        Ok((func, u32::try_from(rounded).map_err(|_| "its decode function's blocks are too large")?))
    }
}
