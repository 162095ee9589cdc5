use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

pub fn within_a_minute<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("{what} did not end"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}
