//! Statements of SPV_INTEL_joint_matrix: accesses with offsets and bounds, checked construction, prefetches, and
//! numbers whose bits are bfloat16 or tf32.

use super::access::{AccessKind, MatrixPointer};
use super::align::Rule;
use super::emit::{A, ACC, B, Gen, Mat};
use super::fun::Value;
use super::range::Range;
use super::{Dialect, Limits};
use coop_ir::grammar::Op;
use coop_ir::spv::Capability;
use coop_ir::types::Scalar;
use coop_ir::{Id, Operand};

const U16: Scalar = Scalar::Int { width: 16, signed: false };
const F32: Scalar = Scalar::Float { width: 32 };

/// A part of a surface in memory.
struct Surface {
    layout: u32,
    /// First line of the surface, and place in a line.
    origin: [i32; 2],
    /// Lines, and numbers in a line, that may be touched.
    bound: [u32; 2],
    stride: u32,
    /// Numbers from the pointer on that are touched at most.
    extent: u32,
    /// True if some element is outside.
    cut: bool,
}

impl Gen<'_> {
    /// A statement that only this dialect has.
    pub(super) fn intel_statement(&mut self) -> Option<Value> {
        self.extension("SPV_INTEL_joint_matrix");
        match self.e.below(16) {
            0..=3 => {
                let checked = !self.e.chance(80);
                self.surface_load(checked)
            }
            4 | 5 => {
                let checked = !self.e.chance(80);
                let value = self.find(|_| true)?;
                self.surface_store(value, checked);
                None
            }
            6 | 7 => self.construct_checked(),
            8 => {
                self.prefetch();
                None
            }
            9 | 10 => self.coordinates(),
            // No device has matrices of such numbers.
            _ if self.profile.limits == Limits::Tiles => self.construct_checked(),
            11 | 12 => self.round_to_tf32(),
            _ => self.multiply_bfloat_bits(),
        }
    }

    fn surface(&mut self, mat: Mat, checked: bool) -> Surface {
        let packed = mat.use_ == B && mat.scalar.width() <= 32 && mat.rows.is_multiple_of(32 / mat.scalar.width());
        let layout = self.e.pick(if packed { &[0, 1, 2] } else { &[0, 1, 0] });
        let (lines, len) = match layout {
            0 => (mat.rows, mat.cols),
            1 => (mat.cols, mat.rows),
            _ => {
                self.capability(Capability::PackedCooperativeMatrixINTEL);
                let rows = 32 / mat.scalar.width();
                (mat.rows / rows, mat.cols * rows)
            }
        };
        if !checked {
            let origin = [self.e.below(3) as i32, self.e.below(3) as i32];
            let stride = len + origin[1] as u32 + self.e.below(4);
            let extent = (origin[0] as u32 + lines - 1) * stride + origin[1] as u32 + len;
            return Surface { layout, origin, bound: [0; 2], stride, extent, cut: false };
        }
        let origin = [self.e.pick(&[0, 1, -1, 2, -3]), self.e.pick(&[0, 1, -2, 3, 0])];
        let bound = [lines, len].map(|n| (n + self.e.below(5)).saturating_sub(2).max(1));
        let stride = bound[1] + self.e.pick(&[0, 0, 1, 4]);
        let extent = (bound[0] - 1) * stride + bound[1];
        let cut = [(origin[0], lines, bound[0]), (origin[1], len, bound[1])]
            .iter()
            .any(|(o, n, b)| *o < 0 || i64::from(*o) + i64::from(*n) > i64::from(*b));
        Surface { layout, origin, bound, stride, extent, cut }
    }

    /// A coordinate, which may be negative.
    fn coordinate_operand(&mut self, value: i32) -> Id {
        let id = self.uniform(value as u32);
        let ty = self.scalar(Scalar::Int { width: 32, signed: true });
        if value < 0 || self.e.chance(128) { self.ids(Op::Bitcast, ty, &[id]) } else { id }
    }

    /// Layout, bounds, stride and memory operands.
    fn surface_operands(
        &mut self,
        s: &Surface,
        checked: bool,
        place: &MatrixPointer,
        kind: AccessKind,
    ) -> Vec<Operand> {
        let mut out = vec![self.constant_u32(s.layout)];
        if checked {
            out.extend(s.bound.map(|b| self.uniform(b)));
        }
        out.push(self.uniform(s.stride));
        let mut out: Vec<Operand> = out.into_iter().map(Operand::Id).collect();
        let memory = self.memory_operands(place.storage, place.align, kind);
        if memory[0] != Operand::Word(0) {
            out.extend(memory);
        }
        out
    }

    fn surface_load(&mut self, checked: bool) -> Option<Value> {
        let mat = self.any_mat();
        let s = self.surface(mat, checked);
        let step = if self.unaligned(Rule::Plain).is_some() { 1 } else { 16 };
        let place = self.input(mat, mat.scalar, (mat.scalar, 1), (s.extent, step))?;
        let range = if s.cut { place.range.hull(Gen::zero()) } else { place.range };
        let mut operands = vec![Operand::Id(place.pointer)];
        operands.extend(s.origin.map(|o| Operand::Id(self.coordinate_operand(o))));
        operands.extend(self.surface_operands(&s, checked, &place, AccessKind::Load));
        let op = self.surface_op(checked, true);
        self.note(if checked { "checked load" } else { "load with offsets" });
        let id = self.op(op, mat.ty, operands);
        Some(Value { id, mat, range, used: false })
    }

    fn surface_store(&mut self, value: Value, checked: bool) {
        let mat = value.mat;
        let s = self.surface(mat, checked);
        let step = if self.unaligned(Rule::Plain).is_some() { 1 } else { 16 };
        let place = self.output(mat, (mat.scalar, 1), (s.extent, step));
        let mut operands = vec![Operand::Id(place.pointer)];
        operands.extend(s.origin.map(|o| Operand::Id(self.coordinate_operand(o))));
        operands.push(Operand::Id(value.id));
        operands.extend(self.surface_operands(&s, checked, &place, AccessKind::Store));
        let op = self.surface_op(checked, false);
        self.note(if checked { "checked store" } else { "store with offsets" });
        self.effect(op, operands);
    }

    fn surface_op(&mut self, checked: bool, load: bool) -> Op {
        self.capability(if checked {
            Capability::CooperativeMatrixCheckedInstructionsINTEL
        } else {
            Capability::CooperativeMatrixOffsetInstructionsINTEL
        });
        match (checked, load) {
            (true, true) => Op::CooperativeMatrixLoadCheckedINTEL,
            (true, false) => Op::CooperativeMatrixStoreCheckedINTEL,
            (false, true) => Op::CooperativeMatrixLoadOffsetINTEL,
            (false, false) => Op::CooperativeMatrixStoreOffsetINTEL,
        }
    }

    fn construct_checked(&mut self) -> Option<Value> {
        let mat = self.any_mat();
        let (value, frac) = self.small_number(mat.scalar);
        let number = self.number(mat.scalar, value, frac);
        let range = Range::new(value, value, frac).hull(Gen::zero());
        let origin = [self.e.below(4) as i32, self.e.below(4) as i32];
        let mut ids: Vec<Id> = origin.map(|o| self.coordinate_operand(o)).to_vec();
        ids.extend([mat.rows, mat.cols].map(|n| {
            let n = n + self.e.below(4);
            self.uniform(n)
        }));
        ids.push(number);
        self.capability(Capability::CooperativeMatrixCheckedInstructionsINTEL);
        self.note("checked construction");
        let id = self.ids(Op::CooperativeMatrixConstructCheckedINTEL, mat.ty, &ids);
        Some(Value { id, mat, range, used: false })
    }

    /// Emits a prefetch, which has no effect.
    fn prefetch(&mut self) {
        let mat = self.any_mat();
        let unit = (mat.scalar, 1);
        let Some(place) = self.input(mat, mat.scalar, unit, (mat.rows * mat.cols, 16)) else { return };
        let word = |id: Id| Operand::Word(id.get());
        let [rows, cols, layout, stride, zero] = [mat.rows, mat.cols, 0, mat.cols, 0].map(|v| self.u32(v));
        let mut operands = vec![Operand::Id(place.pointer)];
        // The published form has offsets, the shipped one has none.
        if self.e.chance(128) {
            operands.extend([word(zero), word(zero)]);
        }
        operands.extend([word(rows), word(cols), Operand::Word(0), word(layout)]);
        if self.e.chance(128) {
            operands.push(word(stride));
        }
        self.capability(Capability::CooperativeMatrixPrefetchINTEL);
        self.note("prefetch");
        self.effect(Op::CooperativeMatrixPrefetchINTEL, operands);
    }

    /// Rounds numbers to tf32 that are tf32 already.
    fn round_to_tf32(&mut self) -> Option<Value> {
        let x = self.find(|v| v.mat.scalar == F32 && v.range.fits(Scalar::Float { width: 16 }))?;
        self.capability(Capability::CooperativeMatrixTF32ComponentTypeINTEL);
        self.capability(Capability::TensorFloat32RoundingINTEL);
        self.extension("SPV_INTEL_tensor_float32_conversion");
        self.note("rounding to tf32");
        let id = self.ids(Op::RoundFToTF32INTEL, x.mat.ty, &[x.id]);
        Some(Value { id, ..x })
    }

    /// The bits of a multiplication that say how factors are read.
    pub(super) fn intel_bits(&mut self, factors: [Value; 2], result: Scalar) -> u32 {
        let tf32 = |v: &Value| v.mat.scalar == F32 && v.range.fits(Scalar::Float { width: 16 });
        let may = matches!(self.profile.dialect, Dialect::Intel | Dialect::Kernel)
            && self.profile.limits != Limits::Tiles
            && factors.iter().all(tf32)
            && result.is_float();
        if !may || !self.e.chance(128) {
            return 0;
        }
        self.capability(Capability::CooperativeMatrixTF32ComponentTypeINTEL);
        self.extension("SPV_INTEL_joint_matrix");
        self.note("multiplication of tf32");
        0x20
    }

    /// A multiplication of 16-bit integers that hold bfloat16, and maybe a sum of such.
    fn multiply_bfloat_bits(&mut self) -> Option<Value> {
        let problem = self.any_mat().problem;
        let depth = self.problems[problem].dims[2].0;
        let [a, b] = [A, B].map(|u| self.mat(problem, U16, u));
        let [narrow, wide] = [U16, F32].map(|s| self.mat(problem, s, ACC));
        let (x, y) = (self.bfloat_bits(a)?, self.bfloat_bits(b)?);
        // Of devices' accumulators none is bfloat16.
        let any = self.profile.limits == Limits::Any;
        let (c_bits, d_bits) = (any && self.e.chance(100), any && self.e.chance(100));
        let c = if c_bits { self.bfloat_bits(narrow)? } else { self.operand(wide) };
        let steps = x.range.products(y.range, depth);
        let part = steps.negated().hull(steps);
        let range = part.plus(c.range.hull(Gen::zero()));
        let into = if d_bits { Scalar::BF16 } else { F32 };
        if !range.fits(into) || !range.fits(F32) {
            return None;
        }
        self.capability(Capability::CooperativeMatrixBFloat16ComponentTypeINTEL);
        let mask = 0x40 | if c_bits { 0x80 } else { 0 } | if d_bits { 0x100 } else { 0 };
        let mat = if d_bits { narrow } else { wide };
        let operands = [x.id, y.id, c.id].map(Operand::Id).into_iter().chain([Operand::Word(mask)]);
        let id = self.op(Op::CooperativeMatrixMulAddKHR, mat.ty, operands);
        self.note("multiplication of bfloat16 bits");
        if !d_bits {
            return Some(Value { id, mat, range, used: false });
        }
        self.bfloat_conversion();
        let id = self.ids(Op::ConvertBF16ToFINTEL, wide.ty, &[id]);
        Some(Value { id, mat: wide, range, used: false })
    }

    fn bfloat_conversion(&mut self) {
        self.capability(Capability::CooperativeMatrixBFloat16ComponentTypeINTEL);
        self.capability(Capability::BFloat16ConversionINTEL);
        self.extension("SPV_INTEL_bfloat16_conversion");
    }

    /// Integers that hold bfloat16: loaded, or converted. The range is that of the numbers.
    fn bfloat_bits(&mut self, mat: Mat) -> Option<Value> {
        if self.e.chance(100)
            && let Some(extents) = Some(self.extents(mat))
            && let Some(wide) = self.mat_with(mat, F32, mat.use_, extents)
            && let Some(x) = self.find(|v| v.mat == wide && v.range.fits(Scalar::BF16))
        {
            self.bfloat_conversion();
            self.note("conversion to bfloat16 bits");
            let id = self.ids(Op::ConvertFToBF16INTEL, mat.ty, &[x.id]);
            return Some(Value { id, mat, range: x.range, used: false });
        }
        self.load_as(mat, Scalar::BF16)
    }
}
