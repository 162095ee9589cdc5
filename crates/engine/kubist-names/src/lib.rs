//! The catalogue: tables and runs under names, with tags, notes, parameters, an owner, the locations of copies, and a
//! counter of reads.
//!
//! Each **site** has a whole catalogue in a separate store, works without a network, and exchanges changes with other
//! sites later. The state is a CRDT of `kubist-crdt`, so sites with the same changes are equal. The store's
//! `put_if_absent` orders the changes of several processes at a site, also on several machines.
//!
//! # Objects of the store
//!
//! | object | content |
//! |---|---|
//! | `site` | the name and a random number of the site, as JSON |
//! | `ops/SITE/0000000017` | line 17 of the log of SITE |
//! | `packs/SITE/0000000001-0000000064` | these lines, one after the other |
//! | `state/0000000003` | a checkpoint; the highest number counts |
//!
//! A line is its own hash and one JSON object with several operations ([`log::Line`]). The object has the hash of the
//! line before it, so two logs that differ and have the same site name are detected.
//!
//! # Invariants
//!
//! - **Order of objects.** A pack is durable before its lines are deleted as single objects. Readers list single lines
//!   first and packs second, so they find every acknowledged line. A single line that a pack or checkpoint covers is
//!   ignored.
//! - **Late writers.** A writer that was stopped for a long time may put a line whose number is already in a pack. So
//!   it reads the packs and the newest checkpoint after its put, and tries again if they cover its number without its
//!   line.
//! - **Dots.** The k-th operation of a site, over all lines, has the dot (site, k).
//! - **Pruning.** A line is deleted only when each known site has confirmed that it has the line.

#![deny(missing_docs)]

mod catalogue;
mod checkpoint;
mod condition;
mod entry;
pub mod log;
mod objects;
mod search;
mod sync;

pub use catalogue::{Catalogue, New, SiteInfo};
pub use checkpoint::Pruned;
pub use entry::{CatalogueEntry, Scalar, Setting};
pub use search::Search;
pub use sync::{Exchanged, sync};
