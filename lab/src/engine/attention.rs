//! Attention (FLASH_ATTN_EXT).

use std::fmt::Write;

use super::{Choice, F16, Format, Kind, Q4_0, Q8_0, push, try_with};
use crate::figures::{Contender, List};

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

/// Adds the figures of attention to a list.
pub(super) fn push_all(list: &mut List, choice: Choice) {
    let shapes: &[[u32; 2]] = if choice.small { &[[64, 128]] } else { &[[512, 7680], [512, 1024], [32, 7680]] };
    let heads = if choice.small { [2, 1] } else { [32, 8] };
    for &(head, k, v, mask) in ATTENTIONS {
        for &[rows, kv] in shapes {
            attention(list, choice, &Attention { head, rows, kv, k, v, mask, heads });
        }
    }
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
            // Parts of K and V are side by side.
            tries: vec![try_with(spec.to_vec(), [rows.min(a.rows).div_ceil(splits).max(1), 1, 1])],
            full_subgroups: kind == Kind::Subgroup,
            subgroup_size: (kind != Kind::Workgroup).then_some(choice.subgroup),
            case: Some(case.into()),
            wide: None,
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
