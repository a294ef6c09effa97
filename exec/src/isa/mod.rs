//! A processor's instructions, from a compiler's listing: how many of each kind, and how often they run.
//!
//! The listings are those of Mesa's compilers: ACO for AMD, NAK for NVIDIA, IR3 for Adreno, BRW for Intel. [`Listing::read`]
//! reads the text into blocks, [`Listing::weigh`] gives each block the number of times that it runs. In the plain counts an instruction
//! counts once for each time that the text says it is there. On AMD and NVIDIA their sum is the compiler's own count; on
//! Intel it is larger, since waits are in the listing. A mnemonic that no rule names is arithmetic.

mod listing;
mod weigh;

use std::iter::Sum;

use serde::{Deserialize, Serialize};

pub use listing::Listing;

/// The kind of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Multiplies matrices.
    Matrix,
    /// Accesses buffers, images, constants in memory, or scratch.
    Memory,
    /// Accesses shared memory.
    Shared,
    /// Computes, converts or moves.
    Arithmetic,
    /// Waits for the other subgroups of the workgroup.
    Barrier,
    /// Waits: counters of memory, slots that must stay empty, hints about both.
    Wait,
    /// Branches, ends, or brings invocations together again.
    Branch,
}

impl Kind {
    /// Every kind, in the order of tables.
    pub const ALL: [Kind; 7] =
        [Kind::Matrix, Kind::Memory, Kind::Shared, Kind::Arithmetic, Kind::Barrier, Kind::Wait, Kind::Branch];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Matrix => "matrix",
            Kind::Memory => "memory",
            Kind::Shared => "shared memory",
            Kind::Arithmetic => "arithmetic",
            Kind::Barrier => "barrier",
            Kind::Wait => "wait",
            Kind::Branch => "branch",
        }
    }
}

/// A number for each kind of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ByKind<N> {
    counts: [N; Kind::ALL.len()],
}

/// The instructions that a listing has.
pub type Counts = ByKind<u64>;

/// The instructions that a subgroup executes, on average.
pub type Weighed = ByKind<f64>;

impl<N: Copy + Sum> ByKind<N> {
    /// Returns the number of instructions of a kind.
    pub fn of(&self, kind: Kind) -> N {
        self.counts[kind as usize]
    }

    /// Returns the number of all instructions.
    pub fn total(&self) -> N {
        self.counts.iter().copied().sum()
    }
}

impl Counts {
    fn add(&mut self, kind: Kind, times: u64) {
        self.counts[kind as usize] += times;
    }

    fn add_all(&mut self, other: &Counts) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, one)| *sum += one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str, wanted: [u64; 7]) {
        let counts = Listing::read(text).unwrap_or_else(|| panic!("not known:\n{text}")).counts();
        assert_eq!(Kind::ALL.map(|kind| counts.of(kind)), wanted, "{text}");
        assert_eq!(counts.total(), wanted.iter().sum::<u64>());
    }

    #[test]
    fn of_amd() {
        counted(
            "BB0:\n\
             \ts_load_b128 s[0:3], s[2:3], 0x0                             ; f4080001 f8000000\n\
             \tv_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[16:23], v[8:15]  ; cc404008 1c222100\n\
             \tds_load_b128 v[0:3], v4                                     ; dbfc0000 00000004\n\
             \tv_dual_mov_b32 v0, 0 :: v_dual_mov_b32 v1, 0                ; ca100080 00000080\n\
             \ts_waitcnt lgkmcnt(0)                                        ; bf89fc07\n\
             \ts_barrier                                                   ; bfbd0000\n\
             BB2:\n\
             \ts_endpgm                                                    ; bfb00000\n",
            [1, 1, 1, 1, 1, 1, 1],
        );
    }

    #[test]
    fn of_nvidia() {
        counted(
            "block.u 0 L2 [] -> {\n\
             \x20     b0       = bssy b0 pT L0                                   // delay=1\n\
             \x20     ur2      = ldc.b32 c[0x0][+0x0]                            // delay=1 wr:2\n\
             \x20     r0..4    = hmma.m16n8k16.f32 r8..12 r12..14 r0..4          // delay=1\n\
             \x20     r0..4    = ldsm.16.m8n8.x4 [r5]                            // delay=1\n\
             \x20                st.shared.strong.cta.b32 [r4], r0               // delay=1\n\
             \x20     r8       = ffma.ftz r39 r33 r8                             // delay=1\n\
             \x20                bar.sync                                        // delay=5\n\
             \x20         @!p0 bra pT L129                                       // delay=1\n\
             } -> [87]\n",
            [1, 1, 2, 1, 1, 0, 2],
        );
    }

    #[test]
    fn of_adreno() {
        counted(
            "Native code for unnamed CL shader (null) with blake3 00:\n\
             ; num_ubos:           0\n\
             @in(r0.x)\tin1 (wrmask=0x7)\n\
             l31:\n\
             (sy)(ss)(rpt1)mad.f32 r4.x, r26.w, r25.w, (last)r4.x\n\
             (nop2) add.u r0.x, r0.y, r0.z\n\
             (rpt5)nop\n\
             stib.b.untyped.1d.u32.4.imm.base0 r0.x, r1.x, 0\n\
             ldl.u32 r0.x, l[r1.x], 1\n\
             br !p0.x, #l31\n\
             end\n",
            [0, 1, 1, 3, 0, 8, 2],
        );
    }

    #[test]
    fn of_intel() {
        counted(
            "LABEL1:\n\
             mov(16)         g89<1>UD        g0.1<0,1,0>UD           { align1 WE_all 1H compacted };\n\
             send(1)         g121UD          g94UD       nullUD      0x0210d580        0x00000000\n\
             \x20               ugm MsgDesc: ( load, a64, d32, V16 )  base_offset 0  { align1 WE_all 1N I@6 $0 };\n\
             (+f0.0) send(32) nullUD         g102UD      g100UD      0x44000504        a0.2<0>UD\n\
             \x20               slm MsgDesc: ( store, a32, d32, V1 )  { align1 I@1 $1 };\n\
             (+f0.0) if(32)  JIP:  LABEL4          UIP:  LABEL3      { align1 };\n\
             cmp.l.f0.0(32)  null<1>UD       g109<8,8,1>UD   g121.2<0,1,0>UD { align1 };\n\
             sync nop(1)                     null<0,1,0>UB           { align1 WE_all 1N $1.src };\n\
             dpas.8x8(16)    g36<1>F         g36<1,1,0>F     g52<1,1,0>HF    g60<1,1,0>HF { align1 WE_all 1H $4 };\n",
            [1, 1, 1, 2, 0, 1, 1],
        );
    }

    #[test]
    fn intermediate_code_is_not_counted() {
        assert!(Listing::read("BB0\n\tp_logical_start\n\ts_endpgm\n").is_none());
        assert!(Listing::read("impl main {\n    32    %1 = load_const (0x0)\n}").is_none());
        assert!(Listing::read("").is_none());
    }
}
