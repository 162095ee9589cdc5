//! Connections to the nodes of a cluster, and the reasons why they fail.
//!
//! All stores of a process with the same hosts, login and keyspace share one session.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use kubist_store::{Error, Result};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, MetadataError, NewSessionError,
};
use scylla::statement::SerialConsistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::OnceCell;

use crate::location::{Location, PASSWORD_VARIABLE};
use crate::tls;

const CONNECT: Duration = Duration::from_secs(3);
/// The nodes give up earlier than this timeout of an attempt.
const ATTEMPT: Duration = Duration::from_secs(6);
const AGREEMENT: Duration = Duration::from_millis(50);

pub struct Cluster {
    pub session: Session,
    pub statements: RwLock<HashMap<&'static str, PreparedStatement>>,
    /// Set once all connections use the keyspace, which statements do not name.
    pub in_keyspace: OnceCell<()>,
}

pub async fn connect(location: &Location) -> Result<Arc<Cluster>> {
    let profile = ExecutionProfile::builder()
        .consistency(location.agreement.consistency())
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(ATTEMPT))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&location.hosts)
        .connection_timeout(CONNECT)
        .hostname_resolution_timeout(Some(CONNECT))
        .keyspaces_to_fetch([&location.keyspace])
        .default_execution_profile_handle(profile.into_handle())
        .schema_agreement_interval(AGREEMENT)
        .pool_size(PoolSize::PerHost(std::num::NonZeroUsize::MIN))
        .tcp_nodelay(true);
    if let Some(user) = &location.user {
        builder = builder.user(user, location.password.clone().unwrap_or_default());
    }
    if let Some(authorities) = &location.authorities {
        builder = builder.tls_context(Some(tls::trusting(authorities)?));
    }
    let session = builder.build().await.map_err(|error| refused(location, &error))?;
    Ok(Arc::new(Cluster { session, statements: RwLock::default(), in_keyspace: OnceCell::new() }))
}

fn refused(location: &Location, error: &NewSessionError) -> Error {
    let why = match error {
        NewSessionError::FailedToResolveAnyHostname(_) => "no host of that name was found".to_owned(),
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error: error,
        })) => not_let_in(location, error),
        error => deepest(error),
    };
    let hosts = location.hosts.join(", ");
    Error::Unreachable {
        location: location.to_string(),
        why: format!("no node accepts a connection at {hosts} ({why})"),
    }
}

fn not_let_in(location: &Location, error: &ConnectionError) -> String {
    use ConnectionSetupRequestErrorKind::{BrokenConnection, DbError, MissingAuthentication};
    let request = match error {
        ConnectionError::ConnectionSetupRequestError(error) => error.get_error(),
        ConnectionError::IoError(error) if tls::is_not_spoken(error) => {
            return "it does not use TLS: set tls=off".into();
        }
        error => return deepest(error),
    };
    match (request, &location.user, &location.password) {
        (MissingAuthentication, ..) => "it requires a user and a password".into(),
        (DbError(..), Some(user), None) => {
            format!("no password was given for {user}: put it after the user, or into {PASSWORD_VARIABLE}")
        }
        (DbError(_, text), ..) => text.clone(),
        (BrokenConnection(_), ..) if location.authorities.is_none() => {
            "it closed the connection: it may require TLS (tls=on)".into()
        }
        (error, ..) => deepest(error),
    }
}

fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
