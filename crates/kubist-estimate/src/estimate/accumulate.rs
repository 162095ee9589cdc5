//! Records into accumulators: one for each group and aggregate, in parts that are filled
//! side by side and joined.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use kubist_index::priority::priorities;

use crate::estimate::aggregate::{Aggregate, Kind};
use crate::estimate::distinct::Distinct;
use crate::estimate::histogram::{Axis, Histogram};
use crate::estimate::interval::{features, width};
use crate::estimate::ordered::Ordered;
use crate::estimate::sums::Sums;
use kubist_types::Cancel;
use kubist_types::error::{Error, Result};

/// Groups of an answer, at most.
pub const MOST_GROUPS: usize = 10_000;

/// Numbers that the accumulators of all groups hold, at most: 128 MB.
const MOST_NUMBERS: usize = 1 << 24;
/// Figures of one answer, at most.
const MOST_FIGURES: usize = 1 << 18;

/// What is asked of each record, and what is needed to answer.
pub struct Task {
    pub aggregates: Vec<Aggregate>,
    /// Names of the columns of `group_by`.
    pub group_by: Vec<String>,
    /// The asked columns that `count_distinct` is of, by aggregate.
    pub distinct: Vec<Option<String>>,
    /// What scans bring.
    pub schema: SchemaRef,
}

/// What a pilot teaches.
#[derive(Clone, Debug, Default)]
pub struct Lesson {
    /// By aggregate and argument: near its mean, so that squares stay small.
    pub shifts: Vec<Vec<f64>>,
    /// By aggregate: where bins lie.
    pub axes: Vec<Vec<Axis>>,
    /// Records of one identity come together.
    pub clustered: bool,
    /// How many there are of each, about.
    pub together: f64,
}

/// Records with the values of all arguments.
pub struct Values {
    rows: usize,
    /// By aggregate and argument.
    arguments: Vec<Vec<Vec<f64>>>,
    /// By aggregate: hashes of the values that are told apart, and which are null.
    hashes: Vec<Option<(Vec<u64>, ArrayRef)>>,
    /// The group of each record; empty if there is one group.
    keys: Vec<u64>,
    labels: Vec<ArrayRef>,
    pub priorities: Vec<u64>,
}

/// An accumulator.
#[derive(Clone, Debug)]
pub enum State {
    Sums(Sums),
    Ordered(Ordered),
    Distinct(Distinct),
    Histogram(Histogram),
    /// Smallest and largest so far.
    Extremes(f64, f64),
}

/// All accumulators.
#[derive(Default)]
pub struct Accumulated {
    places: HashMap<u64, usize>,
    pub groups: Vec<Group>,
}

pub struct Group {
    /// One row.
    pub label: Vec<ArrayRef>,
    pub states: Vec<State>,
    pub rows: u64,
}

impl Task {
    /// The values of all arguments for scanned columns.
    pub fn values(&self, rows: usize, columns: Vec<ArrayRef>, priorities: Vec<u64>, cancel: &Cancel) -> Result<Values> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(Error::kernel)?;
        let named = |name: &String| batch.column_by_name(name).cloned().expect("it was asked for");
        let stopped = || cancel.is_set();
        let of = |aggregate: &Aggregate| {
            aggregate.arguments.iter().map(|argument| Ok(argument.evaluate(&batch, &stopped)?)).collect()
        };
        let labels: Vec<ArrayRef> = self.group_by.iter().map(named).collect();
        let hashes = self
            .distinct
            .iter()
            .map(|name| name.as_ref().map(named).map(|array| (hash(&[array.clone()], rows), array)));
        Ok(Values {
            rows,
            arguments: self.aggregates.iter().map(of).collect::<Result<_>>()?,
            hashes: hashes.collect(),
            keys: if labels.is_empty() { vec![] } else { hash(&labels, rows) },
            labels,
            priorities,
        })
    }

    /// Accumulators of a group that holds nothing yet.
    pub fn empty(&self, lesson: &Lesson) -> Vec<State> {
        // Groups of identities take memory in each group of records.
        let groups = if self.group_by.is_empty() { 1024 } else { 256 };
        let state = |(aggregate, axes): (&Aggregate, &Vec<Axis>)| match &aggregate.kind {
            Kind::Quantile(share) => State::Ordered(Ordered::new(*share, groups)),
            Kind::CountDistinct => State::Distinct(Distinct::default()),
            Kind::Min | Kind::Max => State::Extremes(f64::INFINITY, f64::NEG_INFINITY),
            Kind::Histogram(_) => State::Histogram(Histogram::new(axes.clone(), lesson.clustered)),
            kind => State::Sums(Sums::new(width(kind), groups)),
        };
        self.aggregates.iter().zip(&lesson.axes).map(state).collect()
    }
}

fn hash(columns: &[ArrayRef], rows: usize) -> Vec<u64> {
    let columns: Vec<&dyn Array> = columns.iter().map(|array| array.as_ref()).collect();
    priorities(&columns, rows, 0x6b75_6269_7374)
}

impl Values {
    pub fn argument(&self, aggregate: usize, argument: usize) -> &[f64] {
        &self.arguments[aggregate][argument]
    }
}

impl Lesson {
    /// From the records of a pilot; `identified`: the table says which records belong together.
    pub fn new(task: &Task, pilot: &[Values], identified: bool) -> Lesson {
        let known = |aggregate: usize, argument: usize| {
            let values = pilot.iter().flat_map(move |part| part.arguments[aggregate][argument].iter().copied());
            values.filter(|value| value.is_finite())
        };
        let mean = |aggregate: usize, argument: usize| {
            let (mut sum, mut count) = (0.0, 0u32);
            known(aggregate, argument).for_each(|value| (sum, count) = (sum + value, count + 1));
            if count == 0 { 0.0 } else { sum / count as f64 }
        };
        let axis = |aggregate: usize, argument: usize, count: usize, range: Option<(f64, f64)>| {
            let (low, high) = range.unwrap_or_else(|| {
                let ends = known(aggregate, argument)
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
                if ends.0 < ends.1 {
                    ends
                } else if ends.0 == ends.1 {
                    (ends.0 - 0.5, ends.0 + 0.5)
                } else {
                    (0.0, 1.0)
                }
            });
            Axis { low, high, bins: count }
        };
        let aggregates = task.aggregates.iter().enumerate();
        let mut priorities: Vec<u64> = pilot.iter().flat_map(|part| part.priorities.iter().copied()).collect();
        priorities.sort_unstable();
        Lesson {
            shifts: aggregates
                .clone()
                .map(|(place, aggregate)| {
                    (0..aggregate.arguments.len()).map(|argument| mean(place, argument)).collect()
                })
                .collect(),
            axes: aggregates
                .map(|(place, aggregate)| match &aggregate.kind {
                    Kind::Histogram(bins) => {
                        let bins = bins.iter().enumerate();
                        bins.map(|(argument, bins)| axis(place, argument, bins.count, bins.range)).collect()
                    }
                    _ => vec![],
                })
                .collect(),
            clustered: identified && priorities.windows(2).any(|pair| pair[0] == pair[1]),
            together: priorities.len() as f64 / priorities.chunk_by(|a, b| a == b).count().max(1) as f64,
        }
    }
}

impl Accumulated {
    /// Adds records: drawn by chance, or (`certain`) there in any case.
    pub fn add(&mut self, task: &Task, lesson: &Lesson, values: &Values, certain: bool) -> Result<()> {
        let priorities = (!certain).then_some(&values.priorities[..]);
        let rows_of = self.places(task, lesson, values)?;
        for (place, rows) in &rows_of {
            self.groups[*place].rows += rows.as_ref().map_or(values.rows, Vec::len) as u64;
        }
        for (number, aggregate) in task.aggregates.iter().enumerate() {
            let arguments: Vec<&[f64]> = values.arguments[number].iter().map(Vec::as_slice).collect();
            let made = match width(&aggregate.kind) {
                0 => vec![],
                _ => features(&aggregate.kind, &arguments, &lesson.shifts[number], values.rows),
            };
            let features: Vec<&[f64]> = made.iter().map(Vec::as_slice).collect();
            for (place, rows) in &rows_of {
                let rows = rows.as_ref().map_or(Rows::All(0..values.rows), |rows| Rows::Some(rows.iter()));
                match &mut self.groups[*place].states[number] {
                    State::Sums(sums) => sums.add(&features, rows, priorities),
                    State::Ordered(ordered) => ordered.add(arguments[0], rows, priorities),
                    State::Histogram(histogram) => histogram.add(&arguments, rows, priorities),
                    State::Distinct(distinct) => {
                        let (hashes, array) = values.hashes[number].as_ref().expect("computed for it");
                        distinct.add(hashes, rows.filter(|row| array.is_valid(*row)), priorities);
                    }
                    State::Extremes(least, most) => rows.map(|row| arguments[0][row]).for_each(|value: f64| {
                        // NaN is neither.
                        *least = least.min(value);
                        *most = most.max(value);
                    }),
                }
            }
        }
        Ok(())
    }

    /// The group of each record, as lists of rows by group; `None`: all of them.
    fn places(&mut self, task: &Task, lesson: &Lesson, values: &Values) -> Result<Vec<(usize, Option<Vec<usize>>)>> {
        if values.labels.is_empty() {
            if self.groups.is_empty() {
                self.groups.push(Group { label: vec![], states: task.empty(lesson), rows: 0 });
            }
            return Ok(vec![(0, None)]);
        }
        let mut rows_of: HashMap<usize, Vec<usize>> = HashMap::new();
        for (row, key) in values.keys.iter().enumerate() {
            let place = match self.places.get(key) {
                Some(place) => *place,
                None => {
                    let label = values.labels.iter().map(|array| array.slice(row, 1)).collect();
                    self.found(*key, Group { label, states: task.empty(lesson), rows: 0 }, task)?
                }
            };
            rows_of.entry(place).or_default().push(row);
        }
        Ok(rows_of.into_iter().map(|(place, rows)| (place, Some(rows))).collect())
    }

    fn found(&mut self, key: u64, group: Group, task: &Task) -> Result<usize> {
        if self.groups.len() >= MOST_GROUPS {
            return Err(Error::invalid(format!(
                "group_by {}: there are more than {MOST_GROUPS} groups; group by something coarser, or ask for a part \
                 of them with a box or a condition",
                task.group_by.join(", ")
            )));
        }
        let (mut numbers, mut figures) = (0, 0);
        for state in &group.states {
            let (of_state, shown) = match state {
                State::Histogram(histogram) => (histogram.counts(), histogram.size()),
                State::Sums(sums) => (sums.numbers(), 1),
                _ => (0, 1),
            };
            (numbers, figures) = (numbers + of_state, figures + shown);
        }
        let groups = self.groups.len() + 1;
        if groups * numbers > MOST_NUMBERS || groups * figures > MOST_FIGURES {
            return Err(Error::invalid(format!(
                "group_by {}: so many figures of so many groups would take too much memory; ask for fewer at once, or \
                 group by something coarser",
                task.group_by.join(", ")
            )));
        }
        self.places.insert(key, self.groups.len());
        self.groups.push(group);
        Ok(self.groups.len() - 1)
    }

    pub fn merge(&mut self, task: &Task, other: Accumulated) -> Result<()> {
        let mut keys: Vec<(u64, usize)> = other.places.into_iter().collect();
        keys.sort_unstable_by_key(|(_, place)| *place);
        let mut keys = keys.into_iter().map(|(key, _)| key);
        for group in other.groups {
            let place = match (keys.next(), self.groups.is_empty()) {
                (None, true) => {
                    self.groups.push(group);
                    continue;
                }
                (None, false) => 0,
                (Some(key), _) => match self.places.get(&key) {
                    Some(place) => *place,
                    None => {
                        self.found(key, group, task)?;
                        continue;
                    }
                },
            };
            let mine = &mut self.groups[place];
            mine.rows += group.rows;
            for (mine, theirs) in mine.states.iter_mut().zip(group.states) {
                match (mine, theirs) {
                    (State::Sums(mine), State::Sums(theirs)) => mine.merge(theirs),
                    (State::Ordered(mine), State::Ordered(theirs)) => mine.merge(theirs),
                    (State::Distinct(mine), State::Distinct(theirs)) => mine.merge(theirs),
                    (State::Histogram(mine), State::Histogram(theirs)) => mine.merge(theirs),
                    (State::Extremes(least, most), State::Extremes(lower, higher)) => {
                        *least = least.min(lower);
                        *most = most.max(higher);
                    }
                    _ => unreachable!("states of one aggregate are of one kind"),
                }
            }
        }
        Ok(())
    }

    /// The same groups with nothing in them.
    pub fn hollow(&self) -> Accumulated {
        let hollow = |state: &State| match state {
            State::Sums(sums) => State::Sums(sums.hollow()),
            State::Ordered(ordered) => State::Ordered(ordered.hollow()),
            State::Distinct(_) => State::Distinct(Distinct::default()),
            State::Histogram(histogram) => State::Histogram(histogram.hollow()),
            State::Extremes(..) => State::Extremes(f64::INFINITY, f64::NEG_INFINITY),
        };
        let groups = self.groups.iter().map(|group| Group {
            label: group.label.clone(),
            states: group.states.iter().map(hollow).collect(),
            rows: 0,
        });
        Accumulated { places: self.places.clone(), groups: groups.collect() }
    }

    /// Lets go of what no answer needs; what was added must be a sample of all.
    pub fn thin(&mut self) {
        let groups = self.groups.len();
        let states = self.groups.iter_mut().flat_map(|group| &mut group.states);
        states.for_each(|state| {
            if let State::Ordered(ordered) = state {
                ordered.thin(groups);
            }
        });
    }

    /// Are there quantiles that keep every value yet?
    pub fn keeps_all(&self) -> bool {
        let mut states = self.groups.iter().flat_map(|group| &group.states);
        states.any(|state| matches!(state, State::Ordered(ordered) if ordered.keeps_all()))
    }

    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// Values that are told apart.
    pub fn distinct_values(&self) -> usize {
        let states = self.groups.iter().flat_map(|group| &group.states);
        states.map(|state| if let State::Distinct(distinct) = state { distinct.values() } else { 0 }).sum()
    }

    /// The columns of `group_by`, a row a group.
    pub fn labels(&self, fields: &Schema) -> Result<RecordBatch> {
        let columns = (0..fields.fields().len()).map(|column| {
            let parts: Vec<&dyn Array> = self.groups.iter().map(|group| group.label[column].as_ref()).collect();
            match parts.is_empty() {
                true => Ok(arrow_array::new_empty_array(fields.field(column).data_type())),
                false => Ok(arrow_select::concat::concat(&parts).map_err(Error::kernel)?),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.groups.len()));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::new(fields.clone()), columns, &options).map_err(Error::kernel)?)
    }
}

/// Some rows, or all.
enum Rows<'a> {
    All(std::ops::Range<usize>),
    Some(std::slice::Iter<'a, usize>),
}

impl Iterator for Rows<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Rows::All(range) => range.next(),
            Rows::Some(rows) => rows.next().copied(),
        }
    }
}
