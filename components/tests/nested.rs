//! Types that are nested deeply: no pass looks at a type for each type that it is a part of, or needs a stack of the same depth.

mod common;

use common::{everything, parse};
use coop_components::{Options, lower};
use coop_ir::Op;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A chain of structs, each in the next, around a number of each width, with pointers of two storage classes to each.
fn chain(length: u32) -> String {
    let mut decorations = String::new();
    let mut types = "%s0 = OpTypeStruct %half %byte %short %long\n".to_owned();
    for n in 1..length {
        let _ = writeln!(decorations, "OpMemberDecorate %s{n} 0 Offset 0\nOpMemberDecorate %s{n} 1 Offset 32");
        let _ = writeln!(types, "%s{n} = OpTypeStruct %s{} %uint", n - 1);
    }
    for n in 0..length {
        let _ = writeln!(types, "%p{n} = OpTypePointer PhysicalStorageBuffer %s{n}");
        let _ = writeln!(types, "%q{n} = OpTypePointer Function %s{n}");
    }
    let top = length - 1;
    format!(
        "OpCapability Shader
        OpCapability Float16
        OpCapability Int8
        OpCapability Int16
        OpCapability Int64
        OpCapability StorageBuffer16BitAccess
        OpCapability StorageBuffer8BitAccess
        OpCapability PhysicalStorageBufferAddresses
        OpMemoryModel PhysicalStorageBuffer64 GLSL450
        OpEntryPoint GLCompute %main \"main\" %buffer
        OpExecutionMode %main LocalSize 1 1 1
        OpDecorate %buffer DescriptorSet 0
        OpDecorate %buffer Binding 0
        OpDecorate %block Block
        OpMemberDecorate %block 0 Offset 0
        OpMemberDecorate %s0 0 Offset 0
        OpMemberDecorate %s0 1 Offset 2
        OpMemberDecorate %s0 2 Offset 4
        OpMemberDecorate %s0 3 Offset 8
        {decorations}
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %half = OpTypeFloat 16
        %byte = OpTypeInt 8 0
        %short = OpTypeInt 16 0
        %long = OpTypeInt 64 0
        {types}
        %block = OpTypeStruct %s{top}
        %to_block = OpTypePointer StorageBuffer %block
        %buffer = OpVariable %to_block StorageBuffer
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %own = OpVariable %q{top} Function
        OpReturn
        OpFunctionEnd"
    )
}

#[test]
fn a_long_chain_of_structs_takes_no_more_time_than_its_length() {
    let module = parse(&chain(60_000));
    let start = Instant::now();
    let lowered = lower(&module, &Options::new(everything())).unwrap_or_else(|e| panic!("{e}"));
    let took = start.elapsed();
    assert!(lowered.module.globals_with(Op::TypeInt).all(|r| lowered.module.inst(r).operands[0].word() == 32));
    // A time that is proportional to the square of the length is a hundred times as long.
    assert!(took < Duration::from_secs(30), "{took:?}");
}
