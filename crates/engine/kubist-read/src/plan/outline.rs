//! The outline of a plan for `explain`.

use std::fmt;

use serde::Serialize;

use super::{LogicalPlan, Method, Planner, ReadPlan};
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_types::error::Result;
use kubist_types::shown::printable;
use kubist_types::stats::Stats;

const SHOWN: usize = 200;

/// The expected reads of a query, before any row is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanOutline {
    /// How rows are chosen: `nothing`, `scan`, `lowest` or `lowest in cells`.
    pub method: &'static str,
    /// Largest number of rows, in total or in each cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The order of the result, if any, and its largest number of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_by: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    pub columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The region of the query as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// For each bounded dimension: its name, and the bounds of matching rows in the column's unit.
    pub bounds: Vec<(String, f64, f64)>,
    /// For each dimension: its name, and the queried fraction of its coordinates.
    pub region: Vec<(String, f64)>,
    /// The range of priorities as fractions; the second is excluded.
    pub priorities: (f64, f64),
    /// The first window of priorities; equal to `priorities` if everything is read together.
    pub window: (f64, f64),
    /// Approximate number of live runs of the table.
    pub runs_there: u64,
    /// Number of runs in the first window.
    pub runs: u64,
    /// Number of replicas among the runs.
    pub replicas: u64,
    /// Number of runs that a secondary index narrows to zones.
    pub looked_up: u64,
    /// Number of rows in these runs.
    pub rows_there: u64,
    /// Expected number of rows in the first window, without the effect of conditions on values.
    pub rows_expected: f64,
    pub cubes_visited: u64,
}

impl Planner {
    /// Plans the first window from metadata. The execution does not repeat this work, except for pieces.
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
        // Pieces are planned again when they are read.
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
