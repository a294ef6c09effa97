//! `coopcheck --graph`: the control flow of an entry point, in the colors of who executes what together.

use super::graph_drawing::drawing;
use crate::io::{FileError, Loaded};
use crate::render::sources;
use coop_ir::cfg::{Case, Cfg};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::source::SourceMap;
use coop_ir::text::{Names, inst_text};
use coop_ir::types::coop_mat;
use coop_ir::{Function, InstRef, Module};
use coop_uniformity::{Analysis, Analyzer, Options, Refusal, Uniformity};
use std::fmt::Write;
use std::path::Path;

/// The most instructions that are shown of a block.
const MOST_LINES: usize = 8;

/// The most characters of a line.
const MOST_CHARACTERS: usize = 64;

/// The graph of an entry point.
pub(super) struct Graph {
    /// The file and the entry point.
    pub(super) title: String,
    /// The functions that it calls, itself first.
    pub(super) functions: Vec<FunctionGraph>,
    /// Sentences about what the colors rest on.
    pub(super) notes: Vec<String>,
}

/// The graph of a function.
pub(super) struct FunctionGraph {
    /// Its name.
    pub(super) name: String,
    /// The blocks that control reaches, the first one first.
    pub(super) nodes: Vec<Node>,
    /// The branches.
    pub(super) edges: Vec<Edge>,
    /// Pairs of blocks of which the second is behind the loop that the first is the end of.
    pub(super) behind: Vec<(usize, usize)>,
}

/// A block.
pub(super) struct Node {
    /// The name of its label, with the lines of source.
    pub(super) title: String,
    /// The scope over which it is executed together.
    pub(super) scope: Uniformity,
    /// The instructions that are shown.
    pub(super) lines: Vec<Line>,
}

/// An instruction, or what is said of several.
pub(super) struct Line {
    /// The text.
    pub(super) text: String,
    /// The scope over which its value is the same, if it has one.
    pub(super) scope: Option<Uniformity>,
    /// True if the instruction must be executed together, or have the same operand everywhere, and may not.
    pub(super) wrong: bool,
    /// True if it counts other instructions.
    pub(super) other: bool,
}

/// A branch.
pub(super) struct Edge {
    /// The number of the node that it leaves.
    pub(super) from: usize,
    /// The number of the node that it leads to.
    pub(super) to: usize,
    /// The condition, in a word.
    pub(super) label: String,
    /// True if it leads back, to a block that comes before.
    pub(super) back: bool,
}

/// Returns the color of a scope.
pub(super) fn fill(scope: Uniformity) -> &'static str {
    match scope {
        Uniformity::Workgroup => "#cdebc8",
        Uniformity::Subgroup => "#fdeaa7",
        Uniformity::Divergent => "#f7c6b5",
    }
}

/// The colors with their meanings, for the legend.
pub(super) const LEGEND: [(Uniformity, &str, &str); 3] = [
    (
        Uniformity::Workgroup,
        "workgroup",
        "all invocations of a workgroup execute the block together; a value is the same in all",
    ),
    (
        Uniformity::Subgroup,
        "subgroup",
        "the invocations of each subgroup do; other subgroups may not, or have another value",
    ),
    (Uniformity::Divergent, "invocation", "invocations of a subgroup may part, or have different values"),
];

/// The choice of what is drawn.
pub(super) struct Choice<'a> {
    pub(super) entry: Option<&'a str>,
    pub(super) specialization: &'a Specialization,
    pub(super) subgroup_size: Option<u32>,
}

/// Writes the graph of an entry point of a module to a file: SVG, or DOT if the name ends with `.dot` or `.gv`.
pub(super) fn write(path: &Path, loaded: &Loaded, choice: &Choice<'_>) -> Result<(), FileError> {
    let graph = graph(loaded, choice)?;
    let dot = path.extension().is_some_and(|e| e == "dot" || e == "gv");
    let text = if dot { graph.dot() } else { drawing(&graph) };
    crate::io::write_bytes(path, text.as_bytes())
}

fn graph(loaded: &Loaded, choice: &Choice<'_>) -> Result<Graph, FileError> {
    let fail = |message: String| FileError { name: loaded.name.clone(), message };
    crate::io::make_sense(loaded)?;
    let m = &loaded.module;
    let constants = Constants::new(m, choice.specialization);
    let analyzer = Analyzer::new(m, &constants);
    let mut entries = analyzer.entry_points();
    let names: Vec<String> = entries.iter().map(|e| format!("'{}'", e.name)).collect();
    if let Some(name) = choice.entry {
        entries.retain(|e| e.name == name);
    }
    let entry = match entries.as_slice() {
        [one] => one,
        [] if names.is_empty() => return Err(fail("--graph: the module has no entry point".to_owned())),
        [] => {
            let name = choice.entry.unwrap_or_default();
            return Err(fail(format!("--graph: the module has no entry point '{name}', only {}", names.join(", "))));
        }
        _ => return Err(fail(format!("--graph draws one entry point: --entry NAME, of {}", names.join(", ")))),
    };
    let options = Options { subgroup_size: choice.subgroup_size, facts: true, ..Options::default() };
    let analysis = analyzer.analyze(entry, options).map_err(|refusal| {
        fail(match refusal {
            Refusal::Recursion(_) => {
                format!("--graph: functions of '{}' call themselves, and the analysis follows no recursion", entry.name)
            }
            Refusal::NoFunction => format!("--graph: the function of '{}' is not there", entry.name),
        })
    })?;
    let first = analyzer.calls().function(entry.function);
    let mut reached = analyzer.calls().reachable(first);
    reached.sort_by_key(|f| (Some(*f) != first, *f));
    let shown = Shown { m, names: Names::friendly(m), sources: sources::of(m), analysis: &analysis };
    let functions = reached.iter().map(|f| shown.function(&m.functions[*f])).filter(|f| !f.nodes.is_empty()).collect();
    let mut notes: Vec<String> = Vec::new();
    if analysis.exhausted {
        notes.push("The module is too large for the analysis: nothing counts as uniform.".to_owned());
    }
    if !analysis.defaults.is_empty() {
        let ids: Vec<String> = analysis.defaults.iter().map(|id| id.to_string()).collect();
        notes.push(format!("Constants with SpecId {} have their defaults.", ids.join(", ")));
    }
    let size = choice.subgroup_size.map_or("of unknown size".to_owned(), |size| format!("of {size} invocations"));
    notes.push(format!("Subgroups are {size} (--subgroup-size)."));
    Ok(Graph { title: format!("{}: {}", loaded.name, entry.name), functions, notes })
}

/// The sources of what is shown.
struct Shown<'a> {
    m: &'a Module,
    names: Names,
    sources: SourceMap,
    analysis: &'a Analysis,
}

impl Shown<'_> {
    fn function(&self, function: &Function) -> FunctionGraph {
        let cfg = Cfg::new(self.m, function);
        let name = self.m.inst(function.def).result.map_or_else(String::new, |id| format!("%{}", self.names.get(id)));
        // Blocks are numbered in the order in which control reaches them.
        let number = |block: usize| cfg.rpo().iter().position(|b| *b == block);
        let nodes = cfg.rpo().iter().map(|block| self.node(function, *block, &cfg)).collect();
        let mut edges: Vec<Edge> = Vec::new();
        for (from, block) in cfg.rpo().iter().enumerate() {
            for edge in cfg.edges(*block) {
                let Some(to) = number(edge.to) else { continue };
                let label = match edge.case {
                    Case::Always => String::new(),
                    Case::True => "true".to_owned(),
                    Case::False => "false".to_owned(),
                    Case::Value(value) => value.to_string(),
                    Case::Default => "default".to_owned(),
                    Case::Possible => "?".to_owned(),
                };
                match edges.iter_mut().find(|e| e.from == from && e.to == to) {
                    Some(same) => same.label = format!("{}, {label}", same.label),
                    None => edges.push(Edge { from, to, label, back: to <= from }),
                }
            }
        }
        let merge =
            |to: usize| cfg.merge(cfg.rpo()[to]).filter(|merge| merge.is_loop).and_then(|merge| number(merge.merge?));
        let loops = edges.iter().filter(|e| e.back);
        let behind = loops.filter_map(|e| Some((e.from, merge(e.to)?))).collect();
        FunctionGraph { name, nodes, edges, behind }
    }

    fn node(&self, function: &Function, block: usize, cfg: &Cfg) -> Node {
        let label = cfg.label(block);
        let name = label.map_or_else(String::new, |id| format!("%{}", self.names.get(id)));
        let insts = &function.blocks[block].insts;
        let title = match self.place(insts) {
            Some(place) => format!("{name}  {place}"),
            None => name,
        };
        let scope = label.map_or(Uniformity::Divergent, |label| self.analysis.block(label));
        let telling: Vec<InstRef> = insts.iter().copied().filter(|r| self.tells(*r)).collect();
        let mut lines: Vec<Line> = telling.iter().take(MOST_LINES).map(|r| self.line(*r)).collect();
        let others = insts.len() - lines.len();
        if others > 0 {
            let text = match others {
                1 => "1 other instruction".to_owned(),
                n => format!("{n} other instructions"),
            };
            let last = lines.len().saturating_sub(1);
            let at =
                if telling.last() == insts.last().filter(|_| telling.len() <= MOST_LINES) { last } else { lines.len() };
            lines.insert(at, Line { text, scope: None, wrong: false, other: true });
        }
        Node { title, scope, lines }
    }

    /// Returns true for instructions that uniformity matters for.
    fn tells(&self, r: InstRef) -> bool {
        let inst = self.m.inst(r);
        inst.op.is_matrix_instruction()
            || inst.op.is_control_barrier()
            || inst.callee().is_some()
            || inst.branch_condition().is_some()
            || self.is_wrong(r)
    }

    fn is_wrong(&self, r: InstRef) -> bool {
        self.analysis.divergences.iter().any(|d| d.at == r)
    }

    fn line(&self, r: InstRef) -> Line {
        let inst = self.m.inst(r);
        let mut text = inst_text(self.m, &self.names, r);
        if text.chars().count() > MOST_CHARACTERS {
            text = text.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect();
        }
        // Each invocation holds other elements of a matrix.
        let is_matrix = inst.ty.is_some_and(|ty| coop_mat(self.m, ty).is_some());
        let value = inst.branch_condition().or(inst.result).filter(|_| !is_matrix);
        Line { text, scope: value.map(|id| self.analysis.value(id)), wrong: self.is_wrong(r), other: false }
    }

    /// Returns the file and the lines of source that instructions come from.
    fn place(&self, insts: &[InstRef]) -> Option<String> {
        let places: Vec<_> = insts.iter().filter_map(|r| self.sources.location(*r)).filter(|l| l.line > 0).collect();
        let first = places.first()?;
        let lines = || places.iter().filter(|l| l.file == first.file).map(|l| l.line);
        let (from, to) = (lines().min()?, lines().max()?);
        let name = self.sources.file(*first).map_or("", |file| file.name());
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = if name.is_empty() { "line" } else { name };
        let separator = if name == "line" { " " } else { ":" };
        Some(if from == to { format!("{name}{separator}{from}") } else { format!("{name}{separator}{from}-{to}") })
    }
}

impl Graph {
    /// Returns the graph in Graphviz's language.
    fn dot(&self) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out = format!(
            "digraph \"{}\" {{\n  label=\"{0}\"; labelloc=t; fontname=\"monospace\";\n  \
             node [shape=box, style=filled, fontname=\"monospace\", fontsize=10];\n  edge [fontname=\"monospace\", fontsize=9];\n",
            quoted(&self.title)
        );
        for (f, function) in self.functions.iter().enumerate() {
            let _ = writeln!(out, "  subgraph cluster_{f} {{\n    label=\"{}\";", quoted(&function.name));
            for (n, node) in function.nodes.iter().enumerate() {
                let mut label = format!("{}\\l", quoted(&node.title));
                for line in &node.lines {
                    let mark = if line.wrong { "! " } else { "" };
                    let scope = line.scope.map_or_else(String::new, |scope| format!("  [{scope}]"));
                    let _ = write!(label, "{mark}{}{scope}\\l", quoted(&line.text));
                }
                let _ = writeln!(out, "    f{f}_{n} [fillcolor=\"{}\", label=\"{label}\"];", fill(node.scope));
            }
            for edge in &function.edges {
                let style = if edge.back { ", style=dashed" } else { "" };
                let (from, to, label) = (edge.from, edge.to, quoted(&edge.label));
                let _ = writeln!(out, "    f{f}_{from} -> f{f}_{to} [label=\"{label}\"{style}];");
            }
            out.push_str("  }\n");
        }
        out.push_str("  subgraph cluster_legend {\n    label=\"executed together, or the same, over\";\n");
        for (at, (scope, name, _)) in LEGEND.iter().enumerate() {
            let _ = writeln!(out, "    legend_{at} [fillcolor=\"{}\", label=\"{name}\"];", fill(*scope));
        }
        for (at, note) in self.notes.iter().enumerate() {
            let _ = writeln!(out, "    note_{at} [shape=plaintext, style=\"\", label=\"{}\"];", quoted(note));
        }
        out.push_str("  }\n}\n");
        out
    }
}
