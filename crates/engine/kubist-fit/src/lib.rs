//! Measures the request costs of a store, to fit the constants of the scalability model.
//!
//! The measurement writes about 20 MiB of incompressible bytes into a temporary store next to the location, reads them
//! in requests of many sizes with 1 to 64 requests in flight, and deletes the store. It needs no table, and the bytes
//! are in the memory of the cluster, as in the paper.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use kubist::Table;
use kubist_model::{Fit, Fitted, Measured, TableSize};
use kubist_store::{Latency, MemoryStore, Store, StoreExt};

use kubist_catalog::error::store_error;
use kubist_catalog::location::TableLocation;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, ErrorKind, Result};
use kubist_types::options::{Dimension, Domain, TableOptions, Value, WriterOptions};
use kubist_types::query::QuerySpec;
use kubist_types::shown::without_password;

const KIB: u64 = 1 << 10;
/// Bytes of a request; a cluster returns at most 1 MiB per request.
const SIZES: [u64; 9] = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB];
const LEVELS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Limit of bytes in flight; more would measure the client's memory, not the nodes.
const MOST_ON_THE_WAY: u64 = 16 << 20;
const ROUNDS: usize = 3;
const EACH: Duration = Duration::from_millis(80);
/// A cluster's blocks and each read begin at multiples of this.
const STRIDE: u64 = 32 * KIB;
const PARTITION: u64 = 1 << 20;
const WHOLE: u64 = 16 << 20;
const SMALL: u64 = 64;
/// A cluster's client limits the requests in flight.
const ASKING: u32 = 4;
const DECODED_ROWS: i64 = 400_000;

/// Measures the store of a location for about 20 s.
///
/// # Errors
///
/// `Invalid` if the location is malformed or the measurements do not fit a model; `Cancelled`; `Exists` if
/// the temporary store already exists; a storage error.
pub fn measure(location: &str, cancel: &Cancel) -> Result<Fitted> {
    // Opening a table also registers the store schemes.
    let table = match Table::open(location) {
        Ok(table) => {
            let info = table.snapshot()?.info()?;
            (info.about.rows > 0).then_some(TableSize {
                rows: info.about.rows,
                bytes_per_row: info.bytes_per_row,
                capacity: info.about.capacity,
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let field = Field::make(location)?;
    let mut measured = Vec::new();
    for _ in 0..ROUNDS {
        for size in SIZES {
            for in_flight in LEVELS {
                cancel.check()?;
                if u64::from(in_flight) * size <= MOST_ON_THE_WAY {
                    measured.push(field.measure(size, in_flight)?);
                }
            }
        }
    }
    let hosts = field.whole.hosts();
    drop(field);
    let decode_ms_per_byte = decode_ms_per_byte()?;
    let nodes = hosts.len().max(1) as u32;
    let fit = Fit::of(&measured, nodes, decode_ms_per_byte).map_err(Error::invalid)?;
    Ok(Fitted { location: without_password(location), hosts, table, decode_ms_per_byte, fit, measured })
}

/// The measured store, which is temporary and erased on drop.
struct Field {
    whole: Arc<dyn Store>,
    by_level: BTreeMap<u32, Arc<dyn Store>>,
    begins_of_size: BTreeMap<u64, (String, Vec<u64>)>,
}

fn uncached(store: Arc<dyn Store>) -> Arc<dyn Store> {
    store.uncached().unwrap_or(store)
}

impl Field {
    fn make(location: &str) -> Result<Field> {
        let suffix = format!(".fit-{}", std::process::id());
        let location = TableLocation::of(location)?;
        let at = |in_flight: u32| location.beside(&suffix, in_flight as usize);
        let whole = uncached(at(LEVELS[LEVELS.len() - 1])?.vacant()?);
        let mut field = Field { whole, by_level: BTreeMap::new(), begins_of_size: BTreeMap::new() };
        field.write().map_err(store_error)?;
        for level in LEVELS {
            let store = match field.whole.capabilities().latency {
                // This store does not limit requests, so the threads do.
                Latency::Memory | Latency::Device => field.whole.clone(),
                Latency::Network => uncached(at(level)?.open_or_create()?),
            };
            field.by_level.insert(level, store);
        }
        Ok(field)
    }

    fn write(&mut self) -> kubist_store::Result<()> {
        let mut noise = Noise(1);
        let mut segment = self.whole.create_segment("whole")?;
        let start = segment.append(&[&noise.bytes(WHOLE)])?;
        segment.sync()?;
        for size in SIZES {
            if size >= STRIDE {
                // The ranges are separate, because a store would merge adjacent ones.
                let stride = (2 * size).min(PARTITION);
                let begins = (0..WHOLE / stride).map(|index| start + index * stride);
                self.begins_of_size.insert(size, ("whole".into(), begins.collect()));
                continue;
            }
            let name = format!("small-{size}");
            let mut segment = self.whole.create_segment(&name)?;
            let mut begins = Vec::new();
            for _ in 0..SMALL {
                begins.push(segment.append(&[&noise.bytes(size)])?);
                // Only a sync ends a block.
                segment.sync()?;
                segment.append(&[&noise.bytes(STRIDE - size)])?;
            }
            segment.sync()?;
            self.begins_of_size.insert(size, (name, begins));
        }
        Ok(())
    }

    fn measure(&self, size: u64, in_flight: u32) -> Result<Measured> {
        let store = &self.by_level[&in_flight];
        let (segment, begins) = &self.begins_of_size[&size];
        let (threads, at_once) = match store.capabilities().latency {
            Latency::Memory | Latency::Device => (in_flight, 1),
            Latency::Network => {
                (in_flight.min(ASKING), (u64::from(in_flight) * 4).min(MOST_ON_THE_WAY / size).max(1) as usize)
            }
        };
        let (requests, seed) = (AtomicU32::new(0), AtomicU64::new(u64::from(in_flight) << 32 | size));
        let (begin, spent) = (Instant::now(), process_seconds());
        let work = || -> kubist_store::Result<()> {
            let mut noise = Noise(seed.fetch_add(1 << 48, Ordering::Relaxed));
            while begin.elapsed() < EACH {
                let ranges = noise.some_of(begins, at_once, size);
                store.read(segment, &ranges)?;
                requests.fetch_add(ranges.len() as u32, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for other in others {
                let of_other = other.join().map_err(|_| Error::internal("a measuring thread failed unexpectedly"))?;
                done = done.and(of_other);
            }
            done.map_err(store_error)
        })?;
        Ok(Measured {
            size: size as f64,
            in_flight,
            requests: requests.into_inner(),
            seconds: begin.elapsed().as_secs_f64(),
            client_seconds: process_seconds() - spent,
        })
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        self.by_level.clear();
        // If this fails, the store remains, but no table uses it.
        let _ = self.whole.erase(&[]);
    }
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        let words = (0..length / 8).flat_map(|_| self.next().to_le_bytes());
        words.collect()
    }

    /// Returns `count` ranges at different offsets, or at all offsets if there are fewer.
    fn some_of(&mut self, begins: &[u64], count: usize, size: u64) -> Vec<Range<u64>> {
        let first = self.next() as usize;
        let step = begins.len() / count.min(begins.len());
        let chosen = (0..count.min(begins.len())).map(|index| begins[(first + index * step) % begins.len()]);
        chosen.map(|begin| begin..begin + size).collect()
    }
}

/// CPU time of this process over all cores, in seconds.
fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn decode_ms_per_byte() -> Result<f64> {
    let mut noise = Noise(2);
    let mut numbers = || -> ArrayRef {
        let number = |_| (noise.next() >> 40) as f32 / (1 << 24) as f32;
        Arc::new((0..DECODED_ROWS).map(number).collect::<Float32Array>())
    };
    let mut columns: Vec<(&str, ArrayRef)> =
        ["x", "y", "z", "u", "v", "w", "d"].into_iter().map(|name| (name, numbers())).collect();
    columns.push(("id", Arc::new(Int64Array::from_iter_values(0..DECODED_ROWS))));
    let batch = RecordBatch::try_from_iter(columns).map_err(Error::kernel)?;
    let linear = |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: ["x", "y", "z"].map(linear).to_vec(),
        identity: vec!["id".into()],
        ..TableOptions::default()
    };
    let store = Arc::new(MemoryStore::new("decode"));
    let table = Table::create(store.clone(), batch.schema(), &options)?;
    let mut writer = table.writer(&WriterOptions::default())?;
    writer.append(&batch)?;
    writer.commit()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        // A new handle is needed, because a handle caches decoded pages.
        let snapshot = Table::open(store.clone())?.snapshot()?;
        let mut stream = snapshot.query(QuerySpec::default())?;
        for batch in &mut stream {
            batch?;
        }
        let stats = stream.stats();
        best = best.min(stats.seconds * 1e3 / stats.bytes_read as f64);
    }
    Ok(best)
}
