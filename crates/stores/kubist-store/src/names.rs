//! Rules for the names of writers, segments and objects.
//!
//! Every store follows the rules of the strictest file system. So a name that works in a test works everywhere, and no
//! name can leave the store's directory.

use crate::{Error, Result};

pub(crate) const MAX_PART_BYTES: usize = 128;

pub(crate) const MAX_OBJECT_BYTES: usize = 512;

/// Folders of the local store, whose names objects may not use.
pub(crate) const RESERVED: [&str; 3] = ["logs", "segments", "tmp"];

/// Checks the name of a writer or a segment.
///
/// # Errors
///
/// `InvalidName`.
pub fn check_part(name: &str) -> Result<()> {
    match fault_of_part(name) {
        None => Ok(()),
        Some(why) => Err(invalid(name, why)),
    }
}

/// Checks the name of an object.
///
/// # Errors
///
/// `InvalidName`.
pub fn check_object(name: &str) -> Result<()> {
    if name.len() > MAX_OBJECT_BYTES {
        return Err(invalid(name, format!("longer than {MAX_OBJECT_BYTES} bytes")));
    }
    for (depth, part) in name.split('/').enumerate() {
        if let Some(why) = fault_of_part(part) {
            return Err(invalid(name, why));
        }
        if depth == 0 && RESERVED.contains(&part) {
            return Err(invalid(name, format!("`{part}` is reserved for the store itself")));
        }
    }
    Ok(())
}

/// The error for an object whose name is, or would be, a folder of objects.
pub fn object_and_folder(name: &str) -> Error {
    invalid(name, "an object's name cannot be a folder of another object's name")
}

fn fault_of_part(part: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if part.is_empty() {
        Some("a part is empty".into())
    } else if part.len() > MAX_PART_BYTES {
        Some(format!("a part is longer than {MAX_PART_BYTES} bytes"))
    } else if part.starts_with('.') {
        Some("a part begins with a dot".into())
    } else if !part.bytes().all(allowed) {
        Some("only A-Z, a-z, 0-9, `.`, `_` and `-` are allowed".into())
    } else {
        None
    }
}

fn invalid(name: &str, why: impl Into<String>) -> Error {
    let shown: String = name.chars().take(MAX_PART_BYTES).collect();
    let name = if shown.len() < name.len() { shown + "..." } else { shown };
    Error::InvalidName { name, why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_writers_and_segments() {
        for name in ["a", "rank-0", "A.b_C-9", &"x".repeat(128)] {
            assert!(check_part(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".a", "a/b", "a b", "ä", "a\0", "a\\b", &"x".repeat(129)] {
            assert!(check_part(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_of_objects() {
        for name in ["table", "rewrites/00000000000000000001", "a/b/c", "x/logs"] {
            assert!(check_object(name).is_ok(), "{name}");
        }
        let long = vec!["x".repeat(100); 6].join("/");
        for name in ["", "/a", "a/", "a//b", "a/../b", "logs/w", "tmp", "segments", &long] {
            assert!(check_object(name).is_err(), "{name}");
        }
    }
}
