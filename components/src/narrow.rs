//! Types that become wider ones: what of them has no lowering, and what of them changes besides.

use crate::Refusal;
use crate::parts::{MadeOf, numbers};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op};

/// The types that become wider.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    /// Tells them.
    pub(crate) is: fn(Scalar, Widths) -> bool,
    /// The widths of integers that become wider, if they are integers.
    pub(crate) widths: Widths,
    /// The remedy of refusals.
    pub(crate) remedy: &'static str,
}

/// Widths of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Widths {
    pub(crate) eight: bool,
    pub(crate) sixteen: bool,
}

impl Narrow {
    /// The types that are made of such numbers.
    pub(crate) fn made_of(self) -> MadeOf<'static> {
        MadeOf::numbers(move |_, s| (self.is)(s, self.widths))
    }

    /// Returns the first of such numbers that a type is made of, one of those of [`Narrow::made_of`].
    fn first(self, m: &Module, ty: Id, made: &mut MadeOf<'_>) -> Option<Scalar> {
        let any = made.any(m, ty);
        any.then(|| numbers(m, ty).into_iter().find(|s| (self.is)(*s, self.widths))).flatten()
    }

    /// Refuses memory that others than the module's invocations lay out, and constants whose size others know.
    pub(crate) fn check(self, m: &Module) -> Result<(), Refusal> {
        let mut made = self.made_of();
        for r in m.globals.iter().copied() {
            let i = m.inst(r);
            let why = match Type::of_inst(i) {
                Some(Type::Pointer { storage, pointee }) if !is_own(storage) => match self.first(m, pointee, &mut made)
                {
                    Some(s) => format!("{s} in {storage:?} memory has no lowering to a wider type"),
                    None => continue,
                },
                _ => match i.ty.filter(|_| i.op.is_spec_literal()).and_then(|ty| self.first(m, ty, &mut made)) {
                    Some(s) => {
                        let why = format!(
                            "a specialization constant of {s} would have another size than the pipeline states"
                        );
                        return Err(Refusal::new(r, why, OF_PIPELINE));
                    }
                    _ if i.op == Op::SpecConstantOp && uses(m, r, &mut made) => {
                        "a constant that is computed from narrow ones has no lowering".to_owned()
                    }
                    _ => continue,
                },
            };
            return Err(Refusal::new(r, why, self.remedy));
        }
        Ok(())
    }

    /// Removes the layout of types that have such numbers: no memory that others see has them any more.
    pub(crate) fn strip_layouts(self, m: &mut Module) {
        const LAYOUT: [Decoration; 5] = [
            Decoration::ArrayStride,
            Decoration::Offset,
            Decoration::MatrixStride,
            Decoration::RowMajor,
            Decoration::ColMajor,
        ];
        let types = m.globals.iter().map(|r| m.inst(*r)).filter(|i| i.op.is_type()).filter_map(|i| i.result);
        let mut made = self.made_of();
        let ours: FxHashSet<Id> = types.filter(|id| made.any(m, *id)).collect();
        remove_globals(m, |m, r| {
            let i = m.inst(r);
            let about = i.decoration().or_else(|| i.member_decoration().map(|(id, _, d)| (id, d)));
            about.is_some_and(|(id, d)| ours.contains(&id) && LAYOUT.contains(&d))
        });
    }
}

/// The remedy for specialization constants: Vulkan requires that the size that a pipeline states is that of the constant.
pub(crate) const OF_PIPELINE: &str = "fix its value before (spirv-opt --set-spec-const-default-value=ID:VALUE \
    --freeze-spec-const), or make the constant one of 32 bits and convert it";

/// Returns true if a result or an operand is of such a type.
fn uses(m: &Module, r: InstRef, made: &mut MadeOf<'_>) -> bool {
    let i = m.inst(r);
    i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| made.any(m, ty))
}

/// Returns true if only the invocations of a workgroup see memory of a storage class, so that its layout is not fixed.
fn is_own(storage: StorageClass) -> bool {
    matches!(storage, StorageClass::Function | StorageClass::Private | StorageClass::Workgroup)
}

/// Decorations that follow operations when those get other results.
#[derive(Default)]
pub(crate) struct Notes {
    /// Operations, by the result that another instruction has now.
    pub(crate) moved: FxHashMap<Id, Id>,
    /// Instructions that compute nothing any more, so that nothing says how they do.
    pub(crate) plain: FxHashSet<Id>,
    /// Results that are gone.
    pub(crate) gone: FxHashSet<Id>,
}

impl Notes {
    pub(crate) fn apply(&self, m: &mut Module) {
        for r in m.globals.clone() {
            let Some((target, _)) = m.inst(r).decoration() else { continue };
            if let Some(new) = self.moved.get(&target) {
                m.inst_mut(r).operands[0] = (*new).into();
            }
        }
        remove_globals(m, |m, r| m.inst(r).decoration().is_some_and(|(id, _)| self.plain.contains(&id)));
        remove_globals(m, |m, r| m.inst(r).note_target().is_some_and(|id| self.gone.contains(&id)));
    }
}
