//! Exchange between two sites: first the numbers of lines that each has, then only the missing lines.

use kubist_types::{Error, Result};
use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::log;
use crate::objects::route;

/// The result of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exchanged {
    /// Operations that came from the other catalogue.
    pub came: u64,
    /// Operations that the other catalogue got.
    pub went: u64,
    /// Bytes of lines and checkpoints in both directions.
    pub bytes: u64,
}

/// Exchanges changes between two catalogues, in both directions. It can be stopped anywhere and repeated.
///
/// # Errors
///
/// `Refused` if two sites have the same name; `Damaged` names the object and line of the catalogue that has it; a
/// storage error. Lines that came before the error stay, and each is complete.
pub fn sync(own: &mut Catalogue, other: &mut Catalogue) -> Result<Exchanged> {
    own.refresh()?;
    other.refresh()?;
    let mut exchanged = Exchanged::default();
    // The first round brings changes, the second confirmations that they arrived.
    for round in 0..2 {
        let came = pull(own, other)?;
        let went = pull(other, own)?;
        exchanged.came += came.operations;
        exchanged.went += went.operations;
        exchanged.bytes += came.bytes + went.bytes;
        if round == 0 {
            for (of, pulled) in [(&mut *own, &came), (&mut *other, &went)] {
                if pulled.operations > 0 {
                    of.confirm()?;
                }
            }
        }
    }
    Ok(exchanged)
}

#[derive(Default)]
struct Pulled {
    operations: u64,
    bytes: u64,
}

fn pull(into: &mut Catalogue, from: &Catalogue) -> Result<Pulled> {
    let mut pulled = Pulled::default();
    let parts = from.objects.parts()?;
    for head in from.sites() {
        let site = head.site;
        let (mut have, theirs) = (into.head(&site), from.head(&site));
        if have.n == theirs.n && have != theirs {
            return Err(forked(&site, &from.location()));
        }
        if have.n >= theirs.n {
            continue;
        }
        let list = parts.get(&site).map_or(&[][..], Vec::as_slice);
        let before = have.ops;
        if route(list, have.n).1 < theirs.n {
            // Some lines were pruned there.
            let bytes = from.checkpoint_bytes()?;
            into.join_checkpoint(&format!("the checkpoint of {}", from.location()), &bytes)?;
            into.write_checkpoint()?;
            pulled.bytes += bytes.len() as u64;
            pulled.operations += into.head(&site).ops - before;
            continue;
        }
        let first = have.n + 1;
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for part in route(list, have.n).0 {
            let object = from.objects.shown(&part.object);
            let bytes = from.objects.get(&part.object)?;
            let bytes = bytes.ok_or_else(|| Error::Busy(format!("{object} was just packed; sync again")))?;
            for (index, (line, text)) in
                log::decode(&object, &site, &bytes, *part.lines.start())?.into_iter().enumerate()
            {
                if line.n == have.n && log::hash(text) != have.hash {
                    return Err(forked(&site, &from.location()));
                }
                if line.n <= have.n || line.n > theirs.n {
                    continue;
                }
                if line.prev != have.hash || line.before != have.ops {
                    return Err(match line.n == first {
                        true => forked(&site, &from.location()),
                        false => log::damaged(&object, index as u64 + 1, 0, "it does not follow the line before it"),
                    });
                }
                have = have.after(&line, text);
                pulled.bytes += text.len() as u64 + 1;
                lines.push(text.to_vec());
            }
        }
        pulled.operations += have.ops - before;
        into.objects.put_packs(&site, first, &lines)?;
        let parts = into.refresh()?;
        into.tidy(&site, &parts)?;
    }
    Ok(pulled)
}

pub(crate) fn forked(site: &str, location: &str) -> Error {
    Error::Refused(format!(
        "two sites are named `{site}`: the log of `{site}` in {location} differs from the one here; nothing was taken \
         from it. Either two catalogues were made with this name, or the directory of one was copied and both were \
         changed: make a new catalogue with another --site, sync it with one of the two, and add the entries of the other"
    ))
}
