//! Shader sources as input: a compiler that the user has makes the module, with debug information.

use crate::io::{self, FileError};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The language of a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
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
    pub(super) fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "hlsl" => Some(Language::Hlsl),
            "slang" => Some(Language::Slang),
            extension if GLSL.contains(&extension) => Some(Language::Glsl),
            _ => None,
        }
    }

    /// Returns the compilers of the language, the best first, each with the arguments that come before the user's.
    fn compilers(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Language::Glsl => &[
                ("glslang", &["-gVS", "--quiet", "--target-env", "vulkan1.3"]),
                ("glslangValidator", &["-gVS", "--target-env", "vulkan1.3"]),
                ("glslc", &["-g", "--target-env=vulkan1.3"]),
            ],
            Language::Hlsl => &[("dxc", &["-spirv", "-fspv-debug=vulkan-with-source", "-fspv-target-env=vulkan1.3"])],
            Language::Slang => &[("slangc", &["-target", "spirv", "-g2"])],
        }
    }
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
        let fail = |message: String| FileError { name: io::display_name(path), message };
        // A compiler's own message about this would name no file of the user's.
        io::read_bytes(path)?;
        let number = COMPILED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("coopcheck-{}-{number}", std::process::id()));
        make_private(&folder).map_err(|e| fail(format!("{}: {e}", folder.display())))?;
        let compiled = self.run(language, path, &folder.join("module.spv"));
        // What is left is in a folder for such things.
        let _ = std::fs::remove_dir_all(&folder);
        compiled.map_err(fail)
    }

    fn run(&self, language: Language, source: &Path, module: &Path) -> Result<Vec<u8>, String> {
        let compilers = language.compilers();
        let candidates: Vec<(PathBuf, &[&str])> = match &self.program {
            None => compilers.iter().map(|(name, arguments)| (PathBuf::from(name), *arguments)).collect(),
            Some(program) => {
                let stem = program.file_stem().unwrap_or_default();
                let known = compilers.iter().find(|(name, _)| stem == *name);
                // Another program is taken for one that has the arguments of the first.
                vec![(program.clone(), known.unwrap_or(&compilers[0]).1)]
            }
        };
        for (program, arguments) in &candidates {
            let mut command = Command::new(program);
            command.args(*arguments).args(&self.arguments).arg("-o").arg(module).arg(source).stdin(Stdio::null());
            let output = match command.output() {
                Ok(output) => output,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", program.display())),
            };
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            let said = said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
            let module = if output.status.success() { std::fs::read(module).ok() } else { None };
            return module.ok_or_else(|| format!("{} makes no module of it\n{said}", program.display()));
        }
        let names: Vec<String> = candidates.iter().map(|(program, _)| program.display().to_string()).collect();
        let remedy = "name one with --compiler, or give coopcheck the compiled module";
        Err(format!("{language} needs a compiler, and there is no {}: {remedy}", names.join(", no ")))
    }
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
