//! `cooplab uniformity`: the soundness of the uniformity analysis, with the interpreter as judge.

use clap::Args;
use coop_cli::Status;
use coop_cli::args::{MOST_ENTROPY, MOST_JOBS, whole};
use coop_cli::cooprun::{Failure, print};
use coop_cli::io;
use coop_lab::campaign::entropy;
use coop_lab::generator::diverge::{Constructs, diverge_with};
use coop_lab::uniformity::{Open, Tally, Wrong, shrink, try_entropy};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub(crate) struct Uniformity {
    /// The number of modules
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The seed of the first; each module has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The most entropy for a module, which is how large it may become
    #[arg(long, value_name = "BYTES", default_value_t = 500, value_parser = whole::<usize>(1, MOST_ENTROPY))]
    bytes: usize,
    /// Threads that share the work [default: all processors]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, MOST_JOBS))]
    jobs: Option<usize>,
    /// Keep what goes wrong here, shrunk, as assembly; with --open also modules with errors that no run has confirmed
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Make control flow and 32-bit arithmetic only, as seeds below 4000000 in the documentation mean it
    #[arg(long)]
    basic: bool,
    /// List the errors that no run has confirmed
    #[arg(long)]
    open: bool,
}

impl Uniformity {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let start = Instant::now();
        let next = AtomicU64::new(0);
        let total = Mutex::new((Tally::default(), 0u64, Instant::now()));
        let jobs = self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| self.work(&next, &total, start));
            }
        });
        let (tally, bad, _) = total.into_inner().unwrap_or_else(|e| e.into_inner());
        if self.open {
            tally.open.iter().for_each(|o| print(&open(o)));
        }
        print(&table(&tally, bad, start.elapsed()));
        Ok(if bad == 0 { Status::Success } else { Status::Findings })
    }

    fn work(&self, next: &AtomicU64, total: &Mutex<(Tally, u64, Instant)>, start: Instant) {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= self.count {
                return;
            }
            let seed = self.seed.wrapping_add(n);
            let mut tally = Tally::default();
            let bytes = entropy(seed, self.bytes);
            let result = try_entropy(&bytes, self.constructs(), seed, &mut tally);
            let mut said = None;
            {
                let mut all = total.lock().unwrap_or_else(|e| e.into_inner());
                all.0.add(&tally);
                all.1 += u64::from(result.is_err());
                if all.2.elapsed() > Duration::from_secs(20) {
                    all.2 = Instant::now();
                    let rate = all.0.modules as f64 / start.elapsed().as_secs_f64();
                    said = Some(format!("{} modules, {rate:.0} a second, {} wrong", all.0.modules, all.1));
                }
            }
            if let Some(line) = said {
                io::error(&line);
            }
            match result {
                Err(w) => self.tell(seed, &bytes, &w),
                Ok(()) if self.open && !tally.open.is_empty() => {
                    let why = tally.open.iter().map(open).collect::<Vec<_>>().join("\n");
                    self.keep(seed, &bytes, &why);
                }
                Ok(()) => {}
            }
        }
    }

    fn constructs(&self) -> Constructs {
        if self.basic { Constructs::Basic } else { Constructs::All }
    }

    fn tell(&self, seed: u64, bytes: &[u8], wrong: &Wrong) {
        print(&format!("seed {seed}: {}: {}", wrong.class, wrong.message));
        if self.keep.is_none() {
            return;
        }
        let constructs = self.constructs();
        let less = shrink(bytes, constructs, seed, wrong.class);
        let why =
            try_entropy(&less, constructs, seed, &mut Tally::default()).err().map_or(String::new(), |w| w.message);
        self.keep(seed, &less, &why);
    }

    /// Writes a module, and what is to be said of it.
    fn keep(&self, seed: u64, bytes: &[u8], why: &str) {
        let Some(folder) = &self.keep else { return };
        let module = diverge_with(bytes, self.constructs()).module;
        let text = coop_ir::text::print(&module, &coop_ir::text::PrintOptions::default()).text;
        let comment: String = why.lines().map(|l| format!("; {l}\n")).collect();
        let file = folder.join(format!("{seed}.spvasm"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, comment + &text));
        if let Err(e) = written {
            io::error(&format!("{}: {e}", file.display()));
        }
    }
}

fn open(o: &Open) -> String {
    let operand = o.operand.map_or(String::new(), |i| format!(" operand {i}"));
    let deciding = o.deciding.map_or(String::new(), |at| format!(", decided by {}", at.index()));
    let behind = if o.behind { ", behind other undefined behaviour" } else { "" };
    let (one, other) = o.invocations;
    let at = o.at.index();
    format!("seed {}: subgroups of {}: instruction {at}{operand}: {one} and {other}{deciding}{behind}", o.seed, o.size)
}

fn table(t: &Tally, bad: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let rows = [
        ("modules", t.modules),
        ("runs", t.runs),
        ("  with other undefined behaviour", t.cut_short),
        ("instructions that must be executed together", t.checked),
        ("  called uniform", t.uniform),
        ("    under an assumption", t.assumed),
        ("  perhaps not uniform", t.doubted),
        ("    seen so in some run", t.doubted_seen),
        ("  shown not to be uniform", t.shown),
        ("    seen so in some run", t.shown_seen),
        ("    seen so with data for the branches around", t.shown_freed),
        ("    seen so behind other undefined behaviour", t.shown_behind),
        ("    not reached", t.shown - t.shown_seen - t.shown_freed - t.shown_behind),
        ("wrong", bad),
    ];
    let mut out: String = rows.iter().map(|(name, n)| format!("{name:<46}{n:>12}\n")).collect();
    out.push_str(&format!("{:<46}{seconds:>12.1}\n", "seconds"));
    out.push_str(&format!("{:<46}{:>12.0}", "modules a second", t.modules as f64 / seconds.max(1e-9)));
    out
}
