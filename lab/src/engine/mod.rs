//! The pipelines of an engine: ggml's, as its Vulkan backend makes them on a device with matrices of workgroup scope.
//!
//! An engine chooses tiles and workgroups itself, so how fast its kernels are is another question than how fast ours are. Each
//! figure is one operation; the contenders are the engine's own shaders for its three kinds of devices, each with the tile, the
//! constants and the dispatch that the engine chooses there, and the lowerings of the first. What is
//! chosen was read in llama.cpp's `ggml-vulkan.cpp` (llama-cpp-sys-2 0.1.156); the shaders are those of `scripts/llama-shaders.sh`.

mod attention;
mod convolution;
mod experts;
mod product;

use std::collections::BTreeMap;
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
    product::push_all(&mut list, choice);
    experts::push_all(&mut list, choice);
    attention::push_all(&mut list, choice);
    convolution::push_all(&mut list, choice);
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
const Q4_K: Format = Format::new("q4_k", 256, 144, 12);
const MXFP4: Format = Format::new("mxfp4", 32, 17, 39);

/// The engine's kinds of shaders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Workgroup,
    Subgroup,
    Scalar,
}

impl Kind {
    /// The end of the names of shaders.
    fn ending(self) -> &'static str {
        match self {
            Kind::Workgroup => "_cm2",
            Kind::Subgroup => "_cm1",
            Kind::Scalar => "",
        }
    }
}

/// A try with the engine's constants.
fn try_with(spec: Vec<u32>, tile: [u32; 3]) -> Try {
    Try { spec: spec.into_iter().map(|v| Number::Int(v.into())).collect(), tile }
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
