//! Counts of a processor's instructions by kind, from a compiler's listing.
//!
//! The listings are those of Mesa's compilers: ACO for AMD, NAK for NVIDIA, IR3 for Adreno, BRW for Intel. Each line is an
//! instruction, a label or a remark. An instruction is counted once for each time that the text says it is there, not for
//! each time that it is executed. On AMD and NVIDIA the sum is the compiler's own count; on Intel it is larger, since waits
//! are in the listing. A mnemonic that no rule names is arithmetic.

use serde::{Deserialize, Serialize};

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
    /// Waits: barriers, counters of memory, slots that must stay empty, hints about both.
    Wait,
    /// Branches, ends, or brings invocations together again.
    Branch,
}

impl Kind {
    /// Every kind, in the order of tables.
    pub const ALL: [Kind; 6] = [Kind::Matrix, Kind::Memory, Kind::Shared, Kind::Arithmetic, Kind::Wait, Kind::Branch];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Matrix => "matrix",
            Kind::Memory => "memory",
            Kind::Shared => "shared memory",
            Kind::Arithmetic => "arithmetic",
            Kind::Wait => "wait",
            Kind::Branch => "branch",
        }
    }
}

/// The number of instructions of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    counts: [u64; Kind::ALL.len()],
}

impl Counts {
    /// Returns the number of instructions of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// Returns the number of all instructions.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, kind: Kind, times: u64) {
        self.counts[kind as usize] += times;
    }
}

/// Counts the instructions of a listing. `None` for text in a language that is not known, such as intermediate code.
pub fn count(text: &str) -> Option<Counts> {
    let line: fn(&str, &mut Counts) = if text.lines().any(is_amd) {
        amd
    } else if text.contains("// delay=") {
        nvidia
    } else if text.starts_with("Native code for ") {
        adreno
    } else if text.contains("{ align1 ") {
        intel
    } else {
        return None;
    };
    let mut counts = Counts { counts: [0; Kind::ALL.len()] };
    text.lines().for_each(|one| line(one, &mut counts));
    Some(counts)
}

fn begins(mnemonic: &str, with: &[&str]) -> bool {
    with.iter().any(|start| mnemonic.starts_with(start))
}

/// Returns true for a line of AMD's assembly, which has the words of the instruction behind it.
fn is_amd(line: &str) -> bool {
    let Some((instruction, words)) = line.split_once("; ") else { return false };
    let words = words.trim();
    instruction.starts_with('\t') && words.len() >= 8 && words.bytes().all(|b| b.is_ascii_hexdigit() || b == b' ')
}

fn amd(line: &str, counts: &mut Counts) {
    if !is_amd(line) {
        return;
    }
    let mnemonic = line.split_whitespace().next().unwrap_or_default();
    let kind = if begins(mnemonic, &["v_wmma_", "v_swmmac_", "v_mfma_", "v_smfmac_"]) {
        Kind::Matrix
    } else if begins(mnemonic, &["ds_"]) {
        Kind::Shared
    } else if begins(
        mnemonic,
        &["buffer_", "global_", "flat_", "scratch_", "image_", "s_load_", "s_buffer_", "s_store_", "s_dcache_"],
    ) {
        Kind::Memory
    } else if begins(mnemonic, &["s_wait", "s_barrier", "s_nop", "s_delay_alu", "s_clause", "s_sleep"]) {
        Kind::Wait
    } else if begins(mnemonic, &["s_cbranch_", "s_branch", "s_endpgm", "s_setpc_", "s_swappc_", "s_call_"]) {
        Kind::Branch
    } else {
        Kind::Arithmetic
    };
    counts.add(kind, 1);
}

fn nvidia(line: &str, counts: &mut Counts) {
    let Some((instruction, _)) = line.split_once("// delay=") else { return };
    // `predicate destination = mnemonic operands`, of which the first three may be missing.
    let body = instruction.split_once(" = ").map_or(instruction, |(_, body)| body);
    let mut words = body.split_whitespace().skip_while(|word| word.starts_with('@'));
    let mnemonic = words.next().unwrap_or_default();
    let mut parts = mnemonic.split('.');
    let (name, space) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let kind = match name {
        "hmma" | "imma" | "dmma" | "bmma" | "qmma" => Kind::Matrix,
        "ldsm" => Kind::Shared,
        "ld" | "st" | "atom" | "red" if space == "shared" => Kind::Shared,
        "ld" | "st" | "atom" | "red" | "ldc" | "cctl" | "suld" | "sust" | "suatom" | "tex" | "tld" => Kind::Memory,
        "bar" | "membar" | "nop" | "depbar" | "warpsync" => Kind::Wait,
        "bra" | "brx" | "exit" | "bssy" | "bsync" | "bclear" | "break" | "call" | "ret" | "kill" => Kind::Branch,
        _ => Kind::Arithmetic,
    };
    counts.add(kind, 1);
}

fn adreno(line: &str, counts: &mut Counts) {
    if line.starts_with([';', '@']) || line.starts_with("Native code for ") {
        return;
    }
    // `(flag)(flag)mnemonic operands`; (rpt2) is an instruction that is there three times, (nop2) two slots before it.
    let (mut rest, mut times) = (line.trim(), 1);
    while let Some((flag, behind)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        let number = |name: &str| flag.strip_prefix(name).and_then(|n| n.parse::<u64>().ok());
        times += number("rpt").unwrap_or(0);
        counts.add(Kind::Wait, number("nop").unwrap_or(0));
        rest = behind;
    }
    let mnemonic = rest.split_whitespace().next().unwrap_or_default();
    if mnemonic.is_empty() || mnemonic.ends_with(':') {
        return;
    }
    let kind = match mnemonic.split('.').next().unwrap_or_default() {
        "ldl" | "ldlw" | "stl" | "stlw" => Kind::Shared,
        "nop" | "bar" | "fence" => Kind::Wait,
        "br" | "bra" | "brac" | "bany" | "ball" | "brao" | "braa" | "jump" | "getone" | "getlast" | "shps" | "shpe"
        | "predt" | "predf" | "prede" | "end" | "kill" | "call" | "ret" => Kind::Branch,
        "ldg" | "stg" | "ldp" | "stp" | "ldib" | "stib" | "ldc" | "stc" | "stsc" | "isam" | "resinfo" | "ldgb"
        | "stgb" => Kind::Memory,
        name if name.starts_with("atomic") => Kind::Memory,
        _ => Kind::Arithmetic,
    };
    counts.add(kind, times);
}

fn intel(line: &str, counts: &mut Counts) {
    // `(+f0.0) mnemonic(width) operands { flags }`; a message is counted on its second line, which says to whom it goes.
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("(+f") || word.starts_with("(-f"));
    let first = words.next().unwrap_or_default();
    let name = first.split(['(', '.']).next().unwrap_or_default();
    let kind = match name {
        _ if !line.contains("{ align1 ") => return,
        "slm" => Kind::Shared,
        "gateway" | "sync" => Kind::Wait,
        "ugm" | "ugml" | "tgm" | "urb" | "sampler" => Kind::Memory,
        "dpas" | "dpasw" => Kind::Matrix,
        "if" | "else" | "endif" | "while" | "break" | "cont" | "halt" | "jmpi" => Kind::Branch,
        _ => Kind::Arithmetic,
    };
    counts.add(kind, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str, wanted: [u64; 6]) {
        let counts = count(text).unwrap_or_else(|| panic!("not known:\n{text}"));
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
            [1, 1, 1, 1, 2, 1],
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
            [1, 1, 2, 1, 1, 2],
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
            [0, 1, 1, 3, 8, 2],
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
            [1, 1, 1, 2, 1, 1],
        );
    }

    #[test]
    fn intermediate_code_is_not_counted() {
        assert_eq!(count("BB0\n\tp_logical_start\n\ts_endpgm\n"), None);
        assert_eq!(count("impl main {\n    32    %1 = load_const (0x0)\n}"), None);
        assert_eq!(count(""), None);
    }
}
