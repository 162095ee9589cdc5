//! Estimates of the number of rows below a priority, from the metadata of runs.
//!
//! Priorities are uniform, so a run of n rows over the priorities [a, b] has about n (t - a) / (b - a) rows
//! below t: a ramp. The sum over runs is piecewise linear, and a cutoff is where it reaches the capacity.

/// Rows spread evenly over a range of priorities, as fractions of all priorities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    pub first: f64,
    pub last: f64,
    pub rows: f64,
}

impl Ramp {
    pub fn of_run(rows: u64, (first, last): (u64, u64)) -> Ramp {
        let fraction = |priority: u64| priority as f64 / 18_446_744_073_709_551_616.0;
        Ramp { first: fraction(first), last: fraction(last), rows: rows as f64 }
    }

    pub fn below(&self, fraction: f64) -> f64 {
        match (fraction <= self.first, fraction >= self.last) {
            (true, _) => 0.0,
            (_, true) => self.rows,
            _ => self.rows * ((fraction - self.first) / (self.last - self.first)),
        }
    }
}

/// Returns the lowest fraction up to `high` with `wanted` rows below it, or `high` if there are fewer.
///
/// Bisection: a ramp below the interval becomes a constant, and a ramp that spans it a slope. Each half keeps only the
/// ramps that begin or end in it, so the total work is about two passes over all ramps.
pub fn where_reached(mut ramps: Vec<Ramp>, wanted: f64, high: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, high);
    // Rows below `low`, and rows per fraction above it, of removed ramps.
    let (mut level, mut slope) = (0.0, 0.0);
    loop {
        ramps.retain(|ramp| {
            let before = ramp.last < low || (ramp.last == low && ramp.first < low);
            let through = !before && ramp.first <= low && ramp.last >= high;
            if before {
                level += ramp.rows;
            } else if through {
                level += ramp.below(low);
                slope += ramp.rows / (ramp.last - ramp.first);
            }
            !before && !through && ramp.first < high
        });
        if ramps.is_empty() {
            let reached = low + (wanted - level) / slope;
            return if reached.is_finite() { reached.clamp(low, high) } else { high };
        }
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return high;
        }
        let below = level + slope * (middle - low) + ramps.iter().map(|ramp| ramp.below(middle)).sum::<f64>();
        if below < wanted {
            level += slope * (middle - low);
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(ramps: &[Ramp], fraction: f64) -> f64 {
        ramps.iter().map(|ramp| ramp.below(fraction)).sum()
    }

    proptest! {
        #[test]
        fn the_sum_meets_what_is_wanted(
            runs in prop::collection::vec((1u64..5000, any::<u64>(), 0u32..64, any::<u64>()), 0..60),
            wanted in 1.0f64..20_000.0,
            high in 0.0001f64..=1.0,
        ) {
            let ramps: Vec<Ramp> = runs.iter().map(|(rows, first, narrow, width)| {
                Ramp::of_run(*rows, (*first, first.saturating_add(width >> narrow)))
            }).collect();
            let found = where_reached(ramps.clone(), wanted, high);
            prop_assert!((0.0..=high).contains(&found));
            if sum(&ramps, high) < wanted {
                prop_assert!(found == high);
            } else {
                prop_assert!(sum(&ramps, found * (1.0 + 1e-12) + 1e-300) >= wanted * (1.0 - 1e-6), "{found}");
                prop_assert!(sum(&ramps, found * (1.0 - 1e-12)) <= wanted * (1.0 + 1e-6), "{found}");
            }
        }
    }

    #[test]
    fn a_run_of_one_priority_is_a_step() {
        let step = Ramp::of_run(10, (1 << 62, 1 << 62));
        assert_eq!((step.below(0.25), step.below(0.2500001)), (0.0, 10.0));
        assert_eq!(where_reached(vec![step], 5.0, 1.0), 0.25f64.next_up());
        assert_eq!(where_reached(vec![], 5.0, 0.5), 0.5);
    }
}
