//! The tests of the format's bytes, one program: `--test it encodings::` runs those of `encodings.rs`.

mod encodings;
mod stored_columns;
mod zone_maps;
