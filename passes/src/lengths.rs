//! Lengths of matrices that constants are computed from, computed where they are used.
//!
//! How many elements an invocation holds is the device's own, so `OpSpecConstantOp` may ask for it: SPV_NV_cooperative_matrix lists
//! that, and glslang writes it for matrices of SPV_KHR_cooperative_matrix as well. Drivers end at it (`docs/drivers.md`).
//!
//! Precondition: `inline`. Effect: each function that uses such a length, or a constant that is computed from one, asks for the length
//! at its beginning and computes the rest there. Where matrices stay, nothing else says a length; scalar code knows the numbers.
//!
//! Refuses: lengths of arrays, initializers of global variables, and whatever else has to be a constant.

use crate::{Refusal, malformed};
use coop_ir::builder::Globals;
use coop_ir::decode::decode;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::Decoration;
use coop_ir::types::{self, Scalar};
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};

/// The instructions that ask for a length.
const LENGTHS: [Op; 2] = [Op::CooperativeMatrixLengthKHR, Op::CooperativeMatrixLengthNV];

/// Computes such constants in functions.
pub(crate) fn run(m: &mut Module) -> Result<(), Refusal> {
    let computed = computed(m);
    if computed.is_empty() {
        return Ok(());
    }
    let ids: FxHashSet<Id> = computed.iter().filter_map(|r| m.inst(*r).result).collect();
    check_globals(m, &ids)?;
    let mut g = Globals::new(m);
    for f in 0..m.functions.len() {
        function(m, &mut g, f, &computed)?;
    }
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        let target = if is_note(i.op) { i.id(0) } else { i.result };
        target.is_some_and(|id| ids.contains(&id))
    });
    Ok(())
}

/// Returns true if a constant of a module is the length of a matrix: no driver that is known makes its pipeline (`docs/drivers.md`), and
/// each takes it where it was lowered.
pub fn has_length_in_constant(m: &Module) -> bool {
    m.globals.iter().any(|r| asks(m.inst(*r)))
}

/// Returns true if an instruction is the length of a matrix as a constant.
fn asks(i: &Inst) -> bool {
    i.op == Op::SpecConstantOp && LENGTHS.iter().any(|op| i.word(0) == Some(u32::from(op.0)))
}

/// The constants that depend on a length, each behind those that it depends on.
fn computed(m: &Module) -> Vec<InstRef> {
    let mut ids: FxHashSet<Id> = FxHashSet::default();
    let mut out = Vec::new();
    for r in m.globals.iter().copied() {
        let i = m.inst(r);
        if asks(i) || i.op.is_constant() && i.ids().any(|id| ids.contains(&id)) {
            ids.extend(i.result);
            out.push(r);
        }
    }
    out
}

fn refused(r: InstRef, what: &str) -> Refusal {
    let why = format!("{what} is computed from the length of a matrix, which is the device's own");
    Refusal::new("refused-constant-length", Some(r), why, "compute it in a function, or use --target scalar")
}

/// Refuses what has to be a constant outside of functions.
fn check_globals(m: &Module, ids: &FxHashSet<Id>) -> Result<(), Refusal> {
    for r in m.globals.iter().chain(&m.trailing).copied() {
        let i = m.inst(r);
        if i.result.is_some_and(|id| ids.contains(&id)) || !i.ids().any(|id| ids.contains(&id)) {
            continue;
        }
        let says_nothing = matches!(i.op, Op::Name) || i.op == Op::Decorate && i.word(1) == Some(RELAXED);
        if !says_nothing {
            return Err(refused(r, &format!("an operand of {}", i.op)));
        }
    }
    Ok(())
}

const RELAXED: u32 = Decoration::RelaxedPrecision.0;

/// Computes what function `f` uses of the constants.
fn function(m: &mut Module, g: &mut Globals, f: usize, computed: &[InstRef]) -> Result<(), Refusal> {
    let all: Vec<InstRef> = m.functions[f].insts().collect();
    let mut wanted: FxHashSet<Id> = all.iter().flat_map(|r| m.inst(*r).ids()).collect();
    for r in computed.iter().rev() {
        if m.inst(*r).result.is_some_and(|id| wanted.contains(&id)) {
            wanted.extend(m.inst(*r).ids());
        }
    }
    let used: Vec<InstRef> =
        computed.iter().copied().filter(|r| m.inst(*r).result.is_some_and(|id| wanted.contains(&id))).collect();
    if used.is_empty() {
        return Ok(());
    }
    let mut now: FxHashMap<Id, Id> = FxHashMap::default();
    let mut new = Vec::new();
    for r in used {
        compute(m, g, r, &mut now, &mut new)?;
    }
    for r in all {
        let i = m.inst(r);
        if !i.ids().any(|id| now.contains_key(&id)) {
            continue;
        }
        if needs_constant(m, i, &now) {
            return Err(refused(r, &format!("an operand of {}", i.op)));
        }
        // What initializes a variable is stored into it.
        if let Some(initial) = i.initializer().and_then(|id| now.get(&id).copied()) {
            let (variable, origin) = (i.result, i.origin);
            m.inst_mut(r).operands.truncate(1);
            let operands = variable.into_iter().chain([initial]).map(Operand::Id);
            new.push(m.add(Inst::new(Op::Store, None, None, operands).at(origin)));
            continue;
        }
        m.inst_mut(r).map_ids(|id| now.get(&id).copied().unwrap_or(id));
    }
    let Some(block) = m.functions[f].blocks.first() else { return Ok(()) };
    let at = block.insts.iter().rposition(|r| m.inst(*r).op == Op::Variable).map_or(0, |at| at + 1);
    let insts = block.insts.iter().copied();
    let insts: Vec<InstRef> = insts.clone().take(at).chain(new).chain(insts.clone().skip(at)).collect();
    m.functions[f].blocks[0].insts = insts.into();
    Ok(())
}

/// Makes the instruction that computes a constant, of those that were made before (`now`).
fn compute(
    m: &mut Module,
    g: &mut Globals,
    r: InstRef,
    now: &mut FxHashMap<Id, Id>,
    new: &mut Vec<InstRef>,
) -> Result<(), Refusal> {
    let inst = m.inst(r).clone();
    let (Some(ty), Some(result)) = (inst.ty, inst.result) else { return Ok(()) };
    let op = match inst.op {
        Op::SpecConstantOp => inst.word(0).and_then(|op| u16::try_from(op).ok()).map(Op),
        Op::ConstantComposite | Op::SpecConstantComposite => Some(Op::CompositeConstruct),
        Op::ConstantCompositeReplicateEXT | Op::SpecConstantCompositeReplicateEXT => {
            Some(Op::CompositeConstructReplicateEXT)
        }
        _ => None,
    };
    let Some(op) = op else { return Err(refused(r, &inst.op.to_string())) };
    let first = usize::from(inst.op == Op::SpecConstantOp);
    let mut add = |m: &mut Module, op: Op, ty: Id, operands: Vec<Operand>| {
        let id = m.fresh_id();
        new.push(m.add(Inst::new(op, Some(ty), Some(id), operands).at(inst.origin)));
        id
    };
    let here = |o: &Operand| o.id().and_then(|id| now.get(&id)).map_or(*o, |id| Operand::Id(*id));
    let operands: Vec<Operand> = inst.operands.iter().skip(first).map(here).collect();
    let id = if LENGTHS.contains(&op) {
        let word = g.uint(m, 32);
        let length = add(m, op, word, operands);
        match types::scalar(m, ty) {
            _ if ty == word => length,
            // The instruction gives no number with a sign.
            Some(Scalar::Int { width: 32, .. }) => add(m, Op::Bitcast, ty, vec![length.into()]),
            _ => return malformed(r, "a length that is not a 32-bit integer"),
        }
    } else {
        add(m, op, ty, operands)
    };
    now.insert(result, id);
    Ok(())
}

/// Returns true if an instruction asks for a constant where it has one of the ids.
fn needs_constant(m: &Module, inst: &Inst, ids: &FxHashMap<Id, Id>) -> bool {
    // Of what works on groups, the size of a cluster; elsewhere scopes and semantics.
    if inst.op.execution_scope().is_some() {
        return true;
    }
    let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
    let mut found = false;
    decode(m, inst.op, inst.ty, &words, &mut |piece| {
        let constant = matches!(piece.kind, Kind::IdScope | Kind::IdMemorySemantics);
        found |= constant && inst.id(piece.start).is_some_and(|id| ids.contains_key(&id));
    });
    found
}
