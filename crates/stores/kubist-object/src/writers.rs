//! The writers that have a log: `writers/NUMBER`, each with a name.
//!
//! A reader that knows the first numbers requests the next number, and lists nothing. It also requests the last number
//! that it knows: if this object is gone or differs, the store was dropped and perhaps created again.

use std::sync::{Mutex, PoisonError};

use futures_util::future::{join_all, try_join};
use kubist_store::{Error, Result};
use uuid::Uuid;

use crate::client::Link;
use crate::frame::{Framed, Kind};

pub const FOLDER: &str = "writers";
/// How many numbers a new reader requests together at first, and at most.
const AT_FIRST: usize = 4;
const AHEAD: usize = 64;

#[derive(Debug, Default)]
pub struct Writers(Mutex<Vec<(Uuid, String)>>);

fn key(number: usize) -> String {
    format!("{FOLDER}/{number:020}")
}

impl Writers {
    fn known(&self) -> Vec<(Uuid, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub async fn names(&self, link: &Link) -> Result<Vec<String>> {
        let mut known = self.known();
        if let Some((mark, _)) = known.last() {
            let last = known.len() - 1;
            let (still, next) = try_join(get(link, last), get(link, last + 1)).await?;
            match still {
                Some(still) if still.mark == *mark => match next {
                    Some(next) => known.push(next.named(link, last + 1)?),
                    None => return Ok(known.into_iter().map(|(_, name)| name).collect()),
                },
                _ => known.clear(),
            }
        }
        let mut at_once = AT_FIRST;
        'more: loop {
            let begin = known.len();
            for (number, found) in (begin..).zip(join_all((begin..begin + at_once).map(|at| get(link, at))).await) {
                match found? {
                    Some(found) => known.push(found.named(link, number)?),
                    None => break 'more,
                }
            }
            at_once = (2 * at_once).min(AHEAD);
        }
        let names = known.iter().map(|(_, name)| name.clone()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(names)
    }

    pub async fn add(&self, link: &Link, writer: &str) -> Result<()> {
        loop {
            let names = self.names(link).await?;
            if names.iter().any(|name| name == writer)
                || link.put_once(&key(names.len()), Kind::Name, writer.as_bytes()).await?
            {
                return Ok(());
            }
        }
    }
}

async fn get(link: &Link, number: usize) -> Result<Option<Framed>> {
    link.get(&key(number)).await
}

impl Framed {
    fn named(self, link: &Link, number: usize) -> Result<(Uuid, String)> {
        let name = String::from_utf8(self.payload.to_vec()).ok().filter(|_| self.kind == Kind::Name);
        let name = name.ok_or_else(|| Error::Damaged {
            file: link.file(&key(number)),
            offset: 33,
            what: "it is not a writer's name".into(),
        })?;
        Ok((self.mark, name))
    }
}
