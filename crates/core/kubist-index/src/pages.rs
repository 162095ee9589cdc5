//! The directory of a large table, divided into pages of neighbouring runs (docs/design/manifest.md). The list of
//! pages, with their boxes and priorities, shows which pages a query may need, whatever the tree's depth.
//!
//! Pages must be compact in space, so runs of large inner cubes have separate pages (the upper tier). In a very large
//! directory, the inner cubes of subtrees that fit in a page have separate pages too (the middle tier), so a sample of
//! the whole table does not read a page per subtree. A page's box is in one grid, so all its runs are in one tree.
//!
//! A later level may lower the cutoff of a cube in an older level. A reader of the old cutoff must not miss the
//! new one, so the priorities of a later level's page begin at its lowest cutoff.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cube::{CubeId, GridBox, MAX_DIMENSIONS};
use crate::forest::{Forest, Region};
use crate::priority::{PriorityRange, Threshold};
use crate::state::Run;

#[derive(Clone, Debug, PartialEq)]
pub enum Entry<L> {
    Run(Arc<Run<L>>),
    Cutoff(CubeId, Threshold),
}

impl<L> Entry<L> {
    pub fn cube(&self) -> CubeId {
        match self {
            Entry::Run(run) => run.cube,
            Entry::Cutoff(cube, _) => *cube,
        }
    }
}

/// Runs and cutoffs of cubes, in depth-first order.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<L> {
    pub runs: Vec<Arc<Run<L>>>,
    pub cutoffs: Vec<(CubeId, Threshold)>,
}

impl<L> Default for Page<L> {
    fn default() -> Self {
        Page { runs: Vec::new(), cutoffs: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Runs of cubes whose subtree is larger than a page.
    Upper,
    Middle,
    /// The whole subtree is on the page.
    Lower,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::Upper, Tier::Middle, Tier::Lower];
}

#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub tier: Tier,
    pub runs: u32,
    pub grid: u32,
    pub span: GridBox,
    /// The range of the runs' priorities. In a later level it begins at the page's lowest cutoff, if that is lower.
    pub priorities: (u64, u64),
    /// The lowest priority of primary runs and, in a later level, of cutoffs; if unknown, the lowest priority of all
    /// runs.
    pub primaries_from: u64,
}

impl Summary {
    pub fn meets(&self, forest: &Forest, region: &Region, range: PriorityRange) -> bool {
        let Some((tree, grid_box)) = forest.tree(self.grid).zip(region.in_tree(self.grid)) else { return false };
        let mut dimensions = 0..tree.dimensions();
        range.meets(self.priorities.0, self.priorities.1)
            && dimensions.all(|d| self.span.low[d] <= grid_box.high[d] && self.span.high[d] >= grid_box.low[d])
    }

    pub fn may_hold_primaries(&self, range: PriorityRange) -> bool {
        range.meets(self.primaries_from, self.priorities.1)
    }
}

impl<L> Page<L> {
    pub fn len(&self) -> usize {
        self.runs.len() + self.cutoffs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn grid(&self) -> Option<u32> {
        self.cubes().next().map(CubeId::grid)
    }

    pub fn cubes(&self) -> impl Iterator<Item = CubeId> + '_ {
        self.runs.iter().map(|run| run.cube).chain(self.cutoffs.iter().map(|(cube, _)| *cube))
    }

    /// The page must not be empty.
    pub fn summary(&self, forest: &Forest, tier: Tier, is_later: bool) -> Summary {
        let grid = self.grid().unwrap_or(0);
        let around = |one: GridBox, other: GridBox| GridBox {
            low: std::array::from_fn(|d| one.low[d].min(other.low[d])),
            high: std::array::from_fn(|d| one.high[d].max(other.high[d])),
        };
        let spans = self.cubes().map(|cube| forest.tree_of(cube).span(cube));
        let span = spans.reduce(around).unwrap_or(GridBox { low: [0; MAX_DIMENSIONS], high: [0; MAX_DIMENSIONS] });
        // A cutoff of [`Threshold::ALL`] excludes nothing, so it needs no priority.
        let pass = |(_, cutoff): &(CubeId, Threshold)| u64::try_from(cutoff.to_u128()).ok();
        let of_cutoffs = self.cutoffs.iter().filter(|_| is_later).filter_map(pass).min();
        let of_primaries = self.runs.iter().filter(|run| run.copies.is_empty()).map(|run| run.priorities.0).min();
        let of_runs = self.runs.iter().map(|run| run.priorities);
        let priorities = of_runs
            .chain(of_cutoffs.map(|first| (first, u64::MAX)))
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        Summary {
            tier,
            runs: self.runs.len() as u32,
            grid,
            span,
            priorities: priorities.unwrap_or((0, u64::MAX)),
            primaries_from: of_primaries.into_iter().chain(of_cutoffs).min().unwrap_or(u64::MAX),
        }
    }

    fn push(&mut self, entry: Entry<L>) {
        match entry {
            Entry::Run(run) => self.runs.push(run),
            Entry::Cutoff(cube, cutoff) => self.cutoffs.push((cube, cutoff)),
        }
    }
}

/// Maximum numbers of entries on a page, and in a subtree of the lower tier.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub page: usize,
    /// At most the size of a page; if equal, there is no middle tier.
    pub subtree: usize,
}

impl Sizes {
    pub fn in_two_tiers(page: usize) -> Sizes {
        Sizes { page: page.max(1), subtree: page.max(1) }
    }

    pub fn in_three_tiers(page: usize, subtree: usize) -> Sizes {
        Sizes { page: page.max(1), subtree: subtree.clamp(1, page.max(1)) }
    }
}

/// Divides entries, in depth-first order of their cubes, into pages. Buffers at most the entries of four pages.
pub struct Dealer<L> {
    forest: Forest,
    sizes: Sizes,
    /// Entries that wait for later ones, at most a page; they show whether a subtree fits on a page.
    ahead: VecDeque<Entry<L>>,
    fitting: usize,
    is_later: bool,
    open: [Page<L>; 3],
}

pub type Dealt<L> = (Summary, Page<L>);

impl<L> Dealer<L> {
    /// `is_later`: the level is not the oldest one.
    pub fn new(forest: Forest, sizes: Sizes, is_later: bool) -> Dealer<L> {
        Dealer { forest, sizes, ahead: VecDeque::new(), fitting: 0, is_later, open: Default::default() }
    }

    /// Returns a page that this entry completes.
    pub fn push(&mut self, entry: Entry<L>) -> Option<Dealt<L>> {
        self.ahead.push_back(entry);
        if self.ahead.len() > self.sizes.page { self.deal() } else { None }
    }

    pub fn finish(mut self) -> Vec<Dealt<L>> {
        let mut pages = Vec::new();
        while !self.ahead.is_empty() {
            pages.extend(self.deal());
        }
        pages.extend(Tier::ALL.into_iter().rev().filter_map(|tier| self.complete(tier)));
        pages
    }

    fn deal(&mut self) -> Option<Dealt<L>> {
        let (mut tier, mut together) = (Tier::Lower, 0);
        if self.fitting == 0 {
            let cube = self.ahead.front()?.cube();
            let end = self.forest.tree_of(cube).end_of(cube);
            let inside = self.ahead.partition_point(|entry| entry.cube().to_u128() < end);
            (tier, together) = match inside {
                inside if inside > self.sizes.page => (Tier::Upper, 1),
                inside if inside > self.sizes.subtree => (Tier::Middle, 1),
                inside => (Tier::Lower, inside),
            };
            if tier == Tier::Lower {
                self.fitting = inside;
            }
        }
        let entry = self.ahead.pop_front()?;
        let page = &self.open[tier as usize];
        let is_full = page.len() + together > self.sizes.page;
        let is_of_other_tree = page.grid().is_some_and(|grid| grid != entry.cube().grid());
        let done = if is_full || is_of_other_tree { self.complete(tier) } else { None };
        self.fitting -= usize::from(tier == Tier::Lower);
        self.open[tier as usize].push(entry);
        done
    }

    fn complete(&mut self, tier: Tier) -> Option<Dealt<L>> {
        let page = std::mem::take(&mut self.open[tier as usize]);
        (!page.is_empty()).then(|| (page.summary(&self.forest, tier, self.is_later), page))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cube::Geometry;
    use crate::directory::Directory;
    use crate::gradual::Never;
    use crate::state::RunId;
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Generates cubes and their ancestors in depth-first order, with up to three runs each. By I2, the priorities of a
    /// level's runs begin at the cutoffs above it.
    fn entries(rng: &mut SmallRng, geometry: Geometry, count: usize) -> Vec<Entry<()>> {
        let cutoff = |level: u32| (level as u64) << 60;
        let mut cubes = BTreeSet::new();
        for _ in 0..count {
            let coordinate = |_| rng.random_range(0..=geometry.last_coordinate()) >> rng.random_range(0..8);
            let point: Vec<u32> = (0..geometry.dimensions()).map(coordinate).collect();
            let cube = geometry.cube_of(geometry.key(&point), rng.random_range(0..7));
            cubes.insert(cube);
            cubes.extend(geometry.ancestors(cube));
        }
        let mut entries = Vec::new();
        for cube in cubes {
            for _ in 0..rng.random_range(0..=3) {
                let first = rng.random_range(cutoff(cube.level())..=u64::MAX);
                let priorities = (first, rng.random_range(first..=u64::MAX));
                let id = RunId(entries.len() as u128);
                entries.push(Entry::Run(Arc::new(Run { id, cube, rows: 1, priorities, copies: vec![], payload: () })));
            }
            if cube.level() < 7 {
                entries.push(Entry::Cutoff(cube, Threshold::new(cutoff(cube.level() + 1) as u128)));
            }
        }
        entries
    }

    fn all<'a>(pages: impl Iterator<Item = &'a Page<()>> + Clone) -> (Vec<Arc<Run<()>>>, Vec<(CubeId, Threshold)>) {
        let runs = pages.clone().flat_map(|page| page.runs.iter().cloned()).collect();
        (runs, pages.flat_map(|page| page.cutoffs.iter().copied()).collect())
    }

    fn part<'a>(forest: &Forest, pages: impl Iterator<Item = &'a Page<()>> + Clone) -> Directory<()> {
        let (runs, cutoffs) = all(pages);
        let Ok(part) = Directory::of_part(forest.clone(), runs.into_iter(), cutoffs.into_iter(), &Never);
        part
    }

    fn read(directory: &Directory<()>, region: &Region, range: PriorityRange) -> BTreeSet<RunId> {
        let Ok(plan) = directory.plan(region, range, &Never);
        plan.visits.iter().map(|visit| visit.run.id).collect()
    }

    proptest! {
        #[test]
        fn every_entry_is_on_one_page_and_questions_find_it(
            seed in any::<u64>(), k in 1usize..=4, grids in 0u32..3, count in 0usize..500, most in 1usize..60,
        ) {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut forest = Forest::of(Geometry::new(k).unwrap());
            for grid in 1..=grids {
                forest.learn(Geometry::of_grid(grid, 1 + (k + grid as usize) % 4).unwrap()).unwrap();
            }
            let mut entries: Vec<_> = forest.trees().flat_map(|tree| entries(&mut rng, tree, count)).collect();
            for (number, entry) in entries.iter_mut().enumerate() {
                if let Entry::Run(run) = entry {
                    Arc::make_mut(run).id = RunId(number as u128);
                }
            }
            let sizes = Sizes::in_three_tiers(most, most / rng.random_range(1..=8));
            let mut dealer = Dealer::new(forest.clone(), sizes, false);
            let mut pages = Vec::new();
            for entry in &entries {
                pages.extend(dealer.push(entry.clone()));
                prop_assert!(dealer.ahead.len() + dealer.open.iter().map(Page::len).sum::<usize>() <= 4 * most);
            }
            pages.extend(dealer.finish());
            for (summary, page) in &pages {
                prop_assert!((1..=most).contains(&page.len()) && summary.runs as usize == page.runs.len());
                prop_assert!(page.cubes().all(|cube| cube.grid() == summary.grid));
            }
            prop_assert!(sizes.subtree < sizes.page || pages.iter().all(|(summary, _)| summary.tier != Tier::Middle));
            for tier in Tier::ALL {
                let of_tier = pages.iter().filter(|(summary, _)| summary.tier == tier);
                let cubes: Vec<CubeId> = of_tier.flat_map(|(_, page)| page.runs.iter().map(|run| run.cube)).collect();
                prop_assert!(cubes.is_sorted());
            }
            let (runs, cutoffs) = all(pages.iter().map(|(_, page)| page));
            prop_assert_eq!(runs.len() + cutoffs.len(), entries.len());
            let Ok(whole) = Directory::of(forest.clone(), runs.into_iter(), cutoffs.into_iter(), &Never);
            for _ in 0..10 {
                let mut region = Region::default();
                for tree in forest.trees() {
                    let mut grid_box = tree.everything();
                    for d in 0..tree.dimensions() {
                        let (a, b) = (rng.random_range(0..=tree.last_coordinate()), rng.random::<u32>());
                        (grid_box.low[d], grid_box.high[d]) = (a.min(b), a.max(b).min(tree.last_coordinate()));
                    }
                    region.insert(tree.grid(), grid_box);
                }
                let first: u64 = rng.random::<u64>() >> rng.random_range(0..4);
                let range = PriorityRange { first, last: rng.random_range(first..=u64::MAX) };
                let met = pages.iter().filter(|(summary, _)| summary.meets(&forest, &region, range));
                let near = part(&forest, met.map(|(_, page)| page));
                let read = |directory: &Directory<()>| read(directory, &region, range);
                prop_assert_eq!(read(&near), read(&whole));
                let met = pages.iter().filter(|(summary, _)| {
                    summary.meets(&forest, &region, range) && summary.may_hold_primaries(range)
                });
                let near = part(&forest, met.map(|(_, page)| page));
                prop_assert_eq!(read(&near), read(&whole));
            }
        }
    }

    proptest! {
        #[test]
        fn questions_find_everything_in_pages_of_several_levels(
            seed in any::<u64>(), k in 1usize..=3, levels in 2usize..5, count in 0usize..200, most in 1usize..30,
        ) {
            let mut rng = SmallRng::seed_from_u64(seed);
            let geometry = Geometry::new(k).unwrap();
            let forest = Forest::of(geometry);
            let mut of_levels: Vec<Vec<Entry<()>>> = vec![Vec::new(); levels];
            for entry in entries(&mut rng, geometry, count) {
                let Entry::Cutoff(cube, lowest) = entry else {
                    of_levels[rng.random_range(0..levels)].push(entry);
                    continue;
                };
                let last = rng.random_range(0..levels);
                let mut cutoff = 1 << 64;
                for (level, entries) in of_levels.iter_mut().enumerate().take(last + 1) {
                    cutoff = if level == last { lowest.to_u128() } else { rng.random_range(lowest.to_u128()..=cutoff) };
                    if level == last || rng.random() {
                        entries.push(Entry::Cutoff(cube, Threshold::new(cutoff)));
                    }
                }
            }
            let mut pages = Vec::new();
            for (level, entries) in of_levels.into_iter().enumerate() {
                let sizes = Sizes::in_three_tiers(most, most / rng.random_range(1..=8));
                let mut dealer = Dealer::new(forest.clone(), sizes, level > 0);
                let dealt: Vec<_> = entries.into_iter().filter_map(|entry| dealer.push(entry)).collect();
                pages.extend(dealt.into_iter().chain(dealer.finish()));
            }
            let (runs, cutoffs) = all(pages.iter().map(|(_, page)| page));
            let Ok(whole) = Directory::of(forest.clone(), runs.into_iter(), cutoffs.into_iter(), &Never);
            for _ in 0..20 {
                let mut grid_box = GridBox { low: [0; MAX_DIMENSIONS], high: [0; MAX_DIMENSIONS] };
                for d in 0..k {
                    let low = rng.random_range(0..=geometry.last_coordinate());
                    let width = geometry.last_coordinate() >> rng.random_range(0..20);
                    (grid_box.low[d], grid_box.high[d]) = (low, low.saturating_add(width).min(geometry.last_coordinate()));
                }
                let region = Region::in_grid(0, grid_box);
                let first: u64 = [0, rng.random::<u64>() >> rng.random_range(0..4)][rng.random_range(0..2)];
                let range = PriorityRange { first, last: rng.random_range(first..=u64::MAX) };
                let met = pages.iter().filter(|(summary, _)| summary.meets(&forest, &region, range));
                let near = part(&forest, met.map(|(_, page)| page));
                let read = |directory: &Directory<()>| read(directory, &region, range);
                prop_assert!(read(&near).is_superset(&read(&whole)));
            }
        }
    }

    #[test]
    fn a_point_meets_few_pages() {
        let geometry = Geometry::new(3).unwrap();
        let mut entries = Vec::new();
        let mut open = vec![CubeId::root(0)];
        while let Some(cube) = open.pop() {
            let run = Run {
                id: RunId(cube.to_u128()),
                cube,
                rows: 1,
                priorities: (0, u64::MAX),
                copies: vec![],
                payload: (),
            };
            entries.push(Entry::Run(Arc::new(run)));
            if cube.level() < 5 {
                open.extend(geometry.children(cube));
            }
        }
        entries.sort_by_key(Entry::cube);
        let sizes = Sizes::in_two_tiers(100);
        let mut dealer = Dealer::new(Forest::of(geometry), sizes, false);
        let mut pages: Vec<Dealt<()>> = entries.into_iter().filter_map(|entry| dealer.push(entry)).collect();
        pages.extend(dealer.finish());
        let point = Region::in_grid(0, GridBox { low: [1 << 30; 8], high: [1 << 30; 8] });
        let all = PriorityRange { first: 0, last: u64::MAX };
        let met = pages.iter().filter(|(summary, _)| summary.meets(&Forest::of(geometry), &point, all)).count();
        // 37,449 runs. On one path, cubes with more than 100 entries below share pages with others.
        assert!(pages.len() > 400 && met <= 8, "{met} of {}", pages.len());
    }
}
