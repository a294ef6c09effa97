//! The logical layout of a module: the sections of instructions outside functions.

use crate::grammar::Op;

/// The sections of a module, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Capability,
    Extension,
    Import,
    MemoryModel,
    EntryPoint,
    ExecutionMode,
    Source,
    Name,
    Processed,
    Annotation,
    Declaration,
    /// The graphs of SPV_ARM_graph, which stand behind all functions.
    Graph,
}

/// Returns true if an opcode is one of SPV_INTEL_memory_access_aliasing. Its text names no section for them: spirv-val wants them among
/// the decorations, and LLVM's translator writes them between the names of ids and those of members.
pub(crate) fn is_alias_scope(op: Op) -> bool {
    matches!(op, Op::AliasDomainDeclINTEL | Op::AliasScopeDeclINTEL | Op::AliasScopeListDeclINTEL)
}

impl Section {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::Capability => "capabilities",
            Section::Extension => "extensions",
            Section::Import => "imports of instruction sets",
            Section::MemoryModel => "the memory model",
            Section::EntryPoint => "entry points",
            Section::ExecutionMode => "execution modes",
            Section::Source => "strings and sources",
            Section::Name => "names",
            Section::Processed => "OpModuleProcessed",
            Section::Annotation => "decorations",
            Section::Declaration => "types, constants and variables",
            Section::Graph => "graphs",
        }
    }

    /// Returns the section of an opcode; `None` for those that belong in functions, and for unknown ones.
    pub(crate) fn of(op: Op) -> Option<Section> {
        Some(match op {
            op if op.is_type() || op.is_constant() => Section::Declaration,
            Op::Capability | Op::ConditionalCapabilityINTEL => Section::Capability,
            Op::Extension | Op::ConditionalExtensionINTEL => Section::Extension,
            Op::ExtInstImport => Section::Import,
            Op::MemoryModel | Op::SamplerImageAddressingModeNV => Section::MemoryModel,
            Op::EntryPoint | Op::ConditionalEntryPointINTEL => Section::EntryPoint,
            Op::ExecutionMode | Op::ExecutionModeId => Section::ExecutionMode,
            Op::String | Op::SourceExtension | Op::Source | Op::SourceContinued => Section::Source,
            Op::Name | Op::MemberName => Section::Name,
            Op::ModuleProcessed => Section::Processed,
            Op::DecorationGroup => Section::Annotation,
            op if crate::uses::is_note(op) => Section::Annotation,
            Op::Variable | Op::UntypedVariableKHR | Op::Undef | Op::ExtInst | Op::ExtInstWithForwardRefsKHR => {
                Section::Declaration
            }
            Op::TypeForwardPointer | Op::GraphConstantARM | Op::AsmTargetINTEL | Op::AsmINTEL => Section::Declaration,
            op if is_alias_scope(op) => Section::Annotation,
            op if op.name().is_some_and(|n| n.starts_with("Graph")) => Section::Graph,
            _ => return None,
        })
    }
}
