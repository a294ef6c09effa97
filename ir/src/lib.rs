//! Reads, writes, prints, parses and analyzes SPIR-V modules.
//!
//! # The data model
//!
//! A [`Module`] keeps the data of its instructions ([`Inst`], in an arena, named by [`InstRef`]) apart from their order
//! (lists of handles: globals, functions, blocks). Handles stay valid while instructions are inserted around them.
//! Every module that [`binary::read`] returns has these invariants; `verify` checks more.
//!
//! 1. Writing a module that was read and not changed gives the same bytes, header and byte order included.
//! 2. Ids are those of the file and are never renumbered; new ones come from [`Module::fresh_id`]. Every id is below
//!    the bound.
//! 3. An operand word is [`Operand::Id`] exactly if the grammar says that it is an id, also when it is a parameter of
//!    an enumerant. Words beyond the grammar are [`Operand::Word`]s of an instruction marked [`Inst::opaque`]; each of
//!    them may be an id.
//! 4. [`Module::def`] returns the first instruction that has the id as its result.
//! 5. Every block begins with its label and ends with a terminator (or with an instruction of unknown opcode).
//! 6. Every function that is not imported has at least one block.

pub mod binary;
pub mod builder;
pub mod captures;
pub mod cfg;
pub mod constant;
pub mod decode;
pub mod decorate;
pub mod effects;
pub mod entry;
pub mod extensions;
pub mod grammar;
pub mod hash;
#[cfg(feature = "text")]
pub mod isomorphic;
mod module;
pub mod nearest;
pub mod needs;
pub mod pointers;
pub mod rewrite;
mod section;
#[cfg(feature = "text")]
pub mod source;
pub mod spv;
#[cfg(feature = "text")]
pub mod text;
pub mod types;
pub mod uses;
pub mod verify;
pub mod views;

pub use grammar::{Kind, Op};
pub use module::{
    Block, Function, Header, Id, IdIndex, IdMap, IdSet, IdTable, Inst, InstList, InstRef, Module, Operand, OperandList,
    string_operands,
};
pub use nearest::DidYouMean;
