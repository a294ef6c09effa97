//! Collects the matrix types of a module, as declared.

use crate::Refusal;
use crate::matrix::placement::{Shape, Use};
use crate::specialize::MOST_ELEMENTS;
use coop_ir::constant::Constants;
use coop_ir::types::{self, CoopMat, Scalar};
use coop_ir::{InstRef, Module, Op};

/// A matrix type as the module declares it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logical {
    /// The declaration.
    pub(crate) at: InstRef,
    pub(crate) ty: CoopMat,
    pub(crate) scalar: Scalar,
    pub(crate) shape: Shape,
    pub(crate) workgroup: bool,
}

/// Returns the matrix types of the module.
pub(crate) fn logical(m: &Module, constants: &Constants) -> Result<Vec<Logical>, Refusal> {
    let mut found = Vec::new();
    for r in m.globals_with(Op::TypeCooperativeMatrixKHR) {
        let bad = |reason: String, remedy: &str| Err(Refusal::new("refused-type", Some(r), reason, remedy));
        let Some(ty) = m.inst(r).result.and_then(|id| types::coop_mat(m, id)) else { continue };
        let view = ty.view(m, constants);
        let Some(scalar) = view.component.filter(|s| matches!(s.width(), 8 | 16 | 32 | 64)) else {
            let is = view.component.map_or_else(|| "no number".to_owned(), |s| s.to_string());
            return bad(format!("components are of {is}"), "use numbers of 8, 16, 32 or 64 bits");
        };
        let workgroup = match view.scope.fixed() {
            Some(3) => false,
            Some(2) => true,
            _ => return bad(format!("no lowering of {view} is known"), "use Subgroup or Workgroup scope"),
        };
        let dim = |c: &coop_ir::constant::Const| c.fixed().and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
        let (Some(rows), Some(cols)) = (dim(&view.rows), dim(&view.cols)) else {
            return bad(format!("{view} has no elements"), "give it rows and columns of at least 1");
        };
        if u64::from(rows) * u64::from(cols) > MOST_ELEMENTS {
            return bad(format!("{view} has more than {MOST_ELEMENTS} elements"), "no device has such matrices");
        }
        let Some(use_) = view.use_.fixed().and_then(Use::from_value) else {
            return bad(format!("{view} has an unknown use"), "use A, B or Accumulator");
        };
        found.push(Logical { at: r, ty, scalar, shape: Shape { rows, cols, use_ }, workgroup });
    }
    Ok(found)
}
