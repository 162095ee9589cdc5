//! Trajectories: all rows of the particles that passed through a region.
//!
//! A first query finds the values of a column, such as a particle id, in the region. A second query on the
//! same snapshot returns all rows with these values, through a secondary index if there is one. Sorted
//! arrays allow millions of values.

use std::collections::HashSet;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::Schema;
use arrow_select::concat::concat;
use arrow_select::take::take;
use kubist_expr::Predicate;
use kubist_index::order;
use kubist_index::priority::{is_identity_type, priorities};

use crate::bind::{BoundQuery, of_paths};
use crate::execute::{self, Projection};
use crate::plan::{LogicalPlan, Planner};
use crate::request::Request;
use crate::stream::QueryStream;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::error::{Error, Result};
use kubist_types::query::QuerySpec;
use kubist_types::stats::Stats;

/// Returns the rows of `query` whose value in the column `by` also occurs in the rows of `through`. Null
/// matches nothing. By default, the result is one trajectory after another, each in time order.
///
/// # Errors
///
/// `Invalid` if a query or the column is not possible, or there are more trajectories than allowed in
/// memory; `SnapshotExpired`; `Damaged`; `Cancelled`; a storage error.
pub fn trajectories(snapshot: &Snapshot, through: &Request, by: &str, request: &Request) -> Result<QueryStream> {
    let schema = &snapshot.view.schema;
    let column = schema.column(by)?;
    let by = schema.user_field(column).name();
    if !is_identity_type(schema.stored.field(column).data_type()) {
        let data_type = schema.stored.field(column).data_type();
        return Err(Error::invalid(format!("by: column {by:?} of type {data_type} cannot tell records apart")));
    }
    let QuerySpec { limit, per_cell, order_by, .. } = &through.spec;
    if limit.is_some() || per_cell.is_some() || order_by.is_some() {
        return Err(Error::invalid("what passed through a region is not a matter of limit, per_cell or an order"));
    }
    let paths = of_paths(schema, column);
    let bind = |condition: Option<&dyn Fn(&Schema) -> Result<Predicate>>| {
        BoundQuery::with(snapshot, request, Some(&paths), condition)
    };
    // Errors of the second query are reported before the first one runs.
    bind(None)?;
    let (values, spent) = distinct(snapshot, through, column)?;
    let cancel = &request.run.cancel;
    let among = |visible: &Schema| Ok(Predicate::among(visible, by, values.as_ref(), &|| cancel.is_set())?);
    QueryStream::run(LogicalPlan::of(bind(Some(&among))?), spent)
}

fn distinct(snapshot: &Snapshot, through: &Request, column: usize) -> Result<(ArrayRef, Stats)> {
    let mut planner = Planner::new(snapshot, through)?;
    let data_type = snapshot.view.schema.stored.field(column).data_type();
    let (mut seen, mut found): (HashSet<(u64, u64)>, Vec<ArrayRef>) = (HashSet::new(), Vec::new());
    let mut spent = Stats::default();
    let wanted = Projection { columns: vec![column], priorities: false, coded: vec![] };
    let mut work = execute::scan(planner.all_pieces(&mut spent)?, wanted);
    for scanned in &mut work {
        let scanned = scanned?;
        through.run.cancel.check()?;
        spent.add(&scanned.stats);
        let Some(array) = scanned.columns.first() else { continue };
        let keys = distinguishing(array.as_ref());
        let fresh = keys.into_iter().enumerate().filter(|(row, key)| array.is_valid(*row) && seen.insert(*key));
        let fresh = UInt64Array::from_iter_values(fresh.map(|(row, _)| row as u64));
        if let Some(most) = through.run.most_held.filter(|most| seen.len() as u64 > *most) {
            return Err(Error::invalid(format!(
                "more than {most} trajectories lead through this region: take a smaller one"
            )));
        }
        if !fresh.is_empty() {
            found.push(take(array, &fresh, None).map_err(Error::kernel)?);
        }
    }
    spent.add(&work.planning);
    let found: Vec<&dyn Array> = found.iter().map(|array| array.as_ref()).collect();
    let values = if found.is_empty() {
        arrow_array::new_empty_array(data_type)
    } else {
        concat(&found).map_err(Error::kernel)?
    };
    Ok((values, spent))
}

/// Different values have different keys. Keys are exact for types with exact order keys. For other types
/// they are two 64-bit hashes, which collide for one pair in 10^38.
fn distinguishing(array: &dyn Array) -> Vec<(u64, u64)> {
    match order::keys(array) {
        Some(keys) if order::is_exact(array.data_type()) => keys.into_iter().map(|key| (key, 0)).collect(),
        _ => {
            let [one, other] = [0, 1].map(|seed| priorities(&[array], array.len(), seed));
            one.into_iter().zip(other).collect()
        }
    }
}
