//! Rebuilds functions instruction by instruction, and the integer code that passes share.

use crate::Refusal;
use crate::pipeline::too_many;
use coop_ir::builder::{FunctionBuilder, Globals, add_global};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Module, Op, string_operands};

/// Rebuilds every function: `rewrite` gets each instruction of a block, and emits what takes its place or keeps it.
pub(crate) fn rebuild(
    m: &mut Module,
    g: &mut Globals,
    rewrite: &mut dyn FnMut(&mut FunctionBuilder<'_>, InstRef) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    // Functions that are made on the way come behind, and are finished.
    for f in 0..m.functions.len() {
        let function = m.functions[f].clone();
        let Some(mut b) = FunctionBuilder::rebuild(m, g, &function) else { continue };
        for (n, block) in function.blocks.iter().enumerate() {
            if n > 0 {
                b.reopen(block);
            }
            for r in &block.insts {
                rewrite(&mut b, *r)?;
                too_many(b.module)?;
            }
        }
        let blocks = b.blocks();
        m.functions[f].blocks = blocks;
    }
    Ok(())
}

/// Emits operations on unsigned numbers of 32 bits, or on vectors of them: each constant is repeated.
pub(crate) struct Lanes {
    /// The number of components; 1 for a number.
    len: u32,
    /// The type: u32 or a vector.
    pub(crate) uint: Id,
    /// The type of the same shape of f32.
    pub(crate) float: Id,
    /// The type of the same shape of truth values.
    pub(crate) bool: Id,
}

impl Lanes {
    pub(crate) fn new(b: &mut FunctionBuilder<'_>, len: u32) -> Lanes {
        let f32_type = b.globals.scalar(b.module, Scalar::Float { width: 32 });
        let (uint, bool) = (b.u32_type(), b.globals.bool(b.module));
        let [uint, float, bool] = [uint, f32_type, bool].map(|ty| wide(b, ty, len));
        Lanes { len, uint, float, bool }
    }

    /// Returns a constant in each component.
    pub(crate) fn constant(&self, b: &mut FunctionBuilder<'_>, value: u32) -> Id {
        let one = b.u32(value);
        self.repeated(b, self.uint, one)
    }

    fn repeated(&self, b: &mut FunctionBuilder<'_>, ty: Id, one: Id) -> Id {
        if self.len == 1 { one } else { b.ids(Op::CompositeConstruct, ty, &vec![one; self.len as usize]) }
    }

    /// Returns an f32 constant, given by its bits, in each component.
    pub(crate) fn float(&self, b: &mut FunctionBuilder<'_>, value: f32) -> Id {
        let one = b.globals.constant(b.module, Scalar::Float { width: 32 }, value.to_bits().into());
        self.repeated(b, self.float, one)
    }

    /// Emits an operation with a constant as its second operand.
    pub(crate) fn with(&self, b: &mut FunctionBuilder<'_>, op: Op, value: Id, constant: u32) -> Id {
        let constant = self.constant(b, constant);
        b.ids(op, self.uint, &[value, constant])
    }

    /// Emits an operation on two values.
    pub(crate) fn op(&self, b: &mut FunctionBuilder<'_>, op: Op, x: Id, y: Id) -> Id {
        b.ids(op, self.uint, &[x, y])
    }

    /// Emits a comparison with a constant.
    pub(crate) fn compare(&self, b: &mut FunctionBuilder<'_>, op: Op, value: Id, constant: u32) -> Id {
        let constant = self.constant(b, constant);
        b.ids(op, self.bool, &[value, constant])
    }

    /// Emits a selection by component.
    pub(crate) fn select(&self, b: &mut FunctionBuilder<'_>, condition: Id, yes: Id, no: Id) -> Id {
        b.ids(Op::Select, self.uint, &[condition, yes, no])
    }
}

/// Returns the vector type of a scalar type; the scalar type itself for one component.
pub(crate) fn wide(b: &mut FunctionBuilder<'_>, ty: Id, len: u32) -> Id {
    if len == 1 { ty } else { b.globals.vector(b.module, ty, len) }
}

/// Makes a function; `body` gets its parameters and returns its result.
pub(crate) fn function(
    b: &mut FunctionBuilder<'_>,
    name: &str,
    ret: Id,
    params: &[Id],
    body: impl FnOnce(&mut FunctionBuilder<'_>, &[Id]) -> Id,
) -> Id {
    let mut inner = FunctionBuilder::new(b.module, b.globals, name, ret, params);
    let values: Vec<Id> = (0..params.len()).map(|n| inner.param(n)).collect();
    let result = body(&mut inner, &values);
    inner.finish(Some(result))
}

/// Returns the import of the instructions of GLSL.
pub(crate) fn glsl(m: &mut Module) -> Id {
    const NAME: &str = "GLSL.std.450";
    let known = m.globals_with(Op::ExtInstImport).map(|r| m.inst(r));
    let known = known.filter(|i| i.string(0).is_some_and(|(name, _)| name == NAME)).find_map(|i| i.result);
    known.unwrap_or_else(|| {
        let id = m.fresh_id();
        add_global(m, Inst::new(Op::ExtInstImport, None, Some(id), string_operands(NAME)));
        id
    })
}
