//! Proofs about pairs of small modules that differ in the body of one function.

use std::path::Path;

use coop_exec::Case;
use coop_exec::interp::{Arithmetic, Interpreted};
use coop_exec::proof::{Options, Proof, prove};
use coop_ir::Module;

/// Modules with the same head and the same case.
pub(crate) struct Pairs<'a> {
    /// The text up to the body.
    pub(crate) head: &'a str,
    /// The text of the case.
    pub(crate) case: &'a str,
    /// The buffers whose contents are no data.
    pub(crate) fixed: &'a [&'a str],
}

impl Pairs<'_> {
    /// Returns the module with a body.
    pub(crate) fn module(&self, body: &str) -> Module {
        let text = format!("{}{body}\nOpReturn\nOpFunctionEnd\n", self.head);
        coop_ir::text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{body}"))
    }

    /// Returns the proof that two bodies store the same.
    pub(crate) fn proof(&self, arithmetic: Arithmetic, one: &str, other: &str) -> Proof {
        let case = Case::parse(self.case, Path::new("")).expect("the case parses");
        let fixed = self.fixed.iter().map(|name| (*name).to_owned()).collect();
        let options = Options { arithmetic, seed: 1, fixed, explain: true };
        let sides = [one, other].map(|body| self.module(body));
        let result = prove(&Interpreted::default(), (&sides[0], &case), (&sides[1], &case), &options);
        result.unwrap_or_else(|error| panic!("{error}\n{one}\n{other}"))
    }
}
