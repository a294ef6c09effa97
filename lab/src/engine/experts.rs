//! Products in which each row of B chooses its matrices (MUL_MAT_ID): a mixture of experts.
//!
//! Tokens choose experts in turn, so that each expert has as many rows as any other. The rows of one slot that choose one
//! expert are then a constant distance apart, and what is expected of them is one product.

use std::fmt::Write;

use super::{Choice, F16, Format, Kind, MXFP4, Q4_0, Q4_K, push, try_with};
use crate::figures::{Contender, List};

/// The formats of the experts' matrices.
const FORMATS: &[Format] = &[F16, Q4_0, Q4_K, MXFP4];

/// Products of the engine's own benchmark: `m` x `k` for each of the experts, of which each token uses some.
#[derive(Clone, Copy, Debug)]
struct Experts {
    m: u32,
    k: u32,
    /// Matrices.
    count: u32,
    /// Matrices that a token uses: its slots.
    used: u32,
    tokens: u32,
}

/// Adds the figures of experts to a list.
pub(super) fn push_all(list: &mut List, choice: Choice) {
    let experts = if choice.small {
        Experts { m: 64, k: 256, count: 2, used: 2, tokens: 64 }
    } else {
        Experts { m: 768, k: 2048, count: 128, used: 8, tokens: 512 }
    };
    for format in FORMATS {
        experts.push(list, choice, format);
    }
}

impl Experts {
    fn push(self, list: &mut List, choice: Choice, format: &Format) {
        let Experts { m, k, count, used, tokens } = self;
        let second = if format.is_plain() { "" } else { "_f16" };
        let case = format!("experts-{}-{m}-{tokens}-{k}-{count}", format.name);
        let contender = |kind: Kind, tile: [u32; 2], spec: Vec<u32>| Contender {
            module: format!("matmul_id_subgroup_{}{second}_f16acc{}.spv", format.name, kind.ending()).into(),
            tries: vec![try_with(spec, [tile[0], tile[1], 1])],
            full_subgroups: kind != Kind::Workgroup,
            subgroup_size: (kind != Kind::Workgroup).then_some(choice.subgroup),
            case: Some(case.clone().into()),
            wide: None,
        };
        let (nv2, decoding) = self.workgroup_tile(choice, format);
        list.cases.insert(case.clone().into(), self.case(format, nv2[2], choice.small));
        let tile = [nv2[1], nv2[2]];
        let least = m.min(tokens);
        let by_hand = |kind: Kind| {
            let at = usize::from(least > 32) + usize::from(least > 64);
            let tile = [32, 64, 128][at];
            let depth = if format.is_plain() { 16 } else { 32 };
            let own = [[32, 32], [choice.subgroup, 32], [2 * choice.subgroup, 64]][at];
            let piece = match kind {
                Kind::Subgroup => [16; 3],
                _ => [[2, 2, 1], [4, 2, 1], [4, 4, 1]][at],
            };
            let invocations = [choice.subgroup.max(32), 128, 128][at];
            let spec = [&[invocations, tile, tile, depth][..], &own, &[2], &piece, &[choice.subgroup, 1]].concat();
            contender(kind, [tile, tile], spec)
        };
        let (khr, scalar) = (by_hand(Kind::Subgroup), by_hand(Kind::Scalar));
        let name = format!("experts {} {m}x{tokens}x{k}, {used} of {count}", format.name);
        push(list, name, [m, tokens, count], contender(Kind::Workgroup, tile, nv2), khr, scalar);
        if let Some(figure) = list.figure.last_mut() {
            // The depth that the engine chooses for a device that decodes vectors, as those do that the lowerings stand for.
            let tries = vec![try_with(decoding, [tile[0], tile[1], 1])];
            (figure.lowered_khr, figure.lowered_scalar) = (tries.clone(), tries);
        }
    }

    /// The constants for matrices of workgroup scope on a device that does not decode vectors, and on one that does.
    fn workgroup_tile(self, choice: Choice, format: &Format) -> (Vec<u32>, Vec<u32>) {
        let constants = |depth: u32| {
            let tile = match (format.is_plain(), self.tokens) {
                (true, ..=64) => [128, 64, 64, depth, 0],
                (true, ..=128) => [256, 128, 128, depth, 0],
                (true, _) => [256, 128, 256, depth, 1],
                (false, ..=64) => [256, 128, 64, depth, 0],
                (false, _) => [256, 128, 128, depth, 1],
            };
            [&tile[..], &[1, choice.subgroup]].concat()
        };
        (constants(if format.is_plain() { 64 } else { 32 }), constants(64))
    }

    /// The expert that a token uses in a slot.
    fn expert(self, token: u32, slot: u32) -> u32 {
        (token + slot * (self.count / self.used)) % self.count
    }

    /// The case, with as many rows of B as `columns` of a tile have; `all` expects every element, otherwise what some experts
    /// compute.
    fn case(self, format: &Format, columns: u32, all: bool) -> String {
        let Experts { m, k, count, used, tokens } = self;
        let each = [m, k].map(u64::from).iter().product::<u64>();
        let rows = u64::from(tokens * used);
        let mut text = format!(
            "workgroups = [1, 1, 1]\nseed = 1\n\
             push = [{{ values = [{m}, {tokens}, {k}, {k}, {k}, {m}, {each}, {k}, {}, {used}, {tokens}, {used}, 1, {}] }}]\n\
             operations = {}\n",
            m * used,
            columns,
            2 * rows * each
        );
        text += &format.buffer("A", 0, each * u64::from(count));
        let ids = (0..tokens).flat_map(|token| (0..used).map(move |slot| self.expert(token, slot).to_string()));
        let ids = ids.collect::<Vec<_>>().join(", ");
        let _ = write!(
            text,
            "[[buffer]]\nname = \"B\"\nbinding = 1\ntype = \"f16\"\ncount = {}\nfill = {{ uniform = [-0.0625, 0.0625] }}\n\
             [[buffer]]\nname = \"D\"\nbinding = 2\ntype = \"f32\"\ncount = {}\nfill = {{ constant = 99 }}\n\
             tolerance = {{ nmse = 1e-2 }}\n\
             [[buffer]]\nname = \"ids\"\nbinding = 3\ntype = \"s32\"\ncount = {rows}\nfill = {{ values = [{ids}] }}\n\
             [[buffer]]\nname = \"counts\"\nbinding = 4\ntype = \"s32\"\ncount = {count}\nfill = {{ constant = {} }}\n",
            u64::from(tokens) * u64::from(k),
            rows * u64::from(m),
            tokens * used / count,
        );
        let together = tokens / count;
        for (first, slot) in (0..count).flat_map(|token| (0..used).map(move |slot| (token, slot))) {
            // One slot of every eighth token, each in its turn.
            if !all && (first % 8 != 0 || first / 8 % used != slot) {
                continue;
            }
            let [a, b] = [u64::from(self.expert(first, slot)) * each, u64::from(first * k)];
            let d = u64::from((first * used + slot) * m);
            let _ = write!(
                text,
                "[[expect]]\n[expect.gemm]\nm = {m}\nn = {together}\nk = {k}\n\
                 a = {{ buffer = \"A\", stride = {k}, offset = {a}{} }}\n\
                 b = {{ buffer = \"B\", stride = {}, offset = {b}, layout = \"column\" }}\n\
                 d = {{ buffer = \"D\", stride = {}, offset = {d}, layout = \"column\" }}\n",
                format.said(),
                count * k,
                count * used * m,
            );
        }
        text
    }
}
