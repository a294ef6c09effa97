//! Describes the pointers of accesses for the sake of alignment.
//!
//! SPV_NV_cooperative_matrix2 requires pointers that are multiples of 16 bytes, and Vulkan requires it of the lines of
//! matrices. Engines pass multiples of an element's size, and NVIDIA's driver does what they mean. So a remainder by
//! more than that is taken as 0 only where it is known to be, or was tested at run time.

use super::access::{Arg, Args};
use super::byte_address::{Address, Bound, Layouts, Term};
use super::divisibility::align;
use super::memory::unsigned;
use crate::matrix::arena::QUAD;
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Module, Op, Operand};

/// The storage classes whose variables begin at multiples of 16 bytes.
const ALIGNED: [StorageClass; 3] = [StorageClass::StorageBuffer, StorageClass::Uniform, StorageClass::Workgroup];

/// The base address of an access.
#[derive(Clone, Debug)]
pub(super) enum BaseAddress {
    /// An offset from the start of a variable: multiples of values, and a constant. `aligned`: it is promised to be a multiple of
    /// 16 bytes.
    Variable { terms: Vec<(Arg, u32)>, constant: u32, aligned: bool },
    /// An address, which is a multiple of so many bytes.
    Address { pointer: usize, align: u32 },
    /// Some multiple of an element's size.
    Unknown,
}

/// Returns the divisor of a pointer that the memory operands promise, at most 16.
pub(super) fn promised(operands: &[Operand], element: u32) -> u32 {
    let mask = operands.first().map_or(0, |o| o.word());
    let aligned = mask & MemoryAccess::Aligned.0 != 0;
    operands.get(1).filter(|_| aligned).map_or(element, |o| o.word()).clamp(element, QUAD)
}

/// Returns true if a pointer is known not to be a multiple of so many bytes, a power of two.
pub(crate) fn is_misaligned_pointer(
    m: &Module,
    (constants, decorations): (&Constants, &Decorations),
    pointer: Id,
    bytes: u32,
) -> bool {
    let Some(bound) = (Layouts { m, constants, decorations }).reached(pointer, &ALIGNED) else { return false };
    let term =
        |(id, factor): &(Id, u32)| Term { at: Index::Value(*id), factor: *factor, align: align(m, constants, *id) };
    let start = Address::default().behind(bound.constant);
    bound.terms.iter().map(term).fold(start, Address::plus).surely_misaligned(bytes)
}

impl BaseAddress {
    /// Describes the pointer of an access; `list` has the parameters so far.
    pub(super) fn new(
        m: &Module,
        (constants, decorations): (&Constants, &Decorations),
        (pointer, element, operands): (Id, u32, &[Operand]),
        list: &mut Vec<Id>,
    ) -> BaseAddress {
        let storage = match m.type_of(pointer).and_then(|t| Type::of(m, t)) {
            Some(Type::Pointer { storage, .. }) => storage,
            _ => return BaseAddress::Unknown,
        };
        let mut args = Args { m, constants, list: std::mem::take(list) };
        let origin = if storage == StorageClass::PhysicalStorageBuffer {
            let align = promised(operands, element);
            // A term that is a multiple of the largest unit need not be passed.
            let pointer = if align < QUAD { args.pass(pointer) } else { 0 };
            BaseAddress::Address { pointer, align }
        } else {
            match (Layouts { m, constants, decorations }).reached(pointer, &ALIGNED) {
                Some(bound) => BaseAddress::of(&bound, operands, &mut args),
                None => BaseAddress::Unknown,
            }
        };
        *list = args.list;
        origin
    }

    /// Describes a location in a variable.
    pub(super) fn of(bound: &Bound, operands: &[Operand], args: &mut Args<'_>) -> BaseAddress {
        let terms = bound.terms.iter().map(|(id, factor)| (args.of(*id), *factor)).collect();
        BaseAddress::Variable { terms, constant: bound.constant, aligned: promised(operands, 1) == QUAD }
    }

    pub(super) fn key(&self, out: &mut Vec<Operand>) {
        match self {
            BaseAddress::Variable { terms, constant, aligned } => {
                out.extend([0, *constant, u32::from(*aligned)].map(Operand::Word));
                for (arg, factor) in terms {
                    arg.key(out);
                    out.push(Operand::Word(*factor));
                }
            }
            BaseAddress::Address { pointer, align } => out.extend([1, *pointer as u32, *align].map(Operand::Word)),
            BaseAddress::Unknown => out.push(Operand::Word(2)),
        }
    }

    /// Returns true if it is a multiple of 16 bytes by promise.
    pub(super) fn is_aligned(&self) -> bool {
        match self {
            BaseAddress::Variable { aligned, .. } => *aligned,
            BaseAddress::Address { align, .. } => *align >= QUAD,
            BaseAddress::Unknown => false,
        }
    }

    /// Returns what [`BaseAddress::address`] does, without what is promised to be a multiple of 16 bytes.
    pub(super) fn remainder(&self, b: &mut FunctionBuilder<'_>, values: &[Id], bytes: u32) -> Option<Address> {
        if self.is_aligned() { Some(Address::default()) } else { self.address(b, values, bytes) }
    }

    /// Returns the address in the generated function, or one congruent to it modulo `bytes` (16 at most). `None`: it is
    /// not known.
    pub(super) fn address(&self, b: &mut FunctionBuilder<'_>, values: &[Id], bytes: u32) -> Option<Address> {
        let mut address = Address::default();
        match self {
            BaseAddress::Variable { terms, constant, .. } => {
                address = address.behind(*constant);
                for (arg, factor) in terms {
                    let n = unsigned(b, arg.num(values));
                    address = address.plus(Term { at: n.at, factor: *factor, align: n.align });
                }
            }
            BaseAddress::Address { align, .. } if *align >= bytes => {}
            BaseAddress::Address { pointer, align } => {
                let at = Index::Value(low_bits(b, values[*pointer]));
                address = address.plus(Term { at, factor: 1, align: *align });
            }
            BaseAddress::Unknown => return None,
        }
        Some(address)
    }
}

/// Returns the low half of an address.
fn low_bits(b: &mut FunctionBuilder<'_>, pointer: Id) -> Id {
    let word = b.u32_type();
    let pair = b.globals.vector(b.module, word, 2);
    let bits = b.ids(Op::Bitcast, pair, &[pointer]);
    b.op(Op::CompositeExtract, word, [bits.into(), 0.into()])
}
