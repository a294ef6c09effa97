//! `coopcheck --run`: after the rules, the module is run in the interpreter.
//!
//! The rules check the module specialized by `--spec` and the defaults; the run uses the case's values as well.

use super::Cli;
use crate::interp::InterpArgs;
use crate::io::Loaded;
use crate::render::Problem;
use coop_exec::interp::Interpreted;
use coop_exec::{Case, RunOptions};
use coop_validate::Level;

/// The options of the run.
pub(super) struct Dynamic {
    case: Case,
    interpreter: Interpreted,
    deny_warnings: bool,
}

impl Dynamic {
    /// Returns the options of the command line; `None` without `--run`.
    pub(super) fn new(cli: &Cli) -> Result<Option<Dynamic>, String> {
        let Some(path) = &cli.run else { return Ok(None) };
        let mut case = Case::load(path).map_err(|e| e.to_string())?;
        for (id, value) in cli.spec.specialization().map_err(|e| e.to_string())?.iter() {
            case.spec.insert(id.to_string(), value.into());
        }
        let options = InterpArgs { subgroup_size: cli.profile.subgroup_size, ..InterpArgs::default() };
        let (size, _) = options.subgroup_size(&case, None);
        let mut interpreter = Interpreted::default();
        interpreter.config.subgroup_size = size;
        interpreter.config.time_limit = Some(RunOptions::default().timeout);
        let deny_warnings = cli.deny.iter().any(|name| name == "warnings");
        Ok(Some(Dynamic { case, interpreter, deny_warnings }))
    }

    /// Runs a module and returns its findings, or the reason why it can't be run.
    pub(super) fn findings(&self, loaded: &Loaded) -> Result<Vec<Problem>, String> {
        let (_, report) = self.interpreter.run_module(&loaded.module, &self.case).map_err(|e| e.to_string())?;
        let mut problems: Vec<Problem> = report.findings.iter().map(Problem::from).collect();
        for problem in &mut problems {
            if self.deny_warnings && problem.level == Level::Warning {
                problem.level = Level::Error;
            }
        }
        Ok(problems)
    }
}
