//! Caches the outcomes of lowerings: in memory for a device, and in files for other processes.
//!
//! A key is a cryptographic hash of the library's build, the module, the device and the pipeline, so that nobody can
//! forge a collision. Files are in a folder that only its owner can enter. Each is written to a temporary file, then
//! renamed, and is only used if its hash is right; otherwise the module is lowered again. Any number of processes may
//! share a folder.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A pipeline and its device.
pub(crate) type Key = [u8; 32];

/// The replacement of a pipeline's module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Replacement {
    /// The words, in the byte order of the machine.
    pub(crate) words: Vec<u32>,
    /// The subgroup size that the pipeline must require.
    pub(crate) subgroup_size: Option<u32>,
    /// True if it must require full subgroups.
    pub(crate) full_subgroups: bool,
    /// True if it is best made without requirements on subgroups.
    pub(crate) any_subgroup_size: bool,
    /// The lowering and its reasons, for the log.
    pub(crate) said: String,
}

/// The cached outcome of a pipeline: none if the driver takes the module as it is.
pub(crate) type CachedOutcome = Option<Arc<Replacement>>;

/// The words that are kept in memory for a device.
const MOST_WORDS: usize = 16 << 20;

/// The answers of a device.
#[derive(Default)]
pub(crate) struct OutcomeCache(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    known: HashMap<Key, CachedOutcome>,
    /// In the order in which they came.
    order: VecDeque<Key>,
    words: usize,
}

/// Returns the size of an answer, in words.
fn cost(known: &CachedOutcome) -> usize {
    64 + known.as_ref().map_or(0, |replacement| replacement.words.len())
}

impl OutcomeCache {
    pub(crate) fn get(&self, key: &Key) -> Option<CachedOutcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).known.get(key).cloned()
    }

    pub(crate) fn insert(&self, key: Key, known: CachedOutcome) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.words += cost(&known);
        if let Some(before) = memory.known.insert(key, known) {
            memory.words -= cost(&before);
        } else {
            memory.order.push_back(key);
        }
        while memory.words > MOST_WORDS
            && let Some(oldest) = memory.order.pop_front()
        {
            if let Some(gone) = memory.known.remove(&oldest) {
                memory.words -= cost(&gone);
            }
        }
    }
}

/// The first word of a file, with the version of what follows.
const MAGIC: u32 = 0x434d_0001;

/// The words in front of the text and the words of an answer: magic, kind, subgroup size, flags, bytes of text, words.
const HEADER: usize = 6;

/// Bytes of the hash behind it.
const HASH: usize = 32;

/// Files larger than this are none of ours.
const MOST_BYTES: u64 = 256 << 20;

/// One in so many writes looks at how large the folder has become.
const SWEEP: u32 = 16;

/// Files in the making that are older belong to processes that are gone.
const STALE: Duration = Duration::from_secs(3600);

/// A folder of answers.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The bytes that it may hold.
    most: u64,
}

/// Files that this process wrote, for their names while they are made.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

impl Folder {
    /// Makes the folder if need be. None if it is not its owner's alone, or can't be made.
    pub(crate) fn open(path: &Path, most: u64) -> Option<Folder> {
        let folder = Folder { path: path.to_owned(), most };
        (most > 0 && own::folder(path)).then_some(folder)
    }

    fn file(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.path.join(name)
    }

    /// Returns what is known of a pipeline.
    pub(crate) fn get(&self, key: &Key) -> Option<CachedOutcome> {
        let path = self.file(key);
        let bytes = own::read(&path, MOST_BYTES)?;
        let known = decode(key, &bytes);
        if known.is_none() {
            let _ = std::fs::remove_file(&path);
        }
        known
    }

    /// Writes what is known of a pipeline; that it may fail, nobody needs to know.
    pub(crate) fn insert(&self, key: &Key, known: &CachedOutcome) {
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let aside = self.path.join(format!(".{}-{number}", std::process::id()));
        if own::write(&aside, &encode(key, known)).is_some() && std::fs::rename(&aside, self.file(key)).is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        if number.is_multiple_of(SWEEP) {
            self.evict();
        }
    }

    /// Removes the oldest files until there is room again, and what was left behind.
    fn evict(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            let Ok(modified) = about.modified() else { continue };
            let aside = entry.file_name().to_string_lossy().starts_with('.');
            if aside && modified.elapsed().is_ok_and(|age| age > STALE) {
                let _ = std::fs::remove_file(entry.path());
            } else if !aside && about.is_file() {
                files.push((modified, about.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.most {
            return;
        }
        files.sort();
        for (_, bytes, path) in files {
            // Some room, so that not every sweep has to remove.
            if total <= self.most - self.most / 4 {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

fn encode(key: &Key, known: &CachedOutcome) -> Vec<u8> {
    let none = Replacement {
        words: Vec::new(),
        subgroup_size: None,
        full_subgroups: false,
        any_subgroup_size: false,
        said: String::new(),
    };
    let r = known.as_deref().unwrap_or(&none);
    let header = [
        MAGIC,
        u32::from(known.is_some()),
        r.subgroup_size.unwrap_or(0),
        u32::from(r.full_subgroups) | u32::from(r.any_subgroup_size) << 1,
        r.said.len() as u32,
        r.words.len() as u32,
    ];
    let mut bytes: Vec<u8> = Vec::with_capacity(HEADER * 4 + r.said.len() + r.words.len() * 4 + HASH);
    bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(r.said.as_bytes());
    bytes.extend(r.words.iter().flat_map(|word| word.to_le_bytes()));
    let hash = coopmat::hash(&[key, &bytes]);
    bytes.extend(hash);
    bytes
}

fn decode(key: &Key, bytes: &[u8]) -> Option<CachedOutcome> {
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if coopmat::hash(&[key, content]) != hash {
        return None;
    }
    let words =
        |bytes: &[u8]| -> Vec<u32> { bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect() };
    let (header, rest) = content.split_at_checked(HEADER * 4)?;
    let [magic, kind, size, flags, text, count] = words(header)[..] else { return None };
    let (said, rest) = rest.split_at_checked(text as usize)?;
    if magic != MAGIC || rest.len() != (count as usize).checked_mul(4)? {
        return None;
    }
    if kind == 0 {
        return Some(None);
    }
    let replacement = Replacement {
        words: words(rest),
        subgroup_size: (size != 0).then_some(size),
        full_subgroups: flags & 1 != 0,
        any_subgroup_size: flags & 2 != 0,
        said: String::from_utf8(said.to_vec()).ok()?,
    };
    Some(Some(Arc::new(replacement)))
}

/// Returns the default folder of the cache: a user folder for data that can be made again.
pub(crate) fn usual_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let all = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(all.join("coopmat"))
}

/// Folders and files that nobody else can write.
#[cfg(unix)]
mod own {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io::{Read, Write};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    #[allow(unsafe_code, reason = "a function of the C library without arguments")]
    fn user() -> u32 {
        unsafe extern "C" {
            safe fn geteuid() -> u32;
        }
        geteuid()
    }

    /// Makes a folder; true if it is a folder that only this user can enter.
    pub(super) fn folder(path: &Path) -> bool {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
        let is = |m: std::fs::Metadata| m.is_dir() && m.uid() == user() && m.mode() & 0o022 == 0;
        std::fs::symlink_metadata(path).is_ok_and(is)
    }

    /// Reads a file of this user's.
    pub(super) fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut file = File::open(path).ok()?;
        let about = file.metadata().ok()?;
        if !about.is_file() || about.uid() != user() || about.len() > most {
            return None;
        }
        let mut bytes = Vec::with_capacity(about.len() as usize + 1);
        file.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a file that was not there; none is left if that fails.
    pub(super) fn write(path: &Path, bytes: &[u8]) -> Option<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).ok()?;
        let written = file.write_all(bytes).ok();
        if written.is_none() {
            let _ = std::fs::remove_file(path);
        }
        written
    }
}

/// Where owners are not known, nothing is kept.
#[cfg(not(unix))]
mod own {
    use std::path::Path;

    pub(super) fn folder(_: &Path) -> bool {
        false
    }

    pub(super) fn read(_: &Path, _: u64) -> Option<Vec<u8>> {
        None
    }

    pub(super) fn write(_: &Path, _: &[u8]) -> Option<()> {
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str, most: u64) -> Folder {
        let path = std::env::temp_dir().join(format!("coopmat-cache-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder::open(&path, most).unwrap_or_else(|| panic!("{}", path.display()))
    }

    fn lowered(words: usize) -> CachedOutcome {
        let said = "lowered to Scalar, because".to_owned();
        let words = (0..words as u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        Some(Arc::new(Replacement {
            words,
            subgroup_size: Some(8),
            full_subgroups: true,
            any_subgroup_size: true,
            said,
        }))
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = folder("read", 1 << 20);
        let key = |n: u8| [n; 32];
        assert_eq!(folder.get(&key(1)), None);
        folder.insert(&key(1), &lowered(1000));
        folder.insert(&key(2), &None);
        assert_eq!((folder.get(&key(1)), folder.get(&key(2))), (Some(lowered(1000)), Some(None)));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path), mode(&folder.file(&key(1)))), (0o700, 0o600));
        // Of another pipeline.
        std::fs::copy(folder.file(&key(1)), folder.file(&key(3))).unwrap();
        assert_eq!(folder.get(&key(3)), None);
        let _ = std::fs::remove_dir_all(&folder.path);
    }

    #[test]
    fn broken_files_are_no_answers() {
        let folder = folder("broken", 1 << 20);
        let key = [7; 32];
        folder.insert(&key, &lowered(30));
        let whole = std::fs::read(folder.file(&key)).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(folder.file(&key), &bytes).unwrap();
            assert_eq!(folder.get(&key), None, "byte {at}");
            assert!(!folder.file(&key).exists(), "byte {at}");
            std::fs::write(folder.file(&key), &whole[..at]).unwrap();
            assert_eq!(folder.get(&key), None, "{at} bytes");
        }
        std::fs::write(folder.file(&key), &whole).unwrap();
        assert_eq!(folder.get(&key), Some(lowered(30)));
        let _ = std::fs::remove_dir_all(&folder.path);
    }

    #[test]
    fn a_folder_has_a_bound() {
        let folder = folder("bound", 100_000);
        for n in 0..200_u8 {
            folder.insert(&[n; 32], &lowered(1000));
        }
        folder.evict();
        let bytes: u64 = std::fs::read_dir(&folder.path).unwrap().flatten().map(|e| e.metadata().unwrap().len()).sum();
        assert!((50_000..=100_000).contains(&bytes), "{bytes}");
        let _ = std::fs::remove_dir_all(&folder.path);
    }

    #[test]
    fn folders_that_others_write_are_not_used() {
        let path = std::env::temp_dir().join(format!("coopmat-cache-others-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Folder::open(&path, 1 << 20).is_none());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Folder::open(&path, 1 << 20).is_some() && Folder::open(&path, 0).is_none());
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::write(&path, "no folder").unwrap();
        assert!(Folder::open(&path, 1 << 20).is_none());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn threads_and_processes_share_a_folder() {
        let folder = folder("threads", 1 << 20);
        let others: Vec<Folder> = (0..4).map(|_| Folder::open(&folder.path, 1 << 20).unwrap()).collect();
        std::thread::scope(|scope| {
            for other in &others {
                scope.spawn(|| {
                    for n in 0..50_u8 {
                        other.insert(&[n % 5; 32], &lowered(200 + usize::from(n % 5)));
                        if let Some(found) = other.get(&[n % 5; 32]) {
                            assert_eq!(found, lowered(200 + usize::from(n % 5)));
                        }
                    }
                });
            }
        });
        for n in 0..5_u8 {
            assert_eq!(folder.get(&[n; 32]), Some(lowered(200 + usize::from(n))));
        }
        let _ = std::fs::remove_dir_all(&folder.path);
    }

    #[test]
    fn memory_has_a_bound() {
        let outcomes = OutcomeCache::default();
        for n in 0..40_u8 {
            outcomes.insert([n; 32], lowered(1 << 20));
            outcomes.insert([n; 32], lowered(1 << 20));
        }
        assert!(outcomes.get(&[39; 32]).is_some() && outcomes.get(&[0; 32]).is_none());
        let memory = outcomes.0.lock().unwrap();
        assert!(memory.words <= MOST_WORDS && memory.known.len() == memory.order.len(), "{}", memory.words);
    }
}
