//! The binary format of tables, as FORMAT.md describes it.
//!
//! The crate converts between bytes and values, without I/O. For any bytes, decoding does not panic and uses no
//! more memory than the bytes justify.

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
pub mod distinct;
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
