//! Detection of damage (`verify`) and recovery of the intact rows (`salvage`).
//!
//! Damage means bytes that differ from the bytes written. Other failed reads (a failing disk, a node that does not
//! respond) are repeated (`patient`). If they still fail, `verify` reports these bytes as unread and `salvage` ends
//! with an error.
//!
//! A repair never changes the damaged table; `salvage` writes a new one.

pub mod gather;
pub mod ledger;
pub mod patient;
pub mod readable;
pub mod recover;
pub mod replaced;
pub mod salvage;
pub mod verify;
