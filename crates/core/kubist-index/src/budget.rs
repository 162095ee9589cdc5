//! A common priority threshold for all writers of a step, which keeps the step within a budget.
//!
//! Each writer adds its records to a histogram of priorities. From the sum, every writer computes the same threshold:
//! the upper edge of the last bin up to which the records fit. A bin is at most 1/128 of its priority wide, so less
//! than 1 % of a large budget stays unused.
//!
//! The records below the threshold are a uniform sample, as if the threshold had been fixed in advance (Ting,
//! "Adaptive threshold sampling and unbiased estimation", arXiv 1708.04970).

use crate::priority::Threshold;

const BITS: u32 = 7;
const EVEN: usize = 1 << BITS;

pub const BINS: usize = EVEN * (64 - BITS as usize + 1);

#[inline]
pub fn bin(priority: u64) -> usize {
    match (priority >> BITS).checked_ilog2() {
        None => priority as usize,
        Some(above) => (above as usize + 1) * EVEN + ((priority >> above) as usize & (EVEN - 1)),
    }
}

pub fn edge(bin: usize) -> Threshold {
    match bin / EVEN {
        0 => Threshold::new(bin as u128),
        octave => Threshold::new(((EVEN + bin % EVEN) as u128) << (octave - 1)),
    }
}

/// Returns the largest bin edge below which the histogram has at most `budget` rows (or bytes).
pub fn threshold(bins: &[u64], budget: u64) -> Threshold {
    let mut held = 0u64;
    for (bin, more) in bins.iter().enumerate() {
        held = held.saturating_add(*more);
        if held > budget {
            return edge(bin);
        }
    }
    Threshold::ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn bins_part_all_priorities_in_their_order() {
        assert_eq!((edge(0), edge(BINS)), (Threshold::NONE, Threshold::ALL));
        for place in 0..BINS {
            let (low, high) = (edge(place).to_u128(), edge(place + 1).to_u128());
            assert!(low < high);
            assert_eq!((bin(low as u64), bin((high - 1) as u64)), (place, place), "{low}..{high}");
            assert!(high - low <= (low / 128).max(1));
            assert_eq!(Threshold::from_fraction(edge(place).to_fraction()), edge(place));
        }
    }

    #[test]
    fn a_budget_is_used_and_not_exceeded() {
        let mut random = SmallRng::seed_from_u64(3);
        for (records, budget) in [(100_000usize, 1000u64), (100_000, 50_000), (1_000_000, 2000), (500, 500), (7, 100)] {
            let priorities: Vec<u64> = (0..records).map(|_| random.random()).collect();
            let mut bins = vec![0; BINS];
            priorities.iter().for_each(|priority| bins[bin(*priority)] += 1);
            let below = threshold(&bins, budget);
            let kept = priorities.iter().filter(|priority| below.admits(**priority)).count() as u64;
            assert!(kept <= budget && kept * 100 >= budget.min(records as u64) * 95, "{kept} of {budget}");
        }
    }

    #[test]
    fn a_kept_record_does_not_move_the_threshold() {
        let mut random = SmallRng::seed_from_u64(4);
        for _ in 0..200 {
            let priorities: Vec<u64> = (0..300).map(|_| random.random()).collect();
            let mut bins = vec![0; BINS];
            priorities.iter().for_each(|priority| bins[bin(*priority)] += 1);
            let below = threshold(&bins, 40);
            let kept = *priorities.iter().min().unwrap();
            assert!(below.admits(kept));
            let elsewhere = random.random_range(0..below.to_u128()) as u64;
            bins[bin(kept)] -= 1;
            bins[bin(elsewhere)] += 1;
            assert_eq!(threshold(&bins, 40), below);
        }
    }

    #[test]
    fn nothing_fits_into_nothing_and_all_of_nothing_fits() {
        let mut bins = vec![0; BINS];
        assert_eq!(threshold(&bins, 0), Threshold::ALL);
        bins[5] = 3;
        assert_eq!(threshold(&bins, 2), edge(5));
    }
}
