//! How far apart the outputs of a module may be on two correct implementations: derived, not guessed.
//!
//! The reference interpreter runs the module once and follows how far every value may be from that of another
//! implementation (see `interp/error_bound.rs`). Values that no inexact operation touches are the same everywhere:
//! moves, integers, clamps, exact conversions, sums of small integers.

use coop_ir::Module;

use crate::case::Case;
use crate::error::Error;
use crate::interp::{Config, ErrorBound, Interpreted, MulAddMode};

/// The error bounds of the outputs of a module: how far each may be from the interpreter's.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bounds {
    /// The bounds of each buffer, in the order of the case.
    buffers: Vec<Vec<ErrorBound>>,
    /// The reason why there are no bounds.
    void: Option<String>,
}

impl Bounds {
    /// Runs the module and derives the bounds. A module that can't be run has none, and [`why_not`](Bounds::why_not)
    /// says so.
    pub fn derive(module: &Module, case: &Case, config: Config) -> Bounds {
        Bounds::run(module, case, config, false)
    }

    /// Like [`derive`](Bounds::derive), for runs that are known to decide as the interpreter does: what hangs on a rounding voids
    /// no bound.
    pub(crate) fn of_same_decisions(module: &Module, case: &Case, config: Config) -> Bounds {
        Bounds::run(module, case, config, true)
    }

    fn run(module: &Module, case: &Case, config: Config, same_decisions: bool) -> Bounds {
        let interpreter = Interpreted { config: Config { error_bounds: true, mul_add: MulAddMode::Exact, ..config } };
        match interpreter.run_module(module, case).map(|(_, report)| report) {
            Ok(report) if report.is_undefined() => Bounds::void("its behaviour is undefined"),
            Ok(report) => match report.error_bounds {
                Some(bounds) => {
                    let depends = bounds.depends.filter(|_| !same_decisions);
                    Bounds { buffers: bounds.buffers, void: depends.map(|(_, why)| why) }
                }
                None => Bounds::void("the interpreter has not looked"),
            },
            Err(error @ (Error::Unsupported { .. } | Error::Case(_) | Error::Module(_))) => {
                Bounds::void(&error.to_string())
            }
            Err(error) => Bounds::void(&error.to_string()),
        }
    }

    fn void(why: &str) -> Bounds {
        Bounds { buffers: Vec::new(), void: Some(why.into()) }
    }

    /// Returns the reason why there are no bounds.
    pub fn why_not(&self) -> Option<&str> {
        self.void.as_deref()
    }

    /// Returns how far two runs may be apart in an element of a buffer. `sides` is 1 if one of them is the
    /// interpreter's, else 2. An infinite bound allows any value; NaN means that no bound is known.
    pub(crate) fn allowed(&self, buffer: usize, offset: usize, size: usize, sides: u8) -> f64 {
        let Some(list) = self.buffers.get(buffer).filter(|_| self.void.is_none()) else { return 0.0 };
        let from = list.partition_point(|d| d.offset + usize::from(d.bytes) <= offset);
        let mut touching = list[from..].iter().take_while(|d| d.offset < offset + size);
        match (touching.next(), touching.next()) {
            (None, _) => 0.0,
            (Some(d), None) if d.offset == offset && usize::from(d.bytes) == size => d.bound * f64::from(sides),
            // Numbers of another size were stored here: nothing is known about the element as the case has it.
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::MulAddMode;
    use crate::{Difference, Executor, Outcome, RunOptions};
    use coop_ir::binary::write_words;
    use std::path::Path;

    /// D = a * (A * B + C) with 8 x 8 x 8 matrices, followed by `body`. `%d` is the product, `%s` one of its elements.
    fn module(body: &str) -> Module {
        let text = format!(
            "OpCapability Shader
             OpCapability CooperativeMatrixKHR
             %glsl = OpExtInstImport \"GLSL.std.450\"
             OpMemoryModel Logical Vulkan
             OpEntryPoint GLCompute %main \"main\" %a0 %d0 %lane
             OpExecutionMode %main LocalSize 32 1 1
             OpDecorate %lane BuiltIn LocalInvocationIndex
             OpDecorate %floats ArrayStride 4
             OpMemberDecorate %block 0 Offset 0
             OpDecorate %block Block
             OpDecorate %a0 DescriptorSet 0
             OpDecorate %a0 Binding 0
             OpDecorate %d0 DescriptorSet 0
             OpDecorate %d0 Binding 1
             %void = OpTypeVoid
             %fn = OpTypeFunction %void
             %bool = OpTypeBool
             %uint = OpTypeInt 32 0
             %float = OpTypeFloat 32
             %c0 = OpConstant %uint 0
             %c1 = OpConstant %uint 1
             %c2 = OpConstant %uint 2
             %c3 = OpConstant %uint 3
             %c8 = OpConstant %uint 8
             %c64 = OpConstant %uint 64
             %zero = OpConstant %float 0
             %big = OpConstant %float 1000
             %floats = OpTypeRuntimeArray %float
             %block = OpTypeStruct %floats
             %pb = OpTypePointer StorageBuffer %block
             %pf = OpTypePointer StorageBuffer %float
             %pu = OpTypePointer Input %uint
             %lane = OpVariable %pu Input
             %a0 = OpVariable %pb StorageBuffer
             %d0 = OpVariable %pb StorageBuffer
             %a = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c0
             %b = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c1
             %c = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2
             %null = OpConstantNull %c
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %pa = OpAccessChain %pf %a0 %c0 %c0
             %pd = OpAccessChain %pf %d0 %c0 %c0
             %pe = OpAccessChain %pf %d0 %c0 %c64
             %ma = OpCooperativeMatrixLoadKHR %a %pa %c0 %c8
             %mb = OpCooperativeMatrixLoadKHR %b %pa %c1 %c8
             %d = OpCooperativeMatrixMulAddKHR %c %ma %mb %null
             %s = OpCompositeExtract %float %d 0
             {body}
             OpReturn
             OpFunctionEnd"
        );
        coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn case(fill: &str) -> Case {
        let text = format!(
            "workgroups = [1, 1, 1]\n[[buffer]]\nname = 'A'\nbinding = 0\ntype = 'f32'\ncount = 64\nfill = {fill}\n\
             [[buffer]]\nname = 'D'\nbinding = 1\ntype = 'f32'\ncount = 128\nfill = 'pattern'"
        );
        Case::parse(&text, Path::new("")).unwrap()
    }

    fn run(module: &Module, case: &Case, mul_add: MulAddMode) -> Outcome {
        let interpreter = Interpreted { config: Config { mul_add, ..Config::default() } };
        interpreter.run(&write_words(module), case, &RunOptions::default()).unwrap()
    }

    const STORE: &str = "OpCooperativeMatrixStoreKHR %pd %d %c0 %c8";

    /// The differences of the lowest sums from the exact ones, without bounds and with them.
    fn lowest(body: &str, fill: &str) -> (Bounds, Vec<Difference>, Vec<Difference>) {
        let (module, case) = (module(body), case(fill));
        let bounds = Bounds::derive(&module, &case, Config::default());
        let (exact, low) = (run(&module, &case, MulAddMode::Exact), run(&module, &case, MulAddMode::Lowest));
        let without = low.compare(&exact, &case).unwrap();
        let with = low.compare_within(&exact, &case, &bounds, 1).unwrap();
        (bounds, without, with)
    }

    #[test]
    fn small_integers_have_no_bounds() {
        let (bounds, without, _) = lowest(STORE, "'half-integers'");
        // But for the sign of a zero.
        let none = bounds.buffers.iter().flatten().all(|distance| distance.bound < 2e-45);
        assert!(without.is_empty() && none, "{bounds:?}");
    }

    #[test]
    fn sums_have_the_bound_that_is_written_down() {
        let (bounds, without, with) = lowest(STORE, "{ uniform = [0.5, 1.0] }");
        assert!(!without.is_empty() && with.is_empty(), "{with:?}");
        // Nine roundings of sums of at most 8, and the last one of the result.
        let allowed = bounds.allowed(1, 0, 4, 1);
        assert!(allowed > 0.0 && allowed < 11.0 * 8.0 * 2f64.powi(-23), "{allowed:e}");
        assert_eq!(bounds.allowed(1, 256, 4, 1), 0.0, "nothing was stored there");
        assert!(bounds.allowed(1, 2, 4, 1).is_nan(), "parts of two numbers");
    }

    #[test]
    fn bounds_travel_and_do_not_hide_faults() {
        let scaled = "%e = OpMatrixTimesScalar %c %d %big\nOpCooperativeMatrixStoreKHR %pd %e %c0 %c8";
        let (bounds, _, with) = lowest(scaled, "'uniform'");
        let (plain, ..) = lowest(STORE, "'uniform'");
        assert!(with.is_empty(), "{with:?}");
        let ratio = bounds.allowed(1, 0, 4, 1) / plain.allowed(1, 0, 4, 1);
        // Each product is rounded once more.
        assert!((1000.0..1200.0).contains(&ratio), "{ratio}");
        // One element that is 1/1000 off is far outside.
        let (module, case) = (module(STORE), case("'uniform'"));
        let exact = run(&module, &case, MulAddMode::Exact);
        let mut wrong = exact.clone();
        let value = f32::from_le_bytes(wrong.buffers[1].1[..4].try_into().unwrap()) * 1.001;
        wrong.buffers[1].1[..4].copy_from_slice(&value.to_le_bytes());
        wrong.buffers[1].1[400..404].copy_from_slice(&[0; 4]);
        wrong.buffers[1].1[8..12].copy_from_slice(&[0xa5, 0xc3, 0x5a, 0x69]);
        let found = wrong.compare_within(&exact, &case, &plain, 1).unwrap();
        let [difference] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((difference.count, difference.unwritten, difference.stray), (3, 1, 1), "{difference}");
        let text = difference.to_string();
        for part in ["tolerance: derived", "apart", "1 element wrongly as before", "1 element should be as before"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_choice_is_followed_to_both_sides() {
        // The greater of an element and 0, written three ways.
        for choice in [
            "%r = OpExtInst %float %glsl FMax %s %zero",
            "%p = OpFOrdGreaterThan %bool %s %zero\n%r = OpSelect %float %p %s %zero",
            "%n = OpFNegate %float %s\n%p = OpFOrdLessThan %bool %n %zero\n%r = OpSelect %float %p %s %zero",
        ] {
            let body =
                format!("{choice}\n%at = OpLoad %uint %lane\n%to = OpAccessChain %pf %d0 %c0 %at\nOpStore %to %r");
            let (bounds, _, with) = lowest(&body, "'uniform'");
            assert!(with.is_empty() && bounds.why_not().is_none(), "{choice}: {with:?}");
        }
    }

    #[test]
    fn what_hangs_on_a_rounding_has_no_bounds() {
        let body = "%p = OpFOrdGreaterThan %bool %s %s\nOpSelectionMerge %after None\nOpBranchConditional %p %then %after\n\
                    %then = OpLabel\nOpStore %pe %zero\nOpBranch %after\n%after = OpLabel";
        let (bounds, ..) = lowest(body, "'uniform'");
        let why = bounds.why_not().expect("a branch depends on the product");
        assert!(why.contains("OpBranchConditional") && why.contains("depends on how a value is rounded"), "{why}");
        // The bits of a float as an integer: no claim is made.
        let body = "%i = OpBitcast %uint %s\n%j = OpShiftRightLogical %uint %i %c1\n%r = OpBitcast %float %j\n\
                    %at = OpLoad %uint %lane\n%to = OpAccessChain %pf %d0 %c0 %at\nOpStore %to %r";
        let (bounds, ..) = lowest(body, "'uniform'");
        assert!(bounds.allowed(1, 0, 4, 1).is_nan());
        // The same bits moved and put back are as good as the float.
        let body = "%i = OpBitcast %uint %s\n%r = OpBitcast %float %i\n\
                    %at = OpLoad %uint %lane\n%to = OpAccessChain %pf %d0 %c0 %at\nOpStore %to %r";
        let (bounds, ..) = lowest(body, "'uniform'");
        assert!(bounds.allowed(1, 0, 4, 1) > 0.0);
    }
}
