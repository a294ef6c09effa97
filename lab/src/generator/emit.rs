//! The module as a whole: types, constants, what the host gives, and the case file.

use super::entropy::{Entropy, Side};
use super::fun::{Fun, Var};
use super::kernel::Argument;
use super::memory::Buffer;
use super::range::Range;
use super::{Dialect, Generated, GeneratorProfile, Limits};
use coop_ir::builder::{Globals, add_global, decorate};
use coop_ir::grammar::{Op, implied_capabilities};
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{remove_globals, sort_globals};
use coop_ir::spv::{AddressingModel, MemoryModel};
use coop_ir::spv::{BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Header, Id, Inst, Module, Operand, string_operands};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The uses of matrices.
pub(super) const A: u32 = 0;
pub(super) const B: u32 = 1;
pub(super) const ACC: u32 = 2;

/// An extent, with the constant for it.
pub(super) type Dim = (u32, Id);

/// A matrix type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mat {
    pub(super) ty: Id,
    pub(super) scalar: Scalar,
    pub(super) problem: usize,
    pub(super) use_: u32,
    pub(super) rows: u32,
    pub(super) cols: u32,
    pub(super) workgroup: bool,
}

impl PartialEq for Mat {
    fn eq(&self, other: &Mat) -> bool {
        // Problems may share types.
        self.ty == other.ty
    }
}

/// Extents and scope that fit together.
#[derive(Clone, Copy)]
pub(super) struct Problem {
    /// M, N and K, with the constants for them.
    pub(super) dims: [Dim; 3],
    pub(super) workgroup: bool,
    scope: Id,
}

impl Problem {
    /// Rows and columns of a matrix of this use.
    pub(super) fn extents(&self, use_: u32) -> [Dim; 2] {
        let [m, n, k] = self.dims;
        match use_ {
            A => [m, k],
            B => [k, n],
            _ => [m, n],
        }
    }
}

/// The most problems that a module has.
const MAX_PROBLEMS: usize = 12;

/// A part of the push constants.
struct Push {
    ty: Id,
    offset: u32,
    /// The text in the case file.
    text: String,
}

pub(super) struct Gen<'a> {
    pub(super) e: Entropy<'a>,
    /// For choices that came later.
    pub(super) side: Side,
    /// The entry point of the case, where the module has several.
    entry: Option<&'static str>,
    pub(super) profile: GeneratorProfile,
    /// True if there are no specialization constants.
    fixed: bool,
    pub(super) m: Module,
    pub(super) g: Globals,
    /// The functions under construction, the innermost last.
    pub(super) funs: Vec<Fun>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) privates: Vec<Var>,
    pub(super) problems: Vec<Problem>,
    /// Statements that may still be made.
    pub(super) budget: u32,
    /// Bytes of Workgroup memory in use.
    pub(super) shared: u32,
    /// True if a workgroup has many lanes for small matrices.
    pub(super) wide: bool,
    /// Subgroups in a workgroup.
    pub(super) subgroups: u32,
    /// Workgroups in x and y.
    pub(super) workgroups: [u32; 2],
    pub(super) made: BTreeMap<&'static str, u32>,
    mats: FxHashMap<(Scalar, [Id; 3], u32), Id>,
    /// Types of layouts and views, and Booleans, by what they say.
    pub(super) tensor_types: FxHashMap<(Op, Vec<Id>), Id>,
    /// True if a kernel counts the invocations of its subgroups.
    pub(super) counts: bool,
    /// Lengths of matrix types that are constants.
    pub(super) lengths: FxHashMap<Id, Id>,
    specs: Vec<(u32, String)>,
    local: (Id, u32),
    /// True if a built-in constant says the size of a workgroup.
    pub(super) sized: bool,
    /// The arguments of a kernel.
    pub(super) arguments: Vec<Argument>,
    /// True if a kernel's matrices are some that devices have.
    pub(super) cut: bool,
    /// True if a kernel's control flow has no merges.
    pub(super) loose: bool,
    /// True if pointers and strides may break the rules of alignment.
    pub(super) unaligned: bool,
    push: Vec<Push>,
    push_size: u32,
    push_struct: Option<(Id, Id)>,
    builtins: BTreeMap<BuiltIn, Id>,
    pub(super) globals: Vec<Id>,
    /// Numbers in a buffer, for uniform values from memory.
    pub(super) table: Vec<u32>,
}

impl<'a> Gen<'a> {
    pub(super) fn new(profile: GeneratorProfile, entropy: &'a [u8], fixed: bool) -> Gen<'a> {
        // Translators of kernels read no later version.
        let version = if profile.dialect == Dialect::Kernel { 0x10400 } else { 0x10600 };
        let header = Header { version, generator: 0, bound: 1, schema: 0, big_endian: false };
        let mut m = Module::new(header, 4096);
        let g = Globals::new(&m);
        let local = m.fresh_id();
        Gen {
            e: Entropy::new(entropy),
            side: Side::new(entropy),
            entry: None,
            profile,
            fixed: fixed || profile.dialect == Dialect::Kernel,
            m,
            g,
            funs: Vec::new(),
            buffers: Vec::new(),
            privates: Vec::new(),
            problems: Vec::new(),
            budget: 0,
            shared: 0,
            subgroups: 1,
            wide: false,
            workgroups: [1, 1],
            made: BTreeMap::new(),
            mats: FxHashMap::default(),
            tensor_types: FxHashMap::default(),
            counts: false,
            lengths: FxHashMap::default(),
            specs: Vec::new(),
            local: (local, 0),
            sized: false,
            arguments: Vec::new(),
            cut: false,
            loose: false,
            unaligned: false,
            push: Vec::new(),
            push_size: 0,
            push_struct: None,
            builtins: BTreeMap::new(),
            globals: Vec::new(),
            table: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Generated {
        let any = self.profile.limits == Limits::Any;
        if self.kernel() {
            self.kernel_capabilities();
        } else {
            self.capability(Capability::Shader);
            self.capability(Capability::VulkanMemoryModel);
        }
        if self.profile.dialect == Dialect::Nv1 {
            self.capability(Capability::CooperativeMatrixNV);
            self.extension("SPV_NV_cooperative_matrix");
        } else {
            self.capability(Capability::CooperativeMatrixKHR);
            self.extension("SPV_KHR_cooperative_matrix");
        }
        self.subgroups = 1 + self.e.below(3);
        if self.profile.limits == Limits::Nvidia {
            // Workgroup-scope matrices want 32, 64, 128 or 256 invocations.
            self.subgroups = 1 << (self.subgroups - 1);
        }
        // Scalar code divides K among groups of 32 lanes.
        self.wide = self.profile.dialect == Dialect::Nv2 && any && self.side.chance(64);
        if self.wide {
            self.subgroups = self.side.pick(&[8, 16]);
            self.note("workgroup of many lanes");
        }
        self.workgroups = [1 + self.e.below(3), 1 + self.e.below(2)];
        self.choose_alignment();
        // The size of a workgroup, which is all that the variants change.
        let size = self.subgroups * self.profile.lanes();
        let uint = self.g.uint(&mut self.m, 32);
        let fixed = self.fixed || !any && self.e.chance(100);
        let op = if fixed { Op::Constant } else { Op::SpecConstant };
        self.global(Inst::new(op, Some(uint), Some(self.local.0), [Operand::Word(size)]));
        if !fixed {
            self.local.1 = 3;
            decorate(&mut self.m, self.local.0, Decoration::SpecId, &[3]);
            self.specs.push((3, size.to_string()));
        }
        // Validators want these before any matrix of workgroup scope.
        let one = self.u32(1);
        if !fixed && self.e.chance(100) {
            let uvec3 = self.g.vector(&mut self.m, uint, 3);
            let id = self.m.fresh_id();
            let ids = [self.local.0, one, one].map(Operand::Id);
            self.global(Inst::new(Op::SpecConstantComposite, Some(uvec3), Some(id), ids));
            decorate(&mut self.m, id, Decoration::BuiltIn, &[BuiltIn::WorkgroupSize.0]);
            self.sized = true;
            self.note("WorkgroupSize");
        }
        if self.kernel() {
            [self.sized, self.loose, self.cut] = std::array::from_fn(|_| self.e.chance(128));
            self.counts = self.side.chance(30);
        }
        for _ in 0..1 + self.e.below(2) {
            self.problem();
        }
        let main = self.main();
        self.finish(main)
    }

    fn problem(&mut self) {
        let any = self.profile.limits == Limits::Any;
        let flexible = self.profile.dialect == Dialect::Nv2;
        let workgroup = match self.profile.limits {
            Limits::Any => {
                let never = matches!(self.profile.dialect, Dialect::Nv1 | Dialect::Qcom | Dialect::Kernel);
                !never && self.e.chance(if self.wide { 230 } else { 70 })
            }
            Limits::Nvidia => flexible && self.e.chance(100),
            Limits::Tiles => self.profile.dialect != Dialect::Qcom && self.e.chance(50),
            Limits::Lavapipe => false,
        };
        let mut values = match self.profile.limits {
            Limits::Nvidia if workgroup => [32; 3],
            Limits::Nvidia if flexible => [16, 16, 32],
            Limits::Nvidia => [16; 3],
            _ => [8; 3],
        };
        if self.profile.dialect == Dialect::Qcom && !any {
            // Of rows that are arrays: 16-bit numbers, or bytes.
            values[2] = self.e.pick(&[16, 32]);
        } else if !any && (flexible || self.profile.limits == Limits::Tiles) {
            // Drivers take minutes to compile large ones.
            let mut most = 4;
            for v in &mut values {
                let by = self.e.pick(&[1, 1, 2, 1, 3]);
                if by <= most {
                    *v *= by;
                    most /= by;
                }
            }
        }
        if any {
            let sizes = [8, 16, 4, 1, 2, 3, 5, 7, 12, 8, 24, 4, 32, 64];
            values = std::array::from_fn(|_| self.e.pick(&sizes));
            // A lane of four holds a good part of each: drivers take seconds to compile large ones.
            let most = if self.e.chance(40) { 1 << 11 } else { 1 << 9 };
            while values.iter().product::<u32>() > most {
                // The largest first.
                let largest = (0..3).max_by_key(|i| values[*i]).unwrap_or(0);
                values[largest] /= 2;
            }
            if self.e.chance(60) {
                values = [values[0]; 3].map(|v| v.min(16));
            }
            match self.profile.dialect {
                Dialect::Qcom => values = [self.e.pick(&[8, 4, 2]), self.e.pick(&[8, 4, 2]), self.e.pick(&[16, 32, 8])],
                Dialect::Kernel if self.cut => {
                    let more = [self.e.pick(&[1, 2]), self.e.pick(&[1, 1, 2]), self.e.pick(&[1, 2])];
                    values = [8 * more[0], 16 * more[1], 16 * more[2]];
                }
                // Blocks are of 4 rows and 4, 8 or 16 columns.
                Dialect::Arm => values = std::array::from_fn(|_| self.e.pick(&[16, 8, 4, 16, 32])),
                _ => {}
            }
        }
        if self.wide && workgroup {
            let k = self.side.pick(&[16, 32, 64]);
            values = [self.side.pick(&[8, 16]), self.side.pick(&[8, 16]), k];
        }
        // Validators compare the lengths of arrays with the defaults of extents.
        let plain = self.profile.dialect == Dialect::Qcom;
        let dims = values.map(|v| (v, if plain { self.u32(v) } else { self.constant_u32(v) }));
        let scope = if workgroup { 2 } else { 3 };
        let scope = if any && self.e.chance(20) { self.constant_u32(scope) } else { self.g.u32(&mut self.m, scope) };
        self.problems.push(Problem { dims, workgroup, scope });
    }

    /// The matrix type of a problem with this component type and use.
    pub(super) fn mat(&mut self, problem: usize, scalar: Scalar, use_: u32) -> Mat {
        let scalar = self.as_kernels(scalar);
        let p = self.problems[problem];
        let (workgroup, scope) = (p.workgroup, p.scope);
        let [rows, cols] = p.extents(use_);
        // Problems may share types, of which there may be one only.
        let typed = if self.profile.dialect == Dialect::Nv1 { u32::MAX } else { use_ };
        let key = (scalar, [scope, rows.1, cols.1], typed);
        let ty = match self.mats.get(&key) {
            Some(ty) => *ty,
            None => {
                let ty = self.mat_type(key);
                self.mats.insert(key, ty);
                ty
            }
        };
        Mat { ty, scalar, problem, use_, rows: rows.0, cols: cols.0, workgroup }
    }

    fn mat_type(&mut self, (scalar, [scope, rows, cols], use_): (Scalar, [Id; 3], u32)) -> Id {
        self.scalar_capabilities(scalar);
        if scalar == Scalar::BF16 {
            self.capability(Capability::BFloat16CooperativeMatrixKHR);
        }
        let elem = self.g.scalar(&mut self.m, scalar);
        let ty = self.m.fresh_id();
        if use_ == u32::MAX {
            let operands = [elem, scope, rows, cols].map(Operand::Id);
            self.global(Inst::new(Op::TypeCooperativeMatrixNV, None, Some(ty), operands));
            return ty;
        }
        let use_id = self.g.u32(&mut self.m, use_);
        let operands = [elem, scope, rows, cols, use_id].map(Operand::Id);
        self.global(Inst::new(Op::TypeCooperativeMatrixKHR, None, Some(ty), operands));
        ty
    }

    /// The type with these extents, of the scope of another type; the problem is found or made.
    pub(super) fn mat_with(&mut self, like: Mat, scalar: Scalar, use_: u32, extents: [Dim; 2]) -> Option<Mat> {
        let p = self.problems[like.problem];
        let found = self.problems.iter().position(|q| q.scope == p.scope && q.extents(use_) == extents);
        let problem = match found {
            Some(problem) => problem,
            None if self.problems.len() >= MAX_PROBLEMS => return None,
            None => {
                let ([rows, cols], other) = (extents, p.dims[self.e.below(3) as usize]);
                let other = if self.profile.limits == Limits::Any { other } else { p.dims[2] };
                let dims = match use_ {
                    A => [rows, other, cols],
                    B => [other, cols, rows],
                    _ => [rows, cols, other],
                };
                self.problems.push(Problem { dims, ..p });
                self.problems.len() - 1
            }
        };
        Some(self.mat(problem, scalar, use_))
    }

    /// Rows and columns of a type.
    pub(super) fn extents(&self, mat: Mat) -> [Dim; 2] {
        self.problems[mat.problem].extents(mat.use_)
    }

    /// Component types that a matrix of this use may have.
    pub(super) fn scalars(&self, use_: u32) -> &'static [Scalar] {
        const fn int(width: u32, signed: bool) -> Scalar {
            Scalar::Int { width, signed }
        }
        const fn float(width: u32) -> Scalar {
            Scalar::Float { width }
        }
        const FACTORS: [Scalar; 3] = [float(16), int(8, true), int(8, false)];
        const SUMS: [Scalar; 4] = [float(32), float(16), int(32, true), int(32, false)];
        const ALL: [Scalar; 12] = [
            float(16),
            float(32),
            int(8, true),
            int(8, false),
            int(32, true),
            int(32, false),
            Scalar::BF16,
            int(16, true),
            int(16, false),
            float(64),
            int(64, true),
            int(64, false),
        ];
        const NVIDIA: [Scalar; 4] = [float(16), int(8, true), int(8, false), Scalar::BF16];
        // Its integers want another K than its floats, which only flexible dimensions allow.
        const NVIDIA_KHR: [Scalar; 2] = [float(16), Scalar::BF16];
        const NVIDIA_KHR_SUMS: [Scalar; 2] = [float(32), float(16)];
        const NO_BF16: [Scalar; 11] = [
            float(16),
            float(32),
            int(8, true),
            int(8, false),
            int(32, true),
            int(32, false),
            int(16, true),
            int(16, false),
            float(64),
            int(64, true),
            int(64, false),
        ];
        const KERNEL: [Scalar; 8] = [
            float(16),
            float(32),
            int(8, false),
            int(32, false),
            int(8, false),
            int(16, false),
            float(64),
            int(64, false),
        ];
        const KERNEL_CUT: [Scalar; 2] = [float(16), int(8, false)];
        const KERNEL_CUT_SUMS: [Scalar; 2] = [float(32), int(32, false)];
        match (self.profile.limits, use_) {
            (Limits::Nvidia, ACC) if self.profile.dialect == Dialect::Nv1 => &NVIDIA_KHR_SUMS,
            (Limits::Nvidia, _) if self.profile.dialect == Dialect::Nv1 => &NVIDIA_KHR[..1],
            (Limits::Any, _) if self.profile.dialect == Dialect::Nv1 => &NO_BF16,
            (_, ACC) if self.cut => &KERNEL_CUT_SUMS,
            _ if self.cut => &KERNEL_CUT,
            _ if self.kernel() => &KERNEL,
            (Limits::Any, _) => &ALL,
            (Limits::Nvidia, ACC) if self.profile.dialect == Dialect::Khr => &NVIDIA_KHR_SUMS,
            (Limits::Nvidia, _) if self.profile.dialect == Dialect::Khr => &NVIDIA_KHR,
            (_, ACC) => &SUMS,
            (Limits::Nvidia, _) if self.profile.dialect != Dialect::Qcom => &NVIDIA,
            _ => &FACTORS,
        }
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.made.entry(what).or_default() += 1;
    }

    pub(super) fn global(&mut self, inst: Inst) {
        let r = self.m.add(inst);
        self.m.globals.push(r);
    }

    /// Returns true if the module is one of kernels.
    pub(super) fn kernel(&self) -> bool {
        self.profile.dialect == Dialect::Kernel
    }

    /// A type as the module has it: integers of kernels have no signs.
    fn as_kernels(&self, scalar: Scalar) -> Scalar {
        match scalar {
            Scalar::Int { width, .. } if self.kernel() => Scalar::Int { width, signed: false },
            _ => scalar,
        }
    }

    pub(super) fn capability(&mut self, capability: Capability) {
        if self.kernel() && capability == Capability::GroupNonUniform {
            // Kernels have subgroups by themselves.
            return;
        }
        coop_ir::builder::require_capability(&mut self.m, capability);
    }

    pub(super) fn extension(&mut self, name: &str) {
        coop_ir::builder::require_extension(&mut self.m, name);
    }

    /// Declares the capabilities of values of a type.
    pub(super) fn scalar_capabilities(&mut self, scalar: Scalar) {
        let capability = match scalar {
            Scalar::Int { width: 8, .. } => Capability::Int8,
            Scalar::Int { width: 16, .. } => Capability::Int16,
            Scalar::Int { width: 64, .. } => Capability::Int64,
            Scalar::Float { width: 16 } => Capability::Float16,
            Scalar::Float { width: 64 } => Capability::Float64,
            Scalar::BF16 => {
                self.extension("SPV_KHR_bfloat16");
                Capability::BFloat16TypeKHR
            }
            _ => return,
        };
        self.capability(capability);
    }

    pub(super) fn u32(&mut self, value: u32) -> Id {
        self.g.u32(&mut self.m, value)
    }

    pub(super) fn scalar(&mut self, scalar: Scalar) -> Id {
        let scalar = self.as_kernels(scalar);
        self.g.scalar(&mut self.m, scalar)
    }

    /// A constant of a number, which is exact in the type. Floats are given in steps of `2^-frac`.
    pub(super) fn number(&mut self, scalar: Scalar, value: i128, frac: u32) -> Id {
        let scalar = self.as_kernels(scalar);
        let real = value as f64 / f64::from(1u32 << frac);
        let bits = match scalar {
            Scalar::Int { width, .. } => (value as u64) & (u64::MAX >> (64 - width)),
            Scalar::BF16 => half::bf16::from_f64(real).to_bits().into(),
            Scalar::Float { width: 16 } => half::f16::from_f64(real).to_bits().into(),
            Scalar::Float { width: 32 } => (real as f32).to_bits().into(),
            _ => real.to_bits(),
        };
        self.g.constant(&mut self.m, scalar, bits)
    }

    fn spec_constant(&mut self, value: u32) -> Id {
        let uint = self.g.uint(&mut self.m, 32);
        let id = self.m.fresh_id();
        // Defaults are placeholders, as in published modules.
        let default = if self.e.chance(128) { 1 } else { value };
        let spec = 10 + self.specs.len() as u32;
        self.global(Inst::new(Op::SpecConstant, Some(uint), Some(id), [Operand::Word(default)]));
        decorate(&mut self.m, id, Decoration::SpecId, &[spec]);
        self.specs.push((spec, value.to_string()));
        self.note("spec constant");
        id
    }

    /// A number of f32 whose default is another where modules have specialization constants.
    pub(super) fn spec_number(&mut self, value: i128, frac: u32) -> Id {
        let f32_scalar = Scalar::Float { width: 32 };
        if self.fixed || self.profile.limits != Limits::Any {
            return self.number(f32_scalar, value, frac);
        }
        let ty = self.scalar(f32_scalar);
        let id = self.m.fresh_id();
        let spec = 10 + self.specs.len() as u32;
        self.global(Inst::new(Op::SpecConstant, Some(ty), Some(id), [Operand::Word(1f32.to_bits())]));
        decorate(&mut self.m, id, Decoration::SpecId, &[spec]);
        self.specs.push((spec, format!("{:?}", value as f64 / f64::from(1u32 << frac))));
        self.note("spec constant of f32");
        id
    }

    fn spec_op(&mut self, op: Op, ids: &[Id]) -> Id {
        let uint = self.g.uint(&mut self.m, 32);
        let id = self.m.fresh_id();
        let operands = [Operand::Word(u32::from(op.0))].into_iter().chain(ids.iter().copied().map(Operand::Id));
        self.global(Inst::new(Op::SpecConstantOp, Some(uint), Some(id), operands));
        self.note("OpSpecConstantOp");
        id
    }

    /// A constant that has this value when the case's specialization is given.
    pub(super) fn constant_u32(&mut self, value: u32) -> Id {
        match self.e.below(8) {
            _ if self.fixed => self.u32(value),
            0..=3 => self.u32(value),
            4 | 5 => self.spec_constant(value),
            6 => {
                let part = self.e.below(value.saturating_add(1));
                let (a, b) = (self.spec_constant(value - part), self.u32(part));
                self.spec_op(Op::IAdd, &[a, b])
            }
            _ => {
                let (a, b) = (self.spec_constant(value.wrapping_mul(4)), self.u32(4));
                let by_shift = self.e.chance(128);
                let two = self.u32(2);
                if value > u32::MAX / 4 {
                    return self.u32(value);
                }
                if by_shift { self.spec_op(Op::ShiftRightLogical, &[a, two]) } else { self.spec_op(Op::UDiv, &[a, b]) }
            }
        }
    }

    /// A built-in variable.
    pub(super) fn builtin(&mut self, builtin: BuiltIn, ty: Id) -> Id {
        if let Some(id) = self.builtins.get(&builtin) {
            return *id;
        }
        let id = self.variable(StorageClass::Input, ty, None);
        decorate(&mut self.m, id, Decoration::BuiltIn, &[builtin.0]);
        self.builtins.insert(builtin, id);
        id
    }

    /// A variable of the module.
    pub(super) fn variable(&mut self, storage: StorageClass, ty: Id, initializer: Option<Id>) -> Id {
        let pointer = self.g.pointer(&mut self.m, storage, ty);
        let id = self.m.fresh_id();
        let operands = [storage.into()].into_iter().chain(initializer.map(Operand::Id));
        self.global(Inst::new(Op::Variable, Some(pointer), Some(id), operands));
        self.globals.push(id);
        id
    }

    /// The variable of the push constants and the index of a new member of type `ty`; `None` when they are full.
    pub(super) fn push_constant(&mut self, ty: Id, size: u32, text: String) -> Option<(Id, u32)> {
        let offset = self.push_size.next_multiple_of(size);
        if offset + size > 128 {
            return None;
        }
        self.push_size = offset + size;
        self.push.push(Push { ty, offset, text });
        let storage = StorageClass::PushConstant;
        let variable = match self.push_struct {
            Some((_, variable)) => variable,
            None => {
                // Its members are known at the end.
                let ty = self.m.fresh_id();
                let variable = self.variable(storage, ty, None);
                self.push_struct = Some((ty, variable));
                variable
            }
        };
        Some((variable, self.push.len() as u32 - 1))
    }

    fn finish(mut self, main: Id) -> Generated {
        if let Some((ty, _)) = self.push_struct {
            let members: Vec<Operand> = self.push.iter().map(|p| p.ty.into()).collect();
            self.global(Inst::new(Op::TypeStruct, None, Some(ty), members));
            decorate(&mut self.m, ty, Decoration::Block, &[]);
            for (i, offset) in self.push.iter().map(|p| p.offset).enumerate().collect::<Vec<_>>() {
                let words = [i as u32, Decoration::Offset.0, offset].map(Operand::Word);
                let operands = [Operand::Id(ty)].into_iter().chain(words);
                add_global(&mut self.m, Inst::new(Op::MemberDecorate, None, None, operands));
            }
        }
        if self.kernel() {
            self.finish_kernel(main);
            return self.finished();
        }
        let physical = self.m.has_capability(Capability::PhysicalStorageBufferAddresses);
        let addressing = if physical { AddressingModel::PhysicalStorageBuffer64 } else { AddressingModel::Logical };
        add_global(
            &mut self.m,
            Inst::new(Op::MemoryModel, None, None, [addressing.into(), MemoryModel::Vulkan.into()]),
        );
        let interface = self.globals.iter().copied().map(Operand::Id);
        let operands = [ExecutionModel::GLCompute.into(), Operand::Id(main)].into_iter().chain(string_operands("main"));
        let entry = Inst::new(Op::EntryPoint, None, None, operands.chain(interface));
        add_global(&mut self.m, entry.clone());
        self.size_of_workgroup(main);
        if self.profile.dialect == Dialect::Nv1 && self.side.chance(64) {
            super::glsl450::declare(&mut self.m);
            self.note("memory model GLSL450");
        }
        if self.side.chance(10) {
            self.second_entry(&entry);
        }
        self.finished()
    }

    /// Makes the function of the entry point that of another one too.
    fn second_entry(&mut self, entry: &Inst) {
        let mut ids = entry.ids().map(Operand::Id);
        let Some(function) = ids.next() else { return };
        let operands = [ExecutionModel::GLCompute.into(), function].into_iter().chain(string_operands("other"));
        add_global(&mut self.m, Inst::new(Op::EntryPoint, None, None, operands.chain(ids)));
        self.entry = Some("main");
        self.note("two entry points of one function");
    }

    /// Leaves the declaration of what other capabilities imply to these.
    fn leave_implied(&mut self) {
        if !self.side.chance(64) {
            return;
        }
        let declared: Vec<Capability> = self.m.capabilities().collect();
        let implied: Vec<Capability> = declared.iter().flat_map(|c| implied_capabilities(*c)).collect();
        let gone = remove_globals(&mut self.m, |m, r| {
            let i = m.inst(r);
            i.op == Op::Capability && i.enumerant(0).is_some_and(|c| implied.contains(&c))
        });
        if gone > 0 {
            self.note("implied capabilities");
        }
    }

    fn finished(mut self) -> Generated {
        self.leave_implied();
        self.late();
        sort_globals(&mut self.m);
        let case = self.case();
        Generated { module: self.m, case, made: self.made, used: self.e.used() }
    }

    fn size_of_workgroup(&mut self, main: Id) {
        let one = self.u32(1);
        let ids = [self.local.0, one, one];
        if self.local.1 == 0 {
            let words = [17, self.subgroups * self.profile.lanes(), 1, 1].map(Operand::Word);
            let operands = [Operand::Id(main)].into_iter().chain(words);
            add_global(&mut self.m, Inst::new(Op::ExecutionMode, None, None, operands));
        } else if self.sized {
            let words = [17, 1, 1, 1].map(Operand::Word);
            let operands = [Operand::Id(main)].into_iter().chain(words);
            add_global(&mut self.m, Inst::new(Op::ExecutionMode, None, None, operands));
        } else {
            let operands =
                [Operand::Id(main), ExecutionMode::LocalSizeId.into()].into_iter().chain(ids.map(Operand::Id));
            add_global(&mut self.m, Inst::new(Op::ExecutionModeId, None, None, operands));
            self.note("LocalSizeId");
        }
    }

    fn case(&self) -> String {
        let mut out = String::new();
        let [x, y] = self.workgroups;
        let _ = writeln!(out, "workgroups = [{x}, {y}, 1]\nseed = 1");
        if let Some(entry) = self.entry {
            let _ = writeln!(out, "entry = \"{entry}\"");
        }
        if self.kernel() {
            out.push_str(&self.kernel_case());
        }
        if self.profile.limits != Limits::Any {
            let _ = writeln!(out, "subgroup-size = {}\nfull-subgroups = true", self.profile.lanes());
        }
        if !self.push.is_empty() {
            out.push_str("push = [\n");
            for p in &self.push {
                let _ = writeln!(out, "    {{ offset = {}, {} }},", p.offset, p.text);
            }
            out.push_str("]\n");
        }
        if !self.specs.is_empty() {
            out.push_str("\n[spec]\n");
            for (id, value) in &self.specs {
                let _ = writeln!(out, "{id} = {value}");
            }
        }
        for buffer in &self.buffers {
            buffer.write(&mut out);
        }
        if !self.table.is_empty() {
            let values: Vec<String> = self.table.iter().map(u32::to_string).collect();
            let _ = writeln!(
                out,
                "\n[[buffer]]\nname = \"T\"\n{}type = \"u32\"\ncount = {}\nfill = {{ values = [{}] }}",
                if self.kernel() { String::new() } else { format!("binding = {}\n", super::memory::TABLE) },
                values.len(),
                values.join(", ")
            );
        }
        for size in self.profile.variants() {
            let _ = writeln!(out, "\n[variant.s{size}]\nspec = {{ 3 = {} }}", size * self.subgroups);
        }
        out
    }

    /// The range of a matrix all of whose elements are 0.
    pub(super) fn zero() -> Range {
        Range::int(0, 0)
    }
}
