//! Nodes of a real cluster fail and writers are killed, while four writers, three readers and two
//! optimizers run: no acknowledged commit is lost or doubled, every result is right, and one failed node of
//! three does not stop the work.
//!
//! `KUBIST_TEST_CASSANDRA` names the hosts of a cluster that scripts/cassandra.py started; `ROUNDS=n` sets
//! how often a node is killed.

use crate::common;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::common::work::Work;
use crate::common::{commits, name, options, schema};
use kubist::{Table, VerifyOptions, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const WRITERS: usize = 4;
const READERS: usize = 3;
const OPTIMIZERS: usize = 2;
const NODES: usize = 3;
const COMMITS: i64 = 15;
/// One test at a time uses the nodes.
static NODES_ARE_TAKEN: Mutex<()> = Mutex::new(());

fn node(command: &str, number: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/cassandra.py");
    let status = Command::new("python3").arg(script).args([command, &number.to_string()]).status().unwrap();
    assert!(status.success(), "{command} of node {number} failed");
}

fn rounds() -> usize {
    std::env::var("ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

fn fresh(name: &str) -> String {
    let hosts = std::env::var("KUBIST_TEST_CASSANDRA").expect("KUBIST_TEST_CASSANDRA names no hosts");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("cassandra://{hosts}/kubist_tests/{name}-{now:x}")
}

/// Runs in a child process until it is killed, and prints acknowledged commits.
#[test]
fn in_a_child() {
    let Ok(location) = std::env::var("KUBIST_CHILD_WRITES") else { return };
    let mut commit: i64 = std::env::var("KUBIST_FIRST").unwrap().parse().unwrap();
    let table = Table::open(&location).unwrap();
    let mut writer = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
    loop {
        common::commit(&mut writer, 0, commit).unwrap();
        println!("\ndone {commit}");
        commit += 1;
    }
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn writers_are_killed_in_the_middle_of_commits() {
    let _nodes = NODES_ARE_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let location = fresh("killed");
    let table = Table::create(&location, schema(), &options()).unwrap();
    let mut rng = SmallRng::seed_from_u64(7);
    let mut acknowledged = 0;
    for _ in 0..4 * rounds() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["cluster::in_a_child", "--exact", "--nocapture"])
            .env("KUBIST_CHILD_WRITES", &location)
            .env("KUBIST_FIRST", acknowledged.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = rng.random_range(1..8);
        for line in lines.map(Result::unwrap) {
            let Some(commit) = line.strip_prefix("done ").map(|commit| commit.parse::<i64>().unwrap()) else {
                continue;
            };
            assert_eq!(commit, acknowledged);
            acknowledged += 1;
            left -= 1;
            if left == 0 {
                std::thread::sleep(Duration::from_millis(rng.random_range(0..40)));
                child.kill().unwrap();
            }
        }
        assert!(left <= 0, "the writer ended by itself");
        child.wait().unwrap();
        let found = commits(&table.snapshot().unwrap()).unwrap()[&0];
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} there");
        let mut writer = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
        common::commit(&mut writer, 0, acknowledged).unwrap();
        acknowledged += 1;
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap()[&0], acknowledged);
    }
    assert_eq!(table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings, Vec::<String>::new());
    drop(table);
    Table::drop_at(&location, false).unwrap();
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn nodes_are_killed_and_come_back() {
    let _nodes = NODES_ARE_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (location, rounds) = (fresh("chaos"), rounds());
    let table = Table::create(&location, schema(), &options()).unwrap();
    let work = Work::new(vec![location.clone()], WRITERS);
    let mut down = Duration::ZERO;
    work.goes_on_during(READERS, OPTIMIZERS, || {
        work.wait_for_commits(5);
        for round in 0..rounds {
            let number = 1 + round % NODES;
            let killed = Instant::now();
            node("kill", number);
            work.wait_for_commits(COMMITS);
            let (silence, slowest) = (work.longest_silence(killed), work.slowest_commit(killed));
            let begin = Instant::now();
            node("start", number);
            let back = begin.elapsed();
            down += killed.elapsed();
            work.wait_for_commits(COMMITS);
            println!(
                "round {round}: node {number} killed; commits went on after {:.2} s, the slowest took {:.2} s; \
                 the node was back {:.1} s after it was started",
                silence.as_secs_f64(),
                slowest.as_secs_f64(),
                back.as_secs_f64()
            );
        }
    });
    println!("{}; a node was down for {:.0} s", work.check(&table), down.as_secs_f64());
    drop(table);
    Table::drop_at(&location, false).unwrap();
}
