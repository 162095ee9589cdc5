//! The result of an estimate: one figure for each aggregate and group, with the cost.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, UInt32Array, new_null_array};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;

use crate::own::{self, ExactInterval};
use crate::words::{bin_in_words, in_words, texts_in_words};
use kubist_types::error::{Error, Result};
use kubist_types::human::count;
use kubist_types::stats::Stats;

const COLUMNS: [&str; 13] = [
    "aggregate",
    "bin_low",
    "bin_high",
    "bin2_low",
    "bin2_high",
    "value",
    "low",
    "high",
    "confidence",
    "fraction",
    "rows",
    "rows_read",
    "exact",
];

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    pub aggregate: String,
    pub group: usize,
    /// For a histogram: the edges of the bin in each dimension. An unknown outer edge is infinite.
    pub bin: Vec<(f64, f64)>,
    /// The estimate; `None` if no record determines it.
    pub value: Option<f64>,
    /// The bounds of the interval, `low` and `high`; infinite if unbounded.
    pub low: f64,
    pub high: f64,
    /// Value and bounds with all digits: for extremes and quantiles of integers, decimals, dates and times,
    /// and for exact counts and sums.
    #[serde(skip)]
    pub own: Option<ExactInterval>,
    /// The fraction of identities in the sample.
    pub fraction: f64,
    pub rows: u64,
    /// Whether the value is exact; both bounds then equal it.
    pub exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// A better estimate follows.
    Progress,
    Goal,
    /// The requested sample was read.
    Sample,
    Time,
    Rows,
    Bytes,
    /// More distinct values would exceed the memory limit.
    Memory,
    Exact,
}

#[derive(Clone, Debug)]
pub struct Estimate {
    pub figures: Vec<Figure>,
    /// One row for each group: the columns of `group_by`, sorted ascending.
    pub groups: RecordBatch,
    pub fraction: f64,
    pub confidence: f64,
    /// Units, by the text of the aggregate.
    pub units: BTreeMap<String, String>,
    pub bin_units: BTreeMap<String, Vec<Option<String>>>,
    pub stats: Stats,
    pub stopped: Stop,
    /// With the given confidence, the sample has every group with more identities than this. `None` without
    /// groups.
    pub missed_group: Option<u64>,
    pub warnings: Vec<String>,
    /// Set in the first of several estimates, if the goal needs many records.
    pub outlook: Option<Outlook>,
}

/// The cost to reach the goal, predicted from the pilot.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outlook {
    pub rows: u64,
    pub of: u64,
    pub aggregate: String,
    /// The interval contains 0, so a relative error may be unreachable.
    pub around_zero: bool,
}

impl fmt::Display for Outlook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outlook { rows, of, aggregate, around_zero } = self;
        write!(out, "the goal needs {} of {} records, because of {aggregate}", about(*rows), about(*of))?;
        if *around_zero {
            out.write_str(", whose interval contains 0: give an absolute error (0.01 abs)")?;
        }
        out.write_str("; max_rows and within limit it")
    }
}

fn about(rows: u64) -> String {
    let unit = 10u64.pow(rows.max(1).ilog10().saturating_sub(1));
    format!("about {}", count((rows + unit / 2) / unit * unit))
}

/// Refuses grouping columns with the name of a result column.
pub fn check_groups(groups: &Schema) -> Result<()> {
    let mut names = HashSet::new();
    match groups
        .fields()
        .iter()
        .map(|field| field.name())
        .find(|name| COLUMNS.contains(&name.as_str()) || !names.insert(name.as_str()))
    {
        Some(name) => Err(Error::invalid(format!(
            "group_by: the result already has a column {name:?}; give the group another name by AS"
        ))),
        None => Ok(()),
    }
}

impl Estimate {
    pub fn in_words(&self, figure: &Figure) -> String {
        let unit = self.units.get(&figure.aggregate).filter(|_| figure.bin.is_empty()).map(String::as_str);
        match &figure.own {
            // Integers that are not exact are shown with significant digits only.
            Some(own) if figure.exact || !own.is_integer() => {
                let texts = own.texts();
                texts_in_words(texts.each_ref().map(Option::as_deref), figure.exact, unit)
            }
            _ => in_words(figure.value, figure.low, figure.high, figure.exact, unit),
        }
    }

    /// The bin as text, with the unit; `None` without a bin.
    pub fn bin_in_words(&self, figure: &Figure) -> Option<String> {
        let units = self.bin_units.get(&figure.aggregate);
        let unit = |direction: usize| units?.get(direction)?.as_deref();
        let ends = figure.bin.iter().enumerate().map(|(direction, ends)| bin_in_words(*ends, unit(direction)));
        (!figure.bin.is_empty()).then(|| ends.collect::<Vec<_>>().join(" × "))
    }

    /// Value, low and high of all figures: floats, or values of their common exact type, where unbounded ones are null.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn values(&self) -> Result<[ArrayRef; 3]> {
        let Some(data_type) = self.common_type() else {
            let floats = |of: &dyn Fn(&Figure) -> Option<f64>| {
                Arc::new(self.figures.iter().map(of).collect::<Float64Array>()) as ArrayRef
            };
            return Ok([
                floats(&|figure| figure.value),
                floats(&|figure| Some(figure.low)),
                floats(&|figure| Some(figure.high)),
            ]);
        };
        let own = |of: fn(&ExactInterval) -> Option<i256>| {
            self.figures.iter().map(move |figure| figure.own.as_ref().and_then(of))
        };
        let all = own(|own| own.value).chain(own(|own| own.low)).chain(own(|own| own.high));
        let all = own::array(&all.collect::<Vec<_>>(), &data_type)?;
        let count = self.figures.len();
        Ok([0, 1, 2].map(|part| all.slice(part * count, count)))
    }

    fn common_type(&self) -> Option<DataType> {
        let mut types = self.figures.iter().map(|figure| figure.own.as_ref().map(|own| &own.data_type));
        let first = types.next()??.clone();
        types.try_fold(first, |common, next| match next? {
            same if *same == common => Some(common),
            other if own::is_integer(other) && own::is_integer(&common) => Some(own::HUGE),
            _ => None,
        })
    }

    /// One row for each figure: aggregate, grouping columns, for histograms the bin (`bin_low`, `bin_high`;
    /// in two dimensions also `bin2_low`, `bin2_high`), then value, low, high, confidence, fraction, rows,
    /// rows_read, exact. Value, low and high are as in [`Estimate::values`].
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let (mut names, mut exact) = (StringBuilder::new(), BooleanBuilder::new());
        let [mut confidence, mut fraction] = [(); 2].map(|()| Float64Builder::new());
        let [mut rows, mut rows_read] = [(); 2].map(|()| UInt64Builder::new());
        let directions = self.figures.iter().map(|figure| figure.bin.len()).max().unwrap_or(0);
        let mut bins: Vec<[Float64Builder; 2]> = (0..directions).map(|_| Default::default()).collect();
        for figure in &self.figures {
            names.append_value(&figure.aggregate);
            confidence.append_value(self.confidence);
            fraction.append_value(figure.fraction);
            rows.append_value(figure.rows);
            rows_read.append_value(self.stats.rows_read);
            exact.append_value(figure.exact);
            for (direction, [lower, upper]) in bins.iter_mut().enumerate() {
                let ends = figure.bin.get(direction);
                lower.append_option(ends.map(|ends| ends.0));
                upper.append_option(ends.map(|ends| ends.1));
            }
        }
        let group_of_row = UInt32Array::from_iter_values(self.figures.iter().map(|figure| figure.group as u32));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(names.finish())];
        for group in self.groups.columns() {
            columns.push(match group.is_empty() {
                true => new_null_array(group.data_type(), self.figures.len()),
                false => take(group, &group_of_row, None).map_err(Error::kernel)?,
            });
        }
        for [mut lower, mut upper] in bins {
            columns.push(Arc::new(lower.finish()));
            columns.push(Arc::new(upper.finish()));
        }
        let values = self.values()?;
        let own_type = values[0].data_type().clone();
        columns.extend(values);
        for mut builder in [confidence, fraction] {
            columns.push(Arc::new(builder.finish()));
        }
        columns.push(Arc::new(rows.finish()));
        columns.push(Arc::new(rows_read.finish()));
        columns.push(Arc::new(exact.finish()));
        RecordBatch::try_new(self.schema(directions, own_type), columns).map_err(Error::kernel)
    }

    fn schema(&self, directions: usize, values: DataType) -> SchemaRef {
        let field = |name: &str, kind: DataType, nullable: bool| Arc::new(Field::new(name, kind, nullable));
        let mut fields = vec![field(COLUMNS[0], DataType::Utf8, false)];
        fields.extend(
            self.groups.schema().fields().iter().map(|group| Arc::new(Field::clone(group).with_nullable(true))),
        );
        fields.extend(COLUMNS[1..1 + 2 * directions].iter().map(|name| field(name, DataType::Float64, true)));
        let floats = values == DataType::Float64;
        fields.push(field("value", values.clone(), true));
        fields.extend(COLUMNS[6..8].iter().map(|name| field(name, values.clone(), !floats)));
        fields.extend(COLUMNS[8..10].iter().map(|name| field(name, DataType::Float64, false)));
        fields.extend(COLUMNS[10..12].iter().map(|name| field(name, DataType::UInt64, false)));
        fields.push(field("exact", DataType::Boolean, false));
        Arc::new(Schema::new(fields))
    }
}
