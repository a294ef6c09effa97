//! Loads and stores of matrices in memory that becomes words.
//!
//! A pointer to a word takes the place of the pointer to a narrow number: elements follow one another from there, whatever the type of what
//! the pointer points to, and the stride counts such (SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR). So the first element, the
//! stride, and the rows or columns have to be whole words.

use super::layout::Layout;
use super::place::Place;
use super::{Buffer, Storage, address, atomics, find, own_types};
use crate::{Lacks, Refusal};
use coop_ir::builder::FunctionBuilder;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::StorageClass;
use coop_ir::types::{coop_mat, scalar, scalar_or_vector, storage_of};
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// Refuses the first matrix in memory that becomes words which is not loaded or stored by whole words.
pub(crate) fn by_words(m: &Module, lacks: Lacks) -> Result<(), Refusal> {
    let lacking = atomics::find(m, lacks)?;
    let layout = Layout::new(m, own_types(m, &lacking));
    let buffers = find(m, &layout, lacks, &lacking)?;
    let any_addresses = !address::pointees(m, lacks, &lacking.numbers).is_empty();
    let check = |i: &Inst| {
        let Some(pointer) = i.accessed() else { return Ok(()) };
        if storage_of(m, pointer) == Some(StorageClass::PhysicalStorageBuffer) {
            return if any_addresses { Err("it is at a device address".to_owned()) } else { Ok(()) };
        }
        let root = coop_ir::pointers::root(m, pointer, Op::derives_pointer).ok_or("its variable is not known")?;
        let Some(buffer) = buffers.get(&root) else { return Ok(()) };
        let place =
            place(m, &layout, &buffers, pointer).ok_or("its pointer comes from something other than access chains")?;
        stride(m, &layout, buffer, i, &place).map(drop)
    };
    let accesses = m.functions.iter().flat_map(|f| f.insts()).filter(|r| m.inst(*r).op.is_matrix_op());
    for r in accesses {
        check(m.inst(r)).map_err(|why| {
            let why = format!("the memory of a matrix is accessed by words, and {why}");
            Refusal::new(r, why, "lower the matrices to scalar code first: cooplower --target scalar")
        })?;
    }
    Ok(())
}

/// Returns the place that a pointer points to.
fn place(m: &Module, layout: &Layout, buffers: &FxHashMap<Id, Buffer>, pointer: Id) -> Option<Place> {
    let (mut base, mut chains) = (pointer, Vec::new());
    let buffer = loop {
        match buffers.get(&base) {
            Some(buffer) => break buffer,
            None => chains.push(m.def_inst(base)?),
        }
        base = chains.last()?.access_chain()?.base;
    };
    let mut place = Place::new(m, base, buffer.descriptors.is_some(), buffer.block);
    chains.into_iter().rev().try_for_each(|i| place.follow(m, layout, i)).ok()?;
    Some(place)
}

/// Returns the stride of a matrix access in words, and its index among the operands; none of an access without a stride. An error says
/// why the access is none of whole words.
fn stride(
    m: &Module,
    layout: &Layout,
    buffer: &Buffer,
    i: &Inst,
    place: &Place,
) -> Result<Option<(usize, u32)>, String> {
    let (Some(access), Some(number)) = (i.matrix_access(), scalar_or_vector(m, place.at.ty)) else {
        return Err("the access is not one with a stride".to_owned());
    };
    if buffer.words != 1 || buffer.class == StorageClass::PhysicalStorageBuffer {
        return Err(format!("{:?} memory has no pointers to one word after another", buffer.class));
    }
    if place.unit != 4 || !place.constant.is_multiple_of(4) {
        return Err("its first element is not known to be at a multiple of 4 bytes".to_owned());
    }
    let of_matrix = access.object.map_or(i.ty, |object| m.type_of(object)).and_then(|ty| coop_mat(m, ty));
    let bytes = of_matrix.and_then(|of| Some((scalar(m, of.component)?.bytes(), of.rows, of.cols)));
    let whole = |(bytes, rows, cols): (u32, Id, Id)| {
        [rows, cols].iter().all(|n| layout.fixed(*n).is_some_and(|n| n.wrapping_mul(bytes).is_multiple_of(4)))
    };
    if !bytes.is_some_and(whole) {
        return Err("its rows and columns are not known to be multiples of 4 bytes".to_owned());
    }
    let Some(stride) = access.stride else { return Ok(None) };
    let counted = number.0.bytes() * number.1;
    match layout.fixed(stride).and_then(|n| n.checked_mul(counted)) {
        Some(bytes) if bytes.is_multiple_of(4) => Ok(Some((access.memory - 1, bytes / 4))),
        _ => Err("its stride is not known to be a multiple of 4 bytes".to_owned()),
    }
}

impl Storage {
    /// Loads or stores a matrix by a pointer to a word.
    pub(super) fn matrix(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), String> {
        let target = i.accessed().and_then(|pointer| self.target(b, pointer, &[]));
        let Some((place, buffer)) = target else { return Err("a matrix takes a pointer as a value".to_owned()) };
        let stride = stride(b.module, &self.layout, &buffer, i, &place)?;
        let mut access = self.words.access(&buffer, &place, Vec::new())?;
        let word = access.word(b, 0);
        let mut inst = i.clone();
        inst.operands[0] = self.words.pointer(b, &access, word).into();
        if let Some((at, words)) = stride {
            inst.operands[at] = b.u32(words).into();
        }
        b.module.replace(r, inst);
        b.keep(r);
        Ok(())
    }
}
