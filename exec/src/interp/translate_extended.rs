//! Extended instructions that read or write through a pointer.

use super::code::{Chain, Ins, LaneFn, Row, Step, ValueLayout};
use super::glsl_std_450;
use super::num::Num;
use super::program::Translator;
use super::translate_function::Body;
use super::translate_values::Arg;
use super::types::MatLayout;
use coop_ir::spv::{GlslStd450 as Glsl, OpenClStd as OpenCl};
use coop_ir::{Inst, InstRef};

impl Translator<'_> {
    /// Translates an extended instruction that has a pointer operand, or that GLSL.std.450 has no counterpart of.
    /// Returns false for all others.
    pub(super) fn extended(&mut self, r: InstRef, inst: &Inst, body: &mut Body) -> Result<bool, String> {
        let set = inst.ext_set();
        let number = inst.ext_instruction().unwrap_or(0);
        if set != self.opencl {
            match Glsl(number) {
                Glsl::Modf => self.pair(r, inst, Glsl::ModfStruct, body)?,
                Glsl::Frexp => self.pair(r, inst, Glsl::FrexpStruct, body)?,
                _ => return Ok(false),
            }
            return Ok(true);
        }
        match OpenCl(number) {
            OpenCl::modf => self.pair(r, inst, Glsl::ModfStruct, body)?,
            OpenCl::frexp => self.pair(r, inst, Glsl::FrexpStruct, body)?,
            OpenCl::fract => {
                let (x, dst, num, n) = self.first(inst)?;
                let limit = match num {
                    Num::F16 => 0x3bff,
                    Num::F64 => 0x3fef_ffff_ffff_ffff,
                    _ => 0x3f7f_ffff,
                };
                let below_one = (0..n).map(|_| self.constant_row(limit)).collect::<Result<Vec<Row>, _>>()?;
                let whole = self.new_rows(n)?;
                body.push(Ins::Ext { op: Glsl::Floor, num, dst: whole, args: [x, 0, 0], n }, r);
                body.push(Ins::Ext { op: Glsl::Fract, num, dst, args: [x, 0, 0], n }, r);
                let limit = below_one.first().copied().ok_or("no components")?;
                body.push(Ins::Ext { op: Glsl::FMin, num, dst, args: [dst, limit, 0], n }, r);
                self.through(r, inst, 1, whole, n, body)?;
            }
            OpenCl::sincos => {
                let (x, dst, num, n) = self.first(inst)?;
                let cos = self.new_rows(n)?;
                body.push(Ins::Ext { op: Glsl::Cos, num, dst: cos, args: [x, 0, 0], n }, r);
                body.push(Ins::Ext { op: Glsl::Sin, num, dst, args: [x, 0, 0], n }, r);
                self.through(r, inst, 1, cos, n, body)?;
            }
            op @ (OpenCl::remainder | OpenCl::remquo) => {
                let (x, dst, num, n) = self.first(inst)?;
                let y = self.row(inst.id(3).ok_or("no divisor")?)?;
                let quotient = self.new_rows(n)?;
                body.push(Ins::Ext { op: glsl_std_450::QUOTIENT, num, dst: quotient, args: [x, y, 0], n }, r);
                body.push(Ins::Ext { op: glsl_std_450::REMAINDER, num, dst, args: [x, y, 0], n }, r);
                if op == OpenCl::remquo {
                    self.through(r, inst, 2, quotient, n, body)?;
                }
            }
            OpenCl::vloadn => {
                let id = inst.result.ok_or("no result")?;
                let (ptr, access) = self.row_of_vectors(r, inst, id, (2, 3), body)?;
                let dst = self.row(id)?;
                body.push(Ins::Load { dst, ptr, access }, r);
            }
            OpenCl::vstoren => {
                let data = inst.id(2).ok_or("no data")?;
                let (ptr, access) = self.row_of_vectors(r, inst, data, (3, 4), body)?;
                let src = self.row(data)?;
                body.push(Ins::Store { src, ptr, access }, r);
            }
            // Nothing reads the output.
            OpenCl::printf => {
                let (dst, src) = (self.row(inst.result.ok_or("no result")?)?, self.constant_row(0)?);
                body.push(Ins::Copy { dst, src, n: 1 }, r);
            }
            OpenCl::prefetch => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the rows of the first operand and of the result, their float type, and the number of components.
    fn first(&mut self, inst: &Inst) -> Result<(Row, Row, Num, u32), String> {
        let (x, id) = (inst.id(2).ok_or("no operand")?, inst.result.ok_or("no result")?);
        let arg = Arg { row: self.row(x)?, ty: self.type_of(x)? };
        let (num, n) =
            self.types.numeric(arg.ty).filter(|(num, _)| num.is_float()).ok_or("its operand is not a float")?;
        if self.types.slots(self.type_of(id)?) != n {
            return Err("its operands do not fit each other".into());
        }
        Ok((arg.row, self.row(id)?, num, n))
    }

    /// Translates by the instruction with a struct result: its first member is the result, the second is stored.
    fn pair(&mut self, r: InstRef, inst: &Inst, op: Glsl, body: &mut Body) -> Result<(), String> {
        let (x, dst, num, n) = self.first(inst)?;
        let both = self.new_rows(2 * n)?;
        body.push(Ins::Lane { f: LaneFn::Glsl { op, num }, dst: both, n: 2 * n, args: [(x, n)].into() }, r);
        body.push(Ins::Copy { dst, src: both, n }, r);
        self.through(r, inst, 1, both + n, n, body)
    }

    /// Stores rows through a pointer operand, counted from the first operand after the number.
    fn through(
        &mut self,
        r: InstRef,
        inst: &Inst,
        operand: usize,
        src: Row,
        n: u32,
        body: &mut Body,
    ) -> Result<(), String> {
        let ptr = inst.id(2 + operand).ok_or("no pointer")?;
        let ty = self.pointee(ptr)?.0.ok_or("its type is not known")?;
        if self.types.slots(ty) != n {
            return Err("its operands do not fit each other".into());
        }
        self.store(r, ptr, ty, src, super::translate_function::Operands::PLAIN, body)
    }

    /// Returns a pointer to one of several consecutive vectors, and the layout of `like` there.
    fn row_of_vectors(
        &mut self,
        r: InstRef,
        inst: &Inst,
        like: coop_ir::Id,
        (offset, pointer): (usize, usize),
        body: &mut Body,
    ) -> Result<(Row, Box<ValueLayout>), String> {
        let (index, base) = (inst.id(offset).ok_or("no offset")?, inst.id(pointer).ok_or("no pointer")?);
        let access = self.access(self.type_of(like)?, MatLayout::default(), 1);
        let width = self.types.numeric(self.type_of(index)?).ok_or("an offset that is not an integer")?.0.bits();
        let (bytes, slots) = (u64::from(access.extent), u64::from(access.slots));
        let step = Step { index: self.row(index)?, width, bytes, slots, bound: None };
        let dst = self.new_rows(1)?;
        let chain = Chain { dst, base: self.row(base)?, bytes: 0, slots: 0, steps: [step].into(), bad: false };
        body.push(Ins::Chain(Box::new(chain)), r);
        Ok((dst, Box::new(access)))
    }
}
