//! Prepares the decode functions that a tensor load calls for each element of a block, or for several adjacent ones.
//!
//! A decode function takes a pointer to its block in PhysicalStorageBuffer memory. If the load itself goes through such
//! a pointer, the function is called as it is, with the pointer advanced. If the load goes through a binding there is
//! no such pointer, and no instruction makes one. Then a copy of the function takes the index of the block (or the byte
//! where it begins, if blocks are not counted from the start of the buffer) instead of the pointer, and reads the
//! buffer through views ([`super::byte_address`]), whatever structs the function accessed through its pointer and casts
//! of it.
//!
//! Refuses: pointers that a decode function stores to, stores in memory, or selects between.

use super::access::{Arg, Args};
use super::byte_address::{Address, Bound, Buffer, Layouts, Reader, Term, Views, unaligned};
use super::decode_reads::reads;
use super::divisibility::align;
use super::index_math::{IndexMath, Num, power};
use super::memory::{far_index, unsigned};
use crate::inline::{returns, splice};
use crate::kernel::is_kernel;
use crate::matrix::arena::{Elem, QUAD};
use crate::{Refusal, Semantics, ssa};
use coop_ir::builder::{FunctionBuilder, Globals, Index, decorate};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Function, Id, Inst, InstRef, Module, Op, Operand};

/// The decode functions of a load.
#[derive(Clone, Debug)]
pub(super) struct Decode {
    pub(super) scalar: Callee,
    /// The vector form, with the number of elements.
    pub(super) vector: Option<(Callee, u32)>,
    pub(super) elem: Elem,
}

/// A function that decodes.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    function: Id,
    /// The function to call where blocks begin at multiples of 16 bytes, if it is another.
    wide: Option<Id>,
    ret: Id,
    /// The types of the arrays of coordinates.
    arrays: [Id; 2],
    from: From,
    /// An index into an array of buffers.
    descriptor: Option<Descriptor>,
}

/// The replacement of the pointer parameter.
#[derive(Clone, Debug)]
enum From {
    /// None: the function does not use it.
    Nothing,
    /// A pointer, `step` bytes per block: the parameter, and the type that the function takes.
    Physical { pointer: usize, step: u32, ty: Id },
    /// The index of the block from the start of the buffer: that from where the access points, and these multiples.
    Blocks { terms: Vec<(Arg, u32)>, constant: u32 },
    /// The index of the block from where the access points, and the byte where it points.
    Bytes { terms: Vec<(Arg, u32)>, constant: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Descriptor {
    Constant(Id),
    Param(usize),
}

/// The copies of decode functions, by key.
#[derive(Default, Debug)]
pub(super) struct Clones {
    by_key: FxHashMap<CloneKey, DecodeClone>,
}

/// A copy of a decode function.
#[derive(Clone, Copy, Debug)]
struct DecodeClone {
    function: Id,
    /// True if it reads the block at all.
    used: bool,
    /// True if it could use wider reads if blocks began at multiples of 16 bytes.
    narrow: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CloneKey {
    function: Id,
    variable: Id,
    descriptor: Option<Id>,
    /// The bytes from block to block; the divisor of the byte offset that is passed beside the index, if one is.
    step: u32,
    base: Option<u32>,
}

/// The state for making a decoder.
pub(super) struct DecoderBuilder<'a> {
    pub(super) m: &'a mut Module,
    pub(super) g: &'a mut Globals,
    pub(super) constants: &'a Constants,
    pub(super) decorations: &'a Decorations,
    pub(super) views: &'a mut Views,
    pub(super) clones: &'a mut Clones,
    pub(super) semantics: Semantics,
    pub(super) at: InstRef,
}

/// A decode function's signature.
struct Signature {
    ret: Id,
    pointer: Id,
    pointee: Id,
    arrays: [Id; 2],
}

impl DecoderBuilder<'_> {
    /// Makes the decoder of a load from its functions, the pointer it loads from, and the arguments that the code takes
    /// so far.
    pub(super) fn decode(
        &mut self,
        functions: (Id, Option<Id>),
        pointer: Id,
        elem: Elem,
        rank: usize,
        list: &mut Vec<Id>,
    ) -> Result<Decode, Refusal> {
        let scalar = self.callee(functions.0, pointer, rank, list)?;
        if scalar.ret != elem.ty {
            return Err(self.malformed("the decode function does not return an element of the matrix"));
        }
        let mut vector = None;
        if let Some(function) = functions.1 {
            let callee = self.callee(function, pointer, rank, list)?;
            // Vectors with a component count given by an id have no lowering: the scalar function is equivalent.
            if let Some(Type::Vector { elem: of, len }) = Type::of(self.m, callee.ret)
                && of == elem.ty
                && len.is_power_of_two()
            {
                vector = Some((callee, len));
            }
        }
        Ok(Decode { scalar, vector, elem })
    }

    fn malformed(&self, why: &str) -> Refusal {
        Refusal::malformed(self.at, why)
    }

    fn refuse(&self, why: String) -> Refusal {
        let remedy = "read the block through the pointer, or through casts of it, where the function is";
        Refusal::new("refused-decode", Some(self.at), why, remedy)
    }

    fn function(&self, id: Id) -> Option<usize> {
        self.m.functions.iter().position(|f| self.m.inst(f.def).result == Some(id) && !f.blocks.is_empty())
    }

    fn params(&self, f: usize) -> Vec<InstRef> {
        let params = self.m.functions[f].params.iter().copied();
        params.filter(|r| self.m.inst(*r).op == Op::FunctionParameter).collect()
    }

    fn signature(&self, id: Id, rank: usize) -> Option<Signature> {
        let f = self.function(id)?;
        let types: Vec<Id> = self.params(f).iter().filter_map(|r| self.m.inst(*r).ty).collect();
        let [pointer, block, within] = types.as_slice() else { return None };
        let Some(Type::Pointer { pointee, .. }) = Type::of(self.m, *pointer) else { return None };
        for array in [block, within] {
            let Some(Type::Array { elem, len }) = Type::of(self.m, *array) else { return None };
            let int = types::scalar(self.m, elem);
            (self.constants.get(len).value()? == rank as u64 && matches!(int, Some(Scalar::Int { width: 32, .. })))
                .then_some(())?;
        }
        let ret = self.m.inst(self.m.functions[f].def).ty?;
        Some(Signature { ret, pointer: *pointer, pointee, arrays: [*block, *within] })
    }

    fn layouts(&self) -> Layouts<'_> {
        Layouts { m: self.m, constants: self.constants, decorations: self.decorations }
    }

    fn callee(&mut self, function: Id, pointer: Id, rank: usize, list: &mut Vec<Id>) -> Result<Callee, Refusal> {
        let signature = self.signature(function, rank);
        let s = signature.ok_or_else(|| self.malformed("the decode function does not have the required parameters"))?;
        let size = self.layouts().size(s.pointee);
        // A type that ends in a runtime array has no size: all blocks begin where the access points.
        let (size, alignment) =
            size.ok_or_else(|| self.malformed("the decode function's blocks have no known size"))?;
        let step = match self.semantics {
            Semantics::Spec => size.next_multiple_of(alignment),
            Semantics::Nvidia => size,
        };
        let callee = |function, from, descriptor| Callee {
            function,
            wide: None,
            ret: s.ret,
            arrays: s.arrays,
            from,
            descriptor,
        };
        let storage = self.m.type_of(pointer).and_then(|t| Type::of(self.m, t)).and_then(|t| match t {
            Type::Pointer { storage, .. } => Some(storage),
            _ => None,
        });
        if storage == Some(StorageClass::PhysicalStorageBuffer) || is_kernel(self.m) {
            let mut args = Args { m: self.m, constants: self.constants, list: std::mem::take(list) };
            let at = args.pass(pointer);
            *list = args.list;
            return Ok(callee(function, From::Physical { pointer: at, step, ty: s.pointer }, None));
        }
        let bound = self.layouts().bound(pointer);
        let Bound { variable, descriptor, terms, constant } = bound
            .ok_or_else(|| self.refuse("a decode function needs the binding that the load goes through".to_owned()))?;
        let aligned = terms.iter().map(|(id, factor)| self.align_of(*id).saturating_mul(power(*factor)));
        let base_align = aligned.chain([power(constant)]).min().unwrap_or(1).min(QUAD);
        let mut args = Args { m: self.m, constants: self.constants, list: std::mem::take(list) };
        let descriptor = descriptor.map(|id| {
            let constant = args.m.def_inst(id).is_some_and(|i| i.op.is_constant());
            if constant { Descriptor::Constant(id) } else { Descriptor::Param(args.pass(id)) }
        });
        let counted: Vec<(Arg, u32)> = terms.iter().map(|(id, factor)| (args.of(*id), *factor)).collect();
        *list = args.list;
        let exact = step > 0 && counted.iter().all(|t| t.1.is_multiple_of(step)) && constant.is_multiple_of(step);
        let fixed = match descriptor {
            Some(Descriptor::Constant(id)) => Some(id),
            _ => None,
        };
        let key = CloneKey { function, variable, descriptor: fixed, step, base: (!exact).then_some(base_align) };
        let passed = matches!(descriptor, Some(Descriptor::Param(_)));
        let DecodeClone { function: clone, used, narrow } = self.copied(&key, passed)?;
        let from = match (used, exact) {
            (false, _) => From::Nothing,
            (true, true) => {
                let terms = counted.into_iter().map(|(arg, factor)| (arg, factor / step)).collect();
                From::Blocks { terms, constant: constant / step }
            }
            (true, false) => From::Bytes { terms: counted, constant },
        };
        let mut callee = callee(clone, from, descriptor.filter(|_| used));
        if narrow {
            let wide = self.copied(&CloneKey { base: Some(QUAD), ..key }, passed)?;
            callee.wide = Some(wide.function);
        }
        Ok(callee)
    }

    /// Returns the copy for a key, made on first use.
    fn copied(&mut self, key: &CloneKey, descriptor: bool) -> Result<DecodeClone, Refusal> {
        if let Some(known) = self.clones.by_key.get(key) {
            return Ok(*known);
        }
        let made = self.clone(key, descriptor)?;
        self.clones.by_key.insert(key.clone(), made);
        Ok(made)
    }

    fn align_of(&self, id: Id) -> u32 {
        align(self.m, self.constants, id)
    }

    /// Makes a copy of a decode function that reads a binding.
    fn clone(&mut self, key: &CloneKey, descriptor: bool) -> Result<DecodeClone, Refusal> {
        let f = self.function(key.function).ok_or_else(|| self.malformed("the decode function has no body"))?;
        splice::duplicate(self.m, f, "_of_binding");
        let f = self.m.functions.len() - 1;
        self.flatten(f)?;
        let physical = StorageClass::PhysicalStorageBuffer;
        let found = ssa::candidates(
            self.m,
            f,
            &|m, ty| matches!(Type::of(m, ty), Some(Type::Pointer { storage, .. }) if storage == physical),
        );
        ssa::promote(self.m, f, &found);
        let mut function = self.m.functions.pop().unwrap_or_else(|| unreachable!("it was just made"));
        let pointer = function.params.iter().copied().find(|r| self.m.inst(*r).op == Op::FunctionParameter);
        let pointer = pointer.ok_or_else(|| self.malformed("the decode function has no parameter"))?;
        let old = self.m.inst(pointer).result.ok_or_else(|| self.malformed("a parameter has no id"))?;
        function.params.retain(|r| *r != pointer);
        let uses = function.blocks.iter().flat_map(|b| &b.insts);
        let used =
            uses.into_iter().any(|r| self.m.inst(*r).ids().any(|id| id == old) && !is_dead(self.m, &function, *r));
        let (mut address, mut buffer) =
            (Address::default(), Buffer { variable: key.variable, descriptor: key.descriptor });
        let mut narrow = false;
        if used {
            let u32_type = self.g.uint(self.m, 32);
            let param = |this: &mut Self| {
                let id = this.m.fresh_id();
                let r = this.m.add(Inst::new(Op::FunctionParameter, Some(u32_type), Some(id), []));
                (id, r)
            };
            let mut new = Vec::new();
            let (number, r) = param(self);
            new.push(r);
            address = address.plus(Term { at: Index::Value(number), factor: key.step, align: 1 });
            if let Some(known) = key.base {
                let (base, r) = param(self);
                new.push(r);
                let reads = reads(self.m, self.constants, self.decorations, &function, (old, key.step));
                let align = known.max(reads.promised);
                narrow = align < reads.widest;
                address = address.plus(Term { at: Index::Value(base), factor: 1, align });
            }
            if descriptor {
                let (id, r) = param(self);
                new.push(r);
                buffer.descriptor = Some(id);
            }
            function.params.splice(0..0, new);
        }
        let types: Vec<Id> = function.params.iter().filter_map(|r| self.m.inst(*r).ty).collect();
        let ret = self.m.inst(function.def).ty.ok_or_else(|| self.malformed("a function has no type"))?;
        let ty = self.g.function(self.m, ret, &types);
        self.m.inst_mut(function.def).operands[1] = Operand::Id(ty);
        let id = self.m.inst(function.def).result.ok_or_else(|| self.malformed("a function has no id"))?;
        let mut gone: FxHashSet<Id> = [old].into_iter().collect();
        self.rewrite(&mut function, old, &address, buffer, &mut gone)?;
        self.m.forget(pointer);
        self.m.functions.push(function);
        ssa::remove_annotations(self.m, &gone);
        Ok(DecodeClone { function: id, used, narrow })
    }

    /// Inlines the functions that receive such pointers.
    fn flatten(&mut self, f: usize) -> Result<(), Refusal> {
        let physical = StorageClass::PhysicalStorageBuffer;
        let is_pointer =
            |m: &Module, ty: Id| matches!(Type::of(m, ty), Some(Type::Pointer { storage, .. }) if storage == physical);
        let mut chosen: FxHashSet<Id> = FxHashSet::default();
        let mut work: Vec<Id> = called(self.m, &self.m.functions[f]);
        while let Some(id) = work.pop() {
            let Some(at) = self.function(id) else { continue };
            let function = &self.m.functions[at];
            let types = function.params.iter().filter_map(|p| self.m.inst(*p).ty).chain(self.m.inst(function.def).ty);
            if types.into_iter().any(|t| is_pointer(self.m, t)) && chosen.insert(id) {
                work.extend(called(self.m, function));
            }
        }
        for at in (0..self.m.functions.len()).rev() {
            if self.m.inst(self.m.functions[at].def).result.is_some_and(|id| chosen.contains(&id)) {
                returns::single_return(self.m, self.g, at);
            }
        }
        splice::calls(self.m, &[f], &chosen).map_err(|unfit| match unfit {
            splice::NotInlinable::Recursion => self.refuse("a decode function calls itself".to_owned()),
            splice::NotInlinable::TooLarge => unfit.refusal(self.m, f),
        })
    }

    /// Replaces reads through the pointer `old`, and through pointers derived from it, by reads of the buffer.
    fn rewrite(
        &mut self,
        function: &mut Function,
        old: Id,
        address: &Address,
        buffer: Buffer,
        gone: &mut FxHashSet<Id>,
    ) -> Result<(), Refusal> {
        let mut derived: FxHashMap<Id, Address> = [(old, address.clone())].into_iter().collect();
        let mut replaced: FxHashMap<Id, Id> = FxHashMap::default();
        let mut dropped: Vec<InstRef> = Vec::new();
        let malformed = self.malformed("the decode function has no body");
        let blocks = function.blocks.clone();
        let refusal = |why: String| {
            let remedy = "read the block through the pointer, or through casts of it, where the function is";
            Refusal::new("refused-decode", Some(self.at), why, remedy)
        };
        let mut b = FunctionBuilder::rebuild(self.m, self.g, function).ok_or(malformed)?;
        for (n, block) in blocks.iter().enumerate() {
            if n > 0 {
                b.reopen(block);
            }
            for r in block.insts.iter().copied() {
                let inst = b.module.inst(r).clone();
                if !inst.ids().any(|id| derived.contains_key(&id)) {
                    if inst.ids().any(|id| replaced.contains_key(&id)) {
                        b.module.inst_mut(r).map_ids(|id| replaced.get(&id).copied().unwrap_or(id));
                    }
                    b.keep(r);
                    continue;
                }
                if ssa::is_debug(b.module, &inst) {
                    continue;
                }
                let base = inst.id(0).and_then(|id| derived.get(&id)).cloned();
                let (Some(base), Some(result), Some(ty)) = (base, inst.result, inst.ty) else {
                    return Err(refusal(format!("a decode function uses the pointer to its block in {}", inst.op)));
                };
                match inst.op {
                    Op::Load => {
                        let mut reader = Reader {
                            views: self.views,
                            decorations: self.decorations,
                            constants: self.constants,
                            buffer: buffer.clone(),
                            operands: unaligned(&inst.operands[1..]),
                        };
                        let value = reader.read(&mut b, ty, &base);
                        let value = value
                            .ok_or_else(|| refusal(format!("a decode function reads {ty}, which has no lowering")))?;
                        replaced.insert(result, value);
                    }
                    Op::CopyObject => {
                        derived.insert(result, base);
                    }
                    Op::Bitcast if matches!(Type::of(b.module, ty), Some(Type::Pointer { .. })) => {
                        derived.insert(result, base);
                    }
                    op if op.is_typed_access_chain() => {
                        let found = chained(&mut b, self.constants, self.decorations, &inst, base, &replaced);
                        let found = found.ok_or_else(|| {
                            refusal("a decode function's access to its block can't be followed".to_owned())
                        })?;
                        derived.insert(result, found);
                    }
                    op => return Err(refusal(format!("a decode function uses the pointer to its block in {op}"))),
                }
                gone.insert(result);
                dropped.push(r);
            }
        }
        function.blocks = b.blocks();
        dropped.into_iter().for_each(|r| self.m.forget(r));
        // Phis of loop headers were kept before their back edges were known.
        for r in function.blocks.iter().flat_map(|b| b.insts.iter().copied()).collect::<Vec<_>>() {
            if self.m.inst(r).ids().any(|id| replaced.contains_key(&id)) {
                self.m.inst_mut(r).map_ids(|id| replaced.get(&id).copied().unwrap_or(id));
            }
        }
        Ok(())
    }
}

/// Returns true if a use of a pointer is dead: a cast or chain that nothing uses.
fn is_dead(m: &Module, function: &Function, r: InstRef) -> bool {
    let Some(result) = m.inst(r).result else { return false };
    let pure = matches!(m.inst(r).op, Op::Bitcast | Op::CopyObject) || m.inst(r).op.is_member_chain();
    let mut uses = function.blocks.iter().flat_map(|b| &b.insts).filter(|u| m.inst(**u).ids().any(|id| id == result));
    pure && uses.all(|u| is_dead(m, function, *u))
}

/// Follows an access chain from an address.
fn chained(
    b: &mut FunctionBuilder<'_>,
    constants: &Constants,
    decorations: &Decorations,
    inst: &Inst,
    mut base: Address,
    replaced: &FxHashMap<Id, Id>,
) -> Option<Address> {
    let pointer = inst.derived_from()?;
    let pointer_type = b.module.type_of(pointer)?;
    let Type::Pointer { pointee, .. } = Type::of(b.module, pointer_type)? else { return None };
    let steps = inst.op.is_element_chain();
    let indices: Vec<Id> = inst.ids_from(1).map(|id| replaced.get(&id).copied().unwrap_or(id)).collect();
    // Indices have any width and sign; addresses are computed in 32 bits.
    let mut casts: FxHashMap<Id, Term> = FxHashMap::default();
    for id in &indices {
        if constants.get(*id).fixed().is_some() {
            continue;
        }
        let scalar = types::scalar(b.module, b.module.type_of(*id)?)?;
        let u32_type = b.u32_type();
        let value = match scalar {
            Scalar::Int { width: 32, signed: false } => *id,
            Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, u32_type, &[*id]),
            Scalar::Int { signed: true, .. } => b.ids(Op::SConvert, u32_type, &[*id]),
            _ => b.ids(Op::UConvert, u32_type, &[*id]),
        };
        let align = align(b.module, constants, *id);
        casts.insert(*id, Term { at: Index::Value(value), factor: 1, align });
    }
    let layouts = Layouts { m: b.module, constants, decorations };
    let mut rest = indices.as_slice();
    if steps {
        let (first, others) = indices.split_first()?;
        let stride = layouts.stride(pointer_type)?;
        let term = match constants.get(*first).fixed() {
            Some(v) => Term { at: Index::Const(v as u32), factor: stride, align: 1 },
            None => Term { factor: stride, ..*casts.get(first)? },
        };
        base = base.plus(term);
        rest = others;
    }
    let (_, address) = layouts.walk(pointee, rest, base, &mut |id| casts.get(&id).copied())?;
    Some(address)
}

/// Returns the functions that a function calls.
fn called(m: &Module, function: &Function) -> Vec<Id> {
    let calls = function.insts().filter(|r| m.inst(*r).op == Op::FunctionCall);
    calls.filter_map(|r| m.inst(r).callee()).collect()
}

impl Decode {
    /// Appends all that the code depends on.
    pub(super) fn key(&self, out: &mut Vec<Operand>) {
        for callee in std::iter::once(&self.scalar).chain(self.vector.as_ref().map(|v| &v.0)) {
            out.push(Operand::Id(callee.function));
            out.extend(callee.wide.map(Operand::Id));
            let (kind, terms, constant) = match &callee.from {
                From::Nothing => (0, &[][..], 0),
                From::Physical { pointer, step, .. } => {
                    out.extend([*pointer as u32, *step].map(Operand::Word));
                    (1, &[][..], 0)
                }
                From::Blocks { terms, constant } => (2, terms.as_slice(), *constant),
                From::Bytes { terms, constant } => (3, terms.as_slice(), *constant),
            };
            out.extend([kind, constant].map(Operand::Word));
            for (arg, factor) in terms {
                arg.key(out);
                out.push(Operand::Word(*factor));
            }
            out.push(match callee.descriptor {
                None => Operand::Word(0),
                Some(Descriptor::Constant(id)) => Operand::Id(id),
                Some(Descriptor::Param(at)) => Operand::Word(1 + at as u32),
            });
        }
    }

    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, values: &[Id]) -> Decoder {
        let vector = self.vector.as_ref().map(|(callee, len)| (callee.begin(b, values), *len));
        Decoder { scalar: self.scalar.begin(b, values), vector, elem: self.elem }
    }
}

impl Callee {
    fn begin(&self, b: &mut FunctionBuilder<'_>, values: &[Id]) -> Called {
        let sum = |b: &mut FunctionBuilder<'_>, terms: &[(Arg, u32)], constant: u32| {
            let mut all = Num::known(constant);
            for (arg, factor) in terms {
                let n = unsigned(b, arg.num(values));
                let c = &mut IndexMath::new(b, 1);
                let term = c.mul(n, Num::known(*factor));
                all = c.add(term, all);
            }
            all
        };
        let mut base = None;
        let (mut number, mut pointer) = (Num::known(0), None);
        match &self.from {
            From::Nothing => {}
            From::Physical { pointer: at, step, .. } => {
                let value = values[*at];
                pointer = Some(stepped(b, value, *step));
            }
            From::Blocks { terms, constant } => number = sum(b, terms, *constant),
            From::Bytes { terms, constant } => base = Some(sum(b, terms, *constant)),
        }
        let descriptor = self.descriptor.and_then(|d| match d {
            // The copy includes it.
            Descriptor::Constant(_) => None,
            Descriptor::Param(at) => {
                let n = unsigned(b, Num::value(values[at], 1));
                Some(b.index(n.at))
            }
        });
        let off = base.filter(|_| self.wide.is_some()).and_then(|base: Num| {
            let base = Address::default().plus(Term { at: base.at, factor: 1, align: base.align });
            base.misaligned(b, QUAD)
        });
        Called { callee: self.clone(), number, base, off, pointer, descriptor }
    }
}

/// Makes a pointer of a type that is stepped by `step` bytes.
fn stepped(b: &mut FunctionBuilder<'_>, pointer: Id, step: u32) -> Id {
    if is_kernel(b.module) {
        // A pointer is stepped by its pointee, which the function chose.
        return pointer;
    }
    let storage = StorageClass::PhysicalStorageBuffer;
    let pointee = b.module.type_of(pointer).and_then(|t| match Type::of(b.module, t)? {
        Type::Pointer { pointee, .. } => Some(pointee),
        _ => None,
    });
    let pointee = pointee.unwrap_or_else(|| b.u32_type());
    if step == 0 {
        return pointer;
    }
    let id = b.module.fresh_id();
    let r = b.module.add(Inst::new(Op::TypePointer, None, Some(id), [storage.into(), pointee.into()]));
    b.module.globals.push(r);
    decorate(b.module, id, Decoration::ArrayStride, &[step]);
    b.ids(Op::Bitcast, id, &[pointer])
}

/// A decode function, in the generated function.
#[derive(Clone, Debug)]
struct Called {
    callee: Callee,
    /// The offset of the index of the block.
    number: Num,
    base: Option<Num>,
    /// The condition that blocks do not begin at multiples of 16 bytes, where that matters and is not known.
    off: Option<Id>,
    pointer: Option<Id>,
    descriptor: Option<Id>,
}

/// The decoder of an access in the generated function.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    scalar: Called,
    vector: Option<(Called, u32)>,
    elem: Elem,
}

impl Called {
    /// Calls the function for the element with these coordinates.
    fn call(&self, b: &mut FunctionBuilder<'_>, linear: Num, far: Option<Id>, at: (&[Num], &[Num])) -> Id {
        let (block, within) = at;
        let mut operands = Vec::new();
        match &self.callee.from {
            From::Nothing => {}
            From::Physical { ty, step, .. } => {
                let mut pointer = self.pointer.unwrap_or_else(|| unreachable!("begun with one"));
                if *step > 0 {
                    let at = far_index(b, linear.at, far);
                    let stepped = b.module.type_of(pointer).unwrap_or(*ty);
                    pointer = b.ids(Op::PtrAccessChain, stepped, &[pointer, at]);
                }
                let same = b.module.type_of(pointer) == Some(*ty);
                operands.push(if same { pointer } else { b.ids(Op::Bitcast, *ty, &[pointer]) });
            }
            From::Blocks { .. } | From::Bytes { .. } => {
                let number = IndexMath::new(b, 1).add(linear, self.number);
                operands.push(b.index(number.at));
                if let Some(base) = self.base {
                    operands.push(b.index(base.at));
                }
            }
        }
        operands.extend(self.descriptor);
        for (array, numbers) in self.callee.arrays.iter().zip([block, within]) {
            let elem = match Type::of(b.module, *array) {
                Some(Type::Array { elem, .. }) => elem,
                _ => b.u32_type(),
            };
            let u32_type = b.u32_type();
            let parts: Vec<Id> = numbers
                .iter()
                .map(|n| {
                    let id = b.index(n.at);
                    if elem == u32_type { id } else { b.ids(Op::Bitcast, elem, &[id]) }
                })
                .collect();
            operands.push(b.ids(Op::CompositeConstruct, *array, &parts));
        }
        let (Callee { function, wide, ret, .. }, off) = (&self.callee, self.off);
        let call = |b: &mut FunctionBuilder<'_>, function: Id| {
            let all: Vec<Id> = [function].into_iter().chain(operands.iter().copied()).collect();
            vec![b.ids(Op::FunctionCall, *ret, &all)]
        };
        let values = match (*wide, off) {
            (Some(wide), Some(off)) => b.choose(off, &[*ret], &mut |b| call(b, *function), &mut |b| call(b, wide)),
            (wide, _) => call(b, wide.unwrap_or(*function)),
        };
        values[0]
    }
}

impl Decoder {
    /// Decodes one element.
    pub(super) fn one(&self, b: &mut FunctionBuilder<'_>, linear: Num, far: Option<Id>, at: (&[Num], &[Num])) -> Id {
        self.scalar.call(b, linear, far, at)
    }

    /// Returns the number of adjacent elements that the vector function returns.
    pub(super) fn lanes(&self) -> Option<u32> {
        self.vector.as_ref().map(|v| v.1)
    }

    /// Decodes [`Decoder::lanes`] elements, from one whose last coordinate in its block is a multiple of that.
    pub(super) fn several(
        &self,
        b: &mut FunctionBuilder<'_>,
        linear: Num,
        far: Option<Id>,
        at: (&[Num], &[Num]),
    ) -> Vec<Id> {
        let Some((called, len)) = &self.vector else { return Vec::new() };
        let all = called.call(b, linear, far, at);
        (0..*len).map(|i| b.op(Op::CompositeExtract, self.elem.ty, [all.into(), i.into()])).collect()
    }
}
