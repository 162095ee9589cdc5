//! Sets of HEALPix cells of several orders (IVOA, "MOC: Multi-Order Coverage map", 2.0).

use crate::healpix::{self, DEEPEST, touches};
use crate::numbers::shortened;
use crate::{Containment, Point};

const MOST_RANGES: usize = 1 << 20;
const MOST_CELLS: u32 = 256;

#[derive(Clone, Debug)]
pub struct Moc {
    /// Sorted ranges of cells of the deepest order, which do not touch.
    ranges: Vec<(u64, u64)>,
    /// The deepest order in the text.
    order: u32,
}

impl Moc {
    /// Reads orders with their cells: `5/8-10,42-46,48 6/4500`.
    ///
    /// # Errors
    ///
    /// A text that names the mistake.
    pub fn parse(text: &str) -> Result<Moc, String> {
        let (mut ranges, mut order, mut deepest) = (Vec::new(), None, 0);
        for word in text.split(|letter: char| letter == ',' || letter.is_whitespace()) {
            let cells = match word.split_once('/') {
                Some((of_order, cells)) => {
                    let found = of_order.parse().ok().filter(|order| *order <= DEEPEST);
                    order = Some(found.ok_or_else(|| {
                        format!("{:?} is no order of HEALPix: from 0 to {DEEPEST}", shortened(of_order))
                    })?);
                    cells
                }
                None => word,
            };
            if cells.is_empty() {
                continue;
            }
            let order = order.ok_or_else(|| "cells need an order, as in '5/8-10,42'".to_string())?;
            let (first, last) = cells.split_once('-').unwrap_or((cells, cells));
            let count = 12u64 << (2 * order);
            match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) if first <= last && last < count => {
                    let below = 2 * (DEEPEST - order);
                    ranges.push((first << below, ((last + 1) << below) - 1));
                }
                _ => {
                    return Err(format!(
                        "{:?} are no cells of order {order}: from 0 to {}",
                        shortened(cells),
                        count - 1
                    ));
                }
            }
            deepest = deepest.max(order);
            if ranges.len() > MOST_RANGES {
                return Err(format!("more than {MOST_RANGES} ranges of cells"));
            }
        }
        if ranges.is_empty() {
            return Err("there are no cells: write an order and cells, as in '5/8-10,42'".into());
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut().filter(|before| first <= before.1 + 1) {
                Some(before) => before.1 = before.1.max(last),
                None => merged.push((first, last)),
            }
        }
        Ok(Moc { ranges: merged, order: deepest })
    }

    pub fn size(&self) -> usize {
        self.ranges.len()
    }

    pub fn has(&self, position: Point) -> bool {
        let cell = healpix::cell(DEEPEST, position);
        self.ranges.get(self.from(cell)).is_some_and(|(first, _)| *first <= cell)
    }

    fn from(&self, cell: u64) -> usize {
        self.ranges.partition_point(|(_, last)| *last < cell)
    }

    pub fn containment(&self, low: Point, high: Point) -> Containment {
        let (mut inside, mut outside, mut left) = (false, false, MOST_CELLS);
        let mut stack: Vec<(u32, u64)> = (0..12).map(|cell| (0, cell)).collect();
        while let Some((order, cell)) = stack.pop() {
            if left == 0 || (inside && outside) {
                return Containment::Undecided;
            }
            left -= 1;
            if !touches(order, cell, low, high) {
                continue;
            }
            let below = 2 * (DEEPEST - order);
            let (first, last) = (cell << below, ((cell + 1) << below) - 1);
            match self.ranges.get(self.from(first)) {
                Some(range) if range.0 <= first && last <= range.1 => inside = true,
                Some(range) if range.0 <= last => match order < self.order {
                    true => stack.extend((4 * cell..4 * cell + 4).map(|cell| (order + 1, cell))),
                    false => return Containment::Undecided,
                },
                _ => outside = true,
            }
        }
        match (inside, outside) {
            (true, false) => Containment::Inside,
            (false, _) => Containment::Outside,
            (true, true) => Containment::Undecided,
        }
    }
}
