//! Instructions of other dialects one by one: by layout, use and width of component.
//!
//! `testdata/dialects/table` has a module for each, written by `scripts/dialect-cases.py`, with what every buffer must hold afterwards.
//! Each is run as it is by the interpreter, and lowered to `scalar` and `khr` by the interpreter and on lavapipe. What was executed is the
//! table `docs/dialects.md` (`COOP_UPDATE=1` writes it); what [`wanted`] lists and no module executes is a failure.

mod every_type;

use coop_device::Profile;
use coop_exec::interp::{Config, Coverage, Interpreted};
use coop_exec::testing::{repository, wrong};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::vulkan_test;
use coop_exec::{Case, Executor, RunOptions};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::types::{self, Scalar};
use coop_ir::{Inst, InstRef, Module, Op, binary, text};
use coop_passes::{Options, Target, lower};
use every_type::every_type;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

/// A module with its case.
struct Shown {
    name: String,
    module: Module,
    case: Case,
    /// The function that a function object stands for.
    apply: Option<String>,
    /// True if khr is for a device that has matrices of every type, which none of ours is.
    every_type: bool,
    /// The targets that the row is lowered to.
    targets: Vec<Target>,
    /// True if lavapipe takes seconds to compile what it becomes.
    slow: bool,
    in_table: bool,
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = repository().join("testdata/dialects").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "spvasm"));
    all.sort();
    all
}

fn shown() -> Vec<Shown> {
    let all = files("table").into_iter().chain(files(""));
    all.map(|path| {
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        let source = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let header = |key: &str| {
            let lines = source.lines().take_while(|l| l.starts_with(';'));
            lines.filter_map(|l| l.strip_prefix("; ")?.strip_prefix(key)?.strip_prefix(": ")).next().map(str::to_owned)
        };
        let targets = match header("targets").as_deref() {
            None => vec![Target::Scalar, Target::Khr],
            Some("scalar") => vec![Target::Scalar],
            Some("khr") => vec![Target::Khr],
            Some(other) => panic!("{name}: targets {other}"),
        };
        let case = Case::load(&path.with_extension("toml")).unwrap_or_else(|e| panic!("{name}: {e}"));
        Shown {
            module: text::parse(&source).unwrap_or_else(|e| panic!("{name}: {e}")),
            case,
            apply: header("apply-function"),
            every_type: header("every-type").is_some(),
            targets,
            slow: header("slow").is_some(),
            in_table: path.parent().is_some_and(|folder| folder.ends_with("table")),
            name,
        }
    })
    .collect()
}

impl Shown {
    fn lowered(&self, target: Target, profile: &Profile) -> Module {
        let mut options = Options::new(target);
        options.subgroup_size = Some(8);
        options.profile = Some(profile);
        options.apply_function = self.apply.clone();
        let lowered = lower(&self.module, &options);
        lowered.unwrap_or_else(|e| panic!("{} to {target} for {}: {e}", self.name, profile.name)).module
    }

    /// For each target what it is lowered to, and whether lavapipe has that.
    fn forms(&self) -> Vec<(Target, Module, bool)> {
        let (lavapipe, every) = (Profile::builtin("mesa-lavapipe").expect("a built-in profile"), every_type());
        let one = |target: &Target| {
            let imagined = *target == Target::Khr && self.every_type;
            (*target, self.lowered(*target, if imagined { &every } else { &lavapipe }), !imagined)
        };
        self.targets.iter().map(one).collect()
    }

    /// Returns the complaints about a run in the interpreter, and its coverage.
    fn interpreted(&self, what: &str, module: &Module) -> (Vec<String>, Coverage) {
        let config = Config { subgroup_size: 8, coverage: true, ..Config::default() };
        let ran = Interpreted { config }.run_module(module, &self.case);
        let (buffers, report) = ran.unwrap_or_else(|e| panic!("{} {what}: {e}", self.name));
        let problems = wrong(&format!("{} {what}", self.name), Ok(Interpreted::outcome(buffers, &report)), &self.case);
        (problems, report.coverage.expect("it was asked for"))
    }
}

/// A cell of the table: what is done, and to what.
type Cell = (String, String);

const USES: [&str; 3] = ["A", "B", "C"];
/// Bits of components. Of 4 bits there are no blocks, and nothing that computes with elements.
const WIDTHS: [u32; 4] = [4, 8, 16, 32];

/// Loads and stores with the operand that is their layout.
const ACCESSES: [(Op, usize); 6] = [
    (Op::CooperativeMatrixLoadKHR, 1),
    (Op::CooperativeMatrixStoreKHR, 2),
    (Op::CooperativeMatrixLoadCheckedINTEL, 3),
    (Op::CooperativeMatrixStoreCheckedINTEL, 4),
    (Op::CooperativeMatrixLoadOffsetINTEL, 3),
    (Op::CooperativeMatrixStoreOffsetINTEL, 4),
];

const LAYOUTS: [(u64, &str); 5] = [
    (0, "RowMajor"),
    (1, "ColumnMajor"),
    (2, "PackedINTEL"),
    (4202, "RowBlockedInterleavedARM"),
    (4203, "ColumnBlockedInterleavedARM"),
];

/// Bits of multiplications.
const BITS: [(u32, &str); 4] =
    [(0x20, "TF32"), (0x40, "bfloat16 A and B"), (0x80, "bfloat16 C"), (0x100, "bfloat16 result")];

/// Multiplications of such components.
const FOUR_BITS: &str = "4-bit A and B";

/// The cells that the specifications define: every instruction with every layout, use and width that it takes.
fn wanted() -> BTreeSet<Cell> {
    let mut out = BTreeSet::new();
    let mut each = |what: String, packed: bool, four: bool| {
        for width in WIDTHS.into_iter().filter(|w| four || *w > 4) {
            for use_ in USES.into_iter().filter(|u| !packed || *u != "C") {
                out.insert((what.clone(), format!("{use_} {width}")));
            }
        }
    };
    for (op, _) in ACCESSES {
        let plain = matches!(op, Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR);
        for (number, layout) in LAYOUTS {
            if number < 3 {
                each(format!("{op} {layout}"), number == 2, true);
            } else if plain {
                [1, 2, 4].into_iter().for_each(|n| each(format!("{op} {layout} {n}"), false, false));
            }
        }
    }
    for op in [
        Op::CooperativeMatrixConstructCheckedINTEL,
        Op::CooperativeMatrixGetElementCoordINTEL,
        Op::CooperativeMatrixApplyFunctionINTEL,
    ] {
        each(op.to_string(), false, op != Op::CooperativeMatrixApplyFunctionINTEL);
    }
    let mut add = |what: String, to: &str| {
        out.insert((what, to.to_owned()));
    };
    for op in [Op::ConvertFToBF16INTEL, Op::ConvertBF16ToFINTEL, Op::RoundFToTF32INTEL] {
        ["A", "B", "C", "number", "vector"].into_iter().for_each(|to| add(op.to_string(), to));
    }
    for (_, layout) in &LAYOUTS[..3] {
        ["rows and columns", "X, Y, rows and columns"]
            .into_iter()
            .for_each(|form| add(format!("{} {layout}", Op::CooperativeMatrixPrefetchINTEL), form));
    }
    for bit in BITS.into_iter().map(|(_, bit)| bit).chain([FOUR_BITS]) {
        ["B by rows", "B packed"].into_iter().for_each(|b| add(format!("{} {bit}", Op::CooperativeMatrixMulAddKHR), b));
    }
    ["CacheControlLoadINTEL", "CacheControlStoreINTEL"].into_iter().for_each(|d| add(d.to_owned(), "pointer"));
    for op in [Op::CompositeConstructCoopMatQCOM, Op::CompositeExtractCoopMatQCOM] {
        for array in ["components", "words"] {
            ["A 8", "A 16", "A 32", "B 8", "B 16", "B 32", "C 16", "C 32"]
                .into_iter()
                .for_each(|to| add(format!("{op} {array}"), to));
        }
    }
    for op in [Op::BitCastArrayQCOM, Op::ExtractSubArrayQCOM] {
        add(op.to_string(), "array");
    }
    out
}

/// The cells that an instruction is in.
fn cells(m: &Module, constants: &Constants, inst: &Inst) -> Vec<Cell> {
    let known = |at: usize| inst.id(at).and_then(|id| constants.get(id).fixed());
    let matrix = |ty: Option<coop_ir::Id>| {
        let view = types::coop_mat(m, ty?)?.view(m, constants);
        Some((USES.get(view.use_.fixed()? as usize)?.to_string(), view.component?.width()))
    };
    let of = |at: usize| inst.id(at).and_then(|id| m.type_of(id));
    let named = |found: Option<(String, u32)>| found.map(|(use_, width)| format!("{use_} {width}"));
    let one = |what: String, to: Option<String>| to.map(|to| (what, to)).into_iter().collect::<Vec<_>>();
    let elements = |array: Option<coop_ir::Id>| {
        let elem = array.and_then(|t| m.def_inst(t)).and_then(|t| t.id(0)).and_then(|t| types::scalar(m, t));
        if elem == Some(Scalar::Int { width: 32, signed: false }) { "words" } else { "components" }
    };
    let op = inst.op;
    if let Some((_, at)) = ACCESSES.into_iter().find(|(o, _)| *o == op) {
        let ty = inst.ty.or_else(|| (1..4).filter_map(of).find(|t| types::coop_mat(m, *t).is_some()));
        let Some((number, layout)) = known(at).and_then(|n| LAYOUTS.into_iter().find(|l| l.0 == n)) else {
            return Vec::new();
        };
        let group =
            if number > 2 { known(at + 1).map_or_else(String::new, |n| format!(" {n}")) } else { String::new() };
        return one(format!("{op} {layout}{group}"), named(matrix(ty)));
    }
    match op {
        Op::CooperativeMatrixConstructCheckedINTEL | Op::CooperativeMatrixApplyFunctionINTEL => {
            one(op.to_string(), named(matrix(inst.ty)))
        }
        Op::CooperativeMatrixGetElementCoordINTEL => one(op.to_string(), named(matrix(of(0)))),
        Op::CompositeConstructCoopMatQCOM => one(format!("{op} {}", elements(of(0))), named(matrix(inst.ty))),
        Op::CompositeExtractCoopMatQCOM => one(format!("{op} {}", elements(inst.ty)), named(matrix(of(0)))),
        Op::ConvertFToBF16INTEL | Op::ConvertBF16ToFINTEL | Op::RoundFToTF32INTEL => {
            let number = if inst.ty.is_some_and(|t| types::scalar(m, t).is_some()) { "number" } else { "vector" };
            one(op.to_string(), Some(matrix(inst.ty).map_or_else(|| number.to_owned(), |(use_, _)| use_)))
        }
        Op::CooperativeMatrixPrefetchINTEL => {
            // Words behind the pointer: three or four, or two more.
            let words = inst.operands.len() - 1;
            let (form, at) = if words < 6 { ("rows and columns", 4) } else { ("X, Y, rows and columns", 6) };
            let layout = inst.operands.get(at).and_then(|o| coop_ir::Id::new(o.word()));
            let layout = layout.and_then(|id| constants.get(id).fixed());
            let layout = layout.and_then(|n| LAYOUTS.into_iter().find(|l| l.0 == n));
            layout.map(|(_, l)| (format!("{op} {l}"), form.to_owned())).into_iter().collect()
        }
        Op::CooperativeMatrixMulAddKHR => {
            let load = inst.id(1).and_then(|id| m.def_inst(id)).filter(|i| i.op == Op::CooperativeMatrixLoadKHR);
            let layout = load.and_then(|i| constants.get(i.id(1)?).fixed());
            let b = if layout == Some(2) { "B packed" } else { "B by rows" };
            let mask = inst.word(3).unwrap_or(0);
            let set = BITS.into_iter().filter(|(bit, _)| mask & bit != 0);
            let four = matrix(of(0)).is_some_and(|(_, width)| width == 4).then_some(FOUR_BITS);
            set.map(|(_, name)| name).chain(four).map(|name| (format!("{op} {name}"), b.to_owned())).collect()
        }
        Op::BitCastArrayQCOM | Op::ExtractSubArrayQCOM => one(op.to_string(), Some("array".to_owned())),
        _ => Vec::new(),
    }
}

/// Decorations of pointers.
fn decorated(m: &Module) -> Vec<Cell> {
    let controls = [(6442, "CacheControlLoadINTEL"), (6443, "CacheControlStoreINTEL")];
    let all = m.globals_with(Op::Decorate).filter_map(|r| m.inst(r).word(1));
    let found = all.filter_map(|d| controls.into_iter().find(|c| c.0 == d));
    found.map(|(_, name)| (name.to_owned(), "pointer".to_owned())).collect()
}

/// The evidence for a cell: the best of what modules did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct How {
    scalar: bool,
    /// 1: in the interpreter, for a device that none of ours is; 2: for lavapipe.
    khr: u8,
}

#[test]
fn every_instruction_is_executed_with_every_layout_use_and_width() {
    let (mut table, mut problems): (BTreeMap<Cell, How>, _) = (BTreeMap::new(), Vec::new());
    for one in shown() {
        let constants = Constants::new(&one.module, &Specialization::new());
        // Nothing says which function is applied but the option, so that only what it is lowered to runs.
        let coverage = one.apply.is_none().then(|| {
            let (wrong, coverage) = one.interpreted("as it is", &one.module);
            problems.extend(wrong);
            coverage
        });
        let mut how = How::default();
        for (target, module, real) in one.forms() {
            problems.extend(one.interpreted(&target.to_string(), &module).0);
            match target {
                Target::Scalar => how.scalar = true,
                _ => how.khr = 1 + u8::from(real),
            }
        }
        let body = one.module.functions.iter().flat_map(|f| f.insts());
        // Prefetches do nothing, which coverage says nothing of: what makes their pointers does.
        let seen = |r: InstRef| match one.module.inst(r) {
            i if i.op == Op::CooperativeMatrixPrefetchINTEL => i.id(0).and_then(|p| one.module.def(p)).unwrap_or(r),
            _ => r,
        };
        let executed = body.filter(|r| coverage.as_ref().is_none_or(|c| c.executed(seen(*r), 0)));
        let found = executed.flat_map(|r| cells(&one.module, &constants, one.module.inst(r)));
        for cell in found.chain(decorated(&one.module)) {
            let entry = table.entry(cell).or_default();
            *entry = How { scalar: entry.scalar || how.scalar, khr: entry.khr.max(how.khr) };
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let missing: Vec<String> = wanted()
        .into_iter()
        .filter(|cell| !table.get(cell).is_some_and(|how| how.scalar && how.khr > 0))
        .map(|(what, to)| format!("{what}: {to}"))
        .collect();
    assert!(missing.is_empty(), "{} are not executed:\n{}", missing.len(), missing.join("\n"));
    let page = page(&table);
    let path = repository().join("docs/dialects.md");
    if std::env::var_os("COOP_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == written, "docs/dialects.md is not current (COOP_UPDATE=1 writes it); it should be:\n{page}");
}

fn page(table: &BTreeMap<Cell, How>) -> String {
    let mut out = String::from(
        "# Other dialects, one by one\n\n\
         What `testdata/dialects` executes of SPV_INTEL_joint_matrix, SPV_INTEL_int4, SPV_ARM_cooperative_matrix_layouts and SPV_QCOM_cooperative_matrix_conversion in shaders:\n\
         each instruction, by layout, use and width of component, as it is by the interpreter, and lowered by the interpreter and on lavapipe.\n\
         `cli/tests/dialect_table.rs` runs all of it and compares this page; `COOP_UPDATE=1` writes it.\n\n\
         - **yes**: to `scalar` and to `khr`\n\
         - *yes*: to `scalar`; to `khr` for a device that has matrices of the type, which lavapipe has not, so that only the interpreter runs it\n\n",
    );
    let mut rows: BTreeMap<&str, Vec<(&str, How)>> = BTreeMap::new();
    let wanted = wanted();
    for ((what, to), how) in table.iter().filter(|(cell, _)| wanted.contains(*cell)) {
        rows.entry(what).or_default().push((to, *how));
    }
    let names = |to: &str| to.split_once(' ').filter(|(u, w)| USES.contains(u) && w.parse::<u32>().is_ok()).is_some();
    let mark = |how: &How| if how.khr > 1 { "**yes**" } else { "*yes*" };
    let columns: Vec<String> = USES.iter().flat_map(|u| WIDTHS.iter().map(move |w| format!("{u} {w}"))).collect();
    let _ = writeln!(out, "| | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    let (by_use, others): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, cells)| cells.iter().all(|(to, _)| names(to)));
    for (what, cells) in by_use {
        let of = |column: &String| cells.iter().find(|(to, _)| to == column).map_or("", |(_, how)| mark(how));
        let marks: Vec<&str> = columns.iter().map(of).collect();
        let _ = writeln!(out, "| {what} | {} |", marks.join(" | "));
    }
    out.push_str("\n| | of what |\n|---|---|\n");
    for (what, cells) in others {
        let marks: Vec<String> = cells.iter().map(|(to, how)| format!("{to}: {}", mark(how))).collect();
        let _ = writeln!(out, "| {what} | {} |", marks.join(", "));
    }
    out
}

/// Runs what modules of the table become on lavapipe. (`smith.rs` runs the others.)
fn run_on(device: &VulkanExecutor<'_>, slow: bool, chosen: &dyn Fn(&str) -> bool) {
    let (mut ran, mut problems) = (0, Vec::new());
    for one in shown().into_iter().filter(|one| one.in_table && one.slow == slow && chosen(&one.name)) {
        for (target, module, _) in one.forms().into_iter().filter(|form| form.2) {
            let outcome = device.run(&binary::write_words(&module), &one.case, &RunOptions::default());
            problems.extend(wrong(&format!("{} {target}", one.name), outcome, &one.case));
            ran += 1;
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(ran >= 8, "only {ran} ran");
}

vulkan_test!(
    Lavapipe,
    fn accesses_of_a_run_on_lavapipe(device) {
        run_on(device, false, &|name| name.starts_with("access-") && name.contains("-a-"));
    }
);

vulkan_test!(
    Lavapipe,
    fn accesses_of_b_and_c_run_on_lavapipe(device) {
        run_on(device, false, &|name| name.starts_with("access-") && !name.contains("-a-"));
    }
);

vulkan_test!(
    Lavapipe,
    fn other_instructions_run_on_lavapipe(device) {
        run_on(device, false, &|name| !name.starts_with("access-"));
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: lavapipe compiles for a minute"]
    Lavapipe,
    fn slow_ones_run_on_lavapipe(device) {
        run_on(device, true, &|_| true);
    }
);
