//! Entry points of the fuzz targets in `fuzz/`; not part of the interface.

use kubist::Cancel;

use crate::ask::{self, Nothing};

pub fn body(bytes: &[u8]) {
    if let Ok((region, Nothing {})) = ask::parse(bytes) {
        region.request(&Cancel::default());
    }
    drop(ask::parse::<ask::Records>(bytes));
    drop(ask::parse::<ask::Paths>(bytes));
    drop(ask::parse::<ask::Points>(bytes));
    drop(ask::parse::<ask::Histograms>(bytes));
    drop(ask::parse::<ask::Estimates>(bytes));
}
