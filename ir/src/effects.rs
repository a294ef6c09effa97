//! The memory that an instruction writes, and whether others may write the memory that it reads.
//!
//! [`grammar::Effects`](crate::grammar::Effects) has the effects that follow from the opcode. This module also looks at
//! the operands: the pointer through which an instruction writes, the instructions of extended sets, and memory
//! operands. To find out whether memory may change between two instructions, use [`written`].

use crate::grammar::{Class, Effects, Op};
use crate::module::{Id, Inst, Module};
use crate::spv::{ImageOperands, MemoryAccess};
use crate::views::MemoryOperands;

/// The memory that an instruction may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// None.
    Nothing,
    /// The target of a pointer, or other parts of the same object.
    Through(Id),
    /// An image.
    Image,
    /// Something that the module's instructions do not read: an output, a stream.
    Output,
    /// Any memory: nothing more is known.
    Anything,
}

/// An extended instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtSet {
    /// GLSL.std.450.
    Glsl,
    /// OpenCL.std.
    OpenCl,
    /// Debug information and other notes: nothing is executed.
    Note,
    /// An unknown set.
    Other,
}

/// The effect of an extended instruction on the memory behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtPointer {
    /// It writes the object.
    Writes,
    /// It writes some of the objects at the pointer, like a vector.
    WritesVector,
    /// It reads the object or its neighbors.
    Reads,
}

/// The instructions of OpenCL.std and GLSL.std.450 with a pointer operand: set, number, index of the operand behind the
/// number, and effect.
const POINTERS: [(ExtSet, u32, usize, ExtPointer); 24] = {
    use ExtPointer::{Reads, Writes, WritesVector};
    use ExtSet::{Glsl, OpenCl};
    [
        (Glsl, 35, 1, Writes),          // Modf
        (Glsl, 51, 1, Writes),          // Frexp
        (Glsl, 76, 0, Reads),           // InterpolateAtCentroid
        (Glsl, 77, 0, Reads),           // InterpolateAtSample
        (Glsl, 78, 0, Reads),           // InterpolateAtOffset
        (OpenCl, 30, 1, Writes),        // fract
        (OpenCl, 31, 1, Writes),        // frexp
        (OpenCl, 36, 1, Writes),        // lgamma_r
        (OpenCl, 45, 1, Writes),        // modf
        (OpenCl, 52, 2, Writes),        // remquo
        (OpenCl, 58, 1, Writes),        // sincos
        (OpenCl, 171, 1, Reads),        // vloadn
        (OpenCl, 172, 2, WritesVector), // vstoren
        (OpenCl, 173, 1, Reads),        // vload_half
        (OpenCl, 174, 1, Reads),        // vload_halfn
        (OpenCl, 175, 2, WritesVector), // vstore_half
        (OpenCl, 176, 2, WritesVector), // vstore_half_r
        (OpenCl, 177, 2, WritesVector), // vstore_halfn
        (OpenCl, 178, 2, WritesVector), // vstore_halfn_r
        (OpenCl, 179, 1, Reads),        // vloada_halfn
        (OpenCl, 180, 2, WritesVector), // vstorea_halfn
        (OpenCl, 181, 2, WritesVector), // vstorea_halfn_r
        (OpenCl, 184, 0, Reads),        // printf
        (OpenCl, 185, 0, Reads),        // prefetch
    ]
};

/// OpenCL.std's printf, whose arguments may be pointers, too.
const PRINTF: u32 = 184;

impl ExtSet {
    /// Returns the set with an import name.
    pub fn named(name: &str) -> ExtSet {
        match name {
            "GLSL.std.450" => ExtSet::Glsl,
            "OpenCL.std" => ExtSet::OpenCl,
            _ if name.starts_with("NonSemantic.") || name.starts_with("OpenCL.Debug") => ExtSet::Note,
            "DebugInfo" => ExtSet::Note,
            _ => ExtSet::Other,
        }
    }

    /// Returns the set of an `OpExtInst`.
    pub fn of(module: &Module, inst: &Inst) -> ExtSet {
        let import = inst.id(0).and_then(|id| module.def_inst(id)).filter(|i| i.op == Op::ExtInstImport);
        import.and_then(|i| i.string(0)).map_or(ExtSet::Other, |(name, _)| ExtSet::named(&name))
    }

    /// Returns the effect of an instruction on a pointer operand, counted from the first behind the number. `None` if
    /// it is not known.
    pub fn pointer(self, number: u32, operand: usize) -> Option<ExtPointer> {
        if (self, number) == (ExtSet::OpenCl, PRINTF) {
            return Some(ExtPointer::Reads);
        }
        let rows = POINTERS.iter().filter(|row| (row.0, row.1, row.2) == (self, number, operand));
        rows.map(|row| row.3).next()
    }
}

/// The extended instruction sets of a module, of which there are few.
#[derive(Clone, Debug)]
pub struct ExtSets(Vec<(Id, ExtSet)>);

impl ExtSets {
    /// Finds the sets that a module imports.
    pub fn new(module: &Module) -> ExtSets {
        let imports = module.globals_with(Op::ExtInstImport).map(|r| module.inst(r));
        ExtSets(imports.filter_map(|i| Some((i.result?, ExtSet::named(&i.string(0)?.0)))).collect())
    }

    /// Returns the set of an `OpExtInst`.
    pub fn of(&self, inst: &Inst) -> ExtSet {
        let of = inst.id(0).and_then(|id| self.0.iter().find(|s| s.0 == id));
        of.map_or(ExtSet::Other, |s| s.1)
    }

    /// Returns true if a set of notes is imported.
    pub fn has_notes(&self) -> bool {
        self.0.iter().any(|s| s.1 == ExtSet::Note)
    }

    /// Returns true if an instruction is a note, which is not executed.
    pub fn is_note(&self, inst: &Inst) -> bool {
        inst.op.is_ext_inst() && self.of(inst) == ExtSet::Note
    }

    /// Returns the memory that an instruction may write itself; a call does not write itself.
    pub fn written(&self, module: &Module, inst: &Inst) -> Written {
        if inst.op.is_ext_inst() { extended(module, inst, self.of(inst)) } else { of_core(inst) }
    }
}

/// Returns the memory that an instruction may write itself; a call does not write itself. For many instructions,
/// [`ExtSets::written`] is faster.
pub fn written(module: &Module, inst: &Inst) -> Written {
    if inst.op.is_ext_inst() { extended(module, inst, ExtSet::of(module, inst)) } else { of_core(inst) }
}

fn of_core(inst: &Inst) -> Written {
    let Some(info) = inst.op.info() else { return Written::Anything };
    if !info.effects.any(Effects::WRITES) {
        return Written::Nothing;
    }
    let through = match inst.op {
        Op::SaveMemoryINTEL => return Written::Nothing,
        Op::ImageWrite | Op::SubgroupImageBlockWriteINTEL | Op::SubgroupImageMediaBlockWriteINTEL => {
            return Written::Image;
        }
        _ if info.class == Class::Primitive => return Written::Output,
        Op::GroupAsyncCopy | Op::UntypedGroupAsyncCopyKHR => 1,
        Op::Subgroup2DBlockStoreINTEL => 5,
        Op::Subgroup2DBlockLoadINTEL
        | Op::Subgroup2DBlockLoadTransposeINTEL
        | Op::Subgroup2DBlockLoadTransformINTEL => 9,
        Op::Store
        | Op::CopyMemory
        | Op::CopyMemorySized
        | Op::LifetimeStart
        | Op::LifetimeStop
        | Op::SubgroupBlockWriteINTEL => 0,
        _ if matches!(info.class, Class::Atomic | Class::CooperativeMatrix | Class::CooperativeVector) => 0,
        _ => return Written::Anything,
    };
    inst.id(through).map_or(Written::Anything, Written::Through)
}

fn extended(module: &Module, inst: &Inst, set: ExtSet) -> Written {
    let number = inst.word(1).unwrap_or(0);
    match set {
        ExtSet::Note => Written::Nothing,
        ExtSet::Glsl | ExtSet::OpenCl => {
            if (set, number) == (ExtSet::OpenCl, PRINTF) {
                return Written::Output;
            }
            let writes =
                |row: &&(ExtSet, u32, usize, ExtPointer)| (row.0, row.1) == (set, number) && row.3 != ExtPointer::Reads;
            match POINTERS.iter().find(writes) {
                Some(row) => inst.id(2 + row.2).map_or(Written::Anything, Written::Through),
                None => Written::Nothing,
            }
        }
        ExtSet::Other => {
            let is_pointer = |id: Id| {
                let ty = module.type_of(id).and_then(|t| module.def_inst(t));
                ty.is_some_and(|t| matches!(t.op, Op::TypePointer | Op::TypeUntypedPointerKHR))
            };
            // In an unknown set, each word may be an id.
            let mut ids = inst.operands.iter().skip(2).filter_map(|o| o.id().or_else(|| Id::new(o.word())));
            if ids.any(is_pointer) { Written::Anything } else { Written::Nothing }
        }
    }
}

/// Returns true if an instruction orders accesses of memory: reads behind it may see earlier writes of other
/// invocations.
pub fn orders_memory(op: Op) -> bool {
    op.info().is_none_or(|i| i.class == Class::Atomic || i.effects.any(Effects::BARRIER))
}

/// Returns true if an instruction with this opcode may write memory or order accesses to it; extended instructions may.
pub fn may_touch_memory(op: Op) -> bool {
    let touches = Effects::WRITES | Effects::BARRIER;
    op.is_ext_inst() || op.info().is_none_or(|i| i.class == Class::Atomic || i.effects.any(touches))
}

/// The properties of a read from its memory operands or image operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadAccess {
    /// Others than the module's invocations may write the memory at any time.
    pub volatile: bool,
    /// The read is ordered with accesses of other invocations by barriers and atomics.
    pub non_private: bool,
}

/// Returns the properties of a load, of a copy, or of a read of an image.
pub fn read_access(inst: &Inst) -> ReadAccess {
    let memory = |mask: u32| {
        let mask = MemoryAccess(mask);
        ReadAccess {
            volatile: mask.contains(MemoryAccess::Volatile),
            non_private: mask.contains(MemoryAccess::NonPrivatePointer),
        }
    };
    match inst.op {
        Op::Load => memory(inst.memory_access().0),
        Op::CopyMemory => memory(source_mask(inst, 2)),
        Op::CopyMemorySized => memory(source_mask(inst, 3)),
        Op::ImageRead | Op::ImageSparseRead | Op::ImageFetch | Op::ImageSparseFetch => {
            let mask = ImageOperands(inst.word(2).unwrap_or(0));
            ReadAccess {
                volatile: mask.contains(ImageOperands::VolatileTexel),
                non_private: mask.contains(ImageOperands::NonPrivateTexel),
            }
        }
        _ => ReadAccess::default(),
    }
}

/// Returns the memory operands of a copy's source: the second, or the only ones, which begin at operand `at`.
fn source_mask(inst: &Inst, at: usize) -> u32 {
    let first = MemoryOperands::at(inst, at);
    inst.word(first.end.max(at + 1)).unwrap_or(first.mask.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::ext_inst_set;
    use crate::text;

    /// The numbers of the table are those of the instructions that its comments name, and the table has every
    /// instruction with a pointer.
    #[test]
    fn the_table_has_the_instructions_with_pointers() {
        let named = [
            (ExtSet::Glsl, "GLSL.std.450", "Modf Frexp InterpolateAtCentroid InterpolateAtSample InterpolateAtOffset"),
            (
                ExtSet::OpenCl,
                "OpenCL.std",
                "fract frexp lgamma_r modf remquo sincos vloadn vstoren vload_half vload_halfn vstore_half vstore_half_r \
                 vstore_halfn vstore_halfn_r vloada_halfn vstorea_halfn vstorea_halfn_r printf prefetch",
            ),
        ];
        for (set, import, names) in named {
            let table = ext_inst_set(import).expect("known");
            let rows = POINTERS.iter().filter(|r| r.0 == set);
            let found: Vec<&str> =
                rows.map(|r| table.iter().find(|i| i.number == r.1).map_or("?", |i| i.name)).collect();
            assert_eq!(found, names.split_whitespace().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_extended_instructions_write() {
        let module = text::parse(
            "%ocl = OpExtInstImport \"OpenCL.std\"
             %glsl = OpExtInstImport \"GLSL.std.450\"
             %note = OpExtInstImport \"NonSemantic.DebugPrintf\"
             %other = OpExtInstImport \"SPV_AMD_gcn_shader\"
             %void = OpTypeVoid
             %float = OpTypeFloat 32
             %ptr = OpTypePointer Workgroup %float
             %v = OpVariable %ptr Workgroup
             %x = OpConstant %float 1
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %1 = OpExtInst %float %ocl remainder %x %x
             %2 = OpExtInst %float %ocl modf %x %v
             %3 = OpExtInst %float %glsl Modf %x %v
             %4 = OpExtInst %float %glsl FMax %x %x
             %5 = OpExtInst %void %note 1 %v
             %6 = OpExtInst %float %other 1 %v
             %7 = OpExtInst %float %other 1 %x
             %8 = OpExtInst %float %ocl 35 %x
             OpStore %v %x
             OpReturn
             OpFunctionEnd",
        )
        .expect("it is text");
        let v = module.globals_with(Op::Variable).next().and_then(|r| module.inst(r).result).expect("a variable");
        let through = Written::Through(v);
        let found: Vec<Written> =
            module.functions[0].blocks[0].insts.iter().map(|r| written(&module, module.inst(*r))).collect();
        use Written::{Anything, Nothing};
        assert_eq!(found, [Nothing, through, through, Nothing, Nothing, Anything, Nothing, Nothing, through, Nothing]);
    }

    /// An opcode that touches no memory is one of instructions that neither write nor order it; unknown ones may.
    #[test]
    fn what_writes_or_orders_may_touch_memory() {
        let ids: Vec<crate::Operand> = (1..12).filter_map(Id::new).map(Into::into).collect();
        let module = text::parse("%void = OpTypeVoid").expect("it is text");
        let (mut none, mut some) = (0, 0);
        for op in (0..=u16::MAX).map(Op) {
            let touches = may_touch_memory(op);
            *(if touches { &mut some } else { &mut none }) += 1;
            let inst = Inst::new(op, None, None, ids.clone());
            let nothing = written(&module, &inst) == Written::Nothing && !orders_memory(op);
            assert!(touches || nothing, "{op}");
        }
        assert!(
            none > 400 && some > 100 && may_touch_memory(Op::Store) && !may_touch_memory(Op::Load),
            "{none}, {some}"
        );
    }

    #[test]
    fn copies_have_operands_for_each_side() {
        let module = text::parse(
            "%void = OpTypeVoid
             %float = OpTypeFloat 32
             %ptr = OpTypePointer Workgroup %float
             %v = OpVariable %ptr Workgroup
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             OpCopyMemory %v %v Volatile
             OpCopyMemory %v %v Volatile|Aligned 4 None
             OpCopyMemory %v %v Aligned 4 Volatile
             OpReturn
             OpFunctionEnd",
        )
        .expect("it is text");
        let insts = module.functions[0].blocks[0].insts.iter().map(|r| module.inst(*r));
        let volatile: Vec<bool> = insts.filter(|i| i.op == Op::CopyMemory).map(|i| read_access(i).volatile).collect();
        assert_eq!(volatile, [true, false, true]);
    }
}
