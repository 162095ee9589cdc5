//! Random histories of three sites against a model: appends, steps, retractions, columns, metadata, rewrites, new
//! copies, and exchanges that are killed at any point and repeated. `HISTORIES` and `SEED` change the number.
//!
//! The model has only the numbers of commits by writer and the set of retracted commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kubist::{Cancel, Error, OptimizeOptions, Table};
use kubist_catalog::alter::NewColumn;
use kubist_sync::{SyncOptions, sync};
use kubist_types::Value;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{append, create, ids, place};

type Source = (usize, usize);
/// A commit: its writer, and its number from 1.
type Commit = (Source, usize);

struct Site {
    location: String,
    have: BTreeMap<Source, usize>,
    began_with: BTreeMap<Source, usize>,
    retracted: BTreeSet<Commit>,
}

struct World {
    rng: StdRng,
    sites: Vec<Site>,
    commits: BTreeMap<Source, Vec<(Option<i64>, Vec<i64>)>>,
    next_id: i64,
    killed: usize,
    refused: usize,
}

impl World {
    fn live(&self, site: &Site) -> Vec<Commit> {
        let all = site.have.iter().flat_map(|(source, have)| (1..=*have).map(|number| (*source, number)));
        all.filter(|commit| !site.retracted.contains(commit)).collect()
    }

    fn step(&self, commit: &Commit) -> Option<i64> {
        self.commits[&commit.0][commit.1 - 1].0
    }

    fn expected(&self, site: &Site) -> Vec<i64> {
        let live = self.live(site);
        let mut ids: Vec<i64> = live.iter().flat_map(|(of, number)| self.commits[of][number - 1].1.clone()).collect();
        ids.sort_unstable();
        ids
    }

    fn check(&self, site: usize) {
        let site = &self.sites[site];
        assert_eq!(ids(&site.location), self.expected(site), "{}", site.location);
    }

    fn append(&mut self, site: usize) {
        let source = (site, self.rng.random_range(0..2));
        let last = self.live(&self.sites[site]).into_iter().filter(|commit| commit.0 == source);
        let last = last.filter_map(|commit| self.step(&commit)).max().unwrap_or(0);
        let step = self.rng.random_bool(0.7).then(|| last + self.rng.random_range(1..=2));
        let ids: Vec<i64> = (0..self.rng.random_range(1..=12)).map(|row| self.next_id + row).collect();
        self.next_id += ids.len() as i64;
        append(&self.sites[site].location, &format!("w{}", source.1), &ids, step);
        self.commits.entry(source).or_default().push((step, ids));
        *self.sites[site].have.entry(source).or_default() += 1;
    }

    fn retract(&mut self, site: usize, step: i64) {
        Table::open(&self.sites[site].location).unwrap().retract(step).unwrap();
        let gone = self.live(&self.sites[site]);
        let gone: Vec<Commit> =
            gone.into_iter().filter(|commit| self.step(commit).is_some_and(|of| of > step)).collect();
        self.sites[site].retracted.extend(gone);
    }

    fn rewrite(&mut self, site: usize) {
        let table = Table::open(&self.sites[site].location).unwrap();
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        table.checkpoint().unwrap();
        table.clean(Duration::ZERO).unwrap();
    }

    fn alter(&mut self, site: usize) {
        let table = Table::open(&self.sites[site].location).unwrap();
        let number = self.rng.random_range(0..3i64);
        let column = NewColumn {
            name: format!("c{number}"),
            data_type: arrow_schema::DataType::Int64,
            nullable: false,
            default: Value::Int(number.into()),
            unit: None,
            accuracy: None,
        };
        // It may exist already.
        let _ = table.add_column(&column);
        table.set_metadata(None, &[(format!("note-{site}"), number.into())].into()).unwrap();
    }

    fn receive(&mut self, from: usize, to: usize) {
        let (began_with, theirs) = (self.sites[from].began_with.clone(), self.sites[from].have.clone());
        let retracted = self.sites[from].retracted.clone();
        let target = &mut self.sites[to];
        for (source, have) in theirs {
            let ours = target.have.entry(source).or_default();
            if *ours >= began_with.get(&source).copied().unwrap_or(0) {
                *ours = have.max(*ours);
            }
        }
        let has = |(source, number): &Commit| target.have.get(source).is_some_and(|have| number <= have);
        target.retracted.extend(retracted.into_iter().filter(has));
    }

    /// A sync in one direction, killed at random points and repeated until complete, where refusals are resolved as
    /// their message says.
    fn one_way(&mut self, from: usize, to: usize) {
        for _ in 0..100 {
            let after = match self.rng.random_bool(0.3) {
                true => self.rng.random_range(0..400),
                false => u64::MAX,
            };
            let checks = AtomicU64::new(0);
            let cancel = Cancel::asking(move || checks.fetch_add(1, Ordering::Relaxed) >= after);
            let options = SyncOptions { pull: false, cancel, ..SyncOptions::default() };
            let (a, b) = (self.sites[from].location.clone(), self.sites[to].location.clone());
            match sync(&a, &b, &options, &mut |_, _| {}) {
                Ok(_) => {
                    self.receive(from, to);
                    self.check(from);
                    return self.check(to);
                }
                Err(Error::Cancelled) => {
                    self.killed += 1;
                    self.check_partly(from, to);
                }
                Err(Error::Refused(_)) => {
                    self.refused += 1;
                    let gone = &self.sites[from].retracted;
                    let live = self.live(&self.sites[to]);
                    let step =
                        live.iter().filter(|commit| gone.contains(commit)).filter_map(|commit| self.step(commit));
                    let step = step.min().expect("a refusal needs rows to retract");
                    self.retract(to, step - 1);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("it never ends");
    }

    /// Each commit is here completely or not at all, and no other.
    fn check_partly(&self, from: usize, to: usize) {
        let here = ids(&self.sites[to].location);
        let found: BTreeSet<i64> = here.iter().copied().collect();
        assert_eq!(found.len(), here.len(), "a row is there twice");
        let mut known = 0;
        for (source, commits) in &self.commits {
            for (index, (_, ids)) in commits.iter().enumerate() {
                let there = ids.iter().filter(|id| found.contains(id)).count();
                assert!(there == 0 || there == ids.len(), "a part of a commit is visible");
                let (commit, of) = ((*source, index + 1), |site: usize| &self.sites[site]);
                let may = [from, to].iter().any(|site| of(*site).have.get(source).is_some_and(|have| index < *have));
                assert!(there == 0 || may);
                let is_kept = !of(from).retracted.contains(&commit) && self.live(of(to)).contains(&commit);
                assert!(there > 0 || !is_kept, "a commit was lost");
                known += there;
            }
        }
        assert_eq!(known, here.len());
    }

    fn copy(&mut self, from: usize, location: String) {
        let source = self.sites[from].location.clone();
        sync(&source, &location, &SyncOptions::default(), &mut |_, _| {}).unwrap();
        let from = &self.sites[from];
        let (have, retracted) = (from.have.clone(), from.retracted.clone());
        self.sites.push(Site { location, began_with: have.clone(), have, retracted });
    }
}

fn history(seed: u64) -> (usize, usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let location = place("site");
    create(&location, rng.random_bool(0.5));
    let first = Site { location, have: BTreeMap::new(), began_with: BTreeMap::new(), retracted: BTreeSet::new() };
    let (commits, sites) = (BTreeMap::new(), vec![first]);
    let mut world = World { rng, sites, commits, next_id: 0, killed: 0, refused: 0 };
    for _ in 0..world.rng.random_range(8..=24) {
        let (count, choice) = (world.sites.len(), world.rng.random_range(0..100));
        let site = world.rng.random_range(0..count);
        match choice {
            0..45 => world.append(site),
            45..53 => {
                let steps = world.live(&world.sites[site]).into_iter().filter_map(|commit| world.step(&commit)).max();
                let step = steps.unwrap_or(0) - world.rng.random_range(0..3);
                world.retract(site, step);
            }
            53..60 => world.rewrite(site),
            60..66 => world.alter(site),
            _ if count < 3 => world.copy(site, place("site")),
            _ => {
                let other = (site + world.rng.random_range(1..count)) % count;
                world.one_way(site, other);
            }
        }
        world.check(site);
    }
    let pairs: Vec<(usize, usize)> = (0..world.sites.len())
        .flat_map(|a| (0..world.sites.len()).filter(move |b| *b != a).map(move |b| (a, b)))
        .collect();
    for _ in 0..4 {
        for (a, b) in &pairs {
            world.one_way(*a, *b);
        }
    }
    let all: Vec<Vec<i64>> = world.sites.iter().map(|site| ids(&site.location)).collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "the sites differ");
    let gone: BTreeSet<Commit> = world.sites.iter().flat_map(|site| site.retracted.clone()).collect();
    let rest: usize = world
        .commits
        .iter()
        .flat_map(|(source, commits)| {
            commits.iter().enumerate().map(move |(index, commit)| ((*source, index + 1), commit))
        })
        .filter(|(commit, _)| !gone.contains(commit))
        .map(|(_, (_, ids))| ids.len())
        .sum();
    assert_eq!(all[0].len(), rest, "rows that nobody retracted are lost");
    for site in &world.sites {
        let report = Table::open(&site.location).unwrap().verify(&Default::default(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    (world.killed, world.refused)
}

#[test]
fn sites_converge_and_lose_nothing() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, count) = (number("SEED", 0), number("HISTORIES", 60));
    let (mut killed, mut refused) = (0, 0);
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| history(seed));
        let (kills, refusals) = outcome.unwrap_or_else(|panic| {
            eprintln!("SEED={seed} HISTORIES=1");
            std::panic::resume_unwind(panic)
        });
        (killed, refused) = (killed + kills, refused + refusals);
    }
    eprintln!("{count} histories, {killed} killed exchanges, {refused} refusals");
}
