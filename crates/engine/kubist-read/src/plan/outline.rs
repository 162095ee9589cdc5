//! The plan of a query as `explain` shows it: the runs to read, and why. It is made without reading rows.

use std::fmt;

use serde::Serialize;

use super::{LogicalPlan, Method, Planner, ReadPlan};
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_types::error::Result;
use kubist_types::shown::printable;
use kubist_types::stats::Stats;

const SHOWN: usize = 200;

/// The expected reads of a query. A query for the rows of lowest priority (`lowest`, `lowest in cells`) reads windows
/// of rising priority until it has enough rows; a `scan` has one window. Most fields are about the first window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanOutline {
    /// How rows are chosen. `nothing`: no row can match; `scan`: all matching rows; `lowest`: the matching rows of
    /// lowest priority; `lowest in cells`: the same in each cell of a grid.
    pub method: &'static str,
    /// Largest number of rows: in total for `lowest`, in each cell for `lowest in cells`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_by: Option<Vec<String>>,
    /// With an order, the largest number of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    pub columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The region of the query as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// For each dimension with bounds in the query: its name, and the lowest and highest value of matching rows, in the
    /// column's unit.
    pub bounds: Vec<(String, f64, f64)>,
    /// For each dimension: its name, and the fraction of the grid's coordinates that the query covers.
    pub region: Vec<(String, f64)>,
    /// The priorities of the query, as fractions from 0 to 1; the second is exclusive.
    pub priorities: (f64, f64),
    /// The priorities of the first window, in the same form.
    pub window: (f64, f64),
    /// Approximate number of runs in the table.
    pub runs_there: u64,
    pub runs: u64,
    /// Number of replicas among these runs (docs/replication.md).
    pub replicas: u64,
    /// Number of runs in which a secondary index selects zones.
    pub looked_up: u64,
    pub rows_there: u64,
    /// The expected number of rows in the region and the window, without other conditions, where a zone from a
    /// secondary index counts as one row.
    pub rows_expected: f64,
    pub cubes_visited: u64,
}

impl Planner {
    /// Plans the first window, and adds the cost to `stats`. Later reads with this planner use the same plan, except a
    /// plan in pieces ([`super::Pieces`]) for a manifest larger than memory, which they make again.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`].
    pub fn outline(&mut self, stats: &mut Stats) -> Result<PlanOutline> {
        let LogicalPlan { query, method: chosen, .. } = self.logical.clone();
        let schema = &query.snapshot.view.schema;
        let (method, rows) = match chosen {
            Method::Nothing => ("nothing", None),
            Method::Scan => ("scan", None),
            Method::Lowest { rows } => ("lowest", Some(rows)),
            Method::LowestInCells { .. } => ("lowest in cells", query.cells.as_ref().map(|cells| cells.rows)),
        };
        let (mut read, mut spent) = (Outlined::default(), Stats::default());
        match chosen {
            Method::Nothing => {}
            Method::Scan => {
                let mut pieces = self.all_pieces(&mut spent)?;
                while let Some(plan) = pieces.next(&mut spent) {
                    read.add(&*plan?);
                }
            }
            Method::Lowest { .. } | Method::LowestInCells { .. } => {
                let window = self.windows(&mut spent)?.current();
                let first = self.read_plan(window, &mut spent)?;
                read.add(self.first.get_or_insert(first));
            }
        }
        // A plan in pieces is made again for the read, which then counts its cost.
        if chosen != Method::Scan || self.whole.is_some() {
            stats.add(&spent);
        }
        let name = |column: &usize| schema.user_field(*column).name().clone();
        Ok(PlanOutline {
            method,
            rows,
            order_by: query.spec.order_by.clone(),
            first: query.order.as_ref().and_then(|order| order.first),
            columns: query.schema().fields().iter().map(|field| field.name().clone()).collect(),
            condition: query.spec.filter.clone(),
            shape: query.spec.region.as_ref().map(ToString::to_string),
            bounds: query.bounds(),
            region: schema.dimensions.iter().map(name).zip(query.region.shares()).collect(),
            priorities: query.range().map_or((0.0, 0.0), fractions),
            window: read.range.map_or((0.0, 0.0), fractions),
            runs_there: query.snapshot.view.runs.about(),
            runs: read.runs,
            replicas: read.replicas,
            looked_up: read.looked_up,
            rows_there: read.rows_there,
            rows_expected: read.rows_expected,
            cubes_visited: spent.cubes_visited,
        })
    }
}

#[derive(Default)]
struct Outlined {
    range: Option<PriorityRange>,
    runs: u64,
    replicas: u64,
    looked_up: u64,
    rows_there: u64,
    rows_expected: f64,
}

impl Outlined {
    fn add(&mut self, plan: &ReadPlan) {
        self.range = Some(plan.range);
        self.rows_expected += plan.expected_rows();
        for visit in &plan.visits {
            self.runs += 1;
            self.replicas += u64::from(visit.run.is_replica());
            self.looked_up += u64::from(visit.zones.is_some());
            self.rows_there += visit.run.rows;
        }
    }
}

fn fractions(range: PriorityRange) -> (f64, f64) {
    let fraction = |end: u128| Threshold::new(end).to_fraction();
    (fraction(range.first.into()), fraction(u128::from(range.last) + 1))
}

impl fmt::Display for PlanOutline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: f64| format!("{:.3} %", 100.0 * share);
        let between = |(low, high): (f64, f64)| format!("{} to {}", share(low), share(high));
        let method = match (self.method, self.rows) {
            ("lowest", Some(rows)) => format!("the {rows} records of lowest priority, by windows of rising priority"),
            ("lowest in cells", Some(rows)) => {
                format!("the {rows} records of lowest priority in each cell, by windows")
            }
            ("nothing", _) => "nothing: no record can match".into(),
            _ => "all records that match, as they are stored".into(),
        };
        writeln!(out, "{:<14}{method}", "plan")?;
        if let Some(terms) = &self.order_by {
            let first = self.first.map_or(String::new(), |first| format!(", the first {first}"));
            writeln!(out, "{:<14}{}{first}", "order", printable(&terms.join(", ")))?;
        }
        writeln!(out, "{:<14}{}", "columns", printable(&self.columns.join(", ")))?;
        if let Some(condition) = &self.condition {
            writeln!(out, "{:<14}{}", "condition", printable(condition))?;
        }
        if let Some(shape) = &self.shape {
            let shown = shape.chars().take(SHOWN).collect::<String>();
            let more = if shown.len() < shape.len() { "..." } else { "" };
            writeln!(out, "{:<14}{}{more}", "shape", printable(&shown))?;
        }
        if !self.bounds.is_empty() {
            let bound = |(name, low, high): &(String, f64, f64)| format!("{} {low} to {high}", printable(name));
            writeln!(out, "{:<14}{}", "bounds", self.bounds.iter().map(bound).collect::<Vec<_>>().join(", "))?;
        }
        let region: Vec<String> =
            self.region.iter().map(|(name, side)| format!("{} {}", printable(name), share(*side))).collect();
        writeln!(out, "{:<14}{} of the grid", "region", region.join(" x "))?;
        writeln!(out, "{:<14}{}", "priorities", between(self.priorities))?;
        if self.window != self.priorities {
            writeln!(out, "{:<14}{}", "first window", between(self.window))?;
        }
        let beside = [("replicas", self.replicas), ("by lookups", self.looked_up)];
        let beside: Vec<String> =
            beside.iter().filter(|(_, runs)| *runs > 0).map(|(what, runs)| format!(", {runs} {what}")).collect();
        write!(
            out,
            "{:<14}{} of {} runs{}; {} records in them, about {:.0} expected",
            "reads",
            self.runs,
            self.runs_there,
            beside.concat(),
            self.rows_there,
            self.rows_expected
        )
    }
}
