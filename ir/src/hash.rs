//! Hash maps and sets of the workspace: FxHash, which is fast for ids.
//!
//! Nothing that is written may depend on the order in which they give out what they hold. So tests choose that order: with the
//! feature `hash-seed`, `with_seed` makes the maps of a thread hash from another beginning. Without it there is one order.

pub use rustc_hash::FxHasher;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

/// A map by FxHash.
pub type FxHashMap<K, V> = HashMap<K, V, State>;

/// A set by FxHash.
pub type FxHashSet<K> = HashSet<K, State>;

/// Where a map's hashes begin.
#[derive(Clone, Copy, Debug)]
pub struct State {
    #[cfg(feature = "hash-seed")]
    seed: usize,
}

#[cfg(feature = "hash-seed")]
thread_local! {
    static SEED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Runs `f` with maps that this thread makes on another seed; 0 is the one that they have otherwise.
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
