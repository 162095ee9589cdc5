//! Copies a snapshot into a new table, with the same grids or another grid.
//!
//! The rows pass through a writer of the new table in bounded memory and become one commit, so the copy has all rows or
//! none. An error removes the copy. A crash leaves an unfinished location that is no table; the next copy to it removes
//! the rest (`unfinished`).
//!
//! The rows keep their steps and their priorities, also in a table without identity. Tokens, histories of writers and
//! declared writers are not copied. A step that waits for a writer is therefore complete in the copy, with the rows
//! that it had.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use kubist_index::grid::Scale;

use kubist_catalog::alter::of_period;
use kubist_catalog::core::Core;
use kubist_catalog::create::{Plan, check_capacity, default_capacity, fresh_id};
use kubist_catalog::error::{bad_entry, store_error};
use kubist_catalog::location::TableLocation;
use kubist_format::alteration::{Alteration, name_of};
use kubist_format::chain::Chain;
use kubist_read::count::{rows, stored_rows};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::options::{Dimension, Strata, TableOptions, Value, WriterOptions};
use kubist_write::writer::Writer;

use crate::drop::{drop_table, vacant_for_copy};
use crate::learn::{ScaleKind, sample};
use crate::period::of_rows;
use crate::widen::Widening;
use kubist_catalog::schema::{NO_STEP, TableSchema};
use kubist_catalog::segment::unix_ms;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::names::COPY;
use kubist_write::unfinished::Unfinished;

#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// The dimensions, among the columns of the creation. Missing domains are learned from a sample of all rows.
    /// `None` keeps the table's grids.
    pub dimensions: Option<Vec<Dimension>>,
    /// The capacity; `None` keeps it, or takes 65,536 if `strata` changes to windows.
    pub capacity: Option<u32>,
    /// New integer and float types of columns, which must be able to represent all values.
    pub types: Vec<(String, DataType)>,
    /// The strata; `None` keeps the table's.
    pub strata: Option<Strata>,
    /// Periods as in [`TableOptions`]; null removes one, and the rows must be inside.
    pub period: Vec<(String, Value)>,
    pub memory_bytes: Option<usize>,
    /// Objects that the copy has from its beginning.
    pub objects: Vec<(String, Vec<u8>)>,
    pub cancel: Cancel,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Copied {
    pub rows: u64,
    pub bytes_written: u64,
    pub seconds: f64,
}

/// Copies all rows into a new table, and calls `progress(copied rows, all rows)` after each batch.
///
/// # Errors
///
/// `Exists` if the location is not empty; `Invalid` options; `SnapshotExpired` or `Damaged` if the source cannot be
/// read; `Cancelled`; a storage error of either store. After an error the location holds no table.
pub fn copy_to(
    snapshot: &Snapshot,
    location: &TableLocation,
    options: &CopyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied> {
    let widening = Widening::new(&options.types, &snapshot.view.schema)?;
    let plan = plan_copy(snapshot, &widening, options)?;
    let store = vacant_for_copy(location, &options.cancel)?;
    let writer = WriterOptions {
        name: Some(COPY.into()),
        memory_bytes: options.memory_bytes,
        cancel: options.cancel.clone(),
        ..WriterOptions::default()
    };
    let Plan { header, schema, scales, shared: _ } = plan;
    let (unfinished, writer) = Unfinished::begin(store.clone(), header, schema, &writer)?;
    let copied = scales
        .map_or(Ok(()), |scales| unfinished.core.publish_grid(&scales).map(drop))
        .and_then(|()| put_objects(&unfinished.core, &options.objects))
        .and_then(|()| copy_rows(snapshot, writer, &unfinished.core, &widening, options, progress))
        .and_then(|copied| unfinished.finish().map(|_| copied));
    if copied.is_err() {
        // Files that remain are no table.
        let _ = drop_table(store.as_ref(), false, &Cancel::default());
    }
    copied
}

fn plan_copy(snapshot: &Snapshot, widening: &Widening, options: &CopyOptions) -> Result<Plan> {
    let (core, schema) = (&snapshot.core, &snapshot.view.schema);
    let Some(dimensions) = &options.dimensions else { return plan_same(snapshot, widening, options) };
    let is_added = |name: &&String| core.created.user.index_of(name).is_err() && schema.user.index_of(name).is_ok();
    if let Some(name) = dimensions.iter().map(|dimension| &dimension.column).find(is_added) {
        return Err(Error::invalid(format!(
            "column {name:?} was added later, so a copy cannot begin with it as a dimension: copy the table as it is, \
             then regrid the copy"
        )));
    }
    let asked = TableOptions {
        dimensions: dimensions.clone(),
        identity: core.header.identity.clone(),
        capacity: Some(capacity(snapshot, options)),
        seed: core.header.seed,
        replication: core.header.replication,
        compression: schema.compression,
        strata: options.strata.unwrap_or(schema.strata),
        sampling: core.header.sampling.clone(),
        lookup: core.header.lookup.clone(),
        accuracy: core
            .header
            .accuracy
            .iter()
            .map(|(column, accuracy)| (column.clone(), Value::Text(accuracy.to_string())))
            .collect(),
        metadata: core.header.metadata.clone(),
        ..TableOptions::default()
    };
    let mut plan = Plan::new(&widening.schema(&core.created.user), &asked)?;
    if plan.header.identity.is_empty() {
        plan.header.writer_tag = format!("{}:", unix_ms());
    }
    let given = |(low, high)| Scale::linear(low, high).map_err(Error::invalid);
    let planned = plan.header.dimensions.iter();
    let mut scales =
        planned.map(|dimension| dimension.domain.map(given).transpose()).collect::<Result<Vec<Option<Scale>>>>()?;
    // The scales are learned from a sample, because the writer gets the rows in spatial order.
    let open: Vec<usize> = (0..scales.len()).filter(|d| scales[*d].is_none()).collect();
    if !open.is_empty() && rows(snapshot)? > 0 {
        let columns = open.iter().map(|d| dimensions[*d].column.clone()).collect();
        for (d, values) in open.into_iter().zip(sample(snapshot, columns, &options.cancel)?) {
            scales[d] = Some(ScaleKind::to_learn(&dimensions[d].domain).learn(&values));
        }
    }
    plan.scales = scales.into_iter().collect();
    Ok(plan)
}

/// Plans a copy with the schema of the table's creation; `copy_alterations` copies later grids.
fn plan_same(snapshot: &Snapshot, widening: &Widening, options: &CopyOptions) -> Result<Plan> {
    let core = &snapshot.core;
    let mut header = core.header.clone();
    header.id = fresh_id();
    header.compression = snapshot.view.schema.compression;
    header.created_by = format!("kubist {}", env!("CARGO_PKG_VERSION"));
    options.capacity.map_or(Ok(()), check_capacity)?;
    header.capacity = capacity(snapshot, options);
    header.strata = options.strata.unwrap_or(snapshot.view.schema.strata);
    if header.identity.is_empty() {
        header.writer_tag = format!("{}:", unix_ms());
    }
    let names: Vec<&str> = header.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
    let created = widening.schema(&core.created.user);
    let schema =
        TableSchema::from_names(&created, &names, &header.identity, &header.lookup)?.sampled(&header.sampling)?;
    let first = core.frame(&snapshot.view.schema, 0)?;
    Ok(Plan { header, schema, scales: first.map(|frame| frame.scales.clone()), shared: false })
}

fn capacity(snapshot: &Snapshot, options: &CopyOptions) -> u32 {
    let (own, schema) = (snapshot.core.header.capacity, &snapshot.view.schema);
    let others = options.strata.filter(|strata| *strata != schema.strata && own == default_capacity(schema.strata));
    options.capacity.unwrap_or_else(|| others.map_or(own, default_capacity))
}

fn put_objects(table: &Core, objects: &[(String, Vec<u8>)]) -> Result<()> {
    objects.iter().try_for_each(|(name, value)| table.store.put_if_absent(name, value).map(drop).map_err(store_error))
}

fn copy_alterations(snapshot: &Snapshot, table: &Core, widening: &Widening, options: &CopyOptions) -> Result<()> {
    let periods = of_rows(snapshot, &options.period, &options.cancel)?;
    let (mut copied, mut chain) = (0, Chain::of_alterations(&table.header.id));
    let mut put = |alteration: Alteration| {
        copied += 1;
        let bytes = alteration.encode(chain)?;
        chain = Chain::after_entry(&bytes);
        table.store.put_if_absent(&name_of(copied), &bytes).map_err(store_error).map(drop)
    };
    for number in 1..=snapshot.view.schema.version {
        let name = name_of(number);
        let location = snapshot.core.store.location();
        let missing = || store_error(kubist_store::Error::Missing { file: format!("{location}/{name}") });
        let bytes = snapshot.core.store.get(&name).map_err(store_error)?.ok_or_else(missing)?;
        let (_, alteration) = Alteration::decode(&bytes).map_err(|error| bad_entry(location, &name, 0, error))?;
        // Every step of a copy is complete and has one writer.
        let stays = match &alteration {
            Alteration::Writers(_) => false,
            Alteration::Grid(_) => options.dimensions.is_none(),
            // The header has the strata of the copy.
            Alteration::Strata { .. } => false,
            _ => true,
        };
        if stays {
            put(widening.alteration(alteration)?)?;
        }
    }
    periods.iter().try_for_each(|(column, period)| put(of_period(column, *period)))
}

fn copy_rows(
    snapshot: &Snapshot,
    mut writer: Writer,
    table: &Arc<Core>,
    widening: &Widening,
    options: &CopyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied> {
    let (begin, schema) = (Instant::now(), &snapshot.view.schema);
    copy_alterations(snapshot, table, widening, options)?;
    let history = &snapshot.view.history;
    let seen = |step: &i64| snapshot.step.is_none_or(|last| *step <= last) && history.is_complete(*step);
    let mut steps: BTreeMap<i64, u64> = history.steps().into_iter().filter(seen).map(|step| (step, 0)).collect();
    let (mut done, all) = (0, rows(snapshot)?);
    for batch in stored_rows(snapshot, &options.cancel)? {
        let batch = batch?;
        options.cancel.check()?;
        let of_rows = batch.column(schema.step()).as_primitive::<Int64Type>();
        for same in of_rows.values().chunk_by(|a, b| a == b).filter(|same| same[0] != NO_STEP) {
            *steps.entry(same[0]).or_default() += same.len() as u64;
        }
        done += batch.num_rows() as u64;
        writer.keep(widening.rows(batch)?)?;
        progress(done, all);
    }
    let mut bytes_written = 0;
    if done > 0 || !steps.is_empty() {
        let thinned = history.thinned().into_iter().filter(|(step, _)| steps.contains_key(step)).collect();
        bytes_written = writer.commit_copied(steps.into_iter().collect(), thinned)?.bytes_written;
    }
    Ok(Copied { rows: done, bytes_written, seconds: begin.elapsed().as_secs_f64() })
}
