//! Makes the set of golden tables of a version, which must not be there yet:
//!
//!     cargo run -p kubist --example golden -- VERSION
//!
//! The tables are written by the code as it stands, and asked; tests compare both for ever.

#[path = "../tests/golden/questions.rs"]
mod questions;
#[path = "../tests/golden/set.rs"]
mod set;
#[path = "../tests/golden/tables.rs"]
mod tables;
#[path = "../tests/golden/values.rs"]
mod values;

use std::fs;

use set::{copied, files, home};

fn main() {
    let version = std::env::args().nth(1).expect("say which version, as 2 or 2.1");
    let set = home().join(format!("v{version}"));
    assert!(!set.exists(), "{} is there: a set is never changed", set.display());
    for golden in &tables::TABLES {
        let folder = set.join(golden.name);
        fs::create_dir_all(&folder).expect("a folder for the table");
        let table = folder.join("table");
        golden.write(&table);
        // What a process leaves for its own use is no part of a table.
        let _ = fs::remove_dir_all(table.join("tmp"));
        let scratch = tempfile::tempdir().expect("a folder");
        let copy = scratch.path().join("table");
        copied(&table, &copy);
        let answers = questions::answers(&copy, golden);
        let text = serde_json::to_string_pretty(&answers).expect("plain data");
        fs::write(folder.join("answers.json"), text + "\n").expect("the answers");
        println!("{}", golden.name);
    }
    fs::write(set.join("files.txt"), files(&set)).expect("the list of files");
}
