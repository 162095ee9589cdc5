//! The engine's tests in one program; `--test it absurd::` runs the tests of `absurd.rs`.

mod common;
mod fresh;
mod values;

#[rustfmt::skip] // as it stands on the page
#[path = "../../../stores/kubist-store/tests/example/bucket.rs"]
mod bucket;
#[rustfmt::skip]
#[path = "../../../stores/kubist-store/tests/example/scheme.rs"]
mod scheme;

mod absurd;
mod accuracy;
mod alter;
mod bad_values;
mod budgets;
mod cancel;
mod cluster;
mod columns;
mod crash;
mod damage;
mod digests;
mod directory;
mod estimates;
mod expected;
mod faults;
mod faulty_reads;
mod figures;
mod golden;
mod grids;
mod holes;
mod identity;
mod interleave;
mod levels;
mod live;
mod long_lists;
mod lookup;
mod losses;
mod merged_lookups;
mod optimizer;
mod oracle;
mod order;
mod parts;
mod plan;
mod planner;
mod processes;
mod ranges;
mod refresh;
mod ring;
mod salvage;
mod schemes;
mod sealed;
mod shared;
mod trouble;
mod untrusted_paths;
mod verify;
mod weights;
mod whole;
