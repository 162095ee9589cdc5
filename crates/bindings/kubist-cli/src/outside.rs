//! Explains an empty result: lists the ranges of the box that contain no row, with the bounds of their columns.

use std::time::Duration;

use kubist::{Bound, Cancel, EstimateOptions, Query, Result, RunOptions, Snapshot};

use crate::output::remark;

const PATIENCE: Duration = Duration::from_secs(2);

pub fn tell(bounds: &[Bound], snapshot: &Snapshot, cancel: &Cancel) -> Result<()> {
    for bound in bounds {
        let alone = Query { bounds: vec![bound.clone()], limit: Some(1), ..Query::default() };
        let mut found = snapshot.query(RunOptions::with_cancel(cancel).of(alone))?;
        while found.next().transpose()?.is_some() {}
        if found.stats().rows_returned == 0 {
            let reach = reach(&bound.column, snapshot, cancel)?;
            remark(&format!("note: no row has {} in this range{reach}", bound.column));
        }
    }
    Ok(())
}

/// `; its values are from 180 to 360`; empty without a minimum or time.
fn reach(column: &str, snapshot: &Snapshot, cancel: &Cancel) -> Result<String> {
    let name = format!("\"{}\"", column.replace('"', "\"\""));
    let asked = EstimateOptions {
        aggregates: vec![format!("min({name})"), format!("max({name})")],
        within: Some(PATIENCE),
        run: RunOptions::with_cancel(cancel),
        ..EstimateOptions::default()
    };
    let Ok(estimate) = snapshot.estimate(&asked, &mut |_| {}) else {
        cancel.check()?;
        return Ok(String::new());
    };
    match &estimate.figures[..] {
        [low, high] if low.exact && high.exact && low.value.is_some() => {
            let [low, high] = [low, high].map(|figure| estimate.in_words(figure));
            let plain = |text: &str| text.trim_end_matches(" exactly").to_owned();
            Ok(format!("; its values are from {} to {}", plain(&low), plain(&high)))
        }
        _ => Ok(String::new()),
    }
}
