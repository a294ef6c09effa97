//! The page in a browser.

use std::path::Path;
use std::process::Command;

/// `web/page/test.mjs` says what is tested.
#[test]
#[ignore = "scripts/test.sh long runs it: the page's module is compiled for five minutes"]
fn the_page_works_in_chromium() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("bash").arg(root.join("scripts/web.sh")).arg("test").output().expect("bash");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    eprintln!("{said}");
    assert!(output.status.success() && said.contains("the page works"), "{said}");
}
