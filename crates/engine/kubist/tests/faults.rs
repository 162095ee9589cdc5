//! Faults between a client and a healthy cluster: bad networks, cut or sleeping clients, two optimizers.
//!
//! `KUBIST_TEST_CASSANDRA` names the hosts; `STORM=n` is the duration of the bad network, `SEED=n` its
//! seed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::proxy::Proxy;
use crate::common::work::Work;
use crate::common::{commit, commits, name, options, schema};
use kubist::{Error, Table, VerifyOptions, Writer, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const HELD: Duration = Duration::from_secs(30);
const HANGS: Duration = Duration::from_secs(120);

fn hosts() -> String {
    std::env::var("KUBIST_TEST_CASSANDRA").expect("KUBIST_TEST_CASSANDRA names no hosts")
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

fn fresh(name: &str) -> (Table, String) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let path = format!("kubist_tests/{name}-{now:x}");
    (Table::create(&format!("cassandra://{}/{path}", hosts()), schema(), &options()).unwrap(), path)
}

fn through(proxy: &Proxy, path: &str) -> String {
    format!("cassandra://{}/{path}?patience=60", proxy.hosts())
}

fn writer(table: &Table, number: i64) -> kubist::Result<Writer> {
    table.writer(&WriterOptions { name: Some(name(number)), ..Default::default() })
}

fn take_over(table: &Table, number: i64, since: Instant) -> Writer {
    loop {
        match writer(table, number) {
            Ok(taken) => {
                println!("the log was free {:.1} s after its owner was last heard of", since.elapsed().as_secs_f64());
                assert!(since.elapsed() > HELD / 2, "{:?}", since.elapsed());
                return taken;
            }
            Err(Error::Busy(_)) => assert!(since.elapsed() < HANGS, "the log is never free"),
            Err(error) => panic!("taking the log failed: {error}"),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn is_sound(table: &Table) {
    assert_eq!(table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings, Vec::<String>::new());
}

fn drop_table(table: Table, path: &str) {
    drop(table);
    Table::drop_at(&format!("cassandra://{}/{path}", hosts()), false).unwrap();
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_bad_network_loses_nothing() {
    let seed = number("SEED", 1);
    let (table, path) = fresh("network");
    let proxies = [Proxy::before(&hosts(), seed), Proxy::before(&hosts(), !seed)];
    let ways = proxies.iter().zip([10, 1]);
    let ways = ways.map(|(proxy, patience)| format!("cassandra://{}/{path}?patience={patience}", proxy.hosts()));
    let work = Work::new(ways.collect(), 4);
    let mut worst = (Duration::ZERO, Duration::ZERO);
    work.goes_on_during(3, 1, || {
        work.wait_for_commits(3);
        proxies.iter().for_each(Proxy::turn_foul);
        let begin = Instant::now();
        thread::sleep(Duration::from_secs(number("STORM", 20)));
        worst = (work.longest_silence(begin), work.slowest_commit(begin));
        proxies.iter().for_each(Proxy::clear_up);
        work.wait_for_commits(3);
    });
    println!(
        "seed {seed}: {}; nothing was acknowledged for {:.1} s at most, and the slowest commit took {:.1} s",
        work.check(&table),
        worst.0.as_secs_f64(),
        worst.1.as_secs_f64()
    );
    for failure in work.failures.lock().unwrap().iter() {
        let says = ["cannot be reached", "open it again", "is busy"];
        assert!(failure.contains(&path) && says.iter().any(|words| failure.contains(words)), "{failure}");
    }
    drop_table(table, &path);
}

/// Runs in a child process until it is killed, and prints acknowledged commits.
#[test]
fn in_a_child() {
    let Ok(location) = std::env::var("KUBIST_CHILD_WRITES") else { return };
    let number: i64 = std::env::var("KUBIST_WRITER").unwrap().parse().unwrap();
    let mut writer = writer(&Table::open(&location).unwrap(), number).unwrap();
    for next in 0.. {
        commit(&mut writer, number, next).unwrap();
        println!("\ndone");
    }
}

struct Client {
    process: Child,
    acknowledged: Arc<AtomicI64>,
}

impl Client {
    fn new(number: i64, location: &str) -> Client {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["faults::in_a_child", "--exact", "--nocapture"])
            .env("KUBIST_CHILD_WRITES", location)
            .env("KUBIST_WRITER", number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let acknowledged = Arc::new(AtomicI64::new(0));
        let count = acknowledged.clone();
        thread::spawn(move || {
            for _ in lines.map(Result::unwrap).filter(|line| line == "done") {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Client { process, acknowledged }
    }

    fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn clients_are_cut_off_in_the_middle_of_commits() {
    const CLIENTS: i64 = 4;
    let (table, path) = fresh("cut");
    let mut rng = SmallRng::seed_from_u64(number("SEED", 1));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let proxy = Proxy::before(&hosts(), 0);
        let client = Client::new(number, &through(&proxy, &path));
        let begin = Instant::now();
        while client.acknowledged() < 5 {
            assert!(begin.elapsed() < HANGS, "a client does not commit");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(rng.random_range(0..200)));
        proxy.cut();
        clients.push((client, Instant::now()));
        assert!(matches!(writer(&table, number), Err(Error::Busy(_))), "a log is free at once");
    }
    for (number, (client, since)) in (0..).zip(&mut clients) {
        let mut heir = take_over(&table, number, *since);
        assert!(client.is_alive(), "it was to go on trying");
        let acknowledged = client.acknowledged();
        let found = commits(&table.snapshot().unwrap()).unwrap()[&number];
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} there");
        println!("{acknowledged} commits were acknowledged, {found} are there");
        commit(&mut heir, number, acknowledged).unwrap();
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap()[&number], acknowledged + 1);
    }
    is_sound(&table);
    drop(clients);
    drop_table(table, &path);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_writer_that_stalls_for_longer_than_its_hold_is_refused() {
    let (table, path) = fresh("stall");
    let proxy = Proxy::before(&hosts(), 0);
    let behind = Table::open(&through(&proxy, &path)).unwrap();
    let mut sleeper = writer(&behind, 0).unwrap();
    (0..3).for_each(|next| drop(commit(&mut sleeper, 0, next).unwrap()));
    proxy.stall();
    let since = Instant::now();
    thread::scope(|scope| {
        let late = scope.spawn(|| [100, 101].map(|next| commit(&mut sleeper, 0, next).map(|done| done.repeated)));
        let mut heir = take_over(&table, 0, since);
        (3..6).for_each(|next| drop(commit(&mut heir, 0, next).unwrap()));
        proxy.clear_up();
        for answer in late.join().unwrap() {
            assert!(matches!(answer, Err(Error::Refused(_))), "{answer:?}");
        }
        (6..8).for_each(|next| drop(commit(&mut heir, 0, next).unwrap()));
    });
    for table in [&table, &behind] {
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap()[&0], 8);
        is_sound(table);
    }
    drop((sleeper, behind));
    drop_table(table, &path);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn two_optimizers_at_once_lose_nothing() {
    let (table, path) = fresh("optimizers");
    let proxy = Proxy::before(&hosts(), 0);
    let ways = [hosts(), proxy.hosts()].map(|hosts| format!("cassandra://{hosts}/{path}"));
    let work = Work::new(ways.into(), 2);
    work.goes_on_during(2, 2, || work.wait_for_commits(60));
    println!("{}", work.check(&table));
    assert!(work.rewrites.load(Ordering::SeqCst) > 1, "they had nothing to do");
    assert_eq!(work.failures.lock().unwrap()[..], [""; 0]);
    drop_table(table, &path);
}
