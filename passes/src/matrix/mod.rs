//! The matrix core that both lowerings share.
//!
//! [`crate::to_scalar`] and [`crate::to_tiles`] import from here and never from each other.
//!
//! | module | question it answers |
//! |---|---|
//! | [`placement`] | which lane or subgroup holds which element |
//! | [`logical`] | which matrix types a module has |
//! | [`position`] | the same as code of the output |
//! | [`lanes`] | which lane an invocation is |
//! | [`arena`] | where in shared memory elements are put |
//! | [`barrier`] | how invocations wait for what others put there |
//! | [`affine`] | sums of multiples of values, as addresses are |
//! | [`address`], [`mod@pointer`] | where a load or store begins, and how far it steps |
//! | [`bits`] | numbers as parts of other numbers |
//! | [`elementwise`] | arithmetic on single elements |
//! | [`callback`] | what a callback does besides computing a value |
//! | [`iterations`] | what the next iteration of a loop will load |
//! | [`observed_replication`] | which matrices have elements that are accessed one by one, so that the module observes how often each is held |
//! | [`row_uniform`] | which matrices hold one value in each row |
//! | [`dead_matrices`] | which matrices nothing reads |

pub(crate) mod address;
pub(crate) mod affine;
pub(crate) mod arena;
pub(crate) mod barrier;
pub(crate) mod bits;
pub(crate) mod callback;
pub(crate) mod dead_matrices;
pub(crate) mod elementwise;
pub(crate) mod iterations;
pub(crate) mod lanes;
pub(crate) mod logical;
pub(crate) mod observed_replication;
pub(crate) mod placement;
pub(crate) mod pointer;
pub(crate) mod position;
pub(crate) mod row_uniform;
