//! Requests to the cluster: prepared statements, retries for up to `patience`, and errors that name an action.
//!
//! Every statement of this crate can be repeated, so a request is sent again if its response was lost.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use kubist_store::{Error, ReplicaLocation, Result};
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};
use uuid::Uuid;

use crate::limiter::Limiter;
use crate::location::Location;
use crate::process::Process;
use crate::session::{Cluster, connect};

const MIN_REQUESTS: usize = 4;
const MAX_REQUESTS_PER_NODE: usize = 64;
const MAX_REQUESTS: usize = 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

type Values<'a> = &'a (dyn SerializeRow + Sync);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// One replica, for immutable data; if a row is missing, the caller requests it again.
    One,
    /// Number of replicas that the location sets: a majority by default.
    Enough,
    /// A majority, after it has finished its pending transactions.
    Serially,
}

#[derive(Clone)]
pub struct Link {
    pub location: Arc<Location>,
    cluster: Arc<Cluster>,
    pub limiter: Arc<Limiter>,
    process: u32,
}

pub struct Decision {
    pub applied: bool,
    /// The existing row that prevented the change, by column.
    found: HashMap<String, CqlValue>,
}

impl Decision {
    pub fn uuid(&self, column: &str) -> Option<Uuid> {
        self.found.get(column).and_then(CqlValue::as_uuid)
    }

    pub fn text(&self, column: &str) -> Option<&str> {
        self.found.get(column)?.as_text().map(String::as_str)
    }

    /// Whether the claim with this number has won, possibly in an earlier attempt.
    pub fn won(&self, nonce: Uuid) -> bool {
        self.applied || self.uuid("nonce") == Some(nonce)
    }
}

impl Link {
    pub fn open(location: Location) -> Result<Link> {
        let process = here(&location)?;
        let slot = process.session(location.session_key());
        let cluster = process.runtime.block_on(slot.get_or_try_init(|| connect(&location)))?.clone();
        let nodes = cluster.session.get_cluster_state().get_nodes_info().len().max(1);
        let limiter = match location.tuned {
            true => Limiter::new(location.parallel, MIN_REQUESTS, (MAX_REQUESTS_PER_NODE * nodes).min(MAX_REQUESTS)),
            false => Limiter::new(location.parallel, location.parallel, location.parallel),
        };
        let limiter = Arc::new(limiter);
        Ok(Link { location: Arc::new(location), cluster, limiter, process: std::process::id() })
    }

    pub fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check_process()?;
        here(&self.location)?.runtime.block_on(work)
    }

    pub fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<T>> {
        self.check_process()?;
        Ok(here(&self.location)?.runtime.spawn(work))
    }

    pub fn is_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Refuses in a forked process, which must not use its parent's connections.
    fn check_process(&self) -> Result<()> {
        match self.is_this_process() {
            true => Ok(()),
            false => Err(Error::Refused {
                file: self.location.to_string(),
                cause: "the parent process opened it before a fork".into(),
            }),
        }
    }

    pub fn nodes(&self) -> usize {
        self.cluster.session.get_cluster_state().get_nodes_info().len()
    }

    pub fn hosts(&self) -> Vec<String> {
        let state = self.cluster.session.get_cluster_state();
        state.get_nodes_info().iter().map(|node| node.address.ip().to_string()).collect()
    }

    pub async fn enter_keyspace(&self) -> Result<()> {
        let enter = async || {
            let mut pauses = Pauses::new(self.location.patience);
            loop {
                let entered = self.cluster.session.use_keyspace(&self.location.keyspace, false).await;
                match entered.map_err(ExecutionError::UseKeyspaceError) {
                    Ok(()) => return Ok(()),
                    Err(error) if may_pass(&error) && pauses.next().await => {}
                    Err(error) => return Err(self.failed(&error)),
                }
            }
        };
        self.cluster.in_keyspace.get_or_try_init(enter).await.copied()
    }

    /// Changes the schema and waits until the nodes agree.
    pub async fn alter(&self, cql: &str) -> Result<()> {
        let mut pauses = Pauses::new(self.location.patience);
        loop {
            match self.cluster.session.query_unpaged(cql, ()).await {
                Ok(_) => return Ok(()),
                Err(error) if may_pass(&error) && pauses.next().await => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    pub async fn run(&self, cql: &'static str, values: Values<'_>) -> Result<()> {
        self.ask(cql, values, Agreed::Enough, None, PagingState::start()).await.map(drop)
    }

    pub async fn decide(&self, cql: &'static str, values: Values<'_>) -> Result<Decision> {
        let (answer, _) = self.ask(cql, values, Agreed::Enough, None, PagingState::start()).await?;
        let rows = answer.into_rows_result().map_err(|error| self.odd(error))?;
        let row: Row = rows.first_row().map_err(|error| self.odd(error))?;
        let names = rows.column_specs();
        let named = names.iter().zip(row.columns).filter_map(|(spec, value)| Some((spec.name().to_owned(), value?)));
        let found: HashMap<String, CqlValue> = named.collect();
        let applied = found.get("[applied]").and_then(CqlValue::as_boolean).unwrap_or(false);
        Ok(Decision { applied, found })
    }

    pub async fn all<T>(&self, cql: &'static str, values: Values<'_>, agreed: Agreed) -> Result<Vec<T>>
    where
        T: for<'r> DeserializeRow<'r, 'r>,
    {
        let mut rows = Vec::new();
        self.scan(cql, values, agreed, None, |row| {
            rows.push(row);
            true
        })
        .await?;
        Ok(rows)
    }

    pub async fn first<T>(&self, cql: &'static str, values: Values<'_>, agreed: Agreed) -> Result<Option<T>>
    where
        T: for<'r> DeserializeRow<'r, 'r>,
    {
        let mut first = None;
        self.scan(cql, values, agreed, None, |row| {
            first = Some(row);
            false
        })
        .await?;
        Ok(first)
    }

    pub async fn all_from<T>(&self, cql: &'static str, values: Values<'_>, agreed: Agreed) -> Result<(Vec<T>, IpAddr)>
    where
        T: for<'r> DeserializeRow<'r, 'r>,
    {
        let mut rows = Vec::new();
        let take = |row| {
            rows.push(row);
            true
        };
        let host = self.scan(cql, values, agreed, None, take).await?;
        Ok((rows, host))
    }

    pub async fn replica_location(
        &self,
        cql: &'static str,
        values: &impl SerializeRow,
        table: &str,
    ) -> Result<ReplicaLocation> {
        let statement = self.statement(cql, Agreed::One, None).await.map_err(|error| self.failed(&error.into()))?;
        let token = statement.calculate_token(values).map_err(|error| self.odd(error))?;
        let token = token.ok_or_else(|| self.odd("a statement that names no partition"))?;
        let state = self.cluster.session.get_cluster_state();
        let kept = state.get_token_endpoints(&self.location.keyspace, table, token);
        let hosts = kept.into_iter().map(|(node, _)| node.address.ip().to_string()).collect();
        Ok(ReplicaLocation { token: token.value(), hosts })
    }

    /// Passes rows to `take` until it returns `false`, and returns the last host that responded.
    pub async fn scan<T>(
        &self,
        cql: &'static str,
        values: Values<'_>,
        agreed: Agreed,
        at_a_time: Option<i32>,
        mut take: impl FnMut(T) -> bool,
    ) -> Result<IpAddr>
    where
        T: for<'r> DeserializeRow<'r, 'r>,
    {
        let mut page = PagingState::start();
        loop {
            let (answer, next) = self.ask(cql, values, agreed, at_a_time, page).await?;
            let host = answer.request_coordinator().node().address.ip();
            let rows = answer.into_rows_result().map_err(|error| self.odd(error))?;
            for row in rows.rows::<T>().map_err(|error| self.odd(error))? {
                if !take(row.map_err(|error| self.odd(error))?) {
                    return Ok(host);
                }
            }
            match next {
                PagingStateResponse::HasMorePages { state } => page = state,
                PagingStateResponse::NoMorePages => return Ok(host),
            }
        }
    }

    async fn ask(
        &self,
        cql: &'static str,
        values: Values<'_>,
        agreed: Agreed,
        at_a_time: Option<i32>,
        page: PagingState,
    ) -> Result<(QueryResult, PagingStateResponse)> {
        let mut pauses = Pauses::new(self.location.patience);
        loop {
            let answer = match self.statement(cql, agreed, at_a_time).await {
                Ok(statement) => self.cluster.session.execute_single_page(&statement, values, page.clone()).await,
                Err(error) => Err(error.into()),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if may_pass(&error) && pauses.next().await => self.limiter.failed(),
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    async fn statement(
        &self,
        cql: &'static str,
        agreed: Agreed,
        at_a_time: Option<i32>,
    ) -> Result<PreparedStatement, PrepareError> {
        let known = self.cluster.statements.read().unwrap_or_else(PoisonError::into_inner).get(cql).cloned();
        let mut statement = match known {
            Some(statement) => statement,
            None => {
                let mut statement = self.cluster.session.prepare(cql).await?;
                statement.set_is_idempotent(true);
                let mut statements = self.cluster.statements.write().unwrap_or_else(PoisonError::into_inner);
                statements.insert(cql, statement.clone());
                statement
            }
        };
        statement.set_consistency(match agreed {
            Agreed::One => Consistency::LocalOne,
            Agreed::Enough => self.location.agreement.consistency(),
            Agreed::Serially => Consistency::Serial,
        });
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        if let Some(rows) = at_a_time {
            statement.set_page_size(rows);
        }
        Ok(statement)
    }

    fn failed(&self, error: &ExecutionError) -> Error {
        let location = self.location.to_string();
        match is_missing(error) {
            true => Error::Missing { file: location },
            false => Error::Unreachable { location, why: format!("{}; check its nodes, then try again", why(error)) },
        }
    }

    fn odd(&self, error: impl Display) -> Error {
        Error::Unreachable { location: self.location.to_string(), why: format!("its response is invalid ({error})") }
    }
}

struct Pauses {
    end: Instant,
    next: Duration,
}

impl Pauses {
    fn new(patience: Duration) -> Pauses {
        Pauses { end: Instant::now() + patience, next: FIRST_PAUSE }
    }

    async fn next(&mut self) -> bool {
        if Instant::now() + self.next > self.end {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }
}

fn here(location: &Location) -> Result<&'static Process> {
    Process::here().map_err(|source| Error::Io { operation: "start threads for", file: location.to_string(), source })
}

fn may_pass(error: &ExecutionError) -> bool {
    // A node may not yet know a new keyspace or table.
    if is_missing(error) {
        return true;
    }
    let attempt = |error: &RequestAttemptError| match error {
        RequestAttemptError::DbError(error, _) => !matches!(
            error,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::AlreadyExists { .. }
                | DbError::FunctionFailure { .. }
                | DbError::AuthenticationError
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::ProtocolError
        ),
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => false,
        _ => true,
    };
    match error {
        ExecutionError::BadQuery(_) => false,
        ExecutionError::LastAttemptError(error) => attempt(error),
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt }) => attempt(first_attempt),
        _ => true,
    }
}

fn why(error: &ExecutionError) -> String {
    if let ExecutionError::RequestTimeout(after) = error {
        return format!("no response came within {} s", after.as_secs());
    }
    if let ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text)) = error {
        match error {
            DbError::Unavailable { required, alive, .. } => {
                return format!("{alive} of the {required} required replicas are up");
            }
            DbError::ReadTimeout { received, required, .. } | DbError::WriteTimeout { received, required, .. } => {
                return format!("{received} of the {required} required replicas responded in time");
            }
            DbError::Unauthorized => return text.clone(),
            _ => {}
        }
    }
    error.to_string()
}

/// Whether a keyspace or table is missing, which is also true if only this node does not know it yet.
fn is_missing(error: &ExecutionError) -> bool {
    let text = error.to_string();
    let absent = text.contains("does not exist") || text.contains("doesn't exist");
    text.contains("unconfigured table") || absent && (text.contains("able ") || text.contains("eyspace"))
}
