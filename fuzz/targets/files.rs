//! Arbitrary bytes as a file to ingest: its head, and all of its batches.
//!
//! The readers turn panics of decoding libraries into errors of the file, so they are no failures here;
//! excessive memory and time are.
#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use kubist_files::{Input, Options};
use libfuzzer_sys::fuzz_target;

/// File name suffixes; the content decides where it can.
const SUFFIXES: [&str; 5] = ["csv", "npz", "parquet", "arrow", "tsv"];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kubist-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    folder
});

fuzz_target!(|bytes: &[u8]| {
    let [kind, bytes @ ..] = bytes else { return };
    let path = FOLDER.join(format!("file.{}", SUFFIXES[usize::from(*kind) % SUFFIXES.len()]));
    std::fs::write(&path, bytes).expect("room for a file");
    let Ok(input) = Input::inspect(&path, &Options::default()) else { return };
    let rows: usize =
        input.read(&input.fields, Arc::default()).into_iter().map_while(|batch| Some(batch.ok()?.num_rows())).sum();
    assert!(rows <= 1 << 20, "{rows} rows of {} bytes", bytes.len());
});
