//! Quantiles and confidence intervals of distributions: exact intervals for small numbers, and score
//! intervals for large numbers, where the two practically agree.

use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

const EXACT_TRIALS: f64 = 1000.0;
/// With more degrees of freedom than this, Student's t equals the normal distribution to five digits.
const NORMAL_DEGREES: f64 = 1e5;

/// The two-sided quantile of Student's t: `P(|T| <= t) = 1 - alpha`.
pub fn student(alpha: f64, degrees: f64) -> f64 {
    if degrees < 1.0 {
        return f64::INFINITY;
    }
    if degrees > NORMAL_DEGREES {
        return normal(alpha);
    }
    StudentsT::new(0.0, 1.0, degrees).expect("positive degrees").inverse_cdf(1.0 - alpha / 2.0)
}

pub fn normal(alpha: f64) -> f64 {
    Normal::standard().inverse_cdf(1.0 - alpha / 2.0)
}

/// The interval of a proportion: Clopper and Pearson (Biometrika 26, 1934), or for many trials Wilson's score
/// interval (JASA 22, 1927). `trials` may be fractional (an effective number of trials).
pub fn share(successes: f64, trials: f64, alpha: f64) -> (f64, f64) {
    if trials <= 0.0 {
        return (0.0, 1.0);
    }
    if trials > EXACT_TRIALS {
        let (z, p) = (normal(alpha), successes / trials);
        let centre = (p + z * z / (2.0 * trials)) / (1.0 + z * z / trials);
        let half = z / (1.0 + z * z / trials) * (p * (1.0 - p) / trials + (z / (2.0 * trials)).powi(2)).sqrt();
        return ((centre - half).max(0.0), (centre + half).min(1.0));
    }
    let quantile = |a: f64, b: f64, at: f64| Beta::new(a, b).expect("positive shapes").inverse_cdf(at);
    let failures = (trials - successes).max(0.0);
    let low = if successes <= 0.0 { 0.0 } else { quantile(successes, failures + 1.0, alpha / 2.0) };
    let high = if failures <= 0.0 { 1.0 } else { quantile(successes + 1.0, failures, 1.0 - alpha / 2.0) };
    (low, high)
}

/// The interval of a population size N if each record was found with probability `p`: all N for which
/// neither tail of Binomial(N, p) beyond `found` is below `alpha / 2`.
pub fn population(found: f64, p: f64, alpha: f64) -> (f64, f64) {
    if p >= 1.0 {
        return (found, found);
    }
    if found > EXACT_TRIALS {
        // Solves (found - N p)^2 = z^2 N p (1 - p) for N, with a continuity correction of half a record.
        let z = normal(alpha);
        let root = |found: f64, sign: f64| {
            let b = 2.0 * found * p + z * z * p * (1.0 - p);
            let inner = (b * b - 4.0 * p * p * found * found).max(0.0).sqrt();
            (b + sign * inner) / (2.0 * p * p)
        };
        return (root(found - 0.5, -1.0).max(found).floor(), root(found + 0.5, 1.0).ceil());
    }
    let q = 1.0 - p;
    // P(X <= found) and P(X >= found) for X ~ Binomial(n, p).
    let at_most = |n: f64| if n <= found { 1.0 } else { beta_reg(n - found, found + 1.0, q) };
    let at_least = |n: f64| if found <= 0.0 { 1.0 } else { beta_reg(found, n - found + 1.0, p) };
    let low = if found <= 0.0 { 0.0 } else { crossing(found, |n| at_least(n) > alpha / 2.0) };
    let high = (crossing(found, |n| at_most(n) <= alpha / 2.0) - 1.0).max(found);
    (low, high)
}

fn crossing(begin: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(begin) {
        return begin;
    }
    let mut step = 1.0;
    while !holds(begin + step) && step < 1e18 {
        step *= 2.0;
    }
    let (mut low, mut high) = (begin + (step / 2.0).floor(), begin + step);
    while high - low > 1.0 {
        let middle = ((low + high) / 2.0).floor();
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// The largest proportion of values that a sample of `n` may have missed: `(1 - share)^n = alpha` ("rule of
/// three").
pub fn unseen_share(n: f64, alpha: f64) -> f64 {
    1.0 - alpha.powf(1.0 / n.max(1.0))
}

/// The largest group that a sample of fraction `p` may have missed, with confidence `1 - alpha`. `rows`
/// records contain at most `rows / m` groups of size m, and each is missed with probability `(1 - p)^m`.
pub fn missed_group(rows: f64, p: f64, alpha: f64) -> f64 {
    if p >= 1.0 || rows <= 0.0 {
        return 0.0;
    }
    let missed = |m: f64| (rows / m).max(1.0).ln() + m * (-p).ln_1p() > alpha.ln();
    (crossing(1.0, |m| !missed(m)) - 1.0).min(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-4 * expected.abs().max(1e-3), "{found} is not {expected}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, expected) in [(1.0, 12.70620), (2.0, 4.302653), (5.0, 2.570582), (29.0, 2.045230)] {
            close(student(0.05, degrees), expected);
        }
        close(student(0.05, 1023.0), 1.962285);
        close(student(0.01, 10.0), 3.169273);
        close(student(0.05, 1e6), 1.959964);
        assert_eq!(student(0.05, 0.0), f64::INFINITY);
    }

    #[test]
    fn shares_are_those_of_clopper_and_pearson() {
        let (low, high) = share(10.0, 100.0, 0.05);
        close(low, 0.04900469);
        close(high, 0.1762226);
        let (low, high) = share(0.0, 30.0, 0.05);
        close(low, 0.0);
        close(high, 0.1157033);
        assert_eq!(share(30.0, 30.0, 0.05).1, 1.0);
        assert_eq!(share(0.0, 0.0, 0.05), (0.0, 1.0));
        let (exact, score) = (share(300.0, 1000.0, 0.05), share(300.3, 1001.0, 0.05));
        assert!((exact.0 - score.0).abs() < 1e-3 && (exact.1 - score.1).abs() < 1e-3);
    }

    fn tail(n: u32, p: f64, accepts: impl Fn(u32) -> bool) -> f64 {
        let mut mass = (1.0 - p).powi(n as i32);
        let mut sum = 0.0;
        for x in 0..=n {
            if accepts(x) {
                sum += mass;
            }
            mass *= (n - x) as f64 / (x + 1) as f64 * p / (1.0 - p);
        }
        sum
    }

    #[test]
    fn populations_are_those_that_the_found_number_does_not_contradict() {
        for (found, p) in [(0u32, 0.1), (1, 0.1), (3, 0.5), (7, 0.25), (20, 0.3)] {
            let believed = |n: &u32| tail(*n, p, |x| x >= found) > 0.025 && tail(*n, p, |x| x <= found) > 0.025;
            let all: Vec<u32> = (found..400).filter(believed).collect();
            let (low, high) = population(found as f64, p, 0.05);
            assert_eq!((low as u32, high as u32), (all[0], all[all.len() - 1]), "{found} at {p}");
        }
        assert_eq!(population(17.0, 1.0, 0.05), (17.0, 17.0));
        let (exact, score) = (population(1000.0, 0.01, 0.05), population(1001.0, 0.01, 0.05));
        assert!((exact.0 - score.0).abs() < 300.0 && (exact.1 - score.1).abs() < 300.0, "{exact:?} {score:?}");
    }

    #[test]
    fn groups_that_are_missed_are_small() {
        let m = missed_group(1e6, 0.01, 0.05);
        let chance = |m: f64| (1e6 / m) * 0.99f64.powf(m);
        assert!(chance(m + 1.0) <= 0.05 && chance(m) > 0.05);
        assert_eq!(missed_group(1e6, 1.0, 0.05), 0.0);
        close(unseen_share(100.0, 0.05), 0.0295130);
    }
}
