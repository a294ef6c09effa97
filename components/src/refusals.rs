//! The reasons for which component types do not become software, by id, for `coopcheck explain`.

/// A reason for which a module is not lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusalRule {
    /// The id.
    pub id: &'static str,
    /// The refused construct, in a line.
    pub summary: &'static str,
    /// The explanation.
    pub why: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// All reasons that are this crate's own, by id. `components/tests` has modules for them: `refusals.rs`, `version.rs`.
pub static REFUSALS: &[RefusalRule] = &[
    RefusalRule {
        id: "refused-component-type",
        summary: "a use of f16, of small or 64-bit integers or of memory of them that has no lowering for a device without the feature",
        why: "On a device without a component type, its numbers are held by wider ones, and memory of them is accessed by \
          words of 32 bits; integers of 64 bits are pairs of words. That takes access chains from variables of known layout, or device addresses: pointers to variables that are passed, chosen or \
          stored, atomic operations on numbers of 64 bits, specialization constants of \
          narrow types, and rounding modes other than to nearest even have no such lowering; see docs/component-types.md.",
        remedy: "Do what the message says, or lower for a device that has the feature it names.",
    },
    RefusalRule {
        id: "refused-spirv-version",
        summary: "an instruction, an operand or a capability that the device's version of SPIR-V lacks, and that has no other form there",
        why: "A device of an older Vulkan takes modules of an older version of SPIR-V. Much of what became part of later versions is \
          a hint, or is said otherwise in older ones, with an extension or with other instructions; comparisons of pointers, \
          for instance, are not. Versions before 1.3 have neither subgroups nor storage buffers.",
        remedy: "Compile the module for the device's version of Vulkan, or do what the message says.",
    },
];

/// Returns the reason with an id.
pub fn refusal_rule(id: &str) -> Option<&'static RefusalRule> {
    REFUSALS.iter().find(|r| r.id == id)
}
