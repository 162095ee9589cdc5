//! Arbitrary bytes as an array file: its header, and a query of all its variables.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use kubist_blocks::{FileQuery, Files, RunOptions};
use kubist_types::Cancel;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kubist-fuzz-arrays-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    folder.join("file")
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("room for a file");
    let cancel = Cancel::default();
    let Ok(files) = Files::open_any(std::slice::from_ref(&*FILE), None, None, &cancel) else { return };
    let run = RunOptions { workers: 1, ..RunOptions::default() };
    for variable in files.about().variables {
        let filter = Some(format!("\"{}\" > 0", variable.name.replace('"', "\"\"")));
        let query = FileQuery { filter, ..FileQuery::default() };
        if let Ok(report) = files.count(&query, &run, &cancel) {
            assert!(report.rows <= report.positions, "{} of {} positions", report.rows, report.positions);
        }
    }
});
