//! Credentials, region and endpoint, from the usual AWS sources.
//!
//! The order is: the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`; the profile
//! `AWS_PROFILE` (or `default`) in `~/.aws/credentials` and `~/.aws/config`; then the machine's own credentials (a web
//! identity, or the role of a container or an instance), which the library finds. A profile in the location takes
//! precedence over the variables.

use std::collections::BTreeMap;
use std::env::var;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::client::ReqwestConnector;
use object_store::{BackoffConfig, ClientOptions, CredentialProvider, RetryConfig};

use crate::contact::innermost;
use crate::location::Location;

/// If a machine has a credential service, it responds within a second.
const PATIENCE: Duration = Duration::from_secs(4);
const ANSWERING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(5);

type Profile = BTreeMap<String, String>;

/// # Errors
///
/// The reason why the profile cannot be used.
pub fn builder(location: &Location) -> Result<AmazonS3Builder, String> {
    let named = location.profile.clone();
    let chosen = named.clone().or_else(|| var("AWS_PROFILE").ok().filter(|name| !name.is_empty()));
    let mut builder = AmazonS3Builder::from_env();
    // A profile in the location is used alone, because the variables may belong to another account.
    if named.is_some() {
        builder = AmazonS3Builder::new();
        for (name, set) in [("AWS_ENDPOINT_URL_S3", 1), ("AWS_ENDPOINT_URL", 1), ("AWS_REGION", 0)] {
            if let Ok(value) = var(name) {
                builder = if set == 1 { builder.with_endpoint(value) } else { builder.with_region(value) };
            }
        }
    }
    let has_key = named.is_none() && var("AWS_ACCESS_KEY_ID").is_ok_and(|key| !key.is_empty());
    let is_set = |names: &[&str]| names.iter().any(|name| var(name).is_ok_and(|value| !value.is_empty()));
    if let Some(profile) = profile(chosen.as_deref())? {
        let of = |name: &str| profile.get(name).cloned();
        if let (false, Some(key), Some(secret)) = (has_key, of("aws_access_key_id"), of("aws_secret_access_key")) {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
            if let Some(token) = of("aws_session_token") {
                builder = builder.with_token(token);
            }
        }
        if let Some(region) = of("region").filter(|_| !is_set(&["AWS_REGION", "AWS_DEFAULT_REGION"])) {
            builder = builder.with_region(region);
        }
        let given = ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"];
        if let Some(endpoint) = of("endpoint_url").filter(|_| !is_set(&given)) {
            builder = builder.with_endpoint(endpoint);
        }
    }
    Ok(builder)
}

/// Limits the search for the machine's credentials, because most machines have no credential service, and the library
/// would search as long as it retries a read.
///
/// # Errors
///
/// Missing settings of the builder.
pub fn within_seconds(builder: AmazonS3Builder) -> object_store::Result<AmazonS3Builder> {
    if builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some() {
        return Ok(builder);
    }
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries: 3,
        retry_timeout: PATIENCE,
    };
    let options = ClientOptions::new().with_timeout(ANSWERING).with_connect_timeout(ANSWERING);
    let of_machine = builder.clone().with_http_connector(ReqwestConnector::default()).with_retry(retry);
    let asked = of_machine.with_client_options(options).build()?.credentials().clone();
    Ok(builder.with_credentials(Arc::new(WithinSeconds { asked, last: Mutex::default() })))
}

#[derive(Debug)]
pub struct NoCredentials(String);

impl fmt::Display for NoCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; this machine \
             has none of its own: {}",
            self.0
        )
    }
}

impl std::error::Error for NoCredentials {}

#[derive(Debug)]
struct WithinSeconds {
    asked: AwsCredentialProvider,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    had: Option<Arc<AwsCredential>>,
    failed: Option<(Instant, String)>,
}

impl WithinSeconds {
    /// Continues with the last credentials while the service does not respond. Credentials are renewed some minutes
    /// before they expire, so these are still valid.
    fn without_answer(&self, why: &str) -> object_store::Result<Arc<AwsCredential>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.had.clone().ok_or_else(|| object_store::Error::Unauthenticated {
            path: "credentials".into(),
            source: Box::new(NoCredentials(why.into())),
        })
    }
}

#[async_trait]
impl CredentialProvider for WithinSeconds {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let failed = self.last.lock().unwrap_or_else(PoisonError::into_inner).failed.clone();
        if let Some((_, why)) = failed.filter(|(when, _)| when.elapsed() < PAUSE) {
            return self.without_answer(&why);
        }
        // Many requests may wait here in sequence.
        let why = match tokio::time::timeout(PATIENCE, self.asked.get_credential()).await {
            Ok(Ok(found)) => {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Last { had: Some(found.clone()), failed: None };
                return Ok(found);
            }
            Ok(Err(error)) => innermost(&error),
            Err(_) => format!("no response in {} seconds", PATIENCE.as_secs()),
        };
        self.last.lock().unwrap_or_else(PoisonError::into_inner).failed = Some((Instant::now(), why.clone()));
        self.without_answer(&why)
    }
}

fn profile(chosen: Option<&str>) -> Result<Option<Profile>, String> {
    let name = chosen.unwrap_or("default");
    let mut found: Option<Profile> = None;
    // Settings of the credentials file take precedence.
    for (variable, file, prefix) in [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", ""),
        ("AWS_CONFIG_FILE", "config", if name == "default" { "" } else { "profile " }),
    ] {
        let home = || var("HOME").ok().map(|home| PathBuf::from(home).join(".aws").join(file));
        let Some(path) = var(variable).ok().map(PathBuf::from).or_else(home) else { continue };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        if let Some(section) = section(&text, &format!("{prefix}{name}")) {
            let found = found.get_or_insert_default();
            for (key, value) in section {
                found.entry(key).or_insert(value);
            }
        }
    }
    match (found, chosen) {
        (None, Some(name)) => {
            Err(format!("there is no profile {name:?} in the files ~/.aws/credentials and ~/.aws/config"))
        }
        (found, _) => Ok(found),
    }
}

/// Reads a section without nested settings, which are indented.
fn section(text: &str, name: &str) -> Option<Profile> {
    let mut found: Option<Profile> = None;
    let mut inside = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        if let Some(head) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = head.trim() == name;
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (inside && !line.starts_with([' ', '\t']), line.split_once('=')) {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read() {
        let text = "# mine\n[default]\nregion=eu-west-1\n\n[ profile lab ]\nAWS_Access_Key_Id = AKIA = x\n\
                    s3 =\n  addressing_style = path\n; none\nregion = us-east-2\n[other]\nregion = no\n";
        let lab = section(text, "profile lab").unwrap();
        assert_eq!(lab["aws_access_key_id"], "AKIA = x");
        assert_eq!((lab["region"].as_str(), lab.contains_key("addressing_style")), ("us-east-2", false));
        assert_eq!(section(text, "default").unwrap()["region"], "eu-west-1");
        assert_eq!(section(text, "lab"), None);
    }
}
