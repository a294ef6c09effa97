//! Rules that can't be checked in a module: rules about a run of it, and rules about something else.
//!
//! The interpreter behind `coopcheck --run` finds violations of the first kind and reports them under the ids given
//! here.

/// A rule that only a run can check.
#[derive(Debug)]
pub struct Dynamic {
    /// `run-` and the interpreter's name for it.
    pub id: &'static str,
    /// The defect, in one line.
    pub summary: &'static str,
    /// The condition, and the part of it that other rules check in the module.
    pub docs: &'static str,
    /// The Vulkan valid-usage identifiers that it covers.
    pub vuids: &'static [&'static str],
    /// The ids of the rule digest that it covers.
    pub digest: &'static [&'static str],
}

/// Every rule that only a run can check, sorted by id.
pub static DYNAMIC: &[Dynamic] = &[
    Dynamic {
        id: "run-data-race",
        summary: "two invocations touch the same memory, one of them writing, with nothing between them",
        docs: "Loads and stores of matrices count as accesses of all invocations of the scope. Rules see overlapping rows of \
               one store (store-rows-overlap) and of one tensor store (tensor-store-overlap).",
        vuids: &[],
        digest: &["khr.store-rows-overlap", "nv2.st-overlap", "flow.barrier-staging"],
    },
    Dynamic {
        id: "run-infinite-loop",
        summary: "an invocation does not end",
        docs: "The interpreter gives up after a number of steps.",
        vuids: &[],
        digest: &["flow.loop-trip"],
    },
    Dynamic {
        id: "run-matrix-size",
        summary: "sizes of matrices, or a tensor's layout and view, that do not fit each other",
        docs: "Multiply-adds, reductions, transpositions and tensor accesses are looked at with the sizes of the run, spans \
               and dimensions of 0 included. Rules see fixed sizes (muladd-k-mismatch, reduce-shape, tensor-span-zero and \
               others).",
        vuids: &[],
        digest: &[
            "khr.muladd-m",
            "khr.muladd-n",
            "khr.muladd-k",
            "nv2.reduce-shape-row",
            "nv2.transpose-shape",
            "tensor.span-nonzero",
            "tensor.block-nonzero",
            "tensor.view-dim-nonzero",
            "tensor.view-vdim-le-ldim",
        ],
    },
    Dynamic {
        id: "run-misaligned",
        summary: "an access that is less aligned than it says, or than its numbers",
        docs: "The addresses and strides of a run are looked at, against the size of a component and the literal of Aligned. \
               What Vulkan asks for beyond that is run-portability.",
        vuids: &["VUID-RuntimeSpirv-PhysicalStorageBuffer64-06315"],
        digest: &["mem.psb-align-actual"],
    },
    Dynamic {
        id: "run-non-uniform-execution",
        summary: "some invocations of a scope execute an instruction on a matrix, and others do not",
        docs: "Every instruction with a matrix as operand or result is looked at, calls and phis too.",
        vuids: &[],
        digest: &[
            "flow.aon-type",
            "flow.uniform-control",
            "flow.divergent-return",
            "flow.loop-trip",
            "flow.switch-fallthrough",
        ],
    },
    Dynamic {
        id: "run-non-uniform-operand",
        summary: "an operand that must be one value for the scope is several",
        docs: "Pointers, strides, layouts and views of loads and stores, and the values that matrices are filled with or \
               multiplied by.",
        vuids: &[],
        digest: &[
            "flow.uniform-pointer",
            "flow.uniform-stride",
            "flow.uniform-splat",
            "flow.uniform-mts-scalar",
            "flow.uniform-tensor-state",
            "flow.uniform-checked",
            "flow.uniform-nv1",
        ],
    },
    Dynamic {
        id: "run-out-of-bounds",
        summary: "an access outside of its buffer or variable, or a component beyond the length",
        docs: "Every byte that a load or store touches, and every index into a matrix. Rules see fixed ones \
               (access-out-of-bounds, element-index-out-of-range, tensor-out-of-bounds).",
        vuids: &[],
        digest: &[
            "khr.ls-in-bounds",
            "khr.component-oob",
            "khr.extract-index",
            "tensor.clamp-undefined-oob",
            "vk.robust-ls",
            "vk.psb-usage",
        ],
    },
    Dynamic {
        id: "run-placement-dependent",
        summary: "the result depends on which invocation holds which element",
        docs: "With several placements of elements, the outputs are compared. A scalar that is not the same in all \
               invocations and goes into a callback is found this way too.",
        vuids: &[],
        digest: &[
            "flow.pe-extra-uniform",
            "flow.component-loop",
            "nv2.pe-pure",
            "nv2.decode-pure",
            "decode.consistent",
        ],
    },
    Dynamic {
        id: "run-portability",
        summary: "what comes out differently on known devices, or is undefined though known ones do what is meant",
        docs: "Points on which devices and the texts were seen to differ, when a run comes across them. Rules see fixed ones \
               (portability-clip-offset, portability-default-strides and others). Also pointers and strides that are \
               multiples of a component, but not of the 16 bytes (or the row or column) that the texts ask for: what happens \
               then is undefined by them; NVIDIA's driver mostly does what is meant with tensor loads and stores, lavapipe with \
               plain ones, scalar code with all. `--semantics nvidia` says nothing of it. Rules see what access chains and \
               constants tell (access-pointer-misaligned, access-stride-misaligned).",
        vuids: &[
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986",
            "VUID-RuntimeSpirv-OpCooperativeMatrixLoadNV-06324",
        ],
        digest: &[
            "tensor.clip-wrap",
            "tensor.elements-fit-span",
            "tensor.order-block-dim",
            "flow.pe-extra-uniform",
            "khr.ls-align",
            "nv2.lt-base-align16",
            "vk.ls-align",
            "vk.nv1-align",
        ],
    },
    Dynamic {
        id: "run-undefined-behaviour",
        summary: "an operation whose result is undefined",
        docs: "Division by zero, conversions to integers that do not have the number, shifts that are too long, overflow in SPV_NV_cooperative_matrix and in saturating dot \
               products, block sizes and spans of 0, and whatever else the texts leave undefined.",
        vuids: &["VUID-RuntimeSpirv-OpCooperativeMatrixLoadTensorNV-12429"],
        digest: &[
            "khr.divide-by-zero",
            "khr.int-min-div",
            "nv1.overflow",
            "tensor.span-nonzero",
            "tensor.block-nonzero",
            "tensor.view-dim-nonzero",
            "tensor.set-stride-monotone",
            "nv2.st-block-one",
            "decode.block-multiple",
            "khr.load-stride-nonneg",
            "khr.store-stride-positive",
        ],
    },
    Dynamic {
        id: "run-uninitialised",
        summary: "a value is used that nothing has set",
        docs: "Memory that nothing wrote, OpUndef, and what is computed from them, where it decides something.",
        vuids: &[],
        digest: &["khr.type-not-undef"],
    },
    Dynamic {
        id: "run-unreachable-reached",
        summary: "an invocation comes to OpUnreachable",
        docs: "The module promises that none does: whatever the run does from there on means nothing.",
        vuids: &[],
        digest: &[],
    },
];

/// Rules of the digest that are not about modules, or that can't be checked, with the reason.
pub static ELSEWHERE: &[(&str, &str)] = &[
    ("khr.ls-optional-order", "an operand where another should be is not readable as an instruction: exit status 2"),
    (
        "nv2.lt-masks-present",
        "a tensor load or store without its masks is not readable as an instruction: exit status 2",
    ),
    (
        "nv2.reduce-combine-assoc",
        "that a function is associative and commutative can't be decided; results that differ between orders are what \
         `cooprun compare` shows",
    ),
    ("flow.null-descriptor", "which descriptors are bound is the application's affair; nothing of it is in a module"),
    ("vk.maint8-smod", "about remainders of numbers below zero in the shader's own arithmetic, not about matrices"),
    (
        "vk.int-addressing-64",
        "whether offsets of matrices have 64 bits depends on flags of the pipeline, which no module shows",
    ),
    ("vkapi.q2-feature", "about a query of the API, not a module"),
    ("vkapi.q2-scope", "about a query of the API, not a module"),
    ("vkapi.q2-scope-feature", "about a query of the API, not a module"),
    ("vkapi.q2-sg-pow2", "about a query of the API, not a module"),
    ("vkapi.q2-sg-min", "about a query of the API, not a module"),
    ("vkapi.q2-sg-max", "about a query of the API, not a module"),
    ("vkapi.q2-sg-fixed", "about a query of the API, not a module"),
    ("vkapi.q2-inv-pow2", "about a query of the API, not a module"),
    ("vkapi.q2-inv-multiple", "about a query of the API, not a module"),
    ("vkapi.q2-inv-max", "about a query of the API, not a module"),
    ("vkapi.q2-inv-zero", "about a query of the API, not a module"),
    ("vkapi.prop-scope", "about what a driver answers, not a module"),
    ("vkapi.prop-pow2", "about what a driver answers, not a module"),
    ("vkapi.flex-empty", "about what a driver answers, not a module"),
];

/// Returns the rules of a run with an id, a VUID (or its end) or a digest id.
pub fn search(text: &str) -> Vec<&'static Dynamic> {
    let is_vuid = |v: &str| v == text || (text.len() >= 5 && v.strip_suffix(text).is_some_and(|s| s.ends_with('-')));
    DYNAMIC.iter().filter(|d| d.id == text || d.digest.contains(&text) || d.vuids.iter().any(|v| is_vuid(v))).collect()
}

#[cfg(test)]
mod tests {
    use super::{DYNAMIC, ELSEWHERE, search};

    #[test]
    fn sorted_and_found() {
        assert!(DYNAMIC.is_sorted_by_key(|d| d.id));
        assert_eq!(search("nv1.overflow").iter().map(|d| d.id).collect::<Vec<_>>(), ["run-undefined-behaviour"]);
        assert_eq!(search("06324").len(), 1);
        for (id, _) in ELSEWHERE {
            assert!(search(id).is_empty() && crate::rule::search(id).is_empty(), "{id} is checked after all");
        }
    }
}
