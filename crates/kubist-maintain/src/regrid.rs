//! A new grid for a table that has rows: other dimensions, other domains, other scales.
//!
//! The grid is published under the next number. From then on writers place rows by it, as
//! they come to know of it; the optimizer moves the rows that are there. Nothing waits for
//! either, and answers are the same at any moment (record 0039).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use kubist_catalog::core::Core;
use kubist_catalog::create::scale_of;
use kubist_catalog::segment::unix_ms;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::alteration::{GridDimension, NewGrid};
use kubist_types::{Cancel, Dimension, Domain, Error, Result};

use crate::learn::{ScaleKind, sample};

/// What a new grid is to be.
#[derive(Clone, Debug, Default)]
pub struct GridOptions {
    /// Its dimensions: any columns of the table that can be; `None`: those of the newest grid.
    pub dimensions: Option<Vec<String>>,
    /// Domains of some of them. The others are learned from a sample of all rows.
    pub domains: Vec<Dimension>,
    /// How learned domains are divided; `None`: as in the newest grid, new ones evenly.
    pub kind: Option<ScaleKind>,
    /// Stops it. What has moved by then stays where it is.
    pub cancel: Cancel,
}

/// Publishes the next grid of a table; its number.
///
/// # Errors
///
/// `Invalid` for a column that is none or cannot be a dimension, a domain that makes no sense,
/// or one that has to be learned from a table without rows; `Busy` if somebody else has
/// published a grid meanwhile.
pub fn publish(core: &Arc<Core>, options: &GridOptions, reason: &str) -> Result<u32> {
    let snapshot = Snapshot::now(core, &options.cancel)?;
    let grid = plan(&snapshot, options, reason)?;
    let number = grid.grid;
    match core.publish_next_grid(grid)? {
        true => Ok(number),
        false => {
            let place = core.store.location();
            Err(Error::Busy(format!("{place}: another grid was published meanwhile; look at it, and try again")))
        }
    }
}

fn plan(snapshot: &Snapshot, options: &GridOptions, reason: &str) -> Result<NewGrid> {
    let (core, schema) = (&snapshot.core, &snapshot.view.schema);
    let newest = schema.newest_grid();
    let same = || schema.dimensions.iter().map(|column| schema.user_field(*column).name().clone()).collect();
    let names: Vec<String> = options.dimensions.clone().unwrap_or_else(same);
    check_domains(&names, &options.domains)?;
    let frame = core.frame(schema, newest)?;
    let mut scales = Vec::new();
    for name in &names {
        let column = schema.column(name)?;
        let data_type = schema.stored.field(column).data_type();
        let given = options.domains.iter().find(|dimension| dimension.column == *name);
        scales.push(given.map(|given| scale_of(name, data_type, &given.domain)).transpose()?.flatten());
    }
    let open: Vec<usize> = (0..names.len()).filter(|d| scales[*d].is_none()).collect();
    if !open.is_empty() {
        let columns: Vec<String> = open.iter().map(|d| names[*d].clone()).collect();
        for (d, values) in open.into_iter().zip(sample(snapshot, columns, &options.cancel)?) {
            if values.is_empty() {
                let why = "the table has no values of it to learn one from";
                return Err(Error::invalid(format!("give a domain of {:?}: {why}", names[d])));
            }
            let column = schema.column(&names[d])?;
            let before = frame.as_ref().and_then(|frame| {
                let d = frame.dimensions.iter().position(|dimension| *dimension == column)?;
                Some(ScaleKind::of(&frame.scales[d]))
            });
            let given = options.domains.iter().find(|dimension| dimension.column == names[d]);
            let asked = given.filter(|given| given.domain == Domain::Quantile).map(|_| ScaleKind::Quantile);
            let kind = asked.or(options.kind).or(before).unwrap_or(ScaleKind::Linear);
            scales[d] = Some(kind.learn(&values));
        }
    }
    let dimensions = names.into_iter().zip(scales.into_iter().flatten());
    Ok(NewGrid {
        grid: newest + 1,
        dimensions: dimensions.map(|(column, scale)| GridDimension { column, scale }).collect(),
        reason: reason.into(),
        unix_ms: unix_ms(),
        token: format!("{:016x}", RandomState::new().hash_one(unix_ms())),
    })
}

/// Each domain is of a dimension, and given once.
pub fn check_domains(names: &[String], domains: &[Dimension]) -> Result<()> {
    for (place, Dimension { column, .. }) in domains.iter().enumerate() {
        if !names.contains(column) {
            return Err(Error::invalid(format!(
                "the domain of {column:?} is given, but the dimensions are {}",
                names.join(", ")
            )));
        }
        if domains[..place].iter().any(|earlier| earlier.column == *column) {
            return Err(Error::invalid(format!("the domain of {column:?} is given twice")));
        }
    }
    Ok(())
}
