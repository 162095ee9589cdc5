//! Merge policy for the levels of a paged directory. Queries read all levels, so there should be few; writers
//! should rewrite few bytes.

/// Returns the number of oldest levels to keep; the others are merged with the `new` bytes. `levels` has the bytes
/// per level, oldest first. A level stays if it has at least `least` bytes, and more than all newer levels together.
///
/// Each level is therefore larger than all newer ones together, and there are at most 2 + log2(all / `least`)
/// levels. A merge at most doubles the newer bytes and leaves them in fewer levels, so a byte is written at
/// most 1 + 2 * levels times. Levels below `least` are an exception: each call rewrites at most 2 * `least`
/// bytes in such levels.
pub fn kept(levels: &[u64], new: u64, least: u64) -> usize {
    let mut newer = levels.iter().sum::<u64>() + new;
    let goes = |bytes: &u64| {
        newer -= bytes;
        *bytes < least || newer >= *bytes
    };
    levels.iter().position(goes).unwrap_or(levels.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(levels: &mut Vec<u64>, new: u64, least: u64) -> u64 {
        let written = levels.split_off(kept(levels, new, least)).iter().sum::<u64>() + new;
        levels.push(written);
        written
    }

    fn most_levels(all: u64, least: u64) -> f64 {
        2.0 + (all as f64 / least as f64).log2().max(0.0)
    }

    #[test]
    fn equal_pieces_are_added_as_a_binary_number_is_counted() {
        let mut levels = Vec::new();
        let shapes: Vec<Vec<u64>> = (0..8)
            .map(|_| {
                step(&mut levels, 1, 1);
                levels.clone()
            })
            .collect();
        let expected: [&[u64]; 8] = [&[1], &[2], &[2, 1], &[4], &[4, 1], &[4, 2], &[4, 2, 1], &[8]];
        assert_eq!(shapes, expected);
        assert_eq!(kept(&[100, 9], 1, 10), 1);
        assert_eq!(kept(&[100, 10], 1, 10), 2);
        assert_eq!(kept(&[100, 40], 60, 10), 0);
        assert_eq!(kept(&[9], 0, 10), 0);
    }

    proptest! {
        #[test]
        fn there_are_few_levels_and_little_is_written_again(
            pieces in prop::collection::vec((0u32..24, 1u64..64), 1..200), least in 1u64..100_000,
        ) {
            let (mut levels, mut all, mut written) = (Vec::new(), 0, 0);
            for (calls, (scale, piece)) in (1u64..).zip(pieces) {
                all += piece << scale;
                written += step(&mut levels, piece << scale, least);
                prop_assert_eq!(levels.iter().sum::<u64>(), all);
                let most = most_levels(all, least);
                prop_assert!(levels.len() as f64 <= most, "{levels:?}");
                prop_assert!(written as f64 <= all as f64 * (1.0 + 2.0 * most) + (2 * least * calls) as f64, "{levels:?}");
            }
        }
    }
}
