//! One table at several sites: copies that each take appends, retractions and annotations without a network, and
//! exchange them later.
//!
//! Each **site** is a table of its own, with its own writers, rewrites, grids and checkpoints. A site keeps the commits
//! of another site in logs of their own, one for each of its writers: commit k of writer W of site S is entry k of the
//! log `sync.S.W`, counted after the commits that the copy began with. So the position in every log says what is
//! missing, and nothing else has to be stored.
//!
//! # Invariants
//!
//! - **A commit is one entry.** It becomes visible as a whole, or not at all, and the log has one owner. A sync that
//!   was killed continues after the last entry. Two syncs at once cannot write a commit twice.
//! - **The set of commits only grows.** The set of retracted commits only grows too. Both are joined by union, so all
//!   sites with the same commits and retractions have the same rows, in any order of exchanges. Rewrites change no
//!   rows and stay local.
//! - **Retractions come first.** A site never shows a commit next to the one that it replaces: the retractions of
//!   the other site are applied before its commits, and a retracted commit arrives without rows.
//! - **Rows are never guessed.** Rows do not name their commits. If a step has rows to retract and others, the sync is
//!   refused, and the message says which steps to retract here.
//! - **A copy is known by its origin.** Tables that do not descend from one table are refused: their rows would be
//!   doubled. So are two tables with one id, and commits with one number that differ.

#![deny(missing_docs)]

mod exchange;
mod metadata;
mod peer;
mod site;

pub use exchange::{Moved, SyncOptions, Synced, sync};
