//! Golden tables of every format version: the code reads them with equal results, extends them, and writes
//! equal bytes.
//!
//! Each version has a folder `v1`, `v2`, ... `make golden` writes that of the current version, which stays
//! unchanged after the release.

mod canonical;
mod questions;
mod set;
mod tables;
mod values;

use questions::{Answered, Answers, answers, same};
use set::{copied, files, newest, sets};
use tables::TABLES;

fn compare(found: &[Answered], kept: &[Answered], what: &str) {
    assert_eq!(found.len(), kept.len(), "{what}: the number of questions");
    for (found, kept) in found.iter().zip(kept) {
        assert_eq!(found.question, kept.question, "{what}");
        assert!(
            same(&found.answer, &kept.answer),
            "{what}: {:?}\nfound {}\nkept  {}",
            kept.question,
            found.answer,
            kept.answer
        );
    }
}

#[test]
fn tables_of_every_version_answer_as_when_they_were_written() {
    for set in sets() {
        for golden in TABLES.iter().filter(|golden| set.join(golden.name).is_dir()) {
            let kept = set.join(golden.name);
            let answers_kept = std::fs::read(kept.join("answers.json")).expect("the kept answers");
            let answers_kept: Answers = serde_json::from_slice(&answers_kept).expect("answers");
            let folder = tempfile::tempdir().expect("a folder");
            let at = folder.path().join("table");
            copied(&kept.join("table"), &at);
            let found = answers(&at, golden);
            compare(&found.as_written, &answers_kept.as_written, golden.name);
            compare(&found.after_more, &answers_kept.after_more, &format!("{} with more rows", golden.name));
        }
    }
}

#[test]
fn no_file_of_a_set_changes() {
    for set in sets() {
        let listed = std::fs::read_to_string(set.join("files.txt")).expect("the list of files");
        assert_eq!(files(&set), listed, "{}: a golden table was changed", set.display());
    }
}

#[test]
fn what_is_written_today_is_what_the_newest_set_holds() {
    let set = newest();
    for golden in TABLES.iter().filter(|golden| golden.is_sound()) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("table");
        golden.write(&at);
        let (mut written, mut kept) =
            (canonical::contents(&at), canonical::contents(&set.join(golden.name).join("table")));
        for contents in [&mut written, &mut kept] {
            contents.retain(|name, _| !name.starts_with("garbage/"));
        }
        let names =
            |contents: &std::collections::BTreeMap<String, Vec<u8>>| contents.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&written), names(&kept), "{}: other objects, entries or segments", golden.name);
        for (name, bytes) in &written {
            let kept = &kept[name];
            let differs = bytes.iter().zip(kept).position(|(a, b)| a != b).unwrap_or(bytes.len().min(kept.len()));
            assert!(
                bytes == kept,
                "{}: {name} has {} bytes, it had {}; the first that differs is {differs}.\nIf FORMAT.md says \
                 something else of them than before, the format needs a new version, unless this one was not released \
                 yet: make golden",
                golden.name,
                bytes.len(),
                kept.len(),
            );
        }
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("set");
    copied(&newest(), &at);
    let before = files(&at);
    let file = at.join("types/table/grid");
    let mut bytes = std::fs::read(&file).expect("a file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).expect("the changed file");
    assert_ne!(files(&at), before);
}
