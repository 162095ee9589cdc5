//! The measured latency (alpha, in seconds) and transfer rate (1 / beta, in bytes per second) of the service.
//!
//! Two ranges are read by one request if reading the gap takes no longer than another request: if the gap has at most
//! alpha / beta bytes (block-index paper, section IV). This holds for sequential requests. If many requests are
//! concurrent, each adds only a fraction of alpha.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The maximum gap before any measurement: 30 ms at 35 MB per second.
const FIRST_GAP: u64 = 1 << 20;
const SMALLEST_GAP: u64 = 32 << 10;
const LARGEST_GAP: u64 = 8 << 20;
/// Smaller responses are not used to measure the transfer rate.
const TELLING: u64 = 256 << 10;
/// The weight of a new measurement in the moving average.
const NEW: f64 = 0.2;

#[derive(Debug, Default)]
pub struct LatencyModel(Mutex<LatencyFit>);

#[derive(Debug, Default)]
struct LatencyFit {
    seconds: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl LatencyModel {
    /// Adds a measurement: the response began after `waited`, and reading its bytes took `reading`.
    pub fn answered(&self, waited: Duration, bytes: u64, reading: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = |old: Option<f64>, new: f64| Some(old.map_or(new, |old| old + NEW * (new - old)));
        known.seconds = joined(known.seconds, waited.as_secs_f64());
        if bytes >= TELLING && !reading.is_zero() {
            known.bytes_per_second = joined(known.bytes_per_second, bytes as f64 / reading.as_secs_f64());
        }
    }

    /// The largest gap, in bytes, that is read with its neighbours, if `parallel` requests are concurrent.
    pub fn gap(&self, parallel: usize) -> u64 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = match (known.seconds, known.bytes_per_second) {
            (Some(alpha), Some(speed)) => (alpha * speed) as u64,
            _ => FIRST_GAP,
        };
        (alone / parallel.max(1) as u64).clamp(SMALLEST_GAP, LARGEST_GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_follows_what_was_measured() {
        let latency = LatencyModel::default();
        assert_eq!(latency.gap(1), FIRST_GAP);
        let ms = Duration::from_millis;
        latency.answered(ms(20), 1 << 20, ms(10));
        let alone = ((1 << 20) as f64 * 100.0 * 0.02) as u64;
        assert_eq!(latency.gap(1), alone);
        assert_eq!(latency.gap(4), alone / 4);
        latency.answered(ms(20), 10, ms(500));
        assert_eq!(latency.gap(1), alone);
        assert_eq!(latency.gap(1000), SMALLEST_GAP);
        for _ in 0..100 {
            latency.answered(ms(0), 1 << 20, ms(1));
        }
        assert_eq!(latency.gap(1), SMALLEST_GAP);
    }
}
