//! llama.cpp's modules and the specialization constants that its engine gives them (`testdata/llama/spec.toml` and
//! `spec_cm2.toml`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coop_ir::constant::{SpecValue, Specialization};
use serde::Deserialize;

use super::{llama_modules, repository};

/// The files of constants: for modules of SPV_KHR_cooperative_matrix, and of SPV_NV_cooperative_matrix2.
pub const SPEC_FILES: [&str; 2] = ["spec.toml", "spec_cm2.toml"];

/// The modules that one group of a file of constants is about.
#[derive(Deserialize, Debug)]
pub struct Group {
    /// The name of the modules.
    pub name: String,
    /// Glob patterns over their names.
    modules: Vec<String>,
    /// The number of modules.
    pub count: usize,
    /// The ways in which the engine uses them.
    pub entry: Vec<Entry>,
}

/// One pipeline that the engine makes.
#[derive(Deserialize, Debug)]
pub struct Entry {
    /// Shape of the matrices and subgroup size of the device: `16x16x16 subgroup 32`.
    pub device: String,
    /// The engine's name for it.
    pub tile: String,
    /// True if loads are aligned.
    pub aligned: bool,
    /// The values by SpecId.
    pub spec: BTreeMap<String, u32>,
}

impl Entry {
    /// The values of the spec constants.
    pub fn specialization(&self) -> Specialization {
        let mut out = Specialization::new();
        for (id, value) in &self.spec {
            let id = id.parse().unwrap_or_else(|_| panic!("{id} is not a SpecId"));
            out.set(id, SpecValue::Int(i128::from(*value)));
        }
        out
    }

    /// The invocations of a subgroup of the device.
    pub fn subgroup_size(&self) -> u32 {
        let size = self.device.rsplit(' ').next().and_then(|n| n.parse().ok());
        size.unwrap_or_else(|| panic!("'{}' names no subgroup size", self.device))
    }

    /// The entry in a few words.
    pub fn label(&self) -> String {
        let aligned = if self.aligned { ", aligned" } else { "" };
        format!("{}, tile {}{aligned}", self.device, self.tile)
    }
}

/// A module and the group that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The file.
    pub path: &'a Path,
    /// The group.
    pub group: &'a Group,
}

/// The groups of a file in `testdata/llama`.
pub fn groups_of(file: &str) -> Vec<Group> {
    #[derive(Deserialize)]
    struct File {
        group: Vec<Group>,
    }
    let path = repository().join("testdata/llama").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.group
}

/// The modules with the group that each belongs to: the first one that matches. Those of no group are left out.
pub fn members<'a>(modules: &'a [PathBuf], groups: &'a [Group]) -> Vec<Member<'a>> {
    let group = |path: &Path| groups.iter().find(|g| g.modules.iter().any(|m| matches(m, &stem(path))));
    modules.iter().filter_map(|path| Some(Member { path, group: group(path)? })).collect()
}

/// The modules with cooperative matrices, sorted. `None` if they have not been compiled, which is said aloud, and is a
/// failure where they are required.
pub fn modules() -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(llama_modules()?).ok()?;
    let mut files: Vec<PathBuf> = entries.map_while(Result::ok).map(|e| e.path()).filter(|p| has_matrices(p)).collect();
    files.sort();
    Some(files)
}

fn has_matrices(path: &Path) -> bool {
    let name = stem(path);
    path.extension().is_some_and(|e| e == "spv") && (name.ends_with("_cm1") || name.ends_with("_cm2"))
}

/// The file's name without `.spv`.
pub fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
}

/// Returns true if `name` matches a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().map(|(i, _)| i).chain([rest.len()]).any(|i| matches(tail, &rest[i..]))
        }),
    }
}
