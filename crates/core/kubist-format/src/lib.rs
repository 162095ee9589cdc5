//! Every byte of a table, chapter by chapter, as FORMAT.md describes it.
//!
//! All of it is pure: bytes in, values out, and back. Whatever the bytes are, decoding them
//! neither panics nor takes more memory than they account for. Nothing here may read, write,
//! or know a store.

pub mod alteration;
pub mod bits;
pub mod bounds;
pub mod chain;
pub mod checkpoint;
pub mod column_type;
pub mod decode;
pub mod decoded;
pub mod default;
pub mod digest;
pub mod encode;
pub mod entry;
pub mod error;
pub mod grid;
pub mod header;
pub mod history;
pub mod holes;
pub mod lazy;
pub mod location;
pub mod lookup;
pub mod lookups;
pub mod names;
pub mod numbers;
pub mod page;
pub mod ranges;
pub mod rows;
pub mod wire;
pub mod zone_map;
