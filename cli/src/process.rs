//! Processes that the tools start for what may crash, hang or take all memory: a driver's compiler.
//!
//! A process that goes over a limit is killed, so every call of [`finish`] returns, also where something that the process started still
//! holds its output open. The limit of memory is watched where `/proc` shows what a process holds (Linux), and is no limit elsewhere.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The time between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// The number of looks at a process between two at the memory of its group.
const LOOKS: u32 = 10;

/// The time after the end of a process for which its output is waited for: what left its group may hold that open.
const REST: Duration = Duration::from_secs(2);

/// The most bytes that are kept of what a process writes; the rest is read and dropped.
const MOST_OUTPUT: usize = 1 << 28;

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
    let end = wait(&mut child, limits, Others::Left, &|| false)?;
    let until = Instant::now() + REST;
    let (stdout, stderr) = (text(&stdout, until), text(&stderr, until));
    Ok(Finished { end: end.unwrap_or(End::OutOfTime(limits.time)), stdout, stderr })
}

/// Runs a process and all that it starts to its end, or kills them where they go over the time or, together, over the memory, or
/// where `stop` returns true: then there is no result. An interrupt of the terminal does not reach them.
pub fn finish_all(command: &mut Command, limits: Limits, stop: &dyn Fn() -> bool) -> std::io::Result<Option<Finished>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let end = wait(&mut child, limits, Others::Group, stop)?;
    // What it left behind holds its output open.
    kill_group(&child);
    let until = Instant::now() + REST;
    let (stdout, stderr) = (text(&stdout, until), text(&stderr, until));
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

/// The processes that a process starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// They are its own affair.
    Left,
    /// They are of the group that it leads: limits hold for all of them together, and they end with it.
    Group,
}

/// Waits for a process, or kills it: `None` if `stop` returned true.
fn wait(child: &mut Child, limits: Limits, others: Others, stop: &dyn Fn() -> bool) -> std::io::Result<Option<End>> {
    let start = Instant::now();
    for look in 0_u32.. {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(End::of(status)));
        }
        let stopped = stop();
        let end = if stopped || start.elapsed() > limits.time {
            Some(End::OutOfTime(limits.time))
        } else if resident(child.id()).is_some_and(|held| held > limits.memory)
            || others == Others::Group && look % LOOKS == 0 && resident_of_group(child.id()) > limits.memory
        {
            Some(End::OutOfMemory(limits.memory))
        } else {
            None
        };
        if let Some(end) = end {
            if others == Others::Group {
                kill_group(child);
            }
            // It may have ended by itself since.
            let _ = child.kill();
            child.wait()?;
            return Ok(Some(end).filter(|_| !stopped));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Returns the MiB that a process holds in memory, where the system shows that.
fn resident(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// Returns the MiB that the processes of a group hold in memory, as far as the system shows that.
fn resident_of_group(group: u32) -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_group = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Behind the name, which may have any character: the state, the parent, the group.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(2).and_then(|field| field.parse().ok()) == Some(group)
    };
    numbers.filter(of_group).filter_map(resident).sum()
}

/// Reads a pipe on a thread of its own, which sends what it has read; the channel is closed at the end.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut left = MOST_OUTPUT;
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let kept = count.min(left);
            left -= kept;
            // The rest is read and dropped, so that the process can go on.
            if kept > 0 && sender.send(buffer[..kept].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns what was read, waiting for the end of the pipe for no longer than until then.
fn text(pipe: &Receiver<Vec<u8>>, until: Instant) -> String {
    let mut bytes = Vec::new();
    loop {
        match pipe.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(part) => bytes.extend(part),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
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
        // One that left the group holds the output open, and nothing waits for it.
        let away = run("echo out; setsid sleep 30 & exit 4", false).expect("it was not stopped");
        assert_eq!((away.end, away.stdout.as_str()), (End::Status(4), "out\n"));
        let away = shell("echo out; sleep 30 & exit 4", AMPLE);
        assert_eq!((away.end, away.stdout.as_str()), (End::Status(4), "out\n"));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    /// Processes that it starts count with it: a shell is small, whatever it runs.
    #[test]
    fn the_limit_of_memory_is_for_all_of_a_group() {
        let hungry = "sh -c 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done'; true";
        let limits = Limits { memory: 64, ..AMPLE };
        let done = finish_all(Command::new("sh").args(["-c", hungry]), limits, &|| false).unwrap();
        assert_eq!(done.map(|done| done.end), Some(End::OutOfMemory(64)));
    }
}
