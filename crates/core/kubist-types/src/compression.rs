//! Compression levels of a table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The encodings that a writer may choose for a page of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Frame-of-reference encoding only, the least work for writers.
    Fast,
    /// The smallest encoding that decodes at about memory speed.
    #[default]
    Balanced,
    /// The smallest encoding, regardless of the time to write and read.
    Small,
}

pub const COMPRESSIONS: [Compression; 3] = [Compression::Fast, Compression::Balanced, Compression::Small];

impl Compression {
    pub fn name(self) -> &'static str {
        match self {
            Compression::Fast => "fast",
            Compression::Balanced => "balanced",
            Compression::Small => "small",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NoCompression(String);

impl fmt::Display for NoCompression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} is not a compression level; the levels are fast, balanced, small", self.0)
    }
}

impl std::error::Error for NoCompression {}

impl FromStr for Compression {
    type Err = NoCompression;

    fn from_str(text: &str) -> Result<Compression, NoCompression> {
        let found = COMPRESSIONS.into_iter().find(|one| one.name() == text.trim());
        found.ok_or_else(|| NoCompression(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for one in COMPRESSIONS {
            assert_eq!(one.to_string().parse(), Ok(one));
            assert_eq!(serde_json::to_string(&one).unwrap(), format!("{:?}", one.name()));
        }
        assert!("tiny".parse::<Compression>().unwrap_err().to_string().contains("balanced"));
    }
}
