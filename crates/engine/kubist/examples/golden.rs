//! Replaces the golden tables of the current format version by tables that the current code writes:
//!
//!     cargo run -p kubist --example golden

#[path = "../tests/golden/questions.rs"]
mod questions;
#[path = "../tests/golden/set.rs"]
mod set;
#[path = "../tests/golden/tables.rs"]
mod tables;
#[path = "../tests/golden/values.rs"]
mod values;

use std::fs;

use kubist_format::header::FORMAT_VERSION;
use set::{copied, files, of_version};

fn main() {
    let set = of_version(FORMAT_VERSION);
    if set.exists() {
        fs::remove_dir_all(&set).expect("the set before is removed");
    }
    for golden in &tables::TABLES {
        let folder = set.join(golden.name);
        fs::create_dir_all(&folder).expect("a folder for the table");
        let table = folder.join("table");
        golden.write(&table);
        // Process-private files are no part of a table.
        let _ = fs::remove_dir_all(table.join("tmp"));
        let scratch = tempfile::tempdir().expect("a folder");
        let copy = scratch.path().join("table");
        copied(&table, &copy);
        let answers = questions::answers(&copy, golden);
        let text = serde_json::to_string(&answers).expect("plain data");
        fs::write(folder.join("answers.json"), text + "\n").expect("the answers");
        println!("{}", golden.name);
    }
    fs::write(set.join("files.txt"), files(&set)).expect("the list of files");
}
