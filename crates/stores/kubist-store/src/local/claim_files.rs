//! The claim on a log of a shared store ([`claims`](crate::claims)), in numbered files. The highest number counts.
//!
//! A holder writes a file with its name, and renews the claim by a file with the next number. Another process that
//! wants the log waits until it has seen no new number for [`LAPSE`] by its own clock, and then writes the next number
//! itself. If both write, the later one finds the number taken, even if listings and names are stale.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::claims::{Holder, LAPSE, Life, RENEWAL};
use crate::format::RecordType;
use crate::{Error, Result};

use super::directory::StoreDirectory;
use super::numbered::{self, CLAIMS};

const KEPT: u64 = 8;
const CLAIM_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Claim {
    directory: Arc<StoreDirectory>,
    writer: String,
    me: Holder,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    number: u64,
    renewed: Duration,
    lost: bool,
}

/// An observation of another holder's number: when it was first seen and last checked, and whether it was renewed.
#[derive(Debug, Clone)]
struct Seen {
    number: u64,
    holder: String,
    since: Duration,
    looked: Duration,
    renewed: bool,
}

#[derive(Debug, Default)]
pub struct Claims {
    others: Mutex<HashMap<String, Seen>>,
    renewal: Mutex<Weak<Renewal>>,
}

impl Claims {
    /// Takes the claim on a log. With `waits`, it waits to find out whether a holder on another machine renews its
    /// claim.
    pub fn hold(&self, directory: &Arc<StoreDirectory>, writer: &str, waits: bool) -> Result<Claim> {
        let me = Holder::new(&directory.disk.holder());
        let number = self.next(directory, writer, &me, waits).inspect_err(|_| me.end())?;
        let state = Mutex::new(State { number, renewed: directory.disk.clock(), lost: false });
        Ok(Claim { directory: directory.clone(), writer: writer.to_owned(), me, state })
    }

    /// Renews a claim in a background thread, if the disk allows threads.
    pub fn keep(&self, claim: &Arc<Claim>) -> Option<Arc<Renewal>> {
        if !claim.directory.disk.has_threads() {
            return None;
        }
        let mut kept = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        let renewal = kept.upgrade().unwrap_or_else(|| {
            let renewal = Arc::new(Renewal::default());
            let shared = renewal.shared.clone();
            // Without a thread, each append renews a due claim.
            let thread = std::thread::Builder::new().name("kubist-claims".into());
            let _ = thread.spawn(move || renew_all(&shared));
            *kept = Arc::downgrade(&renewal);
            renewal
        });
        renewal.shared.lock().claims.push(Arc::downgrade(claim));
        Some(renewal)
    }

    fn next(&self, directory: &StoreDirectory, writer: &str, me: &Holder, waits: bool) -> Result<u64> {
        let folder = numbered::folder(writer, CLAIMS);
        loop {
            let (number, holder) = newest(directory, writer, &folder, waits)?;
            if let Some(holder) = holder {
                match directory.disk.life(&holder) {
                    Life::Alive => return Err(busy(directory, writer)),
                    Life::Unknown if !self.has_lapsed(directory, writer, number.unwrap_or(0), holder)? => {
                        if !waits {
                            return Err(busy(directory, writer));
                        }
                        directory.pause(CLAIM_CHECK_INTERVAL)?;
                        continue;
                    }
                    Life::Ended | Life::Unknown => {}
                }
            }
            let next = number.map_or(0, |number| number + 1);
            if numbered::put(directory, &folder, next, RecordType::Held, me.text().as_bytes())? {
                return Ok(next);
            }
        }
    }

    /// Returns `Busy` if the holder, on another machine, has renewed its claim.
    fn has_lapsed(&self, directory: &StoreDirectory, writer: &str, number: u64, holder: String) -> Result<bool> {
        let now = directory.disk.clock();
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let before = others.remove(writer);
        // An old observation does not prove that the holder is alive.
        let before = before.filter(|seen| seen.holder == holder && now.saturating_sub(seen.looked) < LAPSE);
        let seen = match before {
            Some(seen) if seen.number == number => Seen { looked: now, ..seen },
            before => Seen { number, holder, since: now, looked: now, renewed: before.is_some() },
        };
        let (lapsed, renewed) = (now.saturating_sub(seen.since) >= LAPSE, seen.renewed);
        others.insert(writer.to_owned(), seen);
        match renewed && !lapsed {
            true => Err(busy(directory, writer)),
            false => Ok(lapsed),
        }
    }
}

/// The newest number and its holder. If the listing is too old, because its last number was deleted, the result is
/// `Busy` unless `waits`.
fn newest(
    directory: &StoreDirectory,
    writer: &str,
    folder: &str,
    waits: bool,
) -> Result<(Option<u64>, Option<String>)> {
    let mut attempt = 0;
    loop {
        let listed = numbered::listed(directory, folder)?.pop();
        let mut found = (None, None);
        for number in listed.unwrap_or(0).. {
            let Some((record_type, payload)) = numbered::get(directory, folder, number)? else { break };
            let holder = (record_type == RecordType::Held).then(|| String::from_utf8_lossy(&payload).into_owned());
            found = (Some(number), holder);
        }
        if listed.is_none() || found.0.is_some() {
            return Ok(found);
        }
        if attempt == 0 {
            directory.learn();
        }
        if !waits || !directory.look_again(attempt)? {
            return Err(busy(directory, writer));
        }
        attempt += 1;
    }
}

fn busy(directory: &StoreDirectory, writer: &str) -> Error {
    Error::Busy { writer: writer.into(), file: format!("{}/{}", directory.location, numbered::folder(writer, "")) }
}

impl Claim {
    /// Renews the claim if it is due, and returns an error if the claim was lost.
    pub fn check(&self) -> Result<()> {
        // Errors are ignored: the fence decides, and the next call tries again.
        let _ = self.renew();
        match self.state().lost {
            false => Ok(()),
            true => Err(self.refused()),
        }
    }

    fn renew(&self) -> Result<()> {
        let (number, renewed, lost) = {
            let state = self.state();
            (state.number, state.renewed, state.lost)
        };
        let now = self.directory.disk.clock();
        if lost || now.saturating_sub(renewed) < RENEWAL {
            return Ok(());
        }
        let folder = numbered::folder(&self.writer, CLAIMS);
        let won = numbered::put(&self.directory, &folder, number + 1, RecordType::Held, self.me.text().as_bytes())?;
        let mut state = self.state();
        // The number may be from another thread of this process.
        let own = won || holds(&self.directory, &folder, number + 1, self.me.text())?;
        match own {
            true if state.number <= number => (state.number, state.renewed) = (number + 1, now),
            true => {}
            false => state.lost = true,
        }
        drop(state);
        if let Some(old) = (number + 1).checked_sub(KEPT) {
            numbered::forget(&self.directory, &folder, old);
        }
        Ok(())
    }

    pub fn refused(&self) -> Error {
        let file = format!("{}/{}", self.directory.location, numbered::folder(&self.writer, ""));
        Error::Refused { file, cause: "another owner has taken the log".into() }
    }

    /// Releases the claim, which lapses if this fails.
    pub fn give_back(&self) {
        let mut state = self.state();
        if !state.lost {
            let folder = numbered::folder(&self.writer, CLAIMS);
            let _ = numbered::put(&self.directory, &folder, state.number + 1, RecordType::Free, b"");
            if let Some(old) = (state.number + 1).checked_sub(KEPT) {
                numbered::forget(&self.directory, &folder, old);
            }
        }
        state.lost = true;
        self.me.end();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn holds(directory: &StoreDirectory, folder: &str, number: u64, holder: &str) -> Result<bool> {
    let found = numbered::get(directory, folder, number)?;
    Ok(found.is_some_and(|(record_type, payload)| record_type == RecordType::Held && payload == holder))
}

/// The thread that renews the claims of a handle ends with the last claim.
#[derive(Debug, Default)]
pub struct Renewal {
    shared: Arc<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    state: Mutex<KeptState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct KeptState {
    claims: Vec<Weak<Claim>>,
    over: bool,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.ended.notify_all();
    }
}

fn renew_all(kept: &Kept) {
    loop {
        let claims: Vec<Arc<Claim>> = {
            let state = kept.lock();
            // Wakes up often, because each claim is due at its own time.
            let (mut state, _) = kept.ended.wait_timeout(state, RENEWAL / 4).unwrap_or_else(PoisonError::into_inner);
            if state.over {
                return;
            }
            state.claims.retain(|claim| claim.strong_count() > 0);
            state.claims.iter().filter_map(Weak::upgrade).collect()
        };
        for claim in claims {
            let _ = claim.renew();
        }
    }
}
