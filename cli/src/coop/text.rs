//! `coop print` and `coop parse`: words to text and back.

use crate::Status;
use crate::io::{self, FileError, Format};
use clap::Args;
use coop_ir::grammar::Class;
use coop_ir::hash::FxHashSet;
use coop_ir::text::{PrintOptions, print};
use coop_ir::{Id, Inst, InstRef, Module, Op};
use std::path::{Path, PathBuf};

/// The command line of `coop print`.
#[derive(Args, Debug)]
pub(super) struct Print {
    /// The module: SPIR-V words in either byte order, or assembly; - for standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The file to write the text to
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Print the numbers of ids instead of names
    #[arg(long)]
    numbers: bool,
    /// Leave out the comments with the words of the header, from which `coop parse` takes them
    #[arg(long)]
    no_header: bool,
    /// Begin every instruction in the first column
    #[arg(long)]
    no_indent: bool,
    /// Leave out names, lines of source and the text of the source
    #[arg(long)]
    no_debug: bool,
}

impl Print {
    pub(super) fn run(&self) -> Result<Status, FileError> {
        let mut module = io::load(&self.input)?.module;
        if self.no_debug {
            drop_debug(&mut module);
        }
        let options = PrintOptions { friendly_names: !self.numbers, header: !self.no_header, indent: !self.no_indent };
        io::write_bytes(&self.output, print(&module, &options).text.as_bytes())?;
        Ok(Status::Success)
    }
}

/// The command line of `coop parse`.
#[derive(Args, Debug)]
pub(super) struct Parse {
    /// The assembly text; - for standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The file to write the words to; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Also write modules that are not well formed: ids without a definition, blocks without an end
    #[arg(long)]
    no_check: bool,
}

impl Parse {
    pub(super) fn run(&self) -> Result<Status, FileError> {
        let loaded = io::load(&self.input)?;
        if loaded.format == Format::Binary {
            let message = "SPIR-V words, not text: `coop print` makes text of them".to_owned();
            return Err(FileError { name: loaded.name, message });
        }
        if !self.no_check
            && let Err(errors) = io::well_formed(&loaded)
        {
            let mut errors = errors.into_iter().rev();
            let last = errors.next();
            errors.rev().for_each(|error| io::error(&format!("error: {error}")));
            return last.map_or(Ok(Status::BadInput), Err);
        }
        io::write_binary(Path::new(&self.output), &loaded.module)?;
        Ok(Status::Success)
    }
}

/// Removes names, lines of source and the text of the source, and all instructions of non-semantic sets.
pub(super) fn drop_debug(m: &mut Module) {
    let semantic = |i: &Inst| !i.string(0).is_some_and(|(name, _)| name.starts_with("NonSemantic."));
    let imports = m.globals_with(Op::ExtInstImport).map(|r| m.inst(r));
    let sets: FxHashSet<Id> = imports.filter(|i| !semantic(i)).filter_map(|i| i.result).collect();
    let gone: FxHashSet<InstRef> = m
        .all()
        .filter(|r| {
            let i = m.inst(*r);
            let of_set = i.ext_set().or(i.result).is_some_and(|id| sets.contains(&id));
            of_set || i.op.info().is_some_and(|info| info.class == Class::Debug)
        })
        .collect();
    gone.iter().for_each(|r| m.forget(*r));
    let kept = |r: &InstRef| !gone.contains(r);
    m.globals.retain(kept);
    m.trailing.retain(kept);
    for function in &mut m.functions {
        [&mut function.lead, &mut function.params, &mut function.tail].into_iter().for_each(|list| list.retain(kept));
        for block in &mut function.blocks {
            block.lead.retain(kept);
            block.insts.retain(|r| !gone.contains(r));
        }
    }
}
