//! Responses that worker threads produce and send while they run.
//!
//! A worker writes into [`Out`], which passes parts to the connection, at most a few ahead of the client, so
//! TCP's back-pressure reaches the query. When the client disconnects, stops reading, or the time limit is
//! reached, the worker's next write fails and its cancel switch stops the engine's threads.

use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use kubist::Cancel;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::{Connection, SLOW};
use crate::problem::{Problem, Result};

/// Bytes of a part, and number of parts that may wait.
const PIECE_BYTES: usize = 256 * 1024;
const PIECES_AHEAD: usize = 3;
/// Interval between checks whether the next part can be sent.
const CHECK_CHANNEL: Duration = Duration::from_millis(1);

/// Interval between checks for a slow client's slot.
const CHECK_SLOTS: Duration = Duration::from_millis(100);

/// Slots for concurrent requests. A request whose client reads too slowly gives its slot to waiting ones,
/// because its unread response holds memory.
#[derive(Clone)]
pub struct RequestSlots {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<Vec<Arc<ActiveRequest>>>>,
}

struct ActiveRequest {
    cancel: Cancel,
    /// The start of the wait for the client to read a part.
    unread_since: Mutex<Option<Instant>>,
}

impl ActiveRequest {
    fn unread_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.unread_since.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The slot of a request; a drop frees it.
struct Taken {
    slots: RequestSlots,
    request: Arc<ActiveRequest>,
    _free: OwnedSemaphorePermit,
}

impl RequestSlots {
    pub fn new(slots: usize) -> RequestSlots {
        RequestSlots { free: Arc::new(Semaphore::new(slots)), taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Arc<ActiveRequest>>> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn take(&self, patience: Duration, cancel: &Cancel) -> Option<Taken> {
        let end = Instant::now() + patience;
        // The request keeps its turn in the queue while it checks.
        let mut free = std::pin::pin!(self.free.clone().acquire_owned());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if let Ok(free) = tokio::time::timeout(left.min(CHECK_SLOTS), free.as_mut()).await {
                let free = free.ok()?;
                let request = Arc::new(ActiveRequest { cancel: cancel.clone(), unread_since: Mutex::default() });
                self.taken().push(request.clone());
                return Some(Taken { slots: self.clone(), request, _free: free });
            }
            if left <= CHECK_SLOTS {
                return None;
            }
            let taken = self.taken();
            let since = taken.iter().filter_map(|request| Some(((*request.unread_since())?, request)));
            let slowest = since.min_by_key(|(since, _)| *since);
            if let Some((_, slowest)) = slowest.filter(|(since, _)| since.elapsed() >= SLOW) {
                slowest.cancel.set();
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.slots.taken().retain(|request| !Arc::ptr_eq(request, &self.request));
    }
}

#[derive(Clone)]
pub struct Work {
    pub slots: RequestSlots,
    pub patience: Duration,
    pub longest: Duration,
    /// Longest time that a client may not read.
    pub stall: Duration,
}

enum Message {
    Begin(Vec<(&'static str, String)>),
    Piece(Bytes),
    Failed(Problem),
    End,
}

pub struct Out {
    sender: Sender<Message>,
    headers: Option<Vec<(&'static str, String)>>,
    buffer: Vec<u8>,
    stall: Duration,
    deadline: Instant,
    /// Later writes fail at once.
    broken: bool,
    request: Arc<ActiveRequest>,
    pub cancel: Cancel,
}

impl Out {
    /// Adds a header, before the first byte is sent.
    pub fn header(&mut self, name: &'static str, value: &str) {
        if let Some(headers) = &mut self.headers {
            headers.push((name, value.to_string()));
        }
    }

    pub fn hand_over(&mut self) -> std::io::Result<()> {
        if let Some(headers) = self.headers.take() {
            self.send(Message::Begin(headers))?;
        }
        if !self.buffer.is_empty() {
            let piece = Bytes::from(std::mem::take(&mut self.buffer));
            self.send(Message::Piece(piece))?;
        }
        Ok(())
    }

    /// Waits until the channel accepts the message, without the connections' thread, which may be ending.
    fn send(&mut self, message: Message) -> std::io::Result<()> {
        let sent = self.send_in_time(message);
        *self.request.unread_since() = None;
        self.broken |= sent.is_err();
        sent
    }

    fn send_in_time(&self, mut message: Message) -> std::io::Result<()> {
        let patience = if self.broken { Duration::ZERO } else { self.stall };
        let limit = self.deadline.min(Instant::now() + patience);
        loop {
            message = match self.sender.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => {
                    return Err(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the client is gone"));
                }
                Err(TrySendError::Full(message)) => message,
            };
            if self.cancel.is_set() || Instant::now() >= limit {
                return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the client does not read"));
            }
            self.request.unread_since().get_or_insert_with(Instant::now);
            std::thread::sleep(CHECK_CHANNEL);
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.hand_over()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.hand_over()
    }
}

/// Sets a worker's switch when nobody waits for its response.
struct Waiting(Cancel);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Responds with the bytes that `work` writes on its own thread.
pub async fn stream(
    limits: &Work,
    work: impl FnOnce(&mut Out) -> Result<()> + Send + 'static,
) -> Result<Response<Answer>> {
    let cancel = Cancel::default();
    let waiting = Waiting(cancel.clone());
    let slot = slot(limits, &cancel).await?;
    let (sender, mut receiver) = channel(PIECES_AHEAD);
    let mut out = Out {
        sender,
        headers: Some(Vec::new()),
        buffer: Vec::new(),
        stall: limits.stall,
        deadline: Instant::now() + limits.longest,
        broken: false,
        request: slot.request.clone(),
        cancel: cancel.clone(),
    };
    let timer = tokio::spawn(stop_after(limits.longest, cancel));
    tokio::task::spawn_blocking(move || {
        let _slot: Taken = slot;
        let done = work(&mut out).and_then(|()| out.hand_over().map_err(Problem::of_sending));
        let last = match done {
            Ok(()) => Message::End,
            Err(problem) => Message::Failed(problem),
        };
        let _ = out.send(last);
        timer.abort();
    });
    match receiver.recv().await {
        Some(Message::Begin(headers)) => {
            let mut response = Response::new(Answer::of(Content::Streamed { pieces: receiver, _waiting: waiting }));
            for (name, value) in headers {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(HeaderName::from_static(name), value);
                }
            }
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            Ok(response)
        }
        Some(Message::Failed(problem)) => Err(problem),
        _ => Err(broken()),
    }
}

/// Responds with the JSON that `work` returns on its own thread.
pub async fn json(
    limits: &Work,
    work: impl FnOnce(&Cancel) -> Result<serde_json::Value> + Send + 'static,
) -> Result<Response<Answer>> {
    let cancel = Cancel::default();
    let _waiting = Waiting(cancel.clone());
    let slot = slot(limits, &cancel).await?;
    let timer = tokio::spawn(stop_after(limits.longest, cancel.clone()));
    let done = tokio::task::spawn_blocking(move || {
        let _slot: Taken = slot;
        work(&cancel)
    });
    let done = done.await.map_err(|_| broken());
    timer.abort();
    Ok(of_json(StatusCode::OK, &done??))
}

async fn slot(limits: &Work, cancel: &Cancel) -> Result<Taken> {
    limits.slots.take(limits.patience, cancel).await.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests at once: try again in a second")
    })
}

async fn stop_after(longest: Duration, cancel: Cancel) {
    tokio::time::sleep(longest).await;
    cancel.set();
}

fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the thread of the request failed unexpectedly")
}

pub struct Answer {
    content: Content,
    _then: Option<Silent>,
}

impl Answer {
    fn of(content: Content) -> Answer {
        Answer { content, _then: None }
    }

    /// Makes the connection wait for its client after this response.
    pub fn then_silent(self, connection: Option<Arc<Connection>>) -> Answer {
        Answer { _then: connection.map(Silent), ..self }
    }
}

struct Silent(Arc<Connection>);

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.is_silent();
    }
}

enum Content {
    Whole(Option<Bytes>),
    /// The worker's parts, and the switch that stops it when the body is dropped.
    Streamed {
        pieces: Receiver<Message>,
        _waiting: Waiting,
    },
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Problem;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        match &mut self.get_mut().content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Streamed { pieces, .. } => match std::task::ready!(pieces.poll_recv(context)) {
                Some(Message::Piece(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Message::End) => Poll::Ready(None),
                // The status is already sent, so cutting the connection reports the error.
                Some(Message::Failed(problem)) => Poll::Ready(Some(Err(problem))),
                Some(Message::Begin(_)) | None => Poll::Ready(Some(Err(broken()))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Streamed { .. } => SizeHint::default(),
        }
    }
}

pub fn of_json(status: StatusCode, value: &serde_json::Value) -> Response<Answer> {
    let mut response = full_response(value.to_string(), "application/json");
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub fn full_response(bytes: impl Into<Bytes>, media_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::of(Content::Whole(Some(bytes.into()))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

pub fn of_problem(problem: &Problem) -> Response<Answer> {
    let mut response = of_json(problem.status, &problem.body());
    if problem.status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
