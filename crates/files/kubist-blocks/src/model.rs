//! The I/O model of block indexes: it predicts the cost of a query, and decides which byte ranges form one request.
//!
//! Source: Wu et al., "Optimizing the Query Performance of Block Index Through Data Analysis and I/O Modeling", SC17.
//! Independent values reach its upper bounds. The number of requests with merging follows from the same assumption.

use serde::{Deserialize, Serialize};

/// Maximum bytes between merged ranges, because gaps need memory, and the measurement may be wrong.
const MOST_GAP: u64 = 16 << 20;

/// The device model: a request takes `latency + bytes / bandwidth`, with `workers` concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub latency: f64,
    pub bandwidth: f64,
    pub workers: usize,
}

impl Device {
    /// The gap in bytes below which two ranges form one request (section 4.1 of the paper).
    pub fn gap(&self) -> u64 {
        let gap = self.latency * self.bandwidth;
        if gap.is_finite() && gap > 0.0 { (gap as u64).min(MOST_GAP) } else { 0 }
    }

    pub fn seconds(&self, requests: f64, bytes: f64) -> f64 {
        (requests * self.latency + bytes / self.bandwidth.max(1.0)) / self.workers.max(1) as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    pub blocks: f64,
    pub bytes: f64,
    pub requests: f64,
}

/// The expected reads for `elements` numbers of `width` bytes, if a fraction `selectivity` is selected and ranges up to
/// `gap` bytes apart are merged: propositions 3.1 to 3.3 of the paper, extended to merging.
pub fn expected(elements: u64, width: u64, block_elements: u64, selectivity: f64, gap: u64) -> Expected {
    let blocks = elements.div_ceil(block_elements.max(1)) as f64;
    let block_bytes = (block_elements * width) as f64;
    // 1 - (1 - s)^(B/w), without loss of precision for small s.
    let hit = -(block_elements as f64 * (-selectivity.clamp(0.0, 1.0)).ln_1p()).exp_m1();
    let read = blocks * hit;
    let apart = (gap as f64 / block_bytes).floor();
    // A request begins at a hit block if the last `apart` + 1 blocks were not hit.
    let requests = hit + (blocks - 1.0).max(0.0) * hit * (1.0 - hit).powf(apart + 1.0);
    // Merged requests also read blocks without results in short gaps.
    let between = (blocks - read) * short_gap_share(hit, apart);
    Expected { blocks: read, bytes: (read + between) * block_bytes, requests: requests.min(read.max(hit)) }
}

/// Fraction of the blocks without results that are in gaps of at most `apart` blocks. Gap lengths have a geometric
/// distribution.
fn short_gap_share(hit: f64, apart: f64) -> f64 {
    if apart < 1.0 || hit <= 0.0 {
        return 0.0;
    }
    // A fraction (1-S)^d (1 + d S) of the blocks without results is in gaps longer than d.
    let miss = 1.0 - hit;
    1.0 - miss.powf(apart) * (1.0 + apart * hit)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub bytes: u64,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Merges ascending byte ranges up to `gap` bytes apart into requests of at most `most` bytes.
pub fn merged(pieces: &[Piece], gap: u64, most: u64) -> Vec<Piece> {
    let mut requests: Vec<Piece> = Vec::new();
    for piece in pieces {
        match requests.last_mut() {
            Some(last) if piece.offset <= last.end().saturating_add(gap) && piece.end() - last.offset <= most => {
                last.bytes = last.end().max(piece.end()) - last.offset;
            }
            _ => requests.push(*piece),
        }
    }
    requests
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Advice {
    pub block_bytes: u64,
    pub seconds: f64,
    pub expected: Expected,
}

/// Predicted costs by block size, the fastest first.
pub fn advise(elements: u64, width: u64, selectivity: f64, device: &Device) -> Vec<Advice> {
    let mut advice: Vec<Advice> = (12..=22)
        .map(|power| {
            let block_bytes = 1u64 << power;
            let expected = expected(elements, width, (block_bytes / width).max(1), selectivity, device.gap());
            Advice { block_bytes, seconds: device.seconds(expected.requests, expected.bytes), expected }
        })
        .collect();
    advice.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn random_blocks_lie_on_the_models_line() {
        let mut random = StdRng::seed_from_u64(7);
        let (elements, width, per_block) = (1u64 << 22, 4, 64u64);
        for (selectivity, gap) in [(1e-2, 0u64), (1e-3, 0), (1e-3, 1024), (1e-4, 8192), (3e-3, 300)] {
            let mut measured = (0.0, 0.0, 0.0);
            let rounds = 8;
            for _ in 0..rounds {
                let mut pieces = Vec::new();
                for block in 0..elements / per_block {
                    if (0..per_block).any(|_| random.random::<f64>() < selectivity) {
                        pieces.push(Piece { offset: block * per_block * width, bytes: per_block * width });
                    }
                }
                let requests = merged(&pieces, gap, u64::MAX);
                let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
                measured.0 += pieces.len() as f64 / f64::from(rounds);
                measured.1 += bytes as f64 / f64::from(rounds);
                measured.2 += requests.len() as f64 / f64::from(rounds);
            }
            let line = expected(elements, width, per_block, selectivity, gap);
            for (is, should) in [(measured.0, line.blocks), (measured.1, line.bytes), (measured.2, line.requests)] {
                assert!((is / should - 1.0).abs() < 0.02, "s {selectivity}, gap {gap}: {is} beside {should}");
            }
        }
    }

    proptest! {
        #[test]
        fn merging_is_optimal(lengths in proptest::collection::vec((1u64..50, 1u64..50), 1..20), gap in 0u64..60) {
            let mut at = 0;
            let pieces: Vec<Piece> = lengths.iter().map(|(skip, bytes)| {
                let piece = Piece { offset: at + skip, bytes: *bytes };
                at = piece.end();
                piece
            }).collect();
            let requests = merged(&pieces, gap, u64::MAX);
            for piece in &pieces {
                prop_assert!(requests.iter().any(|request| request.offset <= piece.offset && piece.end() <= request.end()));
            }
            for pair in requests.windows(2) {
                prop_assert!(pair[1].offset - pair[0].end() > gap);
            }
            let cost = |bytes: u64, requests: u64| bytes + requests * gap;
            let ours = cost(requests.iter().map(|request| request.bytes).sum(), requests.len() as u64);
            for cuts in 0u32..1 << (pieces.len() - 1).min(12) {
                let mut bytes = 0;
                let mut count = 1;
                let mut first = pieces[0].offset;
                for (index, pair) in pieces.windows(2).enumerate() {
                    if index < 12 && cuts >> index & 1 == 1 {
                        bytes += pair[0].end() - first;
                        first = pair[1].offset;
                        count += 1;
                    }
                }
                bytes += pieces[pieces.len() - 1].end() - first;
                if pieces.len() <= 13 {
                    prop_assert!(ours <= cost(bytes, count));
                }
            }
        }
    }
}
