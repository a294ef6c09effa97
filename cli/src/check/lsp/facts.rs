//! Facts about the value under the cursor: its type, and which invocations agree on it; and the places that a finding comes from.

use super::checked::{Checked, Module};
use super::lines;
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::types::{Type, coop_mat_of};
use coop_ir::{Id, InstRef, Op, pointers};
use coop_uniformity::{Analysis, Analyzer, Options, Step, Uniformity};
use coop_validate::Part;
use lsp_types::{DiagnosticRelatedInformation, Hover, HoverContents, Location, MarkupContent, MarkupKind, Position};

/// The most values of a line that the analysis is asked about.
const MOST_VALUES: usize = 8;

impl Checked {
    /// Returns the facts about the word at a position.
    pub(super) fn hover(&self, text: &str, at: Position) -> Option<Hover> {
        let module = self.module.as_ref()?;
        let (word, range) = lines::word_at(text, at)?;
        let (ids, values) = if module.places.is_assembly() {
            let id = module.assembly_id(text, word)?;
            (vec![id], vec![id])
        } else {
            let ids = module.named(word);
            let values = module.values_on(text, at.line, &ids);
            (ids, values)
        };
        let constants = Constants::new(&module.loaded.module, &module.options.specialization);
        let ty = ids.iter().find_map(|id| module.type_of(&constants, *id));
        // The elements of a matrix differ always; what counts is who executes the instruction.
        let is_matrix = values.iter().any(|id| coop_mat_of(&module.loaded.module, *id).is_some());
        let mut said: Vec<String> = ty.map(|ty| format!("`{word}`: {ty}")).into_iter().collect();
        if is_matrix {
            said.extend(module.execution(&constants, text, at.line));
        } else {
            said.extend(module.uniformity(&constants, text, &values));
        }
        let value = (!said.is_empty()).then(|| said.join("\n\n"))?;
        let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
        Some(Hover { contents, range: Some(range) })
    }

    /// Returns the places that decide about the findings of a line, the branch first; in assembly without findings, the
    /// definition of the id.
    pub(super) fn definition(&self, text: &str, at: Position) -> Option<Vec<Location>> {
        let about =
            |line: u32| move |related: &&DiagnosticRelatedInformation| related.location.range.start.line != line;
        let of_findings: Vec<Location> = self
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.range.start.line == at.line)
            .flat_map(|diagnostic| diagnostic.related_information.iter().flatten().filter(about(at.line)))
            .map(|related| related.location.clone())
            .collect();
        if !of_findings.is_empty() {
            return Some(of_findings);
        }
        let module = self.module.as_ref().filter(|module| module.places.is_assembly())?;
        let id = module.assembly_id(text, lines::word_at(text, at)?.0)?;
        let defined = module.loaded.module.def(id)?;
        Some(vec![module.places.of(&module.loaded, text, defined, Part::Result)?.0])
    }
}

impl Module {
    /// Returns the ids that have a name.
    fn named(&self, name: &str) -> Vec<Id> {
        let m = &self.loaded.module;
        let names = m.globals_with(Op::Name).map(|r| m.inst(r));
        names.filter(|i| i.string(1).is_some_and(|(text, _)| text == name)).filter_map(|i| i.note_target()).collect()
    }

    /// Returns the id that a word of assembly stands for: the result of the line that defines it.
    fn assembly_id(&self, text: &str, word: &str) -> Option<Id> {
        let defines =
            |line: &str| line.trim_start().strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with('='));
        let line = text.lines().position(defines)? as u32;
        let m = &self.loaded.module;
        m.all().find(|r| self.places.own_line(text, *r) == Some(line)).and_then(|r| m.inst(r).result)
    }

    /// Returns the values that a line reads from variables or writes to them, and that it defines under these ids.
    fn values_on(&self, text: &str, line: u32, ids: &[Id]) -> Vec<Id> {
        let m = &self.loaded.module;
        let is_of = |pointer: Option<Id>| {
            pointer.and_then(|p| pointers::root(m, p, Op::derives_pointer)).is_some_and(|root| ids.contains(&root))
        };
        let value = |r: InstRef| {
            let i = m.inst(r);
            match i.op {
                Op::Load => i.result.filter(|_| is_of(i.accessed())),
                Op::Store => i.stored().filter(|_| is_of(i.accessed())),
                _ => i.result.filter(|id| ids.contains(id)),
            }
        };
        let mut values: Vec<Id> = m
            .functions
            .iter()
            .flat_map(|f| f.insts())
            .filter(|r| self.places.own_line(text, *r) == Some(line))
            .filter_map(value)
            .collect();
        values.sort_unstable();
        values.dedup();
        values.truncate(MOST_VALUES);
        values
    }

    /// Returns the type of a value, or of what a pointer points to.
    fn type_of(&self, constants: &Constants, id: Id) -> Option<String> {
        let ty = self.loaded.module.type_of(id)?;
        match Type::of(&self.loaded.module, ty)? {
            Type::Pointer { pointee, .. } => self.describe(constants, pointee, 4),
            _ => self.describe(constants, ty, 4),
        }
    }

    /// Returns the description of a type of matrices or numbers.
    fn describe(&self, constants: &Constants, ty: Id, depth: u32) -> Option<String> {
        let m = &self.loaded.module;
        let depth = depth.checked_sub(1)?;
        Some(match Type::of(m, ty)? {
            Type::CoopMat(matrix) => format!("matrix {}", matrix.view(m, constants)),
            Type::Bool => "bool".to_owned(),
            Type::Scalar(scalar) => scalar.to_string(),
            Type::Vector { elem, len } => format!("vector of {len} {}", self.describe(constants, elem, depth)?),
            Type::Array { elem, len } => {
                format!("array of {}, each {}", constants.get(len), self.describe(constants, elem, depth)?)
            }
            Type::RuntimeArray { elem } => format!("array, each {}", self.describe(constants, elem, depth)?),
            _ => return None,
        })
    }

    /// Says which invocations execute a line together.
    fn execution(&self, constants: &Constants, text: &str, line: u32) -> Option<String> {
        let m = &self.loaded.module;
        let is_there = |r: &InstRef| self.places.own_line(text, *r) == Some(line);
        let blocks = m.functions.iter().flat_map(|f| &f.blocks).filter(|block| block.insts.iter().any(is_there));
        let labels: Vec<Id> = blocks.filter_map(|block| m.inst(block.label).result).collect();
        let analyzer = Analyzer::new(m, constants);
        let options = Options { facts: true, ..self.subgroups() };
        let entries = entry_points(m, &Decorations::new(m));
        let known = entries.iter().filter_map(|entry| analyzer.analyze(entry, options).ok());
        let of = |analysis: Analysis| labels.iter().map(|label| analysis.block(*label)).max();
        let text = match known.filter_map(of).max()? {
            Uniformity::Workgroup => "executed by all invocations of a workgroup together",
            Uniformity::Subgroup => "executed by all invocations of a subgroup together",
            Uniformity::Divergent => "may be executed by a part of a subgroup",
        };
        Some(text.to_owned())
    }

    /// The options of an analysis of uniformity, without facts.
    fn subgroups(&self) -> Options {
        Options { subgroup_size: self.options.subgroup_size, ..Options::default() }
    }

    /// Says which invocations agree on the least uniform of values, and why no more do.
    fn uniformity(&self, constants: &Constants, text: &str, values: &[Id]) -> Option<String> {
        let m = &self.loaded.module;
        let analyzer = Analyzer::new(m, constants);
        let entries = entry_points(m, &Decorations::new(m));
        let asked = entries.iter().flat_map(|entry| values.iter().map(move |id| (entry, *id)));
        let known = asked.filter_map(|(entry, id)| analyzer.explain(entry, self.subgroups(), id).ok());
        let (uniformity, chain) = known.max_by_key(|(uniformity, _)| *uniformity)?;
        let agree = match uniformity {
            Uniformity::Workgroup => "the same for all invocations of a workgroup",
            Uniformity::Subgroup => "the same for all invocations of a subgroup, may differ between subgroups",
            Uniformity::Divergent => "may differ between any two invocations",
        };
        let step = |step: &Step| match self.places.of(&self.loaded, text, step.at, Part::Whole) {
            Some((location, true)) => format!("\n- line {}: {}", location.range.start.line + 1, step.text),
            _ => format!("\n- {}", step.text),
        };
        Some(chain.iter().fold(agree.to_owned(), |said, one| said + &step(one)))
    }
}
