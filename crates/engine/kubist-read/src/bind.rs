//! Binding resolves names, literals and conditions of a query against the schema of a snapshot. A bound query
//! is valid and immutable. It defines which rows match and where they can be; `plan` decides which runs to
//! read.

mod cells;
mod order;
mod outputs;
mod region;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use kubist_expr::{Meant, Nulls, Predicate, Value, Zone, in_unit_of};
use kubist_index::priority::{PriorityRange, Threshold, priorities};

use crate::grids::Grids;
use crate::postings::KeyLookup;
use crate::request::{Part, Request};
pub(crate) use cells::{Axis, CellGrid};
use kubist_catalog::decoded::QueryId;
use kubist_catalog::schema::{STEP, TableSchema};
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::trace::Trace;
use kubist_format::lookup::keys;
use kubist_types::Period;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::query::{Bound, QuerySpec, wrapped};
#[cfg(test)]
pub(crate) use order::Term;
pub(crate) use order::{Order, of_paths};
pub(crate) use outputs::{By, Output};
pub use region::Region;

const INCLUSION: &str = "inclusion";

pub struct BoundQuery {
    pub snapshot: Snapshot,
    pub predicate: Predicate,
    pub cancel: Cancel,
    pub(crate) spec: QuerySpec,
    pub(crate) grids: Arc<Grids>,
    pub(crate) region: Region,
    range: Option<PriorityRange>,
    /// The range of priorities that `sample` and `window` select.
    drawn: Option<PriorityRange>,
    /// The result contains all matching rows with a priority below this.
    pub(crate) fraction: f64,
    pub(crate) outputs: Vec<Output>,
    /// Stored columns to read; the columns that the result needs come first.
    pub(crate) read: Vec<usize>,
    /// The number of columns in `read` that the result needs.
    pub(crate) needed: usize,
    pub(crate) order: Option<Order>,
    pub(crate) cells: Option<CellGrid>,
    /// The name of the column of inclusion probabilities, and whether it is nullable.
    pub(crate) inclusion: Option<(String, bool)>,
    /// With inclusion probabilities: the index in `read` of the column with the priority threshold.
    pub(crate) kept_below: Option<usize>,
    /// With inclusion probabilities: the index in `read` of the weight column, unless samples are uniform.
    pub(crate) weight: Option<usize>,
    pub(crate) part: Option<Part>,
    pub(crate) most_held: Option<u64>,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) most_scratch: Option<u64>,
    pub(crate) sought: Vec<KeyLookup>,
    /// The range of priorities of all selected rows, if the predicate allows few identities.
    of_values: Option<PriorityRange>,
    pub(crate) trace: Option<Trace>,
    pub(crate) id: QueryId,
}

impl BoundQuery {
    /// Checks a query against the schema of a snapshot.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name, type or value that does not fit the table; `Forked`; `Cancelled`; a storage
    /// error if the grid cannot be read.
    pub fn new(snapshot: &Snapshot, request: &Request) -> Result<BoundQuery> {
        BoundQuery::with(snapshot, request, None, None)
    }

    /// Like [`BoundQuery::new`], with one more condition on the visible columns, joined by AND. `otherwise`
    /// is the default order of the result; it selects no rows.
    ///
    /// # Errors
    ///
    /// The errors of [`BoundQuery::new`] and of `condition`.
    pub fn with(
        snapshot: &Snapshot,
        request: &Request,
        otherwise: Option<&[String]>,
        condition: Option<&dyn Fn(&Schema) -> Result<Predicate>>,
    ) -> Result<BoundQuery> {
        let Request { spec, run } = request;
        let spec = &with_inclusion(spec, &snapshot.view.schema);
        let core = &snapshot.core;
        core.check_process()?;
        run.cancel.check()?;
        let grids = Arc::new(Grids::of(snapshot)?);
        let drawn = priority_range(spec)?;
        let mut read = Vec::new();
        let outputs = Output::all(&snapshot.view.schema, spec, &mut read)?;
        let needed = read.len();
        let order = Order::of(&snapshot.view.schema, spec, &outputs, otherwise, &mut read)?;
        let inclusion = inclusion_column(snapshot, spec, &outputs)?;
        let kept_below = inclusion.as_ref().and(snapshot.view.schema.kept_below).map(|column| place(column, &mut read));
        let weight = inclusion.as_ref().and(snapshot.view.schema.weight).map(|column| place(column, &mut read));
        let kept = snapshot.whole(spec.steps).map_or(1.0, |whole| whole.below);
        let mut query = BoundQuery {
            snapshot: snapshot.clone(),
            predicate: match condition {
                None => predicate(snapshot, spec)?,
                Some(condition) => predicate(snapshot, spec)?.and(condition(&snapshot.view.schema.conditional())?),
            },
            cancel: run.cancel.clone(),
            spec: spec.clone(),
            region: Region::everything(grids.clone()),
            range: drawn,
            drawn,
            fraction: spec.sample.unwrap_or(1.0).min(spec.window.map_or(1.0, |window| window.1)).min(kept),
            outputs,
            read,
            needed,
            order,
            cells: spec.per_cell.as_ref().map(|cells| CellGrid::new(snapshot, &grids, cells)).transpose()?,
            grids,
            inclusion,
            kept_below,
            weight,
            part: run.part.clone(),
            most_held: run.most_held,
            memory_bytes: run.memory_bytes,
            most_scratch: run.most_scratch,
            sought: Vec::new(),
            of_values: None,
            trace: run.trace.clone(),
            id: core.decoded_pages.new_query(),
        };
        query.confine();
        query.find_values();
        Ok(query)
    }

    pub(crate) fn linked(self) -> BoundQuery {
        BoundQuery { cancel: self.cancel.linked(), ..self }
    }

    /// Stored columns that the result has as a dictionary and no expression reads.
    pub(crate) fn coded(&self) -> Vec<usize> {
        let schema = &self.snapshot.view.schema;
        let is_coded = |column: &usize| matches!(schema.user_field(*column).data_type(), DataType::Dictionary(..));
        let mut coded: Vec<usize> = self.outputs.iter().filter_map(Output::column).filter(is_coded).collect();
        coded.retain(|column| {
            let place = self.read.iter().position(|read| read == column);
            place.is_some_and(|place| !self.outputs.iter().any(|output| output.computes_from(place)))
        });
        coded
    }

    /// The range of priorities of matching rows; `None` if no row can match.
    pub fn range(&self) -> Option<PriorityRange> {
        self.range
    }

    /// Whether the predicate implies that all selected rows have priorities in `range`.
    pub(crate) fn keeps_to(&self, range: PriorityRange) -> bool {
        self.of_values.is_some_and(|of_values| range.first <= of_values.first && of_values.last <= range.last)
    }

    pub fn only_dimensions(&self) -> bool {
        let schema = &self.snapshot.view.schema;
        let is_dimension = |column: &usize| schema.dimensions.contains(&schema.stored_index[*column]);
        self.predicate.columns().iter().all(is_dimension)
    }

    /// The dimensions with conditions, as stored columns.
    pub(crate) fn bounded(&self) -> Vec<usize> {
        let schema = &self.snapshot.view.schema;
        let columns = self.predicate.columns().into_iter().map(|column| schema.stored_index[column]);
        columns.filter(|column| schema.dimensions.contains(column)).collect()
    }

    /// By visible column: bounds of matching rows, for dimensions whose condition is a range of numbers.
    pub(crate) fn ends(&self) -> HashMap<usize, Zone> {
        let schema = &self.snapshot.view.schema;
        let columns = self.predicate.columns().into_iter();
        let columns = columns.filter(|column| schema.dimensions.contains(&schema.stored_index[*column]));
        let ends = columns.filter_map(|column| {
            let keys = self.predicate.keys_of(column);
            let (min, max) = keys.numbers.filter(|_| !keys.others)?;
            Some((column, Zone { min, max, nulls: Nulls::None }))
        });
        ends.collect()
    }

    pub(crate) fn is_everywhere(&self) -> bool {
        self.part.is_none() && self.sought.is_empty() && self.region.is_everything()
    }

    /// Finds the values that the predicate allows in columns with a secondary index, and the priorities that it
    /// allows if the identity is a single column.
    fn find_values(&mut self) {
        let schema = &self.snapshot.view.schema;
        let (seed, seen) = (self.snapshot.core.header.seed, schema.visible());
        let values_of = |column: &usize| {
            let place = seen.iter().position(|seen| seen == column)?;
            self.predicate.values_of(place, schema.stored.field(*column).data_type())
        };
        let sought = schema.lookup.iter().filter_map(|column| {
            let mut keys = keys(values_of(column)?.as_ref(), seed);
            keys.sort_unstable();
            keys.dedup();
            Some(KeyLookup { column: *column, keys })
        });
        let sought = sought.collect();
        let of_identity = match schema.identity[..] {
            [column] if schema.weight.is_none() => values_of(&column),
            _ => None,
        };
        if let Some(values) = of_identity {
            let of_values = priorities(&[values.as_ref()], values.len(), seed);
            let ends = of_values.iter().min().zip(of_values.iter().max());
            self.of_values = ends.map(|(first, last)| PriorityRange { first: *first, last: *last });
            self.range = self.range.zip(self.of_values).and_then(|(range, of_values)| range.intersect(of_values));
        }
        self.sought = sought;
    }
}

/// The index of a column in `read`; a missing column is appended.
pub(super) fn place(column: usize, read: &mut Vec<usize>) -> usize {
    read.iter().position(|read| *read == column).unwrap_or_else(|| {
        read.push(column);
        read.len() - 1
    })
}

fn has_end(bound: &Bound) -> bool {
    bound.low.is_some() || bound.high.is_some()
}

fn predicate(snapshot: &Snapshot, spec: &QuerySpec) -> Result<Predicate> {
    let mut all = Predicate::always();
    // Without conditions, this avoids the cost of many columns.
    let visible = match spec.bounds.is_empty() && spec.filter.is_none() && spec.region.is_none() {
        true => Schema::empty(),
        false => snapshot.view.schema.conditional(),
    };
    for bound in &spec.bounds {
        if let Some(range) = of_bound(snapshot, &visible, bound)? {
            all = all.and(range);
        }
    }
    if let Some(filter) = &spec.filter {
        all = all.and(Predicate::parse(filter, &visible)?);
    }
    if let Some(region) = &spec.region {
        all = all.and(region.predicate(&visible)?);
    }
    if let Some(steps) = spec.steps {
        all = all.and(of_steps(snapshot, steps)?);
    }
    if let Some(step) = snapshot.step {
        all = all.and(of_steps(snapshot, (None, Some(step)))?);
    }
    Ok(all)
}

fn of_bound(snapshot: &Snapshot, visible: &Schema, bound: &Bound) -> Result<Option<Predicate>> {
    let name = snapshot.view.schema.user_field(snapshot.view.schema.column(&bound.column)?).name();
    let (low, high) = (bound.low.as_ref(), bound.high.as_ref());
    for end in [low, high].into_iter().flatten() {
        if matches!(end, Value::Null) || matches!(end, Value::Float(value) if value.is_nan()) {
            return Err(Error::invalid(format!("box: an end of {name:?} is {end:?}, which compares with nothing")));
        }
    }
    let number = |value: Option<&Value>| match value? {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    };
    if let (Some(low), Some(high)) = (number(low), number(high))
        && low > high
    {
        return Err(Error::invalid(format!("box: {name}: the lower end {low} is above the upper end {high}")));
    }
    if !has_end(bound) {
        return Ok(None);
    }
    if let Some(images) = images_of(visible, name, low, high)? {
        return Ok(Some(images));
    }
    let range = Predicate::range(visible, name, low, high)?;
    if let (Some(low), Some(high)) = (low, high)
        && are_reversed(visible, name, low, high)?
    {
        return Err(Error::invalid(format!("box: {name}: the lower end {low} is above the upper end {high}")));
    }
    Ok(Some(range))
}

/// The predicate of a range that wraps around; `None` if the column is not periodic, or a plain range suffices.
fn images_of(visible: &Schema, name: &str, low: Option<&Value>, high: Option<&Value>) -> Result<Option<Predicate>> {
    let (Some(low), Some(high), Ok(field)) = (low, high, visible.field_with_name(name)) else { return Ok(None) };
    if Period::of(field).is_none() {
        return Ok(None);
    }
    let number = |end: &Value| match end {
        Value::Int(end) => Ok(Some(*end as f64)),
        Value::Float(end) => Ok(Some(*end)),
        Value::Text(text) => in_unit_of(field, text, Meant::Value),
        _ => Ok(None),
    };
    match number(low)?.zip(number(high)?) {
        Some((low, high)) if low <= high => Ok(wrapped(visible, name, low, high)?),
        _ => Ok(None),
    }
}

/// Whether the upper bound is below the lower one. A range between two adjacent values is empty but not reversed.
fn are_reversed(visible: &Schema, name: &str, low: &Value, high: &Value) -> Result<bool> {
    let place = visible.index_of(name).map_err(|error| Error::invalid(error.to_string()))?;
    let keys = |low, high| Ok::<_, Error>(Predicate::range(visible, name, low, high)?.keys_of(place).numbers);
    let (above, below) = (keys(Some(low), None)?, keys(None, Some(high))?);
    Ok(above.zip(below).is_some_and(|(above, below)| above.0 > below.1.saturating_add(1)))
}

/// The predicate of complete steps. Rows without a step come before every step, so they are in ranges
/// without a lower bound.
fn of_steps(snapshot: &Snapshot, (low, high): (Option<i64>, Option<i64>)) -> Result<Predicate> {
    if low.zip(high).is_some_and(|(low, high)| low > high) {
        return Err(Error::invalid(format!("steps go from {low:?} to {high:?}, but low must not exceed high")));
    }
    let asked = &snapshot.view.schema.asked;
    let end = |end: Option<i64>| end.map(|step| Value::Int(step as i128));
    let range = Predicate::range(asked, STEP, end(low).as_ref(), end(high).as_ref())?;
    let incomplete: Vec<String> = snapshot.view.history.incomplete().iter().map(i64::to_string).collect();
    if incomplete.is_empty() {
        return Ok(range);
    }
    Ok(range.and(Predicate::parse(&format!("{STEP} NOT IN ({})", incomplete.join(", ")), asked)?))
}

fn priority_range(spec: &QuerySpec) -> Result<Option<PriorityRange>> {
    let mut high = Threshold::ALL;
    if let Some(sample) = spec.sample {
        if !(sample > 0.0 && sample <= 1.0) {
            return Err(Error::invalid(format!("sample must be in (0, 1], found {sample}")));
        }
        high = Threshold::from_fraction(sample);
    }
    let mut low = Threshold::NONE;
    if let Some((first, last)) = spec.window {
        if !(first >= 0.0 && first < last && last <= 1.0) {
            return Err(Error::invalid(format!(
                "window must be (lo, hi) with 0 <= lo < hi <= 1, found ({first}, {last})"
            )));
        }
        low = Threshold::from_fraction(first);
        high = high.min(Threshold::from_fraction(last));
    }
    Ok(PriorityRange::between(low, high))
}

/// Adds the column `inclusion` as inclusion probabilities, unless the table has a column of that name.
fn with_inclusion(spec: &QuerySpec, schema: &TableSchema) -> QuerySpec {
    let mut spec = spec.clone();
    if let (Some(columns), None, Err(_)) = (&mut spec.columns, &spec.inclusion, schema.column(INCLUSION)) {
        let before = columns.len();
        columns.retain(|column| column.trim() != INCLUSION);
        spec.inclusion = (columns.len() < before).then(|| INCLUSION.into());
    }
    spec
}

fn inclusion_column(snapshot: &Snapshot, spec: &QuerySpec, outputs: &[Output]) -> Result<Option<(String, bool)>> {
    let Some(name) = &spec.inclusion else { return Ok(None) };
    if outputs.iter().any(|output| output.field.name() == name) {
        return Err(Error::invalid(format!("inclusion: columns has {name:?} already; choose another name")));
    }
    if snapshot.view.schema.user.index_of(name).is_ok() {
        return Err(Error::invalid(format!("inclusion: the table has a column {name:?} already; choose another name")));
    }
    Ok(Some((name.clone(), spec.sample_rows().is_some() || spec.per_cell.is_some())))
}
