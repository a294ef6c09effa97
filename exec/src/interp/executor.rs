//! The interpreter as an executor of cases.

use super::{Config, DEVICE, Fingerprints, Interpreter, Memory, Report, Symbolic, base_address};
use std::time::Duration;

use coop_ir::Module;

use crate::case::{Buffer, Case};
use crate::error::Error;
use crate::executor::{Executor, Outcome, RunOptions, Timer};

/// Runs cases on the interpreter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Interpreted {
    /// The options; a case's subgroup size overrides theirs.
    pub config: Config,
}

impl Interpreted {
    /// Sets the time limit unless there is one.
    #[must_use]
    pub fn within(self, limit: Duration) -> Interpreted {
        let time_limit = self.config.time_limit.or(Some(limit));
        Interpreted { config: Config { time_limit, ..self.config } }
    }

    /// Runs a module with a case. Returns the buffers after the run, and the report.
    pub fn run_case(&self, words: &[u32], case: &Case) -> Result<(Vec<Memory>, Report), Error> {
        let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
        self.run_module(&module, case)
    }

    /// Like [`run_case`](Interpreted::run_case) for a module that was read: findings name its instructions.
    pub fn run_module(&self, module: &Module, case: &Case) -> Result<(Vec<Memory>, Report), Error> {
        self.prepared(module, case, |interpreter, mut buffers, push| {
            let report = interpreter.run(&mut buffers, push, case.workgroups)?;
            Ok((buffers, report))
        })
    }

    /// Runs a module for all contents of the data buffers.
    pub fn run_symbolic(
        &self,
        module: &Module,
        case: &Case,
        options: &Symbolic,
    ) -> Result<(Report, Fingerprints), Error> {
        self.prepared(module, case, |interpreter, buffers, push| {
            interpreter.run_symbolic(buffers, push, case.workgroups, options)
        })
    }

    /// Prepares a module and the buffers and push constants of a case.
    fn prepared<R>(
        &self,
        module: &Module,
        case: &Case,
        run: impl FnOnce(&Interpreter<'_>, Vec<Memory>, &[u8]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let module = &*coop_ir::captures::as_passed(module);
        let specialization = case.specialization()?;
        let (buffers, push) = inputs(case, |_| true)?;
        let interpreter = Interpreter::new(module, case.entry.as_deref(), &specialization, self.config_of(case))?;
        run(&interpreter, buffers, &push)
    }

    /// Returns the options for a case.
    pub(super) fn config_of(&self, case: &Case) -> Config {
        let mut config = self.config;
        if let Some(size) = case.subgroup_size {
            config.subgroup_size = size;
        }
        config.local_size = case.local_size.or(config.local_size);
        for (at, bytes) in config.local_memory.iter_mut().zip(case.push.iter().filter_map(|part| part.local)) {
            *at = bytes;
        }
        config
    }
}

/// Returns the buffers and the push constants of a case. Buffers for which `filled` is false are empty.
pub(super) fn inputs(case: &Case, filled: impl Fn(&Buffer) -> bool) -> Result<(Vec<Memory>, Vec<u8>), Error> {
    let address = |name: &str| case.buffer.iter().position(|b| b.name == name).map_or(0, base_address);
    let mut buffers = Vec::new();
    for (index, buffer) in case.buffer.iter().enumerate() {
        let bytes = if filled(buffer) { case.contents(index, &address)? } else { Vec::new() };
        buffers.push(Memory { name: buffer.name.clone(), slot: buffer.slot(), bytes });
    }
    Ok((buffers, case.push_constants(&address)?))
}

impl Executor for Interpreted {
    fn name(&self) -> String {
        DEVICE.into()
    }

    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error> {
        let (buffers, report) = self.within(options.timeout).run_case(words, case)?;
        Ok(Interpreted::outcome(buffers, &report))
    }
}

impl Interpreted {
    /// Converts the result of a run to that of other executors: undefined behavior is a fault.
    pub fn outcome(buffers: Vec<Memory>, report: &Report) -> Outcome {
        Outcome {
            device: DEVICE.into(),
            buffers: buffers.into_iter().map(|m| (m.name, m.bytes)).collect(),
            timer: Timer::Host,
            times: Vec::new(),
            messages: Vec::new(),
            // What is legal is no fault.
            faults: report.findings.iter().filter(|f| f.kind.is_undefined_behaviour()).map(|f| f.to_string()).collect(),
        }
    }
}
