//! The numbers that types of kernels are made of, and what variables are called.

use crate::layout::Layout;
use coop_ir::spv::BuiltIn;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Module};

/// A number inside a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) offset: u64,
    pub(crate) scalar: Scalar,
}

impl Layout {
    /// The built-in that a variable is.
    pub(crate) fn built_in(&self, id: Id) -> Option<BuiltIn> {
        self.decorations.built_in(id)
    }

    /// The name of an id.
    pub(crate) fn name(&self, m: &Module, id: Id) -> Option<String> {
        self.decorations.name(m, id)
    }

    /// The numbers that a type is made of, with their offsets, at most `most` of them. Pointers count as 64-bit numbers.
    pub(crate) fn leaves(&self, m: &Module, ty: Id, most: usize) -> Option<Vec<Leaf>> {
        let mut out = Vec::new();
        let mut work = vec![(ty, 0u64)];
        while let Some((ty, at)) = work.pop() {
            match Type::of(m, ty)? {
                Type::Scalar(scalar) => out.push(Leaf { offset: at, scalar }),
                Type::Pointer { .. } => {
                    out.push(Leaf { offset: at, scalar: Scalar::Int { width: 64, signed: false } });
                }
                Type::Array { len, .. } if self.constant(len)? > most as u64 => return None,
                _ => work.extend(self.parts(m, ty)?.into_iter().map(|(t, o)| (t, at + o))),
            }
            if out.len() > most || work.len() > 2 * most {
                return None;
            }
        }
        out.sort_by_key(|l| l.offset);
        Some(out)
    }
}
