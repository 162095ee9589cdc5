//! Computes figures and warnings from accumulators.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{Field, Schema};
use kubist_index::order;

use super::{EstimateQuery, Facts, Sample};
use crate::accumulate::{Accumulated, Group, NamedAggregate};
use crate::auxiliary::Expected;
use crate::distribution::{missed_group, normal, unseen_share};
use crate::figure::{Estimate, Figure, Stop};
use crate::interval::{Conditions, Frame, Interval};
use crate::own::{self, ExactInterval};
use crate::sums::Sums;
use crate::zones::{self, Extreme, ExtremumTarget};
use kubist_population::{Number, Population};
use kubist_types::error::{Error, Result};
use kubist_types::human::counted;
use kubist_types::stats::Stats;

#[derive(Clone, Copy, PartialEq)]
enum Basis {
    Expected,
    Drawn,
}

impl Basis {
    fn of(self, expected: &Option<Expected>) -> Option<&Expected> {
        expected.as_ref().filter(|_| self == Basis::Expected)
    }
}

/// The number of records, if it is known from outside the sample.
fn known_rows<P: Population>(sample: &Sample<P>, facts: &Facts) -> Option<Number> {
    facts.rows.filter(|number| number.is_exact() || sample.share() < 1.0)
}

/// With fewer records or identities than this, the normal approximation is poor.
const FEW: f64 = 30.0;

impl<P: Population> EstimateQuery<P> {
    /// Counts of the frame, without and with regression.
    fn drawn(&self, sample: &Sample<P>, basis: Basis) -> Option<[Sums; 2]> {
        let drawn = sample.accumulated.frame.clone()?;
        let control = basis.of(&sample.accumulated.expected).and_then(Expected::of_rows);
        let corrected = control.and_then(|control| drawn.corrected(sample.share(), &control));
        let corrected = corrected.unwrap_or_else(|| drawn.clone());
        Some([drawn, corrected])
    }

    fn conditions<'a>(&self, sample: &Sample<P>, facts: &Facts, drawn: Option<&'a [Sums; 2]>) -> Conditions<'a> {
        Conditions {
            p: sample.share().min(1.0),
            alpha: self.alpha(sample),
            rows: known_rows(sample, facts),
            frame: facts.framed.zip(drawn).map(|(rows, [drawn, corrected])| Frame { rows, drawn, corrected }),
            // Rows with unequal weights are no binomial sample.
            clustered: sample.pilot.as_ref().is_some_and(|pilot| pilot.clustered)
                || sample.source.brought.weight.is_some(),
            stratified: self.tails.is_some() || self.kept_always().is_some(),
            control: None,
        }
    }

    fn alpha(&self, sample: &Sample<P>) -> f64 {
        let (alpha, stage) = (1.0 - self.options.confidence, sample.stages.max(1) as f64);
        if self.watched { alpha / (stage * (stage + 1.0)) } else { alpha }
    }

    /// The figures, in no order of groups. Accumulators may reorder their values.
    pub(super) fn figures(&self, sample: &mut Sample<P>, facts: &Facts) -> Vec<Figure> {
        self.figures_by(sample, facts, Basis::Expected)
    }

    pub(super) fn figures_as_drawn(&self, sample: &mut Sample<P>, facts: &Facts) -> Vec<Figure> {
        self.figures_by(sample, facts, Basis::Drawn)
    }

    fn figures_by(&self, sample: &mut Sample<P>, facts: &Facts, basis: Basis) -> Vec<Figure> {
        let drawn = self.drawn(sample, basis);
        let conditions = self.conditions(sample, facts, drawn.as_ref());
        let Some(pilot) = sample.pilot.clone() else { return self.nothing() };
        let (task, share, known_rows) = (&self.task, sample.share(), known_rows(sample, facts));
        if self.groups.fields().is_empty() && sample.accumulated.groups.is_empty() {
            let accumulators = task.empty(&pilot);
            sample.accumulated.groups.push(Group { label: vec![], accumulators, rows: 0 });
        }
        let mut figures = Vec::new();
        let keys = sample.accumulated.keys();
        let Accumulated { groups, expected, .. } = &mut sample.accumulated;
        for (index, (group, key)) in groups.iter_mut().zip(keys).enumerate() {
            for (number, (asked, accumulator)) in task.aggregates.iter().zip(&mut group.accumulators).enumerate() {
                let control = basis.of(expected).and_then(|expected| expected.control(key, number));
                let conditions = Conditions { control, ..conditions };
                figures.extend(accumulator.figures(&conditions).into_iter().map(|found| Figure {
                    aggregate: asked.name.clone(),
                    group: index,
                    bin: found.bin,
                    value: found.interval.value,
                    low: found.interval.low,
                    high: found.interval.high,
                    own: found.own.zip(asked.bound.own.clone()).map(|([value, low, high], data_type)| ExactInterval {
                        data_type,
                        value,
                        low,
                        high,
                    }),
                    fraction: share,
                    rows: found.records as u64,
                    exact: share >= 1.0 && found.interval.value.is_some(),
                }));
            }
        }
        if let Some(number) = known_rows {
            let half = normal(conditions.alpha) * number.error;
            for figure in &mut figures {
                let asked = task.aggregates.iter().position(|asked| asked.name == figure.aggregate);
                let complete = asked.and_then(|asked| facts.complete.get(asked)).copied().unwrap_or(false);
                let value = match asked.map(|asked| task.aggregates[asked].bound.properties) {
                    Some(known) if known.is_number_of_records || complete => Some(number.rows),
                    Some(known) if known.follows_from_number_of_records && number.is_exact() => figure.value,
                    _ => None,
                };
                let Some(all) = value else { continue };
                if number.is_exact() {
                    (figure.value, figure.low, figure.high) = (Some(all), all, all);
                    (figure.fraction, figure.rows, figure.exact) = (1.0, number.rows as u64, true);
                } else if 2.0 * half < figure.high - figure.low {
                    let low = (all - half).floor().max(figure.rows as f64);
                    (figure.value, figure.low, figure.high) = (Some(all.max(low)), low, (all + half).ceil());
                }
            }
        }
        self.with_totals(figures)
    }

    fn nothing(&self) -> Vec<Figure> {
        let Interval { value, low, high, .. } = Interval::unknown();
        let names = self.task.aggregates.iter().map(|asked| asked.name.clone());
        names
            .map(|aggregate| Figure {
                aggregate,
                group: 0,
                bin: vec![],
                value,
                low,
                high,
                own: None,
                fraction: 0.0,
                rows: 0,
                exact: false,
            })
            .collect()
    }

    fn first_column(&self, asked: &NamedAggregate) -> Option<usize> {
        let column = asked.bound.arguments.first().and_then(|argument| argument.column())?;
        Some(self.whole.place(column))
    }

    /// Adds bounds from zone maps, if time permits and all records were written.
    fn with_bounds(&self, mut facts: Facts, columns: impl IntoIterator<Item = usize>) -> Result<Facts> {
        let mut open: Vec<usize> = columns.into_iter().filter(|column| !facts.bounds.contains_key(column)).collect();
        open.sort_unstable();
        open.dedup();
        if open.is_empty() || !self.holds_all() {
            return Ok(facts);
        }
        if let Some(found) = self.in_time(|| zones::bounds(&self.whole, &open, self.deadline))? {
            facts.bounds.extend(open.into_iter().zip(found));
        }
        Ok(facts)
    }

    /// A constant sample is exact if zone maps show a constant column.
    pub(super) fn with_constants(&self, mut figures: Vec<Figure>, facts: Facts) -> Result<(Vec<Figure>, Facts)> {
        let alike =
            |figure: &Figure, name: &str| figure.aggregate == name && !figure.exact && figure.low == figure.high;
        let constant = |asked: &&NamedAggregate| {
            asked.bound.properties.alike_asks_zones && figures.iter().any(|figure| alike(figure, &asked.name))
        };
        let constants: Vec<(&NamedAggregate, usize)> = self
            .task
            .aggregates
            .iter()
            .filter(constant)
            .filter_map(|asked| Some((asked, self.first_column(asked)?)))
            .collect();
        let facts = self.with_bounds(facts, constants.iter().map(|(_, column)| *column))?;
        if !self.holds_all() {
            return Ok((figures, facts));
        }
        for (asked, column) in constants {
            let ends = facts.bounds_of(column);
            for figure in figures.iter_mut().filter(|figure| alike(figure, &asked.name)) {
                figure.exact = ends == Some((figure.low, figure.high));
            }
        }
        Ok((figures, facts))
    }

    /// Exact extremes, and bounds of values and bins, from zone maps.
    pub(super) fn with_extremes(
        &self,
        figures: Vec<Figure>,
        facts: Facts,
        sample: &Sample<P>,
    ) -> Result<(Vec<Figure>, Stats)> {
        let task = &self.task;
        let outer = self.outer_bins(&figures).into_iter().flat_map(|asked| &asked.bound.arguments);
        let columns = outer.filter_map(|argument| argument.column()).map(|column| self.whole.place(column));
        let columns: Vec<usize> = columns.collect();
        let facts = self.with_bounds(facts, columns)?;
        let mut figures = self.with_bins(figures, Some(&facts));
        let (decided, stats) = self.find_extremes(&mut figures)?;
        let unbounded = |figure: &Figure| !figure.exact && (figure.low.is_infinite() || figure.high.is_infinite());
        let constant = |figure: &Figure| !figure.exact && figure.low == figure.high;
        let open = |asked: &&NamedAggregate| {
            let mut mine = figures.iter().filter(|figure| figure.aggregate == asked.name);
            asked.bound.properties.lies_among_values
                && !decided.contains(&asked.name)
                && mine.any(|figure| unbounded(figure) || constant(figure))
        };
        let open: Vec<(&NamedAggregate, usize)> =
            task.aggregates.iter().filter(open).filter_map(|asked| Some((asked, self.first_column(asked)?))).collect();
        let facts = self.with_bounds(facts, open.iter().map(|(_, column)| *column))?;
        for asked in &task.aggregates {
            if asked.bound.properties.alike_asks_zones && self.first_column(asked).is_none() {
                unbind_constants(&mut figures, &asked.name);
            }
        }
        let alpha = self.alpha(sample);
        let cluster_size = sample.pilot.as_ref().map_or(1.0, |pilot| pilot.cluster_size);
        for (asked, column) in open {
            let Some((low, high)) = facts.bounds_of(column) else {
                unbind_constants(&mut figures, &asked.name);
                continue;
            };
            for figure in figures.iter_mut().filter(|figure| figure.aggregate == asked.name && !figure.exact) {
                if figure.low == figure.high && asked.bound.properties.alike_asks_zones {
                    // At most the fraction `unseen` of the records can differ, within the column's bounds.
                    let (value, unseen) = (figure.low, unseen_share(figure.rows as f64 / cluster_size, alpha));
                    (figure.low, figure.high) = (value - unseen * (value - low), value + unseen * (high - value));
                }
                (figure.low, figure.high) = (figure.low.max(low), figure.high.min(high));
            }
        }
        Ok((figures, stats))
    }

    /// Returns the decided aggregates and the cost.
    fn find_extremes(&self, figures: &mut [Figure]) -> Result<(BTreeSet<String>, Stats)> {
        if !self.groups.fields().is_empty() || !self.whole_range() {
            return Ok((BTreeSet::new(), Stats::default()));
        }
        let task = &self.task;
        let (mut sought, mut places) = (Vec::new(), Vec::new());
        for asked in &task.aggregates {
            let (Some(extremum), Some(column)) = (asked.bound.properties.extremum, self.first_column(asked)) else {
                continue;
            };
            let is_wide = asked.bound.own.as_ref().is_some_and(|own| !own::is_narrow(own));
            let mut mine = figures.iter().enumerate().filter(|(_, figure)| figure.aggregate == asked.name);
            // The sample read wide decimals as floats.
            let (Some((index, figure)), None) = (mine.next(), mine.next()) else { continue };
            if figure.exact && !is_wide {
                continue;
            }
            let whole = figure.own.as_ref().and_then(|own| own.value);
            sought.push(ExtremumTarget {
                column,
                extremum,
                seen: figure.value.map(|number| Extreme { number, whole }),
            });
            places.push((index, asked));
        }
        if sought.is_empty() {
            return Ok((BTreeSet::new(), Stats::default()));
        }
        let found = self.in_time(|| zones::exact(&self.whole, &sought, self.deadline))?;
        let Some((found, stats)) = found else { return Ok((BTreeSet::new(), Stats::default())) };
        let decided = places.iter().map(|(_, asked)| asked.name.clone()).collect();
        for ((index, asked), found) in places.into_iter().zip(found) {
            let figure = &mut figures[index];
            if let Some(Extreme { number, whole }) = found {
                (figure.value, figure.low, figure.high) = (Some(number), number, number);
                figure.own = whole.zip(asked.bound.own.clone()).map(|(whole, data_type)| {
                    let whole = Some(whole);
                    ExactInterval { data_type, value: whole, low: whole, high: whole }
                });
            }
            (figure.fraction, figure.exact) = (1.0, found.is_some());
        }
        Ok((decided, stats))
    }

    fn outer_bins(&self, figures: &[Figure]) -> Vec<&NamedAggregate> {
        let open = |asked: &&NamedAggregate| {
            let mine = |figure: &Figure| figure.aggregate == asked.name && !figure.exact && !figure.bin.is_empty();
            asked.bound.properties.outer_bins && figures.iter().any(mine)
        };
        self.task.aggregates.iter().filter(open).collect()
    }

    /// Extends outer bins of samples to the column's bounds, or to infinity.
    pub(super) fn with_bins(&self, mut figures: Vec<Figure>, facts: Option<&Facts>) -> Vec<Figure> {
        for asked in self.outer_bins(&figures) {
            for (direction, argument) in asked.bound.arguments.iter().enumerate() {
                let mine = |figure: &&mut Figure| figure.aggregate == asked.name && !figure.exact;
                let mut bins: Vec<&mut (f64, f64)> =
                    figures.iter_mut().filter(mine).filter_map(|figure| figure.bin.get_mut(direction)).collect();
                let first = bins.iter().map(|bin| bin.0).fold(f64::INFINITY, f64::min);
                let last = bins.iter().map(|bin| bin.1).fold(f64::NEG_INFINITY, f64::max);
                let column = argument.column().map(|column| self.whole.place(column));
                let known = facts.zip(column).and_then(|(facts, column)| facts.bounds_of(column));
                let (least, most) = known.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                for bin in &mut bins {
                    let (is_first, is_last) = (bin.0 == first, bin.1 == last);
                    bin.0 = if is_first { bin.0.min(least) } else { bin.0 };
                    bin.1 = if is_last { bin.1.max(most) } else { bin.1 };
                }
            }
        }
        figures
    }

    fn whole_range(&self) -> bool {
        self.options.query.window.is_none() && self.holds_all()
    }

    pub(super) fn estimate(
        &self,
        sample: &mut Sample<P>,
        facts: &Facts,
        mut figures: Vec<Figure>,
        stopped: Stop,
    ) -> Result<Estimate> {
        let groups = sample.accumulated.labels(&Schema::clone(&self.groups))?;
        let mut order: Vec<usize> = (0..groups.num_rows()).collect();
        let keys: Vec<Vec<u64>> =
            groups.columns().iter().map(|column| order::keys(column.as_ref()).unwrap_or_default()).collect();
        let shown = |row: &usize| {
            let texts = groups
                .columns()
                .iter()
                .map(|column| arrow_cast::display::array_value_to_string(column, *row).unwrap_or_default());
            let keys: Vec<Option<u64>> = keys
                .iter()
                .zip(groups.columns())
                .map(|(keys, column)| (!column.is_null(*row)).then(|| keys.get(*row).copied().unwrap_or(0)))
                .collect();
            (keys, texts.collect::<Vec<String>>())
        };
        order.sort_by_cached_key(shown);
        let order_of_groups = arrow_array::UInt32Array::from_iter_values(order.iter().map(|row| *row as u32));
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(index, row)| rank[*row] = index);
        figures.iter_mut().for_each(|figure| figure.group = rank.get(figure.group).copied().unwrap_or(0));
        // Stable, to keep the order of aggregates.
        figures.sort_by_key(|figure| figure.group);
        self.in_own_types(&mut figures);
        let grouped = !self.groups.fields().is_empty();
        let share = sample.share().min(1.0);
        let found = sample.accumulated.rows() as f64 / share.max(f64::MIN_POSITIVE);
        let columns = groups.columns().iter().zip(&self.task.group_by).map(|(column, group)| {
            let ordered = arrow_select::take::take(column, &order_of_groups, None).map_err(Error::kernel)?;
            group.answered(&ordered)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let fields = self.groups.fields().iter().zip(&columns);
        let fields = fields.map(|(field, column)| Field::clone(field).with_data_type(column.data_type().clone()));
        let group_schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(groups.num_rows()));
        let (rows_returned, seconds) = (sample.accumulated.rows(), self.begin.elapsed().as_secs_f64());
        Ok(Estimate {
            outlook: None,
            warnings: self.warnings(sample, facts, &figures, stopped),
            figures,
            groups: arrow_array::RecordBatch::try_new_with_options(group_schema, columns, &options)
                .map_err(Error::kernel)?,
            fraction: share,
            confidence: self.options.confidence,
            units: self.units.clone(),
            bin_units: self.bin_units.clone(),
            stats: Stats { rows_returned, seconds, ..sample.stats },
            stopped,
            missed_group: grouped.then(|| match share > 0.0 {
                // The sample fraction does not bound how often a group of light rows is missed.
                true if sample.source.brought.weight.is_some() && share < 1.0 => u64::MAX,
                true => missed_group(found.max(self.expected), share, self.alpha(sample)) as u64,
                false => u64::MAX,
            }),
        })
    }

    fn in_own_types(&self, figures: &mut [Figure]) {
        for figure in figures.iter_mut() {
            let asked = self.task.aggregates.iter().find(|asked| asked.name == figure.aggregate);
            let Some(own) = asked.and_then(|asked| asked.bound.own.as_ref()) else { continue };
            match &mut figure.own {
                Some(found) => found.bounded(figure.low, figure.high),
                found if figure.exact && own::is_narrow(own) => {
                    *found = Some(ExactInterval::rounded(own, figure.value, figure.low, figure.high));
                }
                _ => {}
            }
        }
        // Groups without a value get an empty exact value, so that the others keep theirs.
        for asked in &self.task.aggregates {
            let mine = || figures.iter().filter(|figure| figure.aggregate == asked.name);
            let (Some(own), true) = (asked.bound.own.as_ref(), mine().any(|figure| figure.own.is_some())) else {
                continue;
            };
            let without = |figure: &&mut Figure| figure.aggregate == asked.name && figure.value.is_none();
            for figure in figures.iter_mut().filter(without).filter(|figure| figure.own.is_none()) {
                let mut nothing = ExactInterval { data_type: own.clone(), value: None, low: None, high: None };
                nothing.bounded(figure.low, figure.high);
                figure.own = Some(nothing);
            }
        }
    }

    fn warnings(&self, sample: &mut Sample<P>, facts: &Facts, figures: &[Figure], stopped: Stop) -> Vec<String> {
        let drawn = self.drawn(sample, Basis::Expected);
        let conditions = self.conditions(sample, facts, drawn.as_ref());
        if sample.pilot.is_none() {
            return vec!["the time limit passed before any record was read".into()];
        }
        let task = &self.task;
        let mut warnings = Vec::new();
        for (number, asked) in task.aggregates.iter().enumerate() {
            let mut groups = sample.accumulated.groups.iter();
            if let Some(remark) = groups.find_map(|group| group.accumulators[number].remark(&conditions)) {
                warnings.push(format!("{}: {remark}", asked.name));
            }
        }
        if conditions.p >= 1.0 {
            return warnings;
        }
        let identity = self.whole.identity().filter(|_| conditions.clustered);
        let units = identity.as_deref().unwrap_or("records");
        let leaning = task.aggregates.iter().enumerate().filter(|(_, asked)| asked.bound.properties.bell_curve);
        for (number, NamedAggregate { name, bound }) in leaning {
            if bound.properties.unbounded {
                warnings.push(format!(
                    "{name}: it has no interval until all records are read, because it rounds or branches inside the \
                     formula: round the whole formula, or the result"
                ));
            }
            let (mut few, mut skewed, mut constant) = (0, 0, 0);
            let keys = sample.accumulated.keys();
            let Accumulated { groups, expected, .. } = &mut sample.accumulated;
            let figures = groups.iter_mut().zip(keys).flat_map(|(group, key)| {
                let control = expected.as_ref().and_then(|expected| expected.control(key, number));
                group.accumulators[number].figures(&Conditions { control, ..conditions })
            });
            for found in figures {
                let is_of_few = found.records < FEW || (conditions.clustered && found.interval.identities < FEW);
                few += is_of_few as u32;
                skewed += (found.interval.decided_by_few && !is_of_few) as u32;
                constant += found.interval.constant as u32;
            }
            let whose = |groups: u32| match self.groups.fields().is_empty() {
                true => String::new(),
                false => format!(" in {}", counted(groups.into(), "group")),
            };
            if few > 0 {
                warnings.push(format!("{name}: fewer than {FEW} {units} were read{}: read more records", whose(few)));
            }
            if skewed > 0 {
                warnings.push(format!(
                    "{name}: a few {units} decide it{}: with such heavy tails, the interval may contain the true value \
                     less often than its confidence; read more records, or set tails",
                    whose(skewed)
                ));
            }
            if constant > 0 {
                warnings.push(format!("{name}: all values in the sample are equal{}", whose(constant)));
            }
        }
        warnings.extend(self.warning_of_thinned(sample));
        if stopped != Stop::Goal && self.options.error.is_some() {
            let around_zero = figures.iter().find(|figure| !figure.exact && figure.low < 0.0 && figure.high > 0.0);
            if let Some(figure) = around_zero {
                warnings.push(format!(
                    "{}: the interval contains 0, so a relative error cannot be reached: give an absolute error",
                    figure.aggregate
                ));
            }
        }
        warnings
    }
}

/// A constant sample has no bounds if nothing bounds the other values.
fn unbind_constants(figures: &mut [Figure], aggregate: &str) {
    let alike = |figure: &&mut Figure| figure.aggregate == aggregate && !figure.exact && figure.low == figure.high;
    for figure in figures.iter_mut().filter(alike) {
        (figure.low, figure.high) = (f64::NEG_INFINITY, f64::INFINITY);
    }
}
