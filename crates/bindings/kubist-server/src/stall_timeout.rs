//! Ends a connection whose client does not read or has disconnected.
//!
//! TCP would keep the connection and unsent data of a client that never reads, so a write without progress
//! fails after a time limit. A disconnect is detected even if the client has sent requests that the server has
//! not read yet.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::connections::Connection;

const CHECK_CLIENT: Duration = Duration::from_millis(100);

/// Writes fail once the client has read nothing for `patience`.
pub struct StallTimeout {
    stream: Arc<TcpStream>,
    connection: Arc<Connection>,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl StallTimeout {
    pub fn new(stream: Arc<TcpStream>, connection: Arc<Connection>, patience: Duration) -> StallTimeout {
        StallTimeout { stream, connection, patience, timer: Box::pin(sleep(patience)), waiting: false }
    }

    /// The outcome of a write; an error if it has waited too long.
    fn judge<T>(&mut self, written: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if self.waiting == written.is_ready() {
            self.waiting = written.is_pending();
            self.connection.is_unread(self.waiting);
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        if written.is_ready() {
            return written;
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Waits until the other end has closed, plus a short time, because its last request may complete at once, or
/// it may have closed only its sending direction.
pub async fn hung_up(stream: &TcpStream) {
    loop {
        let gone = stream.ready(Interest::READABLE).await.map_or(true, |ready| ready.is_read_closed());
        sleep(CHECK_CLIENT).await;
        if gone {
            return;
        }
    }
}

impl AsyncRead for StallTimeout {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(into.initialize_unfilled()) {
                Ok(read) => {
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for StallTimeout {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = loop {
            match self.stream.poll_write_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => break Poll::Ready(written),
            }
        };
        self.judge(written, context)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}
