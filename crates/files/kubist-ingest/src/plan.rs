//! The plan of an ingestion: a dry run.

use arrow_schema::{DataType, Field, TimeUnit};

use crate::error::{Error, Result};
use crate::ingestion::Ingestion;
use crate::report::Plan;
use crate::request::Request;
use crate::source::{Host, IngestedSteps};
use crate::{table, union};

/// A dry run of [`ingest`](crate::ingest), which writes nothing.
///
/// # Errors
///
/// A file cannot be read, or does not fit the other files or the table.
pub fn plan(request: &Request, host: &mut dyn Host) -> Result<Plan> {
    let mut ingestion = Ingestion::new(request, host);
    let mut sources = ingestion.look()?;
    let Some(first) = sources.first().map(|source| source.facts().clone()) else {
        let mut failed = ingestion.report.failed.0.into_iter().map(|(_, message)| message);
        return Err(Error::Invalid(failed.next().unwrap_or_default()));
    };
    let table = table::existing(request)?;
    let schema = union::schema(&sources, request)?;
    let (dimensions, identity, lookup) = match &table {
        None => table::index(request, &sources, &schema),
        Some(table) => {
            table::agrees(request, &sources, table)?;
            let about = table.snapshot()?.about()?;
            (about.dimensions.into_iter().map(|dimension| dimension.column).collect(), about.identity, about.lookup)
        }
    };
    let snapshot = table.filter(|_| !request.again).map(|table| table.snapshot()).transpose()?;
    let (mut steps, mut known) = (0, 0);
    for source in &mut sources {
        let of_file = IngestedSteps::new(source.key()?, snapshot.clone());
        source.start(&of_file)?;
        while let Some(step) = source.next_step()? {
            steps += 1;
            known += u64::from(of_file.rows(&step.label).is_some());
        }
    }
    let times = sources.iter().flat_map(|source| &source.facts().times).copied();
    let times = times.fold(None, |ends, time| match ends {
        None => Some((time, time)),
        Some((low, high)) => Some((f64::min(low, time), f64::max(high, time))),
    });
    let column = |field: &std::sync::Arc<Field>| {
        (field.name().clone(), arrow_name(field.data_type()), table::unit(field).map(str::to_owned))
    };
    Ok(Plan {
        format: first.format,
        files: sources.iter().map(|source| source.facts().path.display().to_string()).collect(),
        columns: schema.fields().iter().map(column).collect(),
        dimensions,
        identity,
        lookup,
        steps,
        known,
        rows: sources.iter().map(|source| source.facts().rows).sum(),
        times,
        metadata: first.metadata,
        notes: table::notes(&sources, &schema),
        left_out: ingestion.report.left_out,
    })
}

/// The type's name in Arrow's Python library.
fn arrow_name(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Float16 => "halffloat".to_owned(),
        Float32 => "float".to_owned(),
        Float64 => "double".to_owned(),
        Utf8 => "string".to_owned(),
        LargeUtf8 => "large_string".to_owned(),
        Boolean => "bool".to_owned(),
        Date32 => "date32[day]".to_owned(),
        Date64 => "date64[ms]".to_owned(),
        Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        Timestamp(unit, Some(zone)) => format!("timestamp[{}, tz={zone}]", unit_name(*unit)),
        Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        Time32(unit) => format!("time32[{}]", unit_name(*unit)),
        Time64(unit) => format!("time64[{}]", unit_name(*unit)),
        Dictionary(keys, values) => {
            format!("dictionary<values={}, indices={}, ordered=0>", arrow_name(values), arrow_name(keys))
        }
        other => other.to_string().to_lowercase(),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
