//! Division of a cluster's token ring into shares that are each read from one host.
//!
//! A run is at the token of its first bytes, on the hosts that store this token. A share is a set of token
//! ranges, and the shares divide the whole ring, so each run is in exactly one share even if hosts change.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubist_store::ReplicaLocation;

/// Approximate number of token ranges per share; more ranges give more even shares.
const PIECES: f64 = 8.0;

/// The token ranges include their bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    pub tokens: Vec<(i64, i64)>,
    pub rows: f64,
    /// Hosts that store most of the rows, best first.
    pub hosts: Vec<String>,
}

struct Stretch {
    tokens: (i64, i64),
    rows: f64,
    hosts: Arc<[String]>,
}

/// Shares have similar row counts, where `lying` lists the rows at each location.
pub fn cut(lying: Vec<(ReplicaLocation, f64)>, shares: usize) -> Vec<Share> {
    let all: BTreeSet<&String> = lying.iter().flat_map(|(home, _)| home.hosts.iter()).collect();
    let all: Vec<String> = all.into_iter().cloned().collect();
    let rows: f64 = lying.iter().map(|(_, rows)| rows).sum();
    let mut stretches = stretches(lying, rows / (shares as f64 * PIECES));
    stretches.sort_by(|a, b| b.rows.total_cmp(&a.rows).then(a.tokens.cmp(&b.tokens)));
    let mut cut: Vec<(Vec<Stretch>, f64)> = (0..shares).map(|_| (Vec::new(), 0.0)).collect();
    for stretch in stretches {
        // A range that no assigned host stores goes to any share.
        let is_near = |place: usize| stretch.hosts.contains(&all[place % all.len()]);
        let lighter = |a: &usize, b: &usize| cut[*a].1.total_cmp(&cut[*b].1).then(a.cmp(b));
        let near = (0..shares).filter(|place| !all.is_empty() && is_near(*place)).min_by(lighter);
        let place = near.or_else(|| (0..shares).min_by(lighter)).unwrap_or(0);
        cut[place].1 += stretch.rows;
        cut[place].0.push(stretch);
    }
    cut.into_iter().map(|(stretches, rows)| share(stretches, rows)).collect()
}

/// Joins neighbours with equal hosts, up to `heaviest` rows; together the ranges cover the ring.
fn stretches(mut lying: Vec<(ReplicaLocation, f64)>, heaviest: f64) -> Vec<Stretch> {
    lying.sort_by_key(|(one, ..)| one.token);
    let mut stretches: Vec<Stretch> = Vec::new();
    for (ReplicaLocation { token, hosts }, rows) in lying {
        match stretches.last_mut() {
            Some(last) if last.tokens.1 == token || (last.hosts == hosts && last.rows + rows <= heaviest) => {
                last.tokens.1 = token;
                last.rows += rows;
            }
            last => {
                let first = last.map_or(i64::MIN, |last| last.tokens.1 + 1);
                stretches.push(Stretch { tokens: (first, token), rows, hosts });
            }
        }
    }
    match stretches.last_mut() {
        Some(last) => last.tokens.1 = i64::MAX,
        None => stretches.push(Stretch { tokens: (i64::MIN, i64::MAX), rows: 0.0, hosts: [].into() }),
    }
    stretches
}

fn share(mut stretches: Vec<Stretch>, rows: f64) -> Share {
    stretches.sort_by_key(|stretch| stretch.tokens);
    let hosts = nearest(stretches.iter().map(|stretch| (&stretch.hosts, stretch.rows)));
    let mut tokens: Vec<(i64, i64)> = Vec::new();
    for stretch in stretches {
        match tokens.last_mut() {
            Some(last) if last.1.checked_add(1) == Some(stretch.tokens.0) => last.1 = stretch.tokens.1,
            _ => tokens.push(stretch.tokens),
        }
    }
    Share { tokens, rows, hosts }
}

/// Hosts with more than half of the rows, most rows first.
pub fn nearest<'a>(lying: impl Iterator<Item = (&'a Arc<[String]>, f64)>) -> Vec<String> {
    let (mut kept, mut all): (BTreeMap<&String, f64>, f64) = (BTreeMap::new(), 0.0);
    for (hosts, rows) in lying {
        all += rows;
        hosts.iter().for_each(|host| *kept.entry(host).or_default() += rows);
    }
    let mut most: Vec<(&String, f64)> = kept.into_iter().filter(|(_, rows)| 2.0 * rows > all).collect();
    most.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal));
    most.into_iter().map(|(host, _)| host.clone()).collect()
}

/// The ranges must be sorted.
pub fn holds(tokens: &[(i64, i64)], token: i64) -> bool {
    let after = tokens.partition_point(|(first, _)| *first <= token);
    after > 0 && token <= tokens[after - 1].1
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn lying(hosts: usize, places: usize, rng: &mut SmallRng) -> Vec<(ReplicaLocation, f64)> {
        let mut ring: Vec<(i64, usize)> = (0..8 * hosts).map(|place| (rng.random(), place % hosts)).collect();
        ring.sort_unstable();
        let home = |token: i64| {
            let after = ring.partition_point(|(end, _)| *end < token);
            let mut kept: Vec<String> = Vec::new();
            for step in 0..ring.len() {
                let host = format!("10.0.0.{}", ring[(after + step) % ring.len()].1);
                if kept.len() < 3.min(hosts) && !kept.contains(&host) {
                    kept.push(host);
                }
            }
            ReplicaLocation { token, hosts: kept.into() }
        };
        (0..places).map(|_| (home(rng.random()), rng.random_range(1.0..100.0))).collect()
    }

    #[test]
    fn shares_are_the_whole_ring_and_near() {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            for (hosts, shares) in [(1, 4), (3, 3), (3, 7), (12, 12), (12, 24)] {
                let lying = lying(hosts, 3000, &mut rng);
                let all: f64 = lying.iter().map(|(_, rows)| rows).sum();
                let cut = cut(lying.clone(), shares);
                assert_eq!(cut.len(), shares);
                let mut tokens: Vec<(i64, i64)> = cut.iter().flat_map(|share| share.tokens.clone()).collect();
                tokens.sort_unstable();
                assert_eq!((tokens[0].0, tokens[tokens.len() - 1].1), (i64::MIN, i64::MAX));
                assert!(tokens.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
                for share in &cut {
                    let inside = || lying.iter().filter(|(home, _)| holds(&share.tokens, home.token));
                    let rows: f64 = inside().map(|(_, rows)| rows).sum();
                    assert!((rows - share.rows).abs() < 1e-6 * all);
                    let fair = all / shares as f64;
                    assert!((0.6..1.4).contains(&(rows / fair)), "seed {seed}: {rows} of {fair}");
                    let first = &share.hosts[0];
                    let near: f64 = inside().filter(|(home, _)| home.hosts.contains(first)).map(|(_, rows)| rows).sum();
                    assert_eq!(near, rows, "seed {seed}: {first} keeps {near} of {rows}");
                }
            }
        }
    }

    #[test]
    fn few_shares_of_many_hosts_are_still_everything() {
        let lying = lying(12, 100, &mut SmallRng::seed_from_u64(1));
        let cut = cut(lying, 2);
        let tokens: usize = cut.iter().map(|share| share.tokens.len()).sum();
        assert!(tokens > 2 && cut.iter().all(|share| !share.tokens.is_empty()));
    }

    #[test]
    fn an_empty_ring_is_one_share() {
        let cut = cut(Vec::new(), 3);
        assert_eq!(cut[0].tokens, [(i64::MIN, i64::MAX)]);
        assert_eq!(cut[1..], [Share::default(), Share::default()]);
    }

    #[test]
    fn one_place_is_not_cut() {
        let home = ReplicaLocation { token: 5, hosts: ["a".to_string()].into() };
        let cut = cut(vec![(home.clone(), 10.0), (home, 10.0)], 2);
        assert_eq!((cut[0].tokens.as_slice(), cut[0].rows), (&[(i64::MIN, i64::MAX)][..], 20.0));
        assert!(holds(&cut[0].tokens, i64::MAX) && !holds(&cut[1].tokens, 0));
    }
}
