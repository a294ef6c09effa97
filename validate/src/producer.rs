//! Known deviations of producers: a finding names the tool that is known to break the rule, so that its reader knows
//! where to report it.
//!
//! A deviation belongs to a rule and to a producer: the tool in the module's generator word, or every producer of
//! kernels. A deviation that every known consumer accepts is a note, whatever the rule's own level, unless the user
//! sets one.

use coop_ir::Module;
use coop_ir::spv::Capability;

/// The producers with a deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    /// The tool with this number in the upper half of the generator word.
    Tool(u32),
    /// All producers of kernels: their generator word is that of a translator, if any.
    Kernels,
}

/// A known violation of a rule by a producer.
#[derive(Debug)]
pub struct Deviation {
    /// The rule.
    pub rule: &'static str,
    who: Who,
    /// True if every known consumer accepts it.
    pub accepted: bool,
    /// A description, with the remedy.
    pub words: &'static str,
}

const MLIR: Who = Who::Tool(22);
const NAGA: Who = Who::Tool(28);
const SLANG: Who = Who::Tool(40);

/// The deviations that were seen in published modules.
static DEVIATIONS: &[Deviation] = &[
    Deviation {
        rule: "module-memory-model",
        who: MLIR,
        accepted: false,
        words: "IREE (MLIR's serializer) makes such modules, seen with 3.13: drivers take them, but nothing orders what \
                invocations show each other through the matrices' memory; ask for the Vulkan memory model there, or add it \
                with its memory operands by hand",
    },
    Deviation {
        rule: "module-version-too-old",
        who: NAGA,
        accepted: false,
        words: "naga writes SPIR-V 1.0 whatever the module uses, seen with 30.0: ask its back end for version 1.3 or later \
                (`lang_version`)",
    },
    Deviation {
        rule: "perelement-argument-type",
        who: SLANG,
        accepted: false,
        words: "slang passes what a lambda captures by value where its function takes a pointer, seen with 2026.12; \
                NVIDIA's driver takes it and lavapipe goes wrong: capture nothing and pass numbers as arguments, or lower it: \
                `cooplower` takes it for a copy",
    },
    Deviation {
        rule: "length-operand-type",
        who: Who::Kernels,
        accepted: true,
        words: "DPC++ asks for the length of a matrix instead of its type, and Intel's compilers take both",
    },
    Deviation {
        rule: "length-result-type",
        who: Who::Kernels,
        accepted: true,
        words: "DPC++ takes the length as a 64-bit integer, and Intel's compilers give it",
    },
    Deviation {
        rule: "module-version-too-old",
        who: Who::Kernels,
        accepted: true,
        words: "llvm-spirv writes the oldest version that the rest of the module allows, and Intel's compilers and pocl take \
                matrices in any",
    },
    Deviation {
        rule: "element-type-mismatch",
        who: Who::Kernels,
        accepted: true,
        words: "DPC++ points to components of bfloat16 and half as to a struct of one member, and Intel's compilers take it",
    },
    Deviation {
        rule: "muladd-signed-not-integer",
        who: Who::Kernels,
        accepted: true,
        words: "DPC++ says that components are signed of all that C++ calls signed, float among it, and Intel's compilers take \
                it to mean nothing",
    },
    Deviation {
        rule: "access-pointee-type",
        who: Who::Kernels,
        accepted: true,
        words: "DPC++ loads bfloat16 and half through pointers to a struct of one member, and Intel's compilers count the \
                stride in components of the matrix then, whatever the pointer says",
    },
];

/// The producer of a module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Producer<'a> {
    module: &'a Module,
}

impl<'a> Producer<'a> {
    pub(crate) fn of(module: &'a Module) -> Producer<'a> {
        Producer { module }
    }

    /// Returns the deviation that explains a violation of the rule, if there is one.
    pub(crate) fn deviation(self, rule: &str) -> Option<&'static Deviation> {
        DEVIATIONS.iter().find(|d| {
            d.rule == rule
                && match d.who {
                    Who::Tool(tool) => tool == self.module.header.generator >> 16,
                    Who::Kernels => self.module.enables(Capability::Kernel),
                }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DEVIATIONS;

    #[test]
    fn every_deviation_is_of_an_existing_rule() {
        for d in DEVIATIONS {
            assert!(crate::rule::find(d.rule).is_some(), "{}", d.rule);
            assert!(!d.words.ends_with('.') && !d.words.is_empty(), "{}", d.rule);
        }
    }
}
