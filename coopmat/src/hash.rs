//! BLAKE2b (RFC 7693) with 32 bytes of result: keys of caches must not collide even where somebody wants them to.

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The bytes of a block.
const BLOCK: usize = 128;

/// The bytes of a result.
const LENGTH: usize = 32;

/// Returns a collision-resistant hash of byte strings, for caches.
pub fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::new();
    parts.iter().for_each(|part| hasher.add_field(part));
    hasher.finish()
}

/// Hashes bytes that come piece by piece.
#[derive(Clone)]
pub(crate) struct Hasher {
    state: [u64; 8],
    block: [u8; BLOCK],
    filled: usize,
    hashed: u128,
}

impl Hasher {
    pub(crate) fn new() -> Hasher {
        let mut state = IV;
        state[0] ^= 0x0101_0000 ^ LENGTH as u64;
        Hasher { state, block: [0; BLOCK], filled: 0, hashed: 0 }
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // The last block is known by that nothing follows it.
            if self.filled == BLOCK {
                self.compress(false);
                self.filled = 0;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = rest;
        }
    }

    /// Adds bytes of any number, so that it shows where they end.
    pub(crate) fn add_field(&mut self, bytes: &[u8]) {
        self.add(&(bytes.len() as u64).to_le_bytes());
        self.add(bytes);
    }

    pub(crate) fn finish(mut self) -> [u8; LENGTH] {
        self.block[self.filled..].fill(0);
        self.compress(true);
        let mut out = [0; LENGTH];
        for (bytes, word) in out.chunks_exact_mut(8).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn compress(&mut self, last: bool) {
        self.hashed += self.filled as u128;
        let mut words = [0_u64; 16];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        let mut v = [0_u64; 16];
        v[..8].copy_from_slice(&self.state);
        v[8..].copy_from_slice(&IV);
        v[12] ^= self.hashed as u64;
        v[13] ^= (self.hashed >> 64) as u64;
        if last {
            v[14] = !v[14];
        }
        for round in 0..12 {
            let s = &SIGMA[round % 10];
            mix(&mut v, [0, 4, 8, 12], words[s[0]], words[s[1]]);
            mix(&mut v, [1, 5, 9, 13], words[s[2]], words[s[3]]);
            mix(&mut v, [2, 6, 10, 14], words[s[4]], words[s[5]]);
            mix(&mut v, [3, 7, 11, 15], words[s[6]], words[s[7]]);
            mix(&mut v, [0, 5, 10, 15], words[s[8]], words[s[9]]);
            mix(&mut v, [1, 6, 11, 12], words[s[10]], words[s[11]]);
            mix(&mut v, [2, 7, 8, 13], words[s[12]], words[s[13]]);
            mix(&mut v, [3, 4, 9, 14], words[s[14]], words[s[15]]);
        }
        for (state, (low, high)) in self.state.iter_mut().zip(v[..8].iter().zip(&v[8..])) {
            *state ^= low ^ high;
        }
    }
}

fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8], pieces: usize) -> String {
        let mut hasher = Hasher::new();
        bytes.chunks(pieces).for_each(|piece| hasher.add(piece));
        hasher.finish().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As Python's hashlib.blake2b(..., digest_size=32) has them.
    #[test]
    fn hashes_are_those_of_others() {
        let counted: Vec<u8> = (0..1000_u32).map(|n| n as u8).collect();
        for pieces in [1, 7, 128, 1000] {
            assert_eq!(hex(b"", pieces), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
            assert_eq!(hex(b"abc", pieces), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
            assert_eq!(
                hex(&counted[..128], pieces),
                "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1"
            );
            assert_eq!(hex(&counted, pieces), "c636324d47d89f2b2434dc2c994100663fbbaea880ff020fc5de89dd0f77a1ec");
        }
    }
}
