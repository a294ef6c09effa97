//! Maps instructions to places in the shader's source.
//!
//! There are two kinds of debug information: `OpLine`/`OpNoLine` with `OpSource`, and the instructions of
//! `NonSemantic.Shader.DebugInfo` in any revision. A position holds from its instruction up to the next one, and ends
//! with its block. Variables and functions without such a position have the place of their debug information's
//! declaration. Missing or invalid information is skipped: an unknown place is never an error.

use crate::grammar::Op;
use crate::hash::FxHashMap;
use crate::module::{Id, IdMap, Inst, InstRef, Module};
use std::borrow::Cow;
use std::sync::Arc;

// Numbers of NonSemantic.Shader.DebugInfo.
const DEBUG_FUNCTION: u32 = 20;
const DEBUG_LOCAL_VARIABLE: u32 = 26;
const DEBUG_GLOBAL_VARIABLE: u32 = 18;
const DEBUG_DECLARE: u32 = 28;
const DEBUG_SOURCE: u32 = 35;
const DEBUG_FUNCTION_DEFINITION: u32 = 101;
const DEBUG_SOURCE_CONTINUED: u32 = 102;
const DEBUG_LINE: u32 = 103;
const DEBUG_NO_LINE: u32 = 104;

/// A place in the shader's source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// An index into [`SourceMap::files`].
    pub file: usize,
    /// The first line is 1; 0 is unknown.
    pub line: u32,
    /// The first column is 1; 0 is unknown, which is what glslang writes for most instructions.
    pub column: u32,
}

/// A source file that a module names.
#[derive(Clone, Debug)]
pub struct SourceFile {
    name: Arc<str>,
    /// The pieces of the text.
    parts: Vec<Arc<str>>,
}

impl SourceFile {
    /// Returns its name in the module, which may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its text, if the module has it or it was added.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let text = match &*self.parts {
            [] => return None,
            [one] => Cow::Borrowed(&**one),
            more => Cow::Owned(more.concat()),
        };
        let skip = preamble(&text);
        Some(match text {
            Cow::Borrowed(t) => Cow::Borrowed(&t[skip..]),
            Cow::Owned(t) => Cow::Owned(t[skip..].to_owned()),
        })
    }

    /// Returns one line of the text, without its end; the first line is 1.
    pub fn line(&self, line: u32) -> Option<String> {
        let index = (line as usize).checked_sub(1)?;
        self.text()?.lines().nth(index).map(str::to_owned)
    }
}

/// Returns the number of bytes that glslang put in front of the text: comments, then `#line 1`.
fn preamble(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        match line.trim_end() {
            "#line 1" => return at,
            comment if comment.starts_with("// OpModuleProcessed ") => {}
            _ => break,
        }
    }
    0
}

/// The source places of a module's instructions.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    /// By arena index; empty if no instruction has a place.
    places: Vec<Option<SourcePlace>>,
}

#[derive(Clone, Copy, Debug)]
struct SourcePlace {
    file: u32,
    line: u32,
    column: u32,
}

impl SourceMap {
    /// Reads the debug information of a module.
    pub fn new(module: &Module) -> SourceMap {
        let mut b = Builder {
            module,
            map: SourceMap::default(),
            strings: module.id_map(),
            has_strings: false,
            by_id: FxHashMap::default(),
            sets: module.id_map(),
            has_sets: false,
            part_target: None,
        };
        b.run();
        b.map
    }

    fn slot(&mut self, module: &Module, r: InstRef) -> &mut Option<SourcePlace> {
        if self.places.is_empty() {
            self.places = vec![None; module.arena_len()];
        }
        &mut self.places[r.index()]
    }

    /// Returns true if no instruction has a place.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the files that the module names.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Gives the files whose text the module lacks the text that `read` has for their names.
    pub fn add_texts(&mut self, mut read: impl FnMut(&str) -> Option<String>) {
        for file in self.files.iter_mut().filter(|file| file.parts.is_empty()) {
            file.parts.extend(read(&file.name).map(Arc::from));
        }
    }

    /// Returns the place of an instruction.
    pub fn location(&self, r: InstRef) -> Option<Location> {
        let p = (*self.places.get(r.index())?)?;
        Some(Location { file: p.file as usize, line: p.line, column: p.column })
    }

    /// Returns the file of a place.
    pub fn file(&self, location: Location) -> Option<&SourceFile> {
        self.files.get(location.file)
    }

    /// Returns `gemm.comp:12:5`, with the parts that are known.
    pub fn display(&self, location: Location) -> String {
        let mut text = self.file(location).map_or("", |f| f.name()).to_owned();
        for number in [location.line, location.column].into_iter().take_while(|n| *n != 0) {
            text = format!("{text}:{number}");
        }
        text
    }
}

struct Builder<'a> {
    module: &'a Module,
    map: SourceMap,
    /// The text of each `OpString`, shared by its uses.
    strings: IdMap<Arc<str>>,
    has_strings: bool,
    /// The files by their `OpString` or `DebugSource`.
    by_id: FxHashMap<Id, u32>,
    /// The imported debug information sets.
    sets: IdMap<()>,
    has_sets: bool,
    /// The file to which the next continuation belongs.
    part_target: Option<u32>,
}

impl Builder<'_> {
    fn run(&mut self) {
        let module = self.module;
        let mut current = None;
        for &r in &module.globals {
            self.visit(r, &mut current);
        }
        // Positions refer to strings or sources, which are outside of functions.
        if self.has_strings || self.has_sets {
            let functions = module.functions.iter().flat_map(|f| f.insts());
            functions.chain(module.trailing.iter().copied()).for_each(|r| self.visit(r, &mut current));
        }
        if self.has_sets {
            self.declarations();
        }
    }

    fn visit(&mut self, r: InstRef, current: &mut Option<SourcePlace>) {
        let module = self.module;
        let inst = module.inst(r);
        match inst.op {
            Op::String => {
                if let (Some(id), Some((text, _))) = (inst.result, inst.string(0)) {
                    self.strings.insert(id, text.into());
                    self.has_strings = true;
                }
            }
            Op::Source => self.source(inst),
            Op::SourceContinued => {
                if let (Some(file), Some((text, _))) = (self.part_target, inst.string(0)) {
                    self.map.files[file as usize].parts.push(text.into());
                }
            }
            Op::ExtInstImport => {
                let debug = inst.string(0).is_some_and(|(n, _)| n.starts_with("NonSemantic.Shader.DebugInfo."));
                if let Some(id) = inst.result.filter(|_| debug) {
                    self.sets.insert(id, ());
                    self.has_sets = true;
                }
            }
            Op::Line => *current = self.op_line(inst),
            Op::NoLine => *current = None,
            Op::ExtInst if inst.id(0).is_some_and(|set| self.sets.get(set).is_some()) => match inst.word(1) {
                Some(DEBUG_LINE) => *current = self.place(inst, 2, 3, 5),
                Some(DEBUG_NO_LINE) => *current = None,
                Some(DEBUG_SOURCE) => self.debug_source(inst),
                Some(DEBUG_SOURCE_CONTINUED) => {
                    let text = inst.id(2).and_then(|id| self.strings.get(id)).cloned();
                    if let (Some(file), Some(text)) = (self.part_target, text) {
                        self.map.files[file as usize].parts.push(text);
                    }
                }
                _ => {}
            },
            _ => {}
        }
        if current.is_some() {
            *self.map.slot(module, r) = *current;
        }
        if inst.op.is_terminator() || inst.op == Op::FunctionEnd {
            *current = None;
        }
    }

    /// Reads `OpSource language version file? text?`.
    fn source(&mut self, inst: &Inst) {
        let Some(id) = inst.id(2) else {
            self.part_target = None;
            return;
        };
        let file = self.file_of_string(id);
        self.part_target = file;
        if let (Some(file), Some((text, _))) = (file, inst.string(3)) {
            let parts = &mut self.map.files[file as usize].parts;
            // If several OpSource name a file, it has the text of the first one with a text.
            if parts.is_empty() { parts.push(text.into()) } else { self.part_target = None }
        }
    }

    fn op_line(&mut self, inst: &Inst) -> Option<SourcePlace> {
        let file = self.file_of_string(inst.id(0)?)?;
        Some(SourcePlace { file, line: inst.word(1)?, column: inst.word(2)? })
    }

    /// Reads `DebugSource file text?`.
    fn debug_source(&mut self, inst: &Inst) {
        self.part_target = None;
        let Some(name) = inst.id(2).and_then(|id| self.strings.get(id)).cloned() else { return };
        let text = inst.id(3).and_then(|id| self.strings.get(id)).cloned();
        let Some(id) = inst.result else { return };
        self.part_target = self.add_file(id, SourceFile { name, parts: text.into_iter().collect() });
    }

    fn file_of_string(&mut self, id: Id) -> Option<u32> {
        if let Some(file) = self.by_id.get(&id) {
            return Some(*file);
        }
        let name = self.strings.get(id)?.clone();
        self.add_file(id, SourceFile { name, parts: Vec::new() })
    }

    fn add_file(&mut self, id: Id, file: SourceFile) -> Option<u32> {
        let index = u32::try_from(self.map.files.len()).ok()?;
        self.map.files.push(file);
        self.by_id.insert(id, index);
        Some(index)
    }

    /// Returns the place in a debug instruction, whose operands are ids: of its source, and of constants.
    fn place(&self, inst: &Inst, source: usize, line: usize, column: usize) -> Option<SourcePlace> {
        let file = *self.by_id.get(&inst.id(source)?)?;
        Some(SourcePlace {
            file,
            line: self.constant(inst.id(line))?,
            column: self.constant(inst.id(column)).unwrap_or(0),
        })
    }

    fn constant(&self, id: Option<Id>) -> Option<u32> {
        self.module.def_inst(id?).filter(|i| i.op == Op::Constant)?.word(0)
    }

    /// Sets the places of variables and functions to those of their declarations.
    fn declarations(&mut self) {
        let module = self.module;
        for r in module.all() {
            let inst = module.inst(r);
            if inst.op != Op::ExtInst || inst.id(0).is_none_or(|set| self.sets.get(set).is_none()) {
                continue;
            }
            let described = |operand, number| {
                let inst = module.def_inst(inst.id(operand)?)?;
                (inst.op == Op::ExtInst && inst.word(1) == Some(number)).then_some(inst)
            };
            let pair = match inst.word(1) {
                Some(DEBUG_GLOBAL_VARIABLE) => inst.id(9).zip(Some(inst)),
                Some(DEBUG_DECLARE) => inst.id(3).zip(described(2, DEBUG_LOCAL_VARIABLE)),
                Some(DEBUG_FUNCTION_DEFINITION) => inst.id(3).zip(described(2, DEBUG_FUNCTION)),
                _ => None,
            };
            let Some((declared, description)) = pair else { continue };
            let target = module.def(declared).filter(|r| {
                matches!(
                    module.inst(*r).op,
                    Op::Variable | Op::UntypedVariableKHR | Op::Function | Op::FunctionParameter
                )
            });
            // Name, type, then the place: the operands are the same in all three kinds.
            if let (Some(target), Some(place)) = (target, self.place(description, 4, 5, 6)) {
                self.map.slot(module, target).get_or_insert(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_grammar() {
        let table = crate::grammar::ext_inst_set("NonSemantic.Shader.DebugInfo.100").expect("known");
        for (number, name) in [
            (DEBUG_FUNCTION, "DebugFunction"),
            (DEBUG_LOCAL_VARIABLE, "DebugLocalVariable"),
            (DEBUG_GLOBAL_VARIABLE, "DebugGlobalVariable"),
            (DEBUG_DECLARE, "DebugDeclare"),
            (DEBUG_SOURCE, "DebugSource"),
            (DEBUG_FUNCTION_DEFINITION, "DebugFunctionDefinition"),
            (DEBUG_SOURCE_CONTINUED, "DebugSourceContinued"),
            (DEBUG_LINE, "DebugLine"),
            (DEBUG_NO_LINE, "DebugNoLine"),
        ] {
            assert!(table.iter().any(|row| row.number == number && row.name == name), "{name}");
        }
    }

    #[test]
    fn what_glslang_puts_in_front() {
        let text =
            "// OpModuleProcessed client vulkan100\n// OpModuleProcessed entry-point main\n#line 1\n#version 460\n";
        assert_eq!(&text[preamble(text)..], "#version 460\n");
        assert_eq!(preamble("#version 460\n#line 1\n"), 0);
    }
}
