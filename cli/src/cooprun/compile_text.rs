//! The table of `cooprun compile`: a row for each number, a column for each module, and the ratio of two.

use std::fmt::Write;

use coop_exec::compiled::{Compiled, Executable, Value};
use coop_exec::isa::{Counts, Kind, Weighed};

/// A module of the table.
pub(super) struct Column<'a> {
    /// The module's name.
    pub(super) name: String,
    /// The description of its pipeline.
    pub(super) compiled: &'a Compiled,
    /// The instructions that a subgroup executes, for each executable.
    pub(super) executed: &'a [Option<Weighed>],
}

/// Integers from here on are no counts: drivers also give hashes.
const NO_COUNT: f64 = 9.0e15;

/// Returns the table.
pub(super) fn table(columns: &[Column<'_>]) -> String {
    let Some(first) = columns.first() else { return String::new() };
    let mut text = format!("{}, {}\n\n", first.compiled.device, first.compiled.driver);
    let mut rows = vec![Row::head(columns), Row::time(columns)];
    let most = columns.iter().map(|c| executables(c.compiled).len()).max().unwrap_or(0);
    for at in 0..most {
        let of: Vec<Option<&Executable>> = columns.iter().map(|c| executables(c.compiled).get(at)).collect();
        rows.extend(rows_of(&of));
        let executed: Vec<Option<Weighed>> = columns.iter().map(|c| c.executed.get(at).copied().flatten()).collect();
        rows.extend(executed_rows(&executed));
    }
    let wide = |at: usize| rows.iter().filter_map(|r| r.cells.get(at)).map(|c| c.len()).max().unwrap_or(0).max(10);
    let widths: Vec<usize> = (0..=columns.len()).map(wide).collect();
    let name = rows.iter().filter(|r| !r.cells.is_empty()).map(|r| r.name.len()).max().unwrap_or(0);
    for row in &rows {
        let _ = write!(text, "{:<name$}", row.name);
        row.cells.iter().zip(&widths).for_each(|(cell, wide)| _ = write!(text, "  {cell:>wide$}"));
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    for column in columns.iter().filter(|column| column.compiled.executables.is_none()) {
        let _ = writeln!(
            text,
            "\n{}: the driver lacks VK_KHR_pipeline_executable_properties, so the time is all that is known",
            column.name
        );
    }
    text
}

fn executables(compiled: &Compiled) -> &[Executable] {
    compiled.executables.as_deref().unwrap_or_default()
}

struct Row {
    name: String,
    cells: Vec<String>,
}

impl Row {
    fn head(columns: &[Column<'_>]) -> Row {
        let mut cells: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
        if columns.len() > 1 {
            cells.push("ratio".into());
        }
        Row { name: String::new(), cells }
    }

    fn time(columns: &[Column<'_>]) -> Row {
        let times: Vec<f64> = columns.iter().map(|c| c.compiled.time.as_secs_f64() * 1e3).collect();
        let mut cells: Vec<String> = times.iter().map(|t| format!("{t:.1}")).collect();
        cells.extend(ratio(&times.iter().copied().map(Some).collect::<Vec<_>>()));
        Row { name: "time to compile, ms".into(), cells }
    }

    fn new(name: &str, values: &[Option<Value>]) -> Row {
        let mut cells: Vec<String> =
            values.iter().map(|value| value.map_or_else(|| "-".into(), |v| v.to_string())).collect();
        cells.extend(ratio(&values.iter().map(|value| value.map(Value::number)).collect::<Vec<_>>()));
        Row { name: format!("  {name}"), cells }
    }

    fn title(name: String) -> Row {
        Row { name, cells: Vec::new() }
    }
}

/// Returns the cell of the ratio of the second value to the first, in a table of two.
fn ratio(values: &[Option<f64>]) -> Option<String> {
    let [one, other] = values else { return None };
    Some(match (one, other) {
        (Some(one), Some(other)) if *one > 0.0 && one.max(*other) < NO_COUNT => format!("{:.2}", other / one),
        _ => "-".into(),
    })
}

/// Returns the rows of the executables at one index.
fn rows_of(executables: &[Option<&Executable>]) -> Vec<Row> {
    let known = executables.iter().flatten();
    let Some(first) = known.clone().next() else { return Vec::new() };
    let mut sizes: Vec<String> =
        known.clone().filter(|e| e.subgroup_size > 0).map(|e| e.subgroup_size.to_string()).collect();
    sizes.dedup();
    let sizes = if sizes.is_empty() { String::new() } else { format!(", subgroups of {}", sizes.join(" and ")) };
    let mut rows =
        vec![Row::title(String::new()), Row::title(format!("{} ({}){sizes}", first.name, first.description))];
    let mut names: Vec<&str> = Vec::new();
    for statistic in known.clone().flat_map(|executable| &executable.statistics) {
        if !names.contains(&statistic.name.as_str()) {
            names.push(&statistic.name);
        }
    }
    let value = |name: &str| executables.iter().map(|e| e.and_then(|e| e.statistic(name))).collect::<Vec<_>>();
    rows.extend(names.into_iter().map(|name| Row::new(name, &value(name))));
    let counts: Vec<Option<Counts>> = executables.iter().map(|e| Some((*e)?.listing()?.counts())).collect();
    if counts.iter().any(Option::is_some) {
        rows.push(Row::title("instructions by kind".into()));
        for kind in Kind::ALL {
            let of: Vec<Option<Value>> = counts.iter().map(|c| c.as_ref().map(|c| Value::Uint(c.of(kind)))).collect();
            rows.push(Row::new(kind.name(), &of));
        }
    }
    rows
}

/// Returns the rows of the instructions that subgroups execute, if they are known of one module.
fn executed_rows(executed: &[Option<Weighed>]) -> Vec<Row> {
    if executed.iter().all(Option::is_none) {
        return Vec::new();
    }
    let row = |name: &str, of: &dyn Fn(&Weighed) -> f64| {
        let values = executed.iter().map(|one| one.as_ref().map(|one| Value::Uint(of(one).round() as u64)));
        Row::new(name, &values.collect::<Vec<_>>())
    };
    let mut rows = vec![Row::title("instructions that a subgroup executes".into())];
    rows.extend(Kind::ALL.iter().map(|kind| row(kind.name(), &|one| one.of(*kind))));
    rows.push(row("all", &Weighed::total));
    rows
}
