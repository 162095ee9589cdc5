//! Building a directory and planning can be cancelled at any check, and there are enough checks.

use std::cell::Cell;
use std::sync::Arc;

use kubist_index::cube::{CubeId, Geometry};
use kubist_index::directory::Directory;
use kubist_index::forest::{Forest, Region};
use kubist_index::gradual::{Never, PIECE, Stop};
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::state::{Run, RunId};

struct Counted {
    looks: Cell<usize>,
    stop: usize,
}

impl Stop for Counted {
    type Stopped = usize;

    fn look(&self) -> Result<(), usize> {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() == self.stop { Err(self.stop) } else { Ok(()) }
    }
}

fn stops_anywhere(work: &str, least: usize, play: impl Fn(&Counted) -> Result<(), usize>) {
    let unstopped = Counted { looks: Cell::new(0), stop: usize::MAX };
    play(&unstopped).unwrap();
    let all = unstopped.looks.get();
    assert!(all >= least, "{work} looks {all} times, not {least}");
    for stop in (1..=all).step_by(1 + all / 7).chain([all]) {
        assert_eq!(play(&Counted { looks: Cell::new(0), stop }), Err(stop), "{work}");
    }
}

#[test]
fn arranging_and_planning_many_runs_stop() {
    let geometry = Geometry::new(2).unwrap();
    let forest = Forest::of(geometry);
    let count = 6 * PIECE;
    let cube = |number: usize| {
        let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        geometry.cube_of(geometry.key(&[mixed as u32, (mixed >> 32) as u32]), 10)
    };
    let run = |number: usize| Run {
        id: RunId(number as u128),
        cube: cube(number),
        rows: 1,
        priorities: (0, u64::MAX),
        copies: vec![],
        payload: (),
    };
    let replica = |number: usize| Run {
        id: RunId((count + number) as u128),
        cube: geometry.ancestors(cube(number)).find(|cube| cube.level() == 9).unwrap(),
        copies: vec![RunId(number as u128)],
        ..run(number)
    };
    let runs: Vec<Arc<Run<()>>> = (0..count).map(|n| Arc::new(run(n))).collect();
    let with_replicas: Vec<_> = runs.iter().cloned().chain((0..count / 8).map(|n| Arc::new(replica(n)))).collect();
    let cutoffs = || {
        let root = (CubeId::root(0), Threshold::new(1));
        std::iter::once(root).chain((0..count / 2).map(|n| (cube(n), Threshold::new(1 << 20))))
    };
    for runs in [runs, with_replicas] {
        stops_anywhere("arranging", 4 * count / PIECE, |stop| {
            Directory::of(forest.clone(), runs.iter().cloned(), cutoffs(), stop).map(|_| ())
        });
        let Ok(directory) = Directory::of(forest.clone(), runs.iter().cloned(), cutoffs(), &Never);
        let region = Region::everything(&forest);
        stops_anywhere("planning", 2, |stop| directory.plan(&region, PriorityRange::ALL, stop).map(|_| ()));
        stops_anywhere("planning primaries", 2, |stop| {
            directory.plan_primaries(&region, PriorityRange::ALL, stop).map(|_| ())
        });
    }
}
