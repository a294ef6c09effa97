//! Making what fails small: less entropy, then fewer instructions; and keeping it.

use super::Trouble;
use crate::generator::{Generated, GeneratorProfile};
use coop_ir::{Module, binary, text};
use std::ops::ControlFlow;
use std::path::Path;

/// Less entropy that still makes trouble of the same class: what `troubles` answers with `true`. It is asked at most
/// `tries` times.
pub fn shrink(entropy: &[u8], mut tries: u32, troubles: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = entropy.to_vec();
    let mut attempt = |best: &mut Vec<u8>, candidate: Vec<u8>| {
        if tries == 0 || candidate == *best {
            return false;
        }
        tries -= 1;
        let better = troubles(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    // The end first: what is not there is zeros.
    let mut cut = best.len() / 2;
    while cut > 0 {
        let mut shorter = best.clone();
        shorter.truncate(best.len() - cut.min(best.len()));
        if !attempt(&mut best, shorter) {
            cut /= 2;
        }
    }
    let mut span = (best.len() / 2).max(1);
    loop {
        let mut changed = false;
        let mut at = 0;
        while at < best.len() {
            let end = (at + span).min(best.len());
            let mut without = best.clone();
            without.drain(at..end);
            if attempt(&mut best, without) {
                changed = true;
                continue;
            }
            let mut zeroed = best.clone();
            zeroed[at..end].fill(0);
            changed |= attempt(&mut best, zeroed);
            at = end;
        }
        match span {
            1 if !changed => break,
            1 => {}
            _ => span /= 2,
        }
    }
    while best.last() == Some(&0) {
        best.pop();
    }
    best
}

/// A module with less in it that still makes trouble. `troubles` is asked at most `tries` times.
pub fn reduce(module: &Module, tries: u32, troubles: &mut dyn FnMut(&Module) -> bool) -> Module {
    coop_cli::reduce::reduce(module, tries, &mut |candidate| ControlFlow::Continue(troubles(candidate))).module
}

/// Writes what is needed to see the trouble again.
pub fn keep(
    folder: &Path,
    profile: GeneratorProfile,
    made: &Generated,
    entropy: &[u8],
    trouble: &Trouble,
) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let print = |m: &Module| text::print(m, &text::PrintOptions::default()).text;
    std::fs::write(folder.join("entropy.bin"), entropy)?;
    let mut header: String = trouble.message.lines().map(|l| format!("; {l}\n")).collect();
    // For `testdata/passes`, where such modules go: what they are lowered to.
    let word = trouble.class.split([' ', ',']).next().unwrap_or("");
    if ["scalar", "khr", "ext", "auto"].contains(&word) {
        header.insert_str(0, &format!("; targets: {word}\n"));
    }
    std::fs::write(folder.join("module.spvasm"), format!("; {profile}\n{header}{}", print(&made.module)))?;
    std::fs::write(folder.join("module.spv"), binary::write(&made.module))?;
    std::fs::write(folder.join("module.toml"), &made.case)?;
    std::fs::write(folder.join("trouble.txt"), format!("{profile}\n{}\n\n{}\n", trouble.class, trouble.message))?;
    for (label, module) in &trouble.modules {
        let name: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(folder.join(format!("{name}.spvasm")), print(module))?;
    }
    Ok(())
}
