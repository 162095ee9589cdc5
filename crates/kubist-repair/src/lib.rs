//! Damage: found by `verify`, and what is sound saved by `salvage`.
//!
//! Nothing of a damaged table is ever changed: what can be read goes into another one.

pub mod gather;
pub mod readable;
pub mod recover;
pub mod replaced;
pub mod salvage;
pub mod verify;
