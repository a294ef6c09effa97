//! Listings of instructions, read into blocks.

use coop_ir::cfg::Graph;
use coop_ir::hash::FxHashMap;

use super::{Counts, Kind};

/// A compiler's listing of a program.
///
/// Invariant: the blocks are in the order of the text, the first is the entry, and each edge of the graph leads to one
/// of them.
#[derive(Clone, Debug)]
pub struct Listing {
    pub(super) blocks: Vec<Counts>,
    /// The floating-point multiplications of each block: two of an instruction for pairs of numbers of 16 bits.
    pub(super) multiplications: Vec<u64>,
    pub(super) graph: Graph,
}

impl Listing {
    /// Reads a listing. `None` for text in a language that is not known, such as intermediate code.
    pub fn read(text: &str) -> Option<Listing> {
        let line: fn(&str) -> Line<'_> = if text.lines().any(is_amd) {
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
        let mut builder = Builder::default();
        text.lines().for_each(|one| builder.add(line(one)));
        Some(builder.finish())
    }

    /// Returns the number of instructions of each kind.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.blocks.iter().for_each(|block| sum.add_all(block));
        sum
    }
}

/// A line of a listing.
enum Line<'a> {
    /// Neither an instruction nor a label.
    Remark,
    Label(&'a str),
    /// The end of a block, with the labels of the blocks that may come next.
    End(&'a str),
    Instruction {
        kind: Kind,
        /// The number of instructions that the line stands for.
        times: u64,
        /// The number of empty slots before them.
        slots: u64,
        /// The number of floating-point multiplications.
        multiplications: u64,
        flow: Flow<'a>,
    },
}

impl<'a> Line<'a> {
    fn one(kind: Kind, multiplications: u64, flow: Flow<'a>) -> Line<'a> {
        Line::Instruction { kind, times: 1, slots: 0, multiplications, flow }
    }
}

/// Where control goes behind an instruction.
#[derive(Clone, Copy)]
enum Flow<'a> {
    Next,
    /// To a label.
    Jump(&'a str),
    /// To a label or to the next instruction.
    Branch(&'a str),
    /// To the next instruction, or out of the loop whose last instruction follows a label.
    Break(&'a str),
    /// To one of the labels in a list with commas.
    OneOf(&'a str),
    /// Nowhere.
    End,
}

impl<'a> Flow<'a> {
    /// Returns a jump to a label, which a condition may keep from happening.
    fn jump(label: Option<&'a str>, conditional: bool) -> Flow<'a> {
        match label {
            Some(label) if conditional => Flow::Branch(label),
            Some(label) => Flow::Jump(label),
            None => Flow::Next,
        }
    }
}

#[derive(Default)]
struct Builder<'a> {
    blocks: Vec<Counts>,
    multiplications: Vec<u64>,
    /// How each block ends.
    flows: Vec<Flow<'a>>,
    labels: FxHashMap<&'a str, usize>,
    open: bool,
}

impl<'a> Builder<'a> {
    fn begin(&mut self) -> usize {
        if !self.open {
            self.blocks.push(Counts::default());
            self.multiplications.push(0);
            self.flows.push(Flow::Next);
            self.open = true;
        }
        self.blocks.len() - 1
    }

    fn add(&mut self, line: Line<'a>) {
        match line {
            Line::Remark => {}
            Line::Label(name) => {
                // Labels in a row name the same block.
                if self.blocks.last().is_some_and(|block| block.total() > 0) {
                    self.open = false;
                }
                let block = self.begin();
                self.labels.insert(name, block);
            }
            Line::End(targets) => {
                let block = self.begin();
                self.flows[block] = Flow::OneOf(targets);
                self.open = false;
            }
            Line::Instruction { kind, times, slots, multiplications, flow } => {
                let block = self.begin();
                self.blocks[block].add(Kind::Wait, slots);
                self.blocks[block].add(kind, times);
                self.multiplications[block] += multiplications;
                self.flows[block] = flow;
                self.open = matches!(flow, Flow::Next);
            }
        }
    }

    fn finish(mut self) -> Listing {
        self.begin();
        let len = self.blocks.len();
        let label = |name: &str| self.labels.get(name).copied();
        let next = |at: usize| Some(at + 1).filter(|at| *at < len);
        let mut edges = Vec::new();
        for (at, flow) in self.flows.iter().enumerate() {
            let targets = match flow {
                Flow::Next => vec![next(at)],
                Flow::Jump(name) => vec![label(name)],
                Flow::Branch(name) => vec![next(at), label(name)],
                // The label is before the instruction that leads back.
                Flow::Break(name) => vec![next(at), label(name).and_then(next)],
                Flow::OneOf(names) => names.split(',').map(|name| label(name.trim())).collect(),
                Flow::End => vec![],
            };
            edges.extend(targets.into_iter().flatten().map(|to| (at, to)));
        }
        Listing { graph: Graph::new(len, &edges), blocks: self.blocks, multiplications: self.multiplications }
    }
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

fn amd(line: &str) -> Line<'_> {
    if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with("BB")) {
        return Line::Label(label);
    }
    if line.starts_with("(invalid instruction)") && line.contains("; d536") {
        // v_fmac_f16 of upper halves, whose first word LLVM does not know; it takes the second one for an instruction.
        return Line::Instruction { kind: Kind::Arithmetic, times: 0, slots: 0, multiplications: 1, flow: Flow::Next };
    }
    if !is_amd(line) {
        return Line::Remark;
    }
    let mut words = line.split_whitespace();
    let mnemonic = words.next().unwrap_or_default();
    let kind = if begins(mnemonic, &["v_wmma_", "v_swmmac_", "v_mfma_", "v_smfmac_"]) {
        Kind::Matrix
    } else if begins(mnemonic, &["ds_"]) {
        Kind::Shared
    } else if begins(
        mnemonic,
        &["buffer_", "global_", "flat_", "scratch_", "image_", "s_load_", "s_buffer_", "s_store_", "s_dcache_"],
    ) {
        Kind::Memory
    } else if mnemonic == "s_barrier" || mnemonic == "s_barrier_wait" {
        Kind::Barrier
    } else if begins(mnemonic, &["s_wait", "s_barrier", "s_nop", "s_delay_alu", "s_clause", "s_sleep"]) {
        Kind::Wait
    } else if begins(mnemonic, &["s_cbranch_", "s_branch", "s_endpgm", "s_setpc_", "s_swappc_", "s_call_"]) {
        Kind::Branch
    } else {
        Kind::Arithmetic
    };
    let flow = match mnemonic {
        "s_branch" => Flow::jump(words.next(), false),
        "s_endpgm" | "s_setpc_b64" => Flow::End,
        _ if mnemonic.starts_with("s_cbranch_") => Flow::jump(words.next(), true),
        _ => Flow::Next,
    };
    // Two instructions in one have the names of both.
    let names = line.split_whitespace().filter_map(|word| word.strip_prefix("v_"));
    let multiplications = names.map(|name| {
        if begins(name, &["pk_fma_", "pk_mul_f", "dot2_", "dot2c_"]) {
            2
        } else {
            u64::from(begins(name.trim_start_matches("dual_"), &["fma", "mul_f", "mac_f", "mad_f", "mad_mix"]))
        }
    });
    Line::one(kind, multiplications.sum(), flow)
}

fn nvidia(line: &str) -> Line<'_> {
    // `block.u 3 L4 [2] -> {` with the numbers of the block and of those before it, `} -> [4, 5]` with those behind it.
    if let Some(number) = line.split_whitespace().nth(1).filter(|_| line.starts_with("block")) {
        return Line::Label(number);
    }
    if let Some(numbers) = line.strip_prefix("} -> [").and_then(|line| line.trim_end().strip_suffix(']')) {
        return Line::End(numbers);
    }
    let Some((instruction, _)) = line.split_once("// delay=") else { return Line::Remark };
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
        "bar" => Kind::Barrier,
        "membar" | "nop" | "depbar" | "warpsync" => Kind::Wait,
        "bra" | "brx" | "exit" | "bssy" | "bsync" | "bclear" | "break" | "call" | "ret" | "kill" => Kind::Branch,
        _ => Kind::Arithmetic,
    };
    let multiplications = match name {
        "hfma2" | "hmul2" => 2,
        "ffma" | "fmul" | "dfma" | "dmul" => 1,
        _ => 0,
    };
    Line::one(kind, multiplications, Flow::Next)
}

fn adreno(line: &str) -> Line<'_> {
    if line.starts_with([';', '@']) || line.starts_with("Native code for ") {
        return Line::Remark;
    }
    if let Some(label) = line.trim().strip_suffix(':') {
        return Line::Label(label);
    }
    // `(flag)(flag)mnemonic operands`; (rpt2) is an instruction that is there three times, (nop2) two slots before it.
    let (mut rest, mut times, mut slots) = (line.trim(), 1, 0);
    while let Some((flag, behind)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        let number = |name: &str| flag.strip_prefix(name).and_then(|n| n.parse::<u64>().ok());
        times += number("rpt").unwrap_or(0);
        slots += number("nop").unwrap_or(0);
        rest = behind;
    }
    let mnemonic = rest.split_whitespace().next().unwrap_or_default();
    if mnemonic.is_empty() {
        return Line::Remark;
    }
    let name = mnemonic.split('.').next().unwrap_or_default();
    let kind = match name {
        "ldl" | "ldlw" | "stl" | "stlw" => Kind::Shared,
        "bar" => Kind::Barrier,
        "nop" | "fence" => Kind::Wait,
        "br" | "bra" | "brac" | "bany" | "ball" | "brao" | "braa" | "jump" | "getone" | "getlast" | "shps" | "shpe"
        | "predt" | "predf" | "prede" | "end" | "kill" | "call" | "ret" => Kind::Branch,
        "ldg" | "stg" | "ldp" | "stp" | "ldib" | "stib" | "ldc" | "stc" | "stsc" | "isam" | "resinfo" | "ldgb"
        | "stgb" => Kind::Memory,
        name if name.starts_with("atomic") => Kind::Memory,
        _ => Kind::Arithmetic,
    };
    let target = rest.rsplit_once('#').map(|(_, label)| label);
    let flow =
        if name == "end" { Flow::End } else { Flow::jump(target.filter(|_| kind == Kind::Branch), name != "jump") };
    let multiplications = if begins(mnemonic, &["mad.f", "mul.f"]) { times } else { 0 };
    Line::Instruction { kind, times, slots, multiplications, flow }
}

fn intel(line: &str) -> Line<'_> {
    if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with("LABEL")) {
        return Line::Label(label);
    }
    if !line.contains("{ align1 ") {
        return Line::Remark;
    }
    // `(+f0.0) mnemonic(width) operands { flags }`; a message is counted on its second line, which says to whom it goes.
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("(+f") || word.starts_with("(-f"));
    let first = words.next().unwrap_or_default();
    let name = first.split(['(', '.']).next().unwrap_or_default();
    let kind = match name {
        "slm" => Kind::Shared,
        "sync" if words.clone().next().is_some_and(|what| what.starts_with("bar")) => Kind::Barrier,
        "gateway" | "sync" => Kind::Wait,
        "ugm" | "ugml" | "tgm" | "urb" | "sampler" => Kind::Memory,
        "dpas" | "dpasw" => Kind::Matrix,
        "if" | "else" | "endif" | "while" | "break" | "cont" | "halt" | "jmpi" => Kind::Branch,
        _ => Kind::Arithmetic,
    };
    // The destination has the type at its end.
    let float = words.clone().next().is_some_and(|to| to.ends_with('F'));
    let multiplications = u64::from(float && ["mad", "mul", "mac"].contains(&name));
    let mut label = |name: &str| words.find(|word| *word == name).and_then(|_| words.next());
    let flow = match name {
        "while" | "if" => Flow::jump(label("JIP:"), true),
        "else" => Flow::jump(label("UIP:"), false),
        "break" => label("UIP:").map_or(Flow::Next, Flow::Break),
        _ => Flow::Next,
    };
    Line::one(kind, multiplications, flow)
}
