//! The number of records of a region, from some of the runs that lie across its edge.
//!
//! Runs inside the region are counted by the list of runs. Of those across its edge the list says how many records they
//! have and around which box, so about how many lie inside: as much as the region covers of that box. Some of these
//! runs are drawn and counted, and what they have for each record that was expected stands for all (the ratio
//! estimator: Cochran, Sampling Techniques, 1977, chapter 6). Each is drawn by itself (Poisson sampling: Särndal, Swensson
//! and Wretman, Model Assisted Survey Sampling, 1992, 3.5), with a probability that goes with how much it may be off, so
//! that none that is not drawn weighs much. Where records lie evenly some thirty runs tell the number of a box of
//! millions to a tenth of a percent; where they do not, the error says so.

use kubist_population::{MOST_PART, Number, Worth};

/// So many runs tell whether it is worth to go on, and so many what the error is.
const FIRST_RUNS: f64 = 16.0;
const LEAST_RUNS: f64 = 32.0;
/// The least variance of a record's being inside that is reckoned with, however little the region covers or leaves of
/// the box around a run: records may all lie there.
const LEAST_VARIANCE: f64 = 0.05;
/// Where runs that were counted agree with what was expected of them, the others may be off by this part of what they
/// would be if records lay evenly.
const LEAST_PART: f64 = 0.1;
/// Where more than this part of them would be drawn all are: then the number is exact.
const MOST_RUNS: f64 = 0.5;
/// As much more is drawn as what was counted calls for, because that is an estimate itself.
const MARGIN: f64 = 1.2;
/// So many times as many runs are counted at once: what few of them say of the error is often too much.
const MOST_GROWTH: f64 = 2.5;
/// What counting a run takes besides, in records that are looked at.
const RUN_ROWS: f64 = 48.0;
/// What is looked at for the number must leave no more to look at than this part of what it would be without.
const WORTH: f64 = 0.9;

/// A run across the edge, as the list of runs knows it.
pub struct Crossing {
    pub rows: f64,
    /// How many of these lie inside, about.
    pub expected: f64,
    /// Of what it is, as good as chance.
    pub hash: u64,
}

/// Runs across the edge of a region, and how many records were found in some of them.
pub struct Edge {
    /// Records that are in none of them.
    inside: f64,
    runs: Vec<Run>,
    /// What runs are off by in all, about.
    size: f64,
    /// Runs are drawn by this times their size.
    rate: f64,
}

/// Runs to be counted.
pub struct Drawn {
    /// By position.
    pub runs: Vec<usize>,
    rate: f64,
}

struct Run {
    rows: f64,
    expected: f64,
    /// About how much the expected number is off.
    size: f64,
    /// Uniform in [0, 1): it is drawn if its probability is higher.
    chance: f64,
    counted: Option<f64>,
}

impl Edge {
    /// Of a region with so many records in runs that lie inside it.
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

    /// The runs to count next, so that all that is looked at is least: for the number, of which runs a part is looked at,
    /// and for figures, whose error it must not fill. `None` once it is well enough known, or never will be.
    ///
    /// With an error of the part `t` of that of the figures `spent / t^2` records are looked at for the number, and
    /// `known / (1 - t^2)` for the figures.
    pub fn draw(&self, worth: &Worth, part_looked_at: f64) -> Option<Drawn> {
        if self.runs.is_empty() || self.rate.is_infinite() {
            return None;
        }
        let wanted = (worth.error * self.number().rows).powi(2);
        let looked_at = |rate: f64| self.cost(rate, part_looked_at);
        // With a number whose error has such a part of the square of theirs, figures take so many.
        let figures = |part: f64| if worth.known > 0.0 { worth.known / (1.0 - part) } else { 0.0 };
        // What was not counted yet is as much off as if records lay evenly. The variance goes with the rate.
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
        // No error can be told of very few runs: then neither can what more of them are worth.
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

    /// About what it takes to count the runs that are drawn at a rate, in records that are looked at.
    fn cost(&self, rate: f64, part_looked_at: f64) -> f64 {
        let of_run = |run: &Run| (part_looked_at * run.rows + RUN_ROWS) * run.probability(rate);
        self.runs.iter().map(of_run).sum()
    }

    /// Takes how many records each of the runs that were drawn has inside.
    pub fn count(&mut self, drawn: Drawn, rows: impl IntoIterator<Item = u64>) {
        self.rate = drawn.rate;
        drawn.runs.into_iter().zip(rows).for_each(|(run, rows)| self.runs[run].counted = Some(rows as f64));
    }

    /// The number of records of the region; without an error that can be told until enough runs were counted.
    pub fn number(&self) -> Number {
        if self.rate.is_infinite() {
            let counted = self.runs.iter().filter_map(|run| run.counted);
            return Number { rows: self.inside + counted.sum::<f64>(), error: 0.0 };
        }
        let expected: f64 = self.runs.iter().map(|run| run.expected).sum();
        Number { rows: self.inside + expected * self.ratio(), error: self.error() }
    }

    /// Its standard error by what was counted, as much wider as the tails of Student's t are than those of the normal
    /// distribution.
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

    /// How many records the runs have for each that was expected.
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

    /// Runs, in half of which records are denser inside and in half outside. How many each has inside.
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

    /// Draws and counts until nothing is left to draw; how many rows the counted runs have besides.
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
            // Which runs are drawn is chance, and what they tell of the error.
            assert!(rows <= 1.5 * unknown, "{rows} of {unknown}");
            assert!(number.error < 33_000.0 || unknown < 1e7, "{rows} {number:?}");
            read.push(rows);
        }
        assert!(read[0] == 0.0 && read[3] > 0.0, "{read:?}");
    }

    /// Runs that have just what was expected say little of those that were not counted.
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
