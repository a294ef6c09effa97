//! `cooprun placement`: which invocation holds which element of a matrix.
//!
//! SPIR-V leaves the placement to the implementation, so it is measured: a module loads a matrix whose elements are the numbers of
//! their rows and another whose elements are those of their columns, and each invocation writes what it holds at each index. That is run
//! as it is, on a device or in the interpreter, or lowered: then it shows the placement of the lowering.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coop_device::{ComponentType, Profile};
use coop_exec::number::{decode_all, exact_integers, size_of};
use coop_exec::{Case, RunOptions};
use coop_ir::constant::Constants;
use coop_ir::types::{coop_mat, use_name};
use coop_ir::{Module, text};
use coop_passes::{Options, Target};

use super::on::{OnArgs, Runner};
use super::placed::{Holders, Matrix, Placed};
use super::placement_drawing::drawing;
use super::{Failure, print};
use crate::args::{OutputStyle, ProfileArgs, SpecArgs, whole};
use crate::{Status, io};

/// The largest number of elements of a matrix.
const MOST_ELEMENTS: u32 = 1 << 14;

/// The command line of `cooprun placement`.
#[derive(Args, Debug)]
pub(super) struct PlacementArgs {
    /// A module whose matrix types are shown
    #[arg(value_name = "MODULE", required_unless_present = "matrix")]
    module: Option<PathBuf>,
    /// A matrix type: component type, extents and use, as in f16:16x16:A; may be repeated
    #[arg(long, value_name = "TYPE:ROWSxCOLUMNS:USE", value_parser = parse_matrix)]
    matrix: Vec<Matrix>,
    #[command(flatten)]
    spec: SpecArgs,
    /// Lower the module that asks first, so that the placement is that of the lowering. As it accesses elements one by one, factors
    /// are held once, as accumulators are
    #[arg(long, value_enum, value_name = "TARGET")]
    lower: Option<LowerName>,
    /// The profile to lower for, if not that of the device: a built-in name, or a file
    #[arg(long, value_name = "NAME|FILE.json", requires = "lower")]
    profile: Option<String>,
    /// The invocations of a workgroup, for matrices of that scope
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = whole::<u32>(1, 1024))]
    invocations: u32,
    /// Draw it to a file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print one JSON object for each matrix instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: OnArgs,
}

/// The code that the module that asks is lowered to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LowerName {
    /// Code without matrices
    Scalar,
    /// Tiles of the matrices that the profile lists, which take turns among the elements of an invocation
    Khr,
}

impl Matrix {
    fn new(component: ComponentType, [rows, columns]: [u32; 2], use_: u32, workgroup: bool) -> Result<Matrix, String> {
        let name = component.name().unwrap_or("a type");
        if size_of(component) == 0 || declaration(component).is_none() {
            return Err(format!("{name} is not a component type that can be asked about"));
        }
        if rows == 0 || columns == 0 || rows.saturating_mul(columns) > MOST_ELEMENTS {
            return Err(format!("{rows}x{columns} is not a size of 1 to {MOST_ELEMENTS} elements"));
        }
        let most = exact_integers(component);
        if u64::from(rows.max(columns)) > most {
            return Err(format!("{rows}x{columns}: {name} has numbers for {most} rows and columns"));
        }
        Ok(Matrix { component, rows, columns, use_, workgroup })
    }
}

/// `f16:16x16:A`.
fn parse_matrix(text: &str) -> Result<Matrix, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [component, size, use_] = parts[..] else { return Err("it has the form f16:16x16:A".to_owned()) };
    let component: ComponentType =
        component.parse().map_err(|_| format!("there is no component type '{component}'"))?;
    let extent = |text: &str| text.parse::<u32>().map_err(|_| format!("'{text}' is not a number"));
    let (rows, columns) = size.split_once('x').ok_or_else(|| format!("'{size}' is not a size, as 16x16 is"))?;
    let known = (0..3).find(|n| use_name(*n).is_some_and(|name| name.eq_ignore_ascii_case(use_)));
    let use_ = known.or((use_.eq_ignore_ascii_case("C")).then_some(2));
    let use_ = use_.ok_or("the use is A, B or Accumulator")?;
    Matrix::new(component, [extent(rows)?, extent(columns)?], use_ as u32, false)
}

/// The declarations of a component type: what follows `OpTypeFloat` or `OpTypeInt`, capabilities and extensions.
fn declaration(component: ComponentType) -> Option<(String, Vec<&'static str>, &'static str)> {
    let bits = component.bits()?;
    let mut capabilities: Vec<&str> = Vec::new();
    match bits {
        8 => capabilities.push("StorageBuffer8BitAccess"),
        16 => capabilities.push("StorageBuffer16BitAccess"),
        _ => {}
    }
    let bfloat16 = component.name() == Some("bf16");
    let ty = match component.name()?.split_at(1) {
        ("f", _) => {
            capabilities.extend(match bits {
                16 => Some("Float16"),
                64 => Some("Float64"),
                _ => None,
            });
            format!("OpTypeFloat {bits}")
        }
        (sign @ ("s" | "u"), _) => {
            capabilities.extend(match bits {
                8 => Some("Int8"),
                16 => Some("Int16"),
                64 => Some("Int64"),
                _ => None,
            });
            format!("OpTypeInt {bits} {}", u8::from(sign == "s"))
        }
        _ if bfloat16 => {
            capabilities.extend(["BFloat16TypeKHR", "BFloat16CooperativeMatrixKHR"]);
            "OpTypeFloat 16 BFloat16KHR".to_owned()
        }
        _ => return None,
    };
    Some((ty, capabilities, if bfloat16 { "OpExtension \"SPV_KHR_bfloat16\"" } else { "" }))
}

/// Returns the module that asks about a matrix.
fn asking(matrix: &Matrix, invocations: u32) -> Result<Module, Failure> {
    let (ty, capabilities, extension) =
        declaration(matrix.component).ok_or_else(|| Failure::Usage(format!("{}: unknown", matrix.name())))?;
    let capabilities: String = capabilities.iter().map(|c| format!("OpCapability {c}\n")).collect();
    let bytes = size_of(matrix.component);
    let Matrix { rows, columns, use_, .. } = matrix;
    let (built_in, scope) =
        if matrix.workgroup { ("LocalInvocationIndex", 2) } else { ("SubgroupLocalInvocationId", 3) };
    let subgroups = if matrix.workgroup { "" } else { "OpCapability GroupNonUniform\n" };
    // An unsigned 32-bit component is the type of the indices.
    let component = if ty == "OpTypeInt 32 0" { "%uint".to_owned() } else { "%T".to_owned() };
    let declared = if component == "%T" { format!("%T = {ty}\n") } else { String::new() };
    let buffers = ["rows", "columns", "row_of", "column_of"];
    let decorations: String = buffers
        .iter()
        .enumerate()
        .map(|(at, name)| format!("OpDecorate %{name} DescriptorSet 0\nOpDecorate %{name} Binding {at}\n"))
        .collect();
    let variables: String =
        buffers.iter().map(|name| format!("%{name} = OpVariable %ptr_block StorageBuffer\n")).collect();
    let source = format!(
        "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n{subgroups}{capabilities}\
         OpExtension \"SPV_KHR_cooperative_matrix\"\n{extension}\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %lane %rows %columns %row_of %column_of %lengths\n\
         OpExecutionMode %main LocalSize {invocations} 1 1\n\
         OpDecorate %lane BuiltIn {built_in}\n{decorations}OpDecorate %lengths DescriptorSet 0\nOpDecorate %lengths Binding 4\n\
         OpDecorate %array ArrayStride {bytes}\nOpDecorate %block Block\nOpMemberDecorate %block 0 Offset 0\n\
         OpDecorate %numbers ArrayStride 4\nOpDecorate %counts Block\nOpMemberDecorate %counts 0 Offset 0\n\
         %void = OpTypeVoid\n%function = OpTypeFunction %void\n%bool = OpTypeBool\n%uint = OpTypeInt 32 0\n{declared}\
         %uint_0 = OpConstant %uint 0\n%uint_1 = OpConstant %uint 1\n%scope = OpConstant %uint {scope}\n\
         %R = OpConstant %uint {rows}\n%C = OpConstant %uint {columns}\n%use = OpConstant %uint {use_}\n\
         %slots = OpConstant %uint {slots}\n\
         %mat = OpTypeCooperativeMatrixKHR {component} %scope %R %C %use\n\
         %ptr_mat = OpTypePointer Function %mat\n%ptr_held = OpTypePointer Function {component}\n\
         %ptr_in = OpTypePointer Input %uint\n%array = OpTypeRuntimeArray {component}\n%block = OpTypeStruct %array\n\
         %ptr_block = OpTypePointer StorageBuffer %block\n%ptr_T = OpTypePointer StorageBuffer {component}\n\
         %numbers = OpTypeRuntimeArray %uint\n%counts = OpTypeStruct %numbers\n\
         %ptr_counts = OpTypePointer StorageBuffer %counts\n%ptr_uint = OpTypePointer StorageBuffer %uint\n\
         %lane = OpVariable %ptr_in Input\n{variables}%lengths = OpVariable %ptr_counts StorageBuffer\n\
         %main = OpFunction %void None %function\n%entry = OpLabel\n\
         %row_var = OpVariable %ptr_mat Function\n%column_var = OpVariable %ptr_mat Function\n\
         %from_rows = OpAccessChain %ptr_T %rows %uint_0 %uint_0\n\
         %from_columns = OpAccessChain %ptr_T %columns %uint_0 %uint_0\n\
         %row_mat = OpCooperativeMatrixLoadKHR %mat %from_rows %uint_0 %C None\n\
         %column_mat = OpCooperativeMatrixLoadKHR %mat %from_columns %uint_0 %C None\n\
         OpStore %row_var %row_mat\nOpStore %column_var %column_mat\n\
         %length = OpCooperativeMatrixLengthKHR %uint %mat\n%me = OpLoad %uint %lane\n\
         %count = OpAccessChain %ptr_uint %lengths %uint_0 %me\nOpStore %count %length\n\
         %first = OpIMul %uint %me %slots\nOpBranch %head\n\
         %head = OpLabel\n%i = OpPhi %uint %uint_0 %entry %next %tail\nOpLoopMerge %end %tail None\nOpBranch %test\n\
         %test = OpLabel\n%go = OpULessThan %bool %i %length\nOpBranchConditional %go %work %end\n\
         %work = OpLabel\n%to = OpIAdd %uint %first %i\n\
         %row_at = OpAccessChain %ptr_held %row_var %i\n%row = OpLoad {component} %row_at\n\
         %row_to = OpAccessChain %ptr_T %row_of %uint_0 %to\nOpStore %row_to %row\n\
         %column_at = OpAccessChain %ptr_held %column_var %i\n%column = OpLoad {component} %column_at\n\
         %column_to = OpAccessChain %ptr_T %column_of %uint_0 %to\nOpStore %column_to %column\n\
         OpBranch %tail\n%tail = OpLabel\n%next = OpIAdd %uint %i %uint_1\nOpBranch %head\n\
         %end = OpLabel\nOpReturn\nOpFunctionEnd\n",
        slots = rows * columns,
    );
    let mut module = text::parse(&source).map_err(|error| Failure::Usage(format!("{}: {error}", matrix.name())))?;
    // That with matrices; SPIR-V 1.6 is what Vulkan 1.3 takes.
    module.header.version = 0x0001_0600;
    Ok(module)
}

/// Returns the case of that module.
fn case(matrix: &Matrix, invocations: u32, subgroup: u32) -> Result<Case, Failure> {
    let name = matrix.component.name().unwrap_or_default();
    let Matrix { rows, columns, .. } = matrix;
    let list = |number: fn(u32, u32) -> u32| {
        let all = (0..*rows).flat_map(|row| (0..*columns).map(move |column| number(row, column).to_string()));
        all.collect::<Vec<_>>().join(", ")
    };
    let (row, column) = (list(|row, _| row), list(|_, column| column));
    let (elements, places) = (rows * columns, u64::from(rows * columns) * u64::from(invocations));
    let mut text = format!("workgroups = [1, 1, 1]\nsubgroup-size = {subgroup}\nfull-subgroups = true\n");
    for (at, (buffer, ty, count, fill)) in [
        ("rows", name, u64::from(elements), format!("{{ values = [{row}] }}")),
        ("columns", name, u64::from(elements), format!("{{ values = [{column}] }}")),
        ("row_of", name, places, "\"zeros\"".to_owned()),
        ("column_of", name, places, "\"zeros\"".to_owned()),
        ("lengths", "u32", u64::from(invocations), "\"zeros\"".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let _ = write!(
            text,
            "[[buffer]]\nname = \"{buffer}\"\nbinding = {at}\ntype = \"{ty}\"\ncount = {count}\nfill = {fill}\n"
        );
    }
    Ok(Case::parse(&text, std::path::Path::new(""))?)
}

impl PlacementArgs {
    pub(super) fn json(&self) -> bool {
        self.json
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        let matrices = self.matrices()?;
        let opened = self.on.open()?;
        let empty = Case::parse("workgroups = [1, 1, 1]\n", std::path::Path::new(""))?;
        let runners = self.on.runners(&opened, &self.on.interp.apply(empty.clone()), style)?;
        let named = ProfileArgs { profile: self.profile.clone(), ..ProfileArgs::default() }.named()?;
        let profile = named.as_ref().or(OnArgs::profile(&runners));
        if self.lower == Some(LowerName::Khr) && profile.is_none() {
            let why = "--lower khr: the interpreter lists no matrices to make tiles of; say --profile NAME";
            return Err(Failure::Usage(why.to_owned()));
        }
        let device = profile.map(|profile| profile.limits.subgroup_size);
        let (subgroup, _) = self.on.interp.subgroup_size(&empty, device);
        let mut all = Vec::new();
        for matrix in &matrices {
            for runner in &runners {
                all.push(self.placed(matrix, runner, subgroup, profile)?);
            }
        }
        if let Some(path) = &self.svg {
            io::write_bytes(path, drawing(&all).as_bytes())?;
        }
        if self.json {
            all.iter().for_each(|placed| print(&placed.to_json().to_string()));
        } else if self.svg.is_none() {
            print(&all.iter().map(Placed::text).collect::<Vec<_>>().join("\n"));
        }
        Ok(Status::Success)
    }

    /// Returns the matrices that are asked about, each once.
    fn matrices(&self) -> Result<Vec<Matrix>, Failure> {
        let mut out: BTreeSet<Matrix> = self.matrix.iter().cloned().collect();
        let Some(path) = &self.module else { return Ok(out.into_iter().collect()) };
        let loaded = io::load(path)?;
        let m = &loaded.module;
        let constants = Constants::new(m, &self.spec.specialization()?);
        for id in m.globals.iter().filter_map(|r| m.inst(*r).result) {
            let Some(ty) = coop_mat(m, id) else { continue };
            let view = ty.view(m, &constants);
            let known = |constant: &coop_ir::constant::Const| constant.value().and_then(|n| u32::try_from(n).ok());
            let component = view.component.and_then(|scalar| scalar.to_string().parse::<ComponentType>().ok());
            let scope = known(&view.scope).filter(|scope| matches!(scope, 2 | 3));
            let matrix = match (component, known(&view.rows), known(&view.cols), known(&view.use_), scope) {
                (Some(component), Some(rows), Some(columns), Some(use_ @ 0..3), Some(scope)) => {
                    Matrix::new(component, [rows, columns], use_, scope == 2)
                }
                _ => Err("its type is not known, or it is not one of a subgroup or a workgroup".to_owned()),
            };
            let matrix = matrix.map_err(|why| Failure::Usage(format!("{}: matrix {id} {view}: {why}", loaded.name)))?;
            out.insert(matrix);
        }
        if out.is_empty() {
            return Err(Failure::Usage(format!("{}: the module has no matrix types", loaded.name)));
        }
        Ok(out.into_iter().collect())
    }

    /// Asks a device or the interpreter about a matrix.
    fn placed(
        &self,
        matrix: &Matrix,
        runner: &Runner<'_>,
        subgroup: u32,
        profile: Option<&Profile>,
    ) -> Result<Placed, Failure> {
        let invocations = if matrix.workgroup { self.invocations } else { subgroup };
        let mut module = asking(matrix, invocations)?;
        if let Some(name) = self.lower {
            let (target, profile) = match name {
                LowerName::Scalar => (Target::Scalar, None),
                LowerName::Khr => (Target::Khr, profile),
            };
            let options = Options { subgroup_size: Some(subgroup), profile, ..Options::new(target) };
            module = coop_passes::lower(&module, &options).map_err(Failure::Lower)?.module;
        }
        let case = case(matrix, invocations, subgroup)?;
        let outcome = runner.run(&module, &case, &RunOptions::default())?.outcome;
        let wrong = |why: String| Failure::Usage(format!("{} on {}: {why}", matrix.name(), outcome.device));
        if let Some(message) = outcome.messages.first().or(outcome.faults.first()) {
            return Err(wrong(message.clone()));
        }
        let numbers = |buffer: &str, ty: ComponentType| {
            let values = decode_all(ty, outcome.buffer(buffer).unwrap_or_default());
            values.into_iter().map(|value| value.to_f64() as u32).collect::<Vec<u32>>()
        };
        let (rows, columns) = (numbers("row_of", matrix.component), numbers("column_of", matrix.component));
        let lengths: Vec<u32> = outcome
            .buffer("lengths")
            .unwrap_or_default()
            .chunks_exact(4)
            .map(|bytes| bytes.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte)))
            .collect();
        let slots = matrix.rows * matrix.columns;
        let mut elements: Vec<Holders> = vec![Vec::new(); slots as usize];
        for (lane, length) in (0..invocations).zip(&lengths) {
            if *length > slots {
                return Err(wrong(format!("invocation {lane} holds {length} elements of {slots}")));
            }
            for index in 0..*length {
                let at = (lane * slots + index) as usize;
                let (row, column) = (rows.get(at).copied(), columns.get(at).copied());
                let element = row.zip(column).filter(|(r, c)| *r < matrix.rows && *c < matrix.columns);
                let (row, column) = element.ok_or_else(|| {
                    wrong(format!(
                        "invocation {lane} holds something else than an element at {index}: {row:?}, {column:?}"
                    ))
                })?;
                elements[(row * matrix.columns + column) as usize].push((lane, index));
            }
        }
        let lowered = if self.lower.is_some() { "lowered, on " } else { "" };
        let lengths = (lengths.iter().min().copied().unwrap_or(0), lengths.iter().max().copied().unwrap_or(0));
        Ok(Placed {
            matrix: matrix.clone(),
            invocations,
            by: format!("{lowered}{}", outcome.device),
            lengths,
            elements,
        })
    }
}
