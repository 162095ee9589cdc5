//! Lines of the logs, whose operations become visible together.

use std::collections::BTreeMap;

use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Setting;

/// Most bytes of a name, a tag, a location, or the name of a parameter.
pub const NAME_BYTES: usize = 1024;
/// Most bytes of a note or another text.
pub const TEXT_BYTES: usize = 64 << 10;
/// Most bytes of a line, both written and read.
pub const LINE_BYTES: usize = 4 << 20;

/// One line of a site's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The version of the format, 1.
    pub v: u32,
    /// Number of the line, from 1.
    pub n: u64,
    /// The hash of the line before it; 0 in the first line.
    #[serde(with = "hex")]
    pub prev: u64,
    /// The site's random number, in the first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The time of the site's clock, in seconds since 1970; only for readers.
    pub at: u64,
    /// Number of the site's operations before this line.
    pub before: u64,
    /// The operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<Op>,
    /// For each site, the number of lines that arrived at this site.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, u64>,
}

/// One operation on a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Op {
    /// The name.
    pub name: String,
    /// The new value; `None` for a removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Setting>,
    /// The replaced or removed operations, by site.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gone: BTreeMap<String, Vec<u64>>,
}

/// The hash of a line's bytes, without its end of line.
pub fn hash(line: &[u8]) -> u64 {
    xxh3_64(line)
}

/// The state of a log after some lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of lines.
    pub n: u64,
    /// Number of operations.
    pub ops: u64,
    /// The last line with operations; later lines only confirm lines of other sites.
    pub changed: u64,
    /// The hash of the last line.
    #[serde(with = "hex")]
    pub hash: u64,
}

impl Head {
    /// The state after one more line with these bytes.
    pub(crate) fn after(&self, line: &Line, bytes: &[u8]) -> Head {
        let changed = if line.ops.is_empty() { self.changed } else { line.n };
        Head { n: line.n, ops: line.before + line.ops.len() as u64, changed, hash: hash(bytes) }
    }
}

/// 16 hexadecimal digits of the object's hash, a space, and the JSON object, without the end of the line.
pub fn sealed(json: &[u8]) -> Vec<u8> {
    [format!("{:016x} ", hash(json)).as_bytes(), json].concat()
}

/// The JSON object of a line.
///
/// # Errors
///
/// The reason: the line does not begin with the hash of the rest.
pub(crate) fn unsealed(line: &[u8]) -> std::result::Result<&[u8], &'static str> {
    const WRONG: &str = "its bytes changed after it was written: they do not have the hash at its beginning";
    let (found, json) = line.split_at_checked(17).ok_or(WRONG)?;
    if found == format!("{:016x} ", hash(json)).as_bytes() { Ok(json) } else { Err(WRONG) }
}

/// The bytes of a line, without its end.
///
/// # Errors
///
/// `Invalid` if the line is too long.
pub fn encode(line: &Line) -> Result<Vec<u8>> {
    let bytes = serde_json::to_vec(line).map_err(Error::internal)?;
    if bytes.len() > LINE_BYTES {
        return Err(Error::invalid(format!("a change of {} bytes is too large: at most {LINE_BYTES}", bytes.len())));
    }
    Ok(sealed(&bytes))
}

/// The lines of an object, each with its bytes.
///
/// # Errors
///
/// `Damaged` names the object and the line: its hash is wrong, or it is no line of this format.
pub fn decode<'a>(object: &str, site: &str, bytes: &'a [u8], first: u64) -> Result<Vec<(Line, &'a [u8])>> {
    let bytes = bytes.strip_suffix(b"\n").ok_or_else(|| damaged(object, 1, 0, "it does not end with a line end"))?;
    let mut lines = Vec::new();
    let mut offset = 0;
    for (index, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let number = index as u64 + 1;
        let wrong = |what: &str| damaged(object, number, offset, what);
        if text.len() > LINE_BYTES + 17 {
            return Err(wrong("it is too long"));
        }
        let json = unsealed(text).map_err(wrong)?;
        let line: Line =
            serde_json::from_slice(json).map_err(|error| wrong(&format!("it is no line of a log ({error})")))?;
        if line.v != 1 {
            return Err(Error::Newer(format!("{object}, line {number} has version {}; use a newer Kubist", line.v)));
        }
        if first.checked_add(index as u64) != Some(line.n) {
            return Err(wrong(&format!(
                "it is line {} of the log of `{site}`, not line {}",
                line.n,
                first + index as u64
            )));
        }
        check(&line).map_err(|what| wrong(&what))?;
        lines.push((line, text));
        offset += text.len() + 1;
    }
    Ok(lines)
}

/// Largest number of an operation, so that a hostile line cannot make a counter overflow.
const MOST: u64 = 1 << 53;

fn check(line: &Line) -> std::result::Result<(), String> {
    if line.n == 0 || line.n > MOST || line.before.saturating_add(line.ops.len() as u64) > MOST {
        return Err("its numbers are too large".into());
    }
    for op in &line.ops {
        check_name(&op.name)?;
        if let Some(setting) = &op.set {
            check_setting(setting)?;
        }
        for (site, numbers) in &op.gone {
            check_site(site)?;
            if numbers.iter().any(|&n| n == 0 || n > MOST) {
                return Err("it removes an operation with an impossible number".into());
            }
        }
    }
    line.seen.keys().try_for_each(|site| check_site(site))
}

/// Returns whether a text can be the name of an entry.
///
/// # Errors
///
/// The reason.
pub fn check_name(name: &str) -> std::result::Result<(), String> {
    let reason = match name {
        "" => "it is empty",
        _ if name.len() > NAME_BYTES => "it is longer than 1024 bytes",
        _ if name.chars().any(char::is_control) => "it has a control character",
        _ if name.trim() != name => "it begins or ends with a space",
        _ => return Ok(()),
    };
    Err(format!("the name {:?} cannot be used: {reason}", name.chars().take(60).collect::<String>()))
}

/// Returns whether a value can be stored.
///
/// # Errors
///
/// The reason.
pub fn check_setting(setting: &Setting) -> std::result::Result<(), String> {
    use crate::entry::Scalar;
    match setting {
        Setting::Tag(text) | Setting::Location(text) | Setting::Kind(text) => check_name(text),
        Setting::Owner(text) | Setting::Note(text) => check_text(text),
        Setting::Reads(..) => Ok(()),
        Setting::Param(name, value) => {
            check_name(name)?;
            match value {
                Scalar::Text(text) => check_text(text),
                Scalar::Number(number) if !number.is_finite() => Err(format!("{number} cannot be a parameter's value")),
                _ => Ok(()),
            }
        }
    }
}

fn check_text(text: &str) -> std::result::Result<(), String> {
    if text.len() > TEXT_BYTES {
        return Err(format!("a text of {} bytes is too long: at most {TEXT_BYTES}", text.len()));
    }
    Ok(())
}

/// Returns whether a text can be the name of a site.
///
/// # Errors
///
/// The reason.
pub fn check_site(site: &str) -> std::result::Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if site.is_empty() || site.len() > 64 || site.starts_with('.') || !site.chars().all(plain) {
        let site: String = site.chars().take(60).collect();
        return Err(format!("the site name {site:?} cannot be used: use 1 to 64 characters of A-Z a-z 0-9 . _ -"));
    }
    Ok(())
}

pub(crate) fn damaged(object: &str, line: u64, offset: usize, what: &str) -> Error {
    Error::Damaged { file: format!("{object}, line {line},"), offset: offset as u64, what: what.into() }
}

/// Writes hashes as 16 hexadecimal digits, because JSON readers round large numbers.
pub(crate) mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{hash:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
