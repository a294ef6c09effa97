//! Processes that the tools start for what may crash, hang or take all memory: a driver's compiler.
//!
//! A process that goes over a limit is killed, so every call of [`finish`] returns. The limit of memory is watched where
//! `/proc` shows what a process holds (Linux), and is no limit elsewhere.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// The most bytes that are kept of what a process writes; the rest is read and dropped.
const MOST_OUTPUT: u64 = 1 << 28;

/// The limits of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest time.
    pub time: Duration,
    /// The most memory, in MiB.
    pub memory: u64,
}

/// The end of a process. Displays as what the process did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It returned a status.
    Status(i32),
    /// It crashed: a signal ended it.
    Crashed(ExitStatus),
    /// It was killed for its time.
    OutOfTime(Duration),
    /// It was killed for its memory, in MiB.
    OutOfMemory(u64),
}

impl End {
    /// Returns the end of a process that was not killed. A shell returns 128 plus the number for a process of its own
    /// that a signal ended.
    fn of(status: ExitStatus) -> End {
        match status.code() {
            Some(code) if code <= 128 => End::Status(code),
            _ => End::Crashed(status),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Status(code) => write!(f, "ended with status {code}"),
            End::Crashed(status) => write!(f, "crashed ({status})"),
            End::OutOfTime(limit) => write!(f, "took more than {} s and was killed", limit.as_secs_f64()),
            End::OutOfMemory(limit) => write!(f, "took more than {limit} MiB of memory and was killed"),
        }
    }
}

/// A process that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Its end.
    pub end: End,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// Returns the last line of standard error that is not empty: a driver's last words.
    pub fn last_words(&self) -> Option<&str> {
        self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty())
    }
}

/// Returns a command that starts this program once more, in the way that it was started itself: `scripts/drivers.sh run`
/// puts a program that loads a driver before it, and names that in `COOP_RUNNER`.
pub fn this_program() -> Command {
    program_with(std::env::var_os("COOP_RUNNER").as_deref())
}

/// Returns a command that starts this program through another.
pub fn program_with(runner: Option<&OsStr>) -> Command {
    // `current_exe` would name the linker that the runner starts programs with.
    let program = std::env::args_os().next().unwrap_or_default();
    match runner {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Runs a process to its end, or kills it where it goes over a limit.
pub fn finish(command: &mut Command, limits: Limits) -> std::io::Result<Finished> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let end = wait(&mut child, limits, |_| {}, &|| false)?;
    let text = |thread: JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Finished { end: end.unwrap_or(End::OutOfTime(limits.time)), stdout: text(stdout), stderr: text(stderr) })
}

/// Runs a process and all that it starts to its end, or kills them where one of these goes over the time, the process itself goes over the
/// memory, or `stop` returns true: then there is no result. An interrupt of the terminal does not reach them.
pub fn finish_all(command: &mut Command, limits: Limits, stop: &dyn Fn() -> bool) -> std::io::Result<Option<Finished>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let end = wait(&mut child, limits, kill_group, stop)?;
    // What it left behind holds its output open.
    kill_group(&child);
    let text = |thread: JoinHandle<String>| thread.join().unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    Ok(end.map(|end| Finished { end, stdout, stderr }))
}

/// Kills the processes of the group that a process leads.
fn kill_group(child: &Child) {
    #[cfg(unix)]
    if let Ok(group) = i32::try_from(child.id()) {
        // They may have ended by themselves since.
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::Signal::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Waits for a process, or kills it: `None` if `stop` returned true.
fn wait(
    child: &mut Child,
    limits: Limits,
    kill_others: fn(&Child),
    stop: &dyn Fn() -> bool,
) -> std::io::Result<Option<End>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(End::of(status)));
        }
        let stopped = stop();
        let end = if stopped || start.elapsed() > limits.time {
            Some(End::OutOfTime(limits.time))
        } else if resident(child.id()).is_some_and(|held| held > limits.memory) {
            Some(End::OutOfMemory(limits.memory))
        } else {
            None
        };
        if let Some(end) = end {
            kill_others(child);
            // It may have ended by itself since.
            let _ = child.kill();
            child.wait()?;
            return Ok(Some(end).filter(|_| !stopped));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the MiB that a process holds in memory, where the system shows that.
fn resident(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MOST_OUTPUT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits) -> Finished {
        finish(Command::new("sh").args(["-c", script]), limits).unwrap()
    }

    const AMPLE: Limits = Limits { time: Duration::from_secs(60), memory: 4096 };

    #[test]
    fn ends_are_told_apart() {
        let fine = shell("echo out; echo first >&2; echo last >&2; echo >&2; exit 3", AMPLE);
        assert_eq!((fine.end, fine.stdout.as_str(), fine.last_words()), (End::Status(3), "out\n", Some("last")));
        assert!(matches!(shell("kill -SEGV $$", AMPLE).end, End::Crashed(_)));
        // As a shell says it of what it started.
        assert!(matches!(shell("exit 139", AMPLE).end, End::Crashed(_)));
        let time = Duration::from_millis(200);
        assert_eq!(shell("exec sleep 30", Limits { time, ..AMPLE }).end, End::OutOfTime(time));
        let hungry = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
        assert_eq!(shell(hungry, Limits { memory: 64, ..AMPLE }).end, End::OutOfMemory(64));
    }

    #[test]
    fn what_a_process_started_ends_with_it() {
        let time = Duration::from_millis(200);
        let start = Instant::now();
        let run = |script: &str, stop: bool| {
            let mut command = Command::new("sh");
            finish_all(command.args(["-c", script]), Limits { time, ..AMPLE }, &|| stop).unwrap()
        };
        // The second process holds the output open.
        let slow = run("echo out; sleep 30 & sleep 30; true", false).expect("it was not stopped");
        assert_eq!((slow.end, slow.stdout.as_str()), (End::OutOfTime(time), "out\n"));
        let left = run("sleep 30 & exit 4", false).expect("it was not stopped");
        assert_eq!(left.end, End::Status(4));
        assert_eq!(run("sleep 30; true", true), None);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
