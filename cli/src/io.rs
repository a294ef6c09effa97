//! Files in and out: SPIR-V words or assembly text, `-` for the standard streams.

use coop_exec::file::{self, MAX_MODULE};
use coop_ir::cfg::Cfgs;
use coop_ir::text::{self, PrintOptions};
use coop_ir::{Module, Op, binary, verify};
use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

/// The name of standard input or output on a command line.
const DASH: &str = "-";

/// The reason why a file could not be read or written. Displays as `file: reason`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file as the user named it.
    pub name: String,
    /// The message: lower case, no final period.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl std::error::Error for FileError {}

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// SPIR-V words, in either byte order.
    Binary,
    /// SPIR-V assembly.
    Text,
}

/// A module and the file that it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file as the user named it; `stdin` for `-`.
    pub name: String,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// The format of the contents.
    pub format: Format,
    /// The module.
    pub module: Module,
}

/// Returns the name of a file in messages.
pub fn display_name(path: &Path) -> String {
    if is_dash(path) { "stdin".to_owned() } else { path.display().to_string() }
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == DASH
}

/// The bytes of a file, or of standard input for `-`.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let fail = |message: String| FileError { name: display_name(path), message };
    if is_dash(path) {
        if std::io::stdin().is_terminal() {
            return Err(fail("no input: give a file, or send one to standard input".into()));
        }
        return file::read_from(std::io::stdin().lock(), MAX_MODULE).map_err(|e| fail(describe(&e)));
    }
    file::read(path, MAX_MODULE).map_err(|e| {
        // Opening a directory succeeds on some systems and reading it fails with a puzzling message.
        let folder = path.is_dir();
        fail(if folder { "is a directory, not a module".into() } else { describe(&e) })
    })
}

/// The text of a file, or of standard input for `-`.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    String::from_utf8(read_bytes(path)?).map_err(|e| FileError {
        name: display_name(path),
        message: format!("not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()),
    })
}

/// An I/O error in our words: without the system's number, beginning in lower case.
fn describe(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        ErrorKind::OutOfMemory => "larger than the memory".into(),
        _ => error.to_string(),
    }
}

/// Reads the module in a file, words or text.
pub fn load(path: &Path) -> Result<Loaded, FileError> {
    parse(display_name(path), read_bytes(path)?)
}

/// Reads the module in `bytes`, words or text, which came from the file called `name`.
pub fn parse(name: String, bytes: Vec<u8>) -> Result<Loaded, FileError> {
    let fail = |message: String| Err(FileError { name: name.clone(), message });
    if bytes.is_empty() {
        return fail("the file is empty".into());
    }
    if binary::is_binary(&bytes) {
        return match binary::read(&bytes) {
            Ok(module) => Ok(Loaded { name, bytes, format: Format::Binary, module }),
            Err(e) => fail(e.to_string()),
        };
    }
    if let Some(kind) = other_format(&bytes) {
        return fail(kind.to_owned());
    }
    match assembly(&bytes) {
        Some(source) => match text::parse(source) {
            Ok(module) => Ok(Loaded { name, bytes, format: Format::Text, module }),
            Err(e) => Err(FileError { name: format!("{name}:{}:{}", e.line, e.column), message: e.message }),
        },
        None => {
            let first: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
            fail(format!("neither SPIR-V words nor assembly text: the file begins with {}", first.join(" ")))
        }
    }
}

/// Says what bytes are that look like a known format other than SPIR-V.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 7] = [
        (b"\x7fELF", "an ELF file, not a SPIR-V module"),
        (b"BC\xc0\xde", "LLVM bitcode, not a SPIR-V module: llvm-spirv makes one of it"),
        (b"DXBC", "a DirectX shader, not a SPIR-V module: dxc makes one with -spirv"),
        (b"\x1f\x8b", "a file compressed by gzip, not a SPIR-V module"),
        (b"PK\x03\x04", "a ZIP archive, not a SPIR-V module"),
        (b"\x28\xb5\x2f\xfd", "a file compressed by zstd, not a SPIR-V module"),
        (b"!<arch>", "an archive of object files, not a SPIR-V module"),
    ];
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(kind);
    }
    // Marks of languages at the beginning of a line. Assembly has them in the text of its source only.
    const GLSL: [&str; 3] = ["#version", "#extension GL_", "layout("];
    const HLSL: [&str; 3] = ["[numthreads(", "cbuffer ", "RWStructuredBuffer<"];
    const WGSL: [&str; 4] = ["@compute", "@group(", "enable f16", "@vertex"];
    const LLVM: [&str; 4] = ["; ModuleID", "source_filename = ", "target triple = ", "define "];
    const MLIR: [&str; 4] = ["module {", "spirv.module", "func.func", "gpu.module"];
    let text = assembly(bytes)?;
    let opcode = |line: &str| Op::from_name(line.split_whitespace().next()?.get(2..)?);
    if text.lines().any(|line| line.trim_start().starts_with('%') || opcode(line).is_some()) {
        return None;
    }
    let begins = |marks: &[&str]| text.lines().take(200).any(|l| marks.iter().any(|m| l.trim_start().starts_with(m)));
    if begins(&GLSL) {
        Some(
            "GLSL, not a SPIR-V module: coopcheck compiles files whose names end with a stage, such as .comp, other tools take what `glslang -gVS` makes",
        )
    } else if begins(&HLSL) {
        Some(
            "HLSL, not a SPIR-V module: coopcheck compiles files whose names end with .hlsl, other tools take what `dxc -spirv -fspv-debug=vulkan-with-source` makes",
        )
    } else if begins(&WGSL) {
        Some("WGSL, not a SPIR-V module: `naga shader.wgsl shader.spv` makes one")
    } else if begins(&LLVM) {
        Some("LLVM's assembly, not that of SPIR-V: llvm-as and llvm-spirv make a module of it")
    } else if begins(&MLIR) {
        Some("MLIR, not SPIR-V assembly: `mlir-translate -serialize-spirv` makes a module of its spirv dialect")
    } else if text.trim_start().starts_with(['{', '[', '<']) {
        Some("JSON, XML or the like, not a SPIR-V module")
    } else if ["// ", "/*", "#include"].iter().any(|m| text.trim_start().starts_with(m)) {
        Some("source text, not a SPIR-V module: assembly has comments that begin with ;")
    } else {
        None
    }
}

/// Returns whether a module can be made sense of at all: every id defined once and before it is used, blocks and
/// functions complete, and so on. What is left to rules, whether types agree, is not looked at. Gives the graphs of
/// functions that were made on the way.
pub fn well_formed(loaded: &Loaded) -> Result<Cfgs, Vec<FileError>> {
    let verified = match loaded.format {
        Format::Binary => verify::verify_read(&loaded.module),
        Format::Text => verify::verify(&loaded.module).map(|()| Cfgs::default()),
    };
    let problems = match verified {
        Ok(cfgs) => return Ok(cfgs),
        Err(problems) => problems,
    };
    let mut errors: Vec<FileError> = problems
        .into_iter()
        .filter(|p| !p.is_about_types())
        .map(|p| FileError { name: loaded.name.clone(), message: p.message })
        .collect();
    let more = errors.len().saturating_sub(MAX_PROBLEMS);
    if more > 0 {
        errors.truncate(MAX_PROBLEMS);
        errors.push(FileError { name: loaded.name.clone(), message: format!("and {more} more of this kind") });
    }
    if errors.is_empty() { Ok(Cfgs::default()) } else { Err(errors) }
}

/// Returns the first reason why no sense can be made of a module, by [`well_formed`].
pub fn make_sense(loaded: &Loaded) -> Result<(), FileError> {
    match well_formed(loaded) {
        Ok(_) => Ok(()),
        Err(errors) => errors.into_iter().next().map_or(Ok(()), Err),
    }
}

/// Nobody reads on after this many reasons why a module makes no sense.
const MAX_PROBLEMS: usize = 10;

/// The bytes as text, if they can be text at all: UTF-8 without control characters.
fn assembly(bytes: &[u8]) -> Option<&str> {
    // Most of what is no text shows it at once, so that a large file costs nothing.
    let head = &bytes[..bytes.len().min(512)];
    if head.iter().any(|b| b.is_ascii_control() && !matches!(b, b'\n' | b'\r' | b'\t')) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// Writes `text` to standard output. A reader that went away is no error; anything else ends the tool.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

fn print_bytes(bytes: &[u8]) {
    let write = || {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    match crate::progress::aside(write) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            error(&format!("error: stdout: {}", describe(&e)));
            std::process::exit(crate::Status::BadInput.code().into());
        }
        _ => {}
    }
}

/// Writes a line to standard error, as far as that is possible.
pub fn error(line: &str) {
    // Nobody is left to tell when this fails.
    let _ = crate::progress::aside(|| writeln!(std::io::stderr().lock(), "{line}"));
}

/// Writes `bytes` to a file, or to standard output for `-`.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    if is_dash(path) {
        print_bytes(bytes);
        return Ok(());
    }
    replace(path, bytes).map_err(|e| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
        let message = match folder {
            Some(folder) if !folder.exists() => format!("can't be written: there is no folder {}", folder.display()),
            Some(folder) => format!("can't be written: {} is not a folder", folder.display()),
            None if path.is_dir() => "can't be written: is a folder".to_owned(),
            None => format!("can't be written: {}", describe(&e)),
        };
        FileError { name: display_name(path), message }
    })
}

/// Writes a file beside the old one, which stays as it is until the new one is complete. What is no file, such as a pipe, is
/// written as it is, and so is a file in a folder that can't have others.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link stays one.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let old = std::fs::metadata(&target).ok();
    let Some(name) =
        target.file_name().filter(|_| old.as_ref().is_none_or(|old| old.is_file() && !old.permissions().readonly()))
    else {
        return std::fs::write(&target, bytes);
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = target.with_file_name(beside);
    let written = match std::fs::File::create_new(&beside) {
        Ok(mut file) => file.write_all(bytes),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => return std::fs::write(&target, bytes),
        Err(e) => return Err(e),
    };
    let keep = |old: &std::fs::Metadata| std::fs::set_permissions(&beside, old.permissions());
    let done =
        written.and_then(|()| old.as_ref().map_or(Ok(()), keep)).and_then(|()| std::fs::rename(&beside, &target));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// Writes a module as words. Words never go to a terminal.
pub fn write_binary(path: &Path, module: &Module) -> Result<(), FileError> {
    if is_dash(path) && std::io::stdout().is_terminal() {
        let message = "words don't go to a terminal: give -o FILE, or -t for text".to_owned();
        return Err(FileError { name: "stdout".into(), message });
    }
    write_bytes(path, &binary::write(module))
}

/// Writes a module as assembly text.
pub fn write_text(path: &Path, module: &Module) -> Result<(), FileError> {
    write_bytes(path, text::print(module, &PrintOptions::default()).text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        parse("x".into(), bytes.to_vec()).expect_err("must not be read").to_string()
    }

    /// The text of a shader inside of assembly does not make it that.
    #[test]
    fn assembly_with_its_source_is_read() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels/gemm_simple.debug.spv");
        let module = binary::read(&std::fs::read(file).expect("the file is there")).expect("a module");
        let printed = text::print(&module, &PrintOptions::default()).text;
        assert!(printed.contains("\n#version 460"), "it has its source");
        let again = parse("x".into(), printed.into_bytes()).expect("it is assembly");
        assert_eq!(again.module.all().count(), module.all().count());
    }

    #[test]
    fn what_is_not_a_module_says_so() {
        assert_eq!(message(b""), "x: the file is empty");
        assert_eq!(message(&[0; 64]), "x: neither SPIR-V words nor assembly text: the file begins with 00 00 00 00");
        assert!(message(b"#version 450\n").starts_with("x: GLSL, not a SPIR-V module: "));
        assert!(message(b"// a kernel\n[numthreads(8, 1, 1)]\n").starts_with("x: HLSL, "));
        assert!(message(b"@group(0) @binding(0)\n").starts_with("x: WGSL, "));
        assert!(message(b"// text\n").starts_with("x: source text, "));
        assert!(message(b"; ModuleID = 'x'\n").starts_with("x: LLVM's assembly, "));
        assert!(message(b"module {\n").starts_with("x: MLIR, "));
        assert!(message(b"{\"a\": 1}").starts_with("x: JSON, XML "));
        assert!(message(b"OpSource GLSL 460 %1 \"\n#version 460\n\"\nOpNonsense").starts_with("x:4:1: "));
        assert_eq!(message(b"; text\nvoid"), "x:2:1: expected an opcode or a result, found `void`");
        assert_eq!(message(b"\x7fELF"), "x: an ELF file, not a SPIR-V module");
        assert_eq!(message(b"\x7fLLF"), "x: neither SPIR-V words nor assembly text: the file begins with 7f 4c 4c 46");
        assert_eq!(message(&[3, 2, 0x23, 7]), "x: word 1: the header has 5 words; the file has 1");
    }

    #[test]
    fn either_byte_order_is_read() {
        let little: Vec<u8> = [binary::MAGIC, 0x10600, 0, 1, 0].iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
        let big: Vec<u8> = [binary::MAGIC, 0x10600, 0, 1, 0].iter().flat_map(|w: &u32| w.to_be_bytes()).collect();
        for bytes in [little, big] {
            let loaded = parse("x".into(), bytes.clone()).expect("a header alone is a module");
            assert_eq!(binary::write(&loaded.module), bytes);
        }
    }
}
