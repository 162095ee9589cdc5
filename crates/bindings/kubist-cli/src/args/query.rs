//! The options of a query ([`Query`]), declared once for all commands.

use arrow_schema::Schema;
use clap::Args;
use kubist::{PerCell, Query};

use crate::failure::Result;
use crate::parse::{self, Columns, OrderBy, Ranges};

/// The rows that a command reads.
#[derive(Clone, Debug, Args)]
pub struct Region {
    /// Closed ranges: x=0.1:0.2,y=:0.5,pid=7 (repeatable; all must hold)
    ///
    /// Write LOW..HIGH if a bound contains colons: time=2024-01-01T10:00..2024-01-01T11:00. A bound may have a
    /// unit if the column has one: x=1cm:2cm
    #[arg(long = "box", value_name = "RANGES")]
    pub ranges: Vec<Ranges>,
    /// An SQL condition: "diameter > 2e-5 AND NOT deposited"
    #[arg(long = "where", value_name = "SQL")]
    pub filter: Option<String>,
    /// A region in JSON, or a file with it: '{"sphere": {"center": {"x": 0, "y": 0}, "radius": "1 cm"}}'
    ///
    /// docs/regions.md lists the kinds: sphere, ellipsoid, cylinder, polygon, cone, moc, union and others
    #[arg(long, value_name = "JSON", value_parser = parse::region)]
    pub region: Option<kubist::Region>,
    /// The fraction of the rows to sample: 0.01 or 1%
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub sample: Option<f64>,
    /// Only rows with a priority in this range: 0:0.01, then 0.01:0.08, ... never repeats a row
    #[arg(long, value_name = "LO:HI", value_parser = parse::window)]
    pub window: Option<(f64, f64)>,
    /// Only rows of complete steps: 3, 3:7, :7 or 3:
    #[arg(long, value_name = "STEPS", value_parser = parse::steps, allow_hyphen_values = true)]
    pub steps: Option<(Option<i64>, Option<i64>)>,
}

/// Columns, number and order of the rows.
#[derive(Clone, Debug, Args)]
pub struct Selection {
    /// The columns and expressions to return, in this order: 'pid, sqrt(vx*vx + vy*vy) as speed'
    ///
    /// An expression without a name gets its own text. * stands for all columns.
    #[arg(long, value_name = "COLUMNS", value_parser = parse::columns)]
    pub columns: Option<Columns>,
    /// Return at most this many rows: a uniform sample, or the first ones in the order of --order-by
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// The order of the rows: priority, or columns and expressions with asc or desc: 'diameter desc,pid'
    ///
    /// NaN and null come last.
    #[arg(long, value_name = "COLUMNS", value_parser = parse::order_by)]
    pub order_by: Option<OrderBy>,
}

/// All options of a query.
#[derive(Clone, Debug, Args)]
pub struct QueryArgs {
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub selection: Selection,
    /// At most K rows from each cell of a regular grid: 1:x=0.001,y=1mm
    #[arg(long, value_name = "K:COLUMN=WIDTH,...", value_parser = parse::per_cell)]
    pub per_cell: Option<PerCell>,
    /// Add a column of this name: the probability with which each row is in the result
    #[arg(long, value_name = "NAME")]
    pub inclusion: Option<String>,
}

impl Region {
    /// The query for these rows. `schema` gives the types of the bounds.
    pub fn spec(&self, schema: &Schema) -> Result<Query> {
        Ok(Query {
            bounds: parse::bounds(&self.ranges, schema)?,
            filter: self.filter.clone(),
            region: self.region.clone(),
            sample: self.sample,
            window: self.window,
            steps: self.steps,
            ..Query::default()
        })
    }
}

impl Selection {
    /// Adds this selection to a query.
    pub fn of(&self, spec: Query) -> Query {
        Query {
            columns: self.columns.clone().map(|columns| columns.0),
            limit: self.limit,
            order_by: self.order_by.clone().map(|order| order.0),
            ..spec
        }
    }
}

impl QueryArgs {
    /// The whole query. `schema` gives the types of the bounds.
    pub fn spec(&self, schema: &Schema) -> Result<Query> {
        let spec = self.selection.of(self.region.spec(schema)?);
        Ok(Query { per_cell: self.per_cell.clone(), inclusion: self.inclusion.clone(), ..spec })
    }
}
