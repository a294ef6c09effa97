//! The fuzz bodies of `coop_ir`: reading, writing, printing and parsing.

use coop_ir::isomorphic::isomorphic;
use coop_ir::source::SourceMap;
use coop_ir::text::{self, PrintOptions};
use coop_ir::{Module, binary, verify};

const NUMERIC: PrintOptions = PrintOptions { friendly_names: false, header: true, indent: true };

/// Checks that a module that can be read is written back as it was, and can be printed and parsed again.
pub fn reader(bytes: &[u8]) {
    let Ok(module) = binary::read(bytes) else { return };
    assert!(binary::write(&module) == bytes, "written otherwise than read");
    let problems = |r: Result<(), Vec<verify::Problem>>| r.err().unwrap_or_default();
    let (mut all, read) = (problems(verify::verify(&module)), problems(verify::verify_read(&module).map(drop)));
    // A type that is defined only later makes words out of what was read as ids; check 3 says so.
    if all.iter().any(|p| p.check == 3) {
        all.retain(|p| !matches!(p.check, 9 | 10));
    }
    // One that is defined inside of a function says less of a constant when that is read; check 4 says so.
    let behind = |r| module.inst(r).ty.and_then(|ty| module.def(ty)).is_some_and(|ty| ty > r);
    all.retain(|p| !(p.check == 9 && p.inst.is_some_and(behind)));
    all.retain(|p| !matches!(p.check, 13 | 16));
    assert!(all == read, "the reader let pass what it must refuse");
    SourceMap::new(&module);
    through_text(&module);
}

/// Checks that text that can be parsed can be printed and parsed again.
pub fn parser(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    match text::parse_with_places(source) {
        Ok(parsed) => {
            for r in parsed.module.all() {
                let span = parsed.span(r).expect("each instruction was read from somewhere");
                assert!(!source[span].is_empty());
            }
            through_text(&parsed.module);
        }
        Err(e) => {
            assert!(source.get(e.span.clone()).is_some(), "{e}: a place outside the text");
            assert!(e.line >= 1 && e.column >= 1 && !e.message.contains('\n'), "{e}");
        }
    }
}

fn through_text(module: &Module) {
    let numeric = text::print(module, &NUMERIC);
    if module.all().next().is_none() {
        assert!(text::parse(&numeric.text).is_err(), "a text without instructions");
        return;
    }
    let back = text::parse(&numeric.text).unwrap_or_else(|e| panic!("{e}\n{}", numeric.text));
    assert!(binary::write_words(&back) == binary::write_words(module), "other words after\n{}", numeric.text);
    for r in module.all() {
        // Not all of them: each word of a string has the whole string as its span.
        for i in 0..module.inst(r).operands.len().min(16) {
            let span = numeric.operand_span(r, i).expect("printed");
            assert!(!numeric.text[span].is_empty());
        }
    }
    let friendly = text::print(module, &PrintOptions::default()).text;
    let back = text::parse(&friendly).unwrap_or_else(|e| panic!("{e}\n{friendly}"));
    assert!(isomorphic(module, &back), "another module after\n{friendly}");
}
