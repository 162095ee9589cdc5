//! Hash chains of entries (FORMAT.md, Chains): entries with the same value have the same history, back to the table's
//! id.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain(pub u128);

impl Chain {
    /// The value before a log's first entry; `table` is the table's id.
    pub fn of_log(table: &str, writer: &str) -> Chain {
        Chain::of_parts("log", table, writer)
    }

    pub fn of_rewrites(table: &str) -> Chain {
        Chain::of_parts("rewrites", table, "")
    }

    pub fn of_alterations(table: &str) -> Chain {
        Chain::of_parts("alterations", table, "")
    }

    /// The value after an entry, whose bytes contain the value before it.
    pub fn after_entry(entry: &[u8]) -> Chain {
        Chain(xxh3_128(entry))
    }

    fn of_parts(kind: &str, table: &str, name: &str) -> Chain {
        Chain(xxh3_128([kind, "\0", table, "\0", name].concat().as_bytes()))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl Serialize for Chain {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Chain, D::Error> {
        let text = String::deserialize(from)?;
        let value = Some(&text).filter(|text| text.len() == 32).and_then(|text| u128::from_str_radix(text, 16).ok());
        value.map(Chain).ok_or_else(|| serde::de::Error::custom("a value of a chain has 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_begin_apart_and_are_read_back() {
        let begins = [
            Chain::of_log("a", "w"),
            Chain::of_log("a", "v"),
            Chain::of_log("b", "w"),
            Chain::of_rewrites("a"),
            Chain::of_alterations("a"),
        ];
        for (index, chain) in begins.iter().enumerate() {
            assert!(!begins[..index].contains(chain));
            let text = serde_json::to_string(chain).unwrap();
            assert_eq!(serde_json::from_str::<Chain>(&text).unwrap(), *chain, "{text}");
        }
        assert!(serde_json::from_str::<Chain>("\"12\"").is_err());
    }
}
