//! A connection that ends when its client does not read, or is gone.
//!
//! With TCP alone, a client that never reads keeps its connection, and the data that waits to be
//! sent on it, for ever. Here a write that makes no progress for too long fails. A client that
//! sends more than one request and hangs up is noticed, although the rest is not read.

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

/// How often to check whether a client that sends more than is read has hung up.
const CHECK_CLIENT: Duration = Duration::from_millis(100);

/// A stream whose writes fail once the client has read nothing for `patience`.
pub struct StallTimeout {
    stream: Arc<TcpStream>,
    connection: Arc<Connection>,
    patience: Duration,
    /// Runs while a write waits.
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl StallTimeout {
    pub fn new(stream: Arc<TcpStream>, connection: Arc<Connection>, patience: Duration) -> StallTimeout {
        StallTimeout { stream, connection, patience, timer: Box::pin(sleep(patience)), waiting: false }
    }

    /// The outcome of a write; an error if it has waited for too long.
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

/// Waits until the other end has hung up, and a little longer: what it asked for last may be
/// answered at once, and it may have closed no more than its own direction.
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
        // TCP keeps nothing back that a flush would send.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        // Both directions end when this is dropped, which is next.
        Poll::Ready(Ok(()))
    }
}
