//! `cooplab figures`: how fast kernels are, and what the lowerings make of them, beside hand-written ones.
//!
//! Every figure is one computation with the same inputs for all who do it. Each contender is tried with several
//! specializations; the best that gives the right answer counts, and the spread says how much the choice matters. What can't
//! be lowered or run stays in the table with its reason below.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use coop_device::Feature;
use coop_exec::measure::{Inputs, MeasureOptions};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, RunOptions};
use coop_ir::Module;
use coop_lab::engine::{self, Choice};
use coop_lab::figures::{Contender, Figure, List, Try};
use coop_passes::{Options, Target};

use coop_cli::args::{MOST_BENCH, MOST_SECONDS, whole};
use coop_cli::cooprun::results::tera_operations;
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::io;
use coop_cli::progress::Progress;
use coop_cli::{Status, io::FileError};

#[derive(Args, Debug)]
pub(crate) struct Figures {
    /// The list (TOML); with --engine the folder of the engine's shaders
    list: PathBuf,
    /// Measure ggml's pipelines, with the tiles and dispatches that it chooses
    #[arg(long)]
    engine: bool,
    /// With --engine: multiprocessors of the device, by which the engine chooses tiles
    #[arg(long, value_name = "N", default_value_t = 132)]
    cores: u32,
    /// With --engine: operations of a few tiles
    #[arg(long)]
    small: bool,
    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only these columns: nv2, to-khr, to-scalar, khr, scalar
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    column: Vec<String>,
    /// Dispatches to measure for each try
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>(1, MOST_BENCH))]
    bench: u32,
    /// Try nothing new after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 540, value_parser = whole::<u64>(0, MOST_SECONDS))]
    seconds: u64,
    /// Seconds to wait for a submission
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// Try only the first N specializations of each contender
    #[arg(long, value_name = "N")]
    tries: Option<usize>,
    /// Keep the lowered modules here
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The contenders, in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Column {
    Native,
    ToKhr,
    ToScalar,
    Khr,
    Scalar,
}

impl Column {
    const ALL: [Column; 5] = [Column::Native, Column::ToKhr, Column::ToScalar, Column::Khr, Column::Scalar];

    fn name(self) -> &'static str {
        match self {
            Column::Native => "nv2",
            Column::ToKhr => "to-khr",
            Column::ToScalar => "to-scalar",
            Column::Khr => "khr",
            Column::Scalar => "scalar",
        }
    }

    fn contender(self, figure: &Figure) -> Option<&Contender> {
        match self {
            Column::Native | Column::ToKhr | Column::ToScalar => Some(&figure.nv2),
            Column::Khr => figure.khr.as_ref(),
            Column::Scalar => figure.scalar.as_ref(),
        }
    }

    fn tries(self, figure: &Figure) -> &[Try] {
        match self {
            Column::ToKhr if !figure.lowered_khr.is_empty() => &figure.lowered_khr,
            Column::ToScalar if !figure.lowered_scalar.is_empty() => &figure.lowered_scalar,
            _ => self.contender(figure).map_or(&[], |contender| &contender.tries),
        }
    }

    fn target(self) -> Option<Target> {
        match self {
            Column::ToKhr => Some(Target::Khr),
            Column::ToScalar => Some(Target::Scalar),
            _ => None,
        }
    }
}

/// The results of the tries of one contender.
#[derive(Default)]
struct Results {
    /// TFLOP/s of those that were right, and which.
    rates: Vec<(f64, String)>,
    /// The failures of the others.
    failures: Vec<String>,
}

impl Results {
    fn best(&self) -> Option<&(f64, String)> {
        self.rates.iter().max_by(|(one, _), (other, _)| one.total_cmp(other))
    }

    fn worst(&self) -> Option<f64> {
        self.rates.iter().map(|(rate, _)| *rate).min_by(f64::total_cmp)
    }
}

impl Figures {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if !self.engine && self.small {
            return Err(Failure::Usage("--small is for --engine; a list has its own sizes".to_owned()));
        }
        for name in &self.column {
            if Column::ALL.iter().all(|column| column.name() != name) {
                let known = Column::ALL.map(Column::name).join(", ");
                return Err(Failure::Usage(format!("--column: there is no '{name}', only: {known}")));
            }
        }
        let vulkan = self.device.open()?;
        let executor = self.device.executor(&vulkan)?;
        let driver = executor.profile();
        let list = if self.engine {
            let subgroup = driver.limits.subgroup_size;
            engine::list(&self.list, Choice { cores: self.cores, subgroup, small: self.small })
        } else {
            List::load(&self.list)?
        };
        print(&format!("{}, {} {}", driver.device, driver.driver, driver.driver_info));
        let deadline = Instant::now() + Duration::from_secs(self.seconds);
        let mut table = Vec::new();
        let progress = Progress::new(list.figure.len() as u64, "{pos} of {len} figures, {msg}, {eta} left", true);
        for figure in &list.figure {
            progress.say(figure.name.clone());
            if !self.only.is_empty() && self.only.iter().all(|text| !figure.name.contains(text.as_str())) {
                continue;
            }
            let mut inputs: BTreeMap<&Path, Inputs> = BTreeMap::new();
            let mut row = BTreeMap::new();
            for column in Column::ALL {
                if !self.column.is_empty() && self.column.iter().all(|name| name != column.name()) {
                    continue;
                }
                let Some(contender) = column.contender(figure) else { continue };
                let path = figure.case_of(contender);
                if !inputs.contains_key(path) {
                    let start = Instant::now();
                    inputs.insert(path, Inputs::new(list.case(path)?)?);
                    print(&format!("{}: inputs made in {:.1} s", figure.name, start.elapsed().as_secs_f64()));
                }
                if let Some(inputs) = inputs.get(path) {
                    row.insert(column, self.measure(&executor, &list, figure, column, inputs, deadline)?);
                }
            }
            table.push((figure.name.as_str(), row));
            progress.step();
        }
        drop(progress);
        print(&render(&table));
        Ok(Status::Success)
    }

    fn measure(
        &self,
        executor: &VulkanExecutor<'_>,
        list: &List,
        figure: &Figure,
        column: Column,
        inputs: &Inputs,
        deadline: Instant,
    ) -> Result<Results, Failure> {
        let mut results = Results::default();
        let Some(contender) = column.contender(figure) else { return Ok(results) };
        let modules = match column.target() {
            Some(_) if !figure.lowered.is_empty() => figure.lowered.as_slice(),
            _ => std::slice::from_ref(&contender.module),
        };
        for path in modules {
            let mut module = io::load(&list.folder.join(path))?.module;
            if self.engine
                && column == Column::Native
                && !executor.profile().has(Feature::CooperativeMatrixDecodeVector)
            {
                engine::without_vector_decoding(&mut module);
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let tries = column.tries(figure);
            for one in tries.iter().take(self.tries.unwrap_or(tries.len())) {
                let name = if modules.len() > 1 { format!("{stem} {}", one.name()) } else { one.name() };
                let line = format!("{:<24} {:<10} {name:<34}", figure.name, column.name());
                if Instant::now() > deadline {
                    results.failures.push(format!("{name}: {NOT_TRIED}"));
                    continue;
                }
                let mut case = one.apply(inputs.case(), figure.grid);
                case.full_subgroups |= contender.full_subgroups;
                case.subgroup_size = case.subgroup_size.or(contender.subgroup_size);
                match self.try_one(executor, &module, column, case, inputs) {
                    Ok(found) => {
                        print(&format!("{line} {}", found.text));
                        match found.wrong {
                            None => results.rates.push((found.rate, name)),
                            Some(why) => results.failures.push(format!("{name}: {why}")),
                        }
                    }
                    Err(why) => {
                        print(&format!("{line} {}", why.replace('\n', ";")));
                        results.failures.push(format!("{name}: {why}"));
                    }
                }
            }
        }
        Ok(results)
    }

    fn try_one(
        &self,
        executor: &VulkanExecutor<'_>,
        module: &Module,
        column: Column,
        mut case: Case,
        inputs: &Inputs,
    ) -> Result<Found, String> {
        let mut text = String::new();
        let words = match column.target() {
            None => coop_ir::binary::write_words(module),
            Some(target) => {
                let start = Instant::now();
                let options = Options {
                    spec: case.specialization().map_err(|error| error.to_string())?,
                    spec_defaults: true,
                    profile: Some(executor.profile()),
                    subgroup_size: case.subgroup_size,
                    ..Options::new(target)
                };
                let lowered = guarded(|| coop_passes::lower(module, &options))?.map_err(|error| error.to_string())?;
                case.subgroup_size = lowered.report.required_subgroup_size.or(case.subgroup_size);
                case.full_subgroups |= lowered.report.full_subgroups;
                let words = coop_ir::binary::write_words(&lowered.module);
                let bytes = words.len() * 4;
                let _ = write!(text, ", lowered in {:.0} ms to {bytes} bytes", start.elapsed().as_secs_f64() * 1e3);
                if let Some(folder) = &self.dump_dir {
                    dump(folder, &format!("{}-{}", column.name(), case_key(&case)), &words)
                        .map_err(|error| error.to_string())?;
                }
                words
            }
        };
        let run = RunOptions { bench: self.bench, timeout: Duration::from_secs(self.timeout), ..RunOptions::default() };
        let options = MeasureOptions { run, warm_up: WARM_UP };
        let (measured, differences) =
            inputs.measure(executor, &words, &case, &options).map_err(|error| error.to_string())?;
        let median = measured.median().unwrap_or_default();
        let rate = tera_operations(&case, median).unwrap_or_default();
        let wrong = differences.first().map(|difference| {
            let text = difference.to_string();
            format!("wrong: {}", text.lines().next().unwrap_or_default())
        });
        let _ = write!(text, ", compiled in {:.1} s", measured.compiled.as_secs_f64());
        if let Some(wrong) = &wrong {
            let _ = write!(text, ", {wrong}");
        }
        Ok(Found { text: format!("{:>9.3} ms {rate:>8.2} TFLOP/s{text}", median.as_secs_f64() * 1e3), rate, wrong })
    }
}

/// The end of the message of a try for which there was no time.
const NOT_TRIED: &str = "not tried, the time was over";

/// How long the device is kept busy before it is measured: while the driver compiles for seconds, the clocks go down to a fifth, and
/// they take some tenths of a second to come up again.
const WARM_UP: Duration = Duration::from_millis(600);

/// The result of one try.
struct Found {
    text: String,
    rate: f64,
    wrong: Option<String>,
}

/// Runs what may have a bug; a panic is an error here, where `crate::run` would end the tool.
fn guarded<T>(action: impl FnOnce() -> T) -> Result<T, String> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(action));
    set_hook(hook);
    result.map_err(|_| "the lowering has a bug: it panicked".to_owned())
}

fn case_key(case: &Case) -> String {
    let values: Vec<String> =
        case.spec.values().filter_map(|number| number.value().ok()).map(|v| v.to_string()).collect();
    values.join("-")
}

fn dump(folder: &Path, name: &str, words: &[u32]) -> Result<(), FileError> {
    let fail = |error: std::io::Error| FileError { name: folder.display().to_string(), message: error.to_string() };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    io::write_bytes(&folder.join(format!("{name}.spv")), &bytes)
}

/// The geometric mean of numbers above 0, if there are any.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.filter(|v| *v > 0.0).fold((0.0, 0_u32), |(sum, count), v| (sum + v.ln(), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// The table: the best of each, how much of it the worst try reaches, and what the lowered ones are worth.
fn render(table: &[(&str, BTreeMap<Column, Results>)]) -> String {
    let wide = table.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(24);
    let mut text = format!("\n{:<wide$}", "TFLOP/s, best of tries");
    for column in Column::ALL {
        let _ = write!(text, " {:>10}", column.name());
    }
    let ratios = [(Column::ToKhr, Column::Khr), (Column::ToScalar, Column::Scalar), (Column::ToKhr, Column::Native)];
    let _ = writeln!(text, " {:>10} {:>10} {:>10}", "to-khr/khr", "to-sc./sc.", "khr/nv2");
    let best = |row: &BTreeMap<Column, Results>, column| row.get(&column).and_then(Results::best).map(|best| best.0);
    let ratio = |row: &BTreeMap<Column, Results>, (one, other)| {
        Some((best(row, one)?, best(row, other)?)).filter(|(_, other)| *other > 0.0).map(|(one, other)| one / other)
    };
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    for (name, row) in table {
        let _ = write!(text, "{name:<wide$}");
        for column in Column::ALL {
            let cell = match row.get(&column) {
                None => "".to_owned(),
                Some(results) => match results.best() {
                    Some((rate, _)) => format!("{rate:.1}"),
                    None if results.failures.is_empty() => "-".to_owned(),
                    None if results.failures.iter().all(|f| f.ends_with(NOT_TRIED)) => "not tried".to_owned(),
                    None => "refused".to_owned(),
                },
            };
            let _ = write!(text, " {cell:>10}");
        }
        ratios.iter().for_each(|pair| _ = write!(text, " {:>10}", number(ratio(row, *pair))));
        text.push('\n');
    }
    let _ = write!(text, "{:<wide$}", "geometric mean");
    for column in Column::ALL {
        let rates = table.iter().filter_map(|(_, row)| best(row, column));
        let _ =
            write!(text, " {:>10}", geometric_mean(rates).map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}")));
    }
    for pair in ratios {
        let _ = write!(text, " {:>10}", number(geometric_mean(table.iter().filter_map(|(_, row)| ratio(row, pair)))));
    }
    text.push('\n');
    text.push('\n');
    for (name, row) in table {
        for (column, results) in row {
            let place = format!("{name}, {}", column.name());
            if let (Some((_, choice)), Some(worst)) = (results.best(), results.worst()) {
                let _ = writeln!(text, "{place}: best {choice}; worst of {} {worst:.1}", results.rates.len());
            }
            let mut last = "";
            for failure in &results.failures {
                let reason = failure.split_once(": ").map_or(failure.as_str(), |(_, reason)| reason);
                if reason != last {
                    let _ = writeln!(text, "{place}: {}", failure.replace('\n', ";"));
                }
                last = reason;
            }
        }
    }
    text
}
