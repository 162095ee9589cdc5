//! Adapts the number of concurrent requests to the measured latencies.
//!
//! While requests wait to be sent, their number equals the limit, and the rate of the cluster is the limit divided by
//! the latency (Little's law), so latencies show whether a higher limit raises the rate. From time to time a higher
//! limit is tried, and kept if the rate grows. Then a lower limit is tried, and kept if the rate stays. The limit
//! therefore settles where a queue would begin. The best limit depends on the size of requests and on the cluster
//! (key-value scalability paper, figure 7: 32, 16 and 8 for small, medium and large requests).
//!
//! The functions are pure: times are arguments.

const STEP: f64 = 1.5;
/// A step up must raise the rate by this fraction of the step.
const WORTH: f64 = 0.3;
/// A step down must keep this fraction of the rate.
const ENOUGH: f64 = 0.95;
/// Number of responses per concurrent request that measure a rate.
const WINDOW: usize = 8;
/// Number of measurements between a failed step and the next step.
const REST: u32 = 8;

#[derive(Debug)]
pub struct RequestLimit {
    limit: usize,
    least: usize,
    most: usize,
    /// Number of outstanding responses to requests that were sent before the last step.
    old: usize,
    answers: usize,
    work: f64,
    seconds: f64,
    trial: Trial,
    up_next: bool,
}

#[derive(Debug)]
enum Trial {
    /// No step is tried for this number of measurements.
    Rest(u32),
    Up(Before),
    Down(Before),
}

#[derive(Clone, Copy, Debug)]
struct Before {
    limit: usize,
    rate: f64,
}

impl RequestLimit {
    pub fn new(limit: usize, least: usize, most: usize) -> RequestLimit {
        let limit = limit.clamp(least, most);
        let (answers, work, seconds) = (0, 0.0, 0.0);
        RequestLimit { limit, least, most, old: 0, answers, work, seconds, trial: Trial::Rest(0), up_next: true }
    }

    pub fn now(&self) -> usize {
        self.limit
    }

    /// Adds a response: its work, in any unit, and its latency.
    pub fn answered(&mut self, work: f64, seconds: f64) {
        if self.least == self.most {
            return;
        }
        if self.old > 0 {
            self.old -= 1;
            return;
        }
        self.answers += 1;
        self.work += work;
        self.seconds += seconds;
        if self.answers >= WINDOW * self.limit {
            let rate = self.limit as f64 * self.work / self.seconds.max(f64::MIN_POSITIVE);
            (self.answers, self.work, self.seconds) = (0, 0.0, 0.0);
            self.judge(rate);
        }
    }

    pub fn failed(&mut self) {
        // Counts a failure once, because other concurrent requests fail for the same reason.
        if self.old == 0 {
            self.settle(self.limit / 2);
        }
    }

    fn judge(&mut self, rate: f64) {
        let grown = |before: Before| {
            let step = self.limit as f64 / before.limit as f64 - 1.0;
            rate >= before.rate * (1.0 + WORTH * step)
        };
        let now = Before { limit: self.limit, rate };
        match self.trial {
            Trial::Rest(0) => self.step(self.up_next, now),
            Trial::Rest(left) => self.trial = Trial::Rest(left - 1),
            Trial::Up(before) if grown(before) => self.step(true, now),
            Trial::Down(before) if rate >= ENOUGH * before.rate => self.step(false, now),
            Trial::Up(before) | Trial::Down(before) => self.settle(before.limit),
        }
    }

    fn step(&mut self, up: bool, now: Before) {
        self.up_next = !up;
        let limit = self.limit as f64;
        let next = if up { (limit * STEP).ceil() } else { (limit / STEP).floor() } as usize;
        let next = next.clamp(self.least, self.most);
        self.trial = match up {
            _ if next == self.limit => Trial::Rest(REST),
            true => Trial::Up(now),
            false => Trial::Down(now),
        };
        self.go(next);
    }

    fn settle(&mut self, limit: usize) {
        self.trial = Trial::Rest(REST);
        self.go(limit.clamp(self.least, self.most));
    }

    fn go(&mut self, limit: usize) {
        if limit != self.limit {
            (self.answers, self.work, self.seconds) = (0, 0.0, 0.0);
            (self.old, self.limit) = (self.limit, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Simulates a cluster that serves `best` requests in parallel, in one second each, while others wait.
    fn serve(limit: &mut RequestLimit, best: f64, answers: usize, rng: &mut SmallRng) {
        for _ in 0..answers {
            let work = 1.0 + f64::from(rng.random_range(0..32u32));
            // Latencies scatter exponentially, as in a queue with random arrivals.
            let luck = -(1.0 - rng.random::<f64>()).ln();
            limit.answered(work, work * luck * (limit.now() as f64 / best).max(1.0));
        }
    }

    #[test]
    fn it_comes_to_rest_where_more_do_not_help() {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            for (begin, best) in [(32, 6.0), (32, 24.0), (8, 100.0), (200, 12.0)] {
                let mut limit = RequestLimit::new(begin, 4, 256);
                serve(&mut limit, best, 200_000, &mut rng);
                let mut rates = Vec::new();
                for _ in 0..50 {
                    serve(&mut limit, best, 1000, &mut rng);
                    rates.push((limit.now() as f64 / best).min(1.0));
                    assert!(limit.now() as f64 <= 6.0 * best, "seed {seed}, best {best}: {}", limit.now());
                }
                let rate = rates.iter().sum::<f64>() / rates.len() as f64;
                assert!(rate > 0.75, "seed {seed}, best {best}: {rate} of what can be had");
            }
        }
    }

    #[test]
    fn it_follows_a_cluster_that_changes() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut limit = RequestLimit::new(32, 4, 256);
        for best in [8.0, 120.0, 8.0] {
            serve(&mut limit, best, 400_000, &mut rng);
            assert!((0.5..4.0).contains(&(limit.now() as f64 / best)), "{} for {best}", limit.now());
        }
    }

    #[test]
    fn failures_halve_it_once() {
        let mut limit = RequestLimit::new(32, 4, 256);
        (0..32).for_each(|_| limit.failed());
        assert_eq!(limit.now(), 16);
        let mut rng = SmallRng::seed_from_u64(1);
        serve(&mut limit, 100.0, 32, &mut rng);
        limit.failed();
        assert_eq!(limit.now(), 8);
        (0..100).for_each(|_| {
            serve(&mut limit, 100.0, 8, &mut rng);
            limit.failed();
        });
        assert_eq!(limit.now(), 4);
    }

    #[test]
    fn a_fixed_one_stays() {
        let mut limit = RequestLimit::new(7, 7, 7);
        serve(&mut limit, 100.0, 10_000, &mut SmallRng::seed_from_u64(1));
        limit.failed();
        assert_eq!(limit.now(), 7);
    }
}
