//! Replication: a cube's *outlook* is the number of levels below it that have copies of its records. Without copies, a
//! small box reads a few rows from every cube above; copies avoid this, and take storage.
//!
//! The thesis's OutlookTree (section 4.4.1) is between a plain tree and the D8tree, in which every cube has the
//! lowest priorities of its whole region.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cube::{CubeId, Geometry};
use crate::priority::Threshold;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Replication {
    /// Each record is stored once.
    None,
    /// Copies reach to the level of an average record in the cube's region, and `boost` levels further:
    /// `ceil(log_K(1 / P) + boost)` levels. P = W(cube) is the fraction of its region's records that the cube keeps,
    /// and K = 2^k is its number of children (thesis, section 4.4.1).
    Outlook { boost: f64 },
    /// Copies reach to this level; the root is level 0 (the D8tree).
    Full { height: u32 },
}

/// Copies reach one level above an average record: they save most of the pages that small boxes read, and take a small
/// fraction of the storage for all copies.
impl Default for Replication {
    fn default() -> Replication {
        Replication::Outlook { boost: -1.0 }
    }
}

impl Replication {
    pub fn outlook(&self, geometry: &Geometry, cube: CubeId, cutoff: Threshold) -> u32 {
        let below = geometry.deepest() - cube.level();
        match self {
            Replication::None => 0,
            Replication::Outlook { boost } => {
                let share = cutoff.to_fraction().max(f64::MIN_POSITIVE);
                let levels = (-share.log2() / geometry.dimensions() as f64 + boost).ceil();
                levels.clamp(0.0, below as f64) as u32
            }
            Replication::Full { height } => height.saturating_sub(cube.level()).min(below),
        }
    }
}

/// `none`, `outlook`, `outlook(0.5)`, `full` or `full(4)`.
impl fmt::Display for Replication {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replication::None => write!(out, "none"),
            Replication::Outlook { boost } => write!(out, "outlook({boost})"),
            Replication::Full { height: u32::MAX } => write!(out, "full"),
            Replication::Full { height } => write!(out, "full({height})"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("replication is none, outlook, outlook(BOOST), full or full(HEIGHT), found {0:?}")]
pub struct NoPolicy(String);

impl FromStr for Replication {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<Replication, NoPolicy> {
        let no = || NoPolicy(text.into());
        let (name, argument) = match text.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(no)?)),
            None => (text, None),
        };
        match (name, argument) {
            ("none", None) => Ok(Replication::None),
            ("outlook", None) => Ok(Replication::Outlook { boost: 0.0 }),
            ("outlook", Some(boost)) => {
                let boost = boost.trim().parse().ok().filter(|boost: &f64| boost.is_finite()).ok_or_else(no)?;
                Ok(Replication::Outlook { boost })
            }
            ("full", None) => Ok(Replication::Full { height: u32::MAX }),
            ("full", Some(height)) => Ok(Replication::Full { height: height.trim().parse().map_err(|_| no())? }),
            _ => Err(no()),
        }
    }
}

impl TryFrom<String> for Replication {
    type Error = NoPolicy;

    fn try_from(text: String) -> Result<Replication, NoPolicy> {
        text.parse()
    }
}

impl From<Replication> for String {
    fn from(policy: Replication) -> String {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlook_is_the_height_of_a_balanced_tree() {
        let geometry = Geometry::new(3).unwrap();
        let outlook = |boost| Replication::Outlook { boost };
        let level =
            |policy: Replication, share| policy.outlook(&geometry, CubeId::root(0), Threshold::from_fraction(share));
        assert_eq!(level(outlook(0.0), 1.0), 0);
        assert_eq!(level(outlook(0.0), 1.0 / 8.0), 1);
        assert_eq!(level(outlook(0.0), 1.0 / 9.0), 2);
        assert_eq!(level(outlook(1.0), 1.0 / 64.0), 3);
        assert_eq!(level(outlook(-5.0), 1.0 / 64.0), 0);
        assert_eq!(Replication::Outlook { boost: 0.0 }.outlook(&geometry, CubeId::root(0), Threshold::NONE), 32);
        assert_eq!(level(Replication::Full { height: 2 }, 1.0), 2);
        assert_eq!(level(Replication::Full { height: u32::MAX }, 1.0), 32);
    }

    #[test]
    fn policies_have_names() {
        for text in ["none", "outlook(0)", "outlook(-0.5)", "full", "full(4)"] {
            assert_eq!(text.parse::<Replication>().unwrap().to_string(), text);
        }
        assert_eq!("outlook".parse(), Ok(Replication::Outlook { boost: 0.0 }));
        for text in ["", "some", "outlook(", "outlook(nan)", "full(-1)", "full(1.5)", "none(1)"] {
            assert!(text.parse::<Replication>().is_err(), "{text}");
        }
    }
}
