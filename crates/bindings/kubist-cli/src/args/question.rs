//! What can be asked of a table: the options of [`QuerySpec`], declared once for all commands.

use arrow_schema::Schema;
use clap::Args;
use kubist::{PerCell, QuerySpec};

use crate::failure::Result;
use crate::parse::{self, OrderBy, Ranges};

/// Which records, whatever is made of them: shared by all commands that ask.
#[derive(Clone, Debug, Args)]
pub struct Region {
    /// Closed ranges: x=0.1:0.2,y=:0.5,pid=7 (repeatable; all must hold)
    ///
    /// LOW..HIGH where an end has colons itself: time=2024-01-01T10:00..2024-01-01T11:00. An end
    /// may have a unit where the column has one: x=1cm:2cm
    #[arg(long = "box", value_name = "RANGES")]
    pub ranges: Vec<Ranges>,
    /// An SQL condition: "diameter > 2e-5 AND NOT deposited"
    #[arg(long = "where", value_name = "SQL")]
    pub filter: Option<String>,
    /// The fraction of the records to sample: 0.01 or 1%
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub sample: Option<f64>,
    /// Only records whose priority lies in it: 0:0.01, then 0.01:0.08, ... never repeats one
    #[arg(long, value_name = "LO:HI", value_parser = parse::window)]
    pub window: Option<(f64, f64)>,
    /// Only records of complete steps: 3, 3:7, :7 or 3:
    #[arg(long, value_name = "STEPS", value_parser = parse::steps, allow_hyphen_values = true)]
    pub steps: Option<(Option<i64>, Option<i64>)>,
}

/// How many of them come back, with which columns and in which order.
#[derive(Clone, Debug, Args)]
pub struct Selection {
    /// The columns to return, in this order
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// At most this many records: the first in the order of --order-by, or without it a uniform sample
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// The order of the records: columns with asc or desc, or priority: 'diameter desc,pid'
    ///
    /// NaN and null come last.
    #[arg(long, value_name = "COLUMNS", value_parser = parse::order_by)]
    pub order_by: Option<OrderBy>,
}

/// All that can be asked.
#[derive(Clone, Debug, Args)]
pub struct Question {
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub selection: Selection,
    /// At most K records from each cell of a regular grid: 1:x=0.001,y=1mm
    #[arg(long, value_name = "K:COLUMN=WIDTH,...", value_parser = parse::per_cell)]
    pub per_cell: Option<PerCell>,
    /// One more column of this name: the probability with which each record came into the answer
    #[arg(long, value_name = "NAME")]
    pub inclusion: Option<String>,
}

impl Region {
    /// These records of a table, the ends of its box typed by the columns of `schema`.
    pub fn spec(&self, schema: &Schema) -> Result<QuerySpec> {
        Ok(QuerySpec {
            bounds: parse::bounds(&self.ranges, schema)?,
            filter: self.filter.clone(),
            sample: self.sample,
            window: self.window,
            steps: self.steps,
            ..QuerySpec::default()
        })
    }
}

impl Selection {
    /// The same, of records that `spec` says.
    pub fn of(&self, spec: QuerySpec) -> QuerySpec {
        QuerySpec {
            columns: self.columns.clone(),
            limit: self.limit,
            order_by: self.order_by.clone().map(|order| order.0),
            ..spec
        }
    }
}

impl Question {
    /// The question, the ends of its box typed by the columns of `schema`.
    pub fn spec(&self, schema: &Schema) -> Result<QuerySpec> {
        let spec = self.selection.of(self.region.spec(schema)?);
        Ok(QuerySpec { per_cell: self.per_cell.clone(), inclusion: self.inclusion.clone(), ..spec })
    }
}
