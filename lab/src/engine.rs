//! The pipelines of an engine: ggml's, as its Vulkan backend makes them on a device with matrices of workgroup scope.
//!
//! An engine chooses tiles and workgroups itself, so how fast its kernels are is another question than how fast ours are. Each
//! figure is one operation; the contenders are the engine's own shaders for its three kinds of devices, each with the tile, the
//! constants and the dispatch that the engine chooses there (`Shape::choose`, `attention`), and the lowerings of the first. What is
//! chosen was read in llama.cpp's `ggml-vulkan.cpp` (llama-cpp-sys-2 0.1.156); the shaders are those of `scripts/llama-shaders.sh`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use coop_exec::case::Number;
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::{Capability, TensorAddressingOperands};
use coop_ir::{Module, Op};

use crate::figures::{Contender, Figure, List, Try};

/// The properties of a device that the engine's choice depends on, and the sizes of the operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Multiprocessors (`shaderSMCount`).
    pub cores: u32,
    /// The subgroup size.
    pub subgroup: u32,
    /// Operations of a few tiles, which show that a contender computes the right thing.
    pub small: bool,
}

/// The figures of an engine whose shaders are in a folder.
pub fn list(shaders: &Path, choice: Choice) -> List {
    let mut list = List { figure: Vec::new(), folder: shaders.to_owned(), cases: BTreeMap::new() };
    for format in FORMATS {
        let shapes: &[[u32; 3]] = if choice.small {
            &[[128, 128, 256]]
        } else {
            &[[4096, 512, 14336], [4096, 32, 14336], [4096, 64, 14336], [4096, 128, 14336], [2048, 2048, 2048]]
        };
        for [m, n, k] in shapes {
            product(&mut list, choice, format, Shape { m: *m, n: *n, k: *k });
        }
    }
    for (head, k, v, mask) in ATTENTIONS {
        let shapes: &[[u32; 2]] = if choice.small { &[[64, 128]] } else { &[[512, 7680], [512, 1024], [32, 7680]] };
        for [rows, kv] in shapes {
            let heads = if choice.small { [2, 1] } else { [32, 8] };
            let one = Attention { head: *head, rows: *rows, kv: *kv, k: *k, v: *v, mask: *mask, heads };
            attention(&mut list, choice, &one);
        }
    }
    list
}

/// The format of A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Format {
    name: &'static str,
    /// Elements and bytes of a block.
    block: [u32; 2],
    /// The number of ggml's type.
    number: u32,
}

impl Format {
    const fn new(name: &'static str, elements: u32, bytes: u32, number: u32) -> Format {
        Format { name, block: [elements, bytes], number }
    }

    fn is_plain(&self) -> bool {
        self.block[0] == 1
    }

    /// A buffer of so many elements.
    fn buffer(&self, name: &str, binding: u32, elements: u64) -> String {
        let [per_block, bytes] = self.block.map(u64::from);
        let (ty, count, fill) = if self.is_plain() {
            (self.name, elements, "\"uniform\"".to_owned())
        } else {
            ("u8", elements / per_block * bytes, format!("{{ blocks = \"{}\" }}", self.name))
        };
        format!("[[buffer]]\nname = \"{name}\"\nbinding = {binding}\ntype = \"{ty}\"\ncount = {count}\nfill = {fill}\n")
    }

    fn said(&self) -> String {
        if self.is_plain() { String::new() } else { format!(", format = \"{}\"", self.name) }
    }
}

const F16: Format = Format::new("f16", 1, 2, 1);
const Q4_0: Format = Format::new("q4_0", 32, 18, 2);
const Q8_0: Format = Format::new("q8_0", 32, 34, 8);

const FORMATS: &[Format] = &[
    F16,
    Format::new("bf16", 1, 2, 30),
    Q4_0,
    Q8_0,
    Format::new("q4_k", 256, 144, 12),
    Format::new("q6_k", 256, 210, 14),
    Format::new("iq4_nl", 32, 18, 20),
    Format::new("mxfp4", 32, 17, 39),
];

/// Size of a head, types of K and V, whether there is a mask.
const ATTENTIONS: &[(u32, Format, Format, bool)] = &[
    (64, F16, F16, false),
    (64, F16, F16, true),
    (64, Q4_0, Q4_0, false),
    (64, Q8_0, Q8_0, false),
    (128, F16, F16, false),
    (128, F16, F16, true),
    (128, Q8_0, Q4_0, false),
    (256, F16, F16, false),
    (256, Q8_0, Q8_0, false),
];

/// The engine's kinds of shaders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Workgroup,
    Subgroup,
    Scalar,
}

impl Kind {
    fn ending(self) -> &'static str {
        match self {
            Kind::Workgroup => "_cm2",
            Kind::Subgroup => "_cm1",
            Kind::Scalar => "",
        }
    }
}

/// A product: A is m x k, B is k x n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    m: u32,
    n: u32,
    k: u32,
}

/// A tile: invocations and its rows, columns and depth.
type Tile = [u32; 4];

impl Shape {
    fn tiles(self, tile: Tile) -> u32 {
        self.m.div_ceil(tile[1]) * self.n.div_ceil(tile[2])
    }

    /// The tile that the engine chooses (0 for its small one, to 2 for its large one).
    fn choose(self, kind: Kind, tiles: &[Tile; 3], cores: u32) -> usize {
        let [small, medium, large] = *tiles;
        if kind != Kind::Workgroup {
            let least = self.m.min(self.n);
            return usize::from(least > 32) + usize::from(least > 64);
        }
        let (few, many) = (self.tiles(large), self.tiles(medium));
        let fills = many > cores || few > cores || (few <= cores / 3 && many > cores / 2);
        if self.n > medium[2] && fills { 2 } else { usize::from(self.n > small[2]) }
    }

    /// In how many parts K is summed up.
    fn splits(self, tile: Tile, cores: u32) -> u32 {
        let tiles = self.tiles(tile);
        if cores == 0 || self.m < tile[1] || self.n < tile[2] || self.k < 2048 {
            return 1;
        }
        let mut splits = match tiles {
            tiles if tiles <= cores / 2 => cores / tiles,
            tiles if tiles <= cores * 2 / 3 => 3,
            _ => 1,
        };
        splits = splits.min(8);
        while splits > 1 && self.part(splits) * (splits - 1) >= self.k {
            splits -= 1;
        }
        splits
    }

    /// How much of K a part has.
    fn part(self, splits: u32) -> u32 {
        if splits == 1 { self.k } else { self.k.div_ceil(splits).next_multiple_of(256) }
    }
}

fn product(list: &mut List, choice: Choice, format: &Format, shape: Shape) {
    let Shape { m, n, k } = shape;
    // What is no quantized type has sums in f32 where the engine has no others.
    let sums = if format.name == "bf16" { "" } else { "_f16acc" };
    let second = if format.is_plain() { "" } else { "_f16" };
    let mut contender = |kind: Kind| {
        let depth = if format.name == "bf16" { 16 } else { 32 };
        let tiles: [Tile; 3] = match kind {
            Kind::Workgroup if format.is_plain() => [[128, 64, 64, 64], [256, 128, 128, 64], [256, 128, 256, 64]],
            Kind::Workgroup => [[256, 32, 64, 128], [256, 128, 128, 64], [256, 128, 256, 64]],
            _ => [[choice.subgroup.max(32), 32, 32, depth], [128, 64, 64, depth], [128, 128, 128, depth]],
        };
        let at = shape.choose(kind, &tiles, choice.cores);
        let tile = tiles[at];
        let mut spec = tile.to_vec();
        match kind {
            Kind::Workgroup => {
                let narrow_edges = at == 2 || (at == 1 && !format.is_plain());
                spec.extend([u32::from(narrow_edges), 1]);
            }
            _ => {
                let own = [[32, 32], [choice.subgroup, 32], [2 * choice.subgroup, 64]][at];
                let piece = match kind {
                    Kind::Subgroup => [16; 3],
                    _ => [[2, 2, 1], [4, 2, 1], [4, 4, 1]][at],
                };
                spec.extend(own);
                spec.push(2);
                spec.extend(piece);
                spec.extend([choice.subgroup, 1]);
            }
        }
        let splits = shape.splits(tile, choice.cores);
        let case = format!("{}-{m}-{n}-{k}-{splits}", format.name);
        list.cases.entry(case.clone().into()).or_insert_with(|| product_case(format, shape, splits));
        Contender {
            module: format!("matmul_{}{second}{sums}{}.spv", format.name, kind.ending()).into(),
            tries: vec![Try {
                spec: spec.into_iter().map(|v| Number::Int(v.into())).collect(),
                tile: [tile[1] / splits, tile[2], 1],
            }],
            full_subgroups: kind == Kind::Subgroup,
            subgroup_size: None,
            case: Some(case.into()),
        }
    };
    let nv2 = contender(Kind::Workgroup);
    let (khr, scalar) = (contender(Kind::Subgroup), contender(Kind::Scalar));
    let name = format!("{} {m}x{n}x{k}", format.name);
    push(list, name, [m, n, 1], nv2, khr, scalar);
}

fn product_case(format: &Format, shape: Shape, splits: u32) -> String {
    let Shape { m, n, k } = shape;
    let part = shape.part(splits);
    let sizes = [m, n, k].map(u64::from);
    let [a, b, d] = [sizes[0] * sizes[2], sizes[1] * sizes[2], sizes[0] * sizes[1]];
    let mut text = format!(
        "workgroups = [1, 1, 1]\nseed = 1\n\
         push = [{{ values = [{m}, {n}, {k}, {k}, {k}, {m}, {a}, {b}, {d}, 0, 1, {part}, 1, 1, 1, 1, {n}] }}]\n\
         operations = {}\n",
        2 * d * sizes[2]
    );
    text += &format.buffer("A", 0, a);
    // Sums in f16 stay small.
    let ty = if format.name == "bf16" { "bf16" } else { "f16" };
    let _ = write!(
        text,
        "[[buffer]]\nname = \"B\"\nbinding = 1\ntype = \"{ty}\"\ncount = {b}\nfill = {{ uniform = [-0.0625, 0.0625] }}\n\
         [[buffer]]\nname = \"D\"\nbinding = 2\ntype = \"f32\"\ncount = {}\nfill = {{ constant = 99 }}\n\
         tolerance = {{ nmse = 1e-2 }}\n",
        d * u64::from(splits)
    );
    for split in 0..splits {
        let (first, offset) = (split * part, u64::from(split) * d);
        let depth = part.min(k - first);
        let _ = write!(
            text,
            "[[expect]]\n[expect.gemm]\nm = {m}\nn = {n}\nk = {depth}\n\
             a = {{ buffer = \"A\", stride = {k}, offset = {first}{} }}\n\
             b = {{ buffer = \"B\", stride = {k}, offset = {first}, layout = \"column\" }}\n\
             d = {{ buffer = \"D\", stride = {m}, offset = {offset}, layout = \"column\" }}\n",
            format.said()
        );
    }
    text
}

/// An attention: rows of Q in each head, rows of K and V.
struct Attention {
    head: u32,
    rows: u32,
    kv: u32,
    k: Format,
    v: Format,
    mask: bool,
    /// Heads of Q, and how many of K and V they share.
    heads: [u32; 2],
}

fn attention(list: &mut List, choice: Choice, a: &Attention) {
    let strides = [a.k, a.v].map(|f| a.head / f.block[0]);
    let quantised = !a.k.is_plain() || !a.v.is_plain();
    let mut contender = |kind: Kind| {
        let split = kind == Kind::Scalar && a.head <= 64;
        let few = a.kv < 1024;
        let (invocations, rows, columns) = match kind {
            Kind::Workgroup if a.rows < 32 => (256, 32, 32),
            Kind::Workgroup if quantised || a.head >= 256 => (128, 64, 32),
            Kind::Workgroup => (128, 64, 64),
            Kind::Subgroup => (4 * choice.subgroup, 16, 64),
            Kind::Scalar => (4 * choice.subgroup, if split { 8 } else { 16 } / if few { 2 } else { 1 }, 32),
        };
        let aligned = a.kv.is_multiple_of(columns) && strides.iter().all(|s| s.is_multiple_of(8));
        let lowest = 1 << a.head.trailing_zeros();
        let threads = choice.subgroup.min(8).min(lowest / 4);
        let (threads, parts) = match kind {
            Kind::Workgroup => (0, 0),
            Kind::Subgroup => (threads, 4),
            Kind::Scalar => (threads, if split { 1 } else { 4 }),
        };
        let staged = kind != Kind::Workgroup && a.head < 256;
        let spec = [
            invocations,
            rows,
            columns,
            a.head,
            a.head,
            u32::from(!aligned),
            threads,
            parts,
            choice.subgroup,
            u32::from(staged),
            if a.mask { 2 } else { 0 },
            0,
            a.k.number,
            a.v.number,
            a.k.block[1],
            a.v.block[1],
        ];
        let groups = a.rows.div_ceil(rows) * a.heads[0];
        let mut splits = if groups < 2 * choice.cores { 2 * choice.cores / groups } else { 1 };
        let part = if splits > 1 { (a.kv / splits).max(1).next_multiple_of(columns) } else { a.kv };
        splits = a.kv.div_ceil(part);
        let case =
            format!("attention-{}-{}-{}-{}-{}-{}-{splits}-{part}", a.head, a.rows, a.kv, a.k.name, a.v.name, a.mask);
        list.cases.entry(case.clone().into()).or_insert_with(|| attention_case(a, splits, part));
        let integer = kind == Kind::Scalar && [Q4_0, Q8_0].contains(&a.k);
        let dots = if integer { "_int8" } else { "" };
        Contender {
            module: format!("flash_attn_f32_f16{dots}{}.spv", kind.ending()).into(),
            tries: vec![Try {
                spec: spec.into_iter().map(|v| Number::Int(v.into())).collect(),
                // Parts of K and V are side by side.
                tile: [rows.min(a.rows).div_ceil(splits).max(1), 1, 1],
            }],
            full_subgroups: kind == Kind::Subgroup,
            subgroup_size: (kind != Kind::Workgroup).then_some(choice.subgroup),
            case: Some(case.into()),
        }
    };
    let nv2 = contender(Kind::Workgroup);
    let (khr, scalar) = (contender(Kind::Subgroup), contender(Kind::Scalar));
    let mask = if a.mask { ", mask" } else { "" };
    let name = format!("attention {} {}/{}{mask}, {} of {}", a.head, a.k.name, a.v.name, a.rows, a.kv);
    push(list, name, [a.rows, a.heads[0], 1], nv2, khr, scalar);
}

fn attention_case(a: &Attention, splits: u32, part: u32) -> String {
    let Attention { head, rows, kv, k, v, mask, heads: [heads, shared] } = *a;
    let q = [head * rows * 4, head * rows * heads * 4];
    let stride = |f: &Format| {
        let row = head / f.block[0];
        [row, row * f.block[1] * kv, row * f.block[1] * kv * shared]
    };
    let ([k0, k1, k2], [v0, v1, v2]) = (stride(&k), stride(&v));
    let masked = if mask { rows } else { 0 };
    let all = |n: u32| u64::from(n) * u64::from(head);
    let scale = 1.0 / f64::from(head).sqrt();
    let mut text = format!(
        "workgroups = [1, 1, 1]\nseed = 1\npush = [\n\
         {{ values = [{rows}, {kv}, {heads}, {rows}, 1, {heads}, 1, {shared}, 1, {shared}, 1, {masked}, 1, 1, \
         {head}, {}, {}, {k0}, {k1}, {k2}, {v0}, {v1}, {v2}] }},\n\
         {{ type = \"f32\", values = [{scale}, 0.0, 0.0] }},\n{{ values = [{heads}] }},\n\
         {{ type = \"f32\", values = [1.0, 1.0] }},\n{{ values = [1, {part}, {splits}] }},\n]\noperations = {}\n",
        q[0],
        q[1],
        4 * all(rows) * u64::from(kv) * u64::from(heads)
    );
    let values = all(rows) * u64::from(heads);
    let _ = write!(
        text,
        "[[buffer]]\nname = \"Q\"\nbinding = 0\ntype = \"f32\"\ncount = {values}\nfill = {{ uniform = [-4.0, 4.0] }}\n"
    );
    text += &k.buffer("K", 1, all(kv) * u64::from(shared));
    text += &v.buffer("V", 2, all(kv) * u64::from(shared));
    let mask = if mask { u64::from(rows) * u64::from(kv) } else { 8 };
    // Each part has its result, and of each row what it was scaled by and its sum.
    let results = if splits > 1 { u64::from(splits) * (values + 2 * u64::from(rows * heads)) } else { values };
    for (name, binding, ty, count) in [("mask", 3, "f16", mask), ("sinks", 4, "f32", 4), ("summary", 6, "u32", 4)] {
        let _ = write!(
            text,
            "[[buffer]]\nname = \"{name}\"\nbinding = {binding}\ntype = \"{ty}\"\ncount = {count}\nfill = \"zeros\"\n"
        );
    }
    let _ = write!(
        text,
        "[[buffer]]\nname = \"O\"\nbinding = 5\ntype = \"f32\"\ncount = {results}\nfill = {{ constant = 99 }}\n\
         tolerance = {{ nmse = 1e-3 }}\n"
    );
    if splits == 1 {
        let format =
            |of: &str, f: &Format| if f.is_plain() { String::new() } else { format!(", {of}-format = \"{}\"", f.name) };
        let _ = write!(
            text,
            "[[expect]]\nattention = {{ q = \"Q\", k = \"K\", v = \"V\", o = \"O\", n = {rows}, kv = {kv}, head = {head}, \
             heads = {heads}, kv-heads = {shared}, scale = {scale}, rows-first = true{}{} }}\n",
            format("k", &k),
            format("v", &v)
        );
    }
    text
}

fn push(list: &mut List, name: String, grid: [u32; 3], nv2: Contender, khr: Contender, scalar: Contender) {
    let case = nv2.case.clone().unwrap_or_default();
    list.figure.push(Figure {
        name,
        case,
        grid,
        nv2,
        lowered: Vec::new(),
        lowered_khr: Vec::new(),
        lowered_scalar: Vec::new(),
        khr: Some(khr),
        scalar: Some(scalar),
    });
}

/// Takes the decode functions of vectors out of a module, as the engine does on a device without
/// VK_NV_cooperative_matrix_decode_vector. Each load that has one has one for single elements too.
pub fn without_vector_decoding(module: &mut Module) {
    for r in module.all().collect::<Vec<_>>() {
        let Some(access) = module.inst(r).tensor_access() else { continue };
        let Some((_, at)) = access.decode_vector else { continue };
        let inst = module.inst_mut(r);
        inst.operands[access.at] = (access.mask - TensorAddressingOperands::DecodeVectorFunc).0.into();
        inst.operands.remove(at);
    }
    remove_globals(module, |m, r| {
        let inst = m.inst(r);
        match inst.op {
            Op::Capability => inst.enumerant(0) == Some(Capability::CooperativeMatrixDecodeVectorNV),
            Op::Extension => inst.string(0).is_some_and(|(s, _)| s == "SPV_NV_cooperative_matrix_decode_vector"),
            _ => false,
        }
    });
}
