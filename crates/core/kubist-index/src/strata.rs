//! Strata: how a run divides the priorities of its rows (FORMAT.md, Run).
//!
//! Halvings are for samples: for any fraction, a query reads whole strata and few other rows. Windows are for loaders
//! of random batches, which read narrow ranges `[i/128, (i+1)/128)`: all runs in a table have these edges.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::priority::Threshold;

pub const WINDOWS: u64 = 128;
const WINDOW_BITS: u32 = 64 - WINDOWS.trailing_zeros();
const MOST_HALVINGS: usize = 16;

pub fn window_start(priority: u64) -> u64 {
    priority >> WINDOW_BITS << WINDOW_BITS
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strata {
    /// Edges at `W/sqrt(2)^i`, for a cube with the cutoff W.
    #[default]
    Halvings,
    /// Edges at multiples of 1/128 and, below 1/128, at `1/128/sqrt(2)^i`.
    Windows,
}

pub const STRATA: [Strata; 2] = [Strata::Halvings, Strata::Windows];

impl Strata {
    pub fn name(self) -> &'static str {
        match self {
            Strata::Halvings => "halvings",
            Strata::Windows => "windows",
        }
    }

    pub fn is_default(&self) -> bool {
        *self == Strata::default()
    }

    /// Divides rows into strata of `[0, top)`, lowest first, and keeps their order inside a stratum. A stratum with
    /// fewer than `wanted` rows is joined with the next one.
    pub fn divide(self, rows: &[u32], top: Threshold, priorities: &[u64], wanted: usize) -> Vec<Vec<u32>> {
        if rows.len() <= wanted {
            return if rows.is_empty() { Vec::new() } else { vec![rows.to_vec()] };
        }
        joined(self.apart(rows, top, priorities), wanted)
    }

    fn apart(self, rows: &[u32], top: Threshold, priorities: &[u64]) -> Vec<Vec<u32>> {
        let (low, windows) = match self {
            Strata::Halvings => (top.to_u128(), 0),
            Strata::Windows => (1 << WINDOW_BITS, WINDOWS as usize - 1),
        };
        // The first two halvings have half of all rows, so a linear search is faster than a binary one.
        let begins: [u64; MOST_HALVINGS - 1] = std::array::from_fn(|i| halved(low, i + 1) as u64);
        let mut strata = vec![Vec::new(); MOST_HALVINGS + windows];
        for row in rows {
            let priority = priorities[*row as usize];
            let place = match (priority >> WINDOW_BITS) as usize {
                window if windows > 0 && window > 0 => MOST_HALVINGS - 1 + window,
                _ => {
                    MOST_HALVINGS - 1 - begins.iter().position(|begin| priority >= *begin).unwrap_or(MOST_HALVINGS - 1)
                }
            };
            strata[place].push(*row);
        }
        strata
    }
}

impl fmt::Display for Strata {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NoStrata(String);

impl fmt::Display for NoStrata {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} is no division into strata; they are halvings and windows", self.0)
    }
}

impl std::error::Error for NoStrata {}

impl FromStr for Strata {
    type Err = NoStrata;

    fn from_str(text: &str) -> Result<Strata, NoStrata> {
        STRATA.into_iter().find(|one| one.name() == text.trim()).ok_or_else(|| NoStrata(text.into()))
    }
}

fn joined(strata: Vec<Vec<u32>>, wanted: usize) -> Vec<Vec<u32>> {
    let mut joined: Vec<Vec<u32>> = Vec::new();
    let mut small = Vec::new();
    for stratum in strata {
        small = match small.is_empty() {
            true => stratum,
            false => merged(small, stratum),
        };
        if small.len() >= wanted {
            joined.push(std::mem::take(&mut small));
        }
    }
    if !small.is_empty() {
        joined.push(small);
    }
    joined
}

/// `top / sqrt(2)^i`, rounded down.
fn halved(top: u128, i: usize) -> u128 {
    const ROOT_OF_HALF: u128 = 3_037_000_499; // 2^32 / sqrt(2)
    let whole = top >> (i / 2);
    if i.is_multiple_of(2) { whole } else { (whole * ROOT_OF_HALF) >> 32 }
}

fn merged(a: Vec<u32>, b: Vec<u32>) -> Vec<u32> {
    let mut both: Vec<u32> = a.into_iter().chain(b).collect();
    both.sort();
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn random(rows: usize, top: Threshold) -> (Vec<u32>, Vec<u64>) {
        let mut rng = SmallRng::seed_from_u64(3);
        let priorities = (0..rows).map(|_| rng.random_range(0..top.to_u128()) as u64).collect();
        ((0..rows as u32).collect(), priorities)
    }

    #[test]
    fn strata_divide_the_priorities() {
        let top = Threshold::from_fraction(0.7);
        for (strata, expected) in [(Strata::Halvings, 8..=12), (Strata::Windows, 35..=50)] {
            let (rows, priorities) = random(5000, top);
            let found = strata.divide(&rows, top, &priorities, 100);
            assert!(expected.contains(&found.len()), "{strata}: {}", found.len());
            assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 5000);
            let of = |stratum: &Vec<u32>| stratum.iter().map(|row| priorities[*row as usize]).collect::<Vec<u64>>();
            assert!(found.windows(2).all(|pair| of(&pair[0]).iter().max() < of(&pair[1]).iter().min()));
            assert!(found.iter().all(|stratum| stratum.is_sorted()));
            assert!(found[..found.len() - 1].iter().all(|stratum| stratum.len() >= 100));
        }
    }

    #[test]
    fn windows_end_at_the_same_edges_in_every_run() {
        for top in [0.3, 0.7, 1.0] {
            let top = Threshold::from_fraction(top);
            let (rows, priorities) = random(50_000, top);
            for stratum in Strata::Windows.divide(&rows, top, &priorities, 1) {
                let window = |row: &u32| priorities[*row as usize] >> WINDOW_BITS;
                let first = window(&stratum[0]);
                assert!(stratum.iter().all(|row| window(row) == first));
            }
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for one in STRATA {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("thirds".parse::<Strata>().unwrap_err().to_string().contains("windows"));
    }
}
