//! Planted errors: a sample is refuted or equivalent, and no proof is contradicted by a run. `cooplab proofs --planted` has
//! more of them.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use coop_cli::args::TargetArg;
use coop_exec::interp::Arithmetic;
use coop_exec::proof::{Options, Verdict};
use coop_exec::testing::repository;
use coop_lab::generator::Dialect;
use coop_lab::planted::{Kind, sites};
use coop_lab::proof_campaign::{Campaign, Outcomes};
use coop_lab::proof_parts::{ENDED, Parts};
use coop_lab::proof_reasons::Reason;
use coop_lab::proofs::{List, Setting, Subject, Tally, made, word};

fn subjects(path: &Path, only: &[&str]) -> Vec<Subject> {
    let list = List::load(path).unwrap_or_else(|error| panic!("{error}"));
    let wanted = list.proof.iter().filter(|entry| only.iter().any(|name| entry.module.ends_with(name)));
    wanted
        .flat_map(|entry| list.subjects(entry).unwrap_or_else(|error| panic!("{error}")))
        .map(|subject| subject.unwrap_or_else(|refusal| panic!("{refusal}")))
        .collect()
}

fn options() -> Options {
    Options { arithmetic: Arithmetic::Reals, seed: 7, fixed: Vec::new(), explain: true }
}

#[test]
fn planted_errors_are_refuted_or_equivalent() {
    let list = repository().join("testdata/proofs.toml");
    let mut tally = Tally::default();
    for subject in subjects(&list, &["gemm_simple.spv", "functions.spv", "colmajor.spv", "gemm_i8.spv"]) {
        for trial in subject.plant(&options(), 6, 7).unwrap_or_else(|error| panic!("{}: {error}", subject.name)) {
            let what = format!("{}: {}", subject.name, trial.planted);
            assert_eq!(trial.contradicted, None, "{what} is proved");
            assert!(!trial.elsewhere, "{what}: {:?}", trial.verdict);
            // What an ordinary run finds, a proof does not miss.
            assert!(trial.found.is_none() || trial.verdict != Verdict::Proved, "{what}: {:?}", trial.found);
            tally.add(&trial);
        }
    }
    let [planted, refuted, proved, open, _] = tally.total();
    assert!(
        planted >= 50 && refuted * 10 >= planted * 6 && open * 20 <= planted,
        "{planted} {refuted} {proved} {open}"
    );
}

/// Errors of rounding, of which a proof among the reals knows nothing.
#[test]
fn planted_errors_of_rounding_are_no_proofs() {
    let list = repository().join("testdata/proofs.toml");
    let options = Options { arithmetic: Arithmetic::Rounding, ..options() };
    let mut tally = Tally::default();
    for subject in subjects(&list, &["gemm_simple.spv", "functions.spv", "colmajor.spv"]) {
        if !subject.prove(&options).unwrap_or_else(|error| panic!("{}: {error}", subject.name)).is_proved() {
            continue;
        }
        for trial in subject.plant(&options, 4, 7).unwrap_or_else(|error| panic!("{}: {error}", subject.name)) {
            let what = format!("{}: {}", subject.name, trial.planted);
            assert!(Kind::OF_ROUNDING.contains(&trial.planted.kind), "{what}");
            assert_eq!(trial.contradicted, None, "{what} is proved");
            assert!(!trial.elsewhere, "{what}: {:?}", trial.verdict);
            tally.add(&trial);
        }
    }
    let [planted, _, proved, ..] = tally.total();
    assert!(planted >= 12 && proved < planted, "{}", tally.table());
}

/// Recorded cases of devices and cases of other dialects: each eighth of them, and one whose stores overlap.
#[test]
fn recorded_cases_are_proved() {
    let list = List::load(&repository().join("testdata/proofs.toml")).unwrap_or_else(|error| panic!("{error}"));
    let tasks = list.tasks().unwrap_or_else(|error| panic!("{error}"));
    let of = tasks.iter().filter(|task| task.name.starts_with("hardware/") && task.open.is_none());
    let (mut proved, mut failures) = (0, Vec::new());
    for (_, task) in of.enumerate().filter(|(n, task)| n % 8 == 0 || task.name == "hardware/view") {
        let subject = task.subject(task.targets[0], Setting::default()).unwrap_or_else(|error| panic!("{error}"));
        let proof = subject.map(|subject| subject.prove(&options()).unwrap_or_else(|error| panic!("{error}")));
        match proof {
            Ok(proof) if proof.is_proved() => proved += 1,
            Ok(proof) => failures.push(format!("{}: {proof}", task.name)),
            Err(refusal) => failures.push(format!("{}: {refusal}", task.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(proved >= 25, "only {proved} are proved");
}

/// A lowering holds with each placement of elements and each size of subgroups.
#[test]
fn lowerings_are_proved_in_each_setting() {
    let list = List::load(&repository().join("testdata/proofs.toml")).unwrap_or_else(|error| panic!("{error}"));
    let tasks = list.tasks().unwrap_or_else(|error| panic!("{error}"));
    let mut proved = 0;
    for task in tasks.iter().filter(|task| task.name == "kernels/gemm_simple") {
        for (target, setting) in
            task.targets.iter().flat_map(|target| task.settings().into_iter().map(move |s| (*target, s)))
        {
            let what = format!("{} to {}, {setting:?}", task.name, word(target));
            let subject = match task.subject(target, setting).unwrap_or_else(|error| panic!("{what}: {error}")) {
                Ok(subject) => subject,
                Err(refusal) if refusal.contains("[refused-subgroup-size]") => continue,
                Err(refusal) => panic!("{what}: {refusal}"),
            };
            let proof = subject.prove(&options()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(proof.is_proved(), "{what}: {proof}");
            proved += 1;
        }
    }
    assert!(proved >= 8, "only {proved} are proved");
}

/// Every kind of error finds a place in some lowering.
#[test]
fn all_kinds_of_errors_have_places() {
    let list = repository().join("testdata/proofs.toml");
    let all: Vec<Kind> =
        subjects(&list, &["gemm_tutorial.spv", "crosstype.spv", "matmul_nv2_q4_k.spv", "flash_nv2.spv", "bda.spv"])
            .iter()
            .flat_map(|subject| sites(&subject.lowered))
            .map(|planted| planted.kind)
            .collect();
    let missing: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !all.contains(kind)).collect();
    assert_eq!(missing, []);
}

/// The outcome that a process writes for a module.
fn row(seed: u64, target: TargetArg) -> String {
    let of = Outcomes {
        target: word(target),
        verdict: "proved".to_owned(),
        reason: String::new(),
        count: 1,
        profile: "khr".to_owned(),
        seed,
        message: String::new(),
    };
    serde_json::to_string(&of).expect("JSON")
}

/// A process that ends costs one lowering, and a campaign goes on where its file ends.
#[test]
fn a_campaign_goes_on_from_its_file() {
    let campaign = |modules: u64| Campaign {
        modules,
        seed: 95,
        dialects: vec![Dialect::Khr],
        targets: vec![TargetArg::Scalar, TargetArg::Khr],
        options: options(),
        jobs: 2,
        most: None,
    };
    // It ends at the lowering of module 98 to scalar, and at that of 100 to khr.
    let bad = [(98, TargetArg::Scalar), (100, TargetArg::Khr)];
    let command = |first: u64, modules: u64, targets: &[TargetArg]| {
        let mut script = String::new();
        for (seed, target) in (first..first + modules).flat_map(|seed| targets.iter().map(move |t| (seed, *t))) {
            match bad.contains(&(seed, target)) {
                true => script.push_str("kill -ABRT $$\n"),
                false => writeln!(script, "echo '{}'", row(seed, target)).expect("text"),
            }
        }
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("campaign.state");
    let _ = std::fs::remove_file(&path);
    let run = |modules: u64| Parts { campaign: &campaign(modules), command: &command }.run(&path, &|_| ());
    let table = run(10).expect("it runs");
    assert_eq!((table.modules, table.next), (10, 105));
    assert_eq!((table.count("proved"), table.count("failed")), (18, 2), "{}", table.text());
    let lost: Vec<(String, u64)> = table.wrong().map(|(target, of)| (target.to_owned(), of.seed)).collect();
    assert_eq!(lost, [("khr".to_owned(), 100), ("scalar".to_owned(), 98)]);
    assert!(table.wrong().all(|(_, of)| of.reason == ENDED && of.message.contains("signal: 6")), "{}", table.text());

    // The rest of a line that was being written is no outcome.
    let mut text = std::fs::read_to_string(&path).expect("the file");
    text.push_str("{\"first\":105,\"mod");
    std::fs::write(&path, &text).expect("the file");
    let longer = run(210).expect("it runs");
    assert_eq!((longer.modules, longer.next), (210, 305));
    assert_eq!((longer.count("proved"), longer.count("failed")), (418, 2), "{}", longer.text());
    let again = run(210).expect("it runs");
    assert_eq!(again, longer);

    let other = Campaign { targets: vec![TargetArg::Scalar], ..campaign(10) };
    let refused = Parts { campaign: &other, command: &command }.run(&path, &|_| ());
    assert!(refused.is_err_and(|why| why.contains("take another file")));
}

/// An open proof has a kind of reason that is known; one of another kind would be an outcome that somebody has to look at.
#[test]
fn open_proofs_have_known_reasons() {
    let targets = [TargetArg::Scalar, TargetArg::Khr];
    let campaign = Campaign {
        modules: 21,
        seed: 700_000,
        dialects: Dialect::ALL.to_vec(),
        targets: targets.to_vec(),
        options: options(),
        jobs: 2,
        most: None,
    };
    let table = campaign.run(&|_| ());
    let wrong: Vec<String> = table.wrong().map(|(to, of)| format!("{} to {to}: {}", of.first(), of.message)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: Vec<&str> = Reason::all().map(Reason::name).collect();
    for (_, of) in table.open() {
        let kind = of.reason.split(':').next().unwrap_or_default();
        assert!(names.contains(&kind), "{}: {}", of.first(), of.reason);
    }
    assert!(table.count("proved") >= 30, "{}", table.text());
}

/// Proves the lowerings of so many modules of each kind in which subgroups and workgroups meet.
fn meetings(count: usize) {
    let kinds = [
        "a factor from the module's own shared memory",
        "a matrix of another subgroup",
        "atomic instructions of all workgroups",
        "two entry points of one function",
    ];
    let targets = [TargetArg::Scalar, TargetArg::Khr];
    let campaign = Campaign {
        modules: 1,
        seed: 0,
        dialects: Dialect::ALL.to_vec(),
        targets: targets.to_vec(),
        options: options(),
        jobs: 1,
        most: None,
    };
    for (kind, target) in kinds.into_iter().flat_map(|kind| targets.map(|target| (kind, target))) {
        let has = |seed: &u64| made(campaign.profile(*seed, target), *seed).made.contains_key(kind);
        let (mut proved, mut wrong) = (0, Vec::new());
        for seed in (900_000..).filter(has).take(count) {
            let of = campaign.prove(seed, target);
            match of.verdict.as_str() {
                "proved" => proved += 1,
                "not provable" | "not lowered" => {}
                _ => wrong.push(format!("{} to {}: {}: {}", of.first(), of.target, of.verdict, of.message)),
            }
        }
        assert!(wrong.is_empty(), "{kind}: {}", wrong.join("\n"));
        assert!(proved * 2 >= count, "{kind} to {}: {proved} of {count} are proved", word(target));
    }
}

#[test]
fn modules_whose_subgroups_and_workgroups_meet_are_proved() {
    meetings(2);
}

#[test]
#[ignore = "scripts/test.sh long runs it: minutes; the test above has two modules of each kind"]
fn many_modules_whose_subgroups_and_workgroups_meet_are_proved() {
    meetings(200);
}
