//! `coopcheck.toml`: the files of a project, and how each of them is checked.

use super::compile::{Compiler, Language};
use super::device;
use crate::args::parse_subgroup_size;
use crate::io;
use coop_device::Profile;
use coop_ir::constant::{SpecValue, Specialization, parse_spec_id};
use coop_validate::{Level, Options, TargetEnv};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toml::Spanned;

/// The name of the file.
pub(super) const NAME: &str = "coopcheck.toml";

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    files: Vec<Spanned<String>>,
    #[serde(default)]
    devices: Vec<Spanned<String>>,
    baseline: Option<PathBuf>,
    target_env: Option<Spanned<String>>,
    compiler: Option<PathBuf>,
    #[serde(default)]
    compiler_arguments: Vec<String>,
    #[serde(default)]
    glsl: WrittenCompiler,
    #[serde(default)]
    hlsl: WrittenCompiler,
    #[serde(default)]
    slang: WrittenCompiler,
    #[serde(default)]
    levels: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pipeline: Vec<WrittenPipeline>,
    #[serde(default)]
    allow: Vec<WrittenAllow>,
}

/// The compiler of one language.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenCompiler {
    compiler: Option<PathBuf>,
    #[serde(default)]
    compiler_arguments: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenPipeline {
    name: String,
    files: Vec<Spanned<String>>,
    #[serde(default)]
    spec: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    subgroup_size: Option<Spanned<u32>>,
    entry: Option<String>,
    devices: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAllow {
    rule: Spanned<String>,
    files: Option<Vec<Spanned<String>>>,
    reason: Spanned<String>,
}

/// A project.
pub(super) struct Project {
    /// The file that says all this.
    pub(super) path: PathBuf,
    files: Vec<(Pattern, String)>,
    devices: Vec<Arc<Profile>>,
    pipelines: Vec<Pipeline>,
    allowed: Vec<Allowed>,
    /// The findings that are known.
    pub(super) baseline: Option<PathBuf>,
    /// The environment whose rules apply.
    pub(super) env: Option<TargetEnv>,
    /// The compilers for sources, in GLSL, HLSL and Slang.
    compilers: [Compiler; 3],
    levels: Vec<(String, Level)>,
    /// True if warnings are errors.
    deny_warnings: bool,
}

/// A pipeline that uses some of the files.
struct Pipeline {
    name: String,
    files: Vec<Pattern>,
    specialization: Specialization,
    subgroup_size: Option<u32>,
    entry: Option<String>,
    devices: Option<Vec<Arc<Profile>>>,
}

/// A rule that some files may break.
struct Allowed {
    rule: String,
    /// All files where there is none.
    files: Option<Vec<Pattern>>,
    /// The place in the file, for messages.
    place: String,
    used: AtomicBool,
}

/// The parameters of one check of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration {
    /// Which pipeline and device it is for; empty if there is only one.
    pub(super) name: String,
    /// Values of specialization constants, besides those of the command line.
    pub(super) specialization: Specialization,
    /// The subgroup size that the pipeline requires.
    pub(super) subgroup_size: Option<u32>,
    /// The entry point of the pipeline.
    pub(super) entry: Option<String>,
    /// The device.
    pub(super) device: Option<Arc<Profile>>,
}

/// A file name, or a glob below a folder.
struct Pattern {
    base: PathBuf,
    glob: GlobMatcher,
}

impl Pattern {
    /// The pattern `text` of a file in `folder`.
    fn new(folder: &Path, text: &str) -> Result<Pattern, String> {
        let is_literal = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}']);
        let parts: Vec<&str> = text.split('/').collect();
        let literal = parts.iter().take(parts.len() - 1).take_while(|part| is_literal(part)).count();
        let rest = parts[literal..].join("/");
        if rest.is_empty() {
            return Err(format!("'{text}' names a folder; '{text}**/*.spv' are the modules in it"));
        }
        let base = folder.join(parts[..literal].join("/"));
        let glob =
            GlobBuilder::new(&rest).literal_separator(true).build().map_err(|e| format!("'{text}': {}", e.kind()))?;
        Ok(Pattern { base: base.canonicalize().unwrap_or(base), glob: glob.compile_matcher() })
    }

    /// Returns true for a file, by its canonical path.
    fn matches(&self, path: &Path) -> bool {
        path.strip_prefix(&self.base).is_ok_and(|rest| self.glob.is_match(rest))
    }

    /// Adds the files that match.
    fn find(&self, found: &mut BTreeSet<PathBuf>) {
        let files = walkdir::WalkDir::new(&self.base).into_iter().filter_map(Result::ok);
        let files = files.filter(|entry| !entry.file_type().is_dir()).map(walkdir::DirEntry::into_path);
        found.extend(files.filter(|path| self.matches(path)));
    }
}

/// Reads the text of a project and says where it is wrong.
struct Reader<'a> {
    name: String,
    folder: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn place(&self, span: &Range<usize>) -> String {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        format!("{}:{line}:{column}", self.name)
    }

    fn wrong(&self, span: &Range<usize>, message: impl std::fmt::Display) -> String {
        format!("{}: {message}", self.place(span))
    }

    fn patterns(&self, texts: &[Spanned<String>]) -> Result<Vec<Pattern>, String> {
        let pattern =
            |text: &Spanned<String>| Pattern::new(self.folder, text.get_ref()).map_err(|e| self.wrong(&text.span(), e));
        texts.iter().map(pattern).collect()
    }

    fn devices(&self, names: &[Spanned<String>]) -> Result<Vec<Arc<Profile>>, String> {
        let profile = |name: &Spanned<String>| {
            // A file is where the project is.
            let file = self.folder.join(name.get_ref());
            let named = if Profile::builtin(name.get_ref()).is_none() && file.is_file() {
                file.display().to_string()
            } else {
                name.get_ref().clone()
            };
            device::named(&named).map(Arc::new).map_err(|e| self.wrong(&name.span(), e))
        };
        names.iter().map(profile).collect()
    }

    fn levels(
        &self,
        written: &BTreeMap<Spanned<String>, Spanned<String>>,
    ) -> Result<(Vec<(String, Level)>, bool), String> {
        let mut levels = Vec::new();
        let mut deny_warnings = false;
        for (rule, level) in written {
            let value = match level.get_ref().as_str() {
                "allow" => Level::Allow,
                "warn" => Level::Warning,
                "deny" => Level::Error,
                other => {
                    return Err(self.wrong(&level.span(), format!("'{other}' is not a level: allow, warn or deny")));
                }
            };
            if rule.get_ref() == "warnings" {
                if value != Level::Error {
                    return Err(self.wrong(
                        &level.span(),
                        format!(
                            "warnings can be \"deny\" only, not \"{}\"; other levels are for single rules",
                            level.get_ref()
                        ),
                    ));
                }
                deny_warnings = true;
                continue;
            }
            Options::default().set_level(rule.get_ref(), value).map_err(|e| self.wrong(&rule.span(), e))?;
            levels.push((rule.get_ref().clone(), value));
        }
        Ok((levels, deny_warnings))
    }

    fn pipeline(&self, written: &WrittenPipeline) -> Result<Pipeline, String> {
        let mut specialization = Specialization::new();
        for (id, value) in &written.spec {
            let number = parse_spec_id(id.get_ref())
                .ok_or_else(|| self.wrong(&id.span(), format!("'{}' is not a SpecId", id.get_ref())))?;
            let parsed = match value.get_ref() {
                toml::Value::Integer(n) => Some(SpecValue::Int((*n).into())),
                toml::Value::Float(n) => Some(SpecValue::Float(*n)),
                toml::Value::Boolean(b) => Some(SpecValue::Bool(*b)),
                toml::Value::String(text) => SpecValue::parse(text),
                _ => None,
            };
            let message = || format!("the value of SpecId {number} is not a number, true or false");
            specialization.set(number, parsed.ok_or_else(|| self.wrong(&value.span(), message()))?);
        }
        let size = |size: &Spanned<u32>| {
            parse_subgroup_size(&size.get_ref().to_string()).map_err(|e| self.wrong(&size.span(), e))
        };
        Ok(Pipeline {
            name: written.name.clone(),
            files: self.patterns(&written.files)?,
            specialization,
            subgroup_size: written.subgroup_size.as_ref().map(size).transpose()?,
            entry: written.entry.clone(),
            devices: written.devices.as_ref().map(|names| self.devices(names)).transpose()?,
        })
    }

    fn allowed(&self, written: &WrittenAllow) -> Result<Allowed, String> {
        let rule = written.rule.get_ref();
        Options::default().set_level(rule, Level::Allow).map_err(|e| self.wrong(&written.rule.span(), e))?;
        if written.reason.get_ref().trim().is_empty() {
            return Err(self.wrong(&written.reason.span(), format!("the reason why {rule} is allowed is empty")));
        }
        Ok(Allowed {
            rule: rule.clone(),
            files: written.files.as_ref().map(|files| self.patterns(files)).transpose()?,
            place: self.place(&written.rule.span()),
            used: AtomicBool::new(false),
        })
    }
}

impl Project {
    /// Returns the path of the project's file in a folder or the nearest above it.
    pub(super) fn find(folder: &Path) -> Option<PathBuf> {
        folder.ancestors().map(|folder| folder.join(NAME)).find(|path| path.is_file())
    }

    /// Reads a project. The error names the line.
    pub(super) fn read(path: &Path) -> Result<Project, String> {
        let text = io::read_text(path).map_err(|e| e.to_string())?;
        let absolute = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        let folder = absolute.parent().unwrap_or(Path::new("/"));
        let reader = Reader { name: shown(&absolute).display().to_string(), folder, text: &text };
        let written: Written = toml::from_str(&text)
            .map_err(|e| reader.wrong(&e.span().unwrap_or(0..0), e.message().trim_end().replace('\n', "; ")))?;
        let env = |env: &Spanned<String>| env.get_ref().parse().map_err(|e: String| reader.wrong(&env.span(), e));
        let patterns = reader.patterns(&written.files)?;
        let place =
            |text: &Spanned<String>| reader.wrong(&text.span(), format!("'{}' does not match a file", text.get_ref()));
        let (levels, deny_warnings) = reader.levels(&written.levels)?;
        let program = |program: PathBuf| {
            if program.components().count() > 1 { folder.join(program) } else { program }
        };
        let compiler = |of_language: WrittenCompiler| Compiler {
            program: of_language.compiler.or_else(|| written.compiler.clone()).map(program),
            arguments: [written.compiler_arguments.as_slice(), &of_language.compiler_arguments].concat(),
        };
        Ok(Project {
            path: path.to_owned(),
            files: patterns.into_iter().zip(written.files.iter().map(place)).collect(),
            devices: reader.devices(&written.devices)?,
            pipelines: written.pipeline.iter().map(|p| reader.pipeline(p)).collect::<Result<_, _>>()?,
            allowed: written.allow.iter().map(|a| reader.allowed(a)).collect::<Result<_, _>>()?,
            baseline: written.baseline.map(|file| shown(&folder.join(file))),
            env: written.target_env.as_ref().map(env).transpose()?,
            compilers: [written.glsl, written.hlsl, written.slang].map(compiler),
            levels,
            deny_warnings,
        })
    }

    /// Returns the compiler of a language, and further arguments of it.
    pub(super) fn compiler(&self, language: Language) -> &Compiler {
        &self.compilers[match language {
            Language::Glsl => 0,
            Language::Hlsl => 1,
            Language::Slang => 2,
        }]
    }

    /// Sets the levels of rules.
    pub(super) fn set_levels(&self, options: &mut Options) -> Result<(), String> {
        options.deny_warnings |= self.deny_warnings;
        self.levels.iter().try_for_each(|(rule, level)| options.set_level(rule, *level).map_err(|e| e.to_string()))
    }

    /// Returns the files of the project, sorted. A pattern that no file matches is an error.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, String> {
        if self.files.is_empty() {
            return Err(format!(
                "{}: no files: add files = [\"shaders/**/*.comp\"], or name them",
                self.path.display()
            ));
        }
        let mut all = BTreeSet::new();
        for (pattern, none) in &self.files {
            let mut found = BTreeSet::new();
            pattern.find(&mut found);
            if found.is_empty() {
                return Err(none.clone());
            }
            all.extend(found);
        }
        Ok(all.iter().map(|path| shown(path)).collect())
    }

    /// Returns how a file is checked: for each pipeline that it is in, on each device if `devices` is set.
    pub(super) fn configurations(&self, path: &Path, devices: bool) -> Vec<Configuration> {
        let wanted = |profiles: &[Arc<Profile>]| if devices { profiles.to_vec() } else { Vec::new() };
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut pipelines = self.pipelines.iter().filter(|p| p.files.iter().any(|f| f.matches(&path))).peekable();
        if pipelines.peek().is_none() {
            return on_devices(&Configuration::default(), &wanted(&self.devices));
        }
        let on = |pipeline: &Pipeline| {
            let configuration = Configuration {
                name: pipeline.name.clone(),
                specialization: pipeline.specialization.clone(),
                subgroup_size: pipeline.subgroup_size,
                entry: pipeline.entry.clone(),
                device: None,
            };
            on_devices(&configuration, &wanted(pipeline.devices.as_ref().unwrap_or(&self.devices)))
        };
        pipelines.flat_map(on).collect()
    }

    /// Returns true if the project allows a file to break a rule.
    pub(super) fn allows(&self, path: &Path, rule: &str) -> bool {
        let mut of_rule = self.allowed.iter().filter(|a| a.rule == rule).peekable();
        if of_rule.peek().is_none() {
            return false;
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let matches = |a: &&Allowed| a.files.as_ref().is_none_or(|files| files.iter().any(|f| f.matches(&path)));
        let Some(allowed) = of_rule.find(matches) else { return false };
        allowed.used.store(true, Ordering::Relaxed);
        true
    }

    /// Returns a message for each rule that is allowed and that no file breaks.
    pub(super) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.allowed.iter().filter(|allowed| !allowed.used.load(Ordering::Relaxed));
        unused.map(|a| format!("{}: allow of {} allows nothing: there is no such finding", a.place, a.rule))
    }
}

/// Returns a configuration for each device, or itself where there is none.
fn on_devices(configuration: &Configuration, devices: &[Arc<Profile>]) -> Vec<Configuration> {
    if devices.is_empty() {
        return vec![configuration.clone()];
    }
    let on = |device: &Arc<Profile>| {
        let names = [configuration.name.as_str(), device.name.as_str()];
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        Configuration { name: names.join(", "), device: Some(device.clone()), ..configuration.clone() }
    };
    devices.iter().map(on).collect()
}

/// Returns a path as people call it: from the working directory, if it is below that.
fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    here.ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use std::path::Path;

    #[test]
    fn globs_are_below_their_folder() {
        let pattern = |text| Pattern::new(Path::new("/no/project"), text).expect("a glob");
        let matches = |text, path| pattern(text).matches(Path::new(path));
        assert!(matches("shaders/**/*.comp", "/no/project/shaders/a/b.comp"));
        assert!(matches("shaders/**/*.comp", "/no/project/shaders/b.comp"));
        assert!(matches("*.comp", "/no/project/b.comp") && !matches("*.comp", "/no/project/a/b.comp"));
        assert!(matches("a/b.comp", "/no/project/a/b.comp"));
        assert!(Pattern::new(Path::new("/no"), "shaders/").is_err());
        assert!(Pattern::new(Path::new("/no"), "a[").is_err());
    }
}
