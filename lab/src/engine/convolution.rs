//! Convolutions of images (CONV_2D), which the engine computes as products.

use super::{Choice, Kind, push, try_with};
use crate::figures::{Contender, List};

/// A convolution without padding, by steps of one.
#[derive(Clone, Copy, Debug)]
struct Convolution {
    /// Columns and rows of an image.
    from: [u32; 2],
    /// Columns and rows of the kernel.
    size: [u32; 2],
    /// Channels of the output, of the input.
    channels: [u32; 2],
    images: u32,
}

/// Some of the engine's own benchmark.
const CONVOLUTIONS: &[Convolution] = &[
    Convolution { from: [19, 19], size: [4, 4], channels: [4096, 256], images: 16 },
    Convolution { from: [58, 58], size: [3, 3], channels: [64, 32], images: 8 },
    Convolution { from: [16, 16], size: [3, 3], channels: [512, 128], images: 8 },
];

/// The engine's tiles: output channels, outputs, and how many products of an input channel and a position of the kernel it sums
/// up at a time.
const TILES: [[u32; 3]; 4] = [[128, 128, 16], [64, 32, 32], [32, 256, 16], [64, 128, 16]];

/// Adds the figures of convolutions to a list.
pub(super) fn push_all(list: &mut List, choice: Choice) {
    let small = [Convolution { from: [9, 7], size: [3, 2], channels: [70, 4], images: 2 }];
    let all: &[Convolution] = if choice.small { &small } else { CONVOLUTIONS };
    for format in ["f16", "f32"] {
        for one in all {
            one.push(list, choice, format);
        }
    }
}

/// A multiplier and a shift by which the engine's shaders divide by a number.
fn divider(by: u32) -> [u64; 2] {
    let shift = by.next_power_of_two().trailing_zeros();
    let excess = (1u64 << shift) - u64::from(by);
    [(excess << 32) / u64::from(by) + 1, shift.into()]
}

impl Convolution {
    /// Columns and rows of an output.
    fn to(self) -> [u32; 2] {
        [0, 1].map(|axis| self.from[axis] - self.size[axis] + 1)
    }

    fn outputs(self) -> u32 {
        self.to().iter().product::<u32>() * self.images
    }

    /// The tile that the engine chooses.
    fn tile(self, kind: Kind, cores: u32) -> [u32; 3] {
        let channels = self.channels[0];
        let [large, fallback, few, half] = TILES;
        let fills = |tile: [u32; 3]| channels.div_ceil(tile[0]) * self.outputs().div_ceil(tile[1]) >= 2 * cores;
        match channels {
            65.. if kind != Kind::Subgroup && fills(large) => large,
            ..=32 if fills(few) => few,
            ..=64 if fills(half) => half,
            65.. if kind == Kind::Subgroup && fills(half) => half,
            _ => fallback,
        }
    }

    fn push(self, list: &mut List, choice: Choice, format: &str) {
        let [channels, into] = self.channels;
        let [columns, rows] = self.size;
        let summed = into * columns * rows;
        let name = format!(
            "convolution {format} {}x{}x{into}x{} by {columns}x{rows}x{channels}",
            self.from[0], self.from[1], self.images
        );
        let case = name.replace(' ', "-");
        list.cases.insert(case.clone().into(), self.case(format));
        let contender = |kind: Kind| {
            let [tile_channels, tile_outputs, depth] = self.tile(kind, choice.cores);
            let aligned = channels.is_multiple_of(tile_channels)
                && summed.is_multiple_of(depth)
                && self.outputs().is_multiple_of(tile_outputs);
            let fallback = tile_channels == TILES[1][0] && tile_outputs == TILES[1][1];
            let own = match (kind, tile_outputs) {
                (Kind::Subgroup, 128 | 256) => [32, 32],
                _ => [16, 16],
            };
            let invocations = match kind {
                Kind::Subgroup => tile_channels / own[0] * (tile_outputs / own[1]) * choice.subgroup,
                _ if fallback => 128,
                _ => 256,
            };
            let padding = if kind == Kind::Scalar { 4 } else { 8 };
            let staged = kind == Kind::Subgroup || (kind == Kind::Workgroup && tile_outputs * tile_channels != 1 << 14);
            let spec = [
                &[invocations, tile_channels, depth, tile_outputs, if fallback { 4 } else { 8 }, 0, padding][..],
                &[1, 1, 0, 0, 1, 1, columns, rows, u32::from(aligned), u32::from(staged)],
                &own,
            ]
            .concat();
            let ending = if kind == Kind::Scalar { "_unroll" } else { kind.ending() };
            let prefix = if format == "f16" { "f16_f32" } else { "f32" };
            Contender {
                module: format!("conv2d_{prefix}{ending}.spv").into(),
                tries: vec![try_with(spec, [tile_channels, tile_outputs, 1])],
                full_subgroups: kind == Kind::Subgroup,
                subgroup_size: (kind == Kind::Subgroup).then_some(choice.subgroup),
                case: Some(case.clone().into()),
                wide: None,
            }
        };
        let nv2 = contender(Kind::Workgroup);
        let (khr, scalar) = (contender(Kind::Subgroup), contender(Kind::Scalar));
        push(list, name, [channels, self.outputs(), 1], nv2, khr, scalar);
    }

    fn case(self, format: &str) -> String {
        let [channels, into] = self.channels;
        let ([w, h], [kw, kh], [ow, oh]) = (self.from, self.size, self.to());
        let images = self.images;
        let counts = [kw * kh * into * channels, w * h * into * images, ow * oh * channels * images];
        let [[by_row, row_shift], [by_image, image_shift]] = [ow, ow * oh].map(divider);
        format!(
            "workgroups = [1, 1, 1]\nseed = 1\n\
             push = [{{ values = [{channels}, {into}, {images}, {w}, {h}, {ow}, {oh}, {kw}, {}, {}, {w}, {}, {}, {ow}, {}, {}, \
             {by_row}, {row_shift}, {by_image}, {image_shift}] }}]\noperations = {}\n\
             [[buffer]]\nname = \"kernel\"\nbinding = 0\ntype = \"{format}\"\ncount = {}\nfill = {{ uniform = [-1.0, 1.0] }}\n\
             [[buffer]]\nname = \"input\"\nbinding = 1\ntype = \"f32\"\ncount = {}\nfill = {{ uniform = [-1.0, 1.0] }}\n\
             [[buffer]]\nname = \"output\"\nbinding = 2\ntype = \"f32\"\ncount = {}\nfill = {{ constant = 99 }}\n\
             tolerance = {{ nmse = 1e-3 }}\n\
             [[expect]]\nconvolution = {{ kernel = \"kernel\", input = \"input\", output = \"output\", \
             channels = [{channels}, {into}], count = {images}, from = [{w}, {h}, 1], to = [{ow}, {oh}, 1], size = [{kw}, {kh}, 1] }}\n",
            kw * kh,
            kw * kh * into,
            w * h,
            w * h * into,
            ow * oh,
            ow * oh * channels,
            2 * u64::from(counts[2]) * u64::from(into * kw * kh),
            counts[0],
            counts[1],
            counts[2],
        )
    }
}
