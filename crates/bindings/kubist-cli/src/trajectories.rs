//! `kubist trajectories`: the complete trajectories that pass through a region.

use kubist::{Cancel, Query, RunOptions, Snapshot};

use crate::answer;
use crate::args;
use crate::failure::{Failure, Result};
use crate::outside;

pub fn run(command: &args::Trajectories, cancel: &Cancel) -> Result<()> {
    let snapshot = command.region.open(&command.table)?.snapshot()?;
    let by = match &command.by {
        Some(by) => by.clone(),
        None => only_column(&snapshot)?,
    };
    let run = RunOptions::with_cancel(cancel);
    let region = command.region.spec(&snapshot.schema())?;
    let records = run.clone().of(command.selection.of(Query { sample: region.sample, ..Query::default() }));
    let through = run.of(Query { sample: None, ..region });
    let bounds = through.spec.bounds.clone();
    let stats = answer::send(&command.output, records.spec.limit, snapshot.metadata(), cancel, || {
        snapshot.trajectories(&through, &by, &records)
    })?;
    if stats.rows_returned == 0 && !command.output.json {
        outside::tell(&bounds, &snapshot, cancel)?;
    }
    Ok(())
}

/// By default the identity, or else the indexed column, if it is a single one.
fn only_column(snapshot: &Snapshot) -> Result<String> {
    let info = snapshot.about()?;
    match (&info.identity[..], &info.lookup[..]) {
        ([only], _) | (_, [only]) => Ok(only.clone()),
        _ => Err(Failure::usage(format!(
            "--by: name the column that identifies trajectories; the table's identity is {}",
            match info.identity.is_empty() {
                true => "each row by itself".into(),
                false => info.identity.join(", "),
            }
        ))),
    }
}
