//! Matrices made of matrices.

use super::emit::{A, ACC, B, Gen, Mat};
use super::fun::{Path, Value, Var};
use super::range::Range;
use coop_ir::builder::{add_global, decorate};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, CooperativeMatrixOperands as Bits, Decoration, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};

fn signed(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Int { signed: true, .. })
}

/// A loop over the elements that an invocation holds, being written.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    /// The element's index.
    pub(super) i: Id,
    i_next: Id,
    header: Id,
    next: Id,
    merge: Id,
}

impl Gen<'_> {
    pub(super) fn made_value(&mut self, id: Id, mat: Mat, range: Range) -> Value {
        Value { id, mat, range, used: false }
    }

    /// Some matrix type: of a random problem, use and component type.
    pub(super) fn any_mat(&mut self) -> Mat {
        let problems: Vec<usize> =
            (0..self.problems.len()).filter(|p| !self.problems[*p].workgroup || !self.fun().apart).collect();
        let problem = if problems.is_empty() { 0 } else { self.e.pick(&problems) };
        let use_ = self.e.pick(&[ACC, A, B]);
        let scalars = self.scalars(use_);
        let scalar = self.e.pick(scalars);
        self.mat(problem, scalar, use_)
    }

    /// Returns true if matrices of the type may be worked on here.
    pub(super) fn allowed(&mut self, mat: Mat) -> bool {
        !mat.workgroup || !self.fun().apart
    }

    /// A number that is in the type, by which one can do much and stay exact: value and fractional bits.
    pub(super) fn small_number(&mut self, scalar: Scalar) -> (i128, u32) {
        let value = i128::from(self.e.pick(&[1u8, 2, 0, 3, 4]));
        let value =
            if scalar.is_float() || signed(scalar) { if self.e.chance(80) { -value } else { value } } else { value };
        let frac = if scalar.is_float() { self.e.pick(&[0, 1, 2]) } else { 0 };
        (value, frac)
    }

    /// All elements the same.
    pub(super) fn splat(&mut self, mat: Mat) -> Value {
        let (value, frac) = self.small_number(mat.scalar);
        let range = Range::new(value, value, frac);
        let number = self.number(mat.scalar, value, frac);
        let replicates = self.e.chance(40);
        if replicates {
            self.extension("SPV_EXT_replicated_composites");
            self.capability(Capability::ReplicatedCompositesEXT);
        }
        let id = match self.e.below(8) {
            0..=3 => {
                self.note("constant");
                let op = if replicates { Op::ConstantCompositeReplicateEXT } else { Op::ConstantComposite };
                let id = self.m.fresh_id();
                self.global(coop_ir::Inst::new(op, Some(mat.ty), Some(id), [number.into()]));
                id
            }
            4 => {
                self.note("null");
                let id = self.g.null(&mut self.m, mat.ty);
                return self.made_value(id, mat, Gen::zero());
            }
            _ => {
                self.note("construct");
                let op = if replicates { Op::CompositeConstructReplicateEXT } else { Op::CompositeConstruct };
                let number = if value >= 0 && frac == 0 && mat.scalar != Scalar::BF16 && self.e.chance(128) {
                    self.uniform_number(mat.scalar, value as u32)
                } else {
                    number
                };
                self.ids(op, mat.ty, &[number])
            }
        };
        self.made_value(id, mat, range)
    }

    /// A number of a type that is computed.
    pub(super) fn uniform_number(&mut self, scalar: Scalar, value: u32) -> Id {
        let id = self.uniform(value);
        let ty = self.scalar(scalar);
        match scalar {
            Scalar::Int { width: 32, signed: false } => id,
            Scalar::Int { width: 32, .. } => self.ids(Op::Bitcast, ty, &[id]),
            Scalar::Int { signed: true, .. } => self.ids(Op::SConvert, ty, &[id]),
            Scalar::Int { .. } => self.ids(Op::UConvert, ty, &[id]),
            _ => self.ids(Op::ConvertUToF, ty, &[id]),
        }
    }

    /// A value at hand of a type that a test accepts, or `None`.
    pub(super) fn find(&mut self, accepts: impl Fn(&Value) -> bool) -> Option<Value> {
        let apart = self.fun().apart;
        let fits: Vec<usize> = self
            .fun()
            .values
            .iter()
            .enumerate()
            .filter(|(_, v)| !(v.mat.workgroup && apart) && accepts(v))
            .map(|(i, _)| i)
            .collect();
        // New ones are taken first: chains are longer so.
        let back = self.e.below(fits.len() as u32) as usize;
        let at = *fits.len().checked_sub(1 + back).and_then(|i| fits.get(i))?;
        let fun = self.fun();
        let value = fun.values[at];
        fun.values[at].used = true;
        Some(value)
    }

    /// A value of the type: at hand, loaded or constant.
    pub(super) fn operand(&mut self, mat: Mat) -> Value {
        if !self.e.chance(80)
            && let Some(value) = self.find(|v| v.mat == mat)
        {
            return value;
        }
        if self.e.chance(60) { self.splat(mat) } else { self.load(mat) }
    }

    /// Component-wise arithmetic.
    pub(super) fn arithmetic(&mut self) -> Option<Value> {
        let nv1 = self.profile.dialect == super::Dialect::Nv1;
        let x = self.find(|v| v.mat.scalar != Scalar::BF16)?;
        let scalar = x.mat.scalar;
        let float = scalar.is_float();
        let wrapped = |r: Range| r.wrapped(scalar);
        let (op, operand, range) = match self.e.below(7) {
            0 | 1 => {
                let y = self.operand(x.mat);
                (if float { Op::FAdd } else { Op::IAdd }, Some(y.id), wrapped(x.range.plus(y.range)))
            }
            2 => {
                let y = self.operand(x.mat);
                (if float { Op::FSub } else { Op::ISub }, Some(y.id), wrapped(x.range.plus(y.range.negated())))
            }
            3 if !nv1 => {
                let y = self.operand(x.mat);
                (if float { Op::FMul } else { Op::IMul }, Some(y.id), wrapped(x.range.mul(y.range)))
            }
            4 => (if float { Op::FNegate } else { Op::SNegate }, None, wrapped(x.range.negated())),
            5 => {
                let by = self.e.below(3);
                let y = self.number(scalar, 1 << by, 0);
                let y = self.ids(Op::CompositeConstruct, x.mat.ty, &[y]);
                let op = match scalar {
                    Scalar::Int { signed: false, .. } => Op::UDiv,
                    Scalar::Int { .. } => Op::SDiv,
                    _ => Op::FDiv,
                };
                let range = if float { wrapped(x.range.halved(by)) } else { Some(x.range.hull(Gen::zero())) };
                (op, Some(y), range)
            }
            // OpenCL has no OpMatrixTimesScalar.
            _ if self.kernel() => return None,
            _ => {
                let (value, frac) = self.small_number(scalar);
                let by = Range::new(value, value, frac);
                let number = if value >= 0 && frac == 0 && self.e.chance(128) {
                    self.uniform_number(scalar, value as u32)
                } else {
                    self.number(scalar, value, frac)
                };
                (Op::MatrixTimesScalar, Some(number), wrapped(x.range.mul(by)))
            }
        };
        let range = range?;
        let operands: Vec<Id> = [x.id].into_iter().chain(operand).collect();
        let id = self.ids(op, x.mat.ty, &operands);
        if float && !self.kernel() && self.side.chance(30) {
            self.decorate_operation(id, Decoration::NoContraction);
        }
        self.note(op.name().unwrap_or("operation"));
        Some(self.made_value(id, x.mat, range))
    }

    /// A conversion to another component type.
    pub(super) fn convert(&mut self) -> Option<Value> {
        let x = self.find(|_| true)?;
        let from = x.mat.scalar;
        let use_ = self.converted_use(x.mat.use_);
        let scalars = self.scalars(use_);
        let to = self.e.pick(scalars);
        if to == from {
            return None;
        }
        let fits = x.range.fits(to);
        let mut saturates = false;
        let other = match (from, to) {
            (Scalar::Int { width, .. }, Scalar::Int { width: other, .. }) if width == other => {
                if self.profile.dialect == super::Dialect::Nv1 {
                    return None;
                }
                Op::Bitcast
            }
            (Scalar::Int { .. }, Scalar::Int { signed: false, .. }) if !signed(from) || self.e.chance(100) => {
                Op::UConvert
            }
            (Scalar::Int { .. }, Scalar::Int { .. }) => Op::SConvert,
            (Scalar::Int { .. }, _) if to == Scalar::BF16 => return None,
            (Scalar::Int { signed: true, .. }, _) if fits => Op::ConvertSToF,
            (Scalar::Int { .. }, _) if fits => Op::ConvertUToF,
            (_, Scalar::Int { .. }) if self.kernel() && self.side.chance(160) => {
                saturates = true;
                self.side.pick(&[Op::ConvertFToU, Op::ConvertFToS])
            }
            (_, Scalar::Int { signed, .. }) => {
                let least = if signed { i128::MIN } else { 0 };
                if from == Scalar::BF16 || x.range.lo < least || !x.range.truncated().fits(to) {
                    return None;
                }
                if signed { Op::ConvertFToS } else { Op::ConvertFToU }
            }
            // Only f32 and f16 turn into bfloat16 and back everywhere.
            _ if fits
                && !(x.mat.scalar == Scalar::BF16 && to.width() == 64)
                && !(to == Scalar::BF16 && from.width() == 64) =>
            {
                Op::FConvert
            }
            _ => return None,
        };
        if matches!(other, Op::UConvert | Op::SConvert) && self.kernel() && self.side.chance(160) {
            saturates = true;
        }
        let range = match other {
            // Integers of kernels have no signs: what is nearest to a number with one may be any.
            Op::ConvertFToS | Op::SConvert if saturates => Range::of(to),
            Op::ConvertFToU | Op::UConvert if saturates => x.range.truncated().clamped(to),
            Op::ConvertFToS | Op::ConvertFToU => x.range.truncated(),
            Op::UConvert if x.range.lo < 0 => Range::of(to),
            Op::SConvert if !x.range.fits(Scalar::Int { width: from.width(), signed: true }) => Range::of(to),
            _ => x.range.wrapped(to)?,
        };
        let mut mat = self.mat(x.mat.problem, to, x.mat.use_);
        let mut transposes = false;
        if use_ != x.mat.use_ {
            let [rows, cols] = self.extents(x.mat);
            transposes = self.transposes(x.mat.use_);
            let extents = if transposes { [cols, rows] } else { [rows, cols] };
            if other == Op::Bitcast || !self.granular(x.mat.workgroup, use_, extents) {
                return None;
            }
            mat = self.mat_with(x.mat, to, use_, extents)?;
            self.conversions();
            self.note("conversion of type and use");
        }
        let id = self.ids(other, mat.ty, &[x.id]);
        if saturates {
            self.note("saturating conversion");
            self.decorate_operation(id, Decoration::SaturatedConversion);
        }
        if transposes {
            self.decorate_transpose(id);
        }
        self.note(other.name().unwrap_or("conversion"));
        Some(self.made_value(id, mat, range))
    }

    /// Component types of A, B, C and the result that go together.
    pub(super) fn factors(&mut self, use_scalar: Option<Scalar>) -> [Scalar; 4] {
        let int = |width, signed| Scalar::Int { width, signed };
        let float = |width| Scalar::Float { width };
        if self.profile.limits != super::Limits::Any {
            let bfloat = [Scalar::BF16, Scalar::BF16, float(32), float(32)];
            let all = [
                [float(16), float(16), float(32), float(32)],
                [float(16); 4],
                [int(8, true), int(8, true), int(32, true), int(32, true)],
                [int(8, false), int(8, false), int(32, false), int(32, false)],
            ];
            let (factors, sums) = (self.scalars(A), self.scalars(ACC));
            let fits = all.iter().copied().chain([bfloat]).filter(|c| use_scalar.is_none_or(|s| c[2] == s));
            let fits: Vec<[Scalar; 4]> = fits.filter(|c| factors.contains(&c[0]) && sums.contains(&c[2])).collect();
            return if fits.is_empty() { all[0] } else { self.e.pick(&fits) };
        }
        if self.cut {
            let floats = match use_scalar {
                Some(sum) => sum.is_float(),
                None => self.e.chance(128),
            };
            let (factor, sum) = if floats { (float(16), float(32)) } else { (int(8, false), int(32, false)) };
            return [factor, factor, sum, sum];
        }
        let result = match use_scalar {
            Some(s) => s,
            None => self.e.pick(&[float(32), float(16), int(32, true), int(32, false), float(64), int(16, true)]),
        };
        let same = |scalars: &[Scalar]| -> Vec<Scalar> {
            scalars
                .iter()
                .copied()
                .filter(|s| s.is_float() == result.is_float() && (s.is_float() || s.width() <= result.width()))
                .collect()
        };
        let all = same(self.scalars(A));
        let (a, b) = (self.e.pick(&all), self.e.pick(&all));
        let b = if self.e.chance(100) { b } else { a };
        let c = if self.e.chance(60) { self.e.pick(&all) } else { result };
        let all = [a, b, c, result];
        // Between bfloat16 and f64 there is no conversion in lowered code.
        let wide = all.contains(&float(64)) && all.contains(&Scalar::BF16);
        let other = if use_scalar == Some(Scalar::BF16) { float(64) } else { Scalar::BF16 };
        all.map(|s| if wide && s == other { float(32) } else { s })
    }

    /// Returns the range of an element as a factor, by the operand's signedness bit.
    fn as_factor(range: Range, scalar: Scalar, signed: bool) -> Range {
        let Scalar::Int { width, .. } = scalar else { return range };
        let full = Range::full(width, signed);
        if range.within(full) { range } else { full }
    }

    /// A multiplication; with `c` given, of that type and by it alone.
    pub(super) fn multiply(&mut self, c: Option<Value>) -> Option<Value> {
        let problem = match c {
            Some(c) => c.mat.problem,
            None => self.any_mat().problem,
        };
        let scalars = self.factors(c.map(|c| c.mat.scalar));
        let [a, b, c_type, result] = [(scalars[0], A), (scalars[1], B), (scalars[2], ACC), (scalars[3], ACC)]
            .map(|(s, use_)| self.mat(problem, s, use_));
        let c = match c {
            Some(c) if c.mat != c_type && c.mat != result => return None,
            Some(c) => c,
            None => self.operand(c_type),
        };
        let (x, y) = (self.operand(a), self.operand(b));
        self.multiplied(x, y, c, result)
    }

    /// `x * y + c`, if that is exact.
    pub(super) fn multiplied(&mut self, x: Value, y: Value, c: Value, result: Mat) -> Option<Value> {
        let depth = x.mat.cols;
        let mut bits = Bits::None;
        let mut range;
        let nv1 = self.profile.dialect == super::Dialect::Nv1;
        if let Scalar::Int { width, .. } = result.scalar {
            // Types of kernels have no signs: these bits say all.
            let likely = if self.kernel() { 230 } else { 50 };
            let own = nv1 || self.profile.limits != super::Limits::Any || !self.e.chance(likely);
            let flags = [
                (x.mat.scalar, Bits::MatrixASignedComponentsKHR),
                (y.mat.scalar, Bits::MatrixBSignedComponentsKHR),
                (c.mat.scalar, Bits::MatrixCSignedComponentsKHR),
                (result.scalar, Bits::MatrixResultSignedComponentsKHR),
            ];
            for (scalar, bit) in flags {
                if if own { signed(scalar) } else { self.e.chance(128) } {
                    bits |= bit;
                }
            }
            let set = flags.map(|(_, bit)| bits.contains(bit));
            let [a, b, c_range] = [(x, 0), (y, 1), (c, 2)].map(|(v, i)| Self::as_factor(v.range, v.mat.scalar, set[i]));
            let sum = a.products(b, depth);
            let target = Scalar::Int { width, signed: set[3] };
            let saturates = self.profile.limits == super::Limits::Any
                && sum.fits(target)
                && c_range.fits(target)
                && self.e.chance(100);
            let total = sum.plus(c_range);
            if nv1 && !(total.fits(target) && sum.fits(target)) {
                // Undefined.
                return None;
            }
            range = if saturates {
                bits |= Bits::SaturatingAccumulationKHR;
                self.note("saturating multiplication");
                Range::full(width, set[3])
            } else {
                if total.fits(target) { total } else { Range::full(width, set[3]) }
            };
            if !range.fits(result.scalar) {
                range = Range::of(result.scalar);
            }
            if !own {
                self.note("multiplication with bits that the types don't have");
            }
        } else {
            let steps = x.range.products(y.range, depth);
            // Any part of the sum, with C or without it, must be exact.
            let part = steps.negated().hull(steps);
            range = part.plus(c.range.hull(Gen::zero()));
            let within = |s: Scalar| range.fits(s) && part.fits(s);
            if !within(result.scalar) || !within(Scalar::Float { width: result.scalar.width().max(32) }) {
                return None;
            }
            if !nv1 && self.profile.limits == super::Limits::Any && self.side.chance(16) {
                // It means nothing.
                bits |= Bits::SaturatingAccumulationKHR;
                self.note("multiplication of floats that saturates");
            }
        }
        let operands = [x.id, y.id, c.id].map(Operand::Id).into_iter();
        let bits = bits.0 | self.intel_bits([x, y], result.scalar);
        let bits = (bits != 0 || self.e.chance(60)).then_some(Operand::Word(bits)).filter(|_| !nv1);
        let op = if nv1 { Op::CooperativeMatrixMulAddNV } else { Op::CooperativeMatrixMulAddKHR };
        let id = self.op(op, result.ty, operands.chain(bits));
        self.note(if result.workgroup { "multiplication, workgroup scope" } else { "multiplication" });
        if x.mat.scalar != y.mat.scalar || c.mat.scalar != result.scalar {
            self.note("multiplication of mixed types");
        }
        Some(self.made_value(id, result, range))
    }

    /// One of two matrices, by a phi mostly: OpSelect of matrices is not in SPIRV-Tools' reading of the specification, nor do all
    /// drivers take it.
    pub(super) fn select(&mut self, mat: Mat, condition: Id, yes: Id, no: Id) -> Id {
        if self.is_lowered() && self.side.chance(60) {
            self.note("OpSelect");
            return self.ids(Op::Select, mat.ty, &[condition, yes, no]);
        }
        let [a, b, merge] = std::array::from_fn(|_| self.m.fresh_id());
        self.effect(Op::SelectionMerge, [merge.into(), Operand::Word(0)]);
        self.effect(Op::BranchConditional, [condition, a, b].map(Operand::Id));
        for label in [a, b] {
            self.start(label);
            self.branch(merge);
        }
        self.start(merge);
        self.ids(Op::Phi, mat.ty, &[yes, a, no, b])
    }

    /// `OpCopyObject`, and a choice of which nothing is seen.
    pub(super) fn choose(&mut self) -> Option<Value> {
        let x = self.find(|_| true)?;
        if self.e.chance(60) {
            self.note("OpCopyObject");
            let id = self.ids(Op::CopyObject, x.mat.ty, &[x.id]);
            return Some(self.made_value(id, x.mat, x.range));
        }
        let (condition, known) = self.condition(x.mat.workgroup);
        let undefined = known.is_some() && self.e.chance(60);
        let (y, range) = if undefined {
            self.note("OpUndef");
            (self.ids(Op::Undef, x.mat.ty, &[]), x.range)
        } else {
            let y = self.operand(x.mat);
            (y.id, x.range.hull(y.range))
        };
        let (yes, no) = match known {
            Some(false) if undefined => (y, x.id),
            Some(true) if undefined => (x.id, y),
            _ if self.e.chance(128) => (y, x.id),
            _ => (x.id, y),
        };
        let id = self.select(x.mat, condition, yes, no);
        self.note("choice");
        Some(self.made_value(id, x.mat, range))
    }

    /// A loop over the elements that an invocation holds, or one element of a matrix whose elements are all alike.
    pub(super) fn elements(&mut self) -> Option<Value> {
        if self.e.chance(60) {
            return self.one_element();
        }
        let x = self.find(|_| true)?;
        let (scalar, mat) = (x.mat.scalar, x.mat);
        let elem = self.scalar(scalar);
        let pointer = self.g.pointer(&mut self.m, StorageClass::Function, elem);
        let variable = self.local(mat.ty, None);
        self.effect(Op::Store, [variable, x.id].map(Operand::Id));
        let other = (scalar != Scalar::BF16 && self.e.chance(100)).then(|| self.operand(mat));
        let other = other.map(|y| {
            let second = self.local(mat.ty, None);
            self.effect(Op::Store, [second, y.id].map(Operand::Id));
            (y, second)
        });
        let (constant, frac) = self.small_number(scalar);
        let constant_range = Range::new(constant, constant, frac);
        let constant = self.number(scalar, constant, frac);
        let kind = self.e.below(6);
        let float = scalar.is_float();
        let range = match (kind, &other) {
            _ if scalar == Scalar::BF16 => Some(x.range),
            (_, Some((y, _))) => x.range.plus(y.range).wrapped(scalar),
            (0, _) => x.range.plus(constant_range).wrapped(scalar),
            (1, _) => x.range.mul(constant_range).wrapped(scalar),
            (2, _) => x.range.negated().wrapped(scalar),
            (3, _) => Some(x.range.hull(constant_range)).filter(|r| r.fits(scalar)),
            _ if float => Some(x.range),
            _ => Some(Range::of(scalar)),
        };
        let range = range?;
        let elements = self.begin_elements(mat);
        let i = elements.i;
        let at = self.as_index(i);
        let slot = self.ids(Op::AccessChain, pointer, &[variable, at]);
        let v = self.ids(Op::Load, elem, &[slot]);
        let v = match (kind, &other) {
            _ if scalar == Scalar::BF16 => v,
            (_, Some((_, second))) => {
                let slot = self.ids(Op::AccessChain, pointer, &[*second, i]);
                let w = self.ids(Op::Load, elem, &[slot]);
                self.ids(if float { Op::FAdd } else { Op::IAdd }, elem, &[v, w])
            }
            (0, _) => self.ids(if float { Op::FAdd } else { Op::IAdd }, elem, &[v, constant]),
            (1, _) => self.ids(if float { Op::FMul } else { Op::IMul }, elem, &[v, constant]),
            (2, _) => self.ids(if float { Op::FNegate } else { Op::SNegate }, elem, &[v]),
            (3, _) => {
                let less = match scalar {
                    Scalar::Int { signed: true, .. } => Op::SLessThan,
                    Scalar::Int { .. } => Op::ULessThan,
                    _ => Op::FOrdLessThan,
                };
                let below = self.compare(less, v, constant);
                self.ids(Op::Select, elem, &[below, constant, v])
            }
            (4, _) if !float => self.ids(Op::BitwiseXor, elem, &[v, constant]),
            (_, _) if !float => {
                let by = self.number(scalar, 1, 0);
                self.ids(Op::ShiftLeftLogical, elem, &[v, by])
            }
            _ => v,
        };
        self.effect(Op::Store, [slot, v].map(Operand::Id));
        self.end_elements(&elements);
        let id = self.ids(Op::Load, mat.ty, &[variable]);
        self.note("loop over elements");
        Some(self.made_value(id, mat, range))
    }

    /// Begins a loop over the elements that an invocation holds.
    pub(super) fn begin_elements(&mut self, mat: Mat) -> Elements {
        let (uint, len, zero) = (self.uint(), self.length(mat), self.u32(0));
        let [header, check, body, next, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let (i, i_next) = (self.m.fresh_id(), self.m.fresh_id());
        let before = self.fun().label;
        self.branch(header);
        self.start(header);
        self.op_as(i, Op::Phi, uint, &[zero, before, i_next, next]);
        self.effect(Op::LoopMerge, [merge.into(), next.into(), Operand::Word(0)]);
        self.branch(check);
        self.start(check);
        let more = self.compare(Op::ULessThan, i, len);
        self.effect(Op::BranchConditional, [more, body, merge].map(Operand::Id));
        self.start(body);
        Elements { i, i_next, header, next, merge }
    }

    /// Ends it; what follows comes after the loop.
    pub(super) fn end_elements(&mut self, elements: &Elements) {
        let Elements { i, i_next, header, next, merge } = *elements;
        let (uint, one) = (self.uint(), self.u32(1));
        self.branch(next);
        self.start(next);
        self.op_as(i_next, Op::IAdd, uint, &[i, one]);
        self.branch(header);
        self.start(merge);
    }

    /// Emits the number of elements of a matrix that an invocation holds.
    pub(super) fn length(&mut self, mat: Mat) -> Id {
        let uint = self.uint();
        let nv1 = self.profile.dialect == super::Dialect::Nv1;
        let op = if nv1 { Op::CooperativeMatrixLengthNV } else { Op::CooperativeMatrixLengthKHR };
        if self.is_lowered() && !self.kernel() && self.side.chance(60) {
            return self.constant_length(mat, op);
        }
        self.op(op, uint, [mat.ty.into()])
    }

    /// Emits the length as a constant, which may be computed from another.
    fn constant_length(&mut self, mat: Mat, op: Op) -> Id {
        let uint = self.uint();
        let constant = |this: &mut Self, op: Op, operands: &[Id]| {
            let id = this.m.fresh_id();
            let operands =
                [Operand::Word(u32::from(op.0))].into_iter().chain(operands.iter().copied().map(Operand::Id));
            this.global(Inst::new(Op::SpecConstantOp, Some(uint), Some(id), operands));
            id
        };
        let length = match self.lengths.get(&mat.ty) {
            Some(length) => *length,
            None => {
                self.note("constant length");
                let id = constant(self, op, &[mat.ty]);
                self.lengths.insert(mat.ty, id);
                id
            }
        };
        if !self.side.chance(128) {
            return length;
        }
        let two = self.u32(2);
        let twice = constant(self, Op::IMul, &[length, two]);
        constant(self, Op::UDiv, &[twice, two])
    }

    /// Returns true if what devices don't take may be in the module: it is lowered, or interpreted.
    fn is_lowered(&self) -> bool {
        matches!(self.profile.limits, super::Limits::Any | super::Limits::Tiles)
    }

    /// Decorates an operation, by itself or by a decoration group.
    fn decorate_operation(&mut self, id: Id, decoration: Decoration) {
        if !self.side.chance(60) {
            decorate(&mut self.m, id, decoration, &[]);
            return;
        }
        self.note("decoration group");
        let group = self.m.fresh_id();
        decorate(&mut self.m, group, decoration, &[]);
        add_global(&mut self.m, Inst::new(Op::DecorationGroup, None, Some(group), []));
        add_global(&mut self.m, Inst::new(Op::GroupDecorate, None, None, [group, id].map(Operand::Id)));
    }

    fn one_element(&mut self) -> Option<Value> {
        let mat = self.any_mat();
        let x = self.splat(mat);
        let elem = self.scalar(mat.scalar);
        let number = if self.e.chance(128) {
            self.op(Op::CompositeExtract, elem, [x.id.into(), Operand::Word(0)])
        } else {
            let variable = self.local(mat.ty, None);
            self.effect(Op::Store, [variable, x.id].map(Operand::Id));
            let pointer = self.g.pointer(&mut self.m, StorageClass::Function, elem);
            let zero = self.uniform(0);
            let slot = self.ids(Op::AccessChain, pointer, &[variable, zero]);
            self.ids(Op::Load, elem, &[slot])
        };
        self.note("element 0");
        let id = if self.e.chance(128) {
            self.op(Op::CompositeInsert, mat.ty, [number.into(), x.id.into(), Operand::Word(0)])
        } else {
            self.ids(Op::CompositeConstruct, mat.ty, &[number])
        };
        Some(self.made_value(id, mat, x.range))
    }

    /// Stores into a variable and loads from one: one at hand, or a new one.
    pub(super) fn variables(&mut self) -> Option<Value> {
        let known: Vec<Var> = self.fun().vars.iter().chain(&[]).cloned().collect();
        let mut all = known;
        all.extend(self.privates.iter().cloned());
        let apart = self.fun().apart;
        all.retain(|v| !(v.mat.workgroup && apart));
        let var = if all.is_empty() || self.e.chance(100) {
            let x = self.find(|_| true)?;
            self.new_variable(x)
        } else {
            let at = self.e.below(all.len() as u32) as usize;
            all[at].clone()
        };
        let mut at = self.place(&var);
        let (mat, range) = (var.mat, var.range);
        if let Some(x) = self.find(|v| v.mat == mat && v.range.within(range)) {
            self.effect(Op::Store, [at, x.id].map(Operand::Id));
        }
        if self.e.chance(100) {
            at = self.place(&var);
        }
        let id = self.ids(Op::Load, mat.ty, &[at]);
        Some(self.made_value(id, mat, range))
    }

    fn new_variable(&mut self, x: Value) -> Var {
        let mat = x.mat;
        let range = x.range.hull(Gen::zero());
        let path = match self.e.below(6) {
            0..=2 => Path::Whole,
            _ if self.tiled() => Path::Whole,
            3 => Path::Arrays(vec![1 + self.e.below(4)]),
            4 => Path::Arrays(vec![1 + self.e.below(3), 1 + self.e.below(3)]),
            _ => Path::Member(self.e.below(2)),
        };
        let mut ty = mat.ty;
        match &path {
            Path::Whole => self.note("variable"),
            Path::Arrays(lens) => {
                self.note(if lens.len() == 1 { "array" } else { "array of arrays" });
                for len in lens.iter().rev() {
                    let len = self.constant_u32(*len);
                    let array = self.m.fresh_id();
                    let operands = [ty, len].map(Operand::Id);
                    self.global(coop_ir::Inst::new(Op::TypeArray, None, Some(array), operands));
                    ty = array;
                }
            }
            Path::Member(member) => {
                self.note("structure");
                let uint = self.uint();
                let members = if *member == 0 { [ty, uint] } else { [uint, ty] };
                let id = self.m.fresh_id();
                let operands = members.map(Operand::Id);
                self.global(coop_ir::Inst::new(Op::TypeStruct, None, Some(id), operands));
                ty = id;
            }
        }
        let init = self.g.null(&mut self.m, ty);
        let private = self.e.chance(80) && !self.kernel();
        let (id, storage) = if private {
            self.note("Private variable");
            (self.variable(StorageClass::Private, ty, Some(init)), StorageClass::Private)
        } else {
            (self.local(ty, Some(init)), StorageClass::Function)
        };
        let var = Var { id, storage, mat, range, path };
        if private {
            self.privates.push(var.clone());
        } else {
            self.fun().vars.push(var.clone());
        }
        var
    }

    /// The pointer to a matrix in a variable.
    pub(super) fn place(&mut self, var: &Var) -> Id {
        let mut chain = vec![var.id];
        match &var.path {
            Path::Whole => return var.id,
            Path::Arrays(lens) => {
                for len in lens {
                    let counters: Vec<(Id, u32)> =
                        self.fun().counters.iter().copied().filter(|(_, count)| count <= len).collect();
                    if !counters.is_empty() && self.e.chance(128) {
                        chain.push(self.e.pick(&counters).0);
                        self.note("array indexed by a counter");
                    } else {
                        let at = self.e.below(*len);
                        chain.push(self.uniform(at));
                    }
                }
            }
            Path::Member(member) => chain.push(self.u32(*member)),
        }
        let pointer = self.g.pointer(&mut self.m, var.storage, var.mat.ty);
        self.ids(Op::AccessChain, pointer, &chain)
    }
}
