//! Tests the service for conditional puts, on which everything relies.
//!
//! If a service ignores `If-None-Match: *`, or checks first and writes later, two owners of a log could both succeed.
//! Before a store is created, this module therefore tries puts that must fail, in sequence and concurrently.

use futures_util::future::join_all;
use kubist_store::{Error, Result};
use object_store::{ObjectStore, PutMode};
use uuid::Uuid;

use crate::client::Link;
use crate::failure::is_taken;

const RACERS: u8 = 8;

/// Refuses a service on which two puts to the same key succeed.
///
/// # Errors
///
/// `Io` if two puts succeed, or if the service does not support the condition; as for
/// [`failed`](crate::failure::failed).
pub async fn check(link: &Link) -> Result<()> {
    let key = format!("probe/{}", Uuid::new_v4());
    let answer = race(link, &key).await;
    // If both fail, the first error is more informative.
    let deleted = link.delete(&key).await;
    answer.and(deleted)
}

async fn race(link: &Link, key: &str) -> Result<()> {
    let put = async |racer: u8| {
        link.traffic.put(1);
        link.bucket.put_opts(&link.path(key), vec![racer].into(), PutMode::Create.into()).await
    };
    let mut won = 0;
    for answer in join_all((0..RACERS).map(put)).await.into_iter().chain([put(RACERS).await]) {
        match answer {
            Ok(_) => won += 1,
            Err(error) if is_taken(&error) => {}
            Err(error) => return Err(link.failed("write", key, error)),
        }
    }
    // `won` is 0 if the response to the successful put was lost.
    match won <= 1 {
        true => Ok(()),
        false => Err(ignores(link, won)),
    }
}

fn ignores(link: &Link, won: usize) -> Error {
    let why = format!(
        "of {} puts of one free key (If-None-Match: *) {won} were accepted; on such a service two writers could both \
         win, and records be lost",
        RACERS + 1
    );
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, why);
    Error::Io { operation: "use", file: link.location.to_string(), source }
}
