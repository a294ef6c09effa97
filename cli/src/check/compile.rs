//! Shader sources as input: a compiler that the user has makes the module, with debug information.

use crate::io::{self, FileError};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The language of a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// OpenGL Shading Language.
    Glsl,
    /// High-Level Shader Language.
    Hlsl,
    /// Slang.
    Slang,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Glsl => "GLSL",
            Language::Hlsl => "HLSL",
            Language::Slang => "Slang",
        })
    }
}

/// The extensions of file names by which glslang and glslc know a shader's stage, and `.glsl`, which needs `-- -S comp`.
const GLSL: [&str; 15] = [
    "comp", "vert", "frag", "geom", "tesc", "tese", "mesh", "task", "rgen", "rint", "rahit", "rchit", "rmiss", "rcall",
    "glsl",
];

impl Language {
    /// Returns the language of a file by the extension of its name.
    pub(crate) fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "hlsl" => Some(Language::Hlsl),
            "slang" => Some(Language::Slang),
            extension if GLSL.contains(&extension) => Some(Language::Glsl),
            _ => None,
        }
    }

    /// Returns the compilers of the language, the best first.
    fn compilers(self) -> &'static [Known] {
        const fn known(name: &'static str, arguments: &'static [&'static str]) -> Known {
            Known { name, arguments, output: "-o", again: &[] }
        }
        const GLSL: &[Known] = &[
            known("glslang", &["-gVS", "--quiet", "--target-env", "vulkan1.3"]),
            known("glslangValidator", &["-gVS", "--target-env", "vulkan1.3"]),
            known("glslc", &["-g", "--target-env=vulkan1.3"]),
        ];
        // Of two profiles dxc takes the last.
        const HLSL: &[Known] = &[Known {
            name: "dxc",
            arguments: &["-spirv", "-T", "cs_6_6", "-fspv-target-env=vulkan1.3", "-fspv-debug=vulkan-with-source"],
            output: "-Fo",
            again: &["-spirv", "-T", "cs_6_6", "-fspv-target-env=vulkan1.3", "-fspv-debug=line"],
        }];
        const SLANG: &[Known] = &[known("slangc", &["-target", "spirv", "-g2"])];
        match self {
            Language::Glsl => GLSL,
            Language::Hlsl => HLSL,
            Language::Slang => SLANG,
        }
    }
}

/// A compiler's command line.
struct Known {
    /// The program.
    name: &'static str,
    /// The arguments that come before the user's.
    arguments: &'static [&'static str],
    /// The option that names the module's file.
    output: &'static str,
    /// The arguments that come in the place of the others if the compiler crashes: with less debug information. Empty where nothing helps.
    again: &'static [&'static str],
}

/// The compiler for sources, as the command line has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Compiler {
    /// The program; by the language where none is given.
    pub(super) program: Option<PathBuf>,
    /// Further arguments.
    pub(super) arguments: Vec<String>,
}

/// The modules that this process had compiled, for names of files.
static COMPILED: AtomicU32 = AtomicU32::new(0);

impl Compiler {
    /// Compiles a source file to the bytes of a module, with debug information. The error has what the compiler says.
    pub(super) fn compile(&self, language: Language, path: &Path) -> Result<Vec<u8>, FileError> {
        // A compiler's own message about this would name no file of the user's.
        io::read_bytes(path)?;
        let compiled = in_folder(|folder| self.run(language, path, None, &folder.join("module.spv")));
        compiled.and_then(|compiled| compiled).map_err(|message| FileError { name: io::display_name(path), message })
    }

    /// Compiles text, which is to be that of a source file. The error has what the compiler says, and the name that the file has
    /// there.
    pub(super) fn compile_text(
        &self,
        language: Language,
        path: &Path,
        text: &str,
    ) -> Result<Compiled, (String, PathBuf)> {
        let compiled = in_folder(|folder| {
            let name = folder.join(path.file_name().unwrap_or_default());
            let written = std::fs::write(&name, text).map_err(|error| format!("{}: {error}", name.display()));
            // What it includes is beside the file itself.
            let module = written.and_then(|()| self.run(language, &name, path.parent(), &folder.join("module.spv")));
            module.map(|module| Compiled { module, name: name.clone() }).map_err(|why| (why, name))
        });
        compiled.unwrap_or_else(|why| Err((why, path.to_owned())))
    }

    /// Returns true if the user's arguments have an option that is one of ours with another value behind its `=`.
    fn replaces(&self, ours: &str) -> bool {
        let Some((name, _)) = ours.split_once('=') else { return false };
        self.arguments.iter().any(|theirs| theirs.split_once('=').is_some_and(|(theirs, _)| theirs == name))
    }

    /// Runs the compiler; `includes` is a further folder for what the source includes.
    fn run(
        &self,
        language: Language,
        source: &Path,
        includes: Option<&Path>,
        module: &Path,
    ) -> Result<Vec<u8>, String> {
        let compilers = language.compilers();
        let candidates: Vec<(PathBuf, &Known)> = match &self.program {
            None => compilers.iter().map(|known| (PathBuf::from(known.name), known)).collect(),
            Some(program) => {
                let stem = program.file_stem().unwrap_or_default();
                let known = compilers.iter().find(|known| stem == known.name);
                // Another program is taken for one that has the arguments of the first.
                vec![(program.clone(), known.unwrap_or(&compilers[0]))]
            }
        };
        for (program, known) in &candidates {
            let call = |arguments: &[&str]| {
                let mut command = Command::new(program);
                command.args(arguments.iter().filter(|ours| !self.replaces(ours))).args(&self.arguments);
                if let Some(folder) = includes {
                    let mut argument = std::ffi::OsString::from("-I");
                    argument.push(folder);
                    command.arg(argument);
                }
                command.arg(known.output).arg(module).arg(source).stdin(Stdio::null()).output()
            };
            let mut output = call(known.arguments);
            if output.as_ref().is_ok_and(|output| crashed(output.status)) && !known.again.is_empty() {
                output = call(known.again);
            }
            let output = match output {
                Ok(output) => output,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", program.display())),
            };
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            let said = said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
            let module = if output.status.success() { std::fs::read(module).ok() } else { None };
            return module.ok_or_else(|| no_module(program, output.status, &said));
        }
        let names: Vec<String> = candidates.iter().map(|(program, _)| program.display().to_string()).collect();
        let remedy = "name one with --compiler, or give coopcheck the compiled module";
        Err(format!("{language} needs a compiler, and there is no {}: {remedy}", names.join(", no ")))
    }
}

/// Returns true if a process was ended by a signal, or a shell says so of one that it started.
fn crashed(status: ExitStatus) -> bool {
    status.code().is_none_or(|code| code > 128)
}

/// Returns the message for a compiler that makes no module. One that crashes says nothing, as a rule.
fn no_module(program: &Path, status: ExitStatus, said: &str) -> String {
    let program = program.display();
    if !crashed(status) && !said.is_empty() {
        return format!("{program} makes no module of it\n{said}");
    }
    let remedy = "try another version of it, or give coopcheck a module that was compiled elsewhere";
    format!("{program} makes no module of it, it ends with {status}: {remedy}\n{said}").trim_end().to_owned()
}

/// A module that was compiled from text.
pub(super) struct Compiled {
    /// Its bytes.
    pub(super) module: Vec<u8>,
    /// The name of the source in its debug information.
    pub(super) name: PathBuf,
}

/// Does something in a new folder, which is removed then.
fn in_folder<T>(f: impl FnOnce(&Path) -> T) -> Result<T, String> {
    let number = COMPILED.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("coopcheck-{}-{number}", std::process::id()));
    make_private(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let done = f(&folder);
    // What is left is in a folder for such things.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(done)
}

/// Makes a folder that only this user can enter, and that was not there.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_language() {
        let language = |name: &str| Language::of(Path::new(name));
        assert_eq!(language("shaders/gemm.comp"), Some(Language::Glsl));
        assert_eq!(language("gemm.hlsl"), Some(Language::Hlsl));
        assert_eq!(language("gemm.slang"), Some(Language::Slang));
        assert_eq!([language("gemm.spv"), language("gemm.comp.spv"), language("-"), language("comp")], [None; 4]);
    }
}
