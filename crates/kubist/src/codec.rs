//! Rows to bytes and back. Knows runs, zones, pages and chunks; knows neither
//! files nor cubes. FORMAT.md describes the bytes.

pub mod bits;
pub mod decode;
pub mod encode;
pub mod wire;
pub mod zone_map;
