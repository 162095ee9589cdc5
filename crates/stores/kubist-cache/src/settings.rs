//! The cache settings of the environment.

use std::path::PathBuf;

use crate::folder::Folder;

/// The environment variable with the folder, without which there is no cache.
pub const FOLDER: &str = "KUBIST_CACHE";
/// The environment variable with the capacity: `500MB`, `20GiB`, or bytes.
pub const SIZE: &str = "KUBIST_CACHE_SIZE";
/// The default capacity in bytes.
pub const USUAL_SIZE: u64 = 10 << 30;

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Opens the folder that the environment names, if any.
///
/// # Errors
///
/// The reason why the folder cannot be used: an invalid size, not a folder, or another user's folder.
pub fn folder_of_environment() -> Result<Option<Folder>, String> {
    let Some(root) = std::env::var_os(FOLDER).filter(|root| !root.is_empty()) else { return Ok(None) };
    let bound = match std::env::var(SIZE) {
        Ok(text) if !text.trim().is_empty() => bytes(&text)?,
        _ => USUAL_SIZE,
    };
    Folder::open(PathBuf::from(root), bound).map(Some)
}

fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match UNITS.iter().find_map(|(unit, bytes)| Some((text.trim().strip_suffix(unit)?, *bytes))) {
        Some((number, unit)) => (number.trim_end(), unit),
        None => (text.trim(), 1),
    };
    let found = number.parse::<f64>().ok().map(|number| number * unit as f64);
    let found = found.filter(|bytes| (1.0..1e18).contains(bytes)).map(|bytes| bytes as u64);
    found.ok_or_else(|| format!("{SIZE}={text}: it is a size such as 20GiB, 500MB or 1000000000"))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        for (text, expected) in
            [("1000", 1000), ("20GiB", 20 << 30), ("1.5 MB", 1_500_000), (" 4KiB ", 4096), ("7B", 7), ("2TB", 2 << 40)]
        {
            let expected = if text == "2TB" { 2_000_000_000_000 } else { expected };
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "much", "-1", "0", "1XB", "NaN", "inf", "1e30"] {
            let why = bytes(text).unwrap_err();
            assert!(why.contains("KUBIST_CACHE_SIZE") && why.contains("20GiB"), "{why}");
        }
    }
}
