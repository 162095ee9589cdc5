//! Column values in the blocks of a task, each read once.

use std::collections::{HashMap, HashSet};

use arrow_array::{ArrayRef, UInt64Array};
use arrow_select::take::take;
use kubist_types::{Error, Result};

use super::Execution;
use crate::fetch::Fetched;
use crate::files::Member;
use crate::grid::{Column, Grid};
use crate::shape::Rect;

pub(super) struct Values<'a> {
    execution: &'a Execution<'a>,
    member: &'a Member,
    pub grid: &'a Grid,
    continues: bool,
    fetched: HashMap<usize, Vec<(HashSet<Rect>, Fetched<'a>)>>,
    held: HashMap<usize, ArrayRef>,
}

impl<'a> Values<'a> {
    pub fn new(execution: &'a Execution<'a>, member: &'a Member, grid: &'a Grid, continues: bool) -> Values<'a> {
        Values { execution, member, grid, continues, fetched: HashMap::new(), held: HashMap::new() }
    }

    pub fn fetch(&mut self, columns: &[usize], rects: &[Rect]) -> Result<()> {
        if rects.is_empty() {
            return Ok(());
        }
        let execution = self.execution;
        for column in columns {
            let Column::Variable { variable, axes } = &self.grid.columns[*column] else { continue };
            if self.held.contains_key(variable) {
                continue;
            }
            if axes.len() < self.grid.dimensions.len()
                && let Some(array) = self.member.held(*variable, &execution.reads, execution.cancel)?
            {
                self.held.insert(*variable, array);
                continue;
            }
            let there = self.fetched.entry(*variable).or_default();
            let projected = rects.iter().map(|rect| rect.project(axes));
            let wanted: HashSet<Rect> =
                projected.filter(|rect| !there.iter().any(|(have, _)| have.contains(rect))).collect();
            if wanted.is_empty() {
                continue;
            }
            let source = self.member.source()?;
            let of = &source.layout.variables[*variable];
            let continues = self.continues && *variable == self.grid.driver && there.is_empty();
            let gap = execution.gap(0);
            let fetched = source.fetch(
                of,
                &wanted.iter().cloned().collect::<Vec<_>>(),
                gap,
                continues,
                &execution.reads,
                execution.cancel,
            )?;
            there.push((wanted, fetched));
        }
        Ok(())
    }

    pub fn at(&self, column: usize, rect: &Rect, places: &[u32]) -> Result<ArrayRef> {
        let (variable, axes) = match &self.grid.columns[column] {
            Column::Index { axis } => return Ok(Grid::index(rect, *axis, places)),
            Column::Variable { variable, axes } => (*variable, axes),
        };
        if let Some(held) = self.held.get(&variable) {
            let whole = self.member.layout().shape(&self.member.layout().variables[variable]);
            let places = UInt64Array::from(Grid::projected(rect, axes, Some(&whole), places));
            return take(held, &places, None).map_err(Error::kernel);
        }
        let part = rect.project(axes);
        let there = self.fetched.get(&variable).into_iter().flatten().find(|(have, _)| have.contains(&part));
        let (_, fetched) = there.ok_or_else(|| Error::internal("values of a block were not read"))?;
        match (axes.len() == rect.count.len(), places.len() as u64 == rect.len()) {
            (true, true) => fetched.array(&part),
            (true, false) => fetched.at(&part, places),
            (false, _) => {
                let places = UInt64Array::from(Grid::projected(rect, axes, None, places));
                take(&fetched.array(&part)?, &places, None).map_err(Error::kernel)
            }
        }
    }
}
