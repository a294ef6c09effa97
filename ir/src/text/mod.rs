//! Assembly text: the language of `spirv-as` and `spirv-dis`.
//!
//! [`print`](print()) writes a module as text and records the position of each instruction and operand;
//! [`parse`](parse()) reads it back. Together they have these properties:
//!
//! 1. With numeric names, parsing printed text gives the same module, word for word (in this machine's byte order: text
//!    has none). A module without any instruction is the exception: its text is rejected.
//! 2. With friendly names it gives the same module up to the numbers of ids that have a name. An id whose number is
//!    also a word beyond the grammar is always printed by number, because that word may be the id.
//! 3. Instructions beyond the grammar are printed so that the words survive: from the first unknown operand on, each
//!    word that is not an id is `!0x…`; an unknown opcode is `OpUnknown(opcode, words)` as current SPIRV-Tools print
//!    it.
//! 4. A literal is printed as a number only if its type has been declared further up and the number parses to the same
//!    words.

use crate::grammar::Kind;

mod lex;
mod names;
mod number;
mod parse;
mod print;
mod written;

pub use names::Names;
pub use parse::{ParseError, Parsed, parse, parse_with_places};
pub use print::{PrintOptions, Printed, inst_text, print, print_some, print_with};

/// Returns the text of a mask without any bit; `None` if it has no name.
fn no_bits(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::CooperativeMatrixOperands => Some("NoneKHR"),
        Kind::TensorOperands => Some("NoneARM"),
        Kind::CooperativeMatrixReduce => None,
        _ => Some("None"),
    }
}

/// The vendors of numbers for the upper half of the generator word, as other tools print them.
const GENERATORS: &[&str] = &[
    "Khronos",
    "LunarG",
    "Valve",
    "Codeplay",
    "NVIDIA",
    "ARM",
    "Khronos LLVM/SPIR-V Translator",
    "Khronos SPIR-V Tools Assembler",
    "Khronos Glslang Reference Front End",
    "Qualcomm",
    "AMD",
    "Intel",
    "Imagination",
    "Google Shaderc over Glslang",
    "Google spiregg",
    "Google rspirv",
    "X-LEGEND Mesa3D GLSL-IR/SPIR-V Translator",
    "Khronos SPIR-V Tools Linker",
    "Wine VKD3D Shader Compiler",
    "Tellusim Clay Shader Compiler",
    "W3C WebGPU Group WHLSL Shader Translator",
    "Google Clspv",
    "LLVM MLIR SPIR-V Serializer",
    "Google Tint Compiler",
    "Google ANGLE Shader Compiler",
    "Netease Games Messiah Shader Compiler",
    "Xenia Xenia Emulator Microcode Translator",
    "Embark Studios Rust GPU Compiler Backend",
    "gfx-rs community Naga",
    "Mikkosoft Productions MSP Shader Compiler",
    "SpvGenTwo community SpvGenTwo SPIR-V IR Tools",
    "Google Skia SkSL",
    "TornadoVM Beehive SPIRV Toolkit",
    "DragonJoker ShaderWriter",
    "Rayan Hatout SPIRVSmith",
    "Saarland University Shady",
    "Taichi Graphics Taichi",
    "heroseh Hero C Compiler",
    "Meta SparkSL",
    "SirLynix Nazara ShaderLang Compiler",
    "Khronos Slang Compiler",
    "Zig Software Foundation Zig Compiler",
    "Rendong Liang spq",
    "LLVM LLVM SPIR-V Backend",
    "Robert Konrad Kongruent",
    "Kitsunebi Games Nuvk SPIR-V Emitter and DLSL compiler",
    "Nintendo",
];
