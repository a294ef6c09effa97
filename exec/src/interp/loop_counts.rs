//! Counts of how often loops repeat.
//!
//! The counts come from a run of the module's [`control_slice`], which has the control flow of the module and takes
//! milliseconds where the module itself multiplies large matrices.

use coop_ir::cfg::{Cfg, Loops};
use coop_ir::constant::Constants;
use coop_ir::effects::ExtSet;
use coop_ir::grammar::ExecutionScope;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{GlslStd450, Scope, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Block, Id, Inst, InstRef, Module, Op, captures};

use super::control_slice::{called, control_slice};
use super::executor::inputs;
use super::machine::MAX_DEPTH;
use super::registers::Mask;
use super::{Interpreted, Interpreter, find_entry};
use crate::case::Case;
use crate::error::Error;

/// The operations in the blocks of a loop that compilers keep in the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Multiplies matrices.
    pub matrix: bool,
    /// Waits for the other invocations of the workgroup.
    pub barrier: bool,
    /// Accesses shared memory.
    pub shared: bool,
    /// Accesses buffers.
    pub memory: bool,
}

/// Numbers of operations that were executed: sums over the subgroups, each with the invocation that did most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operations {
    /// The number of times that a subgroup multiplied matrices.
    pub products: u64,
    /// The number of times that a subgroup was at a barrier of more than the subgroup.
    pub barriers: u64,
    /// The number of scalars that an invocation computed, loaded or stored. A rough measure of its instructions.
    pub scalars: u64,
    /// The number of floating-point multiplications of an invocation. Compilers keep them.
    pub multiplications: u64,
}

impl Operations {
    /// Returns the sum of both.
    #[must_use]
    pub fn with(self, other: Operations) -> Operations {
        self.each(other, u64::saturating_add)
    }

    /// Returns what is left without some of these.
    #[must_use]
    pub fn without(self, some: Operations) -> Operations {
        self.each(some, u64::saturating_sub)
    }

    fn each(self, other: Operations, of: fn(u64, u64) -> u64) -> Operations {
        Operations {
            products: of(self.products, other.products),
            barriers: of(self.barriers, other.barriers),
            scalars: of(self.scalars, other.scalars),
            multiplications: of(self.multiplications, other.multiplications),
        }
    }
}

/// A loop of the module, in one chain of calls from the entry point. The counts are sums over the subgroups of the
/// workgroups that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCount {
    /// The label of the header.
    pub header: Id,
    /// The number of times that a subgroup executed the header.
    pub headers: u64,
    /// The number of times that a subgroup executed a block that can lead back to the header, which is how often the
    /// body runs whether the loop is left at its beginning or at its end.
    pub rounds: u64,
    /// Its operations, those of the loops inside of it included.
    pub contents: Contents,
    /// Those of its operations that were executed.
    pub executed: Contents,
    /// The operations of the blocks that run once more than the body, as a header with a test does. None for a loop that is
    /// tested at its end.
    pub before_test: Contents,
    /// The numbers of its operations, those of the loops inside of it included.
    pub operations: Operations,
    /// The loops inside of it, in an order that control flow follows.
    pub inner: Vec<LoopCount>,
}

/// The loops of an entry point and how often they ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCounts {
    /// The number of subgroups of a workgroup.
    pub subgroups: u64,
    /// The outermost loops, in an order that control flow follows.
    pub loops: Vec<LoopCount>,
    /// The numbers of operations of the whole program.
    pub operations: Operations,
}

/// How often subgroups executed the blocks of a module, for each chain of calls.
#[derive(Debug, Default)]
pub(super) struct BlockCounts {
    /// By the chain of calls and the last instruction of the block.
    blocks: FxHashMap<(u32, InstRef), u64>,
    /// The chain that a call in a chain leads to; 0 is that of the entry point.
    chains: FxHashMap<(u32, InstRef), u32>,
    chain: u32,
}

impl BlockCounts {
    pub(super) fn add(&mut self, last: InstRef, by: &Mask, subgroup: usize) {
        let mut subgroups = 0;
        let mut previous = None;
        for lane in by.lanes() {
            let this = Some(lane / subgroup);
            subgroups += u64::from(this != previous);
            previous = this;
        }
        *self.blocks.entry((self.chain, last)).or_default() += subgroups;
    }

    /// Enters a function from a call; returns the chain to go back to.
    pub(super) fn enter(&mut self, call: InstRef) -> u32 {
        let next = self.chains.len() as u32 + 1;
        let chain = *self.chains.entry((self.chain, call)).or_insert(next);
        std::mem::replace(&mut self.chain, chain)
    }

    pub(super) fn leave(&mut self, back: u32) {
        self.chain = back;
    }

    fn of(&self, chain: Option<u32>, block: &Block) -> u64 {
        let key = chain.zip(block.terminator());
        key.and_then(|key| self.blocks.get(&key)).copied().unwrap_or(0)
    }
}

impl Interpreted {
    /// Counts how often the loops of a module run in a case. Buffers that control flow does not depend on are not filled.
    /// Functions that are called back, as a load with a decoding function does, are not followed.
    pub fn loop_counts(&self, module: &Module, case: &Case) -> Result<LoopCounts, Error> {
        let slice = control_slice(&captures::as_passed(module));
        let (counts, subgroups) = self.block_counts(&slice, case)?;
        let constants = Constants::new(module, &case.specialization()?);
        let lanes = u64::from(self.config_of(case).subgroup_size);
        let mut walk = Walk { module, constants, counts: &counts, lanes, depth: 0, done: Operations::default() };
        let mut loops = Vec::new();
        walk.function(find_entry(module, case.entry.as_deref())?, Some(0), &mut loops, &mut Does::default());
        Ok(LoopCounts { subgroups, loops, operations: walk.done })
    }

    /// Counts how often subgroups execute each block of a module, and the subgroups that run. Buffers that the module
    /// does not use are empty.
    fn block_counts(&self, module: &Module, case: &Case) -> Result<(BlockCounts, u64), Error> {
        let specialization = case.specialization()?;
        let interpreter = Interpreter::new(module, case.entry.as_deref(), &specialization, self.config_of(case))?;
        let insts = module.functions.iter().flat_map(|function| function.insts());
        let used: FxHashSet<Id> = insts.flat_map(|at| module.inst(at).ids()).collect();
        let program = &interpreter.program;
        let read = |slot| program.bindings.iter().any(|b| (b.set, b.binding) == slot && used.contains(&b.id));
        let (mut buffers, push) = inputs(case, |buffer| buffer.slot().is_none_or(read))?;
        let counts = interpreter.block_counts(&mut buffers, &push, case.workgroups)?;
        let workgroups: u64 = case.workgroups.into_iter().map(u64::from).product();
        Ok((counts, workgroups * program.lanes.div_ceil(program.subgroup) as u64))
    }
}

/// The kinds of operations of a part of a module.
#[derive(Clone, Copy, Default)]
struct Does {
    all: Contents,
    /// Those that were executed.
    executed: Contents,
}

impl Does {
    fn add(&mut self, contents: Contents, executed: bool) {
        self.all = self.all.with(contents);
        if executed {
            self.executed = self.executed.with(contents);
        }
    }

    fn with(self, other: Does) -> Does {
        Does { all: self.all.with(other.all), executed: self.executed.with(other.executed) }
    }
}

/// A walk through a module from its entry point, into each call.
struct Walk<'a> {
    module: &'a Module,
    constants: Constants,
    counts: &'a BlockCounts,
    /// The invocations of a subgroup.
    lanes: u64,
    depth: usize,
    /// The operations so far.
    done: Operations,
}

impl Walk<'_> {
    /// Appends the loops of a function to those of its caller, and adds what it does.
    fn function(&mut self, id: Id, chain: Option<u32>, outer: &mut Vec<LoopCount>, does: &mut Does) {
        let module = self.module;
        let Some(function) = module.functions.iter().find(|f| module.inst(f.def).result == Some(id)) else { return };
        // A module that runs has no recursion that goes deeper.
        if function.blocks.is_empty() || self.depth == MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let cfg = Cfg::new(module, function);
        let loops = Loops::new(&cfg);
        // The loops inside each loop, and at the end those inside none.
        let mut inner: Vec<Vec<Inner>> = (0..=loops.all().len()).map(|_| Vec::new()).collect();
        let mut all: Vec<Does> = vec![Does::default(); inner.len()];
        let rounds = |number: usize| -> u64 {
            loops.latches(&cfg, number).map(|block| self.counts.of(chain, &function.blocks[block])).sum()
        };
        let mut before_test = vec![Contents::default(); inner.len()];
        let mut done = vec![Operations::default(); inner.len()];
        for block in cfg.rpo() {
            let place = loops.innermost(*block).unwrap_or(loops.all().len());
            if let Some(found) = loops.all().get(place).filter(|l| l.header == *block) {
                inner[found.parent.unwrap_or(loops.all().len())].push(Inner::Own(place));
            }
            let times = self.counts.of(chain, &function.blocks[*block]);
            let tests = place < loops.all().len() && times > rounds(place);
            for at in &function.blocks[*block].insts {
                let before = self.done;
                let contents = self.instruction(*at, times);
                all[place].add(contents, times > 0);
                if tests {
                    before_test[place] = before_test[place].with(contents);
                }
                if let Some(callee) = called(module.inst(*at)) {
                    let mut found = Vec::new();
                    let chain = chain.and_then(|chain| self.counts.chains.get(&(chain, *at)).copied());
                    self.function(callee, chain, &mut found, &mut all[place]);
                    inner[place].extend(found.into_iter().map(Inner::Called));
                }
                done[place] = done[place].with(self.done.without(before));
            }
        }
        // Inner loops have greater numbers than those around them.
        let mut made: Vec<Option<LoopCount>> = vec![None; loops.all().len()];
        for (number, found) in loops.all().iter().enumerate().rev() {
            let of = |block: usize| self.counts.of(chain, &function.blocks[block]);
            let inside = std::mem::take(&mut inner[number]);
            made[number] = cfg.label(found.header).map(|header| LoopCount {
                header,
                headers: of(found.header),
                rounds: rounds(number),
                contents: all[number].all,
                executed: all[number].executed,
                before_test: before_test[number],
                operations: done[number],
                inner: inside.into_iter().filter_map(|one| one.take(&mut made)).collect(),
            });
            let around = found.parent.unwrap_or(loops.all().len());
            all[around] = all[around].with(all[number]);
            done[around] = done[around].with(done[number]);
        }
        let outermost = inner.pop().unwrap_or_default();
        outer.extend(outermost.into_iter().filter_map(|one| one.take(&mut made)));
        *does = does.with(all.pop().unwrap_or_default());
        self.depth -= 1;
    }

    /// Counts what an instruction does, `times` times. Returns its kinds of operations.
    fn instruction(&mut self, at: InstRef, times: u64) -> Contents {
        let mut contents = Contents::default();
        let inst = self.module.inst(at);
        let mut done = Operations {
            scalars: self.scalars_of(inst).saturating_mul(times),
            multiplications: self.multiplications_of(inst).saturating_mul(times),
            ..Operations::default()
        };
        if inst.op == Op::CooperativeMatrixMulAddKHR {
            done.products = times;
            contents.matrix = true;
        }
        let scope = match inst.op.execution_scope() {
            Some(ExecutionScope::Operand(at)) => inst.id(at).and_then(|scope| self.constants.get(scope).fixed()),
            _ => None,
        };
        if inst.op.is_control_barrier() && scope != Some(u64::from(Scope::Subgroup.0)) {
            done.barriers = times;
            contents.barrier = true;
        }
        self.done = self.done.with(done);
        if inst.op.derives_pointer() {
            return contents;
        }
        for pointer in inst.ids() {
            let ty = self.module.type_of(pointer).and_then(|ty| Type::of(self.module, ty));
            let Some(Type::Pointer { storage, .. } | Type::UntypedPointer { storage }) = ty else { continue };
            match storage {
                StorageClass::Workgroup => contents.shared = true,
                StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer => contents.memory = true,
                _ => {}
            }
        }
        contents
    }

    /// Returns the number of scalars that an invocation has of what an instruction computes, or else of its largest operand.
    fn scalars_of(&self, inst: &Inst) -> u64 {
        let operands = || inst.ids().filter_map(|id| self.module.type_of(id));
        match inst.ty {
            Some(ty) => self.scalars_in(ty),
            None => operands().map(|ty| self.scalars_in(ty)).max().unwrap_or(0),
        }
    }

    /// Returns the number of floating-point multiplications of an instruction.
    fn multiplications_of(&self, inst: &Inst) -> u64 {
        let glsl = || inst.op.is_ext_inst() && ExtSet::of(self.module, inst) == ExtSet::Glsl;
        let fma = || glsl() && inst.ext_instruction() == Some(GlslStd450::Fma.0);
        let multiplies =
            inst.op == Op::FMul || inst.op.multiplies_vectors() || inst.matrix_times_scalar().is_some() || fma();
        let sizes = inst.ids().filter_map(|id| self.module.type_of(id)).chain(inst.ty).map(|ty| self.scalars_in(ty));
        if multiplies { sizes.max().unwrap_or(0) } else { 0 }
    }

    /// Returns the number of scalars that an invocation has of a value of a type. Arrays and structures, which are passed on
    /// more often than changed, count as one.
    fn scalars_in(&self, ty: Id) -> u64 {
        let fixed = |id: Id| self.constants.get(id).value().unwrap_or(1);
        match Type::of(self.module, ty) {
            Some(Type::Vector { elem, len }) => self.scalars_in(elem).saturating_mul(u64::from(len)),
            Some(Type::Matrix { column, cols }) => self.scalars_in(column).saturating_mul(u64::from(cols)),
            Some(Type::CoopMat(matrix)) => fixed(matrix.rows).saturating_mul(fixed(matrix.cols)).div_ceil(self.lanes),
            None | Some(Type::Void) => 0,
            Some(_) => 1,
        }
    }
}

/// A loop inside of another one.
enum Inner {
    /// That of this number in the same function.
    Own(usize),
    /// That of a function that it calls.
    Called(LoopCount),
}

impl Inner {
    fn take(self, made: &mut [Option<LoopCount>]) -> Option<LoopCount> {
        match self {
            Inner::Own(number) => made[number].take(),
            Inner::Called(found) => Some(found),
        }
    }
}

impl Contents {
    /// Returns what either does.
    #[must_use]
    pub fn with(self, other: Contents) -> Contents {
        Contents {
            matrix: self.matrix || other.matrix,
            barrier: self.barrier || other.barrier,
            shared: self.shared || other.shared,
            memory: self.memory || other.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::interp::Config;
    use crate::testing::repository;

    /// Returns the modules of a folder with a case of the same name.
    fn subjects(folder: &str) -> Vec<(String, Module, Case)> {
        let folder = repository().join(folder);
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let subject = |path: &Path| {
            let case = Case::load(&path.with_extension("toml")).ok()?;
            let module = match path.extension()?.to_str()? {
                "spv" => coop_ir::binary::read(&std::fs::read(path).unwrap()).unwrap(),
                "spvasm" => coop_ir::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap(),
                _ => return None,
            };
            Some((path.display().to_string(), module, case))
        };
        names.iter().filter_map(|path| subject(path)).collect()
    }

    /// How often blocks run, each by the calls that lead to it and its last instruction. Without those of callbacks.
    fn by_calls(module: &Module, counts: &BlockCounts) -> FxHashMap<(Vec<InstRef>, InstRef), u64> {
        let path = |mut chain: u32| {
            let mut path = Vec::new();
            while chain != 0 {
                let ((from, call), _) = counts.chains.iter().find(|(_, to)| **to == chain).unwrap();
                path.push(*call);
                chain = *from;
            }
            path
        };
        let blocks = counts.blocks.iter().map(|((chain, last), times)| ((path(*chain), *last), *times));
        blocks.filter(|((path, _), _)| path.iter().all(|call| called(module.inst(*call)).is_some())).collect()
    }

    /// The slice executes each block as often as the module, in each chain of calls.
    #[test]
    fn a_slice_has_the_control_flow_of_its_module() {
        let interpreted = Interpreted { config: Config::default() };
        let (mut ran, mut smaller) = (0, 0);
        for folder in ["exec/tests/interp", "testdata/kernels", "testdata/exec", "testdata/passes", "testdata/dialects"]
        {
            for (name, module, case) in subjects(folder) {
                let module = captures::as_passed(&module);
                let Ok((whole, subgroups)) = interpreted.block_counts(&module, &case) else { continue };
                let slice = control_slice(&module);
                let sliced = interpreted.block_counts(&slice, &case).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(sliced.1, subgroups, "{name}");
                assert_eq!(by_calls(&slice, &sliced.0), by_calls(&module, &whole), "{name}");
                let size = |module: &Module| module.functions.iter().map(|f| f.insts().count()).sum::<usize>();
                ran += 1;
                smaller += u32::from(size(&slice) < size(&module));
            }
        }
        assert!(ran > 40 && smaller > ran / 2, "{smaller} of {ran} modules have a smaller slice");
    }

    const LOOPS: &str = r#"
        OpCapability Shader
        OpCapability GroupNonUniform
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main "main" %lane %data
        OpExecutionMode %main LocalSize 16 1 1
        OpDecorate %lane BuiltIn LocalInvocationIndex
        OpDecorate %data DescriptorSet 0
        OpDecorate %data Binding 0
        OpDecorate %block Block
        OpDecorate %array ArrayStride 4
        OpMemberDecorate %block 0 Offset 0
        %void = OpTypeVoid
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %array = OpTypeRuntimeArray %uint
        %block = OpTypeStruct %array
        %to_block = OpTypePointer StorageBuffer %block
        %to_uint = OpTypePointer StorageBuffer %uint
        %to_input = OpTypePointer Input %uint
        %lane = OpVariable %to_input Input
        %data = OpVariable %to_block StorageBuffer
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c3 = OpConstant %uint 3
        %c5 = OpConstant %uint 5
        %scope = OpConstant %uint 2
        %order = OpConstant %uint 264
        %to_void = OpTypeFunction %void
        %takes = OpTypeFunction %void %uint
        %main = OpFunction %void None %to_void
        %entry = OpLabel
        %own = OpLoad %uint %lane
        OpBranch %outer
        %outer = OpLabel
        %i = OpPhi %uint %c0 %entry %i1 %next
        %enough = OpULessThan %bool %i %c3
        OpLoopMerge %out %next None
        OpBranchConditional %enough %body %out
        %body = OpLabel
        %call = OpFunctionCall %void %work %own
        OpControlBarrier %scope %scope %order
        OpBranch %next
        %next = OpLabel
        %i1 = OpIAdd %uint %i %c1
        OpBranch %outer
        %out = OpLabel
        %again = OpFunctionCall %void %work %c5
        OpReturn
        OpFunctionEnd
        %work = OpFunction %void None %takes
        %rounds = OpFunctionParameter %uint
        %first = OpLabel
        OpBranch %head
        %head = OpLabel
        %j = OpPhi %uint %c0 %first %j1 %head
        %at = OpAccessChain %to_uint %data %c0 %j
        %old = OpLoad %uint %at
        %new = OpIMul %uint %old %c5
        OpStore %at %new
        %j1 = OpIAdd %uint %j %c1
        %more = OpULessThan %bool %j1 %rounds
        OpLoopMerge %last %head None
        OpBranchConditional %more %head %last
        %last = OpLabel
        OpReturn
        OpFunctionEnd
    "#;

    /// Two subgroups of 8, in which the last invocation repeats the inner loop most often: 7 and 15 times.
    #[test]
    fn loops_are_counted_by_subgroups_and_calls() {
        let module = coop_ir::text::parse(LOOPS).unwrap();
        let case = "workgroups = [2, 1, 1]\n[[buffer]]\nname = 'data'\nbinding = 0\ntype = 'u32'\ncount = 16\n";
        let case = Case::parse(case, Path::new("")).unwrap();
        let interpreted = Interpreted { config: Config { subgroup_size: 8, ..Config::default() } };
        let counts = interpreted.loop_counts(&module, &case).unwrap();
        // 2 workgroups of 2 subgroups; each is at the outer header 4 times, in its body 3 times.
        assert_eq!((counts.subgroups, counts.operations.barriers, counts.operations.products), (4, 12, 0));
        let [outer, behind] = &counts.loops[..] else { panic!("{counts:?}") };
        assert_eq!((outer.headers, outer.rounds), (16, 12));
        assert_eq!((outer.operations.barriers, behind.operations.barriers), (12, 0));
        assert_eq!(outer.contents, Contents { barrier: true, memory: true, ..Contents::default() });
        let [inner] = &outer.inner[..] else { panic!("{outer:?}") };
        assert_eq!((inner.headers, inner.rounds), (2 * 3 * (7 + 15), 2 * 3 * (7 + 15)));
        assert_eq!((behind.headers, behind.rounds), (20, 20));
        assert_eq!(behind.contents, Contents { memory: true, ..Contents::default() });
    }
}
