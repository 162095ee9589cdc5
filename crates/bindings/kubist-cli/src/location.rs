//! The location of a table.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// It dereferences to the full text for the engine, and displays without the password.
#[derive(Clone)]
pub struct Location {
    given: String,
    shown: String,
}

impl FromStr for Location {
    type Err = Infallible;

    fn from_str(given: &str) -> Result<Location, Infallible> {
        Ok(Location { given: given.to_owned(), shown: kubist_types::shown::without_password(given) })
    }
}

impl From<&Location> for kubist::Location {
    fn from(location: &Location) -> kubist::Location {
        kubist::Location::from(&location.given)
    }
}

impl Deref for Location {
    type Target = str;

    fn deref(&self) -> &str {
        &self.given
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.shown)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.shown)
    }
}

impl serde::Serialize for Location {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_engine_sees_the_password() {
        let Ok(location) = "cassandra://ada:secret@h/k/t".parse::<Location>();
        assert!(location.contains("secret"));
        let json = serde_json::to_string(&location).unwrap();
        for shown in [location.to_string(), format!("{location:?}"), json] {
            assert!(shown.contains("ada@h/k/t") && !shown.contains("secret"), "{shown}");
        }
    }
}
