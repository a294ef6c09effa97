//! Numbers and conditions.

use super::{Gen, PUSH_WORDS};

impl Gen<'_> {
    pub(super) fn condition(&mut self) -> String {
        if self.e.chance(40) {
            // One operand is evaluated by some invocations only.
            let (first, and) = (self.comparison(), self.e.chance(128));
            let (more, merge) = (self.id("more"), self.id("merge"));
            let from = self.label.clone();
            self.merge(&merge);
            let [yes, no] = if and { [&more, &merge] } else { [&merge, &more] };
            self.put(&format!("OpBranchConditional {first} {yes} {no}"));
            self.start(&more);
            self.depth += 1;
            let second = self.comparison();
            self.depth -= 1;
            let to = self.label.clone();
            self.branch(&merge);
            self.start(&merge);
            return self.op(&format!("OpPhi %bool {first} {from} {second} {to}"));
        }
        self.comparison()
    }

    pub(super) fn comparison(&mut self) -> String {
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

    pub(super) fn number(&mut self, terms: u32) -> String {
        if terms <= 1 {
            return self.leaf();
        }
        if self.all && self.e.chance(60) {
            return self.wide_number(terms);
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
            // Where the other is not active the value is undefined, so only where all are.
            4 if self.is_whole() => {
                let first = self.e.pick(&["%c0", "%c1", "%c2"]);
                self.op(&format!("OpGroupNonUniformBroadcast %uint %c3 {a} {first}"))
            }
            5 if self.is_whole() => self.op(&format!("OpGroupNonUniformShuffleXor %uint %c3 {a} %c1")),
            6 if self.is_whole() => {
                let other = self.leaf();
                let other = self.op(&format!("OpBitwiseAnd %uint {other} %c3"));
                self.op(&format!("OpGroupNonUniformShuffle %uint %c3 {a} {other}"))
            }
            _ => self.op(&format!("OpGroupNonUniformUMax %uint %c3 Reduce {a}")),
        }
    }

    pub(super) fn leaf(&mut self) -> String {
        if self.all && self.e.chance(35) {
            return self.wide_leaf();
        }
        match self.e.below(24) {
            0..=3 => format!("%c{}", self.e.below(5)),
            4 | 5 => {
                let n = self.e.below(PUSH_WORDS);
                if self.kernel {
                    return if self.returns { format!("%c{n}") } else { format!("%push{n}") };
                }
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
            22 if self.has_arguments() => self.read(Some("in")),
            _ => {
                let shared = self.e.chance(170) || !self.has_arguments();
                self.read(if shared { None } else { Some("out") })
            }
        }
    }

    /// A number from a buffer, or from shared memory.
    fn read(&mut self, buffer: Option<&str>) -> String {
        let index = match self.e.below(4) {
            0 => "%c0".into(),
            1 => "%c3".into(),
            2 => self.op("OpLoad %uint %local_index"),
            _ => {
                let v = self.variable();
                self.op(&format!("OpLoad %uint {v}"))
            }
        };
        let mask = if buffer.is_some() { "%c255" } else { "%c63" };
        let index = self.op(&format!("OpBitwiseAnd %uint {index} {mask}"));
        let p = match buffer {
            Some(buffer) => self.element("uint", buffer, &index),
            None => self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}")),
        };
        self.op(&format!("OpLoad %uint {p}{}", self.shared_access()))
    }
}
