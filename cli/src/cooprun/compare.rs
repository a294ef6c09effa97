//! `cooprun compare`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_exec::Executor;

use super::execute::{complain, dump, verdict};
use super::{CaseArgs, DeviceArgs, Failure, json, print, read_words};
use crate::Status;

#[derive(Args, Debug)]
pub(super) struct Compare {
    /// The first module
    a: PathBuf,
    /// The second module, which should do the same
    b: PathBuf,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Compare {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self) -> Result<Status, Failure> {
        let [first, second] = [read_words(&self.a)?, read_words(&self.b)?];
        let case = self.case.load()?;
        let options = self.case.options(0)?;
        let vulkan = self.device.open()?;
        let executor = self.device.executor(&vulkan)?;
        let a = executor.run(&first, &case, &options)?;
        let b = executor.run(&second, &case, &options)?;
        // The second is measured against the first.
        let differences = b.compare(&a, &case)?;
        if let Some(folder) = &self.case.dump_dir {
            dump(&a, &folder.join("a"))?;
            dump(&b, &folder.join("b"))?;
        }
        let verdict = verdict(&[&a, &b], &differences);
        if self.case.json {
            print(&json::compare(&a, &b, &differences, vulkan.is_validated(), verdict == Status::Success));
            return Ok(verdict);
        }
        let mut text = String::new();
        for (path, outcome) in [(&self.a, &a), (&self.b, &b)] {
            if !outcome.messages.is_empty() || !outcome.faults.is_empty() {
                let _ = writeln!(text, "{}:", path.display());
                complain(&mut text, outcome);
            }
        }
        for difference in &differences {
            let _ = writeln!(text, "{difference}");
        }
        if differences.is_empty() {
            let _ = writeln!(text, "all {} buffers agree on {}", case.buffer.len(), a.device);
        }
        print(&text);
        Ok(verdict)
    }
}
