//! The sources of shaders, as modules name them.

use crate::check::compile::Language;
use coop_exec::file;
use coop_ir::Module;
use coop_ir::source::SourceMap;
use std::path::Path;

/// The most bytes of a source that are read.
const MOST_BYTES: u64 = 16 << 20;

/// The extensions of files that shaders include, and of kernels in other languages.
const OTHERS: [&str; 8] = ["hlsli", "glslh", "h", "hpp", "inc", "cl", "cpp", "cu"];

/// Returns the source places of a module. Text that the module lacks is that of the files which it names, as they are now: compilers may
/// be told to write lines only.
pub(crate) fn of(module: &Module) -> SourceMap {
    let mut map = SourceMap::new(module);
    map.add_texts(|name| read(Path::new(name)));
    map
}

/// Reads a source. A module may name any file: others than sources are left alone.
fn read(path: &Path) -> Option<String> {
    let other = || path.extension()?.to_str().filter(|extension| OTHERS.contains(extension));
    if Language::of(path).is_none() && other().is_none() || !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    String::from_utf8(file::read(path, MOST_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_are_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(read(&root.join("testdata/cli/divergent.comp")).is_some_and(|text| text.starts_with("#version")));
        assert_eq!(
            [read(&root.join("Cargo.toml")), read(&root.join("no-such.comp")), read(Path::new(""))],
            [const { None }; 3]
        );
    }
}
