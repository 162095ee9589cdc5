//! Conditions on one column of texts, judged once for each label.
//!
//! Pages of texts with few values have codes and labels. The matching rows then follow from the codes, without an
//! array of the column.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};

use super::{Judged, Reading, RunPicks, pick_rows};
use crate::bind::BoundQuery;
use kubist_catalog::decoded::Keeper;
use kubist_format::decode;
use kubist_format::decoded::DecodedPage;
use kubist_format::distinct::Distinct;
use kubist_format::encode::varies_in_length;
use kubist_types::error::{Error, Result};

/// [`DecodedPage::rows_where`] needs at least as many truths.
const LEAST_TRUTHS: usize = 256;

/// The codes of as many later pages are prefetched, and the entries that lead to them twice as far ahead.
const PAGES_AHEAD: usize = 2;

/// The truth of a condition for all labels so far, and for null.
struct Truths<'a> {
    query: &'a BoundQuery,
    field: Field,
    labels: Distinct,
    /// By number of the label, 1 for true.
    of_labels: Vec<u8>,
    null: bool,
    /// By code in the current page: the number of the label, and its truth.
    numbers: Vec<u32>,
    of_codes: Vec<u8>,
}

impl<'a> Truths<'a> {
    fn new(query: &'a BoundQuery, field: &Field) -> Result<Truths<'a>> {
        let field = field.clone().with_nullable(true);
        let (labels, of_labels) = (Distinct::default(), Vec::new());
        let (numbers, of_codes) = (Vec::new(), Vec::new());
        let mut truths = Truths { query, field, labels, of_labels, null: false, numbers, of_codes };
        truths.null = truths.of([None].into_iter())?.contains(&1);
        Ok(truths)
    }

    fn of<'t>(&self, texts: impl Iterator<Item = Option<&'t [u8]>>) -> Result<Vec<u8>> {
        let texts = decode::texts(self.field.data_type(), texts).map_err(Error::Invalid)?;
        let schema = Arc::new(Schema::new(vec![self.field.clone()]));
        let batch = RecordBatch::try_new(schema, vec![texts]).map_err(Error::kernel)?;
        let found = self.query.predicate.evaluate(&batch, &|| self.query.cancel.is_set())?;
        Ok(found.values().iter().map(u8::from).collect())
    }

    fn enter(&mut self, page: &DecodedPage) -> Result<()> {
        self.numbers.clear();
        self.numbers.extend(page.by_code().into_iter().flatten().map(|label| self.labels.number(label)));
        let new = self.labels.values()[self.of_labels.len()..].iter().map(|label| Some(&**label));
        if new.len() > 0 {
            let of_new = self.of(new)?;
            self.of_labels.extend(of_new);
        }
        self.of_codes.clear();
        self.of_codes.extend(self.numbers.iter().map(|number| self.of_labels[*number as usize]));
        self.of_codes.resize(self.numbers.len().max(LEAST_TRUTHS), 0);
        Ok(())
    }
}

impl Reading<'_> {
    /// Returns the matching rows of open zones; `None` if anything else than one column of labels decides.
    pub(super) fn judge_labels(
        &mut self,
        open: &[RunPicks],
        judged: &Judged,
        keeper: Option<Keeper>,
    ) -> Result<Option<Vec<RunPicks>>> {
        let query = self.query;
        let [column] = judged.columns[..] else { return Ok(None) };
        let field = query.snapshot.view.schema.stored.field(column);
        if judged.by_priority || !judged.by_place.is_empty() || !varies_in_length(field.data_type()) {
            return Ok(None);
        }
        self.load(&[(open, &[column])])?;
        let has_labels = |run: &RunPicks| {
            let (map, kept) = (&self.maps[run.run], self.kept.get(run.run));
            let mut pages = run.picks.chunk_by(|a, b| a.page() == b.page()).map(|of_page| of_page[0].page());
            let is_kept = |page| kept.is_some_and(|kept| kept.has(map.place(page, column)));
            column < map.columns.len()
                && pages.all(|page| is_kept(page) || decode::has_labels(&self.page_column(run.run, page, column)))
        };
        if !open.iter().all(has_labels) {
            return Ok(None);
        }
        let decoded_pages = &query.snapshot.core.decoded_pages;
        let mut truths = Truths::new(query, field)?;
        let (mut survivors, mut copied, mut copied_bytes) = (Vec::new(), 0, 0);
        let kept_page = |run: usize, page: usize| self.kept.get(run)?.page(self.maps[run].place(page, column));
        let pages =
            open.iter().flat_map(|run| run.picks.chunk_by(|a, b| a.page() == b.page()).map(|page| (run.run, page)));
        let skipped = |count| pages.clone().skip(count).map(Some).chain(std::iter::repeat(None));
        let ahead = skipped(PAGES_AHEAD).zip(skipped(2 * PAGES_AHEAD));
        for ((run, of_page), (ahead, far_ahead)) in pages.clone().zip(ahead) {
            if let Some((run, of_page)) = far_ahead
                && let Some(kept) = self.kept.get(run)
            {
                kept.fetch_ahead(self.maps[run].place(of_page[0].page(), column));
            }
            if let Some((run, of_page)) = ahead
                && let Some(decoded) = kept_page(run, of_page[0].page())
            {
                decoded.fetch_codes();
            }
            query.cancel.check()?;
            let (map, page) = (&self.maps[run], of_page[0].page());
            let mut fresh = None;
            let decoded = match kept_page(run, page) {
                Some(decoded) => {
                    (copied, copied_bytes) = (copied + 1, copied_bytes + decoded.bytes());
                    decoded
                }
                None => {
                    let decoded = decode::decoded(field.data_type(), &self.page_column(run, page, column));
                    let decoded = decoded.map_err(|what| self.damaged(run, page, column, what))?;
                    &*fresh.insert(decoded.expect("the page has labels"))
                }
            };
            truths.enter(decoded)?;
            if survivors.last().is_none_or(|last: &RunPicks| last.run != run) {
                survivors.push(RunPicks { run, picks: Vec::new() });
            }
            let picks = &mut survivors.last_mut().expect("pushed above").picks;
            let (mut zone, mut first) = (map.page_zones(page).start, 0);
            for open_zone in of_page.iter().flat_map(|pick| pick.zones.clone()) {
                first += map.rows_of(&(zone..open_zone));
                let count = map.rows[open_zone];
                let rows = decoded.rows_where(first..first + count as usize, &truths.of_codes, truths.null);
                (zone, first) = (open_zone + 1, first + count as usize);
                pick_rows(picks, open_zone, rows, count);
            }
            if let (Some(fresh), Some(kept), Some(keeper)) = (fresh, self.kept.get(run), keeper)
                && decoded_pages.is_to_be_kept(kept, page, keeper)
            {
                decoded_pages.keep(kept, map.chunks.len(), map.place(page, column), fresh);
            }
        }
        survivors.retain(|run| !run.picks.is_empty());
        decoded_pages.note_copied(copied, copied_bytes);
        Ok(Some(survivors))
    }
}
