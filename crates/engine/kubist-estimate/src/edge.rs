//! Estimates the number of records in a region from a sample of the runs that cross its boundary.
//!
//! The manifest gives the exact number of records in runs inside the region. For a boundary run, the expected
//! fraction of records inside is the fraction of its bounding box that the region covers. A sample of boundary
//! runs is counted, and the ratio of counted to expected records applies to all of them (ratio estimator:
//! Cochran, Sampling Techniques, 1977, chapter 6). Runs are drawn independently, with a probability
//! proportional to their uncertainty (Poisson sampling: Särndal, Swensson and Wretman, Model Assisted Survey
//! Sampling, 1992, 3.5). For evenly distributed records, about thirty runs give the count of a box with
//! millions of records to 0.1 %.

use kubist_population::{MOST_PART, Number, Worth};

/// Number of runs for a first error estimate, and for the decision whether to continue.
const FIRST_RUNS: f64 = 16.0;
const LEAST_RUNS: f64 = 32.0;
/// Lower bound for the variance of a record being inside, because records may cluster.
const LEAST_VARIANCE: f64 = 0.05;
/// Even if all counted runs agree with the expectation, the others may deviate: this is the assumed fraction
/// of the deviation that evenly distributed records have.
const LEAST_PART: f64 = 0.1;
/// If more than this fraction of runs is needed, all are drawn, and the number is exact.
const MOST_RUNS: f64 = 0.5;
/// Factor of additional runs, because the required number is an estimate.
const MARGIN: f64 = 1.2;
/// Largest growth of a stage, because errors from few runs are often too large.
const MOST_GROWTH: f64 = 2.5;
/// Fixed cost to count a run, in examined records.
const RUN_ROWS: f64 = 48.0;
/// Counting must reduce the examined records to this fraction.
const WORTH: f64 = 0.9;

pub struct Crossing {
    pub rows: f64,
    pub expected: f64,
    pub hash: u64,
}

pub struct Edge {
    inside: f64,
    runs: Vec<Run>,
    size: f64,
    /// The inclusion probability of a run divided by its `size`.
    rate: f64,
}

pub struct Drawn {
    pub runs: Vec<usize>,
    rate: f64,
}

struct Run {
    rows: f64,
    expected: f64,
    size: f64,
    /// Uniform in [0, 1); the run is drawn if its probability is higher.
    chance: f64,
    counted: Option<f64>,
}

impl Edge {
    /// `inside` is the number of records in runs that are entirely inside the region.
    pub fn new(inside: u64, runs: impl Iterator<Item = Crossing>) -> Edge {
        let run = |Crossing { rows, expected, hash }: Crossing| {
            let share = expected / rows;
            Run {
                rows,
                expected,
                size: (rows * (share * (1.0 - share)).max(LEAST_VARIANCE)).sqrt(),
                chance: (hash >> 11) as f64 / (1u64 << 53) as f64,
                counted: None,
            }
        };
        let runs: Vec<Run> = runs.map(run).collect();
        Edge { inside: inside as f64, size: runs.iter().map(|run| run.size).sum(), runs, rate: 0.0 }
    }

    /// Chooses the next runs to count so that the total number of examined records is minimal, for the
    /// number itself and for the figures that use it. `None` once the number is accurate enough, or if
    /// counting is not worth it.
    ///
    /// If the number's error is the fraction `t` of the figures' error, the number takes `spent / t^2`
    /// examined records and the figures `known / (1 - t^2)`.
    pub fn draw(&self, worth: &Worth, part_looked_at: f64) -> Option<Drawn> {
        if self.runs.is_empty() || self.rate.is_infinite() {
            return None;
        }
        let wanted = (worth.error * self.number().rows).powi(2);
        let looked_at = |rate: f64| self.cost(rate, part_looked_at);
        let figures = |part: f64| if worth.known > 0.0 { worth.known / (1.0 - part) } else { 0.0 };
        // Runs that are not counted are assumed to be evenly filled. The variance is inversely proportional
        // to the rate.
        let (first, least) = (FIRST_RUNS / self.size, LEAST_RUNS / self.size);
        let (rate, variance) = match self.rate == 0.0 {
            true => (first, self.size / first),
            false => (self.rate, MARGIN * self.error().powi(2)),
        };
        let spent = looked_at(rate) * variance / wanted;
        let best = spent.sqrt() / (spent.sqrt() + worth.known.sqrt());
        let target = (rate * variance / (wanted * best.min(MOST_PART))).max(least);
        if target <= self.rate {
            return None;
        }
        let drawn: f64 = self.runs.iter().map(|run| run.probability(target)).sum();
        let target = if drawn > MOST_RUNS * self.runs.len() as f64 { f64::INFINITY } else { target };
        let part = if target.is_infinite() { 0.0 } else { rate * variance / target / wanted };
        let ahead = looked_at(target) - looked_at(self.rate) + figures(part);
        let now = self.error().powi(2) / wanted;
        let serves = self.rate >= least && now <= MOST_PART;
        let without = if serves { figures(now).min(worth.unknown) } else { worth.unknown };
        // With too few runs, there is no error to compare.
        let is_worth = ahead < WORTH * without;
        if !is_worth {
            return None;
        }
        let next = if self.rate == 0.0 { first } else { target.min(MOST_GROWTH * self.rate) };
        let is_nearly_all = target.is_infinite() && looked_at(next) * MOST_GROWTH > looked_at(target);
        let rate = if is_nearly_all { target } else { next };
        let open = |run: &Run| run.counted.is_none() && run.chance < run.probability(rate);
        Some(Drawn { rate, runs: (0..self.runs.len()).filter(|run| open(&self.runs[*run])).collect() })
    }

    /// The cost of counting at this rate, in examined records.
    fn cost(&self, rate: f64, part_looked_at: f64) -> f64 {
        let of_run = |run: &Run| (part_looked_at * run.rows + RUN_ROWS) * run.probability(rate);
        self.runs.iter().map(of_run).sum()
    }

    pub fn count(&mut self, drawn: Drawn, rows: impl IntoIterator<Item = u64>) {
        self.rate = drawn.rate;
        drawn.runs.into_iter().zip(rows).for_each(|(run, rows)| self.runs[run].counted = Some(rows as f64));
    }

    /// The estimated number, whose error is infinite until enough runs are counted.
    pub fn number(&self) -> Number {
        if self.rate.is_infinite() {
            let counted = self.runs.iter().filter_map(|run| run.counted);
            return Number { rows: self.inside + counted.sum::<f64>(), error: 0.0 };
        }
        let expected: f64 = self.runs.iter().map(|run| run.expected).sum();
        Number { rows: self.inside + expected * self.ratio(), error: self.error() }
    }

    /// The standard error, widened by the ratio of the tails of Student's t to the normal distribution.
    fn error(&self) -> f64 {
        if self.rate.is_infinite() || self.runs.is_empty() {
            return 0.0;
        }
        let (ratio, mut variance, mut runs, mut least) = (self.ratio(), 0.0, 0.0, 0.0);
        for run in &self.runs {
            let probability = run.probability(self.rate);
            match run.counted {
                Some(rows) if probability < 1.0 => {
                    let away = (rows - ratio * run.expected) / probability;
                    variance += (1.0 - probability) * away * away;
                    runs += 1.0;
                }
                Some(_) => {}
                None => least += (LEAST_PART * run.size).powi(2),
            }
        }
        match runs > 3.0 {
            true => (variance * runs / (runs - 3.0)).max(least).sqrt(),
            false => f64::INFINITY,
        }
    }

    fn ratio(&self) -> f64 {
        let counted = self.runs.iter().filter_map(|run| Some((run, run.counted?, run.probability(self.rate))));
        let (found, expected) = counted.fold((0.0, 0.0), |(found, expected), (run, rows, probability)| {
            (found + rows / probability, expected + run.expected / probability)
        });
        if expected > 0.0 { found / expected } else { 1.0 }
    }
}

impl Run {
    fn probability(&self, rate: f64) -> f64 {
        (rate * self.size).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn runs(random: &mut SmallRng, count: usize, uneven: f64) -> Vec<(Crossing, u64)> {
        let run = |number: usize| {
            let (rows, share): (u64, f64) = (random.random_range(50..2000), random.random_range(0.02..0.98));
            let denser = if number.is_multiple_of(2) { 1.0 + uneven } else { 1.0 - uneven };
            let chance = (share * denser / (share * denser + 1.0 - share)).clamp(0.0, 1.0);
            let inside = (0..rows).filter(|_| random.random_bool(chance)).count() as u64;
            (Crossing { rows: rows as f64, expected: rows as f64 * share, hash: 0 }, inside)
        };
        (0..count).map(run).collect()
    }

    fn told(runs: &[(Crossing, u64)], worth: &Worth, random: &mut SmallRng) -> (Number, f64) {
        let crossing = |(run, _): &(Crossing, u64)| Crossing { hash: random.random(), ..*run };
        let mut edge = Edge::new(1_000_000, runs.iter().map(crossing));
        let mut rows = 0.0;
        while let Some(drawn) = edge.draw(worth, 1.0) {
            rows += drawn.runs.iter().map(|run| runs[*run].0.rows).sum::<f64>();
            let counts: Vec<u64> = drawn.runs.iter().map(|run| runs[*run].1).collect();
            edge.count(drawn, counts);
        }
        (edge.number(), rows)
    }

    fn inside(runs: &[(Crossing, u64)]) -> f64 {
        1_000_000.0 + runs.iter().map(|(_, inside)| *inside as f64).sum::<f64>()
    }

    #[test]
    fn numbers_are_as_near_as_they_say() {
        let mut random = SmallRng::seed_from_u64(1);
        let questions = [(800, 0.0, 4000.0), (800, 0.0, 1500.0), (800, 0.4, 16_000.0), (3000, 0.8, 80_000.0)];
        for (count, uneven, error) in questions {
            let runs = runs(&mut random, count, uneven);
            let (truth, all) = (inside(&runs), runs.iter().map(|(run, _)| run.rows).sum::<f64>());
            let worth = Worth { error: error / truth, known: 100_000.0, unknown: 1e9 };
            let (tries, mut held, mut sum, mut squares, mut read) = (400, 0, 0.0, 0.0, 0.0);
            for _ in 0..tries {
                let (number, rows) = told(&runs, &worth, &mut random);
                assert!(number.error < 1.1 * error && (number.is_exact() == (rows == all)), "{number:?}");
                let away = number.rows - truth;
                held += (away.abs() <= 1.96 * number.error) as u32;
                (sum, squares, read) = (sum + away, squares + away * away, read + rows);
            }
            let n = tries as f64;
            let (share, mean, deviation) = (held as f64 / n, sum / n, (squares / n).sqrt());
            assert!(share > 0.95 - 4.4 * (0.95 * 0.05 / n).sqrt(), "{share} of those to {error}");
            assert!(
                mean.abs() < 0.2 * deviation + 4.4 * deviation / n.sqrt(),
                "{mean} on average, of those to {error}"
            );
            assert!(
                deviation < error && read / n < 0.5 * all,
                "{deviation} to {error}, {} of the rows",
                read / n / all
            );
        }
    }

    #[test]
    fn few_runs_are_all_counted() {
        let mut random = SmallRng::seed_from_u64(2);
        let runs = runs(&mut random, 20, 0.3);
        let worth = Worth { error: 3e-4, known: 10_000.0, unknown: 1e9 };
        let (number, _) = told(&runs, &worth, &mut random);
        assert_eq!(number, Number { rows: inside(&runs), error: 0.0 });
        assert_eq!(told(&[], &worth, &mut random).0, Number { rows: 1_000_000.0, error: 0.0 });
    }

    #[test]
    fn no_more_is_looked_at_than_it_is_worth() {
        let mut random = SmallRng::seed_from_u64(3);
        let runs = runs(&mut random, 3000, 0.8);
        let mut read = vec![];
        for unknown in [10_000.0, 40_000.0, 150_000.0, 1e7] {
            let worth = Worth { error: 30_000.0 / inside(&runs), known: 0.2 * unknown, unknown };
            let (number, rows) = told(&runs, &worth, &mut random);
            assert!(rows <= 1.5 * unknown, "{rows} of {unknown}");
            assert!(number.error < 33_000.0 || unknown < 1e7, "{rows} {number:?}");
            read.push(rows);
        }
        assert!(read[0] == 0.0 && read[3] > 0.0, "{read:?}");
    }

    /// Runs that match the expectation exactly prove little about uncounted runs.
    #[test]
    fn agreement_is_no_proof() {
        let mut random = SmallRng::seed_from_u64(4);
        let run = |_| (Crossing { rows: 100.0, expected: 100.0, hash: 0 }, 100);
        let runs: Vec<(Crossing, u64)> = (0..500).map(run).collect();
        let worth = Worth { error: 3e-3, known: 10_000.0, unknown: 1e6 };
        let (number, rows) = told(&runs, &worth, &mut random);
        assert!(rows < 25_000.0 && number.error > 0.0 && (number.rows - inside(&runs)).abs() < 1e-6, "{number:?}");
    }
}
