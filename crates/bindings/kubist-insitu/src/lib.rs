//! In-situ output: writes the steps of a running simulation into a table.
//!
//! A solver calls `begin`, puts its columns, calls `end`, and continues. [`StepWriter`] has three modes:
//!
//! * direct: `end` returns when the step is durable;
//! * queued: `end` passes the step to a low-priority thread, and [`StepWriter::wait`] waits for it;
//! * through a [`ring`] in memory that the processes of a node share: a [`Leader`] in one process commits the steps of
//!   all processes.
//!
//! A [budget](BudgetOptions) keeps a sample per step, and all writers that sum their [shares](Share) keep the same
//! sample.
//!
//! Values are copied before a call returns. The crate does not use MPI, because the caller provides the shared memory,
//! and its threads do not call the solver.

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
