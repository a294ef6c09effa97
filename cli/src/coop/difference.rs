//! The difference of two modules: lines of text that one has and the other has not.

use super::align::{Matching, PATIENCE, align, operations};
use coop_ir::hash::FxHashMap;
use coop_ir::text::{Names, inst_text};
use coop_ir::{Id, InstRef, Module, Operand, binary};
use similar::DiffOp;
use std::fmt::Write;
use std::time::Instant;

/// A line of one module or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// In both.
    Both(String),
    /// In the first only.
    First(String),
    /// In the second only.
    Second(String),
}

/// A part of two modules: their headers, their globals, or a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// All its lines.
    pub lines: Vec<Line>,
}

impl Region {
    /// Returns the number of lines that only the first and only the second module have.
    pub fn changes(&self) -> [usize; 2] {
        let count = |is: fn(&Line) -> bool| self.lines.iter().filter(|line| is(line)).count();
        [count(|line| matches!(line, Line::First(_))), count(|line| matches!(line, Line::Second(_)))]
    }
}

/// The difference of two modules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// The parts in which they differ.
    pub regions: Vec<Region>,
}

/// Returns the difference of two modules. It is empty if one is the other with other numbers of ids.
pub fn difference(a: &Module, b: &Module) -> Difference {
    let until = Instant::now() + PATIENCE;
    let matching = align(a, b, until);
    let b = renumbered(a, b, &matching);
    let names = Display::new(a, &b);
    let mut regions = vec![header(a, &b)];
    regions.push(region("globals".to_owned(), [(a, &a.globals[..]), (&b, &b.globals[..])], &names, until));
    let order: Vec<usize> = matching.functions.iter().filter_map(|(_, g)| *g).collect();
    let moved = order.windows(2).any(|pair| pair[0] > pair[1]);
    for (f, g) in &matching.functions {
        let first: Vec<InstRef> = f.map(|f| a.functions[f].insts().collect()).unwrap_or_default();
        let second: Vec<InstRef> = g.map(|g| b.functions[g].insts().collect()).unwrap_or_default();
        let of = |m: &Module, at: Option<usize>| at.and_then(|at| m.inst(m.functions[at].def).result);
        let id = of(a, *f).or_else(|| of(&b, *g));
        let name = id.map_or_else(|| "function".to_owned(), |id| format!("function {}", names.name(id)));
        regions.push(region(name, [(a, &first), (&b, &second)], &names, until));
    }
    regions.push(region("end".to_owned(), [(a, &a.trailing[..]), (&b, &b.trailing[..])], &names, until));
    if moved {
        let list = |m: &Module, line: fn(String) -> Line| -> Vec<Line> {
            let ids = m.functions.iter().filter_map(|f| m.inst(f.def).result);
            ids.map(|id| line(format!("; {}", names.name(id)))).collect()
        };
        let lines = [list(a, Line::First), list(&b, Line::Second)].concat();
        regions.push(Region { name: "order of functions".to_owned(), lines });
    }
    regions.retain(|region| region.changes() != [0, 0]);
    Difference { regions }
}

/// Returns `b` with the ids of `a` where they are the same, and with new numbers for others.
fn renumbered(a: &Module, b: &Module, matching: &Matching) -> Module {
    let mut next = a.header.bound.max(1);
    let mut ids: FxHashMap<Id, Id> = FxHashMap::default();
    let mut number = |id: Id| {
        *ids.entry(id).or_insert_with(|| {
            matching.ids.get(&id).copied().unwrap_or_else(|| {
                next = next.saturating_add(1);
                Id::new(next - 1).unwrap_or(id)
            })
        })
    };
    let mut out = b.clone();
    for r in b.all() {
        let inst = out.inst_mut(r);
        inst.ty = inst.ty.map(&mut number);
        inst.result = inst.result.map(&mut number);
        for operand in &mut inst.operands {
            if let Operand::Id(id) = operand {
                *id = number(*id);
            }
        }
    }
    out.header.bound = next.max(b.header.bound);
    out.header.big_endian = false;
    // With an index of the new numbers.
    binary::read(&binary::write(&out)).unwrap_or(out)
}

/// The names of ids in both modules.
struct Display {
    names: [Names; 2],
    numbers: Names,
    /// Names of the second that the first has for something else.
    taken: FxHashMap<Id, String>,
}

impl Display {
    fn new(a: &Module, b: &Module) -> Display {
        let names = [Names::friendly(a), Names::friendly(b)];
        let defined = |m: &Module| m.all().filter_map(|r| m.inst(r).result).collect::<Vec<Id>>();
        let mut used: std::collections::BTreeSet<String> =
            defined(a).into_iter().map(|id| names[0].get(id).into_owned()).collect();
        let mut taken = FxHashMap::default();
        for id in defined(b).into_iter().filter(|id| a.def(*id).is_none()) {
            let mut name = names[1].get(id).into_owned();
            while !used.insert(name.clone()) {
                name.push('\'');
            }
            taken.insert(id, name);
        }
        Display { names, numbers: Names::numeric(), taken }
    }

    /// Returns the name of an id with its `%`.
    fn name(&self, id: Id) -> String {
        match self.taken.get(&id) {
            Some(name) => format!("%{name}"),
            None => format!("%{}", self.names[0].get(id)),
        }
    }

    /// Returns the text of an instruction.
    fn text(&self, m: &Module, r: InstRef) -> String {
        let plain = inst_text(m, &self.numbers, r);
        let (mut out, mut rest, mut quoted) = (String::new(), plain.as_str(), false);
        while let Some(at) = rest.find(['%', '"', '\\']) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let digits = from[1..].find(|c: char| !c.is_ascii_digit()).map_or(from.len(), |n| n + 1);
            let id = from[1..digits].parse().ok().and_then(Id::new).filter(|_| from.starts_with('%') && !quoted);
            if let Some(id) = id {
                out.push_str(&self.name(id));
                rest = &from[digits..];
                continue;
            }
            // An escape and what it is for.
            let length =
                if from.starts_with('\\') { from.char_indices().nth(2).map_or(from.len(), |c| c.0) } else { 1 };
            quoted ^= from.starts_with('"');
            out.push_str(&from[..length]);
            rest = &from[length..];
        }
        out.push_str(rest);
        out
    }
}

fn header(a: &Module, b: &Module) -> Region {
    let lines = |m: &Module| {
        let (major, minor) = m.header.version_pair();
        let (tool, version) = (m.header.generator >> 16, m.header.generator & 0xffff);
        [
            format!("; Version: {major}.{minor}"),
            format!("; Generator: {tool}; {version}"),
            format!("; Schema: {}", m.header.schema),
        ]
    };
    let mut out = Vec::new();
    for (first, second) in lines(a).into_iter().zip(lines(b)) {
        if first == second {
            out.push(Line::Both(first));
        } else {
            out.extend([Line::First(first), Line::Second(second)]);
        }
    }
    // Words of the version that are no version.
    if out.iter().all(|line| matches!(line, Line::Both(_))) && a.header.version != b.header.version {
        let line = |m: &Module| format!("; Version: {:#010x}", m.header.version);
        out.extend([Line::First(line(a)), Line::Second(line(b))]);
    }
    Region { name: "header".to_owned(), lines: out }
}

fn region(name: String, sides: [(&Module, &[InstRef]); 2], names: &Display, until: Instant) -> Region {
    let mut numbers: FxHashMap<Vec<u32>, u64> = FxHashMap::default();
    let keys = sides.map(|(m, refs)| -> Vec<u64> {
        let mut number = |r: &InstRef| {
            let inst = m.inst(*r);
            let id = |id: Option<Id>| id.map_or(0, Id::get);
            let own = [u32::from(inst.op.0), id(inst.ty), id(inst.result), u32::from(inst.opaque)];
            let operands = inst.operands.iter().flat_map(|o| [u32::from(o.id().is_some()), o.word()]);
            let next = numbers.len() as u64;
            *numbers.entry(own.into_iter().chain(operands).collect()).or_insert(next)
        };
        refs.iter().map(&mut number).collect()
    });
    let text = |side: usize, at: usize| names.text(sides[side].0, sides[side].1[at]);
    let mut lines = Vec::new();
    for op in operations(&keys[0], &keys[1], until) {
        let (_, old, new) = op.as_tag_tuple();
        if matches!(op, DiffOp::Equal { .. }) {
            lines.extend(old.map(|at| Line::Both(text(0, at))));
        } else {
            lines.extend(old.map(|at| Line::First(text(0, at))));
            lines.extend(new.map(|at| Line::Second(text(1, at))));
        }
    }
    Region { name, lines }
}

/// Returns the lines to print, and `None` where some are left out.
fn shown(lines: &[Line], context: usize) -> Vec<Option<&Line>> {
    let mut visible = vec![false; lines.len()];
    // All in front of it is decided.
    let mut decided = 0;
    for at in (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Both(_))) {
        let end = at.saturating_add(context).saturating_add(1).min(lines.len());
        visible[at.saturating_sub(context).max(decided).min(end)..end].fill(true);
        decided = end;
    }
    let mut out = Vec::new();
    for (line, visible) in lines.iter().zip(visible) {
        if visible {
            out.push(Some(line));
        } else if out.last().is_none_or(Option::is_some) {
            out.push(None);
        }
    }
    out
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

impl Difference {
    /// Returns true if the modules are the same.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the number of lines that only the first and only the second module have.
    pub fn changes(&self) -> [usize; 2] {
        self.regions.iter().map(Region::changes).fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]])
    }

    /// Returns the text with the lines of the first module marked by `-` and those of the second by `+`, below `heads`, with
    /// `context` lines around each change.
    pub fn unified(&self, heads: [&str; 2], context: usize, color: bool) -> String {
        let mut out = String::new();
        let mut line = |style: &str, text: &str| {
            let _ = if color { writeln!(out, "{style}{text}{PLAIN}") } else { writeln!(out, "{text}") };
        };
        line(RED, &format!("--- {}", heads[0]));
        line(GREEN, &format!("+++ {}", heads[1]));
        for region in &self.regions {
            let [removed, added] = region.changes();
            line(CYAN, &format!("@@ {}: -{removed} +{added}", region.name));
            for shown in shown(&region.lines, context) {
                match shown {
                    None => line(CYAN, " ..."),
                    Some(Line::Both(text)) => line("", &format!(" {text}")),
                    Some(Line::First(text)) => line(RED, &format!("-{text}")),
                    Some(Line::Second(text)) => line(GREEN, &format!("+{text}")),
                }
            }
        }
        out
    }

    /// Returns the text with both modules beside each other, in so many columns: `<` marks lines of the first, `>` those of the
    /// second, `|` those that have another in their place.
    pub fn side_by_side(&self, heads: [&str; 2], context: usize, width: usize, color: bool) -> String {
        let half = (width - 3) / 2;
        let cut = |text: &str| -> String {
            if text.chars().count() <= half {
                return format!("{text:<half$}");
            }
            text.chars().take(half - 1).chain(['…']).collect()
        };
        let mut out = String::new();
        let mut row = |style: &str, left: &str, mark: char, right: &str| {
            let text = format!("{} {mark} {}", cut(left), cut(right));
            let text = text.trim_end();
            let _ = if color && !style.is_empty() {
                writeln!(out, "{style}{text}{PLAIN}")
            } else {
                writeln!(out, "{text}")
            };
        };
        row("", heads[0], ' ', heads[1]);
        for region in &self.regions {
            let [removed, added] = region.changes();
            row(CYAN, &format!("@@ {}: -{removed} +{added}", region.name), ' ', "");
            let (mut first, mut second): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
            let changed =
                |row: &mut dyn FnMut(&str, &str, char, &str), first: &mut Vec<&str>, second: &mut Vec<&str>| {
                    for at in 0..first.len().max(second.len()) {
                        match (first.get(at), second.get(at)) {
                            (Some(left), Some(right)) => row(CYAN, left, '|', right),
                            (Some(left), None) => row(RED, left, '<', ""),
                            (None, right) => row(GREEN, "", '>', right.copied().unwrap_or_default()),
                        }
                    }
                    first.clear();
                    second.clear();
                };
            for shown in shown(&region.lines, context) {
                match shown {
                    Some(Line::First(text)) => {
                        if !second.is_empty() {
                            changed(&mut row, &mut first, &mut second);
                        }
                        first.push(text);
                    }
                    Some(Line::Second(text)) => second.push(text),
                    Some(Line::Both(text)) => {
                        changed(&mut row, &mut first, &mut second);
                        row("", text, ' ', text);
                    }
                    None => {
                        changed(&mut row, &mut first, &mut second);
                        row(CYAN, "...", ' ', "...");
                    }
                }
            }
            changed(&mut row, &mut first, &mut second);
        }
        out
    }
}
