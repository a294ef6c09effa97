//! Pointers and strides that are multiples of a component's size and no more: what engines give tensor loads and stores, and
//! what NVIDIA's driver mostly does what is meant with. Lowered code does so too, whatever the address is, and where it is a multiple
//! of 16 bytes it still loads tiles as they are.
//!
//! The witnesses are the interpreter, which says once that the text leaves it undefined, and what is copied here by hand.

use coop_device::Profile;
use coop_exec::interp::{Config, Finding, FindingKind, Interpreted, Semantics};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lowered, Options, Target, lower};
use std::path::Path;

/// A variant of `testdata/nv2/unaligned.comp`.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    /// The type of its components, and their size.
    ty: &'static str,
    bytes: usize,
    rows: usize,
    cols: usize,
    /// True if columns follow each other, not rows.
    columns: bool,
    beyond: Beyond,
    /// True if buffers are reached by addresses.
    addresses: bool,
}

/// The treatment of the last three rows and five columns.
#[derive(Clone, Copy, PartialEq)]
enum Beyond {
    /// They are in the tensors.
    Copied,
    /// They are zeros.
    Filled,
    /// They are as the last ones that are in the tensor.
    Edge,
    /// The store leaves them out.
    LeftOut,
}

const F16: Variant = Variant {
    name: "f16",
    ty: "f16",
    bytes: 2,
    rows: 16,
    cols: 16,
    columns: false,
    beyond: Beyond::Copied,
    addresses: false,
};

const VARIANTS: [Variant; 13] = [
    F16,
    Variant { name: "f16_columns", columns: true, ..F16 },
    Variant { name: "f16_filled", beyond: Beyond::Filled, ..F16 },
    Variant { name: "f16_edge", beyond: Beyond::Edge, ..F16 },
    Variant { name: "f16_clamped", beyond: Beyond::LeftOut, ..F16 },
    Variant { name: "f16_address", addresses: true, ..F16 },
    Variant { name: "f16_shared", ..F16 },
    Variant { name: "f16_plain", ..F16 },
    Variant { name: "f16_part", rows: 15, ..F16 },
    Variant { name: "f16_part_columns", rows: 15, columns: true, ..F16 },
    Variant { name: "f16_part_address", rows: 15, addresses: true, ..F16 },
    Variant { name: "u8", ty: "u8", bytes: 1, cols: 32, ..F16 },
    Variant { name: "f32", ty: "f32", bytes: 4, ..F16 },
];

/// The offsets of the load and the store, and how much longer than a line of the matrix their strides are, in elements.
type Place = (usize, usize, isize, usize);

/// Aligned; not aligned at all; so that some lines are aligned though neither first element nor stride is; one of both
/// alone.
const PLACES: [Place; 9] = [
    (0, 0, 0, 0),
    (16, 32, 16, 32),
    (3, 5, 1, 3),
    (3, 5, -3, 11),
    (15, 1, 1, 15),
    (7, 2, 0, 0),
    (4, 4, 4, 4),
    (0, 0, 1, 1),
    (13, 8, 0, 8),
];

const ELEMENTS: usize = 1024;

impl Variant {
    fn module(&self) -> Module {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../testdata/nv2/unaligned.{}.spv", self.name));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Lines, and elements of a line.
    fn lines(&self) -> (usize, usize) {
        if self.columns { (self.cols, self.rows) } else { (self.rows, self.cols) }
    }

    fn strides(&self, place: Place) -> [usize; 2] {
        let length = self.lines().1;
        [length.saturating_add_signed(place.2), length + place.3]
    }

    fn case(&self, place: Place, size: u32) -> Case {
        let [load, store] = self.strides(place);
        let (addresses, ty) = (self.addresses, self.ty);
        let push = if addresses { ", { address = 'A' }, { address = 'D' }" } else { "" };
        let buffer = |name: &str, binding: u32, fill: &str| {
            let slot = if addresses { String::new() } else { format!("binding = {binding}\n") };
            format!("[[buffer]]\nname = '{name}'\n{slot}type = '{ty}'\ncount = {ELEMENTS}\nfill = {fill}\n")
        };
        let text = format!(
            "workgroups = [1, 1, 1]\nspec = {{ 0 = {size} }}\nsubgroup-size = {size}\nfull-subgroups = true\n\
             push = [{{ values = [{}, {}, {load}, {store}] }}{push}]\n{}{}",
            place.0,
            place.1,
            buffer("A", 0, "'position'"),
            buffer("D", 1, "{ constant = 77 }")
        );
        Case::parse(&text, Path::new("")).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Returns the expected contents of the sink, copied by hand.
    fn expected(&self, place: Place, case: &Case) -> Vec<u8> {
        let contents = |n: usize| case.contents(n, &|_| 0).expect("a fill");
        let (source, mut sink) = (contents(0), contents(1));
        let ([load, store], (lines, length)) = (self.strides(place), self.lines());
        let less = |n: usize, by: usize| if self.beyond == Beyond::Copied { n } else { n - by };
        let (rows, cols) = (less(self.rows, 3), less(self.cols, 5));
        let (most, longest) = if self.columns { (cols, rows) } else { (rows, cols) };
        let element = |at: usize| at * self.bytes..(at + 1) * self.bytes;
        for line in 0..lines {
            for at in 0..length {
                let inside = line < most && at < longest;
                if !inside && self.beyond == Beyond::LeftOut {
                    continue;
                }
                let (from, in_line) = (line.min(most - 1), at.min(longest - 1));
                let value = &source[element(place.0 + from * load + in_line)];
                let zero = vec![0; self.bytes];
                let value = if inside || self.beyond == Beyond::Edge { value } else { &zero };
                sink[element(place.1 + line * store + at)].copy_from_slice(value);
            }
        }
        sink
    }

    fn lowered(&self, target: Target, profile: &Profile, size: u32) -> Lowered {
        self.lowered_as(target, profile, size, false)
    }

    /// `promised`: all pointers are multiples of 16 bytes.
    fn lowered_as(&self, target: Target, profile: &Profile, size: u32, promised: bool) -> Lowered {
        let case = self.case(PLACES[0], size);
        let mut options = Options::new(target);
        options.spec = case.specialization().expect("values");
        (options.profile, options.subgroup_size) = (Some(profile), Some(size));
        options.verify_each = true;
        options.assume_aligned = promised;
        lower(&self.module(), &options).unwrap_or_else(|e| panic!("{} to {target}: {e}", self.name))
    }
}

fn variant(name: &str) -> Variant {
    VARIANTS.into_iter().find(|v| v.name == name).unwrap_or_else(|| panic!("no variant {name}"))
}

fn builtin(name: &str) -> Profile {
    Profile::builtin(name).unwrap_or_else(|| panic!("no profile {name}"))
}

fn interpreted(module: &Module, case: &Case, semantics: Semantics) -> (Outcome, Vec<Finding>) {
    let config = Config { semantics, ..Config::default() };
    let (buffers, report) = Interpreted { config }.run_module(module, case).unwrap_or_else(|e| panic!("{e}"));
    (Interpreted::outcome(buffers, &report), report.findings)
}

/// Describes the differences of an outcome from what is expected, if any.
fn wrong(what: &str, variant: &Variant, place: Place, case: &Case, outcome: &Outcome) -> Option<String> {
    let complaints: Vec<&String> = outcome.messages.iter().chain(&outcome.faults).collect();
    if !complaints.is_empty() {
        return Some(format!("{} {what} at {place:?}: {complaints:?}", variant.name));
    }
    let (found, wanted) = (outcome.buffer("D").expect("the sink"), variant.expected(place, case));
    let at = (0..ELEMENTS).find(|at| {
        let element = at * variant.bytes..(at + 1) * variant.bytes;
        found[element.clone()] != wanted[element]
    });
    at.map(|at| format!("{} {what} at {place:?}: element {at} differs", variant.name))
}

/// Returns the targets of the lowering: scalar code, and tiles of devices with subgroups of 32 and of 8.
fn targets() -> Vec<(Target, Profile, u32)> {
    let (h100, lavapipe) = (builtin("nvidia-h100"), builtin("mesa-lavapipe"));
    vec![
        (Target::Scalar, h100.clone(), 32),
        (Target::Khr, h100.clone(), 32),
        (Target::Ext, h100.with_maintenance1(), 32),
        (Target::Scalar, lavapipe.clone(), 8),
        (Target::Khr, lavapipe, 8),
    ]
}

#[test]
fn every_address_is_right_lowered_and_not() {
    let mut failures = Vec::new();
    for variant in VARIANTS {
        for place in PLACES {
            let case = variant.case(place, 32);
            let (outcome, _) = interpreted(&variant.module(), &case, Semantics::Spec);
            failures.extend(wrong("as it is", &variant, place, &case, &outcome));
        }
        for (target, profile, size) in targets() {
            let lowered = variant.lowered(target, &profile, size);
            for place in PLACES {
                let case = variant.case(place, size);
                let (outcome, _) = interpreted(&lowered.module, &case, Semantics::Spec);
                failures.extend(wrong(&format!("{target} of {size}"), &variant, place, &case, &outcome));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The places where the load or the store is at no multiple of 16 bytes.
#[test]
fn the_interpreter_says_it_once_and_goes_on() {
    let case = F16.case((3, 5, 1, 3), 32);
    let (_, findings) = interpreted(&F16.module(), &case, Semantics::Spec);
    let kinds: Vec<_> = findings.iter().map(|f| (f.kind, f.count)).collect();
    assert_eq!(kinds, [(FindingKind::Portability, 1); 2], "a load and a store: {findings:?}");
    assert!(
        findings.iter().all(|f| f.message.contains("is not a multiple of 16: the specification leaves that undefined"))
    );
    assert_eq!(interpreted(&F16.module(), &case, Semantics::Nvidia).1, []);
    assert_eq!(interpreted(&F16.module(), &F16.case(PLACES[1], 32), Semantics::Spec).1, []);
    // Plain ones: the pointer of the load, and the stride of the store alone.
    let part = variant("f16_part");
    let (_, findings) = interpreted(&part.module(), &part.case((3, 0, 0, 1), 32), Semantics::Spec);
    let messages: Vec<&str> = findings.iter().map(|f| f.message.as_str()).collect();
    assert!(
        messages.len() == 2 && messages[0].contains("the pointer") && messages[1].contains("the stride of 34 bytes")
    );
    assert!(findings.iter().all(|f| f.kind == FindingKind::Portability), "{findings:?}");
    assert_eq!(interpreted(&part.module(), &part.case((3, 0, 0, 1), 32), Semantics::Nvidia).1, []);
}

/// Half of a component is no place for one.
#[test]
fn an_address_inside_of_a_component_stays_an_error() {
    for variant in ["f16_address", "f16_part_address"].map(variant) {
        let mut module = variant.module();
        // Bytes instead of halves.
        let stride = module.globals.iter().copied().find(|r| {
            let inst = module.inst(*r);
            inst.op == Op::Decorate && inst.word(1) == Some(6) && inst.word(2) == Some(2)
        });
        module.inst_mut(stride.expect("an array of halves")).operands[2] = 1.into();
        for semantics in [Semantics::Spec, Semantics::Nvidia] {
            let (_, findings) = interpreted(&module, &variant.case((3, 8, 0, 0), 32), semantics);
            assert!(findings.iter().any(|f| f.kind == FindingKind::Misaligned), "{}: {findings:?}", variant.name);
        }
    }
}

/// Instructions of a module's functions.
fn count(module: &Module, op: Op) -> usize {
    module.functions.iter().flat_map(|f| f.insts()).filter(|r| module.inst(*r).op == op).count()
}

/// The loads of vectors of four words.
fn wide_loads(module: &Module) -> usize {
    let vector = |r: &coop_ir::InstRef| {
        let inst = module.inst(*r);
        let ty = inst.ty.and_then(|t| module.def_inst(t));
        inst.op == Op::Load && ty.is_some_and(|t| t.op == Op::TypeVector && t.word(1) == Some(4))
    };
    module.functions.iter().flat_map(|f| f.insts()).filter(vector).count()
}

/// Where tiles can be loaded directly if addresses are aligned, one condition selects the way for the whole access.
#[test]
fn one_test_for_each_access_chooses() {
    for (name, bitcasts) in [("f16", 0), ("f16_address", 2), ("f16_shared", 0)] {
        let variant = variant(name);
        let module = variant.lowered(Target::Khr, &builtin("nvidia-h100"), 32).module;
        // The load: from where it is, or by way of the sheet. The store the same.
        let counts = [Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR].map(|op| count(&module, op));
        assert_eq!(counts, [2, 2], "{name}");
        // The low bits of an address are asked for once for each access.
        let pairs = module.functions.iter().flat_map(|f| f.insts()).filter(|r| {
            let inst = module.inst(*r);
            let from = inst.id(0).and_then(|id| module.type_of(id)).and_then(|t| module.def_inst(t));
            let to = inst.ty.and_then(|t| module.def_inst(t));
            inst.op == Op::Bitcast
                && from.is_some_and(|t| t.op == Op::TypePointer)
                && to.is_some_and(|t| t.op == Op::TypeVector)
        });
        assert_eq!(pairs.count(), bitcasts, "{name}");
    }
}

/// Pointers that are promised to be multiples of 16 bytes are not looked at: less code, which is right where the promise holds and
/// wrong where it does not.
#[test]
fn promised_pointers_are_not_tested() {
    for name in ["f16", "f16_address", "f16_shared", "f16_filled", "u8"] {
        let variant = variant(name);
        let mut wrong_elsewhere = 0;
        for (target, profile, size) in targets() {
            let promised = variant.lowered_as(target, &profile, size, true).module;
            let tested = variant.lowered(target, &profile, size).module;
            let instructions = |m: &Module| m.functions.iter().flat_map(|f| f.insts()).count();
            let (few, many) = (instructions(&promised), instructions(&tested));
            // Behind an address vectors are loaded then, where lines are aligned too.
            let wider = wide_loads(&promised) > wide_loads(&tested);
            let less = few < many || wider || name == "f16_shared";
            assert!(less, "{name} to {target} of {size}: {few} of {many} instructions");
            for place in PLACES {
                let holds = [place.0, place.1].iter().all(|at| (at * variant.bytes).is_multiple_of(16));
                let case = variant.case(place, size);
                let (outcome, _) = interpreted(&promised, &case, Semantics::Spec);
                let wrong = wrong(&format!("{target} of {size}"), &variant, place, &case, &outcome);
                assert!(wrong.is_none() || !holds, "{wrong:?}");
                wrong_elsewhere += usize::from(wrong.is_some());
            }
        }
        assert_eq!(wrong_elsewhere > 0, name != "f16_shared", "{name}: {wrong_elsewhere} wrong");
    }
}

/// Matrices that are cut where it is known that their tiles are not where Vulkan has such go element by element. One that
/// stays is as right as the module's own.
#[test]
fn tiles_that_are_known_to_be_unaligned_are_not_loaded() {
    let variant = Variant { name: "f16_constant", ..F16 };
    for (target, profile, size) in targets() {
        let module = variant.lowered(target, &profile, size).module;
        let place = (3, 5, 3, 5);
        let case = variant.case(place, size);
        let (outcome, _) = interpreted(&module, &case, Semantics::Spec);
        assert_eq!(wrong(&target.to_string(), &variant, place, &case, &outcome), None);
        let of_buffer = |op: Op| {
            let all = module.functions.iter().flat_map(|f| f.insts()).map(|r| module.inst(r)).filter(|i| i.op == op);
            let storage = |i: &coop_ir::Inst| module.def_inst(module.type_of(i.id(0)?)?)?.word(0);
            all.filter(|i| storage(i) == Some(coop_ir::spv::StorageClass::StorageBuffer.0)).count()
        };
        let found = [Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR].map(of_buffer);
        let kept = target != Target::Scalar && size == 32;
        assert_eq!(found, [usize::from(kept); 2], "{target} of {size}");
    }
}

fn on_device(device: &VulkanExecutor<'_>, targets: &[Target]) {
    let size = device.profile().limits.subgroup_size;
    let mut failures = Vec::new();
    for variant in VARIANTS {
        for target in targets {
            let lowered = variant.lowered(*target, device.profile(), size);
            let words = binary::write_words(&lowered.module);
            // Each makes a pipeline of its own.
            for place in [PLACES[1], PLACES[2], PLACES[3], PLACES[5]] {
                let case = variant.case(place, size);
                let outcome = device.run(&words, &case, &RunOptions::default());
                let outcome = outcome.unwrap_or_else(|e| panic!("{} to {target}: {e}", variant.name));
                failures.extend(wrong(&target.to_string(), &variant, place, &case, &outcome));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn every_address_is_right_on_lavapipe(device) {
        on_device(device, &[Target::Scalar, Target::Khr]);
    }
);

vulkan_test!(
    Debian12,
    fn every_address_is_right_on_debian_12(device) {
        on_device(device, &[Target::Scalar]);
    }
);
