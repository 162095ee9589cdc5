//! Options as JSON: the only declaration of their names. docs/simulations.md lists them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Compression, Declared, Dimension, EstimateOptions, Metadata, OptimizeOptions, QuerySpec, Replication, RunOptions,
    TableOptions, Value, WriterOptions,
};
use kubist_insitu::{BudgetOptions, Failure, Kind, Result, StepOptions, WhenFull};
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An object of JSON whose names stay in their order.
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
                        return Err(A::Error::custom(format!("{name:?} is there twice")));
                    }
                    entries.push((name, value));
                }
                Ok(InOrder(entries))
            }
        }
        from.deserialize_map(Entries(PhantomData))
    }
}

/// A column: its type, or an object that says more.
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

/// A bound of errors: a number in the column's unit, or text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a bound of errors is a number or text")]
enum Bound {
    Number(f64),
    Text(String),
}

/// How a table is made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    columns: InOrder<Column>,
    #[serde(deserialize_with = "kubist::dimensions_from_json")]
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
    metadata: Metadata,
    /// Creating what is there, and agrees, opens it: every rank of a job may create.
    #[serde(default = "yes")]
    exist_ok: bool,
}

/// How a new table is stored.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Storage {
    replication: Option<String>,
    compression: Option<String>,
    shared: bool,
}

fn yes() -> bool {
    true
}

/// The type that a name means: one of a solver's, or any of Arrow's.
fn data_type(column: &str, name: &str) -> Result<DataType> {
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) {
        return Ok(kind.data_type());
    }
    name.parse().map_err(|error| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        Failure::invalid(format!("column {column:?}: {name:?} is not a type of {known}, nor one of Arrow ({error})"))
    })
}

impl Create {
    /// The columns, and the engine's options.
    ///
    /// # Errors
    ///
    /// `Invalid` names what makes no sense.
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
        let accuracy = self.accuracy.0.into_iter().map(|(column, bound)| match bound {
            Bound::Number(bound) => (column, Value::Float(bound)),
            Bound::Text(text) => (column, Value::Text(text)),
        });
        let options = TableOptions {
            dimensions: self.dimensions,
            identity: self.identity,
            lookup: self.lookup,
            capacity: self.capacity,
            seed: self.seed,
            replication: replication.map_err(|error| Failure::invalid(error.to_string()))?.unwrap_or_default(),
            compression: compression.unwrap_or_default(),
            accuracy: accuracy.collect(),
            units,
            metadata: self.metadata,
            exist_ok: self.exist_ok,
            shared: self.storage.shared,
        };
        Ok((Arc::new(Schema::new(fields)), options))
    }
}

/// A compression by its name.
fn compression(name: Option<&str>) -> Result<Option<Compression>> {
    let parsed = name.map(str::parse::<Compression>).transpose();
    parsed.map_err(|error| Failure::invalid(error.to_string()))
}

/// How a table is dropped.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dropping {
    /// Although a writer is at work.
    pub force: bool,
}

/// How steps are written.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Writing {
    name: Option<String>,
    timeout_seconds: f64,
    memory_bytes: Option<usize>,
    optimize: bool,
    /// Steps that may wait; 0: a step is durable when it ends.
    queue: usize,
    when_full: WhenFull,
    threads: usize,
    tokens: bool,
    /// The process only commits.
    dedicated: bool,
    budget_rows_per_step: Option<u64>,
    budget_bytes_per_step: Option<u64>,
    budget_bytes: Option<u64>,
    budget_steps: Option<u64>,
    always_keep: Option<String>,
    persist_when: Option<String>,
    whole_paths: Option<bool>,
    /// Other writers write the same steps: a budget is of all.
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
    /// `Invalid` for a timeout that is none.
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

/// A time to wait; infinity and what is next to it mean without end.
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

/// A time to wait while something closes: what is no time is none, for a handle that is not given
/// back would be lost.
pub fn patient(timeout: f64) -> Duration {
    seconds("timeout_seconds", timeout).unwrap_or_default()
}

/// How a step ends.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    pub token: Option<String>,
}

/// The writers that each step waits for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writers {
    names: Option<Vec<String>>,
    count: Option<u64>,
    /// Only of steps after this one.
    pub after: Option<i64>,
}

impl Writers {
    /// # Errors
    ///
    /// `Invalid` unless it is either names or a count.
    pub fn declared(self) -> Result<Declared> {
        match (self.names, self.count) {
            (Some(names), None) => Ok(Declared::Names(names.into_iter().collect())),
            (None, Some(count)) => Ok(Declared::Count(count)),
            _ => Err(Failure::invalid("writers: say either names or a count")),
        }
    }
}

/// Whose writers are not waited for.
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
    /// `Invalid` for a time that is none.
    pub fn timeout(&self) -> Result<Duration> {
        let timeout = self.timeout_seconds.map(|given| seconds("timeout_seconds", given)).transpose()?;
        Ok(timeout.unwrap_or(StepOptions::default().timeout))
    }
}

/// Which settings of a table change.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Altering {
    compression: Option<String>,
    pub shared: bool,
}

impl Altering {
    /// # Errors
    ///
    /// `Invalid` for a compression that there is not.
    pub fn compression(&self) -> Result<Option<Compression>> {
        compression(self.compression.as_deref())
    }
}

/// How far the optimizer goes.
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
    /// `Invalid` for a policy that there is not.
    pub fn into_engine(self) -> Result<OptimizeOptions> {
        let replication = self.replication.map(|policy| policy.parse::<Replication>()).transpose();
        let replication = replication.map_err(|error| Failure::invalid(error.to_string()))?;
        let default = OptimizeOptions::default();
        let debt_share = self.debt_share.unwrap_or(default.debt_share);
        Ok(OptimizeOptions { debt_share, replication, recompress: self.recompress, ..default })
    }
}

/// A question and what goes with it, in one object.
pub struct Asked<T> {
    pub spec: QuerySpec,
    pub rest: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Asked<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Asked<T>, D::Error> {
        let all = serde_json::Map::deserialize(from)?;
        let is_of_records = |name: &String| QuerySpec::NAMES.contains(&name.as_str());
        let (spec, rest): (serde_json::Map<_, _>, _) = all.into_iter().partition(|(name, _)| is_of_records(name));
        Ok(Asked {
            spec: serde_json::from_value(spec.into()).map_err(D::Error::custom)?,
            rest: serde_json::from_value(serde_json::Value::Object(rest)).map_err(D::Error::custom)?,
        })
    }
}

/// What is estimated and how well.
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

impl Asked<Goal> {
    /// # Errors
    ///
    /// `Invalid` for a time that is none.
    pub fn into_engine(self, run: RunOptions) -> Result<EstimateOptions> {
        let Asked { spec, rest: goal } = self;
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

/// How a refinement goes on.
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
