//! What to say of an empty answer: whether a range of the box holds no record at all, and where the
//! records of its column lie.

use std::time::Duration;

use kubist::{Bound, Cancel, EstimateOptions, QuerySpec, Result, RunOptions, Snapshot};

use crate::output::remark;

/// How long the extremes of a column are looked for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Remarks on each of these ranges that is beyond all records by itself.
pub fn tell(bounds: &[Bound], snapshot: &Snapshot, cancel: &Cancel) -> Result<()> {
    for bound in bounds {
        let alone = QuerySpec { bounds: vec![bound.clone()], limit: Some(1), ..QuerySpec::default() };
        let mut found = snapshot.query(RunOptions::with_cancel(cancel).of(alone))?;
        while found.next().transpose()?.is_some() {}
        if found.stats().rows_returned == 0 {
            let reach = reach(&bound.column, snapshot, cancel)?;
            remark(&format!("note: no record has {} in that range{reach}", bound.column));
        }
    }
    Ok(())
}

/// `: it runs from 180 to 360`; nothing of a column whose extremes no aggregate tells, or not in time.
fn reach(column: &str, snapshot: &Snapshot, cancel: &Cancel) -> Result<String> {
    let name = format!("\"{}\"", column.replace('"', "\"\""));
    let asked = EstimateOptions {
        aggregates: vec![format!("min({name})"), format!("max({name})")],
        within: Some(PATIENCE),
        run: RunOptions::with_cancel(cancel),
        ..EstimateOptions::default()
    };
    let Ok(estimate) = snapshot.estimate(&asked) else {
        cancel.check()?;
        return Ok(String::new());
    };
    match &estimate.figures[..] {
        [low, high] if low.exact && high.exact && low.value.is_some() => {
            let [low, high] = [low, high].map(|figure| estimate.in_words(figure));
            let plain = |text: &str| text.trim_end_matches(" exactly").to_owned();
            Ok(format!(": it runs from {} to {}", plain(&low), plain(&high)))
        }
        _ => Ok(String::new()),
    }
}
