//! Generates modules for the uniformity analysis: random control flow, of all kinds of conditions, around matrix
//! instructions and barriers, uniform or not.
//!
//! Every module of [`diverge`] keeps these rules:
//!
//! 1. It is valid SPIR-V, except for `OpKill`, which only fragment shaders may have: it stands for all instructions
//!    that end an invocation. Every loop ends.
//! 2. Nothing is read that was not written, no access leaves its object, no number is divided by zero. But matrix
//!    instructions and barriers may be executed by parts of their scope, their operands may differ, and accesses to
//!    shared memory may race: the modules exist to show that.
//! 3. The same entropy gives the same module. Less entropy gives a simpler one.
//!
//! Constructs are those that front ends make and some that they don't: merge blocks after the point where the paths of
//! a branch reconverge, cases that fall through, loops that end in their last block or by breaks only, returns from
//! nested constructs. Kernels have no merge instructions, and some of their functions no structure at all.

mod expression;
mod free;
mod header;
mod web;
mod wide;

pub use free::{Free, Freed, Given, free};

use super::entropy::Entropy;
use coop_ir::Module;
use coop_ir::text;
use std::fmt::Write;

/// The number of words in each of the two buffers of numbers.
pub const WORDS: u32 = 256;
/// The number of words of push constants.
pub const PUSH_WORDS: u32 = 4;

/// A module and its inputs: a read-only buffer of [`WORDS`] words at binding 0, another one at binding 1, one of 4096
/// floats at binding 2, and [`PUSH_WORDS`] words of push constants. Kernels have them as arguments, in this order.
#[derive(Clone, Debug)]
pub struct Diverging {
    /// The module.
    pub module: Module,
    /// The size of a workgroup.
    pub local_size: [u32; 3],
    /// True if invocations meet earlier than merge instructions say: in kernels, that have none, and where maximal
    /// reconvergence is asked for.
    pub meets_early: bool,
    /// The number of bytes of entropy that were used; more change nothing.
    pub used: usize,
}

/// The constructs that modules use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constructs {
    /// Control flow and the instructions of matrices, 32-bit arithmetic, plain memory.
    Basic,
    /// Besides these workgroups of one invocation and of any form, specialization constants, numbers of 64 bits, volatile
    /// loads, atomics, extended instructions that write, values that a workgroup reduces, layouts of tensors. The module
    /// has a specialization constant with SpecId 0.
    All,
}

/// Makes a module of [`Constructs::Basic`].
pub fn diverge(entropy: &[u8]) -> Diverging {
    diverge_with(entropy, Constructs::Basic)
}

/// Makes a module.
pub fn diverge_with(entropy: &[u8], constructs: Constructs) -> Diverging {
    let mut g = Gen::new(entropy, constructs == Constructs::All);
    let source = g.run();
    let module = text::parse(&source).unwrap_or_else(|e| unreachable!("the generator makes no sense: {e}\n{source}"));
    Diverging { module, local_size: g.size, meets_early: g.kernel || g.mode == MAXIMAL, used: g.e.used() }
}

/// No workgroup is larger.
pub const MOST_INVOCATIONS: u32 = 128;

/// With this only merge blocks and continue targets may have several predecessors.
const MAXIMAL: &str = "MaximallyReconvergesKHR";

/// The largest nesting of control flow and expressions.
const MAX_DEPTH: u32 = 4;
const MAX_TERMS: u32 = 3;

/// The targets of control flow inside of a construct.
#[derive(Clone)]
struct Around {
    /// The merge block of the innermost loop or switch, to break to.
    leave: Option<String>,
    /// The continue target of the innermost loop.
    again: Option<String>,
}

struct Gen<'a> {
    e: Entropy<'a>,
    /// True if it makes [`Constructs::All`].
    all: bool,
    /// The default of the specialization constant.
    warp: u32,
    /// The variables of the current function: one with four numbers, and one with a float.
    table: String,
    part: String,
    size: [u32; 3],
    /// An execution mode, or nothing.
    mode: &'static str,
    /// True if it is a kernel of OpenCL, which has no merge instructions.
    kernel: bool,
    /// True if invocations may end anywhere.
    kills: bool,
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
    /// True if some invocations may not be there any more.
    left: bool,
    statements: u32,
    /// True if it returns a number.
    returns: bool,
    /// Numbers that are the same in all blocks from here on: parameters, counters of loops.
    known: Vec<String>,
    /// Functions that can be called.
    callees: Vec<String>,
}

impl<'a> Gen<'a> {
    fn new(entropy: &'a [u8], all: bool) -> Gen<'a> {
        let mut e = Entropy::new(entropy);
        let mut size = e.pick(&[[32, 1, 1], [64, 1, 1], [16, 4, 1], [8, 4, 2], [32, 2, 1], [4, 16, 1], [64, 2, 1]]);
        let mut warp = 0;
        if all {
            size =
                e.pick(&[size, size, [1, 1, 1], [8, 16, 1], [1, 64, 1], [2, 4, 8], [1, 1, 32], [3, 32, 1], [12, 8, 1]]);
            warp = e.pick(&[32, 32, 16, 8, 4, 1, 3]);
        }
        let kernel = e.chance(50);
        let mode = if kernel { "" } else { e.pick(&["", "", "", "SubgroupUniformControlFlowKHR", MAXIMAL]) };
        let kills = !kernel && e.chance(128);
        Gen {
            e,
            all,
            warp,
            table: String::new(),
            part: String::new(),
            size,
            mode,
            kernel,
            kills,
            next: 0,
            functions: String::new(),
            body: String::new(),
            locals: String::new(),
            label: String::new(),
            around: Around { leave: None, again: None },
            depth: 0,
            left: false,
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
        header::header(&mut out, self.size, self.mode, self.kernel, self.all.then_some(self.warp));
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

    /// Declares the merge block of the branch that follows.
    fn merge(&mut self, label: &str) {
        if !self.kernel {
            self.put(&format!("OpSelectionMerge {label} None"));
        }
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
        if self.all {
            (self.table, self.part) = (self.id("table"), self.id("part"));
            let _ = writeln!(self.locals, "{} = OpVariable %ptr_f_array Function %numbers", self.table);
            let _ = writeln!(self.locals, "{} = OpVariable %ptr_f_float Function %one", self.part);
        }
    }

    /// The name of a variable of the function.
    fn variable(&mut self) -> String {
        // Kernels have no private variables.
        let n = self.e.below(if self.kernel { 4 } else { 6 });
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
        self.statements();
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
        self.statements();
        let m = self.op("OpLoad %mat %var_m");
        self.store_matrix(&m);
        self.put("OpReturn");
        let mut head =
            format!("%main = OpFunction %void None %{}\n", if self.kernel { "fn_kernel" } else { "fn_void" });
        if self.kernel {
            for (name, ty) in [("in", "ptr_b_uint"), ("out", "ptr_b_uint"), ("floats", "ptr_b_float")] {
                let _ = writeln!(head, "%{name} = OpFunctionParameter %{ty}");
            }
            (0..PUSH_WORDS).for_each(|i| head.push_str(&format!("%push{i} = OpFunctionParameter %uint\n")));
        }
        self.finish(&head, &entry);
    }

    /// Returns true if all invocations are here: not in functions, as only some may call them.
    fn is_whole(&self) -> bool {
        self.depth == 0 && !self.left && !self.returns
    }

    /// Returns true if buffers and push constants are at hand: those of kernels are arguments of the entry point.
    fn has_arguments(&self) -> bool {
        !(self.kernel && self.returns)
    }

    // Statements.

    fn statements(&mut self) {
        if self.kernel && self.e.chance(128) {
            self.web();
        }
        self.list();
    }

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
        if self.all && self.e.chance(50) {
            return self.wide_statement();
        }
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
            0 if self.has_arguments() => {
                let at = self.place();
                let stride = self.stride();
                let m = self.op(&format!("OpCooperativeMatrixLoadKHR %{ty} {at} %c0 {stride}"));
                self.keep(&m, ty);
            }
            1 if self.has_arguments() => {
                let m = self.matrix_value(ty);
                self.store_matrix(&m);
            }
            0..=2 => {
                let (a, b) = (self.matrix_value(ty), self.matrix_value(ty));
                let m = self.op(&format!("OpFAdd %{ty} {a} {b}"));
                self.keep(&m, ty);
            }
            3 => {
                let f = self.float();
                let m = self.op(&format!("OpCompositeConstruct %{ty} {f}"));
                self.keep(&m, ty);
            }
            4 => {
                // The number comes first, the matrix second: seeds mean the same.
                let chosen = (self.all && self.e.chance(80)).then(|| self.wide_float());
                let (n, a) = (if chosen.is_none() { self.number(2) } else { String::new() }, self.matrix_value(ty));
                let f = chosen.unwrap_or_else(|| self.op(&format!("OpConvertUToF %float {n}")));
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

    /// A number as a float, or a float chosen from several.
    fn float(&mut self) -> String {
        if self.all && self.e.chance(80) {
            return self.wide_float();
        }
        let n = self.number(2);
        self.op(&format!("OpConvertUToF %float {n}"))
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
        self.element("float", "floats", &index)
    }

    /// A pointer to an element of a buffer.
    fn element(&mut self, ty: &str, buffer: &str, index: &str) -> String {
        if self.kernel {
            self.op(&format!("OpInBoundsPtrAccessChain %ptr_b_{ty} %{buffer} {index}"))
        } else {
            self.op(&format!("OpAccessChain %ptr_b_{ty} %{buffer} %c0 {index}"))
        }
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
        let mask = if self.has_arguments() { mask } else { "%c63" };
        let index = self.op(&format!("OpBitwiseAnd %uint {index} {mask}"));
        let to = match mask {
            "%c63" => self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}")),
            _ => self.element("uint", "out", &index),
        };
        self.put(&format!("OpStore {to} {value}{}", self.shared_access()));
    }

    /// Returns the memory operands of accesses to shared memory.
    fn shared_access(&self) -> &'static str {
        if self.kernel { "" } else { " NonPrivatePointer" }
    }

    fn jump(&mut self) {
        if self.depth == 0 && !self.e.chance(60) {
            return self.assign();
        }
        // Under a condition, so that what follows can be reached.
        let condition = self.condition();
        let (yes, merge) = (self.id("yes"), self.id("merge"));
        self.merge(&merge);
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
        let kill = self.kills && self.e.chance(230);
        // Who returns from a function is there again behind the call.
        self.left |= kill || !self.returns;
        if kill {
            return self.put("OpKill");
        }
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
        let late = self.e.chance(40) && self.mode != MAXIMAL;
        let both = self.e.chance(128);
        let meet = if late { &join } else { &merge };
        self.merge(&merge);
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
        let cases = 1 + self.e.below(3);
        // Sometimes there is a case for all that comes.
        let all = cases > 1 && self.e.chance(50);
        let selector = self.op(&format!("OpBitwiseAnd %uint {n} {}", if all { "%c1" } else { "%c3" }));
        let merge = self.id("merge");
        let labels: Vec<String> = (0..=cases).map(|_| self.id("case")).collect();
        self.merge(&merge);
        let targets: String = labels.iter().skip(1).enumerate().map(|(i, l)| format!(" {i} {l}")).collect();
        self.put(&format!("OpSwitch {selector} {}{targets}", labels[0]));
        let outer = self.around.clone();
        self.around.leave = Some(merge.clone());
        for i in 0..labels.len() {
            self.start(&labels[i].clone());
            if i == 0 && all {
                self.put("OpUnreachable");
                continue;
            }
            // A case may fall through into the next; the default is none.
            let falls = i > 0 && self.e.chance(90) && self.mode != MAXIMAL;
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
        if !self.kernel {
            self.put(&format!("OpLoopMerge {merge} {next} None"));
        }
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
                self.depth += 1;
                let condition = self.condition();
                self.depth -= 1;
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
                self.merge(&inner);
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
            self.depth += 1;
            let condition = self.comparison();
            self.depth -= 1;
            self.put(&format!("OpBranchConditional {condition} {header} {merge}"));
        } else {
            self.branch(&header);
        }
        self.known.truncate(known);
        self.start(&merge);
    }
}
