//! Lists of kernels to measure beside each other.
//!
//! A list is TOML. Each figure is one computation, given by a case, and the modules that do it: one with workgroup-scope
//! matrices, which is also what the lowerings start from, and hand-written ones. A module is tried with several
//! specializations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use coop_exec::case::{Case, Number};
use coop_exec::error::Error;

/// A list of kernels to measure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct List {
    /// The computations.
    pub figure: Vec<Figure>,
    /// The folder of the files that the list names.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Cases that are in no file, by the path that names them.
    #[serde(skip)]
    pub cases: BTreeMap<PathBuf, String>,
}

/// One computation.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figure {
    /// The name.
    pub name: String,
    /// The case file: inputs, operations, what comes out.
    pub case: PathBuf,
    /// The extents that a try's tile divides: workgroups in x, y and z are the quotients, rounded up.
    pub grid: [u32; 3],
    /// The module with workgroup-scope matrices.
    pub nv2: Contender,
    /// The modules that the lowerings start from, if not from that one: what the device itself can't run, they can.
    #[serde(default)]
    pub lowered: Vec<PathBuf>,
    /// The specialization for lowering to subgroup matrices, if different from that of the module itself.
    #[serde(default)]
    pub lowered_khr: Vec<Try>,
    /// The specialization for lowering to code without matrices, if different from that of the module itself.
    #[serde(default)]
    pub lowered_scalar: Vec<Try>,
    /// The hand-written module with subgroup matrices.
    pub khr: Option<Contender>,
    /// The hand-written module without matrices.
    pub scalar: Option<Contender>,
}

/// A module and how it is tried.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Contender {
    /// The module's file.
    pub module: PathBuf,
    /// The tries.
    pub tries: Vec<Try>,
    /// The try for subgroups of 64, if the tries count on subgroups of 32.
    pub wide: Option<Try>,
    /// True if the pipeline asks for full subgroups.
    #[serde(default)]
    pub full_subgroups: bool,
    /// The subgroup size that the pipeline requires.
    pub subgroup_size: Option<u32>,
    /// The case file, if not that of the figure: the same computation, called in another way.
    pub case: Option<PathBuf>,
}

/// A specialization and the dispatch that goes with it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Try {
    /// Values of the constants with the SpecIds 0, 1, 2 and so on.
    pub spec: Vec<Number>,
    /// The part of the grid that a workgroup computes.
    pub tile: [u32; 3],
}

impl List {
    /// Reads a list.
    pub fn load(path: &Path) -> Result<List, Error> {
        let fail = |why: String| Error::case(format!("{}: {why}", path.display()));
        let text =
            coop_exec::file::read_text(path, coop_exec::file::MAX_TEXT).map_err(|error| fail(error.to_string()))?;
        let mut list: List = toml::from_str(&text).map_err(|error| fail(error.to_string().trim_end().to_owned()))?;
        list.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        for figure in &list.figure {
            let contenders = [Some(&figure.nv2), figure.khr.as_ref(), figure.scalar.as_ref()];
            let tries =
                contenders.into_iter().flatten().flat_map(|contender| contender.tries.iter().chain(&contender.wide));
            let mut tries = tries.chain(&figure.lowered_khr).chain(&figure.lowered_scalar);
            if figure.grid.contains(&0) || tries.any(|one| one.tile.contains(&0)) {
                return Err(fail(format!("{}: a grid or a tile is 0", figure.name)));
            }
        }
        Ok(list)
    }

    /// Returns a case that the list names.
    pub fn case(&self, path: &Path) -> Result<Case, Error> {
        match self.cases.get(path) {
            Some(text) => Case::parse(text, &self.folder).map_err(|e| Error::case(format!("{}: {e}", path.display()))),
            None => Case::load(&self.folder.join(path)),
        }
    }
}

impl Figure {
    /// Returns the path of the case that a contender is run with.
    pub fn case_of<'a>(&'a self, contender: &'a Contender) -> &'a Path {
        contender.case.as_ref().unwrap_or(&self.case)
    }
}

impl Try {
    /// The case as this try runs it.
    pub fn apply(&self, case: &Case, grid: [u32; 3]) -> Case {
        let mut case = case.clone();
        for (id, value) in self.spec.iter().enumerate() {
            case.spec.insert(id.to_string(), value.clone());
        }
        for ((count, grid), tile) in case.workgroups.iter_mut().zip(grid).zip(self.tile) {
            *count = grid.div_ceil(tile);
        }
        case
    }

    /// The specialization in a few characters.
    pub fn name(&self) -> String {
        let value = |number: &Number| match number {
            Number::Bool(value) => u8::from(*value).to_string(),
            Number::Int(value) => value.to_string(),
            Number::Float(value) => value.to_string(),
            Number::Text(value) => value.clone(),
        };
        self.spec.iter().map(value).collect::<Vec<_>>().join("/")
    }
}
