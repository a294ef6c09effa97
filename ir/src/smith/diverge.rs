//! Modules for those who tell uniform from divergent: random control flow, of all kinds of conditions, around matrix
//! instructions and barriers, uniform or not.
//!
//! What is true of every module that [`diverge`] gives:
//!
//! 1. It is valid SPIR-V, and every loop ends.
//! 2. Nothing is read that was not written, no access leaves its object, no number is divided by zero. But matrix
//!    instructions and barriers may be executed by parts of their scope, their operands may differ, and shared memory
//!    may be raced for: that is what the modules are for.
//! 3. The same entropy gives the same module. Less entropy gives a simpler one.
//!
//! Constructs are those that front ends make and some that they don't: merge blocks behind the point where the ways of
//! a branch meet, cases that fall through, loops that are left by their last block or by breaks only, returns from
//! inside of everything.

use super::entropy::Entropy;
use crate::module::Module;
use crate::text;
use std::fmt::Write;

/// How many words each of the two buffers of numbers has.
pub const WORDS: u32 = 256;
/// How many words the push constants have.
pub const PUSH_WORDS: u32 = 4;

/// A module and what it must be run with: a buffer of [`WORDS`] words at binding 0, that is only read, one at binding
/// 1, one of 4096 floats at binding 2, and [`PUSH_WORDS`] words of push constants.
#[derive(Clone, Debug)]
pub struct Diverging {
    /// The module.
    pub module: Module,
    /// The size of a workgroup.
    pub local_size: [u32; 3],
    /// How many bytes of entropy decided; more change nothing.
    pub used: usize,
}

/// Makes a module.
pub fn diverge(entropy: &[u8]) -> Diverging {
    let mut g = Gen::new(entropy);
    let source = g.run();
    let module = text::parse(&source).unwrap_or_else(|e| unreachable!("the generator makes no sense: {e}\n{source}"));
    Diverging { module, local_size: g.size, used: g.e.used() }
}

/// How deep control flow and expressions nest.
const MAX_DEPTH: u32 = 4;
const MAX_TERMS: u32 = 3;

/// Where control can go from inside of a construct.
#[derive(Clone)]
struct Around {
    /// The merge block of the innermost loop or switch, to break to.
    leave: Option<String>,
    /// The continue target of the innermost loop.
    again: Option<String>,
}

struct Gen<'a> {
    e: Entropy<'a>,
    size: [u32; 3],
    next: u32,
    /// The functions that are done.
    functions: String,
    /// The one that is being made: its body, without variables, and its variables.
    body: String,
    locals: String,
    /// The block that is being made.
    label: String,
    around: Around,
    depth: u32,
    statements: u32,
    /// Whether it returns a number.
    returns: bool,
    /// Numbers that are the same in all blocks from here on: parameters, counters of loops.
    known: Vec<String>,
    /// Functions that can be called.
    callees: Vec<String>,
}

impl<'a> Gen<'a> {
    fn new(entropy: &'a [u8]) -> Gen<'a> {
        let mut e = Entropy::new(entropy);
        let size = e.pick(&[[32, 1, 1], [64, 1, 1], [16, 4, 1], [8, 4, 2], [32, 2, 1], [4, 16, 1], [64, 2, 1]]);
        Gen {
            e,
            size,
            next: 0,
            functions: String::new(),
            body: String::new(),
            locals: String::new(),
            label: String::new(),
            around: Around { leave: None, again: None },
            depth: 0,
            statements: 0,
            returns: false,
            known: Vec::new(),
            callees: Vec::new(),
        }
    }

    fn run(&mut self) -> String {
        let helpers = self.e.below(3);
        for i in 0..helpers {
            self.statements = 1 + self.e.below(5);
            self.function(&format!("f{i}"));
        }
        self.statements = 2 + self.e.below(14);
        self.main();
        let mut out = String::new();
        let mode = self.e.pick(&["", "", "SubgroupUniformControlFlowKHR"]);
        header(&mut out, self.size, mode);
        out.push_str(&self.functions);
        out
    }

    fn id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("%{kind}{}", self.next)
    }

    fn put(&mut self, line: &str) {
        self.body.push_str(line);
        self.body.push('\n');
    }

    /// An instruction with a result.
    fn op(&mut self, text: &str) -> String {
        let id = self.id("v");
        self.put(&format!("{id} = {text}"));
        id
    }

    fn start(&mut self, label: &str) {
        self.put(&format!("{label} = OpLabel"));
        self.label = label.to_owned();
    }

    fn branch(&mut self, to: &str) {
        self.put(&format!("OpBranch {to}"));
    }

    // Functions.

    fn begin(&mut self) {
        self.body.clear();
        self.locals.clear();
        self.known.clear();
        self.around = Around { leave: None, again: None };
        self.depth = 0;
        for i in 0..4 {
            self.next += 1;
            let _ = writeln!(self.locals, "%x{i}_{} = OpVariable %ptr_f_uint Function %c{i}", self.next);
        }
    }

    /// The name of a variable of the function.
    fn variable(&mut self) -> String {
        let n = self.e.below(6);
        match n {
            0..=3 => {
                let line = self.locals.lines().nth(n as usize).unwrap_or_default();
                line.split(' ').next().unwrap_or_default().to_owned()
            }
            4 => "%private".into(),
            _ => {
                let i = self.e.below(4);
                self.op(&format!("OpAccessChain %ptr_p_uint %privates %c{i}"))
            }
        }
    }

    fn finish(&mut self, head: &str, entry: &str) {
        let _ = write!(self.functions, "{head}{entry} = OpLabel\n{}{}OpFunctionEnd\n", self.locals, self.body);
        self.body.clear();
    }

    fn function(&mut self, name: &str) {
        self.begin();
        self.returns = true;
        let (a, p) = (self.id("a"), self.id("p"));
        self.known.push(a.clone());
        let entry = self.id("entry");
        self.label.clone_from(&entry);
        let read = self.op(&format!("OpLoad %uint {p}"));
        self.known.push(read);
        self.list();
        let value = self.number(2);
        self.put(&format!("OpStore {p} {value}"));
        let value = self.number(2);
        self.put(&format!("OpReturnValue {value}"));
        let head = format!(
            "%{name} = OpFunction %uint None %fn_uint\n{a} = OpFunctionParameter %uint\n{p} = OpFunctionParameter %ptr_f_uint\n"
        );
        self.finish(&head, &entry);
        self.callees.push(name.to_owned());
    }

    fn main(&mut self) {
        self.begin();
        self.returns = false;
        let entry = self.id("entry");
        self.label.clone_from(&entry);
        for (name, ty) in [("m", "mat"), ("w", "wmat")] {
            let _ = writeln!(self.locals, "%var_{name} = OpVariable %ptr_f_{ty} Function %{ty}_one");
        }
        self.list();
        let m = self.op("OpLoad %mat %var_m");
        self.store_matrix(&m);
        self.put("OpReturn");
        self.finish("%main = OpFunction %void None %fn_void\n", &entry);
    }

    // Statements.

    /// Statements until there are none left, or the entropy has it.
    fn list(&mut self) {
        loop {
            if self.statements == 0 {
                return;
            }
            self.statements -= 1;
            self.statement();
            if self.depth > 0 && self.e.chance(90) {
                return;
            }
        }
    }

    fn statement(&mut self) {
        match self.e.below(20) {
            0..=4 => self.matrix(),
            5..=7 => self.assign(),
            8..=11 if self.depth < MAX_DEPTH => self.selection(),
            12..=14 if self.depth < MAX_DEPTH => self.repeat(),
            15 if self.depth < MAX_DEPTH => self.switch(),
            16 => self.shared(),
            17 => {
                let scope = self.e.pick(&["%c2", "%c2", "%c3"]);
                self.put(&format!("OpControlBarrier {scope} {scope} %c264"));
            }
            18 => self.call(),
            _ => self.jump(),
        }
    }

    fn assign(&mut self) {
        let value = self.number(MAX_TERMS);
        let to = self.variable();
        self.put(&format!("OpStore {to} {value}"));
    }

    fn call(&mut self) {
        if self.callees.is_empty() {
            return self.assign();
        }
        let which = self.e.below(self.callees.len() as u32) as usize;
        let name = self.callees[which].clone();
        let argument = self.number(2);
        let line = self.locals.lines().next().unwrap_or_default();
        let pointer = line.split(' ').next().unwrap_or_default().to_owned();
        let result = self.op(&format!("OpFunctionCall %uint %{name} {argument} {pointer}"));
        let to = self.variable();
        self.put(&format!("OpStore {to} {result}"));
    }

    /// A matrix instruction, of a subgroup as a rule.
    fn matrix(&mut self) {
        let ty = if self.e.chance(60) { "wmat" } else { "mat" };
        match self.e.below(6) {
            0 => {
                let at = self.place();
                let stride = self.stride();
                let m = self.op(&format!("OpCooperativeMatrixLoadKHR %{ty} {at} %c0 {stride}"));
                self.keep(&m, ty);
            }
            1 => {
                let m = self.matrix_value(ty);
                self.store_matrix(&m);
            }
            2 => {
                let (a, b) = (self.matrix_value(ty), self.matrix_value(ty));
                let m = self.op(&format!("OpFAdd %{ty} {a} {b}"));
                self.keep(&m, ty);
            }
            3 => {
                let n = self.number(2);
                let f = self.op(&format!("OpConvertUToF %float {n}"));
                let m = self.op(&format!("OpCompositeConstruct %{ty} {f}"));
                self.keep(&m, ty);
            }
            4 => {
                let (n, a) = (self.number(2), self.matrix_value(ty));
                let f = self.op(&format!("OpConvertUToF %float {n}"));
                let m = self.op(&format!("OpMatrixTimesScalar %{ty} {a} {f}"));
                self.keep(&m, ty);
            }
            _ => {
                let m = self.matrix_value(ty);
                let x = self.op(&format!("OpCompositeExtract %float {m} 0"));
                let n = self.op(&format!("OpConvertFToU %uint {x}"));
                let n = self.op(&format!("OpBitwiseAnd %uint {n} %c7"));
                let to = self.variable();
                self.put(&format!("OpStore {to} {n}"));
            }
        }
    }

    fn matrix_value(&mut self, ty: &str) -> String {
        if self.returns || self.e.chance(128) {
            format!("%{ty}_one")
        } else {
            self.op(&format!("OpLoad %{ty} %var_{}", if ty == "mat" { "m" } else { "w" }))
        }
    }

    fn keep(&mut self, m: &str, ty: &str) {
        // Functions have no matrix variables.
        if !self.returns {
            self.put(&format!("OpStore %var_{} {m}", if ty == "mat" { "m" } else { "w" }));
        }
    }

    fn store_matrix(&mut self, m: &str) {
        let at = self.place();
        let stride = self.stride();
        self.put(&format!("OpCooperativeMatrixStoreKHR {at} {m} %c0 {stride}"));
    }

    /// A pointer into the buffer of floats, far enough from its end.
    fn place(&mut self) -> String {
        let index = if self.e.chance(140) {
            "%c0".into()
        } else {
            let n = self.number(2);
            self.op(&format!("OpBitwiseAnd %uint {n} %c255"))
        };
        self.op(&format!("OpAccessChain %ptr_b_float %floats %c0 {index}"))
    }

    fn stride(&mut self) -> String {
        if self.e.chance(200) {
            return "%c16".into();
        }
        let n = self.number(2);
        let n = self.op(&format!("OpBitwiseAnd %uint {n} %c15"));
        self.op(&format!("OpIAdd %uint {n} %c16"))
    }

    /// A write of shared memory or of a buffer.
    fn shared(&mut self) {
        let value = self.number(2);
        let (index, mask) = (self.number(1), self.e.pick(&["%c63", "%c63", "%c255"]));
        let index = self.op(&format!("OpBitwiseAnd %uint {index} {mask}"));
        let to = match mask {
            "%c63" => self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}")),
            _ => self.op(&format!("OpAccessChain %ptr_b_uint %out %c0 {index}")),
        };
        self.put(&format!("OpStore {to} {value} NonPrivatePointer"));
    }

    fn jump(&mut self) {
        if self.depth == 0 && !self.e.chance(60) {
            return self.assign();
        }
        // Under a condition, so that what follows can be reached.
        let condition = self.condition();
        let (yes, merge) = (self.id("yes"), self.id("merge"));
        self.put(&format!("OpSelectionMerge {merge} None"));
        self.put(&format!("OpBranchConditional {condition} {yes} {merge}"));
        self.start(&yes);
        self.away();
        self.start(&merge);
    }

    /// Ends a block with a break, a continue or a return.
    fn away(&mut self) {
        let Around { leave, again } = self.around.clone();
        match (self.e.below(3), leave, again) {
            (0, Some(leave), _) => self.branch(&leave),
            (1, _, Some(again)) => self.branch(&again),
            _ => self.leave_function(),
        }
    }

    fn leave_function(&mut self) {
        if self.returns {
            let value = self.number(1);
            self.put(&format!("OpReturnValue {value}"));
        } else {
            self.put("OpReturn");
        }
    }

    /// Statements that end in a branch to `to`, or elsewhere.
    fn arm(&mut self, to: &str) {
        let known = self.known.len();
        self.depth += 1;
        self.list();
        self.depth -= 1;
        self.known.truncate(known);
        if self.e.chance(20) && self.depth > 0 { self.away() } else { self.branch(to) }
    }

    fn selection(&mut self) {
        let condition = self.condition();
        let [yes, no, merge, join] = std::array::from_fn(|_| self.id("b"));
        // Sometimes the merge block comes later than the point where both ways meet.
        let late = self.e.chance(40);
        let both = self.e.chance(128);
        let meet = if late { &join } else { &merge };
        self.put(&format!("OpSelectionMerge {merge} None"));
        let otherwise = if both { &no } else { meet };
        self.put(&format!("OpBranchConditional {condition} {yes} {otherwise}"));
        self.start(&yes);
        self.arm(meet);
        if both {
            self.start(&no);
            self.arm(meet);
        }
        if late {
            self.start(&join);
            self.arm(&merge);
        }
        self.start(&merge);
    }

    fn switch(&mut self) {
        let n = self.number(2);
        let selector = self.op(&format!("OpBitwiseAnd %uint {n} %c3"));
        let merge = self.id("merge");
        let cases = 1 + self.e.below(3);
        let labels: Vec<String> = (0..=cases).map(|_| self.id("case")).collect();
        self.put(&format!("OpSelectionMerge {merge} None"));
        let targets: String = labels.iter().skip(1).enumerate().map(|(i, l)| format!(" {i} {l}")).collect();
        self.put(&format!("OpSwitch {selector} {}{targets}", labels[0]));
        let outer = self.around.clone();
        self.around.leave = Some(merge.clone());
        for i in 0..labels.len() {
            self.start(&labels[i].clone());
            // A case may fall through into the next; the default is none.
            let falls = i > 0 && self.e.chance(90);
            let next = labels.get(i + 1).filter(|_| falls).unwrap_or(&merge).clone();
            self.arm(&next);
        }
        self.around = outer;
        self.start(&merge);
    }

    /// A loop of at most a few rounds.
    fn repeat(&mut self) {
        let limit = self.e.pick(&["%c1", "%c2", "%c3", "%c4", "%c5"]);
        let shape = self.e.below(4);
        let [header, check, body, next, merge] = std::array::from_fn(|_| self.id("l"));
        let [count, more] = std::array::from_fn(|_| self.id("n"));
        let before = self.label.clone();
        self.branch(&header);
        self.start(&header);
        self.put(&format!("{count} = OpPhi %uint %c0 {before} {more} {next}"));
        self.put(&format!("OpLoopMerge {merge} {next} None"));
        let known = self.known.len();
        self.known.push(count.clone());
        let outer =
            std::mem::replace(&mut self.around, Around { leave: Some(merge.clone()), again: Some(next.clone()) });
        self.branch(&check);
        self.start(&check);
        let fewer = self.op(&format!("OpULessThan %bool {count} {limit}"));
        match shape {
            // Left in front.
            0 | 1 => {
                let condition = self.condition();
                let both = self.op(&format!("OpLogicalAnd %bool {fewer} {condition}"));
                let condition = if shape == 0 { fewer.clone() } else { both };
                self.put(&format!("OpBranchConditional {condition} {body} {merge}"));
                self.start(&body);
            }
            // Left by breaks, or by the last block.
            _ => {
                let inner = self.id("m");
                let bound = self.op(&format!("OpLogicalNot %bool {fewer}"));
                let out = self.id("out");
                self.put(&format!("OpSelectionMerge {inner} None"));
                self.put(&format!("OpBranchConditional {bound} {out} {inner}"));
                self.start(&out);
                self.branch(&merge);
                self.start(&inner);
            }
        }
        self.depth += 1;
        self.list();
        self.depth -= 1;
        self.branch(&next);
        self.around = outer;
        self.known.truncate(known + 1);
        self.start(&next);
        self.put(&format!("{more} = OpIAdd %uint {count} %c1"));
        if shape == 3 {
            // Of one block, which the phi names.
            let condition = self.comparison();
            self.put(&format!("OpBranchConditional {condition} {header} {merge}"));
        } else {
            self.branch(&header);
        }
        self.known.truncate(known);
        self.start(&merge);
    }

    // Expressions.

    fn condition(&mut self) -> String {
        if self.e.chance(40) {
            // One operand is evaluated by some invocations only.
            let (first, and) = (self.comparison(), self.e.chance(128));
            let (more, merge) = (self.id("more"), self.id("merge"));
            let from = self.label.clone();
            self.put(&format!("OpSelectionMerge {merge} None"));
            let [yes, no] = if and { [&more, &merge] } else { [&merge, &more] };
            self.put(&format!("OpBranchConditional {first} {yes} {no}"));
            self.start(&more);
            let second = self.comparison();
            let to = self.label.clone();
            self.branch(&merge);
            self.start(&merge);
            return self.op(&format!("OpPhi %bool {first} {from} {second} {to}"));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> String {
        match self.e.below(12) {
            0 => self.op("OpGroupNonUniformElect %bool %c3"),
            1 => {
                let a = self.plain_comparison();
                let op = self.e.pick(&["OpGroupNonUniformAny", "OpGroupNonUniformAll"]);
                self.op(&format!("{op} %bool %c3 {a}"))
            }
            2 => {
                let (a, b) = (self.plain_comparison(), self.plain_comparison());
                let op = self.e.pick(&["OpLogicalAnd", "OpLogicalOr", "OpLogicalNotEqual"]);
                self.op(&format!("{op} %bool {a} {b}"))
            }
            3 => {
                let a = self.plain_comparison();
                self.op(&format!("OpLogicalNot %bool {a}"))
            }
            _ => self.plain_comparison(),
        }
    }

    fn plain_comparison(&mut self) -> String {
        let (a, b) = (self.number(2), self.number(1));
        let op = self.e.pick(&["OpULessThan", "OpIEqual", "OpUGreaterThanEqual", "OpINotEqual", "OpSLessThan"]);
        self.op(&format!("{op} %bool {a} {b}"))
    }

    fn number(&mut self, terms: u32) -> String {
        if terms <= 1 {
            return self.leaf();
        }
        match self.e.below(16) {
            0..=7 => self.leaf(),
            8..=11 => {
                let (a, b) = (self.number(terms - 1), self.leaf());
                let op = self.e.pick(&["OpIAdd", "OpBitwiseXor", "OpISub", "OpIMul", "OpBitwiseAnd", "OpBitwiseOr"]);
                self.op(&format!("{op} %uint {a} {b}"))
            }
            12 | 13 => {
                let a = self.number(terms - 1);
                let by = self.e.pick(&["%c2", "%c4", "%c8", "%c16", "%c32", "%c3"]);
                let op = self.e.pick(&["OpUDiv", "OpUMod"]);
                self.op(&format!("{op} %uint {a} {by}"))
            }
            14 => {
                let (a, b, c) = (self.plain_comparison(), self.leaf(), self.leaf());
                self.op(&format!("OpSelect %uint {a} {b} {c}"))
            }
            _ => {
                let a = self.number(terms - 1);
                self.together(&a)
            }
        }
    }

    /// A subgroup instruction.
    fn together(&mut self, a: &str) -> String {
        match self.e.below(8) {
            0 | 1 => self.op(&format!("OpGroupNonUniformBroadcastFirst %uint %c3 {a}")),
            2 => {
                let operation = self.e.pick(&["Reduce", "InclusiveScan", "ExclusiveScan"]);
                let op = self.e.pick(&["OpGroupNonUniformIAdd", "OpGroupNonUniformUMax", "OpGroupNonUniformUMin"]);
                self.op(&format!("{op} %uint %c3 {operation} {a}"))
            }
            3 => {
                let odd = self.op(&format!("OpBitwiseAnd %uint {a} %c1"));
                let odd = self.op(&format!("OpINotEqual %bool {odd} %c0"));
                let ballot = self.op(&format!("OpGroupNonUniformBallot %v4uint %c3 {odd}"));
                let operation = self.e.pick(&["Reduce", "ExclusiveScan"]);
                self.op(&format!("OpGroupNonUniformBallotBitCount %uint %c3 {operation} {ballot}"))
            }
            4 => {
                let first = self.e.pick(&["%c0", "%c1", "%c2"]);
                self.op(&format!("OpGroupNonUniformBroadcast %uint %c3 {a} {first}"))
            }
            // Where the other is not active the value is undefined, so only where all are.
            5 if self.depth == 0 => self.op(&format!("OpGroupNonUniformShuffleXor %uint %c3 {a} %c1")),
            6 if self.depth == 0 => {
                let other = self.leaf();
                let other = self.op(&format!("OpBitwiseAnd %uint {other} %c3"));
                self.op(&format!("OpGroupNonUniformShuffle %uint %c3 {a} {other}"))
            }
            _ => self.op(&format!("OpGroupNonUniformUMax %uint %c3 Reduce {a}")),
        }
    }

    fn leaf(&mut self) -> String {
        match self.e.below(24) {
            0..=3 => format!("%c{}", self.e.below(5)),
            4 | 5 => {
                let n = self.e.below(PUSH_WORDS);
                let p = self.op(&format!("OpAccessChain %ptr_push_uint %push %c{n}"));
                self.op(&format!("OpLoad %uint {p}"))
            }
            6..=8 if !self.known.is_empty() => {
                let n = self.e.below(self.known.len() as u32) as usize;
                self.known[n].clone()
            }
            9..=13 => {
                let v = self.variable();
                self.op(&format!("OpLoad %uint {v}"))
            }
            14 => self.op("OpLoad %uint %local_index"),
            15 => self.op("OpLoad %uint %lane"),
            16 | 17 => self.op("OpLoad %uint %subgroup"),
            18 => {
                let i = self.e.below(3);
                let p = self.op(&format!("OpAccessChain %ptr_in_uint %local_id %c{i}"));
                self.op(&format!("OpLoad %uint {p}"))
            }
            19 => {
                let v = self.op("OpLoad %v3uint %workgroup");
                self.op(&format!("OpCompositeExtract %uint {v} 0"))
            }
            20 => {
                let v = self.op("OpLoad %v3uint %global_id");
                let i = self.e.below(2);
                self.op(&format!("OpCompositeExtract %uint {v} {i}"))
            }
            21 => self.op("OpLoad %uint %subgroups"),
            22 => self.read("%ptr_b_uint %in %c0", "%c255"),
            _ => {
                if self.e.chance(170) {
                    self.read("%ptr_s_uint %shared", "%c63")
                } else {
                    self.read("%ptr_b_uint %out %c0", "%c255")
                }
            }
        }
    }

    /// A number from memory.
    fn read(&mut self, from: &str, mask: &str) -> String {
        let index = match self.e.below(4) {
            0 => "%c0".into(),
            1 => "%c3".into(),
            2 => self.op("OpLoad %uint %local_index"),
            _ => {
                let v = self.variable();
                self.op(&format!("OpLoad %uint {v}"))
            }
        };
        let index = self.op(&format!("OpBitwiseAnd %uint {index} {mask}"));
        let p = self.op(&format!("OpAccessChain {from} {index}"));
        self.op(&format!("OpLoad %uint {p} NonPrivatePointer"))
    }
}

fn header(out: &mut String, size: [u32; 3], mode: &str) {
    let [x, y, z] = size;
    out.push_str(
        "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
         OpCapability GroupNonUniform\nOpCapability GroupNonUniformVote\nOpCapability GroupNonUniformArithmetic\n\
         OpCapability GroupNonUniformBallot\nOpCapability GroupNonUniformShuffle\n\
         OpExtension \"SPV_KHR_cooperative_matrix\"\n",
    );
    if !mode.is_empty() {
        out.push_str("OpExtension \"SPV_KHR_subgroup_uniform_control_flow\"\n");
    }
    out.push_str(
        "OpMemoryModel Logical Vulkan\nOpEntryPoint GLCompute %main \"main\" %local_index %lane %subgroup %subgroups \
         %local_id %global_id %workgroup %in %out %floats %push %shared %private %privates\n",
    );
    let _ = writeln!(out, "OpExecutionMode %main LocalSize {x} {y} {z}");
    if !mode.is_empty() {
        let _ = writeln!(out, "OpExecutionMode %main {mode}");
    }
    for (name, built_in) in [
        ("local_index", "LocalInvocationIndex"),
        ("lane", "SubgroupLocalInvocationId"),
        ("subgroup", "SubgroupId"),
        ("subgroups", "NumSubgroups"),
        ("local_id", "LocalInvocationId"),
        ("global_id", "GlobalInvocationId"),
        ("workgroup", "WorkgroupId"),
    ] {
        let _ = writeln!(out, "OpDecorate %{name} BuiltIn {built_in}");
    }
    for (i, (name, block)) in [("in", "uints_in"), ("out", "uints"), ("floats", "float_block")].iter().enumerate() {
        let _ = writeln!(out, "OpDecorate %{name} DescriptorSet 0\nOpDecorate %{name} Binding {i}");
        let _ = writeln!(out, "OpDecorate %{block} Block\nOpMemberDecorate %{block} 0 Offset 0");
    }
    out.push_str(
        "OpDecorate %in NonWritable\nOpDecorate %uint_array ArrayStride 4\nOpDecorate %float_array ArrayStride 4\n\
         OpDecorate %push_block Block\nOpMemberDecorate %push_block 0 Offset 0\nOpMemberDecorate %push_block 1 Offset 4\n\
         OpMemberDecorate %push_block 2 Offset 8\nOpMemberDecorate %push_block 3 Offset 12\n\
         %void = OpTypeVoid\n%bool = OpTypeBool\n%uint = OpTypeInt 32 0\n%float = OpTypeFloat 32\n\
         %v3uint = OpTypeVector %uint 3\n%v4uint = OpTypeVector %uint 4\n",
    );
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 32, 63, 64, 255, 264] {
        let _ = writeln!(out, "%c{n} = OpConstant %uint {n}");
    }
    out.push_str(
        "%one = OpConstant %float 1\n\
         %mat = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2\n\
         %wmat = OpTypeCooperativeMatrixKHR %float %c2 %c16 %c16 %c2\n\
         %mat_one = OpConstantComposite %mat %one\n%wmat_one = OpConstantComposite %wmat %one\n\
         %uint_array = OpTypeRuntimeArray %uint\n%float_array = OpTypeRuntimeArray %float\n\
         %uints_in = OpTypeStruct %uint_array\n%uints = OpTypeStruct %uint_array\n%float_block = OpTypeStruct %float_array\n\
         %push_block = OpTypeStruct %uint %uint %uint %uint\n\
         %shared_array = OpTypeArray %uint %c64\n%array4 = OpTypeArray %uint %c4\n\
         %ptr_f_uint = OpTypePointer Function %uint\n%ptr_p_uint = OpTypePointer Private %uint\n\
         %ptr_f_mat = OpTypePointer Function %mat\n%ptr_f_wmat = OpTypePointer Function %wmat\n\
         %ptr_in_uint = OpTypePointer Input %uint\n%ptr_in_v3uint = OpTypePointer Input %v3uint\n\
         %ptr_b_uint = OpTypePointer StorageBuffer %uint\n%ptr_b_float = OpTypePointer StorageBuffer %float\n\
         %ptr_s_uint = OpTypePointer Workgroup %uint\n%ptr_push_uint = OpTypePointer PushConstant %uint\n\
         %ptr_b_in = OpTypePointer StorageBuffer %uints_in\n%ptr_b_uints = OpTypePointer StorageBuffer %uints\n\
         %ptr_b_floats = OpTypePointer StorageBuffer %float_block\n%ptr_push = OpTypePointer PushConstant %push_block\n\
         %ptr_s_array = OpTypePointer Workgroup %shared_array\n%ptr_p_array = OpTypePointer Private %array4\n\
         %null_shared = OpConstantNull %shared_array\n%null4 = OpConstantNull %array4\n",
    );
    for name in ["local_index", "lane", "subgroup", "subgroups"] {
        let _ = writeln!(out, "%{name} = OpVariable %ptr_in_uint Input");
    }
    for name in ["local_id", "global_id", "workgroup"] {
        let _ = writeln!(out, "%{name} = OpVariable %ptr_in_v3uint Input");
    }
    out.push_str(
        "%in = OpVariable %ptr_b_in StorageBuffer\n%out = OpVariable %ptr_b_uints StorageBuffer\n\
         %floats = OpVariable %ptr_b_floats StorageBuffer\n%push = OpVariable %ptr_push PushConstant\n\
         %shared = OpVariable %ptr_s_array Workgroup %null_shared\n\
         %private = OpVariable %ptr_p_uint Private %c0\n%privates = OpVariable %ptr_p_array Private %null4\n\
         %fn_void = OpTypeFunction %void\n%fn_uint = OpTypeFunction %uint %uint %ptr_f_uint\n",
    );
}
