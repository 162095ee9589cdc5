//! The number of records of a region, from some of the runs that lie across its edge.
//!
//! Runs inside the region are counted by the list of runs. Of those across its edge the list says how many records they
//! have and around which box, so about how many lie inside: as much as the region covers of that box. Some of these
//! runs are drawn and counted. Each is drawn by itself (Poisson sampling: Särndal, Swensson and Wretman, Model Assisted
//! Survey Sampling, 1992, 3.5), with a probability that goes with how much it may be off, so that none that is not drawn
//! weighs much. Records get denser or thinner across a face of the region in much the same way along it: what the runs
//! across one face have more or less than expected is a ratio, and what is left after that stands for the runs that were
//! not counted (the generalised regression estimator: ibid., 6.4). However records lie in the runs, it leans to no
//! side; where they lie evenly some thirty runs tell the number of a box of millions to a tenth of a percent.

use std::collections::BTreeMap;

use kubist_types::population::Number;

/// So many runs tell whether it is worth to go on, and so many what the error is.
const FIRST_RUNS: f64 = 16.0;
const LEAST_RUNS: f64 = 32.0;
/// So many runs across a face have a ratio of their own.
const RUNS_OF_FACE: f64 = 6.0;
/// The least variance of a record's being inside that is reckoned with, however little the region covers or leaves of
/// the box around a run: records may all lie there.
const LEAST_VARIANCE: f64 = 0.05;
/// Where runs that were counted agree with what was expected of them, the others may be off by this part of what they
/// would be if records lay evenly.
const LEAST_PART: f64 = 0.1;
/// Where more than this part of them would be drawn all are: then the number is exact.
const MOST_RUNS: f64 = 0.5;
/// As much more is drawn as what was counted calls for, because that is an estimate itself.
const MARGIN: f64 = 1.3;
/// Runs that are fewer than this times those that were counted would hardly tell more.
const LEAST_GROWTH: f64 = 1.2;
/// Runs across several faces.
const SEVERAL: u64 = u64::MAX;

/// A run across the edge, as the list of runs knows it.
pub struct Crossing {
    pub rows: f64,
    /// How many of these lie inside, about.
    pub expected: f64,
    /// The faces that cut the box around it, a bit each.
    pub faces: u64,
    /// Of what it is, as good as chance.
    pub hash: u64,
}

/// How well a number is to be told.
#[derive(Clone, Copy)]
pub struct Wish {
    /// The error that is wanted.
    pub error: f64,
    /// The largest that serves.
    pub enough: f64,
    /// Records of runs that may be counted.
    pub most_rows: f64,
}

/// Runs across the edge of a region, and how many records were found in some of them.
pub struct Edge {
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
    face: u64,
    /// About how much the expected number is off.
    size: f64,
    /// Uniform in [0, 1): it is drawn if its probability is higher.
    chance: f64,
    counted: Option<f64>,
}

/// How many records runs have for each that was expected.
struct Ratios {
    of_face: BTreeMap<u64, f64>,
    of_others: f64,
}

impl Edge {
    pub fn new(runs: impl Iterator<Item = Crossing>) -> Edge {
        let run = |Crossing { rows, expected, faces, hash }: Crossing| {
            let share = expected / rows;
            Run {
                rows,
                expected,
                face: if faces.count_ones() > 1 { SEVERAL } else { faces },
                size: (rows * (share * (1.0 - share)).max(LEAST_VARIANCE)).sqrt(),
                chance: (hash >> 11) as f64 / (1u64 << 53) as f64,
                counted: None,
            }
        };
        let runs: Vec<Run> = runs.map(run).collect();
        Edge { size: runs.iter().map(|run| run.size).sum(), runs, rate: 0.0 }
    }

    /// The runs to count next; `None` once the number is as is wanted, or no wish can be met.
    pub fn draw(&self, wish: &Wish) -> Option<Drawn> {
        if self.runs.is_empty() || self.rate.is_infinite() {
            return None;
        }
        let rate = match (self.rate == 0.0, self.error()) {
            (true, _) if self.rows(self.serving(wish.enough)) > wish.most_rows => return None,
            (true, _) => FIRST_RUNS / self.size,
            (_, error) if error <= wish.error && self.rate >= LEAST_RUNS / self.size => return None,
            (_, error) => (self.rate * MARGIN * (error / wish.error).powi(2)).max(LEAST_RUNS / self.size),
        };
        let drawn: f64 = self.runs.iter().map(|run| run.probability(rate)).sum();
        let rate = if drawn > MOST_RUNS * self.runs.len() as f64 { f64::INFINITY } else { rate };
        let rate = match self.rows(rate) > wish.most_rows {
            false => rate,
            true if self.rate == 0.0 => return None,
            true => {
                let most = self.rate * wish.most_rows / self.rows(self.rate);
                let serves = self.error() * (self.rate / most).sqrt() <= wish.enough;
                if !serves || most < (LEAST_GROWTH * self.rate).max(LEAST_RUNS / self.size) {
                    return None;
                }
                most
            }
        };
        let open = |run: &Run| run.counted.is_none() && run.chance < run.probability(rate);
        Some(Drawn { rate, runs: (0..self.runs.len()).filter(|run| open(&self.runs[*run])).collect() })
    }

    /// The rate at which the number would be told as well as this, if records lay evenly.
    fn serving(&self, error: f64) -> f64 {
        let variance: f64 = self.runs.iter().map(|run| run.size * run.size).sum();
        self.size / (error * error + variance)
    }

    /// About how many records the runs have that are drawn at a rate.
    fn rows(&self, rate: f64) -> f64 {
        self.runs.iter().map(|run| run.rows * run.probability(rate)).sum()
    }

    /// Takes how many records each of the runs that were drawn has inside.
    pub fn count(&mut self, drawn: Drawn, rows: impl IntoIterator<Item = u64>) {
        self.rate = drawn.rate;
        drawn.runs.into_iter().zip(rows).for_each(|(run, rows)| self.runs[run].counted = Some(rows as f64));
    }

    /// The number of records, `inside` of which are in no run across the edge; without an error that can be told until
    /// enough runs were counted.
    pub fn number(&self, inside: u64) -> Number {
        if self.rate.is_infinite() {
            let counted = self.runs.iter().filter_map(|run| run.counted);
            return Number { rows: inside as f64 + counted.sum::<f64>(), error: 0.0 };
        }
        let ratios = self.ratios();
        let rows = self.runs.iter().map(|run| {
            let expected = ratios.of(run) * run.expected;
            expected + run.counted.map_or(0.0, |rows| (rows - expected) / run.probability(self.rate))
        });
        Number { rows: inside as f64 + rows.sum::<f64>(), error: self.error() }
    }

    /// Its standard error by what was counted, as much wider as the tails of Student's t are than those of the normal
    /// distribution.
    fn error(&self) -> f64 {
        if self.rate.is_infinite() || self.runs.is_empty() {
            return 0.0;
        }
        let ratios = self.ratios();
        let (mut variance, mut runs, mut least) = (0.0, 0.0, 0.0);
        for run in &self.runs {
            let probability = run.probability(self.rate);
            match run.counted {
                Some(rows) if probability < 1.0 => {
                    let away = (rows - ratios.of(run) * run.expected) / probability;
                    variance += (1.0 - probability) * away * away;
                    runs += 1.0;
                }
                Some(_) => {}
                None => least += (LEAST_PART * run.size).powi(2),
            }
        }
        // Each ratio was made to fit.
        let degrees = runs - 1.0 - ratios.of_face.len() as f64;
        match degrees > 2.0 {
            true => (variance * runs / (degrees - 2.0)).max(least).sqrt(),
            false => f64::INFINITY,
        }
    }

    fn ratios(&self) -> Ratios {
        let mut faces: BTreeMap<u64, [f64; 3]> = BTreeMap::new();
        for run in &self.runs {
            let Some(rows) = run.counted else { continue };
            let (probability, of_face) = (run.probability(self.rate), faces.entry(run.face).or_default());
            of_face[0] += 1.0;
            of_face[1] += rows / probability;
            of_face[2] += run.expected / probability;
        }
        let ratio = |found: f64, expected: f64| if expected > 0.0 { found / expected } else { 1.0 };
        let (found, expected) = faces.values().fold((0.0, 0.0), |all, face| (all.0 + face[1], all.1 + face[2]));
        let own = faces.iter().filter(|(_, [runs, _, expected])| *runs >= RUNS_OF_FACE && *expected > 0.0);
        Ratios {
            of_face: own.map(|(face, [_, found, expected])| (*face, ratio(*found, *expected))).collect(),
            of_others: ratio(found, expected),
        }
    }
}

impl Run {
    fn probability(&self, rate: f64) -> f64 {
        (rate * self.size).min(1.0)
    }
}

impl Ratios {
    fn of(&self, run: &Run) -> f64 {
        self.of_face.get(&run.face).copied().unwrap_or(self.of_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Runs across two faces: behind one records are denser inside, behind the other outside. How many each has inside.
    fn runs(random: &mut SmallRng, count: usize, uneven: f64) -> Vec<(Crossing, u64)> {
        let run = |number: usize| {
            let (rows, share): (u64, f64) = (random.random_range(50..2000), random.random_range(0.02..0.98));
            let lower = number.is_multiple_of(2);
            let denser = if lower { 1.0 + uneven } else { 1.0 - uneven };
            let chance = (share * denser / (share * denser + 1.0 - share)).clamp(0.0, 1.0);
            let inside = (0..rows).filter(|_| random.random_bool(chance)).count() as u64;
            let faces = if number.is_multiple_of(11) { 0b101 } else { 1 << lower as u64 };
            (Crossing { rows: rows as f64, expected: rows as f64 * share, faces, hash: 0 }, inside)
        };
        (0..count).map(run).collect()
    }

    /// Draws and counts until nothing is left to draw; how many rows the counted runs have besides.
    fn told(runs: &[(Crossing, u64)], wish: &Wish, random: &mut SmallRng) -> (Number, f64) {
        let crossing = |(run, _): &(Crossing, u64)| Crossing { hash: random.random(), ..*run };
        let mut edge = Edge::new(runs.iter().map(crossing));
        let mut rows = 0.0;
        while let Some(drawn) = edge.draw(wish) {
            rows += drawn.runs.iter().map(|run| runs[*run].0.rows).sum::<f64>();
            let counts: Vec<u64> = drawn.runs.iter().map(|run| runs[*run].1).collect();
            edge.count(drawn, counts);
        }
        (edge.number(1_000_000), rows)
    }

    fn inside(runs: &[(Crossing, u64)]) -> f64 {
        1_000_000.0 + runs.iter().map(|(_, inside)| *inside as f64).sum::<f64>()
    }

    #[test]
    fn numbers_are_as_near_as_they_say() {
        let mut random = SmallRng::seed_from_u64(1);
        for (count, uneven, error) in [(800, 0.0, 1500.0), (800, 0.0, 800.0), (800, 0.4, 8000.0), (3000, 0.8, 40_000.0)]
        {
            let runs = runs(&mut random, count, uneven);
            let (truth, all) = (inside(&runs), runs.iter().map(|(run, _)| run.rows).sum::<f64>());
            let wish = Wish { error, enough: error, most_rows: f64::INFINITY };
            let (tries, mut held, mut sum, mut squares, mut read) = (400, 0, 0.0, 0.0, 0.0);
            for _ in 0..tries {
                let (number, rows) = told(&runs, &wish, &mut random);
                assert!(number.error <= error && (number.is_exact() == (rows == all)), "{number:?}");
                let away = number.rows - truth;
                held += (away.abs() <= 1.96 * number.error) as u32;
                (sum, squares, read) = (sum + away, squares + away * away, read + rows);
            }
            let n = tries as f64;
            let (share, mean, deviation) = (held as f64 / n, sum / n, (squares / n).sqrt());
            assert!(share > 0.95 - 4.4 * (0.95 * 0.05 / n).sqrt(), "{share} of those to {error}");
            assert!(mean.abs() < 4.4 * deviation / n.sqrt(), "{mean} on average, of those to {error}");
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
        let wish = Wish { error: 100.0, enough: 100.0, most_rows: f64::INFINITY };
        let (number, _) = told(&runs, &wish, &mut random);
        assert_eq!(number, Number { rows: inside(&runs), error: 0.0 });
        assert_eq!(told(&[], &wish, &mut random).0, Number { rows: 1_000_000.0, error: 0.0 });
    }

    #[test]
    fn no_more_is_read_than_it_is_worth() {
        let mut random = SmallRng::seed_from_u64(3);
        let runs = runs(&mut random, 3000, 0.8);
        let mut all = [0, 0];
        for (most_rows, enough) in [(10_000.0, 2000.0), (60_000.0, 2000.0), (200_000.0, 1e9), (60_000.0, 1e9)] {
            let wish = Wish { error: 1000.0, enough, most_rows };
            let (number, rows) = told(&runs, &wish, &mut random);
            // Which runs are drawn is chance.
            assert!(rows <= 1.5 * most_rows, "{rows} of at most {most_rows}");
            all[(number.error <= enough) as usize] += 1;
        }
        assert!(all[0] > 0 && all[1] > 0, "{all:?}");
    }

    /// Runs that have just what was expected say little of those that were not counted.
    #[test]
    fn agreement_is_no_proof() {
        let mut random = SmallRng::seed_from_u64(4);
        let run = |_| (Crossing { rows: 100.0, expected: 100.0, faces: 1, hash: 0 }, 100);
        let runs: Vec<(Crossing, u64)> = (0..500).map(run).collect();
        let (number, rows) =
            told(&runs, &Wish { error: 1000.0, enough: 1000.0, most_rows: f64::INFINITY }, &mut random);
        assert!(rows < 25_000.0 && number.error > 0.0 && (number.rows - inside(&runs)).abs() < 1e-6, "{number:?}");
    }
}
