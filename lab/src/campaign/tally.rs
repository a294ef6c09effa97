//! The counts of a campaign by profile: the modules that ran in each place, and the fate of the others.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers by name.
pub type Counts = BTreeMap<String, u64>;

/// The counts for the modules of one profile.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Modules.
    pub modules: u64,
    /// Processor time, in seconds, added over all jobs.
    pub seconds: f64,
    /// The time by activity.
    pub spent: BTreeMap<String, f64>,
    /// Runs, by what ran where.
    pub runs: Counts,
    /// Runs that were skipped, by form, place and reason.
    pub skipped: Counts,
    /// The number of lowered modules, by target.
    pub lowered: Counts,
    /// Refusals of the lowering, by target and rule.
    pub refused: Counts,
    /// Failures, by class.
    pub failed: Counts,
}

/// The counts of a campaign, by profile.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The counts by profile.
    pub rows: BTreeMap<String, Row>,
    /// The number of each construct that was made.
    pub made: Counts,
}

fn add(to: &mut Counts, from: &Counts) {
    for (k, n) in from {
        *to.entry(k.clone()).or_default() += n;
    }
}

fn counts(of: &Value) -> Counts {
    let all = of.as_object().into_iter().flatten();
    all.filter_map(|(k, v)| Some((k.clone(), v.as_u64()?))).collect()
}

fn seconds(of: &Value) -> BTreeMap<String, f64> {
    let all = of.as_object().into_iter().flatten();
    all.filter_map(|(k, v)| Some((k.clone(), v.as_f64()?))).collect()
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.modules += other.modules;
        self.seconds += other.seconds;
        other.spent.iter().for_each(|(what, seconds)| self.spend(what, *seconds));
        add(&mut self.runs, &other.runs);
        add(&mut self.skipped, &other.skipped);
        add(&mut self.lowered, &other.lowered);
        add(&mut self.refused, &other.refused);
        add(&mut self.failed, &other.failed);
    }

    /// Adds time to an activity.
    pub fn spend(&mut self, what: &str, seconds: f64) {
        *self.spent.entry(what.to_owned()).or_default() += seconds;
    }
}

impl Tally {
    /// The row of a profile.
    pub fn row(&mut self, profile: impl ToString) -> &mut Row {
        self.rows.entry(profile.to_string()).or_default()
    }

    /// All rows together.
    pub fn total(&self) -> Row {
        let mut total = Row::default();
        self.rows.values().for_each(|r| total.add(r));
        total
    }

    /// Adds another's numbers.
    pub fn add(&mut self, other: &Tally) {
        for (profile, row) in &other.rows {
            self.row(profile).add(row);
        }
        add(&mut self.made, &other.made);
    }

    /// For another process.
    pub fn to_json(&self) -> Value {
        let row = |r: &Row| {
            json!({
                "modules": r.modules, "seconds": r.seconds, "spent": r.spent, "runs": r.runs, "skipped": r.skipped,
                "lowered": r.lowered, "refused": r.refused, "failed": r.failed,
            })
        };
        let rows: serde_json::Map<String, Value> = self.rows.iter().map(|(k, r)| (k.clone(), row(r))).collect();
        json!({ "rows": rows, "made": self.made })
    }

    /// Reads the counts that another process wrote. Missing ones are 0.
    pub fn from_json(value: &Value) -> Tally {
        let row = |v: &Value| Row {
            modules: v["modules"].as_u64().unwrap_or(0),
            seconds: v["seconds"].as_f64().unwrap_or(0.0),
            spent: seconds(&v["spent"]),
            runs: counts(&v["runs"]),
            skipped: counts(&v["skipped"]),
            lowered: counts(&v["lowered"]),
            refused: counts(&v["refused"]),
            failed: counts(&v["failed"]),
        };
        let rows = value["rows"].as_object().into_iter().flatten().map(|(k, v)| (k.clone(), row(v))).collect();
        Tally { rows, made: counts(&value["made"]) }
    }

    /// The table, and the reasons below it.
    pub fn table(&self, elapsed: f64) -> String {
        let columns: BTreeSet<&String> = self.rows.values().flat_map(|r| r.runs.keys()).collect();
        let mut lines: Vec<Vec<String>> = Vec::new();
        let mut head: Vec<String> = ["profile", "modules"].map(str::to_owned).to_vec();
        head.extend(columns.iter().map(|c| (*c).clone()));
        head.extend(["not run", "refused", "failed", "1/s and job"].map(str::to_owned));
        lines.push(head);
        let sum = |c: &Counts| c.values().sum::<u64>().to_string();
        let total = self.total();
        let named = self.rows.iter().map(|(k, r)| (k.as_str(), r));
        for (name, row) in named.chain((self.rows.len() > 1).then_some(("all", &total))) {
            let mut line = vec![name.to_owned(), row.modules.to_string()];
            line.extend(columns.iter().map(|c| row.runs.get(*c).copied().unwrap_or(0).to_string()));
            line.extend([sum(&row.skipped), sum(&row.refused), sum(&row.failed)]);
            line.push(format!("{:.1}", row.modules as f64 / row.seconds.max(1e-9)));
            lines.push(line);
        }
        let mut out = aligned(&lines);
        out.push_str(&aligned(&self.targets()));
        for (title, pick) in [
            ("not run", (|r: &Row| r.skipped.clone()) as fn(&Row) -> Counts),
            ("refused", |r| r.refused.clone()),
            ("failed", |r| r.failed.clone()),
        ] {
            let mut all: Vec<(u64, String)> = Vec::new();
            for (profile, row) in &self.rows {
                all.extend(pick(row).into_iter().map(|(what, n)| (n, format!("{profile}: {what}"))));
            }
            all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            if !all.is_empty() {
                out.push_str(&format!("{title}:\n"));
                all.iter().for_each(|(n, what)| out.push_str(&format!("  {n:>8}  {what}\n")));
            }
        }
        let rate = total.modules as f64 / elapsed.max(1e-9);
        if !total.spent.is_empty() {
            let parts: Vec<String> = total.spent.iter().map(|(what, seconds)| format!("{what} {seconds:.1}")).collect();
            out.push_str(&format!("seconds of all jobs: {}\n", parts.join(", ")));
        }
        out.push_str(&format!("{} modules in {elapsed:.1} s, {rate:.1} a second\n", total.modules));
        out
    }

    /// Returns the results of the modules of each profile by target: a line for each place that ran them. Empty if
    /// nothing was lowered.
    fn targets(&self) -> Vec<Vec<String>> {
        let mut lines = Vec::new();
        for (profile, row) in &self.rows {
            let sum = |c: &Counts, pick: &dyn Fn(&str) -> bool| {
                c.iter().filter(|(k, _)| pick(k)).map(|(_, n)| n).sum::<u64>()
            };
            let of = |what: &str, target: &str| what.split([' ', ',', ':']).next() == Some(target);
            let targets: BTreeSet<&str> = row
                .lowered
                .keys()
                .map(String::as_str)
                .chain(row.refused.keys().filter_map(|k| k.split(':').next()))
                .collect();
            for target in targets {
                let lowered = row.lowered.get(target).copied().unwrap_or(0);
                let refused = sum(&row.refused, &|k| of(k, target));
                let troubles = sum(&row.failed, &|k| of(k, target));
                for place in ["interp", "vulkan", "opencl"] {
                    let name = format!("{target} {place}");
                    let Some(ran) = row.runs.get(&name).copied() else { continue };
                    // Such trouble was noticed when it had run.
                    let late = |k: &str| {
                        k == format!("{name} differs")
                            || k.ends_with(": complaints")
                            || k.ends_with(": not as expected")
                    };
                    let alike = ran - sum(&row.failed, &|k| of(k, target) && k.contains(place) && late(k)).min(ran);
                    let numbers = [row.modules, lowered, refused, ran, alike, troubles].map(|n| n.to_string());
                    lines.push([profile.clone(), name].into_iter().chain(numbers).collect());
                }
            }
        }
        if !lines.is_empty() {
            let head = ["profile", "lowered for, run by", "modules", "lowered", "refused", "run", "alike", "troubles"];
            lines.insert(0, head.map(str::to_owned).to_vec());
        }
        lines
    }

    /// The constructs, as one line.
    pub fn constructs(&self) -> String {
        let parts: Vec<String> = self.made.iter().map(|(k, n)| format!("{k} {n}")).collect();
        parts.join(", ")
    }
}

/// Lines of cells, the first column to the left.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|i| lines.iter().map(|l| l[i].len()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for line in lines {
        let cell = |(i, c): (usize, &String)| {
            if i == 0 { format!("{c:<w$}", w = widths[i]) } else { format!("{c:>w$}", w = widths[i]) }
        };
        let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}
