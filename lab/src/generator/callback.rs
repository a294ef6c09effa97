//! Functions that matrix instructions call for elements, and the instructions that call them.

use super::emit::{ACC, Gen, Mat};
use super::fun::Value;
use super::number::{Combine, Num, computes};
use super::range::Range;
use super::{Dialect, Limits};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, MemoryAccess};
use coop_ir::types::Scalar;
use coop_ir::{Id, Operand};

const U32: Scalar = Scalar::Int { width: 32, signed: false };
const S32: Scalar = Scalar::Int { width: 32, signed: true };

/// The kind of an extra operand of a per-element function.
#[derive(Clone, Copy)]
enum Extra {
    /// The element of another matrix, or a number of the same type.
    Number(Range),
    /// A 32-bit unsigned number.
    Word(Range),
    /// Two of them.
    Pair(Range),
}

/// A place in a buffer for every element, in every execution.
struct Trace {
    buffer: usize,
    base: u32,
    /// The parameter that says which execution it is.
    exec: usize,
}

impl Gen<'_> {
    /// `OpCooperativeMatrixPerElementOp`.
    pub(super) fn per_element(&mut self) -> Option<Value> {
        if self.tiled() {
            return None;
        }
        let x = self.find(|_| true)?;
        let (mat, scalar) = (x.mat, x.mat.scalar);
        let elem = self.scalar(scalar);
        let uint = self.uint();
        let row_types = [self.e.chance(60), self.e.chance(60)].map(|s| if s { S32 } else { U32 });
        let mut params: Vec<Id> = row_types.map(|s| self.scalar(s)).to_vec();
        params.push(elem);
        let (mut extras, mut operands) = (Vec::new(), Vec::new());
        for _ in 0..self.e.below(4) {
            let (ty, id, extra) = self.extra(mat, elem, uint);
            params.push(ty);
            operands.push(id);
            extras.push(extra);
        }
        let trace = (!self.fun().apart && self.e.chance(40)).then(|| {
            let (exec, count) =
                (self.fun().exec[usize::from(mat.workgroup)], self.fun().count[usize::from(mat.workgroup)]);
            let (buffer, base) = self.claim((scalar, 1), mat.rows * mat.cols * count);
            params.push(uint);
            operands.push(exec);
            Trace { buffer, base, exec: params.len() - 1 }
        });
        let (function, ids) = self.begin(elem, &params, "each");
        let range = self.element_body(x, &ids, &extras, row_types, trace.as_ref());
        self.end();
        self.second_extension();
        self.capability(Capability::CooperativeMatrixPerElementOperationsNV);
        self.note("per-element operation");
        let all: Vec<Id> = [x.id, function].into_iter().chain(operands).collect();
        let id = self.ids(Op::CooperativeMatrixPerElementOpNV, mat.ty, &all);
        Some(Value { id, mat, range, used: false })
    }

    /// Type and value of an extra operand.
    fn extra(&mut self, mat: Mat, elem: Id, uint: Id) -> (Id, Id, Extra) {
        match self.e.below(6) {
            0 | 1 => {
                let y = self.operand(mat);
                self.note("per-element operation with another matrix");
                (elem, y.id, Extra::Number(y.range))
            }
            2 => {
                let (value, frac) = self.small_number(mat.scalar);
                let id = if value >= 0 && frac == 0 && computes(mat.scalar) {
                    self.uniform_number(mat.scalar, value as u32)
                } else {
                    self.number(mat.scalar, value, frac)
                };
                (elem, id, Extra::Number(Range::new(value, value, frac)))
            }
            3 => {
                let words = [self.e.below(9), self.e.below(9)];
                let ids = words.map(|w| self.uniform(w));
                let pair = self.g.vector(&mut self.m, uint, 2);
                let range = Range::int(words[0].min(words[1]).into(), words[0].max(words[1]).into());
                (pair, self.ids(Op::CompositeConstruct, pair, &ids), Extra::Pair(range))
            }
            4 => {
                let at = usize::from(mat.workgroup);
                let (exec, count) = (self.fun().exec[at], self.fun().count[at]);
                (uint, exec, Extra::Word(Range::int(0, (count - 1).into())))
            }
            _ => {
                let value = self.e.below(17);
                (uint, self.uniform(value), Extra::Word(Range::int(value.into(), value.into())))
            }
        }
    }

    /// Emits the body of a per-element function. Returns the range of the results.
    fn element_body(
        &mut self,
        x: Value,
        ids: &[Id],
        extras: &[Extra],
        row_types: [Scalar; 2],
        trace: Option<&Trace>,
    ) -> Range {
        let (mat, scalar) = (x.mat, x.mat.scalar);
        let x_num = Num { id: ids[2], scalar, range: x.range };
        let mut numbers = vec![x_num];
        let uint = self.uint();
        let mut at = |i: usize, extent: u32| {
            let id = if row_types[i] == U32 { ids[i] } else { self.ids(Op::Bitcast, uint, &[ids[i]]) };
            Num { id, scalar: U32, range: Range::int(0, (extent - 1).into()) }
        };
        let place = [at(0, mat.rows), at(1, mat.cols)];
        let mut words = place.to_vec();
        for (extra, id) in extras.iter().zip(&ids[3..]) {
            match *extra {
                Extra::Number(range) => numbers.push(Num { id: *id, scalar, range }),
                Extra::Word(range) => words.push(Num { id: *id, scalar: U32, range }),
                Extra::Pair(range) => {
                    for k in 0..2 {
                        let id = self.op(Op::CompositeExtract, uint, [Operand::Id(*id), Operand::Word(k)]);
                        words.push(Num { id, scalar: U32, range });
                    }
                }
            }
        }
        for _ in 0..self.e.below(5) {
            if let Some(n) = self.element_step(&numbers, &words, place) {
                numbers.push(n);
            }
        }
        let mut result = numbers.last().copied().unwrap_or(x_num);
        if self.e.chance(40) {
            result = self.element_branch(result, x_num, &words).unwrap_or(result);
        }
        if let Some(t) = trace {
            self.element_trace(t, ids[t.exec], place, mat, result.id);
        }
        self.effect(Op::ReturnValue, [result.id.into()]);
        result.range
    }

    /// One more number, of those at hand.
    pub(super) fn element_step(&mut self, numbers: &[Num], words: &[Num], place: [Num; 2]) -> Option<Num> {
        let scalar = numbers[0].scalar;
        let newest = numbers[numbers.len() - 1];
        let other = numbers[self.e.below(numbers.len() as u32) as usize];
        let kind = self.e.below(10);
        if !computes(scalar) && kind < 7 {
            return None;
        }
        match kind {
            0 => self.num_add(newest, other),
            1 => {
                let by = self.num_small(scalar);
                self.num_mul(newest, by)
            }
            2 => self.num_negate(newest),
            3 | 4 => {
                // The number of the element in the matrix, or some of it.
                let word = self.e.pick(words);
                let cols = 1 + place[1].range.hi as u32;
                let number = if self.e.chance(128) {
                    let width = self.u32(cols);
                    let rows = self.num_op(
                        Op::IMul,
                        U32,
                        &[place[0].id, width],
                        Range::int(0, place[0].range.hi * i128::from(cols)),
                    );
                    self.num_op(Op::IAdd, U32, &[rows.id, place[1].id], rows.range.plus(place[1].range))
                } else {
                    word
                };
                let number = self.num_of_u32(number.id, number.range, scalar)?;
                self.num_add(newest, number)
            }
            5 => {
                let how = self.e.pick(Combine::all(scalar));
                let range = how.range(newest.range.hull(other.range), scalar, 2)?;
                range.fits(scalar).then(|| self.num_combine(how, newest, other, range))
            }
            6 => {
                // A number of the host's, by column or row.
                let first = self.table_run(4);
                let (four, at) = (self.u32(3), place[self.e.below(2) as usize]);
                let at = self.u32_op(Op::BitwiseAnd, at.id, four);
                let id = self.table_at(first, at);
                let number = self.num_of_u32(id, Range::int(0, 3), scalar)?;
                self.num_add(newest, number)
            }
            _ => {
                let (a, b) = (self.e.pick(words), self.e.pick(words));
                // Words are below 2^31: signed or not does not matter.
                let comparisons: Vec<Op> = Op::all().filter(|op| op.compares_integers()).collect();
                let op = self.e.pick(&comparisons);
                let b = if self.e.chance(128) { self.u32(b.range.hi as u32 / 2) } else { b.id };
                let condition = self.compare(op, a.id, b);
                let other = if self.e.chance(100) { self.num_small(scalar) } else { other };
                self.num_select(condition, newest, other)
            }
        }
    }

    /// A choice between two numbers by a branch.
    fn element_branch(&mut self, a: Num, b: Num, words: &[Num]) -> Option<Num> {
        let range = a.range.hull(b.range);
        if !range.fits(a.scalar) {
            return None;
        }
        let (x, limit) = (self.e.pick(words), self.e.below(9));
        let limit = self.uniform(limit);
        let condition = self.compare(Op::ULessThan, x.id, limit);
        let [yes, no, merge] = std::array::from_fn(|_| self.m.fresh_id());
        self.effect(Op::SelectionMerge, [merge.into(), Operand::Word(0)]);
        self.effect(Op::BranchConditional, [condition, yes, no].map(Operand::Id));
        self.start(yes);
        let wide = computes(a.scalar).then(|| self.num_negate(b)).flatten();
        let first = wide.filter(|n| range.hull(n.range).fits(a.scalar)).unwrap_or(a);
        self.branch(merge);
        self.start(no);
        self.branch(merge);
        self.start(merge);
        let ty = self.scalar(a.scalar);
        let id = self.ids(Op::Phi, ty, &[first.id, yes, b.id, no]);
        self.note("branch in a callback");
        Some(Num { id, scalar: a.scalar, range: range.hull(first.range) })
    }

    /// Writes an element to its own place.
    fn element_trace(&mut self, t: &Trace, exec: Id, [row, col]: [Num; 2], mat: Mat, value: Id) {
        let (size, width) = (self.u32(mat.rows * mat.cols), self.u32(mat.cols));
        let before = self.u32_op(Op::IMul, exec, size);
        let rows = self.u32_op(Op::IMul, row.id, width);
        let at = self.u32_op(Op::IAdd, rows, col.id);
        let at = self.u32_op(Op::IAdd, before, at);
        let (pointer, storage) = self.pointer(t.buffer, t.base, Some((at, 1)));
        let mut operands = vec![Operand::Id(pointer), Operand::Id(value)];
        if storage == coop_ir::spv::StorageClass::PhysicalStorageBuffer {
            operands.extend([MemoryAccess::Aligned.into(), Operand::Word(mat.scalar.bytes())]);
        }
        self.effect(Op::Store, operands);
        self.note("store in a callback");
    }

    /// `OpCooperativeMatrixReduce`.
    pub(super) fn reduce(&mut self) -> Option<Value> {
        let any = self.profile.limits == Limits::Any;
        if self.tiled() {
            return None;
        }
        // SPV_NV_cooperative_matrix2 takes it for arithmetic, which bfloat16 has none of.
        let ext = self.profile.dialect == Dialect::Ext;
        let x = self.find(|v| v.mat.use_ == ACC && (ext || computes(v.mat.scalar)))?;
        let (scalar, [rows, cols]) = (x.mat.scalar, self.extents(x.mat));
        let mask = self.e.pick(&[1, 2, 3, 4]);
        let dims = self.problems[x.mat.problem].dims;
        let mut other = |of| {
            let new = self.e.pick(&[of, dims[0], dims[1], dims[2]]);
            if any && self.e.chance(60) {
                let value = 1 + self.e.below(12);
                (value, self.constant_u32(value))
            } else {
                new
            }
        };
        let (extents, n) = match mask {
            1 => ([rows, other(cols)], cols.0),
            2 => ([other(rows), cols], rows.0),
            3 => ([other(rows), other(cols)], rows.0 * cols.0),
            _ if !rows.0.is_multiple_of(2) || !cols.0.is_multiple_of(2) => return None,
            _ => ([rows, cols].map(|d| (d.0 / 2, self.constant_u32(d.0 / 2))), 4),
        };
        if extents[0].0 * extents[1].0 > 1024 || !self.granular(x.mat.workgroup, ACC, extents) {
            return None;
        }
        let how = self.e.pick(Combine::all(scalar));
        let range = how.range(x.range, scalar, n)?;
        let mat = self.mat_with(x.mat, scalar, ACC, extents)?;
        let function = self.combiner(how, scalar, range);
        self.second_extension();
        self.capability(Capability::CooperativeMatrixReductionsNV);
        self.note(match mask {
            1 => "reduction of rows",
            2 => "reduction of columns",
            3 => "reduction of all",
            _ => "reduction of 2 x 2",
        });
        let id = self.op(Op::CooperativeMatrixReduceNV, mat.ty, [x.id.into(), Operand::Word(mask), function.into()]);
        Some(Value { id, mat, range, used: false })
    }

    /// A function that combines two numbers, all within `range`.
    pub(super) fn combiner(&mut self, how: Combine, scalar: Scalar, range: Range) -> Id {
        let elem = self.scalar(scalar);
        let (function, ids) = self.begin(elem, &[elem, elem], "combine");
        let mut both = [ids[0], ids[1]].map(|id| Num { id, scalar, range });
        if !computes(scalar) {
            both = both.map(|n| self.num_op(Op::FConvert, Scalar::Float { width: 32 }, &[n.id], range));
        }
        let mut result = self.num_combine(how, both[0], both[1], range);
        if !computes(scalar) {
            result = self.num_op(Op::FConvert, scalar, &[result.id], range);
        }
        self.effect(Op::ReturnValue, [result.id.into()]);
        self.end();
        function
    }

    /// Returns true if a matrix may be of several of lavapipe's tiles: then it has no functions, and no arrays of
    /// matrices (docs/drivers.md).
    pub(super) fn tiled(&self) -> bool {
        self.profile.limits == Limits::Lavapipe && self.problems.iter().any(|p| p.dims.iter().any(|d| d.0 > 8))
    }

    /// Returns true if the limits allow a matrix of these extents.
    pub(super) fn granular(&self, workgroup: bool, use_: u32, extents: [(u32, Id); 2]) -> bool {
        let step = match (self.profile.limits, workgroup) {
            (Limits::Any, _) => return true,
            (Limits::Tiles | Limits::Lavapipe, _) => [8, 8],
            (Limits::Nvidia, true) => [32, 32],
            (Limits::Nvidia, false) if use_ == super::emit::A => [16, 32],
            (Limits::Nvidia, false) if use_ == super::emit::B => [32, 16],
            (Limits::Nvidia, false) => [16, 16],
        };
        (0..2).all(|i| extents[i].0.is_multiple_of(step[i]))
    }
}
