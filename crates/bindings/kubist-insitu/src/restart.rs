//! Waits for a job's earlier writers when a simulation restarts from a checkpoint.
//!
//! Writers are `rank-0`, ... or `node-0`, .... With fewer writers or the other kind, the new job does not open
//! all old names, so a remaining old writer could still commit.

use kubist::Table;

use crate::failure::Result;
use crate::patience::Patience;

const KINDS: [&str; 2] = ["rank", "node"];

/// Waits until no job writer is active except the caller's own, `count` of `kind`.
///
/// # Errors
///
/// `Busy` names an active writer; `Cancelled`; a storage error.
pub fn await_other_writers(table: &Table, kind: &str, count: u64, patience: &Patience) -> Result<()> {
    for name in table.writer_names()? {
        if is_other(&name, kind, count) {
            let what = || format!("the end of the other writer {name:?}");
            patience.poll(&what, || Ok((!table.is_at_work(&name)?).then_some(())))?;
        }
    }
    Ok(())
}

fn is_other(name: &str, kind: &str, count: u64) -> bool {
    let Some((of_kind, number)) = name.rsplit_once('-') else { return false };
    let Ok(number) = number.parse::<u64>() else { return false };
    KINDS.contains(&of_kind) && (of_kind != kind || number >= count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_writers_of_jobs_alone() {
        let others = ["rank-0", "rank-1", "rank-2", "rank-10", "node-0", "rank-x", "writer-3", "rank"];
        let found: Vec<&str> = others.into_iter().filter(|name| is_other(name, "rank", 2)).collect();
        assert_eq!(found, ["rank-2", "rank-10", "node-0"]);
    }
}
