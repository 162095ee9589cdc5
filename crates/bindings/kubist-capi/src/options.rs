//! Options as JSON; only this file declares their names.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Compression, Declared, Dimension, EstimateOptions, Metadata, OptimizeOptions, Query, Replication, RunOptions,
    Strata, TableOptions, Value, WriterOptions,
};
use kubist_insitu::{BudgetOptions, Failure, Kind, Result, StepOptions, WhenFull};
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A JSON object that keeps the order of its names.
pub struct InOrder<T>(pub Vec<(String, T)>);

impl<T> Default for InOrder<T> {
    fn default() -> InOrder<T> {
        InOrder(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<InOrder<T>, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = InOrder<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of columns")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<InOrder<T>, A::Error> {
                let mut entries: Vec<(String, T)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if entries.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("{name:?} occurs twice")));
                    }
                    entries.push((name, value));
                }
                Ok(InOrder(entries))
            }
        }
        from.deserialize_map(Entries(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Column {
    Type(String),
    Whole(WholeColumn),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeColumn {
    #[serde(rename = "type")]
    data_type: String,
    unit: Option<String>,
    #[serde(default)]
    nullable: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an error bound is a number or text")]
enum Bound {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    columns: InOrder<Column>,
    #[serde(deserialize_with = "kubist_types::dimensions_from_json")]
    dimensions: Vec<Dimension>,
    #[serde(default)]
    identity: Vec<String>,
    #[serde(default)]
    lookup: Vec<String>,
    capacity: Option<u32>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    storage: Storage,
    #[serde(default)]
    accuracy: InOrder<Bound>,
    #[serde(default)]
    period: InOrder<Bound>,
    sphere: Option<[String; 2]>,
    #[serde(default)]
    metadata: Metadata,
    /// Open an existing table with the same definition, so that every rank of a job may create it.
    #[serde(default = "yes")]
    exist_ok: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Storage {
    replication: Option<String>,
    compression: Option<String>,
    strata: Option<StrataOf>,
    weight: Option<String>,
    shared: bool,
}

/// The order of rows in runs, or the columns whose rare values are more likely in samples.
#[derive(Deserialize)]
#[serde(untagged)]
enum StrataOf {
    Runs(String),
    Classes(Vec<String>),
}

fn yes() -> bool {
    true
}

/// A solver type, or any Arrow type.
fn data_type(column: &str, name: &str) -> Result<DataType> {
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) {
        return Ok(kind.data_type());
    }
    name.parse().map_err(|error| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        Failure::invalid(format!("column {column:?}: {name:?} is neither one of {known} nor an Arrow type ({error})"))
    })
}

impl Create {
    /// # Errors
    ///
    /// `Invalid` names the wrong option.
    pub fn into_engine(self) -> Result<(SchemaRef, TableOptions)> {
        let (mut fields, mut units) = (Vec::new(), Vec::new());
        for (name, column) in self.columns.0 {
            let column = match column {
                Column::Type(data_type) => WholeColumn { data_type, unit: None, nullable: false },
                Column::Whole(column) => column,
            };
            units.extend(column.unit.map(|unit| (name.clone(), unit)));
            fields.push(Field::new(&name, data_type(&name, &column.data_type)?, column.nullable));
        }
        let replication = self.storage.replication.map(|policy| policy.parse::<Replication>()).transpose();
        let compression = compression(self.storage.compression.as_deref())?;
        let value = |(column, bound)| match bound {
            Bound::Number(bound) => (column, Value::Float(bound)),
            Bound::Text(text) => (column, Value::Text(text)),
        };
        let (layout, classes) = match self.storage.strata {
            Some(StrataOf::Runs(layout)) => (Some(layout), vec![]),
            Some(StrataOf::Classes(columns)) => (None, columns),
            None => (None, vec![]),
        };
        let options = TableOptions {
            dimensions: self.dimensions,
            identity: self.identity,
            lookup: self.lookup,
            capacity: self.capacity,
            seed: self.seed,
            replication: replication.map_err(|error| Failure::invalid(error.to_string()))?.unwrap_or_default(),
            compression: compression.unwrap_or_default(),
            strata: strata(layout.as_deref())?.unwrap_or_default(),
            sampling: (self.storage.weight, classes).try_into()?,
            accuracy: self.accuracy.0.into_iter().map(value).collect(),
            sphere: self.sphere,
            period: self.period.0.into_iter().map(value).collect(),
            units,
            metadata: self.metadata,
            exist_ok: self.exist_ok,
            shared: self.storage.shared,
        };
        Ok((Arc::new(Schema::new(fields)), options))
    }
}

fn compression(name: Option<&str>) -> Result<Option<Compression>> {
    let parsed = name.map(str::parse::<Compression>).transpose();
    parsed.map_err(|error| Failure::invalid(error.to_string()))
}

fn strata(name: Option<&str>) -> Result<Option<Strata>> {
    let parsed = name.map(str::parse::<Strata>).transpose();
    parsed.map_err(|error| Failure::invalid(error.to_string()))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dropping {
    pub force: bool,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Writing {
    name: Option<String>,
    timeout_seconds: f64,
    memory_bytes: Option<usize>,
    optimize: bool,
    /// Number of steps that may be queued; with 0 a step is durable when it ends.
    queue: usize,
    when_full: WhenFull,
    threads: usize,
    tokens: bool,
    dedicated: bool,
    budget_rows_per_step: Option<u64>,
    budget_bytes_per_step: Option<u64>,
    budget_bytes: Option<u64>,
    budget_steps: Option<u64>,
    always_keep: Option<String>,
    persist_when: Option<String>,
    whole_paths: Option<bool>,
    shared: bool,
}

impl Default for Writing {
    fn default() -> Writing {
        let StepOptions { timeout, threads, .. } = StepOptions::default();
        Writing {
            name: None,
            timeout_seconds: timeout.as_secs_f64(),
            memory_bytes: None,
            optimize: false,
            queue: 0,
            when_full: WhenFull::Block,
            threads,
            tokens: false,
            dedicated: false,
            budget_rows_per_step: None,
            budget_bytes_per_step: None,
            budget_bytes: None,
            budget_steps: None,
            always_keep: None,
            persist_when: None,
            whole_paths: None,
            shared: false,
        }
    }
}

impl Writing {
    /// # Errors
    ///
    /// `Invalid` for a negative timeout.
    pub fn into_engine(self) -> Result<StepOptions> {
        Ok(StepOptions {
            name: self.name,
            timeout: seconds("timeout_seconds", self.timeout_seconds)?,
            memory_bytes: self.memory_bytes,
            optimize: self.optimize,
            queue: (self.queue > 0).then_some(self.queue),
            when_full: self.when_full,
            threads: self.threads,
            tokens: self.tokens,
            dedicated: self.dedicated,
            budget: BudgetOptions {
                rows_per_step: self.budget_rows_per_step,
                bytes_per_step: self.budget_bytes_per_step,
                bytes: self.budget_bytes,
                steps: self.budget_steps,
                always_keep: self.always_keep,
                persist_when: self.persist_when,
                whole_paths: self.whole_paths,
                shared: self.shared,
            },
            cancel: WriterOptions::default().cancel,
        })
    }
}

/// Infinity and very large values mean no limit.
///
/// # Errors
///
/// `Invalid` below 0.
pub fn seconds(name: &str, seconds: f64) -> Result<Duration> {
    match seconds >= 0.0 {
        true => Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        false => Err(Failure::invalid(format!("{name} must be at least 0, found {seconds}"))),
    }
}

/// A timeout for close calls. An invalid one counts as 0, because an error would leak the handle.
pub fn patient(timeout: f64) -> Duration {
    seconds("timeout_seconds", timeout).unwrap_or_default()
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    pub token: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writers {
    names: Option<Vec<String>>,
    count: Option<u64>,
    /// Only for steps after this one.
    pub after: Option<i64>,
}

impl Writers {
    /// # Errors
    ///
    /// `Invalid` unless exactly one of names and count is given.
    pub fn declared(self) -> Result<Declared> {
        match (self.names, self.count) {
            (Some(names), None) => Ok(Declared::Names(names.into_iter().collect())),
            (None, Some(count)) => Ok(Declared::Count(count)),
            _ => Err(Failure::invalid("writers: give either names or a count")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    pub kind: String,
    pub count: u64,
    timeout_seconds: Option<f64>,
}

impl Own {
    /// # Errors
    ///
    /// `Invalid` for a negative timeout.
    pub fn timeout(&self) -> Result<Duration> {
        let timeout = self.timeout_seconds.map(|given| seconds("timeout_seconds", given)).transpose()?;
        Ok(timeout.unwrap_or(StepOptions::default().timeout))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Altering {
    compression: Option<String>,
    strata: Option<String>,
    pub shared: bool,
}

impl Altering {
    /// # Errors
    ///
    /// `Invalid` for an unknown compression.
    pub fn compression(&self) -> Result<Option<Compression>> {
        compression(self.compression.as_deref())
    }

    /// # Errors
    ///
    /// `Invalid` for an unknown division into strata.
    pub fn strata(&self) -> Result<Option<Strata>> {
        strata(self.strata.as_deref())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizing {
    debt_share: Option<f64>,
    replication: Option<String>,
    recompress: bool,
}

impl Optimizing {
    /// # Errors
    ///
    /// `Invalid` for an unknown policy.
    pub fn into_engine(self) -> Result<OptimizeOptions> {
        let replication = self.replication.map(|policy| policy.parse::<Replication>()).transpose();
        let replication = replication.map_err(|error| Failure::invalid(error.to_string()))?;
        let default = OptimizeOptions::default();
        let debt_share = self.debt_share.unwrap_or(default.debt_share);
        Ok(OptimizeOptions { debt_share, replication, recompress: self.recompress, ..default })
    }
}

pub struct QueryWith<T> {
    pub spec: Query,
    pub rest: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for QueryWith<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<QueryWith<T>, D::Error> {
        let all = serde_json::Map::deserialize(from)?;
        let is_of_records = |name: &String| Query::NAMES.contains(&name.as_str());
        let (spec, rest): (serde_json::Map<_, _>, _) = all.into_iter().partition(|(name, _)| is_of_records(name));
        Ok(QueryWith {
            spec: serde_json::from_value(spec.into()).map_err(D::Error::custom)?,
            rest: serde_json::from_value(serde_json::Value::Object(rest)).map_err(D::Error::custom)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    aggregates: Vec<String>,
    #[serde(default)]
    group_by: Vec<String>,
    error: Option<f64>,
    absolute: Option<kubist::Absolute>,
    /// Seconds.
    within: Option<f64>,
    max_rows: Option<u64>,
    max_bytes: Option<u64>,
    confidence: Option<f64>,
    tails: Option<f64>,
}

impl QueryWith<Goal> {
    /// # Errors
    ///
    /// `Invalid` for a negative time.
    pub fn into_engine(self, run: RunOptions) -> Result<EstimateOptions> {
        let QueryWith { spec, rest: goal } = self;
        let default = EstimateOptions::default();
        Ok(EstimateOptions {
            aggregates: goal.aggregates,
            group_by: goal.group_by,
            query: spec,
            run,
            error: goal.error,
            absolute: goal.absolute,
            within: goal.within.map(|within| seconds("within", within)).transpose()?,
            max_rows: goal.max_rows,
            max_bytes: goal.max_bytes,
            confidence: goal.confidence.unwrap_or(default.confidence),
            tails: goal.tails,
        })
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Steps {
    pub start: f64,
    pub factor: f64,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { start: 0.01, factor: 4.0 }
    }
}
