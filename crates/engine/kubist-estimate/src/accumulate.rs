//! Accumulators for each group and aggregate. Parallel tasks fill them, and their accumulators are then merged.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use kubist_expr::{Expression, Wholes};
use kubist_index::priority::{PriorityRange, Threshold, inclusion, priorities};

use crate::aggregate::{Accumulator, Bound, Pilot, Records, Rows, Shift};
use crate::auxiliary::{Auxiliary, Expected};
use crate::group::GroupBy;
use crate::sums::Sums;
use kubist_types::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::human::count;

pub const MOST_GROUPS: usize = 10_000;

/// Limit of numbers in all accumulators together (128 MB).
const MOST_NUMBERS: usize = 1 << 24;
const MOST_FIGURES: usize = 1 << 18;
const ONE_GROUP: u64 = 0;

pub struct NamedAggregate {
    pub name: String,
    pub bound: Bound,
}

pub struct Task {
    pub aggregates: Vec<NamedAggregate>,
    pub group_by: Vec<GroupBy>,
    /// By aggregate: the column whose distinct values are counted.
    pub distinct: Vec<Option<String>>,
}

pub struct Brought {
    pub schema: SchemaRef,
    /// The condition, if the sample is drawn from the frame. Records that do not match only count as drawn.
    pub condition: Option<Expression>,
    pub position_columns: Vec<usize>,
    pub weight: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct PilotFindings {
    /// By aggregate and argument.
    shifts: Vec<Vec<Shift>>,
    /// By aggregate and argument: bounds of the finite values.
    ends: Vec<Vec<Option<(f64, f64)>>>,
    /// By aggregate and argument: the smallest finite value above 0.
    positive: Vec<Vec<Option<f64>>>,
    pub clustered: bool,
    /// The mean number of records per identity.
    pub cluster_size: f64,
}

pub struct Values {
    rows: usize,
    arguments: Vec<Vec<Vec<f64>>>,
    wholes: Vec<Option<Wholes>>,
    /// For `count_distinct`, by aggregate: hashes of the values, and the column that shows nulls.
    hashes: Vec<Option<(Vec<u64>, ArrayRef)>>,
    keys: Keys,
    labels: Vec<ArrayRef>,
    pub priorities: Vec<u64>,
    /// Priorities of all scanned records, if the condition excluded some.
    all: Option<Vec<u64>>,
    position_columns: Vec<ArrayRef>,
    /// Weights of the records, unless the sample is uniform.
    weights: Option<ArrayRef>,
}

enum Keys {
    One,
    Each(Vec<u64>),
    /// Each record's code, and the key of each code.
    Coded(Vec<u32>, Vec<u64>),
}

impl Keys {
    fn of(labels: &[ArrayRef], rows: usize) -> Keys {
        let Some(first) = labels.first() else { return Keys::One };
        match first.as_any_dictionary_opt().filter(|_| labels.len() == 1) {
            None => Keys::Each(hash(labels, rows)),
            Some(coded) => {
                let values = coded.values();
                let mut keys = hash(std::slice::from_ref(values), values.len());
                let null = keys.len() as u32;
                keys.extend(hash(&[new_null_array(values.data_type(), 1)], 1));
                let mut codes: Vec<u32> = match coded.keys().as_primitive_opt::<Int32Type>() {
                    // The codes of a scan's dictionary.
                    Some(codes) => codes.values().iter().map(|code| *code as u32).collect(),
                    None => coded.normalized_keys().into_iter().map(|code| code as u32).collect(),
                };
                if let Some(nulls) = coded.nulls() {
                    codes.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(code, _)| *code = null);
                }
                Keys::Coded(codes, keys)
            }
        }
    }
}

impl Values {
    pub fn drawn(&self) -> usize {
        self.of_drawn().len()
    }

    pub fn of_drawn(&self) -> &[u64] {
        self.all.as_ref().unwrap_or(&self.priorities)
    }

    pub fn groups(&self) -> Vec<u64> {
        match &self.keys {
            Keys::One => vec![ONE_GROUP; self.rows],
            Keys::Each(keys) => keys.clone(),
            Keys::Coded(codes, keys) => codes.iter().map(|code| keys[*code as usize]).collect(),
        }
    }
}

/// A hasher for keys that already are hashes.
#[derive(Clone, Copy, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl BuildHasher for Hashed {
    type Hasher = Hashed;

    fn build_hasher(&self) -> Hashed {
        Hashed(0)
    }
}

#[derive(Default)]
pub struct Accumulated {
    index: HashMap<u64, usize, Hashed>,
    pub groups: Vec<Group>,
    /// Totals of all records drawn from the frame, whose number is known.
    pub frame: Option<Sums>,
    /// Predictions for the sampled records.
    pub expected: Option<Expected>,
}

/// Rows by group. Rows of a part are in one group; for a dictionary column, each code is a part.
struct Parts<'a> {
    /// The part of each row; `None` if all rows are in one part.
    of_rows: Option<Cow<'a, [u32]>>,
    /// The group of each part.
    groups: Vec<usize>,
    counts: Vec<usize>,
}

pub struct Group {
    pub label: Vec<ArrayRef>,
    pub accumulators: Vec<Box<dyn Accumulator>>,
    pub rows: u64,
}

impl Task {
    pub fn values(
        &self,
        brought: &Brought,
        rows: usize,
        columns: Vec<ArrayRef>,
        mut priorities: Vec<u64>,
        cancel: &Cancel,
    ) -> Result<Values> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = with_types_of(&brought.schema, &columns);
        let position_columns = brought.position_columns.iter().map(|column| columns[*column].clone()).collect();
        let weights = brought.weight.map(|column| columns[column].clone());
        let mut batch = RecordBatch::try_new_with_options(schema, columns, &options).map_err(Error::kernel)?;
        let stopped = || cancel.is_set();
        let mut all = None;
        if let Some(condition) = &brought.condition {
            let met = condition.evaluate(&batch, &stopped)?;
            let met: BooleanArray = met.into_iter().map(|truth| Some(truth == 1.0)).collect();
            batch = filter_record_batch(&batch, &met).map_err(Error::kernel)?;
            let mut kept = met.values().iter();
            all = Some(priorities.clone());
            priorities.retain(|_| kept.next().is_some_and(|kept| kept));
        }
        let rows = batch.num_rows();
        let named = |name: &String| batch.column_by_name(name).cloned().expect("it was asked for");
        let of = |asked: &NamedAggregate| {
            asked.bound.arguments.iter().map(|argument| Ok(argument.evaluate(&batch, &stopped)?)).collect()
        };
        let labels: Vec<ArrayRef> =
            self.group_by.iter().map(|group| group.labels(&batch, cancel)).collect::<Result<_>>()?;
        let hashes = self
            .distinct
            .iter()
            .map(|name| name.as_ref().map(named).map(|array| (hash(std::slice::from_ref(&array), rows), array)));
        let wholes = |asked: &NamedAggregate| match asked.bound.arguments.first().filter(|_| asked.bound.takes_wholes) {
            Some(argument) => argument.wholes(&batch, &stopped).map(Some),
            None => Ok(None),
        };
        Ok(Values {
            rows,
            wholes: self.aggregates.iter().map(wholes).collect::<std::result::Result<_, _>>()?,
            arguments: self.aggregates.iter().map(of).collect::<Result<_>>()?,
            hashes: hashes.collect(),
            keys: Keys::of(&labels, rows),
            labels,
            priorities,
            all,
            position_columns,
            weights,
        })
    }

    /// The features of an aggregate; empty if it is not a function of totals.
    pub fn features(&self, aggregate: usize, pilot: &PilotFindings, values: &Values) -> Vec<Vec<f64>> {
        let bound = &self.aggregates[aggregate].bound;
        let arguments: Vec<&[f64]> = values.arguments[aggregate].iter().map(Vec::as_slice).collect();
        let made = bound.aggregate.features(&arguments, &pilot.shifts[aggregate], values.rows);
        made.filter(|_| bound.properties.takes_certain).unwrap_or_default()
    }

    /// The number of random groups. It is smaller with `group_by`, because each group needs memory for all of them.
    pub fn random_groups(&self) -> usize {
        if self.group_by.is_empty() { 1024 } else { 256 }
    }

    pub fn empty(&self, pilot: &PilotFindings) -> Vec<Box<dyn Accumulator>> {
        let accumulator = |(number, asked): (usize, &NamedAggregate)| {
            asked.bound.aggregate.accumulator(&Pilot {
                shifts: &pilot.shifts[number],
                ends: &pilot.ends[number],
                positive: &pilot.positive[number],
                clustered: pilot.clustered,
                groups: self.random_groups(),
            })
        };
        self.aggregates.iter().enumerate().map(accumulator).collect()
    }
}

impl Task {
    fn grouped_by(&self) -> String {
        self.group_by.iter().map(|group| group.field.name().as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn with_types_of(schema: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    let same = schema.fields().iter().zip(columns).all(|(field, array)| field.data_type() == array.data_type());
    let typed =
        |(field, array): (&Arc<Field>, &ArrayRef)| Field::clone(field).with_data_type(array.data_type().clone());
    match same {
        true => schema.clone(),
        false => Arc::new(Schema::new(schema.fields().iter().zip(columns).map(typed).collect::<Vec<_>>())),
    }
}

/// Copies a row, because a slice would keep the whole array in memory.
fn one_row(array: &ArrayRef, row: usize) -> Result<ArrayRef> {
    let of = |array: &dyn Array, row| take(array, &UInt64Array::from(vec![row]), None).map_err(Error::kernel);
    let one = of(array.as_ref(), Some(row as u64))?;
    match one.as_any_dictionary_opt() {
        None => Ok(one),
        Some(coded) => {
            let code = coded.keys().is_valid(0).then(|| coded.normalized_keys()[0] as u64);
            of(coded.values().as_ref(), code)
        }
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

impl PilotFindings {
    /// `identified`: the table has identity columns. `is_all`: no more records will be read.
    pub fn new(task: &Task, sample: &[Values], identified: bool, is_all: bool) -> PilotFindings {
        let known = |aggregate: usize, argument: usize| {
            let values = sample.iter().flat_map(move |part| part.arguments[aggregate][argument].iter().copied());
            values.filter(|value| value.is_finite())
        };
        let mean = |aggregate: usize, argument: usize| {
            let (mut sum, mut count) = (0.0, 0u32);
            known(aggregate, argument).for_each(|value| (sum, count) = (sum + value, count + 1));
            match count {
                0 => 0.0,
                _ if sum.is_finite() => sum / f64::from(count),
                // For sums that overflow.
                _ => known(aggregate, argument).map(|value| value / f64::from(count)).sum(),
            }
        };
        let ends = |aggregate: usize, argument: usize| {
            let ends = known(aggregate, argument)
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
            (ends.0 <= ends.1).then_some(ends)
        };
        let shift = |aggregate: usize, argument: usize| {
            let (low, high) = ends(aggregate, argument).unwrap_or((0.0, 0.0));
            // If all values are equal, this shift makes all differences exactly 0.
            let by = if low == high { low } else { short(mean(aggregate, argument)) };
            let largest = low.abs().max(high.abs());
            // Later values may be larger.
            Shift::new(by, if is_all { largest } else { largest.max(1.0) })
        };
        let positive = |aggregate: usize, argument: usize| {
            known(aggregate, argument).filter(|value| *value > 0.0).min_by(f64::total_cmp)
        };
        let counts: Vec<usize> = task.aggregates.iter().map(|asked| asked.bound.arguments.len()).collect();
        let counts = || counts.iter().copied().enumerate();
        let mut priorities: Vec<u64> = sample.iter().flat_map(|part| part.priorities.iter().copied()).collect();
        priorities.sort_unstable();
        PilotFindings {
            shifts: counts()
                .map(|(number, count)| (0..count).map(|argument| shift(number, argument)).collect())
                .collect(),
            ends: counts().map(|(number, count)| (0..count).map(|argument| ends(number, argument)).collect()).collect(),
            positive: counts()
                .map(|(number, count)| (0..count).map(|argument| positive(number, argument)).collect())
                .collect(),
            clustered: identified && priorities.windows(2).any(|pair| pair[0] == pair[1]),
            cluster_size: priorities.len() as f64 / priorities.chunk_by(|a, b| a == b).count().max(1) as f64,
        }
    }
}

/// Rounds to half of the binary digits. Sums of such numbers are exact, so if all values are 0, the mean is
/// exactly 0.
fn short(number: f64) -> f64 {
    f64::from_bits(number.to_bits() & !((1 << 27) - 1))
}

fn check_size(group: &Group, groups: usize, task: &Task) -> Result<()> {
    let numbers: usize = group.accumulators.iter().map(|accumulator| accumulator.numbers()).sum();
    let figures: usize = group.accumulators.iter().map(|accumulator| accumulator.size()).sum();
    if groups * numbers <= MOST_NUMBERS && groups * figures <= MOST_FIGURES {
        return Ok(());
    }
    Err(Error::invalid(match task.group_by.is_empty() {
        true => format!("{figures} figures would take too much memory; ask for fewer at once"),
        false => format!(
            "group_by {}: {groups} groups of {figures} figures would take too much memory; ask for fewer at once, or \
             group by something coarser",
            task.grouped_by()
        ),
    }))
}

/// Factors of sampled records with unequal inclusion probabilities pi (Poisson sampling: Särndal, Swensson
/// and Wretman, Model Assisted Survey Sampling, 1992, 3.5).
struct Design {
    /// `1 / pi`: the Horvitz-Thompson expansion.
    expand: Vec<f64>,
    /// `sqrt(1 - pi) / pi`: the squares of features times this factor add up to the estimated variance of
    /// the total.
    spread: Vec<f64>,
}

impl Design {
    fn of(weights: &[f32], below: f64) -> Design {
        let range = PriorityRange::between(Threshold::NONE, Threshold::from_fraction(below));
        let chance = |weight: &f32| range.map_or(1.0, |range| inclusion(*weight, range));
        let chances: Vec<f64> = weights.iter().map(chance).collect();
        Design {
            expand: chances.iter().map(|chance| 1.0 / chance).collect(),
            spread: chances.iter().map(|chance| (1.0 - chance).sqrt() / chance).collect(),
        }
    }

    fn expand(&self, features: &mut Vec<Vec<f64>>) {
        let spread = |feature: &Vec<f64>| feature.iter().zip(&self.spread).map(|(x, by)| x * by).collect();
        let of_spread: Vec<Vec<f64>> = features.iter().map(spread).collect();
        features.iter_mut().for_each(|feature| feature.iter_mut().zip(&self.expand).for_each(|(x, by)| *x *= by));
        features.extend(of_spread);
    }
}

/// The rows in the order of their parts; `counts` has the number of rows by part.
fn rows_by_part(of_rows: &[u32], counts: &[usize]) -> Vec<usize> {
    let mut start = 0;
    let starts = counts.iter().map(|count| {
        start += count;
        start - count
    });
    let (mut next, mut rows): (Vec<usize>, _) = (starts.collect(), vec![0; of_rows.len()]);
    for (row, part) in of_rows.iter().enumerate() {
        let place = &mut next[*part as usize];
        rows[*place] = row;
        *place += 1;
    }
    rows
}

/// Number of counters and sums for each part, so that additions do not wait for each other.
const LANES: usize = 4;

/// The number of rows in each part; there are `count` parts.
fn counts(of_rows: &[u32], count: usize) -> Vec<usize> {
    let mut lanes = vec![[0; LANES]; count];
    of_rows.iter().enumerate().for_each(|(row, part)| lanes[*part as usize][row % LANES] += 1);
    lanes.into_iter().map(|lanes: [usize; LANES]| lanes.iter().sum()).collect()
}

/// The total of a feature in each part; there are `count` parts.
fn totals(feature: &[f64], of_rows: Option<&[u32]>, count: usize) -> Vec<f64> {
    let mut lanes = vec![[0.0; LANES]; count];
    match of_rows {
        None => feature.iter().enumerate().for_each(|(row, value)| lanes[0][row % LANES] += value),
        Some(of_rows) => {
            let rows = feature.iter().zip(of_rows).enumerate();
            rows.for_each(|(row, (value, part))| lanes[*part as usize][row % LANES] += value);
        }
    }
    lanes.into_iter().map(|[a, b, c, d]| (a + b) + (c + d)).collect()
}

impl Accumulated {
    pub fn nothing(task: &Task, is_framed: bool, expected: Option<Arc<Auxiliary>>) -> Accumulated {
        Accumulated {
            frame: is_framed.then(|| Sums::new(1, task.random_groups())),
            expected: expected.map(Expected::nothing),
            ..Accumulated::default()
        }
    }

    pub fn keys(&self) -> Vec<u64> {
        let mut keys = vec![ONE_GROUP; self.groups.len()];
        self.index.iter().for_each(|(key, group)| keys[*group] = *key);
        keys
    }

    /// Adds sampled records, or records of the certainty stratum if `certain`. `below` is the sample
    /// fraction; records with weights need the final fraction.
    pub fn add(
        &mut self,
        task: &Task,
        pilot: &PilotFindings,
        values: &Values,
        certain: bool,
        below: f64,
    ) -> Result<()> {
        let weights = values.weights.as_ref().filter(|_| !certain);
        let design = weights.map(|weights| Design::of(weights.as_primitive::<Float32Type>().values(), below));
        let priorities = (!certain).then_some(&values.priorities[..]);
        if let Some(frame) = self.frame.as_mut().filter(|_| !certain) {
            let drawn = values.of_drawn();
            frame.add(&[&vec![1.0; drawn.len()]], 0..drawn.len(), drawn);
        }
        if let Some(expected) = self.expected.as_mut().filter(|_| !certain) {
            expected.add(&values.position_columns, values.of_drawn());
        }
        let Parts { of_rows, groups, counts } = self.parts(task, pilot, values)?;
        let parts = || counts.iter().zip(&groups).enumerate().filter(|(_, (count, _))| **count > 0);
        for (_, (count, group)) in parts() {
            self.groups[*group].rows += *count as u64;
        }
        let by_part = OnceCell::new();
        for (number, asked) in task.aggregates.iter().enumerate() {
            let arguments: Vec<&[f64]> = values.arguments[number].iter().map(Vec::as_slice).collect();
            let mut made = asked.bound.aggregate.features(&arguments, &pilot.shifts[number], values.rows);
            let as_totals = made.as_ref().filter(|_| certain).map(|made| {
                made.iter().map(|feature| totals(feature, of_rows.as_deref(), counts.len())).collect::<Vec<Vec<f64>>>()
            });
            if let Some(totals) = &as_totals {
                for (part, (_, group)) in parts() {
                    let of_part: Vec<f64> = totals.iter().map(|totals| totals[part]).collect();
                    self.groups[*group].accumulators[number].add_totals(&of_part);
                }
                if values.wholes[number].is_none() {
                    continue;
                }
            }
            if let (Some(made), Some(design)) = (&mut made, &design) {
                design.expand(made);
            }
            let records = Records {
                features: made.as_ref().map_or(arguments, |made| made.iter().map(Vec::as_slice).collect()),
                wholes: values.wholes[number].as_ref(),
                distinct: values.hashes[number].as_ref().map(|(hashes, array)| (&hashes[..], array.as_ref())),
            };
            let by_part = by_part.get_or_init(|| of_rows.as_ref().map(|of_rows| rows_by_part(of_rows, &counts)));
            let mut end = 0;
            for (_, (count, group)) in parts() {
                let part = end..end + count;
                end = part.end;
                let rows = match by_part {
                    None => Rows::All(part),
                    Some(rows) => Rows::Some(rows[part].iter()),
                };
                let accumulator = &mut self.groups[*group].accumulators[number];
                match as_totals {
                    Some(_) => accumulator.add_wholes(&records, rows),
                    None => accumulator.add(&records, rows, priorities),
                }
            }
        }
        Ok(())
    }

    /// Divides rows by group. Adds new groups in the order of their first rows.
    fn parts<'a>(&mut self, task: &Task, pilot: &PilotFindings, values: &'a Values) -> Result<Parts<'a>> {
        match &values.keys {
            Keys::One => {
                if self.groups.is_empty() {
                    let all = Group { label: vec![], accumulators: task.empty(pilot), rows: 0 };
                    check_size(&all, 1, task)?;
                    self.groups.push(all);
                }
                Ok(Parts { of_rows: None, groups: vec![0], counts: vec![values.rows] })
            }
            Keys::Each(keys) => {
                let group = |(row, key): (usize, &u64)| self.group_of(*key, row, task, pilot, values);
                let of_rows = keys.iter().enumerate().map(group).collect::<Result<Vec<u32>>>()?;
                let counts = counts(&of_rows, self.groups.len());
                Ok(Parts { of_rows: Some(of_rows.into()), groups: (0..self.groups.len()).collect(), counts })
            }
            Keys::Coded(codes, keys) => {
                let counts = counts(codes, keys.len());
                if (0..keys.len()).any(|code| counts[code] > 0 && !self.index.contains_key(&keys[code])) {
                    let mut first = vec![None; keys.len()];
                    codes.iter().enumerate().rev().for_each(|(row, code)| first[*code as usize] = Some(row));
                    let mut first: Vec<(usize, u64)> =
                        first.into_iter().zip(keys).filter_map(|(row, key)| Some((row?, *key))).collect();
                    first.sort_unstable();
                    for (row, key) in first {
                        self.group_of(key, row, task, pilot, values)?;
                    }
                }
                // A code without rows has no group.
                let groups = keys.iter().map(|key| self.index.get(key).copied().unwrap_or(0)).collect();
                Ok(Parts { of_rows: Some(codes.into()), groups, counts })
            }
        }
    }

    /// Finds or adds the group with this key; `row` is a row in it.
    fn group_of(&mut self, key: u64, row: usize, task: &Task, pilot: &PilotFindings, values: &Values) -> Result<u32> {
        if let Some(group) = self.index.get(&key) {
            return Ok(*group as u32);
        }
        let label = values.labels.iter().map(|array| one_row(array, row)).collect::<Result<Vec<ArrayRef>>>()?;
        let group = Group { label, accumulators: task.empty(pilot), rows: 0 };
        Ok(self.found(key, group, task)? as u32)
    }

    fn found(&mut self, key: u64, group: Group, task: &Task) -> Result<usize> {
        if self.groups.len() >= MOST_GROUPS {
            return Err(Error::invalid(format!(
                "group_by {}: there are more than {} groups; group by something coarser, or ask for a part of them \
                 with a box or a condition",
                task.grouped_by(),
                count(MOST_GROUPS as u64)
            )));
        }
        check_size(&group, self.groups.len() + 1, task)?;
        self.index.insert(key, self.groups.len());
        self.groups.push(group);
        Ok(self.groups.len() - 1)
    }

    pub fn merge(&mut self, task: &Task, other: Accumulated) -> Result<()> {
        if let (Some(frame), Some(more)) = (&mut self.frame, other.frame) {
            frame.merge(more);
        }
        if let (Some(expected), Some(more)) = (&mut self.expected, other.expected) {
            expected.merge(more);
        }
        let mut keys: Vec<(u64, usize)> = other.index.into_iter().collect();
        keys.sort_unstable_by_key(|(_, group)| *group);
        let mut keys = keys.into_iter().map(|(key, _)| key);
        for group in other.groups {
            let index = match (keys.next(), self.groups.is_empty()) {
                (None, true) => {
                    self.groups.push(group);
                    continue;
                }
                (None, false) => 0,
                (Some(key), _) => match self.index.get(&key) {
                    Some(group) => *group,
                    None => {
                        self.found(key, group, task)?;
                        continue;
                    }
                },
            };
            let mine = &mut self.groups[index];
            mine.rows += group.rows;
            for (mine, theirs) in mine.accumulators.iter_mut().zip(group.accumulators) {
                mine.merge(theirs);
            }
        }
        Ok(())
    }

    pub fn hollow(&self) -> Accumulated {
        let groups = self.groups.iter().map(|group| Group {
            label: group.label.clone(),
            accumulators: group.accumulators.iter().map(|accumulator| accumulator.hollow()).collect(),
            rows: 0,
        });
        let frame = self.frame.as_ref().map(Sums::hollow);
        let expected = self.expected.as_ref().map(|expected| Expected::nothing(expected.of.clone()));
        Accumulated { index: self.index.clone(), groups: groups.collect(), frame, expected }
    }

    /// Discards values that no result needs. The records must be a uniform sample.
    pub fn thin(&mut self) {
        let groups = self.groups.len();
        let accumulators = self.groups.iter_mut().flat_map(|group| &mut group.accumulators);
        accumulators.for_each(|accumulator| accumulator.thin(groups));
    }

    pub fn keeps_all(&self) -> bool {
        self.accumulators().any(|accumulator| accumulator.keeps_all())
    }

    fn accumulators(&self) -> impl Iterator<Item = &dyn Accumulator> {
        self.groups.iter().flat_map(|group| &group.accumulators).map(AsRef::as_ref)
    }

    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).sum()
    }

    pub fn fullness(&self) -> f64 {
        self.accumulators().map(|accumulator| accumulator.fullness()).sum()
    }

    pub fn labels(&self, fields: &Schema) -> Result<RecordBatch> {
        let columns = (0..fields.fields().len()).map(|column| {
            let parts: Vec<&dyn Array> = self.groups.iter().map(|group| group.label[column].as_ref()).collect();
            match parts.is_empty() {
                true => Ok(arrow_array::new_empty_array(fields.field(column).data_type())),
                false => arrow_select::concat::concat(&parts).map_err(Error::kernel),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.groups.len()));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new_with_options(Arc::new(fields.clone()), columns, &options).map_err(Error::kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_rows_and_totals_of_their_rows() {
        let of_rows = [2, 0, 2, 2, 0, 2, 2];
        let counts = counts(&of_rows, 4);
        assert_eq!(counts, [2, 0, 5, 0]);
        assert_eq!(rows_by_part(&of_rows, &counts), [1, 4, 0, 2, 3, 5, 6]);
        let feature = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        assert_eq!(totals(&feature, Some(&of_rows), 4), [18.0, 0.0, 109.0, 0.0]);
        assert_eq!(totals(&feature, None, 1), [127.0]);
    }
}
