//! Recordings: the results of a device, kept in files, to compare others with.
//!
//! A [`Recording`] holds the runs of one module with all of its cases and their variants. It is tied to what went in by
//! hashes, of the module and of each run's buffers: a recording whose inputs are no longer those of the case says nothing.
//!
//! A file is lines of text, an empty line, and the bytes of all buffers one after the other, compressed (deflate):
//!
//! ```text
//! coop-record 1
//! device NVIDIA H100 80GB HBM3
//! driver NVIDIA 580.159.04
//! module 91f3a0c2d4e5f607
//! run reduce.f16 large          case and variant (- is none)
//! inputs 0123456789abcdef
//! same I                        a buffer that the run left as it was
//! bytes O 512                   one that it changed
//! varies P                      one that was not the same twice
//! run reduce.f16 huge
//! failed needs feature ...      the device could not run it
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coop_ir::constant::SpecValue;
use serde::Deserialize;

use coop_exec::error::Error;
use coop_exec::file;
use coop_exec::{Bounds, Case, Difference, Outcome, compare_within};

/// The result of one run.
#[derive(Clone, PartialEq, Debug)]
pub enum Kept {
    /// The buffer is as it was before.
    Same,
    /// These are the bytes afterwards.
    Bytes(Vec<u8>),
    /// A second run gave other bytes.
    Varies,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Ended {
    /// With these buffers.
    Ran(Vec<(String, Kept)>),
    /// It did not: why.
    Failed(String),
}

/// One case, or variant of one, on the device.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The case's file name without `.toml`.
    pub case: String,
    /// The variant, if it is one.
    pub variant: Option<String>,
    /// [`hash_of_inputs`] of the case.
    pub inputs: u64,
    /// The result.
    pub ended: Ended,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.case)?;
        match &self.variant {
            Some(variant) => write!(f, " {variant}"),
            None => Ok(()),
        }
    }
}

/// The runs of one module on one device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recording {
    /// The device's name.
    pub device: String,
    /// The driver and its version.
    pub driver: String,
    /// [`hash`] of the module's words.
    pub module: u64,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
}

/// FNV-1a: tells inputs apart that changed by accident, which is all that is asked of it.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// [`hash`] of a module.
pub fn hash_of_words(words: &[u32]) -> u64 {
    hash(words.iter().flat_map(|word| word.to_le_bytes()))
}

/// [`hash`] of all that a case puts in: contents of buffers, push constants, specialization, workgroups. Device addresses
/// count as 0.
pub fn hash_of_inputs(case: &Case) -> Result<u64, Error> {
    let mut all = case.push_constants(&|_| 0)?;
    for index in 0..case.buffer.len() {
        all.extend(case.contents(index, &|_| 0)?);
    }
    all.extend(case.workgroups.iter().flat_map(|count| count.to_le_bytes()));
    for (id, value) in case.specialization()?.iter() {
        all.extend(id.to_le_bytes());
        all.extend(match value {
            SpecValue::Bool(value) => i128::from(value).to_le_bytes(),
            SpecValue::Int(value) => value.to_le_bytes(),
            SpecValue::Hex(value) | SpecValue::Bits(value) => i128::from(value).to_le_bytes(),
            SpecValue::Float(value) => u128::from(value.to_bits()).to_le_bytes(),
        });
    }
    Ok(hash(all))
}

/// Returns the recorded form of the results of two runs of a case.
pub fn keep(case: &Case, first: &Outcome, second: &Outcome) -> Result<Vec<(String, Kept)>, Error> {
    let mut kept = Vec::new();
    for (index, buffer) in case.buffer.iter().enumerate() {
        // Addresses differ from run to run.
        if buffer.fill.has_addresses() {
            continue;
        }
        let bytes = first.buffer(&buffer.name).unwrap_or_default();
        let what = if second.buffer(&buffer.name).unwrap_or_default() != bytes {
            Kept::Varies
        } else if case.contents(index, &|_| 0)? == bytes {
            Kept::Same
        } else {
            Kept::Bytes(bytes.to_vec())
        };
        kept.push((buffer.name.clone(), what));
    }
    Ok(kept)
}

/// Returns the differences of a run from the recording of another of the same case. Values that varied in the recording
/// are free. Bounds come with the number of sides that are not the interpreter's.
pub fn differences(
    case: &Case,
    kept: &[(String, Kept)],
    outcome: &Outcome,
    bounds: Option<(&Bounds, u8)>,
) -> Result<Vec<Difference>, Error> {
    let mut differences = Vec::new();
    for (index, buffer) in case.buffer.iter().enumerate() {
        let got = outcome.buffer(&buffer.name).unwrap_or_default();
        let bounds = bounds.map(|(bounds, sides)| (bounds, index, sides));
        match kept.iter().find(|(name, _)| *name == buffer.name).map(|(_, kept)| kept) {
            Some(Kept::Same) => {
                differences.extend(compare_within(buffer, got, &case.contents(index, &|_| 0)?, bounds)?);
            }
            Some(Kept::Bytes(wanted)) => differences.extend(compare_within(buffer, got, wanted, bounds)?),
            Some(Kept::Varies) | None => {}
        }
    }
    Ok(differences)
}

impl Recording {
    /// The run of a case or of its variant, if there is one with the same inputs.
    pub fn run(&self, case_name: &str, variant: Option<&str>, case: &Case) -> Result<Option<&Run>, Error> {
        let inputs = hash_of_inputs(case)?;
        let found = self.runs.iter().find(|run| run.case == case_name && run.variant.as_deref() == variant);
        match found {
            Some(run) if run.inputs != inputs => {
                Err(Error::case(format!("{run}: the inputs are not those that were recorded: record it again")))
            }
            other => Ok(other),
        }
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = |text: &str| text.replace(['\n', '\r'], " ");
        let mut text = format!(
            "coop-record 1\ndevice {}\ndriver {}\nmodule {:016x}\n",
            line(&self.device),
            line(&self.driver),
            self.module
        );
        let mut data = Vec::new();
        for run in &self.runs {
            text +=
                &format!("run {} {}\ninputs {:016x}\n", run.case, run.variant.as_deref().unwrap_or("-"), run.inputs);
            match &run.ended {
                Ended::Failed(why) => text += &format!("failed {}\n", line(why)),
                Ended::Ran(buffers) => {
                    for (name, kept) in buffers {
                        text += &match kept {
                            Kept::Same => format!("same {name}\n"),
                            Kept::Varies => format!("varies {name}\n"),
                            Kept::Bytes(bytes) => {
                                data.extend_from_slice(bytes);
                                format!("bytes {name} {}\n", bytes.len())
                            }
                        };
                    }
                }
            }
        }
        text.push('\n');
        let mut out = text.into_bytes();
        out.extend(miniz_oxide::deflate::compress_to_vec(&data, 9));
        out
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording, Error> {
        let bad = |why: String| Error::case(format!("recording: {why}"));
        let end = bytes.windows(2).position(|pair| pair == b"\n\n");
        let (text, packed) = end.map(|end| (&bytes[..end], &bytes[end + 2..])).ok_or_else(|| bad("no data".into()))?;
        let text = std::str::from_utf8(text).map_err(|error| bad(error.to_string()))?;
        let data = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, 1 << 28)
            .map_err(|error| bad(error.to_string()))?;
        let mut rest = data.as_slice();
        let mut lines = text.lines();
        if lines.next() != Some("coop-record 1") {
            return Err(bad("it does not begin with 'coop-record 1'".into()));
        }
        let mut recording = Recording::default();
        for line in lines {
            let (word, value) = line.split_once(' ').unwrap_or((line, ""));
            let hex = || u64::from_str_radix(value, 16).map_err(|_| bad(format!("'{line}' holds no number")));
            let stray = || bad(format!("'{line}' belongs to no run"));
            match word {
                "device" => recording.device = value.into(),
                "driver" => recording.driver = value.into(),
                "module" => recording.module = hex()?,
                "run" => {
                    let (case, variant) = value.split_once(' ').ok_or_else(|| bad(format!("'{line}' is not a run")))?;
                    let variant = Some(variant.to_string()).filter(|variant| variant != "-");
                    recording.runs.push(Run { case: case.into(), variant, inputs: 0, ended: Ended::Ran(Vec::new()) });
                }
                "inputs" => recording.runs.last_mut().ok_or_else(stray)?.inputs = hex()?,
                "failed" => recording.runs.last_mut().ok_or_else(stray)?.ended = Ended::Failed(value.into()),
                "same" | "varies" | "bytes" => {
                    let Ended::Ran(buffers) = &mut recording.runs.last_mut().ok_or_else(stray)?.ended else {
                        return Err(stray());
                    };
                    buffers.push(match word {
                        "same" => (value.into(), Kept::Same),
                        "varies" => (value.into(), Kept::Varies),
                        _ => {
                            let (name, size) = value.rsplit_once(' ').ok_or_else(stray)?;
                            let size: usize = size.parse().map_err(|_| bad(format!("'{line}' holds no size")))?;
                            let (bytes, more) =
                                rest.split_at_checked(size).ok_or_else(|| bad("there are too few data".into()))?;
                            rest = more;
                            (name.into(), Kept::Bytes(bytes.to_vec()))
                        }
                    });
                }
                _ => return Err(bad(format!("'{line}' is not known"))),
            }
        }
        if !rest.is_empty() {
            return Err(bad(format!("{} bytes belong to no buffer", rest.len())));
        }
        Ok(recording)
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Recording, Error> {
        let bytes =
            file::read(path, file::MAX_MODULE).map_err(|error| Error::case(format!("{}: {error}", path.display())))?;
        Recording::from_bytes(&bytes).map_err(|error| Error::case(format!("{}: {error}", path.display())))
    }
}

/// The runs in which a device is known not to do what the specifications say, and where that is written down:
/// `known.toml` beside its recordings. Runs are named by module, case and variant:
/// `reduce.f16: reduce large`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The behavior of the device that differs from the specification and that `Semantics::Nvidia` follows.
    #[serde(default)]
    pub observed: BTreeMap<String, String>,
    /// The faults of the device.
    #[serde(default)]
    pub faults: BTreeMap<String, String>,
}

impl Known {
    /// Reads the file, if the folder has one.
    pub fn load(folder: &Path) -> Result<Known, Error> {
        let path = folder.join("known.toml");
        if !path.exists() {
            return Ok(Known::default());
        }
        let text = file::read_text(&path, file::MAX_TEXT)
            .map_err(|error| Error::case(format!("{}: {error}", path.display())))?;
        toml::from_str(&text).map_err(|error| Error::case(format!("{}: {error}", path.display())))
    }

    /// Returns the known reason why a run differs from the device. `observed` is true if the run follows observed
    /// behavior.
    pub fn why(&self, module: &str, run: &Run, observed: bool) -> Option<&str> {
        let name = format!("{module}: {run}");
        let observed = self.observed.get(&name).filter(|_| !observed);
        observed.or(self.faults.get(&name)).map(String::as_str)
    }
}

/// A module of a folder with the cases that it is run with.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    /// The module's file name without its ending.
    pub name: String,
    /// The module, `.spv` or `.spvasm`.
    pub module: PathBuf,
    /// The case files.
    pub cases: Vec<PathBuf>,
}

/// The modules of a folder, by name. A case belongs to the module with the longest name that its own begins with: `a.b.toml` to
/// `a.b.spv`, or to `a.spv` if there is no such module. A module without a case of its own takes those for a shorter name: `a.c.spv`
/// is run with `a.toml` too. A module without any is left out.
pub fn subjects(folder: &Path) -> Result<Vec<Subject>, Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::case(format!("{}: {error}", folder.display())))?;
    let mut files: Vec<String> =
        entries.map_while(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    files.sort();
    let name_of = |file: &str| file.strip_suffix(".spv").or_else(|| file.strip_suffix(".spvasm")).map(str::to_string);
    let names: Vec<String> = files.iter().filter_map(|file| name_of(file)).collect();
    let cases: Vec<(&str, &str)> = files
        .iter()
        .filter_map(|file| file.strip_suffix(".toml"))
        .map(|case| {
            let mut owner = case;
            while !names.iter().any(|name| name == owner) {
                let Some((shorter, _)) = owner.rsplit_once('.') else { break };
                owner = shorter;
            }
            (case, owner)
        })
        .collect();
    let mut subjects = Vec::new();
    for (file, name) in files.iter().filter_map(|file| Some((file, name_of(file)?))) {
        let mut stem = Some(name.as_str());
        while let Some(owner) = stem {
            let own = cases.iter().filter(|(_, of)| *of == owner);
            let found: Vec<PathBuf> = own.map(|(case, _)| folder.join(format!("{case}.toml"))).collect();
            if !found.is_empty() {
                subjects.push(Subject { name: name.clone(), module: folder.join(file), cases: found });
                break;
            }
            stem = owner.rsplit_once('.').map(|(shorter, _)| shorter);
        }
    }
    Ok(subjects)
}

/// The name of a case file: what it is called without `.toml`.
pub fn case_name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let run = |variant: Option<&str>, ended| Run {
            case: "reduce".into(),
            variant: variant.map(Into::into),
            inputs: 0xabcd,
            ended,
        };
        let buffers = vec![
            ("I".into(), Kept::Same),
            ("an O".into(), Kept::Bytes(vec![1, 2, 3])),
            ("P".into(), Kept::Varies),
            ("Q".into(), Kept::Bytes((0..=255).collect())),
        ];
        Recording {
            device: "some GPU".into(),
            driver: "1.2".into(),
            module: u64::MAX,
            runs: vec![run(None, Ended::Ran(buffers)), run(Some("large"), Ended::Failed("no memory".into()))],
        }
    }

    #[test]
    fn a_file_is_what_was_recorded() {
        assert_eq!(Recording::from_bytes(&recording().to_bytes()).unwrap(), recording());
    }

    #[test]
    fn broken_files_are_errors() {
        let bytes = recording().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for (from, to) in [
            ("record 1", "record 2"),
            ("bytes Q 256", "bytes Q 999"),
            ("bytes Q 256", "bytes Q 255"),
            ("same I", "sane I"),
        ] {
            let at = text.find(from).unwrap();
            let mut broken = bytes[..at].to_vec();
            broken.extend(to.as_bytes());
            broken.extend(&bytes[at + from.len()..]);
            assert!(Recording::from_bytes(&broken).is_err(), "{to}");
        }
        for length in 0..bytes.len() {
            let _ = Recording::from_bytes(&bytes[..length]);
        }
    }

    #[test]
    fn inputs_have_a_hash() {
        let case = |count| {
            let text = format!("workgroups = [1, 1, 1]\n[[buffer]]\nname = 'A'\ntype = 'f16'\ncount = {count}");
            hash_of_inputs(&Case::parse(&text, Path::new("")).unwrap()).unwrap()
        };
        assert_ne!(case(4), case(5));
        assert_eq!(hash(*b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
