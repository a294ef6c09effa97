//! `cooplab devices-page`: writes the page of devices.

use std::path::PathBuf;

use clap::Args;
use coop_cli::Status;
use coop_cli::cooprun::Failure;
use coop_cli::io;
use coop_exec::testing::repository;
use coop_lab::compile::Tally;
use coop_lab::devices_page::{COMPILED, Compiled, Run, page};

#[derive(Args, Debug)]
pub(crate) struct DevicesPage {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// First take this result of `cooplab compile --output` for the one that is kept
    #[arg(long, value_name = "FILE", requires_all = ["command", "date"])]
    compiled: Option<PathBuf>,
    /// The command that gave it
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// Its date
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// It is that of generated modules
    #[arg(long, requires = "compiled")]
    generated: bool,
}

impl DevicesPage {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let kept = repository().join(COMPILED);
        let wrong = |file: &std::path::Path, error: serde_json::Error| {
            Failure::Usage(format!("{}: not a result of cooplab compile: {error}", file.display()))
        };
        let mut compiled: Compiled =
            serde_json::from_str(&io::read_text(&kept)?).map_err(|error| wrong(&kept, error))?;
        if let (Some(file), Some(command), Some(date)) = (&self.compiled, &self.command, &self.date) {
            let tally: Tally = serde_json::from_str(&io::read_text(file)?).map_err(|error| wrong(file, error))?;
            let run = if self.generated { &mut compiled.generated } else { &mut compiled.corpus };
            *run = Run { command: command.clone(), date: date.clone(), tally };
            let text = serde_json::to_string_pretty(&compiled).map_err(|error| wrong(file, error))?;
            io::write_bytes(&kept, (text + "\n").as_bytes())?;
        }
        let drivers = io::read_text(&repository().join("docs/drivers.md"))?;
        io::write_bytes(&self.output, page(&compiled, &drivers).as_bytes())?;
        Ok(Status::Success)
    }
}
