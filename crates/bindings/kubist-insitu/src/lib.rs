//! Steps of a running simulation, on their way into a table.
//!
//! A solver says `begin`, hands over its columns, says `end`, and goes on computing.
//! [`StepWriter`] is that one interface for three ways of writing:
//!
//! * at once: `end` returns when the step is durable;
//! * queued: `end` hands the step to a thread of low priority, [`StepWriter::wait`] waits for it;
//! * through a [`ring`] in memory that the processes of a node share: a [`Leader`] in one of
//!   them commits the steps of all.
//!
//! A [budget](BudgetOptions) keeps a sample of each step, the same for all writers that add up
//! their [shares](Share).
//!
//! What is put is copied before the call returns. Nothing here knows MPI: whoever shares the
//! memory of a ring says where it is. No thread of this crate calls back into the solver.

mod budget;
mod copies;
mod failure;
mod lane;
mod layout;
mod leader;
mod patience;
mod persist;
mod presence;
mod queue;
mod restart;
pub mod ring;
mod sample;
mod staged;
mod step;
#[cfg(test)]
mod tests;
mod values;
mod writer;

pub use budget::{BudgetOptions, SHARE_LARGEST, SHARE_WORDS, Share};
pub use failure::{Failure, Result};
pub use leader::Leader;
pub use patience::Patience;
pub use restart::await_other_writers;
pub use ring::Ring;
pub use step::{Level, Report, StepOptions, WhenFull};
pub use values::{Kind, Values};
pub use writer::StepWriter;
