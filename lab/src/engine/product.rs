//! Products of two matrices (MUL_MAT).

use std::fmt::Write;

use super::{Choice, F16, Format, Kind, MXFP4, Q4_0, Q4_K, Q8_0, push, try_with};
use crate::figures::{Contender, List};

const FORMATS: &[Format] = &[
    F16,
    Format::new("bf16", 1, 2, 30),
    Q4_0,
    Q8_0,
    Q4_K,
    Format::new("q6_k", 256, 210, 14),
    Format::new("iq4_nl", 32, 18, 20),
    MXFP4,
];

/// Adds the figures of products to a list.
pub(super) fn push_all(list: &mut List, choice: Choice) {
    let shapes: &[[u32; 3]] = if choice.small {
        &[[128, 128, 256]]
    } else {
        &[[4096, 512, 14336], [4096, 32, 14336], [4096, 64, 14336], [4096, 128, 14336], [2048, 2048, 2048]]
    };
    for format in FORMATS {
        for [m, n, k] in shapes {
            product(list, choice, format, Shape { m: *m, n: *n, k: *k });
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
            tries: vec![try_with(spec, [tile[1] / splits, tile[2], 1])],
            full_subgroups: kind == Kind::Subgroup,
            subgroup_size: None,
            case: Some(case.into()),
            wide: None,
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
