//! Bytes that decide.

/// A cursor over entropy. Behind the end there are zeros, so that less entropy makes a simpler module: wherever there
/// is a choice, 0 is the plainest.
pub(super) struct Entropy<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Choices that were thought of later. They are drawn from a stream of their own, which the first bytes of the entropy begin: what the
/// other stream decides is what it was without them. Zeros make nothing but plain choices.
pub(super) struct Side {
    state: u64,
}

impl Side {
    pub(super) fn new(bytes: &[u8]) -> Side {
        let mix = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let first = &bytes[..bytes.len().min(16)];
        let plain = first.iter().all(|b| *b == 0);
        Side { state: if plain { 0 } else { first.iter().fold(0xcbf2_9ce4_8422_2325, mix) } }
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        if self.state == 0 {
            return 0;
        }
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15).max(1);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32 % n.max(1)
    }

    /// True `of_256` times in 256.
    pub(super) fn chance(&mut self, of_256: u32) -> bool {
        self.below(256) >= 256 - of_256.min(255)
    }

    /// One of several; the first is the plainest.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

impl<'a> Entropy<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Entropy<'a> {
        Entropy { bytes, at: 0 }
    }

    pub(super) fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// Returns the number of bytes that were asked for.
    pub(super) fn used(&self) -> usize {
        self.at
    }

    /// A number below `n`, of one byte or two; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        match n {
            0 | 1 => 0,
            2..=256 => u32::from(self.byte()) % n,
            _ => (u32::from(self.byte()) << 8 | u32::from(self.byte())) % n,
        }
    }

    /// True `of_256` times in 256.
    pub(super) fn chance(&mut self, of_256: u32) -> bool {
        u32::from(self.byte()) >= 256 - of_256.min(255)
    }

    /// One of several; the first is the plainest.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// Choices made of the bytes asked for last, so that no more are used up: further choices that leave all others as they
    /// are. Of zeros come the plainest.
    pub(super) fn echo(&self) -> Echo {
        let last =
            (1..=4).map(|back| self.at.checked_sub(back).and_then(|at| self.bytes.get(at)).copied().unwrap_or(0));
        Echo(last.fold(0, |state, byte| state << 8 | u32::from(byte)))
    }
}

/// Choices that follow from bytes which were asked for already.
pub(super) struct Echo(u32);

impl Echo {
    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        // Xorshift: 0 stays 0.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) % n.max(1)
    }

    /// True `of_256` times in 256.
    pub(super) fn chance(&mut self, of_256: u32) -> bool {
        self.below(256) >= 256 - of_256.min(255)
    }
}
