//! `kubist clone` and `kubist deepen`: partial copies of a table.

use kubist::{Cancel, Location, Query, Table};
use kubist_sync::Cloned;

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::location;
use crate::output::{print_json, remark};
use crate::parse;
use crate::progress::Progress;

pub fn clone(command: &args::CloneTable, cancel: &Cancel) -> Result<()> {
    let query = query(&command.part, &command.table, cancel)?;
    let cloned = with_progress(|tell| kubist_sync::clone(&command.table, &command.copy, &query, cancel, tell))?;
    show(&command.part, &cloned)
}

pub fn deepen(command: &args::Deepen, cancel: &Cancel) -> Result<()> {
    let query = query(&command.part, &command.copy, cancel)?;
    let wanted = (query != Query::default()).then_some(&query);
    let cloned = with_progress(|tell| kubist_sync::deepen(&command.copy, wanted, cancel, tell))?;
    show(&command.part, &cloned)
}

fn query(part: &args::Part, table: &location::Location, cancel: &Cancel) -> Result<Query> {
    let schema = Table::open(Location::from(table).cancelled_by(cancel))?.schema()?;
    let bounds = parse::bounds(&part.ranges, &schema)?;
    let columns = part.columns.clone().map(|columns| columns.0);
    Ok(Query { bounds, sample: part.sample, columns, ..Query::default() })
}

fn with_progress(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> kubist::Result<Cloned>) -> Result<Cloned> {
    let mut progress = Progress::new();
    Ok(work(&mut |done, all| {
        progress.show(done, all, |_| format!("{} of {} runs", human::count(done), human::count(all)));
    })?)
}

fn show(part: &args::Part, cloned: &Cloned) -> Result<()> {
    if part.json {
        return print_json(cloned);
    }
    remark(&format!(
        "{}: {} fetched from {} in {}; the copy has {} of {}",
        cloned.location,
        human::bytes(cloned.fetched),
        cloned.source,
        human::duration(cloned.seconds),
        human::bytes(cloned.bytes),
        human::bytes(cloned.source_bytes)
    ));
    Ok(())
}
