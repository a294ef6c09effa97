//! Statements of SPV_QCOM_cooperative_matrix_conversion: a row (of B, a column) of a matrix for each invocation, as an
//! array.

use super::emit::{A, ACC, B, Gen, Mat};
use super::fun::Value;
use super::number::Num;
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::spv::{BuiltIn, Capability};
use coop_ir::types::Scalar;
use coop_ir::{Id, Operand};

const U32: Scalar = Scalar::Int { width: 32, signed: false };

impl Gen<'_> {
    /// A statement that only this dialect has.
    pub(super) fn qcom_statement(&mut self) -> Option<Value> {
        self.extension("SPV_QCOM_cooperative_matrix_conversion");
        self.capability(Capability::CooperativeMatrixConversionQCOM);
        match self.e.below(4) {
            0 => self.lane_rows(),
            _ => self.through_arrays(),
        }
    }

    /// Returns true if arrays of an invocation make up matrices of this type.
    fn raked(&self, mat: Mat) -> bool {
        let float = |w| Scalar::Float { width: w };
        let word = matches!(mat.scalar, Scalar::Int { width: 32, .. });
        match mat.use_ {
            ACC => word || mat.scalar == float(16) || mat.scalar == float(32),
            _ => {
                let depth = if mat.use_ == A { mat.cols } else { mat.rows };
                let byte = matches!(mat.scalar, Scalar::Int { width: 8, .. });
                (byte || mat.scalar == float(16) || mat.scalar == float(32)) && depth * mat.scalar.width() == 256
            }
        }
    }

    /// Numbers in the array of an invocation.
    fn rake(mat: Mat) -> u32 {
        if mat.use_ == B { mat.rows } else { mat.cols }
    }

    fn array_of(&mut self, scalar: Scalar, len: u32) -> Id {
        let elem = self.scalar(scalar);
        let len = self.u32(len);
        self.named(Op::TypeArray, None, &[elem, len])
    }

    /// A matrix taken apart, changed and put together again.
    fn through_arrays(&mut self) -> Option<Value> {
        let mut x = None;
        for _ in 0..3 {
            x = self.find(|_| true).filter(|v| self.raked(v.mat));
            if x.is_some() {
                break;
            }
        }
        let x = match x {
            Some(x) => x,
            None => {
                let mat = self.rakeable();
                self.load(mat)
            }
        };
        let (mat, scalar, len) = (x.mat, x.mat.scalar, Gen::rake(x.mat));
        let words = len * scalar.width() / 32;
        let packs = (len * scalar.width()).is_multiple_of(32);
        let as_words = packs && self.e.chance(100);
        let own = self.array_of(scalar, len);
        let packed = self.array_of(U32, words.max(1));
        let mut array = self.ids(Op::CompositeExtractCoopMatQCOM, if as_words { packed } else { own }, &[x.id]);
        self.note(if as_words { "rows as words" } else { "rows as arrays" });
        if as_words && scalar.width() > 8 {
            // To numbers of the matrix's own type and back.
            array = self.ids(Op::BitCastArrayQCOM, own, &[array]);
            array = self.ids(Op::BitCastArrayQCOM, packed, &[array]);
            self.note("cast of an array");
        }
        let mut range = x.range;
        if !as_words {
            (array, range) = self.changed_array(array, own, scalar, len, range);
        }
        let id = self.ids(Op::CompositeConstructCoopMatQCOM, mat.ty, &[array]);
        Some(Value { id, mat, range, used: false })
    }

    /// Some type that arrays make up.
    fn rakeable(&mut self) -> Mat {
        let problem = self.e.below(self.problems.len() as u32) as usize;
        let depth = self.problems[problem].dims[2].0;
        let scalar = match depth {
            32 => Scalar::Int { width: 8, signed: self.e.chance(128) },
            16 => Scalar::Float { width: 16 },
            _ => Scalar::Float { width: 32 },
        };
        let use_ = self.e.pick(&[ACC, A, B]);
        let scalar = if use_ == ACC { Scalar::Float { width: 32 } } else { scalar };
        self.mat(problem, scalar, use_)
    }

    /// Each number changed, and the array cut and joined.
    fn changed_array(&mut self, array: Id, ty: Id, scalar: Scalar, len: u32, range: Range) -> (Id, Range) {
        let elem = self.scalar(scalar);
        let mut from = array;
        let mut parts: Vec<(Id, u32)> = Vec::new();
        if scalar.width() > 8 && len > 1 && len.is_multiple_of(2) && self.e.chance(80) {
            let half = self.array_of(scalar, len / 2);
            let int = self.scalar(Scalar::Int { width: 32, signed: true });
            for start in [0, len / 2] {
                let start = self.uniform(start);
                let start = self.ids(Op::Bitcast, int, &[start]);
                parts.push((self.ids(Op::ExtractSubArrayQCOM, half, &[from, start]), len / 2));
            }
            self.note("part of an array");
        } else {
            parts.push((from, len));
        }
        let add = self.num_small(scalar);
        let changes = self.e.chance(128).then(|| range.plus(add.range).wrapped(scalar)).flatten();
        let mut numbers = Vec::new();
        for (part, n) in parts {
            for i in 0..n {
                let id = self.op(Op::CompositeExtract, elem, [Operand::Id(part), Operand::Word(i)]);
                let number = match changes {
                    Some(to) => {
                        let op = if scalar.is_float() { Op::FAdd } else { Op::IAdd };
                        self.num_op(op, scalar, &[id, add.id], to).id
                    }
                    None => id,
                };
                numbers.push(number);
            }
        }
        from = self.ids(Op::CompositeConstruct, ty, &numbers);
        (from, changes.unwrap_or(range))
    }

    /// A matrix of what each invocation knows by itself.
    fn lane_rows(&mut self) -> Option<Value> {
        let mat = self.rakeable();
        if !self.raked(mat) {
            return None;
        }
        let (scalar, len) = (mat.scalar, Gen::rake(mat));
        let lanes = if mat.use_ == B { mat.cols } else { mat.rows };
        self.capability(Capability::GroupNonUniform);
        let lane = self.builtin_value(BuiltIn::SubgroupLocalInvocationId, None);
        // Of those that count; others are not looked at.
        let (mask, range) = (self.u32(lanes.max(8) - 1), Range::int(0, (lanes - 1).into()));
        let lane = self.u32_op(Op::BitwiseAnd, lane, mask);
        let base = self.num_of_u32(lane, range, scalar)?;
        let mut numbers: Vec<Num> = Vec::new();
        for i in 0..len {
            let id = self.number(scalar, (i % 4).into(), 0);
            let step = Num { id, scalar, range: Range::int(0, 3) };
            numbers.push(self.num_add(base, step)?);
        }
        let range = numbers[0].range;
        let ids: Vec<Id> = numbers.iter().map(|n| n.id).collect();
        let ty = self.array_of(scalar, len);
        let array = self.ids(Op::CompositeConstruct, ty, &ids);
        let id = self.ids(Op::CompositeConstructCoopMatQCOM, mat.ty, &[array]);
        self.note("rows from lanes");
        Some(Value { id, mat, range, used: false })
    }
}
