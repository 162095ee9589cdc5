//! The binary form of log entries and of pages of checkpoints.

mod live;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubist_index::cube::{CubeId, Geometry, MAX_DIMENSIONS};
use kubist_index::forest::Forest;
use kubist_index::priority::Threshold;
use kubist_index::state::{Commit, Rewrite, Run, RunId};
use kubist_types::thinned::{ColumnSum, Thinned};
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::error::EntryError;
use crate::location::{Location, Origin};
use crate::lookups;
use crate::ranges;
use crate::wire::{Reader, UnexpectedEnd, put_text};
pub use live::{Page, decode_live, decode_page, decode_pages, encode_live, encode_page, encode_pages, runs_of_page};

/// One entry of a writer's log: the runs of a commit, with metadata for the planner and the location of their
/// bytes, and cutoffs.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitEntry {
    pub sequence: u64,
    pub rows: u64,
    /// `None` until the writer appends the entry to its log.
    pub link: Option<Link>,
    /// The token; a second commit with the same token is a retry.
    pub token: Option<String>,
    pub step: Option<StepMark>,
    /// For copied rows: the number of rows per original step.
    pub steps: Vec<(i64, u64)>,
    /// The totals of all records in subsampled steps.
    pub thinned: Vec<(i64, Thinned)>,
    pub commit: Commit<Location>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub previous: Chain,
    /// A random number, which distinguishes commits of two copies of a table.
    pub salt: u64,
    /// Number of alterations that the writer knew, so that readers can report one that is missing later.
    pub alterations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMark {
    pub step: i64,
    /// Whether the writer will never commit this step; the entry then has no rows.
    pub abandoned: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RewriteEntry {
    pub previous: Chain,
    pub rewrite: Rewrite<Location>,
    /// Retracts all later steps in commits before the positions in `rewrite.needs`.
    pub retract_after: Option<i64>,
    /// Time of writing, in milliseconds since 1970, for the retention of files.
    pub unix_ms: u64,
}

/// The first byte of a commit entry, before its number and rows.
pub const COMMIT: u8 = 1;
const REWRITE: u8 = 2;

/// Tags of sections. A reader skips sections with unknown odd tags, and refuses the entry if an unknown tag is
/// even.
mod section {
    pub const END: u16 = 0;
    pub const LOOKUPS: u16 = 1;
    pub const RUNS: u16 = 2;
    pub const RANGES: u16 = 3;
    pub const CUTOFFS: u16 = 4;
    pub const REMOVES: u16 = 6;
    pub const NEEDS: u16 = 8;
    pub const TOKEN: u16 = 10;
    pub const STEP: u16 = 12;
    pub const RETRACT: u16 = 14;
    pub const TIME: u16 = 16;
    pub const STEPS: u16 = 18;
    pub const RUN_STEPS: u16 = 20;
    pub const GRIDS: u16 = 22;
    pub const PAGES: u16 = 24;
    pub const THINNED: u16 = 26;
    pub const LINK: u16 = 28;
    pub const KNOWN: [u16; 16] = [
        LOOKUPS, RUNS, RANGES, CUTOFFS, REMOVES, NEEDS, TOKEN, STEP, RETRACT, TIME, STEPS, RUN_STEPS, GRIDS, PAGES,
        THINNED, LINK,
    ];
}

fn put_section(tag: u16, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
}

/// Lists the grids of an entry's cubes, except the first, so that an entry can be read alone.
fn put_grids(cubes: impl Iterator<Item = CubeId>, forest: &Forest, out: &mut Vec<u8>) {
    let mut grids: Vec<u32> = cubes.map(CubeId::grid).filter(|grid| *grid > 0).collect();
    grids.sort_unstable();
    grids.dedup();
    if !grids.is_empty() {
        put_section(section::GRIDS, &grids_body(&grids, forest), out);
    }
}

fn cubes_of(runs: &[Arc<Run<Location>>], cutoffs: &[(CubeId, Threshold)]) -> impl Iterator<Item = CubeId> {
    runs.iter().map(|run| run.cube).chain(cutoffs.iter().map(|(cube, _)| *cube))
}

fn grids_body(grids: &[u32], forest: &Forest) -> Vec<u8> {
    let mut body = Vec::with_capacity(grids.len() * 5);
    for tree in grids.iter().filter_map(|grid| forest.tree(*grid)) {
        body.extend_from_slice(&tree.grid().to_le_bytes());
        body.push(tree.dimensions() as u8);
    }
    body
}

fn learn_grids(body: &[u8], forest: &mut Forest) -> Result<(), EntryError> {
    let mut reader = Reader::new(body);
    while !reader.is_empty() {
        let (grid, dimensions) = (reader.u32()?, reader.u8()?);
        let tree = Geometry::of_grid(grid, dimensions.into());
        let tree = tree.ok_or_else(|| EntryError::Bad(format!("grid {grid} cannot have {dimensions} dimensions")))?;
        forest.learn(tree).map_err(|error| EntryError::Bad(error.to_string()))?;
    }
    Ok(())
}

fn sections_of<'a>(reader: &mut Reader<'a>, forest: &mut Forest) -> Result<Vec<(u16, &'a [u8])>, EntryError> {
    let (grids, others): (Vec<_>, Vec<_>) = sections(reader)?.into_iter().partition(|(tag, _)| *tag == section::GRIDS);
    grids.into_iter().try_for_each(|(_, body)| learn_grids(body, forest))?;
    Ok(others)
}

fn put_commit(runs: &[Arc<Run<Location>>], cutoffs: &[(CubeId, Threshold)], forest: &Forest, out: &mut Vec<u8>) {
    put_grids(cubes_of(runs, cutoffs), forest, out);
    put_runs(runs, forest, out);
    put_cutoffs(cutoffs, out);
}

fn take_commit(tag: u16, body: &[u8], forest: &Forest, commit: &mut Commit<Location>) -> Result<bool, EntryError> {
    match tag {
        section::RUNS => commit.runs = some_runs(body, forest, |_| true)?.runs,
        section::LOOKUPS => lookups::attach(body, &mut commit.runs)?,
        section::RANGES => attach_ranges(body, &mut commit.runs)?,
        section::CUTOFFS => commit.cutoffs = cutoffs(body, forest)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn put_runs(runs: &[Arc<Run<Location>>], forest: &Forest, out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(runs.len() * 120);
    let mut segments: Vec<&Arc<str>> = runs.iter().map(|run| &run.payload.segment).collect();
    segments.sort_unstable();
    segments.dedup();
    body.extend_from_slice(&(segments.len() as u32).to_le_bytes());
    segments.iter().for_each(|segment| put_text(segment, &mut body));
    body.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    for run in runs {
        let location = &run.payload;
        body.extend_from_slice(&run.id.0.to_le_bytes());
        body.extend_from_slice(&run.cube.to_u128().to_le_bytes());
        for word in [
            run.rows,
            run.priorities.0,
            run.priorities.1,
            location.data_offset,
            location.data_length,
            location.map_offset,
        ] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&location.map_length.to_le_bytes());
        let segment = segments.binary_search(&&location.segment).unwrap_or_default() as u32;
        body.extend_from_slice(&segment.to_le_bytes());
        for d in 0..forest.tree_of(run.cube).dimensions() {
            body.extend_from_slice(&location.low[d].to_le_bytes());
            body.extend_from_slice(&location.high[d].to_le_bytes());
        }
        body.extend_from_slice(&(run.copies.len() as u32).to_le_bytes());
        for source in &run.copies {
            body.extend_from_slice(&source.0.to_le_bytes());
        }
    }
    put_section(section::RUNS, &body, out);
    if let Some(lookups) = lookups::encode(runs) {
        put_section(section::LOOKUPS, &lookups, out);
    }
    if let Some(ranges) = ranges::encode(runs.iter().map(|run| run.payload.ranges.as_ref())) {
        put_section(section::RANGES, &ranges, out);
    }
}

#[derive(Default)]
struct SomeRuns {
    runs: Vec<Arc<Run<Location>>>,
    places: Vec<usize>,
    all: usize,
}

fn some_runs(body: &[u8], forest: &Forest, wanted: impl Fn(RunId) -> bool) -> Result<SomeRuns, EntryError> {
    let mut reader = Reader::new(body);
    let mut segments: Vec<Arc<str>> = Vec::new();
    for _ in 0..reader.u32()? {
        segments.push(reader.text()?.into());
    }
    let all = reader.u32()? as usize;
    let (mut runs, mut places) = (Vec::with_capacity(all.min(body.len() / 96)), Vec::new());
    for place in 0..all {
        let (id, cube_id) = (RunId(reader.u128()?), reader.u128()?);
        if !wanted(id) {
            let dimensions = forest.dimensions_of(cube_id).ok_or_else(|| no_cube(cube_id))?;
            reader.bytes(6 * 8 + 2 * 4 + 8 * dimensions)?;
            let copies = reader.u32()? as usize;
            reader.bytes(16 * copies)?;
            continue;
        }
        let cube = cube(cube_id, forest)?;
        let rows = reader.u64()?;
        let priorities = (reader.u64()?, reader.u64()?);
        let (data_offset, data_length, map_offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let map_length = reader.u32()?;
        let segment = reader.u32()? as usize;
        let segment = segments.get(segment).ok_or_else(|| EntryError::Bad(format!("it has no segment {segment}")))?;
        let (mut low, mut high) = ([0; MAX_DIMENSIONS], [0; MAX_DIMENSIONS]);
        for d in 0..forest.tree_of(cube).dimensions() {
            (low[d], high[d]) = (reader.u32()?, reader.u32()?);
        }
        let copies = (0..reader.u32()?).map(|_| Ok(RunId(reader.u128()?))).collect::<Result<_, UnexpectedEnd>>()?;
        let segment = segment.clone();
        let payload = Location {
            segment,
            data_offset,
            data_length,
            map_offset,
            map_length,
            low,
            high,
            origin: None,
            lookup: None,
            ranges: None,
        };
        runs.push(Arc::new(Run { id, cube, rows, priorities, copies, payload }));
        places.push(place);
    }
    Ok(SomeRuns { runs, places, all })
}

fn put_cutoffs(cutoffs: &[(CubeId, Threshold)], out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(cutoffs.len() * 32);
    for (cube, cutoff) in cutoffs {
        body.extend_from_slice(&cube.to_u128().to_le_bytes());
        body.extend_from_slice(&cutoff.to_u128().to_le_bytes());
    }
    put_section(section::CUTOFFS, &body, out);
}

fn attach_ranges(body: &[u8], runs: &mut [Arc<Run<Location>>]) -> Result<(), UnexpectedEnd> {
    let ranges = ranges::decode(body, runs.len())?;
    for (index, run) in runs.iter_mut().enumerate() {
        Arc::make_mut(run).payload.ranges = Some(ranges.of_run(index));
    }
    Ok(())
}

fn sections<'a>(reader: &mut Reader<'a>) -> Result<Vec<(u16, &'a [u8])>, EntryError> {
    let mut found = Vec::new();
    loop {
        let tag = reader.u16()?;
        let length = reader.u32()? as usize;
        let body = reader.bytes(length)?;
        match tag {
            section::END => return Ok(found),
            known if section::KNOWN.contains(&known) => found.push((tag, body)),
            optional if optional & 1 == 1 => {}
            unknown => return Err(EntryError::Newer(format!("it has a section {unknown} of a newer format"))),
        }
    }
}

fn cube(id: u128, forest: &Forest) -> Result<CubeId, EntryError> {
    forest.cube_from_u128(id).ok_or_else(|| no_cube(id))
}

fn no_cube(id: u128) -> EntryError {
    EntryError::Bad(format!("{id:#x} is not a cube"))
}

fn cutoffs(body: &[u8], forest: &Forest) -> Result<Vec<(CubeId, Threshold)>, EntryError> {
    let mut reader = Reader::new(body);
    let mut found = Vec::with_capacity(body.len() / 32);
    while !reader.is_empty() {
        let (id, cutoff) = (reader.u128()?, reader.u128()?);
        found.push((cube(id, forest)?, Threshold::new(cutoff)));
    }
    Ok(found)
}

impl CommitEntry {
    pub fn encode(&self, forest: &Forest) -> Vec<u8> {
        let mut out = vec![COMMIT];
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        if let Some(Link { previous, salt, alterations }) = self.link {
            let body = [&previous.0.to_le_bytes()[..], &salt.to_le_bytes(), &alterations.to_le_bytes()].concat();
            put_section(section::LINK, &body, &mut out);
        }
        if let Some(token) = &self.token {
            put_section(section::TOKEN, token.as_bytes(), &mut out);
        }
        if let Some(StepMark { step, abandoned }) = self.step {
            let mut body = step.to_le_bytes().to_vec();
            body.push(abandoned as u8);
            put_section(section::STEP, &body, &mut out);
        }
        if !self.steps.is_empty() {
            let pairs = self.steps.iter().flat_map(|(step, rows)| [*step as u64, *rows]);
            let body: Vec<u8> = pairs.flat_map(u64::to_le_bytes).collect();
            put_section(section::STEPS, &body, &mut out);
        }
        if !self.thinned.is_empty() {
            put_section(section::THINNED, &thinned_body(&self.thinned), &mut out);
        }
        put_commit(&self.commit.runs, &self.commit.cutoffs, forest, &mut out);
        put_section(section::END, &[], &mut out);
        out
    }

    /// # Errors
    ///
    /// [`EntryError`] if the bytes are invalid or from a newer version.
    pub fn decode(bytes: &[u8], forest: &mut Forest) -> Result<CommitEntry, EntryError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            COMMIT => {}
            kind => return Err(EntryError::Newer(format!("it is of kind {kind}, which this version does not know"))),
        }
        let (sequence, rows) = (reader.u64()?, reader.u64()?);
        let mut commit = Commit::default();
        let (mut link, mut token, mut step, mut steps, mut thinned) = (None, None, None, Vec::new(), Vec::new());
        for (tag, body) in sections_of(&mut reader, forest)? {
            if take_commit(tag, body, forest, &mut commit)? {
                continue;
            }
            match tag {
                section::LINK => {
                    let mut reader = Reader::new(body);
                    let (previous, salt, alterations) = (Chain(reader.u128()?), reader.u64()?, reader.u64()?);
                    link = Some(Link { previous, salt, alterations });
                }
                section::TOKEN => token = Some(std::str::from_utf8(body).map_err(|_| UnexpectedEnd)?.to_string()),
                section::STEP => {
                    let mut reader = Reader::new(body);
                    step = Some(StepMark { step: reader.u64()? as i64, abandoned: reader.u8()? != 0 });
                }
                section::STEPS => {
                    let mut reader = Reader::new(body);
                    while !reader.is_empty() {
                        steps.push((reader.u64()? as i64, reader.u64()?));
                    }
                }
                section::THINNED => thinned = thinned_steps(body)?,
                _ => return Err(EntryError::Bad(format!("a commit has no section {tag}"))),
            }
        }
        Ok(CommitEntry { sequence, rows, link, token, step, steps, thinned, commit })
    }
}

impl RewriteEntry {
    pub fn encode(&self, forest: &Forest) -> Vec<u8> {
        let mut out = vec![REWRITE];
        put_section(section::LINK, &self.previous.0.to_le_bytes(), &mut out);
        put_section(section::TIME, &self.unix_ms.to_le_bytes(), &mut out);
        if let Some(step) = self.retract_after {
            put_section(section::RETRACT, &step.to_le_bytes(), &mut out);
        }
        let mut needs = Vec::new();
        for (writer, position) in &self.rewrite.needs {
            put_text(writer, &mut needs);
            needs.extend_from_slice(&position.to_le_bytes());
        }
        put_section(section::NEEDS, &needs, &mut out);
        put_removes(&self.rewrite.removes, &mut out);
        put_commit(&self.rewrite.runs, &self.rewrite.cutoffs, forest, &mut out);
        put_section(section::END, &[], &mut out);
        out
    }

    /// # Errors
    ///
    /// [`EntryError`] if the bytes are invalid or from a newer version.
    pub fn decode(bytes: &[u8], forest: &mut Forest) -> Result<RewriteEntry, EntryError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            REWRITE => {}
            kind => return Err(EntryError::Newer(format!("it is of kind {kind}, which this version does not know"))),
        }
        let (mut commit, mut removes, mut needs) = (Commit::default(), Vec::new(), Vec::new());
        let (mut previous, mut retract_after, mut unix_ms) = (None, None, 0);
        for (tag, body) in sections_of(&mut reader, forest)? {
            if take_commit(tag, body, forest, &mut commit)? {
                continue;
            }
            let mut reader = Reader::new(body);
            match tag {
                section::LINK => previous = Some(Chain(reader.u128()?)),
                section::TIME => unix_ms = reader.u64()?,
                section::RETRACT => retract_after = Some(reader.u64()? as i64),
                section::REMOVES => removes = removed(body)?,
                section::NEEDS => {
                    while !reader.is_empty() {
                        needs.push((reader.text()?.to_string(), reader.u64()?));
                    }
                }
                _ => return Err(EntryError::Bad(format!("a rewrite has no section {tag}"))),
            }
        }
        let previous = previous.ok_or_else(|| EntryError::Bad("it does not name the previous rewrite".into()))?;
        let Commit { runs, cutoffs } = commit;
        Ok(RewriteEntry { previous, rewrite: Rewrite { runs, removes, cutoffs, needs }, retract_after, unix_ms })
    }
}

fn thinned_body(steps: &[(i64, Thinned)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (step, Thinned { below, rows, always, bytes, sums }) in steps {
        for word in [*step as u64, below.to_bits(), *rows, *always, *bytes] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&(sums.len() as u32).to_le_bytes());
        for (column, ColumnSum { values, sum }) in sums {
            put_text(column, &mut body);
            body.extend_from_slice(&values.to_le_bytes());
            body.extend_from_slice(&sum.to_bits().to_le_bytes());
        }
    }
    body
}

fn thinned_steps(body: &[u8]) -> Result<Vec<(i64, Thinned)>, EntryError> {
    let (mut reader, mut steps) = (Reader::new(body), Vec::new());
    while !reader.is_empty() {
        let (step, below) = (reader.u64()? as i64, f64::from_bits(reader.u64()?));
        if !(0.0..=1.0).contains(&below) {
            return Err(EntryError::Bad(format!(
                "step {step} has the sample fraction {below}, which is not from 0 to 1"
            )));
        }
        let (rows, always, bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        if always > rows {
            return Err(EntryError::Bad(format!("step {step} has {rows} records, but {always} were always kept")));
        }
        let mut thinned = Thinned { below, rows, always, bytes, sums: BTreeMap::new() };
        for _ in 0..reader.u32()? {
            let column = reader.text()?.to_string();
            let sum = ColumnSum { values: reader.u64()?, sum: f64::from_bits(reader.u64()?) };
            if !sum.sum.is_finite() {
                return Err(EntryError::Bad(format!("the sum of column {column:?} of step {step} is not finite")));
            }
            thinned.sums.insert(column, sum);
        }
        steps.push((step, thinned));
    }
    Ok(steps)
}

/// Writes the steps of runs. Runs of a log entry have none, because the entry has the step.
fn put_steps(runs: &[Arc<Run<Location>>], out: &mut Vec<u8>) {
    let mut body = Vec::new();
    for (index, run) in (0u32..).zip(runs) {
        if let Some(step) = run.payload.origin.as_ref().and_then(|origin| origin.step) {
            body.extend_from_slice(&index.to_le_bytes());
            body.extend_from_slice(&step.to_le_bytes());
        }
    }
    if !body.is_empty() {
        put_section(section::RUN_STEPS, &body, out);
    }
}

fn set_steps(body: &[u8], runs: &mut [Arc<Run<Location>>]) -> Result<(), EntryError> {
    let mut reader = Reader::new(body);
    let mut last: Option<Arc<Origin>> = None;
    while !reader.is_empty() {
        let (index, step) = (reader.u32()? as usize, Some(reader.u64()? as i64));
        let run = runs.get_mut(index).ok_or_else(|| EntryError::Bad(format!("it has no run {index}")))?;
        let origin = last.filter(|origin| origin.step == step);
        let origin = origin.unwrap_or_else(|| Arc::new(Origin { writer: "".into(), position: 0, step }));
        Arc::make_mut(run).payload.origin = Some(origin.clone());
        last = Some(origin);
    }
    Ok(())
}

fn put_removes(removes: &[RunId], out: &mut Vec<u8>) {
    let body: Vec<u8> = removes.iter().flat_map(|run| run.0.to_le_bytes()).collect();
    put_section(section::REMOVES, &body, out);
}

fn removed(body: &[u8]) -> Result<Vec<RunId>, UnexpectedEnd> {
    let (mut reader, mut runs) = (Reader::new(body), Vec::with_capacity(body.len() / 16));
    while !reader.is_empty() {
        runs.push(RunId(reader.u128()?));
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::{Lookup, OfColumn};
    use kubist_expr::{Nulls, Zone};

    #[test]
    fn some_runs_of_a_page_are_what_they_are_among_all() {
        let mut forest = Forest::of(Geometry::new(2).unwrap());
        forest.learn(Geometry::of_grid(1, 3).unwrap()).unwrap();
        let mut gathered = ranges::RangesBuilder::default();
        let zone = |run: i64| Zone { min: run as u64, max: 2 * run as u64, nulls: Nulls::Some };
        (0..40).for_each(|run| gathered.add([(3, zone(run)), (5, zone(9))].into_iter()));
        let of_column = OfColumn { column: 5, offset: 1, blocks_length: 70, directory_length: 8, index_length: 3 };
        let lookup = Lookup { segment: "b".into(), first: 7, runs: 20, columns: vec![of_column] };
        let lookup = Arc::new(lookup);
        let runs = (0u32..).zip(gathered.finish(40)).map(|(number, ranges)| {
            let cube = CubeId::root(number % 2);
            let payload = Location {
                segment: ["a", "b"][number as usize % 2].into(),
                data_offset: number.into(),
                data_length: 5,
                map_offset: 6,
                map_length: number,
                low: [number % 2; MAX_DIMENSIONS].map(|one| one * number),
                high: [0; MAX_DIMENSIONS],
                origin: None,
                lookup: Some(lookup.clone()).filter(|_| (7..27).contains(&number)),
                ranges: Some(ranges),
            };
            let copies = (0..number % 4).map(|source| RunId::new(1, 2, source)).collect();
            let id = RunId::new(4, 5, number);
            Arc::new(Run { id, cube, rows: 9, priorities: (1, number as u64), copies, payload })
        });
        let page = Page { runs: runs.collect(), cutoffs: vec![(CubeId::root(1), Threshold::new(77))] };
        let bytes = encode_page(page, &forest);
        let all = decode_page(&bytes, &mut forest).unwrap().runs;
        assert_eq!(all.len(), 40);
        for every in [1, 3, 7, 39, 100] {
            let wanted = |run: RunId| (run.0 as u32 + 1) % every == 0;
            let expected: Vec<_> = all.iter().filter(|run| wanted(run.id)).cloned().collect();
            assert_eq!(runs_of_page(&bytes, &mut forest, wanted).unwrap(), expected);
        }
        for end in 0..bytes.len() {
            assert!(runs_of_page(&bytes[..end], &mut forest, |_| true).is_err());
        }
    }

    #[test]
    fn an_unknown_section_is_skipped_if_odd_and_newer_if_even() {
        let forest = &mut Forest::of(Geometry::new(1).unwrap());
        let with_section = |tag: u16| {
            let mut bytes = vec![COMMIT];
            bytes.extend_from_slice(&[0; 16]);
            put_section(tag, b"?", &mut bytes);
            put_section(section::END, &[], &mut bytes);
            bytes
        };
        assert!(CommitEntry::decode(&with_section(999), forest).is_ok());
        let newer = CommitEntry::decode(&with_section(998), forest);
        assert_eq!(newer, Err(EntryError::Newer("it has a section 998 of a newer format".into())));
        assert!(matches!(CommitEntry::decode(&[9], forest), Err(EntryError::Newer(_))));
    }

    #[test]
    fn what_is_said_of_thinned_steps_is_checked() {
        let sums = BTreeMap::from([("x".to_string(), ColumnSum { values: 9, sum: 4.5 })]);
        let thinned = Thinned { below: 0.5, rows: 10, always: 3, bytes: 80, sums };
        let steps = [(7, thinned.clone()), (9, thinned.clone())];
        assert_eq!(thinned_steps(&thinned_body(&steps)).unwrap(), steps);
        for (wrong, word) in [
            (Thinned { below: 1.5, ..thinned.clone() }, "not from 0 to 1"),
            (Thinned { always: 11, ..thinned.clone() }, "11 were always kept"),
        ] {
            let error = thinned_steps(&thinned_body(&[(7, wrong)])).unwrap_err();
            assert!(matches!(&error, EntryError::Bad(said) if said.contains(word)), "{error:?}");
        }
        let most = Thinned { rows: u64::MAX, ..thinned.clone() };
        assert_eq!(most.join(&thinned).rows, u64::MAX);
    }
}
