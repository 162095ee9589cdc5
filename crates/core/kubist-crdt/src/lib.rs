//! Conflict-free replicated data types: several sites change a value without waiting for each other, and have equal
//! values once they have the same changes.
//!
//! The crate is pure: no I/O, no clock, no randomness. The caller numbers its changes and transports them.
//!
//! # Types
//!
//! Each change has a [`Dot`]: the site and the number of the change. A **dot store** keeps the dots that no later
//! change has replaced, and gives them a meaning:
//!
//! | type | dot store | concurrent changes |
//! |---|---|---|
//! | add-wins set | [`DotMap`] from elements to [`DotSet`] | an element that one site adds and another removes is in the set |
//! | multi-value register | [`DotFun`] of values | all written values are visible |
//! | PN-counter | [`DotFun`] of [`Tally`] | the sum counts both |
//! | map | [`DotMap`] from keys to any dot store | an update of a removed key keeps the update |
//!
//! # Forms
//!
//! The forms differ in the messages between sites. All use the same dot stores, and `tests/` compares them.
//!
//! | form | sends | needs | here |
//! |---|---|---|---|
//! | state-based | the whole state | nothing: states join in any order, repeatedly | [`Causal::join`] |
//! | delta-state | the join of the changes that a neighbour has not confirmed | deltas of a sender in order | [`Gossip`] |
//! | op-based | each change once, with a version vector | causal delivery, exactly once | [`Replica`] |
//! | pure op-based | the bare operation, with a version vector | the same, and stability | [`PureSet`] |
//!
//! # Sources
//!
//! - The four forms, the add-wins set (figures 4.17 to 4.22, equation 4.1), the delta interval (4.3) and the causal
//!   anti-entropy algorithm (figure 4.23): the section "Advanced Conflict-free Replicated DataTypes" of the chapter
//!   "Data management techniques" in Ultrascale Computing Systems, IET 2019.
//! - Dot stores, causal contexts and their joins: P. S. Almeida, A. Shoker, C. Baquero, Delta state replicated data
//!   types, J. Parallel Distrib. Comput. 111 (2018), section 7.
//! - Pure operations and causal stability: C. Baquero, P. S. Almeida, A. Shoker, Pure operation-based replicated data
//!   types, arXiv:1710.04469.
//! - The types: M. Shapiro, N. Preguica, C. Baquero, M. Zawirski, A comprehensive study of convergent and commutative
//!   replicated data types, INRIA RR-7506 (2011).

#![deny(missing_docs)]

mod causal;
mod context;
mod dots;
mod gossip;
mod ops;
mod pure;

pub use causal::Causal;
pub use context::{Context, Dot, Vector};
pub use dots::{Change, DotFun, DotMap, DotSet, DotStore, Tally};
pub use gossip::{Gossip, Interval};
pub use ops::{Envelope, Inbox, Replica};
pub use pure::{PureOp, PureSet};
