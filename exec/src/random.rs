//! The generator that fills buffers: splitmix64.
//!
//! The state is a counter that grows by 0x9e3779b97f4a7c15; each output is the counter mixed by two
//! xor-shift-multiply rounds. A case's contents are a function of its seed alone: the same file gives the same
//! bytes on every machine and in every version.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// An integer from `low` to `high`, both included. `high` must not be smaller.
    pub fn integer(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low) as u64;
        // Multiply and take the upper half: the bias is below 2^-40 for the ranges that cases use.
        let scaled = (u128::from(self.bits()) * (u128::from(span) + 1)) >> 64;
        low.wrapping_add(scaled as i64)
    }

    /// A float from 0 up to, but not including, 1, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2f64.powi(-53)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_fixed() {
        // The published first outputs of splitmix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn integers_cover_their_range() {
        let mut random = Random::new(1);
        let mut seen = [0; 9];
        for _ in 0..9000 {
            seen[(random.integer(-4, 4) + 4) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
        random.integer(i64::MIN, i64::MAX);
        assert_eq!(random.integer(7, 7), 7);
    }
}
