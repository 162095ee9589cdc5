//! Budgets: the records of a step that all writers together keep, with a priority below a common threshold.
//!
//! Each writer contributes a **share**: a histogram of its records' priorities, and the inputs of the conditions. The
//! caller sums the shares, from which every writer derives the same decision.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use kubist::{ErrorKind, Table, Thinned};
use kubist_expr::{Predicate, never};
use kubist_index::budget::{BINS, bin, threshold};
use kubist_index::priority::Threshold;

use crate::failure::{Failure, Result};
use crate::persist::{self, Persist};
use crate::sample;

/// The first words of a share: writers that cannot end the step, writers, hash of the options, records, and
/// cost of always-kept records. Counts for conditions and the histogram follow.
const FAILED: usize = 0;
const WRITERS: usize = 1;
const PLAN: usize = 2;
const ALWAYS: usize = 3;
const COUNTS: usize = 4;
const FIRST_BIN: usize = COUNTS + persist::MOST;

/// Numbers of summed words and of maxima in a share, together less than 64 KiB.
pub const SHARE_WORDS: usize = FIRST_BIN + BINS;
pub const SHARE_LARGEST: usize = persist::MOST;

/// Limits per step; by default none.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct BudgetOptions {
    /// Largest number of records in a step, over all writers.
    pub rows_per_step: Option<u64>,
    /// Largest number of bytes of their values, before encoding.
    pub bytes_per_step: Option<u64>,
    /// Largest number of bytes in `steps` steps together.
    pub bytes: Option<u64>,
    pub steps: Option<u64>,
    /// A condition on columns whose records are kept at any priority.
    pub always_keep: Option<String>,
    /// A condition on aggregates of all records; other steps are not kept.
    pub persist_when: Option<String>,
    /// If a step keeps an identity, all earlier steps keep it too. The default is true with a limit, unless there are
    /// several identity columns and one is a dimension.
    pub whole_paths: Option<bool>,
    pub shared: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub words: Vec<u64>,
    pub largest: Vec<f64>,
}

impl Share {
    pub fn empty() -> Share {
        let mut words = vec![0; SHARE_WORDS];
        words[WRITERS] = 1;
        Share { words, largest: vec![f64::NEG_INFINITY; SHARE_LARGEST] }
    }

    /// The share of a writer that cannot end the step; then none can.
    pub fn failed() -> Share {
        let mut share = Share::empty();
        share.words[FAILED] = 1;
        share
    }

    /// Checks the sum of all shares; `plan` is the hash of the options.
    ///
    /// # Errors
    ///
    /// `Unavailable` if a writer cannot end the step, `Invalid` if budgets differ.
    pub fn check(words: &[u64], largest: &[f64], plan: u64, step: i64) -> Result<()> {
        if words.len() != SHARE_WORDS || largest.len() != SHARE_LARGEST {
            let (found, also) = (words.len(), largest.len());
            return Err(Failure::invalid(format!(
                "a share has {SHARE_WORDS} words and {SHARE_LARGEST} largest values, found {found} and {also}"
            )));
        }
        match words[FAILED] {
            0 if words[PLAN] != plan.wrapping_mul(words[WRITERS]) => {
                Err(Failure::invalid(format!("the writers of step {step} have different budgets")))
            }
            0 => Ok(()),
            failed => {
                let all = words[WRITERS];
                let message = format!("{failed} of {all} writers cannot end step {step}: it stays open");
                Err(Failure::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    Keep(Threshold),
    /// Keep nothing; every writer abandons the step.
    Drop,
}

pub struct Offer {
    pub batch: RecordBatch,
    pub priorities: Vec<u64>,
    pub always: Option<BooleanArray>,
    pub bytes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    Rows(u64),
    Bytes(u64),
    InAll { bytes: u64, steps: u64 },
}

pub struct Budget {
    table: Table,
    /// With the units that conditions use.
    schema: SchemaRef,
    /// Hash of the options that all writers must share; 0 without a common decision.
    plan: u64,
    limit: Limit,
    always: Option<String>,
    persist: Option<Persist>,
    whole_paths: bool,
    /// The table stores the threshold per step.
    thins: bool,
    pub shared: bool,
    known: Option<BTreeMap<i64, Charge>>,
    offers: Option<Vec<Offer>>,
    decision: Option<Decision>,
}

/// A repeated step counts once.
struct Charge {
    below: Threshold,
    bytes: u64,
}

impl Budget {
    /// Returns `None` if every step is kept whole; with `thins`, a full queue may subsample a step.
    ///
    /// # Errors
    ///
    /// `Invalid` names the wrong option, or a budget smaller than one record.
    pub fn of(table: &Table, options: &BudgetOptions, thins: bool) -> Result<Option<Budget>> {
        let nothing = BudgetOptions { shared: options.shared, ..BudgetOptions::default() };
        if *options == nothing && !thins {
            return Ok(None);
        }
        let is_plain = *options == nothing;
        let snapshot = table.snapshot()?;
        let schema = snapshot.schema();
        let limit = limit(options, &schema)?;
        let has_limit = !matches!(limit, Limit::None);
        if let Some(condition) = &options.always_keep {
            let wrong = |error| Failure::invalid(format!("always_keep {condition:?}: {error}"));
            Predicate::parse(condition, &schema).map_err(wrong)?;
        }
        let persist = options.persist_when.as_deref().map(|text| Persist::new(text, &schema)).transpose()?;
        let info = snapshot.about()?;
        let is_dimension = |name: &String| info.dimensions.iter().any(|dimension| dimension.column == *name);
        let moves = info.identity.len() > 1 && info.identity.iter().any(is_dimension);
        let whole_paths = options.whole_paths.unwrap_or(has_limit && !moves);
        if thins && whole_paths {
            return Err(Failure::invalid(
                "when_full \"thin\" cannot keep whole paths, because a writer with a full queue keeps fewer records \
                 than the others: set whole_paths to false, or when_full to \"block\" or \"fail\"",
            ));
        }
        let thins = thins || has_limit;
        if thins {
            // Fails for a table without identity, whose priorities depend on the writer.
            table.priorities(&RecordBatch::new_empty(schema.clone()))?;
            table.keep_below()?;
        }
        let mut plan = DefaultHasher::new();
        options.hash(&mut plan);
        Ok(Some(Budget {
            table: table.clone(),
            schema,
            // Prevents overflow of sums.
            plan: if is_plain { 0 } else { plan.finish() >> 24 },
            limit,
            always: options.always_keep.clone(),
            persist,
            // A full queue alone has no threshold for the whole step.
            whole_paths: whole_paths && has_limit,
            thins,
            shared: options.shared && !is_plain,
            known: None,
            offers: None,
            decision: None,
        }))
    }

    pub fn decision(&self) -> Option<Decision> {
        self.decision
    }

    pub fn is_offered(&self) -> bool {
        self.offers.is_some()
    }

    pub fn offers(&self) -> &[Offer] {
        self.offers.as_deref().unwrap_or_default()
    }

    pub fn forget(&mut self) {
        (self.offers, self.decision) = (None, None);
    }

    /// # Errors
    ///
    /// `Invalid` for a condition; as `Table::priorities`.
    pub fn offer(&mut self, batches: Vec<RecordBatch>) -> Result<()> {
        let offer = |batch: RecordBatch| {
            let batch = self.measured(&batch)?;
            let always = self.always.as_ref().map(|condition| {
                let held = Predicate::parse(condition, &batch.schema()).and_then(|held| held.evaluate(&batch, &never));
                held.map_err(|error| Failure::invalid(format!("always_keep {condition:?}: {error}")))
            });
            let priorities = match self.thins {
                true => self.table.priorities(&batch)?,
                false => vec![0; batch.num_rows()],
            };
            Ok(Offer { always: always.transpose()?, bytes: sample::bytes(&batch)?, priorities, batch })
        };
        self.offers = Some(batches.into_iter().map(offer).collect::<Result<_>>()?);
        Ok(())
    }

    /// The batch with the table's units, and values rounded as stored, for conditions and sums.
    fn measured(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let batch = &self.table.rounded(batch)?;
        let fields = batch.schema_ref().fields().iter().map(|field| match self.schema.field_with_name(field.name()) {
            Ok(known) => Arc::new(field.as_ref().clone().with_metadata(known.metadata().clone())),
            Err(_) => field.clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let measured = RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options);
        measured.map_err(|error| Failure::from(kubist::Error::internal(error)))
    }

    /// # Errors
    ///
    /// As [`Budget::offer`]; as `Table::snapshot`.
    pub fn share(&mut self, step: i64) -> Result<Share> {
        self.look_up(step)?;
        let mut share = Share::empty();
        share.words[PLAN] = self.plan;
        for offer in self.offers() {
            if let Some(persist) = &self.persist {
                let counts = &mut share.words[COUNTS..FIRST_BIN];
                persist.add(&offer.batch, counts, &mut share.largest)?;
            }
            for (row, priority) in offer.priorities.iter().enumerate() {
                let cost = match self.limit {
                    Limit::None | Limit::Rows(_) => 1,
                    Limit::Bytes(_) | Limit::InAll { .. } => offer.bytes[row],
                };
                let place = if offer.is_kept_always(row) { ALWAYS } else { FIRST_BIN + bin(*priority) };
                share.words[place] += cost;
            }
        }
        Ok(share)
    }

    /// A restarted solver continues its budget, and may find later steps retracted.
    fn look_up(&mut self, step: i64) -> Result<()> {
        let goes_back = |known: &BTreeMap<i64, Charge>| known.range(step..).next().is_some();
        if self.decision.is_some() || self.known.as_ref().is_some_and(|known| !goes_back(known)) {
            return Ok(());
        }
        let there = self.table.snapshot()?.thinned();
        match &mut self.known {
            // The table may lack steps of other writers, but all writers must decide alike.
            Some(known) => known.retain(|at, _| *at < step || there.contains_key(at)),
            None => {
                let charge = |(step, thinned): (i64, Thinned)| {
                    (step, Charge { below: Threshold::from_fraction(thinned.below), bytes: thinned.bytes })
                };
                self.known = Some(there.into_iter().map(charge).collect());
            }
        }
        Ok(())
    }

    /// # Errors
    ///
    /// `Invalid` if budgets differ; `NoSpace` if always-kept records exceed the budget, or none is left.
    pub fn decide(&mut self, words: &[u64], largest: &[f64], step: i64) -> Result<()> {
        Share::check(words, largest, self.plan, step)?;
        if self.decision.is_some() {
            return Ok(());
        }
        if let Some(persist) = &self.persist
            && !persist.holds(&words[COUNTS..FIRST_BIN], largest)?
        {
            self.decision = Some(Decision::Drop);
            return Ok(());
        }
        let Some(known) = &mut self.known else {
            return Err(Failure::new(ErrorKind::Internal, "a step was decided without a share"));
        };
        let others = || known.iter().filter(|(at, _)| **at != step);
        let (budget, unit) = match self.limit {
            Limit::None => (u64::MAX, "records"),
            Limit::Rows(rows) => (rows, "records"),
            Limit::Bytes(bytes) => (bytes, "bytes"),
            Limit::InAll { bytes, steps } if steps <= others().count() as u64 && !known.contains_key(&step) => {
                let message = format!("the budget of {bytes} bytes was for {steps} steps, and all of them are written");
                return Err(Failure::new(ErrorKind::NoSpace, message));
            }
            Limit::InAll { bytes, steps } => {
                let spent = others().map(|(_, charge)| charge.bytes).fold(0, u64::saturating_add);
                let left = steps.saturating_sub(others().count() as u64).max(1);
                (bytes.saturating_sub(spent) / left, "bytes")
            }
        };
        let always = words[ALWAYS];
        if always > budget {
            let message = format!(
                "always_keep alone needs {always} {unit} in step {step}, but the budget is {budget}: increase it, or \
                 keep fewer records"
            );
            return Err(Failure::new(ErrorKind::NoSpace, message));
        }
        let bins = &words[FIRST_BIN..];
        let mut below = threshold(bins, budget - always);
        if self.whole_paths {
            below = known.range(..step).map(|(_, charge)| charge.below).fold(below, Threshold::min);
        }
        let held = |(place, _): &(usize, &u64)| kubist_index::budget::edge(*place) < below;
        let kept: u64 = bins.iter().enumerate().filter(held).map(|(_, cost)| *cost).sum();
        let charge = known.entry(step).or_insert(Charge { below, bytes: 0 });
        *charge = Charge { below: charge.below.min(below), bytes: charge.bytes.max(always + kept) };
        self.decision = Some(Decision::Keep(below));
        Ok(())
    }

    /// The kept rows, and the totals of all rows if some may be missing.
    ///
    /// # Errors
    ///
    /// `Internal`.
    pub fn kept(&self, below: Threshold) -> Result<(Vec<RecordBatch>, Option<Thinned>)> {
        if !self.thins {
            return Ok((self.offers().iter().map(|offer| offer.batch.clone()).collect(), None));
        }
        // Table and writer use the same threshold, rounded as stored.
        let fraction = below.to_fraction();
        let below = Threshold::from_fraction(fraction);
        let mut thinned = Thinned { below: fraction, rows: 0, always: 0, bytes: 0, sums: BTreeMap::new() };
        let (mut batches, mut sums) = (Vec::new(), sample::Sums::default());
        for offer in self.offers() {
            sums.add(&offer.batch)?;
            thinned.rows += offer.batch.num_rows() as u64;
            let is_kept = |row: usize| offer.is_kept_always(row) || below.admits(offer.priorities[row]);
            let kept: BooleanArray = (0..offer.batch.num_rows()).map(|row| Some(is_kept(row))).collect();
            let rows = (0..kept.len()).filter(|row| kept.value(*row));
            thinned.bytes += rows.clone().map(|row| offer.bytes[row]).sum::<u64>();
            if below == Threshold::ALL {
                batches.push(offer.batch.clone());
                continue;
            }
            thinned.always += rows.clone().filter(|row| offer.is_kept_always(*row)).count() as u64;
            let of_row = |row: usize| if offer.is_kept_always(row) { 1.0 } else { fraction };
            batches.push(sample::taken(&offer.batch, &kept, rows.map(of_row).collect())?);
        }
        thinned.sums = sums.finish();
        Ok((batches, Some(thinned)))
    }
}

impl Offer {
    fn is_kept_always(&self, row: usize) -> bool {
        self.always.as_ref().is_some_and(|always| always.is_valid(row) && always.value(row))
    }
}

fn limit(options: &BudgetOptions, schema: &Schema) -> Result<Limit> {
    let BudgetOptions { rows_per_step, bytes_per_step, bytes, steps, .. } = *options;
    let record = sample::least_bytes(schema);
    let small = |name: &str, found: u64| {
        Err(Failure::invalid(format!("{name} is {found}, but a record needs at least {record} bytes: no record fits")))
    };
    match (rows_per_step, bytes_per_step, bytes, steps) {
        (None, None, None, None) => Ok(Limit::None),
        (Some(0), None, None, None) => Err(Failure::invalid("budget_rows_per_step is 0: no record fits")),
        (Some(rows), None, None, None) => Ok(Limit::Rows(rows)),
        (None, Some(bytes), None, None) if bytes < record => small("budget_bytes_per_step", bytes),
        (None, Some(bytes), None, None) => Ok(Limit::Bytes(bytes)),
        (None, None, Some(_), None | Some(0)) => {
            Err(Failure::invalid("budget_bytes needs budget_steps, the number of steps that share it"))
        }
        (None, None, Some(bytes), Some(steps)) if bytes / steps < record => {
            small("budget_bytes of a step", bytes / steps)
        }
        (None, None, Some(bytes), Some(steps)) => Ok(Limit::InAll { bytes, steps }),
        _ => Err(Failure::invalid(
            "give only one of budget_rows_per_step, budget_bytes_per_step, and budget_bytes with budget_steps",
        )),
    }
}
