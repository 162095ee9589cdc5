//! First contact: a short timeout for a service that has never responded.
//!
//! A service that has never responded is probably a mistake, for example a wrong address or a missing network. So until
//! the first response, retries end after a few seconds, unless the location sets `patience`. After it, requests are
//! retried for [`Location::patience`].
//!
//! [`Location::patience`]: crate::location::Location::patience

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

const CONNECTING: Duration = Duration::from_secs(5);
/// The wait for the first response. It is longer, because a service may be busy.
const ANSWERING: Duration = Duration::from_secs(10);
/// The minimum wait of a handle that gave up, so that it notices when the service responds again.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Whether a service has ever responded. If not, its clients give up early.
#[derive(Debug, Default)]
pub struct FirstContact(Arc<ContactState>);

#[derive(Debug, Default)]
struct ContactState {
    heard: AtomicBool,
    first_sent: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Client {
    inner: HttpClient,
    known: Arc<ContactState>,
}

/// The reason why the client gave up. The library does not retry this error.
#[derive(Debug)]
struct GivenUp(String);

impl fmt::Display for GivenUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for GivenUp {}

/// Whether the client gave up, so a retry is useless.
pub fn is_given_up(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<GivenUp>() {
            return true;
        }
        cause = error.source();
    }
    false
}

impl HttpConnector for FirstContact {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Client { inner, known: self.0.clone() }))
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if self.known.heard.load(Ordering::Relaxed) {
            return self.inner.execute(request).await;
        }
        let first =
            *self.known.first_sent.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        let left = ANSWERING.saturating_sub(first.elapsed()).max(AT_LEAST);
        let gives_up = |why: String| HttpError::new(HttpErrorKind::Unknown, GivenUp(why));
        match tokio::time::timeout(left, self.inner.execute(request)).await {
            Ok(Ok(answer)) => {
                self.known.heard.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            // Another request may have succeeded in between.
            Ok(Err(error)) if first.elapsed() >= CONNECTING && !self.known.heard.load(Ordering::Relaxed) => {
                Err(gives_up(innermost(&error)))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(gives_up(format!("no response in {} seconds", ANSWERING.as_secs()))),
        }
    }
}

/// The innermost cause is the most specific. The outer causes repeat it with addresses.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
