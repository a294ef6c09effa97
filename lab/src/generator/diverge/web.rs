//! Control flow without structure.

use super::Gen;

impl Gen<'_> {
    /// Blocks that branch to each other at will. Every way back has a counter of its own, so that each is taken a few
    /// times at most.
    pub(super) fn web(&mut self) {
        let count = 2 + self.e.below(6) as usize;
        let labels: Vec<String> = (0..=count).map(|_| self.id("w")).collect();
        self.branch(&labels[0].clone());
        self.depth += 1;
        // Each block must be a target of one in front of it, as it must come behind its dominator.
        let mut targeted = vec![false; count + 1];
        for i in 0..count {
            self.start(&labels[i].clone());
            for _ in 0..self.e.below(3) {
                self.plain_statement();
            }
            let other = self.e.below(count as u32 + 1) as usize;
            let kind = self.e.below(8);
            let needed = !targeted[i + 1];
            match kind {
                0 if !needed && i + 1 < count => self.leave_function(),
                1 if !needed && other > i => {
                    targeted[other] = true;
                    self.branch(&labels[other].clone());
                }
                // The labels of a conditional branch differ.
                0 | 1 | 3.. if other == i + 1 => {
                    targeted[other] = true;
                    self.branch(&labels[other].clone());
                }
                2 => {
                    let n = self.number(2);
                    let selector = self.op(&format!("OpBitwiseAnd %uint {n} %c3"));
                    let ways: Vec<usize> =
                        (0..1 + self.e.below(3)).map(|_| i + 1 + self.e.below((count - i) as u32) as usize).collect();
                    let cases: String = ways.iter().enumerate().map(|(v, w)| format!(" {v} {}", labels[*w])).collect();
                    ways.iter().for_each(|w| targeted[*w] = true);
                    targeted[i + 1] = true;
                    self.put(&format!("OpSwitch {selector} {}{cases}", labels[i + 1]));
                }
                _ => {
                    let mut condition = self.condition();
                    if other <= i {
                        condition = self.counted(&condition);
                    }
                    targeted[other] = true;
                    targeted[i + 1] = true;
                    let swapped = other > i && self.e.chance(128);
                    let (yes, no) = if swapped { (i + 1, other) } else { (other, i + 1) };
                    self.put(&format!("OpBranchConditional {condition} {} {}", labels[yes], labels[no]));
                }
            }
        }
        self.depth -= 1;
        self.start(&labels[count].clone());
    }

    fn plain_statement(&mut self) {
        if self.statements == 0 {
            return;
        }
        self.statements -= 1;
        match self.e.below(8) {
            0..=3 => self.matrix(),
            4 | 5 => self.assign(),
            6 => self.shared(),
            _ => self.call(),
        }
    }

    /// A condition that is true a few times at most.
    fn counted(&mut self, condition: &str) -> String {
        let counter = self.id("k");
        self.locals.push_str(&format!("{counter} = OpVariable %ptr_f_uint Function %c0\n"));
        let limit = self.e.pick(&["%c1", "%c2", "%c3", "%c4"]);
        let n = self.op(&format!("OpLoad %uint {counter}"));
        let more = self.op(&format!("OpIAdd %uint {n} %c1"));
        self.put(&format!("OpStore {counter} {more}"));
        let fewer = self.op(&format!("OpULessThan %bool {n} {limit}"));
        self.op(&format!("OpLogicalAnd %bool {fewer} {condition}"))
    }
}
