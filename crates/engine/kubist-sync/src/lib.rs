//! One table at several sites: copies that take appends, retractions and annotations without a network, and exchange
//! them later.
//!
//! Each **site** is a separate table with its own writers, rewrites, grids and checkpoints. It keeps the commits of
//! another site in separate logs, one for each writer: commit k of writer W at site S is entry k of the log `sync.S.W`,
//! counted after the commits that the copy began with. The positions in these logs show which commits are missing, and
//! nothing else has to be stored.
//!
//! # Invariants
//!
//! - **A commit is one entry.** It becomes visible completely or not at all, and the log has one owner. A killed sync
//!   continues after the last entry, and two concurrent syncs cannot write a commit twice.
//! - **The set of commits only grows**, and so does the set of retracted commits. Both are joined by union, so all
//!   sites with the same commits and retractions have the same rows, in any order of exchanges. Rewrites change no rows
//!   and stay local.
//! - **Retractions come first.** A site never shows both a commit and the commit that replaces it: the retractions of
//!   the other site are applied before its commits, and a retracted commit arrives without rows.
//! - **Rows are never guessed.** Rows do not name their commits. If a step has rows to retract and other rows, the sync
//!   is refused, and the message names the steps to retract here.
//! - **Copies have one origin.** Tables that do not descend from the same table are refused, because their rows would
//!   be doubled. Two tables with the same id are refused too, and different commits with the same number.

#![deny(missing_docs)]

mod exchange;
mod metadata;
mod partial;
mod peer;
mod site;

pub use exchange::{Moved, SyncOptions, Synced, sync};
pub use partial::{Cloned, clone, deepen};
