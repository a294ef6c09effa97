//! Code that the three tools share: reading and writing modules, options, exit statuses, and the rendering of findings.
//!
//! A tool's `main` is one line: [`run`] with a function that returns a [`Status`]. A panic anywhere below it is a bug
//! in the tool and is reported as one.

pub mod args;
pub mod check;
mod component_passes;
pub mod coop;
pub mod cooprun;
mod describe;
pub mod interp;
pub mod io;
pub mod json;
pub mod lower;
pub mod process;
pub mod progress;
mod proving;
pub mod reduce;
pub mod render;
mod svg;

use std::process::ExitCode;

/// The exit status of a tool. Scripts rely on the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Status {
    /// Done, nothing wrong: 0.
    #[default]
    Success,
    /// Findings of level error, or a difference: 1.
    Findings,
    /// Input unreadable, or wrong usage: 2.
    BadInput,
    /// Refused, with the reason and the remedy; nothing is written: 3.
    Refused,
}

impl Status {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Status::Success => 0,
            Status::Findings => 1,
            Status::BadInput => 2,
            Status::Refused => 3,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status.code())
    }
}

/// The declared command lines of the tools, by which tests know what there is.
pub fn commands() -> [clap::Command; 4] {
    [coop::command(), check::command(), lower::command(), cooprun::command()]
}

/// The exit status of a panic.
pub const BUG: i32 = 101;

/// For `--help` of each tool: what the exit statuses mean.
pub const EXIT_STATUS_HELP: &str = "\
Exit status:
  0    done, nothing wrong
  1    findings of level error
  2    input unreadable, or wrong usage
  101  a bug in the tool";

/// Runs a tool: `name` for the message in case of a bug of ours.
pub fn run(name: &'static str, tool: impl FnOnce() -> Status) -> ExitCode {
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        io::error(&format!(
            "{name} {}: this is a bug of ours, whatever the input: {what}{place}\n\
             please report it with this message, the command line and the input file; \
             RUST_BACKTRACE=1 adds the way here",
            env!("CARGO_PKG_VERSION"),
        ));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0") {
            io::error(&std::backtrace::Backtrace::force_capture().to_string());
        }
        // Also from other threads: half a result is worse than none.
        std::process::exit(BUG);
    }));
    tool().into()
}
