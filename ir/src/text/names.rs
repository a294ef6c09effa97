//! The names of ids in text.

use super::number::{Number, push_u64};
use crate::grammar::{Kind, Op};
use crate::hash::FxHasher;
use crate::module::{Id, IdMap, Inst, Module, Operand};
use std::borrow::Cow;
use std::hash::Hasher;

/// The limit on names: names in debug information may be as long as an instruction, so without a limit a small file
/// could make an enormous text.
const MAX_NAME: usize = 200;

/// The limit on generated names for types, which consist of names of types.
const MAX_MADE_NAME: usize = 80;

/// A unique name for every id, made of ASCII letters, digits and `_`. An id without a name uses its number.
#[derive(Debug, Default)]
pub struct Names {
    text: String,
    /// The start and end in `text`.
    named: Option<IdMap<(u32, u32)>>,
}

impl Names {
    /// Every id uses its number.
    pub fn numeric() -> Names {
        Names::default()
    }

    /// Names from `OpName`, from built-in decorations, and for types and constants from their contents.
    pub fn friendly(module: &Module) -> Names {
        let mut maker = Maker {
            module,
            names: Names { text: String::new(), named: Some(module.id_map()) },
            taken: Taken::default(),
            numeric: None,
            scratch: String::new(),
        };
        module.all().map(|r| module.inst(r)).filter(|i| i.opaque).for_each(|inst| maker.keep_numbers(inst));
        for r in module.globals.iter().chain(&module.trailing) {
            maker.visit(module.inst(*r));
        }
        maker.names
    }

    /// Returns the name of `id`, without `%`.
    pub fn get(&self, id: Id) -> Cow<'_, str> {
        match self.name(id) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(id.get().to_string()),
        }
    }

    /// Returns the name of `id` if it has one other than its number.
    pub fn name(&self, id: Id) -> Option<&str> {
        let &(begin, end) = self.named.as_ref()?.get(id)?;
        Some(&self.text[begin as usize..end as usize])
    }

    /// Appends `%` and the name of `id`; returns the number of bytes.
    pub(super) fn push(&self, id: Id, out: &mut String) -> usize {
        let start = out.len();
        out.push('%');
        match self.name(id) {
            Some(name) => out.push_str(name),
            None => push_u64(out, u64::from(id.get())),
        }
        out.len() - start
    }
}

struct Maker<'a> {
    module: &'a Module,
    names: Names,
    taken: Taken,
    /// Ids that must use their number; `None` if there are none.
    numeric: Option<IdMap<()>>,
    scratch: String,
}

/// Names in use, as parts of [`Names::text`], in a hash table of their numbers.
#[derive(Default)]
struct Taken {
    all: Vec<Used>,
    /// One more than an index into `all`, or 0. The length is a power of two, and more than twice the number of names.
    slots: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Used {
    begin: u32,
    end: u32,
    hash: u32,
    /// The number to try next when the name is used again.
    next: u32,
}

impl Taken {
    /// Finds the name, or the slot for it.
    fn find(&self, text: &str, name: &str, hash: u32) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let Some(index) = (self.slots[at] as usize).checked_sub(1) else { return Err(at) };
            let used = self.all[index];
            if used.hash == hash && text[used.begin as usize..used.end as usize] == *name {
                return Ok(index);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, slot: usize, used: Used) {
        self.all.push(used);
        self.slots[slot] = self.all.len() as u32;
    }

    /// Makes room for one more.
    fn grow(&mut self) {
        if 2 * (self.all.len() + 1) < self.slots.len() {
            return;
        }
        let len = (2 * self.slots.len()).max(1024);
        self.slots = vec![0; len];
        for (i, used) in self.all.iter().enumerate() {
            let mut at = used.hash as usize & (len - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = i as u32 + 1;
        }
    }
}

fn hash(name: &str) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    let hash = hasher.finish();
    (hash ^ hash >> 32) as u32
}

impl Maker<'_> {
    /// Any word of an instruction that is not fully understood may be an id.
    fn keep_numbers(&mut self, inst: &Inst) {
        for o in &inst.operands {
            let &Operand::Word(w) = o else { continue };
            if let Some(id) = Id::new(w).filter(|_| w < self.module.header.bound) {
                let module = self.module;
                self.numeric.get_or_insert_with(|| module.id_map()).insert(id, ());
            }
        }
    }

    fn visit(&mut self, inst: &Inst) {
        match inst.op {
            Op::Name => {
                let Some(id) = inst.id(0) else { return };
                // Nearly all names are ASCII words.
                let mut name = std::mem::take(&mut self.scratch);
                name.clear();
                if plain_name(inst, &mut name) {
                    self.save(id, &name);
                } else if let Some((text, _)) = inst.string(1) {
                    self.save(id, &safe(&text, MAX_NAME));
                }
                self.scratch = name;
            }
            Op::Decorate => {
                if let (Some(id), Some(built_in)) = (inst.id(0), built_in(inst)) {
                    self.save(id, &safe(&built_in, MAX_NAME));
                }
            }
            _ => {
                let Some(id) = inst.result else { return };
                if self.has_name(id) {
                    return;
                }
                if inst.op.is_type() {
                    if let Some(name) = self.type_name(id, inst) {
                        self.save(id, &safe(&name, MAX_MADE_NAME));
                    }
                    return;
                }
                let mut name = std::mem::take(&mut self.scratch);
                name.clear();
                if self.constant_name(inst, &mut name) {
                    let made =
                        name.len() <= MAX_MADE_NAME && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                    if made {
                        self.save(id, &name);
                    } else {
                        self.save(id, &safe(&name.replace('-', "n"), MAX_MADE_NAME));
                    }
                }
                self.scratch = name;
            }
        }
    }

    fn has_name(&self, id: Id) -> bool {
        self.names.name(id).is_some()
    }

    /// Gives `id` this name or one derived from it, unless it has one or must not.
    fn save(&mut self, id: Id, name: &str) {
        if self.has_name(id) || self.numeric.as_ref().is_some_and(|n| n.get(id).is_some()) {
            return;
        }
        self.taken.grow();
        let (begin, mut code) = (self.names.text.len(), hash(name));
        self.names.text.push_str(name);
        let mut slot = self.taken.find(&self.names.text, name, code);
        if let Ok(base) = slot {
            let mut next = self.taken.all[base].next;
            while slot.is_ok() {
                self.names.text.truncate(begin + name.len());
                self.names.text.push('_');
                push_u64(&mut self.names.text, u64::from(next));
                next += 1;
                let made = &self.names.text[begin..];
                code = hash(made);
                slot = self.taken.find(&self.names.text, made, code);
            }
            self.taken.all[base].next = next;
        }
        // Names of more than 4 GB together would take an input of that size.
        let span = u32::try_from(begin).ok().zip(u32::try_from(self.names.text.len()).ok());
        if let (Some(named), Some((begin, end)), Err(slot)) = (self.names.named.as_mut(), span, slot) {
            self.taken.insert(slot, Used { begin, end, hash: code, next: 0 });
            named.insert(id, (begin, end));
        }
    }

    fn name_of(&self, id: Option<Id>) -> Option<Cow<'_, str>> {
        id.map(|id| self.names.get(id))
    }

    fn type_name(&self, id: Id, inst: &Inst) -> Option<String> {
        let word = |i| inst.word(i);
        let of = |i| self.name_of(inst.id(i));
        Some(match inst.op {
            Op::TypeVoid => "void".into(),
            Op::TypeBool => "bool".into(),
            Op::TypeInt => match (word(0)?, word(1)? != 0) {
                (8, true) => "char".into(),
                (8, false) => "uchar".into(),
                (16, true) => "short".into(),
                (16, false) => "ushort".into(),
                (32, true) => "int".into(),
                (32, false) => "uint".into(),
                (64, true) => "long".into(),
                (64, false) => "ulong".into(),
                (width, true) => format!("i{width}"),
                (width, false) => format!("u{width}"),
            },
            Op::TypeFloat => match (word(0)?, word(1)) {
                (16, None) => "half".into(),
                (32, None) => "float".into(),
                (64, None) => "double".into(),
                (16, Some(0)) => "bfloat16".into(),
                (8, Some(4214)) => "fp8e4m3".into(),
                (8, Some(4215)) => "fp8e5m2".into(),
                (width, None) => format!("fp{width}"),
                (width, Some(encoding)) => format!("fp{width}_{encoding}"),
            },
            Op::TypeVector => format!("v{}{}", word(1)?, of(0)?),
            Op::TypeMatrix => format!("mat{}{}", word(1)?, of(0)?),
            Op::TypeArray => format!("_arr_{}_{}", of(0)?, of(1)?),
            Op::TypeRuntimeArray => format!("_runtimearr_{}", of(0)?),
            Op::TypePointer => format!("_ptr_{}_{}", storage_class(word(0)?), of(1)?),
            Op::TypeUntypedPointerKHR => format!("_ptr_{}", storage_class(word(0)?)),
            Op::TypeStruct => format!("_struct_{}", id.get()),
            Op::TypeOpaque => format!("Opaque_{}", inst.string(0)?.0),
            Op::TypeSampler => "sampler".into(),
            Op::TypeEvent => "Event".into(),
            Op::TypeDeviceEvent => "DeviceEvent".into(),
            Op::TypeReserveId => "ReserveId".into(),
            Op::TypeQueue => "Queue".into(),
            Op::TypePipe => format!("Pipe{}", Kind::AccessQualifier.enumerant(word(0)?)?.name),
            Op::TypePipeStorage => "PipeStorage".into(),
            Op::TypeNamedBarrier => "NamedBarrier".into(),
            Op::TypeCooperativeMatrixKHR => {
                let shape =
                    format!("mat_{}_{}x{}", self.component(inst.id(0)?)?, self.size(inst, 2), self.size(inst, 3));
                let usage = match self.fixed(inst.id(4)) {
                    Some(0) => "_A",
                    Some(1) => "_B",
                    Some(2) => "_Acc",
                    _ => "",
                };
                format!("{shape}{usage}{}", self.scope(inst))
            }
            Op::TypeCooperativeMatrixNV => {
                let shape =
                    format!("nvmat_{}_{}x{}", self.component(inst.id(0)?)?, self.size(inst, 2), self.size(inst, 3));
                format!("{shape}{}", self.scope(inst))
            }
            Op::TypeTensorLayoutNV => format!("tensorLayout_{}d", self.size(inst, 0)),
            Op::TypeTensorViewNV => format!("tensorView_{}d", self.size(inst, 0)),
            _ => return None,
        })
    }

    /// The component distinguishes matrices, so these are short.
    fn component(&self, ty: Id) -> Option<String> {
        let inst = self.module.def_inst(ty)?;
        Some(match (inst.op, inst.word(0)?, inst.word(1)) {
            (Op::TypeFloat, width, None) => format!("f{width}"),
            (Op::TypeFloat, 16, Some(0)) => "bf16".into(),
            (Op::TypeFloat, 8, Some(4214)) => "e4m3".into(),
            (Op::TypeFloat, 8, Some(4215)) => "e5m2".into(),
            (Op::TypeInt, width, Some(0)) => format!("u{width}"),
            (Op::TypeInt, width, _) => format!("s{width}"),
            _ => self.names.get(ty).into_owned(),
        })
    }

    /// Returns the value of a constant that can't be specialized.
    fn fixed(&self, id: Option<Id>) -> Option<u32> {
        self.module.def_inst(id?).filter(|i| i.op == Op::Constant)?.word(0)
    }

    /// Returns the text of a number of rows, columns or dimensions: its value, or its name, or `n`.
    fn size(&self, inst: &Inst, operand: usize) -> String {
        let id = inst.id(operand);
        let named = || id.and_then(|id| self.names.name(id)).unwrap_or("n").to_owned();
        self.fixed(id).map_or_else(named, |n| n.to_string())
    }

    /// Returns the text for a matrix's scope. Nearly all matrices belong to a subgroup, for which it is empty.
    fn scope(&self, inst: &Inst) -> String {
        match self.fixed(inst.id(1)) {
            Some(3) | None => String::new(),
            Some(scope) => match Kind::Scope.enumerant(scope) {
                Some(e) => format!("_{}", e.name),
                None => format!("_scope{scope}"),
            },
        }
    }

    /// Appends the name of a constant; returns `false` (with anything appended) if it has none. Signs are kept.
    fn constant_name(&self, inst: &Inst, name: &mut String) -> bool {
        match inst.op {
            Op::ConstantTrue => name.push_str("true"),
            Op::ConstantFalse => name.push_str("false"),
            Op::Constant => {
                let ty = inst.ty.and_then(|ty| Some((self.names.name(ty)?, self.module.def_inst(ty)?)));
                let Some((number, of)) = ty.and_then(|(of, ty)| Some((Number::of_type(ty)?, of))) else { return false };
                name.push_str(of);
                name.push('_');
                let words: smallvec::SmallVec<[u32; 2]> = inst.operands.iter().map(|o| o.word()).collect();
                return number.print(&words, name);
            }
            _ => return false,
        }
        true
    }
}

fn storage_class(class: u32) -> Cow<'static, str> {
    match Kind::StorageClass.enumerant(class) {
        Some(e) => e.name.into(),
        None => format!("StorageClass{class}").into(),
    }
}

/// Returns the GLSL name of a decorated variable.
fn built_in(inst: &Inst) -> Option<String> {
    /// `Decoration BuiltIn`.
    const BUILT_IN: u32 = 11;
    let value = inst.word(2).filter(|_| inst.word(1) == Some(BUILT_IN))?;
    let name = Kind::BuiltIn.enumerant(value)?.name;
    let name = name.replace("workgroups", "WorkGroups").replace("Workgroup", "WorkGroup");
    Some(match name.strip_suffix("Id") {
        Some(stem) => format!("gl_{stem}ID"),
        None => format!("gl_{name}"),
    })
}

/// Appends the name of an `OpName`, if it is valid as it is: if [`safe`] would not change it.
fn plain_name(inst: &Inst, out: &mut String) -> bool {
    let bytes = inst.operands.iter().skip(1).flat_map(|o| o.word().to_le_bytes());
    let mut digits = true;
    for b in bytes {
        if b == 0 {
            return !digits;
        }
        if !(b.is_ascii_alphanumeric() || b == b'_') || out.len() == MAX_NAME {
            return false;
        }
        digits &= b.is_ascii_digit();
        out.push(char::from(b));
    }
    false
}

/// Returns the valid name closest to `wanted`, of at most `limit` letters, that is not a number.
fn safe(wanted: &str, limit: usize) -> String {
    let letters = wanted.bytes().take(limit);
    let mut name: String = letters.map(|b| if b.is_ascii_alphanumeric() { char::from(b) } else { '_' }).collect();
    if name.bytes().all(|b| b.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}
