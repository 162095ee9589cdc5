#![allow(dead_code)] // the tests and the program that makes a set take what they need

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

pub fn of_version(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../engine/kubist/tests/golden/v{version}"))
}

pub fn sets() -> impl Iterator<Item = PathBuf> {
    (1..).map(of_version).take_while(|set| set.is_dir())
}

pub fn newest() -> PathBuf {
    sets().last().expect("at least one set")
}

fn walk(at: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(at).expect("a folder") {
        let path = entry.expect("a file").path();
        match path.is_dir() {
            true => walk(&path, found),
            false => found.push(path),
        }
    }
}

pub fn listed(at: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(at, &mut found);
    found.sort();
    found
}

/// Name, length and CRC-32C of every file in a set, one line each.
pub fn files(set: &Path) -> String {
    let found = listed(set);
    let mut list = String::new();
    for path in found.iter().filter(|path| !path.ends_with("files.txt")) {
        let bytes = fs::read(path).expect("a file of the set");
        let name = path.strip_prefix(set).expect("within the set").to_str().expect("a name in UTF-8");
        writeln!(list, "{name} {} {:08x}", bytes.len(), crc32c::crc32c(&bytes)).expect("text");
    }
    list
}

pub fn copied(from: &Path, to: &Path) {
    for path in listed(from) {
        let to = to.join(path.strip_prefix(from).expect("within the folder"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder of the copy");
        fs::copy(&path, &to).expect("a copied file");
    }
}
