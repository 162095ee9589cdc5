//! Fits the model's constants to measurements, by least squares of relative errors, because times span three orders of
//! magnitude.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::database::{Line, RequestTime, Speedup};
use crate::model::Model;

/// Two lines replace one if they reduce the squared errors below this fraction.
const WORTH_A_BEND: f64 = 0.25;
/// Smallest number of request sizes on either side of a bend.
const SIZES_OF_A_LINE: usize = 4;
/// The fit prefers fewer parallel requests if they reach this fraction of the best throughput.
const AS_GOOD: f64 = 0.95;
/// The client's cost is measured with at least this many requests in flight, so that the client does not wait.
const BUSY: u32 = 4;

/// A measurement of requests with the same size and a fixed number in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub size: f64,
    pub in_flight: u32,
    pub requests: u32,
    pub seconds: f64,
    /// CPU time of the client.
    pub client_seconds: f64,
}

impl Measured {
    fn ms(&self) -> f64 {
        self.seconds * 1e3 / f64::from(self.requests)
    }

    fn client_ms(&self) -> f64 {
        self.client_seconds * 1e3 / f64::from(self.requests)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub model: Model,
    pub nodes: u32,
    pub requests: Vec<Residual>,
    pub levels: Vec<Level>,
    pub client: Vec<Residual>,
}

/// A measured time (the median of repetitions) and the model's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    pub size: f64,
    pub measured_ms: f64,
    pub fitted_ms: f64,
}

/// Smallest number of parallel requests, over all nodes, that nearly reaches the best throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub size: f64,
    pub in_flight: u32,
    /// The throughput of a node, relative to one request at a time on the cluster.
    pub speedup: f64,
    pub fitted: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a fit needs single requests of at least two sizes")
    }
}

impl std::error::Error for Unfit {}

impl Fit {
    /// Fits the model to measurements of `nodes` nodes, where `decode_ms` is the client's decoding time per element.
    ///
    /// # Errors
    ///
    /// [`Unfit`] if single requests of fewer than two sizes were measured.
    pub fn of(measured: &[Measured], nodes: u32, decode_ms: f64) -> Result<Fit, Unfit> {
        let single = by_size(measured.iter().filter(|one| one.in_flight == 1), Measured::ms);
        if single.len() < 2 {
            return Err(Unfit);
        }
        let request = request_time(&single);
        let (speedup, levels) = speedup(measured, &single, nodes);
        let busy = measured.iter().any(|one| one.in_flight >= BUSY);
        let client = by_size(measured.iter().filter(|one| !busy || one.in_flight >= BUSY), Measured::client_ms);
        let spent = line(&client);
        let residual = |time: &dyn Fn(f64) -> f64, (size, ms): &(f64, f64)| Residual {
            size: *size,
            measured_ms: *ms,
            fitted_ms: time(*size),
        };
        Ok(Fit {
            model: Model {
                request,
                speedup,
                send_ms: spent.ms,
                fetch: Line { ms: 0.0, ms_per_element: spent.ms_per_element + decode_ms },
            },
            nodes,
            requests: single.iter().map(|point| residual(&|size| request.at(size), point)).collect(),
            levels,
            client: client.iter().map(|point| residual(&|size| spent.at(size), point)).collect(),
        })
    }

    /// The best number of requests in flight for one client and `nodes` nodes: the measured number at the nearest
    /// size, scaled by the number of nodes.
    pub fn in_flight(&self, size: f64, nodes: u32) -> u32 {
        let distance = |level: &&Level| (level.size / size).ln().abs();
        let nearest = self.levels.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map_or(1, |level| (level.in_flight * nodes).div_ceil(self.nodes))
    }

    /// The mean relative error of single requests: 0.1 is 10 %.
    pub fn error(&self) -> f64 {
        let error = |one: &Residual| (one.fitted_ms / one.measured_ms - 1.0).abs();
        self.requests.iter().map(error).sum::<f64>() / self.requests.len() as f64
    }
}

fn by_size<'a>(measured: impl Iterator<Item = &'a Measured>, figure: fn(&Measured) -> f64) -> Vec<(f64, f64)> {
    let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for one in measured {
        // The bit patterns of positive floats have the order of the numbers.
        sizes.entry(one.size.to_bits()).or_default().push(figure(one));
    }
    let median = |(size, mut figures): (u64, Vec<f64>)| {
        figures.sort_by(f64::total_cmp);
        (f64::from_bits(size), (figures[(figures.len() - 1) / 2] + figures[figures.len() / 2]) / 2.0)
    };
    sizes.into_iter().map(median).collect()
}

fn line(points: &[(f64, f64)]) -> Line {
    let weights = points.iter().map(|(_, ms)| 1.0 / (ms * ms).max(f64::MIN_POSITIVE));
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((x, y), weight) in points.iter().zip(weights) {
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let ms_per_element = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    let ms = (wy - ms_per_element * wx) / w;
    match (ms >= 0.0, ms_per_element >= 0.0) {
        (true, true) => Line { ms, ms_per_element },
        (false, _) => Line { ms: 0.0, ms_per_element: wxy / wxx },
        _ => Line { ms: wy / w, ms_per_element: 0.0 },
    }
}

fn squares(line: &Line, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(size, ms)| (line.at(*size) / ms - 1.0).powi(2)).sum()
}

fn request_time(points: &[(f64, f64)]) -> RequestTime {
    let whole = line(points);
    let bends = SIZES_OF_A_LINE..(points.len() + 1).saturating_sub(SIZES_OF_A_LINE);
    let bent = bends.map(|index| {
        let (low, high) = points.split_at(index);
        let (below, beyond) = (line(low), line(high));
        (squares(&below, low) + squares(&beyond, high), below, (low[index - 1].0, beyond))
    });
    match bent.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((left, line, beyond)) if left < WORTH_A_BEND * squares(&whole, points) => {
            RequestTime { line, beyond: Some(beyond) }
        }
        _ => RequestTime { line: whole, beyond: None },
    }
}

fn speedup(measured: &[Measured], single: &[(f64, f64)], nodes: u32) -> (Speedup, Vec<Level>) {
    let mut levels: Vec<Level> = Vec::new();
    for (size, alone) in single {
        let mut at: BTreeMap<u32, Vec<Measured>> = BTreeMap::new();
        for one in measured.iter().filter(|one| one.size == *size) {
            at.entry(one.in_flight).or_default().push(*one);
        }
        let median = |of: &[Measured]| by_size(of.iter(), Measured::ms)[0].1;
        let ms: Vec<(u32, f64)> = at.iter().map(|(in_flight, of)| (*in_flight, median(of))).collect();
        let best = ms.iter().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
        let (in_flight, _) = ms.iter().find(|(_, ms)| best / ms >= AS_GOOD).expect("the best is one of them");
        let speedup = alone / best / f64::from(nodes);
        levels.push(Level { size: *size, in_flight: *in_flight, speedup, fitted: 0.0 });
    }
    let count = levels.len() as f64;
    let mean = |of: &dyn Fn(&Level) -> f64| levels.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|level| level.size.ln()), mean(&|level| level.speedup));
    let spread = mean(&|level| (level.size.ln() - x).powi(2));
    let per_ln_element = mean(&|level| (level.size.ln() - x) * (level.speedup - y)) / spread;
    let least = levels.iter().map(|level| level.speedup).fold(f64::INFINITY, f64::min);
    let speedup = Speedup { at_one_element: y - per_ln_element * x, per_ln_element, least };
    levels.iter_mut().for_each(|level| level.fitted = speedup.at(level.size));
    (speedup, levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements that follow the model with the paper's constants.
    fn printed(sizes: &[f64], nodes: u32, noise: impl Fn(usize) -> f64) -> Vec<Measured> {
        let model = Model::AS_PRINTED;
        let mut measured = Vec::new();
        for size in sizes {
            for in_flight in [1u32, 2, 4, 8, 16, 32, 64] {
                let best = model.speedup.at(*size) * f64::from(nodes);
                let ms = model.request.at(*size) / f64::from(in_flight).min(best) * noise(measured.len());
                let client_ms = 0.019 + 0.0001 * size;
                measured.push(Measured {
                    size: *size,
                    in_flight,
                    requests: 100,
                    seconds: ms / 10.0,
                    client_seconds: client_ms / 10.0,
                });
            }
        }
        measured
    }

    const SIZES: [f64; 10] = [50.0, 100.0, 200.0, 400.0, 800.0, 1400.0, 2000.0, 4000.0, 6000.0, 8000.0];

    fn near(found: f64, wanted: f64, share: f64) {
        assert!((found / wanted - 1.0).abs() <= share, "{found} for {wanted}");
    }

    #[test]
    fn what_a_model_measures_gives_the_model() {
        for nodes in [1, 3] {
            let fit = Fit::of(&printed(&SIZES, nodes, |_| 1.0), nodes, 0.0002).unwrap();
            let (found, wanted) = (fit.model, Model::AS_PRINTED);
            near(found.request.line.ms, wanted.request.line.ms, 1e-9);
            near(found.request.line.ms_per_element, wanted.request.line.ms_per_element, 1e-9);
            let (bend, line) = found.request.beyond.unwrap();
            assert_eq!(bend, 1400.0);
            near(line.ms_per_element, 0.0439, 1e-9);
            near(found.speedup.at_one_element, 12.562, 1e-9);
            near(found.speedup.per_ln_element, -1.084, 1e-9);
            near(found.send_ms, 0.019, 1e-9);
            near(found.fetch.ms_per_element, 0.0003, 1e-9);
            assert!(fit.error() < 1e-9);
            // The speedup of a node is 6.8, so 4 parallel requests are too few.
            assert_eq!(fit.in_flight(200.0, nodes), if nodes == 1 { 8 } else { 32 });
            assert_eq!(fit.in_flight(200.0, 2 * nodes), if nodes == 1 { 16 } else { 64 });
        }
    }

    #[test]
    fn noise_makes_no_bend() {
        let straight = [30.0, 60.0, 120.0, 200.0, 300.0, 500.0, 800.0, 1100.0, 1400.0];
        let noise = |index: usize| 0.9 + 0.2 * ((index as f64 * 12.9898).sin() * 43_758.545).rem_euclid(1.0);
        let fit = Fit::of(&printed(&straight, 1, noise), 1, 0.0).unwrap();
        assert_eq!(fit.model.request.beyond, None);
        assert!(fit.error() < 0.15);
        near(fit.model.request.at(400.0), Model::AS_PRINTED.request.at(400.0), 0.1);
    }

    #[test]
    fn repeated_measurements_count_by_their_median() {
        let mut measured = printed(&SIZES, 1, |_| 1.0);
        let twice = measured.clone();
        measured.extend(twice.iter().copied());
        // One of three repetitions is a hundred times slower.
        measured.extend(twice.iter().map(|one| Measured { seconds: 100.0 * one.seconds, ..*one }));
        let fit = Fit::of(&measured, 1, 0.0).unwrap();
        near(fit.model.request.line.ms, 1.163, 1e-9);
    }

    #[test]
    fn nothing_is_less_than_nothing() {
        let falling = [(1.0, 4.0), (2.0, 3.0), (3.0, 2.0)];
        assert_eq!(line(&falling).ms_per_element, 0.0);
        let steep = [(1.0, 1.0), (2.0, 4.0), (3.0, 9.0)];
        assert_eq!(line(&steep).ms, 0.0);
        assert_eq!(Fit::of(&printed(&[50.0], 1, |_| 1.0), 1, 0.0), Err(Unfit));
    }
}
