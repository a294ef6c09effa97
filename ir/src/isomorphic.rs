//! Equality of modules up to the numbers of their ids.

use crate::hash::FxHashMap;
use crate::{Id, Inst, Module, Operand};

/// Returns true if `b` is `a` with its ids renamed one to one. The bound does not count.
pub fn isomorphic(a: &Module, b: &Module) -> bool {
    let (mut to, mut from) = (FxHashMap::default(), FxHashMap::default());
    let mut same_id = |a: Id, b: Id| *to.entry(a).or_insert(b) == b && *from.entry(b).or_insert(a) == a;
    let mut same_inst = |a: &Inst, b: &Inst| {
        let own = |i: &Inst| (i.op, i.ty.is_some(), i.result.is_some(), i.opaque, i.operands.len());
        let same_operand = |pair: (&Operand, &Operand)| match pair {
            (Operand::Id(_), Operand::Id(_)) => true,
            (a, b) => a == b,
        };
        let ids = |i: &Inst| i.ty.into_iter().chain(i.result).chain(i.ids()).collect::<Vec<_>>();
        own(a) == own(b)
            && a.operands.iter().zip(&b.operands).all(same_operand)
            && ids(a).into_iter().zip(ids(b)).all(|(a, b)| same_id(a, b))
    };
    let header = |m: &Module| (m.header.version, m.header.generator, m.header.schema);
    header(a) == header(b)
        && a.all().count() == b.all().count()
        && a.all().zip(b.all()).all(|(x, y)| same_inst(a.inst(x), b.inst(y)))
}
