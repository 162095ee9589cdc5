//! After a failed system call or on a full disk, the call reports an error and its writer refuses to
//! continue. Readers continue, the table stays valid, and a new writer can continue.
//!
//! `SEEDS=n` plays n seeds, `SEED=n` that one alone.

use crate::common;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{commits, name, options, schema};
use kubist::store::{LocalStore, Store};
use kubist::{Error, OptimizeOptions, Result, Table, VerifyOptions, Writer, WriterOptions};
use kubist_simulate::{Call, SimDisk};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const TABLE: &str = "/table";

fn open(machine: &SimDisk) -> Table {
    let store = LocalStore::open_on(machine.process(), Path::new(TABLE)).unwrap();
    Table::open(Arc::new(store)).unwrap()
}

fn writer(table: &Table) -> Writer {
    table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap()
}

fn optimize(table: &Table) -> Result<()> {
    let options = OptimizeOptions { debt_share: 0.0, rows_at_once: 300, few_lookups: 1, ..Default::default() };
    table.optimize(&options, &mut |_, _| {}).map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Committing,
    Optimizing,
    Checkpointing,
    Cleaning,
}

fn check(table: &Table, acknowledged: i64, begun: i64, seed: u64) {
    let found = commits(&table.snapshot().unwrap()).unwrap().get(&0).copied().unwrap_or(0);
    assert!((acknowledged..=begun).contains(&found), "SEED={seed}: {found} of {acknowledged} to {begun} commits");
}

fn play(seed: u64) -> Option<Doing> {
    let mut random = StdRng::seed_from_u64(seed);
    let machine = SimDisk::new(seed);
    let store = LocalStore::on_disk(machine.process(), Path::new(TABLE)).unwrap();
    let table = Table::create(Arc::new(store), schema(), &options()).unwrap();
    let mut log = writer(&table);
    let mut acknowledged = 0;
    for _ in 0..random.random_range(2..12) {
        common::commit(&mut log, 0, acknowledged).unwrap();
        acknowledged += 1;
    }
    match random.random_bool(0.4) {
        true => machine.set_capacity(Some(machine.used() + random.random_range(0..6_000))),
        false => machine.fail(*Call::ALL.choose(&mut random).unwrap(), random.random_range(0..20)),
    }
    let (mut met, mut begun) = (None, acknowledged);
    for _ in 0..12 {
        let doing = *[Doing::Committing, Doing::Committing, Doing::Optimizing, Doing::Checkpointing, Doing::Cleaning]
            .choose(&mut random)
            .unwrap();
        let done = match doing {
            Doing::Committing => {
                begun = acknowledged + 1;
                common::commit(&mut log, 0, acknowledged).map(|_| acknowledged += 1)
            }
            Doing::Optimizing => optimize(&table),
            Doing::Checkpointing => table.checkpoint().map(drop),
            Doing::Cleaning => table.clean(Duration::ZERO).map(drop),
        };
        if let Err(error) = done {
            // The commit may be durable although its acknowledgement failed, and the optimizer then waits
            // for the writer without success.
            let waited = doing == Doing::Optimizing && matches!(error, Error::Busy(_));
            assert!(
                waited || matches!(error, Error::Unavailable(_) | Error::NoSpace(_) | Error::Refused(_)),
                "SEED={seed}: {doing:?}: {error:?}"
            );
            assert!(error.to_string().contains(TABLE), "SEED={seed}: {error}");
            met = Some(doing);
            break;
        }
        begun = acknowledged;
    }
    let trouble_is_over = !machine.failures_left();
    if met == Some(Doing::Committing) {
        // Even with space again, the state on disk is unknown.
        let refused = common::commit(&mut log, 0, acknowledged).unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "SEED={seed}: {refused:?}");
        assert!(refused.to_string().contains("new writer"), "SEED={seed}: {refused}");
    }
    if trouble_is_over {
        check(&table, acknowledged, begun, seed);
        check(&open(&machine), acknowledged, begun, seed);
    }
    machine.calm();
    machine.set_capacity(None);
    drop(log);
    if random.random_bool(0.3) {
        machine.crash();
    }
    let table = open(&machine);
    let mut log = writer(&table);
    check(&table, acknowledged, begun, seed);
    for commit in acknowledged..acknowledged + 3 {
        common::commit(&mut log, 0, commit).unwrap();
    }
    acknowledged += 3;
    optimize(&table).unwrap();
    table.clean(Duration::ZERO).unwrap();
    check(&table, acknowledged, acknowledged, seed);
    machine.crash();
    let table = open(&machine);
    check(&table, acknowledged, acknowledged, seed);
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new(), "SEED={seed}");
    met
}

/// Garbage on a full disk, noted long ago or not at all.
#[test]
fn a_full_disk_is_cleaned_before_anything_is_written() {
    for seed in 0..40 {
        for noted in [false, true] {
            let machine = SimDisk::new(seed);
            let store = Arc::new(LocalStore::on_disk(machine.process(), Path::new(TABLE)).unwrap());
            let table = Table::create(store.clone(), schema(), &options()).unwrap();
            let mut log = writer(&table);
            for commit in 0..20 {
                common::commit(&mut log, 0, commit).unwrap();
            }
            let of_the_writer = store.segments().unwrap();
            drop(log);
            optimize(&table).unwrap();
            common::commit(&mut writer(&table), 0, 20).unwrap();
            for segment in of_the_writer.iter().filter(|_| noted) {
                assert!(store.put_if_absent(&format!("garbage/{segment}"), &0u64.to_le_bytes()).unwrap());
            }
            machine.set_capacity(Some(machine.used()));
            let full = table.checkpoint();
            assert!(
                matches!(&full, Err(Error::NoSpace(why)) if why.to_string().contains("no space")),
                "SEED={seed}: {full:?}"
            );
            drop((table, store));
            let used = machine.used();
            let retention = if noted { Duration::from_secs(86_400) } else { Duration::ZERO };
            let table = open(&machine);
            match table.clean(retention) {
                Ok(cleaned) => assert!(cleaned.segments_deleted > 0, "SEED={seed}: {cleaned:?}"),
                // The freed space is too small for a checkpoint.
                Err(error) => assert!(error.to_string().contains("no space"), "SEED={seed}: {error:?}"),
            }
            assert!(machine.used() < used, "SEED={seed}, {noted}: nothing was freed of {used} bytes");
            check(&table, 21, 21, seed);
            let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
            assert_eq!(report.findings, Vec::<String>::new(), "SEED={seed}");
        }
    }
}

/// Partial output of an optimizer or a checkpoint is freed.
#[test]
fn what_met_a_full_disk_leaves_nothing_behind() {
    for seed in 0..40 {
        let machine = SimDisk::new(seed);
        let store = Arc::new(LocalStore::on_disk(machine.process(), Path::new(TABLE)).unwrap());
        let table = Table::create(store, schema(), &options()).unwrap();
        let mut log = writer(&table);
        for commit in 0..20 {
            common::commit(&mut log, 0, commit).unwrap();
        }
        drop(log);
        let used = machine.used();
        machine.set_capacity(Some(used + 3_000));
        let full = optimize(&table);
        assert!(
            matches!(&full, Err(Error::NoSpace(why)) if why.to_string().contains("no space")),
            "SEED={seed}: {full:?}"
        );
        assert_eq!(machine.used(), used, "SEED={seed}");
    }
}

#[test]
fn trouble_is_reported_and_nothing_is_lost() {
    let asked = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match asked("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("SEEDS").unwrap_or(600),
    };
    let mut met = std::collections::BTreeMap::<Option<Doing>, u64>::new();
    for seed in seeds.clone() {
        *met.entry(play(seed)).or_default() += 1;
    }
    println!("met while: {met:?}");
    let enough = (seeds.end - seeds.start) / 100;
    for doing in [Doing::Committing, Doing::Optimizing, Doing::Checkpointing, Doing::Cleaning] {
        assert!(met.get(&Some(doing)).copied().unwrap_or(0) >= enough, "{doing:?} met too little: {met:?}");
    }
}
