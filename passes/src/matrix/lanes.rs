//! Computes the lane number of an invocation.
//!
//! [`Lanes::Subgroup`] reads `SubgroupLocalInvocationId`, in a pipeline that requires the subgroup size.
//! [`Lanes::LocalIndex`] and matrices of workgroup scope use `LocalInvocationIndex`; with the former, each run of `subgroup
//! size` invocations is a subgroup, and the module's queries about subgroups are answered accordingly. If lanes of a matrix
//! of workgroup scope exchange values by shuffles, they are counted subgroup by subgroup instead, and all subgroups must be
//! full.

use crate::builtins::{Builtins, loaded_type};
use crate::matrix::arena::{Arena, Region, Zone};
use crate::matrix::placement::LaneRange;
use crate::workgroup::Workgroup;
use crate::{Lanes, Options, Refusal, kernel};
use coop_device::SubgroupOperations;
use coop_ir::builder::{FunctionBuilder, Globals, Index, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decode::decode;
use coop_ir::decorate::Decorations;
use coop_ir::grammar::ExecutionScope;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{BuiltIn, Capability, Decoration, Scope};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};
use smallvec::SmallVec;

/// The built-in variables that tell about subgroups, and are answered.
const ABOUT_SUBGROUPS: [BuiltIn; 6] = [
    BuiltIn::SubgroupSize,
    BuiltIn::SubgroupMaxSize,
    BuiltIn::NumSubgroups,
    BuiltIn::NumEnqueuedSubgroups,
    BuiltIn::SubgroupId,
    BuiltIn::SubgroupLocalInvocationId,
];

/// Those that are not answered here, but in [`crate::emulate`].
pub(crate) const MASKS: [BuiltIn; 5] = [
    BuiltIn::SubgroupEqMask,
    BuiltIn::SubgroupGeMask,
    BuiltIn::SubgroupGtMask,
    BuiltIn::SubgroupLeMask,
    BuiltIn::SubgroupLtMask,
];

/// An extended instruction set that works on subgroups.
const AMD_BALLOT: &str = "SPV_AMD_shader_ballot";

/// The lanes of the scopes, and the built-in variables that tell them.
pub(crate) struct LaneSource {
    mode: Lanes,
    subgroup: Option<u32>,
    workgroup: Workgroup,
    builtins: Builtins,
    reads_subgroup_id: bool,
    /// True if there are matrices of subgroup scope.
    pub(crate) subgroup_matrices: bool,
    /// True if the lanes of a subgroup can hand each other values.
    can_shuffle: bool,
    /// True if those of a workgroup are counted subgroup by subgroup, so that neighbours are in one.
    by_subgroups: bool,
    shuffles: bool,
    /// In [`Lanes::LocalIndex`], whether subgroups are not the device's.
    simulated: bool,
    /// In [`Lanes::LocalIndex`], the variables of the module whose loads are answered.
    subgroup_builtins: FxHashMap<Id, BuiltIn>,
}

/// Refuses a module if the number of lanes is not known.
pub(crate) fn unknown_size(at: Option<InstRef>) -> Refusal {
    let why = "the number of invocations of a subgroup is not known";
    Refusal::new("refused-unknown-size", at, why, "pass --subgroup-size N or --profile NAME")
}

impl LaneSource {
    pub(crate) fn new(m: &Module, constants: &Constants, options: &Options<'_>) -> Result<LaneSource, Refusal> {
        let subgroup = options.subgroup_size;
        let workgroup = Workgroup::new(m, constants);
        let mut this = LaneSource {
            mode: options.lanes,
            subgroup,
            workgroup,
            builtins: Builtins::new(m),
            reads_subgroup_id: false,
            subgroup_matrices: false,
            can_shuffle: false,
            by_subgroups: false,
            shuffles: false,
            simulated: false,
            subgroup_builtins: FxHashMap::default(),
        };
        if this.mode == Lanes::LocalIndex {
            this.local_index(m, constants, options)?;
        }
        let shuffle = options.profile.is_some_and(|p| {
            p.limits.subgroup_size == this.subgroup.unwrap_or(0)
                && p.limits.subgroup_supported_operations.has(SubgroupOperations::SHUFFLE)
        });
        this.can_shuffle = shuffle && this.mode == Lanes::Subgroup && !kernel::is_kernel(m);
        Ok(this)
    }

    /// Checks the requirements of [`Lanes::LocalIndex`].
    fn local_index(&mut self, m: &Module, constants: &Constants, options: &Options<'_>) -> Result<(), Refusal> {
        let subgroup = self.subgroup.unwrap_or(1);
        match self.workgroup.invocations {
            Some(n) if n % subgroup == 0 => {}
            Some(n) => {
                let why = format!("a workgroup of {n} invocations is not a number of whole subgroups of {subgroup}");
                return Err(Refusal::new("refused-lanes", None, why, "choose another --subgroup-size"));
            }
            // Who starts a kernel says how large its workgroups are: whole subgroups, as everything there.
            None if kernel::is_kernel(m) => {}
            None => return Err(self.workgroup.refusal(None)),
        }
        for b in ABOUT_SUBGROUPS {
            if let Some(v) = self.builtins.existing(b) {
                self.subgroup_builtins.insert(v, b);
            }
        }
        self.simulated = simulates(options);
        if !self.simulated {
            return Ok(());
        }
        let refused = |r: InstRef, what: String| {
            let why = format!("{what} is about the subgroups of the device, not about lanes by local index");
            Err(Refusal::new("refused-lanes", Some(r), why, "lower for subgroups of the device: --lanes subgroup"))
        };
        let untold = UnsupportedBuiltIns::new(m);
        for r in m.functions.iter().flat_map(|f| f.insts()) {
            let i = m.inst(r);
            if works_on_subgroup(m, constants, i) {
                return refused(r, i.op.to_string());
            }
            if let Some(what) = untold.read_by(i) {
                return refused(r, what);
            }
        }
        Ok(())
    }

    /// In [`Lanes::LocalIndex`], makes the workgroup of what the module says memory is shared by a subgroup: lanes of a subgroup may be
    /// in several of the device's.
    pub(crate) fn widen_memory_scopes(&self, m: &mut Module, g: &mut Globals, constants: &Constants) {
        if !self.simulated {
            return;
        }
        for r in m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<_>>() {
            let i = m.inst(r);
            let mut scopes = scopes(m, i);
            scopes.retain(|at| is_subgroup(constants, i, *at));
            for at in scopes {
                let workgroup = g.u32(m, Scope::Workgroup.0);
                m.inst_mut(r).operands[at] = workgroup.into();
            }
        }
    }

    /// Returns true if the lanes of a line of a matrix are in one subgroup and can hand each other values.
    pub(crate) fn can_shuffle(&self, line: LaneRange, workgroup: bool) -> bool {
        let Some(size) = self.subgroup.filter(|_| self.can_shuffle) else { return false };
        (!workgroup || self.workgroup.has_full_subgroups(size)) && size.is_multiple_of(line.count * line.step)
    }

    /// Counts the lanes of a workgroup subgroup by subgroup: before any is asked for.
    pub(crate) fn count_by_subgroups(&mut self) {
        self.by_subgroups = true;
    }

    /// The value of the lane whose number differs in these bits.
    pub(crate) fn shuffle(&mut self, b: &mut FunctionBuilder<'_>, value: Id, mask: u32) -> Id {
        self.shuffles = true;
        let ty = b.u32_type();
        let (scope, mask) = (b.u32(Scope::Subgroup.0), b.u32(mask));
        b.ids(Op::GroupNonUniformShuffleXor, ty, &[scope, value, mask])
    }

    /// The number of lanes of a scope.
    pub(crate) fn count(&self, workgroup: bool) -> Option<u32> {
        if workgroup { self.workgroup.invocations } else { self.subgroup }
    }

    /// The refusal where that number is not known.
    pub(crate) fn unknown(&self, at: Option<InstRef>, workgroup: bool) -> Refusal {
        if workgroup { self.workgroup.refusal(at) } else { unknown_size(at) }
    }

    /// Returns true if the output counts subgroups itself: what it does depends on their size then, and the pipeline
    /// need not require it.
    pub(crate) fn counts_subgroups(&self) -> bool {
        self.mode == Lanes::LocalIndex && (self.subgroup_matrices || !self.subgroup_builtins.is_empty())
    }

    /// The subgroup size that the pipeline must require: what a lane holds depends on it.
    pub(crate) fn required_subgroup_size(&self) -> Option<u32> {
        (self.by_subgroups || self.subgroup_matrices && self.mode == Lanes::Subgroup).then_some(self.subgroup).flatten()
    }

    /// The lane of this invocation in its scope.
    pub(crate) fn lane(&mut self, b: &mut FunctionBuilder<'_>, workgroup: bool) -> Index {
        if !workgroup && self.mode == Lanes::Subgroup {
            return self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId);
        }
        if workgroup && self.by_subgroups {
            let subgroup = self.builtins.load(b, BuiltIn::SubgroupId);
            let first = b.mul(subgroup, Index::Const(self.subgroup.unwrap_or(1)));
            let lane = self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId);
            return b.add(first, lane);
        }
        let index = self.builtins.load(b, BuiltIn::LocalInvocationIndex);
        if workgroup { index } else { b.rem(index, self.subgroup.unwrap_or(1)) }
    }

    /// Returns true if lanes of a subgroup are a subgroup of the device, and can wait for each other.
    pub(crate) fn has_subgroups(&self) -> bool {
        self.mode == Lanes::Subgroup
    }

    /// Returns true if a workgroup is one subgroup.
    pub(crate) fn subgroup_is_workgroup(&self) -> bool {
        self.workgroup.invocations.is_some() && self.workgroup.invocations == self.subgroup
    }

    /// The subgroups of a workgroup, where that is known.
    pub(crate) fn subgroups(&self) -> Option<u32> {
        Some(self.workgroup.most?.div_ceil(self.subgroup?))
    }

    /// The quad of shared memory at which a region begins for this invocation.
    pub(crate) fn begin(&mut self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, region: Region) -> Index {
        let part = match region.zone {
            Zone::Workgroup => None,
            Zone::Subgroup => {
                self.reads_subgroup_id = true;
                Some(self.builtins.load(b, BuiltIn::SubgroupId))
            }
        };
        arena.begin(b, region, part)
    }

    /// In [`Lanes::LocalIndex`], answers a load of a variable that tells about subgroups.
    pub(crate) fn inst(&mut self, m: &mut Module, g: &mut Globals, r: InstRef) -> Result<(), Refusal> {
        if self.subgroup_builtins.is_empty() {
            return Ok(());
        }
        let inst = m.inst(r);
        let Some(builtin) = inst.ids().find_map(|id| self.subgroup_builtins.get(&id).copied()) else { return Ok(()) };
        let (Op::Load, Some(ty), Some(result), origin) = (inst.op, inst.ty, inst.result, inst.origin) else {
            let why = format!("{} of a built-in variable about subgroups", inst.op);
            return Err(Refusal::new("refused-lanes", Some(r), why, "read the variable with OpLoad"));
        };
        let subgroup = self.subgroup.unwrap_or(1);
        let counts = matches!(builtin, BuiltIn::NumSubgroups | BuiltIn::NumEnqueuedSubgroups);
        let known = self.workgroup.invocations;
        let Some(workgroup) = known.or((!counts).then_some(subgroup)) else {
            return Err(self.workgroup.refusal(Some(r)));
        };
        let (op, by) = match builtin {
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => (Op::CopyObject, subgroup),
            BuiltIn::NumSubgroups | BuiltIn::NumEnqueuedSubgroups => (Op::CopyObject, workgroup / subgroup),
            BuiltIn::SubgroupId => (Op::UDiv, subgroup),
            _ => (Op::UMod, subgroup),
        };
        let by = g.constant_of(m, ty, Scalar::Int { width: 32, signed: false }, u64::from(by));
        if op == Op::CopyObject {
            m.replace(r, Inst::new(op, Some(ty), Some(result), [by.into()]).at(origin));
            return Ok(());
        }
        // The load stays, of another variable and under another id; the quotient takes its id.
        let variable = self.builtins.variable(m, g, BuiltIn::LocalInvocationIndex);
        let index_type = loaded_type(m, variable).unwrap_or(ty);
        let mut loaded = m.fresh_id();
        let load = Inst::new(Op::Load, Some(index_type), Some(loaded), [variable.into()]).at(origin);
        insert_before(m, r, load);
        if index_type != ty {
            // In kernels it has 64 bits, and what is about subgroups has 32.
            let wide = loaded;
            loaded = m.fresh_id();
            insert_before(m, r, Inst::new(Op::UConvert, Some(ty), Some(loaded), [wide.into()]).at(origin));
        }
        m.replace(r, Inst::new(op, Some(ty), Some(result), [loaded, by].map(Operand::Id)).at(origin));
        Ok(())
    }

    /// Adds the variables that were made to the interfaces of the entry points, and what they need.
    pub(crate) fn finish(&mut self, m: &mut Module) {
        self.builtins.finish(m);
        if kernel::is_kernel(m) {
            if self.mode == Lanes::LocalIndex {
                kernel::forget_subgroup_size(m);
            }
        } else if self.required_subgroup_size().is_some() || self.reads_subgroup_id {
            require_capability(m, Capability::GroupNonUniform);
            if self.shuffles {
                require_capability(m, Capability::GroupNonUniformShuffle);
            }
        }
    }
}

/// Returns true if lanes are counted by local index and their subgroups are none of the device's. Where the driver chooses the size by what a shader
/// needs, they are of no size that is known.
pub(crate) fn simulates(options: &Options<'_>) -> bool {
    let known = options.profile.filter(|p| p.registers_of_subgroup().is_none()).map(|p| p.limits.subgroup_size);
    options.lanes == Lanes::LocalIndex && known != Some(options.subgroup_size.unwrap_or(1))
}

/// Returns true if what the module does may depend on the size of the device's subgroups: it reads a variable that tells about them, or has an instruction
/// with their scope.
pub(crate) fn depends_on_subgroups(m: &Module) -> bool {
    let constants = Constants::new(m, &Specialization::new());
    let decorations = Decorations::new(m);
    let told = ABOUT_SUBGROUPS.into_iter().chain(MASKS).flat_map(|b| decorations.with_built_in(b));
    let told: FxHashSet<Id> = told.collect();
    let of_subgroups = |r: InstRef| {
        let i = m.inst(r);
        works_on_subgroup(m, &constants, i)
            || i.ids().any(|id| told.contains(&id))
            || scopes(m, i).into_iter().any(|at| is_subgroup(&constants, i, at))
    };
    m.functions.iter().flat_map(|f| f.insts()).any(of_subgroups)
}

/// Returns the places of operands that are scopes.
fn scopes(m: &Module, i: &Inst) -> SmallVec<[usize; 2]> {
    let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
    let mut scopes: SmallVec<[usize; 2]> = SmallVec::new();
    decode(m, i.op, i.ty, &words, &mut |piece| {
        scopes.extend((piece.kind == Kind::IdScope).then_some(piece.start));
    });
    scopes
}

/// Returns true if the operand at a place is the scope of a subgroup.
fn is_subgroup(constants: &Constants, i: &Inst, at: usize) -> bool {
    i.id(at).is_some_and(|s| constants.get(s).value() == Some(u64::from(Scope::Subgroup.0)))
}

/// Returns true if the invocations of a subgroup execute an instruction together. An unknown scope counts as one of these.
pub(crate) fn works_on_subgroup(m: &Module, constants: &Constants, inst: &Inst) -> bool {
    match inst.op.execution_scope() {
        Some(ExecutionScope::Subgroup) => true,
        Some(ExecutionScope::Operand(at)) => {
            let scope = inst.id(at).and_then(|s| constants.get(s).fixed());
            scope.is_none_or(|s| s == u64::from(Scope::Subgroup.0))
        }
        None => {
            let set = inst.id(0).filter(|_| inst.op == Op::ExtInst).and_then(|s| m.def_inst(s));
            set.and_then(|s| s.string(0)).is_some_and(|(name, _)| name == AMD_BALLOT)
        }
    }
}

/// Built-ins about subgroups that are not answered.
struct UnsupportedBuiltIns {
    /// Masks, by variable.
    masks: FxHashMap<Id, BuiltIn>,
    /// Blocks that have such built-ins as members, by variable.
    blocks: FxHashMap<Id, BuiltIn>,
}

impl UnsupportedBuiltIns {
    fn new(m: &Module) -> UnsupportedBuiltIns {
        let decorations = Decorations::new(m);
        let all = |b: BuiltIn| decorations.with_built_in(b).map(move |id| (id, b)).collect::<Vec<_>>();
        let masks = MASKS.into_iter().flat_map(all).collect();
        let member = |ty: Id| {
            let told = ABOUT_SUBGROUPS.into_iter().chain(MASKS);
            let mut members = decorations.members(ty).filter(|(_, d)| d.decoration == Decoration::BuiltIn);

            members.find_map(|(_, d)| told.clone().find(|b| d.literal() == Some(b.0)))
        };
        let block = |r: InstRef| {
            let i = m.inst(r);
            Some((i.result?, member(m.def_inst(i.ty?)?.id(1)?)?))
        };
        UnsupportedBuiltIns { masks, blocks: m.globals_with(Op::Variable).filter_map(block).collect() }
    }

    fn read_by(&self, inst: &Inst) -> Option<String> {
        let name = |b: &BuiltIn| format!("{b:?}");
        inst.ids().find_map(|id| self.masks.get(&id).or_else(|| self.blocks.get(&id))).map(name)
    }
}
