//! Compares a table on a Cassandra cluster with the same rows as single CQL rows: writing, samples, small
//! boxes and their round trips, before and after the optimizer.
//!
//!     cargo run --release -p kubist-bench --bin bench_cluster -- --at cassandra://127.0.0.1/bench
//!         [--rows 10000000] [--single-rows 500000] [--repeats 5]
//!
//! `--at` names a keyspace, which is created with the location's replication. The benchmark drops the tables of an
//! earlier run and keeps its own.

use std::collections::HashSet;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use futures_util::{StreamExt, TryStreamExt, stream};
use kubist::{OptimizeOptions, Query, Table, TableOptions, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

const COMMIT_ROWS: usize = 500_000;
const AT_ONCE: usize = 256;
const RANGES: i128 = 64;

type Failure = Box<dyn std::error::Error>;

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, usual: usize) -> usize {
    argument(name).map_or(usual, |text| text.parse().expect("a number"))
}

async fn write_one_by_one(session: &Session, keyspace: &str, rows: usize) -> Result<f64, Failure> {
    session.query_unpaged(format!("DROP TABLE IF EXISTS {keyspace}.rows"), ()).await?;
    let columns = "x float, y float, z float, a float, b float, c float, d float";
    let create = format!("CREATE TABLE {keyspace}.rows (id bigint PRIMARY KEY, {columns})");
    session.query_unpaged(create, ()).await?;
    let insert = format!("INSERT INTO {keyspace}.rows (id, x, y, z, a, b, c, d) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    let insert = session.prepare(insert).await?;
    let begin = Instant::now();
    for first in (0..rows).step_by(BATCH_ROWS) {
        let made = batch(first, BATCH_ROWS.min(rows - first));
        let id = made.column(0).as_primitive::<Int64Type>();
        let values: Vec<_> = (1..8).map(|column| made.column(column).as_primitive::<Float32Type>()).collect();
        let writes = (0..made.num_rows()).map(|row| {
            let of = |column: usize| values[column].value(row);
            let row = ((id.value(row), of(0), of(1), of(2)), (of(3), of(4), of(5), of(6)));
            let (session, insert) = (session, &insert);
            async move {
                let ((id, x, y, z), (a, b, c, d)) = row;
                session.execute_unpaged(insert, (id, x, y, z, a, b, c, d)).await.map(drop)
            }
        });
        stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    }
    Ok(rows as f64 / begin.elapsed().as_secs_f64())
}

/// Keeps 1 % of the rows. Returns seconds and the number of kept rows.
async fn read_and_filter(session: &Session, keyspace: &str) -> Result<(f64, u64), Failure> {
    let select = format!("SELECT id, x, y, z, a, b, c, d FROM {keyspace}.rows WHERE token(id) >= ? AND token(id) < ?");
    let select = session.prepare(select).await?;
    let begin = Instant::now();
    let edge = |part: i128| (i64::MIN as i128 + part * ((1i128 << 64) / RANGES)).min(i64::MAX as i128) as i64;
    let parts = (0..RANGES).map(|part| {
        let (session, select) = (session, select.clone());
        async move {
            let pager = session.execute_iter(select, (edge(part), edge(part + 1))).await?;
            let mut rows = pager.rows_stream::<(i64, f32, f32, f32, f32, f32, f32, f32)>()?;
            let mut kept = 0u64;
            while let Some(row) = rows.try_next().await? {
                kept += u64::from(row.0 % 100 == 0);
            }
            Ok::<u64, Failure>(kept)
        }
    });
    let kept: Vec<u64> = stream::iter(parts).buffer_unordered(16).try_collect().await?;
    Ok((begin.elapsed().as_secs_f64(), kept.iter().sum()))
}

fn small_boxes(label: &str, at: &str, table: &Table, half: f64, repeats: usize) {
    let mut rng = SmallRng::seed_from_u64(11);
    let (mut cold, mut warm): (Vec<_>, Vec<_>) = Default::default();
    for _ in 0..repeats {
        let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.15..0.85));
        let query = Query { bounds: cube_box(&centre, half), ..Query::default() };
        cold.push(run(&Table::open(at).expect("a table"), &query));
        run(table, &query);
        warm.push(run(table, &query));
    }
    for (state, found) in [("a handle just opened", cold), ("a handle that asked before", warm)] {
        let of = |one: &dyn Fn(&(kubist::Stats, f64)) -> f64| median(found.iter().map(one).collect());
        println!(
            "small box, {label:20} {state:27} {:7.0} rows {:5.0} round trips {:9.0} bytes {:8.1} ms",
            of(&|(stats, _)| stats.rows_returned as f64),
            of(&|(stats, _)| stats.round_trips as f64),
            of(&|(stats, _)| stats.bytes_read as f64),
            of(&|(_, ms)| *ms),
        );
    }
}

fn main() -> Result<(), Failure> {
    let keyspace_at = argument("--at").ok_or("--at cassandra://hosts/keyspace is missing")?;
    let (rows, single, repeats) =
        (number("--rows", 10_000_000), number("--single-rows", 500_000), number("--repeats", 5));
    let (address, settings) = keyspace_at.split_once('?').unwrap_or((&keyspace_at, ""));
    let at = format!("{address}/bench?{settings}");
    let address = address.strip_prefix("cassandra://").ok_or("--at begins with cassandra://")?;
    let (hosts, keyspace) = address.split_once('/').ok_or("--at ends with a keyspace")?;
    let hosts: HashSet<&str> = hosts.split(',').collect();

    match Table::drop_at(&at, true) {
        Ok(_) | Err(kubist::Error::NotATable { .. } | kubist::Error::Missing { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let table = Table::create(&at, schema(), &TableOptions { ..options() })?;
    let mut writer = table.writer(&WriterOptions::default())?;
    let (mut spent, mut longest) = (0.0, 0.0f64);
    for first in (0..rows).step_by(COMMIT_ROWS) {
        let made = batch(first, COMMIT_ROWS.min(rows - first));
        let begin = Instant::now();
        writer.append(&made)?;
        writer.commit()?;
        spent += begin.elapsed().as_secs_f64();
        longest = longest.max(begin.elapsed().as_secs_f64());
    }
    let written = rows as f64 / spent;
    println!(
        "{rows} rows in commits of {COMMIT_ROWS}: {written:.0} rows/s, {:.1} MB/s, the longest commit {longest:.2} s",
        written * ROW_BYTES as f64 / 1e6
    );

    let runtime = tokio::runtime::Runtime::new()?;
    let session = runtime.block_on(SessionBuilder::new().known_nodes(&hosts).build())?;
    let one_by_one = runtime.block_on(write_one_by_one(&session, keyspace, single))?;
    println!("{single} rows as CQL rows, {AT_ONCE} on their way: {one_by_one:.0} rows/s; {:.1}x", written / one_by_one);

    let sample = Query { sample: Some(0.01), ..Query::default() };
    let times: Vec<f64> = (0..=repeats).map(|_| run(&table, &sample).1).skip(1).collect();
    let sampled = median(times);
    let fresh = run(&Table::open(&at)?, &sample);
    let whole = median((0..3).map(|_| run(&table, &Query::default()).1).collect());
    let (read, kept) = runtime.block_on(read_and_filter(&session, keyspace))?;
    let scaled = read * 1e3 * rows as f64 / single as f64;
    println!(
        "1 % of everything, {} rows: {sampled:.0} ms; {:.0} ms on a handle just opened",
        fresh.0.rows_returned, fresh.1
    );
    println!("everything: {whole:.0} ms; {:.0}x", whole / sampled);
    println!(
        "all CQL rows read and 1 % of them kept ({kept}): {:.0} ms, for as many rows {scaled:.0} ms; {:.0}x",
        read * 1e3,
        scaled / sampled
    );

    let half = half_width(&table, &[0.4, 0.5, 0.6], 1_000);
    small_boxes("as committed", &at, &table, half, repeats);
    let begin = Instant::now();
    let report = table.optimize(&OptimizeOptions::default(), &mut |_, _| {})?;
    println!("optimized in {:.1} s, {} rewrites", begin.elapsed().as_secs_f64(), report.rewrites);
    small_boxes("optimized", &at, &table, half, repeats);
    let optimized = median((0..repeats).map(|_| run(&table, &sample).1).collect());
    println!("1 % of everything, optimized: {optimized:.0} ms");
    Ok(())
}
