//! `--test it encodings::` runs the tests of `encodings.rs`.

mod encodings;
mod opaque;
mod stored_columns;
mod zone_maps;
