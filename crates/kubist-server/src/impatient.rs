//! A connection that ends when its other end does not take what is sent.
//!
//! TCP lets a client that never reads keep its connection, and what waits to be sent on it,
//! for ever. Here a write that makes no progress for too long fails.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

pub struct Impatient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write waits.
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Impatient {
    pub fn new(stream: TcpStream, patience: Duration) -> Impatient {
        Impatient { stream, patience, timer: Box::pin(sleep(patience)), waiting: false }
    }

    /// What the stream said about a write, or that it took too long.
    fn judge<T>(&mut self, said: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if said.is_ready() {
            self.waiting = false;
            return said;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let said = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(said, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let said = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(said, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let said = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(said, context)
    }
}
