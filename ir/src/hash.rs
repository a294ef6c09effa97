//! Hash maps and sets of the workspace: FxHash, which is fast for ids.
//!
//! No output may depend on their iteration order. Tests vary that order: with the feature `hash-seed`, `with_seed`
//! changes the seed of a thread's maps. Without the feature there is one order.

pub use rustc_hash::FxHasher;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

/// A map by FxHash.
pub type FxHashMap<K, V> = HashMap<K, V, State>;

/// A set by FxHash.
pub type FxHashSet<K> = HashSet<K, State>;

/// The seed of a map's hashes.
#[derive(Clone, Copy, Debug)]
pub struct State {
    #[cfg(feature = "hash-seed")]
    seed: usize,
}

#[cfg(feature = "hash-seed")]
thread_local! {
    static SEED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Runs `f` with another seed for the maps that this thread makes; 0 is the usual one.
#[cfg(feature = "hash-seed")]
pub fn with_seed<R>(seed: usize, f: impl FnOnce() -> R) -> R {
    let before = SEED.replace(seed);
    let result = f();
    SEED.set(before);
    result
}

impl Default for State {
    #[inline]
    fn default() -> State {
        State {
            #[cfg(feature = "hash-seed")]
            seed: SEED.get(),
        }
    }
}

impl BuildHasher for State {
    type Hasher = FxHasher;

    #[cfg(not(feature = "hash-seed"))]
    #[inline]
    fn build_hasher(&self) -> FxHasher {
        FxHasher::default()
    }

    #[cfg(feature = "hash-seed")]
    #[inline]
    fn build_hasher(&self) -> FxHasher {
        FxHasher::with_seed(self.seed)
    }
}

#[cfg(all(test, feature = "hash-seed"))]
mod tests {
    use super::*;

    #[test]
    fn seeds_change_the_order() {
        let order = |seed| with_seed(seed, || (0..100u32).collect::<FxHashSet<u32>>().into_iter().collect::<Vec<_>>());
        assert_ne!(order(0), order(1));
        assert_eq!(order(1), order(1));
        let plain: HashSet<u32, rustc_hash::FxBuildHasher> = (0..100u32).collect();
        assert_eq!(order(0), plain.into_iter().collect::<Vec<_>>());
    }
}
