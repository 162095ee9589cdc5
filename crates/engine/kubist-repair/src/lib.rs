//! Damage: found by `verify`, and what is sound saved by `salvage`.
//!
//! Only bytes that are not what was written are damage. What could not be read for another
//! reason (a failing disk, a node that does not answer) is tried again (`patient`); then
//! `verify` says that it is not known, and `salvage` ends with an error. What was decided of a
//! page holds for a whole repair (`ledger`).
//!
//! Nothing of a damaged table is ever changed: what can be read goes into another one.

pub mod gather;
pub mod ledger;
pub mod patient;
pub mod readable;
pub mod recover;
pub mod replaced;
pub mod salvage;
pub mod verify;
