//! `coop stats`: counts of what is in a module.

use crate::Status;
use crate::io::{self, FileError};
use clap::Args;
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::spv::StorageClass;
use coop_ir::types::{CoopMatView, Type, coop_mat, natural_size};
use coop_ir::{Id, Module, Op, uses};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The command line of `coop stats`.
#[derive(Args, Debug)]
pub(super) struct Stats {
    /// The modules: SPIR-V words or assembly text; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object for each file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    spec: crate::args::SpecArgs,
}

/// The counts of a module. Field names are a contract: docs/coop.md.
#[derive(Serialize, Default)]
struct Counts {
    file: String,
    version: String,
    generator: u32,
    bytes: usize,
    id_bound: u32,
    ids: usize,
    instructions: usize,
    /// By class of the grammar.
    by_class: BTreeMap<String, usize>,
    /// By opcode.
    by_opcode: BTreeMap<String, usize>,
    functions: usize,
    blocks: usize,
    loops: usize,
    deepest_loop: usize,
    branches: usize,
    barriers: usize,
    /// In bytes; absent if a size is not known.
    shared_memory: Option<u64>,
    entry_points: Vec<Entry>,
    matrices: Vec<Matrix>,
}

/// An entry point.
#[derive(Serialize)]
struct Entry {
    name: String,
    model: String,
    workgroup: Option<[String; 3]>,
}

/// A matrix type.
#[derive(Serialize)]
struct Matrix {
    id: u32,
    #[serde(rename = "type")]
    ty: String,
    component: Option<String>,
    rows: Option<u64>,
    columns: Option<u64>,
    #[serde(rename = "use")]
    use_: Option<u64>,
    scope: Option<u64>,
    /// Values of the type.
    values: usize,
    /// Instructions that make or take such values, by opcode.
    instructions: BTreeMap<String, usize>,
}

impl Stats {
    pub(super) fn run(&self) -> Result<Status, FileError> {
        let specialization = self.spec.specialization()?;
        let mut status = Status::Success;
        for file in &self.files {
            let counted = io::load(file).map(|loaded| {
                let constants = Constants::new(&loaded.module, &specialization);
                counts(loaded.name, loaded.bytes.len(), &loaded.module, &constants)
            });
            match counted {
                Ok(counts) if self.json => io::print(&format!("{}\n", serde_json::json!(counts))),
                Ok(counts) => io::print(&text(&counts)),
                Err(error) => {
                    io::error(&format!("error: {error}"));
                    status = Status::BadInput;
                }
            }
        }
        Ok(status)
    }
}

fn counts(file: String, bytes: usize, m: &Module, constants: &Constants) -> Counts {
    let (major, minor) = m.header.version_pair();
    let mut counts = Counts {
        file,
        version: format!("{major}.{minor}"),
        generator: m.header.generator >> 16,
        bytes,
        id_bound: m.header.bound,
        functions: m.functions.len(),
        ..Counts::default()
    };
    for inst in m.all().map(|r| m.inst(r)) {
        counts.instructions += 1;
        counts.ids += usize::from(inst.result.is_some());
        let class = inst.op.info().map_or_else(|| "Unknown".to_owned(), |info| format!("{:?}", info.class));
        *counts.by_class.entry(class).or_default() += 1;
        *counts.by_opcode.entry(inst.op.to_string()).or_default() += 1;
        counts.barriers += usize::from(inst.op.is_control_barrier());
        counts.branches += usize::from(inst.branch_condition().is_some());
    }
    for function in &m.functions {
        counts.blocks += function.blocks.len();
        let loops = Loops::new(&Cfg::new(m, function));
        counts.loops += loops.all().len();
        counts.deepest_loop = loops.all().iter().map(|l| l.depth + 1).fold(counts.deepest_loop, usize::max);
    }
    counts.shared_memory = shared_memory(m, constants);
    let decorations = Decorations::new(m);
    counts.entry_points = entry_points(m, &decorations)
        .into_iter()
        .map(|e| Entry {
            workgroup: e.workgroup_size.map(|size| size.values(constants).map(|extent| extent.to_string())),
            model: format!("{:?}", e.model),
            name: e.name,
        })
        .collect();
    counts.matrices = matrices(m, constants);
    counts
}

/// Returns the bytes of all variables in shared memory.
fn shared_memory(m: &Module, constants: &Constants) -> Option<u64> {
    let variables = m.all().map(|r| m.inst(r));
    let shared = variables.filter(|i| i.variable_storage() == Some(StorageClass::Workgroup));
    shared
        .map(|i| match Type::of(m, i.ty?)? {
            Type::Pointer { pointee, .. } => Some(natural_size(m, constants, pointee)?.0),
            _ => None,
        })
        .sum()
}

fn matrices(m: &Module, constants: &Constants) -> Vec<Matrix> {
    let types: Vec<Id> =
        m.globals.iter().map(|r| m.inst(*r)).filter(|i| i.op.is_matrix_type()).filter_map(|i| i.result).collect();
    let matrix = |id: Id| {
        let view: Option<CoopMatView> = coop_mat(m, id).map(|ty| ty.view(m, constants));
        let view = view.as_ref();
        let (mut values, mut instructions) = (0, BTreeMap::new());
        for inst in m.all().map(|r| m.inst(r)).filter(|i| !uses::is_note(i.op)) {
            let makes = inst.ty == Some(id) && !inst.op.is_function_header();
            values += usize::from(makes);
            let takes = inst.ids().any(|operand| m.type_of(operand) == Some(id));
            if makes || takes {
                *instructions.entry(inst.op.to_string()).or_default() += 1;
            }
        }
        Matrix {
            id: id.get(),
            ty: view.map_or_else(|| m.def_inst(id).map_or(Op::Nop, |i| i.op).to_string(), ToString::to_string),
            component: view.and_then(|view| view.component).map(|component| component.to_string()),
            rows: view.and_then(|view| view.rows.value()),
            columns: view.and_then(|view| view.cols.value()),
            use_: view.and_then(|view| view.use_.value()),
            scope: view.and_then(|view| view.scope.value()),
            values,
            instructions,
        }
    };
    types.into_iter().map(matrix).collect()
}

fn text(c: &Counts) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<16} {value}");
    };
    line("words", format!("{} bytes, SPIR-V {}, generator {}", c.bytes, c.version, c.generator));
    line("ids", format!("{}, bound {}", c.ids, c.id_bound));
    line("functions", format!("{}, {} blocks", c.functions, c.blocks));
    line("loops", format!("{}, nested {} deep; {} branches on a value", c.loops, c.deepest_loop, c.branches));
    line("barriers", c.barriers.to_string());
    line("shared memory", c.shared_memory.map_or("of unknown size".to_owned(), |bytes| format!("{bytes} bytes")));
    for entry in &c.entry_points {
        let size = entry.workgroup.as_ref().map_or(String::new(), |size| format!(", workgroups of {}", size.join("x")));
        line("entry point", format!("{} ({}){size}", entry.name, entry.model));
    }
    for matrix in &c.matrices {
        let mut uses: Vec<(&String, &usize)> = matrix.instructions.iter().collect();
        uses.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
        let uses: Vec<String> = uses.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
        let uses = if uses.is_empty() { "unused".to_owned() } else { uses.join(", ") };
        line("matrix", format!("%{} {}: {} values; {uses}", matrix.id, matrix.ty, matrix.values));
    }
    let mut classes: Vec<(&String, &usize)> = c.by_class.iter().collect();
    classes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    line("instructions", c.instructions.to_string());
    for (name, count) in classes {
        let _ = writeln!(out, "    {count:>6} {name}");
    }
    format!("{}\n{out}", c.file)
}
