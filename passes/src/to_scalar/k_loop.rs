//! The body of a product's function: slice after slice of the factors is put into shared memory and multiplied.
//!
//! With one stage, lanes wait, put a slice, wait and multiply it. With two, they put the next slice into one stage while
//! the other is multiplied, and wait once. What comes from memory in two steps is asked for before the slice in front of
//! it is multiplied.

use super::exchange::Conversion;
use super::exchange_buffer::where_;
use super::fetch::{Fetch, fetched};
use super::fragment::Fragment;
use super::product::{Plan, WRITTEN_OUT_SLICES};
use super::staged_factor::StagedFactor;
use crate::matrix::arena::Arena;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::{Id, Op, Operand};

/// The method that stages a factor in shared memory, in the function of a product.
pub(super) enum FillMethod {
    /// From an array that the lanes hold: the factor, or a matrix that becomes it.
    Array(Option<Box<Conversion>>),
    /// From memory in two steps, with time in between.
    Fetch(Fetch),
    /// From memory, by a function that takes the operands of the load and the first `k`.
    Function(Id),
    /// The factor is in shared memory already.
    There,
}

/// A factor that is being staged in shared memory.
pub(super) struct FactorFill {
    fill: FillMethod,
    /// Its arguments, of the function's parameters.
    args: Vec<Id>,
    staged: StagedFactor,
    /// The fetched value that waits to be put into shared memory: the value, or a variable where there is a next slice.
    waiting: Option<Id>,
    /// The next iteration of the loop around the product, for whose first slice it fetches.
    next: Option<NextIteration>,
}

/// The fetch of a factor's first slice for the next iteration of a loop.
pub(super) struct NextIteration {
    /// The operands of the load then.
    pub(super) args: Vec<Id>,
    /// Holds if there is a next iteration.
    pub(super) goes_on: Id,
    /// The variable in which the first slice waits, that of this iteration when the product begins.
    pub(super) waiting: Id,
}

/// The slice behind one.
#[derive(Clone, Copy)]
enum Behind {
    /// There is one, from this `k` on.
    Slice(Id),
    /// There is one, from `k` on, if the condition holds.
    SliceIf(Id, Id),
    /// There is none.
    End,
}

/// The first `k` of a slice, as an index and as a value.
type First = (Index, Id);

impl FactorFill {
    pub(super) fn new(
        fill: FillMethod,
        args: Vec<Id>,
        staged: StagedFactor,
        next: Option<NextIteration>,
    ) -> FactorFill {
        FactorFill { fill, args, staged, waiting: None, next }
    }

    /// Returns true if what is fetched is decoded.
    fn decodes(&self) -> bool {
        matches!(&self.fill, FillMethod::Fetch(fetch) if fetch.decodes)
    }

    /// Fetches the first slice, if the factor is fetched and that was not done an iteration ahead.
    fn begin(&mut self, b: &mut FunctionBuilder<'_>, slices: u32) {
        let zero = b.u32(0);
        let FillMethod::Fetch(fetch) = &self.fill else { return };
        self.waiting = Some(match &self.next {
            Some(next) if slices == 1 => b.ids(Op::Load, fetch.ret, &[next.waiting]),
            Some(next) => next.waiting,
            None => {
                let value = call(b, fetch.function, fetch.ret, &with(&self.args, zero));
                if slices == 1 { value } else { variable_of(b, fetch.ret, value) }
            }
        });
    }

    /// Fetches what is multiplied behind a slice: the slice behind it, or the first of the next iteration.
    fn ask(&self, b: &mut FunctionBuilder<'_>, behind: Behind) {
        let (FillMethod::Fetch(fetch), Some(waiting)) = (&self.fill, self.waiting) else { return };
        let zero = b.u32(0);
        let ((condition, args), waiting) = match (behind, &self.next) {
            (Behind::End, None) => return,
            (Behind::End, Some(next)) => ((Some(next.goes_on), with(&next.args, zero)), next.waiting),
            (Behind::Slice(k), _) => ((None, with(&self.args, k)), waiting),
            (Behind::SliceIf(k, more), None) => ((Some(more), with(&self.args, k)), waiting),
            (Behind::SliceIf(k, more), Some(next)) => {
                let bool_type = b.globals.bool(b.module);
                let any = b.ids(Op::LogicalOr, bool_type, &[more, next.goes_on]);
                let pairs = self.args.iter().copied().zip(next.args.iter().copied()).chain([(k, zero)]);
                let args = pairs.map(|(here, there)| match b.module.type_of(here) {
                    Some(ty) if here != there => b.ids(Op::Select, ty, &[more, here, there]),
                    _ => here,
                });
                ((Some(any), args.collect()), waiting)
            }
        };
        where_(b, condition, &mut |b| {
            let value = call(b, fetch.function, fetch.ret, &args);
            b.effect(Op::Store, [waiting, value].map(Operand::Id));
        });
    }
}

/// The slices of a product.
pub(super) struct KLoop {
    pub(super) plan: Plan,
    pub(super) lane: Index,
    /// The type of a lane's sums.
    pub(super) sums: Id,
    /// The function that adds the products of a slice to the sums.
    pub(super) multiply: Id,
    pub(super) fills: Vec<FactorFill>,
}

impl KLoop {
    /// The sums after all slices, which begin as `first`.
    pub(super) fn multiply_all(&mut self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, first: Id) -> Id {
        let (plan, zero) = (self.plan, b.u32(0));
        // What is decoded waits for memory: the loads of the other factor are on their way before that.
        for decoded in [false, true] {
            self.fills.iter_mut().filter(|f| f.decodes() == decoded).for_each(|f| f.begin(b, plan.slices));
        }
        if plan.slices == 1 {
            self.put_between_barriers(b, arena, (Index::Const(0), zero));
            self.ask(b, Behind::End);
            return call(b, self.multiply, self.sums, &[first]);
        }
        let total = variable_of(b, self.sums, first);
        if plan.stages > 1 {
            self.put_between_barriers(b, arena, (Index::Const(0), zero));
        }
        // What lanes hold is found by indices that are known, or else it would have to be in memory.
        let held = self.fills.iter().any(|f| matches!(f.fill, FillMethod::Array(_)));
        let how = if held && plan.slices <= WRITTEN_OUT_SLICES { Unroll::Now } else { Unroll::No };
        b.repeat(plan.slices, how, &mut |b, slice| self.multiply_slice(b, arena, slice, total));
        b.ids(Op::Load, self.sums, &[total])
    }

    /// Multiplies a slice, adds that to the variable `total`, and begins to fetch the next slice.
    fn multiply_slice(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, slice: Index, total: Id) {
        let plan = self.plan;
        let k = b.mul(slice, Index::Const(plan.slice));
        if plan.stages == 1 {
            let k_id = b.index(k);
            self.put_between_barriers(b, arena, (k, k_id));
        }
        let next = b.add(k, Index::Const(plan.slice));
        let next_id = b.index(next);
        let end = Index::Const(plan.slice * plan.slices);
        // Holds if there is a next slice; `None` where that is known.
        let more = match next {
            Index::Const(_) => None,
            next => Some(b.compare(Op::ULessThan, next, end)),
        };
        let last = next == end;
        self.ask(
            b,
            match more {
                _ if last => Behind::End,
                Some(more) => Behind::SliceIf(next_id, more),
                None => Behind::Slice(next_id),
            },
        );
        let mut args = vec![b.ids(Op::Load, self.sums, &[total])];
        let stage = if plan.stages == 1 { Index::Const(0) } else { b.rem(slice, 2) };
        if plan.stages > 1 {
            args.push(b.index(stage));
        }
        if plan.has_resident() {
            args.push(b.index(k));
        }
        let after = call(b, self.multiply, self.sums, &args);
        b.effect(Op::Store, [total, after].map(Operand::Id));
        if plan.stages > 1 && !last {
            where_(b, more, &mut |b| {
                let other = b.u32_op(Op::BitwiseXor, stage, Index::Const(1));
                self.put(b, arena, other, (next, next_id));
                arena.barrier(b, plan.at[0].zone);
            });
        }
    }

    /// Puts the slice from `k` on into the first stage, which no lane reads then.
    fn put_between_barriers(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, k: First) {
        let zone = self.plan.at[0].zone;
        arena.barrier(b, zone);
        self.put(b, arena, Index::Const(0), k);
        arena.barrier(b, zone);
    }

    /// Puts the slice from `k` on where it belongs.
    fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, stage: Index, (k, k_id): First) {
        let (plan, mul) = (self.plan, self.plan.mul);
        for FactorFill { fill, args, staged, waiting, .. } in &self.fills {
            let staged = staged.stage(b, stage);
            match (fill, waiting) {
                (FillMethod::Fetch(fetch), Some(waiting)) => {
                    let value = if plan.slices == 1 { *waiting } else { b.ids(Op::Load, fetch.ret, &[*waiting]) };
                    fetched(b, arena, fetch, &staged, mul, self.lane, value);
                }
                (FillMethod::Function(function), _) => {
                    let void = b.globals.void(b.module);
                    let mut args = with(args, k_id);
                    if plan.stages > 1 {
                        args.push(b.index(stage));
                    }
                    call(b, *function, void, &args);
                }
                (FillMethod::Array(how), _) => {
                    let factor = staged.factor;
                    let stage = |b: &mut FunctionBuilder<'_>, value: Id| factor.staged(b, mul, value);
                    let mat = how.as_ref().map_or(factor.mat, |h| h.from);
                    let held = Fragment { mat, how: how.as_deref(), stage: &stage };
                    held.put(b, arena, &staged, plan.slice, (self.lane, k), args[0]);
                }
                (FillMethod::There, _) => {}
                (FillMethod::Fetch(_), None) => unreachable!("what is fetched waits"),
            }
        }
    }

    /// Fetches what is multiplied behind a slice. What is decoded waits for memory: the loads of the other factor are on their way before.
    fn ask(&self, b: &mut FunctionBuilder<'_>, behind: Behind) {
        for decoded in [false, true] {
            self.fills.iter().filter(|f| f.decodes() == decoded).for_each(|f| f.ask(b, behind));
        }
    }
}

/// Calls a function of the output.
pub(super) fn call(b: &mut FunctionBuilder<'_>, function: Id, ret: Id, args: &[Id]) -> Id {
    let all: Vec<Id> = [function].into_iter().chain(args.iter().copied()).collect();
    b.ids(Op::FunctionCall, ret, &all)
}

fn with(args: &[Id], last: Id) -> Vec<Id> {
    args.iter().copied().chain([last]).collect()
}

/// A variable with a value.
fn variable_of(b: &mut FunctionBuilder<'_>, ty: Id, value: Id) -> Id {
    let variable = b.variable(ty);
    b.effect(Op::Store, [variable, value].map(Operand::Id));
    variable
}
