//! Claims on logs ([`kubist_store::claims`]): objects `claims/WRITER/NUMBER`. The highest number counts.
//!
//! A holder puts an object with its name, and renews the claim by an object with the next number. Another process waits
//! until it has seen no new number for 30 seconds by its own clock, and then puts the next number itself. If both put
//! it, the later one finds the number taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kubist_store::claims::{Holder, LAPSE, Life, RENEWAL, life, this_process};
use kubist_store::{Error, Result};
use tokio::task::AbortHandle;

use crate::client::Link;
use crate::frame::Kind;

pub const FOLDER: &str = "claims";
const LOOK: Duration = Duration::from_secs(1);
/// After this time limit for its release, the claim lapses by itself.
const GIVING_BACK: Duration = Duration::from_secs(3);
/// Limit of attempts, because a claim may be renewed between each listing and the read.
const MOST_LOOKS: usize = 20;

fn folder(writer: &str) -> String {
    format!("{FOLDER}/{writer}")
}

fn key(writer: &str, number: u64) -> String {
    format!("{FOLDER}/{writer}/{number:020}")
}

struct Newest {
    number: u64,
    /// `None` if the claim was released.
    holder: Option<String>,
    /// A number in the log that is known to be taken.
    hint: u64,
}

fn said(hint: u64, holder: &str) -> Vec<u8> {
    [&hint.to_le_bytes()[..], holder.as_bytes()].concat()
}

/// An observation of a claim: its number, its holder, and when it was first seen and last checked.
#[derive(Debug, Clone)]
struct Seen {
    number: u64,
    holder: String,
    since: Instant,
    looked: Instant,
    renewed: bool,
}

#[derive(Debug, Default)]
pub struct Claims(Mutex<HashMap<String, Seen>>);

/// A claim that this process holds until it is dropped.
pub struct Claim {
    link: Link,
    writer: String,
    me: Holder,
    number: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    hint: Arc<AtomicU64>,
    renewal: AbortHandle,
    ended: bool,
}

impl Claims {
    /// Takes the claim on a log. With `waits`, it waits to find out whether a holder on another machine renews its
    /// claim.
    pub async fn hold(&self, link: &Link, writer: &str, waits: bool) -> Result<Claim> {
        let me = Holder::new(&this_process());
        let (number, hint) = self.next(link, writer, &me, waits).await.inspect_err(|_| me.end())?;
        let number = Arc::new(AtomicU64::new(number));
        let hint = Arc::new(AtomicU64::new(hint));
        let lost = Arc::new(AtomicBool::new(false));
        let renewal = {
            let (link, writer, me) = (link.clone(), writer.to_owned(), me.clone());
            let (number, hint, lost) = (number.clone(), hint.clone(), lost.clone());
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RENEWAL).await;
                    if lost.load(Ordering::Relaxed) || link.has_ended() {
                        return;
                    }
                    let next = number.load(Ordering::Relaxed) + 1;
                    let payload = said(hint.load(Ordering::Relaxed), me.text());
                    // A failure is retried at the next renewal.
                    match link.put_once(&key(&writer, next), Kind::Held, &payload).await {
                        Ok(true) => {
                            number.store(next, Ordering::Relaxed);
                            let _ = link.delete(&key(&writer, next - 1)).await;
                        }
                        Ok(false) => lost.store(true, Ordering::Relaxed),
                        Err(_) => {}
                    }
                }
            })
            .abort_handle()
        };
        Ok(Claim { link: link.clone(), writer: writer.to_owned(), me, number, lost, hint, renewal, ended: false })
    }

    async fn next(&self, link: &Link, writer: &str, me: &Holder, waits: bool) -> Result<(u64, u64)> {
        loop {
            let found = newest(link, writer).await?;
            if let Some(Newest { number, holder: Some(holder), .. }) = &found {
                match life(holder) {
                    Life::Alive => return Err(busy(link, writer)),
                    Life::Unknown if !self.has_lapsed(link, writer, *number, holder)? => {
                        if !waits {
                            return Err(busy(link, writer));
                        }
                        tokio::time::sleep(LOOK).await;
                        continue;
                    }
                    Life::Ended | Life::Unknown => {}
                }
            }
            let (number, hint) = found.map_or((0, 0), |found| (found.number + 1, found.hint));
            if link.put_once(&key(writer, number), Kind::Held, &said(hint, me.text())).await? {
                if let Some(before) = number.checked_sub(1) {
                    let _ = link.delete(&key(writer, before)).await;
                }
                return Ok((number, hint));
            }
        }
    }

    /// Returns `Busy` if the holder, on another machine, has renewed its claim.
    fn has_lapsed(&self, link: &Link, writer: &str, number: u64, holder: &str) -> Result<bool> {
        let now = Instant::now();
        let mut others = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An old observation does not prove that the holder is alive.
        let before = others.remove(writer).filter(|seen| seen.holder == holder && now - seen.looked < LAPSE);
        let seen = match before {
            Some(seen) if seen.number == number => Seen { looked: now, ..seen },
            before => Seen { number, holder: holder.into(), since: now, looked: now, renewed: before.is_some() },
        };
        let (lapsed, renewed) = (now - seen.since >= LAPSE, seen.renewed);
        others.insert(writer.to_owned(), seen);
        match renewed && !lapsed {
            true => Err(busy(link, writer)),
            false => Ok(lapsed),
        }
    }
}

fn busy(link: &Link, writer: &str) -> Error {
    Error::Busy { writer: writer.into(), file: link.file(&folder(writer)) }
}

/// The newest of a few claims, because each claim deletes the earlier ones.
async fn newest(link: &Link, writer: &str) -> Result<Option<Newest>> {
    for _ in 0..MOST_LOOKS {
        let listed = link.list(&folder(writer), None, usize::MAX).await?;
        let numbers = listed.iter().filter_map(|(key, _)| key.rsplit('/').next()?.parse::<u64>().ok());
        let Some(number) = numbers.max() else { return Ok(None) };
        // If the claim is missing, it was renewed after the listing.
        let Some(found) = link.get(&key(writer, number)).await? else { continue };
        let text = |at: usize| found.payload.get(at..).map(|text| String::from_utf8_lossy(text).into_owned());
        let hint = found.payload.get(..8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes);
        let holder = text(8).filter(|_| found.kind == Kind::Held);
        return Ok(Some(Newest { number, holder, hint }));
    }
    Err(busy(link, writer))
}

impl Claim {
    pub fn hint(&self) -> u64 {
        self.hint.load(Ordering::Relaxed)
    }

    pub fn set_hint(&self, number: u64) {
        self.hint.store(number, Ordering::Relaxed);
    }

    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Releases the claim, which lapses if this fails.
    pub async fn end(mut self) {
        self.ended = true;
        self.give_back().await;
    }

    async fn give_back(&self) {
        self.renewal.abort();
        self.me.end();
        // A service that does not respond must not delay the end for long.
        let _ = tokio::time::timeout(GIVING_BACK, self.put_free()).await;
    }

    async fn put_free(&self) {
        let next = self.number.load(Ordering::Relaxed) + 1;
        let payload = said(self.hint(), "");
        if !self.is_lost()
            && !self.link.has_ended()
            && self.link.put_once(&key(&self.writer, next), Kind::Free, &payload).await.is_ok_and(|won| won)
        {
            let _ = self.link.delete(&key(&self.writer, next - 1)).await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.ended && self.link.is_this_process() {
            let _ = self.link.wait(async {
                self.give_back().await;
                Ok(())
            });
        }
    }
}
