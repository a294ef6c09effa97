//! Collision-resistant hashes (BLAKE2bp, 32 bytes): keys of caches must not collide even where somebody wants them to. BLAKE2b
//! takes twice the time where vectors are wide.

use blake2b_simd::blake2bp::Params;

/// The bytes of a hash.
const LENGTH: usize = 32;

/// Returns a collision-resistant hash of byte strings, for caches. Strings that are split elsewhere have another hash.
pub fn hash(parts: &[&[u8]]) -> [u8; LENGTH] {
    let mut hasher = Params::new().hash_length(LENGTH).to_state();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut out = [0; LENGTH];
    out.copy_from_slice(hasher.finalize().as_bytes());
    out
}

/// Returns the hash of words, in little-endian order.
pub(crate) fn hash_words(words: &[u32]) -> [u8; LENGTH] {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    hash(&[&bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_parts_count() {
        assert_eq!(hash(&[b"ab", b"c"]), hash(&[b"ab", b"c"]));
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"abc"]), hash(&[b"abc", b""]));
        assert_eq!(hash_words(&[0x0403_0201]), hash(&[&[1, 2, 3, 4]]));
    }
}
