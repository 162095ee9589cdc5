//! Stored size, encodings and decoding speed of the columns of a table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_catalog::snapshot::Snapshot;
use kubist_format::decode;
use kubist_format::location::Location;
use kubist_format::numbers;
use kubist_format::rows::Span;
use kubist_format::zone_map::ZoneMap;
use kubist_index::state::Run;
use kubist_read::runs;
use kubist_types::{Cancel, Result};

const LOOKED_INTO: usize = 512;

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ColumnUse {
    pub name: String,
    pub accuracy: Option<String>,
    pub bytes_per_row: f64,
    pub encodings: BTreeMap<String, f64>,
    pub values_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ColumnsUse {
    /// One entry for each stored column, in order, including hidden ones.
    pub columns: Vec<ColumnUse>,
    pub zone_map_bytes_per_row: f64,
    pub runs_looked_into: u64,
    pub runs: u64,
}

#[derive(Default)]
struct Sums {
    rows: u64,
    bytes: u64,
    encodings: BTreeMap<String, u64>,
    spent: Duration,
}

impl ColumnsUse {
    /// Measures primary runs, or every n-th if there are many.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`; the errors of [`Snapshot::directory`]; a storage error.
    pub fn of(snapshot: &Snapshot, cancel: &Cancel) -> Result<ColumnsUse> {
        let each_primary = |work: &mut dyn FnMut(&Arc<Run<Location>>)| {
            let runs = &snapshot.view.runs;
            runs.each(&snapshot.core, cancel, |run| {
                if !run.is_replica() {
                    work(run);
                }
            })
        };
        let (mut runs, mut some) = (0_usize, Vec::new());
        each_primary(&mut |_| runs += 1)?;
        let (step, mut number) = (runs.div_ceil(LOOKED_INTO).max(1), 0);
        each_primary(&mut |run| {
            if number % step == 0 {
                some.push(run.clone());
            }
            number += 1;
        })?;
        let mut sums: Vec<Sums> = Vec::new();
        sums.resize_with(snapshot.view.schema.stored.fields().len(), Sums::default);
        let (mut rows, mut maps) = (0, 0);
        for run in &some {
            cancel.check()?;
            let map = snapshot.zone_maps(std::iter::once(run), false)?.0.remove(0);
            rows += run.rows;
            maps += u64::from(run.payload.map_length);
            let data = runs::data(snapshot, run, 0..run.payload.data_length)?;
            for (column, sums) in sums.iter_mut().enumerate().take(map.columns.len()) {
                add(snapshot, run, &map, &data, column, sums)?;
            }
        }
        let schema = &snapshot.view.schema;
        let columns = sums.into_iter().zip(schema.stored.fields()).enumerate().map(|(column, (sums, field))| {
            let rows = sums.rows.max(1) as f64;
            ColumnUse {
                name: field.name().clone(),
                accuracy: schema.accuracy.get(&column).map(ToString::to_string),
                bytes_per_row: sums.bytes as f64 / rows,
                encodings: sums.encodings.into_iter().map(|(name, held)| (name, held as f64 / rows)).collect(),
                values_per_second: sums.rows as f64 / sums.spent.as_secs_f64().max(1e-9),
            }
        });
        Ok(ColumnsUse {
            columns: columns.collect(),
            zone_map_bytes_per_row: maps as f64 / rows.max(1) as f64,
            runs_looked_into: some.len() as u64,
            runs: runs as u64,
        })
    }
}

fn add(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    data: &[u8],
    column: usize,
    sums: &mut Sums,
) -> Result<()> {
    let data_type = snapshot.view.schema.stored.field(column).data_type();
    for page in 0..map.pages() {
        let chunk = map.chunk(page, column);
        let of_page = map.page_column(page, &data[chunk.offset as usize..][..chunk.length as usize]);
        let rows = of_page.rows;
        let damaged = |what: String| snapshot.explained(run, runs::damaged(snapshot, run, chunk.offset, what));
        let begun = Instant::now();
        let mut decoded = decode::column(data_type, rows);
        let all = Span { indices: 0..rows, some: None };
        decoded.append(&of_page, &[all]).map_err(damaged)?;
        decoded.finish().map_err(damaged)?;
        sums.spent += begun.elapsed();
        sums.rows += rows as u64;
        sums.bytes += u64::from(chunk.length);
        let encoding = numbers::encoding(data_type, of_page.bytes);
        *sums.encodings.entry(encoding.into()).or_default() += rows as u64;
    }
    Ok(())
}
