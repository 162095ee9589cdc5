//! Ownership of logs: epochs, which fence, and the holder, which is advisory.
//!
//! Each new ownership of a log is an epoch, numbered by a lightweight transaction. From its start position on, the log
//! belongs to this epoch. At each position, the entry of the last epoch that starts at or before it counts, and the
//! entries of other epochs are void for ever. The head of `logs` explains why no acknowledged entry becomes void.
//!
//! The holder is a text in the log's partition that names the owner. It expires after [`HELD`] unless it is renewed. If
//! a process on this machine has died, its claim is replaced immediately.

use kubist_store::claims::{Holder, Life, life};
use kubist_store::{Error, Result};
use uuid::Uuid;

use crate::cluster::{Agreed, Link};

const LIST: &str = "SELECT epoch, start, nonce FROM kubist_epochs WHERE store = ? AND writer = ?";
const NEWEST: &str = "SELECT epoch FROM kubist_epochs WHERE store = ? AND writer = ? LIMIT 1";
const NEXT: &str = "INSERT INTO kubist_epochs (store, writer, epoch, nonce) VALUES (?, ?, ?, ?) IF NOT EXISTS";
const START: &str = "UPDATE kubist_epochs SET start = ? WHERE store = ? AND writer = ? AND epoch = ? IF start = null";
const HOLD: &str = "UPDATE kubist_epochs USING TTL 30 SET holder = ? WHERE store = ? AND writer = ? IF holder = null";
const RENEW: &str = "UPDATE kubist_epochs USING TTL 30 SET holder = ? WHERE store = ? AND writer = ? IF holder = ?";
const RELEASE: &str = "UPDATE kubist_epochs SET holder = null WHERE store = ? AND writer = ? IF holder = ?";
/// This timestamp is later than any transaction's, because no clock is trusted; ids of stores are never reused.
const DELETE: &str = "DELETE FROM kubist_epochs USING TIMESTAMP 9223372036854775806 WHERE store = ? AND writer = ?";

/// The lifetime of a holder without renewal; the statements have the same number.
pub use kubist_store::claims::LAPSE as HELD;

const AT_A_TIME: i32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    pub number: i64,
    /// `None` until it is decided, before which the epoch writes no entry.
    pub start: Option<u64>,
    nonce: Option<Uuid>,
}

/// The epochs that affect positions at or after a given one, newest first.
#[derive(Clone, Debug, Default)]
pub struct Epochs(pub Vec<Epoch>);

impl Epochs {
    /// Reads the epochs from the newest back to the epoch of `from`.
    pub async fn read(link: &Link, store: Uuid, writer: &str, from: u64) -> Result<Epochs> {
        let mut found = Vec::new();
        type Row = (Option<i64>, Option<i64>, Option<Uuid>);
        link.scan(LIST, &(store, writer), Agreed::Enough, Some(AT_A_TIME), |(number, start, nonce): Row| {
            // A row without an epoch contains only a holder.
            if let Some(number) = number {
                found.push(Epoch { number, start: start.map(|start| start as u64), nonce });
            }
            found.last().is_none_or(|epoch| epoch.start.is_none_or(|start| start > from))
        })
        .await?;
        Ok(Epochs(found))
    }

    pub fn newest(&self) -> Option<&Epoch> {
        self.0.first()
    }

    pub fn of(&self, position: u64) -> Option<i64> {
        let own = self.0.iter().find(|epoch| epoch.start.is_some_and(|start| start <= position));
        own.map(|epoch| epoch.number)
    }
}

pub async fn newest(link: &Link, store: Uuid, writer: &str) -> Result<Option<i64>> {
    let found: Option<(Option<i64>,)> = link.first(NEWEST, &(store, writer), Agreed::Enough).await?;
    Ok(found.and_then(|(number,)| number))
}

/// Begins an epoch, after which no append of an older epoch is acknowledged. Returns `false` if another owner has begun
/// this epoch.
pub async fn begin(link: &Link, store: Uuid, writer: &str, number: i64) -> Result<bool> {
    let nonce = Uuid::new_v4();
    Ok(link.decide(NEXT, &(store, writer, number, nonce)).await?.won(nonce))
}

pub async fn decide_start(link: &Link, store: Uuid, writer: &str, number: i64, start: u64) -> Result<()> {
    link.decide(START, &(start as i64, store, writer, number)).await.map(drop)
}

pub async fn hold(link: &Link, store: Uuid, writer: &str, me: &Holder) -> Result<()> {
    let mut decision = link.decide(HOLD, &(me.text(), store, writer)).await?;
    loop {
        let Some(other) = decision.text("holder").map(str::to_owned) else { return Ok(()) };
        if decision.applied || other == me.text() {
            return Ok(());
        }
        if life(&other) != Life::Ended {
            return Err(Error::Busy { writer: writer.into(), file: format!("{}/logs/{writer}", link.location) });
        }
        decision = link.decide(RENEW, &(me.text(), store, writer, &other)).await?;
        if !decision.applied && decision.text("holder").is_none() {
            decision = link.decide(HOLD, &(me.text(), store, writer)).await?;
        }
    }
}

pub async fn renew(link: &Link, store: Uuid, writer: &str, me: &Holder) -> Result<()> {
    let decision = link.decide(RENEW, &(me.text(), store, writer, me.text())).await?;
    if !decision.applied && decision.text("holder").is_none() {
        link.decide(HOLD, &(me.text(), store, writer)).await?;
    }
    Ok(())
}

pub async fn release(link: &Link, store: Uuid, writer: &str, me: &Holder) -> Result<()> {
    link.decide(RELEASE, &(store, writer, me.text())).await.map(drop)
}

pub async fn delete(link: &Link, store: Uuid, writer: &str) -> Result<()> {
    link.run(DELETE, &(store, writer)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_belongs_to_the_last_epoch_that_starts_before_it() {
        let epoch = |number, start| Epoch { number, start, nonce: None };
        let epochs =
            Epochs(vec![epoch(5, None), epoch(4, Some(30)), epoch(3, Some(30)), epoch(2, Some(7)), epoch(1, Some(0))]);
        let of = |position| epochs.of(position).unwrap();
        assert_eq!([of(0), of(6), of(7), of(29), of(30), of(31)], [1, 1, 2, 2, 4, 4]);
        assert_eq!(Epochs::default().of(0), None);
    }
}
