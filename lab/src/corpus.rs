//! The modules that every driver's compiler is tried with: those of the repository, llama.cpp's, and generated ones.
//!
//! A [`Member`] is a module with the values of its constants, as an engine would make a pipeline of it. It is text
//! (JSON), so that a process can be told which one to take.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coop_exec::case::{Case, Number};
use coop_exec::error::Error;
use coop_exec::facts::Facts;
use coop_exec::testing::{llama, repository};
use coop_ir::constant::Specialization;
use coop_ir::{Module, binary, text};
use serde::{Deserialize, Serialize};

use crate::campaign::entropy;
use crate::figures::{Contender, List, Try};
use crate::generator::{Dialect, GeneratorProfile, Limits, generate};
use crate::record;

/// The folders of modules with cases.
const FOLDERS: [&str; 11] = [
    "kernels",
    "hardware",
    "passes",
    "dialects",
    "dialects/table",
    "tensor",
    "exec",
    "vulkan",
    "llama/cm2",
    "drivers",
    "drivers/gpu",
];

/// The subgroup size that [`Contender::wide`] is for.
const WIDE: u32 = 64;

/// The most bytes of entropy of a generated module.
const ENTROPY: usize = 400;

/// A part of the corpus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Modules of the repository that have cases.
    Testdata,
    /// Kernels that are measured, with their first choice of tiles.
    Bench,
    /// llama.cpp's modules with matrices, with constants that its engine gives them.
    Llama,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 3] = [Part::Testdata, Part::Bench, Part::Llama];

    /// Returns the name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Part::Testdata => "testdata",
            Part::Bench => "bench",
            Part::Llama => "llama",
        }
    }
}

/// A module and how a pipeline is made of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// The name, which no other has: a path with what tells uses of one module apart.
    pub name: String,
    source: Source,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Source {
    File {
        module: PathBuf,
        case: Option<CaseSource>,
        variant: Option<String>,
        /// Ways to use it, for devices with other subgroups each.
        ways: Vec<Way>,
    },
    Generated {
        profile: String,
        seed: u64,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum CaseSource {
    File(PathBuf),
    Text(String),
}

/// The values that an engine gives a pipeline.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Way {
    subgroup_size: Option<u32>,
    full_subgroups: bool,
    spec: BTreeMap<String, Number>,
    /// The elements of a figure's grid that a workgroup computes.
    tile: u64,
}

/// A member's module and the case of its pipeline.
pub struct Use {
    /// The module.
    pub module: Module,
    /// The entry point, the constants and the subgroup size; the rest is for runs.
    pub case: Case,
    /// The elements of the figure's grid that a workgroup computes; 1 for what is no figure.
    pub tile: u64,
}

impl Member {
    /// Returns true for a generated module.
    pub fn is_generated(&self) -> bool {
        matches!(self.source, Source::Generated { .. })
    }

    /// Reads or generates the module, for a device whose pipelines can require these subgroup sizes.
    pub fn load(&self, subgroup_sizes: &[u32]) -> Result<Use, Error> {
        match &self.source {
            Source::Generated { profile, seed } => {
                let profile = GeneratorProfile::from_name(profile)
                    .ok_or_else(|| Error::case(format!("there is no generator '{profile}'")))?;
                let made = generate(profile, &entropy(*seed, ENTROPY));
                Ok(Use { module: made.module, case: Case::parse(&made.case, Path::new(""))?, tile: 1 })
            }
            Source::File { module, case, variant, ways } => {
                let mut used = match case {
                    Some(CaseSource::File(case)) => Case::load(case)?,
                    Some(CaseSource::Text(case)) => Case::parse(case, Path::new(""))?,
                    None => Case { workgroups: [1; 3], ..Case::default() },
                };
                if let Some(variant) = variant {
                    used = used.with_variant(variant)?;
                }
                let fits = |way: &&Way| way.subgroup_size.is_none_or(|size| subgroup_sizes.contains(&size));
                let way = ways.iter().find(fits).or(ways.first());
                if let Some(way) = way {
                    used.spec.extend(way.spec.clone());
                    used.subgroup_size = way.subgroup_size.or(used.subgroup_size);
                    used.full_subgroups |= way.full_subgroups;
                }
                Ok(Use { module: read(module)?, case: used, tile: way.map_or(1, |way| way.tile) })
            }
        }
    }
}

fn read(path: &Path) -> Result<Module, Error> {
    let fail = |why: &dyn std::fmt::Display| Error::Module(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| fail(&error))?;
    if binary::is_binary(&bytes) {
        return binary::read(&bytes).map_err(|error| fail(&error));
    }
    text::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| fail(&error))
}

/// Returns the members of a part, in a fixed order.
pub fn members(part: Part) -> Result<Vec<Member>, Error> {
    match part {
        Part::Testdata => {
            let folders = FOLDERS.iter().map(|folder| testdata(folder));
            Ok(folders.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        }
        Part::Bench => bench(),
        Part::Llama => Ok(llama_members()),
    }
}

/// Returns generated members of each dialect: the seeds from `seed` on.
pub fn generated(count: u64, seed: u64) -> Vec<Member> {
    let one = |dialect: Dialect, at: u64| {
        // Sizes that devices with matrices have, and any.
        let wanted = if at.is_multiple_of(2) { Limits::Nvidia } else { Limits::Any };
        let limits = if dialect.has(wanted) { wanted } else { Limits::Any };
        let (profile, seed) = (GeneratorProfile { dialect, limits }.to_string(), seed.wrapping_add(at));
        Member { name: format!("generated/{profile}-{seed}"), source: Source::Generated { profile, seed } }
    };
    (0..count).flat_map(|at| Dialect::ALL.map(|dialect| one(dialect, at))).collect()
}

/// Returns the compute shaders of a folder of `testdata`, each with its cases; of the variants of a case those that
/// give a pipeline something else.
fn testdata(folder: &str) -> Result<Vec<Member>, Error> {
    let mut members = Vec::new();
    for subject in record::subjects(&repository().join("testdata").join(folder))? {
        if Facts::new(&read(&subject.module)?, &Specialization::new()).entries.is_empty() {
            continue;
        }
        for path in &subject.cases {
            let mut seen = Vec::new();
            for (variant, case) in Case::load(path)?.all_variants()? {
                let pipeline = (case.spec, case.subgroup_size, case.full_subgroups, case.entry);
                if seen.contains(&pipeline) {
                    continue;
                }
                seen.push(pipeline);
                let (case, of) = (record::case_name(path), variant.as_deref());
                let name = [Some(subject.name.as_str()), Some(case.as_str()).filter(|case| *case != subject.name), of];
                let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
                let (module, case) = (subject.module.clone(), Some(CaseSource::File(path.clone())));
                members.push(Member {
                    name: format!("{folder}/{name}"),
                    source: Source::File { module, case, variant, ways: Vec::new() },
                });
            }
        }
    }
    Ok(members)
}

/// Returns the kernels of the list of figures, each with its first specialization.
fn bench() -> Result<Vec<Member>, Error> {
    Ok(measured("bench", &List::load(&repository().join("testdata/bench/figures.toml"))?))
}

/// Returns the contenders of each figure of a list, with their first choice of tiles: `PREFIX/FIGURE nv2`, `... khr`,
/// `... scalar`; and `... nv2 for khr` and `... nv2 for scalar` where the lowered module has another choice, `... STEM for khr`
/// and `... STEM for scalar` where another module can be lowered in its place.
pub fn measured(prefix: &str, list: &List) -> Vec<Member> {
    let mut members = Vec::new();
    for figure in &list.figure {
        let mut add = |what: &str, contender: &Contender, one: Option<&Try>| {
            let way = |subgroup_size: Option<u32>, one: Option<&Try>| Way {
                subgroup_size,
                full_subgroups: contender.full_subgroups,
                spec: one
                    .iter()
                    .flat_map(|one| &one.spec)
                    .enumerate()
                    .map(|(id, v)| (id.to_string(), v.clone()))
                    .collect(),
                tile: one.map_or(1, |one| one.tile.into_iter().map(u64::from).product()),
            };
            let wide = contender.wide.iter().map(|wide| way(Some(WIDE), Some(wide)));
            let source = Source::File {
                module: list.folder.join(&contender.module),
                case: Some(match list.cases.get(figure.case_of(contender)) {
                    Some(text) => CaseSource::Text(text.clone()),
                    None => CaseSource::File(list.folder.join(figure.case_of(contender))),
                }),
                variant: None,
                ways: wide.chain([way(contender.subgroup_size, one)]).collect(),
            };
            members.push(Member { name: format!("{prefix}/{} {what}", figure.name), source });
        };
        add("nv2", &figure.nv2, figure.nv2.tries.first());
        for (target, tries) in [("khr", &figure.lowered_khr), ("scalar", &figure.lowered_scalar)] {
            if !tries.is_empty() {
                add(&format!("nv2 for {target}"), &figure.nv2, tries.first());
            }
            for module in figure.lowered.iter().filter(|module| **module != figure.nv2.module) {
                let stem = module.file_stem().unwrap_or_default().to_string_lossy();
                let contender = Contender { module: module.clone(), ..figure.nv2.clone() };
                add(&format!("{stem} for {target}"), &contender, tries.first().or(figure.nv2.tries.first()));
            }
        }
        for (what, contender) in [("khr", &figure.khr), ("scalar", &figure.scalar)] {
            if let Some(contender) = contender {
                add(what, contender, contender.tries.first());
            }
        }
    }
    members
}

/// Returns llama.cpp's modules. Each has the entries of its group, another one first for each module, so that one run over
/// all modules has them all; the device's subgroups decide.
fn llama_members() -> Vec<Member> {
    let Some(modules) = llama::modules() else { return Vec::new() };
    let groups: Vec<llama::Group> = llama::SPEC_FILES.into_iter().flat_map(llama::groups_of).collect();
    let members = llama::members(&modules, &groups).into_iter().enumerate();
    let member = |(at, member): (usize, llama::Member<'_>)| {
        let entries = &member.group.entry;
        let rotated = entries.iter().cycle().skip(at % entries.len().max(1)).take(entries.len());
        let ways = rotated.map(|entry| Way {
            subgroup_size: Some(entry.subgroup_size()),
            full_subgroups: true,
            spec: entry.spec.iter().map(|(id, value)| (id.clone(), Number::Int((*value).into()))).collect(),
            tile: 1,
        });
        let ways = ways.collect();
        let source = Source::File { module: member.path.to_owned(), case: None, variant: None, ways };
        Member { name: format!("llama/{}", llama::stem(member.path)), source }
    };
    members.map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Each has a name of its own, is text and back again, and can be loaded.
    #[test]
    fn members_are_told_apart_and_load() {
        let mut all: Vec<Member> =
            [Part::Testdata, Part::Bench].into_iter().flat_map(|part| members(part).unwrap()).collect();
        assert!(all.len() > 300, "{} members", all.len());
        all.extend(generated(2, 7));
        let names: BTreeSet<&str> = all.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for member in all.iter().step_by(7) {
            let again: Member = serde_json::from_str(&serde_json::to_string(member).unwrap()).unwrap();
            assert_eq!(again, *member);
            let used = member.load(&[32]).unwrap_or_else(|error| panic!("{}: {error}", member.name));
            let facts = Facts::new(&used.module, &used.case.specialization().unwrap());
            facts.entry(used.case.entry.as_deref()).unwrap_or_else(|error| panic!("{}: {error}", member.name));
        }
    }

    #[test]
    fn the_subgroups_of_a_device_choose_the_constants() {
        let members = llama_members();
        let Some(member) = members.iter().find(|member| member.name == "llama/matmul_f16_cm1") else { return };
        for size in [8, 32] {
            let case = member.load(&[size]).unwrap().case;
            assert_eq!((case.subgroup_size, &case.spec["10"]), (Some(size), &Number::Int(size.into())));
        }
    }

    /// With subgroups of 64 a workgroup has as many subgroups' parts as its tile, as it has with subgroups of 32.
    #[test]
    fn kernels_by_hand_divide_their_tile_among_the_subgroups_of_the_device() {
        let members = bench().unwrap();
        let by_hand: Vec<&Member> =
            members.iter().filter(|m| m.name.ends_with(" khr") && !m.name.contains(" for ")).collect();
        assert!(by_hand.len() > 5, "{} kernels", by_hand.len());
        for member in by_hand {
            for size in [32, 64] {
                let used = member.load(&[size]).unwrap();
                let of = |id: &str| match used.case.spec[id] {
                    Number::Int(value) => value as u32,
                    ref other => panic!("{}: {other:?}", member.name),
                };
                if member.name.contains("attention") {
                    assert_eq!((of("4"), used.tile), (size, of("1").into()), "{} of {size}", member.name);
                } else {
                    let parts = of("1") / of("4") * (of("2") / of("5"));
                    assert_eq!(
                        (parts, used.tile),
                        (of("0") / size, (of("1") * of("2")).into()),
                        "{} of {size}",
                        member.name
                    );
                }
            }
        }
    }
}
