//! The schemes `http` and `https`: sealed files on web servers that support range requests.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kubist_one::SealedStore;
use kubist_store::{Content, Error, Result, Scheme, Store, StoreLocation};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::contact::{FirstContact, innermost};
use crate::remote::{RemoteFile, Service};

const PATIENCE: Duration = Duration::from_secs(30);
const CONNECTING: Duration = Duration::from_secs(5);
const PARALLEL: usize = 16;
const MOST_TRIES: usize = 10_000;
const LONGEST: usize = 4096;

#[derive(Debug, Clone, Copy)]
pub enum Sites {
    Http,
    Https,
}

impl Scheme for Sites {
    fn name(&self) -> &'static str {
        match self {
            Sites::Http => "http",
            Sites::Https => "https",
        }
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        let form = format!("the address of a sealed file is {}://host/name", self.name());
        let rest = location.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix("://")).ok_or(form.clone())?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if rest.contains(['@', '?', '#']) {
            return Err(format!("{form}, without a user, a ?query or a #fragment: messages show it"));
        }
        if path.trim_matches('/').is_empty() {
            return Err(format!("{form}; kubist.connect opens a table that `kubist view` serves"));
        }
        let is_plain = |text: &str| text.len() <= LONGEST && text.chars().all(|c| !c.is_control() && c != ' ');
        match !host.is_empty() && is_plain(rest) {
            true => Ok(Arc::new(At { location: location.into(), host: host.into() })),
            false => Err(form),
        }
    }
}

struct At {
    location: String,
    host: Arc<str>,
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.location)
    }
}

impl At {
    fn file(&self) -> Result<RemoteFile> {
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: Duration::from_secs(5),
                base: 2.0,
            },
            max_retries: MOST_TRIES,
            retry_timeout: PATIENCE,
        };
        let options = ClientOptions::new()
            .with_allow_http(self.location.starts_with("http://"))
            .with_connect_timeout(CONNECTING)
            .with_timeout(PATIENCE);
        let service = object_store::http::HttpBuilder::new()
            .with_url(self.location.as_str())
            .with_client_options(options)
            .with_retry(retry)
            .with_http_connector(FirstContact::default())
            .build()
            .map_err(|error| because(&self.location, "reach", io::ErrorKind::Unsupported, error.to_string()))?;
        let location = self.location.clone();
        let of = Service {
            service: Arc::new(service),
            path: Path::default(),
            host: self.host.clone(),
            parallel: PARALLEL,
            translate: Box::new(move |operation, error| failed(&location, operation, error)),
        };
        Ok(RemoteFile::new(self.location.clone(), of))
    }
}

impl StoreLocation for At {
    fn find(&self) -> Result<Content> {
        match SealedStore::open(Arc::new(self.file()?)) {
            Ok(Some(store)) => Ok(Content::Store(Arc::new(store))),
            Ok(None) => {
                Ok(Content::NoStore("it is no sealed file; kubist.connect opens a table that `kubist view` serves"))
            }
            Err(Error::Missing { .. }) => Ok(Content::Nothing),
            Err(error) => Err(error),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        let why = "a web server cannot be written: pack the table into a file, and upload it".into();
        Err(because(&self.location, "create", io::ErrorKind::Unsupported, why))
    }

    fn noun(&self) -> &'static str {
        "the file"
    }

    fn beside(&self, suffix: &str, _requests: usize) -> String {
        format!("{}{suffix}", self.location)
    }
}

fn because(location: &str, operation: &'static str, kind: io::ErrorKind, why: String) -> Error {
    Error::Io { operation, file: location.into(), source: io::Error::new(kind, why) }
}

fn failed(location: &str, operation: &'static str, error: object_store::Error) -> Error {
    use object_store::Error as Of;
    let text = error.to_string();
    let has_status = |codes: &[&str]| codes.iter().any(|code| text.contains(&format!("status code: {code}")));
    match &error {
        Of::NotSupported { .. } => {
            let why = "the server does not answer range requests, as Python's http.server does not: publish the file on \
                       one that does, such as nginx, Apache, Caddy or an object store";
            because(location, operation, io::ErrorKind::Unsupported, why.into())
        }
        Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => {
            because(location, operation, io::ErrorKind::PermissionDenied, "the server refuses to send it".into())
        }
        _ if has_status(&["401", "403"]) => {
            because(location, operation, io::ErrorKind::PermissionDenied, "the server refuses to send it".into())
        }
        Of::Generic { .. } => Error::Unreachable { location: location.into(), why: innermost(&error) },
        _ => because(location, operation, io::ErrorKind::Other, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let location = "http://127.0.0.1:8000/data/run.kubist1";
        let at = Sites::Http.read(location).unwrap();
        assert_eq!((at.to_string(), at.beside(".fit", 8)), (location.into(), format!("{location}.fit")));
        assert!(Sites::Https.read("https://host/a%20b").is_ok());
        for (location, word) in [
            ("http://", "http://host/name"),
            ("http:///name", "http://host/name"),
            ("http://host", "kubist.connect"),
            ("http://host/", "kubist.connect"),
            ("http://ada:secret@host/name", "without a user"),
            ("http://host/name?token=secret", "without a user"),
            ("http://host/a b", "http://host/name"),
        ] {
            let error = Sites::Http.read(location).map(|at| at.to_string()).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{location}: {error}");
        }
    }
}
